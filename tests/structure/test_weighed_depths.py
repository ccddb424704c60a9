"""What a branch reads is a mean of all states before it, weighed by a softmax for each token, in the words of matrices: it is the mean of states, and
no attention over tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import KindPart

WIDTH, DEPTH = 32, 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(torch.relu(self.up(self.norm(x))))
        return out


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.maps, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.maps(self.norm(x)).chunk(3, -1)
        out: Tensor = self.out((q @ k.transpose(1, 2) / WIDTH**0.5).softmax(-1) @ v)
        return out


class Shares(nn.Module):
    """Numbers for the states of each token: a map of the last one, or how much a query made of it is like each."""

    def __init__(self, states: int, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.each = how, nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH if how == "compared" else states)

    def forward(self, kept: list[Tensor]) -> Tensor:
        told = self.query(self.norm(kept[-1]))
        if self.how == "mapped":
            return torch.matmul(told.softmax(-1).unsqueeze(-2), torch.stack(kept, -2)).squeeze(-2)
        states = torch.stack(kept)
        logits = torch.einsum("btd,sbtd->sbt", told, self.each(states))
        return torch.einsum("sbt,sbtd->btd", logits.softmax(0), states)


class Deep(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.parts = nn.ModuleList(make() for _ in range(DEPTH) for make in (Attention, Net))
        self.shares, self.last = nn.ModuleList(Shares(n + 1, how) for n in range(2 * DEPTH)), nn.LayerNorm(WIDTH)
        self.embed, self.head = nn.Embedding(60, WIDTH), nn.Linear(WIDTH, 60)

    def forward(self, ids: Tensor) -> Tensor:
        kept = [self.embed(ids)]
        for part, shares in zip(self.parts, self.shares, strict=True):
            kept.append(kept[-1] + part(shares(kept)))
        out: Tensor = self.head(self.last(kept[-1]))
        return out


def words(kind: KindPart) -> list[tuple[str, str, str | None]]:
    return [(s.role, s.placement, s.norm_type) for s in kind.sublayers]


@pytest.mark.parametrize("how", ["mapped", "compared"])
def test_a_mean_of_states_is_no_attention_of_the_branch(how: str) -> None:
    torch.manual_seed(0)
    (stream,) = screen.check(Deep(how), example_inputs=torch.zeros(2, 9, dtype=torch.long)).streams
    assert stream.depth == DEPTH
    assert all(words(kind) == [("attention", "pre", "layernorm"), ("ffn", "pre", "layernorm")] for kind in stream.kinds)
