"""Targets as text: every form of the contract, and what is said when none fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from screen.errors import UsageError
from screen.graph.target import TargetSpec, did_you_mean, from_folder, parse

FORMS = {
    "m.py": {"kind": "file", "path": "m.py", "name": None},
    "m.py::Net": {"kind": "file", "path": "m.py", "name": "Net"},
    "m.py:Net": {"kind": "file", "path": "m.py", "name": "Net"},
    "m.py::outer.Net": {"kind": "file", "path": "m.py", "name": "outer.Net"},
    "package.module:attr": {"kind": "module", "module": "package.module", "name": "attr"},
    "config.json": {"kind": "config", "path": "config.json", "class_name": None},
    "config.json::LlamaModel": {"kind": "config", "path": "config.json", "class_name": "LlamaModel"},
    "folder": {"kind": "config", "path": str(Path("folder") / "config.json")},
    "hf:gemma2": {"kind": "hf", "model_type": "gemma2", "class_name": None},
    "hf:bert:BertModel": {"kind": "hf", "model_type": "bert", "class_name": "BertModel"},
    "timm:vit_small": {"kind": "timm", "name": "vit_small"},
}

REFUSED = {
    "": "empty",
    "hf:": "model type",
    "hf:bert:": "model type",
    "hf:bert:A:B": "model type",
    "timm:": "architecture",
    "missing.py": "no file",
    "empty": "does not",
    "missing.json": "no file",
    "m.py::1": "must be the name",
    "package.module:1": "attribute",
    "bert": "Did you mean `hf:bert`",
    "meta-llama/Llama-3.1-8B": "never downloaded",
    "m": "Did you mean `m.py`",
    "hff:bert:x": "Did you mean `hf`",
    "modle.py": "`model.py` exists",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file, a config, and a folder with and one without a config."""
    for name in ("m.py", "model.py", "config.json"):
        (tmp_path / name).write_text("{}")
    for name in ("folder", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_the_contract_is_read(here: Path, text: str) -> None:
    assert parse(text) == TargetSpec(text, **FORMS[text])


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_target_is_refused_with_the_reason(here: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert REFUSED[text] in str(caught.value)


def test_a_full_path_is_kept(here: Path) -> None:
    assert parse(f"{here / 'm.py'}::Net").path == str(here / "m.py")


def test_a_windows_drive_is_no_name(here: Path) -> None:
    with pytest.raises(UsageError, match=r"no file `C:\\model\.py`"):
        parse(r"C:\model.py")


@pytest.mark.parametrize("folder", ["a b::c", "a:b", "x::y.py"])
def test_colons_in_a_path_that_exists_are_no_end_of_it(here: Path, folder: str) -> None:
    (here / folder).mkdir()
    (here / folder / "my model.py").write_text("")
    path = f"{folder}/my model.py"
    assert parse(path) == TargetSpec(path, "file", path=path)
    assert parse(f"{path}::Net") == TargetSpec(f"{path}::Net", "file", path=path, name="Net")
    assert from_folder("my model.py::Net", folder) == f"{path}::Net"


def test_a_link_that_leads_nowhere_is_said(here: Path) -> None:
    (here / "link.py").symlink_to("gone.py")
    with pytest.raises(UsageError, match=r"`link\.py` is a link that leads to no file"):
        parse("link.py")


def test_nearest_names_come_first_whatever_their_case() -> None:
    assert did_you_mean("bertmodel", ["GPT2Model", "BertModel"]).startswith("Did you mean `BertModel`")
    assert did_you_mean("xyzzy", ["BertModel"]) == ""


def test_parsing_imports_no_torch() -> None:
    code = "import sys; from screen.graph.target import parse; parse('hf:llama'); sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
