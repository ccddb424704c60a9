"""Pull requests on attention, prompts, memories, conditions: scores and what bounds them, tokens that are added, filters that tokens make."""

from collections import namedtuple
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(125)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _C, _MEMORY = _draw(2, T, D), _draw(2, D), _draw(2, 10, D)
example_inputs = {
    **{k: (_X,) for k in ("FusedEncoderLayer", "ShiftedWindowV2", "AlibiLayer", "PositionlessScores", "EinsumHeads", "ColumnHeads", "PersistentMemory",
                          "LipschitzScores", "Retriever", "ClampedScores", "ChannelCosine", "T5Layer", "PromptedLayer", "DynamicTaps",
                          "Permutator", "GroupedQueries", "LatentQueue", "OffByOne")},
    **{k: (_X, _MEMORY) for k in ("DecoderLayer", "QueryFirstDecoder")},
    "DecoupledCross": (_X, {"text": _MEMORY, "image": _draw(2, 4, D)}),
    "SlotStep": (_draw(2, 6, D), _X),
    "ScoreCarry": (_X, _draw(2, H, T, T)),
    **{k: (_X, _C) for k in ("ModulatedLayer", "ModulatedLayerLite")},
}


def init_(module, std=None):
    for m in module.modules():
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=std or m.in_features ** -0.5)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    return module


def heads(t: Tensor) -> Tensor:
    return t.unflatten(-1, (H, HD)).transpose(-3, -2)


def merge(t: Tensor) -> Tensor:
    return t.transpose(-3, -2).flatten(-2)


class Mlp(nn.Module):
    def __init__(self, hidden=64, act=nn.GELU):
        super().__init__()
        self.seq = init_(nn.Sequential(nn.Linear(D, hidden), act(), nn.Linear(hidden, D)))

    def forward(self, x):
        return self.seq(x)


class Attn(nn.Module):
    """Attention whose scores can be replaced."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (init_(nn.Linear(D, D, bias=False)) for _ in range(4))

    def scores(self, q, k):
        return q @ k.mT / HD ** 0.5

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        return self.o(merge(self.scores(q, k).softmax(-1) @ v))


class TwoStep(nn.Module):
    """Pre-norm: attention, then a net."""

    attention = Attn

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), self.attention(), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ one map in, one map out
class FusedEncoderLayer(nn.Module):
    """Queries, keys, values and the net's hidden units come from one map and go by one map; queries and keys have a norm a head."""

    def __init__(self, hidden=64):
        super().__init__()
        self.sizes = [D, D, D, hidden]
        self.norm, self.q_norm, self.k_norm = nn.LayerNorm(D), nn.LayerNorm(HD), nn.LayerNorm(HD)
        self.wide, self.narrow = init_(nn.Linear(D, sum(self.sizes), bias=False)), init_(nn.Linear(D + hidden, D))

    def forward(self, x):
        q, k, v, h = self.wide(self.norm(x)).split(self.sizes, dim=-1)
        q, k, v = self.q_norm(heads(q)), self.k_norm(heads(k)), heads(v)
        a = F.scaled_dot_product_attention(q, k, v)
        return self.narrow(torch.cat([merge(a), F.gelu(h)], dim=-1)) + x


# ------------------------------------------------------------------ scores
class ShiftedWindowV2(nn.Module):
    """Cosines in windows of eight, a bias from log distances under a sigmoid, norms behind branches."""

    def __init__(self, window=8):
        super().__init__()
        self.w = window
        self.qkv, self.proj, self.mlp = init_(nn.Linear(D, 3 * D)), init_(nn.Linear(D, D)), Mlp()
        self.cpb = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, H, bias=False))
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        n = torch.arange(window) * 1.0
        gap = n[:, None] - n
        self.register_buffer("log_gap", (gap.sign() * torch.log2(gap.abs() + 1) / 3)[..., None])

    def windows(self, x):
        q, k, v = (heads(t) for t in self.qkv(x.unflatten(1, (-1, self.w))).chunk(3, dim=-1))
        s = 10.0 * (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1))
        bias = 16 * torch.sigmoid(self.cpb(self.log_gap)).permute(2, 0, 1)
        return self.proj(merge(torch.softmax(s + bias, dim=-1) @ v)).flatten(1, 2)

    def forward(self, x):
        x = x + self.norm1(self.windows(x.roll(-4, dims=1)).roll(4, dims=1))
        return x + self.norm2(self.mlp(x))


class AlibiScores(Attn):
    """Normed queries and keys, and a slope a head for distances."""

    def __init__(self):
        super().__init__()
        slopes, n = 2.0 ** -torch.arange(1, H + 1), torch.arange(T)
        self.register_buffer("bias", -slopes[:, None, None] * (n[:, None] - n).clamp(min=0))
        self.register_buffer("future", torch.ones(T, T, dtype=torch.bool).triu(1))

    def scores(self, q, k):
        q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
        return (super().scores(q, k) + self.bias).masked_fill(self.future, float("-inf"))


class AlibiLayer(TwoStep):
    attention = AlibiScores


class PositionlessScores(nn.Module):
    """Queries and keys come from the stream, values from its norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm2, self.qk, self.v, self.o, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), init_(nn.Linear(D, 2 * D, bias=False)), init_(nn.Linear(D, D)), init_(nn.Linear(D, D)), Mlp()

    def forward(self, x):
        q, k = self.qk(x).chunk(2, -1)
        x = x + self.o(merge(F.scaled_dot_product_attention(heads(q), heads(k), heads(self.v(self.norm(x))))))
        return x + self.mlp(self.norm2(x))


@dataclass
class HeadsConfig:
    dim: int = D
    n_heads: int = H
    scale: float = field(default=HD ** -0.5)


class EinsumHeads(nn.Module):
    """All by einsum; a scale is in the config."""

    def __init__(self, cfg: HeadsConfig = HeadsConfig()):
        super().__init__()
        self.cfg = cfg
        hd = cfg.dim // cfg.n_heads
        self.w = nn.ParameterDict({n: nn.Parameter(torch.randn(cfg.dim, cfg.n_heads, hd) * cfg.dim ** -0.5) for n in "qkv"})
        self.w_o, self.ln = nn.Parameter(torch.randn(cfg.n_heads, hd, cfg.dim) * cfg.dim ** -0.5), nn.LayerNorm(cfg.dim)

    def forward(self, x):
        y = self.ln(x)
        q, k, v = (torch.einsum("b t d, d h k -> b t h k", y, self.w[n]) for n in "qkv")
        att = torch.einsum("b i h k, b j h k -> b h i j", q, k)
        att = F.softmax(att, dim=-1)
        z = torch.einsum("b h i j, b j h k -> b i h k", att, v)
        return x + torch.einsum("b i h k, h k d -> b i d", z, self.w_o)


class ColumnScores(Attn):
    """Shares over queries."""

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        p = torch.softmax(self.scores(q, k), dim=-2)
        return self.o(merge(p @ v))


class ColumnHeads(TwoStep):
    attention = ColumnScores


class PersistentMemory(nn.Module):
    """Trained keys and values stand beside those of tokens; there is no net."""

    def __init__(self, n=12):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), init_(nn.Linear(D, 3 * D, bias=False)), init_(nn.Linear(D, D, bias=False))
        self.mem_k, self.mem_v = nn.Parameter(torch.randn(1, H, n, HD)), nn.Parameter(torch.randn(1, H, n, HD))

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm(x)).chunk(3, -1))
        b = x.shape[0]
        k = torch.cat((self.mem_k.expand(b, -1, -1, -1), k), dim=2)
        v = torch.cat((self.mem_v.expand(b, -1, -1, -1), v), dim=2)
        return x + self.o(merge(F.scaled_dot_product_attention(q, k, v)))


class CdistScores(Attn):
    """Scores are distances."""

    def scores(self, q, k):
        return -torch.cdist(q, k).square() / (2 * HD ** 0.5)


class LipschitzScores(TwoStep):
    attention = CdistScores


class ClampScores(Attn):
    """Scores are cut at thirty."""

    def scores(self, q, k):
        return torch.clamp(super().scores(q, k), -30.0, 30.0)


class ClampedScores(TwoStep):
    attention = ClampScores


class ChannelNormScores(Attn):
    """Each channel of a head is normed over the tokens."""

    def scores(self, q, k):
        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)
        return 4.0 * q @ k.mT


class ChannelCosine(TwoStep):
    attention = ChannelNormScores


class OffByOneScores(Attn):
    """A zero beside scores, so that a head can say nothing; the first of values is nought, too."""

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        s = F.pad(self.scores(q, k), (1, 0))
        return self.o(merge(s.softmax(-1)[..., 1:] @ v))


class OffByOne(TwoStep):
    attention = OffByOneScores


class GroupedQueries(nn.Module):
    """Two heads of keys and values for four of queries, a cap by tanh, and norms in front of and behind both branches."""

    def __init__(self, kv=2, cap=30.0):
        super().__init__()
        self.kv, self.cap = kv, cap
        self.q, self.k, self.v, self.o = (init_(nn.Linear(D, o, bias=False)) for o in (D, kv * HD, kv * HD, D))
        self.norms, self.mlp = nn.ModuleList(nn.RMSNorm(D) for _ in range(4)), Mlp()

    def attend(self, h):
        q = heads(self.q(h))
        k, v = (f(h).unflatten(-1, (self.kv, HD)).transpose(1, 2).repeat_interleave(H // self.kv, dim=1) for f in (self.k, self.v))
        s = (q * HD ** -0.5) @ k.transpose(-1, -2)
        s = (s / self.cap).tanh_().mul(self.cap)
        return self.o(merge(s.softmax(-1) @ v))

    def forward(self, x):
        a, b, c, d = self.norms
        x = x + b(self.attend(a(x)))
        x = x + d(self.mlp(c(x)))
        return x


class Retriever(nn.Module):
    """Queries move three times to the mean of patterns that they are near to."""

    def __init__(self, steps=3, beta=2.0):
        super().__init__()
        self.norm, self.read, self.out, self.patterns, self.steps, self.beta = nn.LayerNorm(D), init_(nn.Linear(D, D)), init_(nn.Linear(D, D)), nn.Parameter(torch.randn(20, D)), steps, beta

    def forward(self, x):
        xi = self.read(self.norm(x))
        for _ in range(self.steps):
            xi = F.softmax(self.beta * F.linear(xi, self.patterns), dim=-1).matmul(self.patterns)
        return x + self.out(xi)


class T5Layer(nn.Module):
    """No root of the width under scores, as published; queries start small instead. A table of distances is added."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.wi, self.wo = (nn.Linear(i, o, bias=False) for i, o in ((D, D), (D, D), (D, D), (D, D), (D, 64), (64, D)))
        for m, std in ((self.q, (D * HD) ** -0.5), (self.k, D ** -0.5), (self.v, D ** -0.5), (self.o, D ** -0.5), (self.wi, D ** -0.5), (self.wo, 64 ** -0.5)):
            nn.init.normal_(m.weight, std=std)
        self.table, self.ln1, self.ln2 = nn.Embedding(2 * T, H), nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, x):
        n = torch.arange(x.shape[1], device=x.device)
        bias = self.table(n[:, None] - n + T).permute(2, 0, 1)
        h = self.ln1(x)
        s = heads(self.q(h)) @ heads(self.k(h)).mT + bias
        x = x + self.o(merge(torch.softmax(s, -1) @ heads(self.v(h))))
        return x + self.wo(F.relu(self.wi(self.ln2(x))))


class ScoreCarry(nn.Module):
    """Scores of the layer before are added to those of this one, and handed on."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), init_(nn.Linear(D, 3 * D)), init_(nn.Linear(D, D)), Mlp()

    def forward(self, x, prev):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        scores = q @ k.mT * HD ** -0.5 + prev
        x = x + self.o(merge(scores.softmax(dim=-1) @ v))
        return x + self.mlp(self.norm2(x)), scores


# ------------------------------------------------------------------ other tokens
class Cross(Attn):
    def forward(self, x, memory):
        q, k, v = heads(self.q(x)), heads(self.k(memory)), heads(self.v(memory))
        return self.o(merge(self.scores(q, k).softmax(-1) @ v))


class DecoderLayer(nn.Module):
    """Three branches; the memory has a norm of its own in each layer."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleDict({n: nn.LayerNorm(D) for n in ("self", "cross", "memory", "mlp")})
        self.self_attn, self.cross_attn, self.mlp = Attn(), Cross(), Mlp(act=nn.ReLU)

    def forward(self, tgt, memory):
        tgt = tgt + self.self_attn(self.norms["self"](tgt))
        tgt = tgt + self.cross_attn(self.norms["cross"](tgt), self.norms["memory"](memory))
        return tgt + self.mlp(self.norms["mlp"](tgt))


class QueryFirstDecoder(DecoderLayer):
    """Cross attention: the residual is what the query is made from."""

    def forward(self, tgt, memory):
        tgt = tgt + self.self_attn(self.norms["self"](tgt))
        query = self.norms["cross"](tgt)
        tgt = query + self.cross_attn(query, self.norms["memory"](memory))
        return tgt + self.mlp(self.norms["mlp"](tgt))


class DecoupledCross(nn.Module):
    """One query, two memories with keys and values of their own; a picture counts for 0.6."""

    def __init__(self, weight=0.6):
        super().__init__()
        self.norm, self.weight, self.q, self.o = nn.LayerNorm(D), weight, init_(nn.Linear(D, D, bias=False)), init_(nn.Linear(D, D))
        self.kv = nn.ModuleDict({n: init_(nn.Linear(D, 2 * D, bias=False)) for n in ("text", "image")})

    def look(self, q, name, memory):
        k, v = self.kv[name](memory).chunk(2, dim=-1)
        return merge(F.scaled_dot_product_attention(q, heads(k), heads(v)))

    def forward(self, x, memories):
        q = heads(self.q(self.norm(x)))
        y = self.look(q, "text", memories["text"]) + self.weight * self.look(q, "image", memories["image"])
        return self.o(y) + x


class SlotStep(nn.Module):
    """Slots compete for inputs; a recurrent cell takes the mean of what each one won."""

    def __init__(self):
        super().__init__()
        self.norm_slots, self.norm_inputs, self.to_q, self.to_kv, self.cell = nn.LayerNorm(D), nn.LayerNorm(D), init_(nn.Linear(D, D)), init_(nn.Linear(D, 2 * D)), nn.GRUCell(D, D)

    def forward(self, slots, inputs):
        b, n, _ = slots.shape
        k, v = self.to_kv(self.norm_inputs(inputs)).chunk(2, -1)
        dots = torch.einsum("bid,bjd->bij", self.to_q(self.norm_slots(slots)), k) * D ** -0.5
        attn = dots.softmax(dim=1) + 1e-8
        attn = attn / attn.sum(dim=-1, keepdim=True)
        updates = torch.einsum("bjd,bij->bid", v, attn)
        return self.cell(updates.reshape(-1, D), slots.reshape(-1, D)).reshape(b, n, D)


class PromptedLayer(nn.Module):
    """The first four tokens are replaced by trained ones in each layer."""

    def __init__(self, n=4):
        super().__init__()
        self.n, self.prompt, self.inner = n, nn.Parameter(torch.randn(n, D) * 0.5), TwoStep()

    def forward(self, x):
        x = torch.cat([self.prompt.unsqueeze(0).expand(x.size(0), -1, -1), x[:, self.n:]], dim=1)
        return self.inner(x)


class LatentQueue(nn.Module):
    """A queue of eight summaries of the past, by a running mean over chunks, is looked at beside the chunk itself."""

    def __init__(self, chunk=4):
        super().__init__()
        self.c, self.norm, self.q, self.kv, self.o = chunk, nn.RMSNorm(D), init_(nn.Linear(D, D)), init_(nn.Linear(D, 2 * D)), init_(nn.Linear(D, D))

    def forward(self, x):
        h = self.norm(x)
        chunks = h.unflatten(1, (-1, self.c))
        count = torch.arange(1, chunks.shape[1] + 1, device=x.device, dtype=x.dtype)
        summary = (chunks.mean(2).cumsum(1) / count[:, None]).roll(1, dims=1)
        context = torch.cat((summary.unsqueeze(2), chunks), dim=2)
        k, v = self.kv(context).chunk(2, -1)
        y = F.scaled_dot_product_attention(heads(self.q(chunks)), heads(k), heads(v))
        return x + self.o(merge(y).flatten(1, 2))


# ------------------------------------------------------------------ filters made from tokens, ways weighed by shares
class DynamicTaps(nn.Module):
    """Each token makes shares over itself and four tokens before, a head."""

    def __init__(self, k=5):
        super().__init__()
        self.k, self.norm, self.inp, self.taps, self.out = k, nn.LayerNorm(D), init_(nn.Linear(D, 2 * D)), init_(nn.Linear(D, H * k)), init_(nn.Linear(D, D))

    def forward(self, x):
        h = F.glu(self.inp(self.norm(x)), dim=-1)
        w = self.taps(h).unflatten(-1, (H, self.k)).softmax(-1)
        past = F.pad(h, (0, 0, self.k - 1, 0)).unfold(1, self.k, 1).unflatten(2, (H, HD))
        return x + self.out((past * w.unsqueeze(-2)).sum(-1).flatten(2))


class Permutator(nn.Module):
    """Rows, columns and channels have a map each; shares a channel weigh the three."""

    def __init__(self, side=4, seg=4):
        super().__init__()
        self.side, self.seg = side, seg
        self.norm, self.rows, self.cols, self.chan = nn.LayerNorm(D), init_(nn.Linear(D, D)), init_(nn.Linear(D, D)), init_(nn.Linear(D, D))
        self.weigh, self.out = Mlp(16), init_(nn.Linear(D, D))
        self.expand = init_(nn.Linear(D, 3 * D))

    def along(self, h, f, dim):
        s, g = self.side, self.seg
        y = h.unflatten(1, (s, s)).unflatten(-1, (g, D // g)).movedim(dim, -2)
        return f(y.flatten(-2)).unflatten(-1, (s, D // g)).movedim(-2, dim).flatten(-2).flatten(1, 2)

    def forward(self, x):
        h = self.norm(x)
        ways = torch.stack((self.along(h, self.rows, 1), self.along(h, self.cols, 2), self.chan(h)))
        a = self.expand(F.gelu(self.weigh(ways.sum(0).mean(1)))).unflatten(-1, (3, D)).softmax(1)
        return x + self.out((ways * a.permute(1, 0, 2).unsqueeze(2)).sum(0))


# ------------------------------------------------------------------ conditions
Mod = namedtuple("Mod", "shift scale gate")


class ModulatedLayer(nn.Module):
    """A condition shifts and scales what branches read, on the spot, and gates what they give."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.ada = Attn(), Mlp(), nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))
        self.norm = nn.LayerNorm(D, elementwise_affine=False)

    def read(self, x, m):
        return self.norm(x).mul_(1 + m.scale).add_(m.shift)

    def forward(self, x, c):
        parts = self.ada(c).unsqueeze(1).chunk(6, dim=-1)
        m1, m2 = Mod(*parts[:3]), Mod(*parts[3:])
        x = x + m1.gate * self.attn(self.read(x, m1))
        return x + m2.gate * self.mlp(self.read(x, m2))


class ModulatedLayerLite(ModulatedLayer):
    """The norm is taken for part of the modulation, of which this one has none."""

    def read(self, x, m):
        return x * (1 + m.scale) + m.shift


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_BOTH, _OPEN, _SHUT = dict(output_bounded={0: True, 1: True}, growth_all="linear"), dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "FusedEncoderLayer": dict(_PRE, **_ONE, **_SHUT, sound=True, why="pre-norm; queries and keys have a norm a head."),
    "ShiftedWindowV2": dict(_PRE, **_BOTH, **_SHUT, sound=True, why="norms behind branches; cosines times ten and sixteen shares."),
    "AlibiLayer": dict(_PRE, **_TWO, **_SHUT, sound=True, why="pre-norm; normed queries and keys, fixed slopes."),
    "PositionlessScores": dict(_PRE, **_TWO, **_OPEN, sound=False, why="scores are products of the stream; values are of its norm."),
    "EinsumHeads": dict(_PRE, **_ONE, **_OPEN, sound=False, why="pre-norm; the scale is in the config and not in scores."),
    "ColumnHeads": dict(_PRE, **_TWO, **_OPEN, sound=False, why="a query's weights sum to no more than the number of keys; values are of a norm."),
    "PersistentMemory": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; trained values are what they are."),
    "LipschitzScores": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; distances of maps of norms."),
    "Retriever": dict(_PRE, **_ONE, **_OPEN, sound=True, why="a mean of patterns, through a map."),
    "ClampedScores": dict(_PRE, **_TWO, **_SHUT, sound=True, why="pre-norm; scores are at most thirty."),
    "ChannelCosine": dict(_PRE, **_TWO, **_SHUT, sound=True, why="pre-norm; entries of queries and keys are at most one."),
    "OffByOne": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; shares of which one goes to nothing."),
    "GroupedQueries": dict(_PRE, **_BOTH, **_SHUT, sound=True, why="norms behind branches, scores under a tanh."),
    "T5Layer": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm."),
    "ScoreCarry": dict(kind="block", growth_fixed="linear", softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm; scores are sums of products of norms."),
    "DecoderLayer": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, logits_bounded={0: False, 1: False}, sound=True, why="pre-norm, the memory too."),
    "QueryFirstDecoder": dict(_LEVEL, softmax=True, sound=False, why="the second sum starts from a norm: nothing is carried."),
    "DecoupledCross": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; memories are the same in all layers."),
    "SlotStep": dict(_LEVEL, growth_all="bounded", gated=True, softmax=True, sound=True, why="a gated mean of the slot and a tanh: never above the larger of the slot and one."),
    "PromptedLayer": dict(_PRE, **_OPEN, sound=True, why="pre-norm; four tokens start anew in each layer."),
    "LatentQueue": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; means of norms."),
    "DynamicTaps": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; shares of five tokens."),
    "Permutator": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; shares of three ways."),
    "ModulatedLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; what a condition gives is the same in all of a stream."),
    "ModulatedLayerLite": dict(_EXP, softmax=True, **_OPEN, why="what branches read is of degree one."),
}
