"""What kept public files of a thirteenth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.capture.public_files import Write, built, runs, writing

write = pytest.fixture(writing)

SCRIPT = """
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(rows, width)

    def forward(self, ids):
        return self.rows(ids) * scaled(width)

def scaled(width):
    return factor / width

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.maps = Table(), nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.maps:
            x = x + layer(x)
        return x

def evaluated():
    return net(data)

if __name__ == "__main__":
    words = {"a": 0}
    for place, word in enumerate("b c d".split()):
        words[word] = place + 1
    counted = []
    counted.append(len(words))
    rows, width = counted[0], 16
    depth, factor = 3, 2.0
    data = open("/nowhere/at/all")
    net = Net()
    depth = 30
    net(data).backward()
"""


def test_sizes_that_only_a_script_has_are_those_of_its_main_block(write: Write) -> None:
    (one,) = built(write(SCRIPT))
    assert runs(one) and one.model.table.rows.weight.shape == (4, 16) and len(one.model.maps) == 3  # type: ignore[union-attr, arg-type]
    (said,) = [note for note in one.info.notes if "__main__" in note]
    assert said.startswith("`depth`, `factor`, `rows`, `width`: as its `__main__` has them") and "words" not in said


def test_what_no_class_reads_of_a_main_block_is_not_run(write: Write, tmp_path: Path) -> None:
    text = SCRIPT.replace("depth, factor = 3, 2.0", f"depth, factor = 3, 2.0\n    torch.save([], {str(tmp_path / 'written')!r})\n    alone = open({str(tmp_path / 'made')!r}, 'w')")
    (one,) = built(write(text))
    assert runs(one) and not (tmp_path / "written").exists() and not (tmp_path / "made").exists()


FRAMES = """
class Video(nn.Module):
    def __init__(self, width=32, frames={frames}, side=16):
        super().__init__()
        self.cut = nn.Conv2d(4, width, 4, 4)
        self.places = nn.Parameter(torch.zeros(1, (side // 4) ** 2, width))
        self.times = nn.Parameter(torch.zeros(1, frames, width))
        self.step = nn.Linear(1, width)

    def forward(self, x, t):
        b, f, c, h, w = x.shape
        x = self.cut(x.reshape(b * f, c, h, w)).flatten(2).mT + self.places
        moved = self.step(t.float()[:, None]).unsqueeze(1).repeat(1, self.times.shape[1], 1).flatten(0, 1)
        return x * moved.unsqueeze(1)
"""


@pytest.mark.parametrize("frames", [7, 16])
def test_frames_that_are_laid_along_the_batch_are_as_many_as_a_table_has(write: Write, frames: int) -> None:
    (one,) = built(write(FRAMES.format(frames=frames)))
    assert runs(one) and isinstance(one.args[0] if one.args else one.kwargs["x"], torch.Tensor)
    assert (one.args or tuple(one.kwargs.values()))[0].shape[1] == frames
