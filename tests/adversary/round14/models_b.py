"""Small whole models with one thing out of place in how the layers are put together; some of it does no harm."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o):
    w = nn.Linear(i, o, bias=False)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_qkv, self.to_out = lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.to_qkv(x).reshape(b, n, 3, H, HD).permute(2, 0, 3, 1, 4)
        w = F.softmax(torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(HD), dim=-1)
        return self.to_out(torch.einsum("bhij,bhjd->bihd", w, v).reshape(b, n, D))


class Block(nn.Module):
    """Pre-norm; `branch` is what both sublayers add."""

    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(D), Attention(), nn.LayerNorm(D)
        self.mlp = nn.Sequential(lin(D, 4 * D), nn.GELU(), lin(4 * D, D))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Side(nn.Module):
    """Attention and net side by side behind one norm, without a skip."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.mlp = nn.LayerNorm(D), Attention(), nn.Sequential(lin(D, 4 * D), nn.GELU(), lin(4 * D, D))

    def forward(self, x):
        h = self.norm(x)
        return self.attn(h) + self.mlp(h)


class Model(nn.Module):
    block, depth = Block, 12

    def __init__(self, n=None):
        super().__init__()
        self.n = self.depth if n is None else n
        self.blocks, self.norm = nn.ModuleList(self.make(i) for i in range(self.n)), nn.LayerNorm(D)

    def make(self, i):
        return self.block()

    def forward(self, x):
        return self.norm(self.features(x))


class TwoTowersSummed(Model):
    """Two stacks read the same tokens; what they give is summed."""
    depth = 8

    def __init__(self, n=None):
        super().__init__(n)
        self.other = nn.ModuleList(self.make(i) for i in range(self.n))

    def features(self, x):
        a = b = x
        for left, right in zip(self.blocks, self.other):
            a, b = left(a), right(b)
        return a + b


class TwoTowersAveraged(TwoTowersSummed):
    """The mean of both."""

    def features(self, x):
        a = b = x
        for left, right in zip(self.blocks, self.other):
            a, b = left(a), right(b)
        return torch.stack((a, b)).mean(0)


class EmbeddingScaledTwice(Model):
    """The embedding layer scales by the root of the width, and the model does it again."""
    depth = 6

    @staticmethod
    def embed(x):
        return x * math.sqrt(D)

    def features(self, x):
        x = self.embed(x)
        x = x * x.shape[-1] ** 0.5
        for block in self.blocks:
            x = block(x)
        return x


class AlwaysFromTheEmbedding(Model):
    """Each layer's output is added to the embedding, not to the state."""
    block = Side

    def features(self, x):
        inputs_embeds = x
        for block in self.blocks:
            x = inputs_embeds + block(x)
        return x


class OnlyTheLastCounts(Model):
    """The loop gives every block the input and keeps the last output."""
    depth = 6

    def features(self, x):
        for block in self.blocks:
            out = block(x)
        return out


class SmoothedStates(Model):
    """Each state is four parts of the last one and one part of the block's output, which has its skip."""
    depth = 24

    def features(self, x):
        for block in self.blocks:
            x = torch.lerp(x, block(x), 0.2)
        return x


class SmoothedBranches(Model):
    """The same with branches that have none."""
    block, depth = Side, 24

    def features(self, x):
        for block in self.blocks:
            x = torch.lerp(x, block(x), 0.2)
        return x


class FirstWithoutSkip(Model):
    """The first layer is a stem without a skip; the rest is pre-norm."""
    block = Side

    def features(self, x):
        for i, block in enumerate(self.blocks):
            y = block(x)
            x = x + y if i > 0 else y
        return x


class StackedHourglasses(Model):
    """Each stage works on pairs with a skip of its own, is spread out, and is added to what it came from."""
    depth = 24

    def features(self, x):
        for stage in self.blocks:
            low = F.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
            x = x + F.interpolate(stage(low).transpose(1, 2), scale_factor=2, mode="nearest").transpose(1, 2)
        return x


class StackedDifferences(Model):
    """The same, but only what the stage has changed is spread out and added."""
    depth = 24

    def features(self, x):
        for stage in self.blocks:
            low = F.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
            x = x + F.interpolate((stage(low) - low).transpose(1, 2), scale_factor=2, mode="nearest").transpose(1, 2)
        return x


class SkipByLayerNumber(Model):
    """The skip of layer i is multiplied by the root of i over i + 1."""
    block, depth = Side, 24

    def features(self, x):
        for i, block in enumerate(self.blocks, start=1):
            x = math.sqrt(i / (i + 1)) * x + block(x) / math.sqrt(i + 1)
        return x


class MultiplierOnTheWrongSide(Model):
    """The residual multiplier is on the residual."""
    block, depth = Side, 24

    def __init__(self, n=None, residual_multiplier=0.22):
        super().__init__(n)
        self.residual_multiplier = residual_multiplier

    def features(self, x):
        for block in self.blocks:
            residual = x
            x = residual * self.residual_multiplier + block(x)
        return x


class MultiplierOnTheRightSide(MultiplierOnTheWrongSide):
    """It is on the branch."""

    def features(self, x):
        for block in self.blocks:
            residual = x
            x = residual + block(x) * self.residual_multiplier
        return x


class NormBeforeLast(Model):
    """The final norm stands one layer too early."""

    def features(self, x):
        for block in self.blocks[:-1]:
            x = block(x)
        return self.blocks[-1](self.norm(x))

    def forward(self, x):
        return self.features(x)


class NineTenthsAndTwo(Model):
    """Two learned numbers a layer, for the state and for the embedding: 0.9 and 0.2 at the start."""
    block, depth = Side, 24

    def __init__(self, n=None):
        super().__init__(n)
        self.lambdas = nn.Parameter(torch.tensor([[0.9, 0.2]] * self.n))

    def features(self, x):
        x0 = x
        for row, block in zip(self.lambdas, self.blocks):
            a, b = row.unbind()
            x = a * x + b * x0 + block(x)
        return x


class QuarterPostNorm(Model):
    """The first quarter of the layers is post-norm, the rest pre-norm."""

    class Mixed(nn.Module):
        def __init__(self, post):
            super().__init__()
            self.post, self.norm1, self.norm2, self.attn = post, nn.LayerNorm(D), nn.LayerNorm(D), Attention()
            self.mlp = nn.Sequential(lin(D, 4 * D), nn.GELU(), lin(4 * D, D))

        def forward(self, x):
            if self.post:
                x = self.norm1(x + self.attn(x))
                return self.norm2(x + self.mlp(x))
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    def make(self, i):
        return self.Mixed(4 * i < self.n)

    def features(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class AdaptersOnTheStream(Model):
    """Behind each layer an adapter that reads the stream as it is."""

    def __init__(self, n=None):
        super().__init__(n)
        self.adapters = nn.ModuleList(nn.Sequential(lin(D, 16), nn.ReLU(), lin(16, D)) for _ in range(self.n))

    def features(self, x):
        for block, adapter in zip(self.blocks, self.adapters):
            x = block(x)
            x = x + adapter(x)
        return x


class EveryOtherCarried(Model):
    """Blocks come in twos: the sum is made around both, and they have their own skips."""
    depth = 24

    def features(self, x):
        blocks = list(self.blocks)
        for first, second in zip(blocks[::2], blocks[1::2]):
            x = x + second(first(x))
        return x


class MeanOfLastTwo(Model):
    """Each block starts from the mean of the two states before it."""
    depth = 24

    def features(self, x):
        before = x
        for block in self.blocks:
            before, x = x, block(0.5 * (x + before))
        return x


class HeadOnEarlierState(Model):
    """The list of states is read one too early: the last block is lost."""
    depth = 8

    def features(self, x):
        all_hidden_states = (x,)
        for block in self.blocks:
            all_hidden_states += (block(all_hidden_states[-1]),)
        return all_hidden_states[-2]


_M = dict(kind="model")
_F = dict(logits_bounded={0: False})
_PRE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True, **_F)
_SOFT = dict(kind="model", softmax=True, **_F)
_GROWS = dict(growth_fixed="exponential", gradient_law="exponential")
TRUTH = {
    "TwoTowersSummed": dict(_PRE, identity_gain=2.0, why="both carry what came in."),
    "TwoTowersAveraged": dict(_PRE, why="half of twice."),
    "EmbeddingScaledTwice": dict(_PRE, identity_gain=32.0, depth=6, why="root d twice."),
    "AlwaysFromTheEmbedding": dict(_SOFT, identity_gain=1.0, growth_fixed="bounded", why="the embedding and one branch."),
    "OnlyTheLastCounts": dict(_SOFT, identity_gain=1.0, growth_fixed="bounded", why="one block of the input."),
    "SmoothedStates": dict(_PRE, depth=24, why="0.8 and 0.2 are 1."),
    "SmoothedBranches": dict(_SOFT, identity_gain=0.8 ** 24, growth_fixed="bounded", depth=24, why="0.8 a layer."),
    "FirstWithoutSkip": dict(_SOFT, identity_gain=0.0, growth_fixed="linear", why="nothing goes around the first layer."),
    "StackedHourglasses": dict(_SOFT, identity_gain=2.0 ** 24, **_GROWS, why="what is equal over pairs is doubled each time."),
    "StackedDifferences": dict(_PRE, why="the difference is a branch."),
    "SkipByLayerNumber": dict(_SOFT, identity_gain=0.2, depth=24, why="the product is the root of 1/25."),
    "MultiplierOnTheWrongSide": dict(_SOFT, identity_gain=0.22 ** 24, growth_fixed="bounded", depth=24, why="0.22 a layer."),
    "MultiplierOnTheRightSide": dict(_PRE, depth=24, why="pre-norm."),
    "NormBeforeLast": dict(_SOFT, identity_gain=None, growth_fixed="bounded", why="a norm and one block behind it."),
    "NineTenthsAndTwo": dict(_SOFT, identity_gain=2 - 0.9 ** 24, growth_fixed="bounded", depth=24, why="g = 0.9 g + 0.2 from 1."),
    "QuarterPostNorm": dict(_SOFT, identity_gain=None, growth_fixed="linear", depth=12, why="norms on the stream, then pre-norm."),
    "AdaptersOnTheStream": dict(_SOFT, identity_gain=1.0, growth_fixed="exponential", why="a raw net a layer."),
    "EveryOtherCarried": dict(_SOFT, identity_gain=2.0 ** 12, **_GROWS, why="2 for each two blocks."),
    "MeanOfLastTwo": dict(_PRE, depth=24, why="means of ones are one."),
    "HeadOnEarlierState": dict(_PRE, why="pre-norm."),
}
