"""Small whole models of production code bases, some with a slip in how their layers are put together."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def linear(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def turn(t):
    d = t.shape[-1] // 2
    ang = torch.arange(t.shape[-2], device=t.device, dtype=t.dtype)[:, None] / 10000.0 ** (torch.arange(d, device=t.device, dtype=t.dtype) / d)
    a, b = t[..., :d], t[..., d:]
    return torch.cat((a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()), dim=-1)


class Attention(nn.Module):
    def __init__(self, width=D, rope=False, unit=False, causal=False):
        super().__init__()
        self.rope, self.unit, self.causal = rope, unit, causal
        self.wqkv, self.wo = linear(width, 3 * width), linear(width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.wqkv(x).chunk(3, dim=-1))
        if self.rope:
            q, k = turn(q), turn(k)
        if self.unit:
            q, k = (F.rms_norm(t, t.shape[-1:], eps=1e-6) for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.wo(y.transpose(1, 2).flatten(2))


class SwiGlu(nn.Module):
    def __init__(self, width=D, inner=64):
        super().__init__()
        self.w12, self.w3 = linear(width, 2 * inner), linear(inner, width)

    def forward(self, x):
        gate, up = self.w12(x).tensor_split(2, dim=-1)
        return self.w3(F.silu(gate) * up)


class Layer(nn.Module):
    """Pre-norm; the parts may be others."""

    def __init__(self, width=D, attn=None, ffn=None):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attn, self.ffn = attn or Attention(width), ffn or SwiGlu(width)

    def forward(self, x):
        h = x + self.attn(self.attn_norm(x))
        return h + self.ffn(self.ffn_norm(h))


class Experts(nn.Module):
    """All experts are run, two are weighed."""

    def __init__(self, n_exp=4):
        super().__init__()
        self.router, self.experts = linear(D, n_exp), nn.ModuleList(SwiGlu(inner=24) for _ in range(n_exp))

    def forward(self, x):
        score = self.router(x).sigmoid()
        floor = score.topk(2, dim=-1).values[..., -1:]
        score = torch.where(score >= floor, score, torch.zeros_like(score))
        return torch.stack([e(x) for e in self.experts], dim=-1).mul(score.unsqueeze(-2)).sum(-1)


class Backbone(nn.Module):
    """`make(i)` builds a layer, `features` runs them."""

    def __init__(self, n=12):
        super().__init__()
        self.n = n
        self.layers, self.norm = nn.ModuleList([self.make(i) for i in range(n)]), nn.RMSNorm(D)

    def make(self, i):
        return Layer()

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


# ------------------------------------------------------------ language
class NoPositionsEveryFourth(Backbone):
    """Rotary positions in three layers of four."""

    def __init__(self, n=8):
        super().__init__(n)

    def make(self, i):
        return Layer(attn=Attention(rope=(i + 1) % 4 != 0, causal=True))


class InterleavedExperts(Backbone):
    """Unit queries and keys behind the rotation; experts in every second layer."""

    def __init__(self, n=8):
        super().__init__(n)

    def make(self, i):
        return Layer(attn=Attention(rope=True, unit=True, causal=True), ffn=Experts() if i % 2 else SwiGlu())


class DenseThenExperts(Backbone):
    """The first layer is dense, the others have experts."""

    def __init__(self, n=6, first_k_dense_replace=1):
        self.first_k_dense_replace = first_k_dense_replace
        super().__init__(n)

    def make(self, i):
        return Layer(attn=Attention(rope=True, causal=True), ffn=Experts() if i >= self.first_k_dense_replace else None)


class MultipliersEverywhere(Backbone):
    """A number in front of and behind every part; the embedding's is 5.65."""

    class Scaled(Layer):
        attention_in, attention_out, mlp_in, mlp_out = 1.25, 0.9375, 0.8, 0.5

        def forward(self, x):
            residual = x
            h = self.attn(self.attn_norm(x) * self.attention_in) * self.attention_out
            x = residual + h
            return x + self.mlp_out * self.ffn(self.mlp_in * self.ffn_norm(x))

    embedding_multiplier = 5.65

    def __init__(self, n=8):
        super().__init__(n)

    def make(self, i):
        return self.Scaled()

    def features(self, x):
        return super().features(x * self.embedding_multiplier)


class FirstNormIsIdentity(Backbone):
    """The first layer's attention has no norm of its own."""

    def __init__(self, n=10):
        super().__init__(n)

    def make(self, i):
        layer = Layer()
        if i == 0:
            layer.attn_norm = nn.Identity()
        return layer


class SharedTransformerBlock(nn.Module):
    """One attention layer for the whole model; every third layer asks it about the stream beside the embedding, by a map of its own."""

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.inp, self.conv, self.out = nn.RMSNorm(D), linear(D, 2 * D), nn.Conv1d(D, D, 4, padding=3, groups=D), linear(D, D)

        def forward(self, x, extra=None):
            residual = x
            x = self.norm(x if extra is None else x + extra)
            u, z = self.inp(x).chunk(2, dim=-1)
            u = F.silu(self.conv(u.transpose(1, 2))[..., :-3].transpose(1, 2))
            return residual + self.out(u * F.silu(z))

    def __init__(self, n=9):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(self.Mixer() for _ in range(n)), nn.RMSNorm(D)
        self.shared_norm, self.shared_attn, self.shared_ffn_norm, self.shared_ffn = nn.RMSNorm(2 * D), Attention(2 * D), nn.RMSNorm(2 * D), SwiGlu(2 * D)
        self.maps = nn.ModuleDict({str(i): linear(2 * D, D) for i in range(1, n, 3)})

    def shared(self, x, embedding):
        h = self.shared_attn(self.shared_norm(torch.cat((x, embedding), dim=-1)))
        return self.shared_ffn(self.shared_ffn_norm(h))

    def features(self, x):
        embedding = x
        for i, layer in enumerate(self.layers):
            if str(i) in self.maps:
                x = layer(x, self.maps[str(i)](self.shared(x, embedding)))
            else:
                x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class LoopedSandwich(nn.Module):
    """The same four norms again and again: in front of each part and behind each sum."""

    class Core(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2, self.norm_3, self.norm_4 = (nn.RMSNorm(D) for _ in range(4))
            self.attn, self.mlp = Attention(), SwiGlu()

        def forward(self, x):
            x = self.norm_2(self.attn(self.norm_1(x)) + x)
            return self.norm_4(self.mlp(self.norm_3(x)) + x)

    def __init__(self, n=12):
        super().__init__()
        core = self.Core()
        self.layers, self.head = nn.ModuleList(core for _ in range(n)), linear(D, D)

    def features(self, x):
        for core in self.layers:
            x = core(x)
        return x

    def forward(self, x):
        return self.head(self.features(x))


class ResidualHeads(Backbone):
    """Behind the last layer a residual map that starts at zero, as for a speculative head."""

    def __init__(self, n=6):
        super().__init__(n)
        self.medusa = nn.Linear(D, D)
        nn.init.zeros_(self.medusa.weight)
        nn.init.zeros_(self.medusa.bias)

    def features(self, x):
        x = super().features(x)
        return x + F.silu(self.medusa(x))


class NamesInOrder(nn.Module):
    """Layers by name in a dictionary, run in the order of the alphabet: ten comes before two."""

    def __init__(self, n=12):
        super().__init__()
        self.layers, self.norm = nn.ModuleDict({f"layer_{i}": Layer() for i in range(n)}), nn.LayerNorm(D)

    def features(self, x):
        for name in sorted(self.layers):
            x = self.layers[name](x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class FirstStateRemembered(Backbone):
    """What the first layer gives is kept and added behind every later layer, which has its own skips."""

    def __init__(self, n=24):
        super().__init__(n)

    def features(self, x):
        remembered = None
        for layer in self.layers:
            x = layer(x) if remembered is None else layer(x) + remembered
            remembered = x if remembered is None else remembered
        return x


class ScaleBehindFirstLayer(Backbone):
    """The embedding's factor is applied one layer late."""

    def features(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 0:
                x = x * math.sqrt(D)
        return x


# ------------------------------------------------------------ vision, multimodal
class NestedStages(nn.Module):
    """Stages of blocks in dictionaries, counted from a tuple."""

    def __init__(self, n=8):
        super().__init__()
        depths = (n // 4, n // 4, n - 2 * (n // 4))
        self.stages = nn.ModuleList(nn.ModuleDict({"blocks": nn.ModuleList(Layer() for _ in range(k)), "proj": nn.Identity()}) for k in depths if k)
        self.norm = nn.LayerNorm(D)

    @property
    def layers(self):
        return [block for stage in self.stages for block in stage["blocks"]]

    def features(self, x):
        for stage in self.stages:
            for block in stage["blocks"]:
                x = block(x)
            x = stage["proj"](x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class SpaceToDepth(nn.Module):
    """All layers work on pairs of places as one place of twice the width, which are taken apart at the end."""

    def __init__(self, n=6):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(Layer(2 * D) for _ in range(n)), nn.RMSNorm(D)

    def features(self, x):
        b, s, d = x.shape
        x = x.reshape(b, s // 2, 2 * d)
        for layer in self.layers:
            x = layer(x)
        return x.reshape(b, s, d)

    def forward(self, x):
        return self.norm(self.features(x))


class HalvesApart(nn.Module):
    """One half of the channels for the picture, one for the sound, layers of their own, joined at the end."""

    def __init__(self, n=6):
        super().__init__()
        self.layers, self.sound = nn.ModuleList(Layer(D // 2) for _ in range(n)), nn.ModuleList(Layer(D // 2) for _ in range(n))
        self.norm = nn.LayerNorm(D)

    def features(self, x):
        a, v = torch.split(x, D // 2, dim=-1)
        for left, right in zip(self.layers, self.sound, strict=True):
            a, v = left(a), right(v)
        return torch.concat([a, v], dim=-1)

    def forward(self, x):
        return self.norm(self.features(x))


class JointEmbedding(Backbone):
    """A copy of the encoder makes targets without a gradient; what is given back is the encoder's."""

    def __init__(self, n=6):
        super().__init__(n)
        self.target_layers = copy.deepcopy(self.layers).requires_grad_(False)
        self.predictor = nn.Sequential(linear(D, D, True), nn.GELU(), linear(D, D, True))
        self.last_loss = None

    def forward(self, x):
        z = self.norm(self.features(x))
        with torch.no_grad():
            target = x
            for layer in self.target_layers:
                target = layer(target)
        self.last_loss = F.smooth_l1_loss(self.predictor(z), F.layer_norm(target, (D,)))
        return z


class TokenMergeLerp(Backbone):
    """Half of the layers run on means of pairs; what comes back is mixed half and half with what was kept."""

    def features(self, x):
        k = self.n // 4
        for layer in self.layers[:k]:
            x = layer(x)
        skip = x
        x = F.avg_pool1d(x.mT, kernel_size=2).mT
        for layer in self.layers[k : self.n - k]:
            x = layer(x)
        x = self.joined(skip, x.repeat_interleave(2, dim=1))
        for layer in self.layers[self.n - k :]:
            x = layer(x)
        return x

    def joined(self, skip, x):
        return torch.lerp(skip, x, 0.5)


class TokenMergeLerpPlusSkip(TokenMergeLerp):
    """And what was kept is added once more."""

    def joined(self, skip, x):
        return skip + torch.lerp(skip, x, 0.5)


# ------------------------------------------------------------ speech, diffusion
class SelfConditioned(Backbone):
    """Behind every third layer the letters' probabilities are mapped back and added."""

    def __init__(self, n=9, vocabulary=12):
        super().__init__(n)
        self.ctc, self.back, self.ctc_norm = linear(D, vocabulary, True), linear(vocabulary, D, True), nn.LayerNorm(D)

    def features(self, x):
        for i, layer in enumerate(self.layers, 1):
            x = layer(x)
            if i % 3 == 0 and i < self.n:
                x = x + self.back(torch.softmax(self.ctc(self.ctc_norm(x)), dim=-1))
        return x


class PeriodConvolutions(nn.Module):
    """Raw convolutions over folded places; the sum with what came in is normed, by one norm for all layers."""

    class Times(nn.Module):
        def __init__(self, period=4):
            super().__init__()
            self.period, self.up, self.down = period, nn.Conv2d(D, 2 * D, 3, padding=1), nn.Conv2d(2 * D, D, 3, padding=1)

        def forward(self, x):
            b, s, d = x.shape
            out = x.reshape(b, s // self.period, self.period, d).permute(0, 3, 1, 2).contiguous()
            out = self.down(F.gelu(self.up(out))).permute(0, 2, 3, 1).reshape(b, s, d)
            return out + x

    def __init__(self, n=6):
        super().__init__()
        self.layers, self.layer_norm = nn.ModuleList(self.Times() for _ in range(n)), nn.LayerNorm(D)

    def features(self, x):
        for layer in self.layers:
            x = self.layer_norm(layer(x))
        return x

    def forward(self, x):
        return self.features(x)


class FlowSampler(nn.Module):
    """Euler steps of one velocity net from noise to data, each as long as one over their number."""

    def __init__(self, n=16):
        super().__init__()
        self.n, self.norm, self.attn, self.ffn_norm, self.ffn = n, nn.RMSNorm(D), Attention(), nn.RMSNorm(D), SwiGlu()

    @property
    def layers(self):
        return [self.ffn]

    def velocity(self, x, t):
        h = self.attn(self.norm(x)) + math.cos(t)
        return self.ffn(self.ffn_norm(h))

    def features(self, x):
        steps = [i / self.n for i in range(self.n + 1)]
        for t, t_next in zip(steps[:-1], steps[1:]):
            x = x + (t_next - t) * self.velocity(x, t)
        return x

    def forward(self, x):
        return self.features(x)


class FlowSamplerByTime(FlowSampler):
    """The time stands where the step should."""

    def features(self, x):
        for i in range(self.n):
            t = (i + 1) / self.n
            x = x + t * self.velocity(x, t)
        return x


_M = dict(kind="model")
_F = dict(logits_bounded={0: False})
_BARE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_PRE = dict(_BARE, **_F)
TRUTH = {
    "NoPositionsEveryFourth": dict(_PRE, depth=8, why="pre-norm."),
    "InterleavedExperts": dict(_BARE, logits_bounded={0: True}, depth=8, why="pre-norm, QK-norm."),
    "DenseThenExperts": dict(_PRE, depth=6, why="pre-norm."),
    "MultipliersEverywhere": dict(_PRE, identity_gain=5.65, depth=8, why="only the embedding's factor is on the stream."),
    "FirstNormIsIdentity": dict(_PRE, depth=10, why="one raw branch, then pre-norm."),
    "SharedTransformerBlock": dict(_BARE, depth=9, why="what is shared goes into the mixers, behind their norms, and not onto the stream."),
    "LoopedSandwich": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, depth=12, **_F, why="a norm behind each sum."),
    "ResidualHeads": dict(_PRE, why="pre-norm; SiLU of zero is zero."),
    "NamesInOrder": dict(_PRE, depth=12, why="pre-norm in another order."),
    "FirstStateRemembered": dict(_PRE, identity_gain=24.0, why="one more at each of 23 layers."),
    "ScaleBehindFirstLayer": dict(_PRE, identity_gain=32 ** 0.5, why="root d once."),
    "NestedStages": dict(_PRE, depth=8, why="pre-norm."),
    "SpaceToDepth": dict(_PRE, depth=6, why="pre-norm; reshapes move nothing."),
    "HalvesApart": dict(_PRE, why="pre-norm, twice."),
    "JointEmbedding": dict(_PRE, depth=6, why="pre-norm; targets are not given back."),
    "TokenMergeLerp": dict(_PRE, why="half and half of ones."),
    "TokenMergeLerpPlusSkip": dict(_PRE, identity_gain=2.0, why="one and one more."),
    "SelfConditioned": dict(_PRE, why="pre-norm; a map of shares."),
    "PeriodConvolutions": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, depth=6, why="post-norm."),
    "FlowSampler": dict(_M, identity_gain=1.0, growth_fixed="bounded", softmax=True, why="steps sum to one, whatever their number."),
    "FlowSamplerByTime": dict(_BARE, why="steps sum to half of their number."),
}
