"""Recurrent layers in a stream: library cells and stacks, scans in log space, complex states, convolutions over time, steps of mechanics."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


class LstmAdded(nn.Module):
    """What a layer of the library gives is added to what it read: each value is a gate times a tanh."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(D, D, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return x + y


class LstmProjectedAdded(LstmAdded):
    """The hidden state is projected: a map without a bound stands behind the tanh."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(D, 48, proj_size=D, batch_first=True)


class LstmMapped(LstmAdded):
    """A map, a norm behind it and the add."""

    def __init__(self):
        super().__init__()
        self.out, self.norm = lin(D, D), nn.LayerNorm(D)

    def forward(self, x):
        return x + self.norm(self.out(self.rnn(x)[0]))


class ReluRnnAdded(nn.Module):
    """The layer with a ReLU in place of the tanh: of degree one, nearly."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(D, D, nonlinearity="relu", batch_first=True)

    def forward(self, x):
        return x + self.rnn(x)[0]


class GruBothWays(nn.Module):
    """Two directions, summed; each value lies between tanhs."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(D, D, batch_first=True, bidirectional=True)

    def forward(self, x):
        forward, backward = self.rnn(x)[0].chunk(2, dim=-1)
        return x + (forward + backward)


class GruReadsSum(GruBothWays):
    """The state of the forward layer starts at the mean of the stream: it is carried by a product of gates."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(D, D, batch_first=True)

    def forward(self, x):
        start = x.mean(1).unsqueeze(0)
        return x + self.rnn(x, start)[0]


class CellOnStream(nn.Module):
    """A cell of the library: what a net says is its input, and the stream its state."""

    def __init__(self):
        super().__init__()
        self.norm, self.net, self.cell = nn.LayerNorm(D), nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D)), nn.GRUCell(D, D)

    def forward(self, x):
        update = self.net(self.norm(x))
        return self.cell(update.flatten(0, 1), x.flatten(0, 1)).view_as(x)


class CellSwapped(CellOnStream):
    """Input and state are swapped: the state is the update, and the stream is read by gates and a tanh alone."""

    def forward(self, x):
        update = self.net(self.norm(x))
        return self.cell(x.flatten(0, 1), update.flatten(0, 1)).view_as(x)


class MinimalGru(nn.Module):
    """A minimal gated unit in log space: all of time in one cumulative log of sums of exponents."""

    def __init__(self):
        super().__init__()
        self.norm, self.zh, self.o = nn.RMSNorm(D), lin(D, 2 * D), lin(D, D)

    def mix(self, h):
        k, u = self.zh(h).chunk(2, -1)
        log_keep, log_take = -F.softplus(k), -F.softplus(-k)
        log_value = torch.where(u >= 0, (F.relu(u) + 0.5).log(), -F.softplus(-u))
        a = log_keep.cumsum(1)
        return self.o((a + torch.logcumsumexp(log_take + log_value - a, dim=1)).exp())

    def forward(self, x):
        return x + self.mix(self.norm(x))


class MinimalGruRaw(MinimalGru):
    """The norm is lost: values are of degree one."""

    def forward(self, x):
        return x + self.mix(x)


class RealGated(nn.Module):
    """A real-gated linear recurrence behind a short filter, times a GELU of a second map."""

    inflow = True

    def __init__(self):
        super().__init__()
        self.norm, self.x_proj, self.y_proj, self.conv, self.gates, self.out = nn.RMSNorm(D), lin(D, D), lin(D, D), nn.Conv1d(D, D, 4, padding=3, groups=D), lin(D, 2 * D), lin(D, D)
        self.a_param = nn.Parameter(torch.linspace(-4.3, -1.0, D))

    def recur(self, u):
        r, i = torch.sigmoid(self.gates(u)).chunk(2, -1)
        log_a = -8.0 * F.softplus(self.a_param) * r
        a = log_a.exp()
        v = i * u
        if self.inflow:
            v = v * torch.sqrt(-torch.expm1(2 * log_a))
        state, out = torch.zeros_like(v[:, 0]), []
        for t in range(v.shape[1]):
            state = a[:, t] * state + v[:, t]
            out.append(state)
        return torch.stack(out, 1)

    def forward(self, x):
        h = self.norm(x)
        u = self.conv(self.x_proj(h).mT)[..., :x.shape[1]].mT
        return x + self.out(self.recur(u) * F.gelu(self.y_proj(h)))


class RealGatedNoRoot(RealGated):
    """What comes in is not scaled by the root: sums of sixteen tokens."""

    inflow = False


class RealGatedOnStream(RealGated):
    """The recurrence runs along time on the stream itself, and its output is the residual."""

    def forward(self, x):
        h = self.norm(x)
        return self.recur(x) + self.out(F.gelu(self.y_proj(h)))


class ComplexUnit(nn.Module):
    """A linear unit with complex eigenvalues inside the circle, inputs scaled by what is left; a gated end."""

    def __init__(self):
        super().__init__()
        self.norm, self.glu = nn.LayerNorm(D), lin(D, 2 * D)
        u = torch.linspace(0.05, 0.95, D)
        self.nu_log, self.theta_log = nn.Parameter((-0.5 * (u * (0.99 ** 2 - 0.5 ** 2) + 0.5 ** 2).log()).log()), nn.Parameter((u * 3.14).log())
        self.b_re, self.b_im = (nn.Parameter(torch.randn(D, D) * (2 * D) ** -0.5) for _ in range(2))
        self.c_re, self.c_im = (nn.Parameter(torch.randn(D, D) * D ** -0.5) for _ in range(2))
        self.d = nn.Parameter(torch.ones(D))

    def scan(self, u):
        lam = torch.exp(torch.complex(-self.nu_log.exp(), self.theta_log.exp()))
        gamma = torch.sqrt(1 - lam.abs() ** 2)
        bu = torch.einsum("btd,nd->btn", torch.complex(u, torch.zeros_like(u)), torch.complex(self.b_re, self.b_im) * gamma[:, None])
        lags = torch.arange(u.shape[1], device=u.device)
        lag = (lags[:, None] - lags[None, :]).clamp(min=0)
        kernel = torch.where((lags[:, None] >= lags[None, :])[..., None], lam[None, None, :] ** lag[..., None], torch.zeros_like(lam))
        h = torch.einsum("tsn,bsn->btn", kernel, bu)
        return torch.einsum("btn,dn->btd", h, torch.complex(self.c_re, self.c_im)).real + self.d * u

    def branch(self, u):
        a, b = self.glu(F.gelu(self.scan(u))).chunk(2, -1)
        return a * torch.sigmoid(b)

    def forward(self, x):
        return x + self.branch(self.norm(x))


class ComplexUnitRaw(ComplexUnit):
    """The norm is put behind the add of a copy that nobody reads."""

    def forward(self, x):
        y = x + self.branch(x)
        self.norm(y)
        return y


class Rotated(nn.Module):
    """The stream is sixteen complex numbers that turn by learned angles in each block; a net of the norm is added."""

    modulus = 1.0

    def __init__(self):
        super().__init__()
        self.norm, self.w1, self.w2, self.angle = nn.LayerNorm(D), lin(D, 64), lin(64, D), nn.Parameter(torch.rand(D // 2) * 6.28)

    def turn(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)).contiguous())
        return torch.view_as_real(z * torch.polar(torch.full_like(self.angle, self.modulus), self.angle)).flatten(-2)

    def forward(self, x):
        return self.turn(x) + self.w2(F.gelu(self.w1(self.norm(x))))


class RotatedLong(Rotated):
    """The modulus is 1.05."""

    modulus = 1.05


class RotatedShort(Rotated):
    """The modulus is 0.95."""

    modulus = 0.95


class GatedMemory(nn.Module):
    """Attention's place of a reinforcement learner: a norm in front, and the add is a gated unit whose bias keeps what is carried."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D), nn.ReLU())
        self.w, self.u, self.ug, self.bg = lin(D, 3 * D), lin(D, 2 * D), lin(D, D), nn.Parameter(torch.full((D,), 2.0))

    def forward(self, x):
        y = self.f(self.norm(x))
        wr, wz, wg = self.w(y).chunk(3, -1)
        ur, uz = self.u(x).chunk(2, -1)
        r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz - self.bg)
        return (1 - z) * x + z * torch.tanh(wg + self.ug(r * x))


class Chomp(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[..., :-self.n].contiguous()


class TemporalBlock(nn.Module):
    """Two dilated causal convolutions under weight norm, and a ReLU of the sum."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(weight_norm(nn.Conv1d(D, D, 3, padding=4, dilation=2)), Chomp(4), nn.ReLU(), weight_norm(nn.Conv1d(D, D, 3, padding=4, dilation=2)), Chomp(4), nn.ReLU())

    def forward(self, x):
        x = x.transpose(1, 2)
        return F.relu(self.net(x) + x).transpose(1, 2)


class TemporalBlockNormed(TemporalBlock):
    """A norm over channels in front of the convolutions; the ReLU on the sum stays."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def forward(self, x):
        return F.relu(self.net(self.norm(x).transpose(1, 2)).transpose(1, 2) + x)


class Mechanics(nn.Module):
    """Half of the channels are places and half momenta; a step of leapfrog in a field that pushes outward by at most a bounded force."""

    sign = 1.0

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(D // 2, D // 2) * (D // 2) ** -0.5)

    def force(self, q):
        return self.sign * torch.tanh(q @ self.w.mT) @ self.w

    def forward(self, x):
        q, p = x.chunk(2, -1)
        p = p + 0.5 * self.force(q)
        q = q + p
        return torch.cat((q, p + 0.5 * self.force(q)), -1)


class DecayedState(nn.Module):
    """A moving average in the stream: each block keeps e to the minus exp(b) of it, b starts at minus four, and adds what is left of a bounded net."""

    def __init__(self):
        super().__init__()
        self.norm, self.net, self.b = nn.LayerNorm(D), nn.Sequential(lin(D, 64), nn.Tanh(), lin(64, D)), nn.Parameter(torch.full((D,), -4.0))

    def forward(self, x):
        keep = torch.exp(-torch.exp(self.b))
        return keep * x + (1 - keep) * self.net(self.norm(x))


class DecayedStateSign(DecayedState):
    """The inner sign is lost: e to the exp(b)."""

    def forward(self, x):
        keep = torch.exp(torch.exp(self.b))
        return keep * x + (1 - keep) * self.net(self.norm(x))


_KEEP = math.exp(-math.exp(-4.0))
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_RAW = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_ONE, _IN = dict(output_bounded={0: False}), dict(output_bounded={0: True}, growth_all="linear")
TRUTH = {
    "LstmAdded": dict(_NET, **_IN, sound=True, why="each value is below one."),
    "LstmProjectedAdded": dict(_NET, **_ONE, sound=False, why="a map of values below one."),
    "LstmMapped": dict(_NET, **_IN, sound=True, why="normed behind."),
    "ReluRnnAdded": dict(_RAW, **_ONE, why="of degree one."),
    "GruBothWays": dict(_NET, **_IN, sound=True, why="between minus two and two."),
    "GruReadsSum": dict(_RAW | dict(growth_fixed="exponential"), why="the mean of the stream is carried by gates near a half."),
    "CellOnStream": dict(kind="block", gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False, sound=True, why="between the stream and a tanh."),
    "CellSwapped": dict(kind="block", growth_fixed="bounded", softmax=False, sound=False, why="between a net of a norm and a tanh."),
    "MinimalGru": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "MinimalGruRaw": dict(_RAW, **_ONE, why="of degree one."),
    "RealGated": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "RealGatedNoRoot": dict(_NET, **_ONE, sound=False, why="pre-norm; sums over sixteen tokens."),
    "RealGatedOnStream": dict(kind="block", softmax=False, sound=False, why="a recurrence of the stream."),
    "ComplexUnit": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "ComplexUnitRaw": dict(_RAW, **_ONE, why="of degree one."),
    "Rotated": dict(_NET, **_ONE, sound=True, why="turned, of the same length."),
    "RotatedLong": dict(kind="block", identity_gain=1.05 ** 24, growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="1.05 a block."),
    "RotatedShort": dict(kind="block", identity_gain=0.95 ** 24, growth_fixed="bounded", softmax=False, **_ONE, sound=False, why="0.95 a block."),
    "GatedMemory": dict(kind="block", gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False, sound=True, why="between the stream and a tanh."),
    "TemporalBlock": dict(_RAW, **_ONE, why="of degree one."),
    "TemporalBlockNormed": dict(_NET, **_ONE, sound=True, why="values of what is normed; a ReLU gives one."),
    "Mechanics": dict(kind="block", growth_fixed="polynomial", softmax=False, sound=False, why="a bounded force: momenta linear, places quadratic."),
    "DecayedState": dict(kind="block", identity_gain=_KEEP ** 24, growth_fixed="bounded", softmax=False, **_ONE, sound=True, why="a convex combination with what is bounded."),
    "DecayedStateSign": dict(kind="block", identity_gain=_KEEP ** -24, growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="1.018 a block."),
}
