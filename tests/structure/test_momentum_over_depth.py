"""v ← μ·v + f(x), x ← x + v: what earlier blocks added is carried on beside the stream, and no block is a recurrence over tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, BLOCKS = 16, 12


class Model(nn.Module):
    def __init__(self, over_tokens: bool) -> None:
        super().__init__()
        self.over_tokens, self.first = over_tokens, nn.Linear(8, WIDTH)
        self.norms, self.ups, self.downs = (nn.ModuleList(m() for _ in range(BLOCKS)) for m in (self._norm, self._map, self._map))

    @staticmethod
    def _norm() -> nn.Module:
        return nn.LayerNorm(WIDTH)

    @staticmethod
    def _map() -> nn.Module:
        return nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        carried = torch.zeros_like(x)
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            made = down(torch.relu(up(norm(x))))
            if self.over_tokens:
                state, states = torch.zeros_like(made[:, 0]), []
                for token in made.unbind(1):
                    state = 0.9 * state + token
                    states.append(state)
                carried = torch.stack(states, 1)
            else:
                carried = 0.9 * carried + made
            x = x + carried
        return x


@pytest.mark.parametrize(("over_tokens", "role"), [(False, "ffn"), (True, "rnn")])
def test_its_role(over_tokens: bool, role: str) -> None:
    report = screen.check(Model(over_tokens), example_inputs=(torch.randn(2, 10, 8),), spot_check=False)
    [stream] = report.streams
    assert stream.depth == BLOCKS and {s.role for k in stream.kinds for s in k.sublayers} == {role}
