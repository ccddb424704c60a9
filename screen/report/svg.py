"""The picture of a block as SVG to stand in a page: boxes in columns from left to right, the residual stream in the first row, branches below it.

Colours are classes that the page's style sheet sets, so that it can be read on a light and on a dark ground. Nothing but numbers is drawn without
escaping.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from screen.report.picture import Arrow, Box, Picture
from screen.visible import clean

LETTER, LINE, PAD = 7.2, 16.0, 10.0
"""Width of a letter and height of a line at 12 px, and what is left around text."""
GAP, ROW = 34.0, 26.0
"""Between columns and between rows."""
SIDE = 6.0
"""How far beside the middle of a sum a branch comes in, and the next one leaves: two ways that meet would look like one."""
LONGEST = 40
"""Characters of a line of a box; a longer one loses its end."""


@dataclass(frozen=True)
class Spot:
    """Where a box stands: its middle, and its size."""

    x: float
    y: float
    width: float
    height: float


def svg(picture: Picture) -> str:
    """One picture."""
    columns, rows = _columns(picture), _rows(picture)
    spots = _spots(picture, columns, rows)
    width = max((s.x + s.width / 2 for s in spots.values()), default=0.0) + PAD
    height = max((s.y + s.height / 2 for s in spots.values()), default=0.0) + PAD
    parts = [
        f'<svg class="block" role="img" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">',
        f"<title>{_text(picture.title)}</title>",
        *(_arrow(a, spots, rows) for a in picture.arrows),
        *(_box(b, spots[b.id]) for b in picture.boxes),
        "</svg>",
    ]
    return "\n".join(parts)


def _columns(picture: Picture) -> dict[str, int]:
    """Boxes by how many stand before them at most; a state that only feeds a branch stands in front of it."""
    found = dict.fromkeys((b.id for b in picture.boxes), 0)
    for box in picture.boxes:  # boxes stand in data-flow order, memories behind what they feed
        found[box.id] = max((found[a.tail] + 1 for a in picture.arrows if a.head == box.id and _before(picture, a)), default=0)
    for arrow in picture.arrows:
        if not _before(picture, arrow):
            found[arrow.tail] = max(found[arrow.head] - 1, 0)
    return found


def _before(picture: Picture, arrow: Arrow) -> bool:
    order = [b.id for b in picture.boxes]
    return order.index(arrow.tail) < order.index(arrow.head)


def _rows(picture: Picture) -> dict[str, int]:
    """The stream in row 0; each branch in a row of its own below the place where it leaves, memories under all of them."""
    stream = {i for a in picture.arrows if a.stream for i in (a.tail, a.head)}
    found: dict[str, int] = dict.fromkeys(stream, 0)
    left: dict[str, int] = {}
    for arrow in picture.arrows:
        if arrow.head in found or not _before(picture, arrow):
            continue
        if arrow.tail in stream:
            left[arrow.tail] = left.get(arrow.tail, 0) + 1
            found[arrow.head] = left[arrow.tail]
        else:
            found[arrow.head] = found.get(arrow.tail, 1)
    lowest = max(found.values(), default=0) + 1
    return {b.id: found.get(b.id, lowest) for b in picture.boxes}


def _spots(picture: Picture, columns: dict[str, int], rows: dict[str, int]) -> dict[str, Spot]:
    sizes = {b.id: _size(b) for b in picture.boxes}
    widths = [max((sizes[b][0] for b in sizes if columns[b] == n), default=0.0) for n in range(max(columns.values(), default=0) + 1)]
    heights = [max((sizes[b][1] for b in sizes if rows[b] == n), default=0.0) for n in range(max(rows.values(), default=0) + 1)]
    middles_x, middles_y = _middles(widths, GAP), _middles(heights, ROW)
    return {b: Spot(middles_x[columns[b]], middles_y[rows[b]], *sizes[b]) for b in sizes}


def _middles(sizes: list[float], gap: float) -> list[float]:
    found, at = [], PAD
    for size in sizes:
        found.append(at + size / 2)
        at += size + gap
    return found


def _size(box: Box) -> tuple[float, float]:
    if box.shape == "add":
        return 26.0, 26.0
    return max(len(_short(line)) for line in box.lines) * LETTER + 2 * PAD, len(box.lines) * LINE + PAD


def _box(box: Box, at: Spot) -> str:
    if box.shape == "add":
        return f'<circle class="add" cx="{at.x:.1f}" cy="{at.y:.1f}" r="13"/><text x="{at.x:.1f}" y="{at.y + 5:.1f}">+</text>'
    round_ = {"state": at.height / 2, "scale": 10.0}.get(box.shape, 3.0)
    corner = f'x="{at.x - at.width / 2:.1f}" y="{at.y - at.height / 2:.1f}"'
    first = at.y - (len(box.lines) - 1) * LINE / 2 + 4
    lines = "".join(f'<text x="{at.x:.1f}" y="{first + n * LINE:.1f}">{_text(line)}</text>' for n, line in enumerate(box.lines))
    return f'<rect class="{box.shape}" {corner} width="{at.width:.1f}" height="{at.height:.1f}" rx="{round_:.1f}"/>{lines}'


def _arrow(arrow: Arrow, spots: dict[str, Spot], rows: dict[str, int]) -> str:
    """From the side or the foot of one box to the side, the foot or the head of another."""
    tail, head = spots[arrow.tail], spots[arrow.head]
    down, up = rows[arrow.head] > rows[arrow.tail], rows[arrow.head] < rows[arrow.tail]
    if not down and not up:
        points = [(tail.x + tail.width / 2, tail.y), (head.x - head.width / 2, head.y)]
    elif down:  # a branch leaves the stream
        x = tail.x + SIDE
        points = [(x, tail.y + tail.height / 2 - 2), (x, head.y), (head.x - head.width / 2, head.y)]
    elif rows[arrow.head] == 0:  # and comes back to it
        x = head.x - SIDE
        points = [(tail.x + tail.width / 2, tail.y), (x, tail.y), (x, head.y + head.height / 2 - 1)]
    else:  # a memory feeds a branch from below
        turn = head.y + head.height / 2 + ROW / 2
        points = [(tail.x, tail.y - tail.height / 2), (tail.x, turn), (head.x, turn), (head.x, head.y + head.height / 2)]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    label = ""
    if arrow.label:
        (x0, y0), (x1, _) = points[0] if len(points) < 4 else (tail.x, points[1][1] + 20), points[1] if len(points) < 4 else points[2]
        label = f'<text class="label" x="{(x0 + x1) / 2:.1f}" y="{y0 - 6:.1f}">{_text(arrow.label)}</text>'
    kind = "stream" if arrow.stream else "way"
    return f'<polyline class="{kind}" points="{way}"/>{_tip(points[-2], points[-1], kind)}{label}'


def _tip(before: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    """A triangle at the end of an arrow."""
    dx, dy = end[0] - before[0], end[1] - before[1]
    if abs(dx) >= abs(dy):
        back = end[0] - (7.0 if dx >= 0 else -7.0)
        corners = [end, (back, end[1] - 4), (back, end[1] + 4)]
    else:
        back = end[1] - (7.0 if dy >= 0 else -7.0)
        corners = [end, (end[0] - 4, back), (end[0] + 4, back)]
    return f'<polygon class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}"/>'


def _short(line: str) -> str:
    text = clean(line)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _text(line: str) -> str:
    return escape(_short(line))


__all__ = ["svg"]
