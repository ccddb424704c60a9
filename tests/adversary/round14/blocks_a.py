"""Blocks as they are written for production: most are plainly sound, a few are so only at a second look."""

import math
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def linear(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def heads(t, h=H):
    return t.reshape(t.shape[0], t.shape[1], h, -1).transpose(1, 2)


def merge(t):
    return t.transpose(1, 2).reshape(t.shape[0], t.shape[2], -1)


def rope(t, base=10000.0):
    n, d = t.shape[-2:]
    inv = base ** (-torch.arange(0, d, 2, device=t.device, dtype=t.dtype) / d)
    ang = torch.arange(n, device=t.device, dtype=t.dtype)[:, None] * inv
    a, b = t[..., 0::2], t[..., 1::2]
    return torch.stack((a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()), dim=-1).flatten(-2)


class T5Norm(nn.Module):
    """Root mean square, statistics in float32 at least, cast back before the gain."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(dim)), eps

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.promote_types(hidden_states.dtype, torch.float32)).pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon)).to(self.weight.dtype)


class Mlp(nn.Module):
    def __init__(self, hidden=64, act=F.silu, bias=False):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(D, hidden, bias), linear(D, hidden, bias), linear(hidden, D, bias)
        self.act = act

    def forward(self, x):
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class OneMatrixParallel(nn.Module):
    """One matrix in for q, k, v and the net, one matrix out of both, queries and keys layer-normed by head."""

    def __init__(self, ff=96):
        super().__init__()
        self.sizes = (D, D, D, ff)
        self.norm, self.in_proj, self.out_proj = nn.LayerNorm(D), linear(D, sum(self.sizes)), linear(D + ff, D)
        self.q_norm, self.k_norm = nn.LayerNorm(HD), nn.LayerNorm(HD)

    def branch(self, x):
        q, k, v, ff = torch.split(self.in_proj(self.norm(x)), self.sizes, dim=-1)
        q, k, v = (heads(t) for t in (q, k, v))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.out_proj(torch.cat((merge(y), F.gelu(ff)), dim=-1))

    def forward(self, x):
        return x + self.branch(x)


class ResidualInFloat32(nn.Module):
    """The stream is kept in float32 or wider whatever comes in; the mixer is a selective scan."""

    def __init__(self, inner=48, state=4, rank=2):
        super().__init__()
        self.norm, self.in_proj, self.out_proj = T5Norm(D), linear(D, 2 * inner), linear(inner, D)
        self.conv1d = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj, self.dt_proj = linear(inner, rank + 2 * state), linear(rank, inner, True)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, state + 1).repeat(inner, 1)))
        self.D_skip, self.split = nn.Parameter(torch.ones(inner)), (rank, state, state)

    def mixer(self, h):
        x, z = self.in_proj(h).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., : h.shape[1]].transpose(1, 2))
        dt, B, C = self.x_proj(x).split(self.split, dim=-1)
        dt, A = F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log)
        s, ys = torch.zeros_like(x[:, 0, :, None] * A), []
        for t in range(h.shape[1]):
            s = torch.exp(dt[:, t, :, None] * A) * s + (dt[:, t] * x[:, t])[..., None] * B[:, t, None]
            ys.append((s * C[:, t, None]).sum(-1))
        return self.out_proj((torch.stack(ys, 1) + x * self.D_skip) * F.silu(z))

    def forward(self, hidden_states, residual: Optional[torch.Tensor] = None):
        residual = hidden_states + residual if residual is not None else hidden_states
        hidden_states = self.norm(residual)
        residual = residual.to(torch.promote_types(residual.dtype, torch.float32))
        return self.mixer(hidden_states) + residual


class MultiScaleRetention(nn.Module):
    """Decays by head, a group norm without gains over each head, a swish gate; a gated net."""

    def __init__(self):
        super().__init__()
        self.retention_layer_norm, self.final_layer_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkvg, self.o, self.ffn = linear(D, 4 * D), linear(D, D), Mlp(48, F.gelu)
        self.group_norm = nn.RMSNorm(HD, elementwise_affine=False)
        self.register_buffer("gamma", 1 - 2.0 ** (-5 - torch.arange(H)))

    def retention(self, h):
        q, k, v, g = self.qkvg(h).chunk(4, -1)
        q, k, v = rope(heads(q)), rope(heads(k) * HD ** -0.5), heads(v)
        i = torch.arange(h.shape[1], device=h.device)
        decay = (self.gamma[:, None, None] ** (i[:, None] - i).clamp(min=0)) * (i[:, None] >= i)
        out = self.group_norm((q @ k.transpose(-1, -2) * decay) @ v)
        return self.o(F.silu(g) * merge(out))

    def forward(self, x):
        x = x + self.retention(self.retention_layer_norm(x))
        return x + self.ffn(self.final_layer_norm(x))


class GatedDeltaRule(nn.Module):
    """Unit keys, write strength and decay as gates, a gated norm behind the state."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.qkvz, self.ba, self.o_proj = T5Norm(D), linear(D, 4 * D), linear(D, 2 * H), linear(D, D)
        self.A_log, self.dt_bias, self.o_norm = nn.Parameter(torch.zeros(H)), nn.Parameter(torch.ones(H)), T5Norm(HD)

    def mix(self, h):
        q, k, v, z = self.qkvz(h).chunk(4, -1)
        q, k, v = (heads(F.silu(t)) for t in (q, k, v))
        q, k = F.normalize(q, p=2, dim=-1) * HD ** -0.5, F.normalize(k, p=2, dim=-1)
        b, a = self.ba(h).chunk(2, -1)
        beta, g = b.sigmoid().transpose(1, 2), (-self.A_log.exp() * F.softplus(a + self.dt_bias)).transpose(1, 2)
        S, out = h.new_zeros(h.shape[0], H, HD, HD), []
        for t in range(h.shape[1]):
            S = S * g[:, :, t].exp()[..., None, None]
            kt = k[:, :, t]
            seen = (S * kt[..., None]).sum(-2)
            S = S + kt[..., None] * ((v[:, :, t] - seen) * beta[:, :, t, None])[..., None, :]
            out.append((S * q[:, :, t, :, None]).sum(-2))
        return self.o_proj(merge(self.o_norm(torch.stack(out, 2))) * F.silu(z))

    def forward(self, hidden_states):
        return torch.add(hidden_states, self.mix(self.input_layernorm(hidden_states)))


class EluFeatures(nn.Module):
    """Positive features, sums over all places divided by the sum of the features."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.to_qkv, self.to_out, self.net = nn.LayerNorm(D), nn.LayerNorm(D), linear(D, 3 * D), linear(D, D), Mlp()

    def attn(self, h):
        q, k, v = map(heads, self.to_qkv(h).chunk(3, dim=-1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bhnd,bhne->bhde", k, v)
        z = torch.einsum("bhnd,bhd->bhn", q, k.sum(dim=2)).clamp(min=1e-6)
        return self.to_out(merge(torch.einsum("bhnd,bhde->bhne", q, kv) / z[..., None]))

    def forward(self, x):
        x = self.attn(self.ln1(x)) + x
        x = self.net(self.ln2(x)) + x
        return x


class ResponseNormConv(nn.Module):
    """Depthwise convolution of the raw stream, norm, expansion, global response norm, back."""

    def __init__(self):
        super().__init__()
        self.dwconv = nn.Conv1d(D, D, 5, padding=2, groups=D)
        self.norm, self.pwconv1, self.pwconv2 = nn.LayerNorm(D, eps=1e-6), linear(D, 4 * D, True), linear(4 * D, D, True)
        self.grn_gain, self.grn_beta = nn.Parameter(torch.zeros(4 * D)), nn.Parameter(torch.zeros(4 * D))

    def forward(self, x):
        shortcut = x
        x = self.pwconv1(self.norm(self.dwconv(x.transpose(1, 2)).transpose(1, 2)))
        x = F.gelu(x)
        gx = torch.norm(x, p=2, dim=1, keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        x = self.grn_gain * (x * nx) + self.grn_beta + x
        return shortcut + self.pwconv2(x)


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimeModulated(nn.Module):
    """adaLN-Zero for one time step: six vectors from a zero map, norms without gains."""

    def __init__(self):
        super().__init__()
        self.register_buffer("t_emb", torch.cat([torch.sin(torch.arange(16.0)), torch.cos(torch.arange(16.0))])[None])
        self.norm1, self.norm2 = (nn.LayerNorm(D, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn, self.mlp = nn.MultiheadAttention(D, H, batch_first=True), nn.Sequential(linear(D, 128, True), nn.GELU("tanh"), linear(128, D, True))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))
        nn.init.constant_(self.adaLN_modulation[-1].weight, 0)
        nn.init.constant_(self.adaLN_modulation[-1].bias, 0)

    def forward(self, x):
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.adaLN_modulation(self.t_emb).chunk(6, dim=1)
        h = modulate(self.norm1(x), shift_a, scale_a)
        x = x + gate_a.unsqueeze(1) * self.attn(h, h, h, need_weights=False)[0]
        return x + gate_m.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_m, scale_m))


class LatentAttentionWithSharedExpert(nn.Module):
    """Latent keys and values with a rotary part of their own; sigmoid scores, a selection bias, one expert for all."""

    def __init__(self, latent=16, rot=4, n_exp=4, top=2):
        super().__init__()
        self.latent, self.rot, self.top = latent, rot, top
        self.input_layernorm, self.post_attention_layernorm, self.kv_a_layernorm = T5Norm(D), T5Norm(D), T5Norm(latent)
        self.q_proj, self.kv_a_proj, self.kv_b_proj, self.o_proj = linear(D, H * (HD + rot)), linear(D, latent + rot), linear(latent, 2 * D), linear(D, D)
        self.gate, self.experts, self.shared = linear(D, n_exp), nn.ModuleList(Mlp(24) for _ in range(n_exp)), Mlp(24)
        self.register_buffer("e_score_correction_bias", torch.zeros(n_exp))

    def self_attn(self, h):
        q_nope, q_pe = heads(self.q_proj(h)).split((HD, self.rot), dim=-1)
        c, k_pe = self.kv_a_proj(h).split((self.latent, self.rot), dim=-1)
        k_nope, v = heads(self.kv_b_proj(self.kv_a_layernorm(c))).chunk(2, dim=-1)
        q = torch.cat((q_nope, rope(q_pe)), -1)
        k = torch.cat((k_nope, rope(k_pe[:, None]).expand(-1, H, -1, -1)), -1)
        return self.o_proj(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(HD + self.rot) ** -0.5)))

    def moe(self, h):
        scores = self.gate(h).sigmoid()
        chosen = (scores + self.e_score_correction_bias).topk(self.top, dim=-1).indices
        mask = torch.zeros_like(scores).scatter(-1, chosen, 1.0)
        w = scores * mask
        w = w / (w.sum(-1, keepdim=True) + 1e-20) * 1.5
        return sum(w[..., i, None] * e(h) for i, e in enumerate(self.experts)) + self.shared(h)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.moe(self.post_attention_layernorm(x))


class PersistentSlots(nn.Module):
    """All-attention: no net; learned keys and values stand beside those of the tokens."""

    def __init__(self, slots=12):
        super().__init__()
        self.norm, self.query, self.key_value, self.output = nn.LayerNorm(D), linear(D, D), linear(D, 2 * D), linear(D, D)
        self.pk, self.pv = nn.Parameter(torch.randn(H, slots, HD)), nn.Parameter(torch.randn(H, slots, HD))

    def branch(self, x):
        h = self.norm(x)
        q = heads(self.query(h))
        k, v = map(heads, self.key_value(h).chunk(2, -1))
        k = torch.cat([self.pk.expand(len(x), -1, -1, -1), k], dim=2)
        v = torch.cat([self.pv.expand(len(x), -1, -1, -1), v], dim=2)
        return self.output(merge(torch.softmax(q @ k.mT / math.sqrt(HD), -1) @ v))

    def forward(self, x):
        return self.branch(x) + x


class FourierPre(nn.Module):
    """The real part of a transform over places and channels, behind a norm; no weight mixes anything."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def branch(self, x):
        return torch.fft.fft(torch.fft.fft(self.norm(x), dim=-1, norm="ortho"), dim=-2, norm="ortho").real

    def forward(self, x):
        return x + self.branch(x)


class BucketBias(nn.Module):
    """T5: no bias, no division by the root, a table of relative positions, ReLU."""

    def __init__(self):
        super().__init__()
        self.layer_norm0, self.layer_norm1 = T5Norm(D), T5Norm(D)
        self.q, self.k, self.v, self.o = linear(D, D), linear(D, D), linear(D, D), linear(D, D)
        nn.init.normal_(self.q.weight, std=(D * HD) ** -0.5)
        self.relative_attention_bias = nn.Embedding(2 * T, H)
        self.wi, self.wo = linear(D, 4 * D), linear(4 * D, D)

    def forward(self, hidden_states):
        n = hidden_states.shape[1]
        normed = self.layer_norm0(hidden_states)
        pos = torch.arange(n, device=normed.device)
        position_bias = self.relative_attention_bias(pos[None] - pos[:, None] + T).permute(2, 0, 1).unsqueeze(0)
        scores = torch.matmul(heads(self.q(normed)), heads(self.k(normed)).transpose(3, 2))
        scores = scores + position_bias
        attn = F.softmax(scores, dim=-1).type_as(scores)
        hidden_states = hidden_states + self.o(merge(attn @ heads(self.v(normed))))
        return hidden_states + self.wo(F.relu(self.wi(self.layer_norm1(hidden_states))))


class ThreeExtraNorms(nn.Module):
    """A norm behind attention, factors on heads, a norm in the middle of the net."""

    def __init__(self):
        super().__init__()
        self.ln_in, self.ln_out, self.ln_ff, self.ln_mid = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(4 * D)
        self.qkv, self.proj, self.fc1, self.fc2 = linear(D, 3 * D), linear(D, D), linear(D, 4 * D, True), linear(4 * D, D, True)
        self.gain_head = nn.Parameter(torch.ones(H))

    def attn(self, x):
        q, k, v = map(heads, self.qkv(self.ln_in(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) * self.gain_head[:, None, None]
        return self.ln_out(self.proj(merge(y)))

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.fc2(self.ln_mid(F.gelu(self.fc1(self.ln_ff(x)))))


class GatedOutOfAttention(nn.Module):
    """The query map makes a gate too: a sigmoid on each head's output; zero-centred norms on q and k; rotary on a half."""

    def __init__(self):
        super().__init__()
        self.norm, self.q_proj, self.kv_proj, self.o_proj = T5Norm(D), linear(D, 2 * D), linear(D, D), linear(D, D)
        self.gain_q, self.gain_k = nn.Parameter(torch.zeros(HD)), nn.Parameter(torch.zeros(HD))

    @staticmethod
    def centred(x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w)

    def branch(self, x):
        h = self.norm(x)
        q, gate = self.q_proj(h).unflatten(-1, (H, 2 * HD)).chunk(2, dim=-1)
        k, v = self.kv_proj(h).unflatten(-1, (2, 2, HD)).unbind(2)          # two heads of keys and of values
        q, k = self.centred(q, self.gain_q).transpose(1, 2), self.centred(k, self.gain_k).transpose(1, 2)
        q, k = (torch.cat((rope(t[..., : HD // 2]), t[..., HD // 2:]), -1) for t in (q, k))
        k, v = k.repeat_interleave(2, 1), v.transpose(1, 2).repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.o_proj((y * torch.sigmoid(gate)).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class SinksAndClampedExperts(nn.Module):
    """A learned sink by head, a window of four, biases; experts with a clamped SwiGLU of two chosen by the softmax of their scores."""

    def __init__(self, n_exp=4, limit=7.0):
        super().__init__()
        self.limit, self.norm1, self.norm2 = limit, T5Norm(D), T5Norm(D)
        self.qkv, self.out, self.sinks = linear(D, 3 * D, True), linear(D, D, True), nn.Parameter(torch.zeros(H))
        self.router = linear(D, n_exp, True)
        self.w1, self.w2 = nn.Parameter(torch.randn(n_exp, D, 48) / D ** 0.5), nn.Parameter(torch.randn(n_exp, 24, D) / 24 ** 0.5)

    def attention(self, x):
        n = x.shape[1]
        q, k, v = map(heads, self.qkv(self.norm1(x)).split(D, dim=-1))
        qk = torch.einsum("bhqd,bhkd->bhqk", rope(q), rope(k)) * HD ** -0.5
        i = torch.arange(n, device=x.device)
        far = (i[None] > i[:, None]) | (i[:, None] - i[None] >= 4)
        qk = qk.masked_fill(far, -math.inf)
        qk = torch.cat([qk, self.sinks.reshape(1, H, 1, 1).expand(x.shape[0], -1, n, -1)], dim=-1)
        w = torch.softmax(qk, dim=-1)[..., :-1]
        return x + self.out(merge(w @ v))

    def moe(self, x):
        t = self.norm2(x)
        top, index = torch.topk(self.router(t), k=2, dim=-1)
        share = torch.zeros_like(self.router(t)).scatter(-1, index, F.softmax(top, dim=-1))
        h = torch.einsum("btd,edf->btef", t, self.w1)
        glu, lin = h[..., ::2].clamp(max=self.limit), h[..., 1::2].clamp(-self.limit, self.limit)
        h = glu * torch.sigmoid(1.702 * glu) * (lin + 1)
        return x + torch.einsum("btef,efd,bte->btd", h, self.w2, share)

    def forward(self, x):
        return self.moe(self.attention(x))


class ShortGatedConv(nn.Module):
    """Three parts from one map: a gate before and a gate behind a causal depthwise convolution of three."""

    def __init__(self):
        super().__init__()
        self.operator_norm, self.ffn_norm, self.feed_forward = T5Norm(D), T5Norm(D), Mlp()
        self.in_proj, self.out_proj, self.conv = linear(D, 3 * D), linear(D, D), nn.Conv1d(D, D, 3, groups=D, padding=2, bias=False)

    def operator(self, h):
        B, C, v = self.in_proj(h).transpose(-1, -2).chunk(3, dim=-2)
        return self.out_proj((C * self.conv(B * v)[..., : h.shape[1]]).transpose(-1, -2).contiguous())

    def forward(self, x):
        h = self.operator(self.operator_norm(x)) + x
        return h + self.feed_forward.forward(self.ffn_norm(h))


class LogLengthTemperature(nn.Module):
    """Unit queries and keys, a trained factor for each head times the log of the length."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj, self.tau = nn.RMSNorm(D), linear(D, 3 * D), linear(D, D), nn.Parameter(torch.full((H, 1, 1), 2.0))

    def branch(self, x):
        q, k, v = map(heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        a = F.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1) * (self.tau * math.log(x.size(1)))
        return self.proj(merge(a.softmax(dim=-1) @ v))

    def forward(self, x):
        return x + self.branch(x)


class AlternatingWindows(nn.Module):
    """A boolean band for the first sublayer, all places for the second; gated nets in one map."""

    def __init__(self):
        super().__init__()
        i = torch.arange(T)
        self.register_buffer("band", (i[:, None] - i[None]).abs() <= 3)
        self.norms = nn.ModuleList(nn.LayerNorm(D, bias=False) for _ in range(4))
        self.Wqkv, self.Wo = nn.ModuleList(linear(D, 3 * D) for _ in range(2)), nn.ModuleList(linear(D, D) for _ in range(2))
        self.Wi, self.Wf = nn.ModuleList(linear(D, 96) for _ in range(2)), nn.ModuleList(linear(48, D) for _ in range(2))

    def forward(self, x):
        for j, mask in enumerate((self.band, None)):
            q, k, v = self.Wqkv[j](self.norms[2 * j](x)).view(*x.shape[:2], 3, H, HD).transpose(1, 3).unbind(2)
            x = x + self.Wo[j](merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
            a, g = self.Wi[j](self.norms[2 * j + 1](x)).chunk(2, -1)
            x = x + self.Wf[j](F.gelu(a) * g)
        return x


class SigmoidGateBehindNorm(nn.Module):
    """Sandwich; what the second norm gives is multiplied by a sigmoid of the normed stream."""

    def __init__(self):
        super().__init__()
        self.pre, self.post, self.net, self.gate = nn.RMSNorm(D), nn.RMSNorm(D), Mlp(), linear(D, D)

    def branch(self, x):
        h = self.pre(x)
        return torch.sigmoid(self.gate(h)) * self.post(self.net(h))

    def forward(self, x):
        return x + self.branch(x)


class SiluGateBehindNorm(SigmoidGateBehindNorm):
    """The same with a SiLU in the sigmoid's place."""

    def branch(self, x):
        h = self.pre(x)
        return F.silu(self.gate(h)) * self.post(self.net(h))


class DetachedStatistics(nn.Module):
    """The root mean square is a constant to the gradient."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(linear(D, 96, True), nn.Hardswish(), linear(96, D, True))

    def forward(self, x):
        with torch.no_grad():
            size = x.square().mean(-1, keepdim=True).add(1e-6).sqrt()
        return x + self.f(x / size)


class StraightThrough(nn.Module):
    """What goes to the stream is rounded to eighths, the gradient does not know."""

    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D), Mlp()

    def forward(self, x):
        y = self.body(self.norm(x))
        return x + (y + ((y * 8).round() / 8 - y).detach())


class HoulsbyInside(nn.Module):
    """Adapters behind each sublayer with skips of their own, before the sum."""

    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = linear(D, 8, True), linear(8, D, True)

        def forward(self, y):
            return y + self.up(F.relu(self.down(y)))

    def __init__(self):
        super().__init__()
        self.ln_a, self.ln_f, self.mha, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True), Mlp()
        self.adapter_a, self.adapter_f = self.Adapter(), self.Adapter()

    def forward(self, x):
        h = self.ln_a(x)
        x = x + self.adapter_a(self.mha(h, h, h)[0])
        return x + self.adapter_f(self.ff(self.ln_f(x)))


class DeepNormFixed(nn.Module):
    """Post-norm, the skip times (2 * 24) ** 0.25, small values and outputs."""

    def __init__(self, n=24):
        super().__init__()
        self.alpha, beta = (2 * n) ** 0.25, (8 * n) ** -0.25
        self.norm_a, self.norm_f, self.qkv, self.proj, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), linear(D, 3 * D), linear(D, D), Mlp()
        with torch.no_grad():
            for p in (self.qkv.weight[2 * D:], self.proj.weight, *self.ff.parameters()):
                p.mul_(beta)

    def attn(self, x):
        q, k, v = map(heads, self.qkv(x).chunk(3, -1))
        return self.proj(merge(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        x = self.norm_a(torch.add(self.attn(x), x, alpha=self.alpha))
        return self.norm_f(torch.add(self.ff(x), x, alpha=self.alpha))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_FREE = dict(output_bounded={0: False, 1: False}, logits_bounded={0: False})
TRUTH = {
    "OneMatrixParallel": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="pre-norm, parallel, root of 8 at most."),
    "ResidualInFloat32": dict(_CONV, output_bounded={0: False}, why="pre-norm."),
    "MultiScaleRetention": dict(_CONV, output_bounded={0: False, 1: False}, why="pre-norm."),
    "GatedDeltaRule": dict(_CONV, output_bounded={0: False}, why="pre-norm; a map behind the gated norm."),
    "EluFeatures": dict(_CONV, output_bounded={0: False, 1: False}, why="pre-norm."),
    "ResponseNormConv": dict(_CONV, output_bounded={0: False}, why="a norm behind the convolution."),
    "TimeModulated": dict(kind="block", identity_gain=1.0, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="gates are 0 at the start and hang on no data."),
    "LatentAttentionWithSharedExpert": dict(_PRE, **_FREE, why="pre-norm; shares sum to 1.5."),
    "PersistentSlots": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="pre-norm."),
    "FourierPre": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="an isometry of a normed value: no weights but gains."),
    "BucketBias": dict(_PRE, **_FREE, why="pre-norm."),
    "ThreeExtraNorms": dict(_PRE, output_bounded={0: True, 1: False}, logits_bounded={0: False}, why="a norm ends the first branch, a map the second."),
    "GatedOutOfAttention": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="pre-norm, QK-norm."),
    "SinksAndClampedExperts": dict(_PRE, why="pre-norm."),
    "ShortGatedConv": dict(_CONV, output_bounded={0: False, 1: False}, why="pre-norm."),
    "LogLengthTemperature": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="a cosine times 2 log 16."),
    "AlternatingWindows": dict(_PRE, output_bounded={i: False for i in range(4)}, logits_bounded={0: False, 2: False}, why="pre-norm, four sublayers."),
    "SigmoidGateBehindNorm": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="a sigmoid is below 1."),
    "SiluGateBehindNorm": dict(_CONV, output_bounded={0: False}, why="a SiLU is not."),
    "DetachedStatistics": dict(_CONV, output_bounded={0: False}, why="pre-norm."),
    "StraightThrough": dict(_CONV, output_bounded={0: False}, why="pre-norm, rounded."),
    "HoulsbyInside": dict(_PRE, **_FREE, why="the skips of the adapters are within the branch."),
    "DeepNormFixed": dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={0: False}, why="post-norm."),
}
