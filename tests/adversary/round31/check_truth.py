"""Measures gains and growth of round 31 in float64: `python -m tests.adversary.round31.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._truth import Round, main

FILES = ["layers", "fields", "traces", "links", "models"]
FAR = {}
BOUND = {"SphereLayerLerp": 4.0, "HighwayRecurrentLayer": 4.0, "DepthScaledLmStream": 6.0}
"""Means of the input and of what is bounded, or a stream that is divided in each block: level, with draws that scatter from depth to depth."""
MAPS = {}
AT = {"SharedCacheLmRaw": (48, 96, 192, 384), "SimpleGateUnitInput": (48, 96, 192, 384)}
"""Where a law shows late."""

_free = _measure.free
_measure.free = lambda model: [(k, p) for k, p in _free(model) if p.requires_grad]
"""What is frozen is a constant, and no weight that may take any value."""

if __name__ == "__main__":
    main(Round(__package__, FILES, at=AT, far=FAR, bound=BOUND, maps=MAPS, norms=(nn.BatchNorm2d,)))
