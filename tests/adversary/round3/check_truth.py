"""What the blocks of round 3 need of their own to be measured: `python -m tests.adversary.round3.check_truth [file] [Class ...]`."""

from pathlib import Path

import torch

from tests.adversary.rounds._measure import LATE, hook_outputs, main, of_f, two

FILES = ["streams", "attention", "branches", "ordinary"]


def conformer(m, x):
    a = m.ff1(x)
    x = x + 0.5 * a
    h = m.norm_att(x)
    b = m.attn(h, h, h)[0]
    c = m.conv(m.norm_conv(x + b))
    return [a, b, c, m.ff2(x + b + c)]


BRANCH = {
    "RollOff": of_f, "Presence": of_f,
    "GPT2Block": two("ln_1", "attn", "ln_2", "mlp"), "LlamaBlock": hook_outputs("self_attn", "mlp"), "Gemma2Block": hook_outputs("n2", "n4"),
    "Olmo2Block": hook_outputs("n1", "n2"), "Qwen3Block": hook_outputs("attn", "mlp"), "CohereBlock": hook_outputs("attn", "mlp"),
    "TorchPreNorm": hook_outputs("layer.self_attn", "layer.linear2"), "TorchPostNorm": hook_outputs("layer.self_attn", "layer.linear2"),
    "SequenceFirst": hook_outputs("attn", "mlp"), "T5Layer": two("n1", "attn", "n2", "ffn"),
    "SwinLayer": lambda m, x: [m.mixer(x), m.mlp(m.norm2(x + m.mixer(x)))], "ConformerBlock": conformer,
    "LatentAttention": two("n1", "attn", "n2", "mlp"), "MixtralBlock": two("n1", "attn", "n2", "moe"), "RgLru": two("n1", "mixer", "n2", "mlp"),
    "GatedDeltaNet": lambda m, x: [m.mixer(m.norm(x))], "GMlp": lambda m, x: [m.mixer(m.norm(x))], "MlpMixer": hook_outputs("tokens", "channels"),
    "BertLayer": lambda m, x: [m.attn(x), m.output(torch.relu(m.intermediate(m.norm1(x + m.attn(x)))))],
    "PreActResNet": lambda m, x: [m.unit(x.transpose(1, 2))], "LongConvolution": lambda m, x: [m.mixer(m.norm(x))], "LowRankAdapted": lambda m, x: [m.ffn(m.norm(x))],
}
# softmaxes that are written out: where their logits are
LOGITS = {
    "AttentionFree": lambda m, x: m.wk(m.norm(x)),
    "SoftmaxPlusOne": lambda m, x: m.scores(m.norm(x)),
    "LogAddExp": lambda m, x: m.heads(m.wq(m.norm(x))) @ m.heads(m.wk(m.norm(x))).mT,
}
BY_HAND = set(LOGITS) | {"SelfOrNeighbour"}


def equal_maps(m):
    """All layers alike and aligned: an allowed choice of bounded weights."""
    for p in m.parameters():
        p.copy_(torch.eye(32))


GROWTH_WITNESS = {"SignedRoot": equal_maps}


def loud_bias(m, x):
    m.second.bias.fill_(1e6)


WITNESS = {"OrthogonalMapsBias": loud_bias}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {
    "ThreeStepExplicit", "HalfPreNorm", "SnakeTail", "RationalSlope", "LogProbabilities", "SignedRoot", "ReluRnn", "ClipToStream", "BackwardClip",
    "FastWeightsRaw", "SubNormBypassed", "DeviationGivenBack", "MeanGivenBack", "FusedNormFirstTwo", "DepthAttention",
}
DEPTHS = {"ReadoutEma": LATE, "LstmBranch": LATE, "ProjectedLstm": LATE, "CohereBlock": LATE}
# slow to saturate: the inequality itself is measured at every depth, with the largest branch output that occurred
INEQUALITY = {
    "RunningMaximum": lambda x, f: max(x, f), "LerpToBranch": lambda x, f: max(x, f), "DepthAttention": lambda x, f: max(x, f),
    "FractalMean": lambda x, f: x + f, "DampedFixedPoint": lambda x, f: x + f,
}
# linear by a bound of each step (the finite depths are a long transient): |F| <= 32 |up|_row + |bias| as |tanh| <= 1 and |h|_1 <= 32
STEP_BOUND = {"FastWeightsNormed": lambda b: 32 * b.up.weight.abs().sum(1).max().item() + b.up.bias.abs().max().item()}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS, FILES, logits=LOGITS, by_hand=BY_HAND, growth_witness=GROWTH_WITNESS,
         inequality=INEQUALITY, step_bound=STEP_BOUND)
