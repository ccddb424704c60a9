"""What the calculi say of a sublayer, as parts of the report. Nothing is decided here: `Unknown` becomes null or `unknown`.

Expressions are SymPy text with the names of `quantities` (spectral norms `W0`, biases `b0_l2`, gains) explained in docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Literal, TypeVar

from screen.calculi.bounds.expr import Expr
from screen.calculi.meanfield import Recursion
from screen.facts.queries import are_logits_bounded, growth_of, has_softmax, is_output_bounded, where
from screen.facts.record import Facts
from screen.report import schema
from screen.structure.types import Sublayer, Tri, Unknown

CONVENTION = "distinct: each matrix once (Emadi, 6.2), activations with their degree; degree: with multiplicity; min_degree: the smallest product"
LONGEST = 400
"""Characters of an expression beyond which it is left out: nobody reads it."""
T = TypeVar("T")
Word = Literal["yes", "no", "unknown"]


def known(value: T | Unknown) -> T | None:
    """The value, or null."""
    return None if isinstance(value, Unknown) else value


def word(value: Tri) -> Word:
    """yes, no or unknown."""
    return "unknown" if isinstance(value, Unknown) else "yes" if value else "no"


def text(value: Expr | Unknown | None) -> str | None:
    """An expression as SymPy text; null when there is none, or none that can be read."""
    if value is None or isinstance(value, Unknown):
        return None
    written = value.sympy()
    return written if len(written) <= LONGEST else None


def maps_part(facts: Facts, s: Sublayer) -> schema.MapsPart:
    """m, with the path of its largest product."""
    analysis = facts.analysis(s)
    if isinstance(analysis, Unknown):
        return schema.MapsPart(maps=known(s.m.maps), path=list(s.m.path))
    orders = analysis.degrees.orders
    path = orders.path or s.m.path
    return schema.MapsPart(
        maps=known(s.m.maps), distinct=known(orders.distinct), degree=known(orders.degree), min_degree=known(orders.min_degree),
        path=list(path), convention=CONVENTION,
    )  # fmt: skip


def degree_parts(facts: Facts, s: Sublayer) -> dict[str, schema.Degree] | None:
    """Degrees by weight group."""
    analysis = facts.analysis(s)
    if isinstance(analysis, Unknown) or analysis.degrees.unknown is not None:
        return None
    return {d.group: schema.Degree(predicted=d.predicted, status=d.status) for d in analysis.degrees.groups}


def output_set_part(facts: Facts, s: Sublayer) -> schema.OutputSet:
    """Boundedness over all weights, and the Hamiltonian."""
    bounded, analysis = is_output_bounded(facts, s), facts.analysis(s)
    if isinstance(analysis, Unknown):
        return schema.OutputSet(bounded=word(bounded))
    form = analysis.bounds.hamiltonian
    hamiltonian = "infinite" if bounded is False else form.text if bounded is True and form is not None else None
    return schema.OutputSet(bounded=word(bounded), hamiltonian=hamiltonian, bound=text(analysis.bounds.bound))


FORMS: dict[str, Literal["constant", "linear", "polynomial", "exponential"]] = {
    "bounded": "constant",
    "linear": "linear",
    "polynomial": "polynomial",
    "exponential": "exponential",
}
"""Claims of growth in the words of the table."""


def growth_part(facts: Facts, s: Sublayer) -> schema.Growth:
    """How the stream grows at fixed weights, and the largest 2-norm per token that the sublayer adds."""
    analysis = facts.analysis(s)
    adds = None if isinstance(analysis, Unknown) else text(analysis.bounds.magnitude)
    law = growth_of(facts, where(facts, s)[0], "fixed")
    return schema.Growth(form="unknown" if isinstance(law, Unknown) else FORMS[law], expression=adds)


def lipschitz_part(facts: Facts, s: Sublayer) -> schema.Lipschitz:
    """Lipschitz constants of the branch."""
    analysis = facts.analysis(s)
    if isinstance(analysis, Unknown):
        return schema.Lipschitz()
    return schema.Lipschitz(expression=text(analysis.bounds.lipschitz), local=text(analysis.bounds.lipschitz_local))


def logits_part(facts: Facts, s: Sublayer) -> schema.Logits:
    """Whether the logits are bounded over all weights, and by what."""
    there = has_softmax(facts, s)
    if there is not True:
        return schema.Logits(bounded="unknown" if isinstance(there, Unknown) else "not_applicable")
    analysis = facts.analysis(s)
    first = None if isinstance(analysis, Unknown) or not analysis.bounds.logits else analysis.bounds.logits[0]
    return schema.Logits(bounded=word(are_logits_bounded(facts, s)), expression=text(first))


KINDS = {
    "spectral": "spectral norm", "head_rss": "root of the sum of squared spectral norms per head", "max_abs": "largest |entry|", "l2": "2-norm",
    "frobenius": "Frobenius norm", "row_max": "largest 2-norm of a row", "row_l1": "largest 1-norm of a row",
    "taps": "sum over taps of spectral norms",
    "head_max": "largest spectral norm of a head", "max_exp": "largest exp(entry)",
}  # fmt: skip
SPREAD = "half the diameter of the values that a softmax weighs, as root of the sum of squares over heads"
INPUTS = {
    "B": "largest 2-norm of a token of the stream", "B_memory": "largest 2-norm of a token of the other stream",
    "B_earlier": "largest 2-norm of a token of an earlier state", "B_table": "largest 2-norm of a row of a table that forward is given",
}  # fmt: skip


def symbol_parts(facts: Facts, s: Sublayer) -> dict[str, str]:
    """What the symbols of the sublayer's expressions stand for."""
    analysis = facts.analysis(s)
    if isinstance(analysis, Unknown):
        return {}
    bounds = analysis.bounds
    shown = [e for e in (bounds.magnitude, bounds.lipschitz, bounds.lipschitz_local, *bounds.logits[:1]) if isinstance(e, Expr)]
    used = {name for e in shown if text(e) for name in e.symbols()}
    found = {}
    for q in bounds.quantities:
        if q.symbol not in used:
            continue
        made = "" if q.part.fold is None else f" {q.part.fold.told}"
        plus = f" + {q.part.shift:g}" if q.part.fold is None and q.part.shift else ""
        found[q.symbol] = f"{KINDS.get(q.kind, q.kind)} of {q.parameter}{q.slices}{made}{plus}"
    found |= {name: meaning for name, meaning in INPUTS.items() if name in used}
    found |= {s.symbol: SPREAD for s in bounds.spreads if s.symbol in used}
    found |= {name: "smallest divisor of the norm over the tokens, ε included" for name, _, _ in bounds.norms if name in used}
    return found


def initialisation_part(found: Recursion | Unknown, refuted: Container[str] = ()) -> schema.Initialisation | None:
    """The stream at its recorded initialisation, without the numbers that a measurement refutes."""
    if isinstance(found, Unknown) or "rms_ratio" in refuted:
        return None
    told, apart = "gradient_ratio" not in refuted, "one_minus_cos" not in refuted
    return schema.Initialisation(
        depth=found.depth,
        rms_first=_digits(found.rms[0]) or 0.0,
        rms_last=_digits(found.rms[-1]) or 0.0,
        rms_exponent=_digits(known(found.rms_exponent)),
        cosine=_digits(known(found.cosine)) if apart else None,
        one_minus_cos=_digits(known(found.one_minus_cos)) if apart else None,
        gradient_ratio=_digits(known(found.ratio_of_output)) if told else None,
        ratio_law=known(found.ratio_law) if told and "gradient_law" not in refuted else None,
        predicted_ratio=_digits(found.predicted_ratio) or 0.0,
        last_gradient_exponent=_digits(known(found.last_gradient_exponent)),
        deepnorm_number=_digits(known(found.deepnorm_number)),
        tokens=found.tokens or None,
        assumptions=list(found.assumptions),
    )


def _digits(value: float | None) -> float | None:
    """Six significant digits, so that the three that are shown are rounded once; more would differ between machines."""
    return None if value is None else float(f"{value:.6g}")


__all__ = [
    "degree_parts", "growth_part", "initialisation_part", "known", "lipschitz_part", "logits_part", "maps_part", "output_set_part", "symbol_parts",
    "text", "word",
]  # fmt: skip
