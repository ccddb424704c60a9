"""Scores the streams of models of other libraries against labels read from their sources: `python -m tests.libraries.labels [ID …]`.

A label (one line of `labels/labels.jsonl`) holds code that makes `model` and `inputs`, and the truth of one stream: of the one with the most
branches, or of the role in `stream`. A field's alternatives are divided by `|`. A label whose library is not installed is skipped; one made for
another version is scored all the same and named. `misread` says why the report is still wrong: the label counts, and CI does not stop at it.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import inspect
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import screen
from screen.capture.build.libraries import stub_torchvision
from screen.report.schema_streams import KindPart, StreamPart, SublayerPart

LABELS = Path(__file__).with_name("labels") / "labels.jsonl"
ATTENTION = ("attention", "linear_attention")
FFNS = ("ffn", "gated_ffn", "moe")
Label = dict[str, Any]


def labels() -> list[Label]:
    """All labels."""
    return [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines() if line.strip()]


def installed(label: Label) -> str | None:
    """The version of the label's library here, if any."""
    try:
        return importlib.metadata.version(label["library"])
    except importlib.metadata.PackageNotFoundError:
        return None


def report_of(label: Label) -> Any:
    """The report on a label's model."""
    stub_torchvision()
    scope: dict[str, Any] = {"torch": torch}
    exec(label["code"], scope)  # the labels are ours
    given = scope["inputs"]
    if isinstance(given, tuple) and given and isinstance(given[-1], dict):
        names = list(inspect.signature(scope["model"].forward).parameters)
        given = {**dict(zip(names, given[:-1], strict=False)), **given[-1]}
    return screen.check(scope["model"].eval(), example_inputs=given)


def outer(report: Any) -> list[StreamPart]:
    """Streams that are not inside a branch of another."""
    return [s for s in report.streams if s.role != "inner"]


def chosen(report: Any, label: Label) -> StreamPart:
    """The stream that the label speaks of."""
    role = label["truth"].get("stream")
    streams = outer(report)
    if role == "first_with_self_attention":
        streams = [s for s in streams if any(sub.role == "attention" for k in s.kinds for sub in k.sublayers)] or streams
    elif role is not None:
        streams = [s for s in streams if s.role == role] or streams
    return max(streams, key=lambda s: sum(k.count * len(k.sublayers) for k in s.kinds))


def _weighed(stream: StreamPart) -> Iterator[tuple[SublayerPart, KindPart]]:
    return ((sub, kind) for kind in stream.kinds for sub in kind.sublayers)


def _top(votes: Iterable[tuple[str, int]]) -> str:
    total: collections.Counter[str] = collections.Counter()
    for value, weight in votes:
        total[value] += weight
    return total.most_common(1)[0][0] if total else "nothing"


def _residual(stream: StreamPart) -> str:
    """`kind/side` of the scale of at least a quarter of the branches; a constant that is 1 is also none, and is told where no other scale is."""
    votes: list[tuple[str, int]] = []
    for sub, kind in _weighed(stream):
        sides = [(sub.residual.alpha_kind, "stream"), (sub.residual.branch_kind, "branch")]
        present = [f"{word}/{side}" for word, side in sides if word != "none"] + ["none"] * sub.residual.no_op
        votes.append(("+".join(present) or "none", kind.count))
    total = sum(n for _, n in votes)
    scaled = [(v, n) for v, n in votes if v != "none"]
    real = [(v, n) for v, n in scaled if not v.endswith("+none")]
    scaled = real if sum(n for _, n in real) * 4 >= total and real else scaled
    return _top(scaled) if sum(n for _, n in scaled) * 4 >= total and scaled else "none"


def found(report: Any, label: Label) -> dict[str, str]:
    """What the report says about each field of the label; of a model without a stream that it has none."""
    if not outer(report):
        return dict.fromkeys((*label["truth"], "roles", "placements"), "nothing") | {"streams": "0"}
    stream = chosen(report, label)
    subs = list(_weighed(stream))
    attentions = [(s, k.count) for s, k in subs if s.role in ATTENTION] or [(s, k.count) for s, k in subs if s.role == "cross_attention"]
    largest = max(stream.kinds, key=lambda k: k.count)
    said = {
        "depth": str(stream.depth),
        "streams": str(len(outer(report))),
        "roles": " ".join(s.role for s in largest.sublayers),
        "placements": " ".join(s.placement for s in largest.sublayers),
        "embed_norm": str(stream.embed_norm),
        "final_norm": str(stream.final_norm),
        "residual": _residual(stream),
        "norm_type": _top((str(s.norm_type), k.count) for s, k in subs if s.norm_type is not None) if any(s.norm_type for s, _ in subs) else "None",
        "parallel": str(any(s.parallel_group is not None for s, _ in subs)),
    }
    for name in ("qk_norm", "q_norm", "k_norm", "v_norm"):
        said[name] = _top((str(getattr(s, name)), n) for s, n in attentions)
    said["maps"] = _top((str(s.m.maps), n) for s, n in attentions)
    return said


def _fits(wanted: str, value: str) -> bool:
    return value in wanted.split("|") or any(part in wanted.split("|") for part in value.split("+"))


def score(label: Label, said: dict[str, str]) -> dict[str, tuple[str, str, str]]:
    """Field -> (right, wrong or unknown; expected; found)."""
    truth = dict(label["truth"])
    wanted = {n: str(v) for n, v in truth.items() if n not in ("sublayers", "stream")}
    result = {}
    if "sublayers" in truth:
        pairs = [item.split(":") for item in truth["sublayers"]]
        for place, name in enumerate(("roles", "placements")):
            values = said[name].split()
            right = len(values) == len(pairs) and all(_fits(p[place], v) for p, v in zip(pairs, values, strict=True))
            word = "right" if right else "unknown" if "unknown" in values else "wrong"
            result[name] = (word, " ".join(p[place] for p in pairs), said[name])
    for name, expected in wanted.items():
        value = said[name]
        word = "right" if _fits(expected, value) else "unknown" if value in ("None", "unknown") and expected != "None" else "wrong"
        result[name] = (word, expected, value)
    return result


def main(argv: list[str] | None = None) -> int:
    """The command line; exit 0 when every field of every label is right."""
    parser = argparse.ArgumentParser("python -m tests.libraries.labels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", help="ids, or their beginnings")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    scored = clean = errors = 0
    begin = time.perf_counter()
    for label in labels():
        version = installed(label)
        if version is None or (options.ids and not any(label["id"].startswith(i) for i in options.ids)):
            continue
        scored += 1
        try:
            result = score(label, found(report_of(label), label))
        except Exception as error:
            errors += 1
            print(f"{label['id']:44} {type(error).__name__}: {error}".replace("\n", " ")[:220], flush=True)
            continue
        for name, (word, _, _) in result.items():
            table[name][word] += 1
        bad = [f"{name}: {value} for {wanted} [{word}]" for name, (word, wanted, value) in result.items() if word != "right"]
        clean += not bad
        note = "" if version == label["version"] else f" (version {version} for {label['version']})"
        if bad:
            print(f"{label['id']:44} {'; '.join(bad)}{note}", flush=True)
    print(f"{'field':14} {'right':>6} {'wrong':>6} {'unknown':>8}")
    for name, c in table.items():
        print(f"{name:14} {c['right']:6} {c['wrong']:6} {c['unknown']:8}")
    print(f"{scored} labels, {clean} right in all fields, {errors} errors, {time.perf_counter() - begin:.0f} s")
    return int(clean < scored)


if __name__ == "__main__":
    sys.exit(main())
