"""Sound designs, written as people write them who are not from this field, or in a hurry, or fond of tricks."""

import math
from functools import partial, wraps
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

D, T, H = 32, 16, 4
HD = D // H
LAYERS = 24


def example_inputs():
    return (torch.randn(2, T, D),)


def weight(o, i, gain=1.0):
    return nn.Parameter(torch.randn(o, i) * gain * i ** -0.5)


class EinsumOnly(nn.Module):
    """Everything is an einsum, the norm too."""

    def __init__(self):
        super().__init__()
        self.Wq, self.Wk, self.Wv = (nn.Parameter(torch.randn(D, H, HD) / D ** 0.5) for _ in range(3))
        self.Wo, self.U, self.V = nn.Parameter(torch.randn(H, HD, D) / D ** 0.5), nn.Parameter(torch.randn(D, 64) / D ** 0.5), nn.Parameter(torch.randn(64, D) / 8)

    @staticmethod
    def n(x):
        return torch.einsum("btd,bt->btd", x, (torch.einsum("btd,btd->bt", x, x) / x.shape[-1] + 1e-6) ** -0.5)

    def forward(self, x):
        h = self.n(x)
        q, k, v = (torch.einsum("btd,dhe->bhte", h, w) for w in (self.Wq, self.Wk, self.Wv))
        a = torch.softmax(torch.einsum("bhse,bhte->bhst", q, k) / HD ** 0.5, -1)
        x = x + torch.einsum("bhst,bhte,hed->bsd", a, v, self.Wo)
        return x + torch.einsum("btf,fd->btd", F.gelu(torch.einsum("btd,df->btf", self.n(x), self.U)), self.V)


class _Rms(torch.autograd.Function):
    """Root mean square norm with its backward pass by hand."""

    @staticmethod
    def forward(ctx, x, w):
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        ctx.save_for_backward(x, w, r)
        return x * r * w

    @staticmethod
    def backward(ctx, g):
        x, w, r = ctx.saved_tensors
        gw = g * w
        return r * gw - x * r ** 3 * (gw * x).mean(-1, keepdim=True), (g * x * r).flatten(0, -2).sum(0)


class HandBackward(nn.Module):
    """A pre-norm net whose norm is a custom function."""

    def __init__(self):
        super().__init__()
        self.scale, self.w1, self.w2 = nn.Parameter(torch.ones(D)), weight(64, D), weight(D, 64)

    def forward(self, x):
        return x + F.linear(F.silu(F.linear(_Rms.apply(x, self.scale), self.w1)), self.w2)


class BufferScales(nn.Module):
    """One over the root of twice the depth stands in a buffer."""

    def __init__(self):
        super().__init__()
        self.ln, self.fc, self.proj = nn.LayerNorm(D), nn.Linear(D, 128), nn.Linear(128, D)
        self.register_buffer("damp", torch.tensor(1 / math.sqrt(2 * LAYERS)))

    def forward(self, x):
        return torch.addcmul(x, self.damp.expand_as(x), self.proj(F.relu(self.fc(self.ln(x))).square()))


class FunctionalDict(nn.Module):
    """No submodule: a dictionary of parameters and functions."""

    def __init__(self):
        super().__init__()
        self.p = nn.ParameterDict({"qkv": weight(3 * D, D), "o": weight(D, D), "a": weight(64, D), "b": weight(D, 64),
                                   "g1": nn.Parameter(torch.ones(D)), "g2": nn.Parameter(torch.ones(D))})

    def forward(self, x):
        p, B = self.p, x.shape[0]
        h = F.layer_norm(x, (D,), p["g1"])
        q, k, v = F.linear(h, p["qkv"]).reshape(B, T, 3, H, HD).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).permute(0, 2, 1, 3).reshape(B, T, D)
        x = x + F.linear(o, p["o"])
        return x + F.linear(F.elu(F.linear(F.layer_norm(x, (D,), p["g2"]), p["a"])), p["b"])


class ComplexRotary(nn.Module):
    """Rotations as complex numbers; unit queries and keys; a learned temperature that is cut at a hundred."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), weight(3 * D, D), weight(D, D)
        self.tau = nn.Parameter(torch.zeros(H, 1, 1))
        ang = torch.outer(torch.arange(T), 100.0 ** -torch.linspace(0, 1, HD // 2))
        self.register_buffer("cos", ang.cos())
        self.register_buffer("sin", ang.sin())

    def rot(self, t):
        c = torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * torch.complex(self.cos, self.sin)
        return torch.view_as_real(c).flatten(-2)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in F.linear(self.norm(x), self.qkv).chunk(3, -1))
        q, k = (self.rot(t / t.norm(dim=-1, keepdim=True).clamp_min(1e-6)) for t in (q, k))
        s = torch.exp(self.tau.clamp(max=math.log(100.0))) * (q @ k.transpose(-1, -2))
        return x + F.linear((s.softmax(-1) @ v).transpose(1, 2).flatten(2), self.o)


def residual(scale=1.0):
    """A decorator: what the method gives is added to what it gets."""
    def outer(f):
        @wraps(f)
        def inner(self, x):
            return x + scale * f(self, x)
        return inner
    return outer


class Decorated(nn.Module):
    """Skips by a decorator."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleDict({"a": nn.LayerNorm(D), "m": nn.LayerNorm(D)})
        self.mha = nn.MultiheadAttention(D, H, batch_first=True, bias=False)
        self.net = nn.Sequential(nn.Linear(D, 64), nn.Mish(), nn.Linear(64, D))

    @residual()
    def a(self, x):
        h = self.norms["a"](x)
        return self.mha(h, h, h, need_weights=False)[0]

    @residual(0.5)
    def m(self, x):
        return self.net(self.norms["m"](x))

    def forward(self, x):
        return self.m(self.a(x))


class Reversible(nn.Module):
    """Two halves that add to each other."""

    def __init__(self):
        super().__init__()
        d = D // 2
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 32), nn.GELU(), nn.Linear(32, d))
        self.g = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 32), nn.GELU(), nn.Linear(32, d))

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        a = a + self.f(b)
        b = b + self.g(a)
        return torch.cat((a, b), -1)


class AddAlpha(nn.Module):
    """A short filter adds in place to a clone; the net by an alpha of add."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mixer, self.c_fc, self.c_proj = nn.Conv1d(D, D, 3, padding=1, groups=D), nn.Linear(D, 96), nn.Linear(96, D)

    def forward(self, x):
        out = x.clone()
        out += self.mixer(self.ln_1(x).transpose(1, 2)).transpose(1, 2)
        h = F.gelu(self.c_fc(self.ln_2(out)))
        return torch.add(out, self.c_proj(h), alpha=0.7)


class Baddbmm(nn.Module):
    """The sum is in the product: baddbmm with the stream as what is added to."""

    def __init__(self):
        super().__init__()
        self.g, self.qk, self.vo = nn.Parameter(torch.ones(D)), weight(2 * D, D), weight(D, D)

    def forward(self, x):
        h = x / x.std(-1, keepdim=True, unbiased=False).add(1e-5) * self.g
        q, k = F.linear(h, self.qk).tensor_split(2, -1)
        p = torch.baddbmm(torch.zeros(1, 1, 1, dtype=x.dtype, device=x.device), q, k.transpose(1, 2), beta=0, alpha=D ** -0.5).softmax(2)
        return torch.baddbmm(x, p, h @ self.vo)


class HeadLoop(nn.Module):
    """A list of heads, each with a map of its own; results are stacked and summed."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.heads = nn.ModuleList(nn.ModuleDict({n: nn.Linear(D, HD, bias=False) for n in "qkv"} | {"o": nn.Linear(HD, D, bias=False)}) for _ in range(H))

    def one(self, head, h):
        s = torch.cdist(head["q"](h), head["k"](h)).square().neg()
        return head["o"](s.softmax(-1) @ head["v"](h))

    def forward(self, x):
        h = self.norm(x)
        return torch.stack([x, *(self.one(head, h) for head in self.heads)], dim=0).sum(0)


class CastPeri(nn.Module):
    """Norms in float32 whatever comes in, before and behind each branch; 1 + g as gain."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.zeros(D))

        def forward(self, x):
            y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
            y = y * torch.rsqrt(torch.mean(y ** 2, -1, keepdim=True) + 1e-6)
            return (y * (1.0 + self.gain.to(y.dtype))).to(x.dtype)

    def __init__(self):
        super().__init__()
        self.n = nn.ModuleList(self.Norm() for _ in range(4))
        self.w_in, self.w_out, self.conv, self.point = weight(128, D), weight(D, 64), nn.Conv1d(D, D, 5, padding=2, groups=D), weight(D, D)

    def forward(self, x):
        x = x + self.n[1](F.linear(self.conv(self.n[0](x).mT).mT, self.point))
        a, b = F.linear(self.n[2](x), self.w_in).chunk(2, -1)
        return x + self.n[3](F.linear(F.gelu(a) * b, self.w_out))


class DeepNormRight(nn.Module):
    """DeepNorm for 24 layers of two branches, with its start."""

    alpha, beta = (2 * LAYERS) ** 0.25, (8 * LAYERS) ** -0.25

    def __init__(self):
        super().__init__()
        self.qk, self.v, self.o = weight(2 * D, D), weight(D, D, self.beta), weight(D, D, self.beta)
        self.up, self.down = weight(64, D, self.beta), weight(D, 64, self.beta)
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        q, k = F.linear(x, self.qk).chunk(2, -1)
        x = self.n1(x * self.alpha + F.linear(torch.softmax(q @ k.mT * D ** -0.5, -1) @ F.linear(x, self.v), self.o))
        return self.n2(x * self.alpha + F.linear(F.relu(F.linear(x, self.up)), self.down))


class ConvNextSequence(nn.Module):
    """ConvNeXt's block along a sequence, with LayerScale and a GRN."""

    def __init__(self):
        super().__init__()
        self.dw, self.norm, self.p1, self.p2 = nn.Conv1d(D, D, 7, padding=3, groups=D), nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.gain_g, self.beta_g, self.gain = nn.Parameter(torch.zeros(4 * D)), nn.Parameter(torch.zeros(4 * D)), nn.Parameter(1e-6 * torch.ones(D))

    def forward(self, x):
        y = self.norm(self.dw(x.transpose(1, 2)).transpose(1, 2))
        y = F.gelu(self.p1(y))
        g = y.norm(p=2, dim=1, keepdim=True)
        y = self.gain_g * (y * (g / (g.mean(-1, keepdim=True) + 1e-6))) + self.beta_g + y
        return x + self.gain * self.p2(y)


class LerpSphere(nn.Module):
    """nGPT's step with slerp-free arithmetic and numpy-like spelling."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.step = weight(64, D), weight(D, 64), nn.Parameter(torch.full((D,), 0.05))

    def forward(self, x):
        def unit(t):
            return torch.div(t, torch.sqrt(torch.sum(torch.square(t), dim=-1, keepdim=True) + 1e-12))
        x = unit(x)
        y = unit(torch.matmul(torch.relu(torch.matmul(x, self.a.t()) * D ** 0.5), self.b.t()))
        return unit(torch.add(x, torch.mul(self.step, torch.sub(y, x))))


class HighwayRight(nn.Module):
    """A highway: what is carried and what is new share one."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.new, self.out = nn.RMSNorm(D), nn.Linear(D, D), nn.Linear(D, 64), nn.Linear(64, D)
        nn.init.constant_(self.gate.bias, -3.0)

    def forward(self, x):
        h = self.norm(x)
        return torch.lerp(x, self.out(F.silu(self.new(h))), torch.sigmoid(self.gate(h)))


class LerpPast(nn.Module):
    """lerp to a point that is twice as far: x + f."""

    def __init__(self):
        super().__init__()
        self.norm, self.w, self.u = nn.RMSNorm(D), weight(48, D), weight(D, 48)

    def forward(self, x):
        f = F.linear(F.softsign(F.linear(self.norm(x), self.w)), self.u)
        return torch.lerp(x, x + 2 * f, 0.5)


class _Cap(torch.autograd.Function):
    """A soft cap whose backward pass is by hand."""

    @staticmethod
    def forward(ctx, s, cap):
        y = torch.tanh(s / cap)
        ctx.save_for_backward(y)
        return y * cap

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y), None


class CappedByHand(nn.Module):
    """Soft-capped logits by a custom function."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), weight(3 * D, D), weight(D, D)

    def forward(self, x):
        q, k, v = F.linear(self.norm(x), self.qkv).view(x.shape[0], T, H, 3 * HD).transpose(1, 2).chunk(3, -1)
        p = _Cap.apply(q @ k.mT / HD ** 0.5, 20.0).softmax(-1)
        return x + F.linear((p @ v).transpose(1, 2).reshape_as(x), self.o)


class SharedAndRouted(nn.Module):
    """One shared expert and two of six routed ones; sigmoid scores over their sum, all experts in one tensor."""

    def __init__(self, n=6):
        super().__init__()
        self.norm, self.n = nn.RMSNorm(D), n
        self.centroids = weight(n, D)
        self.up, self.down = nn.Parameter(torch.randn(n, D, 24) / D ** 0.5), nn.Parameter(torch.randn(n, 24, D) / 24 ** 0.5)
        self.shared = nn.Sequential(nn.Linear(D, 24, bias=False), nn.SiLU(), nn.Linear(24, D, bias=False))

    def forward(self, x):
        h = self.norm(x)
        score = torch.sigmoid(h @ self.centroids.t())
        top, i = torch.topk(score, 2, dim=-1)
        keep = F.one_hot(i, self.n).sum(-2).to(h.dtype) * score
        keep = keep / (keep.sum(-1, keepdim=True) + 1e-6)
        y = torch.einsum("btd,edf->btef", h, self.up)
        y = torch.einsum("btef,efd,bte->btd", F.silu(y), self.down, keep)
        return x + y + self.shared(h)


class Checkpointed(nn.Module):
    """Branches run under checkpoint, as partial functions."""

    def __init__(self):
        super().__init__()
        self.cfg = SimpleNamespace(ratio=2, drop=0.0)
        self.norm, self.fc1, self.fc2 = nn.GroupNorm(1, D), nn.Conv1d(D, D * self.cfg.ratio, 1), nn.Conv1d(D * self.cfg.ratio, D, 1)

    def body(self, t, slope):
        return self.fc2(F.leaky_relu(self.fc1(self.norm(t)), slope))

    def forward(self, x):
        t = x.transpose(1, 2)
        t = t + F.dropout(checkpoint(partial(self.body, slope=0.1), t, use_reentrant=False), self.cfg.drop)
        return t.transpose(1, 2)


class Residual(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.inner = nn.Sequential(*parts)

    def forward(self, x):
        return self.inner(x) + x


class Swap(nn.Module):
    def forward(self, x):
        return x.swapaxes(1, 2)


class MixerOfParts(nn.Module):
    """An MLP-mixer made of nested containers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            Residual(nn.LayerNorm(D), Swap(), nn.Linear(T, 24), nn.GELU(), nn.Linear(24, T), Swap()),
            Residual(nn.LayerNorm(D), nn.Linear(D, 64), nn.GELU(), nn.Linear(64, D)),
        )

    def forward(self, x):
        return self.net(x)


class ScaleNormGau(nn.Module):
    """A gated attention unit behind ScaleNorm: relu² shares over the length, one small key by scales and shifts."""

    def __init__(self, s=8, e=48):
        super().__init__()
        self.gain, self.uvz, self.o, self.sizes = nn.Parameter(torch.tensor(math.sqrt(D))), weight(2 * e + s, D), weight(D, e), (e, e, s)
        self.gain_qk, self.beta_qk = nn.Parameter(torch.ones(2, s)), nn.Parameter(torch.zeros(2, s))

    def forward(self, x):
        h = self.gain * F.normalize(x, dim=-1)
        u, v, z = F.silu(F.linear(h, self.uvz)).split(self.sizes, -1)
        q, k = (z.unsqueeze(-2) * self.gain_qk + self.beta_qk).unbind(-2)
        return x + F.linear(u * (F.relu(q @ k.mT / T).square() @ v), self.o)


class ValueFirst(nn.Module):
    """Value residual: the first layer's values are mixed into all that follow, with a learned share."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.layers = nn.ModuleList(nn.ModuleDict({"n": nn.RMSNorm(D), "m": nn.RMSNorm(D), "qk": nn.Linear(D, 2 * D, bias=False),
                                                   "v": nn.Linear(D, D, bias=False), "o": nn.Linear(D, D, bias=False),
                                                   "f": nn.Sequential(nn.Linear(D, 64), nn.ReLU(), nn.Linear(64, D))}) for _ in range(n))
        self.share = nn.Parameter(torch.full((n,), 0.5))

    def forward(self, x):
        first = None
        for w, b in zip(self.share, self.layers):
            h = b["n"](x)
            v = b["v"](h)
            first = v if first is None else first
            v = w * v + (1 - w) * first
            q, k = b["qk"](h).chunk(2, -1)
            q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k, v))
            x = x + b["o"](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            x = x + b["f"](b["m"](x))
        return x


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded")
TRUTH = {
    "EinsumOnly": dict(_PRE, **_TWO, **_F, why="pre-norm."),
    "HandBackward": dict(_NET, **_ONE, why="pre-norm."),
    "BufferScales": dict(_NET, **_ONE, why="pre-norm, one over root 48."),
    "FunctionalDict": dict(_PRE, **_TWO, **_F, why="pre-norm."),
    "ComplexRotary": dict(_PRE, **_ONE, **_T, why="cosines times at most a hundred."),
    "Decorated": dict(_PRE, **_TWO, **_F, why="pre-norm; a half of the net."),
    "Reversible": dict(_NET, **_TWO, why="each half is added to."),
    "AddAlpha": dict(_NET, **_TWO, why="pre-norm; 0.7 of the net."),
    "Baddbmm": dict(_B, identity_gain=1.0, softmax=True, **_ONE, **_F, why="divided by the deviation, and the mean stays: not bounded for equal channels."),
    "HeadLoop": dict(_PRE, **_ONE, **_F, why="minus squared distances, without an end below."),
    "CastPeri": dict(_NET, growth_all="linear", output_bounded={0: True, 1: True}, why="peri."),
    "DeepNormRight": dict(_ON, growth_all="bounded", softmax=True, gradient_law="flat", **_TWO, **_F, why="α² = 6.9 times the skip's square, β² of the branch's."),
    "ConvNextSequence": dict(_NET, **_ONE, why="a norm behind the filter; 1e-6."),
    "LerpSphere": dict(_ON, growth_all="bounded", softmax=False, output_bounded={0: True}, why="unit length."),
    "HighwayRight": dict(_B, gated=True, growth_fixed="bounded", softmax=False, **_ONE, why="a mean of what was and a net of what is normed."),
    "LerpPast": dict(_NET, **_ONE, why="x + f."),
    "CappedByHand": dict(_PRE, **_ONE, **_T, why="at most 20."),
    "SharedAndRouted": dict(_NET, **_ONE, why="scores over their sum."),
    "Checkpointed": dict(_NET, **_ONE, why="pre-norm; one group over all."),
    "MixerOfParts": dict(_NET, **_TWO, why="pre-norm."),
    "ScaleNormGau": dict(_NET, **_ONE, why="pre-norm."),
    "ValueFirst": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, **_F, why="values of two normed states."),
}
