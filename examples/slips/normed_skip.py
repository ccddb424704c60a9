"""Normed skip: `x = norm(x); x = x + attention(x)` overwrites the stream, so that the skip starts behind the norm.

Pre-norm was meant and post-norm came out: without warm-up the loss stays near its start, and the deeper the stack the later it learns. It
happens when `x = x + f(norm(x))` is taken apart into two lines to look at the norm.
"""

import torch.nn as nn
import torch.nn.functional as F


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
        self.norm_1, self.attn = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = self.norm_1(x)
        x = x + self.attn(x, x, x, need_weights=False)[0]
        x = self.norm_2(x)
        return x + self.mlp(x)


class SoundBlock(SlipBlock):
    def forward(self, x):
        y = self.norm_1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm_2(x))


class Encoder(nn.Module):
    def __init__(self, block, last, vocab=512, width=96, heads=4, depth=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.Sequential(*(block(width, heads) for _ in range(depth)))
        self.norm = last
        self.classifier = nn.Linear(width, 10)

    def forward(self, ids):
        return self.classifier(self.norm(self.blocks(self.embedding(ids))).mean(dim=1))


class Slip(Encoder):
    def __init__(self):
        super().__init__(SlipBlock, nn.Identity())


class Sound(Encoder):
    def __init__(self):
        super().__init__(SoundBlock, nn.LayerNorm(96))
