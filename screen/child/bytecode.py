"""Compiled files of the tree that is judged are neither read nor written: a `.pyc` of another source than the one beside it is not seen in a review.

Python believes a `.pyc` whose header says that it need not be checked, and one that has no source at all. What is installed keeps its own."""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys
import sysconfig
from importlib import _bootstrap_external as external
from typing import Any

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def ignore_compiled() -> None:
    """From here on only modules below the interpreter's own folders have compiled files."""
    roots = installed()
    cached: Any = external.cache_from_source
    load = importlib.machinery.SourcelessFileLoader.get_code

    def cache_from_source(path: str, debug_override: Any = None, *, optimization: Any = None) -> str:
        """As the standard library's, which says so where there is no place for such a file."""
        if not os.path.abspath(path).startswith(roots):
            raise NotImplementedError(f"`{path}` has no compiled file")
        found: str = cached(path, debug_override, optimization=optimization)
        return found

    def get_code(loader: importlib.machinery.SourcelessFileLoader, name: str) -> object:
        if not os.path.abspath(loader.path).startswith(roots):
            raise ImportError(f"`{os.path.basename(loader.path)}` is compiled code without its source, which is not run", name=name, path=loader.path)
        return load(loader, name)

    external.cache_from_source = cache_from_source  # type: ignore[assignment]
    importlib.machinery.SourcelessFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]


def installed() -> tuple[str, ...]:
    """The folders below which the standard library, installed packages and this package lie."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    ours = [path for variables in (None, base) if (paths := sysconfig.get_paths(vars=variables)) for path in map(paths.get, names) if path]
    folders = [*ours, *site.getsitepackages(), site.getusersitepackages(), OURS]
    return tuple(dict.fromkeys(os.path.join(os.path.abspath(path), "") for path in folders))


__all__ = ["ignore_compiled", "installed"]
