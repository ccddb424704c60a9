"""Designs as their papers write them, where an earlier reading said something false: each test is one sentence of the report."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.model import Report, SublayerPart

WIDTH, TOKENS, BLOCKS = 32, 9, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.o(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))


class FFN(nn.Module):
    def __init__(self, act: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.up, self.down, self.act = nn.Linear(WIDTH, 80), nn.Linear(80, WIDTH), act

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Stack(nn.Module):
    def __init__(self, block: Callable[[int], nn.Module], final: bool = True) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(block(i) for i in range(BLOCKS)), nn.LayerNorm(WIDTH) if final else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def report_of(model: nn.Module) -> Report:
    return screen.check(model, example_inputs=torch.zeros(2, TOKENS, WIDTH))


def subs_of(report: Report) -> list[SublayerPart]:
    return [s for stream in report.streams for kind in stream.kinds for s in kind.sublayers]


def outcomes(report: Report, code: str) -> set[str]:
    return {f.outcome for f in report.findings if f.code == code}


def state(report: Report, channel: str) -> str:
    return next(c.state for c in report.channels if c.id == channel)


class Multiplied(nn.Module):
    """x' = x + x ⊙ F(N(x)): F is bounded for given weights, and what is added grows with x."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()

    def forward(self, x: Tensor) -> Tensor:
        return x + x * self.attention(self.norm(x))


def test_a_branch_that_multiplies_the_stream_reads_no_bounded_input() -> None:
    report = report_of(Stack(Multiplied))
    assert {s.placement for s in subs_of(report)} == {"none"}
    assert "holds" not in outcomes(report, "R301") | outcomes(report, "D202")
    assert all("made of a stream" not in f.message for f in report.findings if f.code == "L201"), "its logits are made of a normed value"


class Scaled(nn.Module):
    """LayerNorm scaling: block l multiplies what its norms give by a number of its own."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.norm, self.ffn, self.factor = nn.LayerNorm(WIDTH), FFN(), math.sqrt(layer + 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ffn(self.norm(x) * self.factor)


def test_blocks_that_differ_in_a_number_are_of_different_kinds() -> None:
    kinds = report_of(Stack(Scaled)).streams[0].kinds
    assert [k.count for k in kinds] == [1] * BLOCKS
    assert len({k.sublayers[0].growth.expression for k in kinds}) == BLOCKS, "the bound of the first block is not that of the others"


def test_blocks_that_differ_in_an_activation_are_of_different_kinds() -> None:
    class Block(nn.Module):
        def __init__(self, layer: int) -> None:
            super().__init__()
            self.norm, self.ffn = nn.LayerNorm(WIDTH), FFN(F.relu if layer % 2 else F.gelu)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.ffn(self.norm(x))

    assert [k.count for k in report_of(Stack(Block)).streams[0].kinds] == [2, 2]


class Gated(nn.Module):
    """GTrXL: x' = (1 − z) ⊙ x + z ⊙ tanh(W y + U (r ⊙ x)), y what attention gives, z and r made from x and y."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.wr, self.ur, self.wz, self.uz, self.wg, self.ug = (nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.attention(self.norm(x)))
        r, z = torch.sigmoid(self.wr(y) + self.ur(x)), torch.sigmoid(self.wz(y) + self.uz(x) - 2.0)
        return (1 - z) * x + z * torch.tanh(self.wg(y) + self.ug(r * x))


def test_attention_that_a_gate_on_the_stream_reads_too_is_the_branch_s() -> None:
    report = report_of(Stack(Gated))
    assert [s.role for s in subs_of(report)] == ["attention"]
    assert state(report, "L") == "conditional", "there is a softmax, and nothing bounds its logits"


class ResiDual(nn.Module):
    """Two streams: one is normed after each sum, the other collects the same branches."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(b for _ in range(12) for b in (Attention(), FFN()))
        for linear in (m for m in self.branches.modules() if isinstance(m, nn.Linear)):
            nn.init.normal_(linear.weight, std=1.2 * linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)
        self.embed = nn.Embedding(50, WIDTH)
        self.norms, self.last = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in self.branches), nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        total = x = self.embed(ids)
        for branch, norm in zip(self.branches, self.norms, strict=True):
            y = branch(x)
            total, x = total + y, norm(x + y)
        return x + self.last(total)


def test_a_stream_that_collects_branches_of_another_one_does_not_grow_exponentially() -> None:
    report = screen.check(ResiDual(), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long))
    assert outcomes(report, "R101") == {"conditional", "holds"}
    assert (state(report, "R"), state(report, "D")) == ("conditional", "conditional"), "its branches reach the end without the norms"
    collapsed = next(f.message for f in report.findings if f.code == "D201")
    assert "tokens are nearly the same; its branches are added to" in collapsed


class Fused(nn.Module):
    """PaLM with one input map for attention and gated FFN, and an output map for each."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH + 160, bias=False)
        self.o, self.down = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(80, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, up, gate = self.fused(self.norm(x)).split((WIDTH, WIDTH, WIDTH, 80, 80), -1)
        return x + self.o(F.scaled_dot_product_attention(q, k, v)) + self.down(F.silu(gate) * up)


def test_two_parallel_branches_share_an_input_map() -> None:
    found = [(s.role, s.placement, s.m.maps, s.parallel_group) for s in subs_of(report_of(Stack(Fused)))]
    assert found == [("attention", "pre", 4, 0), ("gated_ffn", "pre", 3, 0)]


class Normed(nn.Module):
    def __init__(self, before: bool, after: bool, on_sum: bool) -> None:
        super().__init__()
        self.ffn, (self.a, self.b, self.c) = FFN(), (nn.LayerNorm(WIDTH) if on else nn.Identity() for on in (before, after, on_sum))

    def forward(self, x: Tensor) -> Tensor:
        return self.c(x + self.b(self.ffn(self.a(x))))


def test_the_gradient_of_the_last_map_is_said_for_what_stands_behind_it() -> None:
    """Kim et al., proposition 3.1, without and with a final norm, and B.1."""

    def said(before: bool, after: bool, on_sum: bool, final: bool) -> str:
        report = report_of(Stack(lambda _: Normed(before, after, on_sum), final))
        found = [f.numbers.get("Kim et al., proposition 3.1") for f in report.findings if f.code in ("D201", "D202")]
        [line] = [f for f in found if isinstance(f, str)]
        return line

    assert "≤ √2·‖E‖·‖h‖ per token" in said(True, False, False, final=False)
    assert "≤ √2·‖E‖·‖h‖·max|γ_F|/σ_F per token" in said(True, False, False, final=True)
    assert "≤ √2·‖E‖·‖h‖·max|γ_O|/σ_O per token" in said(True, True, False, final=False)
    assert "≤ √2·‖E‖·‖h‖·max|γ_O|/σ_O·max|γ_F|/σ_F per token" in said(True, True, False, final=True)
    assert "≤ √2·‖E‖·‖h‖·max|γ_S|/σ_S per token" in said(False, False, True, final=False)
