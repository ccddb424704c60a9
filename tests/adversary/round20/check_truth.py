"""Measures gains, growth and laws of gradients of round 20 in float64: `python -m tests.adversary.round20.check_truth [file] [Class ...]`.

Models read the stream itself, so that they are measured as they are. What is bounded over all weights is by the inequality that each truth names.
"""

import importlib
import inspect
import math
import sys

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._streams import listed

FILES = ["attend", "scans", "depth"]
DEPTHS = (12, 24, 48, 96)
DRAWN = {"ResamplerRaw", "ResamplerNormed"}
"""Whose growth is asked of independent draws alone."""
LATE = {"AdaOfPooledNorm", "ErfInFront"}
"""Whose law shows late: gates, or arguments of erf, are still on their way to their bound."""
BOUND = {"NormedLightning": 30.0, "TinyRecursion": 2.0, "DeltaResidual": 8.0, "BlockAttention": 12.0}
"""What a stream is at most, where what is drawn hides that it is level."""


def blocks(m):
    """The layers of a model or of a stack."""
    return list(m.net) if hasattr(m, "net") else listed("", m)


def main():
    torch.set_default_dtype(torch.float64)
    _measure.layers = blocks
    _measure.range = lambda n: range({60: 8, 3: 2}.get(n, n))      # few steps of a power iteration show a gain, two draws a law
    files = [f for f in FILES if f in sys.argv] or FILES
    only = [a for a in sys.argv[1:] if a not in FILES]
    failed = 0
    for f in files:
        module = importlib.import_module(f"{__package__}.{f}")
        for name, truth in module.TRUTH.items():
            if only and name not in only:
                continue
            cls, notes, bad = getattr(module, name), [], []
            assert (truth["kind"] == "model") == ("n" in inspect.signature(cls).parameters and inspect.signature(cls).parameters["n"].default is None), name
            runs(module, cls)
            if truth.get("identity_gain") is not None:
                gain = one_gain(name, cls, truth)
                notes.append(f"gain {gain:.5g}")
                if not abs(math.log(gain / truth["identity_gain"])) < 0.02:
                    bad.append(f"gain for {truth['identity_gain']}")
            if truth.get("growth_fixed"):
                worst = "bounded"
                for alike in (False, True):
                    if alike and name in DRAWN:
                        continue
                    size = _measure.sizes(cls, truth, (192, 384, 768) if name in LATE else DEPTHS, alike=alike)
                    law = "bounded" if max(size) <= BOUND.get(name, 0.0) else _measure.law(DEPTHS, size)
                    worst = max(worst, law, key=_measure.RANK.get)
                    notes.append(" ".join(f"{v:.3g}" for v in size))
                if worst != truth["growth_fixed"]:
                    bad.append(f"growth {worst} for {truth['growth_fixed']}")
            if truth.get("gradient_law"):
                ratios = [_measure.gradient_ratio(cls, truth, n) for n in DEPTHS]
                notes.append("gradients " + " ".join(f"{math.exp(v):.3g}" for v in ratios))
                if (law := _measure.gradient_law(DEPTHS, ratios)) != truth["gradient_law"]:
                    bad.append(f"gradients {law} for {truth['gradient_law']}")
            failed += bool(bad)
            print("BAD" if bad else "ok ", f"{f}.{name}", "; ".join(notes + bad), flush=True)
    sys.exit(bool(failed))


def runs(module, cls):
    """In float32, forward and backward."""
    torch.set_default_dtype(torch.float32)
    (x,) = module.example_inputs()
    y = cls()(x.requires_grad_())
    sum(z.square().mean() for z in (y if isinstance(y, tuple) else (y,))).backward()
    torch.set_default_dtype(torch.float64)


def one_gain(name, cls, truth):
    """Of a model its own, of a block that of 24."""
    if truth["kind"] == "block":
        return _measure.identity_gain(name, cls, truth)
    u, size = torch.randn(1, 16, 32), 1e10
    m = cls()
    for _ in range(8):
        x = (u / u.norm() * size).requires_grad_()
        y = m(x) / size
        (u,) = torch.autograd.grad(y, x, y.detach())
    return y.norm().item()


if __name__ == "__main__":
    main()
