"""Whole models, as they are sent for review: caches that are shared by half of the layers, sums fused with norms, norms scaled by depth, loops, values of the first layer, groups of layers for restoring, pictures with holes, waves with sums for the end, places in each layer."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 64
HD = D // H

_G = torch.Generator().manual_seed(431)
_IDS = torch.randint(0, V, (2, T), generator=_G)
_IMG = torch.randn(2, 3, 16, 16, generator=_G)
example_inputs = {
    **{k: (_IDS,) for k in ("SharedCacheLm", "SharedCacheLmRaw", "FusedAddLm", "FusedAddLmLast", "DepthScaledLm", "DepthScaledLmStream", "LoopedLm", "FirstValuesLm", "PlacesEachLayerEncoder")},
    **{k: (_IMG,) for k in ("GroupedRestorer", "MaskedAutoencoder")},
    **{k: (torch.randn(2, 1, 24, generator=_G), torch.tensor([3.0, 40.0])) for k in ("DiffusedWave", "DiffusedWaveSum")},
}


def Linear(i, o, bias=False):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=1 / math.sqrt(i))
    if bias:
        nn.init.zeros_(m.bias)
    return m


def split_heads(t):
    return t.unflatten(-1, (H, HD)).transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.causal, self.c_attn, self.c_proj = causal, Linear(D, 3 * D), Linear(D, D)

    def forward(self, x):
        q, k, v = map(split_heads, self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = Linear(D, 2 * D), Linear(2 * D, D)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(D), SelfAttention(causal), nn.LayerNorm(D), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class LanguageModel(nn.Module):
    """Tokens and places, a trunk, a norm, a head."""

    n_layer = 8

    def __init__(self, n=None):
        super().__init__()
        self.n = n or self.n_layer
        self.tok_emb, self.pos_emb = nn.Embedding(V, D), nn.Embedding(T, D)
        self.norm_f, self.lm_head = nn.LayerNorm(D), Linear(D, V)
        self.make_blocks()

    def make_blocks(self):
        self.blocks = nn.ModuleList(Block() for _ in range(self.n))

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, idx):
        x = self.tok_emb(idx) + self.pos_emb(torch.arange(idx.shape[1], device=idx.device))
        return self.lm_head(self.norm_f(self.trunk(x)))


# ------------------------------------------------------------------ shared caches
class CacheReader(nn.Module):
    """Attends to keys and values that all readers share."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.q, self.o, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Linear(D, D), Linear(D, D), FeedForward()

    def forward(self, x, k, v):
        q = split_heads(self.q(self.ln_1(x)))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_2(x))


class SharedCacheLm(LanguageModel):
    """The lower half attends to itself; the upper half has one cache, of what the lower half gave."""

    def make_blocks(self):
        self.blocks, self.readers = nn.ModuleList(Block() for _ in range(self.n // 2)), nn.ModuleList(CacheReader() for _ in range(self.n - self.n // 2))
        self.kv_norm, self.kv = nn.LayerNorm(D), Linear(D, 2 * D)

    def cached(self, x):
        return self.kv(self.kv_norm(x))

    def trunk(self, x):
        x = super().trunk(x)
        k, v = map(split_heads, self.cached(x).chunk(2, dim=-1))
        for reader in self.readers:
            x = reader(x, k, v)
        return x


class SharedCacheLmRaw(SharedCacheLm):
    """Readers have norms, so the cache takes states as they are."""

    def cached(self, x):
        return self.kv(x)


# ------------------------------------------------------------------ sums fused with norms
def add_norm(hidden, residual, norm):
    residual = hidden if residual is None else hidden + residual
    return norm(residual), residual


class FusedBlock(nn.Module):
    """What a branch gives is added in front of the next norm, in one kernel."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm, self.self_attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), SelfAttention(), FeedForward()

    def forward(self, hidden_states, residual):
        hidden_states, residual = add_norm(hidden_states, residual, self.input_layernorm)
        hidden_states = self.self_attn(hidden_states)
        hidden_states, residual = add_norm(hidden_states, residual, self.post_attention_layernorm)
        return self.mlp(hidden_states), residual


class FusedAddLm(LanguageModel):
    """As in servers: layers hand on what is still to be added."""

    def make_blocks(self):
        self.blocks = nn.ModuleList(FusedBlock() for _ in range(self.n))

    def last(self, hidden_states, residual):
        return hidden_states + residual

    def trunk(self, x):
        residual = None
        for layer in self.blocks:
            x, residual = layer(x, residual)
        return self.last(x, residual)


class FusedAddLmLast(FusedAddLm):
    """The loop's hidden states are what the model gives."""

    def last(self, hidden_states, residual):
        return hidden_states


# ------------------------------------------------------------------ norms scaled by depth
class ScaledNormBlock(Block):
    """Norms of the l-th block are divided by the root of l."""

    def __init__(self, index):
        super().__init__()
        self.scale = (index + 1) ** -0.5

    def forward(self, x):
        x = x + self.attn(self.ln_1(x) * self.scale)
        return x + self.mlp(self.ln_2(x) * self.scale)


class ScaledStreamBlock(ScaledNormBlock):
    """The same, done once at the start."""

    def forward(self, x):
        x = x * self.scale
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class DepthScaledLm(LanguageModel):
    block = ScaledNormBlock

    def make_blocks(self):
        self.blocks = nn.ModuleList(self.block(i) for i in range(self.n))


class DepthScaledLmStream(DepthScaledLm):
    block = ScaledStreamBlock


# ------------------------------------------------------------------ loops
class LoopedLm(LanguageModel):
    """One block, again and again; each pass has a vector of its own."""

    n_layer = 6

    def make_blocks(self):
        block = Block()
        self.blocks = nn.ModuleList([block] * self.n)
        self.step_emb = nn.Parameter(torch.randn(self.n, D) * 0.1)

    def trunk(self, x):
        for block, step in zip(self.blocks, self.step_emb):
            x = block(x + step)
        return x


# ------------------------------------------------------------------ values of the first layer
class FirstValuesBlock(nn.Module):
    def __init__(self, share=0.5):
        super().__init__()
        self.share, self.norm1, self.norm2, self.qk, self.v, self.o, self.mlp = share, nn.RMSNorm(D), nn.RMSNorm(D), Linear(D, 2 * D), Linear(D, D), Linear(D, D), FeedForward()

    def forward(self, x, first):
        h = self.norm1(x)
        v = self.v(h)
        first = v if first is None else first
        q, k = self.qk(h).chunk(2, dim=-1)
        v = torch.lerp(v, first, self.share)
        y = F.scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v), is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x)), first


class FirstValuesLm(LanguageModel):
    """Each layer's values are half those of the first one."""

    def make_blocks(self):
        self.blocks = nn.ModuleList(FirstValuesBlock() for _ in range(self.n))

    def trunk(self, x):
        first = None
        for block in self.blocks:
            x, first = block(x, first)
        return x


# ------------------------------------------------------------------ places in each layer
class PlacesEachLayerEncoder(LanguageModel):
    """Places are forgotten in deep encoders, so each block gets them again."""

    n_layer = 6

    def make_blocks(self):
        self.blocks = nn.ModuleList(Block(causal=False) for _ in range(self.n))
        self.places = nn.Parameter(torch.randn(T, D) * 0.2)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x.add(self.places))
        return x

    def forward(self, idx):
        return self.lm_head(self.norm_f(self.trunk(self.tok_emb(idx))).mean(dim=1))


# ------------------------------------------------------------------ groups of layers for restoring
class RestoreGroup(nn.Module):
    """Two layers and a filter, with a skip around them."""

    def __init__(self, side):
        super().__init__()
        self.side, self.layers, self.conv = side, nn.Sequential(Block(False), Block(False)), nn.Conv2d(D, D, 3, padding=1)
        nn.init.normal_(self.conv.weight, std=(9 * D) ** -0.5)

    def forward(self, x):
        y = self.layers(x).transpose(1, 2).unflatten(2, (self.side, self.side))
        return self.conv(y).flatten(2).transpose(1, 2) + x


class GroupedRestorer(nn.Module):
    """A filter, groups, a norm, a filter, a skip of the first filter, and pixels."""

    def __init__(self, n=None, patch=4, side=4):
        super().__init__()
        self.patch, self.side, self.conv_first, self.norm = patch, side, nn.Conv2d(3, D, patch, patch), nn.LayerNorm(D)
        self.blocks = nn.ModuleList(RestoreGroup(side) for _ in range(n or 4))
        self.conv_after_body, self.upsample = nn.Conv2d(D, D, 3, padding=1), nn.Conv2d(D, 3 * patch ** 2, 1)

    def trunk(self, x):
        for group in self.blocks:
            x = group(x)
        return x

    def forward(self, img):
        x = self.conv_first(img)
        y = self.norm(self.trunk(x.flatten(2).transpose(1, 2))).transpose(1, 2).view_as(x)
        x = self.conv_after_body(y) + x
        return img + F.pixel_shuffle(self.upsample(x), self.patch)


# ------------------------------------------------------------------ pictures with holes
class MaskedAutoencoder(nn.Module):
    """A quarter of the patches goes through the encoder; a small decoder gets it with mask tokens, and gives pixels."""

    def __init__(self, n=None, patch=4, kept=4):
        super().__init__()
        self.kept, self.patch_embed, self.pos, self.dec_pos = kept, nn.Conv2d(3, D, patch, patch), nn.Parameter(torch.randn(16, D) * 0.1), nn.Parameter(torch.randn(16, D) * 0.1)
        self.blocks, self.norm, self.decoder_embed, self.mask_token = nn.ModuleList(Block(False) for _ in range(n or 6)), nn.LayerNorm(D), Linear(D, D, True), nn.Parameter(torch.randn(D))
        self.decoder, self.decoder_norm, self.pred = nn.Sequential(Block(False), Block(False)), nn.LayerNorm(D), Linear(D, 3 * patch ** 2, True)

    def trunk(self, x):
        for blk in self.blocks:
            x = blk(x)
        return x

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).mT + self.pos
        order = torch.arange(16, device=x.device).mul(5).remainder(16)
        latent = self.norm(self.trunk(x[:, order[: self.kept]]))
        seen = self.decoder_embed(latent)
        full = torch.cat((seen, self.mask_token.expand(len(x), 16 - self.kept, -1)), dim=1)
        full = full[:, order.argsort()] + self.dec_pos
        return self.pred(self.decoder_norm(self.decoder(full)))


# ------------------------------------------------------------------ waves with sums for the end
class WaveBlock(nn.Module):
    """A dilated filter of the wave and a map of the time, a tanh times a sigmoid; half of the map goes on, half is summed."""

    def __init__(self, dilation):
        super().__init__()
        self.dilated_conv, self.diffusion_projection, self.output_projection = nn.Conv1d(D, 2 * D, 3, padding=dilation, dilation=dilation), Linear(D, D, True), nn.Conv1d(D, 2 * D, 1)
        for m in (self.dilated_conv, self.output_projection):
            nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)

    def forward(self, x, t):
        y = x + self.diffusion_projection(t).unsqueeze(-1)
        gate, filt = self.dilated_conv(y).chunk(2, dim=1)
        y = self.output_projection(torch.sigmoid(gate) * torch.tanh(filt))
        residual, skip = torch.chunk(y, 2, dim=1)
        return (x + residual) / math.sqrt(2.0), skip


class DiffusedWave(nn.Module):
    """Noise of a wave and its step; the sum for the end is divided by the root of the depth."""

    def __init__(self, n=None, cycle=3):
        super().__init__()
        n = n or 8
        self.input_projection, self.embed = nn.Conv1d(1, D, 1), nn.Sequential(Linear(2, D, True), nn.SiLU(), Linear(D, D, True), nn.SiLU())
        self.blocks = nn.ModuleList(WaveBlock(2 ** (i % cycle)) for i in range(n))
        self.skip_projection, self.output_projection = nn.Conv1d(D, D, 1), nn.Conv1d(D, 1, 1)

    def trunk(self, x, t):
        self.skips = []
        for layer in self.blocks:
            x, skip = layer(x, t)
            self.skips.append(skip)
        return x

    def collect(self):
        return sum(self.skips) / math.sqrt(len(self.blocks))

    def forward(self, wave, step):
        t = self.embed(torch.stack((torch.sin(step / 10), torch.cos(step / 10)), dim=-1))
        self.trunk(F.relu(self.input_projection(wave)), t)
        return self.output_projection(F.relu(self.skip_projection(self.collect())))


class DiffusedWaveSum(DiffusedWave):
    """Skips are summed."""

    def collect(self):
        return torch.stack(self.skips).sum(dim=0)


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
_WAVE = dict(kind="model", depth=8, identity_gain=2.0 ** -4, growth_fixed="bounded", softmax=False)
TRUTH = {
    "SharedCacheLm": dict(_M, depth=8, **_TWO, **_OPEN, sound=True, why="pre-norm in both halves; the cache is of a norm."),
    "SharedCacheLmRaw": dict(kind="model", depth=8, growth_fixed="polynomial", softmax=True, **_TWO, **_OPEN, sound=False, why="each reader adds values of the lower half's stream, which grows linearly: quadratic."),
    "FusedAddLm": dict(_M, depth=8, **_TWO, **_OPEN, sound=True, why="pre-norm; what the last branch gave is added in front of the last norm."),
    "FusedAddLmLast": dict(kind="model", depth=8, softmax=True, **_TWO, **_OPEN, sound=False, why="the head reads what the last net gave; the stream is dropped."),
    "DepthScaledLm": dict(kind="model", depth=8, identity_gain=1.0, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm; branches read norms that get smaller by the root of depth: at most a sum of l^(-1/2), the root of depth."),
    "DepthScaledLmStream": dict(kind="model", depth=8, identity_gain=math.factorial(8) ** -0.5, growth_fixed="bounded", softmax=True, **_TWO, **_OPEN, sound=False, why="the stream itself is divided, in each block, and norms undo it for branches."),
    "LoopedLm": dict(_M, depth=6, **_TWO, **_OPEN, sound=True, why="pre-norm with one block's weights; vectors of passes are constants."),
    "FirstValuesLm": dict(_M, depth=8, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; means of values of norms."),
    "PlacesEachLayerEncoder": dict(_M, depth=6, **_OPEN, why="pre-norm; a constant is added to the stream in front of each block: linear too."),
    "GroupedRestorer": dict(kind="model", depth=4, growth_fixed="exponential", softmax=True, why="a filter of the stream itself is added in each group: of degree one."),
    "MaskedAutoencoder": dict(kind="model", growth_fixed="linear", softmax=True, **_OPEN, sound=True, why="pre-norm in both parts, a norm behind each."),
    "DiffusedWave": dict(_WAVE, sound=True, why="1/sqrt(2) a block; maps of bounded values are added, and the sum for the end is divided by the root of depth."),
    "DiffusedWaveSum": dict(_WAVE, sound=False, why="the same stream; the sum for the end grows with depth, and no norm stands in front of the head."),
}
