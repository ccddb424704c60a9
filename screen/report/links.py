"""Words of the first screen that lead to their entry of the glossary: the first of each, in text that stands between no backticks."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from screen.report import glossary
from screen.report.glossary import Term

SHORTEST = 4
"""Letters of a word that is looked for in sentences; shorter ones are letters of channels and symbols."""


@cache
def _pattern() -> re.Pattern[str]:
    """Names of entries, and other words for them that are more than one word; the longest first, in the plural too."""
    words = {w for t in glossary.terms() for w in (t.name, *(a for a in t.also if " " in a or "-" in a)) if len(w) >= SHORTEST}
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})(s?)(?![\w-])", re.IGNORECASE)


class Links:
    """Finds words, each once, and remembers them."""

    def __init__(self) -> None:
        self.used: dict[str, Term] = {}
        """Anchor -> entry, in the order in which they came."""

    def pieces(self, text: str) -> list[tuple[str, str]]:
        """A text in pieces, each with the anchor that it leads to, or with none."""
        found: list[tuple[str, str]] = []
        at = 0
        for match in _pattern().finditer(text):
            term = glossary.explain(match[1])
            if term is None or (anchor := anchor_of(term.name)) in self.used:
                continue
            self.used[anchor] = term
            found += [(text[at : match.start()], ""), (match[0], anchor)]
            at = match.end()
        return [(piece, anchor) for piece, anchor in (*found, (text[at:], "")) if piece]

    def letter(self, word: str) -> str:
        """The anchor of a channel's letter."""
        term = glossary.explain(word)
        if term is None:
            return ""
        self.used.setdefault(anchor_of(term.name), term)
        return anchor_of(term.name)

    def joined(self, parts: list[tuple[bool, str]], plain: Callable[[str], str], code: Callable[[str], str], link: Callable[[str, str], str]) -> str:
        """Text in pieces (whether it stood between backticks, the piece), each written in its way."""
        return "".join(
            code(part) if inside else "".join(link(plain(piece), anchor) if anchor else plain(piece) for piece, anchor in self.pieces(part))
            for inside, part in parts
        )


def anchor_of(name: str) -> str:
    """`word-identity-path`: the id of an entry in a page that holds it."""
    return "word-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


__all__ = ["Links", "anchor_of"]
