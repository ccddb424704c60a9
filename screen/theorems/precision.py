"""When a bounded stream overflows or swallows its branches in a floating-point type (Kim et al., 7.2; Kan et al., section 3).

Entries: a token of rms r has entries up to √d r (a LayerNorm output has an entry √(d − 1) at one-hot input), so that the type's largest
number is compared with √d times the bound of the stream, the rounding of every add included; and with the largest *internal* value of
the branch, which a norm at its end does not bound: squares in a hand-written norm overflow float16 at |x| = 256.

Rounding: with t bits of significand half a unit in the last place of x is between 2^−(t+1)|x| and 2^−t|x|, so an addend below
2^−(t+1)|x| is lost always, and below 2^−t|x| possibly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A floating-point type."""

    largest: float
    """Largest finite number."""
    significand: int
    """Bits of the significand, the implicit one included."""


FORMATS = {
    "float16": Format(65504.0, 11),
    "bfloat16": Format((2 - 2**-7) * 2.0**127, 8),
    "float32": Format((2 - 2**-23) * 2.0**127, 24),
    "float64": Format((2 - 2**-52) * 2.0**1023, 53),
}
"""By the name that torch and numpy use."""


def format_of(dtype: str) -> Format:
    """The format of a type's name; ValueError for a name without a row."""
    if dtype not in FORMATS:
        raise ValueError(f"`dtype`: required one of {', '.join(FORMATS)}, found {dtype!r}")
    return FORMATS[dtype]


def safe_depth(dtype: str, width: int, start: float, step: float, internal: float = 0.0) -> float:
    """Safe up to this many sublayers: no entry of the stream passes the largest number of the type (α = 1; r, c in rms per token).

    Each add is rounded, by a factor of at most 1 + u, u = 2^−t: R_{l+1} = (1 + u)(R_l + c), so that the largest N is sought with
    √d [(1 + u)^N (r + C) − C] ≤ largest number, C = c(1 + u)/u. (Without rounding: √d (r + N c).) The rounding of the branch's own
    output is the caller's, in `step`.

    0 when the first state, or an `internal` entry of the branch that does not depend on depth, is already too large; infinity when
    nothing is added. A whole number otherwise.
    """
    if width < 1 or start < 0 or step < 0 or internal < 0:
        raise ValueError(f"required width >= 1 and start, step, internal >= 0, found {width}, {start}, {step}, {internal}")
    room, unit = format_of(dtype).largest / math.sqrt(width), possibly_lost(dtype)
    if start > room or internal > format_of(dtype).largest:
        return 0.0
    if step == 0:
        return math.inf  # adding 0 rounds nothing
    return float(math.floor(math.log1p(unit * (room - start) / (unit * start + step * (1 + unit))) / math.log1p(unit)))


def always_lost(dtype: str) -> float:
    """2^−(t+1): an addend below this share of the stream's entry never changes it (bfloat16: 2^−9)."""
    return 2.0 ** -(format_of(dtype).significand + 1)


def possibly_lost(dtype: str) -> float:
    """2^−t: an addend below this share of the stream's entry may be lost (bfloat16: 2^−8)."""
    return 2.0 ** -format_of(dtype).significand


def depth_of_loss(dtype: str, start: float, step: float) -> float:
    """How many sublayers of rms `step`, added coherently to a stream of rms `start`, until one more falls below `always_lost`.

    In the mean: entries of like shape, (r + N c) · 2^−(t+1) > c. Infinity when the branch is zero.
    """
    if start < 0 or step < 0:
        raise ValueError(f"required start, step >= 0, found {start} and {step}")
    return float(max(0, math.ceil((step / always_lost(dtype) - start) / step))) if step > 0 else math.inf
