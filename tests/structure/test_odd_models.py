"""Whole models that are put together in an odd way: where blocks begin, which chains are streams, and how far a stream grows."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor, nn

import screen
from screen.capture.trace.module_calls import Scopes
from screen.report.schema import Report

WIDTH, TOKENS = 32, 9


class Attention(nn.Module):
    def __init__(self, bounded: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.bounded = bounded

    def forward(self, x: Tensor, memory: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        logits = self.q(x) @ self.k(memory).mT * WIDTH**-0.5
        logits = bias + logits if bias is not None else logits
        if self.bounded:
            logits = torch.max(logits, torch.full((), -1e9))
        return self.o(torch.softmax(logits, -1) @ self.v(memory))


class FFN(nn.Module):
    def __init__(self, size: int = WIDTH) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(size, 80), nn.Linear(80, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Pre(nn.Module):
    def __init__(self, bounded: bool = False) -> None:
        super().__init__()
        self.one, self.two, self.attention, self.ffn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention(bounded), FFN()

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.one(x), bias=bias)
        return x + self.ffn(self.two(x))


def layouts(report: Report) -> list[tuple[int, list[tuple[str, str]]]]:
    return [(s.depth, [(x.role, x.placement) for x in s.kinds[0].sublayers]) for s in report.streams if len(s.kinds) == 1]


class Lists(nn.Module):
    """A decoder whose cross-attention stands in a list of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.cross = nn.ModuleList(Pre() for _ in range(3)), nn.ModuleList(Attention() for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        for block, cross, norm in zip(self.blocks, self.cross, self.norms, strict=True):
            x = block(x)
            x = x + cross(norm(x), memory)
        return x


def test_the_layers_of_one_block_in_several_lists() -> None:
    report = screen.check(Lists(), example_inputs=(torch.zeros(2, TOKENS, WIDTH), torch.zeros(2, 7, WIDTH)))
    assert layouts(report) == [(3, [("attention", "pre"), ("ffn", "pre"), ("cross_attention", "pre")])]


class Mixer(nn.Module):
    """Two feed-forwards in one block: over tokens, then over features."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.tokens, self.features = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), FFN(TOKENS), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.one(x).mT).mT
        return x + self.features(self.two(x))


def test_two_equal_branches_of_one_block_are_one_block() -> None:
    report = screen.check(Container(nn.ModuleList(Mixer() for _ in range(4))), example_inputs=torch.zeros(2, TOKENS, WIDTH))
    assert layouts(report) == [(4, [("ffn", "pre"), ("ffn", "pre")])]


class Container(nn.Module):
    def __init__(self, blocks: nn.ModuleList, last: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks, self.last = blocks, last or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.last(x)
        return y


class Encoders(nn.Module):
    """One block, then three of another list: four blocks of one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Container(nn.ModuleList([Pre()])), Container(nn.ModuleList(Pre() for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def test_a_short_list_before_a_long_one() -> None:
    assert layouts(screen.check(Encoders(), example_inputs=torch.zeros(2, TOKENS, WIDTH))) == [(4, [("attention", "pre"), ("ffn", "pre")])]


class Biased(nn.Module):
    """A bias made of looked-up positions, to which every layer adds its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.blocks = nn.Embedding(2 * TOKENS, 1), nn.ModuleList(Pre() for _ in range(4))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        bias = self.table(positions).squeeze(-1)
        for block in self.blocks:
            x = block(x, bias)
        return x


def test_a_position_bias_is_no_stream() -> None:
    positions = torch.zeros(2, TOKENS, TOKENS, dtype=torch.long)
    report = screen.check(Biased(), example_inputs=(torch.zeros(2, TOKENS, WIDTH), positions))
    assert layouts(report) == [(4, [("attention", "pre"), ("ffn", "pre")])]


def test_logits_that_are_raised_to_a_lowest_value_are_logits() -> None:
    report = screen.check(Container(nn.ModuleList(Pre(bounded=True) for _ in range(3))), example_inputs=torch.zeros(2, TOKENS, WIDTH))
    assert report.streams[0].kinds[0].sublayers[0].role == "attention"
    assert next(c.state for c in report.channels if c.id == "L") == "conditional"


class Conformer(nn.Module):
    """The stream is doubled in every block, and normed at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last, self.up, self.down = (nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), FFN(), FFN())

    def forward(self, x: Tensor) -> Tensor:
        x = 2.0 * x + self.up(self.one(x))
        x = x + 0.5 * self.down(self.two(x))
        y: Tensor = self.last(x)
        return y


def test_multipliers_between_two_norms_on_the_stream_do_not_add_up_over_depth() -> None:
    report = screen.check(Container(nn.ModuleList(Conformer() for _ in range(24))), example_inputs=torch.zeros(2, TOKENS, WIDTH))
    assert [s.placement for s in report.streams[0].kinds[0].sublayers] == ["pre", "pre_post"] and len(report.streams[0].kinds) == 1
    assert next(c.state for c in report.channels if c.id == "R") != "open"


class Entry(nn.Module):
    """The first block of a stage begins with a projection, so that one branch of it stands on the new stream."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.norm, self.ffn = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = self.project(x)
        return x + self.ffn(self.norm(x))


def test_a_stage_in_a_list_is_no_block() -> None:
    stages = (Container(nn.ModuleList([Entry(), Pre(), Pre()])) for _ in range(2))
    report = screen.check(Container(nn.ModuleList(stages)), example_inputs=torch.zeros(2, TOKENS, WIDTH))
    assert [s.depth for s in report.streams] == [3, 3]


class Skipped(nn.Module):
    """y = N(x); x' = α·y + F(y), or x' = α·x + F(N(x))."""

    def __init__(self, normed: bool, alpha: float) -> None:
        super().__init__()
        self.norm, self.ffn, self.normed, self.alpha = nn.LayerNorm(WIDTH), FFN(), normed, alpha

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return self.alpha * (y if self.normed else x) + self.ffn(y)


def test_what_is_said_of_the_distance_of_two_inputs() -> None:
    """A normed skip takes two inputs that nearly meet as far apart as any other two, and a multiplier above 1 takes all apart."""

    def said(normed: bool, alpha: float) -> tuple[str, str]:
        model = Container(nn.ModuleList(Skipped(normed, alpha) for _ in range(3)))
        report = screen.check(model, example_inputs=torch.zeros(2, TOKENS, WIDTH))
        return next((f.outcome, f.theorem) for f in report.findings if f.code == "R401")

    close = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e-6
    skip = Container(nn.ModuleList(Skipped(True, 1.0) for _ in range(3))).double()
    ends = skip(close)
    assert float((ends[0] - ends[1]).detach().norm()) > 1e3 * float((close[0] - close[1]).norm())
    assert said(True, 1.0) == ("holds", "‖x_N − x_N'‖ ≤ 2·b per token")
    assert said(False, 1.0) == ("holds", "‖x_N − x_N'‖ ≤ ‖x_0 − x_0'‖ + Σ 2·b_l")
    assert said(False, 1.2)[0] == "cannot_tell"


class Forgetful(nn.Module):
    """Makes its table anew in each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.zeros(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.table = torch.ones_like(x)
        return x + self.table


def test_what_a_forward_throws_away_keeps_its_place_in_memory() -> None:
    """Else a value that is made later has the id that is known by the name of the table."""
    model = Forgetful()
    gone = weakref.ref(model.table)
    scopes = Scopes(model)
    assert list(scopes.tensor_names().values()) == [("constant", "table")]
    model(torch.zeros(4, 8))
    assert gone() is not None


class Post(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.attention, self.ffn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x + self.attention(x))
        return self.two(x + self.ffn(x))


class Series(nn.Module):
    """Series are standardised over time, each becomes a token, and what they were standardised by is given back."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(40, WIDTH), nn.Linear(WIDTH, 12)
        self.blocks = nn.ModuleList(Post() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        deviation = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        h = self.embed(((x - mean) / deviation).transpose(1, 2))
        for block in self.blocks:
            h = block(h)
        return self.head(h).transpose(1, 2) * deviation + mean


def test_series_that_are_standardised_are_no_normed_embedding_and_their_mean_is_no_stream() -> None:
    report = screen.check(Series(), example_inputs=torch.zeros(2, 40, 7), spot_check=False)
    assert layouts(report) == [(2, [("attention", "post"), ("ffn", "post")])]
    assert report.streams[0].embed_norm is False


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.kv, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("cache", torch.zeros(4, 64, WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        self.cache[:b, :n] = self.kv(self.norm(x))
        weights = torch.einsum("bsc,btc->bst", self.q(self.norm(x)), self.cache[:b, :n]).softmax(-1)
        return x + self.o(torch.einsum("bst,btc->bsc", weights, self.cache[:b, :n]))


class Cached(nn.Module):
    """Attention to what is written into a cache, in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(50, WIDTH), nn.ModuleList(Cache() for _ in range(2))

    @torch.inference_mode()
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x


def test_what_is_written_into_a_cache_in_inference_mode_is_read_from_it() -> None:
    report = screen.check(Cached(), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long), spot_check=False)
    assert layouts(report) == [(2, [("attention", "pre")])]
