"""Blocks on images: [2, 8, 8, 8] to the same shape."""

import torch
import torch.nn as nn
import torch.nn.functional as F

C = 8


def example_inputs():
    return (torch.randn(2, C, 8, 8),)


def point(i, o):
    m = nn.Conv2d(i, o, 1)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


class ConvNextGrn(nn.Module):
    """ConvNeXt V2: depthwise, norm over channels, GRN between the maps."""

    def __init__(self):
        super().__init__()
        self.dw, self.pw1, self.pw2 = nn.Conv2d(C, C, 7, padding=3, groups=C), nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.norm = nn.LayerNorm(C, eps=1e-6)
        self.g, self.b = nn.Parameter(torch.full((4 * C,), 0.5)), nn.Parameter(torch.zeros(4 * C))

    def branch(self, x):
        y = F.gelu(self.pw1(self.norm(self.dw(x).permute(0, 2, 3, 1))))
        size = torch.linalg.vector_norm(y, dim=(1, 2), keepdim=True)
        y = y + self.g * (y * size / (size.mean(-1, keepdim=True) + 1e-6)) + self.b
        return self.pw2(y).permute(0, 3, 1, 2)

    def forward(self, x):
        return x + self.branch(x)


class PreActivation(nn.Module):
    """ResNet v2 with group norms."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.GroupNorm(2, C), nn.ReLU(), nn.Conv2d(C, C, 3, padding=1), nn.GroupNorm(2, C), nn.ReLU(), nn.Conv2d(C, C, 3, padding=1))

    def forward(self, x):
        return x + self.f(x)


class PostActivation(nn.Module):
    """ResNet v1 of 2015: a norm ends the branch, ReLU on the sum."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(C, C, 3, padding=1, bias=False), nn.GroupNorm(2, C), nn.ReLU(), nn.Conv2d(C, C, 3, padding=1, bias=False), nn.GroupNorm(2, C))

    def forward(self, x):
        return F.relu(x + self.f(x))


class ColumnsAsChannels(nn.Module):
    """The permute before the norm is forgotten; as many columns as channels, so nothing complains."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(C), point(C, 4 * C), point(4 * C, C)

    def branch(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))

    def forward(self, x):
        return x + self.branch(x)


class SqueezeOnSum(nn.Module):
    """Squeeze and excite multiplies the sum in place of the branch."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv, self.se = nn.GroupNorm(1, C), point(C, C), nn.Sequential(point(C, C), nn.ReLU(), point(C, C), nn.Sigmoid())

    def forward(self, x):
        h = F.silu(self.conv(self.norm(x)))
        return (x + h) * self.se(h.mean((2, 3), keepdim=True))


_K = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
TRUTH = {
    "ConvNextGrn": dict(_K, output_bounded={0: False}),
    "PreActivation": dict(_K, output_bounded={0: False}),
    "PostActivation": dict(kind="block", growth_fixed="linear", growth_all="linear", output_bounded={0: True}, softmax=False),
    "ColumnsAsChannels": dict(_K, output_bounded={0: False}),
    "SqueezeOnSum": dict(kind="block", growth_fixed="bounded", softmax=False, gated=True),
}
