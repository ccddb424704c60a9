"""Whole models that read token ids: heads of several kinds, embeddings by layer, early exits, tokens ahead, caps, widths that were tuned small."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

V, D, T, H = 64, 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randint(0, V, (2, T), generator=torch.Generator().manual_seed(0)),)


@dataclass
class Config:
    vocab_size: int = V
    hidden: int = D
    heads: int = H
    layers: int = 8
    init_std: float = 0.02
    softcap: float | None = None
    tie: bool = True


class Attention(nn.Module):
    def __init__(self, cfg, qk_norm=False, scale=None):
        super().__init__()
        self.cfg, self.scale = cfg, scale
        self.c_attn, self.c_proj = nn.Linear(cfg.hidden, 3 * cfg.hidden, bias=False), nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.q_norm, self.k_norm = (nn.RMSNorm(cfg.hidden // cfg.heads) if qk_norm else nn.Identity() for _ in range(2))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (u.view(b, t, self.cfg.heads, -1).transpose(1, 2) for u in (q, k, v))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=True, scale=self.scale)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(cfg.hidden, 2 * cfg.hidden), nn.Linear(2 * cfg.hidden, cfg.hidden)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, cfg, post=False, **kw):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.RMSNorm(cfg.hidden), nn.RMSNorm(cfg.hidden), Attention(cfg, **kw), Net(cfg)
        self.post_1, self.post_2 = (nn.RMSNorm(cfg.hidden) if post else nn.Identity() for _ in range(2))

    def forward(self, x):
        x = x + self.post_1(self.attn(self.ln_1(x)))
        return x + self.post_2(self.mlp(self.ln_2(x)))


class LM(nn.Module):
    """Embedding, blocks, norm, head."""

    kw: dict = {}

    def __init__(self, n=None, **over):
        super().__init__()
        self.cfg = cfg = Config(**over)
        self.n = n = n or cfg.layers
        self.wte = nn.Embedding(cfg.vocab_size, cfg.hidden)
        self.h = nn.ModuleList([Block(cfg, **self.kw) for _ in range(n)])
        self.ln_f, self.lm_head = nn.RMSNorm(cfg.hidden), nn.Linear(cfg.hidden, cfg.vocab_size, bias=False)
        self.apply(self._init)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, std=cfg.init_std / math.sqrt(2 * n))
        if cfg.tie:
            self.lm_head.weight = self.wte.weight

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=self.cfg.init_std)
            if getattr(m, "bias", None) is not None:
                nn.init.zeros_(m.bias)

    def features(self, x):
        for block in self.h:
            x = block(x)
        return x

    def head(self, x):
        logits = self.lm_head(self.ln_f(x))
        c = self.cfg.softcap
        return logits if c is None else c * torch.tanh(logits / c)

    def forward(self, ids):
        return self.head(self.features(self.wte(ids)))


class PlainTied(LM):
    """GPT as everyone writes it."""


class CappedPeri(LM):
    """Peri-norm, QK-norm, a cap of thirty on the logits."""

    kw = dict(post=True, qk_norm=True)

    def __init__(self, n=None):
        super().__init__(n, softcap=30.0)


class NoFinalNorm(LM):
    """The head reads the stream as it is."""

    def head(self, x):
        return self.lm_head(x)


class TunedWidth(LM):
    """Maximal update: logits over the width's multiple, attention over the head's width, hidden maps by one over the root of the width."""

    kw = dict(scale=1 / HD)

    def __init__(self, n=None):
        super().__init__(n, tie=False)
        self.width_mult = D / 8
        for name, p in self.h.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 * self.width_mult ** -0.5)
        nn.init.zeros_(self.lm_head.weight)

    def head(self, x):
        return self.lm_head(self.ln_f(x)) / self.width_mult


class EmbeddingByLayer(LM):
    """Each layer adds a gated part of an embedding table of its own; a norm stands behind it."""

    def __init__(self, n=None):
        super().__init__(n)
        self.tables = nn.Embedding(V, self.n * 8)
        self.gates = nn.ModuleList(nn.Linear(D, 8, bias=False) for _ in range(self.n))
        self.ups = nn.ModuleList(nn.Linear(8, D, bias=False) for _ in range(self.n))
        self.norms = nn.ModuleList(nn.RMSNorm(D) for _ in range(self.n))

    def features(self, x, ids=None):
        ids = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2]) if ids is None else ids
        per = self.tables(ids).unflatten(-1, (self.n, 8))
        for i, block in enumerate(self.h):
            x = block(x)
            x = x + self.norms[i](self.ups[i](F.gelu(self.gates[i](x)) * per[:, :, i]))
        return x

    def forward(self, ids):
        return self.head(self.features(self.wte(ids), ids))


class ExitEverywhere(LM):
    """The head reads the state of every layer; the mean of all logits is what is given."""

    def forward(self, ids):
        x, exits = self.wte(ids), []
        for block in self.h:
            x = block(x)
            exits.append(self.head(x))
        return torch.stack(exits).mean(dim=0)


class TokenAhead(LM):
    """One more block for the token after the next: the state and the next token's embedding, both normed, are joined by a map; the head is shared."""

    def __init__(self, n=None):
        super().__init__(n)
        self.norm_h, self.norm_e, self.join, self.extra = nn.RMSNorm(D), nn.RMSNorm(D), nn.Linear(2 * D, D, bias=False), Block(self.cfg)

    def forward(self, ids):
        emb = self.wte(ids)
        x = self.features(emb)
        ahead = self.extra(self.join(torch.cat((self.norm_h(x[:, :-1]), self.norm_e(emb[:, 1:])), dim=-1)))
        return self.head(x), self.head(ahead)


class TwoTowers(nn.Module):
    """Two encoders of ids; cosines of their means times the exponential of a number."""

    def __init__(self, n=None):
        super().__init__()
        self.a, self.b = LM(n), LM(n)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    @staticmethod
    def one(tower, ids):
        return F.normalize(tower.ln_f(tower.features(tower.wte(ids))).mean(1), dim=-1)

    def features(self, x):
        return self.a.features(x)

    def forward(self, ids):
        left, right = self.one(self.a, ids[:, : T // 2]), self.one(self.b, ids[:, T // 2:])
        return self.logit_scale.exp() * left @ right.t()


class LoopedPosition(LM):
    """Embeddings of places are added before every block, as an indent put it."""

    def __init__(self, n=None):
        super().__init__(n)
        self.wpe = nn.Parameter(0.02 * torch.randn(T, D))

    def features(self, x):
        for block in self.h:
            x = block(x + self.wpe[: x.shape[1]])
        return x


class EmbeddingEveryBlock(LM):
    """The token's embedding, and not the place's, is added before every block."""

    def __init__(self, n=None):
        super().__init__(n or 24)

    def features(self, x):
        first = x
        for block in self.h:
            x = block(x + first)
        return x


_LIN = dict(kind="model", growth_fixed="linear", softmax=True)
_PRE = dict(_LIN, identity_gain=1.0, logits_bounded={0: False})
TRUTH = {
    "PlainTied": dict(_PRE, depth=8, why="pre-norm."),
    "CappedPeri": dict(_LIN, identity_gain=1.0, growth_all="linear", logits_bounded={0: True}, depth=8, why="peri; QK-norm."),
    "NoFinalNorm": dict(_PRE, depth=8, why="pre-norm, whatever the head reads."),
    "TunedWidth": dict(_PRE, depth=8, why="pre-norm."),
    "EmbeddingByLayer": dict(_PRE, why="pre-norm; what is added beside is normed."),
    "ExitEverywhere": dict(_PRE, why="pre-norm."),
    "TokenAhead": dict(_LIN, logits_bounded={0: False}, why="pre-norm; of the joint no word."),
    "TwoTowers": dict(_LIN, logits_bounded={0: False}, why="two pre-norm streams."),
    "LoopedPosition": dict(_PRE, why="a constant a block."),
    "EmbeddingEveryBlock": dict(_LIN, identity_gain=25.0, logits_bounded={0: False}, why="one more at each of 24 blocks."),
}
