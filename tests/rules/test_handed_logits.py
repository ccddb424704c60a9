"""Logits that are handed from block to block and added up are no logits of a stream that no norm bounds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS = 24, 10


class Handed(nn.Module):
    """One head, whose scores are those of all blocks so far; `raw`: keys are made of the stream itself; `maps`: what is handed on is mapped."""

    def __init__(self, raw: bool = False, maps: bool = False) -> None:
        super().__init__()
        self.norm, self.qv, self.k = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.map = nn.Linear(TOKENS, TOKENS, bias=False) if maps else nn.Identity()
        self.raw = raw

    def forward(self, x: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(x)
        q, v = self.qv(y).chunk(2, -1)
        scores = self.map(scores) + torch.einsum("bid,bjd->bij", q, self.k(x if self.raw else y)) / WIDTH**0.5
        return x + scores.softmax(-1) @ v, scores


@pytest.mark.by_the_day
@pytest.mark.parametrize(("raw", "maps"), [(False, False), (True, False), (False, True)])
def test_scores_that_add_up_are_no_slip(raw: bool, maps: bool) -> None:
    report = screen.check(Handed(raw, maps), example_inputs=(torch.randn(2, TOKENS, WIDTH), torch.zeros(2, TOKENS, TOKENS)), depth=6)
    found = {f.code: f for f in report.findings if f.code in ("L201", "L202")}
    up = ["add up" in found[code].message for code in ("L201", "L202")]
    assert up == [not raw and not maps] * 2
    assert not all(up) or found["L201"].outcome == "conditional"
