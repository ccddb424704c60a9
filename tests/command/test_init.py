"""`screen init`: which models reading finds, and what is written where."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from screen import settings as config
from screen.command import cli
from screen.command.init import HOOK, HOOKS, MOST, WORKFLOW
from screen.command.models import find, has_model
from screen.command.targets import wanted
from screen.visible import clean
from tests.command.test_cli import MODEL

yaml = pytest.importorskip("yaml")
NET = "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width, *, heads, depth=2): pass\n    def forward(self, x): return x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _files(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("/init", "/__init__")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)


def _found(root: Path, **texts: str) -> list[str]:
    _files(root, **texts)
    return [model.spec for model in find(root)[0]]


def test_a_part_of_a_model_is_no_target(folder: Path) -> None:
    assert _found(folder, model=MODEL) == ["model.py::Model"]


def test_nothing_is_executed(folder: Path) -> None:
    assert _found(folder, model="open('ran', 'w')\nraise SystemExit\n" + MODEL) == ["model.py::Model"]
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("imports", "base"),
    [
        ("import torch", "torch.nn.Module"),
        ("import torch.nn as nn", "nn.Module"),
        ("from torch import nn as layers", "layers.Module"),
        ("from torch.nn import Module as M", "M"),
        ("from torch.nn.modules.module import Module", "Module"),
        ("import lightning as L", "L.LightningModule"),
        ("from transformers import PreTrainedModel", "PreTrainedModel"),
    ],
)
def test_bases_are_followed_through_imports(folder: Path, imports: str, base: str) -> None:
    assert _found(folder, model=f"{imports}\nclass Net({base}):\n    def forward(self, x): return x\n") == ["model.py::Net"]


def test_what_is_no_model_is_left_out(folder: Path) -> None:
    text = (
        "from torch import nn\nfrom pydantic import BaseModel\nfrom other import Module\n"
        "class Config(BaseModel): pass\nclass Foreign(Module):\n    def forward(self, x): return x\nclass NoForward(nn.Module): pass\n"
    )
    assert _found(folder, model=text) == []


def test_bases_and_parts_are_followed_through_files(folder: Path) -> None:
    found = _found(
        folder,
        src__pkg__init="from .base import Base\n",
        src__pkg__base="import torch\nclass Base(torch.nn.Module): pass\n",
        src__pkg__layers="from pkg import Base\nclass Block(Base):\n    def forward(self, x): return x\n",
        src__pkg__net="from . import layers\nfrom .base import Base\nclass Net(Base):\n"
        "    def __init__(self):\n        self.block = layers.Block()\n    def forward(self, x): return x\n",
        train="from pkg.net import Net\nNet()\n",
    )
    assert found == ["src/pkg/net.py::Net"]


def test_an_annotation_makes_no_part(folder: Path) -> None:
    text = NET + "class Loss(torch.nn.Module):\n    def __init__(self, net: Net): pass\n    def forward(self, x): return x\n"
    assert _found(folder, model=text) == ["model.py::Net", "model.py::Loss"]


def test_imports_that_go_round_in_a_circle_end(folder: Path) -> None:
    assert _found(folder, a="from b import Net\nclass A(Net): pass\n", b="from a import Net\n", c="class C(C): pass\n") == []


def test_a_file_that_says_what_to_look_at_is_one_target(folder: Path) -> None:
    assert _found(folder, model=MODEL + "\ndef build_model():\n    return Model()\n", config="model = 'gpt'\n") == ["model.py"]


def test_tests_and_environments_are_not_looked_at(folder: Path) -> None:
    (folder / "env").mkdir()
    (folder / "env" / "pyvenv.cfg").touch()
    assert _found(folder, env__net=NET, tests__net=NET, node_modules__net=NET, test_net=NET, broken="class (", net=NET) == ["net.py::Net"]
    assert find(folder)[0][0].needs == ("width", "heads")


def test_fields_of_a_dataclass_without_a_default_are_named_by_their_paths(folder: Path) -> None:
    config = "from dataclasses import dataclass\n@dataclass\nclass Args:\n    vocab: int\n    width: int = 8\n"
    net = "import torch\nfrom config import Args\nclass Net(torch.nn.Module):\n    def __init__(self, args: Args, heads): pass\n"
    _files(folder, config=config, net=net + "    def forward(self, x): return x\n")
    assert find(folder)[0][0].needs == ("args.vocab", "heads")
    assert cli.main(["init"]) == 0 and "# set = { args.vocab = …, heads = … }  # no default\n" in (folder / "screen.toml").read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [(NET, True), ("x = 1\n", False), ("class (", True), ("def build_model(): ...\n", True), ("import torch\nclass A(torch.Tensor): pass\n", False)],
)
def test_whether_a_file_has_a_model(folder: Path, text: str, expected: bool) -> None:
    _files(folder, some=text)
    assert has_model(Path("some.py")) is expected


# -- what is written --------------------------------------------------------------------------------------------------------------------------


def test_everything_is_new_and_can_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _files(folder, model=MODEL, net=NET)
    assert cli.main(["init", "--install", "git+https://example.org/screen"]) == 0
    said = capsys.readouterr().out
    assert "2 models in 2 Python files" in said and "needs width, heads" in said and "not on PyPI" not in said
    assert [one.spec.text for one in wanted((), config.load({}))] == ["model.py::Model", "net.py::Net"]
    job = yaml.safe_load((folder / WORKFLOW).read_text())["jobs"]["screen"]
    assert {"run": "python -m pip install git+https://example.org/screen"} in job["steps"]
    (hook,) = yaml.safe_load((folder / HOOKS).read_text())["repos"]
    assert hook["hooks"][0]["entry"] == "screen check"


def test_a_second_time_nothing_is_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _files(folder, model=MODEL)
    cli.main(["init"])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    _files(folder, net=NET)
    assert cli.main(["init"]) == 0
    assert {path: path.read_bytes() for path in before} == before
    said = capsys.readouterr().out
    assert "wrote" not in said and said.count("already") == 3 and "it has no entry for `net.py::Net`" in said


def test_a_dry_run_writes_nothing_and_its_diff_can_be_applied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _files(folder, model=MODEL)
    (folder / "pyproject.toml").write_text('[project]\nname = "x"')
    files = set(folder.rglob("*"))
    assert cli.main(["init", "--dry-run"]) == 0
    assert set(folder.rglob("*")) == files
    out = capsys.readouterr().out
    (folder / "d").write_text(out[: out.index("\n1 model in") + 1])
    cli.main(["init"])
    made = {name: (folder / name).read_text() for name in ("pyproject.toml", WORKFLOW, HOOKS)}
    for name in (WORKFLOW, HOOKS):
        (folder / name).unlink()
    (folder / "pyproject.toml").write_text('[project]\nname = "x"')
    subprocess.run(["git", "apply", "-p0", "d"], cwd=folder, check=True)
    assert {name: (folder / name).read_text() for name in made} == made


def test_what_stands_in_pyproject_stays(folder: Path) -> None:
    _files(folder, model=MODEL)
    before = '[project]\r\nname = "x"  # a remark\r\n[tool.ruff]\r\nline-length = 88\r\n'
    (folder / "pyproject.toml").write_bytes(before.encode())
    assert cli.main(["init"]) == 0
    after = (folder / "pyproject.toml").read_bytes().decode()
    assert after.startswith(before) and tomllib.loads(after)["tool"]["screen"]["targets"] == [{"spec": "model.py::Model"}]


def test_where_pyproject_takes_no_table_the_other_file_is_written(folder: Path) -> None:
    _files(folder, model=MODEL)
    (folder / "pyproject.toml").write_text("tool = {ruff = {}}\n")
    assert cli.main(["init"]) == 0
    assert (folder / "pyproject.toml").read_text() == "tool = {ruff = {}}\n" and "[[targets]]" in (folder / "screen.toml").read_text()


@pytest.mark.parametrize("item", ["", "  ", "    "])
def test_a_hook_joins_those_that_are_there(folder: Path, item: str) -> None:
    _files(folder, model=MODEL)
    before = f"default_stages: [pre-commit]\nrepos:\n{item}- repo: local\n{item}  hooks:\n{item}    - id: other\n"
    (folder / HOOKS).write_text(before)
    assert cli.main(["init"]) == 0
    after = (folder / HOOKS).read_text()
    assert after.startswith(before) and [one["hooks"][0]["id"] for one in yaml.safe_load(after)["repos"]] == ["other", "screen"]


@pytest.mark.parametrize("text", ["repos: []\n", "repos:\n- repo: local\nfail_fast: true\n", "", "repos:\n"])
def test_a_hook_that_cannot_be_joined_is_shown(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    _files(folder, model=MODEL)
    (folder / HOOKS).write_text(text)
    assert cli.main(["init"]) == 0
    assert (folder / HOOKS).read_text() == text and HOOK.splitlines()[-1].strip() in capsys.readouterr().out


def test_where_gitlab_is_used_no_workflow_of_github_is_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _files(folder, model=MODEL)
    (folder / ".gitlab-ci.yml").touch()
    assert cli.main(["init"]) == 0
    assert not (folder / WORKFLOW).exists() and "docs/gate.md" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["requirements.txt", "setup.py"])
def test_the_workflow_installs_what_the_models_import(folder: Path, name: str) -> None:
    _files(folder, model=MODEL)
    (folder / name).touch()
    cli.main(["init"])
    assert ("pip install -r requirements.txt" if name == "requirements.txt" else "pip install . #") in (folder / WORKFLOW).read_text()


def test_without_a_model_nothing_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _files(folder, some="x = 1\n")
    assert cli.main(["init"]) == 2
    assert "1 Python file was read" in capsys.readouterr().err and len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("named", [0, MOST])
def test_names_of_files_are_text_in_what_is_written_and_shown(folder: Path, capsys: pytest.CaptureFixture[str], named: int) -> None:
    _files(folder, **{f"a{i:02}": NET for i in range(named)})
    odd = ["::error::x.py", "b\n::error::y.py", "b\nfail-on = 'never'\n#.py", "b\x7f.py", "g\u202epj.py", "x\"]\n.py"]
    for name in odd:
        (folder / name).write_text(NET)
    Path(os.fsdecode(b"\xff.py")).write_text(NET)
    assert cli.main(["init"]) == 0
    shown, text = capsys.readouterr().out, Path("screen.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    assert read["fail-on"] == "slip" and all(entry.keys() == {"spec"} for entry in read["targets"])
    assert [entry["spec"] for entry in read["targets"][named:]] == ([] if named else [f"{name}::Net" for name in sorted(odd)])
    for made in (shown, text):
        assert made == "\n".join(map(clean, made.split("\n"))) and "gpj.py" not in made and not re.search(r"^\W*never", made, re.MULTILINE)
    assert len(re.findall("Net", shown)) == named + len(odd)
