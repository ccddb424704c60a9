"""A run depends on its cell alone: in a stack, alone, and again; against an optimiser that is not ours; and when a neighbour is not finite."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from screen.atlas import tasks
from screen.atlas import train as training
from screen.atlas.cell import LAST, VOCAB, Cell, cell_of
from screen.atlas.first_steps import LEAST, first_rate, folds
from screen.atlas.language import PERIOD, language
from screen.atlas.precision import Watch
from screen.atlas.records import read
from screen.atlas.run import results, run
from screen.atlas.stack import model_of
from screen.atlas.tasks import batches
from screen.atlas.train import rate, train

BASE = Cell("pre", 1, 8, "chain", 1e-2, 0)
VARIED: tuple[dict[str, Any], ...] = (
    {}, {"lr": 0.1}, {"seed": 1}, {"warmup": 0.0}, {"init": "large"}, {"decay": 1.0}, {"eps": 1e-3}, {"beta2": 0.999}, {"z_loss": 0.1},
)  # fmt: skip
CELLS = [replace(BASE, **change) for change in VARIED]
LOST = replace(BASE, design="none", lr=1e30, warmup=0.0)


STEPS = 12
"""Of the runs here; those of the atlas are longer."""


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tasks, training):
        monkeypatch.setattr(module, "STEPS", STEPS)


def test_a_run_in_a_stack_is_the_run_alone() -> None:
    together = train(CELLS)
    assert len({curve.loss for curve in together}) == len(CELLS)
    for cell, curve in list(zip(CELLS, together, strict=True))[::3]:
        (alone,) = train([cell])
        assert alone.loss == pytest.approx(curve.loss, abs=1e-5)
        assert alone.attention == pytest.approx(curve.attention, rel=1e-4)


def test_the_optimiser_is_that_of_torch() -> None:
    cell = replace(BASE, decay=0.5, beta2=0.9, eps=1e-4, z_loss=0.01, task="repeat")
    model, data, first = model_of(cell), batches(cell.task, cell.seed), PERIOD - 1
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": cell.decay}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, cell.beta2), eps=cell.eps)
    losses = []
    for step in range(STEPS):
        for group in adam.param_groups:
            group["lr"] = rate(cell, step)
        logits = model(data[step])[:, first:-1]
        loss = F.cross_entropy(logits.transpose(1, 2), data[step][:, first + 1 :])
        adam.zero_grad()
        (loss + cell.z_loss * torch.logsumexp(logits, -1).square().mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(loss.item())
    (curve,) = train([cell])
    assert curve.loss == pytest.approx(losses, abs=1e-3)


def test_what_is_not_finite_ends_alone() -> None:
    cells = [replace(LOST, lr=1e-3, warmup=0.1), LOST, replace(LOST, lr=1e-2, warmup=0.1)]
    first, lost, last = train(cells)
    assert not lost.finite
    assert 0 < len(lost.loss) < STEPS
    for cell, curve in zip((cells[0], cells[2]), (first, last), strict=True):
        assert curve.finite
        assert curve.loss == pytest.approx(train([cell])[0].loss, abs=1e-5)


def test_float16_skips_a_step_whose_gradient_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the scale of the loss is too large, each batch meets the first weights; then the run goes on."""
    monkeypatch.setattr(training, "SCALE", 2.0**22)
    cell = replace(BASE, precision="fp16", warmup=0.0)
    (curve,) = train([cell])
    model, still = model_of(cell), []
    for ids in batches(cell.task, cell.seed):
        with Watch("fp16"):
            still.append(F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).item())
    assert curve.finite
    assert curve.loss[:3] == pytest.approx(still[:3], rel=1e-5)
    assert curve.loss[-1] != pytest.approx(still[-1], rel=1e-2)


def test_the_rate_warms_up_and_decays() -> None:
    rates = [rate(BASE, step) for step in range(STEPS)]
    assert [rate(replace(BASE, warmup=0.3), step) for step in range(4)] == pytest.approx([BASE.lr * part for part in (0.25, 0.5, 0.75, 1.0)])
    assert max(rates) == rates[0] == pytest.approx(BASE.lr)
    assert rates[-1] == pytest.approx(LAST * BASE.lr)
    assert rate(replace(BASE, warmup=0.0), 0) == BASE.lr


def test_half_precision_rounds_and_overflows() -> None:
    x, eye = torch.full((1, 2), 1 / 3), torch.eye(2)
    with Watch("bf16"):
        assert torch.equal(F.linear(x, eye), x.bfloat16().float())
    with Watch("fp16"):
        assert F.linear(x * 3e5, torch.ones(1, 2)).isinf().all()
        assert torch.equal(F.linear(x, eye), x.half().float())
    with Watch("fp32"):
        assert torch.equal(F.linear(x, eye), x)


def test_attention_is_that_of_torch_and_its_logits_are_seen() -> None:
    q, k, v = torch.randn(3, 2, 2, 5, 4, generator=torch.Generator().manual_seed(0)).unbind()
    with Watch("fp32") as watch:
        ours = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert watch.logits[0] == pytest.approx((q @ k.transpose(-1, -2) / 2).abs().max().item())


def test_chance_and_floor_are_those_of_the_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "STEPS", 400)
    chain, known = batches("chain", 3), language("chain")
    pairs = torch.zeros(VOCAB, VOCAB).index_put_((chain[..., :-1].flatten(), chain[..., 1:].flatten()), torch.ones(()), accumulate=True)
    share = pairs / pairs.sum(1, keepdim=True)
    entropy = -(share * share.clamp(min=1e-9).log()).sum(1).mean()
    assert entropy == pytest.approx(known.floor, abs=0.03)
    assert known.chance == math.log(VOCAB)
    repeat = batches("repeat", 3)
    assert torch.equal(repeat[..., PERIOD:], repeat[..., :-PERIOD])
    assert torch.bincount(repeat.flatten(), minlength=VOCAB).float().std() < 0.1 * repeat.numel() / VOCAB


def test_the_generator_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path, said = tmp_path / "runs.jsonl", []
    cells = [BASE, replace(BASE, lr=3e-3), replace(BASE, depth=2)]
    assert run(cells[:1], path, say=said.append) == 1
    path.write_text(path.read_text() + '{"id": "cut o')
    assert run(cells, path, budget=0.0, say=said.append) == 0
    assert run(cells, path, say=said.append) == 2
    rows = read(path)
    assert [cell_of(row) for row in rows] == cells
    assert run(cells, path, say=said.append) == 0
    assert results(cells[:1]) == rows[:1]
    assert json.loads((tmp_path / "manifest.json").read_text())["runs"] == 3


def test_first_steps_tell_whether_tokens_stay_apart() -> None:
    """Of a post-norm stack at a small and at a huge rate; in a stack and alone; what is not finite is as alike as can be told."""
    small, huge = (Cell("post", 2, 32, "chain", lr, 0) for lr in (1e-4, 3.0))
    found = {cell.lr: e_folds for cell, e_folds in folds([small, huge, replace(small, seed=1)]).items()}
    assert len(found) == 2 and 0 < found[1e-4] < 1 < 3 < found[3.0]
    assert next(iter(folds([small]).values())) == pytest.approx(found[1e-4], rel=1e-3)
    assert next(iter(folds([Cell("none", 2, 32, "chain", 1e6, 0)]).values())) == pytest.approx(-math.log(LEAST))
    assert [first_rate(small, step) / 1e-4 for step in (0, 1, 4, 5, 9)] == pytest.approx([0.2, 0.4, 1, 1, 1])
    assert first_rate(replace(small, warmup=0.0), 0) == 1e-4
