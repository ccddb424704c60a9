"""Layers of one list with norms behind sums here and in front of branches there (Mix-LN): each is a block, also where the model calls its parts."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

from screen.report.schema import Report
from tests.structure.written_stacks import FFN, TOKENS, WIDTH, Attention, blocks, read

LAYERS = 6
PRE, POST, MIXED = "attention pre, ffn pre", "attention post, ffn post", "attention pre, ffn post"


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.attention, self.feed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.n1(x))[0]
        return x + self.feed(self.n2(x))


class Stack(nn.Module):
    """The model calls the parts of some layers one by one: a norm behind both sums, or (`slip`) behind the second one alone."""

    def __init__(self, apart: tuple[int, ...], slip: bool, listed: bool) -> None:
        super().__init__()
        self.names, self.apart, self.slip = [f"layer_{i}" for i in range(LAYERS)], apart, slip
        for name in self.names if not listed else ():
            setattr(self, name, Layer())
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS)) if listed else None
        self.head = nn.Linear(WIDTH, 7)

    def forward(self, x: Tensor) -> Tensor:
        for i, name in enumerate(self.names):
            layer = getattr(self, name) if self.layers is None else self.layers[i]
            if i not in self.apart:
                x = layer(x)
                continue
            x = x + layer.attention(layer.n1(x))[0] if self.slip else layer.n1(x + layer.attention(x)[0])
            x = layer.n2(x + layer.feed(x))
        return self.head(x)


def told(report: Report) -> list[str]:
    return [f.message for f in report.findings if f.code == "G124" and f.outcome == "violated"]


@pytest.mark.by_the_day
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("apart", "kinds"),
    [
        ((0,), [f"1: {POST}", f"5: {PRE}"]),
        ((0, 1), [f"2: {POST}", f"4: {PRE}"]),
        ((3,), [f"5: {PRE}", f"1: {POST}"]),
        ((4, 5), [f"4: {PRE}", f"2: {POST}"]),
    ],
)
def test_layers_of_either_placement_are_blocks_and_no_slip(apart: tuple[int, ...], kinds: list[str], listed: bool) -> None:
    report = read(Stack(apart, False, listed))
    assert (blocks(report), report.streams[0].depth, told(report)) == (kinds, LAYERS, [])


@pytest.mark.by_the_day
@pytest.mark.parametrize("apart", [(2,), (1, 2, 4)])
def test_a_norm_on_one_sum_of_a_layer_is_told_of_that_layer(apart: tuple[int, ...]) -> None:
    report = read(Stack(apart, True, True))
    assert blocks(report) == [f"{LAYERS - len(apart)}: {PRE}", f"{len(apart)}: {MIXED}"]
    where = "there" if len(apart) == 1 else "in each of these blocks"
    assert [m.split(": ")[1] for m in told(report)] == [f"the stream passes a norm {where}, as in post-norm."]


class Own(nn.Module):
    """A map of tokens and its own norm beside a list of layers, one of each in turn: one block, though the map is added by the model."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.mixes = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.ModuleList(nn.Linear(TOKENS, TOKENS) for _ in range(LAYERS))
        self.norms, self.head = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS)), nn.Linear(WIDTH, 7)

    def forward(self, x: Tensor) -> Tensor:
        for layer, mix, norm in zip(self.layers, self.mixes, self.norms, strict=True):
            x = layer(x + mix(norm(x).mT).mT)
        return self.head(x)


def test_what_another_list_adds_goes_with_the_layer_behind_it() -> None:
    [stream] = read(Own()).streams
    assert (stream.depth, len(stream.kinds), len(stream.kinds[0].sublayers)) == (LAYERS, 1, 3)
