"""`screen.check` from Python: text and live modules, errors where the command exits 2 without a graph, nothing of the caller's altered."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import screen
from screen.errors import LoadError, TraceError, UsageError


class Block(nn.Module):
    """Pre-norm FFN."""

    def __init__(self, fault: BaseException | None = None) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(32), nn.Linear(32, 32)
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.map(self.norm(x))
        if self.fault is not None:
            raise self.fault
        return x


class Stack(nn.Module):
    """Several of them."""

    def __init__(self, depth: int = 3, fault: BaseException | None = None) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(fault if i == depth - 1 else None) for i in range(depth)))
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.norm(self.blocks(x))
        return out


def _placements(report: screen.Report) -> list[str]:
    return [s.placement for stream in report.streams for kind in stream.kinds for s in kind.sublayers]


def test_a_live_module_is_screened_and_left_as_it_was() -> None:
    model = Stack().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, hooks = torch.get_rng_state(), len(model._forward_hooks)
    report = screen.check(model)
    assert report.verdict == "conditional" and _placements(report) == ["pre"]
    assert (report.target.kind, report.target.spec, report.target.model_class) == ("object", "Stack", "Stack")
    assert model.training and len(model._forward_hooks) == hooks and torch.equal(torch.get_rng_state(), state)
    after = model.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[name], before[name]) for name in before)
    assert all(p.device.type == "cpu" and p.requires_grad for p in model.parameters())


def _start(report: screen.Report) -> tuple[float, ...]:
    found = report.streams[0].initialisation
    assert found is not None and isinstance(found.gradient_ratio, float) and isinstance(found.one_minus_cos, float)
    return float(found.rms_first), float(found.rms_last), found.one_minus_cos, found.gradient_ratio


@pytest.mark.by_the_day
def test_the_start_of_a_live_module_is_read_off_its_weights() -> None:
    """Its own numbers stand in for the record of its initialisers; after training, when gains are no longer equal, nothing is said."""
    torch.manual_seed(0)
    path = Path(__file__).parent.parent / "examples" / "pre.py"
    model = runpy.run_path(str(path))["GPT"]()
    live, built = screen.check(model), screen.check(f"{path}::GPT")
    assert _start(live) == pytest.approx(_start(built), rel=0.02)
    for block in model.h:
        fused = block.attn.c_attn.weight.data
        fused[: fused.shape[0] // 3] *= 0.5
    assert screen.check(model).streams[0].initialisation is None  # its queries start otherwise than its keys and values
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.rand_like(parameter)
    assert screen.check(model).streams[0].initialisation is None


@pytest.mark.parametrize("inputs", [torch.randn(2, 5, 32), (torch.randn(2, 5, 32),), {"x": torch.randn(2, 5, 32)}], ids=["tensor", "tuple", "dict"])
def test_example_inputs_of_a_module(inputs: Any) -> None:
    assert _placements(screen.check(Stack(), example_inputs=inputs)) == ["pre"]


def test_text_is_screened_with_and_without_isolation(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(f"import torch\nfrom torch import nn\n{_source()}")
    target = f"{tmp_path}/model.py::Stack"
    isolated = screen.check(target, set={"depth": 2})
    path = list(sys.path)
    here = screen.check(target, set={"depth": 2}, isolate=False)
    assert sys.path == path
    assert isolated.to_json() == here.to_json()
    assert isolated.streams[0].depth == 2 and isolated.target.options == ["--set", "depth=2"]


def _source() -> str:
    import inspect

    return inspect.getsource(Block) + "\n\n" + inspect.getsource(Stack)


def test_a_partial_graph_is_a_report_and_no_exception() -> None:
    report = screen.check(Stack(fault=ValueError("boom")))
    assert report.verdict == "unknown" and report.error is not None
    assert report.error.stage == "trace" and "boom" in report.error.message
    assert report.error.file is not None and report.error.file.endswith("test_api.py") and report.coverage.ops > 0


@pytest.mark.by_the_day
@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: screen.check("no/such/file.py"), UsageError, "there is no file"),
        (lambda: screen.check(Block(), recipe={"lr": -1}), UsageError, "must be greater than 0"),
        (lambda: screen.check(Block(), set={"a": 1}), UsageError, "built already"),
        (lambda: screen.check(Block(), isolate=True), UsageError, "live module"),
        (lambda: screen.check(Block(), depth=0), UsageError, "above zero"),
        (lambda: screen.check(Stack(), depth=4), UsageError, "whole model"),
        (lambda: screen.check("hf:nosuchtype"), screen.ScreenError, "nosuchtype"),
        (lambda: screen.check("hf:gpt2", example_inputs=torch.ones(1)), UsageError, "must be text"),
        (lambda: screen.check(3), UsageError, "text or an `nn.Module`"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_screened_is_an_exception(call: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, screen.ScreenError) and said in str(caught.value)


@pytest.mark.by_the_day
def test_several_models_are_an_error_that_lists_them(tmp_path: Path) -> None:
    source = _source().replace("class Stack", "class Other(Block):\n    pass\n\n\nclass Unused")
    (tmp_path / "two.py").write_text("import torch\nfrom torch import nn\n" + source.split("class Unused")[0])
    with pytest.raises(LoadError) as caught:
        screen.check(f"{tmp_path}/two.py")
    assert "two.py::Block" in str(caught.value) and "two.py::Other" in str(caught.value)


def test_a_forward_that_cannot_be_given_inputs_says_how_to_give_them() -> None:
    class Odd(nn.Module):
        def forward(self, *, mode: object) -> torch.Tensor:
            raise TypeError(f"`mode` cannot be {mode}")

    try:
        report = screen.check(Odd())
    except TraceError as error:
        assert "--input" in str(error)
    else:
        assert report.error is not None and report.verdict == "unknown"


def test_depth_of_a_block_is_taken_over() -> None:
    assert (screen.check(Block(), depth=48).target.depth, screen.check(Block()).target.depth) == (48, 24)


def test_importing_screen_loads_nothing() -> None:
    script = "import sys, screen; print(sorted({'torch', 'pydantic', 'click', 'networkx', 'sympy'} & set(sys.modules)), screen.__version__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(screen.__file__).parents[1])
    assert done.stdout.startswith("[]")


def test_public_names_exist_and_others_do_not() -> None:
    for name in screen.__all__:
        assert getattr(screen, name) is not None
    assert set(screen.__all__) == set(dir(screen))
    with pytest.raises(AttributeError, match="no attribute `chekc`"):
        _ = screen.chekc  # type: ignore[attr-defined]


def test_a_report_shows_itself_in_a_notebook() -> None:
    assert screen.check(Block(), depth=2)._repr_markdown_().startswith("#")


def test_a_class_in_place_of_an_object_is_said() -> None:
    with pytest.raises(UsageError, match=r"it is the class `Stack`. Build it: `screen.check\(Stack\(…\)\)`"):
        screen.check(Stack)  # type: ignore[arg-type]


def test_a_name_of_an_input_that_forward_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError, match=r"there is no `y`. It takes `x`"):
        screen.check(Block(), example_inputs={"y": torch.zeros(2, 16, 32)})
    assert screen.check(Block(), example_inputs={"x": torch.zeros(2, 16, 32)}, spot_check=False).streams


def test_compare_takes_reports_and_modules() -> None:
    first = screen.check(Stack(), spot_check=False)
    found = screen.compare(first, Stack(depth=5), spot_check=False)
    assert found.worse == [] and found.targets == ["Stack", "Stack"] and "3 blocks" in str(found) and "5 blocks" in found._repr_markdown_()
    with pytest.raises(UsageError, match="two targets"):
        screen.compare(first)
