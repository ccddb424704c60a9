"""Laws of gradients over depth at sites where they are known by mathematics: 1 + c/l is a power of depth, what is made for a depth is flat,
and a product with the stream's own norm is neither."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.facts.claims.gradients import FLAT, HORIZON, size_later

pytestmark = pytest.mark.by_the_day

WIDTH, DEPTH = 12, 24


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 8, WIDTH),)


class Mlp(nn.Module):
    """Independent increments of one size: ‖x_l‖² is a + b·l, and a block multiplies squared gradients by 1 + b/(a + b·l). x: [2, 8, 12]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def body(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(self.norm(x))))
        return out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Hardly(Mlp):
    """A hundred-thousandth of it: nothing after a thousand blocks."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-5 * self.body(x)


class MadeForDepth(Mlp):
    """Over the root of the depth: a deeper stack has another factor."""

    def forward(self, x: Tensor) -> Tensor:
        return x + DEPTH**-0.5 * self.body(x)


class Gpt(Mlp):
    """A stream of 24 small increments whose last maps start at a share of the first ones."""

    share = (2 * DEPTH) ** -0.5

    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.up.weight, std=0.4)
        nn.init.normal_(self.down.weight, std=0.4 * self.share)


class GptElsewhere(Gpt):
    """... that is made for no depth."""

    share = 0.18


class Product(nn.Module):
    """Entries are multiplied by random factors: the largest of a token walks at random along its own axis, and each time that it comes back to 0,
    √N times in N blocks, gradients are multiplied by a number: exp(c·√N)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + 2 * h * self.map(h)


class Mapped(Product):
    """A map behind the product makes an independent increment of it."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.out(h * self.map(h))


def _map(inputs: int, outputs: int) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(made.weight, std=inputs**-0.5)
    return made


class Gated(nn.Module):
    """A gated net, of degree two in what it reads: E|J|²·E|x|² = 2·E|f|²."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.gate, self.up, self.down = _map(WIDTH, 2 * WIDTH), _map(WIDTH, 2 * WIDTH), _map(2 * WIDTH, WIDTH)

    def body(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class Forgets(Gated):
    """The stream forgets a part in each block, and the branch brings it back to its size: 0.49 + 2·0.51 in squares, back over forth."""

    keeps = 0.7

    def forward(self, x: Tensor) -> Tensor:
        return self.keeps * x + (1 - self.keeps**2) ** 0.5 * self.second(self.body(self.first(x)))


class ForgetsSlowly(Forgets):
    """0.9025 + 2·0.0975: 1.0476 a block, which looks like a power over 24; and 0.95^24 may be made for 24."""

    keeps = 0.95


class ForgetsHardly(Forgets):
    """1.005 a block: 3 over 200 blocks, and nothing that 24 of them show."""

    keeps = 0.995


class Grows(Gated):
    """1.01 on the skip: at few blocks a power."""

    def forward(self, x: Tensor) -> Tensor:
        return 1.01 * x + self.body(self.first(x))


class Normed(Gated):
    """A norm on the stream."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(x + self.body(x))
        return out


class OncePerDepth(Gated):
    """1 + 2/N on the sum: e² in all at any depth, and gradients are a power."""

    def forward(self, x: Tensor) -> Tensor:
        return (1 + 2 / DEPTH) * (x + self.body(self.first(x)))


class Stack(nn.Module):
    def __init__(self, block: type[nn.Module], depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def told(block: type[nn.Module], depth: int = DEPTH, spot: bool = True) -> tuple[object, str]:
    """The claim, and the channel."""
    report = screen.check(f"{__file__}::{block.__name__}", depth=depth, isolate=False, spot_check=spot)
    law = next(c.value for c in report.claims if c.claim == "gradient_law")
    return law, next(c.state for c in report.channels if c.id == "D")


@pytest.mark.parametrize(
    ("block", "law", "channel"),
    [
        (Mlp, "power", "closed"),
        (Hardly, "flat", "closed"),
        (MadeForDepth, "flat", "closed"),
        (Gpt, "flat", "closed"),
        (GptElsewhere, "power", "closed"),
        (Product, None, "conditional"),
        (Mapped, "power", "closed"),
    ],
)
def test_what_is_told(block: type[nn.Module], law: str | None, channel: str) -> None:
    assert told(block) == (law, channel)


@pytest.mark.parametrize(
    ("block", "depth", "law", "channel"),
    [
        (Forgets, 24, "exponential", "open"),
        (ForgetsSlowly, 24, None, "conditional"),
        (ForgetsSlowly, 12, None, "conditional"),
        (ForgetsSlowly, 96, "exponential", "open"),
        (Normed, 16, "exponential", "conditional"),
        (Normed, 96, "exponential", "open"),
        (OncePerDepth, 24, None, "conditional"),
    ],
)
def test_a_law_is_read_off_what_a_block_does_and_not_off_one_depth(block: type[nn.Module], depth: int, law: str | None, channel: str) -> None:
    assert told(block, depth, spot=False) == (law, channel)


@pytest.mark.parametrize("blocks", [3, 6])
@pytest.mark.parametrize(
    ("block", "law"), [(Mapped, "power"), (GptElsewhere, "power"), (Hardly, "flat"), (MadeForDepth, None), (Normed, None), (Product, None)]
)
def test_the_law_of_few_blocks_is_that_of_their_like(block: type[nn.Module], law: str | None, blocks: int) -> None:
    assert told(block, blocks, spot=False)[0] == law


def test_of_two_blocks_there_is_no_law() -> None:
    assert told(Mapped, 2, spot=False)[0] is None


@pytest.mark.parametrize(("block", "channel"), [(ForgetsHardly, "closed"), (Grows, "conditional")])
def test_no_law_that_few_blocks_show_is_measured_of_a_stream_that_is_scaled(block: type[nn.Module], channel: str) -> None:
    assert told(block) == (None, channel)


def test_a_closed_channel_says_what_a_block_does() -> None:
    report = screen.check(f"{__file__}::ForgetsHardly", depth=DEPTH, isolate=False, spot_check=False)
    [said] = [f.message for f in report.findings if f.code == "D202"]
    assert "multiplies gradients by 1.005 on their way back" in said and "power of depth" not in said


def test_a_law_of_many_blocks_is_not_refuted_by_the_few_that_were_traced() -> None:
    report = screen.check(f"{__file__}::Normed", depth=48, isolate=False)
    found = [c for c in report.claims if c.claim in ("gradient_law", "gradient_ratio")]
    assert found[0].value == "exponential" and all(c.measured is None or c.measured.agrees for c in found)


def test_these_are_measured_to_be_exponential_and_a_stream_that_grows_is_not() -> None:
    """From 48 to 96 and to 192 blocks an exponential gains in proportion, a power the same each time."""
    for block in (ForgetsSlowly, Normed, Mapped):
        found = [statistics.fmean(gradient(block, n, s) for s in range(3)) for n in (48, 96, 192)]
        assert (found[2] - found[1] > 1.6 * (found[1] - found[0])) is (block is not Mapped), (block, found)


def gradient(block: type[nn.Module], depth: int, seed: int) -> float:
    """Logarithm of the gradient of a random function of the end, at the start."""
    torch.manual_seed(seed)
    x = torch.randn(1, 2, WIDTH, dtype=torch.float64, requires_grad=True)
    y = Stack(block, depth).double()(x)
    (found,) = torch.autograd.grad((y * torch.randn_like(y)).sum(), x)
    return math.log(float(found.norm()))


def test_a_product_with_the_norm_is_measured_to_be_no_power_of_depth() -> None:
    """From 64 to 256 and to 1,024 blocks √N doubles, a power of depth gains a third and a quarter in its logarithm, an exponential 4 times."""
    product = [statistics.fmean(gradient(Product, n, s) for s in range(5)) for n in (64, 256, 1024)]
    plain = [statistics.fmean(gradient(Mlp, n, s) for s in range(3)) for n in (64, 256, 1024)]
    assert all(1.5 < later / before < 3.0 for before, later in pairwise(product)), product
    assert product[2] > 10.0 > plain[2]


def test_what_a_stream_is_later_is_told_from_its_last_quarter() -> None:
    straight = [math.sqrt(1 + 0.1 * n) for n in range(1, 25)]
    assert size_later(straight, 24) == pytest.approx(math.sqrt((1 + 0.1 * HORIZON) / 1.1))
    assert size_later([math.sqrt(1 + 0.1 * (1 - 0.5**n)) for n in range(1, 25)], 24) < FLAT
