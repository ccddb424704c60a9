"""A gate that starts at zero on a branch whose last map starts at zero: both are dead for ever.

The gradient of the gate is the branch's output, which is 0, and that of the last map carries the gate, which is 0: neither moves, and all
weights before them neither. The model trains as if it had no blocks. It happens when ReZero is added to code that zeroes the last maps
already.
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


class SlipBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), CausalSelfAttention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width)
        self.gate_1, self.gate_2 = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        for last in (self.attn.c_proj, self.mlp.c_proj):
            nn.init.zeros_(last.bias)
            self.start(last.weight)

    def start(self, weight):
        nn.init.zeros_(weight)

    def forward(self, x):
        x = x + self.gate_1 * self.attn(self.ln_1(x))
        return x + self.gate_2 * self.mlp(self.ln_2(x))


class SoundBlock(SlipBlock):
    def start(self, weight):
        nn.init.normal_(weight, std=0.02)


class GPT(nn.Module):
    block = SoundBlock

    def __init__(self, vocab=512, context=128, width=96, heads=4, depth=8):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(self.block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Slip(GPT):
    block = SlipBlock


class Sound(GPT):
    block = SoundBlock
