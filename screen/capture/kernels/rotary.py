"""Rotary embeddings of flash-attention, written out.

Source: flash_attn/layers/rotary.py (`apply_rotary_emb_torch`) of https://github.com/Dao-AILab/flash-attention. `cos` and `sin`: [L, R/2] or
[B, L, R/2]; the first R features of each head turn, the others stay. `apply_rotary`: csrc/rotary/rotary_cuda.cu there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def turned(x: Tensor, interleaved: bool) -> Tensor:
    """The pairs (a, b) as (-b, a)."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_emb(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, *_: Any, **__: Any) -> Tensor:
    """x [B, L, H, D]."""
    size = cos.shape[-1] * 2
    cos, sin = (t[..., : x.shape[1], :] for t in (cos, sin))
    cos, sin = (t.repeat_interleave(2, dim=-1) if interleaved else torch.cat((t, t), dim=-1) for t in (cos, sin))
    head, rest = x[..., :size], x[..., size:]
    return torch.cat((head * cos.unsqueeze(-2) + turned(head, interleaved) * sin.unsqueeze(-2), rest), dim=-1).to(x.dtype)


def apply_rotary_emb_torch(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """As `apply_rotary_emb`."""
    return apply_rotary_emb(x, cos, sin, interleaved)


def apply_rotary_emb_qkv_(
    qkv: Tensor, cos: Tensor, sin: Tensor, cos_k: Tensor | None = None, sin_k: Tensor | None = None, interleaved: bool = False, *_: Any, **__: Any
) -> Tensor:
    """qkv [B, L, 3, H, D]: queries and keys turn."""
    q, k, v = qkv.unbind(2)
    k = apply_rotary_emb(k, cos if cos_k is None else cos_k, sin if sin_k is None else sin_k, interleaved)
    return torch.stack((apply_rotary_emb(q, cos, sin, interleaved), k, v), dim=2)


def apply_rotary_emb_kv_(kv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, *_: Any, **__: Any) -> Tensor:
    """kv [B, L, 2, H, D]: keys turn."""
    k, v = kv.unbind(2)
    return torch.stack((apply_rotary_emb(k, cos, sin, interleaved), v), dim=2)


class LigerRopeFunction:
    """https://github.com/linkedin/Liger-Kernel, liger_kernel/ops/rope.py: halves turn, and of `cos` and `sin` [B, L, D] the first halves are read."""

    @staticmethod
    def apply(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        """q and k [B, H, L, D]."""
        cos, sin = (torch.cat((t[..., : q.shape[-1] // 2],) * 2, dim=-1).unsqueeze(-3) for t in (cos, sin))
        return (q * cos + turned(q, False) * sin).to(q.dtype), (k * cos + turned(k, False) * sin).to(k.dtype)


class RotaryEmbedding(nn.Module):
    """Turns qkv [B, L, 3, H, D], or q and kv."""

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False, *_: Any, **__: Any) -> None:
        super().__init__()
        self.interleaved = interleaved
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)), persistent=False)

    def forward(self, qkv: Tensor, kv: Tensor | None = None, seqlen_offset: int | Tensor = 0, *_: Any, **__: Any) -> Any:
        steps = torch.arange(qkv.shape[1], device=qkv.device, dtype=torch.float32) + seqlen_offset
        angles = torch.outer(steps, self.inv_freq)  # type: ignore[arg-type]
        cos, sin = angles.cos().to(qkv.dtype), angles.sin().to(qkv.dtype)
        if kv is None:
            return apply_rotary_emb_qkv_(qkv, cos, sin, interleaved=self.interleaved)
        return apply_rotary_emb(qkv, cos, sin, self.interleaved), apply_rotary_emb_kv_(kv, cos, sin, self.interleaved)


def apply_rotary(x1: Tensor, x2: Tensor, cos: Tensor, sin: Tensor, out1: Tensor, out2: Tensor, conj: bool) -> None:
    """The pairs (x1, x2) turn, the other way with `conj`, into (out1, out2), which may be themselves."""
    sin = -sin if conj else sin
    first, second = x1 * cos - x2 * sin, x1 * sin + x2 * cos
    out1.copy_(first)
    out2.copy_(second)


ROTARY: dict[str, Any] = {
    "apply_rotary_emb": apply_rotary_emb,
    "apply_rotary_emb_func": apply_rotary_emb,
    "apply_rotary_emb_torch": apply_rotary_emb_torch,
    "apply_rotary_emb_qkv_": apply_rotary_emb_qkv_,
    "apply_rotary_emb_kv_": apply_rotary_emb_kv_,
    "RotaryEmbedding": RotaryEmbedding,
}

PAIRS: dict[str, Any] = {"apply_rotary": apply_rotary}

__all__ = ["PAIRS", "ROTARY", "turned"]
LIGER: dict[str, Any] = {"LigerRopeFunction": LigerRopeFunction}
