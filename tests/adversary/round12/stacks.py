"""Whole small models, `Model(n)` with n layers in `blocks`, and slips of them. Tokens [2, 16, 32] to the same shape."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, LEN, NH = 32, 16, 4


def example_inputs():
    return (torch.randn(2, LEN, WIDTH),)


def proj(i, o):
    w = nn.Linear(i, o, bias=False)
    nn.init.trunc_normal_(w.weight, std=i ** -0.5)
    return w


def split_heads(t):
    return t.reshape(t.shape[0], t.shape[1], NH, -1).permute(0, 2, 1, 3)


def join_heads(t):
    return t.permute(0, 2, 1, 3).flatten(2)


class Norm(nn.Module):
    def __init__(self, d=WIDTH):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d))

    def forward(self, x):
        v = torch.mean(x * x, -1, keepdim=True)
        return x.div(v.add(1e-6).sqrt()).mul(self.gain)


class Swiglu(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = proj(WIDTH, 48), proj(48, WIDTH), proj(WIDTH, 48)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Attention(nn.Module):
    def __init__(self, kv=True):
        super().__init__()
        self.q, self.o = proj(WIDTH, WIDTH), proj(WIDTH, WIDTH)
        if kv:
            self.kv = proj(WIDTH, 2 * WIDTH)

    def make(self, h):
        return tuple(map(split_heads, self.kv(h).chunk(2, -1)))

    def forward(self, h, kv=None):
        k, v = self.make(h) if kv is None else kv
        return self.o(join_heads(F.scaled_dot_product_attention(split_heads(self.q(h)), k, v, is_causal=True)))


class Layer(nn.Module):
    """Pre-norm, both sublayers."""

    def __init__(self):
        super().__init__()
        self.a_norm, self.a, self.f_norm, self.f = Norm(), Attention(), Norm(), Swiglu()

    def forward(self, x):
        x = x + self.a(self.a_norm(x))
        return x + self.f(self.f_norm(x))


class Feed(nn.Module):
    """Only the branch: norm and SwiGLU."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff = Norm(), Swiglu()

    def forward(self, x):
        return self.ff(self.norm(x))


class Chain(nn.Module):
    layer = Layer

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList([self.layer() for _ in range(n)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


# ---------------------------------------------------------------- hyper-connections
class HyperLayer(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.body = Feed()
        self.read, self.write, self.carry = nn.Parameter(torch.full((n,), 1 / n)), nn.Parameter(torch.ones(n)), nn.Parameter(self.start(n))

    def start(self, n):
        return torch.eye(n)

    def forward(self, lanes):
        y = self.body(torch.tensordot(self.read, lanes, dims=1))
        return torch.einsum("nm,m...->n...", self.carry, lanes) + torch.einsum("n,...->n...", self.write, y)


class HyperStatic(Chain):
    """Four lanes, carried by a matrix that starts at one; the mean of lanes at the end."""
    layer = HyperLayer

    def forward(self, x):
        lanes = x.expand(4, *x.shape)
        for block in self.blocks:
            lanes = block(lanes)
        return lanes.mean(0)


class HyperLayerOnes(HyperLayer):
    def start(self, n):
        return torch.ones(n, n)


class HyperOnes(HyperStatic):
    """The matrix starts with ones everywhere, not on the diagonal."""
    layer = HyperLayerOnes


class HyperLayerMixed(HyperLayer):
    def start(self, n):
        return torch.zeros(n, n)

    def forward(self, lanes):
        y = self.body(torch.tensordot(self.read, lanes, dims=1))
        return torch.einsum("nm,m...->n...", self.carry.softmax(-1), lanes) + torch.einsum("n,...->n...", self.write, y)


class HyperStochastic(HyperStatic):
    """Rows of the matrix are shares: no lane can grow by being carried."""
    layer = HyperLayerMixed


# ---------------------------------------------------------------- loops with shared weights
class LoopedInjected(nn.Module):
    """One layer, looped; the input is added again at each turn."""

    def __init__(self, n=24):
        super().__init__()
        self.core, self.turns = Layer(), n

    @property
    def blocks(self):
        return [self.core] * self.turns

    def forward(self, x):
        state = x
        for _ in range(self.turns):
            state = self.core(state + x)
        return state


class NormInsideLoop(Chain):
    """The final norm is one indent too deep."""

    def __init__(self, n=24):
        super().__init__(n)
        self.final = Norm()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            x = self.final(x)
        return x


# ---------------------------------------------------------------- long skips
class UAdd(Chain):
    """A U-Net of equal widths: the second half adds the states of the first."""

    def join(self, x, skip):
        return x + skip

    def forward(self, x):
        half, kept = len(self.blocks) // 2, []
        for block in self.blocks[:half]:
            kept.append(x)
            x = block(x)
        for block in self.blocks[half:]:
            x = block(self.join(x, kept.pop()))
        return x


class UAverage(UAdd):
    """The same, averaged."""

    def join(self, x, skip):
        return torch.lerp(x, skip, 0.5)


class DenseSum(Chain):
    """DenseFormer without its weights: each layer reads the sum of all states."""

    def forward(self, x):
        states = [x]
        for block in self.blocks:
            states.append(block(torch.stack(states).sum(0)))
        return torch.stack(states).sum(0)


class DenseWeighted(Chain):
    """DenseFormer with its weights, which start on the newest state."""

    def __init__(self, n=24):
        super().__init__(n)
        self.mix = nn.ParameterList(nn.Parameter(torch.eye(i + 2)[-1].clone()) for i in range(n))

    def forward(self, x):
        states = [x]
        for block, w in zip(self.blocks, self.mix):
            states.append(block(x))
            x = sum(a * s for a, s in zip(w.unbind(), states))
        return x


# ---------------------------------------------------------------- values and keys across layers
class ValueLayer(Layer):
    def forward(self, x, first):
        h = self.a_norm(x)
        k, v = self.a.make(h)
        first = v if first is None else first
        x = x + self.a(h, (k, 0.5 * v + 0.5 * first))
        return x + self.f(self.f_norm(x)), first


class ValueResidual(Chain):
    """Values are averaged with those of the first layer."""
    layer = ValueLayer

    def forward(self, x):
        first = None
        for block in self.blocks:
            x, first = block(x, first)
        return x


class LendingLayer(nn.Module):
    def __init__(self, own):
        super().__init__()
        self.n1, self.n2, self.att, self.ff = Norm(), Norm(), Attention(kv=own), Swiglu()
        self.own = own

    def forward(self, x, kv):
        h = self.n1(x)
        kv = self.att.make(h) if self.own else kv
        x = x + self.att(h, kv)
        return x + self.ff(self.n2(x)), kv


class CrossLayerKv(nn.Module):
    """Every second layer uses keys and values of the one before."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(LendingLayer(i % 2 == 0) for i in range(n))

    def forward(self, x):
        kv = None
        for block in self.blocks:
            x, kv = block(x, kv)
        return x


# ---------------------------------------------------------------- routed depth
class DepthLayer(nn.Module):
    def __init__(self, keep=8):
        super().__init__()
        self.keep, self.score, self.body = keep, proj(WIDTH, 1), Feed()

    def weight(self, x):
        return torch.sigmoid(self.score(x))

    def forward(self, x):
        w = self.weight(x)
        w, at = torch.topk(w, self.keep, dim=1, sorted=False)
        at = at.expand(-1, -1, x.shape[-1])
        return x.scatter_add(1, at, w * self.body(x.gather(1, at)))


class MixtureOfDepths(Chain):
    """Half of the tokens pass a layer, weighted by a sigmoid."""
    layer = DepthLayer


class DepthLayerRaw(DepthLayer):
    def weight(self, x):
        return self.score(x)


class MixtureOfDepthsRaw(Chain):
    """Their weight is the raw score of the raw stream."""
    layer = DepthLayerRaw


# ---------------------------------------------------------------- halves, pairs
class Couple(nn.Module):
    def __init__(self):
        super().__init__()
        h = WIDTH // 2
        self.f, self.g = (nn.Sequential(nn.LayerNorm(h), proj(h, 32), nn.GELU(), proj(32, h)) for _ in range(2))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        a = a + self.f(b)
        b = b + self.g(a)
        return torch.cat([a, b], -1)


class Reversible(Chain):
    """RevNet: additive coupling of halves."""
    layer = Couple


class FusedAddNorm(Chain):
    """Mamba's loop: the residual travels beside what the last layer gave."""

    def __init__(self, n=24):
        super().__init__(0)
        self.blocks = nn.ModuleList(Swiglu() for _ in range(n))
        self.norms = nn.ModuleList(Norm() for _ in range(n))

    def step(self, hidden, residual, norm):
        residual = hidden if residual is None else hidden + residual
        return norm(residual), residual

    def forward(self, hidden):
        residual = None
        for block, norm in zip(self.blocks, self.norms):
            hidden, residual = self.step(hidden, residual, norm)
            hidden = block(hidden)
        return hidden + residual


class FusedAddNormSlip(FusedAddNorm):
    """The normed value is kept as the residual."""

    def step(self, hidden, residual, norm):
        residual = norm(hidden if residual is None else hidden + residual)
        return residual, residual


# ---------------------------------------------------------------- on the sphere
def unit(t, dim=-1):
    return t / torch.linalg.vector_norm(t, dim=dim, keepdim=True).clamp_min(1e-8)


class SphereLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo, self.wu, self.wd = (nn.Parameter(torch.randn(WIDTH, WIDTH)) for _ in range(6))
        self.gain_qk, self.rate = nn.Parameter(torch.ones(1)), nn.Parameter(torch.full((2, WIDTH), 0.1))

    def forward(self, h):
        q, k, v = (split_heads(F.linear(h, unit(w))) for w in (self.wq, self.wk, self.wv))
        p = torch.softmax(self.gain_qk * math.sqrt(8) * unit(q) @ unit(k).mT, -1)
        y = unit(F.linear(join_heads(p @ v), unit(self.wo, 0)))
        h = unit(h + self.rate[0].abs() * (y - h))
        y = unit(F.linear(F.silu(F.linear(h, unit(self.wu)) * math.sqrt(WIDTH)), unit(self.wd, 0)))
        return unit(h + self.rate[1].abs() * (y - h))


class OnSphere(Chain):
    """nGPT: unit rows, unit states, steps on the sphere."""
    layer = SphereLayer


# ---------------------------------------------------------------- conditioning
class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.ff, self.ada = nn.LayerNorm(WIDTH, elementwise_affine=False), Swiglu(), proj(WIDTH, 3 * WIDTH)

    def forward(self, x, c):
        shift, scale, gate = self.ada(F.silu(c)).chunk(3, -1)
        return x + (1 + gate) * self.ff(self.norm(x) * (1 + scale) + shift)


class ConditionedStream(Conditioned):
    def forward(self, x, c):
        shift, scale, gate = self.ada(F.silu(c)).chunk(3, -1)
        x = x * (1 + scale) + shift
        return x + (1 + gate) * self.ff(self.norm(x))


class AdaModel(nn.Module):
    """Diffusion blocks with open gates, one embedding of the time for all layers."""
    layer = Conditioned

    def __init__(self, n=24):
        super().__init__()
        self.time = nn.Parameter(torch.randn(WIDTH))
        self.blocks = nn.ModuleList(self.layer() for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = block(x, self.time)
        return x


class AdaOnStream(AdaModel):
    """The stream itself is scaled and shifted; the skip starts behind."""
    layer = ConditionedStream


# ---------------------------------------------------------------- hybrids, registers
class Recurrence(nn.Module):
    """A gated linear unit of Griffin's kind."""

    def __init__(self):
        super().__init__()
        self.norm, self.inp, self.rate, self.out = Norm(), proj(WIDTH, 2 * WIDTH), proj(WIDTH, WIDTH), proj(WIDTH, WIDTH)

    def forward(self, x):
        u, z = self.inp(self.norm(x)).chunk(2, -1)
        a = torch.sigmoid(self.rate(u) + 2)
        h, ys = torch.zeros_like(u[:, 0]), []
        for t in range(u.shape[1]):
            h = a[:, t] * h + (1 - a[:, t].square()).clamp_min(1e-9).sqrt() * u[:, t]
            ys.append(h)
        return x + self.out(torch.stack(ys, 1) * F.gelu(z))


class Hybrid(nn.Module):
    """Three recurrences to one layer of attention; registers in front."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Layer() if i % 4 == 1 else Recurrence() for i in range(n))
        self.registers = nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, x):
        x = torch.cat([self.registers.expand(x.shape[0], -1, -1), x], 1)
        for block in self.blocks:
            x = block(x)
        return x[:, 4:]


_PRE = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
_NORMED = dict(kind="model", identity_gain=None, growth_fixed="bounded")
TRUTH = {
    "HyperStatic": dict(_PRE, softmax=False),
    "HyperOnes": dict(kind="model", identity_gain=4.0 ** 24, growth_fixed="exponential", softmax=False),
    "HyperStochastic": dict(_PRE),
    "LoopedInjected": dict(kind="model", identity_gain=25.0, growth_fixed="linear", softmax=True),
    "NormInsideLoop": dict(_NORMED, growth_all="bounded", softmax=True),
    "UAdd": dict(kind="model", identity_gain=13.0, growth_fixed="polynomial", softmax=True),
    "UAverage": dict(kind="model", identity_gain=1.0, softmax=True),       # states grow to the middle and are forgotten behind it
    "DenseSum": dict(kind="model", identity_gain=2.0 ** 24, growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=True),
    "DenseWeighted": dict(_PRE, softmax=True),
    "ValueResidual": dict(_PRE, softmax=True),
    "CrossLayerKv": dict(_PRE, softmax=True),
    "MixtureOfDepths": dict(_PRE, softmax=False),
    "MixtureOfDepthsRaw": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", softmax=False),
    "Reversible": dict(_PRE, softmax=False),
    "FusedAddNorm": dict(_PRE, softmax=False, gradient_law="power"),
    "FusedAddNormSlip": dict(_NORMED, softmax=False),
    "OnSphere": dict(_NORMED, growth_all="bounded", softmax=True, logits_bounded={0: True}),
    "AdaModel": dict(_PRE, softmax=False),
    "AdaOnStream": dict(kind="model", growth_fixed="exponential", softmax=False),
    "Hybrid": dict(_PRE, softmax=True),
}
