"""The risk of a model under a recipe: a number for each channel and for the whole, and what of it hangs on things that the recipe does not say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from screen.recipe import Recipe
from screen.rule import ChannelId
from screen.verdict.risk.channels import overall, worst_risks
from screen.verdict.risk.constants import EXPECTED, LARGEST, RISKY, SMALLEST, VALUES
from screen.verdict.risk.features import Features
from screen.verdict.risk.setting import Item, moved, setting_of

HALVINGS = 40
"""Of the interval in which an answer flips."""


@dataclass(frozen=True)
class Dependence:
    """An item that the recipe does not state and that decides alone."""

    item: str
    """Field of the recipe."""
    flips_at: float | str
    """The value up to which (or from which) the answer holds: a number, or the type that makes it fail."""
    usual: float | str
    holds_below: bool
    """Whether smaller values are the safe ones."""
    channel: ChannelId
    """The one that it moves most."""
    kind: float | str
    """The kindest of its usual values."""
    harsh: float | str


@dataclass(frozen=True)
class Assessment:
    """Risks under one recipe, each a probability."""

    risks: Mapping[ChannelId, float]
    risk: float
    low: float
    """With the kindest usual value of any one item that is not stated."""
    high: float
    """With the harshest."""
    missing: tuple[str, ...]
    """Items that were filled in with what is usual."""
    depends: tuple[Dependence, ...]
    lr: float | None
    """Learning rate up to which the whole is expected to train, everything else as it stands, of those that were tried; None where none does."""

    @property
    def main(self) -> ChannelId:
        """The channel with the largest share."""
        return max(self.risks, key=lambda name: self.risks[name])


def assess(streams: Sequence[Features], recipe: Recipe, constants: Mapping[str, float] = VALUES, threshold: float = RISKY) -> Assessment | None:
    """The assessment of a model with these streams, the worst stream in each channel; None where there are none."""
    if not streams:
        return None
    settings = [setting_of(recipe, f) for f in streams]
    missing = settings[0][1]
    risks = worst_risks(zip(streams, (s for s, _ in settings), strict=True), constants)
    point = overall(risks)

    def each(item: str, value: object) -> dict[ChannelId, float]:
        return worst_risks(zip(streams, (moved(s, item, value) for s, _ in settings), strict=True), constants)

    def at(item: str, value: object) -> float:
        return overall(each(item, value))

    ends = [(item, at(item.name, item.kind(streams[0])), at(item.name, item.harsh(streams[0]))) for item in missing]
    depends = [_dependence(item, streams[0], each, threshold) for item, low, high in ends if low < threshold <= high]
    most = largest(lambda lr: at("lr", lr))
    return Assessment(
        risks=risks,
        risk=point,
        low=min([point, *(low for _, low, _ in ends)]),
        high=max([point, *(high for _, _, high in ends)]),
        missing=tuple(item.name for item in missing),
        depends=tuple(depends),
        lr=None if most == SMALLEST else most,
    )


def _dependence(item: Item, features: Features, each: Callable[[str, object], dict[ChannelId, float]], threshold: float) -> Dependence:
    kind, harsh, usual = item.kind(features), item.harsh(features), item.usual(features)
    before, after = each(item.name, kind), each(item.name, harsh)
    moves: dict[ChannelId, float] = {name: after[name] - before[name] for name in after}
    channel = max(moves, key=lambda name: moves[name])
    if isinstance(kind, str) or isinstance(harsh, str):
        return Dependence(item.name, str(harsh), str(usual), True, channel, str(kind), str(harsh))
    assert isinstance(kind, float) and isinstance(harsh, float) and isinstance(usual, float)
    edge = flip(lambda value: overall(each(item.name, value)), kind, harsh, threshold)
    return Dependence(item.name, harsh if edge is None else edge, usual, kind < harsh, channel, kind, harsh)


def largest(risk: Callable[[float], float]) -> float:
    """The learning rate at which a risk reaches `EXPECTED`; the ends of those that were tried where it does so nowhere between them."""
    found = flip(risk, SMALLEST, LARGEST, EXPECTED)
    return found if found is not None else SMALLEST if risk(SMALLEST) >= EXPECTED else LARGEST


def flip(risk: Callable[[float], float], kind: float, harsh: float, threshold: float) -> float | None:
    """Where a monotone risk crosses the threshold between two ends."""
    return edge(lambda value: risk(value) < threshold, kind, harsh)[0] if risk(kind) < threshold <= risk(harsh) else None


def edge(holds: Callable[[float], bool], kind: float, harsh: float) -> tuple[float, float]:
    """Between a value at which something holds and one at which it does not, by halving: two neighbours of which the same is true. Of logarithms
    where both ends are above zero."""
    scaled = kind > 0 and harsh > 0
    low, high = (math.log(kind), math.log(harsh)) if scaled else (kind, harsh)
    back: Callable[[float], float] = math.exp if scaled else float
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(back(middle)) else (low, middle)
    return back(low), back(high)


__all__ = ["Assessment", "Dependence", "assess", "edge", "flip", "largest"]
