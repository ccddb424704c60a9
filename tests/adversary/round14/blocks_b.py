"""Blocks with one thing out of its ordinary place; some of these slips do no harm."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def cut(t):
    return t.view(t.size(0), t.size(1), H, HD).permute(0, 2, 1, 3)


def glue(t):
    return t.permute(0, 2, 1, 3).flatten(2)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = dense(D, 3 * D), dense(D, D)

    def forward(self, x):
        q, k, v = (cut(t) for t in self.c_attn(x).split(D, dim=2))
        return self.c_proj(glue(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class Ffn(nn.Sequential):
    def __init__(self, act=nn.GELU):
        super().__init__(dense(D, 4 * D, True), act(), dense(4 * D, D, True))


class Two(nn.Module):
    """The parts of most blocks below."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(D), Attn(), nn.LayerNorm(D), Ffn()


class NineTenthsSkip(Two):
    """A decay on the first skip, the second is whole."""

    def forward(self, x):
        x = 0.9 * x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class SumOfThreeOverRootThree(Two):
    """Variance is kept, so it is said: three terms over the root of three."""

    def forward(self, x):
        return torch.stack((x, self.attn(self.ln_1(x)), self.mlp(self.ln_2(x)))).sum(dim=0).div(math.sqrt(3))


class RmsAdd(nn.Module):
    """A fused add and norm: gives the normed sum and the sum."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x, residual=None):
        if residual is not None:
            x = x + residual
        residual = x
        return F.rms_norm(x, (D,), self.weight, 1e-6), residual


class FusedAddNorm(nn.Module):
    """Serving code: hidden states and residual go side by side and are added at the next norm."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm, self.self_attn, self.mlp = RmsAdd(), RmsAdd(), Attn(), Ffn(nn.SiLU)

    def forward(self, x):
        hidden_states, residual = self.input_layernorm(x)
        hidden_states = self.self_attn(hidden_states)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        hidden_states = self.mlp(hidden_states)
        return hidden_states + residual


class FusedAddNormSwapped(FusedAddNorm):
    """The pair is unpacked the wrong way round once."""

    def forward(self, x):
        hidden_states, residual = self.input_layernorm(x)
        hidden_states = self.self_attn(hidden_states)
        residual, hidden_states = self.post_attention_layernorm(hidden_states, residual)
        hidden_states = self.mlp(F.rms_norm(hidden_states, (D,)))
        return hidden_states + residual


class CausalMeanAdded(nn.Module):
    """The mean of all places so far is added to the stream itself."""

    def __init__(self):
        super().__init__()
        self.ln, self.mlp = nn.LayerNorm(D), Ffn()

    def forward(self, x):
        count = torch.arange(1, x.size(1) + 1, device=x.device, dtype=x.dtype)
        x = x + x.cumsum(dim=1) / count[:, None]
        return x + self.mlp(self.ln(x))


class StaleSecondNorm(Two):
    """The second norm reads what came in, not the sum."""

    def forward(self, x):
        h = x + self.attn(self.ln_1(x))
        return h + self.mlp(self.ln_2(x))


class KeyNormOnValue(nn.Module):
    """Three tensors, two norms, the second one on the third."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), dense(D, 3 * D), dense(D, D)
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        q, v = self.q_norm(q), self.k_norm(v)
        return self.proj(glue(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        return x + self.branch(x)


class MeanAbsOfQk(nn.Module):
    """Queries and keys over the mean of their magnitudes."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), dense(D, 3 * D), dense(D, D)

    def unit(self, t):
        return t / t.abs().mean(dim=-1, keepdim=True).clamp_min(1e-8)

    def branch(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        a = (self.unit(q) @ self.unit(k).transpose(-2, -1) / HD ** 0.5).softmax(dim=-1)
        return self.proj(glue(a @ v))

    def forward(self, x):
        return x + self.branch(x)


class MeanOfQk(MeanAbsOfQk):
    """The same without magnitudes: a mean may be as small as it likes."""

    def unit(self, t):
        m = t.mean(dim=-1, keepdim=True)
        return t / (m + torch.where(m >= 0, 1e-8, -1e-8).to(m.dtype))


class LearnedDenominator(nn.Module):
    """Each sum is divided by a learned positive number."""

    def __init__(self):
        super().__init__()
        self.ln, self.f, self.log_scale = nn.LayerNorm(D), Ffn(), nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        return (x + self.f(self.ln(x))) / torch.exp(self.log_scale)


class InPlaceReluFirst(nn.Module):
    """Pre-activation; the first ReLU works in place on what is the skip, too."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.conv1, self.conv2, self.bn1, self.bn2 = nn.Conv1d(D, D, 3, padding=1), nn.Conv1d(D, D, 3, padding=1), nn.BatchNorm1d(D), nn.BatchNorm1d(D)

    def forward(self, x):
        x = x.transpose(1, 2).clone()
        out = self.bn1(self.conv1(self.relu(x)))
        out = self.bn2(self.conv2(self.relu(out)))
        return (x + out).transpose(1, 2)


class ChannelShuffleUnit(nn.Module):
    """One half is handed on, the other goes through convolutions without a skip; channels are shuffled."""

    def __init__(self, c=D // 2):
        super().__init__()
        self.branch2 = nn.Sequential(
            nn.Conv1d(c, c, 1, bias=False), nn.BatchNorm1d(c), nn.ReLU(), nn.Conv1d(c, c, 3, padding=1, groups=c, bias=False), nn.BatchNorm1d(c),
            nn.Conv1d(c, c, 1, bias=False), nn.BatchNorm1d(c), nn.ReLU())

    def forward(self, x):
        x1, x2 = x.transpose(1, 2).chunk(2, dim=1)
        out = torch.cat((x1, self.branch2(x2)), dim=1)
        b, c, n = out.shape
        return out.view(b, 2, c // 2, n).transpose(1, 2).reshape(b, c, n).transpose(1, 2)


class TwiceSigmoidSkip(nn.Module):
    """A gate on the skip by channel, twice a sigmoid, from zero."""

    def __init__(self):
        super().__init__()
        self.ln, self.f, self.alpha = nn.LayerNorm(D), Ffn(), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return 2 * torch.sigmoid(self.alpha) * x + self.f(self.ln(x))


class CosineSineMix(nn.Module):
    """A rotation between stream and branch by a learned angle."""

    def __init__(self):
        super().__init__()
        self.norm, self.out_norm, self.attn, self.angle = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return torch.cos(self.angle) * x + torch.sin(self.angle) * self.out_norm(self.attn(self.norm(x)))


class ValueIsTheStream(nn.Module):
    """Values are not projected, and are not normed either."""

    def __init__(self):
        super().__init__()
        self.norm, self.to_qk = nn.LayerNorm(D), dense(D, 2 * D)

    def branch(self, x):
        q, k = map(cut, self.to_qk(self.norm(x)).chunk(2, dim=-1))
        return glue(F.scaled_dot_product_attention(q, k, cut(x)))

    def forward(self, x):
        return x + self.branch(x)


class ShrunkGradient(nn.Module):
    """A tenth of the gradient goes through the skip of every block; meant for the embedding alone."""

    def __init__(self):
        super().__init__()
        self.ln, self.f = nn.LayerNorm(D), Ffn()

    def forward(self, x):
        x = x * 0.1 + x.detach() * 0.9
        return x + self.f(self.ln(x))


class RelativeUpdate(nn.Module):
    """The update has half the size of the stream at each place."""

    def __init__(self):
        super().__init__()
        self.ln, self.f = nn.LayerNorm(D), Ffn()

    def forward(self, x):
        u = self.f(self.ln(x))
        u = u / (u.norm(dim=-1, keepdim=True) + 1e-6)
        return x + 0.5 * x.norm(dim=-1, keepdim=True) * u


class PairBiasFromStream(nn.Module):
    """Queries and keys are normed, a bias by pair is made from the tokens."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), dense(D, 3 * D), dense(D, D)
        self.q_norm, self.k_norm, self.left, self.right = nn.RMSNorm(HD), nn.RMSNorm(HD), dense(D, H), dense(D, H)

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.qkv(h).reshape(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        bias = (self.left(h)[:, :, None] + self.right(h)[:, None]).permute(0, 3, 1, 2)
        return self.proj(glue(F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, attn_mask=bias)))

    def forward(self, x):
        return x + self.branch(x)


class SigmoidTemperature(PairBiasFromStream):
    """Unit queries and keys, a temperature from the data between 1 and 5."""

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.qkv(h).reshape(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        t = 1 + 4 * torch.sigmoid(self.left(h)).transpose(1, 2)[..., None]
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * t
        return self.proj(glue(torch.softmax(s, dim=-1) @ v))


class SoftplusTemperature(PairBiasFromStream):
    """The same with a softplus."""

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.qkv(h).reshape(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        t = 1 + F.softplus(self.left(h)).transpose(1, 2)[..., None]
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * t
        return self.proj(glue(torch.softmax(s, dim=-1) @ v))


class LargerOfBoth(nn.Module):
    """A maximum in the place of the sum."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(D), *Ffn())

    def forward(self, x):
        return torch.maximum(x, self.f(x))


class ClippedSkip(Two):
    """The skips are clipped for half precision, the branches are not."""

    def forward(self, x):
        x = x.clamp(-6.0, 6.0) + self.attn(self.ln_1(x))
        return torch.clip(x, -6.0, 6.0) + self.mlp(self.ln_2(x))


class OverflowPassesThrough(nn.Module):
    """A router with room for twelve tokens; those behind come back as they were, and are added to themselves."""

    def __init__(self, capacity=12):
        super().__init__()
        self.capacity, self.norm, self.router, self.experts = capacity, nn.LayerNorm(D), dense(D, 2), nn.ModuleList(Ffn() for _ in range(2))
        self.norm_c, self.conv = nn.LayerNorm(D), nn.Conv1d(D, D, 3, padding=1)

    def moe(self, x):
        h, c = self.norm(x), self.capacity
        p = torch.sigmoid(self.router(h[:, :c]))
        done = sum(p[..., i, None] * e(h[:, :c]) for i, e in enumerate(self.experts))
        return torch.cat((done, x[:, c:]), dim=1)

    def forward(self, x):
        x = x + self.conv(self.norm_c(x).mT).mT
        return x + self.moe(x)


class NormAlongPlaces(nn.Module):
    """The axes are swapped before the norm, so that each channel is normed over places."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(T), Ffn()

    def forward(self, x):
        return x + self.f(self.norm(x.transpose(1, 2)).transpose(1, 2))


class PaddedSkip(nn.Module):
    """Three quarters of the channels are carried, the others are filled with zeros."""

    def __init__(self, keep=24):
        super().__init__()
        self.keep, self.ln, self.f = keep, nn.LayerNorm(D), Ffn()

    def forward(self, x):
        return F.pad(x[..., : self.keep], (0, D - self.keep)) + self.f(self.ln(x))


class TanhGatedCross(nn.Module):
    """Reading from a bank of latents behind a gate that is shut at the start; the net likewise."""

    def __init__(self):
        super().__init__()
        self.media, self.norm, self.ff_norm = nn.Parameter(torch.randn(8, D)), nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_q, self.to_kv, self.to_out, self.ff = dense(D, D), dense(D, 2 * D), dense(D, D), Ffn()
        self.attn_gate, self.ff_gate = nn.Parameter(torch.tensor([0.0])), nn.Parameter(torch.tensor([0.0]))

    def read(self, x):
        q, (k, v) = cut(self.to_q(self.norm(x))), map(cut, self.to_kv(self.media.expand(x.size(0), -1, -1)).chunk(2, dim=-1))
        return self.to_out(glue((q @ k.transpose(2, 3) * HD ** -0.5).softmax(-1) @ v))

    def forward(self, x):
        x = self.read(x) * self.attn_gate.tanh() + x
        return self.ff(self.ff_norm(x)) * self.ff_gate.tanh() + x


class DiracShortcut(nn.Module):
    """The shortcut is a convolution of one that starts as the identity."""

    def __init__(self):
        super().__init__()
        self.shortcut, self.norm = nn.Conv1d(D, D, 1, bias=False), nn.GroupNorm(8, D)
        self.body = nn.Sequential(nn.Conv1d(D, D, 3, padding=1), nn.SiLU(), nn.Conv1d(D, D, 3, padding=1))
        nn.init.dirac_(self.shortcut.weight)

    def forward(self, x):
        x = x.permute(0, 2, 1)
        return (self.shortcut(x) + self.body(self.norm(x))).permute(0, 2, 1)


class RootHalfOnLastOnly(Two):
    """The first sum is whole, the second is over the root of two."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return torch.lerp(x, self.mlp(self.ln_2(x)), 0.5) * 2 ** 0.5


class NormedAttentionRawFfn(Two):
    """The second norm is made and called, and its result is thrown away."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        _ = self.ln_2(x)
        return x + self.mlp(x)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_B = dict(kind="block")
_FREE = dict(output_bounded={0: False, 1: False}, logits_bounded={0: False})
_GROWS = dict(growth_fixed="exponential", gradient_law="exponential")
TRUTH = {
    "NineTenthsSkip": dict(_B, identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=True, **_FREE, why="0.9 a block."),
    "SumOfThreeOverRootThree": dict(_B, identity_gain=3.0 ** -12, growth_fixed="bounded", softmax=True, **_FREE, why="a root of a third a block."),
    "FusedAddNorm": dict(_PRE, **_FREE, why="pre-norm."),
    "FusedAddNormSwapped": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True, why="the normed sum is what is carried."),
    "CausalMeanAdded": dict(_B, softmax=False, **_GROWS, why="the first place is doubled each block; what is equal over places, too."),
    "StaleSecondNorm": dict(_PRE, **_FREE, why="pre-norm, in effect parallel."),
    "KeyNormOnValue": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="keys are free."),
    "MeanAbsOfQk": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="a mean of magnitudes is at least the norm over 8: 64/root 8 at most."),
    "MeanOfQk": dict(kind="block", softmax=True, output_bounded={0: False}, logits_bounded={0: False}, why="a mean may vanish."),
    "LearnedDenominator": dict(_B, identity_gain=math.exp(-2.4), growth_fixed="bounded", softmax=False, output_bounded={0: False}, why="exp(-0.1) a block."),
    "InPlaceReluFirst": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="ReLU keeps what is positive; batch norm ends the branch."),
    "ChannelShuffleUnit": dict(_B, identity_gain=1.0, growth_fixed="bounded", growth_all="bounded", softmax=False, why="channel 0 is never moved; nothing is added."),
    "TwiceSigmoidSkip": dict(_CONV, output_bounded={0: False}, why="2 * 1/2 at the start."),
    "CosineSineMix": dict(_B, identity_gain=math.cos(0.3) ** 24, growth_fixed="bounded", softmax=True, output_bounded={0: True}, logits_bounded={0: False},
        why="cos 0.3 a block; the branch is normed."),
    "ValueIsTheStream": dict(_B, softmax=True, growth_fixed="exponential", logits_bounded={0: False}, why="what is equal over places is doubled."),
    "ShrunkGradient": dict(_B, growth_fixed="linear", gradient_law="exponential", softmax=False, output_bounded={0: False}, why="forward it is 1; backward a tenth."),
    "RelativeUpdate": dict(_B, growth_fixed="exponential", softmax=False, why="the stream's own size times a half."),
    "PairBiasFromStream": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="the bias is a map of the data."),
    "SigmoidTemperature": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="5 at most."),
    "SoftplusTemperature": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="a softplus of a map of the data."),
    "LargerOfBoth": dict(_B, growth_fixed="bounded", softmax=False, why="the larger of the start and of bounded branches."),
    "ClippedSkip": dict(_B, growth_fixed="bounded", softmax=True, **_FREE, why="6 and a branch."),
    "OverflowPassesThrough": dict(_B, identity_gain=2.0 ** 24, softmax=False, **_GROWS, why="tokens behind the twelfth are doubled."),
    "NormAlongPlaces": dict(_CONV, output_bounded={0: False}, why="entries below 4."),
    "PaddedSkip": dict(_CONV, output_bounded={0: False}, why="1 for 24 channels."),
    "TanhGatedCross": dict(_B, identity_gain=1.0, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="gates are 0 at the start."),
    "DiracShortcut": dict(_CONV, output_bounded={0: False}, why="the identity at the start."),
    "RootHalfOnLastOnly": dict(_B, identity_gain=0.5 ** 12, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="(x + f)/root 2, by a lerp."),
    "NormedAttentionRawFfn": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=True, **_FREE, why="a raw net."),
}
