"""A block kind as a small picture: nodes and edges, before any format.

One residual add is drawn as x → (A) → F (with A² and S in its box) → (B) → (× scale) → ⊕, with the stream beside it (α on its edge
where there is one), and C after the sum. Branches of one parallel group meet in one ⊕.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from screen.report import words
from screen.report.schema import KindPart, StreamPart, SublayerPart
from screen.verdict.summary import NORMS

Shape = Literal["state", "norm", "branch", "scale", "add"]


@dataclass(frozen=True)
class Box:
    """A node: its lines of text, from the model or ours, unescaped."""

    id: str
    shape: Shape
    lines: tuple[str, ...]
    position: str = ""


@dataclass(frozen=True)
class Arrow:
    """An edge; `stream` marks the residual stream itself."""

    tail: str
    head: str
    label: str = ""
    stream: bool = False


@dataclass
class Picture:
    """The boxes and arrows of one kind, in data-flow order."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def add(self, shape: Shape, *lines: str, position: str = "") -> str:
        box = Box(f"n{len(self.boxes)}", shape, lines, position)
        self.boxes.append(box)
        return box.id

    def link(self, tail: str, head: str, label: str = "", *, stream: bool = False) -> None:
        self.arrows.append(Arrow(tail, head, label, stream))


def draw(stream: StreamPart, kind: KindPart) -> Picture:
    """The picture of one kind of block."""
    picture = Picture(f"{stream.name}, {words.layers(kind)}")
    state = picture.add("state", "x")
    for group in words.groups(kind):
        state = _draw_add(picture, state, group, stream)
    picture.link(state, picture.add("state", "x′"), stream=True)
    return picture


def _draw_add(picture: Picture, state: str, group: list[SublayerPart], stream: StreamPart) -> str:
    factors = [factor.rstrip("·") for factor in words.carried_by(group)]
    ends = [_scaled(picture, _draw_branch(picture, state, sublayer, stream), f) for sublayer, f in zip(group, factors[1:], strict=True)]
    total = picture.add("add", "+")
    if group[0].norm_on_skip:
        skip = picture.add("norm", "C", _norm_name(group[0], "C"), position="C")
        picture.link(state, skip, stream=True)
        state = skip
    constant = group[0].residual.alpha_kind == "constant" or factors[0][:1].isdigit()
    picture.link(state, total, f"α = {factors[0]}" if constant else factors[0], stream=True)
    for end in ends:
        picture.link(end, total)
    if "C" not in group[-1].positions or group[0].norm_on_skip:
        return total
    normed = picture.add("norm", "C", _norm_name(group[-1], "C"), position="C")
    picture.link(total, normed, stream=True)
    return normed


def _scaled(picture: Picture, end: str, factor: str) -> str:
    """A box for what a branch's end is multiplied by, where that is more than one."""
    if not factor:
        return end
    scale = picture.add("scale", f"× {factor}")
    picture.link(end, scale)
    return scale


def _draw_branch(picture: Picture, state: str, sublayer: SublayerPart, stream: StreamPart) -> str:
    """Draws from the state to the branch's last box and returns that box."""
    last = state
    unclear = "?" if sublayer.placement == "unknown" else ""
    normed = None
    if "A" in sublayer.positions:
        last = normed = picture.add("norm", "A", _norm_name(sublayer, "A"), position="A")
        picture.link(state, normed)
    branch = picture.add("branch", sublayer.name, *_inside(sublayer))
    picture.link(last, branch, unclear)
    for other in dict.fromkeys(p.stream for p in sublayer.ports if p.stream != stream.name):
        memory = picture.add("state", other)
        picture.link(memory, branch, ", ".join(dict.fromkeys(p.name for p in sublayer.ports if p.stream == other)))
    last = branch
    if "B" in sublayer.positions:
        behind = picture.add("norm", "B", _norm_name(sublayer, "B"), position="B")
        picture.link(last, behind)
        last = behind
    if normed is not None and sublayer.adds_norm != 0:
        both = picture.add("add", "+")
        picture.link(normed, both, words.beside_norm(sublayer).rstrip("·"))
        picture.link(last, both)
        last = both
    factor = words.multiplier(sublayer.residual.branch_kind, sublayer.residual.branch, "γ").rstrip("·")
    return _scaled(picture, last, factor or ("g(x)" if sublayer.residual.gated else ""))


def _inside(sublayer: SublayerPart) -> list[str]:
    lines = [role] if (role := words.role_beside(sublayer)) else []
    if "A2" in sublayer.positions:
        lines.append(f"A²: Q and K normed {words.QK.get(sublayer.qk_norm or '', '')}".rstrip())
    if sublayer.v_norm:
        lines.append("V normed")
    if "S" in sublayer.positions:
        lines.append(f"S: {_norm_name(sublayer, 'S')}")
    return lines


def _norm_name(sublayer: SublayerPart, position: str) -> str:
    found = dict.fromkeys(NORMS[n.type] for n in sublayer.norms if n.position == position)
    return ", ".join(found) or (NORMS[sublayer.norm_type] if sublayer.norm_type else "norm")


__all__ = ["Arrow", "Box", "Picture", "draw"]
