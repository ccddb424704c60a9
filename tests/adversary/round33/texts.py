"""Pull requests on layers of language models: values of the first layer again, embeddings for each layer, branches side by side, heads of two kinds, experts, kernels, shifts, gates of recurrent nets, spheres, differences of maps of attention, norms on branches, short filters, low-rank residuals."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3301)
_X, _V = torch.randn(2, T, D, generator=_G), torch.randn(2, T, D, generator=_G)
example_inputs = {k: (_X,) for k in ("FirstValueLayerStream", "SideBySideLayer", "SideBySideLayerTwice", "TwoHeadKindsLayer", "TopTwoLayer", "TopTwoLayerClone", "KernelAttnLayer", "KernelAttnLayerUnused",
                                     "TokenShiftLayer", "TokenShiftLayerStream", "RecurrentGateLayer", "SphereLayer", "SphereLayerOpen", "DifferenceAttnLayer", "BranchNormLayer", "BranchNormLayerHalf",
                                     "ShortFilterLayer", "ShortFilterLayerStream", "LowRankResidualLayer")}
example_inputs |= {"FirstValueLayer": (_X, _V), "LayerEmbeddingLayer": (_X, _V[..., :16]), "LayerEmbeddingLayerBare": (_X, _V[..., :16])}


@dataclass
class LayerConfig:
    n_embd: int = D
    n_head: int = H
    n_inner: int = 2 * D
    bias: bool = False


def init_linear(module):
    """Fan-in normal for every map of a layer."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, mean=0.0, std=module.in_features ** -0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def split_heads(t):
    return t.view(t.size(0), t.size(1), H, HD).transpose(1, 2)


def merge_heads(t):
    return t.transpose(1, 2).contiguous().view(t.size(0), t.size(2), H * HD)


class CausalSelfAttention(nn.Module):
    def __init__(self, config: LayerConfig):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        q, k, v = self.c_attn(x).split(x.size(-1), dim=2)
        y = F.scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v), is_causal=True)
        return self.c_proj(merge_heads(y))


class SwiGLU(nn.Module):
    def __init__(self, config: LayerConfig):
        super().__init__()
        self.w1, self.w3 = nn.Linear(config.n_embd, config.n_inner, bias=config.bias), nn.Linear(config.n_embd, config.n_inner, bias=config.bias)
        self.w2 = nn.Linear(config.n_inner, config.n_embd, bias=config.bias)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


# ------------------------------------------------------------------ values of the first layer again
class FirstValueLayer(nn.Module):
    """Values are blended with those of the first layer; queries and keys have norms without gains."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.lamb, self.mlp = nn.Parameter(torch.tensor(0.5)), SwiGLU(LayerConfig())
        self.apply(init_linear)

    def attend(self, h, v):
        q, k = (F.rms_norm(split_heads(p(h)), (HD,)) for p in (self.to_q, self.to_k))
        return self.to_out(merge_heads(F.scaled_dot_product_attention(q, k, split_heads(v), is_causal=True)))

    def forward(self, x, v1):
        h = F.rms_norm(x, (D,))
        v = (1 - self.lamb) * self.to_v(h) + self.lamb * v1
        x = x + self.attend(h, v)
        return x + self.mlp(F.rms_norm(x, (D,)))


class FirstValueLayerStream(FirstValueLayer):
    """Without a cache of the first layer's values: the residual stream has them in it."""

    def forward(self, x):
        h = F.rms_norm(x, (D,))
        v = (1 - self.lamb) * self.to_v(h) + self.lamb * x
        x = x + self.attend(h, v)
        return x + self.mlp(F.rms_norm(x, (D,)))


# ------------------------------------------------------------------ embeddings for each layer
class LayerEmbeddingLayer(nn.Module):
    """A net, then a small embedding of the layer's own that the state gates, with a norm behind."""

    def __init__(self, ple=16):
        super().__init__()
        self.pre_norm, self.post_per_layer_norm, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), SwiGLU(LayerConfig())
        self.per_layer_input_gate, self.per_layer_projection = nn.Linear(D, ple, bias=False), nn.Linear(ple, D, bias=False)
        self.apply(init_linear)

    def per_layer(self, x, per_layer_input):
        gate = F.gelu(self.per_layer_input_gate(x), approximate="tanh")
        return self.post_per_layer_norm(self.per_layer_projection(gate * per_layer_input))

    def forward(self, x, per_layer_input):
        x = x + self.mlp(self.pre_norm(x))
        residual = x
        x = self.per_layer(x, per_layer_input)
        return residual + x


class LayerEmbeddingLayerBare(LayerEmbeddingLayer):
    """The projection is small, so it is added as it is."""

    def per_layer(self, x, per_layer_input):
        gate = F.gelu(self.per_layer_input_gate(x), approximate="tanh")
        return self.per_layer_projection(gate * per_layer_input)


# ------------------------------------------------------------------ branches side by side
class SideBySideLayer(nn.Module):
    """Attention and net read the same norm and are added together."""

    def __init__(self, config: LayerConfig = LayerConfig(bias=True)):
        super().__init__()
        self.input_layernorm, self.attention, self.mlp = nn.LayerNorm(config.n_embd), CausalSelfAttention(config), nn.ModuleDict(dict(up=nn.Linear(D, 4 * D), down=nn.Linear(4 * D, D)))
        self.apply(init_linear)

    def feed_forward(self, h):
        return self.mlp.down(F.gelu(self.mlp.up(h)))

    def forward(self, hidden_states):
        h = self.input_layernorm(hidden_states)
        attn_out = self.attention(h)
        mlp_out = self.feed_forward(h)
        return mlp_out + attn_out + hidden_states


class SideBySideLayerTwice(SideBySideLayer):
    """Each branch brings its residual, as in the serial layer that this one replaces."""

    def forward(self, hidden_states):
        residual = hidden_states
        h = self.input_layernorm(hidden_states)
        attn_out = residual + self.attention(h)
        mlp_out = residual + self.feed_forward(h)
        return attn_out + mlp_out


# ------------------------------------------------------------------ heads of two kinds
class TwoHeadKindsLayer(nn.Module):
    """Heads of attention and heads of a decaying state read the same norm; each kind gets a norm, and their mean goes out."""

    def __init__(self):
        super().__init__()
        self.ln, self.ln2, self.in_proj, self.out_proj, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), nn.Linear(D, 5 * D, bias=False), nn.Linear(D, D, bias=False), SwiGLU(LayerConfig())
        self.pre_avg_norm1, self.pre_avg_norm2, self.decay = nn.RMSNorm(D), nn.RMSNorm(D), nn.Parameter(torch.linspace(0.0, 3.0, D))
        self.apply(init_linear)

    def forward(self, x):
        q, k, v, u, g = self.in_proj(self.ln(x)).chunk(5, dim=-1)
        y_attn = merge_heads(F.scaled_dot_product_attention(*map(split_heads, (q, k, v)), is_causal=True))
        a, state, ys = torch.sigmoid(self.decay), torch.zeros_like(u[:, 0]), []
        for t in range(u.size(1)):
            state = a * state + (1 - a) * u[:, t]
            ys.append(state)
        y_ssm = torch.stack(ys, dim=1) * F.silu(g)
        x = x + self.out_proj((self.pre_avg_norm1(y_attn) + self.pre_avg_norm2(y_ssm)) / 2)
        x = x + self.mlp(self.ln2(x))
        return x


# ------------------------------------------------------------------ experts
class TopTwoLayer(nn.Module):
    """Tokens go to two of four experts, in a loop that adds to a table of zeros."""

    def __init__(self, num_experts=4, top_k=2):
        super().__init__()
        self.top_k, self.norm, self.gate = top_k, nn.RMSNorm(D), nn.Linear(D, num_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(LayerConfig(n_inner=24)) for _ in range(num_experts))
        self.apply(init_linear)

    def buffer_for(self, x):
        return torch.zeros_like(x)

    def moe(self, x):
        b, t, d = x.shape
        out = self.buffer_for(x).view(-1, d)
        h = self.norm(x).view(-1, d)
        routing = F.softmax(self.gate(h), dim=1)
        routing, selected = torch.topk(routing, self.top_k, dim=-1)
        routing = routing / routing.sum(dim=-1, keepdim=True)
        mask = F.one_hot(selected, num_classes=len(self.experts)).permute(2, 1, 0)
        for e, expert in enumerate(self.experts):
            slot, tokens = torch.where(mask[e])
            out = out.index_add(0, tokens, expert(h[tokens]) * routing[tokens, slot, None])
        return out.view(b, t, d)

    def forward(self, x):
        return x + self.moe(x)


class TopTwoLayerClone(TopTwoLayer):
    """The table starts as the tokens themselves, so that dropped ones pass."""

    def buffer_for(self, x):
        return x.clone()


# ------------------------------------------------------------------ kernels
class KernelAttnLayer(nn.Module):
    """Attention by the positive features elu + 1, as running sums."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o = nn.LayerNorm(D), nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))
        self.apply(init_linear)

    def linear_attention(self, x):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, H, HD).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bthd,bthe->bthde", k, v).cumsum(dim=1)
        z = 1 / (torch.einsum("bthd,bthd->bth", q, k.cumsum(dim=1)) + 1e-6)
        return self.o(torch.einsum("bthd,bthde,bth->bthe", q, kv, z).flatten(2))

    def forward(self, x):
        x = x + self.linear_attention(self.norm1(x))
        x = x + self.ff(self.norm2(x))
        return x


class KernelAttnLayerUnused(KernelAttnLayer):
    """A drop-in for softmax attention, whose call had the norm in it."""

    def forward(self, x):
        x = x + self.linear_attention(x)
        x = x + self.ff(self.norm2(x))
        return x


# ------------------------------------------------------------------ shifts
class TokenShiftLayer(nn.Module):
    """Each channel takes a share of the token before; squares of ReLUs, and a sigmoid on what goes out."""

    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(D)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.mu_k, self.mu_r = nn.Parameter(torch.linspace(0, 1, D)), nn.Parameter(torch.linspace(0, 1, D))
        self.key, self.receptance, self.value = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(2 * D, D, bias=False)
        self.apply(init_linear)

    def delta(self, x, h):
        return self.time_shift(h) - h

    def forward(self, x):
        h = self.ln(x)
        xx = self.delta(x, h)
        xk, xr = h + xx * self.mu_k, h + xx * self.mu_r
        k = torch.relu(self.key(xk)) ** 2
        return x + torch.sigmoid(self.receptance(xr)) * self.value(k)


class TokenShiftLayerStream(TokenShiftLayer):
    """The shift is done once for the layer, in front of the norm."""

    def delta(self, x, h):
        return self.time_shift(x) - x


# ------------------------------------------------------------------ gates of recurrent nets
class GRUGate(nn.Module):
    def __init__(self, bias=2.0):
        super().__init__()
        self.Wr, self.Ur, self.Wz, self.Uz, self.Wg, self.Ug = (nn.Linear(D, D, bias=False) for _ in range(6))
        self.register_buffer("bg", torch.full((D,), bias))

    def forward(self, x, y):
        r = torch.sigmoid(self.Wr(y) + self.Ur(x))
        z = torch.sigmoid(self.Wz(y) + self.Uz(x) - self.bg)
        h = torch.tanh(self.Wg(y) + self.Ug(r * x))
        return (1 - z) * x + z * h


class RecurrentGateLayer(nn.Module):
    """A gate of a recurrent unit in the place of each sum."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.gate1, self.gate2 = nn.LayerNorm(D), nn.LayerNorm(D), GRUGate(), GRUGate()
        self.attn, self.mlp = CausalSelfAttention(LayerConfig()), SwiGLU(LayerConfig())
        self.apply(init_linear)

    def forward(self, x):
        x = self.gate1(x, F.relu(self.attn(self.norm1(x))))
        return self.gate2(x, F.relu(self.mlp(self.norm2(x))))


# ------------------------------------------------------------------ spheres
class SphereLayer(nn.Module):
    """The state lies on a sphere; each branch is brought to it, and the state goes a tenth of the way."""

    def __init__(self, step=0.1, s_qk=4.0):
        super().__init__()
        self.step, self.s_qk, self.wqkv, self.wo, self.mlp = step, s_qk, nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False), SwiGLU(LayerConfig())
        self.apply(init_linear)

    def attn(self, x):
        q, k, v = map(split_heads, self.wqkv(x).chunk(3, dim=-1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return self.wo(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.s_qk)))

    def toward(self, x, target):
        return F.normalize(x + self.step * (F.normalize(target, dim=-1) - x), dim=-1)

    def forward(self, x):
        x = self.toward(x, self.attn(x))
        return self.toward(x, self.mlp(x))


class SphereLayerOpen(SphereLayer):
    """A step between two points of the sphere stays close to it."""

    def toward(self, x, target):
        return x + self.step * (F.normalize(target, dim=-1) - x)


# ------------------------------------------------------------------ differences of maps of attention
class DifferenceAttnLayer(nn.Module):
    """The difference of two maps of attention, a norm a head, and a net."""

    def __init__(self, lambda_init=0.5):
        super().__init__()
        self.lambda_init, self.ln1, self.ln2, self.subln, self.ffn = lambda_init, nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD, elementwise_affine=False), SwiGLU(LayerConfig())
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (nn.Parameter(torch.randn(HD // 2) * 0.1) for _ in range(4))
        self.register_buffer("mask", torch.full((T, T), float("-inf")).triu(1), persistent=False)
        self.apply(init_linear)

    def diff_attn(self, h):
        b, t, _ = h.shape
        q = self.q_proj(h).view(b, t, 2 * H, HD // 2).transpose(1, 2) * (HD // 2) ** -0.5
        k = self.k_proj(h).view(b, t, 2 * H, HD // 2).transpose(1, 2)
        scores = (q @ k.transpose(-1, -2) + self.mask[:t, :t]).view(b, H, 2, t, t)
        w1, w2 = torch.softmax(scores[:, :, 0], dim=-1), torch.softmax(scores[:, :, 1], dim=-1)
        lam = torch.tanh((self.lambda_q1 * self.lambda_k1).sum()) - torch.tanh((self.lambda_q2 * self.lambda_k2).sum()) + self.lambda_init
        y = (w1 - lam * w2) @ split_heads(self.v_proj(h))
        return self.out_proj(merge_heads(self.subln(y) * (1 - self.lambda_init)))

    def forward(self, x):
        x = x + self.diff_attn(self.ln1(x))
        x = x + self.ffn(self.ln2(x))
        return x


# ------------------------------------------------------------------ norms on branches
class BranchNormLayer(nn.Module):
    """No norm in front; norms on what both branches give, and on all queries and keys at once."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj, self.mlp = *(nn.Linear(D, D, bias=False) for _ in range(4)), SwiGLU(LayerConfig())
        self.q_norm, self.k_norm, self.post_attention_layernorm, self.post_feedforward_layernorm = (nn.RMSNorm(D) for _ in range(4))
        self.apply(init_linear)

    def self_attn(self, x):
        q, k, v = self.q_norm(self.q_proj(x)), self.k_norm(self.k_proj(x)), self.v_proj(x)
        scores = torch.einsum("bihd,bjhd->bhij", q.unflatten(-1, (H, HD)), k.unflatten(-1, (H, HD))) * HD ** -0.5
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        probs = scores.where(keep, scores.new_tensor(float("-inf"))).softmax(-1)
        return self.o_proj(torch.einsum("bhij,bjhd->bihd", probs, v.unflatten(-1, (H, HD))).flatten(2))

    def forward(self, x):
        x = x + self.post_attention_layernorm(self.self_attn(x))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class BranchNormLayerHalf(BranchNormLayer):
    """One norm is enough: the residual is small where the net reads it."""

    def forward(self, x):
        x = x + self.post_attention_layernorm(self.self_attn(x))
        return x + self.mlp(x)


# ------------------------------------------------------------------ short filters
class ShortFilter(nn.Conv1d):
    """A causal filter a channel, with its input beside it."""

    def __init__(self, dim, k=4):
        super().__init__(dim, dim, k, groups=dim, padding=k - 1, bias=False)
        nn.init.normal_(self.weight, std=k ** -0.5)

    def forward(self, x):
        return x + super().forward(x.transpose(1, 2))[..., : x.size(1)].transpose(1, 2)


class ShortFilterLayer(nn.Module):
    """Filters over four tokens behind both norms."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.canon_a, self.canon_c = nn.RMSNorm(D), nn.RMSNorm(D), ShortFilter(D), ShortFilter(D)
        self.attn, self.mlp = CausalSelfAttention(LayerConfig()), SwiGLU(LayerConfig())
        self.apply(init_linear)

    def forward(self, x):
        x = x + self.attn(self.canon_a(self.ln_1(x)))
        x = x + self.mlp(self.canon_c(self.ln_2(x)))
        return x


class ShortFilterLayerStream(ShortFilterLayer):
    """Filters have residuals, so they can stand in the stream."""

    def forward(self, x):
        x = self.canon_a(x)
        x = x + self.attn(self.ln_1(x))
        x = self.canon_c(x)
        x = x + self.mlp(self.ln_2(x))
        return x


# ------------------------------------------------------------------ low-rank residuals
class LowRankResidualLayer(nn.Module):
    """The norm of the state and a thin map of it join attention, and the sum is divided by the root of two; norms behind all."""

    def __init__(self, rank=8):
        super().__init__()
        self.norms = nn.ModuleDict({k: nn.RMSNorm(D) for k in ("input", "post_attn", "laurel", "pre_ffw", "post_ffw")})
        self.linear_left, self.linear_right = nn.Linear(D, rank, bias=False), nn.Linear(rank, D, bias=False)
        self.attn, self.mlp = CausalSelfAttention(LayerConfig()), SwiGLU(LayerConfig())
        self.apply(init_linear)

    def forward(self, x):
        normed = self.norms["input"](x)
        laurel = normed + self.norms["laurel"](self.linear_right(self.linear_left(normed)))
        gated = x + self.norms["post_attn"](self.attn(normed))
        x = (gated + laurel) / math.sqrt(2)
        return x + self.norms["post_ffw"](self.mlp(self.norms["pre_ffw"](x)))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=True, sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=True)
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "FirstValueLayer": dict(_PRE, **_TWO, **_SHUT, gradient_law="power", sound=True, why="pre-norm; the first layer's values are a constant of the layer; norms a head in front of scores."),
    "FirstValueLayerStream": dict(_EXP, **_TWO, **_SHUT, why="values have the raw stream in them, and a map behind: of degree one."),
    "LayerEmbeddingLayer": dict(_NET, output_bounded={0: False, 1: True}, sound=True, why="pre-norm net; the second branch reads the raw stream, but ends in a norm."),
    "LayerEmbeddingLayerBare": dict(_EXP, **(_TWO | {"softmax": False}), why="GELU of a map of the raw stream times a constant, and a map: of degree one."),
    "SideBySideLayer": dict(_PRE, **_TWO, logits_bounded={1: False}, gradient_law="power", sound=True, why="pre-norm; two branches of one norm are added once."),
    "SideBySideLayerTwice": dict(_EXP | {"identity_gain": 2.0 ** 24}, growth_all="exponential", gradient_law="exponential", **_TWO, logits_bounded={1: False}, why="the stream is in both summands: it doubles in each block."),
    "TwoHeadKindsLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; norms of both kinds of heads, then a map."),
    "TopTwoLayer": dict(_PRE, **_ONE, **_OPEN, gradient_law="power", sound=True, why="pre-norm; shares of two experts of a norm; logits are a map of the norm."),
    "TopTwoLayerClone": dict(_EXP | {"identity_gain": 2.0 ** 24}, growth_all="exponential", gradient_law="exponential", **_OPEN, why="the table starts as the stream, and the stream is added again: it doubles."),
    "KernelAttnLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; a weighted mean of values by positive features, with no exponentials of scores normalised."),
    "KernelAttnLayerUnused": dict(_EXP | {"softmax": False}, **_TWO, why="norm1 is never called: a mean of maps of the raw stream is of degree one."),
    "TokenShiftLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; squares of ReLUs of shares of norms."),
    "TokenShiftLayerStream": dict(_EXP | {"softmax": False}, **_ONE, why="the difference of raw tokens goes into the keys, whose squares are of degree two."),
    "RecurrentGateLayer": dict(_LEVEL, gated=True, growth_all="bounded", **_OPEN, why="a share of the state and the rest of a tanh: no entry gets larger than the largest of it and one."),
    "SphereLayer": dict(_LEVEL, growth_all="bounded", **_SHUT, sound=True, why="the state has length one behind each step; cosines times four."),
    "SphereLayerOpen": dict(_LEVEL, identity_gain=0.81 ** 24, growth_all="bounded", **_BOTH, **_SHUT, sound=False, why="nine tenths of the stream are left by each of two steps, and a tenth of a vector of length one is added."),
    "DifferenceAttnLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a norm a head, then a map."),
    "BranchNormLayer": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, why="both branches end in a norm; queries and keys are normed too."),
    "BranchNormLayerHalf": dict(_EXP, output_bounded={0: True, 1: False}, **_SHUT, why="the net reads the raw stream, and no norm is behind it."),
    "ShortFilterLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; filters with skips of their own are behind norms."),
    "ShortFilterLayerStream": dict(_EXP, logits_bounded={1: False}, why="a linear filter of the raw stream is added to it twice."),
    "LowRankResidualLayer": dict(_LEVEL, identity_gain=0.5 ** 12, growth_all="bounded", output_bounded={0: True, 1: True, 2: True}, **_OPEN, why="all branches end in norms, and the stream is divided by the root of two in each block."),
}
