"""Pull requests on recommendation and on graphs: sessions, crossings of features, masks, tasks with shared experts, gates of variables, walks and neighbours."""

import math

import torch
from torch import nn
from torch.nn import functional as F

T, D = 16, 32

_G = torch.Generator().manual_seed(226)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_SEQ, _FIELDS = _draw(2, T, D), _draw(2, 8, D)
example_inputs = {
    **{k: (_SEQ,) for k in ("SessionBlock", "SessionBlockV2")},
    **{k: (_FIELDS, _draw(2, 8, D)) for k in ("CrossOfNormed", "GatedCross", "MaskUnit")},
    "TaskTowers": ({"ctr": _draw(2, D), "cvr": _draw(2, D), "shared": _draw(2, D)},),
    "VariableGate": (_SEQ, _draw(2, D)),
    "InitialResidual": (_draw(T, D), _draw(T, D)),
    "NeighbourHeads": (_draw(T, D),),
}


def linear(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


# ------------------------------------------------------------------ recommendation
class SessionBlock(nn.Module):
    """Queries are normed, keys and values are not; sums start from queries, as first published."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.mha = nn.LayerNorm(D), nn.LayerNorm(D), nn.MultiheadAttention(D, 2, bias=False, batch_first=True)
        self.conv1, self.conv2 = nn.Conv1d(D, D, 1), nn.Conv1d(D, D, 1)

    def forward(self, seqs):
        q = self.norm1(seqs)
        out, _ = self.mha(q, seqs, seqs, need_weights=False)
        seqs = self.norm2(q + out)
        return seqs + self.conv2(self.conv1(seqs.mT).relu()).mT


class SessionBlockV2(SessionBlock):
    """The sum starts from the sequence; queries alone are normed."""

    def forward(self, seqs):
        out, _ = self.mha(self.norm1(seqs), seqs, seqs, need_weights=False)
        seqs = seqs + out
        return seqs + self.conv2(self.conv1(self.norm2(seqs).mT).relu()).mT


class CrossOfNormed(nn.Module):
    """First features times a map of the norm of the last ones."""

    def __init__(self):
        super().__init__()
        self.norm, self.w = nn.LayerNorm(D), linear(D, D)

    def forward(self, x, x0):
        return torch.addcmul(x, x0, self.w(self.norm(x)))


class GatedCross(nn.Module):
    """First features times a map of the last ones, of which a gate lets a part through."""

    def __init__(self):
        super().__init__()
        self.w, self.v, self.norm = linear(D, D), linear(D, D, False), nn.LayerNorm(D)

    def forward(self, x, x0):
        return self.norm(x0) * self.w(x) * torch.sigmoid(self.v(x)) + x


class MaskUnit(nn.Module):
    """A mask from first features on last ones; a map, a norm, a ReLU: no skip."""

    def __init__(self):
        super().__init__()
        self.mask, self.hidden, self.norm = nn.Sequential(linear(D, 2 * D), nn.ReLU(), linear(2 * D, D)), linear(D, D, False), nn.LayerNorm(D)

    def forward(self, x, emb):
        return F.relu(self.norm(self.hidden(self.mask(emb) * x)))


class TaskTowers(nn.Module):
    """Two tasks and what they share, each with two experts; shares weigh one's own and the shared ones'."""

    names = ("ctr", "cvr", "shared")

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleDict({n: nn.ModuleList(nn.Sequential(linear(D, D), nn.LayerNorm(D), nn.ReLU()) for _ in range(2)) for n in self.names})
        self.gates = nn.ModuleDict({n: linear(D, 6 if n == "shared" else 4) for n in self.names})

    def forward(self, state):
        said = {n: torch.stack([e(state[n]) for e in self.experts[n]], 1) for n in self.names}
        new = {}
        for n in self.names:
            pool = torch.cat([said[m] for m in (self.names if n == "shared" else (n, "shared"))], 1)
            new[n] = torch.einsum("be,bed->bd", self.gates[n](state[n]).softmax(-1), pool)
        return new


class VariableGate(nn.Module):
    """Two maps and a gated unit, with a context; a norm behind the sum."""

    def __init__(self):
        super().__init__()
        self.skip_norm, self.w1, self.w2, self.ctx, self.glu = nn.LayerNorm(D), linear(D, D), linear(D, D), linear(D, D, False), linear(D, 2 * D)

    def forward(self, x, c):
        h = F.elu(self.w2(x) + self.ctx(c).unsqueeze(1))
        return self.skip_norm(x + F.glu(self.glu(self.w1(h)), -1))


# ------------------------------------------------------------------ graphs
class InitialResidual(nn.Module):
    """A walk on a ring, a tenth of first features, and a map near the identity; a ReLU."""

    def __init__(self, alpha=0.1, beta=0.05):
        super().__init__()
        self.alpha, self.beta, self.w = alpha, beta, linear(D, D, False)
        eye = torch.eye(T)
        self.register_buffer("p", (eye + eye.roll(1, 0) + eye.roll(-1, 0)) / 3)

    def forward(self, h, h0):
        s = (1 - self.alpha) * (self.p @ h) + self.alpha * h0
        return F.relu((1 - self.beta) * s + self.beta * self.w(s))


class NeighbourHeads(nn.Module):
    """Scores of pairs of neighbours, shares of them, values as they are, and a skip."""

    def __init__(self, heads=4):
        super().__init__()
        self.h, self.lin = heads, linear(D, D, False)
        self.a_src, self.a_dst = nn.Parameter(torch.randn(heads, D // heads) * 0.3), nn.Parameter(torch.randn(heads, D // heads) * 0.3)
        eye = torch.eye(T)
        self.register_buffer("adj", (eye + eye.roll(1, 0) + eye.roll(-1, 0) + eye.roll(3, 0)) > 0)

    def forward(self, x):
        z = self.lin(x).view(-1, self.h, D // self.h)
        s = (z * self.a_src).sum(-1)[:, None] + (z * self.a_dst).sum(-1)[None]
        s = F.leaky_relu(s, 0.2).masked_fill(~self.adj[..., None], -math.inf)
        return x + F.elu(torch.einsum("ijh,jhd->ihd", s.softmax(1), z).flatten(1))


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN = dict(logits_bounded={0: False})
TRUTH = {
    "SessionBlock": dict(_LEVEL, softmax=True, sound=False, why="each block ends in a norm and a function of it."),
    "SessionBlockV2": dict(_EXP, softmax=True, **_TWO, why="values are the stream's: of degree one."),
    "CrossOfNormed": dict(_NET, **_ONE, sound=True, why="first features are the same in all layers, and their factor is a map of a norm."),
    "GatedCross": dict(_EXP, softmax=False, **_ONE, why="a map of the stream times a share: of degree one."),
    "MaskUnit": dict(_LEVEL, softmax=False, sound=False, why="each block ends in a ReLU of a norm; nothing is carried."),
    "TaskTowers": dict(_LEVEL, softmax=True, why="shares of ReLUs of norms."),
    "VariableGate": dict(_LEVEL, softmax=False, sound=True, why="post-norm."),
    "InitialResidual": dict(_LEVEL, softmax=False, sound=True, why="0.9 times at most 0.95 + 0.05 |W|, |W| is about two: a geometric sum of first features."),
    "NeighbourHeads": dict(_EXP, softmax=True, **_ONE, **_OPEN, why="shares of values of degree one are added to the stream."),
}
