"""Measures gains and growth of round 35 in float64: `python -m tests.adversary.round35.check_truth [file] [Class ...]`."""

import importlib
import re

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure, _truth
from tests.adversary.rounds._truth import Round, main

FILES = ["crossings", "molecules", "signals", "systems"]
FAR = {"TwoViewsLayer": 1e24}
BOUND = {"GatedMediaLayerLerp": 2.0, "DepthRouterLayerBare": 2.0, "DilatedDnaUnitAct": 2.0, "GhostGluUnit": 2.5, "DiffusionWaveUnit": 2.5, "GruGateLayer": 1.0, "TwoViewsLayer": 1.5, "WaveVocoder": 2.0, "FusionTracker": 1.5}
"""Shares of the stream below one, and what is bounded: level, with draws that scatter."""
MAPS = {}
AT = {}
ZEROED = {"DistanceMessageLayer", "GatedResidualUnitOpen", "GatedWaveUnitGlu", "BackcastForecaster"}
"""Where maps read the stream as it is: paths without weights are seen with maps near nothing."""

_measure.GAINS = re.compile(r"(^|\.)(gain\w*|gamma\w*|tau|logit_scale|ls\d|layer_scale\w*|scale|alpha\w*|lambda_\w+|nu)$")
"""More names of factors that are held."""
INNER = {"QueryBridgeLayer": ("attention", "crossattention", "output"), "GatedResidualUnit": ("glu",), "ProteinEncoderRenorm": ("wo", "fc2")}
"""Whose branches are looked at themselves, as a norm stands behind the sum."""
_free, _build, _gain, _scaled = _measure.free, _truth.build, _truth.one_gain, _truth.scaled


def free(model):
    """What is frozen is a constant."""
    return [(k, p) for k, p in _free(model) if p.requires_grad]


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

    def watch(key):
        def hook(mod, args, out):
            out = out[0] if isinstance(out, tuple) else out
            top[key] = max(top[key], out.abs().max().item())
        return hook

    def watched(*a, **k):
        m, f, state = real(*a, **k)
        for path, sub in m.named_modules():
            if path.rpartition(".")[2] in top:
                sub.register_forward_hook(watch(path.rpartition(".")[2]))
        return m, f, state

    _truth.build = watched
    try:
        out, logits = _scaled(of, module, name, truth, c, n)
    finally:
        _truth.build = real
    assert name not in LEVEL or out <= 400, f"{name}: the state grows with weights"
    return min(top.values()), logits


_measure.free, _truth.one_gain, _truth.scaled = free, one_gain, scaled

if __name__ == "__main__":
    LEVEL = set()
    torch.set_default_dtype(torch.float32)       # inputs of files are as they will be
    for file in FILES:                           # of a norm behind a sum both are asked: that the state is level, and that the branch is not
        for key, truth in importlib.import_module(f"{__package__}.{file}").TRUTH.items():
            if key in INNER and truth.pop("growth_all", None):
                LEVEL.add(key)
    main(Round(__package__, FILES, at=AT, far=FAR, bound=BOUND, maps=MAPS, norms=(nn.BatchNorm2d,)))
