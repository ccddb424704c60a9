"""Text of somebody else's on one line of ours: on a terminal, in a log of CI, in a page."""

from __future__ import annotations

import re
import unicodedata

HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of Unicode that move a cursor, change a colour, reorder or break a line, or show nothing."""
COMMAND = re.compile(r"##(?=\w*\[)")
"""A command of a runner of GitHub or Azure, wherever it stands in a line."""
AT_BEGIN = re.compile(r"(^|\s)::")
"""One of GitHub's at the beginning of a line, which a wrapped one may get."""


def clean(text: str) -> str:
    """The text on one line: what would move a cursor, change a colour, reorder the line or command a runner stands as its escape."""
    shown = "".join(map(_visible, text))
    return AT_BEGIN.sub(r"\1\\x3a:", COMMAND.sub(r"#\\x23", shown))


def _visible(c: str) -> str:
    if unicodedata.category(c) in HIDDEN:
        return f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"
    return c


__all__ = ["clean"]
