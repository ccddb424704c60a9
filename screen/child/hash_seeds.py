"""What a program may get otherwise by the hashes of words, which Python draws anew for every interpreter: the order of a set, and `hash` itself.

Words have one order in an interpreter. A capture with another one needs another interpreter, which takes as long as importing torch, and is for code
that may ask (`draws`). Every interpreter of ours has a seed that is said (`PYTHONHASHSEED`), so that a file is judged alike in every run: 0 in that
of the first capture, `other_seed` in that of a second, `seed_of` where nothing of ours is.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import importlib.machinery
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from screen.child.bytecode import installed
from screen.child.draw import INSTALLED

LONGEST = 1 << 20
"""Bytes of a file that is looked into."""
TRIED = 12
"""Seeds that are tried at most, some 15 ms each."""
PATIENCE = 5.0
"""Seconds for each."""
SIX_DIGITS = 100_000
"""As long as `random`, which a user's own environment may say in its place."""
MOST = 200
"""Sets and words that are looked at."""
ORDERS = "import json,sys;s,w=json.loads(sys.argv[1]);print(json.dumps([[list(set(one)) for one in s],[hash(one)&1 for one in w]]))"
"""What an interpreter prints of sets of words, and of words."""


def draws(files: Sequence[str]) -> tuple[tuple[int, bool], ...]:
    """What captures besides the first one have: the seed of the interpreter, and whether `hash` is turned (`turn`).

    One that is as the first where no Python file that is not installed makes a set or asks for a hash. Whether something is in a set is no such
    question. A turned hash is asked of the first one's interpreter: in another one half of all questions would be answered alike again."""
    sets = called = False
    for tree in _trees(files):
        asked = {id(right) for node in ast.walk(tree) if isinstance(node, ast.Compare) for right in node.comparators}
        sets |= any(_makes_one(node) and id(node) not in asked for node in ast.walk(tree))
        called |= any(isinstance(node, ast.Name) and node.id == "hash" for node in ast.walk(tree))
    return (*[(other_seed(files), False)] * sets, *[(0, True)] * called) or ((0, False),)


def other_seed(files: Iterable[str]) -> int:
    """A seed, not 0, with which sets of words that are written in some files have another order than with 0, and words whose `__hash__` is asked
    another last bit: the first that changes all of them, or most."""
    sets: list[list[str]] = []
    words: list[str] = []
    for tree in _trees(files):
        for node in ast.walk(tree):
            sets += [list(found)] if len(found := _written(node)) > 1 else []
            words += [word] if (word := _hashed(node)) else []
    asked = json.dumps([sets[:MOST], words[:MOST]])
    plain = _orders(asked, 0) if sets or words else None
    if plain is None:
        return 1
    best = (-1, 0)
    for seed in range(1, TRIED + 1):
        other = _orders(asked, seed) or plain
        changed = sum(a != b for one, two in zip(plain, other, strict=True) for a, b in zip(one, two, strict=True))
        best = max(best, (changed, -seed))
        if changed == len(plain[0]) + len(plain[1]):
            break
    return -best[1]


def seed_of(file: str | None) -> int:
    """The seed that follows from what a file says: nobody's choice, and the same in every run."""
    text = b""
    with contextlib.suppress(OSError, ValueError), open(file or "", "rb") as opened:
        text = opened.read(LONGEST)
    return SIX_DIGITS + int.from_bytes(hashlib.sha256(text).digest()[:3], "big")


def turn() -> None:
    """From here on `hash`, in modules that are not installed, gives another number for all that has another one in another interpreter."""
    load = importlib.machinery.SourceFileLoader.exec_module
    own = {**vars(builtins), "hash": other_hash}
    roots = installed()

    def exec_module(loader: importlib.machinery.SourceFileLoader, module: ModuleType) -> None:
        if not os.path.abspath(loader.path).startswith(roots):
            vars(module).setdefault("__builtins__", own)
        load(loader, module)

    importlib.machinery.SourceFileLoader.exec_module = exec_module  # type: ignore[assignment,method-assign]


def other_hash(value: object, /) -> int:
    """The hash of a value as another interpreter might give it: where it follows from a word or from a place in memory every bit is turned, and
    questions that one bit answers are answered otherwise. Equal values have equal ones."""
    return ~hash(value) if _varies(value) else hash(value)


def _varies(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_varies, value))
    return isinstance(value, str | bytes | None) or type(value).__hash__ is object.__hash__


def _orders(asked: str, seed: int) -> list[list[Any]] | None:
    """What an interpreter with a seed says of sets and words; None where it says nothing."""
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        command = [sys.executable, "-P", "-S", "-c", ORDERS, asked]
        done = subprocess.run(command, env={"PYTHONHASHSEED": str(seed)}, capture_output=True, timeout=PATIENCE, check=True)
        found: list[list[Any]] = json.loads(done.stdout)
        return found
    return None


def _trees(files: Iterable[str]) -> Iterator[ast.Module]:
    """What files that are not installed say."""
    for file in files:
        with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError):
            if not INSTALLED.search(file) and os.path.isfile(file) and os.path.getsize(file) <= LONGEST:
                yield ast.parse(Path(file).read_bytes())


def _makes_one(node: ast.AST) -> bool:
    named = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    method = isinstance(node, ast.Attribute) and node.attr == "__hash__"
    return method or isinstance(node, ast.Set | ast.SetComp) or named in ("set", "frozenset")


def _written(node: ast.AST) -> dict[str, None]:
    """The words of a set, or of a list, a tuple or a table that one may be made of, in their order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset") and node.args:
        return dict.fromkeys(word) if isinstance(word := getattr(node.args[0], "value", None), str) else {}
    parts = node.elts if isinstance(node, ast.Set | ast.List | ast.Tuple) else node.keys if isinstance(node, ast.Dict) else []
    return dict.fromkeys(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def _hashed(node: ast.AST) -> str:
    """The word whose `__hash__` is asked."""
    asked = node.value if isinstance(node, ast.Attribute) and node.attr == "__hash__" else None
    return asked.value if isinstance(asked, ast.Constant) and isinstance(asked.value, str) else ""


__all__ = ["draws", "other_hash", "other_seed", "seed_of", "turn"]
