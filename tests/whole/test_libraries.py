"""The tables of `python -m tests.libraries` are whole, and a page is made of what came out. No library is installed for this."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.libraries.__main__ import HERE, Page, Result, _read, libraries, page, targets

ENVIRONMENTS = tomllib.loads((HERE / "environments.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("library", libraries())
def test_a_table_is_whole(library: str, tmp_path: Path) -> None:
    table = tomllib.loads((HERE / f"{library}.toml").read_text(encoding="utf-8"))
    known = {"environment", "imports", "targets", "options", "builders", "files", "commits", "note", "truth"}
    assert table["environment"] in ENVIRONMENTS and set(table) <= known
    names = [name for part in ("targets", "builders", "files") for name in table.get(part, {})]
    assert len(names) == len(set(names)) > 3 and {*table.get("options", {}), *table.get("truth", {})} <= set(names)
    for target in targets(library, tmp_path, None):
        if target.text.endswith(".py"):
            ast.parse(Path(target.text).read_text(encoding="utf-8"))


def test_versions_are_pinned_where_models_come_from() -> None:
    for environment in ENVIRONMENTS.values():
        assert all("==" in requirement for requirement in environment["bare"] if requirement not in ("psutil", "soundfile"))


def test_what_is_read_and_what_is_not() -> None:
    stream = {"depth": 3}
    good, bad = Result("timm", "good", False), Result("timm", "bad", False)
    assert _read({"verdict": "stable", "error": None, "streams": [stream, stream]}, good) == ""
    error = {"message": "it | fails", "file": "/a/b.py", "line": 7}
    assert _read({"verdict": "unknown", "reports": [{"error": None, "streams": []}, {"error": error, "streams": []}]}, bad) == "it | fails"
    assert (good.read, good.blocks, bad.read, bad.where) == (True, 6, False, "b.py:7")
    found = Page()
    found.add("timm", [good, bad])
    text = page(found)
    assert "**1 of 2 targets are read.**" in text and "| timm | `bad` | it \\| fails (b.py:7) |" in text
