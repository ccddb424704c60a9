"""A model built and run once from a description of the call that makes it: a program of its own, of the standard library and torch alone.

Its text is what an interpreter runs that never imported anything of ours (`screen.child.outside`); `values` has from here how weights are drawn, so
that both sides draw the same.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import datetime
import importlib
import importlib.util
import json
import math
import os
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

ENTRIES = 256
"""Of an output, that are compared."""
MOST = 16 << 20
"""Bytes of all buffers of a model, together."""
SEED = "PYTHONHASHSEED"
"""The variable by which this interpreter has the hashes of words that it has, which the user's own environment may not say."""
TIMES, SECONDS = 40, 0.5
"""Calls after the first one, and seconds for them."""


# -- values -----------------------------------------------------------------------------------------------------------------------------------


def weight(name: str, shape: Sequence[int], seed: int) -> Tensor:
    """A weight by its name: maps N(0, 1/inputs), of convolutions too, gains and biases uniform in [0.5, 1.5], so that none hides another (all start
    at 1 or 0)."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode("utf-8", "replace")) + seed)
    if len(shape) < 2:
        return torch.rand(tuple(shape), generator=generator) + 0.5
    return torch.randn(tuple(shape), generator=generator) / math.sqrt(max(math.prod(shape[1:]), 1))


def packed(value: Tensor) -> tuple[str, tuple[int, ...], str]:
    """(dtype, shape, bytes as text)"""
    raw = value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return str(value.dtype).removeprefix("torch."), tuple(value.shape), base64.b64encode(zlib.compress(raw, 1)).decode("ascii")


def unpacked(dtype: str, shape: Sequence[int], data: str) -> Tensor:
    """What `packed` made. Raises `ValueError` for anything else."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or min(shape, default=0) < 0:
        raise ValueError(f"a value in `{dtype}`")
    size = math.prod(shape) * kind.itemsize
    if size > MOST:
        raise ValueError(f"a value of {size:,} bytes")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(data), max(size, 1))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes for {size}")
    return torch.frombuffer(bytearray(raw), dtype=kind).reshape(tuple(shape)) if size else torch.empty(tuple(shape), dtype=kind)


def sampled(out: Tensor) -> tuple[tuple[int, ...], float | None, tuple[float, ...]]:
    """(shape, largest entry, entries at places that follow from the size); no entries where one of all is no finite number."""
    flat = out.detach().flatten()
    top = float(flat.abs().amax()) if flat.numel() else 0.0
    if not math.isfinite(top):
        return tuple(out.shape), None, ()
    places = torch.randint(max(flat.numel(), 1), (ENTRIES,), generator=torch.Generator().manual_seed(5)) if flat.numel() else torch.zeros(0).long()
    return tuple(out.shape), top, tuple(flat[places].double().tolist())


def reached(model: nn.Module, path: str) -> Any:
    """`model.a.0.b`, through lists, dicts and plain attributes."""
    value: Any = model
    for part in path.split(".") if path else []:
        if isinstance(value, list | tuple):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value.get(part, value.get(int(part)) if part.isdigit() else None)
        else:
            value = getattr(value, part)
    return value


def filled(model: Callable[[str], Any], names: Sequence[str], seed: int) -> tuple[tuple[str, str], ...]:
    """Draw weights by their names; those that are drawn by another one. `model`: a name to what stands there. Raises `ValueError`."""
    keys: dict[int, str] = {}
    places: dict[int, int] = {}
    other = []
    for name in names:
        tensor = model(name)
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.float32:
            raise ValueError(f"`{name}` is no weight in float32")
        if id(tensor) in keys:
            other.append((name, keys[id(tensor)]))
            continue
        keys[id(tensor)] = name
        if places.setdefault(int(tensor.untyped_storage()._cdata), id(tensor)) != id(tensor):
            raise ValueError(f"`{name}` shares its memory with another weight")
        with torch.no_grad():
            tensor.copy_(weight(name, tensor.shape, seed))
    return tuple(other)


# -- the description ----------------------------------------------------------------------------------------------------------------------------


class Given(dict[str, Any]):
    """A configuration that answers `cfg.x`, `cfg["x"]` and `cfg.get("x")`."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def meant(said: Any, module: Any) -> Any:
    """A value from its description: what is no list is itself, a list is [kind, …]."""
    if not isinstance(said, list):
        return said
    kind, *rest = said
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](meant(part, module) for part in rest)
    if kind in ("dict", "given"):
        entries = [(meant(key, module), meant(value, module)) for key, value in rest]
        return Given(entries) if kind == "given" else dict(entries)
    if kind == "tensor":
        return unpacked(*rest)
    if kind == "torch":
        return getattr(torch, rest[0])
    if kind == "named":
        found: Any = importlib.import_module(rest[0]) if rest[0] else module
        for part in rest[1].split("."):
            found = getattr(found, part)
        return found
    if kind == "called":
        return meant(rest[0], module)(**{key: meant(value, module) for key, value in rest[1]})
    raise ValueError(f"a value of the kind {kind!r}")


def imported(file: str | None, name: str) -> Any:
    """The module of a file under its name, or of a dotted name."""
    if file is None:
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    sys.argv = [file]
    folder, base = os.path.split(file)
    parts = [base.removesuffix(".py")]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder).isidentifier():
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    sys.path.insert(0, folder)
    sys.path += [os.getcwd(), os.path.dirname(file)]
    if len(parts) > 1 and all(p.isidentifier() for p in parts):
        module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        if os.path.realpath(module.__file__ or "") == os.path.realpath(file):
            return module
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seeded(seed: int) -> None:
    """Random numbers from a seed."""
    torch.manual_seed(seed)
    random.seed(seed)
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed(seed)


def made(order: Mapping[str, Any], module: Any, seed: int | None) -> nn.Module:
    """The model, its floats in float32. `seed`: None to go on with the random numbers that there are."""
    import copy

    entry = meant(["named", "", order["entry"]], module)
    if seed is not None:
        seeded(seed)
    model = copy.deepcopy(entry) if order["kwargs"] is None else entry(**{key: meant(value, module) for key, value in order["kwargs"]})
    found = model.get_submodule(order["part"]) if order["part"] else model
    if not isinstance(found, nn.Module):
        raise ValueError(f"`{order['entry']}` gave a `{type(found).__name__}`")
    for tensor in [*found.parameters(), *found.buffers()]:
        if tensor.is_floating_point():
            tensor.data = tensor.data.to("cpu", torch.float32)
    return found.eval()


# -- the clock -----------------------------------------------------------------------------------------------------------------------------------


def clock() -> Callable[[], None]:
    """Take the clock of this interpreter over; what moves it on by ten years."""
    ahead = [0]

    def seconds(real: Callable[[], float]) -> Callable[[], float]:
        return lambda: real() + ahead[0]

    def nanoseconds(real: Callable[[], int]) -> Callable[[], int]:
        return lambda: real() + 1_000_000_000 * ahead[0]

    def of_now(real: Callable[[float], Any], now: Callable[[], float]) -> Callable[..., Any]:
        return lambda given=None: real(now() if given is None else given)

    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, seconds(getattr(time, name)))
        setattr(time, f"{name}_ns", nanoseconds(getattr(time, f"{name}_ns")))
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, of_now(getattr(time, name), time.time))

    class Moment(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    class Day(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return datetime.date.fromtimestamp(time.time())

    datetime.datetime, datetime.date = Moment, Day  # type: ignore[misc]

    def move() -> None:
        ahead[0] += 3650 * 24 * 3600

    return move


# -- runs ---------------------------------------------------------------------------------------------------------------------------------------


class Blocks:
    """One model, or several copies of a block one behind the other."""

    def __init__(self, members: list[nn.Module], fed: Sequence[Any], copies: str) -> None:
        self.members, self.fed, self.copies = members, list(fed), copies

    def named(self, path: str) -> Any:
        """What stands under a name; that of another copy than the first says which one."""
        number, inside = 0, path
        if path.startswith(f"{self.copies}."):
            first, _, inside = path.removeprefix(f"{self.copies}.").partition(".")
            number = int(first)
        return reached(self.members[number], inside)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output: Any = None
        for place, block in enumerate(self.members):
            if place:
                key = self.fed[0]
                state = kwargs.get(key) if isinstance(key, str) else args[key] if key < len(args) else None
                new = dict(zip(self.fed, returned(output, state), strict=False))
                args = tuple(new.get(i, value) for i, value in enumerate(args))
                kwargs = {**kwargs, **{key: v for key, v in new.items() if isinstance(key, str)}}
            output = block(*args, **kwargs)
        return output


def returned(output: Any, state: Any) -> list[Any]:
    """What a block returns, in order; what comes back in the form of a state that is no tensor and holds some is one thing."""
    if not isinstance(state, Tensor) and parts_of(state):
        if is_alike(state, output):
            return [output]
        if isinstance(output, tuple | list) and output and is_alike(state, output[0]):
            return list(output)
    return leading(output)


def parts_of(value: Any) -> dict[Any, Any] | None:
    """What stands in a dictionary, a sequence or a dataclass, by its name or place; None where a value is none of these."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    names = getattr(value, "__dataclass_fields__", None)
    return None if names is None or isinstance(value, type) else {name: getattr(value, name, None) for name in names}


def is_alike(one: Any, other: Any) -> bool:
    """Whether a value has the form of another one, with tensors of the same shapes."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        both = isinstance(one, Tensor) and isinstance(other, Tensor)
        return both and one.shape == other.shape and one.is_floating_point() == other.is_floating_point()
    mine, theirs = parts_of(one), parts_of(other)
    if mine is None or theirs is None:
        return mine is theirs
    named = isinstance(one, Mapping) == isinstance(other, Mapping)
    return named and mine.keys() == theirs.keys() and all(is_alike(part, theirs[key]) for key, part in mine.items())


def leading(output: Any) -> list[Any]:
    """What a block returns, in order, whatever holds it."""
    if isinstance(output, Tensor):
        return [output]
    items = list((parts_of(output) or {}).values())
    return items if not items or isinstance(items[0], Tensor) else leading(items[0])


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in what a model returns, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors(getattr(value, name, None))


def floats(output: Any) -> Tensor:
    """The first float tensor of what a model returns. Raises `ValueError`."""
    for one in tensors(output):
        if one.is_floating_point():
            return one
    raise ValueError("it returns no float tensor")


def without_drops(model: nn.Module) -> None:
    """Modules that leave out entries at random leave out none."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0


def often(again: Callable[[], Any]) -> list[Any]:
    """What further calls give: at most `TIMES`, one at least, and none that begins after `SECONDS`."""
    limit = time.monotonic() + SECONDS
    found = [again()]
    while len(found) < TIMES and time.monotonic() < limit:
        found.append(again())
    return found


def held(blocks: Blocks, names: Sequence[str]) -> list[tuple[str, str, tuple[int, ...], str]]:
    """Buffers by their names: dtype, shape and bytes. Raises `ValueError`."""
    found, size = list[tuple[str, str, tuple[int, ...], str]](), 0
    for name in names:
        value = blocks.named(name)
        size += value.numel() * value.element_size()
        if size > MOST:
            raise ValueError(f"more than {MOST >> 20} MiB of buffers")
        found.append((name, *packed(value)))
    return found


def ran(
    order: Mapping[str, Any], module: Any, found: dict[str, Any], move: Callable[[], None], whole: contextlib.AbstractContextManager[Any]
) -> None:
    """Fill `found` with what the model gives: once, more often, and in training, where nothing is left out at random. `move`: the clock; `whole`:
    while it is entered, functions that leave out entries leave out none."""
    seed = order["seed"]
    members = [made(order, module, seed + number if number else None) for number in range(order["count"])]
    blocks = Blocks(members, order["fed"], order["copies"])
    found["keys"] = filled(blocks.named, order["weights"], seed)
    found["buffers"] = buffers = held(blocks, order["buffers"])
    found["stage"] = "run"
    move()
    torch.backends.mha.set_fastpath_enabled(False)

    def again(back: bool = False) -> dict[str, Any]:
        seeded(seed)
        given = [meant(value, module) for value in order["args"]], {key: meant(value, module) for key, value in order["kwargs_of_forward"]}
        out = floats(blocks(tuple(given[0]), given[1]))
        if back and out.requires_grad:
            out.sum().backward()
            with torch.no_grad():
                for parameter in (p for member in members for p in member.parameters()):
                    parameter.add_(0)  # as a step of nothing would
        return dict(zip(("shape", "top", "values"), sampled(out), strict=True))

    with torch.no_grad():
        found["output"] = again()
        found["later"] = often(again)
        late: list[Any] = []
        with contextlib.suppress(Exception):  # they may be gone, or have grown
            late = held(blocks, order["buffers"])
        found["still"] = late == buffers
        if late and not found["still"]:
            found["late"], found["last"] = late, again()
    for member in members:
        without_drops(member)
        member.train()
    found["stage"] = "training"
    with torch.set_grad_enabled(bool(order["light"])), whole:
        found["training"] = [again(), again(back=True), again()]
    found["stage"] = ""


def say_of_environment(name: str, value: str | None) -> None:
    """Have the environment, and on Linux what the system shows of it, say another value of a variable that stands last in it, or nothing (None)."""
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/environ", "rb") as file:
            shown = file.read()
        with open("/proc/self/stat", "rb") as file:
            begin = int(file.read().rpartition(b")")[2].split()[47])  # where the environment begins in memory
        place = shown.index(f"{name}=".encode())
        text = b"" if value is None else f"{name}={value}".encode("utf-8", "surrogateescape")
        if begin and shown[place:].count(b"\0") == 1 and len(text) < len(shown) - place:
            ctypes.memmove(begin + place, text.ljust(len(shown) - place, b"\0"), len(shown) - place)


def main(folder: str) -> None:
    """Answer every order of a folder on the line that it names, and end."""
    with open(os.path.join(folder, "orders.json"), encoding="utf-8", errors="surrogatepass") as file:
        told = json.load(file)
    os.unlink(os.path.join(folder, "orders.json"))
    if not str(told[SEED]).isdecimal():
        say_of_environment(SEED, told[SEED])
    line, write, leave = told["line"], os.write, os._exit
    exec(told["compiled"], begin := {"__name__": "compiled", "__file__": told["file"]})
    begin["ignore_compiled"]()
    drops: dict[str, Any] = {"__name__": "dropouts"}
    exec(told["dropouts"], drops)
    sys.path[:] = told["path"]

    def send(**fields: Any) -> None:
        body = json.dumps(fields, default=str).encode("utf-8", "backslashreplace")
        view = memoryview(len(body).to_bytes(4, "big") + body)
        while view:
            view = view[write(line, view) :]

    module, move = None, clock()
    for name, order in told["orders"].items():
        found: dict[str, Any] = {"stage": "load", "reason": ""}
        try:
            seeded(order.get("seed", 0))
            module = imported(order["file"], order["module"]) if module is None else module
            move()
            ran(order, module, found, move, drops["DropoutsOff"]())
        except BaseException as error:  # whatever the code raises is what it gives
            found["reason"] = f"{type(error).__name__}: {error}"[:300]
        send(kind="outside", name=name, found=found)
    send(kind="done")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    leave(0)


if __name__ == "__main__":
    main(os.path.dirname(os.path.abspath(__file__)))
