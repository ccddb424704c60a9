"""A norm on the skip alone, `N(x) + B(f(x))` (the training form of RepVGG), beside one whose result the branch reads too. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report import words
from screen.report.schema import Report

WIDTH, TOKENS, DEPTH = 16, 8, 4


class Filters(nn.Module):
    """ReLU(N(x) + B₁(filter(…)) + B₂(map(…))): what filter and map read, x or N(x), is `own`'s to say."""

    def __init__(self, own: str) -> None:
        super().__init__()
        self.wide, self.point, self.own = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.Conv1d(WIDTH, WIDTH, 1, bias=False), own
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH, track_running_stats=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.norms[0](x)
        one, other = (skip if self.own in ("both", name) else x for name in ("wide", "point"))
        return F.relu(skip + self.norms[1](self.wide(one)) + self.norms[2](self.point(other)))


class Net(nn.Module):
    """The same of features, with a feed-forward and without the ReLU; `bare`: nothing norms what it adds."""

    def __init__(self, own: str, bare: bool = False) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(1 if bare else 2))
        self.net, self.own = nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH)), own

    def forward(self, x: Tensor) -> Tensor:
        skip = self.norms[0](x)
        y = self.net(skip if self.own else x)
        return skip + (y if len(self.norms) < 2 else self.norms[1](y))


class Model(nn.Module):
    def __init__(self, own: str) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Filters(own) for _ in range(DEPTH)), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(-1))


def slips(report: Report) -> set[str]:
    return {f.code for f in report.findings if f.code[0] == "G" and f.outcome == "violated"}


def formulas(report: Report) -> set[str]:
    return {f for kind in report.streams[0].kinds for f in words.formulas(kind)}


IMAGES, FEATURES = torch.zeros(2, WIDTH, TOKENS), torch.zeros(2, TOKENS, WIDTH)


@pytest.mark.parametrize("whole", [False, True])
def test_a_norm_on_the_skip_beside_normed_branches_of_the_stream_is_no_slip(whole: bool) -> None:
    report = screen.check(Model(""), example_inputs=IMAGES) if whole else screen.check(Filters(""), example_inputs=IMAGES, depth=DEPTH)
    assert (slips(report), formulas(report)) == (set(), {"x ← C(x) + B(conv(x)) + B(other(x))"})
    assert report.streams[0].depth == DEPTH and len(report.streams[0].kinds) == 1


def test_the_same_of_features_is_computed_as_it_stands() -> None:
    report = screen.check(Net(""), example_inputs=FEATURES, depth=DEPTH)
    assert (slips(report), formulas(report)) == (set(), {"x ← C(x) + B(ffn(x))"})
    growth = [c.value for c in report.claims if c.claim == "growth" and c.weights == "all"]
    assert growth == ["bounded"]


@pytest.mark.parametrize("own", ["wide", "both"])
def test_branches_that_read_what_the_skip_carries_are_one(own: str) -> None:
    assert "G101" in slips(screen.check(Filters(own), example_inputs=IMAGES, depth=DEPTH))


@pytest.mark.parametrize("bare", [False, True])
def test_a_net_of_the_normed_value_is_one(bare: bool) -> None:
    assert "G101" in slips(screen.check(Net("own", bare), example_inputs=FEATURES, depth=DEPTH))
