"""Attention blocks: ordinary ones, and ones where something small stands in the wrong place."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


class Attend(nn.Module):
    """Pre-norm attention. A subclass says what the scores are."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))
        self.setup()

    def setup(self):
        pass

    @staticmethod
    def heads(t):
        return t.unflatten(-1, (H, E)).transpose(1, 2)

    @staticmethod
    def flat(t):
        return t.transpose(1, 2).flatten(2)

    def qk(self, h):
        return self.heads(self.to_q(h)), self.heads(self.to_k(h))

    def scores(self, h):
        q, k = self.qk(h)
        return torch.einsum("bhie,bhje->bhij", q, k) * E ** -0.5

    def branch(self, x):
        h = self.norm(x)
        p = self.scores(h).softmax(dim=-1)
        return self.to_out(self.flat(p @ self.heads(self.to_v(h))))

    def forward(self, x):
        return x + self.branch(x)


class QKNormed(Attend):
    def setup(self):
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)

    def qk(self, h):
        q, k = super().qk(h)
        return self.q_norm(q), self.k_norm(k)


# ---- ordinary
class AlibiGqa(nn.Module):
    """BLOOM-like scores with ALiBi by baddbmm, two key heads for four queries, QK-norm, causal."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(D), nn.Linear(D, D + 2 * 2 * E, bias=False), nn.Linear(D, D, bias=False)
        self.q_norm, self.k_norm = nn.LayerNorm(E), nn.LayerNorm(E)
        i = torch.arange(T)
        slopes = 2.0 ** -(2.0 * torch.arange(1, H + 1))
        self.register_buffer("alibi", -slopes[:, None, None] * (i[:, None] - i).clamp(min=0))
        self.register_buffer("future", i[:, None] < i)

    def branch(self, x):
        b = x.shape[0]
        q, k, v = self.qkv(self.norm(x)).split([D, 2 * E, 2 * E], dim=-1)
        q = self.q_norm(q.view(b, T, H, E)).transpose(1, 2)
        k, v = (t.reshape(b, T, 2, E).transpose(1, 2).repeat_interleave(2, dim=1) for t in (k, v))
        k = self.k_norm(k)
        u = torch.baddbmm(self.alibi.repeat(b, 1, 1), q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), beta=1.0, alpha=1 / math.sqrt(E))
        p = u.masked_fill(self.future, float("-inf")).softmax(-1)
        return self.out(torch.bmm(p, v.flatten(0, 1)).unflatten(0, (b, H)).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class XPos(QKNormed):
    """Rotary positions with xPos: queries times s^i, keys times s^-j, behind the QK-norm."""

    def setup(self):
        super().setup()
        pos = torch.arange(T, dtype=torch.get_default_dtype())
        freq = pos[:, None] * 100.0 ** -(torch.arange(0, E, 2) / E)
        self.register_buffer("cos", freq.cos().repeat_interleave(2, -1))
        self.register_buffer("sin", freq.sin().repeat_interleave(2, -1))
        self.register_buffer("grow", ((torch.arange(0, E, 2) + 0.4 * E) / (1.4 * E))[None].repeat_interleave(2, -1) ** (pos[:, None] / 8))

    def turn(self, t):
        return t * self.cos + torch.stack((-t[..., 1::2], t[..., ::2]), -1).flatten(-2) * self.sin

    def qk(self, h):
        q, k = super().qk(h)
        return self.turn(q) * self.grow, self.turn(k) / self.grow


class GatedAttention(QKNormed):
    """Qwen's sigmoid gate behind the heads, QK-norm, output map."""

    def setup(self):
        super().setup()
        self.to_gate = nn.Linear(D, D)

    def branch(self, x):
        h = self.norm(x)
        q, k = self.qk(h)
        y = F.scaled_dot_product_attention(q, k, self.heads(self.to_v(h)), is_causal=True)
        return self.to_out(torch.sigmoid(self.to_gate(h)) * self.flat(y))


class InducedSet(Attend):
    """Set transformer: eight learned points look at the tokens, the tokens look at what they saw."""

    def setup(self):
        self.points = nn.Parameter(torch.randn(1, 8, D))
        self.kv2, self.q2 = nn.Linear(D, 2 * D), nn.Linear(D, D)

    def branch(self, x):
        h = self.norm(x)
        q = self.heads(self.to_q(self.points)).expand(h.shape[0], -1, -1, -1)
        seen = self.flat((q @ self.heads(self.to_k(h)).mT / E ** 0.5).softmax(-1) @ self.heads(self.to_v(h)))
        k, v = map(self.heads, self.kv2(seen).chunk(2, -1))
        return self.to_out(self.flat((self.heads(self.q2(h)) @ k.mT / E ** 0.5).softmax(-1) @ v))


class GatedCrossMemory(nn.Module):
    """Flamingo: cross attention to a fixed memory and a feed-forward, each behind a tanh gate that starts at zero."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_q, self.to_kv, self.to_out = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D, bias=False), nn.GELU(), nn.Linear(4 * D, D, bias=False))
        self.attn_gate, self.ff_gate = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.register_buffer("media", torch.randn(1, 6, D))

    def attn(self, x):
        q = self.to_q(self.norm(x)).view(*x.shape[:2], H, E).transpose(1, 2)
        k, v = (t.view(1, -1, H, E).transpose(1, 2) for t in self.to_kv(self.media).chunk(2, dim=-1))
        sim = torch.einsum("bhid,chjd->bhij", q * E ** -0.5, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        return self.to_out(torch.einsum("bhij,chjd->bhid", sim.softmax(-1), v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.attn(x) * self.attn_gate.tanh() + x
        return self.ff(self.ff_norm(x)) * self.ff_gate.tanh() + x


class CosFormer(Attend):
    """Linear attention with relu features and cosine weights."""

    def branch(self, x):
        h = self.norm(x)
        q, k, v = F.relu(self.heads(self.to_q(h))), F.relu(self.heads(self.to_k(h))), self.heads(self.to_v(h))
        angle = math.pi / 2 * torch.arange(T, device=x.device, dtype=x.dtype)[:, None] / T
        q, k = (torch.cat((t * angle.sin(), t * angle.cos()), -1) for t in (q, k))
        kv = torch.einsum("bhtd,bhte->bhde", k, v)
        z = torch.einsum("bhtd,bhd->bht", q, k.sum(2)).clamp(min=1e-4)
        return self.to_out(self.flat(torch.einsum("bhtd,bhde->bhte", q, kv) / z.unsqueeze(-1)))


class LightConvolution(nn.Module):
    """fairseq's lightweight convolution: a GLU, a depthwise kernel that goes through a softmax, a map."""

    def __init__(self, kernel=5):
        super().__init__()
        self.norm, self.linear1, self.linear2 = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.weight, self.k = nn.Parameter(torch.randn(H, 1, kernel) * 0.3), kernel

    def branch(self, x):
        y = F.glu(self.linear1(self.norm(x)), dim=-1)
        w = F.softmax(self.weight, dim=-1).repeat_interleave(D // H, 0)
        return self.linear2(F.conv1d(F.pad(y.mT, (self.k - 1, 0)), w, groups=D).mT)

    def forward(self, x):
        return x + self.branch(x)


class DynamicConvolution(LightConvolution):
    """The kernel of each token and head is made by a map of the token; taken by unfold."""

    def __init__(self, kernel=5):
        super().__init__(kernel)
        del self.weight
        self.make = nn.Linear(D, H * kernel)

    def branch(self, x):
        y = F.glu(self.linear1(self.norm(x)), dim=-1)
        w = self.make(y).unflatten(-1, (H, self.k)).softmax(-1)
        past = F.pad(y, (0, 0, self.k - 1, 0)).unfold(1, self.k, 1).unflatten(2, (H, E))
        return self.linear2(torch.einsum("bthk,bthek->bthe", w, past).flatten(2))


class DoubleStream(nn.Module):
    """Six tokens of text and ten of image with maps of their own, one attention for all, QK-norm."""

    def __init__(self):
        super().__init__()
        self.norms, self.qkvs, self.outs = (nn.ModuleList(m() for _ in range(2)) for m in
                                            (lambda: nn.LayerNorm(D, elementwise_affine=False), lambda: nn.Linear(D, 3 * D), lambda: nn.Linear(D, D)))
        self.nq, self.nk = nn.RMSNorm(E), nn.RMSNorm(E)

    def branch(self, x):
        parts = [qkv(norm(t)).unflatten(-1, (3, H, E)) for t, norm, qkv in zip(x.split([6, 10], 1), self.norms, self.qkvs)]
        q, k, v = torch.cat(parts, 1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.nq(q), self.nk(k), v).permute(0, 2, 1, 3).flatten(2)
        return torch.cat([out(t) for t, out in zip(y.split([6, 10], 1), self.outs)], 1)

    def forward(self, x):
        return x + self.branch(x)


class BloomPostResidual(nn.Module):
    """Megatron's apply_residual_connection_post_layernorm: the skip is the output of the norm."""

    def __init__(self, post=True):
        super().__init__()
        self.post = post
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.query_key_value, self.dense = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def attn(self, h):
        q, k, v = self.query_key_value(h).view(*h.shape[:2], H, 3, E).permute(3, 0, 2, 1, 4)
        return self.dense((F.softmax(q @ k.mT / E ** 0.5, -1) @ v).transpose(1, 2).reshape(h.shape))

    def forward(self, x):
        h = self.input_layernorm(x)
        residual = h if self.post else x
        x = self.attn(h) + residual
        h = self.post_attention_layernorm(x)
        residual = h if self.post else x
        return self.mlp(h) + residual


class BloomPreResidual(BloomPostResidual):
    """The flag at False."""

    def __init__(self):
        super().__init__(post=False)


class BottomToTop(nn.Module):
    """B2T: post-norm, and the input of the block joins the sum in front of the last norm."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D))

    def end(self, x, h):
        return self.n2(self.mlp(h) + h + x)

    def forward(self, x):
        h = self.n1(self.attn(x, x, x, need_weights=False)[0] + x)
        return self.end(x, h)


class BottomOverTop(BottomToTop):
    """... behind the last norm."""

    def end(self, x, h):
        return self.n2(self.mlp(h) + h) + x


class ParallelForgot(Attend):
    """A parallel block, the MLP of which reads the stream as it is."""

    def setup(self):
        self.fc, self.proj = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def mlp(self, x):
        return self.proj(F.gelu(self.fc(x)))

    def forward(self, x):
        return x + self.branch(x) + self.mlp(x)


# ---- scores
class TransformerXl(QKNormed):
    """QK-norm, and Transformer-XL's global content bias added to the queries."""

    def setup(self):
        super().setup()
        self.r_w_bias = nn.Parameter(torch.randn(H, 1, E) * 0.1)

    def qk(self, h):
        q, k = super().qk(h)
        return q + self.r_w_bias, k


class TransformerXlInside(TransformerXl):
    """The same bias, in front of the norm."""

    def qk(self, h):
        q, k = Attend.qk(self, h)
        return self.q_norm(q + self.r_w_bias), self.k_norm(k)


class TalkingBefore(QKNormed):
    """QK-norm; a trained map mixes the heads in front of the softmax."""

    def setup(self):
        super().setup()
        self.mix = nn.Linear(H, H, bias=False)

    def scores(self, h):
        return self.mix(super().scores(h).movedim(1, -1)).movedim(-1, 1)


class SoftmaxTwice(Attend):
    """The probabilities are handed to a function that takes logits."""

    def branch(self, x):
        h = self.norm(x)
        p = F.softmax(self.scores(h), dim=-1)
        return self.to_out(self.flat(F.softmax(p, dim=-1) @ self.heads(self.to_v(h))))


class ClampKept(Attend):
    def scores(self, h):
        u = super().scores(h)
        u.clamp_(-30, 30)
        return u


class ClampDropped(Attend):
    """`clamp` has no underscore."""

    def scores(self, h):
        u = super().scores(h)
        u.clamp(-30, 30)
        return u


class ClampHalfOfKeys(Attend):
    """A view of the first eight keys is clamped in place."""

    def scores(self, h):
        u = super().scores(h)
        u[..., :8].clamp_(-30, 30)
        return u * 1.0


class StraightThroughUnit(Attend):
    """Unit queries and keys with the gradient of raw ones."""

    def one(self, t):
        return t + (F.normalize(t, dim=-1) - t).detach()

    def qk(self, h):
        q, k = super().qk(h)
        return self.one(q), self.one(k)


class StraightThroughRaw(StraightThroughUnit):
    """Raw queries and keys with the gradient of unit ones."""

    def one(self, t):
        u = F.normalize(t, dim=-1)
        return u + (t - u).detach()


class DetachedLength(StraightThroughUnit):
    """Divided by a length that gets no gradient."""

    def one(self, t):
        return t / t.detach().norm(dim=-1, keepdim=True).clamp(min=1e-6)


class OneLengthForAll(StraightThroughUnit):
    """Divided by the length of the whole tensor of a head, over tokens and features."""

    def one(self, t):
        return 4 * t / t.flatten(-2).norm(dim=-1)[..., None, None].clamp(min=1e-6)


class LengthOfFirst(StraightThroughUnit):
    """Divided by the length of the first token's vector."""

    def one(self, t):
        return t / t[:, :, :1].norm(dim=-1, keepdim=True).clamp(min=1e-6)


class LengthOfOther(Attend):
    """Queries are divided by the lengths of the keys, and keys by those of the queries, token by token."""

    def qk(self, h):
        q, k = super().qk(h)
        a, b = (t.norm(dim=-1, keepdim=True) + 1e-6 for t in (q, k))
        return q / b, k / a


class SoftsignFeatures(StraightThroughUnit):
    one = staticmethod(F.softsign)


class TanhshrinkFeatures(StraightThroughUnit):
    """t - tanh t."""

    one = staticmethod(F.tanhshrink)


class LogSigmoidFeatures(StraightThroughUnit):
    """Log-probabilities as features."""

    one = staticmethod(F.logsigmoid)


class ViewNotTranspose(QKNormed):
    """`view(b, H, T, E)` where a transpose is due: heads and tokens are scrambled, rows still have length sqrt(E)."""

    @staticmethod
    def heads(t):
        return t.contiguous().view(t.shape[0], H, T, E)

    @staticmethod
    def flat(t):
        return t.reshape(t.shape[0], T, D)


class DistanceScores(Attend):
    """L2 attention: minus the squared distance of raw queries and keys."""

    squeeze = staticmethod(lambda t: t)

    def scores(self, h):
        q, k = map(self.squeeze, self.qk(h))
        return -(q.unsqueeze(3) - k.unsqueeze(2)).square().sum(-1) / E ** 0.5


class DistanceOfTanh(DistanceScores):
    squeeze = staticmethod(torch.tanh)


class CosineFunction(Attend):
    """F.cosine_similarity of all pairs, times ten."""

    def scale(self, q):
        return 10.0

    def scores(self, h):
        q, k = self.qk(h)
        return self.scale(q) * F.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1)


class CosineTimesLength(CosineFunction):
    """Times the length of the query."""

    def scale(self, q):
        return q.norm(dim=-1, keepdim=True)


class LogLength(QKNormed):
    """Scores grow with the logarithm of the number of keys that are seen (a constant), causal mask by an additive buffer."""

    def setup(self):
        super().setup()
        self.register_buffer("log_n", torch.log(torch.arange(1, T + 1.0) + 1)[:, None])
        self.register_buffer("mask", torch.full((T, T), float("-inf")).triu(1))

    def scores(self, h):
        return super().scores(h) * self.log_n + self.mask


# ---- what is added
class MemoryLayer(nn.Module):
    """Softmax over 24 keys without a norm; what is added is a mean of rows of a trained table."""

    def __init__(self):
        super().__init__()
        self.keys, self.values = nn.Linear(D, 24), nn.Parameter(torch.randn(24, D))

    def table(self):
        return self.values

    def branch(self, x):
        return torch.softmax(self.keys(x), -1) @ self.table()

    def forward(self, x):
        return x + self.branch(x)


class MemoryLayerUnit(MemoryLayer):
    """Rows of the table are brought to length 3."""

    def table(self):
        return F.normalize(self.values, dim=1).mul(3)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False})
_YES = dict(_PRE, logits_bounded={"0": True}, softmax=True)
_NO = dict(_PRE, logits_bounded={"0": False}, softmax=True)

TRUTH = {
    "AlibiGqa": dict(_YES, why="QK-norm and constant slopes.", tempts="baddbmm adds something"),
    "XPos": dict(_YES, why="rotations and constant factors on normed vectors.", tempts="factors that grow with the position"),
    "GatedAttention": dict(_YES, why="QK-norm; a gate and a free map behind.", tempts="-"),
    "InducedSet": dict(_PRE, logits_bounded={"0": False, "1": False}, softmax=True, why="free points, raw products.", tempts="-"),
    "GatedCrossMemory": dict(kind="block", identity_gain=1.0, logits_bounded={"0": False}, softmax=True, why="gates and pre-norm; a memory of constants; raw products less their maximum.",
        tempts="u - max is bounded from above"),
    "CosFormer": dict(_PRE, softmax=False, why="weights of relu features and cosines of at most a right angle are positive: means of values, at fixed weights bounded. No exponential.", tempts="attention: softmax"),
    "LightConvolution": dict(_NO, why="the kernel's logits are parameters; values are weighed by a softmax.", tempts="a convolution: no softmax"),
    "DynamicConvolution": dict(_NO, why="the kernel's logits are a map of data.", tempts="-"),
    "DoubleStream": dict(_YES, why="QK-norm on both parts together.", tempts="-"),
    "BloomPostResidual": dict(kind="block", identity_gain=None, growth_fixed="bounded", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="the skip is the normed stream.", tempts="pre-norm: gain 1, linear"),
    "BloomPreResidual": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="the skip is the stream.", tempts="-"),
    "BottomToTop": dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", logits_bounded={"0": False}, softmax=True,
        why="the last op is a norm.", tempts="a skip past the first norm: gain 1"),
    "BottomOverTop": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", logits_bounded={"0": False}, softmax=True,
        why="x plus the output of a norm.", tempts="post-norm: bounded"),
    "ParallelForgot": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="the MLP is of degree one in the stream.", tempts="a parallel pre-norm block"),
    "TransformerXl": dict(_NO, why="the bias is free and stands behind the norm.", tempts="QK-norm"),
    "TransformerXlInside": dict(_YES, why="the norm comes last.", tempts="-"),
    "TalkingBefore": dict(_NO, why="a free map behind bounded products.", tempts="QK-norm"),
    "SoftmaxTwice": dict(_PRE, logits_bounded={"0": False, "1": True}, softmax=True, why="the second softmax reads probabilities.", tempts="one judgement for both"),
    "ClampKept": dict(_YES, why="clamped in place.", tempts="-"),
    "ClampDropped": dict(_NO, why="the clamped tensor is dropped.", tempts="a clamp to 30"),
    "ClampHalfOfKeys": dict(_NO, why="keys 8 to 15 are as they were.", tempts="a clamp to 30"),
    "StraightThroughUnit": dict(_YES, why="t + (u - t) = u.", tempts="raw vectors plus something"),
    "StraightThroughRaw": dict(_NO, why="u + (t - u) = t.", tempts="unit vectors"),
    "DetachedLength": dict(_YES, why="a detached length is a length.", tempts="-"),
    "OneLengthForAll": dict(_YES, why="each vector is no longer than the whole: |u| <= 16/sqrt(8).", tempts="a norm over the wrong axes"),
    "LengthOfFirst": dict(_NO, why="other tokens can be longer than the first by any factor.", tempts="divided by a length"),
    "LengthOfOther": dict(_NO, why="q_i k_j / (|k_i| |q_j|): with small keys at i and small queries at j unbounded.", tempts="divided by both lengths: cosines"),
    "SoftsignFeatures": dict(_YES, why="entries in (-1, 1).", tempts="no norm"),
    "TanhshrinkFeatures": dict(_NO, why="t - tanh t is unbounded.", tempts="tanh"),
    "LogSigmoidFeatures": dict(_NO, why="log sigmoid is unbounded below.", tempts="sigmoid"),
    "ViewNotTranspose": dict(_YES, why="each row of eight numbers is normed, whichever it is.", tempts="the norm is over the wrong thing"),
    "DistanceScores": dict(_NO, why="bounded from above only.", tempts="at most zero"),
    "DistanceOfTanh": dict(_YES, why="at most 4 E / sqrt(E).", tempts="no norm"),
    "CosineFunction": dict(_YES, why="at most ten.", tempts="no norm"),
    "CosineTimesLength": dict(_NO, why="the query's length is free.", tempts="cosine"),
    "LogLength": dict(_YES, why="constants on bounded products; the mask is minus infinity or zero.", tempts="an additive mask"),
    "MemoryLayer": dict(_PRE, logits_bounded={"0": False}, softmax=True, why="a mean of rows: bounded at fixed weights; the table is trained.", tempts="no norm: exponential; or a softmax: bounded"),
    "MemoryLayerUnit": dict(_PRE, growth_all="linear", output_bounded={"0": True}, logits_bounded={"0": False}, softmax=True, why="means of vectors of length three.", tempts="no norm; a trained table"),
}
