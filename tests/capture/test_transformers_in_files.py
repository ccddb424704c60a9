"""Models of transformers in somebody's own code: their weights start as they do without us, which transformers leaves out on meta."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="the models are of transformers")

from transformers import BertConfig, BertModel, MixtralConfig, MixtralModel, PreTrainedModel

from screen.capture.build.construct import construct
from screen.graph import Initialiser

SMALL = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 80, "vocab_size": 60, "pad_token_id": 0}


def experts() -> nn.Module:
    return MixtralModel(MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4, initializer_range=0.3))


class Around(nn.Module):
    """Writes to a weight behind the constructor of the model in it, and has maps of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = BertModel(BertConfig(**SMALL, initializer_range=0.4))
        self.head = nn.Linear(48, 7)
        nn.init.zeros_(self.encoder.encoder.layer[1].output.dense.weight)


class Fields(PreTrainedModel):  # type: ignore[misc]
    """Has a model of its own library in it, which started before, and another class's start."""

    config_class = BertConfig

    def __init__(self) -> None:
        super().__init__(BertConfig(**SMALL))
        self.encoder, self.map = BertModel(BertConfig(**SMALL, initializer_range=0.4)), nn.Linear(48, 48)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.25)


class Unasked(PreTrainedModel):  # type: ignore[misc]
    """Never calls `post_init`: what its `_init_weights` says is not done."""

    config_class = BertConfig
    __init__ = lambda self: (PreTrainedModel.__init__(self, BertConfig(**SMALL)), setattr(self, "map", nn.Linear(48, 48)))[-1]  # noqa: E731

    def _init_weights(self, module: nn.Module) -> None:
        raise AssertionError("nobody asked for this")


def last_laws(entry: Callable[[], nn.Module]) -> dict[str, Initialiser]:
    _, record, _ = construct("model", entry, {}, None)
    return {name: next(law for law in reversed(history) if law.whole) for name, history in record}


@pytest.mark.parametrize("entry", [experts, Around, Fields, Unasked])
def test_weights_start_as_they_do_without_us(entry: Any) -> None:
    torch.manual_seed(0)
    weights = dict(entry().named_parameters())
    laws = last_laws(entry)
    for name, weight in weights.items():
        if weight.dim() < 2 or weight.numel() < 200:
            continue
        law = laws[name]
        deviation = {"normal_": lambda a: a[1], "uniform_": lambda a: (a[1] - a[0]) / 12**0.5}.get(law.op, lambda a: 0.0)(law.args)
        assert float(weight.detach().std()) == pytest.approx(deviation, rel=0.2, abs=1e-9), (name, law)


def test_one_that_is_imported_while_the_model_is_built() -> None:
    code = """
from torch import nn
from screen.capture.build.construct import construct
def build():
    from transformers import BertConfig, BertModel
    return BertModel(BertConfig(hidden_size=48, num_attention_heads=4, num_hidden_layers=1, initializer_range=0.4))
_, record, _ = construct("build", build, {}, None)
print(dict(record)["encoder.layer.0.output.dense.weight"][-1])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'normal_'" in said and "0.4" in said
