"""Whole models: how layers are scaled with depth, shared, mixed and joined; some with one slip. `features` is what happens on the stream."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False, std=None):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5 if std is None else std)
    if bias:
        nn.init.zeros_(w.bias)
    return w


class Attention(nn.Module):
    """Causal; keys and values may come from elsewhere, values may be mixed with those of the first layer."""

    def __init__(self, own_kv=True, qk_norm=False, scale=None, out_std=None):
        super().__init__()
        self.qk_norm, self.scale = qk_norm, scale
        self.wq, self.wo = lin(D, D), lin(D, D, std=out_std)
        self.wkv = lin(D, 2 * D) if own_kv else None

    def keys_values(self, h):
        k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.wkv(h).chunk(2, dim=-1))
        return (F.rms_norm(k, (HD,)) if self.qk_norm else k), v

    def forward(self, h, kv=None):
        q = self.wq(h).unflatten(-1, (H, HD)).transpose(1, 2)
        q = F.rms_norm(q, (HD,)) if self.qk_norm else q
        k, v = self.keys_values(h) if kv is None else kv
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.wo(y.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, inner=64, out_std=None):
        super().__init__()
        self.gate_up, self.down = lin(D, 2 * inner), lin(inner, D, std=out_std)

    def forward(self, x):
        g, u = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(g) * u)


class Layer(nn.Module):
    """Pre-norm; both branches by a factor, the sums by another."""

    def __init__(self, branch=1.0, both=1.0, **kw):
        super().__init__()
        self.branch, self.both = branch, both
        self.norm1, self.norm2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attention(**kw), Gated(out_std=kw.get("out_std"))

    def forward(self, x, kv=None):
        x = self.both * (x + self.branch * self.attn(self.norm1(x), kv))
        return self.both * (x + self.branch * self.ff(self.norm2(x)))


class Post(nn.Module):
    """The sum is normed."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self.alpha, self.norm1, self.norm2, self.attn, self.ff = alpha, nn.LayerNorm(D), nn.LayerNorm(D), Attention(), Gated()

    def forward(self, x):
        x = self.norm1(self.alpha * x + self.attn(x))
        return self.norm2(self.alpha * x + self.ff(x))


class Model(nn.Module):
    def __init__(self, n=12):
        super().__init__()
        self.n = n
        self.layers = nn.ModuleList(self.make(i) for i in range(n))
        self.norm = nn.RMSNorm(D)

    def make(self, i):
        return Layer()

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


# ------------------------------------------------------------ constants of depth
class ScaledByLayer(Model):
    """Norms are divided by the root of the layer's number."""

    class One(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.scale = 1 / math.sqrt(i + 1)
            self.norm1, self.norm2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attention(), Gated()

        def forward(self, x):
            x = x + self.attn(self.norm1(x) * self.scale)
            return x + self.ff(self.norm2(x) * self.scale)

    def make(self, i):
        return self.One(i)


class ScaledByLayerOnSum(Model):
    """The same factor slid onto what comes in."""

    def __init__(self, n=24):
        super().__init__(n)

    def make(self, i):
        return Layer(both=1 / math.sqrt(i + 1))


class HalvesByDepth(Model):
    """Branches by one over the number of layers, attention by one over the head's width."""

    def make(self, i):
        return Layer(branch=1 / self.n, scale=1 / HD)


class RootOfDepth(Model):
    """Branches by one over the root of twice the number of layers."""

    def make(self, i):
        return Layer(branch=(2 * self.n) ** -0.5)


class RootOfTwoSums(Model):
    """Every sum is divided by root two."""

    def __init__(self, n=24):
        super().__init__(n)

    def make(self, i):
        return Layer(both=0.5 ** 0.5)


class RootOfDepthOnSkip(Model):
    """The factor of the branch, 1 + 1/N, stands on the sum: e² in all at any depth."""

    def __init__(self, n=24):
        super().__init__(n)

    def make(self, i):
        return Layer(both=1 + 1 / self.n)


class SmallOutputs(Model):
    """Output maps start at 0.02 over the root of twice the depth, as in many trainers."""

    def make(self, i):
        return Layer(out_std=0.02 / math.sqrt(2 * self.n))


class DeepAlpha(Model):
    """Post-norm with α on the skip."""

    def make(self, i):
        return Post(alpha=(2 * self.n) ** 0.25)

    def forward(self, x):
        return self.features(x)


class DropPathKept(Model):
    """Stochastic depth grows with the layer; where a model is only run nothing is dropped."""

    class One(Layer):
        def __init__(self, p):
            super().__init__()
            self.p = p

        def drop(self, y):
            if self.p == 0.0 or not self.training:
                return y
            keep = torch.ones(y.shape[0], 1, 1, dtype=y.dtype, device=y.device)
            return y * keep

        def forward(self, x, kv=None):
            x = x + self.drop(self.attn(self.norm1(x)))
            return x + self.drop(self.ff(self.norm2(x)))

    def make(self, i):
        return self.One(0.1 * i / max(self.n - 1, 1))


# ------------------------------------------------------------ sharing
class Universal(Model):
    """One layer, run again and again; place and time are told to it each time."""

    def __init__(self, n=8):
        nn.Module.__init__(self)
        self.n, self.layer, self.norm = n, Layer(), nn.RMSNorm(D)
        self.step = nn.Parameter(0.02 * torch.randn(256, 1, D))

    def features(self, x):
        for t in range(self.n):
            x = self.layer(x + self.step[t])
        return x


class SharedPost(Model):
    """One post-norm layer for all depths."""

    def __init__(self, n=12):
        nn.Module.__init__(self)
        self.n, self.layer = n, Post()

    def features(self, x):
        for _ in range(self.n):
            x = self.layer(x)
        return x

    def forward(self, x):
        return self.features(x)


class EachTwice(Model):
    """Each layer is run twice in a row."""

    def features(self, x):
        for layer in self.layers:
            x = layer(layer(x))
        return x


class SandwichShared(Model):
    """A first and a last layer of their own; one is shared by all in between."""

    def __init__(self, n=12):
        super().__init__(2)
        self.n, self.middle = n, Layer()

    def features(self, x):
        x = self.layers[0](x)
        for _ in range(self.n - 2):
            x = self.middle(x)
        return self.layers[1](x)


class RecurrentDepth(Model):
    """A core runs many times on a state of its own: what came in is joined to it and a map takes both; norms stand on the sums."""

    def __init__(self, n=8):
        nn.Module.__init__(self)
        self.n, self.adapter, self.core, self.norm, self.first = n, lin(2 * D, D), Post(), nn.RMSNorm(D), Layer()

    def features(self, x):
        e = self.first(x)
        s = torch.zeros_like(e)
        for _ in range(self.n):
            s = self.core(self.adapter(torch.cat((s, e), dim=-1)))
        return s


# ------------------------------------------------------------ values and states of other layers
class KeysOfPairs(Model):
    """Every second layer attends to the keys and values of the one before."""

    def make(self, i):
        return Layer(own_kv=i % 2 == 0)

    def features(self, x):
        kv = None
        for i, layer in enumerate(self.layers):
            if i % 2 == 0:
                kv = layer.attn.keys_values(layer.norm1(x))
            x = layer(x, kv)
        return x


class SecondHalfReadsOneMemory(Model):
    """The second half attends to one memory, made of the first half's normed state."""

    def __init__(self, n=12):
        super().__init__(n)
        self.kv_norm, self.wkv = nn.RMSNorm(D), lin(D, 2 * D)

    def make(self, i):
        return Layer(own_kv=i < self.n // 2)

    def features(self, x):
        half = self.n // 2
        for layer in self.layers[:half]:
            x = layer(x)
        kv = tuple(t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.wkv(self.kv_norm(x)).chunk(2, dim=-1))
        for layer in self.layers[half:]:
            x = layer(x, kv)
        return x


class SecondHalfReadsRawMemory(SecondHalfReadsOneMemory):
    """The norm of that memory was forgotten: its values are as large as the first half."""

    def features(self, x):
        half = self.n // 2
        for layer in self.layers[:half]:
            x = layer(x)
        k, v = self.wkv(x).chunk(2, dim=-1)
        kv = k.unflatten(-1, (H, HD)).transpose(1, 2), v.unflatten(-1, (H, HD)).transpose(1, 2)
        for layer in self.layers[half:]:
            x = layer(x, kv)
        return x


class StartMixedIn(Model):
    """Two numbers a layer weigh the state and the first state (they start at one and zero), and the values of the first layer."""

    def __init__(self, n=12):
        super().__init__(n)
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]).repeat(n, 1))

    def make(self, i):
        return Layer(qk_norm=True)

    def features(self, x):
        x = x0 = F.rms_norm(x, (D,))
        for i, layer in enumerate(self.layers):
            x = self.lambdas[i, 0] * x + self.lambdas[i, 1] * x0
            x = layer(x)
        return x


class EncoderToDecoderSkips(Model):
    """Layers of the first half are pushed, those of the second pop, with a weight of one each."""

    def __init__(self, n=24):
        super().__init__(n)
        self.skip_weights = nn.Parameter(torch.ones(n // 2))

    def features(self, x):
        kept, half = [], self.n // 2
        for layer in self.layers[:half]:
            x = layer(x)
            kept.append(x)
        for i, layer in enumerate(self.layers[half:]):
            x = x + self.skip_weights[i] * kept.pop()
            x = layer(x)
        return x


class AllBefore(Model):
    """Each layer reads a mean of all states so far, by weights that start at one over their number."""

    def __init__(self, n=12):
        super().__init__(n)
        self.mix = nn.ParameterList(torch.full((i + 1,), 1.0 / (i + 1)) for i in range(n))

    def features(self, x):
        states = [x]
        for layer, w in zip(self.layers, self.mix):
            states.append(layer(torch.einsum("s,sbtd->btd", w, torch.stack(states))))
        return states[-1]


class AllBeforeSummed(AllBefore):
    """The weights start at one each."""

    def __init__(self, n=24):
        super().__init__(n)
        self.mix = nn.ParameterList(torch.ones(i + 1) for i in range(n))


class AttentionOverDepth(Model):
    """What a branch reads is a softmax over all outputs so far, by one query a layer that starts at zero; there is no other sum."""

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.norm, self.ff = nn.Parameter(torch.zeros(D)), nn.RMSNorm(D), Gated()

        def forward(self, outputs):
            v = torch.stack(outputs)
            w = torch.einsum("d,nbtd->nbt", self.query, F.rms_norm(v, (D,))).softmax(0)
            return self.ff(self.norm(torch.einsum("nbt,nbtd->btd", w, v)))

    def make(self, i):
        return self.One()

    def features(self, x):
        outputs = [x]
        for layer in self.layers:
            outputs.append(layer(outputs))
        return torch.stack(outputs).mean(0)


class MomentumSteps(Model):
    """A velocity keeps nine tenths and takes a tenth of a branch; the state takes the velocity."""

    def features(self, x):
        v = torch.zeros_like(x)
        for layer in self.layers:
            v = 0.9 * v + 0.1 * (layer(x) - x)
            x = x + v
        return x


class MomentumOfLayers(Model):
    """A layer's output and not its change goes into the velocity."""

    def __init__(self, n=24):
        super().__init__(n)

    def features(self, x):
        v = torch.zeros_like(x)
        for layer in self.layers:
            v = 0.9 * v + 0.1 * layer(x)
            x = x + v
        return x


# ------------------------------------------------------------ mixed stacks
class DecaySum(nn.Module):
    """A gated decaying sum over places; `norm` may be nothing."""

    def __init__(self, norm=True):
        super().__init__()
        self.norm, self.wi, self.wo = nn.RMSNorm(D) if norm else nn.Identity(), lin(D, 2 * D), lin(D, D)
        self.register_buffer("keep", torch.linspace(0.3, 0.9, D))

    def forward(self, x):
        u, g = self.wi(self.norm(x)).chunk(2, dim=-1)
        place = torch.arange(x.shape[1], device=x.device)
        gap = (place[:, None] - place).clamp(min=0)
        decay = self.keep ** gap.unsqueeze(-1) * (place[:, None] >= place).unsqueeze(-1)
        return x + self.wo(torch.einsum("ijd,bjd->bid", decay, u) * F.silu(g))


class OneInFour(Model):
    """Three decaying sums and then an attention layer."""

    def make(self, i):
        return Layer() if i % 4 == 3 else DecaySum()


class OneInFourRaw(Model):
    """The norms of the decaying sums were left out where they are not beside attention."""

    def make(self, i):
        return Layer() if i % 4 == 3 else DecaySum(norm=i % 4 == 2)


class NormedTwiceInTheMiddle(Model):
    """A norm of stage ends stands on the stream after half of the layers."""

    def __init__(self, n=12):
        super().__init__(n)
        self.stage_norm = nn.LayerNorm(D)

    def features(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == self.n // 2 - 1:
                x = self.stage_norm(x)
        return x


class BottomToTop(Model):
    """Post-norm, and what came in is added once more before the last norm of the layer."""

    class One(Post):
        def forward(self, x):
            y = self.norm1(x + self.attn(x))
            return self.norm2(x + y + self.ff(y))

    def make(self, i):
        return self.One()

    def forward(self, x):
        return self.features(x)


class TwoAccumulators(Model):
    """Post-norm goes on and beside it what branches gave is summed without a norm; both are joined at the end."""

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.ff, self.norm = Gated(), nn.LayerNorm(D)

    def make(self, i):
        return self.One()

    def features(self, x):
        total = x
        for layer in self.layers:
            f = layer.ff(x)
            total = total + f
            x = layer.norm(x + f)
        return x + self.norm(total)

    def forward(self, x):
        return self.features(x)


class Hourglass(Model):
    """Three layers, places by halves, three layers there, repeated and added, three layers."""

    def __init__(self, n=12):
        super().__init__(n)

    def features(self, x):
        third = self.n // 3
        for layer in self.layers[:third]:
            x = layer(x)
        h = F.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
        for layer in self.layers[third:2 * third]:
            h = layer(h)
        x = x + h.repeat_interleave(2, dim=1)
        for layer in self.layers[2 * third:]:
            x = layer(x)
        return x


class RegistersInside(Model):
    """Two registers are put in front after the first layer and taken away before the last."""

    def __init__(self, n=8):
        super().__init__(n)
        self.registers = nn.Parameter(torch.zeros(2, D))

    def features(self, x):
        first, *inner, last = self.layers
        x = first(x)
        x = torch.cat([self.registers.expand(x.shape[0], -1, -1), x], dim=1)
        for layer in inner:
            x = layer(x)
        return last(x[:, self.registers.shape[0]:])


class FourLanes(Model):
    """Four copies; each layer reads a weighed sum of lanes and writes to each by a weight; lanes are mixed by the identity plus a small trained part; summed."""

    class One(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.norm, self.ff = nn.RMSNorm(D), Gated()
            self.read = nn.Parameter(torch.eye(4)[i % 4].clone())
            self.write = nn.Parameter(torch.ones(4))
            self.mix = nn.Parameter(torch.eye(4))

        def forward(self, lanes):
            h = torch.einsum("l,lbtd->btd", self.read, lanes)
            return torch.einsum("kl,lbtd->kbtd", self.mix, lanes) + self.write[:, None, None, None] * self.ff(self.norm(h))

    def make(self, i):
        return self.One(i)

    def features(self, x):
        lanes = x.expand(4, *x.shape)
        for layer in self.layers:
            lanes = layer(lanes)
        return lanes.sum(0)


class FourLanesMixedByOnes(FourLanes):
    """The mixing matrices start full of halves: rows sum to two."""

    def __init__(self, n=24):
        super().__init__(n)
        for layer in self.layers:
            nn.init.constant_(layer.mix, 0.5)


class Functional(Model):
    """No modules inside: weights in a dictionary, layers as a function that is bound with its number."""

    def __init__(self, n=12):
        nn.Module.__init__(self)
        self.n = n
        shapes = {"qkv": (3 * D, D), "proj": (D, D), "up": (64, D), "down": (D, 64)}
        self.p = nn.ParameterDict({f"{k}_{i}": torch.randn(s) * s[1] ** -0.5 for i in range(n) for k, s in shapes.items()})

    def one(self, x, i):
        q, k, v = F.linear(F.layer_norm(x, (D,)), self.p[f"qkv_{i}"]).view(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + F.linear(a, self.p[f"proj_{i}"])
        return x + F.linear(F.relu(F.linear(F.layer_norm(x, (D,)), self.p[f"up_{i}"])).square(), self.p[f"down_{i}"])

    def features(self, x):
        for f in [partial(self.one, i=i) for i in range(self.n)]:
            x = f(x)
        return x

    def forward(self, x):
        return F.layer_norm(self.features(x), (D,))


def _momentum(n=24):
    x, v = 1.0, 0.0
    for _ in range(n):
        v = 0.9 * v + 0.1 * x
        x = x + v
    return x


_M = dict(kind="model")
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_LIN = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_PRE = dict(_LIN, **_F)
_ON = dict(kind="model", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True)
TRUTH = {
    "ScaledByLayer": dict(_PRE, depth=12, why="pre-norm; a number a layer behind norms."),
    "ScaledByLayerOnSum": dict(_M, identity_gain=1 / math.factorial(24), growth_fixed="bounded", softmax=True, **_F, why="one over the factorial: nothing is left of the start."),
    "HalvesByDepth": dict(_M, identity_gain=1.0, growth_fixed="bounded", softmax=True, depth=12, **_F, why="branches sum to two."),
    "RootOfDepth": dict(_PRE, depth=12, why="root of the depth at most."),
    "RootOfTwoSums": dict(_M, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=True, depth=24, **_F, why="a half a layer."),
    "RootOfDepthOnSkip": dict(_M, identity_gain=(1 + 1 / 24) ** 48, growth_fixed="linear", softmax=True, **_F, why="e² at any depth."),
    "SmallOutputs": dict(_PRE, depth=12, why="pre-norm."),
    "DeepAlpha": dict(_ON, depth=12, **_F, why="post-norm."),
    "DropPathKept": dict(_PRE, depth=12, why="pre-norm."),
    "Universal": dict(_PRE, why="pre-norm; a constant a step."),
    "SharedPost": dict(_ON, why="post-norm."),
    "EachTwice": dict(_PRE, why="pre-norm."),
    "SandwichShared": dict(_PRE, why="pre-norm."),
    "RecurrentDepth": dict(_M, growth_fixed="bounded", softmax=True, why="a norm at the end of each step."),
    "KeysOfPairs": dict(_PRE, depth=12, why="keys and values of what is normed."),
    "SecondHalfReadsOneMemory": dict(_PRE, depth=12, why="a normed memory."),
    "SecondHalfReadsRawMemory": dict(_M, identity_gain=1.0, growth_fixed="polynomial", softmax=True, **_F, why="half of the layers add what half of the layers summed."),
    "StartMixedIn": dict(_M, growth_fixed="linear", softmax=True, **_T, why="one and zero at the start; QK-norm."),
    "EncoderToDecoderSkips": dict(_M, identity_gain=13.0, growth_fixed="polynomial", softmax=True, **_F, why="one more at each of twelve layers."),
    "AllBefore": dict(_M, identity_gain=1.0, softmax=True, **_F, why="means of ones."),
    "AllBeforeSummed": dict(_M, identity_gain=2.0 ** 23, growth_fixed="exponential", softmax=True, **_F, why="sums of all before: twice at each layer but the first."),
    "AttentionOverDepth": dict(_M, growth_fixed="bounded", why="a mean of outputs behind norms."),
    "MomentumSteps": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=True, **_F, why="velocities of branches."),
    "MomentumOfLayers": dict(_M, identity_gain=_momentum(), growth_fixed="exponential", softmax=True, **_F, why="the state itself feeds the velocity."),
    "OneInFour": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=True, depth=12, why="pre-norm."),
    "OneInFourRaw": dict(_M, identity_gain=1.0, growth_fixed="exponential", softmax=True, why="raw branches of degree two."),
    "NormedTwiceInTheMiddle": dict(_M, identity_gain=None, growth_fixed="linear", softmax=True, **_F, why="pre-norm behind one norm."),
    "BottomToTop": dict(_ON, gradient_law="exponential", depth=12, **_F, why="post-norm."),
    "TwoAccumulators": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, why="two normed states are added."),
    "Hourglass": dict(_M, identity_gain=2.0, growth_fixed="linear", softmax=True, **_F, why="what pairs share is there twice."),
    "RegistersInside": dict(_PRE, depth=8, why="pre-norm."),
    "FourLanes": dict(_M, identity_gain=4.0, growth_fixed="linear", softmax=False, why="four copies are summed."),
    "FourLanesMixedByOnes": dict(_M, identity_gain=4 * 2.0 ** 24, growth_fixed="exponential", softmax=False, why="twice a layer."),
    "Functional": dict(_PRE, depth=12, why="pre-norm."),
}
