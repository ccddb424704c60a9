"""What kept public files of a fourteenth round from being read, or their messages from sufficing, each by its cause in a file of its own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from screen import tables
from screen.capture.build import build, scripts, settings_files, usual
from screen.capture.build.project import beside
from screen.capture.build.inner import inner
from screen.capture.build.python_file import reading_of
from screen.capture.inputs import mend
from screen.capture.inputs.context import Lookup, sizes_of
from screen.capture.inputs.grids import images
from screen.capture.inputs.trial import outcome
from screen.capture.kernels import older
from screen.capture.trace import packed
from screen.errors import ScreenError
from screen.graph.target import parse
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


def said(target: str, **settings: Any) -> str:
    """The message of a target that does not build."""
    with pytest.raises(ScreenError) as caught:
        built(target, **settings)
    return str(caught.value)


def followed(message: str) -> list[Any]:
    """What the command of a message builds."""
    target, *words = shlex.split(re.search(r"`screen check ([^`]+)`", message)[1])  # type: ignore[index]
    pairs = [pair.split("=", 1) for pair in words if pair != "--set"]
    return built(target, **{key: json.loads(value) if value[:1] in "0123456789[" else value for key, value in pairs})


# -- which model a message proposes ------------------------------------------------------------------------------------------------------------

HOLDERS = """
class Pool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(5))

    def forward(self, x):
        for layer in self.maps:
            x = layer(x)
        return x

KINDS = {"body": "Body"}

class Body(nn.Module):
    def __init__(self, dim, depth, vocab_size):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.maps:
            x = x + layer(x)
        return x

class Whole(nn.Module):
    def __init__(self, dim, vocab_size, kind="body"):
        super().__init__()
        self.body = globals()[KINDS[kind]](dim, 6, vocab_size)

    def forward(self, ids):
        return self.body(ids)
"""


def test_the_model_that_holds_the_others_is_proposed(write: Any) -> None:
    """Of equal weights: the body has more sizes to say, but the whole contains it, which its source does not show."""
    message = said(write(HOLDERS))
    assert "`screen check model.py::Whole --set dim=512 --set vocab_size=37000`" in message
    assert runs(followed(message)[0]) == ""


def test_no_small_model_stands_for_one_whose_forward_does_not_run(write: Any) -> None:
    source = HOLDERS.replace("return self.body(ids)", "assert ids is None").replace("return x\n\nclass Whole", "assert ids is None\n\nclass Whole")
    message = said(write(source.replace("range(5)", "range(2)")))
    assert "it builds, but its forward ran on none of the inputs that were tried: add `--input`: `screen check model.py::Whole" in message


def test_a_part_is_not_proposed_for_a_model_that_does_not_build(write: Any) -> None:
    source = HOLDERS + """
class Sampler(nn.Module):
    def __init__(self, dim, unheard_of):
        super().__init__()
        self.pool, self.whole, self.body = Pool(dim), Whole(dim, 9), Body(dim, 2, 9)
        self.unheard_of = unheard_of.made()

    def forward(self, ids):
        return self.whole(ids)

class Alone(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.map = nn.Linear(dim, dim)

    def forward(self, x):
        return self.map(x)
"""
    message = said(write(source))
    assert "`Sampler` needs `dim`, `unheard_of`" in message and "screen check" not in message


def test_a_word_that_a_method_takes_is_proposed(write: Any) -> None:
    source = """
    SIZES = {"tiny": (16, 2), "large": (64, 12)}

    def sizes_of(model_name):
        table = {"tiny": (16, 2), "large": (64, 12)}
        return table[model_name]

    class Part(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.map = nn.Linear(dim, dim)

        def forward(self, x):
            return self.map(x)

    class Net(nn.Module):
        def __init__(self, sizes=None):
            super().__init__()
            assert isinstance(sizes, tuple)
            self.embed = nn.Embedding(50, sizes[0])
            self.maps = nn.ModuleList(Part(sizes[0]) for _ in range(sizes[1]))

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.maps:
                x = x + layer(x)
            return x

        @classmethod
        def from_name(cls, model_name, **more):
            return cls(sizes_of(model_name))
    """
    message = said(write(source))
    assert "With the first word that its code knows: `screen check model.py::Net.from_name --set model_name=tiny`" in message
    assert runs(followed(message)[0]) == ""


# -- what a constructor asks for ---------------------------------------------------------------------------------------------------------------


def test_a_number_below_zero_that_an_assertion_refuses_is_asked_for(write: Any) -> None:
    source = """
    class Net(Base):
        def __init__(self, heads=-1, head_channels=-1):
            super().__init__(d=64, n=2)
            if heads == -1:
                assert head_channels != -1, "one of both"
                heads = 64 // head_channels
            self.heads = heads
    """
    message = said(write(source))
    assert "cannot do with `head_channels` as `-1`" in message and "--set head_channels=64`" in message
    assert runs(followed(message)[0]) == ""


def test_one_option_that_is_read_of_a_command_line_is_a_setting(write: Any) -> None:
    source = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--widths", default="24-24")

    class Net(Base):
        def __init__(self, args):
            super().__init__(int(args.widths.split("-")[0]))

    def main():
        args = parser.parse_args()
        return Net(args)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and "`args` is the command line of model.py" in b.info.notes


def test_a_part_of_which_one_thing_is_read_is_no_setting(write: Any) -> None:
    """It is called, whatever a command line says of a word that it has."""
    source = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--width", default=24)

    class Net(nn.Module):
        def __init__(self, encoder):
            super().__init__()
            self.encoder = encoder
            self.head = nn.Linear(encoder.width, 3)

        def forward(self, x):
            return self.head(self.encoder(x))

    net = parser.parse_args
    """
    assert "it needs `encoder`" in said(f"{write(source)}::Net")


@pytest.mark.parametrize(
    ("name", "size"),
    [("has_continuous_space", False), ("action_std_init", 0.02), ("num_head_channels", 64), ("num_text_tokens", 77), ("use_heads", False)],
)
def test_sizes_by_their_words(name: str, size: Any) -> None:
    space: dict[str, Any] = {}
    exec(f"def make({name}): pass", space)
    assert usual.chosen(space["make"], (name,)) == {name: size}


def test_what_is_only_asked_whether_it_holds_is_false(write: Any) -> None:
    source = """
    class Net(Base):
        def __init__(self, glorious, crossed, several):
            super().__init__()
            self.glorious = glorious
            if crossed and not self.glorious:
                self.maps.append(nn.Linear(24, 24))
            self.several = several

        def extra(self, x):
            return x if self.glorious else 2 * x
    """
    message = said(write(source))
    assert "it needs `glorious`, `crossed`" in message and "screen check" not in message  # `several` is something else
    message = said(write(source.replace(", several)", ")").replace("self.several = several", "pass"), "other.py"))
    assert "`screen check other.py::Net --set glorious=false --set crossed=false`" in message


# -- where an author says it -------------------------------------------------------------------------------------------------------------------


def test_command_lines_of_several_scripts_count_where_they_agree(write: Any) -> None:
    trainer = "class Trainer:\n    def __init__(self, args):\n        self.net = Net(self.args.width, self.args.depth, self.args.vocab_size)\n"
    write(trainer, "trainer.py", head="from model import Net\n")
    head = "import argparse\nfrom trainer import Trainer\nparser = argparse.ArgumentParser()\n"
    both = 'parser.add_argument("--width", default=40)\nparser.add_argument("--vocab_size", default={vocab_size})\n'
    write(both.format(vocab_size=70) + 'parser.add_argument("--depth", default=2)\nTrainer(parser.parse_args())\n', "train.py", head=head)
    write(both.format(vocab_size=71) + "Trainer(parser.parse_args())\n", "evaluate.py", head=head)
    write("class Net(Base):\n    def __init__(self, width, depth, vocab_size):\n        super().__init__(width, depth, vocab_size)\n")
    (b,) = built("model.py")
    assert (b.model.embed.weight.shape[1], len(b.model.maps)) == (40, 2)  # type: ignore[union-attr, arg-type]
    assert any("nobody states `vocab_size=37000`" in note for note in b.info.notes)  # which the two say differently


def test_a_file_that_is_loaded_by_its_path_says_what_is_read_of_it(write: Any) -> None:
    names = ["width", "depth", "rows", "hop", "rate", "bins", "pad", "bits"]
    write("".join(f"voc_{name} = {value}\n" for name, value in zip(names, (40, 2, 70, 275, 22050, 80, 2, 9), strict=True)), "hparams.py", head="")
    write(f"from loader import hp\nfrom model import Net\nhp.configure('hparams.py')\nnet = Net({', '.join(f'hp.voc_{name}' for name in names)})\n",
          "train.py", head="")  # fmt: skip
    write(f"class Net(Base):\n    def __init__(self, {', '.join(names)}):\n        super().__init__(width, depth, rows)\n")
    (b,) = built("model.py")
    assert b.model.embed.weight.shape == (70, 40) and len(b.model.maps) == 2  # type: ignore[union-attr, arg-type]
    write("voc_width, voc_depth, voc_rows, voc_hop, voc_rate, voc_bins, voc_pad, voc_bits = 1, 2, 3, 4, 5, 6, 7, 8\n", "other.py", head="")


def test_a_readme_in_a_folder_ends_no_project_that_has_one_above(tmp_path: Path) -> None:
    for path in ("README.md", "models/README.md", "models/net.py", "train.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    assert str(tmp_path / "train.py") in beside(str(tmp_path / "models" / "net.py"), (".py",))


def test_a_table_of_something_else_gives_what_is_lacking_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")
    net = "net:\n  channels: 48\n  depth: 4\n  growth: 2\n  heads: 8\n  scale: 1\n"
    (tmp_path / "conf.yaml").write_text(f"data:\n  parts: [voice, bass]\n  channels: 2\n{net}")
    takes = ["parts", "channels", "depth", "growth", "heads", "scale"]
    (found,) = settings_files.having(str(tmp_path / "net.py"), "Net", ["parts"], takes)
    assert dict(found.settings) == {"parts": ["voice", "bass"]} and not found.own
    assert settings_files.sole(str(tmp_path / "net.py"), "Net", ["parts"], takes) is None
    alone = settings_files.sole(str(tmp_path / "net.py"), "Net", ["parts"], ["parts", "channels"])
    assert alone is not None and alone.own


# -- what runs -------------------------------------------------------------------------------------------------------------------------------------


def test_a_forward_that_is_left_to_others_is_none() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)

        def forward(self) -> None:
            raise NotImplementedError

    assert [part for _, part in inner("Both", Both())] == ["actor", "critic"]


def test_a_cut_that_leaves_no_rows_ends_no_search() -> None:
    """Ids of the form that was given are proposed for it: those of no rows raised."""
    net, ids = nn.Embedding(30, 24, device="meta"), torch.empty(2, 16, device="meta")
    found = mend.Failed({"ids": ids}, RuntimeError("indices"), "embedding", (ids[:, :0], net.weight))
    found.put(found.args[0], frozenset(["ids"]))
    [(name, value)] = [*mend._by_call(found, found.given, Lookup(net))][:1]
    assert name == "ids" and value.shape == (2, 16) and value.dtype == torch.int64


def test_settings_of_python_are_told_in_part(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text(
        "def d(**more):\n    return dict(more)\n\ndef get_config():\n    config = ConfigDict()\n    config.width = 64\n"
        "    config.net = d(width=config.get_ref('width'), depth=3, words=len(WORDS))\n    return config\n"
    )
    assert tables.composed(tmp_path / "config.py", "the file", "net") == {"width": 64, "depth": 3}


def test_a_file_of_a_group_that_says_nothing_is_empty(tmp_path: Path) -> None:
    (tmp_path / "svd").mkdir()
    (tmp_path / "svd" / "default.yaml").write_text("# @package _global_\n")
    (tmp_path / "config.yaml").write_text("defaults:\n  - svd: default\nnet:\n  depth: 3\n")
    assert tables.composed(tmp_path / "config.yaml", "the file") == {"net": {"depth": 3}}


def test_one_step_tells_the_shapes_of_a_recurrence() -> None:
    net = nn.GRU(4, 6, num_layers=2, batch_first=True, bidirectional=True, device="meta")
    with packed.written_out(short=True):
        out, state = net(torch.empty(3, 50, 4, device="meta"))
    assert out.shape == (3, 50, 12) and state.shape == (4, 3, 6)
    torch.manual_seed(0)
    real, x = nn.GRU(4, 6), torch.randn(5, 2, 4)
    plain = real(x)[0]
    with packed.written_out(short=True):  # what has values runs as it is
        torch.testing.assert_close(real(x)[0], plain)
    assert outcome(net, (torch.empty(3, 50, 4, device="meta"),), {}).error is None


def test_numpy_has_its_second_names() -> None:
    with pytest.raises(AttributeError) as caught:
        numpy.cumproduct  # type: ignore[attr-defined]  # noqa: B018
    with older.taken_back():
        assert older.leave_out(caught.value) and numpy.cumproduct is numpy.cumprod  # type: ignore[attr-defined]
        assert "`numpy.cumproduct`, which this version of numpy lacks, is `numpy.cumprod`" in older.notes()
    assert not older.notes()


def test_parameters_without_a_size_are_passed_over() -> None:
    net = nn.Sequential(nn.LazyConv2d(8, 1), nn.Conv2d(8, 8, 3))
    assert 8 in sizes_of(net) and next(images(net, Lookup(net))).dim() == 4
    assert usual.extent(net)[0] == 4


def test_a_script_says_what_a_model_runs_with(write: Any, tmp_path: Path) -> None:
    """The forward needs a second scale, which the defaults of the command line do not make; another model's script says nothing."""
    options = "".join(f'parser.add_argument("--{key}", default={value})\n' for key, value in {"scales": 1, "width": 24, "rows": 70}.items())
    write(f"import argparse\nparser = argparse.ArgumentParser()\n{options}Model(parser.parse_args())\n", "run.py", head="from model import Model\n")
    (tmp_path / "a_other.sh").write_text("python run.py --model Other --scales 5\n")
    (tmp_path / "train.sh").write_text("# one\nexport LOG=1\nscales=3\npython -u run.py \\\n  --model Model \\\n  --scales $scales --rows=80\n")
    write("""
    class Model(Base):
        def __init__(self, configs):
            super().__init__(configs.width, 2, configs.rows)
            self.scales = configs.scales

        def extra(self, x):
            return [x * n for n in range(1, self.scales + 1)][1]
    """)
    module = build._load(parse("model.py"))
    assert [*scripts.said(module.Model)] == [("train.sh:4", {"configs.scales": 3, "configs.rows": 80})]
    found = build._as_author("Model", module.Model, {}, module, reading_of(module))
    assert found is not None
    (model, *_), place, settings = found
    assert (model.scales, place, settings) == (3, "train.sh:4", {"configs.scales": 3, "configs.rows": 80})
