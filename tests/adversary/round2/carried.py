"""Streams that are carried and combined in unusual ways."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


def dense(d_in, d_out, gain=1.0):
    lin = nn.Linear(d_in, d_out)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


def perceptron(d=D, out=None, gain=1.0):
    return nn.Sequential(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


def normed(d=D, out=None, gain=1.0):
    return nn.Sequential(nn.LayerNorm(d), perceptron(d, out, gain))


class TwoStepBack(nn.Module):
    """A two-step scheme: 1.5 times the present less half of the past."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(normed() for _ in range(n))

    def forward(self, x):
        past = now = x
        for f in self.blocks:
            past, now = now, torch.lerp(now, past, -0.5) + f(now)
        return now


class TwoStepForward(nn.Module):
    """The same scheme with 2.5 and 1.5: consistent, but not zero-stable."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(normed() for _ in range(n))

    def forward(self, x):
        past = now = x
        for f in self.blocks:
            past, now = now, torch.lerp(now, past, -1.5) + f(now)
        return now


class GlidingMomentum(nn.Module):
    """Momentum residual net: the branch pushes a velocity that decays."""

    def __init__(self, n=24, decay=0.9):
        super().__init__()
        self.blocks = nn.ModuleList(normed() for _ in range(n))
        self.decay = decay

    def forward(self, x):
        state = {"x": x, "v": torch.zeros_like(x)}
        for f in self.blocks:
            v = torch.add(f(state["x"]), state["v"], alpha=self.decay)
            state = {"v": v, "x": state["x"] + v}
        return state["x"]


class FrictionlessMomentum(GlidingMomentum):
    """No decay: what a branch once said is added again at every later layer."""

    def __init__(self, n=24):
        super().__init__(n, 1)


class Phasor(nn.Module):
    """Pairs of channels turn by fixed angles on the stream itself."""

    def __init__(self):
        super().__init__()
        self.f = normed()
        self.register_buffer("angle", torch.linspace(0.1, 1.5, D // 2))

    def turn(self):
        return torch.polar(torch.ones_like(self.angle), self.angle)

    def forward(self, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], D // 2, 2))
        z = z * self.turn()
        return torch.view_as_real(z).flatten(-2) + self.f(x)


class LeaningPhasor(Phasor):
    """(1 + i/2) z: its real part is 1, its modulus is not."""

    def turn(self):
        return torch.complex(torch.ones_like(self.angle), torch.full_like(self.angle, 0.5))


class ReflectMean(nn.Module):
    """The channel mean is reflected at every block."""

    k = 2.0

    def __init__(self):
        super().__init__()
        self.f = normed()

    def forward(self, x):
        return x.sub(x.mean(-1, keepdim=True), alpha=self.k) + self.f(x)


class OverReflect(ReflectMean):
    k = 2.5


class RollDifference(nn.Module):
    """A quarter of the neighbour on the left is taken off (a circular sharpening)."""

    def __init__(self):
        super().__init__()
        self.f = normed()

    def forward(self, x):
        return torch.sub(x, torch.roll(x, 1, 1), alpha=0.25).add_(self.f(x))


class DoubledChannel(nn.Module):
    """One of the channels is accumulated onto itself."""

    def __init__(self):
        super().__init__()
        self.f = normed()
        self.register_buffer("pick", torch.tensor([7]))

    def forward(self, x):
        y = x + self.f(x)
        return y.index_add(-1, self.pick, x.index_select(-1, self.pick))


class ShearKept(nn.Module):
    """The right half flows into the left one; the branch writes to the left alone."""

    def __init__(self):
        super().__init__()
        self.f = normed(D, D // 2)

    def forward(self, x):
        left, right = x.tensor_split(2, -1)
        return torch.cat((left + right + self.f(x), right), -1)


class ShearMoved(ShearKept):
    """The same, and the branch writes to the right half, which is then summed."""

    def forward(self, x):
        left, right = x.tensor_split(2, -1)
        return torch.cat((left + right, right + self.f(x)), -1)


class Butterfly(nn.Module):
    """Sum and difference of two carried streams (a Haar step without its scale)."""

    scale = 1.0

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(normed() for _ in range(n))

    def forward(self, x):
        pair = torch.stack((x, torch.zeros_like(x)))
        for f in self.blocks:
            a, b = pair.unbind()
            pair = self.scale * torch.stack((a + b, a - b))
            pair = pair + f(a).unsqueeze(0)
        return pair[0]


class ScaledButterfly(Butterfly):
    scale = 0.5 ** 0.5


class KahanStream(nn.Module):
    """Compensated summation: the rounding error is carried beside the sum."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(normed() for _ in range(n))

    def forward(self, x):
        total, lost = x, torch.zeros_like(x)
        for f in self.blocks:
            step = f(total) - lost
            new = total + step
            lost = (new - total) - step
            total = new
        return total


class AnchorAveraged(nn.Module):
    """Half of the stream and half of the input, plus a branch that ends in a norm."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(perceptron(), nn.RMSNorm(D)) for _ in range(n))

    def forward(self, x):
        anchor = x
        for f in self.blocks:
            x = torch.add(x, anchor).div(2) + f(x)
        return x


TRUTH = {
    "TwoStepBack": dict(
        kind="model",
        why="x'' = 1.5x' - 0.5x + F: roots 1 and 0.5; started with both states equal the input stays as it is; each branch output arrives with at most a factor 2.",
        identity_gain=1.0, growth_fixed="linear", softmax=False, tempts="1.5^24"),
    "TwoStepForward": dict(
        kind="model",
        why="x'' = 2.5x' - 1.5x + F: roots 1 and 1.5. The input alone lies in the mode of root 1, but every branch output excites the root 1.5: exponential.",
        growth_fixed="exponential", gradient_law="exponential", softmax=False,
        tempts="coefficients sum to one, so at most linear"),
    "GlidingMomentum": dict(
        kind="model",
        why="v' = 0.9v + F, x' = x + v': each branch output is added with total weight below 10; v starts at zero, so that the input passes with 1.",
        identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False, tempts="the velocity is a second stream of gain 0.9^24, or a gain of 1.9"),
    "FrictionlessMomentum": dict(
        kind="model",
        why="v' = v + F, x' = x + v': branch outputs are summed twice, N^1.5 for independent weights and N^2 for equal ones.",
        identity_gain=1.0, growth_fixed="polynomial", gradient_law="power", softmax=False, tempts="two streams with pre-norm: linear"),
    "Phasor": dict(
        kind="block", why="multiplication by e^{i angle} is an isometry of the stream; one pre-norm branch.",
        identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, gradient_law="power", softmax=False,
        tempts="an unknown op on the stream, hence no identity"),
    "LeaningPhasor": dict(
        kind="block", why="|1 + i/2| = sqrt(1.25), so that the stream is multiplied by 1.25^12 over 24 blocks.",
        identity_gain=1.25 ** 12, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential",
        output_bounded={"0": False}, softmax=False, tempts="a rotation, as above: gain 1"),
    "ReflectMean": dict(
        kind="block", why="I - 2 11^T/d is a Householder reflection: orthogonal.",
        identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, gradient_law="power", softmax=False,
        tempts="coefficients 1 and 2: gain 3^24, or 1 + 2"),
    "OverReflect": dict(
        kind="block", why="I - 2.5 11^T/d has the eigenvalue -1.5 along the constant vector.",
        identity_gain=1.5 ** 24, growth_fixed="exponential", growth_all="exponential", output_bounded={"0": False}, gradient_law="exponential", softmax=False,
        tempts="the mean is taken off, so the gain is at most 1; a LayerNorm does not even see it"),
    "RollDifference": dict(
        kind="block", why="I - S/4 with S a circular shift: at the alternating mode over 16 tokens S = -1 and the factor is 1.25.",
        identity_gain=1.25 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", output_bounded={"0": False}, softmax=False,
        tempts="1 - 0.25 = 0.75: the stream decays"),
    "DoubledChannel": dict(
        kind="block", why="channel 7 is doubled by every block, the others are kept.",
        identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", output_bounded={"0": False}, softmax=False,
        tempts="an index_add onto the stream is one more branch; gain 1"),
    "ShearKept": dict(
        kind="block", why="[[1, 1], [0, 1]]^24 = [[1, 24], [0, 1]], norm 24.04; nothing is added to the right half, so that the left grows linearly.",
        identity_gain=24.041594578792296, growth_fixed="linear", output_bounded={"0": False}, softmax=False,
        tempts="left + right doubles: 2^24"),
    "ShearMoved": dict(
        kind="block", why="the same linear part; the right half is a sum of branch outputs and the left a sum of these: N^1.5 (independent weights) to N^2.",
        identity_gain=24.041594578792296, growth_fixed="polynomial", output_bounded={"0": False}, gradient_law="power", softmax=False,
        tempts="exponential, or linear as any pre-norm"),
    "Butterfly": dict(
        kind="model", why="[[1, 1], [1, -1]] has norm sqrt 2 and square 2 I: the first state is multiplied by 2^12.",
        identity_gain=2.0 ** 12, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        tempts="the difference cancels the sum; or 2^24"),
    "ScaledButterfly": dict(
        kind="model", why="with 1/sqrt 2 the step is orthogonal and its square the identity.",
        identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False, tempts="0.7071^24, or 1.414^24"),
    "KahanStream": dict(
        kind="model", why="in exact arithmetic the carried error is zero: x' = x + F(N(x)).",
        identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False, tempts="new - total looks like a subtraction from the stream"),
    "AnchorAveraged": dict(
        kind="model", why="x' = (x + x0)/2 + N(F): the input passes with 1; |x'| <= |x|/2 + |x0|/2 + sqrt d, bounded whatever depth and weights.",
        identity_gain=1.0, growth_fixed="bounded", growth_all="bounded", output_bounded={"0": True}, gradient_law="exponential", softmax=False,
        tempts="0.5^24 (the anchor forgotten), linear as output norm, or level gradients: the early blocks are forgotten"),
}
