"""Names do not matter: random names in the graph, and in the source, change nothing in the facts but names."""

from __future__ import annotations

import ast
import dataclasses
import io
import random
import re
import tokenize
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from screen.calculi.bounds.expr import Expr
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph import Graph
from screen.graph.target import parse
from tests.shared import ROOT
from tests.structure.test_odd_blocks import TOKENS, WIDTH, Model

ZOO = (
    "hf:gpt2", "hf:bert:BertModel", "hf:gemma2", "hf:olmo2", "hf:cohere", "hf:mixtral", "hf:mobilebert:MobileBertModel", "hf:swinv2:Swinv2Model",
    "hf:t5:T5Model", "hf:mamba", "hf:xglm", "hf:longt5", "hf:canine", "hf:poolformer:PoolFormerModel", "hf:deberta:DebertaModel",
)  # fmt: skip
ODD = (
    "learned_alpha", "tanh_after_norm", "sigmoid_scale", "scaled_sum", "detached", "gated_by_stream", "clamped", "parallel_post", "alternating",
    "pooled_bias", "gated_copies", "idle",
)  # fmt: skip
"""Blocks of `tests/structure/test_odd_blocks.py`."""
EXAMPLES = ("pre", "peri", "moe")
KEPT = frozenset({"weight", "bias", "forward", "__init__", "training", "apply", "eps"})
"""Attribute names that torch gives a meaning to."""

LABELS = frozenset({
    "module", "path", "parameters", "group", "biases", "smallest_path", "given", "gain", "bias", "gains", "parameter", "text",
    "maximiser", "reason", "held",
})  # fmt: skip
"""Fields of facts that repeat names of the graph. In any other field a name of the user's is a fault, and makes the test fail."""


def rename(graph: Graph, labels: dict[str, str]) -> Graph:
    """The same graph with every path, class and parameter name replaced where `labels` has an entry."""

    def new(text: str) -> str:
        return labels.get(text, text)

    return dataclasses.replace(
        graph,
        nodes=tuple(dataclasses.replace(n, name=new(n.name)) for n in graph.nodes),
        modules=tuple(dataclasses.replace(m, path=new(m.path), class_name=new(m.class_name)) for m in graph.modules),
        initialisers=tuple((new(name), history) for name, history in graph.initialisers),
    )


def graph_of(target: str) -> Graph:
    [built] = build(parse(target), set={}, inputs=(), depth=None)
    return trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)


def names(graph: Graph) -> list[str]:
    """Every module path, class name and argument or parameter name, each once, in the order of the graph."""
    found = [text for m in graph.modules for text in (m.path, m.class_name)] + [n.name for n in graph.nodes] + [n for n, _ in graph.initialisers]
    return list(dict.fromkeys(filter(None, found)))


def nameless(facts: Facts) -> Any:
    """The facts as plain nested data, without files and with every name replaced by the order in which it appears in the graph."""
    order = {name: f"<{index}>" for index, name in enumerate(names(facts.graph))}
    # In a longer text a name stands alone, in brackets or between bars, with its rows after it: a word of a sentence is none.
    alone = "|".join(map(re.escape, sorted(order, key=len, reverse=True)))
    pattern = re.compile(rf"(?:^|(?<=[(‖`]))(?:{alone})(?=$|[)‖`\[])")

    def hidden(text: str) -> str:
        return order.get(text) or pattern.sub(lambda match: order[match[0]], text)

    def plain(value: Any, label: bool = False) -> Any:
        if isinstance(value, Expr):
            return str(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            kept = [f.name for f in dataclasses.fields(value) if f.name not in ("graph", "file")]
            return {name: plain(getattr(value, name), name in LABELS) for name in kept}
        if isinstance(value, tuple | list):
            return [plain(item, label) for item in value]
        if isinstance(value, frozenset):
            return sorted(map(str, (plain(item, label) for item in value)))
        if isinstance(value, Mapping):
            return [(plain(key, label), plain(item, label)) for key, item in value.items()]
        return hidden(value) if label and isinstance(value, str) else value

    return plain(facts)


def odd(how: str) -> Graph:
    return trace(Model(how).to("meta").eval(), (torch.zeros(2, TOKENS, WIDTH, device="meta"),), {})


@pytest.mark.by_the_day
@pytest.mark.parametrize(("make", "target"), [*((graph_of, t) for t in ZOO), *((odd, t) for t in ODD)])
def test_random_names_in_the_graph(make: Callable[[str], Graph], target: str) -> None:
    graph = make(target)
    words = random.Random(target)
    labels = {name: "".join(words.choices("abcdefghijklmnopqrstuvwxyz_.0123456789", k=12)) + str(i) for i, name in enumerate(names(graph))}
    renamed = rename(graph, labels)
    assert not set(names(graph)) & set(names(renamed))
    facts = derive(graph)
    assert facts.streams, "nothing was found, so that nothing is compared"
    assert nameless(derive(renamed)) == nameless(facts)


def scrambled(source: str, seed: str) -> str:
    """A source in which every class and every attribute set on `self` has a random name."""
    tree = ast.parse(source)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and getattr(n.value, "id", "") == "self"}
    words = random.Random(seed)
    new = {name: "".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for name in sorted(own - KEPT)}
    tokens = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = new.get(token.string, token.string) if token.type == tokenize.NAME else token.string
        if token.type == tokenize.STRING:  # `name.endswith("c_proj.weight")`
            text = re.sub(r"\w+", lambda match: new.get(match[0], match[0]), text)
        tokens.append((token.type, text))
    return tokenize.untokenize(tokens)


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", EXAMPLES)
def test_random_names_in_the_source(name: str, tmp_path: Path) -> None:
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    other = scrambled(source, name)
    both = []
    for text, path in ((source, tmp_path / "plain.py"), (other, tmp_path / "random.py")):
        path.write_text(text, encoding="utf-8")
        model = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)][-1]
        both.append((model, derive(graph_of(f"{path}::{model}"))))
    (model, facts), (other_model, again) = both
    assert model != other_model and facts.streams
    assert nameless(again) == nameless(facts)
