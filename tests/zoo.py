"""The labelled zoo: build each model on meta, derive its facts, and score them against labels read by hand.

    python -m tests.zoo                       # all labels, two processes, a table at the end
    python -m tests.zoo --only gpt2,llama -v  # some, with what was found beside what was expected

`tests/whole/test_zoo.py` runs the same as tests.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from tests.shared import ROOT
from tests.zoo_score import OTHERS, PLACEMENTS, Label, Score, disputes, expected, labels, score, text, tri


@dataclass
class Row:
    """One label with its scores, or with the error that kept it from being scored."""

    id: str
    scores: list[Score] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0
    stray: list[str] = field(default_factory=list)
    """Placements that occur, though neither the label nor its list of layers names them: shown, not scored."""
    text: str = ""
    verdict: str = ""
    channels: str = ""
    """States of R, D and L."""
    reason: str = ""
    """Of a verdict `unstable` or `unknown`."""
    faults: list[str] = field(default_factory=list)
    """Exceptions of ours, in rules and calculi, and statements of the report that contradict each other."""


def judge(row: Row, facts: Any) -> None:
    """The verdict on the label's model, and what went wrong on our side."""
    from screen.calculi.analysis import FAULT
    from screen.report.build import Request, assemble
    from screen.verdict.channels import fold
    from screen.verdict.discover import run_rules
    from tests.contradictions import contradictions
    from tests.handmade import TargetInfo

    ran = run_rules(facts)
    verdict = fold(facts, ran, TargetInfo())
    states = {c.id: c for c in verdict.channels}
    row.verdict, row.channels = verdict.verdict, " ".join(f"{c} {states[c].state}" for c in "RDL")
    named = {"unstable": "open", "unknown": "unknown"}.get(verdict.verdict)
    row.reason = next((c.reason for c in verdict.channels if c.state == named), verdict.summary if named else "")
    reasons = [*facts.recursions, *(w for a in facts.analyses.values() for w in (a.degrees.unknown, a.bounds.magnitude, a.bounds.bounded))]
    row.faults = [f"{n.rule}: {n.reason}" for n in ran.not_run]
    row.faults += [why.reason for why in reasons if getattr(why, "reason", "").startswith(FAULT)]
    row.faults += contradictions(assemble(facts, ran, verdict, TargetInfo(), Request(row.id)))


def facts_of(label: Label) -> Any:
    """Build the label's target on meta, trace it, derive its facts."""
    from screen.capture.build.build import build
    from screen.capture.trace.tracer import trace
    from screen.facts import derive
    from screen.graph.target import parse

    [built] = build(parse(label["target"]), set=label["config_overrides"], inputs=(), depth=None)
    return derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))


def describe(facts: Any) -> str:
    """The facts in a few lines, for a person."""
    lines = []
    for stream in facts.streams:
        ends = f"embed_norm={tri(stream.embed_norm)} final_norm={tri(stream.final_norm)}"
        lines.append(f"    {stream.name} ({stream.role}) depth={stream.depth} width={stream.width} {ends} identity={stream.identity.gain}")
        for kind in stream.kinds:
            lines.append(f"      {kind.id} ×{kind.count} {kind.layers} {kind.module}")
            for s in kind.sublayers:
                lines.append(
                    f"        {s.name}: {s.role} {s.placement} {''.join(s.positions)} qk={text(s.qk_norm)} maps={text(s.m.maps)} "
                    f"α={s.alpha.kind}:{s.alpha.value} s={s.branch.kind}:{s.branch.value} ∥={s.parallel_group} "
                    f"{s.place.file.rsplit('/', 1)[-1]}:{s.place.line}" + "".join(f" ?{u.reason}" for u in s.unknown)
                )
    failure = facts.graph.failure
    lines += [f"    FAILED {failure.file}:{failure.line} {failure.message}"] if failure else []
    lines += [f"    no row: {u.op}×{u.count}{' on stream' if u.on_stream else ''} {u.place.file}:{u.place.line}" for u in facts.coverage.unmodelled]
    return "\n".join(lines)


def run(label: Label, verbose: bool = False) -> Row:
    """One label, with every exception caught and put into its row."""
    row = Row(label["id"])
    begin = time.perf_counter()
    try:
        facts = facts_of(label)
        row.scores, row.stray = score(label, facts)
        judge(row, facts)
        row.text = describe(facts) if verbose else ""
        if facts.graph.failure is not None:  # the report says `unknown` then: whatever is not right is not told
            row.error = f"forward failed: {facts.graph.failure.message}"
            dispute = disputes().get(label["id"], {}).get("forward")
            cannot_run = dispute is not None and dispute["found"] in facts.graph.failure.message
            row.error = "" if cannot_run else row.error
            result = "right" if cannot_run else "unknown"
            row.scores = [s if s.result == "right" else replace(s, result=result, disputed=cannot_run) for s in row.scores]
    except Exception as error:  # any fault of the code under test is a row of the table, not the end of it
        row.error = traceback.format_exc() if verbose else f"{type(error).__name__}: {error}".replace("\n", " ")
    row.seconds = time.perf_counter() - begin
    return row


def counts(rows: Iterable[Row], fields: Iterable[str]) -> collections.Counter[str]:
    """How many scores of these fields have which result; an unscored label counts as an error in each field that it has."""
    total: collections.Counter[str] = collections.Counter()
    wanted = set(fields)
    by_id = {label["id"]: label for label in labels()}
    for row in rows:
        total.update(s.result for s in row.scores if s.field in wanted)
        if not row.scores:
            total["error"] += sum(expected(by_id[row.id], name) is not None for name in wanted)
    return total


def line(row: Row) -> str:
    """One label, when something about it is not right or not asked for; else empty."""
    bad = [s for s in row.scores if s.result != "right"]
    if not (bad or row.error or row.stray or row.faults):
        return ""
    shown = ", ".join(f"{s.field}: {s.expected} expected, {s.found} found [{s.result}]" for s in bad)
    stray = f" (also {', '.join(row.stray)})" if row.stray else ""
    return f"{row.id:32} {row.seconds:5.1f} s  " + "  ".join(filter(None, (f"{shown}{stray}", row.error, *row.faults)))


def table(rows: list[Row]) -> str:
    """Every label that is not right in all fields, then one line per field."""
    lines = [*filter(None, map(line, rows))]
    lines.append(f"{'field':14} {'right':>6} {'wrong':>6} {'unknown':>8} {'missing':>8} {'error':>6} {'share':>8}")
    for name, fields in [("placements", PLACEMENTS), *((n, (n,)) for n in (*PLACEMENTS, *OTHERS))]:
        c = counts(rows, fields)
        share = c["right"] / total if (total := sum(c.values())) else 1.0
        lines.append(f"{name:14} {c['right']:6} {c['wrong']:6} {c['unknown']:8} {c['missing']:8} {c['error']:6} {share:8.1%}")
    disputed = sum(s.disputed for row in rows for s in row.scores)
    lines.append(f"{len(rows)} labels, {sum(r.seconds for r in rows):.0f} s of work, {disputed} fields right by a recorded dispute")
    return "\n".join(lines)


def page(rows: list[Row]) -> str:
    """docs/zoo.md: how many of each verdict, and every model that is unstable or unknown with its reason."""
    total = collections.Counter(row.verdict for row in rows)
    told = [row for row in sorted(rows, key=lambda r: r.id) if row.verdict in ("stable", "unstable", "unknown")]
    lines = ["# Verdicts on the labelled architectures", "", "Written by `python -m tests.zoo --write`; do not edit.", ""]
    lines += ["Default configurations of `transformers`, without a recipe. Not every published model starts as its class does by default.", ""]
    lines += ["| verdict | models |", "|---|---|", *(f"| {name} | {total[name]} |" for name in ("stable", "conditional", "unknown", "unstable"))]
    lines += ["", "MobileBERT's blocks hold no norm: its `NoNorm` is a gain and a bias. It was trained by distillation from a teacher with norms."]
    lines += ["", "| model | verdict | channels | reason |", "|---|---|---|---|"]
    lines += [f"| {r.id} | {r.verdict} | {r.channels} | {r.reason.replace('|', '/')} |" for r in told]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """The command line; exit 0 when every field of every label is right."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="ids, comma separated; an id before `#` stands for all its variants")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the facts of each label, and tracebacks")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the verdicts to docs/zoo.md")
    options = parser.parse_args(argv)
    chosen = labels(filter(None, options.only.split(",")))
    os.environ.setdefault("TRANSFORMERS_DISABLE_TORCH_CHECK", "1")
    rows: list[Row] = []
    if options.jobs == 1 or len(chosen) == 1:
        rows = [run(label, options.verbose) for label in chosen]
    else:
        with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            for row in pool.map(run, chosen, [options.verbose] * len(chosen)):
                rows.append(row)
                if options.verbose:
                    print(f"{row.id}\n{row.text}", flush=True)
                elif text := line(row):
                    print(text, file=sys.stderr, flush=True)
    if options.verbose and len(rows) == 1:
        print(f"{rows[0].id}\n{rows[0].text}")
    print(table(rows))
    if options.write:
        (ROOT / "docs" / "zoo.md").write_text(page(rows), encoding="utf-8")
    return int(any(row.error or any(s.result != "right" for s in row.scores) for row in rows))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
