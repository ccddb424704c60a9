"""Ops of other libraries: believed where a distribution says which op of ours they are (`screen.ops`), and never by their names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import screen
import screen.plugins
from screen.graph.target import parse, same as same_target
from screen.ops import foreign
from screen.verdict.discover import catalogue


@torch.library.custom_op("theirs::layer_norm", mutates_args=())
def layer_norm(x: Tensor, shape: list[int]) -> Tensor:
    """No norm at all."""
    return x * 3


@layer_norm.register_fake
def _(x: Tensor, shape: list[int]) -> Tensor:
    return torch.empty_like(x)


class Model(nn.Module):
    """Its op is called by the name that hides the library."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.ops.theirs.layer_norm(layer(x), [32])
        return x


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, object], None]]:
    """An entry point of a group, and what stands in its module as `SAME`."""

    def put(group: str, content: object) -> None:
        module = ModuleType("of_another")
        module.__dict__.update(SAME=content)
        monkeypatch.setitem(sys.modules, "of_another", module)
        point = EntryPoint("theirs", "of_another" if content is not None else "no_such_module_at_all", group)
        monkeypatch.setattr(screen.plugins, "entry_points", lambda *, group: [point] if group == point.group else [])
        monkeypatch.setattr(screen.plugins, "distributions", lambda group: {point.value: "of-another"} if group == point.group else {})

    foreign.same.cache_clear()
    catalogue.cache_clear()
    yield put
    foreign.same.cache_clear()
    catalogue.cache_clear()


def _report() -> screen.Report:
    return screen.check(Model(), example_inputs=torch.zeros(2, 5, 32))


def test_an_op_of_another_library_is_not_believed_by_its_name() -> None:
    report = _report()
    assert [op.op for op in report.coverage.unmodelled] == ["theirs::layer_norm"] and report.verdict == "unknown"


def test_an_op_that_is_said_to_be_one_of_ours_is_that(register: Callable[[str, object], None]) -> None:
    register("screen.ops", {"theirs::layer_norm": "layer_norm"})
    report = _report()
    assert report.coverage.unmodelled == [] and report.streams[0].kinds[0].sublayers[0].placement == "output_only"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"layer_norm": "layer_norm"}, "must be the full name of an op of another library"),
        ({"aten::relu": "identity"}, "must be the full name of an op of another library"),
        ({"theirs::f": "nope"}, "`nope`, which is no op of the vocabulary"),
        ({"theirs::f": 3}, "`SAME` must be a table"),
        ([], "`SAME` must be a table"),
        (None, "it does not load: `ModuleNotFoundError"),
    ],
)
def test_a_table_that_is_wrong_is_named_with_its_distribution(register: Callable[[str, object], None], table: object, said: str) -> None:
    register("screen.ops", table)
    assert foreign.same()[0] == {}
    [fault] = catalogue().faults
    assert said in fault.reason and fault.reason.startswith("of the distribution `of-another`: ")


def test_a_scheme_of_another_distribution_is_a_target(register: Callable[[str, object], None]) -> None:
    register("screen.targets", {})
    spec = parse("theirs:small:2")
    assert (spec.kind, spec.module, spec.name, spec.argument) == ("module", "of_another", "build", "small:2")
    assert not same_target(spec, parse("theirs:large")) and parse("other:thing").argument is None
