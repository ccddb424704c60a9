"""The page of a run, `docs/soundness.md`."""

from __future__ import annotations

import platform
from collections.abc import Iterable

import torch

from tests.shared import ROOT
from tests.soundness.mutations import recorded, table
from tests.soundness.record import Record
from tests.soundness.shards import Plan
from tests.soundness.trial import TOLERANCE

SCORES = ROOT / "tests" / "adversary" / "SCORES.md"
HEAD = """\
# Soundness of the bounds

Written by `python -m tests.soundness --write`; do not edit.

Random residual blocks (`tests/soundness/grammar.py`) with weights over ten orders of magnitude are attacked through their inputs by gradient
ascent. What is measured is always a lower bound of the quantity that a bound speaks of. Beside the bounds of whole
branches, the facts of every node are compared with its value and with its derivative in a random direction, and every rule is asked by itself, with
measured norms in place of what it reads. Beside the numbers stand sentences about whole streams (`tests/soundness/sentences.py`): where R301
says that a stream keeps its size or grows at most linearly, whatever the weights or at fixed ones, its gain at 10⁸ times an input (and 10³ times
all matrices) may be a hundred times that at 10⁴ times it; where D202 says that gradients follow a power of depth, the logarithm of the gradient
(median of five draws) may gain from 32 blocks to 128 twice what it gains from 8 to 32, and 4; and blocks of one kind, for which bounds are derived
once, must have the same bounds.
A violation is `measured > bound · (1 + {tolerance:g} · ops)`, where
`ops` counts the ops on the path, in float64. **A bound is a statement about real arithmetic**: rounding may exceed it by the tolerance, and
overflow is no sample, nor is a norm of values that are equal up to rounding; both are counted.
"""


def page(plan: Plan, total: Record, structures: int, seconds: float) -> str:
    """The page as Markdown."""
    parts = [HEAD.format(tolerance=TOLERANCE), _counts(plan, total, structures, seconds), _slack(total), _unknown(total)]
    parts += [_listed("Violations", (str(v) for v in total.violations)), _listed("Errors of the run", total.errors)]
    parts += [table(recorded()), SCORES.read_text(encoding="utf-8")]
    return "\n".join(p for p in parts if p)


def _counts(plan: Plan, total: Record, structures: int, seconds: float) -> str:
    done = structures if structures == plan.structures else f"{structures} of {plan.structures} planned"
    rows = [
        ("distinct structures", done),
        ("draws of each", plan.draws),
        ("trials", total.trials),
        ("ascent steps in a trial", plan.steps),
        ("comparisons of a measured value with a bound", sum(total.checks.values())),
        ("**violations**", len(total.violations)),
        ("points that overflowed", total.overflows),
        ("points left out because a norm or a softmax reads values that are equal up to rounding", total.rounded),
        ("errors of the run", len(total.errors)),
        ("seed", plan.seed),
        ("minutes of one core", f"{seconds / 60:.0f}"),
        ("torch", torch.__version__),
        ("Python", platform.python_version()),
    ]
    return "\n".join(["", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), ""])


def _slack(total: Record) -> str:
    head = "| bound | branches with it | comparisons | smallest bound / measured | in the design |"
    lines = ["## How close the attack came", "", head, "|---|---|---|---|---|"]
    for kind in sorted(k for k in total.checks):
        least, design = total.slack.get(kind, (float("inf"), ""))
        closest = f"{least:.6g} | `{design.replace(chr(124), chr(47))}`" if design else "– | –"
        lines.append(f"| {kind} | {total.known.get(kind, '–')} | {total.checks[kind]} | {closest} |")
    claims = ", ".join(f"{k.removeprefix('bounded is ')}: {n}" for k, n in sorted(total.known.items()) if k.startswith("bounded is"))
    lines += ["", f"Branches whose set of outputs over all weights is bounded: {claims}."]
    return "\n".join([*lines, ""])


def _unknown(total: Record) -> str:
    lines = ["## What is unknown, and why", "", "| bound: reason | branches |", "|---|---|"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(total.unknown.items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join([*lines, ""])


def _listed(title: str, items: Iterable[str]) -> str:
    found = list(items)
    if not found:
        return ""
    more = [f"* and {len(found) - 50} more"] if len(found) > 50 else []
    return "\n".join([f"## {title}", "", *(f"* `{i}`" for i in found[:50]), *more, ""])
