"""The gradient of the first block over that of the last grows at most like a power of depth.

Why: where every branch reads a bounded input, the squared gradient of a block is inverse to the squared size of the stream there, so that first
over last is rms_N/rms_1, a power of depth. Where attention reads the growing stream itself and only its output is normed, its logits grow with
the square of the stream, and the ratio becomes exponential at an ordinary initialisation of Q and K (1e5 at 64 blocks, 6 with QK-norm): the
first blocks get all of the update.
Assumes: independent random weights at the recorded initialisation for numbers; for the power law also branches of degree 1.
Cannot tell: when attention reads a stream that no norm bounds and its initialisation was not recorded.
Source: docs/theory.md, gradient ratio; Kim et al. 2025, table 5; Groeneveld et al. 2024 (OLMo 2).
"""

from __future__ import annotations

from screen.facts.questions import are_logits_bounded, has_softmax, is_input_bounded, is_renormalised, starts_at_zero
from screen.rule import Example, Facts, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, or_not_applicable

RULE = Rule("D202", "gradient-ratio", "backward", "D", "error", ("streams", "recursions"), "docs/theory.md, gradient ratio")

MODEST = 3.0
"""First-over-last gradient ratio over rms_N/rms_1 up to which a stack too shallow for a law counts as following the stream (docs/theory.md)."""
FEW = 2
"""Branches without a norm, over the whole depth, that make no law of depth (a convolution for positions before the first block)."""
EXPLOSIVE = 100.0
"""Growth of a stream without norms from which its gradients count as exploding (convention; at depth 64 a stream of linear growth grows 64 times)."""

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qn, self.kn = (nn.RMSNorm(64) for _ in range(4))
        self.q, self.k, self.v, self.o = (nn.Linear(64, 64, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(64, 256, bias=False), nn.Linear(256, 64, bias=False)
        for linear in (self.q, self.k, self.v, self.o, self.up, self.down):
            INIT

    def forward(self, x):
        x = x + self.n1(self.o(F.scaled_dot_product_attention(QN(self.q(x)), KN(self.k(x)), self.v(x))))
        return x + self.n2(self.down(F.gelu(self.up(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(100, 64), nn.RMSNorm(64)
        nn.init.normal_(self.embed.weight)
        self.blocks = nn.ModuleList(Block() for _ in range(64))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
FAN_IN = "nn.init.normal_(linear.weight, std=linear.in_features**-0.5)"


def _example(title: str, norms: tuple[str, str], init: str = FAN_IN) -> Example:
    return Example(title, BLOCK.replace("QN(", norms[0] + "(").replace("KN(", norms[1] + "(").replace("INIT", init), ("ids=int64[2,16]",))


HOLDS = (_example("norms on outputs, queries and keys", ("self.qn", "self.kn")),)
VIOLATES = (_example("norms on outputs alone, weights of variance 1/fan_in", ("", "")),)
CANNOT_TELL = (_example("norms on outputs alone, weights that no initialiser fills", ("", ""), "linear.weight = nn.Parameter(torch.empty(linear.weight.shape))"),)

THEOREM = "E‖∂L/∂x_l‖² / E‖∂L/∂x_N‖² = ‖x_N‖²/‖x_l‖² where the branches read bounded inputs"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream with an identity path."""
    streams = [s for s in facts.streams if s.identity.exists is True and any(k.sublayers for k in s.kinds)]
    return or_not_applicable([_judge(facts, s) for s in streams], "no stream has an identity path.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    subs = [s for k in stream.kinds for s in k.sublayers if not is_renormalised(s) and not starts_at_zero(s)]
    for sub in subs:
        if sub.placement == "unknown":
            return Outcome("cannot_tell", f"`{stream.name}`: the placement of `{sub.name}` is unknown.", at(stream, None, sub))
    fed = [s for s in subs if "B" in s.positions and has_softmax(facts, s) is True and _reads_stream(facts, s) and are_logits_bounded(facts, s) is not True]
    bare = [s for s in subs if "B" not in s.positions and _reads_stream(facts, s)]
    if not fed and not bare:
        return _polynomial(facts, stream)
    times = sum(k.count for k in stream.kinds for s in k.sublayers if s in bare) * (facts.stacked or 1)
    if not fed and times <= FEW:
        message = f"`{bare[0].name}` multiplies `{stream.name}`, which no norm bounds for it, {'once' if times == 1 else f'{times} times'} over the whole depth."
        return Outcome("conditional", message, at(stream, None, bare[0]), condition="small-gain")
    return _measured(facts, stream, fed, bare)


def _reads_stream(facts: Facts, sublayer: Sublayer) -> bool:
    """The branch reads the stream as it is, however large."""
    return is_input_bounded(facts, sublayer) is not True


def _polynomial(facts: Facts, stream: Stream) -> Outcome:
    found = facts.recursion(stream)
    numbers: tuple[tuple[str, float], ...] = () if isinstance(found, Unknown) else (("rms_last_over_first", found.predicted_ratio),)
    if not isinstance(found, Unknown) and not isinstance(found.gradient_ratio, Unknown):
        numbers = (*numbers, ("gradient_first_over_last", found.gradient_ratio))
    message = f"`{stream.name}`: every branch reads a bounded input or has bounded logits under a norm: gradients over depth follow the stream's size, a power of depth."
    return Outcome("holds", message, at(stream), theorem=THEOREM, numbers=numbers)


def _measured(facts: Facts, stream: Stream, fed: list[Sublayer], bare: list[Sublayer]) -> Outcome:
    """Decided by the recursion at the recorded initialisation."""
    site, depth = at(stream, None, (fed or bare)[0]), facts.depth(stream)
    what = f"the logits of `{fed[0].name}` grow with `{stream.name}`" if fed else f"`{bare[0].name}` multiplies `{stream.name}`, which no norm bounds for it"
    found = facts.recursion(stream)
    law = found if isinstance(found, Unknown) else found.ratio_law
    if isinstance(law, Unknown) and not isinstance(found, Unknown) and not isinstance(found.gradient_ratio, Unknown):
        law = "polynomial" if found.gradient_ratio <= MODEST * max(found.predicted_ratio, 1.0) else law  # too shallow for a law: the ratio itself
    if isinstance(found, Unknown) or isinstance(law, Unknown):
        reason = law if isinstance(law, Unknown) else Unknown("the law of the gradients was not derived")
        return Outcome("cannot_tell", f"{_sentence(what)}, and how gradients change over depth is unknown: {reason.reason}.", blame(facts, site, reason.nodes))
    ratio = found.gradient_ratio
    if bare and found.rms[-1] > EXPLOSIVE * found.rms[0]:
        message = f"{_sentence(what)}: at the recorded initialisation it grows {found.rms[-1] / found.rms[0]:.3g} times over {depth} blocks, and so do gradients."
        numbers = (("rms_last_over_first", found.predicted_ratio), ("depth", depth))
        return Outcome("violated", message, site, "declared", THEOREM, numbers=numbers, remedy="a norm on the branch's input or output")
    numbers = (("gradient_first_over_last", ratio if not isinstance(ratio, Unknown) else "unknown"), ("rms_last_over_first", found.predicted_ratio), ("depth", depth))
    shown = f"first over last gradient {ratio:.3g}" if not isinstance(ratio, Unknown) else "the ratio is not known"
    if law == "exponential":
        message = f"{_sentence(what)}: at the recorded initialisation gradients are exponential in depth, {shown} at {depth} blocks, where the stream's growth alone gives {found.predicted_ratio:.3g}."
        return Outcome("violated", message, site, "declared", THEOREM, numbers=numbers,
                       remedy="a norm on queries and keys, or on the branch's input; or smaller initial Q and K")  # fmt: skip
    message = f"{_sentence(what)}; at the recorded initialisation {shown} at {depth} blocks, a power of depth, which larger weights would change."
    return Outcome("conditional", message, site, "declared", THEOREM, numbers=numbers, condition="bounded-logits" if fed else "small-gain")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
