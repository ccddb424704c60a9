"""Fourier mixing of tokens and features (FNet): y = Re F x over n tokens and d features, not normalised.

With x_ja = c_a + e_ja (c common to the tokens, r = E c², δ = E e²) and phases 2π(kj/n + ab/d), for frequencies k ≠ 0 Σ_j cos = 0, so that c
falls out:

    E y_ka² = δ·Σ_jb cos² = n·d·δ/2        E y_ka y_k'a = 0 (k ≠ ± k')

and all of c goes to k = 0, one token of n, which is left out. Between n·d·δ/2 and n·d·δ stands what x has in common with its mirror image
x_{−j,−b}, since Re F of it keeps all of its square; states behind a Fourier branch are such. So the size is known up to a factor of two. It does
not count where a norm on the stream follows: n·d is in the thousands, x beside y is nothing, and x ← N(x + y) has tokens that are independent.
Elsewhere, and for gradients, the mirror would have to be followed: not told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from screen.calculi.meanfield.lower.axes import holds_features, is_features
from screen.calculi.meanfield.lower.experts import Routes
from screen.calculi.meanfield.transfer import Fourier
from screen.calculi.meanfield.values import Spectrum, Stop, Value
from screen.graph import Node

TRANSFORMS = {"fft_fftn": None, "fft_fft2": (-2, -1), "fft_fft": (-1,)}
"""Op -> axes where none are given."""
ZERO_FREQUENCY = "of a Fourier mixing, the one token that receives what all tokens have in common is left out"


@dataclass
class Spectra(Routes):
    """Reads discrete Fourier transforms."""

    def spectrum(self, node: Node) -> Spectrum:
        """One transform, of a real value or of another one along other axes."""
        before = self.table[node.inputs[0]]
        value, done = (before.value, before.axes) if isinstance(before, Spectrum) else (self.value(node.inputs[0]), frozenset[int]())
        norm = node.kwarg("norm", node.args[3] if len(node.args) > 3 else None)
        length = node.kwarg("n", node.kwarg("s", node.args[1] if len(node.args) > 1 else None))
        axes = node.kwarg("dim", node.args[2] if len(node.args) > 2 else TRANSFORMS[node.op])
        found = (axes,) if isinstance(axes, int) else axes if isinstance(axes, tuple) else ()
        more = frozenset(a % len(value.layout) for a in found if isinstance(a, int))
        if norm not in (None, "backward") or length is not None or not more or more & done:
            raise Stop(f"`{node.op}` with these settings has no row in the recursion", node.index)
        return Spectrum(value, done | more)

    def real_part(self, node: Node) -> Value:
        """Of a transform over tokens and features."""
        found = self.table[node.inputs[0]]
        assert isinstance(found, Spectrum)
        layout = found.value.layout
        over = {is_features(layout[a]) for a in found.axes}
        beside = any(holds_features(axis) for i, axis in enumerate(layout) if i not in found.axes)
        if self.linked:
            raise Stop("a Fourier mixing of the stream itself has no row in the recursion", node.index)
        if len(found.axes) != 2 or over != {True, False} or beside:
            raise Stop("a Fourier transform that is not over tokens and features has no row in the recursion", node.index)
        width = next(n for a in found.axes if is_features(layout[a]) for n, _ in layout[a])
        settled, slot = self.writer.settled(found.value), self.writer.slot()
        self.writer.steps.append(Fourier(settled.slot, slot, self.tokens * width / 2))
        self.assumptions.add(ZERO_FREQUENCY)
        return replace(settled, slot=slot, roots=frozenset({slot}), gaussian=False, whole=None)


__all__ = ["TRANSFORMS", "Spectra"]
