"""What kept public files of a seventeenth round from being read, or made pages tell something false, each by its cause in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import screen
from screen.capture.kernels import norms, rotary
from screen.capture.kernels.stand_in import to_install
from screen.report.words import target_facts
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

# -- graphs ------------------------------------------------------------------------------------------------------------------------------------------

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


# -- sizes of pieces ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["torch.split(x, [self.places, self.views], dim=-1)", "x.split([self.places, self.views], 2)"])
def test_pieces_of_written_sizes_say_how_wide_the_input_is(write: Any, how: str) -> None:
    """No layer takes the six numbers of a place and a direction together: each piece is mapped by itself (a radiance field)."""
    file = write(
        f"""
        class Field(nn.Module):
            def __init__(self):
                super().__init__()
                self.places, self.views = 4, 5
                self.first, self.second, self.last = nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32 + 5, 4)

            def forward(self, x):
                places, views = {how}
                h = torch.relu(self.second(torch.relu(self.first(places))))
                return self.last(torch.cat([h, views], -1))
        """
    )
    (net,) = built(file)
    assert runs(net) == ""
    assert net.kwargs["x"].shape[-1] == 9


# -- configurations that may be left out, and must not be --------------------------------------------------------------------------------------------

CONFIGURED = """
class Plan:
    def __init__(self, width: int = 32, rows: int = {rows}, **more):
        self.width, self.rows = width, rows

class Base(nn.Module):
    def __init__(self, plan, *rest):
        super().__init__()
        if not isinstance(plan, Plan):
            raise ValueError(f"parameter `plan` of {{type(self)}} should be a `Plan`, not {{plan}}")

class Net(Base):
    def __init__(self, plan: Plan = None):
        super().__init__(plan)
        self.words = nn.Embedding(70, plan.width)
        self.maps = nn.ModuleList(nn.Linear(plan.width, plan.width) for _ in range(plan.rows))

    def forward(self, ids):
        x = self.words(ids)
        for one in self.maps:
            x = x + torch.tanh(one(x))
        return x
"""


def test_a_configuration_that_may_be_left_out_and_is_asked_for_is_one_of_its_own_defaults(write: Any) -> None:
    (net,) = built(write(CONFIGURED.format(rows="3")))
    assert (len(net.model.maps), runs(net)) == (3, "")


def test_a_configuration_whose_own_defaults_do_not_do_is_still_asked_for(write: Any) -> None:
    with pytest.raises(Exception, match=r"plan"):
        built(write(CONFIGURED.format(rows="None")))


# -- a file of the name of its package ---------------------------------------------------------------------------------------------------------------


def test_a_file_of_the_name_of_the_package_that_it_imports_is_no_script(tmp_path: Path) -> None:
    """Where its own folder is a place of imports, it stands in the place of a package that has no `__init__.py`."""
    folder = tmp_path / "net_of_seventeen" / "models"
    folder.mkdir(parents=True)
    (folder / "base.py").write_text("from torch import nn\n\n\nclass Base(nn.Module):\n    width = 24\n")
    text = "class Net(Base):\n    def __init__(self):\n        super().__init__()\n        self.map = nn.Linear(self.width, self.width)\n\n"
    head = "import torch\nfrom torch import nn\n\nfrom net_of_seventeen.models.base import Base\n\n\n"
    (folder / "net_of_seventeen.py").write_text(f"{head}{text}    def forward(self, x):\n        return x + torch.tanh(self.map(x))\n")
    (net,) = built(str(folder / "net_of_seventeen.py"))
    assert runs(net) == ""


def test_what_an_installed_package_lacks_is_asked_of_another_version_of_it(tmp_path: Path) -> None:
    """The message asked to install what is there, or the project itself, which is no package of anyone's."""
    folder = tmp_path / "parts_of_seventeen"
    folder.mkdir()
    (folder / "blocks.py").write_text("from numpy.gone_of_seventeen import Base\n\n\nclass Block(Base):\n    pass\n")
    text = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.map = Block(3)\n"
    (tmp_path / "net.py").write_text(f"from torch import nn\n\nfrom parts_of_seventeen.blocks import Block\n\n\n{text}")
    with pytest.raises(ImportError) as caught:
        built(str(tmp_path / "net.py"))
    assert to_install(caught.value) == ["a version of `numpy` that has `numpy.gone_of_seventeen`"]


POLICY = """
import torch
from torch import nn

from .settings import Plan


class Policy(nn.Module):
    def __init__(self, plan: Plan):
        super().__init__()
        self.places = Places(plan.width)


class Places(nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.table = nn.Embedding(dimension, 4)

    def forward(self, x):
        return x + self.table(x)
"""


def test_a_part_of_what_a_missing_package_kept_from_being_defined_is_not_asked_for_its_sizes(tmp_path: Path) -> None:
    """Without the settings of the project, which need that package, the one class that is defined is a table of positions."""
    folder = tmp_path / "policies_of_seventeen"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "settings.py").write_text("import nowhere_at_seventeen\n\n\nclass Plan:\n    width = len(nowhere_at_seventeen.SIZES)\n")
    (folder / "policy.py").write_text(POLICY)
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_seventeen"):
        built(str(folder / "policy.py"))


# -- variables of the environment --------------------------------------------------------------------------------------------------------------------


def test_a_line_that_reads_an_unset_variable_asks_for_that_variable(write: Any) -> None:
    """A guard would not set it."""
    report = screen.check(
        str(
            write(
                """
                import os

                class Net(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.map = nn.Linear(24, 24)

                    def forward(self, x):
                        return x + torch.tanh(self.map(x))

                if os.environ["FAST_AT_SEVENTEEN"] == "1":
                    Net = torch.compile(Net)
                """
            )
        )
    )
    (note,) = [note for note in report.target.notes if "FAST_AT_SEVENTEEN" in note]
    assert note.endswith("set it, `FAST_AT_SEVENTEEN=… screen check …`")


# -- the first of many layers ------------------------------------------------------------------------------------------------------------------------

LAYER = """
class Layer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.start = 0.8 - 0.6 * 0.7**depth
        self.map = {made}

    def forward(self, x):
        return x + self.start * torch.tanh(self.map(x))


if __name__ == "__main__":
    layer = Layer(width=24, depth=0)
"""


def test_the_place_of_the_first_layer_is_said_by_zero(write: Any) -> None:
    """The message said that the author's call does not tell it."""
    (layer,) = built(write(LAYER.format(made="nn.Linear(width, width)")))
    assert (layer.model.start, layer.model.map.weight.shape) == (pytest.approx(0.2), (24, 24))


def test_no_layers_at_all_are_still_no_model(write: Any) -> None:
    with pytest.raises(Exception, match="depth"):
        built(write(LAYER.format(made="nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))")))


# -- a project whose package has the name of an installed one ----------------------------------------------------------------------------------------

CROWDED = {
    "README.md": "# Crowded\n",
    "crowded_of_seventeen/__init__.py": "",
    "crowded_of_seventeen/words.py": "class Words:\n    pad = 3\n\n\ndef make_words():\n    return Words()\n",
    "crowded_of_seventeen/models/net.py": """
import torch
from torch import nn

from crowded_of_seventeen.words import Words


class Net(nn.Module):
    def __init__(self, width: int, words: Words):
        super().__init__()
        self.words, self.table, self.map = words, nn.Embedding(70, width), nn.Linear(width, width)

    def forward(self, ids):
        x = self.table(ids) * (ids != self.words.pad)[..., None]
        return x + torch.tanh(self.map(x))
""",
    "crowded_of_seventeen/published.py": """
from crowded_of_seventeen.models.net import Net
from crowded_of_seventeen.words import make_words


def small():
    return Net(width=24, words=make_words())
""",
}


def test_the_package_of_the_project_comes_before_an_installed_one_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a function of the project makes for an argument, which asks for nothing, is given to it."""
    other = tmp_path / "site-packages" / "crowded_of_seventeen"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("version = 2\n")
    monkeypatch.syspath_prepend(str(other.parent))
    for name, text in CROWDED.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    (net,) = built(str(tmp_path / "project" / "crowded_of_seventeen" / "models" / "net.py"))
    assert (net.model.map.weight.shape, net.model.words.pad, runs(net)) == ((24, 24), 3, "")


# -- another version of a library --------------------------------------------------------------------------------------------------------------------


def test_a_keyword_that_an_installed_library_does_not_take_asks_for_another_version_of_it(write: Any) -> None:
    """The message said to run the file by itself first."""
    file = write(
        """
        from pytest import MonkeyPatch as Layer

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = Layer(drop=0.5)
        """
    )
    with pytest.raises(screen.ScreenError, match="The `_pytest` that is installed takes no `drop` there"):
        screen.check(str(file))


# -- settings that nobody reads ----------------------------------------------------------------------------------------------------------------------

PLANNED = """
from dataclasses import dataclass

@dataclass
class Plan:
    cache: str
    kind: {kind}
    width: int = 24

class Net(nn.Module):
    def __init__(self, plan: Plan):
        super().__init__()
        self.plan, self.map = plan, nn.Linear(plan.width, plan.width)

    def forward(self, x):
        return x + torch.tanh(self.map(x)){reads}
"""


def test_a_word_of_the_settings_that_no_code_reads_is_not_asked_for(write: Any) -> None:
    (net,) = built(write(PLANNED.format(kind="str", reads="")))
    assert (net.model.plan.cache, net.model.plan.kind, runs(net)) == ("", "", "")


@pytest.mark.parametrize(("kind", "reads"), [("str", " * (2 if self.plan.kind == 'double' else 1)"), ("int", "")])
def test_a_word_that_is_read_and_a_number_are_asked_for(write: Any, kind: str, reads: str) -> None:
    with pytest.raises(Exception, match="kind"):
        built(write(PLANNED.format(kind=kind, reads=reads)))


# -- kernels of Liger --------------------------------------------------------------------------------------------------------------------------------


def test_functions_of_liger_are_their_documented_mathematics() -> None:
    """They were called as modules are: `Module.apply() takes 2 positional arguments but 6 were given`."""
    torch.manual_seed(0)
    x, weight = torch.randn(2, 5, 8, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    normed = x * (x.square().mean(-1, True) + 1e-6).rsqrt() * (weight + 1)
    assert torch.allclose(norms.LigerRMSNormFunction.apply(x, weight, 1e-6, 1.0, "llama", False), normed)
    angle = torch.rand(5, 4, dtype=torch.float64)
    turn = torch.polar(torch.ones_like(angle), angle)
    q = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    wanted = torch.view_as_real(torch.complex(q[..., :4], q[..., 4:]) * turn).mT.flatten(-2)
    for size in (1, 2):  # cosines of half the features, or of all
        cos, sin = (t.repeat(1, size)[None] for t in (angle.cos(), angle.sin()))
        assert all(torch.allclose(one, wanted) for one in rotary.LigerRopeFunction.apply(q, q, cos, sin))


# -- packages behind sizes ---------------------------------------------------------------------------------------------------------------------------


def test_a_package_that_all_classes_read_in_their_constructors_is_named_beside_their_sizes(write: Any) -> None:
    """Who gives the seven sizes of each meets a package next, of which the message said nothing."""
    classes = "\n".join(
        f"class {name}(nn.Module):\n    def __init__(self, rate, bins):\n        super().__init__()\n"
        f"        self.sound, self.map = Sound(rate), nn.Linear(bins, bins)\n\n    def forward(self, x):\n        return self.map(self.sound(x))\n"
        for name in ("Small", "Large")
    )
    with pytest.raises(Exception, match="reads names of `nowhere_of_seventeen`, which is not installed"):
        built(write(f"from nowhere_of_seventeen.sound import Sound\n\n{classes}"))


def test_what_the_author_gives_as_it_is_by_default_is_no_change() -> None:
    """The head of the page said `use_lstm False → False`."""
    report = screen.check(torch.nn.Sequential(torch.nn.Linear(4, 4)), example_inputs=torch.zeros(2, 4))
    target = report.target.model_copy(update={"changed": {"deep": [False, False], "rows": [1, 2], "width": [None, 3]}})
    assert target_facts(report.model_copy(update={"target": target}))[-3:] == ["deep = False", "rows 1 → 2", "width = 3"]
