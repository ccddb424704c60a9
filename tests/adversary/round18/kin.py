"""Kin of what was told wrongly in this round, as small as it gets: gated nets where what is carried is forgotten, numbers behind a norm, keys that two layers share."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.adversary.round18.language import HD, Attn, D, FeedForward, T, join, lin, split

__all__ = ["TRUTH"]


def example_inputs():
    return (torch.randn(2, T, D),)


class ForgetSlowly(nn.Module):
    """0.95 of the state and a normed gated net whose square makes up for it."""

    keep = 0.95

    def __init__(self):
        super().__init__()
        self.norm_a, self.norm_b, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), FeedForward()

    def forward(self, x):
        return self.keep * x + (1 - self.keep ** 2) ** 0.5 * self.norm_b(self.ff(self.norm_a(x)))


class ForgetFast(ForgetSlowly):
    """0.8."""

    keep = 0.8


class GatedPost(nn.Module):
    """A gated net and a norm on the sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff = nn.RMSNorm(D), FeedForward()

    def forward(self, x):
        return self.norm(x + self.ff(x))


class LargerBehindNorm(nn.Module):
    """What is normed is multiplied by four before attention: logits start sixteen times as large."""

    factor = 4.0

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.n1(x) * self.factor)
        return x + self.ff(self.n2(x))


class SmallerBehindNorm(LargerBehindNorm):
    """By a quarter."""

    factor = 0.25


class KeysSharedByTwo(nn.Module):
    """Two attentions with queries of their own read the keys and values that the first one made of its norm."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.q1, self.q2, self.kv, self.o1, self.o2 = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, D), lin(D, D), lin(D, 2 * D), lin(D, D), lin(D, D)

    def forward(self, x):
        h = self.n1(x)
        k, v = map(split, self.kv(h).chunk(2, -1))
        x = x + self.o1(join(F.scaled_dot_product_attention(split(self.q1(h)), k, v, is_causal=True)))
        return x + self.o2(join(F.scaled_dot_product_attention(split(self.q2(self.n2(x))), k, v, is_causal=True)))


class NormedKeysGateLogits(nn.Module):
    """Unit queries and keys, and a number for each key made by a map: that map alone can make logits large."""

    def __init__(self):
        super().__init__()
        self.n1, self.qkv, self.bias, self.o = nn.RMSNorm(D), lin(D, 3 * D), lin(D, 4), lin(D, D)

    def branch(self, x):
        h = self.n1(x)
        q, k, v = map(split, self.qkv(h).chunk(3, -1))
        z = F.rms_norm(q, (HD,)) @ F.rms_norm(k, (HD,)).mT / HD ** 0.5 + self.bias(h).mT.unsqueeze(2)
        return self.o(join(z.softmax(-1) @ v))

    def forward(self, x):
        return x + self.branch(x)


class LerpBySlip(nn.Module):
    """x + 0.05 (x − target): the sign of the target slid, and the net is normed at its end."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff = nn.RMSNorm(D), FeedForward()

    def forward(self, x):
        return x + 0.05 * (x - self.norm(self.ff(x)))


class ProjectedSkip(nn.Module):
    """The mean over places is taken from the stream, twice a block."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.f1, self.f2 = nn.RMSNorm(D), nn.RMSNorm(D), FeedForward(), FeedForward()

    def forward(self, x):
        x = x - x.mean(dim=1, keepdim=True) + self.f1(self.n1(x))
        return x - x.mean(dim=1, keepdim=True) + self.f2(self.n2(x))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
TRUTH = {
    "ForgetSlowly": dict(kind="block", identity_gain=0.95 ** 24, growth_fixed="bounded", growth_all="bounded", gradient_law="exponential", softmax=False, output_bounded={0: True}, why="a gated net has twice the slope of its size."),
    "ForgetFast": dict(kind="block", identity_gain=0.8 ** 24, growth_fixed="bounded", growth_all="bounded", gradient_law="exponential", softmax=False, output_bounded={0: True}, why="the same, faster."),
    "GatedPost": dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", gradient_law="exponential", softmax=False, why="the same, on a normed stream."),
    "LargerBehindNorm": dict(_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="pre-norm."),
    "SmallerBehindNorm": dict(_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="pre-norm."),
    "KeysSharedByTwo": dict(_PRE, logits_bounded={0: False, 1: False}, why="all that is read is normed."),
    "NormedKeysGateLogits": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="a free number for each key."),
    "LerpBySlip": dict(kind="block", identity_gain=1.05 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=False, output_bounded={0: True}, why="1.05 a block."),
    "ProjectedSkip": dict(kind="block", identity_gain=1.0, growth_fixed="linear", gradient_law="power", softmax=False, why="a projection, twice."),
}
