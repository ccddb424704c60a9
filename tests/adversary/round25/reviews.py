"""Pull requests on residual blocks: where a norm stands, what the skip carries, what a gate reads, how lanes and pairs are mixed, in hands of many people."""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(25)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("AveragedLibraryLayer", "SandwichV2", "ClippedScale", "FlooredScale", "BloomLayer", "ScaledInputLayer", "DeterministicDepth", "SurvivalLayer", "ResidualMultiplier", "NormFormerLayer",
                          "GluInsideNorm", "GluBehindNorm", "BothNormed", "SumNormedThenAdded", "TokenwiseBatchNorm", "GlobalRange", "PartialRmsLayer", "DetachedScaleLayer", "SquashedLayer", "ParallelCohere",
                          "ShiftedStream", "SkipOfRootTwo", "StaticHighway", "BranchTemperature")},
    **{k: (_X, _draw(2, T, D)) for k in ("PairAverage", "CoupledHalves", "CoupledWithCarry", "NormedVelocity")},
    **{k: (_draw(2, T, 4, D),) for k in ("LaneBlock", "LaneBlockV2")},
    "MemoryLayer": (_draw(2, T + 4, D),),
}


def dense(i, o, gain=1.0, bias=False):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=gain / math.sqrt(i))
    return m


class FeedForward(nn.Module):
    def __init__(self, d=D, h=2 * D, act=F.gelu):
        super().__init__()
        self.w_in, self.w_out, self.act = dense(d, h), dense(h, d), act

    def forward(self, x):
        return self.w_out(self.act(self.w_in(x)))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_qkv, self.to_out = dense(D, 3 * D), dense(D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.to_qkv(x).view(b, t, 3, H, HD).permute(2, 0, 3, 1, 4)
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))


# ------------------------------------------------------------------ a library's layer, in one's own loop
class AveragedLibraryLayer(nn.Module):
    """The layer has its skips already; here the mean of what goes in and what comes out is kept."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)

    def forward(self, x):
        return torch.stack((x, self.layer(x))).mean(0)


# ------------------------------------------------------------------ one plus a weight
class OnePlusRms(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(d)), eps

    def forward(self, x):
        out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return out * (1.0 + self.weight)


class SandwichV2(nn.Module):
    """Four norms; the one behind the net takes the residual, too."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = OnePlusRms(D), OnePlusRms(D)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = OnePlusRms(D), OnePlusRms(D)
        self.self_attn, self.mlp = SelfAttention(), FeedForward(act=partial(F.gelu, approximate="tanh"))

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(hidden_states)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(residual + hidden_states)
        return hidden_states


# ------------------------------------------------------------------ a norm with a bounded divisor
class ClippedScale(nn.Module):
    """The divisor is kept from above, for numerics."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff = SelfAttention(), FeedForward()

    @staticmethod
    def scale(x):
        return x.square().mean(-1, keepdim=True).add(1e-6).sqrt().clamp(max=1.0)

    def forward(self, x):
        x = x + self.attn(x / self.scale(x))
        return x + self.ff(x / self.scale(x))


class FlooredScale(nn.Module):
    """Short tokens are left as they are; long ones are cut to one."""

    def __init__(self):
        super().__init__()
        self.ff, self.mix = FeedForward(), nn.Parameter(torch.randn(T, T) / T ** 0.5)
        self.register_buffer("one", torch.ones(()))

    def cut(self, x):
        rms = x.square().mean(-1, keepdim=True).sqrt()
        return x / torch.maximum(rms, self.one)

    def forward(self, x):
        x = x + torch.einsum("st,btd->bsd", self.mix, self.cut(x))
        return x + self.ff(self.cut(x))


# ------------------------------------------------------------------ a flag of a config
@dataclass
class BloomConfig:
    hidden: int = D
    heads: int = H
    eps: float = 1e-5
    apply_residual_connection_post_layernorm: bool = True


class BloomLayer(nn.Module):
    """The residual is what the flag says."""

    def __init__(self, config=None):
        super().__init__()
        self.cfg = config or BloomConfig()
        self.input_layernorm = nn.LayerNorm(self.cfg.hidden, eps=self.cfg.eps)
        self.post_attention_layernorm = nn.LayerNorm(self.cfg.hidden, eps=self.cfg.eps)
        self.self_attention, self.mlp = SelfAttention(), FeedForward()

    def forward(self, hidden):
        normed = self.input_layernorm(hidden)
        residual = normed if self.cfg.apply_residual_connection_post_layernorm else hidden
        attention = self.self_attention(normed) + residual
        normed = self.post_attention_layernorm(attention)
        residual = normed if self.cfg.apply_residual_connection_post_layernorm else attention
        return self.mlp(normed) + residual


class ScaledInputLayer(nn.Module):
    """What the net reads is halved on the spot, so as not to allocate."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        shortcut = x
        x *= 0.5
        return shortcut + self.ff(self.ln2(x))


# ------------------------------------------------------------------ layers that are dropped, at inference
def residual(x, fn, rate, deterministic=True):
    """Stochastic depth; at inference the expectation."""
    if not deterministic:
        keep = (torch.rand(x.shape[0], 1, 1, device=x.device) >= rate).to(x.dtype)
        return x + keep * fn(x)
    return (x + fn(x)) * (1.0 - rate)


class DeterministicDepth(nn.Module):
    def __init__(self, rate=0.1):
        super().__init__()
        self.rate = rate
        self.fns = nn.ModuleList([nn.Sequential(nn.LayerNorm(D), SelfAttention()), nn.Sequential(nn.LayerNorm(D), FeedForward())])

    def forward(self, x):
        for fn in self.fns:
            x = residual(x, fn, self.rate)
        return x


class SurvivalLayer(nn.Module):
    """The expectation of a branch that lives nine times of ten."""

    survival = 0.9

    def __init__(self):
        super().__init__()
        self.norm_a, self.a, self.norm_m, self.m = nn.RMSNorm(D), SelfAttention(), nn.RMSNorm(D), FeedForward(act=F.silu)

    def forward(self, x):
        x = torch.add(x, self.a(self.norm_a(x)), alpha=self.survival)
        return torch.add(x, self.m(self.norm_m(x)), alpha=self.survival)


class ResidualMultiplier(nn.Module):
    """A number a channel on what is carried and one on what is added, both trained."""

    def __init__(self):
        super().__init__()
        self.p = nn.ParameterDict({"carry": nn.Parameter(torch.full((D,), 1.1)), "add": nn.Parameter(torch.ones(D))})
        self.norm, self.ff = nn.LayerNorm(D), FeedForward()

    def forward(self, x):
        return torch.addcmul(self.p["carry"] * x, self.p["add"], self.ff(self.norm(x)))


class NormFormerLayer(nn.Module):
    """Numbers a head, a norm behind attention, a norm between the maps of the net."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Parameter(torch.randn(*s) * D ** -0.5) for s in ((H, D, HD), (H, D, HD), (H, D, HD), (H, HD, D)))
        self.head_scale = nn.Parameter(torch.ones(H))
        self.pre_attn, self.post_attn, self.pre_ffn, self.mid_ffn = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(2 * D)
        self.fc1, self.fc2 = dense(D, 2 * D), dense(2 * D, D)

    def attend(self, h):
        q, k, v = (torch.einsum("btd,hdk->bhtk", h, w) for w in (self.q, self.k, self.v))
        p = torch.einsum("bhik,bhjk->bhij", q, k).mul(HD ** -0.5).softmax(dim=-1)
        y = torch.einsum("bhij,bhjk,h->bhik", p, v, self.head_scale)
        return torch.einsum("bhik,hkd->bid", y, self.o)

    def forward(self, x):
        x = x + self.post_attn(self.attend(self.pre_attn(x)))
        return x + self.fc2(self.mid_ffn(F.gelu(self.fc1(self.pre_ffn(x)))))


class GluInsideNorm(nn.Module):
    """No norm in front; products are normed before they are added."""

    def __init__(self):
        super().__init__()
        self.value, self.gate, self.norm = dense(D, D), dense(D, D), nn.RMSNorm(D)

    def forward(self, x):
        return x + self.norm(self.value(x) * F.silu(self.gate(x)))


class GluBehindNorm(nn.Module):
    """What is added is normed, and a gate says how much of it."""

    def __init__(self):
        super().__init__()
        self.ff, self.gate, self.norm_in, self.norm_out = FeedForward(), dense(D, D), nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, x):
        return x + self.norm_out(self.ff(self.norm_in(x))) * F.relu(self.gate(x))


def unit(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class BothNormed(nn.Module):
    """Both summands have one size."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList([SelfAttention(), FeedForward()])

    def forward(self, x):
        for f in self.branches:
            x = unit(x) + unit(f(x))
        return x


class SumNormedThenAdded(nn.Module):
    """The sum is normed, and then added."""

    def __init__(self):
        super().__init__()
        self.ff = FeedForward(act=F.silu)

    def forward(self, x):
        return x + unit(x + self.ff(unit(x)))


class TokenwiseBatchNorm(nn.Module):
    """A batch norm whose channels are places: the sequence comes second."""

    def __init__(self):
        super().__init__()
        self.bn1, self.bn2, self.attn, self.ff = nn.BatchNorm1d(T), nn.BatchNorm1d(T), SelfAttention(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.bn1(x))
        return x + self.ff(self.bn2(x))


class GlobalRange(nn.Module):
    """One number for all: the largest entry."""

    def __init__(self):
        super().__init__()
        self.ff1, self.ff2 = FeedForward(), FeedForward(act=torch.tanh)

    def forward(self, x):
        for ff in (self.ff1, self.ff2):
            x = x + ff(x / (x.abs().max() + 1e-6))
        return x


class PartialRmsLayer(nn.Module):
    """The size is estimated from a quarter of the channels."""

    def __init__(self):
        super().__init__()
        self.weight, self.ff = nn.Parameter(torch.ones(D)), FeedForward()

    def forward(self, x):
        part = x[..., : D // 4]
        h = self.weight * x / (part.norm(dim=-1, keepdim=True) * (D // 4) ** -0.5 + 1e-6)
        return x + self.ff(h)


class DetachedScaleLayer(nn.Module):
    """No gradient passes by the size."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff = SelfAttention(), FeedForward()

    @staticmethod
    def norm(x):
        with torch.no_grad():
            inv = 1.0 / (x.norm(dim=-1, keepdim=True) / math.sqrt(D) + 1e-6)
        return x * inv

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        x = x + self.ff(self.norm(x))
        return x


class SquashedLayer(nn.Module):
    """Entries are squashed where others have a norm."""

    def __init__(self):
        super().__init__()
        self.shift, self.ff, self.mix = nn.Parameter(torch.zeros(D)), FeedForward(), nn.Conv1d(D, D, 3, padding=1, groups=D)

    def squash(self, x):
        y = x + self.shift
        return y * torch.rsqrt(1 + y * y)

    def forward(self, x):
        x = x + self.mix(self.squash(x).mT).mT
        return x + self.ff(self.squash(x))


class ParallelCohere(nn.Module):
    """Attention and net side by side."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn, self.mlp = nn.LayerNorm(D, bias=False), SelfAttention(), FeedForward()

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states_attention = self.self_attn(self.input_layernorm(hidden_states))
        hidden_states_mlp = self.mlp(hidden_states)
        return residual + hidden_states_attention + hidden_states_mlp


class ShiftedStream(nn.Module):
    """Tokens are mixed with the ones before by trained shares, the first one with itself; then a net."""

    def __init__(self):
        super().__init__()
        self.mu, self.norm, self.ff = nn.Parameter(torch.randn(D)), nn.LayerNorm(D), FeedForward()

    def forward(self, x):
        before = torch.cat((x[:, :1], x[:, :-1]), dim=1)
        x = torch.lerp(x, before, torch.sigmoid(self.mu))
        return x + self.ff(self.norm(x))


class SkipOfRootTwo(nn.Module):
    """Two branches at once, and the variance of two summands."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.ff = nn.GroupNorm(1, D), SelfAttention(), FeedForward()

    def forward(self, x):
        h = self.norm(x.flatten(0, 1)).view_as(x)
        return (x + (self.attn(h) + self.ff(h)) * 0.5) / math.sqrt(2.0)


class StaticHighway(nn.Module):
    """A trained share a channel for what is carried; the rest is for what is new."""

    def __init__(self):
        super().__init__()
        self.logit, self.norm, self.ff = nn.Parameter(torch.full((D,), 2.0)), nn.LayerNorm(D), FeedForward()

    def forward(self, x):
        keep = self.logit.sigmoid()
        return keep * x + (1 - keep) * self.ff(self.norm(x))


class BranchTemperature(nn.Module):
    """What is added is a tanh, times four."""

    amplitude = 4.0

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        return x + self.amplitude * torch.tanh(self.body(x) / self.amplitude)


# ------------------------------------------------------------------ pairs, lanes, memories
class PairAverage(nn.Module):
    """Two last states are carried; the new one is their mean and a branch."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.RMSNorm(D), SelfAttention()

    def forward(self, older, newer):
        fresh = (older + newer) / 2 + self.attn(self.norm(newer))
        return newer, fresh


class CoupledHalves(nn.Module):
    """A reversible pair."""

    def __init__(self):
        super().__init__()
        self.f, self.g = (nn.Sequential(nn.LayerNorm(D), m) for m in (SelfAttention(), FeedForward()))

    def forward(self, x1, x2):
        y1 = x1 + self.f(x2)
        y2 = x2 + self.g(y1)
        return y1, y2


class CoupledWithCarry(CoupledHalves):
    """The second half has the skip of what it reads, too."""

    def forward(self, x1, x2):
        y1 = x1 + self.f(x2)
        y2 = x2 + (y1 + self.g(y1))
        return y1, y2


class NormedVelocity(nn.Module):
    """A velocity that is normed before it moves the state."""

    def __init__(self):
        super().__init__()
        self.ff = FeedForward()

    def forward(self, x, v):
        v = F.layer_norm(0.9 * v + self.ff(F.layer_norm(x, (D,))), (D,))
        return x + v, v


class LaneBlock(nn.Module):
    """Four lanes; a branch reads a mix of them and writes to all; lanes are mixed by shares."""

    def __init__(self, n=4):
        super().__init__()
        self.read, self.write = nn.Parameter(torch.full((n,), 1.0 / n)), nn.Parameter(torch.ones(n))
        self.mix = nn.Parameter(4.0 * torch.eye(n))
        self.norm, self.ff = nn.RMSNorm(D), FeedForward()

    def shares(self):
        return self.mix.exp() / self.mix.exp().sum(-1, keepdim=True)

    def forward(self, lanes):
        h = torch.einsum("n,btnd->btd", self.read, lanes)
        out = self.ff(self.norm(h))
        carried = torch.einsum("mn,btnd->btmd", self.shares(), lanes)
        return carried + self.write[:, None] * out[:, :, None]


class LaneBlockV2(LaneBlock):
    """Lanes are mixed evenly."""

    def __init__(self, n=4):
        super().__init__(n)
        self.register_buffer("even", torch.ones(n, n) * n ** -0.5)

    def shares(self):
        return self.even


class MemoryLayer(nn.Module):
    """The first four tokens are a memory with a net of its own."""

    def __init__(self, m=4):
        super().__init__()
        self.m, self.norm, self.attn, self.mem_norm, self.mem_ff = m, nn.LayerNorm(D), SelfAttention(), nn.LayerNorm(D), FeedForward()

    def update(self, memory):
        return memory + self.mem_ff(self.mem_norm(memory))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        memory, tokens = x.split((self.m, x.shape[1] - self.m), dim=1)
        return torch.cat((memory + self.update(memory), tokens), dim=1)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "AveragedLibraryLayer": dict(_PRE, sound=True, why="the mean of x and x + f + g is x and half of both; both are functions of norms."),
    "SandwichV2": dict(_LEVEL, softmax=True, sound=False, why="each block ends in a norm, and nothing passes it."),
    "ClippedScale": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="tokens above one are read as they are: of degree one."),
    "FlooredScale": dict(_NET, **_TWO, sound=True, why="what is read is at most one in rms."),
    "BloomLayer": dict(_LEVEL, softmax=True, sound=False, why="norms and functions of norms are added, and nothing else."),
    "ScaledInputLayer": dict(_LEVEL, identity_gain=0.5 ** 24, softmax=True, **_TWO, sound=False, why="the shortcut is the same memory: halved in each block; steps are functions of norms, a geometric sum."),
    "DeterministicDepth": dict(_LEVEL, identity_gain=0.9 ** 48, softmax=True, **_OPEN, sound=False, why="0.9 twice a block; geometric sums of functions of norms."),
    "SurvivalLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm, 0.9 of each branch."),
    "ResidualMultiplier": dict(_EXP, identity_gain=1.1 ** 24, softmax=False, why="1.1 a block."),
    "NormFormerLayer": dict(_PRE, output_bounded={0: True, 1: False}, **_OPEN, sound=True, gradient_law="power", why="attention ends in a norm; the net in a map of a norm."),
    "GluInsideNorm": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, gradient_law="power", why="what is added is a norm: at most the root of the width."),
    "GluBehindNorm": dict(_EXP, softmax=False, **_ONE, why="a norm times a ReLU of a map of the stream: of degree one."),
    "BothNormed": dict(_LEVEL, growth_all="bounded", softmax=True, sound=False, why="two values of size one are added, whatever was before."),
    "SumNormedThenAdded": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, gradient_law="power", why="a value of size one is added."),
    "TokenwiseBatchNorm": dict(_PRE, **_TWO, **_OPEN, sound=True, why="values of a place over all of the batch are normed: at most the root of 64, in training."),
    "GlobalRange": dict(_NET, **_TWO, sound=True, why="entries read are at most one."),
    "PartialRmsLayer": dict(kind="block", identity_gain=1.0, softmax=False, **_ONE, sound=False, why="of degree nought; what is read is not bounded, where the quarter is small."),
    "DetachedScaleLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm, in values."),
    "SquashedLayer": dict(_NET, **_TWO, sound=True, why="entries read are at most one."),
    "ParallelCohere": dict(_EXP, softmax=True, why="the net reads the stream: of degree one."),
    "ShiftedStream": dict(kind="block", growth_fixed="linear", softmax=False, sound=True, why="shares of two tokens are never above the larger one; steps are functions of norms."),
    "SkipOfRootTwo": dict(_LEVEL, identity_gain=2.0 ** -12, softmax=True, sound=False, why="1/sqrt(2) a block: a geometric sum."),
    "StaticHighway": dict(_LEVEL, identity_gain=(1 / (1 + math.exp(-2.0))) ** 24, softmax=False, sound=False, why="0.88 a block, at the start."),
    "BranchTemperature": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="steps are at most four an entry."),
    "PairAverage": dict(kind="block", growth_fixed="linear", softmax=True, sound=True, why="a mean is never above the larger one; steps are functions of norms."),
    "CoupledHalves": dict(_PRE, **_OPEN, sound=True, why="each half has functions of norms added."),
    "CoupledWithCarry": dict(kind="block", growth_fixed="polynomial", softmax=True, sound=False, why="the first half grows by bounded steps, the second by all of the first: a sum of sums."),
    "NormedVelocity": dict(kind="block", growth_fixed="linear", growth_all="linear", softmax=False, sound=True, why="steps are norms without gains: of rms one."),
    "LaneBlock": dict(kind="block", identity_gain=1.0, growth_fixed="linear", sound=True, why="a matrix of shares that is symmetric at the start: of norm one; steps are functions of norms."),
    "LaneBlockV2": dict(_EXP, identity_gain=2.0 ** 24, softmax=False, gradient_law="exponential", why="ones over the root of four have the eigenvalue two."),
    "MemoryLayer": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, gradient_law="exponential", why="a memory token is added to itself in each block."),
}
