"""Every example of every rule, from source to outcome; the form of rule files; and outcomes on facts written by hand."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import screen.plugins
import screen.rules
from screen.calculi.bounds.expr import sym
from screen.facts.record import Facts
from screen.graph import Failure, Guess, Initialiser
from screen.report.page import render, split
from screen.rule import Example, LoadedRule, Outcome
from screen.structure.initial.laws import deviation, square_gains, starting_value
from screen.structure.types import DoubledNorm, HollowNorm, IdentityPath, Kind, MapCount, Port, Scale, Stream, Unknown
from screen.testing import Case, cases, facts_of, fault
from screen.verdict.discover import Catalogue, catalogue, collect, lookup, run_rules
from tests import handmade as h

ALL = catalogue()
RULES = pytest.mark.parametrize("rule", [pytest.param(r, id=r.rule.code) for r in ALL.rules])


def outcomes(code: str, facts: Facts) -> list[str]:
    return [o.result for o in check(code, facts)]


def check(code: str, facts: Facts) -> tuple[Outcome, ...]:
    found = lookup(code)
    assert found is not None
    return found.check(facts)


# -- the files ------------------------------------------------------------------------------------------------------------------------


def test_every_rule_loads() -> None:
    assert ALL.faults == ()
    assert len(ALL.rules) >= 12


def test_rules_stand_in_the_order_of_their_codes() -> None:
    codes = [r.rule.code for r in ALL.rules]
    assert codes == sorted(set(codes))
    assert len({r.rule.name for r in ALL.rules}) == len(codes)


@RULES
def test_a_page_says_everything(rule: LoadedRule) -> None:
    assert set(split(rule.doc)) == {"claim", "Why", "Assumes", "Cannot tell", "Source"}
    page = render(rule)
    assert page.startswith(f"# {rule.rule.code} {rule.rule.name}\n")
    for example in (*rule.holds, *rule.violates, *rule.cannot_tell):
        assert example.code.strip("\n") in page


@RULES
def test_a_rule_stands_in_the_file_of_its_name(rule: LoadedRule) -> None:
    assert rule.check.__module__ == f"screen.rules.{rule.rule.name.replace('-', '_')}"


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in cases(ALL.rules)])
def test_example(case: Case) -> None:
    assert fault(case) == ""


# -- what goes wrong is a result ------------------------------------------------------------------------------------------------------

GOOD = '''"""Says nothing.

Why: for a test.
"""
from screen.rule import Example, Outcome, Rule
RULE = Rule("G999", "says-nothing", "structure", None, "note", (), "none")
HOLDS = VIOLATES = CANNOT_TELL = (Example("nothing", "class Model(nn.Module): ..."),)
def check(facts):
    return (Outcome("holds", "yes."),)
'''
BROKEN = {
    "does not parse": (GOOD + "def f(:\n", "it does not load: `SyntaxError"),
    "does not import": ("import no_such_module_at_all\n" + GOOD, "it does not load: `ModuleNotFoundError"),
    "no rule": (GOOD.replace("RULE =", "OTHER ="), "it has no `RULE"),
    "no examples": (GOOD.replace("HOLDS =", "OTHER ="), "`HOLDS` is not a tuple"),
    "bad code": (GOOD.replace("G999", "X1"), "its code `X1`"),
    "bad name": (GOOD.replace("says-nothing", "Says_Nothing"), "not in kebab case"),
    "bad step": (GOOD.replace('"structure"', '"shape"'), "its step `shape` is none of structure, well_posedness"),
    "bad severity": (GOOD.replace('"note"', '"info"'), "its severity `info` is none of error, warning, note"),
    "bad channel": (GOOD.replace("None, ", '"Q", '), "its channel `Q` is none of D, R"),
    "no check": (GOOD.replace("def check", "def other"), "it has no `check"),
    "no docstring": (GOOD.replace('"""', "'''", 1).replace('"""', "'''", 1).replace("'''Says", "x = '''Says"), "it has no docstring"),
}


@pytest.fixture
def rule_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    name = f"rule_of_{abs(hash(request.node.name))}"
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{name}.py").write_text(request.param)
    return name


@pytest.mark.parametrize(("rule_file", "reason"), BROKEN.values(), ids=BROKEN, indirect=["rule_file"])
def test_a_broken_rule_is_a_result(rule_file: str, reason: str) -> None:
    found = collect([rule_file])
    assert found.rules == ()
    assert [f.rule for f in found.faults] == [rule_file]
    assert reason in found.faults[0].reason


@pytest.mark.parametrize("rule_file", [GOOD], indirect=True)
def test_a_code_taken_twice_is_a_result(rule_file: str) -> None:
    found = collect([rule_file, rule_file])
    assert len(found.rules) == 1
    assert "has the code of the rule `says-nothing`" in found.faults[0].reason


@pytest.mark.faults
@pytest.mark.parametrize("rule_file", [GOOD.replace('return (Outcome("holds", "yes."),)', "return 1 / 0")], indirect=True)
def test_a_check_that_raises_stops_no_other(rule_file: str) -> None:
    run = run_rules(h.pre(), Catalogue((*ALL.rules, *collect([rule_file]).rules), ()))
    assert [f.rule for f in run.not_run] == ["G999"]
    assert "ZeroDivisionError" in run.not_run[0].reason
    assert len(run.findings) > 10


def test_rules_are_found_by_walking_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "added.py").write_text(GOOD)
    monkeypatch.setattr(screen.rules, "__path__", [*screen.rules.__path__, str(tmp_path)])  # as an installed package may have several
    catalogue.cache_clear()
    try:
        assert lookup("G999") is not None
    finally:
        catalogue.cache_clear()


@pytest.mark.parametrize("rule_file", [GOOD], indirect=True)
def test_other_distributions_add_rules_by_an_entry_point(rule_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("mine", rule_file, "screen.rules"), EntryPoint("gone", "no_such_module_at_all", "screen.rules")]
    monkeypatch.setattr(screen.plugins, "entry_points", lambda *, group: [p for p in points if p.group == group])
    catalogue.cache_clear()
    try:
        assert lookup("says-nothing") is not None
        assert [f.rule for f in catalogue().faults] == ["no_such_module_at_all"]
    finally:
        catalogue.cache_clear()


# -- facts written by hand ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", h.ALL)
def test_no_rule_fails_on_any_facts(name: str) -> None:
    assert run_rules(h.ALL[name]()).not_run == ()


@RULES
def test_no_rule_fails_without_streams(rule: LoadedRule) -> None:
    assert rule.check(h.facts())


TABLE = [
    ("pre", "R101", ["holds"]), ("none", "R101", ["violated"]), ("unknown", "R101", ["holds"]),
    ("pre", "D101", ["holds"]), ("post", "D101", ["violated"]), ("hybrid", "D101", ["violated"]),
    ("pre", "G102", ["holds", "holds"]), ("unknown", "G102", ["cannot_tell", "holds"]),
    ("pre", "G103", ["holds"]), ("post", "G103", ["not_applicable"]), ("none", "G103", ["not_applicable"]),
    ("encoder_decoder", "G103", ["holds", "holds"]),
    ("peri", "L101", ["holds"]), ("pre", "L101", ["not_applicable"]),
    ("hybrid", "D102", ["cannot_tell"]), ("pre", "D102", ["not_applicable"]),
    ("unknown", "G105", ["cannot_tell"]), ("unknown", "G108", ["cannot_tell"]),
    ("pre", "G107", ["holds"]), ("pre", "G104", ["holds"]), ("none", "G104", ["not_applicable"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "expected"), TABLE)
def test_outcomes(name: str, code: str, expected: list[str]) -> None:
    assert outcomes(code, h.ALL[name]()) == expected


def bare(scale: Scale, **changes: object) -> Facts:
    """No norm, with the same scale on every branch."""
    subs = [h.sublayer(role, "none", at=at, branch=scale, **changes) for role, at in (("attention", 8), ("ffn", 20))]  # type: ignore[arg-type]
    return h.facts(h.stream(h.kind(*subs), final_norm=False))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (bare(Scale("learned", None, ("a",), 0.0)), "conditional"),
        (bare(Scale("learned", None, ("a",), 1.0)), "violated"),
        (bare(Scale("learned", None, ("a",), None)), "cannot_tell"),
        (bare(Scale("constant", 0.5)), "violated"),
        (bare(Scale("none", 1.0), alpha=Scale("data")), "cannot_tell"),
        (replace(bare(Scale("none", 1.0)), guessed_nodes=frozenset({8})), "cannot_tell"),
        (bare(Scale("none", 1.0), positions=("A2",), qk_norm="per_head"), "violated"),
        (bare(Scale("none", 1.0), positions=("S",)), "holds"),
    ],
)
def test_what_saves_a_stream_without_norm(facts: Facts, expected: str) -> None:
    assert outcomes("R101", facts) == [expected]


def test_a_stream_that_only_collects_multiplies_nothing() -> None:
    facts = bare(Scale("none", 1.0), ports=(Port("memory", False, "encoder"),))
    assert outcomes("R101", facts) == ["not_applicable"]


def dyt(op: str) -> Facts:
    """x + W2 f(W1 g(x)) with g an elementwise op."""
    b = h.GraphBuilder()
    x, w1, w2 = b.op("input", label="x"), b.parameter("w1", 128, 32), b.parameter("w2", 32, 128)
    y = b.op("linear", b.op("relu", b.op("linear", b.op(op, x), w1)), w2)
    add = b.op("add", x, y)
    sub = h.sublayer("ffn", "none", output=y, add=add, m=MapCount(2, ("w1", "w2")))
    made = h.facts(h.stream(h.kind(sub), states=(x, add), final_norm=False), graph=b.graph())
    analysis = made.analyses[add, y]
    held = replace(analysis, bounds=replace(analysis.bounds, magnitude=sym("W") if op in ("tanh", "sigmoid") else sym("B")))
    return h.claimed(replace(made, analyses={(add, y): held}))


@pytest.mark.parametrize(("op", "expected"), [("tanh", "holds"), ("relu", "violated"), ("sigmoid", "holds"), ("neg", "violated")])
def test_a_bounded_map_at_the_input_stands_in_for_a_norm(op: str, expected: str) -> None:
    assert outcomes("R101", dyt(op)) == [expected]


def initialised(std: float, count: int = 12, **changes: object) -> Facts:
    """No norm, one feed-forward branch a block, both maps 64 × 64 from N(0, std²)."""
    b = h.GraphBuilder()
    x, w1, w2 = b.op("input"), b.parameter("w1", 64, 64), b.parameter("w2", 64, 64)
    y = b.op("linear", b.op("linear", x, w1), w2)
    add = b.op("add", x, y)
    law = tuple((name, (Initialiser("uniform_", (-1, 1)), Initialiser("normal_", (0.0, std)))) for name in ("w1", "w2"))
    sub = replace(h.sublayer("ffn", "none", output=y, add=add, m=MapCount(2, ("w1", "w2"))), **changes)  # type: ignore[arg-type]
    return h.facts(h.stream(h.kind(sub, count=count), states=(x, add), final_norm=False), graph=b.graph(initialisers=law), recursions=())


@pytest.mark.parametrize(
    ("std", "count", "expected"),
    [
        (0.125, 12, "violated"),  # g² = 1 each, M·g⁴ = 12
        (0.124 * 12**-0.25, 12, "conditional"),  # M·g⁴ just below 1: scaled by N^(-1/4)
        (0.124 * 12**-0.25, 48, "violated"),  # the same weights at four times the depth
        (0.125 * 3**-0.5, 4, "violated"),  # nn.Linear's default is no scaling down, however shallow
        (0.0, 100, "conditional"),  # Fixup's zeros
    ],
)
def test_small_starts_are_judged_by_depth(std: float, count: int, expected: str) -> None:
    assert outcomes("R101", initialised(std, count)) == [expected]


@pytest.mark.parametrize(("gain", "expected"), [((8 * 18) ** -0.25, "holds"), (1.0, "violated")])
def test_alpha_goes_with_small_weights(gain: float, expected: str) -> None:
    alpha = Scale("constant", (2 * 18) ** 0.25)
    facts = initialised(0.125 * gain, 36, alpha=alpha, positions=("C",), placement="post")
    (found,) = check("D102", facts)
    assert found.result == expected
    if expected == "holds":
        assert dict(found.numbers)["update"] == pytest.approx(1.0)  # DeepNorm's constants solve 2N(v² + w²)/α² = 1


def test_an_inner_stream_starts_anew_in_every_block() -> None:
    std = 0.124 * 12**-0.25  # small enough for 12 branches in a row, and 48 are no more where they stand in four blocks
    facts = initialised(std, 48)
    inner = replace(facts.streams[0], role="inner", copies=4)
    assert outcomes("R101", facts) == ["violated"]
    (found,) = check("R101", replace(facts, streams=(inner,)))
    assert found.result == "conditional" and dict(found.numbers)["branches"] == 12


def test_alpha_below_one_is_no_deepnorm() -> None:
    assert outcomes("D102", initialised(0.125, alpha=Scale("constant", 0.7))) == ["not_applicable"]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([("normal_", (0.0, 0.02))], 0.02),
        ([("normal_", (0.0, 0.02)), ("div_", (2.0,))], 0.01),
        ([("normal_", (0.0, 0.02)), ("mul_", (-3.0,))], 0.06),
        ([("uniform_", (-0.3, 0.3))], 0.6 / math.sqrt(12)),
        ([("normal_", (0.0, 1.0)), ("zero_", ())], 0.0),
        ([("xavier_normal_", (2.0,))], 2.0 * math.sqrt(2 / 192)),
        ([("orthogonal_", (1.0,))], 1 / math.sqrt(128)),
        ([("kaiming_normal_", (0.0,))], math.sqrt(2 / 128)),
        ([("trunc_normal_", (0.0, 0.02, -2, 2))], 0.02),
    ],
)
def test_deviation_of_recorded_laws(history: list[tuple[str, tuple[float, ...]]], expected: float) -> None:
    found = deviation(tuple(Initialiser(op, args) for op, args in history), 64, 128)
    assert not isinstance(found, Unknown)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "history",
    [(), (Initialiser("copy_", ("<Tensor>",)),), (Initialiser("normal_", (0.0, 1.0)), Initialiser("mul_", ("<Tensor>",)))],
)
def test_a_law_that_is_not_known_is_unknown(history: tuple[Initialiser, ...]) -> None:
    assert isinstance(deviation(history, 4, 4), Unknown)


def test_gains_do_not_depend_on_orientation() -> None:
    b = h.GraphBuilder()
    x, tall, wide = b.op("input"), b.parameter("tall", 128, 32), b.parameter("wide", 32, 128)
    added, experts, filters = b.parameter("added", 4, 32), b.parameter("experts", 8, 32, 128), b.parameter("filters", 64, 1, 7)
    b.op("add", b.op("matmul", b.op("linear", x, tall), b.op("transpose", wide)), added)
    b.op("bmm", x, experts)
    b.op("conv1d", b.op("view", x, shape=(2, 64, 16)), filters)
    law = (Initialiser("normal_", (0.0, 0.5)),)
    names = ("tall", "wide", "added", "experts", "filters")
    gains = square_gains(b.graph(initialisers=tuple((n, law) for n in names)), (*names, "absent"))
    assert gains["tall"] == gains["wide"] == pytest.approx(0.25 * 64)
    assert gains["experts"] == pytest.approx(0.25 * 64)  # of each of them
    assert gains["filters"] == pytest.approx(0.25 * 7)  # every channel has its own seven weights
    assert isinstance(gains["added"], Unknown)  # no map: it is added
    assert isinstance(gains["absent"], Unknown)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([("fill_", (1.0,)), ("mul_", (1e-6,))], 1e-6), ([("zero_", ())], 0.0), ([("normal_", (0.0, 1.0))], None),
        ([("normal_", (0.0, 1.0)), ("zero_", ())], 0.0), ([("zero_", ()), ("add_", (0.5,))], 0.5), ([], None),
        ([("fill_", ("<Tensor>",))], None),
    ],
)  # fmt: skip
def test_where_a_learned_scale_starts(history: list[tuple[str, tuple[float, ...]]], expected: float | None) -> None:
    graph = h.blank_graph(initialisers=(("s", tuple(Initialiser(op, args) for op, args in history)),))
    assert starting_value(graph, ("s",)) == expected


SCALED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)
        self.scale = nn.Parameter(VALUE)

    def forward(self, x):
        return x + self.scale * self.down(F.gelu(self.up(x)))
"""


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("torch.zeros(1)", 0.0), ("torch.Tensor([0])", 0.0), ("torch.tensor(0.5)", 0.5), ("torch.tensor([0.25, 0.25]).repeat(16)", None),
        ("1e-6 * torch.ones(32)", 1e-6), ("torch.full((32,), 0.1)", 0.1), ("torch.randn(1)", None),
    ],
)  # fmt: skip
def test_starts_are_read_off_real_constructors(value: str, start: float | None) -> None:
    facts = facts_of(Example("scale", SCALED.replace("VALUE", value)))
    (sublayer,) = facts.streams[0].kinds[0].sublayers
    assert (sublayer.branch.kind, sublayer.branch.init) == ("learned", start)
    assert outcomes("R101", facts) == ["cannot_tell" if start is None else "conditional"]


def test_one_side_of_qk_norm() -> None:
    for q, k, expected in (
        ("per_head", "none", "violated"), ("none", "cosine", "violated"), ("full", "full", "holds"),
        ("per_head", Unknown("why", (3,)), "cannot_tell"),
    ):  # fmt: skip
        facts = h.facts(h.stream(h.kind(h.sublayer(q_norm=q, k_norm=k))))
        (found,) = check("L101", facts)
        assert found.result == expected
    assert found.site.place is not None
    assert found.site.place.node == 3  # the node to blame


@pytest.mark.parametrize(("final", "expected"), [(True, "holds"), (False, "violated"), (Unknown("why", (2,)), "cannot_tell")])
def test_final_norm(final: bool | Unknown, expected: str) -> None:
    stream = h.stream(h.kind(h.sublayer(), count=3), final_norm=final)
    assert outcomes("G103", h.facts(stream)) == [expected]


def test_a_stream_that_leaves_the_model_is_a_condition_on_its_reader() -> None:
    facts = h.facts(h.stream(h.kind(h.sublayer(), count=3), final_norm=False, states=(0, 63)))
    assert facts.graph.outputs == (63,)
    assert outcomes("G103", facts) == ["conditional"]


def test_a_stage_before_another_has_no_head() -> None:
    b = h.GraphBuilder()
    x = b.op("input")
    nodes = [x]
    for _ in range(6):
        nodes.append(b.op("linear", nodes[-1]))
    first = h.stream(h.kind(h.sublayer(), count=3), name="stream1", final_norm=False, states=(nodes[1], nodes[2]))
    second = h.stream(h.kind(h.sublayer(), count=3), name="stream2", final_norm=False, states=(nodes[4], nodes[6]))
    assert outcomes("G103", h.facts(first, second, graph=b.graph())) == ["not_applicable", "conditional"]


def test_one_block_alone_has_no_head_to_judge() -> None:
    assert outcomes("G103", h.facts(h.stream(h.kind(h.sublayer(), count=1), final_norm=False))) == ["not_applicable"]


def test_a_gain_other_than_one_is_conditional() -> None:
    stream = h.stream(h.kind(h.sublayer()), identity=IdentityPath(True, "0.9**24", 0))
    (found,) = check("D101", h.facts(stream))
    assert (found.result, dict(found.numbers)["gain"]) == ("conditional", "0.9**24")


def test_norms_doubled_and_hollow_are_named() -> None:
    facts = replace(h.pre(), doubled=(DoubledNorm(h.norm(4), h.norm(5)),), hollow=(HollowNorm("it only multiplies", h.place(7, "b.n")),))
    assert outcomes("G104", facts) == ["violated"]
    (found,) = check("G105", facts)
    assert "`b.n`" in found.message
    assert "it only multiplies" in found.message


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"uncalled": (1,)}, ["violated"]),
        ({"uncalled": (1,), "guesses": (Guess("f", 1, "yes"),)}, ["cannot_tell"]),
        ({"uncalled": (1,), "guesses": (Guess("f", 1, "yes", None, False),)}, ["cannot_tell"]),
        ({"uncalled": (1,), "failure": Failure("boom", "f", 1)}, ["cannot_tell"]),
        ({}, ["holds"]),
    ],
)
def test_modules_that_never_ran(fields: dict[str, object], expected: list[str]) -> None:
    assert outcomes("G107", replace(h.pre(), graph=h.blank_graph(**fields))) == expected


def test_nothing_depends_on_names() -> None:
    """The same facts under other names give the same outcomes."""

    def renamed(stream: Stream) -> Stream:
        kinds: list[Kind] = []
        for kind in stream.kinds:
            subs = (replace(s, place=replace(s.place, module="zq.7"), m=replace(s.m, path=tuple("wxyz"[: s.m.maps]))) for s in kind.sublayers)  # type: ignore[misc]
            kinds.append(replace(kind, module="zq", sublayers=tuple(subs)))
        return replace(stream, kinds=tuple(kinds))

    for make in h.ALL.values():
        facts = make()
        other = replace(facts, streams=tuple(renamed(s) for s in facts.streams))
        first, second = ([(f.rule.code, f.outcome.result) for f in run_rules(x).findings] for x in (facts, other))
        assert first == second


# -- pages ----------------------------------------------------------------------------------------------------------------------------


def test_pages_and_rules_need_no_torch() -> None:
    code = (
        "import sys; from screen.verdict.discover import catalogue; from screen.report.page import render;"
        "print(len([render(r) for r in catalogue().rules]), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(len(ALL.rules)), "False"]
