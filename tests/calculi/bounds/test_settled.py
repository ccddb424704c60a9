"""What a branch adds grows with the stream where a part that grows stands beside one that tends to a limit: measured in float64, and claimed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.queries import grows_with_stream

WIDTH = 8
Form = Callable[["Block", Tensor], Tensor]


class Block(nn.Module):
    """x + a form of it, of two maps, a net and a norm."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form, self.norm, self.pair = form, nn.LayerNorm(WIDTH), nn.LayerNorm(2)
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.c(self.form(self, x))  # type: ignore[no-any-return]


GROW: dict[str, Form] = {
    "a gate of the stream times a net of its norm": lambda m, x: m.a(F.relu(m.b(x.mean(1, keepdim=True)))) * m.a(F.gelu(m.b(m.norm(x)))),
    "a gated linear unit of the stream": lambda m, x: m.a(x) * torch.sigmoid(m.b(x)),
    "the stream by a scale of its norm": lambda m, x: m.a(x) * (1 + m.b(m.norm(x))),
    "the stream by the ends of a function of it": lambda m, x: m.a(x) * torch.tanh(m.b(x)),
    "a map of what its norm gates": lambda m, x: torch.sigmoid(m.b(m.norm(x))) * x,
    "beside what is normed": lambda m, x: m.a(x) + m.b(m.norm(x)),
}
KEPT: dict[str, Form] = {
    "a gate below one on a net of the norm": lambda m, x: torch.sigmoid(m.b(x)) * m.a(m.norm(x)),
    "the slope of a sigmoid": lambda m, x: m.a(x) * torch.sigmoid(m.a(x)) * (1 - torch.sigmoid(m.a(x))),
    "the slope of tanh": lambda m, x: m.a(x) * (1 - torch.tanh(m.a(x)).square()),
    "two norms that tend to one": lambda m, x: x * (m.norm(x) - m.norm(2 * x)),
    "two functions that are 0 where the other is not": lambda m, x: F.relu(-m.b(x)) * F.relu6(m.b(x)),
    "what grows on one side, by what is 0 there": lambda m, x: F.relu(m.b(x)) * torch.sigmoid(-m.b(x)),
    "the norm of what grows": lambda m, x: m.norm(m.a(x)) * m.b(m.norm(x)),
}


def gains(form: Form) -> list[float]:
    """How many times as much is added when the stream is 1e4 times as large, again and again, from 1e3 on."""
    torch.manual_seed(0)
    block = Block(form).double()
    x = torch.randn(2, 6, WIDTH, dtype=torch.float64)
    sizes = [(block(s * x) - s * x).norm().item() for s in (1e3, 1e7, 1e11)]
    return [b / a for a, b in pairwise(sizes)]


def claimed(form: Form) -> bool:
    model = nn.Sequential(*(Block(form) for _ in range(3)))
    facts = derive(trace(model.to("meta"), (torch.zeros(2, 6, WIDTH, device="meta"),), {}))
    kind = facts.streams[0].kinds[-1]
    return grows_with_stream(facts, kind.sublayers[0])


@pytest.mark.parametrize("name", GROW)
def test_what_grows_beside_a_limit_is_claimed_to_grow(name: str) -> None:
    assert min(gains(GROW[name])) > 1e3
    assert claimed(GROW[name])


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_is_not_claimed_to_grow(name: str) -> None:
    assert max(gains(KEPT[name])) < 10
    assert not claimed(KEPT[name])
