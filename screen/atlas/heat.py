"""Heat maps as SVG: outcomes over rate × depth, one small map for each design."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from statistics import mean

from screen.atlas.language import language
from screen.atlas.tolerance import Record

SIDE, GAP, LEFT, TOP, PER_ROW = 22, 14, 30, 40, 5
"""Pixels of a cell, between maps, left of and above a map; maps in a row."""
SHADES = ((0.05, "#f4e3d7"), (0.25, "#e8edf2"), (0.5, "#c3d4e6"), (0.75, "#83aed6"), (0.95, "#3f7fbf"), (float("inf"), "#17508c"))
"""(share of the way from chance to the floor, colour below it); the first is what learned nothing."""
FAILED = {"diverged": ("#d9822b", "D"), "non_finite": ("#7a1f1f", "N")}
SPIKES = "s"


def progress(row: Record) -> float:
    """Share of the way from chance to the least possible loss that a run had gone at its end."""
    known, final = language(row["task"]), row["final"]
    return 0.0 if final is None else float((known.chance - final) / (known.chance - known.floor))


def _cell(x: int, y: int, rows: Sequence[Record]) -> str:
    """One square: the worst failure of the seeds if at least half of them failed so, else the mean progress, with `s` where a run had spikes."""
    worst = next((kind for kind in ("non_finite", "diverged") if 2 * sum(r["outcome"] == kind for r in rows) >= len(rows)), None)
    share = mean(progress(r) for r in rows)
    fill, mark = FAILED[worst] if worst else (next(c for limit, c in SHADES if share < limit), SPIKES * any(r["outcome"] == "spikes" for r in rows))
    light = worst == "non_finite" or (worst is None and share >= SHADES[3][0])
    note = f"rate {rows[0]['lr']:g}, {rows[0]['depth']} blocks: " + ", ".join(f"seed {r['seed']} {r['outcome']}" for r in rows)
    square = f'<rect x="{x}" y="{y}" width="{SIDE - 1}" height="{SIDE - 1}" fill="{fill}"><title>{escape(note)}</title></rect>'
    colour = "#fff" if light else "#222"
    return square + (f'<text x="{x + SIDE // 2 - 1}" y="{y + 15}" text-anchor="middle" fill="{colour}">{mark}</text>' if mark else "")


def heat_maps(rows: Iterable[Record], designs: Sequence[str], title: str) -> str:
    """An SVG of all designs, rates to the right and depths downwards, of runs that agree in everything else but the seed."""
    at: dict[tuple[str, int, float], list[Record]] = defaultdict(list)
    for row in rows:
        at[row["design"], row["depth"], row["lr"]].append(row)
    rates, depths = sorted({k[2] for k in at}), sorted({k[1] for k in at})
    wide, high = LEFT + len(rates) * SIDE + GAP, TOP + len(depths) * SIDE + GAP
    lines = [f'<text x="4" y="16" font-size="13" font-weight="bold">{escape(title)}</text>']
    for i, design in enumerate(designs):
        left, top = i % PER_ROW * wide + LEFT, i // PER_ROW * high + TOP + 20
        lines.append(f'<text x="{left}" y="{top - 18}" font-weight="bold">{escape(design)}</text>')
        lines += [f'<text x="{left + j * SIDE + 10}" y="{top - 5}" text-anchor="middle" font-size="7">{_rate(r)}</text>' for j, r in enumerate(rates)]
        lines += [f'<text x="{left - 5}" y="{top + k * SIDE + 15}" text-anchor="end">{depth}</text>' for k, depth in enumerate(depths)]
        for k, depth in enumerate(depths):
            there = [(j, at[design, depth, rate]) for j, rate in enumerate(rates)]
            lines += [_cell(left + j * SIDE, top + k * SIDE, found) for j, found in there if found]
    width, height = PER_ROW * wide, (len(designs) + PER_ROW - 1) // PER_ROW * high + 30
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="10">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *lines, "</svg>"]) + "\n"


def _rate(rate: float) -> str:
    mantissa, exponent = f"{rate:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


__all__ = ["heat_maps", "progress"]
