"""`python -m screen.atlas run|score|page`."""

from __future__ import annotations

from pathlib import Path

import click

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
        import json

        for cell in cells:
            if cell.id in only:
                click.echo(json.dumps(results([cell])[0]))
        return
    click.echo(f"{go(cells, path, jobs, budget, click.echo)} new runs in {path}")


if __name__ == "__main__":
    main()
