"""Models that the probe is run over: architectures of `transformers`, the examples, the design table, and the labelled zoo, all at small widths."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.probe.common import measured
from tests.shared import ROOT
from tests.test_replay import SMALL, TYPES
from tests.zoo_score import LABELS, labels

TABLE = ROOT / "examples" / "table" / "designs.py"


@dataclass(frozen=True)
class Subject:
    """One model."""

    name: str
    target: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class Result:
    """What came out, or the error that kept a model from being measured."""

    name: str
    found: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""


def small(kind: str) -> dict[str, Any]:
    """The settings that make a type small."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind]()
    return {k: v for k, v in SMALL.items() if isinstance(getattr(config, k, None), int) and k not in getattr(config, "attribute_map", {})}


def architectures() -> Iterator[Subject]:
    """Types whose small configs are known to replay."""
    for kind in TYPES:
        yield Subject(kind, f"hf:{kind}", small(kind))


def examples() -> Iterator[Subject]:
    """Every example."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield Subject(f"examples/{path.stem}", f"examples/{path.name}")


def designs() -> Iterator[Subject]:
    """Every row of the design table."""
    spec = importlib.util.spec_from_file_location("designs", TABLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, made in vars(module).items():
        if callable(made) and getattr(made, "__module__", "") == "designs" and not isinstance(made, type) and not name.startswith("_"):
            yield Subject(f"table/{name}", f"{TABLE}::{name}")


def labelled() -> Iterator[Subject]:
    """Labels of the zoo of types that are not among `TYPES`, where the labels are at hand."""
    from transformers import CONFIG_MAPPING

    for label in labels() if LABELS.exists() else ():
        kind = label["target"].split(":")[1]
        if kind not in TYPES and kind in CONFIG_MAPPING:
            yield Subject(f"label/{label['id']}", label["target"], {**small(kind), **label["config_overrides"]})


GROUPS = {"architectures": architectures, "examples": examples, "table": designs, "labels": labelled}


def run(subject: Subject) -> Result:
    """One model; an exception is its result."""
    try:
        return Result(subject.name, measured(subject.target, **subject.settings))
    except Exception as error:  # a settings' combination that the library does not build
        text = str(error).strip().splitlines()
        return Result(subject.name, error=f"{type(error).__name__}: {text[0][:120] if text else ''}")


def experiment(e: dict[str, Any]) -> str:
    """`invariance exact`, `bounds magnitude`, …"""
    return " ".join(w for w in (e["name"], e["status"] if e["name"] == "invariance" else e["what"] if e["name"] == "bounds" else "") if w)


OUTCOMES = ("confirmed", "refuted", "not_measured", "not_applicable", "observed")


def table(results: Iterable[Result]) -> list[str]:
    """Outcomes by experiment, disagreements, and why something was not measured."""
    found = [(r.name, e) for r in results for e in r.found]
    counts = Counter((experiment(e), e["outcome"]) for _, e in found)
    lines = ["| experiment | " + " | ".join(o.replace("_", " ") for o in OUTCOMES) + " |", "|---|" + "---|" * len(OUTCOMES)]
    lines += [f"| {kind} | " + " | ".join(str(counts[kind, o]) for o in OUTCOMES) + " |" for kind in sorted({kind for kind, _ in counts})]
    lines += ["", "Disagreements:", *(f"* {name}: {_line(e)}" for name, e in found if e["outcome"] == "refuted")]
    why = Counter((experiment(e), e["reason"]) for _, e in found if e["outcome"] == "not_measured")
    lines += ["", "Not measured:", *(f"* {count} × {kind}: {reason}" for (kind, reason), count in why.most_common())]
    return [*lines, "", "Not built:", *(f"* {r.name}: {r.error}" for r in results if r.error)]


def _line(e: dict[str, Any]) -> str:
    return f"{experiment(e)}, {e['what']} of {e['kind']} {e['sublayer']} {e['group']}: {e['measured']} for {e['predicted']}; {e['reason']}"


__all__ = ["GROUPS", "Result", "Subject", "run", "small", "table"]
