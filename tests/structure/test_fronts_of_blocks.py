"""What stands in front of a first block, of a branch, and of a last norm: a branch that is added before a written-out list, a norm for the weights
of a mix, a reshape."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen

D = 32


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def feed() -> nn.Module:
    return nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))


class Inner(nn.Module):
    """Norms and branches in one flat list: one member for each branch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(D), part]) for _ in range(3) for part in (Attend(), feed()))

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in self.layers:
            x = x + part(norm(x))
        return x


class Corrected(nn.Module):
    """A map of the normed embedding is added in front of the stack."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.first, self.inner, self.last = nn.Embedding(40, D), nn.LayerNorm(D), nn.Linear(D, D), Inner(), nn.LayerNorm(D)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        return self.last(self.inner(x + self.first(self.norm(x))))


def test_a_branch_in_front_of_a_flat_list_leaves_its_blocks_whole() -> None:
    stream, = screen.check(Corrected(), example_inputs=torch.zeros(2, 9, dtype=torch.long)).streams
    assert stream.depth == 3
    assert [(k.count, [s.role for s in k.sublayers]) for k in stream.kinds] == [(1, ["other", "attention", "ffn"]), (2, ["attention", "ffn"])]


class Weighed(nn.Module):
    """Two lanes; a LayerNorm of each decides how much of it a branch reads, whose own norm is an RMSNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh, self.share, self.norm, self.part = nn.LayerNorm(D), nn.Linear(D, 1), nn.RMSNorm(D), feed()

    def forward(self, lanes: Tensor) -> Tensor:
        mixed = (torch.sigmoid(self.share(self.weigh(lanes))) * lanes).sum(-2)
        return lanes + self.part(self.norm(mixed)).unsqueeze(-2)


class Lanes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.blocks, self.last = nn.Embedding(40, D), nn.ModuleList(Weighed() for _ in range(3)), nn.RMSNorm(D)

    def forward(self, ids: Tensor) -> Tensor:
        lanes = self.words(ids).unsqueeze(-2).expand(-1, -1, 2, -1)
        for block in self.blocks:
            lanes = block(lanes)
        return self.last(lanes.sum(-2))


def test_the_type_of_a_norm_is_that_of_the_mix_and_not_of_its_weights() -> None:
    stream = screen.check(Lanes(), example_inputs=torch.zeros(2, 9, dtype=torch.long)).streams[0]
    assert {(s.placement, s.norm_type) for k in stream.kinds for s in k.sublayers} == {("pre", "rmsnorm")}


class Updated(nn.Module):
    """A GRU's update of rows, put back into sentences, then the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.cell, self.norm = feed(), nn.GRUCell(D, D), nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.cell(self.part(x).reshape(-1, D), x.reshape(-1, D)).reshape_as(x))


def test_the_norm_on_a_last_sum_that_is_put_back_into_sentences_is_no_final_norm() -> None:
    model = nn.Sequential(nn.Embedding(40, D), *(Updated() for _ in range(3)), nn.Linear(D, 40))
    stream, = screen.check(model, example_inputs=torch.zeros(2, 9, dtype=torch.long)).streams
    assert stream.final_norm is False and {s.placement for k in stream.kinds for s in k.sublayers} == {"post"}
