"""Blocks of production code bases in language, vision, speech, graphs, recommendation, diffusion and biology, as they are meant."""

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


def split_heads(t, n=H):
    b, s, _ = t.shape
    return t.view(b, s, n, -1).transpose(1, 2)


def join_heads(t):
    b, _, s, _ = t.shape
    return t.transpose(1, 2).reshape(b, s, -1)


def rotate_half(t):
    a, b = t.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rotary(q, k):
    pos = torch.arange(q.shape[-2], device=q.device, dtype=q.dtype)
    inv = 10000.0 ** (-torch.arange(0, q.shape[-1], 2, device=q.device, dtype=q.dtype) / q.shape[-1])
    emb = torch.outer(pos, inv).repeat(1, 2)
    cos, sin = emb.cos(), emb.sin()
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class UnitOffsetNorm(nn.Module):
    """RMS norm whose weight starts at zero."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return out * (1.0 + self.weight)


class GatedMlp(nn.Module):
    def __init__(self, inner=64, act=F.silu):
        super().__init__()
        self.w1, self.w3, self.w2, self.act = proj(D, inner), proj(D, inner), proj(inner, D), act

    def forward(self, x):
        return self.w2(self.act(self.w1(x)) * self.w3(x))


# ------------------------------------------------------------ language
class SandwichWithUnitQk(nn.Module):
    """Four norms a layer and norms on queries and keys; a sliding window; no caps."""

    def __init__(self, window=5):
        super().__init__()
        self.window = window
        self.input_layernorm, self.post_attention_layernorm = UnitOffsetNorm(D), UnitOffsetNorm(D)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = UnitOffsetNorm(D), UnitOffsetNorm(D)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = proj(D, D), proj(D, HD), proj(D, HD), proj(D, D)
        self.q_norm, self.k_norm = UnitOffsetNorm(HD), UnitOffsetNorm(HD)
        self.mlp = GatedMlp(act=lambda t: F.gelu(t, approximate="tanh"))

    def self_attn(self, h):
        q, k, v = split_heads(self.q_proj(h)), split_heads(self.k_proj(h), 1), split_heads(self.v_proj(h), 1)
        q, k = rotary(self.q_norm(q), self.k_norm(k))
        i = torch.arange(h.shape[1], device=h.device)
        near = (i[:, None] >= i) & (i[:, None] - i < self.window)
        y = F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), attn_mask=near)
        return self.o_proj(join_heads(y))

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(hidden_states)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        return residual + hidden_states


class LightningPostNorm(nn.Module):
    """What is carried is the normed state times a factor; linear attention with a decay, a norm and a sigmoid gate behind it."""

    def __init__(self, alpha=3.5565588200778455, beta=1.0):
        super().__init__()
        self.alpha, self.beta = alpha, beta
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(D, eps=1e-5), nn.RMSNorm(D, eps=1e-5)
        self.qkv_proj, self.output_gate, self.out_proj, self.norm, self.mlp = proj(D, 3 * D), proj(D, D), proj(D, D), nn.RMSNorm(D), GatedMlp()
        self.register_buffer("slope", 2.0 ** -torch.arange(1.0, H + 1))

    def linear_attention(self, h):
        q, k, v = F.silu(self.qkv_proj(h)).chunk(3, dim=-1)
        q, k, v = split_heads(q), split_heads(k), split_heads(v)
        i = torch.arange(h.shape[1], device=h.device)
        gap = (i[:, None] - i).to(h.dtype)
        decay = torch.exp(-self.slope[:, None, None] * gap.clamp(min=0)) * (gap >= 0)
        y = self.norm(join_heads((q @ k.mT * decay) @ v))
        return self.out_proj(torch.sigmoid(self.output_gate(h)) * y)

    def forward(self, hidden_states):
        hidden_states = self.input_layernorm(hidden_states)
        residual = hidden_states
        hidden_states = residual * self.alpha + self.linear_attention(hidden_states) * self.beta
        hidden_states = self.post_attention_layernorm(hidden_states)
        residual = hidden_states
        return residual * self.alpha + self.mlp(hidden_states) * self.beta


class HymbaHeads(nn.Module):
    """Attention heads and a recurrence read one projection side by side; each is normed, their mean goes out through one map."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.pre_ffn_layernorm, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), GatedMlp()
        self.in_proj, self.out_proj, self.dt = proj(D, 4 * D), proj(D, D), proj(D, D, True)
        self.attn_norm, self.ssm_norm = nn.RMSNorm(D), nn.RMSNorm(D)

    def mixer(self, h):
        q, k, v, u = self.in_proj(h).split(D, dim=-1)
        q, k = rotary(split_heads(q), split_heads(k))
        att = join_heads(F.scaled_dot_product_attention(q, k, split_heads(v), is_causal=True))
        keep = torch.exp(-F.softplus(self.dt(h)))
        s, states = torch.zeros_like(u[:, 0]), []
        for i in range(u.shape[1]):
            s = keep[:, i] * s + (1 - keep[:, i]) * u[:, i]
            states.append(s)
        return self.out_proj((self.attn_norm(att) + self.ssm_norm(torch.stack(states, dim=1))) / 2)

    def forward(self, x):
        x = x + self.mixer(self.input_layernorm(x))
        return x + self.mlp(self.pre_ffn_layernorm(x))


class ExponentialGateMatrixMemory(nn.Module):
    """mLSTM in its parallel form: exponential input gates behind their running maximum, a floored normalizer, a norm by head, a skip within."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.qkv, self.gates, self.down = nn.LayerNorm(D, bias=False), proj(D, 2 * D), proj(D, 3 * D), proj(D, 2 * H, True), proj(D, D)
        self.head_norm, self.inner_skip = nn.LayerNorm(HD), nn.Parameter(torch.ones(D))

    def branch(self, x):
        u, z = self.up(self.norm(x)).chunk(2, dim=-1)
        q, k, v = (split_heads(t) for t in self.qkv(F.silu(u)).chunk(3, dim=-1))
        i, f = self.gates(u).transpose(1, 2).chunk(2, dim=1)
        cum = F.logsigmoid(f).cumsum(dim=-1)
        log_d = cum[..., :, None] - cum[..., None, :] + i[..., None, :]
        log_d = log_d.masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1), -torch.inf)
        m = log_d.amax(dim=-1, keepdim=True)
        c = q @ k.mT * HD ** -0.5 * torch.exp(log_d - m)
        n = torch.maximum(c.sum(-1, keepdim=True).abs(), torch.exp(-m))
        y = join_heads(self.head_norm(c @ v / (n + 1e-6)))
        return self.down((y + self.inner_skip * u) * F.silu(z))

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ biology, graphs
class ProteinLayer(nn.Module):
    """Queries are scaled before the rotation; keys that are padding are filled with minus infinity; everything has biases."""

    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.query, self.key, self.value, self.out = (proj(D, D, True) for _ in range(4))
        self.fc1, self.fc2 = proj(D, 4 * D, True), proj(4 * D, D, True)
        self.register_buffer("padding", torch.arange(T) >= 14)

    def forward(self, x):
        residual = x
        h = self.self_attn_layer_norm(x)
        q, k = rotary(split_heads(self.query(h)) * HD ** -0.5, split_heads(self.key(h)))
        w = torch.matmul(q, k.transpose(-1, -2)).masked_fill(self.padding, float("-inf"))
        w = F.softmax(w, dim=-1, dtype=torch.promote_types(w.dtype, torch.float32)).type_as(w)
        x = residual + self.out(join_heads(torch.matmul(w, split_heads(self.value(h)))))
        residual = x
        x = self.fc1(self.final_layer_norm(x))
        x = x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
        return residual + self.fc2(x)


class GenomeAttention(nn.Module):
    """Content and position scores with learned biases on the queries; positions are decaying bases through a map."""

    def __init__(self, n_basis=6):
        super().__init__()
        self.norm, self.ff_norm, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.Sequential(proj(D, 2 * D, True), nn.ReLU(), proj(2 * D, D, True))
        self.to_q, self.to_k, self.to_v, self.to_rel_k, self.to_out = proj(D, D), proj(D, D), proj(D, D), proj(n_basis, D), proj(D, D)
        self.rel_content_bias, self.rel_pos_bias = (nn.Parameter(torch.randn(1, H, 1, HD)) for _ in range(2))
        gap = (torch.arange(T)[:, None] - torch.arange(T)).to(torch.float32)
        half = 2.0 ** torch.arange(1, n_basis // 2 + 1)
        decay = torch.exp(-math.log(2.0) / half * gap.abs()[..., None])
        self.register_buffer("basis", torch.cat((decay, gap.sign()[..., None] * decay), dim=-1).to(torch.get_default_dtype()))

    def attend(self, h):
        q, k, v = (split_heads(f(h)) for f in (self.to_q, self.to_k, self.to_v))
        q = q * HD ** -0.5
        rel = self.to_rel_k(self.basis).view(T, T, H, HD)
        logits = torch.einsum("bhid,bhjd->bhij", q + self.rel_content_bias, k) + torch.einsum("bhid,ijhd->bhij", q + self.rel_pos_bias, rel)
        return self.to_out(join_heads(logits.softmax(dim=-1) @ v))

    def forward(self, x):
        x = self.attend(self.norm(x)) + x
        return self.ff(self.ff_norm(x)) + x


class ConditionedDiffusionLayer(nn.Module):
    """Tokens are modulated by single representations: a sigmoid scale and a shift in front, a sigmoid gate behind, biases -2 there."""

    class AdaptiveNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_a, self.norm_s = nn.LayerNorm(D, elementwise_affine=False, bias=False), nn.LayerNorm(D, bias=False)
            self.scale, self.shift = proj(D, D, True), proj(D, D)

        def forward(self, a, s):
            s = self.norm_s(s)
            return torch.sigmoid(self.scale(s)) * self.norm_a(a) + self.shift(s)

    def __init__(self):
        super().__init__()
        self.register_buffer("s", torch.sin(torch.arange(float(T * D))).view(1, T, D))
        self.ada_attn, self.ada_ff = self.AdaptiveNorm(), self.AdaptiveNorm()
        self.qkvg, self.o, self.gate_attn, self.gate_ff = proj(D, 4 * D), proj(D, D), proj(D, D, True), proj(D, D, True)
        self.swish, self.b = proj(D, 4 * D), proj(2 * D, D)
        for gate in (self.gate_attn, self.gate_ff):
            nn.init.zeros_(gate.weight)
            nn.init.constant_(gate.bias, -2.0)

    def attention(self, a):
        q, k, v, g = self.qkvg(self.ada_attn(a, self.s)).chunk(4, dim=-1)
        y = join_heads(F.scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v)))
        return self.gate_attn(self.s).sigmoid() * self.o(y * g.sigmoid())

    def transition(self, a):
        u, v = self.swish(self.ada_ff(a, self.s)).chunk(2, dim=-1)
        return self.gate_ff(self.s).sigmoid() * self.b(F.silu(u) * v)

    def forward(self, a):
        a = a + self.attention(a)
        a = a + self.transition(a)
        return a


class GraphGpsLayer(nn.Module):
    """A message passing step and attention, each with its skip and batch norm; their sum goes through a net with skip and batch norm."""

    def __init__(self):
        super().__init__()
        self.norm1_local, self.norm1_attn, self.norm2 = nn.BatchNorm1d(D), nn.BatchNorm1d(D), nn.BatchNorm1d(D)
        self.local, self.attn = proj(2 * D, D), nn.MultiheadAttention(D, H, batch_first=True)
        self.ff_linear1, self.ff_linear2 = proj(D, 2 * D, True), proj(2 * D, D, True)

    @staticmethod
    def nodes(norm, x):
        return norm(x.flatten(0, 1)).view_as(x)

    def forward(self, x):
        near = torch.roll(x, 1, dims=1) + torch.roll(x, -1, dims=1)
        h_local = self.nodes(self.norm1_local, x + F.relu(self.local(torch.cat((x, near), dim=-1))))
        h_attn = self.nodes(self.norm1_attn, x + self.attn(x, x, x, need_weights=False)[0])
        h = sum([h_local, h_attn])
        return self.nodes(self.norm2, h + self.ff_linear2(F.relu(self.ff_linear1(h))))


class SoftmaxAggregation(nn.Module):
    """Res+ order: norm, ReLU, messages weighed over the neighbours by a softmax of themselves times a learned temperature, a net, sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.gain_t = nn.LayerNorm(D), nn.Parameter(torch.tensor(1.0))
        self.mlp = nn.Sequential(proj(D, 2 * D), nn.LayerNorm(2 * D), nn.ReLU(), proj(2 * D, D))
        i = torch.arange(T)
        self.register_buffer("edge", ((i[:, None] - i) % T <= 2)[None, :, :, None])

    def branch(self, x):
        h = F.relu(self.norm(x))
        message = (h + 1e-7)[:, None].expand(-1, T, -1, -1)
        score = (message * self.gain_t).masked_fill(~self.edge, -torch.inf)
        return self.mlp((torch.softmax(score, dim=2) * message).sum(dim=2) + h)

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ recommendation
class HierarchicalTransducer(nn.Module):
    """HSTU: four parts by a SiLU, scores by a SiLU over the length, a norm, a gate, one map."""

    def __init__(self):
        super().__init__()
        self._uvqk = nn.Parameter(torch.empty(D, 4 * D).normal_(mean=0, std=D ** -0.5))
        self._o, self.norm_in, self.norm_out = proj(D, D, True), nn.LayerNorm(D), nn.LayerNorm(D)

    def branch(self, x):
        u, v, q, k = torch.split(F.silu(torch.mm(self.norm_in(x).flatten(0, 1), self._uvqk)).view(*x.shape[:2], -1), [D] * 4, dim=-1)
        n = x.size(1)
        qk = torch.einsum("bnhd,bmhd->bhnm", q.unflatten(-1, (H, HD)), k.unflatten(-1, (H, HD)))
        qk = F.silu(qk) / n * torch.ones(n, n, dtype=x.dtype, device=x.device).tril()
        y = torch.einsum("bhnm,bmhd->bnhd", qk, v.unflatten(-1, (H, HD))).reshape(x.shape)
        return self._o(u * self.norm_out(y))

    def forward(self, x):
        return self.branch(x) + x


class SequentialRecommender(nn.Module):
    """SASRec: normed queries are carried, keys and values are raw, the net has a skip of its own behind a second norm."""

    def __init__(self):
        super().__init__()
        self.attention_layernorm, self.forward_layernorm = nn.LayerNorm(D, eps=1e-8), nn.LayerNorm(D, eps=1e-8)
        self.attention_layer = nn.MultiheadAttention(D, 1)
        self.conv1, self.conv2 = nn.Conv1d(D, D, kernel_size=1), nn.Conv1d(D, D, kernel_size=1)
        self.register_buffer("attention_mask", ~torch.tril(torch.ones((T, T), dtype=torch.bool)))

    def feed_forward(self, inputs):
        outputs = self.conv2(F.relu(self.conv1(inputs.transpose(-1, -2)))).transpose(-1, -2)
        return outputs + inputs

    def forward(self, seqs):
        seqs = torch.transpose(seqs, 0, 1)
        Q = self.attention_layernorm(seqs)
        mha_outputs, _ = self.attention_layer(Q, seqs, seqs, attn_mask=self.attention_mask)
        seqs = Q + mha_outputs
        seqs = torch.transpose(seqs, 0, 1)
        seqs = self.forward_layernorm(seqs)
        return self.feed_forward(seqs)


# ------------------------------------------------------------ vision, speech
class RepMixerBlock(nn.Module):
    """The token mixer's two batch-normed paths less the batch-normed stream; a depthwise convolution with batch norm before the net."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn_conv, self.bn_skip, self.bn_norm = nn.Conv1d(D, D, 3, padding=1, groups=D, bias=False), *(nn.BatchNorm1d(D) for _ in range(3))
        self.gain_mixer = nn.Parameter(torch.ones(D, 1))
        self.dw = nn.Sequential(nn.Conv1d(D, D, 7, padding=3, groups=D, bias=False), nn.BatchNorm1d(D))
        self.fc1, self.fc2, self.gain_ffn = nn.Conv1d(D, 3 * D, 1), nn.Conv1d(3 * D, D, 1), nn.Parameter(torch.ones(D, 1))

    def tokens(self, x):
        mixed = self.bn_conv(self.conv(x)) + self.bn_skip(x)
        return self.gain_mixer * (mixed - self.bn_norm(x))

    def convffn(self, x):
        return self.gain_ffn * self.fc2(F.gelu(self.fc1(self.dw(x))))

    def forward(self, x):
        x = x.transpose(1, 2)
        x = x + self.tokens(x)
        x = x + self.convffn(x)
        return x.transpose(1, 2)


class ScaledVitBlock(nn.Module):
    """DINO: layer scales of 1e-5, no bias on keys, a SwiGLU."""

    def __init__(self, init_values=1e-5):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.proj, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), proj(D, 3 * D, True), proj(D, D, True), GatedMlp()
        self.gain_1, self.gain_2 = (nn.Parameter(init_values * torch.ones(D)) for _ in range(2))
        self.register_buffer("bias_mask", torch.cat((torch.ones(D), torch.zeros(D), torch.ones(D))))

    def attn(self, x):
        B, N, C = x.shape
        qkv = F.linear(x, self.qkv.weight, self.qkv.bias * self.bias_mask).reshape(B, N, 3, H, C // H)
        q, k, v = [t.transpose(1, 2) for t in torch.unbind(qkv, 2)]
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))

    def forward(self, x):
        x = x + self.gain_1 * self.attn(self.norm1(x))
        return x + self.gain_2 * self.mlp(self.norm2(x))


class RandomMixing(nn.Module):
    """A frozen random mixing of places by a softmax, made once; StarReLU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("random_matrix", torch.softmax(torch.rand(T, T), dim=-1))
        self.norm1, self.norm2, self.fc1, self.fc2 = nn.LayerNorm(D, bias=False), nn.LayerNorm(D, bias=False), proj(D, 4 * D), proj(4 * D, D)
        self.gain_star, self.gain_bias = nn.Parameter(torch.tensor([0.8944])), nn.Parameter(torch.tensor([-0.4472]))

    def mlp(self, x):
        return self.fc2(self.gain_star * F.relu(self.fc1(x)) ** 2 + self.gain_bias)

    def forward(self, x):
        x = x + torch.einsum("mn,bnc->bmc", self.random_matrix, self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class WhisperGuard(nn.Module):
    """Values are clamped where half precision would overflow, and only in half precision."""

    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm, self.final_layer_norm, self.self_attn = nn.LayerNorm(D), nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True)
        self.fc1, self.fc2 = proj(D, 4 * D, True), proj(4 * D, D, True)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states, hidden_states, hidden_states)
        hidden_states = residual + F.dropout(hidden_states, p=0.1, training=False)
        residual = hidden_states
        hidden_states = self.fc2(F.gelu(self.fc1(self.final_layer_norm(hidden_states))))
        hidden_states = residual + hidden_states
        if hidden_states.dtype == torch.float16:
            clamp_value = torch.finfo(hidden_states.dtype).max - 1000
            hidden_states = torch.clamp(hidden_states, min=-clamp_value, max=clamp_value)
        return hidden_states


class BranchMerge(nn.Module):
    """E-Branchformer: half a net, attention and a convolutional gate merged by a depthwise convolution, half a net, a norm at the end."""

    def __init__(self):
        super().__init__()
        self.norm_ff_macaron, self.norm_mha, self.norm_mlp, self.norm_ff, self.norm_final = (nn.LayerNorm(D) for _ in range(5))
        self.ff_macaron, self.ff = (nn.Sequential(proj(D, 2 * D, True), nn.SiLU(), proj(2 * D, D, True)) for _ in range(2))
        self.attn, self.up, self.down, self.csgu_norm = nn.MultiheadAttention(D, H, batch_first=True), proj(D, 4 * D), proj(2 * D, D), nn.LayerNorm(2 * D)
        self.csgu, self.fusion = (nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D) for _ in range(2))
        self.merge = proj(2 * D, D)

    def cgmlp(self, x):
        r, g = F.gelu(self.up(x)).chunk(2, dim=-1)
        return self.down(r * self.csgu(self.csgu_norm(g).transpose(1, 2)).transpose(1, 2))

    def forward(self, x):
        x = x + 0.5 * self.ff_macaron(self.norm_ff_macaron(x))
        h = self.norm_mha(x)
        x_concat = torch.cat([self.attn(h, h, h)[0], self.cgmlp(self.norm_mlp(x))], dim=-1)
        x = x + self.merge(x_concat + self.fusion(x_concat.transpose(1, 2)).transpose(1, 2))
        x = x + 0.5 * self.ff(self.norm_ff(x))
        return self.norm_final(x)


# ------------------------------------------------------------ diffusion
class SingleModulation(nn.Module):
    """PixArt: one modulation for all layers, a table of this layer is added to it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("t6", torch.cos(torch.arange(6.0 * D)).view(1, 6, D) * 0.1)
        self.scale_shift_table = nn.Parameter(torch.randn(6, D) / D ** 0.5)
        self.norm1, self.norm2 = (nn.LayerNorm(D, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.proj, self.mlp = proj(D, 3 * D, True), proj(D, D, True), nn.Sequential(proj(D, 128, True), nn.GELU(approximate="tanh"), proj(128, D, True))

    def attn(self, h):
        q, k, v = (split_heads(t) for t in self.qkv(h).chunk(3, dim=-1))
        return self.proj(join_heads(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = (self.scale_shift_table[None] + self.t6).chunk(6, dim=1)
        x = x + gate_msa * self.attn(self.norm1(x) * (1 + scale_msa) + shift_msa)
        x = x + gate_mlp * self.mlp(self.norm2(x) * (1 + scale_mlp) + shift_mlp)
        return x


class TanhGatedSandwich(nn.Module):
    """Lumina: a modulated norm in front, a norm behind, and a tanh of the condition as gate."""

    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.sin(torch.arange(float(D)))[None])
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), proj(D, 4 * D, True))
        self.attention_norm1, self.attention_norm2, self.ffn_norm1, self.ffn_norm2 = (nn.RMSNorm(D, eps=1e-5) for _ in range(4))
        self.qkv, self.out, self.feed_forward, self.q_norm, self.k_norm = proj(D, 3 * D), proj(D, D), GatedMlp(), nn.LayerNorm(HD), nn.LayerNorm(HD)

    def attention(self, h):
        q, k, v = (split_heads(t) for t in torch.split(self.qkv(h), D, dim=-1))
        q, k = rotary(self.q_norm(q), self.k_norm(k))
        return self.out(join_heads(F.scaled_dot_product_attention(q, k, v)))

    def sublayers(self):
        scale_a, gate_a, scale_m, gate_m = self.adaLN_modulation(self.c).unsqueeze(1).chunk(4, dim=-1)
        a = lambda x: gate_a.tanh() * self.attention_norm2(self.attention(self.attention_norm1(x) * (1 + scale_a)))
        m = lambda x: gate_m.tanh() * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale_m)))
        return a, m

    def forward(self, x):
        for f in self.sublayers():
            x = x + f(x)
        return x


class LinearDiffusionLayer(nn.Module):
    """Sana: ReLU features, one sum over places, a gated depthwise convolution in the net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.proj = nn.LayerNorm(D), nn.LayerNorm(D), proj(D, 3 * D), proj(D, D)
        self.inverted, self.depth, self.point = nn.Conv1d(D, 4 * D, 1), nn.Conv1d(4 * D, 4 * D, 3, padding=1, groups=4 * D), nn.Conv1d(2 * D, D, 1)

    def attn(self, h):
        q, k, v = (split_heads(t).transpose(-1, -2) for t in self.qkv(h).chunk(3, dim=-1))
        q, k = F.relu(q), F.relu(k)
        v = F.pad(v, (0, 0, 0, 1), mode="constant", value=1.0)
        out = (v @ k.transpose(-1, -2)) @ q
        out = out[:, :, :-1] / (out[:, :, -1:] + 1e-8)
        return self.proj(join_heads(out.transpose(-1, -2)))

    def mlp(self, h):
        y, gate = self.depth(F.silu(self.inverted(h.transpose(1, 2)))).chunk(2, dim=1)
        return self.point(y * F.silu(gate)).transpose(1, 2)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_FREE = dict(_TWO, logits_bounded={0: False})
_ONE = dict(output_bounded={0: False})
TRUTH = {
    "SandwichWithUnitQk": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="peri and QK-norm."),
    "LightningPostNorm": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=False, **_TWO, why="norms on the stream; the last step is a map of what is normed."),
    "HymbaHeads": dict(_PRE, **_FREE, why="pre-norm; a map behind the norms."),
    "ExponentialGateMatrixMemory": dict(_CONV, **_ONE, why="pre-norm; the normalizer is floored."),
    "ProteinLayer": dict(_PRE, **_FREE, why="pre-norm."),
    "GenomeAttention": dict(_PRE, **_FREE, why="pre-norm."),
    "ConditionedDiffusionLayer": dict(_PRE, **_FREE, why="pre-norm; gates are 0.12 and know no data."),
    "GraphGpsLayer": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, why="a batch norm on every sum."),
    "SoftmaxAggregation": dict(_PRE, **_ONE, logits_bounded={0: True}, why="pre-norm; scores are normed values times a temperature, no map between."),
    "HierarchicalTransducer": dict(_CONV, **_ONE, why="pre-norm, no softmax."),
    "SequentialRecommender": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="the normed value is carried, twice."),
    "RepMixerBlock": dict(_CONV, output_bounded={0: True, 1: False}, why="three batch norms; then a map."),
    "ScaledVitBlock": dict(_B, identity_gain=1.0, softmax=True, **_FREE, why="pre-norm with small steps: no word on growth."),
    "RandomMixing": dict(_B, identity_gain=1.0, growth_fixed="linear", output_bounded={0: True, 1: False}, why="a frozen stochastic matrix."),
    "WhisperGuard": dict(_PRE, **_FREE, why="pre-norm."),
    "BranchMerge": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={1: False}, why="a norm at the end of the block."),
    "SingleModulation": dict(_PRE, **_FREE, why="pre-norm; gates are weights."),
    "TanhGatedSandwich": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="a tanh times a norm."),
    "LinearDiffusionLayer": dict(_CONV, **_TWO, why="pre-norm."),
}
