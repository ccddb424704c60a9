"""What is typed or written wrong (`wrong_inputs.toml`): exit code 2, and one message that says what is required, what was found, what to try."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from screen.child.host import Host
from screen.command import cli, commands
from tests.command.test_cli import MODEL

ROWS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("wrong_inputs.toml").read_text(encoding="utf-8"))["row"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of all rows: the one child that they share has started there."""
    before, made = os.getcwd(), tmp_path_factory.mktemp("wrong")
    os.chdir(made)
    yield made
    os.chdir(before)


@pytest.fixture(scope="module")
def child(folder: Path) -> Iterator[Host]:
    with Host(preload=["torch._dynamo"]) as running:
        yield running


class _Shared:
    """The host of all rows, in place of one for each: torch is imported once."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __call__(self, *, preload: object) -> _Shared:
        return self

    def __enter__(self) -> Host:
        return self._host

    def __exit__(self, *_: object) -> None:
        pass


class _None:
    """In place of a host where no target may be built: it is a mistake that is seen before."""

    def __init__(self, *, preload: object) -> None: ...

    def __enter__(self) -> _None:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def capture(self, *_: object) -> None:
        raise AssertionError("a target was built")


def _write(files: dict[str, Any]) -> None:
    """The files of a row, in a working directory that holds nothing but the model."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, content in {"model.py": MODEL, **files}.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif "hex" in content:
            path.write_bytes(bytes.fromhex(content["hex"]))
        else:
            path.mkdir() if "folder" in content else os.mkfifo(path)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row["argv"])[:60].replace("\0", "␀") or "(nothing)")
def test_one_message_says_what_where_and_what_to_do(
    row: dict[str, Any], folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(row.get("files", {}))
    monkeypatch.setattr(commands, "Host", _Shared(request.getfixturevalue("child")) if row.get("child") else _None)
    assert cli.main(row["argv"]) == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in err and "fault of `screen`" not in err
    if "prints" in row:
        assert row["prints"] in out and err == ""
        return
    assert out == "" and err.startswith("error: ") and err.endswith((".\n", "?\n")) and len(err.splitlines()) == 1
    assert [words for words in row["says"] if words not in err] == [], err


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len(ROWS) >= 60
    assert len({repr(row) for row in ROWS}) == len(ROWS)
