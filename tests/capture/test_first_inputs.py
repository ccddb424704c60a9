"""Inputs, caches and settings of code as its authors wrote it: found at the first try, or one message is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from screen.capture.build.build import build
from screen.capture.build.needs import Needs
from screen.capture.trace.tracer import trace
from screen.errors import ScreenError, UsageError
from screen.graph.target import parse

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


INPUTS = {
    "a dictionary": "def forward(self, batch):\n        return self.body(self.embed(batch['input_ids']) * batch['mask'][..., None])",
    "lengths": "def forward(self, ids, lengths):\n"
    "        return self.body(self.embed(ids)) * (torch.arange(ids.shape[1])[None] < lengths[:, None])[..., None]",
    "an assertion": "def forward(self, ids, context=None):\n        assert context is not None, 'give it'\n"
    "        return self.body(self.embed(ids)) + context[:, :1]",
    "a refusal": "def forward(self, ids, cond=None):\n        if cond is None:\n            raise ValueError('give it')\n"
    "        return self.body(self.embed(ids)) + self.maps[0](cond)[:, None]",
    "a refusal further in": "def forward(self, ids, cond=None):\n        return self.inner(ids, cond)\n\n"
    "    def inner(self, ids, given):\n        assert given is not None\n        return self.body(self.embed(ids)) + self.maps[0](given)[:, None]",
}


@pytest.mark.parametrize("what", INPUTS)
def test_inputs_that_a_forward_asks_for(write: Any, what: str) -> None:
    (b,) = built(write(f"class Net(Base):\n    {INPUTS[what]}\n"))
    assert runs(b) == ""


def test_a_part_that_an_optional_argument_wakes_is_run(write: Any) -> None:
    source = """
    class Net(Base):
        def __init__(self):
            super().__init__()
            self.cross = nn.MultiheadAttention(24, 3, batch_first=True)

        def forward(self, ids, targets=None, memory=None):
            x = self.body(self.embed(ids))
            return x if memory is None else x + self.cross(x, memory, memory)[0]
    """
    (b,) = built(write(source))
    assert set(b.kwargs) == {"ids", "memory"} and b.kwargs["memory"].shape[1] != b.kwargs["ids"].shape[1]


def test_pictures_of_a_model_that_cuts_them_itself(write: Any) -> None:
    source = """
    class ViT(Base):
        def __init__(self):
            super().__init__(48)
            self.patches = nn.Linear(3 * 8 * 8, 48)
            self.places = nn.Parameter(torch.zeros(1, 17, 48))
            self.first = nn.Parameter(torch.zeros(1, 1, 48))
            del self.embed

        def forward(self, pixels):
            b, c, h, w = pixels.shape
            x = pixels.reshape(b, c, h // 8, 8, w // 8, 8).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, 192)
            x = torch.cat([self.first.expand(b, -1, -1), self.patches(x)], dim=1)
            return self.body(x + self.places)
    """
    (b,) = built(write(source))
    assert tuple(b.kwargs["pixels"].shape) == (2, 3, 32, 32)


PATTERN = """
class Taken(nn.Module):
    def __init__(self, pattern, **axes_lengths):
        super().__init__()
        self.pattern, self.axes_lengths = pattern, axes_lengths

    def forward(self, x):
        p, b = self.axes_lengths["p"], x.shape[0]
        assert x.dim() == 3 and x.shape[1] == 3 and x.shape[2] % p == 0
        return x.reshape(b, 3, -1, p).transpose(1, 2).flatten(2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Sequential(Taken("b c (n p) -> b n (c p)", p=5), nn.LayerNorm(15), nn.Linear(15, 24))
        self.places = nn.Parameter(torch.zeros(1, 12, 24))
        self.base = Base()

    def forward(self, series):
        return self.base.body(self.patches(series) + self.places)
"""


def test_a_written_pattern_says_the_shape(write: Any) -> None:
    (b,) = built(f"{write(PATTERN)}::Net")
    assert tuple(b.kwargs["series"].shape) == (2, 3, 60)


def test_inputs_that_a_forward_passes_on(write: Any) -> None:
    source = "class Net(Base):\n    def forward(self, *args, full=False, **more):\n        return self.inner(*args, **more)\n\n"
    (b,) = built(write(source + "    def inner(self, ids, mask=None):\n        return self.body(self.embed(ids))\n"))
    assert runs(b) == "" and len(b.args) == 1 and not b.kwargs


def test_lengths_of_sequences_that_stand_one_behind_another(write: Any) -> None:
    source = "from typing import List\n\nclass Net(Base):\n    def forward(self, ids, sizes: List[int]):\n        (count,) = ids.shape\n"
    (b,) = built(write(source + "        assert sum(sizes) == count\n        return self.body(self.embed(ids))\n"))
    assert runs(b) == "" and b.kwargs["sizes"] == list(b.kwargs["ids"].shape)


def test_inputs_as_they_are_stated(write: Any) -> None:
    path = write(
        "class Net(Base):\n    def forward(self, batch, lengths, on=False):\n"
        "        return self.body(self.embed(batch['ids'])) * lengths[:, None, None]\n"
    )
    (b,) = built(path, inputs=("batch.ids=int64[2,9]", "lengths=int64[2]=17", "on=true"))
    assert b.kwargs["batch"]["ids"].shape == (2, 9) and b.kwargs["lengths"].tolist() == [17, 17] and b.kwargs["on"] is True and runs(b) == ""
    for wrong in ("lengths=int64[2]=many", "lengths=1"):
        with pytest.raises(ScreenError):
            built(path, inputs=("batch.ids=int64[2,9]", "lengths=int64[2]", wrong, "lengths.x=1"))


CACHED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.cache = nn.Embedding(50, 24), nn.Linear(24, 24), None

    def setup_caches(self, max_batch_size, max_seq_length):
        self.cache = torch.zeros(max_batch_size, max_seq_length, 24)

    def forward(self, mask: BlockMask, idx: torch.Tensor, input_pos: torch.Tensor = None):
        assert self.cache is not None, "set them up first"
        mask.mask_mod = (lambda inner, offset: lambda b, h, q, k: inner(b, h, q + offset, k))(mask.mask_mod, input_pos[0])
        x = self.embed(idx)
        q = self.inner(x)[:, None]
        return x + flex_attention(q, q, q, block_mask=mask)[:, 0]
"""


def test_caches_that_a_forward_asserts_are_set_up(write: Any) -> None:
    """A method of the model makes them, and a block mask is made for an argument that is annotated as one."""
    head = "import torch\nfrom torch import nn\nfrom torch.nn.attention.flex_attention import BlockMask, flex_attention\n\n\n"
    (built,) = build(parse(write(CACHED, head=head)), set={}, inputs=(), depth=None)
    assert any("`setup_caches(2, 64)` was called" in note for note in built.info.notes)
    first, second = (trace(built.model, built.args, built.kwargs) for _ in range(2))
    assert first.failure is None
    assert len(first.nodes) == len(second.nodes)  # a run that writes to the mask writes to its own


def test_caches_are_for_one_sequence_where_the_forward_takes_one(write: Any) -> None:
    text = CACHED.replace("mask: BlockMask, idx", "idx").split("        mask.mask_mod")[0]
    text += "        self.cache[:, : idx.shape[1]] = x = self.embed(idx)\n        y = self.cache[:, : idx.shape[1]]\n"
    text += "        return x + self.inner(y.reshape(-1, 24)).view_as(x[0])\n"
    (b,) = built(write(text.replace("torch.Tensor = None", "torch.Tensor | None = None")))
    assert runs(b) == "" and b.kwargs["idx"].shape[0] == 1
    assert any("`setup_caches(1, 64)` was called" in note for note in b.info.notes)


def test_what_own_defaults_do_not_build_is_built_as_the_author_does(write: Any, tmp_path: Path) -> None:
    text = "class Net(Base):\n    def __init__(self, size=64, window=7, n=3, pretrained=False):\n        super().__init__(n=n)\n"
    text += "        torch.zeros(size).view(-1, window)\n        assert not pretrained\n"
    path = write(text + "\nif __name__ == '__main__':\n    window = 8\n    size = 4 * window\n    Net(size, window=window, n=2, pretrained=True)\n")
    (b,) = built(path)
    assert len(b.model.maps) == 2  # type: ignore[arg-type]
    assert any("`Net` does not build from its own defaults (" in note and "it has the arguments of model.py:" in note for note in b.info.notes)
    with pytest.raises(RuntimeError, match="invalid for input of size 32"):  # what is stated stays
        built(path, size=32)


def test_a_class_without_weights_is_no_model_beside_others(write: Any) -> None:
    loss = "class Loss(nn.Module):\n    def forward(self, x, y):\n        return nn.functional.mse_loss(x, y)\n"
    (b,) = built(write(f"{loss}\nclass Net(Base):\n    pass\n"))
    assert type(b.model).__name__ == "Net" and "not judged: `Loss` has no weights" in b.info.notes
    with pytest.raises(Needs) as caught:  # and no model in the place of one that needs something
        built(write(f"{loss}\nclass Net(Base):\n    def __init__(self, table):\n        super().__init__()\n", "other.py"))
    assert caught.value.lacking == ("table",)
    (b,) = built(write(loss, "alone.py"))
    assert type(b.model).__name__ == "Loss"


def test_where_and_in_which_precision_a_model_is_made_is_no_setting(write: Any) -> None:
    text = "class Net(Base):\n    def __init__(self, *, device: torch.device, dtype: torch.dtype):\n        super().__init__()\n"
    (b,) = built(write(text + "        self.last = nn.Linear(24, 24, device=device, dtype=dtype)\n"))
    assert b.model.last.weight.is_meta and b.model.last.weight.dtype == torch.float32  # type: ignore[union-attr]


PLAIN = """
class Settings:
    def __init__(self, given=None):
        self.patch = -1
        self.width = 24
        for key, value in (given or {}).items():
            setattr(self, key, value)

class Net(Base):
    def __init__(self, cfg: Settings):
        super().__init__(d=cfg.width)
        self.patch = cfg.patch
        self.first = nn.Linear(self.patch, cfg.width)
"""


def test_a_plain_class_of_settings_that_is_set_after_it_is_made(write: Any) -> None:
    path = write(PLAIN)
    with pytest.raises(Needs, match=r"cannot do with `cfg.patch` as `-1`"):
        built(path)
    (b,) = built(path, **{"cfg.patch": 16})
    assert b.model.first.in_features == 16  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="no `size`"):
        built(path, **{"cfg.size": 16})


PARTS = """
class Part(nn.Module):
    def __init__(self, n_classes, n_hidden):
        super().__init__()
        self.table = nn.Linear(n_classes, n_hidden)

    def forward(self, x):
        return self.table(x)

class Net(Base):
    def __init__(self, config, vocab_size):
        super().__init__(vocab=vocab_size)
        self.out = nn.Linear(config.model.hidden_size, 3000, bias=config.model.use_bias)
"""


def test_entries_of_an_entry_are_asked_for_and_the_command_is_for_the_model(write: Any) -> None:
    path = write(PARTS)
    named = "--set config.model.hidden_size=512 --set config.model.use_bias=false --set vocab_size=37000"
    with pytest.raises(Needs, match=f"`screen check model.py::Net {named}`"):
        built(path)
    (b,) = built(f"{path}::Net", **{"config.model.hidden_size": 512, "config.model.use_bias": False, "vocab_size": 90})
    assert b.model.out.in_features == 512  # type: ignore[union-attr]


def test_a_package_without_the_file_that_says_so(write: Any, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "layers.py").write_text("D = 40\n")
    (b,) = built(write("from .layers import D\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__(d=D)\n", "parts/net.py"))
    assert b.model.embed.embedding_dim == 40  # type: ignore[union-attr]


def test_a_block_mask_that_may_be_left_out_is_left_out_where_nothing_runs_with_it(write: Any) -> None:
    head = "import torch\nfrom torch import nn\nfrom torch.nn.attention.flex_attention import BlockMask\nfrom base_of_first_try import Base\n\n\n"
    text = "class Net(Base):\n    def forward(self, h: torch.Tensor, mask: BlockMask | str | None = None):\n"
    (b,) = built(write(f"{text}        assert mask is None or isinstance(mask, str)\n        return self.body(h)\n", head=head))
    assert runs(b) == "" and b.kwargs.get("mask") is None and b.kwargs["h"].shape[-1] == 24
