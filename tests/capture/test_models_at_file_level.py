"""What a model starts as that a file makes itself, `model = Net(…)`: recorded while the file runs, as of a class or a function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from screen.graph import Initialiser
from tests.capture.first_try import Built, built, writing

write = pytest.fixture(writing)

PLAIN = """
class Net(Base):
    def __init__(self, d=24):
        super().__init__(d)
        self.gain = nn.Parameter(torch.full((d,), 0.1))
        for linear in self.maps:
            nn.init.normal_(linear.weight, std=0.07)

def build():
    return Net()

{line}
"""
LATER = "model = build()\nwith torch.no_grad():\n    model.maps[1].weight.mul_(0.5)"
READS = "model = build()\nassert float(torch.ones(2).sum()) == 2.0"
BERT = """
from transformers import BertConfig, BertModel
model = BertModel(BertConfig(hidden_size=48, num_attention_heads=4, num_hidden_layers=2, vocab_size=60, initializer_range=0.4))
"""


def laws(b: Built) -> dict[str, list[tuple[str, tuple[Any, ...]]]]:
    def said(call: Initialiser) -> tuple[str, tuple[Any, ...]]:
        return call.op, tuple(round(a, 6) if isinstance(a, float) else a for a in call.args)

    return {name: [said(call) for call in history] for name, history in b.initialisers}


@pytest.mark.parametrize("line", ["model = build()", "model = build().eval()", "model = build()\nraise SystemExit"])
def test_its_record_is_that_of_the_class(write: Any, line: str) -> None:
    (own,) = built(write(PLAIN.format(line=line)) + "::model")
    (other,) = built(write(PLAIN.format(line=""), "other.py") + "::Net")
    assert laws(own) == laws(other) and laws(own)["maps.0.weight"][-1] == ("normal_", (0.0, 0.07))


def test_one_that_has_values_is_told_by_them(write: Any) -> None:
    (b,) = built(write(PLAIN.format(line=READS)) + "::model")
    ((op, (deviation,)),) = laws(b)["maps.0.weight"]
    assert op == "sample_" and deviation == pytest.approx(0.07, rel=0.1)


def test_what_the_file_does_to_it_later_counts(write: Any) -> None:
    (b,) = built(write(PLAIN.format(line=LATER)) + "::model")
    assert laws(b)["maps.1.weight"][-2:] == [("normal_", (0.0, 0.07)), ("mul_", (0.5,))]


HIDDEN = """
import sys
sys.path.insert(0, FOLDER)
from screen.capture.build.build import build
from screen.graph.target import parse
(b,) = build(parse(FOLDER + "/model.py::model"), set={}, inputs=(), depth=None)
print([name for name, history in b.initialisers if name.endswith("dense.weight")])
"""


def test_one_whose_start_was_not_seen_has_no_record(write: Any, tmp_path: Path) -> None:
    """A module of the project imports transformers, and the model starts while the file runs."""
    pytest.importorskip("transformers", reason="the model is of transformers")
    write(BERT.replace("model = ", "def made():\n    return "), "bert_of_project.py", head="")
    write("import bert_of_project\nmodel = bert_of_project.made()\n", head="")
    program = HIDDEN.replace("FOLDER", repr(str(tmp_path)))
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_one_of_transformers_starts_as_transformers_starts_it(write: Any) -> None:
    pytest.importorskip("transformers", reason="the model is of transformers")
    (b,) = built(write(BERT, head=""))
    assert laws(b)["encoder.layer.1.output.dense.weight"][-1] == ("normal_", (0.0, 0.4))
