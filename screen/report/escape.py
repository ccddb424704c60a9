"""Any text as Markdown, where none of its signs may count."""

from __future__ import annotations

import re
from html import escape

from screen.report.links import Links
from screen.visible import clean

SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
LINKED = re.compile(r"@(?=\w)|(?<!&)#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)|\bmailto:|(?:[!%~$]|&amp;|&#(?:36|126);)(?=\d)", re.IGNORECASE)
"""What stands before the rest of something that is made a link (on GitLab merge requests, milestones, labels, snippets and epics too); an entity
(`&#95;`) is none."""
BLOCK = re.compile(r"^(\s*\d*)([-+#.)](?=[\s#]|$)|[-=]{2})")
"""What begins a heading, a list, a rule or an underlining where it stands first."""
SPAN = re.compile(r"`([^`]+)`")


class Safe(str):
    """Text that is Markdown already."""


def text(value: object) -> str:
    """A value as Markdown on one line: `…` becomes a code span, everything else is escaped, `&`, `<` and `>` as entities."""
    if isinstance(value, Safe):
        return value
    return BLOCK.sub(r"\1\\\2", "".join(code(part) if inside else _escaped(part) for inside, part in parts(value)))


def linked(value: object, links: Links) -> Safe:
    """The same, and words of the glossary lead to their entry on the same page."""
    return Safe(links.joined(parts(value), _escaped, code, lambda shown, anchor: f"[{shown}](#{anchor})"))


def parts(value: object) -> list[tuple[bool, str]]:
    """The text in pieces: (whether it stood between backticks, the piece without them)."""
    return [(i % 2 == 1, part) for i, part in enumerate(SPAN.split(str(value)))]


def _escaped(part: str) -> str:
    return _unlinked(SPECIAL.sub(r"\\\1", escape(clean(part), quote=False)))


def _unlinked(made: str) -> str:
    """GitHub and GitLab make links of mentions, issues and addresses whatever is escaped, but not across a comment."""
    return LINKED.sub(r"\g<0><!-- -->", made)


def code(value: object) -> Safe:
    """A code span: fenced by more backticks than it holds, `|` escaped because it may stand in a table."""
    inner = clean(str(value)).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", inner)), default=0) + 1)
    pad = " " if inner.startswith("`") or inner.endswith("`") else ""
    return Safe(f"{fence}{pad}{inner}{pad}{fence}")


def html(value: object) -> Safe:
    """Text inside an HTML element, on one line, where Markdown's signs must not count either; `…` becomes `<code>`."""
    return Safe("".join(f"<code>{_entities(part)}</code>" if inside else _entities(part) for inside, part in parts(value)))


def _entities(part: str) -> str:
    return _unlinked(re.sub(r"[`*_\[\]|~$\\]", lambda m: f"&#{ord(m.group())};", escape(clean(part))))


__all__ = ["Safe", "code", "html", "linked", "parts", "text"]
