"""Awkward blocks: what is said about each must be its hand-made truth, or a clean `unknown` where the table tolerates one."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
import torch

from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph import lint
from tests.awkward.reading import in_order
from tests.awkward.table import CASES, Case


def facts_of(case: Case) -> Facts:
    """Build on meta, trace, derive."""
    with torch.device("meta"):
        model = case.make().eval()
    graph = trace(model, case.arguments(), {})
    assert lint(graph) == []
    return derive(graph)


def fits(found: list[str], truth: tuple[str, ...], tolerant: bool) -> bool:
    """Every sublayer is the truth's, or, if that is tolerated, has an unknown placement."""
    if tolerant and found and all(":unknown" in text for text in found):
        return True
    return len(found) == len(truth) and all(
        fnmatchcase(text, wanted) or (tolerant and ":unknown" in text) for text, wanted in zip(found, truth, strict=True)
    )


@pytest.mark.by_the_day
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_truth(case: Case) -> None:
    facts = facts_of(case)
    failure = facts.graph.failure
    if failure is not None:
        assert case.tolerated, failure
        assert failure.message and failure.line
        return
    found = [in_order(stream) for stream in facts.streams]
    readings = [case.streams, *([(case.alternative,)] if case.alternative else [])]
    tolerant = bool(case.tolerated)
    right = any(
        (case.others or len(found) == len(reading)) and all(any(fits(stream, truth, tolerant) for stream in found) for truth in reading)
        for reading in readings
    )
    assert right, f"expected {' | '.join(' , '.join(s) for s in case.streams)}\nfound    {' | '.join(' , '.join(s) for s in found)}"
    unknown = any(":unknown" in text for stream in found for text in stream)
    if tolerant and unknown:
        return
    ends = facts.streams[0].embed_norm, facts.streams[-1].final_norm
    assert case.embed in (None, ends[0]) and case.final in (None, ends[1]), f"embedding and final norm: {ends}"
    sublayers = facts.streams[0].kinds[0].sublayers
    assert tuple(s.m.maps for s in sublayers[: len(case.maps)]) == case.maps
    assert all(s.norm_type == case.norm_type for s in sublayers) or not case.norm_type, [s.norm_type for s in sublayers]


def test_one_sided_qk_norm_is_told_apart() -> None:
    """Queries are normalised, keys are not: neither side speaks for the other."""
    case = next(case for case in CASES if case.name == "one-sided qk-norm")
    [attention] = facts_of(case).streams[0].kinds[0].sublayers
    assert (attention.q_norm, attention.k_norm) == ("per_head", "none")


def test_long_skips_are_no_branches() -> None:
    """A U-Net's three long skips are found as such."""
    case = next(case for case in CASES if case.name == "long skips")
    assert len(facts_of(case).streams[0].long_skips) == 3


def test_names_of_cases_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 25
