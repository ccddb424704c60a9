"""What a team has looked at and lives with: findings of a baseline, and those that a comment in the model's file ignores.

A baseline is a JSON file of fingerprints (`screen.report.annotation`), written by `--update-baseline`. A comment is

    # screen: ignore[G103,R2] -- the head normalises what it reads

on a line of the call that a finding points at, or alone on the lines above it; codes (or their beginnings) and a reason are required. Neither
changes what a report says: both only keep a finding from failing the gate. With `--trusted-config` a comment counts where the same statement has it
in the commit that is trusted.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import stat
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from screen import tables
from screen.errors import UsageError
from screen.report.annotation import Annotation, annotations_of
from screen.report.schema import Report
from screen.report.source import LARGEST
from screen.trusted import Trusted

VERSION = "1"
COMMENT = re.compile(r"#\s*screen:\s*ignore\b(?P<rest>.*)")
WHOLE = re.compile(r"\[(?P<codes>[A-Z]\d{0,3}(?:\s*,\s*[A-Z]\d{0,3})*)\]\s+--\s+(?P<reason>\S.*)")


@dataclass
class Ignored:
    """One comment: what it says, and the lines that it is about."""

    file: str
    line: int
    codes: tuple[str, ...]
    reason: str
    lines: range
    statement: str = ""
    """The text of these lines."""
    used: bool = False


@dataclass
class Known:
    """What does not fail the gate."""

    baseline: frozenset[str] = frozenset()
    """Fingerprints."""
    comments: list[Ignored] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Comments that say no codes or no reason, in words."""
    count: int = 0
    """Findings that were known so far."""

    def holds(self, found: Annotation) -> bool:
        """Whether a finding is known; the comment that says so is marked as used."""
        by = [c for c in self.comments if c.file == found.file and found.line in c.lines and found.code.startswith(c.codes)]
        for comment in by:
            comment.used = True
        known = bool(by) or found.fingerprint in self.baseline
        self.count += known
        return known

    def complaints(self) -> list[str]:
        """Sentences about comments that are malformed, or that nothing was found for."""
        unused = [f"`{c.file}:{c.line}` ignores {', '.join(c.codes)}, and nothing of that was found there" for c in self.comments if not c.used]
        return [*self.faults, *unused]


def read_baseline(path: str, elsewhere: Trusted | None = None) -> frozenset[str]:
    """The fingerprints of a file, or of the file of that name in a commit. Raises `UsageError`."""
    try:
        text = elsewhere.text(path) if elsewhere is not None and elsewhere.commit else tables.text(Path(path))
        if text is None:
            raise FileNotFoundError
        document = json.loads(text)
        if isinstance(document, dict) and (version := document.get("schema_version", VERSION)) != VERSION:
            raise ValueError(f"its `schema_version` is {version!r}, and this `screen` reads {VERSION!r}")
        return frozenset(str(entry["fingerprint"]) for entry in document["findings"])
    except FileNotFoundError:
        raise UsageError("`--baseline` must name a file that exists", f"there is no `{path}`", "Make it with `--update-baseline`") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"`{path}` cannot be read: {type(error).__name__}: {error}"
        raise UsageError("`--baseline` must name a file that `--update-baseline` wrote", found, "Write it again with `--update-baseline`") from None


def baseline_of(reports: Iterable[Report]) -> str:
    """The text of a baseline: everything that was found, in the order of the reports."""
    entries = [
        {"fingerprint": a.fingerprint, "target": report.target.spec, "code": a.code, "file": a.file, "message": a.message}
        for report in reports if report.error is None for a in annotations_of(report)
    ]  # fmt: skip
    return json.dumps({"schema_version": VERSION, "findings": entries}, indent=2, sort_keys=True) + "\n"


def comments_of(files: Iterable[str], elsewhere: Trusted | None = None) -> tuple[list[Ignored], list[str]]:
    """Comments of these files that count, and what is wrong with the others; a file that is not here or is no Python has none. `files`: as reports
    name them, relative to the working directory. `elsewhere`: where a comment must stand too to count."""
    found: list[Ignored] = []
    faults: list[str] = []
    for file in dict.fromkeys(files):
        comments, wrong = _comments(file, _read(file))
        faults += wrong
        if elsewhere is not None:
            there = [c.statement for c in _comments(file, elsewhere.text(file) or "")[0]]
            for c in list(comments):
                if c.statement in there:
                    there.remove(c.statement)
                else:
                    faults.append(f"`{c.file}:{c.line}` ignores {', '.join(c.codes)}, which is not so in `{elsewhere.name}` and does not count")
                    comments.remove(c)
        found += comments
    return found, faults


def _read(file: str) -> str:
    """The text of a file in the encoding that Python reads it in. A graph may name what it likes: a device without an end, a line that nobody writes
    to."""
    try:
        found = Path(file).stat()
        data = Path(file).read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST else b""
        encoding = "utf-8"
        with contextlib.suppress(SyntaxError):  # bytes of another one in a comment: an import does not mind
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding, errors="replace").read()
    except (OSError, ValueError):  # a name with a null byte is a `ValueError`
        return ""


def _comments(file: str, text: str) -> tuple[list[Ignored], list[str]]:
    """The comments of one text, and what is wrong with some."""
    found: list[Ignored] = []
    faults: list[str] = []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline)) if "screen:" in text else []
    except (SyntaxError, tokenize.TokenError):
        return [], []
    at = text.split("\n")
    for comment, lines in _statements(tokens):
        match = COMMENT.match(comment.string)
        if match is None:
            continue
        said = WHOLE.match(match["rest"].strip())
        if said is None:
            faults.append(f"`{file}:{comment.start[0]}` must be `# screen: ignore[CODE] -- reason`; it is `{comment.string.strip()}`")
        else:
            codes = tuple(code.strip() for code in said["codes"].split(","))
            statement = "\n".join(at[line - 1].strip() for line in lines)
            found.append(Ignored(file, comment.start[0], codes, said["reason"].strip(), lines, statement))
    return found, faults


def _statements(tokens: list[tokenize.TokenInfo]) -> list[tuple[tokenize.TokenInfo, range]]:
    """Every comment with the lines of its statement: the one that it stands in, or the next one where it stands alone."""
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    made: list[tuple[tokenize.TokenInfo, range]] = []
    waiting: list[tokenize.TokenInfo] = []
    first: int | None = None
    for token in tokens:
        if token.type == tokenize.COMMENT:
            waiting.append(token)
        elif token.type not in empty and first is None:
            first = token.start[0]
        elif token.type == tokenize.NEWLINE and first is not None:
            lines = range(min([first, *(c.start[0] for c in waiting)]), token.start[0] + 1)
            made += [(comment, lines) for comment in waiting]
            waiting, first = [], None
    return made + [(comment, range(comment.start[0], comment.start[0] + 1)) for comment in waiting]


__all__ = ["Ignored", "Known", "baseline_of", "comments_of", "read_baseline"]
