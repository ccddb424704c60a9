"""Single residual blocks as they are written in 2024-2026, and slips of them. Each takes [2, 16, 32] and gives the same shape."""

import math
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, einsum
from torch.nn.utils import parametrize

DIM, SEQ, HEADS, HD = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, SEQ, DIM),)


def matrix(*shape, fan=None):
    return nn.Parameter(torch.randn(*shape) * (fan or shape[0]) ** -0.5)


def lin(i, o, bias=False):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


class Rms(nn.Module):
    """Root mean square by vector_norm."""

    def __init__(self, dim=DIM, eps=1e-5):
        super().__init__()
        self.gain, self.dim, self.eps = nn.Parameter(torch.ones(dim)), dim, eps

    def forward(self, x):
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / math.sqrt(self.dim)
        return self.gain * (x / (size + self.eps))


def causal(x):
    n = x.shape[1]
    return torch.full((n, n), -math.inf, dtype=x.dtype, device=x.device).triu_(1)


def mlp(d=DIM, m=2, act=nn.GELU):
    return nn.Sequential(lin(d, m * d), act(), lin(m * d, d))


# ------------------------------------------------------------------ ordinary designs
class EinsumGqaRope(nn.Module):
    """Grouped queries by einsum, rotary by halves, fused SwiGLU."""

    def __init__(self, groups=2):
        super().__init__()
        self.groups, self.rep = groups, HEADS // groups
        self.p = nn.ParameterDict(dict(q=matrix(DIM, groups, HEADS // groups, HD), kv=matrix(DIM, 2, groups, HD), o=matrix(groups, HEADS // groups, HD, DIM, fan=DIM)))
        self.ln_attn, self.ln_ffn = Rms(), Rms()
        self.up_gate, self.down = lin(DIM, 4 * DIM), lin(2 * DIM, DIM)
        angle = torch.outer(torch.arange(SEQ).float(), 100.0 ** (-torch.arange(HD // 2).float() / (HD // 2)))
        self.register_buffer("cos", angle.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", angle.sin().repeat(1, 2), persistent=False)

    def rotate(self, t, extra):
        c, s = (b.to(t.dtype).view(SEQ, *([1] * extra), HD) for b in (self.cos, self.sin))
        a, b = t.tensor_split(2, dim=-1)
        return t * c + torch.cat((b.neg(), a), -1) * s

    def attn(self, x):
        h = self.ln_attn(x)
        q = self.rotate(einsum("btd,dgre->btgre", h, self.p["q"]), 2)
        k, v = einsum("btd,dcge->cbtge", h, self.p["kv"]).unbind(0)
        k = self.rotate(k, 1)
        s = einsum("bigre,bjge->bgrij", q, k).mul(HD ** -0.5) + causal(x)
        return einsum("bgrij,bjge,gred->bid", torch.softmax(s, -1), v, self.p["o"])

    def ffn(self, x):
        a, g = self.up_gate(self.ln_ffn(x)).split(2 * DIM, -1)
        return self.down(F.silu(g).mul(a))

    def forward(self, x):
        x = torch.add(x, self.attn(x))
        return torch.add(x, self.ffn(x))


class InPlaceBranchAdd(nn.Module):
    """The stream is added in place into what the branch gave; baddbmm with distances below the scores."""

    def __init__(self):
        super().__init__()
        self.pre, self.qkv, self.out = nn.LayerNorm(DIM, bias=False), lin(DIM, 3 * DIM), lin(DIM, DIM)
        d = torch.arange(SEQ)
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        self.register_buffer("alibi", -slopes[:, None, None] * (d[:, None] - d[None]).abs())

    def branch(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.pre(x)).view(b, n, 3, HEADS, HD).permute(2, 0, 3, 1, 4).reshape(3, b * HEADS, n, HD)
        s = torch.baddbmm(self.alibi.to(x.dtype).repeat(b, 1, 1), q, k.transpose(1, 2), beta=1.0, alpha=1 / math.sqrt(HD))
        y = torch.bmm(F.softmax(s, dim=2), v)
        return self.out(y.view(b, HEADS, n, HD).transpose(1, 2).reshape(b, n, DIM))

    def forward(self, x):
        y = self.branch(x)
        y += x
        return y


class MagnetoSubLn(nn.Module):
    """A second norm before each output map."""

    def __init__(self):
        super().__init__()
        self.n = nn.ModuleList(nn.LayerNorm(w) for w in (DIM, DIM, DIM, 2 * DIM))
        self.qkv, self.o, self.fc1, self.fc2 = lin(DIM, 3 * DIM), lin(DIM, DIM), lin(DIM, 2 * DIM), lin(2 * DIM, DIM)

    def attn(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, HD)).transpose(1, 2) for t in self.qkv(self.n[0](x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(self.n[1](y.transpose(1, 2).flatten(-2)))

    def ffn(self, x):
        return self.fc2(self.n[3](F.gelu(self.fc1(self.n[2](x)))))

    def forward(self, x):
        for f in (self.attn, self.ffn):
            x = x + f(x)
        return x


class Wrapped(nn.Module):
    def __init__(self, before: nn.Module, body: nn.Module, after: nn.Module):
        super().__init__()
        self.before, self.body, self.after = before, body, after

    def forward(self, x):
        return self.after(self.body(self.before(x)))


class Sdpa(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_kv, self.to_out = lin(DIM, DIM), lin(DIM, 2 * DIM), lin(DIM, DIM)

    def forward(self, x, context=None):
        split: Callable[[Tensor], Tensor] = lambda t: t.unflatten(-1, (HEADS, HD)).movedim(-2, -3)
        k, v = self.to_kv(x if context is None else context).chunk(2, dim=-1)
        return self.to_out(F.scaled_dot_product_attention(split(self.to_q(x)), split(k), split(v), scale=0.25).movedim(-3, -2).flatten(-2))


class CogSandwich(nn.Module):
    """Norms on both sides of every body."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Wrapped(Rms(), Sdpa(), Rms()), Wrapped(Rms(), mlp(), Rms())])

    def forward(self, x):
        for part in self.parts:
            x = part(x) + x
        return x


class SwinTwoClamped(nn.Module):
    """Cosine attention with a clamped scale and a table of positions through a sigmoid; norms behind."""
    ceiling = math.log(100.0)

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = lin(DIM, 3 * DIM), lin(DIM, DIM)
        self.logit_scale = nn.Parameter(torch.full((HEADS, 1, 1), math.log(10.0)))
        self.table = nn.Parameter(torch.zeros(HEADS, 2 * SEQ - 1))
        i = torch.arange(SEQ)
        self.register_buffer("index", i[:, None] - i[None] + SEQ - 1)
        self.norm1, self.norm2, self.mlp = nn.LayerNorm(DIM), nn.LayerNorm(DIM), mlp()

    def temperature(self):
        return torch.clamp(self.logit_scale, max=self.ceiling).exp()

    def attend(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, HEADS, HD).permute(2, 0, 3, 1, 4)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        a = a * self.temperature() + 16 * torch.sigmoid(self.table[:, self.index])
        return self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, DIM))

    def forward(self, x):
        x = x + self.norm1(self.attend(x))
        return x + self.norm2(self.mlp(x))


class GatedDelta(nn.Module):
    """A decayed state corrected by the delta rule, unit keys, a gated norm, an output map."""

    def __init__(self):
        super().__init__()
        self.pre = Rms()
        self.q, self.k, self.v, self.z, self.o = (lin(DIM, DIM) for _ in range(5))
        self.b, self.a = lin(DIM, HEADS), lin(DIM, HEADS)
        self.log_rate, self.dt = nn.Parameter(torch.zeros(HEADS)), nn.Parameter(torch.full((HEADS,), -2.0))
        self.head_norm = Rms(HD)

    def branch(self, x):
        h = self.pre(x)
        q, k, v = (f(h).view(*h.shape[:2], HEADS, HD) for f in (self.q, self.k, self.v))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        beta, keep = self.b(h).sigmoid(), torch.exp(-self.log_rate.exp() * F.softplus(self.a(h) + self.dt))
        state = x.new_zeros(x.shape[0], HEADS, HD, HD)
        seen = []
        for t in range(x.shape[1]):
            state = state * keep[:, t, :, None, None]
            wrong = v[:, t] - einsum("bhij,bhi->bhj", state, k[:, t])
            state = state + einsum("bhi,bhj->bhij", k[:, t], wrong * beta[:, t, :, None])
            seen.append(einsum("bhij,bhi->bhj", state, q[:, t]))
        y = self.head_norm(torch.stack(seen, 1)) * F.silu(self.z(h)).view(*h.shape[:2], HEADS, HD)
        return self.o(y.flatten(-2))

    def forward(self, x):
        return x + self.branch(x)


class SelectiveScan(nn.Module):
    """Mamba with a plain loop."""

    def __init__(self, inner=2 * DIM, n_state=4):
        super().__init__()
        self.norm = nn.RMSNorm(DIM)
        self.in_proj, self.out_proj = lin(DIM, 2 * inner), lin(inner, DIM)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj, self.dt_proj = lin(inner, 2 * n_state + 2), nn.Linear(2, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, n_state + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.n_state = n_state

    def branch(self, x):
        u, z = self.in_proj(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., : x.shape[1]]).mT
        dt, b, c = self.x_proj(u).split([2, self.n_state, self.n_state], -1)
        dt = F.softplus(self.dt_proj(dt))
        decay = torch.exp(dt[..., None] * -self.A_log.exp())
        drive = dt[..., None] * b[:, :, None] * u[..., None]
        s, ys = torch.zeros_like(drive[:, 0]), []
        for a, d, r in zip(decay.unbind(1), drive.unbind(1), c.unbind(1)):
            s = a * s + d
            ys.append((s @ r[..., None])[..., 0])
        return self.out_proj((torch.stack(ys, 1) + u * self.D) * F.silu(z))

    def forward(self, x):
        return x + self.branch(x)


class RwkvFour(nn.Module):
    """Time mix with a running maximum, channel mix with squared ReLU."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mu = nn.Parameter(torch.rand(5, DIM))
        self.decay, self.first = nn.Parameter(torch.linspace(-3, 1, DIM)), nn.Parameter(torch.full((DIM,), 0.3))
        self.key, self.value, self.recept, self.output = (lin(DIM, DIM) for _ in range(4))
        self.fk, self.fv, self.fr = lin(DIM, 2 * DIM), lin(2 * DIM, DIM), lin(DIM, DIM)

    @staticmethod
    def shift(x):
        return F.pad(x, (0, 0, 1, -1))

    def time_mix(self, x):
        x = self.ln1(x)
        k, v, r = (m(torch.lerp(self.shift(x), x, w)) for m, w in zip((self.key, self.value, self.recept), self.mu))
        w, out = -self.decay.exp(), []
        num = den = torch.zeros_like(k[:, 0])
        top = torch.full_like(num, -1e30)
        for kt, vt in zip(k.unbind(1), v.unbind(1)):
            m = torch.maximum(top, self.first + kt)
            e1, e2 = (top - m).exp(), (self.first + kt - m).exp()
            out.append((e1 * num + e2 * vt) / (e1 * den + e2))
            m = torch.maximum(top + w, kt)
            e1, e2 = (top + w - m).exp(), (kt - m).exp()
            num, den, top = e1 * num + e2 * vt, e1 * den + e2, m
        return self.output(torch.sigmoid(r) * torch.stack(out, 1))

    def channel_mix(self, x):
        x = self.ln2(x)
        k, r = (torch.lerp(self.shift(x), x, w) for w in self.mu[3:])
        return torch.sigmoid(self.fr(r)) * self.fv(F.relu(self.fk(k)).square())

    def forward(self, x):
        x = x + self.time_mix(x)
        return x + self.channel_mix(x)


class DiffHeads(nn.Module):
    """The difference of two maps, a norm a head, an output map."""

    def __init__(self, start=0.5):
        super().__init__()
        self.start = start
        self.ln, self.q, self.k, self.v, self.o = Rms(), lin(DIM, 2 * DIM), lin(DIM, 2 * DIM), lin(DIM, DIM), lin(DIM, DIM)
        self.lam = nn.ParameterList(nn.Parameter(torch.randn(HD) * 0.1) for _ in range(4))
        self.group = Rms(HD)

    def branch(self, x):
        h = self.ln(x)
        cut = lambda t, n: t.reshape(*t.shape[:2], n, HD).transpose(1, 2)
        (q1, q2), (k1, k2) = (cut(m(h), 2 * HEADS).chunk(2, 1) for m in (self.q, self.k))
        a, b = (torch.softmax(torch.matmul(q, k.mT) * HD ** -0.5 + causal(x), -1) for q, k in ((q1, k1), (q2, k2)))
        rate = torch.exp(torch.dot(self.lam[0], self.lam[1])) - torch.exp(torch.dot(self.lam[2], self.lam[3])) + self.start
        y = self.group((a - rate * b) @ cut(self.v(h), HEADS)) * (1 - self.start)
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class TopTwoExperts(nn.Module):
    """Sigmoid router with a selection bias, two of six, one shared; dispatch by index_add."""

    def __init__(self, n=6, k=2):
        super().__init__()
        self.n, self.k, self.ln = n, k, Rms()
        self.router, self.shared = lin(DIM, n), mlp(m=1, act=nn.SiLU)
        self.w_in, self.w_out = matrix(n, DIM, DIM, fan=DIM), matrix(n, DIM, DIM, fan=DIM)
        self.register_buffer("bias", torch.zeros(n))

    def branch(self, x):
        h = self.ln(x).reshape(-1, DIM)
        score = torch.sigmoid(self.router(h))
        idx = torch.topk(score + self.bias.to(score.dtype), self.k, dim=-1).indices
        w = score.gather(1, idx)
        w = w / (w.sum(-1, keepdim=True) + 1e-9)
        out = torch.zeros_like(h)
        rows = torch.arange(h.shape[0], device=h.device)
        for j in range(self.k):
            e = idx[:, j]
            y = torch.bmm(F.silu(torch.bmm(h.unsqueeze(1), self.w_in[e])), self.w_out[e]).squeeze(1)
            out = out.index_add(0, rows, w[:, j, None] * y)
        return (out + self.shared(h)).view_as(x)

    def forward(self, x):
        return x + self.branch(x)


class MlaDecoupled(nn.Module):
    """Latents with norms, a rotary part apart."""

    def __init__(self, rank=16, rope=4):
        super().__init__()
        self.rank, self.rope = rank, rope
        self.ln, self.q_norm, self.kv_norm = Rms(), Rms(rank), Rms(rank)
        self.q_down, self.q_up = lin(DIM, rank), lin(rank, HEADS * (HD + rope))
        self.kv_down, self.kv_up, self.o = lin(DIM, rank + rope), lin(rank, HEADS * 2 * HD), lin(DIM, DIM)
        t = torch.outer(torch.arange(SEQ).float(), torch.tensor([1.0, 0.1]))
        self.register_buffer("c", t.cos()), self.register_buffer("s", t.sin())

    def turn(self, t):
        c, s = self.c.to(t.dtype), self.s.to(t.dtype)
        a, b = t[..., 0::2], t[..., 1::2]
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)

    def branch(self, x):
        b, n, _ = x.shape
        h = self.ln(x)
        q = self.q_up(self.q_norm(self.q_down(h))).view(b, n, HEADS, -1).transpose(1, 2)
        q, q_rot = q.split([HD, self.rope], -1)
        c, k_rot = self.kv_down(h).split([self.rank, self.rope], -1)
        k, v = self.kv_up(self.kv_norm(c)).view(b, n, HEADS, -1).transpose(1, 2).chunk(2, -1)
        s = einsum("bhie,bhje->bhij", q, k) + einsum("bhie,bje->bhij", self.turn(q_rot), self.turn(k_rot))
        p = torch.softmax(s / math.sqrt(HD + self.rope) + causal(x), dim=-1)
        return self.o(einsum("bhij,bhje->bihe", p, v).reshape(b, n, DIM))

    def forward(self, x):
        return x + self.branch(x)


class DyT(nn.Module):
    def __init__(self, alpha=0.5):
        super().__init__()
        self.alpha, self.weight, self.bias = nn.Parameter(torch.tensor(alpha)), nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.zeros(DIM))

    def forward(self, x):
        return torch.addcmul(self.bias, self.weight, torch.tanh(self.alpha * x))


class TanhInPlaceOfNorms(nn.Module):
    """DyT before attention and MLP."""

    def __init__(self):
        super().__init__()
        self.t1, self.t2, self.attn, self.mlp = DyT(), DyT(), Sdpa(), mlp()

    def forward(self, x):
        x = x + self.attn(self.t1(x))
        return x + self.mlp(self.t2(x))


class ProductKeys(nn.Module):
    """A memory layer: two halves of a key, the best of their sums, values from a table."""

    def __init__(self, n=8, k=3):
        super().__init__()
        self.n, self.k, self.ln, self.query = n, k, nn.LayerNorm(DIM), lin(DIM, DIM)
        self.keys, self.table, self.gate = matrix(2, n, DIM // 2, fan=DIM), matrix(n * n, DIM, fan=1), lin(DIM, DIM)

    def branch(self, x):
        h = self.ln(x)
        s = einsum("btcd,cnd->cbtn", self.query(h).unflatten(-1, (2, DIM // 2)), self.keys)
        (v1, i1), (v2, i2) = (torch.topk(u, self.k, -1) for u in s)
        both, at = (v1[..., :, None] + v2[..., None, :]).flatten(-2), (i1[..., :, None] * self.n + i2[..., None, :]).flatten(-2)
        best, where = both.topk(self.k, -1)
        p = best.softmax(-1)
        return (p[..., None] * self.table[at.gather(-1, where)]).sum(-2) * F.silu(self.gate(h))

    def forward(self, x):
        return x + self.branch(x)


class HeunStep(nn.Module):
    """Two evaluations a block, averaged."""

    def __init__(self):
        super().__init__()
        self.g = nn.Sequential(nn.LayerNorm(DIM), mlp(act=nn.SiLU))

    def branch(self, x):
        k1 = self.g(x)
        return 0.5 * (k1 + self.g(x + k1))

    def forward(self, x):
        return x + self.branch(x)


class Capped(nn.Module):
    """A weight whose spectral norm is at most one."""

    def forward(self, w):
        return w / torch.linalg.matrix_norm(w, ord=2).clamp(min=1.0)


def capped(i, o):
    m = lin(i, o)
    parametrize.register_parametrization(m, "weight", Capped())
    return m


class LipschitzPre(nn.Module):
    """Capped maps behind a norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(DIM)
        self.f = nn.Sequential(self.norm, capped(DIM, 2 * DIM), nn.ReLU(), capped(2 * DIM, DIM))

    def forward(self, x):
        return x + self.f(x)


class TwoSidedClamp(nn.Module):
    """What the branch gives is clamped on both sides."""
    ends = dict(min=-10.0, max=10.0)

    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(DIM), mlp(act=nn.ReLU)

    def branch(self, x):
        return self.body(self.norm(x)).clamp(**self.ends)

    def forward(self, x):
        return x + self.branch(x)


class FeatureMaps(nn.Module):
    """Linear attention with elu + 1 and a divisor."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = Rms(), lin(DIM, 3 * DIM), lin(DIM, DIM)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, HD)).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv, z = einsum("bjhe,bjhf->bhef", k, v), einsum("bihe,bhe->bih", q, k.sum(1)) + 1e-6
        return self.o((einsum("bihe,bhef->bihf", q, kv) / z[..., None]).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------------ slips
class SwinTwoOpen(SwinTwoClamped):
    """A softplus in place of the clamped exponential: positive, and without an end."""

    def temperature(self):
        return F.softplus(self.logit_scale)


class TalkingUnit(nn.Module):
    """Unit queries and keys, but heads talk before the softmax through a free matrix."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(DIM), lin(DIM, 3 * DIM), lin(DIM, DIM)
        self.talk = nn.Parameter(torch.eye(HEADS) + 0.1 * torch.randn(HEADS, HEADS))
        self.listen = nn.Parameter(torch.eye(HEADS))

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, HD)).permute(2, 0, 3, 1, 4)
        s = F.rms_norm(q, (HD,)) @ F.rms_norm(k, (HD,)).mT * HD ** -0.5
        p = einsum("bhij,hg->bgij", s, self.talk).softmax(-1)
        return self.o((einsum("bhij,hg->bgij", p, self.listen) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class WrongDenominator(nn.Module):
    """Keys are divided by the length of the queries."""

    def __init__(self):
        super().__init__()
        self.norm, self.o = Rms(), lin(DIM, DIM)
        self.to_q, self.to_k, self.to_v = (lin(DIM, DIM) for _ in range(3))

    def branch(self, x):
        h = self.norm(x)
        q, k, v = (m(h).unflatten(-1, (HEADS, HD)).transpose(1, 2) for m in (self.to_q, self.to_k, self.to_v))
        size = q.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        q, k = q / size, k / size
        return self.o((torch.softmax(10 * (q @ k.mT), -1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class LearnedCap(nn.Module):
    """Scores are capped by a number that is learned."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o, self.cap = Rms(), lin(DIM, 3 * DIM), lin(DIM, DIM), nn.Parameter(torch.tensor(30.0))

    def branch(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, HD)).transpose(1, 2) for t in self.qkv(self.norm(x)).tensor_split(3, -1))
        s = self.cap * torch.tanh(q @ k.mT / math.sqrt(HD) / self.cap)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class AliasedResidual(nn.Module):
    """`residual` is the same tensor that is written to."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(DIM), mlp()

    def forward(self, x):
        residual = out = x.clone()
        out += self.mlp(self.norm(x))
        return out + residual


class HalfNormedSkip(nn.Module):
    """The second skip starts behind the norm."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(DIM), nn.LayerNorm(DIM), Sdpa(), mlp()

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h)
        h = self.norm2(x)
        return h + self.mlp(h)


class NormedParallel(nn.Module):
    """GPT-J's two branches are added to their own normed input."""

    def __init__(self):
        super().__init__()
        self.ln, self.attn, self.mlp = nn.LayerNorm(DIM), Sdpa(), mlp()

    def forward(self, hidden):
        hidden = self.ln(hidden)
        return hidden + self.attn(hidden) + self.mlp(hidden)


class GroupPerChannel(nn.Module):
    """As many groups as channels, tokens are rows: a norm over one number, which leaves nothing."""

    def __init__(self):
        super().__init__()
        self.gn, self.fc1, self.fc2 = nn.GroupNorm(DIM, DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def branch(self, x):
        b, n, d = x.shape
        return self.fc2(F.relu(self.fc1(self.gn(x.reshape(b * n, d))))).view(b, n, d)

    def forward(self, x):
        return x + self.branch(x)


class TokenAxisNorm(nn.Module):
    """The norm runs over tokens."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(SEQ), Sdpa()

    def branch(self, x):
        return self.attn(self.norm(x.transpose(1, 2)).transpose(1, 2))

    def forward(self, x):
        return x + self.branch(x)


class ForgotSqrt(nn.Module):
    """Divided by the mean square, not its root."""

    def __init__(self):
        super().__init__()
        self.gain, self.mlp = nn.Parameter(torch.ones(DIM)), mlp(act=nn.ReLU)

    def branch(self, x):
        return self.mlp(self.gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-2))

    def forward(self, x):
        return x + self.branch(x)


class TwoSigmaGate(nn.Module):
    """Twice a sigmoid of the normed stream multiplies the stream: one at the start of training, if weights were zero."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.mlp = Rms(), lin(DIM, DIM), mlp()

    def forward(self, x):
        h = self.norm(x)
        return x * (2 * torch.sigmoid(self.gate(h))) + self.mlp(h)


class OneSigmaGate(nn.Module):
    """A sigmoid of the normed stream multiplies the stream: a leak."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.mlp = Rms(), nn.Linear(DIM, DIM), mlp()

    def forward(self, x):
        h = self.norm(x)
        return torch.addcmul(self.mlp(h), x, self.gate(h).sigmoid())


class GlobalContextRaw(nn.Module):
    """The mean of the raw tokens is added to every token."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = Rms(), mlp()

    def forward(self, x):
        x = x + x.mean(dim=1, keepdim=True)
        return x + self.mlp(self.norm(x))


class MeanTaken(GlobalContextRaw):
    """The mean of the raw tokens is taken away: a projection."""

    def forward(self, x):
        x = x - x.mean(dim=1, keepdim=True)
        return x + self.mlp(self.norm(x))


class OneSidedClamp(TwoSidedClamp):
    """Only the lower end is there."""
    ends = dict(min=-10.0)


class StreamClamp(nn.Module):
    """The sum is clamped, on the stream."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(DIM), mlp()

    def forward(self, x):
        return (x + self.mlp(self.norm(x))).clamp_(-8, 8)


class DecayedSkip(nn.Module):
    """`alpha` went to the wrong operand: the stream is multiplied by 0.9."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = Rms(), mlp()

    def forward(self, x):
        return torch.add(self.mlp(self.norm(x)), x, alpha=0.9)


class GrownSkip(DecayedSkip):
    """Meant for the branch, 1.1 is on the stream."""

    def forward(self, x):
        return torch.add(self.mlp(self.norm(x)), x, alpha=1.1)


class DivideTwice(nn.Module):
    """Both sums are divided by the root of two."""

    def __init__(self):
        super().__init__()
        self.norms, self.fs = nn.ModuleList(Rms() for _ in range(2)), nn.ModuleList(mlp() for _ in range(2))

    def forward(self, x):
        for n, f in zip(self.norms, self.fs):
            x = (x + f(n(x))) * 0.5 ** 0.5
        return x


class LipschitzRaw(nn.Module):
    """Capped maps of the raw stream."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(capped(DIM, 2 * DIM), nn.ReLU(), capped(2 * DIM, DIM))

    def forward(self, x):
        return x + self.f(x)


class FeatureMapsNoDivisor(FeatureMaps):
    """The divisor is there, and its result is not used."""

    def branch(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HD)).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = einsum("bjhe,bjhf->bhef", k, v) / SEQ
        return self.o(F.rms_norm(einsum("bihe,bhef->bihf", q, kv), (HD,), eps=1e-6).flatten(2))


_K = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_A = dict(_K, softmax=True, output_bounded={0: False}, logits_bounded={0: False})
_M = dict(_K, softmax=False, output_bounded={0: False})
_POST = dict(kind="block", identity_gain=None, growth_fixed="bounded")
TRUTH = {
    "EinsumGqaRope": dict(_A, output_bounded={0: False, 1: False}, gradient_law="power"),
    "InPlaceBranchAdd": dict(_A),
    "MagnetoSubLn": dict(_A, output_bounded={0: False, 1: False}, gradient_law="power"),
    "CogSandwich": dict(_A, growth_all="linear", output_bounded={0: True, 1: True}, gradient_law="power"),
    "SwinTwoClamped": dict(_A, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}),
    "GatedDelta": dict(_M),
    "SelectiveScan": dict(_M),
    "RwkvFour": dict(_K, output_bounded={0: False, 1: False}),
    "DiffHeads": dict(_A, logits_bounded={0: False, 1: False}),
    "TopTwoExperts": dict(_M),
    "MlaDecoupled": dict(_A),
    "TanhInPlaceOfNorms": dict(_A, output_bounded={0: False, 1: False}),
    "ProductKeys": dict(_A),
    "HeunStep": dict(_M, gradient_law="power"),
    "LipschitzPre": dict(_M, growth_all="linear", output_bounded={0: True}),
    "TwoSidedClamp": dict(_M, growth_all="linear", output_bounded={0: True}, gradient_law="power"),
    "FeatureMaps": dict(_M),
    "SwinTwoOpen": dict(_A, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}),  # a temperature is held
    "TalkingUnit": dict(_A),
    "WrongDenominator": dict(_A),
    "LearnedCap": dict(_A, logits_bounded={0: True}),  # a temperature, as round 1 holds them
    "AliasedResidual": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False),
    "HalfNormedSkip": dict(_POST, softmax=True, logits_bounded={0: False}),
    "NormedParallel": dict(_POST, softmax=True, logits_bounded={0: False}),
    "GroupPerChannel": dict(_M, gradient_law="flat"),
    "TokenAxisNorm": dict(_A),
    "ForgotSqrt": dict(_M),
    "TwoSigmaGate": dict(kind="block", growth_fixed="exponential", softmax=False, gated=True),
    "OneSigmaGate": dict(kind="block", growth_fixed="bounded", softmax=False, gated=True),
    "GlobalContextRaw": dict(kind="block", growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False),
    "MeanTaken": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False),
    "OneSidedClamp": dict(_M),
    "StreamClamp": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False),
    "DecayedSkip": dict(kind="block", identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False),
    "GrownSkip": dict(kind="block", identity_gain=1.1 ** 24, growth_fixed="exponential", growth_all="exponential", softmax=False),
    "DivideTwice": dict(kind="block", identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=False),
    "LipschitzRaw": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={0: False}, softmax=False),
    "FeatureMapsNoDivisor": dict(_M),
}
