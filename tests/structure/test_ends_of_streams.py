"""Ends of streams: a norm behind the mean over places, and a state whose places and features are one axis."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report


class Block(nn.Module):
    """x + F(norm(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(F.gelu(self.up(self.norm(x))))
        return out


class Classifier(nn.Module):
    """A classifier whose norm stands behind what `pool` makes of the tokens."""

    def __init__(self, beside: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.head, self.beside = nn.LayerNorm(32), nn.Linear(32, 100), beside

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        pooled = x[:, 1:].mean(1)
        out: Tensor = self.head(self.norm(pooled)) + (self.head(x[:, 0]) if self.beside else 0.0)
        return out


class Chosen(nn.Module):
    """Adds a branch to the tokens that a mask chooses, which are one axis with their features then."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x: Tensor) -> Tensor:
        keep = torch.ones_like(x).bool()
        chosen = x[keep].view(x.shape[0], -1, 32)
        flat: Tensor = x[keep] + self.down(F.gelu(self.up(self.norm(chosen)))).view(-1)
        return flat


def _report(model: nn.Module) -> Report:
    return screen.check(model, example_inputs=torch.randn(2, 8, 32))


def test_a_norm_behind_the_mean_over_places_is_no_missing_norm() -> None:
    report = _report(Classifier())
    stream = report.streams[0]
    assert (stream.final_norm, stream.pooled_norm) == (False, True)
    assert "final norm on the mean over places" in report.summary and "no final norm" not in report.summary


def test_it_is_none_where_the_head_also_reads_the_bare_stream() -> None:
    report = _report(Classifier(beside=True))
    assert (report.streams[0].final_norm, report.streams[0].pooled_norm) == (False, False)
    assert "no final norm" in report.summary


def test_the_width_of_a_flattened_state_is_that_of_the_state_before() -> None:
    assert [s.width for s in _report(Chosen()).streams] == [32]


class Lanes(nn.Module):
    """Four copies that trained matrices mix in a loop that is written out; `scale`: a learned number multiplies what enters."""

    def __init__(self, scale: bool) -> None:
        super().__init__()
        self.table, self.scale = nn.Embedding(50, 32), nn.Parameter(torch.full((1,), 3.0)) if scale else None
        self.mix = nn.ParameterList(nn.Parameter(torch.cat([torch.eye(4)[:, [n % 4]], torch.eye(4)], 1)) for n in range(6))
        self.norms, self.maps = nn.ModuleList(nn.LayerNorm(32) for _ in range(6)), nn.ModuleList(nn.Linear(32, 32) for _ in range(6))
        self.end = nn.LayerNorm(32)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        x = x if self.scale is None else x * self.scale
        lanes = x.unsqueeze(2).repeat(1, 1, 4, 1)
        for mix, norm, linear in zip(self.mix, self.norms, self.maps, strict=True):
            mixed = torch.einsum("btnd,nm->btmd", lanes, mix)
            lanes = mixed[:, :, 1:] + F.gelu(linear(norm(mixed[:, :, 0]))).unsqueeze(2)
        out: Tensor = self.end(lanes.sum(2))
        return out


def test_a_matrix_that_mixes_lanes_is_no_scale_of_the_embedding() -> None:
    told = [screen.check(Lanes(scale), spot_check=False).streams[0].embed_scale for scale in (False, True)]
    assert told == [False, True]


class Smeared(nn.Module):
    """Ids, a share of the token before or a convolution that says the places, one norm, and blocks; the last of them may be called by itself."""

    def __init__(self, how: str, block: type[nn.Module] = Block) -> None:
        super().__init__()
        self.embed, self.gate, self.places = nn.Embedding(50, 32), nn.Linear(32, 1), nn.Conv1d(32, 32, 3, padding=1)
        self.start, self.end, self.blocks, self.how = nn.LayerNorm(32), nn.LayerNorm(32), nn.ModuleList(block() for _ in range(4)), how

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.how == "share":
            x = torch.cat([x[:, :1], x[:, 1:] + torch.sigmoid(self.gate(x[:, 1:])) * x[:, :-1]], 1)
        elif self.how == "places":
            x = x + self.places(x.transpose(1, 2)).transpose(1, 2)
        x = self.start(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.end(x)
        return out


class Post(nn.Module):
    """norm(x + F(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x + self.down(F.gelu(self.up(x))))
        return out


@pytest.mark.parametrize("how", ["share", "places", "none"])
@pytest.mark.parametrize("block", [Block, Post])
def test_a_sum_and_its_norm_before_the_blocks_are_of_the_embedding(how: str, block: type[nn.Module]) -> None:
    report = screen.check(Smeared(how, block), example_inputs=torch.arange(16).view(2, 8))
    (stream,) = report.streams
    assert [(k.count, [s.placement for s in k.sublayers]) for k in stream.kinds] == [(4, ["pre" if block is Block else "post"])]
    assert stream.embed_norm is True and stream.depth == 4 and "G124" not in _violated(report)


def _violated(report: Report) -> set[str]:
    return {f.code for f in report.findings if f.outcome == "violated"}


def test_a_first_block_that_is_called_by_itself_stays_a_block() -> None:
    model = nn.Sequential(Post(), *(nn.Sequential(Post(), Post()) for _ in range(2)))
    (stream,) = screen.check(model, example_inputs=torch.randn(2, 8, 32)).streams
    assert sum(k.count * len(k.sublayers) for k in stream.kinds) == 5


class Started(nn.Module):
    """A stream that begins with a normed map of features, with it and another map of them beside it, or with it and what is looked up."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.map, self.other, self.words = how, nn.LayerNorm(12), nn.Linear(12, 16), nn.Linear(12, 16), nn.Embedding(9, 16)
        self.norms, self.ups, self.downs = (nn.ModuleList(make() for _ in range(3)) for make in (
            lambda: nn.LayerNorm(16), lambda: nn.Linear(16, 48), lambda: nn.Linear(48, 16)))  # fmt: skip
        self.head = nn.Linear(16, 5)

    def forward(self, features: Tensor, ids: Tensor) -> Tensor:
        x = torch.tanh(self.map(self.norm(features)))
        x = x + self.other(features) if self.how == "beside" else x + self.words(ids) if self.how == "looked up" else x
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(torch.relu(up(norm(x))))
        return self.head(x)


@pytest.mark.parametrize(("how", "normed"), [("alone", True), ("looked up", True), ("beside", False)])
def test_a_sum_of_a_normed_map_and_one_that_is_not_begins_with_no_norm(how: str, normed: bool) -> None:
    """As the residual block in front of another one begins, whose skip has a map of its own."""
    given = (torch.zeros(2, 7, 12), torch.zeros(2, 7, dtype=torch.long))
    (stream,) = screen.check(Started(how), example_inputs=given).streams
    assert stream.embed_norm is normed


class Reversible(nn.Module):
    """Two streams that read each other, side by side in one norm at the end, or in the head."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleList((nn.LayerNorm(32), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 32))) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(64) if normed else nn.Identity(), nn.Linear(64, 100)

    def forward(self, x: Tensor) -> Tensor:
        one = two = x
        for block in self.blocks:
            first, mix, second, out = block  # type: ignore[misc]
            one, two = self.step(one, two, first, mix, second, out)
        end: Tensor = self.head(self.norm(torch.cat([one, two], -1)))
        return end

    def step(self, one: Tensor, two: Tensor, first: nn.Module, mix: nn.Module, second: nn.Module, out: nn.Module) -> tuple[Tensor, Tensor]:
        one = one + torch.tanh(mix(first(two)))
        return one, two + torch.tanh(out(second(one)))


@pytest.mark.parametrize("normed", [True, False])
def test_two_streams_side_by_side_have_the_norm_over_both(normed: bool) -> None:
    """The end of the first is read by the last branch of the second as well; the norm of that branch was all that was seen (Reformer)."""
    report = _report(Reversible(normed))
    assert [s.final_norm for s in report.streams] == [normed, normed]
    assert {f.outcome for f in report.findings if f.code == "G103"} == {"holds" if normed else "violated"}


class States(nn.Module):
    """Gives its end with an earlier state beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for block in self.blocks:
            x = block(x)
            seen.append(x)
        return torch.cat([x, seen[1]], -1)


def test_an_end_that_is_given_beside_other_states_leaves_the_model() -> None:
    """It was said to reach a head."""
    (found,) = [f for f in _report(States()).findings if f.code == "G103"]
    assert found.outcome == "conditional" and "leaves the model" in found.message
