"""Blocks beyond self-attention and a plain FFN, as they are traced, against the same models with real random weights."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from screen.calculi.meanfield import recursion_of
from screen.calculi.meanfield.result import Recursion
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph.target import parse
from screen.rule import Example
from screen.structure.types import Unknown
from screen.testing import facts_of
from tests.calculi.meanfield.covariance_models import BLOCK, FRAME, FUSED, HEAD, _note, norm_of_all, trained_run
from tests.calculi.meanfield.covariance_stacks import geometric, number
from tests.calculi.meanfield.simulation import Sample

CROSS = """
class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, y):
        q, k, v = (m(t).unflatten(-1, (H, D // H)).transpose(1, 2) for m, t in ((self.q, x), (self.k, y), (self.v, y)))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cross, self.mlp = Attention(), Cross(), MLP()
        self.one, self.two, self.three = (nn.LayerNorm(D) for _ in range(3))

    def forward(self, x, y):
        {body}
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.encoder, self.last = nn.Embedding(VOCAB, D), nn.ModuleList(Block() for _ in range(6)), nn.LayerNorm(D)
        self.blocks, self.final = nn.ModuleList(Decoder() for _ in range(DEPTH)), nn.LayerNorm(D)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0.0, {gain} / math.sqrt(m.in_features))
                nn.init.zeros_(m.bias)

    def forward(self, ids):
        x, y = self.embed(ids), self.embed(ids.flip(1) + 1)
        for block in self.encoder:
            y = block(y)
        y = {memory}
        for block in self.blocks:
            x = block(x, y)
        return self.final(x)
"""
PRE = "x = x + self.attention(self.one(x)); x = x + self.mlp(self.two(x))"
POST = "x = self.one(x + self.attention(x)); x = self.two(x + self.mlp(x))"
CROSSED = "x = x + self.attention(self.one(x)); x = x + self.cross(self.two(x), y); x = x + self.mlp(self.three(x))"
POSTED = "x = self.one(x + self.attention(x)); x = self.two(x + self.cross(x, y)); x = self.three(x + self.mlp(x))"

MOE = """
class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(D, 8, bias=False), nn.ModuleList(Expert() for _ in range(8))
        self.gate, self.shared = nn.Linear(D, 1), Expert()

    def forward(self, inputs):
        x = inputs.reshape(-1, D)
        {gates}
        mask = F.one_hot(chosen, 8).permute(2, 1, 0)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            choice, token = torch.where(mask[e])
            y.index_add_(0, token, expert(x[token]) * weights[token, choice, None])
        return ({out}).reshape(inputs.shape)
"""
ADDED = "y.index_add_(0, token, expert(x[token]) * weights[token, choice, None])"
ROWS = "y[token] += weights[token, choice, None] * expert(x[token])"
MIXTRAL = "weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1); weights = weights / weights.sum(-1, keepdim=True)"
SWITCH = "weights, chosen = self.router(x).softmax(-1).max(-1, keepdim=True)"
BIASED = "s = self.router(x).sigmoid(); chosen = s.topk(3, dim=-1)[1]; weights = 2.5 * s.gather(1, chosen)"
LATE = "weights, chosen = self.router(x).topk(2, dim=-1); weights = weights.softmax(-1)"


def _moe(gates: str, out: str = "y", body: str = "", std: str = "1 / math.sqrt(m.in_features)") -> str:
    attention = FUSED[: FUSED.index("class MLP")]
    block = BLOCK.replace("{body}", _lines(body or PRE))
    frame = FRAME.replace("{final}", "nn.LayerNorm(D)").replace("{std}", std)
    return HEAD + attention + MOE.replace("{gates}", _lines(gates)).replace("{out}", out) + block + frame

SHORT_CONVOLUTION = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.taps = nn.Conv1d(D, D, 4, padding=3, groups=D, bias=False)
        nn.init.normal_(self.taps.weight, 0.0, 0.5)

    def forward(self, x):
        a, b, c = self.into(x).transpose(1, 2).chunk(3, dim=1)
        return self.out((c * self.taps(a * b)[..., : x.shape[1]]).transpose(1, 2))
"""
IMAGE = """
D, DEPTH = 128, 12


class MLP(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.taps, self.norm, self.mlp = nn.Conv2d(D, D, 7, padding=3, groups={groups}), {norm}, MLP()

    def forward(self, x):
        y = self.taps(x).permute(0, 2, 3, 1)
        return x + {scale} * self.mlp(self.norm(y)).permute(0, 3, 1, 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.blocks = nn.Conv2d(3, D, 4, stride=4), nn.ModuleList(Block() for _ in range(DEPTH))
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv2d)):
                nn.init.normal_(m.weight, 0.0, 1 / math.sqrt(m.weight[0].numel()))
                nn.init.zeros_(m.bias)

    def forward(self, pixels):
        x = self.patches(pixels)
        for block in self.blocks:
            x = block(x)
        return x
"""


def _image(norm: str, scale: float = 1.0, groups: str = "D") -> str:
    return HEAD + IMAGE.replace("{norm}", norm).replace("{scale}", repr(scale)).replace("{groups}", groups)


def _lines(body: str) -> str:
    return body.replace("; ", "\n        ")


def _crossed(encoder: str, decoder: str, memory: str, gain: float = 1.0) -> str:
    model = CROSS.replace("{body}", _lines(decoder)).replace("{memory}", memory).replace("{gain}", repr(gain))
    return HEAD + FUSED + BLOCK.replace("{body}", _lines(encoder)) + model


def _short() -> str:
    frame = FRAME.replace("{final}", "nn.LayerNorm(D)").replace("{std}", "1 / math.sqrt(m.in_features)")
    return HEAD + SHORT_CONVOLUTION + FUSED[FUSED.index("class MLP") :] + BLOCK.replace("{body}", _lines(PRE)) + frame


@dataclass(frozen=True)
class Case:
    """A source and how close the recursion comes to it."""

    source: str
    rms: float = 0.12
    cosine: float = 0.06
    ratio: float = 0.35
    pixels: bool = False
    """Whether it reads an image of 32 by 32, 64 patches."""


CASES = {
    "pre encoder and decoder": Case(_crossed(PRE, CROSSED, "self.last(y)")),
    "memory without a norm": Case(_crossed(PRE, CROSSED, "y")),
    "post encoder and decoder": Case(_crossed(POST, POSTED, "y", 0.6)),
    "two of eight experts": Case(_moe(MIXTRAL, "y + self.shared(x)")),
    "one expert, its probability as gate": Case(_moe(SWITCH, "y + self.shared(x)"), cosine=0.1),
    "sums written row by row": Case(_moe(MIXTRAL, "y + self.shared(x)").replace(ADDED, ROWS)),
    "sigmoid scores and a gate on the shared expert": Case(_moe(BIASED, "y + self.gate(x).sigmoid() * self.shared(x)")),
    "a gated convolution of four taps": Case(_short()),
    "convolutions of 7 by 7 before a norm": Case(_image("nn.LayerNorm(D)"), pixels=True),
    "convolutions of 7 by 7 without a norm": Case(_image("nn.Identity()", 0.5), pixels=True),
    "convolutions in groups without a norm": Case(_image("nn.Identity()", 0.5, "4"), pixels=True),
    "softmax after the choice, post": Case(_moe(LATE, "y + self.shared(x)", POST, "0.05")),
}


def said_of(case: Case) -> Recursion:
    inputs = ("pixels=float32[2,3,32,32]",) if case.pixels else ("ids=int64[2,16]",)
    return recursion_with(facts_of(Example("model", case.source, inputs=inputs)), 64 if case.pixels else 32)


def _image_run(source: str, seed: int) -> Sample:
    """What the real model does with one image of independent pixels, under a random linear loss."""
    torch.manual_seed(seed)
    space: dict[str, Any] = {}
    exec(compile(source, "model.py", "exec"), space)
    model, sample = space["Model"](), Sample()
    for block in model.blocks:
        block.register_forward_hook(lambda m, i, out: _note(sample, out.flatten(2).transpose(1, 2)))
    out = model(torch.randn(1, 3, 32, 32))
    (out * torch.randn_like(out)).sum().backward()
    sample.gradients = [norm_of_all(block) for block in model.blocks]
    return sample


def recursion_with(facts: Facts, tokens: int = 32) -> Recursion:
    stream = next(s for s in facts.streams if s.name in ("stream", "decoder"))
    norms = {n.node: n for n in facts.norms}
    found = recursion_of(stream, facts.graph, tokens=tokens, streams=facts.streams, norms=norms)
    assert isinstance(found, Recursion), found
    return found


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", CASES)
def test_a_traced_model_starts_as_its_facts_say(name: str) -> None:
    """rms, cosine between tokens and gradient ratio of the decoder, from the graph alone and from real weights of two seeds."""
    case = CASES[name]
    said, seen = said_of(case), [_image_run(case.source, seed) if case.pixels else trained_run(case.source, seed) for seed in range(2)]
    for layer in (0, said.depth // 2, said.depth - 1):
        assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[layer] for s in seen), rel=case.rms)
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=case.cosine)
    assert math.log(number(said.gradient_ratio)) == pytest.approx(math.log(geometric([s.ratio for s in seen])), abs=case.ratio)


CANNOT = {
    "sum over some of the experts": _moe(MIXTRAL).replace("enumerate(self.experts)", "enumerate(self.experts[:7])"),
    "one weight is used twice": _moe(MIXTRAL).replace("expert(x[token])", "self.experts[0](x[token])"),
    "gates multiply something else": _moe(MIXTRAL).replace(ADDED, "y.index_add_(0, token, expert(x[token] * weights[token, choice, None]))"),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("reason", CANNOT)
def test_what_cannot_be_told_is_said_with_its_reason(reason: str) -> None:
    facts = facts_of(Example("model", CANNOT[reason], inputs=("ids=int64[2,16]",)))
    stream = next(s for s in facts.streams if s.name in ("stream", "decoder"))
    found = recursion_of(stream, facts.graph, streams=facts.streams, norms={n.node: n for n in facts.norms})
    assert isinstance(found, Unknown), found
    assert reason in found.reason


WHY = {"mamba": "`silu` of a value that is not Gaussian", "linear_attention": "`cumsum` has no row"}


@pytest.mark.parametrize("name", WHY)
def test_mixers_without_a_law_say_why(name: str) -> None:
    [built] = build(parse(f"examples/{name}.py"), set={}, inputs=(), depth=None)
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    [found] = facts.recursions
    assert isinstance(found, Unknown)
    assert WHY[name] in found.reason
