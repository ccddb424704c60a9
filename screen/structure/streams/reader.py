"""From a chain to sublayers: positions A, A², S, B, C, multipliers, and one `Sublayer` per branch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from screen.structure.branches.branch import Branch
from screen.structure.branches.role import Mixer
from screen.structure.norms.find import place_of
from screen.structure.streams.chain_reader import MIXERS, ChainReader
from screen.structure.streams.multipliers import Scales
from screen.structure.streams.norms import StreamNorms
from screen.structure.types import Norm, Port, Role, Stream, Sublayer, Unknown

PLACEMENTS = {"": "none", "A": "pre", "C": "post", "AB": "peri", "B": "output_only", "AC": "pre_post"}
"""Letters of the norms around a branch to the field's name; other combinations stand as letters."""


@dataclass(frozen=True)
class Reader(ChainReader):
    """Reads the sublayers of one chain."""

    @cached_property
    def stream_norms(self) -> StreamNorms:
        """Which norms on the chain are a C."""
        return StreamNorms(self)

    @cached_property
    def states_met(self) -> dict[tuple[int, int], frozenset[int]]:
        """For each branch, by the node of its add and of what it adds: the states where a walk up from that first meets the stream, and the one that
        it is added to where it meets none."""
        states = frozenset(self.chain.nodes)
        return {(b.add, b.output): self._met(b, states) for _, b in self.branches}

    def _met(self, branch: Branch, states: frozenset[int]) -> frozenset[int]:
        nodes, found, seen, stack = self.flow.graph.nodes, set[int](), {branch.output}, list(self.flow.graph.nodes[branch.output].inputs)
        while stack:
            node = stack.pop()
            if node in states:
                found.add(node)
            elif node not in seen:
                seen.add(node)
                stack.extend(nodes[node].inputs)
        return frozenset(found) or frozenset({branch.state})

    def typical(self, stream: Stream) -> dict[tuple[int, int], Branch]:
        """For each sublayer of a stream, by the node of its add and of what it adds, the branch that it is judged by: that of the first block of its
        kind, but of the second one where that reads more states (what the first block reads as its own may be the first state, read by all)."""
        branches, met, found = {(b.add, b.output): b for _, b in self.branches}, self.states_met, dict[tuple[int, int], Branch]()
        for kind in stream.kinds:
            ran = [b.branches for b in stream.traced if b.kind == kind.id and len(b.branches) == len(kind.sublayers)]
            for place, sub in enumerate(kind.sublayers):
                first = (sub.add, sub.output)
                second = ran[1][place] if len(ran) > 1 else first
                if first in branches:
                    found[first] = branches[second if len(met.get(second, ())) > len(met[first]) else first]
        return found

    @cached_property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """All sublayers of the chain; `parallel_group` and names are those of the whole chain."""
        found = []
        for number, (position, branch) in enumerate(self.branches):
            found.append(self._sublayer(number, position, branch))
        return tuple(found)

    def _depends(self, number: int, branch: Branch) -> bool:
        """Whether a branch depends on the stream: on a state of it, also by indices alone (the nearest row of a codebook), or on what was added
        before."""
        nodes = self.chain.nodes
        begun = nodes[: nodes.index(branch.state) + 1] if not number and branch.state in nodes else (branch.state,)
        before = (*begun, *(b.output for _, b in self.branches[:number]))
        return bool(branch.entries) or any(self.flow.depends(branch.output, i) for i in before)

    def _sublayer(self, number: int, position: int, branch: Branch) -> Sublayer:
        mixer = self.mixer(branch)
        norms, letters, unknown = self._positions(position, branch, mixer)
        qk, q, k, v = mixer.attention.qk
        around = "".join(p for p in letters if p in "ABC")
        first = next(([n for p, n in norms if p == letter] for letter in around), [])
        role = self._role(mixer)
        return Sublayer(
            name=role,
            role=role,
            placement="unknown" if unknown else PLACEMENTS.get(around, around),
            positions=letters,
            unknown=unknown,
            norms=norms,
            norm_type=self._nearest(first).name if first else None,
            ports=self._ports(branch),
            qk_norm=qk,
            q_norm=q,
            k_norm=k,
            v_norm=v,
            norms_across=mixer.attention.norms_across,
            parallel_group=self._parallel(number),
            alpha=Scales(self, self.stream_norms).of_stream(position),
            branch=Scales(self, self.stream_norms).of_branch(position, branch),
            gated_output=branch.exit.gated,
            m=mixer.maps,
            depends_on_stream=self._depends(number, branch),
            normed_skip=self.stream_norms.is_normed_skip(position),
            norm_on_skip=self.stream_norms.is_on_skip(position),
            add=branch.add,
            output=branch.output,
            place=place_of(self.flow.graph, branch.add),
            adds_norm=branch.exit.beside,
            multiplies_stream=branch.is_factor_raw,
            multiplies_norm=branch.is_factor_normed,
        )

    def _nearest(self, norms: list[Norm]) -> Norm:
        """The first norm, but for one that it had a part in (norms that weigh a mix of states stand before the norm of the mix)."""
        nearest = norms[0]
        for norm in norms[1:]:
            nearest = norm if self.flow.depends(norm.node, nearest.node) else nearest
        return nearest

    def _role(self, mixer: Mixer) -> Role:
        """A feed-forward with a filter in its hidden layer is one beside a branch that mixes tokens (Mix-FFN), where no other is; else it mixes them
        (ConvFormer, MBConv)."""
        if mixer.role in ("ffn", "gated_ffn") and mixer.filters and (self._feeds or not self._mixes(mixer)):
            return "conv"
        return mixer.role

    @cached_property
    def _feeds(self) -> bool:
        """Whether some branch of the stream is a feed-forward that reads each token alone."""
        return any(m.role in ("ffn", "gated_ffn") and not m.filters for m in (self.mixer(b) for _, b in self.branches))

    def _mixes(self, mixer: Mixer) -> bool:
        """Whether some branch beside one mixes tokens otherwise than by a filter in a feed-forward; where one is alone in its member of a list,
        whether some branch of the stream does, but for filters."""
        beside = self._roles_of[self._member(mixer.branch)]
        if len(beside) > 1:
            return any(role in MIXERS for role in beside)
        return any(role in MIXERS and role != "conv" for roles in self._roles_of.values() for role in roles)

    @cached_property
    def _roles_of(self) -> dict[int, list[Role]]:
        """Member of a list (its call) -> what the branches that stand in it are, by their own ops."""
        found: dict[int, list[Role]] = {}
        for _, branch in self.branches:
            found.setdefault(self._member(branch), []).append(self.mixer(branch).role)
        return found

    def _member(self, branch: Branch) -> int:
        """The innermost call of a member of a list around a branch; 0 outside of any."""
        graph = self.flow.graph
        return next((c for c in reversed(graph.call_path(branch.home)) if c in graph.members), 0)

    def _positions(
        self, position: int, branch: Branch, mixer: Mixer
    ) -> tuple[tuple[tuple[str, Norm], ...], tuple[str, ...], tuple[Unknown, ...]]:
        found: list[tuple[str, Norm]] = []
        unknown: list[Unknown] = []
        at_input, at_output = branch.has_input_norm, branch.exit.normed
        shared = self.stream_norms.end_of_group(position)
        after = self.stream_norms.is_on_sum(shared)
        skipped = self.stream_norms.is_normed_skip(position) or self.stream_norms.is_on_skip(position)
        after = True if skipped and after is False else after
        for answer in (at_input, at_output, after):
            if isinstance(answer, Unknown):
                unknown.append(answer)
        if at_input is True or at_input == "partly":
            found += [("A", n) for n in branch.input_norms]
        between = [n for value, axis in mixer.attention.sides for n in mixer.attention.norms_before(value, axis)[0]]
        if mixer.attention.qk[0] != "none" and not isinstance(mixer.attention.qk[0], Unknown):
            found += [("A2", n) for n in dict.fromkeys(between)]
        last = branch.exit.norm if at_output is True else None
        taken = {n.node for _, n in found} | ({last.node} if last else set())
        inner = (self.chains.edges.norms.by_node.get(i) for i in branch.region if i not in taken)
        found += [("S", n) for n in inner if n is not None and not n.put_back]
        if last is not None:
            found.append(("B", last))
        if after is True:
            before = self.segments[self.stream_norms.start_of_group(position)].norms[-1:]
            found += [("C", n) for n in (before if skipped else self.segments[shared + 1].norms[:1])]
        letters = {p for p, _ in found}
        if at_input is not True:
            letters.discard("A")
        order = tuple(p for p in ("A", "A2", "S", "B", "C") if p in letters)
        return tuple(found), order, tuple(unknown)

    def _ports(self, branch: Branch) -> tuple[Port, ...]:
        ports = []
        for name, ways in (("x", {"raw", "normed"}), ("memory", {"memory", "memory normed"}), ("earlier", {"earlier"})):
            seen = frozenset().union(*(e.ways for e in branch.entries)) & ways if branch.entries else frozenset()
            if seen and name == "x":
                answer = branch.has_input_norm
                ports.append(Port(name, answer if not isinstance(answer, str) else "partly", "stream"))
                if answer is True and any("raw" in e.ways for e in branch.entries):
                    ports.append(Port("gate", False, "stream"))
            elif name == "memory" and seen:
                normed = "memory" not in seen or branch.is_memory_normed
                ports.append(Port(name, normed or ("partly" if len(seen) == 2 else False), name))
            elif seen:
                ports.append(Port(name, Unknown("fed by what earlier branches made or read"), name))
        return tuple(ports)

    def _parallel(self, number: int) -> int | None:
        """Branches that read the same state of the stream and are added to it one after the other."""
        groups = self.groups
        group = groups[number]
        return group if groups.count(group) > 1 else None
