"""All states so far beside each other, each times a number of its own, and their sum: the stream goes on through it. And what stands before a norm,
and is not followed, is no missing norm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, BLOCKS = 16, 4


class States(nn.Module):
    """Pre-norm blocks; what becomes of all states so far is written by hand. A norm reads what the last sum gives."""

    def __init__(self) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))  # noqa: E731
        self.blocks = nn.ModuleList(one() for _ in range(BLOCKS))
        self.shares = nn.ParameterList(nn.Parameter(torch.eye(i + 2)[-1]) for i in range(BLOCKS))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def of_all(self, states: list[Tensor], shares: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for block, shares in zip(self.blocks, self.shares, strict=True):
            states.append(x + block(x))
            x = self.of_all(states, shares)
        return self.head(self.last(x))


class First(States):
    def of_all(self, states: list[Tensor], shares: Tensor) -> Tensor:
        return (shares.view(-1, 1, 1, 1) * torch.stack(states)).sum(0)


class Last(States):
    def of_all(self, states: list[Tensor], shares: Tensor) -> Tensor:
        return (torch.stack(states, 2) * shares[:, None]).sum(dim=-2)


class PerToken(States):
    """Attention over depth: shares of each token's states by how they agree with the last one."""

    def of_all(self, states: list[Tensor], shares: Tensor) -> Tensor:
        stack = torch.stack(states, -2)
        found = torch.softmax((nn.functional.rms_norm(stack, (WIDTH,)) * states[-1][..., None, :]).sum(-1, keepdim=True), -2)
        return (found * stack).sum(-2)


class Largest(States):
    """The largest entries of all states."""

    def of_all(self, states: list[Tensor], shares: Tensor) -> Tensor:
        return torch.stack(states).amax(0) if len(states) > BLOCKS else states[-1]


def report_of(model: nn.Module) -> Report:
    torch.manual_seed(0)
    return screen.check(model, example_inputs=torch.randn(2, 3, WIDTH))


def result(report: Report, code: str) -> str:
    return next(f.outcome for f in report.findings if f.code == code)


@pytest.mark.parametrize("model", [First, Last, PerToken])
def test_a_sum_of_weighed_states_carries_the_stream(model: type[nn.Module]) -> None:
    report = report_of(model())
    assert [(s.depth, s.final_norm) for s in report.streams] == [(BLOCKS, True)]
    assert result(report, "G103") == "holds"


def test_a_norm_behind_what_is_not_followed_is_not_missing() -> None:
    assert result(report_of(Largest()), "G103") == "cannot_tell"


def test_a_map_before_the_norm_reads_the_bare_stream() -> None:
    model = Largest()
    model.last = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))
    assert result(report_of(model), "G103") == "violated"
