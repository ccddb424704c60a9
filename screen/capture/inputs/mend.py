"""Inputs mended by what a failing forward says: the call that refuses a tensor, and the argument that this tensor was made from.

A `Linear` that takes 128 features refuses 64 of them: whichever argument those 64 came from is given 128. So are channels, numbers of axes
(`b, c, t, h, w = x.shape`), lengths that must meet the length of another tensor, integers where a table is read, and arguments that were `None`.
Each mended choice is tried in turn, those that come furthest first. No name of an argument decides.
"""

from __future__ import annotations

import ast
import heapq
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from screen.capture.inputs.context import BATCH, Lookup
from screen.capture.inputs.grids import maps_of
from screen.capture.inputs.lengths import LONGEST, asked_by_torch, beside, divisible, equal, evaluated, fewer, last_axis, lengthened, resized, summed
from screen.capture.inputs.lengths import written
from screen.capture.inputs.missing import condition, frames, statement
from screen.capture.inputs.trial import Outcome, outcome
from screen.capture.trace.source_lines import HERE, TORCH

Values = dict[str, Any]
Far = tuple[tuple[int, ...], bool, Values]
"""Where a choice failed, whether all that it asks for was there, and the choice."""
TRIALS, ALL, TRACED = 60, 960, 20
"""Trials from one start that come no further, and from all; a failing one costs what the forward costs up to there, and one that had to be traced
counts for more, unless it came further than all before."""
FRAMES = 32
"""Half frames of a sound that is cut into frames."""
FOLLOWED = 8
"""Mended choices of one failure."""
LARGEST = 2**28
"""Entries of an argument of floats, which have no values."""
_LONG = re.compile(r"dimension -1 must have length (\d+)")
"""What torch says of an axis that has to be so long."""
_FLOATS = re.compile(r"must be (either )?a? ?floating|should be the same|expected .*(Float|float)|not implemented for '?(Long|Int)")
_SHORT = re.compile("Kernel size can't be greater than actual input size|Output size is too small")
"""What torch says of integers where it takes floats alone, and of a filter or a pooling that is longer than what it runs over."""
_CONVOLUTIONS = {"conv1d": 3, "conv2d": 4, "conv3d": 5}


@dataclass
class Failed:
    """The innermost call of torch that raised, and the arguments of forward that each tensor was made from."""

    given: Values
    error: BaseException | None = None
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    made: dict[int, frozenset[str]] = field(default_factory=dict)
    kept: list[Tensor] = field(default_factory=list)
    """Every tensor of the run, so that no two have one id; on meta they hold nothing."""

    def origins(self, value: Any) -> frozenset[str]:
        """The arguments of forward that a tensor was made from."""
        return self.made.get(id(value), frozenset())

    def settle(self, raised: BaseException | None) -> None:
        """Forget all tensors but those that the failure speaks of: many failures wait at a time."""
        spot = _place(raised) if raised is not None else None
        seen = spot[0].f_locals.values() if spot is not None else ()
        self.kept = list(_tensors([*self.given.values(), *self.args, *self.kwargs.values(), *seen]))
        self.made = {id(t): self.made[id(t)] for t in self.kept if id(t) in self.made}

    def put(self, value: Any, origins: frozenset[str]) -> None:
        """Remember what a value was made from."""
        if isinstance(value, Tensor):
            self.made[id(value)] = origins
            self.kept.append(value)
        elif isinstance(value, tuple | list):
            for part in value:
                self.put(part, origins)
        elif isinstance(value, dict):
            for part in value.values():
                self.put(part, origins)


class Watch(TorchFunctionMode):
    """Follows arguments through the calls of a forward."""

    def __init__(self, found: Failed) -> None:
        super().__init__()
        self.found = found
        for name, value in found.given.items():
            found.put(value, frozenset([name]))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            if self.found.error is not error:
                self.found.error, self.found.name, self.found.args, self.found.kwargs = error, getattr(func, "__name__", ""), args, kwargs
            raise
        if isinstance(result, Tensor | tuple | list):
            self.found.put(result, frozenset().union(*(self.found.origins(v) for v in _tensors([*args, *kwargs.values()]))))
        return result


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def mend(
    twin: nn.Module, look: Lookup, starts: list[Values], fixed: set[str], more: Callable[[str, Values], list[Any]], failed: list[Far] | None = None
) -> tuple[Values | None, int]:
    """The first choice with which the forward of `twin` runs, mended from one of `starts`, and what was spent; `fixed` arguments stay.

    `more(name, values)`: first values of an argument that turned out to be needed. `failed` is filled with the furthest choice from each start."""
    spent = 0
    seen: set[Any] = set()
    for start in starts:
        found, cost, furthest = _from(start, twin, look, fixed, more, seen, ALL - spent)
        spent += cost
        if found is not None:
            return found, spent
        if failed is not None:
            failed.append(furthest)
    return None, spent


def _from(
    start: Values, twin: nn.Module, look: Lookup, fixed: set[str], more: Callable[[str, Values], list[Any]], seen: set[Any], budget: int
) -> tuple[Values | None, int, Far]:
    """The search from one start. `seen`: choices that were tried."""
    waiting: list[tuple[tuple[int, ...], int, int, Iterator[Values]]] = []
    order = itertools.count()
    spent = since = 0
    furthest: Far = (), False, {}
    for number in itertools.count():
        if number == 0:
            nearby = iter([start])
        elif waiting:
            _, _, _, nearby = heapq.heappop(waiting)
        else:
            break
        for choice in nearby:
            key = tuple((n, _form(v)) for n, v in choice.items())
            if key in seen or any(v.numel() > (LARGEST if v.dtype.is_floating_point else LONGEST) for v in _tensors(choice.values())):
                continue
            seen.add(key)
            if spent >= min(budget, since + TRIALS):
                return None, spent, furthest
            spent += 1
            found = Failed(choice)
            with Watch(found):
                result = outcome(twin, (), choice, tracing=False)
            if result.error is None:
                found = Failed(choice)
                with Watch(found):
                    result = outcome(twin, (), choice)
                if result.error is None:
                    return choice, spent, furthest
                result = replace(result, error=result.raised)
            further = (result.reached, not result.missing) > furthest[:2]
            spent, since = spent + (TRACED if result.traced and not further else 0), spent if further else since
            if result.error is not None:
                furthest = (result.reached, not result.missing, choice) if further else furthest
                found.settle(result.error)
                nearest = _nearby(found, result, choice, look, fixed, more)
                heapq.heappush(waiting, (tuple(-line for line in result.reached), spent, next(order), nearest))
            if further and result.traced:  # each costs much: what lies beside this one comes later
                heapq.heappush(waiting, (tuple(-line for line in result.reached), spent + 1, next(order), nearby))
                break
    return None, spent, furthest


def _nearby(
    found: Failed, result: Outcome, values: Values, look: Lookup, fixed: set[str], more: Callable[[str, Values], list[Any]]
) -> Iterator[Values]:
    """Choices that mend a failing one."""
    for name, value in itertools.islice(_mended(found, result, values, look, fixed, more), FOLLOWED):
        yield from ({**values, **change} for change in _together(found, values, name, value, fixed))
        yield {**values, name: value}


def _together(found: Failed, values: Values, name: str, value: Any, fixed: set[str]) -> Iterator[Values]:
    """The same change of one length in all arguments of that length that the refused tensor was made from: what is added to tokens goes with them."""
    old = values.get(name)
    if not isinstance(old, Tensor) or not isinstance(value, Tensor) or old.dim() != value.dim():
        return
    axes = [axis for axis in range(1, old.dim()) if old.shape[axis] != value.shape[axis]]
    refused = next(_tensors([*found.args, *found.kwargs.values()]), None)
    if len(axes) != 1 or axes[0] == old.dim() - 1 or refused is None:
        return
    axis, alike = axes[0], [n for n in _sources(found, values, refused) if n != name and n not in fixed and values[n].dim() > axes[0]]
    more = {n: resized(values[n], axis, value.shape[axis]) for n in alike if values[n].shape[axis] == old.shape[axis]}
    if more:
        yield {name: value, **more}


def _form(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, dict):
        return tuple((k, _form(v)) for k, v in value.items())
    return tuple(map(_form, value)) if isinstance(value, tuple | list) else repr(value)


def _mended(
    found: Failed, result: Outcome, values: Values, look: Lookup, fixed: set[str], more: Callable[[str, Values], list[Any]]
) -> Iterator[tuple[str, Any]]:
    """Arguments with other values, likely ones first."""
    for name in (*result.missing, *result.inner):
        if values.get(name) is None and name not in fixed:
            yield from ((name, value) for value in more(name, values) if value is not None)
    proposals: Iterator[tuple[str, Any]] = iter(())
    if found.error is not None and found.error is result.error:
        proposals = itertools.chain(_by_call(found, values, look), _by_statement(found, result, values, look))
    elif result.error is not None:
        proposals = itertools.chain(_by_pattern(found, result.error, values, look), _by_statement(found, result, values, look))
    if isinstance(result.error, TypeError) and "positional argument" in str(result.error):  # one that a part of the model does not take
        proposals = itertools.chain(proposals, ((n, None) for n, p in look.parameters.items() if n in values and p.default is None))
    done: set[Any] = set()
    for name, value in proposals:
        key = name, _form(value)
        if name not in fixed and key not in done and _form(value) != _form(values[name]):
            done.add(key)
            yield name, value


# -- what a call of torch refuses --------------------------------------------------------------------------------------------------------


def _by_call(found: Failed, values: Values, look: Lookup) -> Iterator[tuple[str, Any]]:
    operands = list(_tensors([*found.args, *found.kwargs.values()]))
    if not operands:
        return
    x = operands[0]
    if not x.dtype.is_floating_point and _FLOATS.search(str(found.error)) is not None:  # measured numbers, no ids
        yield from ((n, look.floats(*values[n].shape)) for n in _sources(found, values, x) if not values[n].dtype.is_floating_point)
    if _SHORT.search(str(found.error)) is not None:
        yield from ((n, resized(values[n], -1, FRAMES * values[n].shape[-1])) for n in _sources(found, values, x) if values[n].dim() > 1)
    if (wanted := last_axis(found.name, found.args, found.kwargs)) is not None:
        yield from _last(found, values, x, wanted, look)
    elif found.name == "multi_head_attention_forward" and len(found.args) > 3:
        mask = found.kwargs.get("key_padding_mask")
        if isinstance(mask, Tensor) and mask.dim() and "padded" in str(found.error):  # so many keys: the second operand's first axis
            yield from ((n, v) for n in _sources(found, values, mask) for v in lengthened(values[n], mask.shape[-1], operands[1].shape[0]))
        yield from _last(found, values, x, int(found.args[3]), look)
    elif found.name in ("matmul", "__matmul__", "addmm", "mm", "spmm", "bmm") and len(operands) > 1:
        a, b = operands[-2:]
        if a.dim() and b.dim() > 1 and not found.origins(b):
            yield from _last(found, values, a, int(b.shape[-2]), look)
        elif a.dim() > 1 and b.dim() > 1:
            yield from _multiplied(found, values, a, b)
    elif found.name == "embedding":
        shapes = [(n, x.shape if x.numel() else values[n].shape) for n in _sources(found, values, x)]  # a cut may leave no rows
        for name, shape in [(n, s[:-1]) for n, s in shapes if x.dtype.is_floating_point and len(s) > 2] + shapes:  # a guess of features
            yield name, look.ids(max(1, shape.numel() // max(1, shape[0])), batch=shape[0]).reshape(shape) if len(shape) else torch.tensor(1)
    elif found.name == "where" and "to be bool" in str(found.error):  # which samples have no label
        yield from ((n, torch.zeros(values[n].shape, dtype=torch.bool)) for n in _sources(found, values, x))
        yield from ((n, torch.zeros(values[n].shape[:1], dtype=torch.bool)) for n in _sources(found, values, x))
    elif found.name == "__getitem__" and "used as indices must" in str(found.error):
        longest = max((v.shape[-1] for v in values.values() if isinstance(v, Tensor) and v.dim() > 1 and not v.dtype.is_floating_point), default=1)
        for name in [n for one in operands[1:] if one.dtype.is_floating_point for n in _sources(found, values, one)]:
            yield name, torch.arange(longest)  # places in a table, `self.mask[places]`
    elif found.name == "cross_entropy" and len(operands) > 1 and x.dim() == 2:
        for name in _sources(found, values, operands[1]):  # a part of the labels, where they come in pieces
            count = values[name].numel() * len(x) // max(1, operands[1].numel())
            for n in dict.fromkeys([len(x), count]):
                yield from ((name, other.clone()) for other in _tensors(values.values()) if not other.dtype.is_floating_point and other.numel() == n)
                yield name, look.ids(n, batch=1)[0]
    elif found.name in ("reshape", "view"):
        yield from _pieces(found, values, x, look)
    elif found.name in _CONVOLUTIONS:
        yield from _channels(found, values, x, operands[1], look)
    elif found.name == "einsum":
        for x, have, wanted in summed(found.args[0], operands):
            yield from ((name, v) for name in _sources(found, values, x) for v in lengthened(values[name], have, wanted))
    elif found.name in ("expand", "repeat", "permute") and (extra := x.dim() - len(_listed(found.args[1:]))) > 0:
        yield from ((name, v) for name in _sources(found, values, x) for v in fewer(values[name], extra))
    elif found.name == "_pack_padded_sequence" and len(operands) > 1:  # lengths of all samples, on the CPU
        count, batch = x.shape[: 2][::-1] if found.args[2] else x.shape[:2]
        yield from ((name, torch.full((batch,), count)) for name in _sources(found, values, operands[1]))
    elif found.name == "pad" or "padding (" in str(found.error):
        yield from _padded(found, values, x)
    elif found.name in ("cat", "stack", "concat"):
        dim = found.kwargs.get("dim", found.args[1] if len(found.args) > 1 else 0)
        for a, b in sorted(itertools.pairwise(operands), key=lambda pair: pair[0].dim() == pair[1].dim()):
            yield from _met(found, values, a, b, a.dim() - dim % a.dim() if found.name != "stack" and type(dim) is int and a.dim() else 0)
    else:
        if (asked := _LONG.search(str(found.error))) is not None:  # `cross`: vectors of three
            yield from _last(found, values, x, int(asked[1]), look)
        yield from _single(values) if found.name == "__setitem__" else ()  # a cache of one sequence
        for a, b in itertools.combinations(operands[:4], 2):
            yield from _met(found, values, a, b)


def _listed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes, which are given one by one or together."""
    return tuple(args[0]) if args and isinstance(args[0], tuple | list) else args


def _sources(found: Failed, values: Values, x: Tensor) -> list[str]:
    """The arguments that a tensor was made from, tensors alone, those of its own form first."""
    names = [n for n in values if n in found.origins(x) and isinstance(values[n], Tensor)]
    return sorted(names, key=lambda n: (tuple(values[n].shape) != tuple(x.shape), not _shares(values[n], x)))


def _shares(value: Tensor, x: Tensor) -> bool:
    return value.dim() > 0 and x.dim() > 0 and value.shape[-1] == x.shape[-1]


def _last(found: Failed, values: Values, x: Tensor, wanted: int, look: Lookup) -> Iterator[tuple[str, Any]]:
    """The last axis of `x` has to be `wanted`."""
    for name in _sources(found, values, x):
        value = values[name]
        yield from ((name, v) for v in beside(value, x.shape[-1] - wanted) if len(found.origins(x)) > 1)
        if not value.dtype.is_floating_point:
            yield name, look.floats(*(x.shape[:-1] if x.dim() > 1 else (BATCH,)), wanted)
            yield name, look.floats(*value.shape, wanted)
        elif value.dim() and value.shape[-1] == x.shape[-1]:
            yield name, look.floats(*value.shape[:-1], wanted)
        elif any(size == x.shape[-1] != wanted for size in value.shape[1:-1]):  # a map over time: `linear(x.transpose(1, 2))`
            yield from ((name, resized(value, n, wanted)) for n, size in enumerate(value.shape) if 0 < n < value.dim() - 1 and size == x.shape[-1])
        elif value.dim() and value.shape[-1] < x.shape[-1] and len(found.origins(x)) > 1:  # beside features of another
            share, rest = value.shape[-1] * wanted, value.shape[-1] + wanted - x.shape[-1]
            if share % x.shape[-1] == 0:
                yield name, look.floats(*value.shape[:-1], share // x.shape[-1])
            if rest > 0:
                yield name, look.floats(*value.shape[:-1], rest)
        else:
            for axis, size in enumerate(value.shape):
                if axis and wanted * size % x.shape[-1] == 0 and wanted * size >= x.shape[-1]:  # channels that patches hold
                    yield name, resized(value, axis, wanted * size // x.shape[-1])
        if value.dtype.is_floating_point:
            yield name, look.floats(*value.shape, wanted)
            yield name, look.floats(BATCH, wanted)
            yield name, look.floats(BATCH, look.targets, wanted)


def _pieces(found: Failed, values: Values, x: Tensor, look: Lookup) -> Iterator[tuple[str, Any]]:
    """What is cut into pieces, `frames.reshape(-1, 3, 64, 64)`, holds whole ones in its last axis."""
    sizes = [n for part in found.args[1:] for n in (part if isinstance(part, tuple | list) else [part])]
    if -1 not in sizes or not all(type(n) is int for n in sizes):
        yield from ((name, whole) for whole in _gridded(sizes, look) for name in _sources(found, values, x) if values[name].dim() == whole.dim())
        yield from written(values, _sources(found, values, x), x.numel(), sizes)
        return
    wanted = math.prod(sizes[sizes.index(-1) + 1 :])
    for name in _sources(found, values, x):
        value = values[name]
        share = x.numel() // max(value.numel(), 1)  # features that were made of each number
        if share > 1 and x.numel() == share * value.numel() and wanted % share == 0 and value.dtype.is_floating_point:
            yield name, look.floats(BATCH, wanted // share)
        if wanted > 1 and value.dim() and value.shape[-1] != wanted:
            yield name, look.floats(*(value.shape[:-1] if value.dtype.is_floating_point and value.dim() > 1 else value.shape), wanted)


def _gridded(sizes: list[Any], look: Lookup) -> Iterator[Tensor]:
    """The image or video whose patches fill a written grid, `tokens.reshape(b, c, 8, 56, 56)`: the steps of the first convolution are a patch."""
    conv = look.first(nn.Conv2d, nn.Conv3d)
    if conv is not None and len(sizes) > len(conv.stride) and all(type(n) is int for n in sizes):
        grid = sizes[-len(conv.stride) :]
        yield look.floats(BATCH, conv.in_channels, *(n * step for n, step in zip(grid, conv.stride, strict=True)))


def _channels(found: Failed, values: Values, x: Tensor, weight: Tensor, look: Lookup) -> Iterator[tuple[str, Any]]:
    """A convolution takes so many channels, and so many axes behind them."""
    groups = found.kwargs.get("groups", found.args[6] if len(found.args) > 6 else 1)
    wanted, axes = weight.shape[1] * groups, _CONVOLUTIONS[found.name]
    for name in _sources(found, values, x):
        value = values[name]
        for axis, size in enumerate(value.shape):
            if axis and x.dim() > 1 and value.dtype.is_floating_point:
                each, left = divmod(x.shape[1], size or 1)  # each variate of a series has as many channels
                if each and not left and wanted % each == 0:
                    yield name, resized(value, axis, wanted // each)
                elif wanted > x.shape[1] - size > 0 and "cat" not in found.name:  # beside channels of another
                    yield name, resized(value, axis, size + wanted - x.shape[1])
        maps = itertools.chain(maps_of(axes, wanted, look), maps_of(axes + 1, wanted, look))
        yield from ((name, v) for v in (maps if value.dtype.is_floating_point else look.coded(maps)))


def _padded(found: Failed, values: Values, x: Tensor) -> Iterator[tuple[str, Any]]:
    """What is mirrored at its ends has one axis of time and is longer than what is mirrored of it: a sound that is cut into frames."""
    wanted = max(map(int, re.findall(r"\d+", str(found.error).partition("padding (")[2].partition(")")[0])), default=0)
    for name in _sources(found, values, x):
        value = values[name]
        if wanted and value.dim():
            yield name, resized(value, value.dim() - 1, FRAMES * wanted)
        if value.dim() > 2:
            yield name, value[:, 0]


def _met(found: Failed, values: Values, a: Tensor, b: Tensor, free: int = 0) -> Iterator[tuple[str, Any]]:
    """Two tensors whose axes do not meet, but for the one that is `free`, from the back: an argument of one of them is given the length of the
    other."""
    if a.dim() == b.dim() == 3 and a.shape == b.mT.shape:  # a tensor beside its own transpose
        for name in [n for n in _sources(found, values, a) if n in found.origins(b)]:
            yield from ((name, v) for v in _pairs(values[name], a, a.unsqueeze(1)))
    inplace = found.name.startswith("__i") or re.fullmatch(r"[a-z]+_", found.name) is not None  # where a length of 1 does not spread
    for one, other in ((a, b), (b, a)):
        for back in range(1, min(one.dim(), other.dim()) + 1):
            have, wanted = one.shape[-back], other.shape[-back]
            if have == wanted or 0 in (have, wanted) or back == free or (1 in (have, wanted) and not (inplace and one is a and have == 1)):
                continue
            for name in _sources(found, values, one):
                if back == one.dim() and wanted == BATCH and (few := BATCH * values[name].numel() // have) and values[name].dtype.is_floating_point:
                    yield name, torch.empty(BATCH, few // BATCH, dtype=values[name].dtype, device="meta")  # too many samples were made of its numbers
                if back == one.dim() and wanted % BATCH == 0:  # frames that were laid along the batch, `b f c h w -> (b f) c h w`
                    yield from ((name, resized(values[name], axis, wanted // BATCH)) for axis in _along_batch(values[name], have))
                if back == one.dim() and have == BATCH * wanted and values[name].dim() > 1:  # one for all samples, which it is repeated for
                    yield name, values[name][:1]
                yield from ((name, v) for v in lengthened(values[name], have, wanted))
    if a.dim() != b.dim():
        if a.numel() == b.numel():  # the batch was laid along the tokens and did not come back, which fits one sequence alone
            yield from _single(values)
        low, high = (a, b) if a.dim() < b.dim() else (b, a)
        looked_up = [n for n in _sources(found, values, high) if not values[n].dtype.is_floating_point and values[n].dim() > 1]
        yield from ((n, values[n][:, 0]) for n in looked_up if low.dim() + 1 == high.dim())  # one row of a table for each sample
        for name in _sources(found, values, low):
            if values[name].shape == low.shape:
                kind = values[name].dtype if values[name].dtype.is_floating_point else high.dtype
                yield name, torch.empty(high.shape, dtype=kind, device="meta")
                if low.dim() + 1 == high.dim():
                    yield name, torch.empty([*low.shape, high.shape[-1]], dtype=kind, device="meta")
            yield from ((name, v) for v in _pairs(values[name], low, high))


def _along_batch(value: Tensor, length: int) -> list[int]:
    """The axes of an argument that make a length together with its batch."""
    return [axis for axis in range(1, value.dim() - 1) if value.dim() > 2 and value.shape[0] == BATCH and BATCH * value.shape[axis] == length]


def _multiplied(found: Failed, values: Values, a: Tensor, b: Tensor) -> Iterator[tuple[str, Any]]:
    """Two tensors made of arguments that are multiplied, `adjacency @ x`: the rows of one are as long as the other has rows; of two axes alone the
    first one stands for itself, no batch."""
    for name in _sources(found, values, a):
        value = values[name]
        if value.dim() == a.dim() and value.shape[-1] == a.shape[-1]:
            longer = resized(value, value.dim() - 1, b.shape[-2])
            yield name, resized(longer, 0, b.shape[-2]) if value.dim() == 2 else longer
            yield name, longer
    for one, other in ((a, b), (b, a)):
        alike = [n for n in _sources(found, values, one) if values[n].dim() == one.dim()]
        yield from ((n, values[n][0]) for n in alike if one.dim() > other.dim())
    yield from _met(found, values, a, b.mT)


def _pairs(value: Tensor, low: Tensor, high: Tensor) -> Iterator[Tensor]:
    """Features of pairs, [batch, length, length, width], in the place of those of single tokens."""
    if value.dtype.is_floating_point and value.dim() + 1 == high.dim() == 4 and value.shape[:-1] == low.shape[:-1]:
        yield torch.empty([*value.shape[:2], *value.shape[1:]], dtype=value.dtype, device="meta")


# -- what a statement of the user refuses ------------------------------------------------------------------------------------------------


def _by_statement(found: Failed, result: Outcome, values: Values, look: Lookup) -> Iterator[tuple[str, Any]]:
    """Numbers of axes, from the statement that failed: the sizes that it unpacks, the axis that it asks for, the number that it insists on."""
    if result.error is None:
        return
    yield from asked_by_torch(values, result.error)
    if (spot := _place(result.error)) is None:
        return
    frame, line = spot
    said = statement(frame.f_code.co_filename, line)
    if said is None:
        return
    if isinstance(said, ast.Raise):
        said = condition(frame.f_code.co_filename, line) or said
    yield from divisible(values, said, {**frame.f_globals, **frame.f_locals})
    if isinstance(result.error, KeyError):
        yield from _known_axes(found, values, said, frame, look)
        return
    text = str(result.error)
    if any(word in text for word in _NUMBER):
        asked = [frame.f_locals.get(n.id) for n in ast.walk(said) if isinstance(n, ast.Name)]
        numbers = (0, 1) if isinstance(said, ast.If) else (1, 0)  # a switch is off
        yield from ((name, number) for name, value in values.items() if any(v is value for v in asked) for number in numbers)
        return
    wanted: int | None = None
    if isinstance(said, ast.Assert) or (isinstance(said, ast.If) and isinstance(result.error, ValueError | RuntimeError | AssertionError)):
        wanted = next((n.value for n in ast.walk(said.test) if isinstance(n, ast.Constant) and type(n.value) is int and 0 < n.value < 6), None)
        named = re.search(r"\.ndim|\.dim\(\)|len\(\w+\.(shape|size\(\))\)", ast.unparse(said.test)) is not None
        if not named:
            yield from _single(values)
            yield from equal(values, said.test, {**frame.f_globals, **frame.f_locals})
            return
    elif (unpacked := re.search(r"expected (\d)(?:, got (\d))?\)", text)) is not None:
        wanted = int(unpacked[1])
    deeper = isinstance(result.error, IndexError) or "Dimension out of range" in text or "Number of dimensions" in text
    if wanted is None and not deeper:
        return
    tensors = {n.id: frame.f_locals.get(n.id) for n in ast.walk(said) if isinstance(n, ast.Name)}
    for value in sorted(_tensors(tensors.values()), key=Tensor.dim):
        if value.dim() or wanted is not None:
            for name in _sources(found, values, value):
                count = wanted if wanted is not None else values[name].dim() + 1
                yield from ((name, v) for v in _axes(values[name], count, look))


def _known_axes(found: Failed, values: Values, said: ast.stmt, frame: FrameType, look: Lookup) -> Iterator[tuple[str, Any]]:
    """Numbers of axes that a table knows, `self.recipes[x.ndim]`, as einops' layers keep them."""
    for node in ast.walk(said):
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Attribute) or node.slice.attr != "ndim":
            continue
        table, tensor = (evaluated(part, {**frame.f_globals, **frame.f_locals}) for part in (node.value, node.slice.value))
        if not isinstance(table, dict) or not isinstance(tensor, Tensor):
            continue
        for count in sorted(key for key in table if type(key) is int):
            for name in _sources(found, values, tensor):
                yield from ((name, v) for v in _axes(values[name], values[name].dim() + count - tensor.dim(), look))


_NUMBER = ("Boolean value of Tensor with more than one value", "only integer tensors of a single element")
"""What torch says where a tensor stands for a number: in a condition (`assert step > 0`), or as a place (`self.heads[step]`)."""
_AXES = re.compile(r"expected (\d)\+? dims\. Received (\d)-dim")
_CHUNKS = re.compile(r"can't divide axis of length (\d+) in chunks of (\d+)|Shape mismatch, (\d+) != (\d+)")
"""What einops says of a tensor that its pattern does not fit (einops/einops.py, `_apply_recipe`)."""


def _by_pattern(found: Failed, error: BaseException, values: Values, look: Lookup) -> Iterator[tuple[str, Any]]:
    """A written pattern wants more axes, or a length that is a multiple."""
    if (chunks := _CHUNKS.search(text := str(error))) is not None:
        length, multiple = (int(n) for n in chunks.groups() if n is not None)
        for name, value in values.items():
            sides = [axis for axis, size in enumerate(value.shape) if size == length and axis] if isinstance(value, Tensor) else []
            target = multiple if chunks[3] else multiple * max(1, -(-length // multiple))
            if len(sides) > 1:  # both sides of an image
                yield name, resized(resized(value, sides[-1], target), sides[-2], target)
            yield from ((name, resized(value, axis, target)) for axis in sides)
    if (axes := _AXES.search(text)) is None:
        return
    for frame, _ in reversed(list(frames(error))):
        names = [n for v in _tensors(frame.f_locals.values()) for n in _sources(found, values, v)]
        more = int(axes[1]) - int(axes[2])
        yield from ((name, v) for name in dict.fromkeys(names) for v in _axes(values[name], values[name].dim() + more, look))
        if names:
            return


def _place(error: BaseException) -> tuple[FrameType, int] | None:
    """The innermost call of the user's code that an exception passed, and its line."""
    own = [f for f in frames(error) if not f[0].f_code.co_filename.startswith((TORCH, HERE))]
    return own[-1] if own else None


def _single(values: Values) -> Iterator[tuple[str, Any]]:
    """One sample in place of a batch, for each argument."""
    for name, value in values.items():
        if isinstance(value, Tensor) and value.dim() > 1 and value.shape[0] == BATCH:
            yield name, value[:1]


def _axes(value: Tensor, count: int, look: Lookup) -> Iterator[Tensor]:
    """The argument with so many axes."""
    if not value.dtype.is_floating_point:
        if count == 1 and value.dim() > 1:
            yield value.reshape(-1)
        elif count == 2 and value.dim() == 1:
            yield value.repeat(BATCH, 1)
        elif count < value.dim():
            yield value.reshape(*value.shape[: count - 1], -1)
        for k in (3, 4, 2):
            if count == value.dim() + 1:
                yield look.floats(*value.shape, k)
                yield value.unsqueeze(-1).repeat(*[1] * value.dim(), k)
    if count > 5 and value.dim() > 3:  # an image of its own size
        yield look.floats(value.shape[0], *[1] * (count - 4), *value.shape[-3:])
    channels = [value.shape[1]] if value.dim() > 3 else list(dict.fromkeys([*value.shape[-1:], *look.widths[:3]]))
    if value.dim() in (1, 2, 3) and count <= 3:
        for width in channels:
            yield look.floats(*((BATCH, look.targets, width)[3 - count :] if count < 3 else (BATCH, look.targets, width)))
            if count == 2:
                yield look.floats(BATCH, width)
    stated = [c for c in (look.get("in_channels"), *channels) if isinstance(c, int)]
    for width in dict.fromkeys(stated):
        yield from maps_of(count, width, look)


__all__ = ["Failed", "Far", "Watch", "mend"]
