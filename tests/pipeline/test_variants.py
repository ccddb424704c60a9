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
ALWAYS = {"numbers", "card"}
"""Where all of these are the same program."""
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
    assert set(found) == {"call", "size", "training"} | ALWAYS
    is_same = {where for where, other in found.items() if same(graph, other, where)}
    if "seen" in branch:  # counted in all of them
        assert is_same - ALWAYS < {"call", "size", "training"}
    else:
        assert is_same == BRANCHES[branch] | ALWAYS


ELSEWHERE = {
    "late": ("(self.map(y) if self.late() else y)", "at a call far ahead"),
    "length": ("(self.map(y) if x.shape[1] < 5 * 1000 + 2**10 else y)", "beyond a length that its code compares with"),
    "card": ("(y if torch.cuda.is_available() else self.map(y))", "where torch says that there is a graphics card"),
    "numbers": ("(self.map(y) if x.dtype == torch.float32 else y)", "in bfloat16"),
}
COUNTS = ["    calls = 0", "    def late(self):", "        self.calls = self.calls + 1", "        return self.calls < 4000"]


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_program_that_is_another_one_far_away_is_seen(tmp_path: Path, where: str) -> None:
    branch, words = ELSEWHERE[where]
    graph, found = _programs(tmp_path, "\n".join([branch, *COUNTS]))
    assert [name for name, other in found.items() if not same(graph, other, name)] == [where]
    told = others(graph, found, lambda one: {"G101": "It is wrong."} if one is found[where] else {})
    assert told.differs == f"{words} it is another program, which violates G101: It is wrong"


def test_numbers_that_a_call_ahead_was_tried_with_are_put_back(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(TOP.replace("BRANCH", "\n".join([ELSEWHERE["late"][0], *COUNTS])))
    [built] = build(parse(f"{tmp_path / 'model.py'}::Net"), set={}, inputs=(), depth=1)
    graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    calls = [module for module in built.model.modules() if hasattr(module, "calls")]
    assert "late" in dict(variants(built, graph)) and calls and all(module.calls < 100 for module in calls)


def test_another_program_is_another_model_where_it_violates_more(tmp_path: Path) -> None:
    graph, found = _programs(tmp_path, "(self.map(y) if x.shape[1] < 100 else y)")
    larger = found["size"]

    def violated(one: Graph) -> dict[str, str]:
        return {"G101": "It is wrong."} if one is larger else {"R201": "It grows."}

    told = others(graph, found, violated)
    assert told.differs == "at another size of its inputs it is another program, which violates G101: It is wrong" and told.one == {"call"}
    assert others(graph, found, lambda one: {"R201": "It grows."}) == Elsewhere("", frozenset({"call", "training"} | ALWAYS), "")
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
