"""Streams: what passes a block beside its branch, in ordinary code and in near misses of it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(d_in, d_out, gain=1.0):
    lin = nn.Linear(d_in, d_out)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


def body(d=D, out=None, gain=1.0):
    return nn.Sequential(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


def pre(d=D, out=None, gain=1.0):
    return nn.Sequential(nn.LayerNorm(d), body(d, out, gain))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = pre()


# ---- copies that are none
class TransposedCopy(nn.Module):
    """Channels first; `contiguous` of a transposed view makes a copy, which is normed in place."""

    def __init__(self):
        super().__init__()
        self.f = body()

    @staticmethod
    def normed_(h, dim):
        centred = h - h.mean(dim, keepdim=True)
        return h.copy_(centred * torch.rsqrt(centred.square().mean(dim, keepdim=True) + 1e-6))

    def forward(self, x):
        x = x.clone()
        h = self.normed_(x.transpose(1, 2).contiguous(), 1)
        return x + self.f(h.transpose(1, 2))


class ContiguousNoCopy(TransposedCopy):
    """Channels last; `contiguous` has nothing to do."""

    def forward(self, x):
        x = x.clone()
        h = self.normed_(x.contiguous(), -1)
        return x + self.f(h)


class IdentityThenInPlace(nn.Module):
    """The slot for a norm holds an Identity, a fixed input scale is multiplied on in place; the branch ends in a norm."""

    def __init__(self):
        super().__init__()
        self.pre_norm, self.body, self.post_norm = nn.Identity(), body(), nn.LayerNorm(D)
        self.register_buffer("input_scale", torch.tensor(1.1))

    def forward(self, x):
        x = x.clone()
        h = self.pre_norm(x)
        h *= self.input_scale
        return x + self.post_norm(self.body(h))


class EmbeddingAlias(nn.Module):
    """Half of the embedding is to be added at every layer; the stream is updated in place."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(pre() for _ in range(n))

    def start(self, x):
        x = x.clone()
        return x, x

    def forward(self, x):
        x, x0 = self.start(x)
        for f in self.blocks:
            x += f(x.clone())
            x += 0.5 * x0
        return x


class EmbeddingInjected(EmbeddingAlias):
    """With a copy of the embedding."""

    def start(self, x):
        return x.clone(), x


# ---- vision
class ResidualInResidual(nn.Module):
    """ESRGAN: three dense blocks with 0.2 on their ends, and 0.2 on the end of the three of them."""

    class Dense(nn.Module):
        def __init__(self, nf=D, gc=8):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv1d(nf + i * gc, gc if i < 2 else nf, 3, padding=1) for i in range(3))

        def forward(self, x):
            seen = [x]
            for conv in self.convs[:-1]:
                seen.append(F.leaky_relu(conv(torch.cat(seen, 1)), 0.2))
            return self.convs[-1](torch.cat(seen, 1)) * 0.2 + x

    def __init__(self):
        super().__init__()
        self.rdb1, self.rdb2, self.rdb3 = self.Dense(), self.Dense(), self.Dense()

    def forward(self, x):
        x = x.transpose(1, 2)
        out = self.rdb3(self.rdb2(self.rdb1(x)))
        return (out * 0.2 + x).transpose(1, 2)


class ShuffleUnit(nn.Module):
    """ShuffleNet v2: half of the channels stays, half is replaced by its branch, then they are shuffled."""

    def __init__(self):
        super().__init__()
        self.f = pre(D // 2)

    @staticmethod
    def shuffle(x, groups=2):
        b, t, d = x.shape
        return x.reshape(b, t, groups, d // groups).transpose(2, 3).reshape(b, t, d)

    def merge(self, a, b):
        return self.f(b)

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return self.shuffle(torch.cat((a, self.merge(a, b)), dim=-1))


class ShuffleUnitResidual(ShuffleUnit):
    """The half that is worked on has a skip of its own."""

    def merge(self, a, b):
        return b + self.f(b)


class ShortcutA(Block):
    """ResNet's parameter-free shortcut for a change of width, here without one: every other channel, padded with zeros."""

    def forward(self, x):
        return F.pad(x[..., ::2], (D // 4, D // 4)) + self.f(x)


class SameSizePool(Block):
    """The skip is pooled to the size of the branch, which happens to be its own."""

    def forward(self, x):
        y = self.f(x)
        return F.adaptive_avg_pool1d(x.mT, y.shape[1]).mT + y


class SmoothSkip(Block):
    """The skip is pooled over five tokens with padding that counts."""

    def forward(self, x):
        return F.avg_pool1d(x.mT, 5, stride=1, padding=2).mT + self.f(x)


class SlidingDense(nn.Module):
    """DenseNet of constant width: new channels come in at one end, the oldest fall out at the other."""

    def __init__(self):
        super().__init__()
        self.f = pre(D, 8)

    def fresh(self, old, y):
        return y

    def forward(self, x):
        return torch.cat((x[..., 8:], self.fresh(x[..., :8], self.f(x))), -1)


class TurningDense(SlidingDense):
    """The oldest are worked on and come in again."""

    def fresh(self, old, y):
        return torch.add(old, y)


class LaplacianSplit(Block):
    """Low and high band; the branch works on the low band."""

    high = 1.0

    def forward(self, x):
        low = x.unflatten(1, (T // 4, 4)).mean(2)
        detail = x - low.repeat_interleave(4, 1)
        low = low + self.f(low)
        return torch.add(low.repeat_interleave(4, 1), detail, alpha=self.high)


class UnsharpMask(LaplacianSplit):
    """The high band at 1.2."""

    high = 1.2


# ---- language
class CausalCentring(Block):
    """The running mean over the past is taken off the stream."""

    sign = -1.0

    def forward(self, x):
        count = torch.arange(1, T + 1, device=x.device, dtype=x.dtype)[:, None]
        return torch.add(x, x.cumsum(1) / count, alpha=self.sign) + self.f(x)


class CausalMeanAdded(CausalCentring):
    """A bag of words: the running mean is added."""

    sign = 1.0


class FirstTokenAnchor(Block):
    """All tokens relative to the first."""

    def forward(self, x):
        return x - x[:, :1] + self.f(x)


class Smear(Block):
    """Every token receives half of its predecessor, on the stream itself."""

    def forward(self, x):
        return torch.cat((x[:, :1], x[:, 1:] + 0.5 * x[:, :-1]), dim=1) + self.f(x)


class Palindrome(Block):
    """Forward and backward reading are averaged."""

    weights = (0.5, 0.5)

    def forward(self, x):
        a, b = self.weights
        return a * x + b * x.flip(1) + self.f(x)


class PalindromeDifference(Palindrome):
    """Weights that sum to one half."""

    weights = (1.0, -0.5)


class MeanStraightThrough(Block):
    """The mean over channels gets a gradient of its own; the value is the plain add."""

    def forward(self, x):
        m = x.mean(-1, keepdim=True)
        return x + self.f(x) + (m - m.detach())


class LeakySkip(Block):
    """An activation on the skip, of slope 1.1 below zero."""

    def forward(self, x):
        return F.leaky_relu(x, 1.1) + self.f(x)


class PreActInPlace(nn.Module):
    """Pre-activation with inplace=True, before the skip is read; the norm stands behind the activation."""

    def __init__(self):
        super().__init__()
        self.act, self.f = nn.ReLU(inplace=True), pre()

    def forward(self, x):
        x = x.clone()
        h = self.act(x)
        return x + self.f(h)


class MaskedGain(Block):
    """The channels of a mask are kept at 1.1, all others at one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("outlier", torch.arange(D) % 11 == 7)

    def forward(self, x):
        return torch.where(self.outlier, 1.1 * x, x) + self.f(x)


# ---- lerps
class GradedLerp(Block):
    """Each channel has its own step towards the branch, from none to all."""

    low = 0.0

    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.linspace(self.low, self.low + 1, D))

    def forward(self, x):
        return torch.lerp(x, self.f(x), self.step)


class GradedLerpShifted(GradedLerp):
    """From minus one fifth."""

    low = -0.2


class MagnitudePreserving(Block):
    """EDM2's sum at t = 0.3."""

    t = 0.3

    def forward(self, x):
        t = self.t
        return x.lerp(self.f(x), t) / ((1 - t) ** 2 + t ** 2) ** 0.5


class MagnitudeAway(MagnitudePreserving):
    """t = -0.3: away from the branch, with the same denominator."""

    t = -0.3


class ZipBypass(nn.Module):
    """Zipformer: two residual layers, then a learned bypass between the input and what they made of it."""

    def __init__(self):
        super().__init__()
        self.ff1, self.ff2 = pre(), pre()
        self.gain_bypass = nn.Parameter(torch.full((D,), 0.5))

    def forward(self, src):
        orig = src
        src = src + self.ff1(src)
        src = src + self.ff2(src)
        return orig + (src - orig) * self.gain_bypass


class LeakyIntegrator(Block):
    """x + dt (F - x)."""

    sign = -1.0

    def forward(self, x):
        return x + 0.1 * (self.f(x) + self.sign * x)


class LeakySignSlip(LeakyIntegrator):
    sign = 1.0


# ---- integrators
class RungeKuttaFour(Block):
    def slope(self, x):
        return self.f(x)

    def forward(self, x):
        k1 = self.slope(x)
        k2 = self.slope(x + k1 / 2)
        k3 = self.slope(x + k2 / 2)
        k4 = self.slope(x + k3)
        return x + (k1 + 2 * k2 + 2 * k3 + k4) / 6


class RungeKuttaOfBlock(RungeKuttaFour):
    """What is integrated is the residual block and not its branch."""

    def slope(self, x):
        return x + self.f(x)


def _norm_of_power(m, n=24):
    return torch.linalg.matrix_norm(torch.linalg.matrix_power(m.double(), n), 2).item()


_I, _C = torch.eye(T), torch.tril(torch.ones(T, T)) / torch.arange(1, T + 1)[:, None]
_P5 = ((torch.arange(T)[:, None] - torch.arange(T)).abs() <= 2) / 5
_S = torch.diag(torch.ones(T - 1), -1)

_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False)

TRUTH = {
    "TransposedCopy": dict(_LIN, why="a transposed view is not contiguous: a copy is normed.", tempts="in-place ops on a view of the stream"),
    "ContiguousNoCopy": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False,
        why="contiguous() returns the tensor itself: the stream is normed, then F of a normed input is added.", tempts="pre-norm on a copy: gain 1, linear"),
    "IdentityThenInPlace": dict(kind="block", identity_gain=1.1 ** 24, growth_fixed="exponential", growth_all="exponential", softmax=False,
        why="Identity returns its argument, so that *= scales the stream.", tempts="only the branch's input is scaled: gain 1"),
    "EmbeddingAlias": dict(_EXP, kind="model", identity_gain=1.5 ** 24, why="x0 is x: each layer multiplies by 1.5.", tempts="13 copies, linear"),
    "EmbeddingInjected": dict(_LIN, kind="model", identity_gain=13.0, why="1 + 24/2 copies of the input, and bounded branches.", tempts="1; or 1.5^24"),
    "ResidualInResidual": dict(kind="block", identity_gain=1.2 ** 24, growth_fixed="exponential", growth_all="exponential", softmax=False,
        why="the three dense blocks hold x with 1 each, so that the outer sum is 0.2 x + x.", tempts="residual scaling 0.2: gain 1; or a branch scaled by 0.2"),
    "ShuffleUnit": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=False,
        why="channel 0 stays in the left half for ever (j -> 2j); all others are overwritten after five blocks at the latest. Each entry is an old one or a bounded branch output.",
        tempts="linear as every residual net; gain 0 or one half"),
    "ShuffleUnitResidual": dict(_LIN, why="a permutation and a pre-norm branch on half of the channels.", tempts="-"),
    "ShortcutA": dict(_LIN, why="channel c goes to c/2 + 8 if even; 16 stays where it is for ever and gets all that branches say of it; no entry is summed.", tempts="half of the channels per block: 0; bounded"),
    "SameSizePool": dict(_LIN, gradient_law="power", why="adaptive pooling to the same size is the identity.", tempts="pooling: a contraction"),
    "SmoothSkip": dict(kind="block", identity_gain=_norm_of_power(_P5), growth_fixed="bounded", softmax=False,
        why="the banded matrix of 1/5 loses at the ends: its largest eigenvalue is below one (symmetric: the norm of its power is the power).", tempts="an average: the mean is kept, gain 1, linear"),
    "SlidingDense": dict(kind="block", identity_gain=0.0, growth_fixed="bounded", softmax=False,
        why="after four blocks all channels are new, each a pre-normed branch output.", tempts="a permutation; a residual net: linear"),
    "TurningDense": dict(_LIN, why="a cyclic shift of the channels and an add.", tempts="-"),
    "LaplacianSplit": dict(_LIN, gradient_law="power", why="low + (x - low) + F.", tempts="a mean on the stream"),
    "UnsharpMask": dict(_EXP, identity_gain=1.2 ** 24, gradient_law="power", why="the detail is multiplied by 1.2 and stays detail, which no branch reads or writes: what branches add lives in the low band, with gain one.", tempts="as its twin"),
    "CausalCentring": dict(kind="block", identity_gain=_norm_of_power(_I - _C), growth_fixed="bounded", softmax=False,
        why="I - C is lower triangular with 1 - 1/k on the diagonal: the spectral radius is 15/16.", tempts="centring is a projection: gain 1, linear"),
    "CausalMeanAdded": dict(_EXP, identity_gain=_norm_of_power(_I + _C), why="the first token is its own mean: doubled by each block.", tempts="a mean: bounded; or gain 1"),
    "FirstTokenAnchor": dict(kind="block", growth_fixed="linear", softmax=False,
        why="I - 1 e^T is idempotent: what branches add is carried as it is after one block (tokens beyond the first).", tempts="norm above one: exponential"),
    "Smear": dict(kind="block", identity_gain=_norm_of_power(_I + 0.5 * _S), growth_fixed="polynomial", softmax=False,
        why="(I + S/2)^n with S^16 = 0 is a polynomial of degree 15 in n.", tempts="1.5^24: exponential; or gain 1"),
    "Palindrome": dict(_LIN, why="(I + flip)/2 is a projection.", tempts="-"),
    "PalindromeDifference": dict(_EXP, identity_gain=1.5 ** 24, why="antisymmetric tokens: 1 + 1/2.", tempts="weights sum to 1/2: bounded"),
    "MeanStraightThrough": dict(_LIN, gradient_law="exponential", why="forward x + F; backward I + P + J with the eigenvalue 2 of I + P.", tempts="pre-norm: power"),
    "LeakySkip": dict(_EXP, why="negative entries are multiplied by 1.1 per block.", tempts="an activation: bounded or gain 1"),
    "PreActInPlace": dict(kind="block", growth_fixed="linear", softmax=False, why="relu of the stream is no larger than it; a bounded branch is added.", tempts="gain 1 as the skip looks untouched"),
    "MaskedGain": dict(_EXP, identity_gain=1.1 ** 24, why="channels 7, 18 and 29.", tempts="gain 1 as on most channels"),
    "GradedLerp": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=False,
        why="channel 0 keeps its value and gets nothing; all others are convex means with bounded things.", tempts="linear as the gain is one; or gain below one"),
    "GradedLerpShifted": dict(_EXP, identity_gain=1.2 ** 24, why="1 - w = 1.2 on channel 0.", tempts="a lerp: convex"),
    "MagnitudePreserving": dict(kind="block", identity_gain=(0.7 / 0.58 ** 0.5) ** 24, growth_fixed="bounded", softmax=False,
        why="0.7/sqrt(0.58) = 0.919 on the stream.", tempts="magnitude preserving: gain 1"),
    "MagnitudeAway": dict(kind="block", identity_gain=(1.3 / 1.78 ** 0.5) ** 24, growth_fixed="bounded", softmax=False,
        why="1.3/sqrt(1.69 + 0.09) = 0.974 on the stream.", tempts="a lerp with negative weight: exponential"),
    "ZipBypass": dict(_LIN, why="(1 - c) x + c (x + F1 + F2) = x + c (F1 + F2).", tempts="0.5^24"),
    "LeakyIntegrator": dict(kind="block", identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False, why="0.9 x + 0.1 F.", tempts="gain 1"),
    "LeakySignSlip": dict(_EXP, identity_gain=1.1 ** 24, why="1.1 x + 0.1 F.", tempts="gain 1 or 0.9"),
    "RungeKuttaFour": dict(_LIN, gradient_law="power", why="four evaluations of a pre-normed branch.", tempts="-"),
    "RungeKuttaOfBlock": dict(_EXP, identity_gain=(65 / 24) ** 24, why="k's are 1, 3/2, 7/4, 11/4 times the stream: 1 + 1 + 1/2 + 1/6 + 1/24.", tempts="gain 1"),
}
