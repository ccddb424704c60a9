"""Command lines and small files at random, by seed: no traceback, no fault of ours, no exit code outside of the contract; and it depends on
neither format, order of targets, colour, nor on where reports go.

`python -m tests.command.test_fuzz 0 1000` runs the seeds from 0 to 999; a test runs a few of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from screen.child.host import Host
from screen.child.protocol import Request
from screen.child.results import Capture, Progress, silent
from screen.command import cli, commands, console
from tests.command.test_cli import MODEL

pytestmark = pytest.mark.by_the_day

SEEDS = 25
"""How many a test runs."""
PROBED = 8
"""Of so many lines of `check` one is of `probe`."""
TRACEBACK = "Traceback (most recent"
LOOP = """
from torch import nn
class Net(nn.Module):
    def __init__(self, depth: int = 2):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))
    def forward(self, x):
        for part in self.parts:
            x = 3 * x + part(x)
        return x
"""
FILES: dict[str, str | bytes | None] = {
    "model.py": MODEL, "loop.py": LOOP, "empty.py": "", "broken.py": "def f(:\n", "raises.py": "1/0\n", "bytes.py": b"\xff\x00", "sub": None,
    "config.json": "{}", "a.json": "[]", "r.toml": "lr = 1e-3\n", "bad.toml": "lr = \n", "known.json": '{"findings": []}', "r.yaml": "lr: 0.1\n",
    "naïve file.py": MODEL,
}  # fmt: skip
"""What lies there: text, bytes, or a folder."""
TARGETS = (
    "model.py", "model.py::Model", "model.py::Block", "model.py:Model", "loop.py", "loop.py::Net", "empty.py", "broken.py", "raises.py", "bytes.py",
    "none.py", "sub", "config.json", "a.json", "model", "", "::", ":", "a:b", "os:path", "hf:", "naïve file.py::Model", "-", "model.py::Nope",
    "mine", "/dev/null", "~", "*.py", "\x1b[31m.py", "x\ny", "\udcff.py",
)  # fmt: skip
CODES = ("G", "G1", "R201", "L", "Z", "G999", "g103,r2", "", ",", "G101,,", "normed-skip")
FORMATS = ("text", "concise", "markdown", "html", "json", "sarif", "github", "gitlab", "junit")
PATHS = ("out", "new/out", "model.py", ".", "", "sub", "/dev/null", "known.json", "model.py/x", "ö")
NUMBERS = ("1", "2", "0", "-1", "7", "1e3", "nan", "inf", "", "x", "9" * 30, "²", "٣", "1_0", " 4 ")
OPTIONS: dict[str, tuple[str, ...]] = {
    "--format": (*FORMATS, "jsn", ""), "--report": ("json=out", "markdown=new/out", "out", "=", "json=", "nope=x", "sarif=.", "text=/dev/null"),
    "--output": PATHS, "--select": CODES, "--ignore": CODES,
    "--fail-on": (*CODES, "slip", "unstable", "conditional", "never", "never,slip", "slip,G1"),
    "--baseline": ("known.json", "none.json", "a.json", "sub"),
    "--recipe": ("r.toml", "bad.toml", "r.yaml", "none.toml", "lr=1", "lr=nan", "lr=-1", "zz=1", "bert-base", "", "=", "betas=[0.9,0.95]"),
    "--depth": NUMBERS, "--width": NUMBERS, "--timeout": ("60", "2m", *NUMBERS), "--memory": ("8GiB", "1", *NUMBERS), "--jobs": ("1", "0", "x", ""),
    "--seed": NUMBERS, "--device": ("cpu", "auto", "gpu"), "--dtype": ("auto", "half"), "--probe-seconds": NUMBERS,
    "--color": ("auto", "always", "never", "red"), "--set": ("depth=2", "depth=x", "depth=", "a", "=", "a.b.c=1", "depth=[", "depth=-3"),
    "--config": ("r.toml", "config.json", "bad.toml", "none", "sub"), "--trusted-config": ("", "r.toml", "none.toml", "HEAD", "--help"),
    "--input": ("x=float32[2,16,32]", "x=float32[2,16,16]", "x", "y=1", "float32[2,4,32]", "x=float32[]", "x=float32[0]", "x=int64[2,3]=9", "="),
}  # fmt: skip
"""Options with a value, and values for them: good ones and bad ones."""
FLAGS = ("--update-baseline", "--allow-unknown", "--strict-rules", "--skip-without-model", "--short", "--quiet", "--verbose", "--no-spot-check",
         "--no-second-opinion", "--require-opinion", "--no-probe", "--help", "--nope", "-qv", "--", "--version")  # fmt: skip
KEYS = ("depth", "format", "fail-on", "select", "ignore", "quiet", "timeout", "baseline", "report", "set", "recipe", "targets", "dpeth", "color")
VALUES = ("3", "'text'", "true", "['G1']", "'conditional'", "'json'", "''", "-1", "nan", "{}", "{ a = 1 }", "[1]", "'never'", "'2m'", "[[1]]",
          "1979-05-27", "[{ spec = 'model.py', name = 'mine' }]", "[{ spec = 'none.py' }]")  # fmt: skip
OTHERS = (
    ["config"], ["schema"], ["rule", "G101"], ["rule", "nope"], ["explain", "channel"], ["explain", "\x1b[2J"], ["recipe", "bert-base"],
    ["recipe", "r.toml"], ["recipe", "bad.toml"], ["recipe", "sub"], ["graph", "model.py"], ["graph", "none.py"],
    ["graph", "model.py", "--format", "dot"],
    ["compare", "model.py"], ["compare", "model.py::Block", "model.py::Block"], ["compare", "a.json", "config.json"], ["init", "--dry-run"],
    ["chekc"], [], ["fix"], ["sweep", "x"],
    ["rule", "--all", "G101"], ["recipe", "--fields"], ["explain"],
)  # fmt: skip


def line(seed: int) -> tuple[list[str], dict[str, str]]:
    """The words of a command line, and files beside `FILES`."""
    draw = random.Random(seed)
    if draw.random() < 0.15:
        words = list(draw.choice(OTHERS))
    else:
        words = ["check", *draw.choices(TARGETS[:6] if draw.random() < 0.6 else TARGETS, k=draw.choice((0, 1, 1, 1, 2, 3)))]
        for _ in range(draw.choice((0, 0, 1, 1, 2, 3, 5))):
            name = draw.choice(list(OPTIONS))
            value = draw.choice(OPTIONS[name][:4] if draw.random() < 0.5 else OPTIONS[name])
            words += [f"{name}={value}"] if draw.random() < 0.3 else [name, value]
        words += draw.sample(FLAGS, k=draw.choice((0, 0, 0, 1, 2)))
        words = words if draw.random() < 0.9 else words[:1] + draw.sample(words[1:], k=len(words) - 1)
        if seed % PROBED == PROBED - 1:  # it takes the same words
            words[:1] = ["probe", "--probe-seconds", "0.01"]
    files = {}
    if draw.random() < 0.25:
        text = "\n".join(f"{draw.choice(KEYS)} = {draw.choice(VALUES)}" for _ in range(draw.choice((0, 1, 1, 2))))
        files = {"screen.toml": text} if draw.random() < 0.6 else {"pyproject.toml": f"[tool.screen]\n{text}"}
    return words, files


class Remembering:
    """A host that captures each thing once: what it is asked for again, it has."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._made: dict[str, Capture] = {}

    def __call__(self, *, preload: object) -> Remembering:
        return self

    def __enter__(self) -> Remembering:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def capture(self, request: Request, progress: Progress = silent) -> Capture:
        known = json.dumps(request.to_json(), sort_keys=True, default=str)
        if known not in self._made:
            self._made[known] = self._host.capture(request, progress)
        return self._made[known]


def lay(files: dict[str, str]) -> None:
    """Empties the working directory and puts the files there."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, content in {**FILES, **files}.items():
        Path(name).mkdir() if content is None else Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


def said(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    return code, out.getvalue(), err.getvalue()


def fault(code: int, out: str, err: str) -> str:
    """What is wrong with an answer; empty where nothing is."""
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "fault of `screen`" in err or (TRACEBACK in out + err and not console.verbose):
        return "a fault of ours"
    if code == 2 and not err and "unknown" not in out and "not judged" not in out and "Usage:" not in out and "could not" not in out:
        return "exit 2 without a word"
    if code == 1 and "exit 1: " not in err and "worse" not in out:
        return "exit 1 without a reason"
    return ""


@contextlib.contextmanager
def workshop(folder: Path) -> Iterator[None]:
    """A working directory, and one child for all that is judged there."""
    before = os.getcwd()
    os.chdir(folder)
    os.environ.pop("GITHUB_STEP_SUMMARY", None)
    with Host(preload=["torch._dynamo"]) as host:
        kept, commands.Host = commands.Host, Remembering(host)  # type: ignore[misc, assignment]
        try:
            yield
        finally:
            commands.Host = kept  # type: ignore[misc]
            os.chdir(before)


def run(seeds: range, tell: Callable[[int, list[str], str, str], None]) -> dict[int, int]:
    """How often each exit code came. `tell`: seed, command line, what is wrong, stderr."""
    codes: dict[int, int] = {}
    for seed in seeds:
        words, files = line(seed)
        lay(files)
        code, out, err = said(words)
        codes[code] = codes.get(code, 0) + 1
        if wrong := fault(code, out, err):
            tell(seed, words, wrong, err)
    return codes


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with workshop(tmp_path_factory.mktemp("fuzz")):
        yield


def test_lines_at_random(shop: None) -> None:
    wrong: list[Any] = []
    codes = run(range(SEEDS), lambda *told: wrong.append(told))
    assert wrong == [] and set(codes) == {0, 1, 2}, codes


@pytest.mark.parametrize("seed", range(4))
def test_the_exit_code_does_not_depend_on_how_it_is_shown(shop: None, seed: int) -> None:
    draw = random.Random(seed)
    targets = draw.sample(("model.py::Block", "model.py::Model", "loop.py", "raises.py", "empty.py"), k=draw.choice((1, 2, 3)))
    gate = draw.choice(([], ["--fail-on", "conditional"], ["--fail-on", "never"], ["--fail-on", "R2"], ["--allow-unknown"], ["--ignore", "G,D"]))
    lay({})
    expected = said(["check", *targets, *gate])[0]
    shown = [["--format", draw.choice(FORMATS)], ["-o", "out", "--format", draw.choice(FORMATS)], ["--report", "json=a", "--report", "sarif=b"],
             ["--color", "always"], ["-q"], ["-v"], ["--short", "--format", "markdown"]]  # fmt: skip
    found = {" ".join(way): said(["check", *draw.sample(targets, k=len(targets)), *gate, *way])[0] for way in shown}
    assert found == dict.fromkeys(found, expected)


if __name__ == "__main__":
    first, last = (int(word) for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as place, workshop(Path(place)):
        for begin in range(first, last, 100):
            chunk = range(begin, min(begin + 100, last))
            sys.stdout.write(f"{chunk} {run(chunk, lambda *told: sys.stdout.write(f'{told}'[:1500] + chr(10)))}\n")
            sys.stdout.flush()
