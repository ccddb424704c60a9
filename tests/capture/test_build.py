"""From a file, a module or a live object to models on meta with inputs that run."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from screen.capture.build.build import Built, build, build_object
from screen.capture.build.reads import source_of
from screen.capture.trace.tracer import trace
from screen.errors import LoadError, ScreenError, UsageError
from screen.graph import COPIES
from screen.graph.target import parse

BLOCK = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a file and gives its path."""

    def writer(text: str, name: str = "model.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return str(path)

    return writer


def built(target: str, *, inputs: tuple[str, ...] = (), depth: int | None = None, **settings: Any) -> list[Built]:
    return build(parse(target), set=settings, inputs=inputs, depth=depth)


def runs(b: Built) -> bool:
    return trace(b.model, b.args, b.kwargs).failure is None


def shapes(b: Built) -> dict[str, tuple[int, ...]]:
    return {str(k): tuple(v.shape) for k, v in [*enumerate(b.args), *b.kwargs.items()]}


# -- which models a file gives ---------------------------------------------------------------------------------------------------------


NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.ModuleList({made} for _ in range(3))

    def forward(self, x):
        for b in self.b:
            x = b(x)
        return x
"""


def test_a_class_that_another_contains_is_no_target_of_its_own(write: Any) -> None:
    path = write(BLOCK + NET.format(made="Block()"))
    [b] = built(path)
    assert b.info.model_class == "Net" and b.name == path


def test_classes_in_a_table_or_made_by_a_function_are_contained(write: Any) -> None:
    table = """
class Other(Block):
    pass

KINDS = {'a': Block, 'b': Other}

def make(kind):
    return KINDS[kind]()
"""
    assert [b.info.model_class for b in built(write(BLOCK + table + NET.format(made="make('a')")))] == ["Net"]


def test_two_models_of_one_file_are_two_targets_with_their_names(write: Any) -> None:
    second = """
class Second(nn.Module):
    def __init__(self, like: Block = None):
        super().__init__()
        self.n = nn.RMSNorm(32)

    def forward(self, x):
        assert not isinstance(x, Block)
        return x + self.n(x)
"""
    path = write(BLOCK + second)
    assert [b.name for b in built(path)] == [f"{path}::Block", f"{path}::Second"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("def build_model():\n    return Block(32)\nmodel = Block(48)\n", 32),
        ("model = Block(48)\n", 48),
        ("__screen__ = ['small']\ndef small():\n    return Block(24)\n", 24),
        ("class Unused(nn.Module):\n    pass\n", 64),
    ],
)
def test_the_entries_of_the_contract_come_first(write: Any, entry: str, expected: int) -> None:
    [b] = built(write(BLOCK + entry))
    assert shapes(b) == {"x": (2, 16, expected)}


@pytest.mark.parametrize("name", ["Block", "instance", "factory", "holder.inner"])
def test_a_class_an_instance_and_a_function_can_be_named(write: Any, name: str) -> None:
    path = write(BLOCK + "instance = Block()\ndef factory():\n    return Block()\nclass holder:\n    inner = Block\n")
    [b] = built(f"{path}::{name}")
    assert b.info.model_class == "Block" and runs(b)


def test_nothing_to_screen_is_an_error_that_lists_what_is_there(write: Any) -> None:
    with pytest.raises(LoadError, match=r"its candidates are `helper`"):
        built(write("def helper():\n    pass\n"))


def test_a_wrong_name_gets_the_nearest(write: Any) -> None:
    with pytest.raises(UsageError, match="Did you mean `Block`"):
        built(write(BLOCK) + "::Blok")


NEEDS = "class f(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"


@pytest.mark.parametrize(
    ("entry", "message"), [("def f():\n    return 3\n", "returned a `int`"), ("f = 3\n", "is a `int`"), (NEEDS, "needs `width`")]
)
def test_what_gives_no_model_is_refused(write: Any, entry: str, message: str) -> None:
    with pytest.raises(ScreenError, match=message):
        built(write(BLOCK + entry) + "::f")


def test_a_module_is_imported_by_its_name() -> None:
    [b] = built("torch.nn:TransformerEncoderLayer", d_model=32, nhead=4, batch_first=True)
    assert shapes(b) == {"src": (2, 16, 32)} and b.info.block and runs(b)


def test_a_module_that_is_not_there_is_an_error_of_the_target() -> None:
    with pytest.raises(LoadError, match="there is no module `no_such_package`"):
        built("no_such_package.models:Net")


def test_a_file_of_a_package_may_import_its_neighbours(write: Any) -> None:
    write("", "pack_of_blocks/__init__.py")
    write(BLOCK, "pack_of_blocks/block.py")
    path = write("from .block import Block\ndef build_model():\n    return Block(40)\n", "pack_of_blocks/net.py")
    assert shapes(built(path)[0]) == {"x": (2, 16, 40)}


# -- settings --------------------------------------------------------------------------------------------------------------------------


def test_settings_reach_arguments_and_are_reported(write: Any) -> None:
    [b] = built(write(BLOCK), d=96)
    assert shapes(b) == {"x": (2, 16, 96)} and b.info.changed == {"d": [64, 96]}


CONFIG = """
from dataclasses import dataclass, field
from torch import nn

@dataclass
class Inner:
    scale: float = 1.0

@dataclass
class Config:
    width: int = 48
    inner: Inner = field(default_factory=Inner)

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n, self.scale = nn.LayerNorm(config.width), config.inner.scale

    def forward(self, x):
        return x + self.scale * self.n(x)
"""


def test_a_config_of_the_file_is_built_and_settings_reach_into_it(write: Any) -> None:
    path = write(CONFIG)
    assert shapes(built(path)[0]) == {"x": (2, 16, 48)}
    [b] = built(path, **{"width": 80, "config.inner.scale": 0.5})
    assert shapes(b) == {"x": (2, 16, 80)} and b.model.scale == 0.5
    assert b.info.changed == {"config.width": [48, 80], "config.inner": ["Inner(scale=1.0)", "Inner(scale=0.5)"]}


def test_an_unknown_setting_is_an_error_with_the_nearest(write: Any) -> None:
    with pytest.raises(UsageError, match="Did you mean `width`"):
        built(write(CONFIG), widht=1)


def test_settings_for_an_instance_are_refused(write: Any) -> None:
    with pytest.raises(UsageError, match="is an instance"):
        built(write(BLOCK + "model = Block()\n"), d=1)


# -- everything on meta ------------------------------------------------------------------------------------------------------------------


def test_everything_is_on_meta_and_in_eval(write: Any) -> None:
    [b] = built(write(BLOCK), d=1 << 20)
    assert {p.device.type for p in b.model.parameters()} == {"meta"} and not b.model.training


def test_a_constructor_that_reads_values_is_built_all_the_same(write: Any) -> None:
    path = write(BLOCK.replace("super().__init__()", "super().__init__()\n        self.rates = [r.item() for r in torch.linspace(0, 0.5, 3)]"))
    [b] = built(path)
    assert b.model.rates == [0.0, 0.25, 0.5] and {p.device.type for p in b.model.parameters()} == {"meta"} and runs(b)


@pytest.mark.parametrize("shape", ["d, d", "d, 4 * d", "4 * d, d"])
def test_orthogonal_parametrisations_are_built_whole(write: Any, shape: str) -> None:
    """torch leaves them half made, without a word, where it can neither compare nor decompose: on meta."""
    text = BLOCK.replace("nn.Linear(d, 4 * d), nn.Linear(4 * d, d)", f"nn.utils.parametrizations.orthogonal(nn.Linear({shape})), nn.Linear(4 * d, d)")
    model = build(parse(f"{write(text)}::Block"), set={}, inputs=("x=float32[2,8,64]",), depth=None)[0].model
    assert isinstance(model.up.weight, torch.Tensor) and model.up.weight.is_meta


def test_another_device_is_read_as_meta(write: Any) -> None:
    path = write(BLOCK + "def build_model():\n    return Block().cuda().to('cuda:1')\n")
    assert {p.device.type for p in built(path)[0].model.parameters()} == {"meta"}


def test_a_live_model_is_not_altered() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8, bias=False)
            self.b = self.a
            self.scale = nn.Parameter(torch.zeros(8))
            self.kept = [torch.ones(3)]
            self.calls = 0
            self.register_buffer("table", torch.arange(4.0))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x + self.scale * self.b(self.a(x))

    net = Net()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    [b] = build_object(net)
    trace(b.model, b.args, b.kwargs)
    assert net.training and net.calls == 0 and all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert b.model is not net and b.model.a is b.model.b and b.model.kept[0].device.type == "meta" and b.model.table.device.type == "meta"
    assert {n: [s.op for s in h] for n, h in b.initialisers if not n.startswith(COPIES)} == {"a.weight": ["sample_"], "scale": ["fill_"]}


def test_what_cannot_be_copied_is_shared() -> None:
    import threading

    net = nn.Linear(4, 4)
    net.lock = threading.Lock()  # type: ignore[assignment]
    assert build_object(net)[0].model.lock is net.lock


class Strided(nn.Module):
    """Keeps integers in buffers, as convolutions for streams do."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.register_buffer("stride", torch.tensor(2))
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x: Any) -> Any:
        return self.proj(x[:, :: int(self.stride.item())])[:, self.order.tolist()]


def test_small_integers_of_a_model_keep_their_values(write: Any) -> None:
    source = "import torch\nfrom torch import nn\nfrom typing import Any\n" + inspect.getsource(Strided)
    for b in (built(write(source))[0], build_object(Strided())[0]):
        graph = trace(b.model, b.args, b.kwargs)
        assert graph.failure is None and graph.guesses == () and graph.nodes[graph.outputs[0]].shape == (2, 3, 8)


# -- blocks ------------------------------------------------------------------------------------------------------------------------------

STACK = (
    BLOCK
    + """
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return x

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(64), nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)) for _ in range(4))
    def forward(self, x):
        h = self.norm(x)
        w = self.gate(h).softmax(-1)
        return x + sum(w[..., i : i + 1] * e(h) for i, e in enumerate(self.experts))

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.b = nn.Embedding(100, 64), Block()
    def forward(self, ids):
        return self.b(self.e(ids))
"""
)


@pytest.mark.parametrize(("name", "block"), [("Block", True), ("Experts", True), ("Stack", False), ("Tokens", False)])
def test_a_block_is_told_from_a_stack(write: Any, name: str, block: bool) -> None:
    assert built(f"{write(STACK)}::{name}")[0].info.block is block


def test_depth_is_for_blocks_and_the_error_names_the_depth_found(write: Any) -> None:
    assert built(f"{write(STACK)}::Block", depth=48)[0].info.depth == 48
    with pytest.raises(UsageError, match="a whole model of depth 3"):
        built(f"{write(STACK)}::Stack", depth=48)


# -- inputs that stand in the file -------------------------------------------------------------------------------------------------------

TOKENS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 8)
    def forward(self, ids, scale=1.0):
        return self.e(ids) * scale
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example_inputs = torch.tensor([[1, 2, 3]])", [[1, 2, 3]]),
        ("example_inputs = (torch.tensor([[1, 2, 3]]),)", [[1, 2, 3]]),
        ("example_inputs = {'ids': torch.tensor([[4, 5]]), 'scale': 2.0}", [[4, 5]]),
        ("def example_inputs():\n    return {'ids': torch.full((1, 2), 7)}", [[7, 7]]),
        ("def example_inputs(model):\n    return torch.arange(model.e.num_embeddings)[None]", [list(range(10))]),
        ("example_inputs = {'Net': torch.tensor([[9]])}", [[9]]),
        ("def example_inputs():\n    return {'Other': torch.tensor([[1]]), 'Net': torch.tensor([[9]])}", [[9]]),
        ("ids = torch.tensor([[1, 2, 3]])\nexample_inputs = (ids,)", [[1, 2, 3]]),
    ],
)
def test_example_inputs_of_the_file_keep_their_values(write: Any, text: str, expected: list[list[int]]) -> None:
    [b] = built(write(TOKENS + text + "\n"))
    [ids] = [v for v in [*b.args, *b.kwargs.values()] if isinstance(v, torch.Tensor)]
    assert ids.tolist() == expected


def test_input_wins_over_example_inputs(write: Any) -> None:
    [b] = built(write(TOKENS + "example_inputs = (torch.tensor([[1, 2, 3]]), 2.0)\n"), inputs=("ids=int64[2,5]",))
    assert {k: getattr(v, "shape", v) for k, v in b.kwargs.items()} == {"ids": (2, 5), "scale": 2.0}


def test_code_that_says_it_stands_in_a_text_that_is_no_code_has_no_source(tmp_path: Path) -> None:
    (tmp_path / "said.py").write_text("x = '''\n")
    found: dict[str, Any] = {}
    exec(compile("def forward(x): return x", str(tmp_path / "said.py"), "exec"), found)
    assert source_of(found["forward"]) is None


def test_code_without_lines_has_line_0(tmp_path: Path) -> None:
    tree = ast.parse("class Model(nn.Module):\n    def forward(self, x):\n        return x + x.sigmoid()\n")
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = -5
    found: dict[str, Any] = {"nn": nn, "__name__": "made"}
    exec(compile(tree, str(tmp_path / "made.py"), "exec"), found)
    graph = trace(found["Model"](), (torch.zeros(2, 8, device="meta"),), {})
    assert graph.failure is None and {node.line for node in graph.nodes} == {0}
