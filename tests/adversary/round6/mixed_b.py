"""Attention and routers: library ways of norms, caps and temperatures, and slips in them."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(d_in, d_out, gain=1.0):
    lin = nn.Linear(d_in, d_out)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


class Attend(nn.Module):
    """Pre-norm attention. A subclass says what the scores are."""

    h, e = H, E

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))
        self.setup()

    def setup(self):
        pass

    def heads(self, t):
        return t.unflatten(-1, (-1, self.e)).transpose(1, 2)

    @staticmethod
    def flat(t):
        return t.transpose(1, 2).flatten(2)

    def qk(self, h):
        return self.heads(self.to_q(h)), self.heads(self.to_k(h))

    def scores(self, h):
        q, k = self.qk(h)
        return torch.einsum("bhie,bhje->bhij", q, k) * self.e ** -0.5

    def branch(self, x):
        h = self.norm(x)
        p = self.scores(h).softmax(dim=-1)
        return self.to_out(self.flat(p @ self.heads(self.to_v(h))))

    def forward(self, x):
        return x + self.branch(x)


class QKNormed(Attend):
    def setup(self):
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)

    def qk(self, h):
        q, k = super().qk(h)
        return self.q_norm(q), self.k_norm(k)


# ---- ordinary
class GqaFunctional(Attend):
    """Two key heads for four queries, norms by F.rms_norm, heads repeated by repeat_interleave; causal."""

    def setup(self):
        self.to_k, self.to_v = nn.Linear(D, 2 * E), nn.Linear(D, 2 * E)
        self.gain_q, self.gain_k = nn.Parameter(torch.ones(E)), nn.Parameter(torch.ones(E))
        self.register_buffer("future", torch.ones(T, T, dtype=torch.bool).triu(1))

    def branch(self, x):
        h = self.norm(x)
        rms = partial(F.rms_norm, normalized_shape=(E,), eps=1e-6)
        q = rms(self.heads(self.to_q(h)), weight=self.gain_q)
        k = rms(self.heads(self.to_k(h)), weight=self.gain_k).repeat_interleave(2, dim=1)
        v = self.heads(self.to_v(h)).repeat_interleave(2, dim=1)
        u = torch.matmul(q * E ** -0.5, k.transpose(-2, -1)).masked_fill(self.future, -math.inf)
        return self.to_out(self.flat(u.softmax(-1) @ v))


class MqaRaw(Attend):
    """Multi-query: one key head for all; no norms of them."""

    def setup(self):
        self.to_kv = nn.Linear(D, 2 * E, bias=False)

    def branch(self, x):
        h = self.norm(x)
        k, v = self.to_kv(h).split(E, dim=-1)
        q = self.to_q(h).view(x.shape[0], T * H, E)
        p = F.softmax(torch.baddbmm(q.new_zeros(()).expand(q.shape[0], T * H, T), q, k.mT, beta=0, alpha=E ** -0.5), dim=-1)
        return self.to_out(torch.bmm(p, v).view_as(x))


class FlatNorms(QKNormed):
    """OLMo 2: the norms cover all heads together."""

    def setup(self):
        self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D)

    def qk(self, h):
        return tuple(self.heads(getattr(self, f"{n}_norm")(getattr(self, f"to_{n}")(h))) for n in "qk")


class PlusOneNorms(Attend):
    """Gemma's norm by hand, (1 + w), with w at zero."""

    class Norm(nn.Module):
        def __init__(self, dim, eps=1e-6):
            super().__init__()
            self.gain, self.eps = nn.Parameter(torch.zeros(dim)), eps

        def forward(self, x):
            return torch.addcmul(y := x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps), y, self.gain)

    def setup(self):
        self.norms = nn.ModuleList(self.Norm(E) for _ in range(2))

    def qk(self, h):
        return [n(t) for n, t in zip(self.norms, super().qk(h))]


class YarnScaled(QKNormed):
    """YaRN: the rotary tables hold the attention factor 0.1 ln 8 + 1."""

    def setup(self):
        super().setup()
        angle = torch.arange(T)[:, None] * 100.0 ** -torch.arange(0, 1, 0.25)
        m = 0.1 * math.log(8) + 1.0
        self.register_buffer("cos", m * angle.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", m * angle.sin().repeat(1, 2), persistent=False)

    def qk(self, h):
        turn = lambda t: t * self.cos + torch.cat((-t[..., E // 2:], t[..., : E // 2]), -1) * self.sin
        return tuple(map(turn, super().qk(h)))


class WindowUnfold(QKNormed):
    """Each token sees itself and its four predecessors, by unfold; QK-norm."""

    def branch(self, x, w=5):
        h = self.norm(x)
        q, k = self.qk(h)
        v = self.heads(self.to_v(h))
        k, v = (F.pad(t, (0, 0, w - 1, 0)).unfold(2, w, 1) for t in (k, v))
        u = torch.einsum("bhte,bhtew->bhtw", q, k) / math.sqrt(E)
        return self.to_out(self.flat(torch.einsum("bhtw,bhtew->bhte", u.softmax(-1), v)))


class CappedTemperature(Attend):
    """Cosine scores and a learned log temperature, clamped at ln 100 before the exponential."""

    def setup(self):
        self.logit_scale = nn.Parameter(torch.full((H, 1, 1), math.log(10.0)))

    def scores(self, h):
        q, k = (F.normalize(t, dim=-1) for t in self.qk(h))
        return q @ k.mT * self.logit_scale.clamp(max=math.log(100.0)).exp()


class TemperatureFloored(CappedTemperature):
    """`max` became `min`."""

    def scores(self, h):
        q, k = (F.normalize(t, dim=-1) for t in self.qk(h))
        return q @ k.mT * self.logit_scale.clamp(min=math.log(0.01)).exp()


# ---- norms of queries and keys
class JointOverTokens(Attend):
    """F.layer_norm over the last two sizes: tokens and features of a head at once."""

    def qk(self, h):
        return tuple(F.layer_norm(t, t.shape[-2:]) for t in super().qk(h))


class KeysAreQueries(QKNormed):
    """k_norm is given q."""

    def qk(self, h):
        q, k = Attend.qk(self, h)
        return self.q_norm(q), self.k_norm(q)


class SinkRaw(QKNormed):
    """The first key is a sink and 'is to be left as it is'."""

    def qk(self, h):
        q, k = Attend.qk(self, h)
        return self.q_norm(q), torch.cat((k[:, :, :1], self.k_norm(k[:, :, 1:])), dim=2)


class NormalizePositional(Attend):
    """F.normalize(t, -1): the second argument is p."""

    def qk(self, h):
        return tuple(F.normalize(t, -1) for t in super().qk(h))


class LengthCeiling(Attend):
    """Divided by the length, which was to have a floor and has a ceiling."""

    def qk(self, h):
        return tuple(t / t.norm(dim=-1, keepdim=True).add(1e-6).clamp(max=1.0) for t in super().qk(h))


class NormThenProject(QKNormed):
    """q_norm and k_norm stand in front of the maps to q and k."""

    def setup(self):
        self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D)

    def qk(self, h):
        return self.heads(self.to_q(self.q_norm(h))), self.heads(self.to_k(self.k_norm(h)))


class LoopRebinds(QKNormed):
    """The loop's name is bound to the normed tensor, and nothing else."""

    def qk(self, h):
        q, k = Attend.qk(self, h)
        for t, norm in zip((q, k), (self.q_norm, self.k_norm)):
            t = norm(t)
        return q, k


class LoopInPlace(Attend):
    """In place, so that the loop is enough."""

    def qk(self, h):
        q, k = super().qk(h)
        for t in (q, k):
            t.div_(t.detach().norm(dim=-1, keepdim=True).clamp(min=1e-6))
        return q, k


class SquareLengths(Attend):
    """Sixteen tokens and sixteen features: the lengths are put along the wrong one."""

    h, e = 2, 16

    def qk(self, h):
        return tuple(t / (t.norm(dim=-1).unsqueeze(2) + 1e-6) for t in super().qk(h))


# ---- caps and rows
class CapInPlace(Attend):
    """Divided and capped in place, then times 30."""

    def scores(self, h):
        u = super().scores(h)
        u.div_(30.0).tanh_()
        return u * 30.0


class CapHalfInPlace(Attend):
    """The first of the two has no underscore."""

    def scores(self, h):
        u = super().scores(h)
        u.div(30.0).tanh_()
        return u * 30.0


class CapOnCopy(Attend):
    """The mask is put on the uncapped scores again."""

    def setup(self):
        self.register_buffer("future", torch.ones(T, T, dtype=torch.bool).triu(1))

    def scores(self, h):
        attn = super().scores(h)
        weights = torch.tanh(attn / 50.0) * 50.0
        weights = attn.masked_fill(self.future, float("-inf"))
        return weights


class RowShares(Attend):
    """Scores are divided by the sum of their sizes in the row, times eight."""

    def scores(self, h):
        u = super().scores(h)
        return 8 * u / (u.abs().sum(-1, keepdim=True) + 1e-6)


class RowSumAbs(Attend):
    """The size of the sum."""

    def scores(self, h):
        u = super().scores(h)
        return 8 * u / (u.sum(-1, keepdim=True).abs() + 1e-6)


# ---- who reads the norm
class RawValues(Attend):
    """Norm for queries and keys; values are maps of the stream."""

    def setup(self):
        self.to_v, self.to_out = dense(D, D, 1.5), dense(D, D, 1.5)

    def branch(self, x):
        return self.to_out(self.flat(self.scores(self.norm(x)).softmax(-1) @ self.heads(self.to_v(x))))


class RawScores(Attend):
    """Norm for values; queries and keys are maps of the stream."""

    def branch(self, x):
        return self.to_out(self.flat(self.scores(x).softmax(-1) @ self.heads(self.to_v(self.norm(x)))))


# ---- routers
class RouterCapped(nn.Module):
    """Dense mixture of four; the router's logits are 10 tanh."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate = nn.RMSNorm(D), nn.Linear(D, 4, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, D, D) / D ** 0.5), nn.Parameter(torch.randn(4, D, D) / D ** 0.5)

    def logits(self, h):
        return 10.0 * torch.tanh(self.gate(h))

    def branch(self, x):
        h = self.norm(x)
        share = torch.softmax(self.logits(h), dim=-1)
        y = torch.einsum("btd,edf->btef", h, self.w1)
        return torch.einsum("bte,btef,efd->btd", share, F.silu(y), self.w2)

    def forward(self, x):
        return x + self.branch(x)


class RouterCappedProbabilities(RouterCapped):
    """The cap is put on the shares: they are capped already."""

    def branch(self, x):
        h = self.norm(x)
        share = 10.0 * torch.tanh(torch.softmax(self.gate(h), dim=-1) / 10.0)
        y = torch.einsum("btd,edf->btef", h, self.w1)
        return torch.einsum("bte,btef,efd->btd", share, F.silu(y), self.w2)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False})
_YES = dict(_PRE, logits_bounded={"0": True}, softmax=True)
_NO = dict(_PRE, logits_bounded={"0": False}, softmax=True)

TRUTH = {
    "GqaFunctional": dict(_YES, why="both are normed per head.", tempts="-"),
    "MqaRaw": dict(_NO, why="raw products.", tempts="-"),
    "FlatNorms": dict(_YES, why="|q| <= sqrt(32) per token, a head's part is no longer.", tempts="the norm is not per head"),
    "PlusOneNorms": dict(_YES, why="y + y w.", tempts="a gain of zero; an unknown norm"),
    "YarnScaled": dict(_YES, why="constants.", tempts="not a rotation"),
    "WindowUnfold": dict(_YES, why="QK-norm; padding is zero.", tempts="-"),
    "CappedTemperature": dict(_YES, why="at most 100.", tempts="a learned temperature"),
    "TemperatureFloored": dict(_NO, why="no upper end.", tempts="a clamped temperature on cosines"),
    "JointOverTokens": dict(_YES, why="the sum of squares of a head is at most 128.", tempts="wrong axes"),
    "KeysAreQueries": dict(_YES, why="both are normed, whatever they are made of.", tempts="-"),
    "SinkRaw": dict(_NO, why="the first column is free.", tempts="QK-norm"),
    "NormalizePositional": dict(_NO, why="p = -1 over heads: the harmonic length is below the smallest entry.", tempts="unit vectors"),
    "LengthCeiling": dict(_NO, why="vectors longer than one stay as they are.", tempts="unit vectors"),
    "NormThenProject": dict(_NO, why="free maps behind the norms.", tempts="q_norm and k_norm"),
    "LoopRebinds": dict(_NO, why="q and k are unchanged.", tempts="QK-norm"),
    "LoopInPlace": dict(_YES, why="unit vectors.", tempts="the loop's name is dropped"),
    "SquareLengths": dict(_NO, why="feature j of every token is divided by the length of token j.", tempts="unit vectors"),
    "CapInPlace": dict(_YES, why="30.", tempts="the result is not bound"),
    "CapHalfInPlace": dict(_NO, why="the chain works on a copy.", tempts="a softcap in place"),
    "CapOnCopy": dict(_NO, why="the capped ones are dropped.", tempts="a softcap"),
    "RowShares": dict(_YES, why="at most eight.", tempts="-"),
    "RowSumAbs": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="terms of either sign cancel in the sum.", tempts="shares of the row"),
    "RawValues": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="values are of degree one.", tempts="pre-norm: linear"),
    "RawScores": dict(_NO, why="values are normed: a convex mean of them is of degree zero.", tempts="an attention of the raw stream: exponential"),
    "RouterCapped": dict(_YES, why="the cap is in front of the softmax.", tempts="free experts"),
    "RouterCappedProbabilities": dict(_NO, why="the softmax reads raw logits.", tempts="a cap on the router"),
}
