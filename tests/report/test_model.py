"""The report's schema is the contract's: its fields, what they allow, and that nothing else gets in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from screen.facts.claims import claims_of
from screen.report.build import tool
from screen.report.paths import relative
from screen.report.schema import Report
from screen.recipe import Recipe
from tests import handmade as h
from tests.report.test_report import full, report_of

CONTRACT: dict[str, set[str]] = {
    "": {"schema_version", "tool", "verdict", "provisional", "summary", "error", "target", "channels", "conditions", "streams", "findings",
         "coverage", "probe"},
    "tool": {"name", "version", "python", "torch", "libraries"},
    "target": {"spec", "kind", "model_class", "parameters", "dtype", "depth", "depth_from", "weights", "changed"},
    "channels.0": {"id", "state", "reason", "codes", "conditions", "risk"},
    "conditions.0": {"id", "text", "needed_by", "recipe"},
    "streams.0": {"name", "role", "width", "depth", "embed_norm", "embed_scale", "embed_factor", "final_norm", "identity_path", "kinds"},
    "streams.0.identity_path": {"exists", "gain", "norms_crossed"},
    "streams.0.kinds.0": {"id", "count", "layers", "module", "sublayers"},
    "streams.0.kinds.0.sublayers.0": {"name", "role", "placement", "positions", "norm_type", "qk_norm", "v_norm", "parallel_group", "residual", "m",
                                      "degrees", "output_set", "growth", "lipschitz", "logits", "source"},
    "streams.0.kinds.0.sublayers.0.residual": {"kind", "alpha", "branch"},
    "streams.0.kinds.0.sublayers.0.m": {"maps", "distinct", "degree", "min_degree", "path", "convention"},
    "streams.0.kinds.0.sublayers.0.output_set": {"bounded", "hamiltonian", "bound"},
    "streams.0.kinds.0.sublayers.0.growth": {"form", "expression", "value"},
    "streams.0.kinds.0.sublayers.0.lipschitz": {"expression", "value"},
    "streams.0.kinds.0.sublayers.0.logits": {"bounded", "expression"},
    "streams.0.kinds.0.sublayers.0.source": {"file", "line", "module"},
    "findings.0": {"code", "name", "step", "channel", "severity", "outcome", "message", "basis", "stream", "kind", "sublayer", "module", "file",
                   "line", "node", "theorem", "assumptions", "numbers", "remedy"},
    "coverage": {"ops", "ops_modelled", "unmodelled", "guesses", "stamped", "modules_uncalled", "rules_not_run"},
    "coverage.guesses.0": {"file", "line", "assumed"},
}  # fmt: skip
"""Path into the report to the keys that stand in the contract there."""


def data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report_of(full()).to_json())
    return found


@pytest.mark.parametrize("path", CONTRACT)
def test_the_contract_keys_are_there(path: str) -> None:
    here: Any = data()
    for step in filter(None, path.split(".")):
        here = here[int(step)] if step.isdigit() else here[step]
    assert CONTRACT[path] <= set(here)


def test_the_schema_accepts_every_report_and_refuses_more() -> None:
    schema = Report.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for make in (*h.ALL.values(), full):
        jsonschema.validate(json.loads(report_of(make()).to_json()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data(), "surprise": 1}, schema)
    with pytest.raises(ValidationError):
        Report.model_validate({**data(), "verdict": "fine"})


def test_what_is_derived_stands_in_the_report() -> None:
    for stream in report_of(h.peri()).streams:
        for sublayer in (s for k in stream.kinds for s in k.sublayers):
            assert sublayer.m.degree == sublayer.m.maps and sublayer.m.min_degree == 0
            assert sublayer.degrees is not None and {d.status for d in sublayer.degrees.values()} == {"exact"}
            assert (sublayer.output_set.bounded, sublayer.growth.form) == ("yes", "linear")
            assert sublayer.logits.bounded == ("yes" if sublayer.role == "attention" else "not_applicable")


def test_what_is_not_derived_is_null_or_unknown() -> None:
    facts = replace(h.pre(), analyses={}, recursions=())
    for stream in report_of(replace(facts, claims=claims_of(facts))).streams:
        assert stream.initialisation is None
        for sublayer in (s for k in stream.kinds for s in k.sublayers):
            assert (sublayer.m.distinct, sublayer.m.degree, sublayer.m.min_degree, sublayer.degrees) == (None, None, None, None)
            assert sublayer.output_set.bounded == "unknown"


def test_lists_stand_in_data_flow_order() -> None:
    report = report_of(h.hybrid())
    assert [k.layers for k in report.streams[0].kinds] == [[(0, 1)], [(2, 7)]]
    assert [s.name for s in report.streams[0].kinds[1].sublayers] == ["ssm", "moe"]


def test_stamped_members_are_counted() -> None:
    (stamped,) = report_of(full()).coverage.stamped
    assert (stamped.container, stamped.members, stamped.ran) == ("blocks", 3, [0])


def test_versions_come_from_metadata() -> None:
    assert tool().name == "screen"
    assert tool().torch


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/work/p/model.py", "model.py"),
        ("/work/p/sub/model.py", "sub/model.py"),
        ("/work/q/model.py", "../q/model.py"),
        ("/work/p/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", "torch/nn/modules/linear.py"),
        ("/usr/lib/python3/dist-packages/torch/x.py", "torch/x.py"),
        ("/opt/lib/python3.11/functools.py", "python3.11/functools.py"),
        ("model.py", "model.py"),
        ("", None),
        ("<string>", None),
    ],
)
def test_files_are_relative(file: str, expected: str | None) -> None:
    assert relative(file, "/work/p") == expected


def test_a_recipe_refuses_what_it_does_not_know() -> None:
    assert Recipe(weight_decay=0.1, betas=(0.9, 0.95)).weight_decay == 0.1
    for wrong in ({"wd": 0.1}, {"lr": -1}, {"depth": 0}, {"precision": "int8"}):
        with pytest.raises(ValidationError):
            Recipe.model_validate(wrong)
    assert all(f.description for f in Recipe.model_fields.values())
