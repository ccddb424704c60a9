"""Ways of writing a skip: bases, hooks, parallel branches, fixed matrices, complex numbers, states in dictionaries; and slips in them."""

import functools
from dataclasses import dataclass, replace

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=True):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def net(n_in=D, n_out=D, norm=True):
    return nn.Sequential(*([nn.LayerNorm(n_in)] if norm else []), dense(n_in, 2 * D), nn.GELU(), dense(2 * D, n_out))


class One(nn.Module):
    """One normed net; a subclass says how it is joined."""

    def __init__(self):
        super().__init__()
        self.f = net()

    def forward(self, x):
        return self.join(x, self.f(x))


class StackThenSum(One):
    def join(self, x, y):
        return torch.stack([x, y]).sum(0)


class StackThenMean(One):
    def join(self, x, y):
        return torch.stack([x, y]).mean(0)


class ViewThenSum(One):
    """Side by side, and the two halves are summed by a view."""

    def join(self, x, y):
        return torch.cat([x, y], -1).view(*x.shape[:-1], 2, D).sum(-2)


class ViewThenSumWrong(One):
    """The view takes neighbours together: (x1 + x2, x3 + x4, ..., y1 + y2, ...)."""

    def join(self, x, y):
        return torch.cat([x, y], -1).view(*x.shape[:-1], D, 2).sum(-1)


class SkipByMatrix(One):
    """A fixed matrix joins both: [I, I]."""

    def __init__(self):
        super().__init__()
        self.register_buffer("both", torch.cat([torch.eye(D), torch.eye(D)], 1), persistent=False)

    def join(self, x, y):
        return F.linear(torch.cat([x, y], -1), self.both.to(x.dtype))


class MatrixOfInit(One):
    """The joining map is trained and starts at [I, 0]."""

    def __init__(self):
        super().__init__()
        self.both = nn.Linear(2 * D, D, bias=False)
        with torch.no_grad():
            self.both.weight.copy_(torch.cat([torch.eye(D), torch.zeros(D, D)], 1))

    def join(self, x, y):
        return self.both(torch.cat([x, y], -1))


class AlphaAdd(One):
    def join(self, x, y):
        return torch.sub(x, y, alpha=-0.5)


class AlphaOfStream(One):
    """By slip the arguments are swapped: alpha is on the stream."""

    def join(self, x, y):
        return torch.add(y, x, alpha=0.5)


class IndexAdded(One):
    """Even tokens alone are updated."""

    def join(self, x, y):
        even = torch.arange(0, T, 2, device=x.device)
        return x.index_add(1, even, y[:, ::2])


class IndexAddedTwice(One):
    """The same places stand twice in the index, with the stream itself as source."""

    def join(self, x, y):
        places = torch.arange(T, device=x.device)
        return x.index_add(1, torch.cat([places, places]), torch.cat([0.1 * x, y], 1))


class WhereUpdated(One):
    """Tokens that are masked are left."""

    def join(self, x, y):
        keep = (torch.arange(T, device=x.device) % 3 == 0).view(1, T, 1)
        return torch.where(keep, x, x + y)


class WhereInstead(One):
    """Tokens that are not masked are replaced by the branch."""

    def join(self, x, y):
        keep = (torch.arange(T, device=x.device) % 3 == 0).view(1, T, 1)
        return torch.where(keep, x, y)


class GainedStream(One):
    """The stream passes by a trained vector that starts at 1."""

    start = 1.0

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((D,), self.start))

    def join(self, x, y):
        return torch.einsum("...d,d->...d", x, self.gamma) + y


class GainedStreamHigh(GainedStream):
    """... at 1.02."""

    start = 1.02


class LerpTrained(One):
    """lerp by a sigmoid of one number that starts at -3."""

    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(-3.0))

    def join(self, x, y):
        return torch.lerp(x, y, torch.sigmoid(self.g))


class ComplexTurn(One):
    """Pairs of channels are turned by fixed angles in every block."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angle", torch.linspace(0.1, 2.0, D // 2), persistent=False)

    def join(self, x, y):
        z = torch.view_as_complex(x.view(*x.shape[:-1], D // 2, 2))
        return torch.view_as_real(z * torch.polar(torch.ones_like(self.angle), self.angle)).flatten(-2) + y


class ComplexSpiral(ComplexTurn):
    """... and stretched by 1.05."""

    def join(self, x, y):
        z = torch.view_as_complex(x.view(*x.shape[:-1], D // 2, 2))
        return torch.view_as_real(z * torch.polar(torch.full_like(self.angle, 1.05), self.angle)).flatten(-2) + y


class ShiftedChannels(One):
    """A quarter of the channels comes from the token before, a quarter from the one behind (zeros at the ends)."""

    def join(self, x, y):
        a, b, c = x.split([8, 8, 16], -1)
        return torch.cat([F.pad(a, (0, 0, 1, -1)), F.pad(b, (0, 0, -1, 1)), c], -1) + y


class SumOfList(One):
    """Python's sum over parallel branches, the stream among them."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(net() for _ in range(3))

    def forward(self, x):
        return sum([x, *(b(x) for b in self.branches)])


class SumOfListTwice(SumOfList):
    """The stream is the start of the sum, too."""

    def forward(self, x):
        return sum((x, *(b(x) for b in self.branches)), x)


class GradientHalf(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return 0.5 * g


class HalfBackward(One):
    """The skip's gradient is halved by a function of its own; the value is not."""

    def join(self, x, y):
        return GradientHalf.apply(x) + y


class HalfDetached(One):
    """Half of the skip is detached."""

    def join(self, x, y):
        return 0.5 * x + 0.5 * x.detach() + y


class BranchHalfBackward(One):
    """The branch's gradient is halved."""

    def join(self, x, y):
        return x + GradientHalf.apply(y)


# ---- classes and functions
class ResidualSequential(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class SequentialBlock(nn.Module):
    """Two residual sequentials."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(ResidualSequential(*net()), ResidualSequential(*net()))

    def forward(self, x):
        return self.body(x)


class NestedSequential(SequentialBlock):
    """One residual sequential inside of another: the inner skip makes the outer branch twice as large a stream."""

    def __init__(self):
        super().__init__()
        self.body = ResidualSequential(ResidualSequential(*net()))


def residual(scale=1.0):
    def wrap(forward):
        @functools.wraps(forward)
        def call(self, x, *args, **kwargs):
            return x + scale * forward(self, x, *args, **kwargs)
        return call
    return wrap


class Decorated(One):
    @residual(0.5)
    def forward(self, x):
        return self.f(x)


class DecoratedInput(One):
    """By slip the branch returns its input with its output."""

    @residual(0.5)
    def forward(self, x):
        return x + self.f(x)


@dataclass
class Carried:
    hidden: torch.Tensor
    pair: torch.Tensor | None = None


class DataclassState(nn.Module):
    """States in a frozen record, replaced in each layer."""

    class Layer(One):
        def forward(self, state):
            return replace(state, hidden=state.hidden + self.f(state.hidden))

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer() for _ in range(n))

    def forward(self, x):
        state = Carried(x)
        for block in self.blocks:
            state = block(state)
        return state.hidden


class DictOfTwo(nn.Module):
    """Hidden and residual in a dictionary: the add is made at the start of the next layer."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(net(norm=False) for _ in range(n))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(n))

    def forward(self, x):
        s = {"hidden": x, "residual": None}
        for block, norm in zip(self.blocks, self.norms):
            s["residual"] = s["hidden"] if s["residual"] is None else s["hidden"] + s["residual"]
            s["hidden"] = block(norm(s["residual"]))
        return s["hidden"] + s["residual"]


class DictNoLastAdd(DictOfTwo):
    """The last add is forgotten."""

    def forward(self, x):
        s = {"hidden": x, "residual": None}
        for block, norm in zip(self.blocks, self.norms):
            s["residual"] = s["hidden"] if s["residual"] is None else s["hidden"] + s["residual"]
            s["hidden"] = block(norm(s["residual"]))
        return s["hidden"]


class ChannelFirst(nn.Module):
    """The whole stream is channel-first; norms permute."""

    class Norm(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(self.Norm(D), nn.Conv1d(D, D, 3, padding=1, groups=D), nn.Conv1d(D, 2 * D, 1), nn.GELU(),
            nn.Conv1d(2 * D, D, 1))
                                    for _ in range(n))

    def forward(self, x):
        x = x.transpose(1, 2)
        for block in self.blocks:
            x = x + block(x)
        return x.transpose(1, 2)


class Checkpointed(nn.Module):
    """Each block is recomputed; the loop goes by while and pop."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(One() for _ in range(n))
        for block in self.blocks:
            block.join = lambda x, y: x + y

    def forward(self, x):
        queue = list(self.blocks)[::-1]
        while queue:
            x = checkpoint(queue.pop(), x, use_reentrant=False)
        return x


class TorchEncoder(nn.Module):
    """The library's encoder with its own norm at the end, norm first."""

    def __init__(self, n=24):
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, n, norm=nn.LayerNorm(D), enable_nested_tensor=False)
        self.blocks = self.encoder.layers

    def forward(self, x):
        return self.encoder(x)


class TorchDecoder(nn.Module):
    """The library's decoder layers, norm first, on a trained memory."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.TransformerDecoderLayer(D, H, 2 * D, dropout=0.0, batch_first=True, norm_first=True) for _ in range(n))
        self.memory = nn.Parameter(torch.randn(1, 4, D))

    def forward(self, x):
        memory = self.memory.expand(x.shape[0], -1, -1)
        for block in self.blocks:
            x = block(x, memory)
        return x


class TorchTransformer(nn.Module):
    """nn.Transformer on the sequence and itself, as it comes: post-norm."""

    def __init__(self, n=24):
        super().__init__()
        self.body = nn.Transformer(D, H, n, n, 2 * D, dropout=0.0, batch_first=True)
        self.blocks = self.body.decoder.layers

    def forward(self, x):
        return self.body(x, x)


class HalfResidual(nn.Module):
    """Attention without a skip in front of a feed-forward net with one."""

    def __init__(self):
        super().__init__()
        self.n1, self.attn, self.f = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True), net()

    def forward(self, x):
        y = self.n1(x)
        x = self.attn(y, y, y, need_weights=False)[0]
        return x + self.f(x)


class SkipFromNormed(One):
    """The name x is the normed one when the skip is taken."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), net(norm=False)

    def forward(self, x):
        x = self.norm(x)
        return x + self.f(x)


class SkipOfSecond(One):
    """The second sublayer adds the block's input, not its own."""

    def __init__(self):
        super().__init__()
        self.g = net()

    def forward(self, x):
        h = x + self.f(x)
        return x + self.g(h)


class SkipOfBoth(SkipOfSecond):
    """... both."""

    def forward(self, x):
        h = x + self.f(x)
        return x + h + self.g(h)


class ShortcutIdentity(nn.Module):
    """A residual unit with an optional shortcut, as in ResNets; no norm of the stream, batch norms in the branch."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm1d(D), nn.ReLU(), nn.Conv1d(D, D, 3, padding=1, bias=False), nn.BatchNorm1d(D), nn.ReLU(),
                                  nn.Conv1d(D, D, 3, padding=1, bias=False))
        self.shortcut = nn.Identity()

    def forward(self, x):
        x = x.transpose(1, 2)
        return (self.shortcut(x) + self.body(x)).transpose(1, 2)


class BottleneckBetween(nn.Module):
    """Every third block maps the stream itself (a transition)."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(net() for _ in range(n))
        self.transitions = nn.ModuleList(dense(D, D) if i % 3 == 2 else nn.Identity() for i in range(n))

    def forward(self, x):
        for block, transition in zip(self.blocks, self.transitions):
            x = transition(x + block(x))
        return x


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_MODEL = dict(_LIN, kind="model")
_PAIRS = torch.cat([torch.eye(D).double(), torch.zeros(D, D).double()], 0).view(D, 2, D).sum(1)
TRUTH = {
    "StackThenSum": dict(_LIN, gradient_law="power", why="x + y.", tempts="-"),
    "StackThenMean": dict(_LIN, identity_gain=0.5 ** 24, growth_fixed="bounded", why="half.", tempts="gain 1"),
    "ViewThenSum": dict(_LIN, why="x + y.", tempts="-"),
    "ViewThenSumWrong": dict(kind="block", identity_gain=torch.linalg.matrix_norm(torch.linalg.matrix_power(_PAIRS, 24), 2).item(), softmax=False,
        why="sums of neighbours, the first half only.", tempts="gain 1"),
    "SkipByMatrix": dict(_LIN, why="x + y.", tempts="a map on the stream"),
    "MatrixOfInit": dict(kind="block", growth_fixed="bounded", softmax=False, why="the start is the identity without a branch.", tempts="-"),
    "AlphaAdd": dict(_LIN, why="x + y/2.", tempts="a gain of -1/2"),
    "AlphaOfStream": dict(_LIN, identity_gain=0.5 ** 24, growth_fixed="bounded", why="y + x/2.", tempts="gain 1"),
    "IndexAdded": dict(_LIN, why="odd tokens are kept.", tempts="-"),
    "IndexAddedTwice": dict(kind="block", identity_gain=1.1 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="1.1 x + y.", tempts="gain 1"),
    "WhereUpdated": dict(_LIN, why="x or x + y.", tempts="a jump"),
    "WhereInstead": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=False, why="x or y.", tempts="linear"),
    "GainedStream": dict(_LIN, why="1 at the start.", tempts="-"),
    "GainedStreamHigh": dict(kind="block", identity_gain=1.02 ** 24, growth_fixed="exponential", softmax=False, why="1.02.", tempts="gain 1"),
    "LerpTrained": dict(_LIN, identity_gain=torch.sigmoid(torch.tensor(3.0).double()).item() ** 24, growth_fixed="bounded",
        why="a share below one.", tempts="gain 1"),
    "ComplexTurn": dict(_LIN, growth_fixed=None, why="a turn.", tempts="a product with constants"),
    "ComplexSpiral": dict(kind="block", identity_gain=1.05 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="1.05.", tempts="gain 1"),
    "ShiftedChannels": dict(_LIN, why="half of the channels stays.", tempts="-"),
    "SumOfList": dict(_LIN, gradient_law="power", why="x once.", tempts="-"),
    "SumOfListTwice": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="x twice.", tempts="gain 1"),
    "HalfBackward": dict(_LIN, gradient_law="exponential", why="the value passes, its gradient is halved.", tempts="power"),
    "HalfDetached": dict(_LIN, gradient_law="exponential", why="the value passes, its gradient is halved.", tempts="power"),
    "BranchHalfBackward": dict(_LIN, why="the skip is whole.", tempts="exponential"),
    "SequentialBlock": dict(_LIN, gradient_law="power", why="two normed branches.", tempts="-"),
    "NestedSequential": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="x + (x + f(x)).", tempts="gain 1"),
    "Decorated": dict(_LIN, gradient_law="power", why="x + f/2.", tempts="-"),
    "DecoratedInput": dict(kind="block", identity_gain=1.5 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="x + (x + f)/2.", tempts="gain 1"),
    "DataclassState": dict(_MODEL, gradient_law="power", why="one state.", tempts="-"),
    "DictOfTwo": dict(_MODEL, gradient_law="power", why="the sum is returned.", tempts="two streams"),
    "DictNoLastAdd": dict(_MODEL, identity_gain=0.0, growth_fixed="bounded", why="the last branch alone.", tempts="gain 1"),
    "ChannelFirst": dict(_MODEL, gradient_law="power", why="x + f(x).", tempts="-"),
    "Checkpointed": dict(_MODEL, gradient_law="power", why="x + f(x).", tempts="-"),
    "TorchEncoder": dict(kind="model", identity_gain=None, growth_fixed="bounded", softmax=True, why="a norm ends it.", tempts="-"),
    "TorchDecoder": dict(_MODEL, softmax=True, why="pre-norm.", tempts="-"),
    "TorchTransformer": dict(kind="model", identity_gain=None, growth_fixed="bounded", softmax=True, why="post-norm.", tempts="-"),
    "HalfResidual": dict(kind="block", identity_gain=0.0, softmax=True, why="attention has no skip and reads a norm.", tempts="gain 1"),
    "SkipFromNormed": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="the skip is normed.", tempts="gain 1"),
    "SkipOfSecond": dict(_LIN, why="the first branch is read only.", tempts="linear in both"),
    "SkipOfBoth": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="2 x.", tempts="gain 1"),
    "ShortcutIdentity": dict(kind="block", identity_gain=None, softmax=False, why="-", tempts="-"),
    "BottleneckBetween": dict(kind="model", identity_gain=0.0, softmax=False, why="maps with weights stand on the stream.", tempts="gain 1"),
}
del TRUTH["ShortcutIdentity"]["identity_gain"]
