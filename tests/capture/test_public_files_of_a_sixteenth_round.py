"""What kept public files of a sixteenth round from being read, or made pages of them tell little, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.capture.first_try import built, writing

write = pytest.fixture(writing)


# -- an axis without entries -------------------------------------------------------------------------------------------------------------------


def test_an_axis_that_is_repeated_no_times_is_no_fault_of_ours(write: Any) -> None:
    """More levels than there are frames are laid along the batch, so that each is repeated 2 // 8 times: a length of 0 meets nothing."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells, self.level, self.back = nn.Conv2d(5, 32, 4, 4), nn.Embedding(70, 32), nn.Linear(32, 5)

            def forward(self, film, level):
                batch, frames, channels, height, width = film.shape
                x = self.cells(film.flatten(0, 1)).flatten(2).mT.unflatten(0, (-1, frames))
                s = self.level(level.flatten()).reshape(-1, frames, 32)
                s = s.repeat(len(x) // len(s), 1, 1)
                return self.back(x + s.unsqueeze(2) * torch.tanh(x))
        """
    )
    (net,) = built(file)
    assert type(net.model).__name__ == "Net"


# -- settings that are the entries of a class ---------------------------------------------------------------------------------------------------

SETTINGS = """
import os

class Plan:
    words = int(os.getenv("WORDS", "70"))
    width = 16 * int(os.environ.get("HEADS", 2))
    rows: int = int(os.environ.get("ROWS", 3))
    tied = bool(int(os.environ.get("TIED", "0")))
    name = os.environ.get("NAME")

class Net(nn.Module):
    def __init__(self, words, width, rows, tied):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.maps = nn.ModuleList(nn.Linear(width, width) for _ in range(rows))
        self.head = None if tied else nn.Linear(width, words)

    def forward(self, ids):
        x = self.words(ids)
        for one in self.maps:
            x = x + torch.tanh(one(x))
        return x if self.head is None else self.head(x)
"""


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("plan = Plan()\n    return Net(plan.words, plan.width, rows=plan.rows, tied=plan.tied)", 3),
        ("plan = Plan(rows=5)\n    return Net(plan.words, plan.width, rows=plan.rows, tied=plan.tied)", 5),
        ("return Net(words=Plan.words, width=Plan.width, rows=Plan.rows, tied=Plan.tied)", 3),
    ],
)
def test_settings_may_be_the_entries_of_a_class_and_of_an_environment_that_nobody_has_set(write: Any, how: str, rows: int) -> None:
    """What a script of one file makes of its own class of settings, in a function that trains."""
    file = write(f"{SETTINGS}\n\ndef run(path):\n    torch.load(path)\n    {how}\n")
    (net,) = built(file)
    assert (net.model.words.weight.shape, len(net.model.maps), net.model.head is None) == ((70, 32), rows, False)


def test_entries_that_two_classes_of_settings_have_say_nothing(write: Any) -> None:
    """Which of two plans a function is handed is not known."""
    more = "class Small:\n    rows = 1\n\nclass Large:\n    rows = 9\n\nsmall, large = Small.rows, Large.rows\n"
    file = write(f"{SETTINGS}\n\n{more}\ndef run(plan):\n    return Net(70, 32, rows=plan.rows, tied=False)\n")
    with pytest.raises(Exception, match="rows"):
        built(file)
