"""LayerScale in front of an output norm: `x + norm(gamma * F(x))` with gamma at 0.1.

The norm divides gamma out again: branches start at full size, and gamma is a weight that acts on nothing but the ratio of features. What
was to calm the start of a deep model has no effect. It happens when LayerScale is put "at the end of the branch" of a block that has an
output norm.
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


class SlipBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn, self.mlp = nn.MultiheadAttention(width, heads, batch_first=True), MLP(width)
        self.before_1, self.after_1, self.before_2, self.after_2 = (nn.LayerNorm(width) for _ in range(4))
        self.gamma_1, self.gamma_2 = nn.Parameter(0.1 * torch.ones(width)), nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x):
        y = self.before_1(x)
        x = x + self.after_1(self.gamma_1 * self.attn(y, y, y, need_weights=False)[0])
        return x + self.after_2(self.gamma_2 * self.mlp(self.before_2(x)))


class SoundBlock(SlipBlock):
    def forward(self, x):
        y = self.before_1(x)
        x = x + self.gamma_1 * self.after_1(self.attn(y, y, y, need_weights=False)[0])
        return x + self.gamma_2 * self.after_2(self.mlp(self.before_2(x)))


class ViT(nn.Module):
    block = SoundBlock

    def __init__(self, width=96, heads=4, depth=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=8, stride=8)
        self.cls, self.position = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.Sequential(*(self.block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class Slip(ViT):
    block = SlipBlock


class Sound(ViT):
    block = SoundBlock


example_inputs = (torch.zeros(2, 3, 32, 32),)
