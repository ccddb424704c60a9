"""What is carried from block to block: near misses of the identity path and their sound twins."""

import math
from collections import deque
from dataclasses import dataclass, replace

import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


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


class Layers(nn.Module):
    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(pre() for _ in range(n))


# ---- Runge and Kutta in the form of Shu and Osher
class SspRungeKutta(Block):
    """Three stages, each a convex combination of the start and an Euler step."""

    tableau = ((0.0, 1.0), (0.75, 0.25), (1 / 3, 2 / 3))

    def forward(self, x):
        u = x
        for keep, take in self.tableau:
            u = keep * x + take * (u + self.f(u))
        return u


class SspRungeKuttaSlip(SspRungeKutta):
    """3/4 where 2/3 belongs."""

    tableau = ((0.0, 1.0), (0.75, 0.25), (1 / 3, 3 / 4))


# ---- a filter over the tokens in the frequency domain
class RollOff(Block):
    top = 0.0

    def __init__(self):
        super().__init__()
        response = torch.linspace(1.0, 0.0, 9)
        response[6] += self.top
        self.register_buffer("response", response)

    def forward(self, x):
        z = torch.fft.rfft(x, dim=1)
        z = torch.einsum("bfd,f->bfd", z, self.response.to(z.dtype))
        return torch.fft.irfft(z, n=x.shape[1], dim=1) + self.f(x)


class Presence(RollOff):
    """The same roll-off with a bump at the seventh bin: 0.25 + 0.85."""

    top = 0.85


# ---- cosine transform there and back
class CosineThereAndBack(Block):
    """The block lives on cosine coefficients over the tokens; orthonormal rows."""

    def __init__(self):
        super().__init__()
        k, n = torch.arange(16.0)[:, None], torch.arange(16.0)
        self.register_buffer("dct", torch.cos(math.pi * (n + 0.5) * k / 16) * self.rows(k))

    def rows(self, k):
        return torch.where(k == 0, 16 ** -0.5, 8 ** -0.5)

    def forward(self, x):
        z = torch.einsum("kn,bnd->bkd", self.dct, x)
        z = z + self.f(z)
        return torch.einsum("kn,bkd->bnd", self.dct, z)


class CosineFlatRows(CosineThereAndBack):
    """The row of the mean has the factor of the others."""

    def rows(self, k):
        return torch.full_like(k, 8 ** -0.5)


# ---- multistep schemes on a deque
class ThreeStepBackward(Layers):
    """The backward differentiation weights of order three, with an explicit right-hand side."""

    coefficients, step = (2 / 11, -9 / 11, 18 / 11), 6 / 11

    def forward(self, x):
        past = deque([x, x, x], maxlen=3)
        for f in self.blocks:
            new = sum(c * s for c, s in zip(self.coefficients, past))
            past.append(torch.add(new, f(past[-1]), alpha=self.step))
        return past[-1]


class ThreeStepExplicit(ThreeStepBackward):
    """The explicit three-step scheme of highest order."""

    coefficients, step = (-1 / 2, 3.0, -3 / 2), 3.0


@dataclass(frozen=True)
class Pair:
    past: torch.Tensor
    now: torch.Tensor


class Leapfrog(Layers):
    """Midpoint rule: the branch of the present is added to the past."""

    def forward(self, x):
        s = Pair(x, x)
        for f in self.blocks:
            s = replace(s, past=s.now, now=s.past + f(s.now))
        return s.now


class LeapfrogBoth(Layers):
    """Half of the past and all of the present: somebody wanted both."""

    def forward(self, x):
        s = Pair(x, x)
        for f in self.blocks:
            s = Pair(now=s.now + s.past / 2 + f(s.now), past=s.now)
        return s.now


# ---- mixture of depths
class MixtureOfDepths(nn.Module):
    """The best eight tokens are taken out, worked on, and put back in their places."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.body = nn.LayerNorm(D), nn.Linear(D, 1), body()

    def put_back(self, x, where, old, new):
        return x.scatter(1, where, old + new)

    def forward(self, x):
        score = self.router(self.norm(x))
        top = score.topk(8, dim=1)
        where = top.indices.expand(-1, -1, D)
        old = torch.gather(x, 1, where)
        return self.put_back(x, where, old, torch.sigmoid(top.values) * self.body(self.norm(old)))


class MixtureOfDepthsTwice(MixtureOfDepths):
    """The same with scatter_add."""

    def put_back(self, x, where, old, new):
        return x.scatter_add(1, where, old + new)


# ---- a coarser scale
class HourglassDelta(Block):
    """Pairs of tokens are averaged, worked on with a skip of their own, and the change is brought back."""

    def forward(self, x):
        low = F.avg_pool1d(x.mT, 2).mT
        return x + torch.repeat_interleave(self.refine(low), 2, dim=1)

    def refine(self, low):
        return (low + self.f(low)) - low


class HourglassSum(HourglassDelta):
    """The state of the coarse scale itself is brought back."""

    def refine(self, low):
        return low + self.f(low)


# ---- norms and aliases
class NormedCopy(nn.Module):
    """Every group of eight channels is brought to unit length before the MLP."""

    def __init__(self):
        super().__init__()
        self.body = body()

    def forward(self, x):
        h = x.unflatten(-1, (4, 8))
        h = h.mul(torch.rsqrt(h.square().sum(-1, keepdim=True) + 1e-6))
        return x + self.body(h.flatten(-2))


class NormedAlias(NormedCopy):
    """In place, to save memory."""

    def forward(self, x):
        x = x.clone()
        h = x.unflatten(-1, (4, 8))
        h.mul_(torch.rsqrt(x.unflatten(-1, (4, 8)).clone().square().sum(-1, keepdim=True) + 1e-6))
        return x + self.body(h.flatten(-2))


# ---- recursion
class FractalSum(Layers):
    """Each stretch of layers is run half by half, and its input is added."""

    def join(self, x, y):
        return x + y

    def run(self, layers, x):
        if len(layers) == 1:
            return x + layers[0](x)
        half = len(layers) // 2
        return self.join(x, self.run(layers[half:], self.run(layers[:half], x)))

    def forward(self, x):
        return self.run(list(self.blocks), x)


class FractalMean(FractalSum):
    """FractalNet's join: the mean of the short way and the long way."""

    def join(self, x, y):
        return torch.stack((x, y)).mean(0)


# ---- maxima
class RunningMaximum(Block):
    """x + relu(F - x): what is added is the excess of the branch over the stream."""

    sign = -1

    def forward(self, x):
        return x + torch.add(self.f(x), x, alpha=self.sign).relu_()


class RunningDouble(RunningMaximum):
    sign = 1


# ---- unrolled fixed points, one set of weights
class DampedFixedPoint(nn.Module):
    """z <- z + 0.3 (x + F(N(z)) - z), from zero."""

    def __init__(self, n=24):
        super().__init__()
        self.n, self.f = n, pre()

    def step(self, z, x):
        return z.lerp(x + self.f(z), 0.3)

    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(self.n):
            z = self.step(z, x)
        return z


class InjectedEachStep(DampedFixedPoint):
    """z <- z + F(N(z)) + x, from zero."""

    def step(self, z, x):
        return z + self.f(z) + x


# ---- overlapping patches
class PatchesAveraged(nn.Module):
    """Patches of three tokens; where patches overlap, the mean is taken."""

    def __init__(self):
        super().__init__()
        self.f = pre(3 * D)

    def cut(self, x):
        return F.unfold(x.mT.unsqueeze(-1), (3, 1), padding=(1, 0)).mT

    def paste(self, p):
        return F.fold(p.mT, (16, 1), (3, 1), padding=(1, 0)).squeeze(-1).mT

    def forward(self, x):
        p = self.cut(x)
        return self.paste(p + self.f(p)) / self.paste(self.cut(torch.ones_like(x)))


class PatchesFolded(PatchesAveraged):
    """The patches are folded back and that is that."""

    def forward(self, x):
        p = self.cut(x)
        return self.paste(torch.add(self.f(p), p))


# ---- lerp
class LerpToSum(Block):
    def forward(self, x):
        return torch.lerp(x, x + self.f(x), 0.1)


class LerpToBranch(Block):
    def forward(self, x):
        return torch.lerp(x, self.f(x), 0.1)


# ---- pooling of a doubled width
class PooledMean(nn.Module):
    """The stream is doubled in width and pooled back by the mean of pairs."""

    divisor = None

    def __init__(self):
        super().__init__()
        self.f = pre(D, 2 * D)

    def forward(self, x):
        wide = x.repeat_interleave(2, -1) + self.f(x)
        return F.avg_pool2d(wide.unsqueeze(1), (1, 2), divisor_override=self.divisor).squeeze(1)


class PooledUnit(PooledMean):
    """avg_pool2d with a divisor of its own."""

    divisor = 1


# ---- readouts and resets
class ReadoutEma(Layers):
    """What leaves the stack is a moving average over depth that starts at zero."""

    def forward(self, x):
        mean = torch.zeros_like(x)
        for f in self.blocks:
            x = x + f(x)
            mean = 0.9 * mean + 0.1 * x
        return mean


class ResetInTheMiddle(Layers):
    """The layer in the middle has no skip."""

    def forward(self, x):
        for i, f in enumerate(self.blocks):
            x = f(x) if i == len(self.blocks) // 2 else x + f(x)
        return x


class DepthAttention(nn.Module):
    """Every layer reads a softmax-weighed mean of the input and of all that was said so far."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(pre() for _ in range(n))
        self.mix = nn.ParameterList(nn.Parameter(torch.zeros(i + 1)) for i in range(n + 1))

    def read(self, said, logits):
        w = logits.softmax(0)
        return sum(a * s for a, s in zip(w.unbind(), said))

    def forward(self, x):
        said = [x]
        for f, logits in zip(self.blocks, self.mix):
            said.append(f(self.read(said, logits)))
        return self.read(said, self.mix[-1])


# ---- half a norm
class HalvesPreNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D // 2), body(gain=1.5)

    def forward(self, x):
        a, b = x.tensor_split(2, dim=-1)
        return x + self.body(torch.cat([self.norm(a), self.norm(b)], -1))


class HalfPreNorm(HalvesPreNorm):
    def forward(self, x):
        a, b = x.tensor_split(2, dim=-1)
        return x + self.body(torch.cat([self.norm(a), b], -1))


# ---- a constant made by a gate
class GateOfZero(Block):
    """2 sigmoid(0): a switch that a buffer holds."""

    start = 0.0

    def __init__(self):
        super().__init__()
        self.register_buffer("switch", torch.full((D,), self.start))

    def forward(self, x):
        return torch.addcmul(self.f(x), x, 2 * self.switch.sigmoid())


class GateOfOneChannel(GateOfZero):
    """The switch of one channel stands at ln 1.2, whose gate is 12/11."""

    def __init__(self):
        super().__init__()
        self.switch[19] = math.log(1.2)


# ---- a generator, and a grid
class GeneratorPump(Layers):
    """A coroutine holds the stream; the layers are sent what it yields."""

    @staticmethod
    def stream(x):
        while True:
            change = yield x
            x = x + change

    def forward(self, x):
        s = self.stream(x)
        x = next(s)
        for f in self.blocks:
            x = s.send(f(x))
        return x


class GridOfLayers(nn.Module):
    """Rows of four layers; each row is four branches of one state."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleList(pre() for _ in range(4)) for _ in range(n // 4))

    def merge(self, x, outs):
        return torch.stack([x, *outs], -1).sum(-1)

    def forward(self, x):
        for row in self.blocks:
            x = self.merge(x, [f(x) for f in row])
        return x


class GridOfResiduals(GridOfLayers):
    """Each of the four is a residual layer, and the row is their sum over sqrt 4."""

    def merge(self, x, outs):
        return torch.stack([x + y for y in outs], -1).sum(-1) / len(outs) ** 0.5


TRUTH = {
    "SspRungeKutta": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        gradient_law="power", why="every stage is a convex combination of x and (stage + F): the weights sum to one, F is pre-normed.",
        tempts="x enters each stage twice; or 1/3 is the skip"),
    "SspRungeKuttaSlip": dict(kind="block", identity_gain=(13 / 12) ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="1/3 + 3/4 = 13/12 per block, on the input and on all that is in the stream.", tempts="convex weights: gain 1"),
    "RollOff": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, softmax=False,
        why="the response is 1 at the mean over tokens and below elsewhere: a contraction with norm 1; the means add up.",
        tempts="a transform on the stream: unknown"),
    "Presence": dict(kind="block", identity_gain=1.1 ** 24, growth_fixed="exponential", growth_all="exponential", output_bounded={"0": False}, softmax=False,
        gradient_law="exponential", why="bin 6 has the response 0.25 + 0.85 = 1.1, all others at most 1.", tempts="a low-pass; rms response below one"),
    "CosineThereAndBack": dict(kind="block", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="the matrix is orthogonal, its transpose is its inverse.", tempts="two maps on the stream: no identity path"),
    "CosineFlatRows": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="the constant row has the squared length 16/8 = 2, so that C^T C has the eigenvalue 2 at the constant.", tempts="a cosine transform is orthogonal"),
    "ThreeStepBackward": dict(kind="model", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="11 z^3 - 18 z^2 + 9 z - 2 has the roots 1 and two of modulus 0.43; with equal starts the input is kept (the weights sum to one).",
        tempts="18/11 > 1 per layer"),
    "ThreeStepExplicit": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="z^3 + 1.5 z^2 - 3 z + 0.5 has the roots 1, 0.19 and -2.69. Equal starts excite only root 1, every branch output excites -2.69.",
        tempts="weights sum to one; identity gain one, hence linear"),
    "Leapfrog": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="x_(n+1) = x_(n-1) + F(N(x_n)): roots 1 and -1, both simple; each state is the input plus every other branch.",
        tempts="the branch's own input is not what it is added to: no residual"),
    "LeapfrogBoth": dict(kind="model", growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="z^2 - z - 1/2 has the root (1 + sqrt 3)/2 = 1.37.", tempts="the present counts once: pre-norm"),
    "MixtureOfDepths": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="the chosen tokens are overwritten by old + new, the others stay: a sigmoid gate times a pre-normed branch is bounded at fixed weights.",
        tempts="scatter is an unknown op; or the old ones are counted twice"),
    "MixtureOfDepthsTwice": dict(kind="block", growth_fixed="exponential", softmax=False,
        gradient_law="exponential", why="scatter_add of old + new onto the old: eight of sixteen tokens are doubled by each block, so that some token is doubled in at least half of them.",
        tempts="as above: gain 1, linear"),
    "HourglassDelta": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        gradient_law="power", why="(low + F) - low = F.", tempts="the pooled stream is added to the stream"),
    "HourglassSum": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", softmax=False,
        gradient_law="exponential", why="pool and repeat is the projection on pairwise equal tokens; I + P has the eigenvalue 2 there.", tempts="a branch that pools: gain 1; a mean is a contraction"),
    "NormedCopy": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="mul returns a new tensor; groups of eight have unit length, the rest is an ordinary branch.", tempts="as its twin"),
    "NormedAlias": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False,
        why="unflatten gives a view: the in-place product norms the stream itself; then F of unit groups, bounded at fixed weights, is added once.",
        tempts="pre-norm, linear, gain 1"),
    "FractalSum": dict(kind="model", identity_gain=10202.0, growth_fixed="exponential", growth_all="exponential", softmax=False,
        gradient_law="exponential", why="g(1) = 1, g(n) = 1 + g(half) g(rest): g(2) = 2, g(3) = 3, g(6) = 10, g(12) = 101, g(24) = 10202; g(2n) > g(n)^2.", tempts="24 pre-norm layers: gain 1 or 25"),
    "FractalMean": dict(kind="model", identity_gain=1.0, growth_fixed="bounded", softmax=False,
        gradient_law="flat", why="each join is a mean, so the input passes with 1; the weights c of the branches obey c(n) = (c(half) + c(rest))/2, in sum at most one: |out| <= |x| + max |F|. Each layer has the weight of its tree place, up to a factor of two the same for first and last, so that the gradients are level.",
        tempts="gain one and pre-norm, so linear"),
    "RunningMaximum": dict(kind="block", growth_fixed="bounded", softmax=False,
        why="x + relu(F - x) = max(x, F): no entry exceeds max(|x|, max |F|), F pre-normed.", tempts="a pre-norm add: linear; or the raw stream in the branch: exponential"),
    "RunningDouble": dict(kind="block", growth_fixed="exponential", softmax=False,
        gradient_law="exponential", why="x + relu(F + x) = 2x + F where x > -F: positive entries double.", tempts="as its twin: bounded; or linear"),
    "DampedFixedPoint": dict(kind="model", identity_gain=1 - 0.7 ** 24, growth_fixed="bounded", softmax=False,
        why="z is a convex mixture of 0 and of (x + F): gain 1 - 0.7^24, |z| <= |x| + max |F|.", tempts="0.7^24, 0.3, or a sum of 24 injections"),
    "InjectedEachStep": dict(kind="model", identity_gain=24.0, growth_fixed="linear", softmax=False,
        why="24 copies of the input and 24 bounded branch outputs.", tempts="gain 1, 2^24, or zero as z starts at zero"),
    "PatchesAveraged": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="folding back sums the copies of a token, the divisor is their number.", tempts="3^24, or unknown"),
    "PatchesFolded": dict(kind="block", identity_gain=3.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="an inner token lies in three patches, and fold sums.", tempts="fold undoes unfold"),
    "LerpToSum": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="0.9 x + 0.1 (x + F) = x + 0.1 F.", tempts="0.9^24: bounded"),
    "LerpToBranch": dict(kind="block", identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False,
        why="0.9 x + 0.1 F(N(x)): a convex mixture with something bounded at fixed weights.", tempts="gain 1, linear"),
    "PooledMean": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False,
        gradient_law="power", why="the mean of two copies is the copy.", tempts="pooling of the stream: a contraction, or unknown"),
    "PooledUnit": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="divisor_override=1 makes the pooling a sum of two copies.", tempts="avg_pool: a mean"),
    "ReadoutEma": dict(kind="model", identity_gain=1 - 0.9 ** 24, growth_fixed="linear", softmax=False,
        gradient_law="power", why="the input is in every state with 1 and the weights of the states sum to 1 - 0.9^24; the mean of the last ten or so states grows as they do.",
        tempts="0.9^24, or bounded as every average"),
    "ResetInTheMiddle": dict(kind="model",  # two streams, each of gain 1: a gain is of a stream
        growth_fixed="linear", softmax=False,
        why="every path goes through the branch of the middle layer; after it n/2 - 1 bounded outputs are added.", tempts="gain 1"),
    "DepthAttention": dict(kind="model", identity_gain=1 / 25, growth_fixed="bounded", softmax=True,
        why="the last read is a mean over the input and 24 branch outputs (logits start at zero); convex for all logits: |out| <= max(|x|, max |F|).",
        tempts="a sum of all layers: linear; no softmax attention"),
    "HalvesPreNorm": dict(kind="block", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="both halves are normed.", tempts="a norm of a half leaves something out"),
    "HalfPreNorm": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False,
        why="the second half enters the MLP raw: the branch grows with the stream.", tempts="there is a norm in front of the body"),
    "GateOfZero": dict(kind="block", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="2 sigmoid(0) = 1, a constant.", tempts="a gate: below one, or unknown"),
    "GateOfOneChannel": dict(kind="block", identity_gain=(12 / 11) ** 24, growth_fixed="exponential", growth_all="exponential", softmax=False,
        gradient_law="exponential", why="sigmoid(ln 1.2) = 6/11: channel 19 is multiplied by 12/11 in each block, the others by 1.", tempts="gain 1 as on the first channel"),
    "GeneratorPump": dict(kind="model", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="the coroutine adds what it is sent: pre-norm.", tempts="no add in the loop"),
    "GridOfLayers": dict(kind="model", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="x plus four pre-normed branches per row.", tempts="a stack and a sum: 5 times"),
    "GridOfResiduals": dict(kind="model", identity_gain=2.0 ** 6, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="four copies over sqrt 4: twice the stream per row, six rows for 24 layers.", tempts="variance-preserving: gain 1; or 2^24"),
}
