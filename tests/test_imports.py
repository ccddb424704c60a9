"""Imports go one way, and torch stays on the capture side: read off the source, nothing is imported for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import networkx
import pytest

from tests.shared import ROOT

STAGES: tuple[frozenset[str], ...] = tuple(
    frozenset(stage.split())
    for stage in (
        "errors paths complain collecting repetition",
        "graph ops target recipe theorems conditions",
        "graphio config unloop",
        "capture probe progress",
        "facts",
        "rule summary plan plan_blocks plan_quantities plan_spot",
        "rules",
        "discover",
        "verdict",
        "model model_streams report",  # a `Report` shows itself, so that the two know each other
        "assemble assemble_calculus assemble_claims assemble_streams gate",
        "probing spotting",
        "pipeline testing",
        "doctor commands api",
        "cli",
        "__init__ __main__",
    )
)
"""The parts of `screen`, each set after those that it may import from."""
TORCH = frozenset({"torch", "torchvision", "torchaudio", "transformers", "timm"})
TORCH_SIDE = frozenset({"capture", "probe", "testing"})
MAY_CAPTURE = frozenset({"capture", "probe", "testing", "probing", "spotting", "pipeline", "doctor", "commands", "api"})
"""Who may import from `screen.capture`; facts, rules, verdict and reports see plain data only."""


def _part(module: str) -> str:
    """`screen.facts.norms` -> `facts`; `screen` itself -> `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def _rank(part: str) -> int:
    for rank, stage in enumerate(STAGES):
        if part in stage:
            return rank
    raise AssertionError(f"`screen/{part}` has no stage: add it to STAGES where it belongs")


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


def imported(source: str, module: str, nodes: Callable[[ast.AST], Iterable[ast.AST]] = _runs) -> Iterator[tuple[str, int]]:
    """Every module that a source imports, at any depth of it, with its line."""
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
    found = []
    for name, line in imported(source, module):
        top = name.split(".")[0]
        if top in TORCH and part not in TORCH_SIDE:
            found.append(f"{module}:{line} imports `{name}`; only {', '.join(sorted(TORCH_SIDE))} may")
        if top == "rules":
            found.append(f"{module}:{line} imports `rules`; it is called `screen.rules`")
        if top != "screen" or name == "screen":  # the package itself is lazy: a version and four names
            continue
        target = _part(name)
        if _rank(target) > _rank(part):
            found.append(f"{module}:{line} imports `{name}`, which comes after it")
        if target == "capture" and part not in MAY_CAPTURE:
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
        "from screen.facts.branches import Branch",
        "def f():\n    from screen.facts.branches import Branch",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from screen.facts import branches",
    ],
)
def test_a_circle_is_seen(back: str) -> None:
    """The test above can fail."""
    (circle,) = circles({**SOURCES, "screen.facts.exits": SOURCES["screen.facts.exits"] + back})
    assert circle == ["screen.facts.branches", "screen.facts.exits"]


@pytest.mark.parametrize("module", MODULES)
def test_arrows_point_forward(module: str) -> None:
    assert faults(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("screen.facts.norms", "import torch"),
        ("screen.facts.norms", "def f():\n    from torch import nn"),
        ("screen.facts.norms", "from screen.verdict import fold"),
        ("screen.facts.norms", "from screen import verdict"),
        ("screen.verdict", "from screen.capture.client import capture"),
        ("screen.report.text", "import transformers"),
        ("screen.rules.placement", "from screen.rules.hollow_norm import RULE"),
        ("screen.capture.build", "from screen.facts import derive"),
        ("screen.discover", "import rules"),
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
