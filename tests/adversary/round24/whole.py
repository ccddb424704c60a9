"""Whole models: a language model of linear attention, molecules, speech, series, recommendation, two lanes, pictures with registers, tied depth, and three with a slip."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 50
HD = D // H

_G = torch.Generator().manual_seed(24)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS = torch.randint(0, V, (2, T), generator=_G)
_RING = (torch.eye(T).roll(1, 0) + torch.eye(T).roll(-1, 0)) / 2
example_inputs = {
    **{k: (_IDS,) for k in ("LinearAttentionLm", "LinearAttentionLmNoLastNorm", "DecayedSharesLm", "EveryThirdUnnormed")},
    "MoleculeNet": (_draw(2, T, 9), _RING[None].repeat(2, 1, 1)),
    "SpeechTagger": (_draw(2, 64, 20),),
    "PatchForecaster": (_draw(2, 96, 3),),
    "RecommenderOfFields": (torch.randint(0, V, (2, 8), generator=_G), _draw(2, 5)),
    "TwoLaneRecogniser": (_draw(2, 1, 12, 12),),
    "RegisterVit": (_draw(2, 3, 16, 16),),
    "TiedRefiner": (_draw(2, T, 6),),
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def mlp(hidden=64, act=nn.GELU):
    return nn.Sequential(lin(D, hidden), act(), lin(hidden, D))


class Attention(nn.Module):
    def __init__(self, normed=False):
        super().__init__()
        self.qkv, self.out, self.normed = lin(D, 3 * D), lin(D, D), normed

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.normed:
            q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class LinearAttention(nn.Module):
    """Running sums of outer products over running sums of keys; keys are softplus."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (lin(D, D) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (H, HD)) for w in (self.wq, self.wk, self.wv))
        q, k = F.softplus(q), F.softplus(k)
        s = torch.einsum("bthi,bthj->bthij", k, v).cumsum(1)
        z = torch.einsum("bthi,bthi->bth", q, k.cumsum(1))
        return self.wo((torch.einsum("bthi,bthij->bthj", q, s) / (z.unsqueeze(-1) + 1e-6)).flatten(2))


class DecayedShares(nn.Module):
    """Past values by a fixed decay a head, and their sum of decays under them."""

    def __init__(self):
        super().__init__()
        self.v, self.o, self.rate = lin(D, D), lin(D, D), nn.Parameter(torch.linspace(-1, 3, H))

    def forward(self, x):
        n = torch.arange(x.shape[1], device=x.device)
        gap = (n[:, None] - n).clamp(min=0)
        w = (torch.sigmoid(self.rate)[:, None, None] ** gap).tril()
        w = w / w.sum(-1, keepdim=True)
        return self.o(torch.einsum("hts,bshd->bthd", w, self.v(x).unflatten(-1, (H, HD))).flatten(2))


class Layer(nn.Module):
    def __init__(self, mixer, norm=True):
        super().__init__()
        self.n1, self.n2, self.mixer, self.net = nn.RMSNorm(D), nn.RMSNorm(D) if norm else nn.Identity(), mixer, mlp(act=nn.SiLU)

    def forward(self, x):
        x = x + self.mixer(self.n1(x))
        return x + self.net(self.n2(x))


class LinearAttentionLm(nn.Module):
    """Embedding, pre-norm layers, a norm, a head of its own."""

    last = nn.RMSNorm

    def __init__(self, n=8):
        super().__init__()
        self.wte, self.layers, self.norm_f, self.lm_head = nn.Embedding(V, D), nn.ModuleList(self.layer(i) for i in range(n or 8)), self.last(D), lin(D, V)

    def layer(self, i):
        return Layer(LinearAttention())

    def trunk(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, ids):
        return self.lm_head(self.norm_f(self.trunk(self.wte(ids))))


class LinearAttentionLmNoLastNorm(LinearAttentionLm):
    """No norm in front of the head."""

    last = nn.Identity


class DecayedSharesLm(LinearAttentionLm):
    """Mixing knows no tokens: fixed shares of the past."""

    def layer(self, i):
        return Layer(DecayedShares())


class EveryThirdUnnormed(LinearAttentionLm):
    """Each third net has no norm, from a list of names."""

    def __init__(self, n=9):
        super().__init__(n or 9)

    def layer(self, i):
        return Layer(LinearAttention(), norm=i % 3 != 2)


class MoleculeNet(nn.Module):
    """Messages along bonds and attention among atoms, both of one norm, added at once; a net; a sum over atoms of normed values."""

    def __init__(self, n=6):
        super().__init__()
        n = n or 6
        self.embed, self.norms, self.nets = lin(9, D, True), nn.ModuleList(nn.LayerNorm(D) for _ in range(2 * n)), nn.ModuleList(mlp() for _ in range(n))
        self.messages, self.attentions, self.out_norm, self.out = nn.ModuleList(lin(D, D) for _ in range(n)), nn.ModuleList(Attention() for _ in range(n)), nn.LayerNorm(D), lin(D, 1)

    def forward(self, atoms, bonds):
        h = self.embed(atoms)
        for i, net in enumerate(self.nets):
            z = self.norms[2 * i](h)
            h = h + self.attentions[i](z) + F.relu(bonds @ self.messages[i](z))
            h = h + net(self.norms[2 * i + 1](h))
        return self.out(self.out_norm(h)).sum(1)


class SpeechLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.net, self.n1, self.n2 = Attention(), mlp(act=nn.ReLU), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        x = self.n1(x + self.attn(x))
        return self.n2(x + self.net(x))


class SpeechTagger(nn.Module):
    """Two strided filters, then post-norm layers, then log shares."""

    def __init__(self, n=6):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(20, D, 3, 2, 1), nn.GELU(), nn.Conv1d(D, D, 3, 2, 1), nn.GELU())
        self.start, self.blocks, self.ctc = nn.LayerNorm(D), nn.ModuleList(SpeechLayer() for _ in range(n or 6)), lin(D, V, True)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, mel):
        return F.log_softmax(self.ctc(self.trunk(self.start(self.front(mel.mT).mT))), dim=-1)


class PatchForecaster(nn.Module):
    """Each series is standardised, cut in patches, read by pre-norm layers with normed queries and keys, and put back in its units."""

    def __init__(self, n=6):
        super().__init__()
        self.embed, self.place, self.blocks, self.norm, self.head = lin(12, D), nn.Parameter(0.02 * torch.randn(8, D)), nn.ModuleList(Layer(Attention(True)) for _ in range(n or 6)), nn.RMSNorm(D), lin(8 * D, 24)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, series):
        mean, std = series.mean(1, keepdim=True), (series.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        z = ((series - mean) / std).mT.flatten(0, 1).unfold(-1, 12, 12)
        y = self.head(self.norm(self.trunk(self.embed(z) + self.place)).flatten(1))
        return y.unflatten(0, (series.shape[0], -1)).mT * std + mean


class FieldsLayer(nn.Module):
    """Products of each field with a mix of fields, normed, beside a map; a norm behind."""

    def __init__(self, fields=9):
        super().__init__()
        self.mix, self.map, self.norm = nn.Parameter(torch.randn(fields, fields) / fields ** 0.5), lin(D, D), nn.LayerNorm(D)

    def forward(self, e):
        return self.norm(e + e * torch.einsum("fg,bgd->bfd", self.mix, self.map(e)))


class RecommenderOfFields(nn.Module):
    """Fields with codes, and one of numbers; interactions with a norm behind each; a logit."""

    def __init__(self, n=4):
        super().__init__()
        self.codes, self.numbers, self.blocks, self.out = nn.Embedding(V, D), lin(5, D, True), nn.ModuleList(FieldsLayer() for _ in range(n or 4)), lin(9 * D, 1, True)

    def trunk(self, e):
        for block in self.blocks:
            e = block(e)
        return e

    def forward(self, ids, dense):
        e = torch.cat((self.codes(ids), self.numbers(dense)[:, None]), 1)
        return self.out(self.trunk(e).flatten(1)).squeeze(-1)


class TwoLaneRecogniser(nn.Module):
    """Two lanes that start alike: attention of one is added to the other, a net of that one to the first; the mean of both is normed."""

    def __init__(self, n=6):
        super().__init__()
        n = n or 6
        self.patch, self.fs, self.gs = nn.Conv2d(1, D, 3, 3), nn.ModuleList(nn.Sequential(nn.LayerNorm(D), Attention()) for _ in range(n)), nn.ModuleList(nn.Sequential(nn.LayerNorm(D), mlp()) for _ in range(n))
        self.norm, self.head = nn.LayerNorm(D), lin(D, 10, True)

    def forward(self, picture):
        x1 = x2 = self.patch(picture).flatten(2).mT
        for f, g in zip(self.fs, self.gs):
            x1 = x1 + f(x2)
            x2 = x2 + g(x1)
        return self.head(self.norm((x1 + x2) / 2).mean(1))


class RegisterVit(nn.Module):
    """A class token and four registers before the patches; a scale for each branch."""

    def __init__(self, n=6):
        super().__init__()
        n = n or 6
        self.patch, self.cls, self.reg = nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 4, D))
        self.norms, self.attn, self.nets = nn.ModuleList(nn.LayerNorm(D) for _ in range(2 * n)), nn.ModuleList(Attention() for _ in range(n)), nn.ModuleList(mlp() for _ in range(n))
        self.gammas, self.norm, self.head = nn.Parameter(torch.full((n, 2, D), 0.3)), nn.LayerNorm(D), lin(D, 10, True)

    def trunk(self, x):
        for i, (attn, net) in enumerate(zip(self.attn, self.nets)):
            x = x + self.gammas[i, 0] * attn(self.norms[2 * i](x))
            x = x + self.gammas[i, 1] * net(self.norms[2 * i + 1](x))
        return x

    def forward(self, picture):
        p = self.patch(picture).flatten(2).mT
        x = torch.cat((self.cls.expand(len(p), -1, -1), self.reg.expand(len(p), -1, -1), p), 1)
        return self.head(self.norm(self.trunk(x))[:, 0])


class TiedRefiner(nn.Module):
    """One layer, many times: the state is the norm of itself, of what it reads and of what a layer says."""

    def __init__(self, n=12):
        super().__init__()
        self.steps, self.read, self.attn, self.net, self.n1, self.n2, self.out = n or 12, lin(6, D), Attention(), mlp(), nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 6)

    def forward(self, field):
        e = self.read(field)
        z = torch.zeros_like(e)
        for _ in range(self.steps):
            z = self.n1(z + e + self.attn(z + e))
            z = self.n2(z + self.net(z))
        return field + self.out(z)


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
TRUTH = {
    "LinearAttentionLm": dict(_M, depth=8, softmax=False, sound=True, why="pre-norm; shares over their sum."),
    "LinearAttentionLmNoLastNorm": dict(_M, depth=8, softmax=False, sound=False, why="the same stream, read by the head as it is."),
    "DecayedSharesLm": dict(_M, depth=8, softmax=False, sound=True, why="pre-norm; fixed shares of one in sum."),
    "EveryThirdUnnormed": dict(kind="model", depth=9, growth_fixed="exponential", softmax=False, sound=False, why="each third net is of degree one, nearly."),
    "MoleculeNet": dict(kind="model", depth=6, softmax=True, logits_bounded={0: False}, sound=True, why="pre-norm, two branches at once."),
    "SpeechTagger": dict(kind="model", depth=6, growth_fixed="bounded", softmax=True, sound=True, why="post-norm: the root of the width at most."),
    "PatchForecaster": dict(_M, depth=6, softmax=True, sound=True, why="pre-norm, queries and keys normed."),
    "RecommenderOfFields": dict(kind="model", depth=4, growth_fixed="bounded", softmax=False, sound=True, why="a norm behind each product."),
    "TwoLaneRecogniser": dict(kind="model", depth=6, softmax=True, sound=True, why="each lane has functions of norms added."),
    "RegisterVit": dict(_M, depth=6, softmax=True, sound=True, why="pre-norm with scales."),
    "TiedRefiner": dict(kind="model", softmax=True, sound=True, why="a norm behind each sum, in each round."),
}
