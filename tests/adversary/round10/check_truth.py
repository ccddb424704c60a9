"""What the blocks of round 10 need of their own to be measured: `python -m tests.adversary.round10.check_truth [file] [Class ...]`."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import LATE, SEEN, main


class Trunk(nn.Module):
    """A model on tokens, from the first state of its stream to the last."""

    def __init__(self, cls, n=4):
        super().__init__()
        self.model = cls(n)
        self.blocks = self.model.blocks

    def forward(self, x):
        return self.model.trunk(x)


def every(m, x):
    """The scores of all softmaxes of a block, side by side."""
    SEEN.clear()
    m(x)
    return torch.stack(SEEN)


def layer(m, x):
    """Both branches of a layer of einsums, as they are added."""
    y = m.attn(m.norm(x, m.gain1))
    z = m.mlp(m.norm(x + y, m.gain2))
    return [y, z]


def normed_layer(m, x):
    """The same, normed."""
    rms = lambda t: t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)
    y = rms(m.attn(m.norm(x, m.gain1)))
    return [y, rms(m.mlp(m.norm(x + y, m.gain2)))]


def half_normed_layer(m, x):
    """The first one is."""
    y = normed_layer(m, x)[0]
    return [y, m.mlp(m.norm(x + y, m.gain2))]


def pairs(m, x):
    """Normed nets one after the other."""
    out = []
    for norm, f in m.layers:
        out.append(f(norm(x)))
        x = x + out[-1]
    return out


def pre_lm(m, x):
    """Attention and feed-forward of the first block."""
    b = m.blocks[0]
    y = b.attn(b.ln_1(x))
    return [y, b.ffn(b.ln_2(x + y))]


def peri_lm(m, x):
    """The same, normed behind."""
    b = m.blocks[0]
    y = b.post_1(b.attn(b.ln_1(x)))
    return [y, b.post_2(b.ffn(b.ln_2(x + y)))]


def peri_slip(m, x):
    """The second one is not."""
    b = m.blocks[0]
    y = peri_lm(m, x)[0]
    return [y, b.ffn(b.ln_2(x + y))]


def step(m, x):
    """The only branch of the first block: it is what is added."""
    return [m.blocks[0](x) - x]


def logsumexp_scores(m, x):
    """They go into no softmax."""
    h = m.norm(x)
    q, k, _ = m.qkv(h)
    return m.scores(q, k, h)


def negative_scores(m, x):
    """All scores of the first head are negative but that of one key, which is nothing."""
    m.q.weight.zero_()
    m.k.weight.zero_()
    m.q.weight[0, 0], m.k.weight[0, 0] = 1.0, -1.0
    x[..., 0] = 100.0
    x[:, 5, 0] = x[:, 5, 1:].mean(-1)


BRANCH = {"EinsumLayer": layer, "EinsumPeri": normed_layer, "EinsumPeriSlip": half_normed_layer, "UnpackLoop": pairs,
          "Lm": pre_lm, "GptScaled": pre_lm, "LlamaTiny": pre_lm, "GemmaTiny": peri_lm, "GemmaSlip": peri_slip, "SsmLm": step, "SimBa": step}
WITNESS = {"LargestScoreSigned": negative_scores}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {"TanhRaw", "BufferNorm", "ConfigTypo", "BranchNormClipped"}
DEPTHS = dict.fromkeys(("BaddbmmBeta", "UnpackLoopNormed", "ScaledInPlace", "SkipVector", "ForgottenAdd"), LATE)
# a mean of branches, the stream's cap
INEQUALITY = {"HarmonicMean": max, "CarriedMemory": lambda size, top: top, "ConvBlockCapped": lambda size, top: 6.0}
LOGITS = {"HeadLoop": every, "HeadLoopUnit": every, "LogsumexpByHand": logsumexp_scores}

_import = importlib.import_module


def _wrapped(name):
    """The models of `mixed_c` as maps of a stream."""
    module = _import(name)
    if name != "mixed_c":
        return module
    made = {k: (lambda n=4, c=getattr(module, k): Trunk(c, n)) for k in module.TRUTH}
    return SimpleNamespace(TRUTH=module.TRUTH, example_inputs=lambda: (torch.randn(2, 16, 32),), **made)


if __name__ == "__main__":
    _measure.importlib = SimpleNamespace(import_module=_wrapped)
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS, logits=LOGITS, inequality=INEQUALITY, by_hand={"LogsumexpByHand"})
