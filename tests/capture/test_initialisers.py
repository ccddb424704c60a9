"""What constructors do to their weights, as laws; and libraries that load only with help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from screen.capture.initial.recorder import Recorder
from screen.graph import Initialiser

Law = list[tuple[str, tuple[object, ...]]]


STEPS = ("mul_", "div_", "add_", "sub_")


def law(make: Callable[[nn.Module], Any]) -> Law:
    """The record of the parameter `p` of a module whose constructor does `make`, from the last call on that set every entry."""
    steps = history(make)
    last = max((i for i, step in enumerate(steps) if step.whole and step.op not in STEPS), default=0)
    return [(step.op, tuple(round(a, 6) if isinstance(a, float) else a for a in step.args)) for step in steps[last:]]


def history(make: Callable[[nn.Module], Any]) -> tuple[Initialiser, ...]:
    """The whole record of the parameter `p`."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            made = make(self)
            if isinstance(made, nn.Parameter):
                self.p = made

    with torch.device("meta"), Recorder() as recorder:
        net = Net()
    return dict(recorder.of(net)).get("p", ())


def linear(act: Callable[[Any], Any]) -> Callable[[nn.Module], Any]:
    def make(net: nn.Module) -> Any:
        weight = nn.Linear(12, 3).weight
        act(weight)
        return weight

    return make


LAWS: dict[str, tuple[Callable[[nn.Module], Any], Law]] = {
    "a copy of one with a law": (linear(lambda w: w.data.copy_(torch.zeros(3, 12))), [("zero_", ())]),
    "a copy of values without a law": (linear(lambda w: w.data.copy_(torch.arange(36.0).view(3, 12))), [("copy_", ())]),
    "a copy by a padding of nothing": (lambda _: nn.Parameter(nn.functional.pad(torch.ones(4), (0, 0))), [("fill_", (1.0,))]),
    "a padding, which is no copy": (lambda _: nn.Parameter(nn.functional.pad(torch.ones(4), (1, -1))), []),
    "zeros": (lambda _: nn.Parameter(torch.zeros(4)), [("zero_", ())]),
    "ones": (lambda _: nn.Parameter(torch.ones(4)), [("fill_", (1.0,))]),
    "full": (lambda _: nn.Parameter(torch.full((4,), 0.5)), [("fill_", (0.5,))]),
    "small ones (LayerScale)": (lambda _: nn.Parameter(1e-6 * torch.ones(4)), [("fill_", (1.0,)), ("mul_", (1e-6,))]),
    "scaled normal": (lambda _: nn.Parameter(torch.randn(4, 4) / 8), [("normal_", (0.0, 1.0)), ("div_", (8,))]),
    "empty, which is no law": (lambda _: nn.Parameter(torch.empty(4)), [("empty", ())]),
    "default of a linear layer": (linear(lambda w: None), [("uniform_", (-0.288675, 0.288675))]),
    "normal": (linear(lambda w: nn.init.normal_(w, std=0.02)), [("normal_", (0.0, 0.02))]),
    "method": (linear(lambda w: w.data.normal_(0.0, 0.03)), [("normal_", (0.0, 0.03))]),
    "method with defaults": (linear(lambda w: w.data.normal_()), [("normal_", (0.0, 1.0))]),
    "constant": (linear(lambda w: nn.init.constant_(w, 0.1)), [("fill_", (0.1,))]),
    "zeros_": (linear(nn.init.zeros_), [("zero_", ())]),
    "xavier with gain": (linear(lambda w: nn.init.xavier_normal_(w, gain=0.5)), [("normal_", (0.0, 0.182574))]),
    "xavier uniform": (linear(nn.init.xavier_uniform_), [("uniform_", (-0.632456, 0.632456))]),
    "kaiming": (linear(lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu")), [("normal_", (0.0, 0.408248))]),
    "truncated": (linear(lambda w: nn.init.trunc_normal_(w, std=0.02)), [("trunc_normal_", (0.0, 0.02, -2.0, 2.0))]),
    "orthogonal": (linear(lambda w: nn.init.orthogonal_(w, gain=2.0)), [("orthogonal_", (2.0,))]),
    "scaled afterwards (DeepNorm)": (
        linear(lambda w: (nn.init.xavier_normal_(w), w.data.mul_(0.1))),
        [("normal_", (0.0, 0.365148)), ("mul_", (0.1,))],
    ),
    "operators in place": (
        linear(lambda w: (w.data.zero_(), w.data.__iadd__(3), w.data.__itruediv__(2))),
        [("zero_", ()), ("add_", (3,)), ("div_", (2,))],
    ),
    "a part keeps the rest": (linear(lambda w: w.data[0].zero_()), [("uniform_", (-0.288675, 0.288675)), ("zero_", ())]),
    "copied": (linear(lambda w: w.data.copy_(torch.zeros(3, 12))), [("zero_", ())]),
}


@pytest.mark.parametrize("case", LAWS)
def test_laws(case: str) -> None:
    make, expected = LAWS[case]
    assert law(make) == expected


def test_a_truncated_normal_that_is_written_out_is_one() -> None:
    def own(weight: Any) -> None:
        weight.data.uniform_(-0.9, 0.9)
        weight.data.erfinv_()
        weight.data.mul_(0.02 * 2**0.5)
        weight.data.add_(0.0)
        weight.data.clamp_(-2.0, 2.0)

    assert law(linear(own)) == [("trunc_normal_", (0.0, 0.02, -2.0, 2.0))]


def test_a_law_says_where_it_stands() -> None:
    with torch.device("meta"), Recorder() as recorder:
        net = nn.Linear(2, 2)
    [step] = dict(recorder.of(net))["weight"]
    assert Path(step.file).name == "test_initialisers.py" and step.line > 0


def test_recording_changes_nothing_outside() -> None:
    state = torch.random.get_rng_state()
    with torch.device("meta"), Recorder():
        nn.Linear(64, 64)
    assert torch.equal(state, torch.random.get_rng_state())
    with Recorder():
        real = nn.init.constant_(nn.Linear(3, 3).weight, 2.0)
    assert real.device.type == "cpu" and bool((real == 2.0).all())


# -- a torchvision whose C++ part does not load ----------------------------------------------------------------------------------------

BROKEN = """
import torch
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: dets)
"""


@pytest.mark.by_the_day
def test_torchvision_without_its_operators_is_helped(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(BROKEN)
    alone = [sys.executable, "-c", "import torchvision"]
    helped = [
        sys.executable,
        "-c",
        "from screen.capture.build.libraries import stub_torchvision as s; assert s() is True; import torchvision; assert s() is False",
    ]
    env = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": ""}
    assert b"torchvision::nms" in subprocess.run(alone, env=env, capture_output=True, check=False).stderr
    found = subprocess.run(helped, env=env, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr


def test_what_was_overwritten_stays_in_the_record() -> None:
    """GPT-2's history: the default, then 0.02, then the scale for depth; only a part of the entries last."""
    steps = history(linear(lambda w: (nn.init.normal_(w, std=0.02), nn.init.normal_(w, std=0.002), w.data[0].zero_())))
    assert [(s.op, s.whole) for s in steps] == [("uniform_", True), ("normal_", True), ("normal_", True), ("zero_", False)]


@pytest.mark.parametrize(
    "cast",
    [
        lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.double(), lambda m: m.to(torch.float16), lambda m: m.to(dtype=torch.bfloat16),
        lambda m: m.type(torch.float16),
    ],
)  # fmt: skip
def test_a_cast_after_construction_keeps_what_was_recorded(cast: Callable[[nn.Module], nn.Module]) -> None:
    recorder = Recorder()
    with torch.device("meta"), recorder:
        linear = nn.Linear(4, 4)
        nn.init.normal_(linear.weight, std=0.02)
        cast(linear)
    assert linear.weight.dtype != torch.float32
    assert [(i.op, i.args) for i in dict(recorder.of(linear))["weight"]][-1:] == [("normal_", (0.0, 0.02))]
