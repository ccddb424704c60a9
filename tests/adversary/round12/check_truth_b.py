"""What round 12 needs of its own to be measured: `python -m tests.adversary.round12.check_truth_b [engineers|slips] [Class ...]`.

Models are measured on their stream: the first block gets the input in the stream's place, and the last block's output is what is looked at (before the
final norm and the head). A model whose stream is not one chain of modules has a line in STREAM.
"""

from pathlib import Path

import torch
import torch.nn.functional as F

from tests.adversary.rounds._measure import LATE
from tests.adversary.rounds._streams import pair, run

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


def blocks_of(name, m):
    return list(BLOCKS[name](m) if name in BLOCKS else getattr(m, "blocks", None) or m.layers)


def stream_of(name, m):
    return (lambda x: STREAM[name](m, x)) if name in STREAM else None


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


if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, blocks_of, stream_of, folder=HERE, branch=BRANCH, witness=WITNESS, zeroed=ZEROED)
