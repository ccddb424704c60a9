"""A model of words starts with about the loss of one that knows nothing, ln V.

Why: logits of variance s² over V words cost s²/2 nats above ln V while s² < 2·ln V, and s·√(2·ln V) in all beyond. A head that is the embedding table
gives the word that stands at the input a logit of its own, c·σ²·d, as far as its row is still in the last state: with entries of variance one
(the default of `nn.Embedding`) that is the width itself, and the first loss is 75 where ln V is 6.9. The loss curve begins with a cliff: the
first hundreds of steps do nothing but make logits smaller, with gradients that clipping cuts down and Adam's second moments remember.
Assumes: independent random weights at the recorded initialisation, labels that are independent of the word at the input; the mean over weights.
Cannot tell: when the stream's moments at the start are unknown, or what stands between the last state and the first output has no row.
Source: Derrida 1981 (random energy model); docs/theory/covariance.md, the loss at the start; Press and Wolf 2017 (tied embeddings).
"""

from __future__ import annotations

from screen.calculi.meanfield import Recursion, Start
from screen.rule import Example, Facts, Number, Outcome, Rule, Site, Stream, Unknown, at, or_not_applicable
from screen.structure.reach import onward

RULE = Rule("I201", "loss-at-start", "forward", "I", "warning", ("streams", "recursions", "claims"), "Derrida 1981; docs/theory/covariance.md")

TIMES = 1.5
"""Loss at the start over ln V from which on it is called too large (no unit): of an untied head logits of deviation √(ln V), 3.2 at 32000 words;
published initialisations give at most 1.8 (0.02 at width 8192). Our own choice."""
THEOREM = "E loss = E log Σ_v exp(z_v) for labels that are independent of the logits: ln V + s²/2 while s² < 2·ln V"

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(1000, 64), nn.LayerNorm(64)
        INIT
        self.blocks = nn.ModuleList(Block() for _ in range(6))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embed.weight)
"""


def _example(title: str, init: str) -> Example:
    return Example(title, MODEL.replace("INIT", init), ("ids=int64[2,16]",))


HOLDS = (_example("a tied table of deviation 0.02", "nn.init.normal_(self.embed.weight, std=0.02)"),)
VIOLATES = (_example("a tied table as `nn.Embedding` makes it", "nn.init.normal_(self.embed.weight)"),)
CANNOT_TELL = (_example("a table that nothing fills", "self.embed.weight = nn.Parameter(torch.empty(1000, 64))"),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome for each stream that a head over words is fed by."""
    streams = [s for s in facts.streams if s.role != "inner" and any(k.sublayers for k in s.kinds)]
    last = [s for s in streams if _reaches_first_output(facts, s, streams)]
    found = [o for s in last or streams if (o := _judge(facts, s)) is not None]
    return or_not_applicable(found, "the model has no head over the words that it reads.")


def _reaches_first_output(facts: Facts, stream: Stream, streams: list[Stream]) -> bool:
    """Whether the end of a stream comes to the first output other than through another one, as that of an encoder does through its decoder."""
    others = {i for s in streams if s is not stream for i in s.states}
    end, outputs = stream.states[-1], facts.graph.outputs[:1]
    return end in outputs or any(node in outputs for node, _ in onward(facts.graph, end, others.__contains__))


def _judge(facts: Facts, stream: Stream) -> Outcome | None:
    found, site = facts.recursion(stream), at(stream)
    if not _has_words(facts):
        return None
    words: Start | Unknown = found.words if isinstance(found, Recursion) else found
    claim = facts.claims.of("loss_at_start", "start")
    if claim.is_refuted and isinstance(known := claim.known, Unknown):
        words = known
    if isinstance(words, Unknown):
        return Outcome("cannot_tell", f"`{stream.name}`: the loss at the start is not known: {words.reason}.", site, "declared", THEOREM)
    return _told(stream, site, words)


def _told(stream: Stream, site: Site, words: Start) -> Outcome:
    numbers: tuple[tuple[str, Number], ...] = (("loss_at_start", words.value), ("ln_V", words.uniform), ("logit_deviation", words.spread))
    if words.own is not None:
        numbers = (*numbers, ("logit_of_the_word_itself", words.own))
    size = f"the mean loss at the recorded initialisation is {words.value:.3g} nats, where ln V is {words.uniform:.3g}"
    if words.value <= TIMES * words.uniform:
        return Outcome("holds", f"`{stream.name}`: {size}.", site, "declared", THEOREM, numbers=numbers)
    own = words.own is not None and words.own > words.spread**2 / 2
    why = "the word at the input has a logit of its own in a tied head" if own else f"logits have the deviation {words.spread:.3g}"
    width = f" = {stream.width**-0.5:.3g}" if stream.width else ""
    remedy = f"a smaller initial table or head (deviation 0.02, or width^(-1/2){width}), or logits divided by √width"
    return Outcome("violated", f"`{stream.name}`: {size}: {why}.", site, "declared", THEOREM, numbers=numbers, remedy=remedy)


def _has_words(facts: Facts) -> bool:
    """Whether the first output has as many entries as a table of the model has rows."""
    graph = facts.graph
    if not graph.outputs or not graph.nodes[graph.outputs[0]].shape:
        return False
    last = (graph.nodes[graph.outputs[0]].shape or (0,))[-1]
    tables = (graph.nodes[i] for n in graph.nodes if n.op == "embedding" for i in n.inputs)
    rows = {(t.shape or (0,))[0] for t in tables if len(t.shape or ()) == 2 and "int" not in (t.dtype or "")}
    return last in rows and last > 1
