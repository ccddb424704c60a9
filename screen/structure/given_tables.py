"""Tables that forward is given and turns queries and keys by: x·c + r(x)·s, where c and s are arguments and nothing else is made of them.

They are taken as they are given: no weight and no state of a stream makes them larger. That they are cosines and sines is not taken for granted.
"""

from __future__ import annotations

from screen.structure.dataflow import Flow, strip

_SUMS = frozenset({"add", "sub"})
_ARRANGING = frozenset({"view", "part"})


def given_tables(flow: Flow) -> frozenset[int]:
    """Arguments that are such tables, and their views."""
    nodes = flow.graph.nodes
    found = {n.index: _uses(flow, n.index) for n in nodes if n.op == "input" and flow.is_float(n)}
    views = {i: seen for i, (seen, products) in found.items() if products}
    while True:
        table = {node: i for i, seen in views.items() for node in seen}
        left = {i: seen for i, seen in views.items() if all(_is_half(flow, product, i, table) for product in found[i][1])}
        if len(left) == len(views):
            return frozenset(table)
        views = left


def _uses(flow: Flow, argument: int) -> tuple[set[int], set[int]]:
    """An argument's views, and the products with what weights have made that it goes into; no products where it goes into anything else."""
    seen, products, waiting = {argument}, set[int](), [argument]
    while waiting:
        here = waiting.pop()
        for user in flow.graph.users[here]:
            node = flow.graph.nodes[user]
            others = [i for i in node.inputs if i != here]
            if flow.classes[user] in _ARRANGING or strip(flow, user) != user:
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
            elif node.op == "mul" and len(others) == 1 and flow.keys[others[0]]:
                products.add(user)
            else:
                return seen, set()
    return seen, products


def _is_half(flow: Flow, product: int, argument: int, table: dict[int, int]) -> bool:
    """Whether a product goes into sums alone, and into each beside a product with another table."""
    users = flow.graph.users[product]
    for user in users:
        node = flow.graph.nodes[user]
        beside = [flow.graph.nodes[i] for i in node.inputs if i != product]
        if node.op not in _SUMS or len(beside) != 1 or beside[0].op != "mul":
            return False
        if not any(table.get(i, argument) != argument for i in beside[0].inputs):
            return False
    return bool(users)


__all__ = ["given_tables"]
