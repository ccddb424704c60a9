"""What is proposed can help, and what is predicted is that of one alternative of a proposal, which is named."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.facts.advice import steadier
from screen.report.answer import answer
from screen.report.schema import Report
from screen.rule import Example
from screen.rules import logits_bounded
from screen.testing import facts_of

WIDTH = 32
NORM = f"`norm = nn.LayerNorm({WIDTH})`"
SKIPS = "skips that carry the stream on once, by a multiplier of 1"


BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return SKIP * x + self.down(F.relu(self.up(self.norm(x))))
"""


class Stack(nn.Module):
    """Of a feed-forward branch of a norm, without a norm, or of one that mixes places and has no weights."""

    def __init__(self, skip: float = 1.0, normed: bool = True, mixed: bool = False, size: float = 1.0) -> None:
        super().__init__()
        self.skip, self.normed, self.mixed = skip, normed, mixed
        self.norms, self.last = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(24)), nn.LayerNorm(WIDTH)
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 64, bias=False), nn.GELU(), nn.Linear(64, WIDTH, bias=False)) for _ in range(24)
        )
        for linear in (m for m in self.nets.modules() if isinstance(m, nn.Linear)):
            nn.init.normal_(linear.weight, std=size * linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        for norm, net in zip(self.norms, self.nets, strict=True):
            if self.mixed:
                x = x + x.abs().cumsum(1) / 4
            x = self.skip * x + net(norm(x) if self.normed else x)
        return self.last(x)


def report(**options: object) -> Report:
    torch.manual_seed(0)
    return screen.check(Stack(**options), example_inputs=torch.randn(2, 16, WIDTH))  # type: ignore[arg-type]


def option(of: Report, code: str) -> list[str]:
    return [f.remedy for f in of.findings if f.code == code and f.outcome == "violated"]


def test_against_what_skips_multiply_no_norm_and_no_start_is_proposed() -> None:
    found = report(skip=1.5)
    assert option(found, "D202") == [SKIPS]
    assert not any("D202" in c.codes for c in found.changes)


@pytest.mark.parametrize(("skip", "words"), [(0.7, SKIPS), (1.5, SKIPS), (1.0, "smaller initial weights")])
def test_weights_that_start_smaller_help_where_nothing_else_multiplies_the_stream(skip: float, words: str) -> None:
    code = BLOCK.replace("SKIP", str(skip))
    found = facts_of(Example("a skip by a number", code))
    assert steadier(found, found.streams[0]) == (words, ())


@pytest.mark.by_the_day
def test_what_is_there_already_is_not_proposed() -> None:
    """Gradients of larger and larger numbers, by weights alone: norms stand before all branches, and there is no attention."""
    assert option(report(normed=False, size=3.0), "D202") == ["a norm on the branch's input; or smaller initial weights"]
    assert not option(report(), "D202")


def test_a_branch_without_weights_is_not_bounded_by_weights() -> None:
    found = report(mixed=True)
    said = [f.said for f in found.findings if f.code == "R201" and f.outcome == "violated"]
    assert len(said) == 1 and said[0].endswith("it has no weights and grows with the stream.")
    assert "smaller initial weights" not in "".join(f.remedy for f in found.findings)


def test_of_alternatives_each_has_a_prediction_of_its_own() -> None:
    found = report(normed=False, size=0.5)
    changes = {c.id: c for c in found.changes if "R201" in c.codes}
    assert set(changes) == {"norms-before", "norms-behind"}
    assert "R" not in changes["norms-before"].closes, "what a branch adds is as large as its last map"
    shown = next(c for c in answer(found).changes if c.what == f"`x = x + f(norm(x))` with {NORM}, or that norm on the branch's output")
    assert [gain.partition(": ")[0] for gain in shown.gains] == ["norms on the inputs of the branches", "norms on what the branches add"]


def test_a_router_is_not_helped_by_norms_on_queries_and_keys() -> None:
    code = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.router, self.out = nn.LayerNorm(32), nn.Linear(32, 4), nn.Linear(32, 32)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        shares = self.router(y).softmax(-1)
        return x + sum(F.relu(e(y)) * shares[..., i : i + 1] for i, e in enumerate(self.experts))
"""
    outcomes = logits_bounded.check(facts_of(Example("experts", code)))
    assert outcomes and all(o.tries == () for o in outcomes if o.remedy)


class TanhQueries(nn.Module):
    """Queries that end in a bounded function, stretched again; keys are free. x: [2, 16, 32]."""

    squashed: nn.Module = nn.Tanh()

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.maps, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(self.maps.weight, std=WIDTH**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.maps(self.norm(x)).chunk(3, -1))
        q = 6 * self.squashed(q / 6)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


class SoftsignQueries(TanhQueries):
    """The same with another function."""

    squashed = nn.Softsign()


@pytest.mark.parametrize("block", ["TanhQueries", "SoftsignQueries"])
def test_norms_on_queries_that_end_in_a_bounded_function_leave_logits_of_their_size(block: str) -> None:
    """q·k/√8 of entries of one on both sides has variance 1, however the queries had been stretched before."""
    found = screen.check(f"{__file__}::{block}", example_inputs="x=float32[2,16,32]", depth=12, spot_check=False, isolate=False)
    (change,) = (c for c in found.changes if c.id == "qk-norm")
    assert change.closes == ["L"] and change.opens == []
