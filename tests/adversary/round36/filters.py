"""Research code with filters and recurrences: vocoders, mobile units, units with norms first, U-nets with times, recurrences in layers and with highways, minimal gated units, waves, receptance, restoration."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

C, T, S, E = 32, 16, 8, 24

_G = torch.Generator().manual_seed(3602)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_MAP, _SEQ, _WAVE, _EMB = _draw(2, C, S, S), _draw(2, T, C), _draw(2, C, T), _draw(2, E)
example_inputs = {
    **{k: (_MAP,) for k in ("MobileUnit", "MobileUnitGateLast", "PreActUnit", "PreActUnitShared", "RestoreUnit")},
    **{k: (_MAP, _EMB) for k in ("TimeResUnit", "TimeResUnitRescale")},
    **{k: (_WAVE,) for k in ("VocoderUnit", "VocoderUnitFolded")},
    **{k: (_WAVE, _draw(2, E, T)) for k in ("WaveUnit", "WaveUnitLinear")},
    **{k: (_SEQ,) for k in ("GruLayer", "LstmProjLayer", "HighwayRecurrentLayer", "MinimalGruLayer", "MinimalGruLayerConv", "ReceptanceLayer", "ReceptanceLayerMix")},
}


def init_(m: nn.Module) -> nn.Module:
    nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
    if m.bias is not None:
        nn.init.zeros_(m.bias)
    return m


def conv2d(i, o, k=1, **kw):
    return init_(nn.Conv2d(i, o, k, **{"padding": k // 2, **kw}))


def conv1d(i, o, k=1, **kw):
    return init_(nn.Conv1d(i, o, k, **kw))


def linear(i, o, bias=True):
    return init_(nn.Linear(i, o, bias=bias))


# ------------------------------------------------------------------ vocoders
class VocoderUnit(nn.Module):
    """A filter a channel over time, a norm, a wide net of points, a factor a channel."""

    def __init__(self, hidden=3 * C, layer_scale_init_value=0.3, norm_layer=partial(nn.LayerNorm, C, eps=1e-6)):
        super().__init__()
        self.dwconv, self.norm, self.pwconv1, self.act, self.pwconv2 = conv1d(C, C, 7, padding=3, groups=C), norm_layer(), linear(C, hidden), nn.GELU(), linear(hidden, C)
        self.gamma = nn.Parameter(layer_scale_init_value * torch.ones(C)) if layer_scale_init_value > 0 else None

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.dwconv(x)
        x = x.transpose(1, 2)
        x = self.norm(x)
        x = self.pwconv1(x)
        x = self.act(x)
        x = self.pwconv2(x)
        if self.gamma is not None:
            x = self.gamma * x
        x = x.transpose(1, 2)
        return residual + x


class VocoderUnitFolded(VocoderUnit):
    """For the phone: norms are folded into filters."""

    def __init__(self):
        super().__init__(norm_layer=nn.Identity)


# ------------------------------------------------------------------ mobile units
class SqueezeExcite(nn.Module):
    def __init__(self, dim, reduced):
        super().__init__()
        self.reduce, self.expand = conv2d(dim, reduced), conv2d(reduced, dim)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(s))))


class MobileUnit(nn.Module):
    """A wide map, a filter a channel, shares of channels, a thin map; norms of the batch behind each."""

    def __init__(self, expand=2, reduced=8):
        super().__init__()
        mid = expand * C
        self.expand = nn.Sequential(conv2d(C, mid, bias=False), nn.BatchNorm2d(mid), nn.SiLU())
        self.depthwise = nn.Sequential(conv2d(mid, mid, 3, groups=mid, bias=False), nn.BatchNorm2d(mid), nn.SiLU())
        self.se = SqueezeExcite(mid, reduced)
        self.project = nn.Sequential(conv2d(mid, C, bias=False), nn.BatchNorm2d(C))

    def forward(self, x):
        out = self.project(self.se(self.depthwise(self.expand(x))))
        return out + x


class MobileUnitGateLast(MobileUnit):
    """Shares of channels are taken at the thin end, where maps are cheap."""

    def __init__(self):
        super().__init__()
        self.se = SqueezeExcite(C, 8)

    def forward(self, x):
        out = self.project(self.depthwise(self.expand(x)))
        return self.se(out + x)


# ------------------------------------------------------------------ norms first
class PreActUnit(nn.Module):
    """Norm, ReLU, filter, twice."""

    def __init__(self):
        super().__init__()
        self.bn1, self.conv1, self.bn2, self.conv2 = nn.BatchNorm2d(C), conv2d(C, C, 3, bias=False), nn.BatchNorm2d(C), conv2d(C, C, 3, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(x))
        shortcut = x
        out = self.conv1(out)
        out = self.conv2(F.relu(self.bn2(out)))
        out += shortcut
        return out


class PreActUnitShared(PreActUnit):
    """The shortcut comes behind the first activation, as where the width changes."""

    def forward(self, x):
        out = F.relu(self.bn1(x))
        shortcut = self.shortcut(out) if hasattr(self, "shortcut") else out
        out = self.conv1(out)
        out = self.conv2(F.relu(self.bn2(out)))
        return out + shortcut


# ------------------------------------------------------------------ U-nets with times
class TimeResUnit(nn.Module):
    """Two filters behind norms; the time scales and shifts in the middle."""

    def __init__(self, emb_channels=E, groups=8):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(groups, C), nn.SiLU(), conv2d(C, C, 3))
        self.emb_layers = nn.Sequential(nn.SiLU(), linear(emb_channels, 2 * C))
        self.out_norm, self.out_rest = nn.GroupNorm(groups, C), nn.Sequential(nn.SiLU(), nn.Dropout(0.0), conv2d(C, C, 3))

    def hidden(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, dim=1)
        return self.out_rest(self.out_norm(h) * (1 + scale) + shift)

    def forward(self, x, emb):
        return x + self.hidden(x, emb)


class TimeResUnitRescale(TimeResUnit):
    """The sum over the root of two, so that its spread stays."""

    skip_rescale = True

    def forward(self, x, emb):
        h = self.hidden(x, emb)
        return (x + h) / math.sqrt(2.0) if self.skip_rescale else x + h


# ------------------------------------------------------------------ recurrences in layers
class GruLayer(nn.Module):
    """A recurrence behind a norm, added to what it reads."""

    def __init__(self):
        super().__init__()
        self.norm, self.rnn, self.dropout = nn.LayerNorm(C), nn.GRU(C, C, batch_first=True), nn.Dropout(0.0)

    def forward(self, x):
        out, _ = self.rnn(self.norm(x))
        return x + self.dropout(out)


class LstmProjLayer(nn.Module):
    """Both directions and a map back to the width; the recurrence reads what comes."""

    def __init__(self, hidden=24):
        super().__init__()
        self.lstm, self.proj = nn.LSTM(C, hidden, batch_first=True, bidirectional=True), linear(2 * hidden, C)

    def forward(self, x):
        y, _ = self.lstm(x)
        return x + self.proj(y)


class HighwayRecurrentLayer(nn.Module):
    """A light recurrence: gates need no state, and a highway from the input to the output."""

    def __init__(self):
        super().__init__()
        self.map = linear(C, 3 * C, bias=False)
        self.bias_f, self.bias_r = nn.Parameter(torch.zeros(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        u, f, r = self.map(x).chunk(3, dim=-1)
        f, r = torch.sigmoid(f + self.bias_f), torch.sigmoid(r + self.bias_r)
        c, out = torch.zeros_like(u[:, 0]), []
        for t in range(x.size(1)):
            c = f[:, t] * c + (1 - f[:, t]) * u[:, t]
            out.append(r[:, t] * torch.tanh(c) + (1 - r[:, t]) * x[:, t])
        return torch.stack(out, dim=1)


# ------------------------------------------------------------------ minimal gated units
class MinimalGru(nn.Module):
    """A gate and a candidate of the input alone; a map back from a wider state."""

    def __init__(self, dim=C, expansion=1.5):
        super().__init__()
        inner = int(dim * expansion)
        self.to_hidden_and_gate, self.to_out = linear(dim, 2 * inner, bias=False), linear(inner, dim, bias=False)

    def forward(self, x):
        hidden, gate = self.to_hidden_and_gate(x).chunk(2, dim=-1)
        hidden, z = torch.where(hidden >= 0, hidden + 0.5, hidden.sigmoid()), gate.sigmoid()
        state, states = torch.zeros_like(hidden[:, 0]), []
        for h_t, z_t in zip(hidden.unbind(1), z.unbind(1)):
            state = torch.lerp(state, h_t, z_t)
            states.append(state)
        return self.to_out(torch.stack(states, dim=1))


class MinimalGruLayer(nn.Module):
    """The unit and a net, each behind a norm."""

    def __init__(self):
        super().__init__()
        self.rnn_norm, self.min_gru, self.ff_norm, self.ff = nn.RMSNorm(C), MinimalGru(), nn.RMSNorm(C), nn.Sequential(linear(C, 2 * C), nn.GELU(), linear(2 * C, C))

    def forward(self, x):
        x = self.min_gru(self.rnn_norm(x)) + x
        x = self.ff(self.ff_norm(x)) + x
        return x


class CausalDepthWiseConv1d(nn.Module):
    def __init__(self, dim, kernel_size):
        super().__init__()
        self.kernel_size, self.net = kernel_size, nn.Sequential(conv1d(dim, dim, kernel_size, groups=dim), conv1d(dim, dim))

    def forward(self, x):
        return self.net(F.pad(x.transpose(1, 2), (self.kernel_size - 1, 0))).transpose(1, 2)


class MinimalGruLayerConv(MinimalGruLayer):
    """A short causal filter in front of the unit, with a skip of its own."""

    def __init__(self, conv_kernel_size=3):
        super().__init__()
        self.conv = CausalDepthWiseConv1d(C, conv_kernel_size)

    def forward(self, x):
        x = self.conv(x) + x
        return super().forward(x)


# ------------------------------------------------------------------ waves
class WaveUnit(nn.Module):
    """A wide causal filter with a condition, a tanh times a sigmoid, and a map of points; no norm anywhere."""

    def __init__(self, cond=E, dilation=2):
        super().__init__()
        self.pad, self.dilated, self.condition, self.residual = 2 * dilation, conv1d(C, 2 * C, 3, dilation=dilation), conv1d(cond, 2 * C), conv1d(C, C)

    def gated(self, filter_, gate):
        return torch.tanh(filter_) * torch.sigmoid(gate)

    def forward(self, x, c):
        y = self.dilated(F.pad(x, (self.pad, 0))) + self.condition(c)
        return self.residual(self.gated(*y.chunk(2, dim=1))) + x


class WaveUnitLinear(WaveUnit):
    """Linear gates train faster: a tanh of one half multiplies the other."""

    def gated(self, filter_, gate):
        return torch.tanh(filter_) * gate


# ------------------------------------------------------------------ receptance
class ReceptanceLayer(nn.Module):
    """Mixes of a token and the one before it; means whose weights are exponentials that decay; a net with squares of ReLUs."""

    def __init__(self, hidden=64):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.key, self.value, self.receptance, self.output = (linear(C, C, bias=False) for _ in range(4))
        self.ff_key, self.ff_receptance, self.ff_value = linear(C, hidden, bias=False), linear(C, C, bias=False), linear(hidden, C, bias=False)
        self.time_decay, self.time_first = nn.Parameter(torch.linspace(-3, 1, C)), nn.Parameter(torch.full((C,), 0.3))
        self.register_buffer("mix", torch.linspace(0.2, 0.8, C))

    softmax_by_hand = True

    @staticmethod
    def shift(x):
        return F.pad(x, (0, 0, 1, -1))

    def wkv(self, k, v):
        w, aa, bb, pp, out = -self.time_decay.exp(), 0.0, 0.0, torch.full_like(k[:, 0], -1e30), []
        for t in range(k.shape[1]):
            ww = self.time_first + k[:, t]
            p = torch.maximum(pp, ww)
            e1, e2 = torch.exp(pp - p), torch.exp(ww - p)
            out.append((e1 * aa + e2 * v[:, t]) / (e1 * bb + e2))
            ww = w + pp
            p = torch.maximum(ww, k[:, t])
            e1, e2 = torch.exp(ww - p), torch.exp(k[:, t] - p)
            aa, bb, pp = e1 * aa + e2 * v[:, t], e1 * bb + e2, p
        return torch.stack(out, dim=1)

    def mixed(self, x, norm):
        x = norm(x)
        return x * self.mix + self.shift(x) * (1 - self.mix)

    def forward(self, x):
        h = self.mixed(x, self.ln1)
        x = x + self.output(torch.sigmoid(self.receptance(h)) * self.wkv(self.key(h), self.value(h)))
        h = self.mixed(x, self.ln2)
        return x + torch.sigmoid(self.ff_receptance(h)) * self.ff_value(torch.relu(self.ff_key(h)).square())


class ReceptanceLayerMix(ReceptanceLayer):
    """Shift and norm are one kernel, whose result is mixed with the token."""

    def mixed(self, x, norm):
        xx = self.shift(norm(x))
        return torch.lerp(xx, x, self.mix)


# ------------------------------------------------------------------ restoration
class LayerNorm2d(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels)), eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        y = (x - mu) / (var + self.eps).sqrt()
        return self.weight.view(1, -1, 1, 1) * y + self.bias.view(1, -1, 1, 1)


def simple_gate(x):
    a, b = x.chunk(2, dim=1)
    return a * b


class RestoreUnit(nn.Module):
    """No activations: products of halves, means of channels as factors, and factors on both branches."""

    def __init__(self, init=0.3):
        super().__init__()
        self.norm1, self.norm2, self.conv1, self.conv2, self.sca, self.conv3, self.conv4, self.conv5 = LayerNorm2d(C), LayerNorm2d(C), conv2d(C, 2 * C), conv2d(2 * C, 2 * C, 3, groups=2 * C), nn.Sequential(nn.AdaptiveAvgPool2d(1), conv2d(C, C)), conv2d(C, C), conv2d(C, 2 * C), conv2d(C, C)
        self.layer_scale_beta, self.layer_scale_gamma = nn.Parameter(torch.full((1, C, 1, 1), init)), nn.Parameter(torch.full((1, C, 1, 1), init))

    def forward(self, inp):
        x = simple_gate(self.conv2(self.conv1(self.norm1(inp))))
        x = self.conv3(x * self.sca(x))
        y = inp + x * self.layer_scale_beta
        x = self.conv5(simple_gate(self.conv4(self.norm2(y))))
        return y + x * self.layer_scale_gamma


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=False)
_ONE, _TWO, _SHUT = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True})
TRUTH = {
    "VocoderUnit": dict(_NET, **_ONE, sound=True, why="a norm behind the filter; the rest is a function of it that ends in a map."),
    "VocoderUnitFolded": dict(_EXP, identity_gain=1.0, **_ONE, why="without its norm the branch is of degree one in the stream."),
    "MobileUnit": dict(_NET, **_SHUT, growth_all="linear", sound=True, why="the branch ends in a norm of the batch, whose gain is held."),
    "MobileUnitGateLast": dict(kind="block", softmax=False, gated=True, **_SHUT, sound=False, why="a sigmoid of data multiplies the sum, and so the skip."),
    "PreActUnit": dict(_NET, **_ONE, gradient_law="power", sound=True, why="norms in front; the branch ends in a filter."),
    "PreActUnitShared": dict(_LEVEL, **_ONE, sound=False, why="the shortcut is a ReLU of the norm: each unit starts anew."),
    "TimeResUnit": dict(_NET, **_ONE, sound=True, gradient_law="power", why="norms in front; scales and shifts are maps of a constant."),
    "TimeResUnitRescale": dict(_LEVEL, identity_gain=0.5 ** 12, **_ONE, why="the root of a half of the stream in each unit, beside a function of norms."),
    "GruLayer": dict(_NET, **_SHUT, growth_all="linear", sound=True, why="states of a GRU are means of tanhs: at most one."),
    "LstmProjLayer": dict(_NET, **_ONE, why="states of an LSTM are at most one, whatever they read; a map of them is added."),
    "HighwayRecurrentLayer": dict(_LEVEL, gated=True, growth_all="bounded", output_bounded={0: True}, why="shares of the stream and of a tanh: no entry gets larger than one or than it was."),
    "MinimalGruLayer": dict(_NET, **_TWO, sound=True, why="pre-norm; candidates have no bound, but they are functions of the norm."),
    "MinimalGruLayerConv": dict(_EXP, identity_gain=1.0, output_bounded={0: False, 1: False, 2: False}, why="the short filter reads the raw stream: of degree one."),
    "WaveUnit": dict(_NET, **_ONE, sound=True, why="a tanh times a sigmoid is at most one; a map of it is added."),
    "WaveUnitLinear": dict(_EXP, identity_gain=1.0, **_ONE, why="half of the filter multiplies as it is: of degree one in the stream."),
    "ReceptanceLayer": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True, **_TWO, logits_bounded={0: False}, gradient_law="power", sound=True, why="pre-norm; means by exponentials of keys, which are maps of the norm."),
    "ReceptanceLayerMix": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=True, **_TWO, logits_bounded={0: False}, sound=False, why="a share of the raw token is in what values read: of degree one, and of degree two in the net."),
    "RestoreUnit": dict(_NET, **_TWO, sound=True, why="pre-norm; products of functions of norms; factors are held."),
}
