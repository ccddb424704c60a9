"""A stage makes its stream, by a map and a norm, and ends it in another norm: neither stands on the identity path of its blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTHS = (16, 24, 32)


class Block(nn.Module):
    """A branch with its norm inside, or with one on the sum."""

    def __init__(self, width: int, post: bool) -> None:
        super().__init__()
        self.inside, self.sum = (nn.Identity(), nn.LayerNorm(width)) if post else (nn.LayerNorm(width), nn.Identity())
        self.net = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.sum(x + self.net(self.inside(x)))
        return out


class Stage(nn.Module):
    """A map into the stage's width with a norm, blocks, and a norm at its end; `by_hand`: the sums stand in the stage itself."""

    def __init__(self, before: int, width: int, depth: int, post: bool, by_hand: bool) -> None:
        super().__init__()
        self.map, self.first, self.last = nn.Linear(before, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, post) for _ in range(depth))
        self.by_hand = by_hand

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(self.map(x))
        for block in self.blocks:
            x = block.sum(x + block.net(block.inside(x))) if self.by_hand else block(x)
        out: Tensor = self.last(x)
        return out


def read(depth: int, post: bool, by_hand: bool) -> Report:
    torch.manual_seed(0)
    stages = [Stage(a, b, depth, post, by_hand) for a, b in zip((8, *WIDTHS), WIDTHS, strict=False)]
    return screen.check(nn.Sequential(*stages, nn.Linear(WIDTHS[-1], 10)), example_inputs=torch.zeros(2, 12, 8), spot_check=False)


@pytest.mark.parametrize(("depth", "by_hand"), [(1, False), (2, False), (2, True), (4, False), (4, True)])
def test_what_begins_and_ends_a_stage_is_no_part_of_its_identity_path(depth: int, by_hand: bool) -> None:
    report = read(depth, False, by_hand)
    assert [s.depth for s in report.streams] == [depth] * len(WIDTHS)
    assert [(s.identity_path.exists, s.identity_path.gain) for s in report.streams] == [(True, "1")] * len(WIDTHS)
    assert {f.outcome for f in report.findings if f.code == "D101"} == {"holds"}


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("depth", [2, 4])
def test_norms_on_the_sums_of_a_stage_are(depth: int, by_hand: bool) -> None:
    report = read(depth, True, by_hand)
    assert [(s.identity_path.exists, s.identity_path.norms_crossed) for s in report.streams] == [(False, depth)] * len(WIDTHS)


class Written(nn.Module):
    """A stage of one block whose two sums stand beside its norm: in its list are the branches alone, each with its norm; or norms on the sums too."""

    def __init__(self, before: int, width: int, post: bool) -> None:
        super().__init__()
        self.map, self.last = nn.Linear(before, width), nn.LayerNorm(width)
        norms = [nn.LayerNorm(width) if post else nn.Identity() for _ in range(2)]
        nets = [nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(2)]
        self.layers = nn.ModuleList([nn.ModuleList([*nets, *norms])])

    def forward(self, x: Tensor) -> Tensor:
        x = self.map(x)
        for one, two, first, second in self.layers:
            x = first(x + one(x))
            x = second(x + two(x))
        out: Tensor = self.last(x)
        return out


@pytest.mark.parametrize("post", [False, True])
def test_a_stage_of_one_block_may_be_written_by_hand(post: bool) -> None:
    torch.manual_seed(0)
    stages = nn.Sequential(*(Written(a, b, post) for a, b in zip((8, *WIDTHS), WIDTHS, strict=False)), nn.Linear(WIDTHS[-1], 10))
    report = screen.check(stages, example_inputs=torch.zeros(2, 12, 8), spot_check=False)
    assert [s.identity_path.exists for s in report.streams] == [not post] * len(WIDTHS)


@pytest.mark.parametrize("post", [False, True])
def test_a_norm_that_the_last_block_alone_ends_in_comes_behind_all_blocks(post: bool) -> None:
    torch.manual_seed(0)
    blocks = [Block(16, post) for _ in range(4)]
    blocks[-1].sum = nn.LayerNorm(16)
    report = screen.check(nn.Sequential(nn.Linear(8, 16), *blocks, nn.Linear(16, 10)), example_inputs=torch.zeros(2, 12, 8), spot_check=False)
    (stream,) = report.streams
    assert (stream.identity_path.exists, stream.identity_path.norms_crossed) == ((False, 4) if post else (True, 0))


class Bent(Block):
    """A block that does something to the stream before its branch leaves it: each has a stream of its own, and none makes it."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.sort(-1).values
        out: Tensor = x + self.net(self.inside(x))
        return out


def test_a_block_that_does_something_to_the_stream_is_no_stage() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), *(Bent(16, False) for _ in range(4)))
    report = screen.check(model, example_inputs=torch.zeros(2, 12, 8), spot_check=False)
    assert {s.identity_path.exists for s in report.streams} == {False}
    assert next(c.state for c in report.channels if c.id == "D") == "unknown"
