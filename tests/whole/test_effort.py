"""Facts and rules do little work. It is counted in steps of the interpreter (lines and calls), which are the same however busy the machine is.

The marks: 0.18 s for a distinct kind of block, 0.65 s for a whole model, on a machine with two cores that does nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

import pytest

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph import Graph
from screen.graph.io import dumps, loads
from screen.graph.target import parse
from screen.verdict.discover import run_rules

STEPS_PER_SECOND = 8_000_000
"""Of facts and rules of five models, on two busy cores: 6 to 11 million."""
KIND, MODEL, SCAN, STEP = 0.195, 0.75, 0.24, 0.0042
"""Seconds that a distinct kind of block, a whole model of any depth, and a block with an unrolled scan may take, and each of the steps over tokens
that a further layer writes out."""
LINEAR = 1.2
"""How much more a layer may cost in a model of twice the depth; work that is quadratic in depth gives 2."""
TINY = {"vocab_size": 100, "num_hidden_layers": 2}
KINDS: tuple[tuple[str, dict[str, int]], ...] = (
    ("bert:BertModel", TINY), ("llama", TINY), ("gemma2", TINY), ("cohere", TINY), ("mixtral", TINY), ("deepseek_v3", TINY),
    ("t5", {"vocab_size": 100, "num_layers": 2}), ("vit:ViTModel", {"num_hidden_layers": 2}), ("falcon_h1", TINY),
)  # fmt: skip
DEEP: tuple[tuple[str, str], ...] = (("llama", "num_hidden_layers"), ("mamba", "num_hidden_layers"), ("gpt2", "n_layer"))
WIDE = {"hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16}
WIDER = {"hidden_size": 8192, "intermediate_size": 22528, "num_attention_heads": 128}


@cache
def _traced(target: str, settings: tuple[tuple[str, int], ...]) -> bytes:
    [built] = build(parse(f"hf:{target}"), set=dict(settings), inputs=(), depth=None)
    return dumps(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))


def _graph(target: str, settings: dict[str, int]) -> Graph:
    """A new graph each time: it remembers what was asked of it."""
    return loads(_traced(target, tuple(sorted(settings.items()))))


def _forget() -> None:
    """Empties the memories of pure functions, as a new process has them."""
    for name, module in list(sys.modules.items()):
        if name.startswith("screen.") and not name.startswith("screen.capture"):
            for found in vars(module).values():
                getattr(found, "cache_clear", lambda: None)()


def _steps(work: Callable[[], object]) -> int:
    """How many lines and calls of Python `work` runs."""
    count = 0

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event in ("line", "call")
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _cost(target: str, settings: dict[str, int]) -> tuple[int, int]:
    """(steps of facts and rules, distinct kinds of blocks)."""
    graph = _graph(target, settings)
    kinds = 0

    def judge() -> None:
        nonlocal kinds
        facts = derive(graph)
        run_rules(facts)
        kinds = sum(len(stream.kinds) for stream in facts.streams)

    _forget()
    return _steps(judge), kinds


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    """Modules that are imported late are imported."""
    run_rules(derive(_graph("llama", TINY)))


@pytest.mark.by_the_day
@pytest.mark.parametrize(("target", "settings"), KINDS, ids=[target for target, _ in KINDS])
def test_kinds(target: str, settings: dict[str, int]) -> None:
    """Each distinct kind of block, with two layers."""
    steps, kinds = _cost(target, settings)
    assert kinds > 0
    print(f"{target}: {steps / kinds / STEPS_PER_SECOND:.3f} s per kind of block")
    assert steps / kinds <= KIND * STEPS_PER_SECOND, f"{target}: {steps / kinds / STEPS_PER_SECOND:.3f} s per kind of block"


def test_scan() -> None:
    """A recurrence written out step by step: its sums of products are what takes long to compare."""
    steps, kinds = _cost("mamba", TINY)
    assert kinds == 1
    assert steps <= SCAN * STEPS_PER_SECOND, f"{steps / STEPS_PER_SECOND:.3f} s"


@pytest.mark.by_the_day
@pytest.mark.parametrize(("target", "layers"), DEEP, ids=[target for target, _ in DEEP])
def test_depth(target: str, layers: str) -> None:
    """A layer costs the same at any depth, and a model of 32 layers that all ran stays below the mark."""
    few, more, many = (_cost(target, {"vocab_size": 100, layers: depth})[0] for depth in (8, 16, 32))
    first, second = (more - few) / 8, (many - more) / 16
    print(f"{target}: {few} steps with 8 layers, {first:.0f} for each of 8 more, {second:.0f} for each of 16 more")
    assert second <= LINEAR * first
    assert many <= MODEL * STEPS_PER_SECOND


@pytest.mark.by_the_day
def test_steps() -> None:
    """A further layer of a recurrence written out over sixteen tokens (RWKV): what is done for each of its nodes, whatever it is."""
    sizes = {"vocab_size": 100, "hidden_size": 256, "attention_hidden_size": 256, "intermediate_size": 512}
    few, more = (_cost("rwkv", {**sizes, "num_hidden_layers": depth})[0] for depth in (2, 5))
    print(f"rwkv: {(more - few) / 3 / 16:.0f} steps for each token of a layer")
    assert (more - few) / 3 / 16 <= STEP * STEPS_PER_SECOND


def test_width() -> None:
    """Eight times the width costs nothing."""
    narrow, wide = (_cost("llama", {**TINY, **settings, "num_key_value_heads": 8})[0] for settings in (WIDE, WIDER))
    assert abs(wide - narrow) <= 0.02 * narrow
