"""One traced program on real tensors at its recorded start: as it is, and with weights or states multiplied."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.built import Built
from screen.capture.trace.tracer import Trace
from screen.probe.budget.budget import CALL
from screen.probe.linear_map import lasts, operator_norm, reach
from screen.probe.measure.attention import MASKED, NO_LOGITS, bare_logits, bounded_logits, felt
from screen.probe.measure.attention import logits as logits_of
from screen.probe.measure.kernels import BatchStatistics, differentiable
from screen.probe.measure.leaves import Material, Watch, is_shape_alone
from screen.probe.measure.replay import Env, Missing, Tape, attribute
from screen.probe.measure.rounding import SHARP, explains, shaken
from screen.probe.measure.session import said
from screen.probe.plan.spot_types import (
    FACTORS, FILLS, HEAVY, STILL, Found, FoundBranch, FoundStream, SpotBranch, SpotCone, SpotPlan, SpotStream,
    first_of_each,
)  # fmt: skip
from screen.probe.second.plain import first, no_fast_path
from screen.probe.spot.repeated import repeated
from screen.structure.logits import compared
from screen.probe.sizes import apart, branch_gradients, finite, gap_of, gradients_apart, largest, most, plain_number, rms

Make = Callable[[int], nn.Module]
"""Builds the model with weights, from a seed."""
Carried = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""How far the first state and all that is added are carried to each of three states."""
IN_PLACE = "modified by an inplace operation"
"""What torch says of a gradient that needs a value which was written over."""
SECONDS = 1.0
"""Counted work, at the rates of the probe, above which nothing is measured."""
PART = 8
"""A brief run multiplies nothing but in the first block of each kind, where that is at most one part in so many of all calls."""
Result = tuple[Tensor, Mapping[str, Tensor]]
"""What a run gives, and the gradient of each parameter by its name."""
SAME_FORWARD, SAME_BACKWARD = 1e-3, 1e-2
"""Relative differences up to which replay and module agree, in float32."""
TURNS = 50
"""Passes of the linear part alone that its gain takes, at most."""
SATURATED, LARGER = 1.02, 100.0
"""How many times larger what is added may be at the larger of two multiples of the stream than at the smaller one (its hundredth root gains a
tenth), and at that one than at the stream as it is."""
STATES = 6
"""States before the middle one that are tried for one that everything passes."""
LARGE = 1e15
"""A weight or a constant above which float32 has no room left for products."""


@dataclass
class Run:
    """One model in a spot check."""

    plan: SpotPlan
    trace: Trace
    built: Built
    watch: Watch
    model: nn.Module | None
    brief: bool = False
    """Whether the start is looked at, and what is larger in the first blocks alone."""
    other: Make | None = None
    """Builds the model at another draw of its weights."""
    cuts: frozenset[int] = frozenset()
    """States of which random ones are taken in the place of what the program makes."""
    _leaves: Env = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tape = Tape(self.trace, torch.float64)
        self.material = Material(self.tape, self.built, self.watch, self.plan.seed)
        graph = self.trace.graph
        self.targets = sorted({n for s in self.plan.streams for n in s.states} | {b.output for s in self.plan.streams for b in s.branches})
        ends = [self.plan.whole.end] if self.plan.whole is not None else []
        wanted = [*self.targets, *ends, *graph.outputs[:1], *(n for s in self.plan.streams for b in s.branches for n in b.softmaxes)]
        self._shifts = {node: logits for s in self.plan.streams for b in s.branches for node, logits in b.shifts}
        self._driven = {node for s in self.plan.streams for b in s.branches if b.driven for node in b.softmaxes}
        self.calls, leaves, met = self.tape.steps(wanted, self.cuts)
        self._cut = {i: self.material.normal(i) for i in met}
        self.names = {i: str(self.tape.nodes[i].meta["label"]) for i in leaves if graph.nodes[i].op != "input"}
        self._leaves = {i: self._leaf(i) for i in leaves}

    def _leaf(self, index: int) -> Any:
        """A leaf: of the model with weights where there is one, else drawn by its record."""
        if self.model is not None and index in self.names and self.trace.graph.nodes[index].op != "input":
            try:
                value = attribute(self.model, self.names[index])
            except (AttributeError, KeyError, IndexError, TypeError):
                value = None
            if isinstance(value, Tensor) and value.device.type == "cpu" and tuple(value.shape) == self.trace.graph.nodes[index].shape:
                return value.detach()
        value = self.material.leaves([index])[index]
        node = self.trace.graph.nodes[index]
        if node.op == "input" and isinstance(value, Tensor) and is_shape_alone(value):
            return self.material.normal(index)
        return value

    def odd_weights(self) -> Iterator[tuple[str, str]]:
        """Weights that start as NaN, infinite or beyond what float32 can multiply."""
        for index, name in self.names.items():
            value = self._leaves[index]
            if self.trace.graph.nodes[index].op != "parameter" or not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
                continue
            top = float(value.abs().amax())
            if math.isnan(top):
                yield name, "nan"
            elif math.isinf(top):
                yield name, "inf"
            elif top > LARGE:
                yield name, "huge"

    # -- the module itself ------------------------------------------------------------------------------------------------------------

    def replayed(self, found: Found) -> Found:
        """The module run plainly against the traced program, forward and backward, in float32."""
        if self.model is None or (self.built.original is not None and any(p.device.type == "meta" for p in self.model.parameters())):
            return self._gradients(replace(found, reason="the module could not be built with weights"), None)
        try:
            plain, theirs = self._plain(self.model)
        except Exception as error:
            return self._gradients(replace(found, reason=f"the module did not run plainly: {said(error)}"), None)
        return self._gradients(found, (plain, theirs))

    def _plain(self, model: nn.Module) -> tuple[Tensor, Mapping[str, Tensor]]:
        """(first float output, gradient of each parameter by name) of the module itself."""
        inputs = (i for i, n in enumerate(self.trace.graph.nodes) if n.op == "input")
        filled = iter([self._leaves[i] if i in self._leaves else self._leaf(i) for i in inputs])
        args, kwargs = torch.utils._pytree.tree_map_only(Tensor, lambda t: _given(next(filled, None), t), (self.built.args, self.built.kwargs))
        for p in model.parameters():
            p.requires_grad_(p.is_floating_point())
        try:
            out = self._back(model, args, kwargs, None)
        except RuntimeError as error:
            if IN_PLACE not in str(error):
                raise
            out = self._back(model, args, kwargs, [p for p in model.parameters() if p.requires_grad])
        return out.detach(), {n: p.grad for n, p in model.named_parameters(remove_duplicate=False) if p.grad is not None}

    def _back(self, model: nn.Module, args: Any, kwargs: Any, wanted: list[Tensor] | None) -> Tensor:
        """The output of one pass forward and one back, to all that asks for a gradient or to what is wanted alone (`_backward`)."""
        for p in model.parameters():
            p.grad = None
        with torch.enable_grad(), no_fast_path(), BatchStatistics():
            out = first(model(*args, **kwargs))
            if out is None:
                raise Missing("it returns no float tensor")
            _functional(out).backward(inputs=wanted)
        return out

    def _gradients(self, found: Found, plain: tuple[Tensor, Mapping[str, Tensor]] | None) -> Found:
        """Gradients by branch; the traced program's against the module's where both ran."""
        mine = self.tape.at(torch.float32)
        weights = {
            i: v.detach().clone().requires_grad_(True)
            for i, v in self._cast(mine).items()
            if self.trace.graph.nodes[i].op == "parameter" and isinstance(v, Tensor) and v.is_floating_point()
        }
        output = next((i for i in self.trace.graph.outputs if self._is_float(i)), None)
        if output is None:
            return found
        given = {
            i: differentiable(v)
            for i, v in self._cast(mine).items()
            if self.trace.graph.nodes[i].op == "input" and isinstance(v, Tensor) and v.is_floating_point()
        }
        out, grads = self._backward(mine, output, {**self._cast(mine), **weights, **given}, list(weights.values()), list(given.values()))
        own = {self.names[i]: g for i, g in zip(weights, grads, strict=False) if g is not None}
        agrees, forward, backward = None, None, None
        if plain is not None:
            if self.trace.graph.is_whole:
                forward, backward = apart(out.detach(), plain[0]), gradients_apart(own, plain[1])
                agrees = None if forward is None else forward <= SAME_FORWARD and (backward is None or backward <= SAME_BACKWARD)
                if agrees is False and self._is_random(*plain):
                    agrees, found = None, replace(found, reason="the module gives other numbers each time that it runs")
                if agrees is False and self._is_sharp(mine, output, {**self._cast(mine), **given}, weights, (out.detach(), own), plain):
                    agrees, found = None, replace(found, reason=SHARP)
            own = {**own, **plain[1]}
        sizes = [branch_gradients(own, [b.parameters for b in s.branches]) for s in self.plan.streams]
        for place, stream in enumerate(self.plan.streams):
            if not any(sizes[place]):  # what follows starts at nothing
                sizes[place] = self._from_end(mine, stream, {**self._cast(mine), **weights, **given}, weights)
        streams = tuple(
            replace(f, gradients=size, whole_gradients=plain is not None) for f, size in zip(found.streams, sizes, strict=True)
        )
        return replace(
            found, replayed=agrees, forward=plain_number(forward), backward=plain_number(backward), streams=streams, loss=self._loss(out)
        )

    def _backward(self, tape: Tape, output: int, given: Env, weights: list[Tensor], inputs: list[Tensor]) -> tuple[Tensor, list[Tensor | None]]:
        """The output, and gradients of weights and inputs; of weights alone where a program divides its input in place (`x /= std(x)`), which no
        gradient of that input survives and no training asks for."""
        steps = self.tape.steps([output], [])[0]
        for wanted in ([*weights, *inputs], weights):
            with torch.enable_grad():
                out = tape.run(steps, given)[output]
                total = _functional(out)
                try:
                    return out, list(torch.autograd.grad(total, wanted, allow_unused=True)) if total.requires_grad else [None] * len(wanted)
                except RuntimeError as error:
                    if IN_PLACE not in str(error) or wanted is weights:
                        raise
        raise AssertionError("the second round returns or raises")

    def _from_end(self, tape: Tape, stream: SpotStream, given: Env, weights: Mapping[int, Tensor]) -> tuple[float | None, ...]:
        """Gradients by branch of a random function of a stream's end, through the traced program."""
        end = stream.states[-1]
        with torch.enable_grad():
            total = _functional(tape.run(tape.steps([end], [])[0], given)[end])
            grads = torch.autograd.grad(total, list(weights.values()), allow_unused=True) if total.requires_grad else [None] * len(weights)
        own = {self.names[i]: g for i, g in zip(weights, grads, strict=True) if g is not None}
        return branch_gradients(own, [b.parameters for b in stream.branches])

    def _is_random(self, output: Tensor, gradients: Mapping[str, Tensor]) -> bool:
        """Whether the module run plainly once more gives something else."""
        assert self.model is not None
        again, theirs = self._plain(self.model)
        one, other = apart(again, output), gradients_apart(theirs, gradients)
        return (one is not None and one > SAME_FORWARD) or (other is not None and other > SAME_BACKWARD)

    def _is_sharp(self, tape: Tape, output: int, given: Env, weights: Mapping[int, Tensor], mine: Result, theirs: Result) -> bool:
        """Whether rounding alone may bring the traced program and the module as far apart as they are."""

        def ran(values: Mapping[int, Tensor]) -> Result:
            own = {i: v.detach().requires_grad_(True) for i, v in values.items()}
            with torch.enable_grad():
                out = tape.run(tape.steps([output], [])[0], {**given, **own})[output]
                grads = torch.autograd.grad(_functional(out), list(own.values()), allow_unused=True)
            return out.detach(), {self.names[i]: g for i, g in zip(own, grads, strict=True) if g is not None}

        moved = [ran(values) for values in shaken(weights, self.plan.seed)]
        forward, backward = apart(mine[0], theirs[0]), gradients_apart(mine[1], theirs[1])
        if forward is not None and forward > SAME_FORWARD and not explains((apart(mine[0], out) for out, _ in moved), forward, SAME_FORWARD):
            return False
        small = backward is None or backward <= SAME_BACKWARD
        return small or explains((gradients_apart(mine[1], grads) for _, grads in moved), backward or 0.0, SAME_BACKWARD)

    def _loss(self, out: Tensor) -> float | None:
        """Against labels that are independent of everything: ln Σ exp(u) − mean u, in the mean."""
        if self.plan.logits is None or not out.is_floating_point():
            return None
        u = out.detach().double()
        return plain_number(float((torch.logsumexp(u, -1) - u.mean(-1)).mean()))

    def _is_float(self, index: int) -> bool:
        return (self.trace.graph.nodes[index].dtype or "").startswith(("float", "bfloat"))

    def _cast(self, tape: Tape) -> Env:
        return {i: tape.cast(v) for i, v in self._leaves.items()}

    # -- the traced program -----------------------------------------------------------------------------------------------------------

    def streams(self, found: Found) -> Found:
        """States and branches at the start, at larger inputs, and at larger weights."""
        leaves = self._cast(self.tape)
        entries = [s.states[0] for s in self.plan.streams]
        base = self._look(self.calls, leaves)
        begin = {e: base.values[e] for e in entries if isinstance(base.values.get(e), Tensor)}
        first = {e: v for e, v in begin.items() if not self._reads(e, set(begin) - {e})}  # what follows from another one is computed again
        runs = self._multiplied(leaves, base, begin, first)
        streams = tuple(self._stream(f, s, runs, leaves, begin) for f, s in zip(found.streams, self.plan.streams, strict=True))
        streams = tuple(self._drawn_twice(f, s, leaves) for f, s in zip(streams, self.plan.streams, strict=True))
        return replace(found, streams=streams, gain=self._whole(leaves, begin))

    def parts(self, found: Found) -> Found:
        """Branches alone, from the states that stand for what the program makes: as they are, at larger ones, and at larger weights."""
        leaves = self._cast(self.tape)
        runs = self._multiplied(leaves, self._look(self.calls, {**leaves, **self._cut}), self._cut, self._cut)
        parts = [tuple(self._branch(s, place, runs) for place in range(len(s.branches))) for s in self.plan.streams]
        return replace(found, streams=tuple(replace(f, branches=b) for f, b in zip(found.streams, parts, strict=True)))

    def _multiplied(self, leaves: Env, base: Look, begin: Env, first: Env) -> dict[str, Look]:
        """The run as it is, and those with what is multiplied. `begin`: the states that all others follow from, `first` those of them that follow
        from none."""
        free = {n for s in self.plan.streams for b in s.branches for n in b.free}
        heavy = self._heavy(leaves, free)
        runs = {"base": base}
        for factor in FACTORS:
            runs[f"x{factor:g}"] = self._try(leaves, {e: v * factor for e, v in first.items()})
        runs["heavy"] = self._try(heavy, begin)
        runs["both"] = self._try(heavy, {e: v * FACTORS[0] for e, v in first.items()})
        if any(self._is_still(s, b, runs) for s in self.plan.streams for b in s.branches):
            alone = {b.alone for s in self.plan.streams for b in s.branches if b.alone}
            runs["alone"] = self._try(self._heavy(leaves, alone), begin)
        if any(b.unsure for s in self.plan.streams for b in s.branches):
            runs.update({f"fill{number:g}": self._try(self._filled(leaves, free, number), begin) for number in FILLS})
        return runs

    def _heavy(self, leaves: Env, free: set[str]) -> Env:
        """The leaves with some weights multiplied; one that starts at nothing, such as a bias, is as large everywhere."""
        chosen = {i: v for i, v in leaves.items() if self.names.get(i) in free and isinstance(v, Tensor)}
        return {**leaves, **{i: v * HEAVY if bool(v.any()) else torch.full_like(v, HEAVY) for i, v in chosen.items()}}

    def _awake(self, leaves: Env, stream: SpotStream, seed: int = 0) -> Env:
        """Draws in the place of free weights that are zero: of a matrix by its fan-in, of others 1."""
        free, draws = {n for b in stream.branches for n in b.free}, torch.Generator().manual_seed(seed)
        drawn = {}
        for i, v in leaves.items():
            if self.names.get(i) in free and isinstance(v, Tensor) and not bool(v.any()):
                drawn[i] = torch.randn(v.shape, generator=draws, dtype=v.dtype) * v.shape[-1] ** -0.5 if v.dim() > 1 else torch.ones_like(v)
        return drawn

    def _filled(self, leaves: Env, free: set[str], number: float) -> Env:
        """The leaves with one number in all entries of the free vectors."""
        chosen = {i: v for i, v in leaves.items() if self.names.get(i) in free and isinstance(v, Tensor) and v.dim() == 1}
        return {**leaves, **{i: torch.full_like(v, number) for i, v in chosen.items()}}

    def _whole(self, leaves: Env, begin: Env) -> float | None:
        """The gain of the model, where it is none of a stream alone."""
        whole = None if self.brief else self.plan.whole
        if whole is None:
            return None
        like, shape = begin.get(whole.begin, leaves.get(whole.begin)), self.trace.graph.nodes[whole.begin].shape
        if like is None and shape is not None:  # on the way to the first state
            like = torch.zeros(shape)
        return self._gain(whole.begin, whole.end, whole.held, leaves, like)[1] if isinstance(like, Tensor) else None

    def _reads(self, node: int, others: set[int]) -> bool:
        """Whether a value is computed from one of some others."""
        stack, seen = [node], {node}
        while stack:
            fresh = set(self.trace.graph.nodes[stack.pop()].inputs) - seen
            if fresh & others:
                return True
            seen |= fresh
            stack.extend(fresh)
        return False

    def _is_still(self, stream: SpotStream, branch: SpotBranch, runs: Mapping[str, Look]) -> bool:
        """Whether a branch with free weights did not grow with them."""
        sizes = [plain_number(largest(runs[r].values.get(branch.output), stream.axis)) for r in ("base", "heavy", "both")]
        return bool(branch.free) and None not in sizes and max(s or 0.0 for s in sizes[1:]) <= STILL * (sizes[0] or 0.0)

    def _try(self, leaves: Env, begin: Env) -> Look:
        """A run from the first states on; what fails is nothing measured."""
        try:
            calls = self.tape.steps(self._wanted(), begin)[0]
            if self.brief and PART * len(calls) > len(self.calls):
                return Look()
            return self._look(calls, {**leaves, **begin})
        except Exception:
            return Look()

    def _wanted(self) -> list[int]:
        """What larger inputs and weights are looked at: all states and branches, or the first branch of each kind."""
        branches = [b for s in self.plan.streams for b in (first_of_each(s) if self.brief else s.branches)]
        return [*([b.output for b in branches] if self.brief else self.targets), *(n for b in branches for n in b.softmaxes)]

    def _look(self, calls: list[int], given: Env) -> Look:
        """One run, with the values of states and branches as they stand when they are made: a later call in place may write over them."""
        look = Look()
        kept = set(self.targets)
        softmaxes = {n for s in self.plan.streams for b in s.branches for n in b.softmaxes}
        env = self.tape.copies(given)
        for i in kept & set(env):
            look.values[i] = env[i].clone() if isinstance(env[i], Tensor) else env[i]
        for index in calls:
            env[index] = self.tape.call(index, env)
            if index in kept and isinstance(env[index], Tensor):
                look.values[index] = env[index].clone()
            if index in softmaxes:
                look.logits[index] = self._logits(index, env)
        return look

    def _logits(self, node: int, env: Env) -> tuple[float | None, ...]:
        """Of the logits under a softmax the largest, the rms of what queries and keys make of them, without biases of positions, and what the softmax
        feels of all. The largest of a row that is taken off before the softmax, which it does not change, stays on them."""
        try:
            if node in self._shifts:
                env = {**env, self.trace.graph.nodes[node].inputs[0]: env[self._shifts[node]]}
            top = bounded_logits(self.trace.graph, node, env)
            whole = logits_of(self.trace.graph, node, env)
            u, peaked = self._by_products(node, env, whole), None if whole is None else felt(whole)
        except Exception:
            return NO_LOGITS
        if self.cuts or node in self._driven:  # what they are at the start is not known
            return plain_number(float(top)) if top is not None else None, None, None
        kept = u[torch.isfinite(u) & (u > MASKED)] if isinstance(u, Tensor) else None
        rms = float(kept.square().mean().sqrt()) if kept is not None and kept.numel() else None
        return tuple(None if x is None else plain_number(float(x)) for x in (top, rms, peaked))

    def _by_products(self, node: int, env: Env, u: Tensor | None) -> Tensor | None:
        """Logits less what they are with queries of zero; −∞ where they are masked out."""
        graph = self.trace.graph
        if u is None or graph.nodes[node].op == "scaled_dot_product_attention":
            return None if u is None else bare_logits(graph, node, env, u)
        products, between = compared(graph, node)
        without = dict(env)
        for product in products:
            query = graph.nodes[product].inputs[-2]
            without[product] = self.tape.call(product, {**env, query: torch.zeros_like(torch.as_tensor(env[query]))})
        for index in between:  # on copies, as some write to what they read
            read = {i: v.clone() if isinstance(v := without.get(i), Tensor) else v for i in graph.nodes[index].inputs}
            without[index] = self.tape.call(index, {**without, **read})
        base = without.get(self._shifts.get(node, graph.nodes[node].inputs[0]))
        return u - base.masked_fill(base < MASKED, 0.0) if products and isinstance(base, Tensor) else u

    def _stream(self, found: FoundStream, stream: SpotStream, runs: Mapping[str, Look], leaves: Env, begin: Env) -> FoundStream:
        base = runs["base"]
        states = [base.values.get(n) for n in stream.states]
        known, awake = dict(zip(stream.states, states, strict=True)), self._awake(leaves, stream) if stream.part else {}
        seconds = SECONDS / 2 if awake else SECONDS
        linear, gain = self._linear(stream, leaves, begin)
        lasting = None if linear is None or gain is None else lasts(linear, begin[stream.states[0]])
        moved = [self._moved(stream, runs[name], linear) for name in ("base", *(f"x{f:g}" for f in FACTORS))]
        return replace(
            found,
            rms=tuple(plain_number(rms(t)) for t in states),
            apart=tuple(plain_number(gap_of(t, stream.axis)) for t in states),
            moved=tuple(moved),
            heavy=self._moved(stream, runs["heavy"], linear),
            gain=gain,
            is_linear=None if linear is None else gain is not None,
            lasts=lasting,
            repeated=repeated(self.tape, stream.part, known, leaves, seconds),
            awake=repeated(self.tape, stream.part if awake else (), known, leaves, seconds, partial(self._awake, leaves, stream)),
            period=max(len(stream.part) - 1, 1),
            repeats=self.plan.loop and lasting is not None and self._repeats(stream),
            branches=tuple(self._branch(stream, place, runs) for place in range(len(stream.branches))),
        )

    def _repeats(self, stream: SpotStream) -> bool:
        """Whether the first state reaches the end through one later state alone."""
        entry, end = stream.states[0], stream.states[-1]
        outputs = [b.output for s in self.plan.streams for b in s.branches]
        middle = len(stream.states) // 2
        return any(
            entry not in self.tape.steps([end], [entry, cut, *outputs])[2] for cut in stream.states[max(middle - STATES, 1) : middle] if cut != end
        )

    def _branch(self, stream: SpotStream, place: int, runs: Mapping[str, Look]) -> FoundBranch:
        b = stream.branches[place]
        sizes = {name: plain_number(largest(look.values.get(b.output), stream.axis)) for name, look in runs.items()}
        logits = [runs["base"].logits.get(n, NO_LOGITS) for n in b.softmaxes]
        heavy = [runs[r].logits.get(n, NO_LOGITS)[0] for n in b.softmaxes for r in ("heavy", "both")]
        return FoundBranch(
            b.kind,
            b.sublayer,
            place,
            sizes["base"],
            tuple(sizes[f"x{f:g}"] for f in FACTORS),
            *((sizes["heavy"], sizes["both"], sizes.get("alone")) if b.free else (None, None, None)),
            most(top for top, _, _ in logits),
            most(rms for _, rms, _ in logits),
            most(peaked for _, _, peaked in logits),
            most(heavy),
            most(finite(sizes.get(f"fill{number:g}")) for number in FILLS),
            most(finite(runs[r].logits.get(n, NO_LOGITS)[0]) for n in b.softmaxes for r in runs if r.startswith("fill")),
        )

    def _linear(self, stream: SpotStream, leaves: Env, begin: Env) -> tuple[Callable[[Tensor], Tensor] | None, float | None]:
        """The map from the first state to the end where nothing is added, and its largest found gain; None where it cannot be run."""
        entry, end = stream.states[0], stream.states[-1]
        if self.brief or not stream.linear or entry not in begin:
            return None, None
        outputs = {b.output for s in self.plan.streams for b in s.branches if not b.carries}
        return self._gain(entry, end, tuple(outputs), leaves, begin[entry])

    def _gain(
        self, entry: int, end: int, held: Sequence[int], leaves: Env, like: Tensor
    ) -> tuple[Callable[[Tensor], Tensor] | None, float | None]:
        """The map from one value to another with zeros for those that are held, and its largest found gain."""
        zeros = {o: torch.zeros(self.trace.graph.nodes[o].shape or (), dtype=torch.float64) for o in held}
        calls = self.tape.steps([end], [entry, *held])[0]

        def mapped(v: Tensor) -> Tensor:
            env = self.tape.copies({**leaves, **zeros, entry: v})
            for index in calls:
                env[index] = self.tape.call(index, env)
            found = env[end]
            if not isinstance(found, Tensor):
                raise Missing("the stream does not end in one tensor")
            return found

        try:
            return mapped, operator_norm(mapped, like)
        except Exception:
            return None, None

    def _drawn_twice(self, found: FoundStream, stream: SpotStream, leaves: Env) -> FoundStream:
        """What the linear part is at the recorded start and at another draw of it: what a random matrix makes of it differs."""
        asked = stream.mixed is not None or (stream.cone is not None and not self.brief)
        again = self._redrawn(leaves) if asked and self.model is not None else None
        if again is None:
            return found
        gains, carried = list[float | None](), list[Carried | None]()
        for given in (leaves, again):
            with contextlib.suppress(Exception):
                gains.append(self._mixed(stream, given))
            with contextlib.suppress(Exception):
                carried.append(self._carried(None if self.brief else stream.cone, given))
        known, laws = [g for g in gains if g is not None], [c for c in carried if c is not None]
        return replace(found, mixed=tuple(known) if len(known) == 2 else (), carried=tuple(laws) if len(laws) == 2 else ())

    def _mixed(self, stream: SpotStream, leaves: Env) -> float | None:
        """The gain of a stream that is linear in its beginning and in what branches add, together."""
        if stream.mixed is None:
            return None
        begin = stream.mixed.begin
        mapped, like = self._map(stream.mixed.end, (begin, *stream.mixed.held), leaves)
        return None if reach(mapped, like) is None else operator_norm(lambda v: mapped({**like, begin: v}), like[begin])

    def _carried(self, cone: SpotCone | None, leaves: Env) -> Carried | None:
        """How far the first state and all that is added are carried to three states, where nothing that is added grows with them."""
        if cone is None or not self._is_held(cone, leaves):
            return None
        found = [reach(*self._map(node, (cone.begin, *cone.added), leaves)) for node in (cone.middle, cone.late, cone.end)]
        one, two, three = (None if sizes is None else tuple(sizes[i] for i in (cone.begin, *cone.added)) for sizes in found)
        return None if one is None or two is None or three is None else (one, two, three)

    def _map(self, node: int, given: Sequence[int], leaves: Env) -> tuple[Callable[[Env], Tensor], dict[int, Tensor]]:
        """A value as a function of others, and zeros for those."""
        once, again = self.tape.parted(self.tape.steps([node], given)[0], given)
        still = self.tape.run(once, leaves)
        if self.brief and CALL * len(again) * TURNS > SECONDS:
            raise Missing("too large for a spot check")

        def mapped(values: Env) -> Tensor:
            made = self.tape.run(again, {**still, **values})[node]
            if not isinstance(made, Tensor):
                raise Missing("the stream does not end in one tensor")
            return made

        return mapped, {i: torch.zeros(self.trace.graph.nodes[i].shape or (), dtype=torch.float64) for i in given}

    def _is_held(self, cone: SpotCone, leaves: Env) -> bool:
        """Whether all that is added behind the first block stays of its size where all arguments, the first state and everything that was added
        before are multiplied."""
        begin = self.tape.run(self.tape.steps([cone.begin], [])[0], leaves)[cone.begin]
        calls, added = self.tape.steps([cone.end], [cone.begin])[0], set(cone.added)
        runs = []
        for factor in (1.0, *FACTORS):
            given = {i: v * factor for i, v in leaves.items() if self.trace.graph.nodes[i].op == "input" and self._is_float(i)}
            env, sizes = {**leaves, **given, cone.begin: begin * factor}, dict.fromkeys(added, 0.0)
            for index in calls:
                env[index] = self.tape.call(index, env)
                if index in added:
                    sizes[index], env[index] = float(env[index].abs().amax()), env[index] * factor
            runs.append(sizes)
        base, large, larger = runs
        return all(larger[i] <= SATURATED * large[i] and large[i] <= LARGER * max(base[i], 1.0) for i in cone.added[cone.first :])

    def _redrawn(self, leaves: Env) -> Env | None:
        """The leaves with the weights of another draw."""
        twin = made(self.other, self.plan.seed + 1)
        names = {i: name for i, name in self.names.items() if self.trace.graph.nodes[i].op == "parameter"}
        return None if twin is None else {**leaves, **{i: self.tape.cast(attribute(twin, name)) for i, name in names.items()}}

    def _moved(self, stream: SpotStream, look: Look, linear: Callable[[Tensor], Tensor] | None) -> float | None:
        """How far the end is from the linear part of the first state, in rms of the largest token."""
        end, first = look.values.get(stream.states[-1]), look.values.get(stream.states[0])
        if not isinstance(end, Tensor) or not isinstance(first, Tensor):
            return None
        if linear is None:
            return plain_number(largest(end, stream.axis))
        return plain_number(largest(end - linear(first), stream.axis))


def made(make: Make | None, seed: int) -> nn.Module | None:
    """The model with weights; None where its code does not give one."""
    if make is None:
        return None
    try:
        return make(seed).eval()
    except Exception:
        return None


@dataclass
class Look:
    """What one run showed."""

    values: Env = field(default_factory=dict)
    logits: dict[int, tuple[float | None, ...]] = field(default_factory=dict)


def _given(value: Any, like: Tensor) -> Any:
    """An argument of the module: as the traced program gets it, in its own type."""
    return differentiable(value.to(like.dtype)) if isinstance(value, Tensor) else value


def _functional(out: Tensor) -> Tensor:
    """A fixed random linear function of the output."""
    g = torch.randn(out.shape, generator=torch.Generator().manual_seed(11), dtype=torch.float32)
    return (out * g.to(out.dtype)).sum()


__all__ = ["SECONDS", "Make", "Run", "made"]
