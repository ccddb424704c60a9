"""Blocks with a small slip beside those without it, and more that are as they are meant."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def proj(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


class SelfAttention(nn.Module):
    """What most blocks below attend with."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o = proj(D, 3 * D), proj(D, D)

    def heads(self, x):
        b, s, _ = x.shape
        return self.qkv(x).view(b, s, 3, H, HD).permute(2, 0, 3, 1, 4)

    def mix(self, q, k, v):
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.mix(*self.heads(x))


def net(inner=4 * D):
    return nn.Sequential(proj(D, inner, True), nn.GELU(), proj(inner, D, True))


# ------------------------------------------------------------ biology, chemistry
class LayerAsPrinted(nn.Module):
    """Attention of the normed tokens plus a transition of the normed tokens, as the listing has it: what came in is not in the sum."""

    def __init__(self):
        super().__init__()
        self.norm_a, self.norm_t, self.attention_pair_bias, self.up, self.down = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention(), proj(D, 4 * D), proj(2 * D, D)

    def conditioned_transition(self, a):
        u, v = self.up(self.norm_t(a)).chunk(2, dim=-1)
        return self.down(F.silu(u) * v)

    def forward(self, a):
        b = self.attention_pair_bias(self.norm_a(a))
        a = b + self.conditioned_transition(a)
        return a


class ContinuousFilter(nn.Module):
    """SchNet: neighbours times filters of their distance, a shifted softplus between two maps, and no norm."""

    def __init__(self, n_rbf=8):
        super().__init__()
        self.in2f, self.f2out = proj(D, D), nn.Sequential(proj(D, D, True), nn.Softplus(), proj(D, D, True))
        self.filter = nn.Sequential(proj(n_rbf, D, True), nn.Softplus(), proj(D, D, True))
        gap = (torch.arange(T)[:, None] - torch.arange(T)).abs().to(torch.get_default_dtype())
        self.register_buffer("rbf", torch.exp(-0.5 * (gap[..., None] - torch.arange(float(n_rbf)).to(gap)) ** 2))
        self.register_buffer("cutoff", 0.5 * (torch.cos(gap * math.pi / 5.0) + 1.0) * (gap < 5.0) * (gap > 0))

    def branch(self, x):
        w = self.filter(self.rbf) * self.cutoff[..., None]
        y = torch.einsum("bjd,ijd->bid", self.in2f(x), w)
        return self.f2out(y) - math.log(2.0)

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ language
class SharedExpertOnNormed(nn.Module):
    """Sigmoid routing among four, one expert for all; all of them read the normed stream, and the normed stream itself is added by the way."""

    def __init__(self, n_exp=4, k=2):
        super().__init__()
        self.k, self.input_layernorm, self.post_attention_layernorm, self.self_attn = k, nn.RMSNorm(D), nn.RMSNorm(D), SelfAttention()
        self.gate, self.experts, self.shared_experts = proj(D, n_exp), nn.ModuleList(net(48) for _ in range(n_exp)), net(48)

    def routed(self, h):
        scores = self.gate(h).sigmoid()
        kept = scores.topk(self.k, dim=-1, sorted=False).indices
        weight = scores * F.one_hot(kept, scores.shape[-1]).sum(dim=-2).to(scores.dtype)
        return sum(weight[..., i : i + 1] * expert(h) for i, expert in enumerate(self.experts))

    def mlp(self, hidden_states):
        h = self.post_attention_layernorm(hidden_states)
        identity = h
        return self.routed(h) + self.shared_experts(identity) + identity

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(x)


class SharedExpertOnRaw(SharedExpertOnNormed):
    """The copy for the shared expert is taken before the norm."""

    def mlp(self, hidden_states):
        identity = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        return self.routed(hidden_states) + self.shared_experts(identity)


class LoraBeforeQkNorm(nn.Module):
    """A low-rank part is added to the query map, then queries and keys are normed."""

    def __init__(self, rank=4):
        super().__init__()
        self.norm, self.attn, self.lora_a, self.lora_b = nn.RMSNorm(D), SelfAttention(), proj(D, rank), proj(rank, D)
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def low_rank(self, h):
        return self.lora_b(self.lora_a(h)).unflatten(-1, (H, HD)).transpose(1, 2)

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.attn.heads(h)
        q = self.q_norm(q + self.low_rank(h) * 0.5)
        return self.attn.mix(q, self.k_norm(k), v)

    def forward(self, x):
        return x + self.branch(x)


class LoraBehindQkNorm(LoraBeforeQkNorm):
    """The wrapper adds the low-rank part to what the norm gives."""

    def branch(self, x):
        h = self.norm(x)
        q, k, v = self.attn.heads(h)
        q = self.q_norm(q) + self.low_rank(h) * 0.5
        return self.attn.mix(q, self.k_norm(k), v)


class CosineByHand(nn.Module):
    """Products of queries and keys over both lengths, a learned temperature of ten."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.tau = nn.LayerNorm(D), SelfAttention(), nn.Parameter(torch.full((H, 1, 1), 10.0))

    @staticmethod
    def lengths(q, k):
        return q.norm(dim=-1)[..., :, None], k.norm(dim=-1)[..., None, :]

    def branch(self, x):
        q, k, v = self.attn.heads(self.norm(x))
        rows, columns = self.lengths(q, k)
        score = torch.einsum("bhqd,bhkd->bhqk", q, k) / (rows * columns).clamp_min(1e-6)
        share = F.softmax(score * self.tau, dim=-1)
        return self.attn.o(torch.einsum("bhqk,bhkd->bqhd", share, v).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class CosineWrongAxis(CosineByHand):
    """The lengths of the keys stand along the queries."""

    @staticmethod
    def lengths(q, k):
        return q.norm(dim=-1)[..., None], k.norm(dim=-1)[..., None]


class ParallelHalved(nn.Module):
    """Attention and net side by side, each with the skip; the mean of both."""

    def __init__(self):
        super().__init__()
        self.ln, self.attn, self.mlp = nn.LayerNorm(D), SelfAttention(), net()

    def pair(self, x):
        h = self.ln(x)
        return x + self.attn(h), x + self.mlp(h)

    def forward(self, x):
        return torch.mean(torch.stack(self.pair(x), dim=-1), dim=-1)


class ParallelOverRootTwo(ParallelHalved):
    """The sum over the root of two, as for terms that know nothing of each other."""

    def forward(self, x):
        left, right = self.pair(x)
        return (left + right) * math.sqrt(0.5)


class SecondSumFromStart(nn.Module):
    """Post-norm; the second sum is made with the block's input instead of the first sublayer's output."""

    def __init__(self):
        super().__init__()
        self.attention, self.intermediate, self.output = SelfAttention(), proj(D, 4 * D, True), proj(4 * D, D, True)
        self.attention_norm, self.output_norm = nn.LayerNorm(D, eps=1e-12), nn.LayerNorm(D, eps=1e-12)

    def forward(self, hidden_states):
        attention_output = self.attention_norm(self.attention(hidden_states) + hidden_states)
        layer_output = self.output(F.gelu(self.intermediate(attention_output)))
        return self.output_norm(layer_output + hidden_states)


class PaddingZeroed(nn.Module):
    """Padding is hidden from the softmax and put to zero on the stream."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), SelfAttention(), net()
        self.register_buffer("lengths", torch.tensor([16, 12]))

    def forward(self, x):
        valid = torch.arange(x.size(1), device=x.device)[None, :] < self.lengths[: x.size(0), None]
        q, k, v = self.attn.heads(self.ln_1(x))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[:, None, None, :])
        x = x + self.attn.o(y.transpose(1, 2).flatten(2))
        x = x + self.mlp(self.ln_2(x))
        return x.masked_fill(~valid.unsqueeze(-1), 0.0)


class AddedInFloat32(nn.Module):
    """Both terms of each sum are cast up, the sum is cast back."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), SelfAttention(), net()

    @staticmethod
    def add(residual, update):
        return (residual.to(torch.float32) + update.to(torch.float32)).to(residual.dtype)

    def forward(self, x):
        x = self.add(x, self.attn(self.norm1(x)))
        return self.add(x, self.mlp(self.norm2(x)))


class UnitRowsGlu(nn.Module):
    """The three maps have rows of length one whatever their weights are."""

    def __init__(self):
        super().__init__()
        self.norm, self.u, self.v, self.o = nn.RMSNorm(D), nn.Parameter(torch.randn(64, D)), nn.Parameter(torch.randn(64, D)), nn.Parameter(torch.randn(D, 64))

    def branch(self, x):
        h = self.norm(x)
        a = F.silu(F.linear(h, F.normalize(self.u, dim=-1))) * F.linear(h, F.normalize(self.v, dim=-1))
        return F.linear(a, F.normalize(self.o, dim=-1))

    def forward(self, x):
        return x + self.branch(x)


class UnitRowsGluOneFree(UnitRowsGlu):
    """One of them was forgotten."""

    def branch(self, x):
        h = self.norm(x)
        a = F.silu(F.linear(h, F.normalize(self.u, dim=-1))) * F.linear(h, self.v)
        return F.linear(a, F.normalize(self.o, dim=-1))


# ------------------------------------------------------------ speech
class StandardizedCopy(nn.Module):
    """Channels first; what the net reads is standardized, what is carried is not."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(D, 2 * D, 3, padding=1), nn.Conv1d(2 * D, D, 3, padding=1)

    @staticmethod
    def statistics(x):
        with torch.no_grad():
            return x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-6

    def forward(self, x):
        x = x.transpose(1, 2).contiguous()
        shortcut = x
        mean, std = self.statistics(x)
        x = x.sub(mean).div(std)
        x = self.conv2(F.silu(self.conv1(x)))
        return (shortcut + x).transpose(1, 2)


class StandardizedInPlace(StandardizedCopy):
    """The same with two underscores."""

    def forward(self, x):
        x = x.transpose(1, 2).contiguous()
        shortcut = x
        mean, std = self.statistics(x)
        x = x.sub_(mean).div_(std)
        x = self.conv2(F.silu(self.conv1(x)))
        return (shortcut + x).transpose(1, 2)


class MacaronWithoutLastAdd(nn.Module):
    """Half a net, attention, half a net: the last one has no skip."""

    def __init__(self):
        super().__init__()
        self.ln_a, self.ln_b, self.ln_c = (nn.LayerNorm(D) for _ in range(3))
        self.ff_in, self.attn, self.ff_out = net(64), SelfAttention(), net(64)

    def forward(self, x):
        x = x + 0.5 * self.ff_in(self.ln_a(x))
        x = x + self.attn(self.ln_b(x))
        x = 0.5 * self.ff_out(self.ln_c(x))
        return x


# ------------------------------------------------------------ vision
class PooledConditionNormed(nn.Module):
    """Scales and shifts of the net's input are a map of the mean over places, of the normed stream."""

    def __init__(self):
        super().__init__()
        self.norm, self.film, self.body = nn.LayerNorm(D, elementwise_affine=False), proj(D, 2 * D), net()

    def context(self, x):
        return self.norm(x).mean(dim=1)

    def branch(self, x):
        scale, shift = self.film(self.context(x))[:, None, :].chunk(2, dim=-1)
        return self.body(self.norm(x) * (1 + scale) + shift)

    def forward(self, x):
        return x + self.branch(x)


class PooledConditionRaw(PooledConditionNormed):
    """Of the stream as it is."""

    def context(self, x):
        return x.mean(dim=1)


class ProjectedShortcut(nn.Module):
    """A convolution with batch norm on both paths of every block, ReLU behind the sum."""

    def __init__(self):
        super().__init__()
        self.residual_function = nn.Sequential(nn.Conv1d(D, D, 3, padding=1, bias=False), nn.BatchNorm1d(D), nn.ReLU(inplace=True),
                                               nn.Conv1d(D, D, 3, padding=1, bias=False), nn.BatchNorm1d(D))
        self.shortcut = nn.Sequential(nn.Conv1d(D, D, kernel_size=1, bias=False), nn.BatchNorm1d(D))

    def forward(self, x):
        x = x.permute(0, 2, 1)
        return F.relu(self.residual_function(x) + self.shortcut(x), inplace=True).permute(0, 2, 1)


# ------------------------------------------------------------ control and others
class StdConv1d(nn.Conv1d):
    """Weights less their mean over their deviation, by output channel."""

    def forward(self, x):
        var, mean = torch.var_mean(self.weight, dim=(1, 2), keepdim=True, unbiased=False)
        return F.conv1d(x, (self.weight - mean) / torch.sqrt(var + 1e-10), None, self.stride, self.padding)


class BigTransferUnit(nn.Module):
    """Pre-activation with group norms and standardized weights, no biases."""

    def __init__(self):
        super().__init__()
        self.gn1, self.gn2 = nn.GroupNorm(8, D), nn.GroupNorm(8, D)
        self.conv1, self.conv2 = (StdConv1d(D, D, 3, padding=1, bias=False) for _ in range(2))

    def branch(self, x):
        out = self.conv1(F.relu(self.gn1(x.transpose(1, 2))))
        out = self.conv2(F.relu(self.gn2(out)))
        return out.transpose(1, 2)

    def forward(self, x):
        residual = x
        out = self.branch(x)
        out += residual
        return out


class CriticBlock(nn.Module):
    """BroNet: a net of two maps, a norm behind each, and the sum with what came in."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(proj(D, 4 * D, True), nn.LayerNorm(4 * D), nn.ReLU(), proj(4 * D, D, True), nn.LayerNorm(D))

    def forward(self, x):
        res = x
        x = self.f(x)
        return x + res


class RecurrentWorldCell(nn.Module):
    """Dreamer: reset, candidate and update from one normed map; the update is shut by one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("action", torch.cos(torch.arange(8.0)))
        self.layer, self.norm = proj(D + 8, 3 * D), nn.LayerNorm(3 * D)

    def forward(self, deter):
        x = torch.cat([deter, self.action.expand(*deter.shape[:-1], -1)], -1)
        reset, cand, update = torch.chunk(self.norm(self.layer(x)), 3, -1)
        reset = torch.sigmoid(reset)
        cand = torch.tanh(reset * cand)
        update = torch.sigmoid(update - 1)
        return update * cand + (1 - update) * deter


class SimplicialLatent(nn.Module):
    """TD-MPC: maps with norms, no skip; the latent is made of softmaxes of eight."""

    def __init__(self):
        super().__init__()
        self.linear1, self.ln1, self.linear2, self.ln2 = proj(D, 64, True), nn.LayerNorm(64), proj(64, D, True), nn.LayerNorm(D)

    def forward(self, z):
        z = F.mish(self.ln1(self.linear1(z)))
        z = self.ln2(self.linear2(z))
        shape = z.shape
        return F.softmax(z.view(*shape[:-1], -1, 8), dim=-1).view(*shape)


class RecurrentWorldCellAdded(RecurrentWorldCell):
    """The old state is not weighed by what the update leaves."""

    def branch(self, deter):
        x = torch.cat([deter, self.action.expand(*deter.shape[:-1], -1)], -1)
        reset, cand, update = torch.chunk(self.norm(self.layer(x)), 3, -1)
        return torch.sigmoid(update - 1) * torch.tanh(torch.sigmoid(reset) * cand)

    def forward(self, deter):
        return self.branch(deter) + deter


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_FREE = dict(_TWO, logits_bounded={0: False})
_ONE = dict(output_bounded={0: False})
_GROWS = dict(growth_fixed="exponential", gradient_law="exponential")
TRUTH = {
    "LayerAsPrinted": dict(_B, identity_gain=0.0, growth_fixed="bounded", softmax=True, why="two branches and no skip."),
    "ContinuousFilter": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, **_ONE, why="a raw branch of degree one."),
    "SharedExpertOnNormed": dict(_PRE, **_FREE, why="pre-norm; the normed stream is one more bounded term."),
    "SharedExpertOnRaw": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=True, **_FREE, why="one expert is raw."),
    "LoraBeforeQkNorm": dict(_PRE, **_ONE, logits_bounded={0: True}, why="the norm is last."),
    "LoraBehindQkNorm": dict(_PRE, **_ONE, logits_bounded={0: False}, why="a free map behind the norm."),
    "CosineByHand": dict(_PRE, **_ONE, logits_bounded={0: True}, why="a cosine times ten."),
    "CosineWrongAxis": dict(_PRE, **_ONE, logits_bounded={0: False}, why="a key may be as much longer than another one as it likes."),
    "ParallelHalved": dict(_PRE, why="half of twice."),
    "ParallelOverRootTwo": dict(_B, identity_gain=2.0 ** 12, softmax=True, **_GROWS, why="twice over root two a block."),
    "SecondSumFromStart": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={0: False}, why="a norm on the sum."),
    "PaddingZeroed": dict(_PRE, **_FREE, why="pre-norm; the places that count are carried."),
    "AddedInFloat32": dict(_PRE, **_FREE, why="pre-norm."),
    "UnitRowsGlu": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="rows of length one, thrice, of a normed value."),
    "UnitRowsGluOneFree": dict(_CONV, **_ONE, why="one map is free."),
    "StandardizedCopy": dict(_CONV, why="pre-norm with constant statistics."),
    "StandardizedInPlace": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=False, why="what is carried is standardized, too."),
    "MacaronWithoutLastAdd": dict(_B, identity_gain=0.0, growth_fixed="bounded", softmax=True, why="each block ends in a net of what is normed."),
    "PooledConditionNormed": dict(_CONV, **_ONE, why="pre-norm."),
    "PooledConditionRaw": dict(_B, growth_fixed="exponential", softmax=False, **_ONE, why="the branch is as large as the stream's mean."),
    "ProjectedShortcut": dict(_B, growth_fixed="bounded", growth_all="bounded", softmax=False, why="both terms are batch-normed."),
    "RecurrentWorldCellAdded": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="a sigmoid times a tanh."),
    "BigTransferUnit": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="a standardized map of a normed value."),
    "CriticBlock": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="a norm ends the branch."),
    "RecurrentWorldCell": dict(_B, gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False, why="a convex sum with a tanh."),
    "SimplicialLatent": dict(_B, identity_gain=0.0, growth_fixed="bounded", growth_all="bounded", why="no skip; shares below 1."),
}
