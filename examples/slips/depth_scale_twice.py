"""A depth-scaled initialisation that is applied twice: weights are divided in place, and the loop runs for the model and again for its trunk.

The last map of every branch starts smaller by 1/(2N) and not by its root: branches add next to nothing, the first thousand steps only undo
that, and deep models look as if they did not use their depth. It happens when two classes of an inheritance both finish their constructor
with the same call.
"""

import math

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


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), CausalSelfAttention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


def scale_by_depth(model, depth):
    for name, p in model.named_parameters():
        if name.endswith("c_proj.weight"):
            p.data.div_(math.sqrt(2 * depth))


class Trunk(nn.Module):
    def __init__(self, vocab=512, context=128, width=96, heads=4, depth=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        self.apply(self.init_weights)
        scale_by_depth(self, depth)

    def init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class Sound(nn.Module):
    def __init__(self, vocab=512, width=96, depth=8):
        super().__init__()
        self.trunk = Trunk(vocab, width=width, depth=depth)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        return self.lm_head(self.trunk(ids))


class Slip(Sound):
    def __init__(self, vocab=512, width=96, depth=8):
        super().__init__(vocab, width, depth)
        scale_by_depth(self, depth)
