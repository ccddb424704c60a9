"""A file whose whole model is no class: a function puts its classes into a container of torch."""

from __future__ import annotations


import sys
from pathlib import Path

import pytest

from screen.capture.build.needs import Needs
from tests.capture.public_files import HEAD, Write, built, runs, writing

write = pytest.fixture(writing)

PARTS = """
class Skip(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)

class Mixer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(torch.tanh(self.up(self.norm(x))))
"""
JOINED = """
def tower(*, width, rows, depth):
    layers = nn.Sequential(nn.Embedding(rows, width), *[Skip(Mixer(width, 3 * width)) for _ in range(depth)], nn.LayerNorm(width))
    nn.init.normal_(layers[0].weight, std=0.02)
    return layers
"""


def test_a_function_that_joins_the_classes_of_a_file_is_its_model(write: Write) -> None:
    path = write(PARTS + JOINED + '\nif __name__ == "__main__":\n    tower(width=32, rows=100, depth=3)(torch.zeros(1, 8).long())\n')
    (one,) = built(path)
    assert runs(one) and [type(m).__name__ for m in one.model].count("Skip") == 3


def test_a_readme_says_what_such_a_function_is_given(write: Write) -> None:
    path = write(PARTS + JOINED)
    text = f"```python\nfrom {path.stem} import tower\n\nnet = tower(width=32, rows=100, depth=5)\n```\n"
    (path.parent / "README.md").write_text(text)
    (one,) = built(path)
    assert runs(one) and [type(m).__name__ for m in one.model].count("Skip") == 5


def test_where_nobody_gives_its_arguments_the_message_names_the_whole_and_no_part(write: Write) -> None:
    with pytest.raises(Needs) as raised:
        built(write(PARTS + JOINED))
    assert "::tower --set width=512" in str(raised.value) and "depth=6" in str(raised.value)


def test_a_function_that_joins_some_of_the_classes_alone_is_none(write: Write) -> None:
    head = "\nclass Net(nn.Module):\n    def __init__(self, width=32):\n        super().__init__()\n        self.first = Skip(Mixer(width, 8))\n"
    run = "\n    def forward(self, x):\n        return self.first(x)\n"
    path = write(PARTS + head + run + "\ndef two(width=16):\n    return nn.Sequential(Skip(Mixer(width, 8)), Mixer(width, 8))\n")
    assert [one.entry for one in built(path)] == ["Net"]


def test_a_package_that_ends_in_an_error_keeps_the_modules_that_it_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net_of_halves").mkdir()
    end = 'raise ImportError("needs another version")\n'
    (tmp_path / "net_of_halves" / "__init__.py").write_text(f"from net_of_halves.parts import Net\n{end}")
    text = "import no_such_package_at_all\n" + HEAD.partition("\n")[2] + PARTS
    text += "import net_of_halves\n\nclass Net(nn.Module):\n    def __init__(self, width=24, kind='Mixer'):\n        super().__init__()\n"
    text += "        self.first, self.second = (Skip(getattr(net_of_halves.parts, kind)(width, 48)) for _ in range(2))\n\n"
    (tmp_path / "net_of_halves" / "parts.py").write_text(text + "    def forward(self, x):\n        return self.second(self.first(x))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert [one.entry for one in built(tmp_path / "net_of_halves" / "parts.py")] == ["Net"]
    finally:
        for name in [n for n in sys.modules if n.startswith("net_of_halves")]:
            del sys.modules[name]
