"""Pull requests on pictures, video and their diffusion: response norms, mixers of tokens, pools, two modalities at one table, single streams, sums that keep magnitudes, dense units in dense units, attention in latents, large kernels, blends of frames, cosines with norms behind, factors a channel."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S, H = 32, 8, 4
HD = C // H

_G = torch.Generator().manual_seed(3202)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _C = _draw(2, C, S, S), _draw(2, 16, C), _draw(2, 24)
example_inputs = {
    **{k: (_MAP,) for k in ("ResponseNormBlock", "ResponseNormBlockBare", "PoolMixBlock", "MagnitudeUnit", "MagnitudeUnitBranch", "DenseInDenseUnit", "LatentAttnUnitOut",
                            "LargeKernelBlock", "LargeKernelBlockGate")},
    **{k: (_SEQ,) for k in ("TokenMixBlock", "TokenMixBlockFlip", "CosinePostBlock", "LayerScaleBlockSum")},
    "JointStreamsBlock": (_SEQ, _draw(2, 7, C), _C),
    **{k: (_SEQ, _C) for k in ("SingleStreamBlock", "SingleStreamBlockGate")},
    **{k: (_draw(4, C, S, S),) for k in ("FrameBlendUnit", "FrameBlendUnitBranch")},
}


def conv(i, o, k=1, **kw):
    kw.setdefault("padding", k // 2)
    m = nn.Conv2d(i, o, k, **kw)
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    nn.init.zeros_(m.bias)
    return m


def fc(i, o, bias=True):
    m = nn.Linear(i, o, bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def mlp(dim=C, hidden=2 * C, out=None):
    return nn.Sequential(fc(dim, hidden), nn.GELU(), fc(hidden, out or dim))


def in_heads(t):
    """Queries, keys and values, each (..., heads, places, channels)."""
    return t.unflatten(-1, (3, H, HD)).movedim(-3, 0).transpose(-2, -3)


def out_of_heads(t):
    return t.transpose(-2, -3).flatten(-2)


class Attention(nn.Module):
    def __init__(self, dim=C):
        super().__init__()
        self.to_qkv, self.proj = fc(dim, 3 * dim), fc(dim, dim)

    def forward(self, x):
        q, k, v = in_heads(self.to_qkv(x))
        return self.proj(out_of_heads(F.scaled_dot_product_attention(q, k, v)))


# ------------------------------------------------------------------ response norms
class ResponseNorm(nn.Module):
    """Channels are weighed by their share of the length over the picture."""

    def __init__(self, dim):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.full((1, 1, 1, dim), 0.5)), nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x):
        gx = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + self.beta + x


class ResponseNormBlock(nn.Module):
    """A filter a channel, a norm, a wide net of points with a response norm in it."""

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm, self.pwconv1, self.grn, self.pwconv2 = conv(C, C, 7, groups=C), nn.LayerNorm(C, eps=1e-6), fc(C, 4 * C), ResponseNorm(4 * C), fc(4 * C, C)

    def middle(self, x):
        return self.norm(x.permute(0, 2, 3, 1))

    def forward(self, x):
        shortcut = x
        x = self.middle(self.dwconv(x))
        x = self.pwconv2(self.grn(F.gelu(self.pwconv1(x))))
        return shortcut + x.permute(0, 3, 1, 2)


class ResponseNormBlockBare(ResponseNormBlock):
    """A block has a norm already, in the net."""

    def middle(self, x):
        return x.permute(0, 2, 3, 1)


# ------------------------------------------------------------------ mixers of tokens
class TokenMixBlock(nn.Module):
    """A net over places, then one over channels."""

    def __init__(self, tokens=16):
        super().__init__()
        self.norm1, self.norm2, self.mlp_tokens, self.mlp_channels = nn.LayerNorm(C), nn.LayerNorm(C), mlp(tokens, 32), mlp()

    def forward(self, x):
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.mlp_channels(self.norm2(x))
        return x


class TokenMixBlockFlip(TokenMixBlock):
    """Turned once, so that the sum is of tensors that are turned alike."""

    def forward(self, x):
        x = self.norm1(x).transpose(1, 2)
        x = x + self.mlp_tokens(x)
        x = x.transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))


# ------------------------------------------------------------------ pools
class PoolMixBlock(nn.Module):
    """A mean of neighbours without the pixel itself, in the place of attention; a factor a channel on each branch."""

    def __init__(self, init=0.3):
        super().__init__()
        self.norm1, self.norm2, self.pool, self.mlp = nn.GroupNorm(1, C), nn.GroupNorm(1, C), nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.Sequential(conv(C, 2 * C), nn.GELU(), conv(2 * C, C))
        self.layer_scale_1, self.layer_scale_2 = nn.Parameter(torch.full((C, 1, 1), init)), nn.Parameter(torch.full((C, 1, 1), init))

    def token_mixer(self, x):
        return self.pool(x) - x

    def forward(self, x):
        x = x + self.layer_scale_1 * self.token_mixer(self.norm1(x))
        return x + self.layer_scale_2 * self.mlp(self.norm2(x))


# ------------------------------------------------------------------ two modalities at one table
class JointStreamsBlock(nn.Module):
    """Words and patches have maps of their own, meet in one attention, and are scaled, shifted and gated by the time."""

    def __init__(self, cond=24):
        super().__init__()
        self.mod_x, self.mod_c = fc(cond, 6 * C), fc(cond, 6 * C)
        self.qkv_x, self.qkv_c, self.out_x, self.out_c, self.ff_x, self.ff_c = fc(C, 3 * C), fc(C, 3 * C), fc(C, C), fc(C, C), mlp(), mlp()
        self.q_norm_x, self.k_norm_x, self.q_norm_c, self.k_norm_c = (nn.RMSNorm(HD) for _ in range(4))

    @staticmethod
    def adapt(x, shift, scale):
        return F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift

    def forward(self, x, c, vec):
        vec = F.silu(vec)
        sx, kx, gx, sx2, kx2, gx2 = self.mod_x(vec).unsqueeze(1).chunk(6, dim=-1)
        sc, kc, gc, sc2, kc2, gc2 = self.mod_c(vec).unsqueeze(1).chunk(6, dim=-1)
        parts = []
        for t, qkv, qn, kn in ((self.adapt(c, sc, kc), self.qkv_c, self.q_norm_c, self.k_norm_c), (self.adapt(x, sx, kx), self.qkv_x, self.q_norm_x, self.k_norm_x)):
            q, k, v = in_heads(qkv(t))
            parts.append((qn(q), kn(k), v))
        q, k, v = (torch.cat(ts, dim=2) for ts in zip(*parts))
        y = out_of_heads(F.scaled_dot_product_attention(q, k, v))
        yc, yx = y.split((c.shape[1], x.shape[1]), dim=1)
        x = x + gx * self.out_x(yx)
        x = x + gx2 * self.ff_x(self.adapt(x, sx2, kx2))
        c = c + gc * self.out_c(yc)
        c = c + gc2 * self.ff_c(self.adapt(c, sc2, kc2))
        return x, c


# ------------------------------------------------------------------ single streams
class SingleStreamBlock(nn.Module):
    """One map in and one map out for attention and net; the time scales, shifts and gates."""

    def __init__(self, cond=24, hidden=48):
        super().__init__()
        self.sizes, self.modulation, self.linear1, self.linear2 = (3 * C, hidden), fc(cond, 3 * C), fc(C, 3 * C + hidden), fc(C + hidden, C)
        self.pre_norm, self.query_norm, self.key_norm = nn.LayerNorm(C, elementwise_affine=False), nn.RMSNorm(HD), nn.RMSNorm(HD)

    def residual(self, x, out, gate):
        return x + gate * out

    def forward(self, x, vec):
        shift, scale, gate = self.modulation(F.silu(vec))[:, None].chunk(3, dim=-1)
        h = torch.addcmul(shift, 1 + scale, self.pre_norm(x))
        qkv, up = self.linear1(h).split(self.sizes, dim=-1)
        q, k, v = in_heads(qkv)
        attn = F.scaled_dot_product_attention(self.query_norm(q), self.key_norm(k), v)
        out = self.linear2(torch.cat((out_of_heads(attn), F.gelu(up, approximate="tanh")), dim=2))
        return self.residual(x, out, gate)


class SingleStreamBlockGate(SingleStreamBlock):
    """A pair of brackets."""

    def residual(self, x, out, gate):
        return gate * (x + out)


# ------------------------------------------------------------------ sums that keep magnitudes
def normalize(x, dim=None, eps=1e-4):
    dim = list(range(1, x.ndim)) if dim is None else dim
    norm = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / (eps + norm * math.sqrt(norm.numel() / x.numel()))


def mp_silu(x):
    return F.silu(x) / 0.596


def mp_sum(a, b, t=0.3):
    return torch.lerp(a, b, t) / math.sqrt((1 - t) ** 2 + t ** 2)


class MPConv(nn.Module):
    """Each filter has length one."""

    def __init__(self, i, o, k):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i, k, k))

    def forward(self, x):
        w = normalize(self.weight) / math.sqrt(self.weight[0].numel())
        return F.conv2d(x, w.to(x.dtype), padding=self.weight.shape[-1] // 2)


class MagnitudeUnit(nn.Module):
    """Pixels are brought to one length, then two filters, and a sum that keeps magnitudes."""

    def __init__(self):
        super().__init__()
        self.conv_res0, self.conv_res1 = MPConv(C, C, 3), MPConv(C, C, 3)

    def residual(self, x):
        return self.conv_res1(mp_silu(self.conv_res0(mp_silu(x))))

    def forward(self, x):
        x = normalize(x, dim=1)
        return mp_sum(x, self.residual(x))


class MagnitudeUnitBranch(MagnitudeUnit):
    """The norm of pixels is for filters alone."""

    def forward(self, x):
        return mp_sum(x, self.residual(normalize(x, dim=1)))


# ------------------------------------------------------------------ dense units in dense units
class DenseUnit(nn.Module):
    def __init__(self, growth=8, beta=0.2):
        super().__init__()
        self.beta, self.convs = beta, nn.ModuleList(conv(C + i * growth, growth if i < 4 else C, 3) for i in range(5))

    def forward(self, x):
        feats = [x]
        for i, f in enumerate(self.convs):
            y = f(torch.cat(feats, dim=1))
            feats.append(F.leaky_relu(y, 0.2) if i < 4 else y)
        return feats[-1] * self.beta + x


class DenseInDenseUnit(nn.Module):
    """Three dense units, of which a fifth is added."""

    def __init__(self):
        super().__init__()
        self.rdbs = nn.Sequential(*(DenseUnit() for _ in range(3)))

    def forward(self, x):
        return self.rdbs(x) * 0.2 + x


# ------------------------------------------------------------------ attention in latents
class LatentAttnUnit(nn.Module):
    """The attention of the autoencoder: one head, maps of one pixel."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.proj_out = nn.GroupNorm(8, C, eps=1e-6), conv(C, C), conv(C, C), conv(C, C), conv(C, C)

    def attend(self, h_):
        b, c, h, w = h_.shape
        q, k, v = (f(h_).reshape(b, c, h * w) for f in (self.q, self.k, self.v))
        w_ = torch.bmm(q.permute(0, 2, 1), k) * int(c) ** (-0.5)
        w_ = F.softmax(w_, dim=2)
        return self.proj_out(torch.bmm(v, w_.permute(0, 2, 1)).reshape(b, c, h, w))

    def forward(self, x):
        h_ = x
        h_ = self.norm(h_)
        return x + self.attend(h_)


class LatentAttnUnitOut(LatentAttnUnit):
    """Attention in the flow of types: the norm is the last thing in front of the sum."""

    def forward(self, x):
        return x + self.norm(self.attend(x))


# ------------------------------------------------------------------ large kernels
class LargeKernelBlock(nn.Module):
    """A map of the picture by a wide filter multiplies the picture itself; then a net with a filter a channel."""

    def __init__(self, init=0.2):
        super().__init__()
        self.norm1, self.norm2, self.gamma_1, self.gamma_2 = nn.BatchNorm2d(C), nn.BatchNorm2d(C), nn.Parameter(init * torch.ones(C, 1, 1)), nn.Parameter(init * torch.ones(C, 1, 1))
        self.proj_1, self.conv0, self.conv_spatial, self.conv1, self.proj_2 = conv(C, C), conv(C, C, 5, groups=C), conv(C, C, 3, groups=C, padding=3, dilation=3), conv(C, C), conv(C, C)
        self.ffn = nn.Sequential(conv(C, 2 * C), conv(2 * C, 2 * C, 3, groups=2 * C), nn.GELU(), conv(2 * C, C))

    def lka(self, u):
        return self.conv1(self.conv_spatial(self.conv0(u)))

    def attn(self, x, h):
        u = F.gelu(self.proj_1(h))
        return self.proj_2(u * self.lka(u))

    def forward(self, x):
        x = x + self.gamma_1 * self.attn(x, self.norm1(x))
        x = x + self.gamma_2 * self.ffn(self.norm2(x))
        return x


class LargeKernelBlockGate(LargeKernelBlock):
    """What is multiplied is what came in."""

    def attn(self, x, h):
        return self.proj_2(x * self.lka(F.gelu(self.proj_1(h))))


# ------------------------------------------------------------------ blends of frames
class FrameBlendUnit(nn.Module):
    """A unit a frame, a unit over frames, and a trained share of both."""

    def __init__(self, frames=2):
        super().__init__()
        self.frames, self.mix_factor = frames, nn.Parameter(torch.tensor(0.0))
        self.spatial = nn.Sequential(nn.GroupNorm(8, C), nn.SiLU(), conv(C, C, 3))
        self.temporal_norm, self.temporal_conv = nn.GroupNorm(8, C), nn.Conv3d(C, C, (3, 1, 1), padding=(1, 0, 0))

    def over_time(self, x):
        x = x.unflatten(0, (-1, self.frames)).transpose(1, 2)
        x = self.temporal_conv(F.silu(self.temporal_norm(x)))
        return x.transpose(1, 2).flatten(0, 1)

    def temporal(self, x):
        return x + self.over_time(x)

    def forward(self, x):
        x = x + self.spatial(x)
        alpha = torch.sigmoid(self.mix_factor)
        return alpha * x + (1.0 - alpha) * self.temporal(x)


class FrameBlendUnitBranch(FrameBlendUnit):
    """A blend has the frame in it, so the unit over time needs no skip."""

    def temporal(self, x):
        return self.over_time(x)


# ------------------------------------------------------------------ cosines, norms behind
class CosinePostBlock(nn.Module):
    """Cosines times a capped temperature; norms behind both branches, which read the stream as it is."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj, self.mlp, self.norm1, self.norm2, self.logit_scale = fc(C, 3 * C), fc(C, C), mlp(), nn.LayerNorm(C), nn.LayerNorm(C), nn.Parameter(torch.log(10 * torch.ones(H, 1, 1)))

    def attn(self, x):
        q, k, v = in_heads(self.qkv(x))
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        sim = sim * self.logit_scale.clamp(max=math.log(100.0)).exp()
        return self.proj(out_of_heads(torch.softmax(sim, dim=-1) @ v))

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        x = x + self.norm2(self.mlp(x))
        return x


# ------------------------------------------------------------------ factors a channel
class LayerScaleBlock(nn.Module):
    """Factors of a tenth a channel on what branches give."""

    def __init__(self, init=0.1):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(C), nn.LayerNorm(C), Attention(), mlp()
        self.gamma_1, self.gamma_2 = nn.Parameter(torch.full((C,), init)), nn.Parameter(torch.full((C,), init))

    def forward(self, x):
        x = x.addcmul(self.gamma_1, self.attn(self.norm1(x)))
        x = x.addcmul(self.gamma_2, self.mlp(self.norm2(x)))
        return x


class LayerScaleBlockSum(LayerScaleBlock):
    """The factor stands in front of what is added, which is added to nothing."""

    def forward(self, x):
        x = self.gamma_1 * self.attn(self.norm1(x)).add(x)
        x = self.gamma_2 * self.mlp(self.norm2(x)).add(x)
        return x


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_MP = 0.7 / math.sqrt(0.58)
TRUTH = {
    "ResponseNormBlock": dict(_NET, **_ONE, sound=True, why="a norm behind the filter; the rest is a function of it that ends in a map."),
    "ResponseNormBlockBare": dict(_EXP, softmax=False, **_ONE, why="response norms weigh channels by shares and keep the length: of degree one."),
    "TokenMixBlock": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm over places and over channels."),
    "TokenMixBlockFlip": dict(_LEVEL, softmax=False, **_TWO, sound=False, why="the skip is of the norm: each block starts anew from it."),
    "PoolMixBlock": dict(_NET, output_bounded={0: True, 1: False}, gradient_law="power", sound=True, why="pre-norm; means of a norm have no weights, and the factor is held."),
    "JointStreamsBlock": dict(_PRE, output_bounded={0: False, 1: False, 2: False, 3: False}, **_SHUT, sound=True, why="pre-norm in both streams; norms a head; gates are maps of a constant."),
    "SingleStreamBlock": dict(_PRE, **_ONE, **_SHUT, sound=True, why="pre-norm; the gate, of a constant, is on the branch."),
    "SingleStreamBlockGate": dict(kind="block", softmax=True, **_ONE, **_SHUT, sound=False, why="a map of the condition multiplies the stream in each block."),
    "MagnitudeUnit": dict(_LEVEL, output_bounded={0: True}, growth_all="bounded", softmax=False, sound=True, why="each unit starts with a norm of pixels, and filters have length one."),
    "MagnitudeUnitBranch": dict(_LEVEL, identity_gain=_MP ** 24, growth_all="bounded", softmax=False, output_bounded={0: True}, why="0.7/sqrt(0.58) of the stream in each unit, and what is added is bounded by lengths of one."),
    "DenseInDenseUnit": dict(kind="block", identity_gain=1.2 ** 24, growth_fixed="exponential", softmax=False, output_bounded={i: False for i in range(4)}, why="no norm; a fifth of the stream is added to itself in each unit."),
    "LatentAttnUnitOut": dict(_PRE, output_bounded={0: True}, **_OPEN, growth_all="linear", why="the branch ends in a norm; scores are squares of the raw stream."),
    "LargeKernelBlock": dict(_NET, **_TWO, sound=True, why="norms of the batch in front; products of functions of them."),
    "LargeKernelBlockGate": dict(_EXP, softmax=False, **_TWO, why="the raw stream is multiplied by a function of the norm: of degree one."),
    "FrameBlendUnit": dict(_NET, **_TWO, sound=True, why="shares of two sums that both have the whole stream in them."),
    "FrameBlendUnitBranch": dict(_LEVEL, softmax=False, **_ONE, sound=False, why="half of the stream is left by each unit, as the other share has no skip."),
    "CosinePostBlock": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, why="both branches end in a norm; cosines times a temperature that is held."),
    "LayerScaleBlockSum": dict(_LEVEL, softmax=True, **_TWO, sound=False, why="a tenth of the sum is handed on, twice a block."),
}
