"""Whether code may tell the process in which it is traced from one in which it is not, read off its source.

What it may do is listed, and everything else counts as asking: a name or an attribute through which modules, frames, files, the environment, the
clock or the machine are reached, and every import but those of libraries that models are written with.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

LONGEST = 1 << 20
"""Bytes of a file that is looked into."""
LIBRARIES = frozenset({
    "__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "einops", "enum", "fractions", "functools", "itertools", "jaxtyping",
    "math", "numbers", "numpy", "operator", "string", "torch", "typing", "typing_extensions",
})  # fmt: skip
"""What models are written with, and what does not ask of itself."""
OWN = frozenset({
    "__init__", "__post_init__", "__new__", "__call__", "__class__", "__name__", "__qualname__", "__doc__", "__len__", "__iter__", "__next__",
    "__getitem__", "__setitem__", "__setattr__", "__getattr__", "__repr__", "__all__", "__version__", "__enter__", "__exit__", "__slots__",
})  # fmt: skip
"""Names with two underscores that ask nothing."""
BUILTINS = frozenset({
    "__import__", "breakpoint", "compile", "dir", "eval", "exec", "globals", "hash", "help", "id", "input", "locals", "memoryview", "open", "vars",
})
BY_NAME = frozenset({"delattr", "getattr", "hasattr", "setattr"})
"""Built-in functions whose second argument is the name of an attribute."""
REACHES = frozenset({
    "Formatter", "ag_frame", "argv", "asyncio", "attrgetter", "bltns", "builtins", "collect_env", "compiler", "cpp_extension", "cr_frame", "ctypes",
    "data_ptr", "datetime", "environ", "environb", "f2py", "f_back", "fromfile", "gc", "get_num_interop_threads", "get_num_threads",
    "get_rng_state", "get_state", "getenv", "gi_frame", "grad", "grad_fn", "hub", "importlib", "initial_seed", "inspect", "io", "is_cpu", "is_leaf",
    "is_meta", "load", "load_library", "loadtxt", "logging", "memmap", "methodcaller", "mro", "multiprocessing", "os", "overrides", "package",
    "pathlib", "pickle", "platform", "profiler", "psutil", "resource", "seed", "shutil", "site", "socket", "subprocess", "sys", "sysconfig",
    "tb_frame", "tempfile", "threading", "time", "traceback", "warnings", "weakref",
})  # fmt: skip
"""Attributes, and names that are imported, through which something else is reached."""
DEVICES = frozenset({"meta", "cpu"})
SELF = frozenset({"self", "cls", "super"})


def asks(files: Iterable[str]) -> bool:
    """Whether one of some Python files may ask where it runs; one that cannot be read may."""
    return any(_asks(file) for file in dict.fromkeys(files))


def _asks(file: str) -> bool:
    with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError):
        if os.path.isfile(file) and os.path.getsize(file) <= LONGEST:
            tree = ast.parse(Path(file).read_bytes())
            known = {id(node) for test in ast.walk(tree) if _is_guard(test) for node in ast.walk(test)}
            known |= {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_by_name(node.func)}
            return any(_is_question(node) for node in ast.walk(tree) if id(node) not in known)
    return True


def _is_guard(node: ast.AST) -> bool:
    """`__name__ == "__main__"`"""
    return isinstance(node, ast.Compare) and ast.unparse(node).replace('"', "'") in ("__name__ == '__main__'", "'__main__' == __name__")


def _is_question(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(_is_far(alias.name) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or _is_far(node.module or "") or any(_reaches(alias.name) or alias.name == "*" for alias in node.names)
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return isinstance(node.value, ast.Attribute) and node.value.attr == "device"
    if isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name | ast.Call) and ast.unparse(node.value).partition("(")[0] in SELF
        return _reaches(node.attr) if not own or node.attr.startswith("__") else False
    if isinstance(node, ast.Name):
        return node.id in BUILTINS or node.id in BY_NAME or (node.id.startswith("__") and node.id not in OWN - {"__name__", "__class__", "__doc__"})
    if isinstance(node, ast.MatchClass):
        return any(_reaches(name) for name in node.kwd_attrs)
    if isinstance(node, ast.Call) and _is_by_name(node.func):
        name = node.args[1] if len(node.args) > 1 else None
        return not (isinstance(name, ast.Constant) and isinstance(name.value, str)) or _reaches(name.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value in DEVICES or ("{" in node.value and "__" in node.value)  # `format` reads attributes
    return False


def _is_by_name(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and called.id in BY_NAME


def _is_far(module: str) -> bool:
    """Whether it is no library that models are written with, or a part of one that is not for everybody."""
    root, *parts = module.split(".")
    return root not in LIBRARIES or any(_reaches(part) for part in parts)


def _reaches(name: str) -> bool:
    return name in REACHES or (name.startswith("_") and name not in OWN)


__all__ = ["asks"]
