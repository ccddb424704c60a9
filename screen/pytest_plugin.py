"""Fixtures for the tests of a user's models; they load nothing before one is asked for.

    def test_block(screen):
        screen.check(Block()).assert_stable()
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(name="screen", scope="session")
def _screen() -> ModuleType:
    """The package: `screen.check(target)` gives a report, which has `assert_stable()` and `assert_no_slips()`."""
    import screen

    return screen


@pytest.fixture(scope="session")
def screen_check() -> Callable[..., Any]:
    """`screen.check` alone."""
    from screen.api import check

    return check
