"""Folds findings into channels and a verdict.

The verdict is provisional until boundedness and degrees are derived. By the design table of the theory a stream without any norm and
without a scale that starts at zero is open in R, hence `unstable`; what was not read is `unknown`; everything else is `conditional`
on what is not derived. No design is called stable here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from screen.facts.nouns import Facts, Unknown
from screen.ops import CLASSES
from screen.rule import ChannelId, Finding, RuleRun, each_sublayer, first_reason
from screen.summary import summarise

VerdictName = Literal["stable", "conditional", "unknown", "unstable"]
State = Literal["closed", "guarded", "out_of_scope", "conditional", "unknown", "open"]
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
NOT_DERIVED = "not-derived"
ASSUMED_DEPTH = "depth-assumed"
BLOCK_DEPTH = 24
"""How many times a block target is stacked when nobody says."""


class Info(Protocol):
    """What the fold needs to know of the target besides facts."""

    @property
    def model_class(self) -> str | None: ...
    @property
    def block(self) -> bool: ...


@dataclass(frozen=True)
class Condition:
    """Something that has to hold for the verdict, and which rules or channels need it."""

    id: str
    text: str
    needed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChannelState:
    """One failure channel: closed by structure, open, or why neither."""

    id: ChannelId
    state: State
    reason: str
    codes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What the whole comes to."""

    verdict: VerdictName
    provisional: bool
    summary: str
    channels: tuple[ChannelState, ...]
    conditions: tuple[Condition, ...]


def fold(facts: Facts, run: RuleRun, info: Info, *, depth_assumed: bool = False) -> Verdict:
    """The verdict on one model. `depth_assumed`: a block target for which nobody said how often it is stacked."""
    opens = [f for f in run.findings if f.outcome.result == "violated" and f.severity == "error"]
    doubts = reasons_not_to_judge(facts)
    name: VerdictName = "unknown" if facts.graph.failure else "unstable" if opens else "unknown" if doubts else "conditional"
    channels = tuple(_channel(facts, run, c) for c in CHANNELS)
    conditions = [Condition(NOT_DERIVED, "not derived: boundedness and degrees", tuple(c.id for c in channels if NOT_DERIVED in c.conditions))]
    if depth_assumed:
        conditions.append(Condition(ASSUMED_DEPTH, f"a block target, assumed to be stacked {BLOCK_DEPTH} times (`--depth N` says how often)"))
    because = lower(opens[0].outcome.message.rstrip(".")) if name == "unstable" else doubts[0] if name == "unknown" else ""
    summary = summarise(facts, info.model_class or "model", block=info.block) + (f"; {because}" if because else "")
    return Verdict(name, True, summary, channels, tuple(conditions))


def reasons_not_to_judge(facts: Facts) -> tuple[str, ...]:
    """Why nothing can be concluded, most basic first; empty when everything on the streams was read."""
    reasons: list[str] = []
    if facts.graph.failure:
        reasons.append("the forward pass did not run to its end")
    if not facts.streams and not facts.graph.failure:
        reasons.append("nothing was found that a branch is added to")
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
    opened = [f for f in fed if f.outcome.result == "violated" and f.severity == "error"]
    if opened:
        return ChannelState(channel, "open", opened[0].outcome.message, codes)
    if channel == "L" and facts.streams and _has_no_softmax(facts):
        return ChannelState(channel, "closed", "no softmax over logits in the whole graph.", codes)
    if channel == "N" and any(s.dtype == "float16" for s in facts.streams):
        return ChannelState(channel, "conditional", "the stream is float16, whose largest value is 65504.", codes, (NOT_DERIVED,))
    if channel in ("O", "I", "N", "S"):
        return ChannelState(channel, "out_of_scope", "no recipe given." + _worry(fed), codes)
    return ChannelState(channel, "unknown", "not derived yet: boundedness and degrees." + _worry(fed), codes, (NOT_DERIVED,))


def _worry(fed: list[Finding]) -> str:
    """The first finding that is not good news, as a sentence to append."""
    bad = [f for f in fed if f.outcome.result in ("violated", "conditional", "cannot_tell")]
    return f" {bad[0].rule.code}: {bad[0].outcome.message}" if bad else ""


def _has_no_softmax(facts: Facts) -> bool:
    if facts.graph.failure or facts.coverage.unmodelled or any(isinstance(s.qk_norm, Unknown) for _, _, s in each_sublayer(facts)):
        return False
    mixing = {"scaled_dot_product_attention", "flex_attention"}
    return not any(CLASSES.get(n.op) == "softmax" or n.op in mixing for n in facts.graph.nodes)


__all__ = [
    "BLOCK_DEPTH", "CHANNELS", "ORDER", "ChannelState", "Condition", "Info", "State", "Verdict", "VerdictName", "fold", "guess_decides", "lower",
    "reasons_not_to_judge", "worst",
]
