"""Sizes that a model may be judged without: how many rows a table has, or a last map, and places in tables."""

from __future__ import annotations

from typing import Any

import pytest

from screen.errors import ScreenError

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

TABLES = """
class Net(Base):
    def __init__(self, vocab_size, num_classes: int, max_len):
        super().__init__(vocab=vocab_size)
        self.places = nn.Parameter(torch.zeros(1, max_len, 24))
        self.head = nn.Linear(24, num_classes)

    def extra(self, x):
        return x + self.places[:, : x.shape[1]]
"""


def test_numbers_of_rows_are_taken_and_said(write: Any) -> None:
    (b,) = built(write(TABLES))
    assert runs(b) == "" and b.info.changed == {"vocab_size": [None, 37000], "num_classes": [None, 1000], "max_len": [None, 512]}
    assert b.supplied == {"vocab_size": 37000, "num_classes": 1000, "max_len": 512}
    assert b.info.notes == (
        "nobody states `vocab_size=37000`, `num_classes=1000`, `max_len=512`, taken here: "
        "of the weights only the rows of `embed.weight`, `head.weight`, `head.bias` and 1 more depend on it",
    )


def test_a_sentinel_is_no_number_of_rows(write: Any) -> None:
    source = """
    from dataclasses import dataclass

    @dataclass
    class Args:
        dim: int = 24
        vocab: int = -1

    class Net(Base):
        def __init__(self, args: Args):
            super().__init__(args.dim, vocab=args.vocab)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and b.info.changed == {"args.vocab": [-1, 37000]} and b.model.embed.num_embeddings == 37000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "body",
    [
        "super().__init__(n=n_tokens // 1000)",  # a depth
        "super().__init__(); self.bank = nn.Parameter(torch.zeros(n_tokens // 1000, 24, 24))",  # layers in one tensor
        "super().__init__(); self.mix = nn.Sequential(nn.Linear(24, n_tokens), nn.Linear(n_tokens, 24))",  # a width inside
        "super().__init__(); self.scales = nn.Parameter(torch.ones(n_tokens))",  # one number each
    ],
)
def test_what_is_called_one_and_is_another_size_is_not_taken(write: Any, body: str) -> None:
    with pytest.raises(ScreenError, match=r"needs `n_tokens`.*`screen check model.py::Net --set n_tokens=37000`"):
        built(write(f"class Net(Base):\n    def __init__(self, n_tokens):\n        {body}\n"))


def test_an_index_that_a_forward_asks_for_is_taken(write: Any) -> None:
    source = """
    def marked(ids, pad):
        return (ids == pad).unsqueeze(-1)

    class Net(Base):
        def __init__(self, n_vocab, pad_idx=None):
            super().__init__(vocab=n_vocab)
            self.pad_idx = pad_idx

        def forward(self, ids):
            return self.body(self.embed(ids)).masked_fill(marked(ids, self.pad_idx), 0.0)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and b.supplied == {"n_vocab": 37000, "pad_idx": 1}
    assert "nobody states `pad_idx=1`, taken here" in b.info.notes


def test_a_width_that_a_forward_asks_for_is_not_taken(write: Any) -> None:
    source = """
    class Net(Base):
        def __init__(self, n_heads=None):
            super().__init__()
            self.n_heads = n_heads

        def extra(self, x):
            return x.view(*x.shape[:2], self.n_heads, -1).flatten(2)
    """
    (b,) = built(write(source))
    assert runs(b) and any("`n_heads` is None, which model.py:" in note for note in b.info.notes) and b.supplied == {}
