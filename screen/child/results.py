"""What has come of one target so far, and the words for every way in which it can end early."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from screen.child.descendants import MOST
from screen.child.protocol import ProtocolError, Request, error_of
from screen.errors import LimitError, LoadError, ScreenError, TraceError
from screen.graph import Graph
from screen.graph import io as graphio


class Progress(Protocol):
    """Hears what begins now: a phase, and of the probe what is measured next with the share of the budget that is spent."""

    def __call__(self, phase: str, doing: str = "", share: float = 0.0) -> None: ...


_FRAME = re.compile(r'File "([^"]+)", line (\d+) in ')
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib(?:64)?[/\\]python3\.\d+)[/\\]|^<|[/\\]screen[/\\]capture[/\\]")


@dataclass(frozen=True)
class Info:
    """What the build side tells of a model, as far as the parent needs it."""

    kind: str
    model_class: str
    parameters: int | None
    dtype: str | None
    block: bool
    """A single block of a stack, not a whole model."""
    changed: Mapping[str, tuple[object, object]]
    """Field of the config to its old and new value."""
    notes: tuple[str, ...] = ()
    """What was left out, a sentence each."""
    weights: Literal["meta", "real"] = "meta"
    """`real` where values of real ones stood beside meta when it was traced."""


@dataclass(frozen=True)
class Captured:
    """One model of a target: its graph, or why there is none."""

    name: str
    info: Info
    graph: Graph | None
    error: ScreenError | None = None
    experiments: tuple[dict[str, Any], ...] = ()
    """What was measured, as plain data (`screen.probe.plan.types.Experiment`); first a line about the device."""
    variants: Mapping[str, Graph] = field(default_factory=dict)
    """Its programs elsewhere (`screen.child.variants`)."""
    spot: dict[str, Any] | None = None
    """What a spot check found, as plain data (`screen.probe.plan.spot_types.Found`)."""


@dataclass(frozen=True)
class Capture:
    """Everything one target gave."""

    models: tuple[Captured, ...]
    error: ScreenError | None
    """Why it ended early; what is in `models` came before."""
    log: str
    """The tail of what the child wrote to its stdout and stderr."""
    seconds: float = 0.0
    """How long its process ran."""
    left: bool = False
    """Whether its process ended itself before it was done."""
    again: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model -> what its graph gave (`screen.probe.plan.spot_types.Again`), as plain data."""
    outside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model -> what it gave in an interpreter of its own (`screen.probe.plan.spot_types.Outside`), as plain data."""


ENDED = {
    "crowd": f"had more than {MOST} processes at a time",
    "memory": "took more than `--memory` together with the processes that it started",
}
"""Why we end a process of ourselves."""
EXITED = "ended with exit code"
MAX_TEXT = 300
"""Characters of what is repeated of something that is no frame of ours."""


def silent(phase: str, doing: str = "", share: float = 0.0) -> None:
    """Progress that nobody watches."""


@dataclass
class State:
    """One target while it runs."""

    request: Request
    progress: Progress
    models: list[Captured] = field(default_factory=list)
    error: ScreenError | None = None
    complete: bool = False
    pid: int | None = None
    status: str = ""
    """How its process ended, in words, once that is known."""
    phase: str = "load"
    again: dict[str, dict[str, Any]] = field(default_factory=dict)
    outside: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, message: dict[str, Any]) -> None:
        """One frame of the child."""
        kind = message["kind"]
        try:
            if kind == "progress":
                self.phase = str(message["phase"])
                self.progress(self.phase, *((str(message["doing"]), float(message["share"])) if "doing" in message else ()))
            elif kind == "target":
                self.models.append(Captured(str(message["name"]), _info(message["info"]), None))
            elif kind == "instead":
                self.models[-1] = replace(self.models[-1], info=_info(message["info"]))
            elif kind == "graph":
                self.models[-1] = replace(self.models[-1], graph=graphio.read(message["graph"]))
            elif kind == "variant":
                other = {**self.models[-1].variants, str(message["where"]): graphio.read(message["graph"])}
                self.models[-1] = replace(self.models[-1], variants=other)
            elif kind == "experiment":
                self.models[-1] = replace(self.models[-1], experiments=(*self.models[-1].experiments, dict(message["found"])))
            elif kind == "spot":
                self.models[-1] = replace(self.models[-1], spot=dict(message["found"]))
            elif kind == "again":
                self.again[str(message["name"])] = dict(message["found"])
            elif kind == "outside":
                self.outside[str(message["name"])] = dict(message["found"])
            elif kind == "error":
                self.error, self.complete = error_of(message), True
            elif kind == "done":
                self.complete = True
            else:
                raise ProtocolError(f"a frame `{kind}`")
        except (ProtocolError, graphio.GraphFormatError, KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            raise self.garbled(str(error)[:MAX_TEXT]) from None

    @property
    def left(self) -> bool:
        """Whether its process ended itself before it was done."""
        return not self.complete and self.status.startswith(EXITED)

    def late(self) -> ScreenError:
        """The time is over."""
        advice = "Look for a loop that does not end, or raise `--timeout`"
        return LimitError(f"{self._what()} within {self.request.timeout:g} s", "it was still running then", advice)

    def died(self, how: str) -> ScreenError:
        """Its process is gone, and never said that it was done."""
        advice = "Look for what ends the process (`os._exit`, a crash in compiled code, too little memory); `-v` shows its last output"
        return LimitError(f"{self._what()} in a process that stays alive", f"the process {how}", advice)

    def garbled(self, what: str) -> ScreenError:
        """Something else than our frames came."""
        kind = LoadError if self.phase == "load" else TraceError
        return kind(
            f"the process that captures `{self.request.target}` must keep its line to `screen` for itself",
            f"what came on it was garbled: {what}",
            "Look for code that writes to file descriptors that it did not open",
        )

    def locate(self, log: str) -> None:
        """Point an error of the limits at the user's line, from the stack in the log (innermost call first)."""
        if self.error is None or self.error.stage != "limits" or self.error.file is not None:
            return
        _, mark, stack = log.rpartition("(most recent call first):")
        frames = _FRAME.findall(stack) if mark else []
        for file, line in frames:
            if not _LIBRARY.search(file):
                self.error.file, self.error.line = file, int(line)
                self.error.found += f" (at {os.path.basename(file)}:{line})"
                return

    def _what(self) -> str:
        target = f"`{self.request.target}`"
        return f"{target} must be imported and built" if self.phase == "load" else f"`forward` of {target} must run to its end"


def words(ended: dict[str, Any]) -> str:
    """`was ended by SIGSEGV`, `ended with exit code 0`."""
    status = int(ended["status"])
    if (why := ENDED.get(ended["how"])) is not None:
        return f"{why} and was ended"
    if ended["how"] != "signal":
        return f"{EXITED} {status}"
    try:
        name = signal.Signals(status).name
    except ValueError:
        name = f"signal {status}"
    notes = {"SIGKILL": " (usually: the machine ran out of memory)", "SIGXCPU": " (its processor time was used up)"}
    return f"was ended by {name}{notes.get(name, '')}"


def _info(fields: dict[str, Any]) -> Info:
    """What a report repeats of the target, checked."""
    kind, model_class, parameters, dtype = (fields[name] for name in ("kind", "model_class", "parameters", "dtype"))
    for value, types in ((kind, str), (model_class, str), (parameters, int | None), (dtype, str | None), (fields["block"], bool)):
        if not isinstance(value, types):
            raise TypeError(f"a target says {str(value)[:MAX_TEXT]!r}")
    changed = {str(key): (old, new) for key, (old, new) in dict(fields["changed"]).items()}
    notes = tuple(str(note) for note in fields.get("notes", ()))
    return Info(kind, model_class, parameters, dtype, fields["block"], changed, notes, "real" if fields.get("weights") == "real" else "meta")


__all__ = ["Capture", "Captured", "Info", "Progress", "State", "silent", "words"]
