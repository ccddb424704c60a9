"""What a run on a GPU needs, as far as it shows without one: all values on one device, torch's settings, memory, and words."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.backends import cudnn

from screen.capture.trace.tracer import run
from screen.errors import UsageError
from screen.probe.budget.budget import PART, RATES, Budget, device_of, room_of
from screen.probe.budget.narrower import is_lost
from screen.probe.measure import determinism as module
from screen.probe.measure.branch import branch_run
from screen.probe.measure.determinism import FIXED, WORKSPACE, settled
from screen.probe.measure.leaves import Material
from screen.probe.measure.replay import Tape, real_value
from screen.probe.measure.session import said
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import Experiment
from tests.probe.common import measured, planned
from tests.probe.zoo import small


@pytest.mark.by_the_day
@pytest.mark.parametrize("target", ["examples/pre.py", "examples/peri.py", "hf:gemma2", "hf:bart"])
def test_all_values_stand_on_the_device_of_the_run(target: str) -> None:
    """The meta device stands for one that is not the CPU: what is drawn, kept or read on the CPU and not moved cannot be used with it."""
    built, plan, watch = planned(target, **(small(target.removeprefix("hf:")) if target.startswith("hf:") else {}))
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    material = Material(Tape(trace, torch.float64, "meta"), built, watch, 0)
    for sublayer in plan.sublayers:
        branch = branch_run(sublayer, material)
        values = branch.values(branch.scaled(sublayer.degrees[0], 2.0) if sublayer.degrees else None)
        assert {v.device.type for v in values.values() if isinstance(v, Tensor)} == {"meta"}
        assert all(g.device.type == "meta" for found in branch.pulled({}, branch.directions(2, 0)) for g in found)
    for block in plan.blocks:
        stack = Stack(block, material)
        end = stack.run(material.normal(block.entry), stack.drawn(1))[block.exit]
        assert stack.finish(end).device.type == "meta"


def test_devices_that_a_program_names_are_those_of_the_run() -> None:
    assert real_value(torch.device("cpu"), "cuda") == torch.device("cuda") and real_value("cpu", "cuda") == "cuda"
    assert real_value("cuda:1", "cpu") == "cpu" and real_value("mean", "cuda") == "mean"


def test_torch_is_set_and_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKSPACE, raising=False)
    torch.set_float32_matmul_precision("medium")
    try:
        with settled("cpu", 0):
            assert torch.get_float32_matmul_precision() == "highest" and torch.get_num_threads() == 1 and not torch.is_grad_enabled()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    before = cudnn.allow_tf32
    with module._on_gpu():
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ[WORKSPACE] == FIXED and not cudnn.allow_tf32
    assert not torch.are_deterministic_algorithms_enabled() and WORKSPACE not in os.environ and cudnn.allow_tf32 == before


def test_a_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: "G100")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place: SimpleNamespace(total_memory=100))
    assert device_of("auto") == device_of("cuda") == ("cuda", "cuda: G100") and device_of("cpu")[0] == "cpu"
    assert room_of(8 << 30, "cuda") == PART * 100 and Budget(60, 0, "cuda").rate == RATES["cuda"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto")[0] == "cpu" and "no GPU" in device_of("auto")[1]
    with pytest.raises(UsageError):
        device_of("cuda")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), MemoryError(), RuntimeError("can't allocate memory: 9 bytes")])
def test_memory_that_is_not_there_asks_for_a_narrower_model(error: Exception) -> None:
    found = Experiment("depth", "", "not_measured", reason=said(error))
    assert is_lost(vars(found)) and not is_lost(vars(Experiment("depth", "", "not_measured", reason=said(RuntimeError("shape")))))


NOISY = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(d), nn.Linear(d, d)

    def forward(self, x):
        return x + self.map(self.norm(x)) * torch.rand(16)
"""


@pytest.mark.by_the_day
def test_what_a_program_draws_is_drawn_from_the_seed(tmp_path: Path) -> None:
    """Whatever the global random state is, which stays as it was."""
    (tmp_path / "noisy.py").write_text(NOISY)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        found.append([(e["what"], e["measured"]) for e in measured(f"{tmp_path / 'noisy.py'}::Model")])
        assert torch.equal(before, torch.random.get_rng_state())
    assert any(what.startswith("‖J‖") for what, _ in found[0]) and found[0] == found[1]
