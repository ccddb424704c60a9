"""What stands in front of the softmax (and whether there is one)."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, H, E = 32, 4, 8


def example_inputs():
    return (torch.randn(2, 16, D),)


class Attend(nn.Module):
    """Pre-norm attention. A subclass says what the scores are and how the values are mixed."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D) for _ in range(4))
        self.setup()

    def setup(self):
        pass

    @staticmethod
    def heads(t):
        return t.unflatten(-1, (H, E)).transpose(1, 2)

    @staticmethod
    def flat(t):
        return t.transpose(1, 2).flatten(2)

    def scores(self, h):
        raise NotImplementedError

    def branch(self, x):
        h = self.norm(x)
        p = torch.softmax(self.scores(h), dim=-1)
        return self.wo(self.flat(p @ self.heads(self.wv(h))))

    def forward(self, x):
        return x + self.branch(x)


class QKNormed(Attend):
    def setup(self):
        self.nq, self.nk = nn.RMSNorm(E), nn.RMSNorm(E)

    def qk(self, h):
        return self.nq(self.heads(self.wq(h))), self.nk(self.heads(self.wk(h)))

    def scores(self, h):
        q, k = self.qk(h)
        return q @ k.mT * E ** -0.5


# ---- a gate on the normed query
class GatedQueries(QKNormed):
    def setup(self):
        super().setup()
        self.gate = nn.Linear(D, H)

    def act(self, g):
        return torch.sigmoid(g)

    def qk(self, h):
        q, k = super().qk(h)
        return q * self.act(self.gate(h)).mT.unsqueeze(-1), k


class SoftplusQueries(GatedQueries):
    """A sharpness per token and head."""

    def act(self, g):
        return F.softplus(g)


# ---- a latent, as in multi-head latent attention
class LatentNormedKeys(QKNormed):
    """Keys are made from a latent of 8 numbers that has its norm; then a map up."""

    def setup(self):
        super().setup()
        self.down, self.up, self.latent = nn.Linear(D, 8, bias=False), nn.Linear(8, D, bias=False), nn.RMSNorm(8)

    def qk(self, h):
        return self.nq(self.heads(self.wq(h))), self.heads(self.up(self.latent(self.down(h))))


class LatentThenNorm(LatentNormedKeys):
    """The same latent, norm behind the map up."""

    def qk(self, h):
        return self.nq(self.heads(self.wq(h))), self.nk(self.heads(self.up(self.down(h))))


# ---- raw products, and something done to the rows
class NormedRows(Attend):
    """The row of scores is brought to mean 0 and variance 1."""

    def scores(self, h):
        u = torch.einsum("bihe,bjhe->bhij", self.wq(h).unflatten(-1, (H, E)), self.wk(h).unflatten(-1, (H, E)))
        return self.rows(u)

    def rows(self, u):
        return F.layer_norm(u, u.shape[-1:])


class CentredRows(NormedRows):
    """The row of scores is brought to mean 0."""

    def rows(self, u):
        return u - u.mean(-1, keepdim=True)


class MinMaxRows(NormedRows):
    """Scores from 0 to 10, by the least and the greatest of the row."""

    def rows(self, u):
        low, high = torch.aminmax(u, dim=-1, keepdim=True)
        return 10 * (u - low) / (high - low + 1e-6)


class ShiftedByMaximum(NormedRows):
    """Scores at most 0: the greatest is taken off, 'for stability'."""

    def rows(self, u):
        return u - u.amax(-1, keepdim=True)


# ---- soft cap and relative bias
class BiasThenCap(Attend):
    def setup(self):
        self.table = nn.Embedding(31, H)
        pos = torch.arange(16)
        self.register_buffer("gap", pos[None, :] - pos[:, None] + 15)

    def bias(self):
        return self.table(self.gap).permute(2, 0, 1)

    def raw(self, h):
        return self.heads(self.wq(h)).matmul(self.heads(self.wk(h)).transpose(-1, -2)) / math.sqrt(E)

    def scores(self, h):
        return 30.0 * torch.tanh((self.raw(h) + self.bias()) / 30.0)


class CapThenBias(BiasThenCap):
    def scores(self, h):
        return 30.0 * torch.tanh(self.raw(h) / 30.0) + self.bias()


# ---- baddbmm
class BetaZero(QKNormed):
    """A trained bias that baddbmm is told to leave out."""

    beta = 0

    def setup(self):
        super().setup()
        self.prior = nn.Parameter(torch.randn(1, 16, 16) * 0.1)

    def scores(self, h):
        q, k = (t.flatten(0, 1) for t in self.qk(h))
        u = torch.baddbmm(self.prior.expand(len(q), -1, -1), q, k.mT, beta=self.beta, alpha=E ** -0.5)
        return u.unflatten(0, (-1, H))


class BetaOne(BetaZero):
    beta = 1


# ---- no queries and keys at all
class FixedMixer(Attend):
    """Random synthesizer: the scores are drawn once and kept as a buffer."""

    def setup(self):
        self.register_buffer("drawn", torch.randn(H, 16, 16))

    def scores(self, h):
        return self.drawn.expand(h.shape[0], -1, -1, -1)


class TrainedMixer(FixedMixer):
    """The same, but a parameter."""

    def setup(self):
        self.drawn = nn.Parameter(torch.randn(H, 16, 16))


# ---- integers
class StaticInt8(Attend):
    """Queries and keys as 8-bit integers at a fixed step of 1/32."""

    @staticmethod
    def quantise(t):
        return torch.clamp(torch.round(t * 32), -128, 127) / 32

    def scores(self, h):
        q, k = self.quantise(self.heads(self.wq(h))), self.quantise(self.heads(self.wk(h)))
        return q @ k.mT / math.sqrt(E)


class DynamicInt8(StaticInt8):
    """The step is the greatest entry of the tensor over 127."""

    @staticmethod
    def quantise(t):
        step = t.abs().amax() / 127
        return torch.clamp(torch.round(t / step), -128, 127) * step


# ---- phases
class UnitPhases(Attend):
    """Pairs of channels as complex numbers, of which sgn keeps the phase."""

    def unit(self, t):
        return torch.sgn(torch.view_as_complex(t.unflatten(-1, (E // 2, 2)).contiguous()))

    def scores(self, h):
        q, k = self.unit(self.heads(self.wq(h))), self.unit(self.heads(self.wk(h)))
        return (q @ k.mH).real


class RealPartSign(UnitPhases):
    """The phase of the query, the key as it is."""

    def scores(self, h):
        q, k = self.unit(self.heads(self.wq(h))), torch.view_as_complex(self.heads(self.wk(h)).unflatten(-1, (E // 2, 2)).contiguous())
        return (q @ k.mH).real


# ---- normalised weights in the projections
class DirectionOnly(Attend):
    """Rows of unit length, without bias, on a normed input."""

    def make(self, lin):
        return lambda h: F.linear(h, F.normalize(lin.weight, dim=1))

    def setup(self):
        self.q_of, self.k_of = self.make(self.wq), self.make(self.wk)

    def scores(self, h):
        return self.heads(self.q_of(h)) @ self.heads(self.k_of(h)).mT * E ** -0.5


class WeightNormed(DirectionOnly):
    """torch's weight_norm, which trains the lengths."""

    def setup(self):
        self.wq, self.wk = weight_norm(nn.Linear(D, D, bias=False)), weight_norm(nn.Linear(D, D, bias=False))
        self.q_of, self.k_of = self.wq, self.wk


# ---- one norm for query, key and value together
class FusedNorm(nn.Module):
    """One RMSNorm over the 96 numbers of query, key and value; no map behind the attention."""

    def __init__(self):
        super().__init__()
        self.qkv, self.norm = nn.Linear(D, 3 * D), nn.RMSNorm(3 * D)

    def cut(self, t):
        return self.norm(t).chunk(3, dim=-1)

    def branch(self, x):
        q, k, v = (t.unflatten(-1, (H, E)).transpose(1, 2) for t in self.cut(self.qkv(x)))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x):
        return x + self.branch(x)


class FusedNormFirstTwo(FusedNorm):
    """The norm covers query and key; the values are left alone."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(2 * D)

    def cut(self, t):
        qk, v = t.split([2 * D, D], -1)
        return (*self.norm(qk).chunk(2, -1), v)


# ---- softmaxes without softmax
class AttentionFree(Attend):
    """AFT / RWKV: per channel a running mean of the values with weights exp(key)."""

    def branch(self, x):
        h = self.norm(x)
        k, v = self.wk(h), self.wv(h)
        w = torch.exp(k - k.amax(1, keepdim=True))
        mean = (w * v).cumsum(1) / (w.cumsum(1) + 1e-9)
        return self.wo(torch.sigmoid(self.wq(h)) * mean)


class LinearAttentionElu(Attend):
    """The same pattern of running sums with elu + 1 in place of the exponential."""

    def branch(self, x):
        h = self.norm(x)
        q, k, v = F.elu(self.wq(h)) + 1, F.elu(self.wk(h)) + 1, self.wv(h)
        q, k, v = map(self.heads, (q, k, v))
        state = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        y = torch.einsum("bhtd,bhtde->bhte", q, state)
        return self.wo(self.flat(y / (torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2)).unsqueeze(-1) + 1e-6)))


class SoftmaxPlusOne(QKNormed):
    """exp(u) / (1 + sum exp(u))."""

    def branch(self, x):
        h = self.norm(x)
        w = self.scores(h).exp()
        return self.wo(self.flat(w @ self.heads(self.wv(h)) / (1 + w.sum(-1, keepdim=True))))


class LogAddExp(Attend):
    """exp(u - log sum exp u), on raw products."""

    def branch(self, x):
        h = self.norm(x)
        u = self.heads(self.wq(h)) @ self.heads(self.wk(h)).mT
        return self.wo(self.flat(torch.exp(u - torch.logsumexp(u, -1, True)) @ self.heads(self.wv(h))))


class SelfOrNeighbour(Attend):
    """Each token chooses between itself and its left neighbour by their scores: sigmoid of the difference."""

    def setup(self):
        self.score = nn.Linear(D, 1)

    def weigh(self, s, v):
        w = torch.sigmoid(s - s.roll(1, 1))
        return w * v + (1 - w) * v.roll(1, 1)

    def branch(self, x):
        h = self.norm(x)
        return self.wo(self.weigh(self.score(h), self.wv(h)))


class SelfAndNeighbour(SelfOrNeighbour):
    """Each token has a gate of its own, and brings it along."""

    def weigh(self, s, v):
        gated = torch.sigmoid(s) * v
        return gated + gated.roll(1, 1)


class HardTopThree(Attend):
    """The plain mean of the three unit values with the greatest scores."""

    def branch(self, x):
        h = self.norm(x)
        u = self.heads(self.wq(h)) @ self.heads(self.wk(h)).mT
        best = u.topk(3, -1).indices
        v = F.normalize(self.heads(self.wv(h)), dim=-1)
        v = v.unsqueeze(2).expand(-1, -1, 16, -1, -1)
        return self.flat(torch.take_along_dim(v, best.unsqueeze(-1), dim=3).mean(3))


class SigmoidAttention(QKNormed):
    """Sigmoid attention with the bias -log T."""

    def branch(self, x):
        h = self.norm(x)
        w = torch.sigmoid(self.scores(h) - math.log(16))
        return self.wo(self.flat(w @ self.heads(self.wv(h))))


# ---- scores that are passed on from layer to layer
class CarriedScores(nn.Module):
    """RealFormer: each layer adds its scores to those of the layer before; unit queries and keys."""

    unit = True

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(D), "qkv": nn.Linear(D, 3 * D), "out": nn.Linear(D, D)}) for _ in range(n))

    def forward(self, x):
        u = 0.0
        for b in self.blocks:
            q, k, v = b["qkv"](b["norm"](x)).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4).unbind(0)
            if self.unit:
                q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            u = u + q @ k.mT
            x = x + b["out"]((u.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x


class CarriedRawScores(CarriedScores):
    unit = False


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False})
_YES = dict(_PRE, logits_bounded={"0": True}, softmax=True)
_NO = dict(_PRE, logits_bounded={"0": False}, softmax=True)

TRUTH = {
    "GatedQueries": dict(_YES, why="a factor in (0, 1) on a normed query: |u| <= sqrt(E) given the gains.", tempts="data times norm: unbounded"),
    "SoftplusQueries": dict(_NO, why="softplus of a free map is unbounded and stands behind the norm.", tempts="QK-norm"),
    "LatentNormedKeys": dict(_NO, why="the norm of the latent stands in front of a free map, so that keys are unbounded over weights.", tempts="a norm on each side"),
    "LatentThenNorm": dict(_YES, why="both operands of the product are normed.", tempts="-"),
    "NormedRows": dict(_YES, why="a row of 16 numbers with mean 0 and variance 1 has entries at most 4.", tempts="no QK-norm"),
    "CentredRows": dict(_NO, why="taking the mean off does not bound a row.", tempts="rows are 'normalised'"),
    "MinMaxRows": dict(_YES, why="entries from 0 to 10.", tempts="no QK-norm; max and min"),
    "ShiftedByMaximum": dict(_NO, why="u - max u is at most 0, but unbounded below.", tempts="bounded from above"),
    "BiasThenCap": dict(_YES, why="30 tanh(.) of everything.", tempts="a trained bias is in the scores"),
    "CapThenBias": dict(_NO, why="the trained table is added behind the cap.", tempts="a cap of 30"),
    "BetaZero": dict(_YES, why="beta = 0 ignores the first operand: products of normed vectors over sqrt(E).", tempts="a trained bias in the scores"),
    "BetaOne": dict(_NO, why="the trained bias is unbounded.", tempts="QK-norm"),
    "FixedMixer": dict(_YES, why="the scores are constants; values and output map are free.", tempts="no queries and keys: unknown"),
    "TrainedMixer": dict(_NO, why="the scores are free parameters.", tempts="no queries and keys, or independent of the data: bounded"),
    "StaticInt8": dict(_YES, why="entries of queries and keys are at most 4: |u| <= 16 E / sqrt(E).", tempts="no norm"),
    "DynamicInt8": dict(_NO, why="the step grows with the tensor: up to rounding the raw product.", tempts="a clamp to 127"),
    "UnitPhases": dict(_YES, why="sgn of a complex number has modulus at most one: |u| <= E/2.", tempts="sgn and complex numbers: unknown"),
    "RealPartSign": dict(_NO, why="the key keeps its modulus.", tempts="sgn on the query"),
    "DirectionOnly": dict(_YES, why="|q| <= sqrt(E) |h| with unit rows, |h| <= sqrt(D) given the gains of the input norm: |u| <= E D/sqrt(E) = 91.",
        tempts="trained maps behind the norm"),
    "WeightNormed": dict(_NO, why="weight_norm keeps a trained length per row.", tempts="weight_norm: unit rows"),
    "FusedNorm": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, logits_bounded={"0": True}, softmax=True,
        why="query, key and value are parts of a vector of length sqrt(96) given the gains; values are averaged and added as they are.", tempts="no norm in front; one norm is not two"),
    "FusedNormFirstTwo": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, logits_bounded={"0": True}, softmax=True,
        why="values are a raw linear map of the stream, averaged over tokens: degree one.", tempts="a norm stands in front of the attention"),
    "AttentionFree": dict(_NO, why="weights exp(k_s) / sum_t exp(k_t) over the past are a softmax per channel; keys are a free map.", tempts="no softmax; a gate"),
    "LinearAttentionElu": dict(_PRE, softmax=False, why="elu + 1 is no exponential for positive arguments, and shares of products are no softmax.", tempts="normalised positive weights"),
    "SoftmaxPlusOne": dict(_YES, why="a softmax with one more score of 0 whose value is 0; normed products.", tempts="sums of exp are no softmax"),
    "LogAddExp": dict(_NO, why="exp(u - lse) is the softmax of raw products.", tempts="u - lse is at most zero: bounded"),
    "SelfOrNeighbour": dict(_PRE, softmax=True, why="sigmoid(a - b) and its complement are the softmax of two scores, and they weigh values.", tempts="a gate"),
    "SelfAndNeighbour": dict(_PRE, softmax=False, why="two independent gates that sum to nothing in particular.", tempts="as its twin"),
    "HardTopThree": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        why="ranks choose, all three weigh the same; the mean of unit vectors is in the unit ball.", tempts="scores and values: a softmax; no map is harmless: unbounded"),
    "SigmoidAttention": dict(_PRE, softmax=False, why="each weight is a sigmoid of its own.", tempts="attention: softmax"),
    "CarriedScores": dict(kind="model", identity_gain=1.0, growth_fixed="linear", logits_bounded={"0": True, "1": True, "23": True}, softmax=True,
        why="layer i has the sum of i + 1 cosines: at most 24.", tempts="scores accumulate: unbounded"),
    "CarriedRawScores": dict(kind="model", identity_gain=1.0, growth_fixed="linear", logits_bounded={"0": False, "1": False, "23": False}, softmax=True,
        why="raw products.", tempts="-"),
}
