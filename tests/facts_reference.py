"""docs/facts.md, what a rule may read, made from the code: the records that `Facts` leads to, with their fields and what these say.

    python -m tests.facts_reference --write
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from screen.facts.record import Facts
from tests.shared import ROOT

PAGE = Path("docs/facts.md")
HEAD = """# What a rule may read

`check(facts)` is given `Facts`, and reads nothing else. This page is made from the code by `python -m tests.facts_reference --write`. `Unknown`
stands where something cannot be told, with the reason and the nodes to blame; `Tri` is true, false or `Unknown`. How a rule is written:
[CONTRIBUTING.md](../CONTRIBUTING.md); how one is shipped: [examples/plugin/](../examples/plugin/).
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_section(record) for record in _records())


def _records() -> list[type]:
    """`Facts`, and every dataclass of ours that the annotation of a field leads to, in that order."""
    found: list[type] = [Facts]
    for record in found:
        module = import_module(record.__module__)
        for _, annotation, _ in _fields(record):
            found += [kind for kind in _named(annotation, module) if kind not in found]
    return found


def _named(annotation: str, module: ModuleType) -> Iterator[type]:
    for word in re.findall(r"[A-Za-z_]\w*", annotation):
        kind = getattr(module, word, None)
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__.startswith("screen."):
            yield kind


def _fields(record: type) -> list[tuple[str, str, str]]:
    """Name, annotation, and the text below it, of each public field."""
    [node] = ast.parse(inspect.getsource(record)).body
    assert isinstance(node, ast.ClassDef)
    found = []
    for line, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not line.target.id.startswith("_"):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found.append((line.target.id, ast.unparse(line.annotation), " ".join(str(said).split())))
    return found


def _methods(record: type) -> list[tuple[str, str]]:
    """Signature and first sentence of each public method and property."""
    [node] = ast.parse(inspect.getsource(record)).body
    assert isinstance(node, ast.ClassDef)
    functions = [f for f in node.body if isinstance(f, ast.FunctionDef) and not f.name.startswith("_") and ast.get_docstring(f)]
    return [(_signature(f), " ".join((ast.get_docstring(f) or "").split())) for f in functions]


def _signature(function: ast.FunctionDef) -> str:
    is_property = any(isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in function.decorator_list)
    called = "" if is_property else f"({', '.join(ast.unparse(argument) for argument in function.args.args[1:])})"
    return f"{function.name}{called} -> {ast.unparse(function.returns)}" if function.returns else function.name + called


def _section(record: type) -> str:
    rows = [(f"{name}: {annotation}", said) for name, annotation, said in _fields(record)] + _methods(record)
    table = "".join(f"| `{name.replace('|', chr(92) + '|')}` | {said.replace('|', chr(92) + '|')} |\n" for name, said in rows)
    head = f"\n## {record.__name__}\n\n`{record.__module__}`: {' '.join((record.__doc__ or '').split())}\n"
    return f"{head}\n| field | what |\n|---|---|\n{table}" if rows else head


if __name__ == "__main__":
    if "--write" in sys.argv:
        (ROOT / PAGE).write_text(page(), encoding="utf-8")
    sys.exit(0 if (ROOT / PAGE).read_text(encoding="utf-8") == page() else "out of date")
