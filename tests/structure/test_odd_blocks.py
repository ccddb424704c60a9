"""Residual blocks that are written, scaled or cut in an odd way; the truth about each is worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report
from screen.report.schema_streams import SublayerPart

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS, DEPTH = 32, 9, 4


class FFN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 80), nn.Linear(80, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.o(torch.softmax(self.q(x) @ self.k(x).mT * WIDTH**-0.5, -1) @ self.v(x))


class Block(nn.Module):
    """One block by the name of its forward."""

    def __init__(self, how: str, index: int) -> None:
        super().__init__()
        self.norm, self.second, self.ffn, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), FFN(), Attention()
        self.gain, self.vector, self.gate = nn.Parameter(torch.zeros(())), nn.Parameter(torch.full((WIDTH,), 2.0)), nn.Linear(WIDTH, WIDTH)
        self.how, self.index = how, index

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = getattr(self, self.how)(x)
        return y

    def learned_alpha(self, x: Tensor) -> Tensor:
        return self.norm(self.vector * x + self.ffn(x))

    def tanh_after_norm(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.gain) * self.norm(self.ffn(x))

    def sigmoid_after_bare_norm(self, x: Tensor) -> Tensor:
        y = self.ffn(x)
        return x + torch.sigmoid(self.vector - 2.0) * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6))

    def layer_scale_after_norm(self, x: Tensor) -> Tensor:
        return x + self.vector * self.norm(self.ffn(x))

    def sigmoid_scale(self, x: Tensor) -> Tensor:
        return x + torch.sigmoid(self.gain) * self.ffn(self.norm(x))

    def learned_lerp(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self.ffn(self.norm(x)), torch.sigmoid(self.gain + 1.0))

    def scaled_sum(self, x: Tensor) -> Tensor:
        return (x + self.ffn(self.norm(x))) * 0.5

    def detached(self, x: Tensor) -> Tensor:
        return x.detach() + self.ffn(self.norm(x))

    def cancelled(self, x: Tensor) -> Tensor:
        return x + (self.ffn(self.norm(x)) - x)

    def gated_by_stream(self, x: Tensor) -> Tensor:
        return x + torch.sigmoid(self.gate(x)) * self.ffn(self.norm(x))

    def tanh_on_stream(self, x: Tensor) -> Tensor:
        return torch.tanh(x + self.ffn(x))

    def clamped(self, x: Tensor) -> Tensor:
        return (x + self.ffn(self.norm(x))).clamp(-10, 10)

    def clamped_input(self, x: Tensor) -> Tensor:
        return x + self.ffn(x.clamp(-3, 3))

    def mean_divided(self, x: Tensor) -> Tensor:
        return x + self.ffn(x / x.mean(-1, keepdim=True))

    def parallel_post(self, x: Tensor) -> Tensor:
        return self.norm(x + self.attention(x) + self.ffn(x))

    def alternating(self, x: Tensor) -> Tensor:
        before, after = (self.norm, nn.Identity()) if self.index % 2 else (nn.Identity(), self.norm)
        y: Tensor = after(x + self.ffn(before(x)))
        return y

    def half_written(self, x: Tensor) -> Tensor:
        y = (x + self.ffn(x)).clone()
        y[..., :16] = torch.nn.functional.layer_norm(y[..., :16], (16,))
        return y

    def gated_copies(self, x: Tensor) -> Tensor:
        """A factor of any size before the norm."""
        return x + self.ffn(self.norm(x * self.gate(x)))

    def fused_gate(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + torch.sigmoid(self.gate(x) + 1.0) * self.ffn(y)

    def unbounded_gate(self, x: Tensor) -> Tensor:
        return x + self.gate(x) * self.ffn(self.norm(x))

    def idle(self, x: Tensor) -> Tensor:
        y = self.ffn(x)
        return x + y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e6)

    def pooled_bias(self, x: Tensor) -> Tensor:
        gain, bias = self.gate(x.mean(1, keepdim=True)).chunk(2, -1)
        return x + self.ffn(self.norm(x)) * gain.repeat(1, 1, 2) + bias.repeat(1, 1, 2)


class Model(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Block(how, i) for i in range(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def report_of(how: str) -> Report:
    return screen.check(Model(how), example_inputs=torch.zeros(2, TOKENS, WIDTH))


def subs_of(report: Report) -> list[SublayerPart]:
    assert len(report.streams) == 1 and report.streams[0].depth == DEPTH
    return [s for k in report.streams[0].kinds for s in k.sublayers]


def states(report: Report) -> dict[str, str]:
    return {c.id: c.state for c in report.channels}


@pytest.mark.parametrize(
    ("how", "alpha", "branch"),
    [
        ("learned_alpha", 2.0, 1.0),
        ("tanh_after_norm", 1.0, 0.0),
        ("layer_scale_after_norm", 1.0, 2.0),
        ("sigmoid_after_bare_norm", 1.0, 0.5),
        ("sigmoid_scale", 1.0, 0.5),
        ("learned_lerp", 1 - 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-1))),
    ],
)
def test_learned_scales_and_where_they_start(how: str, alpha: float, branch: float) -> None:
    """A factor on the skip is no gain of the norm before it; a function of a parameter starts where the function does."""
    subs = subs_of(report_of(how))
    assert len(subs) == 1, "the blocks are equal"
    found = subs[0].residual
    assert found.kind == "learned" and found.alpha == pytest.approx(alpha) and found.branch == pytest.approx(branch)


def test_a_factor_on_the_sum_multiplies_stream_and_branch() -> None:
    found = subs_of(report_of("scaled_sum"))[0].residual
    assert (found.kind, found.alpha, found.branch) == ("constant", 0.5, 0.5)


@pytest.mark.parametrize("how", ["detached", "cancelled"])
def test_no_identity_path_where_the_gradient_or_the_stream_is_cut(how: str) -> None:
    report = report_of(how)
    assert report.streams[0].identity_path.exists is False and states(report)["D"] != "closed"


@pytest.mark.parametrize("how", ["gated_by_stream", "clamped_input", "mean_divided", "tanh_on_stream"])
def test_no_growth_is_claimed_that_is_not_there(how: str) -> None:
    """Bounded gates and inputs grow linearly, a scale-free input does not grow with the stream, a tanh on the stream bounds it."""
    report = report_of(how)
    assert states(report)["R"] != "open" and not [f for f in report.findings if "exponential" in f.message]


@pytest.mark.parametrize(
    ("how", "placement"), [("gated_copies", "pre"), ("fused_gate", "pre"), ("gated_by_stream", "pre"), ("unbounded_gate", "none")]
)
def test_gates_that_read_the_stream_itself(how: str, placement: str) -> None:
    """A bounded factor on the branch, or any factor before its norm, takes nothing away from the norm; an unbounded one on the branch does."""
    [sub] = subs_of(report_of(how))
    assert sub.placement == placement


def test_a_norm_with_an_epsilon_that_is_never_reached() -> None:
    """ε = 1e6 under the root: the output is the branch over 1000, of degree 1 in its weights at every usual size."""
    report = report_of("idle")
    [sub] = subs_of(report)
    assert {d.status for d in sub.degrees.values()} != {"exact"} and report.verdict != "stable"
    assert [f for f in report.findings if "1e+06" in f.message]


def test_a_norm_on_half_of_the_stream_that_is_written_back() -> None:
    assert states(report_of("half_written"))["R"] != "open"


@pytest.mark.parametrize("how", ["clamped", "tanh_on_stream"])
def test_the_final_norm_behind_an_activation_on_the_stream(how: str) -> None:
    assert report_of(how).streams[0].final_norm is True


def test_parallel_branches_under_one_norm() -> None:
    subs = subs_of(report_of("parallel_post"))
    assert [(s.role, s.placement) for s in subs] == [("attention", "post"), ("ffn", "post")] and {s.parallel_group for s in subs} == {0}


def test_the_final_norm_is_no_stream_norm_of_the_last_pre_block() -> None:
    report = report_of("alternating")
    assert [(s.placement, k.count) for k in report.streams[0].kinds for s in k.sublayers] == [("post", 2), ("pre", 2)]
    assert report.streams[0].final_norm is True


def test_a_bias_that_is_broadcast_carries_no_stream() -> None:
    report = report_of("pooled_bias")
    subs_of(report)
    assert not [f for f in report.findings if "fault of" in f.message]


class Modulated(nn.Module):
    """Shift and scale from a second argument, cut out of one map: no softmax in the FFN, however little is known of its size."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn, self.made = nn.LayerNorm(WIDTH, elementwise_affine=False), FFN(), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift, scale, gate = self.made(torch.nn.functional.silu(c)).unsqueeze(1).chunk(3, -1)
        return x + gate * self.ffn(self.norm(x) * (1 + scale) + shift)


def test_a_modulated_ffn_has_no_logits_and_no_fault() -> None:
    report = screen.check(Modulated(), example_inputs=(torch.zeros(2, TOKENS, WIDTH), torch.zeros(2, WIDTH)))
    [sub] = report.streams[0].kinds[0].sublayers
    assert (sub.placement, sub.logits.bounded) == ("pre", "not_applicable")
    assert not [f for f in report.findings if "fault of" in f.message]
