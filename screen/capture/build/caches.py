"""What a forward insists has been set up before it: a cache that a method of the model makes.

    def forward(self, …): assert self.freqs_cis is not None, "Caches must be initialized first"
    def setup_caches(self, max_batch_size, max_seq_length): … self.freqs_cis = …

Where the forward of a model asserts that an attribute of it is there, the attribute is `None`, and one method alone sets it, that method is called
with sizes: a batch for arguments of that name, a length for the others. So it is where the forward reads an attribute that no constructor made.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

from torch import nn

from screen.capture.build.construct import workshop
from screen.capture.build.reads import tree_of

BATCH, LENGTH = 2, 64


def waits(model: nn.Module) -> bool:
    """Does the forward ask for something that is not there?"""
    return any(getattr(model, name, None) is None for name in _insisted(model))


def set_up(model: nn.Module, batch: int = BATCH) -> tuple[str, ...]:
    """Call such methods, and say which."""
    done: list[str] = []
    for name in _insisted(model):
        if getattr(model, name, None) is not None:
            continue
        methods = [m for m in vars(type(model)).values() if inspect.isfunction(m) and m.__name__ not in ("__init__", "forward") and _sets(m, name)]
        sizes = _sizes(methods[0], batch) if len(methods) == 1 else None
        if sizes is None:
            continue
        try:
            with workshop():
                methods[0](model, *sizes)
        except Exception:  # it needs what cannot be told: the forward's own message stands
            continue
        done.append(f"`{methods[0].__name__}({', '.join(map(str, sizes))})` was called before `forward`, which asks for `{name}`")
    return tuple(done)


def _tree(function: Any) -> ast.AST:
    return tree_of(inspect.unwrap(function)) or ast.Module([], [])


def _insisted(model: nn.Module) -> list[str]:
    """Attributes that the forward asserts to be there, `assert self.x is not None`, and those that it reads and that nothing has made."""
    found: list[str] = []
    for node in ast.walk(_tree(getattr(type(model), "forward", None))):
        if isinstance(node, ast.Attribute) and _own(node) and isinstance(node.ctx, ast.Load) and not hasattr(model, node.attr):
            found.append(node.attr)
        for test in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and _own(test.left):
                found.append(test.left.attr)  # type: ignore[attr-defined]
    return list(dict.fromkeys(found))


def _own(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _sets(method: Any, name: str) -> bool:
    """Does a method assign this attribute?"""
    targets = [t for n in ast.walk(_tree(method)) if isinstance(n, ast.Assign) for t in n.targets]
    return any(_own(t) and t.attr == name for t in targets)  # type: ignore[attr-defined]


def _sizes(method: Any, batch: int) -> list[int] | None:
    """Sizes for what the method must be given; None where an annotation asks for something else."""
    wanted = [p for p in list(inspect.signature(method).parameters.values())[1:] if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if any(p.annotation not in (p.empty, int, "int") for p in wanted):
        return None
    return [batch if "batch" in p.name.casefold() else LENGTH for p in wanted]


__all__ = ["set_up", "waits"]
