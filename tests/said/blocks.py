"""Blocks and models that tests of single calculi have, for the record: what is derived of them, and what each bound comes to for some weights."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from screen.calculi.bounds import BranchBounds, values_of
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.parts import said
from screen.calculi.meanfield.causal import last_one_minus_cos
from screen.calculi.meanfield.result import read
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.rule import Example
from screen.testing import facts_of
from tests.calculi.bounds import near_bounds as near
from tests.calculi.bounds.test_bounds import TOKENS, Stack, rms
from tests.calculi.bounds.test_bounds_constrained import DECLARED, PROVEN
from tests.calculi.meanfield import covariance_logits, covariance_models, covariance_odd, covariance_words
from tests.calculi.meanfield.covariance_stacks import DESIGNS, stack_of
from tests.calculi.meanfield.simulation import Design
from tests.calculi.meanfield import test_start_by_layer as start_by_layer
from tests.calculi.meanfield.test_covariance_blocks import CANNOT, CASES, Case
from tests.calculi.meanfield.test_covariance_laws import TIED
from tests.calculi.meanfield.test_first_update import DESIGNS as UPDATES
from tests.said.calls import HELD, RULES
from tests.said.models import derived, judged
from tests.said.plain import plain
from tests.soundness.grammar import design_of
from tests.soundness import model as sound

Weights = dict[str, np.ndarray]


def weights_of(model: nn.Module) -> Weights:
    """Parameters and buffers with other numbers, the same in every run."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(tuple(p.shape)) for name, p in (*model.named_parameters(), *model.named_buffers())}


def numbers(found: BranchBounds, weights: Mapping[str, np.ndarray]) -> str:
    """What every bound of a branch comes to: 1 for what is no parameter."""
    values = values_of(tuple(q for q in found.quantities if q.parameter in weights), dict(weights))
    told = [(said(q.part), q.slices, q.heads) for q in found.quantities]
    shown = []
    for bound in (found.magnitude, found.lipschitz, found.lipschitz_local, *found.logits):
        if isinstance(bound, Expr):
            given = dict.fromkeys(bound.symbols(), 1.0) | values
            shown += [bound.log(given), bound.lambdify()(given)]
            plainly = found.plain(bound)
            shown += [plainly.log(given | dict.fromkeys(plainly.symbols() - given.keys(), 1.0))] if plainly is not bound else []
    if (form := found.hamiltonian) is not None:
        p = np.linspace(-1.0, 2.0, 3 * form.width).reshape(3, form.width)
        shown += [form.evaluate(p, weights), float(form.maximise(p, weights).sum())]
    return plain((values, told, shown))


def valued(facts: Facts, weights: Weights) -> dict[str, str]:
    """The numbers of all branches."""
    return {f"numbers {n}": numbers(a.bounds, weights) for n, a in enumerate(facts.analyses.values())}


def alone(rule: near.Rule) -> dict[str, str]:
    """A branch in one block."""
    model = near.Parts(rule)
    weights = weights_of(model)
    facts = derive(trace(model.to("meta").eval(), (torch.zeros(2, near.TOKENS, near.WIDTH, device="meta"),), {}))
    return derived(facts) | judged(facts) | valued(facts, weights)


def constrained(make: Callable[[], nn.Module]) -> dict[str, str]:
    """A map whose weight is made of another."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Stack(make, rms)
    weights = weights_of(model)
    facts = derive(trace(model.to("meta").eval(), (torch.zeros(2, TOKENS, dtype=torch.long),), {}))
    return derived(facts) | valued(facts, weights)


def stacked(design: Design, depth: int) -> dict[str, str]:
    """A stack written as steps."""
    stack = stack_of(design, depth)
    return {"recursion": plain(read(stack, {}, ())), "positions": plain(last_one_minus_cos(stack))}


def drawn(seed: str) -> dict[str, str]:
    """A design of the soundness search."""
    design = design_of(seed)
    facts = derive(trace(sound.build(design, "meta"), (sound.example(design, "meta"),), {}))
    return derived(facts) | judged(facts)


def mixed(case: Case, depth: int) -> dict[str, str]:
    """Experts, patches or convolutions, three experts in the place of eight."""
    source = re.sub(r"(DEPTH.* = .*)\b12\b", rf"\g<1>{depth}", case.source).replace("range(8)", "range(3)").replace("range(6)", "range(2)")
    source = source.replace("D, 8,", "D, 3,").replace("chosen, 8)", "chosen, 3)").replace("experts[:7]", "experts[:2]")
    return written(source, ("pixels=float32[2,3,32,32]",) if case.pixels else ("ids=int64[2,16]",))


def table(design: str) -> dict[str, str]:
    """A design of the table in four small blocks."""
    words = ", ".join(f"{key}={value!r}" for key, value in {**UPDATES[design], "depth": 4, "dim": 64, "vocab": 512}.items())
    head = "from examples.table.designs import GPT, Design\n\nclass Model(GPT):\n    def __init__(self):\n"
    return written(f"{head}        super().__init__(Design({words}))\n", ("ids=int64[2,16]",))


def by_layer() -> dict[str, str]:
    """An initialisation that depends on the layer."""
    source = Path(start_by_layer.__file__).read_text(encoding="utf-8").split("def pre()")[0].replace("= 64, 24, 10,", "= 64, 24, 4,")
    source = source[source.index("import math") :].replace("import screen\n", "").replace("class Model(", "class Stack(")
    return written(source + "class Model(Stack):\n    def __init__(self):\n        super().__init__(True)\n", ("ids=int64[1,24]",))


def written(source: str, inputs: tuple[str, ...]) -> dict[str, str]:
    """A model in code."""
    facts = facts_of(Example("", re.sub(r"(DEPTH.* = .*)\b12\b", r"\g<1>6", source), inputs))
    return derived(facts) | judged(facts)


NEAR = {**near.BOUNDED, **near.UNBOUNDED, **near.UNDECIDED, **near.BOUNDED_LOGITS, **near.FREE_LOGITS, **RULES}
WRITTEN: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "odd": (covariance_odd.ODD, covariance_odd.INPUTS, (
        "twice at the end", "reversible", "sorted", "a number added", "the sum times a number", "dense", "cubic", "norm and sum by hand",
        "softmax of itself", "times √2", "the sum divided", "a gain behind the norm", "highway", "momentum", "two branches, a factor between",
        "itself by alpha", "first state again", "halves", "lerp of branch", "a gate that starts at one", "leapfrog",
    )),
    "logits": (covariance_logits.MODELS, covariance_models.INPUTS, ("weight norm", "shifted, post", "distances")),
    "masked": ({n: source for n, (source, _) in covariance_logits.MASKS.items()}, covariance_models.INPUTS, ("bias by stored offset",)),
    "fourier": (covariance_logits.FOURIER, covariance_models.INPUTS, ("pre",)),
    "words": (covariance_words.WORDS, covariance_models.INPUTS, ("tied, minus", "tied, divided", "tied, capped", "tied, twice", "no scale")),
    "traced": (covariance_models.MODELS, covariance_models.INPUTS, ("llama", "none")),
}  # fmt: skip
"""Family -> (sources, inputs, which of them: those that enter most of what no other subject does, for their time)."""
MIXED = (
    "pre encoder and decoder", "two of eight experts", "one expert, its probability as gate", "sigmoid scores and a gate on the shared expert",
    "softmax after the choice, post", "a gated convolution of four taps", "convolutions of 7 by 7 before a norm",
    "convolutions of 7 by 7 without a norm", "convolutions in groups without a norm",
)  # fmt: skip
DRAWN = (6, 8, 16, 21, 31, 32, 36, 37, 39, 46, 48, 54)
"""Seeds, chosen in the same way."""
CAUSAL = {
    "post": Design(c=True, causal=True), "post, even": Design(c=True, causal=True, uniform=True), "peri": Design(a=True, b=True, causal=True),
    "gated": Design(b=True, qk_norm=True, causal=True, gated=True, act="silu"), "tied": Design(c=True, tied=True, causal=True, alpha=2.0, v=0.5),
}  # fmt: skip
STACKS = {**DESIGNS, **{f"tied, {n}": (d, 6) for n, d in TIED.items()}, **{f"causal, {n}": (d, 4) for n, d in CAUSAL.items()}}
BLOCKS: dict[str, Callable[[], Mapping[str, str]]] = {
    **{f"near: {n}": lambda rule=rule: alone(rule) for n, rule in NEAR.items()},  # type: ignore[misc]
    **{f"held: {n}": lambda make=make: constrained(make) for n, make in {**PROVEN, **DECLARED, **HELD}.items()},  # type: ignore[misc]
    **{f"stack: {n}": lambda design=design, depth=depth: stacked(design, min(depth, 12))  # type: ignore[misc]
       for n, (design, depth) in STACKS.items()},
    **{f"drawn: {n}": lambda n=n: drawn(f"7:{n}") for n in DRAWN},  # type: ignore[misc]
    **{f"{family}: {n}": lambda source=sources[n], inputs=inputs: written(source, inputs)  # type: ignore[misc]
       for family, (sources, inputs, names) in WRITTEN.items() for n in names},
    **{f"mixed: {n}": lambda n=n: mixed(CASES[n], 2) for n in MIXED},  # type: ignore[misc]
    **{f"mixed: {n}": lambda source=source: mixed(Case(source), 2) for n, source in CANNOT.items()},  # type: ignore[misc]
    **{f"table: {n}": lambda n=n: table(n) for n in ("none", "scaled_output_norms")},  # type: ignore[misc]
    "by layer": by_layer,
}  # fmt: skip

__all__ = ["BLOCKS", "numbers", "weights_of"]
