"""Pull requests on graphs, molecules, sets, recommenders, adapters and modalities: edges that gate, scores that are handed on, outer products, pairs of fields, frozen maps, latents that read."""

from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

D, N, T, H = 32, 10, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(329)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _NODES = _draw(2, T, D), _draw(2, N, D)
_ADJ = ((torch.rand(N, N, generator=_G) > 0.6) | torch.eye(N, dtype=torch.bool)).float()
_ADJ = torch.maximum(_ADJ, _ADJ.T)
_EDGES = _ADJ.nonzero().T.contiguous()
example_inputs = {
    "EdgeGateLayer": (_draw(N, D), _draw(_EDGES.shape[1], D), _EDGES),
    "HandedScoresLayer": (_X, torch.zeros(2, H, T, T)),
    **{k: (_draw(2, 4, 6, D), _draw(2, 6, 6, 16)) for k in ("OuterProductLayer", "OuterProductRawBias")},
    **{k: (_draw(2, 6, D),) for k in ("FieldPairsLayer", "FieldPairsLean")},
    **{k: (_X,) for k in ("ActionUnitsLayer", "ActionUnitsFused", "NormTuningLayer", "MagnitudeLayer", "InducedSetLayer", "InducedSetLayerDefault")},
    **{k: (_draw(2, 6, D), _X) for k in ("LatentReaderLayer", "LatentReaderConcat")},
}


def linear(i, o, bias=True, std=None):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=std or i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def two_layer(act=nn.GELU, d=D):
    return nn.Sequential(linear(d, 2 * d), act(), linear(2 * d, d))


def heads(t):
    return t.unflatten(-1, (H, -1)).transpose(-2, -3)


def merge(t):
    return t.transpose(-2, -3).flatten(-2)


# ------------------------------------------------------------------ graphs
class EdgeGateLayer(nn.Module):
    """Edges gate messages over the sum of gates; both states get a norm of the batch and a ReLU added."""

    def __init__(self):
        super().__init__()
        self.A, self.B, self.C, self.U, self.V = (linear(D, D) for _ in range(5))
        self.bn_node, self.bn_edge = nn.BatchNorm1d(D), nn.BatchNorm1d(D)

    def forward(self, h, e, index):
        src, dst = index
        gate = self.A(h)[src] + self.B(h)[dst] + self.C(e)
        s = torch.sigmoid(gate)
        total = torch.zeros_like(h).index_add(0, dst, s)
        agg = torch.zeros_like(h).index_add(0, dst, s * self.V(h)[src]) / (total + 1e-6)
        return h + F.relu(self.bn_node(self.U(h) + agg)), e + F.relu(self.bn_edge(gate))


# ------------------------------------------------------------------ scores that are handed on
class HandedScoresLayer(nn.Module):
    """Scores of the layer below are added to those of this one, and handed on."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.qkv, self.o, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), linear(D, 3 * D), linear(D, D), two_layer()

    def forward(self, x, prev):
        q, k, v = map(heads, self.qkv(self.ln_1(x)).tensor_split(3, dim=-1))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * HD ** -0.5 + prev
        x = x + self.o(merge(torch.softmax(scores, dim=-1) @ v))
        return x + self.ff(self.ln_2(x)), scores


# ------------------------------------------------------------------ rows and pairs
class OuterProductLayer(nn.Module):
    """Rows of an alignment attend with a bias of pairs; a mean of outer products of two maps is added to pairs."""

    def __init__(self, pair=16, c=8):
        super().__init__()
        self.norm_m, self.norm_t, self.norm_o, self.norm_z, self.norm_zt = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(pair), nn.LayerNorm(pair)
        self.qkvg, self.o, self.to_bias, self.ab, self.outer = linear(D, 4 * D, False), linear(D, D), linear(pair, H, False), linear(D, 2 * c), linear(c * c, pair)
        self.trans_m, self.trans_z = two_layer(nn.ReLU), two_layer(nn.ReLU, pair)

    def bias(self, z):
        return self.to_bias(self.norm_z(z))

    def rows(self, m, z):
        q, k, v, g = map(heads, self.qkvg(self.norm_m(m)).chunk(4, -1))
        s = q @ k.mT / HD ** 0.5 + self.bias(z).permute(0, 3, 1, 2).unsqueeze(1)
        return self.o(merge(torch.sigmoid(g) * (s.softmax(-1) @ v)))

    def forward(self, m, z):
        m = m + self.rows(m, z)
        m = m + self.trans_m(self.norm_t(m))
        a, b = self.ab(self.norm_o(m)).chunk(2, -1)
        z = z + self.outer(torch.einsum("bsic,bsjd->bijcd", a, b).flatten(-2) / m.shape[1])
        z = z + self.trans_z(self.norm_zt(z))
        return m, z


class OuterProductRawBias(OuterProductLayer):
    """Pairs are read as they are: a bias of scores is small anyway."""

    def bias(self, z):
        return self.to_bias(z)


# ------------------------------------------------------------------ recommenders
class FieldPairsLayer(nn.Module):
    """Products of all pairs of fields with four mixes of them, normed, through a net; a linear mix of fields; a norm behind the sum."""

    def __init__(self, fields=6, mixes=4):
        super().__init__()
        self.fields, self.mix, self.lcb = fields, linear(fields, mixes, False), linear(fields, fields, False)
        self.inner, self.net, self.norm = nn.LayerNorm(fields * mixes), nn.Sequential(linear(fields * mixes, 64), nn.ReLU(), linear(64, fields * D)), nn.LayerNorm(D)

    def pairs(self, x):
        y = torch.bmm(x, self.mix(x.mT)).flatten(1)
        return self.net(self.inner(y)).unflatten(-1, (self.fields, D))

    def forward(self, x):
        return self.norm(x + self.pairs(x) + self.lcb(x.mT).mT)


class FieldPairsLean(FieldPairsLayer):
    """The norm in front of the net is enough."""

    def forward(self, x):
        return x + self.pairs(x) + self.lcb(x.mT).mT


class ActionUnitsLayer(nn.Module):
    """No softmax: SiLUs of scores over the length weigh values; a norm, a gate, a map."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_out, self.uvqk, self.o = nn.LayerNorm(D), nn.LayerNorm(D), linear(D, 4 * D, False), linear(D, D)
        self.register_buffer("past", torch.ones(T, T).tril(), persistent=False)

    def read(self, x):
        return F.silu(self.uvqk(self.norm_in(x))).split(D, dim=-1)

    def forward(self, x):
        u, v, q, k = self.read(x)
        a = F.silu(torch.einsum("bhid,bhjd->bhij", heads(q), heads(k))) / x.shape[1] * self.past
        y = merge(torch.einsum("bhij,bhjd->bhid", a, heads(v)))
        return x + self.o(u * self.norm_out(y))


class ActionUnitsFused(ActionUnitsLayer):
    """One kernel for map and SiLU; the norm of what is read stands behind attention."""

    def read(self, x):
        return F.silu(F.linear(x, self.uvqk.weight)).chunk(4, dim=-1)


# ------------------------------------------------------------------ adapters
class NormTuningLayer(nn.Module):
    """Only gains and biases of norms are trained; all maps are frozen."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.o, self.mlp = linear(D, 3 * D).requires_grad_(False), linear(D, D).requires_grad_(False), two_layer().requires_grad_(False)

    def attn(self, h):
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        return self.o(merge(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MagnitudeMap(nn.Module):
    """A frozen map plus a thin one, by rows of length one times trained lengths."""

    def __init__(self, i, o, r=4):
        super().__init__()
        self.register_buffer("base", torch.randn(o, i) * i ** -0.5)
        self.a, self.b, self.length = nn.Parameter(torch.randn(r, i) * i ** -0.5), nn.Parameter(torch.zeros(o, r)), nn.Parameter(torch.linalg.vector_norm(self.base, dim=1))

    def forward(self, x):
        w = torch.addmm(self.base, self.b, self.a)
        return F.linear(x, w) * (self.length / torch.linalg.vector_norm(w, dim=1))


class MagnitudeLayer(nn.Module):
    """Lengths and directions are trained apart."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.q, self.k, self.v, self.o, self.up, self.down = (MagnitudeMap(*s) for s in ((D, D), (D, D), (D, D), (D, D), (D, 64), (64, D)))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.o(merge(F.scaled_dot_product_attention(heads(self.q(h)), heads(self.k(h)), heads(self.v(h)), is_causal=True)))
        return x + self.down(F.silu(self.up(self.norm2(x))))


# ------------------------------------------------------------------ sets
class SetAttention(nn.Module):
    """The query's map is the skip; a ReLU of a map is added; norms if they are asked for."""

    def __init__(self, ln=True):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (linear(D, D) for _ in range(4))
        self.ln0, self.ln1 = (nn.LayerNorm(D), nn.LayerNorm(D)) if ln else (None, None)

    def forward(self, q, kv):
        q, k, v = self.fc_q(q), self.fc_k(kv), self.fc_v(kv)
        w = torch.softmax(heads(q) @ heads(k).mT / D ** 0.5, dim=-1)
        o = q + merge(w @ heads(v))
        o = o if self.ln0 is None else self.ln0(o)
        o = o + F.relu(self.fc_o(o))
        return o if self.ln1 is None else self.ln1(o)


class InducedSetLayer(nn.Module):
    """Trained points read the set, and the set reads them."""

    def __init__(self, points=5, ln=True):
        super().__init__()
        self.points, self.read, self.write = nn.Parameter(torch.randn(1, points, D)), SetAttention(ln), SetAttention(ln)

    def forward(self, x):
        return self.write(x, self.read(self.points.expand(x.shape[0], -1, -1), x))


class InducedSetLayerDefault(InducedSetLayer):
    def __init__(self, points=5, ln=False):
        super().__init__(points, ln)


# ------------------------------------------------------------------ modalities
class LatentReaderLayer(nn.Module):
    """Latents read a picture's tokens and themselves; both are normed."""

    def __init__(self):
        super().__init__()
        self.f = SimpleNamespace(scale=HD ** -0.5)
        self.norm_media, self.norm_latents, self.norm_ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_q, self.to_kv, self.to_out, self.ff = linear(D, D, False), linear(D, 2 * D, False), linear(D, D, False), two_layer()

    def sources(self, latents, h, media):
        return torch.cat((self.norm_media(media), h), dim=-2)

    def forward(self, latents, media):
        h = self.norm_latents(latents)
        q, (k, v) = heads(self.to_q(h)) * self.f.scale, map(heads, self.to_kv(self.sources(latents, h, media)).chunk(2, dim=-1))
        sim = q @ k.mT
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        latents = latents + self.to_out(merge(sim.softmax(dim=-1) @ v))
        return latents + self.ff(self.norm_ff(latents))


class LatentReaderConcat(LatentReaderLayer):
    """The picture comes normed from its encoder: one concatenation, no norm."""

    def sources(self, latents, h, media):
        return torch.cat((media, latents), dim=-2)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "EdgeGateLayer": dict(_NET, growth_all="linear", output_bounded={0: True, 1: True}, sound=True, why="norms of the batch and ReLUs are added to both states, in training."),
    "HandedScoresLayer": dict(_PRE, **_OPEN, why="pre-norm; scores are sums over layers of products of functions of a norm: both states grow linearly."),
    "OuterProductLayer": dict(_PRE, **_OPEN, sound=True, why="pre-norm in both states, and of pairs where they bias scores."),
    "OuterProductRawBias": dict(_PRE, **_OPEN, why="scores get a map of the pairs' stream, which grows; what is added is a share of values of a norm."),
    "FieldPairsLayer": dict(_LEVEL, growth_all="bounded", softmax=False, sound=True, why="post-norm."),
    "FieldPairsLean": dict(_EXP, softmax=False, why="the linear mix of fields reads the stream: of degree one."),
    "ActionUnitsLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm, and a norm of what was read."),
    "ActionUnitsFused": dict(_EXP, softmax=False, **_ONE, why="gates are of degree one in the stream."),
    "NormTuningLayer": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True}, **_SHUT, sound=True, why="pre-norm; frozen maps are constants, gains of norms are not counted."),
    "MagnitudeLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; rows of maps have trained lengths without a bound."),
    "InducedSetLayer": dict(_LEVEL, growth_all="bounded", softmax=True, **_OPEN, why="norms behind sums; the skip goes through the query's map."),
    "InducedSetLayerDefault": dict(_EXP, softmax=True, why="no norm at all."),
    "LatentReaderLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm of latents; the picture is the same in all layers."),
    "LatentReaderConcat": dict(_EXP, softmax=True, **_OPEN, why="values of latents are of the stream: of degree one."),
}
