"""The record itself: for each subject its pieces, as digests, and the beginning of each text once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from screen.calculi.meanfield.first_update import FirstUpdate
from screen.facts.record import Facts
from screen.graph import Failure
from screen.ops.scalars import SCALARS
from screen.structure.types import Coverage, Unknown, UnmodelledOp
from screen.testing import cases, facts_of
from screen.verdict.discover import catalogue
from tests import handmade as h
from tests.rows.table import CALLS
from tests.said import crossed, direct, drawn, edges, groups, others, rounds, small, tried
from tests.said.blocks import BLOCKS
from tests.said.calls import MORE
from tests.said.changed import BASES, CHANGES, PAIRS, crowd
from tests.said.inside import with_inside
from tests.said.models import derived, judged, under_recipes
from tests.said.plain import digest, short
from tests.said.risks import OF_FEATURES, OF_RECIPE, of_features, of_recipe
from tests.said.rows import said
from tests.said.tables import names, of_module, of_scalar

FOLDER = Path(__file__).parent
Pieces = Mapping[str, str]


@cache
def base(name: str) -> Pieces:
    """What is said of facts written by hand, as they are."""
    return judged(h.ALL[name]())


def changed(name: str) -> Pieces:
    """What a change makes different, in all facts written by hand that it is tried on."""
    found = {of: judged(CHANGES[name](h.ALL[of]())) for of in BASES}
    return {f"{of}: {piece}": text for of, pieces in found.items() for piece, text in pieces.items() if base(of).get(piece) != text}


def pair(name: str) -> Pieces:
    """What two changes at once make different in some facts written by hand."""
    of, first, second = PAIRS[name]
    return together(of, (first, second))


def together(of: str, names: tuple[str, ...]) -> Pieces:
    """What some changes, one after the other, make different in some facts written by hand."""
    facts = h.ALL[of]()
    for name in names:
        facts = CHANGES[name](facts)
    return {piece: text for piece, text in judged(facts).items() if base(of).get(piece) != text}


def updated(facts: Facts) -> Facts:
    """With a κ, which only a verdict under a recipe reads."""
    recursions = tuple(r if isinstance(r, Unknown) else replace(r, first_update=FirstUpdate(100.0, {"attention": 1.0})) for r in facts.recursions)
    return h.claimed(replace(facts, recursions=recursions))


UNREAD = (UnmodelledOp("bessel_j0", 2, True, h.place(7)),)
NOTHING: dict[str, Callable[[], Facts]] = {
    "no stream": h.facts, "no stream, an op without a row": lambda: h.facts(coverage=Coverage(64, 63, UNREAD)),
    "no stream, failed": lambda: h.facts(graph=h.blank_graph(failure=Failure("boom", h.FILE, 3))),
    "no stream, failed at an op": lambda: h.facts(graph=h.blank_graph(failure=Failure("boom", h.FILE, 3)), coverage=Coverage(64, 63, UNREAD)),
}
SAME = (
    "every.alpha-0", "stream.width-1", "claim.gradient_law.start-4", "facts.state_bounds-1", "facts.state_bounds-2", "facts.state_bounds-3",
    "graph.failure-1", "graph.guesses-1", "bounds.bounded_in_stream-1",
)  # fmt: skip
"""Changes of which the same is said as of another one, on the way of the same lines."""
SUBJECTS: dict[str, dict[str, Callable[[], Pieces]]] = {
    "rows": {str(c): lambda c=c: said(c) for c in CALLS} | {n: lambda c=c: said(c) for n, c in MORE.items()},  # type: ignore[misc]
    "examples": {c.id: lambda c=c: derived(f := facts_of(c.example)) | judged(f) for c in cases(catalogue().rules)},  # type: ignore[misc]
    "byhand": {n: lambda n=n: derived(h.ALL[n]()) | base(n) | under_recipes(h.ALL[n]()) for n in h.ALL}  # type: ignore[misc]
    | {"pre, with a first update": lambda: under_recipes(updated(h.pre())), "peri, wide": lambda: under_recipes(CHANGES["stream.width-1"](h.peri()))}
    | {name: lambda make=make: judged(make()) for name, make in NOTHING.items()},  # type: ignore[misc]
    "risks": {
        f"{field}-{n}": lambda of=of, field=field, value=value: of(field, value)  # type: ignore[misc]
        for of, table in ((of_recipe, OF_RECIPE), (of_features, OF_FEATURES)) for field, values in table.items() for n, value in enumerate(values)
    },
    "blocks": {**BLOCKS},
    "tables": {n: lambda n=n: of_module(n) for n in names()} | {op: lambda op=op: of_scalar(op) for op in SCALARS}  # type: ignore[misc]
    | {"tables of others": others.tables, "rules of others": others.rules},
    "pairs": {name: lambda name=name: pair(name) for name in PAIRS},  # type: ignore[misc]
    "changed": {name: lambda name=name: changed(name) for name in CHANGES if name not in SAME},  # type: ignore[misc]
    "crowds": {str(number): lambda number=number: together(*crowd(number)) for number in range(600)},  # type: ignore[misc]
    "crossed": {**crossed.SUBJECTS},
    "direct": {**direct.SUBJECTS},
    "edges": {**edges.SUBJECTS},
    "drawn": {**drawn.SUBJECTS},
    "groups": {**groups.SUBJECTS},
    "rounds": {**rounds.SUBJECTS},
    "small": {**small.SUBJECTS},
    "tried": {**tried.SUBJECTS},
}
"""File -> its subjects."""
for _file in ("blocks", "drawn", "examples", "rounds", "rows", "small", "tried"):
    SUBJECTS[_file] = {name: lambda make=make: with_inside(make) for name, make in SUBJECTS[_file].items()}  # type: ignore[misc]
DIGESTS = ("crossed", "crowds", "direct", "drawn", "edges", "groups", "rounds", "small", "tried")
"""Files without texts: there are too many subjects for them to be read."""


@cache
def recorded(file: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """(texts by their digest, pieces of each subject)."""
    path = FOLDER / f"{file}.json"
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"texts": {}, "subjects": {}}
    return held["texts"], held["subjects"]


@cache
def pieces(file: str) -> frozenset[str]:
    """All that any subject has on record."""
    return frozenset(piece for held in recorded(file)[1].values() for piece in held)


def differences(file: str, subject: str, now: Pieces) -> Iterator[str]:
    """Each piece that is not as it was. One that no subject has yet is of a rule that was added since, and is seen in the examples of that rule."""
    texts, subjects = recorded(file)
    before = subjects.get(subject, {})
    held = pieces(file) if subject in subjects else {*now}
    for piece in dict.fromkeys((*before, *now)):
        if piece in held and before.get(piece) != (digest(now[piece]) if piece in now else None):
            was = texts.get(before[piece], before[piece]) if piece in before else "nothing"
            yield f"{subject}: {piece}\n  was {was}\n  now {short(now[piece]) if piece in now else 'nothing'}"


def text_of(subjects: Mapping[str, Pieces], told: bool = True) -> str:
    """A file of the record, one subject and one text a line, or without texts."""
    texts = {digest(t): short(t) for pieces in subjects.values() for t in pieces.values() if told}
    of = {name: {piece: digest(t) for piece, t in pieces.items()} for name, pieces in subjects.items()}

    def lines(held: Mapping[str, object]) -> str:
        return ",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in held.items())

    return f'{{"texts": {{\n{lines(dict(sorted(texts.items())))}\n}},\n"subjects": {{\n{lines(of)}\n}}}}\n'


def made(file: str) -> str:
    """A file of the record as it would be written now."""
    return text_of({name: make() for name, make in SUBJECTS[file].items()}, file not in DIGESTS)


__all__ = ["FOLDER", "SUBJECTS", "differences", "made", "pieces", "recorded", "text_of"]
