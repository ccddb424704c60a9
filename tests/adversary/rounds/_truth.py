"""Measures what the truths of a round say of gains and growth in float64; `check_truth.py` of a round hands over what is its own.

    python -m tests.adversary.round26.check_truth [file] [Class ...]

A state is what a block gives and reads: a tensor, a dictionary, a named tuple, or the first of several arguments. A model with a method
`trunk` is measured there, on values of the shape that its own input brings there; any other one as it is.
"""

import importlib
import math
import sys
from dataclasses import dataclass, field

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure

DEPTHS = (12, 24, 48, 96)
LATE = (96, 192, 384, 768)


@dataclass(frozen=True)
class Round:
    """What a round has of its own."""

    package: str
    files: list
    at: dict = field(default_factory=dict)
    """Other depths, where a model can have no other ones or a law shows late."""
    drawn: frozenset = frozenset()
    """Whose growth is asked of independent draws alone."""
    bound: dict = field(default_factory=dict)
    """What a stream is at most, at all depths (a geometric sum, or two norms), where what is drawn hides that it is level."""
    far: dict = field(default_factory=dict)
    """Another size than 1e10 that shows the gain."""
    seeds: tuple = (0, 1)
    """Draws of weights by which growth is asked, each with layers of their own and with equal ones."""
    later: bool = True
    """Whether steps that turn to one way late are asked again at larger depths."""
    awake: bool = True
    """Whether maps that start at nothing are drawn before weights are scaled."""
    maps: dict = field(default_factory=dict)
    """Of which maps the weights are scaled, where others decay in the exponent."""
    norms: tuple = ()
    """More norms, whose gains are not scaled."""
    summed: bool = False
    """Whether a trunk gives summands of its stream, of which some are nothing yet."""


def leaves(s):
    if isinstance(s, torch.Tensor):
        return [s] if s.is_floating_point() else []
    return [t for u in (s.values() if isinstance(s, dict) else s) for t in leaves(u)]


def mapped(f, s):
    if isinstance(s, torch.Tensor):
        return f(s) if s.is_floating_point() else s
    if isinstance(s, dict):
        return {k: mapped(f, v) for k, v in s.items()}
    got = [mapped(f, v) for v in s]
    return type(s)(*got) if hasattr(s, "_fields") else tuple(got)


def size(s):
    found = leaves(s)
    return max(t.square().mean().sqrt().item() for t in found)


class Stack(nn.Module):
    """Blocks one behind the other; what they do not give they all read."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, state, *rest):
        for b in self.blocks:
            state = b(*state, *rest) if type(state) is tuple else b(state, *rest)
        return state


class Trunk(nn.Module):
    def __init__(self, model, rest, summed):
        super().__init__()
        self.model, self.rest, self.summed = model, [r.detach() for r in rest], summed

    @property
    def blocks(self):
        return self.model.blocks

    def forward(self, x):
        y = self.model.trunk(x, *self.rest)
        return sum(t for t in y if t is not None) if self.summed and isinstance(y, tuple) else y


def alike_(m):
    groups = {}
    for name, block in m.named_modules():
        if name.rpartition(".")[2].isdigit():
            groups.setdefault(name.rpartition(".")[0], []).append(block)
    for group in groups.values():
        first = group[0].state_dict()
        for b in group[1:]:
            if {k: v.shape for k, v in b.state_dict().items()} == {k: v.shape for k, v in first.items()}:
                b.load_state_dict(first)


def inputs(module, name):
    """What a class is called with: a file has inputs for each of its classes, or the same ones for all."""
    return tuple(module.example_inputs() if callable(module.example_inputs) else module.example_inputs[name])


def build(of, module, name, truth, n, seed=0, alike=False):
    """(the module, a function of a state, the state)."""
    cls = getattr(module, name)
    torch.manual_seed(seed)
    args = mapped(lambda t: t.double(), inputs(module, name))
    if truth["kind"] == "block":
        blocks = [cls() for _ in range(n or 24)]
        y = blocks[0](*args)
        k = len(y) if type(y) is tuple else 1
        state, rest, m = (args[:k] if k > 1 else args[0]), args[k:], Stack(blocks)
    else:
        m, rest, state = cls(n), (), args
        if hasattr(m, "trunk"):
            got, real = [], m.trunk
            m.trunk = lambda x, *c: (got.extend((x, *c)), real(x, *c))[1]
            with torch.no_grad():
                m(*args)
            del m.trunk
            state, m = got[0].detach(), Trunk(m, got[1:], of.summed)
    if alike:
        alike_(m)
    if type(state) is tuple and truth["kind"] != "block":
        return m, (lambda s: m(*s)), state
    return m, (lambda s: m(s, *rest)), state


def drawn(state, seed):
    g = torch.Generator().manual_seed(seed)
    return mapped(lambda t: torch.randn(t.shape, generator=g), state)


def dot(a, b):
    return sum((u * v).sum() for u, v in zip(leaves(a), leaves(b)))


def norm(a):
    return math.sqrt(sum(t.detach().square().sum().item() for t in leaves(a)))


def one_gain(of, module, name, truth):
    m, f, state = build(of, module, name, truth, 24 if truth["kind"] == "block" else None)
    u, far = drawn(state, 3), of.far.get(name, 1e10)
    u = mapped(lambda t, k=norm(u): t / k, u)
    gain = 0.0
    for _ in range(30):
        x = mapped(lambda t: (t * far).detach().requires_grad_(), u)
        y = f(x)
        gain = norm(y) / far
        grads = torch.autograd.grad(dot(y, mapped(lambda t: t.detach() / far, y)), leaves(x), allow_unused=True)
        it = iter([g if g is not None else torch.zeros_like(t) for g, t in zip(grads, leaves(x))])
        w = mapped(lambda t: next(it), u)
        if not norm(w) > 0:
            break
        u = mapped(lambda t, k=norm(w): t.detach() / k, w)
    return gain


def gradient(of, module, name, truth):
    logs = []
    for n in DEPTHS:
        total = 0.0
        for seed in range(3):
            m, f, state = build(of, module, name, truth, n, seed=seed)
            y = f(drawn(state, seed + 1))
            dot(y, drawn(y, seed + 7)).backward()
            ends = [math.sqrt(sum(p.grad.square().sum().item() for p in b.parameters() if p.grad is not None)) for b in (m.blocks[0], m.blocks[-1])]
            total += math.log(max(ends[0], 1e-300) / max(ends[1], 1e-300)) / 3
        logs.append(total)
    return _measure.gradient_law(DEPTHS, logs), logs


def grown(of, module, name, truth, depths, seed, alike):
    """Sizes of streams at the depths."""
    sizes = []
    for n in depths:
        m, f, state = build(of, module, name, truth, n, seed=seed, alike=alike)
        with torch.no_grad():
            sizes.append(size(f(drawn(state, seed + 1))))
    return sizes


def scaled(of, module, name, truth, c, n=4):
    m, f, state = build(of, module, name, truth, n if truth["kind"] == "block" else None)
    for p in m.parameters():
        if of.awake and p.dim() > 1 and not p.abs().max() > 0:      # thin maps that start at nothing
            nn.init.normal_(p, std=0.1)
    _measure.scale_(m, c, of.maps.get(name))
    _measure.SEEN.clear()
    with torch.no_grad():
        y = f(drawn(state, 1))
    return max(t.abs().max().item() for t in leaves(y)), max((u.abs().max().item() for u in _measure.SEEN), default=0.0)


def runs(module, name):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    y = getattr(module, name)()(*mapped(lambda t: t.clone().requires_grad_(), inputs(module, name)))
    sum(z.square().mean() for z in leaves(y)).backward()
    torch.set_default_dtype(torch.float64)


def main(of):
    """Measures files and classes that the command line names, or all; the exit code says whether a truth is not held."""
    torch.set_default_dtype(torch.float64)
    _measure.NORMS = (*_measure.NORMS, *of.norms)
    files = [f for f in of.files if f in sys.argv] or of.files
    only = [a for a in sys.argv[1:] if a not in of.files]
    failed = 0
    for f in files:
        torch.set_default_dtype(torch.float32)
        module = importlib.import_module(f"{of.package}.{f}")
        torch.set_default_dtype(torch.float64)
        for name, truth in module.TRUTH.items():
            if only and name not in only:
                continue
            cls, notes, bad = getattr(module, name), [], []
            runs(module, name)
            if truth.get("identity_gain") is not None:
                gain = one_gain(of, module, name, truth)
                notes.append(f"gain {gain:.5g}")
                if not abs(math.log(max(gain, 1e-300) / truth["identity_gain"])) < 0.02:
                    bad.append(f"gain for {truth['identity_gain']}")
            if truth.get("growth_fixed"):
                worst = "bounded"
                for alike, seed in ((a, s) for a in (False, True) for s in of.seeds):
                    if alike and name in of.drawn:
                        continue
                    depths = of.at.get(name, DEPTHS)
                    sizes = grown(of, module, name, truth, depths, seed, alike)
                    again = of.later and truth["growth_fixed"] == "linear" and name not in of.at
                    if again and _measure.law(depths, sizes) == "polynomial":
                        depths = LATE
                        sizes = grown(of, module, name, truth, depths, seed, alike)
                    law = "bounded" if max(sizes) <= of.bound.get(name, 0.0) else _measure.law(depths, sizes)
                    worst = max(worst, law, key=_measure.RANK.get)
                    notes.append(" ".join(f"{v:.3g}" for v in sizes))
                if worst != truth["growth_fixed"]:
                    bad.append(f"growth {worst} for {truth['growth_fixed']}")
            if truth.get("gradient_law"):
                found, logs = gradient(of, module, name, truth)
                notes.append("gradients " + " ".join(f"{v:.2f}" for v in logs))
                if found != truth["gradient_law"]:
                    bad.append(f"gradients {found} for {truth['gradient_law']}")
            if truth.get("output_bounded") or truth.get("logits_bounded") or truth.get("growth_all"):
                far = [scaled(of, module, name, truth, c) for c in (1.0, 1e2, 1e4)]
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
                m, g, state = build(of, module, name, truth, 2 if truth["kind"] == "block" else None)
                with torch.no_grad():
                    g(state)
                if bool(_measure.SEEN or getattr(cls, "softmax_by_hand", False)) != truth["softmax"]:
                    bad.append("softmax")
            failed += bool(bad)
            print("BAD" if bad else "ok ", f"{f}.{name}", "; ".join(notes + bad), flush=True)
    sys.exit(bool(failed))
