"""Output norm and QK-norm: nothing on the way in, RMSNorm on the way out, queries and keys normalised. OLMo 2's block."""

import torch
from torch import Tensor, nn


def rotate_half(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_out = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        # over the full width, before the heads are split
        self.q_norm = nn.RMSNorm(d_model, eps=1e-6)
        self.k_norm = nn.RMSNorm(d_model, eps=1e-6)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.q_norm(self.w_q(x)), self.k_norm(self.w_k(x)), self.w_v(x)
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in (q, k, v))
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        att = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.w_out(att.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, d_model: int, hidden: int):
        super().__init__()
        self.w1, self.w3 = nn.Linear(d_model, hidden, bias=False), nn.Linear(d_model, hidden, bias=False)
        self.w2 = nn.Linear(hidden, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class ReorderedNormBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, hidden: int):
        super().__init__()
        self.attention = Attention(d_model, n_heads)
        self.attention_norm = nn.RMSNorm(d_model, eps=1e-6)
        self.feed_forward = FeedForward(d_model, hidden)
        self.feed_forward_norm = nn.RMSNorm(d_model, eps=1e-6)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = x + self.attention_norm(self.attention(x, cos, sin))
        return h + self.feed_forward_norm(self.feed_forward(h))


class Transformer(nn.Module):
    def __init__(self, vocab_size: int = 512, d_model: int = 96, n_layers: int = 6, n_heads: int = 4, hidden: int = 256):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleDict({str(i): ReorderedNormBlock(d_model, n_heads, hidden) for i in range(n_layers)})
        self.lm_head = nn.Sequential(nn.RMSNorm(d_model, eps=1e-6), nn.Linear(d_model, vocab_size, bias=False))
        self.head_dim = d_model // n_heads

    def forward(self, input_ids: Tensor) -> Tensor:
        h = self.embeddings(input_ids)
        inv_freq = 500_000 ** -(torch.arange(0, self.head_dim, 2, device=h.device) / self.head_dim)
        angle = torch.arange(input_ids.shape[1], device=h.device)[:, None] * inv_freq
        angle = torch.cat((angle, angle), -1)
        for block in self.blocks.values():
            h = block(h, angle.cos(), angle.sin())
        return self.lm_head(h)
