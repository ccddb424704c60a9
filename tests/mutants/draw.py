"""Changes of one place of a source file, as they are drawn."""

from __future__ import annotations

import ast
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.copies import ROOT

AREAS = {
    "calculi": ("screen/calculi", 35), "rules": ("rules", 22), "ops": ("screen/ops", 8), "verdict": ("screen/verdict", 13),
    "recipe": ("screen/recipe", 8), "outcomes": ("screen/outcomes", 6), "changes": ("screen/changes", 5), "trusted": ("screen/trusted.py", 2),
    "visible": ("screen/visible.py", 1), "facts": ("screen/facts", 15),
    "gate": ("screen/report/gate.py", 1), "settings": ("screen/settings.py", 4), "known": ("screen/pipeline/known.py", 2),
}  # fmt: skip
"""Area -> its folder or file, and how many changes are drawn there where `--count` is 100."""
FLIPPED = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
           ast.In: "not in", ast.NotIn: "in"}  # fmt: skip
TURNED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "rss": "largest", "add": "largest", "largest": "add"}
EXAMPLES = frozenset({"HOLDS", "VIOLATED", "VIOLATES", "CANNOT_TELL", "NOT_APPLICABLE", "INFO", "CONDITIONAL", "__all__", "RULE"})
"""Names of a rule's own tests and labels: what is assigned to them is not changed."""


@dataclass(frozen=True)
class Change:
    """`old` at an offset of a file becomes `new`."""

    file: str
    line: int
    place: str
    """The function, or `<module>`."""
    kind: str
    start: int
    old: str
    new: str
    names: tuple[str, ...] = ()
    """Outside of functions: the names that are defined there."""

    def apply(self, root: Path) -> None:
        """Writes the file with the change below `root`."""
        path = root / self.file
        data = path.read_bytes()
        assert data[self.start : self.start + len(self.old.encode())].decode() == self.old
        path.write_bytes(data[: self.start] + self.new.encode() + data[self.start + len(self.old.encode()) :])


class Finder:
    """All changes of one file."""

    def __init__(self, file: Path) -> None:
        self.file = file.relative_to(ROOT).as_posix()
        self.text = file.read_bytes()
        self.lines = [0]
        for line in self.text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.tree = ast.parse(self.text)

    def all(self) -> Iterator[Change]:
        """Statement by statement; docstrings, types, messages of exceptions and examples are left out."""
        stored = [tuple(n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)) for s in self.tree.body]
        of_examples = {n.id for s, names in zip(self.tree.body, stored, strict=True) if EXAMPLES & set(names)
                       for n in ast.walk(s) if isinstance(n, ast.Name)}  # fmt: skip
        for statement, names in zip(self.tree.body, stored, strict=True):
            if isinstance(statement, ast.FunctionDef) and statement.name in of_examples:
                continue
            if not isinstance(statement, ast.Import | ast.ImportFrom) and not EXAMPLES & set(names):
                yield from self._walk(statement, "<module>", names)

    def _walk(self, node: ast.AST, place: str, names: tuple[str, ...]) -> Iterator[Change]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                yield from self._walk(decorator, place, (node.name,))
            inner = node.name if place == "<module>" else f"{place}.{node.name}"
            for child in node.body:
                yield from self._walk(child, inner, () if isinstance(node, ast.FunctionDef) else names)
            return
        if isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            return  # for the type checker; of `zip` it only raises where two sequences of ours have other lengths, which they never have
        if isinstance(node, ast.Raise | ast.JoinedStr) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from self._walk(node.value, place, names)
            return
        for kind, part, new in self._of(node):
            start = self._offset(part)
            old = self.text[start : self._offset(part, end=True)].decode()
            if new != old:
                yield Change(self.file, part.lineno, place, kind, start, old, new, names if place == "<module>" else ())
        for child in ast.iter_child_nodes(node):
            yield from self._walk(child, place, names)

    def _offset(self, node: ast.expr, end: bool = False) -> int:
        line, column = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)
        assert line is not None and column is not None
        return self.lines[line - 1] + column

    def _of(self, node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
        """(kind, what is replaced, by what)."""
        match node:
            case ast.Constant(value=bool(value)):
                yield "truth", node, str(not value)
            case ast.Constant(value=int(value) | float(value)):
                yield "number", node, str(value * 100 if value else 1)
                yield "number", node, str(value // 2 if isinstance(value, int) else value / 2)
            case ast.Call(func=ast.Name(id="row" | "_rows"), args=[*_, ast.Constant(value=str(value)) as listed]) if len(value.split()) > 1:
                words = value.split()
                for word in words:
                    yield "entry", listed, repr(" ".join(w for w in words if w != word))
            case ast.Compare(ops=[op], left=left, comparators=[right]):
                yield "comparison", node, f"({self._text(left)} {FLIPPED[type(op)]} {self._text(right)})"
            case ast.BoolOp(op=op, values=values):
                word = " or " if isinstance(op, ast.And) else " and "
                yield "connective", node, "(" + word.join(f"({self._text(v)})" for v in values) + ")"
                own = " and " if word == " or " else " or "
                for left in values:
                    yield "clause", node, "(" + own.join(f"({self._text(v)})" for v in values if v is not left) + ")"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield "negation", node, f"({self._text(operand)})"
            case ast.BinOp(op=op, left=left, right=right) if type(op) in TURNED:
                yield "arithmetic", node, f"({self._text(left)} {TURNED[type(op)]} {self._text(right)})"
            case ast.Call(func=ast.Name(id=name) as called) if name in SWAPPED:
                yield "call", called, SWAPPED[name]
            case ast.If(test=test) | ast.IfExp(test=test):
                yield "condition", test, f"(not ({self._text(test)}))"
                yield "condition", test, "False"
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield "return", value, "None"
            case ast.Dict(keys=keys, values=values) if len(keys) > 1:
                for k, v in zip(keys, values, strict=True):
                    if isinstance(k, ast.Constant):
                        pairs = [(a, b) for a, b in zip(keys, values, strict=True) if b is not v]
                        yield "entry", node, "{" + ", ".join(f"{'**' if a is None else self._text(a) + ': '}{self._text(b)}" for a, b in pairs) + "}"
            case ast.Set(elts=items) if len(items) > 1:
                for item in items:
                    yield "entry", node, "{" + ", ".join(self._text(i) for i in items if i is not item) + "}"
            case _:
                return

    def _text(self, node: ast.expr) -> str:
        return self.text[self._offset(node) : self._offset(node, end=True)].decode()


@cache
def changes(area: str) -> list[Change]:
    """All changes of one area, file by file."""
    whole = ROOT / AREAS[area][0]
    return [c for file in ([whole] if whole.is_file() else sorted(whole.rglob("*.py"))) for c in Finder(file).all()]


def drawn(seed: int, count: int, only: Collection[str] = AREAS) -> list[Change]:
    """So many changes, in each area its share (`only`: of some areas, each its own share still): first a file in proportion to its lines, then a
    place in it, then a change of that place."""
    rng, found = random.Random(seed), []
    for area, (_, share) in AREAS.items():
        if area not in only:
            continue
        by_place: dict[tuple[str, int], list[Change]] = {}
        for change in changes(area):
            by_place.setdefault((change.file, change.line), []).append(change)
        places = rng.sample(sorted(by_place), min(round(share * count / 100), len(by_place)))
        found += [rng.choice(by_place[place]) for place in places]
    rng.shuffle(found)  # so that the first of them are a sample too
    return found


__all__ = ["AREAS", "Change", "changes", "drawn"]
