"""The spot check: what module and program are compared by, and what is left of it where all of it is too much."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.pipeline import stages
from screen.probe import sizes, spot
from screen.report.schema import ClaimPart

WIDTH, TOKENS = 24, 9


class Convolution(nn.Module):
    """A residual convolution with a batch norm behind a bias, which has no gradient, and a feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.batch = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm1d(WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.batch(self.wide(self.norm(x).transpose(1, 2))))
        return x + self.out(y.transpose(1, 2))


def claims() -> dict[str, ClaimPart]:
    torch.manual_seed(0)
    model = nn.Sequential(*(Convolution() for _ in range(3)), nn.LayerNorm(WIDTH))
    report = screen.check(model, example_inputs=torch.zeros(2, TOKENS, WIDTH))
    return {c.claim: c for c in report.claims if c.weights in ("start", "fixed")}


def test_a_batch_norm_is_as_in_training_in_the_module_too() -> None:
    found = claims()
    assert found["replay"].value is True and found["replay"].measured is not None and found["replay"].measured.agrees is True
    assert found["rms_ratio"].status == found["gradient_ratio"].status == "measured"


def test_a_gradient_that_is_rounding_is_compared_with_all_of_them() -> None:
    one = {"w": torch.ones(4), "b": torch.full((4,), 1e-8)}
    assert sizes.gradients_apart(one, {"w": torch.ones(4), "b": torch.full((4,), -1e-8)}) == pytest.approx(2e-3)
    assert sizes.gradients_apart(one, {"w": torch.ones(4), "b": torch.full((4,), 1e-3)}) == pytest.approx(1.0, rel=1e-4)
    assert sizes.gradients_apart(one, {}) is None


def test_of_a_large_program_the_start_alone_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = claims()
    monkeypatch.setattr(spot, "PASSES", 1e9)
    brief = claims()
    same = ("replay", "rms_ratio", "one_minus_cos", "gradient_ratio")
    assert {n: brief[n].value for n in same} == {n: whole[n].value for n in same}
    gain = whole["identity_gain"].measured
    assert gain is not None and gain.agrees is True and brief["identity_gain"].measured is None, "no linear part is run"
    monkeypatch.setattr(spot, "BRIEF", 1e9)
    assert all(c.measured is None for c in claims().values()), "and of one that is larger yet nothing of the stream"


class Tables(nn.Module):
    """Tokens through blocks whose branches are bounded, unbounded, and by an op that no bound is known of, in this order."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table, self.norm, self.end = nn.Embedding(words, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.maps = nn.ModuleList(nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        for one, two, three in self.maps:
            x = x + torch.tanh(one(self.norm(x)))
            x = x + two(F.gelu(self.norm(x)))
            x = x + torch.logcumsumexp(three(self.norm(x)), dim=-1)
        return self.end(x)


def branches(model: nn.Module) -> tuple[list[tuple[object, str, object]], str]:
    """(value, status, agrees) of what each branch is bounded by, in order, and what the report says of the spot check."""
    report = screen.check(model, example_inputs=torch.zeros(2, TOKENS, dtype=torch.long))
    found = [c for c in report.claims if c.claim == "output_bounded"]
    return [(c.value, c.status, c.measured and c.measured.agrees) for c in found], report.spot_check.reason


def test_of_a_program_that_is_too_large_one_block_of_each_kind_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    whole, said = branches(Tables(40))
    assert whole == [(True, "proved", True), (False, "proved", True), (False, "measured", None)] and not said
    monkeypatch.setattr(stages, "LARGEST", 20_000)
    parts, said = branches(Tables(1_000))
    assert parts == whole and said.startswith("one block of each kind was run, the whole is too large for a spot check: 31,")
    monkeypatch.setattr(stages, "LARGEST", 1_000)
    none, said = branches(Tables(1_000))
    assert [c[1:] for c in none] == [("proved", None), ("proved", None), ("unknown", None)] and said.startswith("too large for a spot check: 31,")


class Shifted(nn.Module):
    """Attention whose softmax takes the largest logit of a row off by hand, around a hook that no recursion reads."""

    def __init__(self, shift: bool) -> None:
        super().__init__()
        self.norm, self.q, self.k, self.v, self.out = nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        u = torch.sin(self.q(h)) @ torch.cos(self.k(h)).transpose(-2, -1) / WIDTH**0.5
        if self.shift:
            u = u - u.amax(dim=-1, keepdim=True)
        return x + self.out(u.softmax(-1) @ self.v(h))


def test_the_shift_of_a_softmax_is_no_part_of_its_logits() -> None:
    sizes = []
    for shift in (False, True):
        torch.manual_seed(0)
        report = screen.check(nn.Sequential(*(Shifted(shift) for _ in range(3)), nn.LayerNorm(WIDTH)), example_inputs=torch.zeros(2, TOKENS, WIDTH))
        sizes.append(next(c.value for c in report.claims if c.claim == "logit_rms" and c.value is not None))
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-6)


class Turned(nn.Module):
    """Attention whose queries and keys are turned by tables: of angles, or as they are given."""

    def __init__(self, given: bool) -> None:
        super().__init__()
        self.norm, self.q, self.k, self.v, self.out = nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.given = given

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        def turned(y: Tensor) -> Tensor:
            one, two = y.chunk(2, dim=-1)
            cosine, sine = (table, table.roll(1, 0)) if self.given else (table.cos(), table.sin())
            return torch.cat((one * cosine - two * sine, two * cosine + one * sine), -1)

        h = self.norm(x)
        u = turned(self.q(h)) @ turned(self.k(h)).transpose(-2, -1) / WIDTH**0.5
        return x + self.out(u.softmax(-1) @ self.v(h))


class Both(nn.Module):
    def __init__(self, given: bool) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Turned(given) for _ in range(3)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, table)
        return self.norm(x)


@pytest.mark.parametrize("given", [False, True])
def test_logits_that_given_tables_turn_have_no_measured_start(given: bool) -> None:
    torch.manual_seed(0)
    report = screen.check(Both(given), example_inputs=(torch.zeros(2, TOKENS, WIDTH), torch.zeros(TOKENS, WIDTH // 2)))
    [found] = [c for c in report.claims if c.claim == "logit_rms"]
    assert (found.status == "unknown") is given
    [judged] = [f for f in report.findings if f.code == "I202"] or [None]
    assert judged is None or judged.outcome == ("cannot_tell" if given else "holds")


class Closing(nn.Module):
    """Adds a branch times σ(Wc + b), b = −2, whose map is made last: all weights together close it, and that of the branch alone does not."""

    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bare = bare
        with torch.no_grad():
            self.gate.weight.zero_()
            self.gate.bias.fill_(-2.0)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        inner = self.down(torch.relu(self.up(self.norm(x))))
        return x + (inner if self.bare else torch.tanh(inner)) * self.gate(condition).sigmoid()


class Conditioned(nn.Module):
    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Closing(bare) for _ in range(3)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, condition)
        return self.norm(x)


@pytest.mark.parametrize("bare", [True, False])
def test_a_gate_that_all_weights_close_leaves_the_one_that_scales_the_branch(bare: bool) -> None:
    torch.manual_seed(0)
    report = screen.check(Conditioned(bare), example_inputs=(torch.randn(2, TOKENS, WIDTH), torch.randn(2, 1, WIDTH)))
    bounded = next(c for c in report.claims if c.claim == "output_bounded")
    assert bounded.value is not bare and bounded.status == "proved", bounded.reason
    assert bounded.measured is not None and bounded.measured.agrees is True


class Standardised(nn.Module):
    """A series that is divided by its own deviation in place, as the program may: nothing asks for its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(TOKENS, WIDTH)
        self.blocks, self.head = nn.Sequential(*(Convolution() for _ in range(3))), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        x /= torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        out: Tensor = self.head(self.blocks(self.embed(x.transpose(1, 2))))
        return out


def test_an_input_that_is_divided_in_place_is_replayed_without_its_gradient() -> None:
    report = screen.check(Standardised(), example_inputs=torch.randn(2, TOKENS, 5))
    assert report.spot_check.ran and not report.spot_check.reason
    found = {c.claim: c for c in report.claims}
    assert found["replay"].measured is not None and found["replay"].measured.agrees is True
