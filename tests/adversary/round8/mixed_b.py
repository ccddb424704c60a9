"""Attention, recurrences and experts in the form in which research code has them; and slips in them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def l2norm(t):
    return F.normalize(t, dim=-1)


def causal(device):
    return torch.ones(T, T, dtype=torch.bool, device=device).triu(1)


class RMSNorm(nn.Module):
    """In 32 bits, as in the models of Meta."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.gain = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.gain


# ---- queries, keys and their scores
class Vit22b(nn.Module):
    """Attention and feed-forward layer of one normed input, their maps fused; queries and keys are normed per head."""

    def __init__(self, mlp=64):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D), mlp
        self.fused_in = nn.Linear(D, 3 * D + mlp, bias=False)
        self.norm_q, self.norm_k = nn.LayerNorm(E, bias=False), nn.LayerNorm(E, bias=False)
        self.attn_out, self.mlp_out = nn.Linear(D, D, bias=False), nn.Linear(mlp, D)

    def branch(self, x):
        qkv, hidden = self.fused_in(self.norm(x)).split([3 * D, self.mlp], dim=-1)
        q, k, v = qkv.view(*x.shape[:2], 3, H, E).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.norm_q(q), self.norm_k(k), v)
        return self.attn_out(y.transpose(1, 2).reshape(x.shape)) + self.mlp_out(F.gelu(hidden, approximate="tanh"))

    def forward(self, x):
        return x + self.branch(x)


class FluxSingle(nn.Module):
    """One map out of attention and hidden units side by side; a gate of trained numbers. By slip queries and values are normed."""

    def __init__(self, ratio=2):
        super().__init__()
        self.pre_norm = nn.LayerNorm(D, elementwise_affine=False, eps=1e-6)
        self.linear1, self.linear2 = nn.Linear(D, (3 + ratio) * D), nn.Linear((1 + ratio) * D, D)
        self.query_norm, self.key_norm = RMSNorm(E), RMSNorm(E)
        self.shift, self.scale, self.gate = (nn.Parameter(0.02 * torch.randn(D)) for _ in range(3))
        self.hidden = ratio * D

    def branch(self, x):
        h = (1 + self.scale) * self.pre_norm(x) + self.shift
        qkv, mlp = torch.split(self.linear1(h), [3 * D, self.hidden], dim=-1)
        q, k, v = qkv.reshape(x.shape[0], T, 3, H, E).permute(2, 0, 3, 1, 4).unbind(0)
        q, v = self.query_norm(q), self.key_norm(v)
        attn = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.gate * self.linear2(torch.cat((attn, F.gelu(mlp)), 2))

    def forward(self, x):
        return x + self.branch(x)


class SsMax(nn.Module):
    """Scores of QK-norm times tau log n, where tau is trained per head and clamped to two."""

    def __init__(self):
        super().__init__()
        self.norm, self.q_norm, self.k_norm = RMSNorm(D), RMSNorm(E), RMSNorm(E)
        self.wq, self.wkv, self.wo = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)
        self.tau = nn.Parameter(torch.ones(H, 1, 1))

    def temperature(self, n):
        return self.tau.clamp(-2.0, 2.0) * math.log(n)

    def branch(self, x):
        b, n, _ = x.shape
        h = self.norm(x)
        k, v = self.wkv(h).view(b, n, 2, H, E).permute(2, 0, 3, 1, 4)
        q = self.q_norm(self.wq(h).view(b, n, H, E).transpose(1, 2))
        scores = torch.einsum("bhid,bhjd->bhij", q, self.k_norm(k)) * E ** -0.5 * self.temperature(n)
        scores.masked_fill_(causal(x.device), float("-inf"))
        return self.wo(torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v).reshape(b, n, D))

    def forward(self, x):
        return x + self.branch(x)


class SsMaxFree(SsMax):
    """The clamp has a lower end only."""

    def temperature(self, n):
        return self.tau.clamp(min=-2.0) * math.log(n)


class NullKeys(nn.Module):
    """A learned null key joins the keys in front of their norm; cosines times 8."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_q, self.to_kv, self.to_out = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)
        self.null_kv = nn.Parameter(torch.randn(2, E))

    def keys(self, k, null):
        return l2norm(torch.cat((null, k), dim=-2))

    def branch(self, x):
        b = x.shape[0]
        h = self.norm(x)
        q, k, v = (t.reshape(b, T, H, E).transpose(1, 2) for t in (self.to_q(h), *self.to_kv(h).chunk(2, dim=-1)))
        nk, nv = (t.view(1, 1, 1, E).expand(b, H, 1, E) for t in self.null_kv.unbind(0))
        sim = torch.einsum("b h i d, b h j d -> b h i j", 8.0 * l2norm(q), self.keys(k, nk))
        out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), torch.cat((nv, v), dim=-2))
        return self.to_out(out.transpose(1, 2).reshape(b, T, D))

    def forward(self, x):
        return x + self.branch(x)


class NullKeysLate(NullKeys):
    """... behind it."""

    def keys(self, k, null):
        return torch.cat((null, l2norm(k)), dim=-2)


class SelectiveAttention(nn.Module):
    """What head 0 scores above 0 is summed over the queries so far and taken off the scores of all heads; QK-norm."""

    def __init__(self, normed=True):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.qn, self.kn = (nn.RMSNorm(E) if normed else nn.Identity() for _ in range(2))

    def branch(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, H, E).permute(2, 0, 3, 1, 4)
        logits = (self.qn(q) @ self.kn(k).transpose(-2, -1)) / math.sqrt(E)
        mask = causal(x.device)
        s = F.relu(logits[:, 0].masked_fill(mask, 0.0))
        s = torch.cumsum(s.roll(1, 1) * (1 - torch.eye(n, device=x.device)), dim=1)
        logits = (logits - s[:, None]).masked_fill(mask, float("-inf"))
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(b, n, D))

    def forward(self, x):
        return x + self.branch(x)


class SelectiveRaw(SelectiveAttention):
    """Without QK-norm."""

    def __init__(self):
        super().__init__(normed=False)


class ContextualPositions(nn.Module):
    """CoPE: positions count sigmoid gates from the right, and read a trained table at fractions; QK-norm beside it."""

    def __init__(self, npos=8):
        super().__init__()
        self.norm, self.qkv, self.proj, self.npos = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D), npos
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)
        self.pos_emb = nn.Parameter(torch.randn(1, E, npos) * 0.1)

    def branch(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, H, E).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        logits = q @ k.mT * E ** -0.5
        gates = torch.sigmoid(logits)
        pos = gates.flip(-1).cumsum(dim=-1).flip(-1).clamp(max=self.npos - 1)
        ceil, floor = pos.ceil().long(), pos.floor().long()
        table = torch.matmul(q, self.pos_emb)
        w = pos - floor
        logits = logits + table.gather(-1, ceil) * w + table.gather(-1, floor) * (1 - w)
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(b, n, D))

    def forward(self, x):
        return x + self.branch(x)


class MultiToken(nn.Module):
    """Scores of QK-norm go through a small convolution over queries and keys before the softmax."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)
        self.conv = nn.Conv2d(H, H, (3, 5), padding=(1, 2), groups=H, bias=False)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4)
        scores = self.conv(self.q_norm(q) @ self.k_norm(k).mT / E ** 0.5)
        return self.proj((F.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class TensorProduct(nn.Module):
    """TPA: queries, keys and values are means of two outer products of factors; QK-norm per head."""

    def __init__(self, rank=2):
        super().__init__()
        self.norm, self.rank = nn.LayerNorm(D), rank
        self.a = nn.ModuleList(nn.Linear(D, rank * H, bias=False) for _ in range(3))
        self.b = nn.ModuleList(nn.Linear(D, rank * E, bias=False) for _ in range(3))
        self.o = nn.Linear(D, D, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)

    def branch(self, x):
        h = self.norm(x)
        parts = []
        for a, b in zip(self.a, self.b):
            left, right = a(h).view(-1, T, self.rank, H), b(h).view(-1, T, self.rank, E)
            parts.append(torch.einsum("btrh,btre->bhte", left, right).div(self.rank))
        q, k, v = parts
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        return x + self.branch(x)


class SigmoidHybrid(nn.Module):
    """Sigmoid attention with the bias -log n, a norm on its output."""

    def __init__(self):
        super().__init__()
        self.norm, self.out_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4)
        attn = torch.sigmoid(q @ k.transpose(-1, -2) * E ** -0.5 - math.log(T))
        return self.out_norm(self.proj((attn @ v).transpose(1, 2).flatten(2)))

    def forward(self, x):
        return x + self.branch(x)


class HeadScale(nn.Module):
    """NormFormer: heads are scaled by trained numbers, a norm follows; in the feed-forward layer the norm is in the middle."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.ln3, self.ln4 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(2 * D)
        self.qkv, self.proj, self.head_scale = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Parameter(torch.ones(H))
        self.fc1, self.fc2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def attention(self, x):
        q, k, v = self.qkv(self.ln1(x)).view(-1, T, 3, H, E).permute(2, 0, 3, 1, 4)
        y = torch.einsum("bhtd,h->bthd", F.scaled_dot_product_attention(q, k, v), self.head_scale)
        return self.ln2(self.proj(y.reshape(x.shape)))

    def mlp(self, x):
        return self.fc2(self.ln4(F.relu(self.fc1(self.ln3(x)))))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


class CapThenMask(nn.Module):
    """Gemma: scores are capped at 50, then masked."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = RMSNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)

    def weights(self, w, mask):
        w = w / 50.0
        w = torch.tanh(w)
        w = w * 50.0
        return torch.where(mask, torch.finfo(w.dtype).min, w)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4)
        w = self.weights(torch.matmul(q, k.transpose(2, 3)) * E ** -0.5, causal(x.device))
        w = F.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.proj(torch.matmul(w, v).transpose(1, 2).contiguous().reshape(x.shape))

    def forward(self, x):
        return x + self.branch(x)


class CapLost(CapThenMask):
    """The masked scores are made of what was there before the cap."""

    def weights(self, w, mask):
        capped = torch.tanh(w / 50.0) * 50.0
        return torch.where(mask, capped - 1e4, w)


class Synthesizer(nn.Module):
    """Attention weights are a softmax of a trained table; the values are normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.v, self.o = nn.LayerNorm(D), nn.Linear(D, D), nn.Linear(D, D)
        self.table = nn.Parameter(0.02 * torch.randn(H, T, T))

    def branch(self, x):
        v = self.v(self.norm(x)).unflatten(-1, (H, E)).transpose(1, 2)
        return self.o((self.table.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class LocallyEnhanced(nn.Module):
    """A depthwise convolution of the values is added to attention; queries and keys are raw."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.lepe = nn.Conv1d(D, D, 3, padding=1, groups=D)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        local = self.lepe(v.transpose(1, 2)).transpose(1, 2)
        heads = lambda t: t.reshape(-1, T, H, E).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v)).transpose(1, 2).flatten(2)
        return self.proj(y + local)

    def forward(self, x):
        return x + self.branch(x)


# ---- kernels and recurrences
class ReluLinear(nn.Module):
    """EfficientViT: relu features, and a column of ones on the values for the sums of the rows."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4)
        q, k, v = F.relu(q), F.relu(k), F.pad(v, (0, 1), value=1.0)
        out = q @ (k.transpose(-1, -2) @ v)
        out = out[..., :-1] / (out[..., -1:] + 1e-6)
        return x + self.proj(out.transpose(1, 2).flatten(2))


class TaylorLinear(nn.Module):
    """Based: the second-order expansion of the exponential as a kernel, rows divided by their sums."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = nn.LayerNorm(D), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (m(h).unflatten(-1, (H, E)).transpose(1, 2) for m in (self.q, self.k, self.v))
        s = q @ k.mT / math.sqrt(E)
        a = (1 + s + 0.5 * s ** 2).tril()
        y = (a @ v) / a.sum(-1, keepdim=True)
        return x + self.o(y.transpose(1, 2).flatten(2))


class Performer(nn.Module):
    """Positive random features of a fixed projection."""

    def __init__(self, features=16):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.register_buffer("projection_matrix", torch.randn(features, E))

    def kernel(self, u, is_query):
        u = u * E ** -0.25
        dash = torch.einsum("...id,jd->...ij", u, self.projection_matrix)
        diag = (u ** 2).sum(-1, keepdim=True) / 2
        top = dash.amax(dim=-1, keepdim=True) if is_query else dash.amax(dim=(-1, -2), keepdim=True)
        return torch.exp(dash - diag - top.detach()) + 1e-4

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, H, E)).permute(2, 0, 3, 1, 4)
        q, k = self.kernel(q, True), self.kernel(k, False)
        d_inv = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
        context = torch.einsum("...nd,...ne->...de", k, v)
        out = torch.einsum("...de,...nd,...n->...ne", context, q, d_inv)
        return x + self.proj(out.transpose(1, 2).flatten(2))


class DeltaRule(nn.Module):
    """A state per head is rewritten token by token: unit keys, a writing strength from 0 to 1."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.beta, self.o = nn.RMSNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, H), nn.Linear(D, D, bias=False)
        self.o_norm = nn.RMSNorm(E)

    def strength(self, h):
        return self.beta(h).sigmoid()

    def branch(self, x):
        b, n, _ = x.shape
        h = self.norm(x)
        q, k, v = self.qkv(h).view(b, n, 3, H, E).unbind(2)
        q, k, beta = l2norm(F.silu(q)), l2norm(F.silu(k)), self.strength(h).unsqueeze(-1)
        state, outs = x.new_zeros(b, H, E, E), []
        for t in range(n):
            old = torch.einsum("bhkv,bhk->bhv", state, k[:, t])
            state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t] * (v[:, t] - old))
            outs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
        return self.o(self.o_norm(torch.stack(outs, dim=1)).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class GatedLinear(nn.Module):
    """GLA in its parallel form: log-sigmoid gates over sixteen, their running sum in the exponents; norm and swish gate behind."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.g, self.o = nn.RMSNorm(D), *(nn.Linear(D, D, bias=False) for _ in range(5))
        self.gk, self.g_norm = nn.Sequential(nn.Linear(D, 4, bias=False), nn.Linear(4, D)), nn.RMSNorm(E)

    def branch(self, x):
        h = self.norm(x)
        q, k, v, gk = (m(h).unflatten(-1, (H, E)).transpose(1, 2) for m in (self.q, self.k, self.v, self.gk))
        c = (F.logsigmoid(gk) / 16).cumsum(dim=2)
        a = ((q * E ** -0.5 * c.exp()) @ (k * (-c).exp()).mT).tril()
        y = self.g_norm(a @ v).transpose(1, 2).flatten(2)
        return self.o(y * F.silu(self.g(h)))

    def forward(self, x):
        return x + self.branch(x)


class StateSpaceDual(nn.Module):
    """Mamba-2 in its quadratic form: a short convolution, softplus steps, exponentials of segment sums, gated norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.in_proj, self.out_proj = nn.Linear(D, 2 * D + 2 * E + H, bias=False), nn.Linear(D, D, bias=False)
        self.conv1d = nn.Conv1d(D + 2 * E, D + 2 * E, 4, groups=D + 2 * E, padding=3)
        self.dt_bias, self.A_log, self.D = nn.Parameter(torch.rand(H)), nn.Parameter(torch.arange(1.0, H + 1).log()), nn.Parameter(torch.ones(H))
        self.gated_norm = nn.RMSNorm(D)

    @staticmethod
    def segsum(x):
        c = x.cumsum(-1)
        return (c.unsqueeze(-1) - c.unsqueeze(-2)).masked_fill(causal(x.device), -torch.inf)

    def branch(self, u):
        z, xbc, dt = torch.split(self.in_proj(self.norm(u)), [D, D + 2 * E, H], dim=-1)
        dt = F.softplus(dt + self.dt_bias)
        xbc = F.silu(self.conv1d(xbc.transpose(1, 2)).transpose(1, 2)[:, :T])
        x, b, c = torch.split(xbc, [D, E, E], dim=-1)
        x = x.unflatten(-1, (H, -1))
        decay = torch.exp(self.segsum((-torch.exp(self.A_log) * dt).transpose(1, 2)))
        y = torch.einsum("bin,bjn,bhij,bjhp->bihp", c, b, decay, x * dt.unsqueeze(-1)) + x * self.D.unsqueeze(-1)
        return self.out_proj(self.gated_norm(y.flatten(2) * F.silu(z)))

    def forward(self, u):
        return u + self.branch(u)


class MinGru(nn.Module):
    """minGRU by a scan in log space; no norm behind it."""

    def __init__(self):
        super().__init__()
        self.norm, self.to_hidden_and_gate = nn.RMSNorm(D), nn.Linear(D, 2 * D, bias=False)

    @staticmethod
    def g(x):
        return torch.where(x >= 0, x + 0.5, x.sigmoid())

    def forward(self, x):
        hidden, gate = self.to_hidden_and_gate(self.norm(x)).chunk(2, dim=-1)
        log_coeffs, log_values = -F.softplus(gate), -F.softplus(-gate) + self.g(hidden).log()
        a_star = log_coeffs.cumsum(dim=1)
        log_h = a_star + (log_values - a_star).logcumsumexp(dim=1)
        return x + log_h.exp()


class Qrnn(nn.Module):
    """Forget gates over tanh values, token by token, an output gate behind; the raw stream is read."""

    def __init__(self):
        super().__init__()
        self.zfo = nn.Conv1d(D, 3 * D, 2)

    def branch(self, x):
        z, f, o = self.zfo(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2).chunk(3, dim=-1)
        z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
        c, outs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            c = f[:, t] * c + (1 - f[:, t]) * z[:, t]
            outs.append(o[:, t] * c)
        return torch.stack(outs, 1)

    def forward(self, x):
        return x + self.branch(x)


class QrnnInput(Qrnn):
    """The input gate is a sigmoid of its own, and the values have no tanh."""

    def branch(self, x):
        z, f, o = self.zfo(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2).chunk(3, dim=-1)
        f, o = f.sigmoid(), o.sigmoid()
        c, outs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            c = f[:, t] * c + (1 - f[:, t]) * z[:, t]
            outs.append(o[:, t] * c)
        return torch.stack(outs, 1)


class Hyena(nn.Module):
    """Order two: a short convolution, a gate, a long convolution by FFT whose filter is a small network of the positions, a gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.in_proj, self.out_proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.short = nn.Conv1d(3 * D, 3 * D, 3, padding=2, groups=3 * D)
        self.filter = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, D))
        t = torch.linspace(0, 1, T)[:, None]
        self.register_buffer("z", torch.cat((t, torch.cos(6.28 * t * torch.arange(1, 5))), -1))
        self.register_buffer("window", torch.exp(-t * torch.linspace(1.0, 8.0, D)))

    def branch(self, x):
        u = self.short(self.in_proj(self.norm(x)).mT)[..., :T]
        v, x1, x2 = u.chunk(3, dim=1)
        k = (self.filter(self.z) * self.window).mT
        y = torch.fft.irfft(torch.fft.rfft(v * x1, n=2 * T) * torch.fft.rfft(k, n=2 * T), n=2 * T)[..., :T]
        return self.out_proj((y * x2).mT)

    def forward(self, x):
        return x + self.branch(x)


class GlobalFilter(nn.Module):
    """GFNet: Fourier coefficients along the tokens times trained complex numbers, then a feed-forward layer; one skip."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.complex_weight = nn.Parameter(torch.randn(T // 2 + 1, D, 2) * 0.2)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def filter(self, x):
        z = torch.fft.rfft(x, dim=1, norm="ortho") * torch.view_as_complex(self.complex_weight)
        return torch.fft.irfft(z, n=T, dim=1, norm="ortho")

    def branch(self, x):
        return self.mlp(self.norm2(self.filter(self.norm1(x))))

    def forward(self, x):
        return x + self.branch(x)


# ---- experts
class Experts(nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.w1, self.w2 = (nn.Parameter(torch.randn(count, D, D) / D ** 0.5) for _ in range(2))

    def forward(self, h):
        return torch.einsum("tef,efd->ted", torch.einsum("td,edf->tef", h, self.w1).relu(), self.w2)


class NullExpert(nn.Module):
    """A softmax over five, the fifth of which gives nothing; top two."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(D), nn.Linear(D, 5, bias=False), Experts()

    def branch(self, x):
        h = self.norm(x).flatten(0, 1)
        p = self.router(h).softmax(dim=-1)
        top, index = p.topk(2, dim=-1)
        w = torch.zeros_like(p).scatter_(-1, index, top)[:, :4]
        return torch.einsum("te,ted->td", w, self.experts(h)).view_as(x)

    def forward(self, x):
        return x + self.branch(x)


class CopyExpert(nn.Module):
    """... the fifth of which gives back the token as it came in, without its norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(D), nn.Linear(D, 5, bias=False), Experts()

    def source(self, x, h):
        return x

    def branch(self, x):
        h = self.norm(x)
        p = self.router(h).softmax(dim=-1)
        flat = h.view(-1, D)
        y = torch.einsum("te,ted->td", p.view(-1, 5)[:, :4], self.experts(flat)).view_as(x)
        return y + p[..., 4:] * self.source(x, h)

    def forward(self, x):
        return x + self.branch(x)


class CopyExpertNormed(CopyExpert):
    """... as it is behind the norm."""

    def source(self, x, h):
        return h


class DeepSeekRouter(nn.Module):
    """Sigmoid scores, chosen with a bias that is no weight, divided by their sum, times 2.5; a shared expert beside."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.experts = nn.RMSNorm(D), nn.Linear(D, 4, bias=False), Experts()
        self.shared = nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, D))
        self.register_buffer("e_score_correction_bias", torch.zeros(4))

    def branch(self, x):
        h = self.norm(x).view(-1, D)
        scores = self.gate(h).sigmoid()
        index = torch.topk(scores + self.e_score_correction_bias, k=2, dim=-1, sorted=False)[1]
        weights = scores.gather(1, index)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * 2.5
        full = torch.zeros_like(scores).scatter(1, index, weights)
        return (torch.einsum("te,ted->td", full, self.experts(h)) + self.shared(h)).view_as(x)

    def forward(self, x):
        return x + self.branch(x)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_SOFT = dict(_PRE, output_bounded={"0": False}, softmax=True)
_YES = dict(_SOFT, logits_bounded={"0": True})
_NO = dict(_SOFT, logits_bounded={"0": False})

TRUTH = {
    "Vit22b": dict(_YES, why="QK-norm without biases.", tempts="fused maps"),
    "FluxSingle": dict(_NO, why="keys are raw.", tempts="query_norm and key_norm"),
    "SsMax": dict(_YES, why="at most 2 log 16 times a bounded product.", tempts="a trained temperature"),
    "SsMaxFree": dict(_YES, why="a temperature is held, as the gains of norms are.", tempts="no upper end"),
    "NullKeys": dict(_YES, why="cosines with a null key, too.", tempts="a trained key"),
    "NullKeysLate": dict(_NO, why="the null key is of any length.", tempts="cosines"),
    "SelectiveAttention": dict(_YES, why="sixteen bounded terms.", tempts="a sum over queries of scores"),
    "SelectiveRaw": dict(_NO, why="raw scores.", tempts="-"),
    "ContextualPositions": dict(_NO, why="a trained table is multiplied by the queries.", tempts="QK-norm, gates"),
    "MultiToken": dict(_NO, why="a trained filter on the scores.", tempts="QK-norm"),
    "TensorProduct": dict(_YES, why="what is normed is of any make.", tempts="outer products"),
    "SigmoidHybrid": dict(_PRE, growth_all="linear", output_bounded={"0": True}, softmax=False, why="it ends in a norm.", tempts="weights whose rows do not sum to one"),
    "HeadScale": dict(_PRE, output_bounded={"0": True, "1": False}, logits_bounded={"0": False}, softmax=True, why="a norm ends the first, a map the second.", tempts="two norms in both"),
    "CapThenMask": dict(_YES, why="50.", tempts="a mask of the least number"),
    "CapLost": dict(_NO, why="open entries are raw.", tempts="a softcap"),
    "Synthesizer": dict(_NO, why="a free table.", tempts="no queries: constants"),
    "LocallyEnhanced": dict(_NO, why="raw queries and keys.", tempts="-"),
    "ReluLinear": dict(_PRE, softmax=False, why="rows of shares of at most one.", tempts="a divisor that may be 0"),
    "TaylorLinear": dict(_PRE, softmax=False, why="1 + s + s^2/2 is at least one half.", tempts="a divisor that may be 0; degree four"),
    "Performer": dict(_PRE, why="positive kernels, rows divided by their sums.", tempts="exponentials of anything"),
    "DeltaRule": dict(_PRE, output_bounded={"0": False}, softmax=False, why="I - b k k' is a contraction; a norm and a free map end it.", tempts="a product of sixteen states"),
    "GatedLinear": dict(_PRE, output_bounded={"0": False}, softmax=False, why="normed, gated, mapped.", tempts="exponentials of running sums"),
    "StateSpaceDual": dict(_PRE, output_bounded={"0": False}, softmax=False, why="normed and mapped.", tempts="exponentials"),
    "MinGru": dict(_PRE, softmax=False, why="a convex mean of what is made of the normed stream.", tempts="an exponential at the end"),
    "Qrnn": dict(_PRE, growth_all="linear", output_bounded={"0": True}, softmax=False, why="a convex mean of tanh.", tempts="no norm: exponential"),
    "QrnnInput": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False}, softmax=False, why="degree one.", tempts="convex: bounded"),
    "Hyena": dict(_PRE, output_bounded={"0": False}, softmax=False, why="products of three normed things.", tempts="-"),
    "GlobalFilter": dict(_PRE, output_bounded={"0": False}, softmax=False, why="-", tempts="complex weights"),
    "NullExpert": dict(_NO, why="raw router.", tempts="shares below one"),
    "CopyExpert": dict(kind="block", growth_fixed="exponential", output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="a fifth of the token on top of the token.", tempts="a norm in front: linear, gain 1"),
    "CopyExpertNormed": dict(_NO, why="-", tempts="its twin"),
    "DeepSeekRouter": dict(_PRE, output_bounded={"0": False}, softmax=False, why="shares sum to 2.5.", tempts="a divisor that may be 0"),
}
