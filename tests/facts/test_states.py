"""States that are added again, sums of all of them, gates, and the lists that branches end in; each beside its near miss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

WIDTH = 16


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 4, WIDTH),)


class Listed(nn.Module):
    """Blocks in a list; what is done with them is written by hand."""

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))  # noqa: E731
        self.blocks = nn.ModuleList(one() for _ in range(n))


class FirstAgain(Listed):
    """Half of the state behind the first block is added behind each other one: what the first block adds is carried on 6.5 times, the rest once."""

    def __init__(self) -> None:
        super().__init__(12)

    def forward(self, x: Tensor) -> Tensor:
        first = x = x + self.blocks[0](x)
        for block in self.blocks[1:]:
            x = x + block(x) + first / 2
        return x


class FirstKept(Listed):
    """The mean of that state and of what the block gives: all other blocks fade, and the stream is bounded."""

    def __init__(self) -> None:
        super().__init__(12)

    def forward(self, x: Tensor) -> Tensor:
        first = x = x + self.blocks[0](x)
        for block in self.blocks[1:]:
            x = (x + block(x) + first) / 2
        return x


class Updated(nn.Module):
    """lerp from the stream to a bounded branch; its weight is made from the stream by a map of its own."""

    sign = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.share, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return torch.lerp(x, torch.tanh(self.map(h)), self.sign * torch.sigmoid(self.share(h)))


class UpdatedSlip(Updated):
    """Away from the branch: the stream is multiplied by what is above one."""

    sign = -1.0


class NormedImage(nn.Module):
    """A group norm of tokens as an image, the channels last, is the first that is done."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.GroupNorm(1, WIDTH), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2).unflatten(-1, (2, 2))
        return (x + self.map(self.norm(x))).flatten(2).transpose(1, 2)


class DenseStates(Listed):
    """Each block starts from a trained sum of all states so far (DenseFormer)."""

    def __init__(self, n: int = 12) -> None:
        super().__init__(n)
        self.shares = nn.ParameterList(nn.Parameter(torch.ones(i + 2) / (i + 2)) for i in range(n))

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for block, share in zip(self.blocks, self.shares, strict=True):
            states.append(x + block(x))
            x = torch.tensordot(share, torch.stack(states), dims=1)
        return x


class DepthShares(Listed):
    """Each block starts from a sum of all states so far, each times a sigmoid of what it holds, and so does what is returned."""

    def __init__(self, n: int = 12) -> None:
        super().__init__(n)
        self.query = nn.Parameter(torch.zeros(WIDTH))

    def read(self, states: list[Tensor]) -> Tensor:
        held = torch.stack(states)
        return torch.einsum("sbt,sbtd->btd", torch.sigmoid(F.rms_norm(held, (WIDTH,)) @ self.query), held)

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for block in self.blocks:
            h = self.read(states)
            states.append(h + block(h))
        return self.read(states)


class DepthShares4(DepthShares):
    """Few of them."""

    def __init__(self) -> None:
        super().__init__(4)


class NormedGroups(nn.Module):
    """Pooled, and normed in groups of channels, with gains and biases; nothing behind."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.norm, self.pool = nn.Linear(WIDTH, WIDTH), nn.GroupNorm(2, WIDTH), nn.AvgPool1d(3, 1, 1)

    def end(self, y: Tensor) -> Tensor:
        return y

    def forward(self, x: Tensor) -> Tensor:
        return x + self.end(self.pool(self.norm(self.map(x).mT)).mT)


class NormedGroupsMapped(NormedGroups):
    """A map behind."""

    def end(self, y: Tensor) -> Tensor:
        found: Tensor = self.map(y)
        return found


class Leapfrog(Listed):
    """2 x − x₋ + f: the first block has no earlier state, the second one's is where it begins."""

    def forward(self, x: Tensor) -> Tensor:
        before = x
        for block in self.blocks:
            x, before = 2.0 * x - before + block(x) / 16, x
        return x


class Velocity(Listed):
    """v = 0.9 v + f, x + v: what is added is longer in each block."""

    def forward(self, x: Tensor) -> Tensor:
        v = torch.zeros_like(x)
        for block in self.blocks:
            v = 0.9 * v + block(x)
            x = x + v
        return x


class Stages(Listed):
    """Two lists of four in a list; the middle of each is added again behind it: members of the outer one are no blocks."""

    def __init__(self) -> None:
        super().__init__(8)
        self.stages = nn.ModuleList(nn.ModuleList(self.blocks[i : i + 4]) for i in (0, 4))
        del self.blocks

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            states = [x]
            for block in stage:
                states.append(states[-1] + block(states[-1]))
            x = states[-1] + states[2]
        return x


class Rows(Listed):
    """Four residual layers beside each other, their sum over a number; six rows."""

    over = 2.0

    def __init__(self) -> None:
        super().__init__(24)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(0, 24, 4):
            x = torch.stack([x + block(x) for block in self.blocks[i : i + 4]], -1).sum(-1) / self.over
        return x


class RowsMean(Rows):
    """Their mean."""

    over = 4.0


class GatedByBranch(nn.Module):
    """The sum with a branch is gated by what the branch gave."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.map(self.norm(x)))
        return (x + y) * torch.sigmoid(self.gate(y.mean(1, keepdim=True)))


class RunningSums(nn.Module):
    """Each block begins with sums over the tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.maps = (nn.ModuleList(make() for _ in range(2)) for make in (lambda: nn.LayerNorm(WIDTH), lambda: nn.Linear(WIDTH, WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        x = x.cumsum(1)
        for norm, map_ in zip(self.norms, self.maps, strict=True):
            x = x + F.gelu(map_(norm(x)))
        return x


def report(name: str, depth: int | None = None) -> Report:
    return screen.check(f"{__file__}::{name}", depth=depth, isolate=False)


@pytest.mark.parametrize("name", ["FirstAgain", "FirstKept"])
def test_one_branch_that_is_carried_on_more_is_no_law(name: str) -> None:
    assert [c.value for c in report(name).claims if (c.claim, c.weights) == ("growth", "fixed")] == [None]


@pytest.mark.parametrize(("name", "law"), [("Updated", "bounded"), ("UpdatedSlip", "exponential")])
def test_the_weight_of_a_lerp_is_no_branch(name: str, law: str) -> None:
    found = report(name, 24)
    assert [(c.value, c.status) for c in found.claims if c.claim == "identity_gain"] == [(None, "unknown")], "it is made from the data"
    assert [c.value for c in found.claims if (c.claim, c.weights) == ("growth", "fixed")] == [law]
    assert [len(k.sublayers) for k in found.streams[0].kinds] == [1]


def test_gradients_of_a_norm_of_an_image_are_measured() -> None:
    assert [c.value for c in report("NormedImage", 4).claims if c.claim == "replay"] == [True], "torch ends the process where the input needs none"


@pytest.mark.parametrize(("name", "depth"), [("DenseStates", 12), ("DepthShares", 12), ("DepthShares4", 4)])
def test_a_sum_of_all_states_is_followed_however_many_there_are(name: str, depth: int) -> None:
    assert [len(range(first, last + 1)) for k in report(name).streams[0].kinds for first, last in k.layers] in ([depth], [depth - 1, 1], [1] * depth)


@pytest.mark.parametrize("name", ["DepthShares", "DepthShares4"])
def test_a_gain_between_other_ends_than_the_models_is_not_measured(name: str) -> None:
    assert [(c.value, c.status) for c in report(name).claims if c.claim == "identity_gain"] == [(None, "unknown")], "the end meets earlier states"


@pytest.mark.parametrize(("name", "bounded"), [("NormedGroups", True), ("NormedGroupsMapped", False)])
def test_the_gains_of_a_norm_of_groups_are_gains(name: str, bounded: bool) -> None:
    assert [c.value for c in report(name, 4).claims if c.claim == "output_bounded"] == [bounded]


@pytest.mark.parametrize(("name", "depth"), [("Leapfrog", 8), ("Velocity", 8), ("FirstAgain", 12), ("Stages", 8)])
def test_branches_that_end_in_members_of_a_list_are_blocks(name: str, depth: int) -> None:
    assert report(name).target.depth == depth


@pytest.mark.parametrize(("name", "gain", "law"), [("Rows", 64.0, "exponential"), ("RowsMean", 1.0, "linear")])
def test_rows_of_branches_are_compared_row_by_row(name: str, gain: float, law: str) -> None:
    claims = report(name).claims
    assert [c.value for c in claims if c.claim == "identity_gain"] == pytest.approx([gain])
    assert [c.value for c in claims if (c.claim, c.weights) == ("growth", "fixed")] == [law]


class Pair(nn.Module):
    """Two streams of which each branch reads both, behind norms or the other one raw, gated by a condition that no block changes."""

    def __init__(self, normed: bool, n: int = 6) -> None:
        super().__init__()
        self.normed, self.n = normed, n
        self.maps, self.back = (nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2 * n)) for _ in range(2))
        self.gates = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(n))
        self.norm, self.head = nn.LayerNorm(WIDTH, elementwise_affine=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, y: Tensor, condition: Tensor) -> Tensor:
        for i, gated in enumerate(self.gates):
            gate = gated(condition)
            a, b = self.maps[2 * i](self.norm(x)), self.maps[2 * i + 1](self.norm(y))
            a, b = (a, b) if self.normed else (a + y, b + x)
            c, d = F.relu(a + b.mean(1, keepdim=True)), F.relu(b + a.mean(1, keepdim=True))
            x, y = x + gate * self.back[2 * i](c), y + gate * self.back[2 * i + 1](d)
        return torch.cat([self.head(self.norm(x)), self.head(self.norm(y))], 1)


@pytest.mark.parametrize("normed", [True, False])
def test_growth_of_two_streams_that_read_each_other(normed: bool) -> None:
    args = (torch.zeros(2, 8, WIDTH), torch.zeros(2, 8, WIDTH), torch.zeros(2, 1, WIDTH))
    report = screen.check(Pair(normed), example_inputs=args, spot_check=False)
    laws = {c.stream: c.value for c in report.claims if c.claim == "growth" and c.weights == "fixed"}
    assert set(laws.values()) <= ({"linear"} if normed else {None, "exponential", "polynomial"}), laws


def test_a_gate_made_of_what_a_branch_adds_is_not_measured_where_that_is_nothing() -> None:
    assert [(c.value, c.status) for c in report("GatedByBranch", 8).claims if c.claim == "identity_gain"] == [(None, "unknown")]


def test_sums_over_tokens_on_the_stream_leave_it_one() -> None:
    found = report("RunningSums", 6)
    assert [s.depth for s in found.streams] == [6]
    assert [c.value for c in found.claims if (c.claim, c.weights) == ("growth", "fixed")] != ["linear"]
