"""Text of somebody else's on one line of ours: on a terminal, in a log of CI, in a page."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of Unicode that move a cursor, change a colour, reorder or break a line, or show nothing."""
EMPTY = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters, marks and signs that show nothing all the same: fillers of Hangul, an empty pattern of Braille, selectors of a variation."""
STACKED = 4
"""Marks on one letter; more of them cover the lines above and below."""
COMMAND = re.compile(r"##(?=\w*\[)")
"""A command of a runner of GitHub or Azure, wherever it stands in a line."""
AT_BEGIN = re.compile(r"(^|\s)::")
"""One of GitHub's at the beginning of a line, which a wrapped one may get."""


def clean(text: str) -> str:
    """The text on one line: what would move a cursor, change a colour, reorder the line or command a runner stands as its escape."""
    shown = text if text.isascii() and text.isprintable() else "".join(_visible(text))
    return AT_BEGIN.sub(r"\1\\x3a:", COMMAND.sub(r"#\\x23", shown))


def quoted(text: str) -> str:
    """JSON, or a string of TOML, in which no runner reads a command: the sign stands as its escape, which says the same."""
    return COMMAND.sub(r"\\u0023#", text)


def _visible(text: str) -> Iterator[str]:
    marks = 0
    for c in text:
        category = unicodedata.category(c)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if category in HIDDEN or marks > STACKED or EMPTY.match(c):
            yield f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"
        else:
            yield c


__all__ = ["clean", "quoted"]
