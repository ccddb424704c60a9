"""Two operands on common atoms, after broadcasting."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from screen.calculi.bounds.axes import Layout, _edges, _is_chain, sizes
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.value import Value, recut


def common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Atoms of one axis that both can be cut into: all boundaries where they fit, else the shared ones."""
    if a == b:
        return a
    edges = sorted({*_edges(a), *_edges(b)})
    if not _is_chain(edges):
        edges = sorted(set(_edges(a)) & set(_edges(b)))
    return tuple(n // m for m, n in reversed(list(itertools.pairwise(edges))))


@dataclass(frozen=True)
class Aligned:
    """Operands cut to common atoms; each with the labels (positions in the result) of its atoms."""

    left: Value
    right: Value
    layout: Layout
    labels: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def flat(self) -> tuple[int, ...]:
        """Sizes of the result's atoms."""
        return sizes(self.layout)


def align(left: Value, right: Value, names: Names) -> Aligned | None:
    """Both operands of an entry-wise op; None when their shapes do not broadcast."""
    rank = max(len(left.shape), len(right.shape))
    groups: list[tuple[int, ...]] = []
    own: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
    labels: tuple[list[int], list[int]] = ([], [])
    position = 0
    for axis in range(rank):
        a, b = _axis(left, axis - rank), _axis(right, axis - rank)
        if a is not None and b is not None and a[0] != b[0] and 1 not in (a[0], b[0]):
            return None
        group = common(a[1], b[1]) if a and b and a[0] == b[0] else max((x for x in (a, b) if x), key=lambda x: x[0])[1]
        for side, here in enumerate((a, b)):
            if here is not None:
                present = here[0] != 1
                own[side].append(group if present else ())
                labels[side].extend(range(position, position + len(group)) if present else ())
        groups.append(group)
        position += len(group)
    return Aligned(
        recut(left, tuple(own[0]), left.shape, names), recut(right, tuple(own[1]), right.shape, names), tuple(groups),
        (tuple(labels[0]), tuple(labels[1])),
    )


def _axis(value: Value, axis: int) -> tuple[int, tuple[int, ...]] | None:
    """(size, atoms) of an axis counted from the last."""
    return (value.shape[axis], value.layout[axis]) if -axis <= len(value.shape) else None
