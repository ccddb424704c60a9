"""Attention logits are bounded whatever the weights are.

Why: softmax attention has a sensitivity that grows with its logits, which are a product of two trained maps: with a high learning rate they
grow, the attention entropy collapses, and the loss spikes or diverges. A norm on queries and keys, cosine attention or a cap bounds them by the
gains alone. Where only the branch's output is normed, what it reads grows with depth, and the logits with the square of it.
Shares of trained numbers alone (`mix.softmax(0)` over paths or kernels) are no logits that data move: they are weights, as gates are.
Assumes: gains of the norms on queries and keys, and learned temperatures, are fixed; full-width norms bound all heads together, which is
weaker by the number of heads than a norm per head.
Cannot tell: when an op without a row stands between a projection and the logits.
Source: Dehghani et al. 2023, section 2; Wortsman et al. 2023; Emadi, theorem 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from screen.calculi.bounds.boundedness import INPUTS
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.interpreter import TABLE
from screen.calculi.bounds.quantities import Quantity
from screen.calculi.bounds.softmax import MAP
from screen.facts.advice import NORM_BESIDE, ONE_KEY, added_to_logits, condition_on_logits, logit_growth, qk_norm_code
from screen.facts.claims.derive import untrained, weighing
from screen.facts.handed_logits import HUGE, add_up
from screen.facts.queries import (
    are_logits_bounded, beside_products, do_logits_stay, free_softmaxes, growth_of, has_softmax, only_beside_grows, reads_grown_state,
    starts_at_zero, unbounded_softmax,
)  # fmt: skip
from screen.facts.self_division import divides_before_logits
from screen.rule import (
    GAINS_HELD, Example, Facts, Kind, Outcome, Result, Rule, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable,
)
from screen.structure.dataflow import Flow
from screen.structure.logits import FUSED, PRODUCTS
from screen.structure.softmaxes import softmaxes_of

RULE = Rule("L201", "logits-bounded", "forward", "L", "warning", ("streams.kinds.sublayers", "analyses"), "Dehghani et al. 2023, section 2")

TABLES_HELD = "the tables that forward is given stay as large as they are"
"""What a bound of logits rests on where queries and keys are turned by arguments."""
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.after = nn.LayerNorm(32), nn.RMSNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.qn, self.kn = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x):
        y = INPUT
        q, k, v = QUERY(self.q(y)), KEY(self.k(y)), self.v(y)
        return x + OUTPUT(self.o(F.scaled_dot_product_attention(q, k, v)))
"""


def _block(entry: str, query: str, key: str, output: str) -> str:
    return BLOCK.replace("INPUT", entry).replace("QUERY", query).replace("KEY", key).replace("OUTPUT", output)


HOLDS = (Example("queries and keys are normalised", _block("self.norm(x)", "self.qn", "self.kn", "")),)
VIOLATES = (Example("a norm on the output alone: what the logits are made of grows with the stream", _block("x", "", "", "self.after")),)
CANNOT_TELL = (Example("an op without a row on the queries", _block("self.norm(x)", "torch.special.bessel_j0", "self.kn", "")),)

FAR = 1e4
"""A cap of logits above this keeps numbers finite, and no attention apart: products of queries and keys that are clipped at 8 stay below it."""
CAPPED = "|c·tanh(u/c)| ≤ c"
NORMED = {
    "per_head": "|logit| ≤ √d_h·max|γ_q|·max|γ_k| per head, without biases",
    "full": "|logit| ≤ H·√d_h·max|γ_q|·max|γ_k| with one norm over H heads, without biases",
    "cosine": "|logit| ≤ |scale|",
    "l2": "|logit| ≤ |scale|·max|γ_q|·max|γ_k|",
}
"""Bounds by the kind of QK-norm; the one of the model stands under `logits`."""
SINGLE = {"router": "its router", "pooling": "the softmax that it pools with", "memory": "the softmax that weighs what is stored"}
"""Softmaxes that compare no queries with keys, by what their shares are for."""
BY_COSINE = "cosine similarity with a temperature"
ROUTED = f"a z-loss on these logits, or {BY_COSINE}"
BY_ONE_MAP = "|logit| ≤ B̄·‖W‖, with B̄ the largest norm of what the branch reads, W the map that makes them"
BESIDE = "|logit| ≤ |q·k|/√d_h + B̄·‖W‖, with B̄ the largest norm of what the branch reads, W the map that makes what is added"
ADD_UP = "hold those that come from before, and add up over depth; its own are bounded at fixed weights"
CAP_OF_SUM = "a cap on the sum, `c * tanh(logits / c)`"
BOUND_BESIDE = "a bound on what is added to the logits"
READ = "the size of what is read"
BY_ONE_SIDE = "|logit| ≤ B̄·‖W‖·n/√d_h, with B̄ the largest norm of what the branch reads, W the map without a norm, n the largest norm on the other"
BOUND = "|logit| ≤ B̄²·‖W_Q‖·‖W_K‖/√d_h, with B̄ the largest norm of what the branch reads"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer that holds a softmax, or may hold one; one for a softmax that stands in none."""
    sites = [s for s in each_sublayer(facts) if has_softmax(facts, s[2]) is not False]
    outcomes = [_tried(facts, s[2], _judge(facts, *s)) for s in sites if not _shares_paths(facts, s[2])]
    if not sites and (beyond := _outside(facts)) is not None:
        outcomes.append(beyond)
    return or_not_applicable(outcomes, f"no values are weighed by a softmax over logits{' that are made of data' if sites else ''}.")


def _tried(facts: Facts, sublayer: Sublayer, outcome: Outcome) -> Outcome:
    """With the change on the graph that does what is proposed."""
    alone = _single(facts, sublayer) or _is_lifted_beside(facts, sublayer)
    return outcome if outcome.tries is not None else replace(outcome, tries=() if alone else ("qk-norm",))


def _outside(facts: Facts) -> Outcome | None:
    """A softmax that no residual branch holds."""
    anywhere = facts.claims.of("softmax", "all").known
    if isinstance(anywhere, Unknown):
        return Outcome("cannot_tell", f"Whether values are weighed by a softmax is unknown: {anywhere.reason}.", blame(facts, at(), anywhere.nodes))
    flow = facts.readers[0].flow if facts.readers else Flow(facts.graph)
    found = softmaxes_of(flow, range(len(facts.graph.nodes)))
    if anywhere is not True:
        return None
    if found and all(_is_of_weights(flow, s.node if s.logits is None else s.logits) for s in found):
        return Outcome("holds", "Every softmax is one of trained numbers alone: no logits are made of data.", tries=())
    message = "A softmax outside of the residual branches weighs values, and nothing that was derived bounds its logits."
    return Outcome("conditional", message, condition="bounded-logits")


def _is_of_weights(flow: Flow, logits: int) -> bool:
    """Whether logits are made of trained numbers and of nothing else."""
    return flow.trained[logits] and not flow.data[logits]


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    there = has_softmax(facts, sublayer)
    if isinstance(there, Unknown):
        return Outcome("cannot_tell", f"{name}: {there.reason}.", blame(facts, site, there.nodes), theorem=BOUND)
    bounded = are_logits_bounded(facts, sublayer)
    if isinstance(bounded, Unknown) and add_up(facts, sublayer):
        message = f"{name}: {_logits(facts, sublayer)} {ADD_UP}."
        return Outcome("conditional", message, site, remedy=CAP_OF_SUM, condition=condition_on_logits(facts, sublayer))
    if isinstance(bounded, Unknown):
        return Outcome(
            "cannot_tell", f"{name}: whether its logits are bounded is unknown: {bounded.reason}.", blame(facts, site, bounded.nodes), theorem=BOUND
        )
    numbers, condition = _numbers(facts, sublayer), condition_on_logits(facts, sublayer)
    if bounded:
        cap = _cap(facts, sublayer)
        if cap is not None and cap > FAR and _is_cut_alone(facts, sublayer):
            message = (
                f"{name}: {_logits(facts, sublayer)} are cut at {cap:.4g} and scale with {_scaled_by(facts, sublayer)} below that, where nothing in "
                f"the structure bounds them: {ONE_KEY:.0f} is enough for one key to get all."
            )
            plain = (
                f"{name}: {_logits(facts, sublayer)} grow with {_scaled_by(facts, sublayer)}, and are cut at {cap:.4g} alone, where "
                f"{ONE_KEY:.0f} is enough for one key to get all."
            )
            remedy = _remedy(facts, sublayer) + f"; or a logit cap near {ONE_KEY:.0f}"
            return Outcome("conditional", message, site, numbers=numbers, remedy=remedy, condition=condition, plain=plain)
        if cap is not None:
            message = f"{name}: the logits are at most {cap:.4g}, whatever the weights and gains."
            return Outcome("holds", message, site, theorem=CAPPED, numbers=numbers)
        if _is_frozen(facts, sublayer):
            message = f"{name}: its logits are bounded, as what they are made of does not train (`requires_grad` is off)."
            return Outcome("holds", message, site, numbers=numbers)
        how = f"QK-norm ({sublayer.qk_norm})" if sublayer.qk_norm != "none" else "what they are made of"
        message = f"{name}: the logits are bounded by {how}, given {_gains(facts, sublayer)}."
        assumes = (GAINS_HELD, TABLES_HELD) if _is_turned(facts, sublayer) else (GAINS_HELD,)
        return Outcome("holds", message, site, theorem=NORMED.get(str(sublayer.qk_norm), ""), assumptions=assumes, numbers=numbers)
    if table := _table(facts, sublayer):
        names = " and ".join(f"`{name}`" for name in table)
        message = f"{name}: the shares of its softmax are made of {names} alone, whatever it reads, and nothing in the structure bounds them."
        return Outcome("conditional", message, site, numbers=numbers, remedy=f"decoupled weight decay on {names}", condition="bounded-weights")
    bound = _bound(facts, sublayer)
    raw = do_logits_stay(facts, sublayer) is False and growth_of(facts, stream, "fixed") != "bounded"
    if raw and not reads_grown_state(facts, stream, kind, sublayer):
        message = (
            f"{name}: the logits scale with {_scaled_by(facts, sublayer)}, and with the first state of the stream where no norm stands before it."
        )
        return Outcome("conditional", message, site, theorem=bound, numbers=numbers, remedy=_remedy(facts, sublayer), condition=condition)
    if raw and add_up(facts, sublayer):
        message = f"{name}: {_logits(facts, sublayer)} {ADD_UP}."
        return Outcome("conditional", message, site, theorem=bound, numbers=numbers, remedy=_remedy(facts, sublayer), condition=condition)
    if raw and divides_before_logits(facts, stream, sublayer):
        by = _scaled_by(facts, sublayer)
        message = f"{name}: {_logits(facts, sublayer)} scale with {by}, and what the stream is divided by before it is not shown to bound them."
        return Outcome("conditional", message, site, theorem=bound, numbers=numbers, remedy=_remedy(facts, sublayer), condition=condition)
    if raw and _is_silent(facts, stream):
        message = f"{name}: the logits are made of a stream that no norm bounds, and to which every branch adds nothing at the start."
        return Outcome("conditional", message, site, theorem=bound, numbers=numbers, remedy=_remedy(facts, sublayer), condition="learned-scale")
    if raw and only_beside_grows(facts, sublayer):
        names = "".join(f", and with `{n}`" for b in beside_products(facts, sublayer) for n in b.parameters[-1:])
        message = f"{name}: what is added to the products of queries and keys is made of a stream that no norm bounds: it grows with that{names}."
        condition = condition_on_logits(facts, sublayer, grow=True)
        return Outcome("violated", message, site, theorem=BESIDE, numbers=numbers, remedy=NORM_BESIDE, tries=("norms-before",), condition=condition)
    if raw:
        condition = condition_on_logits(facts, sublayer, grow=True)
        single = _single(facts, sublayer)
        power = "it" if single or _is_linear(facts, sublayer) else "its square"
        by = _map(facts, sublayer) if single else _sides(facts, sublayer)
        grow = f"{power} over depth{f', and with {by}' if by else ''}"
        message = f"{name}: {_logits(facts, sublayer)} are made of a stream that no norm bounds: they grow with {grow}."
    else:
        message = f"{name}: {_logits(facts, sublayer)} still scale with {_scaled_by(facts, sublayer)}; nothing in the structure bounds them."
    remedy = _remedy(facts, sublayer) + ("" if raw else "; or a logit cap")
    result: Result = "violated" if raw else "conditional"
    plain = "" if raw else _in_words(facts, sublayer, name)
    return Outcome(result, message, site, theorem=bound, numbers=numbers, remedy=remedy, condition=condition, plain=plain)


def _is_linear(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the bound of the logits grows with the stream and not with its square: one of queries and keys is made of a norm."""
    analysis = facts.analysis(sublayer)
    bounds = [] if isinstance(analysis, Unknown) else [b for b in analysis.bounds.logits if not isinstance(b, Unknown)]
    rises = [b.log(_at(b.symbols(), HUGE**2)) - b.log(_at(b.symbols(), HUGE)) for b in bounds]
    return bool(rises) and max(rises) < 1.5 * math.log(HUGE)


def _at(symbols: Iterable[str], size: float) -> dict[str, float]:
    return {s: size if s in INPUTS else 1.0 for s in symbols}


def _in_words(facts: Facts, sublayer: Sublayer, name: str) -> str:
    """How far the weights have to grow, where that is known."""
    by, single = _scaled_by(facts, sublayer), _single(facts, sublayer)
    message = f"{name}: {_logits(facts, sublayer) if single else 'attention logits'} grow with {by}, and nothing in the code limits them"
    apart = single or _beside_norms(facts, sublayer) or _lifting(facts, sublayer)
    found = None if apart else logit_growth(facts, sublayer)
    if found is None:
        return f"{message}."
    start, basis, factor = found
    size = f"{start:.3g} (root mean square, {basis}, in the block where they are largest{added_to_logits(facts, sublayer)})"
    return f"{message}: they start at {size} and reach {ONE_KEY:.0f} when {by.partition(',')[0]} have each grown about {factor:.2g} times."


def _shares_paths(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether all that its softmaxes do is to share paths, kernels or maps out by trained numbers."""
    analysis = facts.analysis(sublayer)
    found = [] if isinstance(analysis, Unknown) or analysis.bounds.opaque else weighing(analysis.bounds)
    return bool(found) and all(s.role == "router" and s.table for s in found)


def _table(facts: Facts, sublayer: Sublayer) -> tuple[str, ...]:
    """The parameters that all logits that nothing bounds are made of, where these read no data."""
    free = free_softmaxes(facts, sublayer) if unbounded_softmax(facts, sublayer) == "table" else []
    return tuple(dict.fromkeys(name for softmax in free for name in softmax.table))


def _single(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether no query is compared with keys in the logits that nothing bounds: one map makes them."""
    return unbounded_softmax(facts, sublayer) in SINGLE or _compares_nothing(facts, sublayer)


def _compares_nothing(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether no two values are compared in the logits that nothing bounds: maps of one value, and tables, make them."""
    free = [s for s in free_softmaxes(facts, sublayer) if s.role == "attention"]
    return bool(free) and all(s.product is None for s in free)


def _logits(facts: Facts, sublayer: Sublayer) -> str:
    made_by = SINGLE.get(unbounded_softmax(facts, sublayer))
    return f"the logits of {made_by}" if made_by else "the logits"


def _is_silent(facts: Facts, stream: Stream) -> bool:
    """Whether every branch is multiplied by a learned scale that starts at zero."""
    return all(starts_at_zero(s) for k in stream.kinds for s in k.sublayers)


def _scaled_by(facts: Facts, sublayer: Sublayer) -> str:
    """What the logits scale with: W_Q and W_K, or the gains alone where these are divided by their norms (σReparam); of a router its map."""
    if _single(facts, sublayer):
        return _map(facts, sublayer) or READ
    if beside := _beside_norms(facts, sublayer) or _lifting(facts, sublayer):
        return " and ".join(f"`{name}`" for name in beside)
    analysis = facts.analysis(sublayer)
    groups = () if isinstance(analysis, Unknown) else analysis.degrees.groups
    names = [d.parameters[0] for d in groups if d.status == "bound" and d.predicted > 0]
    known = facts.graph.parameters
    gains = [f"`{n}`" for n in names if n in known and sum(size > 1 for size in known[n].shape or ()) < 2]
    if gains and len(gains) == len(names):
        return " and ".join(gains)
    others = [n for b in beside_products(facts, sublayer) for n in b.parameters[-1:]] + list(_mixing(facts, sublayer))
    return ", ".join((_sides(facts, sublayer) or READ, *(f"and with `{n}`" for n in dict.fromkeys(others))))


def _map(facts: Facts, sublayer: Sublayer) -> str:
    """What makes logits that compare nothing; empty where the data are the logits."""
    free = free_softmaxes(facts, sublayer)
    names = dict.fromkeys(s.made_by[0] for s in free if s.role != "attention" and s.made_by[0] is not None)
    return " and ".join(names) or ("" if free and all(s.role != "attention" for s in free) else MAP)


def _mixing(facts: Facts, sublayer: Sublayer) -> tuple[str, ...]:
    """What maps and multiplies products of queries and keys before a softmax whose logits nothing bounds."""
    return tuple(dict.fromkeys(name for s in free_softmaxes(facts, sublayer) for name in s.mixing))


def _sides(facts: Facts, sublayer: Sublayer) -> str:
    """What makes queries and keys and has its size in the logits: a norm behind one of both divides its size out. Empty where the data are compared
    as they are."""
    bare = [norm == "none" or isinstance(norm, Unknown) for norm in (sublayer.q_norm, sublayer.k_norm)]
    names = dict.fromkeys(name for made in _compared(facts, sublayer) for name, free in zip(made, bare, strict=True) if free and name is not None)
    return " and ".join(names) or ("" if any(bare) else "the maps that make them")


def _compared(facts: Facts, sublayer: Sublayer) -> list[tuple[str | None, str | None]]:
    """What makes the queries and the keys of every attention whose logits nothing bounds."""
    return [s.made_by for s in free_softmaxes(facts, sublayer) if s.role == "attention"] or [("W_Q", "W_K")]


def _bound(facts: Facts, sublayer: Sublayer) -> str:
    """The law of the logits, by what makes them."""
    if _single(facts, sublayer):
        return BY_ONE_MAP if _map(facts, sublayer) else ""
    nodes, free = facts.graph.nodes, free_softmaxes(facts, sublayer)
    if any(s.mixing or (s.product is not None and nodes[s.product].op not in (*FUSED, *PRODUCTS)) for s in free):
        return ""  # a distance, or something else that is compared or done with it: no law of products
    if any(made != ("W_Q", "W_K") for made in _compared(facts, sublayer)):
        return ""  # what is compared is no map of the data
    return BY_ONE_SIDE if _sides(facts, sublayer) in ("W_Q", "W_K") else BOUND


def _unbounded_logits(facts: Facts, sublayer: Sublayer) -> list[Expr]:
    """The bounds of an attention's logits that some weight lifts."""
    return [s.logits for s in free_softmaxes(facts, sublayer) if s.role == "attention" and isinstance(s.logits, Expr)]


def _lifting(facts: Facts, sublayer: Sublayer) -> tuple[str, ...]:
    """The matrices that lift the bound of an attention's logits, and the biases of heads, where others do not: a cap or a bounded function stands
    behind these, or they are divided by their own size. Nothing where all do, or none by itself."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return ()
    bounds = analysis.bounds
    parts: dict[str, set[str]] = {n: set() for q in bounds.quantities if sum(size > 1 for size in q.part.sizes) > 1 for n in _made_of(q)}
    for q in bounds.quantities:
        for name in _made_of(q) if q.symbol in bounds.free else ():
            if name in parts:
                parts[name].add(q.symbol)  # all its norms: a bound may take the smallest of them
    divided = {q.symbol for q in bounds.quantities if q.part.fold is not None and q.part.fold.fixed}
    lifted, held = dict[str, None](), False
    for bound in _unbounded_logits(facts, sublayer):
        held = held or not divided.isdisjoint(bound.symbols())
        for name, symbols in parts.items():
            if here := symbols.intersection(bound.symbols()):
                if bound.log({**dict.fromkeys(bound.symbols(), 1.0), **dict.fromkeys(here, math.inf)}) == math.inf:
                    lifted[name] = None
                else:
                    held = True
    return tuple(lifted) if held else ()


def _made_of(quantity: Quantity) -> tuple[str, ...]:
    """The matrices that a norm is one of, those of queries and of keys where it is one of their product."""
    fold = quantity.part.fold
    factors = [f.parameter for f in fold.factors if sum(size > 1 for size in f.sizes) > 1] if fold is not None else []
    return tuple(dict.fromkeys(factors)) or (f"{quantity.parameter}{quantity.slices}",)


def _is_lifted_beside(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether none of the matrices that lift the bound makes queries or keys: what is compared is bounded as it is (clipped), and norms on it are
    no help."""
    names, nodes = set(_lifting(facts, sublayer)), facts.graph.nodes
    products = [s.product for s in free_softmaxes(facts, sublayer) if s.role == "attention" and s.product is not None]
    if not names or not products or not facts.readers or any(nodes[product].op in FUSED for product in products):
        return False
    above = 0
    for product in products:
        above |= facts.readers[0].flow.ancestors[product]
    made = {n.name for n in nodes if above >> n.index & 1 and n.op == "parameter"}
    return made.isdisjoint(name.partition("[")[0] for name in names)


def _beside_norms(facts: Facts, sublayer: Sublayer) -> tuple[str, ...]:
    """Of an attention with normed queries and keys the parameters that lift the bound of its logits, each by itself: of what is added there."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or sublayer.qk_norm == "none" or isinstance(sublayer.qk_norm, Unknown):
        return ()
    bounds = analysis.bounds
    free = _unbounded_logits(facts, sublayer)
    lifting = {s for e in free for s in bounds.free.intersection(e.symbols()) if e.log({**dict.fromkeys(e.symbols(), 1.0), s: math.inf}) == math.inf}
    return tuple(dict.fromkeys(q.parameter for q in bounds.quantities if q.symbol in lifting))


def _remedy(facts: Facts, sublayer: Sublayer) -> str:
    """Norms on what the logits are made of, of an attention."""
    if _beside_norms(facts, sublayer) or _is_lifted_beside(facts, sublayer):
        return BOUND_BESIDE
    if _single(facts, sublayer):
        return BY_COSINE if unbounded_softmax(facts, sublayer) == "memory" else ROUTED
    mixed = "".join(f", and a bound on `{name}`, which scales the logits" for name in _mixing(facts, sublayer))
    return f"{qk_norm_code(facts, sublayer)}{f', and {BOUND_BESIDE}' if beside_products(facts, sublayer) else ''}{mixed}"


def _cap(facts: Facts, sublayer: Sublayer) -> float | None:
    """The largest logit with every weight, gain and input at infinity; None where that has no bound."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or not analysis.bounds.logits:
        return None
    logs = [bound.log(dict.fromkeys(bound.symbols(), math.inf)) if not isinstance(bound, Unknown) else math.inf for bound in analysis.bounds.logits]
    return math.exp(max(logs)) if max(logs) < math.inf else None


def _is_cut_alone(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether some logits reach `FAR` with their free weights at infinity and every gain at 1: no norm holds them."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return False
    free = analysis.bounds.free | INPUTS
    bounds = [b for b in analysis.bounds.logits if not isinstance(b, Unknown)]
    return any(b.log({s: math.inf if s in free else 1.0 for s in b.symbols()}) > math.log(FAR) for b in bounds)


def _is_frozen(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether all weights that the bound of its logits rests on are frozen."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or sublayer.qk_norm != "none":
        return False
    symbols = {s for b in analysis.bounds.logits if not isinstance(b, Unknown) for s in b.symbols()}
    named = {q.parameter for q in analysis.bounds.quantities if q.symbol in symbols}
    return bool(named) and named <= set(facts.graph.frozen)


def _is_turned(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the bound of its logits is one for the tables that forward is given."""
    analysis = facts.analysis(sublayer)
    return not isinstance(analysis, Unknown) and any(isinstance(b, Expr) and TABLE in b.symbols() for b in analysis.bounds.logits)


def _gains(facts: Facts, sublayer: Sublayer) -> str:
    """The gains and temperatures that the bound of the logits leaves free, by name, and what it is where their entries are 1."""
    analysis = facts.analysis(sublayer)
    bounds = () if isinstance(analysis, Unknown) else tuple(b for b in analysis.bounds.logits if not isinstance(b, Unknown))
    if isinstance(analysis, Unknown) or not bounds or len(bounds) < len(analysis.bounds.logits):
        return "the gains"
    if _is_turned(facts, sublayer):
        return "the gains and the tables that forward is given"
    entries = {q.symbol: q.at_one for q in analysis.bounds.quantities}
    at_one = [b.log({s: entries.get(s, 1.0) for s in b.symbols()}) for b in bounds]
    free = {s for b in bounds for s in b.symbols() if b.log(dict.fromkeys(b.symbols(), 1.0) | {s: math.inf}) == math.inf}
    made = [(q, f" + {q.part.shift:g}" if q.part.shift else "") for q in analysis.bounds.quantities if q.symbol in free]
    fixed = untrained(facts, analysis.bounds)
    still = [name for name in dict.fromkeys(q.parameter for q, _ in made) if name in fixed]
    names = list(dict.fromkeys(f"`{q.parameter}`{plus}" for q, plus in made if q.parameter not in still))
    if still:  # how large it is stands nowhere
        kept = f"{' and '.join(f'`{name}`' for name in still)}, which {'does' if len(still) == 1 else 'do'} not train"
        return " and ".join((*names, kept))
    if not names or max(at_one) == math.inf:
        return "the gains"
    its, them = ("its", "it") if len(names) == 1 else ("their", "them")
    return f"{' and '.join(names)}: at most {math.exp(max(at_one)):.3g} with {its} entries at 1, and nothing limits {them}"


def _numbers(facts: Facts, sublayer: Sublayer) -> tuple[tuple[str, str], ...]:
    """The bound of the logits as a formula, where one was derived."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return ()
    return tuple(("logits", str(bound)) for bound in analysis.bounds.logits[:1] if not isinstance(bound, Unknown))
