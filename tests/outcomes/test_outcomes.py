"""Scoring: rows and pairs as they stand in a file, figures by hand, one design built from its cells, and the published rows where they are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from screen.atlas.cell import cell_of
from screen.atlas.stack import model_of
from screen.atlas.step import BATCHES, kappa
from screen.atlas.tasks import batches
from screen.errors import UsageError
from screen.outcomes.__main__ import main
from screen.outcomes.build import designs_of
from screen.outcomes.figures import Table, compare, figures, order
from screen.outcomes.fit import STRAY, fit, settled
from screen.outcomes.predict import Prediction, predict
from screen.outcomes.rows import Pair, Row, baselines, pairs_of, rows_of
from screen.outcomes.runs import FAILS_FROM, FOLDS_EVEN, FirstSteps, design_of, measured, predictor_of, recipe_of
from screen.verdict.risk.constants import EXPECTED, PRIORS, RISKY, TABLE
from tests.shared import ROOT, shared


def cells(name: str, placement: str = "A", **other: Any) -> dict[str, Any]:
    """A small row of the schema: two blocks of width 32; `other` by path, with `__` for a dot."""
    row: dict[str, Any] = {
        "id": name, "source_key": "us", "grade": "A", "scorable": True, "outcome": "stable", "failed": False, "channels_accepted": [],
        "design": {
            "family": "decoder", "depth": 2, "width": 32, "heads": 2, "vocab": 64, "context": 16, "norm_type": "layernorm", "qk_norm": "none",
            "sublayers": [{"role": role, "placement": placement, "stream": None} for role in ("attention", "ffn")], "activation": "gelu",
            "residual": {"kind": "none", "alpha": 1.0, "branch": 1.0, "rule": None}, "attention_logit_cap": None,
        },
        "init": {"kind": "normal", "std": 0.02},
        "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1},
        "schedule": {"warmup_steps": 100, "total_steps": 1000},
        "precision": {"params": "fp32", "compute": "fp32"}, "batch_tokens": None, "z_loss": 0.0, "tricks": {}, "assumed": {},
    }  # fmt: skip
    for path, value in other.items():
        *way, last = path.split("__")
        part = row
        for step in way:
            part = part[step]
        part[last] = value
    return row


FAILED = {"outcome": "diverged", "failed": True, "channels_accepted": ["R", "D"]}
ROWS = [
    cells("pre"),
    cells("none", "", design__norm_type="none", optimizer__lr=0.3, optimizer__weight_decay=0.0, **FAILED),
    cells("unknown", design__sublayers=None),
    cells("hot", optimizer__lr=0.3, optimizer__weight_decay=0.0, schedule__warmup_steps=0, **FAILED),
]
PAIRS = [
    {"better": "pre", "worse": "none", "source_key": "us", "weight": 1.0, "gate": {"ordering": 1, "hard": True}, "kind": "design"},
    {"better": "pre", "worse": "hot", "source_key": "us", "weight": 0.5, "kind": "recipe"},
    {"better": "pre", "worse": "unknown", "source_key": "us", "weight": 0.5, "kind": "design"},
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("outcomes")
    for name, lines in (("rows.jsonl", ROWS), ("pairs.jsonl", PAIRS)):
        (folder / name).write_text("\n".join(map(json.dumps, lines)) + "\n")
    return folder / "rows.jsonl", folder / "pairs.jsonl"


def test_a_file_is_scored_from_its_cells_alone(files: tuple[Path, Path]) -> None:
    result = CliRunner().invoke(main, ["score", str(files[0]), "--pairs", str(files[1]), "--json"])
    found = json.loads(result.stdout)
    own = found["sets"]["with `assumed`"]
    assert found["not_reached"] == [] and result.exit_code == 0, result.output
    assert own["figures"]["rows"] == 4 and own["figures"]["refused"] == {"placement not known": 1}
    assert own["rows"]["none"]["risk"] > RISKY > own["rows"]["pre"]["risk"] and own["rows"]["unknown"]["risk"] is None
    assert own["figures"]["baselines"]["always stable"] == 0.5 and own["figures"]["balanced_accuracy"] == 1.0
    assert own["pairs"]["right"] == 1.5 and own["pairs"]["undecided"] == 0.5 and own["pairs"]["score"] == 1.75 / 2


def test_a_reversed_gate_is_named_and_ends_in_one(files: tuple[Path, Path], tmp_path: Path) -> None:
    turned = {**PAIRS[0], "better": "none", "worse": "pre"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(turned))
    result = CliRunner().invoke(main, ["score", str(files[0]), "--pairs", str(tmp_path / "pairs.jsonl")])
    assert result.exit_code == 1 and "hard gate reversed: none > pre" in result.output


def test_rows_of_one_design_share_one_trace_and_an_init_that_nobody_states_says_nothing() -> None:
    rows = [Row(r["id"], "us", "A", r, False, None, ()) for r in (cells("a"), cells("b", optimizer__lr=1e-2), cells("c", init__std=None))]
    seen: list[str] = []
    found = designs_of(rows, assumed=True, progress=seen.append)
    assert len(seen) == 1 and found["a"].streams == found["b"].streams and found["a"].streams[0].gain is not None
    assert found["c"].streams[0].gain is None and found["c"].streams[0].depth == 2
    assert found["a"].judge is not None and found["a"].judge(rows[0].recipe(assumed=True)).assessment is not None


def test_figures_by_hand() -> None:
    rows = [Row(str(n), "us", "A", cells(str(n)), n < 2, share, ("R",) if n < 2 else ()) for n, share in enumerate((1.0, 0.5, None, 0.0))]
    said = {"0": Prediction(0.9, main="R"), "1": Prediction(0.1, main="D"), "2": Prediction(0.8, depends=("lr",)), "3": Prediction(0.1)}
    found = figures(rows, said, 0.7)
    assert found.table == Table(hits=1, missed=1, quiet=1, alarms=1) and found.table.balanced == 0.5
    assert (found.channel_right, found.channel_told, found.abstained, found.brier_rows) == (1, 1, 1, 3)
    assert found.brier == pytest.approx((0.01 + 0.16 + 0.01) / 3) and Table(hits=1).balanced is None
    pairs = [Pair("x", "1", "0", "us", 1.0, 1, ""), Pair("y", "0", "3", "us", 0.5, 7, ""), Pair("z", "1", "3", "us", 0.5, None, "")]
    told = order(pairs, said)
    assert (told.right, told.reversed, told.undecided, told.gates, told.score) == (1.0, 0.5, 0.5, ("y",), 0.625)
    assert compare(None, said["0"]) == 0 == compare(said["1"], said["3"])


def test_baselines_read_placements_alone() -> None:
    row = Row("a", "us", "A", cells("a", "AB", design__qk_norm="per_head"), None, None, ())
    assert set(filter(None, (baselines(row) or {}).values())) == set()
    assert (baselines(Row("b", "us", "A", cells("b", "C"), None, None, ())) or {})["identity path, or scaled"] is True
    assert baselines(Row("c", "us", "A", cells("c", design__sublayers=None), None, None, ())) is None


def test_what_is_no_row_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(UsageError) as refused:
        rows_of(tmp_path / "x.jsonl")
    assert refused.value.line == 1 and "optimizer" in refused.value.found
    (tmp_path / "x.jsonl").write_text("\n[\n")
    with pytest.raises(UsageError, match="JSON"):
        pairs_of(tmp_path / "x.jsonl")


def test_a_fit_is_held_by_theory_and_never_turns_a_slope() -> None:
    rows = [Row(r["id"], "us", r["grade"], r, r["failed"], None, tuple(r["channels_accepted"])) for r in ROWS]
    designs = designs_of(rows, assumed=True)
    known = settled(rows, designs, assumed=True)
    found, nothing = fit(rows, [], known, rounds=1), fit([], [], known, rounds=1)
    assert nothing.values == PRIORS and all(v > 0 for n, v in found.values.items() if PRIORS[n] > 0)
    assert all(found.values[c.name] == c.prior for c in TABLE if c.spread == 0) and found.loss < 10


def test_no_row_that_ends_otherwise_has_all_of_the_say() -> None:
    safe, lost = (cells(name, "", design__norm_type="none", optimizer__lr=0.3, optimizer__weight_decay=0.0) for name in ("safe", "lost"))
    rows = [Row(r["id"], "us", "A", r, failed, None, ()) for r, failed in ((safe, False), (lost, True))]
    known = settled(rows, designs_of(rows, assumed=True), assumed=True)
    assert fit(rows, [], known, rounds=0).loss == pytest.approx(-math.log(STRAY) - math.log(1 - STRAY), abs=0.1)


def test_published_rows_are_read_and_their_baselines_are_those_that_are_known() -> None:
    rows, pairs = rows_of(shared("outcomes", "outcomes.jsonl")), pairs_of(shared("outcomes", "pairs.jsonl"))
    assert len(rows) == 132 and len(pairs) == 55 and sum(p.gate is not None for p in pairs) > 5
    for row in rows:
        row.recipe(assumed=False), row.recipe(assumed=True)
    said = predict(rows, {r.id: designs_of([], assumed=True).get(r.id, _nothing()) for r in rows}, assumed=True)
    found = figures(rows, said, RISKY)
    assert round(found.baselines["K's step 1: output-normalised"].balanced or 0, 2) == 0.68 and found.table.balanced is None


def _nothing() -> Any:
    from screen.outcomes.build import Design

    return Design(reason="not built here")


def test_the_page_holds_every_constant() -> None:
    page = (ROOT / "docs" / "outcomes.md").read_text(encoding="utf-8")
    for c in TABLE:
        assert f"| {c.name} | {c.value:g} | {c.prior:g} | {c.spread:g} | {c.unit} | {c.source} | {c.moved_by} | {c.against} |" in page
    assert f"from a risk of {RISKY:g} " in page


def test_runs_of_the_atlas_are_judged_by_their_cells(tmp_path: Path) -> None:
    base = {"design": "post", "depth": 2, "width": 32, "task": "chain", "seed": 1, "part": "unseen", "final": 1.0, "best": 1.0, "rise": 0.0}
    lines = [{**base, "id": f"r{lr}", "lr": lr, "trained": lr < 0.1, "outcome": "learned" if lr < 0.1 else "diverged"} for lr in (1e-3, 1.0)]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {**lines[0], "id": "seen", "part": "fit", "lr": 3.0}]))
    result = CliRunner().invoke(main, ["score", "--runs", str(tmp_path / "runs.jsonl"), "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["runs"]["runs"] == 2 and found["runs"]["balanced"] == 1.0, result.output
    recipe = recipe_of(cell_of({**lines[0], "warmup": 0.3, "precision": "fp16"}))
    assert (recipe.warmup_steps, recipe.precision, recipe.params_precision) == (30, "float16", "float32")


def test_kappa_may_be_measured_on_the_task_of_a_run(tmp_path: Path) -> None:
    cell = cell_of({"design": "post", "depth": 2, "width": 32, "task": "chain", "seed": 1, "lr": 1e-2})
    found, derived = kappa(cell), design_of(cell.design, cell.depth, cell.width, cell.init).streams
    model, ids = model_of(replace(cell, seed=0)).double(), batches("chain", 0)[:BATCHES].flatten(0, 1)  # again, with torch's own Adam
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-7, eps=1e-30)
    before = model.stack(ids).detach()  # type: ignore[operator]
    torch.nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimiser.step()
    moved = (model.stack(ids) - before).detach()  # type: ignore[operator]
    assert found == pytest.approx(float(moved.norm() / before.norm()) / 1e-7, rel=1e-3)
    assert derived[0].kappa is not None and 1 / 3 < found / derived[0].kappa < 3
    assert [f.kappa for f in measured("post", 2, 32, "fan_in", "chain")] == [found] * len(derived)


def test_what_the_first_steps_do_to_tokens_moves_the_risk_and_the_rate() -> None:
    """Post-norm over rates: one at which all tokens become one fails, one at which they stay apart does not, and the rate lies between."""
    rows = [{"design": "post", "depth": 2, "width": 32, "task": "chain", "seed": 1, "lr": lr} for lr in (3e-3, 1.0)]
    plain, known = (predictor_of(rows, measure=measure) for measure in (False, True))
    low, high = (known(row) for row in rows)
    assert low.risk is not None and high.risk is not None and low.tolerated == high.tolerated and 3e-3 < (low.tolerated or 0) < 1
    assert low.risk < (plain(rows[0]).risk or 0) and (plain(rows[1]).risk or 1) < high.risk
    assert not low.fails(3e-3) and high.fails(1.0)
    assert (plain(rows[0]).risky, low.risky) == (EXPECTED, FAILS_FROM)


def test_folds_between_rates_that_were_tried_lie_on_a_line_and_never_fall() -> None:
    steps = FirstSteps(((math.log(0.01), 2.0), (math.log(0.1), 1.0), (math.log(1.0), 9.0)))
    assert [steps.at(lr) for lr in (1e-3, 0.01, 0.05, 0.1, 10.0)] == pytest.approx([2, 2, 2, 2, 9]) and steps.at(0.1**0.5) == pytest.approx(5.5)
    risks = [steps.told(0.3, lr) for lr in (0.01, 0.1, 0.3, 1.0)]
    assert risks == sorted(risks) and risks[0] < 0.3 < risks[-1]
    assert FirstSteps(((0.0, FOLDS_EVEN),)).told(0.3, 1e-3) == pytest.approx(0.3)
