"""What kept public files of a fifteenth round from being read, or made pages of them tell little, each by its cause in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from screen.capture.build import forwards, launcher
from screen.capture.inputs.context import entries_of
from screen.capture.kernels import older
from screen.capture.kernels.stand_in import NotInstalled
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


# -- a package that is imported again ----------------------------------------------------------------------------------------------------------


def test_modules_of_a_package_whose_import_failed_do_not_keep_the_package_that_is_gone(write: Any, tmp_path: Path) -> None:
    """`sizes` runs to its end before the package's import fails: at the second try it has to see the second package."""
    (tmp_path / "stale_of_fifteen").mkdir()
    write("from stale_of_fifteen.body import Body", "stale_of_fifteen/__init__.py", head="")
    write(
        """
        import stale_of_fifteen.body

        class Sizes:
            kind, width = "Wide", 24

            def maker(self):
                return getattr(stale_of_fifteen.body, self.kind)
        """,
        "stale_of_fifteen/sizes.py",
        head="",
    )
    file = write(
        """
        import torch
        from torch import nn
        from stale_of_fifteen.sizes import Sizes
        from nowhere_to_be_had import logger

        class Wide(nn.Linear):
            pass

        class Body(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(50, Sizes.width)
                self.maps = nn.ModuleList(Sizes().maker()(Sizes.width, Sizes.width) for _ in range(3))

            def forward(self, ids):
                x = self.words(ids)
                for one in self.maps:
                    x = x + one(x)
                return x
        """,
        "stale_of_fifteen/body.py",
        head="",
    )
    assert [(type(b.model).__name__, runs(b)) for b in built(file)] == [("Body", "")]


# -- a configuration that is a class -----------------------------------------------------------------------------------------------------------


def test_a_class_of_named_tuples_may_be_the_configuration(write: Any) -> None:
    """`namedtuple` makes a class; nobody makes an object of it."""
    file = write(
        """
        from collections import namedtuple

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.config = namedtuple("Sizes", "vocab_size rows")
                self.config.vocab_size = 7
                self.config.rows = lambda n: n
                self.words, self.head = nn.Embedding(7, 16), nn.Linear(16, 7)

            def forward(self, ids):
                x = self.words(ids)
                return self.head(x + torch.tanh(x))
        """
    )
    (net,) = built(file)
    assert runs(net) == ""
    assert entries_of(net.model.config) == {"vocab_size": 7}


# -- inputs ------------------------------------------------------------------------------------------------------------------------------------


def test_an_argument_that_is_only_read_by_keys_is_a_table_of_inputs(write: Any) -> None:
    """Each entry is sought like an argument: they have shapes of their own."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.kind, self.said, self.last = nn.Linear(16, 16), nn.Linear(7, 16), nn.Linear(11, 16), nn.Linear(16, 3)

            def forward(self, x, beside):
                x = self.first(x) + self.kind(beside["kind"])[:, None] + self.said(beside.get("said"))[:, None]
                return self.last(x + torch.tanh(x))
        """
    )
    (net,) = built(file)
    assert runs(net) == ""
    table = {**dict(zip(("x", "beside"), net.args, strict=False)), **net.kwargs}["beside"]
    assert table["kind"].shape[-1] == 7 and table["said"].shape[-1] == 11


def test_a_table_that_is_handed_on_as_well_is_none_of_keys(write: Any) -> None:
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 3)

            def forward(self, x, beside):
                return self.last(self.first(x) + self.inner(beside, beside["kind"]))

            def inner(self, beside, kind):
                return kind if isinstance(beside, dict) else 0
        """
    )
    (net,) = built(file)
    assert not isinstance({**dict(zip(("x", "beside"), net.args, strict=False)), **net.kwargs}["beside"], dict)


# -- what a script asks of its machine ----------------------------------------------------------------------------------------------------------


def test_a_script_may_ask_which_kernels_its_gpu_could_run(write: Any) -> None:
    """What it makes of the answer is a name that the forward calls."""
    asked = torch.cuda.get_device_capability
    with launcher.taken_back():
        file = write(
            """
            major, minor = torch.cuda.get_device_capability()
            squash = torch.tanh if major >= 9 else torch.sigmoid

            class Net(Base):
                def extra(self, x):
                    return squash(x)
            """
        )
        (net,) = built(file)
        assert runs(net) == "" and any("no GPU is here" in note for note in net.info.notes)
    assert torch.cuda.get_device_capability is asked


# -- a model without a `forward` -----------------------------------------------------------------------------------------------------------------

SEVERAL = """
class Layer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.map(self.norm(x))

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(50, 24), nn.ModuleList(Layer() for _ in range(5))

    def states(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x

    def forward_with_targets(self, ids, targets):
        return torch.nn.functional.cross_entropy(self.states(ids).flatten(0, 1), targets.flatten())

    def forward_features(self, ids, scale=1.0):
        return scale * self.states(ids)
"""


def test_of_several_forwards_of_other_names_the_one_that_asks_for_least_is_run(write: Any) -> None:
    file = write(SEVERAL)
    with forwards.taken_back():
        (whole,) = built(file)
        assert type(whole.model).__name__ == "Whole" and runs(whole) == ""
        assert "`Whole` has no `forward`: its `forward_features` is run" in whole.info.notes
    assert "forward" not in vars(type(whole.model))


def test_a_class_that_others_are_derived_from_gets_none(write: Any) -> None:
    """What its own kind calls is theirs to say."""
    derived = "class Named(Whole):\n    def forward(self, ids):\n        return self.forward_features(ids, 2.0)\n"
    (named,) = built(write(SEVERAL + derived))
    assert type(named.model).__name__ == "Named" and not any("has no `forward`" in note for note in named.info.notes)


# -- what a configuration said in an older version of transformers ----------------------------------------------------------------------------


def test_a_configuration_that_scales_no_angles_says_none_as_it_did(write: Any) -> None:
    pytest.importorskip("transformers")
    file = write(
        """
        from transformers import PretrainedConfig, PreTrainedModel

        class Sizes(PretrainedConfig):
            model_type = "sizes_of_fifteen"

            def __init__(self, width=24, rope_theta=500.0, rope_scaling=None, **more):
                self.width, self.rope_theta, self.rope_scaling = width, rope_theta, rope_scaling
                super().__init__(**more)

        class Angles(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.config = config
                self.factor = 1.0 if config.rope_scaling is None else config.rope_scaling["factor"]
                self.map = nn.Linear(config.width, config.width)

        class Net(PreTrainedModel):
            config_class = Sizes

            def __init__(self, config):
                super().__init__(config)
                self.words, self.angles = nn.Embedding(50, config.width), Angles(config)
                self.post_init()

            def forward(self, ids):
                x = self.words(ids)
                return x + self.angles.map(x) * self.angles.factor
        """
    )
    with older.taken_back():
        (net,) = built(file)
        assert runs(net) == "" and net.model.angles.factor == 1.0
        assert any("`rope_scaling` is `None`, as before transformers 5" in note for note in net.info.notes)


def test_caches_have_the_methods_that_they_had(write: Any) -> None:
    pytest.importorskip("transformers")
    file = write(
        """
        from transformers.cache_utils import DynamicCache

        class Net(Base):
            def forward(self, ids, past=None):
                cache = DynamicCache.from_legacy_cache(past)
                x = self.body(self.embed(ids))
                heads = x[:, None]
                assert cache.get_usable_length(ids.shape[1], 0) == 0
                keys, values = cache.update(heads, heads, 0)
                return x, cache.to_legacy_cache()
        """
    )
    with older.taken_back():
        (net,) = built(file)
        assert runs(net) == "" and "`from_legacy_cache`, which caches of this version of transformers lack, is given back" in older.notes()
    from transformers.cache_utils import DynamicCache

    assert not hasattr(DynamicCache, "from_legacy_cache")


# -- what is not installed --------------------------------------------------------------------------------------------------------------------


def test_a_configuration_that_asks_for_what_is_not_installed_lacks_no_setting(write: Any, tmp_path: Path) -> None:
    """The name is one of the project's own files; it is another package that keeps it from being there."""
    (tmp_path / "kinds_of_fifteen.py").write_text("import nowhere_at_all\n\nKINDS = sorted(nowhere_at_all.kinds())\n")
    file = write(
        """
        import dataclasses
        from kinds_of_fifteen import KINDS

        @dataclasses.dataclass
        class Sizes:
            width: int = 16
            shape: dict = None

            def __post_init__(self):
                self.wide = self.shape is None and "wide" in KINDS

        class Net(nn.Module):
            def __init__(self, sizes: Sizes):
                super().__init__()
                self.map = nn.Linear(sizes.width, sizes.width)

            def forward(self, x):
                return self.map(x)
        """
    )
    with pytest.raises(NotInstalled) as caught:
        built(file)
    assert "kinds_of_fifteen.KINDS" in str(caught.value) and caught.value.packages == ("nowhere_at_all",)


# -- which classes are models of a file, and with which arguments --------------------------------------------------------------------------------


def test_a_class_that_its_base_makes_is_no_part_of_it(write: Any) -> None:
    source = """
    class Plain(Base):
        @classmethod
        def of_kind(cls, kind):
            return Deeper() if kind == "deeper" else cls()

    class Deeper(Plain):
        def __init__(self):
            super().__init__(n=5)
    """
    assert sorted(type(b.model).__name__ for b in built(write(source))) == ["Deeper", "Plain"]


def test_a_call_may_hand_on_a_table_of_what_the_constructor_takes_as_the_rest(write: Any, tmp_path: Path) -> None:
    (tmp_path / "make_of_fifteen.py").write_text(
        "from model import Net\n\n_SIZES = {'shares': [1, 1, 2], 'layers': 3}\n\n\ndef make(device=None):\n    sizes = dict(_SIZES)\n"
        "    return Net(device=device, **_SIZES)\n"
    )
    file = write(
        """
        class Net(nn.Module):
            def __init__(self, shares=(1,), width=24, device=None, **rest):
                super().__init__()
                assert len(shares) == 3
                self.words = nn.Embedding(50, width)
                self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(rest["layers"]))

            def forward(self, ids):
                x = self.words(ids)
                for layer in self.layers:
                    x = x + layer(x)
                return x
        """
    )
    (net,) = built(file)
    assert len(net.model.layers) == 3 and runs(net) == ""


# -- a model that counts its layers ------------------------------------------------------------------------------------------------------------


def test_what_a_shortened_model_refuses_may_run_on_the_whole_one(write: Any) -> None:
    """Inputs are mended on a model with two layers of six, whose code reads one more of them than that."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.ModuleList(nn.Embedding(50, 24) for _ in range(7))
                self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(6))

            def forward(self, codes):
                samples, lines, places = codes.shape
                assert lines == 7, (lines, 7)
                x = sum(self.words[line](codes[:, line]) for line in range(lines))
                stack = self.layers
                for number in range(6):
                    x = x + stack[number](x)
                return x
        """
    )
    (net,) = built(file)
    assert runs(net) == "" and not any("ran on none of the inputs" in note for note in net.info.notes)


def test_settings_may_be_made_by_a_method_of_their_class(write: Any, tmp_path: Path) -> None:
    """The defaults name a part that is not in the file; a script says which of the named settings are meant."""
    (tmp_path / "run_of_fifteen.py").write_text(
        "from model import Net, Sizes\n\nkind = 'deep'\n\n\ndef main():\n    sizes = Sizes.called(kind)\n    return Net(sizes)\n"
    )
    file = write(
        """
        import dataclasses

        NAMED = {"deep": dict(width=24, depth=5, part="Map"), "wide": dict(width=48, depth=1, part="Map")}

        @dataclasses.dataclass
        class Sizes:
            width: int = 16
            depth: int = 2
            part: str = "Conv"

            @classmethod
            def called(cls, name):
                return cls(**NAMED[name])

        class Map(nn.Linear):
            pass

        class Net(nn.Module):
            def __init__(self, sizes: Sizes):
                super().__init__()
                self.words = nn.Embedding(50, sizes.width)
                part = globals()[sizes.part]
                self.layers = nn.ModuleList(part(sizes.width, sizes.width) for _ in range(sizes.depth))

            def forward(self, ids):
                x = self.words(ids)
                for layer in self.layers:
                    x = x + layer(x)
                return x
        """
    )
    (net,) = [b for b in built(file) if type(b.model).__name__ == "Net"]
    assert len(net.model.layers) == 5 and net.model.words.embedding_dim == 24 and runs(net) == ""
    assert any("it has the `Sizes.called` of run_of_fifteen.py:7" in note for note in net.info.notes)


def test_rows_of_a_table_that_are_laid_beside_one_another_are_as_many_as_fill_a_width(write: Any) -> None:
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.moves, self.last = nn.Linear(11, 30), nn.Embedding(18, 6), nn.Linear(30, 3)

            def forward(self, x, moves):
                assert x.ndim == 2
                return self.last(torch.tanh(self.first(x) + self.moves(moves).flatten(1)))
        """
    )
    (net,) = built(file)
    assert runs(net) == ""
    assert {**dict(zip(("x", "moves"), net.args, strict=False)), **net.kwargs}["moves"].shape == (2, 5)
