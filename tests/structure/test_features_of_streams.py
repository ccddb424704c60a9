"""Which axis of a stream holds its features, what a branch of convolutions is, and where a stream begins whose input is laid beside its end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.structure.axes import Features
from screen.structure.dataflow import Flow
from screen.structure.types import Stream

D = 24


def stream_of(model: nn.Module, *shape: int) -> Stream:
    [found] = derive(trace(model, (torch.empty(shape, device="meta"),), {})).streams
    return found


class Scaled(nn.Module):
    """y = a x + b, a and b trained, behind an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.a * torch.relu(x) + self.b


class Gathered(nn.Module):
    """Images: the outputs of ten convolutions, one behind the other, are put together by a last one and added."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(D, D, 3, padding=1, bias=False), nn.BatchNorm2d(D), Scaled()) for _ in range(10))
        self.last = nn.Conv2d(11 * D, D, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [x]
        for part in self.parts:
            kept.append(part(kept[-1]))
        return x + self.last(torch.cat(kept, 1))


class Signal(nn.Module):
    """[samples, channels, time]: channels are moved last for the norm alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(D), nn.Conv1d(D, D, 7, padding=3, groups=D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.norm(x.mT).mT)
        return x + self.ffn(self.norm(x.mT)).mT


class Shifted(nn.Module):
    """[samples, channels, time]: a convolution of what a map of the whole signal is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.mix = nn.Linear(D, D), nn.Conv1d(D, D, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.mix(x + self.whole(x.mean(-1))[..., None]))


class Global(nn.Module):
    """[samples, channels, time]: a norm over channels and time between two convolutions, its means taken over one axis after the other."""

    def __init__(self, kept: bool = True) -> None:
        super().__init__()
        self.up, self.down, self.gain, self.kept = nn.Conv1d(D, D, 1), nn.Conv1d(D, D, 3, padding=1), nn.Parameter(torch.ones(1, D, 1)), kept

    def mean(self, x: Tensor) -> Tensor:
        return x.mean(dim=1, keepdim=True).mean(dim=2 if self.kept else 0, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.up(x))
        y = y - self.mean(y)
        return x + self.down(self.gain * y / torch.pow(self.mean(y**2) + 1e-8, 0.5))


class Beside(nn.Module):
    """A norm of the embedding, blocks, and the embedding itself laid beside what comes out: for a head that reads both."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.first, self.head = nn.Conv2d(3, D, 16, 16), nn.LayerNorm(D), nn.Linear(2 * D, 10)
        self.norms, self.ffns = nn.ModuleList(nn.LayerNorm(D) for _ in range(4)), nn.ModuleList(
            nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(4)
        )

    def forward(self, image: Tensor) -> Tensor:
        patches = self.embed(image)
        x = self.first(patches.flatten(2).mT)
        for norm, ffn in zip(self.norms, self.ffns, strict=True):
            x = x + ffn(norm(x))
        return self.head(torch.cat([x, patches.flatten(2).mT], -1))


def stacked(block: Any, count: int, *before: nn.Module) -> nn.Module:
    return nn.Sequential(*before, *(block() for _ in range(count)))


def test_channels_in_the_second_axis_are_the_width() -> None:
    assert stream_of(stacked(Gathered, 3, nn.Conv2d(3, D, 4, 4)), 2, 3, 56, 56).width == D
    assert stream_of(stacked(Signal, 3, nn.Conv1d(1, D, 7, padding=3)), 2, 1, 320).width == D
    assert stream_of(stacked(Shifted, 4, nn.Conv1d(1, D, 7, padding=3)), 2, 1, 320).width == D


def test_trained_scales_and_shifts_in_a_row_are_no_recurrence() -> None:
    found = stream_of(stacked(Gathered, 3, nn.Conv2d(3, D, 4, 4)), 2, 3, 56, 56)
    assert {s.role for k in found.kinds for s in k.sublayers} == {"conv"}


def test_what_is_laid_beside_the_end_of_a_stream_is_not_carried_past_its_norm() -> None:
    found = stream_of(Beside(), 2, 3, 64, 64)
    assert found.depth == 4 and found.embed_norm is True
    assert found.identity.exists is True and found.identity.gain == "1"


class Series(nn.Module):
    """Series [samples, time, variates], each mapped as a whole: variates are tokens. `axis`: what its norms run over, of [samples, variates, width];
    `mixed`: variates are mapped as well before that, so that they may be features."""

    def __init__(self, axis: int = -1, mixed: bool = False) -> None:
        super().__init__()
        self.first, self.axis = nn.Linear(30, D), axis
        self.mixed = nn.Linear(7, 7) if mixed else None
        self.norms = nn.ModuleList(nn.LayerNorm(D if axis == -1 else 7) for _ in range(6))
        self.maps = nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(3))
        self.ffns = nn.ModuleList(nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(3))

    def normed(self, norm: nn.Module, x: Tensor) -> Tensor:
        out: Tensor = norm(x) if self.axis == -1 else norm(x.mT).mT
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.mixed is None else x + self.mixed(x)
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        x = self.first(x.mT)
        for place, (fused, ffn) in enumerate(zip(self.maps, self.ffns, strict=True)):
            q, k, v = fused(self.normed(self.norms[2 * place], x)).chunk(3, -1)
            x = x + torch.softmax(q @ k.mT * D**-0.5, -1) @ v
            x = x + ffn(self.normed(self.norms[2 * place + 1], x))
        return x


def test_variates_whose_series_are_mapped_as_a_whole_are_tokens() -> None:
    stream = stream_of(Series(), 2, 30, 7)
    assert {s.placement for k in stream.kinds for s in k.sublayers} == {"pre"} and stream.width == D
    across = derive(trace(Series(axis=-2), (torch.empty(2, 30, 7, device="meta"),), {}))
    assert [n.across for n in across.norms if n.type == "layernorm"][-6:] == [True] * 6


def test_variates_that_are_mapped_too_may_be_features() -> None:
    """Both axes are mapped, as in a mixer: the argument is taken as [samples, tokens, features]."""
    facts = derive(trace(Series(mixed=True), (torch.empty(2, 30, 7, device="meta"),), {}))
    assert [n.across for n in facts.norms if n.type == "layernorm"][-6:] == [True] * 6


def test_the_matrix_of_a_product_with_a_bias_is_its_second_factor() -> None:
    """`addmm(b, x, W)` contracts the last axis of x, of whatever size that is afterwards."""

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(D, 2 * D)), nn.Parameter(torch.zeros(2 * D))

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.b, x.reshape(-1, D), self.w)

    graph = trace(Product(), (torch.empty(2, 9, D, device="meta"),), {})
    [product] = [n.index for n in graph.nodes if n.op == "addmm"]
    assert Features(Flow(graph)).holds(product, (-1,)) and not Features(Flow(graph)).holds(product, (-2,))


def test_a_mean_over_one_axis_after_the_other_is_the_mean_over_both() -> None:
    found = stream_of(stacked(Global, 4, nn.Conv1d(1, D, 7, padding=3)), 2, 1, 320)
    [branch] = found.kinds[0].sublayers
    assert branch.positions == ("S",) and [(n.type, n.axes) for _, n in branch.norms] == [("layernorm", (-2, -1))]


def test_a_mean_over_samples_after_features_spans_samples() -> None:
    found = stream_of(stacked(lambda: Global(kept=False), 4, nn.Conv1d(1, D, 7, padding=3)), 2, 1, 320)
    [branch] = found.kinds[0].sublayers
    assert [n.axes for _, n in branch.norms] == [(-3, -2)]
