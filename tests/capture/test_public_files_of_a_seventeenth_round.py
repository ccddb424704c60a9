"""What kept public files of a seventeenth round from being read, or made pages tell something false, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

import screen
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

# -- graphs ------------------------------------------------------------------------------------------------------------------------------------

GRAPH = """
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.node = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))
        self.move = nn.Linear(width, 1, bias=False)

    def forward(self, h, places, edges):
        row, col = edges
        apart = places[row] - places[col]
        told = self.edge(torch.cat([h[row], h[col], (apart**2).sum(1, keepdim=True)], 1))
        steps = apart * self.move(told)
        places = places + steps.new_zeros(places.shape).scatter_add(0, row[:, None].expand(-1, places.shape[1]), steps)
        heard = told.new_zeros(len(h), told.shape[1]).index_add(0, row, told)
        return h + self.node(torch.cat([h, heard], 1)), places


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(5, 24), nn.Linear(24, 5)
        self.layers = nn.ModuleList(Layer(24) for _ in range(4))

    def forward(self, h, x, edges):
        h = self.into(h)
        for layer in self.layers:
            h, x = layer(h, x, edges)
        return self.out(h), x
"""


def test_coordinates_that_are_added_to_are_measured_numbers(write: Any) -> None:
    """Nothing refuses integers there but what is added to them: the first of four blocks was none."""
    (net,) = built(write(GRAPH))
    assert runs(net) == ""
    given = dict(zip(("h", "x", "edges"), net.args, strict=False)) | net.kwargs
    assert (given["x"].is_floating_point(), given["edges"].is_floating_point()) == (True, False)


def test_messages_over_edges_make_no_feed_forward(write: Any) -> None:
    """What each node adds is made of its neighbours, by places that came with it."""
    report = screen.check(str(write(GRAPH)))
    assert [(s.width, s.depth, k.count, [one.role for one in k.sublayers]) for s in report.streams for k in s.kinds if s.width == 24] == [
        (24, 4, 4, ["other"])
    ]
