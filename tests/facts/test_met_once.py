"""A block at an end that is like no other, states that are made of more than the last one, models whose gates and head start at nothing, and those
that are too large for their linear part to be run."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.build.build import build_object
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.pipeline.spot import _is_carried
from screen.probe.plan.spot_types import FoundStream
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

WIDTH = 16


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 4, WIDTH),)


class Mlp(nn.Module):
    def __init__(self, normed: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if normed else nn.Identity()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(self.norm(x))))
        return out


class FirstBare(nn.Module):
    """The first branch of eight reads the stream itself."""

    bare = frozenset({0})

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Mlp(i not in self.bare) for i in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class ThirdsBare(FirstBare):
    """... and every third one behind it."""

    bare = frozenset({0, 3, 6})


class NoneBare(FirstBare):
    bare = frozenset()


class NormedBeside(nn.Module):
    """Two raw branches are added, one after the other, to the norm that both read."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(WIDTH), Mlp(False), Mlp(False)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        out: Tensor = normed + self.one(normed) + self.two(normed)
        return out


class NormedBesideSlip(NormedBeside):
    """The second one reads the stream as it was."""

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        out: Tensor = normed + self.one(normed) + self.two(x)
        return out


class NormedInFront(NormedBeside):
    """A norm, a raw branch on it, and one behind a norm of its own: behind the last block no norm follows."""

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(n))
        self.ones, self.twos = (nn.ModuleList(Mlp(normed) for _ in range(n)) for normed in (False, True))

    def forward(self, x: Tensor) -> Tensor:
        for norm, one, two in zip(self.norms, self.ones, self.twos, strict=True):
            x = norm(x)
            x = x + one(x)
            x = x + two(x)
        return x


class ClosedGates(nn.Module):
    """Gates from a condition, which start at nothing, and a head that does."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(8))
        self.gates = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))
        self.head = nn.Linear(WIDTH, WIDTH)
        for closed in (*self.gates, self.head):
            nn.init.zeros_(closed.weight)
            nn.init.zeros_(closed.bias)

    def forward(self, x: Tensor) -> Tensor:
        condition = x.mean(1, keepdim=True)
        for block, gate in zip(self.blocks, self.gates, strict=True):
            x = x + gate(F.silu(condition)) * block(x)
        out: Tensor = self.head(x)
        return out


def report(name: str, depth: int | None = None) -> Report:
    return screen.check(f"{__file__}::{name}", depth=depth, isolate=False)


def law(found: Report, claim: str, weights: str) -> list[object]:
    return [c.value for c in found.claims if (c.claim, c.weights) == (claim, weights)]


@pytest.mark.parametrize(("name", "value"), [("FirstBare", "linear"), ("ThirdsBare", "exponential")])
def test_what_the_first_block_adds_counts_once(name: str, value: str) -> None:
    assert law(report(name), "growth", "fixed") == [value]


@pytest.mark.parametrize(
    ("name", "depth", "value"), [("NormedBeside", 4, "bounded"), ("NormedBesideSlip", 4, None), ("NormedInFront", None, "bounded")]
)
def test_a_state_that_is_made_of_more_than_the_last_one(name: str, depth: int | None, value: str | None) -> None:
    assert law(report(name, depth), "growth", "fixed") == [value]


def test_a_head_that_starts_at_nothing_hides_no_law() -> None:
    assert law(report("ClosedGates"), "gradient_law", "start") == ["flat"]


@pytest.mark.parametrize(("model", "carried"), [(NoneBare, True), (ThirdsBare, False)])
def test_what_is_proved_to_be_carried_need_not_be_run(model: type[nn.Module], carried: bool) -> None:
    [built] = build_object(model(), example_inputs=example_inputs())
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    assert _is_carried(facts, facts.streams[0], FoundStream("stream")) is carried
    assert not _is_carried(facts, facts.streams[0], FoundStream("stream", is_linear=False)), "a run says otherwise"
