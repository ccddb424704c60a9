"""Rules of the calculus, broken on purpose: the harness must see each of them (`python -m tests.soundness.mutations`)."""

from __future__ import annotations

from collections.abc import Mapping

RESULTS: Mapping[str, int | None] = {}


def table(results: Mapping[str, int | None]) -> str:
    """Markdown."""
    if not results:
        return ""
    lines = ["## Rules broken on purpose", "", "| mutation | first violation after so many trials |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {'not found' if n is None else n} |" for name, n in results.items()), ""])
