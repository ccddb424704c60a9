"""Pull requests on speech, series and states over time: bypasses, gated waves with sums for the end, backcasts, matrices of memory, scores that are handed on, highways of recurrences."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(231)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _WAVE = _draw(2, T, D), _draw(2, D, 24)
example_inputs = {
    **{k: (_X,) for k in ("BypassLayer", "MatrixMemoryLayer", "MatrixMemoryLayerInner", "HighwayRecurrentLayer")},
    **{k: (_WAVE, torch.zeros(2, D, 24)) for k in ("GatedWaveUnit", "GatedWaveUnitLinear")},
    "BackcastUnit": (_draw(8, 24), torch.zeros(8, 6)),
    "ScorePassingLayer": (_X, torch.zeros(2, H, T, T)),
}


def mapped(n_in, n_out, bias=True):
    m = nn.Linear(n_in, n_out, bias)
    nn.init.normal_(m.weight, std=1.0 / n_in ** 0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def filt(i, o, k=1, **kw):
    m = nn.Conv1d(i, o, k, **kw)
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    nn.init.zeros_(m.bias)
    return m


class Net(nn.Sequential):
    def __init__(self, hidden=64, act=nn.SiLU):
        super().__init__(mapped(D, hidden), act(), mapped(hidden, D))


# ------------------------------------------------------------------ bypasses
class BiasNorm(nn.Module):
    """The length is that of what is left of a trained vector; one trained factor."""

    def __init__(self, dim):
        super().__init__()
        self.gain_bias, self.gain_log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        scales = ((x - self.gain_bias) ** 2).mean(dim=-1, keepdim=True) ** -0.5 * self.gain_log_scale.exp()
        return x * scales


class BypassLayer(nn.Module):
    """Branches read the sum as it is, one norm at the end, and then half the way back to what came in."""

    def __init__(self, keep=0.5):
        super().__init__()
        self.keep, self.ff1, self.ff2, self.conv, self.norm = keep, Net(48), Net(64), filt(D, D, 5, padding=2, groups=D), BiasNorm(D)
        self.weights, self.values, self.out = mapped(D, 2 * D), mapped(D, D), mapped(D, D)

    def attn(self, src):
        q, k = self.weights(src).unflatten(-1, (2, H, HD)).permute(2, 0, 3, 1, 4)
        a = (q @ k.mT * HD ** -0.5).softmax(dim=-1)
        v = self.values(src).unflatten(-1, (H, HD)).transpose(1, 2)
        return self.out((a @ v).transpose(1, 2).flatten(2))

    def forward(self, src):
        src_orig = src
        src = src + self.ff1(src)
        src = src + self.attn(src)
        src = src + self.conv(src.transpose(1, 2)).transpose(1, 2)
        src = src + self.ff2(src)
        src = self.norm(src)
        return src_orig + (src - src_orig) * self.keep


# ------------------------------------------------------------------ gated waves
class GatedWaveUnit(nn.Module):
    """A dilated filter, a tanh times a sigmoid; one map goes on, another one is summed for the end."""

    def __init__(self, kernel=2, dilation=4):
        super().__init__()
        self.pad = (kernel - 1) * dilation
        self.dilated, self.res, self.skip = filt(D, 2 * D, kernel, dilation=dilation), filt(D, D), filt(D, D)

    def gated(self, x):
        a, b = self.dilated(F.pad(x, (self.pad, 0))).chunk(2, dim=1)
        return torch.tanh(a) * torch.sigmoid(b)

    def forward(self, x, total):
        z = self.gated(x)
        return x + self.res(z), total + self.skip(z)


class GatedWaveUnitLinear(GatedWaveUnit):
    """Gated linear units, which train faster."""

    def gated(self, x):
        return F.glu(self.dilated(F.pad(x, (self.pad, 0))), dim=1)


# ------------------------------------------------------------------ backcasts
class BackcastUnit(nn.Module):
    """What a net of the series explains of it is taken off; its forecast is added to the ones before."""

    def __init__(self, back=24, ahead=6, hidden=48):
        super().__init__()
        self.fcs = nn.Sequential(mapped(back, hidden), nn.ReLU(), mapped(hidden, hidden), nn.ReLU())
        self.theta_b, self.theta_f = mapped(hidden, 8, False), mapped(hidden, 8, False)
        self.backcast, self.forecast = mapped(8, back), mapped(8, ahead)

    def forward(self, series, forecast):
        h = self.fcs(series)
        return series - self.backcast(self.theta_b(h)), forecast + self.forecast(self.theta_f(h))


# ------------------------------------------------------------------ matrices of memory
class MatrixMemoryLayer(nn.Module):
    """Keys and values in a matrix a head, with exponential gates that are kept in the log; what is read is divided by a sum of keys, normed, and gated."""

    def __init__(self, inner=48, heads=4):
        super().__init__()
        self.h, self.norm, self.up, self.down = heads, nn.LayerNorm(D), mapped(D, 2 * inner, False), mapped(inner, D, False)
        self.conv, self.qk, self.v, self.gates = filt(inner, inner, 4, groups=inner, padding=3), mapped(inner, 2 * inner, False), mapped(inner, inner, False), mapped(inner, 2 * heads)
        self.outnorm, self.gain_skip = nn.GroupNorm(heads, inner), nn.Parameter(torch.ones(inner))

    def memory(self, u, c):
        b, t, n = u.shape
        split = lambda y: y.view(b, t, self.h, -1).transpose(1, 2)
        q, k = map(split, self.qk(c).chunk(2, dim=-1))
        v = split(self.v(u))
        i, f = self.gates(u).transpose(1, 2).chunk(2, dim=1)
        past = F.logsigmoid(f).cumsum(-1)
        log_d = past[..., :, None] - past[..., None, :] + i[..., None, :]
        log_d = log_d.masked_fill(torch.ones(t, t, dtype=torch.bool, device=u.device).triu(1), float("-inf"))
        m = log_d.amax(dim=-1, keepdim=True)
        s = (q @ k.mT) * k.shape[-1] ** -0.5 * torch.exp(log_d - m)
        s = s / (torch.maximum(s.sum(-1, keepdim=True).abs(), torch.exp(-m)) + 1e-6)
        y = (s @ v).transpose(1, 2).reshape(b * t, n)
        return self.outnorm(y).view(b, t, n)

    def cell(self, h):
        u, z = self.up(h).chunk(2, dim=-1)
        c = F.silu(self.conv(u.mT)[..., : u.shape[1]].mT)
        return self.down((self.memory(u, c) + self.gain_skip * c) * F.silu(z))

    def forward(self, x):
        return x + self.cell(self.norm(x))


class MatrixMemoryLayerInner(MatrixMemoryLayer):
    """One name for the hidden state, as in the rest of the file."""

    def forward(self, x):
        x = self.norm(x)
        x = x + self.cell(x)
        return x


# ------------------------------------------------------------------ scores that are handed on
class ScorePassingLayer(nn.Module):
    """Patches of a series; scores of the layer before are added to this layer's, in front of the softmax."""

    def __init__(self):
        super().__init__()
        self.norm_attn, self.norm_ffn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Net(64, nn.GELU)
        self.W_Q, self.W_K, self.W_V, self.to_out = mapped(D, D), mapped(D, D), mapped(D, D), mapped(D, D)

    def forward(self, src, prev):
        h = self.norm_attn(src)
        q, k, v = (w(h).unflatten(-1, (H, HD)).transpose(1, 2) for w in (self.W_Q, self.W_K, self.W_V))
        scores = torch.matmul(q, k.transpose(-2, -1)) * HD ** -0.5 + prev
        out = torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2)
        src = src + self.to_out(out)
        src = src + self.ff(self.norm_ffn(src))
        return src, scores


# ------------------------------------------------------------------ highways
class HighwayRecurrentLayer(nn.Module):
    """Light recurrences: all maps are done beforehand; a gate takes a share of a tanh of the cell, and the rest of the input."""

    def __init__(self):
        super().__init__()
        self.U, self.v = mapped(D, 3 * D, False), nn.Parameter(torch.randn(2, D) / math.sqrt(D))
        self.bias = nn.Parameter(torch.tensor([0.0, -2.0]).repeat_interleave(D).view(2, D))

    def forward(self, x):
        u, uf, ur = self.U(x).chunk(3, dim=-1)
        c, out = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            f = torch.sigmoid(uf[:, t] + self.v[0] * c + self.bias[0])
            r = torch.sigmoid(ur[:, t] + self.v[1] * c + self.bias[1])
            c = f * c + (1 - f) * u[:, t]
            out.append(r * torch.tanh(c) + (1 - r) * x[:, t])
        return torch.stack(out, dim=1)


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "BypassLayer": dict(kind="block", identity_gain=0.5 ** 24, growth_fixed="bounded", growth_all="bounded", softmax=True,
                        why="half of what came in and half of a norm: sums inside are of degree one, but normed at the end."),
    "GatedWaveUnit": dict(_NET, **_TWO, sound=True, why="maps of a tanh times a sigmoid are added to both streams: bounded for given weights."),
    "GatedWaveUnitLinear": dict(kind="block", growth_fixed="exponential", softmax=False, **_TWO, sound=False, why="without the tanh, and with no norm, the unit is of degree one."),
    "BackcastUnit": dict(kind="block", growth_fixed="exponential", softmax=False, **_TWO, why="no norm: what is taken off is of degree one, and no one says that it is less than the series."),
    "MatrixMemoryLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; a norm and a filter of the norm, gated by the norm."),
    "MatrixMemoryLayerInner": dict(kind="block", growth_fixed="bounded", softmax=False, **_ONE, sound=False, why="the skip is of the norm: each layer starts anew from it."),
    "ScorePassingLayer": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True, **_TWO, logits_bounded={0: False}, why="pre-norm; scores are a second stream, to which products of functions of norms are added."),
    "HighwayRecurrentLayer": dict(kind="block", gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False, why="means of the input and of a tanh: no entry gets larger than the input's, or one."),
}
