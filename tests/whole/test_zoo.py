"""Every label of the shared zoo, one test each; `tests/conftest.py` prints the table and checks the shares at the end."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.shared import SHARED
from tests.zoo import Row, run, table
from tests.zoo_score import LABELS, PLACEMENTS, disputes, labels

UNTRAINED = {
    "granite": "its default config has no 1/√d: logits start with a root mean square of 19, and a model of width 512 and depth 32 that starts so has "
    "first over last gradients of 3e4 and 5e4 (two seeds)",
    "granitemoe": "as granite",
}
"""Models whose default config is none that was trained, and explodes at its start."""

_LABELS = labels() if LABELS.exists() else []


@pytest.mark.skipif(bool(_LABELS), reason="the labels are there")
def test_labels_are_there() -> None:
    pytest.skip(f"needs `../{LABELS.relative_to(SHARED.parent)}` beside the repository, which is not there")


@pytest.mark.by_the_day
@pytest.mark.parametrize("label", _LABELS, ids=lambda label: str(label["id"]))
def test_label(label: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    """The label's target builds and traces, is not called unstable, and no placement is wrong. The other fields count in the table's shares."""
    row = run(label)
    record_property("zoo", json.dumps(dataclasses.asdict(row)))
    assert not row.error, row.error
    assert not row.faults, row.faults
    assert (row.verdict == "unstable") is (row.id in UNTRAINED), row.reason  # all others were trained as their default config says
    wrong = [s for s in row.scores if s.field in PLACEMENTS and s.result in ("wrong", "missing")]
    assert not wrong, table([row])


def test_disputes_name_labels_and_fields() -> None:
    """A dispute gives what was found and the lines that show it, for a label that exists."""
    known = {label["id"]: label for label in _LABELS}
    for name, fields in disputes().items():
        assert not known or name in known, name
        for field, dispute in fields.items():
            assert set(dispute) == {"found", "evidence"} and dispute["evidence"], (name, field)


def test_an_unscored_label_counts_against_the_shares() -> None:
    """A label that cannot be built is an error in every field that it has, not a gap."""
    if not _LABELS:
        pytest.skip("needs the labels")
    text = table([Row("gpt2", error="does not build")])
    assert "does not build" in text and "0.0%" in text
