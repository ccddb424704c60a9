"""Up to which learning rate each channel is expected to hold: where its risk reaches the threshold, everything else as the recipe states it.

What a recipe does not state is taken as usual for `value`, and as harsh and as kind as is usual for the two ends of the interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screen.recipe import Recipe
from screen.rule import ChannelId
from screen.verdict.risk.assess import flip
from screen.verdict.risk.channels import channel_risks
from screen.verdict.risk.constants import RISKY, VALUES
from screen.verdict.risk.features import Features
from screen.verdict.risk.setting import NOT_ADAM, Item, Setting, moved, setting_of

SMALLEST, LARGEST = 1e-8, 10.0
"""Learning rates between which a limit is looked for."""
LIMITED_BY: Mapping[ChannelId, str] = {
    "D": "tokens grow alike over depth",
    "R": "the residual stream grows",
    "L": "attention logits grow",
    "O": "the head's logits drift",
    "N": "activations leave the range of their type",
    "S": "first update",
}
"""Channel -> what limits the rate. The start alone (I) does not."""


@dataclass(frozen=True)
class Limit:
    """The largest learning rate at which one channel is expected to hold."""

    channel: ChannelId
    value: float
    low: float
    """With the harshest usual values of all that is not stated."""
    high: float
    """With the kindest."""
    by: str
    """The quantity that limits it, in words."""


def limits(streams: Sequence[Features], recipe: Recipe, constants: Mapping[str, float] = VALUES, threshold: float = RISKY) -> tuple[Limit, ...]:
    """The limits of all channels that have one, the smallest first; none under an optimiser that is not of Adam's kind."""
    if not streams or recipe.optimizer in NOT_ADAM:
        return ()
    settings = [setting_of(recipe, f) for f in streams]
    missing = tuple(item for item in settings[0][1] if item.name != "lr")
    usual = [s for s, _ in settings]
    kind = [_all_at(s, missing, f, harsh=False) for s, f in zip(usual, streams, strict=True)]
    harsh = [_all_at(s, missing, f, harsh=True) for s, f in zip(usual, streams, strict=True)]
    found = []
    for channel, words in LIMITED_BY.items():
        ends = [_largest(channel, streams, each, constants, threshold) for each in (harsh, usual, kind)]
        low, value, high = (LARGEST if end is None else end for end in ends)
        if ends[1] is not None:
            found.append(Limit(channel, value, min(low, value), max(value, high), _said(channel, words, streams, usual)))
    return tuple(sorted(found, key=lambda limit: limit.value))


def _all_at(setting: Setting, items: Sequence[Item], features: Features, *, harsh: bool) -> Setting:
    for item in items:
        setting = moved(setting, item.name, (item.harsh if harsh else item.kind)(features))
    return setting


def _largest(
    channel: ChannelId, streams: Sequence[Features], settings: Sequence[Setting], constants: Mapping[str, float], threshold: float
) -> float | None:
    if channel == "S" and all(f.kappa is None for f in streams):
        return None

    def risk(lr: float) -> float:
        return max(channel_risks(f, moved(s, "lr", lr), constants)[channel] for f, s in zip(streams, settings, strict=True))

    return flip(risk, SMALLEST, LARGEST, threshold)


def _said(channel: ChannelId, words: str, streams: Sequence[Features], settings: Sequence[Setting]) -> str:
    if channel != "S":
        return words
    worst = max((f for f in streams if f.kappa is not None), key=lambda f: f.kappa or 0.0)
    warmup = settings[0].warmup
    return f"{words} over {worst.depth} blocks, " + (f"{warmup:,.0f} steps of warm-up" if warmup else "without warm-up")


__all__ = ["LIMITED_BY", "Limit", "limits"]
