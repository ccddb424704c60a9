"""Tables that a forward computes of numbers alone (`meanfield/lower/computed.py`), against the tables themselves."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from screen.calculi.meanfield.lower.computed import rows_of
from screen.calculi.meanfield.moments import Moments
from screen.capture.trace.tracer import trace

N, D = 23, 32
Make = Callable[[Tensor], Tensor]


def halves(x: Tensor) -> Tensor:
    """Transformer-XL's order."""
    t = torch.arange(x.shape[1] - 1, -1, -1.0).unsqueeze(1) * (1 / 10000 ** (torch.arange(0, D, 2) / D))
    return torch.cat([t.sin(), t.cos()], dim=-1)


def pairs(x: Tensor) -> Tensor:
    """Vaswani et al.'s order, by an exponential, turned about."""
    w = torch.exp(torch.arange(0, D, 2).float() * (-math.log(10000.0) / D))
    t = torch.outer(w, torch.arange(x.shape[1]).float())
    return torch.stack((t.sin(), t.cos()), dim=1).flatten(0, 1).t().to(torch.float64)


EVEN: dict[str, Make] = {"halves": halves, "pairs": pairs}
OTHERS: dict[str, Make] = {
    "rows that grow": lambda x: torch.arange(x.shape[1])[:, None] * torch.arange(1.0, D + 1),
    "data": lambda x: halves(x) * x.mean(),
    "whole numbers of others": lambda x: (halves(x) * 3).to(torch.int64).float(),
    "narrow": lambda x: halves(x)[:, :4],
    "drawn": lambda x: torch.randn(x.shape[1], D),
}


class Added(nn.Module):
    def __init__(self, make: Make) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Tensor:
        return x + self.make(x).float()


def found(make: Make, tokens: int) -> Moments | None:
    graph = trace(Added(make), (torch.zeros(2, N, D, device="meta"),) if make is not OTHERS["narrow"] else (torch.zeros(2, N, 4, device="meta"),), {})
    added = next(n for n in reversed(graph.nodes) if n.op == "add")
    return rows_of(graph, added.inputs[-1], tokens)


@pytest.mark.parametrize("tokens", [8, 64])
@pytest.mark.parametrize("name", EVEN)
def test_moments_are_those_of_the_rows(name: str, tokens: int) -> None:
    made, rows = found(EVEN[name], tokens), EVEN[name](torch.zeros(2, N, D)).double()[: min(tokens, N)]
    products, apart = rows @ rows.T / D, ~torch.eye(len(rows), dtype=torch.bool)
    assert made is not None
    assert made.power == pytest.approx(0.5, rel=1e-6) and made.power - made.gap == pytest.approx(float(products[apart].mean()), rel=1e-5)
    assert made.mean == pytest.approx(math.sqrt(float(rows.mean(1).square().mean())), rel=0.05)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_table_of_numbers_alone_has_none(name: str) -> None:
    assert found(OTHERS[name], 8) is None
