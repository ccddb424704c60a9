"""Models of transformers whose labels are in the project (`tests/libraries/labels`): types that were read wrongly once, small."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="the labels are of models of transformers")

from tests.libraries.labels import Label, found, labels, report_of, score

LABELS = [label for label in labels() if label["library"] == "transformers"]


@pytest.mark.by_the_day
@pytest.mark.parametrize("label", LABELS, ids=lambda label: str(label["id"]))
def test_every_field_is_right(label: Label) -> None:
    result = score(label, found(report_of(label), label))
    assert {name: (wanted, value) for name, (word, wanted, value) in result.items() if word != "right"} == {}


def test_labels_name_the_lines_that_they_are_read_off() -> None:
    assert LABELS and all(label["source"] and ".py:" in label["source"][0] for label in LABELS)
