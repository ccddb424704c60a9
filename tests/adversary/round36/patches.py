"""Pull requests on standard transformer blocks: parallel branches, tanh for norms, BERT's order, factors by depth, low rank updates, experts, a subclass of the library's layer, states of length one, differences of attention, inner norms, T5's norm, gates of a GRU, norms behind branches."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3601)
_X = torch.randn(2, T, D, generator=_G)
example_inputs = {k: (_X,) for k in (
    "ParallelBlock", "ParallelBlockTwice", "DynamicTanhBlock", "DynamicTanhBlockScalar", "BertBlock", "DepthScaledBlock", "DepthScaledBlockSum", "LoraBlock", "LoraBlockSide",
    "SharedExpertBlock", "GegluEncoderLayer", "GegluEncoderLayerShort", "UnitStateBlock", "UnitStateBlockLerp", "DiffAttnBlock", "InnerNormBlock", "T5Block", "T5BlockCast",
    "GruGateBlock", "PostBranchNormBlock", "QueryNormBlock")}


@dataclass
class BlockConfig:
    n_embd: int = D
    n_head: int = H
    n_inner: int = 64
    bias: bool = False
    eps: float = 1e-5
    num_hidden_layers: int = 40
    scale_depth: float = 1.4


def linear(i, o, bias=False):
    layer = nn.Linear(i, o, bias=bias)
    nn.init.normal_(layer.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def split_heads(x, n=H):
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


class CausalSelfAttention(nn.Module):
    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.n_head = cfg.n_head
        self.c_attn, self.c_proj = linear(cfg.n_embd, 3 * cfg.n_embd, cfg.bias), linear(cfg.n_embd, cfg.n_embd, cfg.bias)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.c_fc, self.c_proj = linear(cfg.n_embd, cfg.n_inner, True), linear(cfg.n_inner, cfg.n_embd, True)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


# ------------------------------------------------------------------ parallel branches
class ParallelBlock(nn.Module):
    """One norm and one wide map for attention and for the gated net, which are both added."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.sizes = [cfg.n_embd] * 3 + [cfg.n_inner] * 2
        self.ln, self.fused = nn.LayerNorm(cfg.n_embd, bias=False), linear(cfg.n_embd, sum(self.sizes))
        self.attn_out, self.ff_out = linear(cfg.n_embd, cfg.n_embd), linear(cfg.n_inner, cfg.n_embd)

    def branches(self, h):
        q, k, v, gate, up = self.fused(h).split(self.sizes, dim=-1)
        q, k, v = map(split_heads, (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn_out(merge_heads(a)), self.ff_out(F.silu(gate) * up)

    def forward(self, x):
        attn, ff = self.branches(self.ln(x))
        return x + attn + ff


class ParallelBlockTwice(ParallelBlock):
    """Each branch with its residual, and both summed."""

    def forward(self, x):
        attn, ff = self.branches(self.ln(x))
        attn_output = x + attn
        ff_output = x + ff
        return attn_output + ff_output


# ------------------------------------------------------------------ tanh for norms
class DynamicTanh(nn.Module):
    def __init__(self, dim, alpha_init=0.5):
        super().__init__()
        self.alpha, self.weight, self.bias = nn.Parameter(torch.full((1,), alpha_init)), nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class ScalarTanh(DynamicTanh):
    def forward(self, x):
        return torch.tanh(self.alpha) * x * self.weight + self.bias


class DynamicTanhBlock(nn.Module):
    """What branches read is a tanh of the stream, not a norm."""

    norm_layer = DynamicTanh

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = self.norm_layer(cfg.n_embd), self.norm_layer(cfg.n_embd), CausalSelfAttention(cfg), MLP(cfg)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class DynamicTanhBlockScalar(DynamicTanhBlock):
    """The tanh keeps the factor in bounds."""

    norm_layer = ScalarTanh


# ------------------------------------------------------------------ BERT's order
class BertOutput(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.dense, self.dropout, self.LayerNorm = linear(i, o, True), nn.Dropout(0.0), nn.LayerNorm(o, eps=1e-12)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dropout(self.dense(hidden_states))
        return self.LayerNorm(hidden_states + input_tensor)


class BertBlock(nn.Module):
    """A norm behind each sum; the net runs over pieces of the sequence."""

    chunk = 8

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.query, self.key, self.value = (linear(cfg.n_embd, cfg.n_embd, True) for _ in range(3))
        self.attention_output, self.intermediate, self.output = BertOutput(cfg.n_embd, cfg.n_embd), linear(cfg.n_embd, cfg.n_inner, True), BertOutput(cfg.n_inner, cfg.n_embd)

    def self_attention(self, x):
        q, k, v = (split_heads(f(x)) for f in (self.query, self.key, self.value))
        probs = nn.functional.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(HD), dim=-1)
        return merge_heads(torch.matmul(probs, v))

    def feed_forward_chunk(self, x):
        return self.output(F.gelu(self.intermediate(x)), x)

    def forward(self, hidden_states):
        attention = self.attention_output(self.self_attention(hidden_states), hidden_states)
        return torch.cat([self.feed_forward_chunk(c) for c in attention.split(self.chunk, dim=1)], dim=1)


# ------------------------------------------------------------------ factors by depth
class DepthScaledBlock(nn.Module):
    """Each branch times 1.4 over the root of the number of layers."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.residual_scale = cfg.scale_depth / math.sqrt(cfg.num_hidden_layers)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(cfg.n_embd, eps=cfg.eps), nn.RMSNorm(cfg.n_embd, eps=cfg.eps)
        self.self_attn, self.gate_proj, self.up_proj, self.down_proj = CausalSelfAttention(cfg), linear(D, 64), linear(D, 64), linear(64, D)

    def mlp(self, h):
        return self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))

    def add(self, residual, hidden_states):
        return residual + hidden_states * self.residual_scale

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.self_attn(self.input_layernorm(hidden_states))
        hidden_states = self.add(residual, hidden_states)
        residual = hidden_states
        hidden_states = self.mlp(self.post_attention_layernorm(hidden_states))
        return self.add(residual, hidden_states)


class DepthScaledBlockSum(DepthScaledBlock):
    """The helper scales what it gives."""

    def add(self, residual, hidden_states):
        return (residual + hidden_states) * self.residual_scale


# ------------------------------------------------------------------ low rank updates
class LowRank(nn.Module):
    """A weight with a thin product beside it, as a parametrization."""

    def __init__(self, o, i, r=4, lora_alpha=8):
        super().__init__()
        self.scaling, self.lora_A, self.lora_B = lora_alpha / r, nn.Parameter(torch.randn(r, i) * i ** -0.5), nn.Parameter(torch.randn(o, r) * 0.1)

    def forward(self, weight):
        return weight + self.scaling * (self.lora_B @ self.lora_A)


class LoraBlock(nn.Module):
    """A frozen block; the maps of attention have thin trained products."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd), CausalSelfAttention(cfg), MLP(cfg)
        self.requires_grad_(False)
        for m in (self.attn.c_attn, self.attn.c_proj):
            parametrize.register_parametrization(m, "weight", LowRank(*m.weight.shape))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class LoraBlockSide(nn.Module):
    """The thin path is a hook of its own and reads what the block reads."""

    def __init__(self, cfg=BlockConfig(), r=4, lora_alpha=8):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd), CausalSelfAttention(cfg), MLP(cfg)
        self.requires_grad_(False)
        self.scaling, self.lora_A, self.lora_B = lora_alpha / r, linear(D, r), linear(r, 3 * D)

    def forward(self, x):
        qkv = self.attn.c_attn(self.ln_1(x)) + self.scaling * self.lora_B(self.lora_A(x))
        q, k, v = map(split_heads, qkv.chunk(3, dim=-1))
        x = x + self.attn.c_proj(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.mlp(self.ln_2(x))


# ------------------------------------------------------------------ experts
class SharedExpertBlock(nn.Module):
    """Two of four experts by a softmax, renormalised, and one that all tokens go through behind a sigmoid."""

    def __init__(self, cfg=BlockConfig(), experts=4, k=2):
        super().__init__()
        self.k, self.norm1, self.norm2, self.attn = k, nn.RMSNorm(D), nn.RMSNorm(D), CausalSelfAttention(cfg)
        self.gate, self.experts, self.shared_expert, self.shared_expert_gate = linear(D, experts), nn.ModuleList(MLP(cfg) for _ in range(experts)), MLP(cfg), linear(D, 1)

    def moe(self, h):
        flat = h.reshape(-1, h.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.gate(flat), dim=-1), self.k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        out = out + torch.sigmoid(self.shared_expert_gate(flat)) * self.shared_expert(flat)
        return out.view_as(h)

    def forward(self, x):
        h = self.attn(self.norm1(x))
        h += x
        y = self.moe(self.norm2(h))
        y += h
        return y


# ------------------------------------------------------------------ a subclass of the library's layer
class GegluEncoderLayer(nn.TransformerEncoderLayer):
    """Norm first, and a gate in the net."""

    def __init__(self):
        super().__init__(D, H, dim_feedforward=64, dropout=0.0, batch_first=True, norm_first=True)
        self.linear_gate = linear(D, 64)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(F.gelu(self.linear_gate(x)) * self.linear1(x))))


class GegluEncoderLayerShort(GegluEncoderLayer):
    """A forward of its own, for the compiler."""

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = self.norm1(src)
        x = x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)
        x = self.norm2(x)
        return x + self._ff_block(x)


# ------------------------------------------------------------------ states of length one
def unit(x):
    return F.normalize(x, p=2, dim=-1)


class UnitStateBlock(nn.Module):
    """Steps on a sphere: towards what branches give, by a trained share, and back to length one."""

    def __init__(self, share=0.1):
        super().__init__()
        self.qkv, self.out, self.wi, self.wo = linear(D, 3 * D), linear(D, D), linear(D, 128), linear(64, D)
        self.alpha_attn, self.alpha_mlp, self.gain_qk = nn.Parameter(torch.full((D,), share)), nn.Parameter(torch.full((D,), share)), nn.Parameter(torch.ones(HD))

    def attn(self, x):
        q, k, v = map(split_heads, self.qkv(x).chunk(3, dim=-1))
        q, k = self.gain_qk * unit(q), self.gain_qk * unit(k)
        return self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=math.sqrt(HD))))

    def mlp(self, x):
        u, v = self.wi(x).chunk(2, dim=-1)
        return self.wo(u * F.silu(v * math.sqrt(D)))

    def forward(self, x):
        h = unit(self.attn(x))
        x = unit(x + self.alpha_attn.abs() * (h - x))
        h = unit(self.mlp(x))
        return unit(x + self.alpha_mlp.abs() * (h - x))


class UnitStateBlockLerp(UnitStateBlock):
    """A fixed share, and the state keeps the length that it has."""

    share = 0.1

    def forward(self, x):
        x = torch.lerp(x, unit(self.attn(unit(x))), self.share)
        return torch.lerp(x, unit(self.mlp(unit(x))), self.share)


# ------------------------------------------------------------------ differences of attention
class DiffAttnBlock(nn.Module):
    """The difference of two softmaxes, a norm a head, then maps."""

    def __init__(self, lambda_init=0.3, heads=2):
        super().__init__()
        self.heads, self.lambda_init, self.attn_norm, self.ffn_norm, self.subln = heads, lambda_init, nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D // heads, elementwise_affine=False)
        self.wq, self.wk, self.wv, self.wo, self.ffn = linear(D, D), linear(D, D), linear(D, D), linear(D, D), MLP()
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (nn.Parameter(torch.randn(D // heads // 2) * 0.1) for _ in range(4))

    def attn(self, h):
        mask = torch.triu(torch.full((h.shape[1], h.shape[1]), float("-inf"), device=h.device, dtype=h.dtype), 1)
        q, k = split_heads(self.wq(h), 2 * self.heads), split_heads(self.wk(h), 2 * self.heads)
        a = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5 + mask, dim=-1).unflatten(1, (self.heads, 2))
        lam = torch.exp(torch.dot(self.lambda_q1, self.lambda_k1)) - torch.exp(torch.dot(self.lambda_q2, self.lambda_k2)) + self.lambda_init
        y = (a[:, :, 0] - lam * a[:, :, 1]) @ split_heads(self.wv(h), self.heads)
        return self.wo(merge_heads(self.subln(y) * (1 - self.lambda_init)))

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


# ------------------------------------------------------------------ inner norms
class InnerNormBlock(nn.Module):
    """A factor a head, a norm behind attention, and a norm between the two maps of the net."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.pre_attn_norm, self.post_attn_norm, self.pre_ff_norm, self.mid_ff_norm = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(cfg.n_inner)
        self.mha, self.c_attn, self.fc1, self.fc2 = nn.MultiheadAttention(D, H, batch_first=True), nn.Parameter(torch.ones(D)), linear(D, cfg.n_inner, True), linear(cfg.n_inner, D, True)

    def forward(self, x):
        residual = x
        x = self.pre_attn_norm(x)
        x, _ = self.mha(x, x, x, need_weights=False)
        x = residual + self.post_attn_norm(x * self.c_attn)
        residual = x
        x = F.gelu(self.fc1(self.pre_ff_norm(x)))
        return residual + self.fc2(self.mid_ff_norm(x))


# ------------------------------------------------------------------ T5's norm
class T5LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.promote_types(torch.float32, hidden_states.dtype)).pow(2).mean(-1, keepdim=True)
        normed = hidden_states * torch.rsqrt(variance + self.eps)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            normed = normed.to(self.weight.dtype)
        return self.weight * normed


class T5CastLayerNorm(T5LayerNorm):
    def forward(self, hidden_states):
        variance = hidden_states.to(torch.promote_types(torch.float32, hidden_states.dtype)).pow(2).mean(-1, keepdim=True)
        normed = hidden_states * torch.rsqrt(variance + self.eps)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            hidden_states = normed.to(self.weight.dtype)
        return self.weight * hidden_states


class T5Block(nn.Module):
    """Scores without a factor and with a table of distances, ReLUs, no biases."""

    norm_cls = T5LayerNorm

    def __init__(self, cfg=BlockConfig(), buckets=8):
        super().__init__()
        self.layer_norm_sa, self.layer_norm_ff = self.norm_cls(D), self.norm_cls(D)
        self.q, self.k, self.v, self.o, self.wi, self.wo = linear(D, D), linear(D, D), linear(D, D), linear(D, D), linear(D, cfg.n_inner), linear(cfg.n_inner, D)
        nn.init.normal_(self.q.weight, std=(D * HD) ** -0.5)
        self.relative_attention_bias = nn.Embedding(buckets, H)
        at = torch.arange(T)
        self.register_buffer("bucket", (at[:, None] - at[None]).abs().clamp(max=buckets - 1), persistent=False)

    def self_attention(self, h):
        q, k, v = (split_heads(f(h)) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k)
        scores += self.relative_attention_bias(self.bucket).permute(2, 0, 1).unsqueeze(0)
        return self.o(merge_heads(F.softmax(scores, dim=-1).type_as(scores) @ v))

    def forward(self, hidden_states):
        hidden_states = hidden_states + self.self_attention(self.layer_norm_sa(hidden_states))
        forwarded = self.wo(F.relu(self.wi(self.layer_norm_ff(hidden_states))))
        return hidden_states + forwarded


class T5BlockCast(T5Block):
    """The norm under half precision was wrong by a cast."""

    norm_cls = T5CastLayerNorm


# ------------------------------------------------------------------ gates of a GRU
class GruGate(nn.Module):
    def __init__(self, dim, bias=1.0):
        super().__init__()
        self.w, self.u, self.u_g, self.bias = linear(dim, 3 * dim), linear(dim, 2 * dim), linear(dim, dim), bias

    def forward(self, x, y):
        (wr, wz, wg), (ur, uz) = self.w(y).chunk(3, dim=-1), self.u(x).chunk(2, dim=-1)
        r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz - self.bias)
        h = torch.tanh(wg + self.u_g(r * x))
        return (1.0 - z) * x + z * h


class GruGateBlock(nn.Module):
    """Gates of a GRU where sums were."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp, self.gate1, self.gate2 = nn.LayerNorm(D), nn.LayerNorm(D), CausalSelfAttention(cfg), MLP(cfg), GruGate(D), GruGate(D)

    def forward(self, x):
        x = self.gate1(x, F.relu(self.attn(self.norm1(x))))
        return self.gate2(x, F.relu(self.mlp(self.norm2(x))))


# ------------------------------------------------------------------ norms behind branches
class PostBranchNormBlock(nn.Module):
    """Branches read the stream as it is and end in a norm; queries and keys have a norm over all heads."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj, self.mlp = linear(D, D), linear(D, D), linear(D, D), linear(D, D), MLP(cfg)
        self.q_norm, self.k_norm, self.post_attention_layernorm, self.post_feedforward_layernorm = (nn.RMSNorm(D, eps=1e-6) for _ in range(4))

    def self_attn(self, x):
        q, k, v = map(split_heads, (self.q_norm(self.q_proj(x)), self.k_norm(self.k_proj(x)), self.v_proj(x)))
        return self.o_proj(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = x + self.post_attention_layernorm(self.self_attn(x))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class QueryNormBlock(nn.Module):
    """A norm a head on queries, as keys come out of a cache in which they have been for long."""

    def __init__(self, cfg=BlockConfig()):
        super().__init__()
        self.norm1, self.norm2, self.q_norm, self.qkv, self.out, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD), linear(D, 3 * D), linear(D, D), MLP(cfg)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4).unbind(0)
        q = self.q_norm(q)
        x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.mlp(self.norm2(x))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_EXP = dict(kind="block", growth_fixed="exponential", softmax=True, sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded", softmax=True)
_TWO, _BOTH = dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "ParallelBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; both branches are functions of one norm."),
    "ParallelBlockTwice": dict(_EXP, identity_gain=2.0 ** 24, **_OPEN, gradient_law="exponential", why="the stream is in both summands: each block doubles it."),
    "DynamicTanhBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, why="branches read a tanh, which is at most its gain."),
    "DynamicTanhBlockScalar": dict(_EXP, identity_gain=1.0, **_TWO, **_OPEN, why="the tanh is of the factor alone: branches are of degree one in the stream."),
    "BertBlock": dict(_LEVEL, **_TWO, **_OPEN, sound=True, why="a norm behind each sum."),
    "DepthScaledBlock": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm with a constant factor on branches."),
    "DepthScaledBlockSum": dict(_LEVEL, identity_gain=(1.4 / math.sqrt(40)) ** 48, **_TWO, **_OPEN, sound=False, why="the sum is multiplied by 0.22 twice a block."),
    "LoraBlock": dict(_PRE, output_bounded={0: False, 1: True}, **_OPEN, sound=True, why="pre-norm; the thin products are part of weights; the net is a constant function of a norm."),
    "LoraBlockSide": dict(_EXP, identity_gain=1.0, output_bounded={0: False, 1: True}, **_OPEN, why="the thin path reads the raw stream, so values are of degree one."),
    "SharedExpertBlock": dict(_PRE, **_TWO, logits_bounded={0: False, 1: False}, gradient_law="power", sound=True, why="pre-norm; experts and router read the norm."),
    "GegluEncoderLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="the library's layer with its norm first."),
    "GegluEncoderLayerShort": dict(_LEVEL, **_TWO, **_OPEN, sound=False, why="the skip is of the norm, so each half starts anew from it."),
    "UnitStateBlock": dict(_LEVEL, growth_all="bounded", **_SHUT, sound=True, why="the state has length one behind each step; queries and keys too, times a gain."),
    "UnitStateBlockLerp": dict(_LEVEL, identity_gain=0.9 ** 48, growth_all="bounded", **_BOTH, **_SHUT, sound=False, why="0.9 of the stream twice a block, and a tenth of something of length one."),
    "DiffAttnBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; maps of any size are behind the norm a head."),
    "InnerNormBlock": dict(_PRE, output_bounded={0: True, 1: False}, **_OPEN, gradient_law="power", sound=True, why="pre-norm; attention ends in a norm, the net in a map."),
    "T5Block": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; scores are products of maps of a norm and a table."),
    "T5BlockCast": dict(_EXP, identity_gain=1.0, **_TWO, **_OPEN, why="in full precision the norm gives its input times a weight: branches are of degree one."),
    "GruGateBlock": dict(_LEVEL, gated=True, growth_all="bounded", **_BOTH, **_OPEN, why="shares of the stream and of a tanh: no entry gets larger than one or than it was."),
    "PostBranchNormBlock": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, why="both branches end in a norm; queries and keys have norms."),
    "QueryNormBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", why="pre-norm; keys are maps of any size, so scores are not bounded by the norm on queries."),
}
