"""Pooling along tokens keeps the features where they were: a norm over them behind it is none over tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

example_inputs = {"TwoScales": (torch.randn(2, 16, 32), torch.randn(2, 8, 32)), "Totals": (torch.randn(2, 16, 32), torch.randn(2, 16, 32))}


class TimeMap(nn.Module):
    """From one length to another one. x: [2, tokens, 32]."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.map = nn.Linear(before, after)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.map(x.transpose(1, 2)).transpose(1, 2)
        return out


class TwoScales(nn.Module):
    """What changes slowly goes from the coarse series to the fine one. fine: [2, 16, 32], coarse: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.up, self.down = nn.ModuleList(nn.LayerNorm(32) for _ in range(2)), TimeMap(8, 16), TimeMap(16, 8)
        self.net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, fine: Tensor, coarse: Tensor) -> tuple[Tensor, Tensor]:
        a, b = (norm(x) for norm, x in zip(self.norms, (fine, coarse), strict=True))
        slow = [F.avg_pool1d(F.pad(h.transpose(1, 2), (2, 2), mode="replicate"), 5, stride=1).transpose(1, 2) for h in (a, b)]
        fast = [h - t for h, t in zip((a, b), slow, strict=True)]
        fast[1], slow[0] = fast[1] + self.down(fast[0]), slow[0] + self.up(slow[1])
        return fine + self.net(fast[0] + slow[0]), coarse + self.net(fast[1] + slow[1])


def test_norms_behind_pooled_tokens() -> None:
    report = screen.check(f"{__file__}::TwoScales", depth=12, isolate=False)
    assert {s.width for s in report.streams} == {32}
    assert [f.outcome for f in report.findings if f.code == "G126"] == ["holds"]


def test_the_module_runs_plainly_with_a_value_that_nothing_asks_for() -> None:
    """The second one is handed on and never read by a branch."""
    report = screen.check(f"{__file__}::Totals", depth=12, isolate=False)
    assert "plainly" not in report.to_text()
    assert any(c.claim == "replay" and c.value is True for c in report.claims)


class Totals(nn.Module):
    """x: [2, 16, 32], total: [2, 16, 32] too."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        out = self.down(F.gelu(self.up(self.norm(x))))
        return x + out, total + out
