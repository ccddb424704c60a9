"""What a block adds to its stream: attention and feed-forward."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.designs.parts import SigmaLinear, make_norm, rotary
from screen.designs.spec import Design, NotExpressible, Sublayer

COSINE_SCALE = 10.0
"""What cosine logits start from when they are multiplied by a learned factor (Liu et al. 2022, Swin v2)."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "smooth_silu": F.silu}


class Attention(nn.Module):
    """Attention of x [batch, tokens, width] on itself or on `memory`, with grouped keys and norms of Q, K, V where the design has them."""

    def __init__(self, design: Design, sub: Sublayer, causal: bool) -> None:
        super().__init__()
        linear = SigmaLinear if design.sigma_reparam else nn.Linear
        self.heads, self.kv_heads, self.head_dim, self.causal = design.heads, design.kv_heads, design.head_dim, causal
        inner, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.q = linear(design.width, inner, bias=design.biases)
        self.k = linear(design.width, keys, bias=design.biases)
        self.v = linear(design.width, keys, bias=design.biases)
        self.o = linear(inner, design.width, bias=design.biases)
        kind = design.qk_norm_type or (design.norm_type if design.norm_type in ("layernorm", "rmsnorm") else "rmsnorm")
        qk = "per_head" if sub.qkv_norm else design.qk_norm
        if qk not in ("none", "per_head", "full", "cosine"):
            raise NotExpressible(f"QK-norm {qk}")
        self.full, self.cosine = qk == "full", qk == "cosine"
        self.q_norm = make_norm(kind, inner if self.full else self.head_dim, design.qk_norm_scale) if qk in ("per_head", "full") else None
        self.k_norm = make_norm(kind, keys if self.full else self.head_dim, design.qk_norm_scale) if qk in ("per_head", "full") else None
        self.v_norm = make_norm(kind, self.head_dim) if sub.qkv_norm or design.v_norm else None
        self.scale = nn.Parameter(torch.full((self.heads, 1, 1), COSINE_SCALE)) if self.cosine else None
        self.cap, self.softmax, self.rotary = design.attention_logit_cap, design.attention_softmax, design.position == "rotary"
        self.head_scale = nn.Parameter(torch.ones(self.heads, 1, 1)) if sub.head_scale else None
        self.inner = make_norm(design.norm_type, inner) if "S" in sub.placement else None

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        batch, tokens, _ = x.shape
        source = x if memory is None else memory
        q, k, v = self.q(x), self.k(source), self.v(source)
        if self.full and self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q = q.view(batch, tokens, self.heads, self.head_dim).transpose(1, 2)
        k, v = (t.view(batch, source.shape[1], self.kv_heads, self.head_dim).transpose(1, 2) for t in (k, v))
        if not self.full and self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.v_norm is not None:
            v = self.v_norm(v)
        if self.cosine:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        if self.rotary and memory is None:
            q, k = rotary(q), rotary(k)
        if self.kv_heads != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        y = self._attend(q, k, v, self.causal and memory is None)
        if self.head_scale is not None:
            y = y * self.head_scale
        y = y.transpose(1, 2).reshape(batch, tokens, self.heads * self.head_dim)
        out: Tensor = self.o(y if self.inner is None else self.inner(y))
        return out

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        """Queries [batch, heads, n, head_dim] on keys and values [batch, heads, m, head_dim]."""
        if not self.cap and self.softmax and self.scale is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        n, m = q.shape[-2], k.shape[-2]
        logits = q @ k.transpose(-1, -2) * (1 / math.sqrt(self.head_dim) if self.scale is None else self.scale)
        if self.cap:
            logits = self.cap * torch.tanh(logits / self.cap)
        seen = torch.ones(n, m, dtype=torch.bool, device=q.device).tril() if causal else None
        if self.softmax:
            return torch.softmax(logits if seen is None else logits.masked_fill(~seen, float("-inf")), -1) @ v
        weights = F.relu(logits).square() / math.sqrt(m)
        return (weights if seen is None else weights * seen) @ v


class FeedForward(nn.Module):
    """down(act(up(x))), or with a gate down(act(gate(x))·up(x))."""

    def __init__(self, design: Design, sub: Sublayer) -> None:
        super().__init__()
        linear = SigmaLinear if design.sigma_reparam else nn.Linear
        self.up = linear(design.width, design.ffn_width, bias=design.biases)
        self.gate = linear(design.width, design.ffn_width, bias=design.biases) if sub.role == "gated_ffn" else None
        self.down = linear(design.ffn_width, design.width, bias=design.biases)
        self.act = ACTIVATIONS[design.activation]
        self.inner = make_norm(design.norm_type, design.ffn_width) if "S" in sub.placement else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.up(x)) if self.gate is None else self.act(self.gate(x)) * self.up(x)
        out: Tensor = self.down(y if self.inner is None else self.inner(y))
        return out


def make_branch(design: Design, sub: Sublayer, causal: bool) -> nn.Module:
    """The branch that a sublayer's role names."""
    return Attention(design, sub, causal) if "attention" in sub.role else FeedForward(design, sub)


__all__ = ["Attention", "FeedForward", "make_branch"]
