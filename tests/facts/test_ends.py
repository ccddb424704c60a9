"""Where a stream ends, what is written into it, and quotients that are no softmax; each beside its near miss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.build.build import build_object
from screen.capture.trace.loop import alone
from screen.capture.trace.tracer import trace
from screen.facts import Facts, derive
from screen.graph.unloop import first_copy
from screen.report import render
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

WIDTH = 16


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 4, WIDTH),)


class Merged(nn.Module):
    """Every second layer takes the mean with the state of two layers ago; the last factor stands behind the last sum."""

    factor = 0.5

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))  # noqa: E731
        self.blocks = nn.ModuleList(one() for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        saved = x
        for i, block in enumerate(self.blocks):
            x = x + block(x)
            if i % 2:
                saved = x = self.factor * (x + saved)
        return x


class MergedSum(Merged):
    """Their sum: doubled four times."""

    factor = 1.0


class MiddleAgain(Merged):
    """The state in the middle is added again at the end: what the first half adds is carried on twice, what the second half adds once."""

    def __init__(self) -> None:
        super().__init__(12)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks[:6]:
            x = x + block(x)
        middle = x
        for block in self.blocks[6:]:
            x = x + block(x)
        return x + middle


class StatesAgain(MiddleAgain):
    """The states of the first half are added again one by one: the block before the middle is carried on twice, the first one seven times."""

    def forward(self, x: Tensor) -> Tensor:
        states = []
        for block in self.blocks[:6]:
            x = x + block(x)
            states.append(x)
        for block in self.blocks[6:]:
            x = x + states.pop()
            x = x + block(x)
        return x


class Fours(Merged):
    """Behind every fourth layer the stream is the sum of all four states, divided by a number."""

    factor = 2.0

    def forward(self, x: Tensor) -> Tensor:
        states: list[Tensor] = []
        for block in self.blocks:
            x = x + block(x)
            states.append(x)
            if len(states) == 4:
                x, states = sum(states[1:], states[0]) / self.factor, []
        return x


class FoursMean(Fours):
    """Their mean."""

    factor = 4.0


class Towers(nn.Module):
    """Two towers on one input, one behind the other; their ends are joined, and nothing else is behind them than a norm."""

    def __init__(self, n: int = 4) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))  # noqa: E731
        self.first, self.second = nn.ModuleList(one() for _ in range(n)), nn.ModuleList(one() for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.begin(x)
        for block in self.first:
            a = a + block(a)
        for block in self.second:
            b = b + block(b)
        return F.layer_norm(self.join(a, b), (WIDTH,))

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class TowersHalf(Towers):
    """Half of their sum."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return (a + b) / 2


class TowersMean(Towers):
    """Their mean, as that of a stack."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.stack([a, b], 1).mean(1)


class TowersDifference(Towers):
    """What both began with is taken off again."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b


class TowersWeighed(Towers):
    """A tenth of the one, three times the other, and a constant."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return 0.1 * a + 3 * b + 0.5


class TowersScaled(Towers):
    """The second one begins with three times what the first one begins with."""

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, 3 * x


class Remembered(nn.Module):
    """Beside the stream stands a memory of half of itself and half of what the blocks add; it alone is returned."""

    returned = 1

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        carried = x, torch.zeros_like(x)
        for block in self.blocks:
            y = block(torch.cat(carried, -1))
            carried = carried[0] + y, 0.5 * (carried[1] + y)
        return carried[self.returned]


class Forgotten(Remembered):
    """The stream is returned."""

    returned = 0


class TowersSwapped(Towers):
    """A state and its moving average change places from block to block: each is a mean of both."""

    def forward(self, x: Tensor) -> Tensor:
        m = x
        for block in (*self.first, *self.second):
            m = m.lerp(x, 0.1)
            x, m = m, x + block(x)
        return x


class TowersByMatrix(Towers):
    """Their mean by a matrix that nothing is known of."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("n,nbtd->btd", torch.full((2,), 0.5), torch.stack([a, b]))


class TowersBeside(Towers):
    """Beside each other: no sum."""

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([a[..., : WIDTH // 2], b[..., WIDTH // 2 :]], -1)


class TowersApart(Towers):
    """The second one begins with a map of the input: they share nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.map(x)


class Stacked(nn.Module):
    """A stack of pre-normed branches; what stands before, between and behind its blocks is what the classes below say."""

    def __init__(self, n: int = 6) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))  # noqa: E731
        self.blocks, self.map, self.head = nn.ModuleList(one() for _ in range(n)), nn.Linear(WIDTH, WIDTH), one()

    def begin(self, x: Tensor) -> Tensor:
        return x

    def between(self, x: Tensor) -> Tensor:
        return x

    def end(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = self.begin(x)
        for number, block in enumerate(self.blocks):
            x = self.between(x) if number == 3 else x
            x = x + block(x)
        return self.end(x)


class Multiplied(Stacked):
    """By a number, before the first block."""

    def begin(self, x: Tensor) -> Tensor:
        return -x * 4.0


class Mapped(Stacked):
    """By weights: the stream begins with what they give."""

    def begin(self, x: Tensor) -> Tensor:
        out: Tensor = self.map(x) * 4.0
        return out


class Transition(Stacked):
    """A map between two of the blocks: nothing of the input passes both halves."""

    def between(self, x: Tensor) -> Tensor:
        out: Tensor = self.map(x)
        return out


class TransitionBeside(Transition):
    """... beside the stream itself, which passes."""

    def between(self, x: Tensor) -> Tensor:
        return x + super().between(x)


class Unadded(Stacked):
    """What the last block gives is returned, and nobody adds it."""

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks[:-1]:
            x = x + block(x)
        out: Tensor = self.blocks[-1](x)
        return out


class NotAround(Stacked):
    """Nothing goes around the first block."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks[0](x)
        for block in self.blocks[1:]:
            x = x + block(x)
        return x


class SummedOnce(Stacked):
    """All states are summed behind the last block: the first one, and six that carry it."""

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for block in self.blocks:
            states.append(states[-1] + block(states[-1]))
        return torch.stack(states).sum(0) / 2


class MeanOfTwo(Stacked):
    """Each state is the mean of a block's sum and the state before the last: sums of two, halved, the last one too."""

    def forward(self, x: Tensor) -> Tensor:
        before = x
        for block in self.blocks:
            x, before = (x + block(x) + before) / 2, x
        return F.layer_norm(x, (WIDTH,))


class Headed(Stacked):
    """A head of the same class that stands in no list."""

    def end(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x)
        return out


class Radial(nn.Module):
    """Radial functions of the stream, divided by a number in every block."""

    def __init__(self) -> None:
        super().__init__()
        self.spline = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.register_buffer("grid", torch.linspace(-1.0, 1.0, 4))

    def basis(self, x: Tensor) -> Tensor:
        return torch.exp(-(((x[..., None] - self.grid) / 0.5) ** 2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.spline(self.basis(x).flatten(-2))
        return out


class RadialShares(Radial):
    """Divided by their sum: a softmax."""

    def basis(self, x: Tensor) -> Tensor:
        found = super().basis(x)
        return found / found.sum(-1, keepdim=True)


class DoubledInPlace(nn.Module):
    """The first half of a clone is added to itself, with a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH // 2)

    def forward(self, x: Tensor) -> Tensor:
        y, h = F.gelu(self.map(self.norm(x))), x.clone()
        h[..., : WIDTH // 2] += y + h[..., : WIDTH // 2]
        return h


class Filled(nn.Module):
    """The stream is copied into a new tensor, and the branch is added there."""

    half = False

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out.copy_(0.5 * x if self.half else x)
        out += F.gelu(self.map(self.norm(x)))
        return out


class FilledHalf(Filled):
    """Half of it."""

    half = True


class FilledWithOther(Filled):
    """The stream is overwritten by its norm: nothing of itself is left."""

    def forward(self, x: Tensor) -> Tensor:
        out = x.clone()
        out.copy_(self.norm(x))
        out += F.gelu(self.map(out))
        return out


def report(name: str, depth: int | None = None) -> Report:
    return screen.check(f"{__file__}::{name}", depth=depth, isolate=False)


def facts(name: str) -> Facts:
    """Without a loop around it: it reads what it gives, and is no block."""
    [built] = build_object(globals()[name](), example_inputs=example_inputs())
    return derive(trace(alone(built).model, built.args, built.kwargs, initialisers=built.initialisers))


@pytest.mark.parametrize(("name", "gain"), [("Merged", 1.0), ("MergedSum", 16.0), ("Fours", 4.0), ("FoursMean", 1.0)])
def test_a_stream_ends_at_the_output_of_the_model(name: str, gain: float) -> None:
    assert max(c.value for c in report(name).claims if c.claim == "identity_gain" and isinstance(c.value, float)) == pytest.approx(gain)


@pytest.mark.parametrize(
    ("name", "gain", "channel"), [("Filled", 1.0, "closed"), ("FilledHalf", 0.5**8, "conditional"), ("FilledWithOther", None, "conditional")]
)
def test_what_is_copied_is_what_is_carried(name: str, gain: float | None, channel: str) -> None:
    found = report(name, 8)
    claim = next(c for c in found.claims if c.claim == "identity_gain")
    assert (claim.value, claim.status == "proved") == (gain, gain is not None)
    assert next(c.state for c in found.channels if c.id == "D") == channel


@pytest.mark.parametrize(("name", "law"), [("MiddleAgain", None), ("StatesAgain", "polynomial")])
def test_one_step_is_no_law(name: str, law: str | None) -> None:
    assert [c.value for c in report(name).claims if (c.claim, c.weights) == ("growth", "fixed")] == [law]


SUMS = {"Towers": 2.0, "TowersHalf": 1.0, "TowersMean": 1.0, "TowersDifference": 0.0, "TowersWeighed": 3.1, "TowersScaled": 4.0}


@pytest.mark.parametrize("name", SUMS)
def test_streams_that_are_summed_have_the_gain_of_their_sum(name: str) -> None:
    claims = [c for c in facts(name).claims if c.claim == "identity_gain"]
    assert [c.value for c in claims if c.stream is None] == pytest.approx([SUMS[name]])
    assert {c.value for c in claims if c.stream is not None} == {1.0}, "each has a gain of its own"


def test_means_of_streams_have_gain_1() -> None:
    found = [c.value for c in facts("TowersSwapped").claims if c.claim == "identity_gain" and c.stream is None]
    assert [v for v in found if v is not None] == pytest.approx([1.0] * len(found))


@pytest.mark.parametrize(("name", "told"), [("TowersByMatrix", [None]), ("TowersBeside", []), ("TowersApart", [])])
def test_no_gain_is_made_up_for_streams_that_are_no_sum(name: str, told: list[float | None]) -> None:
    assert [c.value for c in facts(name).claims if c.claim == "identity_gain" and c.stream is None] == told


@pytest.mark.parametrize(
    ("name", "gain"),
    [("Stacked", []), ("Mapped", []), ("TransitionBeside", []), ("Headed", []), ("Multiplied", [4.0]), ("Transition", [0.0]), ("Unadded", [0.0]),
     ("NotAround", [0.0]), ("SummedOnce", [3.5]), ("MeanOfTwo", [1.0])],
)
def test_what_stands_around_the_stream_counts_for_the_model(name: str, gain: list[float]) -> None:
    claims = [c for c in facts(name).claims if c.claim == "identity_gain"]
    assert [c.value for c in claims if c.stream is None] == gain
    assert {c.value for c in claims if c.stream is not None} == {2.0 if name == "MeanOfTwo" else 1.0}


@pytest.mark.parametrize(("name", "gain"), [("Remembered", [0.0]), ("Forgotten", [])])
def test_a_memory_of_what_blocks_add_has_nothing_of_the_stream(name: str, gain: list[float]) -> None:
    assert [c.value for c in facts(name).claims if c.claim == "identity_gain" and c.stream is None] == gain


def test_every_page_has_the_gain_of_the_model_where_no_stream_has_it() -> None:
    reports = {n: report(n) for n in ("TowersScaled", "TowersByMatrix", "TowersApart")}
    said = {n: [render(found, f) for f in ("text", "markdown", "html")] for n, found in reports.items()}
    assert "model  gain of all identity paths together: 4, where each stream has its own" in said["TowersScaled"][0]
    assert all("4, where each stream has its own." in page for page in said["TowersScaled"][1:])
    assert all("together: not known: how " in " ".join(page.split()).replace("</a>", "").replace("<code>", "") for page in said["TowersByMatrix"])
    assert not any("paths together" in page for page in said["TowersApart"])


def test_the_gain_of_a_sum_is_measured() -> None:
    [whole] = [c for c in report("TowersScaled").claims if c.claim == "identity_gain" and c.stream is None]
    assert whole.measured is not None and (whole.measured.value, whole.measured.agrees) == (4.0, True)


def test_what_turns_out_to_be_no_block_keeps_no_ranges_of_other_copies() -> None:
    [built] = build_object(TowersByMatrix(), example_inputs=example_inputs())
    graph = first_copy(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    assert graph.ranges and max(node for node, _, _ in graph.ranges) < len(graph.nodes)


def test_a_quotient_by_a_number_is_no_softmax() -> None:
    said = [next(c.value for c in report(n, 4).claims if c.claim == "softmax" and c.sublayer is None) for n in ("Radial", "RadialShares")]
    assert said == [False, True]


def test_what_is_written_with_the_stream_in_it_is_not_measured_as_nothing() -> None:
    gain = next(c for c in report("DoubledInPlace", 8).claims if c.claim == "identity_gain")
    assert gain.value is None


class FirstNorm(nn.Module):
    """A norm that the first block alone has (RWKV's of the embedding), or every one."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.first, self.norm = nn.LayerNorm(WIDTH) if normed else None, nn.LayerNorm(WIDTH)
        self.f = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.first is not None:
            x = self.first(x)
        return x + self.f(self.norm(x))


@pytest.mark.parametrize(("every", "gain"), [(False, "1"), (True, None)])
def test_a_norm_that_only_the_first_block_has_comes_before_all_blocks(every: bool, gain: str | None) -> None:
    torch.manual_seed(0)
    report = screen.check(nn.Sequential(*(FirstNorm(every or i == 0) for i in range(6))), example_inputs=torch.zeros(2, 4, WIDTH), spot_check=False)
    [stream] = report.streams
    assert (stream.identity_path.gain, stream.identity_path.exists) == (gain, not every)
    assert every or stream.embed_norm is True
