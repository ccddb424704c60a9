"""`--width`: which fields of a config go with the hidden size, and what is measured narrower because it does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from screen.capture.build.build import build
from screen.capture.build.sizes import Sizes
from screen.capture.build.width import same_ops, sizes_of, traced
from screen.command.cli import main
from screen.errors import UsageError
from screen.graph.target import parse
from screen.probe.budget.narrower import advised, filled, is_lost, reduced, without_the_rest
from screen.probe.plan.types import BlockPlan, ProbePlan, SublayerPlan

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]

pytest.importorskip("transformers")
SMALL = {"num_hidden_layers": 2, "vocab_size": 80}
GQA = {**SMALL, "hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 8}


def changed(kind: str, width: int, **settings: Any) -> dict[str, Any]:
    """New values of the fields that a width changes, without those that were set."""
    model = build(parse(f"hf:{kind}"), set=settings, inputs=(), depth=None, width=width)[0]
    return {k: new for k, (_, new) in model.info.changed.items() if settings.get(k) != new}


TRUTH = [
    ("llama", 48, GQA, {"hidden_size": 48, "intermediate_size": 128, "num_attention_heads": 6, "num_key_value_heads": 2}),
    ("llama", 192, GQA, {"hidden_size": 192, "intermediate_size": 512, "num_attention_heads": 24, "num_key_value_heads": 8}),
    ("gpt2", 128, {"n_layer": 2}, {"n_embd": 128, "n_head": 2}),
    ("t5", 128, {"num_layers": 2, "num_decoder_layers": 2}, {"d_model": 128, "d_ff": 512, "num_heads": 2}),
    (
        "deepseek_v3", 448, {**SMALL, "n_routed_experts": 16, "first_k_dense_replace": 1},
        {"hidden_size": 448, "intermediate_size": 1152, "moe_intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 8,
         "kv_lora_rank": 32, "q_lora_rank": 96},
    ),
    ("mamba", 64, SMALL, {"hidden_size": 64, "intermediate_size": 128, "time_step_rank": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "width", "settings", "fields"), TRUTH)
def test_fields_that_go_with_the_width(kind: str, width: int, settings: dict[str, Any], fields: dict[str, int]) -> None:
    assert changed(kind, width, **settings) == fields


def test_what_is_set_is_set_before() -> None:
    assert changed("llama", 48, **{**GQA, "intermediate_size": 64})["intermediate_size"] == 32


def test_the_narrow_program_is_the_same() -> None:
    wide, narrow = (build(parse("hf:llama"), set=GQA, inputs=(), depth=None, width=w)[0] for w in (None, 48))
    one, other = traced(wide), traced(narrow)
    assert same_ops(one, other)
    last = other.nodes[-1]
    assert not same_ops(one, replace(other, nodes=(*other.nodes[:-1], replace(last, op="another"))))
    assert narrow.sizes is not None and narrow.sizes().step == 24


@pytest.mark.parametrize("width", [1, 47, 50])
def test_heads_stay_whole(width: int) -> None:
    with pytest.raises(UsageError, match=r"a multiple of 24.*`--width (24|48)` does"):
        changed("llama", width, **GQA)


def test_a_program_that_becomes_another_names_the_field() -> None:
    """With one head a transpose needs no copy: the ops differ, and they would not if the heads were left as they are."""
    with pytest.raises(UsageError, match=r"same program with hidden size 16.*`num_attention_heads` could not be set to 1"):
        changed("gpt_neox", 16, hidden_size=64, intermediate_size=64, num_attention_heads=4, num_hidden_layers=1)


def test_only_a_config_has_a_width(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "examples/pre.py", "--width", "64"]) == 2
    assert "`--set`" in capsys.readouterr().err


def test_lists_and_single_heads() -> None:
    found = Sizes(64, {"hidden_sizes": [64, 128]}, {"num_heads": [1, 2, 4], "kv": 1}).settings(32)
    assert found == {"hidden_sizes": [32, 64], "num_heads": [1, 1, 2], "kv": 1}
    assert Sizes(64, {}, {"num_heads": 1}).step == 1


def test_no_hidden_size() -> None:
    with pytest.raises(UsageError, match="has none"):
        sizes_of(parse("hf:resnet"), {})


def test_the_report_lists_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "hf:gpt2", "--width", "128", "--set", "n_layer=2", "--format", "json"])
    target = json.loads(capsys.readouterr().out)["target"]
    assert code in (0, 1) and target["changed"] == {"n_embd": [768, 128], "n_head": [12, 2], "n_layer": [12, 2]}
    assert target["options"][-2:] == ["--width", "128"]


@pytest.mark.parametrize(
    ("own", "step", "width"), [(4096, 128, 512), (4096, 512, 1024), (768, 64, 512), (512, 64, None), (7168, 56, 504), (96, 96, None)]
)
def test_the_reduced_width(own: int, step: int, width: int | None) -> None:
    assert reduced(own, step) == width


def part(name: str, outcome: str, reason: str = "", what: str = "w", sublayer: str = "", group: str = "") -> dict[str, Any]:
    here = {"stream": "s", "kind": "k", "sublayer": sublayer, "group": group}
    return {"name": name, "what": what, "outcome": outcome, "reason": reason, **here, "numbers": {}}


def test_what_was_lost_is_filled_in_its_place() -> None:
    late = "beyond `--probe-seconds`, by counted work"
    wide = [
        part("start", "observed"),
        part("invariance", "confirmed", sublayer="a", group="w[0:8]"),
        part("invariance", "not_measured", late, sublayer="a", group="w[8:16]"),
        part("invariance", "not_measured", "no prediction", sublayer="a", group="v"),
        part("depth", "not_measured", late, what="the stack"),
    ]
    narrow = [
        part("start", "observed"),
        part("invariance", "refuted", sublayer="a", group="w[0:4]"),
        part("invariance", "confirmed", sublayer="a", group="w[4:8]"),
        part("depth", "observed", what="rms"),
        part("depth", "confirmed", what="ratio"),
    ]
    found = filled(wide, narrow, 4, 8)
    assert [e["outcome"] for e in found] == ["observed", "confirmed", "confirmed", "not_measured", "observed", "confirmed"]
    assert found[2]["group"] == "w[8:16]" and found[2]["reason"] == "at width 4 in place of 8" and found[2]["numbers"]["width"] == 4
    assert [e["what"] for e in found[4:]] == ["rms", "ratio"] and found[3] is wide[3]
    assert filled(wide, [], 4, 8) == wide
    assert advised(wide, "try")[4]["reason"].endswith("; try") and advised(wide, "try")[:2] == wide[:2]
    assert [is_lost(e) for e in wide] == [False, False, True, False, True]


def test_only_what_was_lost_is_planned_again() -> None:
    def sub(name: str) -> SublayerPlan:
        return SublayerPlan("s", "k", name, 1, 0, (), (), (), (), ())

    block = BlockPlan("s", "k", 0, 1, 1, 1, (), (), True, None)
    plan = ProbePlan(2, "", (sub("a"), sub("b")), (block,))
    lost = part("bounds", "not_measured", "too large: …", sublayer="b")
    cut = without_the_rest(plan, [lost, part("depth", "not_measured", "too large: …"), part("start", "observed")])
    assert cut.sublayers == plan.sublayers and cut.blocks == plan.blocks  # precision reads the bounds of all
    assert cut.only == (("bounds", "s", "k", "b"), ("depth", "s", "k", "")) and cut.asks("bounds", "s", "k", "b")
    assert not cut.asks("bounds", "s", "k", "a") and not cut.asks("start", "s", "k", "") and plan.asks("start", "s", "k", "")


def test_a_block_beyond_the_memory_is_measured_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way, in this process: what is too large at width 128 is planned anew and measured at 64."""
    from screen.child.in_process import capture
    from screen.pipeline.stages import job_of, judge
    from screen.probe.budget import narrower as width
    from screen.settings import Settings

    monkeypatch.setattr(width, "NARROW", 64)
    monkeypatch.setattr("screen.probe.budget.budget.room_of", lambda memory, device: 2.0e6)
    monkeypatch.setattr("screen.probe.run.room_of", lambda memory, device: 2.0e6)
    sizes = {**SMALL, "hidden_size": 128, "intermediate_size": 300, "num_attention_heads": 8, "num_key_value_heads": 4}
    settings = Settings(set=sizes, probe=True, device="cpu", probe_seconds=1e4)
    report = judge(job_of("hf:llama", settings), capture)[0].report
    assert report.probe is not None and report.probe.dtype == "float32"
    lost = [e for e in report.probe.experiments if e.reason.startswith("too large")]
    narrow = [e for e in report.probe.experiments if e.numbers.get("width")]
    assert not lost and {e.numbers["width"] for e in narrow} == {64.0} and {e.numbers["own_width"] for e in narrow} == {128.0}
    assert {"invariance", "bounds", "depth", "start"} <= {e.name for e in narrow}
    assert {e.outcome for e in narrow if e.name in ("invariance", "bounds")} == {"confirmed"}
    assert all(e.reason.startswith("at width 64 in place of 128") for e in narrow)
    assert {e.group for e in narrow if e.name == "invariance"} >= {"model.layers.0.mlp.up_proj.weight"}
