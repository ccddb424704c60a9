"""What a file imports from a package that is not there: names that can be imported, and that nothing can be asked of.

An annotation, a base class of settings or a checking decorator needs no more. Whatever else such a name is asked for raises `NotInstalled`, which
tells it: a call inside of a function, a truth value, whether something is an instance of it. Outside of functions a call gives such a name again, and
one with a single function or class gives that back (a decorator that is left out); what was left out is told.
"""

from __future__ import annotations

import abc
import ast
import functools
import inspect
import os
import re
import sys
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from screen.capture.kernels.stand_in import NotInstalled, is_of_library

_NAME = "__screen_absent__"
_TOLD = "__screen_told__"
_WHY = "__screen_why__"
"""Where such a name keeps how it is called in full, the list of what was left out for it, and why it is not there."""
WHY = "is not there, and nothing stands in for it"


class _Absent(abc.ABCMeta):
    """The class of such names: they are classes themselves, so that they can be annotations and bases."""

    def __getattr__(cls, name: str) -> Any:
        if name == "__version__":
            _refuse(cls)
        if name.startswith("__") or _NAME not in vars(cls):
            raise AttributeError(name)
        return absent(f"{vars(cls)[_NAME]}.{name}", vars(cls)[_TOLD], vars(cls)[_WHY])

    @property
    def register(cls) -> Any:
        """A name of `ABCMeta` that registries have too."""
        return absent(f"{vars(cls)[_NAME]}.register", vars(cls)[_TOLD]) if _NAME in vars(cls) else functools.partial(abc.ABCMeta.register, cls)

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) if _NAME not in vars(cls) else _refuse(cls)

    def __subclasscheck__(cls, other: Any) -> bool:
        return super().__subclasscheck__(other) if _NAME not in vars(cls) else other is cls or _refuse(cls)

    def __bool__(cls) -> bool:
        return _NAME not in vars(cls) or _refuse(cls)


_PACKAGE = re.compile(r"No module named '([\w.]+)|cannot import name '(\w+)' from '([\w.]+)'")


def _refuse(cls: Any, *_: Any, **__: Any) -> NoReturn:
    """The error of whatever else a name, or an object of a class that it is a base of, is asked for."""
    found = next(vars(c) for c in (cls if isinstance(cls, type) else type(cls)).__mro__ if _NAME in vars(c))
    full, why = found[_NAME], found[_WHY]
    error = NotInstalled(f"`{full}` {why}", name=full.partition(".")[0] if why == WHY else None)
    if error.name in sys.modules:  # a name of the project's own, for which others are missing
        lacking = (m[1] or f"{m[3]}.{m[2]}" for line in found[_TOLD] if (m := _PACKAGE.search(line)) is not None)
        outer = (n if is_of_library(n) else n.partition(".")[0] for n in lacking)
        error.packages = tuple(dict.fromkeys(n for n in outer if "." in n or n not in sys.modules))  # what the project's own files lack follows
    raise error


for _asked in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "lt", "le", "gt", "ge", "iter", "len", "contains", "enter"):
    setattr(_Absent, f"__{_asked}__", _refuse)


def _new(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gives: an object of a class that has such a base; outside of functions what is decorated, or such a name again."""
    if _NAME not in vars(cls):
        made = next(base.__new__ for base in cls.__mro__ if "__new__" in vars(base) and _NAME not in vars(base))
        return object.__new__(cls) if made is object.__new__ else made(cls, *args, **kwargs)  # type: ignore[comparison-overlap]
    caller = sys._getframe(1)
    if caller.f_code.co_flags & inspect.CO_OPTIMIZED:  # within a function
        _refuse(cls)
    full, told = vars(cls)[_NAME], vars(cls)[_TOLD]
    if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType | type) and _NAME not in vars(args[0]):
        line = f"`@{full}` at {os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno} is left out"
        told.extend([line] if line not in told else [])
        return args[0]
    return absent(f"{full}(…)" if args or kwargs else f"{full}()", told, vars(cls)[_WHY])


def absent(full: str, told: list[str], why: str = WHY) -> type[Any]:
    """Such a name; `told` is filled with what was left out for it, `why` is what is said where anything is asked of it."""
    rows = {_NAME: full, _TOLD: told, _WHY: why, "__new__": _new, "__init__": _refuse, "__class_getitem__": classmethod(lambda cls, _: cls)}
    return _Absent(full.rpartition(".")[2], (), {**rows, "__module__": full.rpartition(".")[0]})


def is_absent(value: type[Any]) -> bool:
    """Is a class such a name?"""
    return _NAME in vars(value)


def of_absent(value: type[Any]) -> str:
    """The package that such a name is of; empty for any other class."""
    return str(vars(value)[_NAME]).partition(".")[0] if _NAME in vars(value) and vars(value)[_WHY] == WHY else ""


def imported(node: ast.stmt, error: ImportError, module: ModuleType, told: list[str]) -> bool:
    """Give a module the names of an import that failed for a package or a name that is not there; False where it is another failure."""
    if isinstance(node, ast.Import):
        missing = (error.name or "").partition(".")[0]
        for alias in node.names:
            root = alias.name.partition(".")[0]
            try:
                exec(compile(ast.Module([ast.copy_location(ast.Import([alias]), node)], []), "<import>", "exec"), vars(module))
            except ModuleNotFoundError:
                if root != missing:
                    return False
                vars(module)[alias.asname or root] = absent(alias.name if alias.asname else root, told)
        return True
    if not isinstance(node, ast.ImportFrom) or node.level or not node.module or any(alias.name == "*" for alias in node.names):
        return False
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] != node.module.partition(".")[0]:
        return False
    for alias in node.names:
        one = ast.copy_location(ast.ImportFrom(node.module, [alias], 0), node)
        try:
            exec(compile(ast.Module([one], []), "<import>", "exec"), vars(module))
        except ImportError:
            vars(module)[alias.asname or alias.name] = absent(f"{node.module}.{alias.name}", told)
    return True


__all__ = ["absent", "imported", "is_absent", "of_absent"]
