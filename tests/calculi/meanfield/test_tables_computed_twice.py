"""Rotary positions whose cosines and sines are each made of angles of their own, `cos(i * a)` and `sin(i * a)` (RMT, RetNet): a rotation still."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, HEADS = 32, 4


class Attention(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.norm = way, nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.register_buffer("angle", (10.0 ** -torch.arange(4.0)).repeat_interleave(2))

    def tables(self, n: int) -> tuple[Tensor, Tensor]:
        if self.way == "drawn":
            return torch.cos(torch.rand(n, 8)), torch.sin(torch.rand(n, 8))
        place = torch.arange(float(n))
        more = 2 * self.angle if self.way == "of twice the angle" else self.angle
        other = place + 1 if self.way == "of the next place" else place
        return torch.cos(place[:, None] * self.angle[None, :]), torch.sin(other[:, None] * more[None, :])

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        return x * cos + turned * sin

    def forward(self, x: Tensor) -> Tensor:
        tables = self.tables(x.shape[1])
        q, k, v = (f(self.norm(x)).unflatten(-1, (HEADS, 8)).transpose(1, 2) for f in (self.q, self.k, self.v))
        logits = self.turn(q, *tables) @ self.turn(k, *tables).transpose(-1, -2) * 8**-0.5
        return x + self.o((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def told(way: str) -> str:
    model = nn.Sequential(nn.Embedding(50, WIDTH), *(Attention(way) for _ in range(3)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 50, bias=False))
    report = screen.check(model, example_inputs=torch.randint(50, (2, 12)), spot_check=False)
    [found] = [f for f in report.findings if f.code == "I202"]
    return found.message


def test_angles_that_are_computed_in_the_same_way_are_one_angle() -> None:
    assert "start with a root mean square of" in told("of one angle")


@pytest.mark.parametrize("way", ["of twice the angle", "of the next place", "drawn"])
def test_what_is_not_seen_to_rotate_is_not_said_to_be_none(way: str) -> None:
    """It may be a rotation that is written in another way (`rotary_embedding_torch`)."""
    message = told(way)
    assert "not known" in message and "no rotation" not in message, message
