"""What kept public files of an eighteenth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

# -- configurations of the author's own ------------------------------------------------------------------------------------------------------------

SETTINGS = """
from transformers import GPT2Config


class Settings(GPT2Config):
    def __init__(self, mixing="plain", rows=3, **kwargs):
        super().__init__(**kwargs)
        self.mixing, self.rows = mixing, rows
"""
OF_A_LIBRARY = """
from transformers import GPT2PreTrainedModel
from own_settings_of_first_try import Settings{more}


class Net(GPT2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        assert config.mixing == "plain"
        self.words = nn.Embedding(config.vocab_size, 24)
        self.maps = nn.ModuleList(nn.Linear(24, 24) for _ in range(config.rows))
        self.post_init()

    def forward(self, input_ids):
        x = self.words(input_ids)
        for one in self.maps:
            x = x + torch.tanh(one(x))
        return x
"""


def test_settings_of_the_author_take_the_place_of_those_that_a_base_class_states(write: Any) -> None:
    """The base class names its library's `GPT2Config`, and the file imports the author's own, made of it: what it reads is there alone."""
    pytest.importorskip("transformers")
    write(SETTINGS, "own_settings_of_first_try.py", head="")
    (net,) = built(write(OF_A_LIBRARY.format(more="")))
    assert runs(net) == "" and len(net.model.maps) == 3
