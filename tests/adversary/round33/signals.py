"""Pull requests on speech, series, tables, graphs, molecules: gated filters of waves, branches that are merged, bypasses, nets that mask, two paths, squeezes of several filters, gated halves for tables, edges that gate, filters of distances, triangles."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3303)
_X, _WAVE, _PAIR = torch.randn(2, T, D, generator=_G), torch.randn(2, D, 24, generator=_G), torch.randn(1, 6, 6, D, generator=_G)
_ADJ = (torch.rand(T, T, generator=_G) < 0.35).float().fill_diagonal_(1.0)
_PLACES = torch.randn(2, T, 3, generator=_G)
example_inputs = dict.fromkeys(("GatedFilterUnit", "GatedFilterUnitRelu", "GatedFilterUnitRoot", "MaskNetUnit", "SqueezeResUnit"), (_WAVE,))
example_inputs.update(dict.fromkeys(("BranchMergeLayer", "BypassLayer", "BypassLayerMix", "TwoPathUnit", "TwoPathUnitOpen"), (_X,)))
example_inputs.update(dict.fromkeys(("EdgeGateLayer", "EdgeGateLayerBare"), (_X, _ADJ)))
example_inputs.update(dict.fromkeys(("TriangleBlock", "TriangleBlockRaw"), (_PAIR,)))
example_inputs.update(GatedTableUnit=(torch.randn(12, D, generator=_G),), DistanceFilterBlock=(_X, torch.cdist(_PLACES, _PLACES)))


def fan_in_(module):
    """Normal weights with the root of the fan-in, biases of nothing."""
    for m in module.modules():
        if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    return module


# ------------------------------------------------------------------ gated filters of waves
class GatedFilterUnit(nn.Module):
    """A wide filter, a tanh times a sigmoid, and a filter of one step back to the stream."""

    def __init__(self, dilation=2):
        super().__init__()
        self.dilated_conv = nn.Conv1d(D, 2 * D, 3, padding=dilation, dilation=dilation)
        self.output_projection = nn.Conv1d(D, D, 1)
        fan_in_(self)

    def gate(self, y):
        filt, gate = torch.chunk(y, 2, dim=1)
        return torch.tanh(filt) * torch.sigmoid(gate)

    def body(self, x):
        return self.output_projection(self.gate(self.dilated_conv(x)))

    def forward(self, x):
        return x + self.body(x)


class GatedFilterUnitRelu(GatedFilterUnit):
    """Tanhs saturate; a ReLU trains faster."""

    def gate(self, y):
        filt, gate = torch.chunk(y, 2, dim=1)
        return F.relu(filt) * torch.sigmoid(gate)


class GatedFilterUnitRoot(GatedFilterUnit):
    """The sum is brought back to the size of a summand, as diffusion on waves does."""

    def forward(self, x):
        residual = self.body(x)
        return (x + residual) / math.sqrt(2.0)


# ------------------------------------------------------------------ branches that are merged
class GatedFilterMlp(nn.Module):
    """Half of the channels, normed and filtered over time, gate the other half."""

    def __init__(self, hidden=64, k=5):
        super().__init__()
        self.channel_proj1, self.norm, self.conv, self.channel_proj2 = nn.Sequential(nn.Linear(D, hidden), nn.GELU()), nn.LayerNorm(hidden // 2), nn.Conv1d(hidden // 2, hidden // 2, k, 1, k // 2, groups=hidden // 2), nn.Linear(hidden // 2, D)

    def forward(self, x):
        x_r, x_g = self.channel_proj1(x).chunk(2, dim=-1)
        x_g = self.conv(self.norm(x_g).transpose(1, 2)).transpose(1, 2)
        return self.channel_proj2(x_r * x_g)


class BranchMergeLayer(nn.Module):
    """Attention and a net with filters side by side, a filter over both, one map; half nets around, a norm behind the branch that merges."""

    def __init__(self):
        super().__init__()
        self.norm_ff_macaron, self.norm_mha, self.norm_mlp, self.norm_ff = (nn.LayerNorm(D) for _ in range(4))
        self.feed_forward_macaron, self.feed_forward = (nn.Sequential(nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D)) for _ in range(2))
        self.attn, self.cgmlp = nn.MultiheadAttention(D, H, batch_first=True), GatedFilterMlp()
        self.depthwise_conv_fusion, self.merge_proj, self.ff_scale = nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D), nn.Linear(2 * D, D), 0.5
        fan_in_(self)

    def forward(self, x):
        residual = x
        x = self.norm_ff_macaron(x)
        x = residual + self.ff_scale * self.feed_forward_macaron(x)
        x1 = x2 = x
        x1 = self.norm_mha(x1)
        x1, _ = self.attn(x1, x1, x1)
        x2 = self.cgmlp(self.norm_mlp(x2))
        x_concat = torch.cat([x1, x2], dim=-1)
        x_tmp = self.depthwise_conv_fusion(x_concat.transpose(1, 2)).transpose(1, 2)
        x = x + self.merge_proj(x_concat + x_tmp)
        residual = x
        x = self.norm_ff(x)
        return residual + self.ff_scale * self.feed_forward(x)


# ------------------------------------------------------------------ bypasses
class BypassLayer(nn.Module):
    """A layer as usual; at its end a share a channel of what it changed is taken."""

    def __init__(self, share=0.5):
        super().__init__()
        self.norm_attn, self.norm_ff, self.self_attn, self.ff1, self.ff2 = nn.LayerNorm(D), nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.register_buffer("bypass_scale", torch.full((D,), share))
        fan_in_(self)

    def changes(self, src):
        h = self.norm_attn(src)
        y = src + self.self_attn(h, h, h, need_weights=False)[0]
        return y + self.ff2(F.leaky_relu(self.ff1(self.norm_ff(y)), 0.1))

    def forward(self, src):
        src_orig = src
        src = self.changes(src)
        return src_orig + (src - src_orig) * self.bypass_scale


class BypassLayerMix(BypassLayer):
    """The layer gives its branches alone now, for the bypass has the source."""

    def forward(self, src):
        branches = self.changes(src) - src
        return (1 - self.bypass_scale) * src + self.bypass_scale * branches


# ------------------------------------------------------------------ nets that mask
class MaskNetUnit(nn.Module):
    """A filter of one step, a trained slope, a norm of all, a filter a channel, the same again, and a filter back."""

    def __init__(self, hidden=48, dilation=2):
        super().__init__()
        self.conv1x1, self.dconv, self.res_out = nn.Conv1d(D, hidden, 1), nn.Conv1d(hidden, hidden, 3, dilation=dilation, padding=dilation, groups=hidden), nn.Conv1d(hidden, D, 1)
        self.nonlinearity1, self.nonlinearity2, self.reg1, self.reg2 = nn.PReLU(), nn.PReLU(), nn.GroupNorm(1, hidden, eps=1e-8), nn.GroupNorm(1, hidden, eps=1e-8)
        fan_in_(self)

    def forward(self, x):
        output = self.reg1(self.nonlinearity1(self.conv1x1(x)))
        output = self.reg2(self.nonlinearity2(self.dconv(output)))
        return x + self.res_out(output)


# ------------------------------------------------------------------ two paths
class TwoPathUnit(nn.Module):
    """A recurrent net over time in both ways, a map, a norm; then the same over chunks of four."""

    def __init__(self, chunk=4, hidden=16):
        super().__init__()
        self.chunk, self.intra_rnn, self.inter_rnn = chunk, nn.LSTM(D, hidden, batch_first=True, bidirectional=True), nn.LSTM(D, hidden, batch_first=True, bidirectional=True)
        self.intra_linear, self.inter_linear, self.intra_norm, self.inter_norm = nn.Linear(2 * hidden, D), nn.Linear(2 * hidden, D), nn.LayerNorm(D), nn.LayerNorm(D)
        fan_in_(self)

    def behind(self, norm, y):
        return norm(y)

    def forward(self, x):
        b, t, d = x.shape
        intra = x.reshape(-1, self.chunk, d)
        intra, _ = self.intra_rnn(intra)
        intra = self.intra_linear(intra).view(b, t, d)
        x = x + self.behind(self.intra_norm, intra)
        inter = x.view(b, -1, self.chunk, d).transpose(1, 2).flatten(0, 1)
        inter, _ = self.inter_rnn(inter)
        inter = self.inter_linear(inter).unflatten(0, (b, self.chunk)).transpose(1, 2).reshape(b, t, d)
        return x + self.behind(self.inter_norm, inter)


class TwoPathUnitOpen(TwoPathUnit):
    """A recurrent net gives numbers below one, so a map may follow without a norm."""

    def behind(self, norm, y):
        return y


# ------------------------------------------------------------------ squeezes of several filters
class FilterNorm(nn.Sequential):
    def __init__(self, i, o, k=1, dilation=1):
        super().__init__(nn.Conv1d(i, o, k, dilation=dilation, padding=dilation * (k // 2)), nn.ReLU(), nn.BatchNorm1d(o))


class SqueezeResUnit(nn.Module):
    """Parts of the channels are filtered one after the other, each with the part before; means over time gate channels at the end."""

    def __init__(self, parts=4, dilation=2):
        super().__init__()
        self.parts, w = parts, D // parts
        self.tdnn1, self.tdnn2, self.blocks = FilterNorm(D, D), FilterNorm(D, D), nn.ModuleList(FilterNorm(w, w, 3, dilation) for _ in range(parts - 1))
        self.se = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(D, 8, 1), nn.ReLU(), nn.Conv1d(8, D, 1), nn.Sigmoid())
        fan_in_(self)

    def res2net(self, x):
        y = []
        for i, x_i in enumerate(torch.chunk(x, self.parts, dim=1)):
            if i == 0:
                y_i = x_i
            elif i == 1:
                y_i = self.blocks[i - 1](x_i)
            else:
                y_i = self.blocks[i - 1](x_i + y_i)
            y.append(y_i)
        return torch.cat(y, dim=1)

    def forward(self, x):
        residual = x
        x = self.tdnn2(self.res2net(self.tdnn1(x)))
        return self.se(x) * x + residual


# ------------------------------------------------------------------ gated halves for tables
class GatedTableUnit(nn.Module):
    """Rows of a table: two maps with norms of the batch and gated halves; sums are multiplied by the root of a half."""

    def __init__(self, n=2):
        super().__init__()
        self.fcs, self.bns = nn.ModuleList(nn.Linear(D, 2 * D, bias=False) for _ in range(n)), nn.ModuleList(nn.BatchNorm1d(2 * D) for _ in range(n))
        self.register_buffer("scale_root", torch.tensor(0.5).sqrt())
        fan_in_(self)

    def forward(self, x):
        for fc, bn in zip(self.fcs, self.bns):
            out = bn(fc(x))
            glu = out[:, :D] * torch.sigmoid(out[:, D:])
            x = torch.add(x, glu) * self.scale_root
        return x


# ------------------------------------------------------------------ edges that gate
class EdgeGateLayer(nn.Module):
    """Neighbours come in through sigmoids of both ends, as shares of their sum; a norm of the batch and a ReLU behind."""

    def __init__(self):
        super().__init__()
        self.A, self.B, self.Dm, self.E, self.bn_node_h = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), nn.BatchNorm1d(D)
        fan_in_(self)

    def norm(self, h):
        return self.bn_node_h(h.flatten(0, 1)).view_as(h)

    def forward(self, h, adj):
        h_in = h
        Ah, Bh, Dh, Eh = self.A(h), self.B(h), self.Dm(h), self.E(h)
        sigma = torch.sigmoid(Dh.unsqueeze(2) + Eh.unsqueeze(1)) * adj[None, :, :, None]
        h = Ah + (sigma * Bh.unsqueeze(1)).sum(2) / (sigma.sum(2) + 1e-6)
        h = F.relu(self.norm(h))
        return h_in + h


class EdgeGateLayerBare(EdgeGateLayer):
    """Graphs of one batch differ too much for a norm over it."""

    def norm(self, h):
        return h


# ------------------------------------------------------------------ filters of distances
class DistanceFilterBlock(nn.Module):
    """Atoms read atoms through filters that a net makes of their distance; shifted softpluses between maps."""

    def __init__(self, n_gauss=8, cutoff=5.0):
        super().__init__()
        self.cutoff, self.lin1, self.lin2, self.lin = cutoff, nn.Linear(D, D, bias=False), nn.Linear(D, D), nn.Linear(D, D)
        self.mlp1, self.mlp2 = nn.Linear(n_gauss, D), nn.Linear(D, D)
        self.register_buffer("offset", torch.linspace(0.0, cutoff, n_gauss))
        fan_in_(self)

    @staticmethod
    def ssp(x):
        return F.softplus(x) - math.log(2.0)

    def forward(self, x, dist):
        rbf = torch.exp(-2.0 * (dist[..., None] - self.offset) ** 2)
        W = self.mlp2(self.ssp(self.mlp1(rbf))) * (0.5 * (torch.cos(dist.clamp(max=self.cutoff) * math.pi / self.cutoff) + 1))[..., None]
        h = torch.einsum("bijc,bjc->bic", W, self.lin1(x))
        h = self.lin(self.ssp(self.lin2(h)))
        return x + h


# ------------------------------------------------------------------ triangles
class TriangleBlock(nn.Module):
    """Pairs are changed by all third ones, with norms in front and in the middle and a gate; then a net."""

    def __init__(self, c_hidden=16):
        super().__init__()
        self.layer_norm_in, self.layer_norm_out, self.layer_norm = nn.LayerNorm(D), nn.LayerNorm(c_hidden), nn.LayerNorm(D)
        self.linear_a, self.linear_b, self.gate_ab, self.linear_g, self.linear_z = nn.Linear(D, c_hidden), nn.Linear(D, c_hidden), nn.Linear(D, 2 * c_hidden), nn.Linear(D, D), nn.Linear(c_hidden, D)
        self.transition = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))
        fan_in_(self)

    def sides(self, z, zn):
        ga, gb = self.gate_ab(zn).sigmoid().chunk(2, dim=-1)
        return ga * self.linear_a(zn), gb * self.linear_b(zn)

    def forward(self, z):
        zn = self.layer_norm_in(z)
        a, b = self.sides(z, zn)
        p = torch.einsum("bikc,bjkc->bijc", a, b)
        z = z + self.linear_g(zn).sigmoid() * self.linear_z(self.layer_norm_out(p))
        return z + self.transition(self.layer_norm(z))


class TriangleBlockRaw(TriangleBlock):
    """Sides come from pairs as they are: their product gets a norm anyway."""

    def sides(self, z, zn):
        ga, gb = self.gate_ab(zn).sigmoid().chunk(2, dim=-1)
        return ga * self.linear_a(z), gb * self.linear_b(z)


# ------------------------------------------------------------------ filters of whole past
class PastFilterUnit(nn.Module):
    """Two causal filters with weights of a length and a direction, ReLUs, and a ReLU of the sum."""

    def __init__(self, k=3, dilation=1):
        super().__init__()
        self.pad = (k - 1) * dilation
        convs = [fan_in_(nn.Conv1d(D, D, k, dilation=dilation)) for _ in range(2)]
        self.conv1, self.conv2 = (weight_norm(c) for c in convs)

    def forward(self, x):
        out = F.relu(self.conv1(F.pad(x, (self.pad, 0))))
        out = F.relu(self.conv2(F.pad(out, (self.pad, 0))))
        return F.relu(out + x)


example_inputs["PastFilterUnit"] = (_WAVE,)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_PRE = dict(_NET, softmax=True)
_EXP = dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=False)
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN = dict(logits_bounded={0: False})
TRUTH = {
    "GatedFilterUnit": dict(_NET, **_ONE, sound=True, why="no norm, but a tanh times a sigmoid is at most one, and one map is behind it."),
    "GatedFilterUnitRelu": dict(_EXP, **_ONE, sound=False, why="a ReLU of a map of the raw stream times a sigmoid is of degree one."),
    "GatedFilterUnitRoot": dict(_LEVEL, identity_gain=0.5 ** 12, **_ONE, why="a bounded function is added, and the sum is divided by the root of two."),
    "BranchMergeLayer": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, logits_bounded={1: False}, gradient_law="power", sound=True, why="pre-norm; both branches are functions of norms and are merged by a map."),
    "BypassLayer": dict(_PRE, **_OPEN, gradient_law="power", sound=True, why="the source and a share of what pre-norm branches added: the source cancels in the difference."),
    "BypassLayerMix": dict(_LEVEL | {"softmax": True}, identity_gain=0.5 ** 24, **_OPEN, sound=False, why="half of the source is left, and a half of functions of norms is added."),
    "MaskNetUnit": dict(_NET, **_ONE, sound=True, why="the raw stream goes through a map and a slope into a norm; maps are behind norms."),
    "TwoPathUnit": dict(_NET, **_BOTH, growth_all="linear", sound=True, why="both branches end in a norm."),
    "TwoPathUnitOpen": dict(_NET, **_TWO, why="the states of recurrent nets are below one whatever they read; a map is behind."),
    "SqueezeResUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="a norm of the batch, times a sigmoid, is added."),
    "GatedTableUnit": dict(_LEVEL, identity_gain=0.5 ** 24, growth_all="bounded", **_BOTH, why="gated halves of norms are added twice, and each sum is multiplied by the root of a half."),
    "EdgeGateLayer": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch and a ReLU; the shares are sigmoids over their sum."),
    "EdgeGateLayerBare": dict(_EXP, **_ONE, sound=False, why="a ReLU of maps of the raw stream, weighed by shares: of degree one."),
    "DistanceFilterBlock": dict(_EXP, **_ONE, why="no norm: filters are constants of distances, and softpluses are of degree one."),
    "TriangleBlock": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm, with a norm in the middle."),
    "TriangleBlockRaw": dict(_NET, **_TWO, why="products of the raw pairs are normed in front of the last map: a bounded function."),
    "PastFilterUnit": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, why="no norm: ReLUs of maps of the raw stream are added, and a ReLU of the sum is of degree one."),
}
