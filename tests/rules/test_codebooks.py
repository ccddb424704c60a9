"""I203 speaks of weights that values pass as a product: not of a codebook that is searched for its nearest row and looked up."""

from __future__ import annotations

import pytest

from screen.rule import Example
from screen.testing import facts_of
from screen.verdict.discover import lookup

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, 32))

    def forward(self, x):
        place = (-2 * x @ self.table.mT + self.table.square().sum(-1)).argmin(-1)
        return x - READ
"""
ROWS = {
    "looked up": "self.table[place]",
    "by ones": "F.one_hot(place, 32).to(x.dtype) @ self.table",
    "by shares": "F.dropout(torch.softmax(x[..., :8].repeat_interleave(4, -1), -1), 0.0) @ self.table",
}
FACTORS = {
    "the products are taken off": "x @ self.table.T",
    "looked up, and multiplied beside that": "self.table[place] - x @ self.table",
    "what is looked up is multiplied": "x * (self.table[place] @ x.mT).mean(-1, keepdim=True)",
    "a product of two weights": "x @ (self.table @ self.table.T)",
    "rows weighed by a softmax of products": "torch.softmax(x @ self.table.T, -1) @ self.table",
}


def outcome(read: str) -> str:
    rule = lookup("I203")
    assert rule is not None
    [found] = rule.check(facts_of(Example("a codebook", BLOCK.replace("READ", read))))
    return found.result


@pytest.mark.parametrize("read", ROWS.values(), ids=ROWS)
def test_a_codebook_that_is_looked_up_multiplies_no_value(read: str) -> None:
    assert outcome(read) == "holds"


@pytest.mark.parametrize("read", FACTORS.values(), ids=FACTORS)
def test_a_table_that_values_pass_starts_too_large(read: str) -> None:
    assert outcome(read) == "violated"
