"""Forwards as libraries write them, whose inputs no first guess meets: what is given, and that the whole forward ran."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

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


class Pieces(nn.Module):
    """Several tables of words, by names that its forward puts together."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({f"table_{name}_of": nn.Embedding(60, 24) for name in ("tempo", "key_change")})
        self.norm, self.map = nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, score: dict[str, Tensor]) -> Tensor:
        assert len(score) == len(self.tables)
        x = 0.0
        for name, ids in score.items():
            assert f"table_{name}_of" in self.tables
            x = x + self.tables[f"table_{name}_of"](ids)
        return x + self.map(self.norm(x))


def test_a_dictionary_has_the_names_within_those_of_the_parts() -> None:
    """A look-up with a name put together of the key and of words of its own."""
    import screen

    report = screen.check(Pieces().eval())
    assert report.error is None and report.streams[0].depth == 1


class Grid(nn.Module):
    """A video whose tokens are laid out on a grid again that only its own code knows."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.norm, self.mix = nn.Conv3d(3, 24, (2, 4, 4), stride=(2, 4, 4)), nn.LayerNorm(24), nn.Conv3d(24, 24, 3, padding=1, groups=24)

    def forward(self, clip: Tensor) -> Tensor:
        x = self.cut(clip).flatten(2).transpose(1, 2)
        y = self.norm(x).transpose(1, 2).reshape(x.shape[0], 24, 5, 6, 7)
        return x + self.mix(y).flatten(2).transpose(1, 2)


def test_a_written_grid_says_how_large_a_video_is() -> None:
    """`reshape(b, c, 5, 6, 7)` where patches are of 2 × 4 × 4: ten frames of 24 × 28."""
    from tests.capture.test_mend import found

    kwargs, tried = found(Grid())
    assert tuple(kwargs["clip"].shape) == (2, 3, 10, 24, 28) and not tried


class Tiles(nn.Module):
    """Tiles of several images of each text, one table of places for the patches of a tile."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.places = nn.Conv2d(3, 24, 8, stride=8), nn.Parameter(torch.zeros(25, 24))
        self.norm, self.map = nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, images: Tensor) -> Tensor:
        texts, count, tiles, channels, width, height = images.shape
        x = self.cut(images.reshape(texts * count * tiles, channels, width, height)).flatten(2).mT + self.places
        return x + self.map(self.norm(x))


def test_an_image_may_have_more_axes_than_a_video() -> None:
    """A forward that takes six sizes apart."""
    from tests.capture.test_mend import found

    kwargs, tried = found(Tiles())
    assert tuple(kwargs["images"].shape[-3:]) == (3, 40, 40) and kwargs["images"].dim() == 6 and not tried


class Towers(nn.Module):
    """Images, texts, or both, each optional; the text has as many words as its table has places."""

    def __init__(self) -> None:
        super().__init__()
        self.context_length, self.image_size = 21, (40, 40)
        self.cut, self.grid, self.see = nn.Conv2d(3, 24, 10, stride=10), nn.Parameter(torch.zeros(17, 24)), nn.Linear(24, 24)
        self.words, self.places, self.read = nn.Embedding(60, 24), nn.Parameter(torch.zeros(21, 24)), nn.Linear(24, 24)
        self.first = nn.Parameter(torch.zeros(1, 1, 24))
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(2))

    def forward(self, image: Tensor | None = None, text: Tensor | None = None) -> dict[str, Tensor]:
        found = {}
        if image is not None:
            x = self.cut(image).flatten(2).mT
            x = torch.cat([self.first.expand(len(x), 1, 24), x], 1) + self.grid
            found["image"] = x + torch.relu(self.see(self.norms[0](x)))
        if text is not None:
            y = self.words(text) + self.places
            found["text"] = y + torch.relu(self.read(self.norms[1](y)))
        return found


def test_a_second_tower_is_run_too() -> None:
    """A text that is as long as the model says, and an image of the size that it keeps as a pair."""
    from tests.capture.test_mend import found

    kwargs, tried = found(Towers())
    assert tuple(kwargs["image"].shape) == (2, 3, 40, 40) and tuple(kwargs["text"].shape) == (2, 21) and not tried


class Tiled(nn.Module):
    """Tiles of the size that the model names, whose number of patches its code knows."""

    def __init__(self) -> None:
        super().__init__()
        self.image_size, self.patches = 70, 25
        self.cut, self.norm, self.map = nn.Conv2d(3, 24, 14, stride=14), nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, images: Tensor) -> Tensor:
        texts, count, tiles, channels, width, height = images.shape
        x = self.cut(images.reshape(texts * count * tiles, channels, width, height)).flatten(2).mT
        assert x.shape[1] == self.patches
        return x + self.map(self.norm(x))


def test_a_tile_has_the_size_that_its_model_names() -> None:
    """More axes are put in front of the image that was tried with four."""
    from tests.capture.test_mend import found

    kwargs, tried = found(Tiled())
    assert tuple(kwargs["images"].shape[-3:]) == (3, 70, 70) and kwargs["images"].dim() == 6 and not tried


class Sounds(nn.Module):
    """Sound without an axis of channels, through filters that are long, and a label for each of what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.cut, self.cut2 = nn.GroupNorm(4, 24), nn.Conv1d(1, 24, 10, stride=5), nn.Conv1d(24, 24, 8, stride=4)
        self.map, self.names = nn.Linear(24, 24), nn.Embedding(12, 24)

    def forward(self, sounds: Tensor, names: Tensor) -> Tensor:
        if sounds.ndim != 2:
            raise ValueError(f"sounds have two axes, not {sounds.ndim}")
        x = self.cut2(torch.relu(self.norm(self.cut(sounds.unsqueeze(1))))).mT
        if x.shape[1] != names.shape[1]:
            raise ValueError("a name is missing")
        return x + self.map(x) * self.names(names)


def test_a_label_for_each_frame_of_a_sound() -> None:
    """Integers are refused by the norm, a short sound by the filters, and another number of labels by a condition."""
    from tests.capture.test_mend import found

    kwargs, tried = found(Sounds())
    frames = Sounds().cut2(Sounds().cut(torch.zeros(1, 1, kwargs["sounds"].shape[1]))).shape[-1]
    assert kwargs["sounds"].dtype == torch.float32 and kwargs["names"].shape[1] == frames and not tried
