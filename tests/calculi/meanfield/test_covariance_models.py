"""Traced models: what their facts say of their initialisation against what they do at it, and what cannot be told."""

from __future__ import annotations

import math
import statistics

import pytest

from screen.calculi.meanfield import recursion_of
from screen.calculi.meanfield.result import Recursion
from screen.rule import Example
from screen.structure.types import Unknown
from screen.testing import facts_of
from tests.calculi.meanfield.covariance_models import MODELS, traced, trained_run
from tests.calculi.meanfield.covariance_stacks import geometric, number


def said_of(source: str, **settings: int) -> Recursion:
    facts = traced(source)
    found = recursion_of(facts.streams[0], facts.graph, **settings)
    assert isinstance(found, Recursion), found
    return found


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", MODELS)
def test_a_traced_model_starts_as_its_facts_say(name: str) -> None:
    """The graph and the record of its initialisers alone, on meta, against the model itself with real weights."""
    said = said_of(MODELS[name], tokens=32)
    seen = [trained_run(MODELS[name], seed) for seed in range(2)]
    for layer in range(said.depth):
        assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[layer] for s in seen), rel=0.12)
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=0.06)
    assert number(said.gradient_ratio) == pytest.approx(geometric([s.ratio for s in seen]), rel=0.35)


def test_a_block_is_repeated_as_often_as_one_asks() -> None:
    short, long = said_of(MODELS["peri"]), said_of(MODELS["peri"], depth=48)
    assert (short.depth, long.depth) == (12, 48)
    assert long.rms[:12] == short.rms
    assert number(long.rms_exponent) == pytest.approx(0.5, abs=0.05)


def test_the_gains_are_those_of_the_record() -> None:
    said = said_of(MODELS["llama"])
    assert said.gains["attention"] == pytest.approx((math.sqrt(0.5), 1.0))
    assert said_of(MODELS["alpha"]).deepnorm_number == pytest.approx(12 * (4 * 128 * 0.04**2 + 0) / 2.2**2 * (1 + 2) / 2, rel=0.01)


REPEATED = "k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)"
WEIGHED = "a = (q @ k.transpose(-2, -1) / math.sqrt(D // H)).softmax(dim=-1)"
SHARED = {
    "one call": (2, (REPEATED, ""), (WEIGHED, "y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)"), ("(a @ v)", "y")),
    "products broadcast": (1, (REPEATED, ""), ("D // 2, bias", "D // 4, bias"), ("H // 2, D // H", "1, D // H")),
    "one call, and keys and values broadcast": (
        1, (REPEATED, ""), ("D // 2, bias", "D // 4, bias"), ("H // 2, D // H", "1, D // H"),
        (WEIGHED, "y = F.scaled_dot_product_attention(q, k, v)"), ("(a @ v)", "y"),
    ),
    "one head by einsum, which puts heads and queries in one axis": (
        1, (REPEATED, "k, v = k[:, 0], v[:, 0]"), ("D // 2, bias", "D // 4, bias"), ("H // 2, D // H", "1, D // H"),
        (WEIGHED, 'a = (torch.einsum("bhid,bjd->bhij", q, k) / math.sqrt(D // H)).softmax(dim=-1)'),
        ("(a @ v)", 'torch.einsum("bhij,bjd->bhid", a, v)'),
    ),
}  # fmt: skip


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", SHARED)
def test_heads_of_keys_and_values_that_queries_share_get_all_their_gradients(name: str) -> None:
    """As where they are repeated before: grouped queries in the three ways in which they are written."""
    heads, *changes = SHARED[name]
    source, plain = MODELS["llama"], MODELS["llama"]
    if heads == 1:
        plain = plain.replace("D // 2, bias", "D // 4, bias").replace("H // 2, D // H", "1, D // H").replace("interleave(2", "interleave(4")
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    said, wanted = said_of(source, tokens=32), said_of(plain, tokens=32)
    assert said.gradient_ratio == pytest.approx(wanted.gradient_ratio)
    assert said.cosine == pytest.approx(wanted.cosine)


APART = {
    "one token before others": "torch.cat((k[:, :, :1], k[:, :, 1:]), dim=2)",
    "one token behind others": "torch.cat((k[:, :, :-1], k[:, :, -1:]), dim=2)",
    "two tokens before others": "torch.cat((k[:, :, :2], k[:, :, 2:]), dim=2)",
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("fused", [True, False], ids=["one call", "two products"])
@pytest.mark.parametrize("name", APART)
def test_tokens_that_are_put_together_again_are_no_heads(name: str, fused: bool) -> None:
    """Rotations leave a first token as it is (DINOv3): queries and keys without it are put behind it, and each value has one reader still."""
    source = MODELS["llama"].replace(REPEATED, f"{REPEATED}; k = {APART[name]}; q = {APART[name].replace('k', 'q')}")
    if fused:
        source = source.replace(WEIGHED, "y = F.scaled_dot_product_attention(q, k, v)").replace("(a @ v)", "y")
    assert APART[name] in source and ("(q, k, v)" in source) is fused
    said, plain = said_of(source, tokens=32), said_of(MODELS["llama"], tokens=32)
    assert said.gradient_ratio == pytest.approx(plain.gradient_ratio)
    assert said.cosine == pytest.approx(plain.cosine)


CANNOT = {
    "`cumsum` has no row": ("self.attention(self.one(x))", "self.attention(self.one(x)).cumsum(1)"),
    "a weight acts over tokens": ("self.mlp(self.two(x))", "self.mlp(self.two(x).transpose(1, 2)[..., :1].expand(-1, -1, D)).transpose(1, 2)[:, :1]"),
    "one weight is used twice": ("self.mlp(self.two(x))", "self.mlp[0](self.mlp[2](self.mlp[0](self.two(x))))[..., :D]"),
    "no initialiser of": ("self.mlp(self.two(x))", "self.gamma * self.mlp(self.two(x))"),
    "dependent values": ("self.mlp(self.two(x))", "self.mlp(self.two(x) * self.three(x))"),
    "earlier state": (
        "x = x + self.attention(self.one(x))",
        "y = x; x = x + self.attention(self.one(x)); x = x + self.extra(self.three(x)); x = x + self.four(self.mlp(self.two(y)))",
    ),
    "are not independent of each other": ("attention(q, k, v)", "attention(q, q, v)"),
    "the forward failed": ("self.mlp(self.two(x))", "self.nowhere(self.two(x))"),
    "added to it again": ("x = x + self.mlp(self.two(x))", "x = x + self.mlp(self.two(x)); x = x + y"),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("reason", CANNOT)
def test_what_cannot_be_told_is_said_with_its_reason(reason: str) -> None:
    old, new = CANNOT[reason]
    source = MODELS["pre"].replace(old, new.replace("; ", "\n        "))
    if reason == "added to it again":
        source = source.replace("def forward(self, x):\n        x = x + self", "def forward(self, x):\n        y = x\n        x = x + self")
    source = source.replace("self.one, ", "self.gamma = nn.Parameter(torch.linspace(0, 1, D)); self.one, ")
    facts = traced(source)
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown), found
    assert reason in found.reason


def test_an_activation_written_out_is_the_one_that_it_is() -> None:
    """GPT-2's GELU: `pow`, `mul`, `add` and `tanh` of one value, a multiple of it among them."""
    plain = MODELS["pre"].replace("nn.GELU()", 'nn.GELU(approximate="tanh")')
    written = plain.replace('nn.GELU(approximate="tanh")', "New()").replace("class MLP", NEW + "\n\nclass MLP", 1)
    one, two = said_of(plain), said_of(written)
    assert two.rms == pytest.approx(one.rms, rel=1e-9)
    assert two.gradient_ratio == pytest.approx(one.gradient_ratio, rel=1e-9)
    assert one.rms != pytest.approx(said_of(MODELS["pre"].replace("nn.GELU()", "nn.Tanh()")).rms, rel=0.01)


NEW = """class New(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))"""


def test_two_angle_tables_make_a_rotation_only_when_they_are_of_one_angle() -> None:
    facts = traced(MODELS["llama"].replace("angles), -1).sin()", "2 * angles), -1).sin()"))
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown)
    assert "rotation" in found.reason


def test_a_cap_on_the_logits_quiets_them() -> None:
    """c·tanh(u/c): far above the logits it changes nothing, below them it takes the gradient through them away."""
    product = "q @ k.transpose(-2, -1) * 0.5"
    loud = MODELS["llama"].replace("q @ k.transpose(-2, -1) / math.sqrt(D // H)", product)
    far, near = (said_of(loud.replace(f"({product})", f"({c} * torch.tanh({product} / {c}))")) for c in (1e4, 0.3))
    assert far.gradient_ratio == pytest.approx(number(said_of(loud).gradient_ratio), rel=0.01)
    assert number(near.gradient_ratio) < 0.8 * number(far.gradient_ratio)


@pytest.mark.by_the_day
def test_a_law_that_was_given_to_some_entries_alone_is_not_the_law_of_all() -> None:
    """The padding row of a table is left out; anything else is not known."""
    table = MODELS["pre"].replace("nn.Embedding(VOCAB, D)", "nn.Embedding(VOCAB, D, padding_idx=0)")
    assert said_of(table).rms == said_of(MODELS["pre"]).rms
    for call in ("nn.init.zeros_(b.mlp[2].weight[:5])", "b.mlp[2].weight.data[:5].mul_(2.0)"):
        facts = traced(MODELS["pre"].replace("self.apply(self._init)", f"self.apply(self._init); [{call} for b in self.blocks]"))
        found = recursion_of(facts.streams[0], facts.graph)
        assert isinstance(found, Unknown)
        assert "some entries" in found.reason


@pytest.mark.by_the_day
def test_shared_blocks_are_found_without_their_names() -> None:
    """One block for all layers, and two for six layers each, against three networks; hooks of one module fire for each of its places."""
    whole, sizes = MODELS["pre"], list[float]()
    for blocks, places in (("[Block()] * DEPTH", 12), ("[Block()] * 6 + [Block()] * 6", 6)):
        source = whole.replace("(Block() for _ in range(DEPTH))", f"({blocks})")
        said, seen = said_of(source, tokens=32), [trained_run(source, seed) for seed in range(3)]
        assert said.tied
        assert isinstance(said.gradient_ratio, Unknown)
        for layer in range(12):
            assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[places * layer] for s in seen), rel=0.1)
        assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=0.06)
        sizes.append(said.rms[-1])
    assert sizes[0] > 1.2 * sizes[1] > 1.2 * said_of(whole).rms[-1]


def test_blocks_that_share_some_of_their_weights_are_not_told() -> None:
    share = "for block in self.blocks[1:]:\n            block.mlp[2] = self.blocks[0].mlp[2]"
    source = MODELS["pre"].replace("        self.final", f"        {share}\n        self.final", 1)
    facts = traced(source)
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown)
    assert "serve in another one" in found.reason


PYRAMID = """
import torch
from torch import nn


class Norm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(self.mix(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 24, 4, 4), Norm(24)
        self.first, self.second = (nn.Sequential(*(Block(w) for _ in range(3))) for w in (24, 40))
        self.between, self.down = Norm(24), nn.Conv2d(24, 40, 2, 2)
        for m in self.modules():
            if isinstance(m, nn.Linear | nn.Conv2d):
                nn.init.normal_(m.weight, std=0.02)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.second(self.down(self.between(self.first(self.norm(self.stem(x))))))
"""


def test_a_stage_of_images_begins_where_the_one_before_ends() -> None:
    """Channels stand behind the samples in both: a convolution of 2·2·24 normed entries makes the first state of the second stage."""
    facts = facts_of(Example("a pyramid", PYRAMID, ("x=float32[2,3,64,64]",)))
    found = facts.recursion(facts.streams[-1])
    assert isinstance(found, Recursion), found
    assert found.rms[0] == pytest.approx(0.02 * math.sqrt(4 * 24), rel=0.02)
