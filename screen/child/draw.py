"""What a program may get otherwise from run to run without anybody's word: random numbers that nobody seeded, and the order of objects in a set.

Draw 0 is that of every capture. Another one has other random numbers, and objects at other places in memory, which a set is ordered by. torch begins
every process with one seed, which is the same in every draw. Words in a set have one order in an interpreter: a draw with another one needs another
interpreter, which takes as long as importing torch, and is for code that may ask (`hashes`)."""

from __future__ import annotations

import ast
import contextlib
import os
import random
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PLACES, WORDS = 1, 2
"""A draw with other places in memory, and one with another order of words besides."""
LONGEST = 1 << 20
"""Bytes of a file that is looked into."""
INSTALLED = re.compile(r"[/\\\\](?:site|dist)-packages[/\\\\]")
"""In the path of an installed file."""
THINGS = 20_000
"""Objects that are made and mostly ended in a mixed order, so that later ones take their places in that order."""
KEPT = 7
"""One of so many stays."""
_kept: list[Any] = []


class _Thing:
    """As large as a module: objects of Python classes are of one size."""


def draw(number: int) -> None:
    """Make this process one of that draw."""
    random.seed(number)
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed(number)
    if number:
        things = [_Thing() for _ in range(THINGS)]
        random.Random(number).shuffle(things)
        _kept.extend(things[::KEPT])
        while things:
            things.pop()


def hashes(files: Iterable[str]) -> bool:
    """Whether a Python file that is not installed may ask for the hash of a word, or for the order of a set that it makes.

    Whether something is in a set is no such question."""
    for file in files:
        with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError):
            if INSTALLED.search(file) or not os.path.isfile(file) or os.path.getsize(file) > LONGEST:
                continue
            tree = ast.parse(Path(file).read_bytes())
            asked = {id(right) for node in ast.walk(tree) if isinstance(node, ast.Compare) for right in node.comparators}
            if any(_makes_one(node) and id(node) not in asked for node in ast.walk(tree)):
                return True
    return False


def _makes_one(node: ast.AST) -> bool:
    named = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return isinstance(node, ast.Set | ast.SetComp) or named in ("set", "frozenset", "hash")


__all__ = ["INSTALLED", "PLACES", "WORDS", "draw", "hashes"]
