"""QK-norm on the queries alone: the keys go into the product as they are.

Logits grow with the weights of the keys as they did without any norm, and late in training, at a high learning rate, the spikes come that
QK-norm was to prevent. It happens with a cache: keys are stored before the line that normalises them.
"""

import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, size = heads, width // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = nn.RMSNorm(size), nn.RMSNorm(size)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k = self.queries_and_keys(x)
        y = F.scaled_dot_product_attention(q, k, self.split(self.wv(x)), is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class SlipAttention(Attention):
    def queries_and_keys(self, x):
        return self.q_norm(self.split(self.wq(x))), self.split(self.wk(x))


class SoundAttention(Attention):
    def queries_and_keys(self, x):
        return self.q_norm(self.split(self.wq(x))), self.k_norm(self.split(self.wk(x)))


class SwiGLU(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(width), attention(width, heads)
        self.ffn_norm, self.ffn = nn.RMSNorm(width), SwiGLU(width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class Llama(nn.Module):
    attention = SoundAttention

    def __init__(self, vocab=512, width=128, heads=4, depth=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, heads, self.attention) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Slip(Llama):
    attention = SlipAttention


class Sound(Llama):
    attention = SoundAttention
