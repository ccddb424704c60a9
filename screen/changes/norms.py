"""Changes of norms: put before a branch, behind it, on queries and keys, behind the last block; or taken off the skips."""

from __future__ import annotations

from collections.abc import Iterator

from screen.facts.record import Facts
from screen.graph import numel
from screen.graph.edit import Edit
from screen.structure.branches.attention import Attention, Core
from screen.structure.branches.branch import Branch
from screen.structure.dataflow import number
from screen.structure.softmaxes import FUSED
from screen.structure.streams.reader import Reader
from screen.structure.types import Stream, Sublayer

EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6}
PRODUCTS = frozenset({"matmul", "bmm", "baddbmm"})
"""Products that sum over the last axis of queries and the last but one of keys."""


class NotPossible(Exception):
    """The change cannot be made on this graph by a rule of ours."""


def traced(facts: Facts) -> Iterator[tuple[Stream, Reader, int, Branch, Sublayer]]:
    """Every branch that ran, of every stream: (stream, its reader, position of the add, branch, sublayer)."""
    for stream, reader in zip(facts.streams, facts.readers, strict=True):
        for (position, branch), sublayer in zip(reader.branches, reader.sublayers, strict=True):
            yield stream, reader, position, branch, sublayer


def norm(edit: Edit, stream: Stream, source: int, at: int) -> int:
    """A norm of the kind that the stream has elsewhere, with gains of one, of a value of the stream's width."""
    shape = edit.shape(source)
    if stream.width is None or shape[-1:] != (stream.width,):
        raise NotPossible("the features of the stream are not the last axis")
    kinds = [n.name for k in stream.kinds for s in k.sublayers for place, n in s.norms if place in "ABC"]
    return _norm(edit, next((k for k in kinds if k in EPS), "layernorm"), source, stream.width, at)


def _norm(edit: Edit, kind: str, source: int, size: int, at: int) -> int:
    weight = edit.vector(size, 1.0, source, at)
    if kind == "rmsnorm":
        return edit.call("rms_norm", source, (size,), at=at, weight=weight, eps=EPS[kind])
    return edit.call("layer_norm", source, (size,), at=at, weight=weight, bias=edit.vector(size, 0.0, source, at), eps=EPS[kind])


def norms_before(facts: Facts) -> Edit:
    """x + F(norm(x)) in every branch that reads the stream without a norm, and a norm behind the last block."""
    edit = Edit(facts.graph)
    for stream, _, _, branch, sublayer in traced(facts):
        if "A" not in sublayer.positions:
            _before(edit, stream, branch)
    for stream, reader in zip(facts.streams, facts.readers, strict=True):
        if stream.final_norm is False and not stream.pooled_norm and stream.role != "inner" and not facts.is_loop:
            _behind_all(edit, stream, reader)
    return edit


def _before(edit: Edit, stream: Stream, branch: Branch) -> None:
    reads = [(n, i) for n in branch.region for i in dict.fromkeys(branch.flow.counting[n]) if i in branch.states]
    if not reads:
        raise NotPossible("no call of the branch reads the stream")
    made = {i: norm(edit, stream, i, branch.add) for i in dict.fromkeys(i for _, i in reads)}
    for reader, i in reads:
        edit.read(reader, i, made[i])


def norms_inside(facts: Facts) -> Edit:
    """x + F(norm(x)) in place of norm(x + F(x)): skips lead past the norms on sums, what these give is the input of the branches, and the last of
    them stands behind the last block."""
    edit = Edit(facts.graph)
    for stream, reader, position, branch, sublayer in traced(facts):
        if sublayer.alpha.kind != "none" or sublayer.normed_skip:
            raise NotPossible("the stream is multiplied, or normalised on the skips of some blocks alone")
        norms = reader.segments[position].norms if position else ()
        skip = skip_of(reader, position)
        if norms:
            edit.read(branch.add, skip, norms[0].source)
        if norms and "A" in sublayer.positions:  # a norm of its own in each branch: the one on the sum goes
            for node in branch.region:
                for i in dict.fromkeys(branch.flow.counting[node]):
                    if i in branch.states:
                        edit.read(node, i, norms[0].source)
        elif "A" not in sublayer.positions and not any(reader.segments[p].norms for p in range(1, position + 1)):
            _before(edit, stream, branch)
    for reader in facts.readers:
        for node in range(reader.chain.nodes[-1] + 1, max((e.node for e in reader.segments[-1].edges), default=-1) + 1):
            edit.move(node, 0)  # what was the last block's own norm stands behind all blocks
    return edit


def skips_past_norms(facts: Facts) -> Edit:
    """y = x + F(norm(x)) in place of x = norm(x); y = x + F(x), at the branches that are added to what was just normalised."""
    edit = Edit(facts.graph)
    for _, reader, position, branch, sublayer in traced(facts):
        if sublayer.normed_skip and (norms := reader.segments[position].norms):
            edit.read(branch.add, skip_of(reader, position), norms[0].source)
    return edit


def skip_of(reader: Reader, position: int) -> int:
    """What the stream is where a branch is added to it."""
    add = reader.chain.adds[position]
    source = next(e.source for e in reader.chain.edges if e.node == add)
    if source not in reader.flow.graph.nodes[add].inputs:
        raise NotPossible("the sum does not read the stream itself")
    return source


def norms_behind(facts: Facts) -> Edit:
    """x + norm(F(x)) in every branch."""
    edit = Edit(facts.graph)
    for stream, _, _, branch, sublayer in traced(facts):
        if "B" in sublayer.positions:
            continue
        if sublayer.branch.kind != "none" or sublayer.gated_output or branch.output not in edit.before.nodes[branch.add].inputs:
            raise NotPossible("a multiplier stands on the branch")
        edit.read(branch.add, branch.output, norm(edit, stream, branch.output, branch.add))
    return edit


def final_norms(facts: Facts) -> Edit:
    """A norm behind the last block of every stream that ends without one."""
    edit = Edit(facts.graph)
    for stream, reader in zip(facts.streams, facts.readers, strict=True):
        if stream.final_norm is False and not stream.pooled_norm and stream.role != "inner":
            _behind_all(edit, stream, reader)
    return edit


def _behind_all(edit: Edit, stream: Stream, reader: Reader) -> None:
    end = _end(reader)
    made = norm(edit, stream, end, 0)
    for user in edit.before.users[end]:
        edit.read(user, end, made)
    edit.leave(end, made)


def _end(reader: Reader) -> int:
    """What leaves a stream: its last state, or a sum of it with others that nothing but this sum reads it for (a velocity's last step, a mix)."""
    end = node = reader.chain.nodes[-1]
    while len(users := reader.flow.graph.users[node]) == 1:
        step = next((e for e in reader.chains.into[users[0]] if e.source == node and e.kind in ("same", "scale", "add")), None)
        if step is None:
            break
        node = step.node
        end = node if step.kind == "add" else end
    return end


# -- queries and keys ---------------------------------------------------------------------------------------------------------------------


def qk_norms(facts: Facts) -> Edit:
    """RMSNorm over the features of a head on queries and on keys, of every attention that has none."""
    edit = Edit(facts.graph)
    for _, _, _, branch, sublayer in traced(facts):
        for core in Attention(branch).cores if sublayer.qk_norm == "none" else ():
            if core.softmax:
                _norm_logits(edit, branch, core)
    return edit


def _norm_logits(edit: Edit, branch: Branch, core: Core) -> None:
    """Of what multiplies queries by keys: a fused attention, whose last axes are summed over, or a product of [T, d] and [d, S]."""
    nodes, at = edit.before.nodes, branch.add
    if core.node in branch.members and nodes[core.node].op in FUSED:
        for source in (core.q, core.k):
            edit.read(core.node, source, _renewed(edit, branch, source, source))
        return
    product = next((nodes[i] for i in branch.region if {core.q, core.k} <= set(nodes[i].inputs)), None)
    if product is None or core.q == core.k or product.op not in PRODUCTS:
        raise NotPossible("no product of two matrices makes the logits")
    edit.read(product.index, core.q, _renewed(edit, branch, core.q, core.q))
    edit.read(product.index, core.k, edit.swap(_renewed(edit, branch, core.k, edit.swap(core.k, at)), at))


def _renewed(edit: Edit, branch: Branch, node: int, source: int) -> int:
    """RMSNorm of `source`, which is the value of `node`, times the number that it had been multiplied by."""
    made = _norm(edit, "rmsnorm", source, edit.shape(source)[-1], branch.add)
    factor = _factor(branch, node)
    return made if factor == 1.0 else edit.call("mul", made, factor, at=branch.add)


def _factor(branch: Branch, node: int) -> float:
    """The number by which queries or keys are multiplied between their map and here: a norm behind it would divide it out."""
    flow, factor = branch.flow, 1.0
    while node in branch.members and not flow.key[node]:
        here = flow.graph.nodes[node]
        data = [i for i in here.inputs if flow.data[i]]
        numbers = [n for a in here.args if (n := number(a)) is not None]
        if here.op in ("mul", "div") and len(data) == 1 and len(numbers) == 1 and len(here.inputs) == 1:
            factor *= numbers[0] if here.op == "mul" else 1 / numbers[0]
        elif flow.classes[node] == "activation":
            return 1.0  # it is what the activation is stretched to, a cap of queries
        elif flow.classes[node] != "view" or len(data) != 1 or numel(here.shape or ()) != numel(flow.graph.nodes[data[0]].shape or ()):
            break
        node = data[0]
    return factor


__all__ = ["NotPossible", "final_norms", "norms_before", "norms_behind", "norms_inside", "qk_norms", "skip_of", "skips_past_norms", "traced"]
