"""Models that tests of single calculi hold against real ones, all of them and with fewer blocks, and nets in few spellings: what is derived
and said of each, and what its bounds come to. Those tests ask for one number within a measured room; here stands every number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from screen.calculi.meanfield.activation_kernels import FUNCTIONS, kernel
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph import Initialiser
from screen.rule import Example
from screen.testing import facts_of
from tests.calculi.bounds import test_bounds as bounds
from tests.calculi.bounds import test_bounds_choices as choices
from tests.calculi.bounds import test_bounds_constrained as constrained
from tests.calculi.bounds import test_bounds_pairs as pairs
from tests.calculi.bounds import test_channel_norms as channels
from tests.calculi.bounds import test_cosines as cosines
from tests.calculi.bounds import test_norm_spellings as spellings
from tests.calculi.bounds import test_settled as settled
from tests.calculi.degrees import test_degrees as degrees
from tests.calculi.meanfield import covariance_logits, covariance_models, covariance_odd, covariance_words
from tests.calculi.meanfield import test_causal_gradients as causal
from tests.calculi.meanfield import test_computed_rows as computed
from tests.calculi.meanfield import test_covariance_blocks as blocks
from tests.calculi.meanfield import test_covariance_models as traced
from tests.calculi.meanfield import test_cut_logits as cut
from tests.calculi.meanfield import test_first_state as first_state
from tests.calculi.meanfield import test_first_update as first_update
from tests.calculi.meanfield import test_kept_logits as kept
from tests.calculi.meanfield import test_places as places
from tests.calculi.meanfield import test_windows as windows
from tests.rows.beside import BESIDE, copied
from tests.said.blocks import valued, weights_of
from tests.said.models import derived, judged
from tests.said.plain import plain
from tests.said.rows import said

BLOCKS = 3
IDS, STATES = ("ids=int64[2,16]",), ("x=float32[2,16,64]",)
Pieces = Mapping[str, str]


def whole(facts: Facts) -> dict[str, str]:
    """One piece for each kind of what is derived, one for all that is said."""
    return {**derived(facts), "said": plain(judged(facts))}


def live(model: nn.Module, given: Tensor, deviation: float = 0.2) -> dict[str, str]:
    """A module as it is, its matrices drawn with a deviation."""
    starts = tuple(
        (name, (Initialiser("normal_", (0.0, deviation)) if p.ndim > 1 else Initialiser("fill_", (float(name.endswith("weight")),)),))
        for name, p in model.named_parameters()
    )
    weights = weights_of(model)
    facts = derive(trace(model.to("meta").eval(), (given.to("meta"),), {}, initialisers=starts))
    return {**whole(facts), **valued(facts, weights)}


def of_states(block: Callable[[], nn.Module], *shape: int) -> dict[str, str]:
    """Some blocks, one after the other, on states of a shape."""
    torch.manual_seed(0)
    return live(nn.Sequential(*(block() for _ in range(BLOCKS))), torch.zeros(shape))


def of_words(branch: Callable[[], nn.Module], before: Any = bounds.rms, after: Any = None) -> dict[str, str]:
    """Two blocks of a branch behind an embedding."""
    torch.manual_seed(0)
    return live(bounds.Stack(branch, before, after), torch.zeros(2, bounds.TOKENS, dtype=torch.int64))


def source(text: str, inputs: tuple[str, ...]) -> dict[str, str]:
    """A model in code, in four blocks."""
    text = re.sub(r"(DEPTH.* = .*)\b(?:12|24)\b", r"\g<1>4", text)
    return whole(facts_of(Example("", text.replace("range(8)", "range(3)").replace("D, 8,", "D, 3,").replace("chosen, 8)", "chosen, 3)"), inputs)))


def of_kernel(name: str) -> dict[str, str]:
    """An entry-wise function of Gaussian numbers, of none and of some."""
    found = kernel(name)
    states = [Moments(0.0, 0.0), Moments(0.7, 0.2), Moments(3.0, 3.0)]
    return {"moments": plain([(found.forward(m), found.backward(m, Gradient(1.0, 0.5))) for m in states])}


def rows(make: computed.Make, narrow: bool) -> dict[str, str]:
    """What is known of the rows of a table that is computed."""
    given = torch.zeros(2, computed.N, 4 if narrow else computed.D, device="meta")
    graph = trace(computed.Added(make), (given,), {})
    end = next(n for n in reversed(graph.nodes) if n.op == "add").inputs[-1]
    return {"rows": plain([computed.rows_of(graph, end, tokens) for tokens in (2, 8, 64)])}


def _shared(name: str) -> str:
    text = covariance_models.MODELS["llama"]
    for old, new in traced.SHARED[name][1:]:
        text = text.replace(old, new)
    return text


def _cannot(reason: str) -> str:
    old, new = traced.CANNOT[reason]
    text = covariance_models.MODELS["pre"].replace(old, new.replace("; ", "\n        "))
    if reason == "added to it again":
        text = text.replace("def forward(self, x):\n        x = x + self", "def forward(self, x):\n        y = x\n        x = x + self")
    return text.replace("self.one, ", "self.gamma = nn.Parameter(torch.linspace(0, 1, D)); self.one, ")


def _other_tokens(name: str) -> str:
    put = traced.APART[name]
    text = covariance_models.MODELS["llama"].replace(traced.REPEATED, f"{traced.REPEATED}; k = {put}; q = {put.replace('k', 'q')}")
    return text.replace(traced.WEIGHED, "y = F.scaled_dot_product_attention(q, k, v)").replace("(a @ v)", "y")


def _capped(cap: float) -> str:
    product = "q @ k.transpose(-2, -1) * 0.5"
    loud = covariance_models.MODELS["llama"].replace("q @ k.transpose(-2, -1) / math.sqrt(D // H)", product)
    return loud.replace(f"({product})", f"({cap} * torch.tanh({product} / {cap}))")


POSITIONS = {
    "halves": "x = x + torch.cat((self.attention(x)[..., :64], self.extra(x)[..., 64:]), -1)",
    "a sum and a shift": "x = x + self.three(self.attention(x) + self.extra(x) + self.four.bias)",
    "a gate and a function": "x = x + self.attention(x) * self.extra(x).sigmoid(); x = x + F.gelu(self.mlp(x))",
}
"""Branches of a raw stream behind a causal attention."""
MADE = "made = expert(x[token]) * weights[token, choice, None]; y.index_add_(0, token, {})"
MOVED = {
    "seen again": "made.view(-1, D)", "of a type": "made.to(y.dtype)", "a copy": "made.contiguous()", "turned": "made.t().t()", "twice": "2.0 * made",
    "apart": "made.reshape(-1, 2, D // 2).flatten(1)", "of one axis more": "made[:, None].squeeze(1)",
}  # fmt: skip
"""What is done with the weighted outputs of an expert before they are summed up."""
TOGETHER = """
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.empty(3, D, 2 * D)), nn.Parameter(torch.empty(3, 2 * D, D))
        nn.init.normal_(self.up, 0.0, D**-0.5)
        nn.init.normal_(self.down, 0.0, (2 * D) ** -0.5)

    def forward(self, x, weights, chosen):
        count = chosen.shape[-1]
        order = chosen.reshape(-1).argsort()
        ends = torch.histc(chosen.reshape(-1).float(), 3, 0, 2).cumsum(0).to(torch.int32)
        y = torch._grouped_mm(F.gelu(torch._grouped_mm(x[order // count], self.up, offs=ends)), self.down, offs=ends)
        SUMMED


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(D, 3, bias=False), Experts()

    def forward(self, inputs):
        x = inputs.reshape(-1, D)
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        return self.experts(x, weights, chosen).view_as(inputs)
"""
SUMMED = {
    "in their order": "y = y * weights.reshape(-1)[order].unsqueeze(-1); return y[order.argsort()].view(-1, count, D).sum(1)",
    "by an index": "y = y * weights.reshape(-1)[order].unsqueeze(-1); return torch.zeros_like(x).index_add_(0, order // count, y)",
    "weighed at the end": "return (y[order.argsort()].view(-1, count, D) * weights.unsqueeze(-1)).sum(dim=1)",
    "too many": "y = y * weights.reshape(-1)[order].unsqueeze(-1); return y[order.argsort()].view(-1, count, D).sum(1) + y[:1]",
}
"""How the outputs of experts that have one weight are put together."""
HEAT = "torch.ones(1)"
GATES = {
    "sums with a floor": "weights, chosen = self.router(x).softmax(-1).topk(2, -1); "
    "weights = weights / weights.sum((-1,), keepdim=True).clamp(min=1e-9)",
    "a temperature": "weights, chosen = (self.router(x) * self.heat).softmax(-1).topk(2, -1)",
    "scores of the best alone": "s = self.router(x).softmax(-1); chosen = s.topk(2, -1)[1]; "
    "m = torch.zeros_like(s).scatter(1, chosen, 1.0); s = s * m; weights = (s / s.sum(-1, keepdim=True)).gather(1, chosen)",
    "the others out": "s = self.router(x); chosen = s.topk(2, -1)[1]; m = torch.zeros_like(s).scatter_(1, chosen, 1.0); "
    "weights = s.masked_fill(m == 0, -1e9).softmax(-1).gather(1, chosen)",
    "in other shapes": "weights, chosen = self.router(x).softmax(-1).topk(2, -1); weights = (weights.unsqueeze(-1) * 2.5).view(-1, 2)",
    "clamped": "weights, chosen = self.router(x).clamp(-5.0, 5.0).sigmoid().topk(2, -1); weights = weights.clamp(max=0.9)",
}  # fmt: skip


def texts() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(name, source, inputs) of models in code."""
    pre, ids = covariance_models.MODELS["pre"], covariance_models.INPUTS
    for family, models, inputs in (
        ("odd", covariance_odd.ODD, covariance_odd.INPUTS), ("logits", {**covariance_logits.MODELS, **covariance_logits.NO_SINKS}, ids),
        ("masked", {n: text for n, (text, _) in covariance_logits.MASKS.items()}, ids), ("fourier", covariance_logits.FOURIER, ids),
        ("words", covariance_words.WORDS, ids), ("traced", {n: text for n, text in covariance_models.MODELS.items() if n != "pre"}, ids),
        ("causal", causal.MODELS, ids),
        ("cannot", {n: _cannot(n) for n in traced.CANNOT}, ids), ("shared", {n: _shared(n) for n in traced.SHARED}, ids),
        ("apart", {n: _other_tokens(n) for n in [*traced.APART][:1]}, ids), ("capped", {f"{c}": _capped(c) for c in (1e4, 0.3)}, ids),
    ):  # fmt: skip
        yield from ((f"{family}: {name}", text, inputs) for name, text in models.items())
    yield from ((f"mixed: {n}", c.source, ("pixels=float32[2,3,32,32]",) if c.pixels else ids) for n, c in blocks.CASES.items())
    for name, body in POSITIONS.items():
        yield f"positions: {name}", causal.causal("q, k", body, "0.7"), ids
    experts = blocks._moe(blocks.MIXTRAL, body="x = x + self.attention(x); x = x + self.mlp(x)", std="0.7 / math.sqrt(m.in_features)")
    yield "positions: experts", experts.replace("attention(q, k, v)", "attention(q, k, v, is_causal=True)"), ids
    for name, gates in GATES.items():
        yield f"gates: {name}", blocks._moe(gates).replace("self.router, ", f"self.heat = nn.Parameter({HEAT}); self.router, "), ids
    experts = blocks._moe(blocks.MIXTRAL)
    for name, made in MOVED.items():
        yield f"moved: {name}", experts.replace(blocks.ADDED, MADE.format(made)), ids
    kept, rest = experts[: experts.index("class Expert(")], experts[experts.index("class Block(") :]
    for name, summed in SUMMED.items():
        yield f"together: {name}", kept + TOGETHER.replace("SUMMED", summed.replace("; ", "\n        ")) + rest, ids
    for name, (text, *changes) in edited():
        for old, new in changes:
            assert old in text, (name, old)
            text = text.replace(old, new)
        yield f"edited: {name}", text, (*ids,) if "ids" in text else (("pixels=float32[2,3,32,32]",) if "pixels" in text else STATES)
    yield "written out", pre.replace("nn.GELU()", "New()").replace("class MLP", traced.NEW + "\n\nclass MLP", 1), ids
    yield "two angles", covariance_models.MODELS["llama"].replace("angles), -1).sin()", "2 * angles), -1).sin()"), ids
    yield "a padding row", pre.replace("nn.Embedding(VOCAB, D)", "nn.Embedding(VOCAB, D, padding_idx=0)"), ids
    yield "one block for all", pre.replace("(Block() for _ in range(DEPTH))", "([Block()] * 4)"), ids
    yield "two blocks for all", pre.replace("(Block() for _ in range(DEPTH))", "([Block()] * 2 + [Block()] * 2)"), ids
    yield "a pyramid", traced.PYRAMID, ("x=float32[2,3,64,64]",)
    for end in ("self.norm(y)", "x + y", "self.norm(x + y)", "x + self.norm(y)"):
        yield f"two streams: {end}", first_update.TWO.replace("END", end), STATES
    for text in ("x + (self.f(n) + self.g(n))", "x + self.f(n) + self.g(n)"):
        yield f"sums: {text}", first_update.PARALLEL.replace("SUM", text).replace("range(12)", "range(4)"), STATES
    for name in ("residual", "residual+qk", "sub-ln", "parallel"):
        row = f"row({name!r}, depth=3, width=32, heads=4, vocab=64, context=16)"
        yield f"row: {name}", first_update.ROW.replace("ROW", row), IDS
    for name, more in (("start", {}), ("deepnorm", first_update.deepnorm(4)), ("rezero", {"norms": "A", "rezero": True})):
        words = ", ".join(f"{key}={value!r}" for key, value in {**more, "depth": 3, "dim": 32, "vocab": 64}.items())
        head = "from examples.table.designs import GPT, Design\n\nclass Model(GPT):\n    def __init__(self):\n"
        yield f"design: {name}", f"{head}        super().__init__(Design({words}))\n", IDS
    for table, place in (
        ("self.places = nn.Embedding(16, 32)", "self.places(torch.arange(ids.shape[1]))"),
        ("self.places = nn.Embedding(18, 32)", "self.places(torch.arange(2, ids.shape[1] + 2))"),
        ("self.places = nn.Parameter(torch.randn(1, 16, 32))", "self.places[:, :ids.shape[1]]"),
        ("self.kinds = nn.Embedding(20, 32)", "self.kinds(ids % 20)"), ("self.bias = nn.Parameter(torch.randn(32))", "self.bias"),
    ):
        yield f"places: {place}", places.MODEL.replace("TABLE", table).replace("PLACE", place), IDS
    for name, (count, body) in {**first_state.COMMON, **first_state.APART}.items():
        yield f"first state: {name}", first_state.SOURCE.replace("{rows}", str(count)).replace("{body}", body).replace("{more}", "pass"), IDS


def edited() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(name, a source and what is put in the place of what) of models at the ends: nothing comes in, nothing goes out, or too much does."""
    pre, none, tied = covariance_models.MODELS["pre"], covariance_models.MODELS["none"], covariance_words.WORDS["tied"]
    begun = "self.apply(self._init)"
    for name, more in {
        "an embedding of zeros": "nn.init.zeros_(self.embed.weight)", "last maps of zeros": "[nn.init.zeros_(b.mlp[2].weight) for b in self.blocks]",
        "rows of zeros": "[nn.init.zeros_(b.mlp[2].weight[:5]) for b in self.blocks]",
        "branches of zeros": "[nn.init.zeros_(w) for b in self.blocks for w in (b.mlp[2].weight, b.attention.out.weight)]",
        "biases": "[nn.init.normal_(b.mlp[2].bias, 0.0, 0.2) for b in self.blocks]",
        "gains": "[nn.init.constant_(b.one.weight, 2.0) for b in self.blocks]", "a last norm of zeros": "nn.init.zeros_(self.final.weight)",
    }.items():  # fmt: skip
        yield name, (pre, (begun, f"{begun}; {more}"))
    yield "too large", (none, ("0.4 / math.sqrt(m.in_features)", "1e4"))
    yield "large logits", (pre, ("1 / math.sqrt(m.in_features)", "30.0"))
    yield "no identity", (pre, ("x = x + self.mlp(self.two(x))", "x = self.mlp(self.two(x))"))
    yield "a sum instead of a head", (tied, ("return z", "return z.sum(-1)"))
    yield "a function of logits", (tied, ("return z", "return z.softmax(-1)"))
    yield "two functions of logits", (tied, ("return z", "return torch.tanh(z) + z.mean(-1, keepdim=True)"))
    image = blocks._image("nn.Identity()", 0.5)
    yield "biases of patches", (image, ("nn.init.zeros_(m.bias)", "nn.init.normal_(m.bias, 0.0, 0.3)"))
    angles = covariance_logits.MODELS["complex rotary"]
    made = "torch.complex(self.t[:n].cos(), self.t[:n].sin())"
    numbers = ("self.angles = torch.polar(torch.ones_like(t), t)", "self.t = t"), ("self.angles[:n]", made)
    yield "complex numbers of cosines", (angles, *numbers)
    yield "complex numbers of two angles", (angles, *numbers, ("self.t[:n].sin()", "(2 * self.t[:n]).sin()"))
    yield "complex numbers, twice as large", (angles, ("self.angles[:n]", "(2.0 * self.angles[:n])"))
    yield "a number on the stream", (
        first_update.PARALLEL, ("SUM", "self.scale * x + self.f(n)"), ("range(12)", "range(4)"),
        ("        self.norm", "        self.scale = nn.Parameter(torch.ones(1))\n        self.norm"),
    )  # fmt: skip
    yield "a centring at the end", (
        first_update.PARALLEL, ("SUM", "(y := x + self.f(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))) - y.mean(-1, keepdim=True)"),
        ("range(12)", "range(4)"),
    )  # fmt: skip
    yield "a centring, a gain and a root", (
        first_update.PARALLEL, ("range(12)", "range(4)"), ("SUM", "(y := x + self.f(self.norm.weight * x / (x.var(-1, keepdim=True) + 1e-6).sqrt()))"
                                                           " - y.mean(-1, keepdim=True)"),
    )  # fmt: skip
    yield "means of tokens", (causal.causal("q, k", "x = x + self.attention(x) + self.extra(x.mean(1, keepdim=True))", "0.7"),)
    table, meets = covariance_logits.DISTANCES, "torch.einsum('bhid,ijd->bhij', q, p)"
    for name, written in (("half", f"{meets} * 0.5"), ("over two", f"{meets} / 2.0"), ("and one", f"({meets} + 1.0)")):
        yield f"distances, {name}", (covariance_logits.MODELS["distances"], (meets, written))
    yield "a table that is not trained", (covariance_logits.MODELS["distances"], (table, f"{table}.requires_grad_(False)"))


MASKED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "filled": lambda u, b: u.masked_fill(b == 0, -1e4), "times": lambda u, b: u * b + -1e4 * (1 - b), "two less": lambda u, b: u * b + -1e4 * (2 - b),
    "near": lambda u, b: u * b + -1.0 * (1 - b), "itself": lambda u, b: u * b + b,
}  # fmt: skip
TRIANGLE = torch.full((cut.TOKENS, cut.TOKENS), cut.LOW).triu(1)
CUT: dict[str, Callable[[Tensor], Tensor]] = {
    **cut.FAR, **{f"both: {n}": f for n, f in cut.BOTH.items()}, "near": lambda u: u.clamp(-0.5, 0.5),
    "at zero": lambda u: torch.maximum(u, torch.tensor(0.0)), "masked": lambda u: (u + TRIANGLE).clamp(min=-5.0),
    "masked, low": lambda u: torch.maximum(u + TRIANGLE, torch.tensor(cut.LOW)),
}  # fmt: skip
ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "fused": {"fused": True}, "two groups": {"groups": 2}, "one group": {"groups": 1, "bias": False}, "rotary": {"between": "rotary"},
    "two groups, fused": {"groups": 2, "fused": True}, **{between: {"between": between} for between in ("norm", "gain", "activation", "cut")},
}  # fmt: skip
NEARLY = ("symmetric", "apart", "cayley", "solve", "share", "trained", "sums", "twice")
ENDS: dict[str, tuple[Any, Any]] = {
    "adaptive": (None, bounds.Adaptive), "squashed": (bounds.rms, bounds.Squashed), "shifted": (None, bounds.Shifted),
    "partial": (None, bounds.Partial), "written": (bounds.Written, bounds.Written), "halved": (None, bounds.Halved),
}  # fmt: skip
TURNS = {"halves": bounds._halves, "pairs": bounds._pairs, "apart": bounds._apart, "complex": bounds._complex, "others": bounds._other_tokens}


class Turned(bounds.Mlp):
    """Two layers on what a rotation makes of the stream."""

    def __init__(self, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.turn = turn

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(torch.clone(self.turn(x))))  # type: ignore[no-any-return]


class Net(nn.Module):
    """x + a form of it: two maps, a norm, and parameters that start at one and at zero."""

    def __init__(self, form: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.form, self.norm = form, nn.LayerNorm(16)
        self.a, self.b, self.c = (nn.Linear(16, 16) for _ in range(3))
        self.one_weight, self.zero = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))
        self.sink = nn.Parameter(torch.zeros(1))

    def logits(self, x: Tensor) -> Tensor:
        return self.a(x) @ self.b(x).mT / 4.0  # type: ignore[no-any-return]

    def weigh(self, u: Tensor, x: Tensor) -> Tensor:
        return u.softmax(-1) @ self.c(x)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.form(self, self.norm(x))


def _with_sink(m: Net, u: Tensor, first: bool, dim: int = -1) -> Tensor:
    sink = m.sink.expand(*u.shape[:-1], 1)
    return torch.cat((sink, u) if first else (u, sink), dim=dim)


def _fused(m: Net, n: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(m.a(n), m.b(n), m.c(n), attn_mask=mask)


MASK = torch.full((6, 6), -1e9).triu(1)
NETS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "over a weight": lambda m, n: m.c(F.gelu(m.a(n)) / m.one_weight),
    "an expanded gain": lambda m, n: m.c(F.relu(m.a(n) * m.one_weight.expand_as(n))),
    "a shift behind a gain": lambda m, n: m.c((F.relu(m.a(n)) * m.one_weight - m.zero) * 0.5), "copied": lambda m, n: copied(m.c(F.silu(m.a(n)))),
    "a lower triangle": lambda m, n: m.weigh(m.logits(n).tril(), n), "beside nothing": lambda m, n: m.c(F.relu(torch.cat([m.a(n), n[:, :0]], 1))),
    "a mask in a product": lambda m, n: m.weigh(torch.baddbmm(MASK.expand(len(n), 6, 6), m.a(n), m.b(n).mT, alpha=0.25), n),
    "a mask of a product, left out": lambda m, n: m.weigh(torch.baddbmm(MASK.expand(len(n), 6, 6), m.a(n), m.b(n).mT, beta=0, alpha=0.25), n),
    "a sink first": lambda m, n: _with_sink(m, m.logits(n), True).softmax(-1)[..., 1:] @ m.c(n),
    "a sink last": lambda m, n: _with_sink(m, m.logits(n), False).softmax(-1)[..., :-1] @ m.c(n),
    "a sink last, to a place": lambda m, n: _with_sink(m, m.logits(n), False, 2).softmax(-1)[:, :, 0:-1] @ m.c(n),
    "a sink, not dropped": lambda m, n: _with_sink(m, m.logits(n), True).softmax(-1)[..., :-1] @ m.c(n),
    "fused, a mask of numbers": lambda m, n: _fused(m, n, MASK), "fused, a mask of truths": lambda m, n: _fused(m, n, MASK == 0),
    "fused, a bias": lambda m, n: _fused(m, n, MASK.abs() * 1e-10), "fused, a mask of data": lambda m, n: _fused(m, n, m.logits(n)),
    "fused, a mask of positions": lambda m, n: _fused(m, n, torch.arange(6)[:, None] >= torch.arange(6)),
    "fused, a mask by place": lambda m, n: F.scaled_dot_product_attention(m.a(n), m.b(n), m.c(n), MASK),
    "fused, causal by place": lambda m, n: F.scaled_dot_product_attention(m.a(n), m.b(n), m.c(n), None, 0.0, True),
    "fused, a scale": lambda m, n: F.scaled_dot_product_attention(m.a(n), m.b(n), m.c(n), scale=0.7),
    "fused, a trained bias": lambda m, n: _fused(m, n, m.zero[:6].expand(6, 6)),
    "a mask of truths": lambda m, n: m.weigh(m.logits(n).masked_fill(MASK < 0, float("-inf")), n),
    "a mask by choice": lambda m, n: m.weigh(torch.where(MASK < 0, torch.tensor(float("-inf")), m.logits(n)), n),
    "distances": lambda m, n: m.weigh(m.logits(n) - 0.5 * (torch.arange(6)[:, None] - torch.arange(6)).abs(), n),
    "a table of places": lambda m, n: m.weigh(m.logits(n) + m.zero[:6], n), "a gate of rows": lambda m, n: m.weigh(m.logits(n).sigmoid(), n),
    "of one head of three": lambda m, n: m.c(m.weigh(m.logits(n), n)[:, :3].repeat(1, 2, 1)),
    "less its largest": lambda m, n: m.weigh((u := m.logits(n)) - u.amax(-1, keepdim=True), n),
    "less its largest by place": lambda m, n: m.weigh((u := m.logits(n)) - u.max(2, keepdim=True)[0], n),
    "less another's largest": lambda m, n: m.weigh((u := m.logits(n)) - u.amax(-2, keepdim=True), n),
    "a cap of a cap": lambda m, n: m.weigh(torch.tanh(torch.tanh(m.logits(n)) * 2.0) * 3.0, n),
    "a cap twice as far": lambda m, n: m.weigh(2.0 * (5.0 * torch.tanh(m.logits(n) / 5.0)), n),
    "cut and times": lambda m, n: m.weigh(m.logits(n).clamp(-60.0, 80.0) * 0.5, n),
    "a glu of halves": lambda m, n: m.c(F.glu(torch.cat([m.a(n), m.b(n)], -1), -1)), "a glu": lambda m, n: F.pad(F.glu(m.a(n)), (0, 8)),
    "a mean of tokens beside": lambda m, n: m.c(F.relu(m.a(n))) + m.b(n).mean(1, keepdim=True),
    "a gate for all tokens": lambda m, n: m.c(m.a(n) * m.b(n).mean(1, keepdim=True).sigmoid()),
    "a product of two maps": lambda m, n: m.c(m.a(n) * m.b(n)),
    "a difference by alpha": lambda m, n: torch.sub(m.c(F.relu(m.a(n))), m.b(n), alpha=0.5),
    "the same in two ways": lambda m, n: m.c(F.relu(y := m.a(n)) - 0.5 * y + y), "a square of a map": lambda m, n: m.c(m.a(n).square() * 0.5 - 0.5),
    "stacked halves": lambda m, n: torch.stack(m.c(F.relu(m.a(n))).chunk(2, -1), -1).flatten(-2),
    "tokens by chunks": lambda m, n: torch.cat([m.c(F.relu(m.a(t))) for t in n.chunk(2, 1)], 1),
    "a roll": lambda m, n: m.c(F.relu(m.a(n)).roll(1, 1)),
    "a transform of features": lambda m, n: m.c(torch.fft.fft(m.a(n), dim=-1).real), "transforms": lambda m, n: torch.fft.fft2(m.a(n)).real * 0.01,
    "transforms, in turn": lambda m, n: torch.fft.fft(torch.fft.fft(n, dim=1), dim=-1).real * 0.01,
    "cut from above": lambda m, n: F.relu(-m.a(n).clamp(max=1.0)), "cut from below": lambda m, n: F.relu(m.a(n).clamp(min=-1.0)),
    "cut from above, turned": lambda m, n: F.relu(m.a(n).clamp(None, 1.0)), "cut by one": lambda m, n: F.relu(-m.a(n).clamp(-1.0)),
    "logits and a trained number": lambda m, n: m.weigh(m.logits(n) + m.sink, n), "logits over a number": lambda m, n: m.weigh(m.logits(n) / 0.5, n),
    "logits, a trained factor": lambda m, n: m.weigh(m.logits(n) * m.sink, n), "less a trained number": lambda m, n: m.weigh(m.logits(n) - m.sink, n),
    "the largest of what grows": lambda m, n: F.relu(-m.a(n).amax(-1, keepdim=True)) + 0.0 * n,
    "one where": lambda m, n: torch.where(MASK < 0, 1.0, 2.0) @ m.a(n),
    "over one that grows": lambda m, n: m.c(n) / (1.0 + m.b(n).square()).reciprocal(),
    "to minus two": lambda m, n: m.c(1.0 / (1.0 + m.a(n).square()) ** -2),
    "a transform of one norm": lambda m, n: torch.fft.fftn(n, dim=(1, 2), norm="ortho").real,
}  # fmt: skip


def modules() -> Iterator[tuple[str, Callable[[], Pieces]]]:
    """(name, what is said) of modules."""
    for how in ("all", "turned", "runs", "grid", "axes"):
        yield f"windows: {how}", lambda how=how: of_states(lambda: windows.Block(how), 2, windows.PLACES, windows.WIDTH)  # type: ignore[misc]
    for name, masked in MASKED.items():
        yield f"kept: {name}", lambda f=masked: of_states(lambda: kept.Block(f), 2, kept.TOKENS, kept.WIDTH)  # type: ignore[misc]
    for name, of in CUT.items():
        yield f"cut: {name}", lambda f=of: of_states(lambda: cut.Block(f), 2, cut.TOKENS, cut.WIDTH)  # type: ignore[misc]
    for name, score in {**cosines.COSINES, **cosines.OTHERS}.items():
        yield f"cosine: {name}", lambda f=score: of_states(lambda: cosines.Block(f), 2, cosines.TOKENS, cosines.WIDTH)  # type: ignore[misc]
    for name, form in {**settled.GROW, **settled.KEPT}.items():
        yield f"settled: {name}", lambda f=form: of_states(lambda: settled.Block(f), 2, 6, settled.WIDTH)  # type: ignore[misc]
    for name, (norm, end) in channels.ROWS.items():
        yield f"channels: {name}", lambda norm=norm, end=end: of_states(  # type: ignore[misc]
            lambda: channels.Block(norm, lambda m, x: x + end(m, x)), 2, channels.TOKENS, channels.WIDTH)  # fmt: skip
    for name, branch in channels.CHANNELS.items():
        yield f"places of channels: {name}", lambda f=branch: live(channels.Channels(f()), torch.zeros(2, channels.WIDTH, channels.TOKENS))  # type: ignore[misc]
    for name, rms in spellings.RMS.items():
        yield f"rms: {name}", lambda f=rms: of_states(lambda: spellings.Block(f), 2, 8, spellings.WIDTH)  # type: ignore[misc]
    for name, choice in choices.CHOICES.items():
        yield f"chosen: {name}", lambda f=choice: of_words(lambda: choices.Chosen(f))  # type: ignore[misc]
    for name, settings in ATTENTIONS.items():
        yield f"heads: {name}", lambda s=settings: of_words(lambda: pairs.Attention(**s))  # type: ignore[misc]
    for kind in NEARLY:
        yield f"nearly: {kind}", lambda kind=kind: of_words(lambda: constrained.Nearly(kind))  # type: ignore[misc]
    for kind in (*constrained.ESTIMATES, *constrained.NORMS):
        for gain in (True, False):
            yield f"sigma: {kind}, {gain}", lambda kind=kind, gain=gain: of_words(lambda: constrained.Sigma(kind, gain))  # type: ignore[misc]
    for kind in ("normed", "before", "capped", "other"):
        yield f"memory: {kind}", lambda kind=kind: of_words(lambda: constrained.Memory(kind))  # type: ignore[misc]
    for name, (before, after) in ENDS.items():
        yield f"ends: {name}", lambda b=before, a=after: of_words(bounds.Gated, b, a)  # type: ignore[misc]
    for name, turn in TURNS.items():
        yield f"turned: {name}", lambda f=turn: of_words(lambda: Turned(f))  # type: ignore[misc]
    for axes in ((bounds.HEADS, 1, 4), (4,), (bounds.TOKENS, 4)):
        yield f"gains of heads: {axes}", lambda axes=axes: of_words(lambda: bounds.HeadGains(*axes))  # type: ignore[misc]
    for name, (mixer, norms, _, _) in degrees.TABLE.items():
        yield f"degrees: {name}", lambda m=mixer, n=norms: of_states(lambda: degrees.Branch_(m(), n), 2, 7, 24)  # type: ignore[misc]
    for name in sorted(FUNCTIONS):
        yield f"kernel: {name}", lambda name=name: of_kernel(name)  # type: ignore[misc]
    yield "degrees: behind weight norms", lambda: of_states(lambda: degrees.Branch_(degrees.Normed(), "A"), 2, 7, 24)
    for name, net in NETS.items():
        yield f"net: {name}", lambda f=net: of_states(lambda: Net(f), 2, 6, 16)  # type: ignore[misc]
    for name, make in {**computed.EVEN, **computed.OTHERS}.items():
        yield f"computed: {name}", lambda f=make, name=name: rows(f, name == "narrow")  # type: ignore[misc]


SUBJECTS: dict[str, Callable[[], Pieces]] = {
    **{name: lambda text=text, inputs=inputs: source(text, inputs) for name, text, inputs in texts()}, **dict(modules()),  # type: ignore[misc]
    **{f"call: {name}": lambda call=call: said(call) for name, call in BESIDE.items()},  # type: ignore[misc]
}  # fmt: skip

__all__ = ["SUBJECTS"]
