"""What a branch reads from beyond its own stream: whether that grows with the depth of another stream, and which softmaxes stand in the whole
graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from screen.graph import Node
from screen.ops.scalars import of_degree
from screen.structure.branches.branch import Branch
from screen.structure.dataflow import Flow, mask_of, strip
from screen.structure.softmaxes import softmaxes_of, uses_of
from screen.structure.streams.reader import Reader
from screen.structure.types import Tri, Unknown

WRITTEN = "what stands there may be a softmax written out: exponentials over their sum, or a sigmoid of a difference"
EXPONENTIALS = frozenset({"exp", "exp2", "expm1"})
ACTIVATIONS = (of_degree("asymptotic") | of_degree("bounded")) - {"relu6", "hardtanh"}
"""Functions that are no clip."""
APART, SUMS = frozenset({"view", "part", "linear", "activation"}), frozenset({"add", "sub", "rsub", "lerp", "mv", "fold", "col2im"})
"""Classes of ops that make each entry of one entry of each operand, but for those that add up."""


CENTRED = frozenset({"layer_norm", "group_norm", "batch_norm", "instance_norm"})
"""Norms whose entries have either sign, whatever they read."""
GUARD = 1e-2
"""Numbers up to which are added for safety alone."""


def reads_growing(reader: Reader) -> bool:
    """Whether some branch reads a state of another stream behind that one's first branch, with no norm between, or a condition that each block makes
    of the one before. A stream that stands in a branch is one of those where another branch reads it too: an encoder of the same input."""
    chains, graph = reader.chains, reader.flow.graph
    others = [c for c in chains.streams if c is not reader.chain]
    behind = {n for c in others if not c.inner for n in c.nodes if n >= c.adds[0]}
    inner = {n for c in others if c.inner for n in c.nodes if n >= c.adds[0]}
    own = frozenset(reader.chain.nodes)
    for _, branch in reader.branches:
        if behind and _reaches(branch, branch.output, behind, own):
            return True
        sums = {n for n in inner & branch.members if any(branch.border(i) == "earlier" for i in graph.nodes[n].inputs)}
        if sums and _reaches(branch, branch.output, sums, own):
            return True
    return _is_made_in_blocks(reader)


SEVERAL = 4
"""Values in a row, each mapped from the one before, from which they are as many as there are blocks."""


def _is_made_in_blocks(reader: Reader) -> bool:
    """Whether what is met beside the stream is mapped by more and more weights, with no norm between, the later it is met."""
    flow, norms, source = reader.flow, reader.chains.edges.norms.by_node, reader.chain.nodes[0]
    maps, rises, most = [0] * len(flow.graph.nodes), 0, -1
    for node, inputs in enumerate(flow.counting):
        beside = [i for i in inputs if flow.data[i] and not flow.depends(i, source)]
        if not flow.depends(node, source):
            maps[node] = 0 if node in norms else max((maps[i] for i in beside), default=0) + flow.weighted[node]
        elif (here := max((maps[i] for i in beside), default=0)) > most:
            rises, most = rises + 1, here
    return rises > SEVERAL


def _reaches(branch: Branch, node: int, states: set[int], stops: frozenset[int] = frozenset()) -> bool:
    """Whether a value is made from some states, behind no norm and none of `stops`."""
    seen, stack = set(stops), [node]
    while stack:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        norm = branch.norms.by_node.get(here)
        if norm is not None and norm.of_tokens:
            continue
        if here in states:
            return True
        stack.extend(i for i in branch.flow.counting[here] if branch.flow.data[i])
    return False


def softmax_anywhere(flow: Flow) -> Tri:
    """Whether values are weighed, or chosen, by a softmax anywhere. The last one over classes weighs nothing."""
    graph = flow.graph
    if any(s.value is not None or uses_of(flow, s.node) for s in softmaxes_of(flow, range(len(graph.nodes)))):
        return True
    if graph.failure is not None:
        return Unknown("the forward did not run to its end")
    unread = tuple(n.index for n in graph.nodes if flow.classes[n.index] == "unmodelled" and flow.data[n.index])
    if unread:
        return Unknown(f"`{graph.nodes[unread[0]].op}` has no row in the op table, and may hold a softmax", unread)
    written = written_softmaxes(flow, [n.index for n in graph.nodes if flow.data[n.index] or flow.of_weights[n.index]])
    return Unknown(WRITTEN, written) if written else False


def written_softmaxes(flow: Flow, nodes: Iterable[int], sums: Callable[[], frozenset[int]] | None = None) -> tuple[int, ...]:
    """What may be a softmax that is written out: quotients whose divisor is made of exponentials, and the sigmoid of a difference of two values
    with its complement, a softmax over the two. `sums`: gives the sums of exponentials of the graph, where they are asked for more than once."""
    graph, chosen = flow.graph, sorted(nodes)
    pairs = tuple(i for i in chosen if graph.nodes[i].op == "sigmoid" and _is_of_two(flow, graph.nodes[i]))
    powers = mask_of(i for i in chosen if graph.nodes[i].op in EXPONENTIALS or _is_power(graph.nodes[i]))
    if not powers:
        return pairs
    divisors = [(i, _divisor(flow, graph.nodes[i])) for i in chosen if graph.nodes[i].op in ("div", "true_divide", "reciprocal")]
    near = [(i, divisor) for i, divisor in divisors if divisor is not None and flow.ancestors[divisor] & powers and not _is_one(flow, divisor)]
    summed = (sums() if sums is not None else _sums_of_exponentials(flow)) if near else frozenset()
    return (*(i for i, divisor in near if divisor in summed), *pairs)


def _sums_of_exponentials(flow: Flow) -> frozenset[int]:
    """What several exponentials are put together in, and what is made of that otherwise than by an activation: an exponential alone, or one that a
    net has mapped, normalises no shares, nor do exponentials that products of either sign are multiplied by. The exponential of their logarithm is
    they again."""
    alone, summed, logarithms, nodes = set[int](), set[int](), set[int](), flow.graph.nodes
    exponentials = {n.index for n in nodes if n.op in EXPONENTIALS or _is_power(n)}
    made = set(exponentials)
    for node in nodes[min(exponentials, default=len(nodes)) :]:
        if node.op in ACTIVATIONS or (made.isdisjoint(node.inputs) and node.index not in exponentials) or _is_signed(flow, node, made):
            continue
        made.add(node.index)
        if node.index in exponentials:
            (alone if logarithms.isdisjoint(node.inputs) else summed).add(node.index)
            continue
        if not summed.isdisjoint(node.inputs):
            summed.add(node.index)
        elif not alone.isdisjoint(node.inputs):
            apart = flow.classes[node.index] in APART and (node.op not in SUMS or _is_guard(node))
            (alone if apart else summed).add(node.index)
        if not logarithms.isdisjoint(node.inputs) or (node.op.startswith("log") and node.index in summed):
            logarithms.add(node.index)
    return frozenset(summed)


def _is_signed(flow: Flow, node: Node, made: set[int]) -> bool:
    """Whether what exponentials make is multiplied by what a map, a product or a centred norm of the data gives, which has either sign:
    (q·k)·exp(u)."""
    if node.op != "mul" and flow.classes[node.index] != "product":
        return False
    others = (_unscaled(flow, i) for i in node.inputs if i not in made and flow.data[i])
    return any(flow.classes[i] in ("weighted", "product") or flow.graph.nodes[i].op in CENTRED for i in others)


def _is_guard(node: Node) -> bool:
    """A small number that is added so that nothing is divided by zero; one of 1 may be the exponential of zero."""
    numbers = [a for a in node.args if isinstance(a, int | float)]
    return node.op in ("add", "sub") and len(node.inputs) == 1 and len(numbers) == 1 and abs(numbers[0]) <= GUARD


def _unscaled(flow: Flow, index: int) -> int:
    """The value behind views and numbers that multiply it."""
    node = flow.graph.nodes[flow.root(index)]
    while node.op in ("mul", "div", "true_divide", "neg") and len(node.inputs) == 1:
        node = flow.graph.nodes[flow.root(node.inputs[0])]
    return node.index


def _is_one(flow: Flow, index: int) -> bool:
    """Whether a divisor is one exponential, times a number, and no sum of some (nor, by a logarithm, of one): x·exp(−w) normalises nothing."""
    node = flow.graph.nodes[strip(flow, index)]
    while node.op in ("mul", "div", "pow", "sqrt") and len(node.inputs) == 1:
        node = flow.graph.nodes[strip(flow, node.inputs[0])]
    if node.op not in EXPONENTIALS - {"expm1"}:
        return False
    todo, seen = list(node.inputs), set[int]()
    while todo:
        here = todo.pop()
        if flow.graph.nodes[here].op.startswith("log"):
            return False
        if here not in seen and not flow.weighted[here]:
            seen.add(here)
            todo += flow.graph.nodes[here].inputs
    return True


def _divisor(flow: Flow, node: Node) -> int | None:
    """What is divided by, where it is no number."""
    return flow.ref(node, 0, "input") if node.op == "reciprocal" else flow.ref(node, 1, "other")


def _is_of_two(flow: Flow, node: Node) -> bool:
    """σ(a − b) beside 1 − σ(a − b)."""
    graph = flow.graph
    below = graph.nodes[strip(flow, node.inputs[0])]
    beside = (graph.nodes[u] for u in graph.users[node.index])
    complement = any(u.op in ("sub", "rsub") and len(u.inputs) == 1 for u in beside)
    return complement and below.op == "sub" and len(set(below.inputs)) == 2 and all(flow.data[i] for i in below.inputs)


def _is_power(node: Node) -> bool:
    """A number to the power of a value."""
    return node.op == "pow" and bool(node.args) and isinstance(node.args[0], int | float)


def written_in(reader: Reader) -> Iterator[tuple[tuple[int, int], tuple[int, ...]]]:
    """(add, output) of each branch -> its quotients that may be a softmax."""
    sums = cache(partial(_sums_of_exponentials, reader.flow))
    for _, branch in reader.branches:
        if found := written_softmaxes(reader.flow, branch.region, sums):
            yield (branch.add, branch.output), found


__all__ = ["reads_growing", "softmax_anywhere", "written_in"]
