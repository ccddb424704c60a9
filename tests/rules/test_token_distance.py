"""What R401 says where the stream is multiplied by what is made of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen


class _Gated(nn.Module):
    """σ(g(norm(x)))·x + tanh(f(norm(x)))"""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate, self.f = nn.LayerNorm(16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return torch.sigmoid(self.gate(h)) * x + torch.tanh(self.f(h))


def test_a_gate_made_of_the_stream_may_carry_inputs_apart() -> None:
    report = screen.check(nn.Sequential(*(_Gated() for _ in range(4))), example_inputs=torch.randn(2, 8, 16))
    [found] = [f for f in report.findings if f.code == "R401"]
    worst = 0.0
    for seed in range(5):
        torch.manual_seed(seed)
        block = _Gated().double().requires_grad_(False)
        nn.init.normal_(block.gate.weight, std=3.0)
        x, y = 1e6 * torch.randn(1, 1, 16, dtype=torch.float64), 1e3 * torch.randn(200, 1, 16, dtype=torch.float64)
        apart = (block(x + y) - block(x)).norm(dim=-1) - 2 * 4.0  # two outputs of tanh: at most 2·√16
        worst = max(worst, float((apart / y.norm(dim=-1)).max()))
    assert worst > 1.5
    assert found.outcome == "cannot_tell", found.message
