"""Facts written by hand, for rules, verdict and reports: what the tracer would find for well-known designs, without running it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from screen.calculi.analysis import Analysis, no_bounds
from screen.calculi.bounds.expr import Expr, sym
from screen.calculi.bounds.softmax import SoftmaxBound
from screen.calculi.degrees import Degree, Degrees, Orders
from screen.calculi.meanfield import Recursion
from screen.facts.claims import Claim, claims_of
from screen.calculi.bounds.boundedness import survives
from screen.facts.operator.steps import StateBound
from screen.facts.record import Facts
from screen.graph import Call, Graph, Module, Node, Ref
from screen.structure.types import (
    Coverage, IdentityPath, Kind, MapCount, Norm, NormType, Place, Port, Role, Scale, Stream, Sublayer, Unknown, UnmodelledOp,
)

ROOT = "/home/someone/project"
FILE = ROOT + "/model.py"


@dataclass
class GraphBuilder:
    """A graph, node by node: `b.op("linear", x, w)` gives the index of the new node."""

    nodes: list[Node] = field(default_factory=list)

    def op(self, name: str, *inputs: int, shape: tuple[int, ...] = (2, 16, 64), label: str = "") -> int:
        index = len(self.nodes)
        self.nodes.append(Node(index, name, tuple(Ref(i) for i in inputs), (), shape, "float32", 0, FILE, 10 + index, label))
        return index

    def parameter(self, label: str, *shape: int) -> int:
        return self.op("parameter", shape=shape, label=label)

    def graph(self, **fields: object) -> Graph:
        modules = (Module(0, None, "", "Model", ""), Module(1, 0, "head", "Linear", ""), Module(2, 0, "blocks", "ModuleList", "list"))
        return Graph(tuple(self.nodes), (Call(0, None, 0, 0),), modules, (len(self.nodes) - 1,), **fields)  # type: ignore[arg-type]


def blank_graph(nodes: int = 64, **fields: object) -> Graph:
    """A graph whose nodes mean nothing, for facts that only point at them."""
    builder = GraphBuilder()
    builder.op("input", label="x")
    for i in range(1, nodes):
        builder.op("add", i - 1)
    return builder.graph(**fields)


def place(node: int = 0, module: str = "blocks.0") -> Place:
    return Place(node, module, FILE, 10 + node)


def norm(node: int = 1, type_: NormType = "layernorm", size: int = 64, axes: tuple[int, ...] = (-1,)) -> Norm:
    radius = 1.0 if type_ in ("layernorm", "rmsnorm") else None
    return Norm(node, max(node - 1, 0), type_, type_ == "layernorm", axes, size, 1e-5, place(node, "blocks.0.norm"), radius)


POSITIONS = {
    "pre": ("A",), "post": ("C",), "peri": ("A", "B"), "output_only": ("B",), "pre_post": ("A", "C"), "none": (), "unknown": (),
}  # fmt: skip


def sublayer(
    role: Role = "attention", placement: str = "pre", *, name: str = "", at: int = 8, norm_type: NormType = "layernorm", qk: str = "none",
    **changes: object,
) -> Sublayer:  # fmt: skip
    """A sublayer of the named placement, with its norms; `changes` replace fields."""
    softmax = role in ("attention", "cross_attention")
    positions = POSITIONS.get(placement, tuple(placement))
    if qk != "none":
        positions = tuple(p for p in ("A", "A2", "S", "B", "C") if p in (*positions, "A2"))
    maps = 4 if softmax else 3 if role == "gated_ffn" else 2
    path = tuple(f"blocks.0.{name or role}.w{i}" for i in range(maps))
    made = Sublayer(
        name=name or {"gated_ffn": "ffn"}.get(role, role), role=role, placement=placement, positions=positions, unknown=(),
        norms=tuple((p, norm(at - 2 + i, norm_type)) for i, p in enumerate(positions)), norm_type=norm_type if set(positions) & set("ABC") else None,
        ports=(Port("x", "A" in positions, "stream"),), qk_norm=qk, q_norm=qk, k_norm=qk, v_norm=False, parallel_group=None,  # type: ignore[arg-type]
        alpha=Scale("none", 1.0), branch=Scale("none", 1.0), gated_output=False, m=MapCount(maps, path), depends_on_stream=True,
        normed_skip=False, add=at + 1, output=at, place=place(at, f"blocks.0.{name or role}"),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def kind(*sublayers: Sublayer, count: int = 12, first: int = 0, id_: str = "k0", module: str = "blocks.0") -> Kind:
    return Kind(id_, count, ((first, first + count - 1),), module, sublayers)


def stream(*kinds: Kind, name: str = "stream", **changes: object) -> Stream:
    depth = sum(k.count for k in kinds)
    crossed = sum(k.count for k in kinds for s in k.sublayers if "C" in s.positions)
    identity = IdentityPath(crossed == 0, "1" if crossed == 0 else None, crossed)
    made = Stream(name, name, 64, depth, "float32", False, False, crossed == 0, identity, kinds, (), (0, 40))
    return replace(made, **changes)  # type: ignore[arg-type]


def analysis(sub: Sublayer) -> Analysis:
    """Degrees and bounds as the calculi would give them for the sublayer's placement."""
    normed = "B" in sub.positions
    groups = tuple(Degree(name, (name,), None, 0, 0.0 if normed else 1.0, "exact", (), 0.0 if normed else 1.0) for name in sub.m.path)
    maps = sub.m.maps if isinstance(sub.m.maps, int) else 2
    least = 0 if normed else 2
    in_stream = 0.0 if set(sub.positions) & {"A", "B"} else 1.0
    degrees = Degrees(groups, Orders(maps, maps, least, sub.m.path, sub.m.path[-2:]), None, in_stream)
    softmax = sub.role in ("attention", "cross_attention")
    bounds = replace(
        no_bounds(Unknown("written by hand")), bounded=normed, magnitude=sym("W") if set(sub.positions) & {"A", "B"} else sym("B"),
        logits=(sym("W") if "A" in sub.positions or sub.qk_norm != "none" else sym("B"),) if softmax else (),
        logits_bounded=sub.qk_norm != "none" if softmax else None,
    )  # fmt: skip
    if softmax:
        bounds = replace(bounds, softmaxes=(SoftmaxBound(sub.output, "attention", bounds.logits[0], sub.qk_norm != "none"),))
    if not set(sub.positions) & {"A", "B"}:
        bounds = replace(bounds, bounded_in_stream=False)
    return Analysis(degrees, bounds)


def recursion(stream: Stream) -> Recursion:
    """The stream at an ordinary initialisation: tokens stay apart, gradients follow the stream."""
    bare = all(not set(s.positions) - {"A2"} for k in stream.kinds for s in k.sublayers)
    rms = (1.0, 1e9) if bare else (1.0, 3.0)
    return Recursion(
        stream.depth, rms, 0.5, 0.5, 0.5, 3.0, "polynomial", 0.5, rms[-1], -0.5, 1.0, {}, ("written by hand",), tokens=64, rms_read=rms[-1],
    )  # fmt: skip


def facts(*streams: Stream, graph: Graph | None = None, **changes: object) -> Facts:
    norms = tuple(n for s in streams for k in s.kinds for sub in k.sublayers for _, n in sub.norms)
    used = graph or blank_graph()
    subs = [sub for s in streams for k in s.kinds for sub in k.sublayers]
    made = Facts(
        used, streams, norms, (), (), Coverage(len(used.nodes), len(used.nodes), ()), frozenset(),
        analyses={(sub.add, sub.output): analysis(sub) for sub in subs}, recursions=tuple(recursion(s) for s in streams),
    )  # fmt: skip
    made = replace(made, **changes)  # type: ignore[arg-type]
    sums = {(sub.add, sub.output): StateBound(True, True, 0.0) for sub in subs if "C" in sub.positions}
    return claimed(replace(made, state_bounds=sums, softmax=any("attention" in sub.role for sub in subs)))


def claimed(made: Facts) -> Facts:
    """With the claims that the placements stand for: streams are written by hand, and have no linear operator."""
    subs = {s.name: [sub for k in s.kinds for sub in k.sublayers] for s in made.streams}

    def told(claim: Claim) -> Claim:
        found = subs.get(claim.stream or "", [])
        letters = [set(sub.positions) for sub in found]
        scaled = any(sub.alpha.kind in ("data", "learned") for sub in found)
        if claim.claim == "identity_gain" and found and not scaled and not any("C" in at for at in letters):
            return replace(claim, status="proved", value=1.0, low=1.0, high=1.0, reason="", node=None, nodes=())
        if claim.claim != "growth" or not found or scaled:
            return claim
        if all("C" in at for at in letters):
            return replace(claim, status="proved", value="bounded", reason="", node=None, nodes=())
        bounds = [a.bounds for sub in found if not isinstance(a := made.analysis(sub), Unknown)]
        kept = all(b.bounded is True if claim.weights == "all" else isinstance(b.magnitude, Expr) and survives(b.magnitude) for b in bounds)
        return replace(claim, status="proved", value="linear", reason="", node=None, nodes=()) if kept else claim

    return replace(made, claims=made.claims.with_all([told(c) for c in claims_of(made)]))


def pre() -> Facts:
    """GPT-2-like."""
    return facts(stream(kind(sublayer("attention", "pre"), sublayer("ffn", "pre", at=20))))


def llama() -> Facts:
    """Pre, RMSNorm, gated FFN."""
    return facts(stream(kind(sublayer(norm_type="rmsnorm"), sublayer("gated_ffn", norm_type="rmsnorm", at=20), count=32)))


def post() -> Facts:
    """BERT-like: embedding norm, no final norm."""
    blocks = kind(sublayer("attention", "post"), sublayer("ffn", "post", at=20))
    return facts(stream(blocks, embed_norm=True, final_norm=False))


def peri() -> Facts:
    """Peri with QK-norm per head."""
    blocks = kind(sublayer("attention", "peri", norm_type="rmsnorm", qk="per_head"), sublayer("gated_ffn", "peri", norm_type="rmsnorm", at=20))
    return facts(stream(replace(blocks, count=26, layers=((0, 25),)), embed_scale=True))


def parallel() -> Facts:
    """GPT-J-like: one add, two branches."""
    return facts(stream(kind(sublayer("attention", parallel_group=0), sublayer("ffn", at=20, parallel_group=0))))


def none() -> Facts:
    """No norm anywhere."""
    blocks = kind(sublayer("attention", "none"), sublayer("ffn", "none", at=20))
    return facts(stream(blocks, final_norm=False))


def unknown() -> Facts:
    """An op without a row on the stream, and a placement that cannot be told for it."""
    why = Unknown("`bessel_j0` has no row in the op table", (7,))
    blocks = kind(sublayer("attention", "unknown", unknown=(why,)), sublayer("ffn", "pre", at=20))
    return facts(stream(blocks), coverage=Coverage(64, 63, (UnmodelledOp("bessel_j0", 2, True, place(7)),)))


def encoder_decoder() -> Facts:
    """Two streams; the decoder has cross-attention."""
    own = {name: (Port("x", True, name),) for name in ("encoder", "decoder")}
    encoder = stream(kind(sublayer(ports=own["encoder"]), sublayer("ffn", at=20, ports=own["encoder"]), count=6), name="encoder")
    cross = sublayer("cross_attention", at=14, ports=(Port("x", True, "decoder"), Port("memory", True, "encoder")))
    decoder = stream(kind(sublayer(ports=own["decoder"]), cross, sublayer("ffn", at=24, ports=own["decoder"]), count=6), name="decoder")
    return facts(encoder, decoder)


def hybrid() -> Facts:
    """Mix-LN-like: the first layers post, the rest pre, with a learned branch scale and a constant α."""
    early = kind(sublayer("attention", "post", alpha=Scale("constant", 2.5)), sublayer("ffn", "post", at=20), count=2)
    scale = Scale("learned", None, ("blocks.2.gamma",), 1e-6)
    late = kind(sublayer("ssm", "pre", branch=scale), sublayer("moe", "pre", at=20), count=6, first=2, id_="k1", module="blocks.2")
    return facts(stream(early, late, identity=IdentityPath(False, None, 4), final_norm=True))


@dataclass(frozen=True)
class TargetInfo:
    """What the build side would say."""

    kind: str = "file"
    model_class: str = "Model"
    parameters: int | None = 124_439_808
    dtype: str | None = "float32"
    block: bool = False
    weights: Literal["meta", "real"] = "meta"
    changed: dict[str, tuple[object, object]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


ALL = {
    "pre": pre, "llama": llama, "post": post, "peri": peri, "parallel": parallel, "none": none, "unknown": unknown,
    "encoder_decoder": encoder_decoder, "hybrid": hybrid,
}  # fmt: skip
