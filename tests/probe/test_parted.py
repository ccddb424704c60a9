"""An output map that two branches share is a sum of two in the graph and in the program that is run again: both give what the model gives."""

from __future__ import annotations

import torch
from torch import nn

from screen.capture.build.meta_copy import on_meta
from screen.capture.trace.tracer import trace
from screen.graph import ops_digest
from screen.graph.parted import parted
from screen.probe.measure.parted import traced
from screen.probe.measure.replay import Tape
from screen.structure.dataflow import Flow
from screen.structure.shared_output import shared_outputs
from tests.structure.test_written_stacks import TOKENS, WIDTH, OneOutput


def test_the_program_with_parts_is_the_model() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(OneOutput("gated"), OneOutput("one input"), OneOutput("own gate"), nn.LayerNorm(WIDTH)).double()
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    twin, inputs = on_meta(model), (x.to("meta"),)
    found, plain = traced(twin, inputs, {}), trace(twin, inputs, {})
    whole = shared_outputs(Flow(plain))
    assert len(whole) == 3 and ops_digest(found.graph) == ops_digest(parted(plain, whole)) != ops_digest(plain)
    tape, weights = Tape(found), dict(model.named_parameters())
    assert len(tape.nodes) == len(found.graph.nodes)
    calls, leaves, _ = tape.steps(found.graph.outputs, [])
    given = {i: x if found.graph.nodes[i].op == "input" else weights[found.graph.nodes[i].name].detach() for i in leaves}
    out = tape.run(calls, given)[found.graph.outputs[0]]
    torch.testing.assert_close(out, model(x), rtol=1e-12, atol=1e-12)
