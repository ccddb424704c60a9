"""R201 of branches whose filters are standardised before they are used (NF-ResNets): how their size goes with the weights is not known."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen


class _Filter(nn.Conv2d):
    """A filter of no mean and of deviation 1, times a gain."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, 3, padding=1)
        self.gain = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        flat = self.weight.reshape(1, len(self.gain), -1)
        made = nn.functional.batch_norm(flat, None, None, weight=self.gain, training=True, eps=1e-6)
        return nn.functional.conv2d(x, made.reshape_as(self.weight), self.bias, padding=1)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = _Filter(8), _Filter(8)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.2 * self.two(nn.functional.gelu(self.one(nn.functional.gelu(x))))


def test_a_gain_on_a_standardised_filter_scales_the_branch() -> None:
    """It was said to be of one size whatever its weights are."""
    model = nn.Sequential(nn.Conv2d(3, 8, 1), *(_Block() for _ in range(4)))
    (found,) = [f for f in screen.check(model, example_inputs=torch.zeros(2, 3, 8, 8)).findings if f.code == "R201" and f.outcome != "holds"]
    assert found.outcome == "violated" and "grows with the stream" in found.message
    assert "of one size" not in found.message and "no weights" not in found.message


class _Keel(nn.Module):
    """norm(4x + relu(norm(W x))): how large W is does not reach the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.inner, self.norm = nn.Linear(16, 16), nn.RMSNorm(16), nn.RMSNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(4.0 * x + torch.relu(self.inner(self.map(x))))
        return out


def test_weights_that_a_norm_divides_out_are_not_said_to_be_absent() -> None:
    """D102 said that no weight stands on the path through the branch."""
    report = screen.check(nn.Sequential(*(_Keel() for _ in range(4))), example_inputs=torch.zeros(2, 5, 16))
    (found,) = [f for f in report.findings if f.code == "D102"]
    assert found.outcome == "cannot_tell" and "divide out" in found.message and "no weight" not in found.message
