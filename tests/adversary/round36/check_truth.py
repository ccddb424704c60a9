"""Measures gains and growth of round 36 in float64: `python -m tests.adversary.round36.check_truth [file] [Class ...]`."""

import re

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure, _truth
from tests.adversary.rounds._truth import Round, main

FILES = ["patches", "filters", "relations", "projects"]
FAR = {"DepthScaledBlockSum": 1e45}
BOUND = {"DepthScaledBlockSum": 1.0, "UnitStateBlockLerp": 1.0, "AveragedVit": 2.0}
MAPS = {}
AT = {}
ZEROED = {"DynamicTanhBlockScalar", "LoraBlockSide", "T5BlockCast", "VocoderUnitFolded", "MinimalGruLayerConv", "WaveUnitLinear", "ReceptanceLayerMix", "EquivariantLayer", "VectorLayerGate", "ResamplerLayerLatents", "SoftExpertLayerSlots", "TutorialGpt", "LocalPositionVit", "FeatureTokenTransformer"}
"""Where maps read the stream as it is: paths without weights are seen with maps near nothing."""

_measure.GAINS = re.compile(r"(^|\.)(gain\w*|gamma\w*|tau|logit_scale|ls\d|layer_scale\w*|scale|alpha\w*)$")
"""More names of factors that are held."""
INNER = {"BertBlock": ("attention_output.dense", "output.dense"), "SharedLayerEncoder": ("attention_dense", "ffn_output")}
"""Whose branches are looked at themselves, as a norm stands behind the sum."""
_free, _build, _gain, _scaled = _measure.free, _truth.build, _truth.one_gain, _truth.scaled


def free(model):
    """What is frozen is a constant; norms of a file's own have gains too."""
    held = {id(p) for m in model.modules() if re.search(r"(Norm\w*|Tanh)$", type(m).__name__) and not list(m.children()) for p in m.parameters(False)}
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
