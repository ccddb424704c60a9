"""Where findings stand that no line of the user's calls: the members of a bare `nn.Sequential` are called by torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 5, groups=WIDTH, padding=2)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.mix(x).relu())  # type: ignore[no-any-return]


def mixer() -> nn.Sequential:
    """A matrix behind each sum, which nothing but torch calls."""
    blocks = (nn.Sequential(Skip(), nn.Conv1d(WIDTH, WIDTH, 1), nn.GELU()) for _ in range(6))
    return nn.Sequential(nn.Conv1d(3, WIDTH, 4, 4), *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(WIDTH, 10))


def test_what_a_bare_sequential_calls_stands_on_no_line_of_ours() -> None:
    report = screen.check(mixer(), example_inputs=torch.zeros(2, 3, 64), spot_check=False)
    assert all("child" not in (finding.file or "") for finding in report.findings)
    assert any(finding.module == "1.1" and not finding.file for finding in report.findings)
