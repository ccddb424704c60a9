"""Whole models of 24 layers, built in other ways than a ModuleList of blocks in a plain loop."""

import functools
import math
import operator

import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


def dense(d_in, d_out, gain=1.0):
    lin = nn.Linear(d_in, d_out)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


def inner(act=nn.GELU, gain=1.0):
    return nn.Sequential(dense(D, 2 * D), act(), dense(2 * D, D, gain))


class Pre(nn.Module):
    def __init__(self, act=nn.GELU):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D), inner(act)

    def forward(self, x):
        return self.body(self.norm(x))


def add_input(module, args, output):
    return args[0] + output


class HookedResidual(nn.Module):
    """The residual add lives in a forward hook."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.Sequential(*(Pre() for _ in range(n)))
        for b in self.blocks:
            b.register_forward_hook(add_input)

    def forward(self, x):
        return self.blocks(x)


class HookedTwice(HookedResidual):
    """A subclass that registers the hook once more, to be sure."""

    def __init__(self, n=24):
        super().__init__(n)
        for _, b in self.blocks.named_children():
            b.register_forward_hook(add_input)


class AnchoredChain(nn.Module):
    """Each layer reads the layer below and adds to the input of the model, not to what it read."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n))

    def forward(self, x):
        def below(i):
            return x if i == 0 else x + self.blocks[i - 1](below(i - 1))

        return below(len(self.blocks))


class StringDispatch(nn.Module):
    """Norm and activation differ from layer to layer, chosen by name; each layer is pre-norm."""

    norms = ("LayerNorm", "RMSNorm", "hand", "GroupNorm")
    acts = ("gelu", "relu", "silu")

    def __init__(self, n=24):
        super().__init__()
        self.n = n
        for i in range(n):
            self.add_module(f"up_{i}", dense(D, 2 * D))
            self.add_module(f"down_{i}", dense(2 * D, D))

    def norm(self, kind, x):
        if kind == "LayerNorm":
            return F.layer_norm(x, (D,))
        if kind == "RMSNorm":
            return F.rms_norm(x, (D,))
        if kind == "GroupNorm":
            return F.group_norm(x.flatten(0, 1), 4).view_as(x)
        return x * math.sqrt(D) / (x.norm(dim=-1, keepdim=True) + 1e-8)

    def forward(self, x):
        for i in range(self.n):
            h = self.norm(self.norms[i % 4], x)
            h = getattr(F, self.acts[i % 3])(self.get_submodule(f"up_{i}")(h))
            x = x + self.get_submodule(f"down_{i}")(h)
        return x


class EveryThirdBare(nn.Module):
    """Every third layer was left without its norm."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleDict({f"layer{i}": Pre() for i in range(n)})
        for i, b in enumerate(self.blocks.values()):
            if i % 3 == 2:
                b.norm = nn.Identity()

    def forward(self, x):
        return functools.reduce(lambda s, b: s + b(s), self.blocks.values(), x)


class LateBinding(nn.Module):
    """Closures made in a loop: all of them see the last index."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n))
        self.steps = []
        for i in range(n):
            self.steps.append(lambda s: s + self.blocks[i](s))

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


class FadingAmplifier(nn.Module):
    """The stream is amplified by 1 + 1/(l+1)^2 at layer l: the product converges."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n))

    def forward(self, x):
        for i, b in enumerate(self.blocks):
            x = torch.addcdiv(x, x, x.new_full((), float(i + 1) ** 2)) + b(x)
        return x


class OneInFour(nn.Module):
    """Three layers of gain one, then a layer that adds its input at 3/2."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n))
        self.gains = [1.5 if i % 4 == 3 else 1.0 for i in range(n)]

    def forward(self, x):
        todo = list(zip(self.gains, self.blocks))
        while todo:
            g, b = todo.pop(0)
            x = torch.add(b(x), x, alpha=g)
        return x


class LadderOfSkips(nn.Module):
    """U-Net on one scale: the second half adds the states of the first half, last in first out."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n))

    def forward(self, x):
        half, kept = len(self.blocks) // 2, []
        for b in self.blocks[:half]:
            kept.append(x)
            x = x + b(x)
        for b in self.blocks[half:]:
            x = x + kept.pop()
            x = x + b(x)
        return x


def residual(weight):
    def wrap(forward):
        @functools.wraps(forward)
        def run(self, x):
            return x * weight + forward(self, x)
        return run
    return wrap


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = Pre()

    @residual(1.0)
    def forward(self, x):
        return self.pre(x)


class Tuned(Plain):
    """Overrides the forward for the sake of a decorator: the parent's is decorated already."""

    @residual(0.5)
    def forward(self, x):
        return super().forward(x)


class DecoratedTwice(nn.Module):
    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.Sequential(*(Tuned() for _ in range(n)))

    def forward(self, x):
        return self.blocks(x)


class AllAtOnce(nn.Module):
    """24 branches on the same input, one stacked tensor for all of them, vmapped and summed."""

    def __init__(self, n=24):
        super().__init__()
        self.up = nn.Parameter(torch.randn(n, 2 * D, D) * D ** -0.5)
        self.down = nn.Parameter(torch.randn(n, D, 2 * D) * (2 * D) ** -0.5)

    def forward(self, x):
        h = F.layer_norm(x, (D,))
        one = lambda u, d: F.linear(F.gelu(F.linear(h, u)), d)
        return x + torch.func.vmap(one)(self.up, self.down).sum(0)


class OneBodyManyTimes(nn.Module):
    """One set of weights, applied 24 times; norms on both sides of it."""

    def __init__(self, n=24):
        super().__init__()
        self.n, self.body = n, nn.Sequential(nn.LayerNorm(D), inner(), nn.RMSNorm(D))

    def forward(self, x):
        t = 0
        while t < self.n:
            x, t = x + self.body(x), t + 1
        return x


class CouplingChain(nn.Module):
    """Additive couplings of two halves of the channels; even layers write right, odd layers left."""

    normed = True

    def __init__(self, n=24):
        super().__init__()
        half = D // 2
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(half) if self.normed else nn.Identity(), dense(half, D, 1.5), nn.SiLU(), dense(D, half, 1.5))
            for _ in range(n))

    def forward(self, x):
        sides = list(x.chunk(2, -1))
        for i, b in enumerate(self.blocks):
            sides[i % 2] = sides[i % 2] + b(sides[1 - i % 2])
        return torch.cat(sides, -1)


class BareCoupling(CouplingChain):
    """The same chain without norms: invertible, and nothing else."""

    normed = False


TRUTH = {
    "HookedResidual": dict(kind="model", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False,
        why="the hook replaces F(N(x)) by x + F(N(x)): pre-norm.", tempts="a chain without any identity path"),
    "HookedTwice": dict(kind="model", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="the second hook adds the input to x + F: 2x + F at each layer.", tempts="pre-norm"),
    "AnchoredChain": dict(kind="model", identity_gain=1.0, growth_fixed="bounded", gradient_law="exponential", softmax=False,
        why="the output is x + F_24(...): the input passes once, one branch is added, whatever the depth; between layers there is no identity path.",
        tempts="a residual add per layer: pre-norm, linear"),
    "StringDispatch": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="four kinds of norm over features (GroupNorm per token and group), each in front of its branch.", tempts="heterogeneous, a norm over tokens"),
    "EveryThirdBare": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", softmax=False,
        why="eight layers without a norm multiply the size by a factor above 1 each, however large the stream is.", tempts="pre-norm: linear"),
    "LateBinding": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="the last layer's weights 24 times (tied depth): pre-norm still.", tempts="24 layers of their own"),
    "FadingAmplifier": dict(kind="model", identity_gain=math.prod(1 + 1 / (i + 1) ** 2 for i in range(24)), growth_fixed="linear", softmax=False,
        why="prod (1 + 1/n^2) converges to sinh(pi)/pi = 3.68; 3.53 for 24 layers.", tempts="gain above one at each layer: exponential; or 2^24 from the first layer"),
    "OneInFour": dict(kind="model", identity_gain=1.5 ** 6, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="six of the 24 layers have gain 1.5.", tempts="gain 1 (from the first layer) or 1.5^24"),
    "LadderOfSkips": dict(kind="model", identity_gain=13.0, growth_fixed="polynomial", gradient_law="power", softmax=False,
        why="x plus twelve kept states: 13 times the input; branch j of the first half is counted 13 - j times: N^1.5 to N^2.", tempts="2^12, or 1"),
    "DecoratedTwice": dict(kind="model", identity_gain=1.5 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False,
        why="0.5x + (x + F): 1.5 per layer.", tempts="0.5^24, or 1"),
    "AllAtOnce": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="x + sum of 24 bounded branches of the same normed input: at most linear in their number.", tempts="one block of depth one, or unknown (vmap)"),
    "OneBodyManyTimes": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={"0": True}, softmax=False,
        why="each step adds a vector of rms 1: at most linear whatever the weights.", tempts="a recurrent net: exponential"),
    "CouplingChain": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="each half gets bounded additions only.", tempts="branches write to half of the stream: no stream"),
    "BareCoupling": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", softmax=False,
        why="(a, b) -> (a + F(b), b) in turn with F of degree 1 at large size: the products grow exponentially.", tempts="volume-preserving and invertible, so stable"),
}
