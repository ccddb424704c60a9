"""The truth about the examples, worked out by hand; their whole reports are compared in `tests/whole/test_expected.py`."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph.target import parse
from tests.awkward.reading import in_order
from tests.shared import ROOT

PRE = ("attention:pre", "ffn:pre")
POST = ("attention:post", "ffn:post")
ENDS = {"embed_norm": False, "final_norm": True, "embed_scale": False}

TRUTH: dict[str, tuple[tuple[str, ...], dict[str, bool]]] = {
    "pre": (6 * PRE, ENDS),
    "post": (6 * POST, {**ENDS, "final_norm": False, "embed_scale": True}),
    "builtin_post": (6 * POST, {**ENDS, "final_norm": False, "embed_scale": True}),
    "peri": (6 * ("attention:peri", "gated_ffn:peri"), {**ENDS, "embed_scale": True}),
    "output_norm_qk": (6 * ("attention:output_only qk=full", "gated_ffn:output_only"), ENDS),
    "deepnorm": (18 * ("attention:post α=2.44949", "ffn:post α=2.44949"), {**ENDS, "embed_norm": True, "final_norm": False}),
    "parallel": (6 * ("attention:pre ∥", "ffn:pre ∥"), ENDS),
    "mix_ln": (3 * POST + 9 * PRE, ENDS),
    "rezero": (12 * ("attention:none s=learned", "ffn:none s=learned"), {**ENDS, "final_norm": False}),
    "dyt": (6 * ("attention:none", "ffn:none"), {**ENDS, "final_norm": False}),
    "linear_attention": (6 * ("linear_attention:pre", "ffn:pre"), ENDS),
    "moe": (4 * ("attention:pre", "moe:pre"), ENDS),
    "mamba": (6 * ("ssm:pre",), ENDS),
    "vit_block": (24 * ("attention:pre s=learned", "ffn:pre s=learned"), {**ENDS, "final_norm": False}),
    # What ends the last block stands before no further add: the last FFN has no C.
    "normed_skip": (8 * ("attention:post normed_skip", "ffn:* normed_skip"), {**ENDS, "final_norm": False}),
    "none": (8 * ("attention:none", "ffn:none"), {**ENDS, "final_norm": False}),
}
"""Sublayers of the one stream in the notation of `tests/awkward/table.py`, and its ends."""


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
def test_truth(name: str) -> None:
    truth, ends = TRUTH[name]
    [built] = build(parse(str(ROOT / "examples" / f"{name}.py")), set={}, inputs=(), depth=None)
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    assert facts.graph.failure is None
    [stream] = facts.streams
    found = in_order(stream)
    assert len(found) == len(truth) and all(map(fnmatchcase, found, truth)), f"expected {truth}\nfound    {tuple(found)}"
    assert {key: getattr(stream, key) for key in ends} == ends
