"""From the nodes of a branch to its steps, by data flow: one method per class of op, and a reason wherever there is none.

Read upwards from the branch's output to the states of the stream; a norm is entered at its source (`Norm.source`), whatever it is made of.
Values with a common source of randomness may only meet where the result is known: entry-wise functions of one Gaussian value, and
rotations. Everything else between dependent values stops the reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from screen import ops
from screen.calculi.meanfield.lower.axes import holds_features, is_features
from screen.calculi.meanfield.lower.context import Read
from screen.calculi.meanfield.lower.fourier import TRANSFORMS, Spectra
from screen.calculi.meanfield.lower.other_streams import ARGUMENT
from screen.calculi.meanfield.lower.pointwise import Entries
from screen.calculi.meanfield.lower.views import Views
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.transfer import Normalise, Shift
from screen.calculi.meanfield.values import Spectrum, Stop, Value
from screen.graph import Node, Ref
from screen.structure.types import Norm, Unknown

NORMS = {"layernorm": True, "rmsnorm": False, "l2": False}
"""Type -> whether it centres; of those over features alone."""
OVER_TOKENS = frozenset({*NORMS, "batchnorm", "groupnorm"})
"""Types that are read where they run over tokens or samples too."""
EXCHANGED = "where a norm runs over tokens or samples, any two of them are taken to be as far apart as any other two"


class Reader(Views, Spectra, Entries):
    """Reads one branch of one graph, or a whole block."""

    end: Value
    """What it read in the end."""

    def program(self, output: int) -> Program | Unknown:
        """The steps that make `output`; `Unknown` with the first node that has none."""
        try:
            region = self._region(output)
            self.scores = self.scores_in(region)
            for index in region:
                found = self._read(self.graph.nodes[index])
                if found is not None:
                    self.table[index] = found
            self.end = self.writer.settled(self.value(output))
        except Stop as stop:
            return stop.unknown
        tokens = self.tokens if self.linked else 0
        return Program(tuple(self.writer.steps), self.writer.size, self.end.slot, tuple(self.writer.given), tokens)

    def _region(self, output: int) -> list[int]:
        """What the output is made of. What a weight that starts at zero multiplies is left out, unless that is all of the branch."""
        found = self._above(output, cut=True)
        return found if self.sources or any(n in self.leaves for n in found) else self._above(output, cut=False)

    def _above(self, output: int, *, cut: bool) -> list[int]:
        seen: set[int] = set()
        stack = [output]
        while stack:
            node = stack.pop()
            if node in seen or self.weights.is_trained(node) or (cut and self._is_nothing(node)):
                continue
            seen.add(node)
            if node in self.leaves or self.foreign.holds(node):
                continue
            if node in self.earlier:
                raise Stop("a block reads an earlier state of the stream than the one that its first branch reads", node)
            norm = self.norms.get(node)
            stack.extend((norm.source,) if norm is not None else self.graph.nodes[node].inputs)
        return sorted(seen)

    def _is_nothing(self, node: int) -> bool:
        return self.graph.nodes[node].op == "mul" and self.weights.constant(node) == 0.0

    # -- one node ----------------------------------------------------------------------------------------------------------------------

    def _read(self, node: Node) -> Read | None:
        """The value of a node; None for one that does not depend on the stream."""
        if node.index in self.leaves:
            return Value(0, self.leaves[node.index], frozenset({0}), self.gaussian)
        begun = (self._begins(node) if self.sources else None) or self.beyond(node)
        if begun is not None:
            return begun
        norm = self.norms.get(node.index)
        if norm is not None:
            return self._norm(node, norm)
        data = [i for i in dict.fromkeys(node.inputs) if i in self.table]
        if not data:
            return None
        if self.is_route(node):
            return self.route(node)
        kind = ops.CLASSES.get(node.op, node.op)
        if node.op in TRANSFORMS:
            return self.spectrum(node)
        if node.op == "real" and isinstance(self.table[node.inputs[0]], Spectrum):
            return self.real_part(node)
        if (made := self.paired(node) or self.beside_keys(node)) is not None:
            return made
        if node.op == "scaled_dot_product_attention":
            return self.fused(node)
        if node.op == "alias" and len(set(node.inputs)) > 1:
            raise Stop("a value is overwritten in part", node.index)
        if kind == "factory":
            return None
        if node.op == "copy" and len(node.inputs) == 2 and node.shape == self.graph.nodes[node.inputs[1]].shape:
            return self.table.get(node.inputs[1])  # `x.copy_(y)` is y
        method = self._by_class().get(kind)
        if method is None:
            raise Stop(f"`{node.op}` has no row in the recursion", node.index)
        return method(node)

    def _by_class(self) -> dict[str, Callable[[Node], Read | None]]:
        return {
            "view": self.view, "alias": self.view, "part": self.part, "join": self.join, "weighted": self.weighted, "product": self.product,
            "softmax": self.softmax, "activation": self.activation, "linear": self.linear, "statistic": self.statistic,
        }  # fmt: skip

    def _begins(self, node: Node) -> Value | None:
        """Where values come from: rows of a table, or a float argument."""
        shape = node.shape or ()
        if node.op == "embedding":
            table = [i for i in node.inputs if self.weights.is_trained(i)]
            if len(table) == 1:
                square = self.square(table[0], row=isinstance(node.kwarg("padding_idx"), int))
                return self.begin(node, square, same=self.same_row(table[0], [i for i in node.inputs if i != table[0]]))
        if node.op in ("conv1d", "conv2d", "conv3d") and (patches := self._patches(node)) is not None:
            return patches
        if node.op == "input" and (node.dtype or "").startswith(("float", "bfloat")) and len(shape) > 1:
            self.assumptions.add(ARGUMENT)
            return self.begin(node, 1.0)
        return None

    def _patches(self, node: Node) -> Value | None:
        """A convolution of a float argument into patches: σ²·(entries of a patch)."""
        source, weight = node.inputs[0], node.inputs[1]
        if source not in self.table or not self._is_argument(source):
            return None
        patch = math.prod((self.graph.nodes[weight].shape or (1, 1))[1:])
        bias = self.bias(node.inputs[2]) if len(node.inputs) > 2 else 0.0
        found = self.begin(node, self.square(weight) * patch, axis=1)
        if bias:
            slot = self.writer.slot()
            self.writer.steps.append(Shift(found.slot, slot, bias, 0.0))
            found = replace(found, slot=slot)
        return found

    def _is_argument(self, node: int) -> bool:
        """Whether a value is an argument of forward, moved at most."""
        while ops.CLASSES.get(self.graph.nodes[node].op) in ("view", "part", "alias") and len(set(self.graph.nodes[node].inputs)) == 1:
            node = self.graph.nodes[node].inputs[0]
        return self.graph.nodes[node].op == "input"

    def _norm(self, node: Node, norm: Norm) -> Value:
        source = self.value(norm.source)
        plain = norm.type in NORMS and norm.axes == (-1,) and is_features(source.layout[-1])
        ran = (math.inf, 1.0) if plain else self._statistic(node, norm, source)
        value, slot = self.writer.settled(source), self.writer.slot()
        gain = 1.0
        for key in ("weight", "bias"):
            operand = node.kwarg(key)
            if isinstance(operand, Ref):
                square = self.square(operand.node)
                if key == "bias" and square:
                    raise Stop("a norm's bias does not start at zero", node.index)
                gain = square if key == "weight" else gain
        gain /= norm.size if norm.type == "l2" else 1
        self.writer.steps.append(Normalise(value.slot, slot, norm.centred, norm.eps or 0.0, gain, *ran))
        return replace(value, slot=slot, turn=None, whole=None)

    def _statistic(self, node: Node, norm: Norm, source: Value) -> tuple[float, float]:
        """Over how many features and tokens one statistic of a norm runs, samples counted as tokens."""
        axes = [source.layout[a] for a in norm.axes]
        tokens = math.prod(size for axis in axes for size, label in axis if label == "t")
        known = (norm.type in OVER_TOKENS or node.op == "instance_norm") and all(is_features(a) or not holds_features(a) for a in axes)
        if not known or source.common or any(label == "c" for axis in axes for _, label in axis) or norm.size % tokens:
            raise Stop(f"a norm of type `{norm.type}` over axes {norm.axes} has no row in the recursion", node.index)
        self.assumptions.add(EXCHANGED)
        return norm.size / tokens, float(tokens)


__all__ = ["Reader"]
