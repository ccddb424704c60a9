"""A file without a model is an error of loading: exit 2, with the candidates that a name could choose, and never a pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from screen.capture.build.python_file import find, load_file
from screen.errors import LoadError
from screen.graph.target import parse

HELPERS = """
from torch import nn
from torch.nn import Linear

class Settings:
    pass

class Abstract(nn.Module):
    pass

def make(width=8):
    return Linear(width, width)
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1", "nothing in it could be one. Define one, or give another file."),
        (HELPERS, "its candidates are `Linear`, `make`. Name a class"),
    ],
)
def test_a_file_without_a_model_lists_its_candidates(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "helpers.py").write_text(source)
    path = str(tmp_path / "helpers.py")
    with pytest.raises(LoadError) as caught:
        find(load_file(path), parse(path))
    assert said in str(caught.value) and caught.value.stage == "load" and caught.value.file == path


@pytest.mark.by_the_day
def test_nothing_found_is_exit_2_and_a_report_that_judges_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1")
    done = subprocess.run(
        [sys.executable, "-m", "screen", "check", "empty.py", "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(done.stdout)
    assert done.returncode == 2 and report["error"]["stage"] == "load" and report["error"]["file"] == "empty.py"
    assert report["findings"] == [] and "not judged" in report["summary"]
