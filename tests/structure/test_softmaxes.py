"""Every softmax is accounted for: what it is for, whether its logits are bounded, and what may hide one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.calculi.bounds import BranchBounds, bounds_of
from screen.capture.trace.tracer import trace
from screen.facts.beyond import softmax_anywhere
from screen.structure.branches.attention import Attention
from screen.structure.branches.branch import Branch
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader
from screen.structure.types import Unknown
from tests.calculi.bounds.near_bounds import BOUNDED_LOGITS, FREE_LOGITS, TOKENS, WIDTH, Parts

Rule = Callable[[Parts, Tensor], Tensor]


@torch.library.custom_op("screen_tests::attend", mutates_args=())
def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as flash-attention is written: an op of its own."""
    return torch.softmax(q @ k.mT, -1) @ v


@attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.empty_like(v)


class Net(nn.Module):
    """Two blocks, and what stands behind them."""

    def __init__(self, rule: Rule, last: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks, self.last = nn.ModuleList(Parts(rule) for _ in range(2)), last

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def read(rule: Rule, last: Callable[[Tensor], Tensor] = lambda x: x) -> tuple[Flow, list[Branch]]:
    flow = Flow(trace(Net(rule, last).to("meta").eval(), (torch.zeros(2, TOKENS, WIDTH, device="meta"),), {}))
    chains = Chains(flow, Edges(flow, Norms(flow)))
    return flow, [b for chain in chains.streams for _, b in Reader(chains, chain).branches]


def bounds(rule: Rule) -> BranchBounds:
    return bounds_of(read(rule)[1][0])


def _routed(p: Parts, x: Tensor) -> Tensor:
    share, chosen = torch.softmax(p.slots(p.n(x)), -1).topk(2, -1)
    experts = torch.stack([p.q(p.n(x)), p.k(p.n(x)), p.v(p.n(x))], -2)
    picked = torch.gather(experts, -2, chosen[..., None].expand(*chosen.shape, WIDTH))
    return (picked * share[..., None]).sum(-2)


ROLES: dict[str, tuple[Rule, str]] = {
    "attention": (lambda p, x: p.weigh(p.q(p.n(x)) @ p.k(p.n(x)).mT, x), "attention"),
    "fused": (lambda p, x: p.o(F.scaled_dot_product_attention(p.q(p.n(x)), p.k(p.n(x)), p.v(p.n(x)))), "attention"),
    "additive": (lambda p, x: p.weigh(p.one(torch.tanh(p.q(x)[:, :, None] + p.k(x)[:, None])).squeeze(-1), x), "attention"),
    "distances": (lambda p, x: p.weigh(-torch.cdist(p.q(p.n(x)), p.k(p.n(x))), x), "attention"),
    "pooling": (lambda p, x: (torch.softmax(p.one(p.n(x)), 1) * p.v(p.n(x))).sum(1, keepdim=True).expand_as(x), "pooling"),
    "router": (_routed, "router"),
    "gate": (lambda p, x: torch.softmax(p.q(p.n(x)), -1) * p.v(p.n(x)), "router"),
}


@pytest.mark.parametrize("name", ROLES)
def test_roles(name: str) -> None:
    rule, role = ROLES[name]
    found = bounds(rule)
    assert [s.role for s in found.softmaxes] == [role]
    assert found.logits_bounded is (None if role == "router" else False) and found.softmaxes[0].bounded is False


@pytest.mark.parametrize("name", ["talking heads", "convolved", "additive", "distances", "normed logits"])
def test_attention_by_whatever_compares(name: str) -> None:
    rule = (FREE_LOGITS | BOUNDED_LOGITS)[name]
    cores = Attention(read(rule)[1][0]).cores
    assert len(cores) == 1 and cores[0].softmax and cores[0].q != cores[0].k and cores[0].v is not None


def test_a_router_behind_attention_is_none() -> None:
    def rule(p: Parts, x: Tensor) -> Tensor:
        share = torch.softmax(p.slots(p.n(x) @ p.n(x).mT @ p.n(x)), -1)
        return (share[..., None] * torch.stack([p.q(x), p.k(x), p.v(x)], -2)).sum(-2)

    assert not Attention(read(rule)[1][0]).cores


def test_a_branch_without_a_softmax() -> None:
    found = bounds(lambda p, x: p.o(torch.sigmoid(p.q(p.n(x)) @ p.k(p.n(x)).mT) @ p.v(p.n(x))))
    assert found.softmaxes == () and found.logits_bounded is None


def test_an_op_without_a_row_may_hold_a_softmax() -> None:
    found = bounds(lambda p, x: p.n(p.o(attend(p.q(p.n(x)), p.k(p.n(x)), p.v(p.n(x))))))
    assert found.softmaxes == () and isinstance(found.logits_bounded, Unknown) and len(found.opaque) == 1
    assert found.bounded is True


def test_large_streams() -> None:
    """Weights fixed, the stream without limit: bounded by a bound, not bounded by a witness."""
    assert bounds(lambda p, x: p.ffn(x)).bounded_in_stream is True
    assert bounds(lambda p, x: p.down(F.gelu(p.up(x)))).bounded_in_stream is False
    assert bounds(lambda p, x: p.down(F.gelu(p.up(x / (1 + x.norm(dim=-1, keepdim=True)))))).bounded_in_stream is True
    assert bounds(lambda p, x: x.norm(dim=-1, keepdim=True) * p.n(p.ffn(x))).bounded_in_stream is False


def _by_groups(p: Parts, x: Tensor, *, own: bool = True, shifted: bool = True) -> Tensor:
    """Places of one group share weights: exponentials over their sum in the group. `own`: the sum of the group that a place is in, and no other's."""
    group = torch.arange(TOKENS) // 2
    at = group[None, :, None].expand(x.shape[0], TOKENS, 1)
    logits = p.one(p.n(x))
    top = torch.full_like(logits, float("-inf")).scatter_reduce(1, at, logits, reduce="amax").gather(1, at) if shifted else 0.0
    e = (logits - top).exp()
    total = torch.zeros_like(e).scatter_add(1, at, e)
    share = e / (total.gather(1, at if own else at.flip(1)) + 1e-12)
    return torch.zeros_like(x).scatter_add(1, at.expand_as(x), share * p.v(p.n(x)))


def test_shares_of_groups() -> None:
    """Their logits are what the exponential is of, less the largest of the group; past another group's sum nothing is known."""
    found = bounds(_by_groups).softmaxes
    assert [(s.role in ("pooling", "attention"), s.bounded) for s in found] == [(True, False)]
    assert softmax_anywhere(read(_by_groups)[0]) is True
    assert isinstance(softmax_anywhere(read(lambda p, x: _by_groups(p, x, own=False))[0]), Unknown)


def test_a_factor_is_no_sum_of_exponentials() -> None:
    """x·exp(−w) over weights or a value normalises nothing; over a sum of exponentials it may."""
    assert softmax_anywhere(read(lambda p, x: p.v(p.n(x)) / (2 * p.one(p.n(x)).exp()))[0]) is False
    assert isinstance(softmax_anywhere(read(lambda p, x: p.v(p.n(x)) / (p.one(p.n(x)).exp() + p.one(x).exp()))[0]), Unknown)
    lse = read(lambda p, x: p.q(p.n(x)).exp().mul(p.v(x)) / p.q(p.n(x)).logsumexp(-1, keepdim=True).exp())[0]
    assert isinstance(softmax_anywhere(lse), Unknown)
