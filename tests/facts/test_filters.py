"""Filters on half spectra: what they add is bounded at fixed weights, and a trained filter was seen to make it large."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS = 16, 12
Filter = Callable[[Tensor, nn.Parameter], Tensor]


def gate(x: Tensor, w: nn.Parameter) -> Tensor:
    """A number for each frequency and channel."""
    made = torch.fft.rfft(x, dim=-2, norm="ortho") * torch.complex(w[0], w[1])
    return torch.fft.irfft(made, n=TOKENS, dim=-2, norm="ortho")


def plane(x: Tensor, w: nn.Parameter) -> Tensor:
    """Tokens in a plane, and the pairs of one parameter as complex numbers."""
    made = torch.fft.rfft2(x.unflatten(1, (3, 4)), dim=(1, 2)) * torch.view_as_complex(w[:, :7].permute(1, 2, 0).contiguous())[None, :3, None]
    return torch.fft.irfft2(made, s=(3, 4), dim=(1, 2)).flatten(1, 2)


def convolved(x: Tensor, w: nn.Parameter) -> Tensor:
    """A long convolution, with zeros to twice the length."""
    made = torch.fft.rfft(x.mT, n=2 * TOKENS) * torch.fft.rfft(w[0].T, n=2 * TOKENS)
    return torch.fft.irfft(made, n=2 * TOKENS)[..., :TOKENS].mT


class Block(nn.Module):
    def __init__(self, filter: Filter) -> None:
        super().__init__()
        self.norm, self.filter = nn.LayerNorm(WIDTH), filter
        self.w = nn.Parameter(torch.randn(2, TOKENS // 2 + 1, WIDTH) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.filter(self.norm(x), self.w)


@pytest.mark.parametrize("filter", (gate, plane, convolved), ids=lambda f: str(f.__name__))
def test_a_filter_is_bounded_at_fixed_weights_alone(filter: Filter) -> None:
    report = screen.check(Block(filter), example_inputs=torch.randn(2, TOKENS, WIDTH), depth=4)
    told = {(c.claim, c.weights): c for c in report.claims}
    assert told["growth", "fixed"].value == "linear" and told["growth", "fixed"].status == "proved"
    assert told["output_bounded", "all"].value is False
