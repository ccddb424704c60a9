"""Round 1 A: growth and gradient laws over depth, block ends, odd places of norms, hand-made backward passes."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


def linear(n_in, n_out, scale=1.5, bias=False):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=scale / math.sqrt(n_in))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def mlp(scale=1.5):
    return nn.Sequential(linear(D, 2 * D, scale), nn.GELU(), linear(2 * D, D, scale))


def size(x):
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True) / D ** 0.5 + 1e-8


def unit(x):
    return x / size(x)


# ---------------------------------------------------------------- magnitude taken off and put back


class MagnitudeKeeping(nn.Module):
    """The sum is brought back to the size that the stream had before the add."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()

    def forward(self, x):
        s = x + self.body(self.norm(x))
        return unit(s) * size(x)


class OneLarger(nn.Module):
    """The sum is brought to the size of the stream plus one."""

    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x):
        s = x + self.body(x)
        return unit(s) * (size(x) + 1)


class TriangleSize(nn.Module):
    """The sum is brought to the size that the two operands have together."""

    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x):
        f = self.body(x)
        return unit(x + f) * (size(x) + size(f))


class StaleStatistics(nn.Module):
    """One statistic, taken from the input of the stack, serves as the scale of all pre-norms."""

    def __init__(self, depth=24):
        super().__init__()
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(D)) for _ in range(depth))
        self.bodies = nn.ModuleList(mlp() for _ in range(depth))

    def forward(self, x):
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        for gain, body in zip(self.gains, self.bodies):
            x = x + body(x * rstd * gain)
        return x


class LaggedStatistics(nn.Module):
    """Each pre-norm uses the statistic of the block before (it can be computed while the block runs)."""

    def __init__(self, depth=24):
        super().__init__()
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(D)) for _ in range(depth))
        self.bodies = nn.ModuleList(mlp() for _ in range(depth))

    def forward(self, x):
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        for gain, body in zip(self.gains, self.bodies):
            y = x + body(x * rstd * gain)
            rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            x = y
        return x


class UnusedNorm(nn.Module):
    """The normed tensor is bound to a name that nobody reads."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()

    def forward(self, x):
        normed = self.norm(x)
        hidden = self.body[1](self.body[0](x))
        assert normed.shape == x.shape
        return x + self.body[2](hidden)


class CollectedNorms(nn.Module):
    """Normed copies of all states are averaged for the head; the stream itself goes on without a norm."""

    def __init__(self, depth=24):
        super().__init__()
        self.bodies = nn.ModuleList(mlp() for _ in range(depth))
        self.taps = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))

    def forward(self, x):
        seen = []
        for body, tap in zip(self.bodies, self.taps):
            x = x + body(x)
            seen.append(tap(x))
        return torch.stack(seen).mean(0)


# ---------------------------------------------------------------- gates and bounds on the stream


class ConvexGate(nn.Module):
    """Highway block whose candidate is normed."""

    def __init__(self):
        super().__init__()
        self.gate = linear(D, D, bias=True)
        self.body, self.norm = mlp(), nn.RMSNorm(D)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return (1 - g) * x + g * self.norm(self.body(x))


class OnePlusGate(nn.Module):
    """A carry factor 1 + sigmoid(.), read from the normed stream."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.gate = linear(D, D, 1.0)
        self.body = mlp()

    def forward(self, x):
        h = self.norm(x)
        return torch.addcmul(x, x, self.gate(h).sigmoid()) + self.body(h)


class SoftcappedStream(nn.Module):
    """30 tanh(s / 30) on the sum, as Gemma caps its logits."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.body = mlp()

    def forward(self, x):
        s = x + self.body(self.norm(x))
        return s.div(30).tanh().mul(30)


class ConvexPotential(nn.Module):
    """A gradient step on a convex potential: x - 2 U^T relu(U x), U = W / |W|_F. No norm on the data at all."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2 * D, D))

    def forward(self, x):
        u = self.weight / (self.weight.square().sum() + 1e-12).sqrt()
        return x - 2 * F.relu(x @ u.T) @ u


class SkewEuler(nn.Module):
    """Euler step of an antisymmetric (rotation) field."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, D) / D ** 0.5)

    def forward(self, x):
        return x + 0.5 * (x @ (self.weight - self.weight.mT))


class CayleyStream(nn.Module):
    """The stream goes through the Cayley transform of an antisymmetric matrix; the branch ends with a norm."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, D) / D ** 0.5)
        self.body, self.norm = mlp(), nn.RMSNorm(D)

    def forward(self, x):
        a = self.weight - self.weight.mT
        eye = torch.eye(D, dtype=x.dtype, device=x.device)
        turn = torch.linalg.solve(eye - a, eye + a)
        return x @ turn + self.norm(self.body(x))


class SawtoothOut(nn.Module):
    """A phase: the branch is taken modulo 1 at its end."""

    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x):
        return x + torch.remainder(self.body(x), 1.0)


# ---------------------------------------------------------------- scales over depth


class SummableSteps(nn.Module):
    """No norms; block l has the step 1 / l^2."""

    def __init__(self, depth=24):
        super().__init__()
        self.bodies = nn.ModuleList(mlp() for _ in range(depth))

    def forward(self, x):
        for l, body in enumerate(self.bodies, 1):
            x = x + body(x) / l ** 2
        return x


class FadingSteps(nn.Module):
    """Pre-norm; every block counts 0.7 times the one before."""

    def __init__(self, depth=24):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.bodies = nn.ModuleList(mlp() for _ in range(depth))

    def forward(self, x):
        scale = 1.0
        for norm, body in zip(self.norms, self.bodies):
            x = torch.add(x, body(norm(x)), alpha=scale)
            scale *= 0.7
        return x


class RisingSteps(nn.Module):
    """Output-normed branches with weight l: a bounded branch per block, an ever longer step."""

    def __init__(self, depth=24):
        super().__init__()
        self.pre = nn.ModuleList(nn.RMSNorm(D) for _ in range(depth))
        self.bodies = nn.ModuleList(mlp() for _ in range(depth))
        self.post = nn.ModuleList(nn.RMSNorm(D) for _ in range(depth))

    def factor(self, l):
        return l

    def forward(self, x):
        for l, (pre, body, post) in enumerate(zip(self.pre, self.bodies, self.post), 1):
            x = x + self.factor(l) * post(body(pre(x)))
        return x


class CompoundSteps(RisingSteps):
    """The same with 1.25^l."""

    def factor(self, l):
        return 1.25 ** l


class EveryFourthRaw(nn.Module):
    """Norms are left out in every fourth block to save time."""

    def __init__(self, depth=24):
        super().__init__()
        self.norms = nn.ModuleList(nn.Identity() if i % 4 == 2 else nn.LayerNorm(D) for i in range(depth))
        self.bodies = nn.ModuleList(mlp(1.8) for _ in range(depth))

    def forward(self, x):
        for norm, body in zip(self.norms, self.bodies):
            x = x + body(norm(x))
        return x



class NormEverySix(nn.Module):
    """Swin-v2 large: output norms, and the stream itself is normed behind every sixth block."""

    def __init__(self, depth=24):
        super().__init__()
        self.bodies = nn.ModuleList(nn.Sequential(mlp(), nn.LayerNorm(D)) for _ in range(depth))
        self.resets = nn.ModuleList(nn.LayerNorm(D) if i % 6 == 5 else nn.Identity() for i in range(depth))

    def forward(self, x):
        for body, reset in zip(self.bodies, self.resets):
            x = reset(x + body(x))
        return x



# ---------------------------------------------------------------- ends of the block


class ScaledInside(nn.Module):
    """The block works at an eighth of the scale and gives it back."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp(0.6)

    def forward(self, x):
        x = x / 8
        x = x + self.body(self.norm(x))
        return x * 8



class HalfPostNorm(nn.Module):
    """The last norm of the block covers the first half of the channels only."""

    def __init__(self):
        super().__init__()
        self.body, self.out = mlp(), nn.LayerNorm(D)
        self.last = nn.LayerNorm(D // 2)

    def forward(self, x):
        x = x + self.out(self.body(x))
        return torch.cat((self.last(x[..., :D // 2]), x[..., D // 2:]), -1)


class BiasBehindNorm(nn.Module):
    """Output norm, and then a trained offset of its own."""

    def __init__(self):
        super().__init__()
        self.body, self.out = mlp(), nn.RMSNorm(D)
        self.offset = nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return x + (self.out(self.body(x)) + self.offset)


class NormedValues(nn.Module):
    """Attention that averages normed values and has no output projection."""

    def __init__(self):
        super().__init__()
        self.norm, self.value_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.k, self.v = linear(D, D), linear(D, D), linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        scores = torch.baddbmm(x.new_zeros(()), self.q(h), self.k(h).mT, beta=0, alpha=D ** -0.5)
        return x + scores.softmax(-1) @ self.value_norm(self.v(h))


# ---------------------------------------------------------------- forward and backward differ


class DetachedSkip(nn.Module):
    """The skip carries the value but no gradient."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()

    def forward(self, x):
        return x.detach() + self.body(self.norm(x))


class DetachedBranches(nn.Module):
    """The branch reads the stream without a gradient; only the skip carries one."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()

    def forward(self, x):
        return self.body(self.norm(x.detach())) + x


class GhostBranch(nn.Module):
    """A straight-through trick: the branch has no value but a gradient."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()

    def forward(self, x):
        f = self.body(self.norm(x))
        return x + (f - f.detach())


class FusedAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, f, alpha):
        ctx.alpha = alpha
        out = x.clone()
        return out.add_(f, alpha=alpha)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad * ctx.alpha, None


class HonestFusedAdd(nn.Module):
    """A custom Function for the residual add, with its true gradient."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()

    def forward(self, x):
        return FusedAdd.apply(x, self.body(self.norm(x)), 0.8)



class LoggingHook(nn.Module):
    """A tensor hook on the stream that only keeps the size of the gradient."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.body = mlp()
        self.log = []

    def forward(self, x):
        y = x + self.body(self.norm(x))
        if y.requires_grad:
            y.register_hook(lambda g: self.log.append(g.abs().mean()))
        return y


TRUTH = {
    "MagnitudeKeeping": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, output_bounded={"0": False},
        why="unit(s) has size 1 per token, so that the size of x' is the size of x, whatever the weights.",
        tempts="data-dependent gain behind a post-norm: no norm at all, exponential"),
    "OneLarger": dict(kind="block", growth_fixed="linear", growth_all="linear", softmax=False, output_bounded={"0": False},
        why="size(x') = size(x) + 1 exactly, whatever the weights, although the branch has no norm.",
        tempts="no norm on the branch and a data-dependent gain: exponential"),
    "TriangleSize": dict(kind="block", growth_fixed="exponential", gradient_law=None, softmax=False, output_bounded={"0": False},
        why="size(x') = size(x) + size(f(x)) and f is of degree about 1 without a norm: a factor 1 + L per block.",
        tempts="the sum is normalised: bounded; or linear as size(f) is added"),
    "StaleStatistics": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", gradient_law=None, softmax=False,
        output_bounded={"0": False},
        why="Behind the first block rstd belongs to another tensor: the branch has degree 1 in the stream.",
        tempts="x * rsqrt(mean x^2) is an RMSNorm: pre-norm, linear"),
    "LaggedStatistics": dict(kind="model", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False, output_bounded={"0": False},
        why="x_l / size(x_{l-1}) is bounded by 1 + |f_{l-1}| / size(x_{l-1}), so that increments stay bounded at fixed weights.",
        tempts="the statistic is of another tensor: no norm, exponential"),
    "UnusedNorm": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", gradient_law=None, softmax=False,
        output_bounded={"0": False}, why="The norm's output reaches only an assert; the branch reads x itself.", tempts="pre-norm by its names"),
    "CollectedNorms": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", gradient_law=None, softmax=False,
        output_bounded={"0": False}, why="The stream has no norm; the taps are off the stream.",
        tempts="every state is normed: bounded, or post-norm"),
    "ConvexGate": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False,
        gradient_law="exponential",
        why="Each entry of x' lies between the one of x and the one of a normed candidate (at most sqrt D).",
        tempts="a data-dependent gate on the stream: unknown; the gate reads the raw stream"),
    "OnePlusGate": dict(kind="block", growth_fixed="exponential", growth_all=None, gradient_law=None, softmax=False,
        why="The factor lies between 1 and 2, on average 1.5.",
        tempts="a sigmoid gate (convex): bounded; or pre-norm and gain 1: linear"),
    "SoftcappedStream": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, output_bounded={"0": False},
        why="|30 tanh| < 30 per entry.", tempts="pre-norm: unbounded over its weights, linear growth"),
    "ConvexPotential": dict(kind="block", gradient_law="flat", identity_gain=1.0, growth_fixed="bounded", growth_all="bounded", softmax=False,
        output_bounded={"0": False},
        why="x - 2 U^T relu(U x) with |U| <= 1 is the gradient step 2 of a potential that is convex with a 1-Lipschitz gradient: 1-Lipschitz and 0 at 0, so |x'| <= |x|.",
        tempts="no norm anywhere: exponential, unstable"),
    "SkewEuler": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", gradient_law="flat", softmax=False, output_bounded={"0": False},
        why="|x + h A x|^2 = |x|^2 + h^2 |A x|^2 > |x|^2 for A^T = -A. A weight's gradient is the product of the gradient from above and the stream, whose rates are equal.", tempts="an antisymmetric field is a rotation: an isometry"),
    "CayleyStream": dict(kind="block", growth_fixed="linear", growth_all="linear", gradient_law="flat", softmax=False, output_bounded={"0": True},
        why="(1-A)^{-1}(1+A) is orthogonal for antisymmetric A, whatever the weights; the branch adds at most size 1.",
        tempts="a trained matrix on the stream: no identity, exponential"),
    "SawtoothOut": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", gradient_law="exponential", softmax=False,
        output_bounded={"0": True},
        why="remainder(., 1) lies in [0, 1), with slope 1 almost everywhere: the forward pass is linear, the backward one that of a net without norms.",
        tempts="no norm: exponential growth, unbounded; or bounded output, so gradients are a power"),
    "SummableSteps": dict(kind="model", identity_gain=1.0, growth_fixed="bounded", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False},
        why="prod (1 + L/l^2) converges; the last block's gradient carries the factor 1/N^2.", tempts="no norms: exponential"),
    "FadingSteps": dict(kind="model", identity_gain=1.0, growth_fixed="bounded", growth_all=None, gradient_law="exponential", softmax=False,
        output_bounded={"0": False},
        why="Bounded increments with a geometric weight converge; the gradient of block l carries the factor 0.7^l.",
        tempts="pre-norm: linear growth, gradients a power of depth"),
    "RisingSteps": dict(kind="model", identity_gain=1.0, growth_fixed="polynomial", growth_all="polynomial", gradient_law=None, softmax=False,
        output_bounded={"0": True}, why="Sum of l: at most N^2/2, N^1.5 for independent directions.", tempts="peri: linear whatever the weights"),
    "CompoundSteps": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", growth_all="exponential", gradient_law=None, softmax=False,
        output_bounded={"0": True}, why="The last step is 1.25^N in size.", tempts="peri and identity gain 1: linear"),
    "EveryFourthRaw": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", growth_all=None, gradient_law="exponential", softmax=False,
        why="Each raw block multiplies the stream by a factor above 1 once it is large.", tempts="most blocks are pre-norm: linear"),
    "NormEverySix": dict(kind="model", growth_fixed="bounded", growth_all="bounded", softmax=False,
        output_bounded={"0": True}, why="Between two norms on the stream there are six normed branches: size at most 1 + 6.",
        tempts="output norm: linear; or no norm before the raw MLP"),
    "ScaledInside": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False}, why="The factors 1/8 and 8 cancel on the skip; the branch is a pre-norm one times 8.",
        tempts="8^24 or 8^-24 when one end is dropped"),
    "HalfPostNorm": dict(kind="block", growth_fixed="linear", growth_all="linear", softmax=False, output_bounded={"0": True},
        why="The second half is carried with gain 1 and gets a normed branch per block.", tempts="the block ends with a norm: bounded"),
    "BiasBehindNorm": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, softmax=False, output_bounded={"0": False},
        why="The offset is trained and no bias of the norm.", tempts="output norm with an affine: bounded"),
    "NormedValues": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=True,
        output_bounded={"0": True}, logits_bounded={"0": False},
        why="Convex combinations of tokens on a sphere; Q and K are free.", tempts="the branch ends with a matmul: unbounded"),
    "DetachedSkip": dict(kind="block", growth_fixed="linear", growth_all=None, gradient_law="exponential", softmax=False,
        output_bounded={"0": False},
        why="Forward a pre-norm block, backward only the product of the branch Jacobians, each about 1/size(x): it falls faster than any exponential.",
        tempts="identity path: gradients a power of depth"),
    "DetachedBranches": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="flat", softmax=False,
        output_bounded={"0": False}, why="Every block gets the same gradient from above and reads a normed input.",
        tempts="pre-norm: the ratio grows as a power; or a cut gradient vanishes"),
    "GhostBranch": dict(kind="block", identity_gain=1.0, output_bounded={"0": True}, growth_fixed="bounded", growth_all="bounded", gradient_law="exponential", softmax=False,
        why="f - f = 0 in the forward pass, so that the stream never grows and 1/size(x) never falls: the backward pass is a product of I + J with constant J.",
        tempts="pre-norm: linear growth, gradients a power; or f - f dropped: a flat gradient"),
    "HonestFusedAdd": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False}, why="x + 0.8 f with its true backward.", tempts="a custom Function: unknown; or the in-place add on a clone"),
    "LoggingHook": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False}, why="The hook returns None, so that the gradient is unchanged.", tempts="a hook on the stream: unknown gradient law"),
}
