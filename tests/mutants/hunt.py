"""Tries each change: on a copy of the sources, the tests that enter the changed function, until one fails."""

from __future__ import annotations

import ast
import compileall
import contextlib
import importlib
import inspect
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.copies import ROOT, copied
from tests.mutants.draw import Change

MOST_TESTS, MOST_SECONDS = 30, 8.0
"""Tests of one change at most, and the sum of their recorded seconds at most."""
ENDLESS = "does not end"
PARTS = ("screen", "rules", "tests", "docs", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")
OPTIONS = ("-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
PROCESSOR = 120
"""Seconds of processor time after which a change counts as found: it does not end."""
RECORD = "tests/whole/test_said.py"
Reached = Mapping[str, Mapping[str, Any]]


@cache
def readers(name: str) -> frozenset[str]:
    """`file:function` of every function of `screen` and `rules` in which a name stands."""
    found = set()
    for part in ("screen", "rules"):
        for file in (ROOT / part).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if name not in text:
                continue
            short = file.resolve().relative_to(ROOT).as_posix()
            for node in ast.parse(text).body:
                bodies = [(f"{node.name}.{n.name}", n) for n in node.body if isinstance(n, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
                bodies += [(node.name, node)] if isinstance(node, ast.FunctionDef) else []
                for inside, body in bodies:
                    if any(name in (getattr(n, "id", ""), getattr(n, "attr", "")) for n in ast.walk(body)):
                        found.add(f"{short}:{inside}")
    return frozenset(found)


def _named(change: Change, hits: list[str]) -> list[str]:
    """Tests with a word of the changed line, in quotes there, as a parameter: the row of a table has tests of its own."""
    path = ROOT / change.file
    line = path.read_text(encoding="utf-8").splitlines()[change.line - 1] if path.exists() else ""
    words = {word for text in re.findall(r'"([^"]*)"', line) for word in text.split()}
    return [t for t in hits if words & {p.rstrip("]") for p in re.split(r"[\[-]", t)[1:]}]


def picked(change: Change, reached: Reached) -> list[str]:
    """Tests that enter the changed function (or, of what is defined outside of one, a function that reads it; else one of the file), those that enter
    the fewest functions first, one test file after the other in turn; before all, those that are named after the changed row of a table."""
    if change.place != "<module>":
        wanted = {f"{change.file}:{change.place}"}
    else:
        wanted = set().union(*(readers(name) for name in change.names))
    hits = [t for t, row in reached.items() if wanted & set(row["functions"])]
    if not hits:
        hits = [t for t, row in reached.items() if any(f.startswith(f"{change.file}:") for f in row["functions"])]
    named = _named(change, hits)
    by_file: dict[str, list[str]] = {}
    for test in sorted(set(hits) - set(named), key=lambda t: (len(reached[t]["functions"]), t)):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    found = named[: MOST_TESTS // 2]
    spent, turn = sum(reached[t]["seconds"] for t in found), 0
    while any(by_file.values()) and len(found) < MOST_TESTS:
        for rows in by_file.values():
            if rows and len(found) < MOST_TESTS:
                test = rows.pop(0 if turn % 2 == 0 else len(rows) // 2)
                if spent + reached[test]["seconds"] <= MOST_SECONDS or not found:
                    spent += reached[test]["seconds"]
                    found.append(test)
        turn += 1
    return found


def put(change: Change) -> bool:
    """Puts a changed function into this process, in place of the one that was imported; whether that could be done."""
    data, offset = (ROOT / change.file).read_bytes(), change.start
    whole = data[:offset] + change.new.encode() + data[offset + len(change.old.encode()) :]
    name = ("screen/" if change.file.startswith("rules/") else "") + change.file.removesuffix(".py").removesuffix("/__init__")
    found: Any = importlib.import_module(name.replace("/", "."))
    try:
        for part in change.place.split("."):
            found = vars(found)[part]
            found = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", None) or found
            found = inspect.unwrap(found)
            if isinstance(found, FunctionType):
                break
        waiting: list[CodeType] = [compile(whole, found.__code__.co_filename, "exec")]
        for code in waiting:
            if (code.co_qualname, code.co_freevars) == (found.__code__.co_qualname, found.__code__.co_freevars) and code.co_name != "<module>":
                found.__code__ = code
                return True
            waiting += [c for c in code.co_consts if isinstance(c, CodeType)]
    except (KeyError, AttributeError, TypeError):
        pass
    return False


@dataclass
class Hunt:
    """A copy of the repository with what is known of the tests on it as it is."""

    copy: Path
    log: Path
    passing: dict[tuple[str, bool], bool] = field(default_factory=dict)
    """Whether a test passes without any change, on the copy and here."""

    def tried(self, change: Change, tests: list[str]) -> str:
        """The first test that fails with the change and passes without; `does not end`; or nothing."""
        path = self.copy / change.file
        before = path.read_bytes()
        while tests:
            here, found = change.place != "<module>", "nothing ran"
            if here:
                found = _forked(tests, ROOT, self.log, change, here=True)
            if found == "nothing ran":
                here = False
                change.apply(self.copy)
                try:
                    found = _forked(tests, self.copy, self.log)
                finally:
                    path.write_bytes(before)
            if found in ("", ENDLESS):
                return found
            if found in tests and self._passes(found, here):
                return found
            if found not in tests:  # no test ran: the change breaks an import, or a test is not there any more
                if all(self._passes(t, here) for t in tests):
                    return "the first import"
                tests = [t for t in tests if self._passes(t, here)]
            else:
                tests = [t for t in tests if t != found]
        return ""

    def _passes(self, test: str, here: bool) -> bool:
        if (test, here) not in self.passing:
            self.passing[test, here] = _forked([test], ROOT if here else self.copy, self.log, here=here) == ""
        return self.passing[test, here]


def _forked(tests: list[str], root: Path, log: Path, change: Change | None = None, here: bool = False) -> str:
    """The first failing of some tests, run in a child; what it says goes to `log`. `here`: with the modules of this process, and a changed function
    put in the place of the old one; else with those below `root`, read anew."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR + 5))
            os.chdir(root)
            sys.dont_write_bytecode = True
            if not here:
                for name in [m for m in sys.modules if m.partition(".")[0] in ("tests", "screen")]:
                    del sys.modules[name]
                sys.path.insert(0, str(root))
                os.environ["PYTHONPATH"] = str(root)
            if change is None or put(change):
                import pytest

                code = int(pytest.main(["-x", "-q", "--tb=line", *OPTIONS, f"--rootdir={root}", *tests]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return ENDLESS
    if os.WEXITSTATUS(status) == 0:
        return ""
    said = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return next((t for t in sorted(tests, key=len, reverse=True) if any(f" {t}" in line for line in said)), "nothing ran")


def hunt(changes: list[Change], reached: Reached, results: Path, most: int) -> dict[str, str]:
    """Tries changes that have no result yet, `most` of them; results are written after each."""
    for name in ("torch", "numpy", "pytest", "sympy", "networkx", "rich", "pydantic", "transformers", "torch._dynamo"):  # for all children at once
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    done: dict[str, str] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in {test.partition("::")[0] for test in reached}:
            importlib.import_module(name.removesuffix(".py").replace("/", "."))
        chase = Hunt(copied(Path(folder), parts=PARTS), Path(folder) / "log")
        compileall.compile_dir(folder, quiet=2)
        for number, change in enumerate([c for c in changes if key(c) not in done][:most]):
            tests: list[str] = []
            for of_record in (True, False):  # the record of what is said is quick, and sees most
                tests = picked(change, {test: row for test, row in reached.items() if test.startswith(RECORD) is of_record})
                done[key(change)] = chase.tried(change, tests)
                if done[key(change)]:
                    break
            results.write_text(json.dumps(done, indent=1), encoding="utf-8")
            print(number, key(change), len(tests), "->", done[key(change)] or "SURVIVES", flush=True)
    return done


def key(change: Change) -> str:
    """A name of a change that is the same in every run."""
    return f"{change.file}:{change.line} {change.place}: {change.kind} `{change.old}` -> `{change.new}`"


__all__ = ["Hunt", "hunt", "key", "picked"]
