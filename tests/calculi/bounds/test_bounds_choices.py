"""Choices made from data: shares of a top-k, the largest of a row or of two values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.calculi.bounds import bounds_of, values_of
from screen.calculi.bounds.expr import Expr
from screen.structure.types import Unknown
from tests.calculi.bounds.test_bounds import WIDTH, Stack, branch_of


class Chosen(nn.Module):
    """Two maps around a choice."""

    def __init__(self, choose: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.up, self.down, self.choose = nn.Linear(WIDTH, 6, bias=False), nn.Linear(6, WIDTH, bias=False), choose

    def forward(self, x: Tensor) -> Tensor:
        y = self.choose(self.up(x))
        return F.linear(y, self.down.weight[:, : y.shape[-1]])


def _shares(u: Tensor) -> Tensor:
    best, _ = u.softmax(-1).topk(3, dim=-1)
    return best / best.sum(-1, keepdim=True)


def _scattered(u: Tensor) -> Tensor:
    best, index = u.softmax(-1).topk(3, dim=-1)
    best = best / best.sum(-1, keepdim=True)
    return torch.zeros_like(u).scatter(-1, index, best)


CHOICES: dict[str, Callable[[Tensor], Tensor]] = {
    "shares": _shares, "scattered": _scattered, "largest": lambda u: u - u.max(-1, keepdim=True).values,
    "largest, by index": lambda u: u.max(-1, keepdim=True)[0] * torch.ones(6), "of two": lambda u: torch.max(u, -u),
    "a floor": lambda u: torch.max(u, torch.tensor(-3e38)), "smallest": lambda u: torch.min(u, torch.tensor(0.5)),
}  # fmt: skip


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", CHOICES)
def test_slopes_at_a_fixed_choice(name: str) -> None:
    """‖J‖ of one token against the bound at the point, for 200 weights and inputs; the largest share of it is not tiny."""
    found = bounds_of(branch_of(Stack(lambda: Chosen(CHOICES[name]))))
    local = found.lipschitz_local
    assert isinstance(local, Expr) and isinstance(found.magnitude, Expr)
    torch.manual_seed(0)
    best = 0.0
    for _ in range(200):
        branch = Chosen(CHOICES[name]).double()
        x = torch.randn(WIDTH, dtype=torch.float64)
        weights = {f"branches.0.{k}": v.detach().numpy() for k, v in branch.named_parameters()}
        values = values_of(found.quantities, weights) | {"B": float(x.norm()), "theta_0": 1.0, "theta_1": 1.0}
        jac = torch.autograd.functional.jacobian(branch, x)
        slope = float(np.linalg.norm(jac.numpy(), 2)) / local.evaluate(values)
        size = float(branch(x).detach().norm()) / found.magnitude.evaluate(values)
        best = max(best, slope)
        assert slope <= 1 + 1e-9 and size <= 1 + 1e-9
    assert best > 0.1, best
    jumps = name == "scattered"
    assert isinstance(found.lipschitz, Unknown) is jumps
