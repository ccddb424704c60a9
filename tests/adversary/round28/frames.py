"""Pull requests on pictures and diffusion: registers, response norms, windows, squeezed gates, joint streams with conditions, sums of kept magnitude, dense groups."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S, H, N = 32, 8, 4, 16
HD = C // H

_G = torch.Generator().manual_seed(128)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _COND = _draw(2, C, S, S), _draw(2, N, C), _draw(2, C)
example_inputs = {
    "RegisterBlock": (_draw(2, N + 5, C),),
    **{k: (_MAP,) for k in ("ResponseNormBlock", "ResponseNormSlim", "PoolMixerBlock", "SqueezeOnSumUnit", "SqueezeInsideUnit", "PixelNormSumBlock", "DenseGroup")},
    **{k: (_draw(2, S, S, C),) for k in ("WindowPostNormBlock", "WindowPostNormFast")},
    **{k: (_SEQ, _draw(2, 6, C), _COND) for k in ("JointStreamsBlock", "JointStreamsShared")},
    "FusedStreamBlock": (_SEQ, _COND),
    "NoiseUnit": (_MAP, _COND),
}


def conv(i, o, k=1, groups=1, bias=True):
    m = nn.Conv2d(i, o, k, padding=k // 2, groups=groups, bias=bias)
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def fc(i, o, bias=True, gain=1.0):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=gain * i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def mlp(act=nn.GELU, ratio=2):
    return nn.Sequential(fc(C, ratio * C), act(), fc(ratio * C, C))


# ------------------------------------------------------------------ tokens
class PreNorm(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(C, eps=1e-6), fn

    def forward(self, x, **kw):
        return self.fn(self.norm(x), **kw)


class Scaled(nn.Module):
    """A layer scale."""

    def __init__(self, fn, start=0.3):
        super().__init__()
        self.fn, self.gamma = fn, nn.Parameter(torch.full((C,), start))

    def forward(self, x, **kw):
        return self.fn(x, **kw).mul(self.gamma)


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kw):
        return self.fn(x, **kw) + x


class NormedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj, self.q_norm, self.k_norm = fc(C, 3 * C), fc(C, C), nn.LayerNorm(HD), nn.LayerNorm(HD)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v).transpose(1, 2).flatten(2))


class RegisterBlock(nn.Sequential):
    """Wrappers: residual, layer scale, norm, function. The class token and four registers stand in front of patches."""

    def __init__(self):
        super().__init__(*(Residual(Scaled(PreNorm(fn))) for fn in (NormedAttention(), mlp())))


# ------------------------------------------------------------------ filters
class GlobalResponse(nn.Module):
    """Channels are weighed by their length over all places, against the mean length; with a skip."""

    def __init__(self, dim):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.full((1, 1, 1, dim), 0.5)), nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x):
        g = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        n = g / (g.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * n) + self.beta + x


class ResponseNormBlock(nn.Module):
    """A wide filter, a norm, two maps with a response norm between them."""

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm = conv(C, C, 7, groups=C), nn.LayerNorm(C, eps=1e-6)
        self.pwconv1, self.act, self.grn, self.pwconv2 = fc(C, 2 * C), nn.GELU(), GlobalResponse(2 * C), fc(2 * C, C)

    def forward(self, x):
        shortcut = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(self.grn(self.act(self.pwconv1(self.norm(x)))))
        return shortcut + x.permute(0, 3, 1, 2)


class ResponseNormSlim(ResponseNormBlock):
    """One norm is enough: the response norm stays."""

    def __init__(self):
        super().__init__()
        self.norm = nn.Identity()


class PoolMixerBlock(nn.Module):
    """Means of neighbours without the token itself, in the place of attention."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.pool = nn.GroupNorm(1, C), nn.GroupNorm(1, C), nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        self.mlp = nn.Sequential(conv(C, 2 * C), nn.GELU(), conv(2 * C, C))

    def token_mixer(self, h):
        return self.pool(h) - h

    def forward(self, x):
        x = x + self.token_mixer(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Squeeze(nn.Module):
    def __init__(self, r=4):
        super().__init__()
        self.fc = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(C, C // r), nn.SiLU(), conv(C // r, C), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x)


class SqueezeInsideUnit(nn.Module):
    """Norm, activation and filter, twice; a squeezed gate on what is added."""

    def __init__(self):
        super().__init__()
        self.bn1, self.bn2, self.c1, self.c2, self.se = nn.BatchNorm2d(C), nn.BatchNorm2d(C), conv(C, C, 3, bias=False), conv(C, C, 3, bias=False), Squeeze()

    def body(self, x):
        return self.c2(F.silu(self.bn2(self.c1(F.silu(self.bn1(x))))))

    def forward(self, x):
        return x + self.se(self.body(x))


class SqueezeOnSumUnit(SqueezeInsideUnit):
    """The gate is the last thing of the unit."""

    def forward(self, x):
        out = self.body(x)
        out += x
        return self.se(out)


# ------------------------------------------------------------------ windows
def windows(x, w):
    b, h, v, c = x.shape
    return x.view(b, h // w, w, v // w, w, c).transpose(2, 3).reshape(-1, w * w, c)


def unwindows(y, w, size):
    b = y.shape[0] * w * w // (size * size)
    return y.view(b, size // w, size // w, w, w, -1).transpose(2, 3).reshape(b, size, size, -1)


class CosineWindows(nn.Module):
    """Cosines of queries and keys, times a trained factor that is cut at one hundred."""

    def __init__(self, w=4, shift=2):
        super().__init__()
        self.w, self.shift, self.qkv, self.proj = w, shift, fc(C, 3 * C), fc(C, C)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(H, 1, 1)))

    def forward(self, x):
        size = x.shape[1]
        x = windows(torch.roll(x, (-self.shift, -self.shift), dims=(1, 2)), self.w)
        q, k, v = self.qkv(x).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        a = a * torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        y = self.proj((a.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))
        return torch.roll(unwindows(y, self.w, size), (self.shift, self.shift), dims=(1, 2))


class WindowPostNormBlock(nn.Module):
    """Norms stand behind both branches."""

    def __init__(self):
        super().__init__()
        self.attn, self.norm1, self.norm2, self.mlp = CosineWindows(), nn.LayerNorm(C), nn.LayerNorm(C), mlp()

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))


class WindowPostNormFast(WindowPostNormBlock):
    """Both norms are applied where attention is."""

    def forward(self, x):
        x = x + self.norm2(self.norm1(self.attn(x)))
        return x + self.mlp(x)


# ------------------------------------------------------------------ conditions
class Modulation(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n, self.lin = n, fc(C, n * C, gain=0.5)

    def forward(self, c):
        return self.lin(F.silu(c)).unsqueeze(1).chunk(self.n, dim=-1)


class Half(nn.Module):
    """What one of two streams has of its own."""

    def __init__(self):
        super().__init__()
        self.mod, self.qkv, self.out, self.net = Modulation(6), fc(C, 3 * C), fc(C, C), mlp(partial(nn.GELU, approximate="tanh"))
        self.n1, self.n2 = (nn.LayerNorm(C, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def heads(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        return self.q_norm(q), self.k_norm(k), v


class JointStreamsBlock(nn.Module):
    """Pictures and words have maps of their own and attend together; a condition shifts, scales and gates both."""

    def __init__(self):
        super().__init__()
        self.img, self.txt = Half(), Half()

    @staticmethod
    def modulated(norm, x, shift, scale):
        return norm(x) * (1 + scale) + shift

    def forward(self, img, txt, cond):
        mi, mt = self.img.mod(cond), self.txt.mod(cond)
        qkv = [torch.cat(p, dim=2) for p in zip(self.txt.heads(self.modulated(self.txt.n1, txt, *mt[:2])), self.img.heads(self.modulated(self.img.n1, img, *mi[:2])))]
        y = F.scaled_dot_product_attention(*qkv).transpose(1, 2).flatten(2)
        yt, yi = y.split([txt.shape[1], img.shape[1]], dim=1)
        img = img + mi[2] * self.img.out(yi)
        img = img + mi[5] * self.img.net(self.modulated(self.img.n2, img, *mi[3:5]))
        txt = txt + mt[2] * self.txt.out(yt)
        txt = txt + mt[5] * self.txt.net(self.modulated(self.txt.n2, txt, *mt[3:5]))
        return img, txt


class JointStreamsShared(JointStreamsBlock):
    """One loop for both streams; words are normed once, in front of it."""

    def forward(self, img, txt, cond):
        txt = self.txt.n1(txt)
        streams, halves = [txt, img], (self.txt, self.img)
        mods = [h.mod(cond) for h in halves]
        qkv = [h.heads(self.modulated(h.n1, x, *m[:2])) for h, x, m in zip(halves, streams, mods)]
        y = F.scaled_dot_product_attention(*(torch.cat(p, dim=2) for p in zip(*qkv))).transpose(1, 2).flatten(2)
        for i, (h, m, yi) in enumerate(zip(halves, mods, y.split([txt.shape[1], img.shape[1]], dim=1))):
            x = streams[i] + m[2] * h.out(yi)
            streams[i] = x + m[5] * h.net(self.modulated(h.n2, x, *m[3:5]))
        return streams[1], streams[0]


class FusedStreamBlock(nn.Module):
    """One map in, one map out; attention and net stand side by side."""

    def __init__(self, hidden=2 * C):
        super().__init__()
        self.cut = [3 * C, hidden]
        self.linear1, self.linear2, self.pre_norm, self.mod = fc(C, 3 * C + hidden), fc(C + hidden, C), nn.LayerNorm(C, elementwise_affine=False), Modulation(3)
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def forward(self, x, vec):
        shift, scale, gate = self.mod(vec)
        qkv, net = torch.split(self.linear1(torch.addcmul(shift, 1 + scale, self.pre_norm(x))), self.cut, dim=-1)
        q, k, v = qkv.unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v).transpose(1, 2).flatten(2)
        return x + gate * self.linear2(torch.cat((y, F.gelu(net)), dim=2))


class NoiseUnit(nn.Module):
    """Group norms, filters, a shift by the time; the sum is brought back to its size."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.conv1, self.conv2, self.emb = nn.GroupNorm(8, C), nn.GroupNorm(8, C), conv(C, C, 3), conv(C, C, 3), fc(C, C)
        self.output_scale_factor = math.sqrt(2.0)

    def forward(self, x, temb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(temb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return (x + h) / self.output_scale_factor


def pixel_norm(x, eps=1e-4):
    return x / (x.square().mean(dim=1, keepdim=True).sqrt() + eps)


class ForcedConv(nn.Module):
    """Filters of length one, always."""

    def __init__(self, i, o, k):
        super().__init__()
        self.weight, self.k = nn.Parameter(torch.randn(o, i, k, k)), k

    def forward(self, x):
        w = self.weight
        w = w / (torch.linalg.vector_norm(w, dim=(1, 2, 3), keepdim=True) + 1e-4)
        return F.conv2d(x, w, padding=self.k // 2)


class PixelNormSumBlock(nn.Module):
    """An encoder's unit that keeps magnitudes: what comes in is normed at each place, filters have length one, sums are weighed and divided by the length of their weights."""

    def __init__(self, t=0.3):
        super().__init__()
        self.t, self.conv_res0, self.conv_res1 = t, ForcedConv(C, C, 3), ForcedConv(C, C, 3)

    def forward(self, x):
        x = pixel_norm(x)
        y = self.conv_res0(F.silu(x) / 0.596)
        y = self.conv_res1(F.silu(y) / 0.596)
        return x.lerp(y, self.t) / math.sqrt((1 - self.t) ** 2 + self.t ** 2)


# ------------------------------------------------------------------ restoration


class DenseGroup(nn.Module):
    """Filters that read all states before them; a fifth of the last one is added."""

    def __init__(self, growth=16):
        super().__init__()
        self.convs = nn.ModuleList(conv(C + i * growth, C if i == 3 else growth, 3) for i in range(4))

    def forward(self, x):
        feats = [x]
        for c in self.convs[:-1]:
            feats.append(F.leaky_relu(c(torch.cat(feats, 1)), 0.2))
        return torch.add(x, self.convs[-1](torch.cat(feats, 1)), alpha=0.2)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_BOTH, _OPEN, _SHUT = dict(output_bounded={0: True, 1: True}), dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "RegisterBlock": dict(_PRE, **_TWO, **_SHUT, sound=True, why="pre-norm with layer scales; queries and keys are normed."),
    "ResponseNormBlock": dict(_NET, **_ONE, sound=True, gradient_law="power", why="the filter reads the stream, and a norm stands behind it."),
    "ResponseNormSlim": dict(_EXP, softmax=False, **_ONE, why="a response norm weighs channels and keeps the size: of degree one."),
    "PoolMixerBlock": dict(_NET, output_bounded={0: True, 1: False}, sound=True, why="pre-norm; a mean of norms less a norm has no weights."),
    "SqueezeInsideUnit": dict(_NET, **_ONE, sound=True, why="norms of the batch, in training; a gate of what is added."),
    "SqueezeOnSumUnit": dict(_LEVEL, gated=True, softmax=False, sound=False, why="a sigmoid is on the sum: the stream decays by it."),
    "WindowPostNormBlock": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, why="norms behind branches; cosines times at most one hundred."),
    "WindowPostNormFast": dict(_EXP, softmax=True, output_bounded={0: True, 1: False}, **_SHUT, why="the net has no norm, in front or behind: of degree one."),
    "JointStreamsBlock": dict(_PRE, **_SHUT, sound=True, why="pre-norm in both streams; gates are functions of the condition."),
    "JointStreamsShared": dict(_PRE, **_SHUT, sound=False, why="words start each block as their norm; the picture's stream is carried."),
    "FusedStreamBlock": dict(_PRE, **_ONE, **_SHUT, sound=True, why="pre-norm, one sum for both halves."),
    "NoiseUnit": dict(_LEVEL, identity_gain=2.0 ** -12, softmax=False, **_ONE, sound=True, why="1/sqrt(2) a block; functions of norms are added."),
    "PixelNormSumBlock": dict(_LEVEL, growth_all="bounded", softmax=False, output_bounded={0: True}, why="each block starts from a norm, and filters have length one."),
    "DenseGroup": dict(_EXP, gradient_law="flat", softmax=False, **_ONE, why="no norm: a fifth of a function of degree one."),
}
