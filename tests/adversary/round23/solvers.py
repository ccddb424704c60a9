"""Fixed points, turns by exponents of matrices, bindings by spectra, oscillators, states in dictionaries, lanes that predict each other, straight-through and detached values, learned statistics."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(23)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
_PLAIN = ("ExponentialTurn", "ExponentialTurnSymmetric", "BoundByPhases", "BoundBySpectrum", "Oscillating", "OscillatingRaw", "TwoKindsOfHeads", "Forgetting", "AveragedGate", "FixedPointAdded",
          "FixedPointOfReLU", "NeighboursInFront", "NeighboursOnStream", "ScalarsRounded", "HardGate", "SkipWithoutGradient", "InvertibleResidual", "LearnedStatistics", "RoutedDepth",
          "RoutedDepthLinear", "ScaledAndNormed", "GateBetween", "SpikesAdded", "SpikesOfSum", "Synchronised", "SynchronisedNoReturn", "GroupedResidualCodes", "NormOfWeights")
example_inputs = {
    **{k: (_X,) for k in _PLAIN},
    **{k: ({"x": _X, "v": torch.zeros(2, T, D)},) for k in ("WithVelocity", "WithVelocityNoFriction", "WithVelocityNesterov")},
    "PredictedLanes": (_draw(4, 2, T, D),),
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def mlp(act=nn.GELU, i=D, hidden=64):
    return nn.Sequential(lin(i, hidden), act(), lin(hidden, i))


class ExponentialTurn(nn.Module):
    """The stream is turned by the exponent of a skew matrix, and a net of its norm is added."""

    sign = -1

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.net = nn.Parameter(torch.randn(D, D) * 0.5 * D ** -0.5), nn.LayerNorm(D), mlp()

    def forward(self, x):
        q = torch.linalg.matrix_exp(self.a + self.sign * self.a.mT)
        return x @ q + self.net(self.norm(x))


class ExponentialTurnSymmetric(ExponentialTurn):
    """A plus for a minus: the exponent of a symmetric matrix."""

    sign = 1


class BoundByPhases(nn.Module):
    """The stream is bound to a learned key by circular convolution, with a spectrum of length one; a net of the norm is added."""

    def __init__(self):
        super().__init__()
        self.key, self.norm, self.net = nn.Parameter(torch.randn(D) * D ** -0.5), nn.RMSNorm(D), mlp()

    def spectrum(self):
        k = torch.fft.rfft(self.key)
        return k / k.abs().clamp_min(1e-8)

    def forward(self, x):
        bound = torch.fft.irfft(torch.fft.rfft(x, dim=-1) * self.spectrum(), n=D, dim=-1)
        return bound + self.net(self.norm(x))


class BoundBySpectrum(BoundByPhases):
    """The key is as it is drawn: lengths of its spectrum are near one, and not one."""

    def spectrum(self):
        return torch.fft.rfft(self.key)


class Oscillating(nn.Module):
    """Forced oscillators by implicit steps along time, read by a map, with a gated end."""

    def __init__(self, n=24):
        super().__init__()
        self.norm, self.b, self.c, self.d, self.glu = nn.LayerNorm(D), lin(D, n), lin(n, D), nn.Parameter(torch.randn(D)), lin(D, 2 * D)
        self.a, self.step = nn.Parameter(torch.rand(n)), nn.Parameter(torch.zeros(n))

    def scan(self, u):
        bu, dt, a = self.b(u), torch.sigmoid(self.step), F.relu(self.a)
        s = 1 / (1 + dt ** 2 * a)
        z, y, out = torch.zeros_like(bu[:, 0]), torch.zeros_like(bu[:, 0]), []
        for t in range(bu.shape[1]):
            z = s * (z - dt * a * y + dt * bu[:, t])
            y = y + dt * z
            out.append(y)
        return torch.stack(out, 1)

    def branch(self, h):
        y = F.gelu(self.c(self.scan(h)) + self.d * h)
        return F.glu(self.glu(y), dim=-1)

    def forward(self, x):
        return x + self.branch(self.norm(x))


class OscillatingRaw(Oscillating):
    """The norm stands behind the end and gives what nobody keeps: of degree one."""

    def forward(self, x):
        skip = x
        x = self.branch(x)
        return skip + x


class TwoKindsOfHeads(nn.Module):
    """Attention and a selective scan read one projection; each is normed, and the mean of both with learned factors goes through one map."""

    def __init__(self, n=4):
        super().__init__()
        self.input_layernorm, self.pre_avg_norm1, self.pre_avg_norm2 = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D)
        self.in_proj, self.x_proj, self.dt_proj, self.out_proj, self.n = lin(D, 5 * D), lin(D, 2 + 2 * n), nn.Linear(2, D), lin(D, D), n
        self.A_log, self.D = nn.Parameter(torch.log(torch.arange(1, n + 1).float()).repeat(D, 1)), nn.Parameter(torch.ones(D))
        self.beta1, self.beta2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))

    def ssm(self, u):
        delta, b, c = self.x_proj(u).split([2, self.n, self.n], dim=-1)
        delta, a = F.softplus(self.dt_proj(delta)), -torch.exp(self.A_log)
        h, ys = u.new_zeros(u.shape[0], D, self.n), []
        for i in range(u.shape[1]):
            h = torch.exp(delta[:, i, :, None] * a) * h + (delta[:, i] * u[:, i])[..., None] * b[:, i, None]
            ys.append(torch.einsum("bdn,bn->bd", h, c[:, i]))
        return torch.stack(ys, 1) + u * self.D

    def mix(self, h):
        q, k, v, u, z = self.in_proj(h).chunk(5, -1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        s = self.ssm(F.silu(u)) * F.silu(z)
        return self.out_proj((self.beta1 * self.pre_avg_norm1(a) + self.beta2 * self.pre_avg_norm2(s)) / 2)

    def forward(self, x):
        return x + self.mix(self.input_layernorm(x))


class Forgetting(nn.Module):
    """Logits lose what gates of the tokens between forget, as sums of logs; queries and keys are normed, and a gate stands on what comes out."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.fgate, self.ogate, self.o_proj = nn.RMSNorm(D), lin(D, 3 * D), nn.Linear(D, H), lin(D, D), lin(D, D)
        self.q_norm, self.k_norm, self.o_norm = nn.RMSNorm(HD), nn.RMSNorm(HD), nn.RMSNorm(HD)

    def mix(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        q, k = self.q_norm(q), self.k_norm(k)
        log_f = F.logsigmoid(self.fgate(h)).transpose(1, 2).cumsum(-1)
        bias = log_f[..., :, None] - log_f[..., None, :]
        t = h.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool, device=h.device).triu(1)
        w = (q @ k.mT / HD ** 0.5 + bias).masked_fill(mask, float("-inf")).softmax(-1)
        y = self.o_norm(w @ v).transpose(1, 2).flatten(2)
        return self.o_proj(y * torch.sigmoid(self.ogate(h)))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class AveragedGate(nn.Module):
    """A damped moving average along time gives queries, keys and gates; the stream is carried by one minus an update gate made from it."""

    def __init__(self, n=4):
        super().__init__()
        self.norm, self.alpha, self.delta = nn.LayerNorm(D), nn.Parameter(torch.randn(D, n) * 0.2), nn.Parameter(torch.randn(D, n) * 0.2)
        self.beta, self.eta, self.mx, self.v, self.h = nn.Parameter(torch.randn(D, n) * 0.5), nn.Parameter(torch.randn(D, n) * 0.5), lin(D, 3 * D + 8, True), lin(D, D), lin(D, D)
        self.gamma, self.bias = nn.Parameter(torch.randn(2, 8) * 0.3), nn.Parameter(torch.zeros(2, 8))

    def average(self, u):
        a, d = torch.sigmoid(self.alpha), torch.sigmoid(self.delta)
        lag = torch.arange(u.shape[1], device=u.device)
        kernel = (self.eta * self.beta * a)[..., None] * (1 - a * d)[..., None] ** lag
        k = kernel.sum(1)
        n = 2 * u.shape[1]
        return torch.fft.irfft(torch.fft.rfft(u.mT, n=n) * torch.fft.rfft(k, n=n), n=n)[..., :u.shape[1]].mT

    def forward(self, x):
        h = self.norm(x)
        m = self.average(h)
        u, z, r, hx = torch.split(self.mx(m), [D, 8, D, D], dim=-1)
        u, z, r = torch.sigmoid(u), F.silu(z), F.silu(r)
        q, k = ((F.normalize(z, dim=-1) * self.gamma[i] + self.bias[i]) for i in range(2))
        t = x.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        w = (q @ k.mT).masked_fill(mask, float("-inf")).softmax(-1)
        new = torch.tanh(hx + self.h(r * (w @ F.silu(self.v(h)))))
        return torch.addcmul(x, u, new - x)


class FixedPointAdded(nn.Module):
    """Eight rounds towards the fixed point of a tanh of its own map and one of the stream; the point is added."""

    def __init__(self):
        super().__init__()
        self.w, self.u, self.act = lin(D, D), lin(D, D, True), torch.tanh
        nn.init.normal_(self.w.weight, std=0.4 * D ** -0.5)

    def solve(self, x):
        injected, z = self.u(x), torch.zeros_like(x)
        for _ in range(8):
            z = self.act(self.w(z) + injected)
        return z

    def forward(self, x):
        return x + self.solve(x)


class FixedPointOfReLU(FixedPointAdded):
    """With a ReLU for the tanh: of degree one."""

    def __init__(self):
        super().__init__()
        self.act = torch.relu


class WithVelocity(nn.Module):
    """Places and velocities: friction of a tenth, a net of the norm as force, a step."""

    friction = 0.9

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), mlp()

    def forward(self, state):
        v = self.friction * state["v"] + (1 - self.friction) * self.f(self.norm(state["x"]))
        return {"x": state["x"] + v, "v": v}


class WithVelocityNoFriction(WithVelocity):
    """All of the velocity is kept, and a tenth of the force is added."""

    def forward(self, state):
        v = state["v"] + 0.1 * self.f(self.norm(state["x"]))
        return {"x": state["x"] + v, "v": v}


class WithVelocityNesterov(WithVelocity):
    """The force is read ahead, where the velocity would lead; the velocity is handed on in a copy of the state."""

    def forward(self, state):
        ahead = state["x"] + self.friction * state["v"]
        v = self.friction * state["v"] + (1 - self.friction) * self.f(self.norm(ahead))
        return {**state, "x": state["x"] + v, "v": v}


class PredictedLanes(nn.Module):
    """Four lanes: each is predicted from all by coefficients that a router makes from the active one, the block works on the prediction of the active one, and all are corrected by what it changed."""

    def __init__(self, n=4):
        super().__init__()
        self.n, self.router_norm, self.modality_router = n, nn.RMSNorm(D), lin(D, n)
        self.prediction_coefs, self.correction_coefs = lin(n, n * n), lin(n, n)
        self.norm, self.mlp, self.post_norm = nn.RMSNorm(D), mlp(), nn.RMSNorm(D)

    def modalities(self, x):
        return torch.tanh(self.modality_router(self.router_norm(x) * D ** -1.0))

    def forward(self, lanes):
        m = self.modalities(lanes[0])
        coefs = self.prediction_coefs(m).unflatten(-1, (self.n, self.n)).permute(0, 1, 3, 2)
        predictions = torch.matmul(lanes.permute(1, 2, 3, 0), coefs).permute(3, 0, 1, 2) + lanes
        active = predictions[0]
        activated = active + self.post_norm(self.mlp(self.norm(active)))
        innovation = (activated - active).unsqueeze(0)
        c = self.correction_coefs(self.modalities(activated)) + 1.0
        return innovation * c.permute(2, 0, 1).unsqueeze(-1) + predictions


class NeighboursInFront(nn.Module):
    """A short causal filter over channels of their own, with a residual of its own, stands between norm and attention."""

    def __init__(self):
        super().__init__()
        self.norm, self.canon, self.qkv, self.o = nn.RMSNorm(D), nn.Conv1d(D, D, 4, padding=3, groups=D, bias=False), lin(D, 3 * D), lin(D, D)
        nn.init.normal_(self.canon.weight, std=0.5)

    def mixed(self, h):
        return h + self.canon(h.mT)[..., :h.shape[1]].mT

    def attn(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.attn(self.mixed(self.norm(x)))


class NeighboursOnStream(NeighboursInFront):
    """The filter and its residual stand in front of the norm, on what is carried."""

    def forward(self, x):
        x = self.mixed(x)
        return x + self.attn(self.norm(x))


class ScalarsRounded(nn.Module):
    """A few bounded numbers, each rounded to one of seven levels with straight-through gradients, and a map back."""

    def __init__(self):
        super().__init__()
        self.norm, self.down, self.up = nn.LayerNorm(D), lin(D, 6), lin(6, D)

    def forward(self, x):
        z = 3 * torch.tanh(self.down(self.norm(x)))
        z = z + (z.round() - z).detach()
        return x + self.up(z / 3)


class HardGate(nn.Module):
    """Each token decides whether a net is added: one or zero forward, the sigmoid's slope backward."""

    def __init__(self):
        super().__init__()
        self.norm, self.net, self.gate = nn.LayerNorm(D), mlp(), nn.Linear(D, 1)

    def forward(self, x):
        h = self.norm(x)
        soft = torch.sigmoid(self.gate(h))
        hard = (soft > 0.5).to(soft)
        return x + (hard + soft - soft.detach()) * self.net(h)


class SkipWithoutGradient(nn.Module):
    """What is carried is detached; gradients go through the net alone."""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), mlp()

    def forward(self, x):
        return x.detach() + self.net(self.norm(x))


class InvertibleResidual(nn.Module):
    """A residual net of maps with spectral norm one, times 0.9, and no other norm."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = spectral_norm(nn.Linear(D, 64), n_power_iterations=1), spectral_norm(nn.Linear(64, D), n_power_iterations=1)

    def forward(self, x):
        return x + 0.9 * self.w2(F.elu(0.9 * self.w1(F.elu(x))))


class LearnedStatistics(nn.Module):
    """A mean and the log of a deviation are parameters: what is called a norm is an affine map."""

    def __init__(self):
        super().__init__()
        self.mean, self.log_std, self.net = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D)), mlp()

    def normalise(self, x):
        return (x - self.mean) / self.log_std.exp()

    def forward(self, x):
        return x + self.net(self.normalise(x))


class RoutedDepth(nn.Module):
    """Half of the tokens, chosen by a router, go through a block, and what it adds is weighed by the router's sigmoid."""

    def __init__(self):
        super().__init__()
        self.router, self.norm1, self.norm2, self.qkv, self.o, self.mlp = lin(D, 1), nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), mlp()

    def weigh(self, r):
        return torch.sigmoid(r)

    def block(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return a + self.mlp(self.norm2(x + a))

    def forward(self, x):
        r = self.router(x).squeeze(-1)
        index = r.topk(T // 2, dim=1).indices.sort(dim=1).values
        at = index[..., None].expand(-1, -1, x.shape[-1])
        y = self.block(torch.gather(x, 1, at)) * self.weigh(torch.gather(r, 1, index))[..., None]
        return x.scatter_add(1, at, y)


class RoutedDepthLinear(RoutedDepth):
    """The router's number itself: of degree one in the stream."""

    def weigh(self, r):
        return r


class ScaledAndNormed(nn.Module):
    """Each branch reads a learned scale and shift of the stream in place of a norm, and the sum is normed."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = (nn.ParameterList(nn.Parameter(f(D)) for _ in range(2)) for f in (torch.ones, torch.zeros))
        self.qkv, self.o, self.ffn = lin(D, 3 * D), lin(D, D), mlp(nn.SiLU)
        self.ln_attn, self.ln_ffn = nn.LayerNorm(D), nn.LayerNorm(D)

    def attn(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.ln_attn(x + self.attn(x * self.scale[0] + self.shift[0]))
        return self.ln_ffn(x + self.ffn(x * self.scale[1] + self.shift[1]))


class GateBetween(nn.Module):
    """A gate of the normed token shares between a global and a local branch."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.qkv, self.o, self.conv = nn.LayerNorm(D), nn.Linear(D, D), lin(D, 3 * D), lin(D, D), nn.Conv1d(D, D, 3, padding=1)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        a = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + torch.lerp(self.conv(h.mT).mT, a, torch.sigmoid(self.gate(h)))


class Spike(torch.autograd.Function):
    """One where a membrane is above its threshold; the slope of an arctangent backward."""

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v >= 0).to(v.dtype)

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g / (1 + (torch.pi * v) ** 2)


class SpikesAdded(nn.Module):
    """Leaky membranes integrate maps of the stream along time, fire, and are reset; spikes are added."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = lin(D, 64), lin(64, D)
        for w in (self.w1, self.w2):
            nn.init.normal_(w.weight, std=4 * w.in_features ** -0.5)

    def fire(self, current):
        v, out = torch.zeros_like(current[:, 0]), []
        for t in range(current.shape[1]):
            v = v + (current[:, t] - v) / 2.0
            s = Spike.apply(v - 1.0)
            v = v * (1 - s)
            out.append(s)
        return torch.stack(out, 1)

    def forward(self, x):
        return x + self.fire(self.w2(self.fire(self.w1(x))))


class SpikesOfSum(SpikesAdded):
    """The older form: the sum fires, and what is carried are spikes."""

    def forward(self, x):
        return self.fire(x + self.w2(self.fire(self.w1(x))))


class Synchronised(nn.Module):
    """Each token is eight oscillators on spheres of four dimensions: they turn, are drawn along their tangents by attention, and are put back on the sphere."""

    def __init__(self, n=4):
        super().__init__()
        self.n, self.omega, self.qkv, self.o, self.gamma = n, nn.Parameter(torch.randn(D // n, n, n) * 0.3), lin(D, 3 * D), lin(D, D), nn.Parameter(torch.tensor(0.5))

    def attn(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def step(self, x):
        u = F.normalize(x.unflatten(-1, (-1, self.n)), dim=-1)
        y = self.attn(x).unflatten(-1, (-1, self.n))
        tangent = y - (y * u).sum(-1, keepdim=True) * u
        turn = torch.einsum("gij,btgj->btgi", self.omega - self.omega.mT, x.unflatten(-1, (-1, self.n)))
        return x.unflatten(-1, (-1, self.n)) + self.gamma * (turn + tangent)

    def forward(self, x):
        return F.normalize(self.step(x), dim=-1).flatten(2)


class SynchronisedNoReturn(Synchronised):
    """The last normalisation is left out: steps along tangents lengthen each oscillator."""

    def forward(self, x):
        return self.step(x).flatten(2)


class GroupedResidualCodes(nn.Module):
    """Two rounds of nearest codes for the norm of a token, straight-through, and a map of their sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.codes, self.out = nn.LayerNorm(D), nn.ParameterList(torch.randn(16, D) * s for s in (1.0, 0.5)), lin(D, D)

    def quantise(self, h):
        rest, total = h, torch.zeros_like(h)
        for table in self.codes:
            q = F.embedding(torch.cdist(rest, table[None]).argmin(-1), table)
            rest, total = rest - q, total + q
        return h + (total - h).detach()

    def forward(self, x):
        return x + self.out(self.quantise(self.norm(x)))


class NormOfWeights(nn.Module):
    """Weights are centred and divided by their deviation, values are not: of degree one."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(64, D)), nn.Parameter(torch.randn(D, 64))

    def std(self, w):
        w = w - w.mean(1, keepdim=True)
        return w / (w.var(1, keepdim=True, unbiased=False) * w.shape[1] + 1e-5).sqrt()

    def forward(self, x):
        return x + F.linear(F.relu(F.linear(x, self.std(self.w1))), self.std(self.w2))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_RAW = dict(kind="block", growth_fixed="exponential", softmax=False, sound=False)
_ONE, _F = dict(output_bounded={0: False}), dict(logits_bounded={0: False})
TRUTH = {
    "ExponentialTurn": dict(_NET, **_ONE, sound=True, why="turned, of the same length."),
    "ExponentialTurnSymmetric": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="the largest eigenvalue of an exponent of a symmetric matrix is above one."),
    "BoundByPhases": dict(_NET, **_ONE, sound=True, why="a spectrum of length one."),
    "BoundBySpectrum": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="some frequency is above one."),
    "Oscillating": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "OscillatingRaw": dict(_RAW, **_ONE, why="of degree one."),
    "TwoKindsOfHeads": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "Forgetting": dict(_PRE, **_ONE, sound=True, why="pre-norm."),
    "AveragedGate": dict(kind="block", gated=True, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="between the stream and a tanh."),
    "FixedPointAdded": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="tanh."),
    "FixedPointOfReLU": dict(_RAW, **_ONE, why="of degree one."),
    "WithVelocity": dict(kind="block", growth_fixed="linear", softmax=False, sound=True, why="a bounded force with friction."),
    "WithVelocityNoFriction": dict(kind="block", growth_fixed="polynomial", softmax=False, sound=False, why="a bounded force, twice summed."),
    "WithVelocityNesterov": dict(kind="block", growth_fixed="linear", softmax=False, sound=True, why="a bounded force with friction."),
    "PredictedLanes": dict(kind="block", gated=True, softmax=False, sound=True, why="coefficients are made from the data."),
    "NeighboursInFront": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "NeighboursOnStream": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="of degree one."),
    "ScalarsRounded": dict(_NET, **_ONE, sound=True, why="pre-norm; a map of at most three levels."),
    "HardGate": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "SkipWithoutGradient": dict(kind="block", growth_fixed="linear", softmax=False, gradient_law="exponential", **_ONE, sound=False, why="one forward; each block's net alone backward."),
    "InvertibleResidual": dict(_RAW | dict(sound=True), why="of degree one, with small constants."),
    "LearnedStatistics": dict(_RAW, **_ONE, why="of degree one."),
    "RoutedDepth": dict(_PRE, sound=True, why="pre-norm, weighed by at most one."),
    "RoutedDepthLinear": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="of degree one."),
    "ScaledAndNormed": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="post-norm."),
    "GateBetween": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "SpikesAdded": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="zeros and ones are added."),
    "SpikesOfSum": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, sound=True, why="zeros and ones."),
    "Synchronised": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="each of four dimensions has length one."),
    "SynchronisedNoReturn": dict(kind="block", growth_fixed="exponential", softmax=True, sound=False, why="of degree one."),
    "GroupedResidualCodes": dict(_NET, **_ONE, sound=True, why="codes of a norm."),
    "NormOfWeights": dict(_RAW, why="of degree one."),
}
