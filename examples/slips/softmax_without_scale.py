"""Attention without 1/√d_h: `softmax(q @ k.T)` at Xavier's initialisation.

Logits start with a deviation of √d_h: every token attends to one other, the softmax passes hardly any gradient to queries and keys, and
attention learns late or locks in. It happens when attention is written from memory.
"""

import math

import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    scaled = True

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, self.size).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-2, -1)
        if self.scaled:
            scores = scores / math.sqrt(self.size)
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))


class UnscaledAttention(Attention):
    scaled = False


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
        self.norm_1, self.attn = nn.LayerNorm(width), attention(width, heads)
        self.norm_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Encoder(nn.Module):
    attention = Attention

    def __init__(self, vocab=512, width=128, heads=2, depth=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, self.attention) for _ in range(depth))
        self.norm, self.classifier = nn.LayerNorm(width), nn.Linear(width, vocab)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.norm(x))


class Slip(Encoder):
    attention = UnscaledAttention


class Sound(Encoder):
    attention = Attention
