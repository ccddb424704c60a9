"""Whole models in the style of research repositories: pictures and words, switched experts, patches of bytes, proteins, splice sites, purchases, tables, forecasts, vocoders, trackers, codecs, satellites over time."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F

_G = torch.Generator().manual_seed(3504)
_IDS = torch.randint(0, 48, (2, 16), generator=_G)
_IMG = torch.randn(2, 3, 16, 16, generator=_G)
example_inputs = {
    **{k: (_IMG, _IDS[:, :8]) for k in ("VisionLanguageModel", "VisionLanguageModelEcho")},
    **{k: (_IDS,) for k in ("SwitchLm", "ProteinEncoder", "ProteinEncoderRenorm", "PurchaseModel")},
    "BytePatchLm": (torch.randint(0, 48, (2, 64), generator=_G),),
    "SpliceModel": (torch.randn(2, 4, 40, generator=_G),),
    "TableTransformerBare": (torch.randn(2, 10, generator=_G), torch.randint(0, 5, (2, 4), generator=_G)),
    "BackcastForecaster": (torch.randn(8, 32, generator=_G),),
    "WaveVocoder": (torch.randn(2, 20, 24, generator=_G),),
    "FusionTracker": (torch.randn(2, 16, 12, generator=_G),),
    "CodecTransformer": (torch.randn(2, 1, 128, generator=_G),),
    "SeasonVit": (torch.randn(2, 4, 6, 8, 8, generator=_G), torch.tensor([[0.1, 0.3, 0.5, 0.9], [0.0, 0.2, 0.4, 0.6]])),
}


def init_weights(module):
    for m in module.modules():
        if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            nn.init.normal_(m.weight, std=m.weight[0].numel() ** -0.5)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Embedding):
            nn.init.normal_(m.weight)


@dataclass
class TransformerConfig:
    dim: int = 32
    n_heads: int = 4
    n_layers: int = 6
    vocab: int = 48
    mlp_ratio: int = 2
    causal: bool = True
    layer_scale: float = 0.0
    extra: dict = field(default_factory=dict)


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg, self.wq, self.wkv, self.wo = cfg, nn.Linear(cfg.dim, cfg.dim, bias=False), nn.Linear(cfg.dim, 2 * cfg.dim, bias=False), nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        shape = (b, t, self.cfg.n_heads, d // self.cfg.n_heads)
        q, (k, v) = self.wq(x), self.wkv(x).chunk(2, dim=-1)
        q, k, v = (u.view(shape).transpose(1, 2) for u in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.cfg.causal)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


class FeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(cfg.dim, cfg.mlp_ratio * cfg.dim), nn.Linear(cfg.mlp_ratio * cfg.dim, cfg.dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class LayerScale(nn.Module):
    def __init__(self, dim, init):
        super().__init__()
        self.gamma = nn.Parameter(init * torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class EncoderBlock(nn.Module):
    """Pre-norm attention and net, with a factor a channel where the config has one."""

    def __init__(self, cfg, attn=SelfAttention, mlp=FeedForward):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim), attn(cfg), mlp(cfg)
        self.ls1, self.ls2 = (LayerScale(cfg.dim, cfg.layer_scale) if cfg.layer_scale else nn.Identity() for _ in range(2))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        x = x + self.ls2(self.mlp(self.norm2(x)))
        return x


class Trunk(nn.Module):
    """Blocks in a list, one behind the other."""

    cfg = TransformerConfig()

    def __init__(self, n=None):
        super().__init__()
        self.build()
        self.blocks = nn.ModuleList(self.block(i) for i in range(n or self.cfg.n_layers))
        init_weights(self)

    def build(self):
        raise NotImplementedError

    def block(self, i):
        return EncoderBlock(self.cfg)

    def trunk(self, x):
        for blk in self.blocks:
            x = blk(x)
        return x


# ------------------------------------------------------------------ pictures and words
class VisionLanguageModel(Trunk):
    """Patches go through two maps and stand in front of words; logits are of words."""

    def build(self):
        dim = self.cfg.dim
        self.vision = nn.Conv2d(3, dim, 4, stride=4)
        self.projector = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.embed_tokens, self.norm, self.lm_head = nn.Embedding(self.cfg.vocab, dim), nn.LayerNorm(dim), nn.Linear(dim, self.cfg.vocab, bias=False)

    def forward(self, pixels, ids):
        image = self.projector(self.vision(pixels).flatten(2).mT)
        x = torch.cat((image, self.embed_tokens(ids)), dim=1)
        x = self.trunk(x)
        return self.lm_head(self.norm(x[:, image.shape[1]:]))


class VisionLanguageModelEcho(VisionLanguageModel):
    """The loop is from a repository whose blocks give branches."""

    def trunk(self, x):
        for blk in self.blocks:
            x = x + blk(x)
        return x


# ------------------------------------------------------------------ switched experts
class SwitchFeedForward(nn.Module):
    """One expert a token; its output is weighed by the router's share."""

    def __init__(self, cfg):
        super().__init__()
        self.router, self.experts = nn.Linear(cfg.dim, 4, bias=False), nn.ModuleList(FeedForward(cfg) for _ in range(4))

    def forward(self, x):
        share, index = F.softmax(self.router(x), dim=-1).max(dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            picked = index == i
            out = out + picked.unsqueeze(-1) * expert(x)
        return out * share.unsqueeze(-1)


class SwitchLm(Trunk):
    """Every second net is switched."""

    def build(self):
        self.wte, self.wpe, self.ln_f = nn.Embedding(self.cfg.vocab, self.cfg.dim), nn.Parameter(0.1 * torch.randn(16, self.cfg.dim)), nn.LayerNorm(self.cfg.dim)

    def block(self, i):
        return EncoderBlock(self.cfg, mlp=SwitchFeedForward if i % 2 else FeedForward)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe[: ids.shape[1]]
        return self.ln_f(self.trunk(x)) @ self.wte.weight.T


# ------------------------------------------------------------------ patches of bytes
class BytePatchLm(Trunk):
    """Four bytes side by side are a patch; patches go through layers; each gives logits of its next four bytes."""

    patch = 4

    def build(self):
        d = self.cfg.dim
        self.byte_embed, self.pos, self.norm, self.to_bytes = nn.Embedding(self.cfg.vocab, d // self.patch), nn.Embedding(16, d), nn.LayerNorm(d), nn.Linear(d, self.patch * self.cfg.vocab)

    def forward(self, ids):
        x = self.byte_embed(ids).unflatten(1, (-1, self.patch)).flatten(2)
        x = F.pad(x, (0, 0, 1, -1)) + self.pos.weight
        y = self.to_bytes(self.norm(self.trunk(x)))
        return y.unflatten(-1, (self.patch, -1)).flatten(1, 2)


# ------------------------------------------------------------------ proteins
def rotary(q):
    t, d = q.shape[-2:]
    inv = 10000 ** -(torch.arange(0, d, 2, device=q.device, dtype=q.dtype) / d)
    angle = torch.outer(torch.arange(t, device=q.device, dtype=q.dtype), inv).repeat(1, 2)
    a, b = q.chunk(2, dim=-1)
    return q * angle.cos() + torch.cat((-b, a), dim=-1) * angle.sin()


class RotaryAttention(SelfAttention):
    def forward(self, x):
        heads = lambda u: u.unflatten(-1, (self.cfg.n_heads, -1)).transpose(1, 2)
        k, v = map(heads, self.wkv(x).chunk(2, dim=-1))
        q, k = rotary(heads(self.wq(x)) * (x.shape[-1] // self.cfg.n_heads) ** -0.5), rotary(k)
        probs = torch.softmax(torch.matmul(q, k.transpose(2, 3)), dim=-1)
        return self.wo(torch.matmul(probs, v).transpose(1, 2).flatten(2))


class ProteinEncoder(Trunk):
    """Residues, layers with rotations, a norm, and a head with a map, a GELU and a norm."""

    cfg = TransformerConfig(n_layers=8, vocab=48, causal=False)

    def build(self):
        d = self.cfg.dim
        self.embed_tokens, self.emb_layer_norm_after, self.embed_scale = nn.Embedding(self.cfg.vocab, d), nn.LayerNorm(d), 1.0
        self.lm_head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, self.cfg.vocab))

    def block(self, i):
        return EncoderBlock(self.cfg, attn=RotaryAttention)

    def forward(self, tokens):
        x = self.embed_scale * self.embed_tokens(tokens)
        return self.lm_head(self.emb_layer_norm_after(self.trunk(x)))


class ProteinEncoderRenorm(ProteinEncoder):
    """All states that are kept for contacts have the last norm on them."""

    def trunk(self, x):
        states = []
        for blk in self.blocks:
            x = self.emb_layer_norm_after(blk(x))
            states.append(x)
        return states[-1]


# ------------------------------------------------------------------ splice sites
class SpliceModel(Trunk):
    """Bases, dilated units of norms and filters, and three classes a base."""

    cfg = TransformerConfig(n_layers=8)

    class Unit(nn.Module):
        def __init__(self, dim, dilation):
            super().__init__()
            make = lambda: nn.Sequential(nn.BatchNorm1d(dim), nn.ReLU(), nn.Conv1d(dim, dim, 3, dilation=dilation, padding=dilation))
            self.layers = nn.Sequential(make(), make())

        def forward(self, x):
            return self.layers(x).add(x)

    def build(self):
        self.stem, self.head_norm, self.head = nn.Conv1d(4, self.cfg.dim, 1), nn.BatchNorm1d(self.cfg.dim), nn.Conv1d(self.cfg.dim, 3, 1)

    def block(self, i):
        return self.Unit(self.cfg.dim, (1, 2, 4)[i % 3])

    def forward(self, bases):
        return self.head(self.head_norm(self.trunk(self.stem(bases)))).transpose(1, 2)


# ------------------------------------------------------------------ purchases
class PurchaseModel(Trunk):
    """Items of a user through linear recurrences and nets; scores are products with the table."""

    cfg = TransformerConfig(n_layers=4)

    class Recurrence(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.nu, self.in_proj, self.out_proj = nn.Parameter(torch.linspace(-2.0, 1.0, cfg.dim)), nn.Linear(cfg.dim, cfg.dim), nn.Linear(cfg.dim, cfg.dim)

        def forward(self, x):
            decay = torch.exp(-torch.exp(self.nu))
            u, state, out = self.in_proj(x) * torch.sqrt(1 - decay ** 2), 0.0, []
            for t in range(x.shape[1]):
                state = decay * state + u[:, t]
                out.append(state)
            return self.out_proj(torch.stack(out, dim=1))

    def build(self):
        self.items, self.norm = nn.Embedding(self.cfg.vocab, self.cfg.dim), nn.LayerNorm(self.cfg.dim)

    def block(self, i):
        return EncoderBlock(self.cfg, attn=self.Recurrence)

    def forward(self, history):
        user = self.norm(self.trunk(self.items(history)))
        return torch.einsum("btd,vd->btv", user, self.items.weight)


# ------------------------------------------------------------------ tables
class TableTransformerBare(Trunk):
    """Columns are tokens; the flag of the config says where norms are called, and the block knows another word for it."""

    cfg = TransformerConfig(n_layers=4, causal=False, extra=dict(normalization="pre"))

    class Block(EncoderBlock):
        def __init__(self, cfg):
            super().__init__(cfg)
            self.prenorm = cfg.extra.get("prenormalization", False)

        def start(self, x, norm):
            return norm(x) if self.prenorm else x

        def forward(self, x):
            x = x + self.attn(self.start(x, self.norm1))
            x = x + self.mlp(self.start(x, self.norm2))
            return x

    def build(self):
        d = self.cfg.dim
        self.weight, self.bias, self.tables = nn.Parameter(torch.randn(10, d)), nn.Parameter(torch.zeros(10, d)), nn.ModuleList(nn.Embedding(5, d) for _ in range(4))
        self.cls, self.norm, self.head = nn.Parameter(torch.randn(1, 1, d)), nn.LayerNorm(d), nn.Linear(d, 1)

    def block(self, i):
        return self.Block(self.cfg)

    def forward(self, numbers, categories):
        tokens = [self.cls.expand(len(numbers), -1, -1), numbers[..., None] * self.weight + self.bias]
        tokens += [table(c).unsqueeze(1) for table, c in zip(self.tables, categories.unbind(1))]
        x = self.trunk(torch.cat(tokens, dim=1))
        return self.head(F.relu(self.norm(x[:, 0])))


# ------------------------------------------------------------------ forecasts
class BackcastForecaster(Trunk):
    """Each block takes what it explains off the past, and adds to the forecast."""

    cfg = TransformerConfig(n_layers=6)
    ahead = 8

    class Block(nn.Module):
        def __init__(self, past, ahead, hidden=48):
            super().__init__()
            self.past, self.fc = past, nn.Sequential(nn.Linear(past, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
            self.theta = nn.Linear(hidden, past + ahead, bias=False)

        def forward(self, x):
            theta = self.theta(self.fc(x))
            return theta[:, : self.past], theta[:, self.past:]

    def build(self):
        self.level = nn.Parameter(torch.zeros(self.ahead))

    def block(self, i):
        return self.Block(self.cfg.dim, self.ahead)

    def trunk(self, x, forecast):
        for block in self.blocks:
            back, ahead = block(x)
            x = x - back
            forecast = forecast + ahead
        return x, forecast

    def forward(self, history):
        residual, forecast = self.trunk(history, self.level.expand(len(history), -1))
        return forecast


# ------------------------------------------------------------------ vocoders
class WaveVocoder(Trunk):
    """Frames of a spectrum through dilated gated filters; each sum is multiplied by the root of a half."""

    cfg = TransformerConfig(n_layers=8)

    class Layer(nn.Module):
        def __init__(self, dim, dilation):
            super().__init__()
            self.conv, self.out = nn.Conv1d(dim, 2 * dim, 3, padding=dilation, dilation=dilation), nn.Conv1d(dim, dim, 1)

        def forward(self, x):
            a, b = self.conv(x).split(x.shape[1], dim=1)
            z = torch.tanh(a) * torch.sigmoid(b)
            return (self.out(z) + x) * math.sqrt(0.5)

    def build(self):
        self.first, self.last = nn.Conv1d(20, self.cfg.dim, 1), nn.Sequential(nn.ReLU(), nn.Conv1d(self.cfg.dim, self.cfg.dim, 1), nn.ReLU(), nn.Conv1d(self.cfg.dim, 16, 1))

    def block(self, i):
        return self.Layer(self.cfg.dim, 2 ** (i % 3))

    def forward(self, mel):
        return self.last(self.trunk(self.first(mel))).transpose(1, 2).flatten(1)


# ------------------------------------------------------------------ trackers
class FusionTracker(Trunk):
    """Sensors over time; what a layer gives and what it got are averaged, so that sizes stay."""

    cfg = TransformerConfig(n_layers=4)

    class Layer(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.norm, self.attn, self.mlp = nn.LayerNorm(cfg.dim), SelfAttention(cfg), FeedForward(cfg)

        def forward(self, x):
            y = self.mlp(self.attn(self.norm(x)))
            return (x + y) / 2

    def build(self):
        self.sensors, self.norm, self.action = nn.Linear(12, self.cfg.dim), nn.LayerNorm(self.cfg.dim), nn.Linear(self.cfg.dim, 3)

    def block(self, i):
        return self.Layer(self.cfg)

    def forward(self, obs):
        return torch.tanh(self.action(self.norm(self.trunk(self.sensors(obs)))))


# ------------------------------------------------------------------ codecs
class WindowAttention(SelfAttention):
    """The past eight frames alone."""

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.unflatten(-1, (self.cfg.n_heads, -1)).transpose(1, 2) for u in (self.wq(x), *self.wkv(x).chunk(2, dim=-1)))
        gap = torch.arange(t, device=x.device)[:, None] - torch.arange(t, device=x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(gap >= 0) & (gap < 8))
        return self.wo(y.transpose(1, 2).flatten(2))


class CodecTransformer(Trunk):
    """Pieces of a wave through layers with factors a channel, a norm, and back to pieces."""

    cfg = TransformerConfig(n_layers=6, layer_scale=0.3)

    def build(self):
        self.encode, self.norm, self.decode = nn.Conv1d(1, self.cfg.dim, 8, stride=8), nn.LayerNorm(self.cfg.dim), nn.ConvTranspose1d(self.cfg.dim, 1, 8, stride=8)

    def block(self, i):
        return EncoderBlock(self.cfg, attn=WindowAttention)

    def forward(self, wave):
        x = self.encode(wave).mT
        return self.decode(self.norm(self.trunk(x)).mT)


# ------------------------------------------------------------------ satellites over time
class SeasonVit(Trunk):
    """Pictures of several days; the day is added again in front of each layer."""

    cfg = TransformerConfig(n_layers=4, causal=False)

    def build(self):
        d = self.cfg.dim
        self.patch_embed, self.day, self.norm, self.head = nn.Conv2d(6, d, 4, stride=4), nn.Linear(8, d), nn.LayerNorm(d), nn.Linear(d, 5)

    def trunk(self, x, when):
        for blk in self.blocks:
            x = blk(x + when)
        return x

    def forward(self, frames, days):
        b, t = frames.shape[:2]
        x = self.patch_embed(frames.flatten(0, 1)).flatten(2).mT
        p = x.shape[1]
        angle = 2 * math.pi * days[..., None] * torch.arange(1, 5, device=days.device, dtype=days.dtype)
        when = self.day(torch.cat((angle.sin(), angle.cos()), dim=-1)).repeat_interleave(p, dim=1)
        x = self.trunk(x.reshape(b, t * p, -1), when)
        return self.head(self.norm(x).mean(dim=1))


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "VisionLanguageModel": dict(_M, depth=6, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, and a norm in front of the head."),
    "VisionLanguageModelEcho": dict(kind="model", depth=6, identity_gain=2.0 ** 6, growth_fixed="exponential", growth_all="exponential", softmax=True, **_OPEN, sound=False, why="blocks have skips and the loop adds the stream again: twice the stream in each block."),
    "SwitchLm": dict(_M, depth=6, **_TWO, **_OPEN, sound=True, why="pre-norm; the router's share, of a norm, is on the branch."),
    "BytePatchLm": dict(_M, depth=6, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm over patches."),
    "ProteinEncoder": dict(_M, depth=8, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; rotations keep lengths."),
    "ProteinEncoderRenorm": dict(kind="model", depth=8, growth_fixed="bounded", growth_all="bounded", softmax=True, **_TWO, **_OPEN, sound=False, why="the last norm is put on the stream behind each block."),
    "SpliceModel": dict(_M | dict(softmax=False), depth=8, output_bounded={0: False}, sound=True, why="pre-norm by norms of the batch."),
    "PurchaseModel": dict(_M | dict(softmax=False), depth=4, **_TWO, sound=True, why="pre-norm; recurrences are linear in the norm and decay."),
    "TableTransformerBare": dict(kind="model", depth=4, growth_fixed="exponential", softmax=True, **_TWO, **_OPEN, sound=False, why="norms are built and never called: values and nets are of the raw stream."),
    "BackcastForecaster": dict(kind="model", depth=6, identity_gain=1.0, growth_fixed="exponential", softmax=False, output_bounded={0: False}, why="no norm: a net of the raw past is taken off."),
    "WaveVocoder": dict(kind="model", depth=8, identity_gain=0.5 ** 4, growth_fixed="bounded", softmax=False, output_bounded={0: False}, why="the root of a half in each layer, and branches are maps of tanh times sigmoid."),
    "FusionTracker": dict(kind="model", depth=4, identity_gain=0.5 ** 4, growth_fixed="bounded", softmax=True, output_bounded={0: False}, **_OPEN, sound=False, why="half of the stream is left by each layer."),
    "CodecTransformer": dict(_M, depth=6, **_TWO, **_OPEN, sound=True, why="pre-norm; factors are on branches."),
    "SeasonVit": dict(_M, depth=4, why="pre-norm; a constant is added in each layer."),
}
