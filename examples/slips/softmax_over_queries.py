"""A softmax over the wrong axis: `dim=-2` normalises over queries, and the weights that one token gives to others do not add up to 1.

What a token receives is no mean of values: its size grows and shrinks with the number of tokens, tokens that nobody asks for get nothing,
and lengths that were not trained on break. It happens when queries and keys are laid out in another order than in the code that the line
comes from.
"""

import math

import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    axis = -1

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, self.size).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        weights = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.size), dim=self.axis)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class AttentionOverQueries(Attention):
    axis = -2


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

    def __init__(self, vocab=512, width=96, heads=4, depth=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, self.attention) for _ in range(depth))
        self.norm, self.classifier = nn.LayerNorm(width), nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.norm(x))


class Slip(Encoder):
    attention = AttentionOverQueries


class Sound(Encoder):
    attention = Attention
