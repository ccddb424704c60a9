"""`sublayer.formulas()`: the bounds of a report as `sympy.Expr`, equal to what the report's own evaluator gives."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import sympy

import screen
from screen.calculi.analysis import Analysis
from screen.calculi.bounds.expr import Expr
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.report.formulas import formula
from tests.shared import ROOT
from tests.soundness.grammar import distinct
from tests.soundness.model import build, example


@pytest.mark.parametrize("design", distinct(12, 11), ids=lambda d: d.line)
@pytest.mark.parametrize("limit", [400, 10])
def test_the_same_numbers(design: object, limit: int) -> None:
    """Every expression of a random block, written plainly and with named parts, at random values of its symbols."""
    facts = derive(run(build(design, "meta"), (example(design, "meta"),), {}).graph)  # type: ignore[arg-type]
    rng = random.Random(0)
    for analysis in facts.analyses.values():
        assert isinstance(analysis, Analysis)
        for own in (analysis.bounds.magnitude, analysis.bounds.lipschitz_local, *analysis.bounds.logits):
            if isinstance(own, Expr) and own.size < 400:
                found, values = formula(own.sympy(limit)), {name: rng.uniform(0.5, 2.0) for name in own.symbols()}
                assert {str(s) for s in found.free_symbols} <= set(values)
                symbols = sorted(found.free_symbols, key=str)
                number = sympy.lambdify(symbols, found, "math")(*(values[str(s)] for s in symbols))
                assert number == pytest.approx(own.evaluate(values), rel=1e-9)


def test_of_a_report() -> None:
    report = screen.check(str(ROOT / "examples" / "peri.py"), isolate=False)
    for stream in report.streams:
        for kind in stream.kinds:
            for sublayer in kind.sublayers:
                found = sublayer.formulas()
                assert all(isinstance(e, sympy.Expr) for e in found.values())
                known = {*sublayer.symbols, "B", "B_memory", "B_earlier"}
                assert {str(s) for e in found.values() for s in e.free_symbols} - known <= {"theta_0"}  # a softmax's own, which no weight makes
    assert "bound" in found


def test_letters_that_sympy_has_a_meaning_for() -> None:
    b, e, i = (sympy.Symbol(letter, nonnegative=True) for letter in "BEI")
    assert formula("2*B*E + I").free_symbols == {b, e, i}
    assert formula("u1 = sqrt(6)*W0\nMin(u1, 1e-05*B)").free_symbols == {sympy.Symbol("W0", nonnegative=True), sympy.Symbol("B", nonnegative=True)}


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="no expression"):
        formula("__import__('os').getcwd()")


def test_sympy_is_loaded_for_nothing_else() -> None:
    code = "import sys, screen; screen.check; import screen.report.text, screen.report.markdown; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
