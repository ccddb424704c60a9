"""Inputs of models of two sequences, both of ids, whose axes lie as `nn.Transformer` has them: sequence first, one batch size."""

from __future__ import annotations

from typing import Any

import pytest

from screen.capture.inputs.context import Lookup
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

PAIR = """
class Pair(nn.Module):
    def __init__(self, d=16, words=40):
        super().__init__()
        self.first, self.second = nn.Embedding(words, d), nn.Embedding(words + 5, d)
        self.both = nn.Transformer(d, 2, 1, 1, 32)
        self.out = nn.Linear(d, words + 5)

    def forward(self, said, meant, said_mask, meant_mask, said_padding_mask, meant_padding_mask, memory_key_padding_mask):
        x, y = self.first(said), self.second(meant)
        return self.out(self.both(x, y, said_mask, meant_mask, None, said_padding_mask, meant_padding_mask, memory_key_padding_mask))
"""


@pytest.mark.parametrize("batch_first", [False, True])
def test_ids_and_a_batch_that_two_sequences_share_are_found(write: Any, batch_first: bool) -> None:
    (b,) = built(write(PAIR if not batch_first else PAIR.replace("1, 1, 32)", "1, 1, 32, batch_first=True)")))
    assert runs(b) == ""
    said, meant = b.kwargs["said"], b.kwargs["meant"]
    assert not said.dtype.is_floating_point and said.dim() == meant.dim() == 2
    assert said.shape[not batch_first] == meant.shape[not batch_first]


def test_many_ids_cost_no_list() -> None:
    from torch import nn

    ids = Lookup(nn.Embedding(50, 4), None).ids(3, batch=2)
    assert ids.tolist() == [[3, 4, 5], [10, 11, 12]]
    assert Lookup(nn.Embedding(50, 4), None).ids(4_000_000).shape == (2, 4_000_000)
