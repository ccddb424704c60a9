"""Tries each change: on a copy of the sources, the tests that enter the changed function, until one fails."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import inspect
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from screen.errors import SWALLOWED
from tests.copies import ROOT, copied
from tests.mutants.draw import Change, changes
from tests.mutants.reached import RECORD
from tests.said.record import SUBJECTS, differences

MOST_TESTS, MOST_SECONDS = 30, 8.0
"""Tests of one change at most, and the sum of their recorded seconds at most."""
ENDLESS = "does not end"
PARTS = ("screen", "rules", "tests", "docs", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")
OPTIONS = ("-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
PROCESSOR = 600
"""Seconds of processor time after which a change counts as found: it does not end."""
MOST_SUBJECTS = 300
"""Tests that compare with the record at most: one takes hundredths of a second."""
Reached = Mapping[str, dict[str, Any]]


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


@cache
def made_of(file: str, names: tuple[str, ...]) -> frozenset[str]:
    """These names of a module, and those outside of its functions that are made of them."""
    found = set(names)
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        inside = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(n.id in found for n in inside):
            found |= {n.id for n in inside if isinstance(n.ctx, ast.Store)}
    return frozenset(found)


def _named(change: Change, hits: list[str]) -> list[str]:
    """Tests with a word of the changed line, in quotes there, as a parameter: the row of a table has tests of its own."""
    path = ROOT / change.file
    line = path.read_text(encoding="utf-8").splitlines()[change.line - 1] if path.exists() else ""
    words = {word for text in re.findall(r'"([^"]*)"', line) for word in text.split()}
    return [t for t in hits if words & {p.rstrip("]") for p in re.split(r"[\[-]", t)[1:]}]


def picked(change: Change, reached: Reached) -> list[str]:
    """Tests that enter the changed function (or, of what is defined outside of one, a function that reads it; else one of the file), those that enter
    the fewest functions first, one test function after the other in turn; before all, those that are named after the changed row of a table."""
    if change.place != "<module>":
        wanted = {f"{change.file}:{change.place}"}
    else:
        wanted = set().union(*(readers(name) for name in made_of(change.file, change.names)))
    hits = [t for t, row in reached.items() if wanted & set(row["functions"])]
    if not hits:
        hits = [t for t, row in reached.items() if any(f.startswith(f"{change.file}:") for f in row["functions"])]
    named = _named(change, hits)
    by_file: dict[str, list[str]] = {}
    for test in sorted(set(hits) - set(named), key=lambda t: (len(reached[t]["functions"]), t)):
        by_file.setdefault(test.partition("[")[0], []).append(test)
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
    module: Any = importlib.import_module(name.replace("/", "."))
    if change.place == "<module>":
        return change.kind != "entry" and _renew(module, compile(whole, module.__file__, "exec"), change.names)  # others are made of a table
    found = module
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
                before, found.__code__ = found.__code__, code
                _renew_inner(before, code)
                return True
            waiting += [c for c in code.co_consts if isinstance(c, CodeType)]
    except (KeyError, AttributeError, TypeError):
        pass
    return False


def _renew_inner(before: CodeType, after: CodeType) -> None:
    """Puts what is defined inside of a changed function in the place of what an earlier call has made: rows of tables are made at the import."""
    fresh = {(c.co_qualname, c.co_freevars): c for c in _inner(after)}
    old = {c: fresh[c.co_qualname, c.co_freevars] for c in _inner(before) if (c.co_qualname, c.co_freevars) in fresh}
    gc.unfreeze()  # what is frozen is not among the objects
    for made in gc.get_objects() if old else ():
        if isinstance(made, FunctionType) and made.__code__ in old:
            made.__code__ = old[made.__code__]


def _inner(code: CodeType) -> Iterator[CodeType]:
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from (inside, *_inner(inside))


def by_line(reached: Reached) -> dict[str, list[str]]:
    """The tests that come to each line; rows of `reached` give up their lines, which are many."""
    found: dict[str, list[str]] = {}
    for test, row in reached.items():
        for line in row.pop("lines", ()):
            found.setdefault(line, []).append(test)
    return found


def subjects(change: Change, reached: Reached, at: Mapping[str, list[str]]) -> list[str]:
    """Of the record those that come to the changed line, first quick ones, then of all others; of what stands outside of functions that which has it
    on record, and those that enter a function that reads it."""
    if change.place == "<module>" or _is_class(change):
        names = made_of(change.file, change.names)
        wanted = set().union(*(readers(name) for name in names))
        hits = [t for t, row in reached.items() if wanted & set(row["functions"])]
    else:
        hits = list(dict.fromkeys(t for line in _lines(change) for t in at.get(f"{change.file}:{line}", ())))
    hits.sort(key=lambda t: (round(reached[t]["seconds"], 1), blake2b(t.encode()).digest()))
    quick, rest = hits[: MOST_SUBJECTS // 2], hits[MOST_SUBJECTS // 2 :]
    return [*table(change), *quick, *rest[:: max(1, 2 * len(rest) // MOST_SUBJECTS)]]


def table(change: Change) -> list[str]:
    """The test that has on record what stands outside of the functions of a module."""
    module = ("screen/" if change.file.startswith("rules/") else "") + change.file.removesuffix(".py").removesuffix("/__init__")
    return [f"{RECORD}::test_tables[{module.replace('/', '.')}]"] if change.place == "<module>" or _is_class(change) else []


@cache
def _statements(file: str) -> tuple[ast.stmt, ...]:
    return tuple(n for n in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))) if isinstance(n, ast.stmt))


def _is_class(change: Change) -> bool:
    """Whether it stands in the body of a class."""
    return any(isinstance(n, ast.ClassDef) and n.name == change.place.rpartition(".")[2] for n in _statements(change.file))


def _lines(change: Change) -> range:
    """Those of the smallest statement around it, without what stands in its body."""
    inner = max((n for n in _statements(change.file) if n.lineno <= change.line <= (n.end_lineno or 0)), key=lambda n: n.lineno)
    body = getattr(inner, "body", None)
    return range(inner.lineno, max(inner.lineno, body[0].lineno - 1 if isinstance(body, list) else inner.end_lineno or 0) + 1)


def unreached(area: str, reached: Reached) -> list[Change]:
    """One change of each line inside of functions that no subject of the record comes to."""
    met = set().union(*(row["lines"] for row in reached.values() if "lines" in row))
    places = {(c.file, c.line): c for c in changes(area) if c.place != "<module>" and not _is_class(c)}
    return [c for c in places.values() if not any(f"{c.file}:{line}" in met for line in _lines(c))]


def _renew(module: Any, code: CodeType, names: tuple[str, ...]) -> bool:
    """Runs a module again for the values of some names, which it and those that import them get; not for functions and classes."""
    space = {k: v for k, v in vars(module).items() if k.startswith("__")}
    exec(code, space)
    if not names or any(isinstance(space.get(n), FunctionType | type) for n in names):
        return False
    plain = bool, int, float, str, tuple, dict, set, frozenset
    for name in [n for n, v in vars(module).items() if not n.startswith("__") and type(v) in plain]:
        old = vars(module)[name]
        for other in [m for m in sys.modules.values() if m is not None and getattr(m, "__name__", "").startswith("screen")]:
            if vars(other).get(name) is old and name in space:
                setattr(other, name, space[name])
    return True


def unlike(change: Change, tests: list[str]) -> str:
    """The first subject of the record (as the test that compares it) of which something else is said with the change; asked without pytest."""
    with tempfile.NamedTemporaryFile("r") as log:
        child = os.fork()
        if child == 0:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR + 5))
                Path(log.name).write_text(next((t for t in tests if put(change) and _differs(t)), ""), encoding="utf-8")
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return ENDLESS if os.WIFSIGNALED(status) else log.read()


def _differs(test: str) -> bool:
    file, _, subject = test.partition("::test_")[2].removesuffix("]").partition("[")
    if subject not in SUBJECTS[file]:
        return False
    SWALLOWED.clear()
    try:
        return any(differences(file, subject, SUBJECTS[file][subject]())) or bool(SWALLOWED)
    except Exception:
        return True


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
            here, found = True, _forked(tests, ROOT, self.log, change, here=True)
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
            if found not in tests:  # no test ran: a test is not there any more, or the change breaks an import
                gone = [line.partition("::")[2] for line in self.log.read_text(encoding="utf-8").splitlines() if "not found: " in line]
                if not gone and self._passes(tests[0], here):
                    return "the first import"
                tests = [t for t in tests[0 if gone else 1 :] if t.partition("::")[2] not in gone]
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


def hunt(drawn: list[Change], reached: Reached, results: Path, most: int) -> dict[str, str]:
    """Tries changes that have no result yet, `most` of them; results are written after each."""
    for name in ("torch", "numpy", "pytest", "sympy", "networkx", "rich", "pydantic", "transformers", "torch._dynamo"):  # for all children at once
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    done: dict[str, str] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in {test.partition("::")[0] for test in reached}:
            importlib.import_module(name.removesuffix(".py").replace("/", "."))
        record, others = ({t: row for t, row in reached.items() if t.startswith(RECORD) is wanted} for wanted in (True, False))
        at = by_line(record)
        gc.collect()
        gc.freeze()  # what a child does not touch is not copied
        chase = Hunt(copied(Path(folder), parts=PARTS), Path(folder) / "log")
        for number, change in enumerate([c for c in drawn if key(c) not in done][:most]):
            tests = subjects(change, record, at)
            done[key(change)] = unlike(change, tests) or chase.tried(change, tests := [*table(change), *picked(change, others)])
            results.write_text(json.dumps(done, indent=1), encoding="utf-8")
            print(number, key(change), len(tests), "->", done[key(change)] or "SURVIVES", flush=True)
    return done


def key(change: Change) -> str:
    """A name of a change that is the same in every run."""
    return f"{change.file}:{change.line} {change.place}: {change.kind} `{change.old}` -> `{change.new}`"


__all__ = ["Hunt", "hunt", "key", "picked", "unreached"]
