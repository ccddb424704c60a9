"""Latents, clips, sound and pictures: conditioned blocks of diffusion transformers, two streams in a dictionary, factorised video, vocoders, blocks of convolutional nets in training form, filters of Fourier and Haar."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(23)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _C = _draw(2, T, D), _draw(2, D)
_MAP = _draw(2, D, 8, 8)
example_inputs = {
    "PixArtBlock": (_X, _draw(2, 5, D), _draw(2, 6 * D)),
    "PixArtBlockOneGate": (_X, _draw(2, 5, D), _draw(2, 6 * D)),
    **{k: (_X, _C) for k in ("SingleStreamBlock", "SingleStreamKeepsModulated", "SingleStreamGateOnBoth", "AudioDiTBlock", "AudioDiTGateOnSum")},
    **{k: ({"img": _X, "txt": _draw(2, 5, D)}, _C) for k in ("DoubleStreamBlock", "DoubleStreamTextLost")},
    **{k: (_draw(2, 4, 9, D),) for k in ("SpaceTimeBlock", "SpaceTimeNoTemporalAdd")},
    **{k: (_draw(2, D, T),) for k in ("VocoderBlock", "VocoderBlockNormLost", "MultiReceptiveField")},
    **{k: (_MAP,) for k in ("LinearDiTBlock", "InvertedBottleneck", "InvertedBottleneckNoProjectionNorm", "BottleneckV1", "CrossCovarianceBlock", "FourierMixing", "FourierOperatorSkip")},
    **{k: (_X,) for k in ("HaarStream", "HaarStreamHalved")},
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def heads(t):
    return t.reshape(*t.shape[:-1], H, HD).transpose(-2, -3)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        return self.proj(attention(*(heads(t) for t in self.qkv(x).chunk(3, -1))))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = lin(D, 4 * D), nn.GELU(approximate="tanh"), lin(4 * D, D)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class MultiHeadCrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_linear, self.kv_linear, self.proj = lin(D, D), lin(D, 2 * D), lin(D, D)

    def forward(self, x, cond):
        k, v = self.kv_linear(cond).chunk(2, dim=-1)
        return self.proj(attention(heads(self.q_linear(x)), heads(k), heads(v)))


class PixArtBlock(nn.Module):
    """One table of shifts, scales and gates beside what the time step gives to all blocks; captions are read by queries of the raw stream."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(D, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn, self.cross_attn, self.mlp = SelfAttention(), MultiHeadCrossAttention(), Mlp()
        self.scale_shift_table = nn.Parameter(torch.randn(6, D) / D ** 0.5)

    def table(self, t, b):
        return [u.squeeze(1) for u in (self.scale_shift_table[None] + t.reshape(b, 6, -1)).chunk(6, dim=1)]

    def forward(self, x, y, t):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.table(t, x.shape[0])
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        x = x + self.cross_attn(x, y)
        x = x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))
        return x


class PixArtBlockOneGate(PixArtBlock):
    """The second modulation is of the stream itself: its norm is left out in the rewrite."""

    def forward(self, x, y, t):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.table(t, x.shape[0])
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        x = x + self.cross_attn(x, y)
        x = x + gate_mlp.unsqueeze(1) * self.mlp(modulate(x, shift_mlp, scale_mlp))
        return x


class QKNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_norm, self.key_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def forward(self, q, k, v):
        return self.query_norm(q).to(v), self.key_norm(k).to(v)


class SingleStreamBlock(nn.Module):
    """Attention and a net beside each other from one map, and one map of both; modulated by a vector, which gates the sum."""

    def __init__(self):
        super().__init__()
        self.linear1, self.linear2 = lin(D, 3 * D + 64), lin(D + 64, D)
        self.norm, self.pre_norm, self.mlp_act, self.modulation = QKNorm(), nn.LayerNorm(D, elementwise_affine=False, eps=1e-6), nn.GELU(approximate="tanh"), lin(D, 3 * D, True)

    def parts(self, x, vec):
        shift, scale, gate = self.modulation(F.silu(vec))[:, None, :].chunk(3, dim=-1)
        x_mod = (1 + scale) * self.pre_norm(x) + shift
        qkv, mlp = torch.split(self.linear1(x_mod), [3 * D, 64], dim=-1)
        q, k, v = (heads(t) for t in qkv.chunk(3, -1))
        q, k = self.norm(q, k, v)
        return x_mod, gate, self.linear2(torch.cat((attention(q, k, v), self.mlp_act(mlp)), 2))

    def forward(self, x, vec):
        _, gate, output = self.parts(x, vec)
        return x + gate * output


class SingleStreamKeepsModulated(SingleStreamBlock):
    """The name is used again: what is modulated is carried."""

    def forward(self, x, vec):
        x, gate, output = self.parts(x, vec)
        return x + gate * output


class SingleStreamGateOnBoth(SingleStreamBlock):
    """A bracket: the gate's sigmoid scales the sum, not the branch."""

    def forward(self, x, vec):
        _, gate, output = self.parts(x, vec)
        return torch.sigmoid(gate) * (x + output)


class AudioDiTBlock(nn.Module):
    """Branches are scaled by a sigmoid of one minus a gate, which a map of zeros makes from the global condition."""

    def __init__(self):
        super().__init__()
        self.pre_norm, self.ff_norm, self.self_attn, self.ff = nn.LayerNorm(D, bias=False), nn.LayerNorm(D, bias=False), SelfAttention(), Mlp()
        self.to_scale_shift_gate = nn.Sequential(nn.SiLU(), nn.Linear(D, D * 6, bias=False))
        nn.init.zeros_(self.to_scale_shift_gate[1].weight)

    def forward(self, x, global_cond):
        scale_self, shift_self, gate_self, scale_ff, shift_ff, gate_ff = self.to_scale_shift_gate(global_cond).unsqueeze(1).chunk(6, dim=-1)
        residual = x
        x = self.pre_norm(x)
        x = x * (1 + scale_self) + shift_self
        x = self.self_attn(x)
        x = x * torch.sigmoid(1 - gate_self)
        x = x + residual
        residual = x
        x = self.ff_norm(x)
        x = x * (1 + scale_ff) + shift_ff
        x = self.ff(x)
        x = x * torch.sigmoid(1 - gate_ff)
        x = x + residual
        return x


class AudioDiTGateOnSum(AudioDiTBlock):
    """Two lines change places: the sum is scaled, twice a block."""

    def forward(self, x, global_cond):
        scale_self, shift_self, gate_self, scale_ff, shift_ff, gate_ff = self.to_scale_shift_gate(global_cond).unsqueeze(1).chunk(6, dim=-1)
        residual = x
        x = self.self_attn(self.pre_norm(x) * (1 + scale_self) + shift_self)
        x = x + residual
        x = x * torch.sigmoid(1 - gate_self)
        residual = x
        x = self.ff(self.ff_norm(x) * (1 + scale_ff) + shift_ff)
        x = x + residual
        x = x * torch.sigmoid(1 - gate_ff)
        return x


class DoubleStreamBlock(nn.Module):
    """Pictures and text, each with its own norms and maps, attend to both; the state is a dictionary."""

    def __init__(self):
        super().__init__()
        self.mod = nn.ModuleDict({k: lin(D, 6 * D, True) for k in ("img", "txt")})
        self.qkv = nn.ModuleDict({k: lin(D, 3 * D) for k in ("img", "txt")})
        self.norms = nn.ModuleDict({k: QKNorm() for k in ("img", "txt")})
        self.proj = nn.ModuleDict({k: lin(D, D) for k in ("img", "txt")})
        self.mlp = nn.ModuleDict({k: Mlp() for k in ("img", "txt")})

    def after(self, name, x, attended, m):
        x = x + m[2] * self.proj[name](attended)
        h = (1 + m[4]) * F.layer_norm(x, (D,)) + m[3]
        return x + m[5] * self.mlp[name](h)

    def forward(self, state, vec):
        m = {k: self.mod[k](F.silu(vec)).unsqueeze(1).chunk(6, -1) for k in state}
        qs, ks, vs = [], [], []
        for name in ("txt", "img"):
            h = (1 + m[name][1]) * F.layer_norm(state[name], (D,)) + m[name][0]
            q, k, v = (heads(t) for t in self.qkv[name](h).chunk(3, -1))
            q, k = self.norms[name](q, k, v)
            qs.append(q)
            ks.append(k)
            vs.append(v)
        both = attention(*(torch.cat(t, dim=2) for t in (qs, ks, vs)))
        n = state["txt"].shape[1]
        return {"img": self.after("img", state["img"], both[:, n:], m["img"]), "txt": self.after("txt", state["txt"], both[:, :n], m["txt"])}


class DoubleStreamTextLost(DoubleStreamBlock):
    """In the picture's half what attention says is in no sum, and the net reads the modulated sum without a norm."""

    def after(self, name, x, attended, m):
        if name == "img":
            return x + m[5] * self.mlp[name]((1 + m[4]) * (x + self.proj[name](attended)) + m[3])
        return super().after(name, x, attended, m)


class SpaceTimeBlock(nn.Module):
    """Attention along time with a map behind it, then along space, then a net: frames, places, channels."""

    def __init__(self):
        super().__init__()
        self.temporal_norm1, self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.temporal_attn, self.temporal_fc, self.attn, self.mlp = SelfAttention(), lin(D, D), SelfAttention(), Mlp()

    def along_time(self, x):
        b, t, s, d = x.shape
        xt = x.permute(0, 2, 1, 3).reshape(b * s, t, d)
        xt = self.temporal_fc(self.temporal_attn(self.temporal_norm1(xt)))
        return xt.reshape(b, s, t, d).permute(0, 2, 1, 3)

    def along_space(self, x):
        b, t, s, d = x.shape
        xs = x.reshape(b * t, s, d)
        return self.attn(self.norm1(xs)).view(b, t, s, d)

    def forward(self, x):
        x = x + self.along_time(x)
        x = x + self.along_space(x)
        return x + self.mlp(self.norm2(x))


class SpaceTimeNoTemporalAdd(SpaceTimeBlock):
    """What attention along time gives takes the place of the stream."""

    def forward(self, x):
        x = self.along_time(x)
        x = x + self.along_space(x)
        return x + self.mlp(self.norm2(x))


class VocoderBlock(nn.Module):
    """A filter of seven steps, a norm over channels, two maps, and a scale of an eighth; channels stand first."""

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm, self.pwconv1, self.act, self.pwconv2 = nn.Conv1d(D, D, 7, padding=3, groups=D), nn.LayerNorm(D, eps=1e-6), lin(D, 96), nn.GELU(), lin(96, D)
        self.gamma = nn.Parameter(0.125 * torch.ones(D))

    def normed(self, x):
        return self.norm(x)

    def forward(self, x):
        residual = x
        x = self.dwconv(x)
        x = x.transpose(1, 2)
        x = self.normed(x)
        x = self.pwconv2(self.act(self.pwconv1(x)))
        x = self.gamma * x
        x = x.transpose(1, 2)
        return residual + x


class VocoderBlockNormLost(VocoderBlock):
    """The norm is an identity, and the scale one: of degree one."""

    def __init__(self):
        super().__init__()
        self.norm, self.gamma = nn.Identity(), nn.Parameter(torch.ones(D))
        nn.init.normal_(self.dwconv.weight, std=7 ** -0.5)


class ResBlock1(nn.Module):
    def __init__(self, kernel, dilations=(1, 3)):
        super().__init__()
        self.convs1 = nn.ModuleList(weight_norm(nn.Conv1d(D, D, kernel, dilation=d, padding=(kernel * d - d) // 2)) for d in dilations)
        self.convs2 = nn.ModuleList(weight_norm(nn.Conv1d(D, D, kernel, padding=kernel // 2)) for _ in dilations)

    def forward(self, x):
        for c1, c2 in zip(self.convs1, self.convs2):
            xt = F.leaky_relu(x, 0.1)
            xt = c1(xt)
            xt = F.leaky_relu(xt, 0.1)
            xt = c2(xt)
            x = xt + x
        return x


class MultiReceptiveField(nn.Module):
    """A mean of three chains of residual filters under weight norm, without any other norm."""

    def __init__(self):
        super().__init__()
        self.resblocks = nn.ModuleList(ResBlock1(k) for k in (3, 5, 7))

    def forward(self, x):
        xs = None
        for block in self.resblocks:
            xs = block(x) if xs is None else xs + block(x)
        return xs / len(self.resblocks)


class LinearDiTBlock(nn.Module):
    """Linear attention of ReLUs over places, and a gated filter; root-mean-square norms over channels, which stand first."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.proj = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D)
        self.inverted_conv, self.depth_conv, self.point_conv = nn.Conv2d(D, 128, 1), nn.Conv2d(128, 128, 3, padding=1, groups=128), nn.Conv2d(64, D, 1, bias=False)

    def attn(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).permute(0, 2, 3, 1) for t in self.qkv(x).chunk(3, -1))
        q, k = F.relu(q), F.relu(k)
        v = F.pad(v, (0, 0, 0, 1), mode="constant", value=1.0)
        out = torch.matmul(torch.matmul(v, k.transpose(-1, -2)), q)
        out = out[:, :, :-1] / (out[:, :, -1:] + 1e-8)
        return self.proj(out.flatten(1, 2).transpose(1, 2))

    def ff(self, x):
        x, gate = self.depth_conv(F.silu(self.inverted_conv(x))).chunk(2, dim=1)
        return self.point_conv(x * F.silu(gate))

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.attn(self.norm1(x.flatten(2).transpose(1, 2)))
        x = x + y.transpose(1, 2).view(b, c, h, w)
        return x + self.ff(self.norm2(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


class InvertedBottleneck(nn.Module):
    """Wider, along places, squeezed and excited, narrow again: each filter has its batch norm, and the sum has no activation."""

    def __init__(self):
        super().__init__()
        self.expand, self.bn0 = nn.Conv2d(D, 64, 1, bias=False), nn.BatchNorm2d(64)
        self.depthwise, self.bn1 = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), nn.BatchNorm2d(64)
        self.reduce, self.excite = nn.Conv2d(64, 8, 1), nn.Conv2d(8, 64, 1)
        self.project, self.bn2 = nn.Conv2d(64, D, 1, bias=False), nn.BatchNorm2d(D)

    def body(self, x):
        x = F.silu(self.bn0(self.expand(x)))
        x = F.silu(self.bn1(self.depthwise(x)))
        s = F.adaptive_avg_pool2d(x, 1)
        s = self.excite(F.silu(self.reduce(s)))
        return self.project(torch.sigmoid(s) * x)

    def forward(self, inputs):
        return self.bn2(self.body(inputs)) + inputs


class InvertedBottleneckNoProjectionNorm(InvertedBottleneck):
    """The last batch norm is left out: its input is a map of normed values all the same."""

    def forward(self, inputs):
        return self.body(inputs) + inputs


class BottleneckV1(nn.Module):
    """Three filters, each with a batch norm, the last gain zero at the start; a ReLU of the sum."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = nn.Conv2d(D, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv3, self.bn3, self.relu = nn.Conv2d(16, D, 1, bias=False), nn.BatchNorm2d(D), nn.ReLU(inplace=True)
        nn.init.zeros_(self.bn3.weight)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class CrossCovarianceBlock(nn.Module):
    """Channels attend to channels by cosines over all places; then filters of three by three with a batch norm between, then a net; small scales of each."""

    def __init__(self, eta=1.0):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj, self.temperature = lin(D, 3 * D), lin(D, D), nn.Parameter(torch.ones(H, 1, 1))
        self.conv1, self.bn, self.conv2, self.mlp = nn.Conv2d(D, D, 3, padding=1, groups=D), nn.BatchNorm2d(D), nn.Conv2d(D, D, 3, padding=1, groups=D), Mlp()
        self.gamma1, self.gamma2, self.gamma3 = (nn.Parameter(eta * torch.ones(D)) for _ in range(3))

    def attn(self, x):
        b, n, _ = x.shape
        q, k, v = (t.reshape(b, n, H, HD).permute(0, 2, 3, 1) for t in self.qkv(x).chunk(3, -1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        a = ((q @ k.transpose(-2, -1)) * self.temperature).softmax(dim=-1)
        return self.proj((a @ v).permute(0, 3, 1, 2).reshape(b, n, D))

    def local(self, x, h, w):
        x = x.permute(0, 2, 1).reshape(-1, D, h, w)
        return self.conv2(self.bn(F.gelu(self.conv1(x)))).reshape(-1, D, h * w).permute(0, 2, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        x = x + self.gamma1 * self.attn(self.norm1(x))
        x = x + self.gamma3 * self.local(self.norm3(x), h, w)
        x = x + self.gamma2 * self.mlp(self.norm2(x))
        return x.transpose(1, 2).reshape(b, c, h, w)


class FourierMixing(nn.Module):
    """Frequencies of what is normed go through a small complex net with a soft threshold, are brought back, and what was normed is added to them before the net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Mlp()
        self.w1, self.w2 = (nn.Parameter(0.2 * torch.randn(2, 4, D // 4, D // 4)) for _ in range(2))

    def mul(self, re, im, w):
        e = lambda a, b: torch.einsum("...bi,bio->...bo", a, b)
        return e(re, w[0]) - e(im, w[1]), e(im, w[0]) + e(re, w[1])

    def filter(self, x):
        z = torch.fft.rfft2(x, dim=(1, 2), norm="ortho").unflatten(-1, (4, D // 4))
        re, im = self.mul(z.real, z.imag, self.w1)
        re, im = self.mul(F.relu(re), F.relu(im), self.w2)
        y = F.softshrink(torch.stack([re, im], dim=-1), lambd=0.01)
        y = torch.view_as_complex(y.contiguous()).flatten(-2)
        return torch.fft.irfft2(y, s=x.shape[1:3], dim=(1, 2), norm="ortho") + x

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = x + self.filter(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x.permute(0, 3, 1, 2)


class FourierOperatorSkip(nn.Module):
    """A neural operator's layer with a skip around all of it: low frequencies times complex weights, a map beside, GELU, no norm."""

    def __init__(self):
        super().__init__()
        self.weights, self.w = nn.Parameter(torch.randn(D, D, 4, 4, 2) * D ** -0.5), nn.Conv2d(D, D, 1)

    def forward(self, x):
        z = torch.fft.rfft2(x)
        out = torch.zeros_like(z)
        out[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", z[:, :, :4, :4], torch.view_as_complex(self.weights))
        return x + F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.w(x))


class HaarStream(nn.Module):
    """The stream is taken to means and differences of neighbours, where nets of norms are added, and back: an orthonormal change."""

    back = 2 ** -0.5

    def __init__(self):
        super().__init__()
        self.norm_low, self.norm_high, self.low, self.high = nn.LayerNorm(D), nn.LayerNorm(D), Mlp(), Mlp()

    def forward(self, x):
        even, odd = x[:, 0::2], x[:, 1::2]
        a, d = (even + odd) * 2 ** -0.5, (even - odd) * 2 ** -0.5
        a, d = a + self.low(self.norm_low(a)), d + self.high(self.norm_high(d))
        return torch.stack(((a + d) * self.back, (a - d) * self.back), dim=2).flatten(1, 2)


class HaarStreamHalved(HaarStream):
    """A half on the way back, as beside sums without a root."""

    back = 0.5


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE, _TWO, _THREE = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: False, 1: False, 2: False})
TRUTH = {
    "PixArtBlock": dict(_PRE, **_THREE, logits_bounded={0: False, 1: False}, sound=True, why="pre-norm twice; what captions give is shares of fixed values."),
    "PixArtBlockOneGate": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="a net of degree one, nearly."),
    "SingleStreamBlock": dict(_PRE, **_ONE, logits_bounded={0: True}, gradient_law="power", sound=True, why="pre-norm, queries and keys normed."),
    "SingleStreamKeepsModulated": dict(kind="block", growth_fixed="bounded", softmax=True, gradient_law="exponential", sound=False, why="a modulated norm and a function of it."),
    "SingleStreamGateOnBoth": dict(kind="block", growth_fixed="bounded", softmax=True, sound=False, why="factors below one."),
    "AudioDiTBlock": dict(_PRE, **_TWO, logits_bounded={0: False}, gradient_law="power", sound=True, why="pre-norm."),
    "AudioDiTGateOnSum": dict(kind="block", identity_gain=(1 / (1 + 2.718281828459045 ** -1)) ** 48, growth_fixed="bounded", softmax=True, sound=False, why="0.731 twice a block."),
    "DoubleStreamBlock": dict(_PRE, logits_bounded={0: True}, sound=True, why="pre-norm in two streams."),
    "DoubleStreamTextLost": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="a net of degree one in one stream."),
    "SpaceTimeBlock": dict(_PRE, **_THREE, logits_bounded={0: False, 1: False}, sound=True, why="pre-norm."),
    "SpaceTimeNoTemporalAdd": dict(kind="block", growth_fixed="bounded", softmax=True, sound=False, why="each block starts from a map of a norm."),
    "VocoderBlock": dict(_NET, **_ONE, sound=True, why="a norm inside; a scale of an eighth."),
    "VocoderBlockNormLost": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="of degree one."),
    "MultiReceptiveField": dict(kind="block", growth_fixed="exponential", softmax=False, sound=True, why="of degree one, published without a norm."),
    "LinearDiTBlock": dict(_NET, **_TWO, sound=True, why="pre-norm."),
    "InvertedBottleneck": dict(_NET, sound=True, why="batch norm behind, in training."),
    "InvertedBottleneckNoProjectionNorm": dict(_NET, **_ONE, sound=False, why="a map of normed values, squeezed."),
    "BottleneckV1": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=False, sound=True, why="branches are zero at the start; a ReLU gives one."),
    "CrossCovarianceBlock": dict(_PRE, **_THREE, sound=True, why="pre-norm."),
    "FourierMixing": dict(_NET, **_TWO, sound=True, why="pre-norm."),
    "FourierOperatorSkip": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="of degree one."),
    "HaarStream": dict(_NET, **_TWO, gradient_law="power", sound=True, why="an orthonormal change, and back."),
    "HaarStreamHalved": dict(kind="block", identity_gain=2.0 ** -12, growth_fixed="bounded", softmax=False, sound=False, why="0.71 a block."),
}
