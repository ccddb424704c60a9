"""The part of the report that says what the streams are: kinds of blocks, sublayers, norms, residual scales.

Split from `screen.report.schema` for length; import everything from there. `None` means: not known, or not derived yet; it never means no.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from screen.report import formulas_of


def _spell(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


Real = Annotated[float | Literal["inf", "-inf", "nan"], BeforeValidator(_spell)]
Value = Annotated[int | float | str, BeforeValidator(_spell)]
YesNoUnknown = Literal["yes", "no", "unknown"]
ScaleKind = Literal["none", "constant", "learned", "data"]
RoleName = Literal[
    "attention", "cross_attention", "linear_attention", "ssm", "rnn", "conv", "fourier", "pooling", "ffn", "gated_ffn", "moe", "other"
]
NormName = Literal["layernorm", "rmsnorm", "l2", "batchnorm", "groupnorm", "other"]


class Part(BaseModel):
    """Frozen, and refuses keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Source(Part):
    file: str | None
    line: int | None
    module: str


class NormPart(Part):
    """One norm of a sublayer, by what it computes."""

    position: Literal["A", "A2", "S", "B", "C"]
    type: NormName
    centred: bool
    axes: list[int]
    size: int
    eps: Real | None
    source: Source


class Port(Part):
    name: str
    normed: Literal["yes", "no", "partly", "unknown"]
    stream: str


class Residual(Part):
    """x ← alpha · x + branch · F; a multiplier that is not there is 1, one whose value is not known is null."""

    kind: ScaleKind
    alpha: Real | None = 1.0
    branch: Real | None = 1.0
    alpha_kind: ScaleKind = "none"
    branch_kind: ScaleKind = "none"
    no_op: bool = False
    """A constant multiplier is there and is 1."""
    parameters: list[str] = []
    gated: bool = False
    """The branch ends in a gain that depends on the data."""


class MapsPart(Part):
    maps: int | None
    distinct: int | None = None
    degree: int | None = None
    min_degree: int | None = None
    path: list[str] = []
    convention: str | None = None


class Degree(Part):
    predicted: Real | None
    status: Literal["exact", "asymptotic", "bound"]
    measured: Real | None = None


class OutputSet(Part):
    bounded: YesNoUnknown = "unknown"
    hamiltonian: str | None = None
    bound: str | None = None


class Growth(Part):
    form: Literal["constant", "linear", "polynomial", "exponential", "unknown"] = "unknown"
    expression: str | None = None
    value: Real | None = None


class Lipschitz(Part):
    """Block-∞ to block-∞ (the largest 2-norm of a token), over all inputs; `local` at a point, with the norms' divisors there as symbols."""

    expression: str | None = None
    value: Real | None = None
    local: str | None = None


class Initialisation(Part):
    """The stream at its recorded initialisation: means over random weights, no bounds (docs/theory.md, token covariance)."""

    depth: int
    rms_first: Real
    rms_last: Real
    rms_exponent: Real | None
    cosine: Real | None
    one_minus_cos: Real | None
    gradient_ratio: Real | None
    ratio_law: Literal["polynomial", "exponential"] | None
    predicted_ratio: Real
    last_gradient_exponent: Real | None
    deepnorm_number: Real | None
    tokens: int | None = None
    """How many tokens of a sequence the numbers are of."""
    assumptions: list[str] = []


class Logits(Part):
    bounded: Literal["yes", "no", "unknown", "not_applicable"] = "unknown"
    expression: str | None = None


class SublayerPart(Part):
    name: str
    role: RoleName
    placement: str
    positions: list[Literal["A", "A2", "S", "B", "C"]]
    norm_type: NormName | None
    norms: list[NormPart] = []
    qk_norm: Literal["none", "per_head", "full", "cosine", "l2"] | None
    q_norm: Literal["none", "per_head", "full", "cosine", "l2"] | None = None
    k_norm: Literal["none", "per_head", "full", "cosine", "l2"] | None = None
    v_norm: bool | None
    parallel_group: int | None
    ports: list[Port] = []
    residual: Residual
    depends_on_stream: YesNoUnknown = "yes"
    normed_skip: bool = False
    adds_norm: Real | None = 0.0
    """How many times A(x) itself is added beside what the branch makes of it; null where that is no number."""
    norm_on_skip: bool = False
    """The norm C stands on the skip alone, x ← C(x) + B(F(x))."""
    unknown: list[str] = []
    """Why a position could not be told."""
    m: MapsPart
    degrees: dict[str, Degree] | None = None
    output_set: OutputSet = OutputSet()
    growth: Growth = Growth()
    lipschitz: Lipschitz = Lipschitz()
    logits: Logits = Logits()
    symbols: dict[str, str] = {}
    """What the symbols of its expressions stand for."""
    source: Source

    def formulas(self) -> dict[str, Any]:
        """Its expressions as `sympy.Expr`: `bound`, `growth`, `logits`, `lipschitz`, `lipschitz_local`, those that are known."""
        found: dict[str, Any] = formulas_of(self)
        return found


class KindPart(Part):
    id: str
    count: int
    layers: list[tuple[int, int]]
    module: str
    sublayers: list[SublayerPart]


class IdentityPathPart(Part):
    exists: bool | None
    gain: str | None
    norms_crossed: int
    breaks: list[Source] = []


class StreamPart(Part):
    name: str
    role: str
    width: int | None
    depth: int
    """Number of blocks: of what repeats as a whole."""
    copies: int = 1
    """Of an inner stream: how many branches have one like it; `depth` counts the blocks of all, and no value passes more than depth / copies."""
    branches: int
    """Number of residual branches of all blocks, each of which ends in an add."""
    dtype: str
    embed_norm: bool | None
    embed_scale: bool | None
    embed_factor: float | None = None
    """What the embedding is multiplied by, where it is a number."""
    final_norm: bool | None
    pooled_norm: bool = False
    """A norm stands behind the mean over tokens or places at its end, where it has no final norm."""
    identity_path: IdentityPathPart
    long_skips: list[Source] = []
    kinds: list[KindPart]
    initialisation: Initialisation | None = None
    """None where it was not recorded, or a branch is not covered."""
