"""Half of DeepNorm: the stream is multiplied by α, and the weights start as they always do, without β.

The first updates are larger than DeepNorm's theorem allows by √N: the loss jumps in the first hundreds of steps, as in plain post-norm. It
happens when the formula of the block is taken over and the line on initialisation overlooked.
"""

import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, depth, scaled):
        super().__init__()
        self.alpha, beta = (2 * depth) ** 0.25, (8 * depth) ** -0.25 if scaled else 1.0
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for linear, gain in ((self.query, 1), (self.key, 1), (self.value, beta), (self.out, beta), (self.up, beta), (self.down, beta)):
            nn.init.xavier_normal_(linear.weight, gain=gain)
            nn.init.zeros_(linear.bias)

    def attention(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.norm_1(self.alpha * x + self.attention(x))
        return self.norm_2(self.alpha * x + self.down(F.relu(self.up(x))))


class Encoder(nn.Module):
    scaled = True

    def __init__(self, vocab=512, width=96, heads=4, depth=18):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(vocab, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, depth, self.scaled) for _ in range(depth))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.norm(self.embedding(ids))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Slip(Encoder):
    scaled = False


class Sound(Encoder):
    scaled = True
