"""The expressions of a report for people, by SymPy's printers: LaTeX that GitHub renders, and plain text.

In LaTeX symbols are written as the norms that they stand for, without macros that GitHub refuses (`\\operatorname`). Floats have six digits in
both; the report's JSON has all of them, in the notation that `screen.calculi.bounds.expr.printing` writes and `screen.report.formulas` reads.
"""

from __future__ import annotations

import re
from functools import cache

import sympy
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from screen.report.formulas import formula
from screen.report.numbers import number

DIGITS = 6
NORMS = {
    "": r"\lVert %s \rVert_{2%s}",
    "max": r"\lVert %s \rVert_{2,\max%s}",
    "rss": r"\lVert %s \rVert_{2,\mathrm{rss}%s}",
    "taps": r"\lVert %s \rVert_{2,\mathrm{taps}%s}",
    "l2": r"\lVert %s \rVert_{2%s}",
    "fro": r"\lVert %s \rVert_{F%s}",
    "abs": r"\lvert %s \rvert_{\max%s}",
    "row": r"\lVert %s \rVert_{2\to\infty%s}",
    "l1": r"\lVert %s \rVert_{\infty\to\infty%s}",
    "exp": r"\lvert e^{%s} \rvert_{\max%s}",
}
"""What a symbol ends in (`screen.calculi.bounds.quantities`) -> the norm, around the parameter's letter, with a prime for each `x` after it."""
PARAMETER = re.compile(rf"((?:[Wgbc]\d+[nux]*)+)(?:_({'|'.join(filter(None, NORMS))})(x*))?")
GREEK = {"sigma": r"\sigma", "theta": r"\theta", "Gamma": r"\Gamma"}


def symbol(name: str) -> str:
    """`W0n_max` as ‖W₀ₙ‖₂,max, `sigma_0` as σ₀, `B_memory` as B with that word below it."""
    found = PARAMETER.fullmatch(name)
    if found is not None:
        letters = " ".join(f"{letter}_{{{rest}}}" for letter, rest in re.findall(r"([Wgbc])(\d+[nux]*)", found[1]))
        return NORMS[found[2] or ""] % (letters, "'" * len(found[3] or ""))
    letter, _, index = name.partition("_")
    head = GREEK.get(letter, letter if len(letter) == 1 else rf"\mathrm{{{letter}}}")
    return head + (f"_{{{index}}}" if index.isdigit() else rf"_{{\mathrm{{{index}}}}}" if index else "")


ORDER = {"order": "none"}
"""As a formula is written: for SymPy's printers, that is."""


class Latex(LatexPrinter):  # type: ignore[misc]
    """SymPy's, with norms for symbols."""

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        return symbol(expr.name)

    def _print_Float(self, expr: sympy.Float) -> str:
        return str(super()._print_Float(sympy.Float(expr, DIGITS)))

    def _print_Norm(self, expr: sympy.Expr) -> str:
        return rf"\lVert {self._print(expr.args[0])} \rVert_{{2}}"

    def _print_Inner(self, expr: sympy.Expr) -> str:
        return rf"\langle {self._print(expr.args[0])}, {self._print(expr.args[1])} \rangle"

    def _print_AppliedUndef(self, expr: sympy.Expr) -> str:
        return rf"{expr.func}_{{{self._print(expr.args[0])}}}"


class Plain(StrPrinter):  # type: ignore[misc]
    """SymPy's, with fewer digits."""

    def _print_Float(self, expr: sympy.Float) -> str:
        return number(float(expr), DIGITS)


@cache
def latex(text: str) -> str:
    """An expression of a report. Raises `ValueError` for what no report holds."""
    return str(Latex(ORDER).doprint(formula(text)))


@cache
def plain(text: str) -> str:
    """The same, in the signs of Python: on one line, whatever parts had names. Raises `ValueError` for what no report holds."""
    return str(Plain(ORDER).doprint(formula(text)))


__all__ = ["latex", "plain", "symbol"]
