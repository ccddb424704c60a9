"""Every way in which `screen` says no, as data: what is required, what was found, what to try.

A `ScreenError` never carries a traceback in its text; `details` keeps one for `-v`. Faults of the user's input and faults of ours
read differently: `InternalError` says that it is ours and asks for a report. This module imports nothing of `screen`, so that every
other module may import it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

Stage = Literal["usage", "load", "trace", "limits", "internal"]
"""Where it went wrong: the command line, building the target, running its forward, time or memory, or our own code."""


INTERRUPTED = 130
"""Exit code after Ctrl-C."""


SWALLOWED: Counter[str] = Counter()
"""Exceptions of ours that became a reason in a report, by where they were raised: every test that leaves one here fails (`tests/conftest.py`)."""


def swallowed(where: str, error: Exception) -> str:
    """Counts an exception of ours that ends nothing; its type and text."""
    SWALLOWED[f"{where}: {type(error).__name__}"] += 1
    return f"{type(error).__name__}: {error}"


def chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, what caused it, and what caused that."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        yield found
        seen.add(id(found))
        found = found.__cause__ or found.__context__


class ScreenError(Exception):
    """The command cannot be carried out, and exits 2.

    `required` and `found` are one sentence each, without a full stop at the end; `try_` is one sentence, or empty when there is
    nothing to try. `file` and `line` point into the user's code where that is known.
    """

    default_stage: ClassVar[Stage] = "internal"

    def __init__(
        self,
        required: str,
        found: str,
        try_: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
        details: str = "",
        stage: Stage | None = None,
    ) -> None:
        super().__init__(required, found, try_)
        self.stage: Stage = stage or self.default_stage
        self.required = required
        self.found = found
        self.try_ = try_
        self.file = file
        self.line = line
        self.details = details

    def __str__(self) -> str:
        text = f"{_trim(self.required)}; {_trim(self.found)}."
        advice = _trim(self.try_)
        end = "" if advice.endswith("?") else "?" if advice.startswith("Did you mean ") and ". " not in advice and "? " not in advice else "."
        return f"{text} {advice}{end}" if advice else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.stage, self.required, self.found, self.try_, self.file, self.line, self.details)


class UsageError(ScreenError):
    """The command line, the configuration or the spelling of a target is wrong."""

    default_stage = "usage"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean `a` or `b`?` without the question mark; empty when nothing is near."""
    names = sorted(set(known))
    folded = {n.casefold(): n for n in reversed(names)}
    near = difflib.get_close_matches(word.casefold(), list(folded), n=3, cutoff=0.6)
    return "Did you mean " + " or ".join(f"`{folded[n]}`" for n in near) if near else ""


def whole_model(label: str, depth: int) -> UsageError:
    """`--depth`, or a recipe's `depth`, for what is not one block."""
    found = f"`{label}` is a whole model" + (f" of depth {depth}" if depth else "")
    return UsageError("`--depth` and a recipe's `depth` say how often one block is stacked", found, "Leave them out, or name the block's class")


class LoadError(ScreenError):
    """The target cannot be imported, found or built."""

    default_stage = "load"


class TraceError(ScreenError):
    """The target was built, and its forward cannot be run or read."""

    default_stage = "trace"


class LimitError(ScreenError):
    """Time or memory ran out, or the process that ran the user's code died."""

    default_stage = "limits"


class Interrupted(LimitError):
    """Somebody pressed Ctrl-C while something was measured; what was measured before is kept."""


class InternalError(ScreenError):
    """A fault of `screen` itself."""

    default_stage = "internal"

    def __init__(self, found: str, *, details: str = "", required: str = "`screen` must not fail on its own account", try_: str = "") -> None:
        super().__init__(required, found, try_ or REPORT_IT, details=details)


REPORT_IT = "This is a fault of `screen`, not of your code: please report it with the output of `screen doctor` and of this command with `-v`"


def rebuild(
    stage: Stage, required: str, found: str, try_: str = "", file: str | None = None, line: int | None = None, details: str = ""
) -> ScreenError:
    """The error that these parts came from: how one crosses from the child to the parent."""
    kinds: dict[Stage, type[ScreenError]] = {"usage": UsageError, "load": LoadError, "trace": TraceError, "limits": LimitError}
    if stage in kinds:
        return kinds[stage](required, found, try_, file=file, line=line, details=details)
    return InternalError(found, details=details, required=required, try_=try_)


_rebuild = rebuild


def _trim(sentence: str) -> str:
    """The sentence without white space around it and without its full stop (but with an ellipsis, if it ends in one)."""
    text = sentence.strip()
    return text if text.endswith("..") else text.removesuffix(".")


__all__ = [
    "INTERRUPTED", "InternalError", "Interrupted", "LimitError", "LoadError", "REPORT_IT", "ScreenError", "Stage", "TraceError", "UsageError",
    "did_you_mean", "rebuild", "whole_model",
]  # fmt: skip
