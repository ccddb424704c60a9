"""L201 speaks of queries and keys where two values are compared, and of the map that makes the logits where there is one alone (soft experts)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import FindingPart

WIDTH, SLOTS = 32, 6


class Slots(nn.Module):
    """Slots are shares of tokens, and tokens shares of slots: logits are one map of the tokens, or products with another map of their mean."""

    def __init__(self, compared: bool) -> None:
        super().__init__()
        self.norm, self.phi, self.compared = nn.LayerNorm(WIDTH), nn.Parameter(torch.randn(WIDTH, SLOTS) * WIDTH**-0.5), compared
        self.q, self.k, self.up, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if self.compared:
            logits = self.q(h) @ self.k(h[:, :SLOTS]).mT / WIDTH**0.5
        else:
            logits = torch.einsum("btd,ds->bts", h, self.phi)
        slots = torch.einsum("bts,btd->bsd", logits.softmax(1), h)
        out: Tensor = x + logits.softmax(2) @ self.down(torch.relu(self.up(slots)))
        return out


def told(compared: bool) -> FindingPart:
    report = screen.check(Slots(compared), example_inputs=torch.randn(2, 10, WIDTH), depth=6)
    [finding] = [f for f in report.findings if f.code == "L201"]
    return finding


@pytest.mark.parametrize("compared", [False, True])
def test_norms_on_queries_and_keys_are_advised_where_there_are_some(compared: bool) -> None:
    finding = told(compared)
    assert finding.outcome == "conditional"
    assert ("W_Q and W_K" in finding.message, "q, k = norm_q(q)" in (finding.remedy or "")) == (compared, compared), finding.message
