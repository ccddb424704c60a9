"""Every way to write that axes change places is read as torch does it, and by every calculus."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import trace
from screen.graph import Node
from screen.structure.axes import Features
from screen.structure.axis_order import TURNS, axis_order, regrouped
from screen.structure.dataflow import Flow

SHAPE = (2, 3, 5, 7)
SPELLED: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: x.transpose(1, -1), "transpose named": lambda x: torch.transpose(x, dim0=0, dim1=2),
    "swapdims": lambda x: x.swapdims(-1, 0), "swapaxes named": lambda x: x.swapaxes(axis0=3, axis1=1), "permute": lambda x: x.permute(0, 3, 1, 2),
    "permute list": lambda x: x.permute([3, 2, 0, 1]),
    "permute named": lambda x: torch.permute(x, dims=(1, -1, 0, 2)), "movedim": lambda x: x.movedim(-1, 1), "movedim back": lambda x: x.movedim(0, 2),
    "movedim several": lambda x: x.movedim((0, 1), (-1, 0)), "movedim named": lambda x: torch.movedim(x, source=1, destination=3),
    "moveaxis": lambda x: torch.moveaxis(x, 3, 0), "mT": lambda x: x.mT, "mH": lambda x: x.mH, "adjoint": lambda x: x.adjoint(),
}  # fmt: skip


class Turned(nn.Module):
    def __init__(self, of: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.table, self.of = nn.Embedding(11, SHAPE[-1]), of

    def forward(self, x: Tensor) -> Tensor:
        return self.of(self.table(x))


@pytest.mark.parametrize("name", SPELLED)
def test_an_order_is_that_of_torch(name: str) -> None:
    with torch.device("meta"):
        graph = trace(Turned(SPELLED[name]), (torch.zeros(SHAPE[:-1], dtype=torch.int64),), {})
    node = next(n for n in graph.nodes if n.op in TURNS)
    order = axis_order(node, len(SHAPE))
    assert order is not None and tuple(SHAPE[i] for i in order) == node.shape == tuple(SPELLED[name](torch.zeros(SHAPE)).shape)
    layout = Features(Flow(graph)).layouts[node.index]  # the last axis of what a table gives holds features, wherever it goes
    assert layout is not None and [layout.holds(a) for a in range(-4, 0)] == [i == 3 for i in order]


@pytest.mark.parametrize("args", [(), (0,), (0, "a"), (0, 9), (True, 1)])
def test_what_cannot_be_read_is_no_order(args: tuple[object, ...]) -> None:
    assert [axis_order(Node(1, op, (None, *args), (), (2, 3), "float32", 0, "", 0), 2) for op in ("transpose", "permute", "movedim")] == [None] * 3


def test_a_view_cuts_factors_where_an_axis_ends() -> None:
    assert regrouped([(2, "t"), (1, "t"), (12, "f")], (2, 4, 3, 1)) == (((2, "t"),), ((4, "f"),), ((3, "f"),), ())
    assert regrouped([(2, "t"), (3, "f"), (4, "h")], (6, 2, 2)) == (((2, "t"), (3, "f")), ((2, "h"),), ((2, "h"),))
    uneven, left_over, too_few, empty = ([(2, "t"), (3, "f")], (3, 2)), ([(6, "f")], (3,)), ([(6, "f")], (6, 2)), ([(0, "t"), (6, "f")], (6, 0))
    assert [regrouped(*case) for case in (uneven, left_over, too_few, empty)] == [None] * 4
