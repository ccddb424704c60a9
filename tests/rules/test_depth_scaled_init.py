"""The sentences of I102 on weights that were scaled for depth."""

from __future__ import annotations

from screen.rule import Example
from screen.rules import depth_scaled_init
from screen.testing import facts_of

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64, bias=False), nn.Linear(64, 32, bias=False)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(8)), nn.LayerNorm(32)
        for block in self.blocks:
            for linear in (block.up, block.down):
                nn.init.normal_(linear.weight, std=0.04)
            nn.init.normal_(block.down.weight, std=0.04 / (2 * 8) ** 0.5)
            for linear in (block.up, block.down):
                nn.init.normal_(linear.weight, std=0.02)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)
"""


def test_the_factor_is_that_of_the_call_that_scaled() -> None:
    """0.04 / 4 = 0.01 is a quarter of what the first call left, and a half of what the last call sets."""
    found = depth_scaled_init.check(facts_of(Example("a later call sets another deviation", MODEL, inputs=("x=float32[2,16,32]",))))
    said = [o.message for o in found if o.result == "violated"]
    assert len(said) == 1 and "scaled for depth by 0.25, and a later call took that back (deviation 0.01, then 0.02)" in said[0]


def test_a_scale_that_the_norm_behind_it_divides_out_is_told_and_is_no_fault() -> None:
    """Forward it does nothing, backward it makes the gradient of the weight larger."""
    text = MODEL.replace("nn.Linear(64, 32, bias=False)", "nn.Linear(64, 32, bias=False); self.after = nn.LayerNorm(32)")
    text = text.replace("x + self.down(F.gelu(self.up(self.norm(x))))", "x + self.after(self.down(F.gelu(self.up(self.norm(x)))))")
    last = "            for linear in (block.up, block.down):\n                nn.init.normal_(linear.weight, std=0.02)\n"
    assert last in text
    found = depth_scaled_init.check(facts_of(Example("", text.replace(last, ""), inputs=("x=float32[2,16,32]",))))
    assert [o.result for o in found] == ["holds"]
    assert "scaled by 0.25 before an output norm, which divides it out: its gradient is 4 times as large" in found[0].message
