"""The printed update has every summand: a norm of the stream that is handed on beside a branch, and factors on the sum of several branches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report import words

WIDTH = 32


class Block(nn.Module):
    """One of several sums of x, h = N(x), and nets of it."""

    def __init__(self, total: Callable[..., Tensor]) -> None:
        super().__init__()
        self.norm, self.behind, self.total = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), total
        self.net = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.mix = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        out: Tensor = self.total(x, h, self.net(h), self.behind)
        return out


@pytest.mark.parametrize(
    ("total", "formula"),
    [
        (lambda x, h, f, n: x + f, "x ← x + ffn(A(x))"),
        (lambda x, h, f, n: x + (h + f), "x ← x + (A(x) + ffn(A(x)))"),
        (lambda x, h, f, n: x + 0.5 * (n(f) + h), "x ← x + 0.5·(A(x) + B(ffn(A(x))))"),
        (lambda x, h, f, n: (x + (h + n(f))) * 0.7, "x ← 0.7·x + 0.7·(A(x) + B(ffn(A(x))))"),
        (lambda x, h, f, n: x + (f - h), "x ← x + (-1·A(x) + ffn(A(x)))"),
        (lambda x, h, f, n: x + (f + h / 4), "x ← x + (0.25·A(x) + ffn(A(x)))"),
        (lambda x, h, f, n: x + h * torch.sigmoid(f), "x ← x + g(x)·B(ffn(A(x)))"),
    ],
)
def test_a_norm_that_is_handed_on_stands_in_the_update(total: Callable[..., Tensor], formula: str) -> None:
    report = screen.check(Block(total), example_inputs=torch.randn(2, 6, WIDTH), depth=4)
    [kind] = report.streams[0].kinds
    assert words.formulas(kind) == [formula]


class Mixed(nn.Module):
    """A map of tokens and a net beside each other, and a root on the sum of all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.RMSNorm(WIDTH), nn.Linear(6, 6)
        self.net = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        y = x + self.mix(h.mT).mT
        return (y + self.net(h)) * 0.5


def test_a_factor_on_the_sum_of_branches_beside_each_other_is_one_of_all() -> None:
    report = screen.check(Mixed(), example_inputs=torch.randn(2, 6, WIDTH), depth=4)
    [kind] = report.streams[0].kinds
    [formula] = words.formulas(kind)
    assert formula.startswith("x ← 0.5·x + 0.5·") and formula.count("0.5·") == 3


class Filtered(nn.Module):
    """A map, a gate and a filter of each channel: the largest product has the filter, which is no map."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.two, self.out = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.filter = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.two(self.norm(x)).chunk(2, -1)
        out: Tensor = x + self.out(a * self.filter(b.mT).mT)
        return out


def test_what_is_listed_beside_a_count_is_said_to_be_the_factors_of_a_product() -> None:
    [sublayer] = screen.check(Filtered(), example_inputs=torch.randn(2, 6, WIDTH), depth=4).streams[0].kinds[0].sublayers
    assert (sublayer.m.maps, len(sublayer.m.path), words.path_of(sublayer.m)) == (3, 4, "largest product")
