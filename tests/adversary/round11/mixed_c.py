"""Whole stacks on floats: states that are carried from block to block, laws of depth, several streams, norms by place; each beside a slip."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=True):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def mlp(d=D):
    return nn.Sequential(dense(d, 2 * d), nn.GELU(), dense(2 * d, d))


def branch(d=D):
    return nn.Sequential(nn.LayerNorm(d), mlp(d))


class Plain(nn.Module):
    """x = step(i, block, x)."""

    def __init__(self, n=24):
        super().__init__()
        self.n = n
        self.blocks = nn.ModuleList(branch() for _ in range(n))

    def step(self, i, block, x):
        return x + block(x)

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = self.step(i, block, x)
        return x


# ---- laws of the depth
class BranchBySqrtDepth(Plain):
    """The norm's output over the root of the layer's number (LayerNorm scaling)."""

    def step(self, i, block, x):
        norm, f = block
        return x + f(norm(x) / math.sqrt(i + 1))


class SkipBySqrtDepth(BranchBySqrtDepth):
    """The stream was divided instead."""

    def step(self, i, block, x):
        return x / math.sqrt(i + 1) + block(x)


class BranchHalves(Plain):
    """f over 2^i: bounded."""

    def step(self, i, block, x):
        return torch.add(x, block(x), alpha=0.5 ** i)


class BranchGrows(Plain):
    """1.4^i f: gain one, and yet."""

    def step(self, i, block, x):
        return torch.add(x, block(x), alpha=1.4 ** i)


class BranchLinear(Plain):
    """(i + 1) f."""

    def step(self, i, block, x):
        return x + (i + 1) * block(x)


class EverySixth(Plain):
    """Every sixth block halves the stream."""

    def step(self, i, block, x):
        x = x + block(x)
        return x.mul(0.5) if i % 6 == 5 else x


class EveryEighthDoubles(Plain):
    """Every eighth block adds the stream it got once more."""

    def step(self, i, block, x):
        y = x + block(x)
        return y + x if (i + 1) % 8 == 0 else y


class MixLn(Plain):
    """The first quarter has its norm behind the add, the others before the branch."""

    def step(self, i, block, x):
        norm, f = block
        return norm(x + f(x)) if i < self.n // 4 else x + block(x)


class MixLnOff(MixLn):
    """In the first quarter the norm is nowhere."""

    def step(self, i, block, x):
        norm, f = block
        return x + f(x) if i < self.n // 4 else x + block(x)


class LastHalfBare(MixLn):
    """In the last half the skip is left out."""

    def step(self, i, block, x):
        return x + block(x) if i < self.n // 2 else block(x)


# ---- carried states
class Momentum(Plain):
    """v = 0.9 v + 0.1 f, x + v."""

    keep, take = 0.9, 0.1

    def forward(self, x):
        v = torch.zeros_like(x)
        for block in self.blocks:
            v = self.keep * v + self.take * block(x)
            x = x + v
        return x


class MomentumGrows(Momentum):
    """1.1 v."""

    keep = 1.1


class MomentumOfStream(Momentum):
    """The velocity takes the new state with it: x + f, where f was meant."""

    def forward(self, x):
        v = torch.zeros_like(x)
        for block in self.blocks:
            v = self.keep * v + self.take * (x + block(x))
            x = x + v
        return x


class Leapfrog(Plain):
    """2 x - x before + f / 16: two states of the past."""

    drag = 1.0

    def forward(self, x):
        before = x
        for block in self.blocks:
            x, before = 2.0 * x - self.drag * before + block(x) / 16, x
        return x


class LeapfrogDrag(Leapfrog):
    """The past is taken at 0.9: roots above one."""

    drag = 0.9


class ReversiblePair(Plain):
    """a += f(b), b += g(a), on the halves of the channels."""

    def __init__(self, n=24):
        super().__init__(0)
        self.blocks = nn.ModuleList(nn.ModuleList([branch(D // 2), branch(D // 2)]) for _ in range(n))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        for f, g in self.blocks:
            a = a + f(b)
            b = b + g(a)
        return torch.cat([a, b], -1)


class ReversibleSum(ReversiblePair):
    """b = b + (a + g(a)): polynomial."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        for f, g in self.blocks:
            a = a + f(b)
            b = b + a + g(a)
        return torch.cat([a, b], -1)


class ReversibleBoth(ReversiblePair):
    """Each takes the other's stream."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        for f, g in self.blocks:
            a = a + b + f(b)
            b = b + a + g(a)
        return torch.cat([a, b], -1)


class ResiDual(Plain):
    """A post-norm stream, and the sum of its branches; norm of the sum at the end."""

    def __init__(self, n=24):
        super().__init__(n)
        self.last = nn.LayerNorm(D)

    def forward(self, x):
        total = x
        for norm, f in self.blocks:
            y = f(x)
            x, total = norm(x + y), total + y
        return x + self.last(total)


class ResiDualOpen(ResiDual):
    """The sum itself is returned."""

    def forward(self, x):
        total = x
        for norm, f in self.blocks:
            y = f(x)
            x, total = norm(x + y), total + y
        return total


class ValueResidual(Plain):
    """Each block adds half of what the first branch gave to its own half."""

    def forward(self, x):
        first = None
        for block in self.blocks:
            y = block(x)
            first = y if first is None else first
            x = x + (y + first) / 2
        return x


class ValueResidualState(ValueResidual):
    """... of the state behind the first block."""

    def forward(self, x):
        first = None
        for block in self.blocks:
            x = x + block(x)
            first = x if first is None else first
            x = (x + first) / 2
        return x


class ValueResidualAdded(ValueResidual):
    """... is added."""

    def forward(self, x):
        first = None
        for block in self.blocks:
            x = x + block(x)
            if first is None:
                first = x
            else:
                x = x + first / 2
        return x


class Dense(Plain):
    """Each block starts from a trained weighted sum of all states, at first the last one alone (DenseFormer)."""

    def __init__(self, n=24):
        super().__init__(n)
        self.share = nn.ParameterList(nn.Parameter(F.one_hot(torch.tensor(i + 1), i + 2).to(torch.get_default_dtype())) for i in range(n))

    def forward(self, x):
        states = [x]
        for block, share in zip(self.blocks, self.share):
            x = x + block(x)
            states.append(x)
            x = torch.tensordot(share, torch.stack(states), dims=1)
        return x


class DenseOnes(Dense):
    """All shares start at one."""

    def __init__(self, n=24):
        super().__init__(n)
        for p in self.share:
            nn.init.ones_(p)


class DenseMean(Dense):
    """At one over their number."""

    def __init__(self, n=24):
        super().__init__(n)
        for p in self.share:
            nn.init.constant_(p, 1.0 / len(p))


class DepthAttention(Plain):
    """Each block reads a softmax over all that was made before, queries from zero; the last one is returned (attention residuals)."""

    def __init__(self, n=24):
        super().__init__(n)
        self.query = nn.ParameterList(nn.Parameter(torch.zeros(D)) for _ in range(n + 1))

    def read(self, query, made):
        made = torch.stack(made)
        p = torch.softmax(F.rms_norm(made, (D,)) @ query, dim=0)
        return torch.einsum("sbt,sbtd->btd", p, made)

    def forward(self, x):
        made = [x]
        for block, query in zip(self.blocks, self.query):
            made.append(block(self.read(query, made)))
        return self.read(self.query[-1], made)


class DepthAttentionStates(DepthAttention):
    """What is kept are the states, with the skip in them."""

    def forward(self, x):
        made = [x]
        for block, query in zip(self.blocks, self.query):
            h = self.read(query, made)
            made.append(h + block(h))
        return self.read(self.query[-1], made)


class DepthSum(DepthAttentionStates):
    """Sigmoids of twice zero instead of the softmax: each is one half."""

    def read(self, query, made):
        made = torch.stack(made)
        p = torch.sigmoid(2 * F.rms_norm(made, (D,)) @ query)
        return torch.einsum("sbt,sbtd->btd", p, made)


# ---- several streams
class Hyper(Plain):
    """Four copies; a block reads a trained mean, writes to each, and the copies are mixed by a trained matrix from the identity; a sum at the end."""

    def __init__(self, n=24):
        super().__init__(n)
        self.read = nn.ParameterList(nn.Parameter(torch.full((4,), 0.25)) for _ in range(n))
        self.write = nn.ParameterList(nn.Parameter(torch.ones(4)) for _ in range(n))
        self.mix = nn.ParameterList(nn.Parameter(self.first()) for _ in range(n))

    def first(self):
        return torch.eye(4)

    def matrix(self, m):
        return m

    def end(self, s):
        return s.sum(2)

    def forward(self, x):
        s = x.unsqueeze(2).expand(-1, -1, 4, -1)
        for block, r, w, m in zip(self.blocks, self.read, self.write, self.mix):
            y = block(torch.einsum("s,btsd->btd", r, s))
            s = torch.einsum("os,btsd->btod", self.matrix(m), s) + w.view(4, 1) * y.unsqueeze(2)
        return self.end(s)


class HyperMean(Hyper):
    """Their mean."""

    def end(self, s):
        return s.mean(2)


class HyperSinkhorn(HyperMean):
    """The matrix is made doubly stochastic by twenty rounds, from random logits."""

    def first(self):
        return torch.randn(4, 4)

    def matrix(self, m):
        m = m.exp()
        for _ in range(20):
            m = m / m.sum(1, keepdim=True)
            m = m / m.sum(0, keepdim=True)
        return m


class HyperExp(HyperMean):
    """The rounds are forgotten: e to the logits, which start at zero."""

    def first(self):
        return torch.zeros(4, 4)

    def matrix(self, m):
        return m.exp()


class HyperSoftmax(HyperMean):
    """Rows by a softmax, from random logits."""

    def first(self):
        return torch.randn(4, 4)

    def matrix(self, m):
        return m.softmax(1)


class HyperTanhPlus(HyperMean):
    """The identity plus tanh of logits, all from 0.05."""

    def first(self):
        return torch.full((4, 4), 0.05)

    def matrix(self, m):
        return torch.eye(4, device=m.device, dtype=m.dtype) + torch.tanh(m)


class TwoLanes(Plain):
    """A fast and a slow lane that keep a quarter of each other; their mean is returned."""

    own, other = 0.75, 0.25

    def forward(self, x):
        a = b = x
        for block in self.blocks:
            a, b = self.own * a + self.other * b + block(a), self.other * a + self.own * b
        return (a + b) / 2


class TwoLanesSlip(TwoLanes):
    """They keep all of their own."""

    own = 1.0


class TwoLanesMinus(TwoLanes):
    """Their difference is returned, half of it."""

    def forward(self, x):
        a = b = x
        for block in self.blocks:
            a, b = self.own * a + self.other * b + block(a), self.other * a + self.own * b
        return (a - b) / 2


class AverageOfStates(Plain):
    """The mean of all states is returned."""

    def forward(self, x):
        total = x
        for block in self.blocks:
            x = x + block(x)
            total = total + x
        return total / (len(self.blocks) + 1)


class SumOfStates(AverageOfStates):
    """Their sum over the root of their number."""

    def forward(self, x):
        return super().forward(x) * math.sqrt(len(self.blocks) + 1)


class EmaOfStates(Plain):
    """A moving average of the states is returned."""

    def forward(self, x):
        ema = x
        for block in self.blocks:
            x = x + block(x)
            ema = torch.lerp(ema, x, 0.5)
        return ema


class SkipFromFar(Plain):
    """Block i adds the state of three blocks before it, at one half, and takes half of its own."""

    own = 0.5

    def forward(self, x):
        past = [x] * 3
        for block in self.blocks:
            x = self.own * x + 0.5 * past[-3] + block(x)
            past.append(x)
        return x


class SkipFromFarSlip(SkipFromFar):
    """Nine tenths of its own."""

    own = 0.9


class UVit(Plain):
    """Skips from the first half are put beside the stream and mapped back (U-ViT)."""

    def __init__(self, n=24):
        super().__init__(n)
        self.back = nn.ModuleList(dense(2 * D, D) for _ in range(n // 2))

    def forward(self, x):
        left, half = [], self.n // 2
        for block in self.blocks[:half]:
            x = x + block(x)
            left.append(x)
        for block, back in zip(self.blocks[half:], self.back):
            x = back(torch.cat([x, left.pop()], -1))
            x = x + block(x)
        return x


class EarlyExit(Plain):
    """Half of the stack is a side path: x + whole(x) where whole has its own skips."""

    def forward(self, x):
        y, half = x, self.n // 2
        for block in self.blocks[:half]:
            y = y + block(y)
        x = x + y
        for block in self.blocks[half:]:
            x = x + block(x)
        return x


class EarlyExitSubtracted(EarlyExit):
    """What the first half changed: its input is taken off, then the second half."""

    def forward(self, x):
        y, half = x, self.n // 2
        for block in self.blocks[:half]:
            y = y + block(y)
        x = y - x
        for block in self.blocks[half:]:
            x = x + block(x)
        return x


class OneBlockLooped(nn.Module):
    """One block, read as often as it is told, with the input put in each time at a tenth (looped models)."""

    rate = 0.1

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList([branch()])
        self.n = n

    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(self.n):
            z = (1 - self.rate) * z + self.rate * x + self.blocks[0](z)
        return z


class OneBlockInjected(OneBlockLooped):
    """z stays whole, the input is added."""

    def forward(self, x):
        z = x
        for _ in range(self.n):
            z = z + x + self.blocks[0](z)
        return z


_MODEL = dict(kind="model", depth=24, identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="model", depth=24, growth_fixed="exponential", softmax=False)


def _states(n, own, past):
    """The factor of the input behind n blocks of x = own x + past (x three before), and all numbers before it."""
    x = [1.0] * 3
    for _ in range(n):
        x.append(own * x[-1] + past * x[-3])
    return x[-1]


def _momentum(n, keep, take):
    x, v = 1.0, 0.0
    for _ in range(n):
        v = keep * v + take * x
        x += v
    return x


def _leap(n, drag):
    x, before = 1.0, 1.0
    for _ in range(n):
        x, before = 2 * x - drag * before, x
    return x


def _dense(n, share):
    states = [1.0]
    x = 1.0
    for i in range(n):
        states.append(x)
        x = sum(states) * share(i + 2)
    return x


def _half(n):
    made = [1.0]
    for _ in range(n):
        made.append(0.5 * sum(made))
    return 0.5 * sum(made)


TRUTH = {
    "BranchBySqrtDepth": dict(_MODEL, why="x stays.", tempts="-"),
    "SkipBySqrtDepth": dict(_MODEL, identity_gain=math.factorial(24) ** -0.5, growth_fixed="bounded", why="1 / root of n!.", tempts="gain 1"),
    "BranchHalves": dict(_MODEL, growth_fixed="bounded", why="a geometric sum.", tempts="linear"),
    "BranchGrows": dict(_EXP, identity_gain=1.0, why="the branches grow.", tempts="linear; gain 1"),
    "BranchLinear": dict(_MODEL, growth_fixed="polynomial", why="a sum of i.", tempts="linear"),
    "EverySixth": dict(_MODEL, depth=4, identity_gain=2.0 ** -4, growth_fixed="bounded",
        why="four halves, of six blocks each.", tempts="gain 1, 2^-24"),
    "EveryEighthDoubles": dict(_EXP, identity_gain=8.0, why="three doublings.", tempts="gain 1"),
    "MixLn": dict(_MODEL, identity_gain=None, why="normed first.", tempts="-"),
    "MixLnOff": dict(_EXP, identity_gain=1.0, why="six raw branches of 24, twelve of 48.", tempts="pre-norm"),
    "LastHalfBare": dict(_MODEL, depth=None, identity_gain=0.0, growth_fixed="bounded", why="no skip.", tempts="gain 1"),
    "Momentum": dict(_MODEL, why="x stays.", tempts="-"),
    "MomentumGrows": dict(_EXP, identity_gain=1.0, why="1.1 to the depth.", tempts="gain 1, linear"),
    "MomentumOfStream": dict(_EXP, identity_gain=_momentum(24, 0.9, 0.1), gradient_law="exponential", why="a root above one.", tempts="gain 1"),
    "Leapfrog": dict(_MODEL, growth_fixed="polynomial", why="a double sum.", tempts="exponential, linear; gain 2"),
    "LeapfrogDrag": dict(_EXP, identity_gain=_leap(24, 0.9), gradient_law="exponential", why="1.316.", tempts="gain 1"),
    "ReversiblePair": dict(_MODEL, why="x stays.", tempts="-"),
    "ReversibleSum": dict(_MODEL, identity_gain=None, growth_fixed="polynomial", why="b sums a.", tempts="linear, exponential"),
    "ReversibleBoth": dict(_EXP, gradient_law="exponential", why="2.618.", tempts="gain 1"),
    "ResiDual": dict(_MODEL, identity_gain=None, growth_fixed="bounded", why="two norms.", tempts="linear"),
    "ResiDualOpen": dict(_MODEL, why="the sum has x.", tempts="no path"),
    "ValueResidual": dict(_MODEL, why="x stays.", tempts="0.5"),
    "ValueResidualState": dict(_MODEL, growth_fixed="bounded", why="half and half of gain one.", tempts="2^-24"),
    "ValueResidualAdded": dict(_MODEL, identity_gain=12.5, why="1 + 23 / 2.", tempts="gain 1; exponential"),
    "Dense": dict(_MODEL, why="the last state alone.", tempts="a sum"),
    "DenseOnes": dict(_EXP, identity_gain=_dense(24, lambda k: 1.0), why="doubles.", tempts="gain 1"),
    "DenseMean": dict(_MODEL, growth_fixed=None, why="means.", tempts="small"),
    "DepthAttention": dict(_MODEL, identity_gain=1 / 25, growth_fixed="bounded", softmax=True, why="one of 25 at zero queries.", tempts="gain 1, 0"),
    "DepthAttentionStates": dict(_MODEL, growth_fixed=None, softmax=True, why="means of states.", tempts="1/25"),
    "DepthSum": dict(_EXP, identity_gain=_half(24), why="1.5 each.", tempts="a mean"),
    "Hyper": dict(_MODEL, identity_gain=4.0, why="four copies.", tempts="gain 1, 4^24"),
    "HyperMean": dict(_MODEL, why="four copies, their mean.", tempts="1/4"),
    "HyperSinkhorn": dict(_MODEL, softmax=None, why="doubly stochastic.", tempts="random matrices"),
    "HyperExp": dict(_EXP, identity_gain=4.0 ** 24, why="a matrix of ones.", tempts="gain 1"),
    "HyperSoftmax": dict(_MODEL, softmax=True, why="rows sum to one.", tempts="random matrices"),
    "HyperTanhPlus": dict(_EXP, identity_gain=(1 + 4 * math.tanh(0.05)) ** 24, why="1.2.", tempts="gain 1"),
    "TwoLanes": dict(_MODEL, why="rows sum to one.", tempts="0.75"),
    "TwoLanesSlip": dict(_EXP, identity_gain=1.25 ** 24, gradient_law="exponential", why="1.25.", tempts="gain 1"),
    "TwoLanesMinus": dict(_MODEL, identity_gain=0.0, growth_fixed="bounded", why="the same twice, taken off.", tempts="gain 1"),
    "AverageOfStates": dict(_MODEL, why="all have x.", tempts="1/25"),
    "SumOfStates": dict(_MODEL, identity_gain=5.0, growth_fixed="polynomial", why="25 / 5.", tempts="gain 1, linear"),
    "EmaOfStates": dict(_MODEL, why="all have x.", tempts="0.5"),
    "SkipFromFar": dict(_MODEL, why="half and half.", tempts="2^-24"),
    "SkipFromFarSlip": dict(_EXP, identity_gain=_states(24, 0.9, 0.5), gradient_law="exponential", why="a root above one.", tempts="gain 1"),
    "UVit": dict(_MODEL, identity_gain=0.0, growth_fixed=None, why="maps on the stream.", tempts="gain 1"),
    "EarlyExit": dict(_MODEL, identity_gain=2.0, why="x + x.", tempts="gain 1"),
    "EarlyExitSubtracted": dict(_MODEL, identity_gain=0.0, why="x - x.", tempts="gain 1"),
    "OneBlockLooped": dict(_MODEL, identity_gain=1 - 0.9 ** 24, growth_fixed="bounded", why="a mean that fills.", tempts="0.9^24, 1"),
    "OneBlockInjected": dict(_MODEL, identity_gain=25.0, why="1 + 24.", tempts="exponential, gain 1"),
}
del TRUTH["ReversibleSum"]["identity_gain"]
