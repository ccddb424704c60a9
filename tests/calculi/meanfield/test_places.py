"""How many tokens the recursion stands for: no more than the model has places for."""

from __future__ import annotations

import pytest

from screen.calculi.meanfield import Recursion
from screen.rule import Example
from screen.testing import facts_of

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 32)
        TABLE
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, ids):
        x = self.words(ids)
        x = x + PLACE
        for block in self.blocks:
            x = block(x)
        return x
"""


@pytest.mark.parametrize(
    ("table", "place", "tokens"),
    [
        ("self.places = nn.Embedding(16, 32)", "self.places(torch.arange(ids.shape[1]))", 16),
        ("self.places = nn.Embedding(18, 32)", "self.places(torch.arange(2, ids.shape[1] + 2))", 18),
        ("self.places = nn.Parameter(torch.randn(1, 16, 32))", "self.places[:, :ids.shape[1]]", 16),
        ("self.places = nn.Embedding(512, 32)", "self.places(torch.arange(ids.shape[1]))", 64),
        ("self.kinds = nn.Embedding(2, 32)", "self.kinds(torch.zeros_like(ids))", 64),
        ("self.kinds = nn.Embedding(20, 32)", "self.kinds(ids % 20)", 64),
        ("self.bias = nn.Parameter(torch.randn(32))", "self.bias", 64),
    ],
)  # fmt: skip
def test_a_table_of_places_bounds_the_tokens(table: str, place: str, tokens: int) -> None:
    source = MODEL.replace("TABLE", table).replace("PLACE", place)
    found = facts_of(Example("", source, inputs=("ids=int64[2,16]",))).recursions[0]
    assert isinstance(found, Recursion)
    assert found.assumptions[0].startswith(f"{tokens} tokens"), found.assumptions
