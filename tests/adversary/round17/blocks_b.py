"""Blocks with a plausible slip each, and their neighbours without one."""

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
    nn.init.normal_(w.weight, std=1 / math.sqrt(i))
    if bias:
        nn.init.zeros_(w.bias)
    return w


def fold(t):
    return t.reshape(*t.shape[:2], H, -1).permute(0, 2, 1, 3)


def unfold(t):
    return t.permute(0, 2, 1, 3).reshape(t.shape[0], t.shape[2], -1)


class SelfAttention(nn.Module):
    """Plain attention; `scores` is what the classes below change."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = dense(D, D), dense(D, D), dense(D, D), dense(D, D)

    def scores(self, q, k):
        return q @ k.transpose(-1, -2) / HD ** 0.5

    def weigh(self, s):
        return s.softmax(dim=-1)

    def forward(self, h):
        s = self.scores(fold(self.to_q(h)), fold(self.to_k(h)))
        return self.to_out(unfold(self.weigh(s) @ fold(self.to_v(h))))


class FeedForward(nn.Module):
    def __init__(self, mult=2):
        super().__init__()
        self.net = nn.Sequential(dense(D, mult * D, True), nn.GELU(), dense(mult * D, D, True))

    def forward(self, h):
        return self.net(h)


class Block(nn.Module):
    """Pre-norm, from which the slips start."""

    attention = SelfAttention

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), self.attention(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


# ------------------------------------------------------------ skips
class SkipBehindNorm(Block):
    """What is kept for the skip is the normed state."""

    def forward(self, x):
        x = self.norm1(x)
        residual = x
        x = self.attn(x) + residual
        x = self.norm2(x)
        residual = x
        return self.ff(x) + residual


class SecondNormUnused(Block):
    """The second norm is computed and the raw state is handed on."""

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h)
        h = self.norm2(x)
        return x + self.ff(x)


class WrapperAddsAgain(nn.Module):
    """The wrapper adds its input, and so does the block."""

    class PreNorm(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.norm, self.fn = nn.LayerNorm(D), fn

        def forward(self, x):
            return self.fn(self.norm(x)) + x

    def __init__(self):
        super().__init__()
        self.attn, self.ff = self.PreNorm(SelfAttention()), self.PreNorm(FeedForward())

    def forward(self, x):
        x = x + self.attn(x)
        x = x + self.ff(x)
        return x


class ContextAdded(Block):
    """The mean over tokens is handed to all of them, unweighed."""

    def forward(self, x):
        x = x + self.attn(self.norm1(x)) + x.mean(dim=1, keepdim=True)
        return x + self.ff(self.norm2(x))


class AlphaWithoutNorm(Block):
    """A factor for the skip was kept when the norm behind the sum was moved to the front."""

    alpha = 1.19

    def forward(self, x):
        x = x * self.alpha + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class MagnitudePreserving(Block):
    """Sums keep their variance: both terms are weighed and divided by the root of the sum of squares."""

    @staticmethod
    def mp_sum(a, b, t=0.3):
        return torch.lerp(a, b, t) / math.sqrt((1 - t) ** 2 + t ** 2)

    def forward(self, x):
        x = self.mp_sum(x, self.attn(self.norm1(x)))
        return self.mp_sum(x, self.ff(self.norm2(x)))


class RectifiedHighway(nn.Module):
    """The carry gate is rectified where it should be squashed."""

    def __init__(self):
        super().__init__()
        self.plain, self.gate = dense(D, D, True), dense(D, D, True)

    def forward(self, x):
        t = F.relu(self.gate(x))
        return t * torch.tanh(self.plain(x)) + (1 - t) * x


class BothTermsGated(nn.Module):
    """One sigmoid for state and candidate; no complement."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff, self.gate = nn.LayerNorm(D), FeedForward(), dense(D, D, True)

    def forward(self, x):
        h = self.norm(x)
        z = torch.sigmoid(self.gate(h))
        return z * x + z * self.ff(h)


# ------------------------------------------------------------ queries, keys, scores
class OneSidedCap(Block):
    """Scores are cut at fifty from above alone."""

    class attention(SelfAttention):
        def scores(self, q, k):
            return super().scores(q, k).clamp(max=50.0)


class CapWithoutDivision(Block):
    """A soft cap without the division within: saturates early and is bounded all the same."""

    class attention(SelfAttention):
        def scores(self, q, k):
            return 50.0 * torch.tanh(super().scores(q, k))


class ShareOverQueries(Block):
    """The softmax runs over queries."""

    class attention(SelfAttention):
        def weigh(self, s):
            return torch.softmax(s, dim=-2)


class CosineOverTokens(Block):
    """Unit columns where rows are meant: entries are at most one, so are eight of their products."""

    class attention(SelfAttention):
        def scores(self, q, k):
            return 10.0 * F.normalize(q, dim=-2) @ F.normalize(k, dim=-2).mT


class CosineByKeysAlone(Block):
    """The product is divided by the square of the key's length."""

    class attention(SelfAttention):
        def scores(self, q, k):
            return 10.0 * q @ k.mT / k.square().sum(-1)[..., None, :].clamp(min=1e-6)


class TemperatureFloor(Block):
    """The clamp of the log temperature holds from below."""

    class attention(SelfAttention):
        def __init__(self):
            super().__init__()
            self.logit_scale = nn.Parameter(torch.full((H, 1, 1), math.log(10.0)))

        def scores(self, q, k):
            scale = self.logit_scale.clamp(min=math.log(0.01)).exp()
            return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * scale


# ------------------------------------------------------------ norms
class DividedByMean(nn.Module):
    """The root mean square has lost its square."""

    def __init__(self):
        super().__init__()
        self.gain, self.ff = nn.Parameter(torch.ones(D)), FeedForward()

    def branch(self, x):
        return self.ff(x / x.mean(dim=-1, keepdim=True) * self.gain)

    def forward(self, x):
        return x + self.branch(x)


class NormAgain(Block):
    """The attention has a norm of its own, which nobody remembered."""

    class attention(SelfAttention):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(D)

        def forward(self, h):
            return super().forward(self.norm(h))


class GroupNormOverPlaces(nn.Module):
    """Channels first; one group, so that places are normed together; a pooled branch and a net of convolutions of width one."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, D), nn.GroupNorm(1, D)
        self.pool = nn.AvgPool1d(3, stride=1, padding=1, count_include_pad=False)
        self.mlp = nn.Sequential(nn.Conv1d(D, 2 * D, 1), nn.GELU(), nn.Conv1d(2 * D, D, 1))

    def mix(self, c):
        h = self.norm1(c)
        return self.pool(h) - h

    def forward(self, x):
        c = x.mT
        c = c + self.mix(c)
        c = c + self.mlp(self.norm2(c))
        return c.mT


class NormOnTheSumInBranch(nn.Module):
    """The branch has a skip of its own, and the norm stands on that sum."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_out, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention()

    def branch(self, x):
        return self.norm_out(x + self.attn(self.norm_in(x)))

    def forward(self, x):
        return x + self.branch(x)


class LastNormMissing(Block):
    """Post-norm; the second norm was lost."""

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return x + self.ff(x)


class OpenGateBehindNorm(nn.Module):
    """A norm ends the branch but for a gate that may be anything."""

    def __init__(self):
        super().__init__()
        self.norm, self.post_norm, self.ff, self.gate = nn.RMSNorm(D), nn.RMSNorm(D), FeedForward(), dense(D, D)

    def squash(self, g):
        return g

    def branch(self, x):
        h = self.norm(x)
        return self.post_norm(self.ff(h)) * self.squash(self.gate(h))

    def forward(self, x):
        return x + self.branch(x)


class ShutGateBehindNorm(OpenGateBehindNorm):
    """The same with a sigmoid."""

    def squash(self, g):
        return torch.sigmoid(g)


class SquashedInsteadOfNormed(nn.Module):
    """A tanh with a learned slope for the norms."""

    class Squash(nn.Module):
        def __init__(self):
            super().__init__()
            self.alpha, self.gain = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.ones(D))

        def forward(self, x):
            return torch.tanh(self.alpha * x) * self.gain

    def __init__(self):
        super().__init__()
        self.s1, self.s2, self.attn, self.ff = self.Squash(), self.Squash(), SelfAttention(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.s1(x))
        return x + self.ff(self.s2(x))


class ChannelsShuffled(Block):
    """Groups of channels are interleaved on the stream behind each block."""

    def forward(self, x):
        x = super().forward(x)
        b, n, c = x.shape
        return x.view(b, n, 4, c // 4).transpose(2, 3).reshape(b, n, c)


class NeighbourAveraged(Block):
    """What is carried is the mean of a place and the place before it, around the ring."""

    def forward(self, x):
        x = 0.5 * (x + torch.roll(x, 1, dims=1)) + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class CausalContextAdded(Block):
    """The running mean over places is added to the stream."""

    def forward(self, x):
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)[:, None]
        x = x + self.attn(self.norm1(x)) + x.cumsum(dim=1) / count
        return x + self.ff(self.norm2(x))


class ChannelMeanAdded(Block):
    """The mean over channels is added instead of taken away."""

    def forward(self, x):
        x = x + x.mean(dim=-1, keepdim=True)
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class IntoUnitBall(nn.Module):
    """Longer vectors are cut to length one, shorter ones are left."""

    def __init__(self):
        super().__init__()
        self.ff = FeedForward()

    def shorten(self, x):
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1.0)

    def branch(self, x):
        return self.ff(4 * self.shorten(x))

    def forward(self, x):
        return x + self.branch(x)


class IntoUnitBallWrongSide(IntoUnitBall):
    """The clamp holds from the other side: long vectors stay long."""

    def shorten(self, x):
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(1e-6, 1.0)


class BranchClamped(Block):
    """What a branch gives is cut to what half precision can take, here ten."""

    def forward(self, x):
        x = x + torch.clamp(self.attn(self.norm1(x)), -10, 10)
        return x + self.ff(self.norm2(x)).clip(min=-10, max=10)


class BranchClampedFromAbove(Block):
    """The lower end was forgotten."""

    def forward(self, x):
        x = x + torch.clamp(self.attn(self.norm1(x)), max=10)
        return x + torch.minimum(self.ff(self.norm2(x)), torch.full_like(x, 10.0))


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_FREE = dict(_TWO, logits_bounded={0: False})
_ONE = dict(output_bounded={0: False})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True)
_GROWS = dict(growth_fixed="exponential", gradient_law="exponential")
TRUTH = {
    "SkipBehindNorm": dict(_ON, why="two normed skips; the last step is a map of what is normed."),
    "SecondNormUnused": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=True, **_FREE, why="the net is raw and of degree one."),
    "WrapperAddsAgain": dict(_B, identity_gain=4.0 ** 24, softmax=True, **_GROWS, why="twice, twice a block."),
    "ContextAdded": dict(_B, identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=True, why="what all tokens share is doubled."),
    "AlphaWithoutNorm": dict(_B, identity_gain=1.19 ** 24, softmax=True, **_GROWS, **_FREE, why="a factor a block."),
    "MagnitudePreserving": dict(_B, identity_gain=(0.49 / 0.58) ** 24, growth_fixed="bounded", softmax=True, **_FREE, why="0.7 over root 0.58, twice a block."),
    "RectifiedHighway": dict(_B, gated=True, growth_fixed="exponential", softmax=False, why="a product of two values of the stream."),
    "BothTermsGated": dict(_B, gated=True, growth_fixed="bounded", softmax=False, why="the gate knows what is normed: at most a number below 1."),
    "OneSidedCap": dict(_PRE, **_FREE, why="unbounded from below."),
    "CapWithoutDivision": dict(_PRE, **_TWO, logits_bounded={0: True}, why="fifty at most."),
    "ShareOverQueries": dict(_PRE, **_FREE, why="shares are at most one, whatever they sum to."),
    "CosineOverTokens": dict(_PRE, **_TWO, logits_bounded={0: True}, why="eighty at most."),
    "CosineByKeysAlone": dict(_PRE, **_FREE, why="the query is free."),
    "TemperatureFloor": dict(_PRE, **_TWO, why="pre-norm; of the temperature no word."),
    "DividedByMean": dict(_B, identity_gain=1.0, softmax=False, **_ONE, why="a mean may be zero."),
    "NormAgain": dict(_PRE, **_FREE, why="a norm of a norm."),
    "GroupNormOverPlaces": dict(_NET, output_bounded={0: True, 1: False}, why="a norm over places bounds an entry by the root of their number."),
    "NormOnTheSumInBranch": dict(_PRE, growth_all="linear", output_bounded={0: True}, logits_bounded={0: False}, why="a norm ends the branch."),
    "LastNormMissing": dict(_ON, logits_bounded={0: False}, why="one norm on the stream a block, a net of it behind."),
    "OpenGateBehindNorm": dict(_NET, **_ONE, why="a free gate of what is normed."),
    "ShutGateBehindNorm": dict(_NET, growth_all="linear", output_bounded={0: True}, why="a gate below one."),
    "SquashedInsteadOfNormed": dict(_PRE, **_FREE, why="entries at most one."),
    "ChannelsShuffled": dict(_PRE, why="a permutation."),
    "NeighbourAveraged": dict(_PRE, why="what all places share is kept."),
    "CausalContextAdded": dict(_B, growth_fixed="exponential", softmax=True, why="the first place is doubled."),
    "ChannelMeanAdded": dict(_B, identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=True, logits_bounded={0: False}, why="what all channels share is doubled."),
    "IntoUnitBall": dict(_NET, **_ONE, why="what the net reads is at most four long."),
    "IntoUnitBallWrongSide": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, **_ONE, why="a raw branch of degree one, where the state is long."),
    "BranchClamped": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: False}, why="ten at most."),
    "BranchClampedFromAbove": dict(_PRE, **_FREE, why="unbounded from below."),
}
