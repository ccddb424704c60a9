"""Norms of queries and keys by groups of the features of a head, each of which has a length of its own; norms by a product of features."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS = 48, 3


class Block(nn.Module):
    """Attention whose queries and keys are divided by their lengths, over groups of features or over places."""

    def __init__(self, over: str) -> None:
        super().__init__()
        self.norm, self.over = nn.LayerNorm(WIDTH), over
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = (one(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        if self.over == "groups":
            q, k = (F.normalize(t.unflatten(-1, (4, -1)), dim=-1).flatten(-2) for t in (q, k))
        else:
            q, k = (F.normalize(t, dim=-2) for t in (q, k))
        return x + self.o((torch.softmax(10 * q @ k.mT, -1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("over", "kind"), [("groups", "l2"), ("places", "none")])
def test_norms_over_groups_of_features_count_and_those_over_places_do_not(over: str, kind: str) -> None:
    model = nn.Sequential(nn.Linear(8, WIDTH), *(Block(over) for _ in range(3)))
    report = screen.check(model, example_inputs=torch.zeros(2, 7, 8))
    (sub,) = report.streams[0].kinds[0].sublayers
    assert (sub.q_norm, sub.k_norm) == (kind, kind)


def rms(x: Tensor) -> Tensor:
    """An RMS norm whose sum of squares is a product of the features with themselves."""
    return x / torch.sqrt(torch.linalg.vecdot(x, x).unsqueeze(-1) / x.shape[-1] + 1e-6)


class Feed(nn.Module):
    """A feed-forward with such a norm before each map."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(rms(self.up(rms(x))).relu())


def test_a_sum_of_squares_as_a_product_mixes_no_tokens() -> None:
    model = nn.Sequential(nn.Linear(8, WIDTH), *(Feed() for _ in range(3)))
    (sub,) = screen.check(model, example_inputs=torch.zeros(2, 7, 8)).streams[0].kinds[0].sublayers
    assert (sub.role, sub.placement, sub.norm_type) == ("ffn", "pre", "rmsnorm")


class _Ending(nn.Module):
    """x + f(N(x)) with an RMSNorm by hand, all of that times a number that is kept beside the weights (Gemma 4): one."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.up, self.down = nn.Parameter(torch.ones(16)), nn.Linear(16, 32), nn.Linear(32, 16)
        self.register_buffer("number", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.gain * (x * torch.rsqrt((x**2).mean(-1, keepdim=True) + 1e-6))
        out: Tensor = (x + self.down(torch.relu(self.up(y)))) * self.number
        return out


def test_a_norm_reads_what_a_kept_number_multiplies() -> None:
    report = screen.check(nn.Sequential(*(_Ending() for _ in range(3)), nn.LayerNorm(16)), example_inputs=torch.zeros(2, 5, 16))
    assert {(s.placement, s.role) for k in report.streams[0].kinds for s in k.sublayers} == {("pre", "ffn")}
