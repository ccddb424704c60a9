"""What branches add: ends, thresholds, hand-written norms, gates, mixtures; and slips in them."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(d_in, d_out, gain=1.0, bias=True):
    lin = nn.Linear(d_in, d_out, bias=bias)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


class Mlp(nn.Sequential):
    def __init__(self, d=D, out=None, gain=1.0):
        super().__init__(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


class Tail(nn.Module):
    """x + tail(mlp(x)), no norm in front unless `front` says so."""

    front = nn.Identity
    gain = 1.0

    def __init__(self):
        super().__init__()
        self.norm, self.body = self.front(D), Mlp(gain=self.gain)
        self.setup()

    def setup(self):
        pass

    def tail(self, y):
        return y

    def branch(self, x):
        return self.tail(self.body(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


class Pre(Tail):
    front = nn.LayerNorm


# ---- ordinary
class SharedExperts(nn.Module):
    """DeepSeek: one shared expert, the best two of four by sigmoid scores, which are brought to sum one, times 2.5."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.shared, self.experts = nn.RMSNorm(D), dense(D, 4, bias=False), Mlp(), nn.ModuleList(Mlp() for _ in range(4))
        self.register_buffer("correction", torch.zeros(4))

    def branch(self, x):
        h = self.norm(x)
        s = self.gate(h).sigmoid()
        which = torch.topk(s + self.correction, 2, dim=-1).indices
        w = s.gather(-1, which)
        w = 2.5 * w / (w.sum(-1, keepdim=True) + 1e-20)
        dense_w = torch.zeros_like(s).scatter(-1, which, w)
        return self.shared(h) + sum(dense_w[..., i, None] * e(h) for i, e in enumerate(self.experts))

    def forward(self, x):
        return x + self.branch(x)


class ConvModule(nn.Module):
    """Conformer's convolution module, half a step."""

    def __init__(self):
        super().__init__()
        self.norm, self.pw1, self.dw = nn.LayerNorm(D), nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, 5, groups=D)
        self.bn, self.pw2 = nn.BatchNorm1d(D, track_running_stats=False), nn.Conv1d(D, D, 1)

    def branch(self, x):
        y = F.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
        y = self.dw(F.pad(y, (4, 0)))
        return self.pw2(F.silu(self.bn(y))).transpose(1, 2) * 0.5

    def forward(self, x):
        return x + self.branch(x)


class PeriConv(nn.Module):
    """Norms on both sides of a gated unit with a depthwise convolution."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleDict({"in": nn.RMSNorm(D), "out": nn.RMSNorm(D)})
        self.up, self.dw, self.down = dense(D, 4 * D), nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D), dense(2 * D, D)

    def branch(self, x):
        a, b = self.up(self.norms["in"](x)).tensor_split(2, dim=-1)
        return self.norms["out"](self.down(F.gelu(self.dw(a.mT).mT) * b))

    def forward(self, x):
        return torch.stack((x, self.branch(x))).sum(0)


class WrongName(nn.Module):
    """Peri-norm, where the second norm is given `h` and not `y`."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.body = nn.LayerNorm(D), nn.LayerNorm(D), Mlp()

    def branch(self, x):
        h = self.norm1(x)
        y = self.body(h)
        y = y.relu()
        return self.norm2(h)

    def forward(self, x):
        return x + self.branch(x)


# ---- ends
class SoftsignSlip(Tail):
    """The size of the sum."""

    front = nn.LayerNorm

    def tail(self, y):
        return 3 * y / (1 + y).abs()


class ClampBuffer(Tail):
    """Clamped to a tensor, which is a buffer."""

    def setup(self):
        self.register_buffer("bound", torch.linspace(1, 3, D))

    def tail(self, y):
        return torch.clamp(y, min=-self.bound, max=self.bound)


class ClampParameter(Tail):
    """The same, trained."""

    front = nn.LayerNorm

    def setup(self):
        self.bound = nn.Parameter(torch.linspace(1, 3, D))

    def tail(self, y):
        return torch.clamp(y, min=-self.bound, max=self.bound)


class ThresholdTail(Pre):
    """F.threshold, taken for a cap."""

    def tail(self, y):
        return F.threshold(y, 3.0, 3.0)


class WhereDivide(Pre):
    """Where it is too large, it is divided by the limit."""

    def tail(self, y):
        return torch.where(y.abs() < 5.0, y, y / 5.0)


class MaxIndex(Pre):
    """Divided by the greatest size in the token; the two results of max were bound in the other order."""

    def tail(self, y):
        _, m = y.abs().max(dim=-1, keepdim=True)
        return y / (m + 1)


class StdMeanOfRelu(Tail):
    """torch.std_mean, bound as mean and std, on a ReLU."""

    def tail(self, y):
        y = F.relu(y)
        mean, std = torch.std_mean(y, dim=-1, keepdim=True, correction=0)
        return (y - mean) / (std + 1e-5)


class StdMeanOrder(Pre):
    """The same on any numbers."""

    def tail(self, y):
        mean, std = torch.std_mean(y, dim=-1, keepdim=True, correction=0)
        return (y - mean) / (std + 1e-5)


class GroupsOfTokens(Tail):
    """nn.GroupNorm(4, 16) on [batch, tokens, features]: the channels are the tokens."""

    def setup(self):
        self.last = nn.GroupNorm(4, T)

    def tail(self, y):
        return self.last(y)


class LengthAndRoot(Pre):
    """y / sqrt(1 + |y|^2), where the square was forgotten."""

    def tail(self, y):
        return y / torch.sqrt(1 + torch.linalg.vector_norm(y, dim=-1, keepdim=True))


# ---- who reads the norm
class Gated(nn.Module):
    """A gated unit: the value reads the normed stream, the gate reads the stream."""

    act = staticmethod(torch.sigmoid)

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.up, self.down = nn.RMSNorm(D), dense(D, 2 * D, 2.0), dense(D, 2 * D, 2.0), dense(2 * D, D)

    def branch(self, x):
        return self.down(self.act(self.gate(x)) * self.up(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


class GatedSilu(Gated):
    """... by a SiLU."""

    act = staticmethod(F.silu)


class CatRaw(nn.Module):
    """The MLP reads the normed stream, and the stream beside it."""

    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D), nn.Sequential(dense(2 * D, 2 * D, 2.0), nn.GELU(), dense(2 * D, D, 2.0))

    def second(self, x):
        return x

    def branch(self, x):
        return self.body(torch.cat((self.norm(x), self.second(x)), dim=-1))

    def forward(self, x):
        return x + self.branch(x)


class CatUnit(CatRaw):
    """The second is a unit vector."""

    def second(self, x):
        return F.normalize(x, dim=-1)


class SlicedSequential(nn.Module):
    """The norm was thought to be applied elsewhere: net[1:]."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(D), *Mlp(gain=2.0))

    def branch(self, x):
        return self.net[1:](x)

    def forward(self, x):
        return x + self.branch(x)


class SortedNames(nn.Module):
    """The layers are called in the order of their names."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"norm": nn.LayerNorm(D), "fc1": dense(D, 2 * D), "act": nn.GELU(), "fc2": dense(2 * D, D)})

    def branch(self, x):
        for name in sorted(self.layers):
            x = self.layers[name](x)
        return x

    def forward(self, x):
        return x + self.branch(x)


class FilmStream(nn.Module):
    """FiLM on the stream by what a normed copy says: x (1 + gamma) + beta."""

    def __init__(self):
        super().__init__()
        self.norm, self.film = nn.LayerNorm(D), Mlp(out=2 * D, gain=3.0)

    def forward(self, x):
        gamma, beta = self.film(self.norm(x)).chunk(2, dim=-1)
        return torch.addcmul(beta, x, 1 + gamma)


class NormOnce(nn.Module):
    """One norm in front of all layers."""

    def __init__(self, n=24):
        super().__init__()
        self.norm, self.blocks = nn.LayerNorm(D), nn.ModuleList(Mlp(gain=2.0) for _ in range(n))

    def forward(self, x):
        x = self.norm(x)
        for f in self.blocks:
            x = x + f(x)
        return x


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_YES = dict(_PRE, growth_all="linear", output_bounded={"0": True})
_NO = dict(_PRE, output_bounded={"0": False})
_WILD = dict(_NO, growth_fixed="exponential")

TRUTH = {
    "SharedExperts": dict(_NO, why="pre-norm; shares without a softmax.", tempts="a router: softmax"),
    "ConvModule": dict(_NO, why="pre-norm.", tempts="-"),
    "PeriConv": dict(_YES, why="ends in a norm.", tempts="-"),
    "WrongName": dict(_YES, why="the norm of the normed stream.", tempts="-"),
    "SoftsignSlip": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, softmax=False, why="a pole at minus one.", tempts="softsign"),
    "ClampBuffer": dict(_YES, why="constants.", tempts="-"),
    "ClampParameter": dict(_NO, why="the bound is free.", tempts="a clamp"),
    "ThresholdTail": dict(_NO, why="y for y > 3, and 3 below.", tempts="a cap at three"),
    "WhereDivide": dict(_NO, why="y / 5.", tempts="a cap by where"),
    "MaxIndex": dict(_NO, why="divided by an index.", tempts="divided by the maximum"),
    "StdMeanOfRelu": dict(_YES, why="(y - s)/m with y >= 0: y <= 32 m and s <= sqrt(31) m.", tempts="divided by the mean: unbounded"),
    "StdMeanOrder": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, softmax=False, why="the mean may be near zero.", tempts="a hand-written norm"),
    "GroupsOfTokens": dict(_YES, why="four groups of 128 numbers: at most sqrt(127).", tempts="wrong layout"),
    "LengthAndRoot": dict(_NO, why="grows as the root of the length.", tempts="y / sqrt(1 + |y|^2)"),
    "Gated": dict(_NO, why="a sigmoid of anything is below one.", tempts="the gate reads the raw stream: exponential"),
    "GatedSilu": dict(_WILD, why="degree one by the gate.", tempts="a pre-norm gated unit"),
    "CatRaw": dict(_WILD, why="half of what is read is raw.", tempts="pre-norm"),
    "CatUnit": dict(_NO, why="both halves are of degree zero.", tempts="raw beside normed"),
    "SlicedSequential": dict(_WILD, why="the norm is the one that is left out.", tempts="a LayerNorm at the start of net"),
    "SortedNames": dict(_YES, why="act, fc1, fc2, norm: the norm comes last.", tempts="pre-norm: output free"),
    "FilmStream": dict(kind="block", growth_fixed="exponential", softmax=False, why="a factor 1 + gamma of size one per block.", tempts="FiLM of a normed copy: linear"),
    "NormOnce": dict(kind="model", growth_fixed="exponential", softmax=False, why="no layer has a norm.", tempts="pre-norm model"),
}
