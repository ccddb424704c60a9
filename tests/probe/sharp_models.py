"""Small blocks whose bounds hold folded norms, spreads, and weights behind parametrisations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

WIDTH, TOKENS = 16, 6


class Attention(nn.Module):
    """Two heads, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, tokens, WIDTH]."""
        q, k, v = (m(x).unflatten(-1, (2, WIDTH // 2)).transpose(1, 2) for m in (self.q, self.k, self.v))
        rows = torch.softmax(q @ k.transpose(-2, -1) / (WIDTH // 2) ** 0.5, -1)
        return self.o((rows @ v).transpose(1, 2).flatten(-2))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """x + F(N(x))."""

    def __init__(self, branch: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.branch, self.norm = branch, norm

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, tokens, WIDTH]."""
        return x + self.branch(self.norm(x))  # type: ignore[no-any-return]


def _outlying(norm: nn.LayerNorm) -> nn.LayerNorm:
    """Gains 12, 6, 4, 1, … and biases that are not 0, as trained ones can be."""
    with torch.no_grad():
        norm.weight[:3] = torch.tensor([12.0, 6.0, 4.0], device=norm.weight.device)
        norm.bias.copy_(torch.linspace(-1.0, 1.0, WIDTH))
    return norm


def outlying() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Attention and a feed-forward behind norms with outlying gains; a live model, measured with its own weights."""
    torch.manual_seed(3)
    ffn = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
    model = nn.Sequential(Residual(Attention(), _outlying(nn.LayerNorm(WIDTH))), Residual(ffn, _outlying(nn.LayerNorm(WIDTH))))
    return model.eval(), (torch.randn(2, TOKENS, WIDTH),)


class Behind(nn.Module):
    """x + N(F(x)), with gains and a bias that are not 1 and 0."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.norm = nn.Linear(WIDTH, WIDTH), _outlying(nn.LayerNorm(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, tokens, WIDTH]."""
        return x + self.norm(self.branch(x))  # type: ignore[no-any-return]


def behind() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A branch that ends in a norm: its Hamiltonian has a closed form."""
    torch.manual_seed(6)
    return nn.Sequential(Behind(), Behind()).eval(), (torch.randn(2, TOKENS, WIDTH),)


def spectral() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A feed-forward whose maps are divided by an estimate of their norm."""
    return _constrained(parametrizations.spectral_norm)


def rows() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A feed-forward whose maps have rows of trained length."""
    return _constrained(parametrizations.weight_norm)


def _constrained(kind: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(4)
    first, second = (kind(nn.Linear(WIDTH, WIDTH, bias=False)) for _ in range(2))
    model = nn.Sequential(Residual(nn.Sequential(first, nn.ReLU(), second), nn.RMSNorm(WIDTH, 1e-6)))
    return model.eval(), (torch.randn(2, TOKENS, WIDTH),)
