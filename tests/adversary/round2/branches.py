"""Branches whose output set is or is not bounded over their weights, mostly by their last op."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


def dense(d_in, d_out, gain=1.0, bias=True):
    lin = nn.Linear(d_in, d_out, bias=bias)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


class Residual(nn.Module):
    """x + end(mlp(x)), with a norm in front where `before` says so."""

    before = False
    strength = 1.0

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D) if self.before else nn.Identity()
        self.body = nn.Sequential(dense(D, 2 * D), nn.GELU(), dense(2 * D, D, self.strength))

    def end(self, y):
        return y

    def branch(self, x):
        return self.end(self.body(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


class TokenwiseUnit(Residual):
    """Unit columns: every channel is scaled by its size over the tokens."""

    def end(self, y):
        return F.normalize(y, dim=1)


class CappedNormalizer(Residual):
    """Division by the norm, but by 10 at most."""

    before = True

    def end(self, y):
        return y / y.norm(dim=-1, keepdim=True).clamp(max=10.0)


class FlooredNormalizer(Residual):
    """Division by the norm, but by 1 at least (projection onto the unit ball)."""

    def end(self, y):
        return y / y.norm(dim=-1, keepdim=True).clamp(min=1.0)


class HatOutput(Residual):
    """relu(y) relu(1 - y): a hump over the unit interval."""

    def end(self, y):
        return y.relu() * (1 - y).relu()


class ShrunkTanh(Residual):
    """The complement of a tanh."""

    strength = 1.5

    def end(self, y):
        return F.tanhshrink(y)


class RampDifference(Residual):
    """Two ramps of the same slope, one a step later."""

    def end(self, y):
        return torch.relu(y) - torch.relu(y - 1)


class RampMismatch(Residual):
    """Two ramps of different slope, one a step later."""

    strength = 1.5

    def end(self, y):
        return torch.relu(y) - torch.relu(2 * y - 1)


class UncentredStd(Residual):
    """Divided by the standard deviation; nobody took the mean off."""

    before = True

    def end(self, y):
        var, _ = torch.var_mean(y, -1, keepdim=True, correction=0)
        return y * torch.rsqrt(var + 1e-5)


class LogSumExpNorm(Residual):
    """Divided by a smooth maximum of the sizes."""

    def end(self, y):
        return y / y.abs().logsumexp(-1, keepdim=True)


class CrossStats(Residual):
    """The mean over tokens and the deviation over features."""

    before = True

    def end(self, y):
        spread = y.std(-1, keepdim=True, unbiased=False)
        return (y - y.mean(1, keepdim=True)) / (spread + 1e-5)


class MedianNorm(Residual):
    """Divided by the median size (robust, they said)."""

    before = True

    def end(self, y):
        order = y.abs().sort(-1).values
        return y / (order[..., D // 2 : D // 2 + 1] + 1e-5)


class SquashedWeights(nn.Module):
    """Entries of the weights pass a tanh before use; no bias anywhere."""

    squash = staticmethod(torch.tanh)

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D, elementwise_affine=False)
        self.up = nn.Parameter(torch.randn(2 * D, D) * 0.2)
        self.down = nn.Parameter(torch.randn(D, 2 * D) * 0.2)

    def branch(self, x):
        h = F.linear(self.norm(x), self.squash(self.up)).relu()
        return F.linear(h, self.squash(self.down)) / 8

    def forward(self, x):
        return x + self.branch(x)


class NormedExperts(nn.Module):
    """Every expert ends in a norm; a softmax over the raw stream mixes them."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(dense(D, D), nn.SiLU(), dense(D, D), nn.RMSNorm(D)) for _ in range(3))
        self.router = dense(D, 3)

    def weigh(self, x):
        return self.router(x).softmax(-1)

    def branch(self, x):
        outs = torch.stack([e(x) for e in self.experts], -1)
        return (outs @ self.weigh(x).unsqueeze(-1)).squeeze(-1)

    def forward(self, x):
        return x + self.branch(x)


class ShareOfSum(NormedExperts):
    """Weights of the experts made to sum to one without a softmax: they may have either sign."""

    def weigh(self, x):
        w = self.router(F.layer_norm(x, (D,)))
        return w / (w.sum(-1, keepdim=True) + 1e-5)


TRUTH = {
    "TokenwiseUnit": dict(
        kind="block", why="each channel has unit length over the tokens, so that every entry is at most 1.",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        tempts="a norm over the wrong axis bounds nothing"),
    "CappedNormalizer": dict(
        kind="block", why="for |y| > 10 the output is y/10: linear in the last weight. A norm in front: linear at fixed weights.",
        identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, softmax=False, tempts="an output norm"),
    "FlooredNormalizer": dict(
        kind="block", why="y / max(|y|, 1) lies in the unit ball.",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        tempts="a clamp in the denominator breaks the norm: unbounded, no norm in front: exponential"),
    "HatOutput": dict(
        kind="block", why="nonzero only for 0 < y < 1, at most 1/4.",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        tempts="a product of two unbounded factors: degree 2"),
    "ShrunkTanh": dict(
        kind="block", why="y - tanh(y) is y up to 1: no norm anywhere, the relative gain stays as the stream grows: exponential.",
        identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, softmax=False, tempts="ends in a tanh-like op"),
    "RampDifference": dict(
        kind="block", why="relu(y) - relu(y - 1) = clamp(y, 0, 1).",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        tempts="a difference of unbounded things"),
    "RampMismatch": dict(
        kind="block", why="relu(y) - relu(2y - 1) = 1 - y for y > 1/2: unbounded, no norm: exponential.",
        identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, softmax=False, tempts="the ramps cancel"),
    "UncentredStd": dict(
        kind="block", why="y/std(y) is unbounded where all channels share a large value (a bias): scale-free but no norm. At generic weights the quotient is finite: linear.",
        identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, softmax=False, tempts="LayerNorm by hand"),
    "LogSumExpNorm": dict(
        kind="block", why="logsumexp|y| >= max|y| and >= log d > 0: entries at most 1.",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        tempts="the quotient of a linear and a logarithmic thing grows"),
    "CrossStats": dict(
        kind="block", why="if a token's channels are all equal the deviation is 0 and the centred value is not: unbounded.",
        identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, softmax=False, tempts="LayerNorm by hand"),
    "MedianNorm": dict(
        kind="block", why="the median size is 0 when more than half of the channels are: unbounded; scale-free.",
        identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, softmax=False, tempts="degree 0, so a norm"),
    "SquashedWeights": dict(
        kind="block", why="entries of the matrices lie in (-1, 1), the input is normed, no bias: entries at most d 2d/8.",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        tempts="two trained matrices behind the norm: unbounded"),
    "NormedExperts": dict(
        kind="block", why="a convex mixture of vectors of rms 1, although the router is free and reads the raw stream.",
        identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, logits_bounded={"0": False}, softmax=True,
        tempts="the router's logits are unbounded, so the branch is"),
    "ShareOfSum": dict(
        kind="block", why="w/sum(w) is unbounded: weights of either sign may have any sum (2 and -2 and 0.001).",
        identity_gain=1.0, output_bounded={"0": False}, softmax=False, tempts="weights that sum to one: convex"),
}
