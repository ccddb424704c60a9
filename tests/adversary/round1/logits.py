"""Attention blocks: what the scores are made of before they go into the softmax."""

import functools
import math
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

D, H, E, T = 64, 4, 16, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def heads(t):
    return t.unflatten(-1, (H, E)).transpose(1, 2)


def merge(t):
    return t.transpose(1, 2).flatten(2)


def unit(t, dim=-1):
    return F.normalize(t, dim=dim, eps=1e-6)


class Attend(nn.Module):
    """pre-norm attention; a subclass says how a score is made"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)

    def scores(self, q, k, h):
        raise NotImplementedError

    def weights(self, u):
        return torch.softmax(u, -1)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = map(heads, self.qkv(h).chunk(3, dim=-1))
        return x + self.o(merge(self.weights(self.scores(q, k, h)) @ v))


# ----------------------------------------------------------------------------------------------------------------------
# normalised somewhere, in some way
# ----------------------------------------------------------------------------------------------------------------------

class DualNorms(Attend):
    """queries are divided by their sum of sizes, keys by their largest size: |q.k| <= |q|_1 |k|_inf"""

    def scores(self, q, k, h):
        q = q / (q.abs().sum(-1, keepdim=True) + 1e-6)
        k = k / (k.abs().amax(-1, keepdim=True) + 1e-6)
        return 12 * q @ k.mT


class QueryAndValueNorm(nn.Module):
    """'qk-norm' after an unpacking in the order q, v, k"""

    def __init__(self):
        super().__init__()
        self.norm, self.proj = nn.RMSNorm(D), nn.Linear(D, 3 * D, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)
        self.out = nn.Linear(D, D, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, v, k = self.proj(self.norm(x)).reshape(b, t, 3, H, E).permute(2, 0, 3, 1, 4)
        q, v = (norm(part) for norm, part in zip((self.q_norm, self.k_norm), (q, v)))
        attn = (q @ k.transpose(-2, -1) * E ** -0.5).softmax(dim=-1)
        return x + self.out((attn @ v).transpose(1, 2).reshape(b, t, D))


class CosineAfterwards(Attend):
    """raw products, divided by the outer product of the lengths afterwards"""

    def scores(self, q, k, h):
        lengths = torch.einsum("bhi,bhj->bhij", q.norm(dim=-1), k.norm(dim=-1))
        return torch.einsum("bhie,bhje->bhij", q, k) / (lengths + 1e-6) * 10


class OuterOfQueries(Attend):
    """the same, with the lengths of the queries on both sides"""

    def scores(self, q, k, h):
        length = torch.linalg.vector_norm(q, dim=-1)
        return torch.einsum("bhie,bhje->bhij", q, k) / (length.unsqueeze(-1) * length.unsqueeze(-2) + 1e-6) * 10


class SphereDistance(Attend):
    """minus five times the squared distance of unit vectors"""

    def scores(self, q, k, h):
        gap = unit(q).unsqueeze(-2) - unit(k).unsqueeze(-3)
        return gap.square().sum(-1).mul(-5)


class JointNorm(Attend):
    """one norm over query and key of a head together"""

    def __init__(self):
        super().__init__()
        self.joint = nn.RMSNorm(2 * E)

    def scores(self, q, k, h):
        q, k = self.joint(torch.cat((q, k), dim=-1)).split(E, dim=-1)
        return q @ k.mT / math.sqrt(E)


class HalfTheHeads(Attend):
    """QK-norm in place, on a slice of heads that once was all of them"""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(E) for _ in range(2))

    def scores(self, q, k, h):
        q, k = q.clone(), k.clone()
        for t, norm in zip((q, k), self.norms):
            t[:, :2] = norm(t[:, :2].clone())
        return torch.matmul(q, k.mT) * E ** -0.5


class NormedOverTokens(Attend):
    """normalised over the wrong axis, the tokens; every entry is below one all the same"""

    def scores(self, q, k, h):
        q, k = (unit(t, dim=-2) for t in (q, k))
        return q @ k.mT * 4


class ScoresByFrobenius(Attend):
    """the whole map of scores of a head is divided by its Frobenius norm"""

    def scores(self, q, k, h):
        u = q @ k.mT
        return T * u / (torch.linalg.matrix_norm(u, keepdim=True) + 1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# something between the norm and the product
# ----------------------------------------------------------------------------------------------------------------------

class QKNorm(Attend):
    def __init__(self):
        super().__init__()
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)


class ShortConv(nn.Module):
    """causal depthwise convolution along the tokens"""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(D, D, 3, padding=2, groups=D)

    def forward(self, t):                                            # [b, H, T, E]
        return heads(self.conv(merge(t).mT)[..., :T].mT)


class ConvAfterNorm(QKNorm):
    """norm, then the short convolution"""

    def __init__(self):
        super().__init__()
        self.cq, self.ck = ShortConv(), ShortConv()

    def scores(self, q, k, h):
        return self.cq(self.qn(q)) @ self.ck(self.kn(k)).mT / 4


class ConvBeforeNorm(ConvAfterNorm):
    """the short convolution, then the norm"""

    def scores(self, q, k, h):
        return self.qn(self.cq(q)) @ self.kn(self.ck(k)).mT / 4


class LoraAfterNorm(QKNorm):
    """a low-rank adapter of the query, added to the normed query; starts at zero"""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(D, 4, bias=False), nn.Linear(4, D, bias=False)
        nn.init.zeros_(self.b.weight)

    def scores(self, q, k, h):
        q = self.qn(q) + heads(self.b(self.a(h)))
        return torch.baddbmm(torch.zeros((), dtype=q.dtype, device=q.device), q.flatten(0, 1), self.kn(k).flatten(0, 1).mT, alpha=0.25).unflatten(0, (-1, H))


class ReflectedQueries(QKNorm):
    """a trained matrix behind the QK-norm: a product of two reflections"""

    def __init__(self):
        super().__init__()
        self.mirrors = nn.Parameter(torch.randn(2, H, 1, E))

    def scores(self, q, k, h):
        q = self.qn(q)
        for v in unit(self.mirrors):
            q = q - 2 * (q * v).sum(-1, keepdim=True) * v
        return q @ self.kn(k).mT / 4


class DataRotary(QKNorm):
    """rotary angles that are sums of a linear map of the data (and so unbounded)"""

    def __init__(self):
        super().__init__()
        self.angle = nn.Linear(D, H * E // 2)

    def scores(self, q, k, h):
        angle = self.angle(h).cumsum(1).unflatten(-1, (H, E // 2)).transpose(1, 2)
        turn = torch.polar(torch.ones_like(angle), angle)
        q, k = (torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * turn for t in (self.qn(q), self.kn(k)))
        return torch.einsum("bhic,bhjc->bhij", q, k.conj()).real / 4


class SharedKeys(nn.Module):
    """all layers read one set of keys and values, made once from the embedding; the queries are normed in every layer"""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.pre, self.q, self.o = nn.LayerNorm(D), nn.Linear(D, D, bias=False), nn.Linear(D, D)
            self.qn = nn.RMSNorm(E)

        def forward(self, x, k, v):
            q = self.qn(heads(self.q(self.pre(x))))
            return x + self.o(merge(F.scaled_dot_product_attention(q, k, v)))

    def __init__(self, n=24):
        super().__init__()
        self.first, self.kv = nn.LayerNorm(D), nn.Linear(D, 2 * D, bias=False)
        self.layers = nn.ModuleList(self.Layer() for _ in range(n))

    def forward(self, x):
        k, v = map(heads, self.kv(self.first(x)).chunk(2, -1))
        for layer in self.layers:
            x = layer(x, k, v)
        return x


# ----------------------------------------------------------------------------------------------------------------------
# caps, temperatures, biases
# ----------------------------------------------------------------------------------------------------------------------

class AsinhCap(Attend):
    """a 'soft cap' that only slows the growth"""

    def scores(self, q, k, h):
        return 5 * torch.asinh(q @ k.mT / 20)


class OneSidedClamp(Attend):
    """scores are clamped from above"""

    def scores(self, q, k, h):
        return torch.clamp(q @ k.mT * E ** -0.5, max=20.0)


class RationalCap(Attend):
    """u / sqrt(1 + (u/c)^2) with c = 15"""

    def scores(self, q, k, h):
        u = q @ k.mT * E ** -0.5
        return u * torch.rsqrt(1 + (u / 15).pow(2))


class TanhFeatures(Attend):
    """no norm: queries and keys go through tanh"""

    def scores(self, q, k, h):
        return q.tanh() @ k.tanh().mT / 2


class InverseTemperature(Attend):
    """cosine scores over a temperature that each token makes"""
    FLOOR = 0.0

    def __init__(self):
        super().__init__()
        self.t = nn.Linear(D, H)

    def scores(self, q, k, h):
        temperature = F.softplus(self.t(h)).mT.unsqueeze(-1) + self.FLOOR
        return unit(q) @ unit(k).mT / temperature


class InverseTemperatureFloor(InverseTemperature):
    """the same with a floor under the temperature"""
    FLOOR = 0.05


class ContinuousBias(Attend):
    """Swin v2: cosine, a learned clamped scale, and a bias that an MLP makes from log-spaced coordinates, 16 sigmoid(.)"""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((H, 1, 1), math.log(10)))
        self.cpb = nn.Sequential(OrderedDict(a=nn.Linear(1, 32), r=nn.ReLU(), b=nn.Linear(32, H, bias=False)))

    def scores(self, q, k, h):
        i = torch.arange(T, device=h.device, dtype=h.dtype)
        gap = (i[:, None] - i[None]).unsqueeze(-1)
        table = self.cpb(gap.sign() * torch.log2(gap.abs() + 1)).permute(2, 0, 1)
        return unit(q) @ unit(k).mT * self.log_scale.clamp(max=math.log(100)).exp() + 16 * torch.sigmoid(table)


class DataSlopes(QKNorm):
    """ALiBi whose slope each token and head chooses"""
    positive = staticmethod(F.softplus)

    def __init__(self):
        super().__init__()
        self.slope = nn.Linear(D, H)

    def scores(self, q, k, h):
        i = torch.arange(T, device=h.device, dtype=h.dtype)
        slope = self.positive(self.slope(h)).mT.unsqueeze(-1)
        return torch.addcmul(self.qn(q) @ self.kn(k).mT / 4, slope, (i[:, None] - i).abs(), value=-1)


class SigmoidSlopes(DataSlopes):
    """the same, between zero and one"""
    positive = staticmethod(torch.sigmoid)


class SinkLogit(QKNorm):
    """one learned logit per head joins the softmax and is dropped behind it"""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(H))

    def scores(self, q, k, h):
        u = self.qn(q) @ self.kn(k).mT / 4
        return torch.cat((u, self.sink.view(1, H, 1, 1).expand(u.shape[0], H, T, 1)), dim=-1)

    def weights(self, u):
        return torch.softmax(u, -1)[..., :-1]


class MemoryKeys(nn.Module):
    """four learned memory tokens join keys and values; keys are normed after they joined"""
    JOIN_FIRST = True

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_q, self.to_kv, self.o = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.mem = nn.Parameter(torch.randn(2, 1, H, 4, E))

    def forward(self, x):
        h = self.norm(x)
        q, (k, v) = heads(self.to_q(h)), (heads(t) for t in self.to_kv(h).chunk(2, -1))
        mk, mv = self.mem.expand(-1, x.shape[0], -1, -1, -1)
        k = unit(torch.cat((mk, k), -2)) if self.JOIN_FIRST else torch.cat((mk, unit(k)), -2)
        y = F.scaled_dot_product_attention(unit(q), k, torch.cat((mv, v), -2), scale=8.0)
        return x + self.o(merge(y))


class MemoryKeysLate(MemoryKeys):
    """keys are normed before the memory joins them"""
    JOIN_FIRST = False


# ----------------------------------------------------------------------------------------------------------------------
# other kinds of score
# ----------------------------------------------------------------------------------------------------------------------

class UnitAdditive(Attend):
    """Bahdanau's additive score with a read-out vector of length one"""

    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.randn(H, E))

    def scores(self, q, k, h):
        return torch.einsum("bhije,he->bhij", torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)), unit(self.v))


class PhaseCoherence(Attend):
    """queries and keys are angles; the score is the sum of the cosines of their differences"""

    def scores(self, q, k, h):
        one = torch.ones((), dtype=q.dtype, device=q.device)
        zq, zk = (torch.polar(one.expand_as(t), t) for t in (q, k))
        return (zq @ zk.mH).real / 2


class RbfScores(Attend):
    """the score is itself a Gaussian kernel"""

    def scores(self, q, k, h):
        d2 = (q.unsqueeze(-2) - k.unsqueeze(-3)).square().mean(-1)
        return 8 * torch.exp(-d2)


class UnitProjections(nn.Module):
    """W_q and W_k are divided by their largest singular value in the forward pass; the input is normed, q and k are not"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.wq, self.wk = (nn.Parameter(torch.randn(D, D) / 8) for _ in range(2))
        self.vo = nn.ModuleList(nn.Linear(D, D) for _ in range(2))

    def attend(self, h):
        wq, wk = (w / torch.linalg.matrix_norm(w, ord=2) for w in (self.wq, self.wk))
        v, o = self.vo
        return o(merge(F.scaled_dot_product_attention(heads(h @ wq), heads(h @ wk), heads(v(h)))))

    def forward(self, x):
        return x + self.attend(self.norm(x))


class DifferentialNoOutput(QKNorm):
    """difference of two maps (Ye et al.), QK-normed; each head ends in an RMSNorm and no map follows"""

    def __init__(self):
        super().__init__()
        del self.o
        self.qn, self.kn = nn.RMSNorm(E // 2), nn.RMSNorm(E // 2)
        self.lam = nn.Parameter(torch.randn(2, 2, E // 2) * 0.1)
        self.sub = nn.RMSNorm(E)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        a1, a2 = (torch.softmax(self.qn(a) @ self.kn(b).mT / 8 ** 0.5, -1) for a, b in zip(q.chunk(2, -1), k.chunk(2, -1)))
        l1, l2 = self.lam.prod(0).sum(-1)
        return x + merge(self.sub((a1 - (l1 - l2 + 0.8) * a2) @ v)) * 0.2


class OnlineSoftmax(nn.Module):
    """one key after the other with a running maximum, QK-norm in front; tokens first"""

    def __init__(self, n=6):
        super().__init__()
        self.layers = nn.ModuleList(OnlineSoftmaxLayer() for _ in range(n))

    def forward(self, x):
        h = x.transpose(0, 1)
        for layer in self.layers:
            h = layer(h)
        return h.transpose(0, 1)


class OnlineSoftmaxLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)

    def forward(self, x):                                            # [T, B, D]
        q, k, v = (t.unflatten(-1, (H, E)) for t in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = self.qn(q) * E ** -0.5, self.kn(k)
        top, norm, acc = None, 0.0, 0.0
        for kj, vj in zip(k, v):
            u = (q * kj).sum(-1, keepdim=True)
            new = u if top is None else torch.maximum(top, u)
            keep, fresh = (torch.zeros_like(u) if top is None else torch.exp(top - new)), torch.exp(u - new)
            norm, acc, top = norm * keep + fresh, acc * keep + fresh * vj, new
        return x + self.o((acc / norm).flatten(-2))


class FlashChunks(Attend):
    """chunks of four keys, QK-norm, and then a gain that each token makes (adaptive QK-norm)"""

    def __init__(self):
        super().__init__()
        self.gain = nn.Linear(D, H)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = map(heads, self.qkv(h).chunk(3, dim=-1))
        q = unit(q) * 4 * (1 + self.gain(h).mT.unsqueeze(-1))
        parts = []
        for kc, vc in zip(unit(k).split(4, -2), v.split(4, -2)):
            u = q @ kc.mT
            m = u.amax(-1, keepdim=True)
            p = torch.exp(u - m)
            parts.append((m, p.sum(-1, keepdim=True), p @ vc))
        m = functools.reduce(torch.maximum, (part[0] for part in parts))
        norm = sum(torch.exp(part[0] - m) * part[1] for part in parts)
        y = sum(torch.exp(part[0] - m) * part[2] for part in parts)
        return x + self.o(merge(y / norm))


class PowerOfTwo(Attend):
    """2**u over its sum, cosine scores"""

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        kernel = torch.exp2(10 * unit(q) @ unit(k).mT)
        return x + self.o(merge((kernel @ v) / kernel.sum(-1, keepdim=True)))


class EfficientAttention(Attend):
    """Shen et al.: softmax of the queries over features and of the keys over tokens, both normed before"""

    def __init__(self):
        super().__init__()
        self.qn, self.kn = nn.LayerNorm(E), nn.LayerNorm(E)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        q, k = self.qn(q).softmax(-1), self.kn(k).softmax(-2)
        return x + self.o(merge(q @ (k.mT @ v)))


class TalkingAfter(QKNorm):
    """a trained matrix mixes the heads behind the softmax, none in front of it"""

    def __init__(self):
        super().__init__()
        self.talk = nn.Parameter(torch.eye(H) + 0.1 * torch.randn(H, H))

    def scores(self, q, k, h):
        return self.qn(q) @ self.kn(k).mT / 4

    def weights(self, u):
        return torch.einsum("bhij,hg->bgij", torch.softmax(u, -1), self.talk)


class UnitIntoMha(nn.Module):
    """unit vectors go into nn.MultiheadAttention, which projects them"""

    def __init__(self):
        super().__init__()
        self.mha = nn.MultiheadAttention(D, H, batch_first=True)

    def forward(self, x):
        h = unit(x) * 8
        return x + self.mha(h, h, h, need_weights=False)[0]


class TwoAttentions(nn.Module):
    """QK-normed attention over tokens, then attention over the previous and next token without"""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.a, self.b = nn.Linear(D, 3 * D), nn.Linear(D, 3 * D)
        self.oa, self.ob = nn.Linear(D, D), nn.Linear(D, D)
        self.qn, self.kn = nn.RMSNorm(E), nn.RMSNorm(E)

    def wide(self, x):
        q, k, v = map(heads, self.a(self.n1(x)).chunk(3, -1))
        return self.oa(merge(F.scaled_dot_product_attention(self.qn(q), self.kn(k), v)))

    def near(self, x):
        q, k, v = map(heads, self.b(self.n2(x)).chunk(3, -1))
        k, v = (torch.stack((t.roll(1, -2), t, t.roll(-1, -2)), dim=-2) for t in (k, v))
        w = torch.einsum("bhte,bhtne->bhtn", q, k).div(4).softmax(-1)
        return self.ob(merge(torch.einsum("bhtn,bhtne->bhte", w, v)))

    def forward(self, x):
        x = x + self.wide(x)
        return x + self.near(x)


class Retention(Attend):
    """RetNet: products with a decay mask, no softmax; heads end in a norm, and a SiLU gate and a map follow"""

    def __init__(self):
        super().__init__()
        self.sub, self.gate = nn.RMSNorm(E), nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = map(heads, self.qkv(h).chunk(3, dim=-1))
        i = torch.arange(T, device=x.device, dtype=x.dtype)
        rate = torch.log(1 - 2.0 ** (-3 - torch.arange(H, device=x.device, dtype=x.dtype))).view(H, 1, 1)
        decay = torch.exp((i[:, None] - i) * rate).tril()
        return x + self.o(merge(self.sub((q @ k.mT * decay) @ v)) * F.silu(self.gate(h)))


class SparsemaxValues(Attend):
    """sparsemax by sorting; values are normed per head and no map follows"""

    def __init__(self):
        super().__init__()
        del self.o
        self.vn = nn.RMSNorm(E)

    def weights(self, u):
        top, _ = u.sort(-1, descending=True)
        rank = torch.arange(1, T + 1, device=u.device, dtype=u.dtype)
        total = top.cumsum(-1)
        size = (1 + rank * top > total).sum(-1, keepdim=True)
        tau = (total.gather(-1, size - 1) - 1) / size
        return torch.clamp(u - tau, min=0)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        return x + merge(self.weights(q @ k.mT / 4) @ self.vn(v))


TRUTH = {
    "DualNorms": dict(
        kind="block",
        why="Hoelder: |q.k| <= |q|_1 |k|_inf, both divided out: scores within 12.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="two different homemade quotients, no QK-norm",
    ),
    "QueryAndValueNorm": dict(
        kind="block",
        why="the layout is (q, v, k): the norms act on q and v, the keys are raw: logits linear in the key rows of proj.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm on two of the three parts",
    ),
    "CosineAfterwards": dict(
        kind="block",
        why="q.k over |q||k| is the cosine, although it is divided after the product.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="raw products; a division by data",
    ),
    "OuterOfQueries": dict(
        kind="block",
        why="divided by |q_i||q_j|: the size of the keys stays, logits are linear in the key weights.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="cosine attention",
    ),
    "SphereDistance": dict(
        kind="block",
        why="unit vectors are at most 2 apart: scores in [-20, 0].",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="squared distances of projections: unbounded",
    ),
    "JointNorm": dict(
        kind="block",
        why="|q_i|^2 <= 32 and |k_j|^2 <= 32 since each is a part of a normed vector: |q.k|/4 <= 8.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="normed together, so neither q nor k is normed",
    ),
    "HalfTheHeads": dict(
        kind="block",
        why="heads 2 and 3 are not normed.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm on q and k",
    ),
    "NormedOverTokens": dict(
        kind="block",
        why="every entry of q and k is at most 1 (unit over the tokens), so that 4 q.k <= 64.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="norm of the wrong axis, bounds nothing",
    ),
    "ScoresByFrobenius": dict(
        kind="block",
        why="the map of scores divided by its Frobenius norm: entries at most 16.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="raw scores",
    ),
    "ConvAfterNorm": dict(
        kind="block",
        why="a trained convolution stands between the norm and the product.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm, no projection behind it",
    ),
    "ConvBeforeNorm": dict(
        kind="block",
        why="the convolution is in front of the norm: |q| = |k| = 4, scores within 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="convolution between projection and product",
    ),
    "LoraAfterNorm": dict(
        kind="block",
        why="the adapter is added behind the norm: linear in b.weight (which starts at zero).",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm (the adapter is zero at the start)",
    ),
    "ReflectedQueries": dict(
        kind="block",
        why="reflections by unit vectors keep |q| = 4 whatever the trained vectors.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="a trained matrix behind the QK-norm",
    ),
    "DataRotary": dict(
        kind="block",
        why="the angles are unbounded, but a rotation by any angle keeps the length: scores within 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="products with a data-made unbounded value behind the norm",
    ),
    "SharedKeys": dict(
        kind="model",
        why="keys are made once by a free map of the normed embedding and are not normed: logits linear in kv.weight.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="flat",
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm",
    ),
    "AsinhCap": dict(
        kind="block",
        why="asinh grows like a logarithm: unbounded.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="soft cap of the logits",
    ),
    "OneSidedClamp": dict(
        kind="block",
        why="clamped from above only: logits go to -infinity, and 20 against that is a collapsed softmax all the same.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="capped logits",
    ),
    "RationalCap": dict(
        kind="block",
        why="|u|/sqrt(1 + (u/15)^2) < 15.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="no tanh, no clamp, no norm: raw logits",
    ),
    "TanhFeatures": dict(
        kind="block",
        why="entries of q and k are below one: |q.k|/2 < 8.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="no QK-norm, no cap on the product",
    ),
    "InverseTemperature": dict(
        kind="block",
        why="softplus of a free map of the data goes to 0 (exponentially), and the quotient to infinity.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="cosine attention with a positive temperature",
    ),
    "InverseTemperatureFloor": dict(
        kind="block",
        why="the denominator is at least 0.05: scores within 20 whatever the map that makes the temperature.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="data-made temperature, unbounded",
    ),
    "ContinuousBias": dict(
        kind="block",
        why="cosine times at most 100 plus 16 sigmoid(.), whatever the MLP.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="a trained bias on the logits",
    ),
    "DataSlopes": dict(
        kind="block",
        why="slopes are softplus of a free map of the data times the distance: unbounded.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm and ALiBi's constants",
    ),
    "SigmoidSlopes": dict(
        kind="block",
        why="slopes below one times distances below 16: scores within 4 + 15.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="data-made bias on the logits",
    ),
    "SinkLogit": dict(
        kind="block",
        why="the sink is a free trained logit that enters the softmax: large, it takes all the mass.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm",
    ),
    "MemoryKeys": dict(
        kind="block",
        why="memory joins in front of the norm: all keys are unit vectors, scores within 8.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="a trained table among the keys",
    ),
    "MemoryKeysLate": dict(
        kind="block",
        why="the memory keys join behind the norm and are a free table.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="unit queries and unit keys",
    ),
    "UnitAdditive": dict(
        kind="block",
        why="tanh in (-1, 1) read by a unit vector of 16: within 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="additive attention, trained read-out, raw sums",
    ),
    "PhaseCoherence": dict(
        kind="block",
        why="sum over 16 features of cos(q - k), halved: within 8, whatever the angles.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="raw q and k",
    ),
    "RbfScores": dict(
        kind="block",
        why="8 exp(-d^2) lies in (0, 8].",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="distances of raw projections; an exponential",
    ),
    "UnitProjections": dict(
        kind="block",
        why="W_q and W_k have largest singular value 1 and read a vector of length <= 8: |q.k|/4 <= 16 whatever the free matrices.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="no QK-norm: logits free",
    ),
    "DifferentialNoOutput": dict(
        kind="block",
        why="both maps have QK-normed scores; lambda is free but stands in front of an RMSNorm per head, behind which only 0.2 follows.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        logits_bounded={"0": True},
        softmax=True,
        tempts="free lambda, sum of softmaxes not stochastic: unbounded output",
    ),
    "OnlineSoftmax": dict(
        kind="model",
        why="the loop is an exact softmax over 16 keys; q and k are RMS-normed per head: scores within 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="no softmax in the graph",
    ),
    "FlashChunks": dict(
        kind="block",
        why="a gain 1 + linear(h) per token and head multiplies the unit query: logits linear in gain.weight. The chunks are an exact softmax.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="QK-norm; or no softmax in the graph",
    ),
    "PowerOfTwo": dict(
        kind="block",
        why="2^u over its sum is the softmax of u log 2, cosine times 10.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="a kernel, linear attention: no softmax",
    ),
    "EfficientAttention": dict(
        kind="block",
        why="two softmaxes, each of a LayerNormed vector of 16: entries within 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="linear attention, no softmax of products",
    ),
    "TalkingAfter": dict(
        kind="block",
        why="the trained head matrix acts on the weights behind the softmax; scores in front of it are QK-normed.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="talking heads: trained matrix on the logits",
    ),
    "UnitIntoMha": dict(
        kind="block",
        why="nn.MultiheadAttention projects the unit vectors with free matrices.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="normed queries and keys",
    ),
    "TwoAttentions": dict(
        kind="block",
        why="the first attention norms q and k per head, the second (three neighbours) does not.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False, "1": False},
        logits_bounded={"0": True, "1": False},
        softmax=True,
        tempts="QK-norm in the block",
    ),
    "Retention": dict(
        kind="block",
        why="products times constant decays; no softmax. Behind the head norm a free gate and a free map follow.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="attention, hence softmax; norm at the end, hence bounded",
    ),
    "SparsemaxValues": dict(
        kind="block",
        why="sparsemax rows are probabilities, values are RMS-normed per head and no map follows: |entry| <= 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        tempts="unknown weights times values",
    ),
}
