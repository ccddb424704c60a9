"""What kept public files of a ninth round from being read, or from being told as they are, each by its cause in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from screen.capture.build import usual
from screen.capture.inputs.trial import outcome, short_twin
from tests.capture.public_files import HEAD, Write, built, runs, writing

write = pytest.fixture(writing)

STATES = """
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix, self.map, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = self.first(x + self.mix(x.flip(1)))
        return self.second(x + self.out(torch.relu(self.map(x))))

class States(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))

    def forward(self, x):
        states = []
        for layer in self.layers:
            x = layer(x)
            states.append(x)
        return states
"""


def test_a_stack_that_returns_the_state_behind_every_layer_is_no_block(write: Write) -> None:
    (one,) = built(write(STATES))
    assert runs(one) and not one.info.block


def test_words_of_sizes_that_a_ninth_round_had() -> None:
    def entry(max_episode_steps, n_feats, num_inputs, item_size, C, frame_stack, policy_dim_first): ...

    found = usual.chosen(entry, ("max_episode_steps", "n_feats", "num_inputs", "item_size", "C", "frame_stack", "policy_dim_first"))
    expected = {"max_episode_steps": 512, "n_feats": 512, "num_inputs": 512, "item_size": 37000, "C": 512, "frame_stack": 4, "policy_dim_first": 512}
    assert found == expected


def test_words_of_sizes_of_other_fields() -> None:
    def entry(num_nodes, n_actions, num_users, n_speakers, growth_rate, bidirectional, decay, action_space, num_points): ...

    names = ("num_nodes", "n_actions", "num_users", "n_speakers", "growth_rate", "bidirectional", "decay", "action_space", "num_points")
    assert [*usual.chosen(entry, names).values()] == [207, 18, 37000, 100, 32, False, 0.99, 18, 1024]


def test_a_number_or_one_for_each_stage_is_a_number() -> None:
    def entry(tower_layers: tuple[int, int] | int, text_layers: int | list[int], depths: list[int]): ...

    assert usual.chosen(entry, ("tower_layers", "text_layers", "depths")) == {"tower_layers": 6, "text_layers": 6, "depths": [2, 2]}


WIDTHS = """
class Part(nn.Module):
    def __init__(self, start, hidden):
        super().__init__()
        widths = [start] + hidden
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

class Net(nn.Module):
    def __init__(self, n_in, out_channels, fc_value_layers, depths: typing.List[int]):
        super().__init__()
        self.first, self.maps = Part(n_in, fc_value_layers), nn.ModuleList()
        for i in range(len(out_channels)):
            before = fc_value_layers[-1] if i == 0 else out_channels[i - 1]
            self.maps += [nn.Linear(before, out_channels[i]), *(nn.Linear(out_channels[i], out_channels[i]) for _ in range(depths[i]))]

    def forward(self, x):
        for layer in self.first.maps:
            x = layer(x)
        for layer in self.maps:
            x = layer(x)
        return x
"""


def test_an_argument_that_is_counted_or_joined_to_a_list_is_a_list(write: Write) -> None:
    told = r"--set n_in=512 --set 'out_channels=\[64, 64\]' --set 'fc_value_layers=\[64, 64\]' --set 'depths=\[2, 2\]'"
    with pytest.raises(Exception, match=told):
        built(write(WIDTHS))
    (one,) = built(write(WIDTHS), n_in=512, out_channels=[64, 64], fc_value_layers=[64, 64], depths=[2, 2])
    assert runs(one)


FIELDS = """
class Settings(typing.NamedTuple):
    words: int = None
    width: int = 48
    vocab_size: int = None

class Layer(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.map = nn.Linear(plan.width, plan.width)

class Net(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.table, self.layer = nn.Embedding(plan.vocab_size, plan.width), Layer(plan)

    def forward(self, ids):
        x = self.table(ids)
        return x + self.layer.map(x)
"""


def test_a_named_tuple_is_a_class_of_settings_and_a_number_of_rows_that_it_lacks_is_taken(write: Write) -> None:
    (one,) = built(write(FIELDS))
    assert runs(one) and any("nobody states `plan.vocab_size=37000`" in note for note in one.info.notes)


KEPT = """
class Base(nn.Module):
    def __init__(self, S):
        super().__init__()
        self.S = S
        self.make()

class Layer(Base):
    def make(self):
        self.map = nn.Linear(self.S.width, self.S.width)

class Net(Base):
    def make(self):
        self.layers = nn.ModuleList(Layer(self.S) for _ in range(self.S.depth))
        self.into = nn.Linear(self.S.n_in, self.S.width)

    def forward(self, x):
        x = self.into(x)
        for layer in self.layers:
            x = x + layer.map(x)
        return x
"""


def test_settings_that_the_constructor_of_a_base_keeps_for_another_method_are_settings(write: Write) -> None:
    with pytest.raises(Exception, match=r"--set S.n_in=512 --set S.width=512 --set S.depth=6"):
        built(write(KEPT))
    (one,) = built(write(KEPT), **{"S.depth": 2, "S.n_in": 8, "S.width": 16})
    assert runs(one)


SCHEDULE = """
import numpy as np

class Table(dict):
    def __init__(self, **entries):
        super().__init__(**entries)
        self.__dict__ = self

plan = Table(rate=2e-4, clip=None, batch=16, width=32, depth=3, unit=np.float32, schedule=np.linspace(1e-4, 0.05, 50).tolist(), lengths=[1, 2],
             steps=np.arange(4).tolist(), unused=0)

class Net(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        self.table = nn.Embedding(len(plan.schedule), plan.width)
        self.maps = nn.ModuleList(nn.Linear(plan.width, plan.width) for _ in range(plan.depth * len(plan.steps)))

    def forward(self, step):
        x = self.table(step)
        for layer in self.maps:
            x = x + layer(x)
        return x
"""


def test_settings_that_numpy_computes_are_read(write: Write) -> None:
    (one,) = built(write(SCHEDULE))
    assert runs(one) and one.model.table.num_embeddings == 50 and len(one.model.maps) == 12


GRAPH = """
class Graph(nn.Module):
    def __init__(self, width=48, hidden=16):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(width, hidden)), nn.Parameter(torch.randn(hidden, width))

    def forward(self, nodes, links):
        seen = torch.spmm(links, torch.mm(nodes, self.first))
        return nodes + torch.spmm(links, torch.mm(torch.relu(seen), self.second))
"""


def test_a_matrix_that_multiplies_what_another_argument_gives_is_as_long(write: Write) -> None:
    (one,) = built(write(GRAPH))
    nodes, links = one.kwargs["nodes"], one.kwargs["links"]
    assert runs(one) and links.shape == (len(nodes), len(nodes))


VECTORS = """
class Frames(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.map, self.out = nn.Linear(16, width), nn.Linear(width, width)

    def forward(self, places):
        _, _, atoms, _ = places.shape
        first, second = places[:, :, 1] - places[:, :, 0], places[:, :, 2] - places[:, :, 1]
        normal = torch.cross(first, second, dim=-1)
        x = self.map((normal[..., None] * torch.arange(16, device=places.device)).sum(-2))
        return x + self.out(x)
"""


def test_vectors_of_a_cross_product_have_three_entries(write: Write) -> None:
    (one,) = built(write(VECTORS))
    assert runs(one) and one.kwargs["places"].shape[-1] == 3


STEPS = """
class Wave(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("table", torch.zeros(50, 64))
        self.into, self.step, self.map, self.hop = nn.Conv1d(1, width, 1), nn.Linear(64, width), nn.Conv1d(width, width, 1), nn.Conv1d(80, width, 1)

    def forward(self, sound, noise_step, mel):
        x = self.into(sound.unsqueeze(1))
        step = self.step(self.table[noise_step])[..., None]
        seen = F.interpolate(self.hop(mel), scale_factor=256.0)
        return x + self.map(x + step) + seen
"""


def test_what_is_called_a_step_is_an_integer_for_each_sample(write: Write) -> None:
    (one,) = built(write(STEPS))
    step = one.kwargs["noise_step"]
    assert runs(one) and step.shape == (2,) and not step.is_floating_point()


SOUND = """
class Speaker(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.into, self.map = nn.Conv1d(129, width, 1), nn.Conv1d(width, width, 3, padding=1)

    def forward(self, sound, noisy):
        cut = F.pad(F.pad(sound.unsqueeze(1), (1, 0), "reflect"), (128, 128), "reflect").squeeze(1)
        frames = cut.unfold(-1, 256, 64)
        x = torch.fft.rfft(frames, dim=-1).abs().transpose(1, 2)
        if noisy == True:
            raise RuntimeError("for training alone")
        x = self.into(x)
        return x + self.map(x)
"""


def test_a_sound_that_is_mirrored_at_its_ends_is_longer_and_a_switch_is_off(write: Write) -> None:
    (one,) = built(write(SOUND))
    assert runs(one) and one.kwargs["sound"].dim() == 2 and one.kwargs["sound"].shape[-1] > 128


COUNTED = """
class Split(nn.Module):
    def __init__(self, width=64, parts=8):
        super().__init__()
        self.maps, self.join, self.mark = nn.ModuleList(nn.Linear(8, 8) for _ in range(parts)), nn.Linear(width, width), nn.Linear(24, width)

    def forward(self, x, marks):
        parts = x.split(8, -1)
        found = [self.maps[i](parts[i]) for i in range(8)]
        return self.join(x + torch.cat(found, -1)) + self.mark(marks)
"""


def test_a_list_whose_members_are_counted_is_not_cut_for_a_trial(write: Write) -> None:
    (one,) = built(write(COUNTED))
    assert runs(one) and short_twin(one.model) is None


USED = """
class Encoder(nn.Module):
    def __init__(self, first, often):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(first, first) for _ in range(often))

class Net(nn.Module):
    def __init__(self, plan, zeta):
        super().__init__()
        self.orig_l, self.orig_r = plan.orig_l, plan.orig_r
        self.left, self.right = nn.Conv1d(self.orig_l, 48, 1), nn.Linear(2 * self.orig_r, 48)
        self.table, self.drop = nn.Embedding(plan.things, 48), nn.Dropout(p=plan.lost)
        self.encoder = Encoder(48, zeta)

    def forward(self, x):
        x = self.drop(self.right(x))
        for layer in self.encoder.maps:
            x = x + layer(x)
        return x
"""


def test_what_layers_a_number_goes_into_says_what_it_is_where_its_name_does_not(write: Write) -> None:
    told = r"--set plan.orig_l=512 --set plan.orig_r=512 --set plan.things=37000 --set plan.lost=0.1 --set zeta=6"
    with pytest.raises(Exception, match=told):
        built(write(USED))


NAMED = """
class Traffic(nn.Module):
    def __init__(self, width=32, places=23):
        super().__init__()
        self.later = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))
        self.links, self.start = nn.Parameter(torch.zeros(places, places)), nn.Conv2d(2, width, 1)

    def forward(self, seen):
        x = self.start(seen)
        for layer in self.later:
            x = x + layer(torch.einsum("ncvl,vw->ncwl", x, self.links.softmax(0)))
        return x
"""


def test_a_written_sum_of_products_says_which_lengths_meet(write: Write) -> None:
    (one,) = built(write(NAMED))
    assert runs(one) and one.kwargs["seen"].shape[1:3] == (2, 23)


PLAN = """
class Table(dict):
    pass

plan = Table(rate=2e-4, clip=None, batch=16, width=32, depth=3, words=70, lengths=[1, 2], unused=0)
"""
USER = """
import argparse

from of_plan.plan import plan
from of_plan.model import Net

net = Net(plan)
"""
PLANNED = """
class Net(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.table, self.maps = nn.Embedding(plan.words, plan.width), nn.ModuleList(nn.Linear(plan.width, plan.width) for _ in range(plan.depth))

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.maps:
            x = x + layer(x)
        return x
"""


def test_settings_that_a_script_imports_are_not_called_its_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "of_plan"
    folder.mkdir()
    for name, text in {"plan.py": PLAN, "run.py": USER, "model.py": HEAD + PLANNED, "README.md": ""}.items():
        (folder / name).write_text(text)
    (one,) = built(folder / "model.py")
    assert len(one.model.maps) == 3 and "`plan` is what plan.py makes, which run.py imports" in one.info.notes


OLDER = """
class Older(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.later, self.start = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3)), nn.Conv2d(2, width, 1)

    def forward(self, seen):
        x = self.start(F.pad(seen, (max(0, 4 - seen.size(3)), 0, 0, 0)))
        for first in self.first:
            x = x + first(x)
        for layer in self.later:
            x = x + layer(x)
        return x
"""


def test_a_forward_that_never_runs_is_told_by_the_failure_that_is_furthest(write: Write) -> None:
    (one,) = built(write(OLDER))
    assert "conv1d" in str(outcome(one.model, one.args, one.kwargs).error)
