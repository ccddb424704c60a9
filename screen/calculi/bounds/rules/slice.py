"""Parts and joins: slices, selections, splits, concatenations."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.bounds.axes import atoms, plain, sizes
from screen.calculi.bounds.interpreter import Multi, NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import relabel
from screen.calculi.bounds.rules.view import renewed, resized
from screen.calculi.bounds.value import Piece, Projection, Value, recut, reshaped, with_projection
from screen.graph import Node, Ref


def cut(walk: Walk, value: Value, source: int, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """A range of one axis: no norm grows. A projection keeps the rows that are left."""
    axis %= len(value.shape)
    count = max(0, -(-(stop - start) // step))
    shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
    if value.part is not None:
        return renewed(value, walk, value.part.sliced(axis, start, stop, step))
    if shape == value.shape and step == 1:
        return value
    made = resized(value, shape, walk)
    made = replace(made, low=value.low, high=value.high, holes=value.holes)
    narrowed = _narrowed(value, axis, start, stop, step)
    if narrowed is not None and len(made.layout[axis]) == 1:
        made = with_projection(made, narrowed, walk.names)
    return replace(made, piece=Piece(source, axis - len(shape), start, stop, step))


def _narrowed(value: Value, axis: int, start: int, stop: int, step: int) -> Projection | None:
    """The projection on a range of one of its atoms, when that atom is a whole axis."""
    projection, group = value.projection, atoms(value.layout, axis)
    if projection is None or len(group) != 1:
        return None
    if group[0] not in projection.atoms:
        return projection
    position = projection.atoms.index(group[0])
    bias = projection.bias.sliced(position, start, stop, step) if projection.bias is not None else None
    return replace(projection, weight=projection.weight.sliced(position, start, stop, step), bias=bias)


def pick(walk: Walk, value: Value, source: int, axis: int, index: int) -> Value:
    """One index of an axis."""
    axis %= len(value.shape)
    index %= value.shape[axis]
    one = cut(walk, value, source, axis, index, index + 1)
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    if one.part is not None:
        return renewed(one, walk, one.part.dropped(axis))
    layout = one.layout[:axis] + one.layout[axis + 1 :]
    kept = replace(one, shape=shape, layout=layout, piece=None)
    projection = _narrowed(value, axis, index, index + 1, 1) if value.shape[axis] != 1 else value.projection
    if projection is None:
        return replace(kept, projection=None)
    return _without_picked(walk, value, kept, projection, axis)


def _without_picked(walk: Walk, value: Value, kept: Value, projection: Projection, axis: int) -> Value:
    """Drop the picked atom (size 1 by now) from the projection; atoms after it move up."""
    gone = atoms(value.layout, axis)
    if value.shape[axis] == 1:
        return replace(kept, projection=projection)
    atom = gone[0]
    if atom in projection.atoms:
        position = projection.atoms.index(atom)
        left = tuple(a - (a > atom) for a in projection.atoms if a != atom)
        bias = projection.bias.dropped(position) if projection.bias is not None else None
        projection = replace(projection, weight=projection.weight.dropped(position), bias=bias, atoms=left)
    else:
        projection = replace(projection, atoms=tuple(a - (a > atom) for a in projection.atoms))
    return with_projection(replace(kept, projection=None), projection, walk.names) if projection.atoms else replace(kept, projection=None)


@row("select")
def select(walk: Walk, node: Node) -> Value:
    """`x.select(dim, index)`."""
    axis, index = walk.integer(node, 1, "dim"), walk.integer(node, 2, "index")
    if axis is None or index is None:
        raise NotUnderstood("its index is not known")
    return pick(walk, walk.first(node), node.inputs[0], axis, index)


@row("slice narrow")
def narrow(walk: Walk, node: Node) -> Value:
    """`x.narrow(dim, start, length)`, `aten.slice(x, dim, start, end, step)`."""
    value, axis = walk.first(node), walk.integer(node, 1, "dim") or 0
    start, last = walk.integer(node, 2, "start"), walk.integer(node, 3, "length", "end")
    size = value.shape[axis]
    begin = (start or 0) if (start or 0) >= 0 else size + (start or 0)
    end = begin + (last or 0) if node.op == "narrow" else size if last is None else min(last if last >= 0 else size + last, size)
    return cut(walk, value, node.inputs[0], axis, begin, end, walk.integer(node, 4, "step") or 1)


@row("split split_with_sizes tensor_split chunk unbind")
def split(walk: Walk, node: Node) -> Multi:
    """Consecutive parts along an axis (last argument `dim`, 0 when it is not given)."""
    value = walk.first(node)
    if node.op == "unbind":
        axis = walk.integer(node, 1, "dim") or 0
        return tuple(pick(walk, value, node.inputs[0], axis, i) for i in range(value.shape[axis]))
    axis = walk.integer(node, 2, "dim") or 0
    given = walk.flow.operand(node, 1, "split_size_or_sections", "split_size", "split_sizes", "chunks", "sections", "indices_or_sections")
    size = value.shape[axis]
    if isinstance(given, tuple):
        counts = [n for n in given if isinstance(n, int)]
        if node.op == "tensor_split" or sum(counts) != size:
            raise NotUnderstood("its parts are not known")
    elif isinstance(given, int):
        step = given if node.op == "split" else -(-size // given)
        if node.op == "tensor_split" and size % given:
            raise NotUnderstood("its parts are not equal")
        counts = [min(step, size - at) for at in range(0, size, step)]
    else:
        raise NotUnderstood("its parts are not known")
    found, at = [], 0
    for n in counts:
        found.append(cut(walk, value, node.inputs[0], axis, at, at + n))
        at += n
    return tuple(found)


@row("getitem")
def getitem(walk: Walk, node: Node) -> Value:
    """Indexing by numbers, slices, None, `...` and tensors; or one result of several."""
    base = walk.value(node.inputs[0])
    index = node.args[1]
    if isinstance(base, tuple):
        if isinstance(index, int) and -len(base) <= index < len(base):
            return base[index]
        raise NotUnderstood("a result that is not known")
    if walk.graph.nodes[node.inputs[0]].shape is None:
        raise NotUnderstood("one of several results that are not known")
    items = index if isinstance(index, tuple) and (not index or index[0] != "slice") else (index,)
    used = sum(1 for i in items if i is not None and i != "...")
    value, axis = base, 0
    for item in items:
        if item == "...":
            axis += len(base.shape) - used
        elif item is None:
            value = _inserted(walk, value, axis)
            axis += 1
        elif isinstance(item, int) and not isinstance(item, bool):
            value = pick(walk, value, node.inputs[0], axis, item)
        elif isinstance(item, tuple) and item[:1] == ("slice",):
            value = _ranged(walk, node, value, axis, item)
            axis += 1
        elif isinstance(item, tuple) and len(item) == 1 and isinstance(item[0], int):
            first = item[0] % value.shape[axis]
            value = cut(walk, value, node.inputs[0], axis, first, first + 1)
            axis += 1
        elif isinstance(item, tuple) and item and all(isinstance(i, int) for i in item):
            value = _listed(walk, value, axis, len(item))
            axis += 1
        elif isinstance(item, Ref):
            return looked_up(walk, node, base)
        else:
            raise NotUnderstood("an index that is not known")
    return value


def _listed(walk: Walk, value: Value, axis: int, count: int) -> Value:
    """A list of indices, some of them perhaps twice: norms along the axis are lost (a sup over it stays)."""
    groups = tuple(g if i != axis else plain((value.shape[axis],))[0] for i, g in enumerate(value.layout))
    value = recut(value, groups, value.shape, walk.names)
    gone = frozenset(atoms(groups, axis))
    shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
    layout = tuple(g if i != axis else plain((count,))[0] for i, g in enumerate(groups))
    left = [a for a in range(len(value.flat)) if a not in gone]
    first = sum(len(g) for g in layout[:axis])
    names = {a: i if i < first else i + len(layout[axis]) for i, a in enumerate(left)}
    return replace(value.bare(), shape=shape, layout=layout, mag=relabel(value.mag, names), der=relabel(value.der, names))


def _inserted(walk: Walk, value: Value, axis: int) -> Value:
    if value.part is not None:
        return renewed(value, walk, value.part.inserted(axis))
    shape = (*value.shape[:axis], 1, *value.shape[axis:])
    return reshaped(value, shape, walk.names)


def _ranged(walk: Walk, node: Node, value: Value, axis: int, item: tuple[object, ...]) -> Value:
    if not all(i is None or isinstance(i, int) for i in item[1:]):
        raise NotUnderstood("a slice whose ends are tensors")
    start, stop, step = slice(*item[1:]).indices(value.shape[axis])
    return cut(walk, value, node.inputs[0], axis, start, stop, step)


@row("index index_select gather take_along_dim embedding take masked_select")
def lookup(walk: Walk, node: Node) -> Value:
    """Entries by index."""
    where = walk.operand(node, 1, "weight") if node.op == "embedding" else walk.first(node)
    if not isinstance(where, Value):
        raise NotUnderstood("no table")
    if node.op in ("index_select", "gather", "take_along_dim"):
        axis = walk.integer(node, 2 if node.op == "take_along_dim" else 1, "dim")
        if axis is None:
            raise NotUnderstood("its axis is not known")
        return looked_up(walk, node, where, axis)
    return looked_up(walk, node, where)


def looked_up(walk: Walk, node: Node, base: Value, axis: int | None = None) -> Value:
    """Entries of `base` by tensors: rows may come again, so that norms along an indexed axis are lost. Axes that stay whole are those at
    the end whose sizes agree when only leading axes are indexed; else the largest entry is all that is left."""
    shape = node.shape or ()
    indexed = [v for i in node.inputs for v in ([walk.one(i)] if not walk.flow.is_float(walk.graph.nodes[i]) else [])]
    jump = next((v.jump for v in indexed if v.jump is not None), base.jump)
    kept = 0
    if axis is None:
        leading = _leading(walk, node)
        kept = len(base.shape) - leading if leading is not None else 0
    elif node.op == "index_select":
        kept = len(base.shape) - 1 - axis % len(base.shape)
    if kept < 0 or shape[len(shape) - kept :] != base.shape[len(base.shape) - kept :]:
        kept = 0
    layout = (*plain(shape[: len(shape) - kept]), *base.layout[len(base.shape) - kept :])
    shift = len(sizes(layout)) - len(base.flat)
    first = len(sizes(base.layout[: len(base.shape) - kept]))
    names = {a: a + shift for a in range(first, len(base.flat))}
    plain_base = base.bare()
    return replace(plain_base, shape=shape, layout=layout, mag=relabel(base.mag, names), der=relabel(base.der, names), jump=jump,
                   holes=base.holes)


def _leading(walk: Walk, node: Node) -> int | None:
    """How many leading axes a plain index by tensors uses up (a mask as many as it has itself); None for mixed forms."""
    if node.op == "embedding":
        return 1
    index = node.args[1] if len(node.args) > 1 else None
    items = index if isinstance(index, tuple) and (not index or index[0] != "slice") else (index,)
    tensors = [i for i in items if isinstance(i, Ref)]
    if node.op not in ("getitem", "index") or list(items[: len(tensors)]) != tensors or len(items) != len(tensors):
        return None
    nodes = walk.graph.nodes
    return sum(len(nodes[i.node].shape or ()) if nodes[i.node].dtype == "bool" else 1 for i in tensors)
