"""Example inputs of a file have the values that it gives them, wherever it makes them: the file itself runs on meta, without values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from screen.capture.build.build import build
from screen.graph.target import parse

HEAD = """
import torch
from torch import nn

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.out = nn.Linear(8, 50)

    def forward(self, ids):
        return self.out(self.table(ids))

class Others(Words):
    pass

"""
FORMS = {
    "in its place": "example_inputs = (torch.randint(0, 50, (2, 16)),)",
    "a variable": "_IDS = torch.randint(0, 50, (2, 16))\nexample_inputs = {'Words': (_IDS,), 'Others': (_IDS,)}",
    "two variables": "_ALL = torch.randint(0, 50, (4, 16))\n_IDS = _ALL[:2]\nexample_inputs = (_IDS,)",
    "a pair": "_IDS, _REST = torch.randint(0, 50, (2, 16)), 3\nexample_inputs = (_IDS,)",
    "with a type": "_IDS: torch.Tensor = torch.randint(0, 50, (2, 16))\nexample_inputs: tuple = (_IDS,)",
    "changed": "_IDS = torch.zeros(2, 16, dtype=torch.long)\n_IDS[:] = torch.arange(32).reshape(2, 16)\nexample_inputs = (_IDS,)",
    "a generator": "_G = torch.Generator().manual_seed(3)\n_IDS = torch.randint(0, 50, (2, 16), generator=_G)\nexample_inputs = {'Words': (_IDS,)}",
    "a function": "_IDS = torch.randint(0, 50, (2, 16))\ndef example_inputs():\n    return (_IDS,)",
    "through a function": "_IDS = torch.randint(0, 50, (2, 16))\ndef some():\n    return _IDS\nexample_inputs = (some(),)",
    "a lambda": "_IDS = torch.randint(0, 50, (2, 16))\nexample_inputs = {'Words': lambda: (_IDS,)}",
    "updated": "_IDS = torch.randint(0, 50, (2, 16))\nexample_inputs = {'Others': (_IDS,)}\nexample_inputs.update(Words=(_IDS,))",
    "an item": "_IDS = torch.randint(0, 50, (2, 16))\nexample_inputs = {}\nexample_inputs['Words'] = (_IDS,)",
    "in a loop": "example_inputs = {}\nfor name in ('Words', 'Others'):\n    example_inputs[name] = (torch.randint(0, 50, (2, 16)),)",
    "seeded behind it": "_G = torch.Generator()\n_G.manual_seed(5)\n_IDS = torch.randint(0, 50, (2, 16), generator=_G)\nexample_inputs = (_IDS,)",
    "a list": "_PARTS = [torch.randint(0, 50, (1, 16)) for _ in range(2)]\nexample_inputs = lambda: (torch.cat(_PARTS),)",
}


def _ids(path: Path) -> torch.Tensor:
    [built] = build(parse(f"{path}:Words"), set={}, inputs=(), depth=None)
    [ids] = [*built.args, *built.kwargs.values()]
    assert isinstance(ids, torch.Tensor)
    return ids


@pytest.mark.parametrize("form", FORMS)
def test_values_of_the_file(form: str, tmp_path: Path) -> None:
    path = tmp_path / "words.py"
    path.write_text(HEAD + FORMS[form], encoding="utf-8")
    ids = _ids(path)
    assert ids.shape == (2, 16) and not ids.is_meta
    assert len(set(ids.flatten().tolist())) > 10, "0 and 1 in turn are values that were made up"
    assert torch.equal(ids, _ids(path)), "the same values at each call"


def test_what_cannot_be_made_again_keeps_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "words.py"
    path.write_text(HEAD + "size = 16\n_IDS = torch.randint(0, 50, (2, size))\ndel size\nexample_inputs = (_IDS,)", encoding="utf-8")
    ids = _ids(path)
    assert ids.shape == (2, 16) and set(ids.flatten().tolist()) == {0, 1}
