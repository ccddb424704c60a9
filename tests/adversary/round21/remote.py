"""Modelling files as large code bases have them: flags for the place of norms, fused adds, layouts with the sequence first, tuples, hooks, mixins, caches."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


@dataclass
class Config:
    hidden_size: int = D
    num_attention_heads: int = H
    num_key_value_heads: int = 2
    intermediate_size: int = 64
    num_hidden_layers: int = 12
    rms_norm_eps: float = 1e-6
    apply_residual_connection_post_layernorm: bool = False
    normalize_before: bool = True


def linear(i, o, bias=True):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def bias_dropout_add(x, bias, residual, prob=0.0, training=False):
    if bias is not None:
        x = x + bias.expand_as(residual)
    return residual + F.dropout(x, p=prob, training=training)


class ParallelLinear(nn.Module):
    """A map that hands its bias on, to be added with the residual."""

    def __init__(self, i, o):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(o, i) * i ** -0.5), nn.Parameter(torch.zeros(o))

    def forward(self, x):
        return F.linear(x, self.weight), self.bias


class CoreAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_factor = math.sqrt(HD)

    def scores(self, q, k):
        s, b, n, h = q.shape
        buffer = torch.empty(b * n, s, s, dtype=q.dtype, device=q.device)
        q, k = q.reshape(s, b * n, h), k.reshape(s, b * n, h)
        return torch.baddbmm(buffer, q.transpose(0, 1), k.permute(1, 2, 0), beta=0.0, alpha=1.0 / self.norm_factor)

    def forward(self, q, k, v):
        s, b, n, h = q.shape
        scores = self.scores(q, k).masked_fill(torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1), -10000.0)
        ctx = torch.bmm(torch.softmax(scores, -1), v.reshape(s, b * n, h).transpose(0, 1))
        return ctx.transpose(0, 1).reshape(s, b, n * h)


class MegatronLayer(nn.Module):
    """Sequence first; fused bias and residual; a flag says which one the residual is."""

    post = False

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.query_key_value, self.core, self.dense = ParallelLinear(D, 3 * D), CoreAttention(), ParallelLinear(D, D)
        self.h_to_4h, self.h4_to_h = ParallelLinear(D, 64), ParallelLinear(64, D)

    def attention(self, h):
        mixed, bias = self.query_key_value(h)
        q, k, v = (mixed + bias).unflatten(-1, (H, 3 * HD)).chunk(3, -1)
        return self.dense(self.core(q, k, v))

    def mlp(self, h):
        y, bias = self.h_to_4h(h)
        return self.h4_to_h(F.gelu(y + bias, approximate="tanh"))

    def forward(self, x):
        hidden = x.transpose(0, 1)
        ln = self.input_layernorm(hidden)
        y, bias = self.attention(ln)
        ln_input = bias_dropout_add(y, bias, ln if self.post else hidden, training=self.training)
        ln = self.post_attention_layernorm(ln_input)
        y, bias = self.mlp(ln)
        return bias_dropout_add(y, bias, ln if self.post else ln_input, training=self.training).transpose(0, 1)


class MegatronLayerPost(MegatronLayer):
    """The flag of the BERT recipe in a decoder: the residual is the norm's output, in both halves."""

    post = True


class MegatronLayerBatchFirst(MegatronLayer):
    """A caller that is batch first already: the layer that expects the sequence first gets (batch, sequence), and tokens of the same place attend over the batch."""

    def forward(self, x):
        y, bias = self.attention(self.input_layernorm(x))
        ln_input = bias_dropout_add(y, bias, x)
        y, bias = self.mlp(self.post_attention_layernorm(ln_input))
        return bias_dropout_add(y, bias, ln_input)


class MegatronLayerSwapped(MegatronLayer):
    """The residual of the second half is the block's own input: bias_dropout_add(y, bias, hidden)."""

    def forward(self, x):
        hidden = x.transpose(0, 1)
        y, bias = self.attention(self.input_layernorm(hidden))
        ln_input = bias_dropout_add(y, bias, hidden)
        y, bias = self.mlp(self.post_attention_layernorm(ln_input))
        return bias_dropout_add(y, bias, hidden).transpose(0, 1)


class FairseqLayer(nn.Module):
    """maybe_layer_norm with before and after, exactly one of which norms."""

    normalize_before = True

    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.in_proj, self.out_proj, self.fc1, self.fc2 = linear(D, 3 * D), linear(D, D), linear(D, 64), linear(64, D)

    def self_attn(self, x):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.in_proj(x).chunk(3, -1))
        q = q * HD ** -0.5
        w = torch.matmul(q, k.transpose(2, 3)) + torch.full((T, T), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        return self.out_proj(torch.matmul(w, v).transpose(1, 2).flatten(2))

    def maybe_layer_norm(self, layer_norm, x, before=False, after=False):
        assert before ^ after
        if after ^ self.normalize_before:
            return layer_norm(x)
        return x

    def forward(self, x):
        residual = x
        x = self.maybe_layer_norm(self.self_attn_layer_norm, x, before=True)
        x = self.self_attn(x)
        x = residual + x
        x = self.maybe_layer_norm(self.self_attn_layer_norm, x, after=True)
        residual = x
        x = self.maybe_layer_norm(self.final_layer_norm, x, before=True)
        x = self.fc2(F.relu(self.fc1(x)))
        x = residual + x
        return self.maybe_layer_norm(self.final_layer_norm, x, after=True)


class FairseqLayerPost(FairseqLayer):
    """The same with the flag of the first Transformer."""

    normalize_before = False


class FairseqLayerNever(FairseqLayer):
    """`before ^ normalize_before` after a clean-up, with every call a `before`: with the flag no call norms."""

    def maybe_layer_norm(self, layer_norm, x, before=False, after=False):
        if before ^ self.normalize_before:
            return layer_norm(x)
        return x

    def forward(self, x):
        residual = x
        x = residual + self.self_attn(self.maybe_layer_norm(self.self_attn_layer_norm, x, before=True))
        residual = x
        return residual + self.fc2(F.relu(self.fc1(self.maybe_layer_norm(self.final_layer_norm, x, before=True))))


class RemoteNorm(nn.Module):
    def __init__(self, dim, eps=1e-6, unit_offset=False):
        super().__init__()
        self.weight, self.eps, self.offset = nn.Parameter(torch.zeros(dim) if unit_offset else torch.ones(dim)), eps, unit_offset

    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float64 if dtype == torch.float64 else torch.float32)
        hidden_states = hidden_states * torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + self.eps)
        return ((self.weight + 1.0) if self.offset else self.weight) * hidden_states.to(dtype)


class OffsetLost(RemoteNorm):
    """Weights that start at zero, and the one that is added to them forgotten."""

    def __init__(self, dim, eps=1e-6):
        super().__init__(dim, eps, True)
        self.offset = False


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rotary(q, k):
    f = torch.outer(torch.arange(T, dtype=q.dtype, device=q.device), 10000.0 ** (-torch.arange(0, HD, 2, dtype=q.dtype, device=q.device) / HD))
    cos, sin = torch.cat((f, f), -1).cos(), torch.cat((f, f), -1).sin()
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(x, n):
    b, h, t, d = x.shape
    return x[:, :, None].expand(b, h, n, t, d).reshape(b, h * n, t, d)


class RemoteAttention(nn.Module):
    def __init__(self, config, layer_idx=0):
        super().__init__()
        self.layer_idx, self.groups = layer_idx, config.num_attention_heads // config.num_key_value_heads
        self.q_proj, self.o_proj = linear(D, D, False), linear(D, D, False)
        self.k_proj, self.v_proj = linear(D, 2 * HD, False), linear(D, 2 * HD, False)

    def softened(self, w):
        return w

    def forward(self, hidden_states, cache=None):
        b, t, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(b, t, -1, HD).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, t, -1, HD).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, -1, HD).transpose(1, 2)
        q, k = rotary(q, k)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        k, v = repeat_kv(k, self.groups), repeat_kv(v, self.groups)
        w = self.softened(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(HD))
        w = w + torch.full((t, t), torch.finfo(w.dtype).min, dtype=w.dtype, device=w.device).triu(1)
        w = nn.functional.softmax(w, dim=-1).to(q.dtype)
        return self.o_proj(torch.matmul(w, v).transpose(1, 2).reshape(b, t, D)), w


class RemoteMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(D, 64, False), linear(D, 64, False), linear(64, D, False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class RemoteDecoderLayer(nn.Module):
    """Grouped keys, rotations, weights of attention handed out in a tuple."""

    norm, attention = RemoteNorm, RemoteAttention

    def __init__(self, config=None, layer_idx=0):
        super().__init__()
        config = config or Config()
        self.self_attn, self.mlp = self.attention(config, layer_idx), RemoteMLP(config)
        self.input_layernorm, self.post_attention_layernorm = self.norm(D, config.rms_norm_eps), self.norm(D, config.rms_norm_eps)

    def layer(self, hidden_states, cache=None, output_attentions=False):
        residual = hidden_states
        hidden_states, weights = self.self_attn(self.input_layernorm(hidden_states), cache)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = residual + self.mlp(self.post_attention_layernorm(hidden_states))
        return (hidden_states, weights) if output_attentions else (hidden_states,)

    def forward(self, hidden_states):
        return self.layer(hidden_states)[0]


class RemoteOffsetLost(RemoteDecoderLayer):
    """Norm gains of zero: no branch gives anything, and none of its maps gets a gradient at first."""

    norm = OffsetLost


class Capped(RemoteAttention):
    def softened(self, w):
        return 50.0 * torch.tanh(w / 50.0)


class SandwichLayer(nn.Module):
    """Gemma 2: a norm before and behind each branch, gains that start at zero and count from one, capped logits."""

    def __init__(self):
        super().__init__()
        config = Config()
        self.self_attn, self.mlp = Capped(config), RemoteMLP(config)
        self.n1, self.n2, self.n3, self.n4 = (RemoteNorm(D, unit_offset=True) for _ in range(4))

    def forward(self, x):
        x = x + self.n2(self.self_attn(self.n1(x))[0])
        return x + self.n4(self.mlp(self.n3(x)))


class SandwichBracket(SandwichLayer):
    """A bracket too far in the second half: the norm behind takes the sum."""

    def forward(self, x):
        x = x + self.n2(self.self_attn(self.n1(x))[0])
        return self.n4(x + self.mlp(self.n3(x)))


class SandwichGivesNorm(SandwichLayer):
    """`x = n3(x)` before the net, and the sum with that."""

    def forward(self, x):
        x = x + self.n2(self.self_attn(self.n1(x))[0])
        x = self.n3(x)
        return x + self.n4(self.mlp(x))


class Store:
    """Keys and values by the number of the layer."""

    def __init__(self):
        self.items = {}

    def update(self, k, v, layer_idx):
        if layer_idx not in self.items:
            self.items[layer_idx] = (k, v)
        return self.items[layer_idx]


class RemoteModel(nn.Module):
    """Twelve layers with a cache that is filled by each of them once."""

    numbered = True

    def __init__(self, n=None):
        super().__init__()
        config = Config()
        self.layers = nn.ModuleList(RemoteDecoderLayer(config, i if self.numbered else 0) for i in range(n or config.num_hidden_layers))

    def forward(self, hidden_states):
        cache, all_hidden_states = Store(), ()
        for layer in self.layers:
            all_hidden_states += (hidden_states,)
            hidden_states = layer.layer(hidden_states, cache)[0]
        return hidden_states


class RemoteModelOneCache(RemoteModel):
    """layer_idx is not handed on: all layers read the keys and values of the first one."""

    numbered = False


class HookNorm(nn.Module):
    """Norms are put in front of both branches by hooks, as an experiment adds them to a finished model."""

    def __init__(self):
        super().__init__()
        self.fc, self.gate = nn.Sequential(linear(D, 64), nn.GELU(), linear(64, D)), nn.Sequential(linear(D, 64), nn.Tanh(), linear(64, D))
        self.norms = nn.ModuleList((nn.LayerNorm(D), nn.LayerNorm(D)))
        for f, norm in zip((self.fc, self.gate), self.norms):
            self.install(f, norm)

    def install(self, f, norm):
        f.register_forward_pre_hook(lambda module, args: (norm(args[0]),))

    def forward(self, x):
        x = x + self.fc(x)
        return x + self.gate(x)


class HookForgotReturn(HookNorm):
    """The hook computes the norm and gives nothing back."""

    def install(self, f, norm):
        def pre(module, args):
            normed = norm(args[0])
            args = (normed, *args[1:])
        f.register_forward_pre_hook(pre)


class HookBehind(HookNorm):
    """A forward hook in place of a pre-hook: the norm stands behind each branch."""

    def install(self, f, norm):
        f.register_forward_hook(lambda module, args, out: norm(out))


class ResidualMixin:
    """Adds what the next class in line gives to its input."""

    def forward(self, x):
        return x + super().forward(x)


class NormMixin:
    def forward(self, x):
        return super().forward(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(D), linear(D, 64), linear(64, D)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class MixedIn(ResidualMixin, NormMixin, Net):
    """The order of the classes says: skip, then norm, then net."""


class MixedInOrder(NormMixin, ResidualMixin, Net):
    """Norm first, and the skip inside of it: the stream is normed in every block."""


class ScaledResidualMixin(ResidualMixin):
    def forward(self, x):
        return x + super().forward(x)


class MixedInTwice(ScaledResidualMixin, NormMixin, Net):
    """A class below the mixin adds the input as well."""


class RelaxedLogits(nn.Module):
    """CogView's relaxation: divided by alpha before the product, the largest taken away, multiplied by alpha behind."""

    alpha = 32.0

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), linear(D, 3 * D), linear(D, D)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(self.norm(x)).chunk(3, -1))
        s = q / (self.alpha * math.sqrt(HD)) @ k.transpose(-1, -2)
        p = ((s - s.amax(-1, keepdim=True).detach()) * self.alpha).softmax(-1)
        return x + self.o((p @ v).transpose(1, 2).flatten(2))


class RelaxedForgotAlpha(RelaxedLogits):
    """Not multiplied again: all tokens weigh nearly the same."""

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(self.norm(x)).chunk(3, -1))
        s = q / (self.alpha * math.sqrt(HD)) @ k.transpose(-1, -2)
        p = (s - s.amax(-1, keepdim=True).detach()).softmax(-1)
        return x + self.o((p @ v).transpose(1, 2).flatten(2))


class ExtraNorms(nn.Module):
    """NormFormer: a norm behind attention, a factor for each head, a norm inside the net."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(64)
        self.qkv, self.o, self.fc1, self.fc2, self.c_attn = linear(D, 3 * D), linear(D, D), linear(D, 64), linear(64, D), nn.Parameter(torch.ones(H))

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        y = torch.einsum("bthd,h->bthd", y, self.c_attn).flatten(2)
        x = x + self.n2(self.o(y))
        return x + self.fc2(self.n4(F.gelu(self.fc1(self.n3(x)))))


class DeepAlpha(nn.Module):
    """DeepNorm in its own spelling: alpha times the residual, inside the norm."""

    on_branch = False

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.layers, self.alpha = nn.ModuleList(AlphaLayer((2 * n) ** 0.25, (8 * n) ** -0.25, self.on_branch) for _ in range(n)), (2 * n) ** 0.25

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class AlphaLayer(nn.Module):
    def __init__(self, alpha, beta, on_branch):
        super().__init__()
        self.alpha, self.on_branch, self.n1, self.n2 = alpha, on_branch, nn.LayerNorm(D), nn.LayerNorm(D)
        self.qk, self.v, self.o, self.fc1, self.fc2 = linear(D, 2 * D), linear(D, D), linear(D, D), linear(D, 64), linear(64, D)
        with torch.no_grad():
            for w in (self.v, self.o, self.fc1, self.fc2):
                w.weight.mul_(beta)

    def add(self, x, y):
        return x + self.alpha * y if self.on_branch else self.alpha * x + y

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in (*self.qk(x).chunk(2, -1), self.v(x)))
        x = self.n1(self.add(x, self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))))
        return self.n2(self.add(x, self.fc2(F.relu(self.fc1(x)))))


class DeepAlphaOnBranch(DeepAlpha):
    """alpha on the branch: the residual is what becomes small."""

    on_branch = True


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_TWO = dict(output_bounded={0: False, 1: False}, logits_bounded={0: False})
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
TRUTH = {
    "MegatronLayer": dict(_PRE, **_TWO, sound=True, why="pre-norm."),
    "MegatronLayerPost": dict(kind="block", growth_fixed="bounded", softmax=True, sound=False, why="each half starts at a norm's output."),
    "MegatronLayerBatchFirst": dict(_PRE, **_TWO, sound=False, why="pre-norm; attention over the batch."),
    "MegatronLayerSwapped": dict(_PRE, sound=False, why="what attention adds is read by the net alone."),
    "FairseqLayer": dict(_PRE, **_TWO, sound=True, why="pre-norm."),
    "FairseqLayerPost": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="post-norm."),
    "FairseqLayerNever": dict(kind="block", growth_fixed="exponential", softmax=True, **_TWO, sound=False, why="no norm anywhere."),
    "RemoteDecoderLayer": dict(_PRE, **_TWO, sound=True, why="pre-norm."),
    "RemoteOffsetLost": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=True, sound=False, why="what is normed is multiplied by zero."),
    "SandwichLayer": dict(_PRE, output_bounded={0: True, 1: True}, logits_bounded={0: True}, growth_all="linear", sound=True, why="both are normed behind; logits within 50."),
    "SandwichBracket": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={0: True}, sound=False, why="each block ends in a norm."),
    "SandwichGivesNorm": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={0: True}, sound=False, why="a normed stream and a normed branch."),
    "RemoteModel": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=True, why="pre-norm."),
    "RemoteModelOneCache": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=False, why="pre-norm; one layer's keys and values for all."),
    "HookNorm": dict(_NET, output_bounded={0: False, 1: False}, sound=True, why="pre-norm, by hooks."),
    "HookForgotReturn": dict(kind="block", growth_fixed="exponential", softmax=False, sound=False, why="no norm is used."),
    "HookBehind": dict(_NET, output_bounded={0: True, 1: True}, growth_all="linear", sound=True, why="both are normed behind."),
    "MixedIn": dict(_NET, output_bounded={0: False}, sound=True, why="pre-norm."),
    "MixedInOrder": dict(kind="block", growth_fixed="bounded", softmax=False, sound=False, why="a normed stream and a function of it."),
    "MixedInTwice": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=False, sound=False, why="the stream twice."),
    "RelaxedLogits": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, sound=True, why="pre-norm."),
    "RelaxedForgotAlpha": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, sound=False, why="pre-norm, logits 32 times too small."),
    "ExtraNorms": dict(_PRE, output_bounded={0: True, 1: False}, logits_bounded={0: False}, sound=True, why="the first is normed behind, the second inside alone."),
    "DeepAlpha": dict(kind="model", depth=12, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="each layer ends in a norm."),
    "DeepAlphaOnBranch": dict(kind="model", depth=12, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=False, why="each layer ends in a norm."),
}
