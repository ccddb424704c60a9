"""Attention kernels, written out. Shapes: q [B, L, H, D], k and v [B, S, H', D] with H a multiple of H'.

    softmax(softcap(q kᵀ · scale) + bias) v

with masks for causality, windows and packed sequences. Sources: the docstrings of `flash_attn_func` and `flash_attn_varlen_func` (flash-attention),
and the pseudo code of `memory_efficient_attention` (xformers).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Window = tuple[int, int]
EVERYTHING: Window = (-1, -1)


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool, window: Window = EVERYTHING, softcap: float = 0.0, bias: Tensor | None = None
) -> Tensor:
    """[B, L, H, D], contiguous as the kernels return it. `bias`, [B or 1, H or 1, L, S]:
    numbers that are added to the logits, or truth values that say what is seen."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    apart = causal and (bias is not None or q.shape[-2] != k.shape[-2])  # PyTorch aligns at the first query and the first key
    seen = _seen(q.shape[-2], k.shape[-2], causal, window) if tuple(window) != EVERYTHING or apart else None
    if seen is not None and bias is not None:
        bias, seen = (bias & seen, None) if bias.dtype == torch.bool else (bias.masked_fill(~seen, float("-inf")), None)
    if not softcap:
        given = seen if bias is None else bias
        out = F.scaled_dot_product_attention(q, k, v, given, is_causal=causal and given is None, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
        return out.transpose(1, 2).contiguous()
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    logits = softcap * torch.tanh(q @ k.transpose(-2, -1) * (scale or 1 / math.sqrt(q.shape[-1])) / softcap)
    if seen is None and causal:
        seen = _seen(q.shape[-2], k.shape[-2], causal, window)
    if bias is not None:
        logits = logits.masked_fill(~bias, float("-inf")) if bias.dtype == torch.bool else logits + bias
    if seen is not None:
        logits = logits.masked_fill(~seen, float("-inf"))
    return (torch.softmax(logits, dim=-1) @ v).transpose(1, 2).contiguous()


def _seen(queries: int, keys: int, causal: bool, window: Window) -> Tensor:
    """[L, S]: aligned at the last query and the last key."""
    ahead = torch.arange(keys)[None] - torch.arange(queries)[:, None] - (keys - queries)
    left, right = window[0], 0 if causal else window[1]
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if right >= 0:
        seen = seen & (ahead <= right)
    return seen & (ahead >= -left) if left >= 0 else seen


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Window = EVERYTHING, softcap: float = 0.0, alibi_slopes: Tensor | None = None, *_: Any, return_attn_probs: bool = False, **__: Any,
) -> Any:  # fmt: skip
    """`flash_attn_func`; ALiBi adds −slope · |i + S − L − j|."""
    bias = None
    if alibi_slopes is not None:
        ahead = torch.arange(k.shape[1])[None] - torch.arange(q.shape[1])[:, None] - (k.shape[1] - q.shape[1])
        bias = -alibi_slopes.reshape(-1, alibi_slopes.shape[-1], 1, 1) * ahead.abs()
    out = attend(q, k, v, softmax_scale, causal, window_size, softcap, bias)
    return (out, None, None) if return_attn_probs else out


def flash_attn_qkvpacked_func(qkv: Tensor, *args: Any, **kwargs: Any) -> Any:
    """qkv [B, L, 3, H, D]."""
    q, k, v = qkv.unbind(2)
    return flash_attn_func(q, k, v, *args, **kwargs)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *args: Any, **kwargs: Any) -> Any:
    """kv [B, S, 2, H, D]."""
    k, v = kv.unbind(2)
    return flash_attn_func(q, k, v, *args, **kwargs)


def flash_attn_varlen_func(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: Any = None, max_seqlen_k: Any = None,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Window = EVERYTHING, softcap: float = 0.0,
    *_: Any, **__: Any,
) -> Tensor:  # fmt: skip
    """q [tokens, H, D]: sequences one behind the other, which begin at `cu_seqlens`."""
    of_q, of_k = _sequence(q.shape[0], cu_seqlens_q), _sequence(k.shape[0], cu_seqlens_k)
    same = (of_q[:, None] == of_k[None])[None, None]
    return attend(q[None], k[None], v[None], softmax_scale, causal, window_size, softcap, same)[0]


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """qkv [tokens, 3, H, D]."""
    q, k, v = qkv.unbind(1)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **kwargs)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """kv [tokens, 2, H, D]."""
    k, v = kv.unbind(1)
    return flash_attn_varlen_func(q, k, v, *args, **kwargs)


def _sequence(tokens: int, starts: Tensor) -> Tensor:
    """[tokens]: the number of the sequence that a token belongs to."""
    return (torch.arange(tokens)[:, None] >= starts[None, 1:]).sum(-1)


def unpad_input(hidden_states: Tensor, attention_mask: Tensor, *_: Any) -> tuple[Any, ...]:
    """The tokens of [B, L, …] that are no padding, one behind the other."""
    lengths = attention_mask.sum(-1, dtype=torch.int32)
    indices = attention_mask.flatten().nonzero().flatten()
    starts = F.pad(torch.cumsum(lengths, 0, dtype=torch.int32), (1, 0))
    return hidden_states.flatten(0, 1)[indices], indices, starts, hidden_states.shape[1], lengths


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """The inverse of `unpad_input`."""
    out = torch.zeros(batch * seqlen, *hidden_states.shape[1:], dtype=hidden_states.dtype)
    out[indices] = hidden_states
    return out.reshape(batch, seqlen, *hidden_states.shape[1:])


def index_first_axis(x: Tensor, indices: Tensor) -> Tensor:
    """Rows of x."""
    return x[indices]


class AttentionBias:
    """Base of the masks of xformers."""


class LowerTriangularMask(AttentionBias):
    """Causal."""


class BlockDiagonalMask(AttentionBias):
    """Sequences one behind another in a batch of one, each of which sees its own keys alone."""

    def __init__(self, queries: list[int], keys: list[int]) -> None:
        self.queries, self.keys = queries, keys

    @classmethod
    def from_seqlens(cls, q_seqlen: Any, kv_seqlen: Any = None) -> BlockDiagonalMask:
        """Of these lengths."""
        return cls(list(q_seqlen), list(q_seqlen if kv_seqlen is None else kv_seqlen))

    def seen(self) -> Tensor:
        """[1, 1, all queries, all keys]"""
        of_query, of_key = (torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)]) for lengths in (self.queries, self.keys))
        return (of_query[:, None] == of_key)[None, None]


def memory_efficient_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Any = None, p: float = 0.0, scale: float | None = None, **_: Any
) -> Tensor:
    """[B, L, H, D], or [B, L, D] for one head; with five axes [B, L, G, H, D], groups of heads."""
    if query.dim() == 3:
        return memory_efficient_attention(query[:, :, None], key[:, :, None], value[:, :, None], attn_bias, p, scale)[:, :, 0]
    if query.dim() == 5:
        out = memory_efficient_attention(query.flatten(2, 3), key.flatten(2, 3), value.flatten(2, 3), attn_bias, p, scale)
        return out.reshape(query.shape[:4] + value.shape[4:])
    bias = attn_bias.seen() if isinstance(attn_bias, BlockDiagonalMask) else attn_bias if isinstance(attn_bias, Tensor) else None
    return attend(query, key, value, scale, isinstance(attn_bias, LowerTriangularMask), bias=bias)


class FlashAttentionFunction:
    """q, k and v [B, H, L, D]; `mask` [B, S] or [B, H, L, S], of what is seen."""

    @staticmethod
    def apply(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, *_: Any) -> Tensor:
        """Attention with the scale 1/√D."""
        seen = mask[:, None, None] if mask is not None and mask.dim() == 2 else mask
        return attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), None, causal, bias=seen).transpose(1, 2).contiguous()


class SwiGLU(nn.Module):
    """w3(silu(w1 x) · w2 x), with w1 and w2 in one weight where `_pack_weights`."""

    def __init__(
        self, in_features: int, hidden_features: int, out_features: int | None = None, bias: bool = True, *, _pack_weights: bool = True
    ) -> None:
        super().__init__()
        self.w12 = nn.Linear(in_features, 2 * hidden_features, bias=bias) if _pack_weights else None
        if not _pack_weights:
            self.w1, self.w2 = (nn.Linear(in_features, hidden_features, bias=bias) for _ in range(2))
        self.w3 = nn.Linear(hidden_features, out_features or in_features, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.w12(x).chunk(2, dim=-1) if self.w12 is not None else (self.w1(x), self.w2(x))
        return self.w3(F.silu(gate) * value)  # type: ignore[no-any-return]


def unbind(x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Slices of x."""
    return x.unbind(dim)


FLASH: dict[str, Any] = {
    f.__name__: f
    for f in (flash_attn_func, flash_attn_qkvpacked_func, flash_attn_kvpacked_func, flash_attn_varlen_func, flash_attn_varlen_qkvpacked_func,
              flash_attn_varlen_kvpacked_func)
}  # fmt: skip
PADDING: dict[str, Any] = {"unpad_input": unpad_input, "pad_input": pad_input, "index_first_axis": index_first_axis}
XFORMERS: dict[str, Any] = {
    "memory_efficient_attention": memory_efficient_attention,
    "AttentionBias": AttentionBias,
    "BlockDiagonalMask": BlockDiagonalMask,
    "LowerTriangularMask": LowerTriangularMask,
    "SwiGLU": SwiGLU,
    "unbind": unbind,
}
BUCKETS: dict[str, Any] = {"FlashAttentionFunction": FlashAttentionFunction}

__all__ = ["BUCKETS", "FLASH", "PADDING", "XFORMERS", "attend"]
