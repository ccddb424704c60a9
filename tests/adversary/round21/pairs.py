"""Pairs of residues, (batch, i, j, channels): triangle updates, attention along rows with a bias of pairs, transitions; a whole stack of them."""

import torch
import torch.nn as nn
import torch.nn.functional as F

C, N, H = 16, 8, 2


def example_inputs():
    return (torch.randn(2, N, N, C),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


class Triangle(nn.Module):
    """Outgoing edges: two gated projections of what is normed, a product over k, a norm in the middle, a gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.center, self.ab, self.gab, self.g, self.o = nn.LayerNorm(C), nn.LayerNorm(C), lin(C, 2 * C), nn.Linear(C, 2 * C), nn.Linear(C, C), lin(C, C)

    def halves(self, h):
        return (torch.sigmoid(self.gab(h)) * self.ab(h)).chunk(2, -1)

    def multiply(self, a, b):
        return torch.einsum("bikc,bjkc->bijc", a, b)

    def update(self, h):
        return torch.sigmoid(self.g(h)) * self.o(self.center(self.multiply(*self.halves(h))))

    def forward(self, z):
        return z + self.update(self.norm(z))


class TriangleSameEdge(Triangle):
    """An index: b is taken at (i, k) as well, so that j is summed over nothing and each pair of a row gets the same."""

    def multiply(self, a, b):
        return torch.einsum("bikc,bikc->bic", a, b).unsqueeze(2).expand_as(a)


class TriangleNoNorms(Triangle):
    """Both norms are gone: of degree two in the pairs."""

    def forward(self, z):
        return z + torch.sigmoid(self.g(z)) * self.o(self.multiply(*self.halves(z)))


class TriangleNoCenter(Triangle):
    """The norm in the middle is gone: eight products of what is normed."""

    def update(self, h):
        return torch.sigmoid(self.g(h)) * self.o(self.multiply(*self.halves(h)))


class TriangleCenterOnly(Triangle):
    """The first norm is gone: products of degree two are normed, and gates are below one."""

    def forward(self, z):
        return z + self.update(z)


class TriangleDropsPairs(Triangle):
    """The gate meets the sum."""

    def forward(self, z):
        h = self.norm(z)
        return torch.sigmoid(self.g(h)) * (z + self.o(self.center(self.multiply(*self.halves(h)))))


class RowAttention(nn.Module):
    """Around the starting node: attention along each row, biased by pairs."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.b, self.g, self.o = nn.LayerNorm(C), lin(C, 3 * C), lin(C, H), nn.Linear(C, C), lin(C, C)

    def bias(self, h):
        return self.b(h).permute(0, 3, 1, 2).unsqueeze(1)

    def update(self, h, source):
        q, k, v = (t.unflatten(-1, (H, C // H)).transpose(2, 3) for t in self.qkv(h).chunk(3, -1))
        s = q @ k.mT * (C // H) ** -0.5 + self.bias(source)
        y = (s.softmax(-1) @ v).transpose(2, 3).flatten(3)
        return self.o(torch.sigmoid(self.g(h)) * y)

    def forward(self, z):
        h = self.norm(z)
        return z + self.update(h, h)


class RowAttentionRawBias(RowAttention):
    """The bias is a map of the pairs themselves: logits grow with them, what is added does not."""

    def forward(self, z):
        return z + self.update(self.norm(z), z)


class RowAttentionNormOfUpdate(RowAttention):
    """The norm stands behind the update and not in front: logits are made of raw pairs."""

    def forward(self, z):
        return z + self.norm(self.update(z, z))


class Transition(nn.Module):
    """A net on pairs, mirrored: the mean of the update and its transpose."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(C), lin(C, 2 * C), lin(2 * C, C)

    def forward(self, z):
        u = self.down(F.relu(self.up(self.norm(z))))
        return z + 0.5 * (u + u.transpose(1, 2))


class TransitionMirrorsSum(Transition):
    """The mean is taken of the sum: what is antisymmetric is lost in the first block."""

    def forward(self, z):
        z = z + self.down(F.relu(self.up(self.norm(z))))
        return 0.5 * (z + z.transpose(1, 2))


class TransitionMirrorsTwice(Transition):
    """The half is forgotten: what is symmetric is doubled in each block."""

    def forward(self, z):
        z = z + self.down(F.relu(self.up(self.norm(z))))
        return z + z.transpose(1, 2)


class PairStack(nn.Module):
    """Layers of a triangle, a row attention and a transition, by names in a dictionary."""

    def __init__(self, n=None):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"tri": Triangle(), "row": RowAttention(), "ff": Transition()}) for _ in range(n or 4))

    def forward(self, z):
        for layer in self.layers:
            for part in ("tri", "row", "ff"):
                z = layer[part](z)
        return z


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE = dict(output_bounded={0: False})
TRUTH = {
    "Triangle": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "TriangleSameEdge": dict(_NET, **_ONE, sound=False, why="pre-norm."),
    "TriangleNoNorms": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="of degree two."),
    "TriangleNoCenter": dict(_NET, **_ONE, sound=True, why="products of normed values."),
    "TriangleCenterOnly": dict(_NET, **_ONE, sound=True, why="a map of a norm, by a gate."),
    "TriangleDropsPairs": dict(kind="block", gated=True, growth_fixed="bounded", softmax=False, sound=False, why="gates of what is normed, about a half."),
    "RowAttention": dict(_NET, **_ONE, logits_bounded={0: False}, sound=True, why="pre-norm.") | dict(softmax=True),
    "RowAttentionRawBias": dict(_NET, **_ONE, logits_bounded={0: False}, sound=False, why="shares of normed values.") | dict(softmax=True),
    "RowAttentionNormOfUpdate": dict(_NET, output_bounded={0: True}, growth_all="linear", logits_bounded={0: False}, sound=False, why="normed behind; logits grow with the square of the pairs, and gradients with 1.25 a block.") | dict(softmax=True),
    "Transition": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "TransitionMirrorsSum": dict(_NET, sound=False, why="one for what is symmetric."),
    "TransitionMirrorsTwice": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=False, sound=False, why="two for what is symmetric."),
    "PairStack": dict(kind="model", depth=4, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=True, why="pre-norm."),
}
