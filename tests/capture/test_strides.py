"""What fused attention gives is laid out as its kernels lay it out: a `view` behind it runs where it runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from screen.capture.trace.meta_fallback import laid_out
from screen.capture.trace.tracer import trace

ORDERS = [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 3, 1), (1, 0, 2, 3)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("how", [{}, {"is_causal": True}])
def test_strides_are_those_of_the_cpu(order: tuple[int, ...], how: dict[str, Any]) -> None:
    def strides(device: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        q = torch.empty(2, 3, 5, 8, device=device).permute(order).movedim(order.index(3), -1)
        result = F.scaled_dot_product_attention(q, q, q, **how)
        return laid_out(F.scaled_dot_product_attention, (q, q, q), how, result).stride(), result.shape

    assert strides("meta") == strides("cpu")


class Attention(nn.Module):
    """Heads are put together by a `view`: with queries laid out [batch, tokens, heads, size] it runs."""

    def __init__(self, contiguous: bool) -> None:
        super().__init__()
        self.project, self.contiguous = nn.Linear(32, 96), contiguous

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q.contiguous() if self.contiguous else q, k, v)
        return y.transpose(1, 2).view(x.shape)


def test_a_view_runs_where_it_runs() -> None:
    x = torch.randn(2, 6, 32)
    for contiguous in (False, True):
        try:
            Attention(contiguous)(x)
            runs = True
        except RuntimeError:
            runs = False
        with torch.device("meta"):
            graph = trace(Attention(contiguous), (x.to("meta"),), {})
        assert (graph.failure is None) is runs is (not contiguous)
