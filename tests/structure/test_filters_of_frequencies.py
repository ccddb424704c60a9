"""What weights multiply between a transform and its inverse is a filter; a transform that stays one mixes by Fourier."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.awkward.parts import FFN, TOKENS, D, Stack


class Kernel(nn.Module):
    """A filter as long as the sequence, of decays, by transforms of twice the length."""

    def __init__(self) -> None:
        super().__init__()
        self.rate, self.size = nn.Parameter(torch.randn(D)), nn.Parameter(torch.randn(D))

    def forward(self, u: Tensor) -> Tensor:
        n = u.shape[1]
        filters = self.size * torch.exp(-torch.exp(self.rate) * torch.arange(n)[:, None])
        made: Tensor = torch.fft.irfft(torch.fft.rfft(u, n=2 * n, dim=1) * torch.fft.rfft(filters, n=2 * n, dim=0), n=2 * n, dim=1)
        return made[:, :n]


class Global(nn.Module):
    """A number of each frequency and channel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(TOKENS // 2 + 1, D, 2))

    def forward(self, u: Tensor) -> Tensor:
        made: Tensor = torch.fft.irfft(torch.view_as_complex(self.weight) * torch.fft.rfft(u, dim=1, norm="ortho"), n=TOKENS, dim=1, norm="ortho")
        return made


class Low(nn.Module):
    """The low frequencies alone, no weight: there and back."""

    def forward(self, u: Tensor) -> Tensor:
        kept = torch.fft.rfft(u, dim=1) * (torch.arange(TOKENS // 2 + 1) < 4)[:, None]
        made: Tensor = torch.fft.irfft(kept, n=TOKENS, dim=1)
        return made


class Block(nn.Module):
    def __init__(self, mix: nn.Module) -> None:
        super().__init__()
        self.norms, self.mix, self.out, self.ffn = nn.ModuleList(nn.LayerNorm(D) for _ in range(2)), mix, nn.Linear(D, D), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self.mix(self.norms[0](x)))
        out: Tensor = x + self.ffn(self.norms[1](x))
        return out


@pytest.mark.parametrize(("make", "role"), [(Kernel, "conv"), (Global, "conv"), (Low, "fourier")])
def test_a_filter_by_transforms(make: Callable[[], nn.Module], role: str) -> None:
    report = screen.check(Stack(lambda: Block(make())), example_inputs=torch.randn(2, TOKENS, D), spot_check=False)
    (stream,) = report.streams
    assert [(b.role, b.placement) for b in stream.kinds[0].sublayers] == [(role, "pre"), ("ffn", "pre")]
