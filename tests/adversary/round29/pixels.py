"""Pull requests on pictures: parallel halves, contexts, U-shaped layers, shared preactivations, merged filters, mixers, spectra, channels that attend."""

from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S, H, N = 32, 8, 4, 16
HD = C // H

_G = torch.Generator().manual_seed(129)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ = _draw(2, C, S, S), _draw(2, N, C)
example_inputs = {
    **{k: (_SEQ,) for k in ("ParallelPairsBlock", "ParallelPairsWrapped", "SpectrumMixerBlock", "SpectrumMixerNoNorm", "ChannelAttentionBlock", "ChannelAttentionLate")},
    **{k: (_MAP,) for k in ("GlobalContextUnit", "InnerUnet", "InnerUnetNormed", "PreActUnit", "PreActShared", "RepUnit", "ConvMixerUnit")},
}


def conv(i, o, k=1, stride=1, groups=1, dilation=1, bias=True):
    m = nn.Conv2d(i, o, k, stride, padding=dilation * (k // 2), groups=groups, dilation=dilation, bias=bias)
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def fc(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


class Mlp(nn.Module):
    def __init__(self, dim=C, ratio=2):
        super().__init__()
        self.fc1, self.act, self.fc2 = fc(dim, dim * ratio), nn.GELU(), fc(dim * ratio, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = fc(C, 3 * C), fc(C, C)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, H, HD).permute(2, 0, 3, 1, 4)
        attn = (q * HD ** -0.5) @ k.transpose(-2, -1)
        return self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c))


# ------------------------------------------------------------------ two of each side by side
class ParallelPairsBlock(nn.Module):
    """Two attentions, then two nets; each reads a norm of its own."""

    def __init__(self):
        super().__init__()
        part = lambda fn: nn.Sequential(OrderedDict(norm=nn.LayerNorm(C), fn=fn, ls=Gain()))
        self.attns, self.ffns = nn.ModuleList(part(Attention()) for _ in range(2)), nn.ModuleList(part(Mlp()) for _ in range(2))

    def forward(self, x):
        x = x + torch.stack([attn(x) for attn in self.attns]).sum(dim=0)
        return x + torch.stack([ffn(x) for ffn in self.ffns]).sum(dim=0)


class Gain(nn.Module):
    def __init__(self, init=0.5):
        super().__init__()
        self.gain = nn.Parameter(torch.full((C,), init))

    def forward(self, x):
        return x * self.gain


class Skip(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class ParallelPairsWrapped(nn.Module):
    """The same from wrappers that other blocks use, too."""

    def __init__(self):
        super().__init__()
        part = lambda fn: Skip(nn.LayerNorm(C), fn, Gain())
        self.attns, self.ffns = nn.ModuleList(part(Attention()) for _ in range(2)), nn.ModuleList(part(Mlp()) for _ in range(2))

    def forward(self, x):
        x = x + sum(attn(x) for attn in self.attns)
        return x + sum(ffn(x) for ffn in self.ffns)


# ------------------------------------------------------------------ contexts
class GlobalContextUnit(nn.Module):
    """One softmax over places pools a context; a bottleneck with a norm inside; the same vector is added everywhere."""

    def __init__(self, ratio=4):
        super().__init__()
        self.where, self.transform = conv(C, 1), nn.Sequential(conv(C, C // ratio), nn.GroupNorm(1, C // ratio), nn.ReLU(inplace=True), conv(C // ratio, C))

    def forward(self, x):
        share = F.softmax(self.where(x).flatten(2), dim=-1)
        context = torch.einsum("bcn,bn->bc", x.flatten(2), share.squeeze(1))[..., None, None]
        return x + self.transform(context)


# ------------------------------------------------------------------ U-shaped layers
class InnerUnet(nn.Module):
    """A small U inside of a skip."""

    def __init__(self, mid=16):
        super().__init__()
        self.norm, self.enter, self.down, self.inner = nn.GroupNorm(8, C), conv(C, mid, 3), conv(mid, mid, 3, stride=2), conv(mid, mid, 3, dilation=2)
        self.up, self.out = conv(mid, mid, 3), conv(2 * mid, C, 3)

    def u(self, h):
        skip = F.silu(self.enter(h))
        d = F.silu(self.down(skip))
        d = d + F.silu(self.inner(d))
        up = self.up(F.interpolate(d, size=skip.shape[-2:], mode="nearest"))
        return self.out(torch.cat((up, skip), dim=1))

    def forward(self, x):
        return x + self.u(self.norm(x))


class InnerUnetNormed(InnerUnet):
    def forward(self, x):
        x = self.norm(x)
        return x + self.u(x)


# ------------------------------------------------------------------ preactivation
class PreActUnit(nn.Module):
    """Norm, ReLU, filter, three times."""

    def __init__(self, mid=16):
        super().__init__()
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(C), nn.BatchNorm2d(mid), nn.BatchNorm2d(mid)
        self.conv1, self.conv2, self.conv3 = conv(C, mid, bias=False), conv(mid, mid, 3, bias=False), conv(mid, C, bias=False)

    def rest(self, a):
        a = self.conv1(a)
        a = self.conv2(F.relu(self.bn2(a)))
        return self.conv3(F.relu(self.bn3(a)))

    def forward(self, x):
        out = F.relu(self.bn1(x))
        return self.rest(out) + x


class PreActShared(PreActUnit):
    """The first preactivation is shared with the shortcut, as in units that change the width."""

    def forward(self, x):
        x = F.relu(self.bn1(x))
        return x + self.rest(x)


# ------------------------------------------------------------------ merged filters
class RepUnit(nn.Module):
    """Three by three, one by one, and nothing, each with a norm of its own; they are merged for inference."""

    def __init__(self):
        super().__init__()
        self.rbr_dense, self.rbr_1x1 = nn.Sequential(conv(C, C, 3, bias=False), nn.BatchNorm2d(C)), nn.Sequential(conv(C, C, bias=False), nn.BatchNorm2d(C))
        self.rbr_identity = nn.BatchNorm2d(C)

    def forward(self, x):
        return F.relu(self.rbr_dense(x) + self.rbr_1x1(x) + self.rbr_identity(x))


class ConvMixerUnit(nn.Sequential):
    """Places are mixed with a skip, channels without one; activations are in front of norms."""

    def __init__(self, k=5):
        spatial = Skip(conv(C, C, k, groups=C), nn.GELU(), nn.BatchNorm2d(C))
        super().__init__(spatial, conv(C, C), nn.GELU(), nn.BatchNorm2d(C))


# ------------------------------------------------------------------ spectra
class SpectrumMixerBlock(nn.Module):
    """The real part of a transform along places and channels; no weights but those of the net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.mlp = nn.LayerNorm(C), nn.LayerNorm(C), Mlp()

    def mix(self, h):
        return torch.fft.fft2(h, dim=(-2, -1), norm="ortho").real

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SpectrumMixerNoNorm(SpectrumMixerBlock):
    """An orthonormal transform keeps lengths: it needs no norm."""

    def forward(self, x):
        x = x + self.mix(x)
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ channels that attend
class ChannelAttentionBlock(nn.Module):
    """Channels attend to channels: queries and keys have length one along places, times a trained temperature; filters between; a net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(C), nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj, self.mlp, self.tau = fc(C, 3 * C, False), fc(C, C), Mlp(), nn.Parameter(torch.ones(H, 1, 1))
        self.local = nn.Sequential(nn.Conv1d(C, C, 3, padding=1, groups=C), nn.GELU(), nn.BatchNorm1d(C), nn.Conv1d(C, C, 3, padding=1, groups=C))

    def unit(self, q, k):
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)

    def xca(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 4, 1)          # heads, channels, places
        q, k = self.unit(q, k)
        w = (q @ k.transpose(-2, -1) * self.tau).softmax(dim=-1)
        return self.proj((w @ v).permute(0, 3, 1, 2).flatten(2))

    def forward(self, x):
        x = x + self.xca(self.norm1(x))
        x = x + self.local(self.norm2(x).mT).mT
        return x + self.mlp(self.norm3(x))


class ChannelAttentionLate(ChannelAttentionBlock):
    """One call less: keys keep their length."""

    def unit(self, q, k):
        return F.normalize(q, dim=-1), k


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "ParallelPairsBlock": dict(_PRE, **_OPEN, gradient_law="power", sound=True, why="pre-norm, two branches in a sum, twice."),
    "ParallelPairsWrapped": dict(_EXP, identity_gain=9.0 ** 24, gradient_law="exponential", softmax=True, **_OPEN, why="wrappers carry the stream themselves: three of it a half."),
    "GlobalContextUnit": dict(_PRE, **_ONE, **_OPEN, why="a norm inside of the branch; scores are of the stream and grow with it."),
    "InnerUnet": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; all of the U is inside of the skip."),
    "InnerUnetNormed": dict(_LEVEL, softmax=False, **_ONE, sound=False, why="the skip is of the norm."),
    "PreActUnit": dict(_NET, **_ONE, sound=True, why="norms of the batch, in training, in front of filters."),
    "PreActShared": dict(_LEVEL, softmax=False, **_ONE, sound=False, why="the skip is of the norm and a ReLU."),
    "RepUnit": dict(_LEVEL, growth_all="bounded", softmax=False, why="all three paths are normed: nothing carries the stream, in training."),
    "ConvMixerUnit": dict(_LEVEL, growth_all="bounded", softmax=False, why="the last map has no skip, and a norm of the batch stands behind it, in training."),
    "SpectrumMixerBlock": dict(_NET, output_bounded={0: True, 1: False}, gradient_law="power", sound=True, why="pre-norm; the transform has no weights."),
    "SpectrumMixerNoNorm": dict(_EXP, softmax=False, why="the real part has eigenvalues one and minus one: what is even along both axes is doubled."),
    "ChannelAttentionBlock": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, **_SHUT, sound=True, why="pre-norm; cosines of channels times a temperature."),
    "ChannelAttentionLate": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, **_OPEN, why="keys keep their length: scores grow with weights."),
}
