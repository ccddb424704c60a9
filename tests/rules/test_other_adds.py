"""What is added to a stream with weights of its own and does not come from what the model reads."""

from __future__ import annotations

import pytest

from screen.rule import Example
from screen.testing import facts_of
from screen.verdict.discover import run_rules

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.table, self.map = nn.Parameter(torch.randn(8, 32)), nn.Linear(32, 32)

    def forward(self, x):
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return OTHER

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
OTHERS = {
    "x + self.map(self.table)": True, "x - torch.tanh(self.map(self.table))": True, "x": False,
    "x + self.map(x.mean(1, keepdim=True)) * self.table": False,
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_a_sum_or_a_difference_that_no_input_comes_to_is_named(other: str) -> None:
    facts = facts_of(Example("", MODEL.replace("OTHER", other), ("x=float32[2,8,32]",)))
    found = [f.outcome for f in run_rules(facts).findings if f.rule.name == "branch-reads-stream"]
    named = [o for o in found if o.result == "violated" and "has weights and depends on no input" in o.message]
    assert bool(named) is OTHERS[other]
