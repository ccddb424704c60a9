"""A branch that a norm ends, softmaxes over what is stored, and a stream of which next to nothing is carried on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.answer import answer
from screen.report.schema import FindingPart, Report

WIDTH = 16


class Net(nn.Module):
    """A net of the stream between two norms, either of which may be left out; `keep` of the sum goes on."""

    def __init__(self, before: bool, behind: bool, keep: float = 1.0, act: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH) if before else nn.Identity(), nn.LayerNorm(WIDTH) if behind else nn.Identity()
        self.up, self.down, self.keep, self.act = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH), keep, act
        for linear in (self.up, self.down):
            nn.init.normal_(linear.weight, std=1.5 * linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.keep * (x + self.behind(self.down(self.act(self.up(self.before(x))))))


class Stored(nn.Module):
    """Shares of patterns, of a list of experts, or of both halves of a table of keys and one of values."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.norm = kind, nn.LayerNorm(WIDTH)
        self.keys, self.values = nn.Parameter(torch.randn(12, WIDTH) / 4), nn.Parameter(torch.randn(12, WIDTH) / 4)
        self.gate, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if self.kind == "experts":
            return x + (torch.stack([F.gelu(e(h)) for e in self.experts], -1) * self.gate(h).softmax(-1).unsqueeze(-2)).sum(-1)
        return x + (h @ self.keys.t()).softmax(-1) @ (self.keys if self.kind == "patterns" else self.values)


def report_on(make: Callable[[], nn.Module], blocks: int = 12, *, spot: bool = False) -> Report:
    torch.manual_seed(0)
    return screen.check(nn.Sequential(*(make() for _ in range(blocks))), example_inputs=torch.randn(2, 6, WIDTH), spot_check=spot)


def of(report: Report, code: str) -> FindingPart:
    return next(f for f in report.findings if f.code == code)


@pytest.mark.parametrize("act", [torch.tanh, F.gelu, torch.sin])
def test_of_a_branch_that_a_norm_ends_no_smaller_weights_are_asked(act: Callable[[Tensor], Tensor]) -> None:
    found = of(report_on(lambda: Net(False, True, act=act)), "D301")
    assert found.outcome in ("not_applicable", "cannot_tell") and "divide the weights" not in found.remedy
    assert of(report_on(lambda: Net(False, False)), "D301").outcome == "violated"


class Gated(nn.Module):
    """A gated net behind a norm, every map of deviation 1/√fan-in: three of them, multiplied, are above 1. Perhaps its gate starts at zero."""

    def __init__(self, gate: float | None = None, normed: bool = True) -> None:
        super().__init__()
        self.norm, self.gate = nn.RMSNorm(WIDTH) if normed else nn.Identity(), nn.Linear(WIDTH, WIDTH)
        self.one, self.two, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        for linear in (self.one, self.two, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        self.scaled = gate is not None
        if gate is not None:
            nn.init.constant_(self.gate.weight, gate)
            nn.init.constant_(self.gate.bias, gate)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        y: Tensor = self.down(F.silu(self.one(h)) * self.two(h))
        return x + self.gate(x.mean(1, keepdim=True)) * y if self.scaled else x + y


def test_of_a_branch_that_does_not_grow_no_smaller_weights_are_asked_however_large_they_start() -> None:
    """One rule for attention and for the gated net beside it, whose product is above one by its shapes alone."""
    found = of(report_on(Gated), "D301")
    assert found.outcome == "not_applicable" and float(found.numbers["start"]) > 1  # type: ignore[arg-type]
    assert "does not grow with the stream" in found.said and "divide the weights" not in found.remedy
    assert of(report_on(lambda: Gated(normed=False)), "D301").outcome == "violated"


def test_a_gate_that_starts_at_zero_makes_the_product_zero() -> None:
    found = of(report_on(lambda: Gated(0.0)), "D301")
    assert found.outcome == "holds" and found.numbers["start"] == 0.0 and "starts at zero" in found.said
    assert of(report_on(lambda: Gated(0.1)), "D301").numbers.get("start") != 0.0


class FusedEnds(nn.Module):
    """Attention and a net beside each other by one map, and one map of both: each has slices of the two."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5 * WIDTH, bias=False), nn.Linear(3 * WIDTH, WIDTH, bias=False)
        for linear in (self.one, self.two):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        qkv, hidden = self.one(self.norm(x)).split((3 * WIDTH, 2 * WIDTH), -1)
        q, k, v = qkv.chunk(3, -1)
        return x + self.two(torch.cat((F.scaled_dot_product_attention(q, k, v), F.gelu(hidden)), -1))  # type: ignore[no-any-return]


def test_the_start_of_a_slice_is_not_told_of_the_whole_matrix() -> None:
    """Of attention 1 · √(1/3) = 0.577, and the whole matrices would give 1.14."""
    starts = [f.numbers.get("start") for f in report_on(FusedEnds).findings if f.code == "D301"]
    assert all(s is None or float(s) < 1 for s in starts), starts  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["patterns", "keys and values", "experts"])
def test_what_is_stored_is_no_router(kind: str) -> None:
    report = report_on(lambda: Stored(kind))
    found = of(report, "L201")
    said = " ".join((found.said, found.remedy, *(f"{r.name} {r.said}" for r in answer(report).risks)))
    assert ("router" in said) is (kind == "experts") and ("stored" in said) is (kind != "experts")


@pytest.mark.parametrize(("keep", "outcome"), [(1.0, "holds"), (0.5, "conditional")])
def test_gradients_that_come_back_through_branches_alone_are_no_more_than_a_start(keep: float, outcome: str) -> None:
    found = of(report_on(lambda: Net(True, False, keep, act=F.gelu), 24, spot=True), "D202")
    assert found.outcome == outcome and ("past the branches next to nothing comes back" in found.message) is (keep < 1), found.message


class Halves(nn.Module):
    """A net whose one half the other half gates by a sigmoid, of the stream or of a norm of it: of degree one in what it reads."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH) if normed else nn.Identity(), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.glu(self.down(F.gelu(self.up(self.norm(x)))), dim=-1)


def test_bounded_weights_do_not_bound_what_grows_with_the_stream() -> None:
    raw, normed = (of(report_on(lambda n=n: Halves(n)), "R201") for n in (False, True))  # type: ignore[misc]
    assert raw.outcome == normed.outcome == "conditional"
    assert "training keeps the weights so" in normed.said and "weight decay" in normed.remedy
    assert "training keeps the weights so" not in raw.said and "weight decay" not in raw.remedy and "at fixed weights" in raw.said


class Fires(nn.Module):
    """Zeros and ones of a map of the stream, which hand gradients on as a smooth step does, through another map of the same kind."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        fired = (self.one(x) > 0).to(x.dtype)
        return x + (self.two(fired) > 0).to(x.dtype)


def test_matrices_whose_slope_steps_hide_are_there() -> None:
    report = report_on(Fires)
    said = " ".join(f.said for f in report.findings if f.code in ("D202", "D301"))
    assert "has no matrix of weights" not in said and "the branch does not depend on the stream" not in said
    assert "no product of its weights" in said
