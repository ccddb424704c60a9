"""A claim: one statement about a model as data, with what it holds for, how it is known, and what it rests on.

Rules combine claims, sentences are rendered from them, the spot check and the probe compare them with measurements. A claim that a measurement
refutes keeps its value and counts as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from screen.structure.types import Place, Unknown

ClaimKind = Literal[
    "identity_gain",
    "growth",
    "gradient_law",
    "output_bounded",
    "logits_bounded",
    "step_bound",
    "softmax",
    "rms_ratio",
    "one_minus_cos",
    "gradient_ratio",
    "loss_at_start",
    "logit_rms",
    "degree",
    "replay",
]
"""What is claimed: the contract's table, and `replay`: the traced program gives what the module gives."""
Weights = Literal["start", "fixed", "all"]
"""For which weights: as initialised, any that are held fixed, all values of all of them but gains of norms."""
Status = Literal["proved", "measured", "unknown"]
Value = bool | str | float | None


@dataclass(frozen=True)
class Measured:
    """What a measurement gave."""

    value: Value
    agrees: bool | None
    """None where nothing was compared."""


@dataclass(frozen=True)
class Claim:
    """One statement."""

    claim: ClaimKind
    weights: Weights
    status: Status
    value: Value = None
    stream: str | None = None
    kind: str | None = None
    sublayer: str | None = None
    group: str | None = None
    low: float | None = None
    """Of `logit_rms` what a softmax feels of them, where that is less: the deviation of independent logits of which as few keys hold it."""
    high: float | None = None
    reason: str = ""
    node: Place | None = None
    nodes: tuple[int, ...] = ()
    """All that an unknown one is to be blamed on."""
    rests_on: tuple[str, ...] = ()
    measured: Measured | None = None
    codes: tuple[str, ...] = ()
    """Rules that read it."""
    id: str = ""

    @property
    def is_refuted(self) -> bool:
        """Whether a measurement contradicts it."""
        return self.measured is not None and self.measured.agrees is False

    @property
    def known(self) -> bool | str | float | Unknown:
        """Its value where it may be relied on."""
        if self.is_refuted and self.measured is not None:
            return Unknown(f"it was measured otherwise: {said(self.measured.value)} for {said(self.value)}", self.nodes)
        if self.status == "unknown" or self.value is None:
            return Unknown(self.reason or "it was not derived", self.nodes)
        return self.value


LARGEST = math.exp(690.0)
"""The largest ratio that is told: of one that leaves the range of floats it is."""
FROM_LARGE_STATES = "in blocks that are repeated, from much larger states"
AWAKE = f"{FROM_LARGE_STATES}, with draws for weights that start at zero"
"""What a growth was measured by that does not show itself at the start: blocks multiply a state that is large."""


def said(value: Value) -> str:
    """A value in words."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "nothing"}[value]
    return f"{value:.3g}" if isinstance(value, float | int) else value


@dataclass(frozen=True)
class Claims:
    """All claims about one model, in data-flow order."""

    all: tuple[Claim, ...] = ()
    reason: str = ""
    """Why nothing was measured, where nothing was."""
    checked: bool = False
    """Whether a spot check ran."""
    _index: dict[tuple[str, str, str | None, str | None, str | None], Claim] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._index.update({(c.claim, c.weights, c.stream, c.kind, c.sublayer): c for c in reversed(self.all) if c.group is None})

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.all)

    def of(self, claim: ClaimKind, weights: Weights, stream: str | None = None, kind: str | None = None, sublayer: str | None = None) -> Claim:
        """One claim; an unknown one where it was not made."""
        found = self._index.get((claim, weights, stream, kind, sublayer))
        return found or Claim(claim, weights, "unknown", None, stream, kind, sublayer, reason="it was not derived")

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """Those that a measurement contradicts."""
        return tuple(c for c in self.all if c.is_refuted)

    def with_all(self, claims: Iterable[Claim]) -> Claims:
        """The same with other claims."""
        return Claims(tuple(claims), self.reason, self.checked)


RESTS: dict[ClaimKind, tuple[ClaimKind, ...]] = {
    "growth": ("identity_gain", "output_bounded"),
    "gradient_law": ("gradient_ratio", "rms_ratio"),
    "step_bound": ("output_bounded",),
    "logits_bounded": ("softmax",),
    "softmax": ("softmax",),
}
"""Which claims one is derived from: those of its sublayer; of its stream and all branches of it; of all branches where it is one about the model."""


def linked(claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """The same with what each rests on."""
    named: dict[tuple[object, ...], list[str]] = {}
    for claim in claims:
        keys = [(claim.claim,), (claim.claim, claim.stream), (claim.claim, claim.stream, claim.kind, claim.sublayer)]
        for key in dict.fromkeys(keys):
            named.setdefault(key, []).append(claim.id)
    under = {c.id: [i for name in RESTS.get(c.claim, ()) for i in named.get((name, *_under(c)), ()) if i != c.id] for c in claims}
    return tuple(replace(c, rests_on=tuple(under[c.id])) for c in claims)


def _under(claim: Claim) -> tuple[str | None, ...]:
    if claim.sublayer is not None:
        return (claim.stream, claim.kind, claim.sublayer)
    return () if claim.stream is None else (claim.stream,)


def numbered(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Claims with their ids, `c1`, `c2`, …, in order."""
    return tuple(replace(c, id=f"c{n}") for n, c in enumerate(claims, 1))


__all__ = [
    "AWAKE", "FROM_LARGE_STATES", "LARGEST", "Claim", "ClaimKind", "Claims", "Measured", "Status", "Value", "Weights", "linked", "numbered", "said",
]  # fmt: skip
