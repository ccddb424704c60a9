"""Ways of writing: functions, scripts, in-place steps, custom backward passes, stacked weights, wrappers, parametrised layers; and slips in them."""

import copy
import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def mlp(dim=D, mult=2):
    return nn.Sequential(nn.Linear(dim, mult * dim), nn.GELU(), nn.Linear(mult * dim, dim))


# ---- the annotated transformer
class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


def attention(query, key, value, mask=None, dropout=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.0):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4))
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        query, key, value = [lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2) for lin, x in zip(self.linears, (query, key, value))]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k)
        del query, key, value
        return self.linears[-1](x)


class AnnotatedLayer(nn.Module):
    """Two sublayers as lambdas."""

    def __init__(self):
        super().__init__()
        self.self_attn, self.feed_forward = MultiHeadedAttention(H, D), mlp()
        self.sublayer = nn.ModuleList(copy.deepcopy(SublayerConnection(D, 0.0)) for _ in range(2))

    def forward(self, x):
        x = self.sublayer[0](x, lambda y: self.self_attn(y, y, y, None))
        return self.sublayer[1](x, self.feed_forward)


class AnnotatedSlip(AnnotatedLayer):
    """The lambda takes the x of the method and not its argument."""

    def forward(self, x):
        x = self.sublayer[0](x, lambda y: self.self_attn(x, x, x, None))
        return self.sublayer[1](x, self.feed_forward)


# ---- adds in place, in scripts, in functions
def bias_dropout_add(x, bias, residual, prob: float, training: bool):
    out = F.dropout(x + bias, p=prob, training=training)
    return residual + out


class MegatronAdd(nn.Module):
    """The bias of the last map is added with the residual by a scripted function."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(D), nn.Linear(D, 2 * D)
        self.weight, self.bias = nn.Parameter(torch.randn(D, 2 * D) / (2 * D) ** 0.5), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        y = F.linear(F.gelu(self.up(self.norm(x))), self.weight)
        return bias_dropout_add(y, self.bias.expand_as(x), x, 0.0, self.training)


class OutPlusIdentity(nn.Module):
    """ResNet habit: out += identity."""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), mlp()

    def tail(self, out, identity):
        out += identity
        return out

    def forward(self, x):
        identity = x
        out = self.norm(x)
        out = self.net(out)
        return self.tail(out, identity)


class OutPlusOut(OutPlusIdentity):
    """The sum is made in place, and the identity is added once more on return."""

    def tail(self, out, identity):
        out += identity
        return out + identity


class SliceUpdates(nn.Module):
    """Halves of a clone are updated in place, one after the other; each reads both."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D // 2)) for _ in range(2))

    def forward(self, x):
        h = x.clone()
        for i, (norm, net) in enumerate(zip(self.norms, self.nets)):
            part, y = slice(i * D // 2, (i + 1) * D // 2), net(norm(h))
            h = h.clone()
            h[..., part] = h[..., part] + y
        return h


class SliceDoubled(SliceUpdates):
    """The first half is added to itself, too."""

    def forward(self, x):
        first, h = self.nets[0](self.norms[0](x)), x.clone()
        h[..., : D // 2] += first + h[..., : D // 2]
        second, h = self.nets[1](self.norms[1](h)), h.clone()
        h[..., D // 2:] += second
        return h


class ViewOfStream(nn.Module):
    """Tokens in two windows of eight: a view, attention within each, and back; the add is on the view."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        shortcut = x
        x = self.norm(x)
        w = x.view(-1, 2, T // 2, D).reshape(-1, T // 2, D)
        q, k, v = self.qkv(w).reshape(-1, T // 2, 3, H, E).permute(2, 0, 3, 1, 4)
        attn = (q * E ** -0.5) @ k.transpose(-2, -1)
        w = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(-1, T // 2, D)
        x = self.proj(w).view(-1, 2, T // 2, D).flatten(1, 2)
        return shortcut.add(x)


# ---- weights as data
class StackedParameters(nn.Module):
    """All layers in tensors with the layer as the first axis; a loop over zip."""

    def __init__(self, n=24):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(n, D)), nn.Parameter(torch.zeros(n, D))
        self.w1, self.w2 = nn.Parameter(torch.randn(n, 2 * D, D) / D ** 0.5), nn.Parameter(torch.randn(n, D, 2 * D) / (2 * D) ** 0.5)

    def forward(self, x):
        for g, b, w1, w2 in zip(self.g, self.b, self.w1, self.w2):
            h = F.layer_norm(x, (D,), g, b)
            x = x + F.linear(F.gelu(F.linear(h, w1)), w2)
        return x


class StackedAttention(nn.Module):
    """Functions of a dictionary of parameters, attention with QK-norm; layer i is read by index."""

    def __init__(self, n=24):
        super().__init__()
        self.n = n
        self.p = nn.ParameterDict({
            "gain": nn.Parameter(torch.ones(n, D)), "gain_q": nn.Parameter(torch.ones(n, E)), "gain_k": nn.Parameter(torch.ones(n, E)),
            "wqkv": nn.Parameter(torch.randn(n, D, 3, H, E) / D ** 0.5), "wo": nn.Parameter(torch.randn(n, H, E, D) / D ** 0.5),
        })

    @staticmethod
    def rms(x, g):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * g

    def layer(self, x, p):
        q, k, v = torch.einsum("btd,dche->cbthe", self.rms(x, p["gain"]), p["wqkv"])
        s = torch.einsum("bihe,bjhe->bhij", self.rms(q, p["gain_q"]), self.rms(k, p["gain_k"])) / math.sqrt(E)
        return torch.einsum("bhij,bjhe,hed->bid", s.softmax(-1), v, p["wo"])

    def forward(self, x):
        for i in range(self.n):
            x = x + self.layer(x, {k: v[i] for k, v in self.p.items()})
        return x


class FunctionalCalls(nn.Module):
    """One template module, called with the parameters of each layer."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), *mlp()) for _ in range(n))

    def forward(self, x):
        template = self.blocks[0]
        for block in self.blocks:
            x = x + functional_call(template, dict(block.named_parameters()), (x,))
        return x


class TiedInPairs(nn.Module):
    """MobileLLM: each block runs twice in a row."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), *mlp()) for _ in range(n // 2))

    def forward(self, x):
        for block in self.blocks:
            for _ in range(2):
                x = x + block(x)
        return x


class TiedTranspose(nn.Module):
    """The second map is the transpose of the first."""

    def __init__(self):
        super().__init__()
        self.norm, self.w = nn.LayerNorm(D), nn.Parameter(torch.randn(2 * D, D) / D ** 0.5)

    def branch(self, x):
        return F.gelu(self.norm(x) @ self.w.T) @ self.w

    def forward(self, x):
        return x + self.branch(x)


class GradientStep(nn.Module):
    """A step down the energy of such a layer, without a norm: x - W' tanh(W x)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(D, D) / D ** 0.5)

    def branch(self, x):
        return -torch.tanh(x @ self.w.T) @ self.w

    def forward(self, x):
        return x + self.branch(x)


# ---- backward passes by hand
class SwigluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        return grad * b * s * (1 + a * (1 - s)), grad * a * s


class LigerBlock(nn.Module):
    """A fused SwiGLU with its own backward pass."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate_proj, self.up_proj, self.down_proj = nn.RMSNorm(D), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down_proj(SwigluFunction.apply(self.gate_proj(h), self.up_proj(h)))


class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class BranchGradient(nn.Module):
    """Branches get a tenth of the gradient."""

    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(D), mlp()

    def forward(self, x):
        return x + self.net(ScaleGradient.apply(self.norm(x), 0.1))


class StreamGradient(BranchGradient):
    """The stream passes 0.8 of it."""

    def forward(self, x):
        return ScaleGradient.apply(x, 0.8) + self.net(self.norm(x))


class ReversibleFunction(torch.autograd.Function):
    """Keeps outputs alone, and computes the inputs from them."""

    @staticmethod
    def forward(ctx, x1, x2, f, g, *weights):
        with torch.no_grad():
            y1 = x1 + f(x2)
            y2 = x2 + g(y1)
        ctx.f, ctx.g = f, g
        ctx.save_for_backward(y1, y2, *weights)
        return y1, y2

    @staticmethod
    def backward(ctx, d1, d2):
        y1, y2, *weights = ctx.saved_tensors
        nf = len(list(ctx.f.parameters()))
        wf, wg = weights[:nf], weights[nf:]
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            gy = ctx.g(y1)
            da, *dg = torch.autograd.grad(gy, (y1, *wg), d2)
            x2 = (y2 - gy).detach().requires_grad_()
            fx = ctx.f(x2)
            d1 = d1 + da
            db, *df = torch.autograd.grad(fx, (x2, *wf), d1)
        return d1, d2 + db, None, None, *df, *dg


class RevNet(nn.Module):
    """Reversible halves of the channels."""

    def __init__(self):
        super().__init__()
        half = lambda: nn.Sequential(nn.LayerNorm(D // 2), *mlp(D // 2))
        self.f, self.g = half(), half()

    def forward(self, x):
        halves = x.chunk(2, dim=-1)
        return torch.cat(ReversibleFunction.apply(*halves, self.f, self.g, *self.f.parameters(), *self.g.parameters()), dim=-1)


class Reformer(nn.Module):
    """Two copies of the stream, each updated from the other; their mean at the end."""

    def __init__(self, n=24):
        super().__init__()
        sub = lambda: nn.Sequential(nn.LayerNorm(D), *mlp())
        self.blocks = nn.ModuleList(nn.ModuleList((sub(), sub())) for _ in range(n))

    def forward(self, x):
        x1, x2 = torch.cat((x, x), dim=-1).chunk(2, dim=-1)
        for f, g in self.blocks:
            x1 = x1 + f(x2)
            x2 = x2 + g(x1)
        return torch.stack((x1, x2)).mean(dim=0)


class ReformerSum(Reformer):
    """Each copy takes over the other one, too."""

    def forward(self, x):
        x1, x2 = x, x
        for f, g in self.blocks:
            x1 = x1 + f(x2)
            x2 = x2 + g(x1) + 0.1 * x1
        return (x1 + x2) / 2


# ---- parametrised layers
class Spectral(nn.Module):
    """Two maps under spectral norm and a ReLU, no norm."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(spectral_norm(nn.Linear(D, D)), nn.ReLU(), spectral_norm(nn.Linear(D, D)))

    def branch(self, x):
        return self.net(x)

    def forward(self, x):
        return x + self.branch(x)


class Skew(nn.Module):
    def forward(self, w):
        return torch.linalg.matrix_exp(w.triu(1) - w.triu(1).T)


class OrthogonalTail(nn.Module):
    """A sine, and an orthogonal map: the exponential of a skew matrix as a parametrisation."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, D), nn.Linear(D, D, bias=False)
        parametrize.register_parametrization(self.down, "weight", Skew())

    def branch(self, x):
        return self.down(torch.sin(self.up(x)))

    def forward(self, x):
        return x + self.branch(x)


class UnitColumns(nn.Module):
    def forward(self, w):
        return w / w.norm(dim=0, keepdim=True).clamp_min(1e-6)


class ParametrizedUnits(nn.Module):
    """Columns of the last map have length one, by a parametrisation; a sigmoid in front."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, D), nn.Linear(D, D, bias=False)
        parametrize.register_parametrization(self.down, "weight", UnitColumns())

    def branch(self, x):
        return self.down(torch.sigmoid(self.up(x)))

    def forward(self, x):
        return x + self.branch(x)


class ParametrizedHalf(ParametrizedUnits):
    """The parametrisation is on the first map."""

    def __init__(self):
        super().__init__()
        self.down = nn.Linear(D, D, bias=False)
        parametrize.register_parametrization(self.up, "weight", UnitColumns())


# ---- branches
class SandwichCogView(nn.Module):
    """A norm on both sides of attention and of the feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4 = (nn.LayerNorm(D) for _ in range(4))
        self.attn, self.net = nn.MultiheadAttention(D, H, batch_first=True), mlp()

    def sa(self, x):
        return self.attn(x, x, x, need_weights=False)[0]

    def forward(self, x):
        x = x + self.n2(self.sa(self.n1(x)))
        return x + self.n4(self.net(self.n3(x)))


class SandwichMisplaced(SandwichCogView):
    """One bracket: the last norm is around the sum."""

    def forward(self, x):
        x = x + self.n2(self.sa(self.n1(x)))
        return self.n4(x + self.net(self.n3(x)))


class FastKan(nn.Module):
    """Radial functions of the normed stream and a spline map, plus a SiLU path."""

    def __init__(self, grids=6):
        super().__init__()
        self.layernorm, self.spline, self.base = nn.LayerNorm(D), nn.Linear(D * grids, D, bias=False), nn.Linear(D, D)
        self.register_buffer("grid", torch.linspace(-2.0, 2.0, grids))
        self.denominator = 4.0 / (grids - 1)

    def branch(self, x):
        h = self.layernorm(x)
        basis = torch.exp(-((h[..., None] - self.grid) / self.denominator) ** 2)
        return self.spline(basis.view(*x.shape[:-1], -1)) + self.base(F.silu(h))

    def forward(self, x):
        return x + self.branch(x)


class FastKanRaw(FastKan):
    """Radial functions of the raw stream, and nothing beside."""

    def branch(self, x):
        basis = torch.exp(-((x[..., None] - self.grid) / self.denominator) ** 2)
        return self.spline(basis.view(*x.shape[:-1], -1))


class Primer(nn.Module):
    """Squared ReLU behind a causal depthwise convolution."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.conv = nn.Conv1d(2 * D, 2 * D, 3, groups=2 * D)

    def branch(self, x):
        h = self.up(self.norm(x)).transpose(1, 2)
        h = self.conv(F.pad(h, (2, 0))).transpose(1, 2)
        return self.down(F.relu(h).square())

    def forward(self, x):
        return x + self.branch(x)


class CanonConv(nn.Module):
    """A residual short convolution on the stream itself, then a feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.net = nn.Conv1d(D, D, 4, groups=D, padding=3), nn.LayerNorm(D), mlp()

    def forward(self, x):
        x = x + self.conv(x.transpose(1, 2))[..., :T].transpose(1, 2)
        return x + self.net(self.norm(x))


class CanonInside(CanonConv):
    """The same on the normed copy."""

    def forward(self, x):
        h = self.norm(x)
        h = h + self.conv(h.transpose(1, 2))[..., :T].transpose(1, 2)
        return x + self.net(h)


class FakeQuant(nn.Module):
    """Activations of the branch on a grid, with the gradient passed through."""

    def __init__(self, bits=8):
        super().__init__()
        self.norm, self.fc1, self.fc2, self.levels = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D), 2 ** (bits - 1) - 1

    def quant(self, h):
        scale = self.levels / h.abs().amax(-1, keepdim=True).clamp(min=1e-5)
        return h + ((h * scale).round().clamp(-self.levels - 1, self.levels) / scale - h).detach()

    def forward(self, x):
        return x + self.fc2(self.quant(F.gelu(self.fc1(self.quant(self.norm(x))))))


# ---- a configured model
@dataclass
class Config:
    n_layer: int = 24
    n_embd: int = D
    n_head: int = H
    parallel: bool = False
    residual_fp32: bool = True


class MambaStyleBlock(nn.Module):
    """Takes and returns what is to be added and what it is added to."""

    def __init__(self, config, mixer):
        super().__init__()
        self.fp32, self.norm, self.mixer = config.residual_fp32, nn.LayerNorm(config.n_embd), mixer(config.n_embd)

    def forward(self, hidden, residual=None):
        residual = (hidden + residual) if residual is not None else hidden
        h = self.norm(residual.to(dtype=self.norm.weight.dtype))
        if self.fp32:
            residual = residual.to(torch.float32) if residual.dtype == torch.float16 else residual
        return self.mixer(h), residual


class MambaBackbone(nn.Module):
    def __init__(self, n=24):
        super().__init__()
        config = Config(n_layer=n)
        self.blocks = nn.ModuleList(MambaStyleBlock(config, partial(mlp, mult=2)) for _ in range(config.n_layer))

    def forward(self, x):
        residual = None
        for block in self.blocks:
            x, residual = block(x, residual)
        return x + residual


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_MODEL = dict(_LIN, kind="model")
_EXP = dict(growth_fixed="exponential", growth_all="exponential", gradient_law="exponential", softmax=False)
_FREE = dict(_LIN, output_bounded={"0": False}, softmax=False)
_OUT = dict(_LIN, growth_all="linear", output_bounded={"0": True}, softmax=False)

TRUTH = {
    "AnnotatedLayer": dict(_LIN, output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True, why="pre-norm.", tempts="-"),
    "AnnotatedSlip": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", logits_bounded={"0": False}, softmax=True, why="attention of the raw stream is of degree one.", tempts="a norm is called in front of it: linear"),
    "MegatronAdd": dict(_LIN, gradient_law="power", softmax=False, why="-", tempts="a bias of the shape of the stream"),
    "OutPlusIdentity": dict(_LIN, gradient_law="power", softmax=False, why="-", tempts="-"),
    "OutPlusOut": dict(_EXP, kind="block", identity_gain=2.0 ** 24, why="twice.", tempts="gain 1"),
    "SliceUpdates": dict(_LIN, gradient_law="power", softmax=False, why="-", tempts="written slices: unknown or overwritten"),
    "SliceDoubled": dict(_EXP, kind="block", identity_gain=2.0 ** 24, gradient_law=None, why="the first half is added to itself.", tempts="gain 1"),
    "ViewOfStream": dict(_LIN, logits_bounded={"0": False}, gradient_law="power", softmax=True, why="-", tempts="windows"),
    "StackedParameters": dict(_MODEL, softmax=False, why="-", tempts="-"),
    "StackedAttention": dict(_MODEL, logits_bounded={"0": True}, softmax=True, why="QK-norm.", tempts="-"),
    "FunctionalCalls": dict(_MODEL, gradient_law="power", softmax=False, why="-", tempts="one module, called 24 times: tied"),
    "TiedInPairs": dict(_MODEL, gradient_law="power", softmax=False, why="-", tempts="-"),
    "TiedTranspose": dict(_FREE, gradient_law="power", why="-", tempts="-"),
    "GradientStep": dict(_FREE, growth_fixed="bounded", why="<W x, tanh(W x)> is positive: what is large shrinks.", tempts="no norm: exponential"),
    "LigerBlock": dict(_LIN, gradient_law="power", softmax=False, why="the backward pass is right.", tempts="-"),
    "BranchGradient": dict(_LIN, softmax=False, why="the forward pass is plain.", tempts="-"),
    "StreamGradient": dict(_LIN, gradient_law="exponential", softmax=False, why="0.8 per block, in the backward pass.", tempts="pre-norm: power; a factor on the stream"),
    "RevNet": dict(_LIN, gradient_law="power", softmax=False, why="two halves in turn.", tempts="a function that is not read"),
    "Reformer": dict(_MODEL, gradient_law="power", softmax=False, why="-", tempts="two; a half"),
    "ReformerSum": dict(kind="model", growth_fixed="polynomial", identity_gain=1 + 24 / 20, softmax=False, why="a unipotent matrix.", tempts="1.1^24; gain 1; linear"),
    "Spectral": dict(kind="block", growth_fixed="exponential", output_bounded={"0": False}, softmax=False, why="degree one.", tempts="Lipschitz 1: bounded"),
    "OrthogonalTail": dict(_OUT, why="sqrt(32).", tempts="a free map"),
    "ParametrizedUnits": dict(_OUT, why="32 columns of length one.", tempts="a free map; no norm: exponential"),
    "ParametrizedHalf": dict(_FREE, why="the last map is free.", tempts="its twin"),
    "SandwichCogView": dict(_LIN, growth_all="linear", output_bounded={"0": True, "1": True}, logits_bounded={"0": False}, softmax=True, why="norms end both.", tempts="-"),
    "SandwichMisplaced": dict(kind="block", identity_gain=None, growth_fixed="bounded", logits_bounded={"0": False}, softmax=True, why="the sum is normed.", tempts="gain 1"),
    "FastKan": dict(_FREE, why="-", tempts="exponentials"),
    "FastKanRaw": dict(_FREE, why="radial functions are at most one.", tempts="no norm: exponential"),
    "Primer": dict(_FREE, why="-", tempts="degree two"),
    "CanonConv": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False, why="a linear map of the raw stream.", tempts="pre-norm: linear"),
    "CanonInside": dict(_LIN, softmax=False, why="-", tempts="its twin"),
    "FakeQuant": dict(_LIN, gradient_law="power", softmax=False, why="-", tempts="round and detach"),
    "MambaBackbone": dict(_MODEL, gradient_law="power", softmax=False, why="-", tempts="two streams"),
}
