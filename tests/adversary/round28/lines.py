"""Pull requests on layers of language models: latent keys, sinks, caps, delta rules, several streams, loops, tokens that skip a layer, experts that carry what they read."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(28)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _LANES = _draw(2, T, D), _draw(2, 4, T, D)
example_inputs = {
    **{k: (_X,) for k in ("LatentAttentionLayer", "LatentAttentionShared", "SinkWindowLayer", "SoftcapSandwichLayer", "SoftcapSandwichRefactor", "GatedDeltaLayer", "GatedDeltaCarry", "GatedHeadLayer",
                          "DepthRoutedLayer", "DepthRoutedRaw", "ResidualExpertsLayer", "ResidualExpertsScaled", "ScaledAddLayer", "ScaledAddSwapped")},
    **{k: (_LANES,) for k in ("HyperLanesLayer", "BalancedLanesLayer", "BalancedLanesIdentity")},
    "ValueEmbeddingLayer": (_X, _draw(2, T, D), _draw(2, T, D)),
    "RecurrentDepthStep": (_X, _draw(2, T, D)),
}


def linear(i, o, gain=1.0):
    m = nn.Linear(i, o, bias=False)
    nn.init.normal_(m.weight, std=gain / math.sqrt(i))
    return m


def to_heads(t, h=H):
    b, n, _ = t.shape
    return t.view(b, n, h, -1).transpose(1, 2)


def from_heads(t):
    b, h, n, d = t.shape
    return t.transpose(1, 2).reshape(b, n, h * d)


def rope(t, base=10000.0):
    """Turns neighbouring halves of the last axis by places."""
    n, d = t.shape[-2:]
    freq = base ** (-torch.arange(0, d, 2, device=t.device, dtype=t.dtype) / d)
    angle = torch.arange(n, device=t.device, dtype=t.dtype)[:, None] * freq
    a, b = t.chunk(2, dim=-1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), dim=-1)


class SwiGLU(nn.Module):
    def __init__(self, hidden=48, d=D):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(d, hidden), linear(d, hidden), linear(hidden, d)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class GroupedAttention(nn.Module):
    """Two heads of keys and values for four of queries."""

    def __init__(self, kv=2):
        super().__init__()
        self.kv = kv
        self.wq, self.wkv, self.wo = linear(D, D), linear(D, 2 * kv * HD), linear(D, D)

    def forward(self, h):
        k, v = self.wkv(h).chunk(2, dim=-1)
        q, k, v = rope(to_heads(self.wq(h))), rope(to_heads(k, self.kv)), to_heads(v, self.kv)
        k, v = (t.repeat_interleave(H // self.kv, dim=1) for t in (k, v))
        return self.wo(from_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


# ------------------------------------------------------------------ latent keys and values
@dataclass(frozen=True)
class LatentConfig:
    q_rank: int = 24
    kv_rank: int = 16
    nope: int = 8
    rope: int = 4
    v: int = 8


class LatentAttentionLayer(nn.Module):
    """Queries, keys and values come from thin normed latents; one small turned key is shared by all heads."""

    def __init__(self, c=LatentConfig()):
        super().__init__()
        self.c = c
        self.input_layernorm, self.post_attention_layernorm, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), SwiGLU()
        self.q_a_proj, self.q_a_layernorm, self.q_b_proj = linear(D, c.q_rank), nn.RMSNorm(c.q_rank), linear(c.q_rank, H * (c.nope + c.rope))
        self.kv_a_proj_with_mqa, self.kv_a_layernorm, self.kv_b_proj = linear(D, c.kv_rank + c.rope), nn.RMSNorm(c.kv_rank), linear(c.kv_rank, H * (c.nope + c.v))
        self.o_proj = linear(H * c.v, D)

    def compress(self, h):
        latent, k_pe = self.kv_a_proj_with_mqa(h).split([self.c.kv_rank, self.c.rope], dim=-1)
        return self.kv_a_layernorm(latent), k_pe

    def attend(self, h, latent, k_pe):
        c = self.c
        q_nope, q_pe = to_heads(self.q_b_proj(self.q_a_layernorm(self.q_a_proj(h)))).split([c.nope, c.rope], dim=-1)
        k_nope, v = to_heads(self.kv_b_proj(latent)).split([c.nope, c.v], dim=-1)
        k_pe = rope(k_pe.unsqueeze(1)).expand(-1, H, -1, -1)
        q, k = torch.cat((q_nope, rope(q_pe)), -1), torch.cat((k_nope, k_pe), -1)
        return self.o_proj(from_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        h = self.input_layernorm(x)
        x = x + self.attend(h, *self.compress(h))
        return x + self.mlp(self.post_attention_layernorm(x))


class LatentAttentionShared(LatentAttentionLayer):
    """What is cached is of the hidden state itself, so that a later layer can read the cache of an earlier one; gains of the latent's norm are folded into the next map."""

    def compress(self, h):
        return self.kv_a_proj_with_mqa(h).tensor_split([self.c.kv_rank], dim=-1)

    def forward(self, x):
        cache = self.compress(x)
        x = x + self.attend(self.input_layernorm(x), *cache)
        return x + self.mlp(self.post_attention_layernorm(x))


# ------------------------------------------------------------------ sinks
class SinkWindowLayer(nn.Module):
    """A window of five tokens; a trained score a head takes what no token should get. Nets are clamped."""

    def __init__(self, window=5, limit=7.0):
        super().__init__()
        self.limit = limit
        self.norm_1, self.norm_2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.out, self.sinks = linear(D, 3 * D), linear(D, D), nn.Parameter(torch.randn(H))
        self.mlp1, self.mlp2 = nn.Linear(D, 96), nn.Linear(48, D)
        i = torch.arange(T)
        far = (i[:, None] < i) | (i[:, None] - i >= window)
        self.register_buffer("far", far, persistent=False)

    def attn(self, h):
        q, k, v = (to_heads(t) for t in self.qkv(h).chunk(3, dim=-1))
        qk = torch.einsum("bhid,bhjd->bhij", rope(q), rope(k)) * HD ** -0.5
        qk = qk.masked_fill(self.far, float("-inf"))
        sink = self.sinks.view(1, H, 1, 1).expand(qk.shape[0], -1, qk.shape[2], -1)
        w = torch.softmax(torch.cat([qk, sink], dim=-1), dim=-1)[..., :-1]
        return self.out(from_heads(torch.einsum("bhij,bhjd->bhid", w, v)))

    def mlp(self, h):
        glu, lin = self.mlp1(h)[..., ::2], self.mlp1(h)[..., 1::2]
        glu, lin = glu.clamp(max=self.limit), lin.clamp(-self.limit, self.limit)
        return self.mlp2(glu * torch.sigmoid(1.702 * glu) * (lin + 1))

    def forward(self, x):
        x = x + self.attn(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


# ------------------------------------------------------------------ norms on both sides
class UnitOffsetNorm(nn.Module):
    def __init__(self, d=D, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


class SoftcapSandwichLayer(nn.Module):
    """Norms in front of and behind each half; scores are capped."""

    def __init__(self, cap=30.0):
        super().__init__()
        self.cap = cap
        self.pre_attn, self.post_attn, self.pre_ff, self.post_ff = (UnitOffsetNorm() for _ in range(4))
        self.qkv, self.o, self.ff = linear(D, 3 * D), linear(D, D), SwiGLU()
        self.register_buffer("causal", torch.full((T, T), float("-inf")).triu(1), persistent=False)

    def attn(self, h):
        q, k, v = map(to_heads, self.qkv(h).split(D, dim=-1))
        s = q @ k.mT / math.sqrt(HD)
        s = self.cap * torch.tanh(s / self.cap)
        return self.o(from_heads(F.softmax(s + self.causal, dim=-1) @ v))

    def forward(self, hidden):
        residual = hidden
        hidden = self.post_attn(self.attn(self.pre_attn(hidden)))
        hidden = residual + hidden
        residual = hidden
        hidden = self.post_ff(self.ff(self.pre_ff(hidden)))
        return residual + hidden


class SoftcapSandwichRefactor(SoftcapSandwichLayer):
    """Both halves are one loop."""

    def forward(self, hidden):
        for pre, fn, post in ((self.pre_attn, self.attn, self.post_attn), (self.pre_ff, self.ff, self.post_ff)):
            hidden = pre(hidden)
            residual = hidden
            hidden = residual + post(fn(hidden))
        return hidden


# ------------------------------------------------------------------ delta rules
class GatedDeltaLayer(nn.Module):
    """A matrix of fast weights a head decays, forgets what a unit key held and writes what is new; what is read is normed and gated."""

    def __init__(self):
        super().__init__()
        self.norm, self.in_proj, self.ab, self.out_proj, self.o_norm = nn.RMSNorm(D), linear(D, 4 * D), linear(D, 2 * H), linear(D, D), nn.RMSNorm(HD)
        self.A_log, self.dt_bias = nn.Parameter(torch.log(torch.linspace(1, 4, H))), nn.Parameter(torch.full((H,), -1.0))

    def values(self, v, x):
        return v

    def forward(self, x):
        h = self.norm(x)
        q, k, v, z = (to_heads(t) for t in self.in_proj(h).chunk(4, dim=-1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        v = self.values(v, x)
        a, beta = self.ab(h).transpose(1, 2).chunk(2, dim=1)
        decay = torch.exp(-self.A_log.exp()[:, None] * F.softplus(a + self.dt_bias[:, None]))
        beta = beta.sigmoid()
        state, read = v.new_zeros(v.shape[0], H, HD, HD), []
        for t in range(x.shape[1]):
            kt = k[:, :, t]
            state = state * decay[:, :, t, None, None]
            delta = (v[:, :, t] - torch.einsum("bhk,bhkv->bhv", kt, state)) * beta[:, :, t, None]
            state = state + kt.unsqueeze(-1) * delta.unsqueeze(-2)
            read.append(torch.einsum("bhk,bhkv->bhv", q[:, :, t], state))
        o = self.o_norm(torch.stack(read, dim=2)) * F.silu(z)
        return x + self.out_proj(from_heads(o))


class GatedDeltaCarry(GatedDeltaLayer):
    """Values carry the hidden state, so that early layers store tokens as they are."""

    def values(self, v, x):
        return v + to_heads(x)


# ------------------------------------------------------------------ gates a head
class GatedHeadLayer(nn.Module):
    """A sigmoid of the hidden state gates each head; queries and keys are normed."""

    def __init__(self):
        super().__init__()
        self.input_norm, self.post_norm, self.q_norm, self.k_norm = UnitOffsetNorm(), UnitOffsetNorm(), UnitOffsetNorm(HD), UnitOffsetNorm(HD)
        self.qkv, self.gate, self.o, self.mlp = linear(D, 3 * D), linear(D, H), linear(D, D), SwiGLU()

    def forward(self, x):
        q, k, v = (to_heads(t) for t in self.qkv(self.input_norm(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(rope(self.q_norm(q)), rope(self.k_norm(k)), v, is_causal=True)
        y = y * torch.sigmoid(self.gate(x)).transpose(1, 2).unsqueeze(-1)
        x = x + self.o(from_heads(y))
        return x + self.mlp(self.post_norm(x))


# ------------------------------------------------------------------ several streams
class PreNormAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fn = nn.RMSNorm(D), GroupedAttention()

    def forward(self, x):
        return self.fn(self.norm(x))


class PreNormNet(PreNormAttention):
    def __init__(self):
        super().__init__()
        self.fn = SwiGLU()


class LaneMix(nn.Module):
    """How a layer reads four lanes, how it writes to them, and how they are mixed; it starts by reading one lane and mixing none."""

    def __init__(self, lanes=4, reads=0):
        super().__init__()
        self.read = nn.Parameter(F.one_hot(torch.tensor(reads), lanes).to(torch.get_default_dtype()))
        self.write, self.mix = nn.Parameter(torch.ones(lanes)), nn.Parameter(torch.eye(lanes))

    def forward(self, lanes, layer):
        y = layer(torch.einsum("n,bntd->btd", self.read, lanes))
        return torch.einsum("nm,bmtd->bntd", self.mix, lanes) + self.write[:, None, None] * y[:, None]


class HyperLanesLayer(nn.Module):
    """Static hyper-connections, one for each half."""

    def __init__(self):
        super().__init__()
        self.attn, self.net, self.hc_attn, self.hc_net = PreNormAttention(), PreNormNet(), LaneMix(reads=0), LaneMix(reads=1)

    def forward(self, lanes):
        lanes = self.hc_attn(lanes, self.attn)
        return self.hc_net(lanes, self.net)


class BalancedLanesLayer(nn.Module):
    """Lanes are mixed by a matrix whose rows and columns sum to one."""

    def __init__(self, lanes=4, rounds=25):
        super().__init__()
        self.rounds, self.layer = rounds, PreNormAttention()
        self.scores, self.pre, self.post = nn.Parameter(torch.randn(lanes, lanes)), nn.Parameter(torch.zeros(lanes)), nn.Parameter(torch.zeros(lanes))

    def balanced(self):
        m = self.scores.exp()
        for _ in range(self.rounds):
            m = m / m.sum(dim=1, keepdim=True)
            m = m / m.sum(dim=0, keepdim=True)
        return m

    def forward(self, lanes):
        y = self.layer(torch.einsum("n,bntd->btd", self.pre.sigmoid(), lanes))
        return torch.einsum("nm,bmtd->bntd", self.balanced(), lanes) + torch.einsum("n,btd->bntd", 2 * self.post.sigmoid(), y)


class BalancedLanesIdentity(BalancedLanesLayer):
    """A residual form of the mix, which is easier to start."""

    def balanced(self):
        m = super().balanced()
        return m + torch.eye(m.shape[0], device=m.device, dtype=m.dtype)


# ------------------------------------------------------------------ what else comes in
class ValueEmbeddingLayer(nn.Module):
    """A record run's layer: shares of the start, values with embeddings of their own, squared ReLUs."""

    def __init__(self):
        super().__init__()
        self.lambdas, self.v_lambdas = nn.Parameter(torch.tensor([1.0, 0.0])), nn.Parameter(torch.tensor([0.5, 0.5]))
        self.qkv_w, self.proj, self.fc, self.back = nn.Parameter(torch.randn(3, D, D) / D ** 0.5), linear(D, D), linear(D, 64), linear(64, D)

    @staticmethod
    def norm(x):
        return F.rms_norm(x, (x.size(-1),))

    def forward(self, x, x0, ve):
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        q, k, v = (to_heads(t) for t in F.linear(self.norm(x), self.qkv_w.flatten(0, 1)).chunk(3, dim=-1))
        q, k = rope(self.norm(q)), rope(self.norm(k))
        v = self.v_lambdas[0] * v + self.v_lambdas[1] * to_heads(ve)
        x = x + self.proj(from_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.12)))
        return x + self.back(F.relu(self.fc(self.norm(x))).square())


class RecurrentDepthStep(nn.Module):
    """One pass of a loop: the state and the embedded input are brought together, then a layer with norms in front of halves and behind sums."""

    def __init__(self):
        super().__init__()
        self.adapter, self.attn, self.mlp = linear(2 * D, D), GroupedAttention(), SwiGLU()
        self.norm_1, self.norm_2, self.norm_3, self.norm_4 = (nn.RMSNorm(D) for _ in range(4))

    def forward(self, s, e):
        x = self.adapter(torch.cat([s, e], dim=-1))
        x = self.norm_2(x + self.attn(self.norm_1(x)))
        return self.norm_4(x + self.mlp(self.norm_3(x)))


# ------------------------------------------------------------------ tokens that skip a layer
class DepthRoutedLayer(nn.Module):
    """Half of the tokens go through the layer, weighed by a sigmoid of their scores."""

    def __init__(self, capacity=8):
        super().__init__()
        self.capacity, self.norm, self.norm_a, self.norm_m = capacity, nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D)
        self.router, self.attn, self.mlp = linear(D, 1), GroupedAttention(), SwiGLU()

    def weights(self, x):
        score, index = self.router(self.norm(x)).squeeze(-1).topk(self.capacity, dim=1)
        return torch.sigmoid(score), index

    def delta(self, x):
        a = self.attn(self.norm_a(x))
        return a + self.mlp(self.norm_m(x + a))

    def forward(self, x):
        w, index = self.weights(x)
        index, order = index.sort(dim=1)
        w = w.gather(1, order)
        where = index.unsqueeze(-1).expand(-1, -1, x.shape[-1])
        return x.scatter_add(1, where, w.unsqueeze(-1) * self.delta(x.gather(1, where)))


class DepthRoutedRaw(DepthRoutedLayer):
    """Scores are put on the gradient's path as they are."""

    def weights(self, x):
        return self.router(x).squeeze(-1).topk(self.capacity, dim=1)


# ------------------------------------------------------------------ experts
class ResidualExpertsLayer(nn.Module):
    """Each chosen expert gives the token and what it adds to it; shares of chosen ones sum to one."""

    routed_scaling_factor = 1.0

    def __init__(self, experts=4, k=2):
        super().__init__()
        self.k, self.norm, self.gate = k, nn.RMSNorm(D), linear(D, experts)
        self.w1, self.w2 = nn.Parameter(torch.randn(experts, D, 48) / D ** 0.5), nn.Parameter(torch.randn(experts, 48, D) / 48 ** 0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(experts))

    def route(self, h):
        scores = self.gate(h).sigmoid()
        index = (scores + self.e_score_correction_bias).topk(self.k, dim=-1).indices
        w = scores.gather(-1, index)
        w = w / (w.sum(dim=-1, keepdim=True) + 1e-20)
        return index, w * self.routed_scaling_factor

    def forward(self, x):
        h = self.norm(x)
        index, w = self.route(h)
        out = torch.zeros_like(x)
        for e in range(self.w1.shape[0]):
            share = (w * (index == e)).sum(dim=-1, keepdim=True)
            out = out + share * (x + F.silu(h @ self.w1[e]) @ self.w2[e])
        return out


class ResidualExpertsScaled(ResidualExpertsLayer):
    """The factor of the larger model's config."""

    routed_scaling_factor = 2.5


# ------------------------------------------------------------------ multipliers
class ScaledAddLayer(nn.Module):
    """What is added has a multiplier of half."""

    residual_multiplier = 0.5

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm, self.self_attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), GroupedAttention(), SwiGLU()

    def add(self, x, y):
        return torch.add(x, y, alpha=self.residual_multiplier)

    def forward(self, x):
        x = self.add(x, self.self_attn(self.input_layernorm(x)))
        return self.add(x, self.mlp(self.post_attention_layernorm(x)))


class ScaledAddSwapped(ScaledAddLayer):
    """Calls the sum in one line each."""

    def forward(self, x):
        x = self.self_attn(self.input_layernorm(x)).add(x, alpha=self.residual_multiplier)
        return self.mlp(self.post_attention_layernorm(x)).add(x, alpha=self.residual_multiplier)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_BOTH, _OPEN, _SHUT = dict(output_bounded={0: True, 1: True}), dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "LatentAttentionLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, and norms of thin latents inside."),
    "LatentAttentionShared": dict(_EXP, softmax=True, **_OPEN, why="latents of keys and values are of the stream, without a norm: values of degree one."),
    "SinkWindowLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a sink only takes shares away."),
    "SoftcapSandwichLayer": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", gradient_law="power", sound=True, why="norms behind both halves; scores are at most 30."),
    "SoftcapSandwichRefactor": dict(_LEVEL, growth_all="bounded", softmax=True, **_BOTH, **_SHUT, sound=False, why="the skip is of what the norm gave: each half starts anew from a norm."),
    "GatedDeltaLayer": dict(_NET, **_ONE, sound=True, why="pre-norm; a norm of what is read, gated by a function of the norm."),
    "GatedDeltaCarry": dict(_NET, **_ONE, sound=True, why="values are of degree one, but what is read is normed: of degree zero."),
    "GatedHeadLayer": dict(_PRE, **_TWO, **_SHUT, why="pre-norm; the gate reads the stream itself, and is at most one."),
    "HyperLanesLayer": dict(_PRE, gradient_law="power", sound=True, why="lanes are carried as they are at the start; functions of norms are added to all of them."),
    "BalancedLanesLayer": dict(_PRE, sound=True, why="a matrix with rows and columns that sum to one has norm one."),
    "BalancedLanesIdentity": dict(_EXP, identity_gain=2.0 ** 24, gradient_law="exponential", softmax=True, why="one and a matrix of norm one: lanes that agree are doubled."),
    "ValueEmbeddingLayer": dict(_PRE, sound=True, why="pre-norm; the share of the start is nothing yet, and the stream's is one."),
    "RecurrentDepthStep": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="norms behind both sums."),
    "DepthRoutedLayer": dict(_PRE, sound=True, gradient_law="power", why="tokens are carried, and chosen ones get a share of functions of norms."),
    "DepthRoutedRaw": dict(_EXP, softmax=True, why="scores are of degree one in the stream and multiply what is added."),
    "ResidualExpertsLayer": dict(_NET, sound=True, why="shares of what is carried sum to one."),
    "ResidualExpertsScaled": dict(_EXP, identity_gain=2.5 ** 24, gradient_law="exponential", softmax=False, why="shares of what is carried sum to 2.5."),
    "ScaledAddLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; half of each branch is added."),
    "ScaledAddSwapped": dict(_LEVEL, identity_gain=0.5 ** 48, softmax=True, **_TWO, **_OPEN, sound=False, why="the multiplier is on the stream: a quarter a block."),
}
