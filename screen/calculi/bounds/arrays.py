"""Weights that are computed from several parameters, as parts whose entries are those of the array that is computed.

**A norm's gain and bias folded into the map that reads it (T5).**

With y = x̂ ⊙ γ + β and x̂ = x̂ Π (Π = I − 11ᵀ/d where the norm centres, else I), W y + b = (W Γ Π) x̂ + (W β + b): the map of x̂ is the matrix
W Γ Π [out, in] and the constant is the vector W β + b [out]. ‖W Γ Π‖ ≤ max|γ|·‖W‖ and ‖W β + b‖ ≤ ‖W‖‖β‖ + ‖b‖, with room where gains have outliers
or where constants cancel. Both stand as a `Part` whose entries are those of the folded array, dense and row-major.

**A weight divided by its own rows' norms and scaled by g** (weight norm): rows g_i v_i/‖v_i‖; the spectral norm is at most ‖g‖₂, whatever v is.

**A weight divided by a size of itself**, and times a trained number γ (spectral norm, σReparam). By its spectral norm: ‖γW/‖W‖₂‖ = |γ|, and by its
Frobenius norm at most that. By uᵀWv: for unit u and v its spectral norm is ‖W‖/|uᵀWv| ≥ 1, and equal to 1 only where u and v are the
leading singular vectors, that is after the power iteration has converged for this W. The quantity is measured as it is; that it stays bounded
over all W is the condition "converged", and is reported as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from screen.calculi.bounds.expr import ONE, Expr, add, mul, num, sym
from screen.calculi.bounds.parts import Made, Part, Symbols, dense, said

if TYPE_CHECKING:
    import numpy



@dataclass(frozen=True)
class Fold(Made):
    """W Γ Π or W β + b."""

    gain: Part | None = None
    """γ: [in]; None for ones."""
    centred: bool = False
    shift: Part | None = None
    """β: [in]. With it the array is W β + b, else W Γ Π."""
    bias: Part | None = None
    """b: [out]."""

    letter = "n"

    @property
    def told(self) -> str:
        """W Γ Π or W β + b."""
        if self.shift is not None:
            added = "" if self.bias is None else f" + {self.bias.parameter}"
            return f"· ({said(self.shift)}){added}" if self.shift.fold is not None else f"· {self.shift.parameter}{added}"
        gain = "" if self.gain is None else f" · diag({self.gain.parameter}{f' + {self.gain.shift:g}' if self.gain.shift else ''})"
        return f"{gain}{', without its mean over the inputs' if self.centred else ''}".strip(" ")

    def unfolded(self, part: Part) -> Part:
        """The same entries of W itself."""
        return unfolded(part)

    @property
    def parts(self) -> tuple[Part, ...]:
        """W, γ, β, b: those that there are."""
        return tuple(p for p in (self.matrix, self.gain, self.shift, self.bias) if p is not None)

    def array(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """W Γ Π or W β + b."""
        w = self.matrix.read(weights)
        if self.shift is not None:
            made: numpy.ndarray = w @ self.shift.read(weights)
            return made if self.bias is None else made + self.bias.read(weights)
        w = w if self.gain is None else w * self.gain.read(weights)
        centred: numpy.ndarray = w - w.mean(1, keepdims=True)
        return centred if self.centred else w

    def slack(self, weights: Mapping[str, numpy.ndarray]) -> float:
        """Rounding of `array`, far from 0: 1e-13 of the sizes that went in."""
        import numpy as np

        size = float(np.linalg.norm(self.matrix.read(weights)))
        for side in (self.gain, self.shift):
            size *= 1.0 if side is None else float(np.linalg.norm(side.read(weights)))
        return 1e-13 * (size + (float(np.linalg.norm(self.bias.read(weights))) if self.bias is not None else 0.0))

    def plainly(self, part: Part, roles: str, names: Symbols) -> Expr:
        """max|γ|·‖W‖, or ‖W‖‖β‖ + ‖b‖."""
        if self.shift is None:
            gain = ONE if self.gain is None else sym(names.symbol(self.gain, "s"))
            return mul(gain, sym(names.symbol(unfolded(part), roles)))
        constant = mul(sym(names.symbol(self.shift, "r")), sym(names.symbol(unfolded(part), roles + "c")))
        if self.bias is None:
            return constant
        step = self.bias.strides[0]
        bias = replace(self.bias, offset=self.bias.offset + part.offset * step, sizes=part.sizes, strides=tuple(s * step for s in part.strides))
        return add(constant, sym(names.symbol(bias, roles)))


@dataclass(frozen=True)
class Rows(Made):
    """g_i v_i/‖v_i‖, the norm over all axes but the first."""

    gains: Part
    """g: [out], or with axes of size 1 after it. Free, as any matrix is one with such rows."""

    letter = "u"
    told = "· v/‖v‖ by rows"

    @property
    def parts(self) -> tuple[Part, ...]:
        """v and g."""
        return (self.matrix, self.gains)

    def array(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Rows of length |g_i|."""
        import numpy as np

        v = self.matrix.read(weights)
        flat = v.reshape(len(v), -1)
        made: numpy.ndarray = flat / np.linalg.norm(flat, axis=1, keepdims=True) * self.gains.read(weights).reshape(-1, 1)
        return made.reshape(v.shape)

    def plainly(self, part: Part, roles: str, names: Symbols) -> Expr:
        """‖g‖₂ bounds the Frobenius norm, and that every other one; √a times it an ℓ1 norm of a entries, t times it a sum over t taps."""
        counts = {role: math.prod(n for n, r in zip(part.sizes, roles, strict=True) if r == role) for role in "at"}
        return mul(num(math.sqrt(counts["a"]) * counts["t"]), sym(names.symbol(self.gains, "r" * len(self.gains.sizes))))


@dataclass(frozen=True)
class Share(Made):
    """γW/σ: σ = uᵀWv, or the spectral norm of W, or its Frobenius norm."""

    left: Part | None = None
    """u; without it σ is the norm itself."""
    right: Part | None = None
    gain: Part | None = None
    """γ, a number; None for 1."""
    frobenius: bool = False

    letter = "u"

    @property
    def fixed(self) -> str:  # type: ignore[override]
        """Why its norms stay bounded over all weights; with a gain they do not."""
        if self.gain is not None:
            return ""
        if self.left is None:
            return "a weight that is divided by its norm"
        return "uᵀWv, which divides it, is its spectral norm: the power iteration has converged"

    @property
    def proven(self) -> bool:  # type: ignore[override]
        """For the norm itself there is nothing to converge; with a gain nothing is said."""
        return self.left is None or self.gain is not None

    @property
    def told(self) -> str:
        """What stands behind the name of W."""
        size = "uᵀWv" if self.left is not None else "its Frobenius norm" if self.frobenius else "its spectral norm"
        return f"/({size})" + ("" if self.gain is None else f" · {self.gain.parameter}")

    @property
    def parts(self) -> tuple[Part, ...]:
        """W, u, v, γ: those that there are."""
        return tuple(p for p in (self.matrix, self.left, self.right, self.gain) if p is not None)

    def array(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Its value, infinite where σ is 0."""
        import numpy as np

        w = self.matrix.read(weights)
        flat = w.reshape(len(w), -1)
        if self.left is None or self.right is None:
            size = float(np.linalg.norm(flat) if self.frobenius else np.linalg.norm(flat, 2))
        else:
            size = float(self.left.read(weights) @ (flat @ self.right.read(weights)))
        gain = 1.0 if self.gain is None else float(self.gain.read(weights))
        with np.errstate(divide="ignore", invalid="ignore"):
            made: numpy.ndarray = np.float64(gain) * w / np.float64(size)
        return np.where(np.isfinite(made), made, np.inf)

    def plainly(self, part: Part, roles: str, names: Symbols) -> Expr | None:
        """|γ| times the same norm of W/σ; W/‖W‖ by what no part of it exceeds: each matrix and row 1, h of them √h, a entries √a
        in ℓ1, t taps t; ‖W‖_F is at most √rank. uᵀWv can be as small as it likes."""
        gain = ONE if self.gain is None else sym(names.symbol(self.gain, ""))
        if self.left is not None:
            if self.gain is None:
                return None
            return mul(gain, sym(names.symbol(replace(part, fold=replace(self, gain=None)), roles)))
        counts = {role: math.prod(n for n, r in zip(part.sizes, roles, strict=True) if r == role) for role in "hatr"}
        if self.frobenius:
            return mul(gain, num(math.sqrt(counts["a"] * counts["t"])))
        columns = math.prod(self.matrix.sizes[1:])
        row = counts["r"] == columns and "s" in roles and part.offset % columns == 0
        rank = 1 if row or "c" in roles or "r" not in roles else min(self.matrix.sizes[0], columns)
        return mul(gain, num(math.sqrt(counts["h"] * counts["a"] * rank) * counts["t"]))


def matrix_of(matrix: Part, gain: Part | None, centred: bool) -> Part:
    """W Γ Π as a part."""
    return dense(matrix, matrix.sizes, Fold(matrix, gain, centred))


def vector_of(matrix: Part, shift: Part, bias: Part | None) -> Part:
    """W β + b as a part."""
    return dense(matrix, matrix.sizes[:1], Fold(matrix, shift=shift, bias=bias))


def rows_of(v: Part, gains: Part) -> Part:
    """g v/‖v‖ as a part of g."""
    return replace(dense(v, v.sizes, Rows(v, gains)), parameter=gains.parameter)


def share_of(matrix: Part, left: Part | None, right: Part | None, gain: Part | None = None, frobenius: bool = False) -> Part:
    """γW/σ as a part of W."""
    return dense(matrix, matrix.sizes, Share(matrix, left, right, gain, frobenius))


def unfolded(part: Part) -> Part:
    """The same entries of W itself; of a vector, the rows of W with their columns as a last axis."""
    fold = part.fold
    assert isinstance(fold, Fold)
    down, across = fold.matrix.strides
    if fold.shift is not None:
        base = replace(fold.matrix, offset=fold.matrix.offset + part.offset * down, sizes=part.sizes, strides=tuple(s * down for s in part.strides))
        return replace(base, sizes=(*base.sizes, fold.matrix.sizes[1]), strides=(*base.strides, across))
    columns = fold.matrix.sizes[1]
    strides = tuple(s // columns * down if s % columns == 0 else s * across for s in part.strides)
    return replace(fold.matrix, offset=fold.matrix.offset + part.offset // columns * down + part.offset % columns * across, sizes=part.sizes,
                   strides=strides)


__all__ = ["Fold", "Rows", "Share", "matrix_of", "rows_of", "share_of", "unfolded", "vector_of"]
