"""What the papers say of training, by short trainings on a CPU (`tests.probe.trainings`); run by `python -m tests.probe.laws`.

A row says what is asked: what follows from norms alone (a bound by their gains), the direction that a paper reports, or "observed", with the
paper's own number in brackets. The papers' models have 774M and 3.2B weights: directions are asked for, their numbers are not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.probe.law_runs import Row, Size, within
from tests.probe.trainings import FLOAT16, Layer, Recipe, Training, trained

NAMES = {"A": "pre", "AB": "peri", "C": "post"}
GPT2 = 0.72
"""N(0, 0.02²) at width 1280 (E), times √width; at 2560 (P) it is 1.01."""


def observed(design: str, quantity: str, values: list[float], words: str = "") -> Row:
    """A number that nothing is asked of."""
    found = within(design, quantity, values, -math.inf, math.inf, f"observed{f' ({words})' if words else ''}")
    return replace(found, holds=None)


def _changes(runs: list[Training], part: Callable[[Layer], float]) -> list[float]:
    """Mean over blocks of after − before, for each run."""
    return [statistics.fmean(part(b) - part(a) for a, b in zip(run.before, run.after, strict=True)) for run in runs]


def _spread(run: Training) -> float:
    """Coefficient of variation of S over blocks, after the training."""
    sizes = [math.exp(layer.proxy) for layer in run.after]
    return statistics.pstdev(sizes) / statistics.fmean(sizes)


def _order(run: Training) -> float:
    """Spearman's correlation of S and the block's number: 1 where S grows from block to block."""
    values = [layer.proxy for layer in run.after]
    ranks = [sorted(values).index(v) for v in values]
    return statistics.correlation(ranks, list(range(len(values))))


def training_proxy(size: Size) -> list[Row]:
    """E, E.5–E.6: how the parts of log S change in training, pre against post, from GPT-2's start, from half of it, and post from 1.4 times it."""
    small = size.networks == 1
    base = Recipe("A", rate=3e-3, steps=80 if small else 400, start=GPT2, depth=4 if small else 12, clip=1.0)
    runs = {n: [trained(replace(base, norms=n, seed=s)) for s in range(size.networks)] for n in ("A", "C")}
    rows = [row for norms, found in runs.items() for row in _terms(NAMES[norms], found)]
    pre, post = runs["A"], runs["C"]
    drive = [a / b for a, b in zip(_changes(pre, lambda x: x.stream), _changes(pre, lambda x: x.product), strict=True)]
    medians = [[statistics.median(layer.proxy for layer in run.after) for run in group] for group in (pre, post)]
    rows += [
        observed("pre", "Δ 2 log B̄ over Δ log G", drive, "E: 2.3"),
        within("pre", "rank correlation of S and the block", [_order(r) for r in pre], 0.5, 1.0, "above 0.5 (E: S grows from block to block)"),
        within("pre over post", "median of S", [math.exp(a - b) for a, b in zip(*medians, strict=True)], 1, math.inf, "above 1 (E: about 100)"),
        observed("pre over post", "coefficient of variation of S", [_spread(a) / _spread(b) for a, b in zip(pre, post, strict=True)], "E: 2.4"),
    ]
    return [*rows, *_half(base, runs), *([] if small else _collapsed(replace(base, norms="C", start=1.0), post))]


def _terms(design: str, runs: list[Training]) -> list[Row]:
    """The parts of one design. B̄ of what a norm lets through is bounded by its gains; of the stream of pre nothing but its weights bounds it."""
    pre = design == "pre"
    over = [max(math.exp(x.read - x.reach) for x in run.after) for run in runs]
    stream = _changes(runs, lambda x: x.stream)
    size = within(design, "Δ 2 log B̄, stream", stream, 0, math.inf, "above 0 (E: 2.91)") if pre else within(
        design, "Δ 2 log B̄, stream", stream, -0.5, 0.5, "−0.5 … 0.5 (E: 0)")  # fmt: skip
    return [
        within(design, "B̄² of what attention reads over (√d max|γ| + ‖β‖)², largest", over, 0, 1 + 1e-5, "at most 1"),
        size,
        within(design, "Δ 2 log B̄, what attention reads", _changes(runs, lambda x: x.read), -0.5, 0.5, "−0.5 … 0.5"),
        observed(design, "Δ log G", _changes(runs, lambda x: x.product), f"E: {1.29 if pre else 1.13}"),
        within(design, "Δ log θ/τ", _changes(runs, lambda x: x.theta), -0.2, 0.2, "−0.2 … 0.2 (E: 0)"),
        observed(design, "coefficient of variation of S, after", [_spread(r) for r in runs], f"E: {0.97 if pre else 0.4}"),
    ]


def _half(base: Recipe, runs: dict[str, list[Training]]) -> list[Row]:
    """From half the start: how much G grows is a matter of where it starts."""
    rows = []
    for norms, group in runs.items():
        half = [trained(replace(base, norms=norms, start=GPT2 / 2))]
        more = _changes(half, lambda x: x.product)[0] - _changes(group[:1], lambda x: x.product)[0]
        rows += [
            within(f"{NAMES[norms]}, start × ½", "Δ log G, more than from the whole start", [more], 0, math.inf, "above 0"),
            observed(f"{NAMES[norms]}, start × ½", "Δ log G", _changes(half, lambda x: x.product)),
            observed(f"{NAMES[norms]}, start × ½", "coefficient of variation of S, after", [_spread(r) for r in half]),
        ]
    return rows


def _collapsed(recipe: Recipe, post: list[Training]) -> list[Row]:
    """Post from a start at which tokens grow alike (T4): E's picture of gradients and of the last block."""
    far = [trained(recipe)]
    rows = []
    for design, runs in (("post", post), ("post, start × 1.4", far)):
        spikes = [r.after[-1].proxy - statistics.median(x.proxy for x in r.after[1:-1]) for r in runs]
        ratios = [r.after[-1].gradient / r.after[0].gradient for r in runs]
        rows += [
            observed(design, "log S, last block less the median of the others", spikes, "E: a spike"),
            observed(design, "last over first gradient of W₂, before", [r.before[-1].gradient / r.before[0].gradient for r in runs]),
            observed(design, "last over first gradient of W₂, after", ratios, "E: near-zero in blocks 1–30 of 36"),
            observed(design, "final loss (best answer 1.16, constant 3.47)", [r.final for r in runs]),
        ]
    more = ratios[0] / rows[2].found
    return [*rows, within("post, start × 1.4 over × 1", "last over first gradient of W₂, after", [more], 1, math.inf, "above 1")]


RATES = (2e-3, 1e-2, 1e-1, 0.4, 1.0)
"""P's own rate, and higher ones."""
CROSSING = 0.4
"""Where pre's stream leaves float16 and nothing inside of peri does."""


def training_float16(size: Size) -> list[Row]:
    """P, 7.2 (also 4.4, 5.1, 6.1, 6.2): the largest entry of the stream during training, at P's rate and at higher ones, until it leaves float16."""
    small = size.networks == 1
    base = Recipe("A", rate=0.0, steps=40 if small else 200, start=1.0, depth=4 if small else 8, decay=0.033)
    rates = [rate for rate in RATES if not small or rate <= CROSSING]
    runs = {(norms, rate): trained(replace(base, norms=norms, rate=rate)) for rate in rates for norms in NAMES}
    rows = [observed(f"{NAMES[n]}, rate {rate:g}", "largest entry of the stream, all steps", [max(run.largest)]) for (n, rate), run in runs.items()]
    for norms in ("AB", "C"):
        shares = [max(x.entry / x.bound for x in runs[norms, rate].after) for rate in rates]
        rows.append(within(NAMES[norms], "largest entry after training over its bound by gains, all rates", [max(shares)], 0, 1 + 1e-5, "at most 1"))
    for norms, low, high in (("A", 1.0, 3.0), ("AB", -0.2, 1.2), ("C", -0.2, 1.2)):
        slope = math.log(max(runs[norms, CROSSING].largest) / max(runs[norms, 0.1].largest)) / math.log(CROSSING / 0.1)
        rows.append(within(NAMES[norms], f"exponent of the largest entry in the rate, 0.1 … {CROSSING}", [slope], low, high))
    rows += _extrapolated(runs)
    rows += [_crossing(f"{NAMES[n]}, rate {CROSSING}", runs[n, CROSSING], n) for n in NAMES]
    inside = max(x.inside for x in runs["AB", rates[-1]].after)
    rows.append(observed(f"peri, rate {rates[-1]:g}", "largest entry of a branch after training, before its output norm", [inside]))
    return [*rows, *_levers(base, runs), *_gradients(runs), *_growth(runs)]


def _crossing(design: str, run: Training, norms: str) -> Row:
    """Whether the stream passes 65504; the model of that step is then run in float16. What post computes inside decides for post."""
    quantity = "entries of the stream lost in float16" + (f", step {run.crossed} of {len(run.largest)}" if run.crossed is not None else "")
    if norms == "C":
        return observed(design, quantity, [float(run.lost)])
    return within(design, quantity, [float(run.lost)], *((1.0, math.inf, "above 0") if norms == "A" else (0.0, 0.0, "0")))


def _extrapolated(runs: dict[tuple[str, float], Training]) -> list[Row]:
    """The rate at which the largest entry would pass 65504, by the power law between 0.01 and 0.1; pre is then run on both sides of it."""
    rows = []
    for norms in ("A", "AB"):
        low, high = (max(runs[norms, rate].largest) for rate in (1e-2, 1e-1))
        rate = 0.1 * 10 ** (math.log10(FLOAT16 / high) / math.log10(high / low))
        quantity = "rate at which it passes 65504, from those at 0.01 and 0.1"
        rows.append(within("pre", quantity, [rate], 0.1, CROSSING) if norms == "A" else observed("peri", quantity, [rate]))
    return rows


def _levers(base: Recipe, runs: dict[tuple[str, float], Training]) -> list[Row]:
    """P, 6.1 and 6.2: ten times the weight decay, and twice the start."""
    rows = []
    levers = (("decay × 10", 1e-2, {"decay": 0.33}, "P: falls, peri's little"), ("start × 2", 2e-3, {"start": 2.0}, "P: grows, peri's does not"))
    for what, rate, change, said in levers:
        factors = [trained(replace(base, norms=n, rate=rate, **change)).after[-1].rms / runs[n, rate].after[-1].rms for n in ("A", "AB")]
        names = ("pre", "peri")
        rows += [observed(n, f"rms of the last stream, factor of {what}, rate {rate:g}", [v], said) for n, v in zip(names, factors, strict=True)]
        further = abs(math.log(factors[0])) / abs(math.log(factors[1]))
        rows.append(within("pre over peri", f"logarithm of that factor, {what}", [further], 1, math.inf, "above 1"))
    return rows


def _gradients(runs: dict[tuple[str, float], Training]) -> Iterator[Row]:
    """P, 4.4: the gradient of the last block's W₂."""
    for when in ("before", "after"):
        found = {n: getattr(runs[n, 2e-3], when)[-1].gradient for n in ("C", "A", "AB")}
        for above, below in (("C", "A"), ("A", "AB")):
            ratio, design = found[above] / found[below], f"{NAMES[above]} over {NAMES[below]}"
            yield within(design, f"last gradient of W₂ {when} training, rate 0.002", [ratio], 1, math.inf, "above 1 (P, figure 5)")


def _growth(runs: dict[tuple[str, float], Training]) -> Iterator[Row]:
    """P, 5.1: growth of the stream in training, and its form over blocks."""
    for norms, name in NAMES.items():
        run = runs[norms, 1e-2]
        yield observed(name, "rms of the last stream, after over before, rate 0.01", [run.after[-1].rms / run.before[-1].rms])
    for when, rate in (("before", 1e-2), ("after", 1e-2), ("after", 1e-1)):
        layers = getattr(runs["A", rate], when)
        first, middle, last = (layers[place].rms ** 2 for place in (0, (len(layers) - 1) // 2, len(layers) - 1))
        share = (last - middle) / (middle - first) * ((len(layers) - 1) // 2) / (len(layers) - 1 - (len(layers) - 1) // 2)
        words = "mean square a block adds, second half of the stack over the first"
        yield observed("pre", f"{words}, {when}, rate {rate:g}", [share], "1: linear; above 1: faster, as P has it after training")


__all__ = ["training_float16", "training_proxy"]
