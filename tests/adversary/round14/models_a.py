"""Small whole models as they are built in earnest."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def fc(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def by_head(t):
    return t.view(*t.shape[:2], -1, HD).transpose(1, 2)


def joined(t):
    return t.transpose(1, 2).contiguous().view(t.shape[0], t.shape[2], -1)


class Rms(nn.Module):
    def __init__(self, dim=D):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)


class Glu(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.wi, self.wo = fc(D, 2 * hidden), fc(hidden, D)

    def forward(self, x):
        a, b = self.wi(x).chunk(2, dim=-1)
        return self.wo(F.silu(a) * b)


class SelfAttn(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.causal, self.qkv, self.o = causal, fc(D, 3 * D), fc(D, D)

    def forward(self, x):
        q, k, v = map(by_head, self.qkv(x).chunk(3, -1))
        return self.o(joined(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)))


class CrossAttn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = fc(D, D), fc(D, 2 * D), fc(D, D)

    def forward(self, x, memory):
        q, (k, v) = by_head(self.q(x)), map(by_head, self.kv(memory).chunk(2, -1))
        return self.o(joined(F.scaled_dot_product_attention(q, k, v)))


class Layer(nn.Module):
    """Pre-norm, twice."""

    def __init__(self, causal=True):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = Rms(), SelfAttn(causal), Rms(), Glu()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------
@dataclass
class DenseConfig:
    num_hidden_layers: int = 8
    num_key_value_heads: int = 2
    rope_theta: float = 1e6


class DenseLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.kv = config.num_key_value_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = fc(D, D), fc(D, self.kv * HD), fc(D, self.kv * HD), fc(D, D)
        self.q_norm, self.k_norm, self.mlp = Rms(HD), Rms(HD), Glu()
        self.input_layernorm, self.post_attention_layernorm = Rms(), Rms()

    @staticmethod
    def turned(t, cos, sin):
        a, b = t.chunk(2, dim=-1)
        return t * cos + torch.cat((-b, a), dim=-1) * sin

    def self_attn(self, h, cos, sin):
        shape = (*h.shape[:-1], -1, HD)
        q = self.q_norm(self.q_proj(h).view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(h).view(shape)).transpose(1, 2)
        v = self.v_proj(h).view(shape).transpose(1, 2)
        q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
        k, v = (t.repeat_interleave(H // self.kv, dim=1) for t in (k, v))
        return self.o_proj(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, hidden_states, position_embeddings):
        hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states), *position_embeddings)
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))


class DenseQkNorm(nn.Module):
    """A dataclass for the settings, one table of angles for all layers, grouped keys, norms by head."""

    def __init__(self, n=None):
        super().__init__()
        self.config = DenseConfig() if n is None else DenseConfig(num_hidden_layers=n)
        self.layers = nn.ModuleList([DenseLayer(self.config) for _ in range(self.config.num_hidden_layers)])
        self.norm, self.lm_head = Rms(), fc(D, D)

    def forward(self, inputs_embeds):
        pos = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device, dtype=inputs_embeds.dtype)
        freqs = torch.outer(pos, self.config.rope_theta ** -(torch.arange(0, HD, 2, device=pos.device, dtype=pos.dtype) / HD))
        emb = torch.cat((freqs, freqs), dim=-1)
        hidden_states = inputs_embeds
        for decoder_layer in self.layers[: self.config.num_hidden_layers]:
            hidden_states = decoder_layer(hidden_states, (emb.cos(), emb.sin()))
        return self.lm_head(self.norm(hidden_states))


class CappedPeri(nn.Module):
    """Embeddings times the root of the width, four norms a layer, logits capped at 50 and those of the head at 30."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_in, self.norm_out, self.norm_pre, self.norm_post = Rms(), Rms(), Rms(), Rms()
            self.qkv, self.o, self.mlp = fc(D, 3 * D), fc(D, D), Glu()

        def attn(self, h):
            q, k, v = map(by_head, self.qkv(h).chunk(3, -1))
            s = 50.0 * torch.tanh((q @ k.mT) * HD ** -0.5 / 50.0)
            s = s + torch.triu(torch.full_like(s[0, 0], -torch.inf), 1)
            return self.o(joined(s.softmax(-1) @ v))

        def forward(self, x):
            x = x + self.norm_out(self.attn(self.norm_in(x)))
            return x + self.norm_post(self.mlp(self.norm_pre(x)))

    def __init__(self, n=6):
        super().__init__()
        self.blocks, self.final_norm, self.head = nn.ModuleList(self.Block() for _ in range(n)), Rms(), fc(D, D)

    def features(self, x):
        x = x * torch.tensor(D ** 0.5, dtype=x.dtype, device=x.device)
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        return 30 * torch.tanh(self.head(self.final_norm(self.features(x))) / 30)


class Denoiser(nn.Module):
    """A time step and a class, adaLN-Zero in each block and at the end."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, elementwise_affine=False)
            self.attn, self.mlp, self.ada = SelfAttn(False), Glu(), nn.Linear(D, 6 * D)
            nn.init.zeros_(self.ada.weight)
            nn.init.zeros_(self.ada.bias)

        def forward(self, x, c):
            a, b, g, d, e, h = self.ada(F.silu(c))[:, None].chunk(6, dim=-1)
            x = torch.addcmul(x, g, self.attn(self.norm1(x) * (1 + b) + a))
            return torch.addcmul(x, h, self.mlp(self.norm2(x) * (1 + e) + d))

    def __init__(self, n=6):
        super().__init__()
        self.time, self.label = nn.Sequential(fc(D, D, True), nn.SiLU(), fc(D, D, True)), nn.Embedding(11, D)
        self.blocks, self.norm, self.ada, self.out = nn.ModuleList(self.Block() for _ in range(n)), nn.LayerNorm(D, elementwise_affine=False), fc(D, 2 * D), fc(D, D)
        self.register_buffer("t", torch.tensor([0.3, 0.7])), self.register_buffer("y", torch.tensor([3, 10]))

    def condition(self, b):
        ang = self.t[:b, None] * torch.exp(-math.log(1e4) * torch.arange(D // 2, device=self.t.device) / (D // 2)).to(self.t.dtype) * 1000
        return self.time(torch.cat((ang.cos(), ang.sin()), -1).to(self.label.weight.dtype)) + self.label(self.y[:b])

    def forward(self, x):
        c = self.condition(x.shape[0])
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.ada(F.silu(c))[:, None].chunk(2, -1)
        return self.out(self.norm(x) * (1 + scale) + shift)


class HourglassLm(nn.Module):
    """A quarter of the layers on all places, half of them on pairs, what comes back is added, a quarter on all places."""

    def __init__(self, n=8):
        super().__init__()
        self.outer = max(n // 4, 1)
        self.layers, self.norm = nn.ModuleList(Layer(False) for _ in range(n)), Rms()

    def features(self, x):
        layers, k = list(self.layers), self.outer
        for layer in layers[:k]:
            x = layer(x)
        short = x.unflatten(1, (-1, 2)).mean(2)
        for layer in layers[k:-k]:
            short = layer(short)
        x = x + short.repeat_interleave(2, dim=1)
        for layer in layers[-k:]:
            x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class Translator(nn.Module):
    """Encoder with a norm of its own, decoder with cross-attention; both read the same tokens here."""

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2, self.n3, self.sa, self.ca, self.ff = Rms(), Rms(), Rms(), SelfAttn(), CrossAttn(), Glu()

        def forward(self, y, memory):
            y = y + self.sa(self.n1(y))
            y = y + self.ca(self.n2(y), memory)
            return y + self.ff(self.n3(y))

    def __init__(self, n=4):
        super().__init__()
        self.encoder, self.enc_norm = nn.ModuleList(Layer(False) for _ in range(n)), Rms()
        self.layers, self.dec_norm, self.bos = nn.ModuleList(self.Decoder() for _ in range(n)), Rms(), nn.Parameter(torch.randn(1, 1, D))

    def features(self, src):
        h = src
        for layer in self.encoder:
            h = layer(h)
        memory = self.enc_norm(h)
        y = torch.cat((self.bos.expand(len(src), -1, -1), src[:, :-1]), dim=1)
        for layer in self.layers:
            y = layer(y, memory)
        return y

    def forward(self, src):
        return self.dec_norm(self.features(src))


class HybridStack(nn.Module):
    """One attention in four; the others are gated linear recurrences; a net behind each."""

    class Recurrence(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.decay, self.out = fc(D, 2 * D), fc(D, D, True), fc(D, D)

        def forward(self, x):
            v, g = self.inp(x).chunk(2, -1)
            a = torch.sigmoid(self.decay(x))
            h, hs = torch.zeros_like(v[:, 0]), []
            for vt, at in zip(v.unbind(1), a.unbind(1)):
                h = at * h + (1 - at) * vt
                hs.append(h)
            return self.out(torch.stack(hs, dim=1) * F.gelu(g))

    class Block(nn.Module):
        def __init__(self, mixer):
            super().__init__()
            self.temporal_pre_norm, self.channel_pre_norm, self.temporal_block, self.mlp_block = Rms(), Rms(), mixer, Glu()

        def forward(self, x):
            residual = x + self.temporal_block(self.temporal_pre_norm(x))
            return self.mlp_block(self.channel_pre_norm(residual)) + residual

    def __init__(self, n=8):
        super().__init__()
        self.layers = nn.ModuleList(self.Block(SelfAttn() if i % 4 == 1 else self.Recurrence()) for i in range(n))
        self.final_norm = Rms()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final_norm(x)


class JointStreams(nn.Module):
    """Image tokens and text tokens with weights of their own and one attention over both; queries and keys normed."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            make = lambda f: nn.ModuleDict({"img": f(), "txt": f()})
            self.norm1, self.norm2, self.qkv, self.out, self.mlp = make(Rms), make(Rms), make(lambda: fc(D, 3 * D)), make(lambda: fc(D, D)), make(Glu)
            self.norm_q, self.norm_k = make(lambda: Rms(HD)), make(lambda: Rms(HD))

        def forward(self, img, txt):
            parts = []
            for key, x in (("txt", txt), ("img", img)):
                q, k, v = map(by_head, self.qkv[key](self.norm1[key](x)).chunk(3, -1))
                parts.append((self.norm_q[key](q), self.norm_k[key](k), v))
            q, k, v = (torch.cat(t, dim=2) for t in zip(*parts))
            y = joined(F.scaled_dot_product_attention(q, k, v))
            t, i = y.split((txt.shape[1], img.shape[1]), dim=1)
            txt, img = txt + self.out["txt"](t), img + self.out["img"](i)
            return img + self.mlp["img"](self.norm2["img"](img)), txt + self.mlp["txt"](self.norm2["txt"](txt))

    def __init__(self, n=6):
        super().__init__()
        self.prompt, self.blocks, self.norm = nn.Parameter(torch.randn(1, 8, D)), nn.ModuleList(self.Block() for _ in range(n)), Rms()

    def features(self, img):
        txt = self.prompt.expand(img.shape[0], -1, -1)
        for block in self.blocks:
            img, txt = block(img, txt)
        return img

    def forward(self, img):
        return self.norm(self.features(img))


class ValueFromFirst(nn.Module):
    """The values of the first layer are mixed into all later ones; unit root mean squares of q and k."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2, self.qkv, self.o, self.mlp, self.lamb = Rms(), Rms(), fc(D, 3 * D), fc(D, D), Glu(), nn.Parameter(torch.tensor(0.5))

        def forward(self, x, v1=None):
            q, k, v = map(by_head, self.qkv(self.norm1(x)).chunk(3, -1))
            v1 = v if v1 is None else v1
            v = (1 - self.lamb) * v + self.lamb * v1
            q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
            x = x + self.o(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
            return x + self.mlp(self.norm2(x)), v1

    def __init__(self, n=10):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(self.Block() for _ in range(n)), Rms()

    def features(self, x):
        v1 = None
        for block in self.blocks:
            x, v1 = block(x, v1)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class OneCacheForTheUpperHalf(nn.Module):
    """The lower layers attend to themselves; the upper ones to keys and values that are made once in the middle."""

    class Upper(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2, self.q, self.o, self.mlp = Rms(), Rms(), fc(D, D), fc(D, D), Glu(48)

        def forward(self, x, k, v):
            y = F.scaled_dot_product_attention(by_head(self.q(self.norm1(x))), k, v, is_causal=True)
            x = x + self.o(joined(y))
            return x + self.mlp(self.norm2(x))

    def __init__(self, n=8):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(n // 2)] + [self.Upper() for _ in range(n - n // 2)])
        self.half, self.kv_norm, self.kv, self.norm = n // 2, Rms(), fc(D, 2 * D), Rms()

    def features(self, x):
        for layer in self.layers[: self.half]:
            x = layer(x)
        k, v = map(by_head, self.kv(self.kv_norm(x)).chunk(2, -1))
        for layer in self.layers[self.half:]:
            x = layer(x, k, v)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class CheckpointedEncoder(nn.Module):
    """Activations are made again in the backward pass; positions are learned."""

    def __init__(self, n=6):
        super().__init__()
        self.pos_embed, self.blocks, self.norm = nn.Parameter(torch.zeros(1, T, D)), nn.ModuleList(Layer(False) for _ in range(n)), Rms()
        nn.init.trunc_normal_(self.pos_embed, std=0.02)

    def features(self, x):
        for blk in self.blocks:
            x = checkpoint(blk, x, use_reentrant=False) if self.training and torch.is_grad_enabled() else blk(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x + self.pos_embed))


class SelfOutput(nn.Module):
    def __init__(self, i=D):
        super().__init__()
        self.dense, self.LayerNorm, self.dropout = fc(i, D, True), nn.LayerNorm(D, eps=1e-12), nn.Dropout(0.1)

    def forward(self, hidden_states, input_tensor):
        return self.LayerNorm(self.dropout(self.dense(hidden_states)) + input_tensor)


class BertStyle(nn.Module):
    """Norm behind the embeddings, each output module adds its input and norms."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = fc(D, D, True), fc(D, D, True), fc(D, D, True)
            self.attention_output, self.intermediate, self.output = SelfOutput(), fc(D, 64, True), SelfOutput(64)

        def forward(self, h):
            q, k, v = (by_head(f(h)) for f in (self.query, self.key, self.value))
            probs = nn.functional.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(HD), dim=-1)
            a = self.attention_output(joined(torch.matmul(probs, v)), h)
            return self.output(F.gelu(self.intermediate(a)), a)

    def __init__(self, n=6):
        super().__init__()
        self.embed_norm, self.layer, self.pooler = nn.LayerNorm(D, eps=1e-12), nn.ModuleList(self.Layer() for _ in range(n)), fc(D, D)

    def forward(self, x):
        h = self.embed_norm(x)
        for layer_module in self.layer:
            h = layer_module(h)
        return torch.tanh(self.pooler(h))


class ScaledByDepth(nn.Module):
    """Embeddings times 12, branches times 1.4 over the root of the number of layers, the head's input over two."""

    class Block(Layer):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, x):
            x = x + self.attn(self.norm1(x)) * self.scale
            return x + self.mlp(self.norm2(x)) * self.scale

    def __init__(self, n=12, scale_emb=12, scale_depth=1.4):
        super().__init__()
        self.scale_emb, self.layers = scale_emb, nn.ModuleList(self.Block(scale_depth / math.sqrt(n)) for _ in range(n))
        self.norm, self.lm_head = Rms(), fc(D, D)

    def features(self, x):
        x = x * self.scale_emb
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.lm_head(self.norm(self.features(x)) / 2)


class SharedWeightsWithSteps(nn.Module):
    """One layer, used again and again, told each time which time it is."""

    def __init__(self, n=12):
        super().__init__()
        block = Layer(False)
        self.layers, self.step, self.norm = nn.ModuleList([block] * n), nn.Parameter(torch.randn(n, D) * 0.02), Rms()

    def features(self, x):
        for t, layer in enumerate(self.layers):
            x = layer(x + self.step[t])
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class NormOverRootOfLayer(nn.Module):
    """What the norm of the l-th layer gives is divided by the root of l."""

    class Block(Layer):
        def __init__(self, index):
            super().__init__()
            self.index = index

        def forward(self, x):
            x = x + self.attn(self.norm1(x) / math.sqrt(self.index))
            return x + self.mlp(self.norm2(x) / math.sqrt(self.index))

    def __init__(self, n=12):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(self.Block(i) for i in range(1, n + 1)), Rms()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


_M = dict(kind="model")
_PRE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_F = dict(logits_bounded={0: False})
TRUTH = {
    "DenseQkNorm": dict(_PRE, depth=8, logits_bounded={0: True}, why="pre-norm, QK-norm."),
    "CappedPeri": dict(_PRE, identity_gain=32 ** 0.5, growth_all="linear", depth=6, output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="peri behind a factor root d."),
    "Denoiser": dict(_M, identity_gain=1.0, growth_fixed="bounded", softmax=True, depth=6, **_F, why="gates are 0 at the start."),
    "HourglassLm": dict(_PRE, identity_gain=2.0, **_F, why="what is equal over pairs goes through both ways and is added."),
    "Translator": dict(_PRE, **_F, why="pre-norm, both."),
    "HybridStack": dict(_PRE, depth=8, why="pre-norm."),
    "JointStreams": dict(_PRE, depth=6, logits_bounded={0: True}, why="pre-norm, QK-norm in both."),
    "ValueFromFirst": dict(_PRE, depth=10, logits_bounded={0: True}, why="pre-norm, QK-norm."),
    "OneCacheForTheUpperHalf": dict(_PRE, depth=8, **_F, why="pre-norm."),
    "CheckpointedEncoder": dict(_PRE, depth=6, **_F, why="pre-norm."),
    "BertStyle": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, depth=6, **_F, why="post-norm."),
    "ScaledByDepth": dict(_M, identity_gain=12.0, softmax=True, depth=12, **_F, why="12 at the start; the sum of steps is a root of the depth at most: no word on growth."),
    "SharedWeightsWithSteps": dict(_PRE, depth=12, **_F, why="pre-norm, tied."),
    "NormOverRootOfLayer": dict(_M, identity_gain=1.0, softmax=True, depth=12, **_F, why="pre-norm; steps shrink: no word on growth."),
}
