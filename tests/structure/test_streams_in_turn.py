"""Attention to another stream that this one is read by as well, in turn, or that it is pooled of. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS, FEW = 32, 12, 3


class Look(nn.Module):
    """x + attention of N(x) to itself, or to `memory`, normed or as it is."""

    def __init__(self, normed: bool = True) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH) if normed else nn.Identity()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.norm(x)
        read = y if memory is None else self.other(memory)
        weights = torch.softmax(self.q(y) @ self.k(read).mT * WIDTH**-0.5, -1)
        return x + self.o(weights @ self.v(read))


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Turn(nn.Module):
    """Few latents look at many places, and these at the latents."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.feeds = Look(), Feed()
        self.thinks = nn.Sequential(Look(), Feed(), Look(), Feed())
        self.tells, self.after = Look(), Feed()
        self.ends = nn.LayerNorm(WIDTH)
        self.near = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, places: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        places = places + self.near(places.mT).mT
        latents = self.ends(self.thinks(self.feeds(self.reads(latents, places))))
        return self.after(self.tells(places, latents)), latents


class InTurn(nn.Module):
    """Two rounds over blocks of two streams, each of which begins with a guess of what is noise, or one round."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.words, self.head, self.last = nn.Linear(10, WIDTH), nn.Linear(WIDTH, 5), nn.LayerNorm(WIDTH)
        self.latents, self.guess, self.ends = nn.Parameter(torch.randn(FEW, WIDTH)), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.rounds = nn.ModuleList(nn.ModuleList(Turn() for _ in range(3)) for _ in range(rounds))

    def forward(self, noisy: Tensor) -> Tensor:
        before, latents = torch.zeros_like(noisy), self.latents.expand(len(noisy), -1, -1)
        for blocks in self.rounds:
            places = self.words(torch.cat([before, noisy], -1))
            for block in blocks:
                places, latents = block(places, latents)
            told = self.head(self.last(places))
            before, latents = 0.8 * noisy - 0.6 * told, self.latents + self.guess(self.ends(latents))
        return told


class Pooled(nn.Module):
    """Means of neighbours look at these as they are, are told to all of them, and think in between."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50)
        self.before, self.behind = (nn.ModuleList(nn.Sequential(Look(), Feed()) for _ in range(4)) for _ in range(2))
        self.reads, self.inside = Look(normed=False), nn.ModuleList([Feed(), *(nn.Sequential(Look(), Feed()) for _ in range(2))])
        self.told, self.norm = Look(normed=False), nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for block in self.before:
            x = block(x)
        late = nn.functional.pad(x, (0, 0, 3, -3))
        few = late.unflatten(1, (-1, 4)).mean(2)
        few = self.reads(few.flatten(0, 1).unsqueeze(1), late.unflatten(1, (-1, 4)).flatten(0, 1)).squeeze(1).unflatten(0, (len(x), -1))
        for block in self.inside:
            few = block(few)
        x = x + few.repeat_interleave(4, 1)
        x = self.told(x.unflatten(1, (-1, 4)).flatten(0, 1), few.flatten(0, 1).unsqueeze(1)).unflatten(0, (len(x), -1)).flatten(1, 2)
        for block in self.behind:
            x = block(x)
        return self.head(self.norm(x))


def roles(model: nn.Module) -> dict[str, list[list[str]]]:
    """Of each stream, by its name, the roles of each kind of block."""
    given = torch.zeros(2, TOKENS, 5) if isinstance(model, InTurn) else torch.zeros(2, TOKENS, dtype=torch.long)
    return {s.name: [[one.role for one in kind.sublayers] for kind in s.kinds] for s in screen.check(model, example_inputs=(given,)).streams}


@pytest.mark.parametrize("rounds", [1, 2])
def test_streams_that_look_at_each_other_in_turn_have_cross_attention(rounds: int) -> None:
    """Also in a first round whose end is taken off an image that the second one begins with: one of its streams is an inner one then."""
    latents, places = ["cross_attention", "ffn", "attention", "ffn", "attention", "ffn"], ["conv", "cross_attention", "ffn"]
    found = list(roles(InTurn(rounds)).values())
    assert len(found) == 2 * rounds
    assert all(kinds in ([latents] * len(kinds), [places] * len(kinds)) for kinds in found)


def test_an_inner_stream_that_looks_at_the_outer_one_has_cross_attention() -> None:
    """Its queries are means of what it looks at, and no other layer of it looks at more than itself."""
    found = roles(Pooled())["inner"]
    assert found[0] == ["cross_attention"] and [role for kind in found for role in kind].count("cross_attention") == 1


def test_a_branch_whose_values_are_read_again_is_read_by_all_that_it_is_made_of() -> None:
    """The keys of its means are made of the stream as it is, whatever later looks at what these gave: it was told to read a norm alone."""
    (stream, *_) = screen.check(Pooled(), example_inputs=(torch.zeros(2, TOKENS, dtype=torch.long),)).streams
    parts = [one for kind in stream.kinds for one in kind.sublayers if one.role == "other"]
    assert [one.placement for one in parts] == ["none", "pre"]
