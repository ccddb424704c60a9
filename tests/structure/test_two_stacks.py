"""Streams that pass two stacks of blocks, look at what they were chosen from, or whose states of all blocks are given back. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema_streams import StreamPart

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS, HEADS = 32, 9, 4


class Feed(nn.Module):
    """x + W₂ a(W₁ N(x)), its two maps linear or dense filters over the sequence, to `hidden` and back."""

    def __init__(self, kernel: int = 1, hidden: int = 4 * WIDTH, groups: int = 1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Conv1d(WIDTH, hidden, kernel, padding=kernel // 2, groups=groups)
        self.down = nn.Conv1d(hidden, WIDTH, kernel, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x).mT))).mT


class Attend(nn.Module):
    """x + attention of N(x) to itself, or to `memory`; with `bare`, keys have no map of their own."""

    def __init__(self, bare: bool = False) -> None:
        super().__init__()
        self.norm, self.bare = nn.LayerNorm(WIDTH), bare
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.norm(x)
        read = y if memory is None else memory
        q, k, v = self.q(y), read if self.bare else self.k(read), self.v(read)
        return x + self.o(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)


class Layer(nn.Module):
    def __init__(self, bare: bool = False) -> None:
        super().__init__()
        self.attend, self.feed = Attend(bare), Feed()

    def forward(self, x: Tensor) -> Tensor:
        return self.feed(self.attend(x))


class Stack(nn.Module):
    """Blocks, the first of which differs from the others."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(bare=n == 0) for n in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Between(nn.Module):
    """Two stacks of equal blocks, and what two filters make of the state added between them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Stack(3), Stack(4)
        for stack in (self.one, self.two):
            stack.layers[0] = Layer()
        self.pitch, self.energy = (nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x)
        x = x + self.energy(x.mT).mT + self.pitch(x.mT).mT
        return self.two(x)


class Behind(nn.Module):
    """Blocks of one list, then one and the same filter in front of each block of another."""

    def __init__(self, before: int, depth: int) -> None:
        super().__init__()
        self.first, self.layers = nn.ModuleList([Layer() for _ in range(before)]), nn.ModuleList([Layer() for _ in range(depth)])
        self.place = Feed(3, WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.first:
            x = layer(x)
        for layer in self.layers:
            x = layer(self.place(x))
        return x


class Turns(nn.Module):
    """Two lists of modules whose members take turns: cross-attention to a memory, then a block."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.cross, self.layers = nn.ModuleList([Attend() for _ in range(depth)]), nn.ModuleList([Layer() for _ in range(depth)])

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        for cross, layer in zip(self.cross, self.layers, strict=True):
            x = layer(cross(x, memory))
        return x


class TwoStacks(nn.Module):
    """One stream through two stacks, with a shift between them; with `turns` the second one looks at patches that were made of the first."""

    def __init__(self, turns: bool) -> None:
        super().__init__()
        self.embed, self.one = nn.Embedding(50, WIDTH), Stack(2)
        self.shift = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.patch, self.middle = nn.Linear(2 * WIDTH, WIDTH), Stack(9)
        self.two: nn.Module = Turns(4) if turns else Stack(3)
        self.norm, self.turns = nn.LayerNorm(WIDTH), turns

    def forward(self, ids: Tensor) -> Tensor:
        x = self.one(self.embed(ids))
        if self.turns:
            patches = self.middle(self.patch(x.unflatten(1, (-1, 2)).flatten(2)))
            return self.norm(self.two(x, patches))
        return self.norm(self.two(x + self.shift(x)))


def outer(model: nn.Module, *inputs: Tensor) -> list[StreamPart]:
    return [s for s in screen.check(model.eval(), example_inputs=inputs).streams if s.role != "inner"]


def roles(stream: StreamPart) -> list[tuple[int, str]]:
    return [(k.count, " ".join(s.role for s in k.sublayers)) for k in stream.kinds]


def test_two_stacks_of_unlike_blocks_are_blocks_each() -> None:
    [stream] = outer(TwoStacks(turns=False), torch.zeros(2, TOKENS, dtype=torch.long))
    assert roles(stream) == [(2, "attention ffn"), (3, "attention ffn"), (1, "ffn")]
    assert (stream.depth, stream.final_norm) == (2 + 1 + 3, True)


def test_members_of_two_lists_that_take_turns_are_one_block_and_read_a_memory_made_of_the_streams_beginning() -> None:
    [stream] = [s for s in outer(TwoStacks(turns=True), torch.zeros(2, 8, dtype=torch.long)) if s.role == "decoder"]
    assert (stream.depth, roles(stream)[-1]) == (2 + 4, (4, "cross_attention attention ffn"))


@pytest.mark.parametrize(
    ("kernel", "hidden", "groups", "role"), [(3, 4 * WIDTH, 1, "ffn"), (3, WIDTH // 2, 1, "conv"), (3, 4 * WIDTH, WIDTH, "conv")]
)
def test_dense_filters_to_a_wider_layer_and_back_are_a_feed_forward(kernel: int, hidden: int, groups: int, role: str) -> None:
    """A bottleneck and filters of one channel each are none."""
    [stream] = outer(nn.Sequential(*(nn.Sequential(Attend(), Feed(kernel, hidden, groups)) for _ in range(3))), torch.zeros(2, TOKENS, WIDTH))
    assert roles(stream) == [(3, f"attention {role}")]


class Samples(nn.Module):
    """x + deformable attention: samples of maps of `memory`, where and how much is read off N(x); two levels, and each its own slice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.where, self.how_much = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * 2 * 4), nn.Linear(WIDTH, 2 * 4)
        self.v, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        y = self.norm(x)
        where, weights = torch.tanh(self.where(y)).unflatten(-1, (2, 4, 2)), torch.softmax(self.how_much(y), -1)
        taken = []
        for level, value in enumerate(self.v(memory).split([16, 4], 1)):
            side = int(value.shape[1] ** 0.5)
            taken.append(F.grid_sample(value.mT.unflatten(2, (side, side)), where[:, :, level], align_corners=False))
        found = (torch.cat(taken, -1) * weights[:, None]).sum(-1).mT
        return x + self.o(found)


class Detector(nn.Module):
    """Queries are the best places of an image, or learned beside its mean, and look at it again; all states are given back, normed and stacked."""

    def __init__(self, chosen: bool) -> None:
        super().__init__()
        self.patch, self.norm, self.chosen = nn.Linear(12, WIDTH), nn.LayerNorm(WIDTH), chosen
        self.encoder = nn.ModuleList([Layer() for _ in range(6)])
        self.score, self.start, self.queries = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH), nn.Embedding(5, WIDTH)
        self.attend, self.samples = nn.ModuleList([Attend() for _ in range(3)]), nn.ModuleList([Samples() for _ in range(3)])
        self.feed = nn.ModuleList([Feed() for _ in range(3)])

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.patch(image)
        for layer in self.encoder:
            memory = layer(memory)
        best = self.score(memory).squeeze(-1).topk(5, 1).indices
        found = self.start(memory).gather(1, best[..., None].expand(-1, -1, WIDTH))
        x = found if self.chosen else self.queries.weight + self.start(memory.mean(1, keepdim=True))
        states = []
        for attend, samples, feed in zip(self.attend, self.samples, self.feed, strict=True):
            x = feed(samples(attend(x), memory))
            states.append(self.norm(x))
        stacked = torch.stack(states)
        return stacked[-1], stacked + found


@pytest.mark.parametrize("chosen", [True, False])
def test_queries_of_a_detector_look_at_the_image_that_they_were_chosen_from(chosen: bool) -> None:
    """It is no inner stream, though states of all its blocks are stacked; levels of one map are one map."""
    streams = outer(Detector(chosen), torch.zeros(2, 20, 12))
    [decoder] = [s for s in streams if s.role == "decoder"]
    assert roles(decoder) == [(3, "attention cross_attention ffn")]
    assert decoder.kinds[0].sublayers[1].m.maps == 4


class Additive(nn.Module):
    """x + W (Σ over `axis` of softmax(k) ⊙ v, of all tokens, times another map of each): additive attention where `axis` holds tokens."""

    def __init__(self, images: bool, axis: int) -> None:
        super().__init__()
        self.norm, self.images, self.axis = (nn.GroupNorm(1, WIDTH) if images else nn.LayerNorm(WIDTH)), images, axis
        self.maps, self.out = (nn.Conv1d(WIDTH, n, 1) if images else nn.Linear(WIDTH, n) for n in (2 * WIDTH + 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        score, key, value = self.maps(self.norm(x)).split([1, WIDTH, WIDTH], 1 if self.images else -1)
        weights = torch.softmax(key if self.axis == -1 and not self.images else score, self.axis)
        return x + self.out((weights * key).sum(self.axis, keepdim=True) * torch.relu(value))


@pytest.mark.parametrize(("images", "axis", "role"), [(True, -1, "linear_attention"), (False, -2, "linear_attention"), (False, -1, "ffn")])
def test_tokens_that_are_weighed_and_summed_for_all_are_mixed(images: bool, axis: int, role: str) -> None:
    """Over features it is no mixing."""
    model = nn.Sequential(*(nn.Sequential(Additive(images, axis), *([] if images else [Feed()])) for _ in range(3)))
    [stream] = outer(model, torch.zeros(2, WIDTH, TOKENS) if images else torch.zeros(2, TOKENS, WIDTH))
    assert [k.sublayers[0].role for k in stream.kinds] == [role]


class Padded(nn.Module):
    """x + mask ⊙ F(N(x)), the mask given as booleans or made of ones where nobody gives one; perhaps with tokens last."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.turned = turned
        self.blocks = nn.ModuleList([Feed() for _ in range(3)])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = torch.ones(x.shape[:2], device=x.device) if mask is None else mask
        keep = mask.unsqueeze(-1).to(x.dtype)
        for block in self.blocks:
            y = block.down(torch.relu(block.up(block.norm(x).mT)))
            x = x + ((y * keep.mT).mT if self.turned else y.mT * keep)
        return x


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_a_mask_of_tokens_is_no_scale(given: bool, turned: bool) -> None:
    [stream] = outer(Padded(turned), torch.zeros(2, TOKENS, WIDTH), *([torch.ones(2, TOKENS, dtype=torch.bool)] if given else []))
    assert {s.residual.branch_kind for k in stream.kinds for s in k.sublayers} == {"none"}


class Groups(nn.Module):
    """x + attention whose groups of heads are attended by a call each; perhaps queries, keys and values are slices of one map."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(WIDTH), fused
        self.maps = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH)] if fused else [nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.o = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        parts = self.maps[0](y).chunk(3, -1) if self.fused else [m(y) for m in self.maps]
        q, k, v = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in parts)
        halves = zip(q.chunk(2, 1), k.chunk(2, 1), v.chunk(2, 1), strict=True)
        return x + self.o(torch.cat([F.scaled_dot_product_attention(*h) for h in halves], 1).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("fused", [True, False])
def test_groups_of_heads_with_a_call_each_are_parts_of_one_map(fused: bool) -> None:
    [stream] = outer(nn.Sequential(*(nn.Sequential(Groups(fused), Feed()) for _ in range(3))), torch.zeros(2, TOKENS, WIDTH))
    assert [k.sublayers[0].m.maps for k in stream.kinds] == [4]


def test_one_filter_in_front_of_each_block_behind_other_blocks_is_a_part_of_them() -> None:
    """A filter that is called before each member of a list, behind blocks of another list, was a block of its own (CoaT)."""
    (stream,) = screen.check(Behind(2, 4), example_inputs=torch.zeros(2, TOKENS, WIDTH)).streams
    assert [(k.count, [s.role for s in k.sublayers]) for k in stream.kinds] == [(2, ["attention", "ffn"]), (4, ["conv", "attention", "ffn"])]


def test_what_is_added_between_two_stacks_is_a_block_of_its_own() -> None:
    (stream,) = screen.check(Between(), example_inputs=torch.zeros(2, TOKENS, WIDTH)).streams
    assert stream.depth == 8 and [(k.count, len(k.sublayers)) for k in stream.kinds] == [(7, 2), (1, 2)]


class Mixing(nn.Module):
    """attention(N(x)); with `bare`, keys have no map of their own."""

    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.norm, self.bare = nn.LayerNorm(WIDTH), bare
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = self.q(y), y if self.bare else self.k(y), self.v(y)
        out: Tensor = self.o(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)
        return out


class Flat(nn.Module):
    """One flat list of branches, all added in one place (x-transformers); with `bare`, the first attention has another form."""

    def __init__(self, depth: int, bare: bool = False) -> None:
        super().__init__()
        feeds = [nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(depth)]
        self.branches = nn.ModuleList(b for n, feed in enumerate(feeds) for b in (Mixing(bare and n == 0), feed))

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = x + branch(x)
        return x


class FlatLists(nn.Module):
    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.embed, self.head, self.tail, self.norm = nn.Embedding(50, WIDTH), Flat(2), Flat(3, bare), nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        return self.norm(self.tail(self.head(self.embed(ids))))  # type: ignore[no-any-return]


@pytest.mark.parametrize("bare", [False, True])
def test_flat_lists_one_after_the_other(bare: bool) -> None:
    """The second list was one block of six branches where its first attention differs."""
    (stream,) = outer(FlatLists(bare), torch.zeros(2, TOKENS, dtype=torch.long))
    assert (stream.depth, {r for _, r in roles(stream)}) == (5, {"attention ffn"})
