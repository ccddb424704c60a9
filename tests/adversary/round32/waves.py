"""Pull requests on speech, series, graphs, recommenders, agents, retrieval, adapters: macarons, waves with sines, layers with held factors, states of diagonals, trends that are taken off, messages beside attention, leaky scores, crosses, queries that are normed, simplices, serial and parallel adapters, factors alone, prefixes, memories of neighbours."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3203)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _WAVE = _draw(2, T, D), _draw(2, D, 24)
_ADJ = (torch.rand(T, T, generator=_G) < 0.3).float().fill_diagonal_(1.0)
example_inputs = {
    **{k: (_X,) for k in ("MacaronLayer", "MacaronLayerHalf", "DiagonalStateLayer", "DiagonalStateLayerSkip", "TrendLayer", "QueryNormLayer", "SimplexStep",
                          "BottleneckLayer", "SideBottleneckLayer", "FactorsOnlyLayer", "PrefixLayer")},
    **{k: (_WAVE,) for k in ("SnakeUnit", "HeldFactorUnit")},
    **{k: (_X, _ADJ) for k in ("MessageAttnLayer", "MessageAttnLayerOpen", "AdditiveAttnLayerValues")},
    "CrossLayer": (_draw(8, D), _draw(8, D)),
    **{k: (_X, _draw(2, 20, D)) for k in ("NeighbourMemoryLayer", "NeighbourMemoryLayerMix")},
}


def dense(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def conv1d(i, o, k=1, **kw):
    m = nn.Conv1d(i, o, k, **kw)
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    nn.init.zeros_(m.bias)
    return m


@dataclass
class Config:
    dim: int = D
    heads: int = H
    hidden: int = 64
    causal: bool = False


class SelfAttn(nn.Module):
    def __init__(self, cfg: Config = Config()):
        super().__init__()
        self.cfg, self.in_proj, self.out_proj = cfg, dense(cfg.dim, 3 * cfg.dim), dense(cfg.dim, cfg.dim)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.cfg.heads, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.cfg.causal)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Sequential):
    def __init__(self, cfg: Config = Config(), act=nn.GELU):
        super().__init__(dense(cfg.dim, cfg.hidden), act(), dense(cfg.hidden, cfg.dim))


# ------------------------------------------------------------------ macarons
class ConvModule(nn.Module):
    def __init__(self, k=5):
        super().__init__()
        self.pw1, self.dw, self.bn, self.pw2 = conv1d(D, 2 * D), conv1d(D, D, k, padding=k // 2, groups=D), nn.BatchNorm1d(D), conv1d(D, D)

    def forward(self, x):
        x = F.glu(self.pw1(x.transpose(1, 2)), dim=1)
        return self.pw2(F.silu(self.bn(self.dw(x)))).transpose(1, 2)


class MacaronLayer(nn.Module):
    """Half a net, attention, filters, half a net, and a norm at the end."""

    def __init__(self):
        super().__init__()
        self.norm_ff1, self.norm_mha, self.norm_conv, self.norm_ff2, self.norm_final = (nn.LayerNorm(D) for _ in range(5))
        self.ff1, self.ff2, self.mha, self.conv = Mlp(act=nn.SiLU), Mlp(act=nn.SiLU), SelfAttn(), ConvModule()

    def forward(self, x):
        x = x + 0.5 * self.ff1(self.norm_ff1(x))
        x = x + self.mha(self.norm_mha(x))
        x = x + self.conv(self.norm_conv(x))
        x = x + 0.5 * self.ff2(self.norm_ff2(x))
        return self.norm_final(x)


class MacaronLayerHalf(MacaronLayer):
    """No norm at the end, for the stack has one; a helper for what is half."""

    def half(self, x, norm, ff):
        return 0.5 * (x + ff(norm(x)))

    def forward(self, x):
        x = self.half(x, self.norm_ff1, self.ff1)
        x = x + self.mha(self.norm_mha(x))
        x = x + self.conv(self.norm_conv(x))
        return self.half(x, self.norm_ff2, self.ff2)


# ------------------------------------------------------------------ waves with sines
class Snake(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, c, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


class SnakeUnit(nn.Module):
    """Two stacks of filters of several widths; their mean is the unit's."""

    def __init__(self, kernels=(3, 5)):
        super().__init__()
        self.resblocks = nn.ModuleList(nn.ModuleList(nn.Sequential(Snake(D), conv1d(D, D, k, padding=d * (k - 1) // 2, dilation=d), Snake(D), conv1d(D, D, k, padding=k // 2)) for d in (1, 3)) for k in kernels)

    def forward(self, x):
        xs = None
        for block in self.resblocks:
            y = x
            for unit in block:
                y = unit(y) + y
            xs = y if xs is None else xs + y
        return xs / len(self.resblocks)


# ------------------------------------------------------------------ layers with held factors
class HeldFactorUnit(nn.Module):
    """A thin filter, a norm, a wide filter, a norm, a gated half, and a factor a channel."""

    def __init__(self, hidden=8, init=0.1, dilation=2):
        super().__init__()
        self.layers = nn.Sequential(conv1d(D, hidden, 3, dilation=dilation, padding=dilation), nn.GroupNorm(1, hidden), nn.GELU(), conv1d(hidden, 2 * D), nn.GroupNorm(1, 2 * D), nn.GLU(1))
        self.scale = nn.Parameter(torch.full((D, 1), init))

    def forward(self, x):
        return x + self.scale * self.layers(x)


# ------------------------------------------------------------------ states of diagonals
class DiagonalStateLayer(nn.Module):
    """A norm, filters that are sums of decaying waves with the input itself beside them, a GELU, a map and a gate."""

    def __init__(self, n=8):
        super().__init__()
        self.norm, self.output_linear = nn.LayerNorm(D), conv1d(D, 2 * D)
        self.C, self.log_dt, self.log_A_real, self.A_imag, self.D = nn.Parameter(torch.randn(D, n, 2) * 0.5 ** 0.5), nn.Parameter(torch.linspace(-4, -1, D)), nn.Parameter(torch.full((D, n), 0.5).log()), nn.Parameter(math.pi * torch.arange(n).repeat(D, 1)), nn.Parameter(torch.ones(D))

    def kernel(self, L):
        dt = self.log_dt.exp()
        A = torch.complex(-self.log_A_real.exp(), self.A_imag)
        dtA = A * dt[:, None]
        C = torch.view_as_complex(self.C) * (dtA.exp() - 1) / A
        K = dtA[..., None] * torch.arange(L, device=dt.device)
        return 2 * torch.einsum("hn,hnl->hl", C, K.exp()).real

    def through(self, z, x):
        return self.D[:, None] * z

    def ssm(self, z, x):
        L = z.shape[-1]
        k = self.kernel(L)
        y = torch.fft.irfft(torch.fft.rfft(z, n=2 * L) * torch.fft.rfft(k, n=2 * L), n=2 * L)[..., :L]
        y = F.gelu(y + self.through(z, x))
        return F.glu(self.output_linear(y), dim=1)

    def forward(self, x):
        z = self.norm(x).mT
        return self.ssm(z, x.mT).mT + x


class DiagonalStateLayerSkip(DiagonalStateLayer):
    """The matrix D of a state space is its skip, and a skip takes what came in."""

    def through(self, z, x):
        return self.D[:, None] * x


# ------------------------------------------------------------------ trends
class TrendLayer(nn.Module):
    """Attention to lags that correlate best, then a net; behind each sum the moving mean is taken off."""

    def __init__(self, kernel=5, top=3):
        super().__init__()
        self.kernel, self.top, self.q, self.k, self.v, self.o = kernel, top, dense(D, D), dense(D, D), dense(D, D), dense(D, D)
        self.ff = nn.Sequential(dense(D, 64, False), nn.GELU(), dense(64, D, False))

    def seasonal(self, x):
        pad = (self.kernel - 1) // 2
        wide = torch.cat((x[:, :1].expand(-1, pad, -1), x, x[:, -1:].expand(-1, pad, -1)), dim=1)
        return x - F.avg_pool1d(wide.transpose(1, 2), self.kernel, stride=1).transpose(1, 2)

    def correlate(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        corr = torch.fft.irfft(torch.fft.rfft(q, dim=1) * torch.fft.rfft(k, dim=1).conj(), n=x.shape[1], dim=1).mean(dim=-1)
        weight, lag = corr.topk(self.top, dim=-1)
        share = weight.softmax(dim=-1)
        at = (torch.arange(x.shape[1], device=x.device)[None, :, None] + lag[:, None]) % x.shape[1]
        rolled = torch.stack([v[b, at[b]] for b in range(len(v))])
        return self.o(torch.einsum("btld,bl->btd", rolled, share))

    def forward(self, x):
        x = self.seasonal(x + self.correlate(x))
        return self.seasonal(x + self.ff(x))


# ------------------------------------------------------------------ messages beside attention
class MessageAttnLayer(nn.Module):
    """Messages of neighbours and attention to all, each with a sum and a norm of its own; both are summed, then a net, a sum and a norm."""

    def __init__(self):
        super().__init__()
        self.gin, self.attn, self.ff = Mlp(act=nn.ReLU), SelfAttn(), Mlp(act=nn.ReLU)
        self.norm1_local, self.norm1_attn, self.norm2, self.gain_eps = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.Parameter(torch.zeros(1))

    def last(self, h):
        return self.norm2(h + self.ff(h))

    def forward(self, x, adj):
        h_local = self.gin((1 + self.gain_eps) * x + torch.einsum("ij,bjd->bid", adj, x))
        h_local = self.norm1_local(x + h_local)
        h_attn = self.norm1_attn(x + self.attn(x))
        return self.last(h_local + h_attn)


class MessageAttnLayerOpen(MessageAttnLayer):
    """No norm in front of the next layer, whose sums have norms."""

    def last(self, h):
        return h + self.ff(h)


# ------------------------------------------------------------------ leaky scores
class AdditiveAttnLayer(nn.Module):
    """A leaky sum of a number of the reader and one of the read, as graphs attend."""

    def __init__(self):
        super().__init__()
        self.norm, self.W, self.a_src, self.a_dst = nn.LayerNorm(D), dense(D, D, False), nn.Parameter(torch.randn(H, HD) * HD ** -0.5), nn.Parameter(torch.randn(H, HD) * HD ** -0.5)

    def values(self, x, wh):
        return wh

    def forward(self, x, adj):
        wh = self.W(self.norm(x)).unflatten(-1, (H, HD))
        e = F.leaky_relu((wh * self.a_dst).sum(-1)[:, :, None] + (wh * self.a_src).sum(-1)[:, None], 0.2)
        e = e.masked_fill(adj[None, :, :, None] == 0, float("-inf"))
        alpha = torch.softmax(e, dim=2)
        out = torch.einsum("bijh,bjhd->bihd", alpha, self.values(x, wh)).flatten(2)
        return x + F.elu(out)


class AdditiveAttnLayerValues(AdditiveAttnLayer):
    """Scores need a norm; what is read is the neighbours' map as it is."""

    def values(self, x, wh):
        return self.W(x).unflatten(-1, (H, HD))


# ------------------------------------------------------------------ crosses
class CrossLayer(nn.Module):
    """The first features times a thin map of the state."""

    def __init__(self, rank=8):
        super().__init__()
        self.U, self.V = dense(D, rank, False), dense(rank, D)

    def forward(self, x, x0):
        return x0 * self.V(self.U(x)) + x


# ------------------------------------------------------------------ queries that are normed
class QueryNormLayer(nn.Module):
    """Sequences of purchases: queries are normed, keys and values not, and the sum is with queries; the net's sum is with a norm too."""

    def __init__(self):
        super().__init__()
        self.attention_layernorm, self.forward_layernorm, self.conv1, self.conv2 = nn.LayerNorm(D, eps=1e-8), nn.LayerNorm(D, eps=1e-8), conv1d(D, D), conv1d(D, D)
        self.q, self.kv, self.o = dense(D, D), dense(D, 2 * D), dense(D, D)

    def forward(self, seqs):
        Q = self.attention_layernorm(seqs)
        k, v = self.kv(seqs).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (self.q(Q), k, v))
        mha = self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        seqs = Q + mha
        seqs = self.forward_layernorm(seqs)
        out = self.conv2(F.relu(self.conv1(seqs.transpose(-1, -2)))).transpose(-1, -2)
        return out + seqs


# ------------------------------------------------------------------ simplices
class SimplexStep(nn.Module):
    """Step of a world model: map, norm, Mish, map, norm, and groups of eight that sum to one."""

    def __init__(self, group=8):
        super().__init__()
        self.group, self.l1, self.l2, self.n1, self.n2 = group, dense(D, 64), dense(64, D), nn.LayerNorm(64), nn.LayerNorm(D)

    def forward(self, z):
        z = F.mish(self.n1(self.l1(z)))
        z = self.n2(self.l2(z))
        return z.unflatten(-1, (-1, self.group)).softmax(dim=-1).flatten(-2)


# ------------------------------------------------------------------ adapters
class Frozen(nn.Module):
    """A layer that is not trained."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttn(), Mlp()
        for p in self.parameters():
            p.requires_grad_(False)


class Bottleneck(nn.Module):
    def __init__(self, r=4, skip=True):
        super().__init__()
        self.skip, self.down, self.up = skip, dense(D, r), dense(r, D)

    def forward(self, x):
        y = self.up(F.gelu(self.down(x)))
        return x + y if self.skip else y


class BottleneckLayer(Frozen):
    """A thin net with a skip of its own behind each frozen branch, in front of the sum."""

    def __init__(self):
        super().__init__()
        self.adapter1, self.adapter2 = Bottleneck(), Bottleneck()

    def forward(self, x):
        x = x + self.adapter1(self.attn(self.norm1(x)))
        return x + self.adapter2(self.mlp(self.norm2(x)))


class SideBottleneckLayer(Frozen):
    """A thin net beside the frozen one; what it reads is what the layer reads, and a factor makes it small."""

    def __init__(self, s=0.5):
        super().__init__()
        self.s, self.adapter = s, Bottleneck(skip=False)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        residual = x
        adapt = self.adapter(x) * self.s
        return residual + self.mlp(self.norm2(x)) + adapt


class FactorsOnlyLayer(Frozen):
    """All maps are frozen; factors for keys, values and the net's inner channels are trained."""

    def __init__(self):
        super().__init__()
        self.gain_k, self.gain_v, self.gain_ff = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(64))

    def forward(self, x):
        q, k, v = self.attn.in_proj(self.norm1(x)).split(D, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k * self.gain_k, v * self.gain_v))
        x = x + self.attn.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        up, act, down = self.mlp
        return x + down(act(up(self.norm2(x))) * self.gain_ff)


class PrefixLayer(Frozen):
    """All maps are frozen; a few keys and values in front of the sequence are trained."""

    def __init__(self, n=3):
        super().__init__()
        self.prefix = nn.Parameter(torch.randn(2, H, n, HD))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.attn.in_proj(self.norm1(x)).split(D, dim=-1))
        k, v = (torch.cat((p.expand(len(x), -1, -1, -1), t), dim=2) for p, t in zip(self.prefix, (k, v)))
        x = x + self.attn.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ memories of neighbours
class NeighbourMemoryLayer(nn.Module):
    """Keys and values of length one from a store; a gate a head takes a share of what they and the text give."""

    def __init__(self, k=4):
        super().__init__()
        self.k, self.norm, self.ff_norm, self.qkv, self.o, self.ff = k, nn.LayerNorm(D), nn.LayerNorm(D), dense(D, 3 * D), dense(D, D), Mlp()
        self.gate_bias, self.gain_temperature = nn.Parameter(torch.zeros(H, 1, 1)), nn.Parameter(torch.full((H, 1, 1), 5.0))

    def mixed(self, x, g, far, local):
        return x + self.o((g * far + (1 - g) * local).transpose(1, 2).flatten(2))

    def forward(self, x, store):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        q, k = F.normalize(q, dim=-1) * self.gain_temperature, F.normalize(k, dim=-1)
        local = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        mem = F.normalize(store.unflatten(-1, (H, HD)).transpose(1, 2), dim=-1)
        sim, at = torch.einsum("bhid,bhjd->bhij", q, mem).topk(self.k, dim=-1)
        found = mem.gather(2, at.flatten(2)[..., None].expand(-1, -1, -1, HD)).unflatten(2, at.shape[2:])
        far = torch.einsum("bhik,bhikd->bhid", sim.softmax(dim=-1), found)
        x = self.mixed(x, self.gate_bias.sigmoid(), far, local)
        return x + self.ff(self.ff_norm(x))


class NeighbourMemoryLayerMix(NeighbourMemoryLayer):
    """The gate takes a share of the hidden state too, which is what the text has given so far."""

    def mixed(self, x, g, far, local):
        g = g.mean()
        return (1 - g) * x + g * self.o((far + local).transpose(1, 2).flatten(2))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential")
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "MacaronLayer": dict(_LEVEL, softmax=True, output_bounded={i: False for i in range(4)}, logits_bounded={1: False}, sound=True, why="a norm behind the last sum."),
    "MacaronLayerHalf": dict(_LEVEL, identity_gain=0.25 ** 24, softmax=True, output_bounded={i: False for i in range(4)}, logits_bounded={1: False}, sound=False, why="half of the sum, twice a layer: a quarter of the stream is left."),
    "SnakeUnit": dict(_EXP, identity_gain=1.0, softmax=False, why="no norm; sines beside the state are of degree one. The mean of two stacks has the stream once."),
    "HeldFactorUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm, a gated half and a factor that is held."),
    "DiagonalStateLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; filters of a norm, a map, a gate."),
    "DiagonalStateLayerSkip": dict(_EXP, softmax=False, **_ONE, sound=False, why="the raw stream goes through a GELU, a map and a gate: of degree one."),
    "TrendLayer": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="no norm: values and nets are of the raw stream."),
    "MessageAttnLayer": dict(_LEVEL, softmax=True, sound=True, why="a norm behind the last sum."),
    "MessageAttnLayerOpen": dict(_LEVEL, softmax=True, why="two norms are summed in each layer, and a net of them is added: each layer starts anew from norms."),
    "AdditiveAttnLayerValues": dict(_EXP, softmax=True, **_ONE, **_OPEN, sound=False, why="values are maps of the raw stream: of degree one."),
    "CrossLayer": dict(_EXP, identity_gain=1.0, softmax=False, **_ONE, why="a map of the raw stream times a constant is added."),
    "QueryNormLayer": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, why="a norm, and a net of it, is what a layer gives."),
    "SimplexStep": dict(_LEVEL, growth_all="bounded", softmax=True, why="shares sum to one; there is no skip."),
    "BottleneckLayer": dict(_PRE, **_TWO, sound=True, gradient_law="power", why="pre-norm; inner skips are around thin nets, in branches."),
    "SideBottleneckLayer": dict(_EXP, softmax=True, output_bounded={0: True}, **_SHUT, sound=False, why="the thin net reads the raw stream."),
    "FactorsOnlyLayer": dict(_PRE, **_BOTH, **_SHUT, sound=True, why="pre-norm; maps are constants, and factors are held."),
    "PrefixLayer": dict(_PRE, output_bounded={0: False, 1: True}, **_OPEN, sound=True, why="pre-norm; keys and values in front are tables, which may have any size; the net is a constant function of a norm."),
    "NeighbourMemoryLayer": dict(_PRE, **_TWO, **_SHUT, sound=True, why="pre-norm; cosines with a temperature that is held, in both places."),
    "NeighbourMemoryLayerMix": dict(_LEVEL, softmax=True, **_TWO, **_SHUT, sound=False, why="half of the stream is left."),
}
