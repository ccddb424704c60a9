"""A norm over the wrong axis: mean and deviation run over tokens (`dim=1`), not over features.

What a token gets depends on all other tokens, later ones included, and on the length of the sequence; no token's size is bounded. Training
works on one length and breaks on another, padding changes results, and a causal model sees the future. It happens with `dim=1` in code that
once had `[batch, features]`.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class SlipNorm(nn.Module):
    dim = 1

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean, var = x.mean(self.dim, keepdim=True), x.var(self.dim, keepdim=True, unbiased=False)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


class SoundNorm(SlipNorm):
    dim = -1


class Block(nn.Module):
    def __init__(self, width, heads, norm):
        super().__init__()
        self.norm_1, self.attn = norm(width), nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm_2, self.mlp = norm(width), MLP(width)

    def forward(self, x):
        y = self.norm_1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm_2(x))


class ViT(nn.Module):
    norm = SoundNorm

    def __init__(self, width=96, heads=4, depth=8):
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=8, stride=8)
        self.position = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, self.norm) for _ in range(depth))
        self.last = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.last(x).mean(1))


class Slip(ViT):
    norm = SlipNorm


class Sound(ViT):
    norm = SoundNorm


example_inputs = (torch.zeros(2, 3, 32, 32),)
