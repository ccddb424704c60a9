"""What D101 proposes is made for what breaks the path: a norm on the sum, a matrix on copies of the stream, anything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from screen.rules.identity_path import check
from screen.rule import Example, Facts, Outcome
from screen.testing import facts_of

SOURCE = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.mix, self.read = nn.Parameter(torch.eye(2)), nn.Parameter(torch.ones(2, 1))

    def branch(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x):
        {body}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        {start}
        for block in self.blocks:
            x = block(x)
        return {end}
"""
COPIES = "return torch.einsum('rs,bnsd->bnrd', self.mix, x) + self.branch(self.norm((x * self.read).sum(2)))[:, :, None]"
BODIES = {
    "scaled": ("return self.norm(1.7 * x + self.branch(x))", "pass", "x"),
    "norm": ("return self.norm(x + self.branch(x))", "pass", "x"),
    "copies": (COPIES, "x = x[:, :, None].expand(-1, -1, 2, -1)", "x.sum(2)"),
}


def facts_with(name: str) -> Facts:
    body, start, end = BODIES[name]
    source = SOURCE.replace("{body}", body).replace("{start}", start).replace("{end}", end)
    return facts_of(Example("model", source, inputs=("x=float32[2,16,32]",)))


def said(facts: Facts) -> Outcome:
    [outcome] = check(facts)
    assert outcome.result == "violated"
    return outcome


def test_scales_on_the_stream_are_not_proposed_where_they_stand() -> None:
    assert "as DeepNorm does" in said(facts_with("norm")).remedy
    assert "as DeepNorm does" not in said(facts_with("scaled")).remedy


@pytest.mark.parametrize(("name", "words"), [("norm", "move the norm into the branch"), ("copies", "start these matrices at the identity")])
def test_the_remedy_fits_what_breaks_the_path(name: str, words: str) -> None:
    assert words in said(facts_with(name)).remedy


def test_copies_mixed_by_matrices_are_not_said_to_have_no_skip() -> None:
    """Their start, the identity, hands gradients on; nobody has a norm to move."""
    found = said(facts_with("copies"))
    assert "gradients arrive as these leave them" in found.plain
    assert "pre or peri" not in found.remedy


def test_past_anything_else_a_skip_is_proposed() -> None:
    found = said(replace(facts_with("copies"), readers=()))  # nobody knows that these are copies
    assert "a skip past" in found.remedy
    assert "pre or peri" not in found.remedy
