"""Measures gains and growth of round 33 in float64: `python -m tests.adversary.round33.check_truth [file] [Class ...]`.

Gains of blocks are written for one block; what is shown here is the truth times the quotient of what 24 blocks give and what they should.
"""

import importlib
import re
import sys

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure, _truth
from tests.adversary.rounds._truth import Round, main

FILES = ["texts", "pictures", "signals", "repositories"]
FAR = {"GatedTableUnit": 1e16}
"""Another size than 1e10 that shows the gain."""
BOUND = {"RecurrentGateLayer": 2.0, "SphereLayer": 1.0, "SphereLayerOpen": 1.0, "LowRankResidualLayer": 10.0, "RootSumUnit": 10.0, "TimeUnitShadow": 10.0, "FilterMixUnit": 5.0,
         "GatedFilterUnitRoot": 10.0, "BypassLayerMix": 10.0, "GatedTableUnit": 10.0, "StatePairLmHidden": 30.0, "LongSkipDiffusion": 15.0}
"""Shares of the stream below one, and what is bounded: level, with draws that scatter."""
MAPS = {}
AT = {"PastFilterUnit": (48, 96, 192, 384), "FilterPlacesVit": (24, 48, 96, 192)}
"""Where the law shows late."""
ZEROED = {"FirstValueLayerStream", "LayerEmbeddingLayerBare", "KernelAttnLayerUnused", "TokenShiftLayerStream", "BranchNormLayerHalf", "ShortFilterLayerStream",
          "ScaledFilterUnit", "ScaledFilterUnitSum", "FramesBlockRaw", "ChannelAttnUnitUnused", "GatedFilterUnitRelu", "EdgeGateLayerBare", "DistanceFilterBlock",
          "FilterPlacesVit", "FilterPlacesVitAll"}
"""Where maps read the stream as it is: paths without weights are seen with maps near nothing."""
INNER = {}
"""Whose branches are looked at themselves, as a norm stands behind the sum."""
HAND = set()
"""Softmaxes that are written out."""

_measure.GAINS = re.compile(r"(^|\.)(gain\w*|gamma\w*|tau|logit_scale|ls\d|layer_scale\w*|scale|beta|alpha\w*|temperature|step\w*)$")
"""Names of factors that are held."""
_free, _build, _gain, _scaled = _measure.free, _truth.build, _truth.one_gain, _truth.scaled


def free(model):
    """What is frozen is a constant; norms of a file's own have gains too."""
    held = {id(p) for m in model.modules() if type(m).__name__.rstrip("12d").endswith("Norm") for p in m.parameters(False)}
    return [(k, p) for k, p in _free(model) if p.requires_grad and id(p) not in held]


def faint(*a, **k):
    m, f, state = _build(*a, **k)
    with torch.no_grad():
        for _, p in free(m):
            p.mul_(1e-30)
    return m, f, state


def one_gain(of, module, name, truth):
    _truth.build = faint if name in ZEROED else _build
    try:
        return _gain(of, module, name, truth)
    finally:
        _truth.build = _build


def scaled(of, module, name, truth, c, n=4):
    if name not in INNER:
        return _scaled(of, module, name, truth, c, n)
    top, real = dict.fromkeys(INNER[name], 0.0), _truth.build

    def watched(*a, **k):
        m, f, state = real(*a, **k)
        for path, sub in m.named_modules():
            for key in top:
                if path.endswith("." + key):
                    sub.register_forward_hook(lambda mod, a, o, key=key: top.__setitem__(key, max(top[key], o.abs().max().item())))
        return m, f, state

    _truth.build = watched
    try:
        _, logits = _scaled(of, module, name, truth, c, n)
    finally:
        _truth.build = real
    return min(top.values()), logits


_measure.free, _truth.one_gain, _truth.scaled = free, one_gain, scaled


if __name__ == "__main__":
    main(Round(__package__, FILES, at=AT, far=FAR, bound=BOUND, maps=MAPS, norms=(nn.BatchNorm2d,)))
