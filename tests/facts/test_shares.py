"""Copies of a stream that a matrix made from them mixes: what is claimed, against what such matrices do in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

COPIES, WIDTH, DEPTH = 4, 16, 4
Mix = Callable[[Tensor, Tensor], Tensor]
"""(logits [batch, tokens, copies, copies], the stream [batch, tokens, copies, width]) -> the mixed stream."""


def _sinkhorn(z: Tensor, x: Tensor) -> Tensor:
    m = torch.exp(z)
    for _ in range(3):
        m = m / m.sum(-1, keepdim=True)
        m = m / m.sum(-2, keepdim=True)
    return torch.einsum("b t i j, b t j d -> b t i d", m, x)


def _logarithms(z: Tensor, x: Tensor) -> Tensor:
    for _ in range(3):
        z = z.log_softmax(-1)
        z = z - torch.logsumexp(z, -2, keepdim=True)
    return z.exp().type_as(x) @ x


def _raised(z: Tensor, x: Tensor) -> Tensor:
    m = torch.sigmoid(z)
    return (m / (m.sum(-1, keepdim=True) + 1e-6)) @ x


def _signed(z: Tensor, x: Tensor) -> Tensor:
    m = torch.tanh(z)
    return (m / m.sum(-1, keepdim=True)) @ x


READ: dict[str, Mix] = {
    "means of copies": lambda z, x: torch.softmax(z, -1) @ x,
    "means, the copies first": lambda z, x: (x.transpose(-1, -2) @ torch.softmax(z, -2)).transpose(-1, -2),
    "means, written out": lambda z, x: (torch.softmax(z, -1)[..., None] * x[..., None, :, :]).sum(-2),
}
WRITTEN: dict[str, Mix] = {
    "copies shared out": lambda z, x: torch.softmax(z, -2) @ x,
    "Sinkhorn": _sinkhorn,
    "Sinkhorn of logarithms": _logarithms,
    "shared out, written out": lambda z, x: torch.sum(x.unsqueeze(-2) * z.softmax(-1).unsqueeze(-1), dim=2),
}
OTHERS: dict[str, Mix] = {
    "over tokens": lambda z, x: torch.softmax(z, 1) @ x,
    "twice": lambda z, x: (2 * torch.softmax(z, -1)) @ x,
    "no sum": lambda z, x: torch.exp(z) @ x,
    "of both signs": _signed,
    "less one": lambda z, x: (torch.softmax(z, -1) - 1) @ x,
    "as it is": lambda z, x: z @ x,
}


class Block(nn.Module):
    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.mix, self.choose, self.whole = mix, nn.Linear(COPIES * WIDTH, COPIES * COPIES), nn.RMSNorm(COPIES * WIDTH)
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.choose(self.whole(x.flatten(-2))).unflatten(-1, (COPIES, COPIES))
        return self.mix(logits, x) + self.down(F.gelu(self.up(self.norm(x.mean(-2))))).unsqueeze(-2)


class Model(nn.Module):
    def __init__(self, *mixes: Mix) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Block(mixes[i % len(mixes)]) for i in range(DEPTH))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).unsqueeze(2).repeat(1, 1, COPIES, 1)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x.mean(2))
        return out


def _claims(*mixes: Mix) -> tuple[object, object]:
    """(gain of the identity path, growth at fixed weights)"""
    torch.manual_seed(0)
    report = screen.check(Model(*mixes), example_inputs=torch.zeros(2, 5, dtype=torch.long))
    found = {(c.claim, c.weights): c.value if c.status == "proved" else None for c in report.claims}
    return found["identity_gain", "start"], found["growth", "fixed"]


def _carried(mix: Mix, x: Tensor) -> Tensor:
    """A stream behind many products with matrices of large and different logits."""
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        x = mix(6.0 * torch.randn(*x.shape[:-1], COPIES, generator=generator, dtype=torch.float64), x)
    return x


def _start() -> Tensor:
    return torch.randn(2, 5, COPIES, WIDTH, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


@pytest.mark.parametrize("name", READ)
def test_means_of_copies_keep_what_all_of_them_share(name: str) -> None:
    assert _claims(READ[name]) == (1.0, "linear")
    x, alike = _start(), _start()[:, :, :1].expand(-1, -1, COPIES, -1)
    assert _carried(READ[name], x).abs().amax() <= x.abs().amax() + 1e-12
    assert torch.allclose(_carried(READ[name], alike), alike)


@pytest.mark.parametrize("name", WRITTEN)
def test_copies_that_are_shared_out_keep_their_sum(name: str) -> None:
    assert _claims(WRITTEN[name]) == (1.0, "linear")
    x = _start()
    after = _carried(WRITTEN[name], x)
    assert torch.allclose(after.sum(2), x.sum(2))
    assert bool((after.abs().sum(2) <= x.abs().sum(2) + 1e-12).all())


def test_shares_of_less_than_one_are_at_most_a_mean() -> None:
    assert _claims(_raised) == (None, "linear")
    x = _start()
    assert _carried(_raised, x).abs().amax() <= x.abs().amax()


@pytest.mark.parametrize("name", OTHERS)
def test_no_shares_of_copies(name: str) -> None:
    assert _claims(OTHERS[name]) == (None, None)


def test_some_grow_that_are_no_shares() -> None:
    x = _start()
    for name in ("twice", "no sum", "of both signs", "as it is"):
        assert _carried(OTHERS[name], x).abs().amax() > 1e3 * x.abs().amax(), name


def test_means_and_shares_by_turns_have_no_bound() -> None:
    assert _claims(READ["means of copies"], WRITTEN["copies shared out"]) == (None, None)
    x = torch.ones(1, 1, COPIES, 1, dtype=torch.float64)
    to_first = torch.full((1, 1, COPIES, COPIES), -60.0, dtype=torch.float64)
    to_first[:, :, 0] = 60.0  # all copies are written into the first one, which all then read
    for _ in range(5):
        x = READ["means of copies"](to_first.transpose(-1, -2), WRITTEN["copies shared out"](to_first, x))
    assert float(x.min()) > 0.99 * COPIES**5
