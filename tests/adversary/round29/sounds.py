"""Pull requests on speech, series and agents: bypasses, gated filters with two sums, branches that merge, back-casts, memories, long filters, highways, critics."""

from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(229)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


class Forecast(NamedTuple):
    back: torch.Tensor
    fore: torch.Tensor


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("BypassLayer", "BypassLayerOfBranches", "BranchMergeLayer", "PatchBatchNormLayer", "StabilisedMemoryLayer", "HighwayNormLayer",
                          "StateFilterLayer")},
    "GatedFilterUnit": (_draw(2, D, T), _draw(2, D, T)),
    **{k: (Forecast(_draw(2, D), _draw(2, 12)),) for k in ("DoublyResidualBlock", "DoublyResidualNormed")},
    **{k: (_draw(8, D),) for k in ("CriticBlock", "CriticBlockLate")},
}


def dense(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def ffn(act=nn.SiLU, hidden=64):
    return nn.Sequential(dense(D, hidden), act(), dense(hidden, D))


def attend(q, k, v):
    q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


# ------------------------------------------------------------------ bypasses
class BypassLayer(nn.Module):
    """A trained share of each channel goes past the whole layer; inside of it there are skips, too."""

    def __init__(self, start=0.4):
        super().__init__()
        self.norms, self.in_proj, self.out_proj = nn.ModuleList(nn.RMSNorm(D) for _ in range(3)), dense(D, 3 * D), dense(D, D)
        self.ff1, self.ff2, self.bypass_scale = ffn(), ffn(), nn.Parameter(torch.full((D,), start))

    def self_attn(self, h):
        return self.out_proj(attend(*self.in_proj(h).chunk(3, dim=-1)))

    def forward(self, src):
        src_orig = src
        src = src + self.ff1(self.norms[0](src))
        src = src + self.self_attn(self.norms[1](src))
        src = src + self.ff2(self.norms[2](src))
        return src_orig + (src - src_orig) * self.bypass_scale


class BypassLayerOfBranches(BypassLayer):
    """What branches give is summed first, so that only one product is needed."""

    def forward(self, src):
        out = self.ff1(self.norms[0](src))
        out = out + self.self_attn(self.norms[1](src + out))
        out = out + self.ff2(self.norms[2](src + out))
        return src + (out - src) * self.bypass_scale


# ------------------------------------------------------------------ filters with two sums
class GatedFilterUnit(nn.Module):
    """A dilated filter, a tanh times a sigmoid, one half to the next unit, one half to a sum of all units."""

    def __init__(self, dilation=2):
        super().__init__()
        self.dilated, self.both = nn.Conv1d(D, 2 * D, 3, padding=dilation, dilation=dilation), nn.Conv1d(D, 2 * D, 1)

    def gated(self, x):
        a, b = self.dilated(x).chunk(2, dim=1)
        return self.both(torch.tanh(a) * torch.sigmoid(b)).chunk(2, dim=1)

    def forward(self, x, skips):
        res, skip = self.gated(x)
        return x + res, skips + skip


# ------------------------------------------------------------------ branches that merge
class BranchMergeLayer(nn.Module):
    """Attention and a gated net of filters side by side; a filter a channel over both, and a map."""

    def __init__(self, units=64, k=5):
        super().__init__()
        self.norm_mha, self.norm_mlp, self.norm_gate, self.norm_ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(units // 2), nn.LayerNorm(D)
        self.qkv, self.o, self.up, self.down, self.ff = dense(D, 3 * D), dense(D, D), dense(D, units), dense(units // 2, D), ffn()
        self.csgu, self.fusion, self.merge_proj = nn.Conv1d(units // 2, units // 2, k, padding=k // 2, groups=units // 2), nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D), dense(2 * D, D)

    def cgmlp(self, h):
        r, g = F.gelu(self.up(h)).chunk(2, dim=-1)
        return self.down(r * self.csgu(self.norm_gate(g).mT).mT)

    def forward(self, x):
        x1 = self.o(attend(*self.qkv(self.norm_mha(x)).chunk(3, -1)))
        x2 = self.cgmlp(self.norm_mlp(x))
        both = torch.cat([x1, x2], dim=-1)
        both = both + self.fusion(both.transpose(1, 2)).transpose(1, 2)
        x = x + self.merge_proj(both)
        return x + self.ff(self.norm_ff(x))


# ------------------------------------------------------------------ series
class PatchBatchNormLayer(nn.Module):
    """Patches of a series; norms of the batch behind sums."""

    def __init__(self):
        super().__init__()
        self.qkv, self.to_out, self.ff = dense(D, 3 * D), dense(D, D), ffn(nn.GELU)
        self.norm_attn, self.norm_ffn = (nn.Sequential(Swap(), nn.BatchNorm1d(D), Swap()) for _ in range(2))

    def forward(self, src):
        src = self.norm_attn(src + self.to_out(attend(*self.qkv(src).chunk(3, -1))))
        return self.norm_ffn(src + self.ff(src))


class Swap(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class DoublyResidualBlock(nn.Module):
    """What a net says of the past is taken off, what it says of the future is added."""

    def __init__(self, horizon=12):
        super().__init__()
        self.stem, self.theta_b, self.theta_f = nn.Sequential(dense(D, 64), nn.ReLU(), dense(64, 64), nn.ReLU()), dense(64, D, False), dense(64, horizon, False)

    def read(self, back):
        return back

    def forward(self, s: Forecast):
        h = self.stem(self.read(s.back))
        return Forecast(s.back - self.theta_b(h), s.fore + self.theta_f(h))


class DoublyResidualNormed(DoublyResidualBlock):
    """The net reads a norm of the past."""

    def __init__(self, horizon=12):
        super().__init__(horizon)
        self.norm = nn.LayerNorm(D)

    def read(self, back):
        return self.norm(back)


# ------------------------------------------------------------------ recurrences
class StabilisedMemoryLayer(nn.Module):
    """Exponential gates, kept finite by their largest logarithm; a cell over what it was filled with; a norm a head."""

    def __init__(self):
        super().__init__()
        self.norm, self.gates, self.group, self.out = nn.LayerNorm(D), dense(D, 4 * D), nn.GroupNorm(H, D), dense(D, D)

    def cell(self, h):
        i, f, z, o = self.gates(h).unflatten(-1, (4, D)).unbind(2)
        lf, z, o = F.logsigmoid(f), z.tanh(), o.sigmoid()
        c, n, m, ys = torch.zeros_like(i[:, 0]), torch.zeros_like(i[:, 0]), torch.full_like(i[:, 0], -30.0), []
        for t in range(h.shape[1]):
            new = torch.maximum(lf[:, t] + m, i[:, t])
            keep, fill = torch.exp(lf[:, t] + m - new), torch.exp(i[:, t] - new)
            c, n, m = keep * c + fill * z[:, t], keep * n + fill, new
            ys.append(o[:, t] * c / n)
        return torch.stack(ys, dim=-1)

    def forward(self, x):
        return x + self.out(self.group(self.cell(self.norm(x))).transpose(1, 2))


class StateFilterLayer(nn.Module):
    """An implicit long filter, made by a small net of places times a decay, by a product of spectra; gated before and after."""

    def __init__(self, width=16):
        super().__init__()
        self.norm1, self.norm2, self.inp, self.out, self.net = nn.LayerNorm(D), nn.LayerNorm(D), dense(D, 3 * D), dense(D, D), ffn(nn.GELU)
        self.short, self.filt, self.bias = nn.Conv1d(3 * D, 3 * D, 3, padding=2, groups=3 * D), nn.Sequential(dense(5, width), nn.SiLU(), dense(width, D, False)), nn.Parameter(torch.randn(D))
        t = torch.linspace(0, 1, T)[:, None]
        self.register_buffer("places", torch.cat([t, (6.283 * t).sin(), (6.283 * t).cos(), (12.566 * t).sin(), (12.566 * t).cos()], -1))
        self.register_buffer("window", torch.exp(-t * torch.linspace(1, 8, D)))

    def long(self, u):
        k = self.filt(self.places) * self.window
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * T, dim=1) * torch.fft.rfft(k, n=2 * T, dim=0), n=2 * T, dim=1)[:, :T]
        return y + u * self.bias

    def mixer(self, h):
        a, b, v = self.short(self.inp(h).mT)[..., :T].mT.chunk(3, dim=-1)
        return self.out(a * self.long(b * v))

    def forward(self, x):
        x = self.mixer(self.norm1(x)) + x
        return self.net(self.norm2(x)) + x


# ------------------------------------------------------------------ highways
class HighwayNormLayer(nn.Module):
    """A gate of the state mixes it with a net of its norm; it starts by carrying."""

    def __init__(self):
        super().__init__()
        self.norm, self.h, self.t = nn.LayerNorm(D), ffn(nn.ReLU), dense(D, D)
        nn.init.constant_(self.t.bias, -1.0)

    def forward(self, x):
        y = self.norm(x)
        t = torch.sigmoid(self.t(y))
        return t * self.h(y) + (1 - t) * x


# ------------------------------------------------------------------ critics
class CriticBlock(nn.Module):
    """Map, norm, ReLU, map, norm; added."""

    def __init__(self):
        super().__init__()
        self.fc1, self.ln1, self.fc2, self.ln2 = dense(D, D), nn.LayerNorm(D), dense(D, D), nn.LayerNorm(D)

    def forward(self, x):
        res = self.ln1(self.fc1(x)).relu()
        res = self.ln2(self.fc2(res))
        return res + x


class CriticBlockLate(CriticBlock):
    """The name of the residual is given once the first layer is through."""

    def forward(self, x):
        x = self.ln1(self.fc1(x))
        res = x
        x = self.ln2(self.fc2(F.relu(x)))
        return res + x


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "BypassLayer": dict(_PRE, **_OPEN, gradient_law="power", sound=True, why="both the bypass and the layer carry the stream: shares of it sum to one."),
    "BypassLayerOfBranches": dict(_LEVEL, identity_gain=0.6 ** 24, softmax=True, **_OPEN, sound=False, why="the stream is taken off what does not carry it: 0.6 a layer."),
    "GatedFilterUnit": dict(_NET, **_TWO, why="a map of a tanh times a sigmoid is added to both states."),
    "BranchMergeLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; the filter's own skip is of what branches give."),
    "PatchBatchNormLayer": dict(_LEVEL, growth_all="bounded", softmax=True, **_OPEN, sound=True, why="norms of the batch behind sums, in training."),
    "DoublyResidualBlock": dict(_EXP, softmax=False, why="back-casts are of degree one in what is left."),
    "DoublyResidualNormed": dict(_NET, **_TWO, sound=True, why="both are functions of a norm."),
    "StabilisedMemoryLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; a mean of tanhs, a norm, a map."),
    "StateFilterLayer": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm; products of filters of a norm."),
    "HighwayNormLayer": dict(_LEVEL, gated=True, softmax=False, why="a gated mean of the state and of a function of a norm."),
    "CriticBlock": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, gradient_law="power", why="the branch ends in a norm."),
    "CriticBlockLate": dict(_LEVEL, growth_all="bounded", softmax=False, output_bounded={0: True}, sound=False, why="the skip is of a norm of a map: both summands are norms."),
}
