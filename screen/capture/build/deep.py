"""Deep copies of modules, also of a class with a `__new__` of its own: Python's `copy` calls it with nothing but the class.

A class that decides in `__new__` what it makes (`Linear` where no rank is given) has decided when the module stands; its copy is made without asking.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
import inspect
from collections.abc import Iterator
from typing import Any, TypeVar

from torch import nn

T = TypeVar("T")


def deep(value: T, memo: dict[int, Any] | None = None) -> T:
    """As `copy.deepcopy`."""
    with _made(value):
        return copy.deepcopy(value, memo)


@contextlib.contextmanager
def _made(value: Any) -> Iterator[None]:
    """For the time of a copy: how modules of such classes are taken apart."""
    found = {type(m) for m in value.modules()} if isinstance(value, nn.Module) else set()
    asking = [cls for cls in found if _asks(cls) and cls not in copyreg.dispatch_table]
    copyreg.dispatch_table.update(dict.fromkeys(asking, _apart))
    try:
        yield
    finally:
        for cls in asking:
            copyreg.dispatch_table.pop(cls, None)


def _asks(cls: type) -> bool:
    """Does its `__new__` need more than the class, with no word of what?"""
    if any(hasattr(cls, name) for name in ("__getnewargs__", "__getnewargs_ex__", "__deepcopy__")):
        return False
    made: Any = cls.__new__
    if made is object.__new__:
        return False
    try:
        inspect.signature(made).bind(cls)
    except TypeError:
        return True
    except ValueError:  # a builtin without a signature
        return False
    return False


def _apart(module: nn.Module) -> Any:
    """What `copy` puts together again: an empty object of the class, and all that the module holds."""
    return (object.__new__, (type(module),), *module.__reduce_ex__(4)[2:])


__all__ = ["deep"]
