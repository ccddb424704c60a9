"""Calls without a kernel for a type or a device, by the same arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from screen.capture.trace.tracer import run
from screen.graph import Guess
from screen.probe.measure.branch import branch_run
from screen.probe.measure.kernels import called, grouped
from screen.probe.measure.leaves import Material, Missing
from screen.probe.measure.replay import Tape
from screen.probe.run import experiments
from tests.probe.common import CPU, only, planned
from tests.probe.zoo import small

pytestmark = pytest.mark.by_the_day


def test_counts_of_whole_numbers() -> None:
    ids = torch.tensor([0, 2, 2, 3, 0, 7], dtype=torch.int32)
    found = called(torch.histc, (ids,), {"bins": 4, "min": 0, "max": 3})
    assert found.dtype == torch.int32 and found.tolist() == [2, 0, 2, 1]


def test_a_grouped_product_is_that_of_torch() -> None:
    """With an empty group, and with rows behind the last one, which are 0; its derivative is one too."""
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(7, 16, generator=g), torch.randn(4, 16, 8, generator=g)
    offs = torch.tensor([2, 2, 5, 6], dtype=torch.int32)
    found = grouped(a.double(), b.double(), offs)
    assert torch.allclose(found[:6].float(), torch._grouped_mm(a, b, offs=offs)[:6], atol=1e-4)  # type: ignore[attr-defined]
    assert not found[6].any()
    assert torch.autograd.gradgradcheck(lambda x, w: grouped(x, w, offs), (a.double().requires_grad_(), b.double().requires_grad_()))


def test_experts_behind_one_grouped_product_are_measured() -> None:
    pytest.importorskip("transformers")
    built, plan, watch = planned("hf:mixtral", **small("mixtral"))
    found = [e for name in ("invariance", "precision") for e in list(experiments(only(plan, name), built, watch, CPU))[1:] if e["name"] == name]
    degrees = [e for e in found if e["name"] == "invariance" and e["sublayer"] == "moe"]
    assert len(degrees) == 4 and {e["outcome"] for e in degrees} == {"confirmed"}
    assert any(e["name"] == "precision" and e["outcome"] == "confirmed" for e in found)


def test_numbers_of_the_data_that_the_trace_guessed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that fails behind such a read says where it stands; one without a read says what it raised."""
    built, plan, watch = planned("examples/pre.py")
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    sublayer = plan.sublayers[0]

    def fails(*_: object) -> None:
        raise RuntimeError("split_with_sizes expects …")

    def said(guesses: tuple[Guess, ...]) -> Exception:
        tape = Tape(replace(trace, graph=replace(trace.graph, guesses=guesses)))
        with pytest.raises((RuntimeError, Missing)) as caught:
            branch_run(sublayer, Material(tape, built, watch, 0)).output()
        return caught.value

    first = Tape(trace).steps([sublayer.output], [i for i, _ in sublayer.cuts])[0][0]
    monkeypatch.setattr("screen.probe.measure.replay.called", fails)
    inside = Guess("/there/model.py", 7, "every entry of `tolist()` = 1", node=first)
    assert "`model.py:7` reads numbers of the data" in str(said((inside,)))
    assert isinstance(said((replace(inside, node=len(trace.graph.nodes)),)), RuntimeError) and isinstance(said(()), RuntimeError)


def test_a_batch_norm_is_replayed_as_in_training() -> None:
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    found = called(torch.nn.functional.batch_norm, (x, torch.full((3,), 9.0), torch.full((3,), 7.0)), {"training": False, "eps": 1e-5})
    torch.testing.assert_close(found, torch.nn.functional.batch_norm(x, None, None, training=True))
