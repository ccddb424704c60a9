"""Which members of a container run, and which are taken to be like them: never one that does something else."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace import stamp
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph import Graph

pytestmark = pytest.mark.by_the_day

WIDTH = 8


class Block(nn.Module):
    """x + α F(N(x)); subclasses and arguments make the α of one block differ from that of another."""

    def __init__(self, index: int, steps: int = 1) -> None:
        super().__init__()
        self.index, self.steps = index, steps
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)

    def branch(self, x: Tensor) -> Tensor:
        h = self.up(self.norm(x))
        for _ in range(self.steps):
            h = torch.relu(h)
        return self.down(h)


class Multiplied(Block):
    """Its index goes into an op that never asks Python for its value."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) * self.index


class Compared(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) if self.index % 2 else x - self.branch(x)


class Spelled(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) if f"{self.index}".endswith("0") else x - self.branch(x)


class Scaled(Block):
    def __init__(self, index: int, steps: int = 1) -> None:
        super().__init__(index, steps)
        self.factor = 1.0 / (1 + index)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) * self.factor


class Told(Block):
    def forward(self, x: Tensor, place: int) -> Tensor:  # type: ignore[override]  # the index is handed over
        return x + self.branch(x)


class ToldAndUses(Block):
    def forward(self, x: Tensor, place: int) -> Tensor:  # type: ignore[override]  # the index is handed over
        return x + self.branch(x) * (1 + place)


class HandsOn(Block):
    """Gives the next one its place."""

    def forward(self, x: Tensor, place: int) -> tuple[Tensor, int]:  # type: ignore[override]  # the index is handed over
        return x + self.branch(x), place


class WithState(Block):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # a state beside the stream
        y = self.branch(x)
        return x + y, y.mean(1)


class Last(Block):
    """Nothing in it says so, and the last one does something else."""

    place = 0

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) if Last.place < 39 else x - torch.tanh(self.branch(x))


class Model(nn.Module):
    def __init__(self, kind: type[Block], count: int, steps: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(kind(i, steps) for i in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            Last.place = number
            x = block(x, number) if isinstance(block, Told | ToldAndUses | HandsOn) else block(x)
            x = x[0] if isinstance(block, HandsOn) else x
        return x


class States(Model):
    """Collects the states of its blocks; `read` of them go into the output."""

    def __init__(self, count: int, read: Callable[[list[Tensor]], Any]) -> None:
        super().__init__(WithState, count)
        self.read = read

    def forward(self, x: Tensor) -> Any:
        states = []
        for block in self.blocks:
            x, state = block(x)
            states.append(state)
        return x, self.read(states)


def ran(model: nn.Module) -> tuple[int, Graph]:
    """How many blocks ran, and the graph."""
    with torch.device("meta"):
        graph = trace(model.to("meta"), (torch.zeros(1, 4, WIDTH),), {})
    assert graph.failure is None
    return sum(n.op == "layer_norm" for n in graph.nodes), graph


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Model(Block, 40), 5), (Model(Told, 40), 5), (Model(Multiplied, 40), 40), (Model(Compared, 40), 40), (Model(Scaled, 40), 40),
        (Model(Spelled, 40), 40), (Model(HandsOn, 40), 40),
        (Model(ToldAndUses, 40), 40), (Model(Last, 40), 40), (Model(Block, 32), 32), (Model(Block, 12, steps=300), 4),
        (Model(Block, 4, steps=300), 4), (Model(Multiplied, 12, steps=300), 12),
        (States(40, lambda s: None), 5), (States(40, lambda s: s[30]), 40), (States(40, sum), 40),
    ],
    ids=lambda v: f"{v.blocks[0]._get_name()} x{len(v.blocks)}" if isinstance(v, Model) else str(v),
)  # fmt: skip
def test_only_equal_members_are_passed_over(model: Model, expected: int) -> None:
    assert ran(model)[0] == expected


class Config:
    """A table that all blocks share."""

    kinds = tuple(10 <= n < 40 for n in range(48))


FLAGS = [10 <= n < 40 for n in range(48)]
SEEN: set[int] = set()


class Tabled(Block):
    """Which way it goes is asked of `rule`: blocks 10 to 39 of 48 differ."""

    def __init__(self, index: int, rule: Callable[[Tabled], bool]) -> None:
        super().__init__(index)
        self.rule = rule

    def forward(self, x: Tensor) -> Tensor:
        return x - torch.tanh(self.branch(x)) if self.rule(self) else x + self.branch(x)


class Handed(Block):
    """Its index is an argument, and the key of a table."""

    def forward(self, x: Tensor, place: int) -> Tensor:  # type: ignore[override]  # the index is handed over
        return x - torch.tanh(self.branch(x)) if FLAGS[place] else x + self.branch(x)


class Row(nn.Module):
    """48 blocks, counted by the caller."""

    def __init__(self, make: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(make(i) for i in range(48))

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            Last.place = number
            x = block(x, number) if isinstance(block, Handed) else block(x)
        return x


RULES: dict[str, Callable[[Tabled], bool]] = {
    "list": lambda b: FLAGS[b.index],
    "attribute of a config": lambda b: Config.kinds[b.index],
    "text": lambda b: "".join("01"[f] for f in FLAGS)[b.index] == "1",
    "numpy": lambda b: bool(np.array(FLAGS)[b.index]),
    "operator.index": lambda b: 10 <= operator.index(b.index) < 40,
    "real": lambda b: 10 <= b.index.real < 40,
    "numerator": lambda b: FLAGS[b.index.numerator],
    "gcd": lambda b: math.gcd(b.index, 5) == 5 and 10 <= b.index < 40,
    "getattr": lambda b: FLAGS[getattr(b, "ind" + "ex")],
    "range": lambda b: len(range(b.index)) in range(10, 40),
    "format": lambda b: FLAGS[int("%d" % b.index)],  # noqa: UP031  # the way that is tried
    "counter of the caller": lambda b: 10 <= Last.place < 40,
    "identity": lambda b: id(b) in SEEN,
}  # fmt: skip


@pytest.mark.parametrize(("name", "spots"), [(n, k) for n in RULES for k in (0, stamp.SPOTS) if k or n not in ("counter of the caller", "identity")])
def test_a_difference_is_never_hidden(name: str, spots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read is noted without the members that run by chance; what is no read of a member's own is left to them."""
    monkeypatch.setattr(stamp, "SPOTS", spots)
    model = Row(lambda i: Tabled(i, RULES[name]))
    SEEN.clear()
    SEEN.update(id(b) for b, flag in zip(model.blocks, FLAGS, strict=True) if flag)
    truth = sum(10 <= n < 40 and (name != "gcd" or n % 5 == 0) for n in range(48))
    count, graph = ran(model)
    assert (count, sum(n.op == "tanh" for n in graph.nodes)) == (48, truth)


def test_an_index_among_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamp, "SPOTS", 0)
    count, graph = ran(Row(Handed))
    assert (count, sum(n.op == "tanh" for n in graph.nodes)) == (48, 30)


@pytest.mark.parametrize("kind", [Block, Multiplied, Told])
def test_the_facts_are_those_of_the_whole_model(kind: type[Block], monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[object]:
        facts = derive(ran(Model(kind, 12, steps=300))[1])
        return [(s.depth, [(k.count, k.layers, [(x.role, x.placement) for x in k.sublayers]) for k in s.kinds]) for s in facts.streams]

    stamped = told()
    monkeypatch.setattr(stamp, "LARGE", 10**9)
    assert told() == stamped


class Twice(nn.Module):
    """All blocks run for a first guess, which the start of the second run adds."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.guess, self.head = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 40)
        self.blocks = nn.ModuleList(Block(i, 300) for i in range(9))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        x = self.words(ids.flip(1)) + torch.tanh(self.guess(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_members_that_are_called_again_are_counted_once_for_each_call() -> None:
    graph = trace(Twice(), (torch.zeros(2, 16, dtype=torch.long, device="meta"),), {})
    assert sum(stream.depth or 0 for stream in derive(graph).streams) == 18
