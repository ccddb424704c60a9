"""Pull requests on sound, signals and series: bands, separators, scales of a series, kernels of states, steps of integrators."""

from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16

_G = torch.Generator().manual_seed(227)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    "BandSplitLayer": (_draw(2, 5, 12, D),),
    "SeparatorUnit": (_draw(2, D, 24), _draw(2, D, 24)),
    **{k: (_draw(2, 16, D), _draw(2, 8, D), _draw(2, 4, D)) for k in ("ScalePyramidLayer", "ScalePyramidResidual")},
    **{k: (_X,) for k in ("DiagonalKernelLayer", "StrongStabilityStep", "StrongStabilityTable")},
}


def linear(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


class Net(nn.Module):
    def __init__(self, d=D, hidden=64):
        super().__init__()
        self.fc1, self.fc2 = linear(d, hidden), linear(hidden, d)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


# ------------------------------------------------------------------ sound
class RecurrentHalf(nn.Module):
    """A norm, a recurrent net both ways, a map."""

    def __init__(self, hidden=24):
        super().__init__()
        self.norm, self.rnn, self.fc = nn.GroupNorm(1, D), nn.LSTM(D, hidden, batch_first=True, bidirectional=True), linear(2 * hidden, D)

    def forward(self, x):
        b, outer, inner, d = x.shape
        h = self.norm(x.reshape(-1, inner, d).transpose(1, 2)).transpose(1, 2)
        y, _ = self.rnn(h)
        return self.fc(y).view(b, outer, inner, d)


class BandSplitLayer(nn.Module):
    """Along time in each band, then along bands at each time."""

    def __init__(self):
        super().__init__()
        self.time, self.band = RecurrentHalf(), RecurrentHalf()

    def forward(self, z):
        z = z + self.time(z)
        z = z.permute(0, 2, 1, 3)
        z = z + self.band(z)
        return z.permute(0, 2, 1, 3)


class SeparatorUnit(nn.Module):
    """Dilated filters a channel between maps; one output goes on, one is summed for the masks."""

    def __init__(self, hidden=48, dilation=2):
        super().__init__()
        self.conv1x1, self.nonlinearity1, self.norm1 = nn.Conv1d(D, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden, eps=1e-8)
        self.depthwise, self.nonlinearity2, self.norm2 = nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden), nn.PReLU(), nn.GroupNorm(1, hidden, eps=1e-8)
        self.skip_out, self.res_out = nn.Conv1d(hidden, D, 1), nn.Conv1d(hidden, D, 1)

    def forward(self, x, total):
        y = self.norm1(self.nonlinearity1(self.conv1x1(x)))
        y = self.norm2(self.nonlinearity2(self.depthwise(y)))
        return x + self.res_out(y), total + self.skip_out(y)


# ------------------------------------------------------------------ series at several scales
class Scales(NamedTuple):
    fine: torch.Tensor
    middle: torch.Tensor
    coarse: torch.Tensor


def moving_mean(x, k=5):
    padded = F.pad(x.transpose(1, 2), (k // 2, k // 2), mode="replicate")
    return F.avg_pool1d(padded, k, stride=1).transpose(1, 2)


class TimeMap(nn.Module):
    """From one length to another one."""

    def __init__(self, i, o):
        super().__init__()
        self.map = nn.Sequential(linear(i, o), nn.GELU(), linear(o, o))

    def forward(self, x):
        return self.map(x.transpose(1, 2)).transpose(1, 2)


class ScalePyramidLayer(nn.Module):
    """Seasons go from fine to coarse, trends from coarse to fine; all of them are of norms."""

    lengths = (16, 8, 4)

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in self.lengths)
        self.down = nn.ModuleList(TimeMap(a, b) for a, b in zip(self.lengths, self.lengths[1:]))
        self.up = nn.ModuleList(TimeMap(b, a) for a, b in zip(self.lengths, self.lengths[1:]))
        self.out = Net()

    def split(self, i, x):
        h = self.norms[i](x)
        trend = moving_mean(h)
        return h - trend, trend

    def forward(self, fine, middle, coarse):
        xs = Scales(fine, middle, coarse)
        seasons, trends = map(list, zip(*(self.split(i, x) for i, x in enumerate(xs))))
        for i, down in enumerate(self.down):
            seasons[i + 1] = seasons[i + 1] + down(seasons[i])
        for i in reversed(range(len(self.up))):
            trends[i] = trends[i] + self.up[i](trends[i + 1])
        return tuple(x + self.out(s + t) for x, s, t in zip(xs, seasons, trends))


class ScalePyramidResidual(ScalePyramidLayer):
    """A decomposition needs units: season and trend are of the series itself, and the norm is in front of the net."""

    def split(self, i, x):
        trend = moving_mean(x)
        return x - trend, trend

    def forward(self, fine, middle, coarse):
        xs = Scales(fine, middle, coarse)
        seasons, trends = [], []
        for i, x in enumerate(xs):
            s, t = self.split(i, x)
            seasons.append(s)
            trends.append(t)
        for i, down in enumerate(self.down):
            seasons[i + 1] = seasons[i + 1] + down(seasons[i])
        for i in (1, 0):
            trends[i] = trends[i] + self.up[i](trends[i + 1])
        mixed = [s + t for s, t in zip(seasons, trends)]
        return tuple(m + self.out(norm(m)) for m, norm in zip(mixed, self.norms))


# ------------------------------------------------------------------ kernels of states
class DiagonalKernelLayer(nn.Module):
    """A kernel of a diagonal complex state, by powers of its steps; a product of spectra; a gated map."""

    def __init__(self, n=8, dt_min=0.01, dt_max=0.5):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(D), linear(D, 2 * D)
        self.log_dt = nn.Parameter(torch.rand(D) * (torch.tensor(dt_max).log() - torch.tensor(dt_min).log()) + torch.tensor(dt_min).log())
        self.c = nn.Parameter(torch.randn(D, n, 2) * 0.5)
        self.log_a_real, self.a_imag = nn.Parameter(torch.log(0.5 * torch.ones(D, n))), nn.Parameter(torch.pi * torch.arange(n).repeat(D, 1))
        self.skip = nn.Parameter(torch.randn(D))

    def kernel(self, length):
        dt, c = self.log_dt.exp(), torch.view_as_complex(self.c)
        a = torch.complex(-self.log_a_real.exp(), self.a_imag)
        dta = a * dt.unsqueeze(-1)
        powers = torch.exp(dta.unsqueeze(-1) * torch.arange(length, device=dta.device))
        return 2 * torch.einsum("dn,dnl->dl", c * (dta.exp() - 1) / a, powers).real

    def forward(self, x):
        u = self.norm(x).transpose(1, 2)
        length = u.size(-1)
        k = torch.fft.rfft(self.kernel(length), n=2 * length)
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * k, n=2 * length)[..., :length]
        y = F.gelu(y + u * self.skip.unsqueeze(-1)).transpose(1, 2)
        return x + F.glu(self.out(y), dim=-1)


# ------------------------------------------------------------------ integrators
class StrongStabilityStep(nn.Module):
    """Three stages of a Runge-Kutta step, each one a mean of the start and an Euler step."""

    table = ((0.0, 1.0), (3.0 / 4.0, 1.0 / 4.0), (1.0 / 3.0, 2.0 / 3.0))

    def __init__(self, h=0.5):
        super().__init__()
        self.h, self.norm, self.net = h, nn.LayerNorm(D), Net()
        self.mix = nn.Parameter(torch.randn(T, T) / T ** 0.5)

    def velocity(self, x):
        h = self.norm(x)
        return self.net(h) + torch.einsum("ts,bsd->btd", self.mix, h)

    def forward(self, x):
        u = x
        for keep, step in self.table:
            u = keep * x + step * (u + self.h * self.velocity(u))
        return u


class StrongStabilityTable(StrongStabilityStep):
    """Coefficients are read from a buffer, a row a stage."""

    def __init__(self, h=0.5):
        super().__init__(h)
        self.register_buffer("alpha", torch.tensor([[0.0, 1.0], [3.0, 1.0], [1.0, 3.0]]) / torch.tensor([[1.0], [4.0], [3.0]]))

    def forward(self, x):
        u = x
        for alpha in self.alpha:
            u = alpha[0] * x + alpha[1] * (u + self.h * self.velocity(u))
        return u


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "BandSplitLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; states of recurrent nets are at most one."),
    "SeparatorUnit": dict(_NET, sound=True, why="maps of a norm are added to both states."),
    "ScalePyramidLayer": dict(_NET, sound=True, why="functions of norms are added at all scales."),
    "ScalePyramidResidual": dict(_EXP, softmax=False, why="seasons and trends of other scales are of degree one and are added to the stream."),
    "DiagonalKernelLayer": dict(_NET, **_ONE, sound=True, why="a filter of a norm, gated."),
    "StrongStabilityStep": dict(_NET, gradient_law="power", sound=True, why="rows of the table sum to one: the start is carried; velocities are functions of a norm."),
    "StrongStabilityTable": dict(_EXP, identity_gain=(4.0 / 3.0) ** 24, gradient_law="exponential", softmax=False, why="the last row is 1/3 and 3/3: four thirds a block."),
}
