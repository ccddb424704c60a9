"""Kin of what was told wrongly at first sight: running sizes, a few channels that grow, logits of which one side is bare."""

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


class Behind(nn.Module):
    """A raw net, and `behind` what it gives."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(fc(D, 64, True), nn.GELU(), fc(64, D, True))

    def branch(self, x):
        return self.behind(self.net(x))

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ running sizes
class RunningPeak(Behind):
    """Over the largest size of all places so far, this one included."""

    def behind(self, y):
        return y / (y.abs().amax(dim=-1, keepdim=True).cummax(dim=1).values + 1e-6)


class LeakyPeak(Behind):
    """The peak decays by a tenth at each place; a larger value takes its place."""

    def behind(self, y):
        size, peak, out = y.square().mean(-1, keepdim=True).sqrt(), torch.zeros_like(y[:, 0, :1]), []
        for t in range(y.shape[1]):
            peak = torch.maximum(0.9 * peak, size[:, t])
            out.append(y[:, t] / (peak + 1e-6))
        return torch.stack(out, dim=1)


class LeakyPeakBefore(LeakyPeak):
    """The value is divided before it is taken into the peak, which starts at one."""

    def behind(self, y):
        size, peak, out = y.square().mean(-1, keepdim=True).sqrt(), torch.ones_like(y[:, 0, :1]), []
        for t in range(y.shape[1]):
            out.append(y[:, t] / (peak + 1e-6))
            peak = torch.maximum(0.9 * peak, size[:, t])
        return torch.stack(out, dim=1)


class MovingPowerByConv(Behind):
    """The moving mean of powers as a matrix of weights over places that sum to one."""

    def __init__(self):
        super().__init__()
        i = torch.arange(T)
        w = 0.8 ** (i[:, None] - i).clamp(min=0) * (i[:, None] >= i)
        self.register_buffer("w", (w / w.sum(-1, keepdim=True)))

    def behind(self, y):
        power = self.w @ y.pow(2).mean(dim=-1, keepdim=True)
        return y * torch.rsqrt(power + 1e-8)


class WindowPower(Behind):
    """The mean of powers over this place and the two before it."""

    def behind(self, y):
        p = y.square().mean(-1)
        return y / (F.avg_pool1d(F.pad(p[:, None], (2, 0)), 3, stride=1)[:, 0, :, None] + 1e-8).sqrt()


class SmoothedByNeighbours(Behind):
    """The norm reads what its neighbours are, and not the place itself."""

    def behind(self, y):
        p = y.square().mean(-1, keepdim=True)
        return y / (0.5 * (p.roll(1, dims=1) + p.roll(-1, dims=1)) + 1e-4).sqrt()


class StateOfUnitTokens(Behind):
    """A running sum of normed values with a decay: at most a geometric sum."""

    def behind(self, y):
        y, state, out = F.normalize(y, dim=-1), torch.zeros_like(y[:, 0]), []
        for t in range(y.shape[1]):
            state = 0.9 * state + y[:, t]
            out.append(state)
        return torch.stack(out, dim=1)


# ------------------------------------------------------------ what is carried
class Pre(Behind):
    """A net of what is normed; `skip` is what is carried."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def branch(self, x):
        return self.net(self.norm(x))

    def skip(self, x):
        raise NotImplementedError

    def forward(self, x):
        return self.skip(x) + self.branch(x)


class OneChannelKept(Pre):
    """All channels but one are halved."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.cat([torch.full((D - 1,), 0.5), torch.ones(1)]))

    def skip(self, x):
        return x * self.keep


class OnePlaceKept(Pre):
    """All places but the first are halved."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.cat([torch.ones(1), torch.full((T - 1,), 0.5)])[:, None])

    def skip(self, x):
        return self.keep * x


class RotatedMemory(Pre):
    """The last channel is kept and the others are mixed by half an orthogonal matrix."""

    def __init__(self):
        super().__init__()
        q, r = torch.linalg.qr(torch.randn(D - 1, D - 1, device="cpu"))
        full = torch.eye(D, device="cpu")
        full[: D - 1, : D - 1] = 0.5 * q
        self.register_buffer("a", full.to(torch.get_default_dtype()))

    def skip(self, x):
        return x @ self.a


class AllChannelsDecay(OneChannelKept):
    """The one is halved, too."""

    def __init__(self):
        super().__init__()
        self.keep.mul_(0.5)


class MeanKept(Pre):
    """Only the mean over channels is carried whole, the rest is halved; the net's output has a mean."""

    def skip(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        return mean + 0.5 * (x - mean)


# ------------------------------------------------------------ one side of the logits
class Attention(nn.Module):
    """Pre-norm attention; `both` prepares queries and keys."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o, self.q_norm = nn.RMSNorm(D), fc(D, 3 * D), fc(D, D), nn.RMSNorm(HD)

    def branch(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        q, k = self.both(q, k)
        return self.o(((q @ k.mT * HD ** -0.5).softmax(dim=-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class KeysOfShares(Attention):
    """Queries are normed, keys are a softmax over channels."""

    def both(self, q, k):
        return self.q_norm(q), k.softmax(dim=-1)


class KeysOfTanh(Attention):
    """Keys are a tanh."""

    def both(self, q, k):
        return self.q_norm(q), torch.tanh(k)


class KeysUnitOverPlaces(Attention):
    """Keys have length one over the places."""

    def both(self, q, k):
        return self.q_norm(q), F.normalize(k, dim=-2) * T ** 0.5


class KeysOverFirst(Attention):
    """Keys are divided by the first key's length."""

    def both(self, q, k):
        return self.q_norm(q), k / (k[:, :, :1].norm(dim=-1, keepdim=True) + 1e-6)


class KeysClamped(Attention):
    """Keys are clamped from above alone."""

    def both(self, q, k):
        return self.q_norm(q), k.clamp(max=4.0)


_B = dict(kind="block")
_CONV = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE = dict(output_bounded={0: False})
_PERI = dict(_CONV, growth_all="linear", output_bounded={0: True})
_KEPT = dict(_CONV, **_ONE)
_QK = dict(_CONV, softmax=True, logits_bounded={0: True}, **_ONE)
_RAW = dict(_QK, logits_bounded={0: False})
TRUTH = {
    "RunningPeak": dict(_PERI, why="the peak is at least this place's."),
    "LeakyPeak": dict(_PERI, why="the peak is at least this place's."),
    "LeakyPeakBefore": dict(_B, identity_gain=1.0, softmax=False, **_ONE, why="the first place is divided by one."),
    "MovingPowerByConv": dict(_PERI, why="this place's power has at least a fifth of the mean."),
    "WindowPower": dict(_PERI, why="this place's power is a third of the mean."),
    "SmoothedByNeighbours": dict(_B, identity_gain=1.0, softmax=False, **_ONE, why="neighbours may be small."),
    "StateOfUnitTokens": dict(_PERI, why="a geometric sum of unit vectors is below ten."),
    "OneChannelKept": dict(_KEPT, why="one channel keeps all."),
    "OnePlaceKept": dict(_KEPT, why="one place keeps all."),
    "RotatedMemory": dict(_KEPT, why="one channel keeps all."),
    "AllChannelsDecay": dict(_B, identity_gain=2.0 ** -24, growth_fixed="bounded", softmax=False, **_ONE, why="at most a half is kept."),
    "MeanKept": dict(_KEPT, why="the mean is kept."),
    "KeysOfShares": dict(_B, identity_gain=1.0, growth_fixed="linear", softmax=True, **_ONE, why="shares are at most one; of which of its two softmaxes a claim would be is left open."),
    "KeysOfTanh": dict(_QK, why="entries are at most one."),
    "KeysUnitOverPlaces": dict(_QK, why="entries are at most root T."),
    "KeysOverFirst": dict(_RAW, why="other keys may be longer."),
    "KeysClamped": dict(_RAW, why="not from below."),
}
