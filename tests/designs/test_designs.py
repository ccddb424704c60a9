"""Cells become models: what is not said is filled in and named, and what cannot be built is refused."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest
import torch

from screen.designs import TABLE, NotExpressible, Spec, resolve, row
from screen.designs.build import build, inputs
from screen.designs.table import QK
from tests.shared import SHARED, shared

SMALL = {"heads": 4, "ffn_width": 24, "vocab": 11, "context": 24}
NAMES = [name + qk for name in TABLE for qk in ("", QK)]


def _spec(name: str = "pre", init: dict[str, Any] | None = None, **design: Any) -> Spec:
    return resolve(row(name, depth=4, width=16, init=init, **{**SMALL, **design}))


def _out(spec: Spec) -> torch.Tensor:
    torch.manual_seed(0)
    ids = torch.randint(0, spec.design.vocab, (2, 16))
    out: torch.Tensor = build(spec)(ids)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_every_design_of_the_table_is_built(name: str) -> None:
    spec = _spec(name)
    out = _out(spec)
    assert out.shape == (2, 16, 11)
    assert out.isfinite().all()
    assert Spec.of_plain(json.loads(json.dumps(spec.plain()))) == spec


def test_designs_of_the_table_differ() -> None:
    """No two names give one function, but those whose factor of the branch starts at zero, which no placement can change."""
    outs = {name: _out(_spec(name)) for name in NAMES if not name.startswith("rezero")}
    for name, out in outs.items():
        assert [other for other, y in outs.items() if torch.equal(out, y)] == [name]


def test_a_branch_that_starts_at_zero_is_no_branch() -> None:
    model = build(_spec("rezero"))
    ids = inputs(_spec("rezero"))[0]
    x = model.stack.embed(ids) + model.stack.pos(16)
    torch.testing.assert_close(model(ids), model.head(x))


@pytest.mark.parametrize("name", ["encoder", "encoder_decoder", "vit"])
def test_families(name: str) -> None:
    sub = [{"role": role, "placement": "C", "stream": None} for role in ("attention", "gated_ffn")]
    if name == "encoder_decoder":
        roles = (("attention", "encoder"), ("ffn", "encoder"), ("attention", "decoder"), ("cross_attention", "decoder"), ("ffn", "decoder"))
        sub = [{"role": role, "placement": "A", "stream": stream} for role, stream in roles]
    context = 197 if name == "vit" else 24
    spec = _spec(family=name, context=context, encoder_depth=2, decoder_depth=1, sublayers=sub, causal=None)
    assert build(spec)(*inputs(spec)).shape[-1] == spec.design.vocab


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("design.depth", 0, "depth"),
        ("design.width", 0, "width"),
        ("design.family", "mmdit", "family"),
        ("design.norm_type", "l2", "norm"),
        ("design.sublayers", [{"role": "attention", "placement": None, "stream": None}], "placement"),
        ("design.sublayers", [{"role": "moe", "placement": "A", "stream": None}], "moe"),
        ("design.residual.kind", "data_dependent", "residual"),
        ("design.pattern", {"kind": "extra_stream_norm"}, "stream"),
    ],
)
def test_what_cannot_be_built_is_refused(path: str, value: object, reason: str) -> None:
    with pytest.raises(NotExpressible, match=reason):
        resolve(row("pre", depth=2, width=16, **SMALL), {path: value})


def test_what_was_filled_in_is_named() -> None:
    cells = row("pre", depth=2, width=16, **SMALL, final_norm=None)
    cells["design"] |= {"biases": None, "heads": None}
    cells["assumed"] = {"design.heads": {"value": 2, "basis": "the code"}}
    spec = resolve(cells)
    assert spec.design.heads == 2
    assert spec.filled == {"design.heads": "assumed", "design.biases": "general default", "design.final_norm": "general default"}
    assert resolve(cells, assume=False).design.heads == 1


def _reference() -> ModuleType:
    loaded = importlib.util.spec_from_file_location("reference_designs", SHARED / "outcomes" / "designs.py")
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    return module


@pytest.mark.by_the_day
def test_published_rows_give_the_reference_models() -> None:
    """Shrunk, each row's model has the parameters and the outputs of an independent implementation, bit by bit, from one seed."""
    rows = shared("outcomes", "outcomes.jsonl")
    reference, built = _reference(), 0
    for line in rows.read_text(encoding="utf-8").splitlines():
        cells = json.loads(line)
        small = {"design.width": 16, "design.heads": 2, "design.head_dim": 8, "design.ffn_width": 24, "design.vocab": 11, "design.kv_heads": 1}
        small |= {f"design.{k}": 2 for k in ("depth", "encoder_depth", "decoder_depth") if cells["design"][k]}
        if cells["design"]["family"] != "vit":
            small["design.context"] = 20
        try:
            wanted = reference.resolve(cells, small)
        except reference.NotExpressible:
            continue
        spec = resolve(cells, small)
        assert wanted["dtype"] == spec.dtype
        torch.manual_seed(1)
        theirs = reference.build(wanted).float()
        torch.manual_seed(1)
        ours = build(spec).float()
        torch.manual_seed(2)
        args = [torch.randint(0, 11, t.shape) if t.dtype == torch.long else torch.randn(t.shape) for t in inputs(spec)]
        assert torch.equal(theirs(*args), ours(*args)), cells["id"]
        assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())
        built += 1
    assert built >= 120
