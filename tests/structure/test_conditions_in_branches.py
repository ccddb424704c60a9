"""What another argument is mapped to, and added to what a branch says of the stream, shifts the branch and is none of its own; what it scales and
shifts a norm on the stream by is as large at any depth, unless each block makes it of the one before. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report

WIDTH, TOKENS, DEPTH = 16, 6, 12


class Told(nn.Module):
    """x + s·(attention(N(x)) + map(time)); `apart`: a second branch reads the stream in its place, side by side."""

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.norm, self.time, self.scale = nn.LayerNorm(WIDTH), nn.Linear(8, WIDTH), nn.Parameter(torch.ones(WIDTH))
        self.qkv, self.out, self.apart = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), apart
        self.net = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = self.qkv(y).chunk(3, -1)
        said = self.out(F.scaled_dot_product_attention(q, k, v))
        return x + self.scale * (said + (self.net(y) if self.apart else self.time(F.silu(time)).unsqueeze(1)))


class ScaledNorm(nn.Module):
    """N(x + f(x)) ⊙ e(c) + d(c), with the norm over channels of a signal; `made`: each block hands its own map of c on."""

    def __init__(self, made: bool) -> None:
        super().__init__()
        self.norm, self.net, self.by = nn.GroupNorm(1, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.Linear(WIDTH, 2 * WIDTH)
        self.next = nn.Linear(WIDTH, WIDTH) if made else None

    def forward(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        x, c = state["x"], state["c"]
        c = c if self.next is None else self.next(c)
        by, plus = self.by(c).unsqueeze(-1).chunk(2, 1)
        return {"x": self.norm(x + torch.relu(self.net(x))) * by + plus, "c": c}


class PreNorm(ScaledNorm):
    """The same condition inside of a pre-norm branch."""

    def forward(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        x, c = state["x"], state["c"]
        c = c if self.next is None else self.next(c)
        by, plus = self.by(c).unsqueeze(-1).chunk(2, 1)
        return {"x": x + self.net(self.norm(x) * by + plus), "c": c}


class ScaledTwice(nn.Module):
    """One map of a condition scales and shifts two norms of sums."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.by = nn.ModuleList((nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH))), nn.Linear(WIDTH, 4 * WIDTH)
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 24), nn.Tanh(), nn.Linear(24, WIDTH)) for _ in range(2))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        by = self.by(c).unsqueeze(1).chunk(4, -1)
        for norm, net, scale, shift in zip(self.norms, self.nets, by[:2], by[2:], strict=True):
            x = norm(x + net(x)) * (1 + scale) + shift
        return x


def test_what_a_map_makes_of_a_condition_has_no_bound_over_all_weights() -> None:
    torch.manual_seed(0)
    given = torch.randn(2, TOKENS, WIDTH), torch.randn(2, WIDTH)
    report = screen.check(ScaledTwice(), example_inputs=given, depth=DEPTH)
    assert (claim(report, "growth", "fixed"), claim(report, "growth", "all")) == ("bounded", None)
    block, sizes = ScaledTwice().double(), []
    for _ in range(2):
        sizes.append(block(*(v.double() for v in given)).detach().square().mean().sqrt().item())
        with torch.no_grad():
            block.by.weight.mul_(100.0)
    assert sizes[1] > 10 * sizes[0]  # the truth


def claim(report: Report, name: str, weights: str) -> object:
    return next(c.value for c in report.claims if c.claim == name and c.weights == weights)


@pytest.mark.parametrize("apart", [False, True])
def test_a_condition_that_is_added_to_a_branch_is_no_branch(apart: bool) -> None:
    torch.manual_seed(0)
    report = screen.check(Told(apart), example_inputs=(torch.randn(2, TOKENS, WIDTH), torch.randn(2, 8)), depth=DEPTH)
    (kind,) = report.streams[0].kinds
    assert len(kind.sublayers) == (2 if apart else 1)
    assert not [f for f in report.findings if f.code == "G106" and f.outcome == "violated"]
    assert claim(report, "output_bounded", "all") is False


@pytest.mark.parametrize(("block", "made", "law"), [
    (ScaledNorm, False, "bounded"), (ScaledNorm, True, None), (PreNorm, False, "linear"), (PreNorm, True, None),
])  # fmt: skip
def test_a_condition_is_as_large_at_any_depth_unless_blocks_make_it(block: type[ScaledNorm], made: bool, law: str | None) -> None:
    torch.manual_seed(0)
    state = {"x": torch.randn(2, WIDTH, TOKENS), "c": torch.randn(2, WIDTH)}
    assert claim(screen.check(block(made), example_inputs=(state,), depth=DEPTH), "growth", "fixed") == law


@pytest.mark.parametrize("block", [ScaledNorm, PreNorm])
def test_what_blocks_make_of_a_condition_grows_like_a_power_of_two(block: type[ScaledNorm]) -> None:
    """The truth of the rows that are not told: at other weights it is exponential, in float64."""
    torch.manual_seed(0)
    sizes = []
    for depth in (8, 16, 32):
        state = {"x": torch.randn(2, WIDTH, TOKENS, dtype=torch.float64), "c": torch.randn(2, WIDTH, dtype=torch.float64)}
        for _ in range(depth):
            one = block(made=True).double()
            assert one.next is not None
            nn.init.orthogonal_(one.next.weight, gain=2.0)
            state = one(state)
        sizes.append(state["x"].detach().square().mean().sqrt().item())
    assert sizes[1] / sizes[0] > 2**6 and sizes[2] / sizes[1] > 2**12


class _Both(nn.Module):
    """x + g·(attention(N(x)) + f(N(x))), g of a condition or of the state."""

    def __init__(self, of_state: bool) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down, self.gate, self.of_state = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 32), of_state

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = self.qkv(h).chunk(3, -1)
        attended = self.out(torch.softmax(q @ k.transpose(1, 2) / 32**0.5, -1) @ v)
        gate = torch.sigmoid(self.gate(x if self.of_state else condition[:, None]))
        return x + gate * (attended + self.down(torch.relu(self.up(h))))


class _Gated(nn.Module):
    def __init__(self, of_state: bool) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(_Both(of_state) for _ in range(3)), nn.LayerNorm(32)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, condition)
        out: Tensor = self.norm(x)
        return out


def test_a_gate_of_a_condition_on_both_of_two_branches() -> None:
    """They were told as one branch of attention with the maps of both (Flux 3)."""
    report = screen.check(_Gated(False), example_inputs=(torch.zeros(2, 7, 32), torch.zeros(2, 32)))
    subs = report.streams[0].kinds[0].sublayers
    assert [(s.role, s.placement, s.m.maps, s.residual.branch_kind) for s in subs] == [("attention", "pre", 4, "data"), ("ffn", "pre", 2, "data")]
    assert all(s.parallel_group is not None for s in subs)
