"""What kept public files of a sixth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from screen.capture.build import offline, published, usual
from screen.capture.build.needs import Needs
from screen.capture.kernels import older
from screen.errors import ScreenError
from tests.capture.public_files import HEAD, Write, built, runs, writing

write = pytest.fixture(writing)


SETTINGS = """
class Settings:
    def __init__(self, words=100, width=32, depth=3):
        self.vocabulary = words
        self.width = width
        self.depth = depth

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.depth))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return x
"""


def test_a_plain_class_of_the_file_that_keeps_all_names_is_the_configuration(write: Write) -> None:
    (one,) = built(write(SETTINGS))
    assert len(one.model.layers) == 3 and runs(one)  # type: ignore[arg-type]


SWITCH = """
class State:
    world = None

STATE = None

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.heads % STATE.world == 0, "heads must be divisible"
        self.map = nn.Linear(config.width, config.heads)
"""


def test_an_assertion_that_could_not_be_asked_refuses_nothing(write: Write) -> None:
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'world'"):
        built(write(SWITCH), **{"config.heads": 8, "config.width": 32})


PASSED_ON = """
class Blocks(nn.Module):
    def __init__(self, *, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

class Net(nn.Module):
    def __init__(self, *, dim, vocab_size, **kwargs):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(vocab_size, dim), Blocks(dim=dim, **kwargs)

    def forward(self, ids):
        return self.blocks(self.embed(ids))
"""


def test_what_a_part_lacks_that_kwargs_hand_on_is_asked_of_the_whole(write: Write) -> None:
    with pytest.raises(Needs) as caught:
        built(write(PASSED_ON), "Net", dim=32, vocab_size=100)
    assert caught.value.lacking == ("depth",)
    with pytest.raises(Needs) as caught:
        built(write(PASSED_ON), "Net")
    assert "--set dim=512 --set vocab_size=37000 --set depth=6" in caught.value.try_
    (one,) = built(write(PASSED_ON), "Net", dim=32, vocab_size=100, depth=2)
    assert runs(one)


def test_what_the_author_gives_through_kwargs_is_taken(write: Write) -> None:
    path = write(PASSED_ON + "\n\ndef example():\n    return Net(dim=32, vocab_size=50, depth=3)(torch.ones(2, 8).long())\n")
    (one,) = built(path, "Net")
    assert len(one.model.blocks.layers) == 3  # type: ignore[arg-type, union-attr]


FACTORY = """
class Net(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    @staticmethod
    def small(pretrained: bool = True):
        net = Net._make(32)
        if pretrained:
            net.load_state_dict(torch.hub.load_state_dict_from_url("https://example.invalid/net.pt"))
        return net

    @staticmethod
    def _make(width):
        return Net(nn.Linear(width, width))

    def forward(self, x):
        return x + self.encoder(x)
"""


def test_a_static_method_that_makes_its_class_stands_for_it_and_reads_no_weights(write: Write) -> None:
    (one,) = built(write(FACTORY))
    assert one.entry == "Net.small" and runs(one) and one.info.changed["pretrained"] == [True, False]


def test_a_method_that_asks_for_a_place_stands_for_nothing(write: Write) -> None:
    read = "\n    @classmethod\n    def read(cls, place):\n        return cls(nn.Linear(int(place), 8))\n\n    def forward"
    with pytest.raises(Needs) as caught:
        built(write(FACTORY.partition("    @staticmethod")[0] + read.lstrip("\n") + "(self, x):\n        return x + self.encoder(x)\n"))
    assert caught.value.lacking == ("encoder",)


WORDS = """
class Net(nn.Module):
    def __init__(self, *, d_token: int, n_layers: int, activation: str, kind: str, sharing: typing.Optional[str]):
        super().__init__()
        assert kind in ("xavier", "kaiming")
        assert sharing is None
        self.act = getattr(F, activation)
        self.layers = nn.ModuleList(nn.Linear(d_token, d_token) for _ in range(n_layers))

    def forward(self, x):
        for layer in self.layers:
            x = x + self.act(layer(x))
        return x
"""


def test_words_that_the_code_compares_with_and_none_are_proposed(write: Write) -> None:
    with pytest.raises(Needs) as caught:
        built(write(WORDS), "Net")
    assert "--set d_token=512 --set n_layers=6 --set activation=gelu --set kind=xavier --set sharing=null" in caught.value.try_


def test_sizes_of_a_unet_are_usual_ones() -> None:
    def entry(model_channels, num_res_blocks, attention_resolutions, channel_mult):  # type: ignore[no-untyped-def]
        """Takes what U-Nets take."""

    found = usual.chosen(entry, ("model_channels", "num_res_blocks", "attention_resolutions", "channel_mult"))
    assert found == {"model_channels": 128, "num_res_blocks": 2, "attention_resolutions": [16, 8], "channel_mult": [1, 2, 2, 2]}


def test_a_published_name_has_its_sizes_and_no_other_has(write: Write) -> None:
    pytest.importorskip("transformers")
    code = """
from transformers import T5Config

class Net(nn.Module):
    def __init__(self, name="NAME"):
        super().__init__()
        self.map = nn.Linear(T5Config.from_pretrained(name).d_model, 32)

    def forward(self, x):
        return self.map(x)
"""
    with offline.taken_back():
        (one,) = built(write(code.replace("NAME", "google/t5-v1_1-base")))
        assert one.model.map.in_features == 768  # type: ignore[union-attr]
        assert any("its sizes are those that are published" in note for note in one.info.notes)
    assert published.config_named("somebody/t5-v1_1-base") is None and published.config_named("google/t5-v1_1-huge") is None


PARTS = """
class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.map = width, nn.Linear(width, width)

    def forward(self, x):
        return x + self.map(x)

class Outer(nn.Module):
    def __init__(self, inner, depth=2):
        super().__init__()
        self.inner, self.head = inner, nn.Linear(inner.width, 10)

    def forward(self, x):
        return self.head(self.inner(x))


def main():
    inner = Inner(width=48).eval()
    net = Outer(inner, depth=3)
    print(net(torch.ones(2, 48)))
"""


def test_a_part_that_the_author_makes_for_an_argument_is_made(write: Write) -> None:
    (one,) = built(write(PARTS), "Outer")
    assert one.model.inner.width == 48 and runs(one)  # type: ignore[union-attr]


EITHER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.map = nn.Embedding(100, 32), nn.Linear(32, 32)

    def forward(self, ids, texts: typing.Optional[typing.List[str]] = None, states=None):
        assert (texts is not None) ^ (states is not None)
        x = self.embed(ids)
        if texts is not None:
            states = torch.stack([torch.ones(32) * len(text.split()) for text in texts])[:, None]
        return x + self.map(states.mean(1, keepdim=True))
"""


def test_of_two_arguments_that_exclude_each_other_one_is_given(write: Write) -> None:
    (one,) = built(write(EITHER))
    assert runs(one) and "states" in one.kwargs and one.kwargs.get("texts") is None


NUMBERS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.map = nn.Parameter(torch.randn(9, 32)), nn.Linear(32, 32)

    def forward(self, numbers: torch.Tensor, kinds: typing.Optional[torch.Tensor]):
        some = numbers if kinds is None else kinds
        x = torch.cat([torch.ones(len(some), 1, device=some.device), numbers], 1)
        x = self.weight[None] * x[:, :, None]
        if kinds is not None:
            x = torch.cat([x, self.rows(kinds)], 1)
        return x + self.map(x)
"""


def test_columns_of_numbers_that_become_tokens_are_floats(write: Write) -> None:
    (one,) = built(write(NUMBERS))
    given = one.kwargs["numbers"]
    assert runs(one) and given.shape[1:] == (8,) and given.dtype.is_floating_point and one.kwargs["kinds"] is None


CHOSEN = """
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(32, 32)

    def forward(self, x):
        return x + self.map(x)

class Turned(Plain):
    def forward(self, x, angle):
        return super().forward(x * angle)

class Net(nn.Module):
    def __init__(self, block=Plain):
        super().__init__()
        self.embed, self.block = nn.Embedding(100, 32), block()

    def forward(self, ids):
        return self.block(self.embed(ids), angle=2.0)


def turned():
    return Net(block=Turned)
"""


def test_a_class_whose_own_defaults_do_not_run_is_what_a_function_of_its_file_makes(write: Write) -> None:
    (one,) = [b for b in built(write(CHOSEN)) if b.entry == "Net"]
    assert runs(one) and any("its own defaults do not run" in note for note in one.info.notes)


TABLES = """
class Vision:
    def __init__(self, width=32):
        self.width = width

class Text:
    def __init__(self, vocab_size, width):
        self.vocab_size, self.width = vocab_size, width

class Settings:
    def __init__(self, vision=None, text=None):
        self.vision = Vision(**vision)
        self.text = Text(**text)

class Net(nn.Module):
    def __init__(self, config: Settings):
        super().__init__()
        self.embed, self.map = nn.Embedding(config.text.vocab_size, config.text.width), nn.Linear(config.vision.width, 32)

    def forward(self, ids):
        return self.map(self.embed(ids))
"""


def test_tables_that_are_left_out_and_unpacked_ask_for_what_they_lack(write: Write) -> None:
    with pytest.raises(ScreenError) as caught:
        built(write(TABLES))
    assert "--set config.text.vocab_size=37000 --set config.text.width=512" in caught.value.try_
    (one,) = built(write(TABLES), "Net", **{"config.text.vocab_size": 100, "config.text.width": 32})
    assert runs(one) and one.model.embed.num_embeddings == 100  # type: ignore[union-attr]


def test_a_package_that_a_project_carries_in_another_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("A project.\n")
    (tmp_path / "carried-1.0" / "parts_of_sixth_round" / "v1").mkdir(parents=True)
    (tmp_path / "carried-1.0" / "parts_of_sixth_round" / "v1" / "maps.py").write_text("WIDTH = 48\n")
    (tmp_path / "nets").mkdir()
    path = tmp_path / "nets" / "net_of_sixth_round.py"
    path.write_text(HEAD + "from parts_of_sixth_round.v1.maps import WIDTH\n\n"
                    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.map = nn.Linear(WIDTH, WIDTH)\n\n"
                    "    def forward(self, x):\n        return x + self.map(x)\n")  # fmt: skip
    (one,) = built(path)
    assert one.model.map.in_features == 48 and runs(one)  # type: ignore[union-attr]


def test_models_of_older_versions_of_transformers_build() -> None:
    transformers = pytest.importorskip("transformers")

    class Old(transformers.PreTrainedModel):  # type: ignore[misc, name-defined]
        config_class = transformers.BertConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.map = nn.Linear(8, 8)
            self.init_weights()

    with older.taken_back():
        with pytest.raises(AttributeError) as caught:
            Old(transformers.BertConfig())
        assert older.leave_out(caught.value)
        model = Old(transformers.BertConfig())
        with pytest.raises(AttributeError) as caught:
            model.get_head_mask(None, 3)
        assert older.leave_out(caught.value) and model.get_head_mask(None, 3) == [None] * 3
        with pytest.raises(AttributeError) as caught:
            model.invert_attention_mask(torch.ones(2, 4))
        assert older.leave_out(caught.value)
        inverted = model.invert_attention_mask(torch.tensor([[1.0, 0.0]]))
        assert inverted.shape == (1, 1, 1, 2) and inverted[0, 0, 0].tolist() == [0.0, torch.finfo(torch.float32).min]
    assert not hasattr(transformers.PreTrainedModel, "invert_attention_mask")


def test_attention_in_buckets_is_attention() -> None:
    from screen.capture.kernels.attention import FlashAttentionFunction

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 8, dtype=torch.float64) for _ in range(3))
    seen = torch.tensor([[True, True, False, True, True], [True, True, True, False, False]])
    logits = (q @ k.transpose(-2, -1) / 8**0.5).masked_fill(~seen[:, None, None], float("-inf"))
    for mask in (seen, seen[:, None, None].expand(2, 3, 5, 5)):
        out = FlashAttentionFunction.apply(q, k, v, mask, False, 512, 512)
        assert out.is_contiguous() and torch.allclose(out, torch.softmax(logits, -1) @ v)
    causal = (q @ k.transpose(-2, -1) / 8**0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    assert torch.allclose(FlashAttentionFunction.apply(q, k, v, None, True, 2, 2), torch.softmax(causal, -1) @ v)
