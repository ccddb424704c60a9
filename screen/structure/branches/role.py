"""What a branch computes: its role, by the ops on its way."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

from screen.graph import Node, numel
from screen.structure.branches.attention import Attention
from screen.structure.branches.branch import Branch
from screen.structure.branches.compared import multiplied
from screen.structure.branches.weight_maps import Maps
from screen.structure.branches.weights import is_depthwise, slices_of, weights_of
from screen.structure.dataflow import axes_of, mask_of, strip
from screen.structure.types import MapCount, Role


_CHOICES = ("topk", "argmax", "sort", "argsort")


@dataclass(frozen=True)
class Mixer:
    """Reads the role of one branch."""

    branch: Branch

    @cached_property
    def attention(self) -> Attention:
        """Its attention, if it has one."""
        return Attention(self.branch)

    @cached_property
    def _slices(self) -> int:
        return slices_of(self.branch)

    @cached_property
    def weights(self) -> list[int]:
        """Its weighted ops."""
        return weights_of(self.branch)

    @cached_property
    def map_counter(self) -> Maps:
        """What counts and splits its weights."""
        return Maps(self.branch, self.attention, self.role)

    @property
    def maps(self) -> MapCount:
        """Its logical weight maps."""
        return self.map_counter.count

    @cached_property
    def ops(self) -> frozenset[str]:
        """Op names of the branch."""
        return frozenset(self.branch.flow.graph.nodes[i].op for i in self.branch.region)

    @cached_property
    def role(self) -> Role:
        """What kind of map the branch is."""
        if any(c.inner and c.adds[-1] in self.branch.members for c in self.branch.chains.streams):
            return "other"
        if self.attention.cores:
            return "cross_attention" if self.attention.reads_memory() else "attention"
        filtered = self._filters_frequencies
        if not filtered and any(op.startswith("fft") or op in ("stft", "istft", "rfft", "irfft") for op in self.ops):
            if len(self.weights) >= 3 and any(self.branch.flow.classes[i] == "softmax" for i in self.branch.region):
                return "cross_attention" if any("memory" in w for e in self.branch.entries for w in e.ways) else "attention"  # auto-correlation
            return "fourier"
        if "grid_sample" in self.ops and any(self.branch.flow.classes[i] == "softmax" for i in self.branch.region):  # deformable attention
            return "cross_attention" if self._samples_memory() else "attention"
        if self._is_state_space():
            return "ssm" if self._has_steps() or not self._products() else "linear_attention"
        if self._scanned and not any(self.branch.flow.data[i] for i in self._scanned):
            return "ssm"  # s ← A s + B u with one A for all tokens
        if self._is_recurrent():
            return "rnn"
        if self._products() and self._joins_pairs():
            return "other"
        if self._products() and not self._dispatches():
            return "attention" if self._is_predicted() else "linear_attention"
        if self._products() or self._chooses():
            return "moe"
        if filtered or self._has_conv():
            return "conv"
        if self._routes():
            return "moe"
        if any(op.startswith(("avg_pool", "max_pool", "adaptive_")) for op in self.ops) and not self.weights:
            return "pooling"
        return "linear_attention" if self._sums_weighed_tokens() else self._feed_forward()

    @property
    def _filters_frequencies(self) -> bool:
        """A transform of the data is multiplied by what weights alone make, and transformed back: a filter over all places, however long."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        forth = mask_of(i for i in self.branch.region if nodes[i].op.startswith(("fft_fft", "fft_rfft")) and flow.data[i])
        for index in (i for i in self.branch.region if nodes[i].op.startswith(("fft_ifft", "fft_irfft")) and forth):
            product = nodes[self._behind_views(nodes[index].inputs[0])]
            own = [i for i in dict.fromkeys(product.inputs) if flow.data[i]]
            if product.op == "mul" and len(own) == 1 and flow.ancestors[product.index] & forth and any(map(flow.trained.__getitem__, product.inputs)):
                return True
        return False

    def _is_predicted(self) -> bool:
        """Whether its one product weighs values by a softmax of what a map makes of each place (outlook attention, a dense synthesizer)."""
        flow = self.branch.flow
        products = sorted(flow.products.intersection(self.branch.region))
        softmaxes = [i for i in self.branch.region if flow.classes[i] == "softmax" and flow.data[i]]
        return len(products) == 1 and any(self._reads(products[0], i) and self.attention.weighs(i) is not None for i in softmaxes)

    def _reads(self, node: int, softmax: int) -> bool:
        """Whether an operand of a product is what a softmax gives, rearranged at most."""
        nodes, above = self.branch.flow.graph.nodes, list(self.branch.flow.graph.nodes[node].inputs)
        return any(self._behind_views(i) == softmax for i in above if nodes[i].shape is not None)

    def _sums_weighed_tokens(self) -> bool:
        """Maps of all tokens are weighed by numbers that a softmax or a norm over them makes and summed, and the sum multiplies a map of each
        (additive attention: Fastformer, MobileViTv2, SwiftFormer). A softmax over one entry weighs them alike."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        mine = mask_of(i for i in self.branch.region if flow.key[i])
        found = [i for i in self.branch.region if flow.classes[i] == "softmax"]
        softmaxes = {i: axes_of(flow.operand(nodes[i], 1, "dim"), len(nodes[i].shape or ())) for i in found}
        softmaxes.update({i: norm.axes for i in self.branch.region if (norm := self.branch.norms.by_node.get(i)) is not None})
        for index in self.branch.region if softmaxes else ():
            node = nodes[index]
            if node.op not in ("sum", "mean") or not node.inputs:
                continue
            source = node.inputs[0]
            product = nodes[self._behind_views(source)]
            axes = axes_of(flow.operand(node, 1, "dim"), len(nodes[source].shape or ()))
            over = mask_of(i for i, a in softmaxes.items() if a == axes or all((nodes[i].shape or (0,))[x] == 1 for x in a))
            values = [i for i in dict.fromkeys(product.inputs) if flow.data[i] and flow.keys[i] & mine]
            weighed = [bool((flow.ancestors[i] | 1 << i) & over) for i in values]
            if product.op != "mul" or weighed.count(True) != 1 or len(values) != 2:
                continue
            if self.branch.norms.features.spans_others(source, axes) and any(self._multiplies(index, n) for n in self.branch.region if n > index):
                return True
        return False

    def _multiplies(self, pooled: int, node: int) -> bool:
        """Whether a product, entry by entry, has one operand that is made of a value and one of data that is not."""
        flow, here = self.branch.flow, self.branch.flow.graph.nodes[node]
        data = [i for i in dict.fromkeys(here.inputs) if flow.data[i]]
        return here.op == "mul" and len(data) == 2 and [i == pooled or flow.depends(i, pooled) for i in data].count(True) == 1

    def _samples_memory(self) -> bool:
        """Whether a deformable attention takes its samples from another stream than that which says where."""
        nodes = self.branch.flow.graph.nodes
        return any(self.attention.from_memory(nodes[i].inputs[0]) for i in self.branch.region if nodes[i].op == "grid_sample")

    def _feed_forward(self) -> Role:
        if self._sums_over_given_places():
            return "other"
        if self._is_gated():
            return "gated_ffn"
        return "ffn" if len(self.weights) >= 2 and self._has_activation() else "other"

    def _sums_over_given_places(self) -> bool:
        """Maps of the data are added up where integers that came with it say (messages over the edges of a graph): no map of each token by itself."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        sums = (nodes[i] for i in self.branch.region if nodes[i].op in ("scatter_add", "index_add", "scatter_reduce", "index_reduce"))
        mine = mask_of(i for i in self.branch.region if flow.key[i])
        for node in sums:
            places = [i for i in node.inputs if flow.from_input[i] and not flow.is_float(nodes[i]) and not flow.learned[i]]
            if places and any(flow.keys[i] & mine for i in node.inputs):
                return True
        return False

    def _is_recurrent(self) -> bool:
        return bool(self.ops & {"lstm", "gru", "lstm_cell", "gru_cell", "mkldnn_rnn_layer", "rnn_tanh", "rnn_relu", "_thnn_fused_lstm_cell"}) or (
            self._carries_state() or bool(self._scanned)
        )

    def _is_state_space(self) -> bool:
        """A decay exp(·) of data that multiplies, with a scan: a sum over tokens by cumsum, or a loop that carries a state."""
        flow = self.branch.flow
        decays = [i for i in self.branch.region if flow.graph.nodes[i].op in ("exp", "exp2", "softplus", "logsigmoid") and flow.data[i]]
        if not decays:
            return False
        scans = {"cumsum", "logcumsumexp", "cumprod", "segment_sum"} & self.ops
        return bool(scans) or self._carries_state() or bool(self._scanned)

    @cached_property
    def _scanned(self) -> list[int]:
        """What a state is multiplied by in a scan in parallel over tokens, `s[1::2] + a * s[0::2]`, three times or more in turn."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        steps: dict[int, int] = {}
        factors: list[int] = []
        for index in self.branch.region:
            pairs = (nodes[index].inputs, nodes[index].inputs[::-1]) if nodes[index].op == "add" and len(nodes[index].inputs) == 2 else ()
            found = [a for part, product in pairs if (a := self._carries_part(part, nodes[strip(flow, product)])) is not None]
            factors += found
            steps[index] = max((steps.get(i, 0) for i in nodes[index].inputs), default=0) + bool(found)
        return factors if max(steps.values(), default=0) >= 3 else []

    def _carries_part(self, part: int, product: Node) -> int | None:
        """The other factor of a product of one part of a value's tokens, where another part of the same value is `part`."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        if product.op != "mul" or len(product.inputs) != 2 or flow.classes[part] != "part":
            return None
        whole = nodes[nodes[part].inputs[0]]
        shapes = whole.shape or (), nodes[part].shape or ()
        axes = tuple(i - len(shapes[0]) for i, (a, b) in enumerate(zip(*shapes, strict=False)) if a != b)
        for a, other in (product.inputs, product.inputs[::-1]):
            apart = flow.classes[other] == "part" and nodes[other].inputs[:1] == (whole.index,) and nodes[other].args != nodes[part].args
            if apart and len(shapes[0]) == len(shapes[1]) and len(axes) == 1 and self.branch.norms.features.spans_others(whole.index, axes):
                return a
        return None

    def _has_steps(self) -> bool:
        """A step Δ of the data that sets a decay, softplus(·) or what a trained A multiplies in exp(Δ·A), multiplies the input as well (a discretised
        state space). Where the decay alone forgets, beside products of two maps of the data, it is a gated linear attention."""
        flow, members = self.branch.flow, self.branch.members
        steps = {i for i in self.branch.region if flow.graph.nodes[i].op == "softplus" and flow.data[i]}
        products = [n for i in self.branch.region if (n := flow.graph.nodes[i]).op == "mul" and len(n.inputs) == 2]
        pairs = [(step, other) for n in products for step, other in (n.inputs, n.inputs[::-1]) if flow.data[other] and other in members]
        if any(self._behind_views(step) in steps for step, _ in pairs):
            return True
        bare = self._bare_steps()
        return any(self._viewed(step) in bare and self._viewed(other) not in bare for step, other in pairs)

    def _bare_steps(self) -> set[int]:
        """Values of the data that a weight multiplies in the exponent of a decay, exp(−Δ·A)."""
        flow, found = self.branch.flow, set[int]()
        for index in self.branch.region:
            here = flow.graph.nodes[index]
            if here.op not in ("exp", "exp2") or not here.inputs:
                continue
            made = flow.graph.nodes[self._viewed(here.inputs[0])]
            while made.op in ("neg", "mul", "div") and len(made.inputs) == 1:
                made = flow.graph.nodes[self._viewed(made.inputs[0])]
            pairs = [made.inputs, made.inputs[::-1]] if made.op == "mul" and len(made.inputs) == 2 else []
            found.update(self._viewed(step) for step, weight in pairs if flow.data[step] and flow.trained[weight])
        return found

    def _viewed(self, node: int) -> int:
        """The value behind views and copies, of all its entries."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        while flow.classes[node] in ("view", "alias", "part") and nodes[node].inputs:
            below = nodes[nodes[node].inputs[0]]
            if flow.classes[node] == "part" and (below.shape is None or numel(below.shape) != numel(nodes[node].shape or ())):
                break
            node = below.index
        return node

    def _behind_views(self, node: int) -> int:
        """The value behind views, parts and clamps."""
        flow = self.branch.flow
        while (flow.classes[node] in ("view", "part", "alias") or flow.graph.nodes[node].op == "clamp") and flow.graph.nodes[node].inputs:
            node = flow.graph.nodes[node].inputs[0]
        return node

    def _carries_state(self) -> bool:
        """A chain of adds of data, each on a product with the one before: s ← a·s + b, with b of this branch (what earlier ones added, carried on
        with a part of it, is a momentum over depth)."""
        flow, members = self.branch.flow, self.branch.members
        depth: dict[int, int] = {}
        for index in self.branch.region:
            node = flow.graph.nodes[index]
            if node.op == "add" and sum(flow.data[i] for i in node.inputs) > 1:  # a trained shift behind a trained scale carries nothing on
                products = [i for i in node.inputs if flow.graph.nodes[strip(flow, i)].op == "mul"]
                own = members.issuperset(node.inputs) or "earlier" not in map(self.branch.border, node.inputs)
                depth[index] = max((depth.get(i, 0) + own for i in products), default=0)
            else:
                depth[index] = max((depth.get(i, 0) for i in node.inputs), default=0)
        return max(depth.values(), default=0) >= 8

    def _products(self) -> bool:
        flow = self.branch.flow
        found = flow.products.intersection(self.branch.region)
        return any(not (self._is_of_each_token(i) or self._is_over_edges(i)) for i in found - self.attention.over_states)

    def _is_over_edges(self, product: int) -> bool:
        """Whether tokens are summed by an argument of forward that nothing maps: the adjacency of a graph."""
        flow, features = self.branch.flow, self.branch.norms.features
        if (pair := multiplied(flow, flow.graph.nodes[product])) is None:
            return False
        data, axes = pair
        given = [not flow.keys[i] and not self.branch.is_fed(i) for i in data]
        return any(one and features.spans_others(other, (axis,)) for one, other, axis in zip(given, data[::-1], axes[::-1], strict=True))

    def _is_of_each_token(self, product: int) -> bool:
        """Whether a product of two values is one of the features of each token alone: outputs of experts by their shares, tokens times a matrix made
        of another argument by a map (a hypernetwork)."""
        flow, features = self.branch.flow, self.branch.norms.features
        if all(features.holds(i, (-2, -1)) for i in flow.graph.nodes[product].inputs if flow.data[i]):
            return True
        if (pair := multiplied(flow, flow.graph.nodes[product])) is None:
            return False
        (tokens, matrix), axes = pair
        return features.holds(tokens, axes[:1]) and features.holds(matrix, (-2, -1)) and not self.branch.is_fed(matrix)

    def _joins_pairs(self) -> bool:
        """Whether all products are of pairs of tokens, z_ik·z_jk summed over the tokens k and of each feature by itself (a triangular update):
        nothing compares features, and no tokens are weighed."""
        flow, spans = self.branch.flow, self.branch.norms.features.spans_others
        found = [multiplied(flow, flow.graph.nodes[i]) for i in flow.products.intersection(self.branch.region)]
        operands = [(value, axis) for pair in found if pair is not None for value, axis in zip(*pair, strict=True)]
        return None not in found and all(spans(value, (axis,)) and spans(value, (-3 - axis,)) for value, axis in operands)

    def _dispatches(self) -> bool:
        """Tokens are handed to experts by a product and collected by another: a choice made one value of each product, or between the two stand a
        weighted map and its activation, which no attention without softmax has there."""
        flow = self.branch.flow
        products = sorted(flow.products.intersection(self.branch.region))
        pairs = [[i for i in flow.graph.nodes[n].inputs if flow.data[i]] for n in products]
        chosen = mask_of(i for i in self.branch.region if flow.graph.nodes[i].op in _CHOICES)
        if chosen and all(any((flow.ancestors[i] | 1 << i) & chosen for i in pair) for pair in pairs):
            return True
        reached = mask_of(n for n, pair in zip(products, pairs, strict=True) if len(pair) > 1)
        if not self._holds_experts(reached):
            return False
        for kind in ("weighted", "activation"):
            found = [i for i in self.branch.region if (flow.weighted[i] if kind == "weighted" else flow.classes[i] == kind)]
            reached = mask_of(i for i in found if flow.ancestors[i] & reached)
        return any(len(pair) > 1 and any(flow.ancestors[i] & reached for i in pair) for pair in pairs)

    def _holds_experts(self, products: int) -> bool:
        """Whether maps behind some products are of more than one expert: a weight with an axis of experts, one that a choice takes, or two maps of
        one size, neither made of the other, of different values. One map of all slots is none."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        maps = [i for i in self.branch.region if flow.weighted[i] and flow.ancestors[i] & products]
        shapes = {i: [nodes[j].shape or () for j in nodes[i].inputs if flow.trained[j] or flow.is_chosen_weight(j)] for i in maps}
        if any(len(shape) > 2 for i in maps if not nodes[i].op.startswith("conv") for shape in shapes[i]):
            return True
        return any(
            nodes[a].op == nodes[b].op and shapes[a] == shapes[b] and nodes[a].inputs[0] != nodes[b].inputs[0] and not flow.depends(b, a)
            for a, b in itertools.combinations(maps, 2)
        )

    def _has_conv(self) -> bool:
        found = [i for i in self._filters if not self._filters_hidden(i)]
        if all(self._is_skipped(i) for i in found) and self._feed_forward() != "other":
            return False
        return bool(found) and not self._widens_by_filters()

    def _is_skipped(self, index: int) -> bool:
        """Whether a depthwise filter is added to its own input: what it filters passes as it is (a short filter behind a feed-forward)."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        if not is_depthwise(self.branch, index):
            return False
        source, here = self._arranged(nodes[index].inputs[0]), index
        while len(users := [u for u in flow.graph.users[here] if u in self.branch.members]) == 1:
            here = users[0]
            if nodes[here].op == "add":
                return any(self._arranged(i) == source for i in nodes[here].inputs)
            if flow.classes[here] not in ("view", "part", "alias"):
                return False
        return False

    def _arranged(self, node: int) -> int:
        """The value behind views, copies and zeros laid beside it."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        while nodes[node].inputs and (flow.classes[node] in ("view", "alias") or nodes[node].op == "pad"):
            node = nodes[node].inputs[0]
        return node

    def _widens_by_filters(self) -> bool:
        """The feed-forward of a sequence whose two maps read the neighbours as well (FastSpeech): `conv1d`, dense, to a wider layer and back, with an
        activation between."""
        nodes = self.branch.flow.graph.nodes
        if len(self.weights) != 2 or any(nodes[i].op != "conv1d" or is_depthwise(self.branch, i) for i in self.weights) or not self._has_activation():
            return False
        one, two = (nodes[nodes[i].inputs[1]].shape or () for i in self.weights)
        return len(one) == len(two) == 3 and one[:2] == (two[1], two[0]) and one[0] >= 1.5 * one[1]

    @cached_property
    def filters(self) -> bool:
        """Whether a filter over several tokens stands in it, whatever its role."""
        return bool(self._filters)

    @cached_property
    def _filters(self) -> list[int]:
        """Convolutions over several tokens."""
        nodes = self.branch.flow.graph.nodes
        found = [nodes[i] for i in self.branch.region if nodes[i].op.startswith("conv") and len(nodes[i].inputs) > 1]
        return [n.index for n in found if any(size > 1 for size in (nodes[n.inputs[1]].shape or ())[2:])]

    def _filters_hidden(self, index: int) -> bool:
        """A depthwise filter on the widened hidden layer of a feed-forward (SegFormer's Mix-FFN): the branch stays one."""
        graph = self.branch.flow.graph
        if not is_depthwise(self.branch, index) or self._is_squeezed(index):
            return False
        before = max((w for w in self.weights if w < index), default=None)
        if before is None:
            return False
        shapes = [graph.nodes[i].shape or () for i in graph.nodes[before].inputs if self.branch.flow.trained[i]]
        weight = max(shapes, key=len)[:2]
        return len(weight) == 2 and max(weight) == (graph.nodes[graph.nodes[index].inputs[1]].shape or (0,))[0] > 1.5 * min(weight)

    def _is_squeezed(self, index: int) -> bool:
        """A gate of one number for each channel, made of all that a filter gives, multiplies it (squeeze and excitation, in MBConv)."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        for gated in (nodes[i] for i in self.branch.region if i > index and nodes[i].op == "mul"):
            made = [nodes[i].shape or () for i in dict.fromkeys(gated.inputs) if flow.depends(i, index)]
            single = [all(size == 1 for size in shape[2:]) for shape in made if len(shape) > 2]
            if single.count(True) == single.count(False) == 1:
                return True
        return False

    def _routes(self) -> bool:
        """A choice of experts, hard or soft."""
        return self._chooses() or self._soft_routes() or self._weighs_experts()

    def _chooses(self) -> bool:
        """A top-k (or argmax) of a weighted map of the tokens, and weights chosen or weighed by it."""
        flow = self.branch.flow
        if self.ops & {"grouped_mm"}:
            return True
        nodes = flow.graph.nodes
        read = {i for n in self.branch.region for i in nodes[n].inputs}
        read |= {nodes[i].inputs[0] for i in read if nodes[i].op == "getitem"}  # the numbers of a top-k whose values nobody reads
        chosen = [i for i in self.branch.region if nodes[i].op in _CHOICES] + [i for i in read if nodes[i].op in ("topk", "argmax", "one_hot")]
        return any(flow.keys[i] & mask_of(self.branch.region) for i in chosen)

    def _over_tokens(self, softmax: int) -> bool:
        """A softmax whose axis is known to hold tokens, so that it pools them; or one entry, so that it is 1."""
        node = self.branch.flow.graph.nodes[softmax]
        axes = axes_of(self.branch.flow.operand(node, 1, "dim"), len(node.shape or ()))
        if node.shape and all(node.shape[a] == 1 for a in axes):
            return True
        return self.branch.norms.features.spans_others(node.inputs[0], axes)

    def _soft_routes(self) -> bool:
        flow = self.branch.flow
        softmaxes = {i for i in self.branch.region if flow.classes[i] == "softmax" and not self._over_tokens(i)}
        return bool(softmaxes - self.attention.over_states) and len(self.weights) >= 4

    def _weighs_experts(self) -> bool:
        """What maps with an axis of experts made of each token is summed over that axis, by shares that another map made of it."""
        flow, nodes, features = self.branch.flow, self.branch.flow.graph.nodes, self.branch.norms.features
        experts = mask_of(i for i in self.weights if any(len(nodes[w].shape or ()) > 2 for w in nodes[i].inputs if flow.trained[w]))
        for index in self.branch.region if experts else ():
            here = nodes[index]
            if here.op == "sum" and here.inputs:
                axes, here = axes_of(flow.operand(here, 1, "dim"), len(nodes[here.inputs[0]].shape or ())), nodes[self._behind_views(here.inputs[0])]
                each = here.op == "mul" and features.holds(here.index, axes)
            else:
                each = index in flow.products and self._is_of_each_token(index)
            data = [i for i in dict.fromkeys(here.inputs) if flow.data[i]]
            if each and len(data) == 2 and [bool(flow.keys[i] & experts) for i in data].count(True) == 1 and all(flow.keys[i] for i in data):
                return True
        return False

    def _is_gated(self) -> bool:
        """A product, entry by entry, of two values that each come from a weighted op of the branch. A gate on the output, whose complement
        or twin multiplies the stream, is a scale of the sum; one that is made of another argument alone is a scale of the branch."""
        flow, gates = self.branch.flow, self.branch.stream_gates
        mine = mask_of(i for i in self.branch.region if flow.key[i])
        updates = mask_of(self.branch.gates) if self.branch.update_gates else 0
        for index in self.branch.region:
            node = flow.graph.nodes[index]
            if node.op == "glu":
                return True
            if node.op != "mul" or self.branch.norms.by_node.get(index) is not None:
                continue
            data = [i for i in dict.fromkeys(node.inputs) if flow.data[i] and flow.keys[i] & mine]
            wide = [i for i in data if (flow.graph.nodes[i].shape or (0,))[-1] > 1]
            behind = [gate for gate in gates if not flow.depends(gate, index)]  # a gate that reads the branch is made of all products inside of it
            if any(flow.depends(gate, i) or gate == i or self.branch.is_rest(i, gate) for gate in behind for i in wide):
                continue
            if any(not flow.keys[i] & mine & ~updates for i in wide):
                continue
            if len({self.branch.is_fed(i) for i in wide}) > 1:  # made of a condition: a scale
                continue
            if len(wide) == 2 and not self._activation_of_one(*wide):
                return True
        return False

    def _activation_of_one(self, a: int, b: int) -> bool:
        """x·σ(x): a hand-written SiLU or GELU multiplies a value with a function of itself, not with another part of it."""
        flow = self.branch.flow
        if flow.keys[a] != flow.keys[b]:
            return False
        parts = self._slices
        return flow.ancestors[a] & parts == flow.ancestors[b] & parts

    def _has_activation(self) -> bool:
        """A softmax over features is one (SoLU); one over tokens pools them."""
        flow, region = self.branch.flow, self.branch.region
        if any(flow.classes[i] in ("activation", "unmodelled") and flow.data[i] for i in region):
            return True
        return any(flow.classes[i] == "softmax" and flow.data[i] and not self._over_tokens(i) for i in region)
