"""What was published in 2024-2026, in plain styles, and slips: recurrent gates, slots, interactions of features, local and global branches, graphs, policies, experts, modalities, scans of pictures, partial filters, norms that rescale themselves."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(24)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _C = _draw(2, T, D), _draw(2, D)
_MAP = _draw(2, D, 8, 8)
_EDGES = torch.stack((torch.arange(40) % T, (torch.arange(40) * 7 + 3) % T))
example_inputs = {
    **{k: (_X,) for k in ("GateAloneKeepsNormed", "GatedSlots", "GatedSlotsRaw", "WukongLayer", "WukongAddBehind", "WukongNormDropped", "TideBlock", "EBranchformerBlock", "EBranchformerLocalRaw",
                          "ChainOfExperts", "ChainOfExpertsOnStream", "LonghornBlock", "EvenPowerAttention", "SelfRescaledNorm", "SelfRescaledNoTanh")},
    **{k: (_draw(T, D), _EDGES) for k in ("PnaLayer", "PnaLayerBare")},
    **{k: ({"x": _X, "vn": _draw(2, 1, D)},) for k in ("VirtualNodeLayer", "VirtualNodeAdded")},
    **{k: (_draw(2, D, T), _C) for k in ("PolicyUnit", "PolicyUnitFilmOnSum")},
    "DeepStackBlock": (_X, _draw(2, 5, D)),
    **{k: ({"text": _X, "image": _draw(2, 5, D)},) for k in ("MixtureOfTransformers", "MixtureOfTransformersSkipLost")},
    **{k: (_MAP,) for k in ("CrossScan", "CrossScanRaw", "PartialConvBlock", "PartialConvNoNorm", "InceptionNextBlock")},
    **{k: (_X, _C) for k in ("AuroraBlock", "AuroraModulatesSum")},
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def mlp(i=D, hidden=64, o=None, act=nn.GELU):
    return nn.Sequential(lin(i, hidden), act(), lin(hidden, o or i))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = lin(D, 3 * D), lin(D, D)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _GateAlone(nn.Module):
    """A gate and a candidate that know nothing of the state before, along time; then a net."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff_norm, self.to_hidden_and_gate, self.to_out, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 4 * D), lin(2 * D, D), mlp()

    def cell(self, x):
        hidden, gate = self.to_hidden_and_gate(x).chunk(2, dim=-1)
        z, h = gate.sigmoid(), torch.where(hidden >= 0, hidden + 0.5, hidden.sigmoid())
        prev, out = torch.zeros_like(h[:, 0]), []
        for h_t, z_t in zip(h.unbind(1), z.unbind(1)):
            prev = torch.lerp(prev, h_t, z_t)
            out.append(prev)
        return self.to_out(torch.stack(out, dim=1))

    def forward(self, x):
        x = self.cell(self.norm(x)) + x
        return self.ff(self.ff_norm(x)) + x


class GateAloneKeepsNormed(_GateAlone):
    """The name of the stream is given to what is normed."""

    def forward(self, x):
        x = self.norm(x)
        x = self.cell(x) + x
        return self.ff(self.ff_norm(x)) + x


class GatedSlots(nn.Module):
    """A few slots of keys and values that forget by a gate; a softmax over slots is between two linear memories."""

    def __init__(self, m=8):
        super().__init__()
        self.norm, self.qkvf, self.o, self.m = nn.RMSNorm(D), lin(D, 3 * D + m), lin(D, D), m

    def mix(self, h):
        q, k, v, f = self.qkvf(h).split([D, D, D, self.m], dim=-1)
        alpha = torch.sigmoid(f) ** 0.125
        ks = vs = h.new_zeros(h.shape[0], self.m, D)
        outs = []
        for t in range(h.shape[1]):
            a, write = alpha[:, t, :, None], (1 - alpha[:, t]).unsqueeze(-1)
            ks = a * ks + write * k[:, t].unsqueeze(1)
            vs = a * vs + write * v[:, t].unsqueeze(1)
            p = torch.softmax(torch.einsum("bmd,bd->bm", ks, q[:, t]) * D ** -0.5, dim=-1)
            outs.append(torch.einsum("bm,bmd->bd", p, vs))
        return self.o(F.silu(torch.stack(outs, 1)))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class GatedSlotsRaw(GatedSlots):
    """The norm is made and forgotten."""

    def forward(self, x):
        return x + self.mix(x)


class WukongLayer(nn.Module):
    """Factorisation of pairs of features and a map over features, side by side; the norm is behind the sum."""

    def __init__(self, k=4):
        super().__init__()
        self.down, self.fm_norm, self.fm, self.lcb, self.norm = nn.Parameter(torch.randn(T, k) * T ** -0.5), nn.LayerNorm(T * k), mlp(T * k, 64, 8 * D), nn.Parameter(torch.randn(8, T) * T ** -0.5), nn.LayerNorm(D)

    def both(self, x):
        inter = torch.bmm(x, torch.einsum("bnd,nk->bdk", x, self.down))
        fmb = self.fm(self.fm_norm(inter.flatten(1))).view(-1, 8, D)
        lcb = torch.einsum("mn,bnd->bmd", self.lcb, x)
        return torch.cat((fmb, lcb), dim=1)

    def forward(self, x):
        return self.norm(x + self.both(x))


class WukongAddBehind(WukongLayer):
    """The norm is on what is added."""

    def forward(self, x):
        return x + self.norm(self.both(x))


class WukongNormDropped(WukongLayer):
    """No norm behind; the map over features is of degree one."""

    def forward(self, x):
        return x + self.both(x)


class TideBlock(nn.Module):
    """A dense encoder's residual unit: the skip has its own map, the norm is behind both."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.skip, self.ln = lin(D, 64, True), lin(64, D, True), lin(D, D, True), nn.LayerNorm(D)

    def forward(self, x):
        hidden = self.fc2(F.relu(self.fc1(x)))
        return self.ln(hidden + self.skip(x))


class CgMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.conv, self.down = lin(D, 96), nn.LayerNorm(48), nn.Conv1d(48, 48, 5, padding=2, groups=48), lin(48, D)

    def forward(self, x):
        r, g = F.gelu(self.up(x)).chunk(2, dim=-1)
        return self.down(r * self.conv(self.norm(g).transpose(1, 2)).transpose(1, 2))


class EBranchformerBlock(nn.Module):
    """Half nets around two branches, global and local, which a filter along time merges."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleDict({k: nn.LayerNorm(D) for k in ("ff_macaron", "mha", "mlp", "ff", "final")})
        self.ff_macaron, self.ff, self.attn, self.cgmlp = mlp(act=nn.SiLU), mlp(act=nn.SiLU), Attention(), CgMlp()
        self.fusion, self.merge = nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D), lin(2 * D, D)

    def local(self, x):
        return self.cgmlp(self.norms["mlp"](x))

    def end(self, x):
        return self.norms["final"](x)

    def forward(self, x):
        x = x + 0.5 * self.ff_macaron(self.norms["ff_macaron"](x))
        x1, x2 = self.attn(self.norms["mha"](x)), self.local(x)
        both = torch.cat([x1, x2], dim=-1)
        x = x + self.merge(both + self.fusion(both.transpose(1, 2)).transpose(1, 2))
        x = x + 0.5 * self.ff(self.norms["ff"](x))
        return self.end(x)


class EBranchformerLocalRaw(EBranchformerBlock):
    """The local branch reads the stream, and the last norm is left for the end of the encoder."""

    def local(self, x):
        return self.cgmlp(x)

    def end(self, x):
        return x


class PnaLayer(nn.Module):
    """Four statistics of neighbours, times scalers of degrees; a batch norm, a ReLU, a skip."""

    def __init__(self):
        super().__init__()
        self.pre, self.post, self.bn = lin(2 * D, D), lin(9 * D, D), nn.BatchNorm1d(D)

    def gather(self, h, edges):
        src, dst = edges
        m = self.pre(torch.cat((h[src], h[dst]), -1))
        index, zero = dst[:, None].expand_as(m), torch.zeros_like(h)
        mean = zero.scatter_reduce(0, index, m, "mean", include_self=False)
        square = zero.scatter_reduce(0, index, m * m, "mean", include_self=False)
        parts = [mean, zero.scatter_reduce(0, index, m, "amax", include_self=False), zero.scatter_reduce(0, index, m, "amin", include_self=False), (F.relu(square - mean * mean) + 1e-5).sqrt()]
        degree = torch.zeros(h.shape[0], 1, dtype=h.dtype, device=h.device).index_add(0, dst, torch.ones(len(dst), 1, dtype=h.dtype, device=h.device))
        stats = torch.cat(parts, -1)
        return self.post(torch.cat([h, stats, stats * torch.log(degree + 1) / 1.2], -1))

    def forward(self, h, edges):
        return h + F.relu(self.bn(self.gather(h, edges)))


class PnaLayerBare(PnaLayer):
    """Without the batch norm."""

    def forward(self, h, edges):
        return h + F.relu(self.gather(h, edges))


class VirtualNodeLayer(nn.Module):
    """Nodes on a ring and one node that sees all; the state is a dictionary."""

    def __init__(self):
        super().__init__()
        self.norm, self.vn_norm, self.net, self.vn_net = nn.LayerNorm(D), nn.LayerNorm(D), mlp(), mlp()

    def nodes(self, x, vn):
        around = x.roll(1, 1) + x.roll(-1, 1)
        return x + self.net(self.norm(x + around + vn))

    def forward(self, state):
        x, vn = state["x"], state["vn"]
        x = self.nodes(x, vn)
        vn = vn + self.vn_net(self.vn_norm(vn + x.mean(1, keepdim=True)))
        return {"x": x, "vn": vn}


class VirtualNodeAdded(VirtualNodeLayer):
    """The virtual node is in the residual: what grows is added to each node in each layer."""

    def nodes(self, x, vn):
        x = x + vn
        return x + self.net(self.norm(x))


class PolicyUnit(nn.Module):
    """A diffusion policy's unit over time: filter, group norm, Mish, twice; a condition scales and shifts between."""

    def __init__(self):
        super().__init__()
        self.b1, self.b2 = (nn.Sequential(nn.Conv1d(D, D, 5, padding=2), nn.GroupNorm(8, D), nn.Mish()) for _ in range(2))
        self.cond = nn.Sequential(nn.Mish(), nn.Linear(D, 2 * D))

    def forward(self, x, c):
        scale, bias = self.cond(c)[..., None].chunk(2, 1)
        out = scale * self.b1(x) + bias
        return self.b2(out) + x


class PolicyUnitFilmOnSum(PolicyUnit):
    """One plus the scale is on the sum."""

    def forward(self, x, c):
        scale, bias = self.cond(c)[..., None].chunk(2, 1)
        return (1 + scale) * (x + self.b2(self.b1(x))) + bias


class Experts(nn.Module):
    def __init__(self, e=4):
        super().__init__()
        self.router, self.w1, self.w2 = lin(D, e), nn.Parameter(torch.randn(e, D, 32) * D ** -0.5), nn.Parameter(torch.randn(e, 32, D) * 32 ** -0.5)

    def forward(self, h):
        p, index = self.router(h).softmax(-1).topk(2, dim=-1)
        gates = torch.zeros_like(self.router(h)).scatter(-1, index, p)
        return torch.einsum("bte,etbd->btd", gates, torch.stack([F.silu(h @ a) @ b for a, b in zip(self.w1, self.w2)]).transpose(1, 2))


class ChainOfExperts(nn.Module):
    """Experts are called twice, and the second reads what the first gave, added to what it read."""

    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = nn.RMSNorm(D), Experts(), Experts()

    def chain(self, h):
        for experts in (self.first, self.second):
            h = h + experts(h)
        return h

    def forward(self, x):
        return x + self.chain(self.norm(x))


class ChainOfExpertsOnStream(ChainOfExperts):
    """The chain's own skip carries the stream, beside the block's: twice."""

    def chain(self, h):
        for experts in (self.first, self.second):
            h = h + experts(self.norm(h))
        return h

    def forward(self, x):
        return x + self.chain(x)


class DeepStackBlock(nn.Module):
    """What a picture says at a finer scale is added to its places, in each layer."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.net = nn.RMSNorm(D), nn.RMSNorm(D), Attention(), mlp(act=nn.SiLU)

    def forward(self, x, visual):
        x = x + self.attn(self.n1(x))
        x = x + self.net(self.n2(x))
        n = visual.shape[1]
        return torch.cat((x[:, :n] + visual, x[:, n:]), dim=1)


class MixtureOfTransformers(nn.Module):
    """Each modality has its own norms, maps and nets; attention is over all tokens."""

    names = ("text", "image")

    def __init__(self):
        super().__init__()
        for k in ("n1", "n2"):
            setattr(self, k, nn.ModuleDict({m: nn.RMSNorm(D) for m in self.names}))
        self.qkv, self.o = (nn.ModuleDict({m: lin(D, w) for m in self.names}) for w in (3 * D, D))
        self.net = nn.ModuleDict({m: mlp(act=nn.SiLU) for m in self.names})

    def finish(self, m, x, a):
        x = x + self.o[m](a)
        return x + self.net[m](self.n2[m](x))

    def forward(self, state):
        lengths = [state[m].shape[1] for m in self.names]
        qkv = torch.cat([self.qkv[m](self.n1[m](state[m])) for m in self.names], 1)
        q, k, v = qkv.unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return {m: self.finish(m, state[m], a) for m, a in zip(self.names, y.split(lengths, 1))}


class MixtureOfTransformersSkipLost(MixtureOfTransformers):
    """The picture's own attention takes the place of its stream."""

    def finish(self, m, x, a):
        x = self.o[m](a) + (x if m == "text" else 0)
        return x + self.net[m](self.n2[m](x))


class CrossScan(nn.Module):
    """Four scans of a picture by rows and columns, there and back, are added and normed, and gated."""

    def __init__(self):
        super().__init__()
        self.norm, self.out_norm, self.in_proj, self.out_proj = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 2 * D), lin(D, D)
        self.decay, self.skip, self.dw = nn.Parameter(torch.randn(4, D)), nn.Parameter(torch.ones(D)), nn.Conv2d(D, D, 3, padding=1, groups=D)

    def scan(self, u, decay):
        a, h, out = torch.sigmoid(decay), torch.zeros_like(u[:, 0]), []
        for t in range(u.shape[1]):
            h = a * h + u[:, t]
            out.append(h)
        return torch.stack(out, 1)

    def ss2d(self, u):
        b, c, h, w = u.shape
        rows, columns = u.flatten(2).mT, u.mT.flatten(2).mT
        y1 = self.scan(rows, self.decay[0]) + self.scan(rows.flip(1), self.decay[1]).flip(1)
        y2 = self.scan(columns, self.decay[2]) + self.scan(columns.flip(1), self.decay[3]).flip(1)
        return y1 + y2.mT.unflatten(2, (w, h)).mT.flatten(2).mT + rows * self.skip

    def end(self, y):
        return self.out_norm(y)

    def mix(self, y):
        u, z = self.in_proj(y).chunk(2, -1)
        u = F.silu(self.dw(u.permute(0, 3, 1, 2)))
        out = self.end(self.ss2d(u)).view_as(z)
        return self.out_proj(out * F.silu(z)).permute(0, 3, 1, 2)

    def forward(self, x):
        return x + self.mix(self.norm(x.permute(0, 2, 3, 1)))


class CrossScanRaw(CrossScan):
    """The norm in front is lost, the one behind the scans is kept: the gate is of degree one."""

    def forward(self, x):
        return x + self.mix(x.permute(0, 2, 3, 1))


class LonghornBlock(nn.Module):
    """The state is what an online least squares keeps: an implicit step."""

    def __init__(self, n=4):
        super().__init__()
        self.norm, self.in_proj, self.kqb, self.out_proj, self.n = nn.RMSNorm(D), lin(D, 2 * D), lin(D, 2 * n + D), lin(D, D), n

    def forward(self, x):
        u, z = self.in_proj(self.norm(x)).chunk(2, -1)
        k, q, beta = self.kqb(F.silu(u)).split([self.n, self.n, D], -1)
        dt = beta.sigmoid()
        dt = dt / (1 + dt * k.square().sum(-1, keepdim=True))
        s, ys = u.new_zeros(*u.shape[::2], self.n), []
        for t in range(u.shape[1]):
            kt = k[:, t, None]
            s = (1 - dt[:, t, :, None] * kt ** 2) * s + (dt[:, t] * u[:, t])[..., None] * kt
            ys.append((s * q[:, t, None]).sum(-1))
        return x + self.out_proj(torch.stack(ys, 1) * F.silu(z))


class EvenPowerAttention(nn.Module):
    """Shares are the fourth powers of products, over their sum, causally: no exponent."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qkv, self.o, self.net = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), mlp()

    def mix(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        w = torch.einsum("bhid,bhjd->bhij", q, k).div(HD ** 0.5).pow(4).tril()
        y = torch.einsum("bhij,bhjd->bihd", w, v) / (w.sum(-1).mT.unsqueeze(-1) + 1e-6)
        return self.o(y.flatten(2))

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + self.net(self.n2(x))


class PartialConvBlock(nn.Module):
    """A filter on a quarter of the channels, then two maps with a batch norm between."""

    def __init__(self):
        super().__init__()
        self.pconv = nn.Conv2d(D // 4, D // 4, 3, padding=1, bias=False)
        self.mlp = nn.Sequential(nn.Conv2d(D, 64, 1, bias=False), self.between(64), nn.ReLU(), nn.Conv2d(64, D, 1, bias=False))

    def between(self, n):
        return nn.BatchNorm2d(n)

    def forward(self, x):
        shortcut = x
        x1, x2 = torch.split(x, [D // 4, D - D // 4], dim=1)
        x = torch.cat((self.pconv(x1), x2), 1)
        return shortcut + self.mlp(x)


class PartialConvNoNorm(PartialConvBlock):
    """An identity stands for the norm, as after folding; maps are drawn by fan."""

    def __init__(self):
        super().__init__()
        for m in (self.mlp[0], self.mlp[3]):
            nn.init.kaiming_normal_(m.weight)

    def between(self, n):
        return nn.Identity()


class InceptionNextBlock(nn.Module):
    """Four ways of channels: as they are, a square, a row, a column; then a batch norm and a net with a small scale."""

    def __init__(self):
        super().__init__()
        g = 4
        self.split = (D - 3 * g, g, g, g)
        self.hw, self.w, self.h = nn.Conv2d(g, g, 3, padding=1, groups=g), nn.Conv2d(g, g, (1, 11), padding=(0, 5), groups=g), nn.Conv2d(g, g, (11, 1), padding=(5, 0), groups=g)
        self.norm, self.fc1, self.fc2, self.gamma = nn.BatchNorm2d(D), nn.Conv2d(D, 96, 1), nn.Conv2d(96, D, 1), nn.Parameter(torch.full((D,), 0.25))

    def forward(self, x):
        i, hw, w, h = x.split(self.split, dim=1)
        y = torch.cat((i, self.hw(hw), self.w(w), self.h(h)), dim=1)
        y = self.fc2(F.gelu(self.fc1(self.norm(y))))
        return y.mul(self.gamma.reshape(1, -1, 1, 1)) + x


class AuroraBlock(nn.Module):
    """Norms are behind what is added, and a time scales and shifts them."""

    def __init__(self):
        super().__init__()
        self.attn, self.net, self.mod1, self.mod2 = Attention(), mlp(), nn.Linear(D, 2 * D), nn.Linear(D, 2 * D)

    def ada(self, x, c, mod):
        shift, scale = mod(F.silu(c)).unsqueeze(1).chunk(2, -1)
        return F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift

    def forward(self, x, c):
        x = x + self.ada(self.attn(x), c, self.mod1)
        return x + self.ada(self.net(x), c, self.mod2)


class AuroraModulatesSum(AuroraBlock):
    """A bracket is behind the sum."""

    def forward(self, x, c):
        x = self.ada(x + self.attn(x), c, self.mod1)
        return self.ada(x + self.net(x), c, self.mod2)


class Rescaled(nn.Module):
    """A norm whose gain reads the stream by one product, under a tanh."""

    act = staticmethod(torch.tanh)

    def __init__(self):
        super().__init__()
        self.alpha, self.beta, self.gamma = nn.Parameter(0.5 * torch.randn(D)), nn.Parameter(torch.randn(D) * D ** -0.5), nn.Parameter(torch.ones(D))

    def forward(self, x):
        rescale = self.act(x @ self.beta).unsqueeze(-1)
        return (rescale * self.alpha + self.gamma) * F.rms_norm(x, x.shape[-1:])


class RescaledOpen(Rescaled):
    act = staticmethod(lambda s: s)


class SelfRescaledNorm(nn.Module):
    """Pre-norm with norms that rescale themselves."""

    norm = Rescaled

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.net = self.norm(), self.norm(), Attention(), mlp()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.net(self.n2(x))


class SelfRescaledNoTanh(SelfRescaledNorm):
    """The tanh is left out: gains grow with the stream."""

    norm = RescaledOpen


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_POST = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "GateAloneKeepsNormed": dict(_POST, softmax=False, sound=False, why="each block starts from a norm: at most a norm and two functions of norms, whatever the depth."),
    "GatedSlots": dict(_PRE, **_ONE, logits_bounded={0: False}, sound=True, why="pre-norm; shares of states that are convex sums."),
    "GatedSlotsRaw": dict(kind="block", softmax=True, **_ONE, sound=False, why="shares times values of the stream, unless gates shut: no bound; growth depends on the gates."),
    "WukongLayer": dict(_POST, softmax=False, sound=True, why="a norm behind each sum."),
    "WukongAddBehind": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="a norm is at most the root of its width, in each layer."),
    "WukongNormDropped": dict(_EXP, softmax=False, **_ONE, why="I plus a matrix over features: of degree one."),
    "TideBlock": dict(_POST, softmax=False, sound=False, why="a norm behind; the skip is a map, so nothing is carried."),
    "EBranchformerBlock": dict(_POST, softmax=True, sound=True, why="a norm is the last in each block."),
    "EBranchformerLocalRaw": dict(_EXP, softmax=True, why="one half of the local branch is of degree one, the other is normed."),
    "PnaLayer": dict(_NET, output_bounded={0: True}, sound=True, why="a ReLU of a batch norm over sixteen nodes: at most the root of sixteen."),
    "PnaLayerBare": dict(_EXP, softmax=False, **_ONE, why="all statistics are of degree one."),
    "VirtualNodeLayer": dict(_NET, sound=True, why="pre-norm in nodes and in the virtual one."),
    "VirtualNodeAdded": dict(kind="block", growth_fixed="polynomial", softmax=False, sound=False, why="the virtual node grows by bounded steps, and nodes by all of it: a sum of sums."),
    "PolicyUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="Mish of a group norm: bounded for all filters."),
    "PolicyUnitFilmOnSum": dict(_EXP, softmax=False, why="some channel's scale is above one, and the same in all layers."),
    "ChainOfExperts": dict(_PRE, **_ONE, logits_bounded={0: False}, sound=True, why="all is a function of a norm."),
    "ChainOfExpertsOnStream": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, why="the skip twice."),
    "DeepStackBlock": dict(_PRE, logits_bounded={0: False}, sound=True, why="pre-norm, and the same value is added in each layer."),
    "MixtureOfTransformers": dict(_PRE, logits_bounded={0: False}, sound=True, why="pre-norm in both."),
    "MixtureOfTransformersSkipLost": dict(kind="block", growth_fixed="linear", softmax=True, sound=False, why="text is pre-norm; the picture starts from maps of norms in each block."),
    "CrossScan": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm."),
    "CrossScanRaw": dict(_EXP, softmax=False, **_ONE, why="a norm times SiLU of a map of the stream: of degree one."),
    "LonghornBlock": dict(_NET, **_ONE, sound=True, why="pre-norm; the implicit step keeps between zero and one: dt k^2 < 1."),
    "EvenPowerAttention": dict(_NET, **_TWO, sound=True, why="pre-norm; non-negative shares of at most one."),
    "PartialConvBlock": dict(_NET, **_ONE, sound=True, why="a batch norm of a map, in training; a map of it."),
    "PartialConvNoNorm": dict(_EXP, softmax=False, **_ONE, why="of degree one."),
    "InceptionNextBlock": dict(_NET, **_ONE, sound=True, why="a batch norm in front of the net, in training."),
    "AuroraBlock": dict(_PRE, **_TWO, sound=True, why="branches end in a norm, scaled by what no stream changes."),
    "AuroraModulatesSum": dict(_POST, softmax=True, sound=False, why="a norm behind both sums, scaled by a condition."),
    "SelfRescaledNorm": dict(_PRE, **_TWO, logits_bounded={0: False}, sound=True, why="gains between gamma less and plus alpha: pre-norm."),
    "SelfRescaledNoTanh": dict(_EXP, softmax=True, **_TWO, why="what branches read is of degree one."),
}
