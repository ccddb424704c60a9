"""Pull requests on pictures, videos and diffusion: light attention, focal gates, class tokens, two scales, sampled points, groups with a filter, conditions that gate, edges made of bumps."""

from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

C, S, H, N = 32, 8, 4, 16
HD = C // H

_G = torch.Generator().manual_seed(127)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _COND = _draw(2, C, S, S), _draw(2, N, C), _draw(2, C)
example_inputs = {
    **{k: (_MAP,) for k in ("SeparableAttentionBlock", "FocalBlock", "GroupWithTail", "GroupWithTailDelta", "StarBlock", "GhostUnit", "SampledPointsBlock", "ScaledFilterUnit", "LayerScaleFused")},
    **{k: (_SEQ,) for k in ("SpatialGateLayer", "SpatialGateBare", "ClassTokenLayer", "RadialEdges", "RadialEdgesWithBase")},
    "CrossScaleLayer": (_draw(2, 17, C), _draw(2, 5, C)),
    "TwoResolutions": (_draw(2, C, 8, 8), _draw(2, C, 4, 4)),
    **{k: (_SEQ, _COND) for k in ("SandwichGateBlock", "SandwichGateCompact")},
    "GroundedLayer": (_SEQ, _draw(2, 3, C)),
    "DataConsistencyStep": (_MAP, _draw(2, C, S, S)),
    "ObjectQueryLayer": (_draw(2, 6, C), _draw(2, 12, C), _draw(6, C)),
}


def conv(i, o, k=1, **kw):
    m = nn.Conv2d(i, o, k, padding=kw.pop("padding", k // 2), **kw)
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if m.bias is not None:
        nn.init.zeros_(m.bias)
    return m


def fc(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.trunc_normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def mlp(d=C, ratio=2, act=nn.GELU):
    return nn.Sequential(fc(d, ratio * d), act(), fc(ratio * d, d))


def heads(t: Tensor) -> Tensor:
    return t.unflatten(-1, (H, -1)).transpose(1, 2)


class Attend(nn.Module):
    def __init__(self, dim=C):
        super().__init__()
        self.q, self.kv, self.proj = fc(dim, dim), fc(dim, 2 * dim), fc(dim, dim)

    def forward(self, x, context=None):
        q, (k, v) = self.q(x), self.kv(x if context is None else context).chunk(2, dim=-1)
        return self.proj(F.scaled_dot_product_attention(heads(q), heads(k), heads(v)).transpose(1, 2).flatten(2))


# ------------------------------------------------------------------ light attention, gates
class SeparableAttentionBlock(nn.Module):
    """One score a place; a mean of keys by these shares gates all values."""

    def __init__(self):
        super().__init__()
        self.pre_norm_attn, self.pre_norm_ffn = nn.GroupNorm(1, C), nn.GroupNorm(1, C)
        self.qkv_proj, self.out_proj = conv(C, 1 + 2 * C), conv(C, C)
        self.ffn = nn.Sequential(conv(C, 2 * C), nn.SiLU(), conv(2 * C, C))

    def attend(self, x):
        q, k, v = torch.split(self.qkv_proj(x).flatten(2), [1, C, C], dim=1)
        scores = F.softmax(q, dim=-1)
        context = (k * scores).sum(dim=-1, keepdim=True)
        return self.out_proj((F.relu(v) * context).unflatten(2, x.shape[2:]))

    def forward(self, x):
        x = x + self.attend(self.pre_norm_attn(x))
        x = x + self.ffn(self.pre_norm_ffn(x))
        return x


class FocalBlock(nn.Module):
    """Filters of growing size, gated a level and summed, modulate queries."""

    levels = 3

    def __init__(self):
        super().__init__()
        self.f, self.h, self.proj = conv(C, 2 * C + self.levels + 1), conv(C, C), conv(C, C)
        nn.init.trunc_normal_(self.f.weight, std=0.05)
        self.layers = nn.ModuleList(nn.Sequential(conv(C, C, 3 + 2 * i, groups=C, bias=False), nn.GELU()) for i in range(self.levels))
        self.norm1, self.norm2, self.mlp = nn.GroupNorm(1, C), nn.GroupNorm(1, C), nn.Sequential(conv(C, 2 * C), nn.GELU(), conv(2 * C, C))

    def modulation(self, x):
        q, ctx, gates = self.f(x).split((C, C, self.levels + 1), dim=1)
        total = 0
        for i, layer in enumerate(self.layers):
            ctx = layer(ctx)
            total = total + ctx * gates[:, i: i + 1]
        total = total + F.gelu(ctx.mean((2, 3), keepdim=True)) * gates[:, self.levels:]
        return self.proj(q * self.h(total / (self.levels + 1)))

    def forward(self, x):
        x = x + self.modulation(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SpatialGateLayer(nn.Module):
    """Half of the channels, normed and mapped along places, gate the other half."""

    def __init__(self, hidden=64):
        super().__init__()
        self.norm, self.proj_in, self.proj_out = nn.LayerNorm(C), fc(C, hidden), fc(hidden // 2, C)
        self.gate_norm, self.weight, self.bias = nn.LayerNorm(hidden // 2), nn.Parameter(torch.randn(N, N) * 0.1), nn.Parameter(torch.ones(N, 1))

    def spatial(self, h):
        u, v = h.chunk(2, dim=-1)
        return u * (torch.einsum("nm,bmd->bnd", self.weight, self.gate_norm(v)) + self.bias)

    def forward(self, x):
        shortcut = x
        x = F.gelu(self.proj_in(self.norm(x)))
        return self.proj_out(self.spatial(x)) + shortcut


class SpatialGateBare(SpatialGateLayer):
    """One norm a layer: the one in the gate."""

    def __init__(self, hidden=64):
        super().__init__(hidden)
        self.norm = None

    def forward(self, x):
        h = self.proj_in(x)
        return x + self.proj_out(self.spatial(F.gelu(h)))


class ClassTokenLayer(nn.Module):
    """Only the class token is updated; it reads all of them."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(C, eps=1e-6), nn.LayerNorm(C, eps=1e-6), Attend(), mlp()
        self.gamma_1, self.gamma_2 = nn.Parameter(torch.full((C,), 0.5)), nn.Parameter(torch.full((C,), 0.5))

    def forward(self, u):
        cls, rest = u[:, :1], u[:, 1:]
        h = self.norm1(u)
        cls = cls + self.gamma_1 * self.attn(h[:, :1], h)
        cls = cls + self.gamma_2 * self.mlp(self.norm2(cls))
        return torch.cat((cls, rest), dim=1)


# ------------------------------------------------------------------ two scales
class CrossScaleLayer(nn.Module):
    """Two sequences with a class token each, which read the other one's patches."""

    def __init__(self):
        super().__init__()
        self.own = nn.ModuleList(nn.ModuleDict(dict(n1=nn.LayerNorm(C), attn=Attend(), n2=nn.LayerNorm(C), net=mlp())) for _ in range(2))
        self.cross = nn.ModuleList(nn.ModuleDict(dict(q=nn.LayerNorm(C), kv=nn.LayerNorm(C), attn=Attend())) for _ in range(2))

    def forward(self, a, b):
        out = []
        for x, m in zip((a, b), self.own):
            h = m["n1"](x)
            x = x + m["attn"](h)
            x = x + m["net"](m["n2"](x))
            out.append(x)
        new = []
        for i, m in enumerate(self.cross):
            mine, other = out[i], out[1 - i]
            cls = mine[:, :1]
            cls = cls + m["attn"](m["q"](cls), m["kv"](other[:, 1:]))
            new.append(torch.cat((cls, mine[:, 1:]), dim=1))
        return tuple(new)


class TwoResolutions(nn.Module):
    """Each resolution gets the other one, normed and brought to its size; a ReLU is behind the sums."""

    def __init__(self):
        super().__init__()
        self.own = nn.ModuleList(nn.Sequential(conv(C, C, 3, bias=False), nn.BatchNorm2d(C), nn.ReLU(), conv(C, C, 3, bias=False), nn.BatchNorm2d(C)) for _ in range(2))
        self.down = nn.Sequential(conv(C, C, 3, stride=2, bias=False), nn.BatchNorm2d(C))
        self.up = nn.Sequential(conv(C, C, bias=False), nn.BatchNorm2d(C), nn.Upsample(scale_factor=2, mode="nearest"))

    def forward(self, high, low):
        h = high + self.own[0](high) + self.up(low)
        l = low + self.own[1](low) + self.down(high)
        return F.relu(h), F.relu(l)


# ------------------------------------------------------------------ points that are sampled
class SampledPointsBlock(nn.Module):
    """Each place says where it looks: four offsets and shares of them."""

    def __init__(self, points=4):
        super().__init__()
        self.p, self.norm, self.norm2 = points, nn.GroupNorm(4, C), nn.GroupNorm(4, C)
        self.offsets, self.shares, self.value, self.out, self.ffn = conv(C, 2 * points), conv(C, points), conv(C, C), conv(C, C), nn.Sequential(conv(C, 2 * C), nn.ReLU(), conv(2 * C, C))
        y, x = torch.meshgrid(torch.linspace(-1, 1, S), torch.linspace(-1, 1, S), indexing="ij")
        self.register_buffer("reference", torch.stack((x, y), dim=-1))

    def sample(self, h):
        b = h.shape[0]
        off = self.offsets(h).view(b, self.p, 2, S, S).permute(0, 1, 3, 4, 2)
        where = (self.reference + off.tanh() * 2 / S).flatten(0, 1)
        value = self.value(h).repeat_interleave(self.p, dim=0)
        got = F.grid_sample(value, where, mode="bilinear", padding_mode="zeros", align_corners=True).view(b, self.p, C, S, S)
        share = self.shares(h).softmax(dim=1)
        return self.out(torch.einsum("bpchw,bphw->bchw", got, share))

    def forward(self, x):
        x = x + self.sample(self.norm(x))
        return x + self.ffn(self.norm2(x))


class ObjectQueryLayer(nn.Module):
    """Queries have places that are added where scores are made; norms are behind sums."""

    def __init__(self):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(C, H, dropout=0.0, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(C, H, dropout=0.0, batch_first=True)
        self.linear1, self.linear2 = fc(C, 64), fc(64, C)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(C), nn.LayerNorm(C), nn.LayerNorm(C)

    @staticmethod
    def with_pos(t, pos):
        return t if pos is None else t + pos

    def forward(self, tgt, memory, query_pos=None):
        q = k = self.with_pos(tgt, query_pos)
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt, need_weights=False)[0])
        tgt = self.norm2(tgt + self.cross_attn(self.with_pos(tgt, query_pos), memory, memory, need_weights=False)[0])
        return self.norm3(tgt + self.linear2(F.relu(self.linear1(tgt))))


# ------------------------------------------------------------------ filters
class PlainUnit(nn.Module):
    """Pre-norm, of filters."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv1, self.conv2 = nn.GroupNorm(4, C), conv(C, C, 3), conv(C, C, 3)

    def forward(self, x):
        return x + self.conv2(F.leaky_relu(self.conv1(self.norm(x)), 0.2))


class GroupWithTail(nn.Module):
    """Two units, a filter behind them, and a skip around the group, for restoration."""

    def __init__(self):
        super().__init__()
        self.units, self.tail = nn.Sequential(PlainUnit(), PlainUnit()), conv(C, C, 3)

    def forward(self, x):
        return self.tail(self.units(x)) + x


class GroupWithTailDelta(GroupWithTail):
    """The filter reads what units have added."""

    def forward(self, x):
        y = x
        for unit in self.units:
            y = unit(y)
        return x + self.tail(y - x)


class StarBlock(nn.Module):
    """A product of two maps behind a normed filter."""

    def __init__(self, ratio=2):
        super().__init__()
        w = C * ratio
        self.dwconv = nn.Sequential(conv(C, C, 7, groups=C, bias=False), nn.BatchNorm2d(C))
        self.f1, self.f2 = conv(C, w), conv(C, w)
        self.g = nn.Sequential(conv(w, C, bias=False), nn.BatchNorm2d(C))
        self.dwconv2, self.act = conv(C, C, 7, groups=C), nn.ReLU6()

    def forward(self, x):
        input = x
        x = self.dwconv(x)
        x1, x2 = self.f1(x), self.f2(x)
        x = self.act(x1) * x2
        x = self.dwconv2(self.g(x))
        return input + x


class Ghost(nn.Module):
    """Half of the channels by a map, the other half by a cheap filter of them."""

    def __init__(self, i, o, act=True):
        super().__init__()
        half, last = o // 2, nn.ReLU if act else nn.Identity
        self.primary = nn.Sequential(conv(i, half, bias=False), nn.BatchNorm2d(half), last())
        self.cheap = nn.Sequential(conv(half, half, 3, groups=half, bias=False), nn.BatchNorm2d(half), last())

    def forward(self, x):
        y = self.primary(x)
        return torch.cat([y, self.cheap(y)], dim=1)


class GhostUnit(nn.Module):
    """A bottleneck of two ghost modules with squeezed gates between them."""

    def __init__(self):
        super().__init__()
        self.ghost1, self.ghost2 = Ghost(C, 2 * C), Ghost(2 * C, C, act=False)
        self.reduce, self.expand = conv(2 * C, 16), conv(16, 2 * C)

    def forward(self, x):
        y = self.ghost1(x)
        y = y * F.hardsigmoid(self.expand(F.relu(self.reduce(y.mean((2, 3), keepdim=True)))))
        return self.ghost2(y) + x


def standardised(weight, gain, eps=1e-6):
    """Filters of mean zero and length one, times a gain."""
    w = weight - weight.mean(dim=(1, 2, 3), keepdim=True)
    return gain * w / (w.square().sum(dim=(1, 2, 3), keepdim=True) + eps).sqrt()


class ScaledFilterUnit(nn.Module):
    """No norm of values: standardised filters, and a scale of what is added."""

    def __init__(self, alpha=0.5):
        super().__init__()
        self.alpha = alpha
        self.w1, self.w2 = nn.Parameter(torch.randn(C, C, 3, 3)), nn.Parameter(torch.randn(C, C, 3, 3))
        self.g1, self.g2 = nn.Parameter(torch.full((C, 1, 1, 1), 1.7)), nn.Parameter(torch.full((C, 1, 1, 1), 1.7))

    def forward(self, x):
        y = F.conv2d(F.relu(x), standardised(self.w1, self.g1), padding=1)
        y = F.conv2d(F.relu(y), standardised(self.w2, self.g2), padding=1)
        return x + self.alpha * y


class LayerScaleFused(nn.Module):
    """A block with a layer scale, for a kernel that scales and adds in one go."""

    def __init__(self, init=0.8):
        super().__init__()
        self.dwconv, self.norm, self.pw1, self.pw2 = conv(C, C, 7, groups=C), nn.LayerNorm(C, eps=1e-6), fc(C, 2 * C), fc(2 * C, C)
        self.gamma = nn.Parameter(torch.full((C,), init))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pw2(F.gelu(self.pw1(self.norm(y))))
        y = (x.permute(0, 2, 3, 1) + y) * self.gamma
        return y.permute(0, 3, 1, 2)


# ------------------------------------------------------------------ conditions
class SandwichGateBlock(nn.Module):
    """Norms in front of and behind branches; a tanh of a condition gates what is added."""

    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward, self.ada = Attend(), mlp(act=nn.SiLU), nn.Sequential(nn.SiLU(), fc(C, 4 * C))
        make = partial(nn.RMSNorm, C, eps=1e-5, elementwise_affine=False)
        self.attention_norm1, self.attention_norm2, self.ffn_norm1, self.ffn_norm2 = make(), make(), make(), make()

    def forward(self, x, c):
        scale_a, gate_a, scale_m, gate_m = self.ada(c).unsqueeze(1).chunk(4, dim=-1)
        x = x + gate_a.tanh() * self.attention_norm2(self.attention(self.attention_norm1(x) * (1 + scale_a)))
        x = x + gate_m.tanh() * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale_m)))
        return x


class SandwichGateCompact(SandwichGateBlock):
    """Both halves by one helper, which sums first."""

    @staticmethod
    def apply(x, fn, before, after, scale, gate):
        y = x + after(fn(before(x) * (1 + scale)))
        return torch.tanh(gate) * y

    def forward(self, x, c):
        scale_a, gate_a, scale_m, gate_m = self.ada(c)[:, None].tensor_split(4, dim=-1)
        x = self.apply(x, self.attention, self.attention_norm1, self.attention_norm2, scale_a, gate_a)
        return self.apply(x, self.feed_forward, self.ffn_norm1, self.ffn_norm2, scale_m, gate_m)


class GroundedLayer(nn.Module):
    """Boxes stand behind tokens in a second attention, whose share a trained tanh says."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(C) for _ in range(4))
        self.attn, self.box_attn, self.box, self.ff, self.box_ff = Attend(), Attend(), fc(C, C), mlp(), mlp()
        self.alpha_attn, self.alpha_dense = nn.Parameter(torch.tensor(0.4)), nn.Parameter(torch.tensor(0.4))

    def forward(self, x, boxes):
        n = x.shape[1]
        x = x + self.attn(self.norms[0](x))
        both = torch.cat([x, self.box(boxes)], dim=1)
        x = x + torch.tanh(self.alpha_attn) * self.box_attn(self.norms[1](both))[:, :n]
        x = x + torch.tanh(self.alpha_dense) * self.box_ff(self.norms[2](x))
        return x + self.ff(self.norms[3](x))


class DataConsistencyStep(nn.Module):
    """Rows that were measured are drawn to what was measured; a net adds what it thinks is missing."""

    def __init__(self, eta=0.5):
        super().__init__()
        self.eta = nn.Parameter(torch.tensor(eta))
        self.norm, self.c1, self.c2 = nn.GroupNorm(4, C), conv(C, C, 3), conv(C, C, 3)
        mask = torch.zeros(S, 1)
        mask[::2] = 1.0
        self.register_buffer("mask", mask)

    def forward(self, image, measured):
        consistency = self.mask * (image - measured)
        refined = self.c2(F.relu(self.c1(self.norm(image))))
        return image - self.eta * consistency + refined


# ------------------------------------------------------------------ edges made of bumps
class RadialEdges(nn.Module):
    """Eight bumps for each channel of a norm, and a map of all of them."""

    def __init__(self, grid=8, low=-2.0, high=2.0):
        super().__init__()
        self.norm, self.spline = nn.LayerNorm(C), fc(C * grid, C, bias=False)
        self.register_buffer("grid", torch.linspace(low, high, grid))
        self.width = (high - low) / (grid - 1)

    def bumps(self, h):
        return torch.exp(-((h[..., None] - self.grid) / self.width) ** 2).flatten(-2)

    def forward(self, x):
        return x + self.spline(self.bumps(self.norm(x)))


class RadialEdgesWithBase(RadialEdges):
    """A base function beside bumps keeps gradients alive."""

    def __init__(self):
        super().__init__()
        self.base = fc(C, C)

    def forward(self, x):
        base = self.base(F.silu(x))
        return x + (self.spline(self.bumps(self.norm(x))) + base)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_BOTH, _OPEN = dict(output_bounded={0: True, 1: True}, growth_all="linear"), dict(logits_bounded={0: False})
TRUTH = {
    "SeparableAttentionBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm; values times a mean of keys."),
    "FocalBlock": dict(_NET, **_TWO, sound=True, why="pre-norm; products of functions of a norm."),
    "SpatialGateLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm, and a norm in the gate."),
    "SpatialGateBare": dict(_EXP, softmax=False, **_ONE, why="half of what comes in is gated by a function of a norm: of degree one."),
    "ClassTokenLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm on the class token; all other tokens are carried as they are."),
    "CrossScaleLayer": dict(_PRE, **_OPEN, sound=True, why="pre-norm on both scales."),
    "TwoResolutions": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=False, why="norms of the batch are added, in training; the ReLU behind sums carries what is positive."),
    "SampledPointsBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; means of values at places."),
    "ObjectQueryLayer": dict(_LEVEL, softmax=True, sound=True, why="post-norm."),
    "GroupWithTail": dict(_EXP, softmax=False, why="the filter reads what the units' skips carry: the stream and a filter of it."),
    "GroupWithTailDelta": dict(_NET, sound=True, why="the filter reads functions of norms."),
    "StarBlock": dict(_NET, **_ONE, sound=True, why="norms of the batch, in training."),
    "GhostUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="both halves of what is added are norms of the batch, in training."),
    "ScaledFilterUnit": dict(_EXP, softmax=False, why="standardised filters have length one, and what they give is of degree one."),
    "LayerScaleFused": dict(_LEVEL, identity_gain=0.8 ** 24, softmax=False, sound=False, why="the layer scale is on the sum: 0.8 a block, at the start."),
    "SandwichGateBlock": dict(_PRE, **_BOTH, **_OPEN, sound=True, why="a tanh times a norm is added."),
    "SandwichGateCompact": dict(_LEVEL, softmax=True, sound=False, why="a tanh is on the sum: the stream decays by it."),
    "GroundedLayer": dict(_PRE, sound=True, why="pre-norm; shares of functions of norms."),
    "DataConsistencyStep": dict(_NET, sound=True, why="rows that are not measured are carried, all others are halved; steps are functions of a norm."),
    "RadialEdges": dict(_NET, **_ONE, sound=True, gradient_law="power", why="bumps are at most one."),
    "RadialEdgesWithBase": dict(_EXP, softmax=False, why="the base reads the stream: of degree one."),
}
