"""What the blocks of round 11 need of their own to be measured: `python -m tests.adversary.round11.check_truth [file] [Class ...]`."""

import math
from pathlib import Path

import torch.nn as nn
import torch.nn.functional as F

from tests.adversary.rounds._measure import LATE, main

FILES = ["mixed_a", "mixed_b", "mixed_c", "plain"]


def cancelling(m, x):
    """One key has the score ln 15, the others have its negative: all that is above and below one cancels."""
    for w in (m.wq.weight, m.wk.weight):
        w.zero_()
    x.zero_()
    x[..., 0], x[..., 1] = 1.0, -1.0
    x[:, 5, 1] = 1.0
    c = m.norm(x)[0, 0, 0]
    u = 1 / 15 + 1e-6 / 14
    m.wq.weight[0, 0], m.wk.weight[0, 1] = -math.log(u) * 8 ** 0.5 / c, 1 / c


def opposite(m, x):
    """Two channels are large and opposite, the others are nothing."""
    m.f[2].bias.zero_()
    m.f[2].weight[2:] = 0.0
    m.f[2].weight[0] *= 1e6
    m.f[2].weight[1] = -m.f[2].weight[0]


def opposite_shares(m, x):
    """The two best experts have opposite scores."""
    m.router.weight.zero_()
    m.router.weight[0, 0], m.router.weight[1, 0] = 0.1, -0.1
    m.router.weight[2:, 1] = -100.0
    x[..., 1] = 1.0


def free_sink(m, x):
    """The sink is large."""
    m.sink.fill_(1e5)


def hybrid(m, x):
    """Attention reads the raw stream."""
    y = m.attn(x)
    return [y, m.f(m.n1(x + y))]


def pair(x, first, second):
    """The second branch reads the sum with the first one."""
    y = first(x)
    return [y, second(x + y)]


def pooled(m, x):
    """Both on images."""
    x = x.transpose(1, 2).unflatten(-1, (4, 4))
    h = m.norm1(x)
    y = m.pool(h) - h
    return [y, m.fc2(F.gelu(m.fc1(m.norm2(x + y))))]


def attended(m, x):
    """What nn.MultiheadAttention gives."""
    return m.attn(x, x, x, need_weights=False)[0]


BRANCH = {
    "HybridNormOpen": hybrid,
    "GptBlock": lambda m, x: pair(x, lambda x: m.attn(m.ln_1(x)), lambda x: m.mlp(m.ln_2(x))),
    "VitBlock": lambda m, x: pair(x, lambda x: m.gain1 * attended(m, m.norm1(x)), lambda x: m.gain2 * m.mlp(m.norm2(x))),
    **dict.fromkeys(("LlamaBlock", "QwenBlock"), lambda m, x: pair(x, lambda x: m.attention(m.input_norm(x)), lambda x: m.mlp(m.post_norm(x)))),
    "OlmoBlock": lambda m, x: pair(x, lambda x: m.input_norm(m.attention(x)), lambda x: m.post_norm(m.mlp(x))),
    "GemmaBlock": lambda m, x: pair(x, lambda x: m.after1(m.attention(m.input_norm(x))), lambda x: m.after2(m.mlp(m.post_norm(x)))),
    "Mixer": lambda m, x: pair(x, lambda x: m.tokens(m.norm1(x).mT).mT, lambda x: m.channels(m.norm2(x))),
    "Pool": pooled,
    "WindowBlock": lambda m, x: pair(x, lambda x: m.attention(m.norm1(x)), lambda x: m.mlp(m.norm2(x))),
    "NoNormBlock": lambda m, x: pair(x, lambda x: attended(m, x), lambda x: m.fc2(F.gelu(m.fc1(x)))),
    "NormOnce": lambda m, x: pair(x, lambda x: attended(m, m.norm(x)), lambda x: m.fc2(F.relu(m.fc1(x)))),
}
WITNESS = {"SoftpickSigned": cancelling, "SumBelowSigned": opposite, "RouterTanh": opposite_shares, "SinkLogit": free_sink}
# a branch of the size of the stream, or a factor too small to be seen beside branches: all parameters are put to zero
ZEROED = {"RawBesideNormed", "RunningGelu", "SkipBySqrtDepth", "ResiDualOpen", "MixLnOff", "NoNormBlock", "NormOnce", "Relax"}
LATE_ONES = ("NGptNoOuter", "CumulativeSkip", "RmsCeiling", "RunningSoftsign", "Relax", "LayerScaleOnSum", "EverySixth", "Momentum",
           "DepthAttention")
DEPTHS = dict.fromkeys(LATE_ONES, LATE) | {"SkipGate": (96, 192, 384, 768)}
LOGITS = {}


if __name__ == "__main__":
    nn.Dropout.forward = lambda self, x: x       # truths are about what is trained, not about one draw
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS, FILES, logits=LOGITS)
