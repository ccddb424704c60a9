"""A cap of logits that stands in a buffer: training does not change it, and how large it is is not told."""

from __future__ import annotations

import pytest

from screen.rule import Example
from screen.testing import facts_of
from screen.verdict.discover import catalogue

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        CAP

    def forward(self, x):
        y = self.norm(x)
        logits = self.q(y) @ self.k(y).transpose(-2, -1)
        logits = torch.tanh(logits / self.cap) * self.cap
        return x + self.o(logits.softmax(-1) @ self.v(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(3)), nn.LayerNorm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
RULES = {r.rule.code: r for r in catalogue().rules}


@pytest.mark.parametrize(("cap", "said", "unsaid"), [
    ('self.register_buffer("cap", torch.tensor(50.0))', "cap`, which does not train", "nothing limits"),
    ("self.cap = nn.Parameter(torch.tensor(50.0))", "nothing limits it", "does not train"),
])  # fmt: skip
def test_a_stored_cap_is_no_gain(cap: str, said: str, unsaid: str) -> None:
    found = [o.message for o in RULES["L201"].check(facts_of(Example("cap", MODEL.replace("CAP", cap)))) if o.result == "holds"]
    assert found and all(said in message and unsaid not in message for message in found), found
