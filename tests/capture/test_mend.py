"""Inputs that no name tells: each is mended by what the failing call says of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.capture.inputs.context import Lookup
from screen.capture.inputs.mend import Failed, _by_pattern
from screen.capture.inputs.search import infer

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


def found(model: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Arguments by name, and what was tried in vain."""
    tried: list[str] = []
    args, kwargs = infer(model, Lookup(model), ((), {}), tried)
    assert not args
    return kwargs, tried


class Joint(nn.Module):
    """Two streams of two widths, a vector, and places of both streams in one table of angles."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(40, 32), nn.Linear(72, 32), nn.Linear(56, 32)

    def forward(
        self, one: Tensor, two: Tensor | None = None, three: Tensor | None = None, there: Tensor | None = None, here: Tensor | None = None
    ) -> Tensor:
        one, two = self.a(one), self.b(two)
        if there.ndim == 3:
            there = there[0]
        places = torch.cat([there, here])
        assert places.ndim == 2
        angles = torch.cat([places[:, i, None] * torch.ones(8) for i in range(3)] + [places[:, :1] * torch.ones(8)], -1)
        x = torch.cat([two, one], 1)
        return x * angles.cos()[None] + self.c(three)[:, None]


class Film(nn.Module):
    """A video whose channels and axes are read in one line, and a mask of the words that are given beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.words, self.out = nn.Linear(6 * 4, 32), nn.Linear(20, 32), nn.Linear(32, 32)

    def forward(self, hidden: Tensor, other: Tensor, keep: Tensor) -> Tensor:
        b, c, t, h, w = hidden.shape
        x = hidden.reshape(b, c, t, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, -1, c * 4)
        y = self.words(other) * keep.to(other.dtype)[..., None]
        return self.out(torch.cat([self.patch(x), y], 1))


class Lengths(nn.Module):
    """A stored table of positions that fixes how long the input is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.table = nn.Linear(24, 32), nn.Parameter(torch.zeros(1, 2 * 21, 32))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.inner(torch.cat([left, right], 1)) + self.table


def test_two_streams_and_their_places() -> None:
    kwargs, tried = found(Joint())
    assert not tried
    assert kwargs["one"].shape[-1] == 40 and kwargs["two"].shape[-1] == 72 and kwargs["three"].shape == (2, 56)
    assert kwargs["there"].shape[-2] + kwargs["here"].shape[-2] == kwargs["one"].shape[1] + kwargs["two"].shape[1]


def test_axes_that_a_line_unpacks() -> None:
    kwargs, tried = found(Film())
    assert not tried
    assert kwargs["hidden"].dim() == 5 and kwargs["hidden"].shape[1] == 6
    assert kwargs["other"].shape[-1] == 20 and kwargs["keep"].shape == kwargs["other"].shape[:2]


def test_lengths_that_meet() -> None:
    kwargs, tried = found(Lengths())
    assert not tried
    assert kwargs["left"].shape[1] + kwargs["right"].shape[1] == 42


class Blocks(nn.Module):
    """Attention in blocks of a fixed length."""

    def __init__(self) -> None:
        super().__init__()
        self.size, self.inner = 48, nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        assert x.ndim == 3
        if x.shape[1] % self.size != 0:
            raise ValueError("pad it")
        return self.inner(x)


def test_lengths_that_are_multiples() -> None:
    kwargs, tried = found(Blocks())
    assert not tried and kwargs["x"].shape == (2, 48, 32)


def test_what_a_written_pattern_refuses_says_axes_and_multiples() -> None:
    image, places = torch.empty(2, 3, 32, 32), torch.empty(2, 17)
    given = {"image": image, "places": places}
    look, found_ = Lookup(nn.Linear(3, 3)), Failed(given)
    for name, value in given.items():
        found_.put(value, frozenset([name]))

    def refused(tensor: Tensor, said: str) -> Exception:
        try:
            raise ValueError(f"Error while processing a pattern. {said}", tensor.dim())
        except ValueError as error:
            return error

    chunks = list(_by_pattern(found_, refused(image, "Shape mismatch, can't divide axis of length 32 in chunks of 14"), given, look))
    assert [(n, tuple(v.shape)) for n, v in chunks] == [("image", (2, 3, 42, 42)), ("image", (2, 3, 42, 32)), ("image", (2, 3, 32, 42))]
    for size in (4096, 16):  # all lengths of the pattern are known: neither more nor fewer
        whole = list(_by_pattern(found_, refused(places, f"Shape mismatch, 17 != {size}"), given, look))
        assert [(n, tuple(v.shape)) for n, v in whole] == [("places", (2, size))]
    axes = list(_by_pattern(found_, refused(places, "Wrong shape: expected 3 dims. Received 2-dim tensor."), given, look))
    assert axes and all(n == "places" and v.dim() == 3 for n, v in axes)


class Oblong(nn.Module):
    """A table of positions for maps that are twice as wide as high."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.table = nn.Conv2d(3, 24, 4, 4), nn.Parameter(torch.zeros(1, 24, 8, 16))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.patch(x) + self.table + self.patch(y)


def test_maps_need_not_be_square() -> None:
    kwargs, tried = found(Oblong())
    assert not tried and kwargs["x"].shape[-2:] == (32, 64) == kwargs["y"].shape[-2:]


class Steps(nn.Module):
    """One token at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.table = nn.Embedding(50, 24), nn.Embedding(9, 24)

    def forward(self, tokens: Tensor, start: int) -> Tensor:
        _, length = tokens.shape
        assert length == 1, "one at a time"
        return self.embed(tokens) + self.table.weight[start : start + length]


def test_a_length_that_is_one_number() -> None:
    kwargs, tried = found(Steps())
    assert not tried and kwargs["tokens"].shape[1] == 1


class Step(nn.Module):
    """A number and codes in three axes; which head answers depends on the number."""

    def __init__(self) -> None:
        super().__init__()
        self.tables, self.heads = nn.ModuleList(nn.Embedding(40, 24) for _ in range(5)), nn.ModuleList(nn.Linear(24, 40) for _ in range(4))

    def forward(self, step: int, codes: Tensor) -> Tensor:
        _, _, count = codes.size()
        assert step > 0, "there is nothing before the first"
        assert count == len(self.tables)
        x = torch.stack([table(codes[:, :, i]) for i, table in enumerate(self.tables)], -1)[..., : step + 1].sum(-1)
        return self.heads[step - 1](x)


def test_a_number_that_a_condition_asks_for() -> None:
    kwargs, tried = found(Step())
    assert not tried
    assert kwargs["step"] == 1 and kwargs["codes"].shape[-1] == 5 and not kwargs["codes"].dtype.is_floating_point


class Flattened(nn.Module):
    """A part lays the batch along the tokens and does not take that back: one sequence alone is no trouble."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner = nn.Embedding(40, 24), nn.Linear(24, 24)

    def forward(self, ids: Tensor) -> Tensor:
        _, _ = ids.shape
        x = self.embed(ids)
        return x + self.inner(x.view(-1, 24))


def test_one_sequence_alone() -> None:
    kwargs, tried = found(Flattened())
    assert not tried
    assert kwargs["ids"].shape[0] == 1


class Pieces(nn.Module):
    """Pieces of a padded length, each at its place in a stored table that is added to in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.table = nn.Linear(12, 32), nn.Parameter(torch.zeros(1, 7, 8, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 1)
        x = self.inner(nn.functional.pad(x, (-x.shape[-1] % 12, 0)).unflatten(-1, (-1, 12)))
        x += self.table
        return x


def test_a_length_of_which_pieces_are_made() -> None:
    kwargs, tried = found(Pieces())
    assert not tried
    assert kwargs["x"].shape[-1] == 7 and -(-kwargs["x"].shape[1] // 12) == 8


def test_features_beside_those_of_another_argument_are_shared(write: Any) -> None:
    source = """
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(48, 144), nn.Linear(48, 48)

        def forward(self, x, *, patch_mask=None):
            b, n, _ = x.shape
            if patch_mask is None:
                patch_mask = torch.zeros(b, n, dtype=torch.bool)
            q, k, v = (t.view(b, n, 4, 12).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            seen = ~patch_mask[:, None, None, :].expand(b, 4, n, n)
            return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.skip = nn.Linear(64, 48), nn.Linear(64, 48)
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, inputs, masks):
            x = torch.cat([inputs, masks.to(inputs.dtype)], dim=-1)
            x = self.first(x).relu() + self.skip(x)
            for layer in self.layers:
                x = layer(x, patch_mask=masks[..., -1].bool())
            return x
    """
    (b,) = built(write(source))
    assert runs(b) == "" and [tuple(b.kwargs[name].shape) for name in ("inputs", "masks")] == [(2, 16, 32)] * 2


def test_a_video_has_as_many_patches_as_a_table_that_is_no_parameter(write: Any) -> None:
    source = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.side = 32
            self.patches, self.map = nn.Conv3d(3, 24, (2, 8, 8), (2, 8, 8)), nn.Linear(24, 24)
            self.places = torch.zeros(1, 96, 24)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2) + self.places
            return x + self.map(x)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and tuple(b.args[0].shape if b.args else b.kwargs["x"].shape) == (2, 3, 12, 32, 32)


class Cells(nn.Module):
    """A map of cells and which of them are void: torch's own attention over them."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(96, 4)

    def forward(self, picture: Tensor, mask: Tensor) -> Tensor:
        _, c, _, _ = picture.shape
        cells = picture.flatten(2).permute(2, 0, 1).unflatten(2, (1, c)).squeeze(2)
        return cells + self.attention(cells, cells, cells, key_padding_mask=mask.flatten(1))[0]


def test_the_width_of_torch_s_own_attention_and_the_length_of_its_mask() -> None:
    values, tried = found(Cells())
    assert not tried and values["picture"].shape[1] == 96
    assert values["mask"].flatten(1).shape[1] == values["picture"].flatten(2).shape[2]
