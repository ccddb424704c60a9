"""Stages of a pyramid that hold their blocks beside what comes before or behind them: how many blocks are there? Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema_streams import StreamPart

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Local(nn.Module):
    """x + a depthwise filter of x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.filter(x)


class Layer(nn.Module):
    """Attention and a feed-forward, both pre-norm, of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT
        q, k, v = self.qkv(self.first(tokens)).chunk(3, -1)
        tokens = tokens + self.out(torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v)
        tokens = tokens + self.feed(self.second(tokens))
        return tokens.mT.reshape(x.shape)


class Stage(nn.Module):
    """A local filter, blocks, and where asked a filter behind them."""

    def __init__(self, width: int, depth: int, behind: bool) -> None:
        super().__init__()
        self.local, self.layers = Local(width), nn.ModuleList([Layer(width) for _ in range(depth)])
        self.behind = Local(width) if behind else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.local(x)
        for layer in self.layers:
            x = layer(x)
        return self.behind(x)


class Pyramid(nn.Module):
    """Stages, each of twice the width, with a patch embedding before each."""

    def __init__(self, depths: tuple[int, ...], behind: bool = False) -> None:
        super().__init__()
        widths = [WIDTH * 2**n for n in range(len(depths))]
        before = [3, *widths]
        self.patches = nn.ModuleList([nn.Conv2d(a, b, 2, stride=2) for a, b in zip(before, widths, strict=False)])
        self.stages = nn.ModuleList([Stage(w, d, behind) for w, d in zip(widths, depths, strict=True)])

    def forward(self, x: Tensor) -> Tensor:
        for patch, stage in zip(self.patches, self.stages, strict=True):
            x = stage(patch(x))
        return x.mean((-2, -1))


class Groups(nn.Module):
    """Members of a list that hold a list of blocks and a filter behind it, in one stream."""

    def __init__(self, groups: int, depth: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.groups = nn.ModuleList([Stage(WIDTH, depth + n, True) for n in range(groups)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for group in self.groups:
            x = group(x)
        return x.mean((-2, -1))


class Whole(nn.Module):
    """A filter, and two layers: a block. The first of a stage filters with a stride, and has no skip around that."""

    def __init__(self, width: int, first: bool) -> None:
        super().__init__()
        self.first = first
        self.filter = nn.Conv2d(width // 2, width, 3, stride=2, padding=1) if first else nn.Conv2d(width, width, 3, padding=1)
        self.one, self.two = Layer(width), Layer(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.filter(x)
        return self.two(self.one(y if self.first else x + y))


class Stages(nn.Module):
    def __init__(self, depths: tuple[int, ...]) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH // 2, 2, stride=2)
        self.stages = nn.ModuleList([nn.Sequential(*[Whole(WIDTH * 2**n, i == 0) for i in range(d)]) for n, d in enumerate(depths)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for stage in self.stages:
            x = stage(x)
        return x.mean((-2, -1))


class Part(nn.Module):
    """One branch: attention, a filter, or a feed-forward."""

    def __init__(self, width: int, what: str) -> None:
        super().__init__()
        self.what, self.norm = what, nn.LayerNorm(width)
        self.up = nn.Linear(width, {"attention": 3, "conv": 1, "ffn": 2}[what] * width)
        self.down = nn.Linear((2 if what == "ffn" else 1) * width, width)
        self.filter = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)

    def branch(self, x: Tensor) -> Tensor:
        y: Tensor = self.up(self.norm(x.flatten(2).mT))
        if self.what == "attention":
            q, k, v = y.chunk(3, -1)
            y = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
        y = self.down(torch.relu(y) if self.what == "ffn" else y).mT.reshape(x.shape)
        return self.filter(y) if self.what == "conv" else y


class Unlike(nn.Module):
    """Stages of single branches, in an order that does not repeat."""

    def __init__(self, *orders: str) -> None:
        super().__init__()
        widths = [WIDTH * 2**n for n in range(len(orders))]
        words = {"a": "attention", "c": "conv", "f": "ffn"}
        self.patches = nn.ModuleList([nn.Conv2d(a, b, 2, stride=2) for a, b in zip([3, *widths], widths, strict=False)])
        self.stages = nn.ModuleList([nn.Sequential(*[Part(w, words[c]) for c in order]) for w, order in zip(widths, orders, strict=True)])

    def forward(self, x: Tensor) -> Tensor:
        for patch, stage in zip(self.patches, self.stages, strict=True):
            x = stage(patch(x))
        return x.mean((-2, -1))


class Normed(nn.Module):
    """Blocks, and behind them y + F(y) with y a norm of the sum: the end of a stage."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.patch, self.layers = nn.Conv2d(3, WIDTH, 2, stride=2), nn.ModuleList([Layer(WIDTH) for _ in range(depth)])
        self.down = Down()

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for layer in self.layers:
            x = layer(x)
        return self.down(x).mean((-2, -1))


class Listed(nn.Module):
    """A stage that adds the branches of its layers itself, each layer a list of parts: two feed-forwards, or two attentions, between; the first layer
    filters as well."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        parts = [nn.ModuleList([Part(WIDTH, w) for w in ("attention", "ffn", "ffn", "attention")] + [Local(WIDTH)] * (i == 0)) for i in range(depth)]
        self.layers = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        for first, second, third, fourth, *local in self.layers:
            x = x + first.branch(x)
            x = x + second.branch(x)
            for part in local:
                x = part(x)
            x = x + third.branch(x)
            x = x + fourth.branch(x)
        return x


class Turns(nn.Module):
    def __init__(self, depths: tuple[int, ...]) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 2, stride=2)
        self.stages = nn.ModuleList([nn.ModuleList([Listed(d), nn.Conv2d(WIDTH, WIDTH, 2, stride=2)]) for d in depths])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for stage, down in self.stages:
            x = down(stage(x))
        return x.mean((-2, -1))


class Down(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.local, self.last = nn.GroupNorm(1, WIDTH), Local(WIDTH), nn.Conv2d(WIDTH, 2 * WIDTH, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.local(self.norm(x)))


def streams(model: nn.Module, size: int = 32) -> list[StreamPart]:
    return screen.check(model, example_inputs=torch.zeros(2, 3, size, size)).streams


def roles(stream: StreamPart) -> list[tuple[int, str]]:
    return [(k.count, " ".join(f"{s.role}:{s.placement}" for s in k.sublayers)) for k in stream.kinds]


@pytest.mark.parametrize("behind", [False, True])
def test_blocks_of_a_stage_are_counted_beside_a_filter_of_its_own(behind: bool) -> None:
    """A stage of a filter and two or three blocks was one block of all of their branches."""
    for stream, depth in zip(streams(Pyramid((2, 3), behind)), (2, 3), strict=True):
        layers = [(n, said) for n, said in roles(stream) if said == "attention:pre ffn:pre"]
        assert sum(n for n, _ in layers) == depth
        assert all(said == "conv:none" for _, said in roles(stream) if "attention" not in said)
        assert stream.depth == depth + 1 + behind


def test_blocks_of_groups_of_unlike_lengths_in_one_stream_are_counted() -> None:
    (stream,) = streams(Groups(3, 2))
    layers = [n for n, said in roles(stream) if said == "attention:pre ffn:pre"]
    assert sum(layers) == 2 + 3 + 4


def test_the_first_block_of_a_stage_is_one_though_the_rest_of_it_repeats() -> None:
    """Two layers of a block whose filter begins the stream were two blocks."""
    rest, whole = "attention:pre ffn:pre attention:pre ffn:pre", "conv:none attention:pre ffn:pre attention:pre ffn:pre"
    said = [roles(s) for s in streams(Stages((2, 3)))]
    assert said == [[(1, rest), (1, whole)], [(1, rest), (2, whole)]]


def test_many_single_branches_of_a_stage_are_as_many_blocks() -> None:
    """Nine branches in no order that repeats were one block."""
    assert [s.depth for s in streams(Unlike("ccafcfaca", "cccccc"))] == [9, 6]
    filters, first, turns = "conv:pre", "ffn:pre", "attention:pre ffn:pre"
    assert [roles(s) for s in streams(Unlike("cccfafafaf"))] == [[(3, filters), (1, first), (3, turns)]]
    assert [s.depth for s in streams(Unlike("acf", "af"))] == [1, 1]


@pytest.mark.parametrize("depth", [2, 3])
def test_a_norm_in_front_of_what_ends_a_stage_is_none_of_its_last_block(depth: int) -> None:
    """The last feed-forward of a stage had the norm that the next stage begins with on its sum."""
    (stream,) = streams(Normed(depth))
    assert roles(stream)[0] == (depth, "attention:pre ffn:pre")


def test_layers_that_a_stage_adds_itself_are_blocks_though_the_first_has_a_filter_more() -> None:
    """All layers of such a stage were one block."""
    rest, first = "attention:pre ffn:pre ffn:pre attention:pre", "attention:pre ffn:pre conv:none ffn:pre attention:pre"
    for stream, depth in zip(streams(Turns((3, 4))), (3, 4), strict=True):
        assert roles(stream) == [(1, first), (depth - 1, rest)]
