"""Attention, recurrences, gates and norms as research code has them, in blocks; and slips in them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=False):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def heads(t):
    return t.unflatten(-1, (H, -1)).transpose(1, 2)


def merged(t):
    return t.transpose(1, 2).flatten(2)


def future(device):
    return torch.ones(T, T, dtype=torch.bool, device=device).triu(1)


class Branch(nn.Module):
    """x + branch(norm(x))."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def branch(self, x):
        return self.body(self.norm(x))

    def forward(self, x):
        return x + self.branch(x)


class Attention(Branch):
    """Plain; what a subclass changes is a method."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (dense(D, D) for _ in range(4))

    def queries_keys(self, h):
        return heads(self.q(h)), heads(self.k(h))

    def scores(self, q, k, h):
        return q @ k.mT * E ** -0.5

    def weights(self, s):
        return s.masked_fill(future(s.device), -torch.inf).softmax(-1)

    def out(self, y, h):
        return self.o(y)

    def body(self, h):
        q, k = self.queries_keys(h)
        return self.out(merged(self.weights(self.scores(q, k, h)) @ heads(self.v(h))), h)


class QkNorm(Attention):
    def __init__(self):
        super().__init__()
        self.nq, self.nk = nn.RMSNorm(E), nn.RMSNorm(E)

    def queries_keys(self, h):
        q, k = super().queries_keys(h)
        return self.nq(q), self.nk(k)


class Forgetting(QkNorm):
    """Log forget gates are summed between key and query."""

    def __init__(self):
        super().__init__()
        self.f = dense(D, H, bias=True)

    def gate(self, h):
        return F.logsigmoid(self.f(h))

    def scores(self, q, k, h):
        c = self.gate(h).transpose(1, 2).cumsum(-1)
        return super().scores(q, k, h) + (c.unsqueeze(-1) - c.unsqueeze(-2)).tril()


class ForgettingSoft(Forgetting):
    """The gate's argument is capped by a tanh."""

    def gate(self, h):
        return F.logsigmoid(3.0 + 2.0 * torch.tanh(self.f(h)))


class Softpick(Attention):
    """relu(e^s - 1) over the sum of |e^s - 1|."""

    def weights(self, s):
        m = s.amax(-1, keepdim=True).clamp(min=0.0)
        e = torch.exp(s - m) - torch.exp(-m)
        keep = ~future(s.device)
        return F.relu(e) * keep / ((e.abs() * keep).sum(-1, keepdim=True) + 1e-6)


class StickBreaking(Attention):
    """Each key takes its share of what later keys left."""

    def weights(self, s):
        keep = (~future(s.device)).to(s.dtype)
        take, leave = F.logsigmoid(s), F.logsigmoid(-s) * keep
        after = leave.flip(-1).cumsum(-1).flip(-1) - leave
        return torch.exp(take + after) * keep


class HeadGate(QkNorm):
    """A sigmoid gate on what the heads give, before the last map."""

    def __init__(self):
        super().__init__()
        self.gate = dense(D, D)

    def out(self, y, h):
        return self.o(y * torch.sigmoid(self.gate(h)))


class RopePart(Attention):
    """Latent keys: the part without positions is normed, the part with positions is one raw head for all."""

    def __init__(self):
        super().__init__()
        self.kr, self.nq, self.nk = dense(D, 4), nn.RMSNorm(E), nn.RMSNorm(E)
        self.qr = dense(D, 4 * H)
        self.register_buffer("angle", torch.arange(T)[:, None] * torch.tensor([1.0, 0.1]), persistent=False)

    def rope(self, t):
        a, b = t.chunk(2, -1)
        c, s = self.angle.cos(), self.angle.sin()
        return torch.cat([a * c - b * s, a * s + b * c], -1)

    def norm_rope(self, t):
        return t

    def queries_keys(self, h):
        q, k = super().queries_keys(h)
        qr, kr = self.norm_rope(heads(self.qr(h))), self.norm_rope(self.kr(h).unsqueeze(1).expand(-1, H, -1, -1))
        return torch.cat([self.nq(q), self.rope(qr)], -1), torch.cat([self.nk(k), self.rope(kr)], -1)


class RopePartNormed(RopePart):
    """... normed before it turns."""

    def norm_rope(self, t):
        return F.rms_norm(t, (4,))


class CrossCovariance(Attention):
    """Channels attend to channels: queries and keys are made unit over the tokens."""

    def __init__(self):
        super().__init__()
        self.tau = nn.Parameter(torch.ones(H, 1, 1))

    def unit(self, t):
        return F.normalize(t, dim=-1)

    def body(self, h):
        q, k, v = (heads(m(h)).mT for m in (self.q, self.k, self.v))
        a = (self.unit(q) @ self.unit(k).mT * self.tau).softmax(-1)
        return self.o((a @ v).permute(0, 3, 1, 2).flatten(2))


class CrossCovarianceAxis(CrossCovariance):
    """The wrong axis is made unit."""

    def unit(self, t):
        return F.normalize(t, dim=-2)


class CrossCovarianceRaw(CrossCovariance):
    """Keys are forgotten."""

    def body(self, h):
        q, k, v = (heads(m(h)).mT for m in (self.q, self.k, self.v))
        a = (self.unit(q) @ k.mT * self.tau).softmax(-1)
        return self.o((a @ v).permute(0, 3, 1, 2).flatten(2))


class StandardScores(Attention):
    """Scores of a query are standardised over the keys."""

    def scores(self, q, k, h):
        s = super().scores(q, k, h)
        return (s - s.mean(-1, keepdim=True)) / (s.std(-1, keepdim=True) + 1e-6)

    def weights(self, s):
        return s.softmax(-1)


class NormedScores(StandardScores):
    """By a layer norm."""

    def scores(self, q, k, h):
        return F.layer_norm(q @ k.mT, (T,))


class CappedAbove(StandardScores):
    """Scores have an upper end only."""

    def scores(self, q, k, h):
        return (q @ k.mT).clamp(max=20.0)


class TrainedSlopes(QkNorm):
    """QK-norm and a linear distance bias with trained slopes."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(2.0 ** -torch.arange(1.0, H + 1))
        i = torch.arange(T)
        self.register_buffer("distance", (i[:, None] - i[None]).abs().neg().float(), persistent=False)

    def scores(self, q, k, h):
        return super().scores(q, k, h) + self.slopes.view(H, 1, 1) * self.distance.to(q.dtype)


class ContinuousTable(StandardScores):
    """Cosines times a capped temperature, plus 16 sigmoids of a small net on distances (Swin v2)."""

    def __init__(self):
        super().__init__()
        self.tau = nn.Parameter(torch.full((H, 1, 1), math.log(10.0)))
        self.cpb = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, H, bias=False))
        i = torch.arange(T).float()
        d = i[:, None] - i[None]
        self.register_buffer("coordinates", (d.sign() * torch.log1p(d.abs()))[..., None], persistent=False)

    def scores(self, q, k, h):
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * torch.clamp(self.tau, max=math.log(100.0)).exp()
        return s + 16 * torch.sigmoid(self.cpb(self.coordinates.to(q.dtype))).permute(2, 0, 1)


class UnitRows(StandardScores):
    """Maps of queries and keys have unit rows."""

    def queries_keys(self, h):
        return tuple(heads(F.linear(h, F.normalize(m.weight, dim=1))) for m in (self.q, self.k))

    def scores(self, q, k, h):
        return q @ k.mT * E ** -0.5


class SpectralUnit(UnitRows):
    """Maps of queries and keys are divided by their spectral norm, times a trained number."""

    def __init__(self):
        super().__init__()
        self.tau = nn.Parameter(torch.ones(2))

    def queries_keys(self, h):
        return tuple(heads(F.linear(h, t * m.weight / torch.linalg.matrix_norm(m.weight, 2))) for t, m in zip(self.tau, (self.q, self.k)))


class WeightNormedMaps(UnitRows):
    """weight_norm on the maps of queries and keys: lengths are weights of their own."""

    def __init__(self):
        super().__init__()
        self.q, self.k = weight_norm(self.q), weight_norm(self.k)

    def queries_keys(self, h):
        return heads(self.q(h)), heads(self.k(h))


class PoolByQuery(Branch):
    """A trained query pools the sequence, and the pooled token is added to every one."""

    def __init__(self):
        super().__init__()
        self.query, self.kv, self.o = nn.Parameter(torch.randn(1, 1, D)), dense(D, 2 * D), dense(D, D)

    def body(self, h):
        k, v = self.kv(h).chunk(2, -1)
        return self.o((self.query @ k.mT * D ** -0.5).softmax(-1) @ v)


class MemoryCross(QkNorm):
    """Queries of the stream, keys and values of a trained memory; QK-norm."""

    def __init__(self):
        super().__init__()
        self.memory = nn.Parameter(torch.randn(T, D))

    def body(self, h):
        m = self.memory.expand(h.shape[0], -1, -1)
        q, k = self.nq(heads(self.q(h))), self.nk(heads(self.k(m)))
        return self.o(merged((q @ k.mT * E ** -0.5).softmax(-1) @ heads(self.v(m))))


class ProductKeys(Branch):
    """A value table read at the best four of trained keys."""

    def __init__(self):
        super().__init__()
        self.query = nn.Sequential(dense(D, E), nn.LayerNorm(E))
        self.keys, self.values = nn.Parameter(torch.randn(64, E)), nn.Parameter(torch.randn(64, D) / 8)

    def body(self, h):
        s, i = (self.query(h) @ self.keys.T).topk(4, dim=-1)
        return (s.softmax(-1).unsqueeze(-1) * self.values[i]).sum(-2)


# ---- recurrences and mixers
class ExponentialGates(Branch):
    """mLSTM in parallel form: exponential input gates, a running maximum taken off, a floor under the divisor, a norm of the heads."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.gates = dense(D, D), dense(D, D), dense(D, D), dense(D, D), dense(D, 2 * H, bias=True)
        self.head_norm = nn.LayerNorm(E)

    def body(self, h):
        i, f = self.gates(h).transpose(1, 2).chunk(2, 1)
        c = F.logsigmoid(f).cumsum(-1)
        log_d = (c.unsqueeze(-1) - c.unsqueeze(-2) + i.unsqueeze(-2)).masked_fill(future(h.device), -torch.inf)
        m = log_d.amax(-1, keepdim=True)
        s = heads(self.q(h)) @ heads(self.k(h)).mT * E ** -0.5 * torch.exp(log_d - m)
        y = s / torch.maximum(s.sum(-1, keepdim=True).abs(), torch.exp(-m)) @ heads(self.v(h))
        return self.o(merged(self.head_norm(y)))


class LowerBoundGates(Branch):
    """HGRN: forget gates above a bound, convex steps of a state, an output gate."""

    def __init__(self):
        super().__init__()
        self.i, self.f, self.g, self.o = dense(D, D), dense(D, D, bias=True), dense(D, D), dense(D, D)
        self.bound = nn.Parameter(torch.zeros(D))

    def body(self, h):
        low = torch.sigmoid(self.bound)
        f, u, state, ys = low + (1 - low) * torch.sigmoid(self.f(h)), F.silu(self.i(h)), 0.0, []
        for t in range(h.shape[1]):
            state = f[:, t] * state + (1 - f[:, t]) * u[:, t]
            ys.append(state)
        return self.o(torch.stack(ys, 1) * torch.sigmoid(self.g(h)))


class TokenShiftMix(Branch):
    """RWKV time mixing in rows: decays from e^-e^w, a bonus for the token itself, a norm of each head, a receptance."""

    def __init__(self):
        super().__init__()
        self.mu = nn.Parameter(torch.rand(3, D))
        self.r, self.k, self.v, self.o, self.decay = dense(D, D), dense(D, D), dense(D, D), dense(D, D), nn.Parameter(torch.linspace(-6, -1, D))
        self.bonus, self.ln = nn.Parameter(torch.zeros(D)), nn.GroupNorm(H, D)

    def body(self, h):
        past = F.pad(h, (0, 0, 1, -1))
        r, k, v = (m(torch.lerp(past, h, mu)) for m, mu in zip((self.r, self.k, self.v), self.mu))
        w, state, ys = torch.exp(-torch.exp(self.decay)), h.new_zeros(h.shape[0], H, E, E), []
        for t in range(T):
            kt, vt, rt = (z[:, t].view(-1, H, E) for z in (k, v, r))
            kv = kt.unsqueeze(-1) * vt.unsqueeze(-2)
            ys.append((rt.unsqueeze(-2) @ (state + self.bonus.view(H, E, 1) * kv)).reshape(-1, D))
            state = w.view(H, E, 1) * state + kv
        y = torch.stack(ys, 1)
        return self.o(self.ln(y.flatten(0, 1)).view_as(y))


class StateSpaceFft(Branch):
    """S4D: a long kernel out of a diagonal state, by transforms; a skip of the branch's own; a gated map."""

    def __init__(self, n=8):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(D) * 2 - 4)
        self.c_re, self.c_im = nn.Parameter(torch.randn(D, n)), nn.Parameter(torch.randn(D, n))
        self.log_a, self.a_im = nn.Parameter(torch.full((D, n), math.log(0.5))), nn.Parameter(math.pi * torch.arange(n).repeat(D, 1))
        self.d, self.o = nn.Parameter(torch.randn(D)), dense(D, 2 * D)

    def body(self, h):
        dt = self.log_dt.exp()
        da = torch.complex(-self.log_a.exp(), self.a_im) * dt.unsqueeze(-1)
        c = torch.complex(self.c_re, self.c_im) * dt.unsqueeze(-1)
        kernel = 2 * (c.unsqueeze(-1) * torch.exp(da.unsqueeze(-1) * torch.arange(T, device=h.device))).sum(1).real
        u = h.transpose(1, 2)
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * T) * torch.fft.rfft(kernel, n=2 * T), n=2 * T)[..., :T]
        return F.glu(self.o(F.gelu(y + u * self.d.unsqueeze(-1)).transpose(1, 2)), dim=-1)


class LearnAtTest(Branch):
    """TTT: an inner matrix takes one step of gradient for each token; its output is normed."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (dense(D, D) for _ in range(4))
        self.start, self.post, self.eta = nn.Parameter(torch.zeros(E, E)), nn.LayerNorm(E), dense(D, H, bias=True)

    def body(self, h):
        q, k, v = (heads(m(h)) for m in (self.q, self.k, self.v))
        eta, w, ys = torch.sigmoid(self.eta(h)).transpose(1, 2) / E, self.start, []
        for t in range(T):
            kt, vt, qt = (z[:, :, t].unsqueeze(-2) for z in (k, v, q))
            w = w - eta[:, :, t, None, None] * kt.mT @ (kt @ w - vt)
            ys.append(qt @ w)
        return self.o(merged(self.post(torch.cat(ys, -2))))


class FocalModulation(Branch):
    """Contexts of growing windows, gated and summed, modulate queries."""

    def __init__(self):
        super().__init__()
        self.f, self.h, self.o = dense(D, 2 * D + 3), dense(D, D), dense(D, D)
        self.convs = nn.ModuleList(nn.Conv1d(D, D, k, padding=k // 2, groups=D, bias=False) for k in (3, 5))

    def body(self, h):
        q, ctx, gates = self.f(h).split([D, D, 3], -1)
        ctx, total = ctx.transpose(1, 2), 0
        for i, conv in enumerate(self.convs):
            ctx = F.gelu(conv(ctx))
            total = total + ctx * gates[..., i].unsqueeze(1)
        total = total + F.gelu(ctx.mean(-1, keepdim=True)) * gates[..., 2].unsqueeze(1)
        return self.o(q * self.h(total.transpose(1, 2)))


class LargeKernel(Branch):
    """A convolution's output multiplies its input (VAN), inside a skip of its own."""

    def __init__(self):
        super().__init__()
        self.p1, self.p2 = dense(D, D), dense(D, D)
        self.dw, self.dilated = nn.Conv1d(D, D, 5, padding=2, groups=D), nn.Conv1d(D, D, 7, padding=9, dilation=3, groups=D)

    def body(self, h):
        u = F.gelu(self.p1(h)).transpose(1, 2)
        return self.p2((u * self.dilated(self.dw(u))).transpose(1, 2)) + h


class StarProduct(Branch):
    """Two maps multiplied, one behind a ReLU6."""

    def __init__(self):
        super().__init__()
        self.f1, self.f2, self.g = dense(D, 2 * D), dense(D, 2 * D), dense(2 * D, D)

    def body(self, h):
        return self.g(F.relu6(self.f1(h)) * self.f2(h))


# ---- what ends a branch
class Ended(Branch):
    """A feed-forward net, and what ends it."""

    def __init__(self):
        super().__init__()
        self.up, self.down = dense(D, 2 * D), dense(2 * D, D)

    def body(self, h):
        return self.end(self.down(F.gelu(self.up(h))), h)


class RootUnit(Ended):
    """y / sqrt(1 + y^2)."""

    def end(self, y, h):
        return y * torch.rsqrt(1.0 + y.square())


class MeanSizeUnit(Ended):
    """Divided by the mean of absolute values."""

    def end(self, y, h):
        return y / (y.abs().mean(-1, keepdim=True) + 1e-6)


class MeanSlip(Ended):
    """... by the mean."""

    def end(self, y, h):
        return y / (y.mean(-1, keepdim=True) + 1e-6)


class RootMeanWrong(Ended):
    """The mean of squares is taken over another axis, of one: each entry by itself."""

    def end(self, y, h):
        y = y.unsqueeze(-1)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).squeeze(-1)


class NotRooted(Ended):
    """The root is forgotten."""

    def end(self, y, h):
        return y / (y.pow(2).mean(-1, keepdim=True) + 1e-6)


class HalfRooted(Ended):
    """A power of -1/4 instead of -1/2."""

    def end(self, y, h):
        return y * (y.pow(2).mean(-1, keepdim=True) + 1e-6).pow(-0.25)


class NormThenSigmoid(Ended):
    """Normed, times a sigmoid of the input."""

    def __init__(self):
        super().__init__()
        self.post, self.gate = nn.RMSNorm(D), dense(D, D)

    def end(self, y, h):
        return self.post(y) * torch.sigmoid(self.gate(h))


class TanhGateRaw(Ended):
    """Raw, times a tanh."""

    def __init__(self):
        super().__init__()
        self.gate = dense(D, D)

    def end(self, y, h):
        return y * torch.tanh(self.gate(h))


class CosineLinear(Ended):
    """A last map of unit rows on a unit vector, times a trained number."""

    def __init__(self):
        super().__init__()
        self.last, self.tau = nn.Parameter(torch.randn(D, D)), nn.Parameter(torch.tensor(4.0))

    def end(self, y, h):
        return self.tau * F.linear(F.normalize(y, dim=-1), F.normalize(self.last, dim=-1))


class Standard(nn.Module):
    def forward(self, w):
        return (w - w.mean(1, keepdim=True)) / (w.std(1, keepdim=True) + 1e-5)


class StandardWeights(Ended):
    """The last map has standardised weights and reads tanh."""

    def __init__(self):
        super().__init__()
        self.last = parametrize.register_parametrization(dense(D, D), "weight", Standard())

    def end(self, y, h):
        return self.last(torch.tanh(y)) / D ** 0.5


class LengthKept(Ended):
    """The branch is turned to the length of its normed input."""

    def end(self, y, h):
        return F.normalize(y, dim=-1) * h.norm(dim=-1, keepdim=True)


class LengthCut(Ended):
    """Cut back where it is longer than 5."""

    def end(self, y, h):
        n = y.norm(dim=-1, keepdim=True)
        return torch.where(n > 5.0, y * (5.0 / n), y)


class LengthCutShort(Ended):
    """Longer ones are kept and shorter ones cut."""

    def end(self, y, h):
        n = y.norm(dim=-1, keepdim=True)
        return torch.where(n < 5.0, y * (n / 5.0), y)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_FREE = dict(_PRE, output_bounded={"0": False}, softmax=False)
_OUT = dict(_PRE, growth_all="linear", output_bounded={"0": True}, softmax=False)
_SOFT = dict(_PRE, output_bounded={"0": False}, softmax=True)
_YES = dict(_SOFT, logits_bounded={"0": True})
_NO = dict(_SOFT, logits_bounded={"0": False})
TRUTH = {
    "Forgetting": dict(_NO, why="log-sigmoids have no lower end.", tempts="QK-norm"),
    "ForgettingSoft": dict(_YES, why="sixteen gates above sigmoid(1).", tempts="a free map in the gate"),
    "Softpick": dict(_FREE, why="shares below one.", tempts="a softmax; a divisor that may be 0"),
    "StickBreaking": dict(_FREE, why="shares below one.", tempts="exponentials"),
    "HeadGate": dict(_YES, why="QK-norm.", tempts="-"),
    "RopePart": dict(_NO, why="the part with positions is raw.", tempts="two norms"),
    "RopePartNormed": dict(_YES, why="parts side by side, each normed.", tempts="-"),
    "CrossCovariance": dict(_YES, why="cosines.", tempts="an unusual axis"),
    "CrossCovarianceAxis": dict(_YES, why="sixteen products of at most 1.", tempts="raw"),
    "CrossCovarianceRaw": dict(_NO, why="keys are raw.", tempts="one normalize"),
    "StandardScores": dict(_YES, why="standardised rows of 16 are below 4.", tempts="raw queries and keys"),
    "NormedScores": dict(_YES, why="a layer norm of 16.", tempts="raw queries and keys"),
    "CappedAbove": dict(_NO, why="no lower end.", tempts="a clamp"),
    "TrainedSlopes": dict(_NO, why="slopes are free.", tempts="QK-norm"),
    "ContinuousTable": dict(_YES, why="100 + 16.", tempts="a free net; an exponential"),
    "UnitRows": dict(_YES, why="rows are unit, inputs normed.", tempts="raw"),
    # not _YES: the trained number is a weight of the map, as the lengths of weight_norm below are (docs/theory.md, 4.1: σReparam)
    "SpectralUnit": dict(_NO, why="a trained number times a spectral norm of one.", tempts="spectral norm of one"),
    "WeightNormedMaps": dict(_NO, why="lengths are weights.", tempts="unit rows"),
    "PoolByQuery": dict(_NO, why="raw keys, free query.", tempts="-"),
    "MemoryCross": dict(_YES, why="QK-norm.", tempts="a free memory"),
    "ProductKeys": dict(_NO, why="keys are free.", tempts="normed queries"),
    "ExponentialGates": dict(_FREE, why="normed, then a free map.", tempts="exponentials"),
    "LowerBoundGates": dict(_FREE, why="convex steps.", tempts="16 steps"),
    "TokenShiftMix": dict(_FREE, why="normed, then a free map.", tempts="exponentials"),
    "StateSpaceFft": dict(_FREE, why="the stream is normed.", tempts="transforms, exponentials"),
    "LearnAtTest": dict(_FREE, why="normed, then a free map.", tempts="16 products of matrices"),
    "FocalModulation": dict(_FREE, why="the stream is normed.", tempts="-"),
    "LargeKernel": dict(_FREE, why="the stream is normed.", tempts="an inner skip"),
    "StarProduct": dict(_FREE, why="the stream is normed.", tempts="-"),
    "RootUnit": dict(_OUT, why="below one.", tempts="raw"),
    "MeanSizeUnit": dict(_OUT, why="no entry above 32 times the mean.", tempts="raw; a mean"),
    "MeanSlip": dict(_PRE, growth_fixed=None, softmax=False, why="the mean may be near 0.", tempts="its twin"),
    "RootMeanWrong": dict(_OUT, why="signs.", tempts="raw"),
    "NotRooted": dict(_PRE, growth_fixed=None, softmax=False,
        why="the larger the branch the smaller; at its worst 1/(2e-3) per entry.", tempts="a norm"),
    "HalfRooted": dict(_FREE, why="the root of the size remains.", tempts="a norm"),
    "NormThenSigmoid": dict(_OUT, why="normed, times less than one.", tempts="a free map in the gate"),
    "TanhGateRaw": dict(_FREE, why="raw.", tempts="a tanh at the end"),
    "CosineLinear": dict(_OUT, why="cosines.", tempts="a free map"),
    "StandardWeights": dict(_OUT, why="rows of length sqrt(31) on tanh.", tempts="a free map"),
    "LengthKept": dict(_OUT, why="the length of what is normed.", tempts="two lengths"),
    "LengthCut": dict(_OUT, why="five.", tempts="a where"),
    "LengthCutShort": dict(_FREE, why="long ones are kept.", tempts="its twin"),
}
