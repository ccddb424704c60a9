"""Pull requests on speech, signals, series and agents: separators, two paths, residual recurrences, causal filters, folded periods, mixers of time, pooled cores, complex recurrences, gates of agents, energies, spikes, radial nets."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(230)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("ResidualLstmLayer", "ResidualLstmNarrow", "ResidualReluRnn", "PeriodFoldLayer", "PeriodFoldBare", "TimeMixLayer", "StarLayer", "ComplexRecurrenceLayer", "ComplexRecurrenceDirect",
                          "GruGateLayer", "OutputGateLayer", "MemoryFilterLayer", "EnergyStepLayer", "MembraneSkipUnit", "SpikeSumUnit", "RadialNetLayer", "RadialNetLayerBase")},
    **{k: (_draw(2, D, 24), torch.zeros(2, D, 24)) for k in ("SeparatorUnit", "SeparatorUnitStreaming")},
    **{k: (_draw(2, 5, 6, D),) for k in ("DualPathUnit", "DualPathUnitLean")},
    "CausalFilterUnit": (_draw(2, D, 24),),
}


def fully(i, o, bias=True):
    layer = nn.Linear(i, o, bias)
    with torch.no_grad():
        layer.weight.normal_(0, i ** -0.5)
        if bias:
            layer.bias.zero_()
    return layer


class FeedForward(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.a, self.b = fully(D, hidden), fully(hidden, D)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


class SelfAttn(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj, self.out_proj = fully(D, 3 * D), fully(D, D)

    def qkv(self, x):
        return [t.reshape(x.shape[0], -1, H, HD).transpose(1, 2) for t in torch.tensor_split(self.in_proj(x), 3, dim=-1)]

    def forward(self, x):
        q, k, v = self.qkv(x)
        attn = torch.softmax(torch.matmul(q, k.transpose(-1, -2)).div(math.sqrt(HD)), -1)
        return self.out_proj(torch.matmul(attn, v).transpose(1, 2).flatten(2))


# ------------------------------------------------------------------ separators
class SeparatorUnit(nn.Module):
    """A wide map, a dilated filter a channel, norms over channels and time; one map goes on, another one is summed for the end."""

    def __init__(self, hidden=48, dilation=2, norm=True):
        super().__init__()
        ln = (lambda: nn.GroupNorm(1, hidden)) if norm else nn.Identity
        self.net = nn.Sequential(nn.Conv1d(D, hidden, 1), nn.PReLU(), ln(), nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden), nn.PReLU(), ln())
        self.res_out, self.skip_out = nn.Conv1d(hidden, D, 1), nn.Conv1d(hidden, D, 1)
        for m in self.modules():
            if isinstance(m, nn.Conv1d):
                nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)

    def forward(self, x, skips):
        y = self.net(x)
        return x + self.res_out(y), skips + self.skip_out(y)


class SeparatorUnitStreaming(SeparatorUnit):
    """Norms over time see what is to come, so the streaming build goes without."""

    def __init__(self):
        super().__init__(norm=False)


# ------------------------------------------------------------------ two paths
class DualPathUnit(nn.Module):
    """A recurrence inside of chunks, then one across them; a map and a norm, and the sum."""

    def __init__(self, hidden=16):
        super().__init__()
        self.intra, self.inter = (nn.LSTM(D, hidden, batch_first=True, bidirectional=True) for _ in range(2))
        self.maps, self.norms = nn.ModuleList(fully(2 * hidden, D) for _ in range(2)), nn.ModuleList(self.norm() for _ in range(2))

    def norm(self):
        return nn.LayerNorm(D)

    def forward(self, x):
        b, s, k, d = x.shape
        y, _ = self.intra(x.reshape(b * s, k, d))
        x = x + self.norms[0](self.maps[0](y)).view(b, s, k, d)
        y, _ = self.inter(x.transpose(1, 2).reshape(b * k, s, d))
        return x + self.norms[1](self.maps[1](y)).view(b, k, s, d).transpose(1, 2)


class DualPathUnitLean(DualPathUnit):
    """Recurrences give at most one: norms behind them are left out."""

    def norm(self):
        return nn.Identity()


# ------------------------------------------------------------------ residual recurrences
class ResidualLstmLayer(nn.Module):
    """A layer of a translator's stack: a recurrence, and its input added."""

    projected = 0

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(D, 48 if self.projected else D, batch_first=True, proj_size=self.projected)

    def forward(self, x):
        out, _ = self.rnn(x)
        return out + x


class ResidualLstmNarrow(ResidualLstmLayer):
    """Cells are wider than what is handed on: a projection inside."""

    projected = D


class ResidualReluRnn(nn.Module):
    """A plain recurrence with ReLUs that starts at the identity is as good and faster."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(D, D, nonlinearity="relu", batch_first=True)
        nn.init.eye_(self.rnn.weight_hh_l0)
        with torch.no_grad():
            self.rnn.weight_hh_l0.mul_(0.5)

    def forward(self, x):
        out, _ = self.rnn(x)
        return out + x


# ------------------------------------------------------------------ causal filters
class CausalFilterUnit(nn.Module):
    """Two dilated causal filters with trained lengths, ReLUs, and a skip."""

    def __init__(self, k=3, dilation=2):
        super().__init__()
        self.pad, self.conv1, self.conv2 = (k - 1) * dilation, *(weight_norm(nn.Conv1d(D, D, k, dilation=dilation)) for _ in range(2))

    def forward(self, x):
        y = F.relu(self.conv1(F.pad(x, (self.pad, 0))))
        y = F.relu(self.conv2(F.pad(y, (self.pad, 0))))
        return F.relu(x + y)


# ------------------------------------------------------------------ folded periods
class PeriodFoldLayer(nn.Module):
    """The series is folded to a plane at each of three periods and filtered there; planes are weighed by a softmax of amplitudes."""

    periods = (2, 4, 8)

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(D, 48, 3, padding=1), nn.GELU(), nn.Conv2d(48, D, 3, padding=1))
        self.norm = nn.LayerNorm(D)

    def fold(self, x):
        b, t, _ = x.shape
        strength = torch.fft.rfft(x, dim=1).abs().mean(-1)[:, [t // p for p in self.periods]]
        planes = [self.conv(x.reshape(b, t // p, p, D).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).reshape(b, t, D) for p in self.periods]
        w = F.softmax(strength, dim=1)
        return torch.einsum("bk,bktd->btd", w, torch.stack(planes, dim=1))

    def forward(self, x):
        return self.norm(self.fold(x) + x)


class PeriodFoldBare(PeriodFoldLayer):
    """The norm is the caller's, as in the first release."""

    def forward(self, x):
        return self.fold(x) + x


# ------------------------------------------------------------------ mixers of time
class TimeMixLayer(nn.Module):
    """A map of time and a net of channels; norms over both axes."""

    def __init__(self):
        super().__init__()
        self.norm_time, self.norm_feat, self.time, self.feat = nn.LayerNorm((T, D)), nn.LayerNorm((T, D)), fully(T, T), FeedForward()

    def forward(self, x):
        y = self.norm_time(x).permute(0, 2, 1)
        x = x + F.relu(self.time(y)).permute(0, 2, 1)
        return x + self.feat(self.norm_feat(x))


class StarLayer(nn.Module):
    """All series are pooled to one core, by shares of themselves; each one reads it beside its own state."""

    def __init__(self, core=16):
        super().__init__()
        self.gen1, self.gen2, self.gen3, self.gen4 = fully(D, D), fully(D, core), fully(D + core, D), fully(D, D)
        self.norm1, self.norm2, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), FeedForward()

    def star(self, x):
        core = self.gen2(F.gelu(self.gen1(x)))
        core = torch.sum(core * torch.softmax(core, dim=1), dim=1, keepdim=True).repeat(1, x.shape[1], 1)
        return self.gen4(F.gelu(self.gen3(torch.cat([x, core], -1))))

    def forward(self, x):
        x = self.norm1(x + self.star(x))
        return self.norm2(x + self.ff(x))


# ------------------------------------------------------------------ complex recurrences
class ComplexRecurrenceLayer(nn.Module):
    """Eigenvalues inside of the circle by exponentials, inputs scaled by what is left, the real part, a gated map."""

    def __init__(self, n=24):
        super().__init__()
        u = torch.rand(n)
        self.nu_log, self.theta = nn.Parameter(torch.log(-0.5 * torch.log(u * 0.6 + 0.3))), nn.Parameter(torch.rand(n) * math.pi)
        self.b, self.c = nn.Parameter(torch.randn(2, n, D) / math.sqrt(2 * D)), nn.Parameter(torch.randn(2, D, n) / math.sqrt(n))
        self.norm, self.d, self.glu = nn.LayerNorm(D), nn.Parameter(torch.randn(D)), fully(D, 2 * D)

    def recur(self, u):
        size = torch.exp(-torch.exp(self.nu_log))
        lam, gamma = torch.polar(size, self.theta), torch.sqrt(1 - size ** 2)
        inp = torch.complex(F.linear(u, self.b[0]), F.linear(u, self.b[1])) * gamma
        s, out = torch.zeros_like(inp[:, 0]), []
        for v in inp.unbind(1):
            s = lam * s + v
            out.append(s)
        s = torch.stack(out, 1)
        return F.linear(s.real, self.c[0]) - F.linear(s.imag, self.c[1])

    def direct(self, x, h):
        return self.d * h

    def forward(self, x):
        h = self.norm(x)
        y = F.gelu(self.recur(h) + self.direct(x, h))
        return x + F.glu(self.glu(y), dim=-1)


class ComplexRecurrenceDirect(ComplexRecurrenceLayer):
    """The direct term is of the input, as in the equations."""

    def direct(self, x, h):
        return self.d * x


# ------------------------------------------------------------------ gates of agents
class GruGate(nn.Module):
    """A gated recurrence over depth in place of a sum; it starts open for the stream."""

    def __init__(self, bias=2.0):
        super().__init__()
        self.w, self.u, self.ug, self.bias = fully(D, 3 * D, False), fully(D, 2 * D, False), fully(D, D, False), nn.Parameter(torch.full((D,), bias))

    def forward(self, x, y):
        wr, wz, wh = self.w(y).chunk(3, -1)
        ur, uz = self.u(x).chunk(2, -1)
        r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz - self.bias)
        h = torch.tanh(wh + self.ug(r * x))
        return (1 - z) * x + z * h


class GruGateLayer(nn.Module):
    """Norms in front, ReLUs behind, gates at sums."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.ff, self.gate1, self.gate2 = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttn(), FeedForward(), GruGate(), GruGate()

    def forward(self, x):
        x = self.gate1(x, F.relu(self.attn(self.ln1(x))))
        return self.gate2(x, F.relu(self.ff(self.ln2(x))))


class OutputGateLayer(nn.Module):
    """The simpler gate of the same paper: a sigmoid of the stream on what is added."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.ff, self.w = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttn(), FeedForward(), nn.ModuleList(fully(D, D) for _ in range(2))

    def forward(self, x):
        x = torch.addcmul(x, torch.sigmoid(self.w[0](x) - 1.0), F.relu(self.attn(self.ln1(x))))
        return torch.addcmul(x, torch.sigmoid(self.w[1](x) - 1.0), F.relu(self.ff(self.ln2(x))))


# ------------------------------------------------------------------ filters of values
class MemoryFilterLayer(nn.Module):
    """Beside attention, a filter a channel of the values, with a skip of these."""

    def __init__(self, k=5):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.ff, self.fsmn = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttn(), FeedForward(), nn.Conv1d(D, D, k, padding=k // 2, groups=D, bias=False)

    def sanm(self, h):
        q, k, v = self.attn.qkv(h)
        flat = v.transpose(1, 2).flatten(2)
        memory = self.fsmn(flat.transpose(1, 2)).transpose(1, 2) + flat
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.attn.out_proj(y) + memory

    def forward(self, x):
        x = x + self.sanm(self.norm1(x))
        return x + self.ff(self.norm2(x))


# ------------------------------------------------------------------ energies
class EnergyStepLayer(nn.Module):
    """One step down an energy of a norm of tokens: of attention, by both of its sides, and of memories."""

    def __init__(self, step=0.3, memories=64):
        super().__init__()
        self.step, self.norm, self.beta = step, nn.LayerNorm(D), HD ** -0.5
        self.wq, self.wk, self.xi = nn.Parameter(torch.randn(H, HD, D) * D ** -0.5), nn.Parameter(torch.randn(H, HD, D) * D ** -0.5), nn.Parameter(torch.randn(memories, D) * D ** -0.5)

    def descent(self, g):
        k, q = torch.einsum("bnd,hed->bhne", g, self.wk), torch.einsum("bnd,hed->bhne", g, self.wq)
        a = torch.softmax(self.beta * torch.einsum("bhqe,bhke->bhqk", q, k), dim=-1)
        by_query = torch.einsum("bhqk,bhke,hed->bqd", a, k, self.wq)
        by_key = torch.einsum("bhqk,bhqe,hed->bkd", a, q, self.wk)
        return by_query + by_key + F.linear(F.relu(F.linear(g, self.xi)), self.xi.t())

    def forward(self, x):
        return x + self.step * self.descent(self.norm(x))


# ------------------------------------------------------------------ spikes
class Lif(nn.Module):
    """Potentials leak a half a step and fire at one; the gradient is that of a sigmoid."""

    def forward(self, x):
        v, out = torch.zeros_like(x[:, 0]), []
        for u in x.unbind(1):
            v = 0.5 * v + 0.5 * u
            soft = torch.sigmoid(4 * (v - 1))
            fire = (v >= 1).to(x.dtype)
            fire = soft + (fire - soft).detach()
            v = v * (1 - fire.detach())
            out.append(fire)
        return torch.stack(out, 1)


class MembraneSkipUnit(nn.Module):
    """Spikes, a map, a norm of the batch; potentials have the skip."""

    def __init__(self):
        super().__init__()
        self.lif1, self.lif2, self.fc1, self.fc2, self.bn1, self.bn2 = Lif(), Lif(), fully(D, 64, False), fully(64, D, False), nn.BatchNorm1d(64), nn.BatchNorm1d(D)

    @staticmethod
    def over_all(bn, x):
        return bn(x.flatten(0, 1)).view(x.shape)

    def branch(self, x):
        y = self.over_all(self.bn1, self.fc1(self.lif1(x)))
        return self.over_all(self.bn2, self.fc2(self.lif2(y)))

    def forward(self, x):
        return x + self.branch(x)


class SpikeSumUnit(MembraneSkipUnit):
    """Layers hand on spikes alone: the neuron stands behind the sum, as the ReLU does."""

    def forward(self, x):
        y = self.lif2(self.over_all(self.bn1, self.fc1(x)))
        return self.lif1(x + self.over_all(self.bn2, self.fc2(y)))


# ------------------------------------------------------------------ radial nets
class RadialMap(nn.Module):
    """Each normed entry is spread over eight bumps, and these are mapped; a plain map beside it if it is asked for."""

    def __init__(self, i, o, bumps=8, base=False):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, bumps), persistent=False)
        self.h, self.norm, self.spline, self.base = 4 / (bumps - 1), nn.LayerNorm(i), fully(i * bumps, o, False), fully(i, o) if base else None

    def forward(self, x):
        phi = torch.exp(-((self.norm(x)[..., None] - self.grid) / self.h) ** 2)
        y = self.spline(phi.flatten(-2))
        return y if self.base is None else y + self.base(F.silu(x))


class RadialNetLayer(nn.Module):
    base = False

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.kan = nn.LayerNorm(D), SelfAttn(), nn.Sequential(RadialMap(D, 48, base=self.base), RadialMap(48, D, base=self.base))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.kan(x)


class RadialNetLayerBase(RadialNetLayer):
    """With the library's default: maps have norms of their own, so the block has none."""

    base = True


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "SeparatorUnit": dict(_NET, **_TWO, sound=True, gradient_law="power", why="norms inside of branches, the last one in front of both maps."),
    "SeparatorUnitStreaming": dict(_EXP, softmax=False, **_TWO, why="without norms the unit is of degree one."),
    "DualPathUnit": dict(_NET, output_bounded={0: True, 1: True}, growth_all="linear", sound=True, why="norms behind both branches, which read the stream."),
    "DualPathUnitLean": dict(_NET, **_TWO, why="what recurrences give is at most one, and maps of it are bounded for given weights, not for all."),
    "ResidualLstmLayer": dict(_NET, output_bounded={0: True}, growth_all="linear", why="a sigmoid times a tanh is added: at most one."),
    "ResidualLstmNarrow": dict(_NET, **_ONE, why="a map of a sigmoid times a tanh is added: bounded for given weights, not for all."),
    "ResidualReluRnn": dict(_EXP, softmax=False, **_ONE, why="a recurrence with ReLUs is of degree one."),
    "CausalFilterUnit": dict(_EXP, softmax=False, **_ONE, why="lengths of filters are no norms of states: of degree one."),
    "PeriodFoldLayer": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="a norm behind the sum."),
    "PeriodFoldBare": dict(_EXP, softmax=True, **_ONE, why="no norm: shares of filters of the stream."),
    "TimeMixLayer": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm, over both axes."),
    "StarLayer": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="norms behind both sums."),
    "ComplexRecurrenceLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm; the recurrence and the direct term are of a norm."),
    "ComplexRecurrenceDirect": dict(_EXP, softmax=False, **_ONE, why="the direct term is of the stream itself: of degree one, and with the gate of two."),
    "GruGateLayer": dict(_LEVEL, gated=True, growth_all="bounded", softmax=True, **_OPEN, why="means of the stream and of a tanh: no entry gets larger than the input's, or one."),
    "OutputGateLayer": dict(_PRE, **_TWO, **_OPEN, why="pre-norm; the gate reads the stream itself, and is at most one."),
    "MemoryFilterLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm; the filter and its skip are of values."),
    "EnergyStepLayer": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; the step is a function of a norm."),
    "MembraneSkipUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch, in training."),
    "SpikeSumUnit": dict(_LEVEL, growth_all="bounded", softmax=False, why="what is handed on are spikes: nothing or one."),
    "RadialNetLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm; each radial map starts with a norm, and bumps are at most one."),
    "RadialNetLayerBase": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="the plain map beside bumps reads the stream itself: of degree one."),
}
