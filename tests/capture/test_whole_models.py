"""A whole model is never taken for a block, and a block never for a whole model; what turned out to be whole is judged as it was traced alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.capture.build.block import looks
from screen.capture.build.build import build_object
from screen.capture.trace.loop import DEEPEST
from screen.capture.trace.loop import alone as apart
from screen.capture.trace.tracer import trace
from screen.errors import UsageError
from screen.facts import derive
from screen.graph import lint
from screen.graph.repetition import stacked
from tests.awkward.parts import FFN, TOKENS, Attention, D, Pre
from tests.days import nightly

pytestmark = pytest.mark.by_the_day

Make = Callable[[], nn.Module]


class Branch(nn.Module):
    """x + F(N(x))."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(D), inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


class Post(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x + self.ffn(x))
        return out


class InLists(nn.Module):
    """Branches in two lists, norms in a third."""

    def __init__(self, count: int = 6) -> None:
        super().__init__()
        self.mixers, self.ffns = nn.ModuleList(Attention() for _ in range(count)), nn.ModuleList(FFN() for _ in range(count))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2 * count))

    def forward(self, x: Tensor) -> Tensor:
        for number, (mix, ffn) in enumerate(zip(self.mixers, self.ffns, strict=True)):
            x = x + mix(self.norms[2 * number](x))
            x = x + ffn(self.norms[2 * number + 1](x))
        return x


class StackedWeights(nn.Module):
    """Parameters [layers, d, d], and a loop over them."""

    def __init__(self, count: int = 6) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(count, D, 2 * D) / 8), nn.Parameter(torch.randn(count, 2 * D, D) / 8)

    def forward(self, x: Tensor) -> Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            x = x + torch.relu(nn.functional.layer_norm(x, (D,)) @ up) @ down
        return x


class ResiDual(nn.Module):
    """A post-norm stream, and the sum of all its branches beside it."""

    def __init__(self, count: int = 12) -> None:
        super().__init__()
        self.ffns, self.norms = nn.ModuleList(FFN() for _ in range(count)), nn.ModuleList(nn.LayerNorm(D) for _ in range(count))
        self.last = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        dual = x
        for ffn, norm in zip(self.ffns, self.norms, strict=True):
            y = ffn(x)
            x, dual = norm(x + y), dual + y
        return x + self.last(dual)


class Named(nn.Module):
    """Blocks b0 … b11."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(12):
            setattr(self, f"b{number}", Pre())

    def forward(self, x: Tensor) -> Tensor:
        for number in range(12):
            x = getattr(self, f"b{number}")(x)
        return x


class Recursive(nn.Module):
    """A block that holds the rest of the model."""

    def __init__(self, count: int = 7) -> None:
        super().__init__()
        self.norm, self.ffn, self.rest = nn.LayerNorm(D), FFN(), Recursive(count - 1) if count > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ffn(self.norm(x))
        return self.rest(x) if self.rest is not None else x


class InDict(nn.Module):
    """Parts of each layer in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({f"l{i}": nn.ModuleDict({"norm": nn.LayerNorm(D), "ffn": FFN()}) for i in range(5)})

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.values():
            x = x + layer["ffn"](layer["norm"](x))
        return x


class Shared(nn.Module):
    """One block, six times."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Pre()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(6):
            x = self.block(x)
        return x


class Beside(nn.Module):
    """Experts that read one state and are added one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.experts = nn.LayerNorm(D), nn.ModuleList(FFN() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        for expert in self.experts:
            x = x + expert(h)
        return x


class Helped(Pre):
    """Both adds are one line."""

    def forward(self, x: Tensor) -> Tensor:
        def add(x: Tensor, norm: nn.Module, inner: nn.Module) -> Tensor:
            return x + inner(norm(x))

        return add(add(x, self.n1, self.attn), self.n2, self.ffn)


def _row(*parts: nn.Module) -> nn.Module:
    return nn.Sequential(*parts)


class Dilated(nn.Module):
    """Layers whose padding goes with their dilation, each a skip connection to the end: no layer is all that the others are read through."""

    class Layer(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.dilation, self.conv, self.skip = dilation, nn.Conv1d(D, D, 2, dilation=dilation), nn.Conv1d(D, D, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.tanh(self.conv(nn.functional.pad(x, (self.dilation, 0))))
            return x + y, self.skip(y)

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.end = nn.ModuleList(self.Layer(2 ** (i % 4)) for i in range(8)), nn.Conv1d(2 * D, D, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, total = x.mT, torch.zeros(())
        for layer in self.layers:
            x, skipped = layer(x)
            total = total + skipped
        return self.end(torch.cat([x, total], 1)).mT  # type: ignore[no-any-return]


class UShaped(nn.Module):
    """A denoiser of few blocks between two maps, whose second half is joined to what the first half made."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = nn.ModuleList(Pre() for _ in range(2)), Pre(), nn.ModuleList(Pre() for _ in range(2))
        self.joins, self.first, self.last = nn.ModuleList(nn.Linear(2 * D, D) for _ in range(2)), nn.Linear(D, D), nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        x, kept = self.first(x), list[Tensor]()
        for block in self.down:
            x = block(x)
            kept.append(x)
        x = self.middle(x)
        for join, block in zip(self.joins, self.up, strict=True):
            x = block(join(torch.cat((x, kept.pop()), -1)))
        out: Tensor = self.last(self.norm(x))
        return out


WHOLE: dict[str, tuple[Make, int]] = {
    "U-shaped": (UShaped, 5),
    "Mix-LN": (lambda: _row(*(Post() for _ in range(3)), *(Pre() for _ in range(9))), 12),
    "ResiDual": (ResiDual, 12),
    "attributes": (Named, 12),
    "one list of two": (lambda: _row(*(Branch(Attention() if i % 2 == 0 else FFN()) for i in range(12))), 6),
    "two lists": (InLists, 6),
    "dictionary": (InDict, 5),
    "recursion": (Recursive, 7),
    "stacked parameters": (StackedWeights, 6),
    "one block, six times": (Shared, 6),
    "long list": (lambda: _row(*(Pre() for _ in range(40))), 40),
    "dilated": (Dilated, 8),
    "dense, then others": (lambda: _row(Branch(Attention()), *(Pre() for _ in range(3))), 4),
}
BLOCKS: dict[str, Make] = {
    "attention, FFN": lambda: _row(Branch(Attention()), Branch(FFN())),
    "macaron": lambda: _row(Branch(FFN()), Branch(Attention()), Branch(nn.Linear(D, D)), Branch(FFN())),
    "two feed-forwards": lambda: _row(Branch(Attention()), Branch(FFN()), Branch(FFN())),
    "experts": Beside,
    "one line": Helped,
    "post": Post,
}


def _inputs(device: str = "meta") -> Any:
    return (torch.zeros(2, TOKENS, D, device=device),)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_model(name: str) -> None:
    make, depth = WHOLE[name]
    report = screen.check(make(), example_inputs=_inputs("cpu"), spot_check=nightly())
    assert report.target.depth_from == "model" and not any(c.id == "depth-assumed" for c in report.conditions)
    assert max(s.depth for s in report.streams) == depth
    with pytest.raises(UsageError, match=f"a whole model of depth {depth}"):
        screen.check(make(), example_inputs=_inputs("cpu"), depth=24)


class Joined(nn.Module):
    """A core in a loop: every step reads what the first block made once more, beside a map of the state."""

    def __init__(self, steps: int, core: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.steps, self.first, self.core, self.map = steps, Branch(FFN()), core(), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        start = self.first(x)
        state = torch.zeros_like(start)
        for _ in range(self.steps):
            state = self.core(self.map(state) + start)
        return state


class Cell(nn.Module):
    """Run for one token after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(D), Branch(nn.Linear(D, D))

    def forward(self, x: Tensor) -> Tensor:
        state, found = torch.zeros_like(x[:, 0]), []
        for token in self.norm(x).unbind(1):
            state = self.map(state + token)
            found.append(state)
        return x + torch.stack(found, 1)


@pytest.mark.parametrize(("steps", "core"), [(4, Pre), (7, lambda: Branch(FFN()))])
def test_a_core_in_a_loop_is_no_block_to_be_stacked(steps: int, core: Callable[[], nn.Module]) -> None:
    report = screen.check(Joined(steps, core), example_inputs=_inputs("cpu"), spot_check=nightly())
    assert report.target.depth_from == "model" and not any(c.id == "depth-assumed" for c in report.conditions)
    assert not any("24 blocks" in f.message for f in report.findings)
    with pytest.raises(UsageError, match=f"a whole model of depth {steps}"):
        screen.check(Joined(steps, core), example_inputs=_inputs("cpu"), depth=24)


def test_a_recurrence_over_tokens_is_part_of_a_block() -> None:
    assert looks(Cell(), _inputs(), {}).block


@pytest.mark.parametrize("name", BLOCKS)
def test_one_block(name: str) -> None:
    report = screen.check(BLOCKS[name](), example_inputs=_inputs("cpu"), depth=7, spot_check=nightly())
    assert (report.target.depth, report.target.depth_from) == (7, "option")
    assert [s.depth for s in report.streams] == [7] and len(report.streams[0].kinds) == 1


class OnImages(nn.Module):
    """Two convolutions beside the image, or alone. x: [2, D, 4, 4]."""

    def __init__(self, skip: bool = True) -> None:
        super().__init__()
        self.skip, self.up, self.down = skip, nn.Conv2d(D, D, 3, padding=1), nn.Conv2d(D, D, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(torch.relu(self.up(x)))
        return x + y if self.skip else y


class OnRows(OnImages):
    """Two maps of a row of a table. x: [4, D]."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(D, D), nn.Linear(D, D)  # type: ignore[assignment]


@pytest.mark.parametrize(("make", "shape"), [(OnImages, (2, D, 4, 4)), (OnRows, (4, D))])
def test_a_block_of_images_or_rows_where_depth_is_said(make: Make, shape: tuple[int, ...]) -> None:
    report = screen.check(make(), example_inputs=torch.zeros(shape), depth=7, spot_check=False)
    assert [s.depth for s in report.streams] == [7]
    alone = screen.check(make(), example_inputs=torch.zeros(shape), spot_check=False)
    assert alone.target.depth_from == "model", "a network on images may return one"


class Gates(nn.Module):
    """What attention and a feed-forward give goes into the stream by a gate each, with weights and a sum of its own."""

    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.share, self.new = nn.Linear(2 * D, D), nn.Linear(2 * D, D)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            share, new = (m(torch.cat([x, y], -1)) for m in (self.share, self.new))
            return torch.lerp(x, torch.tanh(new), torch.sigmoid(share))

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.gates = (nn.ModuleList(make() for _ in range(2)) for make in (lambda: nn.LayerNorm(D), self.Gate))
        self.branches = nn.ModuleList([Attention(), FFN()])

    def forward(self, x: Tensor) -> Tensor:
        for norm, branch, gate in zip(self.norms, self.branches, self.gates, strict=True):
            x = gate(x, branch(norm(x)))
        return x


def test_two_gates_that_join_what_others_make_are_parts_of_a_block() -> None:
    report = screen.check(Gates(), example_inputs=_inputs("cpu"), depth=7, spot_check=False)
    assert [s.depth for s in report.streams if s.role != "inner"] == [7]


class Neighbours(nn.Conv1d):
    """x and a few tokens before, a channel at a time."""

    def __init__(self) -> None:
        super().__init__(D, D, 4, groups=D, bias=False, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x.mT)[..., : x.shape[1]].mT


class Between(nn.Module):
    """Bare parameters in products between two of them: attention, and a net."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norms = Neighbours(), Neighbours(), nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.qkv, self.up, self.down = (nn.Parameter(torch.randn(*s) * D**-0.5) for s in ((D, 3 * D), (D, 2 * D), (2 * D, D)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        q, k, v = torch.einsum("btd,de->bte", self.norms[0](x), self.qkv).chunk(3, -1)
        x = self.second(x + nn.functional.scaled_dot_product_attention(q, k, v))
        return x + torch.relu(self.norms[1](x) @ self.up) @ self.down


def test_what_stands_between_two_equal_parts_of_a_block_by_bare_parameters() -> None:
    report = screen.check(Between(), example_inputs=_inputs("cpu"), depth=7, spot_check=False)
    (stream,) = (s for s in report.streams if s.role != "inner")
    assert stream.depth == 7 and [b.role for b in stream.kinds[0].sublayers].count("attention") == 1


def test_a_block_of_images_that_adds_nothing_has_lost_its_skip() -> None:
    report = screen.check(OnImages(skip=False), example_inputs=torch.zeros(2, D, 4, 4), depth=7)
    assert {f.code: f.outcome for f in report.findings}["G102"] == "violated"


@pytest.mark.parametrize("name", ["stacked parameters", "dictionary"])
def test_the_first_copy_alone_is_the_graph_of_the_model(name: str) -> None:
    with torch.device("meta"):
        model = WHOLE[name][0]().eval()
    [built] = build_object(model, example_inputs=_inputs())
    looped = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    alone, truth = derive(looped).graph, trace(model, _inputs(), {}, initialisers=tuple(i for i in built.initialisers if "(copies)" not in i[0]))
    assert looped.loop is not None and lint(alone) == [] and alone == truth
    assert [n.name for n in trace(apart(built).model, built.args, built.kwargs).nodes] == [n.name for n in truth.nodes]


@pytest.mark.parametrize(
    ("members", "expected"),
    [("AFAF", 2), ("AF", 0), ("FACF", 0), ("PPPQQQQQ", 8), ("DMMM", 4), ("AFF", 0), ("FF", 2), ("A", 0), ("", 0), ("ABABA", 0)],
)
def test_what_repeats(members: str, expected: int) -> None:
    assert stacked(members, [False] * len(members)) == expected


def test_members_of_several_branches_are_blocks() -> None:
    assert stacked("DMM", [True] * 3) == 3 and stacked("DMM", [False] * 3) == 0


def test_the_deepest_loop(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most 100,000"):
        screen.check(Pre(), example_inputs=_inputs("cpu"), depth=DEEPEST + 1)


def test_a_deep_loop_is_no_larger_than_a_shallow_one() -> None:
    sizes = set()
    for depth in (3, DEEPEST):
        [built] = build_object(Pre(), example_inputs=_inputs("cpu"), depth=depth)
        sizes.add(len(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers).nodes))
    assert len(sizes) == 1


class Fused(nn.Module):
    """The sum is handed on beside what is to be added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()

    def forward(self, x: Tensor, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
        residual = x if residual is None else x + residual
        return self.ffn(self.norm(residual)), residual


class Reversible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = nn.Sequential(nn.LayerNorm(D), Attention()), nn.Sequential(nn.LayerNorm(D), FFN())

    def forward(self, a: Tensor, b: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        a = a + self.f(b) * scale
        return a, b + self.g(a) * scale


@pytest.mark.parametrize(("make", "count", "streams"), [(Fused, 1, 1), (Reversible, 2, 2)])
def test_all_that_a_block_hands_on_is_wired(make: Make, count: int, streams: int) -> None:
    report = screen.check(make(), example_inputs=_inputs("cpu") * count, depth=9, spot_check=nightly())
    assert [(s.depth, s.identity_path.exists) for s in report.streams] == [(9, True)] * streams


class Cut(nn.Module):
    """Its second skip is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.attn, self.ffn = nn.LayerNorm(D), nn.LayerNorm(D), Attention(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        out: Tensor = self.ffn(self.n2(x))
        return out


def _cut_loop() -> screen.Report:
    return screen.check(Cut(), example_inputs=_inputs("cpu"), depth=6)


def test_a_lost_skip_is_found_in_a_block_and_in_a_list() -> None:
    for report in (_cut_loop(), screen.check(_row(*(Cut() for _ in range(6))), example_inputs=_inputs("cpu"))):
        assert [(s.depth, s.identity_path.exists) for s in report.streams] == [(6, False)]
        assert [f.outcome for f in report.findings if f.code == "G110"] == ["violated"] and report.verdict != "stable"


def test_stages_are_not_cut() -> None:
    stages = [_row(*(Branch(FFN()) for _ in range(3)), nn.Linear(D, D)) for _ in range(3)]
    report = screen.check(_row(*stages), example_inputs=_inputs("cpu"))
    assert [f.outcome for f in report.findings if f.code == "G110"] == ["holds"] * 3 and len(report.streams) == 3


class Weighed(nn.Module):
    """A block that multiplies what it adds by a table that it makes itself."""

    def __init__(self, last: float) -> None:
        super().__init__()
        self.norm, self.map, self.last = nn.LayerNorm(16), nn.Linear(16, 16), last

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.map(self.norm(x))) * torch.linspace(0.5, self.last, 16)


def test_blocks_that_differ_in_a_table_of_the_program_share_no_derivation() -> None:
    layers = [nn.Sequential(*(Weighed(100.0 if late and i > 3 else 1.0) for i in range(8))) for late in (False, True)]
    found = [screen.check(m, example_inputs=torch.zeros(2, 8, 16)).streams[0].kinds for m in layers]
    assert [[k.layers for k in kinds] for kinds in found] == [[[(0, 7)]], [[(0, 3)], [(4, 7)]]]


class Unlike(nn.Module):
    """Layers of three kinds in no order, each with two residual branches; some of them give the logits of a router as well."""

    def __init__(self, kinds: str) -> None:
        super().__init__()
        self.kinds = kinds
        self.mixers = nn.ModuleList(Branch(Attention() if kind == "a" else FFN()) for kind in kinds)
        self.ffns = nn.ModuleList(Branch(FFN()) for _ in kinds)
        self.routers = nn.ModuleList(nn.Linear(D, 4) for _ in kinds)
        parts = zip(kinds, self.mixers, self.ffns, self.routers, strict=True)
        self.layers = nn.ModuleList(_Layer(kind, mixer, ffn, router) for kind, mixer, ffn, router in parts)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        logits = []
        for layer in self.layers:
            x, routed = layer(x)
            logits.append(routed)
        return x, logits


class _Layer(nn.Module):
    def __init__(self, kind: str, mixer: nn.Module, ffn: nn.Module, router: nn.Module) -> None:
        super().__init__()
        self.kind, self.mixer, self.ffn, self.router = kind, mixer, ffn, router

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.mixer(x)
        if self.kind == "r":
            logits = self.router(x)
            return x + self.ffn(x) * logits.softmax(-1)[..., :1], logits
        return self.ffn(x), torch.ones(1)


@pytest.mark.parametrize(("kinds", "depth"), [("arfara", 6), ("ar", 0)])
def test_layers_of_several_kinds_in_no_order_are_a_stack(kinds: str, depth: int) -> None:
    """Six layers with several branches each are no parts of one block, whatever each of them is; two may be."""
    assert looks(Unlike(kinds), (torch.zeros(2, TOKENS, D, device="meta"),), {}).depth == depth


def test_a_member_of_several_branches_that_comes_back_is_a_block_whatever_stands_between() -> None:
    assert stacked("ABABA", [True] * 5) == 5 and stacked("ABA", [True, False, True]) == 3 and stacked("ABA", [False, True, False]) == 0


class Reads(nn.Module):
    """Looks at a memory, in some blocks, and thinks."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(D, 4, batch_first=True) if reads else None
        self.mix, self.ffn, self.norms = Attention(), FFN(), nn.ModuleList(nn.LayerNorm(D) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = self.norms[0](x + self.mix(x))
        if self.look is not None:
            x = self.norms[1](x + self.look(x, memory, memory)[0])
        out: Tensor = self.norms[2](x + self.ffn(x))
        return out


class Queries(nn.Module):
    """Every second of five blocks reads the memory; the queries come from outside, as wide as the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layers = nn.LayerNorm(D), nn.ModuleList(Reads(n % 2 == 0) for n in range(5))

    def forward(self, queries: Tensor, memory: Tensor) -> Tensor:
        x = self.norm(queries)
        for layer in self.layers:
            x = layer(x, memory)
        return x


def test_blocks_that_read_a_memory_in_turns_are_a_model_and_no_block() -> None:
    report = screen.check(Queries(), example_inputs=(torch.zeros(2, 5, D), torch.zeros(2, 7, D)), spot_check=False)
    (stream,) = (s for s in report.streams if s.role != "inner")
    assert (stream.depth, [k.count for k in stream.kinds], stream.embed_norm) == (5, [3, 2], True)
