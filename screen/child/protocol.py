"""What parent and child say to each other: frames of a length and JSON on a pipe, never pickle.

A frame is four bytes, the length of its body (big endian), and the body, one JSON object with the key `kind`:

* `progress` {phase}: what begins now; with {doing, share} what is measured next and the share of the budget that is spent;
* `target` {name, info}: one model was built; its `graph` or its `error` follows;
* `instead` {info}: another model stands for it, narrowed, with values beside meta or as in training; its `graph` follows;
* `graph` {graph}: the whole graph (`screen.graph.io`);
* `variant` {where, graph}: the graph at another call, at another size, in training or behind a `train` of its own;
* `experiment` {found}: one thing that was measured (`screen.probe.plan.types.Experiment`), in place of the graph where the request has plans;
* `spot` {found}: what a spot check found (`screen.probe.plan.spot_types.Found`), in place of the graph where the request asks for one;
* `outside` {name, found}: what a model gave in an interpreter without us (`screen.probe.second.outside`), where the request has orders;
* `again` {name, found}: what the graph of a model gave (`screen.probe.plan.spot_types.Again`), where the request has graphs;
* `error` {stage, required, found, try_, file, line, details};
* `done` {}: nothing follows. What came without it is not complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from screen.errors import ScreenError, Stage, rebuild

MAX_FRAME = 64 << 20
"""Bytes. A longer frame is garbage: somebody else wrote into the pipe. 59,000 nodes take 8 MB."""
MAX_LINE = 256 << 20
"""Bytes of all frames of one target."""
SIGNALLED = 128
"""What an exit code begins with that stands for a signal, as in shells."""
MAX_WORDS = 4000
"""Characters of each text of an error, of its traceback ten times as many."""
DEFAULT_TIMEOUT = 120.0
"""Seconds for one target, counted from the moment its own process starts."""
DEFAULT_MEMORY = 8 << 30
"""Bytes of address space."""


class ProtocolError(Exception):
    """What came is no frame."""


@dataclass(frozen=True)
class Request:
    """One target, with everything that changes how it is built."""

    target: str
    set: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    depth: int | None = None
    timeout: float = DEFAULT_TIMEOUT
    """Seconds; the parent keeps the clock."""
    memory: int = DEFAULT_MEMORY
    """Bytes of address space; 0: no limit."""
    probe: dict[str, Any] | None = None
    """{plans: name of a model -> `ProbePlan` as plain data, options}: measure these in place of sending the graphs."""
    width: int | None = None
    """Hidden size that a config is built with; None: its own."""
    spot: dict[str, Any] | None = None
    """name of a model -> `SpotPlan` as plain data: look at these in place of sending the graphs."""
    again: dict[str, Any] | None = None
    """name of a model -> {graph: its JSON, plain: what the module gave, seed}: run these graphs, and nothing of the target."""
    outside: dict[str, Any] | None = None
    """name of a model -> what makes and runs it (`screen.child.order`): do that in an interpreter of its own, and nothing else."""
    beside: tuple[str, ...] = ()
    """Models of these names are looked at with values of real weights beside meta (`screen.child.beside`)."""
    trained: dict[str, Any] = field(default_factory=dict)
    """name of a model -> its lines that are told that it is in training (`screen.graph.Graph.training`), of those that are judged so."""
    variants: bool = False
    """Whether its programs at other calls, at other sizes and behind its own `train` are sent too (`screen.child.variants`)."""
    draw: int = 0
    """Which random numbers and places in memory the process has (`screen.child.draw`)."""
    words: int = 0
    """The seed of the hashes of words that its interpreter has (`screen.child.hash_seeds`)."""
    turned: bool = False
    """Whether `hash` gives other numbers than it would."""
    sandbox: str = "auto"
    """`auto`: what the machine has; `require`: all of it, or an error; `off`: none (`screen.child.sandbox`)."""
    hidden: tuple[str, ...] = ()
    """Files that are not to be seen in it, from the root: those of the report."""
    spent: float = 0.0
    """Seconds of the timeout that are over."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Request:
        """What `to_json` gave."""
        return Request(**{**data, "inputs": tuple(data["inputs"]), "hidden": tuple(data["hidden"]), "beside": tuple(data["beside"])})


def pack(body: bytes) -> bytes:
    """One frame."""
    return len(body).to_bytes(4, "big") + body


def frame(kind: str, **fields: Any) -> bytes:
    """One frame of plain data."""
    return pack(json.dumps({"kind": kind, **fields}, default=str).encode("utf-8", "backslashreplace"))


def graph_frame(document: bytes) -> bytes:
    """A frame around a graph that is JSON already."""
    return pack(b'{"kind":"graph","graph":' + document + b"}")


def read_frame(read: Callable[[int], bytes]) -> dict[str, Any] | None:
    """The next frame; None at the end, also when the end comes in the middle of a frame.

    `read(n)` gives at most n bytes, none at the end. Raises `ProtocolError`.
    """
    head = _exactly(read, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME:
        raise ProtocolError(f"a frame of {size} bytes")
    body = _exactly(read, size)
    if body is None:
        return None
    try:
        message = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not JSON ({error})") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ProtocolError("a frame without `kind`")
    return message


def fd_reader(fd: int) -> Callable[[int], bytes]:
    """`read` of a file descriptor."""
    return lambda size: os.read(fd, size)


def at_most(read: Callable[[int], bytes], most: int) -> Callable[[int], bytes]:
    """The same, which raises `ProtocolError` when more than `most` bytes have come."""
    left = [most]

    def counted(size: int) -> bytes:
        data = read(size)
        left[0] -= len(data)
        if left[0] < 0:
            raise ProtocolError(f"more than {most:,} bytes")
        return data

    return counted


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        part = read(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def error_fields(error: ScreenError) -> dict[str, Any]:
    """An error as the fields of its frame."""
    names = ("stage", "required", "found", "try_", "file", "line", "details")
    return {name: getattr(error, name) for name in names}


def error_of(message: dict[str, Any]) -> ScreenError:
    """The error of an `error` frame. Raises `ProtocolError`."""
    stage = message.get("stage")
    stages: tuple[Stage, ...] = ("usage", "load", "trace", "limits", "internal")
    if stage not in stages:
        raise ProtocolError(f"an error of the stage {stage!r}")
    file, line = message.get("file"), message.get("line")
    return rebuild(
        stage,
        _short(message.get("required")),
        _short(message.get("found")),
        _short(message.get("try_")),
        _short(file) if isinstance(file, str) else None,
        line if type(line) is int and 0 < line < 1 << 31 else None,
        _short(message.get("details"), 10 * MAX_WORDS),
    )


def _short(text: object, most: int = MAX_WORDS) -> str:
    return text[:most] if isinstance(text, str) else ""


__all__ = [
    "DEFAULT_MEMORY", "DEFAULT_TIMEOUT", "MAX_FRAME", "MAX_LINE", "SIGNALLED", "ProtocolError", "Request", "at_most", "error_fields", "error_of",
    "fd_reader", "frame", "graph_frame", "pack", "read_frame",
]  # fmt: skip
