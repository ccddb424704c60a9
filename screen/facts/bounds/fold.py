"""A norm's gain and bias folded into the map that reads it (T5), as a part of a parameter that is computed first.

With y = x̂ ⊙ γ + β and x̂ = x̂ Π (Π = I − 11ᵀ/d where the norm centres, else I), W y + b = (W Γ Π) x̂ + (W β + b): the map of x̂ is the matrix
W Γ Π [out, in] and the constant is the vector W β + b [out]. ‖W Γ Π‖ ≤ max|γ|·‖W‖ and ‖W β + b‖ ≤ ‖W‖‖β‖ + ‖b‖, with room where gains have outliers
or where constants cancel. Both stand as a `Part` whose entries are those of the folded array, dense and row-major.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

    from screen.facts.bounds.expr import Expr
    from screen.facts.bounds.quantities import Names, Part


@dataclass(frozen=True)
class Fold:
    """What is computed from several parameters before a norm of it is taken."""

    matrix: Part
    """W: [out, in]."""
    gain: Part | None = None
    """γ: [in]; None for ones."""
    centred: bool = False
    shift: Part | None = None
    """β: [in]. With it the array is W β + b, else W Γ Π."""
    bias: Part | None = None
    """b: [out]."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters that it is made of."""
        return tuple(dict.fromkeys(p.parameter for p in (self.matrix, self.gain, self.shift, self.bias) if p is not None))

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


def matrix_of(matrix: Part, gain: Part | None, centred: bool) -> Part:
    """W Γ Π as a part."""
    return _dense(matrix, matrix.sizes, Fold(matrix, gain, centred))


def vector_of(matrix: Part, shift: Part, bias: Part | None) -> Part:
    """W β + b as a part."""
    return _dense(matrix, matrix.sizes[:1], Fold(matrix, shift=shift, bias=bias))


def _dense(matrix: Part, sizes: tuple[int, ...], fold: Fold) -> Part:
    return replace(matrix, whole=sizes, offset=0, sizes=sizes, strides=(sizes[1], 1) if len(sizes) == 2 else (1,), shift=0.0, fold=fold)


def unfolded(part: Part) -> Part:
    """The same entries of W itself; of a vector, the rows of W with their columns as a last axis."""
    fold = part.fold
    assert fold is not None
    down, across = fold.matrix.strides
    if fold.shift is not None:
        base = replace(fold.matrix, offset=fold.matrix.offset + part.offset * down, sizes=part.sizes, strides=tuple(s * down for s in part.strides))
        return replace(base, sizes=(*base.sizes, fold.matrix.sizes[1]), strides=(*base.strides, across))
    columns = fold.matrix.sizes[1]
    strides = tuple(s // columns * down if s % columns == 0 else s * across for s in part.strides)
    return replace(fold.matrix, offset=fold.matrix.offset + part.offset // columns * down + part.offset % columns * across, sizes=part.sizes,
                   strides=strides)


def plainly(part: Part, roles: str, names: Names) -> Expr:
    """An upper bound of a norm of a folded part in norms of the parameters by themselves."""
    from screen.facts.bounds.expr import ONE, add, mul, sym

    fold = part.fold
    assert fold is not None
    if fold.shift is None:
        gain = ONE if fold.gain is None else sym(names.symbol(fold.gain, "s"))
        return mul(gain, sym(names.symbol(unfolded(part), roles)))
    constant = mul(sym(names.symbol(fold.shift, "r")), sym(names.symbol(unfolded(part), roles + "c")))
    if fold.bias is None:
        return constant
    step = fold.bias.strides[0]
    bias = replace(fold.bias, offset=fold.bias.offset + part.offset * step, sizes=part.sizes, strides=tuple(s * step for s in part.strides))
    return add(constant, sym(names.symbol(bias, roles)))


__all__ = ["Fold", "matrix_of", "plainly", "unfolded", "vector_of"]
