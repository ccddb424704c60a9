"""The inputs of a part whose forward no guess fits: those that arrive at it in the model of its file that holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from screen.capture.build.build import Built, build
from screen.capture.build.configs import Needs
from screen.capture.trace.tracer import trace
from screen.errors import TraceError
from screen.graph.target import parse

SOURCE = """
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn


@dataclass
class Scales:
    high: torch.Tensor
    low: torch.Tensor


class Pair(NamedTuple):
    places: torch.Tensor
    keep: torch.Tensor


class Joint(nn.Module):
    def __init__(self, high=24, low=40, dim=32):
        super().__init__()
        self.high, self.low, self.out = nn.Linear(high, dim), nn.Linear(low, dim), nn.Linear(dim, dim)
        self.places = nn.Embedding(64, dim)

    def forward(self, states, scales, pair, *, ragged):
        assert len(states) == 3 and [x.shape[1] for x in ragged] == [5, 7]
        x = self.high(scales.high) + self.low(scales.low) + self.places(pair.places)
        for state in states:
            x = x + self.out(state) * pair.keep[..., None]
        return x


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)

    def forward(self, idx):
        return self.embed(idx)


class Whole(nn.Module):
    def __init__(self, part=Joint):
        super().__init__()
        self.stem, self.joint = Stem(), part()
        self.up, self.down = nn.Linear(32, 24), nn.Linear(32, 40)

    def forward(self, idx):
        x = self.stem(idx)
        places = torch.arange(idx.shape[1]).expand_as(idx)
        ragged = [x[:, :5], x[:, :7]]
        return self.joint((x, x, x), Scales(self.up(x), self.down(x)), Pair(places, places > 2), ragged=ragged)
"""


def built(tmp_path: Path, source: str, target: str) -> Built:
    path = tmp_path / "model.py"
    path.write_text(source)
    [found] = build(parse(f"{path}::{target}"), set={}, inputs=(), depth=None)
    return found


def test_what_arrives_at_a_part_is_taken_whatever_its_form(tmp_path: Path) -> None:
    b = built(tmp_path, SOURCE, "Joint")
    states, scales, pair = b.args
    assert [tuple(s.shape) for s in states] == [(2, 16, 32)] * 3
    assert type(scales).__name__ == "Scales" and scales.high.shape[-1] == 24 and scales.low.shape[-1] == 40
    assert type(pair).__name__ == "Pair" and pair.places.device.type == "cpu" and pair.keep.dtype == torch.bool
    assert b.info.notes == ("the inputs are those that arrive at it in `Whole`",)
    graph = trace(b.model, b.args, b.kwargs)
    assert graph.failure is None
    assert sum(n.op == "input" for n in graph.nodes) == 9


def test_a_part_that_runs_on_guesses_asks_no_holder(tmp_path: Path) -> None:
    b = built(tmp_path, SOURCE, "Stem")
    assert b.info.notes == () and isinstance(next(iter(b.kwargs.values())), Tensor)


@pytest.mark.by_the_day
@pytest.mark.parametrize(
    "change",
    [("def __init__(self, part=Joint)", "def __init__(self, size, part=Joint)"), ("part()", "part(dim=48)"), ("part()", "nn.Identity()")],
    ids=["it does not build", "it holds one of another size", "it holds none"],
)
def test_a_holder_that_brings_nothing_changes_nothing(tmp_path: Path, change: tuple[str, str]) -> None:
    try:
        notes = built(tmp_path, SOURCE.replace(*change), "Joint").info.notes
    except TraceError:
        return
    assert not any("arrive" in note for note in notes)


EXAMPLE = '''
import torch
from torch import nn


class Relative(nn.Module):
    """Attention over relative places.

    >>> net = Relative(width=32,
    >>>                heads=4)
    >>> x = torch.rand(2, 20, 32)
    >>> y = net(x, torch.rand(2 * 20 - 1, 32), lengths=torch.tensor([20, 18]))
    >>> raise_what_is_not_there(y)
    """

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.map = heads, nn.Linear(width, width)

    def forward(self, x, table, lengths):
        assert len(table) == 2 * x.shape[1] - 1 and lengths.tolist() == [x.shape[1], x.shape[1] - 2]
        return x + self.map(x)


class Middle(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, x, seed, length):
        return x + self.map(x)
'''


def test_the_example_of_a_docstring_builds_a_class_and_feeds_it(tmp_path: Path) -> None:
    b = built(tmp_path, EXAMPLE, "Relative")
    assert b.info.changed["width"] == [None, 32] and b.info.changed["heads"] == [None, 4]
    x, table = b.args
    assert x.shape == (2, 20, 32) and table.shape == (39, 32) and b.kwargs["lengths"].tolist() == [20, 18]
    assert b.info.notes == (
        "`Relative` has the arguments of the docstring of Relative:1", "the inputs are those of the example in the docstring of `Relative`",
    )  # fmt: skip
    assert trace(b.model, b.args, b.kwargs).failure is None


def test_numbers_of_which_nothing_is_read_are_no_configuration(tmp_path: Path) -> None:
    source = EXAMPLE.replace(">>>", "as in") + "\n\n@__import__('dataclasses').dataclass\nclass Window:\n    size: int\n"
    with pytest.raises(Needs) as caught:
        built(tmp_path, source, "Middle")
    assert caught.value.lacking == ("width", "heads")



@pytest.mark.by_the_day
def test_a_part_of_transformers_whose_states_come_from_a_tower() -> None:
    [b] = build(parse("hf:clipseg:CLIPSegDecoder"), set={}, inputs=(), depth=None)
    assert "the inputs are those that arrive at it in `CLIPSegForImageSegmentation`" in b.info.notes
    assert trace(b.model, b.args, b.kwargs).failure is None


RAGGED = """
import torch
from torch import nn


class Segments(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, dim)

    def forward(self, x, bounds):
        parts = self.norm(x).split((bounds[1:] - bounds[:-1]).tolist())
        return x + self.out(torch.cat([p.softmax(0) for p in parts]))


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layers = nn.Embedding(64, 32), nn.ModuleList(Segments() for _ in range(5))

    def forward(self, ids):
        lengths = torch.full((ids.shape[0],), ids.shape[1])
        bounds = nn.functional.pad(lengths.cumsum(0), (1, 0))
        x = self.table(ids).flatten(0, 1)
        for layer in self.layers:
            x = layer(x, bounds)
        return x
"""


def test_integers_that_arrive_have_the_values_that_the_holder_gives_them(tmp_path: Path) -> None:
    b = built(tmp_path, RAGGED, "Segments")
    x, bounds = b.args
    assert bounds.device.type == "cpu" and bounds.tolist()[0] == 0 and bounds.tolist()[-1] == x.shape[0]
    assert trace(b.model, b.args, b.kwargs).failure is None


CACHED = """
import torch
from torch import nn


class Cache:
    def __init__(self):
        self.kept = []

    def update(self, x):
        self.kept.append(x)
        return torch.cat(self.kept, 1)


class Attend(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.norm, self.q, self.k, self.o = nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, places, cache=None):
        y = self.norm(x) + places
        seen = y if cache is None else cache.update(y)
        return x + self.o((self.q(y) @ self.k(seen).transpose(1, 2)).softmax(-1) @ seen)


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places, self.attend = nn.Embedding(64, 32), nn.Embedding(64, 32), Attend()

    def forward(self, ids):
        return self.attend(self.table(ids), self.places(torch.arange(ids.shape[1])), cache=Cache())
"""


def test_a_cache_that_the_holder_has_filled_is_not_handed_on(tmp_path: Path) -> None:
    b = built(tmp_path, CACHED, "Attend")
    assert b.info.notes == ("the inputs are those that arrive at it in `Reads`",) and "cache" not in b.kwargs
    graph = trace(b.model, b.args, b.kwargs)
    assert graph.failure is None and not any(n.op == "constant" for n in graph.nodes)
