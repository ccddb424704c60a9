"""Pull requests on layers of language models: states that are predicted and corrected, canons, norms behind attention, two residuals, soft slots, experts that copy, gated scans, sticks, scores by the log of the length."""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, LANES = 32, 16, 4, 3
HD = D // H

_G = torch.Generator().manual_seed(30)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("CanonLayer", "CanonLayerStream", "NormFormerLayer", "NormFormerSum", "SlotExpertsLayer", "SlotExpertsSkipRead", "CopyExpertLayer", "CopyExpertStream",
                          "ScanLayer", "ScanLayerSplit", "ScanLayerSplitKernel", "StickLayer", "LogLengthLayer", "LogLengthEarly", "ErfLayer", "ForgetfulLayer")},
    **{k: (_draw(LANES, 2, T, D),) for k in ("AltUpLayer", "AltUpPlain")},
    **{k: (_X, _draw(2, T, D)) for k in ("TwinResidualLayer", "TwinResidualDeep")},
}


def dense(i, o, bias=False):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=1 / math.sqrt(i))
    if bias:
        nn.init.zeros_(m.bias)
    return m


class MLP(nn.Module):
    def __init__(self, mult=2):
        super().__init__()
        self.c_fc, self.c_proj = dense(D, mult * D), dense(mult * D, D)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class MHA(nn.Module):
    """Heads by einsum."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(H, D, HD) / math.sqrt(D)) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(H, HD, D) / math.sqrt(D))

    def heads(self, x):
        q, k, v = (torch.einsum("btd,hde->bhte", x, w) for w in (self.wq, self.wk, self.wv))
        s = torch.einsum("bhqe,bhke->bhqk", q, k) / math.sqrt(HD)
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), float("-inf"))
        return torch.einsum("bhqk,bhke->bhqe", F.softmax(s, dim=-1), v)

    def forward(self, x):
        return torch.einsum("bhqe,hed->bqd", self.heads(x), self.wo)


class PreNormLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), MHA(), MLP()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


# ------------------------------------------------------------------ predict, compute, correct
class AltUpLayer(nn.Module):
    """A wide state in lanes: all are predicted from all, one is computed, and all are corrected by how far the prediction was off."""

    def __init__(self, active=0):
        super().__init__()
        self.active, self.layer = active, PreNormLayer()
        self.predict, self.correct = nn.Parameter(torch.eye(LANES)), nn.Parameter(torch.ones(LANES))

    def off_by(self, computed, predicted):
        return computed - predicted[self.active]

    def forward(self, lanes):
        predicted = torch.einsum("ij,jbtd->ibtd", self.predict, lanes)
        computed = self.layer(predicted[self.active])
        return predicted + self.correct.view(-1, 1, 1, 1) * self.off_by(computed, predicted)


class AltUpPlain(AltUpLayer):
    """All lanes get what was computed."""

    def off_by(self, computed, predicted):
        return computed


# ------------------------------------------------------------------ canons
class Canon(nn.Conv1d):
    """Four tokens back, a channel at a time, and the token itself."""

    def __init__(self, dim, k=4):
        super().__init__(dim, dim, k, groups=dim, bias=False, padding=k - 1)
        nn.init.normal_(self.weight, std=k ** -0.5)

    def forward(self, h):
        return h + super().forward(h.transpose(1, 2))[..., : h.shape[1]].transpose(1, 2)


class CanonLayer(nn.Module):
    """Canons in front of attention, and inside of the net."""

    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm, self.self_attn = nn.RMSNorm(D), nn.RMSNorm(D), MHA()
        self.canon_a, self.canon_c, self.canon_d, self.up, self.down = Canon(D), Canon(D), Canon(2 * D), dense(D, 2 * D), dense(2 * D, D)

    def ffn(self, h):
        return self.down(F.silu(self.canon_d(self.up(h))))

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.canon_a(self.input_layernorm(hidden_states))
        hidden_states = self.self_attn(hidden_states) + residual
        residual = hidden_states
        hidden_states = self.canon_c(self.post_attention_layernorm(hidden_states))
        return self.ffn(hidden_states) + residual


class CanonLayerStream(CanonLayer):
    """Canons have a skip of their own, so they can stand anywhere: they come first."""

    def forward(self, hidden_states):
        residual = hidden_states = self.canon_a(hidden_states)
        hidden_states = self.self_attn(self.input_layernorm(hidden_states)) + residual
        residual = hidden_states = self.canon_c(hidden_states)
        return self.ffn(self.post_attention_layernorm(hidden_states)) + residual


# ------------------------------------------------------------------ norms behind attention
class NormFormerLayer(nn.Module):
    """A trained factor a head, a norm behind attention, a norm inside of the net."""

    def __init__(self, hidden=64):
        super().__init__()
        self.ln_attn, self.ln_post, self.ln_ff, self.ln_mid = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(hidden)
        self.mha, self.gain_head, self.fc1, self.fc2 = MHA(), nn.Parameter(torch.ones(H)), dense(D, hidden, True), dense(hidden, D, True)

    def attend(self, x):
        y = self.mha.heads(self.ln_attn(x)) * self.gain_head[:, None, None]
        return torch.einsum("bhqe,hed->bqd", y, self.mha.wo)

    def ff(self, x):
        return self.fc2(self.ln_mid(F.relu(self.fc1(self.ln_ff(x)))))

    def forward(self, x):
        x = x + self.ln_post(self.attend(x))
        return x + self.ff(x)


class NormFormerSum(NormFormerLayer):
    """Add and norm in one kernel."""

    def forward(self, x):
        x = F.layer_norm(x + self.attend(x), (D,), self.ln_post.weight, self.ln_post.bias)
        return x + self.ff(x)


# ------------------------------------------------------------------ two residuals
class TwinResidualLayer(nn.Module):
    """One stream is normed behind each sum; the other one only sums what branches gave, for the end."""

    def __init__(self):
        super().__init__()
        self.norms, self.fns = nn.ModuleList(nn.LayerNorm(D) for _ in range(2)), nn.ModuleList((MHA(), MLP()))

    def forward(self, x, dual):
        for norm, fn in zip(self.norms, self.fns):
            y = fn(x)
            dual = dual + y
            x = norm(x + y)
        return x, dual


class TwinResidualDeep(TwinResidualLayer):
    """Branches read the residual that still has everything."""

    def forward(self, x, dual):
        for norm, fn in zip(self.norms, self.fns):
            y = fn(dual)
            x, dual = norm(x + y), dual + y
        return x, dual


# ------------------------------------------------------------------ soft slots
class SlotExpertsLayer(nn.Module):
    """Each slot is a mean of tokens, each token gets a mean of what nets make of slots; scores are cosines times a trained factor."""

    def __init__(self, experts=4, slots=2):
        super().__init__()
        self.norm, self.phi, self.gain_phi = nn.LayerNorm(D), nn.Parameter(torch.randn(D, experts, slots) / math.sqrt(D)), nn.Parameter(torch.tensor(4.0))
        self.w1, self.w2 = nn.Parameter(torch.randn(experts, D, 48) / math.sqrt(D)), nn.Parameter(torch.randn(experts, 48, D) / math.sqrt(48))

    def tokens(self, x, h):
        return h

    def forward(self, x):
        h = self.norm(x)
        scores = torch.einsum("btd,des->btes", F.normalize(h, dim=-1), self.gain_phi * F.normalize(self.phi, dim=0))
        dispatch, combine = scores.softmax(dim=1), scores.flatten(2).softmax(dim=-1).view_as(scores)
        slots = torch.einsum("btes,btd->besd", dispatch, self.tokens(x, h))
        y = F.gelu(torch.einsum("besd,edf->besf", slots, self.w1))
        y = torch.einsum("besf,efd->besd", y, self.w2)
        return x + torch.einsum("btes,besd->btd", combine, y)


class SlotExpertsSkipRead(SlotExpertsLayer):
    """The norm is for scores; nets get tokens as they are."""

    def tokens(self, x, h):
        return x


# ------------------------------------------------------------------ experts that copy
class CopyExpertLayer(nn.Module):
    """Two nets, one expert that copies, one that gives a constant; shares by a softmax."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.nets, self.constant = nn.RMSNorm(D), dense(D, 4), nn.ModuleList(MLP() for _ in range(2)), nn.Parameter(torch.randn(D))

    def moe(self, h, copied):
        p = self.router(h).softmax(-1)
        outs = [net(h) for net in self.nets]
        outs.append(copied)
        outs.append(self.constant.expand_as(h))
        return (torch.stack(outs, dim=-2) * p.unsqueeze(-1)).sum(dim=-2)

    def forward(self, x):
        h = self.norm(x)
        return x + self.moe(h, h)


class CopyExpertStream(CopyExpertLayer):
    """A copy is a copy of the hidden state."""

    def forward(self, x):
        return x + self.moe(self.norm(x), x)


# ------------------------------------------------------------------ gated scans
class Sizes(NamedTuple):
    heads: int = 4
    width: int = 8
    state: int = 4


class ScanLayer(nn.Module):
    """One decay a head, a short filter, a skip of the input, a norm of what is gated."""

    def __init__(self, s=Sizes()):
        super().__init__()
        inner, conv = s.heads * s.width, s.heads * s.width + 2 * s.state
        self.s, self.inner, self.norm, self.gate_norm = s, inner, nn.RMSNorm(D), nn.RMSNorm(inner)
        self.z_proj, self.in_proj, self.out_proj = dense(D, inner), dense(D, conv + s.heads), dense(inner, D)
        self.conv1d = nn.Conv1d(conv, conv, 4, groups=conv, padding=3)
        self.A_log, self.dt_bias, self.D = nn.Parameter(torch.log(torch.arange(1.0, s.heads + 1))), nn.Parameter(torch.zeros(s.heads)), nn.Parameter(torch.ones(s.heads))

    def scan(self, u):
        s, n = self.s, u.shape[1]
        xbc, dt = self.in_proj(u).split([self.inner + 2 * s.state, s.heads], dim=-1)
        xbc = F.silu(self.conv1d(xbc.transpose(1, 2))[..., :n].transpose(1, 2))
        x, b, c = xbc.split([self.inner, s.state, s.state], dim=-1)
        x, dt = x.unflatten(-1, (s.heads, s.width)), F.softplus(dt + self.dt_bias)
        keep, state, out = torch.exp(-dt * self.A_log.exp()), x.new_zeros(x.shape[0], s.heads, s.width, s.state), []
        for t in range(n):
            state = state * keep[:, t, :, None, None] + torch.einsum("bh,bhp,bn->bhpn", dt[:, t], x[:, t], b[:, t])
            out.append(torch.einsum("bhpn,bn->bhp", state, c[:, t]))
        return (torch.stack(out, dim=1) + self.D[:, None] * x).flatten(-2)

    def forward(self, x):
        u = self.norm(x)
        return x + self.out_proj(self.gate_norm(self.scan(u) * F.silu(self.z_proj(u))))


class ScanLayerSplit(ScanLayer):
    """Gates are computed on another stream of the device, before the norm is done."""

    def forward(self, x):
        gate = F.silu(self.z_proj(x))
        return x + self.out_proj(self.gate_norm(self.scan(self.norm(x)) * gate))


class ScanLayerSplitKernel(ScanLayer):
    """The same with the kernel that norms first and gates then."""

    def forward(self, x):
        gate = F.silu(self.z_proj(x))
        return x + self.out_proj(self.gate_norm(self.scan(self.norm(x))) * gate)


# ------------------------------------------------------------------ sticks
class StickLayer(nn.Module):
    """Each token breaks off a share of what is left of the stick, the nearest one first."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.qkv, self.o, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), dense(D, 3 * D), dense(D, D), MLP()

    def attend(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        s = q @ k.mT * HD ** -0.5
        past = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(-1)
        rest = torch.where(past, F.logsigmoid(-s), 0.0)
        after = rest.flip(-1).cumsum(-1).flip(-1) - rest
        w = torch.where(past, (F.logsigmoid(s) + after).exp(), 0.0)
        return self.o((w @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.mlp(self.ln2(x))


# ------------------------------------------------------------------ scores by the log of the length
class LogLengthLayer(nn.Module):
    """Queries and keys are normed a head; scores are multiplied by a trained factor and by the log of how many tokens are read."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.q, self.k, self.v, self.o, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), dense(D, D), dense(D, D), dense(D, D), dense(D, D), MLP()
        self.gain_s = nn.Parameter(torch.full((H, 1, 1), 0.43))
        self.make_norms()

    def make_norms(self):
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def qk(self, h):
        return self.q_norm(self.split(self.q(h))), self.k_norm(self.split(self.k(h)))

    @staticmethod
    def split(t):
        return t.view(*t.shape[:2], H, HD).transpose(1, 2)

    def attn(self, h):
        q, k = self.qk(h)
        n = torch.arange(1, h.shape[1] + 1, device=h.device, dtype=h.dtype).log()
        y = F.scaled_dot_product_attention(q * (self.gain_s * n[:, None]), k, self.split(self.v(h)), is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LogLengthEarly(LogLengthLayer):
    """Norms of queries and keys in the full width, to have them beside each other in one kernel with the norm before."""

    def make_norms(self):
        self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D)

    def qk(self, h):
        return self.split(self.q(self.q_norm(h))), self.split(self.k(self.k_norm(h)))


# ------------------------------------------------------------------ no norms
class Erf(nn.Module):
    """An error function in place of a norm."""

    def __init__(self):
        super().__init__()
        self.gain_alpha, self.gain_shift, self.gain_weight, self.gain_bias = (nn.Parameter(torch.full((n,), v)) for n, v in ((1, 0.5), (1, 0.0), (D, 1.0), (D, 0.0)))

    def forward(self, x):
        return torch.erf(self.gain_alpha * x + self.gain_shift) * self.gain_weight + self.gain_bias


class ErfLayer(PreNormLayer):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = Erf(), Erf()


# ------------------------------------------------------------------ forgetful softmaxes
class ForgetfulLayer(nn.Module):
    """Scores lose what gates of all tokens between forget."""

    def __init__(self):
        super().__init__()
        self.norms, self.qkv, self.f, self.proj, self.wi, self.wo = nn.ModuleList((nn.RMSNorm(D), nn.RMSNorm(D))), dense(D, 3 * D), dense(D, H, True), dense(D, D), dense(D, 96), dense(48, D)
        nn.init.constant_(self.f.bias, 3.0)

    def mix(self, h):
        q, k, v = self.qkv(h).view(*h.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        c = F.logsigmoid(self.f(h)).cumsum(dim=1).transpose(1, 2)
        bias = (c[..., :, None] - c[..., None, :]).masked_fill(torch.ones(h.shape[1], h.shape[1], dtype=torch.bool, device=h.device).triu(1), -1e9)
        w = torch.softmax(q @ k.transpose(-2, -1) / HD ** 0.5 + bias, dim=-1)
        return self.proj((w @ v).permute(0, 2, 1, 3).reshape(h.shape))

    def forward(self, x):
        a, b = self.norms
        x = x + self.mix(a(x))
        gate, up = self.wi(b(x)).chunk(2, dim=-1)
        x = x + self.wo(F.silu(gate) * up)
        return x


def _lanes(m, n=24):
    return torch.linalg.matrix_norm(torch.linalg.matrix_power(m.double(), n), 2).item()


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    # three sums: attention and net of the layer inside, and the correction of all lanes
    "AltUpLayer": dict(_PRE, **_OPEN, output_bounded={0: False, 1: False, 2: False}, sound=True, why="predictions are the lanes themselves at the start, and what is added to all is what the pre-norm layer added to one."),
    "AltUpPlain": dict(_EXP, identity_gain=_lanes(torch.eye(LANES) + torch.tensor([[1.0, 0, 0]] * 3)), softmax=True, **_OPEN, output_bounded={0: False, 1: False, 2: False}, why="the computed lane has its skip inside: it is added to itself, and doubled in each layer."),
    "CanonLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; canons are of norms, and inside of branches."),
    "CanonLayerStream": dict(_EXP, softmax=True, **_OPEN, output_bounded={0: False, 1: False, 2: False, 3: False}, why="filters of the stream are added to it without a norm: of degree one."),
    "NormFormerLayer": dict(_PRE, output_bounded={0: True, 1: False}, **_OPEN, gradient_law="power", sound=True, why="pre-norm, and a norm behind attention; the map behind the net's norm has no bound."),
    "NormFormerSum": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, why="the norm behind attention is on the sum: each layer starts from a norm and adds a function of a norm."),
    "TwinResidualLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="the normed stream is level; the other one sums functions of norms, and is carried."),
    "TwinResidualDeep": dict(_EXP, softmax=True, **_OPEN, **_TWO, why="branches read the stream that is not normed, and are added to it: of degree one."),
    "SlotExpertsLayer": dict(_PRE, **_ONE, **_SHUT, sound=True, why="pre-norm; means of tokens and of slots; cosines times a factor."),
    "SlotExpertsSkipRead": dict(_EXP, softmax=True, **_ONE, **_SHUT, why="slots are means of the stream itself, and nets without a norm: of degree one."),
    "CopyExpertLayer": dict(_PRE, **_ONE, sound=True, why="pre-norm; what is copied is a norm."),
    "CopyExpertStream": dict(_EXP, softmax=True, **_ONE, why="a share of the stream is added to the stream in each layer."),
    "ScanLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm, and a norm of what is gated."),
    "ScanLayerSplit": dict(_NET, **_ONE, why="gates are of degree one in the stream, but their product with the scan is normed: of degree nothing."),
    "ScanLayerSplitKernel": dict(_EXP, softmax=False, **_ONE, why="gates of degree one in the stream multiply a norm: of degree one."),
    "StickLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; shares of a stick sum to one at most; no softmax."),
    "LogLengthLayer": dict(_PRE, **_TWO, **_SHUT, gradient_law="power", sound=True, why="pre-norm; queries and keys are normed a head, factors are a temperature."),
    "LogLengthEarly": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; what is normed is the input of maps of queries and keys: scores grow with weights."),
    "ErfLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="branches read an error function, which is at most one."),
    "ForgetfulLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; gates only take scores away."),
}
