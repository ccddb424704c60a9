"""Blocks of production and research code as they are meant: functional style, parameters in dictionaries, graphs, speech, physics, diffusion, language."""

import math
from functools import reduce

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def fc(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def table(*shape, std=None):
    return nn.Parameter(torch.randn(*shape) * (std or shape[-2] ** -0.5))


def to_heads(t, n=H):
    return t.unflatten(-1, (n, -1)).transpose(-3, -2)


def from_heads(t):
    return t.transpose(-3, -2).flatten(-2)


class SelfAttention(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal, self.to_qkv, self.to_out = causal, fc(D, 3 * D), fc(D, D)

    def forward(self, x):
        q, k, v = map(to_heads, self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(from_heads(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)))


def ffn(inner=64, act=nn.GELU):
    return nn.Sequential(fc(D, inner, True), act(), fc(inner, D, True))


# ------------------------------------------------------------ functional style
def layer_norm(p, x):
    mu = jnp_mean(x)
    var = jnp_mean((x - mu) ** 2)
    return (x - mu) * torch.rsqrt(var + 1e-6) * p["scale"] + p["offset"]


def jnp_mean(x):
    return torch.mean(x, dim=-1, keepdim=True)


def multi_head_attention(p, x):
    q = torch.einsum("btd,dhk->bhtk", x, p["query"])
    k = torch.einsum("btd,dhk->bhtk", x, p["key"])
    v = torch.einsum("btd,dhk->bhtk", x, p["value"])
    logits = torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(q.shape[-1])
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bhts,bhsk,hkd->btd", weights, v, p["linear"])


class PureFunction(nn.Module):
    """Ported from JAX: nested dictionaries of parameters and functions of them; the softmax is written out."""

    def __init__(self):
        super().__init__()
        norm = lambda: nn.ParameterDict({"scale": torch.ones(D), "offset": torch.zeros(D)})
        shape = lambda: torch.randn(D, H, HD) * D ** -0.5
        attn = nn.ParameterDict({"query": shape(), "key": shape(), "value": shape(), "linear": torch.randn(H, HD, D) * D ** -0.5})
        mlp = nn.ParameterDict({"w_in": torch.randn(D, 64) * D ** -0.5, "w_out": torch.randn(64, D) * 64 ** -0.5})
        self.params = nn.ModuleDict({"norm_0": norm(), "attn": attn, "norm_1": norm(), "mlp": mlp})

    def attend(self, x):
        return multi_head_attention(self.params["attn"], layer_norm(self.params["norm_0"], x))

    def dense(self, x):
        p = self.params["mlp"]
        return F.gelu(layer_norm(self.params["norm_1"], x) @ p["w_in"], approximate="tanh") @ p["w_out"]

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.dense(x)


class FunctionalCall(nn.Module):
    """A net without weights of its own is called with parameters that stand elsewhere."""

    def __init__(self):
        super().__init__()
        net = ffn()
        self.norm, self.weights = nn.LayerNorm(D), nn.ParameterDict({k.replace(".", "__"): p.detach().clone() for k, p in net.named_parameters()})
        self.template = (net.to("meta"),)

    def branch(self, x):
        state = {k.replace("__", "."): p for k, p in self.weights.items()}
        return torch.func.functional_call(self.template[0], state, (self.norm(x),))

    def forward(self, x):
        return x + self.branch(x)


class VmappedExamples(nn.Module):
    """One example's function, mapped over the batch."""

    def __init__(self):
        super().__init__()
        self.norm, self.wq, self.wk, self.wv, self.wo = nn.LayerNorm(D), *(table(D, D) for _ in range(4))

    def one(self, h):
        split = lambda t: t.reshape(T, H, HD).swapaxes(0, 1)
        q, k, v = split(h @ self.wq), split(h @ self.wk), split(h @ self.wv)
        p = torch.softmax(q @ k.swapaxes(1, 2) * HD ** -0.5, dim=-1)
        return (p @ v).swapaxes(0, 1).reshape(T, D) @ self.wo

    def branch(self, x):
        return torch.vmap(self.one)(self.norm(x))

    def forward(self, x):
        return x + self.branch(x)


class FoldedBranches(nn.Module):
    """A fold over branches that are functions of norm and body."""

    def __init__(self):
        super().__init__()
        self.norms, self.bodies = nn.ModuleList(nn.LayerNorm(D) for _ in range(2)), nn.ModuleList([SelfAttention(causal=True), ffn()])

    def forward(self, x):
        return reduce(lambda h, part: torch.add(h, part[1](part[0](h))), zip(self.norms, self.bodies), x)


class HookedSkip(nn.Module):
    """Each sublayer is a chain of norm and body; a forward hook adds what came in."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = nn.Sequential(nn.LayerNorm(D), SelfAttention()), nn.Sequential(nn.LayerNorm(D), ffn())
        for part in (self.attn, self.mlp):
            part.register_forward_hook(lambda module, args, out: args[0] + out)

    def forward(self, x):
        return self.mlp(self.attn(x))


@torch.jit.script
def bias_dropout_add(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor, prob: float, training: bool) -> torch.Tensor:
    out = torch.nn.functional.dropout(x + bias, p=prob, training=training)
    out = residual + out
    return out


class FusedBiasDropoutAdd(nn.Module):
    """Biases of the last maps are added by the scripted function that adds the skip."""

    def __init__(self):
        super().__init__()
        self.input_norm, self.post_norm, self.qkv, self.dense = nn.LayerNorm(D), nn.LayerNorm(D), fc(D, 3 * D, True), fc(D, D)
        self.dense_bias, self.up, self.down, self.down_bias = nn.Parameter(torch.zeros(D)), fc(D, 128, True), fc(128, D), nn.Parameter(torch.zeros(D))

    def forward(self, hidden):
        mixed = self.qkv(self.input_norm(hidden)).unflatten(-1, (H, 3 * HD)).transpose(1, 2)
        q, k, v = mixed.split(HD, dim=-1)
        context = from_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        hidden = bias_dropout_add(self.dense(context), self.dense_bias, hidden, 0.0, False)
        inner = F.gelu(self.up(self.post_norm(hidden)))
        return bias_dropout_add(self.down(inner), self.down_bias, hidden, 0.0, False)


class PreallocatedHeads(nn.Module):
    """Heads one by one, each written into its slice of an empty tensor."""

    def __init__(self):
        super().__init__()
        self.norm, self.query, self.key, self.value, self.out = nn.RMSNorm(D), *(nn.ModuleList(fc(D, HD) for _ in range(H)) for _ in range(3)), fc(D, D)

    def branch(self, x):
        h = self.norm(x)
        mixed = torch.empty_like(h)
        for i in range(H):
            score = self.query[i](h) @ self.key[i](h).transpose(-2, -1) / HD ** 0.5
            mixed[..., i * HD : (i + 1) * HD] = score.softmax(-1) @ self.value[i](h)
        return self.out(mixed)

    def forward(self, x):
        return x + self.branch(x)


class CacheInBuffers(nn.Module):
    """Keys and values are written into buffers, from where the attention reads them."""

    def __init__(self):
        super().__init__()
        self.norm, self.q_proj, self.kv_proj, self.o_proj = nn.RMSNorm(D), fc(D, D), fc(D, 2 * D), fc(D, D)
        self.register_buffer("cache_k", torch.zeros(2, H, T, HD), persistent=False)
        self.register_buffer("cache_v", torch.zeros(2, H, T, HD), persistent=False)

    def branch(self, x):
        h = self.norm(x)
        q, (k, v) = to_heads(self.q_proj(h)), map(to_heads, self.kv_proj(h).chunk(2, dim=-1))
        keys, values = self.cache_k[: x.shape[0]].clone(), self.cache_v[: x.shape[0]].clone()
        pos = torch.arange(x.shape[1], device=x.device)
        keys.index_copy_(2, pos, k)
        values.index_copy_(2, pos, v)
        return self.o_proj(from_heads(F.scaled_dot_product_attention(q, keys, values, is_causal=True)))

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ language
class ModalityExperts(nn.Module):
    """One attention for all; the net is chosen by key, the first four places are the picture's."""

    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.experts = nn.LayerNorm(D), SelfAttention(), nn.LayerNorm(D), nn.ModuleDict({"image": ffn(), "text": ffn()})

    def mlp(self, h):
        image, text = h.split([4, T - 4], dim=1)
        return torch.cat([self.experts["image"](image), self.experts["text"](text)], dim=1)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class WindowWithSinks(nn.Module):
    """Each place sees the last four and the first two; unit queries and keys by a gain."""

    def __init__(self, window=4, sinks=2):
        super().__init__()
        i = torch.arange(T)
        seen = (i[:, None] >= i) & ((i[:, None] - i < window) | (i < sinks))
        self.register_buffer("mask", torch.zeros(T, T).masked_fill(~seen, float("-inf")))
        self.norm, self.qkv, self.out, self.q_norm, self.k_norm = nn.RMSNorm(D), fc(D, 3 * D), fc(D, D), nn.RMSNorm(HD), nn.RMSNorm(HD)

    def branch(self, x):
        q, k, v = map(to_heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        logits = self.q_norm(q) @ self.k_norm(k).mT * HD ** -0.5 + self.mask.to(x.dtype)
        return self.out(from_heads(logits.softmax(-1) @ v))

    def forward(self, x):
        return x + self.branch(x)


class LowRankResidualSandwich(nn.Module):
    """A normed low-rank path beside the normed attention; both with the skip over the root of two; a normed net."""

    def __init__(self, rank=8):
        super().__init__()
        self.input_norm, self.post_attn_norm, self.pre_ffn_norm, self.post_ffn_norm, self.laurel_norm = (nn.RMSNorm(D) for _ in range(5))
        self.attn, self.mlp, self.left, self.right = SelfAttention(), ffn(), fc(D, rank), fc(rank, D)

    def laurel(self, h):
        return h + self.laurel_norm(self.right(self.left(h)))

    def forward(self, x):
        active = self.input_norm(x)
        attn_gated = x + self.post_attn_norm(self.attn(active))
        attn_laurel = (attn_gated + self.laurel(active)) / math.sqrt(2)
        return attn_laurel + self.post_ffn_norm(self.mlp(self.pre_ffn_norm(attn_laurel)))


class AbsorbedLatent(nn.Module):
    """Latent attention as it is served: the keys' map is drawn into the queries, the values' map stands behind the mean of latents."""

    def __init__(self, rank=12, rope=4):
        super().__init__()
        self.norm, self.q_down, self.q_norm, self.q_up = nn.RMSNorm(D), fc(D, 16), nn.RMSNorm(16), fc(16, H * (HD + rope))
        self.rank, self.kv_down, self.kv_norm, self.out = rank, fc(D, rank + rope), nn.RMSNorm(rank), fc(H * HD, D)
        self.up_key, self.up_value = nn.Parameter(torch.randn(H, HD, rank) * HD ** -0.5), nn.Parameter(torch.randn(H, rank, HD) * rank ** -0.5)

    def branch(self, x):
        h = self.norm(x)
        q = self.q_up(self.q_norm(self.q_down(h))).unflatten(-1, (H, -1))
        q_nope, q_pe = q[..., :HD], q[..., HD:]
        latent, k_pe = self.kv_down(h).split([self.rank, q_pe.shape[-1]], dim=-1)
        latent = self.kv_norm(latent)
        q_nope = torch.einsum("bshd,hdc->bshc", q_nope, self.up_key)
        scores = (torch.einsum("bshc,btc->bsht", q_nope, latent) + torch.einsum("bshr,btr->bsht", q_pe, k_pe)) * (HD + 4) ** -0.5
        mean = torch.einsum("bsht,btc->bshc", scores.softmax(dim=-1), latent)
        return self.out(torch.einsum("bshc,hcd->bshd", mean, self.up_value).flatten(2))

    def forward(self, x):
        return x + self.branch(x)


class DispatchAndCombine(nn.Module):
    """Top-1 experts with a capacity: one-hot tensors send tokens out and bring them back."""

    def __init__(self, n_exp=4, capacity=6):
        super().__init__()
        self.n_exp, self.capacity, self.norm, self.wg = n_exp, capacity, nn.LayerNorm(D), fc(D, n_exp)
        self.w_in, self.w_out = table(n_exp, D, 48), table(n_exp, 48, D)

    def branch(self, x):
        h = self.norm(x)
        gates = F.softmax(self.wg(h), dim=-1)
        mask = F.one_hot(gates.argmax(dim=-1), self.n_exp).to(h.dtype)
        place = torch.cumsum(mask, dim=1) * mask
        mask = mask * (place <= self.capacity)
        gate = (gates * mask).sum(-1)
        slot = F.one_hot((place.sum(-1).long() - 1).clamp(0, self.capacity - 1), self.capacity).to(h.dtype)
        dispatch = torch.einsum("bse,bsc->bsec", mask, slot)
        inside = torch.einsum("bsec,bsd->ebcd", dispatch, h)
        inside = torch.einsum("ebcf,efd->ebcd", F.relu(torch.einsum("ebcd,edf->ebcf", inside, self.w_in)), self.w_out)
        return torch.einsum("bsec,ebcd->bsd", dispatch * gate[..., None, None], inside)

    def forward(self, x):
        return x + self.branch(x)


class ExpertsChoose(nn.Module):
    """Each expert takes its five best tokens; what it gives is scattered back and added."""

    def __init__(self, n_exp=4, k=5):
        super().__init__()
        self.k, self.norm, self.router, self.experts = k, nn.RMSNorm(D), fc(D, n_exp), nn.ModuleList(ffn(48) for _ in range(n_exp))

    def branch(self, x):
        h = self.norm(x)
        weights, tokens = self.router(h).softmax(dim=-1).topk(self.k, dim=1)
        out = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            index = tokens[:, :, i, None].expand(-1, -1, h.shape[-1])
            out = out.scatter_add(1, index, expert(h.gather(1, index)) * weights[:, :, i, None])
        return out

    def forward(self, x):
        return x + self.branch(x)


class OneBitMaps(nn.Module):
    """Weights are signs times their mean size, activations are rounded to eight bits, both straight through; a norm in front of each map."""

    class BitLinear(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.norm, self.w = nn.RMSNorm(i), nn.Parameter(torch.randn(o, i) * i ** -0.5)

        def forward(self, x):
            x = self.norm(x)
            scale = 127.0 / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)
            x = x + ((x * scale).round().clamp(-128, 127) / scale - x).detach()
            size = self.w.abs().mean()
            w = self.w + ((self.w - self.w.mean()).sign() * size - self.w).detach()
            return F.linear(x, w)

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (self.BitLinear(D, D) for _ in range(4))
        self.up, self.down = self.BitLinear(D, 64), self.BitLinear(64, D)

    def attn(self, x):
        q, k, v = to_heads(self.q(x)), to_heads(self.k(x)), to_heads(self.v(x))
        return self.o(from_heads(F.scaled_dot_product_attention(q, k, v)))

    def mlp(self, x):
        return self.down(F.relu(self.up(x)).square())

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(x)


class ParameterTokens(nn.Module):
    """Maps are attention over tokens of parameters, whose scores are put to length one and through a GELU."""

    class Pattention(nn.Module):
        def __init__(self, o, n=24):
            super().__init__()
            self.keys, self.values = nn.Parameter(torch.randn(n, D) * D ** -0.5), nn.Parameter(torch.randn(n, o) * n ** -0.5)

        def forward(self, h):
            score = h @ self.keys.t()
            score = F.gelu(score / torch.norm(score, p=2, dim=-1, keepdim=True).clamp_min(1e-12) * math.sqrt(score.shape[-1]))
            return score @ self.values

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2, self.q, self.k, self.v, self.o, self.f = nn.LayerNorm(D), nn.LayerNorm(D), *(self.Pattention(D) for _ in range(5))

    def attn(self, h):
        q, k, v = to_heads(self.q(h)), to_heads(self.k(h)), to_heads(self.v(h))
        return self.o(from_heads(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        x = x + self.attn(self.norm_1(x))
        return x + self.f(self.norm_2(x))


class TaylorFeatures(nn.Module):
    """Causal weights 1 + s + s²/2, which are positive, over their sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.qk, self.v, self.o = nn.RMSNorm(D), fc(D, 2 * D), fc(D, D), fc(D, D)

    def branch(self, x):
        h = self.norm(x)
        q, k = map(to_heads, self.qk(h).chunk(2, dim=-1))
        s = q @ k.mT / HD ** 0.5
        w = (1 + s + s.square() / 2).tril()
        return self.o(from_heads(w @ to_heads(self.v(h)) / w.sum(-1, keepdim=True)))

    def forward(self, x):
        return x + self.branch(x)


class PositiveRandomFeatures(nn.Module):
    """FAVOR+: exponentials of a frozen random map less half the squared length, behind their maxima."""

    def __init__(self, m=16):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), fc(D, 3 * D, True), fc(D, D)
        self.register_buffer("projection", torch.randn(m, HD))

    def features(self, t, dims):
        t = t * t.shape[-1] ** -0.25
        dash = torch.einsum("bhtd,md->bhtm", t, self.projection) - t.square().sum(-1, keepdim=True) / 2
        return (torch.exp(dash - torch.amax(dash, dim=dims, keepdim=True).detach()) + 1e-4) * self.projection.shape[0] ** -0.5

    def branch(self, x):
        q, k, v = map(to_heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        q, k = self.features(q, -1), self.features(k, (-1, -2))
        inverse = 1.0 / torch.einsum("bhtm,bhm->bht", q, k.sum(dim=-2))
        context = torch.einsum("bhtm,bhtd->bhmd", k, v)
        return self.o(from_heads(torch.einsum("bhmd,bhtm,bht->bhtd", context, q, inverse)))

    def forward(self, x):
        return self.branch(x) + x


class StickBreaking(nn.Module):
    """Each place breaks its share from what later ones have left: products of sigmoids, no softmax."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.RMSNorm(D), fc(D, 3 * D), fc(D, D)
        self.register_buffer("past", torch.ones(T, T, dtype=torch.bool).tril(-1))

    def branch(self, x):
        q, k, v = map(to_heads, self.qkv(self.norm(x)).chunk(3, dim=-1))
        z = q @ k.mT * HD ** -0.5
        log_keep = torch.where(self.past, -F.softplus(z), torch.zeros_like(z))
        after = log_keep.flip(-1).cumsum(-1).flip(-1) - log_keep
        share = torch.exp(F.logsigmoid(z) + after) * self.past
        return self.o(from_heads(share @ v))

    def forward(self, x):
        return x + self.branch(x)


class TestTimeLinear(nn.Module):
    """The state is a map that takes one step of descent at each place; what it reads is normed."""

    def __init__(self, rate=0.1):
        super().__init__()
        self.rate, self.norm, self.k, self.v, self.q, self.out, self.start = rate, nn.LayerNorm(D), fc(D, 8), fc(D, 8), fc(D, 8), fc(8, D), table(8, 8)
        self.inner_norm = nn.LayerNorm(8)

    def branch(self, x):
        h = self.norm(x)
        k, v, q = F.normalize(self.k(h), dim=-1), self.v(h), self.q(h)
        w, out = self.start.expand(x.shape[0], -1, -1), []
        for t in range(x.shape[1]):
            error = torch.bmm(k[:, t : t + 1], w) - v[:, t : t + 1]
            w = w - self.rate * torch.bmm(k[:, t : t + 1].transpose(1, 2), error)
            out.append(torch.bmm(q[:, t : t + 1], w))
        return self.out(self.inner_norm(torch.cat(out, dim=1)))

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ speech
class BypassLayer(nn.Module):
    """Zipformer: raw branches, a norm at the end, and a trained share between what came in and that."""

    def __init__(self):
        super().__init__()
        self.ff1, self.attn, self.conv, self.ff2, self.norm = ffn(), SelfAttention(), nn.Conv1d(D, D, 5, padding=2, groups=D), ffn(), nn.RMSNorm(D)
        self.gain_bypass = nn.Parameter(torch.full((D,), 0.5))

    def forward(self, src):
        src_orig = src
        src = src + self.ff1(src)
        src = src + self.attn(src)
        src = src + self.conv(src.transpose(1, 2)).transpose(1, 2)
        src = src + self.ff2(src)
        src = self.norm(src)
        return src_orig + (src - src_orig) * self.gain_bypass.clamp(0.2, 1.0)


class TemporalConvBlock(nn.Module):
    """Conv-TasNet: the norms are inside, behind the first map and the depthwise one; nothing is normed in front."""

    def __init__(self, inner=48):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(D, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner, eps=1e-8),
                                 nn.Conv1d(inner, inner, 3, padding=2, dilation=2, groups=inner), nn.PReLU(), nn.GroupNorm(1, inner, eps=1e-8), nn.Conv1d(inner, D, 1))

    def branch(self, x):
        return self.net(x.transpose(1, 2)).transpose(1, 2)

    def forward(self, x):
        return x + self.branch(x)


class DualPathRecurrence(nn.Module):
    """A recurrence over short pieces, then one over the same place of all pieces; each ends in a map and a norm."""

    def __init__(self):
        super().__init__()
        self.intra, self.inter = (nn.LSTM(D, 24, batch_first=True, bidirectional=True) for _ in range(2))
        self.intra_fc, self.inter_fc, self.intra_norm, self.inter_norm = fc(48, D, True), fc(48, D, True), nn.GroupNorm(1, D), nn.GroupNorm(1, D)

    def run_intra(self, x):
        y, _ = self.intra(x.reshape(-1, 4, D))
        return self.intra_norm(self.intra_fc(y).reshape(x.shape).mT).mT

    def run_inter(self, x):
        y, _ = self.inter(x.reshape(-1, 4, 4, D).transpose(1, 2).reshape(-1, 4, D))
        return self.inter_norm(self.inter_fc(y).reshape(-1, 4, 4, D).transpose(1, 2).reshape(x.shape).mT).mT

    def forward(self, x):
        x = x + self.run_intra(x)
        return x + self.run_inter(x)


class ResidualLstm(nn.Module):
    """A recurrence of the raw stream with a skip: its states are sigmoids times tanh."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(D, D, batch_first=True)

    def branch(self, x):
        return self.rnn(x)[0]

    def forward(self, x):
        return x + self.branch(x)


class CompressedConvs(nn.Module):
    """Demucs: a narrow dilated convolution, norm, GELU, a map to both halves of a gate, norm, and a small scale."""

    def __init__(self):
        super().__init__()
        self.down, self.norm1, self.up, self.norm2 = nn.Conv1d(D, 8, 3, padding=2, dilation=2), nn.GroupNorm(1, 8), nn.Conv1d(8, 2 * D, 1), nn.GroupNorm(1, 2 * D)
        self.gain_scale = nn.Parameter(torch.full((D, 1), 1e-3))

    def branch(self, x):
        y = F.glu(self.norm2(self.up(F.gelu(self.norm1(self.down(x.transpose(1, 2)))))), dim=1)
        return (self.gain_scale * y).transpose(1, 2)

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ graphs, biology, physics
class GatedGraphConv(nn.Module):
    """GatedGCN: neighbours weighed by sigmoids over their sum, batch norm, ReLU, skip."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.d, self.e, self.bn = fc(D, D, True), fc(D, D, True), fc(D, D, True), fc(D, D, True), nn.BatchNorm1d(D)
        i = torch.arange(T)
        self.register_buffer("edges", ((i[:, None] - i) % T <= 3)[None, :, :, None])

    def branch(self, h):
        sigma = torch.sigmoid(self.d(h)[:, :, None] + self.e(h)[:, None]) * self.edges
        agg = torch.einsum("bijd,bjd->bid", sigma, self.b(h)) / (sigma.sum(dim=2) + 1e-6)
        return F.relu(self.bn((self.a(h) + agg).flatten(0, 1)).view_as(h))

    def forward(self, h):
        h_in = h
        return h_in + self.branch(h)


class InvariantPoints(nn.Module):
    """Queries and keys are points, too: squared distances with a positive trained weight are taken off the logits."""

    def __init__(self, points=3):
        super().__init__()
        self.p, self.norm, self.qkv, self.pts, self.out = points, nn.LayerNorm(D), fc(D, 3 * D), fc(D, 3 * H * points * 3), fc(D + H * points * 3, D, True)
        self.head_weights = nn.Parameter(torch.full((H,), 0.541324854612918))

    def branch(self, x):
        h = self.norm(x)
        q, k, v = (t.unflatten(-1, (H, HD)) for t in self.qkv(h).chunk(3, dim=-1))
        qp, kp, vp = (t.unflatten(-1, (H, self.p, 3)) for t in self.pts(h).chunk(3, dim=-1))
        gap = (qp[:, :, None] - kp[:, None]).square().sum(dim=(-1, -2))
        weight = F.softplus(self.head_weights) * math.sqrt(1.0 / (3 * self.p * 9.0 / 2))
        logits = torch.einsum("bihd,bjhd->bijh", q, k) * math.sqrt(1.0 / (3 * HD)) - 0.5 * weight * gap
        p = torch.softmax(logits, dim=2)
        y = torch.cat([torch.einsum("bijh,bjhd->bihd", p, v).flatten(2), torch.einsum("bijh,bjhpc->bihpc", p, vp).flatten(2)], dim=-1)
        return self.out(y)

    def forward(self, x):
        return x + self.branch(x)


class SlicesOfTheField(nn.Module):
    """Transolver: places are pooled into slices by a softmax, slices attend, and are spread out by the same weights."""

    def __init__(self, slices=6):
        super().__init__()
        self.ln_1, self.ln_2, self.to_slice, self.mid, self.qkv, self.out, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), fc(HD, slices, True), fc(D, D, True), fc(HD, 3 * HD), fc(D, D, True), ffn()
        self.gain_temperature = nn.Parameter(torch.ones(1, H, 1, 1) * 0.5)

    def attn(self, h):
        x_mid = to_heads(self.mid(h))
        slice_weights = torch.softmax(self.to_slice(x_mid) / self.gain_temperature, dim=-1)
        token = torch.einsum("bhnc,bhng->bhgc", x_mid, slice_weights) / (slice_weights.sum(2) + 1e-5)[..., None]
        q, k, v = self.qkv(token).chunk(3, dim=-1)
        token = F.scaled_dot_product_attention(q, k, v)
        return self.out(from_heads(torch.einsum("bhgc,bhng->bhnc", token, slice_weights)))

    def forward(self, fx):
        fx = self.attn(self.ln_1(fx)) + fx
        return self.mlp(self.ln_2(fx)) + fx


class RungeKutta(nn.Module):
    """One step of the classical method for a normed net."""

    def __init__(self, h=0.5):
        super().__init__()
        self.h, self.norm, self.f = h, nn.LayerNorm(D), ffn(act=nn.Tanh)

    def slope(self, x):
        return self.f(self.norm(x))

    def forward(self, x):
        k1 = self.slope(x)
        k2 = self.slope(x + self.h / 2 * k1)
        k3 = self.slope(x + self.h / 2 * k2)
        k4 = self.slope(x + self.h * k3)
        return x + self.h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


# ------------------------------------------------------------ vision, time series, diffusion
class CrossCovariance(nn.Module):
    """XCiT: channels attend; queries and keys have length one over the places; a trained temperature."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj, self.tau = nn.LayerNorm(D), fc(D, 3 * D), fc(D, D, True), nn.Parameter(torch.ones(H, 1, 1))

    def branch(self, x):
        B, N, C = x.shape
        qkv = self.qkv(self.norm(x)).reshape(B, N, 3, H, C // H).permute(2, 0, 3, 4, 1)
        q, k, v = qkv.unbind(0)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1) * self.tau).softmax(dim=-1)
        return self.proj((attn @ v).permute(0, 3, 1, 2).reshape(B, N, C))

    def forward(self, x):
        return x + self.branch(x)


class FocalModulation(nn.Module):
    """Queries times a map of gated contexts of growing reach."""

    def __init__(self, levels=2):
        super().__init__()
        self.levels, self.norm, self.f, self.h, self.proj = levels, nn.LayerNorm(D), fc(D, 2 * D + levels + 1, True), nn.Conv1d(D, D, 1), fc(D, D, True)
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv1d(D, D, 3 + 2 * i, padding=1 + i, groups=D, bias=False), nn.GELU()) for i in range(levels))

    def branch(self, x):
        q, ctx, gates = torch.split(self.f(self.norm(x)).transpose(1, 2), (D, D, self.levels + 1), 1)
        ctx_all = 0.0
        for i, layer in enumerate(self.layers):
            ctx = layer(ctx)
            ctx_all = ctx_all + ctx * gates[:, i : i + 1]
        ctx_all = ctx_all + F.gelu(ctx.mean(2, keepdim=True)) * gates[:, self.levels :]
        return self.proj((q * self.h(ctx_all)).transpose(1, 2))

    def forward(self, x):
        return x + self.branch(x)


class TimeMixer(nn.Module):
    """TSMixer: batch norm over time and channels as one vector, a map over time with ReLU; the same with a net over channels."""

    def __init__(self):
        super().__init__()
        self.norm_time, self.norm_channel, self.time, self.fc1, self.fc2 = nn.BatchNorm1d(T * D), nn.BatchNorm1d(T * D), fc(T, T, True), fc(D, 64, True), fc(64, D, True)

    def mix_time(self, x):
        y = self.norm_time(torch.flatten(x, 1, -1)).reshape(x.shape)
        return F.relu(self.time(y.transpose(1, 2))).transpose(1, 2)

    def mix_channels(self, x):
        y = self.norm_channel(torch.flatten(x, 1, -1)).reshape(x.shape)
        return self.fc2(F.relu(self.fc1(y)))

    def forward(self, x):
        x = x + self.mix_time(x)
        return x + self.mix_channels(x)


class SingleStreamParallel(nn.Module):
    """Flux: one map in for attention and net, one map out of both side by side, modulated by a vector; unit queries and keys."""

    def __init__(self):
        super().__init__()
        self.register_buffer("vec", torch.sin(torch.arange(float(D)))[None, None])
        self.pre_norm, self.modulation = nn.LayerNorm(D, elementwise_affine=False, eps=1e-6), fc(D, 3 * D, True)
        self.linear1, self.linear2, self.q_norm, self.k_norm = fc(D, 3 * D + 128, True), fc(D + 128, D, True), nn.RMSNorm(HD), nn.RMSNorm(HD)

    def branch(self, x):
        shift, scale, gate = self.modulation(F.silu(self.vec)).chunk(3, dim=-1)
        qkv, mlp = torch.split(self.linear1((1 + scale) * self.pre_norm(x) + shift), [3 * D, 128], dim=-1)
        q, k, v = map(to_heads, qkv.chunk(3, dim=-1))
        attn = from_heads(F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v))
        return gate * self.linear2(torch.cat((attn, F.gelu(mlp, approximate="tanh")), 2))

    def forward(self, x):
        return x + self.branch(x)


class ScaleShiftResBlock(nn.Module):
    """Guided diffusion: the second norm is scaled and shifted by the embedding; the last convolution starts at zero."""

    def __init__(self):
        super().__init__()
        self.register_buffer("emb", torch.cos(torch.arange(float(D)))[None])
        self.in_layers = nn.Sequential(nn.GroupNorm(8, D), nn.SiLU(), nn.Conv1d(D, D, 3, padding=1))
        self.emb_layers, self.out_norm, self.out_conv = nn.Sequential(nn.SiLU(), fc(D, 2 * D, True)), nn.GroupNorm(8, D), nn.Conv1d(D, D, 3, padding=1)
        for p in self.out_conv.parameters():
            p.detach().zero_()

    def branch(self, x):
        scale, shift = self.emb_layers(self.emb)[..., None].chunk(2, dim=1)
        h = self.out_norm(self.in_layers(x.transpose(1, 2))) * (1 + scale) + shift
        return self.out_conv(F.silu(h)).transpose(1, 2)

    def forward(self, x):
        return x + self.branch(x)


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_FREE = dict(_TWO, logits_bounded={0: False})
_ONE = dict(output_bounded={0: False})
_LONE = dict(_ONE, logits_bounded={0: False})
_POW = dict(gradient_law="power")
TRUTH = {
    "PureFunction": dict(_PRE, output_bounded={0: False, 1: False}, why="pre-norm; exponentials over their sum are a softmax."),
    "FunctionalCall": dict(_CONV, **_ONE, why="pre-norm."),
    "VmappedExamples": dict(_PRE, **_ONE, why="pre-norm."),
    "FoldedBranches": dict(_PRE, **_FREE, why="pre-norm."),
    "HookedSkip": dict(_PRE, **_FREE, why="pre-norm."),
    "FusedBiasDropoutAdd": dict(_PRE, logits_bounded={0: False}, why="pre-norm."),
    "PreallocatedHeads": dict(_PRE, **_ONE, why="pre-norm."),
    "CacheInBuffers": dict(_PRE, **_LONE, why="pre-norm."),
    "ModalityExperts": dict(_PRE, **_FREE, why="pre-norm."),
    "WindowWithSinks": dict(_PRE, **_ONE, logits_bounded={0: True}, why="pre-norm, QK-norm."),
    "LowRankResidualSandwich": dict(_B, identity_gain=2.0 ** -12, growth_fixed="bounded", growth_all="bounded", softmax=True, why="x / sqrt 2 plus bounded terms."),
    "AbsorbedLatent": dict(_PRE, **_LONE, why="pre-norm; a map stands between each norm and the logits."),
    "DispatchAndCombine": dict(_B, identity_gain=1.0, growth_fixed="linear", **_ONE, why="pre-norm."),
    "ExpertsChoose": dict(_B, identity_gain=1.0, growth_fixed="linear", **_ONE, why="pre-norm."),
    "OneBitMaps": dict(_PRE, **_FREE, why="every map reads a norm; a map's size is the mean of its weights."),
    "ParameterTokens": dict(_PRE, **_FREE, why="pre-norm; scores are unit, values are free."),
    "TaylorFeatures": dict(_CONV, **_ONE, why="pre-norm; the weights are positive."),
    "PositiveRandomFeatures": dict(_CONV, **_ONE, why="pre-norm."),
    "StickBreaking": dict(_CONV, **_ONE, why="pre-norm; shares sum to at most one."),
    "TestTimeLinear": dict(_CONV, **_ONE, why="pre-norm; a norm and a map end the branch."),
    "BypassLayer": dict(_B, identity_gain=2.0 ** -24, growth_fixed="bounded", growth_all="bounded", softmax=True, why="half of what came in, half of a norm."),
    "TemporalConvBlock": dict(_CONV, **_ONE, why="a norm before the last map."),
    "DualPathRecurrence": dict(_CONV, growth_all="linear", output_bounded={0: True, 1: True}, why="a norm ends each branch."),
    "ResidualLstm": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="states are below one."),
    "CompressedConvs": dict(_B, identity_gain=1.0, growth_all="linear", softmax=False, output_bounded={0: True}, why="a gate of a norm, times a gain."),
    "GatedGraphConv": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="ReLU of a batch norm."),
    "InvariantPoints": dict(_PRE, **_LONE, why="pre-norm."),
    "SlicesOfTheField": dict(_PRE, **_TWO, why="pre-norm."),
    "RungeKutta": dict(_CONV, why="one step with slopes of what is normed."),
    "CrossCovariance": dict(_PRE, **_ONE, logits_bounded={0: True}, why="cosines over places times a temperature."),
    "FocalModulation": dict(_CONV, **_ONE, why="pre-norm."),
    "TimeMixer": dict(_CONV, **_TWO, why="batch norm in front."),
    "SingleStreamParallel": dict(_PRE, **_ONE, logits_bounded={0: True}, why="pre-norm, QK-norm, a gate of weights."),
    "ScaleShiftResBlock": dict(_B, identity_gain=1.0, growth_fixed="bounded", gradient_law="flat", softmax=False, **_ONE, why="nothing is added at the start."),
}
