"""Whole models, as they are sent for review: weighted depths, a U of tokens, post-norm below pre-norm, bytes in patches, hourglasses, probes, objects, decisions, filters, factors of depth, early exits, waves."""

import math
from functools import reduce

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, T, H, V = 32, 16, 4, 64
HD = D // H

_G = torch.Generator().manual_seed(430)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS, _IMG = torch.randint(0, V, (2, T), generator=_G), _draw(2, 3, 16, 16)
example_inputs = {
    **{k: (_IDS,) for k in ("DepthWeightedLm", "DepthWeightedLmOnes", "SkipUnetLm", "MixedNormLm", "BytePatchLm", "HourglassEncoder", "DepthFactorLm", "DepthFactorLmInside", "EarlyExitLm", "EarlyExitLmShared")},
    **{k: (_IMG,) for k in ("ProbedVit", "ProbedVitPooled", "ObjectDecoder", "PreActNet", "PreActNetPorted")},
    "DecisionModel": (_draw(2, 5, 1), _draw(2, 5, 6), _draw(2, 5, 3).tanh()),
    "WaveEncoder": (_draw(2, 1, 160),),
}


def lin(i, o, bias=False):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


class Attn(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.causal, self.q, self.k, self.v, self.o = causal, lin(D, D), lin(D, D), lin(D, D), lin(D, D)

    def forward(self, q, k=None, v=None):
        k = q if k is None else k
        v = k if v is None else v
        q, k, v = (f(t).view(t.shape[0], -1, H, HD).transpose(1, 2) for f, t in ((self.q, q), (self.k, k), (self.v, v)))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(q.shape[0], -1, D))


def ffn(act=nn.GELU):
    return nn.Sequential(lin(D, 2 * D), act(), lin(2 * D, D))


class Block(nn.Module):
    """Norms in front."""

    def __init__(self, causal=True, norm=nn.LayerNorm):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = norm(D), Attn(causal), norm(D), ffn()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class PostBlock(Block):
    """Norms behind."""

    def forward(self, x):
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.mlp(x))


class Lm(nn.Module):
    """Embeddings, blocks, a norm, a head."""

    def __init__(self, n=None):
        super().__init__()
        self.n = n or self.depth
        self.wte, self.wpe, self.ln_f, self.head = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1), nn.LayerNorm(D), lin(D, V)
        self.blocks = nn.ModuleList(self.block(i) for i in range(self.n))

    depth = 6

    def block(self, i):
        return Block()

    def trunk(self, x):
        return reduce(lambda x, b: b(x), self.blocks, x)

    def forward(self, ids):
        return self.head(self.ln_f(self.trunk(self.wte(ids) + self.wpe[: ids.shape[1]])))


# ------------------------------------------------------------------ weighted depths
class DepthWeightedLm(Lm):
    """Behind each block a trained mean of all states so far, which starts as the last of them."""

    def __init__(self, n=None):
        super().__init__(n)
        self.alphas = nn.ParameterList(self.start(i + 2) for i in range(self.n))

    @staticmethod
    def start(k):
        w = torch.zeros(k)
        w[-1] = 1.0
        return w

    def trunk(self, x):
        states = [x]
        for block, alpha in zip(self.blocks, self.alphas):
            states.append(block(x))
            x = torch.tensordot(alpha, torch.stack(states), dims=1)
        return x


class DepthWeightedLmOnes(DepthWeightedLm):
    """All weights start the same, at one."""

    @staticmethod
    def start(k):
        return torch.ones(k)


# ------------------------------------------------------------------ a U of tokens
class SkipUnetLm(Lm):
    """The lower half keeps its states, and the upper half adds them, the last one first."""

    depth = 8

    def trunk(self, x):
        half, kept = len(self.blocks) // 2, []
        for block in self.blocks[:half]:
            x = block(x)
            kept.append(x)
        for block in self.blocks[half:]:
            x = block(x + kept.pop())
        return x


# ------------------------------------------------------------------ post-norm below
class MixedNormLm(Lm):
    """Norms behind in the lowest quarter, in front above."""

    depth = 8

    def block(self, i):
        return PostBlock() if i < self.n // 4 else Block()


# ------------------------------------------------------------------ bytes in patches
class BytePatchLm(nn.Module):
    """A large model sees patches of four bytes, a small one the bytes of each patch with what the large one says of it."""

    def __init__(self, n=None, patch=4):
        super().__init__()
        self.p, self.bytes_global, self.bytes_local = patch, nn.Embedding(V, D // patch), nn.Embedding(V, D)
        self.pos, self.start = nn.Parameter(torch.randn(T // patch, D) * 0.1), nn.Parameter(torch.randn(1, 1, D))
        self.blocks, self.norm_global, self.to_local = nn.ModuleList(Block() for _ in range(n or 5)), nn.LayerNorm(D), lin(D // patch, D)
        self.local, self.norm_local, self.head = nn.Sequential(Block(), Block()), nn.LayerNorm(D), lin(D, V)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids):
        b, p = ids.shape[0], self.p
        g = self.bytes_global(ids).view(b, -1, D) + self.pos
        g = torch.cat((self.start.expand(b, -1, -1), g[:, :-1]), dim=1)
        g = self.norm_global(self.trunk(g)).view(-1, p, D // p)
        e = F.pad(self.bytes_local(ids.view(-1, p))[:, :-1], (0, 0, 1, 0))
        return self.head(self.norm_local(self.local(self.to_local(g) + e))).view(b, -1, V)


# ------------------------------------------------------------------ hourglasses
class HourglassEncoder(nn.Module):
    """A pair of tokens is pooled to one for the stack in the middle, which is repeated and added to the tokens."""

    def __init__(self, n=None, k=2):
        super().__init__()
        self.k, self.embed, self.norm, self.head = k, nn.Embedding(V, D), nn.LayerNorm(D), lin(D, V)
        self.enter, self.blocks, self.leave = Block(False), nn.ModuleList(Block(False) for _ in range(n or 6)), Block(False)

    def trunk(self, x):
        x = self.enter(x)
        y = F.avg_pool1d(x.transpose(1, 2), self.k).transpose(1, 2)
        for block in self.blocks:
            y = block(y)
        x = x + y.repeat_interleave(self.k, dim=1)
        return self.leave(x)

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.embed(ids))))


# ------------------------------------------------------------------ probes
class ProbedVit(nn.Module):
    """The class token and the mean of patches, side by side, are read by a probe."""

    def __init__(self, n=None):
        super().__init__()
        self.patch_embed, self.cls_token, self.pos_embed = nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 17, D) * 0.1)
        self.blocks, self.norm, self.probe = nn.ModuleList(Block(causal=False) for _ in range(n or 5)), nn.LayerNorm(D, eps=1e-6), nn.Linear(2 * D, 10)

    def trunk(self, x):
        for blk in self.blocks:
            x = blk(x)
        return x

    def features(self, img):
        x = self.patch_embed(img).flatten(2).mT
        x = self.trunk(torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1) + self.pos_embed)
        y = self.norm(x)
        return {"x_norm_clstoken": y[:, 0], "x_norm_patchtokens": y[:, 1:], "x_prenorm": x}

    def read(self, f):
        return f["x_norm_clstoken"], f["x_norm_patchtokens"].mean(dim=1)

    def forward(self, img):
        return self.probe(torch.cat(self.read(self.features(img)), dim=-1))


class ProbedVitPooled(ProbedVit):
    """Patches are pooled from what the last block gives."""

    def read(self, f):
        return f["x_norm_clstoken"], f["x_prenorm"][:, 1:].mean(dim=1)


# ------------------------------------------------------------------ objects
class ObjectBlock(nn.Module):
    """Objects read each other, then the picture; places are added to queries and keys alone; norms behind sums."""

    def __init__(self):
        super().__init__()
        self.self_attn, self.cross_attn, self.ff, self.norm1, self.norm2, self.norm3 = Attn(False), Attn(False), ffn(nn.ReLU), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, tgt, memory, query_pos, pos):
        q = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, q, tgt))
        tgt = self.norm2(tgt + self.cross_attn(tgt + query_pos, memory + pos, memory))
        return self.norm3(tgt + self.ff(tgt))


class ObjectDecoder(nn.Module):
    def __init__(self, n=None, objects=6):
        super().__init__()
        n = n or 4
        self.backbone, self.pos, self.query_embed = nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 16, D)), nn.Embedding(objects, D)
        self.encoder, self.blocks, self.norm = nn.Sequential(*(PostBlock(False) for _ in range(n))), nn.ModuleList(ObjectBlock() for _ in range(n)), nn.LayerNorm(D)
        self.class_embed, self.bbox_embed = lin(D, 11, True), nn.Sequential(lin(D, D, True), nn.ReLU(), lin(D, 4, True))

    def trunk(self, tgt, memory, query_pos, pos):
        for layer in self.blocks:
            tgt = layer(tgt, memory, query_pos, pos)
        return tgt

    def forward(self, img):
        memory = self.encoder(self.backbone(img).flatten(2).transpose(1, 2) + self.pos)
        query = self.query_embed.weight.unsqueeze(0).expand(img.shape[0], -1, -1)
        hs = self.norm(self.trunk(torch.zeros_like(query), memory, query, self.pos))
        return self.class_embed(hs), self.bbox_embed(hs).sigmoid()


# ------------------------------------------------------------------ decisions
class DecisionModel(nn.Module):
    """Returns, states and actions in turn; the next action is read at states."""

    def __init__(self, n=None, state=6, act=3):
        super().__init__()
        self.embed_return, self.embed_state, self.embed_action, self.embed_time = lin(1, D, True), lin(state, D, True), lin(act, D, True), nn.Embedding(16, D)
        self.embed_ln, self.blocks, self.ln_f, self.predict = nn.LayerNorm(D), nn.ModuleList(Block() for _ in range(n or 3)), nn.LayerNorm(D), nn.Sequential(lin(D, act, True), nn.Tanh())

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, returns, states, actions):
        b, t = states.shape[:2]
        when = self.embed_time.weight[:t]
        x = torch.stack([f(u) + when for f, u in ((self.embed_return, returns), (self.embed_state, states), (self.embed_action, actions))], dim=2)
        x = self.ln_f(self.trunk(self.embed_ln(x.view(b, 3 * t, D))))
        return self.predict(x.view(b, t, 3, D)[:, :, 1])


# ------------------------------------------------------------------ filters
class PreActBlock(nn.Module):
    def __init__(self, c=D):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)
        self.conv1, self.conv2 = (nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
        for m in (self.conv1, self.conv2):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        out = self.conv1(F.relu(self.bn1(x)))
        return x + self.conv2(F.relu(self.bn2(out)))


class PreActNet(nn.Module):
    """Norms and ReLUs in front of filters; one more of each at the end."""

    def __init__(self, n=None):
        super().__init__()
        self.conv1, self.blocks, self.fc = nn.Conv2d(3, D, 3, 2, 1, bias=False), nn.ModuleList(PreActBlock() for _ in range(n or 5)), nn.Linear(D, 10)
        self.last = self.ending()

    def ending(self):
        return nn.Sequential(nn.BatchNorm2d(D), nn.ReLU())

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, img):
        x = self.last(self.trunk(self.conv1(img)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class PreActNetPorted(PreActNet):
    """With the ending of the older net, where blocks end in a ReLU."""

    def ending(self):
        return nn.Identity()


# ------------------------------------------------------------------ factors of depth
class FactorBlock(Block):
    def __init__(self, n):
        super().__init__()
        self.mult = 1.0 / n

    def forward(self, x):
        x = torch.add(x, self.attn(self.ln_1(x)), alpha=self.mult)
        return torch.add(x, self.mlp(self.ln_2(x)), alpha=self.mult)


class FactorBlockInside(FactorBlock):
    """The factor on what branches read: they are smaller by it all the same."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(self.mult * x))
        return x + self.mlp(self.ln_2(self.mult * x))


class DepthFactorLm(Lm):
    """What branches give is divided by the depth."""

    kind = FactorBlock

    def block(self, i):
        return self.kind(self.n)


class DepthFactorLmInside(DepthFactorLm):
    kind = FactorBlockInside


# ------------------------------------------------------------------ early exits
class EarlyExitLm(Lm):
    """One head reads each second state, and losses are averaged."""

    def exits(self, states):
        return [self.ln_f(h) for h in states]

    def trunk(self, x):
        self.kept = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i % 2:
                self.kept.append(x)
        return x

    def forward(self, ids):
        x = self.trunk(self.wte(ids) + self.wpe[: ids.shape[1]])
        return torch.stack([self.head(h) for h in (*self.exits(self.kept), self.ln_f(x))])


class EarlyExitLmShared(EarlyExitLm):
    """The last norm belongs to the last state: exits share the head alone."""

    def exits(self, states):
        return states


# ------------------------------------------------------------------ waves
class WaveEncoder(nn.Module):
    """Filters of the wave, a norm, a filter of places with trained lengths, and norms behind sums."""

    def __init__(self, n=None):
        super().__init__()
        self.conv0, self.gn, self.conv1, self.ln, self.project = nn.Conv1d(1, D, 10, 5, bias=False), nn.GroupNorm(D, D), nn.Conv1d(D, D, 3, 2, bias=False), nn.LayerNorm(D), lin(D, D, True)
        pos = nn.Conv1d(D, D, 5, padding=2, groups=4)
        nn.init.normal_(pos.weight, std=math.sqrt(4 / (5 * D)))
        self.pos_conv, self.layer_norm = weight_norm(pos, dim=2), nn.LayerNorm(D)
        self.blocks = nn.ModuleList(PostBlock(causal=False) for _ in range(n or 6))

    def trunk(self, x):
        for layer in self.blocks:
            x = layer(x)
        return x

    def forward(self, wave):
        x = F.gelu(self.conv1(F.gelu(self.gn(self.conv0(wave)))))
        x = self.project(self.ln(x.transpose(1, 2)))
        x = x + F.gelu(self.pos_conv(x.transpose(1, 2))).transpose(1, 2)
        return self.trunk(self.layer_norm(x))


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
_LEVEL = dict(kind="model", growth_fixed="bounded", growth_all="bounded")
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "DepthWeightedLm": dict(_M, depth=6, softmax=True, **_OPEN, sound=True, why="pre-norm; means over depth are the last state at the start."),
    "DepthWeightedLmOnes": dict(kind="model", depth=6, identity_gain=2.0 ** 6, growth_fixed="exponential", softmax=True, sound=False, why="each block reads the sum of all states, which has the sum before in it twice: doubled a block."),
    "SkipUnetLm": dict(kind="model", depth=8, identity_gain=5.0, growth_fixed="polynomial", softmax=True, **_OPEN, why="kept states are added to the stream, each with the embedding and all branches below in it: sums of sums."),
    "MixedNormLm": dict(kind="model", depth=8, growth_fixed="linear", softmax=True, **_OPEN, sound=True, why="norms behind sums in two blocks, pre-norm above, a norm in front of the head."),
    "BytePatchLm": dict(_M, softmax=True, sound=True, why="pre-norm in both models, a norm behind each."),
    "HourglassEncoder": dict(_M, softmax=True, sound=True, why="pre-norm; tokens and their mean, which the stack carries, are added once: two for tokens that agree, at any depth.") | dict(identity_gain=2.0),
    "ProbedVit": dict(_M, depth=5, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; the probe reads norms."),
    "ProbedVitPooled": dict(_M, depth=5, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=False, why="the probe reads a norm beside a mean of the stream, which grows with depth."),
    "ObjectDecoder": dict(_LEVEL, softmax=True, sound=True, why="norms behind all sums, four layers a half."),
    "DecisionModel": dict(_M, depth=3, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the map to actions."),
    "PreActNet": dict(_M, depth=5, softmax=False, **_ONE, sound=True, why="norms of the batch in front of filters, in training, and one at the end."),
    "PreActNetPorted": dict(_M, depth=5, softmax=False, **_ONE, sound=False, why="the head reads the mean of a stream that grows with depth."),
    "DepthFactorLm": dict(kind="model", depth=6, identity_gain=1.0, growth_fixed="bounded", softmax=True, **_TWO, **_OPEN, gradient_law="flat", sound=True, why="pre-norm; n branches, each divided by n."),
    "DepthFactorLmInside": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, gradient_law="power", why="norms undo the factor: plain pre-norm."),
    "EarlyExitLm": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm; the head reads norms at all exits."),
    "EarlyExitLmShared": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=False, why="the head reads streams that grow with depth, at all exits but the last."),
    "WaveEncoder": dict(_LEVEL, depth=6, softmax=True, **_OPEN, sound=True, why="norms behind sums, six layers."),
}
