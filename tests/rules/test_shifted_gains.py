"""A gain that is stored as its distance from one, as Gemma's norms do: `(1 + w) · x/rms(x)`, with w starting at 0."""

from __future__ import annotations

import pytest

from screen.report.build_calculi import symbol_parts
from screen.rule import Example
from screen.testing import facts_of
from screen.verdict.discover import catalogue

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1.0 + self.weight.float())).type_as(x)


class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.before, self.after, self.q_norm, self.k_norm = norm, Norm(32), Norm(8), Norm(8)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))

    def forward(self, x):
        b, n, _ = x.shape
        y = self.before(x)
        q, k, v = (m(y).view(b, n, 4, 8).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=True)
        return x + self.after(self.o(y.transpose(1, 2).reshape(b, n, 32)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        norm = Norm(32)
        self.blocks, self.norm = nn.ModuleList(Block(NORM) for _ in range(3)), Norm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
RULES = {r.rule.code: r for r in catalogue().rules}


@pytest.mark.parametrize(("norm", "said"), [("Norm(32)", "4 gains of norms serve in one place each"), ("norm", "is the gain of 3 norms on streams")])
def test_it_is_a_gain_of_its_norm(norm: str, said: str) -> None:
    outcomes = RULES["G125"].check(facts_of(Example("gains", MODEL.replace("NORM", norm))))
    assert any(said in o.message for o in outcomes), outcomes


WRITTEN = MODEL.replace("torch.zeros(width)", "torch.ones(width)").replace("(y * (1.0 + self.weight.float())).type_as(x)", "WHAT")
WITHIN = "self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)"
BEFORE = "(self.weight * x) / ((self.weight * x).std(-1, keepdim=True) + 1e-6)"


@pytest.mark.parametrize(("what", "said"), [(WITHIN, "is the gain of 3 norms on streams"), (BEFORE, "no norm with a gain stands on a stream")])
def test_a_gain_may_stand_before_the_division(what: str, said: str) -> None:
    """`g * (x - μ) / σ` multiplies from the left: it was told that no norm has a gain. What multiplies all that is normed is none."""
    outcomes = RULES["G125"].check(facts_of(Example("gains", WRITTEN.replace("WHAT", what).replace("NORM", "norm"))))
    assert any(said in o.message for o in outcomes), outcomes


def test_what_a_bound_is_made_of_is_the_gain_and_not_what_is_stored() -> None:
    """All w are 0 at the start, where the bound of the logits is √8 and not 0."""
    facts = facts_of(Example("gains", MODEL.replace("NORM", "Norm(32)")))
    sublayer = facts.streams[0].kinds[0].sublayers[0]
    meanings = [m for s, m in symbol_parts(facts, sublayer).items() if s.endswith("_abs")]
    assert meanings
    assert all(m.endswith(".weight + 1") for m in meanings)
    [outcome] = RULES["L201"].check(facts)
    assert "`blocks.0.q_norm.weight` + 1 and `blocks.0.k_norm.weight` + 1: at most 2.83 with their entries at 1" in outcome.message
