"""Pull requests on pictures, video and diffusion: units of U-nets with a time, sums divided by a root, words beside patches, shifted windows, inverted bottlenecks, simple gates, superresolution, mixers of filters, frames, attention of channels, tanh gates."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S, H = 32, 4, 4
HD = C // H

_G = torch.Generator().manual_seed(3302)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _T = _draw(2, C, S, S), _draw(2, 16, C), _draw(2, 24)
example_inputs = {
    **{k: (_MAP, _T) for k in ("TimeUnit", "TimeUnitShadow")},
    **{k: (_MAP,) for k in ("RootSumUnit", "InvertedSeUnit", "InvertedSeUnitAfter", "SimpleGateUnit", "ScaledFilterUnit", "ScaledFilterUnitSum", "FilterMixUnit", "ChannelAttnUnit", "ChannelAttnUnitUnused")},
    "WordsBlock": (_SEQ, _draw(2, 7, C), _draw(2, 6 * C) * 0.3),
    **{k: (_SEQ,) for k in ("ShiftedWindowBlock", "ShiftedWindowBlockTwice")},
    **{k: (_draw(2, 3, 8, C),) for k in ("FramesBlock", "FramesBlockRaw")},
    "TanhGateBlock": (_SEQ, _T),
}


class Conv(nn.Conv2d):
    """A filter that keeps the size of the picture."""

    def __init__(self, i, o, k=1, **kw):
        super().__init__(i, o, k, padding=k // 2, **kw)
        nn.init.normal_(self.weight, std=self.weight[0].numel() ** -0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def dense(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    with torch.no_grad():
        m.weight.normal_(0, i ** -0.5)
        if bias:
            m.bias.zero_()
    return m


class FeedForward(nn.Sequential):
    def __init__(self, dim=C, mult=2):
        super().__init__(dense(dim, dim * mult), nn.GELU("tanh"), dense(dim * mult, dim))


class Attention(nn.Module):
    """Attention with words or with itself, over the last but one axis."""

    def __init__(self, dim=C):
        super().__init__()
        self.q, self.kv, self.proj = dense(dim, dim), dense(dim, 2 * dim), dense(dim, dim)

    def forward(self, x, context=None):
        context = x if context is None else context
        q = self.q(x).unflatten(-1, (H, HD)).transpose(-2, -3)
        k, v = (t.unflatten(-1, (H, HD)).transpose(-2, -3) for t in self.kv(context).chunk(2, dim=-1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2))


# ------------------------------------------------------------------ units with a time
class TimeUnit(nn.Module):
    """Norm, SiLU, filter, twice; the time scales and shifts what the second norm gives."""

    def __init__(self, emb=24):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(8, C), nn.SiLU(), Conv(C, C, 3))
        self.emb_layers = nn.Sequential(nn.SiLU(), dense(emb, 2 * C))
        self.out_layers = nn.Sequential(nn.GroupNorm(8, C), nn.SiLU(), nn.Dropout(0.0), Conv(C, C, 3))
        self.skip_connection = nn.Identity()

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, dim=1)
        out_norm, out_rest = self.out_layers[0], self.out_layers[1:]
        h = out_rest(out_norm(h) * (1 + scale) + shift)
        return self.skip_connection(x) + h


class TimeUnitShadow(TimeUnit):
    """The first norm is taken out of the list, as the half-precision kernel wants it apart."""

    def forward(self, x, emb):
        norm, *rest = self.in_layers
        x = norm(x)
        h = x
        for layer in rest:
            h = layer(h)
        scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, dim=1)
        h = self.out_layers[0](h) * (1 + scale) + shift
        return self.skip_connection(x) + self.out_layers[1:](h)


# ------------------------------------------------------------------ sums divided by a root
class RootSumUnit(nn.Module):
    """A unit of score models: the sum of both is divided by the root of two."""

    def __init__(self, skip_rescale=True):
        super().__init__()
        self.skip_rescale, self.act = skip_rescale, nn.SiLU()
        self.GroupNorm_0, self.Conv_0, self.GroupNorm_1, self.Conv_1 = nn.GroupNorm(8, C, eps=1e-6), Conv(C, C, 3), nn.GroupNorm(8, C, eps=1e-6), Conv(C, C, 3)

    def forward(self, x):
        h = self.act(self.GroupNorm_0(x))
        h = self.Conv_0(h)
        h = self.act(self.GroupNorm_1(h))
        h = self.Conv_1(h)
        if not self.skip_rescale:
            return x + h
        else:
            return (x + h) / math.sqrt(2.0)


# ------------------------------------------------------------------ words beside patches
class WordsBlock(nn.Module):
    """One table of shifts, scales and gates is added to the time's; words are read without a norm in front."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C, elementwise_affine=False, eps=1e-6), nn.LayerNorm(C, elementwise_affine=False, eps=1e-6)
        self.attn, self.cross_attn, self.mlp = Attention(), Attention(), FeedForward()
        self.scale_shift_table = nn.Parameter(torch.randn(6, C) / C ** 0.5)

    def forward(self, x, y, t):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = (self.scale_shift_table[None] + t.reshape(len(x), 6, -1)).chunk(6, dim=1)
        x = x + gate_msa * self.attn(self.norm1(x) * (1 + scale_msa) + shift_msa)
        x = x + self.cross_attn(x, y)
        x = x + gate_mlp * self.mlp(self.norm2(x) * (1 + scale_mlp) + shift_mlp)
        return x


# ------------------------------------------------------------------ shifted windows
class ShiftedWindowBlock(nn.Module):
    """Attention in windows of four places of a picture that is rolled by half a window, with a table of relative places."""

    def __init__(self, window=2, shift=1):
        super().__init__()
        self.window, self.shift, self.norm1, self.norm2, self.qkv, self.proj, self.mlp = window, shift, nn.LayerNorm(C), nn.LayerNorm(C), dense(C, 3 * C), dense(C, C), FeedForward()
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, H) * 0.02)
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = at[:, :, None] - at[:, None] + window - 1
        self.register_buffer("relative_position_index", rel[0] * (2 * window - 1) + rel[1])

    def window_attention(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, H, c // H).permute(2, 0, 3, 1, 4)
        attn = (q * HD ** -0.5) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(n, n, H).permute(2, 0, 1)
        attn = F.softmax(attn + bias.unsqueeze(0), dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))

    def attention(self, x):
        b, n, c = x.shape
        w, side = self.window, int(n ** 0.5)
        x = torch.roll(self.norm1(x).view(b, side, side, c), (-self.shift, -self.shift), dims=(1, 2))
        x = x.view(b, side // w, w, side // w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)
        x = self.window_attention(x)
        x = x.view(b, side // w, side // w, w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(b, side, side, c)
        return torch.roll(x, (self.shift, self.shift), dims=(1, 2)).view(b, n, c)

    def forward(self, x):
        shortcut = x
        x = shortcut + self.attention(x)
        return x + self.mlp(self.norm2(x))


class ShiftedWindowBlockTwice(ShiftedWindowBlock):
    """The method for attention was given the shortcut in a clean-up; the block was left as it was."""

    def attention(self, x):
        shortcut = x
        x = super().attention(x)
        return shortcut + x


# ------------------------------------------------------------------ inverted bottlenecks
class SqueezeExcite(nn.Module):
    def __init__(self, dim, r=4):
        super().__init__()
        self.reduce, self.expand = Conv(dim, dim // r), Conv(dim // r, dim)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.expand(F.relu(self.reduce(s))))


class InvertedSeUnit(nn.Module):
    """Wide by a filter of one pixel, a filter a channel, a gate a channel, narrow again, and a norm of the batch behind each."""

    def __init__(self, expand=2):
        super().__init__()
        mid = C * expand
        self.conv_pw, self.bn1 = Conv(C, mid, bias=False), nn.BatchNorm2d(mid)
        self.conv_dw, self.bn2 = Conv(mid, mid, 3, groups=mid, bias=False), nn.BatchNorm2d(mid)
        self.se = SqueezeExcite(mid)
        self.conv_pwl, self.bn3 = Conv(mid, C, bias=False), nn.BatchNorm2d(C)

    def forward(self, x):
        shortcut = x
        x = F.silu(self.bn1(self.conv_pw(x)), inplace=True)
        x = F.silu(self.bn2(self.conv_dw(x)), inplace=True)
        x = self.se(x)
        x = self.bn3(self.conv_pwl(x))
        x += shortcut
        return x


class InvertedSeUnitAfter(InvertedSeUnit):
    """The gate of channels is the last thing of the unit, so that it sees the whole."""

    def __init__(self):
        super().__init__()
        self.se = SqueezeExcite(C)

    def forward(self, x):
        y = F.silu(self.bn1(self.conv_pw(x)))
        y = F.silu(self.bn2(self.conv_dw(y)))
        y = self.bn3(self.conv_pwl(y))
        return self.se(x + y)


# ------------------------------------------------------------------ simple gates
class LayerNorm2d(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        y = (x - mu) / (var + self.eps).sqrt()
        return self.weight.view(1, -1, 1, 1) * y + self.bias.view(1, -1, 1, 1)


class SimpleGate(nn.Module):
    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        return x1 * x2


class SimpleGateUnit(nn.Module):
    """Halves that multiply each other, means that weigh channels, and a factor a channel on both branches."""

    def __init__(self, init=0.3):
        super().__init__()
        self.conv1, self.conv2, self.conv3, self.sca = Conv(C, 2 * C), Conv(2 * C, 2 * C, 3, groups=2 * C), Conv(C, C), nn.Sequential(nn.AdaptiveAvgPool2d(1), Conv(C, C))
        self.sg, self.conv4, self.conv5, self.norm1, self.norm2 = SimpleGate(), Conv(C, 2 * C), Conv(C, C), LayerNorm2d(C), LayerNorm2d(C)
        self.beta, self.gamma = nn.Parameter(torch.full((1, C, 1, 1), init)), nn.Parameter(torch.full((1, C, 1, 1), init))

    def forward(self, inp):
        x = inp
        x = self.norm1(x)
        x = self.conv2(self.conv1(x))
        x = self.sg(x)
        x = x * self.sca(x)
        x = self.conv3(x)
        y = inp + x * self.beta
        x = self.conv5(self.sg(self.conv4(self.norm2(y))))
        return y + x * self.gamma


# ------------------------------------------------------------------ superresolution
class ScaledFilterUnit(nn.Module):
    """Two filters, no norm; a tenth of what they give is added."""

    def __init__(self, res_scale=0.1):
        super().__init__()
        self.res_scale, self.body = res_scale, nn.Sequential(Conv(C, 2 * C, 3), nn.ReLU(True), Conv(2 * C, C, 3))

    def forward(self, x):
        res = self.body(x).mul(self.res_scale)
        res += x
        return res


class ScaledFilterUnitSum(ScaledFilterUnit):
    """The factor comes one line later."""

    def forward(self, x):
        res = self.body(x)
        res += x
        return res.mul(self.res_scale)


# ------------------------------------------------------------------ mixers of filters
class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x) + x


class FilterMixUnit(nn.Sequential):
    """A filter a channel with a skip, then a filter of one pixel without one; a norm of the batch behind both."""

    def __init__(self, k=3):
        super().__init__(
            Residual(nn.Sequential(Conv(C, C, k, groups=C), nn.GELU(), nn.BatchNorm2d(C))),
            Conv(C, C),
            nn.GELU(),
            nn.BatchNorm2d(C),
        )


# ------------------------------------------------------------------ frames
class FramesBlock(nn.Module):
    """Attention in each frame, then of each place over frames, then a net."""

    def __init__(self):
        super().__init__()
        Norm = partial(nn.LayerNorm, C, eps=1e-6)
        self.norm1, self.temporal_norm1, self.norm2, self.attn, self.temporal_attn, self.mlp = Norm(), Norm(), Norm(), Attention(), Attention(), FeedForward()

    def over_frames(self, x):
        b, f, n, c = x.shape
        y = x.permute(0, 2, 1, 3).reshape(b * n, f, c)
        y = self.temporal_attn(self.temporal_norm1(y))
        return y.reshape(b, n, f, c).permute(0, 2, 1, 3)

    def forward(self, x):
        x = x + self.attn(self.norm1(x).flatten(0, 1)).view_as(x)
        x = x + self.over_frames(x)
        x = x + self.mlp(self.norm2(x))
        return x


class FramesBlockRaw(FramesBlock):
    """Layers over time were put into a trained model of pictures; their norm has no weights to load, so it is not called."""

    def over_frames(self, x):
        b, f, n, c = x.shape
        y = x.permute(0, 2, 1, 3).reshape(b * n, f, c)
        return self.temporal_attn(y).reshape(b, n, f, c).permute(0, 2, 1, 3)


# ------------------------------------------------------------------ attention of channels
class ChannelAttnUnit(nn.Module):
    """Channels attend to channels by cosines over places, times a temperature; then a gated net of filters."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.temperature = LayerNorm2d(C), LayerNorm2d(C), nn.Parameter(torch.ones(H, 1, 1))
        self.qkv, self.qkv_dwconv, self.project_attn = Conv(C, 3 * C, bias=False), Conv(3 * C, 3 * C, 3, groups=3 * C, bias=False), Conv(C, C, bias=False)
        self.project_in, self.dwconv, self.project_out = Conv(C, 4 * C, bias=False), Conv(4 * C, 4 * C, 3, groups=4 * C, bias=False), Conv(2 * C, C, bias=False)

    def attn(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, H, c // H, h * w) for t in self.qkv_dwconv(self.qkv(x)).chunk(3, dim=1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature
        out = attn.softmax(dim=-1) @ v
        return self.project_attn(out.reshape(b, c, h, w))

    def ffn(self, x):
        x1, x2 = self.dwconv(self.project_in(x)).chunk(2, dim=1)
        return self.project_out(F.gelu(x1) * x2)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.ffn(self.norm2(x))
        return x


class ChannelAttnUnitUnused(ChannelAttnUnit):
    """Cosines do not need the norm; what is read of the channels would."""

    def forward(self, x):
        x = x + self.attn(x)
        x = x + self.ffn(self.norm2(x))
        return x


# ------------------------------------------------------------------ tanh gates
class TanhGateBlock(nn.Module):
    """Norms in front of and behind both branches; the time scales what goes in, and its tanh gates what comes out."""

    def __init__(self, cond=24):
        super().__init__()
        self.attention_norm1, self.attention_norm2, self.ffn_norm1, self.ffn_norm2 = (nn.RMSNorm(C, eps=1e-5) for _ in range(4))
        self.wqkv, self.wo, self.q_norm, self.k_norm, self.feed_forward = dense(C, 3 * C, False), dense(C, C, False), nn.LayerNorm(C), nn.LayerNorm(C), FeedForward()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), dense(cond, 4 * C))

    def attention(self, x):
        q, k, v = self.wqkv(x).split(C, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (self.q_norm(q), self.k_norm(k), v))
        return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x, t):
        scale_msa, gate_msa, scale_mlp, gate_mlp = self.adaLN_modulation(t).unsqueeze(1).chunk(4, dim=-1)
        x = x + gate_msa.tanh() * self.attention_norm2(self.attention(self.attention_norm1(x) * (1 + scale_msa)))
        x = x + gate_mlp.tanh() * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale_mlp)))
        return x


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=True, sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=False)
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_THREE, _OPEN, _SHUT = dict(output_bounded={0: False, 1: False, 2: False}), dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "TimeUnit": dict(_NET, **_ONE, gradient_law="power", sound=True, why="a norm in front of each filter; scales and shifts are maps of a constant; the skip is the identity."),
    "TimeUnitShadow": dict(_LEVEL, **_ONE, sound=False, why="the skip takes what the norm gave: each unit starts anew from a norm."),
    "RootSumUnit": dict(_LEVEL, identity_gain=0.5 ** 12, **_ONE, why="a function of norms is added, and the sum is divided by the root of two in each unit."),
    "WordsBlock": dict(_PRE, **_THREE, logits_bounded={0: False, 1: False}, sound=True, why="values of the second branch are maps of words, a constant; the raw stream is in its logits alone."),
    "ShiftedWindowBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; windows and rolls only move places, and are undone in the branch."),
    "ShiftedWindowBlockTwice": dict(_EXP | {"identity_gain": 2.0 ** 24}, growth_all="exponential", gradient_law="exponential", **_OPEN, why="the shortcut is added in the method and again in the block: the stream doubles."),
    "InvertedSeUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="no norm in front, but the branch ends in a norm of the batch."),
    "InvertedSeUnitAfter": dict(kind="block", softmax=False, output_bounded={0: True}, gated=True, sound=False, why="the gate of channels, a sigmoid of the raw stream, multiplies the sum and so the skip."),
    "SimpleGateUnit": dict(_NET, **_TWO, sound=True, why="pre-norm; products of maps of norms, of a degree that does not matter."),
    "ScaledFilterUnit": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False, **_ONE, why="no norm: a tenth of a function of degree one of the stream is added."),
    "ScaledFilterUnitSum": dict(kind="block", identity_gain=0.1 ** 24, softmax=False, **_ONE, sound=False, why="a tenth of the sum is handed on: a tenth of the stream is left."),
    "FilterMixUnit": dict(_LEVEL, growth_all="bounded", why="the second half has no skip, and a norm of the batch is its end."),
    "FramesBlock": dict(_PRE, **_THREE, logits_bounded={0: False, 1: False}, gradient_law="power", sound=True, why="pre-norm three times; axes are only moved."),
    "FramesBlockRaw": dict(_EXP, **_THREE, logits_bounded={0: False, 1: False}, why="attention over frames reads the raw stream: a mean of its maps is of degree one."),
    "ChannelAttnUnit": dict(_NET | {"softmax": True}, **_TWO, **_SHUT, gradient_law="power", sound=True, why="pre-norm; cosines times a temperature that is held."),
    "ChannelAttnUnitUnused": dict(_EXP, **_TWO, **_SHUT, why="values are maps of the raw stream, mixed by shares: of degree one. Cosines stay bounded."),
    "TanhGateBlock": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, why="both branches end in a norm times a tanh; queries and keys have norms."),
}
