"""`docs/papers.md` names tests that exist, modules that import, and every statement of the four papers."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from tests.shared import ROOT

PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in PAGE.splitlines() if re.match(r"\| (K|P|X|E|T\d+) ?", line)]
STATUS = {"computed", "tested", "corrected", "out of reach"}
STATEMENTS = {
    "K": [
        *(f"Lemma {i}" for i in (1, 9, 10)),
        *(f"Theorem {i}" for i in range(2, 7)),
        *(f"Proposition {i}" for i in (7, 8, 11, 12)),
        "(17)",
        "(18)",
        "(127)–(129)",
    ],
    "P": ["(4)", "Proposition 3.1 (1)", "Proposition 3.1 (2)", "Proposition B.1", *(f"Proposition C.{i}" for i in (1, 2, 3))],
    "X": ["Definition 1", "Theorem 1", *(f"Lemma {i}" for i in range(1, 6)), "Proposition 1"],
    "E": [
        *("Definition 3.1", "Lemma 3.2", "Lemma 3.3", "Definition 4.1", "Theorem 4.2"),
        *(f"Corollary 4.3 ({i})" for i in range(1, 5)),
        *(f"Theorem 5.{i}" for i in range(1, 6)),
        *("Theorem 6.1", "Theorem 6.2", "Lemma A.1", "Remark B.1", "Remark B.2"),
    ],
}
"""Every numbered statement, as the papers number them."""


def exists(test: str) -> bool:
    """Whether `tests/…/file.py::name` is a function of that file."""
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = dotted.split(".")
    for end in range(len(parts), 1, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name, None)
        return found is not None
    return False


def test_every_calculator_is_offered_by_a_page() -> None:
    """A module of `screen.theorems` that no page names would be there for its test alone."""
    pages = PAGE + (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "screen" / "theorems").glob("*.py")} - {"__init__"}
    assert not {m for m in modules if not re.search(rf"screen\.theorems\.{m}\b", pages)}


@pytest.mark.parametrize("test", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE))))
def test_named_tests_exist(test: str) -> None:
    assert exists(test)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(screen\.[\w.]+)`", PAGE))))
def test_named_modules_import(name: str) -> None:
    assert resolves(name)


@pytest.mark.parametrize("paper", STATEMENTS)
def test_every_statement_has_a_row(paper: str) -> None:
    named = {row[0].removeprefix(f"{paper} ") for row in ROWS if row[0].startswith(f"{paper} ")}
    assert set(STATEMENTS[paper]) <= named


def test_every_row_is_whole() -> None:
    """Five cells, a known status, a test wherever something is claimed, a reason where nothing is."""
    assert len(ROWS) == len({row[0] for row in ROWS})
    for row in ROWS:
        assert len(row) == 5 and row[3] in STATUS and all(row[:3]), row
        assert bool(re.fullmatch(r"(`tests/[\w/]+\.py::\w+`(, )?)+", row[4])) == (row[3] != "out of reach"), row
    assert {row[0] for row in ROWS if row[0].startswith("T")} == {f"T{i}" for i in range(1, 11)}


def test_what_is_missing_is_seen() -> None:
    """The checks above can fail."""
    assert not exists("tests/theorems/test_theta.py::test_nothing") and not exists("tests/nothing.py::test_x")
    assert not resolves("screen.theorems.nothing") and not resolves("screen.theorems.theta.nothing") and resolves("screen.theorems.theta.theta")
