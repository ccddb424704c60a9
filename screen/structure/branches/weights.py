"""Which nodes of a branch hold a weight of their own, and which nodes cut a value into parts."""

from __future__ import annotations

from screen.structure.branches.branch import Branch
from screen.structure.dataflow import mask_of
from screen.structure.tables import is_looked_up, is_map_of_each


def weights_of(branch: Branch, *, filters: bool = True) -> list[int]:
    """Weighted ops with a full matrix of their own, in order: no lookups, no depthwise filters."""
    flow = branch.flow
    found = []
    for index in branch.region:
        node = flow.graph.nodes[index]
        if not flow.weighted[index] or node.op in ("embedding", "embedding_bag", "getitem", "index_select", "gather", "index"):
            continue
        if is_table(branch, index):
            continue
        if node.op.startswith("conv") and (is_depthwise(branch, index) or (not filters and is_filter(branch, index))):
            continue
        found.append(index)
    return found


def is_filter(branch: Branch, index: int) -> bool:
    """A convolution over several tokens beside an attention: it pools keys, it is no projection."""
    node = branch.flow.graph.nodes[index]
    shape = branch.flow.graph.nodes[node.inputs[1]].shape if len(node.inputs) > 1 else None
    return shape is not None and any(n > 1 for n in shape[2:])


def is_depthwise(branch: Branch, index: int) -> bool:
    node = branch.flow.graph.nodes[index]
    shape = branch.flow.graph.nodes[node.inputs[1]].shape if len(node.inputs) > 1 else None
    return shape is not None and len(shape) > 2 and shape[1] == 1 and shape[0] > 1


def is_slice(branch: Branch, node: int) -> bool:
    here = branch.flow.graph.nodes[node]
    cut = branch.flow.classes[node] == "part" and here.shape is not None and here.op not in ("tril", "triu", "diagonal")
    return cut and not _cuts_tokens(branch, node)


def _cuts_tokens(branch: Branch, node: int) -> bool:
    """Whether a slice leaves all features: what it shortens is known to hold tokens or samples (words and entities of one sequence)."""
    above = branch.flow.graph.nodes[node].inputs[0]
    old, new = branch.flow.graph.nodes[above].shape, branch.flow.graph.nodes[node].shape
    if old is None or new is None or len(old) != len(new):
        return False
    shorter = [i - len(old) for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return bool(shorter) and all(branch.norms.features.spans_others(above, (axis,)) for axis in shorter)


def slices_of(branch: Branch) -> int:
    """All of them in the branch, as a mask."""
    return mask_of(i for i in branch.region if is_slice(branch, i))


def is_table(branch: Branch, index: int) -> bool:
    """A product with rows looked up in a table (relative positions): a bias that depends on data, no map."""
    flow = branch.flow
    looked_up = (i for i in flow.graph.nodes[index].inputs if is_looked_up(flow, flow.root(i)))
    first = next(looked_up, None)
    return first is not None and flow.classes[index] == "product" and not is_map_of_each(flow, index, first)
