"""What is shown of somebody else's text: escapes that are read back as one character, and nothing that commands a runner."""

from __future__ import annotations

import pytest

from screen.visible import clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("α ≤ 2, plain", "α ≤ 2, plain"), ("\x1b[2J", r"\x1b[2J"), ("\xad", r"\xad"), ("a\nb", r"a\x0ab"), ("\u200b", r"\u200b"),
        ("\u2028", r"\u2028"), ("\ud800", r"\ud800"), ("##[error]", r"#\x23[error]"), ("##vso[task]", r"#\x23vso[task]"), ("## head", "## head"),
        ("::error::x", r"\x3a:error::x"), ("said ::error", r"said \x3a:error"), ("a::b", "a::b"),
    ],
)  # fmt: skip
def test_what_is_hidden_stands_as_its_escape(text: str, shown: str) -> None:
    assert clean(text) == shown
