"""Numbers in advice are those of the model: they are redone by its formula, or by running it."""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import advice, derive
from screen.facts.record import Facts
from screen.graph.target import parse
from screen.structure.types import Scale, Stream, Unknown
from tests import handmade as h
from tests.calculi.meanfield.covariance_logits import MODELS
from tests.calculi.meanfield.covariance_models import traced
from tests.shared import ROOT


def stream_of(facts: Facts) -> Stream:
    return facts.streams[0]


def norm_at_the_end(facts: Facts) -> tuple[str, str]:
    return advice.norm_of(facts, stream_of(facts), stream_of(facts).states[-1], "x")


def test_a_norm_is_the_one_that_the_stream_has() -> None:
    assert norm_at_the_end(h.llama()) == ("norm(x)", "nn.RMSNorm(64)")
    assert norm_at_the_end(h.post()) == ("norm(x)", "nn.LayerNorm(64)")
    none = h.none()
    assert norm_at_the_end(replace(none, streams=(replace(stream_of(none), width=None),))) == ("norm(x)", "nn.LayerNorm(width)")


class Filtered(nn.Module):
    """Channels first: a filter of what `norm` gives, along as many axes as there are."""

    def __init__(self, axes: int, norm: nn.Module, last: bool = False) -> None:
        super().__init__()
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
        self.norm, self.up, self.down, self.last = norm, conv(8, 16, 3, padding=1), conv(16, 8, 3, padding=1), last

    def forward(self, x: Tensor) -> Tensor:
        if not self.last:
            return x + self.down(F.gelu(self.up(self.norm(x))))
        x = x.movedim(1, -1)
        return (x + self.down(F.gelu(self.up(self.norm(x.movedim(-1, 1))))).movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize(
    ("shape", "norm", "last"),
    [((2, 8, 6), nn.GroupNorm(2, 8), False), ((2, 8, 6, 5), nn.GroupNorm(1, 8), False), ((2, 8, 8, 8), nn.BatchNorm2d(8), False),
     ((2, 8, 5, 4, 8), nn.GroupNorm(4, 8), False), ((2, 8, 6, 8), nn.GroupNorm(1, 8), True), ((2, 8, 5, 4), nn.Identity(), False)],
)  # fmt: skip
def test_the_norm_that_is_advised_runs_where_it_is_to_stand(shape: tuple[int, ...], norm: nn.Module, last: bool) -> None:
    """Over the features of each place, also where these stand behind the samples."""
    report = screen.check(Filtered(len(shape) - 2, norm, last), example_inputs=torch.zeros(shape), spot_check=False, depth=8)
    codes = {m for f in report.findings for m in re.findall(r"`x = ([^`]*)` with `norm = ([^`]*)`", f.remedy)}
    assert codes
    x = torch.randn(shape).movedim(1, -1) if last else torch.randn(shape)
    for line, made in codes:
        space = {"nn": nn, "x": x, "f": lambda x: x}
        after = eval(line, space | {"norm": eval(made, space)})
        assert after.shape == x.shape
        assert (after - x).square().mean(-1 if last else 1).allclose(torch.ones(()), atol=1e-3)  # the rms of each place is one


ODD = ("pictures::CosineWindow", "pictures::ConvNextV2", "pictures::Pooled", "pairs::Triangle", "fields::Mixer", "functional::ParallelDictMean")
BLOCKS = ROOT / "tests/adversary/round21"
TARGETS = [str(p) for p in sorted((ROOT / "examples").glob("*.py"))] + [str(BLOCKS / name.replace("::", ".py::")) for name in ODD]


@pytest.mark.by_the_day
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: Path(t).name)
def test_norms_of_states_run_on_their_shapes(target: str) -> None:
    built = build(parse(target), set={}, inputs=(), depth=4 if "::" in target else None)[0]
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    for stream in facts.streams:
        for node in {n for k in stream.kinds for s in k.sublayers for n in (s.add, s.output)}:
            line, made = advice.norm_of(facts, stream, node, "x")
            x = torch.randn(facts.graph.nodes[node].shape or ())
            assert eval(line, {"x": x, "norm": eval(made, {"nn": nn})}).shape == x.shape


def test_deepnorm_is_advised_where_its_assumptions_hold() -> None:
    post = h.post()
    depth = stream_of(post).depth
    assert advice.deepnorm_code(post, stream_of(post)) == (
        f"(2·{depth})^(1/4) = {(2 * depth) ** 0.25:.3g}",
        f"(8·{depth})^(-1/4) = {(8 * depth) ** -0.25:.3g}",
    )
    stream = stream_of(post)
    alone = replace(stream, kinds=tuple(replace(k, sublayers=k.sublayers[:1]) for k in stream.kinds))
    for other in (h.pre(), h.encoder_decoder(), h.hybrid(), h.none(), replace(post, streams=(alone,)), replace(post, streams=(stream, stream))):
        assert advice.deepnorm_code(other, stream_of(other)) is None


def test_a_scale_for_depth_is_advised_where_it_acts() -> None:
    pre = h.pre()
    count = 2 * stream_of(pre).depth
    found = advice.depth_scaled(pre, stream_of(pre), 0.02)
    assert found is not None and found.startswith(f"`std=0.02/√(2·{stream_of(pre).depth}) = {0.02 / math.sqrt(count):.3g}` for ")
    for other in (h.post(), h.peri()):
        assert advice.depth_scaled(other, stream_of(other), 0.02) is None
    assert advice.depth_scaled(pre, stream_of(pre), 0.0) is None


def test_the_advised_deviation_is_that_of_the_sound_twin() -> None:
    report = screen.check(str(ROOT / "examples/slips/depth_scale_lost.py") + "::Slip", isolate=False, spot_check=False)
    (remedy,) = {f.remedy for f in report.findings if f.code == "I102" and f.outcome == "violated"}
    assert re.search(r"`std=0\.02/√\(2·8\) = 0\.005` for `c_proj`$", remedy)  # 0.02/√(2·depth), as the twin has it


def test_logits_grow_as_far_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "examples/pre.py"
    report = screen.check(str(path), isolate=False, spot_check=False)
    (said,) = (f.plain for f in report.findings if f.code == "L201")
    found = re.search(r"they start at ([\d.]+) .* reach 50 when W_Q and W_K have each grown about ([\d.]+) times", said)
    assert found is not None
    spec = importlib.util.spec_from_file_location("pre_of_advice", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "pre_of_advice", module)
    spec.loader.exec_module(module)
    squares: list[float] = []

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **_: object) -> torch.Tensor:
        squares.append(float((q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).square().mean()))
        return v

    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    torch.manual_seed(0)
    model = module.GPT(module.GPTConfig()).eval()
    tokens = torch.randint(0, 512, (2, 64))

    def rms() -> float:
        squares.clear()
        with torch.no_grad():
            model(tokens)
        return math.sqrt(max(squares))

    assert rms() == pytest.approx(float(found[1]), rel=0.15)
    with torch.no_grad():
        for block in model.h:
            block.attn.c_attn.weight[:192] *= float(found[2])
            block.attn.c_attn.bias[:192] *= float(found[2])
    assert rms() == pytest.approx(advice.ONE_KEY, rel=0.3)


@pytest.mark.by_the_day
@pytest.mark.parametrize(("spot", "basis"), [(False, "derived"), (True, "measured")])
def test_where_logits_start_says_whether_that_was_measured(spot: bool, basis: str) -> None:
    report = screen.check(str(ROOT / "examples/pre.py"), isolate=False, spot_check=spot)
    (said,) = (f.plain for f in report.findings if f.code == "L201")
    [claim] = [c for c in report.claims if c.claim == "logit_rms"]
    assert claim.high is not None and f"they start at {claim.high:.3g} (root mean square, {basis}, in the block where they are largest)" in said


def test_nothing_is_said_of_logits_that_are_made_otherwise() -> None:
    for facts in (h.peri(), h.pre()):  # QK-norm; no start is known
        for s in (s for k in stream_of(facts).kinds for s in k.sublayers):
            assert advice.logit_growth(facts, s) is None


def test_a_multiplied_stream_is_offered_no_second_multiplier() -> None:
    from screen.rules import token_collapse

    post = h.post()
    recursion = post.recursions[0]
    assert not isinstance(recursion, Unknown)
    for square_gains, offered in ((1.0, True), (2.25, False)):  # Xavier's, and more than DeepNorm's constants make up for
        known = replace(post, recursions=(replace(recursion, deepnorm_number=4 * stream_of(post).depth * square_gains),))
        assert [("α = (2·" in o.remedy) for o in token_collapse.check(known) if o.result in ("violated", "conditional")] == [offered]
    kinds = tuple(replace(k, sublayers=tuple(replace(s, alpha=Scale("constant", 2.0)) for s in k.sublayers)) for k in stream_of(post).kinds)
    scaled = replace(post, streams=(replace(stream_of(post), kinds=kinds),))
    assert all("x = norm(α * x" not in o.remedy for o in token_collapse.check(scaled))


class Weighed(nn.Module):
    """Four feed-forwards, weighed for each token by a softmax over them, behind a norm or on the stream itself."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(16) if normed else nn.Identity(), nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16)) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + (self.gate(y).softmax(-1)[..., None, :] * torch.stack([e(y) for e in self.experts], -1)).sum(-1)


@pytest.mark.parametrize("normed", [True, False])
def test_a_router_has_no_queries_and_keys(normed: bool) -> None:
    torch.manual_seed(0)
    report = screen.check(nn.Sequential(*(Weighed(normed) for _ in range(8))), example_inputs=torch.zeros(2, 5, 16), spot_check=False)
    [found] = [f for f in report.findings if f.code == "L201"]
    assert found.outcome == ("conditional" if normed else "violated")
    assert "the logits of its router" in found.said and "the map that makes them" in found.said
    assert "W_Q" not in found.said + found.message + found.remedy and "keys" not in found.remedy


def test_a_gate_of_what_attention_gives_makes_no_logits() -> None:
    """They are made of W_Q and W_K alone, whatever other map counts only up to a bound."""
    facts = traced(MODELS["gate of a head"])
    attention = stream_of(facts).kinds[0].sublayers[0]
    plain = traced(MODELS["empty cache"])
    found, without = advice.logit_growth(facts, attention), advice.logit_growth(plain, stream_of(plain).kinds[0].sublayers[0])
    assert found is not None and without is not None and found[2] == pytest.approx(without[2], rel=0.05)
