"""Pixels that channels are shuffled between are places still, and features are where the map behind them makes them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.structure.axes import Features
from screen.structure.dataflow import Flow

D = 16


class Attention(nn.Module):
    """Attention of channels, behind a norm over places (Restormer with instance norms)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.InstanceNorm2d(width, affine=True), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.reshape(len(x), 2, x.shape[1] // 2, -1) for t in self.qkv(self.norm(x)).chunk(3, 1))
        return x + self.out((nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT).softmax(-1).matmul(v).reshape(x.shape))


class Shuffle(nn.Module):
    """Four channels become the four pixels of a square."""

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return x.reshape(b, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // 4, 2 * h, 2 * w)


class Ladder(nn.Module):
    """A scale, a smaller one, and the first one again with what the smaller one gave laid beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.first = nn.Conv2d(3, D // 2, 3, padding=1), Attention(D // 2)
        self.down, self.low = nn.Conv2d(D // 2, D, 3, 2, 1), Attention(D)
        self.up, self.last, self.head = nn.Sequential(nn.Conv2d(D, 2 * D, 1), Shuffle()), Attention(D), nn.Conv2d(D, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = self.first(self.stem(x))
        return self.head(self.last(torch.cat([self.up(self.low(self.down(kept))), kept], 1)))


def test_the_width_of_a_stream_behind_shuffled_pixels_is_its_number_of_channels() -> None:
    found = derive(trace(Ladder(), (torch.empty(2, 3, 12, 12, device="meta"),), {}))
    assert {s.width for s in found.streams if s.role == "stream"} == {D}


def test_a_convolution_keeps_what_its_places_hold() -> None:
    class Tokens(nn.Module):
        """Tokens as channels of a convolution: features are its places (near)."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.mix, self.up = nn.Embedding(9, D), nn.Conv1d(6, 6, 1), nn.Linear(D, D)

        def forward(self, x: Tensor) -> Tensor:
            return self.mix(self.up(self.words(x)))

    graph = trace(Tokens(), (torch.zeros(2, 6, dtype=torch.long, device="meta"),), {})
    flow = Flow(graph)
    [mixed] = [n.index for n in graph.nodes if n.op == "conv1d"]
    assert Features(flow).holds(mixed, (-1,)) and Features(flow).spans_others(mixed, (-2,))
    shuffled = nn.Sequential(nn.Conv2d(3, 4 * D, 1), Shuffle(), nn.Conv2d(D, D, 1))
    graph = trace(shuffled, (torch.empty(2, 3, 6, 6, device="meta"),), {})
    layout = Features(Flow(graph)).layouts[max(n.index for n in graph.nodes if n.op == "conv2d")]
    assert layout is not None and [layout.holds(a) for a in (-3, -2, -1)] == [True, False, False]
