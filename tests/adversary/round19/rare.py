"""Areas that are rarely tried: layers that learn while they read, delta rules, scans, retention, lanes, routed depth, memories, graphs, equivariance."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def unit(t, eps=1e-6):
    return t * torch.rsqrt(t.square().sum(-1, keepdim=True) + eps)


class TestTimeLinear(nn.Module):
    """A linear model learns keys to values by one gradient step a token; what it says of the query is normed."""

    def __init__(self, eta=0.5):
        super().__init__()
        self.norm, self.qkv, self.post, self.o, self.eta = nn.RMSNorm(D), lin(D, 3 * D), nn.LayerNorm(D), lin(D, D), eta
        self.W0 = nn.Parameter(torch.randn(D, D) * 0.02)

    def learn(self, h):
        q, k, v = self.qkv(h).chunk(3, -1)
        q, k = unit(q), unit(k)
        W, ys = self.W0.expand(h.shape[0], D, D), []
        for t in range(T):
            err = torch.bmm(k[:, t, None], W) - v[:, t, None]
            W = W - self.eta * torch.bmm(k[:, t, :, None], err)
            ys.append(torch.bmm(q[:, t, None], W))
        return self.o(self.post(torch.cat(ys, 1)))

    def forward(self, x):
        return x + self.learn(self.norm(x))


class TestTimeNoPost(TestTimeLinear):
    """The same, and the last norm and map are left away: what was learned is added as it is."""

    def learn(self, h):
        q, k, v = self.qkv(h).chunk(3, -1)
        q, k = unit(q), unit(k)
        W, ys = self.W0.expand(h.shape[0], D, D), []
        for t in range(T):
            err = torch.bmm(k[:, t, None], W) - v[:, t, None]
            W = W - self.eta * torch.bmm(k[:, t, :, None], err)
            ys.append(torch.bmm(q[:, t, None], W))
        return torch.cat(ys, 1)


class GatedDelta(nn.Module):
    """Gated delta rule: decay and rate by token, unit keys, a normed output under a gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.ab, self.g, self.on, self.o = nn.RMSNorm(D), lin(D, 3 * D), lin(D, 2, True), lin(D, D), nn.RMSNorm(D), lin(D, D)

    def mix(self, h):
        q, k, v = F.silu(self.qkv(h)).chunk(3, -1)
        q, k = unit(q), unit(k)
        a, b = self.ab(h).unbind(-1)
        alpha, beta = torch.exp(-F.softplus(a)), torch.sigmoid(b)
        S, out = torch.zeros(h.shape[0], D, D, dtype=h.dtype, device=h.device), []
        for t in range(T):
            kt = k[:, t].unsqueeze(-1)
            S = alpha[:, t, None, None] * (S - beta[:, t, None, None] * kt @ (kt.mT @ S)) + beta[:, t, None, None] * kt @ v[:, t].unsqueeze(-2)
            out.append((q[:, t].unsqueeze(-2) @ S).squeeze(-2))
        return self.o(self.on(torch.stack(out, 1)) * F.silu(self.g(h)))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class SelectiveScan(nn.Module):
    """Mamba's block by hand: a causal filter, a scan of sixteen steps, a gate, a skip D u inside."""

    def __init__(self, n=4, r=2):
        super().__init__()
        self.norm, self.inp, self.conv, self.n, self.r = nn.RMSNorm(D), lin(D, 4 * D), nn.Conv1d(2 * D, 2 * D, 4, padding=3, groups=2 * D), n, r
        self.xp, self.dtp, self.out = lin(2 * D, r + 2 * n), lin(r, 2 * D, True), lin(2 * D, D)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, n + 1).repeat(2 * D, 1)))
        self.skip = nn.Parameter(torch.ones(2 * D))
        nn.init.constant_(self.dtp.bias, -4.6)

    def scan(self, h):
        u, z = self.inp(h).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., :T].mT)
        dt, B, C = self.xp(u).split((self.r, self.n, self.n), -1)
        dt, A = F.softplus(self.dtp(dt)), -torch.exp(self.A_log)
        s, ys = u.new_zeros(u.shape[0], 2 * D, self.n), []
        for t in range(T):
            s = s * torch.exp(dt[:, t, :, None] * A) + (dt[:, t] * u[:, t]).unsqueeze(-1) * B[:, t].unsqueeze(1)
            ys.append(torch.einsum("bdn,bn->bd", s, C[:, t]))
        y = torch.stack(ys, 1) + self.skip * u
        return self.out(y * F.silu(z))

    def forward(self, x):
        return x + self.scan(self.norm(x))


class Retention(nn.Module):
    """Retention in its parallel form: powers of a fixed decay by head, a group norm of each head's result, a gate."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qkvg, self.o, self.gn = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 4 * D), lin(D, D), nn.GroupNorm(H, D)
        self.ff = nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))
        i = torch.arange(T)
        gap = (i[:, None] - i).clamp(min=0).float()
        g = 1 - 2.0 ** (-5 - torch.arange(H).float())
        self.register_buffer("decay", torch.tril(g[:, None, None] ** gap))

    def retain(self, h):
        q, k, v, g = self.qkvg(h).chunk(4, -1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k, v))
        y = ((q @ k.mT * HD ** -0.5) * self.decay) @ v
        y = self.gn(y.transpose(1, 2).flatten(2).flatten(0, 1)).unflatten(0, (-1, T))
        return self.o(F.silu(g) * y)

    def forward(self, x):
        x = x + self.retain(self.n1(x))
        return x + self.ff(self.n2(x))


class MatrixLstm(nn.Module):
    """mLSTM in parallel: exponential input gates, sigmoid forget gates in logarithms, the largest taken away, and the sum bounded below."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.gates, self.o = nn.LayerNorm(D), lin(D, 3 * D), nn.Linear(D, 2), lin(D, D)

    def mix(self, h):
        q, k, v = self.qkv(h).chunk(3, -1)
        i, f = self.gates(h).unbind(-1)
        c = F.logsigmoid(f).cumsum(1)
        L = (c.unsqueeze(2) - c.unsqueeze(1) + i.unsqueeze(1)).masked_fill(torch.ones(T, T, device=h.device).triu(1).bool(), -math.inf)
        m = L.max(-1, keepdim=True).values
        W = (q @ k.mT / D ** 0.5) * torch.exp(L - m)
        return self.o((W / torch.maximum(W.sum(-1, keepdim=True).abs(), torch.exp(-m))) @ v)

    def forward(self, x):
        return x + self.mix(self.norm(x))


class EluLinear(nn.Module):
    """Linear attention, elu plus one, running sums by cumsum, a divisor."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm2, self.qkv, self.o = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D)
        self.ff = nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D))

    def mix(self, h):
        q, k, v = self.qkv(h).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("btd,bte->btde", k, v).cumsum(1)
        z = torch.einsum("btd,btd->bt", q, k.cumsum(1))
        return self.o(torch.einsum("btd,btde->bte", q, kv) / (z.unsqueeze(-1) + 1e-6))

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        return x + self.ff(self.norm2(x))


class EluNoDivisor(EluLinear):
    """The divisor was dropped; the sums grow with places, and with nothing else."""

    def mix(self, h):
        q, k, v = self.qkv(h).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("btd,bte->btde", k, v).cumsum(1)
        return self.o(torch.einsum("btd,btde->bte", q, kv) / D)


class DifferentialHeads(nn.Module):
    """Differential attention: two softmaxes, λ by exponentials of dot products of vectors, norm by head, times one minus the first λ."""

    lam0 = 0.8 - 0.6 * math.exp(-0.3 * 4)

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o, self.hn = nn.RMSNorm(D), lin(D, D), lin(D, D), lin(D, D), lin(D, D), nn.RMSNorm(2 * HD)
        self.gain_lam = nn.Parameter(0.1 * torch.randn(4, HD))

    def mix(self, h):
        q, k = (f(h).unflatten(-1, (H, HD)).transpose(1, 2) for f in (self.q, self.k))
        v = self.v(h).unflatten(-1, (H // 2, 2 * HD)).transpose(1, 2)
        p = (q @ k.mT / HD ** 0.5).softmax(-1).unflatten(1, (H // 2, 2))
        a, b, c, d = self.gain_lam
        lam = torch.exp((a * b).sum()) - torch.exp((c * d).sum()) + self.lam0
        y = (p[:, :, 0] - lam * p[:, :, 1]) @ v
        return self.o((self.hn(y) * (1 - self.lam0)).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class SigmoidBiased(nn.Module):
    """Sigmoid attention with its bias of minus log of the length, queries and keys normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.qn, self.kn, self.qkv, self.o = nn.RMSNorm(D), nn.RMSNorm(HD), nn.RMSNorm(HD), lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        s = self.qn(q) @ self.kn(k).mT / HD ** 0.5
        return x + self.o((torch.sigmoid(s - math.log(T)) @ v).transpose(1, 2).flatten(2))


class DepthRouted(nn.Module):
    """Mixture of depths: the eight tokens of largest score pass the block, weighed by their score's sigmoid; others go by."""

    def __init__(self, k=8):
        super().__init__()
        self.k, self.r, self.n1, self.qkv, self.o, self.n2 = k, lin(D, 1), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), nn.RMSNorm(D)
        self.ff = nn.Sequential(lin(D, 64), nn.SiLU(), lin(64, D))

    def forward(self, x):
        s = self.r(x)[..., 0]
        w, i = s.topk(self.k, 1)
        i, order = i.sort(1)
        w = w.gather(1, order)
        rows = torch.arange(x.shape[0], device=x.device)[:, None]
        z = x[rows, i]
        q, k, v = self.qkv(self.n1(z)).chunk(3, -1)
        a = self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        y = a + self.ff(self.n2(z + a))
        return x.index_put((rows, i), torch.sigmoid(w)[..., None] * y, accumulate=True)


class TokenDrop(nn.Module):
    """Every second token is left out of the block and put back in its place behind it."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down, self.mix = nn.LayerNorm(D), lin(D, 64), lin(64, D), lin(T // 2, T // 2)

    def forward(self, x):
        kept, left = x[:, ::2], x[:, 1::2]
        h = self.norm(kept)
        kept = kept + self.down(F.gelu(self.up(self.mix(h.mT).mT)))
        return torch.stack((kept, left), 2).flatten(1, 2)


class MemoryRetrieval(nn.Module):
    """A modern Hopfield layer: three steps of retrieval from learned patterns of unit length."""

    def __init__(self, slots=20, beta=4.0):
        super().__init__()
        self.norm, self.patterns, self.q, self.o, self.beta = nn.LayerNorm(D), nn.Parameter(torch.randn(slots, D)), lin(D, D), lin(D, D), beta

    def forward(self, x):
        m = F.normalize(self.patterns, dim=1)
        z = unit(self.q(self.norm(x)))
        for _ in range(3):
            z = F.softmax(self.beta * z @ m.T, -1) @ m
        return x + self.o(z)


class RungeKutta(nn.Module):
    """One step of the classical Runge-Kutta method; the field reads a norm."""

    def __init__(self, dt=0.25):
        super().__init__()
        self.norm, self.a, self.b, self.dt = nn.LayerNorm(D), lin(D, 64), lin(64, D), dt

    def field(self, x):
        return self.b(torch.tanh(self.a(self.norm(x))))

    def forward(self, x):
        dt = self.dt
        k1 = self.field(x)
        k2 = self.field(x + dt / 2 * k1)
        k3 = self.field(x + dt / 2 * k2)
        k4 = self.field(x + dt * k3)
        return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class EulerRawField(nn.Module):
    """One step of Euler's method of a field without a norm: tanh of a map, a map behind."""

    def __init__(self, dt=0.25):
        super().__init__()
        self.a, self.b, self.dt = lin(D, 64), lin(64, D), dt

    def forward(self, x):
        return x + self.dt * self.b(torch.tanh(self.a(x)))


class FourierPost(nn.Module):
    """FNet: the real part of a Fourier transform over places and channels, post-norm."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))

    def forward(self, x):
        x = self.n1(x + torch.fft.fft2(x, norm="ortho").real)
        return self.n2(x + self.ff(x))


class ConvMixerSequence(nn.Module):
    """ConvMixer along a sequence: skip over the filter alone, batch norms behind the activations."""

    def __init__(self):
        super().__init__()
        self.dw, self.pw, self.b1, self.b2 = nn.Conv1d(D, D, 5, padding=2, groups=D), nn.Conv1d(D, D, 1), nn.BatchNorm1d(D), nn.BatchNorm1d(D)

    def forward(self, x):
        x = x.mT
        x = x + self.b1(F.gelu(self.dw(x)))
        return self.b2(F.gelu(self.pw(x))).mT


class EquivariantStep(nn.Module):
    """Positions (three channels) and features of a set: messages by squared distances, positions move along unit differences by at most one."""

    def __init__(self):
        super().__init__()
        f = D - 3
        self.norm, self.msg, self.move, self.upd = nn.LayerNorm(f), nn.Linear(2 * f + 1, 24), nn.Linear(24, 1), nn.Linear(f + 24, f)

    def forward(self, x):
        p, h = x.split((3, D - 3), -1)
        g = self.norm(h)
        diff = p.unsqueeze(2) - p.unsqueeze(1)
        d2 = diff.square().sum(-1, keepdim=True)
        a, b = g.unsqueeze(2).expand(-1, -1, T, -1), g.unsqueeze(1).expand(-1, T, -1, -1)
        m = F.silu(self.msg(torch.cat((a, b, d2 / (1 + d2)), -1)))
        p = p + (diff / torch.sqrt(d2 + 1) * torch.tanh(self.move(m))).mean(2)
        h = h + self.upd(torch.cat((g, m.mean(2)), -1))
        return torch.cat((p, h), -1)


class EquivariantRaw(EquivariantStep):
    """EGNN's own update: differences as they are, and no bound on the weight."""

    def forward(self, x):
        p, h = x.split((3, D - 3), -1)
        g = self.norm(h)
        diff = p.unsqueeze(2) - p.unsqueeze(1)
        d2 = diff.square().sum(-1, keepdim=True)
        a, b = g.unsqueeze(2).expand(-1, -1, T, -1), g.unsqueeze(1).expand(-1, T, -1, -1)
        m = F.silu(self.msg(torch.cat((a, b, d2), -1)))
        p = p + (diff * self.move(m)).mean(2)
        h = h + self.upd(torch.cat((g, m.mean(2)), -1))
        return torch.cat((p, h), -1)


class VectorNeurons(nn.Module):
    """Sixteen vectors of the plane: maps over channels, lengths normed over all, a gate by invariants."""

    def __init__(self, c=D // 2):
        super().__init__()
        self.w1, self.w2, self.gate, self.gain = lin(c, 2 * c), lin(2 * c, c), lin(c, 2 * c), nn.Parameter(torch.ones(c))

    def forward(self, x):
        v = x.unflatten(-1, (-1, 2))
        n2 = v.square().sum(-1)
        u = v * torch.rsqrt(n2.mean(-1, keepdim=True) + 1e-5).unsqueeze(-1) * self.gain.unsqueeze(-1)
        z = self.w1(u.mT).mT * torch.sigmoid(self.gate(u.square().sum(-1))).unsqueeze(-1)
        return (v + self.w2(z.mT).mT).flatten(-2)


class PeriLayerScale(nn.Module):
    """Norm, branch, norm, LayerScale of a hundredth; a cosine router weighs two nets."""

    def __init__(self):
        super().__init__()
        self.pre, self.post, self.gain = nn.LayerNorm(D), nn.LayerNorm(D), nn.Parameter(0.01 * torch.ones(D))
        self.nets = nn.ModuleList(nn.Sequential(lin(D, 48), nn.GELU(), lin(48, D)) for _ in range(2))
        self.anchor = nn.Parameter(torch.randn(2, D))

    def forward(self, x):
        h = self.pre(x)
        p = (F.cosine_similarity(h.unsqueeze(-2), self.anchor, dim=-1) * 10).softmax(-1)
        y = torch.stack([f(h) for f in self.nets], -1) @ p.unsqueeze(-1)
        return x + self.gain * self.post(y.squeeze(-1))


class PostThenPre(nn.Module):
    """A hybrid: attention with its norm behind the sum, the net pre-norm."""

    def __init__(self):
        super().__init__()
        self.post, self.pre, self.qkv, self.o = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D)
        self.ff = nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        x = self.post(x + self.o(F.scaled_dot_product_attention(q, k, v)))
        return x + self.ff(self.pre(x))


class KeelSkip(nn.Module):
    """Norm of a large multiple of the stream plus a branch of what is normed once more."""

    def __init__(self, alpha=12.0):
        super().__init__()
        self.outer, self.inner, self.alpha = nn.RMSNorm(D), nn.RMSNorm(D), alpha
        self.ff = nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))

    def forward(self, x):
        return self.outer(self.alpha * x + self.ff(self.inner(x)))


class DoubleResidual(nn.Module):
    """ResiDual: a post-norm stream, and beside it the sum of all branch results; both in one tensor of two halves."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.layers = nn.ModuleList(nn.ModuleDict({"f": nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D)), "n": nn.LayerNorm(D)}) for _ in range(n))
        self.last = nn.LayerNorm(D)

    def forward(self, x):
        post, dual = x, x
        for b in self.layers:
            y = b["f"](post)
            dual = dual + y
            post = b["n"](post + y)
        return post + self.last(dual)


class Ladder(nn.Module):
    """A U-shaped transformer: the second half joins what the first half kept, by a map of both."""

    def __init__(self, n=None):
        super().__init__()
        self.half = (n or 12) // 2
        self.layers = nn.ModuleList(nn.Sequential(nn.RMSNorm(D), lin(D, 64), nn.GELU(), lin(64, D)) for _ in range(2 * self.half))
        self.joins = nn.ModuleList(lin(2 * D, D) for _ in range(self.half))

    def forward(self, x):
        kept = []
        for f in self.layers[: self.half]:
            x = x + f(x)
            kept.append(x)
        for f, join in zip(self.layers[self.half:], self.joins):
            x = join(torch.cat((x, kept.pop()), -1))
            x = x + f(x)
        return x


class SkipWeights(nn.Module):
    """A learned number for each skip of a U (as in records of fast training): x + w · kept before the layers of the second half."""

    def __init__(self, n=None):
        super().__init__()
        self.half = (n or 12) // 2
        self.layers = nn.ModuleList(nn.Sequential(nn.RMSNorm(D), lin(D, 64), nn.ReLU(), lin(64, D)) for _ in range(2 * self.half))
        self.w = nn.Parameter(torch.zeros(self.half))

    def forward(self, x):
        kept = []
        for i, f in enumerate(self.layers):
            if i < self.half:
                kept.append(x)
            else:
                x = x + self.w[i - self.half] * kept.pop()
            x = x + f(x)
        return x


class NormFreeSchedule(nn.Module):
    """NF-ResNet's rule: each branch reads the stream over its expected deviation, which the constructor counts up."""

    def __init__(self, n=None, alpha=0.2):
        super().__init__()
        n, var = n or 12, 1.0
        self.alpha, self.layers, self.betas = alpha, nn.ModuleList(), []
        for _ in range(n):
            self.layers.append(nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, D)))
            nn.init.normal_(self.layers[-1][2].weight, std=(2 / 64) ** 0.5)
            self.betas.append(var ** 0.5)
            var += alpha ** 2

    def forward(self, x):
        for f, beta in zip(self.layers, self.betas):
            x = x + self.alpha * f(x / beta)
        return x


class LatentReader(nn.Module):
    """Sixteen learned latents read the input by cross-attention, once a layer, then pass a net."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.latents, self.inp = nn.Parameter(torch.randn(T, D)), nn.LayerNorm(D)
        self.layers = nn.ModuleList(nn.ModuleDict({"nq": nn.LayerNorm(D), "q": lin(D, D), "kv": lin(D, 2 * D), "o": lin(D, D), "nf": nn.LayerNorm(D),
                                                   "f": nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))}) for _ in range(n))

    def forward(self, x):
        z, c = self.latents.expand(x.shape[0], -1, -1), self.inp(x)
        for b in self.layers:
            k, v = b["kv"](c).chunk(2, -1)
            z = z + b["o"](F.scaled_dot_product_attention(b["q"](b["nq"](z)), k, v))
            z = z + b["f"](b["nf"](z))
        return z


class TiedPairs(nn.Module):
    """Weights tied over depth: three distinct layers, run in turn, each round with vectors of its own."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.cores = nn.ModuleList(nn.ModuleDict({"n": nn.RMSNorm(D, elementwise_affine=False), "a": lin(D, 64), "b": lin(64, D)}) for _ in range(3))
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(D)) for _ in range(n))

    def forward(self, x):
        for i, g in enumerate(self.gains):
            c = self.cores[i % 3]
            x = x + c["b"](F.relu(c["a"](c["n"](x) * g)))
        return x


class DynamicLanes(nn.Module):
    """Dynamic hyper-connections of four lanes: weights by tanh of maps that start at zero, beside static ones."""

    def __init__(self, n=None, lanes=4):
        super().__init__()
        n = n or 8
        self.lanes = lanes
        self.f = nn.ModuleList(nn.Sequential(nn.RMSNorm(D), lin(D, 64), nn.GELU(), lin(64, D)) for _ in range(n))
        self.norm = nn.ModuleList(nn.RMSNorm(D) for _ in range(n))
        self.dyn = nn.ParameterList(nn.Parameter(torch.zeros(D, lanes + 2)) for _ in range(n))
        self.static = nn.ParameterList(nn.Parameter(torch.cat((torch.eye(lanes)[:, i % lanes:i % lanes + 1], torch.eye(lanes), torch.ones(lanes, 1)), 1)) for i in range(n))
        self.gain_s = nn.ParameterList(nn.Parameter(0.01 * torch.ones(1)) for _ in range(n))

    def forward(self, x):
        s = x.unsqueeze(-2).expand(-1, -1, self.lanes, -1)
        for f, norm, dyn, st, g in zip(self.f, self.norm, self.dyn, self.static, self.gain_s):
            w = st + g * torch.tanh(norm(s) @ dyn)
            read, mix, write = w[..., :1], w[..., 1:-1], w[..., -1:]
            y = f((read * s).sum(-2))
            s = mix.mT @ s + write * y.unsqueeze(-2)
        return s.mean(-2)


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded")
_M = dict(kind="model", depth=12, softmax=False)
TRUTH = {
    "TestTimeLinear": dict(_NET, **_ONE, why="a norm and a map behind what was learned."),
    "TestTimeNoPost": dict(_NET, **_ONE, why="unit keys, a half: the map learned is a mean of values, of free weights."),
    "GatedDelta": dict(_NET, **_ONE, why="a map behind the norm."),
    "SelectiveScan": dict(_NET, **_ONE, why="pre-norm."),
    "Retention": dict(_NET, **_TWO, why="pre-norm."),
    "MatrixLstm": dict(_NET, **_ONE, why="pre-norm.") | dict(softmax=None),
    "EluLinear": dict(_NET, **_TWO, why="a mean of values, and a map."),
    "EluNoDivisor": dict(_NET, **_TWO, why="sums over sixteen places of what is normed."),
    "DifferentialHeads": dict(_PRE, **_ONE, **_F, why="pre-norm."),
    "SigmoidBiased": dict(_NET, **_ONE, why="weights below one."),
    "DepthRouted": dict(_PRE, **_ONE, **_F, why="a share below one of pre-norm branches is added."),
    "TokenDrop": dict(_NET, **_ONE, why="pre-norm on a half, identity on the other."),
    "MemoryRetrieval": dict(_PRE, **_ONE, **_T, why="means of unit vectors, times four."),
    "RungeKutta": dict(_NET, **_ONE, why="a mean of four normed fields."),
    "EulerRawField": dict(_NET, **_ONE, why="tanh is at most one."),
    "FourierPost": dict(_ON, growth_all="bounded", softmax=False, why="a norm behind each sum."),
    "ConvMixerSequence": dict(_ON, softmax=False, gradient_law="exponential", why="GELU behind no skip; a norm of the batch at the end of each block, without a skip over it."),
    "EquivariantStep": dict(_NET, why="steps of at most one; features pre-norm."),
    "EquivariantRaw": dict(_B, growth_fixed="exponential", softmax=False, why="degree three in the positions."),
    "VectorNeurons": dict(_NET, **_ONE, why="pre-norm."),
    "PeriLayerScale": dict(_PRE, growth_all="linear", output_bounded={0: True}, **_T, why="peri; cosines times ten."),
    "PostThenPre": dict(_ON, softmax=True, **_TWO, **_F, why="normed once a block."),
    "KeelSkip": dict(_ON, growth_all="bounded", softmax=False, **_ONE, why="a norm behind the sum."),
    "DoubleResidual": dict(_M, why="two streams."),
    "Ladder": dict(_M, why="maps stand on the stream."),
    "SkipWeights": dict(_M, identity_gain=1.0, growth_fixed="linear", why="weights of skips start at 0."),
    "NormFreeSchedule": dict(_M, identity_gain=1.0, gradient_law="flat", why="degree one; forward and backward factors are one."),
    "LatentReader": dict(kind="model", depth=6, growth_fixed="linear", softmax=True, **_F, why="pre-norm on the latents, keys of a norm."),
    "TiedPairs": dict(_M, identity_gain=1.0, growth_fixed="linear", why="pre-norm."),
    "DynamicLanes": dict(kind="model", depth=8, identity_gain=1.0, growth_fixed="linear", softmax=False, why="lanes keep what they have; their mean is given."),
}
