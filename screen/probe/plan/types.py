"""What is to be measured, as plain data: made from facts in the parent, sent to the process that builds the model. No torch here.

Nodes are positions in `Graph.nodes`; a model that is built and traced again has the same ones, and `nodes` and `ops` are compared before anything
is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["exact", "asymptotic", "bound"]
Outcome = Literal["confirmed", "refuted", "not_measured", "not_applicable", "observed"]
"""`observed`: a number without a prediction."""


@dataclass(frozen=True)
class DegreePlan:
    """One predicted exponent of ‖∂F/∂x‖ (see `screen.calculi.degrees.Degree`)."""

    group: str
    parameters: tuple[str, ...]
    rows: str | None
    axis: int
    biases: tuple[tuple[str, float], ...]
    predicted: float
    status: Status


@dataclass(frozen=True)
class NormPlan:
    """One norm inside of a branch, and the symbol of its divisor in bounds."""

    symbol: str
    node: int
    source: int
    centred: bool
    axes: tuple[int, ...]
    size: int
    eps: float
    """Added to the variance where the norm says so; 0 where there is none."""
    fused: bool
    """A call whose value carries gain and bias (`layer_norm`, `rms_norm`)."""
    clamped: bool
    """max(‖z‖, ε) in place of √(σ²+ε)."""
    least: float | None
    grouping: Literal["", "groups", "channels"] = ""
    """`group_norm`, `batch_norm`: one divisor for each sample and group, or for each channel (axis 1)."""


@dataclass(frozen=True)
class PartPlan:
    """A strided view of a parameter, or of an array that is made of several (formulas: `screen.calculi.bounds.arrays`)."""

    parameter: str
    """The first of them."""
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    shift: float = 0.0
    made: MadePlan | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """All that it is made of."""
        found = [self.parameter] if self.made is None else [n for p in self.made.parts if p is not None for n in p.parameters]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class MadePlan:
    """An array that is made of parts, dense and row-major. map: W Γ Π of (W, γ); constant: W β + b of (W, β, b); rows: g v/‖v‖ of (v, g); share:
    γW/(uᵀWv) of (W, γ, u, v); spectral, frobenius: γW over that norm of W, of (W, γ); logit: AᵀC of
    (A, C), and through: W A of (W, A), by heads and up to orthonormal columns. None where there is none."""

    how: Literal["map", "constant", "rows", "share", "spectral", "frobenius", "logit", "through"]
    parts: tuple[PartPlan | None, ...]
    centred: bool = False
    heads: int = 0
    """logit: axes of heads."""


@dataclass(frozen=True)
class QuantityPlan:
    """One symbol of a bound: a norm of a part (formula: `screen.calculi.bounds.quantities`)."""

    symbol: str
    kind: str
    roles: str
    part: PartPlan

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the part."""
        return self.part.sizes


Program = tuple[tuple[str, float, str, tuple[int, ...], tuple[float, ...]], ...]
"""An expression as rows (kind, value, name, operands, powers), operands before the rows that use them; the last row is its value."""


@dataclass(frozen=True)
class BoundPlan:
    """One bound."""

    name: Literal["magnitude", "lipschitz", "lipschitz_local", "logits", "internal"]
    node: int
    """Of the softmax whose logits are bounded; else the branch's output."""
    program: Program


@dataclass(frozen=True)
class SpreadPlan:
    """A symbol of `lipschitz_local`: half the diameter of the vectors that a softmax weighs, measured at the place (`screen.probe.bounds.point`)."""

    symbol: str
    node: int
    """Of the vectors."""
    program: Program
    """A bound of it over all inputs, where the vectors are no tensor."""


@dataclass(frozen=True)
class HamiltonianPlan:
    """H(P) of a branch that ends in a norm: Σ_j r‖CΓp_j‖ − ⟨p_j, b⟩ (`screen.calculi.bounds.hamiltonian`)."""

    width: int
    radius: float
    centred: bool
    steps: tuple[tuple[str, str, float], ...]
    """Behind the norm: (gain, bias or scale; parameter; number added to it, or the scale)."""


@dataclass(frozen=True)
class SublayerPlan:
    """One distinct residual branch."""

    stream: str
    kind: str
    name: str
    output: int
    state: int
    """The state of the stream that it reads."""
    cuts: tuple[tuple[int, str], ...]
    """(node, kind) where the branch ends: `own` (what it is a function of), `memory` (another stream), `earlier` (an earlier branch or state)."""
    degrees: tuple[DegreePlan, ...]
    norms: tuple[NormPlan, ...]
    quantities: tuple[QuantityPlan, ...]
    bounds: tuple[BoundPlan, ...]
    unknown: tuple[tuple[str, str], ...] = ()
    """(what, why) of predictions that are not known."""
    ops: int = 0
    softmaxes: tuple[int, ...] = ()
    """Nodes of the attentions' softmaxes."""
    axis: int = -1
    """The feature axis of the output."""
    closed: tuple[str, ...] = ()
    """Bounds by name that hold over all weights but the gains and biases of norms."""
    plain: tuple[BoundPlan, ...] = ()
    """Bounds in norms of single parameters: what rounding of each, or its growth without limit, does to a bound can be said of them."""
    hamiltonian: HamiltonianPlan | None = None
    spreads: tuple[SpreadPlan, ...] = ()
    inside: tuple[int, ...] = ()
    """Nodes of the branch that carry data: `internal` speaks of their entries."""


@dataclass(frozen=True)
class BlockPlan:
    """One distinct block as a map of the stream: from `entry` to `exit`, and on to `end` behind the last norm."""

    stream: str
    kind: str
    entry: int
    exit: int
    last: int
    """The node whose value leaves the last block of the stream."""
    end: int
    """Behind the last norm; equal to `last` where there is none."""
    cuts: tuple[int, ...]
    """Other nodes of streams, at which the block is cut off from what stands before it."""
    outputs: tuple[int, ...]
    """Outputs of its branches, in order."""
    repeats: bool
    """Blocks of this kind follow each other and make up the stream."""
    weight: str | None
    """The parameter nearest to the block's output, whose gradient is compared over depth."""
    tied: bool = False
    """Later blocks have the same weights."""
    depth: int = 1
    """Blocks of the stream, as the model has them or as they are stacked."""
    rms: tuple[float, ...] = ()
    """√(E‖x_l‖²/d) after block 1 … depth by the covariance recursion; empty where it is not known."""
    ratio: float | None = None
    """First over last gradient at that depth, by the recursion."""
    gap: float | None = None
    """1 − (mean cosine between two tokens) after block `depth`, by the recursion."""
    begun: float | None = None
    """1 − (mean cosine between two tokens) that the recursion starts from."""
    axis: int = -1
    """The feature axis of the stream."""
    unknown: str = ""
    """Why there is no prediction."""
    softmaxes: tuple[tuple[str, int], ...] = ()
    """(sublayer, node) of every softmax of an attention in the block."""
    names: tuple[str, ...] = ()
    """Names of the sublayers that `outputs` belong to."""
    adds: tuple[int, ...] = ()
    """The residual add of each of `outputs`."""


@dataclass(frozen=True)
class UpdatePlan:
    """The first update and the curvature of the whole model at its start, under what a recipe says of the optimiser."""

    state: int | None = None
    """The node of the last normed state; of a stream that ends without a norm its last state. None: the output of the model stands for it."""
    before: int | None = None
    """The node that the norm of that state reads; None where there is no norm."""
    centred: bool = False
    """Whether that norm takes the mean away."""
    added: float = 0.0
    """ε of its variance."""
    axis: int = -1
    """Its feature axis."""
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(group of weights, names of its parameters), by what they do."""
    frozen: tuple[str, ...] = ()
    """Parameters that ask for no gradient."""
    eps: float = 1e-8
    """ε of Adam's denominator."""
    beta1: float = 0.9
    """Adam's first decay rate."""
    rate: float | None = None
    """Peak learning rate of the recipe."""
    predicted: float | None = None
    """κ as it is derived (`calculi/meanfield/first_update.py`); None where it is not."""


UPDATE, CURVATURE = 0.12, 0.26
"""Seconds that the experiments on the whole model may take, over those of all others, beside them."""
WHOLE = UPDATE + CURVATURE
Place = tuple[str, str, str, str]
"""(name of an experiment, stream, kind, sublayer); empty where it belongs to none."""


@dataclass(frozen=True)
class ProbePlan:
    """Everything that is to be measured of one model."""

    nodes: int
    ops: str
    """Digest of the ops of the graph that the plan was made from."""
    sublayers: tuple[SublayerPlan, ...]
    blocks: tuple[BlockPlan, ...] = ()
    only: tuple[Place, ...] | None = None
    """What is to be measured; None: everything."""
    loop: bool = False
    """The model is the loop of one block."""
    update: UpdatePlan = field(default_factory=UpdatePlan)

    def asks(self, *place: str) -> bool:
        """Whether an experiment is to be made: (name, stream, kind, sublayer)."""
        return self.only is None or place in self.only


@dataclass(frozen=True)
class Options:
    """How to measure."""

    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float64", "float32"] = "auto"
    seconds: float = 60.0
    """Budget, in seconds of counted work at the rates of `screen.probe.budget.budget`."""
    memory: int = 8 << 30
    """Bytes; 0: no limit."""
    stress: bool = False
    """Also train the model, with a budget of the same size."""


@dataclass(frozen=True)
class Experiment:
    """One prediction and what was measured. Numbers are rounded to three significant digits."""

    name: str
    what: str
    outcome: Outcome
    stream: str = ""
    kind: str = ""
    sublayer: str = ""
    group: str = ""
    status: str = ""
    predicted: float | str | None = None
    measured: float | str | None = None
    interval: tuple[float | str, float | str] | None = None
    samples: int = 0
    reason: str = ""
    numbers: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def agrees(self) -> bool | None:
        """True, False, or None where nothing was compared."""
        return {"confirmed": True, "refuted": False}.get(self.outcome)


def to_json(plan: ProbePlan) -> dict[str, Any]:
    """A plan as plain data."""
    return asdict(plan)


def from_json(data: dict[str, Any]) -> ProbePlan:
    """What `to_json` gave, read back from JSON (where tuples are lists)."""
    from pydantic import TypeAdapter

    return TypeAdapter(ProbePlan).validate_python(data)


def rounded(value: float) -> float | str:
    """Three significant digits; a number that is not finite as text."""
    import math

    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return float(f"{value:.3g}") + 0.0


__all__ = [
    "CURVATURE", "UPDATE", "WHOLE", "BlockPlan", "BoundPlan", "DegreePlan", "Experiment", "HamiltonianPlan", "MadePlan", "NormPlan", "Options",
    "Outcome", "PartPlan", "Place", "ProbePlan", "Program", "QuantityPlan", "SpreadPlan", "SublayerPlan", "UpdatePlan", "from_json", "rounded",
    "to_json",
]  # fmt: skip
