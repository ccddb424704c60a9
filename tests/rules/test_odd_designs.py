"""Sentences about designs that are rare, each against what is so by mathematics or by a measurement in float64."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.build_calculi import initialisation_part
from screen.report.derived import start
from screen.report.schema import FindingPart, Report
from screen.rules.gradient_ratio import HOLDS
from screen.testing import facts_of
from tests.gradients import first_over_last

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS = 24, 8


def net(act: nn.Module | None = None) -> nn.Sequential:
    made = nn.Sequential(nn.Linear(WIDTH, 48, bias=False), act or nn.ReLU(), nn.Linear(48, WIDTH, bias=False))
    for m in (made[0], made[2]):
        nn.init.normal_(m.weight, std=m.in_features**-0.5)
    return made


class Attention(nn.Module):
    """One head of 24; the query may be cut, what is read divided, the result mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        for m in (self.q, self.k, self.v, self.o):
            nn.init.normal_(m.weight, std=WIDTH**-0.5)


class CutKeys(Attention):
    """Keys in (−3, 3) by a softsign, queries free."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.rms_norm(x, (WIDTH,))
        k = 3 * F.softsign(self.k(h))
        return x + self.o(torch.softmax(self.q(h) @ k.mT * WIDTH**-0.5, -1) @ self.v(h))  # type: ignore[no-any-return]


class OverDeviation(Attention):
    """What is read is divided by its deviation and keeps its mean: of degree 0, and large where all channels are nearly equal."""

    def forward(self, x: Tensor) -> Tensor:
        h = x / (x.var(-1, keepdim=True).sqrt() + 1e-4)
        return x + self.o(torch.softmax(self.q(h) @ self.k(h).mT * WIDTH**-0.5, -1) @ self.v(h))  # type: ignore[no-any-return]


class SteepCap(Attention):
    """A cap that does not divide by itself: 25·tanh of logits that are divided by the root of the width."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.layer_norm(x, (WIDTH,))
        s = 25 * torch.tanh(self.q(h) @ self.k(h).mT / math.sqrt(WIDTH))
        return x + self.o(s.softmax(-1) @ self.v(h))  # type: ignore[no-any-return]


class LargeGains(Attention):
    """Queries and keys of length 1, each times gains of 9."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((WIDTH,), 9.0))

    def forward(self, x: Tensor) -> Tensor:
        h = F.layer_norm(x, (WIDTH,))
        q, k = F.normalize(self.q(h), dim=-1) * self.gain, F.normalize(self.k(h), dim=-1) * self.gain
        return x + self.o(torch.softmax(q @ k.mT, -1) @ self.v(h))  # type: ignore[no-any-return]


class RawBesideNormed(nn.Module):
    """A net of degree one of the stream itself beside a gated one of a norm: 1.2 a block both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.raw, self.a, self.b, self.c = net(), nn.Linear(WIDTH, 48), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = F.rms_norm(x, (WIDTH,))
        return x + self.raw(x) + self.c(F.silu(self.a(h)) * self.b(h))  # type: ignore[no-any-return]


class EveryThird(nn.Module):
    """Two of three groups of tokens wait; the third passes a net, and all are put in order again."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net = nn.RMSNorm(WIDTH), net(nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        a, b = x[:, : TOKENS // 2], x[:, TOKENS // 2 :]
        return torch.stack((a + self.net(self.norm(a)), b), 1).flatten(1, 2)


class HalfGate(nn.Module):
    """The gate of a half holds the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net, self.gate = nn.RMSNorm(WIDTH), net(), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("given", torch.ones(WIDTH))
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, 0.6)

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(self.given) * (x + self.net(self.norm(x)))  # type: ignore[no-any-return]


class Filter(nn.Module):
    """A filter for each channel as the one branch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.taps = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.taps(self.norm(x).mT).mT  # type: ignore[no-any-return]


class UnitRows(nn.Module):
    """Weights whose rows have unit length, and no norm on the stream: one size whatever they are."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u = nn.Parameter(torch.randn(48, WIDTH)), nn.Parameter(torch.randn(WIDTH, 48))

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.3 * F.linear(F.relu(F.linear(x, F.normalize(self.w, dim=1))), F.normalize(self.u, dim=1))


class Step(nn.Module):
    """The rule of three eighths: four slopes, each made of those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def slope(self, y: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(self.norm(y))))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        one = self.slope(x)
        two = self.slope(x + one / 6)
        three = self.slope(x + two / 6)
        four = self.slope(x + three / 2)
        return x + 0.5 / 8 * (one + 3 * two + 3 * three + four)


class Writes(nn.Module):
    """A memory that forgets, unlearns along a unit key and writes, token by token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.end, self.out = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.maps, self.rate = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.maps(self.norm(x)).chunk(3, -1)
        k, rate = F.normalize(k, dim=-1), torch.sigmoid(self.rate(self.norm(x)))
        memory, read = x.new_zeros(x.shape[0], WIDTH, WIDTH), []
        for t in range(TOKENS):
            key = k[:, t].unsqueeze(-1)
            memory = 0.97 * (memory - rate[:, t, None] * key @ (key.mT @ memory)) + rate[:, t, None] * key @ v[:, t].unsqueeze(-2)
            read.append((q[:, t].unsqueeze(-2) @ memory).squeeze(-2))
        return x + self.out(self.end(torch.stack(read, 1)))  # type: ignore[no-any-return]


class Lanes(nn.Module):
    """Three copies that matrices mix, which start as the identity; their mean is given."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.RMSNorm(WIDTH), net()) for _ in range(6))
        self.mix = nn.ParameterList(nn.Parameter(torch.eye(3)) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        lanes = x.unsqueeze(-2).repeat(1, 1, 3, 1)
        for one, mix in zip(self.nets, self.mix, strict=True):
            lanes = torch.einsum("btnd,nm->btmd", lanes, mix) + one(lanes.mean(-2)).unsqueeze(-2)
        return lanes.mean(-2)


@cache
def report_on(kind: type[nn.Module]) -> Report:
    torch.manual_seed(0)
    return screen.check(kind(), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=None if kind is Lanes else 24)


def of(kind: type[nn.Module], code: str) -> FindingPart:
    return next(f for f in report_on(kind).findings if f.code == code)


def ratio(kind: type[nn.Module], depth: int = 24) -> float:
    """First over last gradient in float64, all parameters of a block, geometric mean of three draws."""
    logs = []
    for seed in range(3):
        torch.manual_seed(seed)
        blocks = [kind().double() for _ in range(depth)]
        x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
        logs.append(math.log(first_over_last(blocks, x)))
    return math.exp(sum(logs) / 3)


def test_what_one_map_alone_lifts_is_not_said_of_both() -> None:
    torch.manual_seed(0)
    block, x = CutKeys().double(), torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    h = F.rms_norm(x, (WIDTH,))
    with torch.no_grad():
        sizes = [float((block.q(h) @ (3 * F.softsign(s * block.k(h))).mT).abs().max()) for s in (1e2, 1e6)]
    assert sizes[1] < 1.1 * sizes[0]
    said = of(CutKeys, "L201")
    assert "grow with `q.weight`, and nothing" in said.plain and "reach 50" not in said.plain


def test_logits_of_a_quotient_are_not_said_to_grow_with_the_square_of_the_stream() -> None:
    said = of(OverDeviation, "L201")
    assert said.outcome == "conditional" and "is not shown to bound them" in said.message
    assert "is not shown to bound them" in of(OverDeviation, "L202").message


def test_a_division_that_stands_there_is_not_proposed() -> None:
    said = of(SteepCap, "I202")
    assert said.outcome == "violated"
    assert said.remedy == "smaller initial Q and K, or a cap that divides by itself, `c * tanh(logits / c)`"


def test_maps_before_norms_are_not_made_smaller() -> None:
    """Queries and keys of length 1 times gains of 9: their maps do nothing to logits."""
    said = of(LargeGains, "I202")
    assert said.outcome == "violated"
    assert said.remedy.startswith("smaller initial gains and scales between the norms on queries and keys and the softmax, or a cap")


def test_gradients_of_weights_are_not_said_to_grow_as_the_stream_does() -> None:
    assert 0.3 < ratio(RawBesideNormed) < 3
    said = of(RawBesideNormed, "D202")
    assert said.outcome == "conditional" and "those of weights, first over last, are" in said.message


def test_what_is_not_known_is_not_carried_on_more_than_once() -> None:
    assert ratio(EveryThird) < 20
    assert "more than once" not in of(EveryThird, "D202").message


def test_gradients_that_branches_keep_up_are_not_said_to_vanish() -> None:
    assert 0.05 < ratio(HalfGate) < 100
    said = of(HalfGate, "D202")
    assert "and gradients of weights are not: first over last is" in said.message


def test_weights_that_there_are() -> None:
    assert "has no matrix of weights" in of(Filter, "D202").message
    assert "is of one size whatever its weights are and grows with the stream" in of(UnitRows, "R201").message


@pytest.mark.parametrize("kind", (Step, Writes))
def test_slopes_and_memories_are_no_streams_within(kind: type[nn.Module]) -> None:
    report = report_on(kind)
    assert [(s.role, s.depth) for s in report.streams] == [("stream", 24)]
    assert all(f.outcome != "violated" for f in report.findings)


def test_lanes_that_start_as_the_identity() -> None:
    assert of(Lanes, "D101").remedy == "keep these matrices near what they start as"
    assert of(Lanes, "G103").outcome == "conditional"


class Tenth(nn.Module):
    """A tenth of a raw net whose weights have a product of 1."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * self.net(x)  # type: ignore[no-any-return]


class Decay(nn.Module):
    """A recurrence of sixteen steps in a branch: so many ops that not all copies of the block run."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.maps, self.out = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        keep, new, gate = self.maps(self.norm(x)).chunk(3, -1)
        state, read = torch.zeros_like(new[:, 0]), []
        for t in range(x.shape[1]):
            state = torch.tanh(torch.sigmoid(keep[:, t]) * state + (1 - torch.sigmoid(keep[:, t])) * new[:, t] * F.softplus(gate[:, t]) - 0.1 * state)
            read.append(F.silu(gate[:, t]) * state + torch.sin(state))
        return x + self.out(torch.stack(read, 1))  # type: ignore[no-any-return]


def test_a_number_before_a_branch_counts_at_its_start() -> None:
    """0.1 of a product of 1 is below 24^(-1/2)."""
    assert of(Tenth, "D301").outcome == "holds" and of(Tenth, "D301").numbers["start"] == pytest.approx(0.1, abs=0.02)


def test_copies_that_did_not_run_are_counted() -> None:
    report = screen.check(Decay(), example_inputs=torch.zeros(2, 16, WIDTH), depth=24, spot_check=False)
    assert len(report.coverage.stamped[0].ran) < 24
    assert report.streams[0].depth == 24


def test_a_number_that_a_measurement_refutes_is_not_printed() -> None:
    facts = facts_of(HOLDS[0])
    told, untold = (initialisation_part(facts.recursion(facts.streams[0]), refuted) for refuted in ((), ("gradient_ratio", "one_minus_cos")))
    assert told is not None and told.gradient_ratio is not None and "first over last" in start(told)
    assert untold is not None and start(untold).startswith("rms ") and "first over last" not in start(untold) and "cos" not in start(untold)


class NormedThenScaled(nn.Module):
    """The residual is what a norm has just given, times a factor."""

    def __init__(self, factor: float = 3.0) -> None:
        super().__init__()
        self.norm, self.f, self.factor = nn.RMSNorm(WIDTH), net(), factor

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return self.factor * x + self.f(x)  # type: ignore[no-any-return]


class AsAdvised(NormedThenScaled):
    """The sum around the norm, with the factor."""

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x + self.f(self.norm(x))  # type: ignore[no-any-return]


def test_a_skip_that_goes_around_its_norm_has_to_lose_its_factor() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    around, normed, plain = x, x, x
    for _ in range(12):
        around, normed, plain = AsAdvised().double()(around), NormedThenScaled().double()(normed), AsAdvised(1.0).double()(plain)
    assert around.square().mean().sqrt() > 1e5 > 10 > max(normed.square().mean().sqrt(), plain.square().mean().sqrt())
    for factor, words in ((3.0, "without the factor 3 on `x`"), (0.5, "without the factor 0.5 on `x`"), (1.0, "")):
        report = screen.check(NormedThenScaled(factor), example_inputs=torch.randn(2, TOKENS, WIDTH), depth=12)
        (told,) = (f.remedy for f in report.findings if f.code == "G101")
        assert told is not None and (words in told if words else "factor" not in told)


class Shares(nn.Module):
    """Tokens weighed by φ(s) over a sum of |s|."""

    def __init__(self, phi: nn.Module) -> None:
        super().__init__()
        self.norm, self.s, self.out, self.phi = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), phi

    def forward(self, x: Tensor) -> Tensor:
        s = self.s(self.norm(x))
        return x + self.out(self.phi(s) / (s.abs().sum(-1, keepdim=True) + 1e-6))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("phi", "outcome"), [(nn.ReLU(), "holds"), (nn.LeakyReLU(0.3), "holds"), (nn.Softplus(), "violated")])
def test_a_share_of_what_is_no_larger_than_its_sum_is_not_hollow(phi: nn.Module, outcome: str) -> None:
    """|φ(s)| is at most |s|, and so is the sum; log(1 + e^s) is 0.69 where all s are 0."""
    s = 1e-3 * torch.randn(8, WIDTH, dtype=torch.float64)
    largest = float((phi(s) / (s.abs().sum(-1, keepdim=True) + 1e-6)).abs().max())
    assert largest <= 1.0 if outcome == "holds" else largest > 1.0
    report = screen.check(Shares(phi), example_inputs=torch.randn(2, TOKENS, WIDTH), depth=12)
    assert next(f for f in report.findings if f.code == "G105").outcome == outcome


class OnTheSphere(nn.Module):
    """A step towards a unit vector from a unit vector; `ends` brings it back to length one."""

    def __init__(self, ends: bool = True) -> None:
        super().__init__()
        self.f, self.ends = net(), ends

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(x, dim=-1)
        x = x + 0.1 * (F.normalize(self.f(x), dim=-1) - x)
        return F.normalize(x, dim=-1) if self.ends else x


@pytest.mark.parametrize(("ends", "outcome"), [(True, "holds"), (False, "violated")])
def test_a_skip_from_what_is_of_length_one_already_is_no_normed_skip(ends: bool, outcome: str) -> None:
    x = F.normalize(torch.randn(3, WIDTH, dtype=torch.float64), dim=-1)
    assert torch.allclose(F.normalize(x, dim=-1), x)
    report = screen.check(OnTheSphere(ends), example_inputs=torch.randn(2, TOKENS, WIDTH), depth=12, spot_check=False)
    assert next(f for f in report.findings if f.code == "G101").outcome == outcome


class ChosenTokens(nn.Module):
    """A router reads a norm of all tokens; those that it chooses are normed for a branch: `again` behind another branch."""

    def __init__(self, by_indices: bool, again: bool) -> None:
        super().__init__()
        self.norm, self.route, self.f, self.g, self.by_indices, self.again = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 1), net(), net(), by_indices, again

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = torch.sigmoid(self.route(self.norm(x))).topk(4, dim=1)
        if self.again:
            x = x + self.g(self.norm(x))
        chosen = chosen.expand(-1, -1, WIDTH)
        some = torch.take_along_dim(x, chosen, 1) if self.by_indices else x.gather(1, chosen)
        return x.scatter(1, chosen, weight * (some + self.f(self.norm(some))))


@pytest.mark.parametrize("by_indices", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_tokens_that_are_chosen_have_the_norm_that_they_had(by_indices: bool, again: bool) -> None:
    report = screen.check(ChosenTokens(by_indices, again), example_inputs=torch.randn(2, TOKENS, WIDTH), depth=12, spot_check=False)
    found = [f.outcome for f in report.findings if f.code == "G125"]
    assert ("violated" in found) is again
