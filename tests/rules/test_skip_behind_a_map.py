"""A skip that begins behind a linear map, in blocks with norms on their sums: set attention. No slip of G110, and of bounded size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report


class SetBlock(nn.Module):
    """The queries are what attention is added to; a norm behind each sum."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)

    def attend(self, q: Tensor, x: Tensor) -> Tensor:
        weights: Tensor = torch.softmax(q @ self.k(x).mT / 32**0.5, -1)
        return weights @ self.v(x)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x)
        x = self.norm(q + self.attend(q, x))
        out: Tensor = self.last(x + F.relu(self.o(x)))
        return out


class Bare(SetBlock):
    """Without norms."""

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x)
        x = q + self.attend(q, x)
        return x + F.relu(self.o(x))


class HalfNormed(SetBlock):
    """The last sum of a block has no norm."""

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x)
        x = self.norm(q + self.attend(q, x))
        return x + F.relu(self.o(x))


class MapBehind(SetBlock):
    """The map stands behind the last norm, and scales what the block hands on."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x + self.attend(x, x))
        out: Tensor = self.q(self.last(x + F.relu(self.o(x))))
        return out


class LostSkip(SetBlock):
    """A net of two maps is not added to what it reads."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x + self.attend(x, x))
        out: Tensor = self.last(self.o(F.relu(self.q(x))))
        return out


def judged(block: type[nn.Module]) -> Report:
    return screen.check(block(), example_inputs=torch.zeros(2, 8, 32), depth=12, spot_check=False)


def outcomes(report: Report, code: str) -> set[str]:
    return {f.outcome for f in report.findings if f.code == code}


def test_a_skip_that_begins_behind_a_map_under_norms_is_no_slip() -> None:
    report = judged(SetBlock)
    assert outcomes(report, "G110") == {"conditional"} and outcomes(report, "D201") == {"cannot_tell"}
    assert outcomes(report, "R201") == outcomes(report, "R301") == {"holds"}


@pytest.mark.by_the_day
@pytest.mark.parametrize("block", [Bare, HalfNormed, MapBehind, LostSkip])
def test_other_matrices_on_the_stream_are_slips_as_before(block: type[nn.Module]) -> None:
    report = judged(block)
    assert outcomes(report, "G110") == {"violated"}


@pytest.mark.parametrize("block", [Bare, MapBehind])
def test_no_bound_is_told_of_what_a_matrix_scales(block: type[nn.Module]) -> None:
    report = judged(block)
    assert "holds" not in outcomes(report, "R301")


@pytest.mark.by_the_day
def test_gradients_pass_as_past_norms_on_sums_of_a_plain_skip() -> None:
    """First over last at 48 blocks, the geometric mean of five draws: within a factor of three of post-norm."""

    class Plain(SetBlock):
        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(x + self.attend(self.q(x), x))
            out: Tensor = self.last(x + F.relu(self.o(x)))
            return out

    assert 1 / 3 < ratio(SetBlock) / ratio(Plain) < 3
    assert ratio(Bare) > 100 * ratio(SetBlock) or ratio(Bare) < ratio(SetBlock) / 100


def ratio(block: type[nn.Module]) -> float:
    """Mean over draws of the root mean square of the gradient at the first block, in logarithms, for one of 1 at the last."""
    logs = []
    for seed in range(5):
        torch.manual_seed(seed)
        stack = nn.Sequential(*(block() for _ in range(48))).double()
        for weight in stack.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=32**-0.5)
        x = torch.randn(2, 8, 32, dtype=torch.float64, requires_grad=True)
        (stack(x) * torch.randn(2, 8, 32, dtype=torch.float64)).sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        logs.append(x.grad.square().mean().sqrt().log())
    return float(torch.stack(logs).mean().exp())
