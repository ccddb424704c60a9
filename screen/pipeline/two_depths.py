"""Laws of depth read off one loop at two depths: what is a power of the depth gains little from the smaller to the larger one, and what is an
exponential gains in proportion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile

from screen.facts.claims.claim import LARGEST
from screen.probe.plan.spot_types import FoundDepth

ENDS = 3
"""Blocks at each end over which gradients are averaged, in logarithms: one draw of one block is noisy."""
LEVEL = 0.1
"""Exponent of the gradient ratio over depth up to which it is flat at both depths, as for one that is derived."""
BEYOND = 1e300
"""From it on a size has left the range of floats."""
APART = 0.1
"""1 − cos of the tokens of a first state from which on what comes of them is told."""
SEEN = math.log(2.0)
"""Gain, in logarithms, from which on it is told from the noise of one draw."""
POWER, EXPONENTIAL = 0.6, 0.75
"""What is gained per block at the larger depth over that at the smaller one, below which it is a power and above which an exponential: of depths 24
and 96 a power of the depth has 0.36, and one that begins late more; a steady factor has 1."""
SLOWER = 1.6
"""How many times faster a power falls between an eighth and a half of the blocks than between a half and seven eighths (a power of the depth:
2.5 times, an exponential: as fast)."""
EVEN = 0.5
"""Share of its first half that the second half of an exponential has to have, at least, and the other way round."""
SURE = 3.0
"""How many times the error of a mean over `ENDS` blocks at each end what is gained has to be, at both depths, for an exponential to be told."""
SWELLS = 1.15
"""How many times as large the stream has to be behind the last block as behind the middle one for branches of one size to move it less and less (by
independent branches of one size it is 1.4 times as large)."""
GROWN = math.log(100.0)
"""Growth of a stream, in logarithms, from which on it is called exponential."""
RISEN = 0.3
"""Growth of a stream over the larger depth, in logarithms, below which gradients that go with it are flat: by branches of one size it is 3 times as
large behind a thousand blocks."""
FELT, SAME, STEADY = 1e-4, 0.02, 0.85
"""Growth of a much larger state, in logarithms per block, from which on it is one; how far two of them may differ that are of
two sizes (what has a size of its own gives a thousandth at the second); and the least part of what the middle third adds that the last one adds (a
power of the depth: 0.585, an exponential of its root: 0.767)."""
DRAWN = 0.01
"""The same where each block has weights that were drawn for it: over some hundreds a product of random matrices gains up to a thousandth of itself in
each block without a law (gates of 1 ± 0.05)."""
OUTRIGHT, KEPT = 10.0, 0.5
"""What the last third adds, in logarithms, from which on no power of the depth does (it would be of degree 25), where it is so much of what the
middle one adds, at least: what a block multiplies by goes with the direction of the state, which turns for long."""
BURSTS = 1.5
"""How many times as much, in logarithms, each block multiplies a state of which a power is added than the block before (a square: twice)."""
ADDED = 1.3
"""How many times as much the second half of the blocks may add to a stream of linear growth as the first does."""


def gradients(depths: Sequence[FoundDepth], falls: bool = False) -> str | None:
    """`flat`, `power` or `exponential`, of the gradient of the first blocks over that of the last ones; None where two depths do not tell.

    `falls`: what the branches add is bounded and carried on as it is, and the slope of each falls as the stream grows."""
    if len(depths) < 2:
        return None
    depths = depths[:2]
    logs = [_logs(d.gradients) for d in depths]
    if not all(len(sizes) >= 4 * ENDS for sizes in logs):
        return None
    few, many = (math.fsum(sizes[:ENDS]) / ENDS - math.fsum(sizes[-ENDS:]) / ENDS for sizes in logs)
    blocks = [d.blocks for d in depths]
    if all(abs(gain) <= LEVEL * math.log(n) for gain, n in zip((few, many), blocks, strict=True)):
        return "flat" if _stays(logs[1]) and not _follows(depths[1], many) else None
    if few * many <= 0 or abs(many) < SEEN:
        return None
    rate = many * blocks[0] / (few * blocks[1])
    early, late = _halves(logs[1])
    if rate > EXPONENTIAL and abs(many) > math.log(30.0) and early * late > 0 and EVEN <= early / late <= 1 / EVEN:
        sure = abs(few) > SURE * _error(logs[0]) and abs(many) > SURE * _error(logs[1])
        return None if not sure or (falls and _swells(depths[1])) else "exponential"
    first, second = _thirds(logs[1])
    return "power" if rate < POWER and many > 0 and first > SLOWER * max(second, 0.0) else None


def ratio(depths: Sequence[FoundDepth]) -> float | None:
    """The gradient of the first block over that of the last one, at the smaller depth."""
    sizes = _logs(depths[0].gradients) if depths else []
    return math.exp(sizes[0] - sizes[-1]) if sizes else None


def numbers(depths: Sequence[FoundDepth], blocks: int) -> dict[str, float]:
    """What a loop that was run as deep as it is showed at its start, by the names of claims. Of gradients that leave the range of floats nothing."""
    found = next((d for d in depths if d.blocks == blocks > 1), None)
    if found is None:
        return {}
    sizes, gradients = _logs(found.rms), _logs(found.gradients)
    logs = {"rms_ratio": sizes[-1] - sizes[1]} if sizes else {}
    if any(size is not None and size >= BEYOND for size in found.rms):
        logs["rms_ratio"] = math.log(LARGEST)
    if gradients:
        logs["gradient_ratio"] = gradients[0] - gradients[-1]
    shown = {name: math.exp(min(log, math.log(LARGEST))) for name, log in logs.items()}
    begun, end = found.apart if len(found.apart) == 2 else (None, None)
    if begun is not None and end is not None and begun > APART:
        shown["one_minus_cos"] = end
    return shown


def growth(depths: Sequence[FoundDepth]) -> str | None:
    """`linear` where a stream grows by no more than linearly, `exponential` where it is multiplied; None where two depths do not tell."""
    if len(depths) < 2:
        return None
    sizes = _logs(depths[1].rms)
    few, many = depths[0].blocks, depths[1].blocks
    if len(sizes) != many + 1:
        return None
    least, most = sizes[few] - sizes[0], sizes[many] - sizes[0]
    early, late = sizes[many // 2] - sizes[0], sizes[many] - sizes[many // 2]
    if most > GROWN and least > 0 and most * few / (least * many) > EXPONENTIAL and EVEN <= early / late <= 1 / EVEN:
        return "exponential"
    values = [math.exp(s - sizes[0]) for s in (sizes[0], sizes[many // 2], sizes[many])]
    return "linear" if values[2] - values[1] <= ADDED * max(values[1] - values[0], 0.1) else None


def multiplies(repeated: Sequence[Sequence[float | None]], period: int = 1, felt: float = FELT) -> bool:
    """Whether blocks that are repeated multiply a state that is much larger than all that has a size of its own: by the same factor whatever its
    size, and far behind by as much as before. `period`: how many of them; `felt`: least growth of one, in logarithms. What is carried on more than
    once grows ever more slowly, in logarithms. A square of the state multiplies it by more and more, until it leaves the range of floats."""
    if len(repeated) < 2:
        return False
    if all(map(_bursts, repeated)):
        return True
    long, short = (_logs(list(takewhile(lambda size: size is None or size < BEYOND, sizes))) for sizes in repeated)
    least = (min(len(long), len(short)) - 1) // period * period
    if not least or len(long) <= max(3 * period, 4 * ENDS):
        return False
    one, other = long[least] - long[0], short[least] - short[0]
    steps = [(b - a) / period for a, b in pairwise(long[::period])]
    third = len(steps) // 3
    (middle, _), (late, error) = _mean(steps[-2 * third : -third]), _mean(steps[-third:])
    least_late = KEPT * middle if third * period * late > OUTRIGHT else max(STEADY * middle, SURE * error)
    return abs(one - other) <= SAME * max(one, other) and min(middle, late) > felt and late > least_late


def _bursts(sizes: Sequence[float | None]) -> bool:
    """Whether a state is multiplied by more and more from block to block, and leaves the range of floats; where only some blocks add a power of it,
    by more and more in one half than in the half before."""
    end = next((n for n, size in enumerate(sizes) if size is None or size >= BEYOND), 0)
    logs = _logs(sizes[:end])
    steps = [b - a for a, b in pairwise(logs)]
    left = end < len(sizes) and (sizes[end] or 0.0) >= BEYOND
    if not left or len(steps) < 2:
        return False
    early, late = math.fsum(steps[: len(steps) // 2]), math.fsum(steps[len(steps) // 2 :])
    halves = len(steps) >= 4 and early > SEEN and late > BURSTS * early
    return halves or (steps[0] > SEEN and all(b > BURSTS * a for a, b in pairwise(steps)))


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """A mean and its error."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values)) / len(values)


def _logs(values: Sequence[float | None]) -> list[float]:
    """Logarithms; nothing where a value is none, or leaves the range of floats."""
    found = [math.log(v) for v in values if v is not None and 0 < v < BEYOND]
    return found if len(found) == len(values) else []


def _stays(logs: Sequence[float]) -> bool:
    """Whether no part of the depth is far from the others: the ends of what rises and falls again may be alike."""
    parts = [math.fsum(logs[i : i + ENDS]) / ENDS for i in range(0, len(logs) - ENDS + 1, ENDS)]
    return max(parts) - min(parts) <= SEEN


def _follows(deep: FoundDepth, gained: float) -> bool:
    """Whether gradients may go with the size of the stream as far as it has grown: a power, sooner or later."""
    sizes = _logs(deep.rms)
    risen = abs(sizes[-1] - sizes[0]) if sizes else math.inf
    return risen >= RISEN and abs(gained) > risen / 2


def _error(logs: Sequence[float]) -> float:
    """The error of the difference of two means over `ENDS` blocks, by how far each block is from the next one."""
    steps = [b - a for a, b in pairwise(logs)]
    mean = math.fsum(steps) / len(steps)
    return math.sqrt(math.fsum((s - mean) ** 2 for s in steps) / len(steps) / ENDS)


def _swells(deep: FoundDepth) -> bool:
    """Whether the stream goes on growing in the second half of the blocks: a block whose slope falls with its size multiplies gradients by less and
    less, as a power of the depth."""
    sizes = _logs(deep.rms)
    return bool(sizes) and sizes[-1] - sizes[len(sizes) // 2] > math.log(SWELLS)


def _halves(logs: Sequence[float]) -> tuple[float, float]:
    """What is gained in each half, without the blocks at the ends."""
    middle = _around(logs, len(logs) // 2)
    return math.fsum(logs[:ENDS]) / ENDS - middle, middle - math.fsum(logs[-ENDS:]) / ENDS


def _thirds(logs: Sequence[float]) -> tuple[float, float]:
    """What is gained between an eighth of the blocks and a half, and between the half and seven eighths."""
    one, two, three = (_around(logs, len(logs) * k // 8) for k in (1, 4, 7))
    return one - two, two - three


def _around(logs: Sequence[float], place: int) -> float:
    near = logs[max(place - 2, 0) : place + 3]
    return math.fsum(near) / len(near)


__all__ = ["gradients", "growth", "multiplies", "numbers", "ratio"]
