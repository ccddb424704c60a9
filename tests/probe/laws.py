"""The papers' laws of depth, each by one command, through the product's own probe.

    python -m tests.probe.laws exponents    # or another name of LAWS, or `all`
    python -m tests.probe.laws all --small  # the sizes that CI runs
    python -m tests.probe.laws training_proxy --keep=FOLDER  # keeps each training there when it is done, and goes on from what is kept

Prints Markdown tables (docs/probe.md, "Reproductions"); exits 1 where a law does not hold. float64 on the CPU, seed 0.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from screen.probe.depth.fits import law
from screen.probe.measure.attention import logits
from screen.probe.plan.types import Experiment
from screen.theorems.theta import theta
from screen.theorems.value_spread import log_sensitivity_proxy
from tests.probe import trainings
from tests.probe.law_runs import FULL, SMALL, Layer, Row, Size, layers, predicted, rms, sample, within
from tests.probe.training_laws import training_float16, training_proxy
from tests.probe.trainings import FLOAT16

EMPTY = Experiment("depth", "", "observed")

LAST = {"pre": -0.5, "peri": -0.5, "post": 0.0, "pre_post": 0.0, "gpt2": 0.0, "deepnorm": -0.5}
"""Exponents of the last block's gradient (review, 33)."""
EXPONENT = 0.12


def exponents(size: Size) -> list[Row]:
    """X, theorem 1, with the init that belongs to each depth. The interval is two standard errors of the exponent."""
    rows = []
    for name, asked in LAST.items():
        found = law(EMPTY, sample(name, size).last)
        assert isinstance(found.measured, float) and found.interval is not None, found
        low, high = (float(i) for i in found.interval)
        quantity = f"last block's gradient, exponent of depth {min(size.depths)} … {max(size.depths)}"
        near = abs(found.measured - asked) <= EXPONENT
        rows.append(Row(name, quantity, f"{asked:g} ± {EXPONENT}", found.measured, (low, high), size.networks, near))
    return rows


RATIOS: tuple[tuple[str, float, float, float], ...] = (
    ("output_norm", 1.0, 1e4, math.inf), ("output_norm_qk", 1.0, 0.0, 20.0), ("peri", 1.0, 0.0, 20.0), ("output_norm", 0.25, 6 / 1.6, 6 * 1.6),
)  # fmt: skip
"""Design, gain of Q and K, and the range of the first-over-last ratio at depth 64."""
SHALLOW = 100.0
"""What B alone is to pass at depth 32."""


def ratio(size: Size) -> list[Row]:
    """First over last gradient at the largest depth."""
    depth, rows = max(size.depths), []
    for name, query, low, high in RATIOS:
        values = sample(name, size, (4, depth), **({} if query == 1.0 else {"query": query})).ratio[depth]
        design = name if query == 1.0 else f"{name}, Q and K × {query}"
        least = min(low, SHALLOW) if depth < 64 else low
        rows.append(within(design, f"first over last gradient, depth {depth}", values, least, high))
    return rows


def cosine(size: Size) -> list[Row]:
    """1 − cosine of two tokens against the recursion: post loses all differences, DeepNorm none. A product over blocks: its logarithm to 10 %."""
    depths = tuple(n for n in (6, 12, 24, 64) if n <= max(size.depths))
    rows = []
    for name in ("post", "deepnorm", "pre"):
        found = sample(name, size, depths).gap
        for n in depths:
            said = predicted(name, size, n, **({"depth": n} if name == "deepnorm" else {})).one_minus_cos
            assert isinstance(said, float)
            slack = math.exp(0.1 * abs(math.log(said)) + 0.3)
            rows.append(within(name, f"1 − cosine, {n} blocks", found[n], said / slack, said * slack, f"{said:.2g} to a factor of {slack:.2g}"))
    return rows


def none(size: Size) -> list[Row]:
    """No norm: rms 6, 79, 9e3, 4e7, 1e15 at depths 4 … 64 (theory, 4), an exponential."""
    asked = {4: 6.0, 8: 79.0, 16: 9e3, 32: 4e7, 64: 1e15}
    found = sample("none", size).rms
    rows = [within("none", f"rms, depth {n}", v, asked[n] / 5, asked[n] * 5, f"{asked[n]:.2g} to a factor of 5") for n, v in found.items()]
    fit = law(EMPTY, found)
    words = f"log-likelihood of a power law over an exponential, {fit.numbers['points']:g} points"
    return [*rows, within("none", words, [float(fit.numbers["log_likelihood_ratio"])], -math.inf, -2.0, "below −2")]


def _grown(name: str, depth: int, size: Size, **settings: float) -> list[float]:
    """rms of what the blocks add to the stream, x_N − x_0."""
    runs = [list(layers(name, depth, size, network, **settings)) for network in range(size.networks)]
    return [rms(run[-1].out - run[0].x) for run in runs]


def _added(name: str, size: Size, **settings: float) -> list[float]:
    """rms of what each branch of the first block adds."""
    first = next(layers(name, 6, size, **settings))
    return [rms(first.values[o]) for o in first.stack.plan.outputs]


def scale(size: Size) -> list[Row]:
    """V, O, W1, W2 times 2: a branch of pre adds four times as much (degree 2, GELU's a little more), one of peri the same.

    The stream of pre grows by more than 4: the embedding counts for less, tokens grow more alike, and attention averages less away."""
    depth, rows = max(size.depths), []
    for name, asked in (("pre", 4.0), ("peri", 1.0)):
        branches = [b / a for a, b in zip(_added(name, size), _added(name, size, value=2.0, out=2.0), strict=True)]
        for what, value, slack in zip(("attention", "FFN"), branches, (0.01, 0.08), strict=True):
            rows.append(within(name, f"{what} adds, × 2 over × 1", [value], asked * (1 - slack), asked * (1 + slack)))
        values = [b / a for a, b in zip(_grown(name, depth, size), _grown(name, depth, size, value=2.0, out=2.0), strict=True)]
        one, two = (predicted(name, size, depth, **s).rms[-1] for s in ({}, {"value": 2.0, "out": 2.0}))
        said = math.sqrt((two**2 - 1) / (one**2 - 1))
        words = f"{said:.3g} (recursion) ± 15 %"
        rows.append(within(name, f"rms of x_N − x_0, × 2 over × 1, depth {depth}", values, said * 0.85, said * 1.15, words))
    return rows


def lemma_two(size: Size) -> list[Row]:
    """X, lemma 2, layer by layer: pre at (1 + l/2) … (1 + 3l/2), post at 3/2 before its second norm."""
    depth = 24
    runs = [list(layers("lemma_two", depth, size, network)) for network in range(size.networks)]
    squares = [[(rms(run[n].out) / rms(run[0].x)) ** 2 for run in runs] for n in range(depth)]
    inside = [1 + n / 2 < statistics.fmean(v) < 1 + 3 * n / 2 for n, v in enumerate(squares, 1)]
    post = [layer for network in range(size.networks) for layer in layers("lemma_two_post", 6, size, network)]
    sums = [rms(layer.values[layer.stack.plan.adds[-1]]) ** 2 for layer in post]
    return [
        within("X's pre", f"E‖x_l‖²/d, l = {depth}", squares[-1], 1 + depth / 2, 1 + 3 * depth / 2),
        within("X's pre", f"layers of {depth} inside of the lemma, {size.networks} networks", [float(sum(inside))], depth, depth, f"{depth}"),
        within("X's post", "E‖x‖²/d before the second norm", sums, 1.35, 1.65, "1.5 ± 10 %"),
    ]


def _parts(layer: Layer, stream: bool) -> dict[str, float]:
    """log S of one block in its parts; B̄ of the stream (as E's figures have it), or of what attention reads (as E's theorem has it)."""
    plan = layer.stack.plan
    (_, node), *_ = plan.softmaxes
    u = logits(layer.stack.material.tape.graph, node, {**layer.values, plan.entry: layer.x})
    assert u is not None
    rows = torch.softmax(u, -1).reshape(-1, u.shape[-1])[::16].numpy()
    read = layer.x if stream else torch.nn.functional.layer_norm(layer.x, layer.x.shape[-1:])
    norms = [float(torch.linalg.matrix_norm(layer.weight(f"attention.branch.{m}.weight"), 2)) for m in "oqkv"]
    return log_sensitivity_proxy(statistics.fmean(theta(r).low for r in rows), 1.0, float(read.norm(dim=-1).amax()), norms)


PARTS = (("size", "Δ 2 log B̄"), ("G", "Δ log G"), ("theta/tau", "Δ log θ/τ"), ("cv", "coefficient of variation of S"))


def _proxies(name: str, depth: int, size: Size, stream: bool) -> dict[str, list[float]]:
    """Change of each part of log S from the first to the last block, and σ/mean of S over blocks, of each network."""
    found: dict[str, list[float]] = {}
    for network in range(size.networks):
        parts = [_parts(layer, stream) for layer in layers(name, depth, size, network)]
        sizes = [math.exp(p["S"]) for p in parts]
        change = {k: parts[-1][k] - parts[0][k] for k in parts[0]}
        for key, value in {**change, "cv": statistics.pstdev(sizes) / statistics.fmean(sizes)}.items():
            found.setdefault(key, []).append(value)
    return found


def proxy(size: Size) -> list[Row]:
    """E, E.5–E.6, at initialisation. S of pre grows by B̄ alone where B̄ is the stream's, and not at all where it is that of theorem 5.1."""
    depth, rows = min(36, max(size.depths)), []
    flat = (-0.1, 0.1)
    for name, stream, grown, varied in (("pre", True, (2.0, 4.5), (0.4, 0.8)), ("pre", False, flat, (0, 0.2)), ("post", True, (-0.4, 0.4), (0, 0.2))):
        found = _proxies(name, depth, size, stream)
        where = "of the stream" if stream else "of what attention reads"
        for (key, words), (low, high) in zip(PARTS, (grown, (-0.3, 0.3), (-0.01, 0.01), varied), strict=True):
            rows.append(within(f"{name}, B̄ {where}", f"{words}, {depth} blocks", found[key], low, high))
    return rows


def _largest(name: str, depth: int, size: Size, gain: float) -> tuple[float, float]:
    """Largest entry of the stream, and of anything computed in its blocks."""
    stream = inside = 0.0
    for layer in layers(name, depth, size, value=gain, out=gain):
        stream = max(stream, float(layer.out.abs().amax()))
        inside = max(inside, *(float(v.abs().amax()) for v in layer.values.values() if isinstance(v, torch.Tensor) and v.is_floating_point()))
    return stream, inside


def float16(size: Size) -> list[Row]:
    """P, 7.2: pre's stream passes 65504, peri's does not. V, O, W1, W2 times c stand for training: pre's stream grows like c², peri's does not grow.

    What peri computes before its output norms does pass it: B does not bound what is before it (review, 32)."""
    depth, rows = max(size.depths), []
    crossing = math.sqrt(FLOAT16 / _largest("pre", depth, size, 1.0)[0])
    under, over = crossing / 1.25, crossing * 1.25
    for name, gain, crosses in (("pre", under, False), ("pre", over, True), ("peri", over, False), ("peri", 1e3, False)):
        stream, inside = _largest(name, depth, size, gain)
        low, high, asked = (FLOAT16, math.inf, "above 65504") if crosses else (0.0, FLOAT16, "below 65504")
        rows.append(within(f"{name} × {gain:.3g}", f"largest entry of the stream, {depth} blocks", [stream], low, high, asked))
    return [*rows, within(f"peri × {gain:.3g}", "largest entry inside of a branch", [inside], FLOAT16, math.inf, "above 65504")]


LAWS: dict[str, Callable[[Size], list[Row]]] = {
    "exponents": exponents, "ratio": ratio, "cosine": cosine, "none": none, "scale": scale, "lemma_two": lemma_two, "proxy": proxy,
    "float16": float16, "training_proxy": training_proxy, "training_float16": training_float16,
}  # fmt: skip


VERDICTS = {True: "holds", False: "FAILS", None: ""}


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = ["| design | quantity | asked | found | interval | n | |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        interval = "" if r.interval is None else f"[{r.interval[0]:.3g}, {r.interval[1]:.3g}]"
        cells = (r.design, r.quantity.replace("|", r"\|"), r.asked, f"{r.found:.3g}", interval, str(r.samples), VERDICTS[r.holds])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Print tables."""
    names = [a for a in argv if not a.startswith("-")]
    size = SMALL if "--small" in argv else FULL
    trainings.KEEP[:] = [Path(a.removeprefix("--keep=")) for a in argv if a.startswith("--keep=")]
    torch.set_num_threads(1)
    failed = False
    for name in LAWS if names in ([], ["all"]) else names:
        rows = LAWS[name](size)
        print(f"\n`python -m tests.probe.laws {name}`, seed {size.seed}\n\n{table(rows)}", flush=True)
        failed |= any(r.holds is False for r in rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
