"""Every slip of `examples/slips/` fails the gate at its defaults; every sound twin and production architectures pass.

Ordinary designs (`examples/`) and the architectures of the README's table pass it in `test_expected.py`."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

import screen
from screen.report.gate import Decision, decide
from screen.report.schema import Report
from screen.rule import PRELUDE, STACK
from screen.settings import Settings
from tests import slips
from tests.contradictions import contradictions
from tests.days import nightly

pytestmark = pytest.mark.by_the_day

PRODUCTION = (
    "qwen3", "mistral", "phi3", "bert", "roberta", "t5", "bart", "vit", "swin", "whisper",
    "falcon", "gptj", "gpt_neox", "opt", "bloom", "electra", "clip", "deit", "dinov2", "stablelm",
    "t5:T5Model", "bart:BartModel", "whisper:WhisperModel", "gemma3", "deepseek_v3", "perceiver", "layoutlm", "swinv2", "xlnet", "deberta_v2",
)  # fmt: skip
"""Types of transformers that people train as they are (the default config of granite, which has no 1/√d, is none: `tests/whole/test_zoo.py`)."""
UNSCALED = ("gpt_neo",)
"""Trained as it is, without 1/√d: its logits start with a root mean square of 9, as the slip's do. The finding is true."""
NOT_JUDGED = ("albert",)
"""One whose verdict is `unknown` (its weights serve at several depths): nothing that is said of it fails."""


@functools.cache
def _report(target: str) -> Report:
    report = screen.check(str(slips.ROOT / target) if target.startswith("examples/") else target, isolate=False, spot_check=nightly())
    assert contradictions(report) == []
    return report


def _gate(report: Report) -> Decision:
    settings = Settings()
    return decide(report, settings.fail_on, allow_unknown=settings.allow_unknown)


def _violated(report: Report) -> set[str]:
    return {f.code for f in report.findings if f.outcome == "violated" and f.severity != "note"}


def test_every_slip_has_its_rule() -> None:
    assert set(slips.NAMES) == set(slips.SEEN_BY) and len(slips.SEEN_BY) >= 20


def test_the_table_of_the_folder_is_up_to_date() -> None:
    assert (slips.FOLDER / "README.md").read_text(encoding="utf-8") == slips.table()


@pytest.mark.parametrize("name", sorted(slips.SEEN_BY))
def test_a_slip_fails_and_its_rule_is_violated(name: str) -> None:
    report = _report(f"examples/slips/{name}.py::Slip")
    assert _gate(report).code == 1, report.summary
    assert slips.SEEN_BY[name] in _violated(report)


@pytest.mark.parametrize("name", slips.NAMES)
def test_its_sound_twin_passes(name: str) -> None:
    report = _report(f"examples/slips/{name}.py::Sound")
    assert _gate(report) == Decision(0), _violated(report) or report.summary


@pytest.mark.parametrize("name", PRODUCTION)
def test_a_production_architecture_passes(name: str) -> None:
    report = _report(f"hf:{name}")
    assert _gate(report) == Decision(0), _violated(report) or report.summary


@pytest.mark.parametrize("name", UNSCALED)
def test_a_missing_scale_is_told_of_whoever_trained_without(name: str) -> None:
    assert _violated(_report(f"hf:{name}")) == {"I202"}


@pytest.mark.parametrize("name", NOT_JUDGED)
def test_nothing_that_is_found_in_the_others_fails(name: str) -> None:
    report = _report(f"hf:{name}")
    assert _violated(report) == set() and _gate(report).code in (0, 2)


# -- near misses of the rules ---------------------------------------------------------------------------------------------------------------

ATTENTION = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        scores = self.q(h) @ self.k(h).transpose(-2, -1) / 32**0.5
        WEIGHTS
        return x + self.o(VALUES)
"""
LATENT = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.a_norm = nn.LayerNorm(32), nn.RMSNorm(16)
        self.a, self.q, self.k, self.v, self.o = nn.Linear(32, 16), nn.Linear(16, 32), *(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        h = self.norm(x)
        q = self.q(self.a_norm(self.a(h)))
        return x + self.o(F.scaled_dot_product_attention(q, self.k(h), self.v(h)))
"""
FFN = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        MORE

    def forward(self, x):
        RETURN
"""
SHARED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.norm = Block(), nn.LayerNorm(32)

    def forward(self, x):
        for _ in range(4):
            x = self.block(x)
        return self.norm(x)
"""
BRANCH = "self.down(F.gelu(self.up(self.norm(x))))"


def _ffn(returned: str, more: str = "pass") -> str:
    return FFN.replace("RETURN", f"return {returned}").replace("MORE", more)


NEAR = {
    "a softmax over queries that is divided by its sum over keys (slot attention)":
        ATTENTION.replace("WEIGHTS", "w = F.softmax(scores, dim=-2)").replace("VALUES", "(w / w.sum(-1, keepdim=True)) @ self.v(h)"),
    "a softmax over keys laid out first, and turned":
        ATTENTION.replace("WEIGHTS", "w = F.softmax(scores.transpose(-2, -1), dim=-2)").replace("VALUES", "w.transpose(-2, -1) @ self.v(h)"),
    "a softmax over keys of weights that stand second":
        ATTENTION.replace("WEIGHTS", "w = F.softmax(scores.mT, dim=-2)").replace("VALUES", "(self.v(h).mT @ w).mT"),
    "a norm between two projections of queries (multi-head latent attention)": LATENT,
    "a last map that starts at zero": _ffn(f"x + {BRANCH}", "nn.init.zeros_(self.down.weight), nn.init.zeros_(self.down.bias)"),
    "a gate at zero on a branch that starts at zero but for a bias": _ffn(
        f"x + self.gate * {BRANCH}", "self.gate = nn.Parameter(torch.zeros(1)); nn.init.zeros_(self.down.weight); nn.init.ones_(self.down.bias)"),
    "a gate of 1 + w with w at zero": _ffn(
        f"x + (1 + self.gate) * {BRANCH}",
        "self.gate = nn.Parameter(torch.zeros(1)); nn.init.zeros_(self.down.weight); nn.init.zeros_(self.down.bias)",
    ),
    "one block that serves at all depths, its norm with it": SHARED,
    "noise that is no dropout": _ffn(f"x + {BRANCH} + 0 * torch.randn_like(x)"),
    "dropout that follows the mode": _ffn(f"x + F.dropout({BRANCH}, 0.5, self.training)"),
}  # fmt: skip
"""What stands next to a slip and is none."""


@pytest.mark.parametrize("title", list(NEAR))
def test_what_is_no_slip_is_not_called_one(title: str, tmp_path: Path) -> None:
    code = NEAR[title]
    path = tmp_path / "near.py"
    model = code.strip("\n") + "\n" + ("" if "class Model(" in code else STACK)
    path.write_text(PRELUDE + model + "\n\nexample_inputs = (torch.zeros(2, 16, 32),)\n")
    report = screen.check(f"{path}::Model", isolate=False, spot_check=nightly())
    assert _violated(report) == set()
