"""Small whole models as they are meant: lanes, shared layers, graphs, speech, recurrences, loops, sampling."""

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


class Attention(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal, self.q, self.kv, self.o = causal, fc(D, D), fc(D, 2 * D), fc(D, D)

    def forward(self, x, memory=None):
        split = lambda t: t.unflatten(-1, (H, HD)).transpose(1, 2)
        k, v = self.kv(x if memory is None else memory).chunk(2, dim=-1)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(k), split(v), is_causal=self.causal)
        return self.o(y.transpose(1, 2).flatten(2))


class Net(nn.Sequential):
    def __init__(self, inner=64):
        super().__init__(fc(D, inner, True), nn.GELU(), fc(inner, D, True))


class Layer(nn.Module):
    """Pre-norm."""

    def __init__(self, causal=False):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(D), Attention(causal), nn.LayerNorm(D), Net()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PostLayer(nn.Module):
    """Post-norm."""

    def __init__(self):
        super().__init__()
        self.attn, self.norm1, self.mlp, self.norm2 = Attention(), nn.LayerNorm(D), Net(), nn.LayerNorm(D)

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


class Backbone(nn.Module):
    """`make(i)` builds a layer, `features` runs them."""

    def __init__(self, n=6):
        super().__init__()
        self.n, self.layers, self.norm = n, nn.ModuleList([self.make(i) for i in range(n)]), nn.LayerNorm(D)

    def make(self, i):
        return Layer()

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


# ------------------------------------------------------------ lanes
class LaneLayer(nn.Module):
    """A branch reads a mean of lanes and is written to all; lanes are mixed by a matrix that `mixing` makes of trained numbers."""

    def __init__(self, body, lanes=4):
        super().__init__()
        self.norm, self.body, self.res_logits = nn.RMSNorm(D), body, nn.Parameter(torch.randn(lanes, lanes))
        self.pre_logits, self.post_logits = nn.Parameter(torch.randn(lanes)), nn.Parameter(torch.zeros(lanes))

    def mixing(self):
        m = self.res_logits.exp()
        for _ in range(20):
            m = m / m.sum(dim=-2, keepdim=True)
            m = m / m.sum(dim=-1, keepdim=True)
        return m

    def forward(self, lanes):
        read = torch.einsum("nbtd,n->btd", lanes, torch.sigmoid(self.pre_logits))
        out = self.body(self.norm(read))
        return torch.einsum("mn,nbtd->mbtd", self.mixing(), lanes) + 2 * torch.sigmoid(self.post_logits)[:, None, None, None] * out


class DoublyStochasticLanes(Backbone):
    """mHC: the matrices are made doubly stochastic by Sinkhorn's iteration; the mean of lanes goes out."""

    def make(self, i):
        return LaneLayer(Net() if i % 2 else Attention(causal=True))

    def features(self, x):
        lanes = x.unsqueeze(0).repeat(4, 1, 1, 1)
        for layer in self.layers:
            lanes = layer(lanes)
        return lanes.mean(dim=0)


# ------------------------------------------------------------ weights that are shared
class GroupsOfSharedLayers(nn.Module):
    """ALBERT with groups: layer i is group i // (n / groups), post-norm."""

    def __init__(self, n=6, groups=2):
        super().__init__()
        self.n, self.groups = n, nn.ModuleList(PostLayer() for _ in range(groups))

    @property
    def layers(self):
        return list(self.groups)

    def features(self, x):
        for i in range(self.n):
            x = self.groups[int(i / (self.n / len(self.groups)))](x)
        return x

    def forward(self, x):
        return self.features(x)


class PatternByKey(nn.Module):
    """A pattern of letters names the mixers in a dictionary; each letter is one module, called again and again, with norms of its own by place."""

    def __init__(self, n=6):
        super().__init__()
        self.pattern = ("C*-" * n)[:n]
        self.mixers = nn.ModuleDict({"*": Attention(causal=True), "-": Net(), "C": nn.Conv1d(D, D, 4, padding=3, groups=D)})
        self.norms, self.norm_f = nn.ModuleList(nn.RMSNorm(D) for _ in range(n)), nn.RMSNorm(D)

    @property
    def layers(self):
        return list(self.norms)

    def features(self, x):
        for key, norm in zip(self.pattern, self.norms):
            h = norm(x)
            if key == "C":
                h = F.silu(self.mixers[key](h.transpose(1, 2))[..., : h.shape[1]]).transpose(1, 2)
            else:
                h = self.mixers[key](h)
            x = x + h
        return x

    def forward(self, x):
        return self.norm_f(self.features(x))


class TiedTransposed(nn.Module):
    """Each net goes out by the transpose of the map that it came in by; attention's values and output, too."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2, self.qk, self.w_v, self.w = nn.LayerNorm(D), nn.LayerNorm(D), fc(D, 2 * D), fc(D, D), fc(D, 64)

        def forward(self, x):
            h = self.norm_1(x)
            q, k = self.qk(h).chunk(2, dim=-1)
            p = torch.softmax(q @ k.mT / D ** 0.5, dim=-1)
            x = x + F.linear(p @ self.w_v(h), self.w_v.weight.t())
            return x + F.linear(F.relu(self.w(self.norm_2(x))), self.w.weight.mT)

    def __init__(self, n=6):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(self.Tied() for _ in range(n)), nn.LayerNorm(D)

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class HaltingMean(nn.Module):
    """Universal transformer: one layer, states are averaged by halting shares that sum to one; the last state takes what is left."""

    def __init__(self, n=6):
        super().__init__()
        self.n, self.core, self.halt = n, Layer(), fc(D, 1, True)
        self.register_buffer("step", torch.sin(torch.arange(D)[None, :] * 0.1 + torch.arange(64)[:, None]))

    @property
    def layers(self):
        return [self.core]

    def features(self, x):
        left, out = torch.ones_like(x[..., :1]), torch.zeros_like(x)
        for i in range(self.n):
            x = self.core(x + self.step[i % 64])
            p = torch.sigmoid(self.halt(F.layer_norm(x, (D,)))) * left if i + 1 < self.n else left
            out, left = out + p * x, left - p
        return out

    def forward(self, x):
        return self.features(x)


class TwoSpeeds(nn.Module):
    """HRM: a fast state takes two steps for one of the slow one; both are made by post-norm layers of sums."""

    def __init__(self, n=3):
        super().__init__()
        self.n, self.fast, self.slow = n, PostLayer(), PostLayer()
        self.register_buffer("start", torch.cos(torch.arange(float(2 * D))).view(2, 1, 1, D))

    @property
    def layers(self):
        return [self.fast, self.slow]

    def features(self, x):
        z_slow, z_fast = (s.expand_as(x) for s in self.start)
        for _ in range(self.n):
            for _ in range(2):
                z_fast = self.fast(z_fast + (z_slow + x))
            z_slow = self.slow(z_slow + z_fast)
        return z_slow

    def forward(self, x):
        return self.features(x)


# ------------------------------------------------------------ graphs, speech, recurrences
class MeshProcessor(nn.Module):
    """MeshGraphNet: edges and nodes are two streams; every net ends in a norm; sums over edges go to nodes."""

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            mlp = lambda i: nn.Sequential(fc(i, 48, True), nn.ReLU(), fc(48, D, True), nn.LayerNorm(D))
            self.edge_model, self.node_model = mlp(3 * D), mlp(2 * D)

        def forward(self, nodes, edges, src, dst):
            edges = edges + self.edge_model(torch.cat([nodes[:, src], nodes[:, dst], edges], dim=-1))
            gathered = torch.zeros_like(nodes).index_add(1, dst, edges)
            nodes = nodes + self.node_model(torch.cat([nodes, gathered], dim=-1))
            return nodes, edges

    def __init__(self, n=5):
        super().__init__()
        i = torch.arange(T)
        self.register_buffer("src", torch.cat([i, i]))
        self.register_buffer("dst", torch.cat([(i + 1) % T, (i - 1) % T]))
        self.edge_encoder, self.layers = nn.Sequential(fc(2 * D, D, True), nn.LayerNorm(D)), nn.ModuleList(self.Step() for _ in range(n))

    def features(self, x):
        edges = self.edge_encoder(torch.cat([x[:, self.src], x[:, self.dst]], dim=-1))
        for layer in self.layers:
            x, edges = layer(x, edges, self.src, self.dst)
        return x

    def forward(self, x):
        return self.features(x)


class SpeechEncoder(nn.Module):
    """wav2vec 2.0 base: a convolution's positions are added, a norm, then post-norm layers."""

    def __init__(self, n=5):
        super().__init__()
        self.pos_conv, self.layer_norm = nn.Conv1d(D, D, 4, padding=2, groups=4), nn.LayerNorm(D)
        self.layers = nn.ModuleList(PostLayer() for _ in range(n))

    def features(self, x):
        pos = F.gelu(self.pos_conv(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        x = self.layer_norm(x + pos)
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.features(x)


class RecurrentStack(nn.Module):
    """A transducer's encoder: recurrences with a norm behind each and skips."""

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.norm = nn.LSTM(D, 48, proj_size=D, batch_first=True), nn.LayerNorm(D)

        def forward(self, x):
            y, _ = self.rnn(x)
            return x + self.norm(y)

    def __init__(self, n=5):
        super().__init__()
        self.layers = nn.ModuleList(self.Step() for _ in range(n))

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.features(x)


# ------------------------------------------------------------ language
class FirstLayerNorms(Backbone):
    """RWKV: the first layer norms the embedding before anything else."""

    class Rwkv(Layer):
        def __init__(self, i):
            super().__init__(causal=True)
            if i == 0:
                self.ln0 = nn.LayerNorm(D)

        def forward(self, x):
            if hasattr(self, "ln0"):
                x = self.ln0(x)
            return super().forward(x)

    def make(self, i):
        return self.Rwkv(i)


class SearchedLayers(Backbone):
    """A searched stack: some layers have no attention, one has only it."""

    class Searched(nn.Module):
        def __init__(self, attn, mlp):
            super().__init__()
            self.parts = nn.ModuleList(nn.Sequential(nn.RMSNorm(D), body) for body in (attn, mlp) if body is not None)

        def forward(self, x):
            for part in self.parts:
                x = x + part(x)
            return x

    def make(self, i):
        return self.Searched(Attention(causal=True) if i % 3 else None, Net() if i != 4 else None)


class TokenModel(Backbone):
    """Indices in, an embedding of deviation one, logits by the same table."""

    def __init__(self, n=6):
        super().__init__(n)
        self.wte = nn.Embedding(D, D)
        nn.init.normal_(self.wte.weight, std=1.0)

    def make(self, i):
        return Layer(causal=True)

    def forward(self, x):
        h = self.features(self.wte(x.argmax(dim=-1)))
        return F.linear(self.norm(h), self.wte.weight)


class MetaTokens(Backbone):
    """Four trained tokens go in front and are cut off at the end."""

    def __init__(self, n=6):
        super().__init__(n)
        self.meta = nn.Parameter(torch.randn(4, D))

    def features(self, x):
        x = torch.cat([self.meta.expand(x.shape[0], -1, -1), x], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x[:, self.meta.shape[0] :]


class LastFourSummed(Backbone):
    """Features are the sum of the last four states, as for probing."""

    def features(self, x):
        hidden_states = ()
        for layer in self.layers:
            x = layer(x)
            hidden_states += (x,)
        return torch.stack(hidden_states[-4:], dim=0).sum(dim=0)


class SkippedLayers(Backbone):
    """Two of eight layers are built and not run."""

    def __init__(self, n=8):
        super().__init__(n)
        self.skip = {n // 2, n // 2 + 1}

    def features(self, x):
        for i, layer in enumerate(self.layers):
            if i in self.skip:
                continue
            x = layer(x)
        return x


# ------------------------------------------------------------ vision, diffusion
class TwoWay(nn.Module):
    """SAM's decoder: tokens attend to themselves and to the image, then the image to the tokens; a norm behind every sum; the image goes out."""

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.self_attn, self.to_image, self.to_token, self.mlp = Attention(), Attention(), Attention(), Net()
            self.norm1, self.norm2, self.norm3, self.norm4 = (nn.LayerNorm(D) for _ in range(4))

        def forward(self, queries, keys):
            queries = self.norm1(queries + self.self_attn(queries))
            queries = self.norm2(queries + self.to_image(queries, keys))
            queries = self.norm3(queries + self.mlp(queries))
            keys = self.norm4(keys + self.to_token(keys, queries))
            return queries, keys

    def __init__(self, n=3):
        super().__init__()
        self.tokens, self.layers = nn.Parameter(torch.randn(5, D)), nn.ModuleList(self.Step() for _ in range(n))

    def features(self, x):
        queries, keys = self.tokens.expand(x.shape[0], -1, -1), x
        for layer in self.layers:
            queries, keys = layer(queries, keys)
        return keys

    def forward(self, x):
        return self.features(x)


class Guided(Backbone):
    """Guidance: the net runs on two copies, one with a condition; what goes out lies on the line through both, three times as far."""

    def __init__(self, n=5, scale=3.0):
        super().__init__(n)
        self.scale, self.condition = scale, nn.Parameter(torch.randn(D))

    def features(self, x):
        both = torch.cat([x, x + self.condition], dim=0)
        for layer in self.layers:
            both = layer(both)
        without, conditioned = both.chunk(2)
        return without + self.scale * (conditioned - without)


class Preconditioned(Backbone):
    """EDM: a share of the input plus a share of the net of a share, for a noise of two and data of a half."""

    def __init__(self, n=6, sigma=2.0, sigma_data=0.5):
        super().__init__(n)
        total = sigma ** 2 + sigma_data ** 2
        self.c_skip, self.c_out, self.c_in = sigma_data ** 2 / total, sigma * sigma_data / total ** 0.5, total ** -0.5

    def features(self, x):
        h = self.c_in * x
        for layer in self.layers:
            h = layer(h)
        return self.c_skip * x + self.c_out * h

    def forward(self, x):
        return self.features(x)


_M = dict(kind="model")
_F = dict(logits_bounded={0: False})
_BARE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_PRE = dict(_BARE, **_F)
_POST = dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True)
TRUTH = {
    "DoublyStochasticLanes": dict(_BARE, depth=6, gradient_law="power", why="rows and columns of shares sum to one."),
    "GroupsOfSharedLayers": dict(_POST, **_F, why="post-norm."),
    "PatternByKey": dict(_BARE, why="pre-norm."),
    "TiedTransposed": dict(_PRE, depth=6, why="pre-norm."),
    "HaltingMean": dict(_BARE, growth_fixed="bounded", why="every state carries the input once, and shares sum to one; those of late states fall as powers."),
    "TwoSpeeds": dict(_POST, why="post-norm layers of sums of post-norm states."),
    "MeshProcessor": dict(_M, identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=False, gradient_law="power", why="a norm ends each branch."),
    "SpeechEncoder": dict(_POST, depth=5, why="post-norm."),
    "RecurrentStack": dict(_M, identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=False, depth=5, output_bounded={0: True}, why="a norm ends each branch."),
    "FirstLayerNorms": dict(_PRE, identity_gain=None, depth=6, why="a norm in front, then pre-norm."),
    "SearchedLayers": dict(_BARE, depth=6, why="pre-norm."),
    "TokenModel": dict(_M, growth_fixed="linear", softmax=True, depth=6, **_F, gradient_law="power", why="pre-norm."),
    "MetaTokens": dict(_PRE, depth=6, gradient_law="power", why="pre-norm."),
    "LastFourSummed": dict(_PRE, identity_gain=4.0, why="four states that each carry the input."),
    "SkippedLayers": dict(_PRE, depth=6, why="pre-norm; six are run."),
    "TwoWay": dict(_POST, why="post-norm on both."),
    "Guided": dict(_PRE, why="1 + 3 (1 - 1)."),
    "Preconditioned": dict(_PRE, identity_gain=1.25 / 4.25, why="0.0588 + 0.4851 squared."),
}
