"""The namespace of processes that targets run in, where Linux gives one."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from screen.child import namespace
from screen.child.host import Host
from screen.child.protocol import Request

pytestmark = pytest.mark.by_the_day

HAS = sys.platform == "linux" and namespace._works()
SOURCE = """
import os
found = [name for name in os.listdir('/proc') if name.isdigit()]
raise ValueError(f"{sorted(found)} {os.getpid()} {os.getppid()}")
"""


@pytest.mark.skipif(not HAS, reason="needs a namespace of processes")
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_target_sees_its_own_processes_alone(tmp_path: Path, sandbox: str) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    with Host() as host:
        for number in (2, 3):
            error = host.capture(Request(f"{tmp_path / 'model.py'}", sandbox=sandbox)).error
            assert error is not None and "['1', '" in error.found and error.found.count("'") == 4, number


@pytest.mark.skipif(not HAS, reason="needs a namespace of processes")
def test_what_kills_all_that_it_sees_ends_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import os, signal\nos.kill(1, signal.SIGKILL)\nraise ValueError('still there')\n")
    with Host() as host:
        told = host.capture(Request(f"{tmp_path / 'model.py'}", sandbox="off")).error
        assert told is not None and "still there" in told.found
        assert host._child is not None and host._child.poll() is None


def test_a_kernel_that_refuses_is_asked_for_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def unshare(self, flags: int) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refuses())
    assert not namespace.enter() and "those of the machine" in namespace.described()
    monkeypatch.undo()
    monkeypatch.setattr(namespace, "_works", lambda: False)
    (tmp_path / "model.py").write_text("import os\nraise ValueError(os.getpid() > 50)\n")
    assert not namespace.enter() and os.getpid() > 0
