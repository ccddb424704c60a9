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


_OPERATORS: dict[type[ast.operator], type[sympy.Expr]] = {ast.Add: sympy.Add, ast.Mult: sympy.Mul, ast.Pow: sympy.Pow}
_FUNCTIONS = {"Max": sympy.Max, "Min": sympy.Min}


def _built(node: ast.expr, named: dict[str, sympy.Expr]) -> sympy.Expr:
    if isinstance(node, ast.Name):
        return named[node.id] if node.id in named else sympy.Symbol(node.id, nonnegative=True)
    if isinstance(node, ast.Constant):
        return sympy.sympify(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return sympy.Mul(-1, _built(node.operand, named), evaluate=isinstance(node.operand, ast.Constant))
    if isinstance(node, ast.BinOp):
        left, right = _built(node.left, named), _built(node.right, named)
        plain = isinstance(left, sympy.Number) and isinstance(right, sympy.Number)
        if isinstance(node.op, ast.Sub):
            return sympy.Add(left, sympy.Mul(-1, right, evaluate=plain), evaluate=plain)
        if isinstance(node.op, ast.Div):
            return sympy.Mul(left, sympy.Pow(right, -1, evaluate=plain), evaluate=plain)
        if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](left, right, evaluate=plain)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [_built(a, named) for a in node.args]
        if node.func.id == "sqrt" and len(arguments) == 1:
            return sympy.sqrt(arguments[0], evaluate=isinstance(arguments[0], sympy.Number))
        if node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*arguments, evaluate=False)
    raise ValueError(f"no expression of a report: `{ast.unparse(node)}`")


def formulas_of(sublayer: SublayerPart) -> dict[str, sympy.Expr]:
    """All that is known of one sublayer: `bound` (2-norm of a token that it adds, over all weights), `growth` (the same at given weights), `logits`,
    `lipschitz` and `lipschitz_local` (docs/theory.md, bounds); what the symbols stand for is `sublayer.symbols`."""
    found = {
        "bound": sublayer.output_set.bound,
        "growth": sublayer.growth.expression,
        "logits": sublayer.logits.expression,
        "lipschitz": sublayer.lipschitz.expression,
        "lipschitz_local": sublayer.lipschitz.local,
    }
    return {name: formula(text) for name, text in found.items() if text is not None}


__all__ = ["formula", "formulas_of"]
