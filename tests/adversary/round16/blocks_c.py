"""Values that are bounded, zero or carried whole for a reason of arithmetic, and their neighbours that are not."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def fc(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


class Pre(nn.Module):
    """A net of the normed stream; `skip` is what is carried."""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), nn.Sequential(fc(D, 64, True), nn.GELU(), fc(64, D, True))

    def branch(self, x):
        return self.net(self.norm(x))

    def skip(self, x):
        return x

    def forward(self, x):
        return self.skip(x) + self.branch(x)


# ------------------------------------------------------------ branches
class GradientOnly(Pre):
    """The value is taken off itself, so that only its gradient is left."""

    def branch(self, x):
        y = super().branch(x)
        return y - y.detach()


class SharesOut(Pre):
    """The net ends in a softmax over channels."""

    def branch(self, x):
        return F.softmax(self.net(x), dim=-1) * D


class NormOfOneNumber(Pre):
    """The norm is over a last dimension of one: nothing is left of any number."""

    def branch(self, x):
        return F.layer_norm(self.net(x).unsqueeze(-1), (1,)).squeeze(-1)


class ProductOfNorms(Pre):
    """Two normed values are multiplied."""

    def __init__(self):
        super().__init__()
        self.other, self.norm_a, self.norm_b = fc(D, D, True), nn.LayerNorm(D), nn.LayerNorm(D)

    def branch(self, x):
        return self.norm_a(self.net(x)) * self.norm_b(self.other(x))


class NormTimesMap(ProductOfNorms):
    """One of them is a map of what is normed."""

    def branch(self, x):
        return self.norm_a(self.net(x)) * self.other(self.norm(x))


class TrainedFloor(Pre):
    """A trained positive number is added to the size that is divided by."""

    def __init__(self):
        super().__init__()
        self.floor = nn.Parameter(torch.zeros(()))

    def branch(self, x):
        y = self.net(x)
        return y / (y.square().mean(-1, keepdim=True).sqrt() + F.softplus(self.floor))


class TrainedFloorOfAnySign(TrainedFloor):
    """A number that need not be positive."""

    def branch(self, x):
        y = self.net(x)
        return y / (y.square().mean(-1, keepdim=True).sqrt() + self.floor)


# ------------------------------------------------------------ what is carried
class ChannelDecay(Pre):
    """Channels keep from a half to all of what they had."""

    top = 1.0

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.linspace(0.5, self.top, D))

    def skip(self, x):
        return x * self.keep


class ChannelGrowth(ChannelDecay):
    """And one a little more."""

    top = 1.1


class TrainedDecay(Pre):
    """The exponential of minus a softplus of a trained number, which starts at -2."""

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.full((D,), -2.0))

    def skip(self, x):
        return x * torch.exp(-F.softplus(self.rate))


class RolledStream(Pre):
    """Channels move on by one."""

    def skip(self, x):
        return torch.roll(x, 1, dims=-1)


class NeighbourMean(Pre):
    """The mean of a channel and its neighbour."""

    def skip(self, x):
        return 0.5 * (x + torch.roll(x, 1, dims=-1))


class NeighbourDifference(Pre):
    """Their difference: channels of alternating signs are doubled."""

    def skip(self, x):
        return x - torch.roll(x, 1, dims=-1)


class PhaseStream(Pre):
    """Pairs of channels are turned by a trained phase."""

    def __init__(self):
        super().__init__()
        self.phase = nn.Parameter(torch.randn(D // 2))

    def skip(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(z * torch.polar(torch.ones_like(self.phase), self.phase)).flatten(-2)


class EvenAndOdd(Pre):
    """Lifting: odd channels lose what even ones predict, even ones gain half of that."""

    def skip(self, x):
        even, odd = x[..., 0::2], x[..., 1::2]
        odd = odd - even
        even = even + 0.5 * odd
        return torch.stack([even, odd], dim=-1).flatten(-2)


# ------------------------------------------------------------ logits
class Attention(nn.Module):
    """Pre-norm attention; `score` makes logits of queries and keys."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), fc(D, 3 * D), fc(D, D)

    def score(self, q, k):
        return q @ k.mT * HD ** -0.5

    def branch(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        return self.o((self.score(q, k).softmax(dim=-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class LengthPutBack(Attention):
    """Cosines, times the length of the query."""

    def score(self, q, k):
        return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * q.norm(dim=-1, keepdim=True)


class OverLargest(Attention):
    """Over the largest size in the row, times ten."""

    def score(self, q, k):
        u = super().score(q, k)
        return 10.0 * u / u.abs().amax(dim=-1, keepdim=True).clamp_min(1e-6)


class OverLargestSigned(Attention):
    """Over the size of the largest, which may be near zero while others are far below it."""

    def score(self, q, k):
        u = super().score(q, k)
        return 10.0 * u / u.amax(dim=-1, keepdim=True).abs().clamp_min(1e-6)


class OverMeanSize(Attention):
    """Over the mean size of the row."""

    def score(self, q, k):
        u = super().score(q, k)
        return u / (u.abs().mean(dim=-1, keepdim=True) + 1e-6)


class CentredKeys(Attention):
    """Keys lose their mean over places and are divided by their deviation over places, channel by channel; queries have length one."""

    def score(self, q, k):
        k = (k - k.mean(dim=-2, keepdim=True)) / (k.std(dim=-2, keepdim=True) + 1e-6)
        return F.normalize(q, dim=-1) @ k.mT


class CentredKeysOnly(Attention):
    """They only lose their mean."""

    def score(self, q, k):
        return F.normalize(q, dim=-1) @ (k - k.mean(dim=-2, keepdim=True)).mT


_B = dict(kind="block")
_CONV = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE = dict(output_bounded={0: False})
_PERI = dict(_CONV, growth_all="linear", output_bounded={0: True})
_QK = dict(_CONV, softmax=True, logits_bounded={0: True}, **_ONE)
_RAW = dict(_QK, logits_bounded={0: False})
_LOSES = dict(_B, growth_fixed="bounded", softmax=False, **_ONE)
TRUTH = {
    "GradientOnly": dict(_B, identity_gain=1.0, growth_fixed="bounded", growth_all="bounded", softmax=False, output_bounded={0: True}, gradient_law="exponential", why="zero is added."),
    "SharesOut": dict(_B, identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={0: True}, why="shares are at most one."),
    "NormOfOneNumber": dict(_B, identity_gain=1.0, growth_fixed="bounded", growth_all="bounded", softmax=False, output_bounded={0: True}, why="a number less itself."),
    "ProductOfNorms": dict(_PERI, why="two bounded values."),
    "NormTimesMap": dict(_CONV, **_ONE, why="one factor is a map of what is normed."),
    "TrainedFloor": dict(_PERI, why="the divisor is at least the size."),
    "TrainedFloorOfAnySign": dict(_B, identity_gain=1.0, softmax=False, **_ONE, why="the divisor may vanish."),
    "ChannelDecay": dict(_CONV, **_ONE, why="the last channel keeps all."),
    "ChannelGrowth": dict(_B, identity_gain=1.1 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False, **_ONE, why="the last channel has a tenth more."),
    "TrainedDecay": dict(_LOSES, identity_gain=(1 + math.exp(-2)) ** -24, why="exp of minus softplus is one over one and exp."),
    "RolledStream": dict(_CONV, **_ONE, gradient_law="power", why="an isometry."),
    "NeighbourMean": dict(_CONV, **_ONE, why="what is the same in all channels is kept."),
    "NeighbourDifference": dict(_B, identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False, **_ONE, why="alternating channels double."),
    "PhaseStream": dict(_CONV, **_ONE, gradient_law="power", why="an isometry."),
    "EvenAndOdd": dict(_B, growth_fixed="linear", softmax=False, **_ONE, why="the matrix has eigenvalues of size one, apart from each other: its powers are bounded."),
    "LengthPutBack": dict(_RAW, why="the query's length is free."),
    "OverLargest": dict(_QK, why="at most ten."),
    "OverLargestSigned": dict(_RAW, why="the largest may be near zero."),
    "OverMeanSize": dict(_QK, why="at most the number of places."),
    "CentredKeys": dict(_QK, gradient_law="power", why="entries of keys are at most the root of the number of places."),
    "CentredKeysOnly": dict(_RAW, why="keys are free."),
}
