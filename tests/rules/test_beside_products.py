"""What is added to products of queries and keys, told apart from these: advice follows what grows, and what it brings is what a report on the changed
model says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.answer import answer
from screen.report.schema import FindingPart, Report

WIDTH, HEADS, TOKENS = 16, 2, 6


class Biased(nn.Module):
    """x + attention, its logits q·k plus a bias, `bias` says of what; in one call (`fused`) or written out; `qk`: queries and keys are normed."""

    def __init__(self, bias: str, fused: bool = False, qk: bool = False, reads: str = "normed") -> None:
        super().__init__()
        self.kind, self.fused, self.reads = bias, fused, reads
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.qn, self.kn = (nn.RMSNorm(WIDTH // HEADS), nn.RMSNorm(WIDTH // HEADS)) if qk else (nn.Identity(), nn.Identity())
        self.by_key, self.table = nn.Linear(WIDTH, HEADS, bias=False), nn.Parameter(torch.randn(HEADS, TOKENS, TOKENS))
        self.register_buffer("slopes", -torch.arange(TOKENS).repeat(HEADS, TOKENS, 1).float())

    def bias(self, x: Tensor, h: Tensor) -> Tensor | None:
        match self.kind:
            case "stream":
                return self.by_key(x).transpose(1, 2).unsqueeze(2)
            case "norm":
                return self.by_key(h).transpose(1, 2).unsqueeze(2)
            case "capped":
                return torch.tanh(self.by_key(x)).transpose(1, 2).unsqueeze(2)
            case "table":
                return self.table
            case "slopes":
                return self.slopes
        return None

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(h if self.reads == "normed" else x).chunk(3, -1))
        q, k, bias = self.qn(q), self.kn(k), self.bias(x, h)
        if self.fused:
            mask = None if bias is None else bias.expand(x.shape[0], HEADS, TOKENS, TOKENS)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            logits = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
            y = (logits if bias is None else logits + bias).softmax(-1) @ v
        return x + self.norm(self.out(y.transpose(1, 2).flatten(2)))


def report_on(bias: str, **kwargs: object) -> Report:
    torch.manual_seed(0)
    model = nn.Sequential(*(Biased(bias, **kwargs) for _ in range(8)))  # type: ignore[arg-type]
    return screen.check(model, example_inputs=torch.randn(2, TOKENS, WIDTH), spot_check=False)


def of(report: Report, code: str) -> FindingPart:
    return next(f for f in report.findings if f.code == code)


@pytest.mark.parametrize("fused", [False, True])
def test_where_the_bias_alone_grows_with_the_stream_norms_on_queries_and_keys_are_not_advised(fused: bool) -> None:
    found = of(report_on("stream", fused=fused), "L201")
    assert found.outcome == "violated" and "`0.by_key.weight`" in found.said and "W_Q" not in found.said
    assert "queries" not in found.remedy and "made of" in found.remedy


@pytest.mark.by_the_day
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("bias", ["norm", "table"])
def test_what_else_lifts_the_logits_is_named_beside_queries_and_keys(bias: str, fused: bool) -> None:
    found = of(report_on(bias, fused=fused), "L201")
    name = "by_key.weight" if bias == "norm" else "table"
    assert found.outcome == "conditional" and f"with W_Q and W_K, and with `0.{name}`" in found.said
    assert "norm_q(q)" in found.remedy and "a bound on what is added to the logits" in found.remedy


@pytest.mark.parametrize("bias", ["slopes", "capped", ""])
def test_what_is_bounded_beside_them_is_not(bias: str) -> None:
    found = of(report_on(bias), "L201")
    assert found.outcome == "conditional" and ("with W_Q and W_K," in found.said or "with `0.qkv.weight`," in found.said)
    assert "norm_q(q)" in found.remedy and "added to the logits" not in found.remedy


def test_both_are_told_where_both_grow() -> None:
    found = of(report_on("stream", reads="stream"), "L201")
    assert found.outcome == "violated" and "W_Q and W_K" in found.said
    assert "norm_q(q)" in found.remedy and "a bound on what is added to the logits" in found.remedy


@pytest.mark.by_the_day
@pytest.mark.parametrize("bias", ["", "slopes", "norm", "table"])
def test_a_finding_goes_where_the_changed_model_has_it_not(bias: str) -> None:
    [change] = [c for c in report_on(bias).changes if c.id == "qk-norm"]
    left = {f.outcome for f in report_on(bias, qk=True).findings if f.code == "L201"} & {"conditional", "violated"}
    assert ("L201" in change.clears) is not bool(left)
    said = " ".join(g for c in answer(report_on(bias)).changes if c.tried == (change,) for g in c.gains)
    assert ("the finding stays" in said) is bool(left) and ("the finding goes" not in said if left else True)


def test_logits_that_grow_with_the_stream_are_not_safe_where_they_stay_bounded() -> None:
    """As they do not: it is the stream that has to stay small."""
    for report in (report_on("stream"), report_on("", reads="stream")):
        assert (of(report, "L201").outcome, of(report, "L201").condition) == ("violated", "small-stream")
        assert of(report, "L202").outcome != "conditional" or of(report, "L202").condition == "small-stream"
        [channel] = [r.said for r in answer(report).risks if "L" in r.ids]
        assert "logits stay bounded" not in channel and ("stays small" in channel or channel.startswith("could not be told"))
    assert of(report_on("norm"), "L201").condition == "bounded-logits"
