"""Streams and what is carried on: fused adds, turns, split norms, pairs of tensors, scans; and small slips in them."""

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


# ---- fused adds
class AddmmInPlace(nn.Module):
    """The last map is added to the rows of the copied stream in place; the rows are a view of it."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), dense(D, 2 * D), nn.Parameter(torch.randn(2 * D, D) / (2 * D) ** 0.5)

    def hidden(self, x):
        return F.gelu(self.up(self.norm(x))).flatten(0, 1)

    def forward(self, x):
        out = x.clone()
        out.view(-1, D).addmm_(self.hidden(x), self.down)
        return out


class AddmmInPlaceTwice(AddmmInPlace):
    """The result of the in-place product is added to what it was written to."""

    def forward(self, x):
        out = x.clone()
        y = out.view(-1, D).addmm_(self.hidden(x), self.down)
        return out + y.view_as(x)


class RsubBranch(Block):
    """torch.rsub(a, b) is b - a."""

    def forward(self, x):
        return torch.rsub(self.f(x), x, alpha=0.5)


class RsubStream(Block):
    """The operands in the other order: alpha is on the stream, and a sign."""

    def forward(self, x):
        return torch.rsub(x, self.f(x), alpha=1.03)


class AddcmulKeep(Block):
    """y + x * keep by addcmul; one channel of `keep` is 1.02."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.ones(D))
        self.keep[-1] = 1.02

    def forward(self, x):
        return torch.addcmul(self.f(x), x, self.keep)


class UpAndDown(nn.Module):
    """Layers multiply by 1.25 and by 0.8 in turn."""

    factors = (1.25, 0.8)

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(pre() for _ in range(n))

    def forward(self, x):
        for i, f in enumerate(self.blocks):
            x = x.mul(self.factors[i % 2]).add_(f(x))
        return x


class OneMoreOneLess(Block):
    """A fifth more in front of the add, a fifth less behind it."""

    def forward(self, x):
        return x.mul(1 + 0.2).add_(self.f(x)).mul_(1 - 0.2)


# ---- complex numbers, quaternions
class ComplexDecay(nn.Module):
    """Pairs of channels turn by fixed angles and fade by exp(-softplus(a)), a read from the normed stream."""

    sign = -1.0

    def __init__(self):
        super().__init__()
        self.f, self.rate = pre(), nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D // 2))
        self.register_buffer("angle", torch.linspace(0.1, 3.0, D // 2))

    def forward(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)).contiguous())
        size = (self.sign * F.softplus(self.rate(x))).exp()
        z = z * torch.polar(size, self.angle.expand_as(size))
        return torch.view_as_real(z).flatten(-2) + self.f(x)


class ComplexDecaySlip(ComplexDecay):
    """The minus was lost."""

    sign = 1.0


class QuaternionTurn(Block):
    """Groups of four channels are quaternions, multiplied by a fixed one from the left."""

    q = (0.5, -0.5, 0.5, 0.5)

    def turn(self, x):
        a, b, c, d = self.q
        w, i, j, k = x.unflatten(-1, (D // 4, 4)).unbind(-1)
        return torch.stack((a * w - b * i - c * j - d * k, a * i + b * w + c * k - d * j, a * j - b * k + c * w + d * i, a * k + b * j - c * i + d * w), -1).flatten(-2)

    def forward(self, x):
        return self.turn(x) + self.f(x)


class QuaternionLong(QuaternionTurn):
    """One of the four numbers is 0.6."""

    q = (0.5, -0.5, 0.5, 0.6)


class ConjugateSkip(Block):
    """The stream as complex numbers, conjugated by each block."""

    def skip(self, z):
        return z.conj()

    def forward(self, x):
        z = self.skip(torch.complex(x[..., : D // 2], x[..., D // 2:]))
        return torch.cat((z.real, z.imag), dim=-1) + self.f(x)


class ConjugateSum(ConjugateSkip):
    """Number plus conjugate; the half is missing."""

    def skip(self, z):
        return z + z.conj()


# ---- norms in two halves
class SplitNorm(nn.Module):
    """The block begins by dividing what it is given by its rms and ends by taking the mean off."""

    def __init__(self):
        super().__init__()
        self.body = body()

    def begin(self, x):
        return x / x.square().mean(-1, keepdim=True).add(1e-6).sqrt()

    def forward(self, x):
        x = self.begin(x)
        y = x + self.body(x)
        return y - y.mean(-1, keepdim=True)


class SplitNormBranch(SplitNorm):
    """Only the branch's copy is divided."""

    def forward(self, x):
        y = x + self.body(self.begin(x))
        return y - y.mean(-1, keepdim=True)


class RescaledBack(SplitNorm):
    """What was divided by is multiplied on again at the end."""

    def forward(self, x):
        size = x.square().mean(-1, keepdim=True).add(1e-6).sqrt()
        x = x / size
        y = x + self.body(x)
        return (y - y.mean(-1, keepdim=True)) * size


# ---- pairs
class Pairs(nn.Module):
    """Blocks take and return two tensors. A subclass says which."""

    class Step(Block):
        def forward(self, x, m):
            m = m.lerp(x, 0.1)
            return m + self.f(x), m

    def start(self, x):
        return x, x

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Step() for _ in range(n))

    def forward(self, x):
        state = self.start(x)
        for block in self.blocks:
            state = block(*state)
        return state[0]


class EmaReturned(Pairs):
    """A moving average is carried along; the new state is the average plus a branch."""


class EmaSwapped(Pairs):
    """State and average change places from block to block."""

    class Step(Block):
        def forward(self, x, m):
            m = m.lerp(x, 0.1)
            return m, x + self.f(x)


class EmaHeavy(Pairs):
    """0.9 and 0.2."""

    class Step(Block):
        def forward(self, x, m):
            m = torch.add(0.9 * m, x, alpha=0.2)
            return m + self.f(x), m


class LeapfrogField(Pairs):
    """Position and velocity in a quadratic well, a branch as a force: velocity first, then the position by the new velocity."""

    class Step(Block):
        def forward(self, x, v):
            v = v - 0.5 * x + self.f(x)
            return x + 0.5 * v, v

    def start(self, x):
        return x, torch.zeros_like(x)


class EulerField(LeapfrogField):
    """Both by the old values."""

    class Step(Block):
        def forward(self, x, v):
            return x + 0.5 * v, v - 0.5 * x + self.f(x)


class NesterovPair(Pairs):
    """Momentum, the branch read ahead."""

    class Step(Block):
        def forward(self, x, v):
            v = 0.9 * v + self.f(x + 0.9 * v)
            return x + v, v

    def start(self, x):
        return x, x.new_zeros(x.shape)


class VelocityFromInput(NesterovPair):
    """The velocity is started as the input is."""

    def start(self, x):
        return x, x


# ---- scans and pixels
class CumMeanStream(Block):
    """Each token's skip is the mean of the tokens so far."""

    def forward(self, x):
        return x.cumsum(1) / torch.arange(1, T + 1, device=x.device, dtype=x.dtype).unsqueeze(-1) + self.f(x)


class CumsumStream(Block):
    """... the sum."""

    def forward(self, x):
        return torch.cumsum(x, dim=1).add(self.f(x))


class PixelShuffled(nn.Module):
    """Tokens are a picture of 4 x 4; the branch is added at twice the resolution, and back."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(D), nn.Sequential(nn.Conv2d(D // 4, D, 3, padding=1), nn.GELU(), nn.Conv2d(D, D // 4, 3, padding=1))

    def picture(self, x):
        return F.pixel_shuffle(x.mT.unflatten(-1, (4, 4)), 2)

    def forward(self, x):
        h = self.picture(x) + self.conv(self.picture(self.norm(x)))
        return F.pixel_unshuffle(h, 2).flatten(2).mT


class NearestThenSum(nn.Module):
    """Twice the resolution by interpolation; back by the sum over each four."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(D), nn.Sequential(nn.Conv2d(D, D, 3, padding=1), nn.GELU(), nn.Conv2d(D, D, 1))

    def picture(self, x):
        return F.interpolate(x.mT.unflatten(-1, (4, 4)), scale_factor=2)

    def forward(self, x):
        h = self.picture(x) + self.conv(self.picture(self.norm(x)))
        return F.pixel_unshuffle(h, 2).unflatten(1, (D, 4)).sum(2).flatten(2).mT


def _norm(m, n=24):
    return torch.linalg.matrix_norm(torch.linalg.matrix_power(m.double(), n), 2).item()


def _entry(m, n=24):
    return torch.linalg.matrix_power(torch.tensor(m).double(), n)[0, 0].abs().item()


_S = torch.tril(torch.ones(T, T))
_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False)

TRUTH = {
    "AddmmInPlace": dict(_LIN, gradient_law="power", why="x + h W, written through a view.", tempts="the product is dropped"),
    "AddmmInPlaceTwice": dict(_EXP, identity_gain=2.0 ** 24, why="out holds the sum already: 2 (x + h W).", tempts="a residual add: gain 1"),
    "RsubBranch": dict(_LIN, gradient_law="power", why="x - F/2.", tempts="F - x/2"),
    "RsubStream": dict(_EXP, identity_gain=1.03 ** 24, why="F - 1.03 x.", tempts="gain 1; the alpha is on the branch"),
    "AddcmulKeep": dict(_EXP, gradient_law=None, identity_gain=1.02 ** 24, why="the last channel.", tempts="a product of branch and stream; gain 1"),
    "UpAndDown": dict(_LIN, kind="model", why="1.25 * 0.8 = 1 for each two layers.", tempts="1.25: exponential"),
    "OneMoreOneLess": dict(kind="block", identity_gain=0.96 ** 24, growth_fixed="bounded", softmax=False, why="1.2 * 0.8 = 0.96.", tempts="gain 1"),
    "ComplexDecay": dict(kind="block", growth_fixed="bounded", softmax=False, why="the factor is sigmoid(-a), below one by a margin at fixed weights.", tempts="a product of data and stream; a rotation"),
    "ComplexDecaySlip": dict(_EXP, gradient_law=None, why="the factor is 1 + exp(a).", tempts="a decay"),
    "QuaternionTurn": dict(_LIN, gradient_law="power", why="a unit quaternion is a rotation.", tempts="sum of four halves: two"),
    "QuaternionLong": dict(_EXP, identity_gain=1.11 ** 12, why="length sqrt(1.11).", tempts="a rotation"),
    "ConjugateSum": dict(_EXP, identity_gain=2.0 ** 24, why="twice the real part.", tempts="the imaginary part is dropped: gain 1"),
    "SplitNorm": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="x / rms(x) is on the stream.", tempts="pre-norm: gain 1, linear"),
    "SplitNormBranch": dict(_LIN, why="centring is a projection.", tempts="a norm on the stream"),
    "RescaledBack": dict(kind="block", growth_fixed="exponential", softmax=False, why="a branch of degree one.", tempts="a norm in front: linear"),
    "EmaReturned": dict(_LIN, kind="model", why="[[.1 .9] [.1 .9]] has the eigenvalue 1; a tenth of each branch stays.", tempts="0.9^24"),
    "EmaSwapped": dict(_LIN, kind="model", why="[[.1 .9] [1 0]]: eigenvalues 1 and -0.9.", tempts="a bug; 0.1^24; two streams added"),
    "EmaHeavy": dict(_EXP, kind="model", identity_gain=1.1 ** 24, why="0.9 + 0.2.", tempts="gain 1"),
    "LeapfrogField": dict(kind="model", identity_gain=_entry([[0.75, 0.5], [-0.5, 1.0]]), growth_fixed="linear", softmax=False, why="determinant 1, trace 1.75: on the unit circle, two simple roots.", tempts="gain 1; a sum of streams: exponential"),
    "EulerField": dict(_EXP, gradient_law=None, kind="model", identity_gain=_entry([[1.0, 0.5], [-0.5, 1.0]]), why="determinant 1.25.", tempts="leapfrog; gain 1"),
    "NesterovPair": dict(_LIN, kind="model", why="the velocity is bounded at fixed weights.", tempts="polynomial"),
    "VelocityFromInput": dict(_LIN, kind="model", identity_gain=1 + 9 * (1 - 0.9 ** 24), why="the input comes again with 0.9, 0.81, ...", tempts="gain 1; 1.9^24"),
    "CumMeanStream": dict(_LIN, identity_gain=_norm(_S / torch.arange(1, T + 1)[:, None]), why="a lower triangular matrix, rows of sum one; the first token is kept.", tempts="an average: bounded; gain 1"),
    "CumsumStream": dict(kind="block", identity_gain=_norm(_S), growth_fixed="polynomial", softmax=False, why="ones on the diagonal and below: unipotent.", tempts="exponential; gain 1"),
    "PixelShuffled": dict(_LIN, why="a permutation and back.", tempts="a convolution on the stream"),
    "NearestThenSum": dict(_EXP, identity_gain=4.0 ** 24, why="four copies are summed.", tempts="up and down: gain 1"),
}
