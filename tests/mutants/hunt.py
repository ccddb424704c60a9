"""Tries each change: on a copy of the sources, the tests that enter the changed function, until one fails."""

from __future__ import annotations

import ast
import json
import os
import resource
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.copies import ROOT, copied
from tests.mutants.draw import Change

MOST_TESTS, MOST_SECONDS = 40, 12.0
"""Tests of one change at most, and the sum of their recorded seconds at most."""
OPTIONS = ("-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
PROCESSOR = 300
"""Seconds of processor time after which a change counts as found: it does not end."""
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


def tests_of(change: Change, reached: Reached) -> list[str]:
    """Tests that enter the changed function (or, of what is defined outside of one, a function that reads it; else one of the file), those that enter
    the fewest functions first, one test file after the other in turn."""
    if change.place != "<module>":
        wanted = {f"{change.file}:{change.place}"}
    else:
        wanted = set().union(*(readers(name) for name in change.names))
    hits = [t for t, row in reached.items() if wanted & set(row["functions"])]
    if not hits:
        hits = [t for t, row in reached.items() if any(f.startswith(f"{change.file}:") for f in row["functions"])]
    by_file: dict[str, list[str]] = {}
    for test in sorted(hits, key=lambda t: (len(reached[t]["functions"]), t)):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    found: list[str] = []
    spent, turn = 0.0, 0
    while any(by_file.values()) and len(found) < MOST_TESTS:
        for rows in by_file.values():
            if rows and len(found) < MOST_TESTS:
                test = rows.pop(0 if turn % 2 == 0 else len(rows) // 2)
                if spent + reached[test]["seconds"] <= MOST_SECONDS or not found:
                    spent += reached[test]["seconds"]
                    found.append(test)
        turn += 1
    return found


def tried(change: Change, tests: list[str], copy: Path, log: Path) -> str:
    """The first test that fails, `does not end`, `is not imported`, or nothing."""
    path = copy / change.file
    before = path.read_bytes()
    change.apply(copy)
    try:
        return _forked(tests, copy, log)
    finally:
        path.write_bytes(before)


def _forked(tests: list[str], copy: Path, log: Path) -> str:
    """Runs tests in a child that has torch already; what it says goes to `log`."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR + 5))
            for name in [m for m in sys.modules if m.partition(".")[0] in ("tests", "screen")]:
                del sys.modules[name]
            os.chdir(copy)
            sys.dont_write_bytecode = True
            sys.path.insert(0, str(copy))
            os.environ["PYTHONPATH"] = str(copy)
            import pytest

            code = int(pytest.main(["-x", "-q", "--tb=line", *OPTIONS, f"--rootdir={copy}", *tests]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "does not end"
    if os.WEXITSTATUS(status) == 0:
        return ""
    said = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return said[0].split(" ")[1].partition("[")[0] if said else "is not imported"


def hunt(changes: list[Change], reached: Reached, results: Path, most: int) -> dict[str, str]:
    """Tries changes that have no result yet, `most` of them; results are written after each."""
    import torch

    torch.set_num_threads(1)
    done: dict[str, str] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        for number, change in enumerate([c for c in changes if key(c) not in done][:most]):
            tests = tests_of(change, reached)
            done[key(change)] = tried(change, tests, copy, Path(folder) / "log") if tests else ""
            results.write_text(json.dumps(done, indent=1), encoding="utf-8")
            print(number, key(change), len(tests), "->", done[key(change)] or "SURVIVES", flush=True)
    return done


def key(change: Change) -> str:
    """A name of a change that is the same in every run."""
    return f"{change.file}:{change.line} {change.place}: {change.kind} `{change.old}` -> `{change.new}`"


__all__ = ["hunt", "key", "tests_of"]
