"""Errors say what is required, what was found and what to try, and cross processes unchanged."""

from __future__ import annotations

import pickle

import pytest

from screen.child.protocol import ProtocolError, error_fields, error_of
from screen.errors import InternalError, LimitError, LoadError, ScreenError, TraceError, UsageError, chain, rebuild

KINDS = {"usage": UsageError, "load": LoadError, "trace": TraceError, "limits": LimitError, "internal": InternalError}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("`x` must be 1", "it is 2", "Give 1"), "`x` must be 1; it is 2. Give 1."),
        (("`x` must be 1.", "it is 2.", "Give 1."), "`x` must be 1; it is 2. Give 1."),
        (("`x` must be 1", "it is 2", ""), "`x` must be 1; it is 2."),
        (("`x` must be 1", "it is 2", "Did you mean `y`?"), "`x` must be 1; it is 2. Did you mean `y`?"),
        (("`x` must be 1", "it is 2", "One of `a`, `b`, .."), "`x` must be 1; it is 2. One of `a`, `b`, ..."),
    ],
)
def test_text_has_the_form_of_the_contract(parts: tuple[str, str, str], text: str) -> None:
    assert str(UsageError(*parts)) == text


@pytest.mark.parametrize("stage", KINDS)
def test_an_error_crosses_a_frame_and_a_pickle_unchanged(stage: str) -> None:
    error = rebuild(stage, "a must", "b is", "try c", "f.py", 3, "Traceback")  # type: ignore[arg-type]
    assert type(error) is KINDS[stage]
    assert list(error_fields(error).values()) == [stage, "a must", "b is", "try c", *_place(stage), "Traceback"]
    for copy in (error_of(error_fields(error)), pickle.loads(pickle.dumps(error))):
        assert type(copy) is type(error)
        assert error_fields(copy) == error_fields(error)


def _place(stage: str) -> tuple[str | None, int | None]:
    """A fault of ours is nowhere in the user's code."""
    return (None, None) if stage == "internal" else ("f.py", 3)


def test_a_fault_of_ours_says_so_and_asks_for_a_report() -> None:
    text = str(InternalError("it raised `KeyError: 1`"))
    assert "fault of `screen`, not of your code" in text and "screen doctor" in text


def test_a_frame_with_another_stage_is_no_error() -> None:
    with pytest.raises(ProtocolError):
        error_of({"stage": "elsewhere", "required": "", "found": ""})


def test_every_kind_is_a_screen_error() -> None:
    assert all(issubclass(kind, ScreenError) for kind in KINDS.values())


def test_causes_that_go_in_a_circle_end() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert list(chain(first)) == [first, second]
