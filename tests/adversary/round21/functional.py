"""Ports of functional code: dictionaries of parameters, pure functions, vmap, stacked weights that a loop scans, calls with swapped parameters."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, vmap

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def init(*shape, fan=None):
    return nn.Parameter(torch.randn(*shape) * (fan or shape[0]) ** -0.5)


def layer_norm(p, x, axis=-1, eps=1e-5):
    mu = x.mean(axis, keepdim=True)
    var = torch.mean(torch.square(x - mu), axis, keepdim=True)
    return (x - mu) * torch.rsqrt(var + eps) * p["scale"] + p["offset"]


def rms(x, eps=1e-6):
    return x * torch.rsqrt(torch.mean(x ** 2, dim=-1, keepdim=True) + eps)


def norm_params():
    return nn.ParameterDict({"scale": torch.ones(D), "offset": torch.zeros(D)})


def attention(p, x, causal=True):
    q = torch.einsum("btd,dhk->bthk", x, p["q"])
    k = torch.einsum("btd,dhk->bthk", x, p["k"])
    v = torch.einsum("btd,dhk->bthk", x, p["v"])
    logits = torch.einsum("bthk,bshk->bhts", q, k) / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device))
        logits = torch.where(mask, logits, -1e9)
    return torch.einsum("bhts,bshk,hkd->btd", torch.softmax(logits, -1), v, p["o"])


def attention_params():
    return nn.ParameterDict({"q": init(D, H, HD), "k": init(D, H, HD), "v": init(D, H, HD), "o": init(H, HD, D, fan=D)})


def mlp(p, x):
    return F.gelu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def mlp_params(hidden=64):
    return nn.ParameterDict({"w1": init(D, hidden), "b1": torch.zeros(hidden), "w2": init(hidden, D), "b2": torch.zeros(D)})


class HaikuBlock(nn.Module):
    """Pure functions over a nested dictionary, as a port has it."""

    def __init__(self):
        super().__init__()
        self.params = nn.ModuleDict({"ln_1": norm_params(), "attn": attention_params(), "ln_2": norm_params(), "mlp": mlp_params()})

    def forward(self, x):
        p = self.params
        x = x + attention(p["attn"], layer_norm(p["ln_1"], x))
        return x + mlp(p["mlp"], layer_norm(p["ln_2"], x))


class HaikuBlockAxis(HaikuBlock):
    """axis=1: the norm runs over the tokens."""

    def forward(self, x):
        p = self.params
        x = x + attention(p["attn"], layer_norm(p["ln_1"], x, axis=1))
        return x + mlp(p["mlp"], layer_norm(p["ln_2"], x, axis=1))


class HaikuBlockSwap(HaikuBlock):
    """Arguments in the wrong order of the second branch: what is normed is the update, and the net reads the stream."""

    def forward(self, x):
        p = self.params
        x = x + attention(p["attn"], layer_norm(p["ln_1"], x))
        return x + layer_norm(p["ln_2"], mlp(p["mlp"], x))


class HaikuBlockStale(HaikuBlock):
    """The second norm reads the block's input: the net never sees what attention wrote in its own block."""

    def forward(self, x):
        p = self.params
        y = x + attention(p["attn"], layer_norm(p["ln_1"], x))
        return y + mlp(p["mlp"], layer_norm(p["ln_2"], x))


class HaikuBlockLost(HaikuBlock):
    """The first sum has another name, and the second one starts at the input: what attention adds is read by the net alone."""

    def forward(self, x):
        p = self.params
        y = x + attention(p["attn"], layer_norm(p["ln_1"], x))
        return x + mlp(p["mlp"], layer_norm(p["ln_2"], y))


class VmapHeads(nn.Module):
    """One head written once and mapped over heads."""

    dims = 2

    def __init__(self):
        super().__init__()
        self.norm, self.wqkv, self.wo = nn.LayerNorm(D), init(3, D, H, HD, fan=D), init(D, D)

    def head(self, q, k, v):
        a = torch.softmax(q @ k.mT * HD ** -0.5, -1)
        return a @ v

    def forward(self, x):
        q, k, v = torch.einsum("btd,ndhk->nbthk", self.norm(x), self.wqkv)
        y = vmap(self.head, in_dims=self.dims, out_dims=self.dims)(q, k, v)
        return x + y.flatten(-2) @ self.wo


class VmapTokens(VmapHeads):
    """Mapped over the tokens instead: heads attend to heads, and no token sees another one."""

    dims = 1


class VmapRaw(VmapHeads):
    """The norm was left in the caller, which has none."""

    def forward(self, x):
        q, k, v = torch.einsum("btd,ndhk->nbthk", x, self.wqkv)
        y = vmap(self.head, in_dims=2, out_dims=2)(q, k, v)
        return x + y.flatten(-2) @ self.wo


def stacked(t):
    p = nn.Parameter(t)
    p.stacked = True
    return p


class ScanStack(nn.Module):
    """Weights of all layers in one tensor each, and a loop where the original scans."""

    skip = 1.0

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.n = n
        self.g1, self.g2 = stacked(torch.ones(n, D)), stacked(torch.ones(n, D))
        self.wqkv, self.wo = stacked(torch.randn(n, D, 3 * D) * D ** -0.5), stacked(torch.randn(n, D, D) * D ** -0.5)
        self.w1, self.w2 = stacked(torch.randn(n, D, 64) * D ** -0.5), stacked(torch.randn(n, 64, D) * 64 ** -0.5)

    def layer(self, carry, g1, wqkv, wo, g2, w1, w2):
        h = rms(carry) * g1
        q, k, v = (h @ wqkv).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        carry = self.skip * carry + y.transpose(1, 2).flatten(2) @ wo
        h = rms(carry) * g2
        return self.skip * carry + F.silu(h @ w1) @ w2

    def forward(self, x):
        for ws in zip(self.g1, self.wqkv, self.wo, self.g2, self.w1, self.w2):
            x = self.layer(x, *ws)
        return x


class ScanStackLeaky(ScanStack):
    """A decay of the carry that was written for another scan: 0.9 twice a layer."""

    skip = 0.9


class ScanStackOneGain(ScanStack):
    """The unpacked gains are those of layer 0 for all layers."""

    def forward(self, x):
        for i in range(self.n):
            x = self.layer(x, self.g1[0], self.wqkv[i], self.wo[i], self.g2[0], self.w1[i], self.w2[i])
        return x


class SwappedParameters(nn.Module):
    """One template module; each layer's parameters are swapped into it."""

    def __init__(self, n=None):
        super().__init__()
        self.template = [Template()]
        self.params = nn.ModuleList(nn.ParameterDict({k.replace(".", "_"): nn.Parameter(torch.randn_like(v) * 32 ** -0.5 if v.ndim > 1 else v.detach().clone())
                                                      for k, v in Template().named_parameters()}) for _ in range(n or 8))
        self.names = [k for k, _ in Template().named_parameters()]

    def forward(self, x):
        for p in self.params:
            x = x + functional_call(self.template[0], {k: p[k.replace(".", "_")] for k in self.names}, (x,))
        return x


class Template(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        return self.down(torch.tanh(self.up(self.norm(x))))


class ParallelDict(nn.Module):
    """One norm, attention and net beside each other, one sum."""

    def __init__(self):
        super().__init__()
        self.p = nn.ModuleDict({"n": norm_params(), "a": attention_params(), "m": mlp_params()})

    def forward(self, x):
        h = layer_norm(self.p["n"], x)
        return x + attention(self.p["a"], h) + mlp(self.p["m"], h)


class ParallelDictTwice(ParallelDict):
    """Both helpers were given their own skip before they were summed."""

    def forward(self, x):
        h = layer_norm(self.p["n"], x)
        return (x + attention(self.p["a"], h)) + (x + mlp(self.p["m"], h))


class ParallelDictNormed(ParallelDict):
    """`x = norm(x)` overwrites what the skip needs."""

    def forward(self, x):
        x = layer_norm(self.p["n"], x)
        return x + attention(self.p["a"], x) + mlp(self.p["m"], x)


class ParallelDictMean(ParallelDict):
    """The mean of the two, each with its skip."""

    def forward(self, x):
        h = layer_norm(self.p["n"], x)
        return 0.5 * ((x + attention(self.p["a"], h)) + (x + mlp(self.p["m"], h)))


class AssociativeScan(nn.Module):
    """A gated linear recurrence by doubling, four passes for sixteen tokens; decays in (0, 1), inputs by one minus them."""

    def __init__(self):
        super().__init__()
        self.g, self.wa, self.wx, self.wo = nn.Parameter(torch.ones(D)), init(D, D), init(D, D), init(D, D)

    def decay(self, h):
        return torch.sigmoid(h @ self.wa + 1.0)

    def forward(self, x):
        h = rms(x) * self.g
        a = self.decay(h)
        b = (1 - a) * (h @ self.wx)
        step = 1
        while step < T:
            ap, bp = F.pad(a, (0, 0, step, 0), value=1.0)[:, :T], F.pad(b, (0, 0, step, 0))[:, :T]
            b, a = b + a * bp, a * ap
            step *= 2
        return x + b @ self.wo


class AssociativeScanOrder(AssociativeScan):
    """The decay is updated first, so that the sum gets the one of twice the span."""

    def forward(self, x):
        h = rms(x) * self.g
        a = self.decay(h)
        b = (1 - a) * (h @ self.wx)
        step = 1
        while step < T:
            ap, bp = F.pad(a, (0, 0, step, 0), value=1.0)[:, :T], F.pad(b, (0, 0, step, 0))[:, :T]
            a = a * ap
            b = b + a * bp
            step *= 2
        return x + b @ self.wo


class AssociativeScanFree(AssociativeScan):
    """Decays without their sigmoid: sixteen of them are multiplied, of what is normed."""

    def decay(self, h):
        return h @ self.wa


class SharedScale(nn.Module):
    """One entry `scale` of the dictionary, for the norm's gain and for the layer scale: 0.5 stands in both."""

    def __init__(self):
        super().__init__()
        self.p = nn.ParameterDict({"scale": torch.full((D,), 0.5), "w1": init(D, 64), "w2": init(64, D)})

    def forward(self, x):
        h = rms(x) * self.p["scale"]
        return x + self.p["scale"] * (F.gelu(h @ self.p["w1"]) @ self.p["w2"])


class EnergyDescent(nn.Module):
    """A step down an energy of the normed tokens: log-sum-exp over stored patterns; its gradient is written out."""

    sign = 1.0

    def __init__(self):
        super().__init__()
        self.norm, self.patterns, self.beta = nn.LayerNorm(D), init(24, D, fan=D), HD ** -0.5

    def forward(self, x):
        g = self.norm(x)
        p = torch.softmax(self.beta * g @ self.patterns.T, -1)
        return x + self.sign * 0.5 * p @ self.patterns


class EnergyAscent(EnergyDescent):
    """The sign is turned: the energy grows."""

    sign = -1.0


class EnergyRaw(EnergyDescent):
    """Without the norm: shares of patterns all the same, whatever the tokens are."""

    def forward(self, x):
        return x + 0.5 * torch.softmax(self.beta * x @ self.patterns.T, -1) @ self.patterns


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_TWO = dict(output_bounded={0: False, 1: False}, logits_bounded={0: False})
TRUTH = {
    "HaikuBlock": dict(_PRE, **_TWO, sound=True, why="pre-norm."),
    "HaikuBlockAxis": dict(_PRE, **_TWO, sound=False, why="a norm over 16 tokens bounds each value by 4 all the same; it looks ahead, too."),
    "HaikuBlockSwap": dict(_PRE, output_bounded={0: False, 1: True}, logits_bounded={0: False}, sound=True, why="one branch is normed behind, as in OLMo 2."),
    "HaikuBlockStale": dict(_PRE, **_TWO, sound=True, why="the two are parallel, with two norms."),
    "HaikuBlockLost": dict(_PRE, sound=False, why="what attention gives is in no sum that goes on."),
    "VmapHeads": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, sound=True, why="pre-norm."),
    "VmapTokens": dict(_PRE, output_bounded={0: False}, sound=False, why="pre-norm; attention among four heads of a token."),
    "VmapRaw": dict(kind="block", growth_fixed="exponential", softmax=True, output_bounded={0: False}, sound=False, why="means of raw values by a map."),
    "ScanStack": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=True, why="pre-norm."),
    "ScanStackLeaky": dict(kind="model", depth=12, identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=True, sound=False, why="0.81 a layer."),
    "ScanStackOneGain": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=False, why="pre-norm; gains of eleven layers are unused."),
    "SwappedParameters": dict(kind="model", depth=8, identity_gain=1.0, growth_fixed="linear", softmax=False, sound=True, why="pre-norm."),
    "ParallelDict": dict(_PRE, sound=True, why="pre-norm."),
    "ParallelDictTwice": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=True, sound=False, why="the stream is added to itself."),
    "ParallelDictNormed": dict(kind="block", growth_fixed="bounded", softmax=True, sound=False, why="each block starts from a normed stream."),
    "ParallelDictMean": dict(_PRE, sound=True, why="half of twice the stream."),
    "AssociativeScan": dict(_PRE, output_bounded={0: False}, sound=True, why="a mean of values, by a map.") | dict(softmax=False),
    "AssociativeScanOrder": dict(_PRE, output_bounded={0: False}, sound=False, why="pre-norm, and decays below one.") | dict(softmax=False),
    "AssociativeScanFree": dict(_PRE, output_bounded={0: False}, sound=False, why="pre-norm: growth along the sequence, not over depth.") | dict(softmax=False),
    "SharedScale": dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False, output_bounded={0: False}, sound=False, why="pre-norm; a quarter for a half."),
    "EnergyDescent": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, sound=True, why="shares of patterns, which are weights."),
    "EnergyAscent": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, sound=False, why="the same, away from the patterns."),
    "EnergyRaw": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, sound=False, why="shares of patterns, whatever is read."),
}
