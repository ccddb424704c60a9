"""Which tests enter which functions of `screen` and of `rules`: what a change is tried on.

    python -m tests.mutants reach FILE   runs the quick test files once and writes {test: {seconds, functions}}
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.copies import ROOT

QUICK = (
    "test_verdict", "test_rules", "test_rules_constrained", "test_scalars", "test_near_bounds", "test_thresholds", "test_degrees_laws", "test_bounds",
    "test_bounds_choices", "test_bounds_constrained", "test_bounds_folds", "test_bounds_pairs", "test_rows_bounds", "test_rows_degrees",
    "test_rows_operator", "test_rows_meanfield", "test_covariance", "test_covariance_blocks", "test_covariance_laws", "test_covariance_logits",
    "test_covariance_words", "test_near_misses", "test_softmaxes", "test_stream_gain", "test_ranges", "test_values", "test_zeros",
    "test_initialisers", "test_measured_laws", "test_nothing_found", "test_broken_norms", "test_odd_blocks", "test_odd_models", "test_missing",
    "test_report", "test_fault_count", "test_risk", "test_under_recipe", "test_recipe", "test_readers", "test_plumbing", "test_hostile_text",
    "test_outcomes", "test_changes", "test_trusted", "test_answer", "test_ends", "test_advice", "test_gradient_laws", "test_first_update",
    "test_start_by_layer", "test_repeated_products", "test_foreign", "test_degrees", "test_covariance_odd", "test_soundness_domain", "test_formulas",
    "test_compare", "test_gate", "test_presets", "test_written_stacks", "test_covariance_models", "test_published_designs", "test_slips", "test_said",
)  # fmt: skip
"""Test files that take seconds, in the order in which they are run."""
RECORD = "tests/whole/test_said.py"
PARTS = tuple(f"{ROOT / part}/" for part in ("screen", "rules"))


class Watch:
    """A plugin of pytest that notes the functions that each test enters."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test with its fixtures."""
        seen: set[Any] = set()
        lines: set[tuple[str, int]] = set()
        each = item.nodeid.startswith(RECORD)  # of the record, line by line: its tests are many and small

        def entered(frame: FrameType, event: str, arg: object) -> Any:
            seen.add(frame.f_code)
            return stepped if each and frame.f_code.co_filename.startswith(PARTS) else None

        def stepped(frame: FrameType, event: str, arg: object) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return stepped

        begin = time.process_time()
        sys.settrace(entered)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            names = {name_of(code) for code in seen if code.co_filename.startswith(PARTS)}
            row = {"seconds": round(time.process_time() - begin, 3), "functions": sorted(n for n in names if n)}
            where = sorted(f"{Path(file).resolve().relative_to(ROOT).as_posix()}:{line}" for file, line in lines)
            self.found[item.nodeid] = {**row, "lines": where} if each else row


def name_of(code: Any) -> str:
    """`file:function`, without what is inside of the function."""
    file = Path(code.co_filename).resolve().relative_to(ROOT).as_posix()
    name = code.co_qualname.partition(".<locals>")[0]
    return "" if name == "<module>" else f"{file}:{name}"


def quick() -> list[Path]:
    """The files of `QUICK`, wherever they stand."""
    paths = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    return [paths[name] for name in QUICK]


def watch(file: Path) -> int:
    """Runs the quick tests and writes what each of them entered; a second run adds the files that are missing."""
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for path in quick():
        if not any(test.startswith(path.relative_to(ROOT).as_posix()) for test in known):
            plugin = Watch()
            pytest.main(["-q", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", str(path)], plugins=[plugin])
            known.update(plugin.found)
            file.write_text(json.dumps(known), encoding="utf-8")
    return 0


__all__ = ["QUICK", "RECORD", "quick", "watch"]
