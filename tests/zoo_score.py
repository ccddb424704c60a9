"""Labels of the zoo, and the score of derived facts against them. `tests/zoo.py` runs it."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.shared import ROOT, SHARED

LABELS = SHARED / "zoo" / "labels.jsonl"
DISPUTES = ROOT / "tests" / "zoo_disputes.json"
"""Labels shown to be wrong: `{id: {field: {"found": value, "evidence": "file:lines …"}}}`; `found` then counts as right.

The field `forward` says that the label's settings do not run in the library at all: `found` is then part of the message that real tensors
get too, and what is not told because of it counts as right (`tests/whole/test_zoo_disputes.py` runs these on real tensors)."""

Label = dict[str, Any]

PLACEMENTS = ("attn", "xattn", "ffn", "ffn1", "conv")
OTHERS = ("qk_norm", "parallel", "embed_norm", "final_norm", "residual", "maps", "ffn_role")
ATTENTION = ("attention", "linear_attention")
MIXERS = (*ATTENTION, "ssm", "rnn", "fourier", "pooling")
FFNS = ("ffn", "gated_ffn", "moe")
FFN_ROLE = {"mlp": "ffn", "gated": "gated_ffn", "moe": "moe"}
"""How the labels' prose names an FFN, and the role it means."""


@dataclass(frozen=True)
class Score:
    """One field of one label. `result` is right, wrong, unknown (the tool says so) or missing (no such sublayer found)."""

    field: str
    result: str
    expected: str
    found: str
    disputed: bool = False


def labels(only: Iterable[str] = ()) -> list[Label]:
    """All labels, or those whose id, or id before `#`, is in `only`."""
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines() if line.strip()]
    wanted = set(only)
    return [row for row in rows if not wanted or row["id"] in wanted or row["id"].split("#")[0] in wanted]


def disputes() -> dict[str, dict[str, dict[str, Any]]]:
    """The recorded disputes."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(DISPUTES.read_text(encoding="utf-8"))
    return found


# What was found, by label field. Each is a list of (value, weight); a sublayer weighs as many blocks as its kind has.

Votes = list[tuple[str, int]]


def _sublayers(facts: Any, roles: Iterable[str], pick: int | None = None) -> Iterator[tuple[Any, int]]:
    """Sublayers of these roles with their weight; with `pick`, only that one of each kind (0 the first, -1 the last)."""
    for stream in facts.streams:
        for kind in stream.kinds:
            found = [s for s in kind.sublayers if s.role in roles]
            for sublayer in found if pick is None else found[:1] if pick == 0 else found[-1:]:
                yield sublayer, kind.count


def _group(facts: Any, name: str, label: Label) -> list[tuple[Any, int]]:
    """The sublayers that a label's `attn`, `xattn`, `ffn`, `ffn1` or `conv` speaks of."""
    macaron = "ffn1" in label
    if name == "xattn":
        return list(_sublayers(facts, ("cross_attention",)))
    if name == "conv":
        return list(_sublayers(facts, ("conv",)))
    if name == "ffn1":
        return [(s, n) for k in facts.streams for kind in k.kinds for s, n in _first_of_two(kind)]
    found = list(_sublayers(facts, FFNS, -1 if macaron else None)) if name == "ffn" else list(_sublayers(facts, MIXERS))
    if not found and name == "attn":
        found = list(_sublayers(facts, ("conv",)))
    # One branch that is mixer and FFN in one (ConvNeXt) answers for both.
    alone = [(k.sublayers[0], k.count) for s in facts.streams for k in s.kinds if len(k.sublayers) == 1]
    return found or alone


def _first_of_two(kind: Any) -> list[tuple[Any, int]]:
    found = [s for s in kind.sublayers if s.role in FFNS]
    return [(found[0], kind.count)] if len(found) > 1 else []


def _top(votes: Votes) -> set[str]:
    """The values with the largest weight; several when they tie."""
    total: collections.Counter[str] = collections.Counter()
    for value, weight in votes:
        total[value] += weight
    best = max(total.values(), default=0)
    return {value for value, weight in total.items() if weight == best}


def tri(value: object) -> str:
    """`True`, `False` or `unknown`."""
    return str(value) if isinstance(value, bool) else "unknown"


def text(value: object) -> str:
    """A plain value as text, `unknown` for an `Unknown`."""
    return str(value) if isinstance(value, (bool, int, str)) else "unknown"


def _attentions(facts: Any, label: Label) -> list[tuple[Any, int]]:
    """Attention where there is any (hybrids are labelled by it), else whatever mixes."""
    return list(_sublayers(facts, ATTENTION)) or _group(facts, "attn", label)


def _residual(facts: Any, side: str | None) -> Votes:
    """`kind/side` of the scale that sits on at least a quarter of all sublayers, else `none/None`."""
    votes: Votes = []
    total = 0
    for sublayer, weight in ((s, k.count) for t in facts.streams for k in t.kinds for s in k.sublayers):
        total += weight
        scales = {"stream": sublayer.alpha.kind, "branch": sublayer.branch.kind}
        present = {k: v for k, v in scales.items() if v != "none"}
        name = side if side in present else next(iter(present), None)
        if name is not None:
            votes.append((f"{present[name]}/{name}", weight))
    return votes if sum(w for _, w in votes) * 4 >= total > 0 and votes else [("none/None", 1)]


def _parallel(facts: Any) -> Votes:
    """Whether a mixer and an FFN stand in one group, one vote per block that has both."""
    votes: Votes = []
    for kind in (k for s in facts.streams for k in s.kinds):
        groups = [{s.parallel_group for s in kind.sublayers if s.role in roles and s.parallel_group is not None} for roles in (MIXERS, FFNS)]
        if len(kind.sublayers) > 1:
            votes.append((str(bool(groups[0] & groups[1])), kind.count))
    return votes or [("False", 1)]


def _ends(facts: Any, name: str) -> Votes:
    """The first stream's embedding norm, the last one's final norm; both ends of an encoder–decoder."""
    streams = [s for s in facts.streams if s.role in ("encoder", "decoder")] or list(facts.streams)
    if name == "final_norm":  # a head of one block (attention pooling) is not the model's end
        streams = [s for s in streams if s.depth > 1] or streams
    if not streams:
        return []
    chosen = streams if len({s.role for s in streams}) > 1 else [streams[0] if name == "embed_norm" else streams[-1]]
    return [(tri(getattr(s, name)), s.depth) for s in chosen]


def found(facts: Any, name: str, label: Label) -> Votes:
    """What the facts say about one field of a label."""
    if name in PLACEMENTS:
        return [(s.placement, n) for s, n in _group(facts, name, label)]
    if name == "qk_norm":
        return [(text(s.qk_norm), n) for s, n in _attentions(facts, label)]
    if name == "maps":
        return [(text(s.m.maps), n) for s, n in _attentions(facts, label)]
    if name == "ffn_role":
        return [(s.role, n) for s, n in _group(facts, "ffn", label)]
    if name == "residual":
        return _residual(facts, label["truth"]["residual"]["side"])
    return _parallel(facts) if name == "parallel" else _ends(facts, name)


# What was expected.


def expected(label: Label, name: str) -> str | None:
    """The label's value of a field as text, or None when it says nothing about it."""
    truth = label["truth"]
    if name in ("ffn1", "conv"):
        return str(label[name]["placement"]) if label.get(name) else None
    if name == "residual":
        return f"{truth['residual']['kind']}/{truth['residual']['side']}"
    return str(truth[name]) if name in truth else None


def allowed(label: Label, name: str) -> set[str]:
    """Every value that may occur somewhere: the label's, its alternatives, and what its list of layers names."""
    values = {expected(label, name) or ""}
    if name in PLACEMENTS:
        values |= set(label["truth"].get("alt", ()))
        for kind in label.get("layers", ()):
            values |= {kind[name]["placement"]} if isinstance(kind.get(name), dict) else set()
            values |= {s["placement"] for s in kind.get("sublayers", ()) if s["type"] == name and "placement" in s}
    if name == "ffn_role":
        prose = " ".join([str(label["ffn_kind"]), *(str(k.get("ffn_kind", "")) for k in label.get("layers", ()))])
        values |= {role for word, role in FFN_ROLE.items() if word in prose}
    return values


def score(label: Label, facts: Any) -> tuple[list[Score], list[str]]:
    """The scores of every field that the label speaks of, and the stray placements."""
    scores, stray = [], []
    disputed = disputes().get(label["id"], {})
    for name in (*PLACEMENTS, *OTHERS):
        want = expected(label, name)
        if want is None:
            continue
        votes = found(facts, name, label)
        top = _top(votes)
        fine = {want} | (set(label["truth"].get("alt", ())) if name in PLACEMENTS else set())
        if name == "ffn_role" and top <= allowed(label, name) and want in {v for v, _ in votes}:
            fine |= top  # a stack of dense and sparse blocks: the label names one of its kinds
        by_dispute = name in disputed and not top & fine
        fine |= {str(disputed[name]["found"])} if name in disputed else set()
        if want == "no_residual":
            result = "right" if not votes else "wrong"
        elif not top:
            result = "missing"
        else:
            result = "right" if top & fine else "unknown" if "unknown" in top else "wrong"
        scores.append(Score(name, result, want, " or ".join(sorted(top)) or "nothing", by_dispute and result == "right"))
        if name in PLACEMENTS:
            odd = collections.Counter({v: n for v, n in votes if v not in allowed(label, name) | fine})
            stray += [f"{name}={value}×{n}" for value, n in sorted(odd.items())]
    return scores, stray
