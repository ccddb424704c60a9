"""Models that the probe is run over: architectures of `transformers`, the examples, the design table, and the labelled zoo, all at small widths."""

from __future__ import annotations

import importlib.util
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from screen.capture.build.transformers import default_config
from screen.probe.plan.types import Options
from tests.capture.test_replay import SMALL, TYPES
from tests.probe.common import measured
from tests.shared import ROOT
from tests.zoo_score import LABELS, labels

TABLE = ROOT / "examples" / "table" / "designs.py"
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers", "num_blocks")
SIZES: dict[str, int] = {
    **SMALL, **dict.fromkeys(LAYERS, 5), "num_experts_per_tok": 2, "n_routed_experts": 4, "moe_shared_expert_intermediate_size": 40,
    "expert_capacity": 16, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 12, "v_head_dim": 12,
    "mamba_d_ssm": 96, "mamba_n_heads": 8, "mamba_d_head": 12, "mamba_num_heads": 8, "mamba_head_dim": 12, "mamba_d_state": 8, "state_size": 8,
    "ssm_state_size": 8, "mamba_dt_rank": 8, "time_step_rank": 8, "mamba_chunk_size": 16, "chunk_size": 16, "attention_hidden_size": 96,
    "attention_head_dim": 24, "embedding_dim": 48, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 131,
}  # fmt: skip
"""Deep enough for what the recursion says of the last block, and sizes of fields that few types have."""
HEADS = ("num_key_value_heads",)
"""A label's number of these belongs to its own heads, and here to small ones."""
BUDGET = Options(device="cpu", seconds=20.0)
"""Of each model, in counted work."""


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
    seconds: float = 0.0
    """Of processor time."""

    def line(self) -> str:
        """As a line of a record."""
        return json.dumps(asdict(self))


def kept(path: str | None) -> dict[str, Result]:
    """What a record holds, by name."""
    lines = Path(path).read_text(encoding="utf-8").splitlines() if path and Path(path).exists() else ()
    return {r.name: r for r in (Result(**json.loads(line)) for line in lines)}


def small(kind: str, also: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings that make a type small, `also` among them. Where the library does not take them all, those that it takes one after the other."""
    from transformers import CONFIG_MAPPING

    base, also = CONFIG_MAPPING[kind](), dict(also or {})
    found = {k: v for k, v in SIZES.items() if k not in getattr(base, "attribute_map", {}) and _is_whole(base, k)}
    if _builds(kind, {**found, **also}):
        return {**found, **also}
    kept = also
    for key, value in found.items():
        kept = kept if key in kept or not _builds(kind, {key: value, **kept}) else {key: value, **kept}
    return kept


def _builds(kind: str, settings: dict[str, Any]) -> bool:
    try:
        default_config(kind, settings)
    except Exception:  # of the library's own checks
        return False
    return True


def _is_whole(config: Any, key: str) -> bool:
    """Whether a setting is a whole number; one that varies over the layers has none, which raises a class of the library's own."""
    try:
        return isinstance(getattr(config, key, None), int)
    except Exception:
        return False


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
            asked = {k: SIZES[k] if k in HEADS else v for k, v in label["config_overrides"].items()}
            yield Subject(f"label/{label['id']}", label["target"], small(kind, asked))


GROUPS = {"architectures": architectures, "examples": examples, "table": designs, "labels": labelled}


def run(subject: Subject) -> Result:
    """One model; an exception is its result."""
    begin, result = time.process_time(), Result(subject.name)
    try:
        result.found = measured(subject.target, BUDGET, **subject.settings)
    except Exception as error:  # a settings' combination that the library does not build
        text = str(error).strip().splitlines()
        result.error = f"{type(error).__name__}: {text[0][:120] if text else ''}"
    if not result.found and not result.error:
        result.error = "no residual branch was found, or its forward fails"
    result.seconds = round(time.process_time() - begin, 1)
    return result


def outcomes(result: Result) -> str:
    """How many of each."""
    counts = Counter(e["outcome"] for e in result.found)
    return ", ".join(f"{n} {o.replace('_', ' ')}" for o, n in sorted(counts.items()))


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


__all__ = ["GROUPS", "Result", "Subject", "kept", "outcomes", "run", "small", "table"]
