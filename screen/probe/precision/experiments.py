"""What is measured of one block in float16 and bfloat16, at its initialisation and with the stream scaled by powers of two.

non-finite values    entries of any value of the block that are not finite, and are in float64 (masks are left out). Predicted 0 where every
                     branch's largest entry (`internal`), its logits, and the stream with what is added stay under the type's largest number,
                     each rounding allowed for by (1 + 2^−t)^(2·calls); that a divisor underflows to 0 is not excluded by that
error                ‖y − y₆₄‖ / ‖y₆₄‖ of what the block does to the stream, y₆₄ in float64 with the unrounded weights; and of ∂L/∂x, L a random
                     linear function of the block's end
reach                the largest rms of the stream at which every value is finite, by bisection over powers of two; predicted: at least the one
                     up to which bounds exclude anything else
crossing             the block at which a stack of the block leaves the type (`screen.probe.precision.crossing`)
lost                 share of the entries of a branch that the residual add loses: fl(x + F) = x with F ≠ 0. Lost for certain is F under
                     2^−(t+1)|x|, possible is F up to 2^−t|x| (`screen.theorems.precision`): the share must lie between those of the two
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from screen.probe.measure.replay import Env
from screen.probe.plan.types import Experiment, rounded
from screen.probe.precision.against_float64 import Bad, Precision
from screen.probe.precision.crossing import crossing
from screen.probe.precision.program import name_of
from screen.theorems.precision import always_lost, format_of, possibly_lost

SCALES = (0, 3, 6, 9, 12)
"""Powers of two of the stream at which the sum is looked at."""


def precision(made: Precision) -> list[Experiment]:
    """Everything of one block in one type."""
    plan = made.stack.plan
    empty = Experiment("precision", "", "observed", plan.stream, plan.kind)
    env = made.run(0)
    seen = dict(made.half.tape.seen)
    found = [counted(made, made.bad(env), made.safe(env), empty), error(made, env, empty), reach(made, empty)]
    return [*found, *lost(made, seen, empty), *crossing(made, empty)]


def counted(made: Precision, bad: Bad, unsafe: str, empty: Experiment) -> Experiment:
    """Non-finite values at the initialisation."""
    what = f"non-finite values, {made.name}"
    found = replace(empty, what=what, measured=float(bad.count), samples=bad.values, numbers={"largest": rounded(bad.largest)})
    where = f"first at {made.where(bad.first)}" if bad.first is not None else ""
    if unsafe:
        return replace(found, reason="; ".join(p for p in (where, f"no prediction: {unsafe}") if p))
    found = replace(found, predicted=0.0)
    if bad.count and bad.underflow:
        return replace(found, reason=f"{where}, which reads an underflow to 0")
    return replace(found, outcome="refuted" if bad.count else "confirmed", reason=where)


def error(made: Precision, env: Env, empty: Experiment) -> Experiment:
    """Of the block's step and of the gradient that goes back through it."""
    plan = made.stack.plan
    what = f"relative error of what the block adds, {made.name}"
    true = made.true[plan.exit] - made.x if made.true[plan.exit].shape == made.x.shape else made.true[plan.exit]
    found = env[made.exit].to(true.dtype)
    found = found - made.x if made.true[plan.exit].shape == made.x.shape else found
    back, exact = _gradient(made), _true_gradient(made)
    zeros = float(((back == 0) & (exact != 0)).sum()) / max(exact.numel(), 1)
    numbers = {
        "error_of_the_end": rounded(_far(env[made.exit], made.true[plan.exit])), "error_of_the_gradient": rounded(_far(back, exact)),
        "gradient_lost_to_zero": rounded(zeros), "gradient_not_finite": float((~torch.isfinite(back)).sum()),
    }  # fmt: skip
    said = f"of the gradient {_far(back, exact):.2g}"
    return replace(empty, what=what, measured=rounded(_far(found, true)), samples=true.numel(), numbers=numbers, reason=said)


def reach(made: Precision, empty: Experiment) -> Experiment:
    """The largest stream without a non-finite value, and the largest at which bounds exclude one."""
    rms, top = float(made.x.square().mean().sqrt()), float(made.x.abs().amax())
    own = math.floor(math.log2(format_of(name_of(made.stream)).largest / top)) if top > 0 else 0  # beyond it the stream itself leaves the type
    runs: dict[int, tuple[Bad, bool]] = {}

    def at(k: int) -> tuple[Bad, bool]:
        if k not in runs:
            env = made.run(k)
            runs[k] = made.bad(env), not made.safe(env)
        return runs[k]

    finite = _last(lambda k: not at(k)[0].count, own)
    safe = _last(lambda k: at(k)[1], finite)
    numbers: dict[str, float | str] = {f"not_finite_{k}": float(runs[k][0].count) for k in sorted(runs)}
    numbers |= {"finite_to": float(finite), "stream_itself": rounded(rms * 2.0**own)}
    what = f"largest rms of the stream with finite values only, {made.name}"
    found = replace(empty, what=what, samples=len(runs), numbers=numbers, measured=rounded(rms * 2.0**finite) if finite >= 0 else 0.0)
    first = runs[finite + 1][0].first if finite < own else None
    where = f"beyond it {made.where(first)} is the first that is not finite" if first is not None else "beyond it the stream itself leaves the type"
    if any(bad.count and excluded and not bad.underflow for bad, excluded in runs.values()):
        return replace(found, outcome="refuted", reason=f"{where}, though bounds exclude it")
    if safe < 0:
        return replace(found, reason=where)
    return replace(found, outcome="confirmed", predicted=f"at least {rms * 2.0**safe:.3g}", reason=where)


def _last(holds: Callable[[int], bool], top: int) -> int:
    """The last k of 0 … top up to which it holds, by bisection; −1 where it never does."""
    low, high = -1, top
    k = high
    while low < high:
        low, high = (k, high) if holds(k) else (low, k - 1)
        k = (low + high + 1) // 2
    return low


def lost(made: Precision, seen: Mapping[int, list[Tensor]], empty: Experiment) -> Iterator[Experiment]:
    """The share of each branch that its residual add loses."""
    plan = made.stack.plan
    by_scale = {0: dict(seen)}
    for k in SCALES[1:]:
        if 2.0**k * float(made.x.abs().amax()) < format_of(name_of(made.stream)).largest:
            made.run(k)
            by_scale[k] = dict(made.half.tape.seen)
    for name, output, add in zip(plan.names, plan.outputs, plan.adds, strict=True):
        what = replace(empty, what=f"share of the branch that the sum loses, {made.name}", sublayer=name)
        shares = {k: s for k, found in by_scale.items() if (s := _share(made, output, add, found)) is not None}
        if 0 not in shares:
            yield replace(what, outcome="not_measured", reason="its sum is not one call with the stream and the branch, or the branch is 0")
            continue
        yield _judged(what, shares)


@dataclass(frozen=True)
class Share:
    """Of the entries of a branch that are not 0."""

    lost: float
    low: float
    high: float
    ratio: float
    """rms of the stream over rms of the branch."""
    entries: int
    type: str
    """In which the sum is taken."""


def _judged(what: Experiment, shares: Mapping[int, Share]) -> Experiment:
    first = shares[0]
    numbers: dict[str, float | str] = {"stream_over_branch": rounded(first.ratio)}
    for k, s in shares.items():
        numbers |= {f"ratio_{k}": rounded(s.ratio), f"lost_{k}": rounded(s.lost), f"low_{k}": rounded(s.low), f"high_{k}": rounded(s.high)}
    wrong = [k for k, s in shares.items() if not s.low <= s.lost <= s.high]
    said = f"the sum is in {first.type}; the stream is {first.ratio:.3g} times the branch"
    said += f"; outside at 2^{wrong[0]} times the stream" if wrong else ""
    found = replace(what, measured=rounded(first.lost), predicted=f"{first.low:.3g} to {first.high:.3g}", samples=first.entries)
    return replace(found, outcome="refuted" if wrong else "confirmed", numbers=numbers, reason=said)


def _share(made: Precision, output: int, add: int, seen: Mapping[int, list[Tensor]]) -> Share | None:
    """The share lost at one add, of the operands as the add read them."""
    of, tape = made.half.of, made.half.tape
    here = tape.graph.nodes[of[add]]
    operands = seen.get(of[add], [])
    if here.op != "add" or len(operands) != 2 or len(here.inputs) != 2 or here.kwarg("alpha") is not None:
        return None
    # x: [..., d] the stream, f: [..., d] the branch
    branch = [of[output] in (j, *tape.steps([j], [made.entry])[0]) for j in here.inputs]
    if sum(branch) != 1 or operands[0].shape != operands[1].shape:
        return None
    f, x = operands if branch[0] else reversed(operands)
    wide = torch.promote_types(f.dtype, x.dtype)
    total = f.to(wide) + x.to(wide)
    known = torch.isfinite(total) & (f != 0)
    f, x, total = f[known].double(), x[known].double(), total[known].double()
    if not f.numel():
        return None
    kind = name_of(wide)
    low, high = f.abs() < always_lost(kind) * x.abs(), f.abs() <= possibly_lost(kind) * x.abs()
    shares = [float(t.double().mean()) for t in (total == x, low, high)]
    return Share(shares[0], shares[1], shares[2], float(x.square().mean().sqrt() / f.square().mean().sqrt()), f.numel(), kind)


def _gradient(made: Precision) -> Tensor:
    with torch.enable_grad():
        x = made.x.to(made.stream).requires_grad_(True)
        out = made.run(0, x)[made.exit]
        (found,) = torch.autograd.grad(out, x, _direction(made, out))
    return found


def _true_gradient(made: Precision) -> Tensor:
    with torch.enable_grad():
        x = made.x.clone().requires_grad_(True)
        out = made.exact(x)[made.stack.plan.exit]
        (found,) = torch.autograd.grad(out, x, _direction(made, out))
    return found


def _direction(made: Precision, out: Tensor) -> Tensor:
    generator = made.stack.material.generator(made.stack.plan.exit, 950)
    return torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.device, out.dtype)


def _far(one: Tensor, true: Tensor) -> float:
    """‖one − true‖ / ‖true‖, in float64."""
    size = float(true.double().norm())
    return float((one.double() - true.double()).norm()) / size if size > 0 else math.nan


__all__ = ["SCALES", "counted", "error", "lost", "precision", "reach"]
