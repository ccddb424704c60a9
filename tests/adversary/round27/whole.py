"""Whole models, as they are sent for review: how states of all depths are weighed, grown, merged, gated and handed from one half to the other."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 64
HD = D // H

_G = torch.Generator().manual_seed(427)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS = torch.randint(0, V, (2, T), generator=_G)
_EDGES = (torch.rand(12, 12, generator=_G) > 0.7).float()
example_inputs = {
    **{k: (_IDS,) for k in ("DepthWeightedLm", "DepthWeightedStart", "ExpandedLm", "BytePatchLm", "DepthMuLm", "DepthMuFused")},
    "TranslatorPreNorm": (_IDS, _IDS.flip(1)[:, :10].clone()),
    **{k: (_draw(2, T, 8), torch.tensor([0.2, 0.7])) for k in ("HourglassDenoiser", "LongSkipDenoiser")},
    "SelfConditionedCtc": (_draw(2, 40, 20),),
    "QueryReader": (_draw(2, 3, 16, 16),),
    "PrunableVit": (_draw(2, 3, 16, 16),),
    "CitationNet": (_draw(12, 9), torch.clamp(_EDGES + _EDGES.T, max=1.0)),
}


def lin(i, o, bias=False, gain=1.0):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=gain * i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def feed_forward(d=D, act=nn.GELU):
    return nn.Sequential(lin(d, 2 * d), act(), lin(2 * d, d))


class MultiHead(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo, self.causal = lin(D, D), lin(D, D), lin(D, D), lin(D, D), causal

    def forward(self, x, context=None):
        c = x if context is None else context
        q, k, v = (w(s).unflatten(-1, (H, HD)).transpose(1, 2) for w, s in ((self.wq, x), (self.wk, c), (self.wv, c)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.wo(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Pre-norm."""

    def __init__(self, causal=True):
        super().__init__()
        self.norm_attn, self.norm_mlp, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), MultiHead(causal), feed_forward()

    def forward(self, x):
        x = x + self.attn(self.norm_attn(x))
        return x + self.mlp(self.norm_mlp(x))


class Chain(nn.Module):
    """Blocks in a list."""

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x


# ------------------------------------------------------------------ language
class DepthWeightedLm(nn.Module):
    """Behind each block stands a trained sum of all states so far, which starts as the last one."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.embed, self.norm, self.head = nn.Embedding(V, D), nn.RMSNorm(D), lin(D, V)
        self.blocks = nn.ModuleList(Block() for _ in range(n))
        self.alphas = nn.ParameterList(nn.Parameter(self.start(i + 2)) for i in range(n))

    @staticmethod
    def start(k):
        return F.one_hot(torch.tensor(k - 1), k).to(torch.get_default_dtype())

    def trunk(self, x):
        states = [x]
        for block, alpha in zip(self.blocks, self.alphas):
            states.append(block(x))
            x = torch.einsum("k,kbtd->btd", alpha, torch.stack(states))
        return x

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.embed(ids))))


class DepthWeightedStart(DepthWeightedLm):
    """All weights start at one, so that no state is left out in the beginning."""

    @staticmethod
    def start(k):
        return torch.ones(k)


class ExpandedLm(Chain):
    """Each third block was put in later; its last maps start at nothing, and it alone is trained."""

    def __init__(self, n=None):
        super().__init__()
        self.tok, self.norm = nn.Embedding(V, D), nn.RMSNorm(D)
        self.blocks = nn.ModuleList()
        for i in range(n or 6):
            block = Block()
            if i % 3 == 2:
                nn.init.zeros_(block.attn.wo.weight)
                nn.init.zeros_(block.mlp[-1].weight)
            else:
                block.requires_grad_(False)
            self.blocks.append(block)

    def forward(self, ids):
        return self.norm(self.trunk(self.tok(ids))) @ self.tok.weight.T


class BytePatchLm(Chain):
    """Four bytes are one patch of a large model; a small one spells each patch."""

    def __init__(self, n=None, patch=4):
        super().__init__()
        self.patch = patch
        self.bytes, self.to_patch, self.start = nn.Embedding(V, 8), lin(8 * patch, D), nn.Parameter(torch.randn(1, 1, D))
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(n or 4)), nn.RMSNorm(D)
        self.to_local, self.local_bytes, self.local, self.local_norm, self.head = lin(D, D), nn.Embedding(V, D), nn.ModuleList(Block() for _ in range(2)), nn.RMSNorm(D), lin(D, V)

    def forward(self, ids):
        b, t = ids.shape
        patches = self.to_patch(self.bytes(ids).view(b, t // self.patch, -1))
        x = torch.cat((self.start.expand(b, -1, -1), patches[:, :-1]), dim=1)
        g = self.to_local(self.norm(self.trunk(x)))
        spelled = ids.view(-1, self.patch)
        y = F.pad(self.local_bytes(spelled)[:, :-1], (0, 0, 1, 0)) + g.reshape(-1, 1, D)
        for block in self.local:
            y = block(y)
        return self.head(self.local_norm(y)).view(b, t, V)


@dataclass
class MuConfig:
    n_layer: int = 6
    base_width: int = 8
    width: int = D

    @property
    def depth_scale(self):
        return self.n_layer ** -0.5

    @property
    def width_mult(self):
        return self.width / self.base_width


class MuBlock(nn.Module):
    """Branches are divided by the root of the depth."""

    def __init__(self, cfg):
        super().__init__()
        self.scale = cfg.depth_scale
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width), MultiHead(True), feed_forward()

    def forward(self, x):
        x = x + self.scale * self.attn(self.ln_1(x))
        return x + self.scale * self.mlp(self.ln_2(x))


class MuBlockFused(MuBlock):
    """One multiplication in a block."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x * self.scale


class DepthMuLm(Chain):
    """Depth and width are taken into account, so that what was tuned on a small model holds for a large one."""

    block = MuBlock

    def __init__(self, n=None):
        super().__init__()
        self.cfg = cfg = MuConfig(n_layer=n or 6)
        self.wte, self.blocks, self.ln_f, self.head = nn.Embedding(V, D), nn.ModuleList(self.block(cfg) for _ in range(cfg.n_layer)), nn.LayerNorm(D), lin(D, V)

    def forward(self, ids):
        return self.head(self.ln_f(self.trunk(self.wte(ids)))) / self.cfg.width_mult


class DepthMuFused(DepthMuLm):
    block = MuBlockFused


class CrossBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.own, self.cross, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), MultiHead(True), MultiHead(), feed_forward()

    def forward(self, x, memory):
        x = x + self.own(self.n1(x))
        x = x + self.cross(self.n2(x), memory)
        return x + self.mlp(self.n3(x))


class TranslatorPreNorm(nn.Module):
    """Moved from post-norm to pre-norm; the encoder is used as it was."""

    def __init__(self, n=None):
        super().__init__()
        self.src, self.tgt, self.place = nn.Embedding(V, D), nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1)
        self.encoder, self.blocks = nn.ModuleList(Block(causal=False) for _ in range(n or 4)), nn.ModuleList(CrossBlock() for _ in range(n or 4))
        self.encoder_norm, self.decoder_norm, self.head = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, V)

    def encode(self, ids):
        x = self.src(ids) + self.place[: ids.shape[1]]
        for block in self.encoder:
            x = block(x)
        return x

    def trunk(self, x, memory):
        for block in self.blocks:
            x = block(x, memory)
        return x

    def forward(self, src, tgt):
        memory = self.encode(src)
        x = self.trunk(self.tgt(tgt) + self.place[: tgt.shape[1]], memory)
        return self.head(self.decoder_norm(x))


# ------------------------------------------------------------------ diffusion
def time_features(t, d=D):
    w = torch.exp(torch.linspace(0, 6, d // 2, device=t.device, dtype=t.dtype))
    return torch.cat(((t[:, None] * w).cos(), (t[:, None] * w).sin()), dim=-1)


class AdaRms(nn.Module):
    """A condition makes the gains."""

    def __init__(self):
        super().__init__()
        self.linear = lin(D, D, gain=0.3)

    def forward(self, x, cond):
        return F.rms_norm(x, (D,)) * (self.linear(cond)[:, None] + 1)


class AdaBlock(nn.Module):
    """Cosines as scores, a gated net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.out, self.up, self.down = AdaRms(), AdaRms(), lin(D, 3 * D), lin(D, D), lin(D, 96), lin(48, D)
        self.tau = nn.Parameter(torch.full((H, 1, 1), 10.0).log())

    def attend(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        q, k = F.normalize(q, dim=-1) * self.tau.exp().sqrt(), F.normalize(k, dim=-1) * self.tau.exp().sqrt()
        return self.out(F.scaled_dot_product_attention(q, k, v, scale=1.0).transpose(1, 2).flatten(2))

    def forward(self, x, cond):
        x = x + self.attend(self.norm1(x, cond))
        a, gate = self.up(self.norm2(x, cond)).chunk(2, dim=-1)
        return x + self.down(a * F.gelu(gate))


class HourglassDenoiser(nn.Module):
    """Pairs of tokens are merged in the middle; what comes back is mixed with what was there by a trained share."""

    def __init__(self, n=None):
        super().__init__()
        self.patch_in, self.time = lin(8, D), nn.Sequential(lin(D, D, True), nn.SiLU(), lin(D, D, True))
        self.down, self.mid, self.up = nn.ModuleList(AdaBlock() for _ in range(2)), nn.ModuleList(AdaBlock() for _ in range(n or 4)), nn.ModuleList(AdaBlock() for _ in range(2))
        self.merge, self.split, self.fac = lin(2 * D, D), lin(D, 2 * D), nn.Parameter(torch.full((1,), 0.5))
        self.out_norm, self.patch_out = nn.RMSNorm(D), lin(D, 8)

    def forward(self, x, t):
        cond = self.time(time_features(t))
        x = self.patch_in(x)
        for block in self.down:
            x = block(x, cond)
        skip = x
        x = self.merge(x.unflatten(1, (-1, 2)).flatten(2))
        for block in self.mid:
            x = block(x, cond)
        x = self.split(x).unflatten(-1, (2, D)).flatten(1, 2)
        x = torch.lerp(skip, x, self.fac)
        for block in self.up:
            x = block(x, cond)
        return self.patch_out(self.out_norm(x))


class LongSkipDenoiser(nn.Module):
    """The first half of blocks has long skips to the second one, without maps to save parameters."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.n_in = n // 2
        self.embed, self.time = lin(8, D), lin(D, D, True)
        self.blocks, self.norm, self.out = nn.ModuleList(Block(causal=False) for _ in range(n)), nn.LayerNorm(D), lin(D, 8)

    def trunk(self, x):
        skips = []
        for i, block in enumerate(self.blocks):
            if i >= self.n_in and skips:
                x = x + skips.pop()
            x = block(x)
            if i < self.n_in:
                skips.append(x)
        return x

    def forward(self, z, t):
        x = self.embed(z) + self.time(time_features(t))[:, None]
        return self.out(self.norm(self.trunk(x)))


# ------------------------------------------------------------------ speech, pictures, graphs
class SelfConditionedCtc(nn.Module):
    """Each block but the last one tells the next what it would write."""

    def __init__(self, n=None):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(20, D, 3, 2, 1), nn.GELU())
        self.blocks = nn.ModuleList(Block(causal=False) for _ in range(n or 4))
        self.norm, self.ctc, self.back = nn.LayerNorm(D), lin(D, V, True), lin(V, D, gain=4.0)

    def trunk(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i + 1 < len(self.blocks):
                x = x + self.back(self.ctc(self.norm(x)).softmax(dim=-1))
        return x

    def forward(self, mel):
        x = self.trunk(self.front(mel.transpose(1, 2)).transpose(1, 2))
        return F.log_softmax(self.ctc(self.norm(x)), dim=-1)


class ReaderLayer(nn.Module):
    """Post-norm; a picture is read if there is a map for it."""

    def __init__(self, cross):
        super().__init__()
        self.attention, self.cross, self.ff = MultiHead(), MultiHead() if cross else None, feed_forward()
        self.attention_norm, self.cross_norm, self.ff_norm = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, q, image):
        q = self.attention_norm(q + self.attention(q))
        if self.cross is not None:
            q = self.cross_norm(q + self.cross(q, image))
        return self.ff_norm(q + self.ff(q))


class QueryReader(nn.Module):
    """Trained queries read a picture in each second layer and go to a language model."""

    def __init__(self, n=None):
        super().__init__()
        self.patch, self.image_norm = nn.Conv2d(3, D, 4, 4), nn.LayerNorm(D)
        self.query_tokens, self.norm = nn.Parameter(torch.randn(1, 6, D)), nn.LayerNorm(D)
        self.blocks, self.language_proj = nn.ModuleList(ReaderLayer(i % 2 == 0) for i in range(n or 4)), lin(D, 24, True)

    def trunk(self, q, image):
        for layer in self.blocks:
            q = layer(q, image)
        return q

    def forward(self, img):
        image = self.image_norm(self.patch(img).flatten(2).transpose(1, 2))
        q = self.norm(self.query_tokens).expand(img.shape[0], -1, -1)
        return self.language_proj(self.trunk(q, image))


class PrunableVit(nn.Module):
    """Each block has a gate, so that blocks can be pruned that a penalty has closed."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.patch, self.pos = nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 16, D) * 0.02)
        self.blocks, self.norm, self.head = nn.ModuleList(Block(causal=False) for _ in range(n)), nn.LayerNorm(D), lin(D, 10, True)
        self.gate_logits = nn.Parameter(torch.full((n,), 1.5))

    def trunk(self, x):
        gates = torch.sigmoid(self.gate_logits)
        for gate, block in zip(gates, self.blocks):
            x = gate * block(x)
        return x

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.norm(self.trunk(x)).mean(dim=1))


class CitationNet(nn.Module):
    """Residual layers on a graph, with a norm each; a last norm in front of classes."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.encode, self.blocks, self.norms = lin(9, D, True), nn.ModuleList(lin(D, D, True) for _ in range(n)), nn.ModuleList(nn.LayerNorm(D) for _ in range(n))
        self.last, self.classes = nn.LayerNorm(D), lin(D, 5, True)

    def trunk(self, x, a):
        for conv, norm in zip(self.blocks, self.norms):
            h = norm(x)
            h = F.relu(conv(a @ x))
            x = x + h
        return x

    def forward(self, x, adj):
        a = adj + torch.eye(adj.shape[0], device=adj.device, dtype=adj.dtype)
        a = a / a.sum(dim=1, keepdim=True)
        return self.classes(self.last(self.trunk(self.encode(x), a)))


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "DepthWeightedLm": dict(_M, depth=6, softmax=True, sound=True, why="pre-norm; sums over depth start as the last state."),
    "DepthWeightedStart": dict(kind="model", depth=6, identity_gain=64.0, gradient_law="exponential", growth_fixed="exponential", softmax=True, sound=False, why="sums of all states: doubled a block."),
    "ExpandedLm": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm; new blocks start as the identity."),
    "BytePatchLm": dict(_M, softmax=True, sound=True, why="pre-norm in both models, a norm behind each."),
    "DepthMuLm": dict(kind="model", depth=6, identity_gain=1.0, softmax=True, **_OPEN, sound=True, why="pre-norm; branches are divided by the root of the depth."),
    "DepthMuFused": dict(kind="model", depth=6, identity_gain=6.0 ** -3, growth_fixed="bounded", softmax=True, sound=False, why="the root of the depth divides the sum: 6^(-1/2) a block."),
    "TranslatorPreNorm": dict(kind="model", identity_gain=1.0, softmax=True, sound=False, why="the encoder's norm is built and never called: the decoder reads a stream that grows with the encoder's depth."),
    "HourglassDenoiser": dict(kind="model", softmax=True, sound=True, why="pre-norm at both lengths; a mean of both."),
    "LongSkipDenoiser": dict(kind="model", depth=6, identity_gain=4.0, growth_fixed="polynomial", softmax=True, sound=False, why="each long skip adds the stream of the first half once more: (1 + n/2) of the start."),
    "SelfConditionedCtc": dict(_M, depth=4, softmax=True, sound=True, why="pre-norm; a map of shares is added."),
    "QueryReader": dict(kind="model", growth_fixed="bounded", softmax=True, sound=True, why="post-norm; the picture is normed once."),
    "PrunableVit": dict(kind="model", depth=6, identity_gain=(1 / (1 + math.exp(-1.5))) ** 6, growth_fixed="bounded", softmax=True, sound=False, why="the gate is on all that the block gives, its skip too."),
    "CitationNet": dict(kind="model", depth=6, growth_fixed="exponential", softmax=False, sound=False, why="what the norm gives is overwritten: layers read the stream, of degree one."),
}
