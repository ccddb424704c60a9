"""y = y·y asks for each value twice: what is asked is counted, and grows with the number of products and not with 2 to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from screen.calculi.bounds import radial
from screen.calculi.meanfield.lower.functions import joined
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph import Node

PRODUCTS = 40


def test_a_function_of_a_function_is_asked_once_for_each_value() -> None:
    asked: list[int] = []

    def first(x: Any) -> Any:
        asked.append(1)
        return x

    function: Any = first
    for _ in range(PRODUCTS):
        made = joined(Node(0, "mul", (), (), (8,), "float32", 0, "", 0), None, function, function)
        function = made
    assert float(function(np.array(1.0))) == 1.0 and len(asked) == 2


@pytest.mark.by_the_day
def test_rays_of_a_product_are_looked_for_once_at_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.map = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.map(self.norm(x))
            for _ in range(PRODUCTS):
                y = y * y
            return x + y

    asked: list[int] = []
    made = radial._made
    monkeypatch.setattr(radial, "_made", lambda *words: (asked.append(1), made(*words))[1])
    graph = trace(Model().to("meta"), (torch.zeros(2, 4, 8, device="meta"),), {})
    derive(graph)
    assert 0 < len(asked) < 100 * PRODUCTS * radial.DEPTH
