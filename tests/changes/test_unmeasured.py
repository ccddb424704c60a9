"""Nothing is measured on a changed graph: what is not known of it is neither better nor worse than what was measured before the change."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.changes.tried import CLOSED, CONDITIONAL, OPEN, UNTOLD, Known, is_told
from screen.report.answer import answer
from screen.report.schema import Report

WIDTH = 32
NONE: Known = frozenset()
ALL: Known = frozenset({(0, "gradient_ratio"), (0, "gradient_law")})


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        for linear in (self.q, self.k, self.v, self.o):
            nn.init.normal_(linear.weight, std=WIDTH**-0.5)

    def kept(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.k(x), self.v(x)

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor]) -> Tensor:
        return self.o(F.scaled_dot_product_attention(self.q(self.norm(x)), *memory))


class Larger(nn.Module):
    """Each sum is one and a half times the stream; keys and values are those of the state before the last, so that no recursion reads the block, and
    what is added is too small for a law by structure."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Attention() for _ in range(24)), nn.LayerNorm(WIDTH)
        for block in self.blocks:
            nn.init.normal_(block.o.weight, std=0.01)  # type: ignore[arg-type, union-attr]

    def forward(self, x: Tensor) -> Tensor:
        before = x
        for block in self.blocks:
            x, before = 1.5 * x + block(x, block.kept(block.norm(before))), x
        return self.last(x)


class Thirds(nn.Module):
    """Three layers in a row attend to what the first of them makes of its normed state."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Attention() for _ in range(12)), nn.LayerNorm(WIDTH)
        self.maps = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        memory = self.blocks[0].kept(x)
        for i, (block, net) in enumerate(zip(self.blocks, self.maps, strict=True)):
            memory = block.kept(block.norm(x)) if i % 3 == 0 else memory
            x = x + block(x, memory)
            x = x + net(x)
        return self.last(x)


def report(model: type[nn.Module]) -> Report:
    torch.manual_seed(0)
    return screen.check(model(), example_inputs=torch.randn(2, 16, WIDTH))


def test_what_a_measurement_opened_is_not_helped_by_what_is_not_measured() -> None:
    found = report(Larger)
    assert next(c.state for c in found.channels if c.id == "D") == "open"
    changes = {c.id: c for c in found.changes}
    assert set(changes) == {"qk-norm", "norms-behind"}, "norms stand before all branches already"
    assert [("D" in c.closes + c.eases, c.untold) for c in changes.values()] == [(False, ["D"])] * 2
    assert not any("gradients over depth" in gain for change in answer(found).changes for gain in change.gains)


def test_what_a_measurement_closed_is_not_worsened_by_what_is_not_measured() -> None:
    found = report(Thirds)
    assert next(c.state for c in found.channels if c.id == "D") == "closed"
    norms = next(c for c in found.changes if c.id == "qk-norm")
    assert "L" in norms.closes and "D" not in norms.opens


def test_that_a_change_is_not_told_is_said_where_it_is_meant_for_that() -> None:
    found = report(Larger)
    before = found.changes[0].lr_before
    change = found.changes[0].model_copy(update={"closes": [], "lr_after": before, "codes": ["D202"], "remedies": [f.remedy for f in found.findings]})
    said = [gain for c in answer(found.model_copy(update={"changes": [change]})).changes for gain in c.gains]
    assert set(said) == {"what it does to gradients over depth is not told without a measurement"}


@pytest.mark.parametrize(
    ("seen", "derived", "after", "told"),
    [
        (OPEN, OPEN, CONDITIONAL, True),
        (OPEN, CONDITIONAL, CONDITIONAL, False),  # a measurement opened it
        (CLOSED, CONDITIONAL, CONDITIONAL, False),  # a measurement closed it
        (CLOSED, CLOSED, CONDITIONAL, True),
        (CONDITIONAL, CLOSED, CLOSED, False),  # a measurement knew better than the structure, which says the same of the changed graph
        (CONDITIONAL, CONDITIONAL, CLOSED, True),
        (UNTOLD, UNTOLD, CONDITIONAL, False),
        (UNTOLD, UNTOLD, CLOSED, True),
        (CONDITIONAL, CONDITIONAL, UNTOLD, False),
        (UNTOLD, UNTOLD, UNTOLD, True),
        (CONDITIONAL, CONDITIONAL, OPEN, True),
    ],
)
def test_states_are_compared_that_are_known_in_one_way(seen: int, derived: int, after: int, told: bool) -> None:
    assert is_told((seen, derived, after), (ALL, ALL, ALL)) is told


def test_less_knowledge_is_not_compared_with_more() -> None:
    assert not is_told((OPEN, OPEN, CONDITIONAL), (ALL, ALL, NONE)), "what was open by a number is not eased where the number is not known"
    assert not is_told((OPEN, CONDITIONAL, CLOSED), (ALL, NONE, NONE)), "nor closed"
    assert not is_told((CLOSED, CLOSED, CONDITIONAL), (ALL, ALL, NONE))
    assert not is_told((CONDITIONAL, CONDITIONAL, OPEN), (NONE, NONE, ALL)), "it may have been as open before"
    assert is_told((CONDITIONAL, CONDITIONAL, CLOSED), (ALL, NONE, NONE)), "the structure tells"
