"""The report as pydantic models: what `--format json` prints and what every other format renders.

Keys are sorted when printed and lists stand in data-flow order; nothing here knows the clock, the host or an absolute path, so the
same input gives the same bytes. A number that is not finite stands as "inf", "-inf" or "nan". `None` means: not known, or not derived
yet; it never means no.
"""

from __future__ import annotations

import json
import os
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from screen.report import decision, format_for, render, stream_graph
from screen.report.schema_streams import (
    Degree,
    Growth,
    IdentityPathPart,
    Initialisation,
    KindPart,
    Lipschitz,
    Logits,
    MapsPart,
    NormPart,
    OutputSet,
    Part,
    Port,
    Real,
    Residual,
    Source,
    StreamPart,
    SublayerPart,
    Value,
)
from screen.visible import quoted

SCHEMA_VERSION = "3"
VerdictName = Literal["stable", "conditional", "unknown", "unstable"]
State = Literal["closed", "guarded", "out_of_scope", "conditional", "unknown", "open"]


class Library(Part):
    transformers: str | None = None
    timm: str | None = None


class Tool(Part):
    name: str
    version: str
    python: str
    torch: str | None
    libraries: Library = Library()


class ErrorPart(Part):
    """Why the target was not judged, or not to its end."""

    stage: Literal["usage", "load", "trace", "limits", "internal"]
    message: str
    file: str | None = None
    line: int | None = None


class Target(Part):
    spec: str
    name: str | None = None
    """Of its entry in the file of settings."""
    kind: str | None = None
    model_class: str | None = None
    parameters: int | None = None
    dtype: str | None = None
    depth: int | None = None
    depth_from: Literal["model", "option", "recipe", "assumed"] = "model"
    weights: Literal["meta", "real"] = "meta"
    changed: dict[str, tuple[JsonValue, JsonValue]] = Field(default_factory=dict)
    options: list[str] = Field(default_factory=list)
    """Options of the command that change what is screened, as they were given."""
    notes: list[str] = Field(default_factory=list)
    """What was left out: lines of the file that did not run, other models of it that do not build."""


class Channel(Part):
    id: Literal["D", "R", "L", "O", "I", "N", "S"]
    state: State
    reason: str
    codes: list[str] = Field(default_factory=list)
    conditions: list[str] = Field(default_factory=list)
    risk: Real | None = None


class Condition(Part):
    id: str
    text: str
    needed_by: list[str] = Field(default_factory=list)
    recipe: Literal["met", "not_met", "not_stated"] = "not_stated"
    stated: str = ""
    """What the recipe states of it, in a sentence."""


class SidesPart(Part):
    """What one item that the recipe does not state decides alone: the verdict with the kindest and with the harshest of its usual values."""

    item: str
    """Field of the recipe."""
    holds_to: float | str
    """The last value, in the field's unit, at which the verdict is `when_kind`."""
    fails_from: float | str
    """The first at which it is `when_harsh`; another verdict may lie between."""
    kind: float | str
    harsh: float | str
    when_kind: VerdictName
    when_harsh: VerdictName


class RecipePart(Part):
    """How the model will be trained, as far as it is stated (`screen.Recipe` has the fields and their units)."""

    values: dict[str, JsonValue]
    """Field -> value, of what is stated."""
    origins: dict[str, str]
    """Field -> the file, the preset or the option that states it."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Field -> where in the literature it stands, for presets."""
    derived: dict[str, Real] = Field(default_factory=dict)
    """What follows by arithmetic: steps of warm-up, tokens, share of a weight that a step at the peak takes off, rate of the first step."""
    unused: list[str] = Field(default_factory=list)
    """Keys of another program's file that say nothing here."""
    decides: list[SidesPart] = Field(default_factory=list)
    """What it does not state and on which the verdict hangs."""


class SettingsPart(Part):
    """Where settings come from that change what is judged or what fails."""

    trusted: str | None = None
    """What `--trusted-config` names; None: files of the tree that is judged count."""
    of_tree: dict[str, str] = Field(default_factory=dict)
    """Setting -> the file of the tree that is judged that says it."""


class FindingPart(Part):
    code: str
    name: str
    step: Literal["structure", "well_posedness", "forward", "backward", "uncertainty"]
    channel: Literal["D", "R", "L", "O", "I", "N", "S"] | None
    severity: Literal["error", "warning", "note"]
    outcome: Literal["holds", "violated", "conditional", "not_applicable", "cannot_tell"]
    message: str
    basis: Literal["derived", "measured", "declared"]
    stream: str | None = None
    kind: str | None = None
    sublayer: str | None = None
    module: str | None = None
    file: str | None = None
    line: int | None = None
    node: int | None = None
    theorem: str = ""
    assumptions: list[str] = Field(default_factory=list)
    numbers: dict[str, Value] = Field(default_factory=dict)
    remedy: str = ""
    condition: str = ""
    """Under which it does no harm (`conditions`); empty where there is none."""
    plain: str = ""
    """The message for somebody who has trained one transformer; empty where it needs no other words."""

    excerpt: list[tuple[int, str]] = Field(default_factory=list)
    """Lines of the user's code around `line`, (number, text), of a finding that says something."""

    @property
    def said(self) -> str:
        """The message in plain words."""
        return self.plain or self.message


class ExperimentPart(Part):
    """One prediction and what was measured. `agrees` is null where nothing was compared; `outcome` and `reason` say why."""

    name: str
    what: str
    predicted: Real | str | None = None
    measured: Real | str | None = None
    interval: tuple[Real, Real] | None = None
    agrees: bool | None = None
    samples: int = 0
    outcome: Literal["confirmed", "refuted", "not_measured", "not_applicable", "observed"]
    status: str = ""
    reason: str = ""
    stream: str | None = None
    kind: str | None = None
    sublayer: str | None = None
    group: str | None = None
    numbers: dict[str, Value] = Field(default_factory=dict)


class ProbePart(Part):
    """What was measured on real weights, one block at a time."""

    device: str
    dtype: str
    seed: int
    plan: dict[str, Value] = Field(default_factory=dict)
    """Budget in seconds of counted work, and how many predictions came out how."""
    interrupted: str | None = None
    """Why it ended early; what stands here was measured before."""
    experiments: list[ExperimentPart] = Field(default_factory=list)


class Unmodelled(Part):
    op: str
    count: int
    on_stream: bool
    source: Source


class GuessPart(Part):
    file: str | None
    line: int | None
    assumed: str


class Stamped(Part):
    """A container of equal members of which not all ran."""

    container: str
    members: int
    ran: list[int]
    """Positions of the members that ran, from 0."""


class RuleNotRun(Part):
    rule: str
    reason: str


class CoveragePart(Part):
    ops: int = 0
    ops_modelled: int = 0
    unmodelled: list[Unmodelled] = Field(default_factory=list)
    guesses: list[GuessPart] = Field(default_factory=list)
    stamped: list[Stamped] = Field(default_factory=list)
    modules_uncalled: list[str] = Field(default_factory=list)
    rules_not_run: list[RuleNotRun] = Field(default_factory=list)
    rules_left_out: list[str] = Field(default_factory=list)
    """Codes that `--select` or `--ignore` leaves out: the verdict counts them, findings and exit code do not."""


class MeasuredPart(Part):
    """What a measurement gave for a claim; `agrees` is null where nothing was compared."""

    value: Real | bool | str | None
    agrees: bool | None = None


class ClaimPart(Part):
    """One statement about the model. `weights`: as initialised (`start`), any that are held fixed, all values of all of them but gains of norms.
    A claim that a measurement refutes keeps its value, has `measured.agrees` false, and counts as unknown for rules."""

    id: str
    claim: str
    stream: str | None = None
    kind: str | None = None
    sublayer: str | None = None
    group: str | None = None
    value: bool | Real | str | None = None
    low: Real | None = None
    high: Real | None = None
    weights: Literal["start", "fixed", "all"]
    status: Literal["proved", "measured", "unknown"]
    reason: str = ""
    node: Source | None = None
    rests_on: list[str] = Field(default_factory=list)
    measured: MeasuredPart | None = None
    codes: list[str] = Field(default_factory=list)


class ChangePart(Part):
    """A change that findings propose, made on the graph and screened under the same recipe: the channels that it closes, betters or worsens, those of
    which that is not told, as nothing is measured on the changed graph, and the learning rate that is expected to be tolerated before and after it;
    null where that is not known, or nothing below 10 limits it."""

    id: str
    what: str
    codes: list[str]
    """Rules whose findings propose it."""
    remedies: list[str] = Field(default_factory=list)
    """In the words of these findings, one of whose alternatives it is."""
    verdict: VerdictName
    closes: list[str] = Field(default_factory=list)
    eases: list[str] = Field(default_factory=list)
    opens: list[str] = Field(default_factory=list)
    untold: list[str] = Field(default_factory=list)
    clears: list[str] = Field(default_factory=list)
    """Those of `codes` whose findings are gone on the changed graph."""
    lr_before: Real | None = None
    lr_after: Real | None = None


class SpotCheckPart(Part):
    """Whether claims were compared with the program on real tensors, and how many of them agreed."""

    ran: bool = False
    compared: int = 0
    refuted: list[str] = Field(default_factory=list)
    """Ids of claims."""
    reason: str = ""
    """Why it did not run, or not on everything."""


class Shown(Part):
    """What a report and several of them have in common: how they are shown, and what a gate says."""

    def to_json(self) -> str:
        """The JSON text that `--format json` prints, with a line feed at its end."""
        return _dump(self)

    def to_text(self) -> str:
        """What `screen check` prints."""
        return render(self, "text")

    def to_markdown(self) -> str:
        """What `--format markdown` prints."""
        return render(self, "markdown")

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write it to a file, in the format of its ending (`.txt`, `.md`, `.json`, `.sarif`, `.xml` for JUnit) or in the one named.

        Folders are made. Raises `UsageError` for an ending that stands for none, `OSError`."""
        text = render(self, format or format_for(os.fspath(path)))
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)

    @property
    def exit_code(self) -> int:
        """What `screen check` ends with under its own gate: 1 for what is unstable or a slip, 2 where it was not judged, else 0."""
        codes: list[int] = [decision(one, ("slip",)).code for one in self.each]
        return max(codes)

    def assert_stable(self) -> None:
        """Raises `AssertionError` unless every verdict is `stable`; what is conditional is not."""
        __tracebackhide__ = True
        others = dict.fromkeys(one.verdict for one in self.each if one.verdict != "stable")
        if others:
            raise AssertionError(f"the verdict must be stable: it is {' and '.join(others)}\n{render(self, 'concise')}")

    def assert_no_slips(self) -> None:
        """Raises `AssertionError` unless the gate of `screen check` passes: nothing is unstable or unknown, no warning or error is violated."""
        __tracebackhide__ = True
        failing = [found for one in self.each if (found := decision(one, ("slip",))).code]
        if failing:
            why = "; ".join(dict.fromkeys(found.why or "it was not judged" for found in failing))
            raise AssertionError(f"there must be no slip: {why}\n{render(self, 'concise')}")

    @property
    def each(self) -> list[Report]:
        """Of each target."""
        raise NotImplementedError

    def _repr_markdown_(self) -> str:
        """Shows itself in a notebook."""
        return self.to_markdown()

    def __repr__(self) -> str:
        return "<" + "; ".join(f"{one.target.spec}: {one.verdict}, {one.summary}" for one in self.each) + ">"

    def __str__(self) -> str:
        return self.to_text()


class Report(Shown):
    """What was found about one target."""

    schema_version: Literal["3"] = "3"
    tool: Tool
    verdict: VerdictName
    provisional: bool
    summary: str
    error: ErrorPart | None = None
    target: Target
    channels: list[Channel] = Field(default_factory=list)
    conditions: list[Condition] = Field(default_factory=list)
    recipe: RecipePart | None = None
    """None: nothing was stated."""
    settings: SettingsPart | None = None
    """None: no file says any."""
    streams: list[StreamPart] = Field(default_factory=list)
    findings: list[FindingPart] = Field(default_factory=list)
    changes: list[ChangePart] = Field(default_factory=list)
    claims: list[ClaimPart] = Field(default_factory=list)
    spot_check: SpotCheckPart = SpotCheckPart()
    coverage: CoveragePart = CoveragePart()
    probe: ProbePart | None = None

    @property
    def each(self) -> list[Report]:
        """Itself."""
        return [self]

    def stream_graph(self) -> Any:
        """The residual streams as a `networkx.DiGraph`: boxes of each kind of block, and which kind follows which (attributes in
        `screen.report.network.stream_graph`)."""
        return stream_graph(self)


class Reports(Shown):
    """Several targets, in the order given; the verdict is the worst."""

    schema_version: Literal["3"] = "3"
    tool: Tool
    verdict: VerdictName
    reports: list[Report] = Field(min_length=1)

    @property
    def each(self) -> list[Report]:
        """Of each target, in their order."""
        return self.reports


def _dump(part: BaseModel) -> str:
    return quoted(json.dumps(part.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False)) + "\n"


__all__ = [
    "SCHEMA_VERSION", "ChangePart", "Channel", "ClaimPart", "Condition", "CoveragePart", "Degree", "ErrorPart", "ExperimentPart", "FindingPart",
    "Growth", "GuessPart", "IdentityPathPart", "Initialisation", "KindPart", "Library", "Lipschitz", "Logits", "MapsPart", "MeasuredPart", "NormPart",
    "OutputSet", "Part", "Port", "ProbePart", "Real", "RecipePart", "Report", "Reports", "Residual", "RuleNotRun", "SettingsPart", "SidesPart",
    "Source", "SpotCheckPart", "Stamped", "State", "StreamPart", "SublayerPart", "Target", "Tool", "Unmodelled", "Value", "VerdictName",
]  # fmt: skip
