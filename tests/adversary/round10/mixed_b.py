"""Skips and norms as people spell them: in place, by configuration, with functions of their own, as lists of modules; and slips in them."""

import collections
import functools
import math
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=True):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def mlp(d=D):
    return nn.Sequential(dense(d, 2 * d), nn.GELU(), dense(2 * d, d))


class Pre(nn.Module):
    """x + f(norm(x)); what a subclass changes is a method."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), mlp()

    def branch(self, x):
        return self.f(self.norm(x))

    def forward(self, x):
        return x + self.branch(x)


# ---- in place
class InPlaceOnCopy(nn.Module):
    """A norm by hand, in place, on a copy; its statistics are constants of the backward pass."""

    def __init__(self):
        super().__init__()
        self.f = mlp()

    def start(self, x):
        return x.clone()

    def forward(self, x):
        h = self.start(x)
        with torch.no_grad():
            std, mean = torch.std_mean(h, dim=-1, keepdim=True)
        h -= mean
        h /= std + 1e-5
        return x + self.f(h)


class InPlaceOnView(InPlaceOnCopy):
    """... on a view: the skip is normed with it."""

    def start(self, x):
        return x.view(x.shape)

    def forward(self, x):
        return super().forward(x * 1.0)


class FilledBuffer(Pre):
    """A new tensor is filled with the stream, then added to."""

    def forward(self, x):
        out = torch.empty_like(x)
        out.copy_(x)
        out.add_(self.branch(x))
        return out


class FilledHalf(Pre):
    """Eight tokens are filled only."""

    def forward(self, x):
        out = torch.zeros_like(x)
        out[:, :8] = x[:, :8]
        out += self.branch(x)
        return out


class ScaledInPlace(Pre):
    """The stream is scaled in place for its branch, and added as it is by then."""

    def forward(self, x):
        h = x.clone()
        h.mul_(0.97)
        return self.branch(h).add_(h)


# ---- several branches, one mean
class Experts(nn.Module):
    """Three branches."""

    def __init__(self):
        super().__init__()
        self.norm, self.fs = nn.LayerNorm(D), nn.ModuleList(mlp() for _ in range(3))


class MeanOfResiduals(Experts):
    """The mean of x + f."""

    def forward(self, x):
        h = self.norm(x)
        return sum(x + f(h) for f in self.fs) / len(self.fs)


class SumOfResiduals(Experts):
    """The sum of x + f over the root of three, as for independent terms."""

    def forward(self, x):
        h = self.norm(x)
        return sum(x + f(h) for f in self.fs) / math.sqrt(len(self.fs))


class ResidualOfMean(Experts):
    """x + the mean of x + f."""

    def forward(self, x):
        h = self.norm(x)
        return x + torch.stack([x + f(h) for f in self.fs], dim=0).mean(dim=0)


class StartOfSum(Experts):
    """sum(..., start=x)."""

    def forward(self, x):
        h = self.norm(x)
        return sum((f(h) for f in self.fs), start=x)


class AccumulateRead(Experts):
    """functools.reduce over branches that each read the sum so far."""

    def forward(self, x):
        return functools.reduce(lambda total, f: total + f(self.norm(total)), self.fs, x)


class AccumulateTwice(Experts):
    """... and each add the sum so far again."""

    def forward(self, x):
        return functools.reduce(lambda total, f: total + (0.1 * total + f(self.norm(total))), self.fs, x)


# ---- averages
class WeightedAverage(Pre):
    """0.9 x + 0.1 (x + 10 f)."""

    share = 0.1

    def forward(self, x):
        new = x + 10.0 * self.branch(x)
        return 0.9 * x + self.share * new


class WeightedAverageSlip(WeightedAverage):
    """0.9 x + 0.2 (x + 10 f)."""

    share = 0.2


class SkipVector(Pre):
    """A trained factor per channel on the skip, from 0.95."""

    start = 0.95

    def __init__(self):
        super().__init__()
        self.skip = nn.Parameter(torch.full((D,), self.start))

    def forward(self, x):
        return torch.addcmul(self.branch(x), x, self.skip)


class SkipVectorOne(SkipVector):
    """From 1."""

    start = 1.0


class GateFromZero(Pre):
    """x + tanh(g) f(norm(x)), g from 0 (Flamingo)."""

    def __init__(self):
        super().__init__()
        self.gain_gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.gain_gate.tanh() * self.branch(x)


class PostNormAlphaBranch(Pre):
    """DeepNorm's alpha on the wrong term."""

    def forward(self, x):
        return self.norm(x + self.f(x) * (2 * 24) ** 0.25)


class PairOfHalves(nn.Module):
    """Two halves of the channels, each with its branch, which change places."""

    def __init__(self):
        super().__init__()
        self.norms, self.fs = nn.ModuleList(nn.LayerNorm(D // 2) for _ in range(2)), nn.ModuleList(mlp(D // 2) for _ in range(2))

    def forward(self, x):
        halves = [h + f(n(h)) for h, n, f in zip(x.tensor_split(2, dim=-1), self.norms, self.fs)]
        return torch.cat(halves[::-1], dim=-1)


class PairOfHalvesSum(PairOfHalves):
    """Each takes half of the other, and all of its own."""

    def forward(self, x):
        a, b = (h + f(n(h)) for h, n, f in zip(x.tensor_split(2, dim=-1), self.norms, self.fs))
        return torch.cat([a + 0.5 * b, b + 0.5 * a], dim=-1)


# ---- norms that are none, norms in disguise
class BufferNorm(Pre):
    """Divided by a buffer that is to be calibrated, and starts at one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("std", torch.ones(()))

    def branch(self, x):
        return self.f(x / self.std.to(x.dtype))


NORMS = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


class ConfigNorm(Pre):
    """The norm by its name in the configuration."""

    kind = "rmsnorm"

    def __init__(self):
        super().__init__()
        self.norm = NORMS.get(self.kind, nn.Identity)(D)


class ConfigTypo(ConfigNorm):
    """... of which an underscore makes the identity."""

    kind = "rms_norm"


class InstanceNormTokens(Pre):
    """Each channel by its statistics over the tokens."""

    def branch(self, x):
        return self.f(F.instance_norm(x.transpose(1, 2)).transpose(1, 2))


class InstanceNormLayout(Pre):
    """The transpose is forgotten: each token by its statistics over the channels."""

    def branch(self, x):
        return self.f(F.instance_norm(x))


class RmsFunction(torch.autograd.Function):
    """x / rms(x), its backward by hand."""

    @staticmethod
    def forward(ctx, x):
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        y = x * r
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, r = ctx.saved_tensors
        return r * (grad - y * (grad * y).mean(-1, keepdim=True))


class FunctionNorm(Pre):
    """The norm is a function with its own backward."""

    def branch(self, x):
        return self.f(RmsFunction.apply(x))


class InvertedFunction(torch.autograd.Function):
    """x * rms(x): the reciprocal is forgotten."""

    @staticmethod
    def forward(ctx, x):
        r = torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        ctx.save_for_backward(x, r)
        return x * r

    @staticmethod
    def backward(ctx, grad):
        x, r = ctx.saved_tensors
        return r * grad + x * (grad * x).mean(-1, keepdim=True) / r


class FunctionNormInverted(Pre):
    """Multiplied by its size."""

    def branch(self, x):
        return self.f(InvertedFunction.apply(x))


class NormOfConcat(Pre):
    """The stream and a trained context side by side are normed, the stream's part is read."""

    def __init__(self):
        super().__init__()
        self.norm, self.context = nn.LayerNorm(2 * D), nn.Parameter(torch.randn(D))

    def branch(self, x):
        return self.f(self.norm(torch.cat([x, self.context.expand_as(x)], -1))[..., :D])


class BranchNormClipped(Pre):
    """A branch as long as its input at most: f times min(1, |x| / |f|), without a norm."""

    def branch(self, x):
        y = self.f(x)
        return y * (x.norm(dim=-1, keepdim=True) / y.norm(dim=-1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)


class BranchNormCapped(Pre):
    """f times min(1, 1 / |f|)."""

    def branch(self, x):
        y = self.f(x)
        return y * (1.0 / y.norm(dim=-1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)


# ---- convolutions
class ConvBlock(nn.Module):
    """Group norm, depthwise, pointwise; channels first inside."""

    def __init__(self):
        super().__init__()
        self.norm, self.deep, self.point = nn.GroupNorm(4, D), nn.Conv1d(D, D, 5, padding=2, groups=D), nn.Conv1d(D, D, 1)

    def branch(self, x):
        y = self.norm(x.permute(0, 2, 1))
        return self.point(F.gelu(self.deep(y))).permute(0, 2, 1)

    def forward(self, x):
        return x + self.branch(x)


class ConvBlockReluOut(ConvBlock):
    """relu(x + GN(conv(x))), no norm before."""

    def branch(self, x):
        return self.norm(self.point(F.relu(self.deep(x.permute(0, 2, 1))))).permute(0, 2, 1)

    def forward(self, x):
        return F.relu(x + self.branch(x))


class ConvBlockCapped(ConvBlock):
    """hardtanh(x + ...): the stream itself is capped, at six."""

    def forward(self, x):
        return F.hardtanh(x + self.branch(x), -6.0, 6.0)


class ChannelsKept(ConvBlock):
    """Eight channels are convolved, the others are kept: a stream by parts (FasterNet)."""

    def __init__(self):
        super().__init__()
        self.part, self.norm = nn.Conv1d(8, 8, 3, padding=1), nn.LayerNorm(D)
        self.f = mlp()

    def branch(self, x):
        a, b = self.norm(x).split([8, D - 8], -1)
        return self.f(torch.cat([self.part(a.mT).mT, b], -1))


# ---- whole models on floats
class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x) + x


class SequentialModel(nn.Module):
    """All of it is one nn.Sequential of residuals of nn.Sequential."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.Sequential(*[Residual(nn.Sequential(nn.LayerNorm(D), *mlp())) for _ in range(n)])

    def forward(self, x):
        return self.blocks(x)


class SequentialOfTwo(SequentialModel):
    """Each block is two residuals inside a third."""

    def __init__(self, n=24):
        super().__init__(0)
        one = lambda: Residual(nn.Sequential(nn.LayerNorm(D), mlp()))
        self.blocks = nn.Sequential(OrderedDict((f"b{i}", Residual(nn.Sequential(one(), one()))) for i in range(n)))


class OneLayerManyTimes(nn.Module):
    """[layer] * n."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList([Pre()] * n)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class LastWithoutSkip(nn.Module):
    """The last layer is the way out, and has no skip."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), mlp()) for _ in range(n))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x) if i + 1 == len(self.blocks) else x + block(x)
        return x


class UNetAdd(nn.Module):
    """The first half of the blocks leaves its states on a stack, the second half adds them."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n))

    def join(self, x, state):
        return x + state

    def forward(self, x):
        states, half = [], len(self.blocks) // 2
        for block in self.blocks[:half]:
            x = block(x)
            states.append(x)
        for block in self.blocks[half:]:
            x = block(self.join(x, states.pop()))
        return x


class UNetMean(UNetAdd):
    """Their means."""

    def join(self, x, state):
        return torch.mean(torch.stack((x, state)), 0)


class DepthDecay(nn.Module):
    """The skip is scaled by 1 - 1/(2n)."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), mlp()) for _ in range(n))

    def keep(self, i):
        return 1 - 0.5 / len(self.blocks)

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = self.keep(i) * x + block(x)
        return x


class HarmonicMean(DepthDecay):
    """The running mean of all branches: x (i+1)/(i+2) + f/(i+2)."""

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = x + (block(x) - x) / (i + 2)
        return x


class CarriedTuple(nn.Module):
    """The state is a named tuple of the stream, a normed memory of it and a count."""

    Carry = collections.namedtuple("Carry", "x memory count")

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(2 * D), dense(2 * D, 2 * D), nn.SiLU(), dense(2 * D, D)) for _ in range(n))

    def step(self, carry, block):
        y = block(torch.cat([carry.x, carry.memory], -1))
        return carry._replace(x=carry.x + y, memory=0.5 * (carry.memory + y), count=carry.count + 1)

    def forward(self, x):
        return functools.reduce(self.step, self.blocks, self.Carry(x, torch.zeros_like(x), 0)).x


class CarriedMemory(CarriedTuple):
    """The memory is returned: nothing of the input itself."""

    def forward(self, x):
        return functools.reduce(self.step, self.blocks, self.Carry(x, torch.zeros_like(x), 0)).memory


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_FREE = dict(_LIN, output_bounded={0: False})
_OUT = dict(_LIN, growth_all="linear", output_bounded={0: True})
_RAW = dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={0: False}, softmax=False)
_MODEL = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False)


def _power(gain, **more):
    if gain < 1:        # what branches give back holds gradients level
        return dict(kind="block", identity_gain=gain ** 24, growth_fixed="bounded", softmax=False, **more)
    return dict(kind="block", identity_gain=gain ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False, **more)


TRUTH = {
    "InPlaceOnCopy": dict(_LIN, why="a copy is normed.", tempts="a normed skip"),
    "InPlaceOnView": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="the skip is the view.", tempts="gain 1"),
    "FilledBuffer": dict(_FREE, why="x + y.", tempts="an empty tensor"),
    "FilledHalf": dict(_FREE, why="eight tokens keep x.", tempts="-"),
    "ScaledInPlace": dict(_power(0.97), why="the skip is scaled.", tempts="gain 1"),
    "MeanOfResiduals": dict(_LIN, why="3 x / 3.", tempts="3"),
    "SumOfResiduals": dict(_power(math.sqrt(3)), why="3 / sqrt(3).", tempts="gain 1"),
    "ResidualOfMean": dict(_power(2.0), why="x + x.", tempts="gain 1"),
    "StartOfSum": dict(_LIN, why="x once.", tempts="-"),
    "AccumulateRead": dict(_LIN, why="three pre-norm steps.", tempts="-"),
    "AccumulateTwice": dict(_power(1.1 ** 3), why="1.1 thrice.", tempts="gain 1"),
    "WeightedAverage": dict(_LIN, why="0.9 + 0.1.", tempts="0.9"),
    "WeightedAverageSlip": dict(_power(1.1), why="0.9 + 0.2.", tempts="gain 1"),
    "SkipVector": dict(_power(0.95), why="0.95.", tempts="gain 1"),
    "SkipVectorOne": dict(_LIN, why="1 at the start.", tempts="a trained factor"),
    "GateFromZero": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=False, why="closed.", tempts="-"),
    "PostNormAlphaBranch": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="post-norm.", tempts="DeepNorm"),
    "PairOfHalves": dict(_LIN, why="they change places.", tempts="no skip"),
    "PairOfHalvesSum": dict(_power(1.5), why="1.5 of what they share.", tempts="gain 1"),
    "BufferNorm": dict(_RAW, why="divided by one.", tempts="a norm"),
    "ConfigNorm": dict(_FREE, why="pre-norm.", tempts="-"),
    "ConfigTypo": dict(_RAW, why="the identity.", tempts="a norm"),
    "InstanceNormTokens": dict(_FREE, why="no entry above the root of 16.", tempts="-"),
    "InstanceNormLayout": dict(_FREE, why="a norm of each token.", tempts="tokens"),
    "FunctionNorm": dict(_FREE, why="pre-norm.", tempts="a function of its own"),
    "FunctionNormInverted": dict(_RAW, identity_gain=None, why="of degree two.", tempts="a norm"),
    "NormOfConcat": dict(_FREE, why="a part of what is normed.", tempts="-"),
    "BranchNormClipped": dict(_RAW, why="as long as the stream.", tempts="a clip"),
    "BranchNormCapped": dict(_OUT, why="no longer than one.", tempts="no norm"),
    "ConvBlock": dict(_FREE, why="pre-norm.", tempts="-"),
    "ConvBlockReluOut": dict(_OUT, why="positive streams pass.", tempts="a ReLU on the stream"),
    "ConvBlockCapped": dict(kind="block", growth_fixed="bounded", growth_all="bounded", output_bounded={0: False}, softmax=False, why="six.", tempts="linear"),
    "ChannelsKept": dict(_FREE, why="pre-norm.", tempts="-"),
    "SequentialModel": dict(_MODEL, why="x + f.", tempts="-"),
    "SequentialOfTwo": dict(kind="model", identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="x + (x + f).", tempts="gain 1"),
    "OneLayerManyTimes": dict(_MODEL, why="x + f.", tempts="-"),
    "LastWithoutSkip": dict(_MODEL, identity_gain=0.0, growth_fixed="bounded", why="the last branch alone.", tempts="gain 1"),
    "UNetAdd": dict(_MODEL, identity_gain=13.0, growth_fixed="polynomial", why="1 + 12.", tempts="gain 1; linear"),
    "UNetMean": dict(_MODEL, growth_fixed="bounded", why="means of states of gain 1; the last one is with the first.", tempts="2^-12"),
    "DepthDecay": dict(_MODEL, identity_gain=(1 - 0.5 / 24) ** 24, why="about e^-0.5, at any depth.", tempts="gain 1; exponential"),
    "HarmonicMean": dict(_MODEL, identity_gain=1 / 25, growth_fixed="bounded", why="a mean.", tempts="gain 1; linear"),
    "CarriedTuple": dict(_MODEL, why="x + y.", tempts="-"),
    "CarriedMemory": dict(_MODEL, identity_gain=0.0, growth_fixed="bounded", why="branches only.", tempts="gain 1"),
}
del TRUTH["FunctionNormInverted"]["identity_gain"]
