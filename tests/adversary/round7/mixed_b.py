"""Attention, routers, gates: sinks, masks and temperatures from data, shares, library layers; and slips in them."""

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


def body(d=D, out=None, gain=1.0):
    return nn.Sequential(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


class Attend(nn.Module):
    """Pre-norm attention. A subclass says what the scores are."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))
        self.setup()

    def setup(self):
        pass

    @staticmethod
    def heads(t):
        return t.unflatten(-1, (H, -1)).transpose(1, 2)

    @staticmethod
    def flat(t):
        return t.transpose(1, 2).flatten(2)

    def qk(self, h):
        return self.heads(self.to_q(h)), self.heads(self.to_k(h))

    def scores(self, h):
        q, k = self.qk(h)
        return q @ k.mT * E ** -0.5

    def branch(self, x):
        h = self.norm(x)
        return self.to_out(self.flat(self.scores(h).softmax(-1) @ self.heads(self.to_v(h))))

    def forward(self, x):
        return x + self.branch(x)


class Unit(Attend):
    """Queries and keys of length one, times five."""

    def qk(self, h):
        q, k = super().qk(h)
        return 5 * F.normalize(q, dim=-1), F.normalize(k, dim=-1)

    def scores(self, h):
        q, k = self.qk(h)
        return torch.einsum("...ie,...je->...ij", q, k)


# ---- sinks, masks
class ZeroSink(Unit):
    """A column of zeros joins the scores and is dropped behind the softmax."""

    def branch(self, x):
        h = self.norm(x)
        p = F.pad(self.scores(h), (1, 0)).softmax(-1)[..., 1:]
        return self.to_out(self.flat(p @ self.heads(self.to_v(h))))


class ForgetGate(Unit):
    """Forgetting transformer: the running sum of log-sigmoids of the tokens is added to the scores of the past."""

    def setup(self):
        self.forget = nn.Linear(D, H)
        self.register_buffer("future", torch.ones(T, T, dtype=torch.bool).triu(1))

    def scores(self, h):
        c = F.logsigmoid(self.forget(h)).mT.cumsum(-1)
        return (super().scores(h) + c.unsqueeze(-1) - c.unsqueeze(-2)).masked_fill(self.future, -torch.inf)


class HiddenByData(Unit):
    """Each token says whether it may be looked at; those that may not get -50."""

    def setup(self):
        self.keep = nn.Linear(D, 1)

    def scores(self, h):
        hidden = self.keep(h).mT.unsqueeze(1) < 0
        return super().scores(h).masked_fill(hidden, -50.0)


class KeptShare(HiddenByData):
    """How open the sentence is: the mean over the tokens of a relu. Scores are divided by it."""

    def scores(self, h):
        return Unit.scores(self, h) / F.relu(self.keep(h)).mean(dim=1).view(-1, 1, 1, 1)


# ---- temperatures
class SigmoidTemperature(Unit):
    """A temperature that each token makes, from 0.1 to 1."""

    def setup(self):
        self.warm = nn.Linear(D, H)

    def temperature(self, h):
        return 0.1 + 0.9 * self.warm(h).sigmoid()

    def scores(self, h):
        return super().scores(h) / self.temperature(h).mT.unsqueeze(-1)


class TanhTemperature(SigmoidTemperature):
    """... by a tanh."""

    def temperature(self, h):
        return 0.1 + 0.9 * self.warm(h).tanh()


# ---- shares without a softmax, softmaxes over other axes; unit values and no map behind
class SigmoidShares(Attend):
    """Sigmoids of raw scores over their sum."""

    act = staticmethod(torch.sigmoid)

    def weights(self, h):
        p = self.act(self.scores(h))
        return p / (p.sum(-1, keepdim=True) + 1e-6)

    def branch(self, x):
        h = self.norm(x)
        return self.flat(self.weights(h) @ F.normalize(self.heads(self.to_v(h)), dim=-1))


class TanhShares(SigmoidShares):
    """Signed weights by tanh, over their sum."""

    act = staticmethod(torch.tanh)

    def weights(self, h):
        p = self.act(self.scores(h))
        return p / p.sum(-1, keepdim=True)


class HeadSoftmax(SigmoidShares):
    """The softmax runs over the heads: a row over the keys sums to anything from 0 to 16."""

    def weights(self, h):
        return self.scores(h).softmax(dim=1)


# ---- library layers
class LibraryPostInside(nn.Module):
    """torch's encoder layer with its default order of norms as a branch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, batch_first=True)

    def forward(self, x):
        return x + self.layer(x)


class MhaRawQuery(nn.Module):
    """nn.MultiheadAttention: the query is the stream itself, keys and values are normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.mha = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True, add_zero_attn=True)

    def branch(self, x):
        h = self.norm(x)
        return self.mha(x, h, value=h, need_weights=False)[0]

    def forward(self, x):
        return x + self.branch(x)


class MhaRawValue(MhaRawQuery):
    """Query and key are normed, the value is the stream."""

    def branch(self, x):
        h = self.norm(x)
        return self.mha(h, key=h, value=x, need_weights=False)[0]


class LayerDelta(nn.Module):
    """Half of what a pre-norm library layer changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, activation=F.silu, batch_first=True, norm_first=True)

    def change(self, x):
        return self.layer(x).sub(x)

    def forward(self, x):
        return torch.add(x, self.change(x), alpha=0.5)


class LayerDeltaSlip(LayerDelta):
    """Half of the layer."""

    def change(self, x):
        return self.layer(x)


# ---- gates
class NearlyShutGate(nn.Module):
    """x + sigmoid(g) F with g = -12 for a start."""

    def __init__(self):
        super().__init__()
        self.norm, self.body, self.gain_gate = nn.RMSNorm(D), body(), nn.Parameter(torch.full((D,), -12.0))

    def forward(self, x):
        return torch.addcmul(x, self.gain_gate.sigmoid(), self.body(self.norm(x)))


class OpenBothGates(NearlyShutGate):
    """A second gate, on the stream; both are sigmoids that start at 3."""

    def __init__(self):
        super().__init__()
        self.gain_carry = nn.Parameter(torch.full((D,), 3.0))
        nn.init.constant_(self.gain_gate, 3.0)

    def forward(self, x):
        return x * self.gain_carry.sigmoid() + self.gain_gate.sigmoid() * self.body(self.norm(x))


# ---- routers
class Router(nn.Module):
    """Four small experts of the normed stream; a subclass says what is made of the logits."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(D), nn.Linear(D, 4, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, D, D) / D ** 0.5), nn.Parameter(torch.randn(4, D, D) / D ** 0.5)

    def branch(self, x):
        h = self.norm(x)
        share = self.logits(self.gate(h)).softmax(-1)
        return torch.einsum("bte,btef,efd->btd", share, torch.einsum("btd,edf->btef", h, self.w1).relu(), self.w2)

    def forward(self, x):
        return x + self.branch(x)


class RouterAbsMax(Router):
    """Divided by the greatest size, times six."""

    def logits(self, u):
        return 6 * u / u.abs().amax(-1, keepdim=True).clamp(min=1e-9)


class RouterMax(Router):
    """Divided by the size of the greatest."""

    def logits(self, u):
        return 6 * u / u.amax(-1, keepdim=True).abs().clamp(min=1e-9)


class RouterRanks(Router):
    """The ranks of the logits, with the logits themselves at no weight in value but all of it in the gradient."""

    def logits(self, u):
        rank = u.argsort(-1).argsort(-1).to(u.dtype)
        return rank + (u - u.detach())


# ---- function transforms, bilinear forms
class VmapUnits(Attend):
    """Cosines of one head by a function of two matrices, mapped over heads and batch."""

    @staticmethod
    def one(q, k):
        return 8.0 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).T

    def scores(self, h):
        q, k = self.qk(h)
        return torch.vmap(torch.vmap(self.one))(q, k)


class VmapOneSide(VmapUnits):
    """Cosines times the lengths of the keys: the second argument is not normed."""

    @staticmethod
    def one(q, k):
        return 8.0 * F.normalize(q, dim=-1) @ k.T


class BilinearPairs(Unit):
    """Unit queries and unit keys go into nn.Bilinear."""

    def setup(self):
        self.pair = nn.Bilinear(E, E, 1, bias=False)

    def scores(self, h):
        q, k = self.qk(h)
        shape = (*q.shape[:2], T, T, E)
        return self.pair(q.unsqueeze(3).expand(shape).contiguous(), k.unsqueeze(2).expand(shape).contiguous()).squeeze(-1)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False})
_YES = dict(_PRE, logits_bounded={"0": True}, softmax=True)
_NO = dict(_PRE, logits_bounded={"0": False}, softmax=True)
_OUT = dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True})

TRUTH = {
    "ZeroSink": dict(_YES, why="a constant beside cosines.", tempts="a learned sink"),
    "ForgetGate": dict(_NO, why="the sum of log-sigmoids has no lower end.", tempts="cosines and a mask"),
    "HiddenByData": dict(_YES, why="either a cosine or -50.", tempts="a mask from data"),
    "KeptShare": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="all tokens may be shut.", tempts="cosines and a mean"),
    "SigmoidTemperature": dict(_YES, why="5 / 0.1.", tempts="a temperature from data"),
    "TanhTemperature": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="0.1 + 0.9 tanh passes zero.", tempts="its twin"),
    "SigmoidShares": dict(_OUT, softmax=False, why="a convex mean of unit vectors, or less.", tempts="raw scores; a softmax"),
    "TanhShares": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, softmax=False, why="weights of either sign cancel in the sum.", tempts="shares"),
    "HeadSoftmax": dict(_OUT, logits_bounded={"0": False}, softmax=True, why="at most sixteen unit vectors.", tempts="rows do not sum to one"),
    # the layer's own two adds are read as branches, whose outputs are free: what the layer as a whole adds is none of the report's branches
    "LibraryPostInside": dict(_OUT, output_bounded={}, logits_bounded={"0": False}, softmax=True, why="the layer ends in a norm.", tempts="post-norm: bounded; skips inside: gain above one"),
    "MhaRawQuery": dict(_NO, why="values are normed: rows of shares make nothing larger of them.", tempts="a raw query: exponential"),
    "MhaRawValue": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="degree one in the values.", tempts="a norm in front: linear"),
    "LayerDelta": dict(kind="block", identity_gain=1.0, growth_fixed="linear", logits_bounded={"0": False}, softmax=True, why="x + (F1 + F2)/2.", tempts="1.5^24"),
    "LayerDeltaSlip": dict(kind="block", identity_gain=1.5 ** 24, logits_bounded={"0": False}, growth_fixed="exponential", growth_all="exponential", softmax=True, why="x + (x + F1 + F2)/2.", tempts="gain 1"),
    "NearlyShutGate": dict(kind="block", identity_gain=1.0, gradient_law="flat", softmax=False, why="6e-6 per block: all blocks read the same.", tempts="pre-norm: a power of depth"),
    "OpenBothGates": dict(kind="block", identity_gain=torch.tensor(3.0).double().sigmoid().item() ** 24, growth_fixed="bounded", softmax=False, why="0.9526 on the stream.", tempts="an open gate: gain 1"),
    "RouterAbsMax": dict(_YES, why="at most six.", tempts="-"),
    "RouterMax": dict(_NO, why="the greatest may be 0 while others are below it.", tempts="divided by the maximum"),
    "RouterRanks": dict(_YES, why="from 0 to 3.", tempts="raw logits are added"),
    "VmapUnits": dict(_YES, why="cosines.", tempts="the axes that vmap hides"),
    "VmapOneSide": dict(_NO, why="keys are raw.", tempts="a cosine"),
    "BilinearPairs": dict(_NO, why="a free form on unit vectors.", tempts="unit vectors"),
}
