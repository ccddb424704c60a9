"""Where findings stand that no line of the user's calls: the members of a bare `nn.Sequential` are called by torch."""

from __future__ import annotations

import torch
from torch import nn

import screen
from tests.rules.test_norms_behind_matrices import mixer


def test_what_a_bare_sequential_calls_stands_on_no_line_of_ours() -> None:
    report = screen.check(mixer(nn.GELU), example_inputs=torch.zeros(2, 3, 64), spot_check=False)
    assert all("child" not in (finding.file or "") for finding in report.findings)
    assert any(finding.module == "1.1" and not finding.file for finding in report.findings)
