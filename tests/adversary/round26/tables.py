"""Pull requests on graphs as dense tensors, point sets, fields of recommenders, series, and agents."""

from collections import OrderedDict
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, N, T, H = 32, 8, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(226)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


def _ring(n):
    a = torch.zeros(n, n)
    i = torch.arange(n)
    a[i, (i + 1) % n] = a[(i + 1) % n, i] = 0.5
    return a


_X, _NODES, _FIELDS = _draw(2, T, D), _draw(2, N, D), _draw(2, 6, D)
example_inputs = {
    **{k: (_NODES, _ring(N)) for k in ("AdjacencyStep", "NeighbourSkipStep", "IsomorphismStep")},
    "EdgeGatedConv": (_NODES, _draw(2, N, N, D)),
    "OuterProductUpdate": (_draw(2, 5, N, D), _draw(2, N, N, 16)),
    "PointContext": (_draw(2, 20, D),),
    "TargetPooling": (_draw(2, D), _draw(2, 10, D)),
    **{k: (_FIELDS,) for k in ("ReweightedFields", "PairwiseFieldsLayer")},
    **{k: (_X,) for k in ("TrendSplitLayer", "StationaryUnit")},
    "BasisStack": (_draw(4, D), _draw(4, 8)),
    "GatedContextUnit": (_X, _draw(2, D)),
    "BroadCriticUnit": (_draw(4, D),),
    "StabilisedMemoryLayer": (_X, _draw(2, 8, D)),
    "DecisionTokens": (_draw(2, 15, D),),
}


def make(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, 0, i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def two_maps(i=D, h=64, o=D, act=nn.ReLU):
    return nn.Sequential(OrderedDict(up=make(i, h), act=act(), down=make(h, o)))


# ------------------------------------------------------------------ graphs
class AdjacencyStep(nn.Module):
    """Means over neighbours, with maps of their own for the node and for them."""

    def __init__(self):
        super().__init__()
        self.norm, self.own, self.other = nn.LayerNorm(D), make(D, D), make(D, D, bias=False)

    def message(self, h, adj):
        return F.relu(self.own(h) + torch.einsum("nm,bmd->bnd", adj, self.other(h)))

    def forward(self, x, adj):
        return x + self.message(self.norm(x), adj)


class NeighbourSkipStep(AdjacencyStep):
    """Residual messages: neighbours hand on what they hold, too, so that far nodes are reached in fewer layers."""

    def forward(self, x, adj):
        carried = torch.matmul(adj, x)
        x = x + self.message(self.norm(x), adj)
        return x.add(carried)


class IsomorphismStep(nn.Module):
    """Sums over neighbours, a net, a norm of the batch; a residual for depth."""

    def __init__(self):
        super().__init__()
        self.eps, self.net, self.bn = nn.Parameter(torch.zeros(1)), two_maps(), nn.BatchNorm1d(D)

    def forward(self, x, adj):
        agg = (1 + self.eps) * x + (adj > 0).to(x.dtype) @ x
        out = self.bn(self.net(agg).reshape(-1, D)).reshape(x.shape)
        return x + out


class EdgeGatedConv(nn.Module):
    """Edges have states; their sigmoids over the sum say how much of a neighbour comes in."""

    def __init__(self):
        super().__init__()
        self.maps = nn.ModuleDict({k: make(D, D, bias=k == "u") for k in ("a", "b", "c", "u", "v")})
        self.norm_h, self.norm_e = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, h, e):
        a, b, c, u, v = (self.maps[k] for k in ("a", "b", "c", "u", "v"))
        e_hat = a(h)[:, :, None] + b(h)[:, None] + c(e)
        eta = torch.sigmoid(e_hat)
        eta = eta / (eta.sum(dim=2, keepdim=True) + 1e-6)
        h_hat = u(h) + (eta * v(h)[:, None]).sum(2)
        return h + F.relu(self.norm_h(h_hat)), e + F.relu(self.norm_e(e_hat))


class OuterProductUpdate(nn.Module):
    """Rows attend with a bias of pairs; a mean of outer products goes to the pairs."""

    def __init__(self, c=8, z=16):
        super().__init__()
        self.norm_m, self.norm_z, self.norm_o, self.norm_t = nn.LayerNorm(D), nn.LayerNorm(z), nn.LayerNorm(D), nn.LayerNorm(z)
        self.qkv, self.bias, self.gate, self.out = make(D, 3 * D, bias=False), make(z, H, bias=False), make(D, D), make(D, D)
        self.left, self.right, self.to_pair = make(D, c), make(D, c), make(c * c, z)
        self.transition = two_maps(z, 32, z)

    def rows(self, m, z):
        q, k, v = self.qkv(m).unflatten(-1, (3, H, HD)).unbind(-3)
        s = torch.einsum("brihd,brjhd->brhij", q, k) / HD ** 0.5 + self.bias(z).permute(0, 3, 1, 2)[:, None]
        y = torch.einsum("brhij,brjhd->brihd", s.softmax(-1), v).flatten(-2)
        return self.out(torch.sigmoid(self.gate(m)) * y)

    def outer(self, m):
        o = torch.einsum("bric,brjd->bijcd", self.left(m), self.right(m)) / m.shape[1]
        return self.to_pair(o.flatten(-2))

    def forward(self, m, z):
        m = m + self.rows(self.norm_m(m), self.norm_z(z))
        z = z + self.outer(self.norm_o(m))
        z = z + self.transition(self.norm_t(z))
        return m, z


class PointContext(nn.Module):
    """Each point gets the mean of its cloud in front of the shared net."""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), two_maps(act=nn.GELU)

    def forward(self, pts):
        pts = pts + pts.mean(dim=1, keepdim=True)
        return pts + self.net(self.norm(pts))


# ------------------------------------------------------------------ recommenders
class TargetPooling(nn.Module):
    """A user is refined by a weighted sum of what was seen; weights come from a net and are not normalised."""

    def __init__(self):
        super().__init__()
        self.norm_u, self.norm_h = nn.LayerNorm(D), nn.LayerNorm(D)
        self.score, self.out = two_maps(4 * D, 32, 1, act=nn.Sigmoid), make(D, D)

    def forward(self, user, history):
        keys = self.norm_h(history)
        q = self.norm_u(user)[:, None].expand_as(keys)
        w = self.score(torch.cat([q, keys, q - keys, q * keys], dim=-1))
        pooled = torch.matmul(w.transpose(1, 2), keys).squeeze(1) / history.shape[1]
        return user + self.out(pooled)


class ReweightedFields(nn.Module):
    """Fields are weighed by what their means say, with a skip around the weights."""

    def __init__(self, fields=6, mid=12):
        super().__init__()
        self.excite = nn.Sequential(make(fields, mid), nn.ReLU(), make(mid, fields), nn.ReLU())
        self.norm, self.net = nn.LayerNorm(D), two_maps()

    def forward(self, v):
        a = self.excite(v.mean(dim=-1))
        v = v + v * a.unsqueeze(-1)
        return v + self.net(self.norm(v))


class PairwiseFieldsLayer(nn.Module):
    """All products of two fields, by the square of the sum; each field gets a map of its own of them."""

    def __init__(self, fields=6):
        super().__init__()
        self.norm, self.maps = nn.RMSNorm(D), nn.Parameter(torch.randn(fields, D, D) / D ** 0.5)

    def forward(self, v):
        h = self.norm(v)
        both = 0.5 * (h.sum(1).square() - h.square().sum(1)) / h.shape[1]
        return v + torch.einsum("bd,fde->bfe", both, self.maps)


# ------------------------------------------------------------------ series
class Moving(nn.Module):
    """Mean over five steps, with the ends repeated."""

    def __init__(self, k=5):
        super().__init__()
        self.k = k

    def forward(self, x):
        front, end = x[:, :1].repeat(1, self.k // 2, 1), x[:, -1:].repeat(1, self.k // 2, 1)
        return F.avg_pool1d(torch.cat([front, x, end], 1).transpose(1, 2), self.k, stride=1).transpose(1, 2)


class TrendSplitLayer(nn.Module):
    """Trend and season are normed and mapped apart."""

    def __init__(self):
        super().__init__()
        self.moving = Moving()
        self.norms = nn.ModuleDict({"trend": nn.LayerNorm(D), "season": nn.LayerNorm(D)})
        self.nets = nn.ModuleDict({"trend": make(D, D), "season": two_maps(act=nn.GELU)})

    def forward(self, x):
        trend = self.moving(x)
        parts = {"trend": trend, "season": x - trend}
        out = x
        for k, part in parts.items():
            out = out + self.nets[k](self.norms[k](part))
        return out


class Statistics(NamedTuple):
    mean: torch.Tensor
    std: torch.Tensor


class StationaryUnit(nn.Module):
    """Each unit works on a stationary series: level and spread are taken off in front and put back behind."""

    def __init__(self):
        super().__init__()
        self.net, self.mix = two_maps(act=nn.GELU), make(T, T)

    @staticmethod
    def statistics(x):
        return Statistics(x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt())

    def forward(self, x):
        s = self.statistics(x)
        h = (x - s.mean) / s.std
        h = self.mix(h.transpose(1, 2)).transpose(1, 2)
        y = self.net(h) * s.std + s.mean
        return x + y


class BasisStack(nn.Module):
    """A backcast is taken off what is left, a forecast is added to what is told."""

    def __init__(self, horizon=8, basis=6):
        super().__init__()
        self.norm, self.trunk, self.theta = nn.LayerNorm(D), two_maps(act=nn.ReLU), make(D, 2 * basis)
        t = torch.arange(D + horizon) / (D + horizon)
        self.register_buffer("basis", torch.stack([t ** i for i in range(basis)]))
        self.cut = [D, horizon]

    def forward(self, left, told):
        back, fore = self.theta(F.relu(self.trunk(self.norm(left)))).chunk(2, dim=-1)
        b, f = self.basis.split(self.cut, dim=1)
        return left - back @ b, told + fore @ f


class GatedContextUnit(nn.Module):
    """A gated residual network with a static context."""

    def __init__(self):
        super().__init__()
        self.w_x, self.w_c, self.w_2, self.glu, self.norm = make(D, D), make(D, D, bias=False), make(D, D), make(D, 2 * D), nn.LayerNorm(D)

    def forward(self, x, context):
        eta = F.elu(self.w_x(x) + self.w_c(context).unsqueeze(1))
        return self.norm(x + F.glu(self.glu(self.w_2(eta)), dim=-1))


# ------------------------------------------------------------------ agents
class BroadCriticUnit(nn.Module):
    """A wide critic's unit: a norm behind each map."""

    def __init__(self):
        super().__init__()
        self.dense_1, self.ln_1, self.dense_2, self.ln_2 = make(D, 2 * D), nn.LayerNorm(2 * D), make(2 * D, D), nn.LayerNorm(D)
        for m in (self.dense_1, self.dense_2):
            nn.init.orthogonal_(m.weight, gain=2 ** 0.5)

    def forward(self, z):
        r = F.relu(self.ln_1(self.dense_1(z)))
        r = self.ln_2(self.dense_2(r))
        return z + r


class GruGate(nn.Module):
    def __init__(self, bias=2.0):
        super().__init__()
        self.y, self.x = make(D, 3 * D, bias=False), make(D, 2 * D, bias=False)
        self.h = make(D, D, bias=False)
        self.bias = bias

    def forward(self, x, y):
        yr, yz, yh = self.y(y).chunk(3, -1)
        xr, xz = self.x(x).chunk(2, -1)
        r, z = torch.sigmoid(yr + xr), torch.sigmoid(yz + xz - self.bias)
        return (1 - z) * x + z * torch.tanh(yh + self.h(r * x))


class StabilisedMemoryLayer(nn.Module):
    """Gates of recurrent nets in the place of sums; segments before are read as a memory."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.gate1, self.gate2 = nn.LayerNorm(D), nn.LayerNorm(D), GruGate(), GruGate()
        self.attn, self.net = nn.MultiheadAttention(D, H, batch_first=True, bias=False), two_maps()

    def forward(self, x, memory):
        kv = self.norm1(torch.cat([memory, x], dim=1))
        y, _ = self.attn(kv[:, memory.size(1):], kv, kv, need_weights=False)
        x = self.gate1(x, F.relu(y))
        return self.gate2(x, F.relu(self.net(self.norm2(x))))


class DecisionTokens(nn.Module):
    """Returns, states and actions take turns; each has norms and a net of its own, attention is shared."""

    kinds = ("ret", "obs", "act")

    def __init__(self):
        super().__init__()
        self.norm_a = nn.ModuleDict({k: nn.LayerNorm(D) for k in self.kinds})
        self.norm_m = nn.ModuleDict({k: nn.LayerNorm(D) for k in self.kinds})
        self.nets = nn.ModuleDict({k: two_maps(act=nn.GELU) for k in self.kinds})
        self.qkv, self.out = make(D, 3 * D), make(D, D)

    def each(self, fns, x):
        parts = x.view(x.shape[0], -1, len(self.kinds), D).unbind(2)
        return torch.stack([fns[k](p) for k, p in zip(self.kinds, parts)], dim=2).view_as(x)

    def forward(self, x):
        q, k, v = self.qkv(self.each(self.norm_a, x)).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.each(self.nets, self.each(self.norm_m, x))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "AdjacencyStep": dict(_NET, **_ONE, sound=True, why="pre-norm; means of a norm."),
    "NeighbourSkipStep": dict(_EXP, softmax=False, why="the ring's matrix has the eigenvalue one: nodes that agree are doubled."),
    "IsomorphismStep": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch, in training."),
    "EdgeGatedConv": dict(_NET, output_bounded={0: True, 1: True}, growth_all="linear", sound=True, why="both branches end in norms."),
    "OuterProductUpdate": dict(_PRE, **_OPEN, sound=True, why="pre-norm; products of two functions of a norm."),
    "PointContext": dict(_EXP, identity_gain=2.0 ** 24, softmax=False, gradient_law="exponential", why="points that agree are doubled by their mean."),
    "TargetPooling": dict(_NET, **_ONE, sound=True, why="weights and keys are functions of norms; what was seen is the same in all layers."),
    "ReweightedFields": dict(_EXP, softmax=False, why="weights are of degree one in the fields, and fields are multiplied by them."),
    "PairwiseFieldsLayer": dict(_NET, **_ONE, sound=True, why="products of a norm."),
    "TrendSplitLayer": dict(_NET, **_TWO, sound=True, why="trend and season have norms."),
    "StationaryUnit": dict(_EXP, softmax=False, why="level and spread are put back on what is added: of degree one."),
    "BasisStack": dict(_NET, sound=True, why="both states have functions of a norm added."),
    "GatedContextUnit": dict(_LEVEL, growth_all="bounded", softmax=False, sound=True, why="post-norm."),
    "BroadCriticUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, gradient_law="power", why="the branch ends in a norm."),
    "StabilisedMemoryLayer": dict(_LEVEL, growth_all="bounded", gated=True, softmax=True, sound=True, why="a gated mean of the state and a tanh: never above the larger of the state and one."),
    "DecisionTokens": dict(_PRE, gradient_law="power", **_TWO, **_OPEN, sound=True, why="pre-norm, a norm a kind."),
}
