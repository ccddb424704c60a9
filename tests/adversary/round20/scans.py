"""Mixers along the sequence: chunked state spaces, delta rules, memories that learn, long filters, log-space scans; raw ones beside them."""

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


def l2norm(x, eps=1e-6):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + eps)


def segsum(a):
    """Sums of segments, lower triangle; above it minus infinity."""
    t = a.size(-1)
    a = a.unsqueeze(-1).expand(*a.shape, t)
    a = a.masked_fill(~torch.ones(t, t, dtype=torch.bool, device=a.device).tril(-1), 0)
    return a.cumsum(-2).masked_fill(~torch.ones(t, t, dtype=torch.bool, device=a.device).tril(0), -torch.inf)


def ssd(x, a, b, c, chunk):
    """State space duality of Mamba-2, in chunks: x (batch, length, heads, p), a (batch, length, heads), b and c (batch, length, heads, n)."""
    x, a, b, c = (z.unflatten(1, (-1, chunk)) for z in (x, a, b, c))
    a = a.permute(0, 3, 1, 2)
    cum = a.cumsum(-1)
    diag = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, torch.exp(segsum(a)), x)
    states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, torch.exp(cum[..., -1:] - cum), x)
    states = torch.cat((torch.zeros_like(states[:, :1]), states), 1)
    decay = torch.exp(segsum(F.pad(cum[..., -1], (1, 0))))
    states = torch.einsum("bhzc,bchpn->bzhpn", decay, states)[:, :-1]
    off = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, torch.exp(cum))
    return (diag + off).flatten(1, 2)


class StateDuality(nn.Module):
    """Mamba-2's mixer in chunks of four: one map in, a filter, softplus steps, a gated norm, one map out."""

    def __init__(self, n=4):
        super().__init__()
        self.n, self.norm, self.in_proj, self.out_proj, self.out_norm = n, nn.RMSNorm(D), lin(D, 2 * D + 2 * n + H), lin(D, D), nn.RMSNorm(D)
        self.conv = nn.Conv1d(D + 2 * n, D + 2 * n, 4, padding=3, groups=D + 2 * n)
        self.A_log, self.dt_bias, self.skip = nn.Parameter(torch.log(torch.arange(1.0, H + 1))), nn.Parameter(torch.full((H,), -2.0)), nn.Parameter(torch.ones(H))

    def out(self, y, z):
        return self.out_norm(y * F.silu(z))

    def mix(self, h):
        z, xbc, dt = self.in_proj(h).split((D, D + 2 * self.n, H), -1)
        x, b, c = F.silu(self.conv(xbc.transpose(1, 2))[..., :T].transpose(1, 2)).split((D, self.n, self.n), -1)
        dt = F.softplus(dt + self.dt_bias)
        x = x.unflatten(-1, (H, HD))
        b, c = (u.unsqueeze(2).expand(-1, -1, H, -1) for u in (b, c))
        y = ssd(x * dt.unsqueeze(-1), -torch.exp(self.A_log) * dt, b, c, 4) + self.skip[:, None] * x
        return self.out_proj(self.out(y.flatten(2), z))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class StateDualityNoNorm(StateDuality):
    """Without the gated norm, as in the first Mamba."""

    def out(self, y, z):
        return y * F.silu(z)


class StateDualityRaw(StateDuality):
    """The block's norm was lost when the mixer's gated norm was added: the mixer reads the stream, its norm bounds what it gives."""

    def forward(self, x):
        return x + self.mix(x)


class SevenTimeMix(nn.Module):
    """RWKV-7's time mix and channel mix: token shift, decays above 0.54, a removal key of length one, a group norm, a bonus, a gate."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mix_x = nn.Parameter(torch.rand(6, D))
        self.r, self.k, self.v, self.o = lin(D, D), lin(D, D), lin(D, D), lin(D, D)
        self.w0, self.w1, self.w2 = nn.Parameter(torch.linspace(-6, 1, D)), lin(D, 8), lin(8, D)
        self.a0, self.a1, self.a2 = nn.Parameter(torch.zeros(D)), lin(D, 8), lin(8, D)
        self.g1, self.g2 = lin(D, 8), lin(8, D)
        self.k_k, self.k_a, self.r_k = nn.Parameter(torch.full((D,), 0.85)), nn.Parameter(torch.ones(D)), nn.Parameter(torch.full((H, HD), -0.04))
        self.ln_x = nn.GroupNorm(H, D, eps=64e-5)
        self.x_k, self.up, self.down = nn.Parameter(torch.rand(D)), lin(D, 64), lin(64, D)

    def time(self, x):
        B = x.shape[0]
        xx = F.pad(x, (0, 0, 1, -1)) - x
        xr, xw, xk, xv, xa, xg = (x + xx * m for m in self.mix_x)
        r, k, v = self.r(xr), self.k(xk), self.v(xv)
        w = torch.exp(-0.606531 * torch.sigmoid(self.w0 + self.w2(torch.tanh(self.w1(xw)))))
        a = torch.sigmoid(self.a0 + self.a2(self.a1(xa)))
        g = self.g2(torch.sigmoid(self.g1(xg)))
        kk = F.normalize((k * self.k_k).view(B, T, H, HD), dim=-1)
        k = k * (1 + (a - 1) * self.k_a)
        r, w, k, v, a = (z.view(B, T, H, HD) for z in (r, w, k, v, a))
        S, ys = x.new_zeros(B, H, HD, HD), []
        for t in range(T):
            S = S * w[:, t].unsqueeze(-2) - (S @ kk[:, t].unsqueeze(-1)) @ (kk * a)[:, t].unsqueeze(-2) + v[:, t].unsqueeze(-1) @ k[:, t].unsqueeze(-2)
            ys.append((S @ r[:, t].unsqueeze(-1)).flatten(1))
        y = self.ln_x(torch.stack(ys, 1).flatten(0, 1)).view(B, T, D)
        y = y + ((r * k * self.r_k).sum(-1, keepdim=True) * v).flatten(2)
        return self.o(y * g)

    def channel(self, x):
        xx = F.pad(x, (0, 0, 1, -1)) - x
        return self.down(torch.relu(self.up(x + xx * self.x_k)) ** 2)

    def forward(self, x):
        x = x + self.time(self.ln1(x))
        return x + self.channel(self.ln2(x))


class SevenRawShift(SevenTimeMix):
    """The token that was before is taken from the stream, not from its norm; squares of ReLU are added to that."""

    def forward(self, x):
        x = x + self.time(self.ln1(x))
        h = self.ln2(x)
        return x + self.down(torch.relu(self.up(h + F.pad(x, (0, 0, 1, -1)) * self.x_k)) ** 2)


class DeltaChunks(nn.Module):
    """The delta rule in chunks: a triangular system a chunk, states passed between chunks; keys of length one, a rate below one."""

    def __init__(self, chunk=4):
        super().__init__()
        self.c, self.norm, self.q, self.k, self.v, self.b, self.on, self.o = chunk, nn.RMSNorm(D), lin(D, D), lin(D, D), lin(D, D), lin(D, H), nn.RMSNorm(HD), lin(D, D)

    def mix(self, h):
        q, k, v = (F.silu(f(h)).unflatten(-1, (H, HD)).transpose(1, 2).unflatten(2, (-1, self.c)) for f in (self.q, self.k, self.v))
        q, k = l2norm(q), l2norm(k)
        beta = self.b(h).sigmoid().transpose(1, 2).unflatten(2, (-1, self.c)).unsqueeze(-1)
        eye = torch.eye(self.c, dtype=h.dtype, device=h.device)
        A = torch.tril(beta * k @ k.mT, -1) + eye
        u, w = torch.linalg.solve_triangular(A, torch.cat((beta * v, beta * k), -1), upper=False).split(HD, -1)
        S, out = h.new_zeros(h.shape[0], H, HD, HD), []
        for i in range(q.shape[2]):
            new = u[:, :, i] - w[:, :, i] @ S
            out.append(q[:, :, i] @ S + torch.tril(q[:, :, i] @ k[:, :, i].mT) @ new)
            S = S + k[:, :, i].mT @ new
        y = self.on(torch.cat(out, 2)).transpose(1, 2).flatten(2)
        return self.o(y)

    def forward(self, x):
        return x + self.mix(self.norm(x))


class ChannelGatedDelta(nn.Module):
    """Kimi's delta attention: a decay for each channel, then a delta step, a norm under a sigmoid gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.f1, self.f2, self.b, self.g1, self.g2, self.on, self.o = nn.RMSNorm(D), lin(D, 3 * D), lin(D, 8), lin(8, D), lin(D, H), lin(D, 8), lin(8, D), nn.RMSNorm(HD), lin(D, D)
        self.A_log, self.dt_bias = nn.Parameter(torch.zeros(H, 1)), nn.Parameter(torch.zeros(D))
        self.norm2, self.ff = nn.RMSNorm(D), nn.Sequential(lin(D, 64), nn.SiLU(), lin(64, D))

    def mix(self, h):
        q, k, v = (z.unflatten(-1, (H, HD)) for z in F.silu(self.qkv(h)).chunk(3, -1))
        q, k = l2norm(q) * HD ** -0.5, l2norm(k)
        g = torch.exp(-self.A_log.exp() * F.softplus(self.f2(self.f1(h)) + self.dt_bias).unflatten(-1, (H, HD)))
        beta = self.b(h).sigmoid()
        S, ys = h.new_zeros(h.shape[0], H, HD, HD), []
        for t in range(T):
            S = S * g[:, t].unsqueeze(-1)
            delta = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], S)) * beta[:, t].unsqueeze(-1)
            S = S + torch.einsum("bhk,bhv->bhkv", k[:, t], delta)
            ys.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))
        y = self.on(torch.stack(ys, 1)) * torch.sigmoid(self.g2(self.g1(h))).unflatten(-1, (H, HD))
        return self.o(y.flatten(2))

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        return x + self.ff(self.norm2(x))


class TwoReflections(nn.Module):
    """Delta product: two steps a token with rates up to two, so that a step may reflect."""

    def __init__(self, steps=2):
        super().__init__()
        self.steps, self.norm, self.q, self.k, self.v, self.b, self.o = steps, nn.RMSNorm(D), lin(D, D), lin(D, steps * D), lin(D, steps * D), lin(D, steps), lin(D, D)

    def mix(self, h):
        q, k, v = l2norm(self.q(h)), l2norm(self.k(h).unflatten(-1, (self.steps, D))), self.v(h).unflatten(-1, (self.steps, D))
        b = 2 * torch.sigmoid(self.b(h))
        S, ys = h.new_zeros(h.shape[0], D, D), []
        for t in range(T):
            for j in range(self.steps):
                kj = k[:, t, j]
                S = S + b[:, t, j, None, None] * kj.unsqueeze(2) * (v[:, t, j] - (kj.unsqueeze(1) @ S).squeeze(1)).unsqueeze(1)
            ys.append((q[:, t].unsqueeze(1) @ S).squeeze(1))
        return self.o(torch.stack(ys, 1))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class SurpriseMemory(nn.Module):
    """Titans: a linear memory, its surprise with momentum, forgetting by a gate; persistent tokens are left out."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.rates, self.on, self.o = nn.RMSNorm(D), lin(D, 3 * D), nn.Linear(D, 3), nn.RMSNorm(D), lin(D, D)

    def mix(self, h):
        q, k, v = self.qkv(h).chunk(3, -1)
        q, k = l2norm(q), l2norm(k)
        theta, eta, alpha = torch.sigmoid(self.rates(h)).unbind(-1)
        M, S, ys = h.new_zeros(h.shape[0], D, D), h.new_zeros(h.shape[0], D, D), []
        for t in range(T):
            kt = k[:, t]
            err = (kt.unsqueeze(1) @ M).squeeze(1) - v[:, t]
            S = eta[:, t, None, None] * S - theta[:, t, None, None] * torch.einsum("bk,bv->bkv", kt, err)
            M = (1 - alpha[:, t, None, None]) * M + S
            ys.append((q[:, t].unsqueeze(1) @ M).squeeze(1))
        return self.o(self.on(torch.stack(ys, 1)))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class SolvedMemory(nn.Module):
    """Mesa layer: at each token a regularised least-squares problem is solved for the query."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.fb, self.lam, self.o = nn.RMSNorm(D), lin(D, 3 * D), lin(D, H), nn.Parameter(torch.ones(HD)), lin(D, D)

    def mix(self, h):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(h).chunk(3, -1))
        q, k = l2norm(q), l2norm(k)
        b = torch.sigmoid(self.fb(h)).transpose(1, 2).unsqueeze(-1)
        kb = k * b
        Hk = torch.einsum("bhtd,bhte->bhtde", kb, k).cumsum(2) + torch.diag(F.softplus(self.lam) + 0.25)
        y = torch.linalg.solve(Hk, q.unsqueeze(-1)).squeeze(-1)
        out = torch.tril(y @ kb.mT) @ v
        return self.o(out.transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class LogSpaceScan(nn.Module):
    """minLSTM in logarithms: softplus differences for the gates, a scan by log-cum-sum-exp, a positive state."""

    def __init__(self):
        super().__init__()
        self.norm, self.f, self.i, self.h, self.o = nn.LayerNorm(D), nn.Linear(D, 48), nn.Linear(D, 48), nn.Linear(D, 48), lin(48, D)
        self.norm2, self.ff = nn.LayerNorm(D), nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))

    def mix(self, x):
        diff = F.softplus(-self.f(x)) - F.softplus(-self.i(x))
        log_f, log_i = -F.softplus(diff), -F.softplus(-diff)
        z = self.h(x)
        log_h = torch.where(z >= 0, (F.relu(z) + 0.5).log(), -F.softplus(-z))
        a = log_f.cumsum(1)
        return self.o((a + torch.logcumsumexp(log_i + log_h - a, 1)).exp())

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        return x + self.ff(self.norm2(x))


class TaylorFeatures(nn.Module):
    """Based: features of the second Taylor polynomial of exp, causal, with a divisor, and a window of exact attention before it."""

    def __init__(self, r=4):
        super().__init__()
        self.r, self.n1, self.n2, self.n3 = r, nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.qk, self.v, self.o, self.wqkv, self.wo, self.ff = lin(D, 2 * r), lin(D, D), lin(D, D), lin(D, 3 * D), lin(D, D), nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))
        i = torch.arange(T)
        self.register_buffer("near", (i[:, None] >= i) & (i[:, None] - i < 4))

    def feature(self, x):
        x2 = (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2) / math.sqrt(2) / math.sqrt(self.r)
        return torch.cat((torch.ones_like(x[..., :1]), x / self.r ** 0.25, x2), -1)

    def taylor(self, h):
        q, k = (self.feature(z) for z in self.qk(h).chunk(2, -1))
        s = torch.tril(q @ k.mT)
        return self.o(s @ self.v(h) / (s.sum(-1, keepdim=True) + 1e-6))

    def window(self, h):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.wqkv(h).chunk(3, -1))
        return self.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=self.near).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.window(self.n1(x))
        x = x + self.taylor(self.n2(x))
        return x + self.ff(self.n3(x))


class LongFilter(nn.Module):
    """Hyena of order two: short filters, an implicit filter of decaying windows, products before and behind, by Fourier transforms of twice the length."""

    def __init__(self):
        super().__init__()
        self.norm, self.inp, self.short, self.out = nn.LayerNorm(D), lin(D, 3 * D), nn.Conv1d(3 * D, 3 * D, 3, padding=2, groups=3 * D), lin(D, D)
        t = torch.linspace(0, 1, T)[:, None]
        self.register_buffer("z", torch.cat((t, torch.cos(2 * math.pi * t * torch.arange(1, 5)), torch.sin(2 * math.pi * t * torch.arange(1, 5))), -1))
        self.register_buffer("decay", torch.exp(-t * torch.linspace(1.5, 15, D)))
        self.filter, self.bias = nn.Sequential(nn.Linear(9, 16), nn.SiLU(), nn.Linear(16, D)), nn.Parameter(torch.ones(D))

    def read(self, x):
        return self.norm(x)

    def mix(self, h):
        u = self.short(self.inp(h).transpose(1, 2))[..., :T]
        x1, x2, v = u.chunk(3, 1)
        v = v * x1
        k = (self.filter(self.z) * self.decay).T
        y = torch.fft.irfft(torch.fft.rfft(v, n=2 * T) * torch.fft.rfft(k, n=2 * T), n=2 * T)[..., :T] + v * self.bias[:, None]
        return self.out((y * x2).transpose(1, 2))

    def forward(self, x):
        return x + self.mix(self.read(x))


class LongFilterRaw(LongFilter):
    """The same without its norm: three factors of the stream are multiplied."""

    def read(self, x):
        return x


class NormedLightning(nn.Module):
    """A linear attention of fixed decays whose residual is taken behind the norm and multiplied; its net likewise."""

    post = True

    def __init__(self, alpha=3.56, beta=1.0):
        super().__init__()
        self.alpha, self.beta = alpha, beta
        self.n1, self.n2, self.qkv, self.g, self.on, self.o = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), nn.RMSNorm(D), lin(D, D)
        self.ff = nn.Sequential(lin(D, 64), nn.SiLU(), lin(64, D))
        i = torch.arange(T)
        slope = 2.0 ** -torch.arange(1.0, H + 1)
        self.register_buffer("decay", torch.tril(torch.exp(-slope[:, None, None] * (i[:, None] - i).clamp(min=0))))

    def mix(self, h):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in F.silu(self.qkv(h)).chunk(3, -1))
        y = ((q @ k.mT) * self.decay) @ v
        return self.o(torch.sigmoid(self.g(h)) * self.on(y.transpose(1, 2).flatten(2)))

    def forward(self, x):
        residual, h = x, self.n1(x)
        if self.post:
            residual = h
        x = residual * self.alpha + self.mix(h) * self.beta
        residual, h = x, self.n2(x)
        if self.post:
            residual = h
        return residual * self.alpha + self.ff(h) * self.beta


class UnnormedLightning(NormedLightning):
    """The flag is off, and the factor stays: 3.56 twice a block."""

    post = False


class StabilisedScalar(nn.Module):
    """sLSTM: exponential input gates, sigmoid forget gates, a running largest, a normalizer, maps of the state by head."""

    def __init__(self):
        super().__init__()
        self.norm, self.w, self.on, self.norm2, self.ff = nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.GroupNorm(H, D), nn.LayerNorm(D), nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))
        self.r = nn.Parameter(torch.randn(4, H, HD, HD) * 0.05)

    def mix(self, h):
        B = h.shape[0]
        gates = self.w(h).unflatten(-1, (4, D))
        y, c, n, m, ys = h.new_zeros(B, D), h.new_zeros(B, D), h.new_ones(B, D), h.new_zeros(B, D), []
        for t in range(T):
            rec = torch.einsum("bhd,ghde->bghe", y.unflatten(-1, (H, HD)), self.r).flatten(2)
            i, f, z, o = (gates[:, t] + rec).unbind(1)
            logf = F.logsigmoid(f)
            m_new = torch.maximum(logf + m, i)
            i, f = torch.exp(i - m_new), torch.exp(logf + m - m_new)
            c, n, m = f * c + i * torch.tanh(z), f * n + i, m_new
            y = torch.sigmoid(o) * c / n
            ys.append(y)
        return self.on(torch.stack(ys, 1).flatten(0, 1)).view(B, T, D)

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        return x + self.ff(self.norm2(x))


class HybridPattern(nn.Module):
    """A stack by a string: M a state space, * attention, - a net, each alone in its layer with one norm."""

    def __init__(self, n=None, pattern="M-M-M*-M-M-M"):
        super().__init__()
        n = n or len(pattern)
        self.kinds = (pattern * (n // len(pattern) + 1))[:n]
        self.layer, self.norms = nn.ModuleList(), nn.ModuleList(nn.RMSNorm(D) for _ in range(n))
        for k in self.kinds:
            self.layer.append({"M": Decays, "*": Causal, "-": Squared}[k]())

    def forward(self, hidden):
        for norm, mixer in zip(self.norms, self.layer):
            residual = hidden
            hidden = mixer(norm(hidden))
            hidden = residual + hidden
        return hidden


class Decays(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = lin(D, 2 * D), nn.Linear(D, D), lin(D, D)

    def forward(self, h):
        u, z = self.up(h).chunk(2, -1)
        log_a = F.logsigmoid(self.gate(h) + 2)
        y = torch.einsum("btsd,bsd->btd", torch.exp(segsum(log_a.mT)).movedim(1, -1), u * -torch.expm1(log_a))
        return self.down(y * F.silu(z))


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = lin(D, 3 * D), lin(D, D)

    def forward(self, h):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(h).chunk(3, -1))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Squared(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = lin(D, 64), lin(64, D)

    def forward(self, h):
        return self.down(F.relu(self.up(h)).square())


class BothInOne(nn.Module):
    """Falcon-H1: attention and a state space on one norm, each under a multiplier, then a net under two."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.pre_ff_layernorm, self.mamba, self.attn = nn.RMSNorm(D), nn.RMSNorm(D), Decays(), Causal()
        self.gate, self.up, self.down = lin(D, 64), lin(D, 64), lin(64, D)
        self.ssm_in, self.ssm_out, self.attn_in, self.attn_out, self.mlp_mult = 1.25, 0.35, 1.0, 0.6, (0.9, 0.33)

    def forward(self, x):
        h = self.input_layernorm(x)
        x = x + self.mamba(h * self.ssm_in) * self.ssm_out + self.attn(h * self.attn_in) * self.attn_out
        h = self.pre_ff_layernorm(x)
        return x + self.down(F.silu(self.gate(h) * self.mlp_mult[0]) * self.up(h)) * self.mlp_mult[1]


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "StateDuality": dict(_NET, **_ONE, why="pre-norm; a norm and a map at the end."),
    "StateDualityNoNorm": dict(_NET, **_ONE, why="pre-norm."),
    "StateDualityRaw": dict(_NET, **_ONE, why="what is added is a map of a norm, whatever is read."),
    "SevenTimeMix": dict(_NET, **_TWO, why="pre-norm."),
    "SevenRawShift": dict(kind="block", growth_fixed="exponential", softmax=False, **_TWO, why="squares of what has the stream in it."),
    "DeltaChunks": dict(_NET, **_ONE, why="pre-norm, a norm by head and a map."),
    "ChannelGatedDelta": dict(_NET, **_TWO, why="pre-norm."),
    "TwoReflections": dict(_NET, **_ONE, why="unit keys and rates of at most two: no step makes the state longer but by its value."),
    "SurpriseMemory": dict(_NET, **_ONE, why="a norm and a map at the end."),
    "SolvedMemory": dict(_NET, **_ONE, why="a matrix of at least a quarter is inverted."),
    "LogSpaceScan": dict(_NET, **_TWO, why="a mean of positive values, and a map."),
    "TaylorFeatures": dict(_NET, output_bounded={0: False, 1: False, 2: False}, why="shares of values.") | dict(softmax=True),
    "LongFilter": dict(_NET, **_ONE, why="pre-norm."),
    "LongFilterRaw": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, why="of degree three."),
    "NormedLightning": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, **_TWO, why="the residual itself is normed twice a block."),
    "UnnormedLightning": dict(kind="block", identity_gain=3.56 ** 48, growth_fixed="exponential", softmax=False, **_TWO, why="3.56 squared a block."),
    "StabilisedScalar": dict(_NET, output_bounded={0: True, 1: False}, why="the first ends in a group norm."),
    "HybridPattern": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, why="pre-norm."),
    "BothInOne": dict(_NET, why="pre-norm.") | dict(softmax=True),
}
