"""The first screen: what it says, in which order, in whose words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import pytest

from screen.errors import LoadError
from screen.recipe import Recipe, Stated
from screen.report import groups, render, words
from screen.report.answer import answer, line, rate
from screen.report.build import Request, assemble, not_judged, several
from screen.report.formats import text as text_format
from screen.report.formats.markdown import LIMIT
from screen.report.schema import ChangePart, ClaimPart, FindingPart, MeasuredPart, Report, SidesPart, State
from screen.structure.types import HollowNorm
from screen.verdict.channels import CHANNELS, fold
from screen.verdict.conditions import CONDITIONS
from screen.verdict.discover import run_rules
from screen.verdict.risk.constants import LARGEST
from tests import handmade as h
from tests.report.test_report import evil_report, full, report_of

JARGON = re.compile(r"Hamiltonian|identity path|‖|σ|row in the op table|N\^|Lipschitz|mean square|well-posed|\bλ\b")


def first_screen(report: Report) -> str:
    """The text above the tables."""
    return re.split(r"\n\n(?=stream |[^\n]*  width |coverage)", render(report, "text"))[0]


def test_every_channel_state_and_condition_has_plain_words() -> None:
    assert set(words.RISKS) == set(words.FAILURES) == set(CHANNELS)
    assert set(words.RISK_STATES) == set(get_args(State))
    assert set(words.CONDITIONS) == set(CONDITIONS)


@pytest.mark.parametrize("make", [h.pre, h.post, h.peri, h.none, h.parallel, h.llama])
def test_the_order_is_the_same_in_text_and_markdown(make: object) -> None:
    report = report_of(make())  # type: ignore[operator]
    said = answer(report)
    for format, parts in (
        ("text", ["what would help most", "findings", "what can go wrong", "\nstream", "\ncoverage"]),
        ("markdown", ["What would help most", "## Findings", "## What can go wrong", "## The four steps", "## Stream", "## Coverage"]),
    ):
        shown = render(report, format)
        parts = parts if said.changes else parts[1:]
        assert shown.lstrip("# ").lower().startswith(f"{report.verdict}: {said.verdict}".lower())
        places = [shown.index(part) for part in parts]
        assert places == sorted(places), (format, parts)


@pytest.mark.parametrize("name", h.ALL)
def test_the_first_screen_has_no_jargon_and_folds_nothing(name: str) -> None:
    report = report_of(h.ALL[name]())
    if report.verdict != "unknown":  # why something cannot be told speaks of ops and of what is derived
        assert not JARGON.findall(re.sub(r"`[^`]*`", "", first_screen(report)))
    above = render(report, "markdown").partition("## The four steps")[0]
    assert "<details>" not in above and "<summary>" not in above


def test_reasons_follow_from_states() -> None:
    conditional, unstable, unknown = (report_of(make()) for make in (h.pre, h.none, h.unknown))
    assert [r.verdict for r in (conditional, unstable, unknown)] == ["conditional", "unstable", "unknown"]
    assert answer(conditional).reason.startswith("Nothing in the code rules out that ")
    opened = next(c for c in unstable.channels if c.state == "open")
    assert answer(unstable).reason == next(f.said for f in unstable.findings if f.channel == opened.id and f.outcome == "violated")
    assert "no pass" in answer(unknown).verdict
    assert "; " in unstable.summary and answer(unstable).model == unstable.summary.partition("; ")[0]
    assert answer(conditional).model == conditional.summary
    met = conditional.model_copy(update={"conditions": [c.model_copy(update={"recipe": "met"}) for c in conditional.conditions]})
    assert answer(met).verdict == "expected to train with this recipe, which meets what that depends on"
    assert {r.said for r in answer(met).risks if r.state == "conditional"} == {"depends on training: the recipe meets that"}
    against = [c.model_copy(update={"recipe": "not_met" if c.id == "bounded-logits" else "met"}) for c in conditional.conditions]
    said = answer(conditional.model_copy(update={"conditions": against})).verdict
    logits = words.CONDITIONS["bounded-logits"]
    assert said == f"expected to train if {logits}; the recipe does not see to it that {logits}"


def test_logits_that_are_not_there_are_not_kept_in_check() -> None:
    report = report_of(h.peri())
    said = [r.said for r in answer(report).risks if "L" in r.ids]
    assert said == ["kept in check by the code: while gains of norms and temperatures stay of their size"]
    claims = [c.model_copy(update={"value": False}) if c.claim == "softmax" else c for c in report.claims]
    (said,) = (r.said for r in answer(report.model_copy(update={"claims": claims})).risks if "L" in r.ids)
    assert said.endswith("there are none, as nothing is weighed by a softmax")


def test_a_slip_is_the_reason_and_the_first_change() -> None:
    report = report_of(replace(h.pre(), hollow=(HollowNorm("it only multiplies", h.place(9, "blocks.3.nonorm")),)))
    said = answer(report)
    assert said.reason.startswith("A slip: ") and "it only multiplies" in said.reason
    assert said.changes[0].codes == ("G105",) and said.changes[0].places == ("model.py:19",)
    assert 1 < len(said.changes) <= 3


def test_a_change_stands_once_with_all_its_places() -> None:
    changes = answer(report_of(h.pre())).changes
    assert len({c.what for c in changes}) == len(changes)
    assert any(re.fullmatch(r"model\.py:\d+, \d+", c.places[0]) for c in changes)
    post = report_of(h.post())  # D101 is a note that proposes something too
    assert any(f.remedy and f.severity == "note" for f in post.findings if f.outcome == "violated")
    assert "D101" not in {code for c in answer(post).changes for code in c.codes}
    text = render(report_of(h.pre()), "text")
    assert text.count("R201 output-set-bounded") == 1 and "also `ffn` of layers 0–11 at model.py:" in text


def _rate(group: str, low: float, high: float, **fields: object) -> ClaimPart:
    return ClaimPart(id=group, claim="lr_max", group=group, low=low, high=high, weights="start", status="proved", **fields)  # type: ignore[arg-type]


def test_what_helps_elsewhere_by_itself_is_no_second_change() -> None:
    """Of one finding a norm or a decay, of another one the norm alone: one change, for both."""
    report = report_of(h.pre())
    [first] = [f for f in report.findings if f.code == "R201" and f.sublayer == "attention"]
    norm, _, decay = first.remedy.partition("; or ")
    assert norm and decay
    elsewhere = first.model_copy(update={"remedy": norm, "line": 999, "message": "another one"})
    findings = [*report.findings, elsewhere]
    changes = answer(report.model_copy(update={"findings": findings})).changes
    [told] = [c for c in changes if c.what.startswith(norm)]
    assert told.what == norm and any("999" in place for place in told.places)
    assert [c.what for c in answer(report).changes if c.what.startswith(norm)] == [first.remedy]


def test_tolerated_rates_are_told_smallest_first_and_only_where_they_are_known() -> None:
    derived = report_of(h.pre())
    groups = {c.group for c in derived.claims if c.claim == "lr_max"}
    free = {c.group for c in derived.claims if c.claim == "lr_max" and c.low == LARGEST}
    assert {"R", "L"} <= groups - free and {"D", "I"} <= free and len(answer(derived).rates) == len(groups - free) + 1
    order = dict.fromkeys(c.group or "" for c in derived.claims if c.claim == "lr_max" and c.group in free)
    assert answer(derived).rates[-1] == f"no limit up to 3e-1, the largest rate that was tried: {words.listed([words.RISKS[c] for c in order])}"
    report = derived.model_copy(update={"claims": [c for c in derived.claims if c.claim != "lr_max"]})
    assert answer(report).rates == () and "learning rate  " not in render(report, "text")
    claims = [
        _rate("L", 8e-3, 8e-3, reason="logit growth"),
        _rate("S", 1e-3, 9e-3, reason="first update, 24 blocks"),
        _rate("S", 2e-3, 9e-3, reason="first update, 12 blocks"),
        _rate("D", 1e-9, 1e-9, measured=MeasuredPart(value=1.0, agrees=False)),
        _rate("R", 1e-9, 1e-9).model_copy(update={"status": "unknown"}),
    ]
    report = report.model_copy(update={"claims": claims})
    first = "expected to train up to about 3e-3, between 1e-3 and 9e-3 (first update, 24 blocks)"
    rates = (first, "attention logits alone: up to about 8e-3 (logit growth)")
    assert answer(report).rates == rates
    whole = [_rate("all", 5e-4, 8e-3, value=2e-3, reason="logit growth"), *claims]
    first, *others = answer(report.model_copy(update={"claims": whole})).rates
    assert first == "expected to train up to about 2e-3, between 5e-4 and 8e-3 (largest risk: logit growth)" and len(others) == len(rates)
    (free,) = answer(report.model_copy(update={"claims": [_rate("all", LARGEST, LARGEST, value=LARGEST, reason="none")]})).rates
    assert free == "expected to train up to about 3e-1 (none)"
    nowhere = [_rate("all", 1e-8, 8e-3, value=2e-3)]
    (said,) = answer(report.model_copy(update={"claims": nowhere})).rates
    assert said == "expected to train up to about 2e-3, at most 8e-3, and none where all that is not stated is at its harshest"
    assert "learning rate  expected to train up to about 3e-3" in render(report, "text")
    assert "**Learning rate:** expected to train up to about 3e-3" in render(report, "markdown")
    assert [rate(v) for v in (3e-3, 1.5e-4, 0.1)] == ["3e-3", "1.5e-4", "1e-1"]


def _under(facts: h.Facts, recipe: Recipe) -> Report:
    run, info = run_rules(facts), h.TargetInfo()
    return assemble(facts, run, fold(facts, run, info, recipe), info, Request("model.py", root=h.ROOT, recipe=Stated(recipe, {}, {}, ())))


def test_both_sides_of_what_a_recipe_leaves_open_stand_on_the_first_screen() -> None:
    recipe = Recipe(optimizer="adamw", lr=1e-2, weight_decay=0.1, total_steps=100_000, precision="bfloat16", z_loss=0.0)
    report = _under(h.post(), recipe)
    (both,) = answer(report).sides
    assert re.fullmatch(r"warm-up, which is not stated: (conditional|stable) from [\d,]+ steps on, unstable below( [\d,]+ steps)?", both)
    text, page = render(report, "text"), render(report, "markdown")
    assert f"what decides   {both}" in text and f"**What decides:** {both}." in page and both in render(report, "html")
    edge = float(both.partition("from ")[2].partition(" steps")[0].replace(",", ""))
    below = _under(h.post(), recipe.model_copy(update={"warmup_steps": round(edge * 0.9)}))
    assert below.verdict == "unstable" and answer(below).sides == ()
    typed = report.recipe.decides[0].model_copy(update={"item": "precision", "kind": "bfloat16", "harsh": "float16", "holds_to": "bfloat16"})  # type: ignore[union-attr]
    other = report.model_copy(update={"recipe": report.recipe.model_copy(update={"decides": [typed]})})  # type: ignore[union-attr]
    third = report.recipe.decides[0].model_copy(update={"fails_from": 7.0})  # type: ignore[union-attr]
    other_too = report.model_copy(update={"recipe": report.recipe.model_copy(update={"decides": [third]})})  # type: ignore[union-attr]
    assert answer(other_too).sides[0].endswith(" steps on, unstable below 7 steps")
    assert answer(other).sides[0].endswith(f": {typed.when_kind} with bfloat16, {typed.when_harsh} with float16")


def test_a_learning_rate_that_is_larger_than_what_is_expected_to_train_is_told_beside_it() -> None:
    recipe = Recipe(optimizer="adamw", lr=1e-1, warmup_steps=2000, weight_decay=0.1, total_steps=100_000, precision="bfloat16", z_loss=0.0)
    failing = _under(h.post(), recipe)
    assert answer(failing).reason.startswith("Gradients vanish or explode over depth under this recipe (risk ")
    assert failing.verdict == "unstable" and answer(failing).rates[0].endswith("; the recipe's 1e-1 is above that")
    most = answer(failing).reason.partition("up to ")[2].partition(" ")[0]
    assert answer(failing).rates[0].startswith(f"expected to train up to about {most}")
    low = _under(h.post(), recipe.model_copy(update={"lr": float(most) / 2}))
    assert low.verdict == "stable" and "above that" not in answer(low).rates[0] and answer(low).verdict == "expected to train with this recipe"
    between = _under(h.post(), recipe.model_copy(update={"lr": float(most) * 1.15}))
    assert between.verdict == "stable" and answer(between).rates[0].endswith("is above that, where runs went both ways")
    assert answer(between).verdict == "not expected to fail with this recipe, but its learning rate leaves no room"
    open_head = answer(between.model_copy(update={"verdict": "conditional"}))  # its risk may be any
    assert open_head.rates[0].endswith("is above that")


def test_a_rate_beside_a_verdict_that_no_rate_mends_says_so() -> None:
    for report, said in ((report_of(h.none()), True), (_under(h.pre(), Recipe(optimizer="adamw", lr=1.0, weight_decay=0.0)), False)):
        claims = [_rate("all", 1e-3, 1e-3), *(_rate(c.id, LARGEST, LARGEST, value=LARGEST) for c in report.channels if c.state == "open")]
        assert report.verdict == "unstable"
        rates = answer(report.model_copy(update={"claims": claims})).rates
        assert (rates[0].startswith("no rate mends ") and "; with that mended expected to train up to about" in rates[0]) is said
        assert any(rate.startswith("no limit") for rate in rates) is not said, "what no rate mends has no limit either, and is not told twice"


def test_a_z_loss_is_there_or_not() -> None:
    report = _under(h.pre(), Recipe(lr=1e-3))
    part = SidesPart(item="z_loss", holds_to=9e-17, fails_from=0.0, kind=1e-4, harsh=0.0, when_kind="conditional", when_harsh="unstable")
    steps = part.model_copy(update={"item": "warmup_steps", "holds_to": 5.0, "kind": 10_000.0})
    both = report.recipe.model_copy(update={"decides": [part, steps]})  # type: ignore[union-attr]
    assert answer(report.model_copy(update={"recipe": both})).sides == (
        "z-loss, which is not stated: conditional with one, unstable without",
        "warm-up, which is not stated: conditional from 5 steps on, unstable without",
    )


def test_what_a_change_brings_stands_under_it() -> None:
    report = report_of(h.pre())
    what = "norms on queries and keys"
    option = next(f.remedy for f in report.findings if f.code == "L201" and f.remedy)
    tried = ChangePart(id="qk-norm", what=what, codes=["L201"], remedies=[option], verdict="conditional", closes=["L"], clears=["L201"])
    tried = tried.model_copy(update={"lr_before": 1e-3, "lr_after": 4e-3})
    said = answer(report.model_copy(update={"changes": [tried]})).changes
    assert said[0].codes == ("L201",)  # what helps comes first among findings of one gravity
    assert said[0].gains == (f"{what}: keeps attention logits in check; learning rate up to about 1e-3 → 4e-3",) and not said[1].gains
    worse = tried.model_copy(update={"closes": [], "opens": ["I"], "lr_after": None, "verdict": "unstable"})
    said = answer(report.model_copy(update={"changes": [worse, tried]})).changes
    worst = f"{what}: worsens scales at the start; learning rate up to about 1e-3 → none is expected to train; verdict unstable"
    assert worst in said[0].gains
    assert not any("L201" in c.codes for c in answer(report.model_copy(update={"changes": [worse]})).changes)  # nothing that it would help
    costs = worse.model_copy(update={"opens": [], "lr_after": 1e-4})
    assert not any("L201" in c.codes for c in answer(report.model_copy(update={"changes": [costs]})).changes)
    rescued = tried.model_copy(update={"closes": [], "lr_before": None})
    said = answer(report.model_copy(update={"changes": [rescued]})).changes
    assert said[0].gains == (f"{what}: learning rate up to about 4e-3, where none was found without it",)
    idle = tried.model_copy(update={"closes": [], "lr_after": 1.1e-3})
    shown = report.model_copy(update={"changes": [idle]})
    nothing = f"{what}: the finding goes, and nothing else that is judged here changes"
    assert f"predicted: {nothing}" in render(shown, "text")
    unlinked = re.sub(r"\[([^]]*)\]\(#[^)]*\)", r"\1", render(shown, "markdown"))
    assert f"*Predicted:* {nothing}" in unlinked and f"predicted: {nothing}" in re.sub(r"<a [^>]*>|</a>", "", render(shown, "html"))
    stays = shown.model_copy(update={"changes": [idle.model_copy(update={"clears": []})]})
    assert f"{what}: alone it changes nothing that is judged here: the finding stays" in render(stays, "text")
    first = next(f for f in shown.findings if f.code == "L201" and f.remedy)
    two = shown.model_copy(update={"findings": [*shown.findings, first.model_copy(update={"message": "another", "remedy": "another"})]})
    assert answer(two).changes[0].gains == (f"{what}: alone it changes nothing that is judged here: other findings on attention logits stay",)


def test_what_the_recipe_does_already_is_no_option() -> None:
    asked = {None: True, "adamw": False, "adam": True}  # of Adam's weight decay nobody says that it is decoupled
    for optimizer, offered in asked.items():
        report = _under(h.pre(), Recipe(lr=1e-3, **({} if optimizer is None else {"optimizer": optimizer, "weight_decay": 0.1})))
        options = [c.what for c in answer(report).changes if "R201" in c.codes]
        assert options and [o.endswith("; or decoupled weight decay (AdamW)") for o in options] == [offered], optimizer


@pytest.mark.by_the_day
def test_a_learning_rate_that_is_not_one_of_adams_is_not_said_to_be_missing() -> None:
    for optimizer in ("sgd", "muon"):
        for model in (h.pre(), h.post()):
            report = _under(model, Recipe(optimizer=optimizer, lr=0.02))
            said = [r.said for r in answer(report).risks] + [c.reason for c in report.channels]
            assert not any("not state its learning rate" in s or "not state the learning rate" in s for s in said), said
            assert not any("learning rate, which is not stated" in s for s in said), said
            assert any(f"of which the 0.02 of {optimizer} says nothing" in s for s in said)
    assert any("does not state its learning rate" in c.reason for c in _under(h.pre(), Recipe(optimizer="sgd")).channels)


def test_the_channel_that_is_likeliest_to_fail_is_the_reason() -> None:
    recipe = Recipe(optimizer="adamw", lr=1e-1, warmup_steps=2000, weight_decay=0.0, total_steps=100_000, precision="float32", z_loss=0.0)
    report = _under(h.pre(), recipe)
    opened = [c for c in report.channels if c.state == "open"]
    low, high = sorted(opened, key=lambda c: c.risk or 0.0)[0], max(opened, key=lambda c: c.risk or 0.0)
    assert low.risk is not None and high.risk is not None and low.risk < high.risk
    for channels in ([low, high], [high, low]):
        shown = answer(report.model_copy(update={"channels": channels}))
        assert f"(risk {high.risk:.2g})" in shown.reason
        assert f"risk {low.risk:.2g} under this recipe" in " ".join(r.said for r in shown.risks) and "Hamiltonian" not in str(shown.risks)
    assert f"risk {high.risk:.2g} of this channel" in report.summary


def test_a_channel_that_hangs_on_one_item_alone_says_so_in_its_own_words() -> None:
    report = _under(h.pre(), Recipe())
    channel = report.channels[-1].model_copy(update={"state": "conditional", "conditions": ["not-stated"], "reason": "It depends on X."})
    shown = answer(report.model_copy(update={"channels": [channel]})).risks
    assert [r.said.partition(": ")[2] for r in shown] == ["it depends on X"]


def test_an_argument_without_a_default_is_shown_as_it_was_given() -> None:
    report = report_of(h.pre())
    target = report.target.model_copy(update={"changed": {"vocab": (None, 1000), "depth": (6, 12)}})
    shown = render(report.model_copy(update={"target": target}), "text")
    assert "vocab = 1000" in shown and "depth 6 → 12" in shown and "None" not in shown.split("learning rate")[0]


def test_a_line_begins_with_the_path_and_its_line() -> None:
    report = report_of(h.pre(), spec="model.py")
    assert re.fullmatch(r"model\.py:\d+: conditional: Nothing in the code .+\.", line(report))
    assert re.match(r"model\.py:\d+: conditional: Net: ", line(report_of(h.pre(), spec="model.py::Net")))
    other = report_of(h.pre(), spec="other.py")
    assert re.fullmatch(r"other\.py: conditional: .+ \(model\.py:\d+\)", line(other))
    assert line(report_of(h.pre(), spec="hf:gpt2")).startswith("hf:gpt2: conditional: ")
    failed = not_judged(LoadError("a `m.py` must load", "it does not", file="/m.py", line=3), Request("m.py", root="/"))
    assert line(failed).startswith("m.py:3: unknown: a `m.py` must load")
    assert "\x1b" not in line(evil_report()) and "\n" not in line(evil_report())


def test_lines_hang_under_their_beginning() -> None:
    lines = render(report_of(full()), "text", width=80).splitlines()
    at = next(i for i, one in enumerate(lines) if one.startswith("  L201"))
    assert lines[at + 1].startswith(" " * text_format.INDENT) and max(map(len, lines)) <= 80


GROUNDS = {"white": 0xFFFFFF, "black": 0x000000, "Solarized light": 0xFDF6E3, "Solarized dark": 0x002B36, "One Dark": 0x282C34}


def _light(colour: int) -> float:
    """Relative luminance of 0xRRGGBB (WCAG 2.1)."""
    parts = [(colour >> shift & 255) / 255 for shift in (16, 8, 0)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _of_cube(number: int) -> int:
    """Colour 16 to 231 of xterm's 256, as 0xRRGGBB."""
    levels = (0, 95, 135, 175, 215, 255)
    red, green, blue = (levels[(number - 16) // step % 6] for step in (36, 6, 1))
    return red << 16 | green << 8 | blue


def test_colours_are_legible_on_both_grounds() -> None:
    """None is one of the 16 that each terminal shows as it likes. 3 is what WCAG 2.1 asks of large and bold text (1.4.3) and of marks (1.4.11); no
    colour has 4.6 on white and on black."""
    styles = " ".join([*text_format.COLOURS.values(), *text_format.MEASURED.values()])
    assert set(re.sub(r"color\(\d+\)", "", styles).split()) <= {"bold", "reverse", "dim"}
    used = {int(number) for number in re.findall(r"color\((\d+)\)", styles)}
    assert len(used) == 3 and min(used) > 15
    for ground, shown in GROUNDS.items():
        for number in used:
            pair = sorted((_light(_of_cube(number)), _light(shown)))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) > (3.6 if ground in ("white", "black") else 3.0), (number, ground)
    text = render(report_of(full()), "text", color=True, width=100)
    assert "\x1b[1;38;5;" in text and not re.search(r"\x1b\[([\d;]*;)?(3[0-7]|4[0-7]|9\d)m", text)


def test_words_lead_to_entries_of_the_same_page() -> None:
    shown = render(several([report_of(h.pre()), report_of(h.post())]), "markdown")
    targets, anchors = re.findall(r"\]\(#([\w-]+)\)", shown), re.findall(r'<a id="([\w-]+)">', shown)
    assert set(targets) == set(anchors) and len(set(anchors)) == len(anchors) > 5
    assert all(targets.count(word) == 1 for word in targets if re.fullmatch(r"word-\w\w[\w-]+", word))
    assert len(re.findall(r"\]\(#[\w-]+\)", re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", shown, flags=re.DOTALL)))) == len(targets)


@pytest.mark.by_the_day
def test_several_targets_begin_with_a_table_of_links_and_short_fits_a_comment() -> None:
    many = several([report_of(h.ALL[name](), spec=f"m{n}.py") for n in range(8) for name in h.ALL])
    whole, short = render(many, "markdown"), render(many, "markdown", short=True)
    assert len(whole) > LIMIT >= len(short) and "Cut here" in short and "<details>" not in short
    assert whole.splitlines()[2] == "| target | verdict | why |"
    assert "[`m0.py`](#target-1)" in whole and '<a id="target-1"></a>' in whole
    led, there = re.findall(r"\]\(#(target-\d+)\)", short), re.findall(r'<a id="(target-\d+)"></a>', short)
    assert led == there and 0 < len(led) < len(many.reports)
    alone = render(report_of(h.pre()), "markdown", short=True)
    assert "## Findings" in alone and "## Stream" not in alone and "Cut here" not in alone and "Reproduce" in alone


def test_findings_of_the_whole_model_are_counted_and_have_no_place() -> None:
    finding = FindingPart(
        code="I201", name="loss-at-start", step="forward", channel="I", severity="note", outcome="cannot_tell",
        message="`s1`: unknown", basis="derived",
    )  # fmt: skip
    [one] = groups.grouped([finding, finding.model_copy(update={"message": "`s2`: unknown"})])
    assert (one.count, one.others) == (2, ()), "not `None:None`"
    [one] = groups.grouped([finding, finding.model_copy(update={"stream": "s2"})])
    assert one.others == ("s2",)
