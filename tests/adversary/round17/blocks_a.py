"""Ordinary blocks of an ordinary day, as they are meant: language, vision, speech, diffusion, series, graphs, recommendation."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def heads(t, n=H):
    return t.unflatten(-1, (n, -1)).transpose(1, 2)


def flat(t):
    return t.transpose(1, 2).flatten(2)


def rope(t):
    half = t.shape[-1] // 2
    freq = 10000.0 ** (-torch.arange(half, device=t.device, dtype=t.dtype) / half)
    ang = torch.arange(t.shape[-2], device=t.device, dtype=t.dtype)[:, None] * freq
    t1, t2 = t[..., :half], t[..., half:]
    return torch.cat([t1 * ang.cos() - t2 * ang.sin(), t2 * ang.cos() + t1 * ang.sin()], dim=-1)


class Swiglu(nn.Module):
    def __init__(self, inner=64):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = lin(D, inner), lin(D, inner), lin(inner, D)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Mlp(nn.Module):
    def __init__(self, inner=64):
        super().__init__()
        self.fc1, self.act, self.drop, self.fc2 = lin(D, inner, True), nn.GELU(), nn.Dropout(0.1), lin(inner, D, True)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


# ------------------------------------------------------------ language
class KeyValueStore:
    """Keys and values of one layer, as they come."""

    def __init__(self):
        self.k = self.v = None

    def update(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


class CachedDecoderLayer(nn.Module):
    """Grouped heads, a cache object, a mask of the lowest number, softmax in float32."""

    def __init__(self, kv_heads=2):
        super().__init__()
        self.kv = kv_heads
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(D, eps=1e-6), nn.RMSNorm(D, eps=1e-6)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = lin(D, D), lin(D, kv_heads * HD), lin(D, kv_heads * HD), lin(D, D)
        self.mlp = Swiglu()

    def repeat_kv(self, t):
        b, n, s, d = t.shape
        return t[:, :, None].expand(b, n, H // n, s, d).reshape(b, H, s, d)

    def self_attn(self, h, cache):
        q, k, v = heads(self.q_proj(h)), heads(self.k_proj(h), self.kv), heads(self.v_proj(h), self.kv)
        q, k = rope(q), rope(k)
        k, v = cache.update(k, v)
        k, v = self.repeat_kv(k), self.repeat_kv(v)
        w = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(HD)
        mask = torch.full((h.shape[1], h.shape[1]), torch.finfo(h.dtype).min, dtype=h.dtype, device=h.device).triu(1)
        w = F.softmax(w + mask, dim=-1, dtype=torch.promote_types(w.dtype, torch.float32)).to(q.dtype)
        return self.o_proj(flat(w @ v))

    def forward(self, hidden_states, past=None):
        past = KeyValueStore() if past is None else past
        residual = hidden_states
        hidden_states = self.self_attn(self.input_layernorm(hidden_states), past)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.mlp(self.post_attention_layernorm(hidden_states))
        return residual + hidden_states


class HeadNormDecoder(nn.Module):
    """Queries and keys are normed head by head before the rotation; grouped heads by the switch of the function."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD), nn.RMSNorm(HD)
        self.qkv, self.out, self.mlp = lin(D, D + 2 * 2 * HD), lin(D, D), Swiglu()

    def attn(self, h):
        q, k, v = self.qkv(h).split([D, 2 * HD, 2 * HD], dim=-1)
        q, k = rope(self.q_norm(q.unflatten(-1, (H, HD))).transpose(1, 2)), rope(self.k_norm(k.unflatten(-1, (2, HD))).transpose(1, 2))
        k, v = k.repeat_interleave(2, dim=1), heads(v, 2).repeat_interleave(2, dim=1)
        return self.out(flat(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


class ReorderedNormDecoder(nn.Module):
    """Norms stand behind the parts and across all heads."""

    def __init__(self):
        super().__init__()
        self.post_attention_norm, self.post_ffn_norm, self.q_norm, self.k_norm = (nn.RMSNorm(D, eps=1e-6) for _ in range(4))
        self.q, self.k, self.v, self.o, self.mlp = lin(D, D), lin(D, D), lin(D, D), lin(D, D), Swiglu()

    def attn(self, x):
        q, k, v = heads(self.q_norm(self.q(x))), heads(self.k_norm(self.k(x))), heads(self.v(x))
        return self.o(flat(F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)))

    def forward(self, x):
        h = x + self.post_attention_norm(self.attn(x))
        return h + self.post_ffn_norm(self.mlp(h))


class CappedSandwich(nn.Module):
    """Unit-offset norms around each part, scores behind a soft cap of fifty, a window."""

    class Norm(nn.Module):
        def __init__(self, dim=D):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(dim))

        def forward(self, x):
            y = x.to(torch.promote_types(x.dtype, torch.float32))
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
            return (y * (1.0 + self.weight)).type_as(x)

    def __init__(self):
        super().__init__()
        self.pre_norm, self.post_norm, self.pre_ffn_norm, self.post_ffn_norm = (self.Norm() for _ in range(4))
        self.wqkv, self.wo, self.mlp = lin(D, 3 * D), lin(D, D), Swiglu()

    def attn(self, h):
        q, k, v = map(heads, self.wqkv(h).chunk(3, dim=-1))
        s = (rope(q) * HD ** -0.5) @ rope(k).mT
        s = torch.tanh(s / 50.0) * 50.0
        i = torch.arange(h.shape[1], device=h.device)
        off = (i[:, None] < i) | (i[:, None] - i >= 8)
        return self.wo(flat(s.masked_fill(off, -torch.inf).softmax(-1) @ v))

    def forward(self, x):
        x = x + self.post_norm(self.attn(self.pre_norm(x)))
        return x + self.post_ffn_norm(self.mlp(self.pre_ffn_norm(x)))


class OneNormTwoBranches(nn.Module):
    """Attention and net read one norm and are added at once; a norm without bias written out in float32."""

    def __init__(self):
        super().__init__()
        self.norm_weight = nn.Parameter(torch.ones(D))
        self.fused_in, self.attn_out, self.ff_out = lin(D, 3 * D + 2 * 64), lin(D, D), lin(64, D)

    def layer_norm(self, x):
        x32 = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = x32.mean(-1, keepdim=True)
        var = (x32 - mean).pow(2).mean(-1, keepdim=True)
        return (self.norm_weight * ((x32 - mean) * torch.rsqrt(var + 1e-5))).to(x.dtype)

    def branch(self, x):
        q, k, v, a, b = self.fused_in(self.layer_norm(x)).split([D, D, D, 64, 64], dim=-1)
        y = F.scaled_dot_product_attention(rope(heads(q)), rope(heads(k)), heads(v), is_causal=True)
        return self.attn_out(flat(y)) + self.ff_out(a * F.silu(b))

    def forward(self, x):
        return self.branch(x) + x


class GatedAttentionLayer(nn.Module):
    """Half of what the query's map gives is a gate by heads and channels on the attention's output; norms on queries and keys."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD), nn.RMSNorm(HD)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj, self.mlp = lin(D, 2 * D), lin(D, D), lin(D, D), lin(D, D), Swiglu()

    def attn(self, h):
        q, gate = self.q_proj(h).view(*h.shape[:-1], H, 2 * HD).chunk(2, dim=-1)
        q, k = self.q_norm(q).transpose(1, 2), self.k_norm(self.k_proj(h).view(*h.shape[:-1], H, HD)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, heads(self.v_proj(h)), is_causal=True).transpose(1, 2)
        return self.o_proj((y * torch.sigmoid(gate)).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LearnedSinks(nn.Module):
    """A learned score without a value stands beside the keys; clamped gates with a factor 1.702."""

    def __init__(self, limit=7.0):
        super().__init__()
        self.limit, self.sinks = limit, nn.Parameter(torch.zeros(H))
        self.attn_norm, self.mlp_norm = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.out, self.up, self.down = lin(D, 3 * D, True), lin(D, D, True), lin(D, 2 * 64, True), lin(64, D, True)

    def attn(self, h):
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        s = rope(q) @ rope(k).mT * HD ** -0.5
        s = s + torch.full(s.shape[-2:], -torch.inf, dtype=s.dtype, device=s.device).triu(1)
        s = torch.cat([s, self.sinks.view(1, H, 1, 1).expand(s.shape[0], H, s.shape[2], 1)], dim=-1)
        s = s - s.max(dim=-1, keepdim=True).values
        return self.out(flat(torch.softmax(s, dim=-1)[..., :-1] @ v))

    def mlp(self, h):
        glu, linear = self.up(h)[..., ::2], self.up(h)[..., 1::2]
        glu, linear = glu.clamp(max=self.limit), linear.clamp(-self.limit, self.limit)
        return self.down(glu * torch.sigmoid(1.702 * glu) * (linear + 1))

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class DifferentialHeads(nn.Module):
    """The difference of two attentions, a norm by heads and a factor 1 - 0.8 behind it."""

    def __init__(self, lambda_init=0.8):
        super().__init__()
        self.lambda_init = lambda_init
        self.norm1, self.norm2, self.subln = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(2 * 4)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj, self.mlp = lin(D, D), lin(D, D), lin(D, D), lin(D, D), Swiglu()
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (nn.Parameter(torch.randn(4) * 0.1) for _ in range(4))

    def attn(self, h):
        q, k, v = heads(self.q_proj(h), 2 * H), heads(self.k_proj(h), 2 * H), heads(self.v_proj(h))
        a = torch.softmax(q @ k.mT * 4 ** -0.5, dim=-1).unflatten(1, (H, 2))
        lam = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1)) - torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2)) + self.lambda_init
        y = (a[:, :, 0] - lam * a[:, :, 1]) @ v
        return self.out_proj(flat(self.subln(y) * (1 - self.lambda_init)))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GatedRetention(nn.Module):
    """Retention in its parallel form; a group norm over heads, a swish gate."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.group_norm = nn.LayerNorm(D), nn.LayerNorm(D), nn.GroupNorm(H, D)
        self.q, self.k, self.v, self.g, self.o = lin(D, D), lin(D, D), lin(D, D), lin(D, D), lin(D, D)
        self.ffn = nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))
        self.register_buffer("gamma", 1 - 2.0 ** (-5 - torch.arange(float(H))))

    def retain(self, h):
        b, s, _ = h.shape
        i = torch.arange(s, device=h.device)
        gap = (i[:, None] - i).clamp(min=0)
        decay = torch.tril(self.gamma[:, None, None] ** gap)
        y = (rope(heads(self.q(h))) @ rope(heads(self.k(h)) * HD ** -0.5).mT * decay) @ heads(self.v(h))
        y = self.group_norm(flat(y).reshape(b * s, D)).reshape(b, s, D)
        return self.o(F.silu(self.g(h)) * y)

    def forward(self, x):
        y = self.retain(self.ln1(x)) + x
        return self.ffn(self.ln2(y)) + y


class SphereStep(nn.Module):
    """Everything on the sphere: the state moves by a learned share toward the normed output and is normed again."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.up, self.down = lin(D, D), lin(D, D), lin(D, D), lin(D, D), lin(D, 128), lin(64, D)
        self.gain_attn, self.gain_mlp = nn.Parameter(torch.full((D,), 0.05)), nn.Parameter(torch.full((D,), 0.05))

    def attn(self, x):
        q, k = F.normalize(heads(self.q(x)), dim=-1), F.normalize(heads(self.k(x)), dim=-1)
        return self.o(flat(F.scaled_dot_product_attention(q, k, heads(self.v(x)), is_causal=True, scale=HD ** 0.5)))

    def mlp(self, x):
        u, v = self.up(x).chunk(2, -1)
        return self.down(u * F.silu(v))

    def forward(self, h):
        h = F.normalize(h + self.gain_attn.abs() * (F.normalize(self.attn(h), dim=-1) - h), dim=-1)
        return F.normalize(h + self.gain_mlp.abs() * (F.normalize(self.mlp(h), dim=-1) - h), dim=-1)


class SharedAndRoutedExperts(nn.Module):
    """Sigmoid scores with a bias for the choice alone, two of four experts and one that all share."""

    def __init__(self, n=4, k=2):
        super().__init__()
        self.k, self.attn_norm, self.ffn_norm = k, nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.o, self.router = lin(D, 3 * D), lin(D, D), lin(D, n)
        self.register_buffer("correction", torch.zeros(n))
        self.experts, self.shared = nn.ModuleList(Swiglu(16) for _ in range(n)), Swiglu(32)

    def attn(self, h):
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        return self.o(flat(F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)))

    def moe(self, h):
        score = self.router(h).sigmoid()
        chosen = torch.topk(score + self.correction, self.k, dim=-1).indices
        w = score.gather(-1, chosen)
        w = w / (w.sum(-1, keepdim=True) + 1e-20) * 2.5
        w = torch.zeros_like(score).scatter(-1, chosen, w)
        y = self.shared(h)
        for i, expert in enumerate(self.experts):
            y = y + expert(h) * w[..., i : i + 1]
        return y

    def forward(self, x):
        h = x + self.attn(self.attn_norm(x))
        return h + self.moe(self.ffn_norm(h))


# ------------------------------------------------------------ vision
class WindowedCosine(nn.Module):
    """Shifted windows, cosine scores with a clamped temperature, a bias of at most sixteen, norms behind the parts."""

    def __init__(self, window=4, shift=2):
        super().__init__()
        self.window, self.shift = window, shift
        self.qkv, self.proj, self.norm1, self.norm2, self.mlp = lin(D, 3 * D, True), lin(D, D, True), nn.LayerNorm(D), nn.LayerNorm(D), Mlp()
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(H, 1, 1)))
        self.cpb = nn.Sequential(lin(1, 16, True), nn.ReLU(), lin(16, H))
        gap = (torch.arange(window)[:, None] - torch.arange(window)).float()
        self.register_buffer("gap", (gap.sign() * torch.log2(gap.abs() + 1) / 3).unsqueeze(-1).to(torch.get_default_dtype()))

    def attn(self, x):
        b, n, _ = x.shape
        w = torch.roll(x, -self.shift, dims=1).reshape(b * n // self.window, self.window, D)
        q, k, v = map(heads, self.qkv(w).chunk(3, -1))
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        s = s * torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        s = s + 16 * torch.sigmoid(self.cpb(self.gap)).permute(2, 0, 1)
        y = self.proj(flat(s.softmax(-1) @ v)).reshape(b, n, D)
        return torch.roll(y, self.shift, dims=1)

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        x = x + self.norm2(self.mlp(x))
        return x


class DepthwiseThenNorm(nn.Module):
    """A depthwise convolution of the raw map, a norm, an inverted bottleneck with global response norm."""

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm = nn.Conv1d(D, D, 7, padding=3, groups=D), nn.LayerNorm(D, eps=1e-6)
        self.pwconv1, self.pwconv2 = lin(D, 4 * D, True), lin(4 * D, D, True)
        self.gain_grn = nn.Parameter(torch.zeros(4 * D))

    def branch(self, x):
        h = self.norm(self.dwconv(x.transpose(1, 2)).transpose(1, 2))
        h = F.gelu(self.pwconv1(h))
        g = torch.linalg.vector_norm(h, dim=1, keepdim=True)
        h = h + self.gain_grn * (h * (g / (g.mean(dim=-1, keepdim=True) + 1e-6)))
        return self.pwconv2(h)

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ diffusion
class AdaptiveZeroLayer(nn.Module):
    """Six parts of a map of the condition: shift, scale, gate, twice; norms have no weights of their own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.sin(torch.arange(float(D))).view(1, 1, D))
        self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False, eps=1e-6), nn.LayerNorm(D, elementwise_affine=False, eps=1e-6)
        self.qkv, self.proj, self.mlp = lin(D, 3 * D, True), lin(D, D, True), Mlp()
        self.modulation = nn.Sequential(nn.SiLU(), lin(D, 6 * D, True))

    def attn(self, h):
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        return self.proj(flat(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(self.c).chunk(6, dim=-1)
        x = x + gate_a * self.attn(self.norm1(x) * (1 + scale_a) + shift_a)
        x = x + gate_m * self.mlp(torch.addcmul(shift_m, self.norm2(x), 1 + scale_m))
        return x


# ------------------------------------------------------------ speech, series
class SpeechBlock(nn.Module):
    """Half a net, attention, a gated convolution with a batch norm, half a net, a norm at the end."""

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln, self.pw1, self.dw = nn.LayerNorm(D), nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, 5, padding=2, groups=D)
            self.bn, self.pw2 = nn.BatchNorm1d(D), nn.Conv1d(D, D, 1)

        def forward(self, x):
            h = F.glu(self.pw1(self.ln(x).transpose(1, 2)), dim=1)
            return self.pw2(F.silu(self.bn(self.dw(h)))).transpose(1, 2)

    def __init__(self):
        super().__init__()
        self.ff1 = nn.Sequential(nn.LayerNorm(D), lin(D, 64, True), nn.SiLU(), lin(64, D, True))
        self.ff2 = nn.Sequential(nn.LayerNorm(D), lin(D, 64, True), nn.SiLU(), lin(64, D, True))
        self.attn_norm, self.attn, self.conv, self.final_norm = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True), self.Conv(), nn.LayerNorm(D)

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        h = self.attn_norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.final_norm(x)


class SelectiveScan(nn.Module):
    """Selective state spaces in a loop, a short causal convolution, a gate, a skip within."""

    def __init__(self, n=4):
        super().__init__()
        self.n, self.norm, self.in_proj, self.conv = n, nn.RMSNorm(D), lin(D, 4 * D), nn.Conv1d(2 * D, 2 * D, 4, groups=2 * D, padding=3)
        self.x_proj, self.dt_proj, self.out_proj = lin(2 * D, 2 + 2 * n), lin(2, 2 * D, True), lin(2 * D, D)
        self.A_log, self.skip = nn.Parameter(torch.log(torch.arange(1.0, n + 1)).repeat(2 * D, 1)), nn.Parameter(torch.ones(2 * D))

    def branch(self, x):
        u, z = self.in_proj(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., : x.shape[1]].mT)
        dt, b, c = self.x_proj(u).split([2, self.n, self.n], -1)
        dt, a = F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log)
        keep, new = torch.exp(dt[..., None] * a), dt[..., None] * b[:, :, None] * u[..., None]
        s, ys = torch.zeros_like(new[:, 0]), []
        for i in range(x.shape[1]):
            s = keep[:, i] * s + new[:, i]
            ys.append((s * c[:, i, None]).sum(-1))
        return self.out_proj((torch.stack(ys, 1) + u * self.skip) * F.silu(z))

    def forward(self, x):
        return x + self.branch(x)


class MixerOfSeries(nn.Module):
    """Time and features are mixed in turn, each behind a norm over the whole window."""

    def __init__(self):
        super().__init__()
        self.norm_t, self.norm_f = nn.LayerNorm([T, D]), nn.LayerNorm([T, D])
        self.time, self.feat = nn.Sequential(lin(T, T, True), nn.ReLU()), nn.Sequential(lin(D, 64, True), nn.ReLU(), lin(64, D, True))

    def over_time(self, h):
        return self.time(h.transpose(1, 2)).transpose(1, 2)

    def forward(self, x):
        x = x + self.over_time(self.norm_t(x))
        return x + self.feat(self.norm_f(x))


# ------------------------------------------------------------ graphs, recommendation
class FeatureGates(nn.Module):
    """Fields gate each other: a squeeze over the embedding, two maps, a gate of twice a sigmoid on a normed value, a norm behind it."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_out, self.value = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, D)
        self.squeeze, self.excite = lin(T, 4, True), lin(4, T, True)

    def branch(self, x):
        h = self.norm_in(x)
        w = 2 * torch.sigmoid(self.excite(torch.relu(self.squeeze(h.mean(-1)))))
        return self.norm_out(self.value(h) * w.unsqueeze(-1))

    def forward(self, x):
        return x.add(self.branch(x))


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_CLOSED = dict(growth_all="linear", output_bounded={0: True, 1: True})
_FREE = dict(_TWO, logits_bounded={0: False})
_ONE = dict(output_bounded={0: False})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded")
TRUTH = {
    "CachedDecoderLayer": dict(_PRE, **_FREE, why="pre-norm; a fresh cache is no state."),
    "HeadNormDecoder": dict(_PRE, **_TWO, logits_bounded={0: True}, why="pre-norm, QK-norm."),
    "ReorderedNormDecoder": dict(_PRE, **_CLOSED, logits_bounded={0: True}, why="norms end the branches; QK-norm at full width."),
    "CappedSandwich": dict(_PRE, **_CLOSED, logits_bounded={0: True}, why="peri; a cap of fifty."),
    "OneNormTwoBranches": dict(_PRE, why="pre-norm, one sum."),
    "GatedAttentionLayer": dict(_PRE, **_TWO, logits_bounded={0: True}, why="pre-norm, QK-norm; the gate is below one."),
    "LearnedSinks": dict(_PRE, output_bounded={0: False, 1: False}, why="pre-norm; the last map is free."),
    "DifferentialHeads": dict(_PRE, **_FREE, why="pre-norm; a map behind the sub-norm."),
    "GatedRetention": dict(_CONV, **_TWO, why="pre-norm, no softmax."),
    "SphereStep": dict(_ON, growth_all="bounded", softmax=True, why="unit length behind each step."),
    "SharedAndRoutedExperts": dict(_PRE, **_FREE, why="pre-norm; shares sum to 2.5."),
    "WindowedCosine": dict(_PRE, **_CLOSED, logits_bounded={0: True}, why="norms end the branches; cosine at most 100 and a bias at most 16."),
    "DepthwiseThenNorm": dict(_CONV, **_ONE, why="the norm stands behind the first map."),
    "AdaptiveZeroLayer": dict(_PRE, **_FREE, why="pre-norm; gates are weights."),
    "SpeechBlock": dict(_ON, growth_all="bounded", softmax=True, why="a norm at the end of the block."),
    "SelectiveScan": dict(_CONV, **_ONE, why="pre-norm; the scan decays."),
    "MixerOfSeries": dict(_CONV, **_TWO, why="a norm over the window bounds each token."),
    "FeatureGates": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="a norm ends the branch."),
}
