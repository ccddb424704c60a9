"""The changes that findings propose, each made on the graph and screened: which channels close or open, and where the learning rate moves.

A change that cannot be made on a graph by a rule of ours is left out: nothing is said of its gain, and nothing is guessed. Each costs one more
analysis of a graph that is there, without torch: 0.1 s of CPU for most models.

Nothing is measured on the changed graph. It is compared with what is derived of the graph as it is, and a channel that only a measurement decides
there, or where less is known of one than of the other, is not compared: what is not known is neither better nor worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from screen.changes import norms, scales
from screen.errors import swallowed
from screen.facts import derive
from screen.facts.claims import claims_of
from screen.facts.claims.claim import ClaimKind, Weights
from screen.facts.record import Facts
from screen.graph.edit import Edit
from screen.recipe import Recipe
from screen.rule import ChannelId, Finding, RuleRun
from screen.structure.types import Unknown
from screen.verdict.channels import CHANNELS, Info, Verdict, VerdictName, fold
from screen.verdict.discover import run_rules
from screen.verdict.risk import Limit, features_of

MOST = 4
"""Changes that are tried: what three findings propose, one of them with two options."""
GRADES: Mapping[str, int] = {"closed": 0, "guarded": 0, "out_of_scope": 0, "conditional": 1, "unknown": 2, "open": 3}
"""States of a channel, from none to be afraid of to failing."""
CLOSED, CONDITIONAL, UNTOLD, OPEN = range(4)
DECIDES: Mapping[ChannelId, tuple[tuple[ClaimKind, Weights], ...]] = {
    "D": (("gradient_law", "start"), ("gradient_ratio", "start"), ("one_minus_cos", "start"), ("rms_ratio", "start")),
    "R": (("growth", "fixed"),),
}
"""Laws and numbers of a stream that open a channel where they are known, and leave it conditional where they are not."""
Known = frozenset[tuple[int, ClaimKind]]
"""Number of a stream and what is known of it."""


@dataclass(frozen=True)
class Change:
    """Something to do to a program."""

    id: str
    words: str
    """What it is, as the beginning of a line."""
    codes: tuple[str, ...]
    """Rules whose findings propose it, where they do not say themselves what does what they propose."""
    make: Callable[[Facts], Edit]


CHANGES = (
    Change("skip-past-norm", "add to the value before the norm", ("G101",), norms.skips_past_norms),
    Change("norms-inside", "norms inside the branches", ("D201", "D101"), norms.norms_inside),
    Change("deepnorm", "α and β of DeepNorm", ("D201", "D102"), scales.deepnorm_scales),
    Change("depth-scaled-init", "the last map of each branch scaled for depth", ("I102",), scales.depth_scaled_maps),
    Change("norms-before", "norms on the inputs of the branches", ("R101", "D202", "L202"), norms.norms_before),
    Change("qk-norm", "norms on queries and keys", ("L201",), norms.qk_norms),
    Change("norms-behind", "norms on what the branches add", ("R201",), norms.norms_behind),
    Change("final-norm", "a norm behind the last block", ("G103",), norms.final_norms),
)


@dataclass(frozen=True)
class Tried:
    """One change, and what screening the changed graph gave under the same recipe."""

    change: Change
    codes: tuple[str, ...]
    """Rules whose findings propose it."""
    remedies: tuple[str, ...]
    """In the words of these findings."""
    verdict: VerdictName
    closes: tuple[ChannelId, ...]
    """Channels that fail, or may, and no longer do."""
    eases: tuple[ChannelId, ...]
    """Channels that are better and not closed."""
    opens: tuple[ChannelId, ...]
    """Channels that are worse."""
    untold: tuple[ChannelId, ...]
    """Channels that may be better or worse: a measurement of the changed program would tell."""
    clears: tuple[str, ...]
    """Rules whose findings that propose it are gone, or hold."""
    before: Limit | None
    """What limits the learning rate; None where it trains at no rate, or the limit is known of the program alone, or of the changed one alone."""
    after: Limit | None


def tried(
    facts: Facts, run: RuleRun, verdict: Verdict, info: Info, recipe: Recipe | None = None, *, depth_assumed: bool = False
) -> tuple[Tried, ...]:
    """What the changes bring that the gravest findings propose, in their order. None where a statement about the model was refuted: of the changed
    one it could not be."""
    changes = dict(islice(proposed(run).items(), MOST))
    if facts.claims.refuted or facts.graph.failure is not None or not changes:
        return ()
    plain = replace(facts, claims=claims_of(facts))
    derived = fold(plain, run_rules(plain), info, recipe, depth_assumed=depth_assumed)
    found = []
    for change, findings in changes.items():
        try:
            edited = change.make(facts).graph()
            if edited == facts.graph:
                continue  # it is there already
            changed = derive(edited, is_block=facts.is_loop)
            if [(s.width, s.depth) for s in changed.streams] != [(s.width, s.depth) for s in facts.streams]:
                continue  # read otherwise than it was meant
            anew = run_rules(changed)
            after = fold(changed, anew, info, recipe, depth_assumed=depth_assumed)
        except norms.NotPossible:
            continue
        except Exception as error:  # a gain is a part of the report that may be missing
            swallowed(f"the change {change.id}", error)
            continue
        rates = _kappas(facts) == _kappas(changed) and verdict.limits == derived.limits
        told = tuple(c for c in CHANNELS if is_told(_grades(c, verdict, derived, after), _known(c, facts, plain, changed)))
        found.append(_compared(change, findings, verdict, after, told, _cleared(findings, anew), rates=rates))
    return tuple(found)


def _cleared(findings: list[Finding], after: RuleRun) -> tuple[str, ...]:
    """The rules of some findings that say nothing of the kind of any of the same branches any more, nor that it cannot be told."""

    def site(finding: Finding) -> tuple[str, str | None, str | None]:
        return finding.rule.code, finding.outcome.site.stream, finding.outcome.site.sublayer

    left = {site(f) for f in after.findings if f.outcome.result in ("violated", "conditional", "cannot_tell")}
    stay = {f.rule.code for f in findings if site(f) in left}
    return tuple(code for code in dict.fromkeys(f.rule.code for f in findings) if code not in stay)


def proposed(run: RuleRun) -> dict[Change, list[Finding]]:
    """The changes that findings with a remedy propose, each with these: what is violated first, notes only where there is nothing else."""
    open_ = [f for f in run.findings if f.outcome.remedy and f.outcome.result in ("violated", "conditional")]
    grave = [f for f in open_ if f.rule.severity != "note"] or open_
    found: dict[Change, list[Finding]] = {}
    for finding in sorted(grave, key=_gravity):
        tries = finding.outcome.tries
        for change in CHANGES:
            if finding.rule.code in change.codes if tries is None else change.id in tries:
                found.setdefault(change, []).append(finding)
    return found


def _gravity(finding: Finding) -> tuple[int, int]:
    return ("violated", "conditional").index(finding.outcome.result), ("error", "warning", "note").index(finding.severity)


def _kappas(facts: Facts) -> list[bool]:
    """Of which streams the first update is known, which a limit of the learning rate may hang on."""
    return [f.kappa is not None for f in features_of(facts)]


def _grades(channel: ChannelId, *each: Verdict) -> Iterator[int]:
    return (GRADES[c.state] for verdict in each for c in verdict.channels if c.id == channel)


def _known(channel: ChannelId, *each: Facts) -> Iterator[Known]:
    """Which of the laws and numbers that open the channel are known, of each."""
    for facts in each:
        asked = [(n, kind, weights, s.name) for n, s in enumerate(facts.streams) for kind, weights in DECIDES.get(channel, ())]
        yield frozenset((n, kind) for n, kind, weights, name in asked if not isinstance(facts.claims.of(kind, weights, name).known, Unknown))


def is_told(grades: Iterable[int], known: Iterable[Known]) -> bool:
    """Whether a channel of the changed graph may be compared: its grade, and what is known, with measurements, without them, and changed."""
    (seen, derived, after), (seen_of, derived_of, after_of) = grades, known
    if after == UNTOLD:
        return seen == UNTOLD
    if after == CLOSED:  # by structure, unless that said the same before and a measurement knew better, or numbers opened it that are not known now
        return seen == CLOSED or (derived != CLOSED and (seen != OPEN or seen_of <= after_of))
    if seen == UNTOLD or seen != derived:
        return False
    if after < seen:
        return derived_of <= after_of
    return after == seen or (after_of <= derived_of if after == OPEN else derived_of <= after_of)


def _compared(
    change: Change, findings: list[Finding], before: Verdict, after: Verdict, told: tuple[ChannelId, ...], clears: tuple[str, ...], *, rates: bool
) -> Tried:
    """The verdict of the changed graph is told where all of its channels are."""
    states = [(c, old, new) for c in told for old, new in [_grades(c, before, after)]]
    return Tried(
        change,
        tuple(dict.fromkeys(f.rule.code for f in findings)),
        tuple(dict.fromkeys(f.outcome.remedy for f in findings)),
        after.verdict if len(told) == len(CHANNELS) else before.verdict,
        closes=tuple(c for c, old, new in states if new == CLOSED < old),
        eases=tuple(c for c, old, new in states if CLOSED < new < old),
        opens=tuple(c for c, old, new in states if new > old),
        untold=tuple(c for c in CHANNELS if c not in told),
        clears=clears,
        before=before.limits[0] if rates and before.limits else None,
        after=after.limits[0] if rates and after.limits else None,
    )


__all__ = ["CHANGES", "Change", "Tried", "is_told", "proposed", "tried"]
