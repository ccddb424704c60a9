"""Attention, mixtures of experts and recurrences as people spell them: einsums over bare parameters, fused calls, loops over heads; and slips in them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=False):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def param(*shape, fan_in=D):
    return nn.Parameter(torch.randn(*shape) * fan_in ** -0.5)


def rms(t):
    return t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)


def causal(s):
    return s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), float("-inf"))


# ---- a whole layer as einsums over bare parameters
class EinsumLayer(nn.Module):
    """Pre-norm; the norm is two lines, its gains are parameters beside the maps."""

    def __init__(self):
        super().__init__()
        self.gain1, self.gain2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))
        self.wq, self.wk, self.wv = (param(D, H, E) for _ in range(3))
        self.wo = param(H, E, D)
        self.w_in, self.w_gate, self.w_out = param(D, 2 * D), param(D, 2 * D), param(2 * D, D, fan_in=2 * D)

    def norm(self, x, gain):
        return rms(x) * gain

    def qk(self, q, k):
        return q, k

    def attn(self, h):
        q, k, v = (torch.einsum("btd,dhe->bhte", h, w) for w in (self.wq, self.wk, self.wv))
        q, k = self.qk(q, k)
        p = causal(torch.einsum("bhie,bhje->bhij", q, k) / math.sqrt(E)).softmax(-1)
        return torch.einsum("bhij,bhje,hed->bid", p, v, self.wo)

    def mlp(self, h):
        return torch.einsum("btm,md->btd", F.silu(h @ self.w_gate) * (h @ self.w_in), self.w_out)

    def forward(self, x):
        x = x + self.attn(self.norm(x, self.gain1))
        return x + self.mlp(self.norm(x, self.gain2))


class EinsumPeri(EinsumLayer):
    """Queries, keys and both branches are normed."""

    def qk(self, q, k):
        return rms(q), rms(k)

    def forward(self, x):
        y = self.attn(self.norm(x, self.gain1))
        y = rms(y)
        x = x + y
        y = self.mlp(self.norm(x, self.gain2))
        y = rms(y)
        return x + y


class EinsumPeriSlip(EinsumPeri):
    """The second branch is normed under another name, and the raw one is added."""

    def forward(self, x):
        y = self.attn(self.norm(x, self.gain1))
        y = rms(y)
        x = x + y
        y = self.mlp(self.norm(x, self.gain2))
        normed = rms(y)
        return x + y


# ---- one loop over pairs
class UnpackLoop(nn.Module):
    """for norm, f in layers: x = f(norm(x)) + x."""

    def __init__(self):
        super().__init__()
        mlp = lambda: nn.Sequential(dense(D, 2 * D, True), nn.GELU(), dense(2 * D, D, True))
        self.layers = nn.ModuleList([nn.ModuleList([nn.LayerNorm(D), mlp()]) for _ in range(2)])

    def forward(self, x):
        for norm, f in self.layers:
            x = f(norm(x)) + x
        return x


class UnpackLoopNormed(UnpackLoop):
    """x = norm(x) first: the skip is normed."""

    def forward(self, x):
        for norm, f in self.layers:
            x = norm(x)
            x = f(x) + x
        return x


# ---- one head
class OneHead(nn.Module):
    """x + branch(x); what a subclass changes is a method."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.q, self.k, self.v, self.o = (dense(D, D) for _ in range(4))

    def forward(self, x):
        return x + self.branch(x)


class BaddbmmSkip(OneHead):
    """The add of the skip is in the product with the values."""

    beta = 1.0

    def weights(self, x):
        h = self.norm(x)
        return torch.softmax(torch.bmm(self.q(h), self.k(h).transpose(1, 2)) * D ** -0.5, dim=2), self.v(h)

    def branch(self, x):
        return torch.bmm(*self.weights(x))

    def forward(self, x):
        p, v = self.weights(x)
        return torch.baddbmm(x, p, v, beta=self.beta)


class BaddbmmBeta(BaddbmmSkip):
    """beta=0.9: the factor of the skip."""

    beta = 0.9


class HeadLoop(OneHead):
    """Heads are slices in a loop, side by side at the end."""

    def one(self, q, k, v):
        return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(E), dim=-1) @ v

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.q(h), self.k(h), self.v(h)
        out = []
        for i in range(H):
            s = slice(i * E, (i + 1) * E)
            out.append(self.one(q[..., s], k[..., s], v[..., s]))
        return self.o(torch.cat(out, dim=-1))


class HeadLoopUnit(HeadLoop):
    """Queries and keys are made unit, with a temperature of its own."""

    def __init__(self):
        super().__init__()
        self.tau = nn.Parameter(torch.tensor(10.0))

    def one(self, q, k, v):
        q, k = (t / (t.norm(dim=-1, keepdim=True) + 1e-6) for t in (q, k))
        return F.softmax(q @ k.transpose(-2, -1) * self.tau, dim=-1) @ v


class Heads(OneHead):
    """Several heads by einops-like views."""

    def split(self, t):
        return t.view(*t.shape[:2], H, E).transpose(1, 2)

    def qkv(self, h):
        return (self.split(m(h)) for m in (self.q, self.k, self.v))

    def scores(self, q, k, h):
        return torch.matmul(q, k.mT) * E ** -0.5

    def weights(self, s):
        return torch.softmax(s, -1)

    def finish(self, y, h):
        return self.o(y.transpose(1, 2).reshape(*h.shape[:2], D))

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.qkv(h)
        return self.finish(self.weights(self.scores(q, k, h)) @ v, h)


class SoftmaxOverHeads(Heads):
    """dim=1 is the heads'."""

    def weights(self, s):
        return torch.softmax(s, dim=1)


class LargestScore(Heads):
    """Scores over the largest of their row, in absolute value."""

    def scores(self, q, k, h):
        s = q @ k.mT
        return 4.0 * s / s.abs().amax(-1, keepdim=True).clamp(min=1e-6)


class LargestScoreSigned(Heads):
    """... of which the sign was dropped too late."""

    def scores(self, q, k, h):
        s = q @ k.mT
        return 4.0 * s / s.amax(-1, keepdim=True).abs().clamp(min=1e-6)


class LogsumexpByHand(Heads):
    """e^(s - logsumexp s), of normed queries and keys."""

    def scores(self, q, k, h):
        return torch.einsum("bhie,bhje->bhij", rms(q), rms(k)) * E ** -0.5

    def weights(self, s):
        return torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True))


class GroupNormHeads(Heads):
    """Queries and keys by one group norm over all rows, a group a head."""

    def qkv(self, h):
        rows = lambda t: F.group_norm(t.reshape(-1, D), H).view_as(t)
        return self.split(rows(self.q(h))), self.split(rows(self.k(h))), self.split(self.v(h))


class GroupNormInterleaved(GroupNormHeads):
    """Heads are every fourth channel, groups are eight neighbours."""

    def split(self, t):
        return t.view(*t.shape[:2], E, H).permute(0, 3, 1, 2)

    def finish(self, y, h):
        return self.o(y.permute(0, 2, 3, 1).reshape(*h.shape[:2], D))


class CapThenTable(Heads):
    """A soft cap, then a trained table of distances."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2 * T - 1, H)
        i = torch.arange(T)
        self.register_buffer("distance", i[:, None] - i[None] + T - 1, persistent=False)

    def bias(self):
        return self.table(self.distance).permute(2, 0, 1)

    def scores(self, q, k, h):
        return 20.0 * torch.tanh(super().scores(q, k, h) / 20.0) + self.bias()


class TableThenCap(CapThenTable):
    """The table is inside."""

    def scores(self, q, k, h):
        return 20.0 * torch.tanh((Heads.scores(self, q, k, h) + self.bias()) / 20.0)


class TrainedFrequencies(Heads):
    """Rotary positions as complex numbers whose frequencies are trained, on normed queries and keys."""

    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(10.0 ** -torch.arange(0, 1.0, 2 / E))

    def turns(self, t):
        angle = torch.arange(t.shape[2], device=t.device).to(t.dtype)[:, None] * self.theta
        return torch.polar(torch.ones_like(angle), angle)

    def rope(self, t):
        z = torch.view_as_complex(rms(t).unflatten(-1, (E // 2, 2)).contiguous())
        return torch.view_as_real(z * self.turns(t)).flatten(-2)

    def qkv(self, h):
        q, k, v = super().qkv(h)
        return self.rope(q), self.rope(k), v


class TrainedLengths(TrainedFrequencies):
    """Their lengths are trained too."""

    def __init__(self):
        super().__init__()
        self.length = nn.Parameter(torch.ones(E // 2))

    def turns(self, t):
        return super().turns(t) * self.length


class ValueNormGate(Heads):
    """Values are normed and no map follows; a sigmoid gate of the normed stream."""

    def qkv(self, h):
        q, k, v = super().qkv(h)
        return q, k, rms(v)

    def gate(self, h):
        return torch.sigmoid(self.o(h))

    def finish(self, y, h):
        return y.transpose(1, 2).flatten(2) * self.gate(h)


class ValueNormGateSilu(ValueNormGate):
    """A SiLU gate."""

    def gate(self, h):
        return F.silu(self.o(h))


# ---- experts
class MoeDense(nn.Module):
    """All experts as one tensor; the best two of a softmax, made to sum to one."""

    def __init__(self, experts=4):
        super().__init__()
        self.norm, self.router = nn.RMSNorm(D), dense(D, experts)
        self.w1, self.w2 = param(experts, D, D), param(experts, D, D)

    def shares(self, h):
        top, index = self.router(h).softmax(-1).topk(2, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        return torch.zeros_like(self.router(h)).scatter(-1, index, top)

    def each(self, h):
        return torch.einsum("btef,efd->bted", F.relu(torch.einsum("btd,edf->btef", h, self.w1)), self.w2)

    def branch(self, x):
        h = self.norm(x)
        return torch.einsum("bte,bted->btd", self.shares(h), self.each(h))

    def forward(self, x):
        return x + self.branch(x)


class MoeSigmoidNormed(MoeDense):
    """Each expert is normed; shares are sigmoids that sum to what they may."""

    def shares(self, h):
        return torch.sigmoid(self.router(h))

    def each(self, h):
        return rms(super().each(h))


class MoeReluNormed(MoeSigmoidNormed):
    """Shares are ReLUs."""

    def shares(self, h):
        return F.relu(self.router(h))


# ---- recurrences
class SelectiveLog(nn.Module):
    """A selective diagonal recurrence in log space: sums of log decays, gated, projected."""

    def __init__(self):
        super().__init__()
        self.norm, self.inp, self.dt, self.out = nn.RMSNorm(D), dense(D, 2 * D), dense(D, D, True), dense(D, D)
        self.a_log = nn.Parameter(torch.log(torch.linspace(1.0, 8.0, D)))

    def branch(self, x):
        h = self.norm(x)
        u, z = self.inp(h).chunk(2, dim=-1)
        dt = F.softplus(self.dt(h))
        log_decay = torch.cumsum(-dt * self.a_log.exp(), dim=1)
        gap = (log_decay.unsqueeze(2) - log_decay.unsqueeze(1)).transpose(1, 3).transpose(2, 3)     # batch, channel, query, key
        kernel = gap.tril().exp().tril()
        y = torch.einsum("bdij,bjd->bid", kernel, dt * u)
        return self.out(y * F.silu(z))

    def forward(self, x):
        return x + self.branch(x)


class LinearAttentionNormed(Heads):
    """elu + 1 features, running sums, divided; the heads are normed, and no map follows."""

    def parts(self, h):
        q, k, v = self.qkv(h)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("bhte,bhtf->bhtef", k, v).cumsum(2)
        return torch.einsum("bhte,bhtef->bhtf", q, state), torch.einsum("bhte,bhte->bht", q, k.cumsum(2)).unsqueeze(-1)

    def branch(self, x):
        top, below = self.parts(self.norm(x))
        return rms(top / (below + 1e-6)).transpose(1, 2).flatten(2)


class LinearAttentionSlip(LinearAttentionNormed):
    """The norm stands before the division."""

    def branch(self, x):
        top, below = self.parts(self.norm(x))
        return (rms(top) / below).transpose(1, 2).flatten(2)


# ---- bounded and unbounded branches without attention
class NormOfSumThenSkip(nn.Module):
    """x + norm(x + f(norm(x))): a skip inside the branch, under its norm."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.LayerNorm(D), nn.LayerNorm(D)
        self.f1, self.f2 = dense(D, 2 * D, True), dense(2 * D, D, True)

    def branch(self, x):
        y = self.f2(F.gelu(self.f1(self.inner(x))))
        return self.outer(x + y)

    def forward(self, x):
        return x + self.branch(x)


class NormBesideSkip(NormOfSumThenSkip):
    """x + (x + norm(f(norm(x)))): the bracket went wrong."""

    def branch(self, x):
        return self.outer(self.f2(F.gelu(self.f1(self.inner(x)))))

    def forward(self, x):
        return x + (x + self.branch(x))


class TanhRaw(nn.Module):
    """x + tanh(Wx + b), without a norm."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = dense(D, D, True), dense(D, D, True)

    def branch(self, x):
        return torch.tanh(self.w2(F.relu(self.w1(x))))

    def forward(self, x):
        return x + self.branch(x)


class TanhInside(TanhRaw):
    """x + W2 tanh(W1 x)."""

    def branch(self, x):
        return self.w2(torch.tanh(self.w1(x)))


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_ATT = dict(_LIN, output_bounded={0: False}, softmax=True)
_NO, _YES = dict(_ATT, logits_bounded={0: False}), dict(_ATT, logits_bounded={0: True})
_FREE = dict(_LIN, output_bounded={0: False}, softmax=False)
_OUT = dict(_LIN, growth_all="linear", output_bounded={0: True}, softmax=False)
TRUTH = {
    "EinsumLayer": dict(_LIN, output_bounded={0: False, 1: False}, logits_bounded={0: False}, softmax=True, why="pre-norm.", tempts="no modules"),
    "EinsumPeri": dict(_LIN, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, softmax=True,
        why="all is normed.", tempts="no modules"),
    "EinsumPeriSlip": dict(_LIN, output_bounded={0: True, 1: False}, logits_bounded={0: True}, softmax=True,
        why="the raw one is added.", tempts="its norm is there"),
    "UnpackLoop": dict(_LIN, output_bounded={0: False, 1: False}, softmax=False, why="pre-norm.", tempts="-"),
    "UnpackLoopNormed": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="the skip is normed.", tempts="gain 1"),
    "BaddbmmSkip": dict(_NO, why="x + pv.", tempts="an op of its own"),
    "BaddbmmBeta": dict(_NO, identity_gain=0.9 ** 24, growth_fixed="bounded", why="0.9 x + pv.", tempts="gain 1"),
    "HeadLoop": dict(_NO, why="raw.", tempts="four softmaxes"),
    "HeadLoopUnit": dict(_YES, why="cosines.", tempts="slices"),
    "SoftmaxOverHeads": dict(_NO, why="raw.", tempts="an axis"),
    "LargestScore": dict(_YES, why="at most 4.", tempts="raw queries and keys"),
    "LargestScoreSigned": dict(_NO, why="the largest may be near 0 beside -1.", tempts="its twin"),
    "LogsumexpByHand": dict(_YES, why="QK-norm.", tempts="an exponential"),
    "GroupNormHeads": dict(_YES, why="a group a head.", tempts="another norm"),
    "GroupNormInterleaved": dict(_YES, why="parts of normed groups.", tempts="another head"),
    "CapThenTable": dict(_NO, why="the table is free.", tempts="a cap"),
    "TableThenCap": dict(_YES, why="20.", tempts="a table"),
    "TrainedFrequencies": dict(_YES, why="turns.", tempts="a trained tensor behind the norm"),
    "TrainedLengths": dict(_NO, why="free lengths.", tempts="turns"),
    "ValueNormGate": dict(_OUT, logits_bounded={0: False}, softmax=True, why="means of normed values, times less than one.", tempts="free maps"),
    "ValueNormGateSilu": dict(_NO, why="a SiLU has no upper end.", tempts="its twin"),
    "MoeDense": dict(_NO, why="a free map of a normed stream.", tempts="-"),
    "MoeSigmoidNormed": dict(_OUT, why="four normed experts, shares below one.", tempts="shares that do not sum to one"),
    "MoeReluNormed": dict(_FREE, why="shares without an upper end.", tempts="its twin"),
    "SelectiveLog": dict(_FREE, why="the stream is normed.", tempts="exponentials"),
    "LinearAttentionNormed": dict(_OUT, why="a norm ends it.", tempts="a divisor"),
    "LinearAttentionSlip": dict(_FREE, why="the divisor may be near 0.", tempts="its twin"),
    "NormOfSumThenSkip": dict(_OUT, why="the inner skip is normed.", tempts="gain 2"),
    "NormBesideSkip": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="2 x.", tempts="gain 1"),
    "TanhRaw": dict(_OUT, why="tanh.", tempts="no norm: exponential"),
    "TanhInside": dict(_FREE, why="tanh inside: bounded at fixed weights only.", tempts="no norm: exponential"),
}
