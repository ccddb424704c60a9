"""R201 and steps of descent on a squared error: no slip where the step is shown to be small enough, unknown where it is not."""

from __future__ import annotations

import pytest
import torch

from screen.rule import Example, Outcome
from screen.testing import facts_of
from screen.verdict.discover import lookup

MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(32, 64) * 32 ** -0.5)
        self.other = nn.Parameter(torch.randn(32, 64) * 32 ** -0.5)
        self.theta, self.rate = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        step = STEP
        z = x.new_zeros(*x.shape[:-1], 64)
        for _ in range(8):
            z = UPDATE
            z = torch.sign(z) * F.relu(z.abs() - 0.1 * F.softplus(self.theta))
        return z @ self.w.T
"""
UPDATE = "z - step * (z @ self.w.T - x) @ self.w"
SMALL = {
    "one over the sum of squares": "1.0 / self.w.square().sum()",
    "two over it, and a number on it": "2.0 / (self.w.pow(2).sum() + 1e-6)",
    "half of one over the norm's square": "0.5 * (1.0 / self.w.norm() ** 2)",
}
UNKNOWN = {
    "a number": "0.05",
    "learned": "self.rate",
    "three over the sum": "3.0 / self.w.square().sum()",
    "of another": "1.0 / self.other.square().sum()",
}
GROWING = {
    "added": "z + step * (z @ self.w.T - x) @ self.w",
    "another map back": "z - step * (z @ self.w.T - x) @ self.other",
    "bent in between": "z - step * F.relu(z @ self.w.T - x) @ self.w",
    "a negative number": "z - (-0.5 * step) * (z @ self.w.T - x) @ self.w",
    "from both sides": "z + (step * z - step * (x @ self.w)) @ self.w.T @ self.w",
}
SAME = {"from what is not explained": "z + step * ((x - z @ self.w.T) @ self.w)", "as a linear map": "z - (F.linear(z, self.w) - x) @ self.w * step"}


def said(step: str, update: str) -> tuple[Outcome, ...]:
    rule = lookup("R201")
    assert rule is not None
    return rule.check(facts_of(Example("descent", MODEL.replace("STEP", step).replace("UPDATE", update))))


@pytest.mark.by_the_day
@pytest.mark.parametrize(("step", "update"), [*((s, UPDATE) for s in SMALL.values()), *(("1.0 / self.w.square().sum()", u) for u in SAME.values())])
def test_a_step_that_is_small_for_its_map_is_no_slip(step: str, update: str) -> None:
    outcomes = said(step, update)
    assert {o.result for o in outcomes} == {"conditional"} and all("no expansion" in o.message for o in outcomes)


@pytest.mark.by_the_day
@pytest.mark.parametrize("step", UNKNOWN.values(), ids=UNKNOWN)
def test_a_step_that_is_not_shown_to_be_small_is_unknown(step: str) -> None:
    assert {o.result for o in said(step, UPDATE)} == {"cannot_tell"}


@pytest.mark.by_the_day
@pytest.mark.parametrize("update", GROWING.values(), ids=GROWING)
def test_what_expands_is_a_slip_as_before(update: str) -> None:
    assert "violated" in {o.result for o in said("1.0 / self.w.square().sum()", update)}


def test_no_step_of_at_most_two_over_the_squares_expands() -> None:
    torch.manual_seed(0)
    for size in (1e-3, 1.0, 1e3):
        w = size * torch.randn(16, 24, dtype=torch.float64)
        for step in (0.5, 1.0, 2.0):
            moved = torch.eye(24, dtype=torch.float64) - step / w.square().sum() * w.T @ w
            assert torch.linalg.matrix_norm(moved, 2) <= 1 + 1e-12
