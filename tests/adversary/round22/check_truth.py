"""Measures gains and growth of round 22 in float64: `python -m tests.adversary.round22.check_truth [file] [Class ...]`.

A model with a method `trunk` is measured there, on values of the shape that its own input brings there; any other one as it is.
What is bounded over all weights is by the inequality that each truth names.
"""

import importlib
import math
import sys

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure

FILES = ["openfiles", "recurrent", "areas", "whole"]
DEPTHS = (12, 24, 48, 96)
DRAWN = set()
"""Whose growth is asked of independent draws alone."""
BOUND = {"CellSwapped": 1.0, "ServingModelDropsResidual": 2.5}
"""What a stream is at most, where what is drawn hides that it is level."""
AT = {"AffineMlp": (192, 384, 768, 1536), "Activated": (48, 96, 192, 384), "ShrinksGradientSign": (48, 96, 192, 384), **dict.fromkeys(("LstmAdded", "LstmProjectedAdded", "RotatedShort", "DecayedStateSign", "PolicyConvOnSum"), (96, 192, 384, 768)),
      **dict.fromkeys(("CellSwapped", "ServingModelDropsResidual"), (48, 96, 192, 384)), "TranslationStack": (48, 96, 192, 384)}
"""Other depths, where a model can have no other ones or a law shows late."""
FAR = {"Bypass": 1e14}
"""Another size than 1e10 that shows the gain."""
MAPS = {"RealGated": "out", "DecayedState": "net", "DecayedStateSign": "net"}
"""Of which maps the weights are scaled, where others decay in the exponent."""
ABOVE = set()
"""Whose growth is above all powers, and not of one base."""


class Trunk(nn.Module):
    """A model without what stands in front of its blocks and behind."""

    def __init__(self, model, inputs):
        super().__init__()
        got, real = [], model.trunk

        def seen(x):
            got.append(x)
            return real(x)

        model.trunk = seen
        with torch.no_grad():
            model(*inputs)
        del model.trunk
        self.model, self.shape = model, got[0].shape

    def forward(self, x):
        y = self.model.trunk(x)
        return sum(t for t in y if t is not None) if isinstance(y, tuple) else y


def build(module, cls, truth, n, seed=0, alike=False):
    """`n` layers, and a function that draws an input for them."""
    torch.manual_seed(seed)
    inputs = tuple(x.double() for x in module.example_inputs())
    if truth["kind"] == "block":
        m = _measure.Stack(cls, n)
        if alike:
            for b in m.blocks[1:]:
                b.load_state_dict(m.blocks[0].state_dict())
        return m, inputs[0].shape
    m = cls(n)
    if alike:
        groups = {}
        for name, block in m.named_modules():
            if name.rpartition(".")[2].isdigit():
                groups.setdefault(name.rpartition(".")[0], []).append(block)
        for group in groups.values():
            first = group[0].state_dict()
            for b in group[1:]:
                if {k: v.shape for k, v in b.state_dict().items()} == {k: v.shape for k, v in first.items()}:
                    b.load_state_dict(first)
        with torch.no_grad():                         # layers that are slices of one tensor
            for p in m.parameters():
                if getattr(p, "stacked", False):
                    p.copy_(p[:1].expand_as(p))
    if hasattr(m, "trunk"):
        m = Trunk(m, inputs)
        return m, m.shape
    return m, inputs[0].shape


def draw(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def size(module, cls, truth, n, alike):
    m, shape = build(module, cls, truth, n, alike=alike)
    with torch.no_grad():
        return m(draw(shape, 1)).square().mean().sqrt().item()


def one_gain(module, name, cls, truth):
    """Of 24 blocks, or of a model as it is, by a few steps of a power iteration far out."""
    m, shape = build(module, cls, truth, 24 if truth["kind"] == "block" else None)
    u, far = draw((1, *shape[1:]), 3), FAR.get(name, 1e10)
    u = u / u.norm()
    for _ in range(30):
        x = (u * far).requires_grad_()
        y = m(x) / far
        (w,) = torch.autograd.grad(y, x, y.detach())
        if not w.norm() > 0:
            break
        u = w / w.norm()
    return y.norm().item()


def scaled(module, name, cls, truth, c, n=4):
    """Size of the end, and the largest logit, with all weights but gains of norms times `c`."""
    m, shape = build(module, cls, truth, n if truth["kind"] == "block" else None)
    _measure.scale_(m, c, MAPS.get(name))
    _measure.SEEN.clear()
    with torch.no_grad():
        y = m(draw(shape, 1))
    return y.abs().max().item(), max((u.abs().max().item() for u in _measure.SEEN), default=0.0)


def gradient(module, cls, truth):
    """Logs of the first block's gradient over the last one's, of three draws, at the depths."""
    logs = []
    for n in DEPTHS:
        total = 0.0
        for seed in range(3):
            m, shape = build(module, cls, truth, n, seed=seed)
            y = m(draw(shape, seed + 1))
            (y * draw(y.shape, seed + 7)).sum().backward()
            ends = [math.sqrt(sum(p.grad.square().sum().item() for p in b.parameters() if p.grad is not None)) for b in (m.blocks[0], m.blocks[-1])]
            total += math.log(ends[0] / ends[1]) / 3
        logs.append(total)
    return _measure.gradient_law(DEPTHS, logs), logs


def runs(module, cls):
    """In float32, forward and backward."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    inputs = module.example_inputs()
    y = cls()(*inputs)
    sum(z.square().mean() for z in (y if isinstance(y, tuple) else (y,))).backward()
    torch.set_default_dtype(torch.float64)


def main():
    torch.set_default_dtype(torch.float64)
    files = [f for f in FILES if f in sys.argv] or FILES
    only = [a for a in sys.argv[1:] if a not in FILES]
    failed = 0
    for f in files:
        module = importlib.import_module(f"{__package__}.{f}")
        for name, truth in module.TRUTH.items():
            if only and name not in only:
                continue
            cls, notes, bad = getattr(module, name), [], []
            runs(module, cls)
            if truth.get("identity_gain") is not None:
                gain = one_gain(module, name, cls, truth)
                notes.append(f"gain {gain:.5g}")
                if gain > 1e-6 if truth["identity_gain"] == 0 else not abs(math.log(max(gain, 1e-300) / truth["identity_gain"])) < 0.02:
                    bad.append(f"gain for {truth['identity_gain']}")
            if truth.get("growth_fixed"):
                worst = "bounded"
                for alike in (False, True):
                    if alike and name in DRAWN:
                        continue
                    depths = AT.get(name, DEPTHS)
                    sizes = [size(module, cls, truth, n, alike) for n in depths]
                    law = "bounded" if max(sizes) <= BOUND.get(name, 0.0) else _measure.law(depths, sizes)
                    if name in ABOVE and sizes[-1] > depths[-1] ** 6:
                        law = "exponential"
                    worst = max(worst, law, key=_measure.RANK.get)
                    notes.append(" ".join(f"{v:.3g}" for v in sizes))
                if worst != truth["growth_fixed"]:
                    bad.append(f"growth {worst} for {truth['growth_fixed']}")
            if truth.get("gradient_law"):
                found, logs = gradient(module, cls, truth)
                notes.append("gradients " + " ".join(f"{v:.2f}" for v in logs))
                if found != truth["gradient_law"]:
                    bad.append(f"gradients {found} for {truth['gradient_law']}")
            if truth.get("output_bounded") or truth.get("logits_bounded") or truth.get("growth_all"):
                far = [scaled(module, name, cls, truth, c) for c in (1.0, 1e2, 1e4)]
                notes.append("scaled " + " ".join(f"{y:.3g}|{u:.3g}" for y, u in far))
                outs, logits = (truth.get("output_bounded") or {}).values(), (truth.get("logits_bounded") or {}).values()
                if (truth.get("growth_all") in ("bounded", "linear") or outs and all(outs)) and far[-1][0] > 400:
                    bad.append("an output grows with weights")
                if False in outs and far[-1][0] < 1e3:
                    bad.append("no output grows with weights")
                if logits and all(logits) and far[-1][1] > 400:
                    bad.append("logits grow with weights")
                if False in logits and not getattr(cls, "softmax_by_hand", False) and far[-1][1] < 1e3:
                    bad.append("no logit grows with weights")
            if truth.get("softmax") is not None:
                _measure.SEEN.clear()
                m, shape = build(module, cls, truth, 2 if truth["kind"] == "block" else None)
                m(draw(shape, 1))
                if bool(_measure.SEEN or getattr(cls, "softmax_by_hand", False)) != truth["softmax"]:
                    bad.append("softmax")
            failed += bool(bad)
            print("BAD" if bad else "ok ", f"{f}.{name}", "; ".join(notes + bad), flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
