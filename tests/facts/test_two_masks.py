"""Logits under two masks, one of the code and one that is given, are what neither of them hides (GPT-Neo)."""

from __future__ import annotations

import pytest

from screen.facts.queries import are_logits_bounded, do_logits_stay
from screen.rule import Example
from screen.testing import facts_of

SOURCE = """
LEAST = torch.finfo(torch.float32).min


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = nn.LayerNorm(32), *(nn.Linear(32, 32) for _ in range(4))
        self.qn, self.kn = nn.LayerNorm(32), nn.LayerNorm(32)
        self.register_buffer("causal", torch.ones(64, 64, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x, given):
        y = self.norm(x)
        u = {query} @ {key}.transpose(-1, -2)
        n = x.shape[1]
        u = torch.where(self.causal[:n, :n], u, torch.tensor(LEAST)) {more}
        return x + self.o(u.softmax(-1) @ self.v(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        n = x.shape[1]
        given = torch.zeros(n, n).masked_fill(torch.arange(n)[:, None] < torch.arange(n), LEAST)
        for block in self.blocks:
            x = block(x, given)
        return x
"""
NORMED, PLAIN = ("self.qn(self.q(y))", "self.kn(self.k(y))"), ("self.q(y)", "self.k(y)")


@pytest.mark.parametrize("more", ["", "+ given", "+ given + given"])
@pytest.mark.parametrize(("maps", "bounded"), [(NORMED, True), (PLAIN, False)])
def test_what_no_mask_hides_has_its_bound(maps: tuple[str, str], bounded: bool, more: str) -> None:
    facts = facts_of(Example("model", SOURCE.replace("{query}", maps[0]).replace("{key}", maps[1]).replace("{more}", more)))
    kind = facts.streams[0].kinds[0]
    assert are_logits_bounded(facts, kind.sublayers[0]) is bounded
    assert do_logits_stay(facts, kind.sublayers[0]) is True
