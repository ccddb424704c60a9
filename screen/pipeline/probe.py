"""The probe between its two ends: a request out of plans, and a report with what came back. Nothing is measured here."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from screen.child.protocol import Request
from screen.child.results import Capture, Captured, Progress
from screen.probe.budget.narrower import advised, filled, is_lost, reduced, without_the_rest
from screen.probe.plan.types import WHOLE, Options, ProbePlan, to_json
from screen.report.schema import ExperimentPart, ProbePart, Report

GRACE = 2.0
"""Times the budget after which the wall clock stops the probe."""


def probe_request(request: Request, plans: Mapping[str, ProbePlan], options: Options) -> Request:
    """The same target once more, to be measured. A GPU reserves far more addresses than it uses: there the limit on address space is lifted.

    A sandbox that is not required is lifted there too: what a driver asks of the system is its own affair."""
    may_open_gpu = options.device == "cuda" or (options.device == "auto" and bool(glob.glob("/dev/nvidia[0-9]*")))
    wanted = {"plans": {name: to_json(plan) for name, plan in plans.items()}, "options": asdict(options)}
    seconds = options.seconds * (1 + WHOLE + (1 if options.stress else 0))
    request = replace(request, timeout=request.timeout + GRACE * seconds, probe=wanted)
    return replace(request, memory=0, sandbox="off" if request.sandbox == "auto" else request.sandbox) if may_open_gpu else request


def with_narrower(
    request: Request, measured: Capture, options: Options, capture: Callable[[Request, Progress], Capture], planned: Callable[[Captured], ProbePlan],
    progress: Progress,
) -> Capture:
    """What was measured, with what did not fit at the target's own width measured on a narrower model of the same config, on a plan of its own and
    with a budget of its own. `planned` makes the plan."""
    if measured.error is not None or request.width is not None or len(measured.models) != 1 or not measured.models[0].experiments:
        return measured
    model = measured.models[0]
    device, *found = model.experiments
    if not any(map(is_lost, found)):
        return measured
    sizes = device.get("width") or {"own": 0, "step": 1}
    width = reduced(int(sizes["own"]), int(sizes["step"]))
    ended = None
    if width is None:
        kept = advised(found, "name a narrower model with `--set`")
    else:
        at = replace(request, width=width)
        captured = capture(at, progress)
        if captured.error is not None or captured.models[0].graph is None:
            kept = advised(found, f"not at width {width} either: {captured.error}")
        else:
            plan = without_the_rest(planned(captured.models[0]), found)
            again = capture(probe_request(at, {model.name: plan}, replace(options, stress=False)), progress)
            ended = again.error
            kept = filled(found, again.models[0].experiments[1:] if again.models else (), width, int(sizes["own"]))
    return replace(measured, error=ended, models=(replace(model, experiments=(device, *map(dict, kept))),))


def with_probe(report: Report, measured: Capture, name: str, options: Options) -> Report:
    """The report with what was measured of one of its target's models. A refuted prediction makes the verdict `unknown`."""
    model = next((m for m in measured.models if m.name == name), None)
    device, *found = model.experiments if model is not None and model.experiments else ({"device": options.device, "dtype": "float64"},)
    parts = [_experiment(e) for e in found]
    if report.probe is None and measured.error is not None and not parts:
        parts = [ExperimentPart(name="probe", what="everything", outcome="not_measured", reason=str(measured.error))]
    counts = Counter(p.outcome for p in parts)
    probe = ProbePart(
        device=str(device["device"]), dtype=str(device["dtype"]), seed=options.seed, experiments=parts,
        plan={"seconds": options.seconds, **{o: counts[o] for o in ("confirmed", "refuted", "not_measured", "not_applicable", "observed")}},
        interrupted=str(measured.error) if measured.error is not None else None,
    )  # fmt: skip
    _enter_degrees(report, parts)
    refuted = [p for p in parts if p.outcome == "refuted"]
    if not refuted:
        return report.model_copy(update={"probe": probe})
    return report.model_copy(update={"probe": probe, "verdict": "unknown", "summary": _refusal(report, refuted)})


def _refusal(report: Report, refuted: list[ExperimentPart]) -> str:
    first = refuted[0]
    where = " ".join(w for w in (first.kind, first.sublayer, first.group) if w)
    more = f" and {len(refuted) - 1} more" if len(refuted) > 1 else ""
    return f"{report.target.spec}: not judged, the probe refuted a prediction ({first.what} of {where}: {first.reason}){more}; please report this"


def _experiment(found: Mapping[str, Any]) -> ExperimentPart:
    agrees = {"confirmed": True, "refuted": False}.get(str(found["outcome"]))
    empty = {key: found[key] or None for key in ("stream", "kind", "sublayer", "group")}
    return ExperimentPart.model_validate({**found, **empty, "agrees": agrees})


def _enter_degrees(report: Report, parts: list[ExperimentPart]) -> None:
    """Measured exponents beside the predicted ones."""
    slopes = {(p.stream, p.kind, p.sublayer, p.group): p.measured for p in parts if p.name == "invariance"}
    for stream in report.streams:
        for kind in stream.kinds:
            for sublayer in kind.sublayers:
                degrees = sublayer.degrees or {}
                for group, degree in list(degrees.items()):
                    value = slopes.get((stream.name, kind.id, sublayer.name, group))
                    degrees[group] = degree.model_copy(update={"measured": value if isinstance(value, int | float) else None})


__all__ = ["probe_request", "with_narrower", "with_probe"]
