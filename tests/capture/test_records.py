"""Records of the author's as arguments of a forward: their fields are sought like arguments, or stated one by one."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from screen.capture.build.build import build
from screen.errors import UsageError
from screen.graph.target import parse
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

RECORDS = """
    from dataclasses import dataclass, field
    from typing import NamedTuple

    @dataclass
    class Places:
        of: torch.Tensor

    @dataclass
    class Batch:
        ids: torch.Tensor
        weights: torch.Tensor
        places: Places
        window: int
        names: list = field(default_factory=list)

    class Pair(NamedTuple):
        first: torch.Tensor
        second: torch.Tensor
"""
DATACLASS = (
    RECORDS
    + """
    class Net(Base):
        def forward(self, batch: "Batch"):
            assert isinstance(batch, Batch) and isinstance(batch.places, Places) and batch.names == []
            assert batch.ids.ndim == 1
            x = self.body(self.embed(batch.ids)[None]) + batch.places.of.float().mean() + batch.window
            return (x * batch.weights.mean()).sum()
"""
)
NAMED = (
    RECORDS
    + """
    class Net(Base):
        def forward(self, pair: Pair):
            return self.body(pair.first) + self.body(pair.second).mean(1, keepdim=True)
"""
)
APART = (
    RECORDS
    + """
    class Net(Base):
        def forward(self, batch, factor=1.0):
            ids, (marks, _) = batch
            assert ids.dim() == 2
            return self.body(self.embed(ids)) * factor + marks.float().mean()
"""
)
HANDED = (
    RECORDS
    + """
    class Edges(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(24, 24)

        def forward(self, graph):
            nodes, edge_index = graph
            first, second = edge_index
            gathered = nodes.index_select(0, first)
            return nodes + torch.zeros_like(nodes).scatter_add(0, second[:, None].expand(-1, 24), self.map(gathered))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.edges = Edges()

        def forward(self, data):
            return self.edges(data)
"""
)


@pytest.mark.parametrize("source", [DATACLASS, NAMED, APART, HANDED])
def test_fields_of_records_are_sought(write: Any, source: str) -> None:
    (b,) = built(write(source))
    assert runs(b) == "" and type(b.model).__name__ == "Net" and "forward" in vars(type(b.model))


def test_a_field_may_be_stated_alone(write: Any) -> None:
    (b,) = build(parse(write(DATACLASS)), set={}, inputs=("batch.window=3", "batch.ids=int64[11]"), depth=None)
    assert b.kwargs["batch"].window == 3 and b.kwargs["batch"].ids.shape == (11,) and runs(b) == ""


CARRIED = """
    class Net(Base):
        def init_hidden(self, size):
            return torch.zeros(1, size, 24), torch.zeros(1, size, 24), "carried"

        def forward(self, ids, hidden):
            h, c, how = hidden
            assert how == "carried"
            return self.body(self.embed(ids)) + h[0][:, None] + c[0][:, None]
"""


def test_what_a_method_makes_is_not_taken_apart(write: Any) -> None:
    (b,) = built(write(CARRIED))
    assert runs(b) == "" and b.kwargs["hidden"][2] == "carried"


MASKED = """
    from dataclasses import dataclass

    @dataclass
    class Masked:
        ids: torch.Tensor
        mask: torch.Tensor

    class Net(Base):
        def forward(self, batch: Masked):
            return self.body(self.embed(batch.ids)) * (~batch.mask)[..., None]
"""


def test_a_field_that_is_stated_leads_the_others(write: Any) -> None:
    (b,) = build(parse(write(MASKED)), set={}, inputs=("batch.ids=int64[2,9]",), depth=None)
    assert runs(b) == "" and b.kwargs["batch"].mask.shape == (2, 9)
    with pytest.raises(UsageError, match=r"a field of `Masked`; there is no `idz`. Did you mean `ids`\?"):
        build(parse("model.py"), set={}, inputs=("batch.idz=int64[2,9]",), depth=None)


def test_a_stack_that_is_counted_is_not_cut_for_trials(tmp_path: Path) -> None:
    """`tables` is unpacked by its five members: a shortened copy of the model ends there, whatever it is given."""
    path = tmp_path / "counted.py"
    text = """
        import torch
        from torch import nn

        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.tables = nn.ModuleList(nn.Embedding(50, 24) for _ in range(5))
                self.maps = nn.ModuleList(nn.Linear(24, 24) for _ in range(5))

            def forward(self, ids, labels):
                assert ids.ndim == 1
                values = [table(ids) for table in self.tables]
                values = [values[4], values[3], values[2], values[1], values[0]]
                assert len(ids) % 64 == 0
                x = values[0]
                for layer, value in zip(self.maps, values):
                    x = x + layer(x + value)
                return nn.functional.cross_entropy(x, labels)
    """
    path.write_text(textwrap.dedent(text))
    (b,) = built(str(path))
    assert runs(b) == "" and b.kwargs["ids"].shape == b.kwargs["labels"].shape
