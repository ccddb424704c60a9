"""Round 1 A: where the weights start."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations

D = 64


def example_inputs():
    return (torch.randn(2, 16, D),)


class MLP(nn.Module):
    def __init__(self, gain=1.6):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        for fc in (self.fc1, self.fc2):
            nn.init.xavier_normal_(fc.weight, gain=gain)
            nn.init.zeros_(fc.bias)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class SilentStart(nn.Module):
    """No norms; the last map of every branch starts at zero (Fixup without its scales)."""

    def __init__(self):
        super().__init__()
        self.mlp = MLP()
        nn.init.zeros_(self.mlp.fc2.weight)

    def forward(self, x):
        return x + self.mlp(x)


class OverwrittenStart(nn.Module):
    """The same, but the model's own init runs last and fills the zeros again."""

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(SilentStart() for _ in range(depth))
        self.apply(self.reset)

    @staticmethod
    def reset(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight, gain=1.6)
            module.bias.data.zero_()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class LayerScaled(nn.Module):
    """CaiT: pre-norm and a LayerScale that starts at 1e-4."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D), MLP()
        self.scale = nn.Parameter(torch.full((D,), 1e-4))

    def forward(self, x):
        return x + self.scale * self.mlp(self.norm(x))


class ZeroGainOut(nn.Module):
    """Output norm with the gain at zero, as the last BatchNorm of a ResNet."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp, self.out = nn.LayerNorm(D), MLP(), nn.LayerNorm(D)
        nn.init.zeros_(self.out.weight)

    def forward(self, x):
        return x + self.out(self.mlp(self.norm(x)))


class RampScale(nn.Module):
    """A scale per channel on a branch without a norm, which starts at zero (ReZero as a vector)."""

    def start(self):
        return torch.zeros(D)

    def __init__(self):
        super().__init__()
        self.mlp = MLP()
        self.alpha = nn.Parameter(self.start())

    def forward(self, x):
        return torch.addcmul(x, self.alpha, self.mlp(x))


class FullRampScale(RampScale):
    """The same with the start value one."""

    def start(self):
        return torch.ones(D)


class LoudOut(nn.Module):
    """Pre-norm with an output map 30 times too large."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D), MLP()
        with torch.no_grad():
            self.mlp.fc2.weight.mul_(30)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class DepthScaledOut(nn.Module):
    """GPT-2: the output maps start at 1/sqrt(2N) of the others, picked by their name."""

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(D), "mlp": MLP()}) for _ in range(depth))
        for name, p in self.named_parameters():
            if name.endswith("fc2.weight"):
                torch.nn.init.normal_(p, std=0.1 / math.sqrt(2 * depth))

    def forward(self, x):
        for block in self.blocks:
            x = x + block["mlp"](block["norm"](x))
        return x



class SoftplusSkip(nn.Module):
    """A positive learned factor on the stream: softplus of log(e - 1), which is 1."""

    rho = math.log(math.expm1(1.0))

    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.tensor(self.rho))
        self.norm, self.mlp = nn.RMSNorm(D), MLP()

    def forward(self, x):
        return F.softplus(self.raw) * x + self.mlp(self.norm(x))


class SoftplusOfOne(SoftplusSkip):
    """The same, started at one before the softplus."""

    rho = 1.0


class SigmoidSkip(nn.Module):
    """A learned factor sigmoid(2) on the stream and a normed branch."""

    def __init__(self):
        super().__init__()
        self.keep = nn.Parameter(torch.full((D,), 2.0))
        self.mlp, self.out = MLP(), nn.RMSNorm(D)

    def forward(self, x):
        return torch.sigmoid(self.keep) * x + self.out(self.mlp(x))


class DeepNormed(nn.Module):
    """DeepNorm for an encoder of N MLP blocks: alpha on the skip, beta in the maps."""

    def __init__(self, depth=24):
        super().__init__()
        self.alpha, beta = (2 * depth) ** 0.25, (8 * depth) ** -0.25
        self.mlps = nn.ModuleList(MLP(gain=beta) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))

    def forward(self, x):
        for mlp, norm in zip(self.mlps, self.norms):
            x = norm(torch.add(mlp(x), x, alpha=self.alpha))
        return x


class LoudEmbedding(nn.Module):
    """The input is scaled by sqrt(D) * 4 once; then plain pre-norm blocks."""

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), MLP()) for _ in range(depth))

    def forward(self, x):
        x = x * (4 * D ** 0.5)
        for block in self.blocks:
            x = x + block(x)
        return x


class OrthogonalSkip(nn.Module):
    """A trained orthogonal map on the skip, and a normed branch."""

    def __init__(self):
        super().__init__()
        self.skip = parametrizations.orthogonal(nn.Linear(D, D, bias=False), orthogonal_map="cayley", use_trivialization=False)
        self.mlp, self.out = MLP(), nn.RMSNorm(D)

    def forward(self, x):
        return self.skip(x) + self.out(self.mlp(x))


class SharedOut(nn.Module):
    """All blocks share one output map; each has its own input map and norm."""

    def __init__(self, depth=24):
        super().__init__()
        self.ins = nn.ModuleList(nn.Linear(D, 2 * D) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.out = nn.Linear(2 * D, D, bias=False)
        for fc in self.ins:
            nn.init.xavier_normal_(fc.weight, gain=1.6)
            nn.init.zeros_(fc.bias)
        nn.init.xavier_normal_(self.out.weight, gain=1.6)

    def forward(self, x):
        for fc, norm in zip(self.ins, self.norms):
            x = x + self.out(F.silu(fc(norm(x))))
        return x


TRUTH = {
    "SilentStart": dict(kind="block", identity_gain=1.0, gradient_law="flat", softmax=False, output_bounded={"0": False},
        why="All branches are 0 at the start: every block reads the same x and gets the same gradient.", tempts="no norm: exponential gradients"),
    "OverwrittenStart": dict(kind="model", identity_gain=1.0, growth_fixed="exponential", gradient_law=None, softmax=False,
        output_bounded={"0": False}, why="`apply` runs after the blocks have zeroed their output maps.", tempts="zero-initialised branches: flat"),
    "LayerScaled": dict(kind="block", identity_gain=1.0, growth_fixed=None, growth_all=None, gradient_law="flat", softmax=False,
        output_bounded={"0": False}, why="The stream moves by 1e-4 per block: all blocks read the same.", tempts="pre-norm: a power of depth"),
    "ZeroGainOut": dict(kind="block", identity_gain=1.0, gradient_law="flat", softmax=False, output_bounded={"0": True},
        why="Only the gains and biases of the output norms get a gradient, and all blocks read the same x.",
        tempts="peri: a power of depth; or a dead branch"),
    "RampScale": dict(kind="block", identity_gain=1.0, gradient_law="flat", softmax=False, output_bounded={"0": False},
        why="alpha = 0: every block is the identity at the start.", tempts="no norm: exponential"),
    "FullRampScale": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", gradient_law=None, softmax=False,
        output_bounded={"0": False}, why="alpha = 1: a plain residual net without norms.", tempts="ReZero by its form: flat"),
    "LoudOut": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False}, why="The step is large but does not depend on the stream: size 30 sqrt(l), ratio sqrt(N).",
        tempts="a huge init: exponential, exploding"),
    "DepthScaledOut": dict(kind="model", identity_gain=1.0, growth_fixed=None, growth_all=None, gradient_law="flat", softmax=False,
        output_bounded={"0": False}, why="N branches of variance 1/(2N) at most: the stream's size stays within a small factor.",
        tempts="a power of depth"),
    "SoftplusSkip": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all=None, gradient_law="power", softmax=False,
        output_bounded={"0": False}, why="softplus(log(e - 1)) = 1 at the start value of the learned scalar.", tempts="softplus(0.54) read as 0.54 or unknown"),
    "SoftplusOfOne": dict(kind="block", identity_gain=math.log1p(math.e) ** 24, growth_fixed="exponential", growth_all=None,
        gradient_law=None, softmax=False, output_bounded={"0": False}, why="softplus(1) = 1.3133 at the start value.",
        tempts="a learned scalar that starts at 1: gain 1"),
    "SigmoidSkip": dict(kind="block", identity_gain=(1 / (1 + math.exp(-2))) ** 24, growth_fixed="bounded", softmax=False,
        output_bounded={"0": True},
        why="0.881 at the start value and a normed branch: at most 1/(1 - 0.881).",
        tempts="gain 1 or 2"),
    "DeepNormed": dict(kind="model", growth_fixed="bounded", growth_all="bounded", gradient_law="flat", softmax=False,
        output_bounded={"0": False}, why="A norm on each sum; beta^2/alpha of relative branch gain per block, in sum O(1).",
        tempts="post-norm: no identity, vanishing gradients"),
    "LoudEmbedding": dict(kind="model", growth_fixed=None, growth_all=None, gradient_law="flat", softmax=False,
        output_bounded={"0": False}, why="The stream starts at 32 and the branches add about sqrt(N): within 3 of 1 for N up to several hundred.",
        tempts="a power of depth; or a huge input: unstable"),
    "OrthogonalSkip": dict(kind="block", growth_fixed="linear", growth_all="linear", gradient_law="flat", softmax=False, output_bounded={"0": True},
        why="The parametrised map is orthogonal whatever its weights: an isometry; a normed branch adds at most 1.",
        tempts="a trained matrix on the stream: no identity, exponential"),
    "SharedOut": dict(kind="model", identity_gain=1.0, growth_fixed="linear", growth_all=None, softmax=False, output_bounded={"0": False},
        why="Pre-norm with bounded branches at fixed weights, whoever shares them.", tempts="weight tying: unknown, or exponential"),
}
