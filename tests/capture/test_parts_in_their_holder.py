"""A class that is named and does not build alone: it is looked at where a model of its file holds it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from screen.capture.build.build import Built, build
from screen.capture.build.needs import Needs
from screen.command import cli
from screen.graph.target import parse

SOURCE = """
import torch
from torch import nn


class Settings:
    def __init__(self, dim=32, layers=5):
        self.dim, self.layers, self.kept = dim, layers, object()


class Block(nn.Module):
    def __init__(self, cfg, place, kept):
        super().__init__()
        assert kept is cfg.kept
        self.norm = nn.LayerNorm(cfg.dim) if place else nn.Identity()
        self.up, self.down = nn.Linear(cfg.dim, 2 * cfg.dim), nn.Linear(2 * cfg.dim, cfg.dim)

    def forward(self, x, turn):
        return x + self.down(torch.relu(self.up(self.norm(x))) * turn)


class Stack(nn.Module):
    def __init__(self, cfg=None):
        super().__init__()
        cfg = cfg or Settings()
        self.table = nn.Embedding(100, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg, place, cfg.kept) for place in range(cfg.layers))
        self.final = nn.LayerNorm(cfg.dim)
        for block in self.blocks:
            nn.init.zeros_(block.down.weight)

    def forward(self, ids):
        x = self.table(ids)
        turn = torch.linspace(0.5, 1.0, ids.shape[1])[:, None]
        for block in self.blocks:
            x = block(x, turn)
        return self.final(x)
"""


def built(tmp_path: Path, source: str = SOURCE, **settings: object) -> Built:
    path = tmp_path / "model.py"
    path.write_text(source)
    [found] = build(parse(f"{path}::Block"), set=settings, inputs=(), depth=None)
    return found


def test_it_is_one_of_the_form_that_most_have_and_starts_as_there(tmp_path: Path) -> None:
    b = built(tmp_path)
    assert b.info.block and (b.entry, b.part) == ("Stack", "blocks.1")
    assert b.info.notes[0] == "`Block` does not build alone: it is `blocks.1` of `Stack`, which has 4 of this form and 1 of others"
    assert b.info.parameters == 2 * 32 + 2 * 32 * 64 + 64 + 32 < b.around
    assert [call.op for call in dict(b.initialisers)["down.weight"]][-1] == "zero_"


def test_what_stands_beside_the_stream_is_what_arrives(tmp_path: Path) -> None:
    b = built(tmp_path)
    assert "the inputs are those that arrive at it in `Stack`" in b.info.notes
    assert tuple(b.args[1].shape) == (b.args[0].shape[1], 1)


@pytest.mark.by_the_day
def test_it_is_run_with_weights_as_the_model_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "model.py::Block", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)["spot_check"]
    assert found["ran"] and found["compared"] > 0 and not found["refuted"] and found["reason"] == ""


def test_settings_that_are_stated_are_for_the_part_alone(tmp_path: Path) -> None:
    with pytest.raises(Needs):
        built(tmp_path, place=1)


def test_where_no_model_holds_it_the_message_says_what_it_needs(tmp_path: Path) -> None:
    source = SOURCE.replace("Block(cfg, place, cfg.kept) for place", "nn.Linear(32, 32) for place").replace("block.down.weight", "block.weight")
    with pytest.raises(Needs, match="place"):
        built(tmp_path, source)
