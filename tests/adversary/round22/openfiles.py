"""Blocks as open files of the last years have them: learned augmented residuals, sinks, clamped gates, gated short filters, token-parameter attention,
ternary weights, scalings that gradients do not see, queries and keys normed along another axis."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def split(t, n=H):
    return t.unflatten(-1, (n, -1)).transpose(1, 2)


def merge(t):
    return t.transpose(1, 2).flatten(2)


def future(x):
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)


class Ff(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.gate, self.up, self.down = lin(D, hidden), lin(D, hidden), lin(hidden, D)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Attend(nn.Module):
    """Causal attention; whether queries and keys are normed, and along what, is the caller's."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o = lin(D, 3 * D), lin(D, D)

    def prepare(self, q, k):
        return q, k

    def forward(self, x):
        q, k, v = (split(t) for t in self.qkv(x).chunk(3, -1))
        q, k = self.prepare(q, k)
        s = (q @ k.mT * HD ** -0.5).masked_fill(future(x), float("-inf"))
        return self.o(merge(s.softmax(-1) @ v))


class AttendNormed(Attend):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def prepare(self, q, k):
        return self.q_norm(q), self.k_norm(k)


class LaurelBlock(nn.Module):
    """Four norms and a low-rank branch that hands the normed state on; what is carried, attention and it are summed over a root of two."""

    root = 2 ** -0.5

    def __init__(self):
        super().__init__()
        self.input_norm, self.post_attention_norm, self.post_laurel_norm, self.pre_ff_norm, self.post_ff_norm = (nn.RMSNorm(D) for _ in range(5))
        self.attn, self.left, self.right, self.mlp = AttendNormed(), lin(D, 8), lin(8, D), Ff()

    def laurel(self, x, h):
        return h + self.post_laurel_norm(self.right(self.left(h)))

    def forward(self, x):
        h = self.input_norm(x)
        attended = x + self.post_attention_norm(self.attn(h))
        x = (attended + self.laurel(x, h)) * self.root
        return x + self.post_ff_norm(self.mlp(self.pre_ff_norm(x)))


class LaurelNoRoot(LaurelBlock):
    """The root is lost."""

    root = 1.0


class LaurelOfStream(LaurelBlock):
    """The low-rank branch hands the stream itself on: it is in the sum twice."""

    def laurel(self, x, h):
        return x + self.post_laurel_norm(self.right(self.left(h)))


class SinkLogits(nn.Module):
    """A learned logit a head is put beside the others and its share is dropped."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o, self.sinks = nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), nn.Parameter(torch.zeros(H))

    def forward(self, x):
        q, k, v = (split(t) for t in self.qkv(self.norm(x)).chunk(3, -1))
        s = (q @ k.mT * HD ** -0.5).masked_fill(future(x), float("-inf"))
        s = torch.cat((s, self.sinks.view(1, H, 1, 1).expand(x.shape[0], -1, x.shape[1], 1)), -1)
        p = F.softmax(s - s.amax(-1, keepdim=True), -1)[..., :-1]
        return x + self.o(merge(p @ v))


class ClampedGates(nn.Module):
    """Interleaved gate and value, both clamped at seven, with one added to the value."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(D), lin(D, 128), lin(64, D)

    def mlp(self, h):
        h = self.up(h)
        gate, value = h[..., ::2].clamp(max=7.0), h[..., 1::2].clamp(min=-7.0, max=7.0)
        return self.down((value + 1) * (gate * torch.sigmoid(1.702 * gate)))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class ClampedGatesRaw(ClampedGates):
    """The norm is lost: what is clamped is bounded all the same."""

    def forward(self, x):
        return x + self.mlp(x)


class ShortConvGate(nn.Module):
    """Two gates around a short causal filter over channels of their own."""

    def __init__(self):
        super().__init__()
        self.operator_norm, self.in_proj, self.conv, self.out_proj = nn.RMSNorm(D), lin(D, 3 * D), nn.Conv1d(D, D, 3, padding=2, groups=D, bias=False), lin(D, D)

    def operator(self, h):
        b, c, u = self.in_proj(h).transpose(-1, -2).chunk(3, dim=-2)
        y = self.conv(b * u)[..., :h.shape[1]]
        return self.out_proj((c * y).transpose(-1, -2))

    def forward(self, x):
        return x + self.operator(self.operator_norm(x))


class ShortConvGateRaw(ShortConvGate):
    """The norm is made and not used: of degree three."""

    def forward(self, x):
        residual = x
        self.operator_norm(x)
        return residual + self.operator(x)


class BlockTopK(nn.Module):
    """Queries choose two of four blocks of keys by the blocks' means; the others are masked."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        q, k, v = (split(t) for t in self.qkv(self.norm(x)).chunk(3, -1))
        means = k.unflatten(2, (4, 4)).mean(3)
        score = torch.einsum("bhtd,bhnd->bhtn", q, means)
        chosen = torch.zeros_like(score, dtype=torch.bool).scatter(-1, score.topk(2, dim=-1).indices, True)
        s = (q @ k.mT) / HD ** 0.5
        s = s.masked_fill(~chosen.repeat_interleave(4, dim=-1), float("-inf"))
        return x + self.o(merge(torch.softmax(s, dim=-1) @ v))


class LessWhatWasChosen(nn.Module):
    """Tokens mask tokens for those that follow: positive logits of the first head, summed over earlier queries, are taken from all."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        q, k, v = (split(t) for t in self.qkv(self.norm(x)).chunk(3, -1))
        s = q @ k.mT * HD ** -0.5
        z = F.relu(s[:, 0]).masked_fill(future(x), 0.0)
        z = z * (1 - torch.eye(x.shape[1], device=x.device, dtype=x.dtype))
        mask = F.pad(z.cumsum(-2), (0, 0, 1, 0))[:, :-1]
        s = (s - mask.unsqueeze(1)).masked_fill(future(x), float("-inf"))
        return x + self.o(merge(s.softmax(-1) @ v))


class TokenParameters(nn.Module):
    """Keys and values are parameters; scores are divided by their length, times a root of their number, through GELU."""

    def __init__(self, n=64):
        super().__init__()
        self.norm, self.keys, self.values, self.n = nn.LayerNorm(D), nn.Parameter(torch.randn(n, D) * D ** -0.5), nn.Parameter(torch.randn(n, D) * n ** -0.5), n

    def of(self, h):
        s = torch.einsum("btd,nd->btn", h, self.keys)
        s = s / torch.linalg.vector_norm(s, dim=-1, keepdim=True).clamp_min(1e-6) * self.n ** 0.5
        return torch.einsum("btn,nd->btd", F.gelu(s), self.values)

    def forward(self, x):
        return x + self.of(self.norm(x))


class TokenParametersRaw(TokenParameters):
    """The norm in front is lost: the length of scores divides it away."""

    def forward(self, x):
        return x + self.of(x)


class TokenParametersAxis(TokenParameters):
    """Neither the norm in front, and the length is taken over the keys' parameters: a scale of weights."""

    def of(self, h):
        s = torch.einsum("btd,nd->btn", h, self.keys / self.keys.norm(dim=-1, keepdim=True))
        return torch.einsum("btn,nd->btd", F.gelu(s), self.values)

    def forward(self, x):
        return x + self.of(x)


class HybridNorms(nn.Module):
    """Queries, keys and values are normed in attention, and the net has a norm whose output is carried."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o, self.norm, self.mlp = lin(D, 3 * D), lin(D, D), nn.RMSNorm(D), Ff()
        self.norms = nn.ModuleDict({k: nn.RMSNorm(HD) for k in "qkv"})

    def attn(self, x):
        q, k, v = (self.norms[key](split(t)) for key, t in zip("qkv", self.qkv(x).chunk(3, -1)))
        return self.o(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = self.norm(x + self.attn(x))
        return x + self.mlp(x)


class HybridNormsCarryRaw(HybridNorms):
    """The sum is carried and its norm is read."""

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.norm(x))


class Activated(nn.Module):
    """What is carried is scaled down behind each sum, and gradients do not see it: x minus SiLU(a) times a constant copy of x."""

    at = 0.2

    def __init__(self):
        super().__init__()
        self.norm, self.mlp, self.alpha = nn.RMSNorm(D), Ff(), nn.Parameter(torch.tensor(self.at))

    def forward(self, x):
        x = x + self.mlp(self.norm(x))
        return x - F.silu(self.alpha) * x.detach()


class ActivatedAtZero(Activated):
    """At the value that it starts from: nothing is taken."""

    at = 0.0


class ShrinksGradient(nn.Module):
    """The trick against spikes of embeddings, put into every block: x is a tenth less of itself for gradients alone."""

    alpha = 0.9

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(D), Ff()

    def forward(self, x):
        x = x * self.alpha + x.detach() * (1 - self.alpha)
        return x + self.mlp(self.norm(x))


class ShrinksGradientSign(ShrinksGradient):
    """A sign: what should be added is taken away, and eight tenths are left."""

    def forward(self, x):
        x = x * self.alpha - x.detach() * (1 - self.alpha)
        return x + self.mlp(self.norm(x))


def ternary(w):
    scale = w.abs().mean().clamp(min=1e-5)
    q = (w / scale).round().clamp(-1, 1) * scale
    return w + (q - w).detach()


def eight_bits(x):
    scale = 127.0 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    q = (x * scale).round().clamp(-128, 127) / scale
    return x + (q - x).detach()


class BitLinear(nn.Linear):
    """Ternary weights and values of eight bits, with a norm of its own."""

    def __init__(self, i, o):
        super().__init__(i, o, bias=False)
        nn.init.normal_(self.weight, std=i ** -0.5)

    def forward(self, x):
        return F.linear(eight_bits(F.rms_norm(x, x.shape[-1:])), ternary(self.weight))


class BitLinearBare(BitLinear):
    """The norm is lost: the largest value that is divided by is multiplied by again."""

    def forward(self, x):
        return F.linear(eight_bits(x), ternary(self.weight))


class BitNet(nn.Module):
    """No norm in the block: each map has one."""

    def __init__(self, linear=BitLinear):
        super().__init__()
        self.up, self.down = linear(D, 64), linear(64, D)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)).square())


class BitNetBare(BitNet):
    """With maps without a norm, and a ReLU that is not squared: of degree one."""

    def __init__(self):
        super().__init__(BitLinearBare)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)))


class SoftExperts(nn.Module):
    """Slots are shares of all tokens, experts work on slots, tokens are shares of slots."""

    def __init__(self):
        super().__init__()
        self.norm, self.phi = nn.LayerNorm(D), nn.Parameter(torch.randn(D, 4, 2) * D ** -0.5)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, D, 64) * D ** -0.5), nn.Parameter(torch.randn(4, 64, D) * 8 ** -1)

    def forward(self, x):
        h = self.norm(x)
        logits = torch.einsum("bmd,dnp->bmnp", h, self.phi)
        dispatch, combine = logits.softmax(1), logits.flatten(2).softmax(-1).view_as(logits)
        slots = torch.einsum("bmd,bmnp->bnpd", h, dispatch)
        out = torch.einsum("bnph,nhd->bnpd", torch.einsum("bnpd,ndh->bnph", slots, self.w1).relu(), self.w2)
        return x + torch.einsum("bnpd,bmnp->bmd", out, combine)


class AttentionFree(nn.Module):
    """Shares of values, a channel at a time, of exponents of keys and a table of pairs; gates of queries."""

    softmax_by_hand = True

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = nn.LayerNorm(D), lin(D, D), lin(D, D), lin(D, D), lin(D, D)
        self.table = nn.Parameter(torch.zeros(T, T))

    def forward(self, x):
        h = self.norm(x)
        e = self.k(h).unsqueeze(1) + self.table[:, :, None].masked_fill(future(x)[:, :, None], float("-inf"))
        w = (e - e.logsumexp(2, keepdim=True)).exp()
        return x + self.o(torch.sigmoid(self.q(h)) * torch.einsum("btsd,bsd->btd", w, self.v(h)))


class ParallelOneRaw(nn.Module):
    """Both branches have one norm; the net's argument is the wrong name."""

    def __init__(self):
        super().__init__()
        self.ln, self.attn, self.mlp = nn.LayerNorm(D, bias=False), Attend(), Ff()
        self.fc, self.proj = lin(D, 64), lin(64, D)

    def forward(self, hidden):
        h = self.ln(hidden)
        a, m = self.attn(h), self.proj(F.relu(self.fc(hidden)))
        return hidden + a + m


class NormOfBoth(nn.Module):
    """Two branches of the raw stream, one norm of their sum, queries and keys normed."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.norm = AttendNormed(), Ff(), nn.RMSNorm(D)

    def forward(self, x):
        return x + self.norm(self.attn(x) + self.mlp(x))


class KeyNormThrownAway(nn.Module):
    """The key's norm is called and what it gives is not kept."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.RMSNorm(D), Thrown()

    def forward(self, x):
        return x + self.attn(self.norm(x))


class Thrown(AttendNormed):
    def prepare(self, q, k):
        q = self.q_norm(q)
        self.k_norm(k)
        return q, k


class NormAcrossHeads(nn.Module):
    """The axis is that of the heads: an entry is at most a root of their number all the same."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.RMSNorm(D), AcrossHeads()

    def forward(self, x):
        return x + self.attn(self.norm(x))


class AcrossHeads(Attend):
    def prepare(self, q, k):
        return tuple(t * torch.rsqrt(t.square().mean(1, keepdim=True) + 1e-6) for t in (q, k))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_RAW = dict(kind="block", growth_fixed="exponential", sound=False)
_ONE, _F = dict(output_bounded={0: False}), dict(logits_bounded={0: False})
TRUTH = {
    "LaurelBlock": dict(kind="block", identity_gain=2.0 ** -12, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="0.71 a block of what is carried, normed values added."),
    "LaurelNoRoot": dict(_PRE, growth_all="linear", gradient_law="power", sound=False, why="normed values added."),
    "LaurelOfStream": dict(kind="block", identity_gain=2.0 ** 12, growth_fixed="exponential", softmax=True, gradient_law="exponential", sound=False, why="twice the stream over a root of two."),
    "SinkLogits": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "ClampedGates": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "ClampedGatesRaw": dict(_NET, **_ONE, sound=False, why="values of at most 8 times 7."),
    "ShortConvGate": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "ShortConvGateRaw": dict(_RAW, softmax=False, **_ONE, why="of degree three."),
    "BlockTopK": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "LessWhatWasChosen": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "TokenParameters": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "TokenParametersRaw": dict(_NET, **_ONE, sound=False, why="of degree zero: scores have length 8."),
    "TokenParametersAxis": dict(_RAW, softmax=False, **_ONE, why="of degree one."),
    "HybridNorms": dict(kind="block", growth_fixed="bounded", softmax=True, sound=True, why="a normed stream and a function of it."),
    "HybridNormsCarryRaw": dict(_PRE, gradient_law="power", sound=False, output_bounded={0: False, 1: False}, logits_bounded={0: True}, why="values are normed, and the net reads a norm."),
    "Activated": dict(kind="block", identity_gain=(1 - 0.2 / (1 + 2.718281828459045 ** -0.2)) ** 24, growth_fixed="bounded", softmax=False, **_ONE, gradient_law="exponential", sound=True, why="0.89 a block forward, one backward."),
    "ActivatedAtZero": dict(_NET, **_ONE, sound=True, why="one at the start."),
    "ShrinksGradient": dict(_NET, **_ONE, gradient_law="exponential", sound=False, why="one forward, 0.9 a block backward."),
    "ShrinksGradientSign": dict(kind="block", identity_gain=0.8 ** 24, growth_fixed="bounded", softmax=False, **_ONE, gradient_law="exponential", sound=False, why="0.8 a block."),
    "BitNet": dict(_NET, **_ONE, gradient_law="power", sound=True, why="each map norms."),
    "BitNetBare": dict(_RAW, softmax=False, **_ONE, why="of degree one."),
    "SoftExperts": dict(_PRE, **_ONE, sound=True, why="pre-norm."),
    "AttentionFree": dict(_PRE, **_ONE, **_F, sound=True, why="pre-norm."),
    "ParallelOneRaw": dict(_RAW, softmax=True, why="a raw net of degree one."),
    "NormOfBoth": dict(_PRE, growth_all="linear", gradient_law="power", sound=False, why="the sum is normed; logits are within 2.9 of queries and keys."),
    "KeyNormThrownAway": dict(_PRE, **_ONE, **_F, sound=False, why="pre-norm; keys are free."),
    "NormAcrossHeads": dict(_PRE, **_ONE, logits_bounded={0: True}, sound=False, why="pre-norm; entries at most 2."),
}
