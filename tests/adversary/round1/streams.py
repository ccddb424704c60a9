"""Round 1 A: what happens on the stream itself."""

import functools
import math
import operator
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32
T = 16


def example_inputs():
    return (torch.randn(2, T, D),)


def feed_forward(width=D, hidden=2 * D, gain=1.6):
    layers = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
    for layer in layers[::2]:
        nn.init.xavier_normal_(layer.weight, gain=gain)
        nn.init.zeros_(layer.bias)
    return layers


class Heads(nn.Module):
    """Plain softmax attention with four heads."""

    def __init__(self, width=D, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.qkv.weight, std=width ** -0.5)
        nn.init.normal_(self.out.weight, std=width ** -0.5)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
        return self.out(torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2))


# ---------------------------------------------------------------- rolls, flips, shuffles, transforms




class BackAndForth(nn.Module):
    """Every block reads the sentence the other way round."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.attn, self.ffn = Heads(), feed_forward()

    def forward(self, x):
        x = x.flip(1)
        x = x + self.attn(self.n1(x))
        return x + self.ffn(self.n2(x))



class HadamardStream(nn.Module):
    """A Hadamard rotation of the stream between blocks (as quantisers fold it in)."""

    def __init__(self):
        super().__init__()
        h = np.ones((1, 1))
        while h.shape[0] < D:
            h = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), h)
        self.register_buffer("had", torch.tensor((h / np.sqrt(D)).tolist()))
        self.norm = nn.RMSNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        x = x @ self.had.to(x.dtype)
        return x + self.ffn(self.norm(x))


class HartleyStream(nn.Module):
    """FNet puts a Hartley transform over the tokens into the stream; the default of `fft` has no scale."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        spectrum = torch.fft.fft(x, dim=1)
        return (spectrum.real - spectrum.imag) + self.ffn(self.norm(x))


class PhaseStream(nn.Module):
    """Pairs of channels as complex numbers, turned by a fixed phase per block."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angle", torch.arange(1.0, D // 2 + 1) / 7)
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        angle = self.angle.to(x.dtype)
        z = z * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(z).flatten(-2) + self.ffn(self.norm(x))


class SpiralStream(nn.Module):
    """As above, but cos + i with an unequal pair of factors: the modulus is not one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angle", torch.full((D // 2,), 0.5))
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        re, im = x.unflatten(-1, (-1, 2)).unbind(-1)
        a = self.angle.to(x.dtype)
        turned = torch.stack((re - im * torch.tan(a), re * torch.tan(a) + im), dim=-1)
        return turned.flatten(-2) + self.ffn(self.norm(x))


class SmoothedStream(nn.Module):
    """A binomial filter over the tokens, on a ring."""

    taps = (0.25, 0.5, 0.25)

    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.tensor(self.taps).repeat(D, 1, 1))
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        ring = F.pad(x.transpose(1, 2), (1, 1), mode="circular")
        skip = F.conv1d(ring, self.kernel.to(x.dtype), groups=D).transpose(1, 2)
        return skip + self.ffn(self.norm(x))


class SharpenedStream(SmoothedStream):
    """The same code; the taps still sum to one."""

    taps = (-0.25, 1.5, -0.25)


class PoolFormerRaw(nn.Module):
    """PoolFormer's x + (pool(x) - x), with the norm of the pooling forgotten."""

    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool1d(3, stride=1, padding=1)
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        pooled = self.pool(x.mT).mT - x
        x = x + pooled
        return x + self.ffn(self.norm(x))


# ---------------------------------------------------------------- halves, slices, tokens


class SwapCoupling(nn.Module):
    """Additive coupling with a swap (RevNet, RealNVP without scales)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D // 2)
        self.ffn = feed_forward(D // 2, D)

    def forward(self, x):
        left, right = torch.tensor_split(x, 2, dim=-1)
        return torch.cat([right, left + self.ffn(self.norm(right))], dim=-1)


class FibonacciCoupling(nn.Module):
    """A swap where the new half keeps both old ones."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D // 2)
        self.ffn = feed_forward(D // 2, D)

    def forward(self, x):
        left, right = torch.tensor_split(x, 2, dim=-1)
        new = right + self.ffn(self.norm(right))
        return torch.cat([right, left + new], dim=-1)


class CentredStream(nn.Module):
    """Pre-CRMSNorm: the mean over the channels is taken off the stream, the norm is an RMSNorm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x + self.ffn(self.norm(x))


class OvershootMean(nn.Module):
    """Against token similarity: the mean over the tokens is taken off, with an over-relaxation of 2.5."""

    relax = 2.5

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        x = torch.sub(x, x.mean(dim=1, keepdim=True), alpha=self.relax)
        return x + self.ffn(self.norm(x))


class BroadcastCls(nn.Module):
    """The first token is added to all the others, once per block."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        cls, rest = x[:, :1], x[:, 1:]
        x = torch.cat((cls, rest + cls), dim=1)
        return x + self.ffn(self.norm(x))


class CyclingSlices(nn.Module):
    """Block i writes into quarter i mod 4 of the channels."""

    def __init__(self, depth=24):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.ffns = nn.ModuleList(nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D // 4)) for _ in range(depth))
        for ffn in self.ffns:
            nn.init.xavier_normal_(ffn[0].weight, gain=1.6)
            nn.init.xavier_normal_(ffn[2].weight, gain=1.6)

    def forward(self, x):
        for i, (norm, ffn) in enumerate(zip(self.norms, self.ffns)):
            lo = D // 4 * (i % 4)
            part = x[..., lo:lo + D // 4] + ffn(norm(x))
            x = torch.slice_scatter(x, part, dim=-1, start=lo, end=lo + D // 4)
        return x


class Conveyor(nn.Module):
    """Tokens run on a belt; the four in front are worked on and put to the back."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward(gain=2.2)

    def forward(self, x):
        head, tail = x.split([4, T - 4], dim=1)
        return torch.cat((tail, head + self.ffn(self.norm(head))), dim=1)



class InPlaceQuarters(nn.Module):
    """Index writes into a copy of the stream, by parts and in turn."""

    def __init__(self):
        super().__init__()
        self.norm_a, self.norm_b = nn.LayerNorm(D), nn.LayerNorm(D)
        self.a = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D // 2))
        self.b = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D // 2))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight, gain=1.6)

    def forward(self, x):
        y = x.clone()
        y[..., ::2] += self.a(self.norm_a(x))
        y[..., 1::2] += self.b(self.norm_b(y.clone()))
        return y


# ---------------------------------------------------------------- aliases, repeated operands, signs


class HalvedAlias(nn.Module):
    """`skip` and `x` are one memory: halving one halves the other."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        h = self.ffn(self.norm(x))
        x = x.clone()
        skip = x.view(x.shape)
        x.mul_(0.5)
        return skip + x + h


class StaleAlias(nn.Module):
    """`before` was meant to keep the old state, but it is a view of what is scaled next."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        state = x.clone()
        before = state[:, :, :]
        state *= 1.2
        return before + self.ffn(self.norm(state))


class BothSums(nn.Module):
    """A parallel block, written as the sum of two residual halves."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn, self.ffn = Heads(), feed_forward()

    def forward(self, x):
        after_attn = x + self.attn(self.n1(x))
        after_ffn = x + self.ffn(self.n2(x))
        return after_attn + after_ffn


class BothSumsMinusOne(BothSums):
    """The same with the second copy of the stream taken off again."""

    def forward(self, x):
        after_attn = x + self.attn(self.n1(x))
        after_ffn = x + self.ffn(self.n2(x))
        return after_attn + (after_ffn - x)



class NegatedSkip(nn.Module):
    """The error is the new state: prediction minus stream."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        return self.ffn(self.norm(x)) - x


class ExtrapolatingLerp(nn.Module):
    """lerp with a small negative weight."""

    def __init__(self):
        super().__init__()
        self.norm, self.out_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        return torch.lerp(x, self.out_norm(self.ffn(self.norm(x))), 1 - 1.1)


class ChannelDecay(nn.Module):
    """Every channel has its own decay, from 0.8 to 1."""

    def __init__(self):
        super().__init__()
        self.register_buffer("decay", torch.tensor([0.8 + 0.2 * c / (D - 1) for c in range(D)]))
        self.norm, self.out_norm = nn.LayerNorm(D), nn.RMSNorm(D)
        self.ffn = feed_forward()

    def forward(self, x):
        return torch.addcmul(self.out_norm(self.ffn(self.norm(x))), x, self.decay.to(x.dtype))


# ---------------------------------------------------------------- several states


class RunningMean(nn.Module):
    """x_l is the plain mean of the input and of all l branches so far."""

    def __init__(self, depth=24):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.ffns = nn.ModuleList(nn.Sequential(feed_forward(), nn.LayerNorm(D)) for _ in range(depth))

    def forward(self, x):
        for seen, (norm, ffn) in enumerate(zip(self.norms, self.ffns), start=1):
            x = torch.lerp(x, ffn(norm(x)), 1 / (seen + 1))
        return x


class TurningStreams(nn.Module):
    """Two streams that exchange by a rotation."""

    angle = math.pi / 10

    def __init__(self, depth=24):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D // 2) for _ in range(depth))
        self.ffns = nn.ModuleList(feed_forward(D // 2, D) for _ in range(depth))

    def weights(self):
        return math.cos(self.angle), -math.sin(self.angle), math.sin(self.angle), math.cos(self.angle)

    def forward(self, x):
        p, q = x.chunk(2, -1)
        aa, ab, ba, bb = self.weights()
        for norm, ffn in zip(self.norms, self.ffns):
            p, q = aa * p + ab * q, ba * p + bb * q
            p = p + ffn(norm(q))
        return torch.cat((p, q), -1)


class BoostedStreams(TurningStreams):
    """The same with a Lorentz boost: its determinant is one as well."""

    def weights(self):
        return math.cosh(self.angle), math.sinh(self.angle), math.sinh(self.angle), math.cosh(self.angle)


class MomentumNet(nn.Module):
    """Momentum residual network: v <- 0.9 v + 0.1 f(x), x <- x + v."""

    mu, step = 0.9, 0.1

    def __init__(self, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    def forward(self, x):
        v = torch.zeros_like(x)
        for layer in self.layers:
            v = self.mu * v + self.step * layer(x)
            x = x + v
        return x


class UndampedMomentum(MomentumNet):
    """The same without friction."""

    mu, step = 1.0, 1.0


class AdamsBashforth(nn.Module):
    """x + 3/2 f_l - 1/2 f_{l-1}: a two-step integrator that keeps the last branch."""

    def __init__(self, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    def forward(self, x):
        last = None
        for layer in self.layers:
            now = layer(x)
            x = x + now if last is None else x + 1.5 * now - 0.5 * last
            last = now
        return x


class HeavyBall(nn.Module):
    """x_{l+1} = x_l + 0.5 (x_l - x_{l-1}) + f."""

    def __init__(self, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    def forward(self, x):
        states = [x, x]
        for layer in self.layers:
            states.append(1.5 * states[-1] - 0.5 * states[-2] + layer(states[-1]))
        return states[-1]



class MeanOfStates(nn.Module):
    """Each block adds to the mean of all states so far."""

    def __init__(self, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    def forward(self, x):
        history = [x]
        for layer in self.layers:
            history.append(torch.stack(history).mean(0) + layer(history[-1]))
        return history[-1]


class SumOfStates(MeanOfStates):
    """The same with the sum, as DenseNet adds."""

    def forward(self, x):
        history = [x]
        for layer in self.layers:
            history.append(sum(history) + layer(history[-1]))
        return history[-1]


State = namedtuple("State", "lanes count")


class SinkhornLanes(nn.Module):
    """Four lanes, mixed by a doubly stochastic matrix (Sinkhorn of a parameter), as manifold hyper-connections."""

    def __init__(self, depth=24):
        super().__init__()
        self.mix = nn.ParameterList(nn.Parameter(3 * torch.eye(4) + 0.5 * torch.randn(4, 4)) for _ in range(depth))
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    @staticmethod
    def doubly_stochastic(logits):
        m = logits.exp()
        for _ in range(40):
            m = m / m.sum(0, keepdim=True)
            m = m / m.sum(1, keepdim=True)
        return m

    def forward(self, x):
        state = State(x.unsqueeze(0).repeat(4, 1, 1, 1), 0)
        for mix, layer in zip(self.mix, self.layers):
            lanes = torch.einsum("ij,jbtd->ibtd", self.doubly_stochastic(mix), state.lanes)
            update = layer(lanes.mean(0))
            state = State(lanes + update, state.count + 1)
        return state.lanes.mean(0)


class LeakyLanes(nn.Module):
    """Four lanes that keep themselves and leak a tenth of every lane into each."""

    def __init__(self, depth=24):
        super().__init__()
        self.register_buffer("mix", torch.eye(4) + torch.ones(4, 4) / 10)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    def forward(self, x):
        lanes = x.unsqueeze(0).repeat(4, 1, 1, 1)
        for i, layer in enumerate(self.layers):
            lanes = torch.tensordot(self.mix.to(x.dtype), lanes, dims=1)
            lanes = lanes.index_add(0, torch.tensor([i % 4], device=x.device), layer(lanes[i % 4]).unsqueeze(0))
        return lanes.mean(0)


class RootTwoUNet(nn.Module):
    """Skips from the first half to the second, (x + skip) / sqrt 2 as in score networks."""

    def __init__(self, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), feed_forward()) for _ in range(depth))

    def forward(self, x):
        stack, half = [], len(self.layers) // 2
        for i, layer in enumerate(self.layers):
            if i < half:
                stack.append(x)
            else:
                x = (x + stack.pop()) / math.sqrt(2)
            x = x + layer(x)
        return x


class InitialBlend(nn.Module):
    """GCNII's initial residual: 0.9 of the state and 0.1 of the input, then an output-normed branch."""

    def __init__(self, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"body": feed_forward(), "post": nn.RMSNorm(D), "pre": nn.RMSNorm(D)}) for _ in range(depth))

    def forward(self, x):
        first = x
        for layer in self.layers:
            blended = torch.lerp(x, first, 0.1)
            x = blended + layer["post"](layer["body"](layer["pre"](blended)))
        return x



PRE = dict(growth_fixed="linear", growth_all=None, output_bounded={"0": False}, softmax=False)
GOLDEN = (1 + 5 ** 0.5) / 2
_lag = 24 * 15 ** 0.5


def _unet(depth):
    gain = 1.0
    for _ in range(depth // 2):
        gain = (gain + 1) / 2 ** 0.5
    return gain


TRUTH = {
    "BackAndForth": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power",
        output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="A flip of the tokens is an isometry; else it is a pre-norm block.", tempts="no identity path, as the skip is not the input"),
    "HadamardStream": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="H/sqrt(D) is orthogonal.", tempts="an unknown matrix on the stream: exponential or unknown; or a branch"),
    "HartleyStream": dict(kind="block", identity_gain=4.0 ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential",
        output_bounded={"0": False}, softmax=False,
        why="The unscaled Hartley matrix H is symmetric with H^2 = T I, so that every singular value is sqrt(16) = 4.",
        tempts="an isometry (FNet's transform), gain 1"),
    "PhaseStream": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="A product with e^{ia} turns each pair of channels: an isometry.", tempts="unknown op on the stream"),
    "SpiralStream": dict(kind="block", identity_gain=math.cos(0.5) ** -24.0, growth_fixed="exponential", growth_all=None,
        gradient_law="exponential", output_bounded={"0": False}, softmax=False,
        why="[[1,-t],[t,1]] with t = tan a is a rotation times 1/cos a = 1.1395.", tempts="a rotary turn, an isometry"),
    "SmoothedStream": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="The circulant filter has the symbol 0.5 + 0.5 cos w, between 0 and 1.", tempts="a convolution is a branch, so no identity"),
    "SharpenedStream": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential",
        output_bounded={"0": False}, softmax=False,
        why="The symbol 1.5 - 0.5 cos w is 2 at w = pi although the taps sum to 1.", tempts="gain 1 as the coefficients sum to 1"),
    "PoolFormerRaw": dict(kind="block", identity_gain=((1 + 2 * math.cos(math.pi / 17)) / 3) ** 24, growth_fixed=None, growth_all=None,
        softmax=False,
        why="x + pool(x) - x = pool(x), the tridiagonal matrix of thirds on 16 tokens with the largest eigenvalue (1 + 2 cos(pi/17))/3 = 0.989.",
        tempts="gain 1 and a weightless branch of its own"),
    "SwapCoupling": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="Identity part: a swap of the halves.", tempts="half of the stream has no residual add: unknown, or gain 1 on one half only"),
    "FibonacciCoupling": dict(kind="block", identity_gain=GOLDEN ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential",
        output_bounded={"0": False}, softmax=False,
        why="(l, r) -> (r, l + r) is the Fibonacci matrix, symmetric, with norm 1.618.", tempts="a reversible coupling of gain 1"),
    "CentredStream": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="I - 11^T/D is an orthogonal projection (norm 1).", tempts="gain 2 (1 + 1), or the centring taken for a norm on the stream"),
    "OvershootMean": dict(kind="block", identity_gain=1.5 ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential",
        output_bounded={"0": False}, softmax=False,
        why="I - 2.5 M with M the projection on equal tokens: eigenvalues 1 and -1.5.", tempts="taking a mean off contracts: gain 1"),
    "BroadcastCls": dict(PRE, kind="block", identity_gain=(_lag + (_lag ** 2 + 4) ** 0.5) / 2, growth_fixed="polynomial", gradient_law="power",
        why="I + N with N^2 = 0 (the first token does not read): the power is I + 24 N, |N| = sqrt 15. The first token sums its branches and the others sum the first token: a double sum, never exponential.",
        tempts="each block doubles the tokens: 2^24; or gain 1"),
    "CyclingSlices": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all=None, softmax=False,
        why="A pre-norm branch is written into a quarter of the channels; the rest is carried.", tempts="slice_scatter overwrites: no identity"),
    "Conveyor": dict(PRE, kind="block", identity_gain=1.0,
        why="Identity part: a cyclic permutation of the tokens.", tempts="tokens are cut off and others appended: no identity path"),
    "InPlaceQuarters": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False, "1": False},
        why="Both in-place adds write pre-normed branches onto a copy of x.", tempts="copy_ / setitem overwrites the stream: gain 0 or unknown"),
    "HalvedAlias": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="`skip` is a view of `x`, so that mul_ halves both: 0.5 x + 0.5 x.", tempts="x + 0.5 x: 1.5^24"),
    "StaleAlias": dict(kind="block", identity_gain=1.2 ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential",
        output_bounded={"0": False}, softmax=False,
        why="`before` is a view of `state`, which is multiplied by 1.2 in place.", tempts="the skip is the old state, gain 1"),
    "BothSums": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential",
        output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="(x + f) + (x + g) = 2 x + f + g.", tempts="a parallel pre-norm block of gain 1"),
    "BothSumsMinusOne": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power",
        output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="(x + f) + ((x + g) - x) = x + f + g.", tempts="gain 2 or 3, or exponential"),
    "NegatedSkip": dict(PRE, kind="block", identity_gain=1.0, gradient_law="power",
        why="The identity part is -I, an isometry.", tempts="the stream is the subtrahend, so a branch; no identity"),
    "ExtrapolatingLerp": dict(kind="block", identity_gain=1.1 ** 24, growth_fixed="exponential", growth_all="exponential",
        gradient_law="exponential", output_bounded={"0": True}, softmax=False,
        why="lerp(x, f, -0.1) = 1.1 x - 0.1 f with |f| bounded.", tempts="a lerp is convex: bounded"),
    "ChannelDecay": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        why="Factors 0.8 to 1 per channel: the largest product is 1 (the last channel), and normed branches add at most 1 per block.",
        tempts="decays, so bounded; or an unknown constant"),
    "RunningMean": dict(kind="model", identity_gain=1 / 25, gradient_law="power", growth_fixed="bounded", growth_all="bounded", output_bounded={"0": True}, softmax=False,
        why="prod (1 - 1/(l+1)) telescopes to 1/25; a convex combination of x and of normed branches.",
        tempts="the skip vanishes exponentially, or unknown weights"),
    "TurningStreams": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        why="[[c,-s],[s,c]] on the two streams is orthogonal.", tempts="c^24 = 0.3, or c + s > 1: exponential"),
    "BoostedStreams": dict(kind="model", identity_gain=math.exp(math.pi / 10) ** 24, growth_fixed="exponential", growth_all=None,
        gradient_law="exponential", softmax=False,
        why="[[cosh,sinh],[sinh,cosh]] has the eigenvalues e^{+-0.314}.", tempts="determinant 1, a rotation: gain 1"),
    "MomentumNet": dict(kind="model", gradient_law="power", identity_gain=1.0, growth_fixed="linear", growth_all=None, softmax=False,
        why="v starts at 0 and is a decaying average of branches (sum of weights at most 1), x is carried with gain 1.",
        tempts="a stream of gain 0.9, or v is a second stream that is added: exponential"),
    "UndampedMomentum": dict(kind="model", identity_gain=1.0, growth_fixed="polynomial", growth_all=None, gradient_law="power", softmax=False,
        why="x is a double sum of bounded branches: at most N^2, N^1.5 for independent ones, never exponential.",
        tempts="at most linear: one pre-norm branch per block and gain 1"),
    "AdamsBashforth": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        why="The identity coefficient is 1; each branch enters with 1.5 - 0.5.", tempts="a long skip of -0.5 on the stream"),
    "HeavyBall": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        why="Roots 1 and 0.5 of z^2 - 1.5 z + 0.5; from equal starts the identity part stays 1.", tempts="1.5^24 or 2^24: exponential"),
    "MeanOfStates": dict(kind="model", gradient_law="flat", identity_gain=1.0, growth_fixed=None, growth_all=None, softmax=False,
        why="A mean of states whose identity part is 1 has the identity part 1.", tempts="1/l per state: the skip vanishes as 1/24!"),
    "SumOfStates": dict(kind="model", identity_gain=2.0 ** 23, growth_fixed="exponential", growth_all=None, gradient_law="exponential", softmax=False,
        why="s_{l+1} = s_0 + ... + s_l doubles from the second block on.", tempts="dense skips of gain 1: linear, or 24"),
    "SinkhornLanes": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power",
        why="Learned, but doubly stochastic whatever the parameter: such a matrix has norm 1 and keeps equal lanes equal; each lane gets the same bounded branch.",
        tempts="exp of a parameter on the stream: exponential or unknown"),
    "LeakyLanes": dict(kind="model", identity_gain=1.4 ** 24, growth_fixed="exponential", growth_all=None, gradient_law="exponential", softmax=False,
        why="I + 11^T/10 on four lanes has the eigenvalue 1.4 at equal lanes.", tempts="gain 1 on the diagonal, or 1.1^24"),
    "RootTwoUNet": dict(kind="model", identity_gain=_unet(24), growth_fixed=None, growth_all=None, softmax=False,
        why="The identity part goes 1 in the first half and g -> (g+1)/sqrt 2 in the second: towards 2.414.",
        tempts="2^(-12/2), or 2^(12/2)"),
    "InitialBlend": dict(kind="model", gradient_law="flat", identity_gain=1.0, growth_fixed="bounded", growth_all="bounded", output_bounded={"0": True}, softmax=False,
        why="0.9 x + 0.1 x0 has the identity part 1 from x0; |x| <= |x0| + 1/0.1 by the normed branch.",
        tempts="0.9^24 = 0.08, or linear growth"),
}
