"""Graphs with states of edges, tables, sets, recommenders, series, critics: two tensors through one block, batch norms over rows, pointwise attention."""

from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 40
HD = D // H

_G = torch.Generator().manual_seed(23)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _ROWS = _draw(2, T, D), _draw(24, D)
_SRC, _DST = torch.arange(E) % T, (torch.arange(E) * 7 + 3) % T


class Graph(NamedTuple):
    """Values of nodes and of edges, and who is joined to whom."""

    node: torch.Tensor
    edge: torch.Tensor
    index: torch.Tensor


_GRAPH = Graph(_draw(T, D), _draw(E, D), torch.stack((_SRC, _DST)))
example_inputs = {
    **{k: (_GRAPH,) for k in ("MeshStep", "MeshStepNodeBare", "MeshStepNormOfSum")},
    **{k: (_draw(T, D), _draw(E, D), torch.stack((_SRC, _DST))) for k in ("GatedGraph", "GatedGraphNoDivisor")},
    **{k: (_draw(T, D), torch.stack((_SRC, _DST))) for k in ("ManyAggregators", "AttendOverEdges", "AttendOverEdgesRaw")},
    **{k: (_ROWS,) for k in ("TableResidual", "TableResidualOnNorm", "GatedHalves", "GatedHalvesNoRoot", "SphericalCritic", "SphericalCriticScaleOutside", "WideCritic", "WideCriticReadsNorm", "PiecewiseRows", "CrossInEachLayer")},
    **{k: (_X,) for k in ("PointwiseAttention", "PointwiseAttentionRaw", "SetBlock", "SetBlockBare", "DenseSeries", "ShrunkenResidual", "StarOfSeries", "TwoWayTable")},
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def build_mlp(i, o=D, hidden=64, norm=True):
    net = nn.Sequential(lin(i, hidden, True), nn.ReLU(), lin(hidden, o, True))
    return nn.Sequential(net, nn.LayerNorm(o)) if norm else net


class MeshStep(nn.Module):
    """A simulator's step: edges read both ends, nodes read sums of edges, each net ends in a norm, both are residual; raw values are read."""

    def __init__(self):
        super().__init__()
        self.edge_fn, self.node_fn = build_mlp(3 * D), build_mlp(2 * D)

    def messages(self, g):
        src, dst = g.index
        return self.edge_fn(torch.cat((g.node[src], g.node[dst], g.edge), -1))

    def gathered(self, g, edge):
        return self.node_fn(torch.cat((g.node, torch.zeros_like(g.node).index_add(0, g.index[1], edge)), -1))

    def forward(self, g):
        edge = self.messages(g)
        node = self.gathered(g, edge)
        return g._replace(node=g.node + node, edge=g.edge + edge)


class MeshStepNodeBare(MeshStep):
    """The builder of the node's net is called without its norm."""

    def __init__(self):
        super().__init__()
        self.node_fn = build_mlp(2 * D, norm=False)


class MeshStepNormOfSum(MeshStep):
    """Norms are of sums: nets are bare, and what is carried is normed."""

    def __init__(self):
        super().__init__()
        self.edge_fn, self.node_fn = build_mlp(3 * D, norm=False), build_mlp(2 * D, norm=False)
        self.edge_norm, self.node_norm = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, g):
        edge = self.messages(g)
        node = self.gathered(g, edge)
        return Graph(node=self.node_norm(g.node + node), edge=self.edge_norm(g.edge + edge), index=g.index)


class GatedGraph(nn.Module):
    """Edges gate messages by sigmoids that are shares of their sum; batch norm and ReLU behind each, both residual."""

    def __init__(self):
        super().__init__()
        self.A, self.B, self.C, self.U, self.V = (lin(D, D, True) for _ in range(5))
        self.bn_node_h, self.bn_node_e = nn.BatchNorm1d(D), nn.BatchNorm1d(D)

    def gates(self, e, dst, like):
        s = torch.sigmoid(e)
        total = torch.zeros_like(like).index_add(0, dst, s)
        return s / (total[dst] + 1e-6)

    def forward(self, h, e, index):
        src, dst = index
        e_new = self.C(e) + self.A(h)[src] + self.B(h)[dst]
        message = self.gates(e_new, dst, h) * self.V(h)[src]
        h_new = self.U(h) + torch.zeros_like(h).index_add(0, dst, message)
        return h + F.relu(self.bn_node_h(h_new)), e + F.relu(self.bn_node_e(e_new))


class GatedGraphNoDivisor(GatedGraph):
    """Gates are not divided by their sum: the norm behind takes it away."""

    def gates(self, e, dst, like):
        return torch.sigmoid(e)


class ManyAggregators(nn.Module):
    """Mean, largest, smallest and deviation over neighbours, each as it is and scaled by logs of degrees, through a map, a batch norm and a ReLU."""

    def __init__(self):
        super().__init__()
        self.pre, self.post, self.bn = lin(2 * D, D, True), lin(9 * D, D, True), nn.BatchNorm1d(D)

    def forward(self, x, index):
        src, dst = index
        m = self.pre(torch.cat((x[dst], x[src]), -1))
        at, zero = dst[:, None].expand_as(m), torch.zeros_like(x)
        deg = torch.zeros(x.shape[0], device=x.device, dtype=x.dtype).index_add(0, dst, torch.ones_like(dst, dtype=x.dtype)).clamp(min=1)[:, None]
        mean = zero.scatter_add(0, at, m) / deg
        square = zero.scatter_add(0, at, m * m) / deg
        std = (F.relu(square - mean * mean) + 1e-5).sqrt()
        low, high = (zero.scatter_reduce(0, at, m, reduce=r, include_self=False) for r in ("amin", "amax"))
        out = torch.cat((mean, low, high, std), -1)
        amplify = (deg + 1).log() / 1.2
        out = torch.cat((x, out, out * amplify), -1)
        return x + F.relu(self.bn(self.post(out)))


class AttendOverEdges(nn.Module):
    """Edges' logits become shares over those that end in one node, by exponents less their largest; norm in front, a learned share of the root of two beta."""

    softmax_by_hand = True

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.skip, self.beta = nn.LayerNorm(D), lin(D, D), lin(D, D), lin(D, D), lin(D, D), lin(3 * D, 1)

    def shares(self, a, dst, n):
        at = dst[:, None].expand_as(a)
        top = torch.full((n, H), float("-inf"), device=a.device, dtype=a.dtype).scatter_reduce(0, at, a, reduce="amax")
        e = (a - top[dst]).exp()
        return e / (torch.zeros(n, H, device=a.device, dtype=a.dtype).index_add(0, dst, e)[dst] + 1e-16)

    def branch(self, h, index):
        src, dst = index
        q, k, v = (m(h).view(-1, H, HD) for m in (self.q, self.k, self.v))
        w = self.shares((q[dst] * k[src]).sum(-1) / HD ** 0.5, dst, h.shape[0])
        out = torch.zeros_like(v).index_add(0, dst, w[..., None] * v[src]).flatten(1)
        r = self.skip(h)
        b = torch.sigmoid(self.beta(torch.cat((out, r, out - r), -1)))
        return b * r + (1 - b) * out

    def forward(self, x, index):
        return x + F.gelu(self.branch(self.norm(x), index))


class AttendOverEdgesRaw(AttendOverEdges):
    """The norm is given its argument and its result is dropped."""

    def forward(self, x, index):
        self.norm(x)
        return x + F.gelu(self.branch(x, index))


class TableResidual(nn.Module):
    """A batch norm over rows, two maps with dropout, and the add."""

    def __init__(self):
        super().__init__()
        self.normalization, self.linear_first, self.linear_second, self.dropout_first, self.dropout_second = nn.BatchNorm1d(D), lin(D, 64, True), lin(64, D, True), nn.Dropout(0.0), nn.Dropout(0.0)

    def forward(self, x):
        x_input = x
        x = self.normalization(x)
        x = self.linear_first(x)
        x = F.relu(x)
        x = self.dropout_first(x)
        x = self.linear_second(x)
        x = self.dropout_second(x)
        x = x_input + x
        return x


class TableResidualOnNorm(TableResidual):
    """The copy is taken a line too late."""

    def forward(self, x):
        x = self.normalization(x)
        x_input = x
        x = self.dropout_first(F.relu(self.linear_first(x)))
        x = self.dropout_second(self.linear_second(x))
        return x_input + x


class GatedHalves(nn.Module):
    """A map, a batch norm, a gated half, the add, and a root of a half."""

    scale = 0.5 ** 0.5

    def __init__(self):
        super().__init__()
        self.fc, self.bn = lin(D, 2 * D), nn.BatchNorm1d(2 * D)

    def forward(self, x):
        a, b = self.bn(self.fc(x)).chunk(2, dim=1)
        return (x + a * torch.sigmoid(b)) * self.scale


class GatedHalvesNoRoot(GatedHalves):
    """The root is lost."""

    scale = 1.0


class SphericalCritic(nn.Module):
    """A step on the sphere towards what a net gives, by learned shares; weights of unit rows, and a scale of their answers."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(4 * D, D)), nn.Parameter(torch.randn(D, 4 * D))
        self.scaler, self.alpha = nn.Parameter(torch.full((4 * D,), (2 / D) ** 0.5)), nn.Parameter(torch.full((D,), 1 / 9))

    def net(self, x):
        h = F.linear(x, F.normalize(self.w1, dim=-1)) * self.scaler * D ** 0.5
        return F.normalize(F.linear(F.relu(h), F.normalize(self.w2, dim=-1)), dim=-1)

    def forward(self, x):
        residual = x
        x = self.net(x)
        x = residual + self.alpha * (x - residual)
        return F.normalize(x, dim=-1)


class SphericalCriticScaleOutside(SphericalCritic):
    """Neither the net's nor the last normalisation: a share of the stream and a share of a net of degree one, which a scale makes larger."""

    def net(self, x):
        h = F.linear(x, F.normalize(self.w1, dim=-1)) * 3.0
        return F.linear(F.relu(h), F.normalize(self.w2, dim=-1)) * 3.0

    def forward(self, x):
        return x + self.alpha * (self.net(x) - x)


class WideCritic(nn.Module):
    """Two maps, each with a norm behind; the last norm is what is added."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(D, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, D), nn.LayerNorm(D))

    def forward(self, x):
        out = x
        for layer in self.layers:
            out = layer(out)
        return torch.stack((x, out)).sum(0)


class WideCriticReadsNorm(WideCritic):
    """An index one too short: the last norm is not applied."""

    def forward(self, x):
        out = x
        for layer in self.layers[:-1]:
            out = layer(out)
        return torch.stack((x, out)).sum(0)


class PiecewiseRows(nn.Module):
    """Distances to learned rows of a table, as shares, weigh values of those rows; norm in front."""

    def __init__(self, n=20):
        super().__init__()
        self.norm, self.keys, self.values, self.t = nn.LayerNorm(D), nn.Parameter(torch.randn(n, D)), nn.Parameter(torch.randn(n, D)), lin(D, D)

    def forward(self, x):
        k = self.norm(x)
        probs = F.softmax(-torch.cdist(k, self.keys).square(), dim=-1)
        difference = probs @ self.values + self.t(k) - probs @ self.t(self.keys)
        return x + difference


class CrossInEachLayer(nn.Module):
    """A bit of the data crosses with itself: the normed row times a low-rank map of it."""

    def __init__(self):
        super().__init__()
        self.norm, self.v, self.u = nn.LayerNorm(D), lin(D, 8), lin(8, D, True)

    def forward(self, x):
        h = self.norm(x)
        return torch.addcmul(x, h, self.u(self.v(h)))


class PointwiseAttention(nn.Module):
    """Pointwise attention of a sequence of actions: SiLU of scores over the length and of all maps; what is summed is normed and multiplied by a gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.f1, self.f2, self.out_norm = nn.LayerNorm(D, eps=1e-6), lin(D, 4 * D), lin(D, D), nn.LayerNorm(D, eps=1e-6)
        self.rel = nn.Parameter(torch.randn(2 * T - 1) * 0.02)

    def branch(self, h):
        u, v, q, k = F.silu(self.f1(h)).split(D, -1)
        q, k, v = (t.unflatten(-1, (H, HD)) for t in (q, k, v))
        n = h.shape[1]
        at = torch.arange(n, device=h.device)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) + self.rel[at[None] - at[:, None] + n - 1]
        a = F.silu(scores) / n * torch.ones(n, n, device=h.device, dtype=h.dtype).tril()
        y = torch.einsum("bhnm,bmhd->bnhd", a, v).flatten(2)
        return self.f2(u * self.out_norm(y))

    def forward(self, x):
        return self.branch(self.norm(x)) + x


class PointwiseAttentionRaw(PointwiseAttention):
    """The first norm is lost: the gate is of degree one, what is normed of degree zero."""

    def forward(self, x):
        return self.branch(x) + x


class SetBlock(nn.Module):
    """A set attends to itself: the residual is the query, a norm behind each sum."""

    normed = True

    def __init__(self):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (lin(D, D, True) for _ in range(4))
        if self.normed:
            self.ln0, self.ln1 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        q, k, v = self.fc_q(x), self.fc_k(x), self.fc_v(x)
        q_, k_, v_ = (torch.cat(t.split(HD, 2), 0) for t in (q, k, v))
        a = torch.softmax(q_.bmm(k_.transpose(1, 2)) / D ** 0.5, 2)
        o = torch.cat((q_ + a.bmm(v_)).split(x.size(0), 0), 2)
        o = o if getattr(self, "ln0", None) is None else self.ln0(o)
        o = o + F.relu(self.fc_o(o))
        return o if getattr(self, "ln1", None) is None else self.ln1(o)


class SetBlockBare(SetBlock):
    """The flag for norms is off, as it is by default in the open file."""

    normed = False


class DenseSeries(nn.Module):
    """A net of one hidden layer and a linear skip; a norm of the sum."""

    def __init__(self):
        super().__init__()
        self.dense1, self.dense2, self.skip, self.layer_norm = lin(D, 64, True), lin(64, D, True), lin(D, D, True), nn.LayerNorm(D)

    def forward(self, x):
        return self.layer_norm(self.dense2(F.relu(self.dense1(x))) + self.skip(x))


class ShrunkenResidual(nn.Module):
    """A residual unit of a deep shrinkage net: thresholds made from mean sizes are taken from what is normed, softly."""

    def __init__(self):
        super().__init__()
        self.norm, self.w1, self.w2, self.fc = nn.LayerNorm(D), lin(D, D), lin(D, D), nn.Sequential(lin(D, D), nn.ReLU(), lin(D, D), nn.Sigmoid())

    def forward(self, x):
        r = self.w2(F.relu(self.w1(self.norm(x))))
        size = r.abs()
        average = size.mean(1)
        threshold = (average * self.fc(average)).unsqueeze(1)
        zeros = size - size
        return x + torch.sign(r) * torch.max(size - threshold, zeros)


class StarOfSeries(nn.Module):
    """Series give to one core, by shares along the series' axis, and read it back; a norm behind the sum, a net, a norm."""

    def __init__(self):
        super().__init__()
        self.gen1, self.gen2, self.gen3, self.gen4 = lin(D, D, True), lin(D, 8, True), lin(D + 8, D, True), lin(D, D, True)
        self.norm1, self.norm2, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), build_mlp(D, norm=False)

    def star(self, x):
        core = self.gen2(F.gelu(self.gen1(x)))
        core = (core * core.softmax(dim=1)).sum(1, keepdim=True).expand(-1, x.shape[1], -1)
        return self.gen4(F.gelu(self.gen3(torch.cat((x, core), -1))))

    def forward(self, x):
        x = self.norm1(x + self.star(x))
        return self.norm2(x + self.ff(x))


class TwoWayTable(nn.Module):
    """Cells of a table attend to cells of their row, then to cells of their column; norms without gains behind each sum."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o, self.mlp = nn.ModuleList(lin(8, 24) for _ in range(2)), nn.ModuleList(lin(8, 8) for _ in range(2)), nn.Sequential(lin(8, 16), nn.GELU(), lin(16, 8))

    def attend(self, i, x):
        q, k, v = self.qkv[i](x).chunk(3, -1)
        return self.o[i](F.scaled_dot_product_attention(q, k, v))

    def forward(self, x):
        x = x.unflatten(-1, (4, 8))
        x = F.layer_norm(self.attend(0, x) + x, (8,))
        x = F.layer_norm(self.attend(1, x.transpose(1, 2)).transpose(1, 2) + x, (8,))
        x = F.layer_norm(self.mlp(x) + x, (8,))
        return x.flatten(-2)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_RAW = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_ON = dict(kind="block", growth_fixed="bounded", growth_all="bounded")
_ONE, _F = dict(output_bounded={0: False}), dict(logits_bounded={0: False})
TRUTH = {
    "MeshStep": dict(_NET, output_bounded={0: True, 1: True}, growth_all="linear", gradient_law="power", sound=True, why="normed behind."),
    "MeshStepNodeBare": dict(_RAW, why="of degree one."),
    "MeshStepNormOfSum": dict(_ON, softmax=False, sound=True, why="ends in a norm."),
    "GatedGraph": dict(_NET, sound=True, why="batch norm behind, in training."),
    "GatedGraphNoDivisor": dict(_NET, sound=True, why="batch norm behind, in training."),
    "ManyAggregators": dict(_NET, sound=True, why="batch norm behind, in training."),
    "AttendOverEdges": dict(_PRE, **_ONE, sound=True, why="pre-norm."),
    "AttendOverEdgesRaw": dict(kind="block", growth_fixed="exponential", softmax=True, **_ONE, sound=False, why="of degree one."),
    "TableResidual": dict(_NET, **_ONE, gradient_law="power", sound=True, why="batch norm in front."),
    "TableResidualOnNorm": dict(kind="block", growth_fixed="bounded", softmax=False, gradient_law="exponential", sound=False, why="a normed stream and a function of it."),
    "GatedHalves": dict(kind="block", identity_gain=2.0 ** -12, growth_fixed="bounded", softmax=False, gradient_law="exponential", sound=True, why="0.71 a block and what is normed."),
    "GatedHalvesNoRoot": dict(_NET, sound=False, why="what is normed is added."),
    "SphericalCritic": dict(_ON, softmax=False, gradient_law="flat", sound=True, why="on a sphere."),
    "SphericalCriticScaleOutside": dict(_RAW, why="of degree one."),
    "WideCritic": dict(_NET, output_bounded={0: True}, growth_all="linear", gradient_law="power", sound=True, why="normed behind."),
    "WideCriticReadsNorm": dict(_NET, **_ONE, sound=False, why="a map of what is normed."),
    "PiecewiseRows": dict(_PRE, **_ONE, sound=True, why="pre-norm; shares of a table."),
    "CrossInEachLayer": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "PointwiseAttention": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "PointwiseAttentionRaw": dict(_RAW, **_ONE, why="of degree one."),
    "SetBlock": dict(_ON, softmax=True, sound=True, why="ends in a norm."),
    "SetBlockBare": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="of degree one."),
    "DenseSeries": dict(_ON, softmax=False, sound=True, why="ends in a norm."),
    "ShrunkenResidual": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "StarOfSeries": dict(_ON, sound=True, why="ends in a norm."),
    "TwoWayTable": dict(_ON, softmax=True, sound=True, why="ends in a norm."),
}
