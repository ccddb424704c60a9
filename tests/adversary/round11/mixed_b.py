"""Streams of the last years' papers and of research code: connections that mix, carry, average, rotate, step; each beside a slip."""

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


def unit(t):
    return F.normalize(t, dim=-1)


class Pre(nn.Module):
    """x + f(norm(x))."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), mlp()

    def branch(self, x):
        return self.f(self.norm(x))

    def forward(self, x):
        return x + self.branch(x)


# ---- names and places of the stream
class AliasDouble(Pre):
    """h = x, x += y in place, h + x: both are the sum."""

    def forward(self, x):
        y = self.branch(x)
        x = x.clone()
        h = x
        x += y
        return h + x


class AliasOnce(Pre):
    """h = x, h += y, h."""

    def forward(self, x):
        y = self.branch(x)
        h = x * 1.0
        x = h
        h += y
        return x


class SkipOfCopy(Pre):
    """The copy is taken, in-place adds go to the copy, the first one is returned with half of it."""

    def forward(self, x):
        y = self.branch(x)
        h = x.clone()
        h.add_(y)
        return 0.5 * x + 0.5 * h


class InnerLoop(Pre):
    """One block, read three times inside."""

    def forward(self, x):
        for _ in range(3):
            x = x + self.branch(x)
        return x


class InnerLoopInjected(Pre):
    """The input of the block is added each time."""

    def forward(self, x):
        start = x
        for _ in range(3):
            x = start + x + self.branch(x)
        return x


class InnerLoopAnchored(Pre):
    """Each time from the input of the block: a fixed point."""

    def forward(self, x):
        z = x
        for _ in range(3):
            z = x + self.branch(z)
        return z


# ---- maps without weights on the stream
class CenterTokens(Pre):
    """The mean of the tokens is taken out of the skip."""

    def forward(self, x):
        return x - x.mean(1, keepdim=True) + self.branch(x)


class LiftTokens(Pre):
    """A twentieth of it is put in."""

    def forward(self, x):
        return x + 0.05 * x.mean(1, keepdim=True) + self.branch(x)


class HeatStep(Pre):
    """A step of diffusion between neighbours on a ring."""

    rate = 0.25

    def forward(self, x):
        lap = x.roll(1, 1) + x.roll(-1, 1) - 2 * x
        return x + self.rate * lap + self.branch(x)


class HeatStepBack(HeatStep):
    """The sign is wrong."""

    rate = -0.25


class HeatStepLong(HeatStep):
    """The step is too long: 1 - 4 r below -1."""

    rate = 0.75


def hadamard():
    h = torch.ones(1, 1)
    for _ in range(5):
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


class Rotated(Pre):
    """The stream is turned by a fixed orthogonal matrix each block."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turn", self.scale(hadamard()))

    def scale(self, h):
        return h / math.sqrt(D)

    def forward(self, x):
        return x @ self.turn.to(x.dtype) + self.branch(x)


class RotatedRaw(Rotated):
    """... which nobody divided."""

    def scale(self, h):
        return h


class RotatedBackAndForth(Rotated):
    """Turned, stepped, turned back."""

    def forward(self, x):
        t = self.turn.to(x.dtype)
        x = x @ t
        x = x + self.branch(x)
        return x @ t.T


class CumulativeSkip(Pre):
    """A tenth of the running sum of tokens stays on the skip."""

    def forward(self, x):
        return x + 0.1 * x.cumsum(1) + self.branch(x)


class CumulativeBranch(Pre):
    """The running mean is read by the branch alone."""

    def branch(self, x):
        h = self.norm(x)
        count = torch.arange(1, T + 1, device=x.device).to(x.dtype).view(1, T, 1)
        return self.f(h + h.cumsum(1) / count)


class SignFlip(Pre):
    """f - x: the skip changes its sign."""

    def forward(self, x):
        return self.branch(x) - x


class HalfFlip(Pre):
    """The second half of the channels changes its sign and stands first."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1) + self.branch(x)


class OuterStack(Pre):
    """sum over a stack of the stream, a branch and the stream's half."""

    def forward(self, x):
        return torch.stack([x, self.branch(x), 0.5 * x]).sum(0)


class WeightedStack(Pre):
    """einsum of a buffer of shares with a stack."""

    shares = (0.75, 1.0, 0.25)

    def __init__(self):
        super().__init__()
        self.register_buffer("share", torch.tensor(self.shares))

    def forward(self, x):
        return torch.einsum("s,sbtd->btd", self.share.to(x.dtype), torch.stack([x, self.branch(x), x]))


class WeightedStackSlip(WeightedStack):
    """The shares of the stream sum to 1.15."""

    shares = (0.75, 1.0, 0.4)


class WhereUpdate(Pre):
    """Only the odd tokens are written, by index_copy on a copy."""

    def forward(self, x):
        y = x + self.branch(x)
        index = torch.arange(1, T, 2, device=x.device)
        return x.index_copy(1, index, y[:, index])


class ScatterTwice(Pre):
    """index_add of the sum, where the branch alone was meant."""

    def forward(self, x):
        y = x + self.branch(x)
        index = torch.arange(1, T, 2, device=x.device)
        return x.index_add(1, index, y[:, index])


# ---- gates
class SkipGate(Pre):
    """sigmoid(g) on the skip, g from 4."""

    start = 4.0

    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(self.start))

    def keep(self):
        return torch.sigmoid(self.g)

    def forward(self, x):
        return self.keep() * x + self.branch(x)


class SkipGatePlus(SkipGate):
    """1 + tanh(g), g from 0.1."""

    start = 0.1

    def keep(self):
        return 1 + torch.tanh(self.g)


class Highway(Pre):
    """t f + (1 - t) x, t a sigmoid of the normed stream."""

    sign = -1

    def __init__(self):
        super().__init__()
        self.gate = dense(D, D)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, x):
        h = self.norm(x)
        t = torch.sigmoid(self.gate(h))
        return t * self.f(h) + (1 + self.sign * t) * x


class HighwayPlus(Highway):
    """(1 + t) x."""

    sign = 1


class Minimal(Pre):
    """A minimal gated unit over depth: z of the normed stream, tanh of a map."""

    def __init__(self):
        super().__init__()
        self.wz, self.wh = dense(D, D), dense(D, D)

    def forward(self, x):
        h = self.norm(x)
        z = self.wz(h).sigmoid()
        return torch.lerp(x, torch.tanh(self.wh(h)), z)


class MinimalSlip(Minimal):
    """lerp's ends change places, and its weight is not a sigmoid."""

    def forward(self, x):
        h = self.norm(x)
        return torch.lerp(x, torch.tanh(self.wh(h)), -self.wz(h).sigmoid())


class LayerScaleTiny(Pre):
    """A hundredth on the branch."""

    start = 0.01

    def __init__(self):
        super().__init__()
        self.gain_ls = nn.Parameter(self.start * torch.ones(D))

    def forward(self, x):
        return x + self.gain_ls * self.branch(x)


class LayerScaleOnSum(LayerScaleTiny):
    """The bracket is wrong: 3/4 (x + f)."""

    start = 0.75

    def forward(self, x):
        return self.gain_ls * (x + self.branch(x))


# ---- norms in places
class NGpt(nn.Module):
    """unit(x + a (unit(f(x)) - x)), a trained rate a channel."""

    def __init__(self):
        super().__init__()
        self.f, self.gain_rate = mlp(), nn.Parameter(torch.full((D,), 0.05))

    def out(self, t):
        return unit(t)

    def forward(self, x):
        x = self.out(x)
        return self.out(x + self.gain_rate * (unit(self.f(x)) - x))


class NGptNoOuter(NGpt):
    """Neither end is normed: a lerp to what is unit."""

    def out(self, t):
        return t


class NGptMinusForgotten(NGptNoOuter):
    """a unit(f): and x stays whole."""

    def forward(self, x):
        return x + self.gain_rate * unit(self.f(x))


class Keel(Pre):
    """norm(a x + f(norm(x))), a of the depth (post-norm is back)."""

    def __init__(self):
        super().__init__()
        self.after = nn.LayerNorm(D)

    def forward(self, x):
        return self.after(48.0 * x + self.branch(x))


class KeelNoOuter(Keel):
    """The outer norm is lost, the factor stays."""

    def forward(self, x):
        return 1.5 * x + self.branch(x)


class HybridNorm(nn.Module):
    """No norm before attention, queries, keys and values normed; the feed-forward's is behind the add."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (dense(D, D, False) for _ in range(4))
        self.n1, self.n2, self.f = nn.RMSNorm(D), nn.RMSNorm(D), mlp()

    def attn(self, x):
        q, k, v = (F.rms_norm(m(x), (D,)) for m in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v))

    def forward(self, x):
        x = x + self.attn(x)
        y = self.n1(x)
        return self.n2(y + self.f(y))


class HybridNormOpen(HybridNorm):
    """The feed-forward reads the normed stream and is added to the raw one."""

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.f(self.n1(x))


class RmsCeiling(Pre):
    """Where its rms is above four, the stream is scaled down to it."""

    def forward(self, x):
        x = x + self.branch(x)
        size = x.square().mean(-1, keepdim=True).sqrt()
        return x * (4.0 / size.clamp(min=4.0))


class RmsFloor(RmsCeiling):
    """The clamp is the other one: scaled up to four, never down."""

    def forward(self, x):
        x = x + self.branch(x)
        size = x.square().mean(-1, keepdim=True).sqrt()
        return x * (4.0 / size.clamp(max=4.0))


class StreamOfRatio(Pre):
    """(x + f) |x| / |x + f|: as long as it was."""

    def forward(self, x):
        y = x + self.branch(x)
        return y * (x.norm(dim=-1, keepdim=True) / (y.norm(dim=-1, keepdim=True) + 1e-6))


class OverWholeTensor(Pre):
    """(x + f) over the std of everything."""

    def forward(self, x):
        y = x + self.branch(x)
        return y / y.std()


class OverSqrtTwo(Pre):
    """(x + f) / sqrt 2."""

    def forward(self, x):
        return (x + self.branch(x)) / math.sqrt(2.0)


class UnitVarianceSkip(Pre):
    """0.8 x + 0.6 norm(f): magnitudes kept (EDM2)."""

    def __init__(self):
        super().__init__()
        self.after = nn.LayerNorm(D)

    def forward(self, x):
        return 0.8 * x + 0.6 * self.after(self.branch(x))


class RunningErf(Pre):
    """Derf in the norm's place: x + f(erf(a x))."""

    def __init__(self):
        super().__init__()
        self.gain_a = nn.Parameter(torch.full((1,), 0.5))

    def squash(self, x):
        return torch.erf(self.gain_a * x)

    def branch(self, x):
        return self.f(self.squash(x))


class RunningSoftsign(RunningErf):
    """a x / (1 + a |x|)."""

    def squash(self, x):
        return self.gain_a * x / (1 + (self.gain_a * x).abs())


class RunningAsinh(RunningErf):
    """asinh: grows on, slowly."""

    def squash(self, x):
        return torch.asinh(self.gain_a * x)


class RunningGelu(RunningErf):
    """GELU: no squash at all."""

    def squash(self, x):
        return F.gelu(self.gain_a * x)


# ---- steps
class Midpoint(Pre):
    """A midpoint step."""

    def forward(self, x):
        k = self.branch(x)
        return x + self.branch(x + 0.5 * k)


class HeunSlip(Pre):
    """The start is averaged with a second step, and a tenth of the predictor stays."""

    def forward(self, x):
        p = x + self.branch(x)
        return 0.5 * x + 0.5 * (p + self.branch(p)) + 0.1 * p


class Relax(Pre):
    """Half way to the branch."""

    def forward(self, x):
        return x + 0.5 * (self.branch(x) - x)


class RelaxOver(Pre):
    """Two and a half times as far: past it."""

    def forward(self, x):
        return x + 2.5 * (self.branch(x) - x)


class SoftStep(Pre):
    """A trained positive step."""

    def __init__(self):
        super().__init__()
        self.dt = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x):
        return torch.addcmul(x, F.softplus(self.dt), self.branch(x))


# ---- several branches
class ParallelShared(Pre):
    """Two nets of one norm, in one add, and a third of the raw branch of the first."""

    def __init__(self):
        super().__init__()
        self.g, self.h = mlp(), mlp()

    def forward(self, x):
        n = self.norm(x)
        return x + self.f(n) + self.g(n) + self.h(self.norm(self.f(n)))


class ParallelLeak(ParallelShared):
    """The second add takes the sum of the first."""

    def forward(self, x):
        n = self.norm(x)
        a = x + self.f(n)
        b = x + self.g(n)
        return a + b - 0.9 * x


class RawBesideNormed(Pre):
    """A low-rank side path reads the raw stream."""

    def __init__(self):
        super().__init__()
        self.a, self.b = dense(D, 4, False), dense(4, D, False)

    def forward(self, x):
        return x + self.branch(x) + 0.5 * self.b(self.a(x))


class NormedBesideNormed(RawBesideNormed):
    """It reads the normed one."""

    def forward(self, x):
        h = self.norm(x)
        return x + self.f(h) + 0.5 * self.b(self.a(h))


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_FREE = dict(_LIN, output_bounded={0: False})
_RAW = dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False)
_NORMED = dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False)


def _power(gain, **more):
    if gain < 1:
        return dict(kind="block", identity_gain=gain ** 24, growth_fixed="bounded", softmax=False, **more)
    return dict(kind="block", identity_gain=gain ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False, **more)


TRUTH = {
    "AliasDouble": dict(_power(2.0), why="both names are the sum.", tempts="x + (x + f) is 2 x + f, or gain 1"),
    "AliasOnce": dict(_LIN, why="one tensor.", tempts="no branch"),
    "SkipOfCopy": dict(_LIN, why="half and half.", tempts="0.5"),
    "InnerLoop": dict(_LIN, why="three steps.", tempts="-"),
    "InnerLoopInjected": dict(_power(4.0), why="x, 2 x, 3 x, 4 x.", tempts="gain 1"),
    "InnerLoopAnchored": dict(_LIN, why="the last step alone adds to x.", tempts="3"),
    "CenterTokens": dict(_LIN, why="all but the mean.", tempts="16/15"),
    "LiftTokens": dict(_power(1.05), why="the mean has 1.05.", tempts="gain 1"),
    "HeatStep": dict(_LIN, why="the mean of tokens has 1.", tempts="0.5"),
    "HeatStepBack": dict(_power(2.0), why="the highest frequency has 2.", tempts="gain 1, 1.5"),
    "HeatStepLong": dict(_power(2.0), why="the highest frequency has -2.", tempts="gain 1, 0.5"),
    "Rotated": dict(_LIN, why="orthogonal.", tempts="a map"),
    "RotatedRaw": dict(_power(math.sqrt(32.0)), why="root of 32.", tempts="gain 1"),
    "RotatedBackAndForth": dict(_LIN, why="there and back.", tempts="maps"),
    "CumulativeSkip": dict(kind="block", growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="1.1 to the depth.", tempts="gain 1"),
    "CumulativeBranch": dict(_FREE, why="a running mean of the normed stream.", tempts="a sum of tokens"),
    "SignFlip": dict(_LIN, why="-1.", tempts="-"),
    "HalfFlip": dict(_LIN, why="a quarter turn.", tempts="-"),
    "OuterStack": dict(_power(1.5), why="1 + 0.5.", tempts="gain 1"),
    "WeightedStack": dict(_LIN, why="0.75 + 0.25.", tempts="2"),
    "WeightedStackSlip": dict(_power(1.15), why="0.75 + 0.4.", tempts="gain 1"),
    "WhereUpdate": dict(_LIN, why="every token keeps x.", tempts="-"),
    "ScatterTwice": dict(_power(2.0), why="odd tokens have x twice.", tempts="gain 1"),
    "SkipGate": dict(_power(1 / (1 + math.exp(-4.0))), why="sigmoid(4).", tempts="gain 1"),
    "SkipGatePlus": dict(kind="block", identity_gain=(1 + math.tanh(0.1)) ** 24, growth_fixed="exponential", softmax=False,
        why="1 + tanh(0.1).", tempts="gain 1"),
    "Highway": dict(kind="block", gated=True, growth_fixed="bounded", softmax=False, why="a convex pair.", tempts="linear"),
    "HighwayPlus": dict(kind="block", gated=True, growth_fixed="exponential", softmax=False, why="1.27 each.", tempts="its twin"),
    "Minimal": dict(kind="block", gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False,
        why="a convex pair with a tanh.", tempts="-"),
    "MinimalSlip": dict(kind="block", gated=True, growth_fixed="exponential", softmax=False, why="1 + z.", tempts="its twin"),
    "LayerScaleTiny": dict(_FREE, why="pre-norm.", tempts="-"),
    "LayerScaleOnSum": dict(_power(0.75), why="three quarters each.", tempts="gain 1"),
    "NGpt": dict(_NORMED, growth_all="bounded", why="unit.", tempts="-"),
    "NGptNoOuter": dict(_power(0.95), why="0.95.", tempts="gain 1"),
    "NGptMinusForgotten": dict(_LIN, growth_all="linear", why="x stays.", tempts="0.95"),
    "Keel": dict(_NORMED, growth_all="bounded", why="normed.", tempts="48"),
    "KeelNoOuter": dict(_power(1.5), why="1.5.", tempts="its twin"),
    "HybridNorm": dict(_NORMED, softmax=True, growth_all="bounded", why="normed last.", tempts="no norm before"),
    "HybridNormOpen": dict(_LIN, softmax=True, logits_bounded={0: True}, output_bounded={0: False, 1: False},
        why="values are normed: fixed maps of normed values.", tempts="attention without a norm before it: exponential"),
    "RmsCeiling": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, why="at most 4.", tempts="linear"),
    "RmsFloor": dict(kind="block", growth_fixed="linear", softmax=False, why="large streams pass.", tempts="its twin"),
    "StreamOfRatio": dict(kind="block", softmax=False, growth_fixed="bounded", growth_all="bounded", why="its length is kept.", tempts="linear"),
    "OverWholeTensor": dict(_NORMED, growth_all="bounded", why="standardised as a whole.", tempts="gain 1"),
    "OverSqrtTwo": dict(_power(0.5 ** 0.5), why="1 over root 2.", tempts="gain 1"),
    "UnitVarianceSkip": dict(_power(0.8), growth_all="bounded", why="0.8.", tempts="gain 1"),
    "RunningErf": dict(_FREE, why="a bounded input.", tempts="no norm: exponential"),
    "RunningSoftsign": dict(_FREE, why="a bounded input.", tempts="no norm: exponential"),
    "RunningAsinh": dict(_FREE, growth_fixed="polynomial", why="n log n.", tempts="bounded, exponential"),
    "RunningGelu": dict(_RAW, output_bounded={0: False}, why="no squash.", tempts="a norm"),
    "Midpoint": dict(_LIN, why="one step.", tempts="1.5"),
    "HeunSlip": dict(_power(1.1), why="0.5 + 0.5 + 0.1.", tempts="gain 1"),
    "Relax": dict(_power(0.5), why="half.", tempts="gain 1"),
    "RelaxOver": dict(_power(1.5), why="-1.5.", tempts="gain 1"),
    "SoftStep": dict(_LIN, why="x stays.", tempts="-"),
    "ParallelShared": dict(_LIN, why="three normed branches.", tempts="-"),
    "ParallelLeak": dict(_power(1.1), why="1 + 1 - 0.9.", tempts="gain 1"),
    "RawBesideNormed": dict(_RAW, why="a raw branch of degree one.", tempts="pre-norm"),
    "NormedBesideNormed": dict(_LIN, why="pre-norm.", tempts="-"),
}
