"""What kept public files of a thirteenth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from screen.capture.build import usual
from screen.capture.build.needs import Needs
from screen.capture.kernels import older, stand_in
from screen.capture.kernels.scans import scan
from tests.capture.public_files import HEAD, Write, built, runs, writing

write = pytest.fixture(writing)

SCRIPT = """
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(rows, width)

    def forward(self, ids):
        return self.rows(ids) * scaled(width)

def scaled(width):
    return factor / width

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.maps = Table(), nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.maps:
            x = x + layer(x)
        return x

def evaluated():
    return net(data)

if __name__ == "__main__":
    words = {"a": 0}
    for place, word in enumerate("b c d".split()):
        words[word] = place + 1
    counted = []
    counted.append(len(words))
    rows, width = counted[0], 16
    depth, factor = 3, 2.0
    data = open("/nowhere/at/all")
    net = Net()
    depth = 30
    net(data).backward()
"""


def test_sizes_that_only_a_script_has_are_those_of_its_main_block(write: Write) -> None:
    (one,) = built(write(SCRIPT))
    assert runs(one) and one.model.table.rows.weight.shape == (4, 16) and len(one.model.maps) == 3  # type: ignore[union-attr, arg-type]
    (said,) = [note for note in one.info.notes if "__main__" in note]
    assert said.startswith("`depth`, `factor`, `rows`, `width`: as its `__main__` has them") and "words" not in said


def test_what_no_class_reads_of_a_main_block_is_not_run(write: Write, tmp_path: Path) -> None:
    more = f"    torch.save([], {str(tmp_path / 'written')!r})\n    alone = open({str(tmp_path / 'made')!r}, 'w')\n"
    text = SCRIPT.replace("    data = open", f"{more}    data = open")
    (one,) = built(write(text))
    assert runs(one) and not (tmp_path / "written").exists() and not (tmp_path / "made").exists()


FRAMES = """
class Video(nn.Module):
    def __init__(self, width=32, frames={frames}, side=16):
        super().__init__()
        self.cut = nn.Conv2d(4, width, 4, 4)
        self.places = nn.Parameter(torch.zeros(1, (side // 4) ** 2, width))
        self.times = nn.Parameter(torch.zeros(1, frames, width))
        self.step = nn.Linear(1, width)

    def forward(self, x, t):
        b, f, c, h, w = x.shape
        x = self.cut(x.reshape(b * f, c, h, w)).flatten(2).mT + self.places
        moved = self.step(t.float()[:, None]).unsqueeze(1).repeat(1, self.times.shape[1], 1).flatten(0, 1)
        return x * moved.unsqueeze(1)
"""


@pytest.mark.parametrize("frames", [7, 16])
def test_frames_that_are_laid_along_the_batch_are_as_many_as_a_table_has(write: Write, frames: int) -> None:
    (one,) = built(write(FRAMES.format(frames=frames)))
    assert runs(one) and isinstance(one.args[0] if one.args else one.kwargs["x"], torch.Tensor)
    assert (one.args or tuple(one.kwargs.values()))[0].shape[1] == frames


REFUSING = """
{kind}
class Plan{base}:
    width: int = -1
    depth: int = -1
    heads: typing.Optional[int] = None

    {check}
        assert self.heads <= self.width, "too many heads"
        assert self.width % self.heads == 0
        return self

class Net(nn.Module):
    def __init__(self, plan: Plan):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(plan.width, plan.width) for _ in range(plan.depth))

    def forward(self, x):
        for layer in self.maps:
            x = x + layer(x)
        return x
"""
KINDS = [
    ("import dataclasses\n\n@dataclasses.dataclass", "", "def __post_init__(self):"),
    ("import pydantic\n", "(pydantic.BaseModel)", '@pydantic.model_validator(mode="after")\n    def checked(self):'),
]


@pytest.mark.parametrize(("kind", "base", "check"), KINDS)
def test_a_class_of_settings_that_refuses_its_own_defaults_is_asked_for_those_that_stand_for_nothing(
    write: Write, kind: str, base: str, check: str
) -> None:
    path = write(REFUSING.format(kind=kind, base=base, check=check))
    with pytest.raises(Needs, match=r"it needs|cannot do with") as error:
        built(path)
    command = str(error.value.try_).partition("`screen check ")[2].partition("`")[0]
    assert {*error.value.lacking} == {"plan.width", "plan.depth", "plan.heads"} and "--set plan.heads=8" in command
    (one,) = built(path, **{word.partition("=")[0]: int(word.partition("=")[2]) for word in command.split() if "=" in word})
    assert runs(one)


CACHES = """
class Cache(nn.Module):
    def __init__(self, batch, length, width):
        super().__init__()
        self.register_buffer("kept", torch.zeros(batch, length, width))

    def update(self, places, x):
        self.kept[:, places] = x
        return self.kept

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.out, self.cache = nn.Embedding(100, width), nn.Linear(width, 100), None
        self.longest = -1

    def setup_caches(self, max_batch_size, max_seq_length):
        self.longest = max_seq_length
        self.cache = Cache(max_batch_size, max_seq_length, 32)
        self.mask = torch.tril(torch.ones(max_seq_length, max_seq_length, dtype=torch.bool))

    def setup_guidance(self):
        self.guided = torch.zeros(2, 1, 1, dtype=torch.bool)

    def forward(self, ids, places):
        mask, x = self.mask[places], self.embed(ids)
        y = self.cache.update(places, x * ~self.guided)
        return self.out(x + (mask / mask.sum(-1, keepdim=True)) @ y)
"""


def test_what_a_forward_reads_and_no_constructor_makes_is_set_up_by_the_one_method_that_does(write: Write) -> None:
    (one,) = built(write(CACHES))
    assert runs(one) and sum("was called before `forward`, which asks for" in note for note in one.info.notes) == 2


def test_what_two_methods_set_or_none_does_is_not_set_up(write: Write) -> None:
    twice = CACHES.replace("    def setup_guidance", "    def other(self):\n        self.mask = None\n\n    def setup_guidance")
    (one,) = built(write(twice))
    assert not runs(one) and not any("`mask`" in note for note in one.info.notes)


REFUSED = """
class Mixer(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.map, self.kind = nn.Linear(width, width), kind

    def forward(self, x):
        assert self.kind in ("plain", "mirrored")
        return self.map(x) if self.kind == "plain" else -self.map(x)

class Net(nn.Module):
    def __init__(self, width=32, kind="fused"):
        super().__init__()
        self.first, self.mixers = nn.Embedding(100, width), nn.ModuleList(Mixer(width, kind) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for mixer in self.mixers:
            x = x + mixer(x)
        return x

class Backbone(Net):
    def forward(self, x):
        return [super(Backbone, self).forward(x)]

def tiny(pretrained=False, **more):
    return Net(kind="plain", **more)
"""


def test_a_class_whose_forward_refuses_its_own_defaults_is_what_a_function_makes_and_so_are_those_derived_from_it(write: Write) -> None:
    (one,) = built(write(REFUSED))
    assert one.entry == "Net" and runs(one) and any("`tiny` makes it" in note for note in one.info.notes)
    assert any("not judged: `Backbone`" in note for note in one.info.notes)


SCANNED = """
from accelerated_scan.warp import scan

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.gates = nn.Embedding(100, width), nn.Linear(width, width)

    def forward(self, ids):
        x = self.embed(ids)
        return x + scan(self.gates(x).sigmoid().mT, x.mT).mT
"""


def test_a_linear_recurrence_whose_kernel_needs_a_gpu_is_stood_in_for(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] in stand_in.PACKAGES]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(stand_in, "_standing", set())
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    (one,) = built(write(SCANNED))
    assert runs(one) and any("`accelerated_scan` is not installed" in note for note in one.info.notes)
    gates, tokens = torch.rand(2, 3, 5), torch.randn(2, 3, 5)
    expected = torch.stack([sum(gates[..., s + 1 : t + 1].prod(-1) * tokens[..., s] for s in range(t + 1)) for t in range(5)], -1)
    torch.testing.assert_close(scan(gates, tokens), expected)


SERIES = """
class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.layer, self.out = nn.Linear(1, width), nn.TransformerEncoderLayer(width, 4, 64, batch_first=True), nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.layer(self.embed(x)))
"""


def test_a_series_of_single_numbers_is_no_stream_of_a_block(write: Write) -> None:
    (one,) = built(write(SERIES))
    assert runs(one) and not one.info.block


FOUND = """
class Settings(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self

def small():
    return nn.Linear(8, 8)

def large():
    return nn.Linear(16, 16)

KINDS = {"small": small, "large": large}

class Net(nn.Module):
    def __init__(self, plan: Settings):
        super().__init__()
        self.first, self.out = KINDS[plan.kind](), nn.Linear(plan.width, plan.num_codebooks)

    def forward(self, x):
        return self.out(self.first(x))
"""


def test_entries_of_a_dictionary_of_the_authors_own_are_asked_for_by_name_and_words_of_a_table_are_proposed(write: Write) -> None:
    with pytest.raises(Needs) as error:
        built(write(FOUND))
    assert {*error.value.lacking} == {"plan.kind", "plan.width", "plan.num_codebooks"}
    assert all(word in error.value.try_ for word in ("plan.kind=small", "plan.num_codebooks=8")) or "plan.kind" in error.value.try_
    (one,) = built(write(FOUND), **{"plan.kind": "small", "plan.width": 8, "plan.num_codebooks": 8})
    assert runs(one)


MODEL = """
class Net(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.maps, self.head = nn.ModuleList(nn.Linear(width, width) for _ in range(depth)), nn.Linear(width, classes)

    def forward(self, x):
        for layer in self.maps:
            x = x + layer(x)
        return self.head(x)
"""
TRAINER = """
from network import Net

class Trainer:
    def __init__(self, args):
        self.args = args
        rows = self.args.classes
        self.net = Net(width=self.args.width, depth=self.args.depth, classes=rows)
"""
COMMAND = """
import argparse
from trainer import Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=24)
parser.add_argument("--depth", type=int, default=5)
parser.add_argument("--classes", type=int, default=7)
Trainer(parser.parse_args())
"""
LOGGED = """
import wandb
from network import Net
from plans import plans

name = "small"
wandb.init(config=plans[name], project="p")
net = Net(wandb.config.WIDTH, wandb.config.DEPTH, classes=wandb.config.CLASSES)
"""
PLANS = "large = dict(WIDTH=512, DEPTH=6, CLASSES=9)\nsmall = dict(WIDTH=24, DEPTH=5, CLASSES=7)\nplans = {'large': large, 'small': small}\n"


@pytest.mark.parametrize("files", [{"trainer.py": TRAINER, "main.py": COMMAND}, {"train.py": LOGGED, "plans.py": PLANS}])
def test_options_of_the_file_that_hands_them_on_and_of_a_logged_run_are_the_authors_arguments(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / "README.md").write_text("")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "network.py").write_text(HEAD + MODEL)
    (one,) = built(tmp_path / "network.py")
    assert runs(one) and one.model.head.weight.shape == (7, 24) and len(one.model.maps) == 5  # type: ignore[union-attr, arg-type]


def test_options_of_two_files_that_hand_them_on_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")
    for name, text in {"trainer.py": TRAINER, "main.py": COMMAND, "other.py": COMMAND.replace("24", "48"), "network.py": HEAD + MODEL}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(Needs):
        built(tmp_path / "network.py")


def test_an_argument_whose_entries_are_read_one_by_one_is_as_many_sizes() -> None:
    class Cut:
        def __init__(self, image_size, patch):
            self.grid = image_size[0] // patch, image_size[1] // patch

    class Net:
        def __init__(self, image_size, stride: tuple[int, int], pattern: tuple[int, int], width: int, patch: int, win_size: int = 0):
            self.cut, (self.rows, self.columns) = Cut(image_size, patch), stride
            first, second = pattern
            self.width = [width] * (first + second)

    Net.__init__.__globals__["Cut"] = Cut
    try:
        found = usual.chosen(Net, ("image_size", "pattern", "width", "n_cls", "win_size"))
    finally:
        del Net.__init__.__globals__["Cut"]
    assert found == {"image_size": [224, 224], "pattern": [1, 1], "width": 512, "n_cls": 1000, "win_size": 100}


def test_names_of_tied_weights_that_are_a_list_are_the_table_that_transformers_asks_for_now() -> None:
    transformers = pytest.importorskip("transformers")

    class Old(transformers.PreTrainedModel):  # type: ignore[misc, name-defined]
        config_class = transformers.BertConfig
        _tied_weights_keys: ClassVar = ["head.weight"]

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.rows, self.head = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False)
            self.post_init()

        def get_input_embeddings(self) -> Any:
            return self.rows

        def get_output_embeddings(self) -> Any:
            return self.head

    with older.taken_back():
        with pytest.raises(AttributeError, match="no attribute 'keys'") as refused:
            Old(transformers.BertConfig(tie_word_embeddings=True))
        assert older.leave_out(refused.value) and not older.leave_out(refused.value)
        model = Old(transformers.BertConfig(tie_word_embeddings=True))
        assert model.head.weight is model.rows.weight and any("before transformers 5" in note for note in older.notes())
    with pytest.raises(AttributeError):
        Old(transformers.BertConfig(tie_word_embeddings=True))


HALVED = """
class Cache(nn.Module):
    def __init__(self, batch, length, width):
        super().__init__()
        self.register_buffer("kept", torch.zeros(batch, 1, length, width, dtype=torch.float16))

    def update(self, places, x):
        assert places.shape[0] == x.shape[2]
        self.kept[:, :, places] = x
        return self.kept

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.places, self.spoken = nn.Embedding(100, width), nn.Embedding(64, width), nn.Linear(16, width)
        self.queries, self.out, self.cache = nn.Linear(width, width), nn.Linear(width, 100), None

    def setup_caches(self, max_batch_size, max_seq_length):
        self.cache = Cache(max_batch_size, max_seq_length, 32)
        self.mask = torch.tril(torch.ones(max_seq_length, max_seq_length, dtype=torch.bool))

    def setup_guidance(self):
        self.guided = torch.zeros(2, 1, 32, dtype=torch.bool)

    def forward(self, idx, voice, places):
        mask = self.mask[None, None, places]
        x = self.embed(idx) + self.places(places) + self.spoken(voice) * self.guided
        kept = self.cache.update(places, x[:, None])
        return self.out(x + F.scaled_dot_product_attention(self.queries(x)[:, None], kept, kept, attn_mask=mask)[:, 0])
"""


def test_inputs_that_were_mended_further_than_a_guess_ends_are_gone_on_with(write: Write) -> None:
    (one,) = built(write(HALVED))
    assert runs(one) and one.kwargs["places"].dtype == torch.int64 and any("float16" in note for note in one.info.notes)


SPREAD = """
class Part(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.__dict__.update(config)
        self.up, self.down = nn.Linear(self.width, self.hidden), nn.Linear(self.hidden, self.width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x))) * self.hidden ** -0.5

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        {spread}
        self.table = nn.Embedding(self.vocab_size, self.width)
        self.parts = nn.ModuleList(Part(config) for _ in range(self.depth))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, ids):
        x = self.table(ids) * self.scale
        for part in self.parts:
            x = part(x)
        return x
"""
SPREADS = ["self.__dict__.update(config)", "vars(self).update(config)", "for key, value in config.items():\n            setattr(self, key, value)",
           "for key in config:\n            setattr(self, key, config[key])"]  # fmt: skip


@pytest.mark.parametrize("spread", SPREADS)
def test_settings_that_become_attributes_are_asked_for_by_what_is_read_of_them(write: Write, spread: str) -> None:
    path = write(SPREAD.format(spread=spread))
    with pytest.raises(Needs) as error:
        built(path)
    assert {*error.value.lacking} == {"config.vocab_size", "config.width", "config.depth", "config.hidden"}
    (one,) = built(path, **{"config.vocab_size": 11, "config.width": 8, "config.depth": 2, "config.hidden": 16})
    assert runs(one) and len(one.model.parts) == 2  # type: ignore[arg-type]


COMPILED = """
import dataclasses
from torch.utils.cpp_extension import load

@dataclasses.dataclass
class Plan:
    width: int = 16
    use_kernel: bool = True

class Net(nn.Module):
    def __init__(self, plan: Plan):
        super().__init__()
        self.plan, self.map = plan, nn.Linear(plan.width, plan.width)
        if self.plan.use_kernel:
            self.make_kernel()

    def make_kernel(self):
        self.kernel = load(name="scan", sources=["cuda/scan.cpp", "cuda/scan.cu"])

    def forward(self, x):
        return x + (self.kernel.scan(x) if self.plan.use_kernel else self.map(x))
"""


def test_kernels_that_a_constructor_compiles_under_a_setting_are_left_out(write: Write) -> None:
    (one,) = built(write(COMPILED))
    assert runs(one) and "kernels of its own are not compiled here: `plan.use_kernel=False`" in one.info.notes
    with pytest.raises(Exception, match=r"CUDA|cuda|scan"):
        built(write(COMPILED), **{"plan.use_kernel": True})
