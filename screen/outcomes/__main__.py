"""`python -m screen.outcomes score|presets|fit`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from screen.atlas.records import read
from screen.atlas.score import score as score_of
from screen.errors import UsageError
from screen.outcomes.build import Design, designs_of
from screen.outcomes.figures import Figures, Order, Table, figures, order
from screen.outcomes.fit import fit as fitted
from screen.outcomes.fit import Known, leave_one_out, settled
from screen.outcomes.predict import predict
from screen.outcomes.presets import MOST_CONDITIONAL, judged, trained
from screen.outcomes.rows import Pair, Row, pairs_of, rows_of
from screen.outcomes.runs import fitting, predictor_of
from screen.verdict.risk.constants import RISKY, TABLE, VALUES

PAIRS_RIGHT, DECIDED, BALANCED, APART = 0.85, 0.70, 0.75, 0.07
"""What must be reached: score of pairs with undecided counting half, share that is decided, balanced accuracy, and by how much the score of pairs may
fall for sources that no fit saw."""
RUNS_BALANCED = 0.85
"""What must be reached on runs of the atlas that no fit saw."""
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
BUILT_WITH = {True: "with `assumed`", False: "strict"}


@click.group()
def main() -> None:
    """Published training outcomes against what is said of their designs."""


@main.command()
@click.argument("file", type=FILE, required=False)
@click.option("--pairs", "pairs_file", type=FILE, help="Ordered pairs of rows.")
@click.option("--runs", "runs_file", type=FILE, help="Runs of the atlas, of which the part that no fit saw is scored.")
@click.option("--measure", is_flag=True, help="With `--runs`: κ is measured on each run's task, and ten steps are made at its rate.")
@click.option("--leave-one-out", "left_out", is_flag=True, help="Also judge each source by constants that were fitted to the others.")
@click.option("--fit-runs", "fit_file", type=FILE, help="With `--leave-one-out`: runs of the atlas, of whose part for fitting every fit knows.")
@click.option("--fit-presets", is_flag=True, help="With `--leave-one-out`: every fit knows of architectures that trained with a norm on the sum.")
@click.option("--verdicts", is_flag=True, help="Also fold a verdict under each recipe.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def score(
    file: Path | None, pairs_file: Path | None, runs_file: Path | None, measure: bool, left_out: bool, fit_file: Path | None, fit_presets: bool,
    verdicts: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare the risk of each row of FILE, or of each run of the atlas, with its outcome. Exit 0 when what must be reached is reached."""
    if runs_file is not None:
        _score_runs(runs_file, measure, as_json)
    if file is None:
        raise click.UsageError("name a file of rows, or `--runs`")
    rows, pairs = _read(file, pairs_file)
    report: dict[str, Any] = {}
    built: dict[str, Design] = {}
    for assumed in (False, True):
        designs = designs_of(rows, assumed=assumed, built=built, progress=_progress)
        report[BUILT_WITH[assumed]] = _scored(rows, pairs, designs, assumed, verdicts)
    main_figures = report[BUILT_WITH[True]]
    if left_out:
        main_figures["left_out"] = leave_one_out(rows, pairs, designs, assumed=True, beside=_beside(fit_file, fit_presets))
    failed = _not_reached(main_figures)
    if as_json:
        click.echo(json.dumps({"sets": {name: _plain(found) for name, found in report.items()}, "not_reached": failed}, indent=1))
    else:
        for name, found in report.items():
            click.echo(f"\n== {name}\n{_text(found)}")
        click.echo("\n" + ("every figure that must be reached is reached" if not failed else "not reached: " + "; ".join(failed)))
    sys.exit(1 if failed else 0)


def _score_runs(file: Path, measure: bool, as_json: bool) -> NoReturn:
    """The unseen part of a file of runs; all of it where no line says which part it is of."""
    rows = [row for row in read(file) if row.get("part", "unseen") == "unseen"]
    found = score_of(rows, predictor_of(rows, _progress, measure=measure)).plain()
    reached = (found["balanced"] or 0.0) >= RUNS_BALANCED
    if as_json:
        click.echo(json.dumps({"runs": found, "not_reached": [] if reached else [f"balanced accuracy below {RUNS_BALANCED}"]}, indent=1))
    else:
        for name, value in found.items():
            click.echo(f"{name:18} {value:.3f}" if isinstance(value, float) else f"{name:18} {value}")
    sys.exit(0 if reached else 1)


@main.command()
@click.argument("file", type=FILE)
@click.option("--pairs", "pairs_file", type=FILE, help="Ordered pairs of rows.")
@click.option("--runs", "runs_file", type=FILE, help="Runs of the atlas, of which the part for fitting is fitted to as well.")
@click.option("--presets", "with_presets", is_flag=True, help="Published architectures that trained with a norm on the sum are fitted to as well.")
def fit(file: Path, pairs_file: Path | None, runs_file: Path | None, with_presets: bool) -> None:
    """Fit the constants of the risk to FILE and print them beside those that are in use."""
    rows, pairs = _read(file, pairs_file)
    known = settled(rows, designs_of(rows, assumed=True, progress=_progress), assumed=True)
    runs, of_runs = _beside(runs_file, with_presets)
    found = fitted([*rows, *runs], pairs, {**known, **of_runs})
    for constant in TABLE:
        click.echo(f"{constant.name:16} {found.values[constant.name]:8.3f}   in use {VALUES[constant.name]:8.3f}   prior {constant.prior:8.3f}")
    click.echo(f"threshold        {found.threshold:8.2f}   in use {RISKY:8.2f}   loss {found.loss:.3f}")


@main.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def presets(names: tuple[str, ...], as_json: bool) -> None:
    """Judge published architectures, all or those of NAMES, under their own named recipes. Exit 0 when none is unstable and few are conditional."""
    try:
        found = list(judged(names, _progress))
    except UsageError as error:
        raise click.ClickException(str(error)) from None
    counts = Counter(said.verdict for said in found)
    failed = [f"{said.name} is unstable" for said in found if said.verdict == "unstable"]
    if counts["conditional"] > MOST_CONDITIONAL * len(found):
        failed.append(f"{counts['conditional']} of {len(found)} are conditional, of at most {MOST_CONDITIONAL:.0%}")
    if as_json:
        click.echo(json.dumps({"counts": dict(counts), "presets": [vars(said) for said in found], "not_reached": failed}, indent=1))
    else:
        click.echo("| recipe | verdict | risk | learning rate | tolerated | why |\n|---|---|---|---|---|---|")
        for said in found:
            numbers = " | ".join("–" if v is None else f"{v:.2g}" for v in (said.risk, said.lr, said.tolerated))
            click.echo(f"| {said.name} | {said.verdict} | {numbers} | {said.why.replace('|', '/')} |")
        click.echo("\n" + ", ".join(f"{n} {name}" for name, n in counts.most_common()) + "".join(f"\nnot reached: {why}" for why in failed))
    sys.exit(1 if failed else 0)


def _read(file: Path, pairs_file: Path | None) -> tuple[list[Row], list[Pair]]:
    try:
        return rows_of(file), pairs_of(pairs_file) if pairs_file else []
    except UsageError as error:
        raise click.ClickException(str(error)) from None


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(text, err=True)


def _beside(file: Path | None, presets: bool) -> tuple[list[Row], Known]:
    """What a fit may see beside the rows: runs, where there are any, and architectures that trained."""
    runs, of_runs = fitting(read(file), _progress) if file is not None else ([], {})
    models, of_models = trained(_progress) if presets else ([], {})
    return [*runs, *models], {**of_runs, **of_models}


def _scored(rows: list[Row], pairs: list[Pair], designs: Mapping[str, Design], assumed: bool, verdicts: bool) -> dict[str, Any]:
    said = predict(rows, designs, assumed=assumed, verdicts=verdicts)
    return {"figures": figures(rows, said, RISKY), "order": order(pairs, said), "rows": said, "left_out": None}


def _not_reached(found: Mapping[str, Any]) -> list[str]:
    own, left_out = found["order"], found["left_out"]
    wanted: list[tuple[str, float | None, float]] = [("score of pairs", own.score, PAIRS_RIGHT), ("pairs decided", own.decided, DECIDED)]
    if left_out is None:
        wanted.append(("balanced accuracy", found["figures"].table.balanced, BALANCED))
    else:
        wanted.append(("balanced accuracy, source left out", left_out.table.balanced, BALANCED))
        wanted.append(("score of pairs, source left out", left_out.order.score, (own.score or 0.0) - APART))
    short = [f"{what} {value:.3f} of {least:.3f}" for what, value, least in wanted if value is not None and value < least]
    return short + [f"hard gate reversed: {pair}" for pair in own.gates]


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """One set as JSON holds it."""
    left_out = found["left_out"]
    return {
        "figures": found["figures"].plain(),
        "pairs": _order_plain(found["order"]),
        "left_out": left_out
        and {"balanced_accuracy": left_out.table.balanced, "pairs": _order_plain(left_out.order), "thresholds": dict(left_out.thresholds)},
        "rows": {name: vars(p) for name, p in found["rows"].items()},
    }


def _order_plain(found: Order) -> dict[str, Any]:
    return {**vars(found), "score": found.score, "decided": found.decided, "by_source_mean": found.by_source_mean}


def _text(found: Mapping[str, Any]) -> str:
    f: Figures = found["figures"]
    lines = [
        f"{f.rows} rows, {f.scored} scored; {sum(f.refused.values())} not built: " + "; ".join(f"{n} {why}" for why, n in f.refused.items()),
        f"{'balanced accuracy':34} {_share(f.table.balanced)}   {_counts(f.table)}",
        *(f"  {name:32} {_share(table.balanced)}   {_counts(table)}" for name, table in f.baselines.items()),
        f"{'right channel':34} {f.channel_right} of {f.channel_told} failures that were called",
        f"{'Brier, rows of several runs':34} {_share(f.brier)} on {f.brier_rows} rows; of their mean share {_share(f.brier_constant)}",
        f"{'Brier, all rows':34} {_share(f.brier_all)}",
        f"{'abstained':34} {f.abstained} of {f.scored}",
        *(f"  risk {low:.1f} to {high:.1f}: {n:3} rows, mean risk {risk:.2f}, failed {share:.2f}" for low, high, n, risk, share in f.reliability),
    ]
    if f.verdicts:
        lines.append("verdicts under the recipes: " + ", ".join(f"{n} {name}" for name, n in sorted(f.verdicts.items())))
    lines += _pairs_text("pairs", found["order"])
    if (left_out := found["left_out"]) is not None:
        lines.append(f"{'source left out: balanced accuracy':34} {_share(left_out.table.balanced)}   {_counts(left_out.table)}")
        lines += _pairs_text("source left out: pairs", left_out.order)
    return "\n".join(lines)


def _pairs_text(name: str, found: Order) -> list[str]:
    if found.score is None:
        return []
    weights = f"right {found.right:g}, reversed {found.reversed:g}, undecided {found.undecided:g}"
    lines = [f"{name:34} {_share(found.score)}   decided {_share(found.decided)}, mean of sources {_share(found.by_source_mean)}; {weights}"]
    lines += [f"  reversed   {pair}" for pair in found.wrong]
    lines += [f"  undecided  {pair}" for pair in found.open]
    return lines


def _share(value: float | None) -> str:
    return "   - " if value is None else f"{value:.3f}"


def _counts(table: Table) -> str:
    return f"failures called {table.hits} of {table.hits + table.missed}, false alarms {table.alarms} of {table.quiet + table.alarms}"


if __name__ == "__main__":
    main()
