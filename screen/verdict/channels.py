"""Folds findings into seven failure channels, and these into a verdict (docs/theory.md, channels).

R, D and L are always judged, from structure and the recorded initialisation. O, I, N and S are open or conditional when one of their rules
finds something, and else out of scope until a recipe is given. The verdict is the worst channel; what was not read is never a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from screen.facts.queries import program_doubt
from screen.facts.record import Facts
from screen.graph import BLOCK_DEPTH
from screen.recipe import Recipe
from screen.rule import GAINS_HELD, ChannelId, Finding, RuleRun, each_sublayer, first_reason
from screen.verdict.conditions import CONDITIONS, under
from screen.verdict.discover import catalogue
from screen.verdict.risk import Assessment, Limit, assess, features_of, limits
from screen.verdict.sides import Sides, sides
from screen.verdict.state import ChannelState, Condition, State, VerdictName
from screen.verdict.summary import summarise
from screen.verdict.under_recipe import EXPECTED_TO_FAIL, under_recipe

ORDER: tuple[VerdictName, ...] = ("stable", "conditional", "unknown", "unstable")
"""Best to worst."""
CHANNELS: dict[ChannelId, str] = {
    "D": "depth, gradient flow",
    "R": "residual stream, activation growth",
    "L": "attention logits",
    "O": "output logits",
    "I": "initialisation, embedding",
    "N": "numerics",
    "S": "schedule",
}
JUDGED: tuple[ChannelId, ...] = ("D", "R", "L")
"""Channels that structure decides."""
ASSUMED_DEPTH = "depth-assumed"


class Info(Protocol):
    """What the fold needs to know of the target besides facts."""

    @property
    def model_class(self) -> str | None: ...
    @property
    def block(self) -> bool: ...


@dataclass(frozen=True)
class Verdict:
    """What the whole comes to."""

    verdict: VerdictName
    provisional: bool
    summary: str
    channels: tuple[ChannelState, ...]
    conditions: tuple[Condition, ...]
    assessment: Assessment | None = None
    """The risk under the recipe; None without one."""
    limits: tuple[Limit, ...] = ()
    """The largest learning rate at which each channel is expected to hold, the smallest first."""
    sides: tuple[Sides, ...] = ()
    """What an item decides alone that the recipe does not state, where the verdict is not the same on both sides."""


def fold(facts: Facts, run: RuleRun, info: Info, recipe: Recipe | None = None, *, depth_assumed: bool = False) -> Verdict:
    """The verdict on one model, under a recipe where one is stated. `depth_assumed`: a block target for which nobody said how often it is stacked."""
    structure = tuple(_channel(facts, run, c) for c in CHANNELS)
    streams = features_of(facts)
    doubts = reasons_not_to_judge(facts)

    def judged(recipe: Recipe, seen: Assessment | None, both: tuple[Sides, ...] = ()) -> tuple[VerdictName, tuple[ChannelState, ...]]:
        channels = structure if seen is None else under_recipe(structure, seen, streams, recipe, both)
        return _name(facts, channels, bool(doubts)), channels

    seen = None if recipe is None else assess(streams, recipe)
    both = () if recipe is None or seen is None else sides(seen, recipe, lambda other: judged(other, assess(streams, other))[0])
    name, channels = judged(recipe or Recipe(), seen, both)
    conditions = _conditions(run, channels, recipe)
    if depth_assumed:
        conditions.append(Condition(ASSUMED_DEPTH, f"a block target, assumed to be stacked {BLOCK_DEPTH} times (`--depth N` says how often)"))
    summary = summarise(facts, info.model_class or "model", block=info.block)
    because = _because(name, channels, doubts)
    summary += f"; {because}" if because else ""
    rates = () if facts.graph.failure is not None else limits(streams, recipe or Recipe())
    return Verdict(name, False, summary, channels, tuple(conditions), seen, rates, both)


def _name(facts: Facts, channels: tuple[ChannelState, ...], doubtful: bool) -> VerdictName:
    states = {c.state for c in channels}
    if facts.graph.failure or guess_decides(facts):
        return "unknown"
    if "open" in states:
        return "unstable"
    if doubtful or "unknown" in states:
        return "unknown"
    return "conditional" if "conditional" in states else "stable"


def _because(name: VerdictName, channels: tuple[ChannelState, ...], doubts: tuple[str, ...]) -> str:
    """The reason that belongs into the first line."""
    if name == "unstable":
        opened = [c for c in channels if c.state == "open"]
        by_structure = next((c for c in opened if not c.reason.startswith(EXPECTED_TO_FAIL)), None)
        return lower((by_structure or max(opened, key=lambda c: c.risk or 0.0)).reason.rstrip("."))
    if name == "unknown":
        return doubts[0] if doubts else lower(next((c.reason for c in channels if c.state == "unknown"), "").rstrip("."))
    return ""


def _conditions(run: RuleRun, channels: tuple[ChannelState, ...], recipe: Recipe | None) -> list[Condition]:
    """Every condition that a channel names, with the rules that need it and whether the recipe meets it."""
    found = []
    for name in dict.fromkeys(c for channel in channels for c in channel.conditions):
        codes = tuple(dict.fromkeys(f.rule.code for f in run.findings if _needs(f) == name))
        answer = under(name, recipe or Recipe())
        found.append(Condition(name, CONDITIONS.get(name, name), codes, answer.recipe, answer.stated))
    return found


def _needs(finding: Finding) -> str:
    """The condition under which a finding does no harm; empty when it does none, or always does."""
    if finding.severity == "error" or finding.outcome.result not in ("violated", "conditional") or finding.rule.severity == "note":
        return ""
    return finding.outcome.condition or "declared-structure"


def reasons_not_to_judge(facts: Facts) -> tuple[str, ...]:
    """Why nothing can be concluded, most basic first; empty when everything on the streams was read."""
    reasons: list[str] = []
    if facts.graph.failure:
        reasons.append("the forward pass did not run to its end")
    if not facts.streams and not facts.graph.failure:
        reasons.append("nothing was found that a branch is added to")
    bare = next((s for s, r in zip(facts.streams, facts.readers, strict=False) if r.branches and not s.kinds), None)
    if bare is not None:
        reasons.append(f"branches are added to `{bare.name}`, and no block was found that they stand in")
    unread = [u for u in facts.coverage.unmodelled if u.on_stream]
    if unread:
        reasons.append(f"`{unread[0].op}` has no row in the op table and lies on a stream")
    for stream, kind, sublayer in each_sublayer(facts):
        if sublayer.placement == "unknown":
            why = first_reason(sublayer).reason
            reasons.append(f"the placement of `{sublayer.name}` in kind `{kind.id}` of `{stream.name}` cannot be told: {why}")
    if guess_decides(facts):
        reasons.append("a value that was guessed decides what runs on a stream")
    return tuple(reasons)


def guess_decides(facts: Facts) -> bool:
    """Whether a stream, a branch or one of its norms was only seen because of a guessed answer."""
    decisive = {n for s in facts.streams for n in s.states}
    for _, _, sublayer in each_sublayer(facts):
        decisive |= {sublayer.add, sublayer.output, *(norm.node for _, norm in sublayer.norms)}
    return bool(decisive & facts.guessed_nodes)


def lower(sentence: str) -> str:
    """The sentence as the second half of another one: its first letter small, unless it begins a name."""
    return sentence[:1].lower() + sentence[1:]


def worst(verdicts: list[VerdictName]) -> VerdictName:
    """The worst of several verdicts."""
    return max(verdicts, key=ORDER.index)


def _channel(facts: Facts, run: RuleRun, channel: ChannelId) -> ChannelState:
    fed = [f for f in run.findings if f.rule.channel == channel and f.outcome.result != "not_applicable"]
    codes = tuple(dict.fromkeys(f.rule.code for f in fed))
    telling = [f for f in fed if f.rule.severity != "note"]
    opened = [f for f in telling if f.outcome.result == "violated" and f.severity == "error"]
    untold = [f for f in telling if f.outcome.result == "cannot_tell"]
    worrying = [f for f in telling if f.outcome.result in ("violated", "conditional")]
    if opened:
        return ChannelState(channel, "open", opened[0].outcome.message, codes)
    silent = [f for f in run.not_run if f.rule.startswith(channel)]
    if silent and channel in JUDGED:
        return ChannelState(channel, "unknown", f"the rule {silent[0].rule} did not run: {silent[0].reason}.", codes)
    if channel in JUDGED and (doubt := program_doubt(facts, backward=channel == "D")):
        return ChannelState(channel, "unknown", f"{doubt}.", codes)
    if untold and channel in JUDGED:
        return ChannelState(channel, "unknown", untold[0].outcome.message, codes)
    if worrying:
        needs = tuple(dict.fromkeys(_needs(f) for f in worrying))
        return ChannelState(channel, "conditional", _reasons(worrying), codes, needs)
    if channel not in JUDGED:
        return ChannelState(channel, "out_of_scope", "no recipe given.", codes)
    unweighed = channel == "L" and facts.claims.of("softmax", "all").known is False
    if not facts.streams and not unweighed:
        return ChannelState(channel, "unknown", "no residual stream was found.", codes)
    if left_out := _left_out(run, channel):
        reason = f"{', '.join(left_out)} left out by `--select` or `--ignore`; what is left found nothing."
        return ChannelState(channel, "conditional", reason, codes, ("rules-left-out",))
    if unweighed:
        return ChannelState(channel, "closed", "no values are weighed by a softmax anywhere in the graph.", codes)
    holding = [f for f in telling if f.outcome.result == "holds"]
    if not holding:
        return ChannelState(channel, "unknown", "no rule of this channel had anything to judge.", codes)
    best = max(holding, key=lambda f: (GAINS_HELD in f.outcome.assumptions, f.rule.step != "structure", f.rule.code))
    return ChannelState(channel, "closed", best.outcome.message, codes)


def _left_out(run: RuleRun, channel: ChannelId) -> list[str]:
    """Rules of a channel that the user left out: every rule that runs has at least one finding."""
    ran = {f.rule.code for f in run.findings}
    return [r.rule.code for r in catalogue().rules if r.rule.channel == channel and r.rule.severity != "note" and r.rule.code not in ran]


def _reasons(findings: list[Finding]) -> str:
    """The first message, and how many others say the like."""
    messages = list(dict.fromkeys(f.outcome.message for f in findings))
    return messages[0] + (f" And {len(messages) - 1} more." if len(messages) > 1 else "")


__all__ = [
    "CHANNELS", "ORDER", "ChannelState", "Condition", "Info", "State", "Verdict", "VerdictName", "fold", "guess_decides", "lower",
    "reasons_not_to_judge", "worst",
]
