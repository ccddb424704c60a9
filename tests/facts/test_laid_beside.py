"""A stream that other tokens are laid beside is carried on whole: its identity path has gain 1, and the gain is measured."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS, OTHERS = 8, 6, 4


class Block(nn.Module):
    """A feed-forward that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.others = how, nn.Parameter(torch.randn(1, OTHERS, WIDTH))
        self.before, self.behind = (nn.ModuleList(Block() for _ in range(3)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.before:
            x = block(x)
        x = torch.cat([self.others.expand(x.shape[0], -1, -1), x], 1)
        x = x[:, : OTHERS + 2] if self.how == "few" else x
        for block in self.behind:
            x = block(x)
        return x


@pytest.mark.parametrize(("how", "low"), [("all", 1.0), ("few", 0.0)])
def test_the_gain_holds_what_is_measured(how: str, low: float) -> None:
    torch.manual_seed(0)
    model, x = Model(how).double(), torch.randn(1, TOKENS, WIDTH, dtype=torch.double)
    jacobian = torch.autograd.functional.jacobian(model, x).reshape(-1, x.numel())
    report = screen.check(model, example_inputs=(x,), spot_check=False)
    claim = next(c for c in report.claims if c.claim == "identity_gain" and c.stream == report.streams[0].name)
    assert claim.low is not None and claim.high is not None
    assert claim.low == pytest.approx(low) and claim.high == pytest.approx(1.0)
    assert claim.low - 1e-9 <= float(torch.linalg.matrix_norm(jacobian, 2)) <= claim.high + 1e-9
