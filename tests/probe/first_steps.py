"""First update and curvature of the design table: `python -m tests.probe.first_steps [SEED]` prints the table of docs/probe.md (75 s of one core).

Decoders of width 64, 4 heads, 32 tokens, GELU, every matrix N(0, 1/fan_in), embedding and learned positions N(0, 1), a head of its own.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor, nn

from examples.table.designs import GPT, Design
from screen.probe.experiments.curvature import curvatures
from screen.probe.experiments.update import updates
from screen.probe.measure.determinism import settled
from screen.probe.plan.types import Experiment
from tests.probe.whole import given

TOKENS, WIDTH, VOCABULARY = 32, 64, 64
DEPTHS = (4, 24)


class Decoder(nn.Module):
    """A row of the table with positions and a head."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.gpt, self.positions = GPT(design), nn.Parameter(torch.randn(TOKENS, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.gpt.embed.weight)
        nn.init.normal_(self.head.weight, std=1 / math.sqrt(WIDTH))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.gpt.embed(ids) + self.positions
        for block in self.gpt.blocks:
            x = block(x)
        return self.head(self.gpt.norm(x))


def rows(depth: int) -> dict[str, Design]:
    """The designs at one depth."""
    plain = {"pre": "A", "peri": "AB", "B": "B"}
    found = {}
    for name, norms in plain.items():
        found[name] = Design(norms, depth=depth, dim=WIDTH, vocab=VOCABULARY)
        found[f"{name} + QK"] = Design(norms, qk_norm=True, depth=depth, dim=WIDTH, vocab=VOCABULARY)
    scaled = {"alpha": (2 * depth) ** 0.25, "beta": (8 * depth) ** -0.25}
    found["DeepNorm"] = Design("C", depth=depth, dim=WIDTH, vocab=VOCABULARY, final_norm=False, **scaled)
    found["post"] = Design("C", depth=depth, dim=WIDTH, vocab=VOCABULARY, final_norm=False)
    found["A + C"] = Design("AC", depth=depth, dim=WIDTH, vocab=VOCABULARY, final_norm=False)
    return found


def measured(design: Design, seed: int) -> tuple[list[Experiment], list[Experiment]]:
    """Both experiments on one network."""
    torch.manual_seed(seed)
    plan, session, make = given(Decoder(design), torch.arange(2 * TOKENS).reshape(2, TOKENS) % VOCABULARY)
    with settled("cpu", seed):
        return list(updates(plan, session, make)), list(curvatures(plan, session, make))


def main(seed: int) -> None:
    """Print the table."""
    print("| design | blocks | κ | in a step of 1e-4 | 1/κ | λ | 38/λ | largest groups |\n|---|---|---|---|---|---|---|---|")
    for depth in DEPTHS:
        for name, design in rows(depth).items():
            (kappa, rate, *groups), (lam, *edge) = measured(design, seed)
            first = sorted(groups, key=lambda e: -float(e.measured or 0))[:2]
            most = ", ".join(f"{e.group} {float(e.numbers['share']):.0%}" for e in first)
            step = kappa.numbers["kappa_in_a_step_of_0.0001"]
            numbers = [kappa.measured, step, rate.measured, lam.measured, edge[0].measured if edge else None]
            print(f"| {name} | {depth} | " + " | ".join("–" if v is None else f"{v:.3g}" for v in numbers) + f" | {most} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
