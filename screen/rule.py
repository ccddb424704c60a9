"""The vocabulary of a rule file: `Rule`, `Example`, `Outcome`, `Site`, and small questions over `Facts`.

A rule is one file in `rules/`: a docstring, `RULE`, `HOLDS`, `VIOLATES`, `CANNOT_TELL`, and `check(facts) -> tuple[Outcome, ...]`, one
outcome per site. A rule reads facts only: no torch, no files, no other rule. `docs/` and `screen rule` show the docstring and the
examples as they stand; `screen.testing` runs the examples through the whole pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from screen.facts.record import Facts
from screen.structure.types import Kind, Place, Stream, Sublayer, Unknown

Step = Literal["structure", "well_posedness", "forward", "backward", "uncertainty"]
"""Structure, then the four steps: is the optimum well posed, forward growth, backward sensitivity, uncertainty."""
ChannelId = Literal["D", "R", "L", "O", "I", "N", "S"]
Severity = Literal["error", "warning", "note"]
"""error: can make the verdict unstable; warning: conditional; note: else."""
Result = Literal["holds", "violated", "conditional", "not_applicable", "cannot_tell"]
Basis = Literal["derived", "measured", "declared"]
Number = float | int | str
DECAY = "decoupled weight decay (AdamW)"
"""The option of a remedy, behind `; or `, that a recipe may have taken."""
GAINS_HELD = "gains and temperatures are fixed"
"""What a bound rests on that the gains of norms, or a learned temperature, leave free."""


@dataclass(frozen=True)
class Rule:
    """What a rule is called and what it feeds."""

    code: str
    """Channel letter, or G for structure, and three digits; never used again for another rule."""
    name: str
    """Kebab case; says what is checked, not what is wrong."""
    step: Step
    channel: ChannelId | None
    """The failure channel it feeds; None when it feeds none."""
    severity: Severity
    """Of a violation."""
    needs: tuple[str, ...]
    """Facts it reads, as paths from `Facts`."""
    source: str
    """Paper with theorem, equation or section."""


PRELUDE = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
STACK = '''

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
'''


@dataclass(frozen=True)
class Example:
    """A small PyTorch source that a rule is tried on, as the user would write it, without the imports.

    It defines `Model`, or only `Block` (width 32), which is then stacked four times and followed by a LayerNorm."""

    title: str
    code: str
    inputs: tuple[str, ...] = ("x=float32[2,16,32]",)
    """As `--input`."""

    @property
    def stacked(self) -> bool:
        """Whether `Model` is made of four of its blocks."""
        return "class Model(" not in self.code

    @property
    def source(self) -> str:
        """The file that is screened, whose class `Model` is the target."""
        return PRELUDE + self.code.strip("\n") + "\n" + (STACK if self.stacked else "")


@dataclass(frozen=True)
class Site:
    """What an outcome is about; a field that does not apply is None."""

    stream: str | None = None
    kind: str | None = None
    sublayer: str | None = None
    place: Place | None = None


@dataclass(frozen=True)
class Outcome:
    """What a rule says at one site."""

    result: Result
    message: str
    """One sentence with its full stop. Names from the model stand in backticks."""
    site: Site = Site()
    basis: Basis = "derived"
    theorem: str = ""
    assumptions: tuple[str, ...] = ()
    numbers: tuple[tuple[str, Number], ...] = ()
    remedy: str = ""
    """An option, not yet tried on the rewritten graph. Code stands in backticks, with the numbers of this model where the facts hold them."""
    tries: tuple[str, ...] | None = None
    """Ids of the changes (`screen.changes`) that do what the remedy says, one for each of its alternatives that can be made on a graph; None: those
    of the rule, whatever the remedy is."""
    condition: str = ""
    """Of a `conditional` outcome, the id of what has to hold in training (`screen.verdict.conditions`)."""
    plain: str = ""
    """The message for somebody who has trained one transformer, where it needs more words than those; else empty."""


@dataclass(frozen=True)
class Finding:
    """An outcome with the rule that gave it."""

    rule: Rule
    outcome: Outcome

    @property
    def severity(self) -> Severity:
        """The rule's severity for a violation, a warning for what cannot be told, at most a warning for a condition, else a note."""
        if self.outcome.result == "violated":
            return self.rule.severity
        if self.outcome.result == "cannot_tell" or (self.outcome.result == "conditional" and self.rule.severity != "note"):
            return "warning"
        return "note"


@dataclass(frozen=True)
class RuleFault:
    """A rule that gave no outcome: it did not load, or its check raised."""

    rule: str
    """Code where it is known, else the module's name."""
    reason: str


@dataclass(frozen=True)
class RuleRun:
    """All findings, by rule code and then in data-flow order, and the rules that did not run."""

    findings: tuple[Finding, ...]
    not_run: tuple[RuleFault, ...] = ()

    def of(self, code: str) -> tuple[Finding, ...]:
        """The findings of one rule."""
        return tuple(f for f in self.findings if f.rule.code == code)


@dataclass(frozen=True)
class LoadedRule:
    """A rule file after import: what its page and its tests are made of."""

    rule: Rule
    doc: str
    check: Callable[[Facts], tuple[Outcome, ...]]
    holds: tuple[Example, ...]
    violates: tuple[Example, ...]
    cannot_tell: tuple[Example, ...]


def each_sublayer(facts: Facts) -> Iterator[tuple[Stream, Kind, Sublayer]]:
    """Every distinct residual sublayer, in data-flow order."""
    for stream in facts.streams:
        for kind in stream.kinds:
            for sublayer in kind.sublayers:
                yield stream, kind, sublayer


def at(stream: Stream | None = None, kind: Kind | None = None, sublayer: Sublayer | None = None, place: Place | None = None) -> Site:
    """The site of a stream, a kind or a sublayer; the place is the sublayer's unless another one is to blame."""
    return Site(
        stream=stream.name if stream else None,
        kind=kind.id if kind else None,
        sublayer=sublayer.name if sublayer else None,
        place=place or (sublayer.place if sublayer else None),
    )


def or_not_applicable(outcomes: list[Outcome], why: str) -> tuple[Outcome, ...]:
    """The outcomes, or one that says why there is no site to judge."""
    return tuple(outcomes) or (Outcome("not_applicable", why),)


def place_of(facts: Facts, node: int) -> Place:
    """Where a node of the graph stands in the user's code."""
    found = facts.graph.nodes[node]
    return Place(node, facts.graph.scope(node).path, found.file, found.line)


def blame(facts: Facts, site: Site, nodes: tuple[int, ...]) -> Site:
    """The same site with the place of the first node to blame, where there is one."""
    return replace(site, place=place_of(facts, nodes[0])) if nodes else site


def first_reason(sublayer: Sublayer) -> Unknown:
    """Why its placement is unknown."""
    return sublayer.unknown[0] if sublayer.unknown else Unknown("no reason was recorded")


def layers_text(kind: Kind) -> str:
    """`layer 3`, `layers 0-11`, `layers 0-2, 5`."""
    ranges = [f"{first}" if first == last else f"{first}-{last}" for first, last in kind.layers]
    return ("layer " if kind.count == 1 else "layers ") + ", ".join(ranges)


def describe(stream: Stream, kind: Kind, sublayer: Sublayer) -> str:
    """How a message names a sublayer: "`attention` of layers 0-11"; the stream is named by the site."""
    return f"`{sublayer.name}` of {layers_text(kind)}" + ("" if stream.name == "stream" else f" of `{stream.name}`")


def scaled(stream: Stream, sublayer: Sublayer, what: str, theorem: str = "") -> Outcome:
    """What is said where a stream is multiplied by no constant: learned scales are a condition, what is made from the data cannot be told."""
    learned = sublayer.alpha.kind == "learned"
    by = "learned scales" if learned else "gates or matrices made from the data"
    message = f"`{stream.name}` is multiplied at `{sublayer.name}` by {by}: {what}."
    return Outcome("conditional" if learned else "cannot_tell", message, at(stream, None, sublayer), theorem=theorem, condition="stream-gain")


__all__ = [
    "DECAY", "GAINS_HELD", "PRELUDE", "STACK", "Basis", "ChannelId", "Example", "Facts", "Finding", "Kind", "LoadedRule", "Number", "Outcome",
    "Place", "Result", "Rule", "RuleFault", "RuleRun", "Severity", "Site", "Step", "Stream", "Sublayer", "Unknown", "at", "blame", "describe",
    "each_sublayer", "first_reason", "layers_text", "or_not_applicable", "place_of", "scaled",
]
