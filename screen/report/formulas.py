"""The expressions of a report as `sympy`, for programs that go on calculating with them.

They are built as they are written (`evaluate=False`): SymPy's own ordering of nested minima and maxima takes minutes on some, and the calculus has
simplified them already. `sympy.lambdify` turns one into a function.
"""

from __future__ import annotations

import ast

import sympy

from screen.report.schema_streams import SublayerPart


def formula(text: str) -> sympy.Expr:
    """An expression of a report. Its symbols are norms, hence not negative. Lines before the last one name sub-expressions: `u1 = …`. Raises
    `ValueError` for what no report holds."""
    *definitions, last = text.splitlines()
    named: dict[str, sympy.Expr] = {"oo": sympy.oo}
    for line in definitions:
        name, _, value = line.partition(" = ")
        named[name.strip()] = _built(ast.parse(value.strip(), mode="eval").body, named)
    return _built(ast.parse(last.strip(), mode="eval").body, named)


class Norm(sympy.Function):  # type: ignore[misc]
    """The 2-norm of a vector, in a Hamiltonian."""

    nargs = 1


class Inner(sympy.Function):  # type: ignore[misc]
    """The inner product of two vectors, in a Hamiltonian."""

    nargs = 2


_EXTREMES = {"Max": sympy.Max, "Min": sympy.Min}
_OF_VECTORS = {"Norm": Norm, "Inner": Inner, "p": sympy.Function("p")}


def _built(node: ast.expr, named: dict[str, sympy.Expr]) -> sympy.Expr:
    if isinstance(node, ast.Name):
        return named[node.id] if node.id in named else sympy.Symbol(node.id, nonnegative=True)
    if isinstance(node, ast.Constant):
        return sympy.sympify(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _flat(sympy.Mul, [sympy.Integer(-1), _built(node.operand, named)])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return sympy.Pow(_built(node.left, named), _built(node.right, named), evaluate=False)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return _flat(sympy.Mul, _factors(node, named))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return _flat(sympy.Add, _terms(node, named))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        called = node.func.id
        if called == "Sum" and len(node.args) == 2 and isinstance(node.args[1], ast.Tuple):
            return sympy.Sum(_built(node.args[0], named), tuple(_built(a, named) for a in node.args[1].elts))
        arguments = [_built(a, named) for a in node.args]
        if called == "sqrt" and len(arguments) == 1:
            return _root(arguments[0])
        if called in _EXTREMES:
            return _EXTREMES[called](*arguments, evaluate=False)
        if called in _OF_VECTORS:
            return _OF_VECTORS[called](*arguments, evaluate=False)
    raise ValueError(f"no expression of a report: `{ast.unparse(node)}`")


def _factors(node: ast.expr, named: dict[str, sympy.Expr]) -> list[sympy.Expr]:
    """Those of a product of any length, without ones."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left, named), *_factors(node.right, named)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        below = _built(node.right, named)
        return [*_factors(node.left, named), sympy.Pow(below, -1, evaluate=isinstance(below, sympy.Number))]
    found = _built(node, named)
    return [] if found == 1 else [found]


def _terms(node: ast.expr, named: dict[str, sympy.Expr]) -> list[sympy.Expr]:
    """Those of a sum of any length."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = _built(node.right, named)
        return [*_terms(node.left, named), right if isinstance(node.op, ast.Add) else _flat(sympy.Mul, [sympy.Integer(-1), right])]
    return [_built(node, named)]


def _flat(kind: type[sympy.Expr], parts: list[sympy.Expr]) -> sympy.Expr:
    """A sum or product as it is written; numbers alone are calculated."""
    return kind(*parts, evaluate=len(parts) < 2 or all(isinstance(p, sympy.Number) for p in parts))


def _root(inside: sympy.Expr) -> sympy.Expr:
    """√96 stays what it is, as it says the width; √16 is 4."""
    found = sympy.sqrt(inside) if isinstance(inside, sympy.Number) else None
    return found if isinstance(found, sympy.Number) else sympy.Pow(inside, sympy.Rational(1, 2), evaluate=False)


def formulas_of(sublayer: SublayerPart) -> dict[str, sympy.Expr]:
    """All that is known of one sublayer: `bound` (2-norm of a token that it adds, over all weights), `growth` (the same at given weights), `logits`,
    `lipschitz` and `lipschitz_local` (docs/theory.md, bounds), `hamiltonian`; what the symbols stand for is `sublayer.symbols`."""
    found = {
        "bound": sublayer.output_set.bound,
        "growth": sublayer.growth.expression,
        "logits": sublayer.logits.expression,
        "lipschitz": sublayer.lipschitz.expression,
        "lipschitz_local": sublayer.lipschitz.local,
        "hamiltonian": sublayer.output_set.hamiltonian,
    }
    return {name: formula(text) for name, text in found.items() if text not in (None, "infinite")}


__all__ = ["formula", "formulas_of"]
