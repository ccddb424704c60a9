"""The files of the project that holds a file: those beside it, and the ones that it imports."""

from __future__ import annotations

import functools
import os
import re
import stat
from pathlib import Path

FILES, LARGEST, LEVELS = 300, 2**18, 6
"""Of a project: files that are looked at, the bytes of each, and how many folders, its own first, may be the root."""
_ROOT = re.compile(r"(readme|pyproject\.toml|setup\.py|setup\.cfg|\.git$)", re.IGNORECASE)
"""What stands in the root of a project."""
_TESTS = re.compile(r"(tests?|test_.*|.*_test\.py)$", re.IGNORECASE)
"""Files and folders of tests."""
_ASIDE = {"node_modules", "site-packages", "build", "dist", "venv"}


@functools.lru_cache(maxsize=4)
def beside(file: str, endings: tuple[str, ...]) -> tuple[str, ...]:
    """The other files of the project that holds a file whose names end so: the nearest first, and tests, whose models are small, last."""
    folder = Path(file).parent
    above = [folder, *folder.parents][:LEVELS]
    try:
        held = [[n for n in os.listdir(a) if _ROOT.match(n)] for a in above]
    except OSError:
        return ()
    roots = [n for n, names in enumerate(held) if names]
    last = next((n for n in roots if not all(name.casefold().startswith("readme") for name in held[n])), max(roots, default=0))
    found: list[tuple[bool, int, str]] = []
    walked = ""
    for top in above[: last + 1]:  # the nearest folders first: a project may have more files than are looked at
        for place, folders, files in os.walk(top):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "_")) and f not in _ASIDE and os.path.join(place, f) != walked)
            steps = len(Path(os.path.relpath(place, folder)).parts)
            for name in sorted(files):
                path = os.path.join(place, name)
                if name.casefold().endswith(endings) and path != file and _is_small(path):
                    tests = any(_TESTS.match(part) for part in Path(os.path.relpath(path, top)).parts)
                    found.append((tests, steps, path))
            if len(found) > FILES:
                break
        walked = str(top)
    return tuple(path for _, _, path in sorted(found)[:FILES])


def _is_small(path: str) -> bool:
    """Whether it is a file, no line that nobody writes to and no link that leads nowhere, and not too large to be read."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST


def imported_file(path: str, module: str) -> str:
    """The path of a module beside another file, or in a folder above it; empty for none."""
    places = (folder.joinpath(*module.split(".")).with_suffix(".py") for folder in list(Path(path).parents)[:LEVELS])
    return next((str(found) for found in places if found.is_file()), "")


__all__ = ["LEVELS", "beside", "imported_file"]
