"""Pull requests on layers of language models: differences of softmaxes, unit steps, low-rank paths beside skips, memories by keys, ternary maps, inputs a layer."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(29)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("DiffAttnLayer", "DiffAttnFolded", "UnitStepLayer", "UnitStepLean", "LaurelLayer", "LaurelLayerScaled", "ProductKeyLayer", "FusedParallelLayer",
                          "TokenShiftLayer", "TokenShiftCached", "TernaryLayer", "TernaryLayerFolded")},
    "PerLayerInputLayer": (_X, _draw(2, T, 8)),
}


def proj(i, o):
    m = nn.Linear(i, o, bias=False)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


def split_heads(t, h=H):
    return t.unflatten(-1, (h, -1)).transpose(1, 2)


def join_heads(t):
    return t.transpose(1, 2).flatten(2)


class GatedMLP(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.wi, self.wo = proj(D, 2 * hidden), proj(hidden, D)

    def forward(self, x):
        g, u = self.wi(x).chunk(2, dim=-1)
        return self.wo(F.silu(g) * u)


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = proj(D, 3 * D), proj(D, D)

    def forward(self, h):
        q, k, v = (split_heads(t) for t in self.c_attn(h).split(D, dim=2))
        return self.c_proj(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def causal(n, like):
    return torch.full((n, n), float("-inf"), device=like.device, dtype=like.dtype).triu(1)


# ------------------------------------------------------------------ differences of softmaxes
class DiffAttnLayer(nn.Module):
    """Two softmaxes a head, the second one times a trained number is taken off; a norm a head, and what is left of one."""

    def __init__(self, lambda_init=0.8):
        super().__init__()
        self.lambda_init = lambda_init
        self.norm1, self.norm2, self.subln, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD), GatedMLP()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = proj(D, 2 * D), proj(D, 2 * D), proj(D, D), proj(D, D)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(HD) * 0.1) for _ in range(4))

    def attn(self, h):
        q, k = split_heads(self.q_proj(h), 2 * H), split_heads(self.k_proj(h), 2 * H)
        w = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(HD) + causal(h.shape[1], h), dim=-1)
        w1, w2 = w.unflatten(1, (H, 2)).unbind(2)
        lam = torch.exp(torch.dot(self.lq1, self.lk1)) - torch.exp(torch.dot(self.lq2, self.lk2)) + self.lambda_init
        return self.subln((w1 - lam * w2) @ split_heads(self.v_proj(h)))

    def forward(self, x):
        x = x + self.out_proj(join_heads(self.attn(self.norm1(x)) * (1 - self.lambda_init)))
        return x + self.mlp(self.norm2(x))


class DiffAttnFolded(DiffAttnLayer):
    """The factor is moved to the end, into one multiply-add."""

    def forward(self, x):
        x = torch.add(self.out_proj(join_heads(self.attn(self.norm1(x)))), x, alpha=1 - self.lambda_init)
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ unit steps
def unit(t):
    return t / t.norm(dim=-1, keepdim=True).clamp_min(1e-8)


class UnitStepLayer(nn.Module):
    """Hidden states live on a sphere and go a tenth of the way to what each half says."""

    def __init__(self, step=0.1):
        super().__init__()
        self.step, self.qkv, self.o, self.mlp = step, proj(D, 3 * D), proj(D, D), GatedMLP()

    def attn(self, x):
        q, k, v = map(split_heads, self.qkv(x).chunk(3, -1))
        return self.o(join_heads(F.scaled_dot_product_attention(unit(q), unit(k), v, is_causal=True, scale=HD ** 0.5)))

    def forward(self, x):
        for f in (self.attn, self.mlp):
            x = unit(x + self.step * (unit(f(x)) - x))
        return x


class UnitStepLean(UnitStepLayer):
    """Interpolation of unit vectors stays inside the ball: the second projection is saved."""

    def forward(self, x):
        for f in (self.attn, self.mlp):
            x = x.lerp(unit(f(x)), self.step)
        return x


# ------------------------------------------------------------------ low rank beside the skip
class LaurelLayer(nn.Module):
    """A low-rank path beside attention that also gives back what it read; both are divided by the root of two."""

    def __init__(self, rank=6):
        super().__init__()
        self.input_norm, self.ff_norm, self.laurel_norm, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D), CausalSelfAttention(), GatedMLP()
        self.left, self.right = proj(D, rank), proj(rank, D)

    def laurel(self, h):
        return h + self.laurel_norm(self.right(self.left(h)))

    def forward(self, x):
        h = self.input_norm(x)
        x = x + (self.attn(h) + self.laurel(h)) / math.sqrt(2)
        return x + self.mlp(self.ff_norm(x))


class LaurelLayerScaled(LaurelLayer):
    """As the release has it, without the streams beside it."""

    def forward(self, x):
        h = self.input_norm(x)
        attn = x + self.attn(h)
        x = (attn + self.laurel(h)) / math.sqrt(2)
        return x + self.mlp(self.ff_norm(x))


# ------------------------------------------------------------------ memories
class ProductKeyLayer(nn.Module):
    """Two halves of a query find three of eight keys each; the best four pairs weigh rows of a table, gated by what was read."""

    def __init__(self, keys=8, k=3, best=4):
        super().__init__()
        self.n, self.k, self.best = keys, k, best
        self.norm, self.query, self.gate, self.out = nn.RMSNorm(D), proj(D, D), proj(D, D), proj(D, D)
        self.keys, self.values = nn.Parameter(torch.randn(2, keys, D // 2) / 4), nn.Embedding(keys * keys, D)

    def memory(self, h):
        q = self.query(h).unflatten(-1, (2, D // 2))
        s, i = torch.einsum("btcd,cnd->btcn", q, self.keys).topk(self.k, dim=-1)
        pairs = (s[..., 0, :, None] + s[..., 1, None, :]).flatten(-2)
        rows = (i[..., 0, :, None] * self.n + i[..., 1, None, :]).flatten(-2)
        top, at = pairs.topk(self.best, dim=-1)
        got = self.values(rows.gather(-1, at))
        y = (top.softmax(dim=-1).unsqueeze(-1) * got).sum(dim=-2)
        return self.out(y * F.silu(self.gate(h)))

    def forward(self, x):
        return self.memory(self.norm(x)) + x


# ------------------------------------------------------------------ one map in, one map out
class FusedParallelLayer(nn.Module):
    """One map in front of both halves, and one behind them; queries and keys are normed."""

    def __init__(self, hidden=64):
        super().__init__()
        self.hidden, self.norm, self.q_norm, self.k_norm = hidden, nn.LayerNorm(D, bias=False), nn.LayerNorm(HD, bias=False), nn.LayerNorm(HD, bias=False)
        self.proj_in, self.proj_out = proj(D, 3 * D + hidden), proj(D + hidden, D)

    def halves(self, x):
        qkv, m = self.proj_in(self.norm(x)).split([3 * D, self.hidden], dim=-1)
        q, k, v = map(split_heads, qkv.chunk(3, -1))
        a = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=True)
        return self.proj_out(torch.cat((join_heads(a), F.gelu(m)), dim=-1))

    def forward(self, x):
        return x + self.halves(x)


# ------------------------------------------------------------------ shifts
class TokenShiftLayer(nn.Module):
    """Maps read a mix of a token and the one before; a decaying matrix a head; a net of squared ReLUs."""

    def __init__(self, hidden=64):
        super().__init__()
        self.ln1, self.ln2, self.ln_x = nn.LayerNorm(D), nn.LayerNorm(D), nn.GroupNorm(H, D)
        self.mu, self.decay = nn.Parameter(torch.full((6, D), 0.5)), nn.Parameter(torch.linspace(-3.0, -0.5, D))
        self.rkvg, self.out = nn.ModuleList(proj(D, D) for _ in range(4)), proj(D, D)
        self.key, self.value, self.receptance = proj(D, hidden), proj(hidden, D), proj(D, D)

    @staticmethod
    def mix(h, mu):
        return h + (F.pad(h, (0, 0, 1, -1)) - h) * mu

    def time(self, h):
        r, k, v, g = (f(self.mix(h, m)) for f, m in zip(self.rkvg, self.mu))
        r, k, v = map(split_heads, (r, k, v))
        w = torch.exp(-torch.exp(self.decay)).view(H, HD, 1)
        s, ys = h.new_zeros(h.shape[0], H, HD, HD), []
        for t in range(h.shape[1]):
            s = w * s + k[:, :, t, :, None] * v[:, :, t, None, :]
            ys.append(torch.einsum("bhk,bhkv->bhv", r[:, :, t], s).flatten(1))
        y = self.ln_x(torch.stack(ys, dim=-1)).transpose(1, 2)
        return self.out(y * F.silu(g))

    def channel(self, h):
        k = torch.relu(self.key(self.mix(h, self.mu[4]))) ** 2
        return torch.sigmoid(self.receptance(self.mix(h, self.mu[5]))) * self.value(k)

    def forward(self, x):
        x = x + self.time(self.ln1(x))
        return x + self.channel(self.ln2(x))


class TokenShiftCached(TokenShiftLayer):
    """The last token's state is what a cache holds, so the second shift reads states as they are cached."""

    def forward(self, x):
        x = x + self.time(self.ln1(x))
        return x + self.channel(x)


# ------------------------------------------------------------------ ternary maps
def straight(t, q):
    return t + (q - t).detach()


class TernaryLinear(nn.Module):
    """Weights of minus one, nothing, one times their mean size; inputs of eight bits; a norm in front."""

    def __init__(self, i, o, norm=True):
        super().__init__()
        self.weight, self.norm = nn.Parameter(torch.randn(o, i) * i ** -0.5), nn.RMSNorm(i) if norm else nn.Identity()

    def forward(self, x):
        x = self.norm(x)
        s = 127.0 / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)
        m = self.weight.abs().mean().clamp(min=1e-5)
        xq = straight(x, (x * s).round().clamp(-128, 127) / s)
        wq = straight(self.weight, (self.weight / m).round().clamp(-1, 1) * m)
        return F.linear(xq, wq)


class TernaryLayer(nn.Module):
    """Norms are inside of maps."""

    def __init__(self, norm=True):
        super().__init__()
        self.qkv, self.o, self.up, self.down = TernaryLinear(D, 3 * D, norm), TernaryLinear(D, D, norm), TernaryLinear(D, 64, norm), TernaryLinear(64, D, norm)

    def forward(self, x):
        q, k, v = (split_heads(t) for t in self.qkv(x).chunk(3, -1))
        x = x + self.o(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.down(F.relu(self.up(x)))


class TernaryLayerFolded(TernaryLayer):
    """Inputs are divided by their largest entry anyway: norms are left out."""

    def __init__(self):
        super().__init__(norm=False)


# ------------------------------------------------------------------ an input a layer
class PerLayerInputLayer(nn.Module):
    """Norms around both halves; then a small embedding of this layer, gated by the stream, with a norm behind."""

    def __init__(self, d_ple=8):
        super().__init__()
        self.pre_attn, self.post_attn, self.pre_ff, self.post_ff, self.post_ple = (nn.RMSNorm(D) for _ in range(5))
        self.attn, self.mlp, self.ple_gate, self.ple_proj = CausalSelfAttention(), GatedMLP(), proj(D, d_ple), proj(d_ple, D)

    def forward(self, x, ple):
        x = x + self.post_attn(self.attn(self.pre_attn(x)))
        x = x + self.post_ff(self.mlp(self.pre_ff(x)))
        return x + self.post_ple(self.ple_proj(F.gelu(self.ple_gate(x)) * ple))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "DiffAttnLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a norm a head, times 0.2, in front of the last map."),
    "DiffAttnFolded": dict(_LEVEL, identity_gain=0.2 ** 24, softmax=True, **_TWO, **_OPEN, sound=False, why="the factor of what heads give is on the stream: 0.2 a block."),
    "UnitStepLayer": dict(_LEVEL, growth_all="bounded", softmax=True, output_bounded={0: True, 1: True}, **_SHUT, sound=True, why="unit vectors after each half; queries and keys are unit vectors times the root of their width."),
    "UnitStepLean": dict(_LEVEL, identity_gain=0.9 ** 48, growth_all="bounded", softmax=True, output_bounded={0: True, 1: True}, **_SHUT, why="means of the stream and of unit vectors: 0.9 of the stream in each half."),
    # three branches, in the order of their sums: attention, the low-rank path (which is normed), the net
    "LaurelLayer": dict(_PRE, output_bounded={0: False, 2: False}, **_OPEN, gradient_law="power", sound=True, why="pre-norm; only what is added is divided."),
    "LaurelLayerScaled": dict(_LEVEL, identity_gain=2.0 ** -12, softmax=True, output_bounded={0: False, 2: False}, **_OPEN, sound=False, why="the root of two divides the stream, too."),
    "ProductKeyLayer": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; shares of rows of a table."),
    "FusedParallelLayer": dict(_PRE, **_ONE, **_SHUT, gradient_law="power", sound=True, why="pre-norm; queries and keys are normed."),
    "TokenShiftLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; shifts are of norms."),
    "TokenShiftCached": dict(_EXP, softmax=False, **_TWO, why="the net reads the stream, of degree two."),
    "TernaryLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="each map starts with a norm; ternary weights times their mean size have no bound."),
    "TernaryLayerFolded": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="what is divided for rounding is multiplied again: of degree one."),
    "PerLayerInputLayer": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True, 2: True}, **_OPEN, gradient_law="power", sound=True, why="norms behind all three branches; the last one reads the stream as it is."),
}
