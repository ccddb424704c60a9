"""The designs of `examples/table` trained over learning rates (`screen probe … --stress`), all at one depth, width and start: a Markdown table.

python -m tests.probe.stress [DESIGN…]
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from screen.capture.build.build import build
from screen.capture.trace.tracer import run
from screen.child.protocol import Request
from screen.child.real import real
from screen.graph.target import parse
from screen.probe.budget.budget import Budget
from screen.probe.measure.leaves import Watch
from screen.probe.measure.session import Session
from screen.probe.plan.types import Options, ProbePlan
from screen.probe.run import _settled
from screen.probe.stress.sweep import stress

TARGET = "examples/table/designs.py::GPT"
SIZES = {"depth": 6, "dim": 32}
ALPHA, BETA = 12**0.25, 48**-0.25
"""DeepNorm's (2N)^(1/4) and (8N)^(-1/4) at 6 blocks."""
DESIGNS: dict[str, dict[str, Any]] = {
    "pre": {"norms": "A"},
    "post": {"norms": "C", "final_norm": False},
    "post, start × ½": {"norms": "C", "gain": 0.5, "final_norm": False},
    "peri": {"norms": "AB"},
    "DeepNorm": {"norms": "C", "alpha": ALPHA, "beta": BETA, "final_norm": False},
    "none": {"norms": "", "final_norm": False},
    "ReZero": {"norms": "", "rezero": True, "final_norm": False},
    "B + QK-norm": {"norms": "B", "qk_norm": True},
    "peri + QK-norm": {"norms": "AB", "qk_norm": True},
    "B": {"norms": "B"},
    "pre + QK-norm": {"norms": "A", "qk_norm": True},
}
SECONDS = 60.0
"""Of counted work: 100 steps, two seeds, both schedules."""


def measured(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What `screen probe --stress` says of one design, without the other experiments."""
    request = Request(TARGET, {**SIZES, **settings})
    built = build(parse(TARGET), set=request.set, inputs=(), depth=None)[0]
    session = Session(run(built.model, built.args, built.kwargs), built, Watch(), Options(0, "cpu", SECONDS), Budget(SECONDS, 0, "cpu"))
    with _settled():
        return [asdict(e) for e in stress(ProbePlan(0, "", ()), session, partial(real, request, built))]


def row(found: list[dict[str, Any]], schedule: str) -> list[str]:
    """Largest rate that learns, largest stable one, and the lowest final loss."""
    here = [e for e in found if e["what"].split(", ")[-1].startswith(schedule)]
    cells = []
    for what in ("largest learning rate that learns", "largest stable"):
        limit = next((e for e in here if e["what"].startswith(what)), None)
        ends = [f"{v:.2g}" if isinstance(v, float) else v for v in limit["interval"]] if limit else []
        cells.append(f"{limit['measured']:.2g} [{', '.join(ends)}]" if limit else "–")
    finals = [e["measured"] for e in here if e["what"].startswith("final") and isinstance(e["measured"], float)]
    return [*cells, f"{min(finals):.3g}" if finals else "–"]


def main() -> None:
    """One line for each design, as soon as it is done."""
    print("| design | learns, warm-up | stable, warm-up | best loss | learns, no warm-up | stable, no warm-up | best loss |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or DESIGNS:
        found = measured(DESIGNS[name])
        print("| " + " | ".join([name, *row(found, "warm-up"), *row(found, "no warm-up")]) + " |", flush=True)


if __name__ == "__main__":
    main()
