"""Streams and skips: folds, loops, masks, copies and views; and small slips in them."""

import functools
import itertools
import operator

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


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleDict({"mix": pre(), "ffn": pre()})


class Layers(nn.Module):
    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(pre() for _ in range(n))


# ---- folds and loops over the two sublayers
class ReduceResiduals(Pair):
    """functools.reduce over the sublayers."""

    def forward(self, x):
        return functools.reduce(lambda acc, f: acc + f(acc), self.steps.values(), x)


class ReduceAndSkip(Pair):
    """A block's skip around the fold, which has its own."""

    def forward(self, x):
        return functools.reduce(lambda acc, f: acc + f(acc), self.steps.values(), x).add(x)


class AccumulateLast(Pair):
    """itertools.accumulate, of which the last is kept."""

    def states(self, x):
        return itertools.accumulate(self.steps.values(), lambda h, f: f(h) + h, initial=x)

    def forward(self, x):
        *_, x = self.states(x)
        return x


class AccumulateSum(AccumulateLast):
    """sum() was thought to end the accumulation."""

    def forward(self, x):
        return sum(self.states(x))


class LoopFixedResidual(Pair):
    """`residual` is bound once, in front of the loop: the second sublayer drops what the first gave."""

    def forward(self, x):
        residual = x
        for name in ("mix", "ffn"):
            x = residual + self.steps[name](x)
        return x


class LoopBothAdd(Pair):
    """The helper adds its input, and the loop adds the residual of the block."""

    @staticmethod
    def sublayer(fn, h):
        return fn(h) + h

    def forward(self, x):
        residual = x
        for fn in map(functools.partial(functools.partial, self.sublayer), self.steps.values()):
            x = fn(x) + residual
        return x


class DynamicJoin(Pair):
    """The join is looked up by its name; x - (-1) y."""

    join = "sub"

    def forward(self, x):
        op = getattr(torch, self.join)
        for f in self.steps.values():
            x = op(x, f(x), alpha=-1)
        return x


class SwappedArguments(nn.Module):
    """residual(skip, fn, x) is called with the norm as the skip."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D), body(gain=4.0)

    @staticmethod
    def residual(skip, fn, x):
        return operator.add(skip(x), fn(x))

    def forward(self, x):
        return self.residual(self.norm, self.mlp, x)


class OverwrittenByChunk(nn.Module):
    """The value half of the gated unit is called x as well."""

    def __init__(self):
        super().__init__()
        self.norm, self.proj, self.out = nn.RMSNorm(D), dense(D, 2 * D), dense(D, D)

    def forward(self, x):
        x, gate = self.proj(self.norm(x)).chunk(2, dim=-1)
        return x + self.out(F.silu(gate) * x)


# ---- joins by concatenation, masks, factors
class CatMerge(Block):
    """Stream and branch side by side, and a map that starts as their sum."""

    def __init__(self):
        super().__init__()
        self.merge = nn.Linear(2 * D, D, bias=False)
        with torch.no_grad():
            self.merge.weight.copy_(torch.eye(D).repeat(1, 2))

    def forward(self, x):
        return self.merge(torch.cat((x, self.f(x)), dim=-1))


class CatMergeOfSum(CatMerge):
    """What is put beside the stream is the sum already."""

    def forward(self, x):
        h = x + self.f(x)
        return self.merge(torch.cat((x, h), dim=-1))


class MaskMix(Block):
    """Tokens of the mask are renewed, the others are kept."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", (torch.arange(T) % 3 == 0).to(torch.get_default_dtype())[None, :, None])

    def forward(self, x):
        return self.keep * x + (1 - self.keep) * (x + self.f(x))


class MaskMixSame(MaskMix):
    """The complement was forgotten."""

    def forward(self, x):
        return self.keep * x + self.keep * (x + self.f(x))


class EinsumScale(Block):
    """A scale per head on the skip, by einsum."""

    def __init__(self):
        super().__init__()
        self.gain_skip = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return torch.einsum("bthe,h->bthe", x.unflatten(-1, (4, 8)), self.gain_skip).flatten(-2) + self.f(x)


class EinsumFree(EinsumScale):
    """The letter of the scale is none of the stream's: it is summed."""

    def forward(self, x):
        return torch.einsum("bthe,g->bthe", x.unflatten(-1, (4, 8)), self.gain_skip).flatten(-2) + self.f(x)


class SurvivalOfBranch(Block):
    """Stochastic depth at inference: the branch by its survival rate."""

    drop_rate = 0.1

    @property
    def survival(self):
        return 1.0 - self.drop_rate

    def forward(self, x):
        return torch.add(x, self.f(x), alpha=self.survival)


class SurvivalOfSum(SurvivalOfBranch):
    """The sum by its survival rate."""

    def forward(self, x):
        return torch.add(x, self.f(x)).mul_(self.survival)


# ---- copies and views
class ReshapeAlias(Block):
    """A temperature on the tokens that the branch reads, in place; `reshape` gave a view of the copy."""

    def rows(self, x):
        return x.reshape(-1, D)

    def forward(self, x):
        x = x.clone()
        rows = self.rows(x)
        rows *= 1.1
        return x + self.f(rows.view_as(x))


class ReshapeCopy(ReshapeAlias):
    """Tokens on a grid, columns first: here `reshape` must copy."""

    def forward(self, x):
        x = x.clone()
        rows = x.unflatten(1, (4, 4)).transpose(1, 2).reshape(-1, D)
        rows *= 1.1
        return x + self.f(rows.view(-1, 4, 4, D).transpose(1, 2).flatten(1, 2))


class PaddedSkip(Block):
    """Token shift, which was meant for the branch's input; the new first token is zero."""

    def forward(self, x):
        shifted = F.pad(x, (0, 0, 1, -1))
        return shifted + self.f(x)


class PooledSkip(Block):
    """The skip is the mean over the tokens."""

    def forward(self, x):
        return self.f(x) + x.mean(dim=1, keepdim=True)


class CellStep(Block):
    """A recurrent cell over depth, whose state is the stream."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(D, D)

    def forward(self, x):
        return self.cell(self.f(x).flatten(0, 1), x.flatten(0, 1)).view_as(x)


# ---- whole models
class IndentedNorm(Layers):
    """The final norm stands one level too deep."""

    def __init__(self, n=24):
        super().__init__(n)
        self.final = nn.RMSNorm(D)

    def forward(self, x):
        for f in self.blocks:
            x = x + f(x)
            x = self.final(x)
        return x


class EarlyReturn(Layers):
    """`return` one level too deep: one layer runs."""

    def forward(self, x):
        for f in self.blocks:
            x = x + f(x)
            return x


class StackOfSkips(Layers):
    """U-Net order without sizes: the second half adds skips; but every layer pushes, so it pops itself."""

    def forward(self, x):
        n, skips = len(self.blocks), []
        for i, f in enumerate(self.blocks):
            x = x + f(x)
            skips.append(x)
            if i >= n // 2:
                x = x + skips.pop()
        return x


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False)

TRUTH = {
    "ReduceResiduals": dict(_LIN, why="two pre-norm steps.", tempts="-"),
    "ReduceAndSkip": dict(_EXP, identity_gain=2.0 ** 24, why="2 x + ...", tempts="a fold of unknown shape with a skip: gain 1"),
    "AccumulateSum": dict(_EXP, identity_gain=3.0 ** 24, why="x + (x + F1) + (x + F1 + F2).", tempts="a sum of branches"),
    "LoopFixedResidual": dict(_LIN, why="x + F2(x + F1).", tempts="double residual"),
    "LoopBothAdd": dict(_EXP, identity_gain=3.0 ** 24, why="x -> 2 x -> 2 x + x.", tempts="two residual adds: gain 1, or 4"),
    "DynamicJoin": dict(_LIN, why="x - (-1) F.", tempts="-"),
    "SwappedArguments": dict(kind="block", growth_fixed="exponential", softmax=False, why="N x + F(x), F of degree one and gain above one.", tempts="x + F(N x); or a norm on the stream: bounded"),
    "OverwrittenByChunk": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="x is a map of the normed stream by the time of the add.", tempts="pre-norm: gain 1, linear"),
    "CatMerge": dict(_LIN, why="[I I] [x; F].", tempts="a trained map on the stream"),
    "CatMergeOfSum": dict(kind="block", growth_fixed="exponential", softmax=False, identity_gain=2.0 ** 24, why="[I I] [x; x + F].", tempts="gain 1"),
    "MaskMix": dict(_LIN, why="x + (1 - m) F.", tempts="-"),
    "MaskMixSame": dict(_EXP, identity_gain=2.0 ** 24, why="tokens of the mask: 2 x + F.", tempts="a convex mix: gain 1"),
    "EinsumFree": dict(kind="block", growth_fixed="exponential", growth_all="exponential", softmax=False, identity_gain=4.0 ** 24, why="the sum of four ones.", tempts="a scale of one"),
    "SurvivalOfSum": dict(kind="block", identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False, why="0.9 x + 0.9 F.", tempts="gain 1"),
    "ReshapeAlias": dict(_EXP, identity_gain=1.1 ** 24, why="rows is a view of what the skip carries.", tempts="a scale on the branch's input"),
    "ReshapeCopy": dict(_LIN, why="rows is a copy.", tempts="an alias: 1.1 per block"),
    "PaddedSkip": dict(kind="block", identity_gain=0.0, growth_fixed="bounded", softmax=False, why="after sixteen blocks the input has left.", tempts="pre-norm: gain 1, linear"),
    "PooledSkip": dict(_LIN, why="the mean is kept by taking the mean.", tempts="no skip"),
    "CellStep": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, why="tanh.", tempts="-"),
    "IndentedNorm": dict(kind="model", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, why="a norm on the sum of every layer.", tempts="a final norm"),
    "EarlyReturn": dict(kind="model", identity_gain=1.0, growth_fixed="bounded", softmax=False, why="one layer, whatever n.", tempts="24 layers: linear"),
    "StackOfSkips": dict(_EXP, kind="model", identity_gain=2.0 ** 12, why="the second half doubles its state.", tempts="U-Net skips: gain 13, polynomial"),
}
