"""What files of public models asked for at their first try: settings that are handed on, neighbours that do not run, settings without values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from screen.capture.build import offline
from screen.child.protocol import Request
from screen.child.run import explain
from screen.errors import ScreenError
from screen.tables import composed

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

HANDED = """
class Options(dict):
    __getattr__ = dict.get

USUAL = Options(breadth=40, tall=4)

class Trunk(Base):
    def __init__(self, opts):
        super().__init__(opts.breadth, opts.tall)

class Head(nn.Module):
    def __init__(self, trunk, opts):
        super().__init__()
        self.trunk, self.out = trunk, nn.Linear(opts.breadth, 7)

    def forward(self, ids):
        return self.out(self.trunk(ids))

class Tagger(nn.Module):
    def __init__(self, opts):
        super().__init__()
        self.head = Head(Trunk(opts), opts)

    def forward(self, ids):
        return self.head(ids)
"""


def test_settings_that_are_only_handed_on_are_those_of_the_file(write: Any) -> None:
    (b,) = built(write(HANDED))
    assert runs(b) == "" and b.info.model_class == "Tagger"
    assert (b.model.head.trunk.embed.embedding_dim, len(b.model.head.trunk.maps)) == (40, 4)  # type: ignore[union-attr]


def test_settings_that_are_only_handed_on_are_asked_for_by_their_names(write: Any) -> None:
    with pytest.raises(ScreenError, match=r"`--set opts.breadth=…` `--set opts.tall=…`"):
        built(write(HANDED.replace("USUAL = Options(breadth=40, tall=4)", "")))


UNPACKED = """
from pydantic import BaseModel

class Plan(BaseModel):
    width: int
    steps: int = 3

class Net(Base):
    def __init__(self, table: dict):
        plan = Plan(**table)
        super().__init__(plan.width, plan.steps)
"""


def test_entries_that_become_arguments_are_asked_for_by_their_names(write: Any) -> None:
    path = write(UNPACKED)
    with pytest.raises(ScreenError, match=r"`--set table.width=…`, or a function .*`screen check model.py::Net --set table.width=512`"):
        built(path)
    assert built(path, **{"table.width": 40})[0].model.embed.embedding_dim == 40  # type: ignore[union-attr]


TUPLE = """
import enum
from typing import NamedTuple

class Kind(enum.Enum):
    PLAIN = 1
    OTHER = 2

class Shape(NamedTuple):
    d: int
    kinds: tuple[Kind, ...]

class Net(Base):
    def __init__(self, shape: Shape):
        super().__init__(shape.d, sum(kind is Kind.PLAIN for kind in shape.kinds))
        self.config = shape
"""


def test_a_named_tuple_is_asked_for_by_its_names(write: Any) -> None:
    with pytest.raises(ScreenError, match=r"it needs `shape.d`, `shape.kinds`"):
        built(write(TUPLE))


def test_a_named_tuple_is_that_of_the_author_with_members_of_enumerations(write: Any) -> None:
    path = write(TUPLE)
    write("import model\n\nnet = model.Net(model.Shape(40, (model.Kind.PLAIN, model.Kind.OTHER, model.Kind.PLAIN)))\n", "train.py", head="")
    (b,) = built(path)
    assert runs(b) == "" and (b.model.embed.embedding_dim, len(b.model.maps)) == (40, 2)  # type: ignore[union-attr, arg-type]


def test_a_plain_class_of_settings_in_the_file_beside_it(write: Any) -> None:
    source = "class Sizes:\n    def __init__(self, width=40, rows_or_file=50):\n        self.width, self.rows = width, rows_or_file\n"
    write(source + "\n\nclass Half:\n    def __init__(self, width):\n        self.width, self.rows = width, 9\n", "sizes.py", head="")
    (b,) = built(write("class Net(Base):\n    def __init__(self, cfg):\n        super().__init__(cfg.width, vocab=cfg.rows)\n"))
    assert tuple(b.model.embed.weight.shape) == (50, 40) and "`cfg` is `Sizes` of sizes.py" in b.info.notes  # type: ignore[union-attr]


KEPT = """
def kept(cls):
    class Kept(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.told = args, kwargs

    Kept.__name__, Kept.__qualname__ = cls.__name__, cls.__qualname__
    return Kept

@kept
class Net(Base):
    def __init__(self, dim, rows=50):
        super().__init__(dim, vocab=rows)
"""


def test_what_a_decorated_class_lacks_is_asked_for_by_its_names(write: Any) -> None:
    path = write(KEPT)
    with pytest.raises(ScreenError, match=r"it needs `dim`.*`screen check model.py::Net --set dim=512`"):
        built(path)
    assert built(path, dim=40)[0].model.embed.embedding_dim == 40  # type: ignore[union-attr]


def test_what_a_decorated_class_lacks_is_that_of_the_author(write: Any) -> None:
    path = write(KEPT)
    write("from model import Net\n\nnet = Net(dim=32, rows=70)\n", "train.py", head="")
    assert tuple(built(path)[0].model.embed.weight.shape) == (70, 32)  # type: ignore[union-attr]


def test_a_neighbour_whose_statements_fail_is_missed_where_it_is_asked(write: Any) -> None:
    write("import no_such_package_at_all\n\nSIZE = 1 / 0\nWIDTH = 32\n", "beside.py", head="")
    (b,) = built(write("from beside import WIDTH\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(WIDTH)\n"))
    assert b.model.embed.embedding_dim == 32  # type: ignore[union-attr]
    assert any(note.startswith("beside.py:3 did not run (ZeroDivisionError") for note in b.info.notes)


def test_a_folder_of_the_project_is_not_taken_for_a_package_of_its_name(write: Any, tmp_path: Path) -> None:
    (tmp_path / "zoo_of_first_try" / "absent_of_first_try").mkdir(parents=True)
    (tmp_path / "zoo_of_first_try" / "nets").mkdir()
    for place in ("", "absent_of_first_try/", "nets/"):
        write("", f"zoo_of_first_try/{place}__init__.py", head="")
    write("import absent_of_first_try.numpy\n\nD = 32\n", "zoo_of_first_try/nets/sizes.py", head="")
    source = "from zoo_of_first_try.nets.sizes import D\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(D)\n"
    (b,) = built(write(source, "zoo_of_first_try/nets/net.py"))
    assert b.model.embed.embedding_dim == 32  # type: ignore[union-attr]
    assert str(tmp_path / "zoo_of_first_try") not in sys.path

FETCHES = """
import fetcher_of_first_try
from fetcher_of_first_try import Words

SPLIT = fetcher_of_first_try.splitter("base")

class Net(Base):
    def __init__(self):
        super().__init__(32)
        self.words = Words.from_pretrained("base")

    def extra(self, x):
        return LINE
"""
FETCHER = """
def splitter(name):
    raise ConnectionError("no route to the splitter")

class Words:
    @classmethod
    def from_pretrained(cls, name):
        try:
            raise ConnectionError("no route to the words")
        except ConnectionError as error:
            raise OSError("could not connect") from error

class Weights(Words):
    @classmethod
    def from_config(cls, config):
        return cls()

def tower(name, pretrained_text=True):
    return Weights.from_pretrained(name) if pretrained_text else Weights()

def encoder(name, pretrained=False, **options):
    if pretrained:
        splitter(name)
    from torch import nn
    return nn.Linear(32, options["width"])
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "fetcher_of_first_try.py").write_text(FETCHER)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))


@pytest.mark.usefixtures("library")
def test_what_the_network_gives_and_no_weight_is_made_of_is_done_without(write: Any) -> None:
    with offline.taken_back():
        (b,) = built(write(FETCHES.replace("LINE", "x")))
        assert runs(b) == "" and b.model.embed.embedding_dim == 32  # type: ignore[union-attr]
        said = [n for n in b.info.notes if n.endswith("asks the network, which is never used: what it gives is there by name only")]
        assert [n.partition(" ")[0] for n in said] == ["`fetcher_of_first_try.splitter(…)`", "`Words.from_pretrained(…)`"]
    with pytest.raises(ConnectionError):
        sys.modules["fetcher_of_first_try"].splitter("base")


@pytest.mark.usefixtures("library")
def test_what_the_network_would_have_given_is_named_where_it_is_asked(write: Any) -> None:
    with offline.taken_back():
        (b,) = built(write(FETCHES.replace("LINE", "x * SPLIT.size")))
        assert "`fetcher_of_first_try.splitter(…).size` asks the network for it, which is never used" in runs(b)


@pytest.mark.usefixtures("library")
def test_weights_from_the_network_are_not_done_without(write: Any) -> None:
    with offline.taken_back(), pytest.raises(OSError, match="could not connect"):
        built(write(FETCHES.replace("Words", "Weights").replace("LINE", "x")))


@pytest.mark.usefixtures("library")
def test_a_function_of_a_library_that_reads_weights_is_not_done_without(write: Any) -> None:
    """It has a word for it, which is said: what it gives without the network is no model."""
    text = "\n\nfrom fetcher_of_first_try import tower\n\ndef build_model():\n    return tower('base')\n"
    with offline.taken_back(), pytest.raises(OSError, match="could not connect") as caught:
        built(write(text))
    assert "Say `pretrained_text=False` where `tower` is called" in str(explain(caught.value, Request("model.py"), "load"))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("call", ["encoder('base', True, width=32)", "fetcher_of_first_try.encoder('base', pretrained='laion', width=32)"])
def test_a_model_that_a_library_builds_is_built_without_its_weights_where_a_call_asks_for_them(write: Any, call: str) -> None:
    imports, line = "import fetcher_of_first_try\nfrom fetcher_of_first_try import encoder\n", f"self.back = {call}"
    text = f"\n{imports}\nclass Net(Base):\n    def __init__(self):\n        super().__init__(32)\n        {line}\n"
    with offline.taken_back():
        (b,) = built(write(text + "    def forward(self, ids):\n        return self.back(super().forward(ids))\n"))
        assert runs(b) == "" and b.model.back.out_features == 32  # type: ignore[union-attr]
        assert "weights that `encoder` reads are not downloaded: those are judged that its constructor gives" in b.info.notes
    with pytest.raises(ConnectionError):
        sys.modules["fetcher_of_first_try"].encoder("base", True)


CARRY = """
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from base_of_first_try import Base

@dataclass
class Memory:
    left: torch.Tensor
    done: torch.Tensor

class Core(Base):
    def forward(self, memory: Memory, sample: dict[str, torch.Tensor]):
        x = torch.cat((self.embed(sample["task"]).unsqueeze(1), self.embed(sample["words"])[:, 1:]), 1)
        return self.body(x + torch.where(memory.done.view(-1, 1, 1), 0, memory.left))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = Core()

    def begin(self, sample: dict[str, torch.Tensor]) -> Memory:
        count = len(sample["words"])
        return Memory(torch.empty(*sample["words"].shape, 24), torch.ones(count, dtype=torch.bool))

    def forward(self, memory: Memory, sample: dict[str, torch.Tensor]):
        out = self.core(memory, sample)
        return Memory(out.detach(), memory.done), out
"""


def test_a_state_that_a_method_makes_is_an_argument(write: Any) -> None:
    (b,) = built(write(CARRY, head=""))
    assert runs(b) == "" and type(b.kwargs["memory"]).__name__ == "Memory"
    assert {key: value.dim() for key, value in b.kwargs["sample"].items()} == {"words": 2, "task": 1}


HIDDEN = """
class Net(Base):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(24, 40, 2)

    def reset(self, count):
        self.cell = nn.LSTM(24, 40, count + 1)
        return torch.zeros(1)

    def fresh(self, count):
        w = self.embed.weight
        return w.new_zeros(2, count, 40), w.new_zeros(2, count, 40)

    def forward(self, ids, state):
        out, state = self.cell(self.embed(ids).transpose(0, 1), (state[0], state[1]))
        return out, state
"""


def test_a_state_that_a_method_makes_of_a_size_is_an_argument(write: Any) -> None:
    (b,) = built(write(HIDDEN))
    assert runs(b) == "" and [tuple(t.shape) for t in b.kwargs["state"]] == [(2, 2, 40)] * 2
    assert b.model.cell.num_layers == 2  # type: ignore[union-attr]


PAIRS = """
def hidden(pairs, keep):
    return pairs * keep.view(*keep.shape, 1, 1) * keep.view(keep.shape[0], 1, keep.shape[1], 1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.nodes, self.edges, self.whole, self.out = nn.Linear(5, 24), nn.Linear(7, 40), nn.Linear(11, 24), nn.Linear(40, 24)

    def forward(self, nodes, edges, whole, keep):
        others = ~torch.eye(nodes.shape[1]).bool().view(1, nodes.shape[1], nodes.shape[1], 1)
        pairs = self.edges(edges)
        pairs = hidden((pairs + pairs.transpose(1, 2)) / 2, keep)
        x = (self.nodes(nodes) + self.whole(whole).unsqueeze(1)) * keep.unsqueeze(-1)
        return x + (self.out(pairs) * others).sum(2)
"""


def test_features_of_pairs_have_one_axis_more_than_those_of_places(write: Any) -> None:
    (b,) = built(write(PAIRS))
    assert runs(b) == "" and [v.dim() for v in b.kwargs.values()] == [3, 4, 2, 2]
    assert b.kwargs["edges"].shape == (*b.kwargs["nodes"].shape[:2], b.kwargs["nodes"].shape[1], 7)


def test_what_all_configurations_of_a_class_lack_is_asked_for_at_once(write: Any) -> None:
    source = """
    class Net(Base):
        def __init__(self, n: int, sizes: dict, tables: dict, act: nn.GELU()):
            super().__init__(sizes["d"] + sizes["more"], n, tables["w"] * tables["h"])
            self.act = act
    """
    sizes = " ".join(f"`--set {name}=…`" for name in ("sizes.d", "sizes.more", "tables.w", "tables.h", "n"))
    path = write(source)
    with pytest.raises(ScreenError, match=sizes):
        built(path)
    found = built(path, **{"sizes.d": 20, "sizes.more": 4, "tables.w": 5, "tables.h": 9, "n": 2})[0].model
    assert isinstance(found, torch.nn.Module) and isinstance(found.act, torch.nn.GELU)


def test_a_package_that_is_needed_behind_the_sizes_is_named_with_them(write: Any) -> None:
    source = "from nowhere_at_all import Rotary\n\nclass Net(Base):\n    def __init__(self, width):\n        super().__init__(width)\n"
    with pytest.raises(ScreenError, match=r"needs `width`.*It then needs `nowhere_at_all`: install that"):
        built(write(source + "        self.turn = Rotary(width)\n"))


def test_a_name_that_only_an_optional_package_gives_names_the_package(write: Any) -> None:
    source = "try:\n    from nowhere_at_all.parts import Turn\nexcept ImportError:\n    pass\n\nclass Net(Base):\n    def __init__(self):\n"
    with pytest.raises(ScreenError, match=r"reads `Turn`, which its file imports from `nowhere_at_all`.*Install `nowhere_at_all`"):
        built(write(source + "        super().__init__()\n        self.turn = Turn()\n"))


def test_of_several_classes_a_package_that_one_needs_is_named(write: Any) -> None:
    source = "from nowhere_at_all import Turn\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n        self.turn = Turn()\n"
    with pytest.raises(ScreenError, match=r"Or install `nowhere_at_all`"):
        built(write(source + "\nclass Other(Base):\n    def __init__(self, table):\n        super().__init__(table.whole(3))\n"))


def test_settings_that_another_file_makes_and_hands_on_say_most(write: Any) -> None:
    plan = "class Plan:\n    drop = 0.25\n\n    def __init__(self, vocab_size, **more):\n        vars(self).update(more, vocab_size=vocab_size)\n\n"
    net = "class Net(Base):\n    def __init__(self, plan):\n        super().__init__(plan.d, plan.n, plan.vocab_size)\n"
    net += "        self.drop = plan.drop\n"
    write("from model import Net, Plan\n\nplan = Plan(len(words), d=40, n=4)\nnet = Net(plan)\n", "train.py", head="")
    (b,) = built(write(plan + net))
    assert tuple(b.model.embed.weight.shape) == (37000, 40) and len(b.model.maps) == 4  # type: ignore[union-attr, arg-type]
    assert b.model.drop == 0.25
    assert "`plan` is the `Plan` of train.py:3" in b.info.notes


def test_a_proposed_command_keeps_what_was_said(write: Any) -> None:
    path = write("class Net(Base):\n    def __init__(self, width, layers, table):\n        super().__init__(width, layers)\n")
    with pytest.raises(ScreenError, match=r"`screen check model.py::Net --set 'table=\[1, 2\]' --set width=512 --set layers=6`"):
        built(path, table=[1, 2])


def test_what_is_cut_into_pieces_is_as_wide_as_they_are(write: Any) -> None:
    source = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.eye, self.act, self.out = nn.Conv2d(3, 8, 5, 5), nn.Embedding(6, 24), nn.Linear(8, 24)

        def forward(self, frames, acts):
            b, n = frames.shape[:2]
            seen = self.eye(frames.reshape(-1, 3, 20, 20)).mean((2, 3)).view(b, n, 8)
            return self.out(seen) + self.act(acts)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and b.kwargs["frames"].shape[2:] == (1200,) and not b.kwargs["acts"].dtype.is_floating_point


def test_shapes_and_widths_of_parts_are_proposed(write: Any) -> None:
    source = """
    class Net(nn.Module):
        def __init__(self, obs_shape, hidden_dims: dict):
            super().__init__()
            self.eye, self.out = nn.Conv2d(obs_shape[0], hidden_dims["X"], 3), nn.Linear(hidden_dims["X"], hidden_dims["X"])

        def forward(self, seen):
            return self.out(self.eye(seen).mean((2, 3)))
    """
    with pytest.raises(ScreenError, match=r"`screen check model.py::Net --set hidden_dims.X=512 --set 'obs_shape=\[4, 84, 84\]'`"):
        built(write(source))


def test_what_is_put_into_a_weight_may_lie_elsewhere(write: Any) -> None:
    source = """
    class Net(Base):
        def __init__(self):
            super().__init__()
            self.maps[0].weight.data = torch.rand(24, 24, device="cpu") - 0.5
    """
    (b,) = built(write(source))
    assert runs(b) == "" and b.model.maps[0].weight.is_meta  # type: ignore[union-attr, index]


USUAL = """
import tools_that_are_not_there as tools

def usual():
    plan = tools.Table()
    plan.net = net = tools.Table()
    net.width, net.kinds = 40, ("a", "b")
    net.width = 40
    net.layers = tools.count()
    plan.seed = 2 ** 3
    return plan
"""
SMALL = """
from configs_of_first_try.usual import usual

def small():
    plan = usual()
    net = plan.net
    net.steps = 4
    net["rows"] = 70
    return plan
"""


def test_a_file_of_settings_in_python_is_read_and_not_run(write: Any, tmp_path: Path) -> None:
    (tmp_path / "configs_of_first_try").mkdir()
    (tmp_path / "README.md").write_text("a project")
    write(USUAL, "configs_of_first_try/usual.py", head="")
    write(SMALL, "configs_of_first_try/small.py", head="")
    assert composed(tmp_path / "configs_of_first_try" / "small.py", "it") == {"net": {"width": 40, "steps": 4, "rows": 70}}
    path = write("class Net(Base):\n    def __init__(self, cfg):\n        super().__init__(cfg.net.width, cfg.net.steps, cfg.net.rows)\n")
    (b,) = built(path)
    assert "its settings are those of `configs_of_first_try/small.py`, the one table of the project that has them" in b.info.notes


def test_literals_of_a_file_of_settings_in_python(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("import os\nwidth = 40\nhead = dict(kind='mlp', sizes=[1, 2])\nname = os.environ['NAME']\n")
    assert composed(path, "it") == {"width": 40, "head": {"kind": "mlp", "sizes": [1, 2]}}
    path.write_text("def (")
    with pytest.raises(ScreenError, match="line 1 is no Python"):
        composed(path, "it")


def test_a_table_of_numbers_of_axes_says_how_many_there_are(write: Any) -> None:
    source = """
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.ways = {3: (0, 2, 1)}

        def forward(self, x):
            return x.permute(*self.ways[x.ndim])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.turn, self.out = nn.Embedding(50, 24), Turned(), nn.Conv1d(7, 24, 1)

        def forward(self, ids, seen):
            return self.table(ids) + self.out(self.turn(seen)).transpose(1, 2)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and [v.dim() for v in b.kwargs.values()] == [2, 3]


def test_what_is_not_judged_beside_others_is_named_with_the_file_that_it_needs(write: Any, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a project")
    (tmp_path / "base.json").write_text('{"width": 40, "steps": 4}')
    source = """
    class Judge(Base):
        pass

    class Maker(Base):
        def __init__(self, h):
            super().__init__(h.width, h.steps)
    """
    (b,) = built(write(source))
    assert b.info.model_class == "Judge"
    assert "a file of the project has what one of these needs: `screen check model.py::Maker --config base.json`" in b.info.notes
