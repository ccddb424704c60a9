"""A forward that meta cannot run, because it reads numbers of the data, is traced with the values of real weights beside meta."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from screen.capture.build.build import build
from screen.capture.build.built import Built
from screen.capture.trace.tracer import trace
from screen.child import beside as room
from screen.child.beside import beside, wants_values, with_values
from screen.child.protocol import Request
from screen.child.real import real_loop
from screen.child.run import run
from screen.facts import derive
from screen.graph import Graph
from screen.graph.target import parse
from screen.pipeline.spot import spot_plan, spot_request
from screen.probe.measure.leaves import Watch
from screen.probe.spot import spot_check

ROUTED = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, d=64, depth=3):
        super().__init__()
        self.embed, self.router, self.norm = nn.Embedding(50, d), nn.Linear(d, 1), nn.LayerNorm(d)
        self.maps = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        kept = self.router(x)[..., 0] > 0
        count = int(torch.histc(kept.float(), 2)[1])
        x = x[kept].view(1, count, x.shape[-1])
        {}
        for linear in self.maps:
            x = x + linear(self.norm(x))
        return x
"""
"""As many tokens as a router picks, which no guess says: that of a histogram is not known to count what the mask picks."""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["screen"])
    path = list(sys.path)

    def captured(line: str, name: str) -> tuple[Built, Graph, Built, Graph]:
        (tmp_path / f"{name}.py").write_text(ROUTED.format(line))
        (built,) = build(parse(f"{name}.py"), set={}, inputs=("ids=int64[2,16]",), depth=None)
        failed = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
        return (built, failed, *beside(Request(f"{name}.py"), built, failed))

    yield captured
    sys.path[:] = path


def test_values_of_real_weights_stand_beside_meta(target: Any) -> None:
    built, failed, found, graph = target("", "routed")
    assert failed.failure is not None and graph.failure is None
    assert found.info.parameters == built.info.parameters
    assert "traced with weights on the CPU, at its own sizes" in found.info.notes[-1]
    kept = next(n for n in graph.nodes if n.op == "view")
    assert kept.shape is not None and 0 < kept.shape[1] < 32
    assert not graph.ranges, "a value that hangs on weights is no number of the program"
    assert graph.guesses and not any(g.decides for g in graph.guesses)


def test_the_spot_check_runs_what_was_narrowed(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ROOM", 4 * 8000)
    built, _, found, graph = target("", "looked_at")
    assert found.info.weights == "real" and built.info.weights == "meta"
    asked = Request("looked_at.py", inputs=("ids=int64[2,16]",))
    facts = derive(graph, is_block=False)
    again = with_values(asked, built)
    seen = spot_check(spot_plan(facts), again, Watch(), partial(real_loop, asked, again))
    assert not seen["reason"] and seen["replayed"] is True and seen["streams"][0]["rms"]
    assert spot_check(spot_plan(facts), built, Watch(), partial(real_loop, asked, built))["reason"]
    request = spot_request(asked, {"looked_at.py": spot_plan(facts)}, ("looked_at.py",))
    assert Request.from_json(request.to_json()).beside == ("looked_at.py",)


def test_what_hangs_on_the_draw_decides(target: Any) -> None:
    _, _, _, graph = target("for _ in range(count): x = torch.relu(x)", "looping")
    assert graph.failure is None and all(g.decides for g in graph.guesses)


def test_a_failure_of_another_kind_stands(target: Any) -> None:
    built, failed, found, graph = target("raise RuntimeError('no')", "raising")
    assert found is built and graph is failed


def test_a_large_model_is_narrowed_and_says_so(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ROOM", 4 * 8000)
    _, _, found, graph = target("", "narrowed")
    assert graph.failure is None and found.info.changed["d"] == [64, 32] and len(found.model.maps) == 3  # type: ignore[arg-type]
    assert found.info.notes[-1].endswith("narrowed: `d` is 32 here, and 64 in the target")


CHOSEN = """
import torch
from torch import nn


class Chosen(nn.Module):
    def __init__(self, d=64, n=4):
        super().__init__()
        self.score, self.parts = nn.Linear(d, n), nn.ModuleList(nn.Linear(d, d) for _ in range(n))

    def forward(self, x):
        rows = x.flatten(0, 1)
        share, place = self.score(rows).softmax(-1).topk(2)
        made = torch.zeros_like(rows)
        for number in place.unique().tolist():
            here = (place == number).any(-1)
            if not here.any():
                continue
            made[here] += (share * (place == number)).sum(-1, keepdim=True)[here] * self.parts[number](rows[here])
        return made.view_as(x)


class Net(nn.Module):
    def __init__(self, d=64, depth=3):
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, d), nn.LayerNorm(d)
        self.layers = nn.ModuleList(Chosen(d) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return x
"""


def test_parts_that_a_guess_leaves_out_run_with_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["screen"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "chosen.py").write_text(CHOSEN)
    target = f"{tmp_path / 'chosen.py'}::Net"
    (built,) = build(parse(target), set={}, inputs=("ids=int64[2,16]",), depth=None)
    left = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    assert left.failure is None and left.uncalled and wants_values(left)
    found, graph = beside(Request(target), built, left)
    assert graph.failure is None and not graph.uncalled and not wants_values(graph)
    assert "leaves out parts of the model without them" in found.info.notes[-1]
    (stream,) = derive(graph).streams
    assert stream.depth == 3 and {s.role for kind in stream.kinds for s in kind.sublayers} == {"moe"}


def test_a_forward_that_asks_for_training_is_judged_as_in_training_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["screen"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    asking = "x = x + layer(self.norm(x))\n            x = self.norm(x) if self.training else x"
    (tmp_path / "asks.py").write_text(CHOSEN.replace("x = x + layer(self.norm(x))", asking))
    frames: list[bytes] = []
    run(Request(f"{tmp_path / 'asks.py'}::Net", inputs=("ids=int64[2,16]",)), frames.append)
    said = b"".join(frames)
    assert b"judged as in training" in said and b"traced with weights on the CPU" not in said
