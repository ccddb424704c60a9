"""Designs as their papers write them, where an earlier reading said something false: each test is one sentence of the report."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.weight_gains import start_product
from screen.graph.target import parse
from screen.report.schema import Report, SublayerPart
from tests.awkward.parts import D
from tests.awkward.streams import HyperModel

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS, BLOCKS = 32, 9, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        return self.o(F.scaled_dot_product_attention(self.q(x), self.k(memory), self.v(memory)))


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
    torch.manual_seed(0)  # in one draw of fifty some of its 144 weights look as if they were drawn otherwise
    report = screen.check(ResiDual(), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long))
    assert outcomes(report, "R101") == {"holds"}
    assert any("no branch but one that stands once grows with it" in f.message for f in report.findings if f.code == "R101")
    assert (state(report, "R"), state(report, "D")) == ("conditional", "conditional"), "its branches reach the end without the norms"
    collapsed = next(f.message for f in report.findings if f.code == "D201")
    assert "tokens are nearly the same; its branches are added to" in collapsed
    total = {c.claim: c for c in report.claims if c.stream == "stream1" and c.claim in ("rms_ratio", "gradient_ratio")}
    assert {c.status for c in total.values()} == {"measured"}, "what its branches read is no state of its own, which no recursion of it alone follows"
    assert isinstance(ratio := total["rms_ratio"].value, float) and ratio > 2, "24 branches were added"
    normed = next(c for c in report.claims if c.stream == "stream2" and c.claim == "gradient_ratio")
    assert normed.status == "measured", "gradients of its branches come back through the other stream as well"
    norms = next(c for c in report.changes if c.id == "norms-behind")
    rates = norms.lr_before, norms.lr_after  # none where a channel is untold on one side
    assert None in rates or rates[1] >= rates[0], "a branch with a norm of its own for each stream is added to both all the same"  # type: ignore[operator]


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


class Reversible(nn.Module):
    """Two halves that read each other, joined at the end."""

    def __init__(self, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.one, self.two = (nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), b()) for _ in range(BLOCKS)) for b in (Attention, FFN))
        self.norm, self.join = nn.LayerNorm(WIDTH), join

    def forward(self, x: Tensor) -> Tensor:
        a = b = x
        for one, two in zip(self.one, self.two, strict=True):
            a = a + one(b)
            b = b + two(a)
        return self.norm(self.join(a, b))


@pytest.mark.parametrize("join", [torch.add, lambda a, b: (a + b) / 2, lambda a, b: torch.stack([a, b]).mean(0)], ids=["sum", "half", "mean"])
def test_the_end_of_a_reversible_net_adds_no_branch(join: Callable[[Tensor, Tensor], Tensor]) -> None:
    report = report_of(Reversible(join))
    assert [(s.depth, s.identity_path.gain) for s in report.streams] == [(BLOCKS, "1")] * 2
    assert {s.placement for s in subs_of(report)} == {"pre"}


class Hyper(nn.Module):
    """Hyper-connections with matrices from the data: copies H of the stream become AᵀH + b F(N(cᵀH)), A, b and c made from H."""

    def __init__(self, attention: bool) -> None:
        super().__init__()
        self.branch, self.norm, self.inner = Attention() if attention else FFN(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.maps = nn.ModuleList(nn.Linear(WIDTH, n) for n in (4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        mix, b, c = (torch.tanh(m(self.norm(x))) for m in self.maps)  # [batch, tokens, 4, 4 or 1]
        y = self.branch(self.inner((c * x).sum(-2)))
        return (torch.eye(4) + mix).mT @ x + (1 + b) * y[..., None, :]


class Copies(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Hyper(i % 2 == 0) for i in range(BLOCKS))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)[..., None, :].expand(-1, -1, 4, -1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x.sum(-2))


def test_matrices_from_the_data_that_mix_copies_of_a_stream_carry_it() -> None:
    torch.manual_seed(0)
    report = screen.check(Copies(), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long))
    assert [(s.role, s.placement) for s in subs_of(report)] == [("attention", "pre"), ("ffn", "pre")]
    assert report.verdict == "unknown"
    assert any("matrices made from the data" in c.reason for c in report.channels)


@pytest.mark.parametrize(("factor", "answer"), [(1.0, "conditional"), (16.0, "open")])
def test_trained_matrices_that_mix_copies_are_judged_by_where_they_start(factor: float, answer: str) -> None:
    """Static hyper-connections: with matrices that start at the identity, and at sixteen times that."""
    torch.manual_seed(0)
    model = HyperModel()
    for block in model.blocks:
        block.mix.data *= factor  # type: ignore[union-attr, operator]
    report = screen.check(model, example_inputs=torch.zeros(2, TOKENS, D))
    [judged] = [f for f in report.findings if f.code == "D201"]
    assert state(report, "D") == answer
    assert ("trained matrices mix on the skip" in judged.message) == (answer == "conditional")


class DenseFormer(nn.Module):
    """Behind each block a sum of all states so far, whose trained weights begin at the latest state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.last = nn.Embedding(50, WIDTH), nn.LayerNorm(WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * BLOCKS))
        self.branches = nn.ModuleList(b for _ in range(BLOCKS) for b in (Attention(), FFN()))
        self.sums = nn.ModuleList(nn.Linear(i + 2, 1, bias=False) for i in range(BLOCKS))
        for weights in self.sums:
            weights.weight.data.zero_()[0, -1] = 1.0

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        states = [x]
        for i, weigh in enumerate(self.sums):
            for j in (2 * i, 2 * i + 1):
                x = x + self.branches[j](self.norms[j](x))
            states.append(x)
            x = weigh(torch.stack(states, -1)).squeeze(-1)
        return self.last(x)


def test_trained_sums_of_all_states_carry_the_stream() -> None:
    torch.manual_seed(0)
    report = screen.check(DenseFormer(), example_inputs=torch.arange(2 * TOKENS).view(2, TOKENS))
    assert [(s.depth, s.final_norm) for s in report.streams] == [(BLOCKS, True)]
    assert state(report, "D") == "conditional"
    norms = next(c for c in report.changes if c.id == "qk-norm")
    assert (norms.opens, norms.verdict) == ([], "conditional"), "what is measured before the change alone is not compared"


class Worded(nn.Module):
    """LUKE: words and entities in one sequence; each kind of key is a slice over tokens of one map."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.q, self.p, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        k = self.k(x).view(*x.shape[:2], 4, 8).transpose(1, 2)
        logits = [m(x).view(*x.shape[:2], 4, 8).transpose(1, 2) @ part.mT for m, part in ((self.q, k[:, :, :5]), (self.p, k[:, :, 5:]))]
        values = self.v(x).view(*x.shape[:2], 4, 8).transpose(1, 2)
        mixed = torch.softmax(torch.cat(logits, -1), -1) @ values
        return self.norm(x + self.o(mixed.transpose(1, 2).flatten(-2)))


def test_slices_over_tokens_are_no_maps_of_their_own() -> None:
    assert [s.m.maps for s in subs_of(report_of(Stack(Worded, final=False)))] == [5]


class Trended(nn.Module):
    """Autoformer: a trend collects what the decoder takes away; it begins at the input that the encoder embeds too."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.back = nn.Linear(2, WIDTH), nn.Linear(2, WIDTH), nn.ModuleList(nn.Linear(WIDTH, 2) for _ in range(BLOCKS))
        self.encoder = nn.ModuleList(Normed(False, False, True) for _ in range(BLOCKS))
        self.decoder = nn.ModuleList(Normed(False, False, True) for _ in range(BLOCKS))
        self.cross = nn.ModuleList(Attention() for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        size = x.abs().mean(-2, keepdim=True)
        x = x / size
        trend = torch.cat([x, size], -2)
        memory, y = self.left(x), self.right(torch.cat([x, torch.zeros_like(size)], -2))
        for block in self.encoder:
            memory = block(memory)
        for block, cross, back in zip(self.decoder, self.cross, self.back, strict=True):
            y = block(y + cross(y, memory))
            trend = trend + back(y)
        return trend


def test_an_encoder_beside_a_trend_is_a_stream() -> None:
    report = screen.check(Trended(), example_inputs=torch.zeros(2, TOKENS, 2))
    assert [s.role for s in report.streams] == ["encoder", "decoder", "stream"]
    assert [s.depth for s in report.streams][:2] == [BLOCKS] * 2


class Tailed(nn.Module):
    """SeamlessM4T's speech encoder: post-norm blocks, then a branch of its own in front of the final norm."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.ffn, self.norm = nn.ModuleList(Normed(False, False, True) for _ in range(BLOCKS)), FFN(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x + 0.5 * self.ffn(x))


def test_the_norm_behind_a_branch_outside_of_all_blocks_is_the_final_norm() -> None:
    report = report_of(Tailed())
    assert [s.placement for s in subs_of(report)] == ["post", "none"]
    assert report.streams[0].final_norm


class Staged(nn.Module):
    """Two stages of different width; each ends in its own norm."""

    def __init__(self) -> None:
        super().__init__()
        self.one = Stack(lambda _: Normed(True, False, False))
        self.widen, self.wide = nn.Linear(WIDTH, 48), nn.ModuleList(nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48)) for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.widen(self.one(x))
        for branch in self.wide:
            x = x + branch(x)
        return x


def test_the_final_norm_of_one_stage_is_no_embedding_norm_of_the_next() -> None:
    assert [(s.embed_norm, s.final_norm) for s in report_of(Staged()).streams] == [(False, True), (False, False)]


def test_how_much_a_block_stretches_a_change_follows_its_sums() -> None:
    """Emadi, theorems 5.2 and 5.3, and parallel branches."""

    def said(model: nn.Module) -> object:
        return next((v for f in report_of(model).findings if f.code == "D101" for k, v in f.numbers.items() if k.startswith("Emadi")), None)

    assert "at most by (1 + L_ffn), and 4 blocks" in str(said(Stack(lambda _: Normed(True, False, False))))
    assert "at most by (1 + L_ffn)·max|γ|/σ, and 4 blocks" in str(said(Stack(lambda _: Normed(False, False, True), False)))
    assert "at most by (1 + L_attention + L_gated_ffn), and 4 blocks" in str(said(Stack(Fused)))
    assert said(Stack(Gated)) is None, "a gate on the stream has no constant"


class Summed(nn.Module):
    """XLNet: maps kept as [features, heads, size] and contracted by einsum."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Parameter(torch.randn(WIDTH, 4, 8) * 0.2) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("bih,hnd->bind", x, w) for w in (self.q, self.k, self.v))
        rows = torch.softmax(torch.einsum("bind,bjnd->bnij", q, k) * 8**-0.5, -1)
        mixed = torch.einsum("bnij,bjnd->bind", rows, v)
        return self.norm(x + torch.einsum("bind,hnd->bih", mixed, self.o))


def test_the_start_of_a_map_kept_by_heads_is_that_of_the_whole_matrix() -> None:
    report = report_of(Stack(Summed, final=False))
    [start] = [f.numbers["start"] for f in report.findings if f.code == "D301"]
    assert start == pytest.approx(0.2**2 * WIDTH, rel=0.1)


class DeepNormed(nn.Module):
    """x' = N(α·x + F(x)), with V, O and the feed-forward at β times Xavier."""

    def __init__(self, alpha: float, beta: float, branches: int) -> None:
        super().__init__()
        self.branches, self.alpha = nn.ModuleList([Attention(), FFN(), Attention()][:branches]), alpha
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in self.branches)
        for name, linear in self.named_modules():
            if isinstance(linear, nn.Linear):
                nn.init.xavier_normal_(linear.weight, gain=1.0 if name[-1] in "qk" else beta)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        for number, (branch, norm) in enumerate(zip(self.branches, self.norms, strict=True)):
            x = norm(self.alpha * x + (branch(x) if number < 2 else branch(x, memory)))
        return x


class DeepNet(nn.Module):
    """Encoder and decoder of N and M layers with the constants of Wang et al. 2022, table of DeepNorm."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.one, self.two = nn.Embedding(50, WIDTH), nn.Embedding(50, WIDTH)
        self.encoder = nn.ModuleList(DeepNormed(0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16), 2) for _ in range(n))
        self.decoder = nn.ModuleList(DeepNormed((3 * m) ** 0.25, (12 * m) ** -0.25, 3) for _ in range(m))

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x, y = self.one(ids), self.two(target)
        for block in self.encoder:
            x = block(x)
        for block in self.decoder:
            y = block(y, x)
        return y


@pytest.mark.parametrize(("n", "m"), [(6, 6), (12, 3)])
def test_deepnorm_of_an_encoder_counts_what_its_decoder_lets_through(n: int, m: int) -> None:
    report = screen.check(DeepNet(n, m), example_inputs=(torch.zeros(2, TOKENS, dtype=torch.long), torch.zeros(2, 7, dtype=torch.long)))
    assert [s.role for s in report.streams] == ["encoder", "decoder"]
    found = [f for f in report.findings if f.code == "D102"]
    assert {f.outcome for f in found} == {"holds"}, [f.message for f in found]
    assert float(next(f.numbers["update"] for f in found if f.sublayer == "attention")) == pytest.approx(1.01, abs=0.1)


class Hybrid(nn.Module):
    """HybridNorm: y = N(x + attention(x)), x' = y + ffn(y)."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.norm, self.attention, self.ffn = nn.LayerNorm(WIDTH), Attention(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x + self.attention(x))
        return y + self.ffn(y)


def test_a_branch_that_reads_a_sum_just_normalised_reads_a_bounded_value() -> None:
    report = report_of(Stack(Hybrid))
    assert outcomes(report, "R301") == {"holds"}
    assert all("no norm bounds what the branch reads" not in f.message for f in report.findings)


def test_heads_that_share_values_start_as_heads_of_their_own() -> None:
    """The gain of V through O is σ²·√(in·out) of the map from x to all heads, copies included."""
    starts = []
    for heads in (8, 2, 1):
        sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": heads}
        [built] = build(parse("hf:llama"), set=sizes, inputs=(), depth=None)
        facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
        [attention] = [s for k in facts.streams[0].kinds for s in k.sublayers if s.role == "attention"]
        starts.append(start_product(facts, attention))
    assert starts == pytest.approx([0.02**4 * 64**2] * 3)


class OutputNorm(nn.Module):
    """A norm on the output alone, around a feed-forward of the stream itself."""

    def __init__(self, act: Callable[[Tensor], Tensor], product: bool = False) -> None:
        super().__init__()
        self.ffn, self.before, self.after, self.product = FFN(act), nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH), product

    def forward(self, x: Tensor) -> Tensor:
        return x + self.after(x * self.ffn(self.before(x)) if self.product else self.ffn(x))


@pytest.mark.parametrize(
    ("block", "expected"),
    [(lambda _: OutputNorm(F.gelu), "holds"), (lambda _: OutputNorm(torch.sin), "conditional"), (lambda _: OutputNorm(F.gelu, True), "conditional")],
    ids=["homogeneous", "sin", "product with the stream"],
)
def test_a_law_of_depth_under_an_output_norm_wants_a_homogeneous_branch(block: Callable[[int], nn.Module], expected: str) -> None:
    assert outcomes(report_of(Stack(block)), "D202") == {expected}
