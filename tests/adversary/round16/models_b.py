"""Small whole models with a slip in how layers are put together, and some that only look like one; blocks of stages at the end."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def fc(i, o, std=None):
    w = nn.Linear(i, o, bias=False)
    nn.init.normal_(w.weight, std=std or i ** -0.5)
    return w


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = fc(D, 3 * D), fc(D, D)

    def forward(self, x):
        q, k, v = (t.view(*x.shape[:2], H, HD).transpose(1, 2) for t in self.c_attn(x).split(D, dim=2))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = fc(D, 64), fc(64, D)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(D), CausalSelfAttention(), nn.LayerNorm(D), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.n, self.h, self.ln_f = n, nn.ModuleList(self.make() for _ in range(n)), nn.LayerNorm(D)

    def make(self):
        return Block()

    def features(self, x):
        for block in self.h:
            x = block(x)
        return x

    def forward(self, x):
        return self.ln_f(self.features(x))


# ------------------------------------------------------------ initialisation
class HalfOfTheInit(Gpt):
    """Output maps are to be scaled by depth, by a name that the nets' maps do not have."""

    def __init__(self, n=6):
        super().__init__(n)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, std=0.02 / (2 * n) ** 0.5)


class InitWithoutTwo(Gpt):
    """By the root of the number of blocks, with two sums in each."""

    def __init__(self, n=6):
        super().__init__(n)
        for name, p in self.named_parameters():
            if name.endswith(("c_proj.weight", "fc2.weight")):
                nn.init.normal_(p, std=D ** -0.5 * n ** -0.5)


class InitBeforeLayers(Gpt):
    """The scaling is done to what a loop over no modules finds: `apply` runs before there are blocks."""

    def __init__(self, n=6):
        nn.Module.__init__(self)
        self.n = n
        self.apply(self.scale)
        self.h, self.ln_f = nn.ModuleList(Block() for _ in range(n)), nn.LayerNorm(D)

    def scale(self, m):
        if isinstance(m, Mlp):
            m.fc2.weight.data.mul_((2 * self.n) ** -0.5)


# ------------------------------------------------------------ lanes
class MixedLane(nn.Module):
    def __init__(self, axis, lanes=4):
        super().__init__()
        self.axis, self.norm, self.body = axis, nn.LayerNorm(D), Mlp()
        self.logits, self.write = nn.Parameter(torch.randn(lanes, lanes)), nn.Parameter(torch.ones(lanes))

    def forward(self, lanes):
        out = self.body(self.norm(lanes.mean(dim=2)))
        mixed = torch.softmax(self.logits, dim=self.axis) @ lanes.transpose(1, 2).flatten(2)
        return mixed.view(lanes.shape[0], -1, T, D).transpose(1, 2) + self.write[:, None] * out[:, :, None]


class ColumnsOfShares(nn.Module):
    """Lanes are mixed by a softmax over the wrong axis: columns sum to one, rows do not; the mean over lanes is kept all the same."""

    axis = 0

    def __init__(self, n=6):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(MixedLane(self.axis) for _ in range(n)), nn.LayerNorm(D)

    def join(self, lanes):
        return lanes.mean(dim=2)

    def features(self, x):
        lanes = x[:, :, None].expand(-1, -1, 4, -1)
        for layer in self.layers:
            lanes = layer(lanes)
        return self.join(lanes)

    def forward(self, x):
        return self.norm(self.features(x))


class RowsOfSharesSummed(ColumnsOfShares):
    """Rows sum to one; the lanes are summed at the end."""

    axis = 1

    def join(self, lanes):
        return lanes.sum(dim=2)


# ------------------------------------------------------------ memories, conditions
class MemoryIntoNorm(Gpt):
    """A moving mean of states is added in front of the layers' norms only."""

    def make(self):
        block = Block()
        del block.attn, block.ln_1
        return block

    def features(self, x):
        memory = torch.zeros_like(x)
        for block in self.h:
            x = x + block.mlp(block.ln_2(x + memory))
            memory = 0.9 * memory + 0.1 * x
        return x


class MemoryOntoStream(Gpt):
    """A tenth of it is added to the stream."""

    def __init__(self, n=24):
        super().__init__(n)

    def make(self):
        block = Block()
        del block.attn, block.ln_1
        return block

    def features(self, x):
        memory = torch.zeros_like(x)
        for block in self.h:
            x = x + block.mlp(block.ln_2(x)) + 0.1 * memory
            memory = 0.9 * memory + 0.1 * x
        return x


class ConditionEveryLayer(Gpt):
    """A map of the raw embedding is added behind every block."""

    def __init__(self, n=6):
        super().__init__(n)
        self.cond = nn.ModuleList(fc(D, D) for _ in range(n))

    def features(self, x):
        x0 = x
        for block, cond in zip(self.h, self.cond):
            x = block(x) + cond(x0)
        return x


# ------------------------------------------------------------ what goes out
class NoisePredicted(Gpt):
    """The input less what a stack with skips makes of it: the input is taken off itself."""

    def features(self, x):
        noise = x
        for block in self.h:
            noise = block(noise)
        return x - noise

    def forward(self, x):
        return self.features(x)


class Extrapolated(Gpt):
    """Twice the whole stack less its first half."""

    def features(self, x):
        half = self.n // 2
        for block in self.h[:half]:
            x = block(x)
        coarse = x
        for block in self.h[half:]:
            x = block(x)
        return 2.0 * x - coarse

    def forward(self, x):
        return self.features(x)


class ExtrapolatedWrongSign(Extrapolated):
    """Plus."""

    def features(self, x):
        half = self.n // 2
        for block in self.h[:half]:
            x = block(x)
        coarse = x
        for block in self.h[half:]:
            x = block(x)
        return 2.0 * x + coarse


class EverySecondCalled(Gpt):
    """Twelve are built, a step of two in the loop."""

    def __init__(self, n=12):
        super().__init__(n)

    def features(self, x):
        for i in range(0, self.n, 2):
            x = self.h[i](x)
        return x


class FactorOutside(Gpt):
    """The layer has its skips; the loop multiplies by a factor and adds the layer, and norms: post-norm around pre-norm."""

    def __init__(self, n=6):
        super().__init__(n)
        self.alpha, self.norms = (2 * n) ** 0.25, nn.ModuleList(nn.LayerNorm(D) for _ in range(n))

    def features(self, x):
        for block, norm in zip(self.h, self.norms):
            x = norm(x * self.alpha + block(x))
        return x

    def forward(self, x):
        return self.features(x)


class LayerAndSkip(Gpt):
    """The loop adds what the layer has added already, and takes the mean."""

    def features(self, x):
        for block in self.h:
            x = (x + block(x)) / 2
        return x


class LayerOrSkip(Gpt):
    """A trained share of the layer and one minus it of what came in, started in the middle."""

    def __init__(self, n=6):
        super().__init__(n)
        self.gain_mix = nn.Parameter(torch.zeros(n))

    def features(self, x):
        for share, block in zip(self.gain_mix.sigmoid(), self.h):
            x = share * block(x) + (1 - share) * x
        return x


class ScaledForDepthTwice(Gpt):
    """Each branch over the root of its number, and the whole stream over it, too."""

    def __init__(self, n=6):
        super().__init__(n)

    def features(self, x):
        for i, block in enumerate(self.h, 1):
            a = block.attn(block.ln_1(x)) / i ** 0.5
            x = (x + a) / i ** 0.5
            x = x + block.mlp(block.ln_2(x)) / i ** 0.5
        return x


class OneScalarForAll(Gpt):
    """One trained number, which starts at zero, for the raw branches of all layers."""

    def __init__(self, n=8):
        super().__init__(n)
        self.alpha = nn.Parameter(torch.zeros(()))

    def features(self, x):
        for block in self.h:
            x = x + self.alpha * block.attn(x)
            x = x + self.alpha * block.mlp(x)
        return x


class OneScalarFromOne(OneScalarForAll):
    """Which starts at one."""

    def __init__(self, n=12):
        super().__init__(n)
        nn.init.ones_(self.alpha)


# ------------------------------------------------------------ blocks of stages
class ResidualInResidual(nn.Module):
    """ESRGAN: three nets with skips, a fifth of all of it on top of what came in: what came in is there with one and a fifth."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Conv1d(D, 24, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv1d(24, D, 3, padding=1)) for _ in range(3))

    def forward(self, x):
        x = x.transpose(1, 2)
        out = x
        for net in self.nets:
            out = net(out) * 0.2 + out
        return (out * 0.2 + x).transpose(1, 2)


class ResidualGroupNormed(nn.Module):
    """Two pre-norm nets, a normed map of their sum, and the group's skip: the map is free of the skip."""

    def __init__(self):
        super().__init__()
        self.blocks_, self.norms, self.tail_norm, self.tail = nn.ModuleList(Mlp() for _ in range(2)), nn.ModuleList(nn.LayerNorm(D) for _ in range(2)), nn.LayerNorm(D), fc(D, D)

    def forward(self, x):
        res = x
        for norm, block in zip(self.norms, self.blocks_):
            res = res + block(norm(res))
        return self.tail(self.tail_norm(res)) + x


class ResidualGroup(ResidualGroupNormed):
    """The norm in front of the tail is forgotten: a map of the raw stream."""

    def forward(self, x):
        res = x
        for norm, block in zip(self.norms, self.blocks_):
            res = res + block(norm(res))
        return self.tail(res) + x


def memory_gain(n):
    x, m = 1.0, 0.0
    for _ in range(n):
        x = x + 0.1 * m
        m = 0.9 * m + 0.1 * x
    return x


_M = dict(kind="model")
_F = dict(logits_bounded={0: False})
_BARE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_PRE = dict(_BARE, **_F)
_CONV = dict(_BARE, softmax=False)
TRUTH = {
    "HalfOfTheInit": dict(_PRE, depth=6, gradient_law="power", why="pre-norm; nets are not scaled."),
    "InitWithoutTwo": dict(_M, identity_gain=1.0, softmax=True, depth=6, **_F, why="pre-norm; no word on growth, as weights are drawn for a depth."),
    "InitBeforeLayers": dict(_PRE, depth=6, why="pre-norm; nothing is scaled."),
    "ColumnsOfShares": dict(_M, identity_gain=1.0, growth_fixed="linear", depth=6, why="columns sum to one, so the mean over lanes is kept."),
    "RowsOfSharesSummed": dict(_M, identity_gain=4.0, growth_fixed="linear", depth=6, why="four lanes that each carry the input."),
    "MemoryIntoNorm": dict(_CONV, depth=6, why="pre-norm."),
    "MemoryOntoStream": dict(_M, identity_gain=memory_gain(24), growth_fixed="exponential", softmax=False, gradient_law="exponential", why="the largest root of the pair is 1.06."),
    "ConditionEveryLayer": dict(_PRE, depth=6, gradient_law="power", why="one more map of the embedding in each block."),
    "NoisePredicted": dict(_PRE, identity_gain=0.0, why="one less one."),
    "Extrapolated": dict(_PRE, why="two less one."),
    "ExtrapolatedWrongSign": dict(_PRE, identity_gain=3.0, why="two and one."),
    "EverySecondCalled": dict(_PRE, depth=6, why="pre-norm; six are run."),
    "FactorOutside": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, depth=6, **_F, why="a norm behind each sum."),
    "LayerAndSkip": dict(_PRE, depth=6, gradient_law="power", why="half of two; branches are halved."),
    "LayerOrSkip": dict(_PRE, depth=6, why="shares sum to one."),
    "ScaledForDepthTwice": dict(_M, identity_gain=720 ** -0.5, gain_at=6, growth_fixed="bounded", softmax=True, **_F, why="one over the root of n factorial."),
    "OneScalarForAll": dict(_M, identity_gain=1.0, growth_fixed="bounded", softmax=True, depth=8, output_bounded={0: False, 1: False}, **_F, why="nothing is added at the start."),
    "OneScalarFromOne": dict(_M, identity_gain=1.0, growth_fixed="exponential", softmax=True, depth=12, output_bounded={0: False, 1: False}, **_F, why="raw branches."),
    "ResidualInResidual": dict(kind="block", identity_gain=1.2 ** 24, growth_fixed="exponential", softmax=False, why="one and a fifth."),
    "ResidualGroupNormed": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False, why="the tail reads a norm."),
    "ResidualGroup": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False, why="a map of the raw stream is a raw branch."),
}
