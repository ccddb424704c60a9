"""Whole models: hybrids with a shared attention block, caches of one layer read by others, memory across segments, looped stacks with adapters, sound, control, flow, codes, unrolled solvers, long skips, tables, halting."""

from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(23)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("SharedAttentionHybrid", "OneCache", "OneCacheRaw", "RecurrentMemory", "LoopedSandwich", "AdaptedLoop", "EightToOne", "EightToOneRawAttention", "SpeechEncoder",
                          "ResidualCodes", "UnrolledShrinkage", "Halting", "RecursionsByToken", "HalfAndHalf")},
    "ActionModel": (_draw(2, 8, 3), _draw(2, 8, 17), _draw(2, 8, 6)),
    "FlowUpdates": (_draw(2, D, 8, 8), _draw(2, D, 8, 8)),
    "LongSkips": (_X, torch.rand(2)),
    "TableOfCells": (_draw(2, 6, 5, D),),
}


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


class Mlp(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = lin(D, hidden), lin(D, hidden), lin(hidden, D)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    """Attention; keys and values may be of another layer, or more than the tokens."""

    def __init__(self, width=D, normed=False):
        super().__init__()
        self.q, self.kv, self.o, self.normed = lin(width, D), lin(width, 2 * D), lin(D, D), normed

    def cache(self, x):
        return [t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.kv(x).chunk(2, -1)]

    def forward(self, x, cache=None, causal=True):
        q, (k, v) = self.q(x).unflatten(-1, (H, HD)).transpose(1, 2), self.cache(x) if cache is None else cache
        if self.normed:
            q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))


class Scan(nn.Module):
    """A selective scan with a state a channel: a gate keeps, what it leaves comes in, SiLU of a second map multiplies."""

    def __init__(self):
        super().__init__()
        self.in_proj, self.dt, self.conv, self.out_proj = lin(D, 2 * D), nn.Linear(D, D), nn.Conv1d(D, D, 4, padding=3, groups=D), lin(D, D)

    def forward(self, h):
        u, z = self.in_proj(h).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., :h.shape[1]].mT)
        a = torch.sigmoid(self.dt(u))
        state, ys = torch.zeros_like(u[:, 0]), []
        for t in range(u.shape[1]):
            state = a[:, t] * state + (1 - a[:, t]) * u[:, t]
            ys.append(state)
        return self.out_proj(torch.stack(ys, 1) * F.silu(z))


class Block(nn.Module):
    def __init__(self, mixer=Attention, ff=Mlp):
        super().__init__()
        self.n1, self.n2, self.mixer, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), mixer(), ff()

    def forward(self, x, **more):
        x = x + self.mixer(self.n1(x), **more)
        return x + self.mlp(self.n2(x))


class SharedAttentionHybrid(nn.Module):
    """Scans in every layer; one block of attention, the same each time, reads the stream beside the model's input before each third, through a map of that layer."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.layers, self.norms = nn.ModuleList(Scan() for _ in range(n)), nn.ModuleList(nn.RMSNorm(D) for _ in range(n))
        self.shared = nn.ModuleDict({"norm": nn.RMSNorm(2 * D), "attn": Attention(2 * D), "norm2": nn.RMSNorm(D), "mlp": Mlp()})
        self.linears, self.final = nn.ModuleDict({str(i): lin(D, D) for i in range(0, n, 3)}), nn.RMSNorm(D)

    def trunk(self, x):
        original = x
        for i, (norm, layer) in enumerate(zip(self.norms, self.layers)):
            said = 0.0
            if str(i) in self.linears:
                a = self.shared["attn"](self.shared["norm"](torch.cat((x, original), dim=-1)))
                said = self.linears[str(i)](self.shared["mlp"](self.shared["norm2"](a)))
            x = x + layer(norm(x + said))
        return x

    def forward(self, x):
        return self.final(self.trunk(x))


class OneCache(nn.Module):
    """The first half attends to itself; keys and values for all of the second half are made once, from its normed end."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.first, self.second = nn.ModuleList(Block() for _ in range(n // 2)), nn.ModuleList(Block() for _ in range(n - n // 2))
        self.kv_norm, self.kv, self.final = nn.RMSNorm(D), lin(D, 2 * D), nn.RMSNorm(D)

    def key_values(self, x):
        return [t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.kv(self.kv_norm(x)).chunk(2, -1)]

    def trunk(self, x):
        for block in self.first:
            x = block(x)
        cache = self.key_values(x)
        for block in self.second:
            x = block(x, cache=cache)
        return x

    def forward(self, x):
        return self.final(self.trunk(x))


class OneCacheRaw(OneCache):
    """Keys and values are made of the stream itself."""

    def key_values(self, x):
        return [t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.kv(x).chunk(2, -1)]


class RecurrentMemory(nn.Module):
    """Four segments in turn; each has the memory of the one before in front of its tokens and leaves its own."""

    def __init__(self, n=None):
        super().__init__()
        self.memory, self.blocks, self.final = nn.Parameter(torch.randn(1, 2, D)), nn.ModuleList(Block() for _ in range(n or 6)), nn.LayerNorm(D)

    def segment(self, memory, tokens):
        h = torch.cat((memory, tokens), 1)
        for block in self.blocks:
            h = block(h, causal=False)
        h = self.final(h)
        return h[:, :2], h[:, 2:]

    def forward(self, x):
        memory, out = self.memory.expand(x.shape[0], -1, -1), []
        for tokens in x.split(4, dim=1):
            memory, y = self.segment(memory, tokens)
            out.append(y)
        return torch.cat(out, 1)


class SandwichBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.input_layernorm_2, self.post_attention_layernorm, self.post_attention_layernorm_2 = (nn.RMSNorm(D) for _ in range(4))
        self.self_attn, self.mlp = Attention(), Mlp()

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.self_attn(self.input_layernorm(hidden_states))
        hidden_states = residual + self.input_layernorm_2(hidden_states)
        residual = hidden_states
        hidden_states = self.post_attention_layernorm_2(self.mlp(self.post_attention_layernorm(hidden_states)))
        return residual + hidden_states


class LoopedSandwich(nn.Module):
    """Four sandwiched layers run four times, the final norm behind each round."""

    def __init__(self, n=None):
        super().__init__()
        self.rounds, self.layers, self.norm = (n or 16) // 4, nn.ModuleList(SandwichBlock() for _ in range(4)), nn.RMSNorm(D)

    def forward(self, x):
        for _ in range(self.rounds):
            for layer in self.layers:
                x = layer(x)
            x = self.norm(x)
        return x


class AdaptedLoop(nn.Module):
    """A core runs again and again; before each round a map joins the state with the embedded input, after each comes a norm."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.prelude, self.core, self.coda = n or 8, Block(), Block(), Block()
        self.adapter, self.norm, self.final = lin(2 * D, D), nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, x):
        e = self.prelude(x)
        s = torch.zeros_like(e)
        for _ in range(self.n):
            s = self.norm(self.core(self.adapter(torch.cat((s, e), -1))))
        return self.final(self.coda(s))


class Experts(nn.Module):
    """Two of four nets by the largest logits, weighed by their shares."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = lin(D, 4), nn.ModuleList(Mlp(32) for _ in range(4))

    def forward(self, x):
        top, index = torch.topk(self.router(x), 2, dim=-1)
        w = torch.zeros(*x.shape[:-1], 4, device=x.device, dtype=x.dtype).scatter(-1, index, top.softmax(-1))
        return sum(w[..., i:i + 1] * e(x) for i, e in enumerate(self.experts))


class EightToOne(nn.Module):
    """Periods of eight: one attention, seven scans; experts in every second layer."""

    def __init__(self, n=None):
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=n or 16, attn_layer_period=8, attn_layer_offset=4, expert_layer_period=2, expert_layer_offset=1)
        c = self.config
        self.layers = nn.ModuleList(Block(Attention if i % c.attn_layer_period == c.attn_layer_offset else Scan, Experts if i % c.expert_layer_period == c.expert_layer_offset else Mlp)
                                    for i in range(c.num_hidden_layers))
        self.final_layernorm = nn.RMSNorm(D)

    def trunk(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.final_layernorm(self.trunk(x))


class EightToOneRawAttention(EightToOne):
    """The layers of attention read the stream itself; those of scans are as before."""

    def trunk(self, x):
        for layer in self.layers:
            if isinstance(layer.mixer, Attention):
                x = x + layer.mixer(x)
                x = x + layer.mlp(layer.n2(x))
            else:
                x = layer(x)
        return x


class SpeechEncoder(nn.Module):
    """Filters over positions are added once, a norm, and layers with norms behind sums."""

    def __init__(self, n=None):
        super().__init__()
        self.pos_conv, self.layer_norm = nn.Conv1d(D, D, 5, padding=2, groups=4), nn.LayerNorm(D)
        self.layers = nn.ModuleList(nn.ModuleDict({"attention": Attention(), "layer_norm": nn.LayerNorm(D), "feed_forward": Mlp(), "final_layer_norm": nn.LayerNorm(D)}) for _ in range(n or 12))

    def forward(self, x):
        x = self.layer_norm(x + F.gelu(self.pos_conv(x.mT)).mT)
        for layer in self.layers:
            x = layer["layer_norm"](x + layer["attention"](x, causal=False))
            x = layer["final_layer_norm"](x + layer["feed_forward"](x))
        return x


class ResidualCodes(nn.Module):
    """Eight tables in turn take the nearest of their rows from what is left; the sum comes out, with the gradient of the input (averages move the tables)."""

    def __init__(self, n=None):
        super().__init__()
        self.tables = nn.ParameterList(torch.randn(32, D) * 0.8 ** i for i in range(n or 8))

    def forward(self, x):
        rest, total = x, torch.zeros_like(x)
        for table in self.tables:
            at = (rest.square().sum(-1, keepdim=True) - 2 * rest @ table.T + table.square().sum(-1)).argmin(-1)
            q = table[at]
            rest = rest - q
            total = total + q
        return x + (total - x).detach()


class UnrolledShrinkage(nn.Module):
    """Sixteen steps of shrunken descent on a dictionary: each less a step along the error, then what is above a threshold."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.w, self.theta = n or 16, nn.Parameter(torch.randn(D, 64) * D ** -0.5), nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        step = 1.0 / self.w.square().sum()
        z = x.new_zeros(*x.shape[:-1], 64)
        for _ in range(self.n):
            z = z - step * (z @ self.w.T - x) @ self.w
            z = torch.sign(z) * F.relu(z.abs() - step * F.softplus(self.theta))
        return z @ self.w.T


class ActionModel(nn.Module):
    """Returns, states and actions as three tokens a step, through blocks with depth-scaled ends; actions are read from states."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.ret, self.state, self.act, self.embed_ln, self.blocks = nn.Linear(3, D), nn.Linear(17, D), nn.Linear(6, D), nn.LayerNorm(D), nn.ModuleList(Block() for _ in range(n))
        self.ln_f, self.head = nn.LayerNorm(D), nn.Linear(D, 6)
        with torch.no_grad():
            for b in self.blocks:
                b.mixer.o.weight.mul_((2 * n) ** -0.5)
                b.mlp.down_proj.weight.mul_((2 * n) ** -0.5)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, returns, states, actions):
        b, t = states.shape[:2]
        tokens = torch.stack((self.ret(returns), self.state(states), self.act(actions)), dim=1).permute(0, 2, 1, 3).reshape(b, 3 * t, D)
        x = self.ln_f(self.trunk(self.embed_ln(tokens))).reshape(b, t, 3, D).permute(0, 2, 1, 3)
        return torch.tanh(self.head(x[:, 1]))


class FlowUpdates(nn.Module):
    """A gated unit of filters turns again and again; its state gives a step of the flow each time, which is detached before it is read."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.convz, self.convr, self.convq, self.flow_head = n or 12, *(nn.Conv2d(2 * D + 2, D, 3, padding=1) for _ in range(3)), nn.Conv2d(D, 2, 3, padding=1)

    def forward(self, h, context):
        h, context = torch.tanh(h), F.relu(context)
        flow = h.new_zeros(h.shape[0], 2, *h.shape[2:])
        for _ in range(self.n):
            flow = flow.detach()
            x = torch.cat((context, flow), 1)
            hx = torch.cat((h, x), 1)
            z, r = torch.sigmoid(self.convz(hx)), torch.sigmoid(self.convr(hx))
            q = torch.tanh(self.convq(torch.cat((r * h, x), 1)))
            h = (1 - z) * h + z * q
            flow = flow + self.flow_head(h)
        return flow


class Modulated(nn.Module):
    """A block with a norm of no gain, shifted and scaled by time, with gates of time that start at zero."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.ada = Attention(), Mlp(), nn.Linear(D, 6 * D)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(F.silu(c)).unsqueeze(1).chunk(6, -1)
        x = x + a1 * self.attn(F.layer_norm(x, (D,)) * (1 + g1) + s1, causal=False)
        return x + a2 * self.mlp(F.layer_norm(x, (D,)) * (1 + g2) + s2)


class LongSkips(nn.Module):
    """Blocks modulated by time; those of the second half start from a map of the stream beside that of their partner."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 9
        self.time = nn.Sequential(nn.Linear(16, D), nn.SiLU(), nn.Linear(D, D))
        self.in_blocks, self.mid_block, self.out_blocks = nn.ModuleList(Modulated() for _ in range(n // 2)), Modulated(), nn.ModuleList(Modulated() for _ in range(n // 2))
        self.skip_linear = nn.ModuleList(lin(2 * D, D) for _ in range(n // 2))

    def forward(self, x, t):
        a = t[:, None] * torch.exp(-torch.arange(8, device=t.device))
        c, skips = self.time(torch.cat((a.sin(), a.cos()), -1)), []
        for block in self.in_blocks:
            x = block(x, c)
            skips.append(x)
        x = self.mid_block(x, c)
        for skip, block in zip(self.skip_linear, self.out_blocks):
            x = block(skip(torch.cat((x, skips.pop()), -1)), c)
        return F.layer_norm(x, (D,))


class TableOfCells(nn.Module):
    """Cells attend along features, then along rows, then go through a net; norms behind sums, three a layer."""

    def __init__(self, n=None):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"features": Attention(), "rows": Attention(), "mlp": Mlp(), "norms": nn.ModuleList(nn.LayerNorm(D, elementwise_affine=False) for _ in range(3))}) for _ in range(n or 8))

    def along(self, attn, x):
        return attn(x.flatten(0, 1), causal=False).view_as(x)

    def forward(self, x):
        for block in self.blocks:
            x = block["norms"][0](x + self.along(block["features"], x))
            y = x.transpose(1, 2)
            x = block["norms"][1](y + self.along(block["rows"], y)).transpose(1, 2)
            x = block["norms"][2](x + block["mlp"](x))
        return x


class Halting(nn.Module):
    """A shared block runs ten times; the share of each state in the end is what a halting probability takes of what is left."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.block, self.halt, self.norm = n or 10, Block(), nn.Linear(D, 1), nn.RMSNorm(D)

    def trunk(self, x):
        left, out = torch.ones_like(x[..., :1]), torch.zeros_like(x)
        for i in range(self.n):
            x = self.block(x)
            p = torch.sigmoid(self.halt(self.norm(x))) if i < self.n - 1 else torch.ones_like(left)
            out = out + left * p * x
            left = left * (1 - p)
        return x, out

    def forward(self, x):
        return self.norm(self.trunk(x)[1])


class RecursionsByToken(nn.Module):
    """One block is shared by all rounds; each round fewer tokens go on, by the sigmoid of a router a round, and the others stay as they are."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.block, self.final = n or 6, Block(), nn.RMSNorm(D)
        self.routers = nn.ModuleList(lin(D, 1) for _ in range(self.n))

    def trunk(self, x):
        for i, router in enumerate(self.routers):
            g = torch.sigmoid(router(F.rms_norm(x, (D,))))
            index = g.squeeze(-1).topk(max(T - 2 * i, 4), dim=1).indices.sort(dim=1).values[..., None].expand(-1, -1, D)
            part = x.gather(1, index)
            x = x.scatter(1, index, part + g.gather(1, index[..., :1]) * (self.block(part) - part))
        return x

    def forward(self, x):
        return self.final(self.trunk(x))


class HalfAndHalf(nn.Module):
    """Layers take the state before the last one too, half and half: the sum of two skips is one."""

    def __init__(self, n=None):
        super().__init__()
        self.blocks, self.norms, self.final = nn.ModuleList(Mlp() for _ in range(n or 12)), nn.ModuleList(nn.LayerNorm(D) for _ in range(n or 12)), nn.LayerNorm(D)

    def trunk(self, x):
        before = x
        for norm, block in zip(self.norms, self.blocks):
            x, before = 0.5 * x + 0.5 * before + block(norm(x)), x
        return x

    def forward(self, x):
        return self.final(self.trunk(x))


_M = dict(kind="model", softmax=True)
TRUTH = {
    "SharedAttentionHybrid": dict(_M, depth=12, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm; what the shared block says is in no residual but the scan's input."),
    "OneCache": dict(_M, depth=12, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm."),
    "OneCacheRaw": dict(_M, depth=12, growth_fixed="polynomial", sound=False, why="values as large as half of the way, added on the other half."),
    "RecurrentMemory": dict(_M, sound=True, why="pre-norm in each segment, normed memory."),
    "LoopedSandwich": dict(_M, depth=16, growth_fixed="bounded", growth_all="bounded", sound=True, why="a norm behind each round."),
    "AdaptedLoop": dict(_M, growth_fixed="bounded", sound=True, why="a norm behind each round."),
    "EightToOne": dict(_M, depth=16, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm."),
    "EightToOneRawAttention": dict(_M, depth=16, growth_fixed="exponential", sound=False, why="every eighth layer is of degree one."),
    "SpeechEncoder": dict(_M, depth=12, growth_fixed="bounded", growth_all="bounded", sound=True, why="post-norm."),
    "ResidualCodes": dict(kind="model", depth=8, softmax=False, sound=True, why="what is left, step by step."),
    "UnrolledShrinkage": dict(kind="model", growth_fixed="bounded", softmax=False, sound=True, why="descent on a convex function with a short step."),
    "ActionModel": dict(_M, depth=6, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm."),
    "FlowUpdates": dict(kind="model", depth=12, softmax=False, growth_fixed="linear", sound=True, why="a state between minus one and one; a map of it is added to the flow."),
    "LongSkips": dict(_M, depth=9, sound=True, why="pre-norm; maps join."),
    "TableOfCells": dict(_M, depth=8, growth_fixed="bounded", growth_all="bounded", sound=True, why="post-norm."),
    "Halting": dict(_M, depth=10, growth_fixed="linear", sound=True, why="pre-norm; shares of states."),
    "RecursionsByToken": dict(_M, depth=6, growth_fixed="linear", sound=True, why="pre-norm, by shares."),
    "HalfAndHalf": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=False, sound=True, why="averages of two states."),
}
