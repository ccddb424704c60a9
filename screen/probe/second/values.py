"""Values that both processes have: weights are drawn by their names, everything else is sent as text."""

from __future__ import annotations

from torch import Tensor

from screen.probe.plan.samples import SAME, apart
from screen.probe.plan.spot_types import Leaf, Sample
from screen.probe.second import outside
from screen.probe.second.outside import MOST, weight

def packed(node: int, value: Tensor) -> Leaf:
    """A value as text."""
    return Leaf(node, *outside.packed(value))


def unpacked(leaf: Leaf) -> Tensor:
    """What `packed` made. Raises `ValueError` for anything else."""
    return outside.unpacked(leaf.dtype, leaf.shape, leaf.data)


def sample(out: Tensor) -> Sample:
    """Entries of an output, at places that follow from its size; none of them where one of all is no finite number."""
    return Sample(*outside.sampled(out))


__all__ = ["MOST", "SAME", "apart", "packed", "sample", "unpacked", "weight"]
