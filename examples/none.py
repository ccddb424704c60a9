"""No norm at all, nothing in its place: what happens to a transformer when its norms are deleted."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.proj = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.heads = heads

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-2, -3)
        a = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
        x = x + self.out(a.transpose(-2, -3).flatten(-2))
        return x + self.proj(torch.relu(self.fc(x)))


class Bare(nn.Module):
    def __init__(self, vocab=512, d=96, heads=4, depth=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
