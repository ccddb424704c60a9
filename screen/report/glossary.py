"""The words of a report, each explained for somebody who has trained one transformer: `templates/glossary.md`, for `screen explain TERM`.

An entry is a heading, its text, and two lists: other words under which it is found (`also`), and entries to read on with (`see`). Where it states a
limit of a rule, the name of the number stands in braces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("templates") / "glossary.md"


@dataclass(frozen=True)
class Term:
    """One entry."""

    name: str
    text: str
    also: tuple[str, ...]
    see: tuple[str, ...]
    """Names of other entries."""


def page() -> str:
    """The whole glossary, with the limits of rules in it."""
    from screen.facts.queries import COLLAPSED, EXPLOSIVE, FEWER, STARVED, STEEP  # a second that lists of words do not wait for

    limits = {"STARVED": STARVED, "STEEP": STEEP, "EXPLOSIVE": EXPLOSIVE, "COLLAPSED": COLLAPSED, "ALIKE": COLLAPSED / FEWER}
    return re.sub(r"\{([A-Z]+)\}", lambda name: f"{limits[name[1]]:g}", _template())


def _template() -> str:
    return PAGE.read_text(encoding="utf-8")


@cache
def terms() -> tuple[Term, ...]:
    """All entries, in the order of the page."""
    return _terms(page())


def _terms(text: str) -> tuple[Term, ...]:
    return tuple(_term(entry) for entry in text.split("\n## ")[1:])


def _term(entry: str) -> Term:
    name, _, body = entry.partition("\n")
    lists = dict(re.findall(r"^- (also|see): (.*)$", body, flags=re.MULTILINE))
    text = " ".join(re.sub(r"^- (also|see): .*$", "", body, flags=re.MULTILINE).split())
    also, see = (tuple(filter(None, lists.get(key, "").split(", "))) for key in ("also", "see"))
    return Term(name, text, also, see)


def explain(word: str) -> Term | None:
    """The entry of a word, in any case."""
    exact = next((t for t in terms() if word in (t.name, *t.also)), None)
    return exact or next((t for t in terms() if word.strip().lower() in (w.lower() for w in (t.name, *t.also))), None)


def words() -> list[str]:
    """Every word that has an entry."""
    return [word for term in _terms(_template()) for word in (term.name, *term.also)]


def text(term: Term) -> str:
    """One entry for a terminal."""
    return f"{term.name}: {term.text}\n" + (f"See also: {', '.join(term.see)}\n" if term.see else "")


__all__ = ["PAGE", "Term", "explain", "page", "terms", "text", "words"]
