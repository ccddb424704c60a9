"""What is said of small models is what stands in `tests/said`: else a bound became coarser, a guard no longer guards, a sentence has another number.

Where a change is meant, `python -m tests.expected --write` makes the record again, and the difference is there to be read."""

from __future__ import annotations

import pytest

from tests.said.record import SUBJECTS, differences, recorded


def holds(file: str, subject: str) -> None:
    found = list(differences(file, subject, SUBJECTS[file][subject]()))
    assert not found, "\n".join([*found, "run `python -m tests.expected --write` if that is meant"])


@pytest.mark.parametrize("subject", SUBJECTS["rows"])
def test_rows(subject: str) -> None:
    holds("rows", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["examples"])
def test_examples(subject: str) -> None:
    holds("examples", subject)


@pytest.mark.parametrize("subject", SUBJECTS["byhand"])
def test_byhand(subject: str) -> None:
    holds("byhand", subject)


@pytest.mark.parametrize("subject", SUBJECTS["risks"])
def test_risks(subject: str) -> None:
    holds("risks", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["blocks"])
def test_blocks(subject: str) -> None:
    holds("blocks", subject)


@pytest.mark.parametrize("subject", SUBJECTS["tables"])
def test_tables(subject: str) -> None:
    holds("tables", subject)


@pytest.mark.parametrize("subject", SUBJECTS["pairs"])
def test_pairs(subject: str) -> None:
    holds("pairs", subject)


@pytest.mark.parametrize("subject", SUBJECTS["changed"])
def test_changed(subject: str) -> None:
    holds("changed", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["crowds"])
def test_crowds(subject: str) -> None:
    holds("crowds", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["crossed"])
def test_crossed(subject: str) -> None:
    holds("crossed", subject)


@pytest.mark.parametrize("subject", SUBJECTS["direct"])
def test_direct(subject: str) -> None:
    holds("direct", subject)


@pytest.mark.parametrize("subject", SUBJECTS["edges"])
def test_edges(subject: str) -> None:
    holds("edges", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["drawn"])
def test_drawn(subject: str) -> None:
    holds("drawn", subject)


@pytest.mark.parametrize("subject", SUBJECTS["groups"])
def test_groups(subject: str) -> None:
    holds("groups", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["rounds"])
def test_rounds(subject: str) -> None:
    holds("rounds", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["small"])
def test_small(subject: str) -> None:
    holds("small", subject)


@pytest.mark.by_the_day
@pytest.mark.parametrize("subject", SUBJECTS["tried"])
def test_tried(subject: str) -> None:
    holds("tried", subject)


def test_every_subject_is_on_record_and_every_change_is_seen() -> None:
    assert {file: set(recorded(file)[1]) for file in SUBJECTS} == {file: set(subjects) for file, subjects in SUBJECTS.items()}
    assert [name for name, pieces in recorded("changed")[1].items() if not pieces] == []
