"""What is said of classes of a file that do not build: each by itself, and all of them."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType

from torch import nn

from screen.capture.build.absent import of_absent
from screen.capture.build.configs import Missing
from screen.capture.build.needs import Needs
from screen.capture.build.piecewise import Reading, replaced
from screen.capture.build.reads import source_of
from screen.capture.inputs.missing import frames, statement
from screen.capture.kernels.stand_in import PACKAGES, to_install
from screen.capture.trace.source_lines import HERE, TORCH
from screen.errors import LoadError, ScreenError, UsageError


def none_builds(errors: Mapping[str, Exception], module: ModuleType) -> Exception:
    """The error where no model of a file builds: the one there is, or all of them, with the functions that could be named."""
    first = next(iter(errors.values()))
    if len(errors) == 1 and not isinstance(first, Needs):
        return first
    makers = [n for n, v in vars(module).items() if inspect.isfunction(v) and not n.startswith("_") and _makes(v, module)]
    listed = ", ".join(f"`{n}`" for n in makers[:8])
    if isinstance(first, Needs) and len(errors) == 1:
        if not makers:
            return first
        told = Needs(first.required, first.found, f"{first.try_}; or name a function that makes a model: {listed}")
        told.lacking = first.lacking
        return told
    required = "a model of the file must build without arguments, or with those of `--set`"
    advice = f"Name one with what it needs, or a function that makes a model ({listed})" if makers else ""
    lacking = [e for e in errors.values() if isinstance(e, ImportError) and e.name]
    packages = dict.fromkeys(p for e in lacking for p in to_install(e))
    if packages:
        advice = f"{advice}{'. ' if advice else ''}Or install {', '.join(packages)}"
    sized = any(isinstance(e, Needs | Missing) for e in errors.values()) and not any(isinstance(e, ImportError) for e in errors.values())
    several = Needs if sized else UsageError  # those that lack sizes, whatever keeps others of the file from being built
    return several(required, "; ".join(why_not(n, e) for n, e in errors.items()), advice)


def by_name_only(names: Iterable[str], module: ModuleType, read: Mapping[str, set[str]]) -> list[str]:
    """The packages that are not there and of which the code of these classes of a file reads something, in the order of its imports."""
    found = {n: of_absent(v) for n, v in vars(module).items() if isinstance(v, type) and of_absent(v)}
    wanted = {name for one in names for name in read.get(one, ())}
    return [p for p in dict.fromkeys(root for name, root in found.items() if name in wanted) if not _is_there(p)]


def _makes(function: FunctionType, module: ModuleType) -> bool:
    """Whether a function of a file names a class of modules, or needs no argument, and gives something: one of tensors, or one that trains what it
    made, makes no model."""
    named = [vars(module).get(name) for name in function.__code__.co_names]
    free = all(p.default is not p.empty for p in inspect.signature(function).parameters.values())
    names = free or any(isinstance(v, type) and issubclass(v, nn.Module) for v in named)
    return function.__module__ == module.__name__ and names and _gives(function)


def _gives(function: FunctionType) -> bool:
    """Whether a `return` of a function has a value; taken for granted where its text cannot be had."""
    text = source_of(function)
    return text is None or any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(ast.parse(textwrap.dedent(text))))


def why_not(name: str, error: Exception) -> str:
    """Why one class does not build, in the words of a list of them."""
    if isinstance(error, Needs):
        return f"`{name}` needs {', '.join(f'`{m}`' for m in error.lacking)}: " + " ".join(f"`--set {name}.{m}=…`" for m in error.lacking)
    return f"`{name}`: {error.found if isinstance(error, ScreenError) else f'{type(error).__name__}: {error}'.splitlines()[0]}"


@contextlib.contextmanager
def later(error: Needs) -> Iterator[None]:
    """What a class asks for once it has sizes, told with those: a package that is not installed."""
    try:
        yield
    except ImportError as lacks:
        if lacks.name:
            wanted = ", ".join(to_install(lacks))
            error.try_ = f"{error.try_}. It then needs {wanted}: install that, or run `screen` where it can be imported"
        raise


def explained(name: str, error: NameError, reading: Reading) -> Exception:
    """A name that is missing because the statement that makes it did not run is an error of its own."""
    why = replaced(error, reading)
    if not why and (optional := _optional(error)):
        found = f"it reads `{error.name}`, which its file imports from `{optional}` where that is there, and it is not"
        advice = f"Install `{optional}`, or choose what does without it by `--set`"
        return LoadError(f"`{name}` must build from what stands in its file", found, advice)
    if not why:
        return error
    package = re.search(r"No module named '(\w+)", why)
    if not package and error.name:  # a number, perhaps, that a usual size can stand for
        asked = Needs(f"`{name}` must build from what stands in its file", f"it reads `{error.name}`, but {why}", f"Give it: `--set {error.name}=…`")
        asked.lacking = (error.name,)
        return asked
    advice = f"Install `{package[1]}`, or run `screen` where it can be imported" if package else f"Give it: `--set {error.name}=…`"
    return LoadError(f"`{name}` must build from what stands in its file", f"it reads `{error.name}`, but {why}", advice)


def version_asked(error: BaseException) -> str:
    """The version of a package that an assertion asks for, as an installer takes it, `timm==0.4.5`; empty for none."""
    own = [f for f in frames(error) if not f[0].f_code.co_filename.startswith((TORCH, HERE))] if isinstance(error, AssertionError) else []
    said = statement(own[-1][0].f_code.co_filename, own[-1][1]) if own else None
    test = said.test if isinstance(said, ast.Assert) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.GtE | ast.LtE):
        return ""
    sign = {ast.Eq: "==", ast.GtE: ">=", ast.LtE: "<="}[type(test.ops[0])]
    left, right = test.left, test.comparators[0]
    if not (isinstance(left, ast.Attribute) and left.attr == "__version__" and isinstance(right, ast.Constant) and isinstance(right.value, str)):
        return ""
    return f"{ast.unparse(left.value).partition('.')[0]}{sign}{right.value}"


def of_version(name: str, asked: str, error: AssertionError) -> LoadError:
    """The error of a file that asks for another version of a package than the one that is there."""
    found = f"it asks for `{asked}`: `{error}`".splitlines()[0] if str(error) else f"it asks for `{asked}`"
    return LoadError(f"`{name}` must build with the packages that are installed", found, f"Install `{asked}`")


def _optional(error: NameError) -> str:
    """The package that is not installed and from which the file of a name that is missing imports it, `try: from package import name`; empty for
    none."""
    frame = next(reversed(list(frames(error))), (None, 0))[0]
    try:
        tree = ast.parse(source_of(sys.modules[frame.f_globals["__name__"]]) or "") if frame is not None else ast.Module([], [])
    except (KeyError, SyntaxError, ValueError):
        return ""
    for node in [n for t in ast.walk(tree) if isinstance(t, ast.Try) for n in ast.walk(t)]:
        made = {a.asname or a.name: a.name for a in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else {}
        module = (node.module or "") if isinstance(node, ast.ImportFrom) and not node.level else made.get(error.name or "", "")
        root = module.partition(".")[0]
        if error.name in made and root and not _is_there(root):
            return root
    return ""


def _is_there(root: str) -> bool:
    try:
        return importlib.util.find_spec(root) is not None and root not in PACKAGES
    except (ImportError, ValueError):
        return False


__all__ = ["by_name_only", "explained", "none_builds", "of_version", "version_asked", "why_not"]
