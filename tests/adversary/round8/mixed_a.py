"""Streams as papers of the last years build them: lanes, long skips, averages over depth, reused values, gates on the skip; and slips in them."""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


class FeedForward(nn.Module):
    def __init__(self, dim=D, mult=2, std=None):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.w_in, self.w_out = nn.Linear(dim, dim * mult), nn.Linear(dim * mult, dim)
        nn.init.normal_(self.w_in.weight, std=dim ** -0.5)
        nn.init.normal_(self.w_out.weight, std=(dim * mult) ** -0.5)

    def forward(self, x):
        return self.w_out(F.gelu(self.w_in(self.norm(x))))


class SelfAttention(nn.Module):
    """Plain pre-norm attention; a value of an earlier layer may be mixed in."""

    def __init__(self, dim=D, heads=H):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def split(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return [t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v)]

    def join(self, q, k, v):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1))

    def forward(self, x):
        return self.join(*self.split(x))


# ---- lanes
class HyperConnection(nn.Module):
    """Static hyper-connections: each layer reads one mix of four lanes and writes to all; lanes are mixed by a trained matrix that starts at the identity."""

    lanes = 4

    def __init__(self, index):
        super().__init__()
        self.layer = FeedForward()
        read = torch.zeros(self.lanes)
        read[index % self.lanes] = 1.0
        self.read, self.write = nn.Parameter(read), nn.Parameter(torch.ones(self.lanes))
        self.mix = nn.Parameter(self.first())

    def first(self):
        return torch.eye(self.lanes)

    def forward(self, h):
        y = self.layer(torch.einsum("n,nbtd->btd", self.read, h))
        return torch.einsum("mn,nbtd->mbtd", self.mix, h) + self.write.view(-1, 1, 1, 1) * y


class HyperConnected(nn.Module):
    unit = HyperConnection

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.unit(i) for i in range(n))

    def forward(self, x):
        h = x.unsqueeze(0).repeat(4, 1, 1, 1)
        for block in self.blocks:
            h = block(h)
        return h.sum(0)


class HalfOpenMix(HyperConnected):
    """The mix starts at the identity plus a hundredth everywhere."""

    class unit(HyperConnection):
        def first(self):
            return torch.eye(self.lanes) + 0.01


class MeanMix(HyperConnected):
    """The mix starts at the mean over the lanes."""

    class unit(HyperConnection):
        def first(self):
            return torch.full((self.lanes, self.lanes), 1.0 / self.lanes)


# ---- long skips
class ScalarUNet(nn.Module):
    """The second half adds the states of the first in reverse order, each times a trained scalar that starts at 1."""

    start = 1.0

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))
        self.skip_weights = nn.Parameter(torch.full((n // 2,), self.start))

    def forward(self, x):
        half, skips = len(self.blocks) // 2, []
        for i in range(half):
            x = x + self.blocks[i](x)
            skips.append(x)
        for i in range(half):
            x = x + self.skip_weights[i] * skips.pop()
            x = x + self.blocks[half + i](x)
        return x


class ScalarUNetClosed(ScalarUNet):
    """... that starts at 0."""

    start = 0.0


class EmbeddingLambdas(nn.Module):
    """x = l0 x + l1 x0 in front of each block."""

    lambdas = (1.0, 0.0)

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))
        self.lambdas_ = nn.ParameterList(nn.Parameter(torch.tensor(self.lambdas)) for _ in range(n))

    def forward(self, x):
        x0 = x
        for block, lam in zip(self.blocks, self.lambdas_):
            x = lam[0] * x + lam[1] * x0
            x = x + block(x)
        return x


class EmbeddingTenth(EmbeddingLambdas):
    """One, and a tenth."""

    lambdas = (1.0, 0.1)


class EmbeddingHalves(nn.Module):
    """Constants: one half each."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        x0 = x
        for block in self.blocks:
            x = 0.5 * (x + x0) + block(x)
        return x


class EveryThirdMerge(nn.Module):
    """Every third layer adds the state of three layers ago and halves."""

    factor = 0.5

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        saved = x
        for i, block in enumerate(self.blocks):
            x = x + block(x)
            if i % 3 == 2:
                x = self.factor * (x + saved)
                saved = x
        return x


class EveryThirdMergeSum(EveryThirdMerge):
    """The half was forgotten."""

    factor = 1.0


class LadderResidual(nn.Module):
    """The output of each layer is added one layer later, so that its communication may overlap."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        pending = None
        for block in self.blocks:
            y = block(x)
            if pending is not None:
                x = x + pending
            pending = y
        return x + pending


class StateOfTwoAgo(nn.Module):
    """Each layer is added to the mean of the last two states."""

    share = (0.5, 0.5)

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        a, b = self.share
        last = x
        for block in self.blocks:
            x, last = a * x + b * last + block(x), x
        return x


class StateOfTwoAgoMore(StateOfTwoAgo):
    """0.7 and 0.5."""

    share = (0.7, 0.5)


# ---- averages over depth
class DepthMean(nn.Module):
    """The input of each layer is the plain mean of all states so far."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        states = [x]
        for block in self.blocks:
            states.append(x + block(x))
            x = torch.stack(states).mean(dim=0)
        return x


class DepthSoftmax(nn.Module):
    """Depth-weighted average, the weights of which go through a softmax; it starts even."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))
        self.alphas = nn.ParameterList(nn.Parameter(torch.zeros(i + 2)) for i in range(n))

    def forward(self, x):
        states = [x]
        for block, alpha in zip(self.blocks, self.alphas):
            states.append(x + block(x))
            x = torch.tensordot(alpha.softmax(0), torch.stack(states, dim=0), dims=1)
        return x


class KeysOfAllLayers(nn.Module):
    """LIMe: each layer attends to a mean of all earlier states (trained shares, even at the start); its own state is the stream."""

    class Layer(nn.Module):
        def __init__(self, past):
            super().__init__()
            self.norm, self.norm_kv = nn.RMSNorm(D), nn.RMSNorm(D)
            self.q, self.kv, self.o = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)
            self.router = nn.Parameter(torch.full((past,), 1.0 / past))

        def forward(self, x, past):
            mixed = torch.einsum("l,lbtd->btd", self.router, torch.stack(past))
            q = self.q(self.norm(x)).unflatten(-1, (H, -1)).transpose(1, 2)
            k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.kv(self.norm_kv(mixed)).chunk(2, -1))
            return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer(i + 1) for i in range(n))

    def forward(self, x):
        past = []
        for block in self.blocks:
            past.append(x)
            x = x + block(x, past)
        return x


# ---- values and keys of earlier layers
class ValueLambda(nn.Module):
    """Values are a convex mix with those of the first layer, by a trained sigmoid."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(SelfAttention() for _ in range(n))
        self.mix = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        first = None
        for attn, m in zip(self.blocks, self.mix):
            q, k, v = attn.split(x)
            if first is None:
                first = v
            v = torch.lerp(v, first, m.sigmoid())
            x = x + attn.join(q, k, v)
        return x


class SharedKeysAndValues(nn.Module):
    """Cross-layer attention: every second layer makes keys and values, the next uses them again."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(SelfAttention() for _ in range(n))

    def forward(self, x):
        kv = None
        for i, attn in enumerate(self.blocks):
            q, k, v = attn.split(x)
            if i % 2 == 0:
                kv = k, v
            x = x + attn.join(q, *kv)
        return x


class ValuesAddUp(nn.Module):
    """Values are those of this layer plus all that came before: v += the carried ones."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(SelfAttention() for _ in range(n))

    def forward(self, x):
        carried = 0.0
        for attn in self.blocks:
            q, k, v = attn.split(x)
            carried = v + carried
            x = x + attn.join(q, k, carried)
        return x


# ---- gates and factors on the skip
class LaurelWeights(nn.Module):
    """LAuReL-RW: a x + b f(x), where (a, b) is a softmax of two trained numbers."""

    def __init__(self):
        super().__init__()
        self.f, self.logits = FeedForward(), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        a, b = torch.softmax(self.logits, dim=0)
        return a * x + b * self.f(x)


class LaurelTwice(LaurelWeights):
    """Times two, so that it starts as x + f(x)."""

    def forward(self, x):
        a, b = 2 * torch.softmax(self.logits, dim=0)
        return a * x + b * self.f(x)


class HaltingShare(nn.Module):
    """p y + (1 - p) x, where y = x + f(x) and p is a sigmoid of the normed token."""

    def __init__(self):
        super().__init__()
        self.f, self.norm, self.halt = FeedForward(), nn.LayerNorm(D), nn.Linear(D, 1)

    def forward(self, x):
        p = torch.sigmoid(self.halt(self.norm(x)))
        y = x + self.f(x)
        return p * y + (1 - p) * x


class HaltingRemainder(HaltingShare):
    """The remainder is 1.1 - p."""

    def forward(self, x):
        p = torch.sigmoid(self.halt(self.norm(x)))
        y = x + self.f(x)
        return p * y + (1.1 - p) * x


class ActivationScaled(nn.Module):
    """GPAS: the value of the sum is scaled down, its gradient is not. The scale is trained and starts at nothing."""

    first = 0.0

    def __init__(self):
        super().__init__()
        self.f, self.alpha = FeedForward(), nn.Parameter(torch.tensor(self.first))

    def forward(self, x):
        x = x + self.f(x)
        return x - F.silu(self.alpha) * x.detach()


class ActivationScaledOpen(ActivationScaled):
    """It starts at 0.3."""

    first = 0.3


class RootHalfBuffer(nn.Module):
    """The sum times a buffer that holds 1/sqrt(2)."""

    def __init__(self):
        super().__init__()
        self.f = FeedForward()
        self.register_buffer("res_scale", torch.tensor(0.5).sqrt(), persistent=False)

    def forward(self, x):
        return (x + self.f(x)) * self.res_scale


class DecayRates(nn.Module):
    """Channels of the skip fade at rates from 0.9 to 1, held in a buffer."""

    def __init__(self):
        super().__init__()
        self.f = FeedForward()
        self.register_buffer("rate", torch.linspace(0.9, 1.0, D))

    def forward(self, x):
        return x * self.rate + self.f(x)


class TrainedDecayRates(nn.Module):
    """The same as exp(-softplus(a)), trained."""

    def __init__(self):
        super().__init__()
        self.f, self.a = FeedForward(), nn.Parameter(torch.full((D,), -4.0))

    def forward(self, x):
        return x * torch.exp(-F.softplus(self.a)) + self.f(x)


class LayerNormScaling(nn.Module):
    """The output of each norm is divided by the root of the layer's number."""

    class Layer(nn.Module):
        def __init__(self, index):
            super().__init__()
            self.scale, self.norm = 1 / math.sqrt(index + 1), nn.LayerNorm(D)
            self.net = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

        def forward(self, x):
            return x + self.net(self.norm(x) * self.scale)

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer(i) for i in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class DepthScaled(nn.Module):
    """Depth-muP: branches are divided by the root of the number of layers."""

    def __init__(self, n=24):
        super().__init__()
        self.multiplier = n ** -0.5
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = torch.add(x, block(x), alpha=self.multiplier)
        return x


class LayerDrop(nn.Module):
    """Each layer is left out with one chance in ten."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward() for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            if self.training and random.random() < 0.1:
                continue
            x = x + block(x)
        return x


def drop_path(x, drop_prob=0.0, training=False, scale_by_keep=True):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class StochasticDepth(nn.Module):
    """timm's drop path on two branches with LayerScale."""

    def __init__(self, rate=0.1, init_values=0.1):
        super().__init__()
        self.attn, self.mlp, self.rate = SelfAttention(), FeedForward(), rate
        self.gamma_1, self.gamma_2 = (nn.Parameter(init_values * torch.ones(D)) for _ in range(2))

    def forward(self, x):
        x = x + drop_path(self.gamma_1 * self.attn(x), self.rate, self.training)
        x = x + drop_path(self.gamma_2 * self.mlp(x), self.rate, self.training)
        return x


# ---- places of norms
class MixNorms(nn.Module):
    """Mix-LN: the first quarter of the layers is post-norm, the others pre-norm."""

    class Layer(nn.Module):
        def __init__(self, post):
            super().__init__()
            self.post, self.norm = post, nn.LayerNorm(D)
            self.net = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

        def forward(self, x):
            if self.post:
                return self.norm(x + self.net(x))
            return x + self.net(self.norm(x))

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer(i < n // 4) for i in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class ResiDual(nn.Module):
    """A post-norm stream and a sum of all outputs that is normed at the end."""

    def __init__(self, n=24):
        super().__init__()
        net = lambda: nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))
        self.blocks = nn.ModuleList(nn.ModuleDict(dict(net=net(), norm=nn.LayerNorm(D))) for _ in range(n))
        self.norm = nn.LayerNorm(D)

    def forward(self, x):
        total = x
        for block in self.blocks:
            y = block["net"](x)
            total = total + y
            x = block["norm"](x + y)
        return x + self.norm(total)


class HybridNorm(nn.Module):
    """Queries, keys and values are normed instead of the attention's input; the feed-forward layer reads and is added to the normed stream."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.nq, self.nk, self.nv = (nn.RMSNorm(D // H) for _ in range(3))
        self.norm = nn.RMSNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        q, k, v = (n(w(x).unflatten(-1, (H, -1))).transpose(1, 2) for n, w in ((self.nq, self.wq), (self.nk, self.wk), (self.nv, self.wv)))
        x = x + self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = self.norm(x)
        return x + self.ffn(x)


class PReluStream(nn.Module):
    """The sum goes through a PReLU, as in the first residual networks; the branch is normed."""

    def __init__(self):
        super().__init__()
        self.f, self.act = FeedForward(), nn.PReLU()

    def forward(self, x):
        return self.act(x + self.f(x))


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_MODEL = dict(_LIN, kind="model")
_EXP = dict(growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False)


def _two(a, b, n=24):
    return torch.linalg.matrix_power(torch.tensor([[a, b], [1.0, 0.0]], dtype=torch.float64), n)[0].sum().item()


TRUTH = {
    "HyperConnected": dict(kind="model", identity_gain=4.0, gradient_law="power", softmax=False, why="four copies, kept and summed.", tempts="4^24: lanes are mixed by an unknown matrix; gain 1"),
    "HalfOpenMix": dict(kind="model", identity_gain=4 * 1.04 ** 24, growth_fixed="exponential", softmax=False, why="the even vector has the eigenvalue 1.04.", tempts="the identity; gain 4"),
    "MeanMix": dict(kind="model", identity_gain=4.0, gradient_law="power", softmax=False, why="the mean of equal lanes is the lane.", tempts="0.25^24"),
    "ScalarUNet": dict(kind="model", identity_gain=13.0, growth_fixed="polynomial", gradient_law="power", softmax=False, why="twelve skips of gain 1 join; they come from the first half only.", tempts="2^12; gain 1; linear"),
    "ScalarUNetClosed": dict(kind="model", identity_gain=1.0, gradient_law="power", softmax=False, why="skips are shut at the start.", tempts="13"),
    "EmbeddingLambdas": dict(kind="model", identity_gain=1.0, gradient_law="power", softmax=False, why="one and nought at the start.", tempts="a free factor on the stream: unknown"),
    "EmbeddingTenth": dict(kind="model", identity_gain=3.4, softmax=False, why="24 tenths are added.", tempts="1.1^24; gain 1"),
    "EmbeddingHalves": dict(kind="model", identity_gain=1.0, growth_fixed="bounded", softmax=False, why="x0 is the fixed point of the halves.", tempts="2^-24; linear"),
    "EveryThirdMerge": dict(_MODEL, gradient_law="power", softmax=False, why="the mean of two states of gain 1.", tempts="2^-8; 2^8"),
    "EveryThirdMergeSum": dict(_EXP, kind="model", identity_gain=2.0 ** 8, why="doubled every third layer.", tempts="gain 1; 2^24"),
    "LadderResidual": dict(_MODEL, gradient_law="power", softmax=False, why="the sum of all outputs, one layer late.", tempts="two streams"),
    "StateOfTwoAgo": dict(_MODEL, softmax=False, why="eigenvalues 1 and -1/2.", tempts="2^-24"),
    "StateOfTwoAgoMore": dict(_EXP, kind="model", identity_gain=_two(0.7, 0.5), why="z^2 = 0.7 z + 0.5 has a root above 1.", tempts="gain 1; 0.7^24; 1.2^24"),
    "DepthMean": dict(_MODEL, softmax=False, why="a mean of states of gain 1; branches add up like 1 + 1/2 + 1/3 + ...", tempts="bounded; a product of 1/l"),
    "DepthSoftmax": dict(kind="model", identity_gain=1.0, growth_fixed="linear", why="convex for any weights.", tempts="values weighed by a softmax: attention"),
    "KeysOfAllLayers": dict(_MODEL, softmax=True, why="the mix is read behind a norm.", tempts="dense sums: exponential"),
    "ValueLambda": dict(_MODEL, softmax=True, logits_bounded={"0": False}, why="convex.", tempts="a second stream of values"),
    "SharedKeysAndValues": dict(_MODEL, softmax=True, logits_bounded={"0": False}, why="each branch reads normed states.", tempts="-"),
    "ValuesAddUp": dict(kind="model", identity_gain=1.0, growth_fixed="polynomial", softmax=True, why="the l-th branch is a sum of l.", tempts="linear: each is normed; or exponential"),
    "LaurelWeights": dict(kind="block", identity_gain=0.5 ** 24, growth_fixed="bounded", why="one half at the start, below one for any weights.", tempts="gain 1"),
    "LaurelTwice": dict(kind="block", identity_gain=1.0, gradient_law="power", why="2 times one half.", tempts="0.5^24; bounded"),
    "HaltingShare": dict(_LIN, gradient_law="power", softmax=False, why="x + p f(x).", tempts="a gate on the stream: unknown, or decays"),
    "HaltingRemainder": dict(_EXP, kind="block", identity_gain=1.1 ** 24, why="1.1 x + p f(x).", tempts="a convex gate"),
    "ActivationScaled": dict(kind="block", identity_gain=1.0, gradient_law="power", softmax=False, why="silu(0) = 0.", tempts="-"),
    "ActivationScaledOpen": dict(kind="block", identity_gain=(1 - 0.3 * torch.tensor(0.3).double().sigmoid().item()) ** 24, gradient_law="exponential", growth_fixed="bounded", softmax=False, why="the value shrinks, so that branches stay a fixed part of it, and the gradient does not shrink.", tempts="gain 1: power; or a shrinking gradient"),
    "RootHalfBuffer": dict(kind="block", identity_gain=2.0 ** -12, growth_fixed="bounded", softmax=False, why="a constant.", tempts="gain 1"),
    "DecayRates": dict(_LIN, softmax=False, why="the last channel is kept.", tempts="0.9^24; bounded"),
    "TrainedDecayRates": dict(kind="block", identity_gain=math.exp(-24 * math.log1p(math.exp(-4.0))), growth_fixed="bounded", softmax=False, why="below one for any weights.", tempts="gain 1"),
    "LayerNormScaling": dict(_MODEL, gradient_law="power", softmax=False, why="biases keep each branch of one size at fixed weights.", tempts="the factors are part of the stream"),
    "DepthScaled": dict(_MODEL, gradient_law="flat", softmax=False, why="the sum of n/sqrt(n) at worst; at random draws the stream doubles its square.", tempts="a power"),
    "LayerDrop": dict(_MODEL, softmax=False, why="left out or not, the stream passes.", tempts="-"),
    "StochasticDepth": dict(_LIN, logits_bounded={"0": False}, softmax=True, why="factors on the branches.", tempts="a random factor on the stream"),
    "MixNorms": dict(kind="model", identity_gain=None, growth_fixed="linear", softmax=False, why="18 of 24 are pre-norm.", tempts="bounded; gain 1"),
    "ResiDual": dict(kind="model", identity_gain=None, growth_fixed="bounded", softmax=False, why="both parts are normed at the end.", tempts="the sum of outputs: gain 1, linear"),
    "HybridNorm": dict(kind="block", identity_gain=None, growth_fixed="bounded", logits_bounded={"0": True}, softmax=True, why="each block ends in normed stream plus feed-forward.", tempts="pre-norm; raw queries"),
    "PReluStream": dict(kind="block", growth_fixed="linear", softmax=False, why="slopes are at most one at the start; branches are normed.", tempts="gain 0.25^24"),
}
