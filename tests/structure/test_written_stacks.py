"""What is said of stacks as libraries write them (`written_stacks.py`). The truth about each is worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from tests.structure.written_stacks import (
    Alternating, Attention, Conditioned, Copies, DEPTH, FFN, Fused, Late,
    OneOutput, Remembers, Shared, Skipping, Stages, TOKENS, WIDTH, blocks, read,
)  # fmt: skip

pytestmark = pytest.mark.by_the_day


@pytest.mark.parametrize("how", ["", "rms", "talking", "carried"])
def test_a_list_in_which_attention_and_ffn_take_turns(how: str) -> None:
    """Pairs are blocks, whatever the first of them lacks; logits that each attention hands to the next are no stream."""
    report = read(Alternating(how))
    assert {text.partition(": ")[2] for text in blocks(report)} == {"attention pre, ffn pre"}
    assert (report.streams[0].depth, report.streams[0].final_norm) == (DEPTH, True)
    kind = report.streams[0].kinds[0]
    assert kind.sublayers[0].qk_norm == ("per_head" if how == "rms" else "none")


@pytest.mark.parametrize("peri", [False, True])
def test_an_l2_norm_times_the_root_of_its_size_is_rms_and_its_gain_no_scale(peri: bool) -> None:
    report = read(Alternating(peri=peri))
    [kind] = report.streams[0].kinds
    assert {(s.placement, s.norm_type, s.residual.kind) for s in kind.sublayers} == {("peri" if peri else "pre", "rmsnorm", "none")}


def test_keys_of_an_argument_that_a_cache_reads_too_are_maps_of_the_branch() -> None:
    [kind] = read(Alternating(), torch.zeros(2, 7, WIDTH)).streams[0].kinds
    assert (kind.sublayers[0].role, kind.sublayers[0].m.maps) == ("cross_attention", 4)


class Relative(nn.Module):
    """Logits with a second product, of the queries and a map of relative places that come in as an argument."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o, self.p = (nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.norm, self.first = nn.LayerNorm(WIDTH), first

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        q, k, v = (m(self.norm(x)) for m in (self.q, self.k, self.v))
        content, position = q @ k.mT, q @ self.p(places).mT
        return x + self.o(((position + content if self.first else content + position) / WIDTH**0.5).softmax(-1) @ v)


@pytest.mark.parametrize("first", [False, True])
def test_self_attention_with_places_that_are_an_argument_is_no_cross_attention(first: bool) -> None:
    report = screen.check(Relative(first), example_inputs=(torch.zeros(2, TOKENS, WIDTH), torch.zeros(TOKENS, WIDTH)))
    [sublayer] = report.streams[0].kinds[0].sublayers
    assert (sublayer.role, sublayer.placement, sublayer.m.maps) == ("attention", "pre", 5)


def test_two_branches_from_one_projection() -> None:
    report = read(nn.Sequential(*(Fused() for _ in range(DEPTH)), nn.LayerNorm(WIDTH)))
    assert blocks(report) == ["3: attention pre, gated_ffn pre"]
    subs = report.streams[0].kinds[0].sublayers
    assert {s.parallel_group for s in subs} == {0} and [s.m.maps for s in subs] == [4, 3]


class Mean(nn.Module):
    """A mean of the state and what a branch makes of it, in four spellings, with a number or a trained vector."""

    def __init__(self, how: str, learned: bool) -> None:
        super().__init__()
        self.how, self.f, self.norm = how, FFN(), nn.LayerNorm(WIDTH)
        self.w: nn.Parameter | float = nn.Parameter(torch.full((WIDTH,), 0.25)) if learned else 0.25

    def forward(self, x: Tensor) -> Tensor:
        h, w = self.f(self.norm(x)), self.w
        if self.how == "lerp":
            return torch.lerp(x, h, w)
        return x + w * (h - x) if self.how == "plus" else x - (x - h) * w if self.how == "minus" else (1 - w) * x + w * h


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("how", ["lerp", "plus", "minus", "apart"])
def test_a_mean_of_state_and_branch_is_one_however_it_is_written(how: str, learned: bool) -> None:
    [stream] = read(nn.Sequential(*(Mean(how, learned) for _ in range(DEPTH)))).streams
    [sub] = stream.kinds[0].sublayers
    assert (sub.residual.alpha, sub.residual.branch, sub.residual.kind) == (0.75, 0.25, "learned" if learned else "constant")
    assert (stream.depth, stream.long_skips, sub.m.maps, sub.m.min_degree) == (DEPTH, [], 2, 2)


class Twins(nn.Module):
    """Two feed-forwards that read one norm, added one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.f, self.g = nn.LayerNorm(WIDTH), FFN(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        n = self.norm(x)
        return x + self.f(n) + self.g(n)


def test_parallel_branches_that_are_alike_make_one_block() -> None:
    report = read(nn.Sequential(*(Twins() for _ in range(DEPTH)), nn.LayerNorm(WIDTH)))
    assert blocks(report) == ["3: ffn pre, ffn pre"]


@pytest.mark.parametrize("how", ["apart", "one input", "gated", "no bias", "hidden first"])
def test_two_branches_into_one_output_map(how: str) -> None:
    report = read(nn.Sequential(*(OneOutput(how) for _ in range(DEPTH)), nn.LayerNorm(WIDTH)))
    subs = {s.role: s for s in report.streams[0].kinds[0].sublayers}
    ffn = "gated_ffn" if how == "gated" else "ffn"
    assert {role: (s.placement, s.parallel_group, s.m.maps) for role, s in subs.items()} == {
        "attention": ("pre", 0, 4), ffn: ("pre", 0, 3 if how == "gated" else 2),
    }  # fmt: skip
    assert [s.depth for s in report.streams] == [DEPTH]


class Under(nn.Module):
    """Blocks under one condition."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(OneOutput(how) for _ in range(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, c[:, None])
        return self.norm(x)


@pytest.mark.parametrize("how", ["apart", "one input"])
def test_two_branches_into_one_gated_output_map(how: str) -> None:
    [stream] = read(Under(how), torch.zeros(2, WIDTH)).streams
    subs = {s.role: s for s in stream.kinds[0].sublayers}
    assert {role: (s.placement, s.parallel_group, s.m.maps, s.residual.branch_kind) for role, s in subs.items()} == {
        "attention": ("pre", 0, 4, "data"), "ffn": ("pre", 0, 2, "data"),
    }  # fmt: skip
    assert stream.depth == DEPTH


@pytest.mark.parametrize("how", ["own gate", "read twice", "not activated"])
def test_one_output_map_that_is_no_sum_of_two_branches(how: str) -> None:
    report = read(nn.Sequential(*(OneOutput(how) for _ in range(DEPTH)), nn.LayerNorm(WIDTH)))
    assert [(s.role, s.parallel_group) for s in report.streams[0].kinds[0].sublayers] == [("attention", None)]


def test_two_branches_with_one_scale_each_have_it_and_the_start_counts_it_once() -> None:
    report = read(nn.Sequential(*(Shared() for _ in range(6)), nn.LayerNorm(WIDTH)))
    assert blocks(report) == ["6: attention pre, ffn pre"]
    assert [(s.residual.branch_kind, s.residual.branch) for s in report.streams[0].kinds[0].sublayers] == [("learned", 4.0)] * 2
    [ratio] = [c for c in report.claims if c.claim == "rms_ratio"]
    assert ratio.measured is not None and ratio.measured.value == pytest.approx(ratio.value, rel=0.02)


def test_a_stream_that_passes_a_matrix_with_a_skip_goes_on() -> None:
    report = read(Skipping())
    assert blocks(report) == ["4: attention pre, ffn pre"]
    assert report.streams[0].final_norm is True and report.streams[0].identity_path.exists is False
    assert [f.outcome for f in report.findings if f.code == "G110"] == ["conditional"], "a map that an earlier state is joined by is no slip"


@pytest.mark.parametrize("normed", [True, False])
def test_norms_of_keys_that_are_learned_count(normed: bool) -> None:
    [sublayer] = read(Remembers(normed)).streams[0].kinds[0].sublayers
    assert (sublayer.qk_norm, sublayer.q_norm, sublayer.k_norm) == (("cosine", "cosine", "cosine") if normed else ("none", "cosine", "none"))


def test_blocks_that_are_summed_in_the_next_one_are_counted_where_they_were_not_run() -> None:
    report = read(Late(40))
    assert blocks(report) == ["40: ffn pre"] and report.coverage.stamped
    assert (report.streams[0].depth, report.streams[0].final_norm) == (40, True)


def test_the_final_norm_behind_the_sum_of_copies() -> None:
    [stream] = read(Copies()).streams
    assert (stream.depth, stream.final_norm) == (DEPTH, True)


def test_a_gate_that_another_argument_makes_is_a_scale() -> None:
    [sub] = read(Conditioned(), torch.zeros(2, WIDTH)).streams[0].kinds[0].sublayers
    assert (sub.role, sub.placement, sub.residual.branch_kind) == ("ffn", "pre", "data")


def test_blocks_of_a_stack_whose_last_sum_has_the_norm_of_the_stack() -> None:
    report = read(Stages())
    assert report.streams[0].depth == 4


class Turned(nn.Module):
    """Attention with QK-norm whose angles are arguments, and a feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.second, self.ffn = nn.LayerNorm(WIDTH), Attention("rms"), nn.LayerNorm(WIDTH), FFN()
        self.attention.norms = nn.ModuleList(nn.Identity() for _ in range(2))
        self.q_norm, self.k_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        y, a = self.norm(x), self.attention
        q, k = self.q_norm(a.q(y)), self.k_norm(a.k(y))
        q, k = (t * torch.cos(angles) + t.roll(1, -1) * torch.sin(angles) for t in (q, k))
        x = x + a.o(torch.softmax(q @ k.mT / 6, -1) @ a.v(y))
        return x + self.ffn(self.second(x))


class Separable(nn.Module):
    """Matrix, filter over the tokens, matrix: what mixes tokens in a block of its own kind (ConvFormer)."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.filter = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(self.filter(F.gelu(self.up(x)).mT).mT)
        return y


class Mixed(nn.Module):
    """Blocks of a token mixer and a separable filter, or a feed-forward."""

    def __init__(self, first: type[nn.Module], second: type[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.ModuleList([nn.LayerNorm(WIDTH), make()]) for _ in range(DEPTH) for make in (first, second))

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in self.parts:
            y = part(norm(x))
            x = x + (y[0] if isinstance(y, tuple) else y)
        return x


class Gated(nn.Module):
    """Attention and FFN, each of which a GRU cell joins to the stream."""

    def __init__(self) -> None:
        super().__init__()
        makers = [Attention, FFN] * DEPTH
        self.parts = nn.ModuleList(nn.ModuleList([nn.LayerNorm(WIDTH), make(), nn.GRUCell(WIDTH, WIDTH)]) for make in makers)
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for norm, part, cell in self.parts:
            y = part(norm(x))
            x = cell((y[0] if isinstance(y, tuple) else y).flatten(0, 1), x.flatten(0, 1)).view_as(x)
        return self.last(x)


class TwoTexts(nn.Module):
    """Two streams in one sequence: it is cut, and the cut that nothing reads ends no stream."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.last = nn.ModuleList(nn.ModuleList([nn.LayerNorm(WIDTH), FFN()]) for _ in range(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        for norm, ffn in self.layers:
            both = torch.cat([text, x], 1)
            both = both + ffn(norm(both))
            text, x = both[:, : text.shape[1]], both[:, text.shape[1] :]
        return self.last(x)


class Beside(nn.Module):
    """A side path with an add of its own behind the norm, joined to the stream behind the attention (Gemma 3n's laurel)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after, self.second, self.last = (nn.LayerNorm(WIDTH) for _ in range(4))
        self.attention, self.ffn, self.side = Attention(), FFN(), nn.Sequential(nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        side = y + self.last(self.side(y))
        x = (x + self.after(self.attention(y)[0]) + side) * 0.5**0.5
        return x + self.ffn(self.second(x))


def test_a_side_path_behind_a_norm_is_not_the_stream() -> None:
    report = read(nn.Sequential(*(Beside() for _ in range(DEPTH))))
    subs = report.streams[0].kinds[0].sublayers
    assert [(s.role, s.placement) for s in subs if s.role in ("attention", "ffn")] == [("attention", "peri"), ("ffn", "pre")]
    assert report.streams[0].depth == DEPTH and report.streams[0].identity_path.exists is True


class Residual(nn.Module):
    """x + F(N(x))."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.norm, self.part = nn.LayerNorm(WIDTH), part

    def forward(self, x: Tensor) -> Tensor:
        y = self.part(self.norm(x))
        return x + (y[0] if isinstance(y, tuple) else y)


def test_an_ffn_that_stands_alone_before_the_turns() -> None:
    """The later stages of LeViT."""
    layers = [Residual(make()) for make in [FFN, *[Attention, FFN] * DEPTH]]
    report = read(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(*layers), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 7)))
    assert blocks(report) == ["1: ffn pre", "3: attention pre, ffn pre"]


def test_angles_that_are_arguments_are_no_queries() -> None:
    [kind] = read(Turned(), torch.zeros(2, TOKENS, WIDTH)).streams[0].kinds
    assert kind.sublayers[0].qk_norm == "per_head", "one head"


@pytest.mark.parametrize(("first", "roles"), [(Separable, ["conv", "ffn"]), (Attention, ["attention", "ffn"])])
def test_a_filter_in_a_feed_forward_mixes_tokens_where_nothing_else_does(first: type[nn.Module], roles: list[str]) -> None:
    [kind] = read(Mixed(first, FFN if first is Separable else Separable)).streams[0].kinds
    assert [s.role for s in kind.sublayers] == roles


def test_a_gru_cell_joins_a_branch_to_the_stream() -> None:
    report = read(Gated())
    assert {text.partition(": ")[2] for text in blocks(report)} == {"attention pre, ffn pre"}
    assert (report.streams[0].depth, report.streams[0].final_norm) == (DEPTH, True)
    assert report.streams[0].kinds[0].sublayers[0].residual.alpha_kind == "data"


def test_a_cut_that_nothing_reads_ends_no_stream() -> None:
    report = read(TwoTexts(), torch.zeros(2, 4, WIDTH))
    assert [(s.depth, s.final_norm) for s in report.streams] == [(DEPTH, True)]


class Group(nn.Module):
    """Blocks with a skip around all of them, behind a map."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(Residual(Attention()), Residual(FFN())) for _ in range(2))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for block in self.blocks:
            y = block(y)
        return x + self.last(y)


class Groups(nn.Module):
    """Groups of blocks; perhaps one skip around all."""

    def __init__(self, count: int, around: bool = False) -> None:
        super().__init__()
        self.groups, self.norm = nn.ModuleList(Group() for _ in range(count)), nn.LayerNorm(WIDTH)
        self.back, self.head = nn.Linear(WIDTH, WIDTH) if around else None, nn.Linear(WIDTH, 7)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for group in self.groups:
            y = group(y)
        y = self.norm(y)
        return self.head(y if self.back is None else x + self.back(y))


@pytest.mark.parametrize("around", [False, True])
def test_groups_of_blocks_with_a_skip_around_each(around: bool) -> None:
    """SwinIR, HAT: the stream has a block for each group, and the blocks of the groups are a stream inside."""
    report = read(nn.Sequential(nn.Linear(WIDTH, WIDTH), Groups(DEPTH, around)))
    stream, inner = (next(s for s in report.streams if s.name.startswith(name)) for name in ("stream", "inner"))
    assert (stream.depth, stream.final_norm) == (DEPTH, True)
    assert [(k.count, [(s.role, s.placement) for s in k.sublayers]) for k in inner.kinds] == [(2 * DEPTH, [("attention", "pre"), ("ffn", "pre")])]
    assert {f.outcome for f in report.findings if f.code == "G103"} <= {"holds", "not_applicable"}


def test_one_skip_around_all_blocks_is_no_group() -> None:
    report = read(nn.Sequential(nn.Linear(WIDTH, WIDTH), Group(), nn.Linear(WIDTH, 7)))
    assert (report.streams[0].depth, [s.role for s in report.streams[0].kinds[0].sublayers]) == (2, ["attention", "ffn"])


class Pairs(nn.Module):
    """CoCa: a list of blocks, then a list of pairs of blocks that are called one by one."""

    def __init__(self) -> None:
        super().__init__()
        def part() -> nn.Module:
            return nn.Sequential(Residual(Attention()), Residual(FFN()))

        self.alone = nn.ModuleList(part() for _ in range(DEPTH))
        self.pairs = nn.ModuleList(nn.ModuleList([part(), nn.Sequential(Residual(FFN()), Residual(Attention()))]) for _ in range(DEPTH))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 7))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.alone:
            x = part(x)
        for one, other in self.pairs:
            x = other(one(x))
        return self.head(x)


def test_a_list_of_unlike_blocks_in_a_list_is_one_block() -> None:
    report = read(nn.Sequential(nn.Linear(WIDTH, WIDTH), Pairs()))
    pair = "attention pre, ffn pre, ffn pre, attention pre"
    assert blocks(report) == [f"{DEPTH}: attention pre, ffn pre", f"{DEPTH}: {pair}"] and report.streams[0].depth == 2 * DEPTH


class Picture(nn.Module):
    """Channels second, laid out as tokens for the norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(width), nn.Conv2d(width, width, 3, padding=1, groups=width), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[2:])
        return x + self.out(self.mix(y))


class Joined(nn.Module):
    """Twice as many channels in the second half, half of them those of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(*(Picture(WIDTH * n) for _ in range(DEPTH))) for n in (1, 2))
        self.start, self.side = nn.Conv2d(3, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(self.start(x))
        return self.second(torch.cat([self.side(x), x], 1))


def test_the_width_of_a_picture_is_that_of_its_channels() -> None:
    report = screen.check(Joined(), example_inputs=(torch.zeros(2, 3, 12, 12),))
    assert [s.width for s in report.streams] == [2 * WIDTH]
