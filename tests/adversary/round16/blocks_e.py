"""What a skip or a branch is multiplied by is made of trained numbers or of buffers, and has one value at the start."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def net():
    up, down = nn.Linear(D, 64), nn.Linear(64, D)
    for w in (up, down):
        nn.init.normal_(w.weight, std=w.in_features ** -0.5)
        nn.init.zeros_(w.bias)
    return nn.Sequential(up, nn.GELU(), down)


class Kept(nn.Module):
    """A net of the normed stream, and the stream times `keep()`, which is made of `p`."""

    start = 0.0

    def __init__(self):
        super().__init__()
        self.norm, self.net, self.p = nn.LayerNorm(D), net(), nn.Parameter(torch.full((D,), self.start))

    def keep(self):
        raise NotImplementedError

    def forward(self, x):
        return x * self.keep() + self.net(self.norm(x))


class KeptClamped(Kept):
    """1.2, clamped to one."""

    start = 1.2

    def keep(self):
        return self.p.clamp(max=1.0)


class KeptOverLargest(Kept):
    """Numbers over the largest of them."""

    def __init__(self):
        super().__init__()
        self.p.data.copy_(torch.linspace(0.2, 0.7, D))

    def keep(self):
        return self.p / self.p.abs().max()


class KeptShares(Kept):
    """A softmax of equal numbers times their count."""

    def keep(self):
        return torch.softmax(self.p, dim=0) * D


class KeptCosine(Kept):
    """The cosine of zero."""

    def keep(self):
        return torch.cos(self.p)


class KeptUnitLength(Kept):
    """Equal numbers over their length, times the root of their count."""

    start = 3.0

    def keep(self):
        return F.normalize(self.p, dim=0) * math.sqrt(D)


class KeptUnitLengthForgotten(KeptUnitLength):
    """Without the root."""

    def keep(self):
        return F.normalize(self.p, dim=0)


class KeptThrough(Kept):
    """The exponential of a number less its copy without gradient: one whatever it is."""

    start = 0.7

    def keep(self):
        return torch.exp(self.p - self.p.detach())


class KeptTanh(Kept):
    """A tanh of one."""

    start = 1.0

    def keep(self):
        return torch.tanh(self.p)


class KeptPower(Kept):
    """Two to the power of minus a quarter."""

    start = -0.25

    def keep(self):
        return 2.0 ** self.p


class KeptWhere(Kept):
    """One where a number is positive, a half elsewhere; all are."""

    start = 0.1

    def keep(self):
        return torch.where(self.p > 0, torch.ones_like(self.p), torch.full_like(self.p, 0.5))


class KeptInterpolated(Kept):
    """Between 0.9 and 1.1, by a sigmoid of zero."""

    def keep(self):
        return torch.lerp(torch.full_like(self.p, 0.9), torch.full_like(self.p, 1.1), torch.sigmoid(self.p))


class KeptSlowGrowth(Kept):
    """From a half to 1.02 over the channels."""

    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.linspace(0.5, 1.02, D))

    def keep(self):
        return self.c


class KeptFromNothing(Kept):
    """From zero to one over the channels."""

    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.arange(D) / (D - 1))

    def keep(self):
        return self.c


class KeptOnTwo(Kept):
    """Two channels of 32 keep all, the others a tenth."""

    def __init__(self):
        super().__init__()
        c = torch.full((D,), 0.1)
        c[5], c[20] = 1.0, 1.0
        self.register_buffer("c", c)

    def keep(self):
        return self.c


class MeanGrows(Kept):
    """The mean over channels grows by a twentieth, the rest is halved."""

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        return 1.05 * mean + 0.5 * (x - mean) + self.net(self.norm(x))


class FirstPlaceGrows(Kept):
    """The first place grows by a twentieth."""

    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.where(torch.arange(T) == 0, 1.05, 0.5)[:, None])

    def keep(self):
        return self.c


# ------------------------------------------------------------ raw branches times what is zero
class RawTimes(nn.Module):
    """A net of the raw stream times `times()`."""

    start = 0.0

    def __init__(self):
        super().__init__()
        self.net, self.p = net(), nn.Parameter(torch.full((D,), self.start))

    def times(self):
        raise NotImplementedError

    def branch(self, x):
        return self.net(x) * self.times()

    def forward(self, x):
        return x + self.branch(x)


class RawTimesDeadRelu(RawTimes):
    """A ReLU of minus one."""

    start = -1.0

    def times(self):
        return F.relu(self.p)


class RawTimesVersine(RawTimes):
    """One less the cosine of zero."""

    def times(self):
        return 1 - torch.cos(self.p)


class RawTimesTanh(RawTimes):
    """A tanh of zero."""

    def times(self):
        return torch.tanh(self.p)


class RawTimesDifference(RawTimes):
    """Of two numbers that start alike."""

    def __init__(self):
        super().__init__()
        self.other = nn.Parameter(self.p.detach().clone() + 0.3)
        self.p.data.add_(0.3)

    def times(self):
        return self.p - self.other


class RawTimesSoftplus(RawTimes):
    """A softplus of zero is no zero."""

    def times(self):
        return F.softplus(self.p)


class RawTimesSmall(RawTimes):
    """A sigmoid of -3."""

    start = -3.0

    def times(self):
        return torch.sigmoid(self.p)


_B = dict(kind="block", softmax=False)
_ONE = dict(_B, identity_gain=1.0, growth_fixed="linear")
_LOSES = dict(_B, growth_fixed="bounded")
_GROWS = dict(_B, growth_fixed="exponential")
_STILL = dict(_B, identity_gain=1.0, growth_fixed="bounded", gradient_law="flat", output_bounded={0: False})
_DEAD = {k: v for k, v in _STILL.items() if k != "gradient_law"}       # no weight has a gradient
TRUTH = {
    "KeptClamped": dict(_ONE, why="one."),
    "KeptOverLargest": dict(_ONE, why="the largest is one."),
    "KeptShares": dict(kind="block", identity_gain=1.0, growth_fixed="linear", why="one; the softmax is of weights."),
    "KeptCosine": dict(_ONE, why="one."),
    "KeptUnitLength": dict(_ONE, why="one."),
    "KeptUnitLengthForgotten": dict(_LOSES, identity_gain=32.0 ** -12, why="one over the root of 32."),
    "KeptThrough": dict(_ONE, why="one."),
    "KeptTanh": dict(_LOSES, identity_gain=math.tanh(1.0) ** 24, why="0.76."),
    "KeptPower": dict(_LOSES, identity_gain=2.0 ** -6, why="2 to the minus a quarter, 24 times."),
    "KeptWhere": dict(_ONE, why="one."),
    "KeptInterpolated": dict(_ONE, why="the middle is one."),
    "KeptSlowGrowth": dict(_GROWS, identity_gain=1.02 ** 24, why="the last channel grows."),
    "KeptFromNothing": dict(_ONE, why="the last channel keeps all."),
    "KeptOnTwo": dict(_ONE, why="two channels keep all."),
    "MeanGrows": dict(_GROWS, identity_gain=1.05 ** 24, why="the mean grows."),
    "FirstPlaceGrows": dict(_GROWS, identity_gain=1.05 ** 24, why="the first place grows."),
    "RawTimesDeadRelu": dict(_DEAD, why="nothing is added at the start."),
    "RawTimesVersine": dict(_DEAD, why="nothing is added at the start."),
    "RawTimesTanh": dict(_STILL, why="nothing is added at the start."),
    "RawTimesDifference": dict(_STILL, why="nothing is added at the start."),
    "RawTimesSoftplus": dict(_B, identity_gain=1.0, growth_fixed="exponential", output_bounded={0: False}, why="0.69 of a raw branch."),
    "RawTimesSmall": dict(_B, identity_gain=1.0, growth_fixed="exponential", output_bounded={0: False}, why="a raw branch."),
}
