"""What kept public files of an eighteenth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from screen.capture.kernels import older
from screen.errors import ScreenError
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


# -- inputs ------------------------------------------------------------------------------------------------------------------------------------------


def test_which_samples_have_no_label_is_told_by_truth_values(write: Any) -> None:
    """Torch says what it refuses: the condition of `where` must be of truth values (a class-conditional model whose labels are dropped)."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.classes = nn.Embedding(64, 24), nn.Embedding(11, 24)
                self.maps = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))

            def forward(self, x, y, left_out):
                y = torch.where(left_out, torch.full_like(y, 10), y)
                x = self.words(x) + self.classes(y)[:, None]
                for one in self.maps:
                    x = x + torch.tanh(one(x))
                return x
        """
    )
    (net,) = built(file)
    assert runs(net) == "" and net.kwargs["left_out"].dtype.is_floating_point is False


SERIES = """
class Net(nn.Module):
    def __init__(self, series=7, width=16):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 8, 4)
        self.apart = nn.Conv1d(series * width, series * width, 5, padding=2, groups=series * width)
        self.map = nn.Conv1d(series * width, series * width, 1, groups=series)

    def forward(self, x):
        x = x.permute(0, 2, 1)
        b, series, n = x.shape
        x = self.stem(x.reshape(b * series, 1, n))
        _, width, n = x.shape
        x = x.reshape(b, series * width, n)
        x = x + self.map(torch.relu(self.apart(x)))
        return x.reshape(b, series, width, n).mean(-1)
"""


def test_as_many_series_as_a_convolution_over_the_channels_of_all_takes(write: Any) -> None:
    """Each series is embedded alone, by one and the same stem: how many there are is read off the first convolution over all of them."""
    (net,) = built(write(SERIES))
    assert runs(net) == "" and net.kwargs["x"].shape[-1] == 7


# -- what is said ------------------------------------------------------------------------------------------------------------------------------------


def test_what_does_not_unpack_came_further_than_what_was_called(write: Any) -> None:
    """The author's own fault stands on the line of a call that some inputs do not pass: it is told, and not what they failed for."""
    file = write(
        """
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.map = nn.Linear(80, 24)

            def forward(self, x, lengths):
                return self.map(x), lengths

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.part, self.last = Part(), nn.Linear(24, 9)

            def forward(self, x, lengths):
                x, logits, lengths = self.part(x, lengths)
                return self.last(x)
        """
    )
    (net,) = built(file)
    assert "not enough values to unpack" in runs(net)


# -- another version of a library --------------------------------------------------------------------------------------------------------------------

OLDER = """
from transformers import GPT2Config
from transformers.file_utils import add_code_sample_docstrings
from transformers.modeling_utils import PreTrainedModel


class Net(PreTrainedModel):
    config_class = GPT2Config

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, 24)
        self.register_buffer("mask", torch.ones(config.n_ctx, config.n_ctx).tril())
        self.maps = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))
        self.post_init()

    @add_code_sample_docstrings(tokenizer_class="GPT2Tokenizer", checkpoint="gpt2", output_type=None, config_class="GPT2Config")
    def forward(self, input_ids):
        x = self.words(input_ids)
        for one in self.maps:
            x = x + self.mask[: x.shape[1], : x.shape[1]] @ torch.tanh(one(x))
        return x
"""


def test_decorators_that_write_docstrings_may_have_taken_other_arguments(write: Any) -> None:
    """`tokenizer_class=` is gone from one of them, and `n_ctx` from the configuration: neither changes what the model computes."""
    pytest.importorskip("transformers")
    with older.taken_back():
        (net,) = built(write(OLDER))
        assert runs(net) == "" and net.model.mask.shape == (1024, 1024)
        assert any("docstrings" in note for note in net.info.notes) and any("`n_positions`" in note for note in net.info.notes)


def test_a_width_that_heads_do_not_divide_is_chosen_once_more(write: Any) -> None:
    """Twelve heads are the default of the author's configuration: 512 features are refused by an assertion, and 768 are proposed."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self, hidden_size, heads=12):
                super().__init__()
                assert hidden_size % heads == 0
                self.into = nn.Linear(hidden_size, hidden_size)
                self.mix = nn.MultiheadAttention(hidden_size, heads, batch_first=True)

            def forward(self, x):
                x = self.into(x)
                return x + self.mix(x, x, x)[0]
        """
    )
    with pytest.raises(ScreenError) as refused:
        built(file)
    assert "--set hidden_size=768" in str(refused.value)
