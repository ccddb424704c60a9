"""What G126 says of norms that run over samples or places on purpose."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen


class _Normed(nn.Module):
    """`x + f(norm(x))` over [batch, channels, places]."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm, self.up, self.down = norm, nn.Conv1d(16, 32, 3, padding=1), nn.Conv1d(32, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(16), nn.GroupNorm(4, 16), nn.InstanceNorm1d(16)])
def test_norms_that_run_over_places_on_purpose_are_not_said_to_run_over_none(norm: nn.Module) -> None:
    model = nn.Sequential(_Normed(norm), _Normed(norm), _Normed(norm))
    [found] = [f for f in screen.check(model, example_inputs=torch.randn(2, 16, 12)).findings if f.code == "G126"]
    assert found.outcome == "not_applicable", found.message
