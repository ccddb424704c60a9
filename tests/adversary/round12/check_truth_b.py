"""What round 12 needs of its own to be measured: `python -m tests.adversary.round12.check_truth_b [engineers|slips] [Class ...]`.

Models are measured on their stream: the first block gets the input in the stream's place, and the last block's output is what is looked at (before the
final norm and the head). A model whose stream is not one chain of modules has a line in STREAM.
"""

import importlib
import os
import sys
import types
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import LATE, main, of_branch

FILES = ["engineers", "slips"]
HERE = str(Path(__file__).parent)


def chain(blocks):
    def stream(m, x):
        for b in blocks(m):
            x = b(x)
        return x
    return stream


def cross(m, x):
    return m.cross_net(x)


BLOCKS = {
    "GptModel": lambda m: m.transformer.h, "BertEncoderModel": lambda m: m.layer, "VitQkNorm": lambda m: m.blocks, "T5Like": lambda m: m.decoder.block,
    "UNetAdd": lambda m: [*m.in_blocks, *m.out_blocks], "S4Model": lambda m: m.s4_layers, "MambaLM": lambda m: m.backbone["layers"],
    "MoELM": lambda m: list(m.layers.values()), "DcnV2": lambda m: m.cross, "CrossAttentionWrongResidual": lambda m: m.decoder,
}
STREAM = {
    "UNetAdd": lambda m, x: m.features(x), "DcnV2": cross, "SharedLayers": lambda m, x: m.features(x), "DenseSum": lambda m, x: m.features(x),
    "DeepNormAlphaPre": lambda m, x: m.features(x),
    "PairStack": lambda m, x: chain(lambda m: m.blocks)(m, x.unflatten(1, (4, 4))).flatten(1, 2),
}


def on_stream(name, cls):
    class Probe(nn.Module):
        def __init__(self, n=None):
            super().__init__()
            self.m = cls(4 if n is None else n)      # four layers are enough to see the first one's values

        @property
        def blocks(self):
            return list(BLOCKS[name](self.m) if name in BLOCKS else getattr(self.m, "blocks", None) or self.m.layers)

        def forward(self, x):
            if name in STREAM:
                return STREAM[name](self.m, x)
            got, blocks = {}, self.blocks
            hooks = [blocks[0].register_forward_pre_hook(lambda mod, a: (x, *a[1:])),
                     blocks[-1].register_forward_hook(lambda mod, a, o: got.__setitem__("y", o))]
            self.m(x)
            for h in hooks:
                h.remove()
            return got["y"]
    return Probe


def pair(x, *branches):
    """Each branch reads the sum with those before it."""
    out = []
    for f in branches:
        out.append(f(x))
        x = x + out[-1]
    return out


def base(attn=lambda m, h: m.attn(h)):
    return lambda m, x: pair(x, lambda x: attn(m, m.norm1(x)), lambda x: m.mlp(m.norm2(x)))


def over_time(m, x):
    n = lambda f, x: f(x.transpose(1, 2)).transpose(1, 2)
    return pair(x, lambda x: m.attn(n(m.norm1, x)), lambda x: m.mlp(n(m.norm2, x)))


BRANCH = {
    "SwinV2Stage": lambda m, x: pair(x, lambda x: m.blocks[0].norm1(m.blocks[0].windows(x)), lambda x: m.blocks[0].norm2(m.blocks[0].mlp(x))),
    "CheckpointedBlock": base(),
    "EncoderLayerNormedFf": lambda m, x: pair(x, lambda x: m._sa_block(m.norm1(x), None, None), lambda x: m._ff_block(m.norm2(x))),
    "MemoryBlock": lambda m, x: pair(x, lambda x: m.self_attention(m.norms["self"](x)), lambda x: m.cross_attention(m.norms["cross"](x)),
                                     lambda x: m.ff(m.norms["ff"](x))),
    "SandwichFunctional": lambda m, x: pair(x, lambda x: m.ln(m.attention(m.ln(x))), lambda x: m.ln(m.down(F.gelu(m.up(m.ln(x)))))),
    "SubLnBlock": lambda m, x: pair(x, lambda x: m.attn(m.norm1(x)), lambda x: m.ffn(m.norm2(x))),
    "LinearAttentionBlock": lambda m, x: pair(x, lambda x: m.attention(m.norm1(x)), lambda x: m.net(m.norm2(x))),
    "FNetPre": lambda m, x: pair(x, lambda x: torch.fft.fft2(m.norm1(x), dim=(-2, -1), norm="ortho").real, lambda x: m.ff(m.norm2(x))),
    "MlaBlock": lambda m, x: pair(x, lambda x: m.attention(m.input_norm(x)), lambda x: m.mlp(m.post_norm(x))),
    **dict.fromkeys(("NoResidualInMlp", "DetachedSkip", "EmaSlip", "ScaleUpsideDown"), base()),
    "QueriesSoftmax": base(lambda m, h: m.mix(h)),
    **dict.fromkeys(("QkNormUnused", "QkNormNoScale", "HeadsNotPutBack"), base(lambda m, h: m.attention(h))),
    "NormOverTime": over_time,
    "PeriHalfUnused": lambda m, x: pair(x, lambda x: m.after1(m.attn(m.norm1(x))), lambda x: m.mlp(m.norm2(x))),
    "ReZeroFromOne": lambda m, x: pair(x, lambda x: m.resweight * m.self_attn(x), lambda x: m.resweight * m.linear2(F.relu(m.linear1(x)))),
}
# a branch of the size of the stream, or a factor too small to be seen beside branches: all parameters are put to zero
ZEROED = {"DcnV2", "FTTransformer", "ReZeroFromOne", "MeanOfPaths", "EmaSlip"}
WITNESS = {}
DEPTHS = {"UNetAdd": LATE, "RunningTokens": LATE, **dict.fromkeys(("T5Like", "MoELM", "EmaSlip"), (24, 48, 96, 192)),
          "DetachedSkip": (6, 12, 24, 48)}      # deeper, the gradient is below the smallest number


def wrapped(name):
    """The file as a module in which every model is replaced by its stream."""
    real = importlib.import_module(f"tests.adversary.round12.{name}")
    shown = types.ModuleType(name)
    shown.TRUTH, shown.example_inputs = real.TRUTH, real.example_inputs
    for key, truth in real.TRUTH.items():
        cls = getattr(real, key)
        if truth["kind"] == "model" and (key in sys.argv or len(sys.argv) < 3):          # the model itself runs, eager and meta
            torch.set_default_dtype(torch.float32)
            assert cls()(*real.example_inputs()).shape == (2, 16, 32), key
            torch.set_default_dtype(torch.float64)
        setattr(shown, key, on_stream(key, cls) if truth["kind"] == "model" else cls)
    return shown


if __name__ == "__main__":
    nn.Dropout.forward = lambda self, x: x       # truths are about what is trained, not about one draw
    if os.environ.get("QUICK"):                  # a loaded machine: fewer seeds and steps, half the depths
        _measure.range = lambda n: range({60: 6, 40: 20, 3: 1, 2: 1}.get(n, n))
        for f in FILES:
            for key in importlib.import_module(f"tests.adversary.round12.{f}").TRUTH:
                DEPTHS.setdefault(key, (6, 12, 24, 48))
    for f in FILES:
        sys.modules[f] = wrapped(f)
    main(HERE, BRANCH, WITNESS, ZEROED, DEPTHS, FILES)
