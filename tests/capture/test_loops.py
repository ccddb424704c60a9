"""A block target is a loop: the same block alone with `--depth N`, in a list, in a loop by hand, under checkpoint, compile and jit.script."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.capture.build.build import build_object
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.structure.streams.ends import signature
from screen.structure.types import Stream, Unknown
from tests.awkward.parts import TOKENS, D, Stack
from tests.awkward.table import CASES
from tests.shared import ROOT

FEW, MANY = 4, 40
"""Depths: all members of a list of `FEW` run, few of a list of `MANY`."""
Make = Callable[[], nn.Module]


class List(nn.Module):
    """A list of blocks."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, *rest: Any) -> Any:
        for block in self.blocks:
            x = block(x, *rest)
        return x


class ByHand(nn.Module):
    """Blocks in attributes."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.count = len(blocks)
        for number, block in enumerate(blocks):
            setattr(self, f"b{number}", block)

    def forward(self, x: Tensor, *rest: Any) -> Any:
        for number in range(self.count):
            x = getattr(self, f"b{number}")(x, *rest)
        return x


class Checkpointed(List):
    """As the docs of checkpoint have it."""

    def forward(self, x: Tensor, *rest: Any) -> Any:
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, *rest, use_reentrant=False)
        return x


def compiled(block: nn.Module) -> nn.Module:
    """As if `@torch.compile` stood over its forward."""
    kind = type(block)
    block.__class__ = type(kind.__name__, (kind,), {"forward": torch.compile(kind.forward)})
    return block


# -- what is compared ---------------------------------------------------------------------------------------------------------------------


def _plain(value: object) -> str:
    """Text without the names of places."""
    text = value.reason if isinstance(value, Unknown) else str(value)
    return re.sub(r"(\(copies\)|blocks)\.\d+\.|\bb\d+\.|\(copies\)_\d+_|blocks_\d+_|\bb\d+_", "", text)


def _branches(facts: Facts, stream: Stream, bounds: bool) -> Iterator[object]:
    for kind in stream.kinds:
        yield kind.count, kind.layers
        for sub in kind.sublayers:
            yield signature(sub), [_plain(n) for n in (*sub.m.path, *sub.alpha.parameters, *sub.branch.parameters)]
            analysis = facts.analysis(sub)
            if isinstance(analysis, Unknown):
                yield analysis.reason
                continue
            found = analysis.bounds
            yield [(_plain(g.group), g.predicted, g.status) for g in analysis.degrees.groups]
            yield [_plain(v) for v in (found.magnitude, found.lipschitz, found.bounded, found.logits_bounded, *found.logits)] if bounds else []


def told(facts: Facts, bounds: bool = True) -> list[object]:
    """What is said of a model, up to names. Without `bounds` where the same code is not traced to the same views each time (TorchScript)."""
    return [
        (s.role, s.width, s.depth, s.copies, str(s.embed_norm), str(s.embed_scale), str(s.final_norm), str(s.identity.exists), s.identity.gain,
         s.identity.norms_crossed, len(s.long_skips), *_branches(facts, s, bounds))
        for s in facts.streams
    ]  # fmt: skip


def facts_of(model: nn.Module, inputs: Any, depth: int | None = None) -> Facts:
    [built] = build_object(model, example_inputs=inputs, depth=depth)
    graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    assert graph.failure is None, graph.failure
    return derive(graph)


# -- the blocks ---------------------------------------------------------------------------------------------------------------------------


def _member(path: str, name: str) -> nn.Module:
    """A block of an example's or of a design's model."""
    with torch.device("meta"):
        model = _loaded(path)[name]()
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList | nn.Sequential) and len(m) > 1]
    return next(iter(max(lists, key=lambda m: (len(list(m.parameters())), len(m)))))


def _new(path: str, name: str) -> nn.Module:
    made: nn.Module = _loaded(path)[name]()
    return made


@cache
def _loaded(path: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / path))


def _examples() -> Iterator[tuple[str, Make, int]]:
    for path, name in (
        ("deepnorm", "DeepNormEncoder"), ("dyt", "DyTEncoder"), ("linear_attention", "LinearTransformer"), ("mamba", "Mamba"),
        ("moe", "MoETransformer"), ("none", "Bare"), ("normed_skip", "Encoder"), ("output_norm_qk", "Transformer"), ("parallel", "ParallelLM"),
        ("peri", "PeriLM"), ("post", "Encoder"), ("pre", "GPT"), ("rezero", "ReZeroEncoder"),
    ):  # fmt: skip
        yield path, partial(_member, f"examples/{path}.py", name), 96
    yield "vit_block", partial(_new, "examples/vit_block.py", "Block"), 192
    for design in ("peri_qk", "pre_qk", "pre_post", "deepnorm", "output_norm", "peri_layer_scale"):
        yield design, partial(_member, "examples/table/designs.py", design), 96


def _awkward() -> Iterator[tuple[str, Make, int]]:
    for case in CASES:
        if isinstance(case.make, partial) and case.make.func is Stack and len(case.inputs) == 1 and not case.mask and not case.tolerated:
            yield case.name, case.make.args[0], D


class Ended(nn.Module):
    """x + F(N(x)) with something before the branch leaves the stream, or behind the sum."""

    def __init__(self, before: Callable[[Tensor], Tensor], behind: Callable[[Tensor], Tensor], norm: bool = True) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.first, self.last = nn.LayerNorm(D), nn.LayerNorm(D)
        self.before, self.behind = before, behind

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(self, x)
        return self.behind(self, x + self.down(nn.functional.gelu(self.up(self.norm(x)))))


def _nothing(self: Any, x: Tensor) -> Tensor:
    return x


ENDS: tuple[tuple[str, Any, Any], ...] = (
    ("in place first", lambda self, x: x.mul_(0.5), _nothing), ("factor first", lambda self, x: x * 0.5, _nothing),
    ("factor last", _nothing, lambda self, x: x / 2**0.5), ("norm first", lambda self, x: self.first(x), _nothing),
    ("norm last", _nothing, lambda self, x: self.last(x)), ("both norms", lambda self, x: self.first(x), lambda self, x: self.last(x)),
    ("tanh last", _nothing, lambda self, x: torch.tanh(x)), ("factor and norm", lambda self, x: x * 0.5, lambda self, x: self.last(x)),
)


def _hooked() -> nn.Module:
    inner = Ended(_nothing, _nothing)
    inner.register_forward_hook(lambda m, a, out: out * 1.5)
    return nn.Sequential(inner)


def _ended() -> Iterator[tuple[str, Make, int]]:
    for name, before, behind in ENDS:
        yield name, partial(Ended, before, behind), D
    yield "hook", _hooked, D


BLOCKS = [pytest.param(make, width, id=name) for name, make, width in (*_examples(), *_awkward(), *_ended())]


ONCE = {"vit_block", "peri", "post", "normed_skip", "parallel", "rezero", *(name for name, *_ in ENDS), "hook"}
"""Blocks that are repeated in every way."""


def _made(make: Make) -> nn.Module:
    with torch.device("meta"):
        return make().eval()


@pytest.mark.by_the_day
@pytest.mark.parametrize(("make", "width"), BLOCKS)
def test_the_same_block_alone_and_in_a_list(make: Make, width: int) -> None:
    inputs = (torch.empty(2, TOKENS, width, device="meta"),)
    alone = facts_of(_made(make), inputs, FEW)
    assert alone.is_loop
    truth = told(alone)
    assert all(s.depth == FEW and len(s.kinds) == 1 for s in alone.streams if s.role != "inner")
    assert told(facts_of(List([_made(make) for _ in range(FEW)]), inputs)) == truth


@pytest.mark.by_the_day
@pytest.mark.parametrize(("make", "width"), [p for p in BLOCKS if p.id in ONCE])
@pytest.mark.parametrize("way", ["many", "by hand", "checkpoint", "compile", "script"])
def test_however_it_is_repeated(make: Make, width: int, way: str) -> None:
    inputs = (torch.empty(2, TOKENS, width, device="meta"),)
    depth = MANY if way == "many" else FEW
    truth = told(facts_of(_made(make), inputs, depth))
    if way == "compile":
        assert told(facts_of(compiled(_made(make)), inputs, depth)) == truth
        return
    blocks = [_made(make) for _ in range(depth)]
    if way == "script":
        blocks = [_scripted(b) for b in blocks]
        assert told(facts_of(_scripted(_made(make)), inputs, depth), False) == told(facts_of(List(blocks), inputs), False)
        return
    model = {"many": List, "by hand": ByHand, "checkpoint": Checkpointed}[way](blocks)
    assert told(facts_of(model, inputs)) == truth


def _scripted(block: nn.Module) -> nn.Module:
    try:
        return torch.jit.script(block)
    except Exception as error:
        pytest.skip(f"TorchScript does not take it: {type(error).__name__}")


class Calls(nn.Module):
    """A block that is called by another way than torch's, which may go on to it."""

    onward = False

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(8), nn.Linear(8, 8)

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = super().__call__(x) if self.onward else self.forward(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.map(self.norm(x))


class CallsOn(Calls):
    onward = True


@pytest.mark.parametrize("kind", [Calls, CallsOn])
def test_a_block_with_a_call_of_its_own_is_a_block(kind: type[Calls]) -> None:
    before = Calls.__call__
    (block,) = build_object(kind(), example_inputs=torch.zeros(2, 3, 8), depth=4)
    graph = trace(block.model, block.args, block.kwargs)
    assert Calls.__call__ is before and graph.loop is not None and len(graph.loop.copies) == 4
    assert [graph.modules[call.module].class_name for call in graph.calls if call.parent == 0] == [kind.__name__] * 4
    (stream,) = derive(graph).streams
    assert [(k.count, [s.placement for s in k.sublayers]) for k in stream.kinds] == [(4, ["pre"])]
