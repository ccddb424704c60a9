"""Blocks whose logits, first states or weights hold something stored or computed once: relative positions, temperatures, tables, weight norm."""

from __future__ import annotations

from tests.calculi.meanfield.covariance_models import BLOCK, FRAME, FUSED, HEAD

MLP = FUSED[FUSED.index("class MLP") :]
POST = "x = self.one(x + self.attention(x)); x = self.two(x + self.mlp(x))"
PRE = "x = x + self.attention(self.one(x)); x = x + self.mlp(self.two(x))"

ATTENTION = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        {more}

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (m(x).view(b, n, H, D // H).transpose(1, 2) for m in (self.q, self.k, self.v))
        {logits}
        return self.out((u.softmax(-1) @ v).transpose(1, 2).reshape(b, n, D))
"""
DISTANCES = "self.near = nn.Embedding(2 * N - 1, D // H)"
BY_DISTANCE = """p = self.near(torch.arange(n)[None, :] - torch.arange(n)[:, None] + N - 1)
        u = (q @ k.transpose(-2, -1) + torch.einsum('bhid,ijd->bhij', q, p)) / math.sqrt(D // H)"""
SINES = """self.place = nn.Linear(D, D, bias=False)
        t = torch.arange(N - 1, -N, -1)[:, None] * 100.0 ** (-torch.arange(0, D, 2) / D)
        self.register_buffer('table', torch.cat((t.sin(), t.cos()), -1), persistent=False)"""
SHIFTED = """p = self.place(self.table[N - n : N + n - 1]).view(1, 2 * n - 1, H, D // H).permute(0, 2, 3, 1)
        u = F.pad(q @ p, (1, 0)).view(b, H, 2 * n, n)[:, :, 1:].reshape(b, H, n, 2 * n - 1)[..., :n]
        u = (q @ k.transpose(-2, -1) + u) / math.sqrt(D // H)"""
ROWS = "self.r = nn.Parameter(torch.randn(D, H, D // H) / math.sqrt(D))"
COMPUTED = """t = torch.arange(n - 1, -n, -1.0)[:, None] * (1 / torch.pow(100.0, torch.arange(0, D, 2.0) / D))
        t = torch.cat((t.sin(), t.cos()), -1)[:, None].expand(-1, b, -1)
        p = torch.einsum('jbd,dhe->bhej', t, self.r)
        u = F.pad(q @ p, (1, 0)).view(b, H, 2 * n, n)[:, :, 1:].reshape(b, H, n, 2 * n - 1)[..., :n]
        u = (q @ k.transpose(-2, -1) + u) / math.sqrt(D // H)"""
WARM = "self.heat = nn.Parameter(torch.full((H, 1, 1), math.log(25.0)))"
BY_COSINE = "u = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.heat.clamp(max=math.log(100.0)).exp()"
PLAIN = "u = q @ k.transpose(-2, -1) / math.sqrt(D // H)"
EINSUM = "u = torch.einsum('bhid,bhjd->bhij', q, k) / math.sqrt(D // H)"
HEADS_LAST = "u = torch.einsum('bhid,bhjd->bijh', q, k) / math.sqrt(D // H)"
EMPTY = "k, v = (torch.cat((torch.tensor([]), t), dim=-2) for t in (k, v)); " + PLAIN

ANGLES = """t = torch.arange(N)[:, None] * 100.0 ** (-torch.arange(0, D // H, 2) / (D // H))
        self.angles = torch.polar(torch.ones_like(t), t)"""
TURNED = """q, k = (torch.view_as_complex(t.float().reshape(b, H, n, -1, 2)) for t in (q, k))
        q, k = (torch.view_as_real(t * self.angles[:n].view(1, 1, n, -1)).flatten(3) for t in (q, k))
        """ + PLAIN
GATE = "self.gate = nn.Linear(D, H)"
SINK = "self.sink = nn.Parameter(torch.zeros(H))"
BY_SINK = PLAIN + """
        u = torch.cat((u, self.sink.view(1, H, 1, 1).expand(b, H, n, 1)), dim=-1)
        u = u - u.max(dim=-1, keepdim=True).values"""

BUCKETS = "self.bias = nn.Embedding(2 * N - 1, H)"
BY_BUCKET = PLAIN + """
        t = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        u = u + self.bias(torch.where(t > 0, t + N - 1, t.abs())).permute(2, 0, 1)"""
OFFSETS = """self.bias = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, H))
        self.register_buffer('offsets', torch.rand(2 * N - 1, 2))
        self.register_buffer('index', (torch.arange(N)[None, :] - torch.arange(N)[:, None] + N - 1).flatten())"""
BY_OFFSET = PLAIN + """
        u = u + self.bias(self.offsets)[self.index].view(N, N, H)[:n, :n].permute(2, 0, 1)"""
LENGTHS = PLAIN + """
        u = u.masked_fill((torch.arange(n) >= torch.full((b, 1), n))[:, None, None, :], -1e9)"""
ORDERED = PLAIN + """
        u = u.masked_fill(torch.arange(n)[None, :] > torch.arange(n)[:, None], -1e9)"""

GATED = """
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, 8 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        return self.down(F.glu(self.up(x), dim=-1))
"""
RESPONSE = """
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.gain, self.bias = (nn.Parameter(torch.zeros(1, 1, 4 * D)) for _ in range(2))

    def forward(self, x):
        h = F.gelu(self.up(x))
        size = torch.linalg.vector_norm(h, dim=1, keepdim=True)
        return self.down(self.gain * (h * (size / (size.mean(-1, keepdim=True) + 1e-6))) + self.bias + h)
"""
TAPS = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        taps = nn.Conv1d(D, D, 9, groups=4, bias=False)
        nn.init.normal_(taps.weight, 0.0, 0.04)
        self.taps = torch.nn.utils.parametrizations.weight_norm(taps, dim=2)

    def forward(self, x):
        return F.gelu(self.taps(F.pad(x.transpose(1, 2), (4, 4)))).transpose(1, 2)
"""


def _model(attention: str, body: str = PRE, mlp: str = MLP, frame: str = FRAME, std: str = "1 / math.sqrt(m.in_features)") -> str:
    block = BLOCK.replace("{body}", body.replace("; ", "\n        "))
    return HEAD + attention + mlp + block + frame.replace("{final}", "nn.LayerNorm(D)").replace("{std}", std)


def _attention(more: str = "pass", logits: str = PLAIN) -> str:
    return ATTENTION.replace("{more}", more).replace("{logits}", logits.replace("; ", "\n        "))


EMBED, READ = "self.embed = nn.Embedding(VOCAB, D)", "x = self.embed(ids)"
SCALED = FRAME.replace(EMBED, EMBED + """
        self.register_buffer('times', torch.tensor(5.0))""").replace(READ, READ + " * self.times")
TABLE = FRAME.replace(EMBED, EMBED + """
        t = torch.arange(512)[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
        self.register_buffer('table', 2 * torch.stack((t.sin(), t.cos()), -1).flatten(1))""").replace(READ, READ + " + self.table[: ids.shape[1]]")

PLACES = FRAME.replace(READ, """t = torch.arange(ids.shape[1]).float()[:, None] * torch.exp(torch.arange(0, D, 2).float() * (-math.log(10000.0) / D))
        x = self.embed(ids) + 2 * torch.stack((t.sin(), t.cos()), -1).flatten(1)""")

MASKS: dict[str, tuple[str, bool]] = {
    "bias by bucket": (_model(_attention(BUCKETS, BY_BUCKET)), False),
    "bias by stored offset": (_model(_attention(OFFSETS, BY_OFFSET)), False),
    "lengths": (_model(_attention(logits=LENGTHS)), False),
    "positions": (_model(_attention(logits=ORDERED)), True),
}
"""What is done to the logits -> a source, and whether it hides the future."""

MODELS: dict[str, str] = {
    "distances": _model(_attention(DISTANCES, BY_DISTANCE)),
    "distances, post": _model(_attention(DISTANCES, BY_DISTANCE), POST, std="0.06"),
    "shifted": _model(_attention(SINES, SHIFTED)),
    "shifted, post": _model(_attention(SINES, SHIFTED), POST, std="0.06"),
    "computed": _model(_attention(ROWS, COMPUTED)),
    "computed, post": _model(_attention(ROWS, COMPUTED), POST, std="0.06"),
    "temperature": _model(_attention(WARM, BY_COSINE), POST, std="0.06"),
    "einsum": _model(_attention(logits=EINSUM)),
    "einsum, post": _model(_attention(logits=EINSUM), POST, std="0.06"),
    "einsum, heads last": _model(_attention(logits=HEADS_LAST).replace("u.softmax(-1)", "u.softmax(2).permute(0, 3, 1, 2)")),
    "empty cache": _model(_attention(logits=EMPTY)),
    "glu": _model(_attention(), mlp=GATED),
    "response norm": _model(_attention(), mlp=RESPONSE),
    "weight norm": _model(TAPS),
    "scaled embedding": _model(_attention(), frame=SCALED),
    "stored positions": _model(_attention(), frame=TABLE),
    "stored positions, post": _model(_attention(), POST, frame=TABLE, std="0.06"),
    "computed positions, post": _model(_attention(), POST, frame=PLACES, std="0.06"),
    "complex rotary": _model(_attention(ANGLES, TURNED)),
    "complex rotary, post": _model(_attention(ANGLES, TURNED), POST, std="0.06"),
    "gate of a head": _model(_attention(GATE).replace("u.softmax(-1) @ v", "u.softmax(-1) @ v * self.gate(x).sigmoid().transpose(1, 2)[..., None]")),
    "sink": _model(_attention(SINK, BY_SINK).replace("u.softmax(-1)", "u.softmax(-1)[..., :-1]")),
}
"""Design -> source of a module that holds `Model`."""
MIXING = """
class Attention(nn.Module):
    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
"""
OVER_QUERIES: dict[str, str] = {
    "plain": _model(_attention().replace("u.softmax(-1)", "u.softmax(-2)")),
    "turned back": _model(_attention(logits=PLAIN).replace("u.softmax(-1)", "u.transpose(-2, -1).softmax(-1).transpose(-2, -1)")),
    "keys that are queries": _model(_attention(logits=EINSUM).replace("u.softmax(-1)", "u.softmax(-1).transpose(-2, -1)")),
}
"""Shares of queries, which add up to one over these, or rows of keys that are read as those of queries."""
NO_SINKS: dict[str, str] = {
    "rows as they are": _model(_attention(SINK, BY_SINK).replace("u.softmax(-1) @ v", "u.softmax(-1) @ F.pad(v, (0, 0, 0, 1))")),
    "another end": _model(_attention(SINK, BY_SINK).replace("u.softmax(-1)", "u.softmax(-1)[..., 1:]")),
    "far from zero": _model(_attention(SINK.replace("zeros(H)", "full((H,), 4.0)"), BY_SINK).replace("u.softmax(-1)", "u.softmax(-1)[..., :-1]")),
    "another shift": _model(_attention(SINK, BY_SINK.replace("u.max", "k.max")).replace("u.softmax(-1)", "u.softmax(-1)[..., :-1]")),
    "complex numbers of any modulus": _model(_attention(ANGLES, TURNED.replace("self.angles[:n]", "torch.polar(self.sizes[:n], self.sizes[:n])"))
                                             .replace("self.angles = torch.polar(torch.ones_like(t), t)", "self.sizes = t")),
}
"""What looks like a sink or a rotation and is none."""
FOURIER: dict[str, str] = {
    "post": _model(MIXING, POST, std="0.05"),
    "post, large maps": _model(MIXING, POST, std="0.3"),
    "pre": _model(MIXING),
}
"""Fourier mixing in place of attention."""
