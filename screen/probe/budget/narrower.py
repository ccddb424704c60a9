"""What is too large at the model's own width, and what a narrower model of the same config says in its place. Plain data, no torch.

The narrower model is captured, judged and planned anew, so that its exponents, bounds and recursions are its own; nothing is carried over from one
width to the other. Every number of it names its width.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from screen.probe.plan.types import ProbePlan

TOO_LARGE = "too large"
"""How the reason of an experiment begins that memory was short for."""
BEYOND = "beyond `--probe-seconds`"
"""How it begins where counted work was."""
NARROW = 512
"""The reduced width is the largest that is at most this and leaves whole heads, and at least two steps of whole heads."""
Found = Mapping[str, Any]
Key = tuple[str, str, str, str, str, int]


def reduced(own: int, step: int) -> int | None:
    """The width at which is measured what does not fit; None where nothing narrower is left."""
    width = max(NARROW // step, 2) * step
    return width if width < own else None


def is_lost(found: Found) -> bool:
    """Whether it was not measured for its size."""
    return found["outcome"] == "not_measured" and str(found["reason"]).startswith((TOO_LARGE, BEYOND))


def advised(found: Sequence[Found], advice: str) -> list[Found]:
    """All experiments, with something to try beside the reasons of those that were lost."""
    return [{**e, "reason": f"{e['reason']}; {advice}"} if is_lost(e) else e for e in found]


def without_the_rest(plan: ProbePlan, found: Sequence[Found]) -> ProbePlan:
    """The plan of a narrower model, cut to what was lost."""
    return replace(plan, only=tuple(sorted({(e["name"], e["stream"], e["kind"], e["sublayer"]) for e in found if is_lost(e)})))


def filled(found: Sequence[Found], narrower: Sequence[Found], width: int, own: int) -> list[Found]:
    """All experiments, with what was lost replaced by what the narrower model gave for it."""
    here, there = _keys(found), _keys(narrower)
    measured = {(k[:4], e["what"]) for k, e in zip(here, found, strict=True) if not is_lost(e)}
    used, out = set[int](), list[Found]()
    for key, lost in zip(here, found, strict=True):
        if not is_lost(lost):
            out.append(lost)
            continue
        same = [i for i, k in enumerate(there) if k == key and (lost["group"] or narrower[i]["what"] == lost["what"]) and not is_lost(narrower[i])]
        others = [i for i, k in enumerate(there) if _below(k, key) and not lost["group"] and (k[:4], narrower[i]["what"]) not in measured]
        taken = [i for i in same or others if i not in used]
        used.update(taken)
        out += [_named(narrower[i], lost, width, own) for i in taken] if same or others else [lost]
    return out


def _below(one: Key, whole: Key) -> bool:
    """Whether an experiment stands in for another of the same name: of the same branch, or of any where that was of a block."""
    return one[:3] == whole[:3] and whole[3] in ("", one[3])


def _named(found: Found, lost: Found, width: int, own: int) -> Found:
    """An experiment that says at which width it was made, with the group's name as the wide model has it."""
    said = f"at width {width} in place of {own}"
    group = lost["group"] or found["group"]
    numbers = {**found["numbers"], "width": float(width), "own_width": float(own)}
    return {**found, "group": group, "numbers": numbers, "reason": f"{said}; {found['reason']}" if found["reason"] else said}


def _keys(found: Sequence[Found]) -> list[Key]:
    """Where an experiment belongs; a group by its parameter and its place among those of that name, since row numbers go with the width."""
    counts = Counter[tuple[str, ...]]()
    keys = list[Key]()
    for e in found:
        base = (e["name"], e["stream"], e["kind"], e["sublayer"], re.sub(r"\[.*", "", e["group"]))
        mark = (*base, "" if e["group"] else e["what"])
        keys.append((*base, counts[mark]))
        counts[mark] += 1
    return keys


__all__ = ["BEYOND", "TOO_LARGE", "advised", "filled", "is_lost", "reduced", "without_the_rest"]
