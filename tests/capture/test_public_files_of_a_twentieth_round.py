"""What public files of a twentieth round were told to be and are not, or kept them from being read, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

NET = """
from functools import partial


class Whole(nn.GroupNorm):
    def __init__(self, d):
        super().__init__(1, d)


class Net(Base):
    def __init__(self, d, n, norm=nn.BatchNorm1d, act=torch.relu, heads=1):
        super().__init__(d, n)
        self.norms, self.act, self.heads = nn.ModuleList(norm(d) for _ in range(n)), act, heads

"""


def told(write: Any, factories: str) -> tuple[Any, list[str]]:
    """The model `Net` of such a file, and its notes."""
    (net,) = [b for b in built(write(NET + factories)) if type(b.model).__name__ == "Net"]
    return net.model, [n for n in net.info.notes if "arguments of" in n]


@pytest.mark.parametrize("norm", ["Whole", "nn.LayerNorm", "partial(nn.LayerNorm, eps=1e-6)"])
def test_classes_of_a_call_are_given_as_the_author_gives_them(write: Any, norm: str) -> None:
    """ContextCluster: `norm_layer = GroupNorm` above the call was left out, and its model was told to have BatchNorm."""
    model, notes = told(write, f"def small(words):\n    kind = {norm}\n    d = 32\n    return words(Net(d, n=2, norm=kind, act=torch.tanh))\n")
    assert type(model.norms[0]).__name__ == ("Whole" if norm == "Whole" else "LayerNorm") and model.act is __import__("torch").tanh
    assert model.norms[0].eps == (1e-6 if "1e-6" in norm else 1e-5)
    (note,) = notes
    assert "but for" not in note, note


def test_what_a_call_gives_and_does_not_tell_is_named(write: Any) -> None:
    model, (note,) = told(write, "def small(words):\n    return words(Net(32, 2, norm=words.norm, heads=words.heads))\n")
    assert type(model.norms[0]).__name__ == "BatchNorm1d" and note.endswith(" (but for `norm` and `heads`, which could not be told)"), note


def test_names_are_those_of_the_function_around_the_call(write: Any) -> None:
    """The file's first `heads` is that of another model; a parameter's default is the author's as well."""
    other = "def large(words):\n    heads = 8\n    return words(heads)\n\n\n"
    model, (note,) = told(write, f"{other}def small(words, d=32):\n    heads = 2\n    return words(Net(d, 2, heads=heads))\n")
    assert (model.embed.embedding_dim, model.heads) == (32, 2) and "but for" not in note


def test_a_name_that_is_given_twice_is_not_told(write: Any) -> None:
    factory = "def small(words):\n    kind = nn.LayerNorm\n    if words:\n        kind = Whole\n    return words(Net(32, 2, norm=kind))\n"
    model, (note,) = told(write, factory)
    assert type(model.norms[0]).__name__ == "BatchNorm1d" and "but for `norm`," in note


SOUND = """
class Net(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.filters, self.first, self.last = torch.hamming_window(129).repeat(70, 1, 1), nn.Conv2d(1, d, 3, padding=1), nn.Linear(d, 2)
        self.maps = nn.ModuleList(nn.Conv2d(d, d, 3, padding=1) for _ in range(6))
        self.places = nn.Parameter(torch.zeros(1, 23, d))

    def forward(self, x):
        x = nn.functional.max_pool2d(nn.functional.conv1d(x.unsqueeze(1), self.filters).unsqueeze(1).abs(), (3, 3))
        x = self.first(x)
        for one in self.maps:
            x = nn.functional.max_pool2d(x + torch.tanh(one(x)), (1, 3))
        return self.last((x.amax(3).transpose(1, 2) + self.places).mean(1))
"""


def test_a_sound_is_as_long_as_its_poolings_ask(write: Any) -> None:
    """AASIST: six poolings by three leave nothing of a few hundred samples."""
    (net,) = built(write(SOUND))
    assert runs(net) == ""
