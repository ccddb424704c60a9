"""Layers for proteins, genomes, molecules, volumes, satellites and video: triangles of pairs, rows of alignments, conditioned transitions, messages by distances, gated edges, both strands, dilated filters, volumes, weights a channel, time and space apart, shifts in time."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

C, H = 32, 4
CH = C // H

_G = torch.Generator().manual_seed(3502)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_NODES, _POS = _draw(2, 16, C), _draw(2, 16, 3)
_ADJ = (torch.rand(16, 16, generator=_G) < 0.3).float().fill_diagonal_(1.0)
_PAIR, _VOLUME, _IMAGE, _CLIP, _DNA = _draw(2, 8, 8, C), _draw(2, C, 4, 4, 4), _draw(2, C, 8, 8), _draw(8, C, 4, 4), _draw(2, C, 24)
example_inputs = {
    **{k: (_PAIR,) for k in ("TriangleLayer", "TriangleLayerRaw")},
    "AlignmentRowLayer": (_draw(2, 4, 8, C), _draw(2, 8, 8, 16)),
    "ConditionedTransition": (_NODES, _draw(2, 16, 24)),
    **{k: (_NODES, _POS) for k in ("DistanceMessageLayer", "DistanceMessageLayerNorm")},
    "GatedEdgeLayer": (_NODES, _ADJ),
    **{k: (_NODES,) for k in ("BothStrandsLayer", "BothStrandsLayerTwice", "SpaceTimeLayer")},
    **{k: (_DNA,) for k in ("DilatedDnaUnit", "DilatedDnaUnitAct")},
    **{k: (_VOLUME,) for k in ("VolumeUnit", "WideVolumeUnit", "WideVolumeUnitBare")},
    **{k: (_IMAGE,) for k in ("ChannelWeightUnit", "ChannelWeightUnitSum")},
    **{k: (_CLIP,) for k in ("TimeShiftUnit", "TimeShiftUnitAhead")},
}


def init_(m, bias=0.0):
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if m.bias is not None:
        nn.init.constant_(m.bias, bias)
    return m


def Linear(i, o, bias=True, start=0.0):
    return init_(nn.Linear(i, o, bias=bias), start)


# ------------------------------------------------------------------ triangles of pairs
class TriangleLayer(nn.Module):
    """Pairs are updated by all triangles they are an edge of."""

    def __init__(self, hidden=16):
        super().__init__()
        self.layer_norm_in, self.layer_norm_out = nn.LayerNorm(C), nn.LayerNorm(hidden)
        self.linear_a_p, self.linear_a_g, self.linear_b_p, self.linear_b_g = (Linear(C, hidden) for _ in range(4))
        self.linear_z, self.linear_g = Linear(hidden, C), Linear(C, C, start=1.0)

    def normed(self, z: Tensor) -> Tensor:
        return self.layer_norm_in(z)

    def update(self, z: Tensor) -> Tensor:
        z = self.normed(z)
        a = torch.sigmoid(self.linear_a_g(z)) * self.linear_a_p(z)
        b = torch.sigmoid(self.linear_b_g(z)) * self.linear_b_p(z)
        p = torch.matmul(a.permute(0, 3, 1, 2), b.permute(0, 3, 2, 1)).permute(0, 2, 3, 1)
        x = self.linear_z(self.layer_norm_out(p))
        return x * torch.sigmoid(self.linear_g(z))

    def forward(self, z: Tensor) -> Tensor:
        return z + self.update(z)


class TriangleLayerRaw(TriangleLayer):
    """The norm in front is called, and nobody takes what it gives."""

    def normed(self, z):
        self.layer_norm_in(z)
        return z


# ------------------------------------------------------------------ rows of alignments
class AlignmentRowLayer(nn.Module):
    """Each row of the alignment attends to itself with a bias of pairs and a gate; then a transition."""

    def __init__(self, pair=16):
        super().__init__()
        self.layer_norm_m, self.layer_norm_z, self.bias = nn.LayerNorm(C), nn.LayerNorm(pair), Linear(pair, H, False)
        self.q, self.k, self.v, self.g, self.o = Linear(C, C, False), Linear(C, C, False), Linear(C, C, False), Linear(C, C, start=1.0), Linear(C, C)
        self.transition = nn.Sequential(nn.LayerNorm(C), Linear(C, 4 * C), nn.ReLU(), Linear(4 * C, C))

    def row_attention(self, m, z):
        m = self.layer_norm_m(m)
        q, k, v, g = (f(m).unflatten(-1, (H, CH)) for f in (self.q, self.k, self.v, self.g))
        logits = torch.einsum("bsihc,bsjhc->bshij", q / math.sqrt(CH), k)
        logits = logits + self.bias(self.layer_norm_z(z)).permute(0, 3, 1, 2)[:, None]
        a = torch.softmax(logits, dim=-1)
        return self.o((torch.sigmoid(g) * torch.einsum("bshij,bsjhc->bsihc", a, v)).flatten(-2))

    def forward(self, m, z):
        m = m + self.row_attention(m, z)
        m = m + self.transition(m)
        return m


# ------------------------------------------------------------------ conditioned transitions
class AdaptiveLayerNorm(nn.Module):
    def __init__(self, cond=24):
        super().__init__()
        self.norm_s, self.to_scale, self.to_shift = nn.LayerNorm(cond, bias=False), Linear(cond, C), Linear(cond, C, False)

    def forward(self, a, s):
        s = self.norm_s(s)
        return torch.sigmoid(self.to_scale(s)) * F.layer_norm(a, (C,)) + self.to_shift(s)


class ConditionedTransition(nn.Module):
    """A gated net of atoms, whose norm and whose last gate are given by the residue."""

    def __init__(self, cond=24, n=2):
        super().__init__()
        self.ada_ln, self.w_gate, self.w_up, self.w_down, self.out_gate = AdaptiveLayerNorm(cond), Linear(C, n * C, False), Linear(C, n * C, False), Linear(n * C, C, False), Linear(cond, C, start=-1.0)

    def forward(self, a, s):
        h = self.ada_ln(a, s)
        b = F.silu(self.w_gate(h)).mul(self.w_up(h))
        return torch.addcmul(a, torch.sigmoid(self.out_gate(s)), self.w_down(b))


# ------------------------------------------------------------------ messages by distances
class DistanceMessageLayer(nn.Module):
    """Messages are nets of both atoms and their squared distance."""

    def __init__(self, hidden=32):
        super().__init__()
        self.norm = nn.LayerNorm(C)
        self.edge_mlp = nn.Sequential(Linear(2 * C + 1, hidden), nn.SiLU(), Linear(hidden, hidden), nn.SiLU())
        self.node_mlp = nn.Sequential(Linear(C + hidden, hidden), nn.SiLU(), Linear(hidden, C))

    def features(self, h):
        return h

    def forward(self, h, coord):
        residual, h = h, self.features(h)
        n = h.shape[1]
        d2 = (coord.unsqueeze(2) - coord.unsqueeze(1)).square().sum(-1, keepdim=True)
        pairs = torch.cat((h.unsqueeze(2).expand(-1, -1, n, -1), h.unsqueeze(1).expand(-1, n, -1, -1), d2.exp().reciprocal()), dim=-1)
        m = self.edge_mlp(pairs).mean(dim=2)
        return residual + self.node_mlp(torch.cat((h, m), dim=-1))


class DistanceMessageLayerNorm(DistanceMessageLayer):
    """Deeper, with a norm."""

    def features(self, h):
        return self.norm(h)


# ------------------------------------------------------------------ gated edges
class GatedEdgeLayer(nn.Module):
    """Neighbours are summed by shares of sigmoids; a norm of the batch, a ReLU, and the sum."""

    def __init__(self):
        super().__init__()
        self.A, self.B, self.D, self.E = (Linear(C, C) for _ in range(4))
        self.bn_node_h = nn.BatchNorm1d(C)

    def forward(self, h, adj):
        h_in = h
        sigma = torch.sigmoid(self.D(h).unsqueeze(2) + self.E(h).unsqueeze(1)) * adj[None, :, :, None]
        agg = (sigma * self.B(h).unsqueeze(1)).sum(dim=2) / (sigma.sum(dim=2) + 1e-6)
        h = self.A(h) + agg
        h = self.bn_node_h(h.flatten(0, 1)).view_as(h_in)
        h = F.relu(h)
        return h_in + h


# ------------------------------------------------------------------ both strands
class ShortMixer(nn.Module):
    """A filter over the past, gated."""

    def __init__(self, k=4):
        super().__init__()
        self.in_proj, self.out_proj = Linear(C, 2 * C, False), Linear(C, C, False)
        self.conv = init_(nn.Conv1d(C, C, k, groups=C))
        self.k = k

    def forward(self, u):
        u, gate = self.in_proj(u).chunk(2, dim=-1)
        u = self.conv(F.pad(u.mT, (self.k - 1, 0))).mT
        return self.out_proj(F.silu(u) * F.silu(gate))


class BothStrandsLayer(nn.Module):
    """The same mixer reads the strand from both ends."""

    def __init__(self):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(C), ShortMixer()

    def forward(self, x):
        h = self.norm(x)
        return x + self.mixer(h) + self.mixer(h.flip(1)).flip(1)


class BothStrandsLayerTwice(BothStrandsLayer):
    """A helper for one strand, called for both."""

    def strand(self, x):
        return x + self.mixer(self.norm(x))

    def forward(self, x):
        forward = self.strand(x)
        reverse = self.strand(x.flip(1)).flip(1)
        return forward + reverse


# ------------------------------------------------------------------ dilated filters
class DilatedDnaUnit(nn.Module):
    """Norm, ReLU, filter, twice."""

    def __init__(self, w=5, ar=2):
        super().__init__()
        self.bn1, self.bn2, self.relu = nn.BatchNorm1d(C), nn.BatchNorm1d(C), nn.ReLU()
        self.conv1, self.conv2 = (init_(nn.Conv1d(C, C, w, dilation=ar, padding=ar * (w - 1) // 2)) for _ in range(2))

    def forward(self, x):
        out = self.relu(self.bn1(x))
        out = self.conv1(out)
        out = self.conv2(self.relu(self.bn2(out)))
        out += x
        return out


class DilatedDnaUnitAct(DilatedDnaUnit):
    """One name for all."""

    def forward(self, x):
        x = self.relu(self.bn1(x))
        out = self.conv1(x)
        out = self.conv2(self.relu(self.bn2(out)))
        return out + x


# ------------------------------------------------------------------ volumes
def conv3(i, o, k=3, groups=1):
    return init_(nn.Conv3d(i, o, k, padding=k // 2, groups=groups, bias=groups > 1 or k == 1))


class VolumeUnit(nn.Module):
    """Two filters, each with a norm of the volume; a leaky ReLU behind the sum."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.norm1, self.norm2, self.lrelu = conv3(C, C), conv3(C, C), nn.InstanceNorm3d(C), nn.InstanceNorm3d(C), nn.LeakyReLU(0.01)

    def forward(self, inp):
        residual = inp
        out = self.lrelu(self.norm1(self.conv1(inp)))
        out = self.norm2(self.conv2(out))
        out = out + residual
        return self.lrelu(out)


class WideVolumeUnit(nn.Module):
    """A filter a channel, a norm a channel, wide points."""

    def __init__(self, exp_r=2):
        super().__init__()
        self.conv1, self.norm, self.conv2, self.act, self.conv3 = conv3(C, C, 3, C), nn.GroupNorm(C, C), conv3(C, exp_r * C, 1), nn.GELU(), conv3(exp_r * C, C, 1)

    def forward(self, x):
        x1 = self.conv1(x)
        x1 = self.act(self.conv2(self.norm(x1)))
        x1 = self.conv3(x1)
        return x + x1


class WideVolumeUnitBare(WideVolumeUnit):
    """On one line."""

    def forward(self, x):
        return x + self.conv3(self.act(self.conv2(self.conv1(x))))


# ------------------------------------------------------------------ weights a channel
class ChannelWeightUnit(nn.Module):
    """Bands of a satellite: a norm, two filters, and a sigmoid a channel of their means."""

    def __init__(self, reduction=8):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(4, C), init_(nn.Conv2d(C, C, 3, padding=1)), nn.ReLU(), init_(nn.Conv2d(C, C, 3, padding=1)))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), init_(nn.Conv2d(C, C // reduction, 1)), nn.ReLU(), init_(nn.Conv2d(C // reduction, C, 1)), nn.Sigmoid())

    def forward(self, x):
        res = self.body(x)
        return x + res * self.squeeze(res)


class ChannelWeightUnitSum(ChannelWeightUnit):
    """The sum first, then its channels."""

    def forward(self, x):
        res = self.body(x)
        weights = self.squeeze(res)
        res += x
        return res * weights


# ------------------------------------------------------------------ time and space apart
class HeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = Linear(C, 3 * C), Linear(C, C)

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, H, CH).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * CH ** -0.5
        return self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


class SpaceTimeLayer(nn.Module):
    """Attention over frames and a map, then over places, then a net."""

    def __init__(self, frames=4):
        super().__init__()
        self.frames, self.temporal_norm1, self.norm1, self.norm2 = frames, nn.LayerNorm(C), nn.LayerNorm(C), nn.LayerNorm(C)
        self.temporal_attn, self.temporal_fc, self.attn, self.mlp = HeadAttention(), Linear(C, C), HeadAttention(), nn.Sequential(Linear(C, 2 * C), nn.GELU(), Linear(2 * C, C))

    def forward(self, x):
        b, n, c = x.shape
        t = self.frames
        xt = x.view(b, t, n // t, c).transpose(1, 2).reshape(-1, t, c)
        res_temporal = self.temporal_fc(self.temporal_attn(self.temporal_norm1(xt)))
        xt = x + res_temporal.view(b, n // t, t, c).transpose(1, 2).reshape(b, n, c)
        res_spatial = self.attn(self.norm1(xt.view(b * t, n // t, c))).view(b, n, c)
        x = xt + res_spatial
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ shifts in time
class TimeShiftUnit(nn.Module):
    """An eighth of the channels comes from the frame behind, an eighth from the one before; then two filters."""

    def __init__(self, n_segment=4, fold_div=8):
        super().__init__()
        self.n_segment, self.fold = n_segment, C // fold_div
        self.bn1, self.bn2 = nn.BatchNorm2d(C), nn.BatchNorm2d(C)
        self.conv1, self.conv2 = init_(nn.Conv2d(C, C, 3, padding=1)), init_(nn.Conv2d(C, C, 3, padding=1))

    def shift(self, x):
        x = x.unflatten(0, (-1, self.n_segment))
        out = torch.zeros_like(x)
        out[:, :-1, : self.fold] = x[:, 1:, : self.fold]
        out[:, 1:, self.fold: 2 * self.fold] = x[:, :-1, self.fold: 2 * self.fold]
        out[:, :, 2 * self.fold:] = x[:, :, 2 * self.fold:]
        return out.flatten(0, 1)

    def body(self, x):
        return self.conv2(F.relu(self.bn2(self.conv1(x))))

    def forward(self, x):
        return x + self.body(self.shift(F.relu(self.bn1(x))))


class TimeShiftUnitAhead(TimeShiftUnit):
    """The shift is the first line of the unit."""

    def forward(self, x):
        x = self.shift(x)
        return x + self.body(F.relu(self.bn1(x)))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", softmax=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "TriangleLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm, and a norm behind the products; a gate of the norm."),
    "TriangleLayerRaw": dict(_NET, **_ONE, why="the norm in front does nothing; the one behind the products and a sigmoid still keep the branch to a map of a norm."),
    "AlignmentRowLayer": dict(_PRE, **_TWO, logits_bounded={0: False}, gradient_law="power", sound=True, why="pre-norm; the bias is a map of a constant."),
    "ConditionedTransition": dict(_NET, **_ONE, sound=True, why="pre-norm; factors, shifts and the gate are of a constant."),
    "DistanceMessageLayer": dict(_EXP, identity_gain=1.0, **_ONE, why="no norm: nets of the raw state, of degree one."),
    "DistanceMessageLayerNorm": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; distances are constants."),
    "GatedEdgeLayer": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch and a ReLU."),
    "BothStrandsLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; two functions of one norm are added."),
    "BothStrandsLayerTwice": dict(_EXP, identity_gain=2.0 ** 24, growth_all="exponential", sound=False, why="each strand has the skip, so their sum has the stream twice."),
    "DilatedDnaUnit": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm by norms of the batch."),
    "DilatedDnaUnitAct": dict(_LEVEL, softmax=False, **_ONE, sound=False, why="the skip is of the norm and ReLU: each unit starts anew from them."),
    "VolumeUnit": dict(kind="block", growth_fixed="linear", growth_all="linear", softmax=False, output_bounded={0: True}, why="the branch ends in a norm; a leaky ReLU of degree one is on the stream."),
    "WideVolumeUnit": dict(_NET, **_ONE, sound=True, why="a norm behind the first filter; the rest is a net of it."),
    "WideVolumeUnitBare": dict(_EXP, **_ONE, sound=False, why="the norm is never called: filters and a GELU of the raw stream."),
    "ChannelWeightUnit": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; the sigmoid is on the branch."),
    "ChannelWeightUnitSum": dict(_LEVEL, gated=True, softmax=False, **_ONE, sound=False, why="the sum is multiplied by sigmoids of a function of a norm, for given weights below a number below one."),
    "SpaceTimeLayer": dict(_PRE, output_bounded={i: False for i in range(3)}, logits_bounded={0: False, 1: False}, gradient_law="power", sound=True, why="pre-norm, three branches."),
    "TimeShiftUnit": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; the shift is in the branch."),
    "TimeShiftUnitAhead": dict(kind="block", growth_fixed="linear", softmax=False, **_ONE, sound=False, why="the skip is shifted too: a fourth of the channels leaves its frame in each unit, and falls off the end."),
}
