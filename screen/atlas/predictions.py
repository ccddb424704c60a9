"""What somebody predicts of the runs: a table in a file, or a function that is asked about each."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from screen.atlas.tolerance import Record

TOLERATED, RISK = "tolerated", "risk"
RISKY = 0.5
"""Risk from which a run is predicted to fail, where no tolerated rate is given."""


@dataclass(frozen=True)
class Prediction:
    """The largest peak rate that is said to train, and the probability that this very run fails; either may be missing."""

    tolerated: float | None = None
    risk: float | None = None
    risky: float = RISKY
    """Risk from which it is predicted to fail."""

    def fails(self, lr: float) -> bool | None:
        """Whether a run at this rate is predicted to fail; None when nothing is said."""
        if self.risk is not None:
            return self.risk >= self.risky
        return None if self.tolerated is None else lr > self.tolerated


Predictor = Callable[[Record], Prediction]


def from_function(name: str) -> Predictor:
    """`package.module:function`: it takes a record of a run without its outcome, and gives a mapping with `tolerated`, `risk` or both, or None."""
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    hidden = {"outcome", "trained", "final", "best", "rise", "failed_at", "attention", "head", "gradient", "curve"}

    def ask(row: Record) -> Prediction:
        said = function({k: v for k, v in row.items() if k not in hidden}) or {}
        return Prediction(said.get(TOLERATED), said.get(RISK))

    return ask


def from_file(path: Path) -> Predictor:
    """A CSV or JSON list of lines with `tolerated` or `risk` beside any fields of a cell (or `id`): each speaks of the runs with those values.

    Of several lines that fit, the one that names most fields counts.
    """
    text = path.read_text(encoding="utf-8")
    lines = list(csv.DictReader(text.splitlines())) if path.suffix == ".csv" else json.loads(text)
    by_fields: dict[tuple[str, ...], dict[tuple[str, ...], Prediction]] = {}
    for line in lines:
        fields = tuple(sorted(k for k, v in line.items() if k not in (TOLERATED, RISK) and v not in ("", None)))
        said = {name: float(line[name]) for name in (TOLERATED, RISK) if line.get(name) not in ("", None)}
        by_fields.setdefault(fields, {})[_key(line, fields)] = Prediction(**said)
    order = sorted(by_fields, key=len, reverse=True)

    def ask(row: Record) -> Prediction:
        found = (by_fields[fields].get(_key(row, fields)) for fields in order if all(f in row for f in fields))
        return next((p for p in found if p is not None), Prediction())

    return ask


def _key(row: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, ...]:
    """Values as text, numbers alike however they are written."""
    return tuple(_text(row[field]) for field in fields)


def _text(value: Any) -> str:
    try:
        return f"{float(value):.9g}"
    except ValueError:
        return str(value)


__all__ = ["Prediction", "Predictor", "RISKY", "from_file", "from_function"]
