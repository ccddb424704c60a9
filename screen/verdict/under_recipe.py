"""Channels as they are judged under a stated recipe: by structure first, then by their risk.

A channel that structure closes stays closed, and one that it opens stays open. Any other is open where the whole is risky and this channel has most
of it, `guarded` where the recipe states what it needs, and `conditional` where something that is not stated decides: then the reason names it, with
the value at which the answer flips. The range of numbers alone opens nothing: whether sums are kept in float32 is seldom stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from screen.recipe import Recipe
from screen.rule import ChannelId
from screen.verdict.risk import Assessment, Dependence, Features
from screen.verdict.risk.channels import overall
from screen.verdict.risk.constants import RISKY
from screen.verdict.risk.setting import NOT_ADAM
from screen.verdict.sides import Sides
from screen.verdict.state import ChannelState

NEEDS: dict[ChannelId, tuple[str, ...]] = {
    "D": ("lr", "warmup_steps"),
    "R": ("lr", "weight_decay"),
    "L": ("lr", "weight_decay"),
    "O": ("lr", "weight_decay"),
    "I": (),
    "N": ("precision",),
    "S": ("lr", "warmup_steps"),
}
"""What guards a channel. Without a learning rate nothing does (theory.md, section 9); what else is missing and decides is a `Dependence`."""
GUARDED = frozenset({
    "bounded-weights", "bounded-logits", "bounded-router", "bounded-pooling", "small-stream", "small-stream-of-router", "small-stream-of-pooling",
    "bounded-memory", "small-stream-of-memory", "warm-up", "small-gain", "learned-scale", "float16-range", "initialisation", "final-norm",
})  # fmt: skip
"""Conditions that a recipe can meet. The others are about the model or the run."""
QUIET = 0.2
"""Risk of O below which decay alone is taken for enough, without z-loss (our own choice: half of the smallest that was seen to fail)."""
OPENING = 0.5
"""Risk of a channel from which it is open beside the main one, where the whole is risky."""
EXPECTED_TO_FAIL = "under this recipe it is expected to fail"
"""How the reason of a channel begins that a recipe opens."""
WORDS = {
    "lr": "learning rate", "warmup_steps": "warm-up", "weight_decay": "weight decay", "total_steps": "number of steps", "precision": "precision",
    "z_loss": "z-loss",
}  # fmt: skip


def under_recipe(
    channels: Sequence[ChannelState], seen: Assessment, streams: Sequence[Features], recipe: Recipe, both: Sequence[Sides] = ()
) -> tuple[ChannelState, ...]:
    """The channels under the recipe, each with its risk. `both`: where the verdict flips that an item decides, which its reason then names."""
    return tuple(replace(_judged(channel, seen, streams, recipe, both), risk=seen.risks[channel.id]) for channel in channels)


def _judged(channel: ChannelState, seen: Assessment, streams: Sequence[Features], recipe: Recipe, both: Sequence[Sides]) -> ChannelState:
    name, risk = channel.id, seen.risks[channel.id]
    if channel.state in ("closed", "open", "unknown"):
        return channel
    deciding = next((d for d in seen.depends if d.channel == name), None)
    if deciding is None and seen.depends and risk >= OPENING and name != "N":
        deciding = seen.depends[0]  # of another channel, whose kindest value is what this one needs not to be open
    if deciding is not None:
        return _depends(channel, deciding, recipe, next((b.fails_from for b in both if b.item == deciding.item), deciding.flips_at))
    apart: dict[ChannelId, float] = {c: r for c, r in seen.risks.items() if c != "N"}
    if overall(apart) >= RISKY and not seen.depends and name != "N" and (risk == max(apart.values()) or risk >= OPENING):
        return replace(channel, state="open", reason=_risky(channel, seen))
    if name == "N" and seen.risk >= RISKY and risk >= OPENING:
        return replace(channel, state="conditional", reason=_narrow(risk), conditions=channel.conditions or ("float16-range",))
    kept = tuple(c for c in channel.conditions if c not in GUARDED)
    if kept or (name == "L" and any(s.raw_inputs and s.normed and s.logits_bounded is not True for s in streams)):
        return channel
    missing = [item for item in NEEDS[name] if item in seen.missing and item == "lr"]  # of the others none decides
    if missing and channel.state == "conditional":
        return replace(channel, reason=f"{channel.reason} {_missing(missing, seen, recipe)}")
    if missing:
        return replace(channel, reason=_foreign(recipe) or f"the recipe does not state its {' or '.join(WORDS[m] for m in missing)}.")
    if name == "O" and risk >= QUIET and not recipe.z_loss:
        reason = f"the head's logits may drift (risk {risk:.2g}): z-loss holds them, decay alone may not."
        return replace(channel, state="conditional", reason=reason, conditions=("bounded-head",))
    return replace(channel, state="guarded", reason=_guarded(channel, risk, recipe))


def _foreign(recipe: Recipe) -> str:
    """Of an optimiser whose learning rate, which is stated, is not one of those that risks are made of; else empty."""
    if recipe.optimizer not in NOT_ADAM or recipe.lr is None:
        return ""
    return f"it is judged by learning rates of Adam's kind, of which the {recipe.lr:g} of {recipe.optimizer} says nothing."


def _depends(channel: ChannelState, found: Dependence, recipe: Recipe, fails_from: float | str) -> ChannelState:
    what = WORDS[found.item]
    if isinstance(fails_from, str):
        reason = f"it depends on the {what}, which is not stated: it fails in {fails_from} and holds in {found.usual}."
    else:
        side = "above" if found.holds_below else "below"
        foreign = _foreign(recipe) if found.item == "lr" else ""
        why = foreign.removesuffix(".") if foreign else f"it depends on the {what}, which is not stated"
        where = "without it" if found.item == "z_loss" or (fails_from == 0 and not found.holds_below) else f"{side} {fails_from:.2g}"
        reason = f"{why}: expected to fail {where}."
    return replace(channel, state="conditional", reason=reason, conditions=channel.conditions or ("not-stated",))


def _risky(channel: ChannelState, seen: Assessment) -> str:
    limit = "" if seen.lr is None else f" A learning rate below {seen.lr:.2g} is expected to train."
    cause = f" {channel.reason}" if channel.codes and channel.state == "conditional" else ""
    return f"{EXPECTED_TO_FAIL}: risk {seen.risks[channel.id]:.2g} of this channel, {seen.risk:.2g} of all.{limit}{cause}"


def _narrow(risk: float) -> str:
    return f"it is expected to fail (risk {risk:.2g}) unless the stream, and sums and squares on it, are kept in float32."


def _missing(items: list[str], seen: Assessment, recipe: Recipe) -> str:
    """What is not stated, and up to which learning rate all is expected to train."""
    flips = f", and up to {seen.lr:.2g} it is expected to train" if "lr" in items and seen.lr is not None else ""
    if foreign := _foreign(recipe):
        return f"{foreign[:1].upper()}{foreign[1:-1]}{flips}."
    return f"The recipe does not state the {' or the '.join(WORDS[i] for i in items)}{flips}."


def _guarded(channel: ChannelState, risk: float, recipe: Recipe) -> str:
    stated = {
        "lr": None if recipe.lr is None else f"learning rate {recipe.lr:g}",
        "warmup_steps": None if recipe.warmup is None else f"{recipe.warmup:,} steps of warm-up",
        "weight_decay": None if recipe.decays is None else f"weight decay {recipe.weight_decay or 0:g}",
        "precision": recipe.computes_in,
    }
    items = [text for need in NEEDS[channel.id] if (text := stated[need])]
    open_ = [WORDS[need] for need in NEEDS[channel.id] if not stated[need]]
    if channel.id == "O" and recipe.z_loss:
        items = [f"z-loss {recipe.z_loss:g}"]
    if channel.id == "L" and recipe.qk_clip is not None and {"bounded-logits", "small-stream"}.intersection(channel.conditions):
        items = [f"QK-clip at {recipe.qk_clip:g}"]
    by = f"guarded by the stated {', '.join(items)}" if items else "guarded by the initialisation that was recorded"
    return f"{by}: risk {risk:.2g}" + (f", whatever the {' and the '.join(open_)} is in its usual range." if open_ else ".")


__all__ = ["EXPECTED_TO_FAIL", "GUARDED", "NEEDS", "WORDS", "under_recipe"]
