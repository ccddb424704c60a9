"""Logits that each attention adds to those of the one before it are no residual stream, capped or not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, BLOCKS = 32, 4


class Model(nn.Module):
    def __init__(self, cap: bool) -> None:
        super().__init__()
        self.cap, self.first = cap, nn.Linear(8, WIDTH)
        self.norms, self.behind = (nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(BLOCKS)) for _ in range(2))
        self.maps = nn.ModuleList(nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6)) for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        x, logits = self.first(x), None
        for norm, behind, (q, k, v, o, up, down) in zip(self.norms, self.behind, self.maps, strict=True):
            y = norm(x)
            here = q(y) @ k(y).mT * WIDTH**-0.5
            logits = here if logits is None else here + logits
            x = x + o(((logits / 20).tanh() * 20 if self.cap else logits).softmax(-1) @ v(y))
            x = x + down(F.gelu(up(behind(x))))
        return x


@pytest.mark.parametrize("cap", [False, True])
def test_one_stream_of_blocks(cap: bool) -> None:
    report = screen.check(Model(cap), example_inputs=(torch.randn(2, 10, 8),), spot_check=False)
    [stream] = report.streams
    assert stream.depth == BLOCKS and {tuple(s.role for s in k.sublayers) for k in stream.kinds} == {("attention", "ffn")}
