"""Where the data stands that tests share with other work and that is not part of this repository."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
SHARED = ROOT.parent / "shared"


def shared(*parts: str) -> Path:
    """The path of a shared file; skips the calling test, with the reason, where it does not exist."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs `../shared/{'/'.join(parts)}` beside the repository, which is not there", allow_module_level=True)
    return path
