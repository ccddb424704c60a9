"""Forwards as libraries write them, whose inputs no first guess meets: what is given, and that the whole forward ran."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.capture.first_try import writing

write = pytest.fixture(writing)


class Ragged(nn.Module):
    """Sentences of unequal lengths in one nested tensor, whose values are read again."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.one, self.norm, self.two = nn.Embedding(60, 24), nn.Linear(24, 48), nn.LayerNorm(24), nn.Linear(48, 24)

    def forward(self, sentences: list[Tensor]) -> Tensor:
        x = torch.nested.as_nested_tensor([self.words(s) for s in sentences], layout=torch.jagged)
        x = x + self.two(torch.relu(self.one(self.norm(x))))
        return x.values().sum(-1) + x.offsets().sum() + x.to_padded_tensor(0.0).sum()


def test_samples_of_one_length_stand_for_ragged_ones() -> None:
    """The sizes of a nested tensor are no numbers, and no graph holds them."""
    import screen

    report = screen.check(Ragged().eval())
    assert report.error is None
    stream, = report.streams
    assert [(s.role, s.placement) for k in stream.kinds for s in k.sublayers] == [("ffn", "pre")]


class Modulated(nn.Module):
    """A stack that is told what to draw, of another width than its own."""

    def __init__(self) -> None:
        super().__init__()
        self.told, self.norm, self.map = nn.Linear(40, 24), nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, x: Tensor, picture: Tensor | None = None) -> Tensor:
        assert picture is not None, "a picture must be given"
        assert picture.shape[-1] == self.told.in_features, f"expected {self.told.in_features} features"
        return x + self.map(self.norm(x) * self.told(picture).unsqueeze(1))


class HandedOn(nn.Module):
    """Hands what its stack needs on to it, without a word of it in its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.stack, self.out = nn.Embedding(60, 24), Modulated(), nn.Linear(24, 60)

    def forward(self, ids: Tensor, return_states: bool = False, **more: Any) -> Tensor:
        x = self.stack(self.words(ids), **more)
        return x if return_states else self.out(x)


def test_what_forward_hands_on_to_a_part_is_given_by_name() -> None:
    """The name stands in the forward of the part alone."""
    import screen

    report = screen.check(HandedOn().eval())
    assert report.error is None
    assert [s.role for stream in report.streams for k in stream.kinds for s in k.sublayers] == ["other"]


class Low(nn.Module):
    """A map of low rank, or a whole one where no rank is given: what it is made as, its `__new__` says."""

    def __new__(cls, width: int, rank: int | None = None) -> Any:
        return super().__new__(cls) if rank is not None else nn.Linear(width, width, bias=False)

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(torch.relu(self.down(x)))


class Lows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(3))
        self.maps = nn.ModuleList(Low(24, 6) for _ in range(3))
        self.last = Low(24)

    def forward(self, x: Tensor) -> Tensor:
        for norm, low in zip(self.norms, self.maps, strict=True):
            x = x + low(norm(x))
        return self.last(x)


def test_a_class_whose_new_takes_arguments_is_copied() -> None:
    """Python's `copy` calls `__new__` with the class alone."""
    import screen

    model = Lows().eval()
    report = screen.check(model, example_inputs={"x": torch.randn(2, 5, 24)})
    assert report.error is None and report.streams[0].depth == 3
    assert isinstance(model.last, nn.Linear) and all(isinstance(m, Low) for m in model.maps)
