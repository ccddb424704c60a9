"""Tensors made in the trace, and what is known of their entries."""

from __future__ import annotations

import math

from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.rules.view import resized
from screen.calculi.bounds.value import Value, constant
from screen.graph import Node
from screen.structure.dataflow import number
from screen.structure.initial.values import LITERALS


@row("zeros zeros_like new_zeros zero")
def zeros(walk: Walk, node: Node) -> Value:
    """0."""
    return constant(node.shape or (), 0.0, 0.0)


@row("ones ones_like new_ones")
def ones(walk: Walk, node: Node) -> Value:
    """1."""
    return constant(node.shape or (), 1.0, 1.0)


@row("eye")
def eye(walk: Walk, node: Node) -> Value:
    """0 and 1."""
    return constant(node.shape or (), 0.0, 1.0)


@row("full full_like new_full fill")
def full(walk: Walk, node: Node) -> Value:
    """One number everywhere; −∞ and very negative numbers are known to be masks."""
    given = [number(a) for a in (*node.args, node.kwarg("fill_value"), node.kwarg("value")) if number(a) is not None]
    if not given or given[-1] is None or math.isnan(given[-1]):
        raise NotUnderstood("a number that is not known")
    return constant(node.shape or (), given[-1], given[-1])


@row("scalar_tensor tensor as_tensor new_tensor")
def scalar(walk: Walk, node: Node) -> Value:
    """A number as a tensor."""
    value = number(walk.flow.operand(node, LITERALS[node.op], "data", "s"))
    if value is None or node.shape not in ((), (1,)):
        raise NotUnderstood("a number that is not known")
    return constant(node.shape, value, value)


@row("arange")
def arange(walk: Walk, node: Node) -> Value:
    """The first of them, one step after the other, and the last."""
    ends = [n for n in (number(a) for a in node.args) if n is not None]
    if not ends or len(ends) != len([a for a in node.args if number(a) is not None]) or len(node.args) != len(ends):
        raise NotUnderstood("ends that are not known")
    if node.shape is None:
        raise NotUnderstood("how many there are is not known")
    first, step = ends[0] if len(ends) > 1 else 0.0, ends[2] if len(ends) > 2 else 1.0
    last = first + step * max(math.prod(node.shape) - 1, 0)
    return constant(node.shape, min(first, last), max(first, last))


@row("tril triu")
def triangle(walk: Walk, node: Node) -> Value:
    """Some entries are set to 0: no norm grows."""
    value = walk.first(node)
    return resized(value, value.shape, walk)
