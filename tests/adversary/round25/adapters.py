"""Pull requests on fine-tuning and on experts: vectors, low ranks and bottlenecks; routers that tokens or experts choose by, and a table of places."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

D, T, H = 32, 16, 4
HD = D // H

_X = torch.randn(2, T, D, generator=torch.Generator().manual_seed(126))
example_inputs = {k: (_X,) for k in ("ScaledActivations", "MergedLowRank", "SerialAdapter", "ExpertsChoose", "SwitchLayer", "ExpertsWithSkip", "HashedLayer")}


def init_(module, std=None):
    for m in module.modules():
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=std or m.in_features ** -0.5)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    return module


def heads(t: Tensor) -> Tensor:
    return t.unflatten(-1, (H, HD)).transpose(-3, -2)


def merge(t: Tensor) -> Tensor:
    return t.transpose(-3, -2).flatten(-2)


class Mlp(nn.Module):
    def __init__(self, hidden=64, act=nn.GELU):
        super().__init__()
        self.seq = init_(nn.Sequential(nn.Linear(D, hidden), act(), nn.Linear(hidden, D)))

    def forward(self, x):
        return self.seq(x)


class Attn(nn.Module):
    """Attention whose scores can be replaced."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (init_(nn.Linear(D, D, bias=False)) for _ in range(4))

    def scores(self, q, k):
        return q @ k.mT / HD ** 0.5

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        return self.o(merge(self.scores(q, k).softmax(-1) @ v))


class TwoStep(nn.Module):
    """Pre-norm: attention, then a net."""

    attention = Attn

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), self.attention(), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ low ranks and small numbers
class ScaledActivations(nn.Module):
    """Three trained vectors of ones, on keys, values and hidden units."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qkv, self.o, self.up, self.down = nn.LayerNorm(D), nn.LayerNorm(D), init_(nn.Linear(D, 3 * D)), init_(nn.Linear(D, D)), init_(nn.Linear(D, 64)), init_(nn.Linear(64, D))
        for name, size in (("l_k", D), ("l_v", D), ("l_ff", 64)):
            self.register_parameter(name, nn.Parameter(torch.ones(size)))

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).chunk(3, -1)
        x = x + self.o(merge(F.scaled_dot_product_attention(heads(q), heads(k * self.l_k), heads(v * self.l_v))))
        return x + self.down(self.l_ff * F.gelu(self.up(self.n2(x))))


class LowRank(nn.Module):
    """A frozen map and a product of two thin ones, merged where it is called."""

    def __init__(self, i, o, r=4, alpha=8.0):
        super().__init__()
        self.register_buffer("weight", torch.randn(o, i) * i ** -0.5)
        self.a, self.b, self.scale = nn.Parameter(torch.randn(r, i) * i ** -0.5), nn.Parameter(torch.zeros(o, r)), alpha / r

    def forward(self, x):
        return F.linear(x, torch.addmm(self.weight, self.b, self.a, alpha=self.scale))


class MergedLowRank(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.up, self.down = nn.RMSNorm(D), nn.RMSNorm(D), LowRank(D, 3 * D), LowRank(D, D), LowRank(D, 64), LowRank(64, D)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).tensor_split(3, dim=-1))
        x = x + self.o(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        x = x + self.down(F.silu(self.up(self.norm2(x))))
        return x


class SerialAdapter(nn.Module):
    """A bottleneck behind the net; it has a norm and a skip."""

    def __init__(self, r=8):
        super().__init__()
        self.inner, self.ln = TwoStep(), nn.LayerNorm(D)
        self.adapter = init_(nn.Sequential(nn.Linear(D, r), nn.ReLU(), nn.Linear(r, D)))

    def forward(self, x):
        hidden = self.inner(x)
        return x + (hidden + self.adapter(self.ln(hidden)))


# ------------------------------------------------------------------ experts
class ExpertsChoose(nn.Module):
    """Each expert takes the six tokens that want it most."""

    def __init__(self, e=4, k=6):
        super().__init__()
        self.norm, self.router, self.k = nn.RMSNorm(D), init_(nn.Linear(D, e, bias=False)), k
        self.w1, self.w2 = nn.Parameter(torch.randn(e, D, 48) * D ** -0.5), nn.Parameter(torch.randn(e, 48, D) * 48 ** -0.5)

    def forward(self, x):
        h = self.norm(x)
        affinity = self.router(h).softmax(-1)
        weight, index = affinity.transpose(1, 2).topk(self.k, dim=-1)
        taken = h[:, None].expand(-1, self.w1.shape[0], -1, -1).gather(2, index[..., None].expand(-1, -1, -1, D))
        y = torch.einsum("beki,eio->beko", F.gelu(torch.einsum("bekd,edi->beki", taken, self.w1)), self.w2) * weight[..., None]
        return x.scatter_add(1, index.flatten(1)[..., None].expand(-1, -1, D), y.flatten(1, 2))


class SwitchLayer(nn.Module):
    """One expert a token, by the largest share; the router is ahead of the norm."""

    def __init__(self, e=4):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(D), init_(nn.Linear(D, e, bias=False)), nn.ModuleList(Mlp(48) for _ in range(e))

    def forward(self, x):
        probs = F.softmax(self.router(x), dim=-1)
        gate, choice = probs.max(dim=-1, keepdim=True)
        h, out = self.norm(x), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out = torch.where(choice == i, expert(h), out)
        return x + gate * out


class ExpertsWithSkip(nn.Module):
    """Two experts a token, each one a block with a skip; their shares sum to one."""

    def __init__(self, e=4):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(D), init_(nn.Linear(D, e)), nn.ModuleList(Mlp(48) for _ in range(e))

    def forward(self, x):
        h = self.norm(x)
        top, index = self.router(h).topk(2, dim=-1)
        shares = torch.zeros_like(self.router(h)).scatter(-1, index, top.softmax(-1))
        mixed = sum(shares[..., i: i + 1] * (x + expert(h)) for i, expert in enumerate(self.experts))
        return x + mixed


class HashedLayer(nn.Module):
    """A token's place says which expert it has."""

    def __init__(self, e=4):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Parameter(torch.randn(e, D, 64) * D ** -0.5), nn.Parameter(torch.randn(e, 64, D) / 8)
        self.register_buffer("table", (torch.arange(T) * 5 + 3) % e)

    def forward(self, x):
        h = self.norm(x)
        hidden = torch.einsum("btd,tdh->bth", h, self.up[self.table])
        return x + torch.einsum("bth,thd->btd", F.relu(hidden).square(), self.down[self.table])


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN = dict(logits_bounded={0: False})
TRUTH = {
    "ScaledActivations": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm."),
    "MergedLowRank": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; a fixed map and two thin ones."),
    "SerialAdapter": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, gradient_law="exponential", why="what the skips of the inner layer carry is added to the block's own."),
    "ExpertsChoose": dict(_PRE, **_ONE, **_OPEN, sound=True, why="shares times functions of a norm, at most one of each expert a token."),
    "SwitchLayer": dict(_PRE, **_ONE, **_OPEN, sound=False, why="the router reads the stream; what is added is a share of a function of a norm."),
    "ExpertsWithSkip": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, why="shares sum to one: the stream and the stream."),
    "HashedLayer": dict(_NET, **_ONE, sound=True, gradient_law="power", why="pre-norm."),
}
