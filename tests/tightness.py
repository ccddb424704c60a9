"""How tight the bounds are: ours, K's and E's over what is measured, for thirteen designs in depth (`python -m tests.tightness --write`).

Growth. Ours: M ← |α| M + Σ_branches bound(F | B = M) per residual add, M = √d·max|γ| after a stream norm. K's theorem 3 with the true factors
(its proof, eq. 82, and the √d that it drops) along the measured trajectory:
Π (1 + √n·√d·‖γ‖_∞·max_j 1/‖x_j‖·‖W_O‖‖W_V‖)(1 + √d·‖γ‖_∞·max_j 1/‖x_j‖·‖W_2‖‖W_1‖); its theorem 4 (eq. 11) where both norms stand:
rms_0 + 2D(γ + β). Both against the measured size: ours the largest rms of a token, K's the mean absolute value.

Sensitivity. The Jacobian of the whole stack from the largest token norm to the largest token norm, at a random point (measured from below).
Ours: Π (|α| + bound of the branch's slope at its input there, its divisors measured), and with every divisor at √ε.
E's theorems 5.1–5.3 with Lip(LN) = γ/√ε.

"Plain" is ours without T5 (gains and biases folded into the maps that read them) and T10 (attention moves by the spread of its values, measured at
the point): norms of single parameters alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.calculi.bounds import BranchBounds
from screen.structure.types import Unknown
from tests import tightness_slopes as slopes
from tests.soundness.grammar import Attend, Design, Part
from tests.soundness.model import build, example
from tests.soundness.quantities import value

DEPTHS = (8, 16, 32, 64, 128, 256)
WIDTH, TOKENS, HEADS = 16, 7, 4


def _pair(norm: str, out: str, qk: str = "", act: str = "relu", ffn: str = "mlp", groups: int = 1, scale: str = "one") -> tuple[Part, Part]:
    attend = Attend("sdpa", heads=HEADS, groups=groups, qk=f"head {qk}" if qk else "")
    return Part("sdpa", norm, out, attend=attend, scale=scale), Part(ffn, norm, out, act=act, scale=scale)


@dataclass(frozen=True)
class Case:
    """A design with its initialisation: a factor on output maps and on α, as functions of the number of residual adds."""

    name: str
    design: Design
    gain: Callable[[int], float] = lambda adds: 1.0
    alpha: Callable[[int], float] = lambda adds: 1.0
    outliers: bool = False
    """Gains 12, 6, 4, 1, … and biases N(0, 1/4) in the norms, as trained ones can be."""


def _design(parts: tuple[Part, ...], **more: object) -> Design:
    return replace(Design(parts, width=WIDTH, tokens=TOKENS), **more)  # type: ignore[arg-type]


CASES = (
    Case("pre", _design(_pair("rms", ""))),
    Case("pre, LayerNorm, GELU", _design(_pair("layer", "", act="gelu"))),
    Case("pre, LayerNorm, GELU, outlying gains", _design(_pair("layer", "", act="gelu")), outliers=True),
    Case("pre, gated, grouped queries, QK-norm", _design(_pair("rms", "", "rms", "silu", "glu", 2))),
    Case("pre, outputs × (2N)^(-1/2)", _design(_pair("layer", "", act="gelu")), gain=lambda adds: adds**-0.5),
    Case("pre, LayerScale 0.1", _design(_pair("rms", "", scale="layerscale")), gain=lambda adds: 1.0),
    Case("pre, parallel", _design(_pair("rms", ""), parallel=True)),
    Case("peri", _design(_pair("rms", "rms"))),
    Case("peri, QK-norm", _design(_pair("rms", "rms", "rms"))),
    Case("output norm", _design(_pair("", "rms"))),
    Case("output norm, QK-norm", _design(_pair("", "rms", "rms"))),
    Case("post", _design(_pair("", ""), stream_norm="layer")),
    Case("DeepNorm", _design(_pair("", ""), stream_norm="layer", alpha="learned"), lambda adds: (4 * adds) ** -0.25, lambda adds: adds**0.25),
)


def initialised(case: Case, depth: int) -> nn.Module:
    """The model with N(0, 1/fan-in) matrices, gains 1, biases 0."""
    model = build(replace(case.design, depth=depth))
    model.design = replace(case.design, depth=depth)
    adds = depth * len(case.design.parts)
    generator = torch.Generator().manual_seed(depth)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype) / math.sqrt(p.shape[1]))
                if name.endswith(("out.weight", "up.weight")) or ".maps.2." in name:
                    p.mul_(case.gain(adds) if name.endswith("out.weight") or case.name == "DeepNorm" else 1.0)
            elif name.endswith("alpha"):
                p.fill_(case.alpha(adds))
            elif name.endswith("factor"):
                p.fill_(0.1)
            elif case.outliers and name.endswith((".gain", ".shift")):
                values = torch.randn(p.shape, generator=generator, dtype=p.dtype) / 2
                p.copy_(values if name.endswith(".shift") else torch.ones_like(p))
                p[:3] = torch.tensor((12.0, 6.0, 4.0)) if name.endswith(".gain") else p[:3]
    return model


@dataclass(frozen=True)
class Row:
    """One design at one depth; logarithms to base 10, None where there is no such bound."""

    name: str
    depth: int
    rms: float
    ours: float
    plain: float
    """Ours without T5."""
    theirs: float | None
    slope: float
    local: float
    plain_local: float
    """Ours without T5 and T10."""
    everywhere: float
    their_slope: float | None


def trajectory(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The state before every residual add and after the last, in order."""
    states = [x]
    with torch.no_grad():
        for block in model.blocks:  # type: ignore[union-attr]
            if block.design.parallel:
                states.append(block(states[-1]))
                continue
            for number, branch in enumerate(block.branches):
                states.append(block.normed(block.kept(states[-1]) + branch(states[-1]), number))
    return states


def row(case: Case, depth: int) -> Row:
    """Measured size and slope of the stream after `depth` blocks, and their bounds."""
    model = initialised(case, depth)
    x = torch.randn(example(case.design).shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = x / x.norm(dim=-1, keepdim=True) * math.sqrt(WIDTH)
    with sdpa_kernel(SDPBackend.MATH):
        states = trajectory(model, x)
        slope = slopes.measured(model, x)
        local, everywhere = (slopes.ours(model.design, model, states, local=at_point) for at_point in (True, False))
        plain_local = slopes.ours(model.design, model, states, local=True, plain=True)
    measured = float(states[-1].norm(dim=-1).amax()) / math.sqrt(WIDTH)
    weights = dict(model.named_parameters())
    ours, plain = (our_growth(case, depth, weights, plain=p) for p in (False, True))
    theirs = None if case.outliers else their_growth(case, model, states)
    their_slope, lost, mean = None if case.outliers else slopes.theirs(model.design, model), math.log10(slope), float(states[-1].abs().mean())
    return Row(
        case.name, depth, measured, ours - math.log10(measured), plain - math.log10(measured), None if theirs is None else theirs - math.log10(mean),
        slope, local - lost, plain_local - lost, everywhere - lost, None if their_slope is None else their_slope - lost,
    )


def _bounds(case: Case) -> list[BranchBounds]:
    return slopes.known(replace(case.design, depth=1))[1]


def our_growth(case: Case, depth: int, weights: Mapping[str, Tensor], *, plain: bool = False) -> float:
    """log10 of our bound of the rms of the stream; `plain`: without T5."""
    bounds = _bounds(case)
    size = math.sqrt(WIDTH)
    for block in range(depth):
        here = slopes.shifted(weights, block)
        alpha = abs(float(here["blocks.0.alpha"].detach())) if "blocks.0.alpha" in here else 1.0
        added = 0.0
        for b in bounds:
            claim = b.plain(b.magnitude) if plain else b.magnitude
            if isinstance(claim, Unknown):
                return math.inf
            values = {q.symbol: value(q, here) for q in b.quantities} | {"B": size}
            added = claim.evaluate(values) + (added if case.design.parallel else 0.0)
            if not case.design.parallel:
                size = math.sqrt(WIDTH) if case.design.stream_norm else alpha * size + added
        size = size + added if case.design.parallel else size
    return math.log10(size / math.sqrt(WIDTH))


def their_growth(case: Case, model: nn.Module, states: list[Tensor]) -> float | None:
    """log10 of K's bound of the mean absolute value: theorem 3 for pre, theorem 4 with both norms; K has none for the others."""
    parts, x0 = case.design.parts, states[0]
    if case.design.stream_norm or not parts[0].input_norm or case.design.parallel:
        return None
    start = math.log10(float(x0.norm()) / math.sqrt(x0.numel()))
    if parts[0].output_norm:
        return math.log10(10**start + len(states) - 1)
    total = start
    blocks = [(b, p) for b in model.blocks for p in b.branches]  # type: ignore[union-attr]
    for (_, branch), state in zip(blocks, states, strict=False):
        total += math.log10(1 + math.sqrt(WIDTH) / float(state.norm(dim=-1).amin()) * _product(branch))
    return total


def _product(branch: nn.Module) -> float:
    """√n ‖W_O‖‖W_V‖ for an attention, ‖W_2‖‖W_1‖ for a feed-forward (‖gate‖·√d more for a gated one), times the branch multiplier."""
    mixer, scale = branch.mixer, branch.factor
    size = float(scale.detach().abs().amax()) if scale is not None else 1.0  # type: ignore[operator]
    if hasattr(mixer, "maps"):
        return size * math.sqrt(TOKENS) * slopes.size(mixer.out.weight) * slopes.size(mixer.maps[-1].weight)  # type: ignore[union-attr,index,arg-type]
    up: Tensor = mixer.up.weight  # type: ignore[union-attr,assignment]
    if mixer.mixer == "glu":  # type: ignore[union-attr]
        gate, value_map = up.chunk(2, 0)
        return size * slopes.size(mixer.out.weight) * slopes.size(gate) * slopes.size(value_map) * math.sqrt(WIDTH)  # type: ignore[union-attr,arg-type]
    return size * slopes.size(mixer.out.weight) * slopes.size(up)  # type: ignore[union-attr,arg-type]


COLUMNS = """\
| design | blocks | rms | ours | plain | K's | slope | ours, local | plain, local | ours, global | E's |
|---|---|---|---|---|---|---|---|---|---|---|"""
HEAD = """\
# Tightness of the bounds

Written by `python -m tests.tightness --write`; do not edit.

{text}

Width {width}, {tokens} tokens, {heads} heads, matrices N(0, 1/fan-in), gains 1 ("outlying": 12, 6, 4, 1, …, biases of deviation ½), inputs of rms 1,
float64. Numbers are bound / measured as powers of ten; `–`: the paper has no such bound for the design.
"""


def table(rows: list[Row]) -> str:
    """Markdown."""
    text = __doc__.split("\n", 2)[2].strip() if __doc__ else ""
    lines = [HEAD.format(text=text, width=WIDTH, tokens=TOKENS, heads=HEADS), COLUMNS]
    for r in rows:
        numbers = [_power(n) for n in (r.ours, r.plain, r.theirs)], [_power(n) for n in (r.local, r.plain_local, r.everywhere, r.their_slope)]
        lines.append(f"| {r.name} | {r.depth} | {r.rms:.3g} | {' | '.join(numbers[0])} | {r.slope:.3g} | {' | '.join(numbers[1])} |")
    return "\n".join([*lines, ""])


def _power(log: float | None) -> str:
    if log is None:
        return "–"
    return f"{10**log:.3g}" if log < 4 else f"10^{log:.1f}"


def main() -> int:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.tightness", description="bound over measured")
    parser.add_argument("--write", action="store_true", help="write docs/tightness.md")
    given = parser.parse_args()
    rows = []
    for case in CASES:
        rows += [row(case, depth) for depth in DEPTHS]
        print(case.name, file=sys.stderr, flush=True)
    text = table(rows)
    if given.write:
        Path("docs/tightness.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
