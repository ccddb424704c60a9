"""Measures gains and growth of round 28 in float64: `python -m tests.adversary.round28.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds import _truth
from tests.adversary.rounds._truth import Round, main

FILES = ["lines", "frames", "tones", "links", "entire"]
FAR = {"ScaledAddSwapped": 1e25, "MacaronLerpLayer": 1e25}
BOUND = {"MacaronLerpLayer": 4.0, "ConditionedPairLiteral": 4.0}
EARLY = {"BalancedLanesIdentity": (4, 8, 16, 32), "ResidualExpertsScaled": (3, 6, 12, 24)}
"""Where gradients are asked before terms that cancel are no longer seen beside the stream: deeper ones are what rounding leaves."""

_gradient = _truth.gradient


def gradient(of, module, name, truth):
    kept = _truth.DEPTHS
    _truth.DEPTHS = EARLY.get(name, kept)
    try:
        return _gradient(of, module, name, truth)
    finally:
        _truth.DEPTHS = kept


if __name__ == "__main__":
    _truth.gradient = gradient
    main(Round(__package__, FILES, far=FAR, bound=BOUND, norms=(nn.BatchNorm2d,)))
