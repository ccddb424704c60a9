"""Mixtures of experts as a published library writes them, with one weight for all experts, against the models with real random weights."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
import torch

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph.target import parse
from tests.calculi.meanfield.covariance_models import _note, norm_of_all
from tests.calculi.meanfield.covariance_stacks import geometric, number
from tests.calculi.meanfield.simulation import Sample
from tests.calculi.meanfield.test_covariance_blocks import recursion_with

D = 128
SMALL: dict[str, Any] = {
    "hidden_size": D, "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512, "initializer_range": D**-0.5,
}  # fmt: skip
GLM: dict[str, Any] = {
    "intermediate_size": 256, "moe_intermediate_size": 128, "n_routed_experts": 16, "num_experts_per_tok": 4, "first_k_dense_replace": 0,
    "n_group": 4, "topk_group": 2,
}  # fmt: skip
LIBRARY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mixtral": ("mixtral", "MixtralForCausalLM", {"intermediate_size": 256, "num_local_experts": 8, "num_experts_per_tok": 2}),
    "granitemoe": (
        "granitemoe",
        "GraniteMoeForCausalLM",
        {"intermediate_size": 256, "num_local_experts": 8, "num_experts_per_tok": 2, "attention_multiplier": 32**-0.5},
    ),
    "glm4_moe": ("glm4_moe", "Glm4MoeForCausalLM", GLM),
    "glm4_moe behind two dense blocks": ("glm4_moe", "Glm4MoeForCausalLM", {**GLM, "first_k_dense_replace": 2}),
}  # fmt: skip


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", LIBRARY)
def test_experts_behind_one_weight_start_as_their_facts_say(name: str) -> None:
    """Published code with a weight for all experts, grouped choices and causal attention: the stream of two real networks each."""
    transformers = pytest.importorskip("transformers")
    kind, class_name, settings = LIBRARY[name]
    [built] = build(parse(f"hf:{kind}:{class_name}"), set={**SMALL, **settings}, inputs=(), depth=None)
    said = recursion_with(derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)))
    seen = [_sample(transformers, kind, class_name, settings, seed) for seed in range(2)]
    for layer in (0, said.depth // 2, said.depth - 1):
        assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[layer] for s in seen), rel=0.1)
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=0.08)
    assert 1 / 1.4 < number(said.gradient_ratio) / geometric([s.ratio for s in seen]) < 1.4


def _sample(transformers: Any, kind: str, class_name: str, settings: dict[str, Any], seed: int, tokens: int = 32) -> Sample:
    """The model itself with real weights under a random linear loss."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(kind, **SMALL, **settings)
    model, sample = getattr(transformers, class_name)(config).float().eval().model, Sample()
    for layer in model.layers:
        layer.register_forward_hook(lambda m, i, out: _note(sample, (out[0] if isinstance(out, tuple) else out).reshape(1, tokens, D)))
    out = model(input_ids=torch.randperm(512)[:tokens][None]).last_hidden_state
    (out * torch.randn_like(out)).sum().backward()
    sample.gradients = [norm_of_all(layer) for layer in model.layers]
    return sample
