"""Reads a transformer's residual streams off its code and judges whether the architecture trains stably.

`import screen` loads nothing: names are looked up when they are used (PEP 562), so that the command line answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from screen.api import check as check
    from screen.api import compare as compare
    from screen.errors import ScreenError as ScreenError
    from screen.report.schema import Report as Report
    from screen.report.schema import Reports as Reports
    from screen.recipe import Recipe as Recipe

    __version__: str

_HOMES = {
    "check": "screen.api",
    "compare": "screen.api",
    "ScreenError": "screen.errors",
    "Report": "screen.report.schema",
    "Reports": "screen.report.schema",
    "Recipe": "screen.recipe",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        try:
            return metadata.version("archscreen")
        except metadata.PackageNotFoundError:  # run from a checkout that is not installed
            return "0+unknown"
    raise AttributeError(f"module `screen` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])


__all__ = ["Recipe", "Report", "Reports", "ScreenError", "__version__", "check", "compare"]
