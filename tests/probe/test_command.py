"""`screen probe`, `screen check --probe` and `screen.check(probe=True)`: outcomes, exit codes, formats, and what is left as it was."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import screen
from screen.child.protocol import Request
from screen.command.cli import main
from screen.pipeline import stages as pipeline
from screen.probe.plan import from_facts as plan
from screen.report import render
from tests.probe.common import turned
from tests.shared import ROOT

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]

PRE = str(ROOT / "examples" / "pre.py")
SIZES = {"n_layer": 2, "n_embd": 32, "vocab_size": 64, "block_size": 32}
SMALL = [PRE, "--device", "cpu", *(word for name, value in SIZES.items() for word in ("--set", f"{name}={value}"))]
"""Each command starts a process of its own and measures all there is."""


def out_of(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(argv)
    return code, capsys.readouterr().out


def test_probe_confirms(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = out_of(["probe", *SMALL], capsys)
    assert code == 0 and "confirmed" in text and "REFUTED" not in text and "on cpu" in text


def test_probe_as_json_is_the_report_with_measured_degrees(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = out_of(["probe", *SMALL, "--format", "json", "--seed", "3"], capsys)
    report = json.loads(text)
    assert code == 0 and report["probe"]["seed"] == 3 and report["probe"]["dtype"] == "float64"
    degrees = report["streams"][0]["kinds"][0]["sublayers"][0]["degrees"]
    assert {d["measured"] for d in degrees.values() if d["status"] == "exact"} == {1.0}
    agreed = {e["agrees"] for e in report["probe"]["experiments"] if e["outcome"] == "confirmed"}
    assert agreed == {True}


def test_check_shows_the_probe_and_the_same_command_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said, files = [], [tmp_path / f"report.{name}" for name in ("json", "markdown")]
    for _ in range(2):
        code, text = out_of(["check", *SMALL, "--probe", *(w for f in files for w in ("--report", f"{f.suffix[1:]}={f}"))], capsys)
        said.append((code, text, *(f.read_text(encoding="utf-8") for f in files)))
    assert said[0] == said[1] and said[0][0] == 0
    without = screen.check(PRE, set=SIZES, isolate=False)
    for name, with_it in (("text", said[0][1]), ("markdown", said[0][3])):
        assert "invariance" in with_it and "c_proj.weight" in with_it and "invariance" not in render(without, name)


def test_a_refuted_prediction_makes_the_verdict_unknown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pipeline, "plan_of", lambda facts, recipe: turned(plan.plan_of(facts, recipe), 1.0))
    code, text = out_of(["check", *SMALL, "--probe"], capsys)
    assert code == 2 and text.startswith("unknown") and "refuted" in text
    code, text = out_of(["probe", *SMALL], capsys)
    assert code == 1 and "REFUTED" in text


NORMED_SKIP = """
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        x = self.norm(x)
        return x + self.down(nn.functional.gelu(self.up(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.LayerNorm(16)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)
"""


def test_probe_is_a_gate_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--fail-on`, a baseline, chosen rules, and a report that another tool reads, beside what was measured."""
    (tmp_path / "model.py").write_text(NORMED_SKIP)
    monkeypatch.chdir(tmp_path)
    common = ["probe", "model.py::Model", "--device", "cpu", "--probe-seconds", "1"]
    assert main(common) == 0
    assert main([*common, "--fail-on", "slip", "--report", "sarif=new/r.sarif"]) == 1
    told = capsys.readouterr()
    assert "exit 1: G101 violated (--fail-on slip)" in told.err and "confirmed" in told.out
    found = json.loads((tmp_path / "new/r.sarif").read_text())["runs"][0]["results"]
    assert "G101" in {one["ruleId"] for one in found}
    assert main([*common, "--fail-on", "slip", "--ignore", "G101"]) == 0
    assert main([*common, "--baseline", "known.json", "--update-baseline"]) == 0
    assert main([*common, "--baseline", "known.json"]) == 0 and "known finding" in capsys.readouterr().err


def test_two_targets_are_measured_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("one.py", "two.py")]
    for file in files:
        file.write_text(NORMED_SKIP)
    argv = [*(f"{file}::Model" for file in files), "--device", "cpu", "--probe-seconds", "1", "-q"]
    code, text = out_of(["probe", *argv, "-j", "2"], capsys)
    assert code == 0 and [line.split(": ")[0].split("/")[-1] for line in text.splitlines()] == ["one.py::Model", "two.py::Model"]
    assert (code, text) == out_of(["probe", *argv], capsys) and text.count("confirmed") == 2


def test_a_probe_that_is_cut_off_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = pipeline.probe_request

    def late(request: Request, *rest: Any) -> Request:
        return replace(real(request, *rest), timeout=0.05)

    monkeypatch.setattr(pipeline, "probe_request", late)
    code, text = out_of(["probe", *SMALL], capsys)
    assert code == 2 and "interrupted" in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["probe"], ["check", "--probe"]):
        assert main([*command, PRE, "--device", "cuda"]) == 2 and "GPU" in capsys.readouterr().err


def test_a_target_that_does_not_load(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = out_of(["probe", "nowhere.py"], capsys)
    assert code == 2


class Block(nn.Module):
    """A pre-norm feed-forward block with a bias of its own value."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.up, self.down = nn.Linear(24, 96), nn.Linear(96, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def test_a_live_model_and_the_random_state_are_left_alone() -> None:
    torch.manual_seed(5)
    model = Block().train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    kept = torch.random.get_rng_state()
    states = random.getstate(), torch.get_num_threads(), torch.is_grad_enabled()
    report = screen.check(model, probe=True)
    assert report.probe is not None and {e.outcome for e in report.probe.experiments} <= {"confirmed", "observed", "not_measured", "not_applicable"}
    assert any(e.outcome == "confirmed" for e in report.probe.experiments)
    assert torch.equal(kept, torch.random.get_rng_state())
    assert states == (random.getstate(), torch.get_num_threads(), torch.is_grad_enabled())
    assert model.training and all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_a_live_model_is_measured_with_its_own_weights() -> None:
    """An output weight of zero is the model's, not what an initialiser would have drawn."""
    model = Block()
    nn.init.zeros_(model.down.weight)
    report = screen.check(model, probe=True)
    assert report.probe is not None
    assert {e.outcome for e in report.probe.experiments if e.name == "invariance"} == {"not_applicable"}


class Squared(nn.Module):
    """B after a squared ReLU: the output bias follows the first weight with power 2."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(24, 96), nn.Linear(96, 24), nn.LayerNorm(24, eps=1e-12)
        for bias in (self.up.bias, self.down.bias):
            nn.init.normal_(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.norm(self.down(torch.relu(self.up(x)).square()))


def test_biases_are_scaled_along_with_their_powers() -> None:
    report = screen.check(Squared(), probe=True)
    assert report.probe is not None
    found = {e.group: (e.outcome, e.predicted) for e in report.probe.experiments if e.name == "invariance"}
    assert found == {"up.weight": ("confirmed", 0.0), "down.weight": ("confirmed", 0.0)}
