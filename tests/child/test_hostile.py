"""Files that do what they should not: one clear error each within the limit, nothing of theirs on stdout, nothing left running.

Most go through one `Host` (one import of torch); the whole command is run for those whose exit code or output could leak.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from screen.child import namespace
from screen.child.host import Host
from screen.child.launch import safe_path
from screen.child.protocol import Request
from screen.child.results import Capture
from screen.child.run import explain
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day

SOURCE = """
import os, sys, time
import torch
from torch import nn
{top}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
        self.norm = nn.LayerNorm(8)
        self.map = nn.Linear(8, 8)

    def forward(self, x):
        {forward}
        return x + self.map(self.norm(x))
"""
LIMIT = 15.0
"""Seconds for each; only endless loops need them all."""
FIRST = {"top": 5, "init": 10, "forward": 15}
"""The line on which each place begins."""

ENDINGS: dict[str, tuple[str, str, bool]] = {
    # name: (statement, a pattern of what the message says, whether the statement's line is known)
    "sys.exit(0)": ("sys.exit(0)", "SystemExit: 0", True),
    "os._exit(0)": ("os._exit(0)", "exit code 0", False),
    "os._exit(1)": ("os._exit(1)", "exit code 1", False),
    "crash": ("import ctypes; ctypes.string_at(0)", "SIGSEGV", True),
    "abort": ("os.abort()", "SIGABRT", True),
    "kill -9 of itself": ("os.kill(os.getpid(), 9)", "SIGKILL", False),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt", True),
    "a BaseException": ("raise type('Odd', (BaseException,), {})('why')", "Odd: why", True),
    "a kind of SystemExit": ("raise type('Quit', (SystemExit,), {})(0)", "Quit: 0", True),
    "an exception without text": ("raise ValueError", "ValueError", True),
    "an exception whose text raises": ("raise type('Odd', (ValueError,), {'__str__': lambda self: 1 / 0})", "Odd|division", True),
    "endless recursion": ("f = lambda: f(); globals().update(f=f); f()", "RecursionError", True),
    "a huge array": ("import numpy; numpy.empty(10**13)", "allocate", True),
    "input()": ("input()", "EOFError", True),
}
HARMLESS = {
    "prints": "print('GARBAGE' * 1000); os.write(1, b'GARBAGE'); os.write(2, b'GARBAGE'); sys.stderr.write('GARBAGE')",
    "no stdout": "sys.stdout = sys.stderr = None",
    "closed file descriptors": "os.closerange(0, 256)",
    "another working directory": "os.chdir('/')",
    "a thread that never ends": "import threading; threading.Thread(target=time.sleep, args=(1000,)).start()",
    "a child that never ends": "os.fork() or time.sleep(1000)",
    "a fork that runs on": "os.fork()",
    "an exit handler": "import atexit; atexit.register(time.sleep, 1000)",
    "signal handlers": "import signal; [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]",
    "arguments to parse": "import argparse; argparse.ArgumentParser().parse_args()",
    "modules taken away": "[sys.modules.pop(m, None) for m in ('json', 'os', 'screen', 'screen.graph.io', 'screen.child.run')]",
    "builtins replaced": "import builtins; builtins.print = builtins.input = None",
}


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host(preload=["torch._dynamo"]) as running:
        yield running


def _write(folder: Path, place: str, statement: str) -> str:
    text = SOURCE.format(**{"top": "", "init": "", "forward": "", place: statement})
    (folder / "hostile.py").write_text(text)
    assert text.splitlines()[FIRST[place] - 1].strip() == statement
    return str(folder / "hostile.py")


def _capture(host: Host, target: str, limit: float = LIMIT, **fields: object) -> Capture:
    begin = time.monotonic()
    found = host.capture(Request(target, timeout=limit, **fields))  # type: ignore[arg-type]
    assert time.monotonic() - begin < limit + 60  # the first one waits for torch
    return found


def _no_child_left(mark: str, patience: float = 0) -> None:
    """No process with `mark` in its environment lives any more, at the latest after `patience` seconds."""
    limit = time.monotonic() + patience
    while left := [pid for pid in _processes() if mark.encode() in _environment(pid)]:
        assert time.monotonic() < limit, left
        time.sleep(0.1)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if int(entry.name) != os.getpid()]


def _environment(pid: int) -> bytes:
    """Empty for a process that is gone or not ours."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("place", ["top", "init", "forward"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_way_to_end_is_an_error_with_its_line(host: Host, tmp_path: Path, ending: str, place: str) -> None:
    statement, said, located = ENDINGS[ending]
    found = _capture(host, _write(tmp_path, place, statement))
    failure = found.models[0].graph.failure if found.models and found.models[0].graph else None
    if failure is not None:
        assert place == "forward" and found.error is None
        assert re.search(said, failure.message) and failure.line == FIRST[place]
        return
    assert found.error is not None and re.search(said, str(found.error))
    assert found.error.stage in ("load", "limits") if place != "forward" else found.error.stage in ("trace", "limits")
    assert found.error.line == (FIRST[place] if located else None)
    assert "\n" not in str(found.error)


@pytest.mark.parametrize(
    ("line", "later"),
    [
        ("class Net[T](nn.Module):", True),
        ("type Rows = list[int]", True),
        ("print(f\"{rows[\"a\"]}\")", True),
        ("print(f\"{rows['a']}\", \"{}\")", False),
        ("class Net(nn.Module)", False),
        ("type(x) = 3", False),
        ("def f(:", False),
    ],
)
def test_a_line_that_a_later_python_reads_is_told_as_one(line: str, later: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 4, "final", 0))
    error = explain(SyntaxError("invalid syntax", ("model.py", 1, 1, line)), Request("model.py"), "load")
    assert ("Python 3.12 reads that line, and this is Python 3.11" in str(error)) is later and "SyntaxError: invalid syntax" in str(error)


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        ("def f(:", "SyntaxError", 1),
        ("\n\nx = (", "SyntaxError", 3),
        ("x = '\0'", "null bytes", None),
        ("import no_such_package.part", "Install `no_such_package`", 1),
        ("from torch import no_such_name", "ImportError", 1),
        ("x = 1", "defines none", None),
        ("raise ValueError('a:\\nb')", "`ValueError: a: b`", 1),
    ],
)
def test_a_file_that_does_not_load_is_an_error_of_loading(host: Host, tmp_path: Path, source: str, said: str, line: int | None) -> None:
    (tmp_path / "hostile.py").write_text(source)
    found = _capture(host, str(tmp_path / "hostile.py"))
    assert found.error is not None and said in str(found.error)
    assert found.error.stage == "load" and (line is None or found.error.line == line)


@pytest.mark.parametrize(
    ("place", "statement", "said"),
    [
        ("init", "self._modules['me'] = self", "a module that holds itself"),
        ("forward", "out = [x]; out.append(out); return out", "its own entry"),
        ("forward", "torch._C._pop_torch_function_stack()", "torch's stacks of modes as it finds them"),
        ("init", "torch.overrides.TorchFunctionMode.__enter__ = lambda mode: mode", "torch's stacks of modes as it finds them"),
    ],
)
def test_what_ends_in_our_frames_and_is_the_models_is_said_of_the_model(host: Host, tmp_path: Path, place: str, statement: str, said: str) -> None:
    found = _capture(host, _write(tmp_path, place, statement))
    assert found.error is not None and said in str(found.error) and found.error.stage in ("limits", "trace")


@pytest.mark.parametrize(
    ("target", "settings", "said"),
    [
        ("hf:gpt2", {"n_layer": "abc"}, "Check the values of `--set`"),
        ("hf:gpt2", {"n_head": 5}, "divisible"),
        ("hf:no-such-type", {}, "no-such-type"),
        ("hf:gpt2:NoSuchClass", {}, "NoSuchClass"),
        ("no_such_module:attr", {}, "no_such_module"),
    ],
)
def test_a_target_that_cannot_be_built_is_the_users_error(host: Host, target: str, settings: dict[str, object], said: str) -> None:
    found = _capture(host, target, 60, set=settings)
    assert found.error is not None and said in str(found.error) and found.error.stage in ("usage", "load")


@pytest.mark.parametrize("place", ["top", "forward"])
def test_an_endless_loop_is_ended_and_its_line_is_named(host: Host, tmp_path: Path, place: str) -> None:
    begin = time.monotonic()
    found = host.capture(Request(_write(tmp_path, place, "while True: pass"), timeout=1))
    assert time.monotonic() - begin < 60
    assert found.error is not None and found.error.stage == "limits" and "within 1 s" in str(found.error)
    assert found.error.line == FIRST[place] and found.error.file is not None and found.error.file.endswith("hostile.py")


def test_memory_is_limited(host: Host, tmp_path: Path) -> None:
    found = _capture(host, _write(tmp_path, "top", "x = [bytearray(1 << 28) for _ in range(1000)]"), 60, memory=2 << 30)
    assert found.error is not None and found.error.stage == "limits" and "2 GiB" in str(found.error) and found.error.line == FIRST["top"]


def test_a_limit_below_what_torch_takes_is_refused_with_the_reason(host: Host, tmp_path: Path) -> None:
    found = _capture(host, _write(tmp_path, "top", ""), memory=1 << 20)
    assert found.error is not None and "--memory" in str(found.error) and found.error.stage == "limits"


def test_printing_for_ever_does_not_fill_the_disk(host: Host, tmp_path: Path) -> None:
    found = _capture(host, _write(tmp_path, "top", "while True: os.write(1, b'x' * (1 << 20))"), 60)
    assert found.error is not None and "File too large" in str(found.error)


@pytest.mark.parametrize("place", ["top", "forward"])
@pytest.mark.parametrize("habit", HARMLESS)
def test_bad_habits_do_no_harm(host: Host, tmp_path: Path, habit: str, place: str) -> None:
    found = _capture(host, _write(tmp_path, place, HARMLESS[habit]), 30)
    assert found.error is None
    assert len(found.models) == 1 and found.models[0].graph is not None and found.models[0].graph.failure is None
    assert {node.op for node in found.models[0].graph.nodes} >= {"linear", "layer_norm", "add"}


@pytest.mark.parametrize(
    "statement",
    [
        "os.closerange(3, 4096)",
        "[os.close(fd) for fd in range(3, 1024) if os.path.exists(f'/proc/self/fd/{fd}')]; files = [open(os.devnull, 'w') for _ in range(900)]",
        "write = lambda fd: os.path.realpath(f'/proc/self/fd/{fd}').rpartition('/')[2].startswith('pipe:') and os.write(fd, b'garbage!');"
        "exec('for fd in range(3, 1024):\\n try: write(fd)\\n except OSError: pass')",
    ],
    ids=["closed", "replaced", "written to"],
)
def test_a_line_that_the_target_cuts_is_an_error(host: Host, tmp_path: Path, statement: str) -> None:
    found = _capture(host, _write(tmp_path, "top", statement), 30)
    assert found.error is not None and not any(model.graph for model in found.models)


def test_what_a_target_prints_is_kept_for_the_error_and_goes_nowhere_else(host: Host, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = _capture(host, _write(tmp_path, "top", "print('last words', flush=True); os._exit(0)"))
    assert found.log == "last words"
    assert found.error is not None and "last words" in found.error.details and "last words" not in str(found.error)
    assert capfd.readouterr() == ("", "")


def test_one_target_leaves_nothing_to_the_next(host: Host, tmp_path: Path) -> None:
    path = _write(tmp_path, "top", "nn.Linear = None; torch.manual_seed(1); os.environ['LEFT'] = '1'; sys.path.insert(0, 'left')")
    assert _capture(host, path).error is not None
    fine = _capture(host, _write(tmp_path, "top", "assert 'LEFT' not in os.environ and 'left' not in sys.path"))
    assert fine.error is None and fine.models[0].graph is not None


def test_without_fork_each_target_has_an_interpreter_of_its_own(tmp_path: Path) -> None:
    with Host(fork=False) as host:
        fine = _capture(host, _write(tmp_path, "top", "print('hello')"), 60)
        assert fine.error is None and fine.models[0].graph is not None and fine.log == "hello"
        gone = _capture(host, _write(tmp_path, "top", "os._exit(0)"), 60)
        assert gone.error is not None and "exit code 0" in str(gone.error)
        late = host.capture(Request(_write(tmp_path, "top", "while True: pass"), timeout=4))
        assert late.error is not None and late.error.line == FIRST["top"]


def test_a_control_line_that_lags_loses_nothing(tmp_path: Path) -> None:
    """What the target says may come long before the news that its process was started."""

    class Lagging(Host):
        def _listen(self, source: str, read: Callable[[int], bytes], close: Callable[[], None] = lambda: None) -> None:
            def late(size: int) -> bytes:
                data = read(size)
                time.sleep(0.3)
                return data

            super()._listen(source, late if source.startswith("control") else read, close)

    with Lagging() as host:
        found = _capture(host, _write(tmp_path, "top", "raise ValueError('said early')"))
        assert found.error is not None and "said early" in str(found.error)


APART = sys.platform == "linux" and namespace._works()
ESCAPES = "os.fork() or (os.setsid(), os.fork() and os._exit(0), time.sleep(1000))"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a process that adopts orphans")
def test_a_child_that_was_killed_leaves_nothing_and_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"SCREEN_TEST_MARK={tmp_path}"
    monkeypatch.setenv(*mark.split("=", 1))
    with Host() as host:
        path = _write(tmp_path, "top", f"{ESCAPES}; time.sleep(0.3); os.kill(os.getppid(), 9); time.sleep(1000)")
        found = _capture(host, path, sandbox="off")
        assert found.error is not None and found.error.stage == "limits"
        kept = "it was still running then" if APART else "it was ended by SIGKILL"  # nobody kills the first process of a namespace from within
        assert kept in str(found.error)
        if not APART:
            _no_child_left(mark)
        assert _capture(host, _write(tmp_path, "top", "")).error is None
        assert host._child is not None
        os.kill(host._child.pid, signal.SIGKILL)  # the one that waits for it
        host._child.wait()
        assert _capture(host, _write(tmp_path, "top", "")).error is None
    _no_child_left(mark, 5)


def test_nothing_is_left_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"SCREEN_TEST_MARK={tmp_path}"
    monkeypatch.setenv(*mark.split("=", 1))
    with Host() as host:
        _capture(host, _write(tmp_path, "top", HARMLESS["a child that never ends"]), 30)
        _capture(host, _write(tmp_path, "forward", "while True: pass"), 1)
    _no_child_left(mark)


def test_a_host_that_is_closed_at_once_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"SCREEN_TEST_MARK={tmp_path}"
    monkeypatch.setenv(*mark.split("=", 1))
    Host().close()
    _no_child_left(mark)


def _command(*words: str, cwd: Path, limit: float = 100) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "screen", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=limit, check=False
    )


@pytest.mark.parametrize("place", ["top", "forward"])
@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(0)", "crash"])
def test_the_whole_command_exits_2_and_prints_nothing_but_the_report(tmp_path: Path, ending: str, place: str) -> None:
    statement = f"print('GARBAGE', flush=True); {ENDINGS[ending][0]}"
    _write(tmp_path, place, statement)
    done = _command("check", "hostile.py", "--format", "json", cwd=tmp_path)
    assert done.returncode == 2
    report = json.loads(done.stdout)
    assert report["verdict"] == "unknown" and report["error"]["message"]
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and "Traceback" not in done.stderr and "GARBAGE" not in done.stderr


def test_the_whole_command_keeps_its_time(tmp_path: Path) -> None:
    _write(tmp_path, "forward", "while True: pass")
    begin = time.monotonic()
    done = _command("check", "hostile.py", "--timeout", "1", cwd=tmp_path)
    assert done.returncode == 2 and "within 1 s" in done.stderr and done.stdout == ""
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)])
def test_when_the_command_is_ended_its_children_end_with_it(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    _write(tmp_path, "forward", "open(os.environ['TMPDIR'] + '/running', 'w').close(); [None for _ in iter(int, 1)]")
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCREEN_TEST_MARK": str(tmp_path), "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-m", "screen", "check", "hostile.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        limit = time.monotonic() + 60
        while not list((tmp_path / "temporary").rglob("running")) and time.monotonic() < limit:
            time.sleep(0.05)
        running.send_signal(sent)
        out, err = running.communicate(timeout=60)
    assert running.returncode == code and out == ""
    assert err.strip() == ("interrupted" if sent == signal.SIGINT else "")
    _no_child_left(f"SCREEN_TEST_MARK={tmp_path}", patience=5)
    assert not list((tmp_path / "temporary").glob("tmp*"))


def test_the_child_never_looks_in_the_working_directory_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for first in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [first, "/lib", str(ROOT)])
        assert safe_path() == ["/lib", str(ROOT)]
    monkeypatch.setattr(sys, "path", [str(ROOT), "/lib"])
    assert safe_path() == [str(ROOT), "/lib"]
    monkeypatch.chdir(ROOT)  # `python -m screen` in a checkout: there this package is found, but after everything else
    assert safe_path() == ["/lib", str(ROOT)]


def test_files_that_lie_in_the_working_directory_shadow_nothing(tmp_path: Path) -> None:
    for name in ("random", "click", "pydantic", "json", "typing_extensions"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(0)\n")
    _write(tmp_path, "top", "")
    done = _command("check", "hostile.py", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["error"] is None, done.stderr
