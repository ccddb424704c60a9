"""Laws of depth that no calculus derives, read off one loop at two depths; and weights that are moved to see a branch grow."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.pipeline import two_depths
from screen.probe.plan.spot_types import FoundDepth
from screen.report.schema import ClaimPart
from screen.report.words import stream_facts

pytestmark = pytest.mark.by_the_day

DEPTH, DEEP = 24, 96
ROUNDS = Path(__file__).parents[1] / "adversary"


def _runs(gradient: Callable[[int, int], float], size: Callable[[int], float] = lambda k: 1.0) -> tuple[FoundDepth, ...]:
    """`gradient` of block k of n, and `size` of the stream behind k blocks."""
    return tuple(FoundDepth(n, tuple(map(size, range(n + 1))), tuple(gradient(k, n) for k in range(n))) for n in (DEPTH, DEEP))


@pytest.mark.parametrize(
    ("gradient", "law"),
    [
        (lambda k, n: 1.0 + 0.1 * math.sin(k), "flat"),
        (lambda k, n: (1 + k) ** -0.5, "power"),
        (lambda k, n: 100 * (1 + 0.3 * k) ** -1.0, "power"),
        (lambda k, n: math.exp(0.1 * (n - k)), "exponential"),
        (lambda k, n: math.exp(-0.1 * (n - k)), "exponential"),
        (lambda k, n: math.exp(0.01 * (n - k)), None),  # one draw of 96 blocks may look so
        (lambda k, n: math.exp(math.sqrt(n) - math.sqrt(k)), None),
        (lambda k, n: 1.0 + abs(k - n / 2), None),  # ends that are alike
        (lambda k, n: 0.0, None),
    ],
)
def test_a_law_of_gradients_is_one_at_both_depths(gradient: Callable[[int, int], float], law: str | None) -> None:
    assert two_depths.gradients(_runs(gradient)) == law


def _uneven(rate: float, noise: float) -> tuple[FoundDepth, ...]:
    """exp(rate·(n − k)), with so much noise of each block's own, as a logarithm."""
    drawn = torch.randn(DEPTH + DEEP, generator=torch.Generator().manual_seed(6), dtype=torch.float64).tolist()
    return _runs(lambda k, n: math.exp(rate * (n - k) + noise * drawn[k + (n == DEEP) * DEPTH]))


def test_no_exponential_is_told_of_gradients_that_differ_more_from_block_to_block() -> None:
    assert two_depths.gradients(_uneven(0.1, 0.2)) == "exponential"
    assert two_depths.gradients(_uneven(0.05, 1.2)) is None  # three times of it at 24 blocks, and more between two neighbours


def test_no_exponential_is_told_of_branches_that_move_a_growing_stream_less_and_less() -> None:
    steep = _runs(lambda k, n: math.exp(0.1 * (n - k)), lambda k: (1 + k) ** 0.5)
    assert two_depths.gradients(steep) == "exponential" and two_depths.gradients(steep, falls=True) is None
    assert two_depths.gradients(_runs(lambda k, n: math.exp(0.1 * (n - k))), falls=True) == "exponential"  # held small by others


def test_gradients_that_go_with_a_stream_that_has_begun_to_grow_are_not_flat() -> None:
    assert two_depths.gradients(_runs(lambda k, n: (1 + 0.012 * k) ** -0.5, lambda k: (1 + 0.012 * k) ** 0.5)) is None
    assert two_depths.gradients(_runs(lambda k, n: 1.0, lambda k: (1 + 0.012 * k) ** 0.5)) == "flat"  # what goes with it would be seen
    assert two_depths.gradients(_runs(lambda k, n: (1 + 0.004 * k) ** -0.5, lambda k: (1 + 0.004 * k) ** 0.5)) == "flat"


@pytest.mark.parametrize(
    ("size", "law"),
    [
        (lambda k: math.sqrt(1 + k), "linear"),
        (lambda k: 1.0 + k, "linear"),
        (lambda k: 1.0 + k**2, None),
        (lambda k: math.exp(0.1 * k), "exponential"),
        (lambda k: math.exp(math.sqrt(2 * k)), None),
        (lambda k: math.exp(0.01 * k), None),
    ],
)
def test_a_law_of_growth_is_one_at_both_depths(size: Callable[[int], float], law: str | None) -> None:
    assert two_depths.growth(_runs(lambda k, n: 1.0, size)) == law


def test_of_weights_that_are_drawn_for_each_block_a_little_is_no_law() -> None:
    sizes = [[first * math.exp(0.004 * k) for k in range(97)] for first in (1e6, 1e9)]
    assert two_depths.multiplies(sizes) and not two_depths.multiplies(sizes, felt=two_depths.DRAWN)


@pytest.mark.parametrize(
    ("size", "law"),
    [
        (lambda k, first: first * math.exp(0.004 * k + 0.001 * math.sin(7 * k)), True),  # too little for a law from a state of size one
        (lambda k, first: first + k, False),  # a branch of a size of its own
        (lambda k, first: first * math.exp(k * first**-0.1), False),  # of a degree below one
        (lambda k, first: first * (1 + k), False),  # a velocity that is kept
        (lambda k, first: first * (2 - 0.99**k), False),  # a mean that comes near to the largest of some values
        (lambda k, first: first * math.exp(0.01 * math.sin(7 * k)), False),
        (lambda k, first: first * math.exp(3 * k**0.7), True),  # too much for any power, though ever less
        (lambda k, first: first * math.exp(6 * k**0.2), False),
        (lambda k, first: first * (1 + k) ** 20, False),
    ],
)
def test_a_large_state_is_multiplied_by_the_same_factor_at_any_size(size: Callable[[int, float], float], law: bool) -> None:
    assert two_depths.multiplies([[size(k, first) for k in range(97)] for first in (1e6, 1e9)]) is law
    assert not two_depths.multiplies([[size(k, 1e6) for k in range(97)]]) and not two_depths.multiplies([[None] * 97] * 2)


LAST = 1.7976931348623157e308


@pytest.mark.parametrize(
    ("sizes", "law"),
    [
        ([1e6, 1e12, 1e24, 1e48, 1e96, 1e192, LAST, None], True),  # a square of the state
        ([1e6, 1e9, 1e12, 1e15, LAST, None], False),  # the same factor again and again, and then an end
        ([1e6, 1e12, 1e24, 1e48, None, None], False),  # no number, and no size
        ([1e6, LAST, None], False),
        ([1e6, 1e12, 1e24, 1e20, LAST], False),
        ([1e6, 1e6, 1e12, 1e24, 1e24, 1e48, 1e96, 1e96, LAST], True),  # in two blocks of three
        ([1e6, 1e36, 1e66, 1e96, 1e126, 1e156, 1e186, 1e216, 1e246, 1e276, LAST], False),  # the same large factor
    ],
)
def test_a_power_of_a_large_state_leaves_the_range_of_floats(sizes: list[float | None], law: bool) -> None:
    assert two_depths.multiplies([sizes, sizes]) is law and not two_depths.multiplies([sizes, [1e9] * 8])


class Base(nn.Module):
    """An MLP. x: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def body(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(x)))
        return out


class ByLength(Base):
    """Of a length below one, and longer for a longer stream: sums of squares have no row in the recursion. Gradients are flat."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        size = (y * y).sum(-1, keepdim=True)
        return x + y * size.sqrt() / (1 + size)


class LittleByLittle(Base):
    """A mean of two residual nets without a norm, each with a matrix that is divided by the root of its squares: 1.03 a block or so."""

    def forward(self, x: Tensor) -> Tensor:
        up = self.up.weight / self.up.weight.square().sum().sqrt()
        return (x + F.relu(F.linear(x, 3 * up)) @ self.down.weight.mT + x + 0.5 * F.leaky_relu(F.linear(x, self.down.weight.mT)) @ up) / 2


class LittleByLittleNormed(LittleByLittle):
    """The same of a norm."""

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(self.norm(x))


class Gate(Base):
    """A convex gate that the data make: gradients fall to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        t = torch.sigmoid(self.gate(x))
        return t * self.last(self.body(x)) + (1 - t) * x


class Shifted(Base):
    """Behind an output norm a trained vector of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(32))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.last(self.body(x)) + self.offset)


class OverDeviation(Base):
    """Over the standard deviation, the mean left in: entries that are alike have none."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.norm(x))
        return x + y / (y.std(-1, keepdim=True) + 1e-5)


class OverLength(Base):
    """Over a smooth length that is above every entry: bounded, and no row says so."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.norm(x))
        return x + y / (2 * y.abs()).logsumexp(-1, keepdim=True)


class Reads(Base):
    """Reads a learned memory; what is read is a plain table."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values = nn.Parameter(torch.randn(1, 24, 32)), nn.Parameter(torch.randn(1, 24, 32))

    def forward(self, x: Tensor) -> Tensor:
        return x + F.scaled_dot_product_attention(F.normalize(self.norm(x), dim=-1), F.normalize(self.keys, dim=-1), self.values)


class Sloped(Base):
    """Normed, then with a slope of its own for what is below 0."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.PReLU(8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.slope(self.last(self.body(x)))
        return out


class Half(Base):
    """The first half of the stream is normed behind the sum, the other half grows by what an output norm bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.last(self.body(x))
        return torch.cat((self.first(x[..., :16]), x[..., 16:]), -1)


class HalfFree(Half):
    """The same without the output norm: the other half is what weights make it."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.body(self.norm(x))
        return torch.cat((self.first(x[..., :16]), x[..., 16:]), -1)


class Unlearns(Base):
    """A memory that is written token by token where a key reads it: more is taken away than was there where keys are longer than one. The loop has
    more ops than all of its copies are traced with."""

    def __init__(self) -> None:
        super().__init__()
        self.maps, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
        nn.init.normal_(self.maps.weight, std=32**-0.5)

    def key(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.maps(self.norm(x)).chunk(3, -1)
        k, memory, read = self.key(k), torch.zeros(x.shape[0], 32, 32, device=x.device, dtype=x.dtype), []
        for t in range(x.shape[1]):
            missing = v[:, t] - torch.einsum("bvk,bk->bv", memory, k[:, t])
            memory = memory + torch.einsum("bv,bk->bvk", missing, k[:, t])
            read.append(torch.einsum("bvk,bk->bv", memory, q[:, t]) / 32)
        return x + self.out(torch.stack(read, 1))  # type: ignore[no-any-return]


class UnlearnsTooMuch(Unlearns):
    """Keys as they are: 32 in square length."""

    def key(self, k: Tensor) -> Tensor:
        return k


class UnlearnsTwice(Unlearns):
    """Keys of a length of three."""

    def key(self, k: Tensor) -> Tensor:
        return 3 * F.normalize(k, dim=-1)


def _claim(block: str, name: str, weights: str, *, sublayer: bool = False) -> ClaimPart:
    report = screen.check(f"{__file__}::{block}", depth=DEPTH, isolate=False)
    return next(c for c in report.claims if c.claim == name and c.weights == weights and (c.sublayer is not None) == sublayer)


@pytest.mark.parametrize(("block", "law"), [("ByLength", "flat"), ("Gate", "exponential")])
def test_a_law_that_nothing_derives_is_measured_at_two_depths(block: str, law: str) -> None:
    claim = _claim(block, "gradient_law", "start")
    assert (claim.value, claim.status) == (law, "measured")


@pytest.mark.parametrize(("block", "law", "outcome"), [("LittleByLittle", "exponential", "conditional"), ("LittleByLittleNormed", "linear", "holds")])
def test_a_slow_exponential_shows_itself_in_a_large_state(block: str, law: str, outcome: str) -> None:
    report = screen.check(f"{__file__}::{block}", depth=DEPTH, isolate=False)
    claim = next(c for c in report.claims if c.claim == "growth" and c.weights == "fixed")
    assert claim.value == law and next(f.outcome for f in report.findings if f.code == "R301") == outcome
    assert next(c.state for c in report.channels if c.id == "R") == "conditional"


def test_a_steep_power_of_branches_that_end_in_a_norm_is_no_exponential() -> None:
    """Its gradients differ by a factor of four from block to block: first over last 3, 13 and 25 at 24, 96 and 384 blocks, medians of three draws."""
    report = screen.check(f"{ROUNDS}/round23/learners.py::ManyAggregators", depth=DEPTH, isolate=False)
    assert next(c for c in report.claims if c.claim == "gradient_law").value != "exponential"
    assert next(c.state for c in report.channels if c.id == "D") == "closed"


def test_a_vector_that_starts_at_nothing_is_moved_too() -> None:
    claim = _claim("Shifted", "output_bounded", "all", sublayer=True)
    assert claim.value is False and claim.measured is not None and claim.measured.agrees


@pytest.mark.parametrize(("block", "bounded"), [("OverDeviation", False), ("OverLength", None), ("Reads", False), ("Sloped", False)])
def test_a_weight_is_looked_for_that_makes_a_branch_large(block: str, bounded: bool | None) -> None:
    assert _claim(block, "output_bounded", "all", sublayer=True).value is bounded


@pytest.mark.parametrize(("block", "law"), [("Half", "linear"), ("HalfFree", None)])
def test_a_norm_on_a_part_of_the_stream_leaves_a_bound_of_the_rest(block: str, law: str | None) -> None:
    assert _claim(block, "growth", "all").value == law


@pytest.mark.parametrize(("block", "state"), [("Unlearns", "closed"), ("UnlearnsTooMuch", "open"), ("UnlearnsTwice", "open")])
def test_the_start_of_a_loop_of_which_a_part_was_traced_is_that_of_all_its_blocks(block: str, state: str) -> None:
    """No calculus derives these sizes; the structure alone says that gradients follow a power of depth."""
    report = screen.check(f"{__file__}::{block}", depth=DEPTH, isolate=False, example_inputs="x=float32[2,16,32]")
    assert report.coverage.stamped and len(report.coverage.stamped[0].ran) < DEPTH
    found = {c.claim: c for c in report.claims if c.weights == "start" and c.sublayer is None}
    torch.manual_seed(0)
    x = first = torch.randn(2, 16, 32, dtype=torch.float64)
    for _ in range(DEPTH):
        x = globals()[block]().double()(x)
        first = x if _ == 0 else first
    grown = float((x.square().mean() / first.square().mean()).sqrt())
    assert found["rms_ratio"].status == found["gradient_ratio"].status == "measured"
    assert abs(math.log10(found["rms_ratio"].value / grown)) < 1  # type: ignore[operator]
    assert next(c.state for c in report.channels if c.id == "D") == state
    begins = dict(stream_facts(report.streams[0], report.claims))["at initialisation"]
    assert begins.startswith("last over first rms ") and begins.endswith("(measured, one draw of the weights)")
    assert dict(stream_facts(report.streams[0]))["at initialisation"] == "unknown"


def test_a_size_beyond_the_range_of_floats_is_told() -> None:
    beyond = FoundDepth(DEPTH, (1.0, 1e200, *(DEPTH - 1) * [1.7e308]), DEPTH * (None,))
    assert two_depths.numbers((beyond,), DEPTH)["rms_ratio"] > 1e299
    assert two_depths.numbers((beyond,), DEEP) == {}
