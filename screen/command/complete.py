"""What a shell completes besides commands and options. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import rich_click as click

Completer = Callable[[click.Context, click.Parameter, str], list[Any]]


def files(context: click.Context, parameter: click.Parameter, begun: str) -> list[Any]:
    """Files, as for a target."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]


def one_of(words: Callable[[], Iterable[str]]) -> Completer:
    """The words that begin so."""
    return lambda context, parameter, begun: [word for word in words() if word.startswith(begun)]


def rules() -> list[str]:
    """Codes of rules."""
    from screen.verdict.discover import catalogue

    return [found.rule.code for found in catalogue().rules]


def recipes() -> list[str]:
    """Named recipes."""
    from screen.recipe.presets import names

    return list(names())


def gates() -> list[str]:
    """What `--fail-on` takes."""
    from screen.settings import FAIL_ON

    return [*FAIL_ON, *rules()]


def formats() -> list[str]:
    """Formats of reports."""
    from screen import plugins
    from screen.settings import FORMATS

    return sorted({*plugins.own(FORMATS), *plugins.foreign(FORMATS)})


def terms() -> list[str]:
    """What `screen explain` explains, of one word."""
    from screen.report.glossary import words

    return [word for word in words() if " " not in word]


__all__ = ["files", "formats", "gates", "one_of", "recipes", "rules", "terms"]
