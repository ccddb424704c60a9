"""Pull requests on pictures and signals: filters, fusions, pools, norms of maps, recurrent cells, spectra, trends."""

from functools import reduce

import torch
from torch import nn
from torch.nn import functional as F

C, T = 32, 16
D = C

_G = torch.Generator().manual_seed(225)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _COND = _draw(2, C, 8, 8), _draw(2, T, D), _draw(2, D)
example_inputs = {
    **{k: (_MAP,) for k in ("NonLocal", "GlobalContext", "DenseInDense", "SlidingDense", "CrossStage", "FastFusion", "PoolMixing", "AttentionModule", "PositionByConv", "PositionByNormedConv", "PlaneNorm",
                            "SimpleGated", "Hierarchical", "ChannelsAttend", "LargeKernel", "ShortcutAfterAct")},
    **{k: (_MAP, _COND) for k in ("TimeResBlock", "TimeResBlockV2")},
    **{k: (_SEQ,) for k in ("SimpleRecurrent", "NormedMinLstm", "OpenDecay", "WavePhase", "MixerOfNormed", "SmoothedTrend", "ClosedSweep", "SpectralGate")},
}


def conv(i, o, k=1, gain=1.0, **kw):
    m = nn.Conv2d(i, o, k, padding=k // 2, bias=kw.pop("bias", False), **kw)
    fan = m.weight[0].numel()
    nn.init.normal_(m.weight, std=gain * fan ** -0.5)
    return m


def linear(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def ffn(d=D, r=2, act=nn.GELU):
    return nn.Sequential(linear(d, r * d), act(), linear(r * d, d))


# ------------------------------------------------------------------ pictures
class NonLocal(nn.Module):
    """Places look at places, as they are; a batch norm is behind the last map."""

    def __init__(self, inner=16):
        super().__init__()
        self.theta, self.phi, self.g = conv(C, inner), conv(C, inner), conv(C, inner)
        self.w = nn.Sequential(conv(inner, C), nn.BatchNorm2d(C))

    def forward(self, x):
        q, k, v = (m(x).flatten(2) for m in (self.theta, self.phi, self.g))
        f = torch.softmax(torch.bmm(q.transpose(1, 2), k), dim=-1)
        y = torch.bmm(f, v.transpose(1, 2)).transpose(1, 2).contiguous().view(x.size(0), -1, *x.shape[2:])
        return self.w(y) + x


class GlobalContext(nn.Module):
    """One summary of all places, by shares, through a bottleneck with a norm, is added everywhere."""

    def __init__(self, r=8):
        super().__init__()
        self.mask = conv(C, 1, bias=True)
        self.add = nn.Sequential(conv(C, r, bias=True), nn.LayerNorm([r, 1, 1]), nn.ReLU(inplace=True), conv(r, C, bias=True))

    def forward(self, x):
        shares = self.mask(x).flatten(2).softmax(-1)
        context = torch.matmul(x.flatten(2).unsqueeze(1), shares.unsqueeze(-1)).view(x.shape[0], C, 1, 1)
        return x + self.add(context)


class DenseInDense(nn.Module):
    """Dense filters with slopes, a fifth of which is added, twice; and a fifth of both."""

    def __init__(self, growth=16):
        super().__init__()
        self.stages = nn.ModuleList(nn.ModuleList([conv(C + i * growth, growth if i < 2 else C, 3, gain=1.4) for i in range(3)]) for _ in range(2))

    def dense(self, x, convs):
        feats = [x]
        for m in convs[:-1]:
            feats.append(F.leaky_relu(m(torch.cat(feats, 1)), 0.2))
        return x + 0.2 * convs[-1](torch.cat(feats, 1))

    def forward(self, x):
        y = reduce(self.dense, self.stages, x)
        return x + 0.2 * y


class SlidingDense(nn.Module):
    """Eight new channels come in, and the eight oldest go."""

    def __init__(self, k=8):
        super().__init__()
        self.k, self.body = k, nn.Sequential(nn.BatchNorm2d(C), nn.ReLU(), conv(C, k, 3))

    def forward(self, x):
        return torch.cat((x[:, self.k:], self.body(x)), dim=1)


class CBS(nn.Sequential):
    def __init__(self, i, o, k=1):
        super().__init__(conv(i, o, k), nn.BatchNorm2d(o), nn.SiLU())


class CrossStage(nn.Module):
    """Two halves, one of which goes by two bottlenecks; all states are joined by one filter with a norm."""

    def __init__(self):
        super().__init__()
        self.cv1, self.cv2 = CBS(C, C), CBS(2 * C, C)
        self.m = nn.ModuleList(nn.Sequential(CBS(C // 2, C // 2, 3), CBS(C // 2, C // 2, 3)) for _ in range(2))

    def forward(self, x):
        y = list(self.cv1(x).chunk(2, 1))
        for m in self.m:
            y.append(y[-1] + m(y[-1]))
        return self.cv2(torch.cat(y, 1))


class FastFusion(nn.Module):
    """Two trained numbers that are not negative, over their sum, for what comes and what is new."""

    def __init__(self):
        super().__init__()
        self.w, self.body = nn.Parameter(torch.ones(2)), nn.Sequential(nn.SiLU(), conv(C, C, 3), nn.BatchNorm2d(C))

    def forward(self, x):
        w = F.relu(self.w)
        w = w / (w.sum() + 1e-4)
        return w[0] * x + w[1] * self.body(x)


class PoolMixing(nn.Module):
    """Pooling mixes places, less the place itself; then a net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.pool = nn.GroupNorm(1, C), nn.GroupNorm(1, C), nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.mlp = nn.Sequential(conv(C, 2 * C), nn.GELU(), conv(2 * C, C))

    def mixer(self, x):
        return self.pool(self.norm1(x)) - x

    def forward(self, x):
        x = x + self.mixer(x)
        return x + self.mlp(self.norm2(x))


class AttentionModule(nn.Module):
    """Two filters with norms, then shares of channels and of places."""

    def __init__(self, r=4):
        super().__init__()
        self.body = nn.Sequential(conv(C, C, 3), nn.BatchNorm2d(C), nn.ReLU(), conv(C, C, 3), nn.BatchNorm2d(C))
        self.channel, self.spatial = nn.Sequential(conv(C, C // r), nn.ReLU(), conv(C // r, C)), conv(2, 1, 7)

    def forward(self, x):
        y = self.body(x)
        y = y * torch.sigmoid(self.channel(y.mean((2, 3), keepdim=True)) + self.channel(y.amax((2, 3), keepdim=True)))
        y = y * torch.sigmoid(self.spatial(torch.cat((y.mean(1, keepdim=True), y.amax(1, keepdim=True)), 1)))
        return x + y


class PositionByConv(nn.Module):
    """A filter a channel tells places where they are; then a net with a norm."""

    def __init__(self):
        super().__init__()
        self.pos_embed, self.norm, self.mlp = nn.Conv2d(C, C, 3, padding=1, groups=C), nn.BatchNorm2d(C), nn.Sequential(conv(C, 2 * C), nn.GELU(), conv(2 * C, C))

    def forward(self, x):
        x = x + self.pos_embed(x)
        return x + self.mlp(self.norm(x))


class PositionByNormedConv(PositionByConv):
    """The filter reads what is normed, and the net the same norm's module."""

    def forward(self, x):
        x = x + self.pos_embed(self.norm(x))
        return x + self.mlp(self.norm(x))


class PlaneNorm(nn.Module):
    """A norm over the last two dims, of channels first."""

    def __init__(self):
        super().__init__()
        self.dw, self.pw1, self.pw2 = conv(C, C, 7, groups=C), linear(C, 2 * C), linear(2 * C, C)

    def forward(self, x):
        h = self.dw(x)
        h = F.layer_norm(h, h.shape[-2:]).permute(0, 2, 3, 1)
        h = self.pw2(F.gelu(self.pw1(h)))
        return x + h.permute(0, 3, 1, 2)


class SimpleGated(nn.Module):
    """No activation but products of halves; two trained scales."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm2d(C), LayerNorm2d(C)
        self.conv1, self.conv2, self.conv3, self.sca = conv(C, 2 * C), conv(2 * C, 2 * C, 3, groups=2 * C), conv(C, C), conv(C, C)
        self.conv4, self.conv5 = conv(C, 2 * C), conv(C, C)
        self.beta, self.gamma = (nn.Parameter(torch.full((1, C, 1, 1), 0.5)) for _ in range(2))

    @staticmethod
    def gate(x):
        a, b = x.chunk(2, dim=1)
        return a * b

    def forward(self, inp):
        x = self.gate(self.conv2(self.conv1(self.norm1(inp))))
        x = x * self.sca(F.adaptive_avg_pool2d(x, 1))
        y = inp + self.conv3(x) * self.beta
        x = self.conv5(self.gate(self.conv4(self.norm2(y))))
        return y + x * self.gamma


class Hierarchical(nn.Module):
    """Four groups of channels, each one filtered with the result of the one before."""

    def __init__(self, s=4):
        super().__init__()
        self.s = s
        self.inp, self.out = nn.Sequential(conv(C, C), nn.BatchNorm2d(C), nn.ReLU()), nn.Sequential(conv(C, C), nn.BatchNorm2d(C))
        self.convs = nn.ModuleList(nn.Sequential(conv(C // s, C // s, 3), nn.BatchNorm2d(C // s), nn.ReLU()) for _ in range(s - 1))

    def forward(self, x):
        first, *groups = self.inp(x).chunk(self.s, dim=1)
        out, last = [first], 0
        for g, m in zip(groups, self.convs):
            last = m(g + last)
            out.append(last)
        return x + self.out(torch.cat(out, dim=1))


class ChannelsAttend(nn.Module):
    """Channels look at channels: cosines over places; then a net with a gate."""

    def __init__(self, heads=4):
        super().__init__()
        self.h = heads
        self.norm1, self.norm2, self.qkv, self.dw, self.out = LayerNorm2d(C), LayerNorm2d(C), conv(C, 3 * C), conv(3 * C, 3 * C, 3, groups=3 * C), conv(C, C)
        self.up, self.updw, self.down = conv(C, 4 * C), conv(4 * C, 4 * C, 3, groups=4 * C), conv(2 * C, C)

    def attend(self, x):
        q, k, v = (t.flatten(2).unflatten(1, (self.h, -1)) for t in self.dw(self.qkv(x)).chunk(3, dim=1))
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        return self.out((s.softmax(dim=-1) @ v).flatten(1, 2).view_as(x))

    def net(self, x):
        a, b = self.updw(self.up(x)).chunk(2, dim=1)
        return self.down(F.gelu(a) * b)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.net(self.norm2(x))


class LargeKernel(nn.Module):
    """What a large and a dilated filter say is multiplied with what they read; the first map is ahead of the norm."""

    def __init__(self):
        super().__init__()
        self.proj1, self.proj2, self.norm = conv(C, C), conv(C, C), nn.BatchNorm2d(C)
        self.near, self.far, self.point = conv(C, C, 5, groups=C), nn.Conv2d(C, C, 7, padding=9, dilation=3, groups=C), conv(C, C)

    def forward(self, x):
        u = F.gelu(self.proj1(x))
        a = self.point(self.far(self.near(self.norm(u))))
        return x + self.proj2(u * torch.sigmoid(a))


class ShortcutAfterAct(nn.Module):
    """Norm and activation in front of both ways, as where the width changes."""

    def __init__(self):
        super().__init__()
        self.bn1, self.bn2, self.conv1, self.conv2 = nn.BatchNorm2d(C), nn.BatchNorm2d(C), conv(C, C, 3), conv(C, C, 3)

    def forward(self, x):
        o = F.relu(self.bn1(x))
        return o + self.conv2(F.relu(self.bn2(self.conv1(o))))


class TimeResBlock(nn.Module):
    """A filter, a time, and at the end a group norm of what is added."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.time, self.norm = conv(C, C, 3), conv(C, C, 3), linear(D, C), nn.GroupNorm(8, C)

    def forward(self, x, t):
        h = F.silu(self.conv1(x)) + self.time(F.silu(t))[:, :, None, None]
        return x + self.norm(self.conv2(F.silu(h)))


class TimeResBlockV2(TimeResBlock):
    """The norm has gone to the second filter's input, behind the sum with the time."""

    def forward(self, x, t):
        h = self.conv1(F.silu(x)) + self.time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm(h)))


# ------------------------------------------------------------------ signals
class SimpleRecurrent(nn.Module):
    """Gates know nothing of the state; a second gate is between a tanh of the state and what comes in."""

    def __init__(self):
        super().__init__()
        self.maps = linear(D, 3 * D)

    def forward(self, x):
        z, f, r = self.maps(x).chunk(3, dim=-1)
        f, r = torch.sigmoid(f), torch.sigmoid(r)
        c, cells = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            c = f[:, t] * c + (1 - f[:, t]) * z[:, t]
            cells.append(c)
        return r * torch.tanh(torch.stack(cells, 1)) + (1 - r) * x


class NormedMinLstm(nn.Module):
    """Two gates over their sum, behind a norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.fih, self.out = nn.RMSNorm(D), linear(D, 3 * D), linear(D, D)

    def forward(self, x):
        f, i, h = self.fih(self.norm(x)).chunk(3, -1)
        f, i = f.sigmoid(), i.sigmoid()
        total = f + i
        state, out = torch.zeros_like(h[:, 0]), []
        for ft, it, ht in zip((f / total).unbind(1), (i / total).unbind(1), h.unbind(1)):
            state = torch.addcmul(it * ht, ft, state)
            out.append(state)
        return x + self.out(torch.stack(out, 1))


class OpenDecay(nn.Module):
    """Decays are exponents of a softplus times a rate; both ways of time; what comes in is not normed, what goes out is."""

    def __init__(self):
        super().__init__()
        self.dt, self.inp, self.out, self.rate, self.norm = linear(D, D), linear(D, 2 * D), linear(D, D), nn.Parameter(torch.rand(D).log()), nn.GroupNorm(4, D)

    def scan(self, u, a):
        s, ys = torch.zeros_like(u[:, 0]), []
        for ut, at in zip(u.unbind(1), a.unbind(1)):
            s = at * s + ut
            ys.append(s)
        return torch.stack(ys, 1)

    def forward(self, x):
        u, z = self.inp(x).chunk(2, -1)
        a = torch.exp(-F.softplus(self.dt(x)) * self.rate.exp())
        y = self.scan(u, a) + self.scan(u.flip(1), a.flip(1)).flip(1)
        y = self.norm(y.flatten(0, 1)).view_as(y)
        return x + self.out(y * torch.sigmoid(z))


class WavePhase(nn.Module):
    """Amplitudes by cosines and sines of phases go through a map over places."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.theta, self.amp, self.mix, self.proj, self.net = nn.LayerNorm(D), nn.LayerNorm(D), linear(D, D), linear(D, D), linear(2 * T, T), linear(D, D), ffn()

    def wave(self, h):
        theta, amp = F.relu(self.theta(h)), self.amp(h)
        both = torch.cat((amp * theta.cos(), amp * theta.sin()), dim=1)
        return self.proj(self.mix(both.mT).mT)

    def forward(self, x):
        x = x + self.wave(self.norm1(x))
        return x + self.net(self.norm2(x))


class MixerOfNormed(nn.Module):
    """Each half gives back its norm, too."""

    def __init__(self):
        super().__init__()
        self.norms, self.tokens, self.channels = nn.ModuleList([nn.LayerNorm(D), nn.LayerNorm(D)]), ffn(T), ffn(D)

    def forward(self, x):
        y = self.norms[0](x).transpose(1, 2)
        y = y + self.tokens(y)
        x = x + y.transpose(1, 2)
        y = self.norms[1](x)
        return x + (y + self.channels(y))


class ClosedSweep(nn.Module):
    """A filter along time, in its gain kept below one by the sum of its taps; half of it takes the place of half of the stream; then a net."""

    def __init__(self, k=3):
        super().__init__()
        self.taps, self.norm, self.ff = nn.Parameter(torch.randn(D, 1, k)), nn.LayerNorm(D), ffn()

    def forward(self, x):
        w = self.taps / self.taps.abs().sum(-1, keepdim=True)
        y = F.conv1d(F.pad(x.mT, (2, 0)), w, groups=D).mT
        x = 0.5 * x + 0.5 * y
        return x + self.ff(self.norm(x))


class SpectralGate(nn.Module):
    """A gate a frequency and a channel, on the spectrum of what is normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.re, self.im, self.norm2, self.ff = nn.LayerNorm(D), nn.Parameter(torch.randn(T // 2 + 1, D)), nn.Parameter(torch.randn(T // 2 + 1, D)), nn.LayerNorm(D), ffn()

    def forward(self, x):
        spectrum = torch.fft.rfft(self.norm(x), dim=1, norm="ortho")
        x = x + torch.fft.irfft(spectrum * torch.complex(self.re, self.im), n=x.shape[1], dim=1, norm="ortho")
        return x + self.ff(self.norm2(x))


class SmoothedTrend(nn.Module):
    """A moving mean is taken away, a net reads what is left, and the mean comes back."""

    def __init__(self, k=5):
        super().__init__()
        self.k, self.norm, self.ff = k, nn.LayerNorm(D), ffn()

    def forward(self, x):
        pad = F.pad(x.mT, (self.k // 2, self.k // 2), mode="replicate")
        trend = F.avg_pool1d(pad, self.k, stride=1).mT
        season = x - trend
        season = season + self.ff(self.norm(season))
        return season + trend


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_BOUND, _OPEN = dict(output_bounded={0: True}, growth_all="linear"), dict(logits_bounded={0: False})
TRUTH = {
    "NonLocal": dict(_PRE, **_BOUND, **_OPEN, sound=True, why="what is added is a batch norm, in training; scores are products of the stream."),
    "GlobalContext": dict(_PRE, **_ONE, **_OPEN, sound=True, why="a map of a norm is added; scores are maps of the stream."),
    "DenseInDense": dict(_EXP, softmax=False, why="the stream and a fifth of it and of what has degree one: at least 1.2 a block for what filters let be."),
    "SlidingDense": dict(_LEVEL, softmax=False, why="after four blocks all channels are maps of norms."),
    "CrossStage": dict(_LEVEL, softmax=False, why="each block ends in a batch norm."),
    "FastFusion": dict(_LEVEL, identity_gain=2.0 ** -24, growth_all="bounded", output_bounded={0: True}, softmax=False, sound=False, why="a half is kept at the start; shares of the stream and of a norm are never above the larger of both."),
    "PoolMixing": dict(_LEVEL, softmax=False, sound=False, why="what is taken away is the stream and not its norm: pools of norms are left."),
    "AttentionModule": dict(_NET, **_BOUND, sound=True, why="a batch norm, in training, times shares."),
    "PositionByConv": dict(_EXP, softmax=False, **_TWO, why="the identity and a filter on the stream: of degree one."),
    "PositionByNormedConv": dict(_NET, **_TWO, sound=True, why="pre-norm."),
    "PlaneNorm": dict(_NET, **_ONE, sound=True, why="each channel of a picture is normed over its places: at most eight an entry."),
    "SimpleGated": dict(_NET, sound=True, why="pre-norm; products of maps of norms."),
    "Hierarchical": dict(_NET, **_BOUND, sound=True, why="what is added is a batch norm, in training."),
    "ChannelsAttend": dict(_PRE, **_TWO, logits_bounded={0: True}, sound=True, why="pre-norm; scores are cosines."),
    "LargeKernel": dict(_EXP, softmax=False, **_ONE, why="what the gate lets through is of degree one."),
    "ShortcutAfterAct": dict(_LEVEL, softmax=False, sound=False, why="the sum starts from a ReLU of a norm: nothing is carried."),
    "TimeResBlock": dict(_NET, **_BOUND, sound=True, why="what is added is a group norm."),
    "TimeResBlockV2": dict(_NET, **_ONE, sound=True, why="a group norm in front of the last filter."),
    "SimpleRecurrent": dict(_LEVEL, growth_all="bounded", gated=True, softmax=False, sound=True, why="a gated mean of a tanh and of what came: never above the larger one of it and one."),
    "NormedMinLstm": dict(_NET, **_ONE, sound=True, why="pre-norm; gated means of maps of norms."),
    "OpenDecay": dict(_NET, **_ONE, sound=True, why="a group norm and a share in front of the last map."),
    "WavePhase": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm."),
    "MixerOfNormed": dict(_NET, **_TWO, sound=True, gradient_law="power", why="norms and functions of norms are added."),
    "ClosedSweep": dict(_LEVEL, softmax=False, why="a triangular matrix over places whose diagonal is (1 + w) / 2, |w| < 1: powers of it die away, and steps are functions of norms."),
    "SpectralGate": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm."),
    "SmoothedTrend": dict(_NET, **_ONE, sound=True, why="the season and the trend are the stream; a function of a norm is added."),
}
