"""Files in the style of public ones, written, built and run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from screen.capture.build.build import build
from screen.capture.build.built import Built
from screen.capture.inputs.trial import outcome
from screen.graph.target import parse

Write = Callable[[str], Path]
HEAD = "from __future__ import annotations\n\nimport typing\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"


def writing(tmp_path: Path) -> Write:
    """A fixture: writes a file of its own, below `HEAD`, and gives its path."""

    def put(text: str) -> Path:
        path = tmp_path / f"of_public_files_{abs(hash(text)) % 10**8}.py"
        path.write_text(HEAD + text)
        return path

    return put


def built(path: Path, name: str = "", **settings: Any) -> list[Built]:
    """The models of a file, or the one of a name."""
    return build(parse(f"{path}::{name}" if name else str(path)), set=settings, inputs=(), depth=None)


def runs(one: Built) -> bool:
    """Whether its forward runs on the inputs that were found."""
    return outcome(one.model, one.args, one.kwargs).error is None


__all__ = ["HEAD", "Write", "built", "runs", "writing"]
