"""What the blocks of round 12 need of their own to be measured: `python -m tests.adversary.round12.check_truth [lone|images|stacks] [Class ...]`."""

import importlib
import math
import os
import sys
from pathlib import Path

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import LATE, main

FILES = ["lone", "images", "stacks"]
HERE = str(Path(__file__).parent)


class OnTokens(nn.Module):
    """An image block of [b, 8, 8, 8], seen by the measurement as [b, 16, 32]."""
    inner = None

    def __init__(self):
        super().__init__()
        self.block = self.inner()

    def branch(self, x):
        m = self.block
        return (m.branch if hasattr(m, "branch") else m.f)(x.view(-1, 8, 8, 8))

    def forward(self, x):
        return self.block(x.view(-1, 8, 8, 8)).view(-1, 16, 32)


def on_tokens():
    sys.path.insert(0, HERE)
    images = importlib.import_module("images")
    images.example_inputs = lambda: (torch.randn(2, 16, 32),)
    for name in images.TRUTH:
        setattr(images, name, type(name, (OnTokens,), {"inner": getattr(images, name)}))


def pair(first, second):
    """The second branch reads the sum with the first one."""
    def probe(m, x):
        y = first(m, x)
        return [y, second(m, x + y)]
    return probe


def tiny_queries(m, x):
    m.to_q.weight *= 1e-7


BRANCH = {
    "EinsumGqaRope": pair(lambda m, x: m.attn(x), lambda m, x: m.ffn(x)),
    "MagnetoSubLn": pair(lambda m, x: m.attn(x), lambda m, x: m.ffn(x)),
    "CogSandwich": pair(lambda m, x: m.parts[0](x), lambda m, x: m.parts[1](x)),
    **dict.fromkeys(("SwinTwoClamped", "SwinTwoOpen"), pair(lambda m, x: m.norm1(m.attend(x)), lambda m, x: m.norm2(m.mlp(x)))),
    "RwkvFour": pair(lambda m, x: m.time_mix(x), lambda m, x: m.channel_mix(x)),
    "TanhInPlaceOfNorms": pair(lambda m, x: m.attn(m.t1(x)), lambda m, x: m.mlp(m.t2(x))),
}
WITNESS = {"WrongDenominator": tiny_queries}
# a branch of the size of the stream, or a factor too small to be seen beside branches
ZEROED = {"DivideTwice", "LipschitzRaw", "MixtureOfDepthsRaw", "FeatureMapsNoDivisor"}
DEPTHS = dict.fromkeys(("DecayedSkip", "LipschitzRaw", "OneSigmaGate", "SqueezeOnSum", "StreamClamp", "TanhInPlaceOfNorms"), LATE)


# what leaks forgets its first layers: the last layers are then the same ones at every depth, so that draws are no noise
REVERSED = {"DecayedSkip", "OneSigmaGate", "SqueezeOnSum", "StreamClamp", "DivideTwice"}
_build = _measure.build


def build(cls, truth, n, seed=0):
    m = _build(cls, truth, n, seed)
    if cls.__name__ in REVERSED:
        first, *rest = m.blocks
        m.blocks = nn.ModuleList([first, *reversed(rest)])
    return m


_measure.build = build


def fewer():
    """`QUICK=1`: one seed for gradients, eight steps of the power iteration (a stack's paths without weights are multiples of one map here)."""
    slow = _measure.gradient_ratio
    _measure.gradient_ratio = lambda cls, truth, n: slow(cls, truth, n, seeds=1)

    def gain(name, cls, truth):
        m, size = _measure.build(cls, truth, 24), 1e10
        if name in ZEROED:
            with torch.no_grad():
                for p in m.parameters():
                    p.mul_(1e-30)
        u = torch.randn(1, 16, 32)
        u /= u.norm()
        for _ in range(8):
            x = (u * size).requires_grad_()
            y = m(x) / size
            (w,) = torch.autograd.grad(y, x, y.detach())
            if not w.norm() > 0:
                break
            u = (w / w.norm()).detach()
        with torch.no_grad():
            step = ((m(x * 1.001) - m(x)) / (1e-3 * size)).norm().item()
        gain = y.norm().item()
        return gain if abs(step - gain) <= 0.02 * max(gain, 1e-3) else math.nan
    _measure.identity_gain = gain


if __name__ == "__main__":
    if os.environ.get("QUICK"):
        fewer()
    on_tokens()
    main(HERE, BRANCH, WITNESS, ZEROED, DEPTHS, FILES)
