"""`sublayer.formulas()`: the bounds of a report as `sympy.Expr`, and its LaTeX in Markdown, both equal to what the report's own evaluator gives."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys

import pytest
import sympy

import screen
from screen.calculi.analysis import Analysis
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.quantities import _SUFFIX
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.report.formulas import formula
from screen.report.printers import NORMS, latex, plain, symbol
from tests.shared import ROOT
from tests.soundness.grammar import distinct
from tests.soundness.model import build, example


MACROS = {
    "frac", "sqrt", "left", "right", "min", "max", "sum", "lVert", "rVert", "lvert", "rvert", "langle", "rangle", "mathrm", "infty", "to", "cdot",
    "sigma", "theta", "Gamma",
}  # fmt: skip
"""What MathJax knows as GitHub has it."""


def read(written: str, symbols: tuple[str, ...]) -> str:
    """The LaTeX of a formula as Python."""
    for place, name in sorted(enumerate(symbols), key=lambda item: -len(symbol(item[1]))):
        written = written.replace(symbol(name), f"v{place}w")
    for pattern, shown in ((r"\\left", ""), (r"\\right", ""), (r"\\cdot", "*"), (r"\\(min|max)", r"\1")):
        written = re.sub(pattern, shown, written)
    before = ""
    while before != written:
        before = written
        written = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", written)
        written = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", written)
        written = re.sub(r"\^\{([^{}]*)\}", r"**(\1)", written)
    return re.sub(r"(?<=[\w)]) (?=[\w(])", "*", written)


@pytest.mark.by_the_day
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
                space = {f"v{place}w": values[name] for place, name in enumerate(own.symbols())}
                again = eval(read(latex(own.sympy(limit)), own.symbols()), {"min": min, "max": max, "sqrt": math.sqrt}, space)
                assert again == pytest.approx(number, rel=1e-4)  # six digits
                space = {"Min": min, "Max": max, "sqrt": math.sqrt}
                assert eval(plain(own.sympy(limit)), space, values) == pytest.approx(number, rel=1e-4)


@pytest.mark.by_the_day
def test_of_a_report() -> None:
    report = screen.check(str(ROOT / "examples" / "peri.py"), isolate=False)
    for stream in report.streams:
        for kind in stream.kinds:
            for sublayer in kind.sublayers:
                found = sublayer.formulas()
                assert all(isinstance(e, sympy.Expr) for e in found.values())
                known = {*sublayer.symbols, "B", "B_memory", "B_earlier", "Gamma", "C", "b", "n"}
                assert {str(s) for e in found.values() for s in e.free_symbols} - known <= {"theta_0"}  # a softmax's own, which no weight makes
    assert "bound" in found


def test_symbols_are_told_apart_and_every_norm_has_a_sign() -> None:
    assert set(NORMS) == {s.strip("_") for s in _SUFFIX.values()} | {"max", "exp"}
    names = [f"{base}_{kind}".rstrip("_") for base in ("W0", "W0n", "W1nW2n", "b0x") for kind in NORMS if kind != "l2"]
    names += ["g0_l2", "W0_absx", "W0_absxx", "B", "B_memory", "B_earlier", "sigma_0", "theta_0", "theta_10", "spread_0"]
    assert len({symbol(name) for name in names}) == len(names)
    assert symbol("W1nW2_max") == r"\lVert W_{1n} W_{2} \rVert_{2,\max}"


def test_markdown_has_latex_that_github_renders() -> None:
    """Every formula of the examples: in a fence or between $` and `$, of macros that are known there, with brackets in pairs, without a bar, which
    would end a cell of a table."""
    shown = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.md"))]
    fences = [f for text in shown for f in re.findall(r"^```math\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)]
    found = fences + [f for text in shown for f in re.findall(r"\$`(.*?)`\$", text)]
    assert len(fences) > 40
    for formula_ in found:
        assert set(re.findall(r"\\([A-Za-z]+)", formula_)) <= MACROS and not set("|`$\n") & set(formula_), formula_
        depth = [formula_[:i].count("{") - formula_[:i].count("}") for i in range(len(formula_) + 1)]
        assert min(depth) == 0 == depth[-1] and formula_.count(r"\left") == formula_.count(r"\right"), formula_


def test_hamiltonians() -> None:
    found = formula("Sum(sqrt(96)*Norm(C*Gamma*p(j)) - Inner(p(j), b), (j, 1, n))")
    assert isinstance(found, sympy.Sum) and str(found.variables) == "[j]"
    assert latex("Sum(Norm(Gamma*p(j)), (j, 1, n))") == r"\sum_{j=1}^{n} \lVert \Gamma p_{j} \rVert_{2}"


def test_letters_that_sympy_has_a_meaning_for() -> None:
    b, e, i = (sympy.Symbol(letter, nonnegative=True) for letter in "BEI")
    assert formula("2*B*E + I").free_symbols == {b, e, i}
    assert formula("u1 = sqrt(6)*W0\nMin(u1, 1e-05*B)").free_symbols == {sympy.Symbol("W0", nonnegative=True), sympy.Symbol("B", nonnegative=True)}


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="no expression"):
        formula("__import__('os').getcwd()")


@pytest.mark.by_the_day
def test_sympy_is_loaded_for_nothing_else() -> None:
    code = "import sys, screen; screen.check; import screen.report.formats.text, screen.report.formats.markdown; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
