"""Scores reports on adversarial blocks: blocks in styles of their own, each with its truth by mathematics and by float64 measurement.

    python -m tests.adversary.score                      # all rounds
    python -m tests.adversary.score round1 --verbose     # one of them, every difference

A claim is *false* where it is known, was not refuted, and contradicts the truth; *missed* where the truth is known and the claim is not.
A claim of at most linear growth for a stream that is bounded is neither. A channel is falsely closed where the truth says that what it
stands for fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import screen
from screen.errors import ScreenError
from screen.report.schema import ClaimPart, Report

HERE = Path(__file__).parent
DEPTH = 24
GROWTH = ("bounded", "linear", "polynomial", "exponential")
NEAR = 0.02
"""Relative difference up to which two gains are one."""


@dataclass
class Score:
    """What was found on some blocks."""

    blocks: int = 0
    false: dict[str, list[str]] = field(default_factory=dict)
    missed: dict[str, list[str]] = field(default_factory=dict)
    right: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    open: dict[str, list[str]] = field(default_factory=dict)
    """Block -> channels that are unknown, or not closed though the truth says that they are."""

    def note(self, block: str, what: str, told: object, truth: object, verdict: str) -> None:
        """One comparison."""
        if verdict == "right":
            self.right[what.partition(" ")[0]] += 1
        else:
            table = self.false if verdict == "false" else self.missed
            table.setdefault(block, []).append(f"{what}: said {told}, is {truth}")


def files(name: str | None) -> list[Path]:
    """The files of one round, or of all."""
    found = sorted(HERE.glob(f"{name or 'round*'}/*.py"), key=lambda p: (len(p.parent.name), p))  # the tenth behind the ninth
    return [p for p in found if not p.name.startswith(("check_", "_"))]


def truths(path: Path) -> dict[str, dict[str, Any]]:
    """The truth of every block of a file."""
    spec = importlib.util.spec_from_file_location(f"adversary_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, dict[str, Any]] = module.TRUTH
    return found


def report_of(path: Path, name: str, truth: dict[str, Any]) -> Report:
    """The report on one block, in this process."""
    depth = DEPTH if truth["kind"] == "block" else None
    return screen.check(f"{path}::{name}", depth=depth, isolate=False)


def score(paths: list[Path], only: str = "") -> Score:
    """All blocks of some files."""
    total = Score()
    for path in paths:
        for name, truth in truths(path).items():
            if only and only != name:
                continue
            total.blocks += 1
            block = f"{path.parent.name}/{path.stem}::{name}"
            print(f"\r{total.blocks:4} {block:70}", end="", file=sys.stderr, flush=True)
            try:
                report = report_of(path, name, truth)
            except ScreenError as error:
                total.errors.append(f"{block}: {error}")
                continue
            for what, told, is_, verdict in compared(report, truth):
                total.note(block, what, told, is_, verdict)
            if left := list(left_open(report, truth)):
                total.open[block] = left
    return total


def compared(report: Report, truth: dict[str, Any]) -> Iterator[tuple[str, object, object, str]]:
    """(what, said, is, right|false|missed|loose) for everything that the truth says."""
    known = {c.id: c for c in report.claims}
    if truth.get("identity_gain") is not None:
        yield _gain(_of(report, "identity_gain", "start"), truth["identity_gain"])
    if truth.get("gated"):
        claim = _of(report, "identity_gain", "start")
        yield "identity_gain", claim and claim.value, "made from the data", "false" if _usable(claim) else "right"
    for key, weights in (("growth_fixed", "fixed"), ("growth_all", "all")):
        if truth.get(key) is not None:
            yield _growth(_of(report, "growth", weights), key, truth[key])
    if truth.get("gradient_law") is not None:
        yield _value(_of(report, "gradient_law", "start"), "gradient_law", truth["gradient_law"])
    for key in ("output_bounded", "logits_bounded"):
        for branch, answer in (truth.get(key) or {}).items():
            if answer is not None:
                yield _value(_branch(report, key, int(branch)), f"{key} {branch}", answer)
    if truth.get("softmax") is not None:
        graph = next((c for c in known.values() if c.claim == "softmax" and c.sublayer is None), None)
        yield _value(graph, "softmax", truth["softmax"])
    if truth.get("depth") is not None:
        yield _depth(report, truth["depth"])
    yield from _channels(report, truth)


def _usable(claim: ClaimPart | None) -> bool:
    return claim is not None and claim.status != "unknown" and claim.value is not None and not (claim.measured and claim.measured.agrees is False)


def _of(report: Report, claim: str, weights: str) -> ClaimPart | None:
    whole = next((c for c in report.claims if c.claim == claim and c.weights == weights and c.stream is None), None)
    if whole is not None:  # truths are about the model
        return whole
    main = {s.name for s in report.streams if s.role != "inner"}
    found = [c for c in report.claims if c.claim == claim and c.weights == weights and c.stream in main]
    return max(found, key=_rank, default=None)


def _rank(claim: ClaimPart) -> float:
    """Of several streams the one that says the most."""
    if claim.claim == "growth" and isinstance(claim.value, str):
        return GROWTH.index(claim.value) + 1
    if isinstance(claim.value, float):
        return abs(math.log(claim.value)) + 1 if claim.value > 0 else math.inf
    return 0


def _branch(report: Report, claim: str, place: int) -> ClaimPart | None:
    """The claim about one branch of the first kind, by its place among all that the report has; behind these about what is summed beside a stream."""
    order = [(s.name, k.id, b.name) for s in report.streams for k in s.kinds for b in k.sublayers]
    if place >= len(order):
        beside = [c for c in report.claims if c.claim == claim and c.stream is not None and c.sublayer is None]
        return beside[place - len(order)] if place - len(order) < len(beside) else None
    found = [c for c in report.claims if c.claim == claim and (c.stream, c.kind, c.sublayer) == order[place]]
    return found[0] if found else None


def _gain(claim: ClaimPart | None, truth: float) -> tuple[str, object, object, str]:
    if claim is None or not _usable(claim) or not isinstance(claim.value, float):
        return "identity_gain", claim and claim.reason, truth, "missed"
    near = abs(claim.value - truth) <= NEAR * max(abs(truth), abs(claim.value))
    return "identity_gain", claim.value, truth, "right" if near else "false"


def _growth(claim: ClaimPart | None, what: str, truth: str) -> tuple[str, object, object, str]:
    if claim is None or not _usable(claim):
        return what, claim and claim.reason, truth, "missed"
    said, is_ = GROWTH.index(str(claim.value)), GROWTH.index(truth)
    loose = (said, is_) == (1, 0)
    return what, claim.value, truth, "right" if said == is_ or loose else "false"


def _value(claim: ClaimPart | None, what: str, truth: object) -> tuple[str, object, object, str]:
    if claim is None or not _usable(claim):
        return what, claim and claim.reason, truth, "missed"
    return what, claim.value, truth, "right" if claim.value == truth else "false"


def _depth(report: Report, truth: int) -> tuple[str, object, object, str]:
    """Of a whole model; all of its blocks as the branches of one are told in other words, and the depth is missed."""
    held = max((sum(k.count * len(k.sublayers) for k in s.kinds) for s in report.streams if s.role != "inner"), default=0)
    said = report.target.depth
    return "depth", said, truth, "right" if said == truth else "missed" if said is None or held >= truth else "false"


def _channels(report: Report, truth: dict[str, Any]) -> Iterator[tuple[str, object, object, str]]:
    """Channels that are closed and must not be, and verdicts that cannot be."""
    states = {c.id: c.state for c in report.channels}
    outputs, logits = (truth.get("output_bounded") or {}).values(), (truth.get("logits_bounded") or {}).values()
    bad = {
        "D": truth.get("gradient_law") == "exponential",
        "R": truth.get("growth_fixed") in GROWTH[2:] or (False in outputs and truth.get("growth_all") not in GROWTH[:2]),
        "L": False in logits,
    }
    for channel, fails in bad.items():
        if fails:
            yield f"channel {channel}", states.get(channel), "not closed", "false" if states.get(channel) == "closed" else "right"
    if any(bad.values()):
        yield "verdict", report.verdict, "not stable", "false" if report.verdict == "stable" else "right"
    fine = truth.get("gradient_law") in ("flat", "power") and truth.get("growth_fixed") in ("bounded", "linear")
    if fine:
        yield "verdict", report.verdict, "not unstable", "false" if report.verdict == "unstable" else "right"


def left_open(report: Report, truth: dict[str, Any]) -> Iterator[str]:
    """Channels of which nothing is known, and those whose proof was missed."""
    gain, logits = truth.get("identity_gain"), list((truth.get("logits_bounded") or {}).values())
    proven = {
        "D": truth.get("gradient_law") in ("flat", "power") and gain is not None and 0.5 <= gain <= 2.0,
        "R": truth.get("growth_all") in GROWTH[:2],
        "L": truth.get("softmax") is False or (bool(logits) and all(logits)),
    }
    for channel in report.channels:
        if channel.id in proven and (channel.state == "unknown" or (proven[channel.id] and channel.state not in ("closed", "guarded"))):
            yield f"{channel.id} is {channel.state}: {channel.reason}"


def main() -> None:
    """Scores rounds and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("round", nargs="?")
    parser.add_argument("--only", default="", help="one block")
    parser.add_argument("--file", default="", help="one file of the round")
    parser.add_argument("--verbose", action="store_true", help="what is missed, too")
    given = parser.parse_args()
    total = score([p for p in files(given.round) if given.file in p.name], given.only)
    for title, table in (("FALSE", total.false), *((("missed", total.missed), ("open", total.open)) if given.verbose else ())):
        for block, lines in table.items():
            for line in lines:
                print(f"{title:7}{block}  {line}")
    for line in total.errors:
        print("ERROR  ", line)
    right = sum(total.right.values())
    print(f"{total.blocks} blocks: {len(total.false)} with a false claim, {len(total.missed)} with one missed,", end=" ")
    print(f"{len(total.open)} with a channel left open, {right} claims right, {len(total.errors)} errors")


if __name__ == "__main__":
    main()
