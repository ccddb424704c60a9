"""Whole models, as they are sent for review: recurrences with attention in between, one attention for many layers, maps that start small by depth, factors by depth with norms behind, shares over depth, loops with an adapter, registers, stages, crosses, patches of a series, diffusion in patches."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 64
HD = D // H

_G = torch.Generator().manual_seed(3204)
_IDS = torch.randint(0, V, (2, T), generator=_G)
_IMG = torch.randn(2, 3, 16, 16, generator=_G)
example_inputs = {
    **{k: (_IDS,) for k in ("HybridLm", "HybridLmBare", "SharedAttentionLm", "SharedAttentionLmRaw", "SmallStartLm", "FactorEncoder", "DepthSharesLm", "LoopAdapterLm")},
    "RegisterVit": (_IMG,),
    "StagedVit": (_IMG,),
    "CrossRecommender": (torch.randint(0, 10, (8, 4), generator=_G), torch.randn(8, 8, generator=_G)),
    "PatchedSeries": (torch.randn(2, 3, 64, generator=_G),),
    "PatchDiffusion": (_IMG, torch.tensor([5.0, 300.0])),
}


def linear(i, o, bias=False, std=None):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=std or i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def heads(x):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def attend(q, k, v, causal=True):
    return F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=causal).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, dim=D, causal=True, dim_in=None):
        super().__init__()
        self.causal, self.qkv, self.out = causal, linear(dim_in or dim, 3 * dim), linear(dim, dim)

    def forward(self, x):
        return self.out(attend(*self.qkv(x).chunk(3, dim=-1), self.causal))


class SwiGLU(nn.Module):
    def __init__(self, dim=D):
        super().__init__()
        self.wi, self.wo = linear(dim, 4 * dim), linear(2 * dim, dim)

    def forward(self, x):
        a, b = self.wi(x).chunk(2, dim=-1)
        return self.wo(F.silu(a) * b)


class Layer(nn.Module):
    def __init__(self, dim=D, causal=True, norm=nn.RMSNorm):
        super().__init__()
        self.norm1, self.norm2, self.mixer, self.mlp = norm(dim), norm(dim), Attention(dim, causal), SwiGLU(dim)

    def forward(self, x):
        x = x + self.mixer(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CausalLm(nn.Module):
    """Tokens, a trunk, a norm, and the table again for logits."""

    depth = 8

    def __init__(self, n=None):
        super().__init__()
        n = n or self.depth
        self.wte, self.norm_f = nn.Embedding(V, D), nn.RMSNorm(D)
        self.blocks = nn.ModuleList(self.make(i, n) for i in range(n))

    def make(self, i, n):
        return Layer()

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids):
        return F.linear(self.norm_f(self.trunk(self.wte(ids))), self.wte.weight)


# ------------------------------------------------------------------ recurrences with attention in between
class GatedRecurrence(nn.Module):
    """A diagonal recurrence whose input is weighed so that its size is kept, beside a gate."""

    def __init__(self):
        super().__init__()
        self.in_x, self.in_gate, self.gates, self.out, self.a_param = linear(D, D), linear(D, D), linear(D, 2 * D, True), linear(D, D), nn.Parameter(torch.linspace(-3, 1, D))

    def forward(self, h):
        y, x = F.gelu(self.in_gate(h)), self.in_x(h)
        r, i = torch.sigmoid(self.gates(x)).chunk(2, dim=-1)
        log_a = -8.0 * r * F.softplus(self.a_param)
        u = torch.sqrt(1 - torch.exp(2 * log_a) + 1e-6) * (i * x)
        s, states = torch.zeros_like(u[:, 0]), []
        for a_t, u_t in zip(log_a.exp().unbind(1), u.unbind(1)):
            s = a_t * s + u_t
            states.append(s)
        return self.out(y * torch.stack(states, dim=1))


class HybridLayer(Layer):
    def __init__(self, mixer, norm=nn.RMSNorm):
        super().__init__()
        self.mixer, self.norm1 = mixer, norm(D)


class HybridLm(CausalLm):
    """Two recurrences, then attention, and so on."""

    depth = 9

    def make(self, i, n):
        return HybridLayer(Attention() if i % 3 == 2 else GatedRecurrence())


class HybridLmBare(HybridLm):
    """Recurrences have gates, so norms are for attention."""

    def make(self, i, n):
        return HybridLayer(Attention()) if i % 3 == 2 else HybridLayer(GatedRecurrence(), norm=lambda d: nn.Identity())


# ------------------------------------------------------------------ one attention for many layers
class SharedAttention(nn.Module):
    """Reads the state and the embedding side by side."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp_norm, self.attn, self.mlp = nn.RMSNorm(2 * D), nn.RMSNorm(D), Attention(D, dim_in=2 * D), SwiGLU()

    def joined(self, x, x0):
        return self.norm(torch.cat((x, x0), dim=-1))

    def forward(self, x, x0):
        y = self.attn(self.joined(x, x0))
        return y + self.mlp(self.mlp_norm(y))


class SharedAttentionRaw(SharedAttention):
    """Norms of two things at once mix them up; they are joined as they are."""

    def joined(self, x, x0):
        return torch.cat((x, x0), dim=-1)


class SharedAttentionLm(CausalLm):
    """Layers of recurrences; in front of every third one a block that all share adds what it reads."""

    depth, shared_block = 9, SharedAttention

    def __init__(self, n=None):
        super().__init__(n)
        self.shared, self.links = self.shared_block(), nn.ModuleList(linear(D, D) for _ in range((len(self.blocks) + 2) // 3))

    def make(self, i, n):
        return HybridLayer(GatedRecurrence())

    def trunk(self, x):
        x0 = x
        for i, block in enumerate(self.blocks):
            if i % 3 == 0:
                x = x + self.links[i // 3](self.shared(x, x0))
            x = block(x)
        return x


class SharedAttentionLmRaw(SharedAttentionLm):
    shared_block = SharedAttentionRaw


# ------------------------------------------------------------------ maps that start small by depth
class SmallStartLm(CausalLm):
    """Last maps of branches start smaller by the root of the number of branches."""

    def __init__(self, n=None):
        super().__init__(n)
        for name, p in self.named_parameters():
            if name.endswith(("mixer.out.weight", "mlp.wo.weight")):
                with torch.no_grad():
                    p.div_(math.sqrt(2 * len(self.blocks)))

    def make(self, i, n):
        return Layer(norm=nn.LayerNorm)


# ------------------------------------------------------------------ factors by depth, norms behind
class FactorLayer(nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.factor, self.ln1, self.ln2, self.attn, self.ffn = alpha, nn.LayerNorm(D), nn.LayerNorm(D), Attention(causal=False), SwiGLU()
        for m in (self.attn.out, self.ffn.wi, self.ffn.wo):
            nn.init.xavier_normal_(m.weight, gain=beta)

    def forward(self, x):
        x = self.ln1(self.factor * x + self.attn(x))
        return self.ln2(self.factor * x + self.ffn(x))


class FactorEncoder(CausalLm):
    """The stream is multiplied by the fourth root of twice the depth, and maps start smaller by that of eight times."""

    depth = 12

    def make(self, i, n):
        return FactorLayer((2 * n) ** 0.25, (8 * n) ** -0.25)


# ------------------------------------------------------------------ shares over depth
class DepthRead(nn.Module):
    """A trained query reads what all layers before gave, whose norms are keys."""

    def __init__(self):
        super().__init__()
        self.query, self.key_norm = nn.Parameter(torch.randn(D) * 0.1), nn.RMSNorm(D)

    def forward(self, history):
        v = torch.stack(history)
        logits = torch.einsum("d,nbtd->nbt", self.query, self.key_norm(v))
        return torch.einsum("nbt,nbtd->btd", logits.softmax(dim=0), v)


class DepthSharesLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.read1, self.read2, self.norm1, self.norm2, self.attn, self.mlp = DepthRead(), DepthRead(), nn.RMSNorm(D), nn.RMSNorm(D), Attention(), SwiGLU()

    def forward(self, history):
        history = history + [self.attn(self.norm1(self.read1(history)))]
        return history + [self.mlp(self.norm2(self.read2(history)))]


class DepthSharesLm(CausalLm):
    """No sum over depth: each branch reads shares of all before."""

    def __init__(self, n=None):
        super().__init__(n)
        self.read_out = DepthRead()

    def make(self, i, n):
        return DepthSharesLayer()

    def trunk(self, x):
        history = [x]
        for block in self.blocks:
            history = block(history)
        return self.read_out(history)


# ------------------------------------------------------------------ loops with an adapter
class SandwichLayer(Layer):
    def __init__(self):
        super().__init__()
        self.norm3, self.norm4 = nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, x):
        x = self.norm2(x + self.mixer(self.norm1(x)))
        return self.norm4(x + self.mlp(self.norm3(x)))


class LoopAdapterLm(CausalLm):
    """A state that starts anew is refined by the same layers, as often as one wants; the text comes in by an adapter each time."""

    depth = 6

    def __init__(self, n=None):
        super().__init__(n)
        core = SandwichLayer()
        self.blocks = nn.ModuleList([core] * len(self.blocks))
        self.prelude, self.coda, self.adapter = SandwichLayer(), SandwichLayer(), linear(2 * D, D)

    def trunk(self, e):
        s = torch.full_like(e, 0.1)
        for block in self.blocks:
            s = block(self.adapter(torch.cat((s, e), dim=-1)))
        return s

    def forward(self, ids):
        return F.linear(self.norm_f(self.coda(self.trunk(self.prelude(self.wte(ids))))), self.wte.weight)


# ------------------------------------------------------------------ registers
class RegisterVit(nn.Module):
    """Patches, a class token, a few tokens that are thrown away at the end; factors a channel on branches."""

    class Block(nn.Module):
        def __init__(self, init=0.3):
            super().__init__()
            self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attention(causal=False), SwiGLU()
            self.ls1, self.ls2 = nn.Parameter(init * torch.ones(D)), nn.Parameter(init * torch.ones(D))

        def forward(self, x):
            x = x + self.ls1 * self.attn(self.norm1(x))
            return x + self.ls2 * self.mlp(self.norm2(x))

    def __init__(self, n=None, registers=3, classes=10):
        super().__init__()
        self.registers, self.patch_embed, self.pos_embed = registers, nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(17, D) * 0.02)
        self.cls_token, self.register_tokens = nn.Parameter(torch.zeros(1, 1, D)), nn.Parameter(torch.randn(1, registers, D) * 0.02)
        self.blocks, self.norm, self.head = nn.ModuleList(self.Block() for _ in range(n or 6)), nn.LayerNorm(D), linear(2 * D, classes, True)

    def trunk(self, x):
        for blk in self.blocks:
            x = blk(x)
        return x

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1) + self.pos_embed
        x = torch.cat((x[:, :1], self.register_tokens.expand(len(x), -1, -1), x[:, 1:]), dim=1)
        x = self.norm(self.trunk(x))
        return self.head(torch.cat((x[:, 0], x[:, 1 + self.registers:].mean(dim=1)), dim=-1))


# ------------------------------------------------------------------ stages
class PatchMerging(nn.Module):
    """Four neighbours side by side, a norm, and a map to twice the width."""

    def __init__(self, dim):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * dim), linear(4 * dim, 2 * dim)

    def forward(self, x):
        x = torch.cat((x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]), dim=-1)
        return self.reduction(self.norm(x))


class StagedVit(nn.Module):
    """Two stages of layers at two sizes."""

    def __init__(self, n=None, classes=10):
        super().__init__()
        n = n or 4
        self.patch_embed, self.norm0 = nn.Conv2d(3, D // 2, 4, 4), nn.LayerNorm(D // 2)
        self.stage1, self.merge, self.stage2 = nn.ModuleList(Layer(D // 2, False, nn.LayerNorm) for _ in range(n)), PatchMerging(D // 2), nn.ModuleList(Layer(D, False, nn.LayerNorm) for _ in range(n))
        self.norm, self.head = nn.LayerNorm(D), linear(D, classes, True)

    def forward(self, img):
        x = self.patch_embed(img).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        x = self.norm0(x).flatten(1, 2)
        for layer in self.stage1:
            x = layer(x)
        x = self.merge(x.view(b, h, w, c)).flatten(1, 2)
        for layer in self.stage2:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))


# ------------------------------------------------------------------ crosses
class CrossRecommender(nn.Module):
    """Tables and numbers side by side; crosses with the first features, and a net behind."""

    class Cross(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = linear(D, D, True)

        def forward(self, xl, x0):
            return torch.addcmul(xl, x0, self.w(xl))

    def __init__(self, n=None):
        super().__init__()
        self.tables, self.bottom = nn.ModuleList(nn.Embedding(10, 6) for _ in range(4)), linear(8, D - 24, True)
        self.blocks, self.over = nn.ModuleList(self.Cross() for _ in range(n or 3)), nn.Sequential(linear(D, 16, True), nn.ReLU(), linear(16, 1, True))

    def trunk(self, x):
        x0 = x
        for cross in self.blocks:
            x = cross(x, x0)
        return x

    def forward(self, sparse, numbers):
        x = torch.cat([*(t(s) for t, s in zip(self.tables, sparse.unbind(1))), F.relu(self.bottom(numbers))], dim=1)
        return self.over(self.trunk(x)).squeeze(-1)


# ------------------------------------------------------------------ patches of a series
class PatchedSeries(nn.Module):
    """Each series loses its mean and spread, is cut, goes through layers of attention, and gets both back with its forecast."""

    def __init__(self, n=None, patch=8, ahead=12):
        super().__init__()
        self.patch, self.embed, self.pos = patch, linear(patch, D, True), nn.Parameter(torch.randn(64 // patch, D) * 0.02)
        self.blocks, self.norm, self.head = nn.ModuleList(Layer(causal=False, norm=nn.LayerNorm) for _ in range(n or 3)), nn.LayerNorm(D), linear(D * (64 // patch), ahead, True)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, series):
        mean, std = series.mean(-1, keepdim=True), series.std(-1, keepdim=True) + 1e-5
        x = ((series - mean) / std).unfold(-1, self.patch, self.patch).flatten(0, 1)
        y = self.head(self.norm(self.trunk(self.embed(x) + self.pos)).flatten(1))
        return y.view(*series.shape[:2], -1) * std + mean


# ------------------------------------------------------------------ diffusion in patches
def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class PatchDiffusion(nn.Module):
    """The time scales, shifts and gates all layers, by maps that start at a tenth here."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, elementwise_affine=False), Attention(causal=False), SwiGLU()
            self.adaLN = nn.Sequential(nn.SiLU(), linear(D, 6 * D, True, std=0.1))

        def forward(self, x, c):
            shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.adaLN(c).chunk(6, dim=1)
            x = x + gate_a.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_a, scale_a))
            return x + gate_m.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_m, scale_m))

    def __init__(self, n=None, patch=4):
        super().__init__()
        self.patch, self.x_embedder, self.pos_embed = patch, nn.Conv2d(3, D, patch, patch), nn.Parameter(torch.randn(16, D) * 0.1, requires_grad=False)
        self.t_embedder, self.blocks = nn.Sequential(linear(16, D, True), nn.SiLU(), linear(D, D, True)), nn.ModuleList(self.Block() for _ in range(n or 6))
        self.norm_final, self.final_mod, self.final = nn.LayerNorm(D, elementwise_affine=False), nn.Sequential(nn.SiLU(), linear(D, 2 * D, True)), linear(D, 3 * patch ** 2, True)

    def trunk(self, x, c):
        for block in self.blocks:
            x = block(x, c)
        return x

    def forward(self, img, t):
        freqs = torch.exp(-math.log(1e4) * torch.arange(8, device=img.device, dtype=img.dtype) / 8)
        c = self.t_embedder(torch.cat(((t[:, None] * freqs).cos(), (t[:, None] * freqs).sin()), dim=-1))
        x = self.trunk(self.x_embedder(img).flatten(2).mT + self.pos_embed, c)
        shift, scale = self.final_mod(c).chunk(2, dim=1)
        x = self.final(modulate(self.norm_final(x), shift, scale))
        return F.pixel_shuffle(x.mT.unflatten(2, (4, 4)), self.patch)


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "HybridLm": dict(_M, depth=9, **_TWO, sound=True, why="pre-norm with either mixer."),
    "HybridLmBare": dict(kind="model", depth=9, growth_fixed="exponential", softmax=True, **_TWO, sound=False, why="recurrences read the stream as it is: of degree one and two."),
    "SharedAttentionLm": dict(_M, depth=9, **_TWO, sound=True, why="pre-norm; the shared block reads a norm of the state and a constant, and adds a function of it."),
    "SharedAttentionLmRaw": dict(kind="model", depth=9, growth_fixed="exponential", softmax=True, **_TWO, sound=False, why="values of the shared block are of the raw stream: of degree one."),
    "SmallStartLm": dict(_M, depth=8, **_TWO, **_OPEN, sound=True, why="pre-norm; equal layers add up to the root of the depth at the start."),
    "FactorEncoder": dict(kind="model", depth=12, growth_fixed="bounded", softmax=True, **_OPEN, sound=True, why="a norm behind each sum; factors and first maps by depth."),
    "DepthSharesLm": dict(kind="model", depth=8, growth_fixed="bounded", softmax=True, why="each read is a mean of outputs of functions of norms, and of the embedding."),
    "LoopAdapterLm": dict(kind="model", depth=6, growth_fixed="bounded", softmax=True, **_OPEN, why="norms behind sums of one core; the state comes in by a map."),
    "RegisterVit": dict(_M, depth=6, **_TWO, **_OPEN, sound=True, why="pre-norm with factors on branches, a norm in front of the head."),
    "StagedVit": dict(kind="model", softmax=True, **_OPEN, sound=True, why="pre-norm in both stages, norms between and behind."),
    "CrossRecommender": dict(_M, depth=3, growth_fixed="exponential", softmax=False, output_bounded={0: False}, why="the first features times a map of the raw state, in each block."),
    "PatchedSeries": dict(_M, depth=3, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; the series' own spread is a factor of the end alone."),
    "PatchDiffusion": dict(_M, depth=6, **_TWO, **_OPEN, sound=True, why="pre-norm; scales, shifts and gates are maps of a constant."),
}
