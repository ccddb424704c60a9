"""A model beside what it is at its next call, at another size and in training."""

from __future__ import annotations

from pathlib import Path

import pytest

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.child.variants import variants
from screen.graph import Graph
from screen.graph.target import parse
from screen.pipeline.variants import Elsewhere, others, same

TOP = """
import torch
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.map, self.drop, self.attend = nn.LayerNorm(8), nn.Linear(8, 8), nn.Dropout(0.1), nn.MultiheadAttention(8, 2, 0.1)
    def forward(self, x):
        y = self.norm(x)
        return x + BRANCH
"""
BRANCHES = {
    "self.map(y)": {"call", "size", "training"},
    "self.drop(self.map(y))": {"call", "size", "training"},
    "F.dropout(self.map(y), 0.1, self.training)": {"call", "size", "training"},
    "F.scaled_dot_product_attention(y, y, y, dropout_p=0.1 if self.training else 0.0)": {"call", "size", "training"},
    "self.attend(y, y, y)[0]": {"call", "size", "training"},
    "(self.map(y) if self.training else y)": {"call", "size"},
    "(self.map(y) if x.shape[1] < 100 else y)": {"call", "training"},
    "(self.map(y) if x.shape[0] < 3 else y)": {"call", "training"},
    "self.map(y) * (1 if x.shape[1] < 100 else 0.5)": {"call", "training"},
    "(self.map(y) if self.__dict__.setdefault('seen', []).append(1) or len(self.seen) < 3 else y)": {"training"},
    "sum(self.map(y[:, i : i + 1]) for i in range(x.shape[1]))": {"call", "training"},
}


def _programs(folder: Path, branch: str) -> tuple[Graph, dict[str, Graph]]:
    (folder / "model.py").write_text(TOP.replace("BRANCH", branch))
    [built] = build(parse(f"{folder / 'model.py'}::Net"), set={}, inputs=(), depth=1)
    graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    return graph, dict(variants(built, graph))


@pytest.mark.parametrize("branch", BRANCHES)
def test_what_training_drops_is_no_other_program_and_what_it_computes_is(tmp_path: Path, branch: str) -> None:
    graph, found = _programs(tmp_path, branch)
    assert set(found) == {"call", "size", "training"}
    is_same = {where for where, other in found.items() if same(graph, other, where)}
    if "seen" in branch:  # counted in all of them
        assert is_same < {"call", "size", "training"}
    else:
        assert is_same == BRANCHES[branch]


def test_another_program_is_another_model_where_it_violates_more(tmp_path: Path) -> None:
    graph, found = _programs(tmp_path, "(self.map(y) if x.shape[1] < 100 else y)")
    larger = found["size"]

    def violated(one: Graph) -> dict[str, str]:
        return {"G101": "It is wrong."} if one is larger else {"R201": "It grows."}

    told = others(graph, found, violated)
    assert told.differs == "at another size of its inputs it is another program, which violates G101: It is wrong" and told.one == {"call"}
    assert others(graph, found, lambda one: {"R201": "It grows."}) == Elsewhere("", frozenset({"call", "training"}), "")
    assert others(graph, {"size": graph}, violated) == Elsewhere("", frozenset({"size"}), "")

    def fails(one: Graph) -> dict[str, str]:
        raise ValueError

    assert others(graph, found, fails).doubt == "at another size of its inputs it is another program, which cannot be analysed"


def test_what_it_is_in_training_is_judged_already_and_not_asked_of_the_rules(tmp_path: Path) -> None:
    graph, found = _programs(tmp_path, "(self.map(y) if self.training else y)")
    trained = found["training"]
    assert others(graph, {"training": trained}, lambda one: {"G101": ""} if one is trained else {}) == Elsewhere("", frozenset(), "")


def test_a_train_of_its_own_is_another_program(tmp_path: Path) -> None:
    own = ["    bare = False", "    def train(self, mode=True):", "        self.bare = mode", "        return super().train(mode)"]
    graph, found = _programs(tmp_path, "\n".join(["(y if self.bare else self.map(y))", *own]))
    other = found["train"]
    assert not same(graph, other, "train")
    told = others(graph, {"train": other}, lambda one: {"G101": "It is wrong."} if one is other else {})
    assert told.differs == "behind its own `train` it is another program, which violates G101: It is wrong"
