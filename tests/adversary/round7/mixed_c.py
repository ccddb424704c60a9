"""What branches add, how they start, and everyday code: fused quotients, kept weights, differences, recurrent cells; and slips in them."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(d_in, d_out, gain=1.0, bias=True):
    lin = nn.Linear(d_in, d_out, bias=bias)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


class Mlp(nn.Sequential):
    def __init__(self, d=D, out=None, gain=1.0):
        super().__init__(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


class Tail(nn.Module):
    """x + tail(mlp(norm(x)))."""

    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D), Mlp()
        self.setup()

    def setup(self):
        pass

    def tail(self, y):
        return y

    def branch(self, x):
        return self.tail(self.body(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


# ---- fused quotients
class AddcdivSoftsign(nn.Module):
    """x + 3 y / (1 + |y|) in one call."""

    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D), Mlp()

    def below(self, y):
        return y.abs().add_(1.0)

    def forward(self, x):
        y = self.body(self.norm(x))
        return torch.addcdiv(x, y, self.below(y), value=3.0)


class AddcdivMean(AddcdivSoftsign):
    """By the size of the mean."""

    def below(self, y):
        return y.mean(-1, keepdim=True).abs_()


# ---- weights that are held
class QrOut(nn.Module):
    """The last map is the orthogonal factor of a free matrix; tanh in front of it."""

    def __init__(self):
        super().__init__()
        self.inner, self.raw = dense(D, D), nn.Parameter(torch.randn(D, D) / D ** 0.5)

    def matrix(self):
        q, r = torch.linalg.qr(self.raw)
        return q

    def branch(self, x):
        return F.linear(torch.tanh(self.inner(x)), self.matrix())

    def forward(self, x):
        return x + self.branch(x)


class QrOutR(QrOut):
    """The other factor."""

    def matrix(self):
        q, r = torch.linalg.qr(self.raw)
        return r


class WeightNormTail(nn.Module):
    """torch's weight_norm on the last map; tanh in front of it."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(dense(D, 2 * D), nn.Tanh(), nn.utils.parametrizations.weight_norm(dense(2 * D, D, bias=False)))

    def branch(self, x):
        return self.net(x)

    def forward(self, x):
        return x + self.branch(x)


# ---- ends
class AbsDamped(Tail):
    """y exp(-|y|)."""

    def tail(self, y):
        return 4 * y * torch.exp(-y.abs())


class Damped(Tail):
    """y exp(-y)."""

    def tail(self, y):
        return 4 * y * torch.exp(-y)


class RootMinusAbs(Tail):
    """sqrt(1 + y^2) - |y|."""

    def tail(self, y):
        return torch.sqrt(1 + y * y) - y.abs()


class RootMinus(Tail):
    """sqrt(1 + y^2) - y."""

    def tail(self, y):
        return torch.hypot(y, torch.ones_like(y)) - y


class SignTiny(Tail):
    """Divided by its own size without a gradient, 1e-12 for safety."""

    def tail(self, y):
        return y / (y.detach().abs() + 1e-12)


class HardShrinkComplement(Tail):
    """What hardshrink takes away."""

    def tail(self, y):
        return y - F.hardshrink(y, 2.0)


class ShrinkNine(Tail):
    """What nine tenths of a softshrink leave."""

    def tail(self, y):
        return torch.sub(y, F.softshrink(y, 2.0), alpha=0.9)


# ---- products and cells
class BilinearNormed(nn.Module):
    """nn.Bilinear of two normed copies."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.mix = nn.LayerNorm(D), nn.RMSNorm(D), nn.Bilinear(D, D, D)

    def second(self, x):
        return self.norm2(x)

    def branch(self, x):
        return self.mix(self.norm1(x), self.second(x))

    def forward(self, x):
        return x + self.branch(x)


class BilinearRaw(BilinearNormed):
    """The second copy is the stream."""

    def second(self, x):
        return x


class BidirectionalGru(nn.Module):
    """Both directions of a GRU, summed; no norm."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(D, D, batch_first=True, bidirectional=True)

    def branch(self, x):
        y, _ = self.gru(x)
        return y[..., :D] + y[..., D:]

    def forward(self, x):
        return x + self.branch(x)


class GruWarmStart(nn.Module):
    """A GRU of the normed stream whose first state is the mean of the tokens."""

    def __init__(self):
        super().__init__()
        self.norm, self.gru = nn.LayerNorm(D), nn.GRU(D, D, batch_first=True)

    def forward(self, x):
        y, _ = self.gru(self.norm(x), x.mean(1).unsqueeze(0).contiguous())
        return x + y


# ---- values and gradients
class WhisperedGradient(Tail):
    """The value is the plain add; the stream gets a twentieth more of gradient."""

    def forward(self, x):
        more = 0.05 * x
        return x + self.branch(x) + (more - more.detach())


class MeanNotTrained(Tail):
    """No gradient passes along the mean over the channels."""

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        return x - mean + mean.detach() + self.branch(x)


class ClampThrough(Tail):
    """The stream is clamped to two in value, and passes its gradient as if it were not."""

    def forward(self, x):
        return x + (x.clamp(-2.0, 2.0) - x).detach() + self.branch(x)


class DetachedStatistic(nn.Module):
    """A norm by hand, of which mean and deviation get no gradient."""

    def __init__(self):
        super().__init__()
        self.body = Mlp()

    def branch(self, x):
        with torch.no_grad():
            std, mean = torch.std_mean(x, dim=-1, keepdim=True)
        return self.body((x - mean) / (std + 1e-6))

    def forward(self, x):
        return x + self.branch(x)


# ---- everyday code
class KeepProbDivided(Tail):
    """Stochastic depth: the sum is divided by the rate, as the branch is in training."""

    keep_prob = 0.9

    def forward(self, x):
        return (x + self.branch(x)).div(self.keep_prob)


class DeltaCode(Tail):
    """Differences along the tokens, a branch beside them, and their running sum."""

    def forward(self, x):
        step = torch.diff(x, dim=1, prepend=torch.zeros_like(x[:, :1]))
        return (step + self.branch(x)).cumsum(1)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_YES = dict(_PRE, growth_all="linear", output_bounded={"0": True})
_NO = dict(_PRE, output_bounded={"0": False})
_WILD = dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, softmax=False)

TRUTH = {
    "AddcdivSoftsign": dict(_YES, why="three.", tempts="-"),
    "AddcdivMean": dict(_WILD, why="the mean may be 0.", tempts="a norm by a mean"),
    "QrOut": dict(_YES, why="orthogonal.", tempts="free weights behind a tanh"),
    "QrOutR": dict(_NO, why="R is as large as the matrix.", tempts="a factor by QR"),
    "WeightNormTail": dict(_NO, why="lengths are trained.", tempts="weight norm: unit rows"),
    "AbsDamped": dict(_YES, why="4/e.", tempts="-"),
    "Damped": dict(_NO, why="negative y.", tempts="its twin"),
    "RootMinusAbs": dict(_YES, why="between 0 and 1.", tempts="a difference of unbounded things"),
    "RootMinus": dict(_NO, why="2 |y| for negative y.", tempts="its twin"),
    "SignTiny": dict(_YES, why="the sign.", tempts="a division by 1e-12"),
    "HardShrinkComplement": dict(_YES, why="y where |y| <= 2, else 0.", tempts="a difference of unbounded things"),
    "ShrinkNine": dict(_NO, why="a slope of a tenth.", tempts="a clamp"),
    "BilinearNormed": dict(_NO, why="both are normed.", tempts="a product: degree two"),
    "BilinearRaw": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, softmax=False, why="degree one.", tempts="a norm in front"),
    "BidirectionalGru": dict(_YES, why="two.", tempts="no norm: exponential"),
    "GruWarmStart": dict(kind="block", output_bounded={"0": False}, softmax=False, why="the first state is of the size of the stream and leaks out.", tempts="a GRU is below one"),
    "WhisperedGradient": dict(_PRE, gradient_law="exponential", why="1.05 per block, in the backward pass alone.", tempts="pre-norm: power"),
    "MeanNotTrained": dict(_PRE, gradient_law="power", why="the backward pass is a projection.", tempts="its twin, which has the mean twice"),
    "ClampThrough": dict(kind="block", growth_fixed="bounded", output_bounded={"0": False}, gradient_law="exponential", softmax=False, why="the value is at most 2 + |F|, the backward pass has the identity and a branch that counts the same in each block.", tempts="pre-norm: gain 1, linear, power; or bounded and a gradient that is cut"),
    "DetachedStatistic": dict(_NO, gradient_law="power", why="the branch's slope is one over the size of the stream.", tempts="no norm in the backward pass: exponential"),
    "KeepProbDivided": dict(kind="block", identity_gain=0.9 ** -24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False, why="1/0.9 on the stream.", tempts="gain 1"),
    "DeltaCode": dict(_PRE, why="differences and their sum.", tempts="a sum of sums: polynomial"),
}
