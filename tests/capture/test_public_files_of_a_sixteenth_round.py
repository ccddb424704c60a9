"""What kept public files of a sixteenth round from being read, or made pages of them tell little, each by its cause in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from screen.capture.kernels import older
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    """What was given back of older libraries for one file is there for no other test."""
    with older.taken_back():
        yield


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


# -- files for older versions of transformers ---------------------------------------------------------------------------------------------------


def test_constructors_that_end_as_before_transformers_had_post_init_build_in_files_and_start_by_their_own_law(write: Any) -> None:
    """A file that imports transformers is watched from the start, which must not keep such constructors from being mended."""
    pytest.importorskip("transformers")
    file = write(
        """
        from transformers import BertConfig, PreTrainedModel

        class Old(PreTrainedModel):
            config_class = BertConfig

            def __init__(self, config):
                super().__init__(config)
                self.words, self.map = nn.Embedding(50, config.hidden_size), nn.Linear(config.hidden_size, config.hidden_size)
                self.init_weights()

            def _init_weights(self, module):
                if isinstance(module, nn.Linear):
                    module.weight.data.normal_(std=0.125)

            def forward(self, ids):
                x = self.words(ids)
                return x + self.map(x)
        """
    )
    (net,) = built(file)
    assert runs(net) == "" and any("post_init" in note for note in net.info.notes)
    assert [0.125 in law.args for law in dict(net.initialisers)["map.weight"]] == [False, True]


def test_a_configuration_has_the_entries_that_all_had(write: Any) -> None:
    """A class of settings that says nothing of its padding, of an older version of transformers."""
    pytest.importorskip("transformers")
    file = write(
        """
        from transformers import PretrainedConfig

        class Sizes(PretrainedConfig):
            model_type = "sizes of sixteen"

            def __init__(self, width=24, **more):
                self.width = width
                super().__init__(**more)

        class Net(nn.Module):
            def __init__(self, config: Sizes):
                super().__init__()
                self.words = nn.Embedding(50, config.width, config.pad_token_id)
                self.map = nn.Linear(config.width, config.width if not config.is_decoder else 1)

            def forward(self, ids):
                x = self.words(ids)
                return x + self.map(x)
        """
    )
    (net,) = built(file)
    assert runs(net) == "" and net.model.words.padding_idx is None
    assert any("pad_token_id" in note for note in net.info.notes)


# -- what a module inside of a model has made later ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asks", "is_called"), [("", True), (", device", False)])
def test_what_each_module_of_a_model_waits_for_is_made_where_nothing_is_asked_for_it(write: Any, asks: str, is_called: bool) -> None:
    """Angles that a model on meta cannot make in its constructor; its script calls the method when the weights are there."""
    file = write(
        f"""
        class Angles(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.width, self.rates = width, None

            def make_rates(self{asks}{": str" if asks else ""}):
                self.rates = 100.0 ** -(torch.arange(self.width) / self.width)

            def forward(self, x):
                assert self.rates is not None, "call make_rates first"
                return torch.cos(torch.arange(x.shape[1], device=x.device)[:, None] * self.rates)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.angles, self.map = nn.Embedding(70, 24), nn.ModuleList(Angles(24) for _ in range(2)), nn.Linear(24, 24)

            def forward(self, ids):
                x = self.words(ids)
                for one in self.angles:
                    x = x + self.map(x * one(x))
                return x
        """
    )
    (net,) = built(file)
    assert (runs(net) == "") is is_called
    assert any("make_rates()` of each `Angles`" in note and "`rates`" in note for note in net.info.notes) is is_called


# -- images of codes -----------------------------------------------------------------------------------------------------------------------------


def test_an_image_may_be_one_of_codes(write: Any) -> None:
    """Classes of pixels, which a table is read at before they are filtered as numbers."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("flips", torch.eye(3))
                self.first, self.second, self.label = nn.Conv2d(2, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1), nn.Embedding(10, 16)

            def forward(self, pixels, label):
                noisy = torch.argmax(self.flips[pixels], -1)
                x = self.first(noisy.float() - 1.0)
                x = x + self.label(label)[:, :, None, None]
                return nn.functional.cross_entropy(self.second(torch.relu(x)), pixels[:, 0])
        """
    )
    (net,) = built(file)
    assert runs(net) == ""
    pixels = [*net.args, *net.kwargs.values()][0]
    assert pixels.dtype is torch.long and pixels.dim() == 4 and int(pixels.max()) <= 1


# -- masks of bytes ------------------------------------------------------------------------------------------------------------------------------


def test_a_mask_of_bytes_chooses_as_it_did(write: Any) -> None:
    """What a triangle of numpy gives, with what is padded, in a file that was written for a torch which took bytes."""
    file = write(
        """
        import numpy as np

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.q, self.k, self.v = nn.Embedding(90, 24), nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24)

            def forward(self, ids):
                later = torch.from_numpy(np.triu(np.ones((ids.shape[1],) * 2), 1).astype("uint8")).to(ids.device)
                x = self.words(ids)
                logits = (self.q(x) @ self.k(x).mT).masked_fill(later | (ids == 0).unsqueeze(1), -1e9)
                return x + torch.softmax(logits, -1) @ self.v(x)
        """
    )
    with older.taken_back():
        (net,) = built(file)
        assert runs(net) == "" and any("mask of bytes" in note for note in net.info.notes)
        kept = torch.zeros(3).masked_fill(torch.tensor([0, 1, 2], dtype=torch.uint8), 5.0)
    assert kept.tolist() == [0.0, 5.0, 5.0]
    with pytest.raises(RuntimeError, match="bool"):
        torch.zeros(3).masked_fill(torch.tensor([0, 1, 1], dtype=torch.uint8), 5.0)


# -- a module of settings ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["import plan_of_sixteen", "import plan_of_sixteen as plan"])
def test_settings_may_be_the_names_of_a_module_that_a_script_imports(write: Any, line: str) -> None:
    """One by one, and all of them as the configuration."""
    write("rows, width = 3, 24\ntied = width > 100\nwords = 20 * rows\n", "plan_of_sixteen.py", head="")
    name = line.split()[-1]
    write(
        f"""
        {line}
        from net_of_sixteen import Net

        net = Net({name}.rows, {name}, words={name}.words)
        """,
        "train_of_sixteen.py",
    )
    file = write(
        """
        class Net(nn.Module):
            def __init__(self, rows, settings, words):
                super().__init__()
                self.words = nn.Embedding(words, settings.width)
                self.rows = nn.ModuleList(nn.Linear(settings.width, settings.width) for _ in range(rows))
                self.head = None if settings.tied else nn.Linear(settings.width, words)

            def forward(self, ids):
                x = self.words(ids)
                for one in self.rows:
                    x = x + one(x)
                return x if self.head is None else self.head(x)
        """,
        "net_of_sixteen.py",
    )
    (net,) = built(file)
    assert (runs(net), net.model.words.weight.shape, len(net.model.rows), net.model.head is None) == ("", (60, 24), 3, False)
