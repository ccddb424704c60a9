"""Streams whose branches may grow with them and are not shown to: some blocks, repeated from much larger states, tell what is exponential."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.pipeline import two_depths

WIDTH, DEPTH = 24, 6


class Net(nn.Module):
    """A branch whose bound grows with the stream, while it need not: x / max|x| is bounded, and what multiplies it again is not."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.up, self.down, self.again = nn.Linear(WIDTH, 48, bias=False), nn.Linear(48, WIDTH, bias=False), again
        nn.init.normal_(self.up.weight, std=WIDTH**-0.5)
        nn.init.normal_(self.down.weight, std=48**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        top = x.abs().amax(-1, keepdim=True).clamp_min(1e-5)
        out = self.down(F.relu(self.up(x / top)))
        return out * top if self.again else out  # type: ignore[no-any-return]


class Words(nn.Module):
    """A whole model of such nets behind norms and without, in turn."""

    def __init__(self, again: bool = True, depth: int = DEPTH) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, 40)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))
        self.mixers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))
        self.nets = nn.ModuleList(Net(again) for _ in range(depth))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for norm, mixer, net in zip(self.norms, self.mixers, self.nets, strict=True):
            x = x + mixer(norm(x).cumsum(1) / 8)
            x = self.carried(x, net)
        return self.head(x)  # type: ignore[no-any-return]

    def carried(self, x: Tensor, net: nn.Module) -> Tensor:
        return x + net(x)  # type: ignore[no-any-return]


class WordsHeld(Words):
    def __init__(self) -> None:
        super().__init__(again=False)


class WordsShared(Words):
    """The net's share of a mean: nothing grows."""

    def carried(self, x: Tensor, net: nn.Module) -> Tensor:
        return 0.9 * x + 0.1 * net(x)  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net(again=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * self.net(x)  # type: ignore[no-any-return]


class Collected(Block):
    """Half of the stream, and what is added in place to zeros of the block: kept from one repetition to the next it would grow again and again."""

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(8, WIDTH, dtype=x.dtype, device=x.device).repeat(2, 1, 1)
        out.index_add_(1, torch.arange(8), 0.2 * self.net(x))
        return 0.5 * x + out


class Shifted(Block):
    """Reads the tokens before alone: whatever its weights are, a power of the depth."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.2 * self.net(F.pad(x, (0, 0, 1, -1)))  # type: ignore[no-any-return]


class Velocity(Block):
    """(x, v): what is added is bounded, and the velocity that is kept carries a large state on by as much again and again."""

    def forward(self, x: Tensor) -> Tensor:
        x, v = x.chunk(2, 1)
        top = x.abs().amax(-1, keepdim=True) + 1e-5
        v = v + torch.where(top > 0, self.net.down(F.relu(self.net.up(x / top))), x)
        return torch.cat((x + v, v), 1)


class Thin(nn.Module):
    """A thin update whose second map starts at zero, of the raw stream beside a net of its norm. x: [2, 8, 24]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.down, self.up = nn.Linear(WIDTH, 4, bias=False), nn.Linear(4, WIDTH, bias=False)
        nn.init.zeros_(self.up.weight)

    def read(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return x + self.map(self.norm(x)) + self.up(self.down(self.read(x)))  # type: ignore[no-any-return]


class ThinOfNorm(Thin):
    def read(self, x: Tensor) -> Tensor:
        return self.norm(x)  # type: ignore[no-any-return]


class ThinGate(Thin):
    """Each feature times 1 and a little of either sign, by a map that starts at zero: one draw again and again would make some features grow."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH, bias=False)
        nn.init.zeros_(self.gate.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.map(self.norm(x)) + 0.05 * self.gate(self.norm(x)).tanh() * x  # type: ignore[no-any-return]


class ThinOfBefore(Thin):
    """Reads the tokens before alone: a power of the depth, of any weights."""

    def read(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 1, -1))


def growth(target: object, **given: object) -> str | None:
    claims = screen.check(target, **given).claims  # type: ignore[arg-type]
    (claim,) = [c for c in claims if c.claim == "growth" and c.weights == "fixed"]
    return claim.value if claim.status != "unknown" else None  # type: ignore[return-value]


@pytest.mark.parametrize(("model", "law"), [(Words, "exponential"), (WordsHeld, "linear"), (WordsShared, None)])
def test_a_whole_model_is_repeated_between_its_ends(model: type[Words], law: str | None) -> None:
    assert growth(model(), example_inputs=torch.randint(0, 40, (2, 10))) == law


@pytest.mark.parametrize(("block", "law"), [(Block, "exponential"), (Shifted, None), (Velocity, None)])
def test_a_power_of_the_depth_is_no_exponential(block: type[Block], law: str | None) -> None:
    assert growth(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=24) == law


@pytest.mark.parametrize(("block", "law"), [(Thin, "exponential"), (ThinOfNorm, "linear"), (ThinOfBefore, None), (ThinGate, None)])
def test_a_branch_that_starts_at_zero_is_woken(block: type[Thin], law: str | None) -> None:
    """Told to be linear, as its start is; weights that have been trained make it grow."""
    assert growth(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=24) == law


def test_a_page_says_that_weights_were_drawn() -> None:
    text = screen.check(Thin(), example_inputs=torch.randn(2, 8, WIDTH), depth=24).to_text()
    assert "with draws for weights that start at zero" in " ".join(text.split())


class Leaps(nn.Module):
    """x, before = 2x − before + …, a power of the depth: each block reads more of the blocks before than the state that enters it."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(Net(again=True) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        before = x
        for net in self.nets:
            x, before = 2 * x - before + 0.1 * net(F.pad(before, (0, 0, 1, -1))), x
        return x


def test_blocks_that_read_more_of_those_before_are_not_repeated() -> None:
    """With the state before held still 2x − before would double in every block."""
    assert growth(Leaps(), example_inputs=torch.randn(2, 8, WIDTH)) != "exponential"


def test_a_repetition_begins_with_what_it_reads_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its states fall by a half and more in every block; with zeros that were written to they were 7,000 behind 24 blocks, from a million."""
    seen: list[list[list[float]]] = []
    monkeypatch.setattr(two_depths, "multiplies", lambda runs, period, felt=0.0: bool(runs and seen.append(runs)))
    growth(Collected(), example_inputs=torch.randn(2, 8, WIDTH), depth=24)
    assert seen and all(runs[0][24] < 10 for runs in seen)
