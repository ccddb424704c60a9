"""Complex values: entries are bounded in modulus, so that products and norms read as for real ones."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.bounds.axes import atoms, plain, sizes
from screen.calculi.bounds.expr import mul, num
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import Bound, Fact, tidy
from screen.calculi.bounds.pointwise import added, multiplied
from screen.calculi.bounds.value import Value, constant, recut
from screen.graph import Node
from screen.structure.types import Unknown


@row("view_as_complex")
def as_complex(walk: Walk, node: Node) -> Value:
    """(re, im) of the last axis as one modulus: norms that held the pair lose its atom, others cost √2."""
    value = walk.first(node)
    if value.shape[-1:] != (2,) or value.holes:
        raise NotUnderstood("a last axis that is no pair")
    pair = atoms(value.layout, -1)[0]
    layout = value.layout[:-1]

    def joined(bound: Bound) -> Bound:
        if isinstance(bound, Unknown):
            return bound
        return tidy((Fact(mul(num(1.0 if pair in f.inner | f.outer else 2**0.5), f.bound), f.inner - {pair}, f.outer - {pair}) for f in bound),
                    sizes(layout))  # a sum of sizes is no less than their 2-norm

    return replace(value.bare(), shape=value.shape[:-1], layout=layout, mag=joined(value.mag), der=joined(value.der), low=float("-inf"),
                   high=float("inf"))


@row("view_as_real")
def as_real(walk: Walk, node: Node) -> Value:
    """The modulus is the 2-norm of (re, im)."""
    value = walk.first(node)
    pair = len(value.flat)

    def apart(bound: Bound) -> Bound:
        if isinstance(bound, Unknown):
            return bound
        return tuple(Fact(f.bound, f.inner | {pair}, f.outer) for f in bound)  # a sum of moduli is no less than their 2-norm

    return replace(value.bare(), shape=(*value.shape, 2), layout=(*value.layout, (2,)), mag=apart(value.mag), der=apart(value.der),
                   low=float("-inf"), high=float("inf"))


@row("complex")
def of_parts(walk: Walk, node: Node) -> Value:
    """re + i·im: of a modulus of at most the sum of theirs."""
    real, imaginary = walk.first(node), walk.operand(node, 1, "imag")
    if not isinstance(imaginary, Value):
        raise NotUnderstood("parts that are no values")
    return replace(added(walk, real.bare(), imaginary.bare()), low=float("-inf"), high=float("inf"))


@row("polar")
def polar(walk: Walk, node: Node) -> Value:
    """a·e^{iθ} for constants: of modulus |a|."""
    size = walk.first(node)
    angle = walk.operand(node, 1, "angle")
    if not isinstance(angle, Value) or any(not isinstance(v.der, tuple) or any(str(f.bound) != "0" for f in v.der) for v in (size, angle)):
        raise NotUnderstood("angles that depend on the stream")
    made = multiplied(walk, size, constant(angle.shape, 1.0, 1.0))
    return replace(recut(made, plain(made.shape), made.shape, walk.names), low=float("-inf"), high=float("inf"))
