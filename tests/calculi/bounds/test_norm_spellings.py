"""Root mean square norms in spellings that their divisor is not read from step by step: the bound is that of the norm as it was recognised."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32
RMS: dict[str, Callable[[Tensor], Tensor]] = {
    "einsum": lambda x: x / torch.sqrt(torch.einsum("btd,btd->bt", x, x) / WIDTH + 1e-6)[..., None],
    "einsum twice": lambda x: torch.einsum("btd,bt->btd", x, (torch.einsum("btd,btd->bt", x, x) / WIDTH + 1e-6).rsqrt()),
    "vecdot": lambda x: x / torch.sqrt(torch.linalg.vecdot(x, x).unsqueeze(-1) / WIDTH + 1e-6),
    "logarithm": lambda x: x * torch.exp(-0.5 * torch.log(x.square().mean(-1, keepdim=True) + 1e-6)),
    "a row times a column": lambda x: x / ((x[..., None, :] @ x[..., :, None]).squeeze(-1) / WIDTH + 1e-6).sqrt(),
}


class Block(nn.Module):
    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.norm = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)), norm

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.net(self.norm(x)))


@pytest.mark.parametrize("norm", list(RMS.values()), ids=list(RMS))
def test_it_is_a_norm_and_has_its_bound(norm: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(2, 8, WIDTH, dtype=torch.float64)
    assert norm(x).square().mean(-1).sub(1).abs().max() < 1e-4
    report = screen.check(Block(norm), example_inputs=torch.zeros(2, 8, WIDTH), depth=4, spot_check=False)
    assert report.streams[0].kinds[0].sublayers[0].placement == "peri"
    assert next(c.value for c in report.claims if c.claim == "output_bounded") is True
