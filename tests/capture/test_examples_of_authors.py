"""Arguments and inputs as the author of a file gives them elsewhere: a training script, a README, a command line, published weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from screen.capture.build.configs import Needs

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

NET = "class Net(Base):\n    def __init__(self, d, n, dropout=0.1):\n        super().__init__(d, n)\n"
LINE = "parser = argparse.ArgumentParser()\nparser.add_argument('-d', '--d-model', type=int, default=32)\nargs = parser.parse_args()\nargs.n = 2\n"
SCRIPTS = {
    "literals": ("train.py", "from model import Net\nd, n = 32, 2\nNet(d, n=n)\n"),
    "a part of a call": ("train.py", "import model\nCONFIG = {'d': 4 * 8, 'n': 2}\nnet = model.Net(**CONFIG).to('cuda')\n"),
    "a neighbour's names": ("train.py", "from sizes import *\nfrom model import Net\nNet(D, N)\n"),
    "a command line": ("train.py", f"import argparse\nfrom model import Net\n{LINE}Net(args.d_model, args.n)\n"),
    "an entry of what a function is handed": (
        "train.py",
        "from model import Net\n\ndef settings(args):\n    own = {'d': 32, 'n': 2}\n    found = dict(vars(args), **own)\n    return found\n\n"
        "def train(config):\n    net = Net(d=config['d'], n=config['n'])\n",
    ),
    "a README": ("README.md", "# Net\n\n```python\nfrom model import Net\nnet = Net(\n    d = 32,\n    n = 2\n)\n```\n"),
}


@pytest.mark.parametrize("what", list(SCRIPTS))
def test_arguments_are_those_of_a_call_in_the_project(write: Any, tmp_path: Path, what: str) -> None:
    name, text = SCRIPTS[what]
    (tmp_path / "sizes.py").write_text("D = 32\nN = 2\n")
    (tmp_path / name).write_text(text)
    (b,) = built(write(NET))
    assert (b.model.embed.embedding_dim, len(b.model.maps)) == (32, 2)  # type: ignore[union-attr, arg-type]
    assert any(f"`Net` has the arguments of {name}:" in note for note in b.info.notes)
    (b,) = built("model.py", d=16, n=1)
    assert b.model.embed.embedding_dim == 16 and not any(name in note for note in b.info.notes)  # type: ignore[union-attr]


def test_modules_of_an_installed_library_are_made_as_the_author_makes_them(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apart").mkdir()
    text = "from torch import nn\n\n\nclass Square(nn.Linear):\n    def __init__(self, d):\n        super().__init__(d, d)\n"
    (tmp_path / "apart" / "library_of_maps.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "apart"))
    said = "from library_of_maps import Square\nfrom model import Net\n\ninner = Square(24)\nnet = Net(inner, n=2)\n"
    (tmp_path / "README.md").write_text(f"```python\n{said}```\n")
    (b,) = built(write("class Net(Base):\n    def __init__(self, inner, n):\n        super().__init__(24, n)\n        self.inner = inner\n"))
    assert type(b.model.inner).__name__ == "Square" and len(b.model.maps) == 2  # type: ignore[arg-type]


def test_tests_of_a_project_are_asked_last(write: Any, tmp_path: Path) -> None:
    """Their models are small; the script in a folder farther off is what is trained."""
    path = write(NET)
    (tmp_path / "test_net.py").write_text("from model import Net\nNet(8, 1)\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("from model import Net\nNet(32, 2)\n")
    (b,) = built(path)
    assert b.model.embed.embedding_dim == 32  # type: ignore[union-attr]


OTHERS = ["class Net: ...\nNet(d=32, n=2)\n", "from other import Net\nNet(d=32, n=2)\n", "from model import Net\nNet(load(), n=2)\n"]


@pytest.mark.parametrize("text", OTHERS)
def test_a_call_that_is_another_s_or_cannot_be_told_gives_nothing(write: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    with pytest.raises(Needs) as caught:
        built(write(NET))
    assert caught.value.lacking == (("d",) if "load()" in text else ("d", "n"))


ARGS = """
from dataclasses import dataclass

@dataclass
class Args:
    d: int
    n: int = None
    vocab: int = -1

class Net(Base):
    def __init__(self, args: Args):
        assert args.vocab > 0
        super().__init__(args.d, args.n, args.vocab)
"""


def test_a_configuration_is_that_of_a_call_in_the_project(write: Any, tmp_path: Path) -> None:
    target = write(ARGS)
    (tmp_path / "train.py").write_text("from model import Args\nArgs(d=32, n=2, vocab=60)\n")
    (b,) = built(target)
    assert (b.model.embed.embedding_dim, len(b.model.maps), b.model.embed.num_embeddings) == (32, 2, 60)  # type: ignore[union-attr, arg-type]
    assert b.info.changed["args.d"] == [None, 32] and "`args` is that of train.py:2" in b.info.notes


def test_settings_that_a_constructor_refuses_are_named(write: Any) -> None:
    target = write(ARGS)
    with pytest.raises(Needs, match=r"model\.py:\d+ cannot do with `args\.vocab` as `-1`") as caught:
        built(target, **{"args.d": 8})
    assert caught.value.lacking == ("args.vocab",)
    with pytest.raises(Needs, match=r"`args\.n` as None. Add `--set args\.n=…`"):
        built(target, **{"args.d": 8, "args.vocab": 50})
    assert runs(built(target, **{"args.d": 8, "args.vocab": 50, "args.n": 2})[0]) == ""


OFFERED = """
class Config:
    pass

class Net(Base):
    @staticmethod
    def get_default_config():
        c = Config()
        c.kind = "net"
        c.vocab = c.d = c.n = None
        return c

    @classmethod
    def from_pretrained(cls, kind):
        config = cls.get_default_config()
        config.vocab = 60
        return cls(config)

    def __init__(self, config):
        config.__dict__.update({"small": dict(d=32, n=2), "large": dict(d=64, n=4)}[config.kind])
        super().__init__(config.d, config.n, config.vocab)
"""


def test_what_a_class_writes_for_published_weights_stands_for_what_it_lacks(write: Any) -> None:
    (b,) = built(write(OFFERED))
    assert (b.model.embed.embedding_dim, b.model.embed.num_embeddings) == (32, 60)  # type: ignore[union-attr]
    assert b.info.changed["config.kind"] == ["net", "small"] and b.info.changed["config.vocab"] == [None, 60]
    (b,) = built("model.py", **{"config.kind": "large"})
    assert (b.model.embed.embedding_dim, b.model.embed.num_embeddings) == (64, 60)  # type: ignore[union-attr]


def test_a_function_that_makes_a_model_stands_for_its_class(write: Any) -> None:
    source = "class Net(nn.Module):\n    def __init__(self, body):\n        super().__init__()\n        self.body = body\n\n" \
        "    def forward(self, ids):\n        return self.body(ids)\n\n\ndef small(d=32):\n    net = Net(Base(d))\n    return net\n"  # fmt: skip
    (b,) = built(write(source))
    assert b.model.body.embed.embedding_dim == 32 and "`small` makes `Net`" in b.info.notes and runs(b) == ""  # type: ignore[union-attr]


def test_a_build_model_that_lacks_arguments_hides_nothing(write: Any) -> None:
    (b,) = built(write("class Net(Base):\n    pass\n\n\ndef build_model(weights):\n    return Net(weights['d'])\n"))
    assert b.model.embed.embedding_dim == 24 and any("`build_model` needs" in n for n in b.info.notes)  # type: ignore[union-attr]


def test_inputs_are_those_of_a_call_in_a_readme(write: Any, tmp_path: Path) -> None:
    source = (
        "class Net(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n        self.a = nn.Linear(dim * 7, dim * 7)\n\n"
        "    def forward(self, data):\n        b, h, w, c = data.shape\n        assert (h, w) == (6, 10)\n"
        "        x = torch.cat([data.flatten(1, 2)] * 7, dim=-1)\n        return x + self.a(x)\n"
    )
    readme = "```python\nimport torch\nfrom model import Net\n\nnet = Net(dim = 3)\nimg = torch.randn(1, 6, 10, 3)\nnet(img)\n```\n"
    (tmp_path / "README.md").write_text(readme)
    (b,) = built(write(source))
    assert [tuple(a.shape) for a in b.args] == [(2, 6, 10, 3)] and runs(b) == ""
    assert "its inputs are those of README.md:7" in b.info.notes


def test_a_file_of_a_package_imports_its_neighbours_as_a_script_would(write: Any, tmp_path: Path) -> None:
    for name, text in {"__init__.py": "", "sizes_of_a_neighbour.py": "D = 32\n", "parts/depth_of_a_neighbour.py": "N = 2\n"}.items():
        (tmp_path / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "package" / name).write_text(text)
    head = "import sys\nsys.path.append('parts')\nfrom depth_of_a_neighbour import N\nfrom sizes_of_a_neighbour import D\n"
    source = f"{head}from base_of_first_try import Base\n\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(D, N)\n"
    (b,) = built(write(source, name="package/model.py", head=""))
    assert (b.model.embed.embedding_dim, len(b.model.maps)) == (32, 2)  # type: ignore[union-attr, arg-type]


def test_an_argument_that_a_forward_asks_for_is_named(write: Any) -> None:
    source = "class Net(Base):\n    def __init__(self, size=None):\n        super().__init__()\n        self.size = size\n\n" \
        "    def extra(self, x):\n        assert self.size is not None and self.maps is not None\n        return x * self.size\n"  # fmt: skip
    (b,) = built(write(source))
    assert any(note.endswith("; `size` is None, which model.py:12 asks for: `--set size=…`") for note in b.info.notes)
    assert runs(built("model.py", size=2)[0]) == ""


def test_a_command_line_that_knows_all_names_is_the_configuration(write: Any, tmp_path: Path) -> None:
    names = ["d", "n", "vocab", *(f"other_{i}" for i in range(6))]
    lines = [f"parser.add_argument('--{name}', default={size})" for name, size in zip(names, [32, 2, 60, *range(6)], strict=True)]
    (tmp_path / "run.py").write_text("\n".join(["import argparse", "parser = argparse.ArgumentParser()", *lines]))
    (b,) = built(write("class Net(Base):\n    def __init__(self, configs):\n        super().__init__(configs.d, configs.n, configs.vocab)\n"))
    assert b.model.embed.embedding_dim == 32 and "`configs` is the command line of run.py" in b.info.notes  # type: ignore[union-attr]


def test_a_command_line_that_knows_most_names_of_a_configuration(write: Any, tmp_path: Path) -> None:
    options = "".join(f"p.add_argument('--{name}', type=int, default=2)\n" for name in "abcdefgh")
    text = f"import argparse\np = argparse.ArgumentParser()\np.add_argument('--d', type=int, default=32)\n{options}"
    (tmp_path / "run.py").write_text(text.replace("'--d', type=int, default=2)", "'--dd', type=int, default=2)"))
    source = "class Net(Base):\n    def __init__(self, configs):\n        super().__init__(configs.d, configs.a)\n        self.b = configs.b\n"
    (b,) = built(write(source + "        if configs.b == 3:\n            self.c = nn.Linear(configs.classes, 1)\n"))
    assert b.model.embed.embedding_dim == 32  # type: ignore[union-attr]
    assert "`configs` is the command line of run.py, which does not tell `classes`" in b.info.notes


def test_inputs_are_those_above_the_call_in_dictionaries_too(write: Any) -> None:
    source = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.map, self.words = nn.Linear(16, 24), nn.Linear(24, 24), nn.Linear(40, 24)

        def forward(self, x, conds):
            b, c, h, w = x.shape
            assert isinstance(conds["b"], list)
            x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
            x = self.first(x) + self.words(conds["a"][0:b]).mean(1, keepdim=True)
            return x + self.map(x)

    def helper(x):
        x = x + 1
        return x

    if __name__ == "__main__":
        net = Net()
        x = torch.randn(1, 4, 20, 48)
        conds = {"a": torch.randn(8, 32, 40), "b": [torch.ones(2)]}
        net(x, conds)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and any(note.startswith("its inputs are those of model.py:") for note in b.info.notes)
