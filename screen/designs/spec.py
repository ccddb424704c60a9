"""A design with nothing left open: plain data, from which a model can be built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Family = Literal["decoder", "encoder", "encoder_decoder", "vit"]
Stream = Literal["encoder", "decoder"]


class NotExpressible(ValueError):
    """These cells describe no model that this package can build; the text says which cell."""


@dataclass(frozen=True)
class Sublayer:
    """One branch of a block. `placement` is made of A (norm before F), B (after F), C (on the sum) and S (inside of F)."""

    role: str
    placement: str
    stream: Stream | None = None
    head_scale: bool = False
    qkv_norm: bool = False


@dataclass(frozen=True)
class Pattern:
    """What makes a stack more than one block repeated.

    `first_fraction`: the first `fraction` of the blocks has the placement `sublayers`; `first_block`: the first one has. `norm_scale`: the norm
    before F is divided by the root of the block's number. `two_streams`: one stream is normed after each sum, the other only adds.
    """

    kind: str
    rule: str = ""
    fraction: float = 0.0
    sublayers: str = ""


@dataclass(frozen=True)
class Residual:
    """x ← C(alpha·x + branch·B(F(A(x)))); with kind `learned`, `branch` is where a parameter starts."""

    kind: str = "none"
    alpha: float | Mapping[str, float] | None = None
    branch: float | None = None
    rule: str = ""

    def skip(self, stream: Stream | None) -> float:
        """The factor of the identity path in this stream."""
        alpha = self.alpha[stream or "decoder"] if isinstance(self.alpha, Mapping) else self.alpha
        return 1.0 if alpha is None else float(alpha)

    @property
    def start(self) -> float:
        """The factor of the branch, or what it starts from."""
        return 1.0 if self.branch is None else float(self.branch)


@dataclass(frozen=True)
class Design:
    """Sizes are counts of features, tokens, heads or blocks. An encoder-decoder has the two depths, every other family `depth`."""

    family: Family
    width: int
    heads: int
    head_dim: int
    kv_heads: int
    ffn_width: int
    vocab: int
    context: int
    sublayers: tuple[Sublayer, ...]
    norm_type: str
    depth: int = 0
    encoder_depth: int = 0
    decoder_depth: int = 0
    pattern: Pattern | None = None
    parallel: bool = False
    norm_affine: bool = True
    qk_norm: str = "none"
    qk_norm_type: str | None = None
    qk_norm_scale: bool = True
    v_norm: bool = False
    final_norm: bool = True
    embed_norm: bool = False
    embed_scale: float | None = None
    residual: Residual = Residual()
    attention_softmax: bool = True
    sigma_reparam: bool = False
    attention_logit_cap: float | None = None
    output_logit_cap: float | None = None
    activation: str = "gelu"
    tied_embeddings: bool = False
    position: str = "learned"
    biases: bool = False
    causal: bool = True

    def of(self, stream: Stream | None) -> tuple[Sublayer, ...]:
        """The sublayers of one block of this stream; of the only one for None."""
        return tuple(s for s in self.sublayers if stream is None or s.stream == stream)

    @property
    def blocks(self) -> int:
        """How many blocks there are in all."""
        return self.depth or self.encoder_depth + self.decoder_depth


@dataclass(frozen=True)
class Init:
    """How weights start. `std` or `std_rule` for all matrices, `gains` for some, `depth_scaled` for the output maps of the branches."""

    kind: str = "normal"
    std: float | None = None
    std_rule: str | None = None
    depth_scaled: bool = False
    depth_rule: str = ""
    gains: Mapping[str, Any] | None = None
    embedding_std: float | None = None


@dataclass(frozen=True)
class Spec:
    """A complete design. `filled` says of each cell that was empty where its value comes from: `assumed` or `general default`."""

    design: Design
    init: Init
    dtype: Literal["float32", "float16"]
    filled: Mapping[str, str]

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @staticmethod
    def of_plain(data: Mapping[str, Any]) -> Spec:
        """The spec that `plain` wrote."""
        design = dict(data["design"])
        design["sublayers"] = tuple(Sublayer(**s) for s in design["sublayers"])
        design["pattern"] = Pattern(**design["pattern"]) if design["pattern"] else None
        design["residual"] = Residual(**design["residual"])
        return Spec(Design(**design), Init(**data["init"]), data["dtype"], dict(data["filled"]))


def names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of one of the classes above."""
    return tuple(f.name for f in fields(kind))


__all__ = ["Design", "Family", "Init", "NotExpressible", "Pattern", "Residual", "Spec", "Stream", "Sublayer", "names"]
