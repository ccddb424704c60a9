"""Kim et al., proposition 3.1 with and without the final norm, on whole small models: ascent on inputs, weights and gains never passes the bound."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from examples.laws.designs import GPT, Design
from screen.theorems.output_gradient import normed_bound, pre_bound
from tests.calculi.meanfield.closed_forms import CROSS_ENTROPY, last_map_gradient

WIDTH, STEPS = 16, 120


class Model(nn.Module):
    """Two blocks and a head; what the proposition is about is kept of the last token's last FFN."""

    def __init__(self, norms: str, final: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = GPT(Design(norms, 2, final=final, dim=WIDTH, act="relu"))
        self.start = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.head = nn.Linear(WIDTH, 8, bias=False)
        self.double()

    def forward(self) -> Tensor:
        """‖∂L/∂W₂‖_F, as a function of everything."""
        x = self.body.blocks[0](self.start)
        last = self.body.blocks[1]
        middle = last.attention(x)
        h = last.ffn.branch.act(last.ffn.branch.up(last.ffn.before(middle)))
        a = last.ffn.branch.down(h)
        out = last.ffn.on_stream(middle + last.ffn.after(a))
        loss = nn.functional.cross_entropy(self.head(self.body.norm(out))[0, -1:], torch.tensor([3]))
        (gradient,) = torch.autograd.grad(loss, last.ffn.branch.down.weight, create_graph=True)
        self.seen = {k: v[0, -1].detach() for k, v in (("h", h), ("a", a), ("sum", middle + a), ("out", out))}
        norm: Tensor = gradient.norm()
        return norm

    def divisor(self, norm: nn.LayerNorm, of: str) -> tuple[float, float]:
        """(max|γ|, σ) of a norm at its input."""
        return float(norm.weight.abs().amax()), float((self.seen[of].var(unbiased=False) + norm.eps).sqrt())

    @torch.no_grad()
    def bound(self, norms: str, final: bool) -> float:
        """Of the gradient at this point."""
        ffn, size = self.body.blocks[1].ffn, float(self.seen["h"].norm())
        upstream = CROSS_ENTROPY * float(torch.linalg.matrix_norm(self.head.weight, 2))
        branch = self.divisor(ffn.after, "a") if "B" in norms else self.divisor(ffn.on_stream, "sum") if "C" in norms else None
        return last_map_gradient(upstream, size, branch=branch, final=self.divisor(self.body.norm, "out") if final else None)


@pytest.mark.by_the_day
@pytest.mark.parametrize(("norms", "final"), [("A", False), ("A", True), ("AB", False), ("AB", True), ("C", False)])
def test_no_attack_passes_proposition_three_one(norms: str, final: bool) -> None:
    model, shares = Model(norms, final), list[float]()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(STEPS):
        size = model()
        bound = model.bound(norms, final)
        shares.append(float(size.detach()) / bound)
        optimizer.zero_grad()
        (math.log(bound) - size.log()).backward()
        optimizer.step()
    assert 0.4 < max(shares) <= 1 + 1e-9, max(shares)


def test_both_calculators_say_the_same() -> None:
    assert last_map_gradient(CROSS_ENTROPY * 0.7, 3.0) == pytest.approx(pre_bound(3.0, head=0.7))
    sigma = math.sqrt(2.0**2 / 16 + 1e-5)
    assert last_map_gradient(CROSS_ENTROPY, 3.0, branch=(1.5, sigma)) == pytest.approx(normed_bound(3.0, 2.0, 16, 1.5, eps=1e-5))
