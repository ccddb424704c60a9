"""The verdict: the worst of the channels, what opens them, what is unknown and why, and which conditions are named."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from screen.facts.claims.claim import Claim, Claims, Measured
from screen.facts.record import Facts
from screen.graph import Failure, Graph
from screen.recipe import Recipe
from screen.report.build import Request, assemble
from screen.rule import Outcome, RuleFault
from screen.structure.types import Coverage, Kind, QKNorm, Unknown, UnmodelledOp
from screen.verdict.channels import ORDER, Verdict, _because, fold, guess_decides, reasons_not_to_judge, worst
from screen.verdict.conditions import CONDITIONS, NOT_STATED, under
from screen.verdict.discover import catalogue, collect, lookup, run_rules
from screen.verdict.state import ChannelState
from screen.verdict.summary import summarise
from tests import handmade as h
from tests.shared import ROOT


def judge(facts: Facts, info: h.TargetInfo | None = None, **options: bool) -> Verdict:
    return fold(facts, run_rules(facts), info or h.TargetInfo(), **options)


def with_ops(facts: Facts, *ops: str) -> Facts:
    """The same with these ops in the graph, in place of its last ones."""
    nodes = list(facts.graph.nodes)
    for i, op in enumerate(ops, 1):
        nodes[-i] = replace(nodes[-i], op=op)
    graph: Graph = replace(facts.graph, nodes=tuple(nodes))
    return replace(facts, graph=graph)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pre", "conditional"), ("llama", "conditional"), ("post", "conditional"), ("peri", "stable"), ("parallel", "conditional"),
        ("none", "unstable"), ("unknown", "unknown"), ("encoder_decoder", "conditional"), ("hybrid", "unknown"),
    ],
)  # fmt: skip
def test_verdicts(name: str, expected: str) -> None:
    verdict = judge(h.ALL[name]())
    assert verdict.verdict == expected
    assert not verdict.provisional


def test_conditional_names_its_conditions() -> None:
    verdict = judge(h.pre())
    assert [(c.id, c.needed_by) for c in verdict.conditions] == [("bounded-weights", ("R201",)), ("bounded-logits", ("L201",))]
    assert all(c.text == CONDITIONS[c.id] for c in verdict.conditions)


def test_every_condition_that_a_rule_names_has_a_text() -> None:
    named = set(re.findall(r'condition="([a-z0-9-]+)"', "".join(p.read_text() for p in (ROOT / "rules").glob("*.py"))))
    assert named and named <= set(CONDITIONS)


def test_a_rule_that_did_not_run_is_no_pass() -> None:
    facts = h.peri()
    run = run_rules(facts)
    assert fold(facts, run, h.TargetInfo()).verdict == "stable"
    broken = replace(run, not_run=(RuleFault("R201", "its check raised"),))
    verdict = fold(facts, broken, h.TargetInfo())
    assert verdict.verdict == "unknown" and "R201" in verdict.summary


def test_a_program_that_is_not_the_module_closes_nothing() -> None:
    facts = h.peri()
    for what, channels in (("its values are", set("DRL")), ("its gradients are", {"D"})):
        claim = Claim("replay", "start", "measured", True, reason=f"{what} not those of the module", measured=Measured(False, False))
        told = replace(facts, claims=Claims((*facts.claims.all, claim)))
        before, after = ({c.id for c in judge(f).channels if c.state == "unknown"} for f in (facts, told))
        assert after - before == channels and judge(told).verdict == "unknown"


def test_a_channel_of_which_no_rule_had_anything_to_judge_is_unknown() -> None:
    facts = h.peri()
    found = run_rules(facts)
    of_none = tuple(replace(f, outcome=Outcome("not_applicable", "")) if f.rule.channel == "R" else f for f in found.findings)
    silent = replace(found, findings=of_none)
    state = next(c for c in fold(facts, silent, h.TargetInfo()).channels if c.id == "R")
    assert state.state == "unknown" and "had anything to judge" in state.reason


def test_no_stream_is_unknown() -> None:
    verdict = judge(h.facts())
    assert verdict.verdict == "unknown"
    assert "no residual stream found" in verdict.summary


def test_branches_without_a_block_are_not_judged() -> None:
    facts = h.peri()
    bare = replace(facts, streams=(replace(facts.streams[0], kinds=()),))
    assert judge(facts).verdict == "stable" and not any("no block was found" in reason for reason in reasons_not_to_judge(facts))
    read = replace(bare, readers=(SimpleNamespace(branches=[1]),))  # type: ignore[arg-type]
    assert "no block was found that they stand in" in reasons_not_to_judge(read)[0]
    assert not any("no block" in reason for reason in reasons_not_to_judge(replace(bare, readers=())))


def test_a_failed_trace_is_unknown_even_without_norms() -> None:
    facts = replace(h.none(), graph=h.blank_graph(failure=Failure("boom", h.FILE, 3)))
    assert judge(facts).verdict == "unknown"


def test_of_a_program_that_did_not_run_to_its_end_no_learning_rate_is_told() -> None:
    half = replace(h.pre(), graph=replace(h.pre().graph, failure=Failure("boom", h.FILE, 3)))
    assert judge(h.pre()).limits and judge(half).limits == ()


def test_an_unmodelled_op_counts_on_a_stream_alone() -> None:
    for on_stream, expected in ((True, "unknown"), (False, "conditional")):
        coverage = Coverage(9, 8, (UnmodelledOp("mystery", 1, on_stream, h.place(5)),))
        assert judge(replace(h.pre(), coverage=coverage)).verdict == expected


def test_a_guess_counts_where_it_decides() -> None:
    facts = h.pre()
    branch = facts.streams[0].kinds[0].sublayers[0].output
    assert judge(replace(facts, guessed_nodes=frozenset({branch}))).verdict == "unknown"
    beside = replace(facts, guessed_nodes=frozenset({63}))
    assert not guess_decides(beside)
    assert judge(beside).verdict == "conditional"


def test_a_guess_makes_no_model_unstable() -> None:
    assert judge(replace(h.none(), guessed_nodes=frozenset({8}))).verdict == "unknown"


def test_one_bare_stream_beside_a_good_one_is_unstable() -> None:
    good, bad = h.pre().streams[0], replace(h.none().streams[0], name="stream2")
    verdict = judge(h.facts(good, bad))
    assert verdict.verdict == "unstable"
    assert "stream2" in verdict.summary


def test_reasons_name_the_sublayer_and_the_op() -> None:
    reasons = reasons_not_to_judge(h.unknown())
    assert any("`bessel_j0`" in r and "lies on a stream" in r for r in reasons)
    assert any("`attention`" in r for r in reasons)


def test_channels_are_seven_and_honest() -> None:
    channels = {c.id: c for c in judge(with_ops(h.none(), "softmax")).channels}
    assert list(channels) == list("DRLOINS")
    assert {c: channels[c].state for c in "RDL"} == {"R": "open", "D": "open", "L": "open"}
    assert channels["R"].codes == ("G105", "R101", "R201", "R301", "R401")
    assert {channels[c].state for c in "OINS"} == {"out_of_scope"}
    assert all(c.reason for c in channels.values())


def test_logits() -> None:
    def state(facts: Facts) -> str:
        return next(c.state for c in judge(facts).channels if c.id == "L")

    assert state(h.pre()) == "conditional"
    assert state(h.peri()) == "closed"
    assert state(h.facts(h.stream(h.kind(h.sublayer("ffn"))))) == "closed"  # no softmax at all


def test_float16_streams_are_conditional_in_numerics() -> None:
    facts = h.pre()
    half = replace(facts, streams=(replace(facts.streams[0], dtype="float16"),))
    assert next(c.state for c in judge(half).channels if c.id == "N") == "conditional"


@pytest.mark.parametrize("order", [ORDER, tuple(reversed(ORDER))])
def test_the_worst_of_several(order: tuple[str, ...]) -> None:
    assert worst(list(order)) == "unstable"  # type: ignore[arg-type]
    assert worst(["conditional", "unknown"]) == "unknown"
    assert worst(["stable", "conditional"]) == "conditional"


def test_a_block_target_is_stacked_as_often_as_said() -> None:
    facts, info = h.facts(h.stream(h.kind(h.sublayer(), count=1))), h.TargetInfo(block=True)
    assumed = judge(facts, info, depth_assumed=True)
    assert [c.id for c in assumed.conditions][-1] == "depth-assumed"
    assert "final norm" not in assumed.summary
    run = run_rules(facts)
    for depth, expected in ((None, (24, "assumed")), (48, (48, "option"))):
        report = assemble(facts, run, assumed, info, Request("m.py::Block", depth=depth, root=h.ROOT))
        assert (report.target.depth, report.target.depth_from) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pre", "Model: 12 blocks of [attention pre, FFN pre], LayerNorm, final norm"),
        ("post", "Model: 12 blocks of [attention post, FFN post], LayerNorm, embedding norm"),
        ("parallel", "Model: 12 blocks of [attention pre ∥ FFN pre], LayerNorm, final norm"),
        ("peri", "Model: 26 blocks of [attention peri, gated FFN peri], RMSNorm, QK-norm per head, scaled embedding, final norm"),
    ],
)
def test_summaries(name: str, expected: str) -> None:
    assert judge(h.ALL[name]()).summary == expected


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        ([("none", "per_head")] * 2, "K-norm per head, "),
        ([("full", "none")] * 2, "Q-norm over the full width, "),
        ([("none", "cosine"), ("none", "none")], "L2-normalised K alone in some layers, "),
        ([("none", Unknown("an op without a row")), ("none", "per_head")], "K-norm per head, "),
        ([("none", "none")] * 2, ""),
    ],
)
def test_a_norm_on_one_side_of_the_logits_is_said(norms: list[tuple[QKNorm | Unknown, QKNorm | Unknown]], expected: str) -> None:
    kinds = [h.kind(replace(h.sublayer(), q_norm=q, k_norm=k), h.sublayer("ffn"), count=6) for q, k in norms]
    summary = judge(h.facts(h.stream(*kinds))).summary.split(";")[0]
    assert summary == f"Model: 12 blocks of [attention pre, FFN pre], LayerNorm, {expected}final norm"


def test_stages_of_a_pyramid_are_said_together() -> None:
    stages = [h.stream(h.kind(h.sublayer(), h.sublayer("ffn"), count=n), name=f"stream{i}", role="stream") for i, n in enumerate((2, 6, 2), 1)]
    summary = judge(h.facts(*stages)).summary
    assert summary == "Model: stream1 to stream3: 2 + 6 + 2 blocks of [attention pre, FFN pre], LayerNorm, final norm"


def test_rules_that_were_left_out_by_choice_close_nothing() -> None:
    facts, known = h.peri(), catalogue()
    chosen = replace(known, rules=tuple(r for r in known.rules if r.rule.channel != "L"))
    verdict = fold(facts, run_rules(facts, chosen), h.TargetInfo())
    state = next(c for c in verdict.channels if c.id == "L")
    assert verdict.verdict == "conditional" and [c.id for c in verdict.conditions] == ["rules-left-out"]
    assert state.state == "conditional" and "L201" in state.reason


@pytest.mark.parametrize(
    ("condition", "recipe", "met", "said"),
    [
        ("bounded-weights", Recipe(), "not_stated", ""),
        ("bounded-weights", Recipe(weight_decay=0.0), "not_met", "do not decay"),
        ("bounded-weights", Recipe(weight_decay_on=True), "met", "weight decay on"),
        ("bounded-weights", Recipe(optimizer="adamw", weight_decay=0.1, lr=1e-3), "met", "weight decay 0.1, decoupled, 0.0001 of a weight per step"),
        ("bounded-weights", Recipe(decoupled=False, weight_decay=0.1), "met", "a part of the gradient (L2)"),
        ("bounded-logits", Recipe(qk_clip=100.0), "met", "QK-clip at 100"),
        ("bounded-logits", Recipe(weight_decay=0.1), "met", "weight decay 0.1"),
        ("learned-scale", Recipe(weight_decay=0.0), "not_met", "do not decay"),
        ("warm-up", Recipe(), "not_stated", ""),
        ("warm-up", Recipe(warmup_steps=0), "not_met", "no warm-up (0 steps)"),
        ("warm-up", Recipe(warmup_steps=2000, lr=1e-3), "met", "2,000 steps to a peak of 0.001"),
        ("warm-up", Recipe(warmup_fraction=0.1), "met", "0.1 of all steps"),
        ("warm-up", Recipe(warmup_tokens=10**6), "met", "1,000,000 tokens"),
        ("float16-range", Recipe(), "not_stated", ""),
        ("float16-range", Recipe(precision="float16"), "not_met", "activations in float16"),
        ("float16-range", Recipe(precision="bfloat16"), "met", "activations in bfloat16"),
        ("run-time-scale", Recipe(weight_decay=0.1), "not_stated", ""),
    ],
)
def test_what_a_recipe_says_of_a_condition(condition: str, recipe: Recipe, met: str, said: str) -> None:
    found = under(condition, recipe)
    assert found.recipe == met and said in found.stated and (found == NOT_STATED) == (said == "")


def test_a_rule_of_another_distribution_has_a_code_of_theirs_and_a_fault_names_it() -> None:
    ours, gone = "screen.rules.depth_scale", "no_such_rule_at_all"
    found = collect([ours, gone], {ours: "theirs", gone: "theirs"})
    assert found.rules == () and all("of the distribution `theirs`" in fault.reason for fault in found.faults)
    assert "not reserved for other distributions" in found.faults[0].reason and "does not load" in found.faults[1].reason


def test_a_rule_is_found_by_its_code_or_its_name() -> None:
    for text in ("r201", " R201 ", "output-set-bounded"):
        assert (found := lookup(text)) is not None and found.rule.code == "R201"
    assert lookup("R2") is None


def test_a_check_that_runs_out_of_memory_is_no_fault_of_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(facts: Facts) -> tuple[Outcome, ...]:
        raise error

    one = replace(catalogue(), rules=(replace(catalogue().rules[0], check=check),))
    error: BaseException = MemoryError()
    with pytest.raises(MemoryError):
        run_rules(h.pre(), one)


def test_the_sentence_says_what_is_not_known_and_what_the_data_gate() -> None:
    stream = h.pre().streams[0]
    unknown = Unknown("it is another module's")
    (attention, *others), kind = stream.kinds[0].sublayers, stream.kinds[0]
    gated = replace(attention, qk_norm=unknown, branch=replace(attention.branch, kind="data"))
    side = replace(attention, q_norm=unknown)
    for first in (gated, side):
        told = summarise(h.facts(replace(stream, kinds=(replace(kind, sublayers=(first, *others)),), final_norm=unknown)), "GPT")
        assert "QK" not in told and "norm per head" not in told and told.endswith("final norm unknown")
        assert ("branch gated by the data" in told) == (first is gated)


def test_a_stream_ends_in_a_norm_where_its_last_sublayer_has_one_on_the_sum() -> None:
    """Of the last kind of block, and of no other sublayer of it."""
    pre, post = h.sublayer("attention", "pre"), h.sublayer("ffn", "post", at=20)

    def told(*kinds: Kind) -> bool:
        return "no final norm" in summarise(h.facts(h.stream(*kinds, final_norm=False)), "Model")

    one, two = h.kind(pre, post, count=6), h.kind(post, pre, count=6, first=6, id_="k1", module="blocks.6")
    assert (told(one), told(two), told(one, two), told(two, one)) == (False, True, True, False)


def test_stages_of_one_block_say_nothing_of_their_ends() -> None:
    stream = h.pre().streams[0]
    facts = h.facts(stream, replace(stream, name="second"))
    assert summarise(facts, "Net").endswith("final norm")
    assert summarise(facts, "Net") == summarise(facts, "Net", block=True) + ", final norm"


def test_a_channel_names_the_rules_that_apply_and_no_other() -> None:
    facts = h.pre()
    run = run_rules(facts)
    idle = {f.rule.code for f in run.findings if f.outcome.result == "not_applicable"}
    named = {code for channel in fold(facts, run, h.TargetInfo(), None).channels for code in channel.codes}
    assert idle and named and not named & (idle - {f.rule.code for f in run.findings if f.outcome.result != "not_applicable"})


def test_the_reason_of_a_verdict_is_that_of_a_channel_that_is_open() -> None:
    fine, grows, doubt = ("D", "closed", "It is fine."), ("R", "open", "The stream grows."), ("L", "unknown", "Nobody knows.")
    channels = (ChannelState(*fine), ChannelState(*grows), ChannelState(*doubt))
    assert _because("unstable", channels, ()) == "the stream grows"
    assert _because("unknown", channels, ()) == "nobody knows" and _because("unknown", channels, ("a doubt",)) == "a doubt"


def test_a_norm_on_the_mean_over_places_is_a_final_norm() -> None:
    stream = h.stream(h.kind(h.sublayer()), final_norm=False, pooled_norm=True)
    assert "final norm on the mean over places" in summarise(h.facts(stream), "Model")
