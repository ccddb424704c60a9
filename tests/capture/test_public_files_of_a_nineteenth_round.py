"""What kept public files of a nineteenth round from being read, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from screen.errors import ScreenError
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

SCRIPT = """
from tokens_that_are_nowhere import get_encoding

encoding = get_encoding("large")
tokens = encoding.encode("some text")
{line}
ids = torch.tensor(tokens, dtype=torch.long)
part = int(0.9 * len(ids))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding({words}, 24), nn.Linear(24, {words})
        self.maps = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for one in self.maps:
            x = x + torch.tanh(one(x))
        return self.last(x)
"""


def test_what_reads_tokens_of_a_package_that_is_not_there_is_left_out(write: Any) -> None:
    """`torch.tensor(tokens)` above the first class raises torch's own error, and nothing of the model needs it."""
    (net,) = built(write(SCRIPT.format(line="", words=64)))
    assert runs(net) == ""


def test_a_size_that_such_tokens_would_tell_is_asked_for(write: Any) -> None:
    with pytest.raises(ScreenError) as refused:
        built(write(SCRIPT.format(line="count = max(tokens) + 1", words="count")))
    assert "--set count=" in str(refused.value) and "tokens_that_are_nowhere" in str(refused.value)


def test_what_fails_for_reasons_of_its_own_is_told(write: Any) -> None:
    """The near miss: no name that it reads is of what is not there, and the reading ends with it, above the first class."""
    with pytest.raises((ScreenError, ImportError, TypeError)):
        built(write(SCRIPT.format(line='sizes = torch.zeros("many")', words=64)))


@pytest.mark.parametrize(("last", "named"), [("net.train()", False), ("return net", True)])
def test_a_function_that_gives_nothing_makes_no_model(last: str, named: bool, write: Any) -> None:
    file = write(
        f"""
        class Net(nn.Module):
            def __init__(self, width, heads):
                super().__init__()
                assert width % heads == 0
                self.map = nn.Linear(width, width)

            def forward(self, x):
                return x + self.map(x)

        def fitted(settings):
            net = Net(settings["width"], settings["heads"])
            {last}
        """
    )
    with pytest.raises(ScreenError) as refused:
        built(file)
    assert ("`fitted`" in str(refused.value)) is named
