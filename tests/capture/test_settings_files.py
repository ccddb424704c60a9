"""Files of settings beside a model are named in a command that builds it; what they name and leave open is read as Hydra and OmegaConf do."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from screen import tables
from screen.capture.build.project import beside
from screen.capture.build.settings_files import _read
from screen.errors import ScreenError, UsageError
from screen.graph.target import OPTIONAL
from screen.settings import load

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

NET = "class Net(Base):\n    def __init__(self, width, layers, n_vocab):\n        super().__init__(width, layers, n_vocab)\n"
CONFIGURED = """
class Net(Base):
    def __init__(self, config):
        super().__init__(config.model.width, config.model.layers)
        self.eps = config.eps
"""


def followed(target: str) -> tuple[str, Any]:
    """The command that a message names, and what it builds."""
    with pytest.raises(ScreenError) as raised:
        built(target)
    command = re.search(r"A file of the project has them: `screen check ([^`]+)`", str(raised.value))
    assert command is not None, raised.value
    words = shlex.split(command[1])
    file = words[words.index("--config") + 1]
    said = dict(w.split("=") for n, w in enumerate(words) if words[n - 1] == "--set")
    table = {OPTIONAL + key: value for key, value in load({"config": file}).config.items()}
    (b,) = built(words[0], **table, **{key: int(value) for key, value in said.items()})
    return command[1], b


def test_a_file_that_has_what_a_class_needs_is_named(write: Any, tmp_path: Path) -> None:
    path = write(NET)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "other.yaml").write_text("width: 8\n")
    (tmp_path / "configs" / "small.yaml").write_text("name: x\nmodel:\n  arch:\n    width: 32\n    layers: 2\n")
    command, b = followed(path)
    assert command == "model.py::Net --config configs/small.yaml:model.arch --set n_vocab=37000"
    assert runs(b) == "" and b.model.embed.embedding_dim == 32 and len(b.model.maps) == 2


def test_a_file_of_settings_may_be_called_conf(write: Any, tmp_path: Path) -> None:
    """AASIST.conf is JSON; one of another kind, with sections or words for a server, says nothing."""
    path = write(NET)
    (tmp_path / "server.conf").write_text("listen 80\nwidth 8;\n[part]\nlayers = 2\n")
    (tmp_path / "small.conf").write_text('{"name": "x", "net": {"width": 32, "layers": 2, "n_vocab": 50}}')
    (b,) = built(path)
    assert b.model.embed.embedding_dim == 32 and any("small.conf:net" in note for note in b.info.notes)


def test_what_is_no_file_beside_a_model_is_not_read(tmp_path: Path) -> None:
    """A link that leads nowhere, one that leads to itself, and a line that nobody writes to."""
    (tmp_path / "model.py").write_text("")
    (tmp_path / "config.yaml").write_text("width: 8\n")
    for suffix in (".py", ".yaml"):
        (tmp_path / f"config_gone{suffix}").symlink_to("gone")
        (tmp_path / f"config_loop{suffix}").symlink_to(f"config_loop{suffix}")
        os.mkfifo(tmp_path / f"config_line{suffix}")
    assert beside(str(tmp_path / "model.py"), (".py", ".yaml")) == (str(tmp_path / "config.yaml"),)
    assert _read(str(tmp_path / "model.py")) == ((str(tmp_path / "config.yaml"), {"width": 8}),)


def test_of_several_tables_the_one_of_a_file_that_names_the_class_goes_first(write: Any, tmp_path: Path) -> None:
    path = write(NET)
    (tmp_path / "a.yaml").write_text("width: 8\nlayers: 1\nn_vocab: 9\n")
    (tmp_path / "b.json").write_text('{"net": {"_target_": "pkg.model.Net", "width": 16, "layers": 2, "n_vocab": 9}}')
    assert followed(path)[0] == "model.py::Net --config b.json:net"


def test_a_configuration_is_the_whole_file(write: Any, tmp_path: Path) -> None:
    path = write(CONFIGURED)
    (tmp_path / "conf" / "model").mkdir(parents=True)
    base = "defaults:\n  - model: tiny\n  - _self_\neps: 1e-5\nrun:\n  dir: ${now:%Y}\n  size: ${model.width}\n"
    (tmp_path / "conf" / "base.yaml").write_text(base)
    (tmp_path / "conf" / "model" / "tiny.yaml").write_text("width: 16\nlayers: 2\n")
    (b,) = built(path)
    assert "its settings are those of `conf/base.yaml`, the one table of the project that has them" in b.info.notes
    assert b.model.eps == 1e-5 and len(b.model.maps) == 2
    assert b.info.changed == {"config": [None, "conf/base.yaml"]}


def test_what_does_not_build_is_not_named(write: Any, tmp_path: Path) -> None:
    path = write(NET.replace("super", "assert width % 3 == 0\n        super"))
    (tmp_path / "a.yaml").write_text("width: 8\nlayers: 1\n")
    with pytest.raises(ScreenError) as raised:
        built(path)
    assert "A file of the project" not in str(raised.value)


def test_defaults_stand_below_their_groups(tmp_path: Path) -> None:
    for folder in ("model", "data", "exp"):
        (tmp_path / folder).mkdir()
    (tmp_path / "config.yaml").write_text("defaults:\n  - base\n  - model: small\n  - /data@inputs: text\n  - override hydra/x: y\n  - none: null\n"
                                          "  - exp: fast\nmodel:\n  depth: 6\nlater: ???\n")  # fmt: skip
    (tmp_path / "base.yaml").write_text("seed: 1\n")
    (tmp_path / "model" / "small.yaml").write_text("depth: 12\nwidth: ${seed}\nheads: ${.width}\n")
    (tmp_path / "data" / "text.yaml").write_text("name: words\n")
    (tmp_path / "exp" / "fast.yaml").write_text("# @package _global_\nsteps: 10\n")
    assert tables.composed(tmp_path / "config.yaml", "it") == {
        "seed": 1, "model": {"depth": 6, "width": 1, "heads": 1}, "inputs": {"name": "words"}, "steps": 10,
    }  # fmt: skip


def test_interpolations_that_go_around_end(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: ${b}\nb: ${a}\nc: ${c}\nd: x-${a}\n")
    assert tables.composed(tmp_path / "a.yaml", "it") == {"d": "x-${a}"}
    lines = ["z0: {a: 1, b: 1}"] + [f"z{n}: {{a: '${{z{n - 1}}}', b: '${{z{n - 1}}}'}}" for n in range(1, 60)]
    (tmp_path / "b.yaml").write_text("\n".join(lines))
    assert tables.composed(tmp_path / "b.yaml", "it")["z0"] == {"a": 1, "b": 1}


def test_a_section_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("model: {width: 3}\nseed: 1\n")
    assert load({"config": f"{tmp_path}/a.yaml:model"}).config == {"": f"{tmp_path}/a.yaml:model", "width": 3}
    with pytest.raises(UsageError, match=r"has no table `net`.*It has `model`"):
        load({"config": f"{tmp_path}/a.yaml:net"})


def test_a_library_that_takes_dictionaries_alone_has_one(write: Any, tmp_path: Path) -> None:
    source = """
    from types import SimpleNamespace

    def taken(config):
        if type(config) is not dict:
            raise ValueError(f"Object of unsupported type: '{type(config).__name__}'")
        return SimpleNamespace(model=SimpleNamespace(**config["model"]))

    class Net(Base):
        def __init__(self, config):
            if isinstance(config, dict):
                config = taken(config)
            super().__init__(config.model.width, config.model.layers)
    """
    path = write(source)
    (tmp_path / "a.yaml").write_text("model:\n  width: 16\n  layers: 2\n")
    (b,) = built(f"{path}::Net", **{OPTIONAL + key: value for key, value in load({"config": "a.yaml"}).config.items()})
    assert len(b.model.maps) == 2 and b.info.changed == {"config": [None, "a.yaml"]}  # type: ignore[arg-type]


def test_settings_with_defaults_that_do_not_build_are_those_of_a_file(write: Any, tmp_path: Path) -> None:
    source = """
    from dataclasses import dataclass, field

    @dataclass
    class Settings:
        widths: list = field(default_factory=list)
        layers: int = 3

    class Net(Base):
        def __init__(self, config: Settings):
            super().__init__(config.widths[0], config.layers)
    """
    path = write(source)
    (tmp_path / "a.json").write_text('{"widths": [16, 32], "layers": 2}')
    with pytest.raises(ScreenError, match=r"raised `IndexError: list index out of range`.*`screen check model.py::Net --config a.json`"):
        built(path)


@pytest.mark.parametrize(("table", "used"), [("learning_rate: 1\n", False), ("learning_rate: 1\nd: 32\n", True)])
def test_a_file_of_which_nothing_is_a_setting_is_told(write: Any, tmp_path: Path, table: str, used: bool) -> None:
    (tmp_path / "c.yaml").write_text(table)
    path = write("class Net(Base):\n    pass\n")
    (b,) = built(f"{path}::Net", **{OPTIONAL + key: value for key, value in load({"config": "c.yaml"}).config.items()})
    assert ("nothing that `c.yaml` says is a setting of `Net`" in b.info.notes) is not used


PARTS = """
class Part(nn.Module):
    def __init__(self, width, rows, depth, rate):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

class Net(Base):
    def __init__(self, width, layers, part):
        super().__init__(width, layers)
        self.part = Part(width, rows=2, **part)
"""


def test_the_one_table_that_has_all_is_taken_and_what_a_call_says_beside_a_table_is_not_asked_for(write: Any, tmp_path: Path) -> None:
    path = write(PARTS)
    (tmp_path / "config.json").write_text('{"train": {"rate": 1}, "net": {"width": 16, "layers": 2, "part": {"depth": 3, "rate": 0.5}}}')
    (b,) = built(path)
    assert runs(b) == "" and len(b.model.part.maps) == 3 and b.model.embed.embedding_dim == 16
    assert "its settings are those of `config.json:net`, the one table of the project that has them" in b.info.notes
    (tmp_path / "same.yaml").write_text("width: 16\nlayers: 2\npart: {depth: 3, rate: 0.5}\nsteps: 9\n")
    _read.cache_clear(), beside.cache_clear()
    assert len(built(path)[0].model.part.maps) == 3
    (tmp_path / "deep.yaml").write_text("width: 16\nlayers: 2\npart: {depth: 30, rate: 0.5}\n")
    _read.cache_clear(), beside.cache_clear()
    with pytest.raises(ScreenError, match=r"A file of the project has them: `screen check model\.py::Net --config "):
        built(path)
