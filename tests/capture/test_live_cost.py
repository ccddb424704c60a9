"""What a live module costs by its depth, counted and not timed: each weight is looked at once, equal calls ask a kernel on meta once."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.capture.build import meta_copy
from screen.capture.build.meta_copy import values_of
from screen.capture.trace.meta_memo import Memo
from screen.capture.trace.tracer import trace

WIDTH = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.down(F.gelu(self.up(F.scaled_dot_product_attention(y, y, y, is_causal=True))))


def _model(count: int) -> nn.Module:
    torch.manual_seed(count)
    return nn.Sequential(*(Block() for _ in range(count)), nn.LayerNorm(WIDTH))


def _entered(work: Any, names: frozenset[str]) -> Counter[str]:
    """How often functions of these names are called while `work` runs."""
    seen: Counter[str] = Counter()

    def call(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name in names:
            seen[frame.f_code.co_name] += 1

    sys.setprofile(call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def test_deviations_are_pooled_without_comparing_every_pair() -> None:
    few, many = (_entered(lambda n=n: values_of(_model(n)), frozenset({"_sigma"}))["_sigma"] for n in (4, 48))
    assert 0 < many <= 12 * few


def test_a_weight_is_pooled_with_those_alone_that_differ_by_chance() -> None:
    model = _model(6)
    with torch.no_grad():
        model[4].up.weight.mul_(3.0)
    said = dict(values_of(model))
    usual = {said[f"{n}.up.weight"] for n in (0, 1, 2, 3, 5)}
    assert len(usual) == 1 and said["4.up.weight"] not in usual
    each = [float(model[n].up.weight.detach().double().std()) for n in (0, 1, 2, 3, 5)]
    [(law,)] = usual
    assert law.args[0] == float(f"{(sum(s * s for s in each) / len(each)) ** 0.5:.3g}")


@pytest.mark.parametrize("shape", [(96, 120), (300, 400)], ids=["all entries", "a sample"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_fused_weight_with_parts_of_their_own_has_no_law(shape: tuple[int, int], axis: int) -> None:
    torch.manual_seed(0)
    model = nn.Linear(*reversed(shape), bias=False)
    nn.init.normal_(model.weight, std=0.02)
    assert [name for name, _ in values_of(model)] == ["weight"]
    with torch.no_grad():
        model.weight.narrow(axis, 0, shape[axis] // 3).mul_(2.0)
    assert values_of(model) == ()


def test_kernels_on_meta_are_asked_as_often_in_24_blocks_as_in_4() -> None:
    kernels = frozenset({"native_layer_norm", "meta_addmm", "gelu", "_safe_softmax", "tril"})

    def traced(count: int) -> Counter[str]:
        with torch.device("meta"):
            model = _model(count)
            x = torch.zeros(2, 8, WIDTH)
            trace(model, (x,), {})  # what is made at the first call
            return _entered(lambda: trace(model, (x,), {}), kernels)

    few, many = traced(4), traced(24)
    few["gelu"], many["gelu"] = few["gelu"] - 4, many["gelu"] - 24  # `F.gelu` has the name too, where it is written in Python
    assert few["native_layer_norm"] > 0
    assert {k: n for k, n in few.items() if n > 0} == {k: n for k, n in many.items() if n > 0}


def _meta(*shape: int, **more: Any) -> Tensor:
    return torch.empty(*shape, device="meta", **more)


ATEN = torch.ops.aten
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "int + 1": (ATEN.add.Tensor, (_meta(2, 3, dtype=torch.int64), 1)),
    "int + 1.0": (ATEN.add.Tensor, (_meta(2, 3, dtype=torch.int64), 1.0)),
    "int + True": (ATEN.add.Tensor, (_meta(2, 3, dtype=torch.int64), True)),
    "float + float": (ATEN.add.Tensor, (_meta(2, 3), _meta(2, 3))),
    "half + float": (ATEN.add.Tensor, (_meta(2, 3, dtype=torch.float16), _meta(3))),
    "turned": (ATEN.add.Tensor, (_meta(3, 2).t(), _meta(3, 2).t())),
    "norm": (ATEN.native_layer_norm.default, (_meta(2, 4, 3), [3], _meta(3), _meta(3), 1e-5)),
    "norm over two": (ATEN.native_layer_norm.default, (_meta(2, 4, 3), [4, 3], _meta(4, 3), None, 1e-5)),
    "dropout that is off": (ATEN.native_dropout.default, (_meta(2, 3), 0.5, False)),
    "dropout": (ATEN.native_dropout.default, (_meta(2, 3), 0.5, True)),
    "view": (ATEN.view.default, (_meta(2, 3), [6])),
    "split": (ATEN.split.Tensor, (_meta(4, 3), 2)),
    "written": (ATEN.add_.Tensor, (_meta(2, 3), 1.0)),
    "clone": (ATEN.clone.default, (_meta(4, 3).t(),)),
    "largest": (ATEN.max.dim, (_meta(4, 3), 0)),
    "unsafe view": (ATEN._unsafe_view.default, (_meta(2, 3), [6])),
}


def _looks(found: Any, args: Any) -> Any:
    """All that there is of tensors on meta: sizes, strides, types, and which of the operands share their memory."""
    one = [found] if isinstance(found, Tensor) else list(found)
    operands = [a.untyped_storage()._cdata for a in args if isinstance(a, Tensor)]
    return type(found), [
        (t.shape, t.stride(), t.dtype, t.storage_offset(), t.untyped_storage().nbytes(), t.untyped_storage()._cdata in operands) for t in one
    ]


def test_what_is_remembered_of_a_kernel_is_what_it_gives() -> None:
    """All calls in one memory, twice: none is taken for another."""
    memo = Memo()
    for _ in range(3):
        for name, (func, args) in CALLS.items():
            assert _looks(memo.run(func, args, {}), args) == _looks(func(*args), args), name
    asked = _entered(lambda: memo.run(*CALLS["norm"], {}), frozenset({"native_layer_norm"}))
    assert not asked


def test_the_default_type_of_floats_is_part_of_a_call() -> None:
    memo, call = Memo(), (ATEN.add.Tensor, (_meta(2, dtype=torch.int64), 1.0), {})
    assert memo.run(*call).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert memo.run(*call).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.by_the_day
def test_garbage_is_not_collected_while_a_module_is_judged() -> None:
    """Each collection walks all that the caller holds."""
    seen: list[int] = []

    def noted(phase: str, info: dict[str, int]) -> None:
        seen.append(info["generation"])

    model, usual = _model(6), gc.get_threshold()
    screen.check(model, example_inputs=torch.zeros(2, 8, WIDTH))  # what is imported at the first call
    gc.collect()
    gc.callbacks.append(noted)
    gc.set_threshold(2000)
    try:
        screen.check(model, example_inputs=torch.zeros(2, 8, WIDTH))
        collections = len(seen)
    finally:
        gc.callbacks.remove(noted)
        gc.set_threshold(*usual)
    assert collections <= 2 and gc.isenabled()  # before it begins, and when it is done


def test_empty_attributes_are_not_copied_on_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks of a module: nothing of them can fail to be copied, and trying takes a copy of all that is known so far."""
    copied: list[Any] = []
    deepcopy = meta_copy.copy.deepcopy

    def noted(value: Any, memo: Any = None) -> Any:
        copied.append(value)
        return deepcopy(value, memo)

    model = _model(3)
    monkeypatch.setattr(meta_copy.copy, "deepcopy", noted)
    meta_copy.on_meta(model)
    assert not [v for v in copied if isinstance(v, dict) and not v]


def test_the_forward_of_a_live_module_runs_four_times() -> None:
    """To find its inputs, for the graph, for the spot check, and plainly: inputs are looked for once, and no argument stands open."""

    class Counted(nn.Module):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.table, self.stack, self.head = nn.Embedding(32, WIDTH), _model(3), nn.Linear(WIDTH, 32)

        def forward(self, tokens: Tensor) -> Tensor:
            type(self).calls += 1
            return self.head(self.stack(self.table(tokens)))

    report = screen.check(Counted())
    assert report.streams and report.spot_check is not None
    assert Counted.calls == 4


class Settings:
    """What all modules of a model hold; counts how often it is copied."""

    copied = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Settings:
        Settings.copied += 1
        return Settings()


def test_what_all_modules_hold_is_not_copied_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "copied", 0)
    model, settings = _model(20), Settings()
    for module in model.modules():
        module.settings = settings
    held = {id(module.settings) for module in meta_copy.on_meta(model).modules()}
    assert len(held) == 1 and Settings.copied <= 2
