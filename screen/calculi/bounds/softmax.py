"""Every softmax of a branch with the bound of its logits: attention, poolings, routers, in one call or written out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from screen.calculi.bounds.boundedness import Breaker, boundedness, is_finite, is_free
from screen.calculi.bounds.expr import Expr, add
from screen.calculi.bounds.growth import LOST, Growth, State
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.value import Value
from screen.graph import numel
from screen.structure.branches.attention import Attention, Core
from screen.structure.dataflow import nodes_of
from screen.structure.logits import added, compared, is_product
from screen.structure.softmaxes import FUSED, Softmax, SoftmaxRole, role_of, softmaxes_of, uses_of
from screen.structure.types import Tri, Unknown


@dataclass(frozen=True)
class Beside:
    """Logits that are sums: products of queries and keys, and what is added to these and not known to be bounded over all weights."""

    products: Expr | Unknown
    """sup of the products."""
    added: Expr | Unknown
    """sup of the rest."""
    parameters: tuple[str, ...]
    """Those that lift the bound of the rest, each by itself."""


MAP = "the map that makes them"


@dataclass(frozen=True)
class SoftmaxBound:
    """One softmax of a branch."""

    node: int
    role: SoftmaxRole
    logits: Expr | Unknown
    """sup |logit|, before masks."""
    bounded: Tri
    """Over all weights given the norms' gains and temperatures: True by a finite bound, False by a witness."""
    breaker: int | None = None
    """Where it breaks."""
    held: frozenset[str] = frozenset()
    """Parameters that are held fixed as temperatures."""
    table: tuple[str, ...] = ()
    """Parameters that its logits are made of, where they read no data: shares that are the same whatever is read."""
    stored: bool = False
    """Of a `router`: what its shares weigh are trained numbers, whatever is read: stored patterns, and no experts."""
    beside: Beside | None = None
    """Of an attention: what is added to its products and is not bounded."""
    product: int | None = None
    """Of an attention that compares two values: where it does."""
    summed: tuple[int, ...] = ()
    """Where it compares others whose products are added to these."""
    mixing: tuple[str, ...] = ()
    """Matrices that map its products before the softmax (over heads, over places), and the parameters that make a factor of the data large."""
    made_by: tuple[str | None, str | None] = ("W_Q", "W_K")
    """What makes the queries and the keys that it compares: a map, or a parameter as it is (`` `query` ``); None for the data themselves. Of other
    roles what makes the logits, and None."""


def softmaxes(walk: Walk) -> tuple[SoftmaxBound, ...]:
    """All of the branch's region, and of the weights that it is computed with, in order."""
    features = walk.branch.norms.features
    found = softmaxes_of(walk.flow, sorted({*walk.branch.region, *_weights(walk)}))
    written = {i for s in found for i in (s.logits,) if i is not None}
    attention = Attention(walk.branch)
    cores = {c.node: c for c in attention.cores}
    roles = ((s, "attention" if s.node in cores else role_of(walk.flow, features, s)) for s in found if s.node not in written)
    made = (_compared(walk, s, _bounded(walk, s, role), cores.get(s.node)) for s, role in roles)
    return tuple(replace(s, summed=tuple(c.node for c in attention.added(cores[s.node]))) if s.node in cores else s for s in made)


def _compared(walk: Walk, softmax: Softmax, found: SoftmaxBound, core: Core | None) -> SoftmaxBound:
    """With what makes its logits: of an attention the place of its comparison, what maps that, and what is compared."""
    if found.role != "attention":
        return found if softmax.logits is None else replace(found, made_by=(_made_by(walk, softmax.logits, MAP), None))
    if core is None:
        products = [found.node] if walk.graph.nodes[found.node].op in FUSED else compared(walk.graph, found.node)[0]
        return replace(found, product=next((p for p in products if is_product(walk.graph, walk.graph.nodes[p])), None))
    found = replace(found, made_by=(_made_by(walk, core.q, "W_Q"), _made_by(walk, core.k, "W_K")))
    pair = Counter((core.q, core.k))
    pairs = (i for i in walk.branch.region if pair <= Counter(walk.graph.nodes[i].inputs))
    product = next((i for i in pairs if i == core.node or walk.flow.depends(core.node, i)), None)
    if product is None or product == core.node:
        return replace(found, product=core.node)
    return replace(found, product=product, mixing=tuple(dict.fromkeys(_mixing(walk, product, core.node, found.held))))


def _made_by(walk: Walk, value: int, letter: str) -> str | None:
    """Of queries or keys, as in `SoftmaxBound.made_by`."""
    flow, nodes = walk.flow, walk.graph.nodes
    if flow.data[value]:
        seen, stack = {value}, [value]
        while stack:
            here = stack.pop()
            if here in walk.branch.chains.on_streams:
                continue
            if flow.key[here]:
                return letter
            fresh = [i for i in nodes[here].inputs if flow.data[i] and i not in seen]
            seen.update(fresh)
            stack += fresh
        return None
    above = [n for n in nodes[: value + 1] if (flow.ancestors[value] | 1 << value) >> n.index & 1]
    names = [n.name for n in above if n.op == "parameter"]
    return f"`{names[0]}`" if len(names) == 1 and not any(flow.classes[n.index] in ("weighted", "product") for n in above) else letter


def _mixing(walk: Walk, product: int, softmax: int, held: frozenset[str]) -> Iterator[str]:
    nodes, flow = walk.graph.nodes, walk.flow
    for index in walk.branch.region:
        if not flow.depends(index, product) or not flow.depends(softmax, index):
            continue
        for other in (i for i in nodes[index].inputs if i != product and not flow.depends(i, product)):
            if flow.data[other] and nodes[index].op == "mul":
                yield from _lifting(walk, _size(walk, other), held)
            elif flow.classes[index] in ("weighted", "product") and sum(size > 1 for size in nodes[other].shape or ()) > 1:
                yield from _table(walk, other)


def _weights(walk: Walk) -> set[int]:
    """What the branch's values are computed with and no data reaches: weights and constants."""
    seen: set[int] = set()
    stack = [i for n in walk.branch.region for i in walk.flow.counting[n] if i not in walk.branch.members and not walk.flow.data[i]]
    while stack:
        here = stack.pop()
        if here not in seen and not walk.flow.data[here]:
            seen.add(here)
            stack.extend(walk.graph.nodes[here].inputs)
    return seen


def _bounded(walk: Walk, softmax: Softmax, role: SoftmaxRole) -> SoftmaxBound:
    logits = _logits(walk, softmax)
    bound = logits.norm() if isinstance(logits, Value) else logits
    bounded: Tri
    breaker: Breaker | None
    for of_maps in (True, False):  # held fixed as temperatures; where that decides nothing, the gain of a map is one of its weights
        held = temperatures(walk, softmax, of_maps)
        if softmax.logits is None:
            asked = lambda states: _of_call(walk, softmax.node, states)  # noqa: E731
            bounded, breaker = boundedness(walk, bound, softmax.node, asked, held)
        else:
            bounded, breaker = boundedness(walk, bound, _unmasked(walk, softmax.logits), besides=held)
        if not isinstance(bounded, Unknown):
            break
    proven = breaker.node if breaker is not None and breaker.proven else None
    beside = _beside(walk, softmax.node, held) if role == "attention" and bounded is not True else None
    above = softmax.logits if softmax.logits is not None else softmax.node
    return SoftmaxBound(softmax.node, role, bound, bounded, proven, held, _table(walk, above), role == "router" and _stored(walk, softmax), beside)


def _beside(walk: Walk, softmax: int, held: frozenset[str]) -> Beside | None:
    """What stands beside the products of an attention's logits, masks and other streams' values left out."""
    found = [i for i in added(walk.graph, softmax) if i in walk.branch.members or walk.flow.of_weights[i]]
    sizes = {i: _size(walk, i) for i in found}
    free = [i for i in found if not is_finite(walk, sizes[i], held) and boundedness(walk, sizes[i], i, besides=held)[0] is not True]
    if not free:
        return None
    node = walk.graph.nodes[softmax]
    products = node.inputs[:2] if node.op in FUSED else compared(walk.graph, softmax)[0]
    lifting = [name for i in free for name in (*_lifting(walk, sizes[i], held), *_table(walk, i))]
    return Beside(_total(walk, products), _total(walk, free), tuple(dict.fromkeys(lifting)))


def _size(walk: Walk, index: int) -> Expr | Unknown:
    found = walk.value(index)
    return found.norm() if isinstance(found, Value) else Unknown("it is several results", (index,))


def _total(walk: Walk, nodes: Sequence[int]) -> Expr | Unknown:
    """A bound of the sum of some values."""
    sizes = [_size(walk, index) for index in nodes]
    lost = next((size for size in sizes if isinstance(size, Unknown)), None)
    return add(*(size for size in sizes if isinstance(size, Expr))) if lost is None else lost


def _lifting(walk: Walk, bound: Expr | Unknown, held: frozenset[str]) -> list[str]:
    """Parameters, each of which makes a bound as large as one likes by itself."""
    if isinstance(bound, Unknown):
        return []
    symbols = bound.symbols()
    free = [s for s in symbols if (q := walk.names.quantities.get(s)) is not None and is_free(walk, s) and q.parameter not in held]
    return [walk.names.quantities[s].parameter for s in free if bound.log({**dict.fromkeys(symbols, 1.0), s: math.inf}) == math.inf]


def _stored(walk: Walk, softmax: Softmax) -> bool:
    """Whether all that shares weigh are trained numbers."""
    uses = uses_of(walk.flow, softmax.node)
    return bool(uses) and all(u.sums and u.value is not None and walk.flow.trained[u.value] and not walk.flow.data[u.value] for u in uses)


def _table(walk: Walk, above: int) -> tuple[str, ...]:
    """The parameters that a value is made of, where it is made of parameters alone."""
    if not walk.flow.trained[above]:
        return ()
    return tuple(dict.fromkeys(node.name for i in nodes_of(walk.flow.ancestors[above]) if (node := walk.graph.nodes[i]).op == "parameter"))


def _unmasked(walk: Walk, index: int) -> int:
    """Logits before what is added to them and is neither data nor weights."""
    while True:
        node = walk.graph.nodes[walk.behind(index)]
        moving = [i for i in node.inputs if walk.flow.data[i] or walk.flow.of_weights[i]]
        if node.op not in ("add", "masked_fill", "to") or len(moving) != 1 or len(node.inputs) > 2:
            return node.index
        index = moving[0]


_ARRANGES = frozenset({"masked_fill", "add", "expand", "unsqueeze", "getitem", "to", "contiguous", "clone"})
"""What leaves the axes behind that of a softmax as they are, where their sizes are the same."""


def temperatures(walk: Walk, softmax: Softmax, of_maps: bool = True) -> frozenset[str]:
    """Names of the parameters that only multiply data or weights, as one number for all features: of a call, of a head, of a token; or for all logits
    of one softmax, where each feature has a softmax of its own. `of_maps`: those that multiply a matrix of weights, too."""
    parameters = (n for n in walk.graph.nodes if n.op == "parameter")
    return frozenset(n.name for n in parameters if _is_temperature(walk, n.index, numel(n.shape or ()), softmax, of_maps))


def _is_temperature(walk: Walk, index: int, entries: int, softmax: Softmax, of_maps: bool) -> bool:
    if entries > max(walk.graph.nodes[index].shape or (1,)):
        return False
    met, stack = False, [index]
    while stack:
        here = stack.pop()
        for user in walk.graph.users[here]:
            node, shape = walk.graph.nodes[user], walk.graph.nodes[here].shape or ()
            others = [i for i in node.inputs if i != here and (walk.flow.data[i] or walk.flow.of_weights[i])]
            single = shape[-1:] in ((), (1,)) or _is_of_each(walk, node.index, shape, softmax)
            if node.op in ("mul", "div", "true_divide") and others and single and math.prod(shape) >= entries:
                if not of_maps and any(not walk.flow.data[i] and len(walk.graph.nodes[i].shape or ()) > 1 for i in others):
                    return False
                met = True
            elif not walk.flow.data[user]:
                stack.append(user)
            else:
                return False
    return met


def _is_of_each(walk: Walk, product: int, factor: tuple[int, ...], softmax: Softmax) -> bool:
    """Whether a product is the logits, repeated and masked, and the factor one number for each softmax: it does not run along their axis."""
    nodes, here = walk.graph.nodes, softmax.logits
    while here is not None and here != product:
        last = (nodes[here].shape or ())[softmax.axis :]
        if nodes[here].op not in _ARRANGES:
            return False
        made = (i for i in nodes[here].inputs if (walk.flow.depends(i, product) or i == product) and (nodes[i].shape or ())[softmax.axis :] == last)
        here = next(made, None)
    along = factor[softmax.axis] if len(factor) >= -softmax.axis else 1
    return here is not None and along == 1


def _logits(walk: Walk, softmax: Softmax) -> Value | Unknown:
    """As the softmax's own rule has noted them (before masks); else the value of their node."""
    noted = next((u for node, u in walk.logits if node == softmax.node), None)
    if noted is not None:
        return noted
    if softmax.logits is None:
        return Unknown(f"no bound for `{walk.graph.nodes[softmax.node].op}`", (softmax.node,))
    found = walk.value(softmax.logits)
    return replace(found, holes=False) if isinstance(found, Value) else Unknown("logits that are several results", (softmax.node,))


def _of_call(walk: Walk, index: int, states: dict[int, State]) -> State:
    """How the logits of a fused attention grow: with its queries, its keys or its mask, one of them alone."""
    node = walk.graph.nodes[index]
    places = ((0, "query"), (1, "key"), (3, "attn_mask"))
    moved = [states.get(i) for p, name in places if (i := walk.flow.ref(node, p, name)) is not None and states.get(i) is not None]
    if node.op not in FUSED or len(moved) != 1:
        return LOST if moved else None
    return moved[0] if isinstance(moved[0], Growth) else LOST


def opaque(walk: Walk) -> tuple[int, ...]:
    """Ops without a row that data pass: each may hold a softmax."""
    return tuple(i for i in walk.branch.region if walk.flow.classes[i] == "unmodelled" and walk.flow.data[i])


def verdict(found: tuple[SoftmaxBound, ...], hidden: tuple[int, ...]) -> Tri | None:
    """Whether all logits that weigh values are bounded: False where one has a witness, None where there is none at all (routers are none)."""
    counted = [s.bounded for s in found if s.role in ("attention", "pooling")]
    if any(b is False for b in counted):
        return False
    if hidden:
        return Unknown("an op without a row may hold a softmax", hidden)
    lost = next((b for b in counted if isinstance(b, Unknown)), None)
    return lost if lost is not None else True if counted else None


__all__ = ["Beside", "SoftmaxBound", "opaque", "softmaxes", "temperatures", "verdict"]
