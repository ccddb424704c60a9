"""Small models of words: what they say before training, from the graph alone and from real weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.calculi.meanfield.covariance_models import FUSED, HEAD

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = Attention(), MLP()
        self.one, self.two = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        {body}
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.final = nn.Embedding(VOCAB, D), nn.ModuleList(Block() for _ in range(6)), {final}
        self.head = nn.Linear(D, VOCAB, bias=False)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0.0, {std})
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.normal_(self.embed.weight, 0.0, {table})
        {more}

    def forward(self, ids):
        x = {embed}
        for block in self.blocks:
            x = block(x)
        z = self.head(self.final(x))
        return {out}
"""
PRE = "x = x + self.attention(self.one(x)); x = x + self.mlp(self.two(x))"
POST = "x = self.one(x + self.attention(x)); x = self.two(x + self.mlp(x))"
TIED = "self.head.weight = self.embed.weight"
FAN_IN = "1 / math.sqrt(m.in_features)"
LAST = "nn.LayerNorm(D)"


def _model(body: str, more: str = "pass", std: str = FAN_IN, table: str = "1.0", final: str = LAST, embed: str = "self.embed(ids)", out: str = "z",
           attention: str = "") -> str:  # fmt: skip
    head = HEAD.replace("VOCAB = 12, 512", "VOCAB = 12, 512")
    parts = FUSED.replace("scaled_dot_product_attention(q, k, v)", f"scaled_dot_product_attention(q, k, v{attention})")
    text = MODEL.replace("{body}", body.replace("; ", "\n        ")).replace("{more}", more).replace("{std}", std).replace("{table}", table)
    return head + parts + text.replace("{final}", final).replace("{embed}", embed).replace("{out}", out)


WORDS: dict[str, str] = {
    "untied": _model(PRE),
    "untied, large head": _model(PRE, "nn.init.normal_(self.head.weight)"),
    "tied": _model(PRE, TIED),
    "tied, small": _model(PRE, TIED, table="0.02"),
    "tied, 0.1": _model(PRE, TIED, table="0.1"),
    "tied, 0.3, post": _model(POST, TIED, std="0.05", table="0.3"),
    "tied, scaled": _model(PRE, TIED, table="0.06", embed="self.embed(ids) * math.sqrt(D)"),
    "tied, divided": _model(PRE, TIED, out="z / math.sqrt(D)"),
    "tied, capped": _model(PRE, TIED, table="0.3", out="30 * torch.tanh(z / 30)"),
    "tied, no norm": _model(PRE, TIED, table="0.2", final="nn.Identity()"),
    "tied, twice": _model("x = x + x; " + PRE, TIED, table="0.2"),
    "tied, minus": _model("x = self.two(self.mlp(x) - x)", TIED, table="0.2", std="0.02").replace("self.mlp(x) - x", "0.1 * self.mlp(x) - x"),
    "all of variance one": _model(PRE, std="1.0"),
    "no scale": _model(PRE, attention=", scale=1.0"),
    "large queries": _model(POST, std="0.2"),
}
"""Name -> source of a module that holds `Model`."""


@contextmanager
def _logits() -> Iterator[list[float]]:
    """√(mean u²) of the logits of every attention that runs."""
    found: list[float] = []
    real = F.scaled_dot_product_attention

    def spy(q: Tensor, k: Tensor, v: Tensor, **settings: Any) -> Tensor:
        scale = settings.get("scale") or 1 / math.sqrt(q.shape[-1])
        found.append(float((q @ k.transpose(-2, -1) * scale).square().mean().sqrt()))
        return real(q, k, v, **settings)

    F.scaled_dot_product_attention = spy
    try:
        yield found
    finally:
        F.scaled_dot_product_attention = real


def seen_in(source: str, seed: int, tokens: int = 32) -> tuple[float, list[float]]:
    """(mean cross-entropy with random labels, rms of the logits of each attention) of the real model in float64."""
    torch.manual_seed(seed)
    space: dict[str, Any] = {}
    exec(compile(source, "model.py", "exec"), space)
    model = space["Model"]().double().eval()
    with _logits() as found, torch.no_grad():
        ids = torch.stack([torch.randperm(512)[:tokens] for _ in range(8)])
        out = model(ids)
        loss = -F.log_softmax(out, -1).mean()  # over all labels alike
    return float(loss), found
