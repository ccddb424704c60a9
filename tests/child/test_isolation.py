"""What lies in the tree that is judged takes no part in how our interpreters start, and its compiled files take part in nothing."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from screen.child.host import Host
from screen.child.launch import PACKAGE, interpreter
from screen.child.protocol import Request
from screen.child.results import Capture
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day

MODEL = """
from helper import VALUE
from torch import nn
raise ValueError(f"helper says {VALUE}")
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as running:
        yield running


def _capture(host: Host, folder: Path, target: str = "model.py") -> Capture:
    return host.capture(Request(f"{folder / target}::Net", memory=0))


def _compile(path: Path, source: str, to: Path) -> None:
    """Compiled code of another source that says that nobody needs to check it."""
    path.write_text(source)
    to.parent.mkdir(exist_ok=True)
    py_compile.compile(str(path), str(to), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


@pytest.mark.parametrize("of", ["helper", "model"])
def test_a_committed_cache_is_not_read_and_none_is_written(host: Host, tmp_path: Path, of: str) -> None:
    tag = sys.implementation.cache_tag
    cache = tmp_path / "__pycache__"
    _compile(tmp_path / f"{of}.py", "raise ValueError('hidden')\n", cache / f"{of}.{tag}.pyc")
    (tmp_path / "helper.py").write_text("VALUE = 'open'\n")
    (tmp_path / "model.py").write_text(MODEL)
    left = set(cache.iterdir())
    checked = subprocess.run([sys.executable, "-B", "-c", f"import {of}"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "hidden" in checked.stderr  # Python itself takes it
    assert "helper says open" in str(_capture(host, tmp_path).error)
    assert set(cache.iterdir()) == left


def test_nothing_is_written_for_the_next_run(host: Host, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 'open'\n")
    (tmp_path / "model.py").write_text(MODEL)
    assert "helper says open" in str(_capture(host, tmp_path).error)
    assert not (tmp_path / "__pycache__").exists()


def test_compiled_code_without_a_source_is_not_run(host: Host, tmp_path: Path) -> None:
    _compile(tmp_path / "helper.py", "VALUE = 'hidden'\n", tmp_path / "helper.pyc")
    (tmp_path / "helper.py").unlink()
    (tmp_path / "model.py").write_text(MODEL)
    said = str(_capture(host, tmp_path).error)
    assert "without its source" in said and "hidden" not in said


@pytest.mark.parametrize("fork", [True, False])
def test_files_called_like_ours_are_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork: bool) -> None:
    """A `screen` folder, `sitecustomize` and `usercustomize` in the working directory, which is the tree's."""
    for name in ("screen/__init__.py", "screen/child/__init__.py", "sitecustomize.py", "usercustomize.py", "torch.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("import os\nos._exit(77)\n")
    (tmp_path / "model.py").write_text("raise ValueError('it ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *[p for p in sys.path if p != str(ROOT)]])
    with Host(fork=fork) as host:
        assert "it ran" in str(_capture(host, tmp_path).error)


def test_an_interpreter_runs_this_package_whatever_stands_first_on_its_path(tmp_path: Path) -> None:
    (tmp_path / "screen").mkdir()
    (tmp_path / "screen" / "__init__.py").write_text("raise SystemExit(77)\n")
    command = interpreter("screen.child.device")
    settings = json.loads(command[-1])
    command[-1] = json.dumps({**settings, "path": [str(tmp_path), *settings["path"]]})
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0 and b"torch" in done.stdout, done.stderr
    assert settings["package"] == PACKAGE == os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["screen.child"].__file__ or "")))


def test_a_config_runs_nothing_of_the_tree(tmp_path: Path) -> None:
    """Packages that transformers looks for, files that a config names, and kernels that it asks for."""
    pytest.importorskip("transformers", reason="a config is one of transformers")
    for name in ("accelerate", "apex", "flash_attn", "kernels", "natten", "torchvision"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(77)\n")
    (tmp_path / "modeling.py").write_text("raise SystemExit(77)\n")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 16, "vocab_size": 16}
    asked = {"auto_map": {"AutoModelForCausalLM": "modeling.Model"}, "trust_remote_code": True, "attn_implementation": "flash_attention_2"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **sizes, **asked}))
    command = [sys.executable, "-m", "screen", "check", "config.json", "--no-spot-check", "--sandbox", "off", "--fail-on", "never"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "taken without the kernel `flash_attention_2`" in done.stdout, done.stderr
