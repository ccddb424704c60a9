"""Whole models in which a few channels, places or lanes carry what is carried."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


class Layer(nn.Module):
    """A net of what is normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 64), nn.Linear(64, D)
        for w in (self.up, self.down):
            nn.init.normal_(w.weight, std=w.in_features ** -0.5)
            nn.init.zeros_(w.bias)

    def forward(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))


class Base(nn.Module):
    def __init__(self, n=12):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(n))

    def forward(self, x):
        return self.features(x)


class TablesByLayer(Base):
    """Each layer has a table of its own, from a half to 1.03 over the channels."""

    top = 1.03

    def __init__(self, n=12):
        super().__init__(n)
        for i in range(n):
            self.register_buffer(f"keep_{i}", torch.linspace(0.5, self.top, D))

    def features(self, x):
        for i, layer in enumerate(self.layers):
            x = x * getattr(self, f"keep_{i}") + layer(x)
        return x


class TablesByLayerToOne(TablesByLayer):
    """To one."""

    top = 1.0


class DecayByHead(Base):
    """Four heads of channels keep 1 less 2 to the minus one, two, three and four."""

    def __init__(self, n=12):
        super().__init__(n)
        self.register_buffer("decay", (1 - 2.0 ** -torch.arange(1.0, 5.0)).repeat_interleave(D // 4))

    def features(self, x):
        for layer in self.layers:
            x = self.decay * x + layer(x)
        return x


class ClassTokenKept(Base):
    """The class token has a skip, patches have half of one."""

    def features(self, x):
        for layer in self.layers:
            y = layer(x)
            x = torch.cat([x[:, :1] + y[:, :1], 0.5 * x[:, 1:] + y[:, 1:]], dim=1)
        return x


class ClassTokenGrows(Base):
    """The class token's skip is 1.05."""

    def features(self, x):
        for layer in self.layers:
            y = layer(x)
            cls, patches = x.split([1, T - 1], dim=1)
            x = torch.cat([1.05 * cls + y[:, :1], 0.5 * patches + y[:, 1:]], dim=1)
        return x


class OneLaneKept(Base):
    """Of four lanes one keeps all and three a half; each layer reads their mean and writes to all; their sum goes out."""

    top = 1.0

    def __init__(self, n=12):
        super().__init__(n)
        self.register_buffer("rates", torch.tensor([self.top, 0.5, 0.5, 0.5]).view(4, 1, 1, 1))

    def features(self, x):
        lanes = x.expand(4, *x.shape)
        for layer in self.layers:
            lanes = self.rates * lanes + layer(lanes.mean(dim=0))
        return lanes.sum(dim=0)


class OneLaneGrows(OneLaneKept):
    """One has 1.06."""

    top = 1.06


_M = dict(kind="model", softmax=False)
TRUTH = {
    "TablesByLayer": dict(_M, identity_gain=1.03 ** 12, growth_fixed="exponential", why="the last channel grows."),
    "TablesByLayerToOne": dict(_M, identity_gain=1.0, growth_fixed="linear", why="the last channel keeps all."),
    "DecayByHead": dict(_M, identity_gain=0.9375 ** 12, growth_fixed="bounded", why="all decay."),
    "ClassTokenKept": dict(_M, identity_gain=1.0, growth_fixed="linear", why="the first place keeps all."),
    "ClassTokenGrows": dict(_M, identity_gain=1.05 ** 12, growth_fixed="exponential", why="the first place grows."),
    "OneLaneKept": dict(_M, identity_gain=1.0 + 3 * 2.0 ** -12, growth_fixed="linear", why="one lane keeps all."),
    "OneLaneGrows": dict(_M, identity_gain=1.06 ** 12 + 3 * 2.0 ** -12, growth_fixed="exponential", why="one lane grows."),
}
for _truth in TRUTH.values():
    _truth["gain_at"] = 12
