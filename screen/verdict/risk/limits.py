"""Up to which learning rate a model, and each channel of it, is expected to hold: where the risk reaches `EXPECTED`, everything else as the recipe
states it.

What a recipe does not state is taken as usual for `value`, and as harsh and as kind as is usual for the two ends of the interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from screen.recipe import Recipe
from screen.rule import ChannelId
from screen.verdict.risk.assess import largest
from screen.verdict.risk.channels import overall, worst_risks
from screen.verdict.risk.constants import LARGEST, SMALLEST, VALUES
from screen.verdict.risk.features import Features
from screen.verdict.risk.setting import NOT_ADAM, Item, Setting, moved, setting_of

LIMITED_BY: Mapping[ChannelId, str] = {
    "D": "tokens grow alike over depth as weights grow",
    "R": "the residual stream grows",
    "L": "attention logits grow",
    "O": "the head's logits drift",
    "N": "activations leave the range of their type",
    "S": "first update",
}
"""Channel -> what limits the rate. The start alone (I) holds at all rates or at none."""
ROUTED = "the logits of routers, poolings, stored values or trained shares grow"
BEYOND = "no larger rate was tried in the runs that this rests on"


@dataclass(frozen=True)
class Limit:
    """The largest learning rate at which one channel, or the whole, is expected to hold."""

    channel: ChannelId | Literal["all"]
    value: float
    low: float
    """With the harshest usual values of all that is not stated."""
    high: float
    """With the kindest."""
    by: str
    """The quantity that limits it, in words."""


def limits(streams: Sequence[Features], recipe: Recipe, constants: Mapping[str, float] = VALUES) -> tuple[Limit, ...]:
    """The limit of the whole, then those of all channels that have one, the smallest first; none under an optimiser that is not of Adam's kind."""
    if not streams or recipe.optimizer in NOT_ADAM:
        return ()
    settings = [setting_of(recipe, f) for f in streams]
    missing = tuple(item for item in settings[0][1] if item.name != "lr")
    usual = [s for s, _ in settings]
    kind = [_all_at(s, missing, f, harsh=False) for s, f in zip(usual, streams, strict=True)]
    harsh = [_all_at(s, missing, f, harsh=True) for s, f in zip(usual, streams, strict=True)]

    def ends(channel: ChannelId | None) -> tuple[float, float, float]:
        low, value, high = (_largest(channel, streams, each, constants) for each in (harsh, usual, kind))
        return value, min(low, value), max(value, high)

    channels: tuple[ChannelId, ...] = (*LIMITED_BY, "I")
    found = [(channel, ends(channel)) for channel in channels if channel != "S" or any(f.kappa is not None for f in streams)]
    told = [Limit(c, *rates, BEYOND if rates[1] == LARGEST else _said(c, streams, usual)) for c, rates in found if rates[0] > SMALLEST]
    whole = ends(None)
    if whole[0] == SMALLEST:  # at any rate
        return ()
    worst = max(LIMITED_BY, key=lambda c: _risk(c, streams, usual, constants, whole[0]))
    by = BEYOND if whole[0] == LARGEST else _said(worst, streams, usual)
    return (Limit("all", *whole, by), *sorted(told, key=lambda limit: limit.value))


def _all_at(setting: Setting, items: Sequence[Item], features: Features, *, harsh: bool) -> Setting:
    for item in items:
        setting = moved(setting, item.name, (item.harsh if harsh else item.kind)(features))
    return setting


def _risk(channel: ChannelId | None, streams: Sequence[Features], settings: Sequence[Setting], constants: Mapping[str, float], lr: float) -> float:
    """Of one channel, or of the whole, at one rate."""
    worst = worst_risks(zip(streams, (moved(s, "lr", lr) for s in settings), strict=True), constants)
    return overall(worst) if channel is None else worst[channel]


def _largest(channel: ChannelId | None, streams: Sequence[Features], settings: Sequence[Setting], constants: Mapping[str, float]) -> float:
    return largest(lambda lr: _risk(channel, streams, settings, constants, lr))


def _said(channel: ChannelId, streams: Sequence[Features], settings: Sequence[Setting]) -> str:
    known = [f for f in streams if f.kappa is not None]
    free = [f.routed for f in streams if f.softmax is not False and f.logits_bounded is not True]
    if channel == "L" and free and all(free):
        return ROUTED
    if channel != "S" or not known:
        return LIMITED_BY[channel]
    worst = max(known, key=lambda f: f.kappa or 0.0)
    warmup = settings[0].warmup
    return f"{LIMITED_BY[channel]} over {worst.depth} blocks, " + (f"{warmup:,.0f} steps of warm-up" if warmup else "without warm-up")


__all__ = ["LIMITED_BY", "Limit", "limits"]
