"""An error without words, `raise KeyError`, is one more error of the program that is looked at, and none of ours."""

from __future__ import annotations

from pathlib import Path

from screen.api import check

BARE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, kinds=("no",)):
        super().__init__()
        self.kinds, self.map = kinds, nn.Linear(16, 16)

    def forward(self, x, y):
        for kind in self.kinds:
            if kind != "self":
                raise KeyError
            x = x + self.map(x)
        return x + y
"""


def test_a_bare_key_error_of_forward_is_told_as_its_own(tmp_path: Path) -> None:
    path = tmp_path / "bare.py"
    path.write_text(BARE, encoding="utf-8")
    report = check(str(path), isolate=False)
    assert "KeyError" in str(report.error), "the forward's own"
