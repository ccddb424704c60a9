"""A hollow norm: this RMSNorm multiplies by its gain and never divides by anything.

All branches read the bare stream, as if there were no norms: activations grow exponentially from block to block, and the loss is NaN after
a few steps at an ordinary learning rate. It happens when the statistic is put into a fused kernel and its line is lost, or in a stub that
was to be filled in later.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class SlipNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        return self.weight * x + self.bias


class SoundNorm(SlipNorm):
    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) + self.bias


class Block(nn.Module):
    def __init__(self, width, heads, norm):
        super().__init__()
        self.ln_1, self.attn = norm(width), CausalSelfAttention(width, heads)
        self.ln_2, self.mlp = norm(width), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    norm = SoundNorm

    def __init__(self, vocab=512, width=96, heads=4, depth=8):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.h = nn.ModuleList(Block(width, heads, self.norm) for _ in range(depth))
        self.ln_f = self.norm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Slip(GPT):
    norm = SlipNorm


class Sound(GPT):
    norm = SoundNorm
