"""A copy of the sources in which one place is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copied(folder: Path, ignored: tuple[str, ...] = ("__pycache__",), parts: tuple[str, ...] = ("screen", "rules", "tests")) -> Path:
    """Parts of the repository in `folder`: the sources and the tests."""
    for part in parts:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns(*ignored))
        else:
            shutil.copy2(ROOT / part, folder / part)
    return folder


def replaced(path: Path, old: str, new: str) -> None:
    """Changes the one place where `old` stands."""
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"`{old}` stands {text.count(old)} times in {path.name}")
    path.write_text(text.replace(old, new), encoding="utf-8")


__all__ = ["ROOT", "copied", "replaced"]
