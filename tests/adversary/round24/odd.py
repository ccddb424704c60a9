"""Odd and legal: springs, integrators of integrators, means of states, Chebyshev steps, descents in other geometries, splittings, mirrors and turns by data, changes of basis, sweeps over tokens, maxima and sorted pairs."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(24)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _P, _Q = _draw(2, T, D), _draw(2, T, D), _draw(2, T, D)
example_inputs = {
    **{k: (_X, _P) for k in ("SpringEuler", "SpringExplicit", "AveragedReader", "ChebyshevGraph", "ChebyshevGraphTooLong", "LionOverDepth", "ComplementaryFilter", "ComplementaryNoLeak")},
    **{k: (_X, _P, _Q) for k in ("JerkStream", "AdmmSplit", "ThreeLanes", "ThreeLanesOneRaw")},
    "DepthMeanState": (_X, _P, torch.tensor(1)),
    **{k: (_X,) for k in ("DualAveraging", "FrankWolfe", "FrankWolfeKeepsAll", "ProximalLasso", "WeightDecayOverDepth", "WeightDecaySign", "MirrorByData", "MirrorByDataThrice", "TurnsByAngles", "DctStream",
                          "DctStreamUnscaled", "ImplicitMidpoint", "ImplicitMidpointNested", "TokenSweep", "DeltasOfTokens", "DeltasSummedTwice", "SpanOfMemories", "MaximumStream", "SortedPairs")},
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def mlp(i=D, hidden=64, o=None, act=nn.GELU):
    return nn.Sequential(lin(i, hidden), act(), lin(hidden, o or i))


class Normed(nn.Module):
    """A norm and a net."""

    def __init__(self, o=D):
        super().__init__()
        self.norm, self.net = nn.RMSNorm(D), mlp(o=o)

    def forward(self, x):
        return self.net(self.norm(x))


class One(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = Normed()


class SpringEuler(One):
    """A place and a momentum; a spring of strength one, and the new momentum moves the place."""

    def forward(self, q, p):
        p = p - q + self.f(q)
        q = q + p
        return q, p


class SpringExplicit(One):
    """The old momentum moves the place: both read old values."""

    def forward(self, q, p):
        return q + p, p - q + self.f(q)


class JerkStream(One):
    """A net of the norm changes an acceleration, which changes a velocity, which changes the place."""

    def forward(self, x, v, a):
        a = a + self.f(x)
        v = v + a
        return x + v, v, a


class AveragedReader(One):
    """The net reads a moving average of states and writes to the stream."""

    def forward(self, x, mean):
        x = x + self.f(mean)
        mean = torch.lerp(mean, x, 0.1)
        return x, mean


class DepthMeanState(One):
    """The mean of all states so far is carried, and read."""

    def forward(self, x, mean, n):
        x = x + self.f(mean)
        mean = mean + (x - mean) / (n + 1)
        return x, mean, n + 1


class ChebyshevGraph(One):
    """Twice a walk on a ring of the last state, less the one before, plus a net: the walk is shortened a little."""

    rho = 0.9

    def walk(self, x):
        return 0.5 * self.rho * (x.roll(1, 1) + x.roll(-1, 1))

    def forward(self, before, x):
        return x, 2 * self.walk(x) - before + self.f(x)


class ChebyshevGraphTooLong(ChebyshevGraph):
    """Outside of where the polynomials are small."""

    rho = 1.1


class DualAveraging(nn.Module):
    """The stream is what a softmax takes to shares; a net reads shares."""

    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, y):
        return y + self.net(D ** 0.5 * torch.softmax(y, dim=-1))


class FrankWolfe(nn.Module):
    """A tenth of the way to a mixture of learned corners."""

    keep = 0.9

    def __init__(self):
        super().__init__()
        self.norm, self.score, self.corners = nn.LayerNorm(D), lin(D, 24), nn.Parameter(torch.randn(24, D))

    def forward(self, x):
        return self.keep * x + 0.1 * (self.score(self.norm(x)).softmax(-1) @ self.corners)


class FrankWolfeKeepsAll(FrankWolfe):
    """All of the stream is kept: steps are added, of corners."""

    keep = 1.0


class ProximalLasso(One):
    """The sum is shrunk by a tenth towards zero in each entry."""

    def forward(self, x):
        return F.softshrink(x + self.f(x), 0.1)


class AdmmSplit(One):
    """A net of a norm, a shrinkage, and a price of their difference."""

    def forward(self, x, z, u):
        x = self.f(z - u)
        z = F.softshrink(x + u, 0.5)
        u = u + x - z
        return x, z, u


class LionOverDepth(One):
    """The sign of two averages is the step, a tenth long."""

    def forward(self, x, m):
        g = self.f(x)
        x = x - 0.1 * torch.sign(0.9 * m + 0.1 * g)
        return x, 0.99 * m + 0.01 * g


class WeightDecayOverDepth(One):
    """A step of a net, and a twentieth of the stream is taken away."""

    def forward(self, x):
        return x.sub(self.f(x) + 0.5 * x, alpha=0.1)


class WeightDecaySign(One):
    """A minus in front of the bracket's second term."""

    def forward(self, x):
        return x.sub(self.f(x) - 0.5 * x, alpha=0.1)


class MirrorByData(One):
    """Each token is mirrored at a plane that a net of its norm gives."""

    times = 2.0

    def forward(self, x):
        v = F.normalize(self.f(x), dim=-1)
        return x - self.times * (x * v).sum(-1, keepdim=True) * v


class MirrorByDataThrice(MirrorByData):
    """Past the mirror."""

    times = 3.0


class TurnsByAngles(nn.Module):
    """Pairs of channels are turned by angles that a net of the norm gives, and nothing is added."""

    def __init__(self):
        super().__init__()
        self.f = Normed(D // 2)

    def forward(self, x):
        theta = self.f(x)
        c, s = theta.cos(), theta.sin()
        a, b = x.unflatten(-1, (2, D // 2)).unbind(-2)
        return torch.cat((a * c - b * s, a * s + b * c), dim=-1)


def cosines(n, first):
    t = torch.linspace(0, n - 1, n)
    k = t[:, None]
    c = (2 / n) ** 0.5 * torch.cos(math.pi * k * (t + 0.5) / n)
    c[0] *= first
    return c


class DctStream(One):
    """Places are taken to cosines, a net of the norm is added there, and all is taken back."""

    first = 0.5 ** 0.5

    def __init__(self):
        super().__init__()
        self.register_buffer("basis", cosines(T, self.first))

    def forward(self, x):
        z = torch.einsum("kt,btd->bkd", self.basis, x)
        z = z + self.f(z)
        return torch.einsum("kt,bkd->btd", self.basis, z)


class DctStreamUnscaled(DctStream):
    """The first cosine has the length of the root of two."""

    first = 1.0


class ImplicitMidpoint(One):
    """A net at the middle of this state and the next, found by three rounds."""

    def forward(self, x):
        y = x
        for _ in range(3):
            y = x + self.f((x + y) / 2)
        return y


class ImplicitMidpointNested(One):
    """The state's name is in the loop: three steps, each from a state and a half of it."""

    def forward(self, x):
        y = x
        for _ in range(3):
            y = y + (x + self.f((x + y) / 2)) / 2
        return y


class TokenSweep(One):
    """From left to right: each token reads itself and the one before, which was changed already."""

    def forward(self, x):
        done = []
        for t in range(x.shape[1]):
            here = x[:, t]
            near = here if not done else here + done[-1]
            done.append(here + self.f(near))
        return torch.stack(done, 1)


class DeltasOfTokens(One):
    """The stream is taken to differences along tokens, changed there, and summed up."""

    def forward(self, x):
        d = torch.cat((x[:, :1], x[:, 1:] - x[:, :-1]), dim=1)
        d = d + self.f(d)
        return d.cumsum(1)


class DeltasSummedTwice(One):
    """The differences are of a name that is not used: sums of the stream, in each block."""

    def forward(self, x):
        d = x - x.roll(1, 1)
        return (x + self.f(d)).cumsum(1)


class SpanOfMemories(One):
    """Each channel keeps its own share of the stream, from a half to nearly all."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.linspace(0.5, 0.98, D))

    def forward(self, x):
        return self.keep * x + self.f(x)


class ComplementaryFilter(One):
    """A slow state follows a fast one, which forgets half in each block; a net reads both."""

    keep = 0.5

    def forward(self, slow, fast):
        slow = 0.9 * slow + 0.1 * fast
        return slow, self.keep * fast + self.f(slow + fast)


class ComplementaryNoLeak(ComplementaryFilter):
    """The fast state forgets nothing."""

    keep = 1.0


class ThreeLanes(nn.Module):
    """Three lanes in a ring, each changed by the next one's norm."""

    def __init__(self):
        super().__init__()
        self.f, self.g, self.h = Normed(), Normed(), Normed()

    def forward(self, a, b, c):
        a = a + self.f(b)
        b = b + self.g(c)
        return a, b, c + self.h(a)


class ThreeLanesOneRaw(ThreeLanes):
    """One of three reads the lane itself: a sum of sums."""

    def forward(self, a, b, c):
        a = a + self.f(b)
        b = b + self.g(c)
        return a, b, c + self.h.net(a)


class MaximumStream(One):
    """The larger of the stream and a net of its norm."""

    def forward(self, x):
        return torch.maximum(x, self.f(x))


class SortedPairs(One):
    """Pairs of channels are put in order, and a net of the norm is added."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        y = torch.cat((torch.maximum(a, b), torch.minimum(a, b)), -1)
        return y + self.f(y)


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_LIN = dict(kind="block", growth_fixed="linear", softmax=False, sound=True)
_EXP = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_POLY = dict(kind="block", growth_fixed="polynomial", softmax=False, sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=False)
_ONE = dict(output_bounded={0: False})
TRUTH = {
    "SpringEuler": dict(_NET, sound=True, why="[[0, 1], [-1, 1]] has sixth roots of one as eigenvalues, and its sixth power is the identity: steps add up at most."),
    "SpringExplicit": dict(_EXP, identity_gain=2.0 ** 12, why="[[1, 1], [-1, 1]] is a turn times the root of two."),
    "JerkStream": dict(_POLY, why="a sum of sums of a sum: cubic at most."),
    "AveragedReader": dict(_LIN, why="what is added is a function of a norm; an average of states is no larger than them."),
    "DepthMeanState": dict(_LIN, why="what is added is a function of a norm; a mean of states is no larger than them."),
    "ChebyshevGraph": dict(_LIN, why="eigenvalues of the walk are cosines times 0.9: U_n(c) is at most 1/sin, steps add up."),
    "ChebyshevGraphTooLong": dict(_EXP, why="at constants l^2 = 2.2 l - 1: 1.56 a block."),
    "DualAveraging": dict(_NET | dict(softmax=True), output_bounded={0: False}, sound=True, why="what is added is a function of shares."),
    "FrankWolfe": dict(_LEVEL | dict(softmax=True), identity_gain=0.9 ** 24, **_ONE, logits_bounded={0: False}, sound=False, why="0.9 a block; a convex mix of the stream and of corners."),
    "FrankWolfeKeepsAll": dict(_NET | dict(softmax=True), **_ONE, logits_bounded={0: False}, sound=True, why="steps of a tenth of a mix of corners."),
    "ProximalLasso": dict(_NET, **_ONE, sound=True, why="shrinkage is the identity less a tenth at large values, and never longer."),
    "AdmmSplit": dict(_LEVEL, sound=False, why="|u| is at most a half, x a function of a norm, z at most x plus u: nothing is carried."),
    "LionOverDepth": dict(kind="block", growth_fixed="linear", softmax=False, sound=False, why="a step is at most a tenth an entry, the average of a function of a norm; a sign gives no gradient to weights."),
    "WeightDecayOverDepth": dict(_LEVEL, identity_gain=0.95 ** 24, **_ONE, sound=True, why="0.95 a block: a geometric sum."),
    "WeightDecaySign": dict(_EXP, identity_gain=1.05 ** 24, **_ONE, why="1.05 a block."),
    "MirrorByData": dict(_LEVEL, growth_all="bounded", sound=True, why="a reflection: of the same length for all weights."),
    "MirrorByDataThrice": dict(_EXP, why="|x|^2 gains 3 (x v)^2, for v of length one: never shorter, and longer where x has a part on v."),
    "TurnsByAngles": dict(_LEVEL, growth_all="bounded", sound=True, why="turns: of the same length for all weights."),
    "DctStream": dict(_NET, **_ONE, sound=True, why="an orthonormal change, and back."),
    "DctStreamUnscaled": dict(_EXP, identity_gain=2.0 ** 24, **_ONE, why="the constant is doubled in each block."),
    "ImplicitMidpoint": dict(_NET, sound=True, why="the state plus a function of a norm."),
    "ImplicitMidpointNested": dict(_EXP, identity_gain=2.5 ** 24, why="y plus three halves of x: 2.5 a block."),
    "TokenSweep": dict(_NET, sound=True, why="each token is itself plus a function of a norm."),
    "DeltasOfTokens": dict(_NET, sound=True, why="differences and sums are inverses; sixteen functions of norms are added at most."),
    "DeltasSummedTwice": dict(_POLY, why="powers of a sum along sixteen places: a polynomial of degree fifteen of depth, and its forced response."),
    "SpanOfMemories": dict(_LEVEL, identity_gain=0.98 ** 24, **_ONE, sound=True, why="at most 0.98 a block: geometric sums."),
    "ComplementaryFilter": dict(_LEVEL, sound=False, why="0.9 and 0.5 a block: geometric sums of functions of norms."),
    "ComplementaryNoLeak": dict(_LIN, why="the fast state is pre-norm, the slow one an average of it."),
    "ThreeLanes": dict(_NET, sound=True, why="each lane has functions of norms added."),
    "ThreeLanesOneRaw": dict(_POLY, why="a grows by bounded steps, c by a net of a: a sum of sums."),
    "MaximumStream": dict(_LEVEL, identity_gain=1.0, sound=True, why="never below what it was, and never above the largest of it and of what functions of norms can give."),
    "SortedPairs": dict(_NET, **_ONE, sound=True, why="an order of entries keeps lengths."),
}
