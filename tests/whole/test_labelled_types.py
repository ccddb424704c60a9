"""Models of transformers whose labels are in the project (`tests/libraries/labels`): types that were read wrongly once, small."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="the labels are of models of transformers")

from tests.libraries.labels import Label, found, labels, report_of, score

LABELS = [label for label in labels() if label["library"] == "transformers"]


def _tried(label: Label) -> object:
    """What is still misread has its reason in the label, and stops being so by a change of that line alone."""
    marks = [pytest.mark.xfail(reason=label["misread"], strict=True)] if "misread" in label else []
    return pytest.param(label, id=str(label["id"]), marks=marks)


@pytest.mark.by_the_day
@pytest.mark.parametrize("label", [_tried(label) for label in LABELS])
def test_every_field_is_right(label: Label) -> None:
    result = score(label, found(report_of(label), label))
    assert {name: (wanted, value) for name, (word, wanted, value) in result.items() if word != "right"} == {}


def test_labels_name_the_lines_that_they_are_read_off() -> None:
    assert LABELS and all(label["source"] and ".py:" in label["source"][0] for label in LABELS)
