"""What a block hands on beside its stream: the gain of all of it together, and how a total of states grows. Held against float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import ClaimPart, Report

WIDTH, DEPTH = 16, 24


class Unit(nn.Module):
    """x ← keep·x + f(norm(x)), and a total of the states."""

    def __init__(self, keep: float = 1.0, fade: float = 1.0, taken: float = 1.0) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)
        self.keep, self.fade, self.taken = keep, fade, taken

    def branch(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(torch.tanh(self.up(self.norm(x))))
        return out

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        x = self.keep * x + self.branch(x)
        return x, self.fade * total + self.taken * x


class Added(Unit):
    """The total is of what branches add."""

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        out = self.branch(x)
        return x + out, total - out


class Conditioned(Unit):
    """The second argument is the same for all blocks."""

    def forward(self, x: Tensor, total: Tensor) -> Tensor:  # type: ignore[override]
        return x + self.branch(x) + self.up.weight.mean() * total


def _report(block: nn.Module) -> Report:
    return screen.check(block, example_inputs=(torch.randn(2, 6, WIDTH), torch.randn(2, 6, WIDTH)), depth=DEPTH)


def _of_all(report: Report, claim: str) -> ClaimPart | None:
    return next((c for c in report.claims if c.claim == claim and c.stream is None), None)


def _measured(block: Unit) -> float:
    """The largest singular value of the map from both arguments to both results, where the branch is nothing."""
    for parameter in block.down.parameters():
        nn.init.zeros_(parameter)
    columns = []
    for start in ((1.0, 0.0), (0.0, 1.0)):
        x, total = (torch.full((1, 1, WIDTH), value, dtype=torch.float64) for value in start)
        for _ in range(DEPTH):
            x, total = block.double()(x, total)
        columns.append([x[0, 0, 0].item(), total[0, 0, 0].item()])
    return float(torch.linalg.matrix_norm(torch.tensor(columns, dtype=torch.float64), 2))


@pytest.mark.parametrize(
    ("keep", "fade", "taken", "law"),
    [
        (1.0, 1.0, 1.0, "polynomial"), (1.0, 0.5, 0.5, "linear"), (0.8, 1.0, -1.0, "linear"), (0.8, 0.7, 1.0, "bounded"),
        (0.9, 1.1, 1.0, "exponential"),
    ],
)
def test_totals(keep: float, fade: float, taken: float, law: str) -> None:
    report = _report(Unit(keep, fade, taken))
    gain, growth = _of_all(report, "identity_gain"), _of_all(report, "growth")
    assert gain is not None and isinstance(gain.value, float) and math.isclose(gain.value, _measured(Unit(keep, fade, taken)), rel_tol=1e-5)
    assert growth is not None and growth.value == law
    found = [f for f in report.findings if f.code == "R301" and "beside `stream`" in f.message]
    assert [f.outcome for f in found] == (["conditional"] if law in ("polynomial", "exponential") else [])


class Faded(Unit):
    """... of which a part is kept."""

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        out = self.branch(x)
        return x + out, self.fade * total + 0.5 * out


class Unnormed(Unit):
    """... of a map of the stream as it is, which grows with it."""

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        return x + self.branch(x), total + self.down(self.up(x))


class PostNorm(Unit):
    """The branch reads a stream that each block norms, and has no norm of its own."""

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        out = self.down(self.up(x))
        return self.norm(x + out), total + out


@pytest.mark.parametrize(
    ("kind", "fade", "law"),
    [
        (Added, 1.0, "linear"),
        (Faded, 0.5, "linear"),  # as the stream
        (Faded, -1.0, "linear"),
        (Faded, 1.1, "exponential"),
        (PostNorm, 1.0, "linear"),
        (Unnormed, 1.0, None),
    ],
)
def test_totals_of_what_blocks_add(kind: type[Unit], fade: float, law: str | None) -> None:
    torch.manual_seed(0)
    block = kind(fade=fade)
    growth = _of_all(report := _report(block), "growth")
    assert growth is not None and growth.value == law
    assert law is not None or "how all that is handed on grows is not known" in report.to_text()
    rises = [_later(block, n) / _later(block, n // 2) for n in (512, 1024)]
    assert max(rises) < 2.1 if law == "linear" else min(rises) > 2.5


def _later(block: Unit, depth: int) -> float:
    """rms of the total behind so many blocks of these weights."""
    generator = torch.Generator().manual_seed(3)
    x, total = (torch.randn(2, 6, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2))
    with torch.no_grad():
        for _ in range(depth):
            x, total = block.double()(x, total)
    block.float()
    return total.square().mean().sqrt().item()


class PostNormed(PostNorm):
    """... which a norm bounds before it is summed up."""

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        out = torch.tanh(self.down(self.up(x)))
        return self.norm(x + out), total + out


@pytest.mark.parametrize(("kind", "state"), [(PostNorm, "conditional"), (PostNormed, "closed")])
def test_a_norm_on_the_stream_does_not_bound_what_is_summed_up_besides(kind: type[Unit], state: str) -> None:
    report = _report(kind())
    assert next(c.state for c in report.channels if c.id == "R") == state
    assert {f.outcome for f in report.findings if f.code == "R201"} == {"holds" if state == "closed" else "conditional"}


class Halves(nn.Module):
    """Of one map one half goes to the stream by a norm, the other one to the total, by another function or none."""

    def __init__(self, bound: bool) -> None:
        super().__init__()
        self.norm, self.last, self.both, self.bound = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), bound

    def forward(self, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        mine, theirs = self.both(self.norm(x)).chunk(2, -1)
        return x + self.last(mine), total + (torch.tanh(theirs) if self.bound else theirs)


@pytest.mark.parametrize("bound", [False, True])
def test_what_is_summed_beside_the_stream_alone_has_a_bound_of_its_own(bound: bool) -> None:
    """It was no branch of any stream, so that the block was told to be stable."""
    report = _report(Halves(bound))
    assert report.verdict == ("stable" if bound else "conditional")
    (found,) = (f for f in report.findings if f.code == "R201" and "beside" in f.message)
    assert found.outcome == ("holds" if bound else "conditional") and (found.line is not None)


class GivenAgain(Unit):
    """The slip: the branch is added to the second argument, which every copy is given again, and the state goes on by no skip."""

    def forward(self, x: Tensor, total: Tensor) -> Tensor:  # type: ignore[override]
        return total + self.branch(x)


class TakenBack(Unit):
    """... and a tenth of it to the state, which goes on."""

    def forward(self, x: Tensor, total: Tensor) -> Tensor:  # type: ignore[override]
        return 0.9 * x + 0.1 * total + self.branch(x)


def test_an_argument_that_each_copy_is_given_again_is_no_state() -> None:
    report = _report(GivenAgain())
    assert not report.streams and report.verdict == "unknown"
    (stream,) = _report(TakenBack()).streams
    assert stream.depth == DEPTH


def test_conditions_are_no_totals() -> None:
    report = _report(Conditioned())
    assert _of_all(report, "growth") is None and _of_all(report, "identity_gain") is None


class Lost(nn.Module):
    """Two values of which one is made of the other: the stream goes on by one of them in each block, and in the last one too."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.maps = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4)), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        a = a + self.branch(0, b)
        b = a + self.branch(1, b)
        return a + self.branch(2, a), b + self.branch(3, b)

    def branch(self, place: int, x: Tensor) -> Tensor:
        out: Tensor = self.maps[place](self.norms[place](x)).relu()
        return out


def test_streams_are_no_totals() -> None:
    report = _report(Lost())
    assert _of_all(report, "growth") is None
