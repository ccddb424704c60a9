"""Pull requests on pictures, sound and diffusion: grids and windows, bottlenecks, mobile units, filters, gates by conditions, units of vocoders and recognisers."""

from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S, H, L = 32, 8, 4, 16
HD = C // H

_G = torch.Generator().manual_seed(126)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_P, _X = _draw(2, C, S, S), _draw(2, L, C)
example_inputs = {
    **{k: (_P,) for k in ("BottleneckPreAct", "BottleneckCompact", "MobileUnitLite", "MobileUnitFolded", "AxialPlanes", "CoordinateGate", "ConvModulation", "ConvModulationV2",
                          "AutoencoderAttention", "PooledDetour", "RepUnit")},
    **{k: (_draw(2, S, S, C),) for k in ("GridThenWindow", "GlobalFilterLayer")},
    **{k: (_X,) for k in ("SqueezeformerUnit", "ZipLayer")},
    "ConditionedGateBlock": (_X, _draw(2, C)),
    "DiffWaveLayer": (_draw(2, C, 24), _draw(2, C, 24)),
}


def conv(i, o, k=1, **kw):
    m = nn.Conv2d(i, o, k, padding=k // 2, **kw)
    nn.init.kaiming_normal_(m.weight, nonlinearity="linear")
    return m


def fc(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def mlp(act=nn.GELU):
    return nn.Sequential(fc(C, 64), act(), fc(64, C))


def attend(qkv):
    """(…, tokens, 3 C) -> (…, tokens, C)."""
    q, k, v = (t.unflatten(-1, (H, HD)).transpose(-2, -3) for t in qkv.chunk(3, dim=-1))
    return F.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2)


# ------------------------------------------------------------------ windows, grids, axes
def window(x, p):
    b, h, w, c = x.shape
    return x.view(b, h // p, p, w // p, p, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, p * p, c)


def unwindow(y, p, size):
    b, h, w, c = size
    return y.view(b, h // p, w // p, p, p, c).permute(0, 1, 3, 2, 4, 5).reshape(size)


def grid(x, p):
    b, h, w, c = x.shape
    return x.view(b, p, h // p, p, w // p, c).permute(0, 2, 4, 1, 3, 5).reshape(-1, p * p, c)


def ungrid(y, p, size):
    b, h, w, c = size
    return y.view(b, h // p, w // p, p, p, c).permute(0, 3, 1, 4, 2, 5).reshape(size)


class Partitioned(nn.Module):
    def __init__(self, split, join, p=4):
        super().__init__()
        self.split, self.join = partial(split, p=p), partial(join, p=p)
        self.norm1, self.qkv, self.proj, self.norm2, self.mlp = nn.LayerNorm(C), fc(C, 3 * C), fc(C, C), nn.LayerNorm(C), mlp()

    def forward(self, x):
        y = self.split(self.norm1(x))
        y = self.proj(attend(self.qkv(y)))
        x = x + self.join(y, size=x.shape)
        return x + self.mlp(self.norm2(x))


class GridThenWindow(nn.Module):
    """Sparse attention on a grid in front of attention in windows."""

    def __init__(self):
        super().__init__()
        self.grid, self.window = Partitioned(grid, ungrid), Partitioned(window, unwindow)

    def forward(self, x):
        return self.window(self.grid(x))


class AxialPlanes(nn.Module):
    """Rows, then columns, with one set of maps for both."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.GroupNorm(1, C), fc(C, 3 * C, bias=False), fc(C, C)

    def along(self, x, last):
        h = self.norm(x).movedim(1, -1)
        h = h if last else h.transpose(1, 2)
        h = self.proj(attend(self.qkv(h)))
        h = h if last else h.transpose(1, 2)
        return h.movedim(-1, 1)

    def forward(self, x):
        for last in (True, False):
            x = x + self.along(x, last)
        return x


# ------------------------------------------------------------------ bottlenecks
class BottleneckPreAct(nn.Module):
    """Norm and activation in front of each convolution."""

    def __init__(self, mid=16):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(C), conv(C, mid, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(mid), conv(mid, mid, 3, bias=False)
        self.bn3, self.conv3 = nn.BatchNorm2d(mid), conv(mid, C)

    def forward(self, x):
        identity = x
        out = self.conv1(F.relu(self.bn1(x), inplace=True))
        out = self.conv2(F.relu(self.bn2(out), inplace=True))
        out = self.conv3(F.relu(self.bn3(out), inplace=True))
        out += identity
        return out


class BottleneckCompact(nn.Module):
    """The same with fewer modules: stages come from a list."""

    def __init__(self):
        super().__init__()
        norm_act = nn.Sequential(nn.BatchNorm2d(C), nn.ReLU())
        self.stages = nn.ModuleList(nn.Sequential(norm_act, conv(C, C, k)) for k in (1, 3, 1))

    def forward(self, x):
        y = x
        for stage in self.stages:
            y = stage(y)
        return x + y


class MobileUnitLite(nn.Module):
    """Inverted residual: wide in the middle, a depthwise filter, no activation behind the last norm."""

    def __init__(self, expand=2):
        super().__init__()
        w = expand * C
        self.body = nn.Sequential(
            conv(C, w, bias=False), nn.BatchNorm2d(w), nn.Hardswish(),
            conv(w, w, 3, groups=w, bias=False), nn.BatchNorm2d(w), nn.Hardswish(),
            conv(w, C, bias=False), nn.BatchNorm2d(C),
        )

    def forward(self, x):
        return x + self.body(x)


class MobileUnitFolded(MobileUnitLite):
    """The same unit for export: what norms did is in weights and biases."""

    def __init__(self, expand=2):
        super().__init__(expand)
        kept = []
        for m in self.body:
            if isinstance(m, nn.BatchNorm2d):
                continue
            if isinstance(m, nn.Conv2d):
                m.bias = nn.Parameter(torch.zeros(m.out_channels))
            kept.append(m)
        self.body = nn.Sequential(*kept)


class RepUnit(nn.Module):
    """Three branches that are one filter after training."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Sequential(conv(C, C, 3, bias=False), nn.BatchNorm2d(C))
        self.point = nn.Sequential(conv(C, C, 1, bias=False), nn.BatchNorm2d(C))
        self.identity = nn.BatchNorm2d(C)

    def forward(self, x):
        return F.relu(self.dense(x) + self.point(x) + self.identity(x))


# ------------------------------------------------------------------ filters and gates
class CoordinateGate(nn.Module):
    """What a filter gives is gated by means along each axis."""

    def __init__(self):
        super().__init__()
        self.norm, self.body, self.squeeze = nn.GroupNorm(8, C), conv(C, C, 3), conv(C, 8)
        self.to_h, self.to_w = conv(8, C), conv(8, C)

    def forward(self, x):
        y = self.body(F.silu(self.norm(x)))
        rows, cols = y.mean(3, keepdim=True), y.mean(2, keepdim=True).transpose(2, 3)
        z = F.hardswish(self.squeeze(torch.cat((rows, cols), dim=2)))
        zh, zw = z.split((y.shape[2], y.shape[3]), dim=2)
        gate = self.to_h(zh).sigmoid() * self.to_w(zw.transpose(2, 3)).sigmoid()
        return torch.addcmul(x, y, gate)


class ConvModulation(nn.Module):
    """A large filter makes the weights of values; both halves have layer scales."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, C), nn.GroupNorm(1, C)
        self.a = nn.Sequential(conv(C, C), nn.GELU(), conv(C, C, 7, groups=C))
        self.v, self.proj = conv(C, C), conv(C, C)
        self.mlp = nn.Sequential(conv(C, 64), nn.GELU(), conv(64, C))
        self.layer_scale_1, self.layer_scale_2 = (nn.Parameter(torch.full((C, 1, 1), 0.5)) for _ in range(2))

    def modulate(self, h):
        return self.proj(self.a(h) * self.v(h))

    def forward(self, x):
        x = x + self.layer_scale_1 * self.modulate(self.norm1(x))
        return x + self.layer_scale_2 * self.mlp(self.norm2(x))


class ConvModulationV2(ConvModulation):
    """Both halves in one method, with a flag for the order in which they come."""

    mlp_first = False

    def forward(self, x):
        steps = [(self.layer_scale_1, self.norm1, self.modulate), (self.layer_scale_2, self.norm2, self.mlp)]
        for scale, norm, fn in reversed(steps) if self.mlp_first else steps:
            y = norm(x) if fn is self.modulate else x
            x = x + scale * fn(y)
        return x


class GlobalFilterLayer(nn.Module):
    """A trained filter of all frequencies in the place of attention."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.mlp = nn.LayerNorm(C), nn.LayerNorm(C), mlp()
        self.complex_weight = nn.Parameter(torch.randn(S, S // 2 + 1, C, 2) * 0.5)

    def forward(self, x):
        f = torch.fft.rfft2(self.norm1(x), dim=(1, 2), norm="ortho") * torch.view_as_complex(self.complex_weight)
        y = torch.fft.irfft2(f, s=x.shape[1:3], dim=(1, 2), norm="ortho")
        return x + self.mlp(self.norm2(y))


class PooledDetour(nn.Module):
    """A branch at half the resolution."""

    def __init__(self):
        super().__init__()
        self.norm, self.down, self.up = nn.InstanceNorm2d(C, affine=True), conv(C, 64, 3), conv(64, C, 3)

    def forward(self, x):
        y = F.avg_pool2d(self.norm(x), 2)
        y = F.gelu(self.down(y))
        y = F.interpolate(y, size=x.shape[-2:], mode="nearest")
        return self.up(y) + x


class AutoencoderAttention(nn.Module):
    """Attention of an autoencoder's middle, with batched products."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.proj_out = nn.GroupNorm(8, C, eps=1e-6), conv(C, C), conv(C, C), conv(C, C), conv(C, C)

    def forward(self, x):
        h_ = self.norm(x)
        b, c, h, w = h_.shape
        q = self.q(h_).reshape(b, c, h * w).permute(0, 2, 1)
        k, v = self.k(h_).reshape(b, c, h * w), self.v(h_).reshape(b, c, h * w)
        w_ = torch.bmm(q, k) * int(c) ** (-0.5)
        w_ = F.softmax(w_, dim=1)
        h_ = torch.bmm(v, w_.permute(0, 2, 1)).reshape(b, c, h, w)
        return x + self.proj_out(h_)


# ------------------------------------------------------------------ diffusion, sound
class ConditionedGateBlock(nn.Module):
    """A condition scales and shifts what branches read, and gates the layer."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C, elementwise_affine=False), nn.LayerNorm(C, elementwise_affine=False)
        self.qkv, self.proj, self.mlp, self.ada = fc(C, 3 * C), fc(C, C), mlp(partial(nn.GELU, approximate="tanh")), fc(C, 6 * C)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(F.silu(c))[:, None].chunk(6, dim=-1)
        x = x + self.proj(attend(self.qkv(self.norm1(x) * (1 + s1) + b1)))
        x = x * (1 + g1)
        x = x + self.mlp(self.norm2(x) * (1 + s2) + b2)
        return x * (1 + g2)


class DiffWaveLayer(nn.Module):
    """A gated filter feeds the next layer and the sum of skips."""

    def __init__(self, dilation=2):
        super().__init__()
        self.dilated = nn.Conv1d(C, 2 * C, 3, padding=dilation, dilation=dilation)
        self.output_projection = nn.Conv1d(C, 2 * C, 1)

    def forward(self, x, skip):
        gate, filt = self.dilated(x).chunk(2, dim=1)
        y = self.output_projection(torch.sigmoid(gate) * torch.tanh(filt))
        residual, more = y.chunk(2, dim=1)
        return (x + residual) / 2.0 ** 0.5, skip + more


class SqueezeformerUnit(nn.Module):
    """Norms behind sums; a trained scale and shift in front of each module."""

    def __init__(self):
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(3, C)), nn.Parameter(torch.zeros(3, C))
        self.norms = nn.ModuleList(nn.LayerNorm(C) for _ in range(3))
        self.qkv, self.proj, self.ff = fc(C, 3 * C), fc(C, C), mlp(nn.SiLU)
        self.depthwise, self.point = nn.Conv1d(C, C, 5, padding=2, groups=C), fc(C, C)

    def attention(self, x):
        return self.proj(attend(self.qkv(x)))

    def convolution(self, x):
        return self.point(F.silu(self.depthwise(x.transpose(1, 2)).transpose(1, 2)))

    def forward(self, x):
        for i, f in enumerate((self.attention, self.convolution, self.ff)):
            x = self.norms[i](x + f(x * self.scale[i] + self.bias[i]))
        return x


class BiasNorm(nn.Module):
    """The length of what is left without a trained bias."""

    def __init__(self, d):
        super().__init__()
        self.bias, self.log_scale = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x * (x - self.bias).square().mean(-1, keepdim=True).add(1e-8).rsqrt() * self.log_scale.exp()


class ZipLayer(nn.Module):
    """A trained share a channel of what the layer did."""

    def __init__(self):
        super().__init__()
        self.norm_ff, self.norm_attn, self.ff, self.qkv, self.proj = BiasNorm(C), BiasNorm(C), mlp(nn.SiLU), fc(C, 3 * C), fc(C, C)
        self.bypass = nn.Parameter(torch.full((C,), 0.5))

    def forward(self, src):
        orig = src
        src = src + self.ff(self.norm_ff(src))
        src = src + self.proj(attend(self.qkv(self.norm_attn(src))))
        return orig + (src - orig) * self.bypass


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "GridThenWindow": dict(_PRE, gradient_law="power", **_OPEN, sound=True, why="pre-norm, four branches; grids and windows only reorder places."),
    "AxialPlanes": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; one set of maps is read twice."),
    "BottleneckPreAct": dict(_NET, **_ONE, sound=True, why="pre-norm, of the batch, in training."),
    "BottleneckCompact": dict(_NET, **_ONE, sound=False, why="pre-norm; one norm has the statistics and gains of all three stages, in training."),
    "MobileUnitLite": dict(_NET, gradient_law="power", output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of the batch: at most the root of what it is over, in training."),
    "MobileUnitFolded": dict(_EXP, softmax=False, why="a branch without a norm: of degree one."),
    "RepUnit": dict(_LEVEL, growth_all="bounded", softmax=False, why="a ReLU of three norms, and nothing else, in training."),
    "CoordinateGate": dict(_NET, **_ONE, sound=True, why="a filter of a norm; gates are at most one."),
    "ConvModulation": dict(_NET, **_TWO, sound=True, why="pre-norm; a product of two functions of a norm."),
    "ConvModulationV2": dict(_EXP, softmax=False, why="a bound method is never the same object twice: both halves read the stream, and one of them is a product."),
    "GlobalFilterLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="a filter of a norm, normed again."),
    "PooledDetour": dict(_NET, **_ONE, sound=True, why="pre-norm; means of a norm."),
    "AutoencoderAttention": dict(_PRE, **_ONE, **_OPEN, sound=False, why="shares sum to one over queries; a query's sum is at most the number of places, of functions of a norm."),
    "ConditionedGateBlock": dict(_EXP, softmax=True, **_OPEN, why="the gate is on all of the stream: a product over layers."),
    "DiffWaveLayer": dict(_NET, sound=True, why="1/sqrt(2) a layer and a map of entries of at most one; skips are summed."),
    "SqueezeformerUnit": dict(_LEVEL, softmax=True, sound=True, why="post-norm."),
    "ZipLayer": dict(_PRE, **_OPEN, sound=True, why="x and a share of functions of norms."),
}
