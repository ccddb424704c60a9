"""What comes on the line of a target that was written by somebody else: bounded in time and memory, and one clear error. Escaped processes too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from screen.child import host as hosts
from screen.child.descendants import MOST
from screen.child.host import Host
from screen.child.protocol import MAX_FRAME, ProtocolError, Request, at_most, error_of, frame
from screen.child.results import Capture, State, silent
from tests.child.test_hostile import _environment, _processes

pytestmark = pytest.mark.by_the_day

CHANNEL = """
import gc, json, os, sys, time
from screen.child.worker import Channel
channel = next(found for found in gc.get_objects() if isinstance(found, Channel))
def frame(body):
    return len(body).to_bytes(4, "big") + body
def put(data):
    view = memoryview(data)
    while view:
        view = view[os.write(channel._fd, view):]
"""
"""How a target finds the line: nothing in its own process can hide it."""
TARGET = 'put(frame(json.dumps({"kind": "target", "name": "n", "info": {"kind": "file", "model_class": "n", "parameters": 1, "dtype": None, '
TARGET += '"block": False, "changed": {}}}).encode()))\n'
FLOODS = {
    "endless progress": 'while True: put(frame(b\'{"kind":"progress","phase":"load"}\') * 1000)',
    "endless targets": f"while True: {TARGET}",
    "a length of 4 GiB": 'put(b"\\xff\\xff\\xff\\xff"); time.sleep(100)',
    "300 MB in one frame": 'put((300 << 20).to_bytes(4, "big")); put(b" " * (300 << 20))',
    "many large frames": f'while True: put(frame(b"[" + b"1," * {MAX_FRAME // 8} + b"1]"))',
    "deep": 'put(frame(b\'{"kind":"graph","graph":\' + b"[" * 10_000_000 + b"]" * 10_000_000 + b"}"))',
    "a long number": 'put(frame(b\'{"kind":"progress","phase":"load","doing":"x","share":\' + b"9" * 10_000_000 + b"}"))',
    "150,000 nodes of nothing": TARGET + 'put(frame(json.dumps({"kind": "graph", "graph": {"version": 2, "nodes": [[]] * 150_000}}).encode()))',
    "half a frame": 'put(b"\\x00\\x00\\x10\\x00{"); time.sleep(100)',
    "an error of 60 MB": 'put(frame(json.dumps({"kind": "error", "stage": "load", "required": "x" * (60 << 20), "found": "y"}).encode()))',
}
LIMIT = 4.0
"""Seconds for each."""
MEMORY = 1200 << 20
"""Bytes that this process may take more for a flood."""


MARK = "SCREEN_TEST_ESCAPE"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, str(os.getpid()))
        running = Host()
    with running:
        running.capture(Request("x:y", memory=0))  # torch is there
        yield running


def _capture(host: Host, folder: Path, text: str, limit: float = LIMIT) -> Capture:
    (folder / "flood.py").write_text(CHANNEL + text)
    return host.capture(Request(str(folder / "flood.py"), timeout=limit, memory=0))


def _taken() -> int:
    """Address space of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_is_one_error_in_time(host: Host, tmp_path: Path, flood: str) -> None:
    before, begin = _taken(), time.monotonic()
    found = _capture(host, tmp_path, FLOODS[flood])
    assert found.error is not None and found.error.stage in ("load", "trace", "limits")
    assert len(str(found.error)) < 20_000 and not any(model.graph for model in found.models)
    assert time.monotonic() - begin < LIMIT + hosts.PATIENCE + 10  # the machine does other things too
    assert _taken() - before < MEMORY


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "progress", "phase": "x", "doing": "y", "share": "z"},
        {"kind": "progress", "phase": "x", "doing": "y", "share": [1]},
        {"kind": "progress"},
        {"kind": "target", "name": "n", "info": [1]},
        {"kind": "target", "name": "n", "info": {"kind": "f", "model_class": "n", "parameters": 1, "dtype": None, "block": False,
         "changed": ["ab", 1]}},
        {"kind": "graph", "graph": {}},
        {"kind": "spot", "found": "abc"},
        {"kind": "experiment", "found": [[1, 2, 3]]},
        {"kind": "error", "stage": "none"},
        {"kind": "no such"},
    ],
)  # fmt: skip
def test_a_forged_frame_is_garbled_and_no_fault_of_ours(fields: dict[str, object]) -> None:
    from screen.errors import LoadError, TraceError

    state = State(Request("model.py"), silent)
    with pytest.raises((LoadError, TraceError), match="garbled"):
        state.take(fields)
        state.take({"kind": "target"})


def test_the_words_of_an_error_are_cut() -> None:
    error = error_of({"stage": "load", "required": "x" * 10**6, "found": ["y"], "details": "z" * 10**6, "line": 10**30})
    assert len(error.required) == 4000 and error.found == "" and len(error.details) == 40_000 and error.line is None


def test_a_line_says_no_more_than_it_may() -> None:
    read = at_most(lambda size: b"x" * size, 10)
    assert read(10) == b"x" * 10
    with pytest.raises(ProtocolError, match="more than 10 bytes"):
        read(1)
    assert len(frame("done")) < 100


ESCAPES = {
    "a session of its own": "if os.fork() == 0:\n os.setsid(); time.sleep(1000)\n",
    "a double fork": "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  time.sleep(1000)\n os._exit(0)\n",
    "a program": "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)\n",
    "one that hears nothing": "import signal\nif os.fork() == 0:\n os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)\n",
}


def _left(mark: str) -> list[int]:
    return [pid for pid in _processes() if mark.encode() in _environment(pid)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has a process that adopts orphans")
@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("ending", ["raise ValueError('over')", "os._exit(0)", "while True: pass"])
def test_what_leaves_the_session_is_ended_too(host: Host, tmp_path: Path, escape: str, ending: str) -> None:
    (tmp_path / "flood.py").write_text(f"import os, time\n{ESCAPES[escape]}{ending}\n")
    found = host.capture(Request(str(tmp_path / "flood.py"), timeout=1.0, memory=0))
    assert found.error is not None and host._child is not None
    assert len(left := _left(f"{MARK}={os.getpid()}")) == 2 and host._child.pid in left  # the one that has torch, and the one that waits for it


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux shows whose child a process is")
def test_too_many_processes_are_ended_with_the_reason(host: Host, tmp_path: Path) -> None:
    many = f"import os, time\nfor _ in range({MOST + 8}):\n if os.fork() == 0: os.setsid(); time.sleep(1000)\ntime.sleep(1000)\n"
    (tmp_path / "flood.py").write_text(many)
    found = host.capture(Request(str(tmp_path / "flood.py"), timeout=60.0, memory=0))
    assert found.error is not None and f"more than {MOST} processes" in str(found.error)
    few = "import os\nfor _ in range(100):\n if os.fork() == 0: os._exit(0)\n os.wait()\nraise ValueError('one after the other')\n"
    (tmp_path / "flood.py").write_text(few)
    assert "one after the other" in str(host.capture(Request(str(tmp_path / "flood.py"), timeout=60.0, memory=0)).error)
