"""What kept public files of an eighth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from screen.capture.build import offline
from screen.capture.kernels import older, scans, stand_in
from screen.errors import LoadError, ScreenError
from screen.graph.target import OPTIONAL
from tests.capture.public_files import HEAD, Write, built, runs, writing

write = pytest.fixture(writing)


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What one capture changes of this process is taken back: in use each has a process of its own."""
    monkeypatch.setattr(stand_in, "_standing", set(stand_in._standing))
    monkeypatch.setattr(stand_in, "_own", set(stand_in._own))
    monkeypatch.setattr(sys, "path", [*sys.path])
    with offline.taken_back(), older.taken_back():
        yield


OVER_TIME = """
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mark = nn.Linear(7, 32), nn.Linear(4, 32)
        self.ahead, self.out = nn.Linear(96, 120), nn.Linear(32, 7)

    def forward(self, x, marks, target, later):
        x = self.embed(x) + self.mark(marks)
        x = self.ahead(x.transpose(1, 2)).transpose(1, 2)
        return self.out(x + torch.tanh(x))
"""


def test_a_map_over_time_sets_the_length_of_all_that_is_added_to_the_tokens(write: Write) -> None:
    (one,) = built(write(OVER_TIME))
    assert runs(one) and one.kwargs["x"].shape[1:] == (96, 7) and one.kwargs["marks"].shape[1:] == (96, 4)


PERIODS = """
class Periods(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(16, 16)

    def forward(self, x):
        found = torch.topk(torch.fft.rfft(x, dim=1).abs().mean(0).mean(-1), 2)[1].detach().cpu().numpy()
        for period in x.shape[1] // found:
            rows = x.reshape(len(x), x.shape[1] // period, period, -1)
            x = x + self.map(rows).reshape(x.shape)
        return x
"""


def test_unknown_integers_are_the_same_number_in_an_array_as_one_by_one(write: Write) -> None:
    (one,) = built(write(PERIODS))
    assert runs(one)


FEATURES = """
class Captions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.seen, self.map = nn.Embedding(100, 32), nn.Linear(48, 32), nn.Linear(32, 32)

    def forward(self, ids=None, features=None, mask=None):
        assert torch.all(mask == 1), "no padding"
        x = self.words(ids)
        features = features.to(x.dtype)
        batch, rows, columns, width = features.shape
        seen = self.seen(features)
        seen = seen.reshape(batch, rows * columns, -1)
        x = torch.cat([seen, x], 1)
        return x + self.map(x)
"""


def test_what_a_traced_forward_lacks_behind_a_value_that_it_reads_is_mended_too(write: Write) -> None:
    (one,) = built(write(FEATURES))
    assert runs(one) and one.kwargs["features"].shape[-1] == 48


ABOVE = """
class Text:
    def __init__(self, width, depth):
        self.width, self.depth = width, depth

class Whole:
    def __init__(self, text=None, width=48):
        self.width, self.text = width, Text(**text)

class Net(nn.Module):
    def __init__(self, config: Whole):
        super().__init__()
        self.into, self.layers = nn.Linear(16, config.width), nn.ModuleList(nn.Linear(config.text.width, 48) for _ in range(config.text.depth))

    def forward(self, x):
        x = self.into(x)
        for layer in self.layers:
            x = x + layer(x)
        return x
"""


def test_a_size_that_a_table_lacks_is_proposed_as_the_settings_above_it_have_it(write: Write) -> None:
    with pytest.raises(Exception, match=r"--set config.text.width=48 --set config.text.depth=6"):
        built(write(ABOVE))


SWITCH = """
class Tower(nn.Module):
    @classmethod
    def from_pretrained(cls, name):
        raise OSError("no network")

    def __init__(self, width=32):
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, x):
        return x + self.map(x)

class Net(nn.Module):
    def __init__(self, width=32, from_weights=True):
        super().__init__()
        if from_weights:
            self.tower = Tower.from_pretrained("hub/tower")
        else:
            self.tower = Tower(width)

    def forward(self, x):
        return self.tower(x)
"""


def test_an_argument_under_which_weights_are_read_is_false(write: Write) -> None:
    (one,) = built(write(SWITCH))
    assert runs(one) and "weights are never downloaded: `from_weights=False`" in one.info.notes


FETCHED = """
from torch.hub import load_state_dict_from_url

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(32, 32)
        self.load_state_dict(load_state_dict_from_url("https://example.invalid/net-0123.pth")["model"])

    def forward(self, x):
        return x + self.map(x)
"""


def test_weights_that_torch_would_fetch_for_a_model_that_is_there_are_left_out(write: Write) -> None:
    plain = nn.Module.load_state_dict
    with offline.taken_back():
        (one,) = built(write(FETCHED))
        assert runs(one) and any("`net-0123.pth`" in note for note in one.info.notes)
    assert nn.Module.load_state_dict is plain


SEVERAL = """
class Loss(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, x):
        return x.mean()

class Net(nn.Module):
    def __init__(self, part, width):
        super().__init__()
        self.part, self.map = part, nn.Linear(width, width)

    def forward(self, x):
        return self.part(x) + self.map(x)

def make(width=32):
    model = Net(nn.Linear(width, width), width)
    return model, Loss({"one": 1.0})
"""


def test_a_function_that_returns_a_model_and_its_loss_makes_the_model(write: Write) -> None:
    one = built(write(SEVERAL))[0]
    assert one.info.model_class == "Net" and "`make` returns several things: its `Net` is looked at" in one.info.notes


CARRIED = """
from fla.parts.mixers import Mixer

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.mixer = Mixer(width)

    def forward(self, x):
        return x + self.mixer(x)
"""


def test_a_package_of_kernels_that_the_project_carries_is_taken_from_there(write: Write, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Install `carried`.\n")
    for folder in ("carried/fla", "carried/fla/parts"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    mixer = "class Mixer(nn.Linear):\n    def __init__(self, width):\n        super().__init__(width, width)\n"
    (tmp_path / "carried/fla/parts/mixers.py").write_text(f"from torch import nn\n\n\n{mixer}")
    (tmp_path / "models").mkdir()
    path = write(CARRIED)
    path = path.rename(tmp_path / "models" / path.name)
    (one,) = built(path)
    assert runs(one) and one.info.parameters == 32 * 32 + 32


def test_a_mixer_without_its_last_map_is_the_whole_one_before_it() -> None:
    rank, states, width, length = 2, 4, 6, 5
    draw = torch.Generator().manual_seed(0)
    shapes = (2, 2 * width, length), (width, 1, 3), (width,), (rank + 2 * states, width), (8, width)
    xz, conv, bias, into, out = (torch.randn(*shape, generator=draw) for shape in shapes)
    steps, decay = torch.randn(width, rank, generator=draw), -torch.rand(width, states, generator=draw)
    part = scans.mamba_inner_fn_no_out_proj(xz, conv, bias, into, steps, decay, D=torch.ones(width))
    whole = scans.mamba_inner_fn(xz, conv, bias, into, steps, out, None, decay, D=torch.ones(width))
    torch.testing.assert_close(part.transpose(1, 2) @ out.T, whole)


HELD = """
class Net(nn.Module):
    def __init__(self, width, inner: dict = dict(size=4, overlap=0)):
        super().__init__()
        self.mixer = Mixer(width, **inner)

    def forward(self, x):
        return x + self.mixer(x)

class Mixer(nn.Module):
    def __init__(self, width, size, net=None):
        super().__init__()
        self.net = nn.Linear(width, width) if net is None else net

    def forward(self, x):
        return self.net(x)
"""
TRAIN = """
from held_in_table.net import Net
from held_in_table.parts import Gate

WIDTH = 24
model = Net(width=WIDTH, inner=dict(size=8, net=Gate(WIDTH)))
"""


def test_modules_in_a_table_of_the_authors_call_are_made_where_the_defaults_do_not_build(tmp_path: Path) -> None:
    folder = tmp_path / "held_in_table"
    folder.mkdir()
    (folder / "__init__.py").touch()
    gate = "class Gate(nn.Linear):\n    def __init__(self, width):\n        super().__init__(width, width, bias=False)\n"
    (folder / "parts.py").write_text(HEAD + gate)
    (folder / "net.py").write_text(HEAD + HELD)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "README.md").touch()
    (one,) = built(folder / "net.py", "Net")
    assert runs(one) and one.info.parameters == 24 * 24 and any("train.py:6" in note for note in one.info.notes)


OLDER = """
class Passes(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = nn.Linear(32, 32)

    def forward(self, tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask):
        return memory

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(100, 32), nn.Linear(32, 100)
        self.blocks = nn.Transformer(32, 4, 2, 0, 64, custom_decoder=Passes())

    def forward(self, ids):
        if ids.sum() > 0:
            x = self.words(ids).transpose(0, 1)
        return self.out(self.blocks(src=x, tgt=x).transpose(0, 1))
"""


def test_a_keyword_of_a_newer_library_is_left_out_behind_a_value_that_is_read(write: Write) -> None:
    (one,) = built(write(OLDER))
    assert runs(one)


LOST = """
from sizes_of_eighth import *

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.map = nn.Embedding(VOCAB_SIZE, 32), nn.Linear(32, 32)

    def forward(self, ids):
        x = self.words(ids)
        return x + self.map(x)
"""


def test_a_number_that_a_neighbour_did_not_make_is_taken_where_rows_alone_depend_on_it(write: Write, tmp_path: Path) -> None:
    (tmp_path / "sizes_of_eighth.py").write_text("from nowhere_at_all.words import COUNT\n\nVOCAB_SIZE = COUNT + 1\n")
    (one,) = built(write(LOST))
    assert runs(one) and any("nobody states `VOCAB_SIZE=37000`" in note for note in one.info.notes)


ASKS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        assert torch.__version__ == "0.4.5", "please use torch 0.4.5"
        self.map = Part()

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(32, 32)

    def forward(self, x):
        return x + self.map(x)
"""


def test_an_assertion_on_a_version_names_what_to_install(write: Write) -> None:
    with pytest.raises(LoadError, match=r"Install `torch==0\.4\.5`"):
        built(write(ASKS), "Net")


def test_a_kernel_that_nothing_stands_in_for_names_its_package(write: Write) -> None:
    with pytest.raises(stand_in.NotInstalled) as raised:
        built(write("from flash_attn.modules.of_nothing import Words\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                    "        self.words = Words(3)\n\n    def forward(self, x):\n        return self.words(x)\n"))  # fmt: skip
    assert raised.value.name == "flash_attn"


BY_FILE = """
from transformers import PretrainedConfig, PreTrainedModel

class Settings(PretrainedConfig):
    def __init__(self, width=32, depth=2, crossing=False, **more):
        self.width, self.depth, self.crossing = width, depth, crossing
        super().__init__(**more)

class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.own = nn.Linear(config.width, config.width)
        if config.crossing:
            self.other = nn.Linear(config.seen_width, config.width)

    def forward(self, x, seen):
        return x + self.own(x) + self.other(seen).mean(1, keepdim=True)

class Net(PreTrainedModel):
    config_class = Settings

    def __init__(self, config):
        super().__init__(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.depth))

    def forward(self, x, seen):
        for layer in self.layers:
            x = layer(x, seen)
        return x
"""


@pytest.mark.by_the_day
def test_a_forward_that_runs_with_a_file_of_the_project_names_it_and_what_code_reads_of_it_is_kept(write: Write, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / "settings.json").write_text('{"width": 32, "depth": 3, "crossing": true, "seen_width": 48, "name_of_run": "base"}')
    path = write(BY_FILE)
    (one,) = built(path)
    said = next(note for note in one.info.notes if "were tried" in note)
    assert not runs(one) and "with a file of the project it runs: `screen check" in said
    stated = json.loads((tmp_path / "settings.json").read_text())
    (other,) = built(path, "Net", **{OPTIONAL: "settings.json", **{OPTIONAL + key: value for key, value in stated.items()}})
    assert runs(other) and other.kwargs["seen"].shape[-1] == 48


DOCUMENTED = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.words, self.query, self.key = nn.Conv2d(4, 32, 2, 2), nn.Linear(48, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x, y):
        """
        x: (N, C, H, W) tensor of pictures
        y: (N, 1, 120, C) tensor of captions
        """
        x, lengths = self.patches(x).flatten(2).mT, [y.shape[2]] * y.shape[0]
        seen = self.words(y).squeeze(1).view(1, -1, 32)
        if seen.shape[1] != sum(lengths):
            raise RuntimeError("lengths do not sum to the words")
        return x + torch.softmax(self.query(x) @ self.key(seen).mT, -1) @ seen
'''


def test_a_shape_in_the_docstring_of_a_forward_is_tried_first(write: Write) -> None:
    (one,) = built(write(DOCUMENTED))
    assert runs(one) and tuple(one.kwargs["y"].shape) == (2, 1, 120, 48)


KEYWORDS = """
class Net(nn.Module):
    def __init__(self, hparams):
        super().__init__()
        self.words = nn.Embedding(hparams.n_symbols, hparams.width)
        self.layers = nn.ModuleList(nn.Linear(hparams.width, hparams.width) for _ in range(hparams.depth))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = x + layer(x)
        return x
"""


def test_settings_that_a_neighbour_writes_as_keywords_of_one_call_are_the_configuration(write: Write, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    said = "width=24, depth=3, rate=1e-3, batch=8, epochs=5, seed=1, warm=10, n_symbols=len(symbols)"
    (tmp_path / "hparams.py").write_text(f"symbols = list(map(chr, range(40)))\n\ndef make(Table):\n    return Table({said})\n")
    (one,) = built(write(KEYWORDS))
    assert runs(one) and one.info.parameters == 37000 * 24 + 3 * (24 * 24 + 24)


OTHERS = """
class Plain(nn.Module):
    def __init__(self, words=None):
        super().__init__()
        self.table = nn.Parameter(torch.zeros((words, words)))

    def forward(self, ids):
        return self.table[ids]

class Net(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x
"""


def test_a_class_that_fails_in_another_way_keeps_no_sizes_from_being_proposed(write: Write) -> None:
    with pytest.raises(ScreenError, match=r"screen check .*::Net --set depth=6 --set width=512"):
        built(write(OTHERS))


BESIDE = """
import json

class Net(nn.Module):
    def __init__(self, plan="plan_of_net.json"):
        super().__init__()
        with open(plan) as file:
            width = json.load(file)["width"]
        self.map = nn.Linear(width, width)

    def forward(self, x):
        return x + self.map(x)
"""


def test_a_file_that_a_constructor_opens_by_its_name_is_the_one_beside_it(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(BESIDE)
    path.with_name("plan_of_net.json").write_text('{"width": 24}')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (one,) = built(path)
    assert runs(one) and any("`plan_of_net.json`" in note for note in one.info.notes) and Path.cwd().name == "elsewhere"


def test_a_call_with_settings_of_another_file_gives_the_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "of_settings"
    folder.mkdir()
    (tmp_path / "README.md").touch()
    (folder / "__init__.py").touch()
    said = ", ".join(f"{key}={value}" for key, value in zip("abcdefg", range(7), strict=True))
    table = "class Table:\n    def __init__(self, **more):\n        vars(self).update(more)\n"
    (folder / "hparams.py").write_text(f"{table}\nhparams = Table(n_width=24, n_deep=3, {said})\n")
    (folder / "train.py").write_text(
        "from of_settings.net import Net\nfrom of_settings.hparams import hparams\n\nNet(depth=hparams.n_deep, width=hparams.n_width)\n"
    )
    (folder / "net.py").write_text(HEAD + OTHERS)
    (one,) = built(folder / "net.py", "Net")
    assert runs(one) and one.info.parameters == 3 * (24 * 24 + 24)
