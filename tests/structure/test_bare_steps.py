"""Recurrences whose decay is exp(−Δ·A), A trained, Δ a map of the data without a softplus: state spaces where Δ multiplies what comes in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, INNER, STATE, TOKENS = 16, 24, 4, 12


class Scan(nn.Module):
    """x + W(C · s), s ← exp(−Δ·A) s + Δ·B·u for each token, or s ← exp(−Δ·A) s + B·u."""

    def __init__(self, stepped: bool) -> None:
        super().__init__()
        self.stepped, self.norm, self.into, self.out = stepped, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.maps, self.rates = nn.Linear(INNER, INNER + 2 * STATE), nn.Parameter(torch.rand(INNER, STATE))

    def forward(self, x: Tensor) -> Tensor:
        u = torch.tanh(self.into(self.norm(x)))
        delta, b, c = self.maps(u).split([INNER, STATE, STATE], -1)
        keep = torch.exp(-(delta[..., None] * self.rates))
        come = b[:, :, None] * (delta[..., None] * u[..., None] if self.stepped else u[..., None])
        state, told = torch.zeros(len(x), INNER, STATE), []
        for t in range(x.shape[1]):
            state = keep[:, t] * state + come[:, t]
            told.append((state @ c[:, t, :, None])[..., 0])
        return x + self.out(torch.stack(told, 1))


class Net(nn.Module):
    def __init__(self, stepped: bool) -> None:
        super().__init__()
        self.words, self.blocks, self.head = nn.Embedding(30, WIDTH), nn.ModuleList(Scan(stepped) for _ in range(2)), nn.Linear(WIDTH, 30)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize(("stepped", "role"), [(True, "ssm"), (False, "linear_attention")])
def test_a_step_that_multiplies_the_input_makes_a_state_space(stepped: bool, role: str) -> None:
    (stream,) = screen.check(Net(stepped), example_inputs=(torch.zeros(2, TOKENS, dtype=torch.long),)).streams
    assert [one.role for one in stream.kinds[0].sublayers] == [role]
