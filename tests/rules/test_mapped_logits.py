"""L201 of logits that are compared and then mapped or multiplied: it names the maps of queries and keys, and what scales their products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import FindingPart

WIDTH, HEADS = 32, 4


class Block(nn.Module):
    """Attention with something done to its logits."""

    def __init__(self, how: str, normed: bool = False) -> None:
        super().__init__()
        self.norm, self.how, self.normed = nn.LayerNorm(WIDTH), how, normed
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.inner = nn.RMSNorm(WIDTH // HEADS)
        self.heads, self.near, self.heat = nn.Parameter(torch.eye(HEADS)), nn.Conv2d(HEADS, HEADS, 3, padding=1), nn.Linear(WIDTH, HEADS)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (m(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        if self.normed:
            q, k = self.inner(q), self.inner(k)
        u = -torch.cdist(q, k) if self.how == "distance" else q @ k.mT / (WIDTH // HEADS) ** 0.5
        if self.how == "heads":
            u = torch.einsum("bhij,hg->bgij", u, self.heads)
        elif self.how == "near":
            u = self.near(u)
        elif self.how == "heat":
            u = u * self.heat(y).transpose(1, 2)[..., None]
        elif self.how == "bounded heat":
            u = u * self.heat(y).sigmoid().transpose(1, 2)[..., None]
        out: Tensor = x + self.out((u.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return out


def told(how: str, normed: bool = False) -> FindingPart:
    report = screen.check(Block(how, normed), example_inputs=torch.randn(2, 10, WIDTH), depth=6)
    [finding] = [f for f in report.findings if f.code == "L201"]
    return finding


BOTH = ("W_Q and W_K", "`q.weight` and `k.weight`")
SCALED = {"heads": "heads", "near": "near.weight", "heat": "heat.weight", "bounded heat": None, "distance": None}


@pytest.mark.parametrize("how", SCALED)
def test_what_scales_the_products_is_named_beside_the_maps(how: str) -> None:
    finding, name = told(how), SCALED[how]
    said, advised = finding.plain or "", finding.remedy or ""
    assert finding.outcome == "conditional" and any(b in said for b in BOTH) and "the map that makes them" not in said, said
    assert advised.startswith("norms on queries and keys")
    assert ("and with" in said, "a bound on" in advised) == (name is not None, name is not None), (said, advised)
    if name is not None:
        assert f"`{name}`" in said and f"`{name}`, which scales the logits" in advised


@pytest.mark.parametrize("how", ["heads", "heat", "near"])
def test_norms_on_queries_and_keys_leave_what_scales_their_products(how: str) -> None:
    finding = told(how, normed=True)
    assert finding.outcome == "conditional" and "W_Q" not in finding.message and f"`{SCALED[how]}`" in finding.message, finding.message


@pytest.mark.parametrize("how", ["heads", "near"])
def test_the_width_of_a_head_is_that_of_the_comparison(how: str) -> None:
    assert f"`nn.RMSNorm({WIDTH // HEADS})` each" in (told(how).remedy or "")


@pytest.mark.parametrize("how", ["heads", "distance"])
def test_no_law_of_products_is_printed(how: str) -> None:
    assert "‖W_Q‖" not in told(how).theorem
