"""The changes that findings propose, each made on the graph and screened: which channels close or open, and where the learning rate moves.

A change that cannot be made on a graph by a rule of ours is left out: nothing is said of its gain, and nothing is guessed. Each costs one more
analysis of a graph that is there, without torch: 0.1 s of CPU for most models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from screen.changes import norms, scales
from screen.errors import swallowed
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph.edit import Edit
from screen.recipe import Recipe
from screen.rule import ChannelId, Finding, RuleRun
from screen.verdict.channels import Info, Verdict, VerdictName, fold
from screen.verdict.discover import run_rules
from screen.verdict.risk import Limit, features_of

MOST = 4
"""Changes that are tried: what three findings propose, one of them with two options."""
GRADES: Mapping[str, int] = {"closed": 0, "guarded": 0, "out_of_scope": 0, "conditional": 1, "unknown": 2, "open": 3}
"""States of a channel, from none to be afraid of to failing."""


@dataclass(frozen=True)
class Change:
    """Something to do to a program."""

    id: str
    words: str
    """What it is, as the beginning of a line."""
    codes: tuple[str, ...]
    """Rules whose findings propose it."""
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
    verdict: VerdictName
    closes: tuple[ChannelId, ...]
    """Channels that fail, or may, and no longer do."""
    eases: tuple[ChannelId, ...]
    """Channels that are better and not closed."""
    opens: tuple[ChannelId, ...]
    """Channels that are worse."""
    before: Limit | None
    """What limits the learning rate; None where it trains at no rate, or the limit is known of the program alone, or of the changed one alone."""
    after: Limit | None


def tried(
    facts: Facts, run: RuleRun, verdict: Verdict, info: Info, recipe: Recipe | None = None, *, depth_assumed: bool = False
) -> tuple[Tried, ...]:
    """What the changes bring that the gravest findings propose, in their order. None where a statement about the model was refuted: of the changed
    one it could not be."""
    if facts.claims.refuted or facts.graph.failure is not None:
        return ()
    found = []
    for change in proposed(run)[:MOST]:
        try:
            edited = change.make(facts).graph()
            changed = derive(edited, is_block=facts.is_loop)
            if [(s.width, s.depth) for s in changed.streams] != [(s.width, s.depth) for s in facts.streams]:
                continue  # read otherwise than it was meant
            after = fold(changed, run_rules(changed), info, recipe, depth_assumed=depth_assumed)
        except norms.NotPossible:
            continue
        except Exception as error:  # a gain is a part of the report that may be missing
            swallowed(f"the change {change.id}", error)
            continue
        found.append(_compared(change, verdict, after, rates=_kappas(facts) == _kappas(changed)))
    return tuple(found)


def proposed(run: RuleRun) -> tuple[Change, ...]:
    """The changes that findings with a remedy propose: what is violated first, notes only where there is nothing else."""
    open_ = [f for f in run.findings if f.outcome.remedy and f.outcome.result in ("violated", "conditional")]
    grave = [f for f in open_ if f.rule.severity != "note"] or open_
    codes = dict.fromkeys(f.rule.code for f in sorted(grave, key=_gravity))
    return tuple(dict.fromkeys(change for code in codes for change in CHANGES if code in change.codes))


def _gravity(finding: Finding) -> tuple[int, int]:
    return ("violated", "conditional").index(finding.outcome.result), ("error", "warning", "note").index(finding.severity)


def _kappas(facts: Facts) -> list[bool]:
    """Of which streams the first update is known, which a limit of the learning rate may hang on."""
    return [f.kappa is not None for f in features_of(facts)]


def _compared(change: Change, before: Verdict, after: Verdict, *, rates: bool) -> Tried:
    """Nothing is measured on the changed graph: a channel that is unknown there, and was told by a measurement, is not compared."""
    both = zip(before.channels, after.channels, strict=True)
    pairs = [(one, other) for one, other in both if other.state != "unknown" or one.state == "unknown"]
    states = [(one.id, GRADES[one.state], GRADES[other.state]) for one, other in pairs]
    return Tried(
        change,
        after.verdict if len(pairs) == len(before.channels) else before.verdict,
        closes=tuple(c for c, old, new in states if new == 0 < old),
        eases=tuple(c for c, old, new in states if 0 < new < old),
        opens=tuple(c for c, old, new in states if new > old),
        before=before.limits[0] if rates and before.limits else None,
        after=after.limits[0] if rates and after.limits else None,
    )


__all__ = ["CHANGES", "Change", "Tried", "proposed", "tried"]
