"""A model that holds what reads a file which is not here, a tokenizer, is built without it."""

from __future__ import annotations

from typing import Any

import pytest

from screen.capture.build import offline
from screen.errors import UsageError
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

WORDS = """
import os

class Words:
    def __init__(self, path):
        {read}
        self.count = 50

class Net(Base):
    def __init__(self, path="words/table.model"):
        super().__init__()
        self.words = Words(path)

    def said(self, text):
        return self.words.encode(text)
"""
READS = ["self.lines = open(path).read()", "assert os.path.isfile(path), path", "assert os.path.exists(path)"]


@pytest.mark.parametrize("read", READS)
def test_what_a_model_only_holds_is_there_by_name(write: Any, read: str) -> None:
    with offline.taken_back():
        (b,) = built(write(WORDS.format(read=read)))
        assert runs(b) == "" and any(note.startswith("`Words(…)` reads a file that is not here") for note in b.info.notes)


def test_what_is_asked_of_it_is_an_error(write: Any) -> None:
    text = WORDS.format(read=READS[0]).replace("self.words = Words(path)", "self.rows = Words(path).count * 2")
    with offline.taken_back(), pytest.raises(Exception, match=r"Words.*reads a file for it, which is not here"):
        built(write(text))


def test_an_assertion_of_another_thing_and_a_module_that_reads_its_weights_stay_errors(write: Any) -> None:
    for text in (WORDS.format(read="assert path is None"), WORDS.format(read=READS[0]).replace("class Words:", "class Words(nn.Module):")):
        with offline.taken_back(), pytest.raises((AssertionError, FileNotFoundError)):
            built(write(text))


KEPT = """
class Net(Base):
    def __init__(self, width, tokenizer):
        super().__init__(width)
        self.tokenizer = tokenizer

    def forward(self, ids):
        return self.body(self.embed(ids))

    def said(self, text):
        return self.tokenizer.encode(text)
"""


def test_an_argument_that_is_only_kept_need_not_be_given(write: Any) -> None:
    (b,) = built(write(KEPT), width=16)
    assert runs(b) == "" and "`Net` only keeps its `tokenizer`: it is there by name only" in b.info.notes


OTHERS = [
    KEPT.replace("self.tokenizer = tokenizer", "self.tokenizer = tokenizer\n        self.rows = nn.Embedding(len(tokenizer), 8)"),
    KEPT.replace("return self.body(self.embed(ids))", "return self.body(self.embed(self.tokenizer(ids)))"),
    KEPT.replace("tokenizer):", "tokenizer: nn.Module):"),
    KEPT.replace("tokenizer):", "tokenizer: int):"),
]


@pytest.mark.parametrize("text", OTHERS)
def test_one_of_which_more_is_asked_is_lacking(write: Any, text: str) -> None:
    with pytest.raises(UsageError, match="`tokenizer"):
        built(write(text), width=16)
