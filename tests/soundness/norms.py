"""Norms as people write them, and things that only look like one."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-5


class Norm(nn.Module):
    """The norm `style` over the last axis of width `width`; x: [..., width]."""

    def __init__(self, style: str, width: int) -> None:
        super().__init__()
        self.style, self.width = style, width
        built = {"LayerNorm": nn.LayerNorm, "RMSNorm": nn.RMSNorm}.get(style)
        self.inner = built(width) if built is not None else None
        self.gain = nn.Parameter(torch.ones(width)) if style not in ("no_gain", "l2", "hand_l2") and built is None else None
        self.shift = nn.Parameter(torch.zeros(width)) if style in ("layer", "hand_layer", "std", "batch", "dyt") else None
        self.alpha = nn.Parameter(torch.ones(())) if style == "dyt" else None
        if style == "batch":
            self.batch = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        if self.inner is not None:
            return self.inner(x)
        if self.style == "layer":
            return F.layer_norm(x, (self.width,), self.gain, self.shift, EPS)
        if self.style == "rms":
            return F.rms_norm(x, (self.width,), self.gain, EPS)
        y = _STYLES[self.style](self, x)
        if self.style == "plus_one_rms":
            return y * (1.0 + self.gain)
        if self.style == "half_norm":
            return self.gain * y
        y = y if self.gain is None else y * self.gain
        return y if self.shift is None else y + self.shift


def _mean_square(x: Tensor, eps: float = EPS) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def _standard(norm: Norm, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + EPS)


def _std(norm: Norm, x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + EPS)


def _partial(norm: Norm, x: Tensor) -> Tensor:
    return x * torch.rsqrt(x[..., : x.shape[-1] // 2].pow(2).mean(-1, keepdim=True) + EPS)


def _group(norm: Norm, x: Tensor) -> Tensor:
    parts = x.unflatten(-1, (2, norm.width // 2))
    return (parts * torch.rsqrt(parts.pow(2).mean(-1, keepdim=True) + EPS)).flatten(-2)


def _over_tokens(norm: Norm, x: Tensor) -> Tensor:
    return F.layer_norm(x, tuple(x.shape[-2:]), None, None, EPS)


def _group_tokens(norm: Norm, x: Tensor) -> Tensor:
    flat = x.reshape(-1, *x.shape[-2:]).transpose(-1, -2)
    return F.group_norm(flat, 2, None, None, EPS).transpose(-1, -2).reshape(x.shape)


def _batch(norm: Norm, x: Tensor) -> Tensor:
    return norm.batch(x.reshape(-1, norm.width)).reshape(x.shape)


def _tanh(norm: Norm, x: Tensor) -> Tensor:
    return torch.tanh(norm.alpha * x)


_STYLES: dict[str, Callable[[Norm, Tensor], Tensor]] = {
    "hand_rms": lambda n, x: _mean_square(x),
    "hand_layer": _standard,
    "plus_one_rms": lambda n, x: _mean_square(x),
    "no_gain": lambda n, x: F.layer_norm(x, (n.width,), None, None, EPS),
    "l2": lambda n, x: F.normalize(x, dim=-1),
    "hand_l2": lambda n, x: x / (x.norm(dim=-1, keepdim=True) + EPS),
    "lp1": lambda n, x: x / (x.abs().mean(-1, keepdim=True) + EPS),
    "lp3": lambda n, x: x / (x.norm(p=3, dim=-1, keepdim=True) + EPS),
    "max": lambda n, x: x / (x.abs().amax(-1, keepdim=True) + EPS),
    "std": _std,
    "wide_eps": lambda n, x: _mean_square(x, 0.25),
    "rms_out_eps": lambda n, x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + EPS),
    "half_norm": lambda n, x: (x * x).mean(-1, keepdim=True).add(EPS).rsqrt() * x,
    "group": _group,
    "partial": _partial,
    "over_mean": lambda n, x: x / x.mean(-1, keepdim=True),
    "over_tokens": _over_tokens,
    "group_tokens": _group_tokens,
    "dyt": _tanh,
    "batch": _batch,
    "hollow": lambda n, x: x,
}
