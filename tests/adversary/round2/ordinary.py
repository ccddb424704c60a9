"""Blocks as a good engineer writes them for a new design."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class LayerScale(nn.Module):
    def __init__(self, dim, init=0.5):
        super().__init__()
        self.gain = nn.Parameter(torch.full((dim,), init))

    def forward(self, x):
        return x * self.gain


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


def rotary(x, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
    angle = torch.outer(torch.arange(x.shape[-2], device=x.device, dtype=x.dtype), inv)
    cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class GQA(nn.Module):
    """Grouped-query attention with rotary positions and, if asked, QK-norm per head."""

    def __init__(self, dim, heads=4, kv_heads=2, qk_norm=False):
        super().__init__()
        self.h, self.kv, self.e = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, heads * self.e, bias=False)
        self.wkv = nn.Linear(dim, 2 * kv_heads * self.e, bias=False)
        self.wo = nn.Linear(heads * self.e, dim, bias=False)
        self.q_norm = RMSNorm(self.e) if qk_norm else nn.Identity()
        self.k_norm = RMSNorm(self.e) if qk_norm else nn.Identity()

    def forward(self, x):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.e).transpose(1, 2)
        k, v = self.wkv(x).view(b, t, 2, self.kv, self.e).permute(2, 0, 3, 1, 4)
        q, k = rotary(self.q_norm(q)), rotary(self.k_norm(k))
        k, v = (s.repeat_interleave(self.h // self.kv, dim=1) for s in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class ParallelGQA(nn.Module):
    """One norm, attention and SwiGLU side by side, one add."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.ffn = RMSNorm(D), GQA(D), SwiGLU(D, 2 * D)

    def forward(self, x):
        h = self.norm(x)
        return x + self.attn(h) + self.ffn(h)


class SandwichQK(nn.Module):
    """Norms in front of and behind each sublayer, QK-norm inside."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4 = (RMSNorm(D) for _ in range(4))
        self.attn, self.ffn = GQA(D, qk_norm=True), SwiGLU(D, 2 * D)

    def forward(self, x):
        x = x + self.n2(self.attn(self.n1(x)))
        return x + self.n4(self.ffn(self.n3(x)))


class LayerScaleViT(nn.Module):
    """CaiT-like: pre-norm with LayerScale."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))
        self.s1, self.s2 = LayerScale(D), LayerScale(D)
        for lin in (self.qkv, self.proj, self.mlp[0], self.mlp[2]):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5)

    def attend(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        p = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.proj((p @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.s1(self.attend(self.n1(x)))
        return x + self.s2(self.mlp(self.n2(x)))


class DeepNormBlock(nn.Module):
    """Post-norm with alpha on the stream and beta in the initialisation, for 24 blocks."""

    def __init__(self, depth=24):
        super().__init__()
        self.alpha, beta = (2 * depth) ** 0.25, (8 * depth) ** -0.25
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, 4, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        for w in (self.fc1.weight, self.fc2.weight, self.attn.out_proj.weight):
            nn.init.xavier_normal_(w, gain=beta)

    def forward(self, x):
        x = self.n1(self.alpha * x + self.attn(x, x, x, need_weights=False)[0])
        return self.n2(self.alpha * x + self.fc2(F.relu(self.fc1(x))))


class TopTwoMoE(nn.Module):
    """Attention and a mixture of four experts, the best two per token by a softmax router."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(D), RMSNorm(D)
        self.attn = GQA(D, qk_norm=True)
        self.router = nn.Linear(D, 4, bias=False)
        self.w1 = nn.Parameter(torch.randn(4, D, 2 * D) * D ** -0.5)
        self.w2 = nn.Parameter(torch.randn(4, 2 * D, D) * (2 * D) ** -0.5)

    def moe(self, x):
        p = F.softmax(self.router(x), -1)
        top, index = p.topk(2, -1)
        weight = torch.zeros_like(p).scatter(-1, index, top / top.sum(-1, keepdim=True))
        h = F.silu(torch.einsum("btd,edf->btef", x, self.w1))
        return torch.einsum("btef,efd,bte->btd", h, self.w2, weight)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.moe(self.n2(x))


class SelectiveScan(nn.Module):
    """Mamba-like: short convolution, input-dependent decay, gate, norm in front."""

    def __init__(self, state=4):
        super().__init__()
        self.norm = RMSNorm(D)
        self.in_proj = nn.Linear(D, 2 * D, bias=False)
        self.conv = nn.Conv1d(D, D, 3, groups=D, padding=2)
        self.to_bc, self.to_dt = nn.Linear(D, 2 * state, bias=False), nn.Linear(D, D)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, state + 1, dtype=torch.get_default_dtype())).repeat(D, 1))
        self.skip = nn.Parameter(torch.ones(D))
        self.out = nn.Linear(D, D, bias=False)

    def mixer(self, x):
        u, gate = self.in_proj(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        b, c = self.to_bc(u).chunk(2, -1)
        dt = F.softplus(self.to_dt(u))
        decay = torch.exp(-dt.unsqueeze(-1) * self.log_a.exp())
        drive = (dt * u).unsqueeze(-1) * b.unsqueeze(-2)
        s, ys = torch.zeros_like(drive[:, 0]), []
        for t in range(x.shape[1]):
            s = decay[:, t] * s + drive[:, t]
            ys.append((s * c[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, 1) + self.skip * u
        return self.out(y * F.silu(gate))

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class ConvNeXt1d(nn.Module):
    """Depthwise convolution of the raw stream, LayerNorm, pointwise MLP, LayerScale."""

    def __init__(self):
        super().__init__()
        self.dw = nn.Conv1d(D, D, 7, padding=3, groups=D)
        self.norm = nn.LayerNorm(D)
        self.pw1, self.pw2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.scale = LayerScale(D)
        for lin in (self.pw1, self.pw2):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5)

    def forward(self, x):
        h = self.dw(x.transpose(1, 2)).transpose(1, 2)
        return x + self.scale(self.pw2(F.gelu(self.pw1(self.norm(h)))))


class ConvPosition(nn.Module):
    """Conditional position encoding in each block (a depthwise convolution of the stream), then pre-norm."""

    def __init__(self):
        super().__init__()
        self.pos = nn.Conv1d(D, D, 3, padding=1, groups=D)
        self.norm, self.ffn = nn.LayerNorm(D), SwiGLU(D, 2 * D)

    def forward(self, x):
        x = x + self.pos(x.transpose(1, 2)).transpose(1, 2)
        return x + self.ffn(self.norm(x))


class StreamAdapter(nn.Module):
    """A frozen-style pre-norm block followed by a bottleneck adapter with its own residual, on the raw stream."""

    def __init__(self, rank=16):
        super().__init__()
        self.norm, self.attn = RMSNorm(D), GQA(D, qk_norm=True)
        self.down, self.up = nn.Linear(D, rank), nn.Linear(rank, D)
        nn.init.normal_(self.down.weight, std=D ** -0.5)
        nn.init.normal_(self.up.weight, std=rank ** -0.5)

    def adapter(self, x):
        return self.up(F.relu(self.down(x)))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.adapter(x)


class HyperConnected(nn.Module):
    """Static hyper-connections with four streams, sandwich branches; one-hot reads, ones as writes, identity as mixing at the start."""

    def __init__(self, n=24, streams=4):
        super().__init__()
        self.streams = streams
        self.blocks = nn.ModuleList(nn.Sequential(RMSNorm(D), SwiGLU(D, 2 * D), RMSNorm(D)) for _ in range(n))
        self.read = nn.ParameterList(F.one_hot(torch.tensor(i % streams), streams).to(torch.get_default_dtype()) for i in range(n))
        self.write = nn.ParameterList(torch.ones(streams) for _ in range(n))
        self.mix = nn.ParameterList(torch.eye(streams) for _ in range(n))

    def forward(self, x):
        s = x.unsqueeze(-2).expand(*x.shape[:-1], self.streams, D)
        for f, read, write, mix in zip(self.blocks, self.read, self.write, self.mix):
            y = f(torch.einsum("btsd,s->btd", s, read))
            s = torch.einsum("btsd,sr->btrd", s, mix) + y.unsqueeze(-2) * write[:, None]
        return s.mean(-2)


class HighwayTanh(nn.Module):
    """A convex gate between the stream and a tanh."""

    def __init__(self):
        super().__init__()
        self.norm, self.body, self.gate = nn.LayerNorm(D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        t = torch.sigmoid(self.gate(h) - 1.0)
        return t * torch.tanh(self.body(h)) + (1.0 - t) * x


class OpenHighway(nn.Module):
    """Two gates of their own, each at most 1, and the stream kept with 1 plus its gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.body = nn.LayerNorm(D), nn.Linear(D, D)
        self.carry, self.take = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        h = self.norm(x)
        return x * (1.0 + torch.sigmoid(self.carry(h))) + torch.sigmoid(self.take(h)) * torch.tanh(self.body(h))


class DiffAttention(nn.Module):
    """Differential attention: the difference of two maps, a norm per head, pre-norm."""

    def __init__(self, heads=2):
        super().__init__()
        self.h, self.e = heads, D // heads // 2
        self.norm = RMSNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.lq, self.lk = nn.Parameter(torch.randn(self.e) * 0.1), nn.Parameter(torch.randn(self.e) * 0.1)
        self.head_norm = RMSNorm(2 * self.e)

    def branch(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k = (s.view(b, t, 2 * self.h, self.e).transpose(1, 2) for s in (q, k))
        v = v.view(b, t, self.h, 2 * self.e).transpose(1, 2)
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.e), -1).view(b, self.h, 2, t, t)
        lam = torch.exp(torch.dot(self.lq, self.lk)) - 0.2
        y = self.head_norm((p[:, :, 0] - lam * p[:, :, 1]) @ v) * 0.8
        return self.out(y.transpose(1, 2).reshape(b, t, D))

    def forward(self, x):
        return x + self.branch(x)


class ResPostCosine(nn.Module):
    """Swin-v2: output norms, cosine attention with a clamped learned temperature."""

    def __init__(self, heads=4):
        super().__init__()
        self.h = heads
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.tau = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def attend(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        u = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        u = u * torch.clamp(self.tau, max=math.log(100.0)).exp()
        return self.proj((u.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.n1(self.attend(x))
        return x + self.n2(self.mlp(x))


class SqueezeExcite(nn.Module):
    """Pre-norm mixer, then channel attention on the stream with a residual of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), SwiGLU(D, 2 * D)
        self.squeeze, self.excite = nn.Linear(D, D // 4), nn.Linear(D // 4, D)

    def forward(self, x):
        x = x + self.ffn(self.norm(x))
        s = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean(1, keepdim=True)))))
        return x + x * s


_PRE2 = dict(kind="block", identity_gain=1.0, growth_fixed="linear")

TRUTH = {
    "ParallelGQA": dict(_PRE2, output_bounded={"0": False, "1": False}, softmax=True,
        why="pre-norm with two branches on one norm: bounded at fixed weights, not over them; raw queries and keys.", tempts="-"),
    "SandwichQK": dict(_PRE2, growth_all="linear", output_bounded={"0": True, "1": True}, logits_bounded={"0": True}, gradient_law="power", softmax=True,
        why="each branch adds rms at most its gain; logits are rotations of normed vectors.", tempts="-"),
    "LayerScaleViT": dict(_PRE2, output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="LayerScale behind a trained map bounds nothing.", tempts="small LayerScale: bounded"),
    "DeepNormBlock": dict(kind="block", growth_fixed="bounded", growth_all="bounded", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        gradient_law="flat",
        why="the stream is normed after each sum; alpha and beta keep the gradients level.", tempts="alpha > 1 on the stream: exponential"),
    "TopTwoMoE": dict(_PRE2, output_bounded={"0": False, "1": False}, logits_bounded={"0": True, "1": False}, softmax=True,
        why="attention has QK-norm; the router's logits are a free linear map of a normed vector; experts are free.", tempts="routers are no attention: no second softmax"),
    "SelectiveScan": dict(_PRE2, output_bounded={"0": False}, softmax=False,
        why="norm in front, so bounded at fixed weights (16 tokens, decay in (0, 1)); free output map.", tempts="a recurrence over tokens: exponential"),
    "ConvNeXt1d": dict(_PRE2, output_bounded={"0": False}, softmax=False,
        why="the norm stands behind a convolution of the raw stream: what follows is bounded at fixed weights.", tempts="the first weighted op reads the raw stream: exponential"),
    "ConvPosition": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False, "1": False}, softmax=False,
        why="x + conv(x) without a norm multiplies the stream at each block: about (1 + 1/3)^(1/2) at PyTorch's init.", tempts="pre-norm; a positional encoding is harmless"),
    "StreamAdapter": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False, "1": False}, logits_bounded={"0": True}, softmax=True,
        why="the adapter reads and writes the raw stream: degree 1 at any size.", tempts="an adapter is a nested residual"),
    "HyperConnected": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False,
        why="four copies, mixing by the identity at the start (trained), mean at the end: the input passes with 1 (start values); every branch adds rms at most 1.", tempts="no residual add of x itself; gain 4 or 4^24"),
    "HighwayTanh": dict(kind="block", growth_fixed="bounded", growth_all="bounded", output_bounded={"0": True}, softmax=False,
        why="a convex combination of the stream and a value in (-1, 1): entries never exceed max(|x|, 1).", tempts="linear, or no identity"),
    "OpenHighway": dict(kind="block", growth_fixed="exponential", softmax=False,
        why="the stream is multiplied by 1 + a gate of about 1/2 at each block.", tempts="gates in (0, 1) keep the stream bounded"),
    "DiffAttention": dict(_PRE2, output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True,
        why="norms per head stand in front of a free output map; queries and keys are raw.", tempts="normed heads: bounded"),
    "ResPostCosine": dict(_PRE2, growth_all="linear", output_bounded={"0": True, "1": True}, logits_bounded={"0": True}, softmax=True,
        why="both branches end in a norm; cosine times at most 100.", tempts="no norm in front: logits grow with the stream"),
    "SqueezeExcite": dict(kind="block", growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="x (1 + sigmoid(.)) with a gate near 1/2 (or any positive mean): about 1.5 per block.", tempts="pre-norm and a bounded gate"),
}
