"""A model that does something else in training than in evaluation is judged by the program that is trained."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.capture.trace.training import watched
from screen.child.training import in_training
from screen.facts import derive
from screen.graph import Graph
from screen.graph.target import parse
from screen.verdict.discover import run_rules

MODEL = """
import random
import numpy
import torch
import torch.nn.functional as F
from torch import nn


def drop_path(x, p, training, scale=True):
    if not training:
        return x
    mask = x.new_empty((x.shape[0], 1, 1)).bernoulli_(1 - p)
    return x * mask.div_(1 - p)


class Block(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.p = 0.1
        self.norm, self.up, self.down, self.drop = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d), nn.Dropout(0.1)

    def f(self, x):
        return self.drop(self.down(F.gelu(self.up(x))))

    def forward(self, x):
        BLOCK


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.last = nn.Embedding(100, 64), nn.ModuleList(Block() for _ in range(4)), nn.LayerNorm(64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            LOOP
        x = self.last(x)
        END
"""
ANOTHER = "does something else in training than in evaluation"
MASK = "torch.rand(x.shape[0], 1, 1, device=x.device)"
NORMED = "return x + self.f(self.norm(x))"


Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["screen"])

    def written(block: str = NORMED, loop: str = "x = block(x)", end: str = "return x") -> None:
        Path("model.py").write_text(MODEL.replace("BLOCK", block).replace("LOOP", loop).replace("END", end))

    return written


def captured() -> tuple[str, Graph]:
    """The notes on the model that was written, and its graph as it is judged."""
    path = list(sys.path)
    try:
        (built,) = build(parse("model.py::Net"), set={}, inputs=("ids=int64[2,16]",), depth=None)
        with watched() as reads:
            graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
        if reads.lines:
            built, graph = in_training(built, graph)
    finally:
        sys.path[:] = path
    return " ".join(built.info.notes), graph


def placements(graph: Graph) -> set[str]:
    return {s.placement for stream in derive(graph).streams for kind in stream.kinds for s in kind.sublayers}


@pytest.mark.by_the_day
def test_a_norm_that_stands_in_evaluation_alone_is_none(write: Write) -> None:
    write("return x + self.f(x if self.training else self.norm(x))")
    notes, graph = captured()
    assert placements(graph) == {"none"}
    assert ANOTHER in notes and "model.py:26" in notes
    report = screen.check("model.py::Net", example_inputs="ids=int64[2,16]")
    assert report.verdict == "unstable" and notes in report.target.notes
    measured = [c for c in report.claims if c.measured is not None]
    assert measured and all(c.measured.agrees is not False for c in measured)


def test_a_norm_that_stands_in_training_alone_is_one(write: Write) -> None:
    write("return x + self.f(self.norm(x) if self.training else x)")
    notes, graph = captured()
    assert placements(graph) == {"pre"} and ANOTHER in notes


@pytest.mark.parametrize("block, loop, end", [
    (NORMED, "x = block(x)", "return x"),
    ("return x + F.dropout(self.f(self.norm(x)), 0.1, self.training)", "x = block(x)", "return x"),
    ("return x + F.dropout(self.f(self.norm(x)), p=self.p if self.training else 0.0)", "x = block(x)", "return x"),
    ("return x + drop_path(self.f(self.norm(x)), 0.1, self.training)", "x = block(x)", "return x"),
    (f"y = self.f(self.norm(x))\n        return x + (y * ({MASK} < 0.9) / 0.9 if self.training else y)", "x = block(x)", "return x"),
    (f"y = self.f(self.norm(x))\n        return x + (y.div(0.9) * ({MASK} + 0.9).floor() if self.training else y)", "x = block(x)", "return x"),
    (NORMED, "x = x if self.training and random.random() < 0.1 else block(x)", "return x"),
    (NORMED, "x = block(x)", "return (x, x.pow(2).mean()) if self.training else x"),
    (NORMED, "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.training else block(x)", "return x"),
])  # fmt: skip
def test_what_draws_or_is_computed_besides_is_the_same_program(write: Write, block: str, loop: str, end: str) -> None:
    write(block, loop, end)
    notes, graph = captured()
    assert placements(graph) == {"pre"} and notes == ""


@pytest.mark.parametrize("draw", ["random.randrange(2)", "random.random() < 0.6", "numpy.random.rand() < 0.6"])
def test_what_random_numbers_decide_is_judged_as_in_evaluation(write: Write, draw: str) -> None:
    write(f"if self.training and {draw}:\n            return self.norm(x + self.f(x))\n        {NORMED}")
    notes, graph = captured()
    assert placements(graph) == {"pre"}
    assert "random numbers decide" in notes and "judged as in evaluation" in notes


def test_what_a_first_run_leaves_behind_is_nothing_of_training(write: Write) -> None:
    loop = "x = block(x if hasattr(self, 'seen') else x.clone() * 1)"
    write(loop=loop, end="self.seen = True\n        return drop_path(x, 0.1, self.training)")
    notes, graph = captured()
    assert placements(graph) == {"pre"} and notes == ""


def test_a_forward_that_does_not_run_in_training_says_so(write: Write) -> None:
    write(f"if self.training:\n            raise ValueError('labels are missing')\n        {NORMED}")
    notes, graph = captured()
    assert placements(graph) == {"pre"}
    assert "as in training its forward raised" in notes and "labels are missing" in notes


class Other(nn.Module):
    """Another function in training."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        training = self.training
        y = self.map(self.drop(F.dropout(x, 0.5, training)))
        return y if training else y.relu()


LINE = (__file__, Other.forward.__code__.co_firstlineno + 1)


def test_a_live_model_is_left_in_its_mode() -> None:
    model = Other().eval()
    report = screen.check(model, example_inputs=(torch.randn(2, 4, 8),))
    assert ANOTHER in " ".join(report.target.notes)
    assert not any(m.training for m in model.modules())


def test_a_line_is_answered_by_itself_with_its_dropouts_off() -> None:
    model, x = Other().eval(), torch.ones(1, 8)
    with watched([LINE]):
        assert torch.equal(model(x), model.map(x))
    assert torch.equal(model(x), model.map(x).relu())
    assert F.dropout(torch.ones(1000), 0.5, True).eq(0).any(), "and only then"


DRAWN = "y = x if self.training else self.norm(x)\n        return x + drop_path(self.f(y), 0.1, self.training)"


def test_of_two_lines_the_one_that_only_draws_stays_as_in_evaluation(write: Write) -> None:
    write(DRAWN)
    notes, graph = captured()
    assert placements(graph) == {"none"}
    assert "model.py:26" in notes and "model.py:27" not in notes
    assert not [n.op for n in graph.nodes if n.op.startswith("bernoulli")]


def test_whether_dropout_is_off_in_evaluation_is_not_known_of_a_model_as_in_training(write: Write) -> None:
    write("return x + (F.dropout(self.f(x), 0.1) if self.training else F.dropout(self.f(self.norm(x)), 0.1))")
    notes, graph = captured()
    assert ANOTHER in notes
    assert [f.outcome.result for f in run_rules(derive(graph)).of("G127")] == ["cannot_tell"]


def test_a_number_in_training_is_no_draw(write: Write) -> None:
    write("y = self.f(self.norm(x))\n        return x + (y * 3 if self.training else y)")
    notes, graph = captured()
    assert ANOTHER in notes
    assert {s.branch.value for stream in derive(graph).streams for kind in stream.kinds for s in kind.sublayers} == {3}


def test_modes_are_read_as_before_once_a_model_was_watched() -> None:
    with watched() as reads:
        model = nn.Linear(2, 2)
        assert model.training
        assert not model.eval().training
    assert "training" not in vars(nn.Module) and model.train().training
    assert len(reads.lines) == 2


class Asks(nn.Module):
    """Its forward asks in one line."""

    p, depth, flag = 0.0, 2, False

    def __init__(self, asked: Callable[[Asks], bool]) -> None:
        super().__init__()
        self.asked = asked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if self.asked(self) else x


@pytest.mark.parametrize(
    ("asked", "decides"),
    [
        (lambda self: self.training and self.p > 0, False),
        (lambda self: self.training and self.flag, False),
        (lambda self: not self.training or self.p == 0.0, False),
        (lambda self: self.training and self.depth > 1 and self.p != 0, False),
        (lambda self: self.training and self.depth > 0, True),
        (lambda self: not self.training or self.flag, True),
        (lambda self: self.training and self.of_nothing > 0, True),
        (lambda self: self.training and torch.tensor(0) > 0, True),
        (lambda self: self.training, True),
    ],
)
def test_a_line_that_asks_for_more_decides_nothing_where_the_rest_does(asked: Callable[[Asks], bool], decides: bool) -> None:
    model = Asks(asked).eval()
    with watched() as reads:
        model(torch.ones(2))
    assert bool(reads.lines) == decides
