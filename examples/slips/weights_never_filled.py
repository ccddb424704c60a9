"""Weights that nothing fills: `nn.Parameter(torch.empty(...))`, and no initialiser.

They hold whatever the memory held: zeros on a fresh machine, NaN or 1e30 on another, so that runs differ for no reason that a seed
explains. It happens with maps written as bare parameters, whose `reset_parameters` is missing or never called.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    filled = True

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.w_qkv, self.w_out = nn.Parameter(torch.empty(width, 3 * width)), nn.Parameter(torch.empty(width, width))
        if self.filled:
            self.reset_parameters()

    def reset_parameters(self):
        for p in self.parameters():
            nn.init.normal_(p, std=0.02)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (x @ self.w_qkv).chunk(3, dim=-1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2) @ self.w_out


class UnfilledAttention(Attention):
    filled = False


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    attention = Attention

    def __init__(self, vocab=512, width=96, heads=4, depth=8):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.h = nn.ModuleList(Block(width, heads, self.attention) for _ in range(depth))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Slip(GPT):
    attention = UnfilledAttention


class Sound(GPT):
    attention = Attention
