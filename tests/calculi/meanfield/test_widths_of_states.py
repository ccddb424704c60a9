"""States of one stream that are not equally wide, and features that stand in two axes: what the recursion says of them where it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

import screen

SOURCE = """
import torch
from torch import nn

WIDTH = 24


class Block(nn.Module):
    def __init__(self, width, filtered):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.filter = nn.Conv1d(width // 4, width // 4, 3, padding=1, groups=width // 4) if filtered else None

    def forward(self, x):
        h = self.first(x)
        b, n, d = h.shape
        q, k, v = (m(h).view(b, n, 4, d // 4).transpose(1, 2) for m in (self.q, self.k, self.v))
        if self.filter is not None:
            q = self.filter(q.permute(0, 1, 3, 2).reshape(b * 4, d // 4, n)).reshape(b, 4, d // 4, n).permute(0, 1, 3, 2)
        a = torch.softmax(q @ k.mT * (d // 4) ** -0.5, -1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.down(torch.relu(self.up(self.second(x))))


class Net(nn.Module):
    def __init__(self, filtered):
        super().__init__()
        wide = WIDTH if filtered else 2 * WIDTH
        self.words, self.middle = nn.Embedding(50, WIDTH), None if filtered else nn.Linear(WIDTH, WIDTH)
        self.before, self.behind = Block(WIDTH, filtered), Block(wide, filtered)
        self.last, self.head = nn.LayerNorm(wide), nn.Linear(wide, 50)

    def forward(self, ids):
        x = self.before(self.words(ids))
        if self.middle is not None:
            x = torch.cat([torch.tanh(self.middle(x)), x], -1)
        return self.head(self.last(self.behind(x)))


def build_model():
    return Net({filtered})


example_inputs = {{"ids": torch.ones(2, 16, dtype=torch.int64)}}
"""
"""A block, and one behind features that are laid beside the first ones; or two whose queries pass a filter over time, of each head alone."""


@pytest.mark.parametrize(("filtered", "wanted"), [(False, "changes how its entries are distributed"), (True, "of each head")])
def test_a_narrower_state_has_its_features_last(tmp_path: Path, filtered: bool, wanted: str) -> None:
    """24 features before a `cat`, 48 behind: no weight acts over tokens. A filter of each head runs over time, not over features."""
    file = tmp_path / "model.py"
    file.write_text(SOURCE.format(filtered=filtered))
    report = screen.check(str(file), spot_check=False)
    said = " ".join(f.message for f in report.findings if f.code == "I202")
    assert wanted in said and "over tokens" not in said and "over features" not in said
