"""Code of agents, robots, world models, recurrent cores, neural operators and networks of physics: gates of recurrences on residuals, layers of decision transformers, critics with norms or spectral norms, cells with latents, residual LSTMs, policies by diffusion, spectral filters, meshes, steps of integrators, sines."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3402)


def _n(*shape):
    return torch.randn(shape, generator=_G)


_X, _FLAT, _GRID = _n(2, T, D), _n(8, D), _n(2, D, 4, 4)
_SEND, _RECV = torch.randint(0, T, (2, 40), generator=_G)
example_inputs = {
    **{k: (_X,) for k in ("GruGateLayer", "OutputGateLayer", "InputGateLayer", "DecisionLayerShort", "LstmLayer", "LstmLayerTwice", "CouplingLayer")},
    **{k: (_FLAT,) for k in ("CriticBlock", "CriticBlockPlain", "SpectralCriticBlock", "RungeKuttaBlock", "SineBlock", "PhysicsBlock", "PhysicsBlockTanh")},
    **{k: (_GRID,) for k in ("ImpalaBlockInplace", "FourierBlock", "FourierBlockNorm")},
    **{k: (_n(8, D), _n(8, 12)) for k in ("LatentCell", "LatentCellSum")},
    "DiffusionPolicyBlock": (_n(2, D, T), _n(2, 24)),
    **{k: (_n(T, D), _n(40, D), _SEND, _RECV) for k in ("MeshBlock", "MeshBlockLight")},
    "ModifiedMlpBlock": (_n(8, D), _n(8, D), _n(8, D)),
}


def ortho(i, o, gain=1.0, bias=True):
    layer = nn.Linear(i, o, bias=bias)
    nn.init.orthogonal_(layer.weight, gain)
    if bias:
        nn.init.constant_(layer.bias, 0.0)
    return layer


# ------------------------------------------------------------------ gates on residuals
class GruGate(nn.Module):
    """A recurrent cell in the place of a sum; its bias keeps the state at the start."""

    def __init__(self, dim=D, bias=2.0):
        super().__init__()
        self.Wr, self.Ur, self.Wz, self.Uz, self.Wg, self.Ug = (ortho(dim, dim, bias=False) for _ in range(6))
        self.bg = nn.Parameter(torch.full((dim,), bias))

    def forward(self, x, y):
        r = torch.sigmoid(self.Wr(y) + self.Ur(x))
        z = torch.sigmoid(self.Wz(y) + self.Uz(x) - self.bg)
        h = torch.tanh(self.Wg(y) + self.Ug(r * x))
        return (1 - z) * x + z * h


class OutputGate(nn.Module):
    def __init__(self, dim=D):
        super().__init__()
        self.gate = ortho(dim, dim)

    def forward(self, x, y):
        return x + torch.sigmoid(self.gate(x)) * y


class InputGate(OutputGate):
    def forward(self, x, y):
        return torch.sigmoid(self.gate(x)) * x + y


class GruGateLayer(nn.Module):
    """Norms in front of attention and net, a ReLU behind, and a gate in the place of each sum."""

    gate = GruGate

    def __init__(self):
        super().__init__()
        self.ln_att, self.ln_ff, self.att = nn.LayerNorm(D), nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True)
        self.ff = nn.Sequential(ortho(D, 64), nn.ReLU(), ortho(64, D))
        self.gate_att, self.gate_ff = self.gate(), self.gate()

    def forward(self, x):
        h = self.ln_att(x)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y, _ = self.att(h, h, h, attn_mask=mask, need_weights=False)
        x = self.gate_att(x, F.relu(y))
        return self.gate_ff(x, F.relu(self.ff(self.ln_ff(x))))


class OutputGateLayer(GruGateLayer):
    """A sigmoid of the state weighs what is added."""

    gate = OutputGate


class InputGateLayer(GruGateLayer):
    """A sigmoid of the state weighs the state."""

    gate = InputGate


# ------------------------------------------------------------------ decision transformers
class Conv1D(nn.Module):
    """The map of old checkpoints, with the weight the other way round."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf, self.weight, self.bias = nf, nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.zeros(nf))
        nn.init.normal_(self.weight, std=nx ** -0.5)

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


class DecisionLayer(nn.Module):
    """A layer of a small causal transformer over returns, states and actions."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.c_attn, self.c_proj, self.c_fc, self.c_out = nn.LayerNorm(D), nn.LayerNorm(D), Conv1D(3 * D, D), Conv1D(D, D), Conv1D(4 * D, D), Conv1D(D, 4 * D)
        self.register_buffer("bias", torch.tril(torch.ones(T, T, dtype=torch.uint8)).view(1, 1, T, T))

    def _split(self, x):
        return x.view(*x.size()[:-1], H, HD).permute(0, 2, 1, 3)

    def attn(self, x):
        q, k, v = map(self._split, self.c_attn(x).split(D, dim=2))
        w = torch.matmul(q, k.transpose(-1, -2)) / (float(v.size(-1)) ** 0.5)
        w = torch.where(self.bias[:, :, : q.size(-2), : k.size(-2)].bool(), w, torch.tensor(float("-inf"), dtype=w.dtype, device=w.device))
        a = torch.matmul(nn.Softmax(dim=-1)(w), v)
        return self.c_proj(a.permute(0, 2, 1, 3).contiguous().flatten(2))

    def mlp(self, x):
        return self.c_out(F.relu(self.c_fc(x)))

    def forward(self, hidden_states):
        attn_output = self.attn(self.ln_1(hidden_states))
        hidden_states = attn_output + hidden_states
        return hidden_states + self.mlp(self.ln_2(hidden_states))


class DecisionLayerShort(DecisionLayer):
    """In two lines; the second norm goes where the second sum is."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = self.ln_2(x)
        return x + self.mlp(x)


# ------------------------------------------------------------------ critics
class CriticBlock(nn.Module):
    """Two maps, each with a norm behind; the sum is with what came in."""

    def __init__(self, hidden=64):
        super().__init__()
        self.fc1, self.norm1, self.fc2, self.norm2 = ortho(D, hidden, math.sqrt(2)), nn.LayerNorm(hidden), ortho(hidden, D), nn.LayerNorm(D)

    def forward(self, x):
        res = self.norm2(self.fc2(F.relu(self.norm1(self.fc1(x)))))
        return x + res



class CriticBlockPlain(CriticBlock):
    """One norm behind all blocks is enough."""

    def forward(self, x):
        res = self.fc2(F.relu(self.fc1(x)))
        return x + res


class SpectralCriticBlock(nn.Module):
    """A norm, and two maps of which no one makes anything longer."""

    def __init__(self, hidden=64):
        super().__init__()
        self.norm = nn.LayerNorm(D, elementwise_affine=False)
        self.fc1, self.fc2 = spectral_norm(ortho(D, hidden, bias=False)), spectral_norm(ortho(hidden, D, bias=False))

    def forward(self, x):
        return torch.add(x, self.fc2(F.relu(self.fc1(self.norm(x)))))


# ------------------------------------------------------------------ pictures of games
class ImpalaBlock(nn.Module):
    """Two filters with a ReLU in front of each."""

    def __init__(self):
        super().__init__()
        self.conv0, self.conv1 = nn.Conv2d(D, D, 3, padding=1), nn.Conv2d(D, D, 3, padding=1)

    def forward(self, x):
        inputs = x
        x = F.relu(x)
        x = self.conv0(x)
        x = F.relu(x)
        x = self.conv1(x)
        return x + inputs


class ImpalaBlockInplace(ImpalaBlock):
    """Saves memory."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        inputs = x
        x = self.relu(x)
        x = self.conv0(x)
        x = self.relu(x)
        x = self.conv1(x)
        return x + inputs


# ------------------------------------------------------------------ cells of world models
class LatentCell(nn.Module):
    """A recurrent cell with one map and one norm for its three parts."""

    def __init__(self, inp=12, update_bias=-1.0):
        super().__init__()
        self.update_bias, self.layer, self.norm = update_bias, nn.Linear(inp + D, 3 * D, bias=False), nn.LayerNorm(3 * D)

    def parts(self, state, z):
        reset, cand, update = self.norm(self.layer(torch.cat([z, state], -1))).chunk(3, -1)
        reset = torch.sigmoid(reset)
        return torch.tanh(reset * cand), torch.sigmoid(update + self.update_bias)

    def forward(self, state, z):
        cand, update = self.parts(state, z)
        return update * cand + (1 - update) * state


class LatentCellSum(LatentCell):
    """The candidate is added, as in a residual network."""

    def forward(self, state, z):
        cand, update = self.parts(state, z)
        return state + update * cand


# ------------------------------------------------------------------ recurrent cores
class LstmLayer(nn.Module):
    """An LSTM beside the state that it reads."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(D, D, batch_first=True)

    def forward(self, x):
        out, _ = self.rnn(x)
        return x + out


class LstmLayerTwice(LstmLayer):
    """The helper has a skip, and so has the caller."""

    def core(self, x):
        out, _ = self.rnn(x)
        return out + x

    def forward(self, x):
        residual = x
        x = self.core(x)
        return x + residual


# ------------------------------------------------------------------ policies by diffusion
class ConvGnMish(nn.Sequential):
    def __init__(self, groups=8):
        super().__init__(nn.Conv1d(D, D, 3, padding=1), nn.GroupNorm(groups, D), nn.Mish())


class DiffusionPolicyBlock(nn.Module):
    """Two filters with norms behind; observation and time scale and shift what is between."""

    def __init__(self, cond=24):
        super().__init__()
        self.blocks = nn.ModuleList([ConvGnMish(), ConvGnMish()])
        self.cond_encoder = nn.Sequential(nn.Mish(), nn.Linear(cond, 2 * D), nn.Unflatten(-1, (2, D, 1)))
        self.residual_conv = nn.Identity()

    def forward(self, x, cond):
        out = self.blocks[0](x)
        scale, bias = self.cond_encoder(cond).unbind(1)
        out = scale * out + bias
        out = self.blocks[1](out)
        out = out + self.residual_conv(x)
        return out


# ------------------------------------------------------------------ operators
class SpectralConv2d(nn.Module):
    """A complex matrix for each of a few low waves."""

    def __init__(self, modes=2):
        super().__init__()
        self.modes = modes
        self.weights1, self.weights2 = (nn.Parameter(torch.randn(D, D, modes, modes, 2) * (2 * D) ** -0.5) for _ in range(2))

    def forward(self, x):
        m, x_ft = self.modes, torch.fft.rfft2(x)
        out_ft = torch.zeros_like(x_ft)
        out_ft[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, :m, :m], torch.view_as_complex(self.weights1))
        out_ft[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, -m:, :m], torch.view_as_complex(self.weights2))
        return torch.fft.irfft2(out_ft, s=x.shape[-2:])


class FourierBlock(nn.Module):
    """Spectral filters and a map of points; a GELU of their sum."""

    def __init__(self):
        super().__init__()
        self.conv, self.w = SpectralConv2d(), nn.Conv2d(D, D, 1)

    def forward(self, x):
        x1 = self.conv(x)
        x2 = self.w(x)
        return F.gelu(x1 + x2)


class FourierBlockNorm(nn.Module):
    """A norm, spectral filters, a net of points, and the sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(1, D), SpectralConv2d()
        self.mlp = nn.Sequential(nn.Conv2d(D, 2 * D, 1), nn.GELU(), nn.Conv2d(2 * D, D, 1))

    def forward(self, x):
        skip = x
        x = self.norm(x)
        x = self.mlp(self.conv(x))
        return x.add_(skip)



# ------------------------------------------------------------------ meshes
class MeshBlock(nn.Module):
    """A step of messages: edges read their ends, nodes read the sum of their edges; nets end in norms, and both are summed."""

    def __init__(self):
        super().__init__()
        self.edge_fn, self.node_fn = self.net(3 * D), self.net(2 * D)

    def net(self, inp):
        return nn.Sequential(nn.Linear(inp, 48), nn.ReLU(), nn.Linear(48, D), nn.LayerNorm(D))

    def forward(self, nodes, edges, senders, receivers):
        new_edges = self.edge_fn(torch.cat([nodes[senders], nodes[receivers], edges], dim=-1))
        gathered = torch.zeros_like(nodes).index_add(0, receivers, new_edges)
        new_nodes = self.node_fn(torch.cat([nodes, gathered], dim=-1))
        return nodes + new_nodes, edges + new_edges


class MeshBlockLight(MeshBlock):
    """Norms cost a fifth of the time, and are left for the encoder."""

    def net(self, inp):
        return nn.Sequential(nn.Linear(inp, 48), nn.ReLU(), nn.Linear(48, D))


# ------------------------------------------------------------------ steps of integrators
class CouplingLayer(nn.Module):
    """Two halves of the channels, each of which is moved by what the other says."""

    def __init__(self):
        super().__init__()
        self.f, self.g = (nn.Sequential(nn.LayerNorm(D // 2), nn.Linear(D // 2, 48), nn.GELU(), nn.Linear(48, D // 2)) for _ in range(2))

    def forward(self, x):
        q, p = torch.chunk(x, 2, dim=-1)
        q = q + self.f(p)
        p = p + self.g(q)
        return torch.cat([q, p], dim=-1)


class RungeKuttaBlock(nn.Module):
    """One step of fourth order of a learned field."""

    def __init__(self, dt=0.5):
        super().__init__()
        self.dt, self.inner, self.outer = dt, nn.Linear(D, 64), nn.Linear(64, D)

    def field(self, x):
        return self.outer(torch.tanh(self.inner(x)))

    def forward(self, x):
        k1 = self.field(x)
        k2 = self.field(x + self.dt / 2 * k1)
        k3 = self.field(x + self.dt / 2 * k2)
        k4 = self.field(x + self.dt * k3)
        return x + self.dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)



# ------------------------------------------------------------------ networks of physics
class SineBlock(nn.Module):
    """Two sines, and the mean with what came in."""

    def __init__(self, omega=5.0):
        super().__init__()
        self.omega, self.linear_1, self.linear_2 = omega, nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        sine_1 = torch.sin(self.omega * self.linear_1(x))
        sine_2 = torch.sin(self.omega * self.linear_2(sine_1))
        return 0.5 * (x + sine_2)


class PhysicsBlock(nn.Module):
    """Two maps with a tanh each beside the state."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D))

    def forward(self, x):
        return x + torch.tanh(self.layers(x))


class PhysicsBlockTanh(PhysicsBlock):
    """The brackets of a residual network with its activation behind the sum."""

    def forward(self, x):
        return torch.tanh(x + self.layers(x))


class ModifiedMlpBlock(nn.Module):
    """What a layer says mixes two encodings of the coordinates."""

    def __init__(self):
        super().__init__()
        self.z = nn.Linear(D, D)

    def forward(self, h, u, v):
        z = torch.tanh(self.z(h))
        return torch.lerp(u, v, z)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential")
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_YES, _BOTH, _OPEN = dict(output_bounded={0: True}), dict(output_bounded={0: True, 1: True}), dict(logits_bounded={0: False})
TRUTH = {
    "GruGateLayer": dict(_LEVEL, growth_all="bounded", softmax=True, gated=True, **_OPEN, sound=True, why="a mean, by a sigmoid, of the state and a tanh: no entry gets larger than one or than it was."),
    "OutputGateLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; a sigmoid of the raw stream, which is at most one, weighs the branch."),
    "InputGateLayer": dict(kind="block", softmax=True, gated=True, **_TWO, **_OPEN, sound=False, why="a sigmoid of the state multiplies the skip."),
    "DecisionLayerShort": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="the second norm takes the stream's place: what a layer gives is a norm and a net of it."),
    "CriticBlock": dict(_NET, **_YES, growth_all="linear", gradient_law="power", sound=True, why="the branch reads the raw stream and ends in a norm."),
    "CriticBlockPlain": dict(_EXP, identity_gain=1.0, softmax=False, **_ONE, sound=False, why="no norm is called: a net of ReLUs of the raw stream is of degree one."),
    "SpectralCriticBlock": dict(_NET, **_YES, growth_all="linear", gradient_law="power", sound=True, why="pre-norm; maps have spectral norm one for any weights, and no biases."),
    "ImpalaBlockInplace": dict(_EXP, softmax=False, **_ONE, sound=False, why="the ReLU in place changes what the skip holds: the sum is with a ReLU of the stream."),
    "LatentCell": dict(_LEVEL, growth_all="bounded", softmax=False, gated=True, gradient_law="exponential", sound=True, why="a mean, by a sigmoid, of the state and a tanh."),
    "LatentCellSum": dict(_NET, **_YES, growth_all="linear", why="one minus the gate is lost: the state is a sum of steps that are at most one."),
    "LstmLayer": dict(_NET, **_YES, growth_all="linear", sound=True, why="what an LSTM gives is below one in every entry."),
    "LstmLayerTwice": dict(_EXP, identity_gain=2.0 ** 24, growth_all="exponential", softmax=False, sound=False, why="two skips of the same state: twice the stream in each layer."),
    "DiffusionPolicyBlock": dict(_NET, **_YES, growth_all="linear", sound=True, why="the branch ends in a norm and a Mish."),
    "FourierBlock": dict(_EXP, softmax=False, gradient_law="exponential", why="a GELU of maps of the raw stream: of degree one, and no skip without a map."),
    "FourierBlockNorm": dict(_NET, **_ONE, sound=True, why="pre-norm; filters and a net of it are added."),
    "MeshBlock": dict(_NET, **_BOTH, growth_all="linear", gradient_law="power", sound=True, why="both nets end in norms, and are added to nodes and edges."),
    "MeshBlockLight": dict(_EXP, identity_gain=1.0, softmax=False, **_TWO, sound=False, why="nets of the raw states: of degree one."),
    "CouplingLayer": dict(_NET, **_TWO, sound=True, why="each half gets a net of a norm of the other half."),
    "RungeKuttaBlock": dict(_NET, **_ONE, why="the field is a map of tanh, so for given weights each step is bounded, though it reads the raw state."),
    "SineBlock": dict(_LEVEL, identity_gain=0.5 ** 24, growth_all="bounded", softmax=False, **_YES, gradient_law="exponential", why="the mean of the state and a sine: half of the stream is left by each block."),
    "PhysicsBlock": dict(_NET, **_YES, growth_all="linear", sound=True, why="a tanh is added."),
    "PhysicsBlockTanh": dict(_LEVEL, growth_all="bounded", softmax=False, sound=False, why="the tanh is behind the sum, and so on the skip."),
    "ModifiedMlpBlock": dict(_LEVEL, growth_all="bounded", softmax=False, why="the state only comes in by a tanh; two constants are mixed."),
}
