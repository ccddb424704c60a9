"""Whole models, as they are sent for review: language models, pictures, series, sessions, diffusion, speech, point sets; some with a slip in how blocks are joined."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 50
HD = D // H

_G = torch.Generator().manual_seed(325)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS = torch.randint(0, V, (2, T), generator=_G)
example_inputs = {
    **{k: (_IDS,) for k in ("CompactGpt", "CompactGptUntied", "CheckpointedLm", "MixedTail", "InterleavedExperts", "SplitStreamLm", "SessionRanker", "DepthScaledLm")},
    "PatchClassifier": (_draw(2, 3, 16, 16),),
    "StagedConvNet": (_draw(2, 3, 16, 16),),
    "ConditionedDenoiser": (_draw(2, 4, 8, 8), torch.tensor([0.1, 0.7])),
    "SmoothingForecaster": (_draw(2, 48, 3),),
    "AcousticEncoder": (_draw(2, 40, 20),),
    "PointSetRegressor": (_draw(2, 20, 3),),
}


def weight(i, o, std=None, bias=False):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=std or i ** -0.5)
    return m


def mlp(hidden=64, act=nn.GELU):
    return nn.Sequential(weight(D, hidden), act(), weight(hidden, D))


class SelfAttention(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.qkv, self.proj, self.causal = weight(D, 3 * D), weight(D, D), causal

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Pre-norm."""

    def __init__(self, causal=True, net=None):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention(causal), net or mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class PostBlock(nn.Module):
    """Post-norm."""

    def __init__(self, causal=True):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention(causal), mlp()

    def forward(self, x):
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.mlp(x))


# ------------------------------------------------------------------ language
@dataclass
class GptConfig:
    vocab_size: int = V
    block_size: int = T
    n_layer: int = 8
    n_embd: int = D


class CompactGpt(nn.Module):
    """Tied embeddings, trained places, a norm at the end."""

    def __init__(self, n=None):
        super().__init__()
        self.config = GptConfig(n_layer=n or 8)
        c = self.config
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(c.vocab_size, c.n_embd), wpe=nn.Embedding(c.block_size, c.n_embd), h=nn.ModuleList(Block() for _ in range(c.n_layer)), ln_f=nn.LayerNorm(c.n_embd)))
        self.lm_head = weight(c.n_embd, c.vocab_size)
        for e in (self.transformer.wte, self.transformer.wpe):
            nn.init.normal_(e.weight, std=0.02)
        self.tie()

    def tie(self):
        self.lm_head.weight = self.transformer.wte.weight

    @property
    def blocks(self):
        return self.transformer.h

    def trunk(self, x):
        for block in self.transformer.h:
            x = block(x)
        return x

    def end(self, x):
        return self.transformer.ln_f(x)

    def forward(self, idx):
        pos = torch.arange(idx.shape[1], device=idx.device)
        x = self.trunk(self.transformer.wte(idx) + self.transformer.wpe(pos))
        return self.lm_head(self.end(x))


class CompactGptUntied(CompactGpt):
    """A head of its own; the last norm is built, and another one is called on the logits."""

    def __init__(self, n=None):
        super().__init__(n)
        self.logit_norm = nn.LayerNorm(self.config.vocab_size)

    def tie(self):
        pass

    def end(self, x):
        return x

    def forward(self, idx):
        return self.logit_norm(super().forward(idx))


class CheckpointedLm(nn.Module):
    """Each fourth block is called by a helper that was written for functions without a skip."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.blocks, self.norm, self.head = nn.Embedding(V, D), nn.ModuleList(Block() for _ in range(n or 8)), nn.LayerNorm(D), weight(D, V)

    @staticmethod
    def call(fn, x):
        return x + fn(x)

    def trunk(self, x):
        for i, block in enumerate(self.blocks):
            x = self.call(block, x) if i % 4 == 3 else block(x)
        return x

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.embed(ids))))


class MixedTail(nn.Module):
    """Pre-norm blocks, and two post-norm blocks behind them."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 8
        self.embed, self.head = nn.Embedding(V, D), weight(D, V)
        self.layers = nn.Sequential(*(Block() for _ in range(n - 2)), PostBlock(), PostBlock())

    def trunk(self, x):
        return self.layers(x)

    def forward(self, ids):
        return self.head(self.trunk(self.embed(ids)))


class Routed(nn.Module):
    """Two of four nets, by sigmoids over their sum."""

    def __init__(self, e=4):
        super().__init__()
        self.gate, self.up, self.down = weight(D, e), nn.Parameter(torch.randn(e, D, 32) / D ** 0.5), nn.Parameter(torch.randn(e, 32, D) / 32 ** 0.5)

    def forward(self, h):
        s = torch.sigmoid(self.gate(h))
        top = s.topk(2, dim=-1)
        w = torch.zeros_like(s).scatter(-1, top.indices, top.values / top.values.sum(-1, keepdim=True))
        return torch.einsum("bted,bte->btd", torch.einsum("btei,eid->bted", F.silu(torch.einsum("btd,edi->btei", h, self.up)), self.down), w)


class InterleavedExperts(nn.Module):
    """Each second block has experts."""

    def __init__(self, n=None):
        super().__init__()
        self.tok, self.blocks = nn.Embedding(V, D), nn.ModuleDict({f"layer_{i}": Block(net=Routed() if i % 2 else mlp(act=nn.SiLU)) for i in range(n or 6)})
        self.final, self.out = nn.RMSNorm(D), weight(D, V)

    def trunk(self, x):
        for block in self.blocks.values():
            x = block(x)
        return x

    def forward(self, ids):
        return self.out(self.final(self.trunk(self.tok(ids))))


class SplitStreamLm(nn.Module):
    """A wide stream in two halves, each of which reads the other."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.embed, self.norm, self.head = nn.Embedding(V, 2 * D), nn.LayerNorm(2 * D), weight(2 * D, V)
        self.f, self.g = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), SelfAttention(True)) for _ in range(n)), nn.ModuleList(nn.Sequential(nn.LayerNorm(D), mlp()) for _ in range(n))

    def trunk(self, x):
        a, b = x.chunk(2, dim=-1)
        for f, g in zip(self.f, self.g):
            a = a + f(b)
            b = b + g(a)
        return torch.cat((a, b), dim=-1)

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.embed(ids))))


class DepthScaledLm(nn.Module):
    """Scales of the residual are made from the depth: what is carried has the root of one less a share, what is added the root of the share."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 8
        share = 1.0 / n
        self.embed, self.norms, self.nets, self.last, self.head = nn.Embedding(V, D), nn.ModuleList(nn.RMSNorm(D) for _ in range(n)), nn.ModuleList(mlp(act=nn.SiLU) for _ in range(n)), nn.RMSNorm(D), weight(D, V)
        self.register_buffer("keep", torch.tensor(math.sqrt(1 - share)), persistent=False)
        self.register_buffer("take", torch.tensor(math.sqrt(share)), persistent=False)

    def trunk(self, x):
        for norm, net in zip(self.norms, self.nets):
            x = self.keep * x + self.take * net(norm(x))
        return x

    def forward(self, ids):
        return self.head(self.last(self.trunk(self.embed(ids))))


# ------------------------------------------------------------------ pictures
class PatchClassifier(nn.Module):
    """A class token; the head reads it from the stream as it is."""

    def __init__(self, n=None):
        super().__init__()
        self.patch_embed, self.cls_token, self.pos_embed = nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 1, D) * 0.02), nn.Parameter(torch.randn(1, 17, D) * 0.02)
        self.blocks, self.head = nn.ModuleList(Block(causal=False) for _ in range(n or 6)), weight(D, 10, bias=True)

    def trunk(self, x):
        for blk in self.blocks:
            x = blk(x)
        return x

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.size(0), -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.trunk(x)[:, 0])


class ConvUnit(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw, self.norm, self.up, self.down, self.gamma = nn.Conv2d(c, c, 5, padding=2, groups=c), nn.GroupNorm(1, c), nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, c, 1), nn.Parameter(torch.full((c, 1, 1), 0.1))

    def forward(self, x):
        return x + self.gamma * self.down(F.gelu(self.up(self.norm(self.dw(x)))))


class StagedConvNet(nn.Module):
    """Two stages of widths 16 and 32; a norm and a stride between them."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 4
        self.stem, self.stage1 = nn.Conv2d(3, 16, 2, 2), nn.Sequential(*(ConvUnit(16) for _ in range(n)))
        self.down, self.stage2 = nn.Sequential(nn.GroupNorm(1, 16), nn.Conv2d(16, 32, 2, 2)), nn.Sequential(*(ConvUnit(32) for _ in range(n)))
        self.norm, self.fc = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, img):
        x = self.stage2(self.down(self.stage1(self.stem(img))))
        return self.fc(self.norm(x.mean((2, 3))))


class ConditionedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.mod = SelfAttention(), mlp(), nn.Linear(D, 6 * D)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.mod(c)[:, None].chunk(6, -1)
        x = x + g1 * self.attn(F.layer_norm(x, (D,)) * (1 + s1) + b1)
        return x + g2 * self.mlp(F.layer_norm(x, (D,)) * (1 + s2) + b2)


class ConditionedDenoiser(nn.Module):
    """Patches of a noisy latent, a time by sines, and a norm with a condition at the end."""

    def __init__(self, n=None):
        super().__init__()
        self.patch, self.time, self.blocks, self.final_mod, self.final = weight(16, D), nn.Sequential(nn.Linear(16, D), nn.SiLU()), nn.ModuleList(ConditionedBlock() for _ in range(n or 6)), nn.Linear(D, 2 * D), weight(D, 16)
        self.register_buffer("freqs", torch.exp(torch.linspace(0, 6, 8)))

    def trunk(self, x, c):
        for block in self.blocks:
            x = block(x, c)
        return x

    def forward(self, z, t):
        b = z.shape[0]
        x = self.patch(z.unflatten(2, (4, 2)).unflatten(4, (4, 2)).permute(0, 2, 4, 1, 3, 5).reshape(b, 16, 16))
        angle = t[:, None] * self.freqs
        c = self.time(torch.cat((angle.sin(), angle.cos()), -1).to(x.dtype))
        x = self.trunk(x, c)
        shift, scale = self.final_mod(c)[:, None].chunk(2, -1)
        y = self.final(F.layer_norm(x, (D,)) * (1 + scale) + shift)
        return y.view(b, 4, 4, 4, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(b, 4, 8, 8)


# ------------------------------------------------------------------ series, sessions, speech, points
class SmoothingLayer(nn.Module):
    """A mean with exponential weights a channel, both of a norm, and a net."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.alpha, self.out, self.net = nn.LayerNorm(D), nn.LayerNorm(D), nn.Parameter(torch.randn(D)), weight(D, D), mlp()

    def smooth(self, h):
        a = self.alpha.sigmoid()
        level, levels = h[:, 0], []
        for step in h.unbind(1):
            level = level + a * (step - level)
            levels.append(level)
        return self.out(torch.stack(levels, 1))

    def forward(self, x):
        x = x + self.smooth(self.n1(x))
        return x + self.net(self.n2(x))


class SmoothingForecaster(nn.Module):
    """Patches of a standardised series; a last value is what is standardised by."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.blocks, self.norm, self.head = weight(18, D, bias=True), nn.ModuleList(SmoothingLayer() for _ in range(n or 4)), nn.LayerNorm(D), weight(D, 12 * 3, bias=True)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, series):
        last, scale = series[:, -1:], series.std(dim=1, keepdim=True) + 1e-4
        z = ((series - last) / scale).unfold(1, 6, 6).flatten(2)
        y = self.head(self.norm(self.trunk(self.embed(z)))[:, -1])
        return y.view(-1, 12, 3) * scale + last


class SessionRanker(nn.Module):
    """Items times the root of the width, post-norm blocks, scores by the same items."""

    def __init__(self, n=None):
        super().__init__()
        self.items, self.place, self.start, self.blocks = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1), nn.LayerNorm(D), nn.ModuleList(PostBlock() for _ in range(n or 4))

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids):
        x = self.start(self.items(ids) * D ** 0.5 + self.place)
        return F.linear(self.trunk(x), self.items.weight)


class AcousticLayer(nn.Module):
    """Attention, a filter along time with a gate, a net: each one normed before, the filter behind, too."""

    def __init__(self):
        super().__init__()
        self.na, self.nc, self.nf, self.attn, self.net = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention(), mlp(act=nn.SiLU)
        self.point, self.depth, self.bn, self.back = weight(D, 2 * D), nn.Conv1d(D, D, 7, padding=3, groups=D), nn.BatchNorm1d(D), weight(D, D)

    def conv(self, h):
        h = F.glu(self.point(h), dim=-1).mT
        return self.back(F.silu(self.bn(self.depth(h))).mT)

    def forward(self, x):
        x = x + self.attn(self.na(x))
        x = x + self.conv(self.nc(x))
        return x + 0.5 * self.net(self.nf(x))


class AcousticEncoder(nn.Module):
    """What all layers give is averaged by trained shares."""

    def __init__(self, n=None):
        super().__init__()
        self.front, self.blocks, self.shares, self.norm, self.ctc = nn.Conv1d(20, D, 3, 2, 1), nn.ModuleList(AcousticLayer() for _ in range(n or 4)), nn.Parameter(torch.zeros(n or 4)), nn.LayerNorm(D), weight(D, V)

    def forward(self, mel):
        x, said = F.gelu(self.front(mel.mT)).mT, []
        for block in self.blocks:
            x = block(x)
            said.append(x)
        mixed = torch.einsum("l,lbtd->btd", self.shares.softmax(0), torch.stack(said))
        return self.ctc(self.norm(mixed)).log_softmax(-1)


class PointUnit(nn.Module):
    """A point and the largest of all points go by a net, without a norm."""

    def __init__(self):
        super().__init__()
        self.local, self.whole, self.out = weight(D, 64, 1.2 * D ** -0.5), weight(D, 64, 1.2 * D ** -0.5), weight(64, D, 1.2 / 8)

    def forward(self, x):
        return x + self.out(F.relu(self.local(x) + self.whole(x.amax(1, keepdim=True))))


class PointSetRegressor(nn.Module):
    """Units on points, a mean over them, a norm at the end."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.blocks, self.norm, self.head = weight(3, D, bias=True), nn.ModuleList(PointUnit() for _ in range(n or 6)), nn.LayerNorm(D), weight(D, 1)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, points):
        return self.head(self.norm(self.trunk(self.embed(points)).mean(1)))


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
TRUTH = {
    "CompactGpt": dict(_M, depth=8, softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False}, sound=True, why="pre-norm, a norm in front of the head."),
    "CompactGptUntied": dict(_M, depth=8, softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False}, sound=False, why="the same stream; no norm between it and the head's map."),
    "CheckpointedLm": dict(kind="model", depth=8, identity_gain=4.0, growth_fixed="exponential", softmax=True, sound=False, why="two blocks of eight add the stream once more."),
    "MixedTail": dict(kind="model", growth_fixed="bounded", softmax=True, sound=True, why="the last two blocks end in norms; what is in front of them is pre-norm."),
    "InterleavedExperts": dict(_M, depth=6, softmax=True, sound=True, why="pre-norm; shares of experts over their sum."),
    "SplitStreamLm": dict(_M, softmax=True, sound=True, why="each half has functions of norms added."),
    "DepthScaledLm": dict(kind="model", depth=8, identity_gain=(7 / 8) ** 4, softmax=False, sound=True, why="(1 - 1/n)^(n/2) of the start is kept, about 0.6 for all n; steps have the size 1/sqrt(n)."),
    "PatchClassifier": dict(_M, depth=6, softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False}, sound=False, why="pre-norm, and no norm in front of the head."),
    "StagedConvNet": dict(kind="model", softmax=False, sound=True, why="pre-norm in both stages."),
    "ConditionedDenoiser": dict(_M, depth=6, softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False}, sound=True, why="pre-norm; a time scales and gates branches."),
    "SmoothingForecaster": dict(_M, depth=4, softmax=False, output_bounded={0: False, 1: False}, sound=True, why="pre-norm; means of norms."),
    "SessionRanker": dict(kind="model", depth=4, growth_fixed="bounded", softmax=True, sound=True, why="post-norm."),
    "AcousticEncoder": dict(kind="model", depth=4, softmax=True, sound=True, why="pre-norm; a mean of states is normed."),
    "PointSetRegressor": dict(kind="model", depth=6, growth_fixed="exponential", softmax=False, output_bounded={0: False}, sound=False, why="the net and the largest are of degree one."),
}
