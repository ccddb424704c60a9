"""Outcomes of curves drawn by hand; the parts of the split; scores of predictions that are right, reversed or silent."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from screen.atlas.__main__ import main
from screen.atlas.ceiling import ceiling, intervals, spread
from screen.atlas.cell import Cell, cell_of, spec_of
from screen.atlas.heat import heat_maps
from screen.atlas.outcome import Outcome, classify
from screen.atlas.page import write
from screen.atlas.plan import DEPTHS, DESIGNS, RATES, plan, stacks
from screen.atlas.predictions import Prediction, from_file, from_function
from screen.atlas.records import RUNS, read, record
from screen.atlas.score import kendall, one_rate, order, score
from screen.atlas.split import UNSEEN_DESIGNS, part
from screen.atlas.tolerance import group_of, labels, tolerances
from tests.shared import ROOT

FALLS = [3.0 - 0.02 * i for i in range(100)]
SPIKE = [*FALLS[:60], *[2.6] * 8, *FALLS[68:]]


@pytest.mark.parametrize(
    ("losses", "finite", "outcome"),
    [
        (FALLS, True, "learned"),
        (SPIKE, True, "spikes"),
        ([*FALLS[:50], *[2.9] * 50], True, "diverged"),
        ([2.8] * 100, True, "no_learning"),
        ([2.8] * 50 + [4.0] * 50, True, "diverged"),
        ([4.0] * 50 + [2.8] * 50, True, "no_learning"),
        ([4.0] * 100, True, "diverged"),
        (FALLS[:30], False, "non_finite"),
        ([], False, "non_finite"),
    ],
)
def test_outcomes(losses: list[float], finite: bool, outcome: Outcome) -> None:
    result = classify(losses, finite, chance=2.8, floor=0.8)
    assert result.outcome == outcome
    assert result.trained == (outcome in ("learned", "spikes"))
    assert (result.failed_at is None) == (outcome not in ("diverged", "non_finite"))


def test_the_split_is_fixed() -> None:
    """Changed, old fits have seen what they are judged by: the parts and the ids of cells never change."""
    cell = Cell("pre", 6, 32, "chain", 1e-2, 0)
    assert cell.id == "70005df691ba"
    assert [part(replace(cell, seed=seed)) for seed in (0, 1, 2)] == ["fit", "unseen", "unseen"]
    assert {part(replace(cell, design=d, seed=s)) for d in UNSEEN_DESIGNS for s in (0, 1)} == {"unseen"}
    assert sorted(UNSEEN_DESIGNS) == [
        "deepnorm+qk", "layerscale+qk", "mix-ln+qk", "parallel", "peri", "pre-post+qk", "residual", "residual+qk", "sub-ln", "sub-ln+qk",
    ]  # fmt: skip
    assert set(DESIGNS) > UNSEEN_DESIGNS


def test_a_prefix_of_the_plan_is_balanced() -> None:
    cells = plan()
    assert len(cells) == len(set(cells)) == len({c.id for c in cells})
    first = [mine[0] for mine in stacks(cells)][: len(DESIGNS)]
    assert {c.design for c in first} == set(DESIGNS)
    assert {sum(c.depth == depth for c in first) for depth in DEPTHS} <= {len(DESIGNS) // 4, len(DESIGNS) // 4 + 1}
    assert {cell.stack for mine in stacks(cells) for cell in mine} == {cell.stack for cell in cells}
    assert all(len({cell.stack for cell in mine}) == 1 for mine in stacks(cells))


def _rows(**largest: float) -> list[dict[str, Any]]:
    """Records of designs that train from 1e-3 up to a rate, at two depths; 3e-4 is too slow."""
    rows = []
    for design, most in largest.items():
        for depth in (2, 6):
            for rate in RATES:
                losses = FALLS if 1e-3 <= rate <= most else [2.8] * 100
                cell = Cell(design, depth, 32, "chain", rate, 0)
                rows.append(record(cell, classify(losses, True, 2.8, 0.8), {"attention": 1.0}, losses))
    return rows


ROWS = _rows(pre=1e-1, post=3e-3, none=1e-2, dyt=3e-1)
KNOWN = {"pre": 2e-1, "post": 5e-3, "none": 2e-2, "dyt": 1.0}


def test_tolerances_are_intervals() -> None:
    found = {t.design: (t.largest, t.failing) for t in tolerances(ROWS).values() if t.depth == 6}
    assert found == {"pre": (1e-1, 3e-1), "post": (3e-3, 1e-2), "none": (1e-2, 3e-2), "dyt": (3e-1, None)}
    (nothing,) = tolerances(row for row in _rows(pre=0.0) if row["depth"] == 2).values()
    assert (nothing.largest, nothing.failing) == (None, RATES[0])


def test_too_slow_is_no_failure() -> None:
    found = labels(ROWS)
    assert [found[row["id"]] for row in ROWS if row["design"] == "post" and row["depth"] == 2] == ["slow", "trains", "trains", *["fails"] * 4]


def test_scores() -> None:
    right = score(ROWS, lambda row: Prediction(KNOWN[row["design"]]))
    assert (right.balanced, right.tau, right.near, right.inside, right.slow, right.tables) == (1, 1, 1, 1, 8, 2)
    reversed_ = score(ROWS, lambda row: Prediction(1e-3 / KNOWN[row["design"]]))
    assert reversed_.tau == -1
    assert reversed_.near == 0
    sure = score(ROWS, lambda row: Prediction(risk=float(row["lr"] > KNOWN[row["design"]])))
    assert (sure.balanced, sure.brier, sure.tau) == (1, 0, None)
    assert score(ROWS, lambda row: Prediction()).unsaid == len(ROWS) - 8
    baseline = one_rate(ROWS)
    assert 0.5 < (score(ROWS, lambda _: baseline).balanced or 0) < 1


def test_kendall() -> None:
    assert kendall([(1, 1), (2, 2), (3, 3)]) == 1
    assert kendall([(1, 3), (2, 2), (3, 1)]) == -1
    assert kendall([(1, 1), (1, 2), (2, 3)]) == pytest.approx(2 / 6**0.5)
    assert kendall([(1, 1), (1, 2)]) is None
    assert kendall([(1, 1.0), (2, 1.01)]) is None


def test_an_order_is_no_better_than_ties_of_the_grid_let_it_be() -> None:
    found = order([(1, 1.0), (1, 2.0), (2, 3.0), (2, 1.5)])
    assert found is not None and (found.agree, found.measured, found.predicted, found.pairs) == (2, 4, 6, 6)
    assert found.most == pytest.approx((4 / 6) ** 0.5) and found.tau == pytest.approx(2 / 24**0.5)
    right = order([(1, 1.0), (1, 2.0), (2, 3.0), (2, 4.0)])
    assert right is not None and right.tau == pytest.approx(right.most)


def test_predictions_of_a_file(tmp_path: Path) -> None:
    table = tmp_path / "said.csv"
    table.write_text("design,depth,tolerated\npre,2,0.2\npre,,0.1\npost,,0.004\n")
    ask = from_file(table)
    assert [ask(row).tolerated for row in ROWS[:: len(RATES)]] == [0.2, 0.1, 0.004, 0.004, None, None, None, None]
    listed = tmp_path / "said.json"
    listed.write_text(json.dumps([{"id": ROWS[0]["id"], "risk": 0.7}]))
    assert from_file(listed)(ROWS[0]).fails(1e-9) is True
    assert from_file(listed)(ROWS[1]) == Prediction()


def test_a_function_is_not_told_the_outcome() -> None:
    ask = from_function("tests.atlas.test_score:answer")
    assert ask(ROWS[0]).tolerated == 6


def answer(row: dict[str, Any]) -> dict[str, float]:
    """What the test above asks."""
    assert not {"outcome", "trained", "final", "curve"} & set(row)
    return {"tolerated": row["depth"] * 3.0}


def test_commands(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    said = json.loads(CliRunner().invoke(main, ["score", "--runs", str(path), "--part", "all", "--json"]).output)
    assert [found["runs"] for found in said.values()] == [len(ROWS)]
    lines = CliRunner().invoke(main, ["tolerances", "--runs", str(path)]).output.splitlines()
    assert len(lines) == 8
    specs = [json.loads(line) for line in CliRunner().invoke(main, ["specs", "--runs", str(path)]).output.splitlines()]
    assert specs[0]["spec"] == json.loads(json.dumps(spec_of(cell_of(ROWS[0])).plain()))
    dry = CliRunner().invoke(main, ["run", "--dry-run", "--runs", str(path)]).output.splitlines()
    assert dry[-1].split()[0] == str(len(plan()) - len({row["id"] for row in ROWS} & {c.id for c in plan()}))


def test_the_page(tmp_path: Path) -> None:
    page = tmp_path / "atlas.md"
    write(ROWS, page)
    text = page.read_text()
    assert "| `post` | 0.003 | 0.003 |" in text
    assert "| `dyt` | ≥ 0.3 | ≥ 0.3 |" in text
    assert "Of 0 cells" in text
    picture = (tmp_path / "atlas" / "chain.svg").read_text()
    assert picture.count("<rect") == 1 + len(ROWS)
    assert heat_maps(ROWS, ["pre"], "one").count("<title>") == 2 * len(RATES)


def test_the_runs_of_the_repository() -> None:
    """Each line is one cell of this version, in its part, once; the file stays small."""
    path = ROOT / RUNS
    rows = read(path)
    assert len(rows) >= 1500
    assert path.stat().st_size <= 2_000_000
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        cell = cell_of(row)
        assert row.items() >= {**asdict(cell), "id": cell.id, "part": part(cell)}.items()
    assert {row["design"] for row in rows} == set(DESIGNS)


def _seeds(edges: dict[int, float], **cell: Any) -> list[dict[str, Any]]:
    """Runs that train below the edge of their seed, at four rates."""
    found = []
    for seed, edge in edges.items():
        for lr in (0.01, 0.03, 0.1, 0.3):
            one = Cell(**{"design": "pre", "depth": 4, "width": 32, "task": "chain", "lr": lr, "seed": seed, **cell})
            found.append({**asdict(one), "id": one.id, "trained": lr < edge, "outcome": "learned" if lr < edge else "diverged"})
    return found


def test_seeds_that_disagree_lower_what_anybody_can_reach() -> None:
    alike = [row for n, edge in ((2, 0.2), (4, 0.05), (6, 0.02)) for row in _seeds({0: edge, 1: edge}, depth=n)]
    apart = [row for n in (2, 4, 6) for row in _seeds({0: 0.02, 1: 0.2}, depth=n)]
    assert intervals(alike)[group_of(cell_of(alike[0]))] == [(math.log(0.1), math.log(0.3))] * 2
    near, far = spread(intervals(alike).values()), spread(intervals(apart).values())
    assert near < 0.3 < far
    rows = [row for name, edge in (("pre", 0.2), ("post", 0.05), ("none", 0.02)) for row in _seeds({0: edge, 1: edge}, design=name)]
    best, exact, noisy = ceiling(rows, 0.0, 3, rounded=True), ceiling(rows, 0.0, 3, rounded=False), ceiling(rows, far, 20, rounded=True)
    assert best["balanced"] == best["tau"] == best["near"] == (1.0, 0.0) and exact["balanced"] == (1.0, 0.0)
    assert noisy["balanced"][0] < 0.95 and noisy["balanced"][1] > 0
