"""Which tests enter which functions of `screen` and of `rules`: what a change is tried on.

    python -m tests.mutants reach FILE   runs the quick test files once and writes {test: {seconds, functions}}
"""

from __future__ import annotations

import ast
import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
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
PARTS = ("screen", "rules")


class Watch:
    """A plugin of pytest that notes the lines that each test comes to, by the tracer of `coverage` (`pip install coverage`), written in C."""

    def __init__(self) -> None:
        made: Any = importlib.import_module("coverage")
        self.cover = made.Coverage(data_file=None, config_file=False, include=[f"{ROOT / part}/*" for part in PARTS])
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        """Before tests are imported: what runs then is of no test."""
        self.cover.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test with its fixtures."""
        self.cover.switch_context(item.nodeid)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - begin, 3)
            self.cover.switch_context("")

    def found(self) -> dict[str, dict[str, Any]]:
        """{test: {seconds, functions, lines}}; of the record alone the lines: its tests are many and small."""
        self.cover.stop()
        rows: dict[str, dict[str, Any]] = {test: {"seconds": spent, "functions": [], "lines": []} for test, spent in self.seconds.items()}
        data = self.cover.get_data()
        for file in sorted(f for f in data.measured_files() if f.endswith(".py")):
            short, by_test = Path(file).resolve().relative_to(ROOT).as_posix(), dict[str, set[int]]()
            for line, tests in data.contexts_by_lineno(file).items():
                for test in filter(None, tests):
                    by_test.setdefault(test, set()).add(line)
            inside = list(functions(ast.parse(Path(file).read_text(encoding="utf-8"))))
            for test, lines in by_test.items():
                rows[test]["functions"] += [f"{short}:{name}" for name, body in inside if not lines.isdisjoint(body)]
                rows[test]["lines"] += [f"{short}:{line}" for line in sorted(lines)]
        return {test: row if test.startswith(RECORD) else {k: v for k, v in row.items() if k != "lines"} for test, row in rows.items()}


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, range]]:
    """Names of the functions of a module, those inside of others left out, and the lines of their bodies."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield within + node.name, range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try):
            yield from functions(node, f"{within}{node.name}." if isinstance(node, ast.ClassDef) else within)


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
            known.update(plugin.found())
            file.write_text(json.dumps(known), encoding="utf-8")
    return 0


__all__ = ["QUICK", "RECORD", "quick", "watch"]
