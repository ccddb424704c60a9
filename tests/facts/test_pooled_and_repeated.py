"""A stream that is averaged over groups of its tokens, carried through blocks of its own and repeated: the gain of its identity path is measured."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS, GROUP = 8, 8, 4


class Block(nn.Module):
    """A feed-forward that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def repeated(pooled: Tensor, how: str) -> Tensor:
    if how == "tile":  # other tokens than those that were averaged
        return pooled.repeat(1, GROUP, 1)
    if how == "expand":
        return pooled[:, :, None].expand(-1, -1, GROUP, -1).flatten(1, 2)
    return pooled.repeat_interleave(GROUP, 1)


class Hourglass(nn.Module):
    def __init__(self, how: str, inside: int) -> None:
        super().__init__()
        self.how = how
        self.before, self.inside, self.behind = (nn.ModuleList(Block() for _ in range(n)) for n in (3, inside, 3))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.before:
            x = block(x)
        groups = x.view(-1, TOKENS // GROUP, GROUP, WIDTH)
        pooled = groups.sum(2) if self.how == "sum" else groups[:, :, 0] if self.how == "first" else groups.mean(2)
        for block in self.inside:
            pooled = block(pooled)
        x = x + repeated(pooled, self.how)
        for block in self.behind:
            x = block(x)
        return x


GAINS = {
    ("interleave", 3): (2.0, 2.0), ("interleave", 0): (2.0, 2.0), ("tile", 3): (2.0, 2.0), ("expand", 3): (2.0, 2.0), ("sum", 3): (5.0, 5.0),
    ("first", 3): (0.0, 3.0),
}  # fmt: skip
"""(How it is pooled or repeated, blocks inside) -> what is told."""


@pytest.mark.parametrize(("how", "inside"), GAINS)
def test_the_gain_holds_what_is_measured(how: str, inside: int) -> None:
    torch.manual_seed(0)
    model, x = Hourglass(how, inside).double(), torch.randn(1, TOKENS, WIDTH, dtype=torch.double)
    jacobian = torch.autograd.functional.jacobian(model, x).reshape(x.numel(), x.numel())
    report = screen.check(model, example_inputs=(x,), spot_check=False)
    claim = next(c for c in report.claims if c.claim == "identity_gain" and c.stream == report.streams[0].name)
    assert claim.low is not None and claim.high is not None
    assert (claim.low, claim.high) == pytest.approx(GAINS[how, inside])
    assert claim.low - 1e-9 <= float(torch.linalg.matrix_norm(jacobian, 2)) <= claim.high + 1e-9
