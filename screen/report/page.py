"""A rule's page: what it checks, why, what it assumes, its source, and its examples, as Markdown. Nothing here imports torch."""

from __future__ import annotations

import re
import textwrap

from screen.rule import Example, LoadedRule
from screen.verdict.channels import CHANNELS

STEPS = {
    "structure": "structure",
    "well_posedness": "1 well-posedness",
    "forward": "2 forward",
    "backward": "3 backward",
    "uncertainty": "4 uncertainty",
}
EFFECTS = {
    "error": "a violation makes the verdict `unstable`",
    "warning": "a violation makes the verdict `conditional`",
    "note": "a violation changes no verdict",
}
LABELS = ("Why", "Assumes", "Cannot tell", "Source")


def render(loaded: LoadedRule) -> str:
    """The page, with a line feed at its end."""
    rule, sections = loaded.rule, split(loaded.doc)
    channel = f"{rule.channel} ({CHANNELS[rule.channel]})" if rule.channel else "none"
    lines = [
        f"# {rule.code} {rule.name}",
        "",
        sections["claim"],
        "",
        f"- step: {STEPS[rule.step]}",
        f"- channel: {channel}",
        f"- severity: {rule.severity} ({EFFECTS[rule.severity]})",
        f"- reads: {', '.join(f'`{need}`' for need in rule.needs)}",
        f"- source: {rule.source}",
    ]
    for label in LABELS:
        if label in sections:
            lines += ["", f"## {label}", "", sections[label]]
    groups = (("Holds", loaded.holds), ("Violates", loaded.violates), ("Cannot tell", loaded.cannot_tell))
    lines += ["", "## Examples"]
    for title, examples in groups:
        for example in examples:
            lines += ["", *_example(title, example)]
    return "\n".join(lines) + "\n"


def split(doc: str) -> dict[str, str]:
    """The docstring's parts: `claim` (before the first label), then what stands after `Why:`, `Assumes:`, `Cannot tell:`, `Source:`."""
    pieces = re.split(rf"^({'|'.join(LABELS)}):\s", textwrap.dedent(doc).strip(), flags=re.MULTILINE)
    sections = {"claim": pieces[0].strip()}
    for label, body in zip(pieces[1::2], pieces[2::2], strict=True):
        sections[label] = _capital(body.strip())
    return sections


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _example(title: str, example: Example) -> list[str]:
    stacked = ["", "`Block` is stacked four times and followed by a `LayerNorm`."] if example.stacked else []
    return [f"### {title}: {example.title}", "", "```python", example.code.strip("\n"), "```", *stacked]


__all__ = ["render", "split"]
