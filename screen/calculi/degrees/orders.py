"""From the value at a branch's end to degrees by group and to m."""

from __future__ import annotations

from screen.calculi.degrees.monomials import STREAM, Monomial, Power, total
from screen.calculi.degrees.types import Degree, Degrees, Orders
from screen.calculi.degrees.values import Value, Walk, settled
from screen.calculi.degrees.weight_groups import Groups
from screen.structure.types import MapCount, Unknown


def orders_of(walk: Walk, output: Value, maps: MapCount) -> Degrees:
    """Reads the result off the value that is added to the stream."""
    if output.unknown is not None:
        unknown = Orders(output.unknown, output.unknown, output.unknown, maps.path, ())
        return Degrees((), unknown, output.unknown)
    output = settled(output)
    monomials = sorted(output.slope, key=lambda m: (-total(m), m))
    groups = tuple(_degree(walk, output, group) for group in range(len(walk.groups.names)) if _acts(walk, output, group))
    law = output.laws.get(STREAM, (0, True))
    return Degrees(groups, _orders(walk, monomials), stream=None if law is None else float(law[0]))


def _acts(walk: Walk, output: Value, group: int) -> bool:
    """The group reaches the branch's output (a bias of the logits, a positional table, do not count as maps but act)."""
    return group in output.laws or any(walk.groups.owner[s] == group for m in output.slope for s, _ in m if s >= 0)


def _degree(walk: Walk, output: Value, group: int) -> Degree:
    law = output.laws.get(group, (0, True))
    biases = tuple((walk.flow.graph.nodes[b].name, float(p)) for b, p in walk.biases.get(group, {}).items())
    here = walk.groups.names[group]
    who = (here.text, tuple(walk.groups.members[group]), here.rows, here.axis)
    if law is None:
        largest = max((_power(walk.groups, m, group) for m in output.slope), default=0)
        return Degree(*who, float(largest), "bound", biases, None)
    return Degree(*who, float(law[0]), "exact" if law[1] else "asymptotic", biases, float(law[0]))


def _power(groups: Groups, monomial: Monomial, group: int) -> Power:
    return sum((p for s, p in monomial if s >= 0 and groups.owner[s] == group), start=0)


def _orders(walk: Walk, monomials: list[Monomial]) -> Orders:
    if not monomials:
        none = Unknown("no product of its weights carries the stream through the branch", (walk.branch.output,))
        return Orders(none, none, none, (), ())
    largest, smallest = monomials[0], min(monomials, key=total)
    distinct = max(_distinct(walk, m) for m in monomials)
    return Orders(_whole(total(largest)), _whole(distinct), _whole(total(smallest)), _path(walk.groups, largest), _path(walk.groups, smallest))


def _whole(value: Power) -> int | Unknown:
    return int(value) if value == int(value) else Unknown(f"a degree of {value} is no number of maps")


def _distinct(walk: Walk, monomial: Monomial) -> Power:
    """Each group once, however many places and ways it is used in; an activation of degree k counts k times what it acts on."""
    powers: dict[int, Power] = {}
    for site, power in monomial:
        if site >= 0:
            group = walk.groups.owner[site]
            once = min(power, walk.powers.get(site, 1))
            powers[group] = max(powers.get(group, once), once)
    return sum(powers.values(), start=0)


def _path(groups: Groups, monomial: Monomial) -> tuple[str, ...]:
    return tuple(dict.fromkeys(groups.names[groups.owner[s]].text for s, p in monomial if s >= 0 and p > 0))
