"""Long skips in models of few layers and with factors: written behind the first score of the round, after `LongSkipsTwice` was looked at."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


def linear(i, o):
    w = nn.Linear(i, o, bias=False)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


class Layer(nn.Module):
    """Pre-norm."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.qkv, self.proj = nn.LayerNorm(D), nn.LayerNorm(D), linear(D, 3 * D), linear(D, D)
        self.mlp = nn.Sequential(linear(D, 64), nn.GELU(), linear(64, D))

    def attn(self, h):
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.qkv(h).chunk(3, dim=-1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ShallowLongSkips(nn.Module):
    """Eight layers; the second four get the states in front of the first four, the last one first."""

    def __init__(self, n=8):
        super().__init__()
        self.n, self.layers, self.norm = n, nn.ModuleList(Layer() for _ in range(n)), nn.LayerNorm(D)

    def join(self, x, held):
        return x + held

    def features(self, x):
        held = []
        for layer in self.layers[: self.n // 2]:
            held.append(x)
            x = layer(x)
        for layer in self.layers[self.n // 2 :]:
            x = layer(self.join(x, held.pop()))
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class ShallowLongSkipsHalf(ShallowLongSkips):
    """What was held comes in by one half."""

    def join(self, x, held):
        return torch.add(x, held, alpha=0.5)


class LongSkipsOverRoot(ShallowLongSkips):
    """Sums are divided by the root of two, as variances ask for."""

    def __init__(self, n=12):
        super().__init__(n)

    def join(self, x, held):
        return (x + held) / math.sqrt(2.0)


class LongSkipsAveraged(ShallowLongSkips):
    """The mean of both."""

    def join(self, x, held):
        return (x + held) / 2


class NestedStages(nn.Module):
    """A net in a net: in front, the rest, the sum with what went in, behind."""

    def __init__(self, n=8):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(n)), nn.LayerNorm(D)

    def run(self, x, layers):
        if len(layers) <= 2:
            for layer in layers:
                x = layer(x)
            return x
        h = layers[0](x)
        return layers[-1](self.run(h, layers[1:-1]) + h)

    def features(self, x):
        return self.run(x, list(self.layers))

    def forward(self, x):
        return self.norm(self.features(x))


class ShallowLongSkipsTwice(ShallowLongSkips):
    """And what goes into a layer of the second half is added behind it once more."""

    def features(self, x):
        held = []
        for layer in self.layers[: self.n // 2]:
            held.append(x)
            x = layer(x)
        for layer in self.layers[self.n // 2 :]:
            h = x + held.pop()
            x = layer(h) + h
        return x


class PeakAdded(Layer):
    """The largest value over places is added to all of them, unweighed."""

    def forward(self, x):
        return super().forward(x + x.amax(dim=1, keepdim=True))


_M = dict(kind="model", softmax=True, logits_bounded={0: False})
TRUTH = {
    "ShallowLongSkips": dict(_M, growth_fixed="polynomial", depth=8, why="gain 1 + n/2; n/2 held states, each at most linear: a square."),
    "ShallowLongSkipsHalf": dict(_M, growth_fixed="polynomial", depth=8, why="gain 1 + n/4; the same by a half."),
    "LongSkipsOverRoot": dict(_M, growth_fixed="bounded", depth=12, why="gain at most 1/(sqrt 2 - 1); each join forgets by root 2, and the last ones hold the first states."),
    "LongSkipsAveraged": dict(_M, identity_gain=1.0, growth_fixed="bounded", depth=8, why="each mean forgets by half, and the last ones hold the first states; those between are linear."),
    "NestedStages": dict(_M, growth_fixed="polynomial", depth=8, why="gain n/2; the same as long skips."),
    "ShallowLongSkipsTwice": dict(_M, growth_fixed="exponential", depth=8, why="gain 3 * 2**(n/2) - 2: the second half doubles a layer."),
    "PeakAdded": dict(kind="block", growth_fixed="exponential", gradient_law="exponential", softmax=True, logits_bounded={0: False},
                      why="no weight stands between: where all places are alike the stream is doubled."),
}
