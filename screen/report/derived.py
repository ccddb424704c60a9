"""What the calculi say, in words: the four steps, m, what a branch adds, the stream at its initialisation."""

from __future__ import annotations

from collections.abc import Iterable

from screen.facts.claims.claim import LARGEST, Value
from screen.report.numbers import number
from screen.report.schema import ClaimPart, FindingPart, Initialisation, MapsPart, Report, SublayerPart

QUESTIONS = (
    ("well_posedness", "1 Well-posedness", "Is every branch's output bounded over its weights?"),
    ("forward", "2 Forward", "How fast does the stream grow with depth, and what bounds the logits?"),
    ("backward", "3 Backward", "Does the gradient reach the first block, and how does a branch answer to the scale of its weights?"),
    ("uncertainty", "4 Uncertainty", "How far apart can two inputs end?"),
)
TELLING = ("violated", "conditional", "holds")


def steps(report: Report) -> list[tuple[str, str, list[str], list[str]]]:
    """The four steps as (title, question, what is derived, what is not known), one sentence of each rule that says something, and
    its lines of numbers."""
    found = []
    for step, title, question in QUESTIONS:
        mine = [f for f in report.findings if f.step == step]
        derived = [line for code in dict.fromkeys(f.code for f in mine if _tells(f)) for line in _told(mine, code)]
        unknown = list(dict.fromkeys(f"{f.code}: {f.message}" for f in mine if f.outcome == "cannot_tell"))
        found.append((title, question, derived or ["nothing"], unknown[:3]))
    return found


def _told(findings: list[FindingPart], code: str) -> list[str]:
    """The worst message of one rule, with its code, and what it says in numbers: sentences among its numbers."""
    mine = [f for f in findings if f.code == code and _tells(f)]
    worst = min(mine, key=lambda f: TELLING.index(f.outcome) if f.outcome in TELLING else len(TELLING))
    numbers = [f"{name}: {value}" for name, value in worst.numbers.items() if isinstance(value, str) and value.endswith(".")]
    more = len({f.message for f in mine if f.outcome == worst.outcome}) - 1
    return [f"{code}: {worst.message}{f' And {more} more.' if more else ''}", *numbers]


def _tells(finding: FindingPart) -> bool:
    """Whether a finding says something of the model; of those that do not apply, the ones that say by what number."""
    return finding.outcome in TELLING or (finding.outcome == "not_applicable" and bool(finding.numbers))


def orders(part: MapsPart) -> str:
    """m, with what it is counted from: `4 (smallest 2)`; with multiplicity where that is more."""
    if part.distinct is None:
        return "unknown"
    more = f", {part.degree} with multiplicity" if part.degree is not None and part.degree != part.distinct else ""
    least = f" (smallest {part.min_degree}{more})" if part.min_degree is not None and (part.min_degree != part.distinct or more) else ""
    return f"{part.distinct}{least}"


def adds(sublayer: SublayerPart) -> str:
    """What the branch adds: bounded or not, and how the stream grows through it."""
    sets = {"yes": "bounded", "no": "unbounded", "unknown": "unknown"}[sublayer.output_set.bounded]
    return f"{sets}, {sublayer.growth.form} growth"


def expressions(sublayer: SublayerPart) -> list[tuple[str, str]]:
    """What is known of a sublayer as formulas, in the report's own notation: (what it is, the formula)."""
    found = (
        ("adds at most", sublayer.growth.expression), ("Hamiltonian", sublayer.output_set.hamiltonian), ("logits", sublayer.logits.expression),
        ("Lipschitz at a point", sublayer.lipschitz.local), ("Lipschitz", sublayer.lipschitz.expression),
    )  # fmt: skip
    return [(label, written) for label, written in found if written]


def start(part: Initialisation | None) -> str:
    """The stream at its recorded initialisation, on one line, with how many tokens that is: under a causal mask more of them average more."""
    if part is None:
        return "unknown"
    pieces = [f"rms {number(part.rms_first, 3)} → {number(part.rms_last, 3)} over {part.depth} blocks"]
    pieces += [f"1 − cos {number(part.one_minus_cos, 3)}"] if part.one_minus_cos is not None else []
    pieces += [f"first over last gradient {number(part.gradient_ratio, 3)}"] if part.gradient_ratio is not None else []
    return ", ".join(pieces) + (f" ({part.tokens} tokens)" if part.tokens else "")


MEASURED = {"rms_ratio": "last over first rms", "one_minus_cos": "1 − cos", "gradient_ratio": "first over last gradient"}
"""Claims at the start of a stream, in the words of its line."""


def measured_start(stream: str, claims: Iterable[ClaimPart]) -> str:
    """What was measured of a stream of which nothing is derived, or something else, on one line, to two digits: more differ between machines."""
    mine = [c for c in claims if (c.stream, c.sublayer, c.weights) == (stream, None, "start") and c.measured is not None]
    seen = {c.claim: c.value if c.status == "measured" else c.measured.value for c in mine if c.measured is not None}
    told = [f"{words} {_size(seen[name])}" for name, words in MEASURED.items() if name in seen]
    return f"{', '.join(told)} (measured, one draw of the weights)" if told else "unknown"


def _size(value: Value) -> str:
    return "beyond the range of floats" if isinstance(value, float) and value >= LARGEST else number(value, 2)


__all__ = ["adds", "expressions", "measured_start", "orders", "start", "steps"]
