"""Layers for clicks, tables, series, agents and sound: pointwise attention of actions, stacks of factors, tables, gated residuals, waves with gates, two paths, critics, gates of a GRU, spectral maps, bypasses, means of views."""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

D, N, H = 32, 16, 4

_G = torch.Generator().manual_seed(3503)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_SEQ, _ROWS, _WAVE = _draw(2, N, D), _draw(32, D), _draw(2, D, 24)
example_inputs = {
    **{k: (_SEQ,) for k in ("ActionLayer", "ActionLayerRaw", "FactorStackLayer", "TwoPathUnit", "GruGateLayer", "BypassLayer", "BypassLayerBare", "TwoViewsLayer")},
    **{k: (_ROWS,) for k in ("TableUnit", "GhostGluUnit", "CriticUnit", "SpectralUnit", "SpectralUnitRaw")},
    **{k: (_SEQ, _draw(2, 24)) for k in ("GatedResidualUnit", "GatedResidualUnitOpen")},
    "DiffusionWaveUnit": (_WAVE, _draw(2, 24)),
    **{k: (_WAVE,) for k in ("GatedWaveUnit", "GatedWaveUnitGlu")},
}


def scaled(m):
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if m.bias is not None:
        nn.init.zeros_(m.bias)
    return m


def dense(i, o, bias=True):
    return scaled(nn.Linear(i, o, bias))


# ------------------------------------------------------------------ pointwise attention of actions
class ActionLayer(nn.Module):
    """Actions of a user: one map for four parts, scores by a SiLU, a norm of what is read, times the first part."""

    def __init__(self, dqk=8, dv=8):
        super().__init__()
        self.sizes = [H * dv, H * dv, H * dqk, H * dqk]
        self.uvqk = nn.Parameter(torch.randn(D, sum(self.sizes)) * D ** -0.5)
        self.rel_bias = nn.Parameter(torch.randn(2 * N - 1) * 0.02)
        self.input_norm, self.attn_norm, self.o = nn.LayerNorm(D), nn.LayerNorm(H * dv), dense(H * dv, D)
        self.register_buffer("offset", torch.arange(N)[:, None] - torch.arange(N) + N - 1, persistent=False)

    def norm_input(self, x):
        return self.input_norm(x)

    def forward(self, x):
        mm = F.silu(torch.matmul(self.norm_input(x), self.uvqk))
        u, v, q, k = torch.split(mm, self.sizes, dim=-1)
        qk = torch.einsum("bnhd,bmhd->bhnm", q.unflatten(-1, (H, -1)), k.unflatten(-1, (H, -1)))
        qk = F.silu(qk + self.rel_bias[self.offset]) / N
        qk = qk.tril()
        read = torch.einsum("bhnm,bmhd->bnhd", qk, v.unflatten(-1, (H, -1))).flatten(2)
        return self.o(u * self.attn_norm(read)) + x


class ActionLayerRaw(ActionLayer):
    """There is a norm in the layer already, of what is read."""

    def norm_input(self, x):
        return x


# ------------------------------------------------------------------ stacks of factors
class FactorStackLayer(nn.Module):
    """Products of fields through a net, a linear mix of fields, and the fields; a norm behind."""

    def __init__(self, rank=4, hidden=32):
        super().__init__()
        self.project, self.mix = nn.Parameter(torch.randn(N, rank) * N ** -0.5), nn.Parameter(torch.randn(N, N) * N ** -0.5)
        self.fm = nn.Sequential(nn.LayerNorm(N * rank), dense(N * rank, hidden), nn.ReLU(), dense(hidden, N * D))
        self.norm = nn.LayerNorm(D)

    def forward(self, x):
        pooled = torch.bmm(x, x.transpose(1, 2) @ self.project)
        fmb = self.fm(pooled.flatten(1)).view_as(x)
        lcb = torch.einsum("mn,bnd->bmd", self.mix, x)
        return self.norm(fmb + lcb + x)


# ------------------------------------------------------------------ tables
class TableUnit(nn.Module):
    """Rows of a table: norm of the batch, map, ReLU, map."""

    def __init__(self, hidden=64):
        super().__init__()
        self.norm, self.first, self.second, self.p = nn.BatchNorm1d(D), dense(D, hidden), dense(hidden, D), (0.0, 0.0)

    def forward(self, x):
        x_input = x
        x = self.norm(x)
        x = F.dropout(F.relu(self.first(x)), self.p[0], self.training)
        x = F.dropout(self.second(x), self.p[1], self.training)
        return x_input + x


class GhostGluUnit(nn.Module):
    """A map, a norm of parts of the batch, a gated half; the sum is multiplied by the root of a half."""

    def __init__(self, virtual_batch=16):
        super().__init__()
        self.virtual_batch, self.fc, self.bn = virtual_batch, dense(D, 2 * D, False), nn.BatchNorm1d(2 * D)
        self.register_buffer("root", torch.tensor(0.5).sqrt())

    def glu(self, x):
        x = self.fc(x)
        x = torch.cat([self.bn(part) for part in x.split(self.virtual_batch)], dim=0)
        a, b = x[:, :D], x[:, D:]
        return a * torch.sigmoid(b)

    def forward(self, x):
        x = torch.add(x, self.glu(x))
        return x * self.root


# ------------------------------------------------------------------ gated residuals
class GatedResidualUnit(nn.Module):
    """A net of the state and the context, a gated half of it, the sum, and a norm."""

    def __init__(self, context=24, hidden=48):
        super().__init__()
        self.w2, self.w3, self.w1, self.glu, self.norm = dense(D, hidden), dense(context, hidden, False), dense(hidden, hidden), dense(hidden, 2 * D), nn.LayerNorm(D)

    def add_and_norm(self, a, x):
        return self.norm(a + x)

    def forward(self, a, c):
        eta = F.elu(self.w2(a) + self.w3(c).unsqueeze(1))
        eta = self.w1(eta)
        return self.add_and_norm(a, F.glu(self.glu(eta), dim=-1))


class GatedResidualUnitOpen(GatedResidualUnit):
    """Sums and norms are two steps now, of which the second is to follow."""

    def add_and_norm(self, a, x):
        return a + x


# ------------------------------------------------------------------ waves with gates
class DiffusionWaveUnit(nn.Module):
    """The time is added to the wave in the branch; tanh times sigmoid; the sum by the root of two."""

    def __init__(self, dilation=2, cond=24):
        super().__init__()
        self.diffusion_projection = dense(cond, D)
        self.dilated_conv = scaled(nn.Conv1d(D, 2 * D, 3, padding=dilation, dilation=dilation))
        self.output_projection = scaled(nn.Conv1d(D, D, 1))

    def forward(self, x, diffusion_step):
        y = x + self.diffusion_projection(diffusion_step).unsqueeze(-1)
        gate, filt = torch.chunk(self.dilated_conv(y), 2, dim=1)
        y = self.output_projection(torch.sigmoid(gate) * torch.tanh(filt))
        return (x + y) / math.sqrt(2.0)


class GatedWaveUnit(nn.Module):
    """A filter over the past, tanh times sigmoid, a map of points."""

    def __init__(self, dilation=4, k=2):
        super().__init__()
        self.pad, self.conv, self.res = dilation * (k - 1), scaled(nn.Conv1d(D, 2 * D, k, dilation=dilation)), scaled(nn.Conv1d(D, D, 1))

    def activate(self, z):
        a, b = z.chunk(2, dim=1)
        return a.tanh() * b.sigmoid()

    def forward(self, x):
        z = self.activate(self.conv(F.pad(x, (self.pad, 0))))
        return x + self.res(z)


class GatedWaveUnitGlu(GatedWaveUnit):
    """One call in place of three."""

    def activate(self, z):
        return F.glu(z, dim=1)


# ------------------------------------------------------------------ two paths
class TwoPathUnit(nn.Module):
    """LSTMs in pieces and over pieces; a map and a norm behind each."""

    def __init__(self, hidden=16, pieces=4):
        super().__init__()
        self.pieces = pieces
        self.intra_rnn, self.inter_rnn = (nn.LSTM(D, hidden, batch_first=True, bidirectional=True) for _ in range(2))
        self.intra_linear, self.inter_linear = dense(2 * hidden, D), dense(2 * hidden, D)
        self.intra_norm, self.inter_norm = nn.LayerNorm(D), nn.LayerNorm(D)

    def path(self, z, rnn, linear, norm):
        b, s, k, d = z.shape
        y, _ = rnn(z.reshape(b * s, k, d))
        return norm(linear(y)).view(b, s, k, d)

    def forward(self, x):
        z = x.unflatten(1, (self.pieces, -1))
        z = z + self.path(z, self.intra_rnn, self.intra_linear, self.intra_norm)
        z = z.transpose(1, 2)
        z = z + self.path(z, self.inter_rnn, self.inter_linear, self.inter_norm)
        return z.transpose(1, 2).flatten(1, 2)


# ------------------------------------------------------------------ critics
class CriticUnit(nn.Module):
    """Map, norm, ReLU, map, norm, and the sum."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(dense(D, D), nn.LayerNorm(D), nn.ReLU(), dense(D, D), nn.LayerNorm(D))

    def forward(self, x):
        res = self.net(x)
        return res + x


# ------------------------------------------------------------------ gates of a GRU
class GruGate(nn.Module):
    def __init__(self, bias=1.0):
        super().__init__()
        self.w, self.u, self.u_h = dense(D, 3 * D, False), dense(D, 2 * D, False), dense(D, D, False)
        self.bg = nn.Parameter(torch.full((D,), bias))

    def forward(self, x, y):
        wr, wz, wh = self.w(y).chunk(3, dim=-1)
        ur, uz = self.u(x).chunk(2, dim=-1)
        r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz - self.bg)
        h = torch.tanh(wh + self.u_h(r * x))
        return (1 - z) * x + z * h


class GruGateLayer(nn.Module):
    """An agent's memory: norms in front of attention and net, and gates of a GRU in the place of sums."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.gate1, self.gate2 = nn.LayerNorm(D), nn.LayerNorm(D), GruGate(), GruGate()
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(dense(D, 2 * D), nn.ReLU(), dense(2 * D, D), nn.ReLU())
        self.register_buffer("mask", torch.ones(N, N).triu(1).bool(), persistent=False)

    def forward(self, x):
        h = self.norm1(x)
        y = self.attn(h, h, h, attn_mask=self.mask, need_weights=False)[0]
        x = self.gate1(x, F.relu(y))
        return self.gate2(x, self.mlp(self.norm2(x)))


# ------------------------------------------------------------------ spectral maps
class SpectralUnit(nn.Module):
    """A model of dynamics whose maps have a largest singular value of one."""

    def __init__(self, hidden=48):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(D), spectral_norm(dense(D, hidden, False)), spectral_norm(dense(hidden, D, False))

    def residual(self, h):
        return self.fc2(F.relu(self.fc1(h)))

    def forward(self, x):
        return x + self.residual(self.norm(x))


class SpectralUnitRaw(SpectralUnit):
    """Maps of length one need no norm."""

    def forward(self, x):
        return x + self.residual(x)


# ------------------------------------------------------------------ bypasses
class BypassLayer(nn.Module):
    """What the layer changed comes through by a factor a channel, which is held in bounds."""

    def __init__(self):
        super().__init__()
        self.norm_a, self.norm_f, self.to_qkv, self.to_out = nn.RMSNorm(D), nn.RMSNorm(D), dense(D, 3 * D), dense(D, D)
        self.ff = nn.Sequential(dense(D, 2 * D), nn.SiLU(), dense(2 * D, D))
        self.bypass_scale = nn.Parameter(torch.full((D,), 0.5))

    def attention(self, h):
        q, k, v = self.to_qkv(h).reshape(*h.shape[:-1], 3, H, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(h.shape))

    def inner(self, src):
        src = src + self.attention(self.norm_a(src))
        src = src + self.ff(self.norm_f(src))
        return src

    def forward(self, src):
        src_orig = src
        src = self.inner(src)
        return src_orig + (src - src_orig) * self.bypass_scale.clamp(0.1, 1.0)


class BypassLayerBare(BypassLayer):
    """The bypass is the layer's skip, so skips inside are not needed."""

    def inner(self, src):
        return self.ff(self.norm_f(self.attention(self.norm_a(src))))


# ------------------------------------------------------------------ means of views
class Views(NamedTuple):
    state: torch.Tensor
    seen: torch.Tensor

    def fused(self):
        return torch.stack(self).mean(dim=0)


class TwoViewsLayer(nn.Module):
    """A series over time, then over its channels; each view is fused with the state by a mean."""

    def __init__(self):
        super().__init__()
        self.norm_time, self.norm_channels = nn.LayerNorm(D), nn.LayerNorm(D)
        self.over_time, self.over_channels = nn.Sequential(dense(N, 32), nn.ReLU(), dense(32, N)), nn.Sequential(dense(D, 64), nn.ReLU(), dense(64, D))

    def forward(self, x):
        x = Views(x, self.over_time(self.norm_time(x).mT).mT).fused()
        return Views(x, self.over_channels(self.norm_channels(x))).fused()


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "ActionLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; a norm times a function of the norm, then a map."),
    "ActionLayerRaw": dict(_EXP, **_ONE, why="what is read is normed, but it is multiplied by a SiLU of a map of the raw stream: of degree one."),
    "FactorStackLayer": dict(_LEVEL, growth_all="bounded", sound=True, why="a norm behind the sum."),
    "TableUnit": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm by a norm of the batch."),
    "GhostGluUnit": dict(_LEVEL, identity_gain=0.5 ** 12, growth_all="bounded", output_bounded={0: True}, why="the root of a half of the stream is left by each unit; the branch is a norm of the batch with a gated half."),
    "GatedResidualUnit": dict(_LEVEL, growth_all="bounded", **_ONE, sound=True, why="a norm behind the sum."),
    "GatedResidualUnitOpen": dict(_EXP, identity_gain=1.0, **_ONE, why="the norm is never called: a net of the raw stream is added."),
    "DiffusionWaveUnit": dict(_LEVEL, identity_gain=0.5 ** 12, **_ONE, why="the root of a half of the stream is left by each unit; the branch is a map of tanh times sigmoid."),
    "GatedWaveUnit": dict(_NET, **_ONE, sound=True, why="the branch reads the raw wave, but it is a map of tanh times sigmoid, which are at most one."),
    "GatedWaveUnitGlu": dict(_EXP, identity_gain=1.0, **_ONE, why="without the tanh the branch is of degree one in the raw wave."),
    "TwoPathUnit": dict(_NET, output_bounded={0: True, 1: True}, growth_all="linear", sound=True, why="both branches end in a norm."),
    "CriticUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm."),
    "GruGateLayer": dict(_LEVEL | dict(softmax=True), gated=True, growth_all="bounded", logits_bounded={0: False}, why="(1 - z) x + z tanh: entries stay below the larger of one and what they were."),
    "SpectralUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="pre-norm; two maps whose largest singular value is one."),
    "SpectralUnitRaw": dict(_EXP, why="a net with a slope of up to one of the raw stream is added: up to twice the stream in each unit."),
    "BypassLayer": dict(_PRE, **_TWO, logits_bounded={0: False}, gradient_law="power", sound=True, why="x + s (x + f - x) = x + s f, with f of norms and s at most one."),
    "BypassLayerBare": dict(_LEVEL | dict(softmax=True), logits_bounded={0: False}, sound=False, why="x + s (f - x): one minus the factor of the stream is left, at most nine tenths."),
    "TwoViewsLayer": dict(_LEVEL, identity_gain=0.25 ** 24, **_TWO, sound=False, why="half of the sum is handed on, twice a layer."),
}
