"""What nobody states: sizes, the parts of a whole that has no forward, the dtype that a forward is written for."""

from __future__ import annotations

from typing import Any

import pytest

from screen.errors import ScreenError

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


PAIR = """
class Encoder(Base):
    def __init__(self, vocab, dropout):
        super().__init__(vocab=vocab)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 2, 32, dropout), 3)

    def body(self, x):
        return self.layers(x)

class Decoder(Encoder):
    def extra(self, x):
        return x

class Pair(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, ids):
        return self.encoder(ids)

def make(src_vocab_size, tgt_vocab_size, dropout: float):
    return Pair(Encoder(src_vocab_size, dropout), Decoder(tgt_vocab_size, dropout))
"""


def test_parts_of_a_model_without_forward_are_run_one_by_one(write: Any) -> None:
    path = write(PAIR)
    with pytest.raises(ScreenError, match=r"`screen check model.py::make --set src_vocab_size=37000 --set tgt_vocab_size=37000 --set dropout=0.1`"):
        built(path)
    sizes: dict[str, Any] = {"src_vocab_size": 37000, "tgt_vocab_size": 90, "dropout": 0.1}
    found = built(f"{path}::make", **sizes)
    assert [(b.name, b.part, b.model.embed.num_embeddings) for b in found] == [  # type: ignore[union-attr]
        ("model.py::make.encoder", "encoder", 37000), ("model.py::make.decoder", "decoder", 90),
    ]  # fmt: skip


def test_weights_are_taken_in_the_dtype_that_a_forward_is_written_for(write: Any) -> None:
    source = "class Net(Base):\n    def extra(self, x):\n        k = torch.ones(x.shape, dtype=torch.bfloat16)\n"
    source += "        return nn.functional.scaled_dot_product_attention(x, k, k)\n"
    (b,) = built(write(source))
    assert runs(b) == "" and str(b.model.embed.weight.dtype) == "torch.bfloat16"  # type: ignore[union-attr]
    assert "its weights are taken in bfloat16, without which its forward does not run" in b.info.notes


def test_the_largest_part_stands_for_a_whole_that_does_not_build(write: Any) -> None:
    source = """
    class Body(Base):
        pass

    class Sampler(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(24, 1)

        def forward(self, x):
            return self.scale(x)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = open("words-that-are-not-there.txt").read()
            self.body, self.sampler = Body(), Sampler()

        def forward(self, ids):
            return self.sampler(self.body(ids))
    """
    (b,) = built(write(source))
    assert runs(b) == "" and type(b.model).__name__ == "Body"
    assert b.info.notes[0].startswith("not judged: `Whole`: FileNotFoundError") and b.info.notes[1] == "`Body` is the largest of what it contains"


def test_what_an_author_has_without_a_kernel_takes_its_place(write: Any) -> None:
    source = """
    USE_KERNEL = True

    if USE_KERNEL:
        import a_kernel_that_is_not_there
        raise OSError("no compiler")
    else:
        def mixed(x):
            return x * 2

    open("data-that-is-not-there.txt")

    class Net(Base):
        def extra(self, x):
            return mixed(x)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and any(note.startswith("its `else` did, line ") for note in b.info.notes)


@pytest.mark.parametrize("line", ["from a_package_that_is_not_there import Words", "Words = open('words-that-are-not-there').read()"])
def test_a_part_stands_for_no_whole_that_says_what_to_give(write: Any, line: str) -> None:
    source = f"{line}\n\nclass Part(Base):\n    pass\n\nclass Whole(Base):\n    def __init__(self):\n        super().__init__()\n"
    with pytest.raises((ScreenError, ImportError), match="Words"):
        built(write(source + "        self.words, self.part = Words(), Part()\n"))


def test_a_part_without_weights_stands_for_no_whole(write: Any) -> None:
    source = "class Part(nn.Module):\n    def forward(self, x):\n        return x\n\n"
    source += "class Whole(Base):\n    def __init__(self):\n        super().__init__()\n"
    with pytest.raises(AssertionError, match="no table"):
        built(write(source + "        self.part = Part()\n        assert self is None, 'no table'\n"))


LISTED = '''
from typing import List


class Splits(Base):
    """Args:
        parts (List[str]): what is split off, of these words:
            ``"voice"``, ``"piano"``.
        vocab (int): how many "words" there are
    """

    def __init__(self, parts: List[str], vocab: int = 50):
        super().__init__(vocab=vocab)
        self.heads = nn.ModuleList(nn.Linear(24, 24) for _ in parts)

def splits(parts: List[str]):
    """See Splits."""
    return Splits(parts)
'''


def test_words_that_a_docstring_lists_are_proposed(write: Any) -> None:
    """Those of the argument, and not of the next one; the docstring may be that of the class which the function makes."""
    with pytest.raises(ScreenError, match=r"""`screen check model.py::splits --set 'parts=\["voice", "piano"\]'`"""):
        built(f"{write(LISTED)}::splits")


LEFT = """
class Part(nn.Module):
    def __init__(self, width, heads, shared=None):
        super().__init__()
        self.shared = shared
        self.map = nn.Linear(width, 8 * self.shared)

class Net(Base):
    def __init__(self, in_channels: int | None = None, tables: int | None = None, heads: int = 4, kv_heads: int | None = None):
        super().__init__()
        if in_channels is None and tables is None:
            raise ValueError(f"either channels ({in_channels}) or tables ({tables}) must be said")
        self.first = nn.Linear(in_channels, 24) if tables is None else nn.Embedding(tables, 24)
        self.parts = nn.ModuleList([Part(24, heads, kv_heads) for _ in range(2)])

    def extra(self, x):
        return x + self.parts[1].map(self.parts[0].map(x)[..., :24])[..., :24]
"""


def test_a_default_that_a_constructor_refuses_is_asked_for(write: Any) -> None:
    """`None` by default: of several that a message speaks of one is asked for, then what a part of it cannot do without, under its own name."""
    path = write(LEFT)
    with pytest.raises(ScreenError, match=r"cannot do with `in_channels` as None.*--set in_channels=3 --set kv_heads=8`"):
        built(f"{path}::Net")
    (b,) = built(f"{path}::Net", in_channels=3, kv_heads=8)
    assert runs(b) == ""


def test_channels_that_are_cut_into_groups_are_no_picture(write: Any) -> None:
    source = "class Net(Base):\n    def __init__(self, in_channels, groups: int = 32):\n        super().__init__()\n"
    source += "        self.norm, self.map = nn.GroupNorm(groups, in_channels), nn.Conv2d(in_channels, 24, 1)\n"
    with pytest.raises(ScreenError, match=r"--set in_channels=128`"):
        built(write(source))
