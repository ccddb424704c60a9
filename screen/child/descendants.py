"""Processes that the user's code starts, wherever they go: on Linux what leaves its session or outlives its parent comes to the nearest process that
adopts orphans. Elsewhere nothing is found, and only the session of a target is ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection

from screen.child.namespace import is_first

MOST = 32
"""Processes of one target at a time."""
ROUNDS = 300
"""Looks for what is left; each one ends all that it sees, and its children are seen by the next."""
PAUSE = 0.01
"""Seconds between two of them."""
_PDEATHSIG, _SUBREAPER = 1, 36
"""Numbers of prctl(2)."""


def adopt() -> bool:
    """Orphans below this process become its children; False where the system has no such thing."""
    return _prctl(_SUBREAPER, 1)


def end_with_parent() -> bool:
    """This process is killed when its parent ends."""
    return _prctl(_PDEATHSIG, signal.SIGKILL) if sys.platform == "linux" else False


def _prctl(what: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        return int(ctypes.CDLL(None).prctl(what, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False


def descendants(kept: Collection[int] = ()) -> list[int]:
    """What runs below this process. Children that have ended are waited for, but for those of `kept`."""
    parents: dict[int, int] = {}
    ended: set[int] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{int(name)}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                parents[int(name)] = int(parent)
                if state in (b"Z", b"X"):
                    ended.add(int(name))
    me = os.getpid()
    found = [me]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    for pid in ended:
        if parents[pid] == me and pid not in kept:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
    return [pid for pid in found[1:] if pid not in ended]


def many() -> bool:
    """Whether more than `MOST` processes run, where that takes no look at each of them: in a namespace."""
    if not is_first():
        return False
    with contextlib.suppress(OSError):
        return sum(name.isdigit() for name in os.listdir("/proc")) > MOST + 1
    return False


def takes_more(pids: Collection[int], limit: int) -> bool:
    """Whether processes take more than so many bytes together; what several of them share counts once, which is asked only where it matters."""
    return _sum(pids, "statm", _resident) > limit and _sum(pids, "smaps_rollup", _own_share) > limit


def _sum(pids: Collection[int], file: str, read: Callable[[str], int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/{file}", encoding="ascii") as found:
            total += read(found.read())
    return total


def _resident(text: str) -> int:
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _own_share(text: str) -> int:
    return int(text.partition("\nPss:")[2].split()[0]) << 10


def end_descendants(kept: Collection[int] = ()) -> None:
    """Kill everything below this process and wait for it; those of `kept` are killed, and somebody else waits for them.

    What forks faster than it is looked at is killed all at once, where it is known to be ours: in a namespace, or in the group of one of `kept`."""
    with contextlib.suppress(OSError):
        if is_first():
            os.kill(-1, signal.SIGKILL)
    for pid in kept:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    for _ in range(ROUNDS):
        left = descendants(kept)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE)


__all__ = ["MOST", "adopt", "descendants", "end_descendants", "end_with_parent", "many", "takes_more"]
