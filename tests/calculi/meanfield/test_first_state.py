"""What tokens have in common of the stream's first state: one row of a table for all of them, stored positions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from screen.calculi.meanfield import TOKENS
from screen.calculi.meanfield.result import Recursion
from screen.rule import Example
from screen.testing import facts_of

SOURCE = """
import math
import torch
from torch import nn

D = 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        for m in (self.up, self.down):
            nn.init.normal_(m.weight, 0.0, 1e-4)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.n(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.kinds, self.one = nn.Embedding(500, D), nn.Embedding({rows}, D), 0
        self.register_buffer("zeros", torch.zeros(1, 512, dtype=torch.long), persistent=False)
        self.register_buffer("mixed", torch.arange(512)[None] % 2, persistent=False)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        {more}

    def forward(self, ids):
        x = self.words(ids)
        {body}
        for block in self.blocks:
            x = block(x)
        return x
"""
PICKED = "x = x + self.kinds(torch.gather(self.zeros.expand(ids.shape[0], -1), 1, torch.arange(ids.shape[1]).expand(ids.shape)))"
COMMON = {
    "a buffer of zeros": (2, "x = x + self.kinds(self.zeros[:, :ids.shape[1]])"),
    "entries picked from a buffer of zeros": (2, PICKED),
    "zeros like the ids": (2, "x = x + self.kinds(torch.zeros_like(ids))"),
    "new ones, expanded": (2, "x = x + self.kinds(ids.new_ones(1, 1).expand(ids.shape))"),
    "full of a number": (2, "x = x + self.kinds(torch.full(ids.shape, 1))"),
    "a table of one row": (1, "x = x + self.kinds(ids * 0)"),
}
APART = {
    "positions": (512, "x = x + self.kinds(torch.arange(ids.shape[1])[None].expand(ids.shape))"),
    "a buffer of two numbers": (512, "x = x + self.kinds(self.mixed[:, :ids.shape[1]])"),
    "ids": (512, "x = x + self.kinds(ids)"),
    "sums of ids": (512, "x = x + self.kinds(ids.cumsum(1))"),
}


def said_of(rows: int, body: str, more: str = "pass") -> Recursion:
    source = SOURCE.replace("{rows}", str(rows)).replace("{body}", body).replace("{more}", more)
    facts = facts_of(Example("model", source, inputs=("ids=int64[2,16]",)))
    found = facts.recursion(facts.streams[0])
    assert isinstance(found, Recursion)
    return found


@pytest.mark.parametrize("name", COMMON)
def test_one_row_for_all_tokens_is_what_they_have_in_common(name: str) -> None:
    """Two tables with the same deviation, one of which gives all tokens one row: half of the mean square is common, 1 − cos is ½."""
    assert said_of(*COMMON[name]).one_minus_cos == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("name", APART)
def test_rows_that_differ_are_independent(name: str) -> None:
    assert said_of(*APART[name]).one_minus_cos == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("rows", [2, 5])
def test_ids_of_few_rows_share_as_many_as_they_must(rows: int) -> None:
    """Of 64 tokens on V rows, each row as often as another, a share (64/V − 1)/63 of all pairs has one row."""
    ids = torch.arange(TOKENS) % rows
    pairs = float((ids[:, None] == ids).sum() - TOKENS) / (TOKENS * (TOKENS - 1))
    assert said_of(rows, "x = self.kinds(ids)").one_minus_cos == pytest.approx(1 - pairs, abs=0.02)


def test_stored_positions_count_for_as_many_tokens_as_the_recursion_has() -> None:
    """Sines of 64 positions have more in common than those of 256; the table itself says how much."""
    angles = torch.arange(512)[:, None] * torch.exp(torch.arange(0, 64, 2) * (-math.log(1e4) / 64))
    table = torch.cat([angles.sin(), angles.cos()], 1)
    more = 'angles = torch.arange(512)[:, None] * torch.exp(torch.arange(0, D, 2) * (-math.log(1e4) / D)); ' \
        'self.register_buffer("sines", torch.cat([angles.sin(), angles.cos()], 1), persistent=False); ' \
        'nn.init.normal_(self.words.weight, 0.0, 0.1)'
    x = table[:TOKENS].double()
    shared = float((x @ x.T).sum() - x.square().sum()) / (TOKENS * (TOKENS - 1) * 64)
    expected = 1 - shared / (float(x.square().mean()) + 0.01)
    assert said_of(2, "x = x + self.sines[: ids.shape[1]]", more).one_minus_cos == pytest.approx(expected, abs=0.01)


def test_the_share_is_that_of_a_model_of_words() -> None:
    """Words, one kind for all and positions, each 0.02, behind a norm: 1 − cos is 2/3, as in three such models."""
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        words, kinds, places = (nn.Embedding(n, 256, dtype=torch.float64) for n in (500, 2, TOKENS))
        with torch.no_grad():
            x = words(torch.randperm(500)[:TOKENS]) + kinds(torch.zeros(TOKENS, dtype=torch.long)) + places(torch.arange(TOKENS))
            u = nn.functional.layer_norm(x, (256,)) / 16
            found.append(1 - float((u @ u.T).sum() - TOKENS) / (TOKENS * (TOKENS - 1)))
    body = "x = nn.functional.layer_norm(x + self.kinds(torch.zeros_like(ids)) + self.places(torch.arange(ids.shape[1])), (D,))"
    said = said_of(2, body, "self.places = nn.Embedding(512, D)").one_minus_cos
    assert said == pytest.approx(2 / 3, abs=0.01)
    assert said == pytest.approx(sum(found) / 3, abs=0.05)
