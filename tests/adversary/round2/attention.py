"""Attention whose logits are or are not bounded (norm gains and learned temperatures as they are), and near things."""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, H, E = 32, 2, 16


def example_inputs():
    return (torch.randn(2, 16, D),)


class Heads(NamedTuple):
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


class Attention(nn.Module):
    """Pre-norm attention; subclasses say what the logits are."""

    out_norm = False

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.qkv = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)
        self.after = nn.RMSNorm(D) if self.out_norm else nn.Identity()
        self.setup()

    def setup(self):
        pass

    def split(self, h):
        return Heads(*self.qkv(h).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4))

    def scores(self, s, h):
        raise NotImplementedError

    def weigh(self, u, v):
        return u.softmax(-1) @ v

    def branch(self, x):
        h = self.norm(x)
        s = self.split(h)
        y = self.weigh(self.scores(s, h), s.v)
        return self.after(self.out(y.transpose(1, 2).flatten(2)))

    def forward(self, x):
        return x + self.branch(x)


class RotaryAfterNorm(Attention):
    """Normed, then turned as complex numbers; the logits are the real part of a product."""

    def setup(self):
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)
        self.register_buffer("freq", 10.0 ** torch.linspace(0, -3, E // 2))

    def turn(self, t):
        phase = torch.arange(t.shape[2], device=t.device, dtype=t.dtype)[:, None] * self.freq
        return torch.view_as_complex(t.unflatten(-1, (E // 2, 2)).contiguous()) * torch.polar(torch.ones_like(phase), phase)

    def scores(self, s, h):
        q, k = self.turn(self.qn(s.q)), self.turn(self.kn(s.k))
        return torch.einsum("bhid,bhjd->bhij", q, k.conj()).real / math.sqrt(E)


class KeysOverTokens(Attention):
    """Queries normed over features, keys over tokens."""

    def setup(self):
        self.qn = nn.RMSNorm(E)

    def scores(self, s, h):
        return self.qn(s.q) @ F.normalize(s.k, dim=-2).mT


class ShawKeys(Attention):
    """Normed keys plus a trained vector for each distance."""

    def setup(self):
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)
        self.far = nn.Embedding(31, E)
        self.register_buffer("gap", torch.arange(16)[:, None] - torch.arange(16) + 15)

    def keys(self, k):
        return self.kn(k).unsqueeze(2) + self.far(self.gap)

    def scores(self, s, h):
        return torch.einsum("bhid,bhijd->bhij", self.qn(s.q), self.keys(s.k)) * E ** -0.5


class ShawThenNorm(ShawKeys):
    """The trained vectors are added in front of the norm."""

    def keys(self, k):
        return self.kn(k.unsqueeze(2) + self.far(self.gap))


class StreamingSoftmax(Attention):
    """Four keys at a time with a running maximum, as a flash kernel does."""

    out_norm = True

    def setup(self):
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)

    def scores(self, s, h):
        return self.qn(s.q) @ self.kn(s.k).mT / math.sqrt(E)

    def weigh(self, u, v):
        top = u.new_full((*u.shape[:-1], 1), -1e30)
        total, acc = torch.zeros_like(top), torch.zeros_like(v)
        for uu, vv in zip(u.split(4, -1), v.split(4, -2)):
            new = torch.maximum(top, uu.amax(-1, keepdim=True))
            fade, w = torch.exp(top - new), torch.exp(uu - new)
            total, acc, top = total * fade + w.sum(-1, keepdim=True), acc * fade + w @ vv, new
        return acc / total


class HopfieldRetrieval(Attention):
    """Three steps of retrieval among unit keys before the values are read."""

    def scores(self, s, h):
        keys, state = F.normalize(s.k, dim=-1), F.normalize(s.q, dim=-1)
        for _ in range(3):
            u = 8.0 * state @ keys.mT
            state = u.softmax(-1) @ keys
        return 8.0 * state @ keys.mT


class InverseTemperature(Attention):
    """Cosine logits over a temperature in (0, 1) that is read from the data."""

    floor = 0.0

    def setup(self):
        self.heat = nn.Linear(D, H)

    def scores(self, s, h):
        heat = self.heat(h).sigmoid().mT.unsqueeze(-1) + self.floor
        return F.cosine_similarity(s.q.unsqueeze(-2), s.k.unsqueeze(-3), dim=-1) / heat


class FlooredTemperature(InverseTemperature):
    floor = 0.1


class SquaredReluAttention(Attention):
    """Shares of squared positive parts: no softmax."""

    def scores(self, s, h):
        return torch.baddbmm(s.q.new_zeros(()), s.q.flatten(0, 1), s.k.flatten(0, 1).mT).unflatten(0, (-1, H))

    def weigh(self, u, v):
        w = u.relu().square()
        return w @ v / (w.sum(-1, keepdim=True) + 1e-6)


class FeatureSoftmax(Attention):
    """Efficient attention: queries softmaxed over features, keys over tokens, no T x T map."""

    def branch(self, x):
        s = self.split(self.norm(x))
        context = s.k.softmax(-2).mT @ s.v
        return self.out((s.q.softmax(-1) @ context).transpose(1, 2).flatten(2))


class ShadowedNorm(Attention):
    """The normed query is computed and then forgotten."""

    def setup(self):
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)

    def scores(self, s, h):
        q, k, _ = s
        qn, kn = self.qn(q), self.kn(k)
        return torch.einsum("...id,...jd->...ij", q, kn) * qn.shape[-1] ** -0.5


class CappedThenSloped(Attention):
    """Logits capped at 20, then fixed slopes by distance and a causal mask."""

    def setup(self):
        self.register_buffer("slope", torch.tensor([0.5, 0.125]).view(H, 1, 1))

    def scores(self, s, h):
        u = 20.0 * torch.tanh(s.q @ s.k.mT / (20.0 * math.sqrt(E)))
        t = torch.arange(u.shape[-1], device=u.device)
        gap = t[:, None] - t
        return (u - self.slope * gap.abs()).masked_fill(gap < 0, float("-inf"))


class SlopedByData(CappedThenSloped):
    """The same cap, and slopes that are read from the data."""

    def setup(self):
        super().setup()
        self.rate = nn.Linear(D, H)

    def scores(self, s, h):
        u = 20.0 * torch.tanh(s.q @ s.k.mT / (20.0 * math.sqrt(E)))
        t = torch.arange(u.shape[-1], device=u.device)
        gap = t[:, None] - t
        rate = F.softplus(self.rate(h)).transpose(1, 2).unsqueeze(-1)
        return (u - rate * gap.abs()).masked_fill(gap < 0, float("-inf"))


_PRE = dict(identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False})

TRUTH = {
    "RotaryAfterNorm": dict(_PRE, kind="block", logits_bounded={"0": True}, softmax=True,
        why="a rotation after the norm keeps the length: |u| <= sqrt(E) given the gains.", tempts="complex numbers: unknown"),
    "KeysOverTokens": dict(_PRE, kind="block", logits_bounded={"0": True}, softmax=True,
        why="entries of a key are at most 1 since a channel has unit length over the tokens; the query has length sqrt(E): |u| <= E.", tempts="the keys' norm has the wrong axis: unbounded"),
    "ShawKeys": dict(_PRE, kind="block", logits_bounded={"0": False}, softmax=True,
        why="the distance vectors are trained and added behind the norm.", tempts="QK-norm on both sides"),
    "ShawThenNorm": dict(_PRE, kind="block", logits_bounded={"0": True}, softmax=True,
        why="whatever is added stands in front of the norm.", tempts="a trained table in the logits"),
    "StreamingSoftmax": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True},
        logits_bounded={"0": True}, softmax=True,
        why="an exact softmax in four chunks over normed products.", tempts="no softmax in the graph; exp is unbounded"),
    "HopfieldRetrieval": dict(_PRE, kind="block", logits_bounded={"0": True}, softmax=True,
        why="the state is a unit vector or a convex mixture of unit keys: |u| <= 8 at each step.", tempts="products of data iterated: unbounded"),
    "InverseTemperature": dict(_PRE, kind="block", logits_bounded={"0": False}, softmax=True,
        why="a sigmoid comes as near to zero as one likes, its inverse is unbounded.", tempts="cosine logits and a bounded gate"),
    "FlooredTemperature": dict(_PRE, kind="block", logits_bounded={"0": True}, softmax=True,
        why="cosine over at least 0.1: |u| <= 10.", tempts="a temperature read from the data"),
    "SquaredReluAttention": dict(_PRE, kind="block", softmax=False,
        why="weights are shares of squares; no exponential anywhere. A norm in front: bounded at fixed weights.", tempts="a softmax by hand"),
    "FeatureSoftmax": dict(_PRE, kind="block", logits_bounded={"0": False}, softmax=True,
        why="both softmaxes read plain linear maps.", tempts="linear attention: no softmax"),
    "ShadowedNorm": dict(_PRE, kind="block", logits_bounded={"0": False}, softmax=True,
        why="the query of the product is the raw one.", tempts="QK-norm: both norms are called"),
    "CappedThenSloped": dict(_PRE, kind="block", logits_bounded={"0": True}, softmax=True,
        why="cap 20 and fixed slopes over 16 tokens.", tempts="something is added behind the cap"),
    "SlopedByData": dict(_PRE, kind="block", logits_bounded={"0": False}, softmax=True,
        why="slopes are a softplus of a free linear map.", tempts="a logit cap"),
}
