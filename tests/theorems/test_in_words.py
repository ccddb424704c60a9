"""Lines of the report: the numbers in them are those of the calculators, and they stand only where their assumptions hold."""

from __future__ import annotations

import math

import pytest

from screen.theorems import in_words
from screen.theorems.growth import Sublayer, repeated
from tests.expected import report_of

pytestmark = pytest.mark.by_the_day


def _numbers(target: str, code: str) -> dict[str, object]:
    found = next(f for f in report_of(target).findings if f.code == code)
    return {k: v for k, v in found.numbers.items() if isinstance(v, str)}


def test_peri_norm_has_all_lines() -> None:
    """Twelve branches, width 96: rms at most 1 + 12, W_2 at most 2·12·√96·√n, and 2·√96·√n after the final norm."""
    forward, apart = _numbers("examples/peri.py", "R301"), _numbers("examples/peri.py", "R401")
    assert forward["forward bound"] == "rms at most 13 per token from a start of 1, at gains 1 and biases 0."
    assert "at most 13 (11)" in str(forward["Kan et al., theorem 4"]) and "at most 170.8 (12)" in str(forward["Kan et al., theorem 4"])
    assert f"at most {24 * math.sqrt(96):.4g}·√n over" in str(apart["Wasserstein"])
    assert f"{2 * math.sqrt(96):.4g}·√n in all" in str(apart["Wasserstein"])
    assert "is vacuous" in str(apart["generalisation"])


@pytest.mark.parametrize("target", ["examples/pre.py", "examples/post.py", "examples/none.py"])
def test_other_designs_have_none_of_them(target: str) -> None:
    """No bound over all weights, no number: pre-norm says only what K's theorem 3 is."""
    forward, apart = _numbers(target, "R301"), _numbers(target, "R401")
    assert not {"forward bound", "branch scale", "Kan et al., theorem 4"} & set(forward) and not apart
    assert ("Kan et al., theorem 3" in forward) is (target == "examples/pre.py")


@pytest.mark.parametrize("total", [9.5, 24.0, 200.0])
def test_the_branch_scale_meets_its_target(total: float) -> None:
    name, said = in_words.growth(total)[1]
    step = float(said.split("Δt = ")[1].split()[0])
    exact = (in_words.TARGET - 1) / total
    assert name == "branch scale" and step == pytest.approx(exact, rel=0.06)
    assert repeated(1.0, Sublayer(1.0, scale=total * exact), 1) == pytest.approx(in_words.TARGET)


def test_a_short_stream_needs_no_scale() -> None:
    assert [name for name, _ in in_words.growth(4.0)] == ["forward bound"]


def test_the_generalisation_bound_says_when_it_is_not_vacuous() -> None:
    assert "not vacuous" in in_words.generalising(2.0, 3)[0][1]
