"""What channel L says is of those logits that nothing bounds: of routers and poolings it does not speak as of attention."""

from __future__ import annotations

from pathlib import Path

import pytest

import screen
from screen.recipe import Recipe
from screen.report import words
from screen.report.answer import answer
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.qn, self.kn = NORM, NORM

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(self.qn(q), self.kn(k), v).transpose(1, 2).flatten(2))


class Experts(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.choose = nn.Linear(d, 4)
        self.each = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d)) for _ in range(4))

    def forward(self, x):
        share = self.choose(x).softmax(-1)
        return sum(share[..., i, None] * expert(x) for i, expert in enumerate(self.each))


class Pooled(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weigh, self.out = nn.Linear(d, 1), nn.Linear(d, d)

    def forward(self, x):
        return self.out((self.weigh(x).softmax(1) * x).sum(1, keepdim=True)).expand_as(x)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.one, self.two, self.mix, self.rest = nn.RMSNorm(d), nn.RMSNorm(d), Attention(d), REST(d)

    def forward(self, x):
        x = x + self.mix(self.one(x))
        return x + self.rest(self.two(x))


class Net(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.blocks, self.end = nn.Sequential(*(Block(d) for _ in range(4))), nn.RMSNorm(d)

    def forward(self, x):
        return self.end(self.blocks(x))


def build_model():
    return Net()


example_inputs = (torch.zeros(2, 8, 32),)
"""


def report(tmp_path: Path, rest: str, norm: str, recipe: Recipe | None = None) -> Report:
    file = tmp_path / "model.py"
    file.write_text(MODEL.replace("REST", rest).replace("NORM", norm))
    return screen.check(f"{file}:build_model", isolate=False, recipe=recipe)


NORMED, PLAIN = "nn.RMSNorm(d // 2)", "nn.Identity()"
ROUTER, POOLING, ATTENTION = (words.LOGITS[f"bounded-{of}"] for of in ("router", "pooling", "logits"))


@pytest.mark.parametrize(
    "rest, norm, told",
    [("Experts", NORMED, [ROUTER]), ("Pooled", NORMED, [POOLING]), ("Experts", PLAIN, [ATTENTION, ROUTER])],
)
def test_logits_are_named_by_what_their_softmax_is_for(tmp_path: Path, rest: str, norm: str, told: list[tuple[str, str]]) -> None:
    found = report(tmp_path, rest, norm)
    said = answer(found)
    text = " ".join([said.reason, said.verdict, *said.rates, *(r.name for r in said.risks)])
    for name, what in (ROUTER, POOLING, ATTENTION):
        assert (name in text) is ((name, what) in told) and (what in text) is ((name, what) in told), (name, text)
    assert {c.against for c in said.changes} >= {name for name, _ in told}
    [channel] = [c for c in found.channels if c.id == "L"]
    assert channel.state == "conditional" and len(channel.conditions) == len(told)


def test_a_clip_of_queries_and_keys_holds_no_router(tmp_path: Path) -> None:
    clipped = Recipe(optimizer="adamw", lr=1e-3, weight_decay=0.0, qk_clip=100.0)
    states = {rest: next(c for c in report(tmp_path, rest, PLAIN, clipped).channels if c.id == "L") for rest in ("Experts", "nn.Identity")}
    assert "QK-clip" in states["nn.Identity"].reason
    found = report(tmp_path, "Experts", NORMED, clipped)
    [channel] = [c for c in found.channels if c.id == "L"]
    assert "QK-clip" not in channel.reason and (channel.risk or 0.0) > 0
    assert [c.recipe for c in found.conditions if c.id == "bounded-router"] == ["not_met"]
