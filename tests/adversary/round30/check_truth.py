"""Measures gains and growth of round 30 in float64: `python -m tests.adversary.round30.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds import _measure, _truth
from tests.adversary.rounds._truth import Round, main

FILES = ["words", "planes", "signals", "tables", "wholes"]
FAR = {}
BOUND = {"GruGateLayer": 1.0}
"""Means of functions of norms or of bounded values: level, with draws that scatter from depth to depth."""

MAPS = {k: "proj" for k in ("ScanLayer", "ScanLayerSplit", "ScanLayerSplitKernel")}
"""Decays are exponentials of exponentials: what is scaled is maps."""
SECOND = {"TwinResidualLayer": 1}
"""Whose gain is asked of one state alone: another one is read by branches as it comes in, and normed behind the first sum."""

_gain = _truth.one_gain


def gain_of_one(of, module, name, truth):
    if name not in SECOND:
        return _gain(of, module, name, truth)
    i = SECOND[name]
    _, f, state = _truth.build(of, module, name, truth, 24)
    u = _truth.drawn(state, 3)
    far = lambda c: tuple(c * t if k == i else t for k, t in enumerate(u))
    return (_truth.norm(_truth.leaves(f(far(2e10)))) - _truth.norm(_truth.leaves(f(far(1e10))))) / (1e10 * _truth.norm(u[i]))


_free = _measure.free
_measure.free = lambda model: [(k, p) for k, p in _free(model) if p.requires_grad]
"""What is frozen is a constant, and no weight that may take any value."""

if __name__ == "__main__":
    _truth.one_gain = gain_of_one
    main(Round(__package__, FILES, far=FAR, bound=BOUND, maps=MAPS, norms=(nn.BatchNorm2d,)))
