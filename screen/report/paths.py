"""File names as a report may show them: relative to the working directory or to site-packages, never absolute."""

from __future__ import annotations

import os
import re

_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
_STDLIB = re.compile(r".*[/\\]lib(?:64)?[/\\](python3\.\d+)[/\\]")


def relative(file: str, root: str) -> str | None:
    """`file` as it may stand in a report; None when there is no file (`""`, `<string>`).

    `root`: the working directory. What lies below neither the working directory nor site-packages is given by its way from the
    working directory (`../other/model.py`)."""
    if not file or file.startswith("<"):
        return None
    if found := _PACKAGES.match(file):
        return file[found.end() :].replace(os.sep, "/")
    if found := _STDLIB.match(file):
        return f"{found.group(1)}/{file[found.end() :]}".replace(os.sep, "/")
    if not os.path.isabs(file):
        return file.replace(os.sep, "/")
    try:
        return os.path.relpath(file, root).replace(os.sep, "/")
    except ValueError:  # another drive on Windows
        return os.path.basename(file)


__all__ = ["relative"]
