"""The first screen of a report as data: verdict, reason, learning rate, what to change first, and what can go wrong, in words for somebody who has
trained one transformer. Every format shows it in this order, before anything else. Words follow from outcomes, states and claims, never from names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.recipe.recipe import DECOUPLED
from screen.report import groups, words
from screen.report.annotation import file_of
from screen.report.groups import worth_reading
from screen.report.schema import ChangePart, Channel, ClaimPart, FindingPart, Report, SidesPart
from screen.rule import DECAY, GAINS_HELD
from screen.verdict.channels import lower
from screen.verdict.risk.constants import LARGEST, SMALLEST
from screen.verdict.under_recipe import EXPECTED_TO_FAIL, WORDS
from screen.visible import clean

MOST = 3
"""Changes that are shown."""
ALIKE = 1.15
"""Ratio of two learning rates up to which they are the same: they are estimated to no more than two digits."""
ALTERNATIVE = " or "
"""What an option of several has between them: which of them was tried is said."""


@dataclass(frozen=True)
class Change:
    """Something to change, at all places where it would help."""

    what: str
    """The option of a finding: code in backticks."""
    places: tuple[str, ...]
    """`file:line`, lines of one file together (`file:61, 62`); empty where no place is known."""
    against: str
    """What it is aimed at."""
    codes: tuple[str, ...]
    gains: tuple[str, ...] = ()
    """What screening the changed graph gave, for each part of the option that could be tried."""
    tried: tuple[ChangePart, ...] = ()
    """These parts."""


@dataclass(frozen=True)
class Risk:
    """Channels that are in one state for one reason."""

    ids: tuple[str, ...]
    name: str
    state: str
    """A word of the schema."""
    said: str
    """The state in words, with what it hangs on."""


@dataclass(frozen=True)
class Answer:
    """What the first screen says."""

    verdict: str
    """What the verdict means for this model, to be read behind its word."""
    model: str
    """What the model is: the summary without the reason, which stands beside it."""
    reason: str
    rates: tuple[str, ...]
    """Learning rates that are expected to be tolerated, the smallest first; empty where none was derived."""
    sides: tuple[str, ...]
    """Both sides of each thing that the recipe does not state and on which the verdict hangs."""
    changes: tuple[Change, ...]
    risks: tuple[Risk, ...]
    assumed: tuple[str, ...]
    """Conditions that belong to no channel."""


def answer(report: Report) -> Answer:
    """The first screen of one report."""
    named = {c for channel in report.channels for c in channel.conditions}
    assumed = tuple(words.condition(c) for c in report.conditions if c.id not in named)
    return Answer(_verdict(report), _model(report), _reason(report), _rates(report), _sides(report), _changes(report), _risks(report), assumed)


def line(report: Report) -> str:
    """`path:line: verdict: reason`, as linters write it; behind the path the model's name where the target says one."""
    spec = clean(report.target.spec)
    path = file_of(spec)
    name = spec[len(path) :].lstrip(":")
    part = report.error or _deciding(report)
    where = f"{path}:{part.line}" if part is not None and part.line and part.file in (path, None) else path
    beside = f" ({part.file}:{part.line})" if part is not None and part.line and part.file not in (path, None) else ""
    reason = report.error.message if report.error is not None else _reason(report)
    return f"{where}: {words.headline(report)}: {f'{name}: ' if name else ''}{clean(reason)}{clean(beside)}"


def _verdict(report: Report) -> str:
    """What the verdict comes to."""
    if report.error is not None:
        return "it was not judged to its end, which is no pass"
    if report.verdict == "unknown":
        return "part of it could not be told, which is no pass"
    if report.verdict == "unstable":
        return "expected to diverge, or to learn nothing, as it stands"
    if report.verdict == "stable":
        guarded = any(c.state == "guarded" for c in report.channels)
        if _too_large(report):
            return "not expected to fail with this recipe, but its learning rate leaves no room"
        return "expected to train with this recipe" if guarded else "nothing in the code stands in the way of stable training"
    needs = _needs(report, [c for channel in report.channels if channel.state == "conditional" for c in channel.conditions])
    against = [c.id for c in report.conditions if c.recipe == "not_met"]
    failed = f"; the recipe does not see to it that {words.listed(_needs(report, against))}" if against else ""
    met = "expected to train with this recipe, which meets what that depends on"
    if needs:
        return f"expected to train if {words.listed(needs)}{failed}"
    return met if any(c.recipe == "met" for c in report.conditions) else "expected to train, as far as the findings below allow"


def _model(report: Report) -> str:
    """The summary, which ends in the reason of a channel where the verdict is `unstable` or `unknown`."""
    ends = (f"; {lower(c.reason.rstrip('.'))}" for c in report.channels)
    return report.summary.removesuffix(next((end for end in ends if report.summary.endswith(end)), ""))


def _needs(report: Report, ids: list[str]) -> list[str]:
    """Conditions as clauses, without those that the recipe meets."""
    texts = {c.id: c.text for c in report.conditions if c.recipe != "met"}
    return [words.CONDITIONS.get(i) or texts[i].partition(":")[0] for i in dict.fromkeys(ids) if i in texts]


def _reason(report: Report) -> str:
    """Why, in one sentence or two."""
    if report.error is not None:
        return report.error.message
    found = _deciding(report)
    slip = next((f"A slip: {lower(g.first.said)}" for g in worth_reading(report) if g.first.outcome == "violated" and g.first.severity != "note"), "")
    if report.verdict == "unstable" and found is not None:
        return found.said
    if report.verdict == "unstable" and (opened := [c for c in report.channels if c.state == "open"]):
        return _under_recipe(report, max(opened, key=lambda c: c.risk or 0.0))
    if report.verdict == "unknown":
        lost = next((c.reason for c in report.channels if c.state == "unknown"), report.summary.rpartition("; ")[2])
        why = found.said if found is not None else lost[:1].upper() + lost[1:]
        return f"{why.rstrip('.')}. {slip}".rstrip()
    if slip:
        return slip
    if report.verdict == "conditional":
        left = [words.failure(report, c.id) for c in report.channels if c.state == "conditional"]
        return f"Nothing in the code rules out that {words.listed(left, ', or that ', ', that ')}." if left else ""
    held = [words.failure(report, c.id) for c in report.channels if c.state in ("closed", "guarded")]
    return f"Nothing was found by which {words.listed(held, ', or ', ', ')}." if held else ""


def _under_recipe(report: Report, channel: Channel) -> str:
    """Of a channel that the recipe opens, and no finding: what fails, how likely it is, and up to which rate all is expected to train."""
    fails, most = words.failure(report, channel.id), _most(report)
    risk = "" if channel.risk is None else f" (risk {channel.risk:.2g})"
    other = f"; a learning rate up to {rate(most)} is expected to train" if most is not None else ""
    return f"{fails[:1].upper()}{fails[1:]} under this recipe{risk}{other}."


def _deciding(report: Report) -> FindingPart | None:
    """The finding that the verdict hangs on: of the worst channel, else the first that is worth reading."""
    state = {"unstable": "open", "unknown": "unknown"}.get(report.verdict)
    if state is not None:
        told = (_finding(report, c) for c in report.channels if c.state == state)
        return next((f for f in told if f is not None), None)
    return next((g.first for g in worth_reading(report)), None)


def _finding(report: Report, channel: Channel) -> FindingPart | None:
    """The finding whose message a channel's reason is."""
    mine = [f for f in report.findings if f.channel == channel.id and f.outcome not in ("holds", "not_applicable")]
    return next((f for f in mine if channel.reason.startswith(f.message)), None)


def _changes(report: Report) -> tuple[Change, ...]:
    """The options of the gravest findings, alike ones once; what mere notes propose is left out where something graver is there."""
    open_ = [g.first for g in worth_reading(report) if g.first.remedy and g.first.outcome != "cannot_tell"]
    grave = [f for f in open_ if f.severity != "note"]
    asked, found = {f.remedy for f in grave or open_}, dict[str, list[FindingPart]]()
    for f in grave or open_:
        one = f.remedy.partition("; or ")[0]  # of what helps elsewhere by itself the alternative stands with its finding
        found.setdefault(one if one in asked else f.remedy, []).append(f)
    tried = [(same[0], _change(report, what, same)) for what, same in found.items()]
    changes = [pair for pair in tried if not _only_worse(pair[1])]
    changes.sort(key=lambda pair: (groups.gravity(pair[0]), *_rank(pair[1])))
    return tuple(change for _, change in changes[:MOST])


def _only_worse(change: Change) -> bool:
    """Whether screening the changed graph found all that could be tried of a change to worsen something, and to help nothing."""
    return bool(change.tried) and all(
        (c.opens or _ratio(c) <= 1 / ALIKE) and not c.closes and not c.eases and _ratio(c) < ALIKE for c in change.tried
    )


def _rank(change: Change) -> tuple[int, float]:
    """Of changes that are aimed at findings of one gravity, those first that help most channels, and then the learning rate."""
    found = [(len(c.opens) - 2 * len(c.closes) - len(c.eases), -math.log(_ratio(c))) for c in change.tried]
    return min(found, default=(0, 0.0))


def _ratio(change: ChangePart) -> float:
    """Of the learning rate with a change to the one without; 1 where it is not known."""
    before, after = change.lr_before, change.lr_after
    if not isinstance(before, float) and not isinstance(after, float):
        return 1.0
    return (after if isinstance(after, float) else SMALLEST) / (before if isinstance(before, float) else SMALLEST)


def _change(report: Report, what: str, same: list[FindingPart]) -> Change:
    places: dict[str, list[str]] = {}
    for at in dict.fromkeys(words.place(f) for f in same if words.place(f)):
        file, _, number = at.rpartition(":") if at[-1].isdigit() and ":" in at else (at, "", "")
        places.setdefault(file, []).append(number)
    shown = tuple(f"{file}:{', '.join(numbers)}".rstrip(":") for file, numbers in places.items())
    against = dict.fromkeys(words.risk_of(report, f) for f in same if f.channel)
    codes = tuple(dict.fromkeys(f.code for f in same))
    asked = {f.remedy for f in same}
    tried = tuple(c for c in report.changes if set(codes) & set(c.codes) and asked.intersection(c.remedies))
    aims: set[str] = {f.channel for f in same if f.channel}
    left = _left(report, what)
    said = [_gain(report, c, aims) or _nothing(report, c, what, aims) for c in tried]
    gains = tuple(f"{f'{c.what}: ' if len(tried) > 1 or ALTERNATIVE in left else ''}{text}" for c, text in zip(tried, said, strict=True))
    return Change(left, shown, ", ".join(against), codes, gains, tried)


def _left(report: Report, what: str) -> str:
    """An option without the part that the recipe has taken."""
    values = {} if report.recipe is None else report.recipe.values
    decay, optimizer = values.get("weight_decay", values.get("weight_decay_on")), values.get("optimizer")
    apart = values.get("decoupled", isinstance(optimizer, str) and optimizer in DECOUPLED)
    return what.removesuffix(f"; or {DECAY}") if isinstance(decay, int | float) and decay > 0 and apart is True else what


def _nothing(report: Report, change: ChangePart, what: str, channels: set[str]) -> str:
    """Why a change is proposed of which nothing is predicted, and of which nothing is left untold."""
    if set(change.codes) - set(change.clears):
        return "alone it changes nothing that is judged here: the finding stays"
    told = (g.first for g in worth_reading(report))
    left = dict.fromkeys(words.risk_of(report, f) for f in told if f.channel in channels and f.remedy != what and f.outcome != "cannot_tell")
    if left:
        return f"alone it changes nothing that is judged here: other findings on {words.listed(list(left))} stay"
    return "the finding goes, and nothing else that is judged here changes"


def _gain(report: Report, change: ChangePart, aims: set[str]) -> str:
    """What a change brings, in words: channels that close or open, the learning rate, a verdict that is another one, and of what that it is meant for
    it is not told; empty where nothing."""
    said = [f"keeps {words.listed([words.risk(report, c) for c in change.closes])} in check"] if change.closes else []
    said += [f"helps {words.listed([words.risk(report, c) for c in change.eases])}"] if change.eases else []
    said += [f"{'but ' if said else ''}worsens {words.listed([words.risk(report, c) for c in change.opens])}"] if change.opens else []
    before, after = change.lr_before, change.lr_after
    if before is None and isinstance(after, float):
        said.append(f"learning rate up to about {rate(after)}, where none was found without it")
    if isinstance(before, float) and not 1 / ALIKE < _ratio(change) < ALIKE:
        lower = " (lower)" if _ratio(change) < 1 and isinstance(after, float) else ""
        said.append(f"learning rate up to about {rate(before)} → {rate(after) if isinstance(after, float) else 'none is expected to train'}{lower}")
    said += [f"verdict {change.verdict}"] if change.verdict != report.verdict else []
    untold = [words.risk(report, c) for c in change.untold if c in aims or not said]
    return "; ".join([*said, *([f"what it does to {words.listed(untold)} is not told without a measurement"] if untold else [])])


def _risks(report: Report) -> tuple[Risk, ...]:
    """The channels in words, those of one state and one reason together."""
    found: dict[tuple[str, str], list[Channel]] = {}
    for channel in report.channels:
        found.setdefault((channel.state, _because(report, channel)), []).append(channel)
    return tuple(
        Risk(tuple(c.id for c in same), ", ".join(words.risk(report, c.id) for c in same), state, f"{words.RISK_STATES[state]}{why and f': {why}'}")
        for (state, why), same in found.items()
    )


def _because(report: Report, channel: Channel) -> str:
    """What a state hangs on: conditions, or a reason."""
    if channel.state in ("closed", "guarded"):
        none = any(c.claim == "softmax" and c.sublayer is None and c.value is False for c in report.claims)
        if channel.id == "L" and none:
            return "there are none, as nothing is weighed by a softmax"
        given = any(f.channel == channel.id and f.outcome == "holds" and GAINS_HELD in f.assumptions for f in report.findings)
        return "while gains of norms and temperatures stay of their size" if given and channel.state == "closed" else ""
    if channel.state == "conditional" and channel.conditions == ["not-stated"]:
        return lower(channel.reason.rstrip("."))
    needs = _needs(report, channel.conditions) if channel.state == "conditional" else []
    if channel.state == "conditional" and channel.conditions:
        return f"safe if {words.listed(needs)}" if needs else "the recipe meets that"
    if _by_recipe(channel) and channel.risk is not None:
        return f"risk {channel.risk:.2g} under this recipe"
    found = _finding(report, channel)
    return lower((found.said if found is not None else channel.reason).rstrip("."))


def _by_recipe(channel: Channel) -> bool:
    """Whether a channel is open for its risk under the recipe, and not by structure."""
    return channel.reason.lower().startswith(EXPECTED_TO_FAIL)


def _rates(report: Report) -> tuple[str, ...]:
    """What the claims on learning rates say, the smallest first: an interval, and what limits it in words. The whole bears less than each channel
    alone: their risks add up."""
    broken = [c.id for c in report.channels if c.state == "open" and not _by_recipe(c)] if report.verdict == "unstable" else []
    free = tuple(name for name in _at_all_rates(report) if name not in broken)
    known = enumerate((name, text) for name, text in rates_by_channel(report) if name not in (*_at_all_rates(report), *broken))
    said = [f"{f'{words.risk(report, name)} alone: ' if place and name in words.RISKS else ''}{text}" for place, (name, text) in known]
    stated = _too_large(report)
    if said and stated is not None:
        said[0] += f"; the recipe's {rate(stated)} is above that{', where runs went both ways' if report.verdict == 'stable' else ''}"
    if said:
        mended = f"no rate mends {words.listed([words.risk(report, name) for name in broken])}; with that mended " if broken else ""
        said[0] = f"{mended}expected to train {said[0]}"
    if said and free:
        said.append(f"no limit up to {rate(LARGEST)}, the largest rate that was tried: {words.listed([words.risk(report, name) for name in free])}")
    return tuple(said)


def _at_all_rates(report: Report) -> tuple[str, ...]:
    """Channels that are expected to hold at every rate that was tried, whatever is not stated."""
    return tuple(c.group for c in report.claims if c.claim == "lr_max" and c.group in words.RISKS and c.low == c.value == LARGEST)


def _too_large(report: Report) -> float | None:
    """The recipe's learning rate where it is above what the whole is expected to bear, which is the first that is told."""
    stated = None if report.recipe is None else report.recipe.values.get("lr")
    most = _most(report)
    return stated if isinstance(stated, float) and most is not None and stated > most else None


def _most(report: Report) -> float | None:
    """The learning rate up to which the whole is expected to train."""
    return min((m for c in report.claims if c.claim == "lr_max" and c.group == "all" and (m := _estimate(c)) is not None), default=None)


def _sides(report: Report) -> tuple[str, ...]:
    """`warm-up, which is not stated: conditional from 5,300 steps on, unstable below`."""
    return tuple(_both(part) for part in report.recipe.decides) if report.recipe is not None else ()


def _both(part: SidesPart) -> str:
    what = f"{WORDS[part.item]}, which is not stated: "
    if isinstance(part.holds_to, str) or isinstance(part.fails_from, str) or isinstance(part.kind, str) or isinstance(part.harsh, str):
        return f"{what}{part.when_kind} with {part.kind}, {part.when_harsh} with {part.harsh}"

    def amount(value: float) -> str:
        return rate(value) if part.item == "lr" else f"{float(f'{value:.2g}'):,g}{' steps' if part.item.endswith('steps') else ''}"

    if part.item == "z_loss":
        return f"{what}{part.when_kind} with one, {part.when_harsh} without"
    if part.fails_from == 0 and part.kind > part.harsh:
        return f"{what}{part.when_kind} from {amount(part.holds_to)} on, {part.when_harsh} without"
    holds, fails = amount(part.holds_to), amount(part.fails_from)
    kind, harsh = (f"up to {holds}", "above") if part.kind < part.harsh else (f"from {holds} on", "below")
    return f"{what}{part.when_kind} {kind}, {part.when_harsh} {harsh}{'' if holds == fails else f' {fails}'}"


def rates_by_channel(report: Report) -> tuple[tuple[str, str], ...]:
    """(channel, up to which learning rate it is expected to hold) of the claims `lr_max`, the smallest rate first."""
    known = [(most, c) for c in report.claims if c.claim == "lr_max" and (most := _estimate(c)) is not None]
    known.sort(key=lambda pair: pair[0])
    groups = [c.group for _, c in known]
    known = [pair for place, pair in enumerate(known) if pair[1].group not in groups[:place]]  # of several streams the one that bears least
    return tuple((c.group or "", f"up to {_interval(c, most)}{_limited_by(c)}") for most, c in known)


def _limited_by(claim: ClaimPart) -> str:
    first = "largest risk: " if claim.group == "all" and claim.value != LARGEST else ""
    return f" ({first}{claim.reason})" if claim.reason else ""


def _estimate(claim: ClaimPart) -> float | None:
    """The rate that an interval is summed up by: its value, else the middle of its ends by their logarithms, else its one end."""
    if claim.status == "unknown" or (claim.measured is not None and claim.measured.agrees is False):
        return None
    numbers = (v if isinstance(v, int | float) and not isinstance(v, bool) and v > 0 else None for v in (claim.value, claim.low, claim.high))
    value, low, high = (None if v is None else float(v) for v in numbers)
    return value or (math.sqrt(low * high) if low and high else low or high)


def _interval(claim: ClaimPart, most: float) -> str:
    ends = [v for v in (claim.low, claim.high) if isinstance(v, int | float)]
    if len(ends) == 2 and ends[0] <= SMALLEST < ends[1]:
        return f"about {rate(most)}, at most {rate(ends[1])}, and none where all that is not stated is at its harshest"
    return f"about {rate(most)}" + (f", between {rate(ends[0])} and {rate(ends[1])}" if len(ends) == 2 and ends[0] < ends[1] else "")


def rate(value: float) -> str:
    """`3e-3`, `1.5e-4`: a learning rate as people write it."""
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits.removesuffix('.0')}e{int(power)}"


__all__ = ["Answer", "Change", "Risk", "answer", "line", "rate", "rates_by_channel"]
