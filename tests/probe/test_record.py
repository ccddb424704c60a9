"""What initialisers are recorded to do, against models built with weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from screen.capture.build.build import build
from screen.child.protocol import Request
from screen.child.real import real
from screen.graph import Initialiser
from screen.graph.target import parse
from screen.probe.budget.budget import Budget
from screen.probe.experiments.initialisers import distance, recorded, sample
from screen.probe.plan.types import Experiment, Options

SMALL = {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 32}


def measured(target: str, settings: dict[str, Any], change: Any = lambda built: built, memory: int = 8 << 30) -> Experiment:
    """The one line, after a change to what was built on meta."""
    built = change(build(parse(target), set=settings, inputs=(), depth=None)[0])
    session: Any = SimpleNamespace(built=built, options=Options(device="cpu", seconds=1e6, memory=memory), budget=Budget(1e6, memory, "cpu"))
    return recorded(session, partial(real, Request(target=target, set=settings), built))[0]


@pytest.mark.by_the_day
@pytest.mark.parametrize("target", ["examples/pre.py", "examples/deepnorm.py", "examples/rezero.py", "examples/moe.py", "hf:gpt2"])
def test_records_are_true(target: str) -> None:
    found = measured(target, SMALL if target.startswith("hf:") else {})
    assert found.outcome == "confirmed" and found.numbers["weights"] > 8, found


def test_a_wrong_record_is_seen() -> None:
    def doubled(built: Any) -> Any:
        name, history = next((n, h) for n, h in built.initialisers if h[-1].op == "normal_")
        wrong = Initialiser("normal_", (0.0, 1.2 * float(history[-1].args[1])))
        return replace(built, initialisers=tuple((n, (wrong,) if n == name else h) for n, h in built.initialisers))

    found = measured("hf:gpt2", SMALL, doubled)
    assert found.outcome == "refuted" and "its record gives" in found.reason


def test_code_that_does_otherwise_on_meta_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "sly.py"
    file.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)\n"
        "        nn.init.normal_(self.down.weight, std=0.02 if 'Meta' in torch._C._dispatch_keys(self.down.weight).__repr__() else 0.2)\n\n"
        "    def forward(self, x):\n        return x + self.down(torch.relu(self.up(self.norm(x))))\n"
    )
    found = measured(f"{file}::Block", {})
    assert found.outcome == "refuted" and "`down.weight`" in found.reason


def test_what_does_not_fit_is_not_built() -> None:
    found = measured("hf:gpt2", {}, memory=1 << 30)
    assert found.outcome == "not_measured" and "--memory" in found.reason


def test_distances() -> None:
    g = torch.Generator().manual_seed(0)
    a, b = (sample(torch.randn(100, 100, generator=g)) for _ in range(2))
    assert distance(a, b) < 4
    assert distance(a, sample(1.2 * torch.randn(100, 100, generator=g))) > 10
    assert distance(a, sample(torch.randn(100, 100, generator=g) + 0.2)) > 10
    zero, one = sample(torch.zeros(5)), sample(torch.ones(5))
    assert distance(zero, zero) == distance(one, one) == 0 and distance(zero, one) == float("inf")
    assert distance(one, sample(torch.full((5,), 1.1))) > 6
