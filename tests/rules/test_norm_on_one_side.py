"""With a norm on queries or on keys alone the logits grow with the map of the other one, and L201 names that one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import FindingPart

WIDTH, HEADS = 32, 4


class Block(nn.Module):
    """Attention whose maps stand in one parameter, or each in its own."""

    def __init__(self, normed: str, fused: bool, raw: bool = False) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.maps = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH, bias=False)] if fused else [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)])
        self.inner, self.after, self.normed, self.raw = nn.RMSNorm(WIDTH // HEADS), nn.RMSNorm(WIDTH), normed, raw

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.raw else self.norm(x)
        made = [m(y) for m in self.maps]
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (made if len(made) == 3 else made[0].chunk(3, -1)))
        q, k = (self.inner(t) if name in self.normed else t for name, t in (("q", q), ("k", k)))
        u = torch.einsum("bhid,bhjd->bhij", q, k) / (WIDTH // HEADS) ** 0.5
        out = self.out((u.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + (self.after(out) if self.raw else out)


def told(block: Block) -> FindingPart:
    report = screen.check(block, example_inputs=torch.randn(2, 10, WIDTH), depth=6)
    [finding] = [f for f in report.findings if f.code == "L201"]
    return finding


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("normed", "named"), [("k", "W_Q"), ("q", "W_K"), ("", "W_Q and W_K")])
def test_the_map_without_a_norm_is_named(normed: str, named: str, fused: bool) -> None:
    finding = told(Block(normed, fused))
    assert finding.outcome == "conditional" and f"grow with {named}, and nothing" in (finding.plain or ""), finding
    assert ("‖W_Q‖·‖W_K‖" in finding.theorem) is (not normed)


@pytest.mark.parametrize(("normed", "grown"), [("k", "grow with it over depth, and with W_Q."), ("", "its square over depth, and with W_Q and W_K.")])
def test_of_a_stream_that_no_norm_bounds_too(normed: str, grown: str) -> None:
    finding = told(Block(normed, True, raw=True))
    assert finding.outcome == "violated" and grown in finding.message, finding
