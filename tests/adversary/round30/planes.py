"""Pull requests on pictures and diffusion: mixed filters, focal contexts, affine mixers, standardised filters, shifted windows, scans crosswise, points that are sampled, class tokens that read, tables of gates, maps that guide, two ways, ReLU kernels."""

from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S, H, N = 32, 8, 4, 16
HD = C // H

_G = torch.Generator().manual_seed(130)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _GRID = _draw(2, C, S, S), _draw(2, N, C), _draw(2, S, S, C)
example_inputs = {
    **{k: (_MAP,) for k in ("InceptionMixBlock", "StandardisedUnit", "StandardisedUnitPlain", "Res2Unit", "ReluKernelUnit", "ReluKernelUnitDefault")},
    **{k: (_SEQ,) for k in ("AffineMixBlock", "SpatialGateBlock")},
    **{k: (_GRID,) for k in ("FocalBlock", "FocalBlockShared", "ShiftWindowBlock", "ShiftWindowBlockTidy", "CrossScanBlock", "OffsetSampleBlock", "OffsetSampleFast")},
    "ClassReaderBlock": (_draw(2, 1, C), _SEQ),
    **{k: (_SEQ, _draw(2, 5, 24), _draw(2, 3, 24)) for k in ("TextGuidedBlock", "TextGuidedBlockShared")},
    **{k: (_SEQ, _draw(2, 6, C)) for k in ("TableGateBlock", "TableGateBlockFused")},
    **{k: (_MAP, torch.rand((2, 3, 16, 16), generator=_G)) for k in ("MapGuidedUnit", "MapGuidedUnitLearned")},
    "TwoWayBlock": (_draw(2, 5, C), _SEQ, _draw(2, 5, C), _draw(1, N, C)),
}


def fan_in_(m):
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if m.bias is not None:
        nn.init.zeros_(m.bias)
    return m


def Lin(i, o, bias=True):
    return fan_in_(nn.Linear(i, o, bias=bias))


def Conv(i, o, k=1, **kw):
    return fan_in_(nn.Conv2d(i, o, k, padding="same", **kw))


def ffn(d=C, act=nn.GELU):
    return nn.Sequential(Lin(d, 2 * d), act(), Lin(2 * d, d))


def to_heads(t, h=H):
    b, n, c = t.shape
    return t.reshape(b, n, h, c // h).transpose(1, 2)


def from_heads(t):
    b, h, n, d = t.shape
    return t.transpose(1, 2).reshape(b, n, h * d)


class CrossAttn(nn.Module):
    def __init__(self, ctx=C):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = Lin(C, C, False), Lin(ctx, C, False), Lin(ctx, C, False), Lin(C, C)

    def forward(self, q, k=None, v=None):
        k = q if k is None else k
        v = k if v is None else v
        return self.to_out(from_heads(F.scaled_dot_product_attention(to_heads(self.to_q(q)), to_heads(self.to_k(k)), to_heads(self.to_v(v)))))


# ------------------------------------------------------------------ mixed filters
class InceptionMixBlock(nn.Module):
    """Most channels pass; an eighth each goes through a square and two bands; a norm of the batch, a net by points, a factor a channel."""

    def __init__(self, part=C // 8, band=7):
        super().__init__()
        self.sizes = (C - 3 * part, part, part, part)
        self.hw, self.w, self.h = (Conv(part, part, k, groups=part) for k in (3, (1, band), (band, 1)))
        self.norm, self.fc1, self.fc2, self.gain = nn.BatchNorm2d(C), Conv(C, 2 * C), Conv(2 * C, C), nn.Parameter(torch.full((C, 1, 1), 0.3))

    def token_mixer(self, x):
        same, a, b, c = torch.split(x, self.sizes, dim=1)
        return torch.cat((same, self.hw(a), self.w(b), self.h(c)), dim=1)

    def forward(self, x):
        shortcut = x
        x = self.norm(self.token_mixer(x))
        x = self.fc2(F.gelu(self.fc1(x)))
        return x.mul(self.gain) + shortcut


# ------------------------------------------------------------------ gates over places
class SpatialGateBlock(nn.Module):
    """Half of the channels, normed and mixed over places, gates the other half."""

    def __init__(self, hidden=64):
        super().__init__()
        self.norm, self.channel_1, self.channel_2, self.gate_norm, self.spatial = nn.LayerNorm(C), Lin(C, hidden), Lin(hidden // 2, C), nn.LayerNorm(hidden // 2), nn.Conv1d(N, N, 1)
        nn.init.uniform_(self.spatial.weight, -1e-3, 1e-3)
        nn.init.ones_(self.spatial.bias)

    def forward(self, x):
        u, v = F.gelu(self.channel_1(self.norm(x))).chunk(2, dim=-1)
        return x + self.channel_2(u * self.spatial(self.gate_norm(v)))


# ------------------------------------------------------------------ focal contexts
class FocalBlock(nn.Module):
    """Contexts of three sizes and of the whole, each by a gate; their sum modulates queries."""

    def __init__(self, levels=3):
        super().__init__()
        self.levels, self.norm1, self.norm2, self.f, self.h, self.proj, self.mlp = levels, nn.LayerNorm(C), nn.LayerNorm(C), Lin(C, 2 * C + levels + 1), Conv(C, C), Lin(C, C), ffn()
        self.focal = nn.ModuleList(nn.Sequential(Conv(C, C, 3 + 2 * i, groups=C, bias=False), nn.GELU()) for i in range(levels))

    def modulate(self, x):
        q, ctx, gates = self.f(x).split([C, C, self.levels + 1], dim=-1)
        ctx, gates, total = ctx.permute(0, 3, 1, 2), gates.permute(0, 3, 1, 2), 0.0
        for i, layer in enumerate(self.focal):
            ctx = layer(ctx)
            total = total + ctx * gates[:, i:i + 1]
        total = total + F.gelu(ctx.mean(dim=(2, 3), keepdim=True)) * gates[:, self.levels:]
        return self.proj(q * self.h(total).permute(0, 2, 3, 1))

    def forward(self, x):
        x = x + self.modulate(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class FocalBlockShared(FocalBlock):
    """Both halves start from one norm of the block's input."""

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.modulate(h)
        return x + self.mlp(h)


# ------------------------------------------------------------------ affine mixers
class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        return torch.addcmul(self.shift, self.gain, x)


class AffineMixBlock(nn.Module):
    """A map of places and a net of channels; factors and shifts stand where others have norms, and behind branches."""

    def __init__(self, init=0.1):
        super().__init__()
        self.pre, self.post, self.places, self.channels = nn.ModuleList((Affine(), Affine())), nn.ModuleList((Affine(), Affine())), Lin(N, N), ffn()
        for a in self.post:
            nn.init.constant_(a.gain, init)

    def forward(self, x):
        x = x + self.post[0](self.places(self.pre[0](x).transpose(1, 2)).transpose(1, 2))
        return x + self.post[1](self.channels(self.pre[1](x)))


# ------------------------------------------------------------------ standardised filters
class StdConv2d(nn.Conv2d):
    """Each filter has mean nothing, and length one."""

    def __init__(self, i, o, k):
        super().__init__(i, o, k, padding=k // 2, bias=False)

    def forward(self, x):
        v, m = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, unbiased=False)
        w = (self.weight - m) / torch.sqrt(v + 1e-10) * self.weight[0].numel() ** -0.5
        return self._conv_forward(x, w, None)


class StandardisedUnit(nn.Module):
    """Norm, ReLU, standardised filter, three times, around a neck."""

    last = partial(StdConv2d, k=1)

    def __init__(self, neck=16):
        super().__init__()
        self.gn1, self.gn2, self.gn3 = nn.GroupNorm(8, C), nn.GroupNorm(4, neck), nn.GroupNorm(4, neck)
        self.conv1, self.conv2, self.conv3 = StdConv2d(C, neck, 1), StdConv2d(neck, neck, 3), self.last(neck, C)

    def forward(self, x):
        out = self.conv1(F.relu(self.gn1(x)))
        out = self.conv2(F.relu_(self.gn2(out)))
        out = self.conv3(F.relu_(self.gn3(out)))
        out += x
        return out


class StandardisedUnitPlain(StandardisedUnit):
    """The last filter is an ordinary one, so that it can start small."""

    last = partial(Conv, bias=False)


# ------------------------------------------------------------------ filters in a row
class Res2Unit(nn.Module):
    """Quarters of the channels, each filtered with what the quarter before gave."""

    def __init__(self, scale=4):
        super().__init__()
        w = C // scale
        self.scale, self.enter, self.convs, self.bns, self.leave = scale, nn.Sequential(Conv(C, C), nn.BatchNorm2d(C), nn.ReLU()), nn.ModuleList(Conv(w, w, 3) for _ in range(scale - 1)), nn.ModuleList(nn.BatchNorm2d(w) for _ in range(scale - 1)), nn.Sequential(Conv(C, C), nn.BatchNorm2d(C))

    def forward(self, x):
        parts = list(self.enter(x).chunk(self.scale, dim=1))
        for i, (conv, bn) in enumerate(zip(self.convs, self.bns)):
            prev = parts[i] if i == 0 else parts[i] + parts[i - 1]
            parts[i] = F.relu(bn(conv(prev)))
        return x + self.leave(torch.cat(parts, dim=1))


# ------------------------------------------------------------------ shifted windows
class ShiftWindowBlock(nn.Module):
    """Windows of four by four, shifted by two, with a table of distances."""

    def __init__(self, w=4, shift=2):
        super().__init__()
        self.w, self.shift, self.norm1, self.norm2, self.qkv, self.proj, self.mlp = w, shift, nn.LayerNorm(C), nn.LayerNorm(C), Lin(C, 3 * C), Lin(C, C), ffn()
        self.table = nn.Parameter(torch.randn(H, (2 * w - 1) ** 2) * 0.02)
        at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        rel = (at[:, :, None] - at[:, None, :]) + w - 1
        self.register_buffer("index", rel[0] * (2 * w - 1) + rel[1], persistent=False)

    def window_attention(self, h):
        b, n, w = h.shape[0], h.shape[1] // self.w, self.w
        t = h.view(b, n, w, n, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        q, k, v = self.qkv(t).view(-1, w * w, 3, H, HD).permute(2, 0, 3, 1, 4)
        a = (q * HD ** -0.5) @ k.transpose(-2, -1) + self.table[:, self.index]
        y = self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, C))
        return y.view(b, n, n, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(h.shape)

    def forward(self, x):
        h = torch.roll(self.norm1(x), (-self.shift, -self.shift), dims=(1, 2))
        h = torch.roll(self.window_attention(h), (self.shift, self.shift), dims=(1, 2))
        x = x + h
        return x + self.mlp(self.norm2(x))


class ShiftWindowBlockTidy(ShiftWindowBlock):
    """The shift moves in front of everything, so the skip need not be stored twice."""

    def forward(self, x):
        x = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        x = x + self.window_attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ scans crosswise
class CrossScanBlock(nn.Module):
    """Rows and columns, from both ends: four decaying sums; their sum is normed and gated."""

    def __init__(self):
        super().__init__()
        self.ln, self.xz, self.dw, self.dt, self.out_norm, self.out = nn.LayerNorm(C), Lin(C, 2 * C, False), Conv(C, C, 3, groups=C), nn.ModuleList(Lin(C, C) for _ in range(4)), nn.LayerNorm(C), Lin(C, C, False)

    @staticmethod
    def scan(u, dt):
        s, keep = torch.zeros_like(u[:, 0]), torch.exp(-dt)
        return torch.stack([s := keep[:, i] * s + (1 - keep[:, i]) * u[:, i] for i in range(u.shape[1])], dim=1)

    def ss2d(self, u):
        total = torch.zeros_like(u)
        for i, dt in enumerate(self.dt):
            v = u.transpose(1, 2) if i >= 2 else u
            v = v.flatten(1, 2)
            v = v.flip(1) if i % 2 else v
            y = self.scan(v, F.softplus(dt(v)))
            y = (y.flip(1) if i % 2 else y).view(u.shape)
            total += y.transpose(1, 2) if i >= 2 else y
        return total

    def forward(self, x):
        u, z = self.xz(self.ln(x)).chunk(2, dim=-1)
        u = F.silu(self.dw(u.permute(0, 3, 1, 2))).permute(0, 2, 3, 1)
        return x + self.out(self.out_norm(self.ss2d(u)) * F.silu(z))


# ------------------------------------------------------------------ sampled points
class OffsetSampleBlock(nn.Module):
    """Each place samples three points a head around itself; shares of points by a softmax of a map of the query."""

    def __init__(self, points=3):
        super().__init__()
        self.points, self.norm1, self.norm2, self.offsets, self.shares, self.value, self.out, self.mlp = points, nn.LayerNorm(C), nn.LayerNorm(C), Lin(C, H * points * 2), Lin(C, H * points), Lin(C, C), Lin(C, C), ffn()

    def sample(self, q, source):
        b, h, w, _ = q.shape
        v = self.value(source).view(b, h, w, H, HD).permute(0, 3, 4, 1, 2).flatten(0, 1)
        axis = lambda n: (torch.arange(n, device=q.device, dtype=q.dtype) + 0.5) * 2 / n - 1
        here = torch.stack(torch.meshgrid(axis(w), axis(h), indexing="xy"), dim=-1)
        where = here[:, :, None, None] + self.offsets(q).view(b, h, w, H, self.points, 2) / w
        where = where.permute(0, 3, 1, 2, 4, 5).reshape(b * H, h, w * self.points, 2)
        got = F.grid_sample(v, where, padding_mode="border", align_corners=False).view(b, H, HD, h, w, self.points)
        share = self.shares(q).view(b, h, w, H, self.points).softmax(dim=-1)
        return self.out(torch.einsum("bndhwp,bhwnp->bhwnd", got, share).flatten(-2))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.sample(h, h)
        return x + self.mlp(self.norm2(x))


class OffsetSampleFast(OffsetSampleBlock):
    """Values are mapped from features as they lie in memory."""

    def forward(self, x):
        x = x + self.sample(self.norm1(x), x)
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ class tokens that read
class ClassReaderBlock(nn.Module):
    """Patches are done; only the class token goes on, and reads them with itself."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(C, eps=1e-6), nn.LayerNorm(C, eps=1e-6), CrossAttn(), ffn()
        self.gain_1, self.gain_2 = nn.Parameter(torch.full((C,), 0.2)), nn.Parameter(torch.full((C,), 0.2))

    def forward(self, cls, patches):
        u = self.norm1(torch.cat((cls, patches), dim=1))
        cls = cls + self.gain_1 * self.attn(u[:, :1], u)
        return cls + self.gain_2 * self.mlp(self.norm2(cls))


# ------------------------------------------------------------------ guided by texts and pictures
class TextGuidedBlock(nn.Module):
    """Itself, then a text and beside it a picture prompt, then a gated net."""

    def __init__(self, ctx=24, scale=0.6):
        super().__init__()
        self.scale, self.norm1, self.norm2, self.norm3 = scale, nn.LayerNorm(C), nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn1, self.attn2, self.to_k_ip, self.to_v_ip = CrossAttn(), CrossAttn(ctx), Lin(ctx, C, False), Lin(ctx, C, False)
        self.geglu, self.last = Lin(C, 4 * C), Lin(2 * C, C)

    def both(self, h, text, image):
        a = self.attn2
        q = to_heads(a.to_q(h))
        y = F.scaled_dot_product_attention(q, to_heads(a.to_k(text)), to_heads(a.to_v(text)))
        y = y + self.scale * F.scaled_dot_product_attention(q, to_heads(self.to_k_ip(image)), to_heads(self.to_v_ip(image)))
        return a.to_out(from_heads(y))

    def net(self, h):
        u, g = self.geglu(h).chunk(2, dim=-1)
        return self.last(u * F.gelu(g))

    def forward(self, x, text, image):
        x = self.attn1(self.norm1(x)) + x
        x = self.both(self.norm2(x), text, image) + x
        return self.net(self.norm3(x)) + x


class TextGuidedBlockShared(TextGuidedBlock):
    """The norm in front of the prompts is left out: what they give does not depend on its size."""

    def forward(self, x, text, image):
        x = self.attn1(self.norm1(x)) + x
        x = self.both(x, text, image) + x
        return self.net(self.norm3(x)) + x


# ------------------------------------------------------------------ tables of gates
class TableGateBlock(nn.Module):
    """One condition for all layers; each of them has a table that is added."""

    def __init__(self):
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.randn(6, C) / C ** 0.5)
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(C, elementwise_affine=False, eps=1e-6), nn.LayerNorm(C, elementwise_affine=False, eps=1e-6), CrossAttn(), ffn(act=partial(nn.GELU, approximate="tanh"))

    def six(self, t):
        return (self.scale_shift_table[None] + t).unsqueeze(2).unbind(1)

    @staticmethod
    def t2i_modulate(x, shift, scale):
        return x * (1 + scale) + shift

    def forward(self, x, t):
        s1, c1, g1, s2, c2, g2 = self.six(t)
        x = x + g1 * self.attn(self.t2i_modulate(self.norm1(x), s1, c1))
        return x + g2 * self.mlp(self.t2i_modulate(self.norm2(x), s2, c2))


class TableGateBlockFused(TableGateBlock):
    """Gate and sum in one call."""

    def forward(self, x, t):
        s1, c1, g1, s2, c2, g2 = self.six(t)
        x = torch.addcmul(self.attn(self.t2i_modulate(self.norm1(x), s1, c1)), g1, x)
        return torch.addcmul(self.mlp(self.t2i_modulate(self.norm2(x), s2, c2)), g2, x)


# ------------------------------------------------------------------ maps that guide
class GuidedNorm(nn.Module):
    """A norm without a gain; factors and shifts of each place from a map of classes."""

    def __init__(self, hidden=16):
        super().__init__()
        self.norm, self.shared, self.to_gamma, self.to_beta = nn.InstanceNorm2d(C, affine=False), nn.Sequential(Conv(3, hidden, 3), nn.ReLU()), Conv(hidden, C, 3), Conv(hidden, C, 3)

    def forward(self, x, segmap):
        a = self.shared(F.interpolate(segmap, size=x.shape[2:], mode="nearest"))
        return self.norm(x) * (1 + self.to_gamma(a)) + self.to_beta(a)


class MapGuidedUnit(nn.Module):
    learned_shortcut = False

    def __init__(self):
        super().__init__()
        self.norm_0, self.norm_1, self.conv_0, self.conv_1 = GuidedNorm(), GuidedNorm(), Conv(C, C, 3), Conv(C, C, 3)
        if self.learned_shortcut:
            self.norm_s, self.conv_s = GuidedNorm(), Conv(C, C, bias=False)

    def shortcut(self, x, seg):
        return self.conv_s(self.norm_s(x, seg)) if self.learned_shortcut else x

    def forward(self, x, seg):
        dx = self.conv_0(F.leaky_relu(self.norm_0(x, seg), 0.2))
        dx = self.conv_1(F.leaky_relu(self.norm_1(dx, seg), 0.2))
        return self.shortcut(x, seg) + dx


class MapGuidedUnitLearned(MapGuidedUnit):
    """Some checkpoints have the shortcut's filter in each block."""

    learned_shortcut = True


# ------------------------------------------------------------------ two ways
class TwoWayBlock(nn.Module):
    """Queries read themselves and the picture, and the picture reads queries; a norm behind each sum, places added where scores are made."""

    def __init__(self):
        super().__init__()
        self.self_attn, self.token_to_image, self.image_to_token, self.mlp = CrossAttn(), CrossAttn(), CrossAttn(), ffn(act=nn.ReLU)
        self.norm1, self.norm2, self.norm3, self.norm4 = (nn.LayerNorm(C) for _ in range(4))

    def forward(self, queries, keys, query_pe, key_pe):
        q = queries + query_pe
        queries = self.norm1(queries + self.self_attn(q, q, queries))
        q, k = queries + query_pe, keys + key_pe
        queries = self.norm2(queries + self.token_to_image(q, k, keys))
        queries = self.norm3(queries + self.mlp(queries))
        q, k = queries + query_pe, keys + key_pe
        keys = self.norm4(keys + self.image_to_token(k, q, queries))
        return queries, keys


# ------------------------------------------------------------------ ReLU kernels
class ReluKernelUnit(nn.Module):
    """Linear attention with ReLUs, at two scales of filters; a map with a norm of the batch is added."""

    norm = nn.BatchNorm2d

    def __init__(self):
        super().__init__()
        self.qkv, self.near, self.proj = Conv(C, 3 * C, bias=False), Conv(3 * C, 3 * C, 5, groups=3 * C, bias=False), nn.Sequential(Conv(2 * C, C, bias=False), self.norm(C))

    def forward(self, x):
        qkv = self.qkv(x)
        q, k, v = torch.cat((qkv, self.near(qkv)), dim=1).flatten(2).unflatten(1, (-1, 3, HD)).unbind(2)
        q, k = F.relu(q), F.relu(k)
        v = F.pad(v, (0, 0, 0, 1), value=1.0)
        out = (v @ k.mT) @ q
        out = out[:, :, :-1] / (out[:, :, -1:] + 1e-6)
        return x + self.proj(out.flatten(1, 2).view(x.shape[0], -1, *x.shape[2:]))


class ReluKernelUnitDefault(ReluKernelUnit):
    """As the constructor has it if no norm is named."""

    norm = nn.Identity


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _THREE = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: False, 1: False, 2: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "InceptionMixBlock": dict(_NET, **_ONE, sound=True, why="filters read the stream, and a norm of the batch stands behind them, in training, in front of the net."),
    "SpatialGateBlock": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; a product of functions of a norm."),
    "FocalBlock": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm; queries times contexts, both of a norm."),
    "FocalBlockShared": dict(_NET, **_TWO, sound=True, gradient_law="power", why="both branches read the same norm: a parallel block, written as two sums."),
    "AffineMixBlock": dict(_EXP, softmax=False, **_TWO, why="factors and shifts are no norms: branches are of degree one, a tenth of it."),
    "StandardisedUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, gradient_law="power", why="pre-norm; filters have length one whatever their weights are."),
    "StandardisedUnitPlain": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; the last filter has no bound."),
    "Res2Unit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch, in training."),
    "ShiftWindowBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm; windows are shifted inside of the branch and back."),
    "ShiftWindowBlockTidy": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", why="the stream is shifted and never back: places are moved, sizes are not."),
    "CrossScanBlock": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; a norm of what scans give."),
    "OffsetSampleBlock": dict(_PRE, **_TWO, sound=True, why="pre-norm; shares of values at points, which are of a norm."),
    "OffsetSampleFast": dict(_EXP, softmax=True, **_TWO, why="values are of the stream itself: of degree one."),
    "ClassReaderBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; patches are the same in all layers."),
    "TextGuidedBlock": dict(_PRE, **_THREE, **_OPEN, sound=True, gradient_law="power", why="pre-norm, three branches; prompts are the same in all layers."),
    "TextGuidedBlockShared": dict(_PRE, **_THREE, **_OPEN, why="queries are of the stream itself, and scores grow with it; what is added are shares of values of prompts."),
    "TableGateBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; gates and gains are a condition and tables."),
    "TableGateBlockFused": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="gates multiply the stream, not the branch: channels with both above one grow by their product a layer."),
    "MapGuidedUnit": dict(_NET, **_ONE, sound=True, why="norms of each picture, with factors of a map that stays."),
    "MapGuidedUnitLearned": dict(_LEVEL, softmax=False, sound=False, why="the skip is a filter of a norm: nothing of the stream is carried."),
    "TwoWayBlock": dict(_LEVEL, growth_all="bounded", softmax=True, **_OPEN, sound=True, why="norms behind all sums."),
    "ReluKernelUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="attention is of degree one in the stream, and a norm of the batch stands behind it, in training."),
    "ReluKernelUnitDefault": dict(_EXP, softmax=False, **_ONE, why="no norm: means of values of the stream, of degree one."),
}
