"""A matrix of each place, looked up in a trained table, is a map; keys of relative places are none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.awkward.parts import HEADS, TOKENS, D, FFN, Stack

PLACES = torch.arange(TOKENS) % 5


class OfEach(nn.Module):
    """A matrix of the kind that a token has; the kinds take turns."""

    def __init__(self, rows: int, columns: int, spelled: str) -> None:
        super().__init__()
        self.weight, self.spelled = nn.Parameter(torch.randn(5, rows, columns) * rows**-0.5), spelled

    def forward(self, x: Tensor) -> Tensor:
        if self.spelled == "index":
            return (x.unsqueeze(-2) @ self.weight[PLACES]).squeeze(-2)
        if self.spelled == "turned":
            table = self.weight.transpose(-2, -1)  # [kinds, out, in]
            return torch.bmm(x.transpose(0, 1), torch.index_select(table, 0, PLACES).mT).transpose(0, 1)
        rows = nn.functional.embedding(PLACES, self.weight.flatten(1))
        return torch.matmul(x[:, :, None], rows.view(TOKENS, *self.weight.shape[1:])[None]).flatten(2)


class Kinds(nn.Module):
    """Attention and a net, of matrices of each kind of token."""

    def __init__(self, spelled: str) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.q, self.k, self.v, self.o = (OfEach(D, D, spelled) for _ in range(4))
        self.up, self.down = OfEach(D, 80, spelled), OfEach(80, D, spelled)

    def forward(self, x: Tensor) -> Tensor:
        u = self.norms[0](x)
        q, k, v = (f(u).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        out: Tensor = x + self.down(torch.relu(self.up(self.norms[1](x))))
        return out


class Relative(nn.Module):
    """Keys of distances, three axes long, read by every query."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.table, self.ffn = nn.Parameter(torch.randn(2 * TOKENS - 1, HEADS, D // HEADS)), FFN()

    def forward(self, x: Tensor) -> Tensor:
        u, here = self.norms[0](x), torch.arange(TOKENS)
        q, k, v = (f(u).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        places = self.table[(here[:, None] - here + TOKENS - 1)]  # [queries, keys, heads, d]
        logits = q @ k.mT + (q.permute(2, 1, 0, 3) @ places.permute(0, 2, 3, 1)).permute(2, 1, 0, 3)
        x = x + self.o((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))
        out: Tensor = x + self.ffn(self.norms[1](x))
        return out


def maps(make: object) -> list[int | None]:
    report = screen.check(Stack(make), example_inputs=torch.randn(2, TOKENS, D), spot_check=False)  # type: ignore[arg-type]
    (stream,) = report.streams
    return [b.m.maps for b in stream.kinds[0].sublayers]


@pytest.mark.parametrize("spelled", ["index", "turned", "embedding"])
def test_a_matrix_of_each_place_is_a_map(spelled: str) -> None:
    assert maps(lambda: Kinds(spelled)) == [4, 2]


def test_keys_of_relative_places_are_no_map() -> None:
    assert maps(Relative) == [4, 2]
