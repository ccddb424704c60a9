"""Norms, linear maps and positions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROTARY_BASE = 1e4
"""Base of the geometric sequence of wavelengths, in tokens (Su et al. 2021; Vaswani et al. 2017 for sinusoids)."""


class DyT(nn.Module):
    """tanh(a·x)·weight + bias in the place of a norm (Zhu et al. 2025, eq. 1); a starts at 0.5."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class Scaled(nn.Module):
    """A norm whose output is multiplied by a constant (LayerNorm Scaling, Sun et al. 2025)."""

    def __init__(self, norm: nn.Module, scale: float) -> None:
        super().__init__()
        self.norm, self.scale = norm, scale

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x)
        return normed * self.scale


def make_norm(kind: str, width: int, affine: bool = True) -> nn.Module:
    """The norm of this name over the last axis, of this width; the identity for `none`."""
    if kind == "layernorm":
        return nn.LayerNorm(width, elementwise_affine=affine)
    if kind == "rmsnorm":
        return nn.RMSNorm(width, eps=1e-6, elementwise_affine=affine)
    return DyT(width) if kind == "dyt" else nn.Identity()


class SigmaLinear(nn.Module):
    """W·γ/σ(W), with σ by a stored pair of vectors (σReparam, Zhai et al. 2023)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        self.gamma = nn.Parameter(torch.ones(1))
        self.u: Tensor
        self.v: Tensor
        self.register_buffer("u", torch.ones(out_features) / math.sqrt(out_features))
        self.register_buffer("v", torch.ones(in_features) / math.sqrt(in_features))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * (self.gamma / (self.u @ self.weight @ self.v)), self.bias)


class Sinusoid(nn.Module):
    """A fixed table of positions, [tokens, width] (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        angles = torch.arange(context).unsqueeze(1) * torch.exp(torch.arange(0, width, 2) * (-math.log(ROTARY_BASE) / width))
        table = torch.zeros(context, width)
        table[:, 0::2] = torch.sin(angles)
        table[:, 1::2] = torch.cos(angles)[:, : width // 2]
        self.table: Tensor
        self.register_buffer("table", table)

    def forward(self, tokens: int) -> Tensor:
        return self.table[:tokens]


class Learned(nn.Module):
    """A learned table of positions, [tokens, width]."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(context, width)

    def forward(self, tokens: int) -> Tensor:
        table: Tensor = self.emb(torch.arange(tokens, device=self.emb.weight.device))
        return table


def rotary(x: Tensor) -> Tensor:
    """Queries or keys [..., tokens, head_dim], each pair of features turned by its position (Su et al. 2021); an odd last feature stays."""
    tokens, turned = x.shape[-2], x.shape[-1] // 2 * 2
    wave = ROTARY_BASE ** (-torch.arange(0, turned, 2, device=x.device, dtype=torch.float32) / turned)
    angle = torch.arange(tokens, device=x.device, dtype=torch.float32)[:, None] * wave
    cos, sin = (part.to(x.dtype) for part in (torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()))
    first, rest = x[..., :turned], x[..., turned:]
    half = torch.cat([-first[..., turned // 2 :], first[..., : turned // 2]], -1)
    y = first * cos + half * sin
    return torch.cat([y, rest], -1) if rest.shape[-1] else y


__all__ = ["DyT", "Learned", "Scaled", "SigmaLinear", "Sinusoid", "make_norm", "rotary"]
