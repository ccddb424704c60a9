"""Peri-LN: every branch is normalised on its way in and on its way out, as in Gemma 2."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """Gain stored as its distance from one; the norm runs in float32."""

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()) * (1.0 + self.weight.float())
        return output.type_as(x)


def apply_rope(x, theta=10000.0):  # x: [batch, heads, tokens, head_dim]
    n, d = x.shape[-2:]
    freqs = 1.0 / theta ** (torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(torch.arange(n, device=x.device).float(), freqs)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-x2, x1], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, softcap=50.0):
        super().__init__()
        self.head_dim = dim // n_heads
        self.groups = n_heads // n_kv_heads
        self.q_proj = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        self.softcap = softcap

    def forward(self, x):
        b, n, _ = x.shape
        shape = (b, n, -1, self.head_dim)
        q = apply_rope(self.q_proj(x).view(shape).transpose(1, 2))
        k = apply_rope(self.k_proj(x).view(shape).transpose(1, 2)).repeat_interleave(self.groups, dim=1)
        v = self.v_proj(x).view(shape).transpose(1, 2).repeat_interleave(self.groups, dim=1)
        scores = q @ k.transpose(2, 3) * self.head_dim**-0.5
        scores = self.softcap * torch.tanh(scores / self.softcap)
        causal = torch.full((n, n), float("-inf"), device=x.device).triu(1)
        weights = F.softmax(scores + causal, dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, n, -1))


class GeGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, hidden):
        super().__init__()
        self.self_attn = Attention(dim, n_heads, n_kv_heads)
        self.mlp = GeGLU(dim, hidden)
        self.input_norm, self.post_attention_norm = RMSNorm(dim), RMSNorm(dim)
        self.pre_ffn_norm, self.post_ffn_norm = RMSNorm(dim), RMSNorm(dim)

    def forward(self, x):
        residual = x
        x = self.post_attention_norm(self.self_attn(self.input_norm(x)))
        x = residual + x
        residual = x
        x = self.post_ffn_norm(self.mlp(self.pre_ffn_norm(x)))
        return residual + x


class PeriLM(nn.Module):
    def __init__(self, vocab=512, dim=96, depth=6, n_heads=4, n_kv_heads=2, hidden=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        nn.init.normal_(self.embed.weight, std=0.02)  # it is the head too
        self.layers = nn.ModuleList(DecoderLayer(dim, n_heads, n_kv_heads, hidden) for _ in range(depth))
        self.norm = RMSNorm(dim)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        x = x * x.shape[-1] ** 0.5
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.T
