"""Production style blocks: nothing is meant to surprise here, apart from a few lines that look worse than they are."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.gain = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        kind = x.dtype
        x = x if kind == torch.float64 else x.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.gain * x.to(kind)


class Conv1D(nn.Module):
    """The transposed linear map of GPT-2."""

    def __init__(self, n_out, n_in):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))
        nn.init.normal_(self.weight, std=n_in ** -0.5)

    def forward(self, x):
        size = x.shape[:-1] + (self.bias.shape[0],)
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(size)


class GPT2Block(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(D, eps=1e-5), nn.LayerNorm(D, eps=1e-5)
        self.c_attn, self.c_proj = Conv1D(3 * D, D), Conv1D(D, D)
        self.c_fc, self.c_out = Conv1D(4 * D, D), Conv1D(D, 4 * D)
        self.register_buffer("bias", torch.tril(torch.ones(64, 64, dtype=torch.bool)).view(1, 1, 64, 64), persistent=False)
        self.drop = nn.Dropout(0.0)

    def attn(self, x):
        q, k, v = self.c_attn(x).split(D, dim=2)
        q, k, v = (t.view(*t.shape[:2], self.heads, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        w = torch.matmul(q, k.transpose(-1, -2)) / v.size(-1) ** 0.5
        n = w.shape[-1]
        w = torch.where(self.bias[:, :, :n, :n], w, torch.full([], float("-inf"), dtype=w.dtype, device=w.device))
        a = self.drop(F.softmax(w, dim=-1)) @ v
        return self.c_proj(a.permute(0, 2, 1, 3).contiguous().flatten(2))

    def mlp(self, x):
        return self.drop(self.c_out(F.gelu(self.c_fc(x), approximate="tanh")))

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.attn(self.ln_1(hidden_states)) + residual
        residual = hidden_states
        return residual + self.mlp(self.ln_2(hidden_states))


class SelfAttention(nn.Module):
    """Rotary grouped-query attention with the usual options."""

    def __init__(self, heads=4, kv=2, qk_norm=None, cap=None, bias=False, causal=True):
        super().__init__()
        self.h, self.kv, self.e, self.cap, self.causal = heads, kv, D // heads, cap, causal
        self.q_proj = nn.Linear(D, D, bias=bias)
        self.k_proj, self.v_proj = (nn.Linear(D, kv * self.e, bias=bias) for _ in range(2))
        self.o_proj = nn.Linear(D, D, bias=False)
        self.kind = qk_norm
        if qk_norm == "head":
            self.q_norm, self.k_norm = RMSNorm(self.e), RMSNorm(self.e)
        elif qk_norm == "full":
            self.q_norm, self.k_norm = RMSNorm(D), RMSNorm(kv * self.e)

    @staticmethod
    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if self.kind == "full":
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (s.view(b, t, -1, self.e).transpose(1, 2) for s in (q, k, v))
        if self.kind == "head":
            q, k = self.q_norm(q), self.k_norm(k)
        inv = 10000.0 ** (-torch.arange(0, self.e, 2, device=x.device, dtype=x.dtype) / self.e)
        angle = torch.arange(t, device=x.device, dtype=x.dtype)[:, None] * torch.cat((inv, inv))
        q, k = (s * angle.cos() + self.rotate(s) * angle.sin() for s in (q, k))
        k, v = (s.repeat_interleave(self.h // self.kv, dim=1) for s in (k, v))
        if self.cap is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            u = torch.tanh(q @ k.mT * self.e ** -0.5 / self.cap) * self.cap
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            y = F.softmax(u.masked_fill(mask, float("-inf")), dim=-1) @ v
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class SwiGLU(nn.Module):
    def __init__(self, hidden=2 * D, act=F.silu):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(D, hidden, bias=False), nn.Linear(D, hidden, bias=False), nn.Linear(hidden, D, bias=False)
        self.act = act

    def forward(self, x):
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    """Fused add and norm: the sum is handed on, as inference engines do."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(D), RMSNorm(D)
        self.self_attn, self.mlp = SelfAttention(), SwiGLU()

    @staticmethod
    def add_norm(norm, y, residual):
        residual = y + residual
        return norm(residual), residual

    def forward(self, x):
        h = self.self_attn(self.input_layernorm(x))
        h, residual = self.add_norm(self.post_attention_layernorm, h, x)
        return self.mlp(h) + residual


class Gemma2Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4 = (RMSNorm(D) for _ in range(4))
        self.attn, self.mlp = SelfAttention(cap=50.0), SwiGLU(act=partial(F.gelu, approximate="tanh"))

    def forward(self, x):
        x = x + self.n2(self.attn(self.n1(x)))
        return x + self.n4(self.mlp(self.n3(x)))


class Olmo2Block(nn.Module):
    """Norms behind the sublayers only, QK-norm over the full width."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = SelfAttention(qk_norm="full"), SwiGLU()
        self.n1, self.n2 = RMSNorm(D), RMSNorm(D)

    def forward(self, x):
        h = x + self.n1(self.attn(x))
        return h + self.n2(self.mlp(h))


class Qwen3Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(D), RMSNorm(D)
        self.attn, self.mlp = SelfAttention(qk_norm="head"), SwiGLU()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class CohereBlock(nn.Module):
    """One LayerNorm, attention and MLP in parallel."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.mlp = nn.LayerNorm(D, bias=False), SelfAttention(bias=True), SwiGLU()

    def forward(self, x):
        h = self.norm(x)
        a, m = self.attn(h), self.mlp(h)
        return x + a + m


class TorchPreNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)

    def forward(self, x):
        return self.layer(x)


class TorchPostNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.layer(x, src_mask=mask)


class SequenceFirst(nn.Module):
    """nn.MultiheadAttention in its own layout, with an additive mask."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, 4, dropout=0.0, bias=True)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.Dropout(0.0), nn.ReLU(inplace=True), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x.permute(1, 0, 2)
        mask = torch.full((16, 16), float("-inf"), device=x.device, dtype=x.dtype).triu_(1)
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False, attn_mask=mask)[0]
        x = x + self.mlp(self.ln2(x))
        return x.permute(1, 0, 2)


class T5Layer(nn.Module):
    """RMSNorm in front, unscaled products and a relative bias; a clamp for half precision only."""

    def __init__(self, heads=4):
        super().__init__()
        self.h = heads
        self.n1, self.n2 = RMSNorm(D), RMSNorm(D)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.relative_attention_bias = nn.Embedding(8, heads)
        self.wi, self.wo = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def attn(self, x):
        q, k, v = (f(x).view(*x.shape[:2], self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        pos = torch.arange(x.shape[1], device=x.device)
        bucket = (pos[None, :] - pos[:, None]).clamp(-4, 3) + 4
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)
        return self.o((F.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))

    def ffn(self, x):
        return self.wo(F.relu(self.wi(x)))

    @staticmethod
    def safe(x):
        if x.dtype == torch.float16:
            top = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-top, max=top)
        return x

    def forward(self, x):
        x = self.safe(x + self.attn(self.n1(x)))
        return self.safe(x + self.ffn(self.n2(x)))


class SwinLayer(nn.Module):
    """Shifted windows of four tokens on a ring, relative bias, drop path (zero)."""

    def __init__(self, heads=4, window=4, shift=2):
        super().__init__()
        self.h, self.w, self.s = heads, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.table = nn.Parameter(torch.zeros(2 * window - 1, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        i = torch.arange(window)
        self.register_buffer("index", i[:, None] - i[None, :] + window - 1)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.drop_prob = 0.0

    def drop_path(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        return x / keep * x.new_empty(x.shape[0], 1, 1).bernoulli_(keep)

    def attn(self, x):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.h, -1).permute(2, 0, 3, 1, 4)
        u = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        u = u + self.table[self.index.view(-1)].view(self.w, self.w, -1).permute(2, 0, 1).contiguous()
        return self.proj((u.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))

    def mixer(self, x):
        b, t, d = x.shape
        h = torch.roll(self.norm1(x), -self.s, dims=1).view(-1, self.w, d)
        return torch.roll(self.attn(h).view(b, t, d), self.s, dims=1)

    def forward(self, x):
        x = x + self.drop_path(self.mixer(x))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class ConformerBlock(nn.Module):
    """Half-step feed-forwards around attention and convolution; the block ends in a LayerNorm."""

    def __init__(self):
        super().__init__()
        ffn = lambda: nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.SiLU(), nn.Linear(4 * D, D))
        self.ff1, self.ff2 = ffn(), ffn()
        self.norm_att, self.norm_conv, self.final = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, 4, batch_first=True)
        self.pw1, self.dw, self.pw2 = nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, 7, padding="same", groups=D), nn.Conv1d(D, D, 1)
        self.mid = nn.GroupNorm(1, D)

    def conv(self, x):
        y = F.glu(self.pw1(x.transpose(1, 2)), dim=1)
        return self.pw2(F.silu(self.mid(self.dw(y)))).transpose(1, 2)

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        h = self.norm_att(x)
        x = x + self.attn(h, h, h)[0]
        x = x + self.conv(self.norm_conv(x))
        x = x + 0.5 * self.ff2(x)
        return self.final(x)


class LatentAttention(nn.Module):
    """Multi-head latent attention in the way of DeepSeek: latents with norms, a shared rotary key, and a SwiGLU."""

    def __init__(self, heads=4, rank=12, rope=4):
        super().__init__()
        self.h, self.r, self.e = heads, rope, D // heads
        self.n1, self.n2 = RMSNorm(D), RMSNorm(D)
        self.q_a, self.q_n, self.q_b = nn.Linear(D, rank, bias=False), RMSNorm(rank), nn.Linear(rank, heads * (self.e + rope), bias=False)
        self.kv_a, self.kv_n, self.kv_b = nn.Linear(D, rank + rope, bias=False), RMSNorm(rank), nn.Linear(rank, 2 * heads * self.e, bias=False)
        self.o, self.mlp = nn.Linear(D, D, bias=False), SwiGLU()

    def turn(self, x):
        t = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)
        angle = torch.outer(t, 0.1 ** torch.arange(self.r // 2, device=x.device, dtype=x.dtype))
        a, b = x.unflatten(-1, (self.r // 2, 2)).unbind(-1)
        return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)

    def attn(self, x):
        b, t, _ = x.shape
        q = self.q_b(self.q_n(self.q_a(x))).view(b, t, self.h, -1).transpose(1, 2)
        q, qr = q.split([self.e, self.r], -1)
        c, kr = self.kv_a(x).split([self.kv_n.gain.shape[0], self.r], -1)
        k, v = self.kv_b(self.kv_n(c)).view(b, t, self.h, -1).transpose(1, 2).chunk(2, -1)
        q = torch.cat((q, self.turn(qr)), -1)
        k = torch.cat((k, self.turn(kr.unsqueeze(1)).expand(-1, self.h, -1, -1)), -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class MixtralBlock(nn.Module):
    """Attention and a loop over experts that index_adds into the output."""

    def __init__(self, experts=4, k=2):
        super().__init__()
        self.k = k
        self.n1, self.n2, self.attn = RMSNorm(D), RMSNorm(D), SelfAttention()
        self.gate, self.experts = nn.Linear(D, experts, bias=False), nn.ModuleList(SwiGLU(D) for _ in range(experts))

    def moe(self, x):
        flat = x.reshape(-1, D)
        w, chosen = torch.topk(F.softmax(self.gate(flat), dim=1), self.k, dim=-1)
        w = w / w.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            out = out + expert(flat) * (w * (chosen == i)).sum(-1, keepdim=True)
        return out.view_as(x)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.moe(self.n2(x))


class RgLru(nn.Module):
    """Griffin's recurrent block: real-gated linear recurrence, and a gated MLP."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(D), RMSNorm(D)
        self.left, self.right, self.out = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.conv = nn.Conv1d(D, D, 4, groups=D, padding=3)
        self.gate_a, self.gate_x = nn.Linear(D, D), nn.Linear(D, D)
        self.lam = nn.Parameter(torch.linspace(2.0, 6.0, D))
        self.mlp = SwiGLU(act=F.gelu)

    def mixer(self, x):
        u = self.conv(self.right(x).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        log_a = -8.0 * F.softplus(-self.lam) * torch.sigmoid(self.gate_a(u))
        a = log_a.exp()
        v = torch.sqrt(-torch.expm1(2 * log_a) + 1e-8) * torch.sigmoid(self.gate_x(u)) * u
        h, hs = torch.zeros_like(v[:, 0]), []
        for t in range(v.shape[1]):
            h = a[:, t] * h + v[:, t]
            hs.append(h)
        return self.out(torch.stack(hs, 1) * F.gelu(self.left(x)))

    def forward(self, x):
        x = x + self.mixer(self.n1(x))
        return x + self.mlp(self.n2(x))


class GatedDeltaNet(nn.Module):
    """Delta rule with unit keys, a decay and an output norm with a gate."""

    def __init__(self, heads=4):
        super().__init__()
        self.h, self.e = heads, D // heads
        self.norm = RMSNorm(D)
        self.qkv, self.ab, self.z, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, 2 * heads), nn.Linear(D, D), nn.Linear(D, D, bias=False)
        self.head_norm = RMSNorm(self.e)

    def mixer(self, x):
        q, k, v = F.silu(self.qkv(x)).unflatten(-1, (3, self.h, self.e)).unbind(2)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        a, b = torch.sigmoid(self.ab(x)).chunk(2, -1)
        s, ys = x.new_zeros(x.shape[0], self.h, self.e, self.e), []
        for t in range(x.shape[1]):
            s = s * a[:, t, :, None, None]
            old = torch.einsum("bhkv,bhk->bhv", s, k[:, t])
            s = s + torch.einsum("bhk,bhv->bhkv", k[:, t], b[:, t, :, None] * (v[:, t] - old))
            ys.append(torch.einsum("bhkv,bhk->bhv", s, q[:, t]))
        y = self.head_norm(torch.stack(ys, 1)).flatten(2)
        return self.o(y * F.silu(self.z(x)))

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class GMlp(nn.Module):
    """Spatial gating unit."""

    def __init__(self):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(D), nn.LayerNorm(D)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.spatial = nn.Conv1d(16, 16, 1)
        nn.init.constant_(self.spatial.bias, 1.0)

    def mixer(self, x):
        u, v = F.gelu(self.up(x)).chunk(2, dim=-1)
        return self.down(u * self.spatial(self.inner(v)))

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class MlpMixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        mlp = lambda d, h: nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, d))
        self.tokens, self.channels = mlp(16, 32), mlp(D, 4 * D)

    def forward(self, x):
        x = x + self.tokens(self.ln1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.ln2(x))


class NormalisedGPT(nn.Module):
    """nGPT: a step on the sphere towards the normalised sublayer."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = SelfAttention(qk_norm="head"), SwiGLU()
        self.gain_a, self.gain_m = nn.Parameter(torch.full((D,), 0.05)), nn.Parameter(torch.full((D,), 0.05))

    @staticmethod
    def unit(x):
        return F.normalize(x, dim=-1)

    def forward(self, x):
        x = self.unit(x + self.gain_a.abs() * (self.unit(self.attn(x)) - x))
        return self.unit(x + self.gain_m.abs() * (self.unit(self.mlp(x)) - x))


class BertLayer(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.h = heads
        self.query, self.key, self.value, self.dense = (nn.Linear(D, D) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(D, eps=1e-12), nn.LayerNorm(D, eps=1e-12)
        self.intermediate, self.output = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def transpose_for_scores(self, x):
        return x.view(x.size()[:-1] + (self.h, -1)).permute(0, 2, 1, 3)

    def attn(self, x):
        q, k, v = map(self.transpose_for_scores, (self.query(x), self.key(x), self.value(x)))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        context = torch.matmul(nn.Softmax(dim=-1)(scores), v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.view(context.size()[:-2] + (D,)))

    def forward(self, x):
        x = self.norm1(self.attn(x) + x)
        return self.norm2(self.output(F.gelu(self.intermediate(x))) + x)


class AlbertModel(nn.Module):
    """Two groups of shared weights, twelve times each, pre-norm."""

    def __init__(self, n=24):
        super().__init__()
        self.n, self.groups = n, nn.ModuleList(Qwen3Block() for _ in range(2))

    def forward(self, x):
        for i in range(self.n):
            x = self.groups[int(i / (self.n / len(self.groups)))](x)
        return x


class CheckpointedModel(nn.Module):
    """Activation checkpointing and a flag for it."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(n))
        self.gradient_checkpointing = True

    def forward(self, x):
        for block in self.blocks:
            if self.gradient_checkpointing and self.training and x.requires_grad:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return x


class ValueResidual(nn.Module):
    """ResFormer: values are mixed half and half with the values of the first layer; QK-norm."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": nn.RMSNorm(D), "qkv": nn.Linear(D, 3 * D, bias=False), "nq": nn.RMSNorm(8), "nk": nn.RMSNorm(8), "out": nn.Linear(D, D)})
            for _ in range(n))

    def forward(self, x):
        first = None
        for b in self.blocks:
            q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in b["qkv"](b["norm"](x)).chunk(3, -1))
            first = v if first is None else first
            y = F.scaled_dot_product_attention(b["nq"](q), b["nk"](k), 0.5 * (v + first), is_causal=True)
            x = x + b["out"](y.transpose(1, 2).flatten(2))
        return x


class DenseFormer(nn.Module):
    """Depth-weighted averaging, which starts as the plain stack."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Qwen3Block() for _ in range(n))
        self.alphas = nn.ParameterList(nn.Parameter(F.one_hot(torch.tensor(i + 1), i + 2).to(torch.get_default_dtype())) for i in range(n))

    def forward(self, x):
        seen = [x]
        for block, alpha in zip(self.blocks, self.alphas):
            seen.append(block(x))
            x = torch.tensordot(alpha, torch.stack(seen), dims=1)
        return x


class AltUp(nn.Module):
    """Alternating updates: of four lanes one is computed, the others follow its change. Lanes start as copies, their mean is read."""

    def __init__(self, n=24, lanes=4):
        super().__init__()
        self.k, self.blocks = lanes, nn.ModuleList(Qwen3Block() for _ in range(n))
        self.predict = nn.ParameterList(nn.Parameter(torch.eye(lanes)) for _ in range(n))
        self.correct = nn.ParameterList(nn.Parameter(torch.ones(lanes)) for _ in range(n))

    def forward(self, x):
        lanes = x.expand(self.k, *x.shape)
        for i, block in enumerate(self.blocks):
            guess = torch.einsum("ij,j...->i...", self.predict[i], lanes)
            j = i % self.k
            change = block(lanes[j]) - guess[j]
            lanes = guess + torch.einsum("i,...->i...", self.correct[i], change)
        return lanes.mean(0)


class PreActResNet(nn.Module):
    """Pre-activation residual unit of convolutions over the tokens with group norms."""

    def __init__(self):
        super().__init__()
        self.gn1, self.gn2 = nn.GroupNorm(4, D), nn.GroupNorm(4, D)
        self.conv1, self.conv2 = nn.Conv1d(D, D, 3, padding=1, bias=False), nn.Conv1d(D, D, 3, padding=1, bias=False)

    def unit(self, x):
        h = self.conv1(F.relu(self.gn1(x), inplace=True))
        return self.conv2(F.relu(self.gn2(h), inplace=True))

    def forward(self, x):
        y = x.transpose(1, 2)
        return (y + self.unit(y)).transpose(1, 2)


class LongConvolution(nn.Module):
    """Hyena-like: two gates around a long convolution by FFT, whose filter an MLP of sines makes."""

    def __init__(self):
        super().__init__()
        self.norm, self.proj, self.out = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.f1, self.f2 = nn.Linear(3, 16), nn.Linear(16, D)
        t = torch.linspace(0, 1, 16)[:, None]
        self.register_buffer("features", torch.cat((t, torch.sin(6.28 * t), torch.cos(6.28 * t)), -1))
        self.register_buffer("window", torch.exp(-3 * t))

    def mixer(self, x):
        a, b, v = self.proj(x).chunk(3, -1)
        h = self.f2(torch.sin(10 * self.f1(self.features))) * self.window
        n = 2 * x.shape[1]
        y = torch.fft.irfft(torch.fft.rfft(b * v, n=n, dim=1) * torch.fft.rfft(h, n=n, dim=0), n=n, dim=1)[:, : x.shape[1]]
        return self.out(a * y)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class LowRankAdapted(nn.Module):
    """A frozen-style MLP with low-rank adapters on both maps, all behind the norm."""

    def __init__(self, rank=4):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.w1, self.w2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.a1, self.b1 = nn.Linear(D, rank, bias=False), nn.Linear(rank, 2 * D, bias=False)
        self.a2, self.b2 = nn.Linear(2 * D, rank, bias=False), nn.Linear(rank, D, bias=False)
        nn.init.zeros_(self.b1.weight), nn.init.zeros_(self.b2.weight)
        self.scaling = 16 / rank

    def ffn(self, x):
        h = F.gelu(self.w1(x) + self.scaling * self.b1(self.a1(x)))
        return self.w2(h) + self.scaling * self.b2(self.a2(h))

    def forward(self, x):
        return x + self.ffn(self.norm(x))


_ONE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False}, softmax=False, tempts="-")
_TWO = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False, "1": False}, softmax=True, tempts="-")
_POST = dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, tempts="-")

TRUTH = {
    "GPT2Block": dict(_TWO, logits_bounded={"0": False}, gradient_law="power", why="pre-norm; raw queries and keys; free output maps."),
    "LlamaBlock": dict(_TWO, logits_bounded={"0": False}, why="pre-norm; the fused add and norm hands on the sum, not the normed one.", tempts="a norm on the stream"),
    "Gemma2Block": dict(_TWO, growth_all="linear", output_bounded={"0": True, "1": True}, logits_bounded={"0": True},
        gradient_law="power", why="each branch ends in an RMSNorm (rms 1 at most, given the gains); scores are capped at 50."),
    "Olmo2Block": dict(_TWO, growth_all="linear", output_bounded={"0": True, "1": True}, logits_bounded={"0": True},
        gradient_law="power", why="output norms and QK-norm over the width: a head's query has a length of at most sqrt(D).", tempts="no norm in front: exponential"),
    "Qwen3Block": dict(_TWO, logits_bounded={"0": True}, why="pre-norm and QK-norm per head; output maps are free."),
    "CohereBlock": dict(_TWO, logits_bounded={"0": False}, why="parallel branches on one norm."),
    "TorchPreNorm": dict(_TWO, logits_bounded={"0": False}, why="norm_first=True."),
    "TorchPostNorm": dict(_POST, output_bounded={"0": False, "1": False}, logits_bounded={"0": False},
        why="norm_first is False by default: both sums are normed."),
    "SequenceFirst": dict(_TWO, logits_bounded={"0": False}, why="pre-norm on tokens first; the permutations undo each other."),
    "T5Layer": dict(_TWO, logits_bounded={"0": False}, why="pre-norm, unscaled raw products plus a trained bias; the clamp is never met in float32.", tempts="a clamp on the stream"),
    "SwinLayer": dict(_TWO, logits_bounded={"0": False}, why="pre-norm; raw products plus a trained bias; the roll is undone inside of the branch."),
    "ConformerBlock": dict(_POST, output_bounded={"0": False, "1": False, "2": False, "3": False}, logits_bounded={"1": False},
        why="four pre-norm branches, then a LayerNorm on the stream at the end of each block.", tempts="pre-norm: linear"),
    "LatentAttention": dict(_TWO, logits_bounded={"0": False}, why="the norms of the latents stand in front of free maps; the rotary key has no norm at all.", tempts="QK-norm"),
    "MixtralBlock": dict(_TWO, logits_bounded={"0": False, "1": False}, why="pre-norm; raw products, a free router, free experts."),
    "RgLru": dict(_TWO, softmax=False, why="pre-norm; a decay in (0, 1) over 16 tokens; free output maps.", tempts="a recurrence: exponential"),
    "GatedDeltaNet": dict(_ONE, why="a norm in front, a norm per head behind, then a raw gate and a free output map."),
    "GMlp": dict(_ONE, why="norm in front; the spatial map and the last map are free."),
    "MlpMixer": dict(_TWO, softmax=False, why="pre-norm over channels in front of both."),
    "NormalisedGPT": dict(_POST, logits_bounded={"0": True}, why="the stream has length one behind each step; QK-norm per head."),
    "BertLayer": dict(_POST, output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, why="post-norm."),
    "AlbertModel": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True, why="pre-norm with two sets of weights: bounded outputs at fixed weights.", tempts="-"),
    "CheckpointedModel": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True, why="Llama blocks; checkpointing changes no value.", tempts="-"),
    "ValueResidual": dict(kind="model", identity_gain=1.0, growth_fixed="linear", logits_bounded={"0": True, "1": True, "23": True}, softmax=True,
        gradient_law="power", why="QK-normed in each layer; values of the first layer are bounded at fixed weights.", tempts="a second carried stream"),
    "DenseFormer": dict(kind="model", identity_gain=1.0, softmax=True, why="one-hot weights at the start pick the last block's output.", tempts="2^24, or a mean"),
    "AltUp": dict(kind="model", identity_gain=1.0, softmax=True, why="at the start prediction is the identity and the change of the computed lane is added to all lanes.", tempts="a difference of streams: gain 0; four copies: 4"),
    "PreActResNet": dict(_ONE, gradient_law="power", why="GroupNorm in front of the first convolution; free last convolution."),
    "LongConvolution": dict(_ONE, why="degree three in a normed input; free output map.", tempts="products of data: exponential"),
    "LowRankAdapted": dict(_ONE, why="all maps read the normed stream.", tempts="adapters beside the norm"),
}
