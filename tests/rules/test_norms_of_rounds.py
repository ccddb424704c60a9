"""What G104 advises of a loop whose rounds end in a norm and begin with one: the second is needed in the first round."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen


class _Block(nn.Module):
    """`x + f(norm(x))`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class Rounds(nn.Module):
    """Two blocks run three times, with a norm behind each round; or, normed first, what they read is normed before the first round too."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(_Block() for _ in range(2)), nn.LayerNorm(32)
        self.first = nn.LayerNorm(32) if normed else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(3):
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
        return x


@pytest.mark.parametrize(("normed", "advice"), [(False, "leave out the second, and norm before the loop"), (True, "remove the second")])
def test_a_norm_that_the_first_round_needs_is_not_to_be_removed(normed: bool, advice: str) -> None:
    report = screen.check(Rounds(normed), example_inputs=torch.randn(2, 8, 32), spot_check=False)
    found = [f for f in report.findings if f.code == "G104"]
    assert found and {f.outcome for f in found} == {"violated"}
    assert all(f.remedy.startswith(advice) for f in found), found
