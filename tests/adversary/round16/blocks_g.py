"""A raw net ends in a norm, and something is done to it before it is added: what keeps it bounded for all weights, and what does not."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


class Ends(nn.Module):
    """A net of the raw stream, a norm, `then`."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(D, 64), nn.Linear(64, D), nn.LayerNorm(D)
        for w in (self.up, self.down):
            nn.init.normal_(w.weight, std=w.in_features ** -0.5)
            nn.init.zeros_(w.bias)

    def then(self, n, x):
        raise NotImplementedError

    def branch(self, x):
        return self.then(self.norm(self.down(F.gelu(self.up(x)))), x)

    def forward(self, x):
        return x + self.branch(x)


class PlusBias(Ends):
    """A trained vector is added behind the norm."""

    def __init__(self):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(D))

    def then(self, n, x):
        return n + self.offset


class PlusPlaces(Ends):
    """A fixed table of places is added."""

    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.sin(torch.arange(T * D) * 0.37).view(T, D).to(torch.get_default_dtype()))

    def then(self, n, x):
        return n + self.places


class MixedByShares(Ends):
    """Places are mixed by a trained matrix whose rows are softmaxes."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.randn(T, T))

    def then(self, n, x):
        return self.mix.softmax(dim=-1) @ n


class MixedFreely(MixedByShares):
    """As it is."""

    def then(self, n, x):
        return self.mix @ n / T ** 0.5


class MixedByData(Ends):
    """Places are mixed by a softmax of products of the raw stream."""

    def then(self, n, x):
        return torch.softmax(x @ x.mT / D ** 0.5, dim=-1) @ n


class MixedByRawProducts(Ends):
    """By the products themselves over the number of places."""

    def then(self, n, x):
        return x @ (x.mT @ n) / (T * D)


class Summed(Ends):
    """Running means over places."""

    def then(self, n, x):
        return n.cumsum(dim=1) / torch.arange(1, T + 1, device=n.device, dtype=n.dtype)[:, None]


class Squared(Ends):
    """The square, with its sign."""

    def then(self, n, x):
        return n * n.abs()


class Exponential(Ends):
    """The exponential of half of it."""

    def then(self, n, x):
        return torch.exp(0.5 * n)


class Inverse(Ends):
    """One over it."""

    def then(self, n, x):
        return 1.0 / (n + 1e-12)




class LogOfMore(Ends):
    """The logarithm of one more than its size."""

    def then(self, n, x):
        return torch.log1p(n.abs())


class TimesLength(Ends):
    """Times the stream's length."""

    def then(self, n, x):
        return n * x.norm(dim=-1, keepdim=True) / D ** 0.5


class TimesRelative(Ends):
    """Times each token's share of all lengths."""

    def then(self, n, x):
        size = x.norm(dim=-1, keepdim=True)
        return n * size / (size.sum(dim=1, keepdim=True) + 1e-6) * T


class ByCode(Ends):
    """The nearest of eight trained vectors stands in its place."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(8, D)

    def then(self, n, x):
        return F.embedding(torch.cdist(n, self.codes.weight[None]).argmin(dim=-1), self.codes.weight)


class ByFixedCode(Ends):
    """Of eight fixed vectors."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(8, D))

    def then(self, n, x):
        return F.embedding((n @ self.codes.t()).argmax(dim=-1), self.codes)


class GramOfItself(Ends):
    """Linear attention of itself: three normed values are multiplied."""

    def then(self, n, x):
        return n @ (n.mT @ n) / (T * D)


class Spectrum(Ends):
    """The real part of its transform over the places, orthonormal."""

    def then(self, n, x):
        return torch.fft.fft(n, dim=1, norm="ortho").real


class PastOneMap(Ends):
    """A map with rows of length one."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(D, D))

    def then(self, n, x):
        return F.linear(n, self.w / self.w.norm(dim=1, keepdim=True).clamp_min(1e-8))


class PastOneMapWrongAxis(PastOneMap):
    """With numbers of one row over the length of another one."""

    def then(self, n, x):
        return F.linear(n, self.w / self.w.norm(dim=1, keepdim=True).clamp_min(1e-8).roll(1, dims=0))


class LessItself(Ends):
    """Less the stream's own normed value: two bounded terms."""

    def then(self, n, x):
        return n - F.layer_norm(x, (D,))


class LessTheStream(Ends):
    """A fifth of it, less a fifth of the stream."""

    def then(self, n, x):
        return 0.2 * (n - x)


_B = dict(kind="block", identity_gain=1.0)
_PERI = dict(_B, growth_fixed="linear", growth_all="linear", softmax=False, output_bounded={0: True})
_OPEN = dict(_B, softmax=False, output_bounded={0: False})
TRUTH = {
    "PlusBias": dict(_OPEN, growth_fixed="linear", why="a trained vector has any size."),
    "PlusPlaces": dict(_PERI, why="two bounded terms."),
    "MixedByShares": dict(_B, growth_fixed="linear", growth_all="linear", output_bounded={0: True}, why="means of normed values."),
    "MixedFreely": dict(_OPEN, growth_fixed="linear", why="a free matrix."),
    "MixedByData": dict(_B, growth_fixed="linear", growth_all="linear", softmax=True, output_bounded={0: True}, why="means of normed values."),
    "MixedByRawProducts": dict(_OPEN, growth_fixed="exponential", why="degree two in the stream."),
    "Summed": dict(_PERI, why="means."),
    "Squared": dict(_PERI, why="at most d."),
    "Exponential": dict(_PERI, why="at most exp of half the root of d."),
    "Inverse": dict(_OPEN, why="a normed value may have a zero."),
    "LogOfMore": dict(_PERI, why="below the size."),
    "TimesLength": dict(_OPEN, growth_fixed="exponential", why="degree one."),
    "TimesRelative": dict(_PERI, why="shares are at most one."),
    "ByCode": dict(_OPEN, growth_fixed="linear", why="codes are trained."),
    "ByFixedCode": dict(_PERI, why="codes are fixed."),
    "GramOfItself": dict(_PERI, why="three bounded values."),
    "Spectrum": dict(_PERI, why="at most root T times."),
    "PastOneMap": dict(_PERI, why="rows of length one."),
    "PastOneMapWrongAxis": dict(_OPEN, growth_fixed="linear", why="one row may be longer than another one."),
    "LessItself": dict(_B, growth_fixed="bounded", growth_all="bounded", softmax=False, output_bounded={0: True}, why="two bounded terms; the second draws in by as much as the first one can draw out: bounded."),
    "LessTheStream": dict(kind="block", identity_gain=0.8 ** 24, growth_fixed="bounded", growth_all="bounded", softmax=False, why="four fifths and a fifth of a norm."),
}
