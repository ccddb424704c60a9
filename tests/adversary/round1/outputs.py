"""Residual blocks that end their branch in something else than `nn.LayerNorm`: squashes, quantisers, constrained weights, gates, filters."""

import functools
import math
import operator
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

D = 64


def example_inputs():
    return (torch.randn(2, 16, D),)


def mlp(first=None, width=2 * D, out=D, bias=True):
    head = [first] if first is not None else []
    return nn.Sequential(*head, nn.Linear(D, width, bias=bias), nn.GELU(), nn.Linear(width, out, bias=bias))


# ----------------------------------------------------------------------------------------------------------------------
# squashes, divisions, projections
# ----------------------------------------------------------------------------------------------------------------------

def squash(v, n2):
    return v * (n2 / (1 + n2)) * torch.rsqrt(n2 + 1e-9)


class CapsuleSquash(nn.Module):
    """capsules of eight features, the squash of Sabour et al. at the end; no norm anywhere"""

    def __init__(self):
        super().__init__()
        self.caps = nn.Sequential(mlp(), nn.Unflatten(-1, (8, 8)))

    def forward(self, x):
        caps = self.caps(x)
        return x + squash(caps, caps.square().sum(-1, keepdim=True)).flatten(-2)


class SquashByPose(nn.Module):
    """the length is taken of the pose half alone, and the whole vector is squashed by it"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        y = self.net(x)
        pose = y.narrow(-1, 0, D // 2)
        return torch.add(x, squash(y, torch.einsum("btd,btd->bt", pose, pose).unsqueeze(-1)))


class RenormTail(nn.Module):
    """every token's update is projected on a ball of radius four"""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.RMSNorm(D), mlp()

    def forward(self, x):
        rows = self.net(self.norm(x)).reshape(-1, D)
        return x + torch.renorm(rows, 2, 0, 4.0).view_as(x)


class SqrtOfNorm(nn.Module):
    """'divide by the length', where the one rsqrt forgot that the norm had its root already"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        y = self.net(x)
        return x + y * torch.rsqrt(1 + y.norm(dim=-1, keepdim=True))


class UncentredStd(nn.Module):
    """divides by the standard deviation and does not take the mean away"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        y = self.net(x)
        std, _ = torch.std_mean(y, dim=-1, keepdim=True)
        return x + y.div(std + 1e-5)


class AmaxNoAbs(nn.Module):
    """max-normalised, but the largest entry is not the largest in size"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.RMSNorm(D))

    def forward(self, x):
        y = self.net(x)
        return x + y / y.amax(dim=-1, keepdim=True).clamp(min=1e-2)


class LogSumExpDivide(nn.Module):
    """a smooth maximum in the denominator"""

    def __init__(self):
        super().__init__()
        self.net = mlp()
        for p in self.net.parameters():
            if p.dim() == 2:
                nn.init.xavier_normal_(p, gain=2.0)

    def forward(self, x):
        y = self.net(x)
        size = torch.logsumexp(y.abs(), dim=-1, keepdim=True)
        return x + torch.true_divide(y, 1 + size)


class MinRowSum(nn.Module):
    """a matrix norm of [tokens, features] with ord=-inf: the smallest row sum, not the largest"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        y = self.net(x)
        return x + 8 * y / (torch.linalg.matrix_norm(y, ord=-math.inf, keepdim=True) + 1e-6)


class RemainderRaw(nn.Module):
    """groups of twelve features are normalised in place; 64 is no multiple of twelve"""
    GROUP = 12

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        out = self.net(x).clone()
        for start in range(0, D - self.GROUP + 1, self.GROUP):
            piece = out[..., start:start + self.GROUP].clone()
            out[..., start:start + self.GROUP] = F.normalize(piece, dim=-1)
        return x + out


class UnitTracks(nn.Module):
    """normalised along time: every feature is a unit vector over the sixteen tokens"""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), mlp()

    def forward(self, x):
        return x + F.normalize(self.net(self.norm(x)), dim=1, eps=1e-6)


class HypotLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, x):
        y = self.net(x)
        length = functools.reduce(torch.hypot, y.unbind(-1)).unsqueeze(-1)
        return torch.lerp(x, y / (length + 1e-6), 0.1)


class HypotLerp(nn.Module):
    """the Euclidean length as a fold of `hypot` over the features; one tenth of the way to the unit vector in every layer"""

    def __init__(self, n=24):
        super().__init__()
        self.layers = nn.ModuleList(HypotLayer() for _ in range(n))

    def forward(self, x):
        state = {"h": x}
        for layer in self.layers:
            state = dict(state, h=layer(state["h"]))
        return state["h"]


class LogSpaceNorm(nn.Module):
    """the rms in log space, as for long products: y exp(-log|y|_2)"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        y = self.net(x)
        log_size = 0.5 * torch.logsumexp(2 * torch.log(y.abs() + 1e-12), -1, keepdim=True)
        return x + y * torch.exp(-log_size)


class RickerTail(nn.Module):
    """a Mexican hat: polynomial times Gaussian"""

    def __init__(self):
        super().__init__()
        self.norm, self.inp, self.out = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        y2 = self.out(F.silu(self.inp(self.norm(x)))) ** 2
        return torch.addcmul(x, 1 - y2, torch.exp(-0.5 * y2))


# ----------------------------------------------------------------------------------------------------------------------
# quantisers
# ----------------------------------------------------------------------------------------------------------------------

class FsqCodes(nn.Module):
    """finite scalar quantisation (Mentzer et al.): tanh, a few levels, straight-through rounding"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))

    def forward(self, x):
        half = (torch.arange(D, device=x.device) % 3 + 1).to(x.dtype)
        z = torch.tanh(self.net(x)) * half
        z = z + (torch.round(z) - z).detach()
        return x + z / half


class OneBitTail(nn.Module):
    """lookup-free quantisation: the sign, with the gradient of the identity"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.RMSNorm(D))

    def forward(self, x):
        y = self.net(x)
        return x + (y - (y - y.sign()).detach()) * 0.25


class VqCodebook(nn.Module):
    """vector quantisation: what is added is one of 32 rows, and nothing else"""

    def __init__(self):
        super().__init__()
        self.norm, self.enc = nn.LayerNorm(D), nn.Linear(D, D)
        self.codes = nn.Parameter(torch.randn(32, D) * 0.3)

    def forward(self, x):
        z = self.enc(self.norm(x))
        far = (z.unsqueeze(-2) - self.codes).square().sum(-1)
        code = F.embedding(far.argmin(-1), self.codes)
        return x + (code + (z - z.detach()))


# ----------------------------------------------------------------------------------------------------------------------
# constrained weights
# ----------------------------------------------------------------------------------------------------------------------

class RowStochastic(nn.Module):
    def forward(self, w):
        return torch.softmax(w, dim=-1)


class SoftmaxRows(nn.Module):
    """the weight matrix itself has rows that are probabilities"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.mix = parametrize.register_parametrization(nn.Linear(D, D, bias=False), "weight", RowStochastic())
        with torch.no_grad():
            self.mix.parametrizations.weight.original.normal_(0, 2)

    def forward(self, x):
        return x + self.mix(torch.relu(self.norm(x)))


class NewtonSchulz(nn.Module):
    def __init__(self, steps=6):
        super().__init__()
        self.steps = steps

    def forward(self, w):
        w = w / (torch.linalg.matrix_norm(w) + 1e-7)
        for _ in range(self.steps):
            w = 1.5 * w - 0.5 * w @ w.mT @ w
        return w


class PolarWeights(nn.Module):
    """both maps go through six steps of Newton and Schulz in the forward pass"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        for name in ("up", "down"):
            lin = nn.Linear(D, D, bias=False)
            parametrize.register_parametrization(lin, "weight", NewtonSchulz())
            self.add_module(name, lin)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def cayley(p, skew):
    a = torch.sub(p, p.mT) if skew else torch.add(p, p.mT)
    eye = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return torch.linalg.solve(eye + a, eye - a)


class CayleyTurns(nn.Module):
    """(I + A)^-1 (I - A) with A = P - P': a rotation, whatever P"""
    SKEW = True

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.p = nn.Parameter(torch.randn(2, D, D) * 0.02)

    def forward(self, x):
        first, second = cayley(self.p, self.SKEW).unbind(0)
        return x + F.relu(self.norm(x) @ first) @ second


class CayleyMirror(CayleyTurns):
    """the same with a sign lost: A = P + P' is symmetric, and I + A may be singular"""
    SKEW = False


class HouseholderChain(nn.Module):
    """eight reflections before the ReLU and eight behind it; the free vectors are 16 x D"""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.v = nn.Parameter(torch.randn(16, D))

    def forward(self, x):
        h, i = self.norm(x), 0
        while i < len(self.v):
            v = self.v[i]
            h = h - 2 * (h @ v).unsqueeze(-1) * v / (v.dot(v) + 1e-12)
            if i == 7:
                h = torch.relu(h)
            i += 1
        return x + h


class SpectralBias(nn.Module):
    """spectral norm on both maps, and the biases that nn.Linear has by default"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up, self.down = spectral_norm(nn.Linear(D, 2 * D)), spectral_norm(nn.Linear(2 * D, D))

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class FrozenGain(nn.Module):
    """weight_norm whose g is not trained: only the directions are"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up, self.down = (weight_norm(nn.Linear(*s, bias=False), dim=None) for s in ((D, 2 * D), (2 * D, D)))
        for lin in (self.up, self.down):
            lin.parametrizations.weight.original0.requires_grad_(False)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class BitLinear(nn.Linear):
    """BitNet b1.58: weights in {-1, 0, 1} times their mean size"""
    rescale = True

    def forward(self, h):
        size = self.weight.abs().mean().clamp(min=1e-5)
        unit = self.weight / size
        three = unit + (unit.round().clamp(-1, 1) - unit).detach()
        return F.linear(h, three) * (size if self.rescale else self.in_features ** -0.5)


class TernaryLinear(BitLinear):
    rescale = False


class BitNetFfn(nn.Module):
    """ternary weights and their scale"""
    linear = BitLinear

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.up, self.down = self.linear(D, 2 * D, bias=False), self.linear(2 * D, D, bias=False)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class TernaryFfn(BitNetFfn):
    """ternary weights without the scale: finitely many functions"""
    linear = TernaryLinear


# ----------------------------------------------------------------------------------------------------------------------
# gates, sums, concatenations, mixers behind norms
# ----------------------------------------------------------------------------------------------------------------------

class SharesOfPaths(nn.Module):
    """two normed paths, weighed by positive shares of a sum"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.paths = nn.ModuleList(nn.Sequential(mlp(), nn.RMSNorm(D)) for _ in range(2))
        self.gate = nn.Linear(D, 2)

    def forward(self, x):
        h = self.norm(x)
        g = F.softplus(self.gate(h))
        g = g / (g.sum(-1, keepdim=True) + 1e-6)
        return x + torch.einsum("btk,kbtd->btd", g, torch.stack([path(h) for path in self.paths]))


class NormTimesNorm(nn.Module):
    """gated unit with a norm on each factor and no map behind"""

    def __init__(self):
        super().__init__()
        self.pre, self.both = nn.LayerNorm(D), nn.Linear(D, 2 * D)
        self.norms = nn.ModuleDict({"value": nn.RMSNorm(D), "gate": nn.LayerNorm(D)})

    def forward(self, x):
        value, gate = self.both(self.pre(x)).chunk(2, -1)
        return x + operator.mul(self.norms["value"](value), self.norms["gate"](gate))


class CatNormedSilu(nn.Module):
    """one half is normed, the other one 'activated'"""

    def __init__(self):
        super().__init__()
        self.pre, self.net, self.post = nn.LayerNorm(D), mlp(), nn.LayerNorm(D // 2)

    def forward(self, x):
        a, b = self.net(self.pre(x)).tensor_split(2, dim=-1)
        return x + torch.cat((self.post(a), b * torch.sigmoid(b)), dim=-1)


class CatNormedSine(CatNormedSilu):
    """one half is normed, the other one is the sine and cosine of angles"""

    def forward(self, x):
        a, b = self.net(self.pre(x)).tensor_split(2, dim=-1)
        c, s = torch.view_as_real(torch.polar(torch.ones_like(b), b)).unbind(-1)
        return x + torch.cat((self.post(a), c * s), dim=-1)


class HadamardAfterNorm(nn.Module):
    """a map stands behind the norm: the fast Walsh-Hadamard transform, which has no weight"""

    def __init__(self):
        super().__init__()
        self.net = mlp(nn.LayerNorm(D))
        self.post = nn.RMSNorm(D)

    def forward(self, x):
        y, step = self.post(self.net(x)), 1
        while step < D:
            a, b = y.unflatten(-1, (-1, 2, step)).unbind(-2)
            y = torch.stack((a + b, a - b), dim=-2).flatten(-3) * 0.5 ** 0.5
            step *= 2
        return x + y


class State(NamedTuple):
    stream: torch.Tensor
    memory: torch.Tensor


class ScanLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.both = nn.RMSNorm(D), nn.Linear(D, 2 * D)

    def forward(self, x):                                             # x: [tokens, batch, D]
        u, a = self.both(self.norm(x)).chunk(2, -1)
        state, out = State(x, torch.zeros_like(x[0])), []
        for ut, at in zip(torch.erf(u), torch.sigmoid(a)):
            state = state._replace(memory=state.memory + at * (ut - state.memory))
            out.append(state.memory)
        return state.stream + torch.stack(out)


class ConvexScan(nn.Module):
    """minGRU along time in [tokens, batch, D]: the memory is a convex mean of erf's"""

    def __init__(self, n=24):
        super().__init__()
        self.layers = nn.ModuleList(ScanLayer() for _ in range(n))

    def forward(self, x):
        return functools.reduce(lambda h, layer: layer(h), self.layers, x.transpose(0, 1)).transpose(0, 1)


class AllPassFilter(nn.Module):
    """GFNet with a filter that has phases only"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.phase = nn.Parameter(torch.randn(9, D))

    def forward(self, x):
        spectrum = torch.fft.rfft(self.norm(x), dim=1, norm="ortho")
        return x + torch.fft.irfft(spectrum * torch.polar(torch.ones_like(self.phase), self.phase), n=16, dim=1, norm="ortho")


class PoolFormerBlock(nn.Module):
    """PoolFormer: pooling minus identity, then an MLP"""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.net = mlp()
        self.pool = nn.AvgPool1d(3, stride=1, padding=1, count_include_pad=False)

    def mix(self, x):
        h = self.n1(x).mT
        return (self.pool(h) - h).mT

    def feed(self, x):
        return self.net(self.n2(x))

    def forward(self, x):
        for branch in (self.mix, self.feed):
            x = x + branch(x)
        return x


TRUTH = {
    "CapsuleSquash": dict(
        kind="block",
        why="squash has length n2/(1+n2) < 1 per capsule, whatever comes in: the branch is bounded by 1 per entry although it reads the raw stream and ends behind a free linear map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="flat",
        output_bounded={"0": True},
        softmax=False,
        tempts="no norm anywhere, unbounded, exponential growth",
    ),
    "SquashByPose": dict(
        kind="block",
        why="the length is that of the first half: the second half is y2 |y1|/(1+|y1|^2), linear in the rows of the last map that make y2.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="squash at the end, bounded by one",
    ),
    "RenormTail": dict(
        kind="block",
        why="torch.renorm along dim 0 projects every row (token) on the ball of radius 4.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="pre-norm with a free last map: unbounded",
    ),
    "SqrtOfNorm": dict(
        kind="block",
        why="|y| / sqrt(1 + |y|) grows like sqrt|y|: unbounded over the weights.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="y times rsqrt(1 + norm) is a norm / ISRU",
    ),
    "UncentredStd": dict(
        kind="block",
        why="y/std(y) without centring: with y = c + small (a large bias of the last map) the quotient is c/std, unbounded.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        softmax=False,
        tempts="division by the standard deviation is a norm",
    ),
    "AmaxNoAbs": dict(
        kind="block",
        why="if all entries are negative the (signed) maximum is clamped to 0.01 and y/0.01 is linear in the bias; also max y may be tiny beside min y.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        softmax=False,
        tempts="max-norm, bounded by one",
    ),
    "LogSumExpDivide": dict(
        kind="block",
        why="logsumexp|y| >= max|y|, so that every entry is below 1; no softmax: logsumexp is a denominator only.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="no norm, unbounded; or a log that grows too slowly",
    ),
    "MinRowSum": dict(
        kind="block",
        why="the denominator is the smallest l1 norm of a token: one token with y = 0 (a constant token, zero biases) leaves the other ones unbounded.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="division by a matrix norm of the whole map is a projection on a sphere",
    ),
    "RemainderRaw": dict(
        kind="block",
        why="the loop covers features 0..59; the last four are the raw output of the last map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="every group is L2-normalised",
    ),
    "UnitTracks": dict(
        kind="block",
        why="normalised over the tokens (dim 1): every feature is a unit vector over the tokens, so that every entry is at most 1.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="norm over a wrong axis bounds nothing",
    ),
    "HypotLerp": dict(
        kind="model",
        why="x' = 0.9 x + 0.1 y/|y| with |y| by a fold of hypot: convex, |x'| <= max(|x|, 1); no norm on the input is needed. Weightless part: 0.9 per layer.",
        identity_gain=0.9**24,
        growth_fixed="bounded",
        growth_all="bounded",
        gradient_law="exponential",
        output_bounded={"0": True},
        softmax=False,
        tempts="no norm anywhere, exponential",
    ),
    "LogSpaceNorm": dict(
        kind="block",
        why="exp(-logsumexp(2 log|y|)/2) is 1/|y|_2: an L2 norm in log space, entries at most 1. No softmax.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="exp times a linear map: unbounded; or a softmax because of logsumexp and exp",
    ),
    "RickerTail": dict(
        kind="block",
        why="(1 - y^2) exp(-y^2/2) lies in [-2/e^1.5, 1].",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="polynomial of a free linear map, unbounded",
    ),
    "FsqCodes": dict(
        kind="block",
        why="tanh bounds before the rounding; value of the straight-through expression is round(z), |z| <= half: the quotient is in [-1, 1].",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="z + (round z - z) is a sum with raw parts",
    ),
    "OneBitTail": dict(
        kind="block",
        why="the value of y - (y - sign y).detach() is sign y: at most 0.25 in size. The gradient is the identity's.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="flat",
        output_bounded={"0": True},
        softmax=False,
        tempts="a free linear map minus something detached: unbounded",
    ),
    "VqCodebook": dict(
        kind="block",
        why="the value is a row of the codebook, a trained table without any constraint.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="quantised, one of 32 codes: bounded",
    ),
    "SoftmaxRows": dict(
        kind="block",
        why="the weight's rows are probabilities for every value of the free parameter and there is no bias: the output is a convex mean of relu(LN), below sqrt(64). The softmax weighs the features.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=True,
        tempts="a trained matrix behind the norm: unbounded",
    ),
    "PolarWeights": dict(
        kind="block",
        why="W/|W|_F has singular values in [0, 1], and s -> 1.5 s - 0.5 s^3 maps [0, 1] into itself: both maps have spectral norm <= 1 whatever W; no bias.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="a polynomial of degree 3^6 in trained matrices",
    ),
    "CayleyTurns": dict(
        kind="block",
        why="A = P - P' is skew, I + A is never singular and (I + A)^-1 (I - A) is orthogonal for all P: |branch| <= |LN(x)|.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="a linear solve with trained matrices: unbounded",
    ),
    "CayleyMirror": dict(
        kind="block",
        why="A = P + P' is symmetric: at P = -(1 - e)/2 I the solve returns (2 - e)/e I, unbounded as e -> 0 (large P only gives -I).",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        softmax=False,
        tempts="Cayley transform, orthogonal weights",
    ),
    "HouseholderChain": dict(
        kind="block",
        why="every step is a reflection whatever v (v = 0 is the identity): lengths are kept, relu only shortens.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="products of trained vectors, degree 16: unbounded",
    ),
    "SpectralBias": dict(
        kind="block",
        why="the bias of the last map is free and is added as it is.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="spectral norm on every map",
    ),
    "FrozenGain": dict(
        kind="block",
        why="weight_norm with dim=None: |W|_F = g, and g is not trained; no bias. Bounded by g1 g2 sqrt(64) (also 'given the gain' if g counts as one).",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="weight_norm has a free gain, unbounded",
    ),
    "BitNetFfn": dict(
        kind="block",
        why="the ternary weights are multiplied by mean|W| again: the map is linear in the size of W.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="weights in {-1, 0, 1}: bounded",
    ),
    "TernaryFfn": dict(
        kind="block",
        why="the value of the weights is in {-1, 0, 1}/sqrt(fan-in), no bias, input normed: finitely many functions of a bounded input.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="unit + (q - unit) holds the free weight, unbounded",
    ),
    "SharesOfPaths": dict(
        kind="block",
        why="shares g/(sum g + e) sum to at most one: a (sub)convex mean of two RMS-normed paths. Softplus shares are no softmax.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="data-made positive gates, unbounded; or softmax",
    ),
    "NormTimesNorm": dict(
        kind="block",
        why="a product of two normed vectors with fixed gains: entries at most sqrt(64)^2.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="a data-made gate behind a norm: unbounded",
    ),
    "CatNormedSilu": dict(
        kind="block",
        why="the second half is silu of a free linear map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="power",
        output_bounded={"0": False},
        softmax=False,
        tempts="the branch ends in a norm",
    ),
    "CatNormedSine": dict(
        kind="block",
        why="first half LayerNorm, second half cos(b) sin(b): bounded whatever the weights.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="one half is not normed",
    ),
    "HadamardAfterNorm": dict(
        kind="block",
        why="the Walsh-Hadamard transform scaled by 2^-3 is orthogonal and has no weights: |branch| = sqrt(64) |gain|.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="mixing maps stand behind the norm",
    ),
    "ConvexScan": dict(
        kind="model",
        why="memory <- (1 - a) memory + a erf(u), a in (0, 1), from zero: always in [-1, 1].",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="a recurrence with data-made gates",
    ),
    "AllPassFilter": dict(
        kind="block",
        why="the filter exp(i phase) keeps every frequency's energy (irfft drops the imaginary part of two of them): per feature the energy over tokens is at most that of LN(x).",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="a trained complex filter behind the norm",
    ),
    "PoolFormerBlock": dict(
        kind="block",
        why="branch 0 has no weights behind the LayerNorm: pooling minus identity, at most twice the norm. Branch 1 is a free MLP.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": True, "1": False},
        softmax=False,
        tempts="pre-norm branches are unbounded, both",
    ),
}
