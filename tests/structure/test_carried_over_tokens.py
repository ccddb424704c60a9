"""A state that is written token by token is no residual stream, however many tokens the trace has beside the stream's blocks."""

from __future__ import annotations

import pytest

from screen.rule import Example
from screen.testing import facts_of

SOURCE = """
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias=False) for _ in range(4))
        self.beta, self.first = nn.Linear(16, 1), nn.Parameter(0.02 * torch.randn(16, 16))

    def forward(self, x):
        q, k, v = self.q(x), F.normalize(self.k(x), dim=-1), self.v(x)
        beta = self.beta(x).sigmoid()
        state, outs = {start}, []
        for t in range(x.shape[1]):
            {write}
            outs.append(torch.einsum("bij,bj->bi", state, q[:, t]))
        return self.o(torch.stack(outs, 1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.mixer = nn.LayerNorm(16), nn.LayerNorm(16), Mixer()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        x = x + self.mixer(self.a(x))
        return x + self.down(F.gelu(self.up(self.b(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 50)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""
WRITES = {
    "delta rule": "error = v[:, t] - torch.einsum('bij,bj->bi', state, k[:, t]); "
    "state = state + beta[:, t, :, None] * error[:, :, None] * k[:, t, None, :]",
    "gated delta rule": "state = state * beta[:, t, :, None]; error = v[:, t] - torch.einsum('bij,bj->bi', state, k[:, t]); "
    "state = state + error[:, :, None] * k[:, t, None, :]",
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("tokens", [4, 12])
@pytest.mark.parametrize("start", ["x.new_zeros(x.shape[0], 16, 16)", "self.first.expand(x.shape[0], -1, -1)"])
@pytest.mark.parametrize("name", WRITES)
def test_a_state_of_more_tokens_than_blocks_is_inside_its_branch(name: str, start: str, tokens: int) -> None:
    """From zeros or from a learned state (a layer that is trained at test time)."""
    facts = facts_of(Example("model", SOURCE.replace("{write}", WRITES[name]).replace("{start}", start), inputs=(f"x=float32[2,{tokens},16]",)))
    assert [(s.depth, s.role == "inner") for s in facts.streams if s.role != "inner"] == [(3, False)]
    assert [k.count for k in facts.streams[0].kinds] == [3]
