"""What the experiments `update` and `curvature` need to know of a model: which node is its last normed state, and what each of its weights does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from screen.calculi.meanfield import FirstUpdate, first_update_of
from screen.facts.record import Facts
from screen.graph import Graph, Node, Ref
from screen.probe.plan.spot import parameters_of
from screen.probe.plan.types import BlockPlan, UpdatePlan
from screen.recipe import Recipe
from screen.structure.branches.attention import Attention, Core
from screen.structure.branches.branch import Branch
from screen.structure.branches.weights import weights_of
from screen.structure.types import Role

ADDENDS = {"linear": 2, "layer_norm": 2, "group_norm": 2, "batch_norm": 4, "addmm": 0, "baddbmm": 0, "conv1d": 2, "conv2d": 2, "conv3d": 2}
"""Position of what is added among the tensors that a call reads, where no name says so."""
SHORT: dict[Role, str] = {"ffn": "FFN", "gated_ffn": "FFN"}
"""Words for a role, where they are others than its name."""


def update_plan(facts: Facts, blocks: Sequence[BlockPlan], recipe: Recipe | None = None) -> UpdatePlan:
    """The plan of one model; what the recipe does not say is as Adam has it."""
    inner = {s.name for s in facts.streams if s.role == "inner"}
    last = max((b for b in blocks if b.stream not in inner), key=lambda b: b.end, default=None)
    state = last.end if last is not None and not facts.is_loop else None
    norm = next((n for n in facts.norms if n.node == state), None)
    return UpdatePlan(
        state=state, before=None if norm is None else norm.source, centred=norm is not None and norm.centred,
        added=0.0 if norm is None or norm.eps is None else norm.eps, axis=-1 if last is None else last.axis, groups=_groups(facts),
        frozen=facts.graph.frozen, eps=1e-8 if recipe is None or recipe.eps is None else recipe.eps,
        beta1=0.9 if recipe is None or recipe.betas is None else recipe.betas[0], rate=None if recipe is None else recipe.lr,
        predicted=None if last is None or norm is None else _kappa(facts, last.stream),
    )  # fmt: skip


def _kappa(facts: Facts, name: str) -> float | None:
    """κ of the last normed state of a stream, where it is derived."""
    found = next((first_update_of(facts.recursion(s)) for s in facts.streams if s.name == name), None)
    return found.kappa if isinstance(found, FirstUpdate) else None


def _groups(facts: Facts) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every parameter of the graph under the first group that it belongs to; layers that did not run beside those that stand for them."""
    graph = facts.graph
    table: dict[str, str] = {}
    for number, name in _vectors(graph):
        table.setdefault(name, "gains" if number else "biases")
    for reader in facts.readers:
        for sublayer, (_, branch) in zip(reader.sublayers, reader.branches, strict=True):
            for name, group in parts_of(branch, sublayer.role):
                table.setdefault(name, group)
    entries = [b.state for reader in facts.readers for _, b in reader.branches[:1]]
    before = {n.name for i in entries for n in _below(graph, i) if n.op == "parameter"}
    for node in graph.nodes:
        if node.op == "parameter":
            table.setdefault(node.name, "embedding" if node.name in before else "other maps")
    found: dict[str, list[str]] = {}
    for name, group in table.items():
        found.setdefault(group, []).extend([name, *_twins(graph, name)])
    return tuple((group, tuple(names)) for group, names in sorted(found.items()))


def _vectors(graph: Graph) -> Iterator[tuple[bool, str]]:
    """(whether it multiplies, name) of every parameter with at most one axis longer than 1."""
    for node in graph.nodes:
        if node.op == "parameter" and sum(n > 1 for n in node.shape or ()) <= 1:
            yield not any(_adds(graph.nodes[user], node.index) for user in graph.users[node.index]), node.name


def _adds(call: Node, source: int) -> bool:
    """Whether a call adds one of the values that it reads."""
    if call.op in ("add", "sub") or call.kwarg("bias") == Ref(source):
        return True
    place = ADDENDS.get(call.op)
    return place is not None and call.inputs[place : place + 1] == (source,)


def parts_of(branch: Branch, role: Role) -> Iterator[tuple[str, str]]:
    """(parameter, group) of a branch: by what it makes in an attention, elsewhere by whether another map of the branch comes behind it."""
    flow, cores = branch.flow, Attention(branch).cores
    maps = weights_of(branch)
    for parameter, sites in sorted(parameters_of(branch).items()):
        users = [user for user, _ in sites]
        if cores:
            group = _in_attention(branch, cores, users)
        else:
            is_last = not any(flow.depends(other, u) for u in users for other in maps if other not in users)
            group = f"{SHORT.get(role, role)} {'out' if is_last else 'in'}"
        yield flow.graph.nodes[parameter].name, group


def _in_attention(branch: Branch, cores: Sequence[Core], users: Sequence[int]) -> str:
    """What a weight that these calls read makes: logits, the values that are weighed, both, or what is done with their sum."""
    flow = branch.flow
    if any(u != c.node and flow.depends(u, c.node) for u in users for c in cores):
        return "O"
    logits = any(u == c.node or flow.depends(c.q, u) or flow.depends(c.k, u) for u in users for c in cores)
    values = any(c.v is not None and flow.depends(c.v, u) for u in users for c in cores)
    return "Q, K and V" if logits and values else "Q and K" if logits else "V" if values else "attention, beside"


def _below(graph: Graph, node: int) -> Iterator[Node]:
    """All that a value depends on."""
    stack, seen = [node], {node}
    while stack:
        here = graph.nodes[stack.pop()]
        yield here
        fresh = set(here.inputs) - seen
        seen |= fresh
        stack.extend(fresh)


def _twins(graph: Graph, name: str) -> Iterator[str]:
    """The same parameter in the layers that a layer that ran stands for."""
    for repeat in graph.repeats:
        for member, representative in repeat.members:
            path = f"{graph.modules[representative].path}."
            if member != representative and name.startswith(path):
                yield f"{graph.modules[member].path}.{name.removeprefix(path)}"


__all__ = ["parts_of", "update_plan"]
