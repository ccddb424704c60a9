"""`python -m screen.atlas run|score|ceiling|tolerances|specs|page`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from screen.atlas.cell import cell_of, spec_of
from screen.atlas.plan import plan, stacks
from screen.atlas.records import RUNS, read


@click.group()
def main() -> None:
    """Short trainings of small decoders, over designs, depths and recipes."""


@main.command()
@click.option("--runs", "path", type=click.Path(path_type=Path, dir_okay=False), default=RUNS, show_default=True, help="The file that is continued.")
@click.option("-j", "jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--budget", type=click.FloatRange(0), help="Seconds of the clock after which nothing new is begun.")
@click.option("--only", multiple=True, metavar="ID", help="Train this cell, whether the file holds it or not, and print its record.")
@click.option("--dry-run", is_flag=True, help="List what is missing with its counted work, and train nothing.")
def run(path: Path, jobs: int, budget: float | None, only: tuple[str, ...], dry_run: bool) -> None:
    """Train what the file does not hold yet."""
    cells = plan()
    if dry_run:
        done = {row["id"] for row in read(path)}
        cells = [cell for cell in cells if cell.id not in done]
        for mine in stacks(cells):
            first, work = mine[0], sum(cell.work for cell in mine)
            click.echo(f"{first.design:14} {first.depth:3} × {first.width:3}  {first.task:6} {first.precision}  {len(mine):3} runs  {work:.2e} flops")
        click.echo(f"{len(cells)} runs, {sum(cell.work for cell in cells):.2e} floating-point operations in matrix products of the blocks")
        return
    from screen.atlas.run import results, run as go

    if only:
        for cell in dict.fromkeys([*cells, *map(cell_of, read(path))]):
            if cell.id in only:
                click.echo(json.dumps(results([cell])[0]))
        return
    click.echo(f"{go(cells, path, jobs, budget, click.echo)} new runs in {path}")


@main.command()
@click.option("--runs", "path", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=RUNS, show_default=True)
@click.option("--predictions", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="CSV or JSON: cells with `tolerated`, `risk`.")
@click.option("--predictor", metavar="MODULE:FUNCTION", help="Asked about the cell of each run; gives a mapping with `tolerated`, `risk` or both.")
@click.option("--part", type=click.Choice(["unseen", "fit", "all"]), default="unseen", show_default=True)
@click.option("--json", "as_json", is_flag=True)
def score(path: Path, predictions: Path | None, predictor: str | None, part: str, as_json: bool) -> None:
    """Compare predictions with the runs, beside one rate for all."""
    from screen.atlas.predictions import Predictor, from_file, from_function
    from screen.atlas.score import one_rate
    from screen.atlas.score import score as compare

    rows = read(path)
    said = one_rate([row for row in rows if row["part"] == "fit"])
    known: dict[str, Predictor] = {f"one rate for all ({said.tolerated:g})": lambda _: said}
    if predictions is not None:
        known[str(predictions)] = from_file(predictions)
    if predictor is not None:
        known[predictor] = from_function(predictor)
    judged = [row for row in rows if part in ("all", row["part"])]
    found = {name: compare(judged, ask).plain() for name, ask in known.items()}
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for name, numbers in found.items():
        click.echo(f"{name}, on the part: {part}")
        for what, value in numbers.items():
            click.echo(f"  {what:16} {value:.3f}" if isinstance(value, float) else f"  {what:16} {value}")


@main.command("ceiling")
@click.option("--runs", "path", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=RUNS, show_default=True)
@click.option("--part", type=click.Choice(["unseen", "fit"]), default="unseen", show_default=True)
@click.option("--draws", type=click.IntRange(2), default=100, show_default=True)
def ceiling_(path: Path, part: str, draws: int) -> None:
    """Print what a predictor would reach that knows every edge and not the seed."""
    from screen.atlas.ceiling import ceiling, intervals, spread

    rows = read(path)
    seen = intervals(rows).values()
    sigma = spread(seen)
    click.echo(f"edges of two seeds: σ = {sigma:g} of ln(rate), from {sum(len(each) > 1 for each in seen)} groups; {draws} draws of the part: {part}")
    for deviation, rounded in ((0.0, False), (0.0, True), (sigma, False), (sigma, True)):
        found = ceiling([row for row in rows if row["part"] == part], deviation, draws, rounded=rounded)
        numbers = "  ".join(f"{name} {mean:.3f} ± {about:.3f}" for name, (mean, about) in found.items())
        click.echo(f"{'seeds alike' if deviation == 0 else 'seeds apart'}, rates {'of the grid' if rounded else 'exact      '}  {numbers}")


@main.command()
@click.option("--runs", "path", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=RUNS, show_default=True)
def tolerances(path: Path) -> None:
    """Print the largest rate that trained and the smallest above it that failed, of every design, size and recipe, as lines of JSON."""
    from screen.atlas.tolerance import tolerances as of

    for found in of(read(path)).values():
        click.echo(json.dumps(asdict(found)))


@main.command()
@click.option("--runs", "path", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=RUNS, show_default=True)
def specs(path: Path) -> None:
    """Print the complete spec of every (design, depth, width, init) among the runs, as lines of JSON: what features are computed from."""
    cells = {(c.design, c.depth, c.width, c.init): c for c in map(cell_of, read(path))}
    for (design, depth, width, init), cell in cells.items():
        click.echo(json.dumps({"design": design, "depth": depth, "width": width, "init": init, "spec": spec_of(cell).plain()}))


@main.command()
@click.option("--runs", "path", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=RUNS, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), default=Path("docs/atlas.md"), show_default=True)
def page(path: Path, page: Path) -> None:
    """Write docs/atlas.md and its pictures."""
    from screen.atlas.page import write

    write(read(path), page)


if __name__ == "__main__":
    main()
