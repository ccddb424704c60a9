"""Streams that pass a trained matrix in each block, also in loops that are written out: they are one stream, and what it starts as is measured."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import FindingPart, Report

WIDTH, BLOCKS = 16, 6


def net() -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))


def report_of(model: nn.Module) -> Report:
    torch.manual_seed(0)
    return screen.check(model, example_inputs=torch.randn(2, 5, WIDTH))


def finding(report: Report, code: str) -> FindingPart:
    return next(f for f in report.findings if f.code == code)


def ends(model: nn.Module) -> nn.Module:
    model.last, model.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)
    return model


class Shaped(nn.Module):
    """In each block one net is added, a matrix follows, and another net is added; nothing is a call of a block."""

    def __init__(self, blocks: int, gain: float) -> None:
        super().__init__()
        self.first, self.second = (nn.ModuleList(net() for _ in range(blocks)) for _ in range(2))
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(blocks))
        for one in self.maps:
            nn.init.orthogonal_(one.weight, gain)
        ends(self)

    def forward(self, x: Tensor) -> Tensor:
        for first, matrix, second in zip(self.first, self.maps, self.second, strict=True):
            x = matrix(x + first(x))
            x = x + second(x)
        return self.head(self.last(x))


class SkipLost(nn.Module):
    """The second net of a block is not added."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.ModuleList(net() for _ in range(BLOCKS)) for _ in range(2))
        ends(self)

    def forward(self, x: Tensor) -> Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            x = x + first(x)
            x = second(x)
        return self.head(self.last(x))


class Joined(nn.Module):
    """Half of the states come back behind a matrix, as in a U-Net."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = (nn.ModuleList(net() for _ in range(BLOCKS // 2)) for _ in range(2))
        self.joins = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(BLOCKS // 2))
        ends(self)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for one in self.down:
            x = x + one(x)
            kept.append(x)
        for one, join in zip(self.up, self.joins, strict=True):
            x = join(torch.cat([x, kept.pop()], -1))
            x = x + one(x)
        return self.head(self.last(x))


class JoinedBehindNorms(nn.Module):
    """The same where a norm stands behind each sum, and with the first state among those that come back."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Linear(32, WIDTH)) for _ in range(BLOCKS))
        self.sizes = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(BLOCKS))
        self.joins = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, 2 * WIDTH) / 6) for _ in range(BLOCKS // 2))

    def forward(self, x: Tensor) -> Tensor:
        waiting: list[Tensor] = []
        for number, (one, norm) in enumerate(zip(self.nets, self.sizes, strict=True)):
            if number < BLOCKS // 2:
                waiting.append(x)
            else:
                x = nn.functional.linear(torch.cat((waiting.pop(), x), dim=2), self.joins[number - BLOCKS // 2])
            x = norm(one(x) + x)
        return x


class TwoStages(nn.Module):
    """Stages of several blocks with a matrix in between are streams of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.ModuleList(net() for _ in range(6)) for _ in range(4))
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        ends(self)

    def forward(self, x: Tensor) -> Tensor:
        for number, stage in enumerate(self.stages):
            x = self.maps[number - 1](x) if number else x
            for one in stage:
                x = x + one(x)
        return self.head(self.last(x))


@pytest.mark.parametrize("model", [Shaped(BLOCKS, 1.0), SkipLost()], ids=["a matrix", "a lost skip"])
def test_matrices_on_the_stream_of_a_written_out_loop_are_a_slip(model: nn.Module) -> None:
    report = report_of(model)
    assert [(s.depth, s.final_norm) for s in report.streams] == [(BLOCKS, True)]
    assert finding(report, "G110").outcome == "violated" and report.exit_code == 1


def test_what_matrices_make_of_gradients_is_measured() -> None:
    """Orthogonal matrices times 3 in 12 blocks: what is left of 3^12 where nets of norms are added."""
    judged = finding(report_of(Shaped(12, 3.0)), "D201")
    assert judged.outcome == "violated" and judged.basis == "measured"
    assert 3.0**9 < float(str(judged.numbers["gradient_ratio"])) < 3.0**13


def test_where_states_come_back_through_a_matrix_starts_are_measured() -> None:
    report = report_of(Joined())
    judged = finding(report, "D201")
    assert judged.outcome == "conditional" and "passes through `joins.0` on its way" in judged.message and report.exit_code == 0
    assert report.spot_check.ran and not report.spot_check.refuted
    torch.manual_seed(1)
    model, x = Joined().double(), torch.randn(2, 5, WIDTH, dtype=torch.float64)
    out = model(x)
    (out * torch.randn_like(out)).sum().backward()
    sizes = [math.sqrt(sum(float(p.grad.square().sum()) for p in one.parameters())) for one in (model.down[0], model.up[-1])]  # type: ignore[union-attr]
    assert float(str(judged.numbers["gradient_ratio"])) == pytest.approx(sizes[0] / sizes[1], rel=1.0)


def test_states_that_come_back_behind_norms_are_of_one_stream() -> None:
    (stream,) = [s for s in report_of(JoinedBehindNorms()).streams if s.role != "inner"]
    assert stream.depth == BLOCKS and {sub.placement for k in stream.kinds for sub in k.sublayers} == {"post"}


def test_stages_are_streams_of_their_own() -> None:
    assert [s.depth for s in report_of(TwoStages()).streams] == [6, 6, 6, 6]


class Beside(nn.Module):
    """A matrix maps the stream and what a net gives, side by side; another net is added behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.ModuleList(net() for _ in range(BLOCKS)) for _ in range(2))
        self.maps = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(BLOCKS))
        ends(self)

    def forward(self, x: Tensor) -> Tensor:
        for first, matrix, second in zip(self.first, self.maps, self.second, strict=True):
            x = matrix(torch.cat((x, first(x)), -1))
            x = x + second(x)
        return self.head(self.last(x))


def test_only_a_matrix_on_every_way_is_one_on_the_stream() -> None:
    """The net beside the stream stands on one of two ways."""
    said = finding(report_of(Beside()), "G110").message
    assert "`maps." in said and "first" not in said, said


class Core(nn.Module):
    """Blocks in a loop, to which what comes in is joined in every step: as it is, or behind blocks of its own; the first state is zero or drawn."""

    def __init__(self, before: int, steps: int = 4) -> None:
        super().__init__()
        self.first, self.steps = nn.Linear(WIDTH, WIDTH), steps
        self.before, self.core = nn.ModuleList(net() for _ in range(before)), nn.ModuleList(net() for _ in range(2))
        self.join = nn.Linear(2 * WIDTH, WIDTH)
        ends(self)

    def forward(self, x: Tensor) -> Tensor:
        given = self.first(x)
        for block in self.before:
            given = given + block(given)
        x = torch.zeros_like(given)
        for _ in range(self.steps):
            x = self.join(torch.cat((x, given), -1))
            for block in self.core:
                x = x + block(x)
        return self.head(self.last(x))


@pytest.mark.parametrize("before", [0, 2])
def test_a_core_to_which_the_input_is_joined_in_every_step_is_one_stream(before: int) -> None:
    report = report_of(Core(before))
    assert [(s.role, s.depth) for s in report.streams] == [("stream", before + 8)]
    assert "`join`" in finding(report, "G110").message
