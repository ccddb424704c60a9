"""From facts to a plan of what is to be measured: every distinct branch with its degrees and bounds, every distinct block."""

from __future__ import annotations

import math
from typing import Any

from screen.calculi.analysis import Analysis
from screen.calculi.bounds import BranchBounds, HamiltonianForm
from screen.calculi.bounds.expr import Expr
from screen.facts.record import Facts
from screen.graph import ops_digest
from screen.probe.plan.blocks import block_plan, cuts_of
from screen.probe.plan.quantities import norm_plan, quantity_plan
from screen.probe.plan.types import BoundPlan, DegreePlan, HamiltonianPlan, NormPlan, ProbePlan, Program, SpreadPlan, SublayerPlan
from screen.probe.plan.update import update_plan
from screen.recipe import Recipe
from screen.structure.branches.attention import Attention
from screen.structure.branches.branch import Branch
from screen.structure.chains.find import chains_of
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.build import readers_of
from screen.structure.types import Kind, Stream, Sublayer, Unknown

NAMES = ("magnitude", "lipschitz", "lipschitz_local", "internal")


def plan_of(facts: Facts, recipe: Recipe | None = None) -> ProbePlan:
    """What is to be measured of one model. `recipe`: how it will be trained."""
    flow = Flow(facts.graph)
    readers = readers_of(chains_of(flow, Norms(flow)))
    branches = {(b.add, b.output): (reader, b) for reader in readers for _, b in reader.branches}
    sublayers, blocks = [], []
    for stream in facts.streams:
        for kind in stream.kinds:
            found = [(s, branches[s.add, s.output]) for s in kind.sublayers if (s.add, s.output) in branches]
            sublayers += [_sublayer(facts, stream, kind, s, b) for s, (_, b) in found]
            if found:
                blocks.append(block_plan(facts, stream, kind, found[0][1][0], [b for _, (_, b) in found]))
    return ProbePlan(len(facts.graph.nodes), ops_digest(facts.graph), tuple(sublayers), tuple(blocks), loop=facts.is_loop,
                     update=update_plan(facts, blocks, recipe))  # fmt: skip


def _sublayer(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer, branch: Branch) -> SublayerPlan:
    analysis = facts.analysis(sublayer)
    cuts = tuple(sorted(cuts_of(branch).items()))
    softmaxes = tuple(dict.fromkeys(c.node for c in Attention(branch).cores if c.softmax))
    if isinstance(analysis, Unknown):
        return SublayerPlan(
            stream.name, kind.id, sublayer.name, branch.output, branch.state, cuts, (), (), (), (),
            unknown=(("degrees", analysis.reason), ("bounds", analysis.reason)), softmaxes=softmaxes,
        )  # fmt: skip
    bounds, unknown = _bounds(analysis.bounds, branch)
    plain = tuple(b for b in _bounds(analysis.bounds, branch, plain=True)[0] if not b.name.startswith("lipschitz"))
    lost = analysis.degrees.unknown
    return SublayerPlan(
        stream.name, kind.id, sublayer.name, branch.output, branch.state, cuts,
        degrees=tuple(DegreePlan(d.group, d.parameters, d.rows, d.axis, d.biases, d.predicted, d.status) for d in analysis.degrees.groups),
        norms=_norms(branch, analysis), quantities=tuple(map(quantity_plan, analysis.bounds.quantities)), bounds=bounds,
        unknown=(*((("degrees", lost.reason),) if lost is not None else ()), *unknown), ops=analysis.bounds.ops, softmaxes=softmaxes,
        axis=analysis.bounds.axis, closed=_closed(analysis), plain=plain, hamiltonian=_hamiltonian(analysis.bounds.hamiltonian),
        spreads=tuple(SpreadPlan(s.symbol, s.node, program_of(s.coarse)) for s in analysis.bounds.spreads),
        inside=tuple(i for i in branch.region if branch.flow.data[i]),
    )  # fmt: skip


def _norms(branch: Branch, analysis: Analysis) -> tuple[NormPlan, ...]:
    symbols = {node: (symbol, least) for symbol, node, least in analysis.bounds.norms}
    return tuple(norm_plan(branch, n, *symbols.get(n.node, ("", None))) for n in branch.norms.by_node.values() if n.node in branch.members)


def _bounds(bounds: BranchBounds, branch: Branch, *, plain: bool = False) -> tuple[tuple[BoundPlan, ...], tuple[tuple[str, str], ...]]:
    """Bounds that are known (`plain`: in norms of single parameters), and (name, reason) of those that are not."""
    found, unknown = list[BoundPlan](), list[tuple[str, str]]()
    claims: list[tuple[Any, int, Expr | Unknown]] = [(name, branch.output, getattr(bounds, name)) for name in NAMES]
    claims += [("logits", node, u) for node, u in zip(bounds.logit_nodes, bounds.logits, strict=True)]
    for name, node, claim in claims:
        if isinstance(claim, Unknown):
            unknown.append((name, claim.reason))
        else:
            found.append(BoundPlan(name, node, program_of(bounds.plain(claim) if plain else claim)))
    return tuple(found), tuple(unknown)


def _hamiltonian(form: HamiltonianForm | None) -> HamiltonianPlan | None:
    if form is None:
        return None
    radius = 1.0 if form.kind == "l2" else math.sqrt(form.width)
    return HamiltonianPlan(form.width, radius, form.kind == "layer", tuple((s.kind, s.parameter, s.number) for s in form.steps))


def _closed(analysis: Analysis) -> tuple[str, ...]:
    """Bounds that hold over all weights but the gains and biases of norms."""
    claims = {"magnitude": analysis.bounds.bounded, "logits": analysis.bounds.logits_bounded}
    return tuple(name for name, claim in claims.items() if claim is True)


def program_of(expr: Expr) -> Program:
    """An expression as rows, operands first, each with the positions of its operands."""
    rows = list[tuple[str, float, str, tuple[int, ...], tuple[float, ...]]]()
    place: dict[int, int] = {}
    for e in expr.walk():
        place[e.serial] = len(rows)
        rows.append((e.kind, e.value, e.name, tuple(place[a.serial] for a in e.args), e.powers))
    return tuple(rows)


__all__ = ["cuts_of", "plan_of", "program_of"]
