"""What the two calculi say of each distinct branch: degrees (how it scales) and bounds (how large it gets)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from screen.calculi.bounds import BranchBounds, bounds_of
from screen.calculi.degrees import Degrees, Orders, degrees_of
from screen.errors import swallowed
from screen.structure.branches.branch import Branch
from screen.structure.streams.reader import Reader
from screen.structure.types import Stream, Unknown

T = TypeVar("T")
FAULT = "a fault of `screen`"
"""How the reason of an `Unknown` begins that an exception of ours gave; tests look for it."""
Key = tuple[int, int]
"""(add, output) of a sublayer."""


@dataclass(frozen=True)
class Analysis:
    """Degrees and bounds of one branch."""

    degrees: Degrees
    bounds: BranchBounds


def analyse(branch: Branch) -> Analysis:
    """Both calculi on one branch. A fault of ours in one of them is an `Unknown` with its reason, and stops nothing else."""
    degrees = sure(degrees_of, branch)
    bounds = sure(bounds_of, branch)
    return Analysis(
        no_degrees(degrees) if isinstance(degrees, Unknown) else degrees, no_bounds(bounds) if isinstance(bounds, Unknown) else bounds
    )


def sure(derive: Callable[..., T], *arguments: object, **named: object) -> T | Unknown:
    """What `derive` gives, or the exception as a reason. `MemoryError` passes through: it is about the whole process."""
    try:
        with np.errstate(all="ignore"):  # a value that is not finite is a result, and no line on somebody's terminal
            return derive(*arguments, **named)
    except MemoryError:
        raise
    except RecursionError:
        return Unknown("more values are computed from each other in a row than can be followed")
    except Exception as error:  # whatever the graph: an exception here is ours, and is told as such
        return Unknown(f"{FAULT}: `{swallowed(getattr(derive, '__name__', 'a calculus'), error)}`")


def no_degrees(why: Unknown) -> Degrees:
    """Nothing is known of degrees."""
    return Degrees((), Orders(why, why, why, (), ()), why)


def no_bounds(why: Unknown) -> BranchBounds:
    """Nothing is known of sizes."""
    return BranchBounds(
        magnitude=why, lipschitz=why, lipschitz_local=why, logits=(), logits_bounded=why, bounded=why, breaker=None, given=(), bound=None,
        hamiltonian=None, internal=why, quantities=(), ops=0, norms=(), axis=-1,
    )  # fmt: skip


def analyses_of(readers: list[Reader], streams: tuple[Stream, ...]) -> dict[Key, Analysis]:
    """The analyses of every distinct sublayer: each is derived once, for the block that its kind is judged by."""
    branches = {key: branch for stream in streams for reader in readers for key, branch in reader.typical(stream).items()}
    return {key: analyse(branches[key]) for key in sorted(branches)}


__all__ = ["FAULT", "Analysis", "Key", "analyse", "analyses_of", "sure"]
