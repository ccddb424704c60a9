"""The Hamiltonian of a branch that ends in a norm (K, theorem 2 and appendix F; review, item 20).

H(P) = sup over the outputs f of −Σ_j ⟨p_j, f_j⟩, with f_j = Γ N(z_j) + b, where N(z) runs over the unit sphere times √d (rms), that sphere cut with
{Σ_i z_i = 0} (layer; K forgets the cut), the unit sphere (l2). The support function of the sphere's image gives, with C = I (rms, l2) or
C = I − 11ᵀ/d (layer), and without the √d for l2,

    H(P) = Σ_j √d ‖C Γ p_j‖₂ − ⟨p_j, b⟩,      attained at  f_j = −√d Γ C Γ p_j / ‖C Γ p_j‖₂ + b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.value import Value
from screen.graph import Node, Ref
from screen.structure.dataflow import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy


@dataclass(frozen=True)
class Step:
    """One op after the norm: `gain` and `bias` by a parameter (plus a number: `1 + w`), `scale` by a number alone."""

    kind: str
    parameter: str
    number: float


@dataclass(frozen=True)
class HamiltonianForm:
    """H of the norm's image: an upper bound for the branch, see `conditions`."""

    kind: str
    """rms, layer or l2."""
    width: int
    gain: tuple[str, ...]
    """Names of the gains after the norm (several multiply)."""
    bias: tuple[str, ...]
    steps: tuple[Step, ...]
    """What stands between the norm and the output, in order."""
    text: str
    """SymPy text: p(j) is column j of P, Gamma the product of the gains, b the bias that reaches the output, C the centring."""
    maximiser: str
    attained: bool
    """ε = 0: the supremum is a maximum."""
    conditions: tuple[str, ...]

    def affine(self, weights: Mapping[str, numpy.ndarray]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """(Γ, b) as vectors."""
        import numpy as np

        gain, bias = np.ones(self.width), np.zeros(self.width)
        for step in self.steps:
            value = np.float64(0) if step.kind == "scale" else np.asarray(weights[step.parameter], dtype=np.float64).reshape(-1)
            if step.kind == "bias":
                bias = bias + value + step.number
            else:
                gain, bias = gain * (value + step.number), bias * (value + step.number)
        return gain, bias

    def evaluate(self, p: numpy.ndarray, weights: Mapping[str, numpy.ndarray]) -> float:
        """H(P), p: [tokens, width]; 0 for P = 0."""
        import numpy as np

        gain, bias = self.affine(weights)
        return float(self._radius * np.linalg.norm(self._centred(p * gain), axis=-1).sum() - (p @ bias).sum())

    def maximise(self, p: numpy.ndarray, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """The output that attains it (where C Γ p_j is not 0), [tokens, width]."""
        import numpy as np

        gain, bias = self.affine(weights)
        direction = self._centred(p * gain)
        found: numpy.ndarray = -self._radius * gain * direction / np.linalg.norm(direction, axis=-1, keepdims=True) + bias
        return found

    @property
    def _radius(self) -> float:
        return 1.0 if self.kind == "l2" else math.sqrt(self.width)

    def _centred(self, p: numpy.ndarray) -> numpy.ndarray:
        return p - p.mean(-1, keepdims=True) if self.kind == "layer" else p


_KINDS = {"layernorm": "layer", "rmsnorm": "rms", "l2": "l2"}


def hamiltonian(walk: Walk) -> HamiltonianForm | None:
    """The form of the branch's last norm; None when the branch does not end in one over exactly its features."""
    norm = walk.branch.exit.norm
    if norm is None or walk.branch.exit.normed is not True or norm.type not in _KINDS or len(norm.axes) != 1:
        return None
    output = walk.graph.nodes[walk.branch.output].shape or ()
    if norm.across or norm.size not in output:
        return None  # per head, or over tokens: not one sphere for each token
    steps = _steps(walk, walk.branch.output, norm.node)
    value = walk.table.get(norm.node)
    if steps is None or not isinstance(value, Value) or not value.after:
        return None
    kind = _KINDS[norm.type]
    radius = 1.0 if kind == "l2" else math.sqrt(norm.size)
    if walk.graph.nodes[norm.node].op in ("mul", "div") and abs(value.high - radius) > 1e-9 * radius:
        return None  # by hand, with a gain or a constant of its own inside
    root = "" if kind == "l2" else f"sqrt({norm.size})*"
    centre = "C*" if kind == "layer" else ""
    biased = any(s.kind == "bias" for s in steps)
    return HamiltonianForm(
        kind=kind, width=norm.size, gain=tuple(s.parameter for s in steps if s.kind == "gain"),
        bias=tuple(s.parameter for s in steps if s.kind == "bias"), steps=steps,
        text=f"Sum({root}Norm({centre}Gamma*p(j)){' - Inner(p(j), b)' if biased else ''}, (j, 1, n))",
        maximiser=f"-{root}Gamma*{centre}Gamma*p(j)/Norm({centre}Gamma*p(j)){' + b' if biased else ''}",
        attained=not norm.eps, conditions=_conditions(centre, bool(norm.eps)),
    )


def _conditions(centre: str, eps: bool) -> tuple[str, ...]:
    return (
        "an upper bound, with equality when the branch can give each token any direction (distinct tokens, a free map before the norm)",
        *(("a supremum that is not attained, since the norm's epsilon is positive",) if eps else ()),
        f"the maximiser is unique exactly when {centre}Gamma*p(j) is not 0 for any j",
    )


def _steps(walk: Walk, index: int, norm: int) -> tuple[Step, ...] | None:
    """Ops from the norm to a node, in order; None when one of them is no gain, bias or number."""
    steps: list[Step] = []
    while True:
        node = walk.graph.nodes[index]
        if index == norm:
            found = _fused(walk, node)
            return None if found is None else (*found, *reversed(steps))
        carried = [i for i in node.inputs if isinstance(v := walk.value(i), Value) and v.after]
        if len(carried) != 1:
            return None
        step = _step(walk, node, carried[0])
        if step is None and walk.flow.classes[index] != "view":
            return None
        steps.extend([step] if step is not None else [])
        index = carried[0]


def _step(walk: Walk, node: Node, carried: int) -> Step | None:
    """One op, as a step; None when it is none."""
    others = [a for a in node.args if not (isinstance(a, Ref) and a.node == carried)]
    if node.op not in ("mul", "div", "add", "neg") or len(others) > 1 or node.kwargs:
        return None
    if node.op == "neg":
        return Step("scale", "", -1.0)
    if isinstance(others[0], Ref):
        value = walk.one(others[0].node)
        if value.part is None or node.op == "div":
            return None
        return Step("bias" if node.op == "add" else "gain", value.part.parameter, value.part.shift)
    found = number(others[0])
    if found is None or node.op == "add" or not found:
        return None
    return Step("scale", "", found if node.op == "mul" else 1.0 / found)


def _fused(walk: Walk, node: Node) -> tuple[Step, ...] | None:
    """Weight and bias of a fused norm; none for a norm by hand."""
    call = walk.graph.nodes[node.inputs[0]] if node.op == "getitem" else node
    if call.op not in ("layer_norm", "rms_norm"):
        return () if call.op == "normalize" or len([i for i in node.inputs if walk.flow.data[i]]) == 2 else None
    steps = []
    for kind, position, name in (("gain", 2, "weight"), ("bias", 3, "bias")):
        if kind == "bias" and call.op == "rms_norm":
            continue
        value = walk.operand(call, position, name)
        if isinstance(value, Value):
            if value.part is None:
                return None
            steps.append(Step(kind, value.part.parameter, value.part.shift))
    return tuple(steps)
