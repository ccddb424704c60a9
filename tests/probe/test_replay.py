"""Values that are given to a replay have strides of their own: a view of them is a copy, unless something is written in place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from screen.capture.build.meta_copy import on_meta
from screen.probe.measure.parted import traced
from screen.probe.measure.replay import Tape


class Turned(nn.Module):
    """The axes are turned, and flattened by a view. x: a transposed tensor."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.aten.view.default(x.transpose(1, 2), [2, 12])
        return out


class Written(Turned):
    """A view is written to, and the value is returned."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(1, 2)
        torch.ops.aten.view.default(y, [2, 12]).add_(1.0)
        return y


class WrittenElsewhere(Turned):
    """Another value is written to, and has no part in it."""

    def forward(self, x: Tensor) -> Tensor:
        y = (2.0 * x).add_(1.0)
        out: Tensor = torch.ops.aten.view.default(y.sin().transpose(1, 2), [2, 12])
        return out


def _again(model: nn.Module) -> Tensor:
    """Of a value with another order in memory than the one that was traced."""
    found = traced(on_meta(model), (torch.empty(2, 4, 3, device="meta").transpose(1, 2),), {})
    tape = Tape(found)
    calls, leaves, _ = tape.steps(found.graph.outputs, [])
    x = torch.arange(24.0, dtype=torch.float64).view(2, 3, 4)
    out: Tensor = tape.run(calls, dict.fromkeys(leaves, x))[found.graph.outputs[0]]
    return out


def test_a_view_of_a_value_that_was_given() -> None:
    x = torch.arange(24.0, dtype=torch.float64).view(2, 3, 4)
    assert torch.equal(_again(Turned()), x.transpose(1, 2).reshape(2, 12))


def test_a_view_where_another_value_is_written_to() -> None:
    x = torch.arange(24.0, dtype=torch.float64).view(2, 3, 4)
    assert torch.equal(_again(WrittenElsewhere()), (2 * x + 1).sin().transpose(1, 2).reshape(2, 12))


def test_nothing_is_copied_that_is_written_to() -> None:
    with pytest.raises(RuntimeError, match="view"):
        _again(Written())
