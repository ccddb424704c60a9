"""Softmaxes that are no self-attention (routers, pooling, codes, memories, gates), and things that look like one."""

import functools
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def expert(*tail):
    return nn.Sequential(nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D), *tail)


def unit(t, dim=-1):
    return t / (torch.linalg.vector_norm(t, dim=dim, keepdim=True) + 1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# routers
# ----------------------------------------------------------------------------------------------------------------------

class RouterOfNormed(nn.Module):
    """dense mixture: four experts that end in a norm, weighed by a softmax router"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.experts = nn.ModuleList(expert(nn.RMSNorm(D)) for _ in range(4))
        self.router = nn.Linear(D, 4, bias=False)

    def forward(self, x):
        h = self.norm(x)
        p = F.softmax(self.router(h), dim=-1)
        total = torch.zeros_like(h)
        for w, f in zip(p.split(1, dim=-1), self.experts):
            total = torch.addcmul(total, w, f(h))
        return x.add(total)


class CosineRouter(nn.Module):
    """X-MoE: cosine between a projected token and unit expert embeddings, learned temperature; top two of four, softmax over the two"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.experts = nn.ModuleList(expert() for _ in range(4))
        self.down = nn.Linear(D, 8, bias=False)
        self.embed = nn.Parameter(torch.randn(4, 8))
        self.log_tau = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        h = self.norm(x)
        u = unit(self.down(h)) @ unit(self.embed).mT * self.log_tau.exp()
        top, who = u.topk(2, dim=-1)
        share = torch.zeros_like(u).scatter(-1, who, top.softmax(-1))
        return x + torch.einsum("bte,ebtd->btd", share, torch.stack([f(h) for f in self.experts]))


class SigmoidRouter(nn.Module):
    """DeepSeek-V3: sigmoid scores, a bias buffer that only chooses, shares are the scores over their sum; normed experts"""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.experts = nn.ModuleList(expert(nn.RMSNorm(D)) for _ in range(4))
        self.centroids = nn.Parameter(torch.randn(4, D) / D ** 0.5)
        self.register_buffer("load", torch.tensor([0.1, 0.0, -0.1, 0.0]))

    def forward(self, x):
        h = self.norm(x)
        score = torch.sigmoid(F.linear(h, self.centroids))
        who = torch.topk(score + self.load, 2, dim=-1).indices
        share = score.gather(-1, who)
        share = share / (share.sum(-1, keepdim=True) + 1e-9)
        every = torch.stack([f(h) for f in self.experts], dim=-2)
        return x + (share.unsqueeze(-1) * every.gather(-2, who.unsqueeze(-1).expand(-1, -1, -1, D))).sum(-2)


class SoftMoeUnit(nn.Module):
    """Soft MoE with the norms of its paper: unit tokens, unit slot vectors, one learned scale"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.phi = nn.Parameter(torch.randn(D, 4) / D ** 0.5)
        self.scale = nn.Parameter(torch.ones(()) * 4)
        self.experts = nn.ModuleList(expert() for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        u = torch.tensordot(unit(h), self.scale * unit(self.phi, 0), dims=1)
        slots = u.softmax(1).mT @ h
        done = torch.cat([f(s) for f, s in zip(self.experts, slots.split(1, 1))], 1)
        return torch.baddbmm(x, u.softmax(2), done)


# ----------------------------------------------------------------------------------------------------------------------
# pooling and gates
# ----------------------------------------------------------------------------------------------------------------------

class TokenPool(nn.Module):
    """attention pooling over the tokens by one unit query, a context that gates a normed path (global context block)"""

    def __init__(self):
        super().__init__()
        self.norm, self.path, self.post = nn.LayerNorm(D), expert(), nn.RMSNorm(D)
        self.query = nn.Parameter(torch.randn(D))
        self.gate = nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        p = torch.softmax(h @ unit(self.query), dim=1)
        context = torch.einsum("bt,btd->bd", p, h)
        return x + torch.sigmoid(self.gate(context)).unsqueeze(1) * self.post(self.path(h))


class ChannelSoftmaxGate(nn.Module):
    """a gate over the channels by softmax, times D, on a normed value"""

    def __init__(self):
        super().__init__()
        self.norm, self.both, self.post = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.LayerNorm(D)

    def forward(self, x):
        value, gate = torch.tensor_split(self.both(self.norm(x)), 2, -1)
        return x + self.post(value) * gate.softmax(-1) * D


class SelfWeighted(nn.Module):
    """each channel is weighed by its own share in a softmax: y softmax(y)"""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Tanh(), nn.Linear(2 * D, D))

    def forward(self, x):
        y = self.net(x)
        return x + torch.mul(y, nn.Softmax(dim=-1)(y)) * 4


class SelectiveKernel(nn.Module):
    """SKNet: two normed paths, per channel a softmax over the two made from their pooled sum"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.paths = nn.ModuleList(nn.Conv1d(D, D, k, padding=k // 2) for k in (3, 5))
        self.posts = nn.ModuleList(nn.RMSNorm(D) for _ in range(2))
        self.squeeze, self.excite = nn.Linear(D, 8), nn.Linear(8, 2 * D)

    def forward(self, x):
        h = self.norm(x).mT
        u = torch.stack([post(path(h).mT) for path, post in zip(self.paths, self.posts)])
        z = F.relu(self.squeeze(u.sum(0).mean(1)))
        w = self.excite(z).unflatten(-1, (2, D)).movedim(1, 0).softmax(0)
        return x + (w.unsqueeze(2) * u).sum(0)


class ScalarMix(nn.Module):
    """ELMo's scalar mix inside a block: three depths of one path, normed, weighed by a softmax of three parameters"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.steps = nn.ModuleList(expert() for _ in range(3))
        self.post = nn.RMSNorm(D)
        self.mix = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h, seen = self.norm(x), []
        for f in self.steps:
            h = f(h)
            seen.append(self.post(h))
        return x + sum(w * y for w, y in zip(torch.softmax(self.mix, 0), seen))


class KeypointSoftmax(nn.Module):
    """spatial softmax: heat maps over the tokens, what is added is their expected position code, a constant table"""

    def __init__(self):
        super().__init__()
        self.norm, self.heat = nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, x):
        p = self.heat(self.norm(x)).softmax(dim=1)
        t = torch.arange(T, device=x.device, dtype=x.dtype).unsqueeze(-1)
        rate = torch.exp2(-torch.arange(D, device=x.device, dtype=x.dtype) / 4)
        where = (p * torch.sin(t * rate)).sum(1, keepdim=True)
        return x + where - 0.5


# ----------------------------------------------------------------------------------------------------------------------
# codes and memories
# ----------------------------------------------------------------------------------------------------------------------

class GumbelUnitCodes(nn.Module):
    """a straight-through Gumbel choice among 16 unit vectors"""

    def __init__(self):
        super().__init__()
        self.norm, self.pick = nn.LayerNorm(D), nn.Linear(D, 16)
        self.codes = nn.Parameter(torch.randn(16, D))

    def forward(self, x):
        one = F.gumbel_softmax(self.pick(self.norm(x)), tau=1.0, hard=True)
        return x + one @ F.normalize(self.codes, dim=-1)


class MemoryReader(nn.Module):
    """reads a learned memory: unit queries and unit keys by the function of that name; the values are a plain table"""

    def __init__(self):
        super().__init__()
        self.norm, self.q = nn.LayerNorm(D), nn.Linear(D, D, bias=False)
        self.table = nn.ParameterDict({"address": torch.randn(1, 24, D), "content": torch.randn(1, 24, D) * 0.3})

    def forward(self, x):
        read = getattr(F, "_".join(("scaled", "dot", "product", "attention")))
        return x + read(unit(self.q(self.norm(x))), unit(self.table["address"]), self.table["content"], scale=10.0)


class HopfieldRetrieval(nn.Module):
    """three steps of a modern Hopfield network over unit patterns; the retrieved pattern is what is added"""

    def __init__(self):
        super().__init__()
        self.start = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D))
        self.patterns = nn.Parameter(torch.randn(24, D))

    def retrieve(self, xi, patterns, steps):
        if steps == 0:
            return xi
        p = functools.partial(torch.softmax, dim=-1)(8 * unit(xi) @ patterns.mT)
        return self.retrieve(p @ patterns, patterns, steps - 1)

    def forward(self, x):
        return x + self.retrieve(self.start(x), unit(self.patterns), 3)


class SlotCompetition(nn.Module):
    """slot attention, one round: slots compete for a token by softmax, then shares over the tokens; the slots go back by their weights"""

    def __init__(self):
        super().__init__()
        self.norm, self.k, self.v = nn.LayerNorm(D), nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.slots, self.post = nn.Parameter(torch.randn(5, D) * 0.5), nn.RMSNorm(D)

    def forward(self, x):
        h = self.norm(x)
        p = torch.softmax(self.k(h) @ self.slots.t() * D ** -0.5, dim=-1)          # b t s
        share = p / (p.sum(1, keepdim=True) + 1e-8)
        update = self.post(share.mT @ self.v(h))
        return x + p @ update


class BackwardByHand(torch.autograd.Function):
    """softmax with its own backward"""

    @staticmethod
    def forward(ctx, u):
        e = torch.exp(u - u.amax(-1, keepdim=True))
        p = e / e.sum(-1, keepdim=True)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, g):
        p, = ctx.saved_tensors
        return p * (g - (g * p).sum(-1, keepdim=True))


class Parts(NamedTuple):
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


class ChannelAttention(nn.Module):
    """XCiT's cross-covariance attention: [D, D] scores of channels that are unit vectors over the tokens"""
    BOTH = True

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.temperature = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        s = Parts(*self.qkv(self.norm(x)).mT.chunk(3, 1))                              # [b, D, T]
        s = s._replace(q=unit(s.q), k=unit(s.k) if self.BOTH else s.k)
        p = BackwardByHand.apply(s.q @ s.k.mT * self.temperature)
        return x + self.o((p @ s.v).mT)


class ChannelAttentionOneSided(ChannelAttention):
    """the same where only the queries are unit vectors"""
    BOTH = False


class WrongAxis(nn.Module):
    """the softmax runs over the queries, so that columns and not rows sum to one; normed values and no map behind"""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(D), nn.Linear(D, 3 * D)
        self.norms = nn.ModuleList(nn.RMSNorm(D) for _ in range(3))

    def forward(self, x):
        q, k, v = (n(t) for n, t in zip(self.norms, self.qkv(self.norm(x)).chunk(3, -1)))
        p = torch.softmax(torch.bmm(q, k.mT) / math.sqrt(D), dim=1)
        return torch.baddbmm(x, p, v)


# ----------------------------------------------------------------------------------------------------------------------
# no softmax
# ----------------------------------------------------------------------------------------------------------------------

class SoftplusKernel(nn.Module):
    """attention whose weights are softplus(u) over their sum"""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        softmax = F.softplus(q @ k.mT / math.sqrt(D))
        softmax = softmax / (softmax.sum(-1, keepdim=True) + 1e-6)
        return x + self.o(softmax @ v)


class ExpDecay(nn.Module):
    """exponentials and sums of them, but no quotient: a decaying memory with decay exp(-softplus(a))"""

    def __init__(self):
        super().__init__()
        self.norm, self.both = nn.RMSNorm(D), nn.Linear(D, 2 * D)

    def forward(self, x):
        u, a = self.both(self.norm(x)).chunk(2, -1)
        keep, m, out = torch.exp(-F.softplus(a)), torch.zeros_like(x[:, 0]), []
        for i in range(T):
            m = keep[:, i] * m + (1 - keep[:, i]) * torch.tanh(u[:, i])
            out.append(m)
        return x + torch.stack(out, 1)


TRUTH = {
    "RouterOfNormed": dict(
        kind="block",
        why="a convex mean of four RMS-normed experts; the router's logits are a free linear map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        logits_bounded={"0": False},
        softmax=True,
        tempts="a gate behind the norms: unbounded; no attention, hence no softmax",
    ),
    "CosineRouter": dict(
        kind="block",
        why="cosine times a learned temperature (held fixed); a softmax over the two chosen scores. Experts are free.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="trained expert embeddings: free logits",
    ),
    "SigmoidRouter": dict(
        kind="block",
        why="shares are sigmoids over their sum, at most one together; experts end in a norm. No softmax.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        softmax=False,
        tempts="router with shares that sum to one: softmax",
    ),
    "SoftMoeUnit": dict(
        kind="block",
        why="unit tokens times unit slot vectors times a learned scale (held fixed).",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="a trained matrix makes the logits",
    ),
    "TokenPool": dict(
        kind="block",
        why="logits: |LN(x)| times a unit vector, within sqrt(32). Output: sigmoid times an RMS-normed path.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        logits_bounded={"0": True},
        softmax=True,
        tempts="trained query makes the logits; data-made gate behind the norm",
    ),
    "ChannelSoftmaxGate": dict(
        kind="block",
        why="gate in [0, 1] times 32 times a LayerNorm; the gate's logits are a free linear map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        logits_bounded={"0": False},
        softmax=True,
        tempts="data-made gate, unbounded; no attention, no softmax",
    ),
    "SelfWeighted": dict(
        kind="block",
        why="y softmax(y) is nearly y at the largest entry: linear in the weights.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law="flat",
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="a softmax ends the branch: bounded",
    ),
    "SelectiveKernel": dict(
        kind="block",
        why="per channel a convex mean of two RMS-normed paths; the gate's logits are a free MLP.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        logits_bounded={"0": False},
        softmax=True,
        tempts="gates behind norms: unbounded",
    ),
    "ScalarMix": dict(
        kind="block",
        why="a convex mean (softmax of three parameters) of RMS-normed depths.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=True,
        tempts="trained scalars behind a norm; no softmax of data",
    ),
    "KeypointSoftmax": dict(
        kind="block",
        why="probabilities times a constant table of sines, minus a half; the heat map is a free map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        logits_bounded={"0": False},
        softmax=True,
        tempts="free map, unbounded",
    ),
    "GumbelUnitCodes": dict(
        kind="block",
        why="one of 16 vectors of length one; logits (plus noise) are a free map.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="flat",
        output_bounded={"0": True},
        logits_bounded={"0": False},
        softmax=True,
        tempts="a trained table",
    ),
    "MemoryReader": dict(
        kind="block",
        why="cosine scores times 10; the values are a free table.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="unit keys, softmax: bounded output; or a free table of keys",
    ),
    "HopfieldRetrieval": dict(
        kind="block",
        why="scores are 8 times the cosine of a state and unit patterns in every step; the output is a convex mean of unit vectors.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        logits_bounded={"0": True},
        softmax=True,
        tempts="a trained table, iterated",
    ),
    "SlotCompetition": dict(
        kind="block",
        why="rows of p sum to one over the slots and the slots are RMS-normed; the scores are free products of a map and a table.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law="power",
        output_bounded={"0": True},
        logits_bounded={"0": False},
        softmax=True,
        tempts="free slots, not normed on the way back",
    ),
    "ChannelAttention": dict(
        kind="block",
        why="channels are unit vectors over the tokens: |score| <= 1 times the learned temperature (held fixed); the softmax is a custom Function whose backward is its true one.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": True},
        softmax=True,
        tempts="norm of a wrong axis; no softmax in the graph",
    ),
    "ChannelAttentionOneSided": dict(
        kind="block",
        why="keys are not normed.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        logits_bounded={"0": False},
        softmax=True,
        tempts="cosine scores with a temperature",
    ),
    "WrongAxis": dict(
        kind="block",
        why="softmax over the queries: a row sums to at most 16, values are RMS-normed and no map follows. Scores of normed q and k.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        logits_bounded={"0": True},
        softmax=True,
        tempts="weights are not stochastic: unbounded",
    ),
    "SoftplusKernel": dict(
        kind="block",
        why="softplus over its sum is no softmax.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all=None,
        gradient_law=None,
        output_bounded={"0": False},
        softmax=False,
        tempts="the variable is called softmax",
    ),
    "ExpDecay": dict(
        kind="block",
        why="decay in (0, 1), convex update with tanh: memory in [-1, 1]. Exponentials, but no quotient.",
        identity_gain=1.0,
        growth_fixed="linear",
        growth_all="linear",
        gradient_law=None,
        output_bounded={"0": True},
        softmax=False,
        tempts="exp and sums: softmax; data-made gates: unbounded",
    ),
}
