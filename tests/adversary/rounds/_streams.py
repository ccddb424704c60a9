"""Models measured on their stream: the first block gets the input in the stream's place, and what the last one gives is looked at."""

import importlib
import os
import sys
import types

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure


def pair(x, *branches):
    """Each branch reads the sum with those before it."""
    out = []
    for f in branches:
        out.append(f(x))
        x = x + out[-1]
    return out


def listed(name, m):
    """The blocks of a model, in the list that holds them."""
    for key in ("blocks", "layers", "h", "layer"):
        if hasattr(m, key):
            got = getattr(m, key)
            return list(got.values() if isinstance(got, nn.ModuleDict) else got)
    raise AttributeError(type(m))


def features(name, m):
    """The function of the stream that a model gives by this name."""
    return getattr(m, "features", None)


def difference(m, x):
    """The one branch of a block: what it gives without what it gets."""
    return [m(x) - x]


def single(*parts):
    """Branches by the names of methods, each one of the sum with those before; a name with a colon is norm:body."""
    def probe(m, x):
        got = []
        for part in parts:
            norm, _, body = part.rpartition(":")
            got.append(getattr(m, body)(getattr(m, norm)(x) if norm else x))
            x = x + got[-1]
        return got
    return probe


def lowest_is_mask():
    """Logits of the lowest number are masks, and count as nothing."""
    _measure._note = lambda u: _measure.SEEN.append(torch.where(torch.isinf(u) | (u <= -1e300), torch.zeros_like(u), u))


def on_stream(cls, blocks_of, stream_of):
    """A model as its stream. `blocks_of(model)`: its blocks in order; `stream_of(model)`: a function of the stream where these are no chain, or None."""
    class Probe(nn.Module):
        def __init__(self, n=None):
            super().__init__()
            self.m = cls(4 if n is None else n)      # four layers are enough to see the first one's values

        @property
        def blocks(self):
            return blocks_of(self.m)

        def forward(self, x):
            stream = stream_of(self.m)
            if stream is not None:
                return stream(x)
            got, blocks = {}, self.blocks
            hooks = [blocks[0].register_forward_pre_hook(lambda mod, a: (x, *a[1:])),
                     blocks[-1].register_forward_hook(lambda mod, a, o: got.__setitem__("y", o))]
            self.m(x)
            for h in hooks:
                h.remove()
            return got["y"]
    return Probe


def wrapped(package, name, blocks_of, stream_of):
    """A file of a round as a module in which every model is replaced by its stream; both functions take its name first."""
    real = importlib.import_module(f"{package}.{name}")
    shown = types.ModuleType(name)
    shown.TRUTH, shown.example_inputs = real.TRUTH, real.example_inputs
    for key, truth in real.TRUTH.items():
        cls = getattr(real, key)
        if truth["kind"] == "model" and (key in sys.argv or len(sys.argv) < 3):          # the model itself runs, eager
            torch.set_default_dtype(torch.float32)
            assert cls()(*real.example_inputs()).shape == (2, 16, 32), key
            torch.set_default_dtype(torch.float64)
        shown_as = on_stream(cls, lambda m, key=key: blocks_of(key, m), lambda m, key=key: stream_of(key, m))
        setattr(shown, key, shown_as if truth["kind"] == "model" else cls)
    return shown


def run(package, files, depths, blocks_of, stream_of, **given):
    """Measures the files of a round; `QUICK=1` with fewer seeds and steps, and half the depths."""
    nn.Dropout.forward = lambda self, x: x       # truths are about what is trained, not about one draw
    files = [f for f in files if f in sys.argv] or files
    for f in files:
        sys.modules[f] = wrapped(package, f, blocks_of, stream_of)
    if os.environ.get("QUICK"):
        _measure.range = lambda n: range({60: 6, 40: 20, 3: 1, 2: 1}.get(n, n))
        for f in files:
            for key in sys.modules[f].TRUTH:
                depths.setdefault(key, (6, 12, 24, 48))
    _measure.main(depths=depths, names=files, **given)
