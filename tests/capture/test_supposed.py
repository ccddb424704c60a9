"""Guesses that agree: what a mask leaves out, and how many entries all of its parts have, follow from what the mask is taken for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from screen.capture.trace.tracer import trace


class Reads(nn.Module):
    """A block whose input goes through a function that reads values."""

    def __init__(self, read: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(24), nn.Linear(24, 24)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        x = self.read(x)
        return x + self.proj(self.norm(x))


def patches(x: Tensor) -> Tensor:
    """Starts of patches: the tokens that a mask marks, filled up by as many that it does not (a byte-latent patcher)."""
    marked = x.mean(-1) > 0.5
    places = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    both = torch.cat([places, torch.full_like(places, x.shape[1] - 1)], dim=1)
    starts = both[torch.cat([marked, ~marked], dim=1)].reshape(x.shape[0], x.shape[1])
    return x.gather(1, starts[..., None].expand(-1, -1, x.shape[-1]))


def lengthened(x: Tensor) -> Tensor:
    """Every token is repeated as long as it lasts (a length regulator)."""
    lasts = torch.clamp(torch.round(x.mean(-1).exp()), min=0).long()
    made = torch.zeros(x.shape[0], int(lasts.sum(1).max()), x.shape[-1], device=x.device)
    for row in range(x.shape[0]):
        repeated = torch.repeat_interleave(x[row], lasts[row], dim=0)
        made[row, : repeated.shape[0]] = repeated
    return made


def rest(x: Tensor) -> Tensor:
    """Tokens that a mask takes out and those that it leaves, put together again."""
    flat = x.reshape(-1, x.shape[-1])
    kept = flat.mean(-1) > 0
    return torch.cat([flat[kept], flat[~kept]]).reshape(x.shape)


def packed(x: Tensor) -> Tensor:
    """Rows that are cut to their lengths, laid behind each other, and padded again."""
    seen = x.mean(-1) > 0
    lengths = seen.sum(1)
    pieces = [row[: int(n)] for row, n in zip(x, lengths, strict=True)]
    return pad_sequence(pieces, batch_first=True)[:, : x.shape[1]]


@pytest.mark.parametrize("read", [patches, lengthened, rest, packed])
def test_guesses_about_one_value_agree(read: Callable[[Tensor], Tensor]) -> None:
    graph = trace(Reads(read), (torch.empty(2, 16, 24, device="meta"),), {})
    assert graph.failure is None and graph.guesses
    assert graph.nodes[graph.outputs[0]].shape == (2, 16, 24)


def chosen(x: Tensor) -> Tensor:
    """Every expert is given what chose it."""
    flat = x.reshape(-1, x.shape[-1])
    made = torch.zeros_like(flat)
    best = flat[:, :3].argmax(-1)
    for expert in range(3):
        mine = torch.where(best == expert)[0]
        made = made.index_add(0, mine, flat[mine] * (expert + 1))
    return made.reshape(x.shape)


def counted(x: Tensor) -> Tensor:
    """Every expert is given as many tokens as chose it."""
    flat = x.reshape(-1, x.shape[-1])
    best = flat[:, :3].argmax(-1)
    counts = torch.bincount(best, minlength=3).tolist()
    return torch.cat([part * 2 for part in flat[best.argsort()].split(counts)]).reshape(x.shape)


@pytest.mark.parametrize("read", [chosen, counted])
def test_experts_that_a_number_chooses_are_given_tokens(read: Callable[[Tensor], Tensor]) -> None:
    graph = trace(Reads(read), (torch.empty(2, 16, 24, device="meta"),), {})
    assert graph.failure is None and graph.nodes[graph.outputs[0]].shape == (2, 16, 24)
    assert all(0 not in n.shape for n in graph.nodes if n.op == "mul" and n.shape)


def test_what_is_written_into_is_taken_for_nothing_in_particular() -> None:
    def read(x: Tensor) -> Tensor:
        kept = (x[..., 0] > 0) & False
        kept[:, 0] = True
        return x[kept].reshape(x.shape[0], -1, x.shape[-1])

    graph = trace(Reads(read), (torch.empty(2, 16, 24, device="meta"),), {})
    assert graph.failure is None and graph.nodes[graph.outputs[0]].shape == (2, 16, 24)


def filled(x: Tensor) -> Tensor:
    """A row of tokens that last no time at all is given one step for each."""
    lasts = torch.clamp(torch.round(x.mean(-1).exp()), min=0).long()
    if lasts.sum() == 0:
        lasts[lasts.sum(1).eq(0)] = 1
    return x.gather(1, (lasts.cumsum(1) % x.shape[1])[..., None].expand(-1, -1, x.shape[-1]))


def hidden(x: Tensor) -> Tensor:
    """Whether tokens are hidden hangs on a count of them."""
    seen = torch.round(x.mean(-1)).long() > 0
    if seen.sum() == 0:
        seen = seen | True
    return x.masked_fill(~seen[..., None], 0.0)


def scaled(x: Tensor) -> Tensor:
    """What a token is multiplied by hangs on a count of them."""
    lasts = torch.round(x.mean(-1)).long()
    if lasts.sum() == 0:
        lasts = lasts + 1
    return x * lasts[..., None]


@pytest.mark.parametrize(("read", "decides"), [(filled, False), (hidden, True), (scaled, True)])
def test_a_guess_that_changes_places_alone_decides_nothing(read: Callable[[Tensor], Tensor], decides: bool) -> None:
    graph = trace(Reads(read), (torch.empty(2, 16, 24, device="meta"),), {})
    assert graph.failure is None and graph.guesses and any(g.decides for g in graph.guesses) is decides
