"""Branches with an op that the calculus of degrees has no row for: what they make of norms alone moves less as the stream grows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 16


class Block(nn.Module):
    """Shares of a stick, broken again and again: cumulative products of what is left. x: [2, 8, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second, self.out = nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def broken(self, h: Tensor) -> Tensor:
        share = torch.sigmoid(self.first(h))
        left = torch.cumprod(1 - share, 1)
        return self.out(share * left * torch.erf(self.second(h)))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.broken(self.norm(x))


class Times(Block):
    """... by the length of the stream."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.broken(self.norm(x)) * x.norm(dim=-1, keepdim=True)


class Entries(Block):
    """... by the stream, entry by entry."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.broken(self.norm(x)) * x


class Raw(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.broken(x)


class InBatches(Block):
    """A norm whose statistic is a buffer: a number times the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.broken(self.batch(x.mT).mT)


@pytest.mark.parametrize(("block", "state"), [(Block, "closed"), (Times, None), (Entries, None), (Raw, None), (InBatches, None)])
def test_a_branch_that_reads_norms_alone_closes_d(block: type[Block], state: str | None) -> None:
    report = screen.check(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=12)
    found = next(c.state for c in report.channels if c.id == "D")
    assert found == state if state is not None else found != "closed"
