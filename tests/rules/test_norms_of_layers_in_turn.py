"""G125 of layers that serve several times in a row, in groups (ALBERT): behind the last of a group come other maps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 16


class _Layer(nn.Module):
    """Two post-norm branches, or pre-norm ones; `norm` is one of its own, or one for all."""

    def __init__(self, post: bool, norm: nn.Module | None) -> None:
        super().__init__()
        self.post, self.one, self.two = post, nn.LayerNorm(WIDTH), norm or nn.LayerNorm(WIDTH)
        self.mix, self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if self.post:
            x = self.one(x + torch.tanh(self.mix(x)))
            out: Tensor = self.two(x + self.down(torch.relu(self.up(x))))
            return out
        x = x + torch.tanh(self.mix(self.one(x)))
        return x + self.down(torch.relu(self.up(self.two(x))))


class _Model(nn.Module):
    """Two layers, each of which serves twice in a row, or four with one norm among them."""

    def __init__(self, post: bool, shared: bool) -> None:
        super().__init__()
        norm = nn.LayerNorm(WIDTH) if shared else None
        self.layers = nn.ModuleList(_Layer(post, norm) for _ in range(4 if shared else 2))
        self.times = 1 if shared else 2

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            for _ in range(self.times):
                x = layer(x)
        return x


@pytest.mark.parametrize(
    ("post", "shared", "outcome"), [(True, False, "holds"), (False, False, "holds"), (True, True, "violated"), (False, True, "violated")]
)
def test_a_layer_that_serves_twice_shares_its_norms(post: bool, shared: bool, outcome: str) -> None:
    found = [f for f in screen.check(_Model(post, shared), example_inputs=torch.zeros(2, 5, WIDTH)).findings if f.code == "G125"]
    assert {f.outcome for f in found} <= {outcome} and (bool(found) or outcome == "holds"), found
