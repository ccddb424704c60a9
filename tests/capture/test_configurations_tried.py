"""Configurations as files have them: built from their defaults, by settings or by a file, and one message where something is missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from screen.capture.build.configs import Missing, Needs
from screen.child.run import explain
from screen.child.protocol import Request
from screen.errors import LoadError, UsageError
from screen.graph.target import OPTIONAL
from screen.settings import load

from tests.capture.first_try import HEAD, built, runs, writing

write = pytest.fixture(writing)


# -- configurations ------------------------------------------------------------------------------------------------------------------------

CONFIGS = """
from dataclasses import dataclass
from typing import Optional

@dataclass
class Args:
    d: int
    n: int = 3

class Annotated(Base):
    def __init__(self, args: Args):
        super().__init__(args.d, args.n)

class Perhaps(Base):
    def __init__(self, args: Optional[Args] = None):
        super().__init__((args or Args(abs(-8))).d)

class Loose(Base):
    def __init__(self, cfg):
        super().__init__(cfg["d"], cfg.n, cfg.get("vocab", 60))

class Deep(Base):
    def __init__(self, cfg):
        super().__init__(cfg.model.d, cfg.model["n"])

class Late(Base):
    def __init__(self, args: Args):
        super().__init__(args.d * getattr(args, "times", 1), args.n)
"""
FUTURE = "from __future__ import annotations\n"


@pytest.mark.parametrize("head", [HEAD, FUTURE + HEAD])
@pytest.mark.parametrize(
    ("name", "settings", "width", "depth"),
    [
        ("Annotated", {"args.d": 32}, 32, 3),
        ("Annotated", {"args.d": 32, "n": 2}, 32, 2),
        ("Perhaps", {"args.d": 16}, 16, 3),
        ("Loose", {"cfg.d": 40, "cfg.n": 2}, 40, 2),
        ("Loose", {"d": 40, "n": 2}, 40, 2),
        ("Deep", {"cfg.model.d": 48, "cfg.model.n": 4}, 48, 4),
        ("Late", {"args.d": 8, "args.times": 3}, 24, 3),
        ("Annotated", {"?lr": 0.1, "?d": 56, "?n": 2, "n": 1}, 56, 1),
        ("Annotated", {"?model.d": 56, "?model.n": 2, "?name": "x"}, 56, 2),
        ("Loose", {"?lr": 0.1, "?d": 56, "?n": 2}, 56, 2),
        ("Deep", {"?model.d": 64, "?model.n": 1}, 64, 1),
    ],
)
def test_a_configuration_is_built(write: Any, head: str, name: str, settings: dict[str, Any], width: int, depth: int) -> None:
    (b,) = built(f"{write(CONFIGS, head=head)}::{name}", **settings)
    assert (b.model.embed.embedding_dim, len(b.model.maps)) == (width, depth)  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("Annotated", {}, r"needs `args\.d`. Add `--set args\.d=…`"),
        ("Annotated", {"args.width": 1}, "it has no `width`"),
        ("Loose", {}, r"needs `cfg\.d`, `cfg\.n`"),
        ("Late", {"args.d": 8, "args.tines": 3}, "it has no `tines`"),
    ],
)
def test_what_a_configuration_lacks_is_named(write: Any, name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        built(f"{write(CONFIGS)}::{name}", **settings)


def test_a_missing_name_is_told_with_its_path_and_line(write: Any) -> None:
    target = f"{write(CONFIGS)}::Deep"
    with pytest.raises(Missing) as caught:
        built(target, **{"cfg.model.d": 48})
    said = explain(caught.value, Request(target), "load")
    assert "reads `cfg.model.n` at model.py:" in str(said) and "Add `--set cfg.model.n=…`" in str(said)


GPT = """
class CfgNode:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)

    def merge_from_dict(self, d):
        self.__dict__.update(d)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.ModuleDict(dict(
            c_fc    = nn.Linear(config.n_embd, 4 * config.n_embd),
            c_proj  = nn.Linear(4 * config.n_embd, config.n_embd),
            dropout = nn.Dropout(config.resid_pdrop),
        ))
        m = self.mlp
        self.mlpf = lambda x: m.dropout(m.c_proj(torch.relu(m.c_fc(x)))) # MLP forward

    def forward(self, x):
        return x + self.mlpf(self.ln_1(x))


class GPT(nn.Module):
    @staticmethod
    def get_default_config():
        C = CfgNode()
        # either model_type or (n_layer, n_embd) must be given in the config
        C.model_type = 'gpt'
        C.n_layer = None
        C.n_embd =  None
        # these options must be filled in externally
        C.vocab_size = None
        C.block_size = None
        C.resid_pdrop = 0.1
        return C

    def __init__(self, config):
        super().__init__()
        assert config.vocab_size is not None
        assert config.block_size is not None
        type_given = config.model_type is not None
        params_given = all([config.n_layer is not None, config.n_embd is not None])
        assert type_given ^ params_given # exactly one of these (XOR)
        if type_given:
            # translate from model_type to detailed configuration
            config.merge_from_dict({
                'gpt-mini':     dict(n_layer=6, n_embd=32),
                'gpt-nano':     dict(n_layer=3, n_embd=16),
            }[config.model_type])
        self.transformer = nn.ModuleDict(dict(
            wte = nn.Embedding(config.vocab_size, config.n_embd),
            h = nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
        ))

    def forward(self, idx, targets=None):
        x = self.transformer.wte(idx)
        for block in self.transformer.h:
            x = block(x)
        return x
"""
"""In the style of minGPT."""


@pytest.mark.parametrize(
    ("settings", "depth"),
    [
        ({"config.vocab_size": 50, "config.block_size": 8, "config.model_type": "gpt-nano"}, 3),
        ({"?lr": 0.1, "?vocab_size": 50, "?block_size": 8, "model_type": "gpt-mini"}, 6),
        ({"vocab_size": 50, "block_size": 8, "model_type": None, "n_layer": 5, "n_embd": 24}, 5),
    ],
)
def test_a_class_gives_the_defaults_that_it_offers(write: Any, settings: dict[str, Any], depth: int) -> None:
    (b,) = built(write(GPT) + "::GPT", **settings)
    assert runs(b) == ""
    assert len(b.model.transformer.h) == depth  # type: ignore[union-attr, arg-type]
    assert b.info.changed["config"] == [None, "GPT.get_default_config()"]


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({}, ("config.vocab_size", "config.block_size", "config.model_type")),
        ({"config.vocab_size": 50, "config.n_layer": 5}, ("config.block_size", "config.n_embd", "config.model_type")),
    ],
)
def test_what_offered_defaults_leave_open_is_told_at_once(write: Any, settings: dict[str, Any], lacking: tuple[str, ...]) -> None:
    with pytest.raises(Needs) as caught:
        built(write(GPT) + "::GPT", **settings)
    assert sorted(caught.value.lacking) == sorted(lacking)
    line = 1 + (HEAD + GPT).splitlines().index("    @staticmethod")
    said = f"which `get_default_config()` at model.py:{line} does not give; `config.model_type` is one of `gpt-mini`, `gpt-nano`, or `null` beside"
    assert said in str(caught.value)
    with pytest.raises(UsageError, match="n_layers"):
        built("model.py::GPT", **{"config.n_layers": 5})


def test_a_table_of_the_file_is_a_configuration(write: Any) -> None:
    source = CONFIGS + "\ndef main():\n    SMALL = {'d': 16, 'n': 2}\n    OTHER = {'lr': 1}\n"
    (b,) = built(f"{write(source)}::Loose")
    assert b.model.embed.embedding_dim == 16 and b.info.changed["cfg"] == [None, "SMALL"]  # type: ignore[union-attr]


def test_arguments_are_those_of_a_call_in_the_file(write: Any) -> None:
    source = (
        "class Net(Base):\n    def __init__(self, d, n):\n        super().__init__(d, n)\n\n"
        "if __name__ == '__main__':\n    Net(d=8 * 4, n=2).train()\n"
    )
    (b,) = built(write(source))
    assert b.model.embed.embedding_dim == 32 and b.info.changed == {"d": [None, 32], "n": [None, 2]}  # type: ignore[union-attr]


def test_a_table_of_models_takes_a_key(write: Any) -> None:
    path = write("class Net(Base):\n    pass\n\nMODELS = {'net/2': Net, 'other': Net}\n")
    assert runs(built(f"{path}::MODELS['net/2']")[0]) == ""
    with pytest.raises(UsageError, match=r"Take one: `.*MODELS\[net/2\]`"):
        built(f"{path}::MODELS")
    with pytest.raises(UsageError, match=r"there is no `nat`.*`net/2`"):
        built(f"{path}::MODELS[nat]")


@pytest.mark.parametrize(("name", "text"), [("c.json", '{"model": {"d": 8}}'), ("c.toml", "[model]\nd = 8\n"), ("c.yaml", "model: {d: 8}\n")])
def test_a_file_of_settings(write: Any, name: str, text: str) -> None:
    write(text, name, head="")
    assert load({"config": name}).config == {"": name, "model.d": 8}


def test_a_file_of_settings_is_for_classes(write: Any) -> None:
    with pytest.raises(UsageError, match="--config"):
        built("hf:gpt2", **{OPTIONAL: "c.json", f"{OPTIONAL}d": 8})


def test_a_namespace_of_the_file_is_a_configuration(write: Any) -> None:
    source = """
    import types

    args = types.SimpleNamespace()
    args.width = 32
    args.layers = 2

    class Net(Base):
        def __init__(self, args):
            args.inner = args.width
            super().__init__(args.width, args.layers)
            self.out = nn.Linear(args.inner, 2)
    """
    (b,) = built(write(source))
    assert runs(b) == "" and b.model.out.in_features == 32 and len(b.model.maps) == 2  # type: ignore[union-attr,arg-type]


def test_a_table_of_configurations_has_rows_of_any_kind(write: Any) -> None:
    source = """
    class Settings:
        def __init__(self, **entries):
            self._entries = entries

        def keys(self):
            return self._entries.keys()

        def to_dict(self):
            return dict(self._entries)

    def base():
        return Settings(width=32, stack={"layers": 2})

    CONFIGS = {"base": base(), "large": base()}

    class Net(Base):
        def __init__(self, config):
            super().__init__(config.width, config.stack["layers"])
    """
    (b,) = built(write(source))
    assert runs(b) == "" and b.model.embed.embedding_dim == 32 and b.info.changed == {"config": [None, "CONFIGS['base']"]}  # type: ignore[union-attr]


LAYERED = """
from dataclasses import dataclass


@dataclass
class Plain:
    d: int
    n_layers: int


@dataclass
class Gated:
    d: int
    n_layers: int
    gate: float


class Part(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.settings = Plain(d=d, n_layers=0)


class Stack(Base):
    def __init__(self, config: "Plain | Gated", vocab: int = 50):
        super().__init__(config.d, config.n_layers, vocab)
"""


def test_settings_of_two_classes_are_those_of_the_first(write: Any) -> None:
    """A call that asks for no layers makes settings for a part of another model, and none of this one."""
    target = f"{write(LAYERED)}::Stack"
    with pytest.raises(UsageError, match=r"needs `config\.d`, `config\.n_layers`"):
        built(target)
    (b,) = built(target, **{"config.d": 16, "config.n_layers": 2})
    assert len(b.model.maps) == 2  # type: ignore[arg-type]


COPIED = """
from copy import deepcopy


class Acting(Base):
    def __init__(self, activation=None, d=24):
        super().__init__(d)
        self.act = nn.GELU() if activation is None else deepcopy(activation)

    def extra(self, x):
        return self.act(x)
"""


def test_what_is_copied_is_no_configuration(write: Any) -> None:
    """`deepcopy` asks it for names of Python's own."""
    (b,) = built(f"{write(COPIED)}::Acting", d=16)
    assert isinstance(b.model.act, torch.nn.GELU)


def test_what_a_library_of_torch_raises_of_a_value_is_no_fault_of_ours() -> None:
    """torchvision's own table of weights, which reports count to torch, refuses a name."""
    place = "/x/site-packages/torchvision/models/_api.py"
    with pytest.raises(KeyError) as caught:
        exec(compile("{}['nothing']", place, "exec"))  # the file is named, and is not there
    assert caught.value.__traceback__ is not None
    said = explain(caught.value.with_traceback(caught.value.__traceback__.tb_next), Request("torchvision.models:net"), "load")
    assert isinstance(said, LoadError) and said.file == place and "`KeyError: 'nothing'` at _api.py:1" in str(said)
