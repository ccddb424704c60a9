"""Tables of places on a plane that are added to logits: decays over two axes (RMT), and why the size of such a table is not known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

SIDE, WIDTH = 4, 32
Places = Callable[[Tensor, Tensor], Tensor]


def by_grid(high: Tensor, wide: Tensor) -> Tensor:
    return torch.stack(torch.meshgrid([high, wide], indexing="ij"), -1).reshape(-1, 2)


def by_turned_grid(high: Tensor, wide: Tensor) -> Tensor:
    across, down = torch.meshgrid(wide, high, indexing="xy")
    return torch.stack([down, across], -1).reshape(-1, 2)


def by_product(high: Tensor, wide: Tensor) -> Tensor:
    return torch.cartesian_prod(high, wide)


class Attention(nn.Module):
    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places, self.norm = places, nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("decay", torch.log(1 - 2.0 ** (-1 - torch.arange(4.0))))

    def forward(self, x: Tensor) -> Tensor:
        place = self.places(torch.arange(float(SIDE)), torch.arange(float(SIDE + 1)))
        apart = (place[:, None] - place[None]).abs().sum(-1) * self.decay[:, None, None]
        q, k, v = (f(self.norm(x)).unflatten(-1, (4, 8)).transpose(1, 2) for f in (self.q, self.k, self.v))
        read = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5 + apart, -1) @ v
        return x + self.o(read.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def told(places: Places) -> tuple[str, str]:
    blocks = nn.Sequential(*(Attention(places) for _ in range(3)), nn.LayerNorm(WIDTH))
    report = screen.check(blocks, example_inputs=torch.randn(2, SIDE * (SIDE + 1), WIDTH), spot_check=False)
    [found] = [f for f in report.findings if f.code == "L202"]
    return found.outcome, found.message


@pytest.mark.parametrize("places", [by_grid, by_turned_grid])
def test_a_grid_of_places_is_as_large_as_what_it_is_made_of(places: Places) -> None:
    """`meshgrid` had no bound: logits of normed values were said to have none."""
    assert told(places)[0] == "holds"


def test_a_table_of_unknown_size_is_no_function_without_a_slope() -> None:
    """x + t has slope 1, whatever t: what is not known is the table."""
    outcome, message = told(by_product)
    assert outcome == "conditional" and "slope" not in message and "cartesian_prod" in message, message
