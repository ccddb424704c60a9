"""Conditions, gates, lanes and updates of the stream: adaptive norms and their slips, joint streams, control branches, Householder residuals, experts."""

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
    return w


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def mlp():
    return nn.Sequential(lin(D, 64), nn.GELU(approximate="tanh"), lin(64, D))


class AdaZero(nn.Module):
    """A diffusion transformer's block: shift, scale and gate of a condition that is learned here; the last map starts at zero."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False, eps=1e-6), nn.LayerNorm(D, elementwise_affine=False, eps=1e-6)
        self.attn, self.mlp, self.t_embed = Attn(), mlp(), nn.Parameter(torch.randn(1, D))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))
        self.start()

    def start(self):
        nn.init.zeros_(self.adaLN_modulation[1].weight)
        nn.init.zeros_(self.adaLN_modulation[1].bias)

    def condition(self, x):
        return self.t_embed.expand(x.shape[0], -1)

    def forward(self, x):
        s1, c1, g1, s2, c2, g2 = self.adaLN_modulation(self.condition(x)).chunk(6, 1)
        x = x + g1.unsqueeze(1) * self.attn(modulate(self.norm1(x), s1, c1))
        return x + g2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, c2))


class AdaXavier(AdaZero):
    """A later pass over all linear maps forgets that this one is to be zero."""

    def start(self):
        nn.init.xavier_uniform_(self.adaLN_modulation[1].weight)
        nn.init.zeros_(self.adaLN_modulation[1].bias)


class AdaOfPooledStream(AdaXavier):
    """The condition is the mean of the stream's tokens, as it is: the gates grow with the stream."""

    def condition(self, x):
        return x.mean(1)


class AdaOfPooledNorm(AdaXavier):
    """The condition is the mean of normed tokens."""

    def condition(self, x):
        return F.layer_norm(x, (D,)).mean(1)


class AdaShiftBehind(AdaXavier):
    """The shift is added behind the gate, to the stream."""

    def forward(self, x):
        s1, c1, g1, s2, c2, g2 = self.adaLN_modulation(self.condition(x)).chunk(6, 1)
        x = x + g1.unsqueeze(1) * self.attn(self.norm1(x) * (1 + c1.unsqueeze(1))) + s1.unsqueeze(1)
        return x + g2.unsqueeze(1) * self.mlp(self.norm2(x) * (1 + c2.unsqueeze(1))) + s2.unsqueeze(1)


class AdaWithoutNorm(AdaXavier):
    """Modulated as it is: the norms were taken out with their weights."""

    def forward(self, x):
        s1, c1, g1, s2, c2, g2 = self.adaLN_modulation(self.condition(x)).chunk(6, 1)
        x = x + (1 + g1.unsqueeze(1)) * self.attn(modulate(x, s1, c1))
        return x + (1 + g2.unsqueeze(1)) * self.mlp(modulate(x, s2, c2))


class TanhSandwich(nn.Module):
    """Lumina's block: norms in front and behind, scales, gates by tanh that start at zero; norms on queries and keys."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4, self.qn, self.kn = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D), nn.LayerNorm(HD), nn.LayerNorm(HD)
        self.qkv, self.proj, self.w13, self.w2, self.t_embed, self.ada = lin(D, 3 * D), lin(D, D), lin(D, 128), lin(64, D), nn.Parameter(torch.randn(1, D)), nn.Linear(D, 4 * D)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x):
        a, ga, m, gm = self.ada(F.silu(self.t_embed)).unsqueeze(1).chunk(4, -1)
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in self.qkv(self.n1(x) * (1 + a)).chunk(3, -1))
        y = self.proj(F.scaled_dot_product_attention(self.qn(q), self.kn(k), v).transpose(1, 2).flatten(2))
        x = x + ga.tanh() * self.n2(y)
        g, u = self.w13(self.n3(x) * (1 + m)).chunk(2, -1)
        return x + gm.tanh() * self.n4(self.w2(F.silu(g) * u))


class JointTokens(nn.Module):
    """Six tokens of text and ten of an image, weights of their own, one attention over both, norms on queries and keys."""

    def __init__(self, text=6):
        super().__init__()
        self.text = text
        make = lambda: nn.ModuleDict({"n1": nn.LayerNorm(D, elementwise_affine=False), "n2": nn.LayerNorm(D, elementwise_affine=False), "qkv": lin(D, 3 * D),
                                      "qn": nn.RMSNorm(HD), "kn": nn.RMSNorm(HD), "o": lin(D, D), "mlp": mlp()})
        self.txt, self.img = make(), make()

    def forward(self, x):
        parts = x.split((self.text, T - self.text), 1)
        q, k, v = [], [], []
        for m, p in zip((self.txt, self.img), parts):
            a, b, c = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in m["qkv"](m["n1"](p)).chunk(3, -1))
            q.append(m["qn"](a)), k.append(m["kn"](b)), v.append(c)
        y = F.scaled_dot_product_attention(torch.cat(q, 2), torch.cat(k, 2), torch.cat(v, 2)).transpose(1, 2).flatten(2)
        out = []
        for m, p, z in zip((self.txt, self.img), parts, y.split((self.text, T - self.text), 1)):
            p = p + m["o"](z)
            out.append(p + m["mlp"](m["n2"](p)))
        return torch.cat(out, 1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attn(), mlp()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Controlled(nn.Module):
    """A frozen trunk and a trained copy of it; the copy's states come to the trunk by maps that start at zero."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 8
        self.layer, self.copy = nn.ModuleList(Layer() for _ in range(n)).requires_grad_(False), nn.ModuleList(Layer() for _ in range(n))
        self.zero = nn.ModuleList(nn.Linear(D, D) for _ in range(n))
        for z in self.zero:
            nn.init.zeros_(z.weight)
            nn.init.zeros_(z.bias)

    def forward(self, x):
        c = x
        for f, g, z in zip(self.layer, self.copy, self.zero):
            c = g(c)
            x = f(x) + z(c)
        return x


class DeltaResidual(nn.Module):
    """Deep delta learning: the stream loses what it has along a unit direction and gets a new value there; rates below two."""

    unit = True

    def __init__(self):
        super().__init__()
        self.norm, self.k, self.b, self.v = nn.RMSNorm(D), lin(D, D), lin(D, 1), lin(D, 1)

    def forward(self, x):
        h = self.norm(x)
        k = self.k(h)
        if self.unit:
            k = F.normalize(k, dim=-1)
        beta = 2 * torch.sigmoid(self.b(h))
        return x + beta * k * (self.v(h) - (k * x).sum(-1, keepdim=True))


class DeltaResidualFree(DeltaResidual):
    """The direction keeps its length of five: what was to be taken away is taken thirty times."""

    unit = False


class OrthogonalUpdate(nn.Module):
    """Only what a branch gives at right angles to the stream is added."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.RMSNorm(D), mlp()

    def forward(self, x):
        y = self.f(self.norm(x))
        along = (x * y).sum(-1, keepdim=True) / ((x * x).sum(-1, keepdim=True) + 1e-6)
        return x + y - along * x


class OrthogonalUpdateUndivided(OrthogonalUpdate):
    """The squared length was forgotten."""

    def forward(self, x):
        y = self.f(self.norm(x))
        return x + y - (x * y).sum(-1, keepdim=True) * x


class PerLayerInput(nn.Module):
    """Gemma 3n's embeddings by layer: a GELU gate of the stream times a table of the place, a map, a norm, added."""

    def __init__(self):
        super().__init__()
        self.layer, self.gate, self.table, self.proj, self.post = Layer(), lin(D, 12), nn.Parameter(torch.randn(T, 12)), lin(12, D), nn.RMSNorm(D)

    def end(self, y):
        return self.post(y)

    def forward(self, x):
        x = self.layer(x)
        return x + self.end(self.proj(F.gelu(self.gate(x), approximate="tanh") * self.table))


class PerLayerInputNoPost(PerLayerInput):
    """Without its norm the branch is as large as the stream."""

    def end(self, y):
        return y


class DynamicGain(nn.Module):
    """SeeDNorm: the gain of each norm is a learned one and tanh of a product with the token itself, times a vector."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.alpha, self.beta = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

        def forward(self, x):
            g = torch.tanh((x * self.beta).sum(-1, keepdim=True)) * self.alpha + self.gain
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = self.Norm(), self.Norm(), Attn(), mlp()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ErfInFront(nn.Module):
    """Derf in place of each norm: erf of a scaled and moved entry, a gain and a bias."""

    class Derf(nn.Module):
        def __init__(self):
            super().__init__()
            self.alpha, self.s, self.weight, self.bias = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

        def forward(self, x):
            return self.weight * torch.erf(self.alpha * x + self.s) + self.bias

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = self.Derf(), self.Derf(), Attn(), mlp()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class BiasBalanced(nn.Module):
    """Sigmoid affinities; a bias that is no weight chooses experts within the best two groups; chosen affinities sum to 2.5; one shared expert."""

    def __init__(self, e=8, groups=4, k=2):
        super().__init__()
        self.e, self.groups, self.k, self.norm, self.gate = e, groups, k, nn.RMSNorm(D), nn.Parameter(torch.randn(e, D) * D ** -0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(e))
        self.experts, self.shared = nn.ModuleList(nn.Sequential(lin(D, 24), nn.SiLU(), lin(24, D)) for _ in range(e)), nn.Sequential(lin(D, 24), nn.SiLU(), lin(24, D))

    def source(self, x, h):
        return h

    def route(self, h):
        scores = torch.sigmoid(F.linear(h, self.gate))
        choice = scores + self.e_score_correction_bias
        group = choice.unflatten(-1, (self.groups, -1)).topk(2, -1).values.sum(-1)
        mask = torch.zeros_like(group).scatter_(-1, group.topk(2, -1).indices, 1.0).repeat_interleave(self.e // self.groups, -1)
        idx = choice.masked_fill(mask == 0, float("-inf")).topk(self.k, -1).indices
        w = scores.gather(-1, idx)
        return idx, 2.5 * w / (w.sum(-1, keepdim=True) + 1e-20)

    def forward(self, x):
        h = self.norm(x).view(-1, D)
        idx, w = self.route(self.source(x.view(-1, D), h))
        y = torch.zeros_like(h)
        for i, f in enumerate(self.experts):
            y = y + f(h) * (w * (idx == i)).sum(-1, keepdim=True)
        return x + (y + self.shared(h)).view_as(x)


class BalancedReadsStream(BiasBalanced):
    """The router reads the stream before its norm: affinities are shares all the same."""

    def source(self, x, h):
        return x


class LogitGates(BalancedReadsStream):
    """The chosen affinities are the logits themselves, of the stream: what is added grows with it."""

    def route(self, h):
        w, idx = F.linear(h, self.gate).topk(self.k, -1)
        return idx, w


class ShortcutExperts(nn.Module):
    """Experts read what the first attention gave, beside a dense net and a second attention; they are added at the end of the layer."""

    def __init__(self, e=4):
        super().__init__()
        self.n = nn.ModuleList(nn.RMSNorm(D) for _ in range(4))
        self.a1, self.a2, self.d1, self.d2, self.router = Attn(), Attn(), mlp(), mlp(), lin(D, e + 1)
        self.experts = nn.ModuleList(nn.Sequential(lin(D, 24), nn.SiLU(), lin(24, D)) for _ in range(e))

    def moe(self, h):
        p = self.router(h).softmax(-1)
        y = torch.stack([f(h) for f in self.experts] + [h], -1)
        return (y * p.unsqueeze(-2)).sum(-1)

    def forward(self, x):
        x = x + self.a1(self.n[0](x))
        h = self.n[1](x)
        shortcut = self.moe(h)
        x = x + self.d1(h)
        x = x + self.a2(self.n[2](x))
        return x + self.d2(self.n[3](x)) + shortcut


class Triangle(nn.Module):
    """A pair track of four by four: a triangle product of gated maps, normed, mapped and gated."""

    norm_in = norm_out = True

    def __init__(self, c=12):
        super().__init__()
        self.ln, self.lo, self.ab, self.gab, self.g, self.o = nn.LayerNorm(D), nn.LayerNorm(c), lin(D, 2 * c), lin(D, 2 * c), lin(D, D), lin(c, D)

    def forward(self, x):
        z = x.unflatten(1, (4, 4))
        h = self.ln(z) if self.norm_in else z
        a, b = (self.ab(h) * torch.sigmoid(self.gab(h))).chunk(2, -1)
        y = torch.einsum("bikc,bjkc->bijc", a, b)
        y = self.o(self.lo(y) if self.norm_out else y) * torch.sigmoid(self.g(h))
        return (z + y).flatten(1, 2)


class TriangleNormBehind(Triangle):
    """Without the first norm: the second one bounds what is given."""

    norm_in = False


class TriangleBare(Triangle):
    """Without both: of degree two."""

    norm_in = norm_out = False


class ManifoldLanes(nn.Module):
    """Four lanes mixed by a matrix that is made doubly stochastic, of the normed lanes; sigmoids read and write."""

    def __init__(self, n=None, lanes=4):
        super().__init__()
        n = n or 8
        self.lanes, self.layer = lanes, nn.ModuleList(nn.Sequential(nn.RMSNorm(D), lin(D, 64), nn.GELU(), lin(64, D)) for _ in range(n))
        self.phi = nn.ModuleList(lin(lanes * D, 2 * lanes + lanes * lanes) for _ in range(n))
        self.bias = nn.ParameterList(nn.Parameter(torch.cat((torch.zeros(2 * lanes), 4 * torch.eye(lanes).flatten()))) for _ in range(n))
        self.gain_a = nn.ParameterList(nn.Parameter(torch.full((1,), 0.01)) for _ in range(n))

    def mixing(self, m):
        m = torch.exp(m)
        for _ in range(8):
            m = m / m.sum(-1, keepdim=True)
            m = m / m.sum(-2, keepdim=True)
        return m

    def forward(self, x):
        s, c = x.unsqueeze(-2).repeat(1, 1, self.lanes, 1), self.lanes
        for f, phi, bias, a in zip(self.layer, self.phi, self.bias, self.gain_a):
            flat = s.flatten(-2)
            w = a * phi(F.rms_norm(flat, (flat.shape[-1],))) + bias
            pre, post, res = w.split((c, c, c * c), -1)
            y = f((torch.sigmoid(pre).unsqueeze(-1) * s).sum(-2))
            s = self.mixing(res.unflatten(-1, (c, c))) @ s + 2 * torch.sigmoid(post).unsqueeze(-1) * y.unsqueeze(-2)
        return s.mean(-2)


class LanesOfColumns(ManifoldLanes):
    """One softmax over rows' entries of each column: what all lanes have in sum stays."""

    def mixing(self, m):
        return m.softmax(-2)


class LanesOfSigmoids(ManifoldLanes):
    """Sigmoids in place of the stochastic matrix: 0.98 on the diagonal and halves beside it."""

    def mixing(self, m):
        return torch.sigmoid(m)


class BlockAttention(nn.Module):
    """Attention over depth by blocks of four branches: each branch reads a mean of earlier blocks' sums and the running one."""

    def __init__(self, n=None, size=4):
        super().__init__()
        n = n or 12
        self.size, self.layer = size, nn.ModuleList(nn.Sequential(nn.RMSNorm(D), lin(D, 64), nn.GELU(), lin(64, D)) for _ in range(n))
        self.query = nn.ParameterList(nn.Parameter(torch.zeros(D)) for _ in range(n + 1))

    def read(self, states, q):
        v = torch.stack(states)
        p = torch.einsum("d,nbtd->nbt", q, F.rms_norm(v, (D,))).softmax(0)
        return torch.einsum("nbt,nbtd->btd", p, v)

    def forward(self, x):
        done, run = [x], None
        for i, (f, q) in enumerate(zip(self.layer, self.query)):
            y = f(self.read(done + ([run] if run is not None else []), q))
            run = y if run is None else run + y
            if (i + 1) % self.size == 0:
                done.append(run)
                run = None
        return self.read(done + ([run] if run is not None else []), self.query[-1])


class TinyRecursion(nn.Module):
    """Two layers with norms behind their sums refine a latent, and a guess by it, over and over; the question is added each time."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.net = n or 6, nn.ModuleList(nn.ModuleDict({"a": Attn(), "m": mlp()}) for _ in range(2))
        self.z0 = nn.Parameter(torch.randn(D))

    def core(self, h):
        for b in self.net:
            h = F.rms_norm(h + b["a"](h), (D,))
            h = F.rms_norm(h + b["m"](h), (D,))
        return h

    def forward(self, x):
        y, z = x, self.z0.expand_as(x)
        for _ in range(self.n):
            for _ in range(3):
                z = self.core(x + y + z)
            y = self.core(y + z)
        return y


class LastNormCritic(nn.Module):
    """BroNet's residual: map, norm, ReLU, map, norm, of the stream as it is."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(D, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, D), nn.LayerNorm(D))

    def forward(self, x):
        return x + self.f(x)


class ManyTokensAhead(nn.Module):
    """A trunk and one more layer that reads the norm of its state beside the norm of the next token's embedding; head tied; both losses' logits are given."""

    def __init__(self, n=None, vocab=40):
        super().__init__()
        n = n or 6
        self.embed, self.layer, self.norm = nn.Embedding(vocab, D), nn.ModuleList(Layer() for _ in range(n)), nn.RMSNorm(D)
        self.hn, self.en, self.proj, self.extra, self.last = nn.RMSNorm(D), nn.RMSNorm(D), lin(2 * D, D), Layer(), nn.RMSNorm(D)
        self.inp = lin(D, D)

    def forward(self, x):
        e = self.inp(x)
        h = e
        for f in self.layer:
            h = f(h)
        nxt = F.pad(e[:, 1:], (0, 0, 0, 1))
        m = self.extra(self.proj(torch.cat((self.hn(h), self.en(nxt)), -1)))
        return F.linear(self.norm(h), self.embed.weight), F.linear(self.last(m), self.embed.weight)


class ResamplerRaw(nn.Module):
    """Latents read features and themselves; the norm on what is read was left out, so that values are as large as the latents."""

    norm_kv = False

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.lat = nn.Parameter(torch.randn(T, D))
        self.layer = nn.ModuleList(nn.ModuleDict({"nq": nn.LayerNorm(D), "nk": nn.LayerNorm(D), "q": lin(D, D), "kv": lin(D, 2 * D), "o": lin(D, D), "nf": nn.LayerNorm(D), "f": mlp()}) for _ in range(n))

    def forward(self, x):
        z = self.lat.expand(x.shape[0], -1, -1)
        for b in self.layer:
            q = b["nq"](z)
            src = torch.cat((b["nk"](x), q), 1) if self.norm_kv else torch.cat((x, z), 1)
            k, v = b["kv"](src).chunk(2, -1)
            q, k, v = (u.unflatten(-1, (H, HD)).transpose(1, 2) for u in (b["q"](q), k, v))
            k = F.rms_norm(k, (HD,))
            z = z + b["o"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            z = z + b["f"](b["nf"](z))
        return z


class ResamplerNormed(ResamplerRaw):
    """As published: both are normed."""

    norm_kv = True


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_M = dict(kind="model", softmax=False)
TRUTH = {
    "AdaZero": dict(_B, identity_gain=1.0, growth_fixed="bounded", gradient_law=None, softmax=True, **_F, why="all gates start at zero."),
    "AdaXavier": dict(_PRE, **_TWO, **_F, why="gates of weights alone, pre-norm."),
    "AdaOfPooledStream": dict(_B, growth_fixed="exponential", softmax=True, **_TWO, **_F, why="gates of degree one."),
    "AdaOfPooledNorm": dict(_PRE, **_TWO, **_F, why="gates of what is normed."),
    "AdaShiftBehind": dict(_PRE, **_F, why="a constant is added at each branch."),
    "AdaWithoutNorm": dict(_B, growth_fixed="exponential", softmax=True, **_F, why="no norm: degree one and more."),
    "TanhSandwich": dict(_B, identity_gain=1.0, growth_fixed="bounded", growth_all="linear", softmax=True, output_bounded={0: True, 1: True}, **_T,
                         why="norms behind, gates below one that start at zero."),
    "JointTokens": dict(_PRE, **_T, why="pre-norm on both parts; norms on queries and keys."),
    "Controlled": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True, why="maps from the copy start at zero."),
    "DeltaResidual": dict(_B, growth_fixed="bounded", softmax=False, why="no step makes it longer but by 2 v: what it has along its directions is taken away."),
    "DeltaResidualFree": dict(_B, growth_fixed="exponential", softmax=False, why="one minus beta times 32."),
    "OrthogonalUpdate": dict(_B, growth_fixed="linear", softmax=False, **_ONE, why="squares of lengths add up."),
    "OrthogonalUpdateUndivided": dict(_B, growth_fixed="exponential", softmax=False, **_ONE, why="of degree two."),
    "PerLayerInput": dict(_PRE, output_bounded={0: False, 1: False, 2: True}, **_F, why="the third ends in a norm."),
    "PerLayerInputNoPost": dict(_B, growth_fixed="exponential", softmax=True, output_bounded={0: False, 1: False, 2: False}, **_F, why="a GELU of the stream."),
    "DynamicGain": dict(_PRE, **_TWO, **_F, why="a norm with a gain of at most two."),
    "ErfInFront": dict(_PRE, **_TWO, **_F, why="what a branch reads is at most one an entry."),
    "BiasBalanced": dict(_NET, why="pre-norm; shares."),
    "BalancedReadsStream": dict(_NET, why="shares, whatever the router reads."),
    "LogitGates": dict(_B, growth_fixed="exponential", softmax=False, why="gates of degree one."),
    "ShortcutExperts": dict(_PRE, why="pre-norm; the copy expert gives what is normed."),
    "Triangle": dict(_NET, **_ONE, why="pre-norm."),
    "TriangleNormBehind": dict(_NET, **_ONE, why="a norm and a map behind the product."),
    "TriangleBare": dict(_B, growth_fixed="exponential", softmax=False, **_ONE, why="of degree two."),
    "ManifoldLanes": dict(_M, growth_fixed="linear", why="a doubly stochastic matrix; at most two of each branch are written.") | dict(softmax=None),
    "LanesOfColumns": dict(_M, growth_fixed="linear", why="columns' shares keep the sum.") | dict(softmax=True),
    "LanesOfSigmoids": dict(_M, growth_fixed="exponential", why="0.98 + 3 / 2 a layer."),
    "BlockAttention": dict(_M, growth_fixed="bounded", why="a mean of sums of four branches that read norms.") | dict(softmax=None),
    "TinyRecursion": dict(kind="model", growth_fixed="bounded", softmax=True, why="a norm behind each sum."),
    "LastNormCritic": dict(_NET, growth_all="linear", output_bounded={0: True}, why="ends in a norm."),
    "ManyTokensAhead": dict(kind="model", softmax=True, why="two heads."),
    "ResamplerRaw": dict(kind="model", growth_fixed="exponential", softmax=True, why="values are maps of the latents themselves."),
    "ResamplerNormed": dict(kind="model", growth_fixed="linear", softmax=True, why="pre-norm."),
}
