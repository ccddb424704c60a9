"""How large a branch starts does not hang on how its weights are laid out: one tensor of two maps, on an axis of their own or side by side."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, HIDDEN = 12, 32


class Gated(nn.Module):
    """x + down(gelu(a)·b) with a and b by one parameter [2, WIDTH, HIDDEN], by its two rows, or by a map to both. x: [2, 8, 12]."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.down = how, nn.RMSNorm(WIDTH), nn.Linear(HIDDEN, WIDTH)
        shape = {"axis": (2, WIDTH, HIDDEN), "rows": (2, WIDTH, HIDDEN), "beside": (WIDTH, 2 * HIDDEN), "between": (WIDTH, 2, HIDDEN)}[how]
        self.up = nn.Parameter(torch.randn(shape) * WIDTH**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if self.how == "axis":
            a, b = torch.einsum("btd,cdf->cbtf", h, self.up)
        elif self.how == "rows":
            a, b = h @ self.up[0], h @ self.up[1]
        elif self.how == "between":
            a, b = torch.einsum("btd,dcf->btcf", h, self.up).unbind(2)
        else:
            a, b = (h @ self.up).chunk(2, -1)
        return x + self.down(F.gelu(a) * b)


@pytest.mark.by_the_day
@pytest.mark.parametrize("how", ["axis", "rows", "beside", "between"])
def test_two_maps_in_one_tensor(how: str) -> None:
    torch.manual_seed(0)
    report = screen.check(Gated(how), example_inputs=torch.zeros(2, 8, WIDTH), spot_check=False)
    start = next(f for f in report.findings if f.code == "D301").numbers["start"]
    g = WIDTH**-0.5 * (WIDTH * HIDDEN) ** 0.25
    assert start == pytest.approx(g * g * (3 * HIDDEN) ** -0.5 * (WIDTH * HIDDEN) ** 0.25, rel=0.1)  # of what was drawn
