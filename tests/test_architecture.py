"""Imports go one way, and torch stays on the capture side: read off the source, nothing is imported for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import networkx
import pytest

from tests.shared import ROOT

LAYERS: tuple[str, ...] = (
    "errors ops plugins theorems visible",
    "tables trusted ops.foreign",
    "recipe",
    "graph settings",
    "structure capture designs",
    "calculi.bounds calculi.degrees calculi.meanfield",
    "calculi",
    "facts",
    "rule probe.plan",
    "rules verdict probe",
    "changes",
    "child report",
    "testing pipeline",
    "command",
    "api __main__",
    "__init__",
    "pytest_plugin",
    "atlas",
    "outcomes",
)
"""The rooms of `screen`, from the ground up: each imports from the lines before its own, and from no room beside it. Imports inside of functions
count, and those under `TYPE_CHECKING`."""
TORCH = frozenset({"torch", "torchvision", "torchaudio", "transformers", "timm"})
TORCH_SIDE = frozenset({"atlas", "capture", "child", "designs", "probe", "testing"})
MAY_CAPTURE = frozenset({"atlas", "capture", "child", "outcomes", "probe", "testing", "pipeline", "command", "api"})
"""Who may import from `screen.capture` and `screen.child`; structure, calculi, facts, rules, verdict and reports see plain data only."""


def _part(module: str) -> str:
    """`screen.facts.record` -> `facts`; `screen` itself -> `__init__`. The calculi are rooms of their own, and so are plans of the probe."""
    names = module.split(".")[1:]
    inner = ".".join(names[:2])
    return inner if any(inner in line.split() for line in LAYERS) else names[0] if names else "__init__"


def _rank(part: str) -> int:
    for rank, line in enumerate(LAYERS):
        if part in line.split():
            return rank
    raise AssertionError(f"`screen/{part}` stands on no line of LAYERS: add it where it belongs")


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "screen").rglob("*.py")) + sorted((ROOT / "rules").glob("*.py")):
        relative = path.relative_to(ROOT).with_suffix("")
        if relative.parts[:2] != ("screen", "rules"):
            parts = relative.parts if relative.parts[0] == "screen" else ("screen", *relative.parts)
            yield ".".join(parts), path


MODULES = dict(_modules())


def _runs(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but what stands under `if TYPE_CHECKING:`, which never runs."""
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield child
            yield from _runs(child)


@cache
def imported(source: str, module: str, nodes: Callable[[ast.AST], Iterable[ast.AST]] = _runs) -> tuple[tuple[str, int], ...]:
    """Every module that a source imports, at any depth of it, with its line."""
    return tuple(_imported(source, module, nodes))


def _imported(source: str, module: str, nodes: Callable[[ast.AST], Iterable[ast.AST]]) -> Iterator[tuple[str, int]]:
    for node in nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in MODULES or f"{inner}.__init__" in MODULES else base), node.lineno


def faults(module: str, source: str) -> list[str]:
    """What is wrong with a module's imports, in words."""
    part = _part(module.removesuffix(".__init__"))
    found, loaded = [], set(imported(source, module))
    for name, line in imported(source, module, ast.walk):
        top = name.split(".")[0]
        if top in TORCH and part not in TORCH_SIDE and (name, line) in loaded:
            found.append(f"{module}:{line} imports `{name}`; only {', '.join(sorted(TORCH_SIDE))} may")
        if top == "rules":
            found.append(f"{module}:{line} imports `rules`; it is called `screen.rules`")
        if top != "screen" or name == "screen":  # the package itself is lazy: a version and four names
            continue
        target = _part(name)
        if target != part and _rank(target) >= _rank(part):
            found.append(f"{module}:{line} imports `{name}`, which does not stand below it")
        if target in ("capture", "child") and part not in MAY_CAPTURE:
            found.append(f"{module}:{line} imports `{name}`; only {', '.join(sorted(MAY_CAPTURE))} may")
        if part == "rules" and target == "rules":
            found.append(f"{module}:{line}: a rule imports no other rule")
    return found


def arrows(sources: Mapping[str, str]) -> networkx.DiGraph[str]:
    """Who imports whom, file by file: imports inside of functions and those for the type checker alone count too."""
    found: networkx.DiGraph[str] = networkx.DiGraph()
    for module, source in sources.items():
        here = module.removesuffix(".__init__")
        for name, _ in imported(source, module, ast.walk):
            target = name if name in sources else f"{name}.__init__"
            if target in sources and name not in (here, "screen"):
                found.add_edge(here, name)
    return found


def circles(sources: Mapping[str, str]) -> list[list[str]]:
    """Files that import each other, however far round."""
    return [sorted(part) for part in networkx.strongly_connected_components(arrows(sources)) if len(part) > 1]


SOURCES = {module: path.read_text(encoding="utf-8") for module, path in MODULES.items()}


def test_no_circle_between_files() -> None:
    assert circles(SOURCES) == []


@pytest.mark.parametrize(
    "back",
    [
        "from screen.structure.branches.branch import Branch",
        "def f():\n    from screen.structure.branches.branch import Branch",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from screen.structure.branches import branch",
    ],
)
def test_a_circle_is_seen(back: str) -> None:
    """The test above can fail."""
    (circle,) = circles({**SOURCES, "screen.structure.branches.output": SOURCES["screen.structure.branches.output"] + back})
    assert circle == ["screen.structure.branches.branch", "screen.structure.branches.output"]


@pytest.mark.parametrize("module", MODULES)
def test_arrows_point_forward(module: str) -> None:
    assert faults(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("screen.structure.norms.find", "import torch"),
        ("screen.structure.norms.find", "def f():\n    from torch import nn"),
        ("screen.structure.norms.find", "from screen.verdict.channels import fold"),
        ("screen.structure.norms.find", "from screen import verdict"),
        ("screen.verdict.channels", "from screen.child.host import capture"),
        ("screen.report.formats.text", "import transformers"),
        ("screen.rules.placement", "from screen.rules.hollow_norm import RULE"),
        ("screen.capture.build.build", "from screen.facts import derive"),
        ("screen.verdict.discover", "import rules"),
        ("screen.calculi.bounds.witness", "from screen.calculi.degrees import laws_of"),
        ("screen.calculi.degrees.values", "def f():\n    from screen.calculi.bounds import bounds_of"),
        ("screen.structure.sums", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from screen.calculi.bounds import bounds_of"),
        ("screen.calculi.analysis", "from screen.facts.record import Facts"),
    ],
)
def test_wrong_arrows_are_seen(module: str, source: str) -> None:
    """The test above can fail."""
    assert faults(module, source)


def test_the_near_side_never_loads_torch() -> None:
    """Importing everything but the capture side loads neither torch nor transformers."""
    near = [m for m in MODULES if _part(m) not in TORCH_SIDE and not m.endswith("__main__")]
    names = [m.removesuffix(".__init__") for m in near]
    code = f"import importlib, sys\nfor m in {names!r}: importlib.import_module(m)\nsys.exit(int(bool({set(TORCH)!r} & set(sys.modules))))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0
