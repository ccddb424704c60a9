"""Softmax attention in the layouts and spellings that occur. x: [batch, tokens, width]; q, k, v: [batch, heads, tokens, head width]."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.soundness.grammar import Attend
from tests.soundness.norms import Norm


class Attention(nn.Module):
    """One attention as `how` says."""

    def __init__(self, how: Attend, width: int, bias: bool) -> None:
        super().__init__()
        self.how, self.width, self.size = how, width, width // how.heads
        self.kv = how.heads // how.groups
        even = how.groups == 1 and how.layout in ("chunk", "three_first", "heads_first", "by_head")
        self.layout = how.layout if even or how.layout in ("split", "kv_fused", "one_qk") else "apart"
        if self.layout == "one_qk" and how.groups > 1:
            self.layout = "apart"
        narrow = self.kv * self.size
        sizes = {"kv_fused": (width, 2 * narrow), "apart": (width, narrow, narrow), "one_qk": (width, narrow)}
        self.maps = nn.ModuleList(nn.Linear(width, n, bias) for n in sizes.get(self.layout, (width + 2 * narrow,)))
        self.out = nn.Linear(width, width, bias)
        kind, _, style = how.qk.partition(" ")
        self.kind = kind
        self.norms = nn.ModuleList(Norm(style, n if kind == "full" else self.size) for n in (width, narrow)) if style else None
        self.temperature = nn.Parameter(torch.ones(())) if kind == "cosine" or how.scale == "learned" else None
        self.sink = nn.Parameter(torch.zeros(how.heads)) if how.sink == "learned" else None
        self.extra = nn.Parameter(torch.ones(2, self.kv, 1, self.size)) if how.sink == "token" else None
        self.gate = nn.Linear(width, width, bias) if how.gate else None
        self.v_norm = Norm("hand_rms", self.size) if how.v_norm else None
        self.over_heads = nn.Linear(how.heads, how.heads, False) if how.weighing == "talking" else None
        self.of_data = nn.Linear(width, 1, bias) if how.weighing in ("temperature_of_data", "bias_of_data") else None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        if self.kind == "cosine":
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        if self.kind == "head" and self.norms is not None:
            q, k = self.norms[0](q), self.norms[1](k)
        if self.v_norm is not None:
            v = self.v_norm(v)
        if self.how.rope:
            q, k = rotate(q, self.how.rope), rotate(k, self.how.rope)
        if self.extra is not None:  # a learned key and value for all tokens
            k = torch.cat([self.extra[0].expand(k.shape[0], -1, -1, -1), k], -2)
            v = torch.cat([self.extra[1].expand(v.shape[0], -1, -1, -1), v], -2)
        y = self.mix(q, k, v, x).transpose(1, 2).reshape(x.shape)
        if self.gate is not None:
            y = y * torch.sigmoid(self.gate(x))
        return self.out(y)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project, then split into heads."""
        batch, n, _ = x.shape
        h, s, narrow = self.how.heads, self.size, self.kv * self.size
        ys = [m(x) for m in self.maps]
        if self.layout == "three_first":
            q, k, v = ys[0].view(batch, n, 3, h, s).permute(2, 0, 3, 1, 4).unbind(0)
        elif self.layout == "heads_first":
            q, k, v = ys[0].view(batch, n, h, 3, s).permute(3, 0, 2, 1, 4)
        elif self.layout == "by_head":
            q, k, v = ys[0].view(batch, n, h, 3 * s).transpose(1, 2).chunk(3, -1)
        else:
            if self.layout == "chunk":
                q, k, v = ys[0].chunk(3, dim=-1)
            elif self.layout == "split":
                q, k, v = ys[0].split([self.width, narrow, narrow], dim=2)
            elif self.layout == "kv_fused":
                q, (k, v) = ys[0], ys[1].chunk(2, -1)
            elif self.layout == "one_qk":
                q, k, v = ys[0], ys[0], ys[1]
            else:
                q, k, v = ys
            if self.kind == "full" and self.norms is not None:
                q, k = self.norms[0](q), self.norms[1](k)
            q, k, v = (t.view(batch, n, -1, s).transpose(1, 2) for t in (q, k, v))
        return q, k, v

    def mix(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """Weigh v by the softmax of the logits, or by what stands in its place."""
        how = self.how
        plain = how.form == "sdpa" and not how.cap and how.sink in ("", "token") and not how.weighing
        if how.groups > 1 and not (plain and how.repeat == "enable_gqa"):
            k, v = self.repeated(k), self.repeated(v)
        factor = {"root": 1 / math.sqrt(self.size), "width": 1 / self.size, "none": 1.0, "learned": 1.0}[how.scale]
        if self.temperature is not None:
            q = q * self.temperature
        n, m = q.shape[-2], k.shape[-2]
        if plain:
            mask = None if how.mask in ("none", "causal") else allowed(n, m, how.mask, q)
            causal = how.mask == "causal" and n == m
            return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=factor, enable_gqa=q.shape[1] != k.shape[1])
        if how.weighing == "negative_distance":
            logits = -(q.unsqueeze(-2) - k.unsqueeze(-3)).norm(dim=-1) * factor
        else:
            logits = torch.einsum("bhid,bhjd->bhij", q, k) * factor if how.form == "einsum" else (q @ k.transpose(-2, -1)) * factor
        if self.of_data is not None:  # one number for each query token, before the softmax
            number = self.of_data(x).unsqueeze(1)
            logits = logits * F.softplus(number) if how.weighing == "temperature_of_data" else logits + number * torch.arange(m, dtype=x.dtype)
        if how.cap:
            logits = 5.0 * torch.tanh(logits / 5.0)
        if how.mask == "filled":
            logits = logits.masked_fill(torch.ones(n, m, dtype=torch.bool, device=q.device).triu(1 + m - n), float("-inf"))
        elif how.mask == "where":
            logits = logits.where(allowed(n, m, "bool", q), torch.finfo(q.dtype).min)
        elif how.mask != "none":
            logits = logits + allowed(n, m, "added" if how.mask in ("causal", "bool") else how.mask, q)
        weights = self.weights(logits)
        if self.over_heads is not None:
            weights = self.over_heads(weights.movedim(1, -1)).movedim(-1, 1)
        return torch.einsum("bhij,bhjd->bhid", weights, v) if how.form == "einsum" else weights @ v

    def weights(self, logits: Tensor) -> Tensor:
        """Softmax over keys, with a sink: a logit of its own, or a one in the denominator."""
        if self.sink is not None:
            sinks = self.sink.reshape(1, -1, 1, 1).expand(logits.shape[0], -1, logits.shape[-2], 1)
            return torch.softmax(torch.cat([logits, sinks], -1), -1)[..., :-1]
        if self.how.sink == "zero":
            top = logits.amax(-1, keepdim=True).clamp(min=0)
            parts = torch.exp(logits - top)
            return parts / (parts.sum(-1, keepdim=True) + torch.exp(-top))
        return _WEIGHINGS.get(self.how.weighing, lambda u: u.softmax(-1))(logits)

    def repeated(self, t: Tensor) -> Tensor:
        """Key heads, once for each of their query heads."""
        if self.how.repeat == "interleave":
            return t.repeat_interleave(self.how.groups, dim=1)
        b, h, n, s = t.shape
        return t[:, :, None].expand(b, h, self.how.groups, n, s).reshape(b, h * self.how.groups, n, s)


def _by_hand(u: Tensor) -> Tensor:
    shares = torch.exp(u - u.amax(-1, keepdim=True))
    return shares / shares.sum(-1, keepdim=True)


_WEIGHINGS = {
    "by_hand": _by_hand,
    "log_exp": lambda u: F.log_softmax(u, -1).exp(),
    "two": lambda u: u.softmax(-1) - 0.5 * (0.5 * u).softmax(-1),
    "sigmoid": torch.sigmoid,
    "squared": lambda u: u.softmax(-1) ** 2,
}


def allowed(n: int, m: int, kind: str, like: Tensor) -> Tensor:
    """A mask to be added (0 where allowed), or a boolean one (True where allowed)."""
    off = 1 + m - n
    if kind in ("bool", "where"):
        return torch.ones(n, m, dtype=torch.bool, device=like.device).tril(off - 1)
    low = -100.0 if kind == "finite" else float("-inf")
    mask = torch.full((n, m), low, dtype=like.dtype, device=like.device).triu(off)
    if kind == "window":
        mask = mask + torch.full((n, m), low, dtype=like.dtype, device=like.device).tril(off - 4)
    return mask


def rotate(t: Tensor, kind: str) -> Tensor:
    """Rotary positions, by halves, by pairs, or with an amplitude; and two things that look like them."""
    n, s = t.shape[-2:]
    steps = 1.0 / 100.0 ** (torch.arange(0, s, 2, device=t.device, dtype=t.dtype) / s)
    angles = torch.outer(torch.arange(n, device=t.device, dtype=t.dtype), steps)
    if kind == "pairs":
        cos, sin = angles.cos(), angles.sin()
        even, odd = t[..., 0::2], t[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
    both = torch.cat([angles, angles], -1)
    cos, sin = both.cos(), both.sin()
    if kind == "shifted":  # cosines and sines of different tokens: no rotation
        cos, sin = F.pad(cos, (0, 0, 0, 1))[:n], F.pad(sin, (0, 0, 0, 1))[1 : n + 1]
    if kind == "turned" and t.shape[-3] == n:  # sines along the heads: no rotation
        sin = sin.unsqueeze(1)
    if kind == "scaled":
        cos, sin = cos * 1.3, sin * 1.3
    first, second = t.chunk(2, -1)
    return t * cos + torch.cat([-second, first], -1) * sin
