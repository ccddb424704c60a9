"""Laws that no calculus derives and the spot check measures, and bounds that are none to rely on; each beside its near miss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import ClaimPart
from tests.soundness.grammar import Attend, Design, Part
from tests.soundness.shards import Plan, one_structure

pytestmark = pytest.mark.by_the_day

DEPTH = 24


class Base(nn.Module):
    """An MLP behind a norm. x: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def body(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(self.norm(x))))
        return out


class Spiral(Base):
    """Each pair of features turns, and grows by an eighth."""

    turn = 1.125

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (16, 2)))
        return torch.view_as_real(pairs * complex(0.6 * self.turn, 0.8 * self.turn)).flatten(-2) + self.body(x)


class Circle(Spiral):
    """Each pair of features turns."""

    turn = 1.0


class Keyed(Base):
    """The stream is bound to a learned key by circular convolution: lengths of its spectrum are near one, and the largest is above it."""

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Parameter(torch.randn(32) * 32**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(self.key), n=32) + self.body(x)


class Averaged(Base):
    """Carried by transforms and numbers without a weight: the higher half of its waves is left out."""

    def forward(self, x: Tensor) -> Tensor:
        kept = (torch.arange(17) < 8).to(x.dtype)
        return torch.fft.irfft(torch.fft.rfft(x) * kept, n=32) + self.body(x)


class Leapfrog(Base):
    """x_{n+1} = 2 x_n − x_{n−1} + F: the first state is carried N times, not a power of N."""

    def forward(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * x - before + self.body(x), x


class OverMean(Base):
    """Over the mean, which may be 0: it grows with nothing, and has no second moment."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y / y.mean(-1, keepdim=True)


class OverRms(Base):
    """Over the rms."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt()


class OverMeanSquare(Base):
    """The root was forgotten: below 5e5 in rms, which is no bound in practice."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y / (y.square().mean(-1, keepdim=True) + 1e-12)


def _report(block: str) -> screen.Report:
    return screen.check(f"{__file__}::{block}", depth=DEPTH, isolate=False)


def _claim(report: screen.Report, name: str, weights: str) -> ClaimPart:
    return next(c for c in report.claims if c.claim == name and c.weights == weights and c.sublayer is None)


@pytest.mark.parametrize(
    ("block", "growth", "law"), [("Spiral", "exponential", "exponential"), ("Circle", "linear", "power"), ("Leapfrog", None, None)]
)
def test_a_stream_whose_linear_part_is_run_again_and_again(block: str, growth: str | None, law: str | None) -> None:
    report = _report(block)
    if growth is None:
        assert _claim(report, "growth", "fixed").value != "exponential"
    else:
        assert _claim(report, "growth", "fixed").value == growth
        assert _claim(report, "gradient_law", "start").value in (law, None)


def _size(blocks: list[nn.Module], x: Tensor) -> float:
    for block in blocks:
        x = block(x)
    return float(x.square().mean().sqrt())


def test_one_draw_of_weights_on_the_stream_shows_no_law_at_fixed_ones() -> None:
    found = _claim(_report("Keyed"), "growth", "fixed")
    assert found.value is None and "multiplied by weights" in found.reason
    assert _claim(_report("Averaged"), "growth", "fixed").value in ("bounded", "linear")  # no weight: what one draw shows is what every one does
    torch.manual_seed(0)
    with torch.no_grad():
        blocks, x = [Keyed().double() for _ in range(48)], torch.randn(2, 8, 32, dtype=torch.float64)
        assert _size(blocks, x) < 10 < 1e6 < _size(blocks[:1] * 48, x)  # apart they shrink it, alike they multiply it


@pytest.mark.parametrize(("block", "bounded", "d"), [("OverRms", True, "closed"), ("OverMeanSquare", None, None), ("OverMean", False, "open")])
def test_a_bound_that_is_none_to_rely_on(block: str, bounded: bool | None, d: str | None) -> None:
    report = _report(block)
    output = next(c for c in report.claims if c.claim == "output_bounded")
    assert output.value == bounded
    state = next(c.state for c in report.channels if c.id == "D")
    assert d is None or state == d


CENTRED = (
    Design(
        (Part("linear_attention", "wide_eps", "lp1", twist="double_norm"),), depth=3, width=16, tokens=5, carry="in_place", end="centred"
    ),
    Design((Part("hand", "hand_layer", attend=Attend("hand", qk="full LayerNorm")),), depth=3, width=8, carry="in_place", end="centred"),
    Design((Part("hand", "hand_rms", attend=Attend("hand")),), depth=3, width=8, carry="in_place", end="centred"),
)
"""Blocks that end with a centring: norms by hand begin in front of it. Their slopes were once said to be 0, and maps behind them to read no mean."""


@pytest.mark.parametrize("design", CENTRED, ids=lambda d: d.line)
def test_a_norm_that_begins_before_what_its_branch_reads(design: Design) -> None:
    found = one_structure(0, design, Plan(draws=4, steps=10))
    assert not found.violations and not found.errors and found.checks["lipschitz"] > 0


class Squares(Base):
    """Half of what is multiplied is read without the norm, and squared: the stream leaves the range of floats within 24 blocks."""

    def forward(self, x: Tensor) -> Tensor:
        before, h = F.pad(x, (0, 0, 1, -1)), self.norm(x)
        return x + self.down(9 * F.relu(self.up(h + 0.5 * (before - h))) ** 2)


class Quotient(Base):
    """Nothing over nothing for the first token, which is no growth."""

    def forward(self, x: Tensor) -> Tensor:
        before, h = F.pad(x, (0, 0, 1, -1)), self.norm(x)
        return x + self.body(h) * before / before.abs()


def test_what_leaves_the_range_of_floats_grows_exponentially() -> None:
    report = _report("Squares")
    assert _claim(report, "growth", "fixed").value == "exponential"
    assert {c.id: c.state for c in report.channels}["D"] == "open" and "beyond the range of floats" in report.summary
    assert "e+299" not in report.to_markdown() + report.to_text()


def test_what_is_no_number_at_once_shows_no_law() -> None:
    report = _report("Quotient")
    assert _claim(report, "growth", "fixed").value is None and _claim(report, "rms_ratio", "start").value is None


class Encoded(nn.Module):
    """Blocks whose branches read what a stack of others makes of the same input: one stream stands in the branches of the other."""

    normed, apart = False, False

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        self.encoder, self.blocks = (nn.ModuleList(Base() for _ in range(n)) for _ in range(2))
        self.maps, self.norm = nn.ModuleList(nn.Linear(32, 32) for _ in range(n)), nn.LayerNorm(32)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        memory, x = (x if self.apart else y), y.flip(1)
        for layer in self.encoder:
            memory = memory + layer.body(memory)
        memory = self.norm(memory) if self.normed else memory
        for block, read in zip(self.blocks, self.maps, strict=True):
            x = x + block.body(x)
            x = x + read(F.scaled_dot_product_attention(block.norm(x), memory, memory))
        return x


class EncodedNormed(Encoded):
    """Behind a norm it is of one size."""

    normed = True


class EncodedApart(Encoded):
    """Of another input."""

    apart = True


class EncodedApartNormed(EncodedNormed, EncodedApart):
    """Of another input, behind a norm."""


@pytest.mark.parametrize(("model", "law"), [(Encoded, None), (EncodedApart, None), (EncodedNormed, "linear"), (EncodedApartNormed, "linear")])
def test_no_law_is_measured_of_a_stream_that_reads_a_growing_one(model: type[Encoded], law: str | None) -> None:
    report = screen.check(model(), example_inputs=(torch.randn(2, 8, 32), torch.randn(2, 8, 32)))
    main = [s.name for s in report.streams if s.role != "inner"][-1]
    assert [c.value for c in report.claims if c.claim == "growth" and c.weights == "fixed" and c.stream == main] == [law]
