"""A fresh interpreter in place of this process, in which nothing of ours is: neither modules, nor a stack, nor words on its command line or in its
environment. What holds this process (`screen.child.sandbox`, limits) holds that one too; what it finds comes on the same line.

It tells a file that asks whether it is judged as little as can be had; that it has no network, and files that it may not write, is there to be seen.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NoReturn

from screen.capture.trace import dropouts
from screen.child import bytecode
from screen.child.hash_seeds import seed_of
from screen.child.launch import safe_path
from screen.child.sandbox import CACHES

PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "probe", "second", "outside.py")
"""What is run."""
SEED = "PYTHONHASHSEED"


def become(orders: Mapping[str, Any], folder: str, line: int, own: Mapping[str, str | None]) -> NoReturn:
    """Run the program on its orders; this process is that one from here on. `folder`: where it may write; `line`: the file descriptor that frames are
    written to; `own`: variables that were set for this process, as the caller has them. Raises `OSError`."""
    place = tempfile.mkdtemp(dir=folder)
    number, script = tempfile.mkstemp(".py", dir=place)  # of no name that is known
    with open(PROGRAM, "rb") as file, open(number, "wb") as copy:
        copy.write(file.read())
    compiled, drops = (_text(module) for module in (bytecode, dropouts))
    os.set_inheritable(line := os.dup(line), True)  # the lowest number that is free
    told = {"orders": orders, "line": line, "path": safe_path(), SEED: own.get(SEED)}
    told |= {"compiled": compiled, "file": bytecode.__file__, "dropouts": drops}
    with open(os.path.join(place, "orders.json"), "w", encoding="utf-8", errors="surrogatepass") as file:
        json.dump(told, file)
    environment = {**{k: v for k, v in os.environ.items() if k not in own and k not in CACHES}, **{k: v for k, v in own.items() if v is not None}}
    environment |= {"TMPDIR": folder}
    if not str(own.get(SEED)).isdecimal():  # every interpreter has another one then, and a file would be judged otherwise in every run
        environment.pop(SEED, None)
        environment[SEED] = str(seed_of(next((order.get("file") for order in orders.values()), None)))  # the last, which the program takes out again
    os.execve(sys.executable, [sys.executable, script], environment)


def _text(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


__all__ = ["become"]
