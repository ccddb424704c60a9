"""What a forward insists has been set up before it: a cache that a method of the model makes.

    def forward(self, …): assert self.freqs_cis is not None, "Caches must be initialized first"
    def setup_caches(self, max_batch_size, max_seq_length): … self.freqs_cis = …

Where the forward of a model asserts that an attribute of it is there, the attribute is `None`, and one method alone sets it, that method is called
with sizes: a batch for arguments of that name, a length for the others. So it is where the forward reads an attribute that no constructor made. Of
the modules inside of a model such methods are called that ask for nothing (`init_inv_freq()`, which a model on meta could not do in its constructor).
"""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

from torch import nn

from screen.capture.build.construct import workshop
from screen.capture.build.reads import tree_of

BATCH, LENGTH = 2, 64


def waits(model: nn.Module) -> bool:
    """Does the forward ask for something that is not there?"""
    return any(getattr(one, name, None) is None for one in _own_modules(model) for name in _insisted(one))


def set_up(model: nn.Module, batch: int = BATCH) -> tuple[str, ...]:
    """Call such methods, and say which."""
    done: dict[str, None] = {}
    for one in _own_modules(model):
        for name in _insisted(one):
            if getattr(one, name, None) is not None:
                continue
            methods = [m for m in vars(type(one)).values() if inspect.isfunction(m) and m.__name__ not in ("__init__", "forward") and _sets(m, name)]
            sizes = _sizes(methods[0], batch) if len(methods) == 1 else None
            if sizes is None or (sizes and one is not model):
                continue
            try:
                with workshop():
                    methods[0](one, *sizes)
            except Exception:  # it needs what cannot be told: the forward's own message stands
                continue
            whose = "" if one is model else f" of each `{type(one).__name__}`"
            done[f"`{methods[0].__name__}({', '.join(map(str, sizes))})`{whose} was called before `forward`, which asks for `{name}`"] = None
    return tuple(done)


def _own_modules(model: nn.Module) -> list[nn.Module]:
    """A model and the modules in it that are none of torch's own classes."""
    return [one for one in model.modules() if one is model or not type(one).__module__.startswith("torch.")]


def _tree(function: Any) -> ast.AST:
    return tree_of(inspect.unwrap(function)) or ast.Module([], [])


def _insisted(model: nn.Module) -> list[str]:
    """Attributes that the forward asserts to be there, `assert self.x is not None`, and those that it reads and that nothing has made."""
    return [name for name, asserted in _asked(getattr(type(model), "forward", None)).items() if asserted or not hasattr(model, name)]


@functools.lru_cache(maxsize=1024)
def _asked(forward: Any) -> dict[str, bool]:
    """The attributes that a forward reads, and whether it asserts that they are there."""
    found: dict[str, bool] = {}
    for node in ast.walk(_tree(forward)):
        if isinstance(node, ast.Attribute) and _own(node) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.attr, False)
        for test in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and _own(test.left):
                found[test.left.attr] = True  # type: ignore[attr-defined]
    return found


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
