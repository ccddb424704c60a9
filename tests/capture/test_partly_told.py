"""What an author's project says of a model in several places, and what it leaves to its data: an option, a table of it, a star, a length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from screen.capture.build.needs import Needs
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

SETTINGS = """
class Net(Base):
    def __init__(self, cfg):
        super().__init__(cfg["width"], cfg["depth"], cfg["vocab_size"])

def main():
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    words = open("words.txt").read().split()
    SETTINGS = {"width": args.width, "depth": 1 if args.plain else 2 * args.pairs, "vocab_size": len(words)}
    net = Net(SETTINGS)
"""
TEST = "from model import Net\nSMALL = {'width': 8, 'depth': 1, 'vocab_size': 11}\nNet(SMALL)\n"


def test_a_table_of_the_command_line_says_what_can_be_told_of_it(write: Any, tmp_path: Path) -> None:
    (tmp_path / "test_net.py").write_text(TEST)
    (b,) = built(write(SETTINGS))
    assert runs(b) == "" and (b.model.embed.embedding_dim, len(b.model.maps)) == (48, 4)  # type: ignore[union-attr, arg-type]
    assert b.info.changed["cfg"] == [None, "SETTINGS"] and b.supplied == {"cfg.vocab_size": 37000}


def test_an_option_in_arithmetic_is_told(write: Any, tmp_path: Path) -> None:
    line = "import argparse\nparser = argparse.ArgumentParser()\n"
    line += "parser.add_argument('--width', default=16)\nparser.add_argument('--ratio', default=3)\n"
    (tmp_path / "train.py").write_text(f"from model import Net\n{line}args = parser.parse_args()\nNet(args.width * args.ratio, n=2)\n")
    (b,) = built(write("class Net(Base):\n    def __init__(self, d, n):\n        super().__init__(d, n)\n"))
    assert (b.model.embed.embedding_dim, len(b.model.maps)) == (48, 2)  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("circle", ["", "from train import *\n"])
def test_stars_of_stars_are_followed(write: Any, tmp_path: Path, circle: str) -> None:
    (tmp_path / "sizes.py").write_text(f"{circle}WIDTH = 40\nDEPTH = 3\n")
    (tmp_path / "data.py").write_text("from sizes import *\nrows = load()\n")
    (tmp_path / "train.py").write_text("from data import *\nfrom model import Net\nnet = Net(d=WIDTH, n=DEPTH, vocab=rows)\n")
    (b,) = built(write("class Net(Base):\n    def __init__(self, d, n, vocab):\n        super().__init__(d, n, vocab)\n"))
    assert (b.model.embed.embedding_dim, len(b.model.maps)) == (40, 3)  # type: ignore[union-attr, arg-type]
    assert b.supplied == {"vocab": 37000}


COMPUTED = """
class Net(Base):
    def __init__(self, vocab_size, max_len):
        super().__init__(vocab=vocab_size)
        self.register_buffer("places", torch.arange(max_len)[:, None] / torch.arange(1, 25))
        self.register_buffer("mask", torch.ones(max_len, max_len).tril())

    def extra(self, x):
        return x + self.places[: x.shape[1]] * self.mask[0, : x.shape[1], None]
"""


def test_a_length_that_only_constants_have_is_taken(write: Any) -> None:
    (b,) = built(write(COMPUTED))
    assert runs(b) == "" and b.supplied == {"vocab_size": 37000, "max_len": 512}


@pytest.mark.parametrize("shared", [True, False])
def test_a_table_in_whose_place_another_is_put_is_free(write: Any, shared: bool) -> None:
    text = """
    class Net(Base):
        def __init__(self, vocab_size, n_words):
            super().__init__(vocab=vocab_size)
            self.other = nn.Embedding(n_words, 24) if SHARED else self.embed
            self.other.weight = self.embed.weight
    """
    (b,) = built(write(text.replace("SHARED", str(shared))))
    assert runs(b) == "" and b.supplied == {"vocab_size": 37000, "n_words": 37000}


def test_a_length_that_nothing_but_a_number_has_is_not(write: Any) -> None:
    with pytest.raises(Needs):
        built(write("class Net(Base):\n    def __init__(self, max_len):\n        super().__init__()\n        self.steps = max_len\n"))


FLAT = """
class Flat(nn.Module):
    def __init__(self, vocab_size, block_size):
        super().__init__()
        self.rows, self.first, self.last = nn.Embedding(vocab_size, 64), nn.Linear(64 * block_size, 512), nn.Linear(512, vocab_size)

    def forward(self, ids):
        x = self.rows(ids).flatten(1)
        return self.last(torch.relu(self.first(torch.nn.functional.pad(x, (0, self.first.in_features - x.shape[1])))))

class Deep(Base):
    def __init__(self, vocab_size, block_size):
        super().__init__(8, 6, vocab_size)
        self.places = nn.Parameter(torch.zeros(block_size, 8))

    def extra(self, x):
        return x + self.places[: x.shape[1]]
"""


def test_of_several_models_the_one_with_most_parts_is_the_largest_whatever_a_length_makes_of_the_others(write: Any) -> None:
    (b,) = built(write(FLAT))
    assert b.entry == "Deep" and runs(b) == "" and any(note.startswith("not judged: `Flat` needs") for note in b.info.notes)


CONDITIONS = """
normed = 1
rate = 0.1
kind = "small"
if 1:
    width, heads = 48, 4
if normed == 0:
    scale = 0.02
if normed == 1:
    scale = 1.0 / width**0.5
if kind == "large":
    width, depth = 512, 24
else:
    depth = 2
settings = dict(width=width, heads=heads, scale=scale, depth=depth, rows=None)
plan = Plan(**settings)
net = Net(plan)
"""
PLAN = """
from dataclasses import dataclass

@dataclass
class Plan:
    width: int = 64
    heads: int = 5
    depth: int = 3
    scale: float = 1.0
    rows: int = 50

class Net(Base):
    def __init__(self, plan: Plan):
        super().__init__(plan.width, plan.depth, plan.rows)
        self.heads, self.scale = plan.heads, plan.scale

    def extra(self, x):
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).mul(self.scale).reshape(x.shape)
"""


def test_where_no_forward_runs_with_the_defaults_of_its_settings_those_that_the_author_makes_are_taken(write: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from model import Net, Plan\n" + CONDITIONS)
    (b,) = built(write(PLAN))
    assert runs(b) == "" and b.supplied == {"plan.width": 48, "plan.heads": 4, "plan.depth": 2, "plan.scale": 1.0 / 48**0.5}
    assert "its settings are those of the `Plan` of train.py:17: with its own defaults no forward runs" in b.info.notes


def test_settings_with_which_it_runs_neither_are_not_taken(write: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from model import Net, Plan\n" + CONDITIONS.replace("48, 4", "48, 7"))
    (b,) = built(write(PLAN))
    assert runs(b) and b.supplied == {} and any("ran on none" in note for note in b.info.notes)


def test_where_it_runs_with_its_own_defaults_these_stay(write: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from model import Net, Plan\n" + CONDITIONS)
    (b,) = built(write(PLAN.replace("heads: int = 5", "heads: int = 8")))
    assert runs(b) == "" and b.model.embed.embedding_dim == 64 and b.supplied == {}  # type: ignore[union-attr]


@pytest.mark.parametrize("test", ["__name__ == '__main__'", "type == 'small'", "torch.cuda.is_available()", "id"])
def test_a_condition_that_the_source_does_not_tell_hides_nothing(write: Any, tmp_path: Path, test: str) -> None:
    (tmp_path / "train.py").write_text(f"import torch\nfrom model import Net\nif {test}:\n    width = 40\n    Net(width, n=2)\n")
    (b,) = built(write("class Net(Base):\n    def __init__(self, d, n):\n        super().__init__(d, n)\n"))
    assert b.model.embed.embedding_dim == 40  # type: ignore[union-attr]
