"""What facts are made of: frozen data, three-valued, without torch.

Yes / no questions are answered by `True`, `False` or `Unknown(reason, nodes)`. `Unknown` is never taken for either: it has no truth
value, and `bool(Unknown(...))` raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn


@dataclass(frozen=True)
class Unknown:
    """Cannot be told, why, and the nodes to blame."""

    reason: str
    nodes: tuple[int, ...] = ()

    def __bool__(self) -> NoReturn:
        raise TypeError(f"`Unknown` has no truth value (the reason was: {self.reason}); compare with `is True` or `is False`")


Tri = bool | Unknown

Role = Literal[
    "attention", "cross_attention", "linear_attention", "ssm", "rnn", "conv", "fourier", "pooling", "ffn", "gated_ffn", "moe", "other"
]
QKNorm = Literal["none", "per_head", "full", "cosine", "l2"]
NormType = Literal["layernorm", "rmsnorm", "l2", "batchnorm", "groupnorm", "other"]


@dataclass(frozen=True)
class Place:
    """Where something stands in the user's code."""

    node: int
    module: str
    file: str
    line: int

    @property
    def words(self) -> str:
        """The module in backticks; the line, where it is the user's outermost one."""
        return f"`{self.module}`" if self.module else f"line {self.line}"


@dataclass(frozen=True)
class Norm:
    """A value y = ℓ(x)/ρ(ℓ(x)), recognised by what it computes."""

    node: int
    """The node whose value is normalised (before the affine)."""
    source: int
    """The node that is normalised (x)."""
    type: NormType
    centred: bool
    axes: tuple[int, ...]
    """Normalised axes, negative, counted from the last."""
    size: int
    """How many entries one statistic runs over."""
    eps: float | None
    place: Place
    radius: float | None = None
    """The largest rms of a normed token at gain 1; None where that is not known, or where the statistic runs over tokens or samples."""
    across: bool = False
    """The statistic runs over tokens or samples: no norm of a token, and no A, B or C. (Batch, group and instance norms stand by their type.)"""
    with_features: bool = False
    """Of a statistic over tokens or samples: it runs over features as well, so that it bounds each value by the root of its size."""
    shifted: bool = False
    """The statistic is that of x less something trained: it takes the size away as x grows, and has a pole where x meets that."""
    to_rms: bool = False
    """Of an L2 norm: its value is multiplied by the root of its size at once, which makes it an RMSNorm in two steps."""
    put_back: bool = False
    """The size that is divided out is multiplied back, behind entry-wise functions at most, as a value is quantised; of
    a statistic over tokens or samples, behind anything, as each series has its own mean and deviation taken off and put back."""

    @property
    def of_tokens(self) -> bool:
        """Whether a token has lost its size behind it."""
        return not (self.across or self.put_back)

    @property
    def name(self) -> NormType:
        """What it is called: √n · x/‖x‖ is RMSNorm. `type` is that of the node alone."""
        return "rmsnorm" if self.to_rms else self.type


@dataclass(frozen=True)
class Scale:
    """A multiplier on one side of a residual add."""

    kind: Literal["none", "constant", "learned", "data"]
    value: float | None = None
    """Value of a constant (1.0 when there is none)."""
    parameters: tuple[str, ...] = ()
    init: float | None = None
    """Initial value of a learned scale where its recorded initialiser says so."""


@dataclass(frozen=True)
class Port:
    """One entry of a branch: what feeds it, and whether every path to it passes a norm."""

    name: str
    """`x` (the main input), `q`, `k`, `v`, `router`, `gate`, or `memory` (another stream)."""
    normed: Tri | Literal["partly"]
    stream: str
    """Name of the stream that feeds it."""


@dataclass(frozen=True)
class MapCount:
    """Logical weight maps of a branch before any cancellation (contract: `m.maps`), with the path they were counted on."""

    maps: int | Unknown
    path: tuple[str, ...]
    """Names of the weight parameters, in data-flow order."""


@dataclass(frozen=True)
class Sublayer:
    """One residual branch F and where norms sit around it."""

    name: str
    """Unique in its kind, by role and order: `attention`, `ffn`, `ffn2`, …"""
    role: Role
    placement: str
    """pre|post|peri|output_only|pre_post|none|unknown|letters."""
    positions: tuple[str, ...]
    """Of "A", "A2", "S", "B", "C", in this order."""
    unknown: tuple[Unknown, ...]
    """Why a position could not be told; empty when all could."""
    norms: tuple[tuple[str, Norm], ...]
    """(position, norm) for every norm of the sublayer, in data-flow order."""
    norm_type: NormType | None
    """Type of its A, B or C norm (the first of them); None when there is none."""
    ports: tuple[Port, ...]
    qk_norm: QKNorm | Unknown
    """`none` when the branch compares no queries with keys pair by pair."""
    q_norm: QKNorm | Unknown
    k_norm: QKNorm | Unknown
    v_norm: bool | Unknown
    parallel_group: int | None
    """Same number in one kind = branches that read the same state and are added to it."""
    alpha: Scale
    """On the stream side."""
    branch: Scale
    """On the branch side (LayerScale, ReZero, a constant)."""
    gated_output: bool
    """A data-dependent gain after B ("B, gated") or on the branch output."""
    m: MapCount
    depends_on_stream: Tri
    normed_skip: bool
    """The C before it stands in the block's own beginning: y = N(x); x' = y + F(y)."""
    add: int
    """The residual add node."""
    output: int
    """The node added to the stream."""
    place: Place
    multiplies_stream: bool = False
    """It multiplies the stream itself by what it makes from it, x ⊙ F(A(x)): such branches do not add up like independent ones."""
    multiplies_norm: bool = False
    """The same of a norm of the stream, A(x) ⊙ F(A(x))."""
    adds_norm: float | None = 0.0
    """How many times A(x) itself is added beside what the branch computes of it, h + F(h) with h = A(x); None where that is no number."""
    norm_on_skip: bool = False
    """The C before it stands on the skip alone, and the branch, which ends in a norm, reads what is in front of it: x' = N(x) + B(F(x))."""
    norms_across: tuple[Norm, ...] = ()
    """Norms of queries or keys over another axis than the one that their product sums over: they bound entries, not what is compared."""


@dataclass(frozen=True)
class Kind:
    """Blocks of equal structure in one stream."""

    id: str
    """`k0`, `k1`, … in order of first appearance."""
    count: int
    layers: tuple[tuple[int, int], ...]
    """Inclusive ranges, from 0, in call order."""
    module: str
    """Path of the first block of the kind, with digits as they stand."""
    sublayers: tuple[Sublayer, ...]


@dataclass(frozen=True)
class IdentityPath:
    """Whether a path of adds and identity-like ops leads from the stream's start to its end."""

    exists: Tri
    gain: str | None
    """Product of the coefficients as text ("1", "0.81**24", "∏ alpha"), None when there is no path."""
    norms_crossed: int
    """Norms of kind C that every path must cross, over the whole depth."""
    breaks: tuple[Place, ...] = ()
    """What breaks it besides norms (an activation, a weighted op)."""


@dataclass(frozen=True)
class LongSkip:
    """An add of an earlier state of the same stream (U-Net, x0, DenseFormer)."""

    add: int
    source: int
    place: Place


@dataclass(frozen=True)
class TracedBlock:
    """A block that ran while the graph was recorded; of equal blocks some may stand for others that did not run."""

    kind: str
    branches: tuple[tuple[int, int], ...]
    """(add, output) of its residual branches, in order."""


@dataclass(frozen=True)
class Stream:
    """One residual stream."""

    name: str
    """`stream`, or by role where there are several: `encoder`, `decoder`, `stream1`, … never from the user's names."""
    role: str
    width: int | None
    depth: int
    """Number of blocks."""
    dtype: str
    embed_norm: Tri
    embed_scale: Tri
    final_norm: Tri
    identity: IdentityPath
    kinds: tuple[Kind, ...]
    long_skips: tuple[LongSkip, ...]
    states: tuple[int, ...]
    """Nodes of the stream from its source to its sink, in order."""
    end_norm: Norm | None = None
    """The last norm on the stream behind its last add: its final norm, or the C of its last sum."""
    pooled_norm: bool = False
    """Whether a norm stands behind the mean over places, in place of a final norm."""
    embed_factor: float | None = None
    """What the state that the first branch reads has been multiplied by, where it is a number."""
    copies: int = 1
    """Of an inner stream, in how many outer blocks it starts anew: `depth` and the counts of its kinds are those of all of them."""
    traced: tuple[TracedBlock, ...] = ()
    """The blocks that ran, in data-flow order."""
    cuts: tuple[Place, ...] = ()
    """Matrices that the stream itself passes in every block, on no residual branch: nothing of it is carried past them."""
    joins: tuple[Place, ...] = ()
    """Those of them that read an earlier state of it as well, `Linear(cat(skip, x))`."""


@dataclass(frozen=True)
class DoubledNorm:
    """Two norms in a row: the second changes nothing but a gain."""

    first: Norm
    second: Norm


@dataclass(frozen=True)
class HollowNorm:
    """Something that stands where a norm would and normalises nothing, with the reason."""

    reason: str
    place: Place
    for_input: bool = False
    """Only for an input as small as the one that was traced."""


@dataclass(frozen=True)
class UnmodelledOp:
    """An op without a row."""

    op: str
    count: int
    on_stream: bool
    """It lies on a stream path, so that a placement may be wrong for it."""
    place: Place
    """The first one."""


@dataclass(frozen=True)
class Coverage:
    """What was and what was not read."""

    ops: int
    modelled: int
    unmodelled: tuple[UnmodelledOp, ...]
