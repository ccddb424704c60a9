"""Code as its authors wrote it, in the styles of libraries and of single files: it is read at the first try, or one message is enough."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from screen.capture.build import launcher
from screen.capture.build.needs import Needs
from screen.capture.kernels import older
from screen.child.run import explain, none_at
from screen.child.protocol import Request
from screen.command.commands import _advice
from screen.errors import LoadError, ScreenError

from tests.capture.first_try import HEAD, built, runs, writing

write = pytest.fixture(writing)


# -- devices -------------------------------------------------------------------------------------------------------------------------------

DEVICES = {
    "autocast by the type of the device": "with torch.autocast(device_type=x.device.type, enabled=False):\n            return x.float()",
    "is autocast on": "return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x",
    "type as text": "return x.type(x.type())",
    "a type of tensors": "return x.type(torch.cuda.FloatTensor)",
    "to the CPU and back": "return x.cpu().to(x.device)",
    "only known devices": "assert x.device.type in ('cpu', 'cuda') and x.is_cpu and x.get_device() < 0\n        return x",
    "a generator of the device": "return x + torch.randn(x.shape, generator=torch.Generator(device=x.device), device=x.device)",
    "constants on the CPU": "return x + torch.arange(x.shape[1], device='cpu').to(x.device)[None, :, None]",
    "a cache that is built late": "self.cache = getattr(self, 'cache', None)\n"
    "        if self.cache is None:\n            self.cache = torch.arange(x.shape[-1], device=x.device).cos()\n        return x * self.cache",
    "flex attention": "from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n"
    "        h = x.unflatten(-1, (3, -1)).transpose(1, 2)\n"
    "        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, x.shape[1], x.shape[1], device=x.device)\n"
    "        score = lambda s, b, h, i, j: s - (i - j)\n"
    "        return flex_attention(h, h, h, score_mod=score, block_mask=mask).transpose(1, 2).flatten(2)",
}


@pytest.mark.parametrize("what", DEVICES)
def test_meta_stands_for_a_device(write: Any, what: str) -> None:
    (b,) = built(write(f"class Net(Base):\n    def extra(self, x):\n        {DEVICES[what]}\n"))
    assert runs(b) == ""
    assert not any(p.device.type != "meta" for p in b.model.parameters())


CONSTRUCTORS = {
    "to the CPU": "self.to('cpu')",
    "to a default device": "self.maps = nn.ModuleList(nn.Linear(24, 24, device=device) for _ in range(3)).to(device)",
    "a large one on the CPU": "self.big = nn.Parameter(torch.empty(1 << 34, device='cpu'))",
    "large ones beside small ones": "self.scale = float(torch.ones(3).sum())\n        torch.cat((torch.zeros(2, 1, 24), torch.zeros(2, 999, 24)), 1)",
    "a value of a large tensor": "self.scale = float(torch.ones(8192, 8).sum())",
    "a table that is put off on meta": "t = torch.arange(24.0)\n        self.put_off = t.is_meta\n"
    "        assert not self.put_off and self.maps[0].weight.data.is_meta is False",
    "sparse": "self.register_buffer('table', torch.eye(8).to_sparse().to_dense())",
    "copies out": "self.maps[0].weight.data = self.maps[0].weight.data.cpu()",
}


@pytest.mark.parametrize("what", CONSTRUCTORS)
def test_a_constructor_may_name_the_cpu_and_read_values(write: Any, what: str) -> None:
    (b,) = built(write(f"class Net(Base):\n    def __init__(self, device='cpu'):\n        super().__init__()\n        {CONSTRUCTORS[what]}\n"))
    assert runs(b) == ""


# -- files as they are ---------------------------------------------------------------------------------------------------------------------


def test_a_class_that_does_not_build_hides_nothing(write: Any) -> None:
    path = write(
        "class Net(Base):\n    pass\n\nclass Foo(nn.Module):\n    def __init__(self, d):\n"
        "        super().__init__()\n        self.map = nn.Linear(d, d)\n\n    def forward(self, x):\n        return self.map(x)\n"
    )
    (b,) = built(path)
    assert type(b.model).__name__ == "Net" and b.info.notes == ("not judged: `Foo` needs `d`: `--set Foo.d=…`",)
    assert len(built(path, **{"Foo.d": 3})) == 2


SCRIPT = """
import no_such_package_at_all
text = open("no_such_file.txt").read()
size = len(text)
argued = 8

class Net(Base):
    def __init__(self):
        super().__init__(d=argued, vocab=VOCAB)

model_out = Net(text)
for step in range(10 ** 9):
    loss = Net()(text).sum()
    loss.backward()
"""


def test_a_script_that_trains_is_read_up_to_what_runs(write: Any) -> None:
    (b,) = built(write(SCRIPT.replace("VOCAB", "40")))
    assert b.model.embed.embedding_dim == 8 and runs(b) == ""  # type: ignore[union-attr]
    assert any("no_such_file.txt" in note and '`if __name__ == "__main__":`' in note for note in b.info.notes)
    assert any("it trains" in note for note in b.info.notes)


def test_a_name_that_a_script_did_not_make_can_be_given(write: Any) -> None:
    path = write(SCRIPT.replace("VOCAB", "size"))
    with pytest.raises(Needs, match=r"it reads `size`, but model.py:\d+ did not run.*`--set size=…`"):
        built(path)
    assert built(path, size=77)[0].model.embed.num_embeddings == 77  # type: ignore[union-attr]


def test_what_stops_a_file_before_its_classes_is_the_error(write: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        built(write("class Net(Base):\n    pass\n", head="1 / 0\n" + HEAD))


def test_a_neighbour_that_needs_a_package_is_read_without(write: Any) -> None:
    write("import no_such_package_at_all\n\nWIDTH = 32\n", "beside.py", head="")
    (b,) = built(write("from beside import WIDTH\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(WIDTH)\n"))
    assert b.model.embed.embedding_dim == 32  # type: ignore[union-attr]


ABSENT = """
from nowhere_at_all import Checked, Registry, checked, wrapped
from torch import no_such_name_of_torch
import nowhere_at_all.kernels as kernels

MODELS = Registry("models")

@wrapped
class Settings(Checked):
    def __init__(self, size=32):
        self.size = size

@MODELS.register(name="net")
class Net(Base):
    def __init__(self):
        super().__init__(Settings().size)

    @checked
    def extra(self, x: kernels.Float["b n d"] | None):
        LINE
"""


def test_names_of_a_package_that_is_not_there_may_be_named(write: Any) -> None:
    (b,) = built(write(ABSENT.replace("LINE", "return x")))
    assert runs(b) == "" and b.model.embed.embedding_dim == 32  # type: ignore[union-attr]
    told = [n for n in b.info.notes if n.startswith("model.py:")]
    assert len(told) == 3 and all(n.endswith("by name only") for n in told)
    assert "`@nowhere_at_all.checked` at model.py:23 is left out" in b.info.notes


ASKED = ["checked(x)", "x if kernels else x", "x * kernels.scale", "kernels.Block()(x)", "Bare()", "x if isinstance(x, Checked) else x"]


@pytest.mark.parametrize("line", ASKED)
def test_nothing_else_is_asked_of_names_that_are_not_there(write: Any, line: str) -> None:
    (b,) = built(write(ABSENT.replace("LINE", f"return {line}") + "\nclass Bare(Checked):\n    pass\n"))
    assert "`nowhere_at_all." in runs(b) and "is not there, and nothing stands in for it" in runs(b)


def test_a_forward_that_others_are_to_write_is_no_model(write: Any) -> None:
    (b,) = built(write("class Api(nn.Module):\n    def forward(self, x):\n        'What it gives.'\n        raise NotImplementedError\n\n"
                       "class Net(Base):\n    pass\n"))  # fmt: skip
    assert b.info.model_class == "Net"


def test_a_maker_stands_for_a_class_that_does_not_build_by_its_defaults(write: Any) -> None:
    source = "class Net(Base):\n    def __init__(self, d=None):\n        super().__init__(d * 2)\n\n"
    (b,) = built(write(source + "def make(size):\n    return Net(size)\n\n"
                       "def tiny():\n    return make(size())\n\ndef size():\n    return 8\n"))  # fmt: skip
    assert b.model.embed.embedding_dim == 16 and "`tiny` makes `Net`" in b.info.notes  # type: ignore[union-attr]


LATER = """
from dataclasses import dataclass

@dataclass
class Args:
    dim: int = 24
    offset: int = -3
    vocab: int = -1

class Net(Base):
    def __init__(self, args: Args):
        super().__init__(args.dim)
        self.offset = args.offset
        self.embed = nn.Embedding(args.vocab, args.dim)
"""


def test_a_setting_that_is_made_later_is_asked_for(write: Any) -> None:
    with pytest.raises(ScreenError, match=r"cannot do with `args.rows` as `-1`.*`--set args.rows=…`, or [^.]*\. With .*--set args.rows=37000`\.$"):
        built(write(LATER.replace("vocab", "rows")))


def test_a_size_that_nobody_states_is_proposed(write: Any) -> None:
    heads = LATER.replace("vocab", "d_model").replace("args.d_model, args.dim", "7, args.d_model")
    said = r"`--set args.d_model=…`.*usual base model it builds, but its forward ran on none .*: `screen check model.py::Net --set args.d_model=512`"
    with pytest.raises(ScreenError, match=said):  # the layers are 24 wide
        built(write(heads))


def test_a_setting_that_is_made_later_is_that_of_the_author(write: Any) -> None:
    write("from model import Args, Net\n\nnet = Net(Args(vocab=70))\n", "train.py", head="")
    assert built(write(LATER))[0].model.embed.num_embeddings == 70  # type: ignore[union-attr]


def test_the_config_class_of_a_class_is_its_own(write: Any) -> None:
    source = """
    from transformers import PretrainedConfig

    class Settings(PretrainedConfig):
        def __init__(self, width=48, **more):
            self.width = width
            super().__init__(**more)

    class Net(Base):
        config_class = Settings

        def __init__(self, config):
            super().__init__(config.width)
            self.inner = nn.Linear(config.width, config.get_text_config().width)
    """
    path = write(source)
    assert built(path)[0].model.embed.embedding_dim == 48  # type: ignore[union-attr]
    assert built(path, width=32)[0].model.embed.embedding_dim == 32  # type: ignore[union-attr]


DIVIDED = """
_GROUP = None

def initialize_model_parallel(count):
    global _GROUP
    assert torch.distributed.is_initialized() and _GROUP is None
    _GROUP = count

def destroy_model_parallel():
    global _GROUP
    _GROUP = None

def get_world_size():
    assert _GROUP is not None, "model parallel group is not initialized"
    return _GROUP
"""


def test_a_library_of_model_parallelism_divides_among_one_process(write: Any) -> None:
    write(DIVIDED, "parallel_of_first_try.py", head="import torch\nimport torch.distributed\n")
    source = "import parallel_of_first_try\n\nclass Net(Base):\n    def __init__(self):\n"
    source += "        super().__init__(24 // parallel_of_first_try.get_world_size())\n"
    with launcher.taken_back():
        (b,) = built(write(source))
        assert runs(b) == "" and any("divides the model among one process" in note for note in b.info.notes)
    assert sys.modules["parallel_of_first_try"]._GROUP is None


def test_what_a_neighbour_lacks_for_a_package_is_missed_where_it_is_asked(write: Any) -> None:
    write("import nowhere_at_all\n\nclass First:\n    pass\n\nSIZE = [0][nowhere_at_all]\nLAST = SIZE\n", "beside.py", head="")
    write("import beside\n\nTYPES = dict[str, beside.LAST]\n", "near.py", head="")
    (b,) = built(write("import near\n\nclass Net(Base):\n    pass\n"))
    assert runs(b) == "" and any(note.startswith("near.py:3") for note in b.info.notes)


def test_a_number_is_no_settings_though_the_file_has_a_class_of_some(write: Any) -> None:
    source = "from dataclasses import dataclass\n\n@dataclass\nclass Drawn:\n    token: int\n    logit: float\n\n"
    path = write(source + "class Net(Base):\n    def __init__(self, size):\n        super().__init__(size)\n")
    with pytest.raises(ScreenError, match="it needs `size`"):
        built(path)
    assert built(path, size=32)[0].model.embed.embedding_dim == 32  # type: ignore[union-attr]


def test_names_that_older_versions_of_torch_had(write: Any) -> None:
    source = "from torch._six import container_abcs, inf\n\nclass Net(Base):\n    def extra(self, x):\n"
    with older.taken_back():
        (b,) = built(write(source + "        return x.clamp(max=inf) if isinstance((1, 2), container_abcs.Iterable) else None\n"))
        assert runs(b) == "" and "`torch._six`, which this version of torch lacks, has Python's own types" in b.info.notes
    assert "torch._six" not in sys.modules


def test_modules_that_older_versions_of_timm_had(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    for path in ("timm", "timm/layers", "timm/models", "timm/models/layers"):
        (tmp_path / path).mkdir()
        (tmp_path / path / "__init__.py").write_text("")
    (tmp_path / "timm" / "layers" / "helpers.py").write_text("D = 40\n")
    text = "from timm.models.layers.helpers import D\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(d=D)\n"
    with older.taken_back():
        (b,) = built(write(text))
    assert b.model.embed.embedding_dim == 40  # type: ignore[union-attr]
    assert any("is its `timm.layers.helpers`" in note for note in b.info.notes)


def test_a_class_of_settings_in_the_file_beside_it(write: Any) -> None:
    source = "from dataclasses import dataclass, field\n\n@dataclass\nclass Sizes:\n    width: int = 40\n    vocab: int = 50 + 3\n"
    write(source + "    more: dict = field(default_factory=lambda: {})\n\n@dataclass\nclass Training:\n    width: int = 1\n", "sizes.py", head="")
    path = write("class Net(Base):\n    def __init__(self, cfg):\n        super().__init__(cfg.width, vocab=cfg.vocab)\n")
    (b,) = built(path)
    assert tuple(b.model.embed.weight.shape) == (53, 40) and "`cfg` is `Sizes` of sizes.py" in b.info.notes  # type: ignore[union-attr]
    assert built(path, width=24)[0].model.embed.embedding_dim == 24  # type: ignore[union-attr]


def test_a_file_that_is_run_from_a_folder_above(write: Any, tmp_path: Path) -> None:
    (tmp_path / "project" / "models").mkdir(parents=True)
    (tmp_path / "project" / "layers_of_first_try").mkdir()
    write("WIDTH = 32\n", "project/layers_of_first_try/sizes.py", head="")
    source = "from layers_of_first_try.sizes import WIDTH\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(WIDTH)\n"
    (b,) = built(write(source, "project/models/net.py"))
    assert b.model.embed.embedding_dim == 32 and not b.info.notes  # type: ignore[union-attr]


def test_a_module_without_forward_gives_way_to_the_one_inside(write: Any) -> None:
    path = write(
        "class Trained(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = Base()\n\n    def training_step(self, b):\n        return 0\n"
    )
    (b,) = built(f"{path}::Trained")
    assert type(b.model).__name__ == "Base" and "its `net` is looked at" in b.info.notes[0]


def test_weights_are_never_loaded_and_the_line_is_the_users(write: Any) -> None:
    path = write("class Net(Base):\n    def __init__(self):\n        super().__init__()\n        self.b = Sub.from_pretrained('x')\n\n"
                 "class Sub(nn.Module):\n    @classmethod\n    def from_pretrained(cls, name):\n        raise OSError('offline')\n")  # fmt: skip
    with pytest.raises(OSError, match="offline") as caught:
        built(f"{path}::Net")
    said = explain(caught.value, Request(path), "load")
    assert isinstance(said, LoadError) and "`Sub.from_config(config)`" in said.try_ and said.line == len(HEAD.splitlines()) + 4


LAUNCHED = """
import os
rank = int(os.environ["RANK_OF_FIRST_TRY"])
torch.cuda.set_device(rank)


class Net(Base):
    def extra(self, x):
        return x if self.training else x + {}
"""


def test_what_a_launcher_sets_up_above_the_classes_is_left_out(write: Any) -> None:
    (b,) = built(f"{write(LAUNCHED.format(1))}::Net")
    assert runs(b) == "" and "did not run (KeyError: 'RANK_OF_FIRST_TRY')" in b.info.notes[0]
    with pytest.raises(KeyError):
        built(write(LAUNCHED.format(1).replace("int(os.environ[", "int({}["), "other.py") + "::Net")


def test_no_input_is_looked_for_where_a_name_is_missing(write: Any) -> None:
    (b,) = built(f"{write(LAUNCHED.format('rank'), 'ranked.py')}::Net")
    assert "NameError" in runs(b) and not any("were tried" in note for note in b.info.notes)
    said = _advice(runs(b), b.info.notes)
    assert said.startswith("ranked.py:8 did not run (KeyError: 'RANK_OF_FIRST_TRY')") and "--input" not in said


PLACES = """
class Net(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(64, 24))

    def forward(self, ids, mask=None, input_pos=None):
        rows = self.table[input_pos].view(1, ids.shape[1], 24)
        return self.body(self.embed(ids) + rows)
"""


def test_an_optional_argument_that_is_no_error_of_its_own_is_supplied(write: Any) -> None:
    """`table[None]` is the table with one axis more."""
    (b,) = built(f"{write(PLACES)}::Net")
    assert runs(b) == "" and tuple(b.kwargs["input_pos"].shape) == (16,) and "mask" not in b.kwargs


CONDITIONS = """
from typing import Dict, Optional


class Sizes(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.high, self.ratio = nn.Linear(2, d // 2), nn.Linear(1, d // 2)

    def forward(self, t, high, ratio):
        return t[:, None] + torch.cat([self.high(high), self.ratio(ratio)], -1)


class Step(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.sizes = Sizes(d)

    def forward(self, t, more=None):
        more = more or {"high": None, "ratio": None}
        return self.sizes(t, **more)


class Other(nn.Module):
    def forward(self, x, more=None):
        return x if more is None else x + more["of another"]


class Net(Base):
    def __init__(self, d=24):
        super().__init__(d)
        self.step, self.other = Step(d), Other()

    def forward(self, ids, t, more: Optional[Dict[str, torch.Tensor]] = None):
        if more is None:
            raise ValueError("`more` must be given")
        return self.body(self.other(self.embed(ids)) + self.step(t, more)[:, None])
"""


def test_a_dictionary_has_the_keys_that_a_part_asks_for(write: Any) -> None:
    (b,) = built(f"{write(CONDITIONS)}::Net")
    assert runs(b) == ""
    given = {**dict(zip(("ids", "t", "more"), b.args, strict=False)), **b.kwargs}["more"]
    assert {key: tuple(value.shape) for key, value in given.items()} == {"high": (2, 2), "ratio": (2, 1)}


def test_a_scripted_class_is_found(write: Any) -> None:
    path = write("class Net(torch.jit.ScriptModule):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(24, 24)\n\n"
                 "    @torch.jit.script_method\n    def forward(self, x):\n        return x + self.a(x)\n")  # fmt: skip
    (b,) = built(path)
    assert runs(b) == ""


def test_what_is_none_is_named_where_a_constructor_fails(write: Any) -> None:
    path = write("class Net(Base):\n    def __init__(self, size=24):\n        super().__init__()\n        heads = None\n        size // heads\n")
    with pytest.raises(TypeError) as caught:
        built(f"{path}::Net")
    said = explain(caught.value, Request(path), "load")
    assert isinstance(said, LoadError) and said.try_.startswith("There `heads` is None: give it a value")
    assert not none_at(TypeError("unsupported operand type(s) for //: 'int' and 'str'"))


def test_what_a_launcher_sets_up_is_that_of_one_process(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in launcher.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    head = "import os\nimport torch.distributed as dist\nDEPTH = 2 * int(os.environ['WORLD_SIZE'])\nassert torch.cuda.is_available()\n"
    net = "\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(24 * dist.get_world_size(), DEPTH)\n"
    with launcher.taken_back():
        (b,) = built(write(head + net))
        assert b.model.embed.embedding_dim == 24 and len(b.model.maps) == 2 and runs(b) == ""  # type: ignore[union-attr, arg-type]
        assert any("those of one process" in n for n in b.info.notes) and any("it has one member" in n for n in b.info.notes)
        assert dist.is_initialized() and os.environ["RANK"] == "0"
    assert not dist.is_initialized() and "RANK" not in os.environ and launcher.notes() == (), "the process is as it was"
    assert not launcher.launched(KeyError("HOME")) and not launcher.launched(ValueError("no"))


def test_a_keyword_of_another_version_is_left_out_where_it_is_none(write: Any) -> None:
    Path("library_of_another_version.py").write_text(
        "from torch import nn\n\n\nclass Part(nn.Module):\n    def __init__(self, d):\n"
        "        super().__init__()\n        self.a = nn.Linear(d, d)\n\n"
        "    def forward(self, x):\n        return self.inside(x, scale=None)\n\n    def inside(self, x, scale=None):\n        return self.a(x)\n"
    )
    source = "from library_of_another_version import Part\n\n\nclass Own(Part):\n    def inside(self, x):\n        return 2 * self.a(x)\n\n\n" \
        "class Net(Base):\n    def __init__(self, way={}):\n        super().__init__()\n        self.more = Own(24, way=way)\n\n" \
        "    def extra(self, x):\n        return self.more(x)\n"  # fmt: skip
    with older.taken_back():
        (b,) = built(write(source.format(None)) + "::Net")
        assert runs(b) == "" and any("takes no `way`: it is `None`" in n for n in b.info.notes) and any("takes no `scale`" in n for n in b.info.notes)
    assert older.notes() == ()
    with pytest.raises(TypeError, match="way"):
        built(write(source.format(3), name="stated.py") + "::Net")


COPY = """
import torch.nn.functional as F

class MultiheadAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.maps, self.out, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h

    def forward(self, x, y, z, attn_mask=None, key_padding_mask=None):
        n, b, d = x.shape
        q, k, v = (t.reshape(n, b * self.h, d // self.h).transpose(0, 1) for t in self.maps(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask).transpose(0, 1).reshape(n, b, d)), None

class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn, self.norm = MultiheadAttention(d, h), nn.LayerNorm(d)

    def forward(self, src, src_mask=None, src_key_padding_mask=None):
        return self.norm(src + self.self_attn(src, src, src, attn_mask=src_mask)[0])

class Net(nn.Module):
    def __init__(self, d=24, n=2):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(50, d), nn.TransformerEncoder(Layer(d, 2), n)

    def forward(self, ids):
        x = self.embed(ids)
        return self.encoder(x, mask=torch.full((len(x), len(x)), float("-inf")).triu(1))
"""


def test_a_copy_of_a_class_of_torch_has_what_torch_asks_of_it_since(write: Any) -> None:
    with older.taken_back():
        (b,) = built(write(COPY))
        assert runs(b) == ""
        assert "`MultiheadAttention`, a copy of torch's, has no `batch_first`: it is `False`, as by default there" in b.info.notes


def test_what_a_project_s_own_code_asks_of_such_a_copy_stays_an_error(write: Any) -> None:
    with older.taken_back():
        (b,) = built(write(COPY.replace("self.out(F.", "self.add_zero_attn or self.out(F.")))
        assert "add_zero_attn" in runs(b)


def test_a_class_that_cannot_be_defined_is_left_out_and_what_comes_behind_it_is_read(write: Any) -> None:
    text = "import no_such_package_at_all\n\ndef fast(function):\n    assert torch.cuda.is_available()\n    return function\n\n"
    text += "class Descent(torch.optim.Optimizer):\n    @fast\n    def step(self):\n        pass\n\n@fast\ndef run(model):\n    pass\n\n"
    (b,) = built(write(text + "class Net(Base):\n    pass\n"))
    assert runs(b) == "" and any("did not run (AssertionError" in note for note in b.info.notes)


def test_a_model_that_needs_such_a_class_is_an_error(write: Any) -> None:
    text = "import no_such_package_at_all\n\ndef fast(function):\n    assert torch.cuda.is_available()\n    return function\n\n"
    text += "class Mixer(nn.Module):\n    @fast\n    def forward(self, x):\n        return x\n\n"
    with pytest.raises(ScreenError, match=r"it reads `Mixer`, but model\.py:"):
        built(write(text + "class Net(Base):\n    def __init__(self):\n        super().__init__()\n        self.mixer = Mixer()\n"))
