"""Short trainings of the designs of `examples/laws`, and what is read off them before and after: for the laws that need a training.

Task: 16 tokens, the first one of K keys, the others one of 32 symbols x; the target of each is π_key(x) for a fixed random permutation, or, with
probability 0.2, any symbol (as `tokens` of `screen.probe.stress.tasks`). Every matrix starts as N(0, s²/d), the embedding as N(0, 0.02²): GPT-2's
N(0, 0.02²) at the width of the paper. AdamW, β = (0.9, 0.95); the rate rises over a tenth of the steps and falls like a cosine to 0. float32, one
thread; weights, batches and what is measured depend on the recipe alone. With `KEEP` set, finished trainings are written there and read again.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.laws import designs
from screen.capture.build.random_state import seeded
from screen.theorems.theta import theta
from screen.theorems.value_spread import log_sensitivity_proxy

FLOAT16 = 65504.0
"""The largest finite number of float16."""
TOKENS, SYMBOLS, BATCH, NOISE, EMBEDDING = 16, 32, 8, 0.2, 0.02
KEEP: list[Path] = []
"""At most one folder."""
Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Recipe:
    """All that a training depends on."""

    norms: str
    rate: float
    steps: int
    start: float
    """s."""
    depth: int = 8
    decay: float = 0.1
    clip: float = math.inf
    keys: int = 4
    seed: int = 0
    dim: int = 64

    @property
    def digest(self) -> str:
        """Of the recipe, the code and torch."""
        code = "".join(Path(f).read_text(encoding="utf-8") for f in (__file__, designs.__file__))
        return hashlib.sha256(f"{self}{torch.__version__}{code}".encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Layer:
    """One block on one batch. Logarithms are natural; sizes are the largest over tokens in 2-norm."""

    theta: float
    """log θ/τ, the mean over sampled rows."""
    stream: float
    """2 log B̄ of the stream that arrives."""
    read: float
    """2 log B̄ of what attention reads (E, theorem 5.1)."""
    reach: float
    """What a norm before it lets `read` be at most: 2 log(√d·max|γ| + ‖β‖₂); inf in the first block of a design without one."""
    product: float
    """log G."""
    entry: float
    """Largest |entry| of the stream behind the block."""
    inside: float
    """Largest |entry| that a branch of the block gives, before an output norm."""
    bound: float
    """Of `entry`, by the norms alone: √d·max|γ| + max|β| of the last C, or that of each B added to the largest entry before; else inf."""
    rms: float
    gradient: float
    """‖∂L/∂W₂‖_F."""

    @property
    def proxy(self) -> float:
        """log S with the stream's B̄, as E's figures have it."""
        return self.theta + self.stream + self.product


@dataclass(frozen=True)
class Training:
    """What one training gave."""

    losses: tuple[float, ...]
    largest: tuple[float, ...]
    """Largest |entry| of the stream, step by step."""
    gradients: tuple[float, ...]
    """‖∂L/∂W₂‖_F of the last block, step by step."""
    before: tuple[Layer, ...]
    after: tuple[Layer, ...]
    crossed: int | None
    """The first step at which the stream passes float16's largest number; None where it never does."""
    lost: int
    """Entries of the stream that are not finite when the model of that step, or the last one, runs in float16."""

    @property
    def final(self) -> float:
        """Mean loss of the last tenth."""
        return statistics.fmean(self.losses[-max(1, len(self.losses) // 10) :])


class Model(nn.Module):
    """A design of `examples/laws` and a head of its own."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.body = designs.GPT(designs.Design(recipe.norms, recipe.depth, dim=recipe.dim))
        self.head = nn.Linear(recipe.dim, SYMBOLS, bias=False)
        for weight in (w for w in self.parameters() if w.dim() == 2):
            nn.init.normal_(weight, std=recipe.start / math.sqrt(recipe.dim))
        nn.init.normal_(self.body.embed.weight, std=EMBEDDING)

    def states(self, ids: Tensor) -> Iterator[Tensor]:
        """The stream before the first block and behind each."""
        yield (x := self.body.embed(ids))
        for block in self.body.blocks:
            yield (x := block(x))

    def loss(self, batch: Batch) -> tuple[Tensor, float]:
        """Mean cross-entropy, and the largest |entry| of the stream."""
        *_, last = states = list(self.states(batch[0]))
        out = self.head(self.body.norm(last))
        return F.cross_entropy(out[:, 1:].flatten(0, 1), batch[1].flatten()), max(float(x.detach().abs().amax()) for x in states)


def batches(recipe: Recipe, seed: int) -> Iterator[Batch]:
    """Batches without end; the permutations are those of the recipe's seed."""
    maps = torch.stack([torch.randperm(SYMBOLS, generator=torch.Generator().manual_seed(recipe.seed * 1009 + 7 + k)) for k in range(recipe.keys)])
    g = torch.Generator().manual_seed(seed)
    while True:
        key = torch.randint(recipe.keys, (BATCH, 1), generator=g)
        x = torch.randint(SYMBOLS, (BATCH, TOKENS - 1), generator=g)
        noisy = torch.rand(x.shape, generator=g) < NOISE
        y = torch.where(noisy, torch.randint(SYMBOLS, x.shape, generator=g), maps[key, x])
        yield torch.cat([SYMBOLS + key, x], 1), y


def trained(recipe: Recipe) -> Training:
    """One training, or what is kept of it."""
    kept = [folder / f"{recipe.digest}.json" for folder in KEEP]
    for path in (p for p in kept if p.is_file()):
        found = json.loads(path.read_text(encoding="utf-8"))
        layers = {k: tuple(Layer(**layer) for layer in found[k]) for k in ("before", "after")}
        return Training(**{**{k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}, **layers})
    with seeded(recipe.seed, "cpu"), torch.enable_grad():
        done = _train(recipe)
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_text(json.dumps(asdict(done)), encoding="utf-8")
        path.with_suffix(".new").replace(path)
    return done


def rate(recipe: Recipe, step: int) -> float:
    """Up over a tenth of the steps, then half a cosine."""
    warm = max(1, recipe.steps // 10)
    return recipe.rate * (step + 1) / warm if step < warm else recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / (recipe.steps - warm)))


def _train(recipe: Recipe) -> Training:
    model, data, shown = Model(recipe), batches(recipe, recipe.seed * 1009 + 1), next(batches(recipe, recipe.seed * 1009 + 2))
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=0.0, betas=(0.9, 0.95), weight_decay=recipe.decay)
    before = tuple(_layers(model, shown))
    rows: list[tuple[float, float, float]] = []
    crossed, lost = None, 0
    for step in range(recipe.steps):
        batch = next(data)
        loss, largest = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, recipe.clip)
        rows.append((float(loss.detach()), largest, float(model.body.blocks[-1].ffn.branch.down.weight.grad.norm())))
        if not math.isfinite(rows[-1][0]):
            break
        if crossed is None and largest > FLOAT16:
            crossed, lost = step, in_float16(model, batch)
        for group in optimizer.param_groups:
            group["lr"] = rate(recipe, step)
        optimizer.step()
    losses, sizes, gradients = zip(*rows, strict=True)
    lost = lost if crossed is not None else in_float16(model, shown)
    return Training(losses, sizes, gradients, before, tuple(_layers(model, shown)), crossed, lost)


def in_float16(model: Model, batch: Batch) -> int:
    """Entries of the stream that are not finite in float16."""
    with torch.no_grad():
        return sum(int((~torch.isfinite(x)).sum()) for x in copy.deepcopy(model).half().states(batch[0]))


def _layers(model: Model, batch: Batch) -> Iterator[Layer]:
    """Each block, first to last."""
    model.zero_grad()
    model.loss(batch)[0].backward()
    with torch.no_grad():
        x = model.body.embed(batch[0])
        entry, before = float(x.abs().amax()), None
        for block in model.body.blocks:
            attention, ffn = block.attention, block.ffn
            middle, out = attention(x), block(x)
            inside = max(float(s.branch(s.before(y)).abs().amax()) for s, y in ((attention, x), (ffn, middle)))
            for sublayer in (attention, ffn):
                entry = _bound(sublayer, entry)
            yield Layer(
                **_parts(attention, x), reach=_reach(attention.before, before), entry=float(out.abs().amax()), inside=inside, bound=entry,
                rms=float(out.square().mean().sqrt()), gradient=float(ffn.branch.down.weight.grad.norm()),
            )  # fmt: skip
            x, before = out, ffn.on_stream


def _bound(sublayer: Any, entry: float) -> float:
    """The largest |entry| behind a sublayer whose stream had at most `entry`."""
    for norm, carried in ((sublayer.on_stream, 0.0), (sublayer.after, entry)):
        if isinstance(norm, nn.LayerNorm):
            return carried + math.sqrt(norm.normalized_shape[0]) * float(norm.weight.abs().amax()) + float(norm.bias.abs().amax())
    return math.inf


def _reach(*norms: Any) -> float:
    """2 log of the largest 2-norm that the first norm of these lets a token have."""
    found = next((n for n in norms if isinstance(n, nn.LayerNorm)), None)
    return math.inf if found is None else 2 * math.log(math.sqrt(len(found.weight)) * float(found.weight.abs().amax()) + float(found.bias.norm()))


def _parts(sublayer: Any, x: Tensor) -> dict[str, float]:
    """log θ/τ, 2 log B̄ of the stream and of what is read, and log G of one attention."""
    read = sublayer.before(x)
    maps = {m: getattr(sublayer.branch, m) for m in "oqkv"}
    q, k = (maps[m](read).unflatten(-1, (sublayer.branch.heads, -1)).transpose(1, 2) for m in "qk")
    rows = torch.softmax((q @ k.mT).double() / math.sqrt(q.shape[-1]), -1).flatten(0, 2)[::37].numpy()
    certain = statistics.fmean(theta(row).low for row in rows)
    norms = [float(torch.linalg.matrix_norm(m.weight, 2)) for m in maps.values()]
    stream, inner = (log_sensitivity_proxy(certain, 1.0, float(of.norm(dim=-1).amax()), norms) for of in (x, read))
    return {"theta": stream["theta/tau"], "stream": stream["size"], "read": inner["size"], "product": stream["G"]}


__all__ = ["FLOAT16", "KEEP", "Layer", "Recipe", "Training", "trained"]
