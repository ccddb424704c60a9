"""Streams that pass by functions which keep some of a large value: slopes by sign, the largest, sorted and picked values, matrices with one long direction."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


class Carried(nn.Module):
    """A net of the normed stream; `skip` is what is carried."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 64), nn.Linear(64, D)
        for w in (self.up, self.down):
            nn.init.normal_(w.weight, std=w.in_features ** -0.5)
            nn.init.zeros_(w.bias)

    def branch(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))

    def skip(self, x):
        raise NotImplementedError

    def forward(self, x):
        return self.skip(x) + self.branch(x)


class LeakySkip(Carried):
    """Negative values are halved."""

    def skip(self, x):
        return F.leaky_relu(x, 0.5)


class SteepSkip(Carried):
    """Negative values grow by a tenth."""

    def skip(self, x):
        return F.leaky_relu(x, 1.1)


class SizeSkip(Carried):
    """The size of each value."""

    def skip(self, x):
        return x.abs()


class HyperbolaSkip(Carried):
    """The root of one more than the square."""

    def skip(self, x):
        return torch.sqrt(x * x + 1.0)


class ShrunkSkip(Carried):
    """A hundredth is taken off the size of each value."""

    def skip(self, x):
        return F.softshrink(x, 0.01)


class WinnersSkip(Carried):
    """The larger half of the channels by size, zeros elsewhere."""

    def skip(self, x):
        least = x.abs().topk(D // 2, dim=-1).values[..., -1:]
        return x * (x.abs() >= least)


class LargestOfThree(Carried):
    """The largest of a place and its two neighbours."""

    def skip(self, x):
        return F.max_pool1d(x.transpose(1, 2), 3, stride=1, padding=1).transpose(1, 2)


class SortedSkip(Carried):
    """The values of each channel in order over the places."""

    def skip(self, x):
        return x.sort(dim=1).values


class FlippedSkip(Carried):
    """Places backwards."""

    def skip(self, x):
        return x.flip(1)


class LongDirection(Carried):
    """A symmetric matrix in a buffer: one direction has 1.04, all others a half."""

    top = 1.04

    def __init__(self):
        super().__init__()
        q = F.normalize(torch.linspace(1.0, 2.0, D, device="cpu"), dim=0)
        a = 0.5 * torch.eye(D, device="cpu") + (self.top - 0.5) * torch.outer(q, q)
        self.register_buffer("a", a.to(torch.get_default_dtype()))

    def skip(self, x):
        return x @ self.a


class LongDirectionKept(LongDirection):
    """It has one."""

    top = 1.0


class LongDirectionShort(LongDirection):
    """It has 0.9."""

    top = 0.9


class SlowAndFast(Carried):
    """Two sums in a block: times 1.25, and times 0.8."""

    def skip(self, x):
        return 0.8 * (1.25 * x + 0.5 * self.branch(x))


class SlowAndFastSlip(Carried):
    """Times 1.25, and less a quarter: 0.9375."""

    def skip(self, x):
        x = 1.25 * x + 0.5 * self.branch(x)
        return x - 0.25 * x


class HalvesExchanged(Carried):
    """The halves of the channels change places, one of them doubled, the other one halved."""

    def skip(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([2.0 * b, 0.5 * a], dim=-1)


class HalvesExchangedGrow(Carried):
    """One doubled, the other one as it is: each is doubled every second block."""

    def skip(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([2.0 * b, a], dim=-1)


_B = dict(kind="block", softmax=False)
_ONE = dict(_B, identity_gain=1.0, growth_fixed="linear")
_GROWS = dict(_B, growth_fixed="exponential")
_LOSES = dict(_B, growth_fixed="bounded")
TRUTH = {
    "LeakySkip": dict(_ONE, why="positive values are carried whole."),
    "SteepSkip": dict(_GROWS, identity_gain=1.1 ** 24, why="a negative value stays negative and grows."),
    "SizeSkip": dict(_ONE, why="sizes are carried whole."),
    "HyperbolaSkip": dict(_ONE, why="large values are carried whole."),
    "ShrunkSkip": dict(_B, identity_gain=1.0, why="large values lose a hundredth, not a share."),
    "WinnersSkip": dict(_ONE, why="winners are carried whole."),
    "LargestOfThree": dict(_B, growth_fixed="linear", why="no value exceeds the largest; by lengths it may be copied to all places."),
    "SortedSkip": dict(_ONE, why="a permutation."),
    "FlippedSkip": dict(_ONE, why="a permutation."),
    "LongDirection": dict(_GROWS, identity_gain=1.04 ** 24, why="one direction grows."),
    "LongDirectionKept": dict(_ONE, why="one direction is carried whole."),
    "LongDirectionShort": dict(_LOSES, identity_gain=0.9 ** 24, why="no direction is."),
    "SlowAndFast": dict(_ONE, why="1.25 times 0.8."),
    "SlowAndFastSlip": dict(_LOSES, identity_gain=0.9375 ** 24, why="1.25 times 0.75."),
    "HalvesExchanged": dict(_ONE, why="two blocks are the identity."),
    "HalvesExchangedGrow": dict(_GROWS, identity_gain=2.0 ** 12, why="two blocks double."),
}
