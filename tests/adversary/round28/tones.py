"""Pull requests on speech, signals and series: half steps, codecs, seasons, gated recurrences, momentum, steps of flows, library encoders in a skip."""


import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(228)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("MacaronLayer", "MacaronLerpLayer", "SeasonLayer", "SeasonNormedLayer", "GatedRecurrenceLayer", "LibraryLayer", "LibraryLayerOuter")},
    "CodecUnit": (_draw(2, D, 24),),
    **{k: (_X, _draw(2, T, D)) for k in ("MomentumLayer", "MomentumLayerUndamped")},
    "BoundedFlowStep": (_X, torch.tensor([0.3, 0.8])),
}


def lin(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


class FeedForward(nn.Sequential):
    def __init__(self, act=nn.SiLU):
        super().__init__(lin(D, 2 * D), act(), lin(2 * D, D))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_kv, self.to_out = lin(D, D), lin(D, 2 * D), lin(D, D)

    def forward(self, h):
        b, n, _ = h.shape
        q = self.to_q(h).view(b, n, H, HD)
        k, v = self.to_kv(h).view(b, n, 2, H, HD).unbind(2)
        q, k, v = (t.permute(0, 2, 1, 3).reshape(b * H, n, HD) for t in (q, k, v))
        bias = h.new_zeros(1, n, n).expand(b * H, -1, -1)
        w = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=HD ** -0.5).softmax(-1)
        return self.to_out(torch.bmm(w, v).view(b, H, n, HD).permute(0, 2, 1, 3).flatten(2))


# ------------------------------------------------------------------ half steps
class ConvModule(nn.Module):
    """A gated map, a filter a channel, a norm, a map."""

    def __init__(self, k=5):
        super().__init__()
        self.pw1, self.dw, self.norm, self.pw2 = nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, k, padding=k // 2, groups=D), nn.GroupNorm(1, D), nn.Conv1d(D, D, 1)

    def forward(self, h):
        y = F.glu(self.pw1(h.transpose(1, 2)), dim=1)
        return self.pw2(F.silu(self.norm(self.dw(y)))).transpose(1, 2)


class MacaronLayer(nn.Module):
    """Half a net, attention, filters, half a net, a norm."""

    def __init__(self):
        super().__init__()
        self.ff1, self.ff2, self.attn, self.conv = FeedForward(), FeedForward(), SelfAttention(), ConvModule()
        self.norm_ff1, self.norm_mha, self.norm_conv, self.norm_ff2, self.norm_final = (nn.LayerNorm(D) for _ in range(5))

    def forward(self, x):
        x = x + 0.5 * self.ff1(self.norm_ff1(x))
        x = x + self.attn(self.norm_mha(x))
        x = x + self.conv(self.norm_conv(x))
        x = x + 0.5 * self.ff2(self.norm_ff2(x))
        return self.norm_final(x)


class MacaronLerpLayer(MacaronLayer):
    """Half steps in one call each; the last norm has moved to the end of the encoder."""

    def forward(self, x):
        x = torch.lerp(x, self.ff1(self.norm_ff1(x)), 0.5)
        x = x + self.attn(self.norm_mha(x))
        x = x + self.conv(self.norm_conv(x))
        return torch.lerp(x, self.ff2(self.norm_ff2(x)), 0.5)


# ------------------------------------------------------------------ codecs
def snake(x, alpha):
    return x + (alpha + 1e-9).reciprocal() * torch.sin(alpha * x).pow(2)


class CodecUnit(nn.Module):
    """A periodic activation, a dilated filter, the same again, a map; no norm, as in codecs."""

    def __init__(self, dilation=3):
        super().__init__()
        self.alpha1, self.alpha2 = nn.Parameter(torch.ones(1, D, 1)), nn.Parameter(torch.ones(1, D, 1))
        self.conv1, self.conv2 = nn.Conv1d(D, D, 3, dilation=dilation, padding=dilation), nn.Conv1d(D, D, 1)
        for c in (self.conv1, self.conv2):
            nn.init.trunc_normal_(c.weight, std=c.weight[0].numel() ** -0.5)
            nn.init.zeros_(c.bias)

    def forward(self, x):
        y = self.conv1(snake(x, self.alpha1))
        y = self.conv2(snake(y, self.alpha2))
        pad = (x.shape[-1] - y.shape[-1]) // 2
        if pad > 0:
            x = x[..., pad:-pad]
        return x + y


# ------------------------------------------------------------------ series


class SeasonLayer(nn.Module):
    """A moving mean is taken off behind each sum, and only what is left goes on."""

    def __init__(self, k=5):
        super().__init__()
        self.k, self.attention, self.net = k, SelfAttention(), FeedForward(nn.GELU)

    def season(self, x):
        front, back = x[:, :1].expand(-1, self.k // 2, -1), x[:, -1:].expand(-1, self.k // 2, -1)
        trend = F.avg_pool1d(torch.cat([front, x, back], 1).transpose(1, 2), self.k, 1).transpose(1, 2)
        return x - trend

    def forward(self, x):
        x = self.season(x + self.attention(x))
        return self.season(x + self.net(x))


class SeasonNormedLayer(SeasonLayer):
    """Season and trend both stay on the stream; branches read a norm of the season."""

    def __init__(self, k=5):
        super().__init__(k)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        x = x + self.attention(self.norm1(self.season(x)))
        return x + self.net(self.norm2(self.season(x)))


# ------------------------------------------------------------------ recurrences
class GatedRecurrenceLayer(nn.Module):
    """A short filter and a diagonal recurrence whose input is scaled by what the gate forgets; gated by a branch beside it."""

    c = 8.0

    def __init__(self, width=40):
        super().__init__()
        self.temporal_pre_norm, self.channel_pre_norm, self.mlp_block = nn.RMSNorm(D), nn.RMSNorm(D), FeedForward(nn.GELU)
        self.linear_x, self.linear_y, self.linear_out = lin(D, width), lin(D, width), lin(width, D)
        self.conv_1d = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.input_gate, self.a_gate = lin(width, width), lin(width, width)
        self.a_param = nn.Parameter(torch.linspace(-4.0, 1.0, width))

    def rg_lru(self, u):
        log_a = -self.c * torch.sigmoid(self.a_gate(u)) * F.softplus(self.a_param)
        a, gated = log_a.exp(), u * torch.sigmoid(self.input_gate(u))
        scaled = gated * torch.sqrt(1 - torch.exp(2 * log_a) + 1e-6)
        state, out = torch.zeros_like(u[:, 0]), []
        for at, ut in zip(a.unbind(1), scaled.unbind(1)):
            state = torch.addcmul(ut, at, state)
            out.append(state)
        return torch.stack(out, 1)

    def forward(self, x):
        h = self.temporal_pre_norm(x)
        y = F.gelu(self.linear_y(h))
        u = self.conv_1d(self.linear_x(h).transpose(1, 2))[..., : h.shape[1]].transpose(1, 2)
        x = x + self.linear_out(self.rg_lru(u) * y)
        return x + self.mlp_block(self.channel_pre_norm(x))


# ------------------------------------------------------------------ momentum, flows
class MomentumLayer(nn.Module):
    """A velocity forgets a tenth of itself in each layer and is added to the state."""

    def __init__(self, gamma=0.9):
        super().__init__()
        self.gamma, self.norm, self.net, self.mix = gamma, nn.LayerNorm(D), FeedForward(), nn.Parameter(torch.randn(T, T) / T ** 0.5)

    def force(self, x):
        h = self.norm(x)
        return self.net(h) + torch.einsum("ts,bsd->btd", self.mix, h)

    def forward(self, x, v):
        v = self.gamma * v + (1 - self.gamma) * self.force(x)
        return x + v, v


class MomentumLayerUndamped(MomentumLayer):
    """Forces are summed, as in the physics."""

    def forward(self, x, v):
        v = v + (1 - self.gamma) * self.force(x)
        return x + v, v


class BoundedFlowStep(nn.Module):
    """An Euler step of a flow whose speed is a map of tanhs; no norm is needed."""

    def __init__(self, dt=0.25):
        super().__init__()
        self.dt, self.a, self.t, self.b = dt, lin(D, 64), lin(1, 64), lin(64, D)

    def velocity(self, x, t):
        return self.b(torch.tanh(self.a(x) + self.t(t[:, None])[:, None]))

    def forward(self, x, t):
        return torch.add(x, self.velocity(x, t), alpha=self.dt)


# ------------------------------------------------------------------ library layers
class LibraryLayer(nn.Module):
    """The library's encoder layer with norms in front."""

    def __init__(self, **kw):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, H, dim_feedforward=64, dropout=0.0, activation="gelu", batch_first=True, **({"norm_first": True} | kw))

    def forward(self, x):
        return self.layer(x)


class LibraryLayerOuter(LibraryLayer):
    """The library's default layer, with a skip around it, since that one was said to be missing."""

    def __init__(self):
        super().__init__(norm_first=False)

    def forward(self, x):
        return x + self.layer(x)


def _norm(m, n=24):
    return torch.linalg.matrix_norm(torch.linalg.matrix_power(torch.tensor(m), n), 2).item()


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "MacaronLayer": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="a norm behind the last sum."),
    "MacaronLerpLayer": dict(_LEVEL, identity_gain=0.25 ** 24, softmax=True, logits_bounded={1: False}, sound=False, why="a half of the stream is left by each half step: a quarter a layer."),
    "CodecUnit": dict(_EXP, gradient_law="exponential", softmax=False, **_ONE, why="no norm: the activation is the identity and something bounded; its slope is 1 + sin, of mean square 1.5, so gradients grow faster than values."),
    "SeasonLayer": dict(_EXP, softmax=True, why="moving means are no norms: branches are of degree one."),
    "SeasonNormedLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm of the season; season and trend are carried."),
    "GatedRecurrenceLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; the recurrence forgets."),
    "MomentumLayer": dict(_NET, identity_gain=_norm([[1.0, 0.9], [0.0, 0.9]]), sound=True, why="x and 0.9 v are added, v is 0.9 of itself; forces are functions of a norm."),
    "MomentumLayerUndamped": dict(kind="block", identity_gain=_norm([[1.0, 1.0], [0.0, 1.0]]), growth_fixed="polynomial", softmax=False, sound=False, why="forces are summed twice over depth: quadratic."),
    "BoundedFlowStep": dict(_NET, **_ONE, sound=True, why="a map of tanhs."),
    "LibraryLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm."),
    "LibraryLayerOuter": dict(_PRE, growth_all="linear", why="what the layer gives is a norm, and is added: norms behind the branch."),
}
