"""Measures gains and growth of round 34 in float64: `python -m tests.adversary.round34.check_truth [file] [Class ...]`."""

import importlib
import re

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure, _truth
from tests.adversary.rounds._truth import Round, main

FILES = ["tuning", "agents", "notebooks", "models"]
FAR = {}
BOUND = {"GatedCrossLayerSum": 2.0, "AdapterMixLayerTop": 15.0, "ResamplerLayerNormed": 3.0, "GruGateLayer": 1.0, "DecisionLayerShort": 3.0, "DropPathVit": 6.0}
"""Shares of the stream below one, and what is bounded: level, with draws that scatter."""
MAPS = {}
AT = {}
ZEROED = {"LoraLayerRaw", "CriticBlockPlain", "MeshBlockLight", "SublayerLayerBare", "ParallelBlockRaw", "BeatsForecaster", "LstmLayerTwice", "FourierBlock"}
"""Where maps read the stream as it is: paths without weights are seen with maps near nothing."""
WOKEN = {"LoraLayer", "LoraLayerRaw", "PromptGateLayer", "GatedCrossLayer", "GatedCrossLayerSum", "ThinUpdateGpt"}
"""What starts at nothing gets some size before growth is asked."""
LOUD = {"FourierBlock": 4.0}
"""What no skip carries shrinks at the recorded start; with larger maps it is seen to grow."""
FACTOR = {"ScaleShiftLayerSum": 1.05}
"""Factors on the stream that start at one, and the size at which they are seen."""
INPLACE = {"ImpalaBlockInplace", "FourierBlockNorm"}
"""What changes its input is given a copy."""
INNER = {}
"""Whose branches are looked at themselves, as a norm stands behind the sum."""

_measure.GAINS = re.compile(r"(^|\.)(gain\w*|gamma\w*|tau|logit_scale|ls\d|layer_scale\w*|alpha\w*|\w*gate)$")
"""More names of factors that are held."""
_free, _build, _gain, _scaled, _grown, _runs = _measure.free, _truth.build, _truth.one_gain, _truth.scaled, _truth.grown, _truth.runs


def free(model):
    """What is frozen is a constant; norms of a file's own have gains too."""
    held = {id(p) for m in model.modules() if type(m).__name__.endswith("Norm") for p in m.parameters(False)}
    return [(k, p) for k, p in _free(model) if p.requires_grad and id(p) not in held]


def listed(m):
    """The blocks of a model, by any of their names."""
    for path in ("blocks", "transformer.h", "encoder.layers", "decoder_layers", "transformer_blocks", "encoder", "layers", "processor"):
        try:
            return m.get_submodule(path)
        except AttributeError:
            continue
    return []


_truth.Trunk.blocks = property(lambda self: listed(self.model))


class Copied(nn.Module):
    def __init__(self, stack):
        super().__init__()
        self.stack, self.blocks = stack, stack.blocks

    def forward(self, x, *rest):
        return self.stack(x * 1.0, *rest)


def build(of, module, name, truth, n, seed=0, alike=False):
    """Models whose trunk is a part of theirs are measured there."""
    cls = getattr(module, name)
    if truth["kind"] == "model" and not hasattr(cls, "trunk"):
        torch.manual_seed(seed)
        args, m, got = _truth.mapped(lambda t: t.double(), _truth.inputs(module, name)), cls(n), []
        hook, real = m.encoder, m.encoder.trunk
        hook.trunk = lambda x: (got.append(x), real(x))[1]
        with torch.no_grad():
            m(*args)
        del hook.trunk
        if alike:
            _truth.alike_(m)
        t = _truth.Trunk(hook, (), of.summed)
        return t, (lambda s: t(s)), got[0].detach()
    m, f, state = _build(of, module, name, truth, n, seed=seed, alike=alike)
    if name in INPLACE:
        real = f
        return m, (lambda s: real(_truth.mapped(lambda t: t * 1.0, s))), state
    return m, f, state


def wake(m):
    for p in m.parameters():
        if p.requires_grad and not p.abs().max() > 0:
            nn.init.normal_(p, std=0.5) if p.numel() > 1 else nn.init.constant_(p, 0.5)


def changed(change):
    def g(*a, **k):
        m, f, state = build(*a, **k)
        with torch.no_grad():
            change(m)
        return m, f, state
    return g


def with_build(b, call):
    real, _truth.build = _truth.build, b
    try:
        return call()
    finally:
        _truth.build = real


def faint(m):
    for _, p in free(m):
        p.mul_(1e-30)


def factored(value):
    def change(m):
        for k, p in m.named_parameters():
            if k.endswith(".scale"):
                p.fill_(value)
    return change


def loud(c):
    def change(m):
        for _, p in free(m):
            p.mul_(c)
    return change


def one_gain(of, module, name, truth):
    return with_build(changed(faint) if name in ZEROED else build, lambda: _gain(of, module, name, truth))


def grown(of, module, name, truth, depths, seed, alike):
    b = changed(wake) if name in WOKEN else changed(factored(FACTOR[name])) if name in FACTOR else changed(loud(LOUD[name])) if name in LOUD else build
    return with_build(b, lambda: _grown(of, module, name, truth, depths, seed, alike))


def runs(module, name):
    if name not in INPLACE:
        return _runs(module, name)
    real = getattr(module, name)
    setattr(module, name, lambda: (lambda x, *r, m=real(): m(x * 1.0, *r)))
    try:
        _runs(module, name)
    finally:
        setattr(module, name, real)


def scaled(of, module, name, truth, c, n=4):
    b = changed(wake) if name in WOKEN else build
    if name not in INNER:
        return with_build(b, lambda: _scaled(of, module, name, truth, c, n))
    top = dict.fromkeys(INNER[name], 0.0)

    def watched(m):
        for path, sub in m.named_modules():
            for key in top:
                if path.endswith("." + key):
                    sub.register_forward_hook(lambda mod, a, o, key=key: top.__setitem__(key, max(top[key], (o[0] if isinstance(o, tuple) else o).abs().max().item())))

    _, logits = with_build(changed(watched), lambda: _scaled(of, module, name, truth, c, n))
    return min(top.values()), logits


_measure.free, _truth.one_gain, _truth.scaled, _truth.build, _truth.grown, _truth.runs = free, one_gain, scaled, build, grown, runs

if __name__ == "__main__":
    torch.set_default_dtype(torch.float32)
    main(Round(__package__, FILES, at=AT, far=FAR, bound=BOUND, maps=MAPS, norms=(nn.BatchNorm2d,)))
