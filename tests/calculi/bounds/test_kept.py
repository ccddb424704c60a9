"""Branches of which no size is known, and that stay bounded at fixed weights all the same: by ops, and against numbers in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.calculi.bounds import bounds_of
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.kept import is_kept
from screen.capture.trace.tracer import trace
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader
from tests.calculi.bounds import near_bounds as table
from tests.calculi.bounds.near_bounds import TOKENS, WIDTH, Parts, Rule

KEPT: dict[str, Rule] = {
    "a transform of two axes and back": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.n(x))).real,
    "a pool over windows": lambda p, x: F.lp_pool1d(F.pad(p.v(p.n(x)), (0, 1)), 2.0, 2, 1),
    "a product of data": lambda p, x: p.o(torch.cumprod(torch.sinh(p.q(p.n(x))), 1)),
    "a quotient by what is above one": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.q(p.n(x)))).real / (1 + p.k(p.n(x)).square()),
    "a choice": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.v(p.n(x)))).real.sort(-1).values,
}
FREE: dict[str, Rule] = {
    "the stream itself": lambda p, x: torch.fft.ifft2(torch.fft.fft2(x)).real,
    "one of two ways": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.n(x))).real + 1e-3 * torch.fft.ifft2(torch.fft.fft2(p.v(x))).real,
    "a number of the stream": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.n(x))).real * torch.fft.ifft2(torch.fft.fft2(p.one(x))).real,
    "a quotient by what may be nothing": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.q(p.n(x)))).real / p.k(p.n(x)),
    "whole numbers of the stream": lambda p, x: torch.fft.ifft2(torch.fft.fft2(x.round().long().to(x.dtype))).real,
    "a logarithm": lambda p, x: torch.fft.ifft2(torch.fft.fft2(p.n(x).abs().log())).real,
}


class Two(nn.Module):
    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Parts(rule) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def kept(rule: Callable[[Parts, Tensor], Tensor]) -> bool | None:
    """Of the second block; None where no branch was found."""
    graph = trace(Two(rule).to("meta").eval(), (torch.zeros(2, TOKENS, WIDTH, device="meta"),), {})
    flow = Flow(graph)
    chains = Chains(flow, Edges(flow, Norms(flow)))
    found = [b for chain in chains.streams for _, b in Reader(chains, chain).branches]
    if not found:
        return None
    known = is_kept(Walk(found[-1]), found[-1].output)
    assert known or not bounds_of(found[-1]).kept
    return known


def largest(rule: Rule, factor: float) -> float:
    """The largest entry that a branch adds in float64, over some inputs so many times as large."""
    torch.manual_seed(1)
    part, found = Parts(rule).double(), 0.0
    with torch.no_grad():
        for _ in range(4):
            found = max(found, float(rule(part, factor * torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)).abs().max()))
    return found


@pytest.mark.parametrize("name", KEPT)
def test_ops_that_keep_what_is_bounded(name: str) -> None:
    assert kept(KEPT[name]) is True and largest(KEPT[name], 1e8) < 100 * largest(KEPT[name], 1.0)


@pytest.mark.parametrize("name", FREE)
def test_ways_around(name: str) -> None:
    assert kept(FREE[name]) is False


@pytest.mark.by_the_day
def test_no_near_miss_that_grows_is_kept() -> None:
    told = 0
    for rule in {**table.BOUNDED, **table.UNBOUNDED, **table.UNDECIDED}.values():
        if kept(rule):
            told += 1
            assert largest(rule, 1e8) < 1e3 * max(largest(rule, 1.0), 1.0)
    assert told > 20
