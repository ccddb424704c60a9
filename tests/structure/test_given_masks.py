"""Numbers that say which tokens count are floats at times: what masks logits keeps or drops what branches give, and is no gate made by data."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, DEPTH = 32, 3


class Block(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused, self.first, self.second = fused, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.maps, self.out, self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor, kept: Tensor, bias: Tensor | None) -> Tensor:
        q, k, v = self.maps(self.first(x)).chunk(3, -1)
        if bias is not None and self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=bias[:, None])[:, 0]
        else:
            logits = torch.bmm(q, k.mT) * WIDTH**-0.5
            mixed = (logits if bias is None else logits + bias).softmax(-1) @ v
        x = x + self.out(mixed) * kept
        return x + self.down(torch.relu(self.up(self.second(x)))) * kept


class Padded(nn.Module):
    """`missing` is 1 where a token is missing; it stands beside what is embedded as well."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.embed = how, nn.Linear(4 + 1, WIDTH)
        self.blocks, self.last = nn.ModuleList(Block(how == "fused") for _ in range(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, series: Tensor, missing: Tensor) -> Tensor:
        x = self.embed(torch.cat((series, missing[..., None]), -1))
        bias = None if self.how == "factor" else missing[:, None] * -1e9
        for block in self.blocks:
            x = block(x, 1 - missing[..., None], bias)
        out: Tensor = self.last(x)
        return out


def report_of(how: str) -> Report:
    torch.manual_seed(0)
    return screen.check(Padded(how), example_inputs=(torch.randn(2, 9, 4), torch.zeros(2, 9)))


@pytest.mark.parametrize("how", ["added", "fused"])
def test_what_masks_logits_is_no_gate(how: str) -> None:
    (stream,) = report_of(how).streams
    assert {(s.role, s.residual.branch_kind, s.residual.gated) for k in stream.kinds for s in k.sublayers} == {
        ("attention", "none", False), ("ffn", "none", False)
    }  # fmt: skip


def test_numbers_that_mask_nothing_else_are_data() -> None:
    (stream,) = report_of("factor").streams
    assert {s.residual.branch_kind for k in stream.kinds for s in k.sublayers} == {"data"}
