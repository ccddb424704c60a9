"""Measures gains and growth of round 29 in float64: `python -m tests.adversary.round29.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._truth import Round, main

FILES = ["layers", "pixels", "sounds", "nodes", "models"]
FAR = {"DiffAttnFolded": 1e30}
BOUND = {"DiffAttnFolded": 4.0, "UnitStepLean": 1.0, "HighwayNormLayer": 4.0, "DepthAttentionLm": 4.0}
"""Means of functions of norms or of unit vectors: level, with draws that scatter from depth to depth."""

_free = _measure.free
_measure.free = lambda model: [(k, p) for k, p in _free(model) if p.requires_grad]
"""What is frozen is a constant, and no weight that may take any value."""

if __name__ == "__main__":
    main(Round(__package__, FILES, far=FAR, bound=BOUND, norms=(nn.BatchNorm2d,)))
