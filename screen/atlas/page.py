"""docs/atlas.md: what was run, heat maps, tolerated rates, what changes of the recipe do; the words about it stand in docs/atlas/learned.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from screen.atlas.cell import BATCH, STEPS, TOKENS, VOCAB, Cell, cell_of
from screen.atlas.heat import heat_maps
from screen.atlas.language import language
from screen.atlas.outcome import OUTCOMES
from screen.atlas.plan import DESIGNS, VARIED
from screen.atlas.score import one_rate, score
from screen.atlas.split import FIT_SEED, UNSEEN_DESIGNS
from screen.atlas.tolerance import Record, Tolerance, tolerances

BASE = asdict(Cell("pre", 1, 1, "chain", 1.0, 0))
"""The base recipe, by field."""
RECIPE = ("warmup", "init", "decay", "eps", "beta2", "z_loss", "precision")


def base(rows: Iterable[Record], task: str = "chain", width: int = 32) -> list[Record]:
    """The rows of the base recipe on a task at a width."""
    return [r for r in rows if r["task"] == task and r["width"] == width and all(r[f] == BASE[f] for f in RECIPE)]


def write(rows: Sequence[Record], page: Path) -> None:
    """Writes the page, and its pictures into the folder of its name."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "chain": (base(rows), "chain, width 32: share of the way learned (blue), D diverged, N not finite, s spikes"),
        "chain-64": (base(rows, width=64), "chain, width 64"),
        "repeat": (base(rows, "repeat"), "repeat, width 32"),
    }
    links = []
    for name, (mine, title) in pictures.items():
        if mine:
            (folder / f"{name}.svg").write_text(heat_maps(mine, DESIGNS, title), encoding="utf-8")
            links.append(f"![{title}]({folder.name}/{name}.svg)\n")
    learned = folder / "learned.md"
    words = learned.read_text(encoding="utf-8") if learned.exists() else ""
    parts = [_intro(rows), words, "## Heat maps\n", HEAT, *links, _tolerated(rows), _seeds(rows), _changes(rows), _split(rows), MADE]
    page.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


HEAT = """Each map is one design under the base recipe; rates go to the right, blocks downwards. Dark blue learned all that can be learned, sand
learned nothing, orange diverged after it had learned, dark red is not finite. On the left of a map the steps are too few for the rate; on
the right the rate is too large.
"""
MADE = f"""## Made by

`python -m screen.atlas run` trains what is missing of the plan (`--dry-run` lists it with its counted work, `-j N` takes more processes,
`--budget` bounds the time; it goes on where it was stopped), `python -m screen.atlas page` makes this page. Each line of
[runs.jsonl](atlas/runs.jsonl) is one run; its cell alone determines it, and `run --only ID` trains it again. `attention` and `head` are the
largest |logit| of any attention and of the head in the run, `gradient` the largest norm of the gradient before it was clipped, `rise` the
most that the loss (a running mean of 5 steps) stood above its least value so far, `curve` the mean loss of each tenth of the {STEPS} steps.

`python -m screen.atlas score` compares predictions with the runs: a function (`--predictor package.module:function`) that is given a run's
cell, or a CSV or JSON file (`--predictions`) with `tolerated` and `risk` for runs that have the fields named beside them.
"""


def _table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(v) for v in row) + " |" for row in rows) + "\n"


def _intro(rows: Sequence[Record]) -> str:
    cells = [cell_of(r) for r in rows]
    outcomes = Counter(r["outcome"] for r in rows)
    counts = _table(["outcome", *OUTCOMES], [["runs", *(outcomes[o] for o in OUTCOMES)]])
    chain, repeat = language("chain"), language("repeat")
    sizes = f"widths {_values(c.width for c in cells)}, depths {_values(c.depth for c in cells)}"
    return f"""# The atlas: {len(rows):,} short trainings

Decoders of {len({c.design for c in cells})} designs ({sizes}, 4 heads, GELU, LayerNorm, learned positions) were trained for {STEPS} steps of
{BATCH} sequences of {TOKENS} tokens, from a vocabulary of {VOCAB}, on one of two languages: `chain`, in which the next token is the likely
successor of the last one (chance ln {VOCAB} = {chain.chance:.2f} nats, least possible loss {chain.floor:.2f}), and `repeat`, in which each sequence
repeats its first four tokens (chance the same, least {repeat.floor:.0f}).
The base recipe is AdamW with β = (0.9, 0.95), ε 1e-8, decoupled weight decay 0.1
on matrices and embeddings, clipping at 1, a warm-up of 10 % of the steps and then a cosine to a tenth of the peak rate, weights from N(0,
1/fan_in), float32. `fp16` and `bf16` round operands and results of matrix products as autocast does, forward and backward, in float32 arithmetic.

A run `learned` when it ends at least half-way from chance to the least loss; with `spikes` it learned although its smoothed loss once rose
by a quarter of that way; it `diverged` when it ends worse than that quarter below its best, or above chance; `non_finite` says what it says;
anything else is `no_learning`.

{counts}"""


def _values(values: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(values))))


def _interval(found: Tolerance | None) -> str:
    if found is None:
        return ""
    if found.largest is None:
        return "none"
    return f"{found.largest:g}" if found.failing else f"≥ {found.largest:g}"


def _tolerated(rows: Sequence[Record]) -> str:
    parts = ["## Largest rate that trains\n", TOLERATED]
    for task in ("chain", "repeat"):
        mine = {(t.design, t.depth, t.width): t for width in (32, 64, 128) for t in tolerances(base(rows, task, width)).values()}
        sizes = sorted({key[1:] for key in mine}, key=lambda size: (size[1], size[0]))
        lines = [[f"`{d}`", *(_interval(mine.get((d, *size))) for size in sizes)] for d in DESIGNS if any(k[0] == d for k in mine)]
        if lines:
            parts += [f"`{task}`, blocks × width:\n", _table(["design", *(f"{a} × {b}" for a, b in sizes)], lines)]
    return "\n".join(parts)


TOLERATED = """Base recipe, all seeds together: the largest rate of the grid at which at least half of the seeds learned. The next rate of the
grid failed; after ≥ no larger one was tried. `none`: no rate of the grid trained in so few steps.
"""


def _seeds(rows: Sequence[Record]) -> str:
    """How often two seeds of one cell agree on whether it trains."""
    at: dict[Any, list[bool]] = defaultdict(list)
    for row in rows:
        at[replace(cell_of(row), seed=0)].append(row["trained"])
    both = [trained for trained in at.values() if len(trained) > 1]
    same = sum(len(set(trained)) == 1 for trained in both)
    return f"Of {len(both)} cells that were run with more than one seed, the seeds agree in {same} on whether they train.\n"


def _changes(rows: Sequence[Record]) -> str:
    """What each change of the base recipe does to the tolerated rate at 4 blocks, over the rates that the changed cells have."""
    four = [r for r in rows if r["depth"] == 4 and r["task"] == "chain" and r["width"] == 32]
    known = {(t.design, t.recipe): t for t in tolerances(four).values()}
    lines = []
    for change in VARIED:
        ratios: dict[str, float] = {}
        lost, won, both = [], [], 0
        for design in DESIGNS:
            cell = Cell(design, 4, 32, "chain", 1.0, 0)
            before, after = known.get((design, cell.recipe)), known.get((design, cell_of({**asdict(cell), **change}).recipe))
            if before is None or after is None:
                continue
            both += 1
            if before.largest is None or after.largest is None:
                lost += [design] * (before.largest is not None)
                won += [design] * (after.largest is not None)
            else:
                ratios[design] = after.largest / before.largest
        if not change or not both:
            continue
        more, fewer = sorted(d for d, r in ratios.items() if r > 1) + won, sorted(d for d, r in ratios.items() if r < 1) + lost
        name = ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in change.items())
        ratio = f"{geometric_mean(ratios.values()):.2f}" if ratios else ""
        lines.append([name, both, ratio, len(more), _few(more), len(fewer), _few(fewer)])
    head = ["change", "designs", "mean factor", "up", "which", "down", "which"]
    return "\n".join(["## What a change of the recipe does\n", CHANGES, _table(head, lines)])


CHANGES = """At 4 blocks and width 32 on `chain`, rates 1e-2, 3e-2, 1e-1 and 3e-1 alone, one seed: the largest rate that trains, against that of
the base recipe. The factor is the geometric mean over designs that train at one of these rates under both; 3.2 is one step of the grid, and
the largest that trains cannot be seen above 3e-1.
"""


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _split(rows: Sequence[Record]) -> str:
    fit, unseen = ([r for r in rows if r["part"] == part] for part in ("fit", "unseen"))
    said = one_rate(fit)
    found = score(unseen, lambda _: said)
    return f"""## Fitting part and unseen part

A fit may see seed {FIT_SEED} of every design but {", ".join(f"`{d}`" for d in sorted(UNSEEN_DESIGNS))}: {len(fit):,} runs. The other
{len(unseen):,} are for judging. Both the lists and the rule stand in `screen/atlas/split.py` and were fixed before the first run. The
baseline *one rate for all*, {said.tolerated:g} as the best on the fitting part, has on the unseen part a balanced accuracy of
{_number(found.balanced)}; {_number(found.near)} of {found.groups} tolerated rates are within a factor of 3 of it. Runs that are slow (no
learning, though a larger rate of the same cell trains) are left out of the balanced accuracy: {found.slow:,} of {found.runs:,}.
"""


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


__all__ = ["BASE", "base", "write"]
