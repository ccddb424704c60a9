"""Blocks beyond self-attention and a plain FFN, as they are traced, against the same models with real random weights."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import pytest

from screen.facts.recursion import recursion_of
from screen.facts.recursion.result import Recursion
from screen.rule import Example
from screen.testing import facts_of
from tests.covariance_models import BLOCK, FUSED, HEAD, trained_run
from tests.covariance_stacks import geometric, number

CROSS = """
class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, y):
        q, k, v = (m(t).unflatten(-1, (H, D // H)).transpose(1, 2) for m, t in ((self.q, x), (self.k, y), (self.v, y)))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cross, self.mlp = Attention(), Cross(), MLP()
        self.one, self.two, self.three = (nn.LayerNorm(D) for _ in range(3))

    def forward(self, x, y):
        {body}
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.encoder, self.last = nn.Embedding(VOCAB, D), nn.ModuleList(Block() for _ in range(6)), nn.LayerNorm(D)
        self.blocks, self.final = nn.ModuleList(Decoder() for _ in range(DEPTH)), nn.LayerNorm(D)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0.0, {gain} / math.sqrt(m.in_features))
                nn.init.zeros_(m.bias)

    def forward(self, ids):
        x, y = self.embed(ids), self.embed(ids.flip(1) + 1)
        for block in self.encoder:
            y = block(y)
        y = {memory}
        for block in self.blocks:
            x = block(x, y)
        return self.final(x)
"""
PRE = "x = x + self.attention(self.one(x)); x = x + self.mlp(self.two(x))"
POST = "x = self.one(x + self.attention(x)); x = self.two(x + self.mlp(x))"
CROSSED = "x = x + self.attention(self.one(x)); x = x + self.cross(self.two(x), y); x = x + self.mlp(self.three(x))"
POSTED = "x = self.one(x + self.attention(x)); x = self.two(x + self.cross(x, y)); x = self.three(x + self.mlp(x))"


def _lines(body: str) -> str:
    return body.replace("; ", "\n        ")


def _crossed(encoder: str, decoder: str, memory: str, gain: float = 1.0) -> str:
    model = CROSS.replace("{body}", _lines(decoder)).replace("{memory}", memory).replace("{gain}", repr(gain))
    return HEAD + FUSED + BLOCK.replace("{body}", _lines(encoder)) + model


@dataclass(frozen=True)
class Case:
    """A source and how close the recursion comes to it."""

    source: str
    rms: float = 0.12
    cosine: float = 0.06
    ratio: float = 0.35


CASES = {
    "pre encoder and decoder": Case(_crossed(PRE, CROSSED, "self.last(y)")),
    "memory without a norm": Case(_crossed(PRE, CROSSED, "y")),
    "post encoder and decoder": Case(_crossed(POST, POSTED, "y", 0.6)),
}


def said_of(source: str, tokens: int = 32) -> Recursion:
    facts = facts_of(Example("model", source, inputs=("ids=int64[2,16]",)))
    stream = next(s for s in facts.streams if s.name in ("stream", "decoder"))
    norms = {n.node: n for n in facts.norms}
    found = recursion_of(stream, facts.graph, tokens=tokens, streams=facts.streams, norms=norms)
    assert isinstance(found, Recursion), found
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_traced_model_starts_as_its_facts_say(name: str) -> None:
    """rms, cosine between tokens and gradient ratio of the decoder, from the graph alone and from real weights of three seeds."""
    case = CASES[name]
    said, seen = said_of(case.source), [trained_run(case.source, seed) for seed in range(3)]
    for layer in (0, said.depth // 2, said.depth - 1):
        assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[layer] for s in seen), rel=case.rms)
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=case.cosine)
    assert math.log(number(said.gradient_ratio)) == pytest.approx(math.log(geometric([s.ratio for s in seen])), abs=case.ratio)
