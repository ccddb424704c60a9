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


class _Over(nn.Module):
    """`x + f(norm(x))` over [batch, tokens, features], with a norm by hand over the given axes."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes, self.up, self.down = axes, nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        mean, var = x.mean(self.axes, keepdim=True), x.var(self.axes, keepdim=True, unbiased=False)
        out: Tensor = x + self.down(torch.relu(self.up((x - mean) / torch.sqrt(var + 1e-5))))
        return out


@pytest.mark.parametrize(("axes", "outcome"), [((1, 2), "not_applicable"), ((1,), "violated")])
def test_a_norm_over_tokens_and_features_together_is_over_features_too(axes: tuple[int, ...], outcome: str) -> None:
    model = nn.Sequential(*(_Over(axes) for _ in range(3)))
    found = [f for f in screen.check(model, example_inputs=torch.randn(2, 16, 32)).findings if f.code == "G126"]
    assert {f.outcome for f in found} == {outcome}, found


class _Scaled(nn.Module):
    """Each series is divided by its size over time; behind the blocks, and a head with weights, the size comes back, or does not."""

    def __init__(self, back: str) -> None:
        super().__init__()
        self.back, self.head, self.blocks = back, nn.Linear(32, 32), nn.Sequential(*(_Over((-1,)) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.head(x)
        mean = x.mean(1, keepdim=True)
        size = (x - mean).pow(2).mean(1, keepdim=True).add(1e-5).sqrt()
        out: Tensor = self.head(self.blocks((x - mean) / size))
        if self.back == "nothing":
            return out
        return (out + mean) * size if self.back == "mean, then size" else out * size + mean


@pytest.mark.by_the_day
@pytest.mark.parametrize(("back", "outcome"), [("size, then mean", "holds"), ("mean, then size", "violated"), ("nothing", "violated")])
def test_sizes_of_series_that_are_put_back_behind_the_stack_are_no_norm_over_tokens(back: str, outcome: str) -> None:
    found = [f for f in screen.check(_Scaled(back), example_inputs=torch.randn(2, 16, 32)).findings if f.code == "G126"]
    assert {f.outcome for f in found} == {outcome}, found
