"""Weight groups: what one factor scales together, a whole parameter or the rows of a fused one that play one part.

Experts side by side are one group (the group is the whole weight: all heads, all experts), each with the sites at which it is used.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from screen.calculi.degrees.monomials import Site
from screen.calculi.degrees.weight_rows import features_axis, rows_of, rows_of_axis
from screen.structure.branches.branch import Branch
from screen.structure.branches.weight_maps import Maps


@dataclass(frozen=True)
class Group:
    """One logical weight map: rows (text, see `rows_of`) of a parameter, or all of it."""

    parameter: str
    rows: str | None = None
    part: int | None = None
    """Number of the part of a fused output whose rows cannot be told."""
    axis: int = 0
    """Axis of the parameter that `rows` counts along: its output features."""

    @property
    def text(self) -> str:
        """`PARAM` or `PARAM[first:last]`."""
        if self.rows is not None:
            return f"{self.parameter}[{self.rows}]"
        return self.parameter if self.part is None else f"{self.parameter}[part {self.part}]"


@dataclass
class Groups:
    """Numbers groups and sites while a branch is walked."""

    branch: Branch
    maps: Maps
    names: list[Group] = field(default_factory=list)
    """Groups in order of first use."""
    members: list[list[str]] = field(default_factory=list)
    """Parameters of each group: several where experts stand side by side."""
    owner: list[int] = field(default_factory=list)
    """Group of each site."""
    _of_parameter: dict[Hashable, int] = field(default_factory=dict)
    _groups: dict[Hashable, int] = field(default_factory=dict)
    _sites: dict[Hashable, Site] = field(default_factory=dict)
    _parts: dict[int, list[frozenset[object]]] = field(default_factory=dict)
    _rows: dict[tuple[int, int], str | None] = field(default_factory=dict)

    def site(self, parameter: int, use: int, part: int | None = None, rows: str | None = None) -> Site:
        """The site of a parameter node at the op `use`; `part` numbers a part of a fused output, `rows` names those of the weight itself."""
        expert = self.maps.role == "moe" and self._is_expert(use)
        node = self.branch.flow.graph.nodes[parameter]
        identity: Hashable = ("expert", *self.maps.expert_of(use)) if expert else parameter
        axis = 0
        if part is not None:
            axis, rows = self._along(parameter, use, self.rows(use, part))
        place = part if rows is None else rows
        group = self._groups.setdefault((identity, place), self._of_parameter.get((parameter, place), len(self.names)))
        self._of_parameter.setdefault((parameter, place), group)  # one weight in two roles (router and expert) is one group
        if group == len(self.names):
            self.names.append(Group(node.name, rows, part, axis))
            self.members.append([])
        if node.name not in self.members[group]:
            self.members[group].append(node.name)
        site = self._sites.setdefault((group, identity if expert else use), len(self.owner))
        if site == len(self.owner):
            self.owner.append(group)
        return site

    def _along(self, parameter: int, use: int, rows: str | None) -> tuple[int, str | None]:
        """The axis of a fused weight along which the rows of a part count, and these rows; of several axes that make up the output
        features the one that the part cuts. Rows that no axis counts are not known."""
        graph = self.branch.flow.graph
        shape, out = graph.nodes[parameter].shape or (), (graph.nodes[use].shape or (0,))[features_axis(graph.nodes[use])]
        axes = [a for a, size in enumerate(shape) if size == out]
        if axes:
            return axes[0] if graph.nodes[use].op == "linear" or len(axes) == 1 else axes[-1], rows
        return rows_of_axis(self.branch.flow, parameter, use, rows) or (0, None)

    def _is_expert(self, use: int) -> bool:
        """Several weighted ops of the branch share its key: experts side by side."""
        return use in self.maps.weights

    def parts(self, weighted: int) -> list[frozenset[object]]:
        """Cuts of a weighted op's output, grouped by the operand that they arrive at; empty when it is used whole."""
        if weighted not in self._parts:
            found = [frozenset(g) for g in self.maps.cuts(weighted)]
            self._parts[weighted] = found if len(found) > 1 else []
        return self._parts[weighted]

    def part_of(self, weighted: int, node: int) -> int | None:
        """Which part a slice of the output belongs to."""
        cut = self.maps.cut_of(node)
        return next((i for i, part in enumerate(self.parts(weighted)) if cut in part), None)

    def rows(self, weighted: int, part: int) -> str | None:
        """The rows of one part, where they can be told."""
        key = (weighted, part)
        if key not in self._rows:
            flow = self.branch.flow
            cuts = self.parts(weighted)[part]
            halves = {"up": 0, "gate": 1}
            named = [halves[c] for c in cuts if isinstance(c, str) and c in halves]
            shape = flow.graph.nodes[weighted].shape or (0,)
            if named:
                half = shape[features_axis(flow.graph.nodes[weighted])] // 2
                self._rows[key] = f"{named[0] * half}:{(named[0] + 1) * half}"
            else:
                slices = [n for n in self.branch.region if n > weighted and self._cuts_here(weighted, n) and self.maps.cut_of(n) in cuts]
                self._rows[key] = rows_of(flow, weighted, slices)
        return self._rows[key]

    def _cuts_here(self, weighted: int, node: int) -> bool:
        """A slice whose first operands lead to the weighted op by views, and by what acts on each entry alone."""
        flow = self.branch.flow
        if flow.classes[node] != "part" or flow.graph.nodes[node].shape is None:
            return False
        while node != weighted:
            inputs = flow.graph.nodes[node].inputs
            if not inputs or not (flow.classes[node] in ("view", "part", "activation") or flow.graph.nodes[node].op in ("add", "alias")):
                return False
            node = inputs[0]
        return True
