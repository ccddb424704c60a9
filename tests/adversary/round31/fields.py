"""Pull requests on pictures, video, points and diffusion: inverted necks, filters that are merged later, shuffled halves, attention of channels, scales and shifts by time, simple gates, fixed points, sines, time then space, twin branches, vectors of shares, channels that are weighed."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

C, S, H = 32, 8, 4
HD = C // H

_G = torch.Generator().manual_seed(131)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ = _draw(2, C, S, S), _draw(2, 16, C)
example_inputs = {
    **{k: (_MAP,) for k in ("InvertedUnit", "InvertedUnitClipped", "MergedFilterUnit", "ShuffleUnit", "TransposedAttnBlock", "TransposedAttnBlockQ", "SimpleGateUnit", "SimpleGateUnitInput", "ChannelWeighUnit")},
    **{k: (_MAP, _draw(2, 24)) for k in ("TimeScaledUnit", "TimeScaledUnitSum")},
    "EquilibriumStep": (_MAP, _draw(2, C, S, S)),
    "SineUnit": (_draw(50, C),),
    **{k: (_draw(2, 4, 9, C),) for k in ("TimeSpaceBlock", "TimeSpaceBlockJoined")},
    "TwinBranchBlock": (_SEQ,),
    "VectorSharesUnit": (_draw(20, C), _draw(20, 3)),
}


def conv(i, o, k=1, groups=1, bias=False, **kw):
    m = nn.Conv2d(i, o, k, padding=k // 2, groups=groups, bias=bias, **kw)
    nn.init.normal_(m.weight, std=(i // groups * k * k) ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def fc(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


class Mlp(nn.Module):
    def __init__(self, dim=C, ratio=2):
        super().__init__()
        self.fc1, self.act, self.fc2 = fc(dim, ratio * dim), nn.GELU(), fc(ratio * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = fc(C, 3 * C), fc(C, C)

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, H, HD).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * HD ** -0.5) @ k.transpose(-2, -1)
        x = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


# ------------------------------------------------------------------ inverted necks
class SqueezeExcite(nn.Module):
    def __init__(self, c, r=8):
        super().__init__()
        self.reduce, self.expand = conv(c, r, bias=True), conv(r, c, bias=True)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * self.expand(F.silu(self.reduce(s))).sigmoid()


class InvertedUnit(nn.Module):
    """Wide in the middle, a filter a channel there, a squeezed gate, and a last map that ends in a norm."""

    def __init__(self, ratio=3):
        super().__init__()
        mid = C * ratio
        self.block = nn.Sequential(conv(C, mid), nn.BatchNorm2d(mid), nn.SiLU(), conv(mid, mid, 3, groups=mid), nn.BatchNorm2d(mid), nn.SiLU(), SqueezeExcite(mid), conv(mid, C), nn.BatchNorm2d(C))

    def forward(self, x):
        result = self.block(x)
        result += x
        return result


class InvertedUnitClipped(InvertedUnit):
    """The unit ends in the activation for eight bits."""

    def forward(self, x):
        return F.relu6(super().forward(x))


# ------------------------------------------------------------------ filters that are merged later
class MergedFilterUnit(nn.Module):
    """A square, a point and nothing, each with a norm of the batch: one filter when it is shipped."""

    def __init__(self):
        super().__init__()
        self.rbr_dense, self.rbr_1x1, self.rbr_identity = nn.Sequential(conv(C, C, 3), nn.BatchNorm2d(C)), nn.Sequential(conv(C, C), nn.BatchNorm2d(C)), nn.BatchNorm2d(C)

    def forward(self, inputs):
        return F.relu(self.rbr_dense(inputs) + self.rbr_1x1(inputs) + self.rbr_identity(inputs))


# ------------------------------------------------------------------ shuffled halves
def channel_shuffle(x, groups):
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)


class ShuffleUnit(nn.Module):
    """Half of the channels pass, half are filtered; then they are shuffled."""

    def __init__(self):
        super().__init__()
        c = C // 2
        self.branch2 = nn.Sequential(conv(c, c), nn.BatchNorm2d(c), nn.ReLU(inplace=True), conv(c, c, 3, groups=c), nn.BatchNorm2d(c), conv(c, c), nn.BatchNorm2d(c), nn.ReLU(inplace=True))

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((x1, self.branch2(x2)), dim=1), 2)


# ------------------------------------------------------------------ attention of channels
class ChannelNorm(nn.Module):
    """A norm over channels at each place."""

    def __init__(self, c=C):
        super().__init__()
        self.body = nn.LayerNorm(c)

    def forward(self, x):
        return self.body(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class TransposedAttnBlock(nn.Module):
    """Channels attend to channels: rows over all places have length one, times a trained temperature; then a gated net with filters."""

    def __init__(self, hidden=48):
        super().__init__()
        self.norm1, self.norm2, self.gain_temperature = ChannelNorm(), ChannelNorm(), nn.Parameter(torch.ones(H, 1, 1))
        self.qkv, self.qkv_dwconv, self.project_out = conv(C, 3 * C), conv(3 * C, 3 * C, 3, groups=3 * C), conv(C, C)
        self.project_in, self.dwconv, self.ffn_out = conv(C, 2 * hidden), conv(2 * hidden, 2 * hidden, 3, groups=2 * hidden), conv(hidden, C)

    def scores(self, q, k):
        return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)

    def attn(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, H, c // H, h * w) for t in self.qkv_dwconv(self.qkv(x)).chunk(3, dim=1))
        a = (self.scores(q, k) * self.gain_temperature).softmax(dim=-1)
        return self.project_out((a @ v).reshape(b, c, h, w))

    def ffn(self, x):
        x1, x2 = self.dwconv(self.project_in(x)).chunk(2, dim=1)
        return self.ffn_out(F.gelu(x1) * x2)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.ffn(self.norm2(x))
        return x


class TransposedAttnBlockQ(TransposedAttnBlock):
    """One call less."""

    def scores(self, q, k):
        return F.normalize(q, dim=-1) @ k.transpose(-2, -1)


# ------------------------------------------------------------------ scales and shifts by time
class TimeScaledUnit(nn.Module):
    """Norm, activation, filter; a norm that the time scales and shifts, activation, filter; a skip."""

    def __init__(self, emb=24):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(8, C), nn.SiLU(), conv(C, C, 3, bias=True))
        self.emb_layers = nn.Sequential(nn.SiLU(), fc(emb, 2 * C))
        self.out_layers = nn.Sequential(nn.GroupNorm(8, C), nn.SiLU(), conv(C, C, 3, bias=True))

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[:, :, None, None].chunk(2, dim=1)
        norm, *rest = self.out_layers
        h = norm(h) * (1 + scale) + shift
        for layer in rest:
            h = layer(h)
        return x + h


class TimeScaledUnitSum(TimeScaledUnit):
    """The time acts last, on what the unit gives."""

    def forward(self, x, emb):
        scale, shift = self.emb_layers(emb)[:, :, None, None].chunk(2, dim=1)
        h = x + self.out_layers(self.in_layers(x))
        return h * (1 + scale) + shift


# ------------------------------------------------------------------ simple gates
class SimpleGateUnit(nn.Module):
    """Halves are multiplied in the place of activations, channels are weighed by a map of their means."""

    def __init__(self, init=0.3):
        super().__init__()
        self.norm1, self.norm2, self.gain_beta, self.gain_gamma = ChannelNorm(), ChannelNorm(), nn.Parameter(torch.full((1, C, 1, 1), init)), nn.Parameter(torch.full((1, C, 1, 1), init))
        self.conv1, self.conv2, self.conv3, self.conv4, self.conv5, self.sca = conv(C, 2 * C), conv(2 * C, 2 * C, 3, groups=2 * C), conv(C, C), conv(C, 2 * C), conv(C, C), conv(C, C, bias=True)

    @staticmethod
    def sg(x):
        a, b = x.chunk(2, dim=1)
        return a * b

    def means(self, inp, x):
        return F.adaptive_avg_pool2d(x, 1)

    def forward(self, inp):
        x = self.sg(self.conv2(self.conv1(self.norm1(inp))))
        x = x * self.sca(self.means(inp, x))
        y = inp + self.conv3(x) * self.gain_beta
        x = self.conv5(self.sg(self.conv4(self.norm2(y))))
        return y + x * self.gain_gamma


class SimpleGateUnitInput(SimpleGateUnit):
    """Means are those of the unit's input, as they can be computed beside the filters."""

    def means(self, inp, x):
        return F.adaptive_avg_pool2d(inp, 1)


# ------------------------------------------------------------------ fixed points
class EquilibriumStep(nn.Module):
    """One step of the iteration whose fixed point is the layer: the injected picture is added inside, norms stand behind both sums."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = conv(C, 2 * C, 3), conv(2 * C, C, 3)
        self.norm1, self.norm2, self.norm3 = nn.GroupNorm(8, 2 * C), nn.GroupNorm(8, C), nn.GroupNorm(8, C)

    def forward(self, z, x):
        y = self.norm1(F.relu(self.conv1(z)))
        return self.norm3(F.relu(z + self.norm2(x + self.conv2(y))))


# ------------------------------------------------------------------ sines
class SineUnit(nn.Module):
    """Half of the state and half of two sines of it."""

    def __init__(self, omega=5.0):
        super().__init__()
        self.omega_0, self.linear_1, self.linear_2 = omega, fc(C, C), fc(C, C)

    def forward(self, x):
        s = torch.sin(self.omega_0 * self.linear_1(x))
        s = torch.sin(self.omega_0 * self.linear_2(s))
        return 0.5 * (x + s)


# ------------------------------------------------------------------ time, then space
class TimeSpaceBlock(nn.Module):
    """Patches attend over frames, then over their frame, then a net."""

    def __init__(self):
        super().__init__()
        self.temporal_norm1, self.norm1, self.norm2 = (nn.LayerNorm(C, eps=1e-6) for _ in range(3))
        self.temporal_attn, self.temporal_fc, self.attn, self.mlp = Attention(), fc(C, C), Attention(), Mlp()

    def over_time(self, x):
        b, t, n, c = x.shape
        y = self.temporal_attn(x.transpose(1, 2).reshape(b * n, t, c))
        return self.temporal_fc(y).view(b, n, t, c).transpose(1, 2)

    def over_space(self, x):
        return self.attn(x.flatten(0, 1)).view_as(x)

    def forward(self, x):
        xt = x + self.over_time(self.temporal_norm1(x))
        x = xt + self.over_space(self.norm1(xt))
        return x + self.mlp(self.norm2(x))


class TimeSpaceBlockJoined(TimeSpaceBlock):
    """What both attentions found is put on the input together."""

    def forward(self, x):
        res_temporal = x + self.over_time(self.temporal_norm1(x))
        res_spatial = self.over_space(self.norm1(res_temporal))
        x = x + res_temporal + res_spatial
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ twin branches
class TwinBranchBlock(nn.Module):
    """Two attentions beside each other, then two nets, each with a norm and a factor a channel."""

    def __init__(self, init=0.5):
        super().__init__()
        self.norm11, self.norm12, self.norm21, self.norm22 = (nn.LayerNorm(C, eps=1e-6) for _ in range(4))
        self.attn, self.attn1, self.mlp, self.mlp1 = Attention(), Attention(), Mlp(), Mlp()
        self.gain_1, self.gain_1_1, self.gain_2, self.gain_2_1 = (nn.Parameter(init * torch.ones(C)) for _ in range(4))

    def forward(self, x):
        x = x + self.gain_1 * self.attn(self.norm11(x)) + self.gain_1_1 * self.attn1(self.norm12(x))
        x = x + self.gain_2 * self.mlp(self.norm21(x)) + self.gain_2_1 * self.mlp1(self.norm22(x))
        return x


# ------------------------------------------------------------------ vectors of shares
class VectorSharesUnit(nn.Module):
    """Each point reads its five nearest: a share a channel by a net of a difference and of the place; norms of the batch behind all maps, and the last ReLU behind the sum."""

    def __init__(self, k=5):
        super().__init__()
        self.k, self.bn1, self.bn2, self.bn3, self.linear1, self.linear3 = k, nn.BatchNorm1d(C), nn.BatchNorm1d(C), nn.BatchNorm1d(C), fc(C, C, False), fc(C, C, False)
        self.q, self.key, self.v, self.place, self.weigh = fc(C, C), fc(C, C), fc(C, C), nn.Sequential(fc(3, 16), nn.ReLU(), fc(16, C)), nn.Sequential(fc(C, 16), nn.ReLU(), fc(16, C))

    def transformer(self, x, p):
        near = torch.cdist(p, p).topk(self.k, largest=False).indices
        delta = self.place(p[near] - p[:, None])
        w = self.weigh(self.q(x)[:, None] - self.key(x)[near] + delta).softmax(dim=1)
        return (w * (self.v(x)[near] + delta)).sum(dim=1)

    def forward(self, x, p):
        y = F.relu(self.bn1(self.linear1(x)))
        y = F.relu(self.bn2(self.transformer(y, p)))
        y = self.bn3(self.linear3(y))
        y += x
        return F.relu(y)


# ------------------------------------------------------------------ channels that are weighed
class ChannelWeighUnit(nn.Module):
    """Two filters, and a gate a channel of what they gave, as in nets for larger pictures: no norms."""

    def __init__(self, squeeze=8, res_scale=1.0):
        super().__init__()
        self.res_scale, self.body = res_scale, nn.Sequential(conv(C, C, 3, bias=True), nn.ReLU(True), conv(C, C, 3, bias=True))
        self.ca = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(C, C // squeeze, bias=True), nn.ReLU(True), conv(C // squeeze, C, bias=True), nn.Sigmoid())

    def forward(self, x):
        res = self.body(x)
        res = res * self.ca(res)
        return x + res.mul(self.res_scale)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _THREE = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: False, 1: False, 2: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "InvertedUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch, in training."),
    "InvertedUnitClipped": dict(_LEVEL, output_bounded={0: True}, growth_all="bounded", softmax=False, sound=False, why="what is handed on lies between nothing and six: the skip is clipped in each unit."),
    "MergedFilterUnit": dict(_LEVEL, growth_all="bounded", softmax=False, sound=True, why="three norms of the batch are summed: each unit starts anew from them."),
    "ShuffleUnit": dict(_LEVEL, identity_gain=1.0, growth_all="bounded", softmax=False, sound=True, why="a channel either passes or is a norm; the first channel passes all units."),
    "TransposedAttnBlock": dict(_PRE, **_TWO, **_SHUT, sound=True, gradient_law="power", why="pre-norm; scores are cosines times a factor."),
    "TransposedAttnBlockQ": dict(_PRE, **_TWO, **_OPEN, why="pre-norm; keys have any length: scores grow with their map."),
    "TimeScaledUnit": dict(_NET, **_ONE, sound=True, gradient_law="power", why="functions of norms; the time is the same in all units."),
    "TimeScaledUnitSum": dict(_EXP, softmax=False, **_ONE, why="the stream is multiplied by one and a function of the time in each unit."),
    "SimpleGateUnit": dict(_NET, **_TWO, sound=True, why="pre-norm; products of functions of norms, and layer scales."),
    "SimpleGateUnitInput": dict(_EXP, softmax=False, **_TWO, why="means of the stream itself multiply what is added: of degree one."),
    "EquilibriumStep": dict(_LEVEL, growth_all="bounded", softmax=False, sound=True, why="a norm behind the sum."),
    "SineUnit": dict(_LEVEL, identity_gain=0.5 ** 24, growth_all="bounded", output_bounded={0: True}, softmax=False, why="means of the state and of sines."),
    "TimeSpaceBlock": dict(_PRE, **_THREE, **_OPEN, sound=True, gradient_law="power", why="pre-norm, three branches one behind the other."),
    "TimeSpaceBlockJoined": dict(_EXP, identity_gain=2.0 ** 24, gradient_law="exponential", softmax=True, **_OPEN, why="what time gave has the input in it already: doubled."),
    "TwinBranchBlock": dict(_PRE, output_bounded={i: False for i in range(4)}, **_OPEN, sound=True, why="pre-norm, four branches, layer scales."),
    "VectorSharesUnit": dict(kind="block", growth_fixed="linear", growth_all="linear", softmax=True, output_bounded={0: True}, sound=True, why="the branch ends in a norm of the batch; a ReLU behind the sum."),
    "ChannelWeighUnit": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, why="no norm: filters of the stream times a gate."),
}
