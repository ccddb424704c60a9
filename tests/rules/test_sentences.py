"""Sentences about designs that everybody knows, against what is known of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import screen
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph.target import parse
from screen.rule import Example, Outcome
from screen.testing import facts_of
from screen.verdict.conditions import CONDITIONS
from screen.verdict.discover import lookup
from screen.verdict.summary import summarise
from tests.calculi.meanfield.covariance_models import MODELS
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day


def derived(source: str) -> Facts:
    return facts_of(Example("a design", f"import math\n{source}", ("ids=int64[2,16]",)))


def said(code: str, source: str) -> tuple[Outcome, ...]:
    rule = lookup(code)
    assert rule is not None
    return rule.check(derived(source))


def test_tokens_that_stay_apart_are_not_said_to_be_what_warm_up_makes_up_for() -> None:
    """Post-norm from N(0, 0.02): 1 − cos is near 1, and what is missing is an identity path."""
    small = MODELS["post"].replace("0.05", "0.02")
    [outcome] = said("D201", small)
    assert "so that no gradient arrives as it left" in outcome.plain
    assert "at the start tokens stay apart (1 − cos 1 after 12 blocks" in outcome.plain


def test_a_condition_on_branches_is_true_of_those_with_norms_too() -> None:
    """A pre-norm state space model has the condition, and no branch without a norm."""
    assert "without norm" not in CONDITIONS["small-gain"]


TIED = """
import torch
from torch import nn
from torch.nn import functional as F


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = nn.LayerNorm(64), *(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x, memory):
        q, k, v = self.q(self.norm(x)), self.k(memory), self.v(memory)
        return x + self.o(F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0])


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.after = nn.Embedding(1000, 64), nn.LayerNorm(64), nn.LayerNorm(64)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks, self.others = nn.ModuleList(Feed() for _ in range(4)), nn.ModuleList(Feed() for _ in range(4))
        self.crosses = nn.ModuleList(Cross() for _ in range(4))
        self.bias = nn.Parameter(torch.zeros(1000))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        RETURN
"""
DECODE = """x = self.norm(x)
        y = self.embed(ids)
        for cross, block in zip(self.crosses, self.others):
            y = block(cross(y, x))
        return F.linear(self.after(y), self.embed.weight)"""


def test_a_bias_that_starts_at_zero_does_not_hide_the_loss_at_the_start() -> None:
    """As ESM adds it behind a tied head."""
    head = "return F.linear(self.norm(x), self.embed.weight)"
    [plain], [biased] = (said("I201", TIED.replace("RETURN", f"{head}{more}")) for more in ("", " + self.bias"))
    assert plain.result == biased.result == "holds"
    assert dict(plain.numbers)["loss_at_start"] == dict(biased.numbers)["loss_at_start"]


def test_words_that_are_looked_up_are_no_table() -> None:
    """CLIP's logits of a batch of two: as many columns as the words have rows."""
    [outcome] = said("I201", TIED.replace("RETURN", "x = self.norm(x).mean(1)\n        return x @ x.T"))
    assert outcome.result == "not_applicable"


def test_a_padding_row_of_a_tied_head_does_not_hide_the_loss_at_the_start() -> None:
    """One logit of a thousand is zero; half of a head is not one row."""
    source = TIED.replace("RETURN", "return F.linear(self.norm(x), self.embed.weight)")
    padded = source.replace("nn.Embedding(1000, 64)", "nn.Embedding(1000, 64, padding_idx=0)")
    filled = "nn.init.normal_(self.embed.weight, std=0.02)"
    assert filled in padded
    zeroed = padded.replace(filled, f"{filled}\n        with torch.no_grad():\n            self.embed.weight[0].zero_()")
    [plain], [found], [none] = (said("I201", s) for s in (source, zeroed, zeroed.replace(", padding_idx=0", "")))
    assert plain.result == found.result == "holds" and none.result == "cannot_tell"
    assert dict(plain.numbers)["loss_at_start"] == dict(found.numbers)["loss_at_start"]


def test_an_encoder_has_no_loss_of_its_own() -> None:
    [outcome] = said("I201", TIED.replace("RETURN", DECODE))
    assert outcome.result == "holds"
    assert outcome.site.stream == "decoder"


def test_logits_of_a_router_are_made_by_one_map() -> None:
    built = build(parse(str(ROOT / "examples" / "moe.py")), set={}, inputs=(), depth=None)[0]
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    rule = lookup("L201")
    assert rule is not None
    bounds = {o.theorem for o in rule.check(facts) if "router" in o.message}
    assert bounds
    assert all("‖W_Q‖" not in bound for bound in bounds)


def test_a_branch_that_holds_a_norm_is_not_said_to_be_without_one() -> None:
    """ConvNeXt: a norm between the convolution over tokens and the maps."""
    source = MODELS["pre"].replace("self.mlp(self.two(x))", "self.mlp(self.two(self.extra(x)))")
    text = summarise(derived(source.replace("self.attention(self.one(x))", "self.attention(x)")), "Model")
    assert "[attention without norm, FFN sub-norm]" in text


def test_what_excuses_a_large_start_is_named() -> None:
    """Pre-norm at 1/√fan-in: no norm stands on what is added, and no scale starts at zero."""
    [attention, _] = said("D301", MODELS["pre"])
    assert "what the branch adds does not grow with the stream" in attention.message
    [attention, _] = said("D301", MODELS["post"])
    assert "the norm on the sum takes its size away" in attention.message


PALM = """
class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(64), nn.Linear(64, 3 * 64 + 512, bias=False)
        self.o, self.down = nn.Linear(64, 64, bias=False), nn.Linear(256, 64, bias=False)

    def forward(self, x):
        q, k, v, ff = self.fused(self.norm(x)).split((64, 64, 64, 512), -1)
        a, g = ff.chunk(2, -1)
        return x + self.o(F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]) + self.down(F.silu(g) * a)
"""


def test_halves_of_a_part_of_a_fused_map_are_two_maps() -> None:
    """PaLM: queries, keys, values, gate and up by one matrix; m of the gated feed-forward is 3, as where each has a matrix of its own."""
    source = TIED.replace("class Feed(", f"{PALM}\n\nclass Feed(").replace("Feed() for _ in range(4)), nn", "Fused() for _ in range(4)), nn")
    [_, feed] = said("D301", source.replace("RETURN", "return self.norm(x)"))
    assert (dict(feed.numbers)["m"], dict(feed.numbers)["min_degree"]) == (3, 3)


ATTENDED = """
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = nn.LayerNorm(64), *(nn.Linear(64, 64, bias=False) for _ in range(4))

    def forward(self, x):
        b, n, _ = x.shape
        y = self.norm(x)
        q, k, v = (m(y).view(b, n, 4, 16).transpose(1, 2) for m in (self.q, self.k, self.v))
        slopes = 1.0 / torch.pow(2, torch.arange(1, 5).float() * 2)
        QUERIES
        u = q @ k.transpose(-1, -2) * 0.25 BIAS
        return x + self.o((u.softmax(-1) @ v).transpose(1, 2).reshape(b, n, 64))
"""
ALIBI = "+ torch.arange(1 - n, 1) * slopes.view(4, 1, 1)"
ROTATED = "q = torch.cat((q[..., :16] * torch.arange(n)[:, None].cos(), q[..., 16:]), -1)"


def attended(queries: str = "", bias: str = "") -> str:
    block = ATTENDED.replace("QUERIES", queries).replace("BIAS", bias)
    source = TIED.replace("class Feed(", f"{block}\n\nclass Feed(").replace("Feed() for _ in range(4)), nn", "Attend() for _ in range(4)), nn")
    return source.replace("RETURN", "return self.norm(x)")


@pytest.mark.parametrize(("queries", "bias"), [(ROTATED, ""), ("", ALIBI)], ids=["an empty part beside (Phi-3)", "slopes of positions (MPT)"])
def test_what_queries_pass_on_their_way_leaves_their_bound(queries: str, bias: str) -> None:
    [outcome] = said("L202", attended(queries, bias))
    assert outcome.result == "holds", outcome.message


def test_positions_are_no_part_of_what_grows_with_the_weights(tmp_path: Path) -> None:
    """Logits of positions alone are ten times as large as those of queries and keys, and do not grow with W_Q and W_K."""

    def grown(bias: str) -> float:
        path = tmp_path / f"model{len(bias)}.py"
        path.write_text(f"{attended(bias=bias)}\n\nexample_inputs = (torch.randint(0, 1000, (2, 16)),)\n")
        [finding] = [f for f in screen.check(str(path)).findings if f.code == "L201"]
        found = re.search(r"start at (\S+) \(root mean square, measured", finding.plain)
        assert found, finding.plain
        return float(found[1])

    assert grown(ALIBI) == pytest.approx(grown(""), rel=0.3)




@pytest.mark.parametrize(
    ("queries", "bias"),
    [("", "; u = torch.max(u, torch.full((), torch.finfo(u.dtype).min))"), ("k = k / torch.sqrt(torch.tensor(16, dtype=torch.float32) * 1)", "* 4")],
    ids=["a floor under the mask (XGLM)", "a root of a literal (DeBERTa)"],
)
def test_numbers_of_the_program_hide_no_logits_at_the_start(queries: str, bias: str) -> None:
    [plain], [other] = (said("I202", attended(q, b)) for q, b in (("", ""), (queries, bias)))
    assert (plain.result, other.result) == ("holds", "holds"), other.message
    assert dict(plain.numbers)["logit_rms_first_block"] == pytest.approx(dict(other.numbers)["logit_rms_first_block"])


def test_logits_of_parallel_branches_are_those_of_the_attention() -> None:
    """GPT-NeoX adds the feed-forward first."""
    body = "h = self.one(x); x = x + self.attention(h) + self.mlp(h)".replace("; ", "\n        ")
    source = MODELS["parallel"]
    assert body in source
    turned = "h = self.one(x)\n        a = self.attention(h)\n        x = self.mlp(h) + a + x"
    [outcome] = said("I202", source.replace(body, turned))
    assert outcome.result == "holds", outcome.message


def test_of_two_norms_the_one_that_the_stream_carries_on_is_kept() -> None:
    """BLOOM: an embedding norm, and a first branch with a norm of its own. Without the first the stream would be another one."""
    source = TIED.replace("x = self.embed(ids)", "x = self.after(self.embed(ids))")
    [outcome] = said("G104", source.replace("RETURN", "return self.norm(x)"))
    assert outcome.remedy.startswith("remove the second")


@pytest.mark.parametrize(("body", "agree"), [
    ("x = x + self.attention(self.one(x)); x = x + self.mlp(self.two(x))", True),
    ("x = x + self.attention(self.one(x)); x = x + self.two(self.mlp(x))", False),
    ("x = x + self.attention(self.one(x)); x = x + self.mlp(x)", False),
])  # fmt: skip
def test_sublayers_with_unlike_norms_are_not_said_to_agree(body: str, agree: bool) -> None:
    """Nothing is wrong that G124 asks about, and the norms do not stand on one side."""
    source = MODELS["pre"].replace("x = x + self.attention(self.one(x))\n        x = x + self.mlp(self.two(x))", body.replace("; ", "\n        "))
    assert body.split("; ")[1] in source
    [outcome] = said("G124", source)
    assert ("agree" in outcome.message) is agree
