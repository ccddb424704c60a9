"""Files as their authors wrote them, for the tests of the first try: a folder to write them in, and what is built of them."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from screen.capture.build import launcher
from screen.capture.build.build import Built, build
from screen.capture.trace.tracer import trace
from screen.graph.target import parse

BASE = """
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, d=24, n=3, vocab=50):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.maps = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))

    def forward(self, ids):
        return self.body(self.embed(ids))

    def body(self, x):
        for linear, norm in zip(self.maps, self.norms):
            x = x + linear(norm(self.extra(x)))
        return x

    def extra(self, x):
        return x
"""
HEAD = "import torch\nfrom torch import nn\nfrom base_of_first_try import Base\n\n\n"


def writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes a file that is read from its folder, and gives its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["screen"])
    before, path, environ = set(sys.modules), list(sys.path), dict(os.environ)
    (tmp_path / "base_of_first_try.py").write_text(BASE)

    def writer(text: str, name: str = "model.py", head: str = HEAD) -> str:
        (tmp_path / name).write_text(head + textwrap.dedent(text))
        return name

    yield writer
    sys.path[:] = path
    for name in launcher.VARIABLES.keys() - environ.keys():
        os.environ.pop(name, None)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def built(target: str, *, inputs: tuple[str, ...] = (), **settings: Any) -> list[Built]:
    return build(parse(target), set=settings, inputs=inputs, depth=None)


def runs(b: Built) -> str:
    """Why its forward does not run; empty where it does."""
    failure = trace(b.model, b.args, b.kwargs).failure
    return failure.message if failure else ""
