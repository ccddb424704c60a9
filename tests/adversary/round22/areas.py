"""Areas: graph layers with attention beside them, recommenders, series, learners by reinforcement, pictures in training form, splines, speech, adapters."""

from functools import partial
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def mlp(act=nn.ReLU, i=D, hidden=64):
    return nn.Sequential(lin(i, hidden), act(), lin(hidden, i))


def ring(n, device, dtype):
    """Means over two neighbours on a ring."""
    eye = torch.eye(n, device=device, dtype=dtype)
    return 0.5 * (eye.roll(1, 0) + eye.roll(-1, 0))


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj, self.out_proj = lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        q, k, v = self.in_proj(x).view(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class GraphAndGlobal(nn.Module):
    """Message passing and attention beside each other, each with its own residual and norm; the two are added, a net and a norm follow."""

    def __init__(self):
        super().__init__()
        self.local, self.attn, self.ff = lin(D, D), Attend(), mlp()
        self.norm1_local, self.norm1_attn, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)

    def messages(self, x):
        return F.relu(torch.einsum("ij,bjd->bid", ring(x.shape[1], x.device, x.dtype), self.local(x)))

    def forward(self, x):
        outs = [self.norm1_local(x + self.messages(x)), self.norm1_attn(x + self.attn(x))]
        h = sum(outs)
        return self.norm2(h + self.ff(h))


class GraphAndGlobalBare(GraphAndGlobal):
    """Norms moved in front, residuals of both left: the stream is in the sum twice."""

    def forward(self, x):
        outs = [x + self.messages(self.norm1_local(x)), x + self.attn(self.norm1_attn(x))]
        h = sum(outs)
        return h + self.ff(self.norm2(h))


class SoftAggregation(nn.Module):
    """Messages of neighbours are weighed by a softmax of themselves, a channel at a time; norm and ReLU in front."""

    def __init__(self):
        super().__init__()
        self.norm, self.net, self.t = nn.LayerNorm(D), mlp(), 1.0

    def forward(self, x):
        h = F.relu(self.norm(x))
        neighbours = torch.stack((h.roll(1, 1), h, h.roll(-1, 1)), dim=-1)
        m = neighbours + 1e-7
        w = torch.softmax(m * self.t, dim=-1)
        return x + self.net(h + (w * m).sum(-1))


class FilteredAtoms(nn.Module):
    """A filter of fixed distances over all atoms, shifted softplus, no norm at all."""

    def __init__(self):
        super().__init__()
        self.lin1, self.lin2, self.lin3 = lin(D, D), lin(D, D), lin(D, D)
        self.register_buffer("weights", torch.exp(-0.5 * (torch.arange(T)[:, None] - torch.arange(T)[None, :]).square()) / 2.5)

    def forward(self, x):
        h = torch.einsum("ij,bjd->bid", self.weights, self.lin1(x))
        return x + self.lin3(F.softplus(self.lin2(h)) - 0.6931471805599453)


class Interacting(nn.Module):
    """Fields attend, a map of them is the residual, and a ReLU of the sum: no norm."""

    def __init__(self):
        super().__init__()
        self.attn, self.res = Attend(), lin(D, D)

    def forward(self, x):
        return F.relu(self.attn(x) + self.res(x))


class FactorLayer(nn.Module):
    """Pairwise products of fields by a low rank, a net of them, and a linear mix of fields beside; norm of the sum."""

    def __init__(self):
        super().__init__()
        self.y, self.mix, self.net, self.norm = nn.Parameter(torch.randn(T, 4) * T ** -0.5), nn.Parameter(torch.randn(T, T) * T ** -0.5), mlp(i=T * 4, hidden=32), nn.LayerNorm(D)
        self.back, self.inner = lin(T * 4, T * D), nn.LayerNorm(T * 4)

    def parts(self, x):
        fm = x @ (x.mT @ self.y)
        fmb = self.back(self.net(self.inner(fm.flatten(1)))).view_as(x)
        return fmb, torch.einsum("st,btd->bsd", self.mix, x)

    def forward(self, x):
        fmb, lcb = self.parts(x)
        return self.norm(fmb + lcb + x)


class FactorLayerNormOfProducts(FactorLayer):
    """The norm of the sum is left out; products have one, the linear mix has none."""

    def forward(self, x):
        fmb, lcb = self.parts(x)
        return fmb + lcb + x


class SeriesMixer(nn.Module):
    """Over time, then over channels, each behind a norm of both."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.time, self.feature = nn.LayerNorm((T, D)), nn.LayerNorm((T, D)), lin(T, T), mlp()

    def forward(self, x):
        x = x + F.relu(self.time(self.norm1(x).mT)).mT
        return x + self.feature(self.norm2(x))


class SeriesMixerRawTime(SeriesMixer):
    """The norm's result is the residual's and not the branch's name."""

    def forward(self, x):
        _ = self.norm1(x)
        x = x + F.relu(self.time(x.mT)).mT
        return x + self.feature(self.norm2(x))


class Inverted(nn.Module):
    """Channels are tokens: attention among them, each embedded by its own time; post-norm along time."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.norm1, self.norm2, self.ff = lin(T, T), lin(T, T), lin(T, T), lin(T, T), nn.LayerNorm(T), nn.LayerNorm(T), mlp(nn.GELU, i=T, hidden=32)

    def forward(self, x):
        z = x.permute(0, 2, 1)
        a = torch.baddbmm(torch.zeros(1, 1, 1, device=x.device, dtype=x.dtype), self.q(z), self.k(z).mT, alpha=T ** -0.5).softmax(-1)
        z = self.norm1(z + self.o(a @ self.v(z)))
        z = self.norm2(z + self.ff(z))
        return z.permute(0, 2, 1)


class RowsAmongRows(nn.Module):
    """Rows of a table attend to rows of the batch, flattened over their features, behind a norm of each feature."""

    def __init__(self):
        super().__init__()
        self.norm, self.qk, self.v = nn.LayerNorm(D), lin(T * D, 2 * D), lin(D, D)

    def forward(self, x):
        h = self.norm(x)
        q, k = self.qk(h.flatten(1)).chunk(2, -1)
        w = torch.softmax(q @ k.T / D ** 0.5, dim=-1)
        return x + torch.einsum("nm,mtd->ntd", w, self.v(h))


class Critic(nn.Module):
    """Two maps, each with a norm behind it; the stream is read raw."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, D), nn.LayerNorm(D))

    def forward(self, x):
        return x + self.net(x)


class CriticInnerLost(Critic):
    """The inner norm is lost; the last one bounds it all the same."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 64), nn.ReLU(), nn.Linear(64, D), nn.LayerNorm(D))


class CriticLastLost(Critic):
    """The last norm is lost; a map of a normed ReLU is left."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, D))


class CriticBothLost(Critic):
    """Both are lost."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D))


class PolicyConv(nn.Module):
    """Convolution, group norm, Mish, twice; a condition scales and shifts in between; the input is added."""

    def __init__(self):
        super().__init__()
        block = partial(nn.Conv1d, D, D, 5, padding=2)
        self.a, self.b, self.na, self.nb, self.cond = block(), block(), nn.GroupNorm(4, D), nn.GroupNorm(4, D), nn.Parameter(torch.zeros(2, D, 1))

    def forward(self, x):
        h = x.mT
        y = F.mish(self.na(self.a(h)))
        y = y * (1 + self.cond[0]) + self.cond[1]
        y = F.mish(self.nb(self.b(y)))
        return (h + y).mT


class PolicyConvOnSum(PolicyConv):
    """The condition scales the sum, and starts at 0.03."""

    def __init__(self):
        super().__init__()
        self.cond = nn.Parameter(torch.full((2, D, 1), 0.03))

    def forward(self, x):
        h = x.mT
        y = F.mish(self.nb(self.b(F.mish(self.na(self.a(h))))))
        return ((h + y) * (1 + self.cond[0]) + self.cond[1]).mT


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return torch.addcmul(self.beta, self.alpha, x)


class AffineMlp(nn.Module):
    """An affine map stands where norms do; a map over places and a net, each by a scale of a tenth."""

    def __init__(self):
        super().__init__()
        self.pre1, self.pre2, self.linear, self.ff = Affine(), Affine(), lin(T, T), mlp(nn.GELU)
        self.gamma_1, self.gamma_2 = (nn.Parameter(0.1 * torch.ones(D)) for _ in range(2))

    def forward(self, x):
        x = x + self.gamma_1 * self.linear(self.pre1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.gamma_2 * self.ff(self.pre2(x))


class Reparametrised(nn.Module):
    """Training form: a wide filter, a pointwise map and the identity, each with a batch norm, summed, and a ReLU."""

    def __init__(self):
        super().__init__()
        self.dense, self.pointwise = nn.Conv1d(D, D, 3, padding=1, bias=False), nn.Conv1d(D, D, 1, bias=False)
        self.bns = nn.ModuleDict({k: nn.BatchNorm1d(D, track_running_stats=False) for k in ("dense", "pointwise", "identity")})

    def identity(self, h):
        return self.bns["identity"](h)

    def forward(self, x):
        h = x.mT
        return F.relu(self.bns["dense"](self.dense(h)) + self.bns["pointwise"](self.pointwise(h)) + self.identity(h)).mT


class ReparametrisedRaw(Reparametrised):
    """The identity has no batch norm."""

    def identity(self, h):
        return h


class Modulated(nn.Module):
    """Focal contexts of growing filters, gated, times a query; behind a norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.f, self.h, self.o = nn.LayerNorm(D), lin(D, 2 * D + 3), nn.Conv1d(D, D, 1), lin(D, D)
        self.layers = nn.ModuleList(nn.Conv1d(D, D, k, padding=k // 2, groups=D, bias=False) for k in (3, 5))

    def forward(self, x):
        q, ctx, gates = torch.split(self.f(self.norm(x)), (D, D, 3), dim=-1)
        ctx, gates, total = ctx.mT, gates.mT, 0
        for level, layer in enumerate(self.layers):
            ctx = F.gelu(layer(ctx))
            total = total + ctx * gates[:, level:level + 1]
        total = total + F.gelu(ctx.mean(-1, keepdim=True)) * gates[:, 2:]
        return x + self.o(q * self.h(total).mT)


class RadialNet(nn.Module):
    """Gaussians on a grid of each channel and a map of them: bounded values of the raw stream."""

    def __init__(self):
        super().__init__()
        self.spline = lin(D * 8, D)
        self.register_buffer("grid", torch.linspace(-2.0, 2.0, 8))

    def basis(self, x):
        return torch.exp(-((x[..., None] - self.grid) / (4 / 7)) ** 2).flatten(-2)

    def forward(self, x):
        return x + self.spline(self.basis(x))


class RadialNetBase(RadialNet):
    """With the base map of SiLU beside, which is of degree one."""

    def __init__(self):
        super().__init__()
        self.base = lin(D, D)

    def forward(self, x):
        return x + self.spline(self.basis(x)) + self.base(F.silu(x))


class TwoBranches(nn.Module):
    """Half a net, attention and a gated filter joined by a depthwise filter, half a net, a norm."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4, self.nf = (nn.LayerNorm(D) for _ in range(5))
        self.ff1, self.ff2, self.attn, self.up, self.gate_norm, self.down = mlp(nn.SiLU), mlp(nn.SiLU), Attend(), lin(D, 64), nn.LayerNorm(D), lin(D, D)
        self.dw, self.joined_dw, self.join = nn.Conv1d(D, D, 3, padding=1, groups=D), nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D), lin(2 * D, D)

    def cgmlp(self, x):
        a, b = F.gelu(self.up(x)).chunk(2, -1)
        return self.down(a * self.dw(self.gate_norm(b).mT).mT)

    def last(self, x):
        return self.nf(x)

    def forward(self, x):
        x = x + 0.5 * self.ff1(self.n1(x))
        both = torch.cat((self.attn(self.n2(x)), self.cgmlp(self.n3(x))), dim=-1)
        x = x + self.join(both + self.joined_dw(both.mT).mT)
        x = x + 0.5 * self.ff2(self.n4(x))
        return self.last(x)


class TwoBranchesOpen(TwoBranches):
    """Without the last norm."""

    def last(self, x):
        return x


class Bypass(nn.Module):
    """Modules without norms, a norm of the sum by the length of what a bias is taken from, then half of the way from what came in."""

    def __init__(self):
        super().__init__()
        self.ff, self.conv, self.bias, self.log_scale, self.bypass_scale = mlp(nn.SiLU), nn.Conv1d(D, D, 3, padding=1, groups=D), nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(())), nn.Parameter(torch.full((D,), 0.5))

    def normed(self, x):
        return x * (x - self.bias).square().mean(-1, keepdim=True).rsqrt() * self.log_scale.exp()

    def forward(self, src):
        x = src + self.ff(src)
        x = x + self.conv(x.mT).mT
        x = self.normed(x)
        return src + (x - src) * self.bypass_scale


class BypassNormLost(Bypass):
    """The norm is lost: half of the way to a sum of degree one."""

    def normed(self, x):
        return x


class ProductKeys(nn.Module):
    """Two halves of a query choose four of eight keys each; sixteen pairs, four of them, shares of their values."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.keys, self.values = nn.RMSNorm(D), lin(D, D), nn.Parameter(torch.randn(2, 8, D // 2) * 0.25), nn.Embedding(64, D)

    def forward(self, x):
        q = F.layer_norm(self.q(self.norm(x)), (D,)).unflatten(-1, (2, D // 2))
        (s1, i1), (s2, i2) = (torch.einsum("btd,nd->btn", q[..., n, :], self.keys[n]).topk(4, -1) for n in range(2))
        s, i = (s1.unsqueeze(-1) + s2.unsqueeze(-2)).flatten(-2), (i1.unsqueeze(-1) * 8 + i2.unsqueeze(-2)).flatten(-2)
        s, at = s.topk(4, -1)
        return x + (s.softmax(-1).unsqueeze(-1) * self.values(i.gather(-1, at))).sum(-2)


class AdapterInside(nn.Module):
    """Behind each branch an adapter with a skip of its own, and a post-norm."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff, self.norms = Attend(), mlp(nn.GELU), nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.adapters = nn.ModuleList(mlp(nn.GELU, hidden=8) for _ in range(2))

    def adapted(self, n, y):
        return y + self.adapters[n](y)

    def forward(self, x):
        for n, branch in enumerate((self.attn, self.ff)):
            x = self.norms[n](x + self.adapted(n, branch(x)))
        return x


class AdapterOnStream(AdapterInside):
    """The adapter stands on the sum and nothing is normed behind; branches read a norm."""

    def forward(self, x):
        for n, branch in enumerate((self.attn, self.ff)):
            x = x + branch(self.norms[n](x))
            x = self.adapted(n, x)
        return x


class Flipped(nn.Module):
    """Channels are turned around in every block, as between couplings."""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), mlp()

    def order(self, x):
        return x.flip(-1)

    def forward(self, x):
        return self.order(x) + self.net(self.norm(x))


class FlippedTwiceTheSame(Flipped):
    """An index that is no permutation: even channels twice, odd ones never."""

    def order(self, x):
        return x[..., torch.arange(D, device=x.device) // 2 * 2]


class Half(NamedTuple):
    kept: torch.Tensor
    changed: torch.Tensor


class Couplings(nn.Module):
    """Affine couplings of a flow: one half is scaled by an exponent of a clamped net of the other, the halves are swapped."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(lin(D // 2, 64), nn.ReLU(), lin(64, D))

    def scale(self, s):
        return torch.exp(0.1 * torch.tanh(s))

    def halves(self, x):
        return Half(*x.chunk(2, -1))

    def forward(self, x):
        h = self.halves(x)
        s, t = self.net(F.layer_norm(h.kept, (D // 2,))).chunk(2, -1)
        return torch.cat((h.changed * self.scale(s) + t, h.kept), -1)


class CouplingsAlwaysLonger(Couplings):
    """A sigmoid in place of the tanh: from 1 to 1.1, never below."""

    def scale(self, s):
        return torch.exp(0.1 * torch.sigmoid(s))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_RAW = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_ON = dict(kind="block", growth_fixed="bounded", growth_all="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_IN = dict(output_bounded={0: True}, growth_all="linear")
TRUTH = {
    "GraphAndGlobal": dict(_ON, softmax=True, sound=True, why="ends in a norm."),
    "GraphAndGlobalBare": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=True, gradient_law="exponential", sound=False, why="the stream twice."),
    "SoftAggregation": dict(_PRE, **_ONE, sound=True, why="pre-norm."),
    "FilteredAtoms": dict(_RAW, **_ONE, why="of degree one."),
    "Interacting": dict(kind="block", softmax=True, sound=False, why="a map of the stream and shares of values, a ReLU: of degree one."),
    "FactorLayer": dict(_ON, softmax=False, sound=True, why="ends in a norm."),
    "FactorLayerNormOfProducts": dict(_RAW, why="a linear mix of the stream is added."),
    "SeriesMixer": dict(_NET, **_TWO, sound=True, why="pre-norm."),
    "SeriesMixerRawTime": dict(_RAW, **_TWO, why="of degree one."),
    "Inverted": dict(_ON, softmax=True, sound=True, why="ends in a norm along time."),
    "RowsAmongRows": dict(_PRE, **_ONE, logits_bounded={0: False}, sound=True, why="pre-norm."),
    "Critic": dict(_NET, **_IN, sound=True, why="normed behind."),
    "CriticInnerLost": dict(_NET, **_IN, sound=False, why="normed behind."),
    "CriticLastLost": dict(_NET, **_ONE, sound=False, why="a map of what is normed."),
    "CriticBothLost": dict(_RAW, **_ONE, why="of degree one."),
    "PolicyConv": dict(_NET, **_IN, sound=True, why="a Mish of a norm."),
    "PolicyConvOnSum": dict(kind="block", identity_gain=1.03 ** 24, growth_fixed="exponential", softmax=False, sound=False, why="1.03 a block."),
    "AffineMlp": dict(_RAW, **_TWO, why="of degree one, by a tenth."),
    "Reparametrised": dict(_ON, softmax=False, sound=True, why="three normed values."),
    "ReparametrisedRaw": dict(_NET, growth_all="linear", gradient_law="power", sound=False, why="two normed values are added; a ReLU gives one."),
    "Modulated": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "RadialNet": dict(_NET, **_ONE, sound=False, why="values between 0 and 1, through a map."),
    "RadialNetBase": dict(_RAW, why="SiLU of the stream, through a map."),
    "TwoBranches": dict(_ON, softmax=True, sound=True, why="ends in a norm."),
    "TwoBranchesOpen": dict(_PRE, sound=False, why="pre-norm."),
    "Bypass": dict(kind="block", identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=False, sound=True, why="half of what came in and half of what is normed."),
    "BypassNormLost": dict(_RAW, why="of degree one."),
    "ProductKeys": dict(_PRE, **_ONE, sound=True, why="shares of a table."),
    "AdapterInside": dict(_ON, softmax=True, sound=True, why="ends in a norm."),
    "AdapterOnStream": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="a raw net of degree one on the sum."),
    "Flipped": dict(_NET, **_ONE, sound=True, why="a permutation."),
    "FlippedTwiceTheSame": dict(_NET | dict(identity_gain=2.0 ** 0.5), **_ONE, sound=False, why="even channels twice, once for all."),
    "Couplings": dict(kind="block", gated=True, softmax=False, sound=True, why="scales are made from the data."),
    "CouplingsAlwaysLonger": dict(kind="block", gated=True, growth_fixed="exponential", softmax=False, sound=False, why="about 1.05 each second block."),
}
