"""Experts as people write them: as products, taken by a choice, softly, and in a loop; none of them is attention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.structure.test_written_stacks import DEPTH, FFN, TOKENS, WIDTH, Attention, Residual, blocks, read


class Experts(nn.Module):
    """Experts as products: tokens handed out by a table of a choice, weights taken by a choice, or softly by a table of slots."""

    def __init__(self, how: str, count: int = 4) -> None:
        super().__init__()
        self.how, self.route = how, nn.Linear(WIDTH, count, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(count, WIDTH, 80) / 9), nn.Parameter(torch.randn(count, 80, WIDTH) / 9)
        self.slots = nn.Parameter(torch.randn(WIDTH, count * 2) / 9)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.route(x).softmax(-1).topk(1, -1)
        if self.how == "taken":
            y = F.relu(torch.einsum("b n d, b n k d f -> b n k f", x, self.up[chosen]))
            return torch.einsum("b n k f, b n k f d, b n k -> b n d", y, self.down[chosen], weights)
        if self.how == "soft":
            logits = (x @ self.slots).unflatten(-1, (4, 2))
            out, back = logits.softmax(1), logits.flatten(2).softmax(-1).unflatten(-1, (4, 2))
        else:
            out = F.one_hot(chosen[..., 0], 4).to(x.dtype)[..., None] * F.one_hot(torch.arange(TOKENS) % 5, 5).to(x.dtype)[None, :, None]
            back = out * weights[..., None]
        y = F.relu(torch.einsum("b n e c, b n d, e d f -> e b c f", out, x, self.up))
        return torch.einsum("b n e c, e b c f, e f d -> b n d", back, y, self.down)


class Slots(nn.Module):
    """Tokens are pooled into slots by a softmax over them, one and the same map with an activation, or one for each slot, goes over all slots, and
    each token sums them up by weights of its own."""

    def __init__(self, experts: bool, count: int = 6) -> None:
        super().__init__()
        self.route, self.experts = nn.Linear(WIDTH, 2 * count), experts
        self.maps = nn.ModuleList([nn.Sequential(nn.Linear(WIDTH, 80), nn.SiLU(), nn.Linear(80, WIDTH)) for _ in range(count if experts else 1)])

    def forward(self, x: Tensor) -> Tensor:
        taken, given = self.route(x).chunk(2, -1)
        slots = taken.softmax(1).mT @ x
        made = torch.stack([f(slots[:, n]) for n, f in enumerate(self.maps)], 1) if self.experts else self.maps[0](slots)
        return given @ made


class Looped(nn.Module):
    """Scores by a sigmoid, of which a top-k with a bias gives the numbers alone; a loop over experts, and one that all tokens go through."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.score, self.bias = nn.Linear(WIDTH, count, bias=False), nn.Buffer(torch.zeros(count))
        self.experts, self.shared = nn.ModuleList(FFN() for _ in range(count)), FFN()

    def forward(self, x: Tensor) -> Tensor:
        rows = x.view(-1, WIDTH)
        scores = self.score(rows).sigmoid()
        chosen = (scores + self.bias).topk(2, -1)[1]
        weights, made = scores.gather(1, chosen), torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            made[token] += expert(rows[token]) * weights[token, place, None]
        return (made + self.shared(rows)).view(x.shape)


def test_experts_in_a_loop_of_which_only_the_numbers_are_read() -> None:
    layers = [Residual(part) for _ in range(DEPTH) for part in (Attention(), Looped())]
    assert blocks(read(nn.Sequential(*layers, nn.LayerNorm(WIDTH)))) == ["3: attention pre, moe pre"]


@pytest.mark.by_the_day
@pytest.mark.parametrize("how", ["handed", "taken", "soft"])
def test_experts_that_are_products_are_no_attention(how: str) -> None:
    layers = [Residual(part) for _ in range(DEPTH) for part in (Attention(), Experts(how))]
    assert blocks(read(nn.Sequential(*layers, nn.LayerNorm(WIDTH)))) == ["3: attention pre, moe pre"]


@pytest.mark.by_the_day
@pytest.mark.parametrize(("experts", "role"), [(True, "moe"), (False, "linear_attention")])
def test_slots_that_share_one_map_are_no_experts(experts: bool, role: str) -> None:
    """A state that all tokens are pooled into, a gated map of it, and a product that hands it back (hidden state mixer) was told as experts."""
    layers = [Residual(part) for _ in range(DEPTH) for part in (Attention(), Slots(experts))]
    said = " ".join(blocks(read(nn.Sequential(*layers, nn.LayerNorm(WIDTH)))))
    assert f"{role} pre" in said and said.count(" pre") == 2


class Dense(nn.Module):
    """All experts of each token, weighed by what another map made of it: in one product, by a sum, or by a product of batches."""

    def __init__(self, how: str, shares: str, count: int = 4) -> None:
        super().__init__()
        self.how, self.shares, self.route = how, shares, nn.Linear(WIDTH, count)
        self.up, self.down = nn.Parameter(torch.randn(count, WIDTH, 80) / 9), nn.Parameter(torch.randn(count, 80, WIDTH) / 9)

    def forward(self, x: Tensor) -> Tensor:
        told = self.route(x)
        p = told.softmax(-1) if self.shares == "softmax" else told.sigmoid()
        if self.how == "batches":
            return torch.einsum("betd,bte->btd", F.gelu(x[:, None] @ self.up) @ self.down, p)
        hidden = F.gelu(torch.einsum("btd,edf->btef", x, self.up))
        if self.how == "product":
            return torch.einsum("btef,efd,bte->btd", hidden, self.down, p)
        return (torch.einsum("btef,efd->bted", hidden, self.down) * p[..., None]).sum(2)


@pytest.mark.parametrize("shares", ["softmax", "sigmoid"])
@pytest.mark.parametrize("how", ["product", "sum", "batches"])
def test_experts_that_all_tokens_go_through_are_no_attention(how: str, shares: str) -> None:
    layers = [Residual(part) for _ in range(DEPTH) for part in (Attention(), Dense(how, shares))]
    assert blocks(read(nn.Sequential(*layers, nn.LayerNorm(WIDTH)))) == ["3: attention pre, moe pre"]


class Heads(nn.Module):
    """Heads of one token look at each other: attention, though no token is mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (4, -1)) for m in (self.q, self.k, self.v))
        return self.out(((q @ k.mT).softmax(-1) @ v).flatten(-2))


def test_heads_that_look_at_each_other_stay_attention() -> None:
    layers = [Residual(part) for _ in range(DEPTH) for part in (Heads(), FFN())]
    assert blocks(read(nn.Sequential(*layers, nn.LayerNorm(WIDTH)))) == ["3: attention pre, ffn pre"]
