"""Pull requests on adapters, experts, side nets, towers, halves and memories: what several states hand to each other, and what is trained on top of what is frozen."""

from dataclasses import dataclass
from functools import partial
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(326)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("VectorAdaptedLayer", "MagnitudeDirectionMlp", "RoutedLayer", "ReversibleShuffle", "CentredLayer", "HalfSafeLayer")},
    "LadderSide": (_X, _draw(2, T, 8)),
    **{k: (_draw(2, T, 4, D),) for k in ("AlternatingUpdates", "AlternatingUpdatesCached")},
    **{k: (_X, _draw(2, 10, D)) for k in ("TowerExchange", "ReadWriteMemory")},
    **{k: (_X, _draw(2, T, D)) for k in ("TowerExchangeAligned", "TwoBackLayer", "ReadoutLayer")},
}


def lin(i, o, std=1.0):
    m = nn.Linear(i, o, bias=False)
    with torch.no_grad():
        m.weight.normal_().mul_(std * i ** -0.5)
    return m


class Net(nn.Sequential):
    def __init__(self, d=D, h=64, act=nn.GELU):
        super().__init__(lin(d, h), act(), lin(h, d))


class Attention(nn.Module):
    """Of oneself, or of what is given."""

    def __init__(self, d=D, heads=H):
        super().__init__()
        self.heads, self.q, self.kv, self.o = heads, lin(d, d), lin(d, 2 * d), lin(d, d)

    def forward(self, x, context=None):
        context = x if context is None else context
        split = lambda t: t.unflatten(-1, (self.heads, -1)).movedim(-2, 1)
        q, (k, v) = split(self.q(x)), map(split, self.kv(context).chunk(2, dim=-1))
        return self.o(F.scaled_dot_product_attention(q, k, v).movedim(1, -2).flatten(-2))


# ------------------------------------------------------------------ adapters
class VectorAdapted(nn.Module):
    """A frozen map and two frozen random ones, of which vectors are trained."""

    def __init__(self, i, o, rank=4):
        super().__init__()
        self.base = lin(i, o).requires_grad_(False)
        self.register_buffer("A", torch.randn(rank, i) / i ** 0.5)
        self.register_buffer("B", torch.randn(o, rank) / rank ** 0.5)
        self.d, self.b = nn.Parameter(torch.full((rank,), 0.1)), nn.Parameter(torch.zeros(o))

    def forward(self, x):
        low = F.linear(x, self.A) * self.d
        return self.base(x) + F.linear(low, self.B) * self.b


class VectorAdaptedLayer(nn.Module):
    """Vectors are trained in all maps of a frozen layer."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out, self.up, self.down = VectorAdapted(D, 3 * D), VectorAdapted(D, D), VectorAdapted(D, 64), VectorAdapted(64, D)

    def forward(self, x):
        q, k, v = self.qkv(self.ln_1(x)).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class MagnitudeDirection(nn.Module):
    """Rows of a weight have a direction, to which a low rank is added, and a magnitude."""

    def __init__(self, i, o, rank=4):
        super().__init__()
        w = torch.randn(o, i) / i ** 0.5
        self.register_buffer("weight", w)
        self.m = nn.Parameter(w.norm(dim=1, keepdim=True))
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(rank, i) / i ** 0.5), nn.Parameter(torch.zeros(o, rank))

    def forward(self, x):
        v = self.weight + self.lora_b @ self.lora_a
        return F.linear(x, self.m * v / v.norm(dim=1, keepdim=True).detach())


class MagnitudeDirectionMlp(nn.Module):
    """Both maps of a net are adapted by magnitude and direction."""

    def __init__(self):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.RMSNorm(D), MagnitudeDirection(D, 64), MagnitudeDirection(64, D)

    def forward(self, x):
        return x + self.fc2(F.silu(self.fc1(self.norm(x))))


class LadderSide(nn.Module):
    """A thin net climbs beside the frozen one and reads a normed map of each rung."""

    def __init__(self, thin=8):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.net = nn.LayerNorm(D), nn.LayerNorm(D), Attention(), Net()
        self.tap_norm, self.tap, self.side_norm, self.side = nn.LayerNorm(D), lin(D, thin), nn.LayerNorm(thin), Net(thin, 16)
        for m in (self.attn, self.net):
            m.requires_grad_(False)

    def forward(self, x, side):
        x = x + self.attn(self.norm1(x))
        x = x + self.net(self.norm2(x))
        rung = self.tap(self.tap_norm(x))
        return x, side + self.side(self.side_norm(side) + rung)


# ------------------------------------------------------------------ experts
@dataclass
class RouterOutput:
    weight: torch.Tensor
    index: torch.Tensor


class Router(nn.Module):
    def __init__(self, experts, k):
        super().__init__()
        self.norm, self.gate, self.k = nn.RMSNorm(D), lin(D, experts), k

    def forward(self, x):
        p = F.softmax(self.gate(self.norm(x)), dim=-1)
        w, i = p.topk(self.k, dim=-1)
        return RouterOutput(w / w.sum(-1, keepdim=True), i)


class RoutedLayer(nn.Module):
    """Routing is moved into a module of its own, with its norm; the layer calls it and sums what experts give."""

    def __init__(self, experts=4, k=2):
        super().__init__()
        self.ln_attn, self.attn = nn.RMSNorm(D), Attention()
        self.router, self.experts = Router(experts, k), nn.ModuleList(Net(h=32, act=nn.SiLU) for _ in range(experts))

    def forward(self, x):
        x = x + self.attn(self.ln_attn(x))
        r = self.router(x)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            share = (r.weight * (r.index == e)).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return x + out


# ------------------------------------------------------------------ lanes
class AlternatingUpdates(nn.Module):
    """Four lanes are predicted from each other; one of them goes by the layer, and what it gives corrects all."""

    active = 0

    def __init__(self, lanes=4):
        super().__init__()
        self.predict = nn.Parameter(torch.eye(lanes))
        self.correct = nn.Parameter(torch.ones(lanes))
        self.norm1, self.norm2, self.attn, self.net = nn.RMSNorm(D), nn.RMSNorm(D), Attention(), Net()

    def layer(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.net(self.norm2(x))

    def forward(self, lanes):
        predicted = torch.einsum("ij,btjd->btid", self.predict, lanes)
        new = self.layer(lanes[:, :, self.active])
        error = new - predicted[:, :, self.active]
        return predicted + self.correct[:, None] * error[:, :, None]


class AlternatingUpdatesCached(AlternatingUpdates):
    """What the layer gives is written to lanes by one outer product, without a second index into predictions."""

    def forward(self, lanes):
        predicted = torch.einsum("ij,btjd->btid", self.predict, lanes)
        new = self.layer(lanes.select(2, self.active))
        written = torch.einsum("i,btd->btid", self.correct, new)
        return predicted.add_(written)


class TowerExchange(nn.Module):
    """Two towers read each other in turn."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(6))
        self.a_from_b, self.b_from_a, self.net_a, self.net_b = Attention(), Attention(), Net(), Net()

    @staticmethod
    def add(fn: Callable, skip, *reads):
        return skip + fn(*reads)

    def forward(self, a, b):
        n = self.norms
        a = self.add(self.a_from_b, a, n[0](a), n[1](b))
        b = self.add(self.b_from_a, b, n[2](b), n[3](a))
        return self.add(self.net_a, a, n[4](a)), self.add(self.net_b, b, n[5](b))


class TowerExchangeAligned(TowerExchange):
    """Towers of one length: norms of both are computed in one place."""

    def forward(self, a, b):
        n = self.norms
        na, nb = n[0](a), n[1](b)
        a = self.add(self.a_from_b, a, na, nb)
        b = self.add(self.b_from_a, a, n[2](nb), n[3](a))
        return self.add(self.net_a, a, n[4](a)), self.add(self.net_b, b, n[5](b))


class ReversibleShuffle(nn.Module):
    """Additive couplings of two halves, then channels are dealt anew."""

    def __init__(self, half=D // 2):
        super().__init__()
        self.half = half
        self.f = nn.Sequential(nn.LayerNorm(half), Net(half, 32))
        self.norm_g, self.g = nn.LayerNorm(half), nn.Conv1d(half, half, 3, padding=1)
        self.register_buffer("deal", torch.arange(2 * half).view(2, half).t().reshape(-1))

    def forward(self, x):
        a, b = x.split(self.half, dim=-1)
        a = a + self.f(b)
        b = b + F.gelu(self.g(self.norm_g(a).mT)).mT
        return torch.cat((a, b), dim=-1).index_select(-1, self.deal)


class TwoBackLayer(nn.Module):
    """Skips over one and over two layers."""

    def __init__(self):
        super().__init__()
        self.norm, self.net, self.mix = nn.LayerNorm(D), Net(), lin(T, T)

    def forward(self, older, newer):
        h = self.norm(newer)
        h = h + self.mix(h.transpose(-1, -2)).transpose(-1, -2)
        return newer, newer + older + self.net(h)


class ReadoutLayer(nn.Module):
    """Deep supervision: each layer adds its state to what the head will read."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleDict(dict(attn=nn.RMSNorm(D), net=nn.RMSNorm(D)))
        self.fns = nn.ModuleDict(dict(attn=Attention(), net=Net(act=partial(nn.GELU, approximate="tanh"))))

    def forward(self, x, readout):
        for k, f in self.fns.items():
            x = x + f(self.norms[k](x))
        return x, readout + x


class ReadWriteMemory(nn.Module):
    """Tokens write to a memory, and read it."""

    def __init__(self):
        super().__init__()
        self.ln_x, self.ln_m, self.ln_r, self.ln_f = (nn.LayerNorm(D) for _ in range(4))
        self.write, self.read, self.net = Attention(), Attention(), Net()

    def forward(self, x, memory):
        memory = memory + self.write(self.ln_m(memory), context=self.ln_x(x))
        x = x + self.read(self.ln_x(x), context=self.ln_r(memory))
        return x + self.net(self.ln_f(x)), memory


# ------------------------------------------------------------------ what stands for a norm
class Centre(nn.Module):
    """Takes the mean off, and has a gain."""

    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) * self.weight + self.bias


class CentredLayer(nn.Module):
    """A cheaper norm, without roots and divisions."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.net = Centre(D), Centre(D), Attention(), Net()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.net(self.n2(x))


class HalfSafeLayer(nn.Module):
    """For half precision: values are cut where they would overflow."""

    limit = 50.0

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.net = nn.RMSNorm(D), nn.RMSNorm(D), Attention(), Net(act=nn.ReLU)

    def cut(self, x):
        return torch.clamp(x, min=-self.limit, max=self.limit)

    def forward(self, x):
        x = self.cut(x + self.attn(self.n1(x)))
        return self.cut(x + self.net(self.n2(x)))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
_GOLDEN = (1 + 5 ** 0.5) / 2
TRUTH = {
    "VectorAdaptedLayer": dict(_PRE, sound=True, why="pre-norm; what is adapted is linear."),
    "MagnitudeDirectionMlp": dict(_NET, gradient_law="power", **_ONE, sound=True, why="pre-norm; magnitudes are trained."),
    "LadderSide": dict(_PRE, sound=True, why="both states have functions of norms added."),
    "RoutedLayer": dict(_EXP, softmax=True, why="the router has the norm, and experts read the stream: of degree one."),
    "AlternatingUpdates": dict(_PRE, **_OPEN, sound=True, why="lanes stay, and the correction is what branches gave: functions of norms."),
    "AlternatingUpdatesCached": dict(_EXP, identity_gain=2.0 * (2 ** 24 - 1), softmax=True, **_OPEN, why="the active lane is written to itself and to all others: I + 1 e' to the 24th is I + (2^24 - 1) 1 e', of norm about 2 (2^24 - 1)."),
    "TowerExchange": dict(_PRE, gradient_law="power", **_OPEN, sound=True, why="both towers have functions of norms added."),
    "TowerExchangeAligned": dict(kind="block", identity_gain=2.0 ** 0.5, growth_fixed="linear", softmax=True, **_OPEN, sound=False, why="the first tower is carried in both, and the second one is lost: (a, a) of a, of norm the root of two."),
    "ReversibleShuffle": dict(_NET, **_TWO, sound=True, why="each half has functions of norms added; channels are only dealt."),
    "TwoBackLayer": dict(_EXP, identity_gain=_GOLDEN ** 24, softmax=False, gradient_law="exponential", why="the sum of the last two: Fibonacci's numbers."),
    "ReadoutLayer": dict(kind="block", identity_gain=24.0416, growth_fixed="polynomial", softmax=True, **_OPEN, sound=False, why="a sum of a sum of functions of norms; [[1, 0], [24, 1]] has norm 12 + sqrt(145)."),
    "ReadWriteMemory": dict(_PRE, gradient_law="power", **_OPEN, sound=True, why="both states have functions of norms added."),
    "CentredLayer": dict(_EXP, softmax=True, why="nothing is divided by a size: branches are of degree one."),
    "HalfSafeLayer": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, **_OPEN, why="entries are at most fifty."),
}
