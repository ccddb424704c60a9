"""Pull requests on layers of language models: halves side by side, differences of attentions, norms behind branches, skips of norms, shifts of tokens, retention, spheres, experts that choose, ternary maps, product keys, sigmoids, compressed memories, transforms, twin mixers."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(31)
_X = torch.randn(2, T, D, generator=_G)
example_inputs = {k: (_X,) for k in ("ParallelLayer", "ParallelLayerOwnNorm", "DifferentialLayer", "ReorderedNormLayer", "ReorderedNormLayerQv", "BloomLayer", "ShiftMixLayer", "ShiftMixLayerCached",
                                     "RetentionLayer", "RetentionLayerGate", "SphereLayer", "SphereLayerLerp", "ExpertChoiceLayer", "ExpertChoiceGather", "TernaryLayer", "TernaryLayerPlain",
                                     "ProductKeyLayer", "SigmoidScoresLayer", "FourierLayer", "TwinMixerLayer")}


def Linear(i, o, bias=False):
    m = nn.Linear(i, o, bias)
    nn.init.normal_(m.weight, 0.0, i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def heads(t, n=H):
    return t.view(t.size(0), t.size(1), n, -1).transpose(1, 2)


def merge(t):
    return t.transpose(1, 2).flatten(2)


class SwiGLU(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(D, hidden), Linear(hidden, D), Linear(D, hidden)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv, self.wo = Linear(D, 3 * D), Linear(D, D)

    def forward(self, x):
        q, k, v = map(heads, self.wqkv(x).split(D, -1))
        return self.wo(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


# ------------------------------------------------------------------ side by side
class ParallelLayer(nn.Module):
    """Attention and net read one norm, as in the six-billion model."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.mlp = nn.LayerNorm(D), CausalAttention(), nn.Sequential(Linear(D, 4 * D, True), nn.GELU(), Linear(4 * D, D, True))

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attn_output = self.attn(hidden_states)
        feed_forward = self.mlp(hidden_states)
        return residual + attn_output + feed_forward


class ParallelLayerOwnNorm(ParallelLayer):
    """The norm moves into attention, where the fused kernel wants it."""

    def attention(self, x):
        return self.attn(self.ln_1(x))

    def forward(self, x):
        return x + self.attention(x) + self.mlp(x)


# ------------------------------------------------------------------ differences of attentions
class DifferentialLayer(nn.Module):
    """Two maps of attention a head, the second one taken off by a share that is a sigmoid of the token."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.ffn = nn.RMSNorm(D), nn.RMSNorm(D), SwiGLU()
        self.wq, self.wk, self.wv, self.lam, self.wo = Linear(D, 2 * D), Linear(D, D), Linear(D, D), Linear(D, H), Linear(D, D)

    def attn(self, h):
        q1, q2 = self.wq(h).chunk(2, dim=-1)
        k, v = heads(self.wk(h)), heads(self.wv(h))
        one, two = (F.scaled_dot_product_attention(heads(q), k, v, is_causal=True) for q in (q1, q2))
        lam = torch.sigmoid(self.lam(h)).transpose(1, 2).unsqueeze(-1)
        return self.wo(merge(one - lam * two))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


# ------------------------------------------------------------------ norms behind branches
class ReorderedNormLayer(nn.Module):
    """Norms stand behind attention and net; queries and keys are normed in their full width."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (Linear(D, D) for _ in range(4))
        self.q_norm, self.k_norm, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), SwiGLU()
        self.post_attention_layernorm, self.post_feedforward_layernorm = nn.RMSNorm(D), nn.RMSNorm(D)

    def qkv(self, x):
        return self.q_norm(self.q_proj(x)), self.k_norm(self.k_proj(x)), self.v_proj(x)

    def self_attn(self, x):
        q, k, v = map(heads, self.qkv(x))
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(HD)
        scores = scores + torch.full((T, T), float("-inf"), device=x.device).triu(1)
        return self.o_proj(merge(torch.matmul(F.softmax(scores, dim=-1), v)))

    def forward(self, x):
        x = x + self.post_attention_layernorm(self.self_attn(x))
        x = x + self.post_feedforward_layernorm(self.mlp(x))
        return x


class ReorderedNormLayerQv(ReorderedNormLayer):
    """Projections are unpacked in a loop; the list of norms is one off."""

    def qkv(self, x):
        q, k, v = (p(x) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.q_norm(q), k, self.k_norm(v)


# ------------------------------------------------------------------ skips of norms
class BloomLayer(nn.Module):
    """The flag of the config that takes skips behind norms; slopes of distance."""

    apply_residual_connection_post_layernorm = True

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.query_key_value, self.dense, self.up, self.down = Linear(D, 3 * D, True), Linear(D, D, True), Linear(D, 4 * D, True), Linear(4 * D, D, True)
        at = torch.arange(T).float()
        bias = (at[None] - at[:, None]) * 2.0 ** -(torch.arange(1, H + 1).float() * 8 / H)[:, None, None]
        self.register_buffer("alibi", bias.masked_fill(at[None] > at[:, None], float("-inf")), persistent=False)

    def attention(self, h, residual):
        q, k, v = self.query_key_value(h).view(*h.shape[:2], H, 3, HD).permute(3, 0, 2, 1, 4)
        p = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * HD ** -0.5 + self.alibi.to(h.dtype), dim=-1)
        return residual + self.dense(merge(p @ v))

    def forward(self, x):
        h = self.input_layernorm(x)
        x = self.attention(h, h if self.apply_residual_connection_post_layernorm else x)
        h = self.post_attention_layernorm(x)
        residual = h if self.apply_residual_connection_post_layernorm else x
        return residual + self.down(F.gelu(self.up(h)))


# ------------------------------------------------------------------ shifts of tokens
class ShiftMixLayer(nn.Module):
    """Each half reads a mean of the token and the one before it; keys are weighed by exponentials that decay."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mix, self.decay, self.first = nn.Parameter(torch.rand(5, D)), nn.Parameter(torch.linspace(-3, 1, D)), nn.Parameter(torch.zeros(D))
        self.key, self.value, self.receptance, self.output = (Linear(D, D) for _ in range(4))
        self.ffn_key, self.ffn_value, self.ffn_receptance = Linear(D, 2 * D), Linear(2 * D, D), Linear(D, D)

    @staticmethod
    def shifted(x):
        return F.pad(x, (0, 0, 1, -1))

    def before(self, x, h):
        return self.shifted(h)

    def wkv(self, k, v):
        w, out = -self.decay.exp(), []
        num = den = torch.zeros_like(k[:, 0])
        top = torch.full_like(num, -1e38)
        for kt, vt in zip(k.unbind(1), v.unbind(1)):
            now = torch.maximum(top, self.first + kt)
            a, b = torch.exp(top - now), torch.exp(self.first + kt - now)
            out.append((a * num + b * vt) / (a * den + b))
            now = torch.maximum(top + w, kt)
            a, b = torch.exp(top + w - now), torch.exp(kt - now)
            num, den, top = a * num + b * vt, a * den + b, now
        return torch.stack(out, dim=1)

    def time_mixing(self, h, prev):
        k, v, r = (f(torch.lerp(prev, h, m)) for f, m in zip((self.key, self.value, self.receptance), self.mix))
        return self.output(torch.sigmoid(r) * self.wkv(k, v))

    def channel_mixing(self, h, prev):
        k, r = torch.lerp(prev, h, self.mix[3]), torch.lerp(prev, h, self.mix[4])
        return torch.sigmoid(self.ffn_receptance(r)) * self.ffn_value(F.relu(self.ffn_key(k)).square())

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.time_mixing(h, self.before(x, h))
        h = self.ln2(x)
        return x + self.channel_mixing(h, self.before(x, h))


class ShiftMixLayerCached(ShiftMixLayer):
    """What is kept for the next token is the hidden state that comes in."""

    def before(self, x, h):
        return self.shifted(x)


# ------------------------------------------------------------------ retention
class RetentionLayer(nn.Module):
    """Products of queries and keys that decay by distance, a norm a head without gains, a gate."""

    def __init__(self):
        super().__init__()
        self.ln_a, self.ln_f, self.q, self.k, self.v, self.g, self.o, self.ffn = nn.LayerNorm(D), nn.LayerNorm(D), *(Linear(D, D) for _ in range(5)), SwiGLU()
        gamma = 1 - 2.0 ** (-3 - torch.arange(H).float())
        apart = torch.arange(T)[:, None] - torch.arange(T)[None]
        self.register_buffer("mask", torch.where(apart >= 0, gamma[:, None, None] ** apart.clamp(min=0), 0.0), persistent=False)

    def retain(self, h):
        q, k, v = heads(self.q(h)), heads(self.k(h)) * HD ** -0.5, heads(self.v(h))
        y = (q @ k.mT * self.mask.to(h.dtype)) @ v
        return merge(F.rms_norm(y, (HD,), eps=1e-6))

    def gate(self, x, h):
        return F.silu(self.g(h))

    def forward(self, x):
        h = self.ln_a(x)
        x = x + self.o(self.gate(x, h) * self.retain(h))
        return x + self.ffn(self.ln_f(x))


class RetentionLayerGate(RetentionLayer):
    """The gate is computed by the caller's kernel, on what it has."""

    def gate(self, x, h):
        return F.silu(self.g(x))


# ------------------------------------------------------------------ spheres
def unit(x):
    return F.normalize(x, p=2, dim=-1)


class SphereLayer(nn.Module):
    """States stay on the sphere: a step towards what the branch points to, then back to length one."""

    def __init__(self, step=0.1):
        super().__init__()
        self.step, self.attn, self.mlp = step, CausalAttention(), SwiGLU()

    def forward(self, h):
        h = unit(torch.lerp(h, unit(self.attn(h)), self.step))
        h = unit(torch.lerp(h, unit(self.mlp(h)), self.step))
        return h


class SphereLayerLerp(SphereLayer):
    """Both ends of the step have length one, so the mean has it too."""

    def forward(self, h):
        for f in (self.attn, self.mlp):
            h = torch.lerp(h, unit(f(h)), self.step)
        return h


# ------------------------------------------------------------------ experts that choose
class ExpertChoiceLayer(nn.Module):
    """Each expert takes the tokens that score best for it, and what it gives is weighed by these scores."""

    def __init__(self, n_experts=4, capacity=6):
        super().__init__()
        self.k, self.norm1, self.norm2, self.attn = capacity, nn.RMSNorm(D), nn.RMSNorm(D), CausalAttention()
        self.router, self.experts = Linear(D, n_experts), nn.ModuleList(SwiGLU(32) for _ in range(n_experts))

    def moe(self, h, tokens):
        b, t, d = h.shape
        scores = self.router(h).softmax(dim=-1)
        weight, index = scores.transpose(1, 2).topk(self.k, dim=-1)
        out = torch.zeros_like(tokens)
        for e, expert in enumerate(self.experts):
            idx = index[:, e, :, None].expand(-1, -1, d)
            out = out.scatter_add(1, idx, expert(tokens.gather(1, idx)) * weight[:, e, :, None])
        return out

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        h = self.norm2(x)
        return x + self.moe(h, h)


class ExpertChoiceGather(ExpertChoiceLayer):
    """The norm belongs to the router; tokens are gathered from the hidden states."""

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.moe(self.norm2(x), x)


# ------------------------------------------------------------------ ternary maps
def straight(x, q):
    return x + (q - x).detach()


class TernaryLinear(nn.Linear):
    """Weights are minus one, nothing or one times their mean length, inputs have eight bits; a norm comes first."""

    def __init__(self, i, o):
        super().__init__(i, o, bias=False)
        nn.init.normal_(self.weight, std=i ** -0.5)
        self.norm = nn.RMSNorm(i, elementwise_affine=False)

    def entering(self, x):
        return self.norm(x)

    def forward(self, x):
        x = self.entering(x)
        s = 127.0 / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)
        x = straight(x, (x * s).round().clamp(-128, 127) / s)
        m = self.weight.abs().mean().clamp(min=1e-5)
        return F.linear(x, straight(self.weight, (self.weight / m).round().clamp(-1, 1) * m))


class TernaryLinearPlain(TernaryLinear):
    """Inputs are scaled to eight bits, so that a norm has nothing left to do."""

    def entering(self, x):
        return x


class TernaryLayer(nn.Module):
    """No norms of the layer's own: maps have them."""

    linear = TernaryLinear

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.up, self.down = self.linear(D, 3 * D), self.linear(D, D), self.linear(D, 64), self.linear(64, D)

    def forward(self, x):
        q, k, v = (heads(t) for t in self.qkv(x).chunk(3, dim=-1))
        x = x + self.out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.down(F.relu(self.up(x)) ** 2)


class TernaryLayerPlain(TernaryLayer):
    linear = TernaryLinearPlain


# ------------------------------------------------------------------ product keys
class ProductKeyLayer(nn.Module):
    """Tiny experts of one unit each, found by the best pairs of two sets of keys."""

    def __init__(self, n=8, k=4):
        super().__init__()
        self.n, self.k, self.norm, self.query = n, k, nn.RMSNorm(D), Linear(D, H * 16)
        self.keys = nn.Parameter(torch.randn(2, H, n, 8) * 8 ** -0.5)
        self.u, self.v = nn.Embedding(n * n, D), nn.Embedding(n * n, D)
        nn.init.normal_(self.u.weight, std=D ** -0.5)
        nn.init.normal_(self.v.weight, std=D ** -0.5)

    def retrieve(self, h):
        q = self.query(h).unflatten(-1, (H, 2, 8))
        s = torch.einsum("bthpc,phnc->pbthn", q, self.keys)
        (s1, s2), (i1, i2) = s.topk(self.k, dim=-1)
        both = (s1[..., :, None] + s2[..., None, :]).flatten(-2)
        index = (i1[..., :, None] * self.n + i2[..., None, :]).flatten(-2)
        score, at = both.topk(self.k, dim=-1)
        return score.softmax(-1), index.gather(-1, at)

    def forward(self, x):
        h = self.norm(x)
        g, index = self.retrieve(h)
        a = F.gelu(torch.einsum("btd,bthkd->bthk", h, self.u(index))) * g
        return x + torch.einsum("bthk,bthkd->btd", a, self.v(index))


# ------------------------------------------------------------------ sigmoids of scores
class SigmoidScoresLayer(nn.Module):
    """Sigmoids in place of a softmax, with minus the log of the length in front."""

    def __init__(self):
        super().__init__()
        self.norms, self.qkv, self.out, self.net = nn.ModuleList((nn.LayerNorm(D), nn.LayerNorm(D))), Linear(D, 3 * D), Linear(D, D), SwiGLU()

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        a = torch.sigmoid(q @ k.transpose(-1, -2) * HD ** -0.5 - math.log(x.shape[1]))
        return self.out(merge(a.tril() @ v))

    def forward(self, x):
        for norm, f in zip(self.norms, (self.attend, self.net)):
            x = x + f(norm(x))
        return x


# ------------------------------------------------------------------ transforms
class FourierLayer(nn.Module):
    """Tokens are mixed by the real part of a transform over both axes: no weights there."""

    def __init__(self):
        super().__init__()
        self.mixing_norm, self.output_norm, self.intermediate, self.output = nn.LayerNorm(D, eps=1e-12), nn.LayerNorm(D, eps=1e-12), Linear(D, 64, True), Linear(64, D, True)

    def forward(self, x):
        h = self.mixing_norm(x)
        x = x + torch.fft.fftn(h, dim=(1, 2), norm="ortho").real
        return x + self.output(F.gelu(self.intermediate(self.output_norm(x))))


# ------------------------------------------------------------------ twin mixers
@dataclass
class TwinConfig:
    dim: int = D
    hidden: int = 64
    eps: float = 1e-6


class TwinMixerLayer(nn.Module):
    """Attention and a gated recurrence read one map; both are normed, weighed, and their mean is mapped."""

    def __init__(self, cfg=TwinConfig()):
        super().__init__()
        d = cfg.dim
        self.norm, self.norm_ff, self.attn_norm, self.rnn_norm = (nn.RMSNorm(d, cfg.eps) for _ in range(4))
        self.in_proj, self.out_proj, self.ff = Linear(d, 6 * d), Linear(d, d), SwiGLU(cfg.hidden)
        self.gain_attn, self.gain_rnn = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))

    @staticmethod
    def recur(u, forget, gate):
        keep, h, ys = torch.sigmoid(forget), torch.zeros_like(u[:, 0]), []
        for t in range(u.size(1)):
            h = keep[:, t] * h + (1 - keep[:, t]) * u[:, t]
            ys.append(h)
        return torch.stack(ys, 1) * F.silu(gate)

    def mix(self, x):
        q, k, v, u, f, g = self.in_proj(x).chunk(6, dim=-1)
        a = merge(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True))
        r = self.recur(u, f, g)
        return self.out_proj(0.5 * (self.gain_attn * self.attn_norm(a) + self.gain_rnn * self.rnn_norm(r)))

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        x = x + self.ff(self.norm_ff(x))
        return x


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "ParallelLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; both halves read one norm, each is added."),
    "ParallelLayerOwnNorm": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="the net reads the stream itself: of degree one."),
    "DifferentialLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a mean of values less a share of another one."),
    "ReorderedNormLayer": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, why="norms behind both branches; queries and keys are normed."),
    "ReorderedNormLayerQv": dict(_PRE, **_BOTH, **_OPEN, growth_all="linear", sound=False, why="norms behind both branches; keys are not normed and are maps of the stream: scores grow with it."),
    "BloomLayer": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, why="both skips are of norms: each half starts anew from a norm."),
    "ShiftMixLayer": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm; shifted tokens are norms, means of values are bounded by them."),
    "ShiftMixLayerCached": dict(_EXP, softmax=False, **_TWO, why="the token before is the stream itself: values of degree one, squares of degree two."),
    "RetentionLayer": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm; a norm a head times a gate of the norm."),
    "RetentionLayerGate": dict(_EXP, softmax=False, **_TWO, why="the gate is of degree one in the stream and multiplies a norm."),
    "SphereLayer": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="states have length one behind each step."),
    "SphereLayerLerp": dict(_LEVEL, identity_gain=0.9 ** 48, growth_all="bounded", softmax=True, sound=False, why="0.9 of the stream a half; means of points of the sphere are inside of it."),
    "ExpertChoiceLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; shares of nets of norms."),
    "ExpertChoiceGather": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="experts read the stream itself, without a norm."),
    "TernaryLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="each map starts with a norm; weights have any length."),
    "TernaryLayerPlain": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="what is scaled to eight bits is scaled back: maps are of degree one, and squares of two."),
    "ProductKeyLayer": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; shares of single units."),
    "SigmoidScoresLayer": dict(_NET, **_TWO, sound=True, gradient_law="power", why="pre-norm; weights are at most one."),
    "FourierLayer": dict(_NET, output_bounded={0: True, 1: False}, sound=True, gradient_law="power", why="pre-norm; the transform of a norm has no weights."),
    "TwinMixerLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a map of norms."),
}
