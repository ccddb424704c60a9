"""Measures every truth of the files of a round in float64. No analyser is imported.

    python -m tests.adversary.round6.check_truth [file] [Class ...]

`check_truth.py` of each round has what its blocks need of their own: where branch outputs stand (`BRANCH`), weights by which a value is seen to grow
(`WITNESS`), blocks of which all parameters are put to zero to see the paths without weights (`ZEROED`), depths at which a law shows (`DEPTHS`), and
where it has them: where logits stand (`LOGITS`), softmaxes that are written out (`BY_HAND`), blocks whose growth is that of independent draws alone
(`DRAWN`), weights by which a stream is seen to grow (`GROWTH_WITNESS`), what bounds the largest entry of a stream of bounded branches
(`INEQUALITY`), and what bounds one step (`STEP_BOUND`).
"""

import importlib
import math
import re
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.backends.mha.set_fastpath_enabled(False)     # every attention goes by functions that can be watched
FILES = ["mixed_a", "mixed_b", "mixed_c"]
GAINS = re.compile(r"(^|\.)(gain\w*|tau)$")
CAP = 400.0          # what counts as bounded for values of width 32
NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm1d)


class Stack(nn.Module):
    def __init__(self, cls, n):
        super().__init__()
        self.blocks = nn.ModuleList(cls() for _ in range(n))

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return x


def build(cls, truth, n, seed=0):
    torch.manual_seed(seed)
    return Stack(cls, n) if truth["kind"] == "block" else cls(n)


def layers(model):
    found = getattr(model, "blocks", ())
    return list(found.values() if isinstance(found, nn.ModuleDict) else found)


def free(model):
    """Weights that may take any value: all but norm gains and biases, LayerScale-like vectors, temperatures."""
    held = {id(p) for m in model.modules() if isinstance(m, NORMS) for p in m.parameters(False)}
    return [(k, p) for k, p in model.named_parameters() if id(p) not in held and not GAINS.search(k)]


def scale_(model, c, pattern=None):
    with torch.no_grad():
        for k, p in free(model):
            if pattern is None or re.search(pattern, k):
                p.mul_(c)
    return model


def inputs(seed=1, b=2):
    return torch.randn(b, 16, 32, generator=torch.Generator().manual_seed(seed))


def rms(x):
    return x.square().mean(-1).sqrt().max().item()


# ---------------------------------------------------------------- logits and softmaxes
SEEN, DEEP = [], [0]
_soft, _tsoft, _fsoft, _sdpa = torch.softmax, torch.Tensor.softmax, F.softmax, F.scaled_dot_product_attention


def _note(u):
    SEEN.append(torch.where(torch.isinf(u), torch.zeros_like(u), u))


def _patch():
    def wrap(f):
        def g(u, *a, **k):
            if DEEP[0] == 0:
                _note(u)
            DEEP[0] += 1
            try:
                return f(u, *a, **k)
            finally:
                DEEP[0] -= 1
        return g

    def sdpa(q, k, v, *a, **kw):
        u = q @ k.transpose(-2, -1) * (kw.get("scale") or q.shape[-1] ** -0.5)
        if kw.get("is_causal"):
            u = u.masked_fill(torch.ones(u.shape[-2:], dtype=torch.bool, device=u.device).triu(1), 0.0)
        if kw.get("attn_mask") is not None and kw["attn_mask"].is_floating_point():
            u = u + kw["attn_mask"]
        _note(u)
        return _sdpa(q, k, v, *a, **kw)

    torch.softmax, torch.Tensor.softmax, F.softmax, F.scaled_dot_product_attention = wrap(_soft), wrap(_tsoft), wrap(_fsoft), sdpa


_patch()


# ---------------------------------------------------------------- probes: branch outputs, logits
def hook_outputs(*names):
    def probe(m, x):
        got = {}
        hs = [m.get_submodule(n).register_forward_hook(lambda mod, a, o, n=n: got.__setitem__(n, o[0] if isinstance(o, tuple) else o)) for n in names]
        m(x)
        for h in hs:
            h.remove()
        return [got[n] for n in names]
    return probe


def pre_norm(*pairs):
    """What each branch gives on the model's own input (norm, body) one after the other."""
    def probe(m, x):
        got = []
        for norm, body in pairs:
            y = body(m)(norm(m)(x))
            got.append(y)
            x = x + y
        return got
    return probe


def two(norm1, body1, norm2, body2):
    g = lambda name: (lambda m: getattr(m, name))
    return pre_norm((g(norm1), g(body1)), (g(norm2), g(body2)))


def of_f(m, x):
    return [m.f(x)]


def of_branch(m, x):
    return [m.branch(x)]


BRANCH, WITNESS, ZEROED, DEPTHS = {}, {}, set(), {}       # the tables of one round
LOGITS, BY_HAND, DRAWN, GROWTH_WITNESS, INEQUALITY, STEP_BOUND = {}, set(), set(), {}, {}, {}


def branch_of(name, m):
    if name in BRANCH:
        return BRANCH[name]
    return of_branch if hasattr(m, "branch") else of_f


LATE = (48, 96, 192, 384)        # where the law shows late
RANK = {"bounded": 0, "linear": 1, "polynomial": 2, "exponential": 3}


# ---------------------------------------------------------------- the measurements
def largest(name, cls, truth, what):
    """Largest value per index over seeds, sizes of weights and inputs, then by ascent; and the value at size 1."""
    top, base = {}, {}

    def note(values, store):
        for i, v in enumerate(values):
            a = v.abs().max().item()
            a = math.inf if a != a else a
            store[i] = max(store.get(i, 0.0), a)

    def values(m, x):
        if what == "output":
            return branch_of(name, m)(m, x)
        SEEN.clear()
        if name in LOGITS:
            return [LOGITS[name](m, x)]
        m(x)
        if len(SEEN) > 3:                        # a model: only the layers of which something is claimed
            return [SEEN[int(i)] for i in sorted(truth["logits_bounded"])]
        return list(SEEN)

    for seed in range(2):
        for c in (1.0, 1e-3, 1e2, 1e4):
            for s in (1.0, 1e4):
                torch.manual_seed(seed)
                m = scale_(cls(), c)
                x = inputs(seed) * s
                with torch.no_grad():
                    note(values(m, x), top)
                    if c == s == 1:
                        note(values(m, x), base)
                    x = x.roll(1, 0).clone()
                    x[:, ::2] = x[:, :1]        # equal tokens
                    x[0, :, 3:] *= 1e-6          # few channels
                    note(values(m, x), top)
    if name in WITNESS:
        torch.manual_seed(0)
        m = cls()
        with torch.no_grad():
            x = inputs()
            WITNESS[name](m, x)
            note(values(m, x), top)
    for seed in range(2):                        # gradient ascent on weights and input
        for i in range(len(base)):
            torch.manual_seed(seed)
            m, x = cls(), inputs(seed).requires_grad_()
            opt = torch.optim.Adam([p for _, p in free(m)] + [x], lr=0.1)
            for _ in range(40):
                v = values(m, x)
                if not v[i].requires_grad:       # constants
                    break
                note([u.detach() for u in v], top)
                opt.zero_grad()
                (-v[i].abs().amax().clamp(min=1e-30).log()).backward()
                opt.step()
    return top, base


def sizes(cls, truth, depths, c=1.0, seed=0, size=lambda y: y.square().mean().sqrt().item(), alike=False, witness=None):
    out = []
    for n in depths:
        m = scale_(build(cls, truth, n, seed), c)
        blocks = layers(m)
        with torch.no_grad():
            if alike:
                for b in blocks[1:]:
                    if len(list(b.parameters())) == len(list(blocks[0].parameters())):
                        b.load_state_dict(blocks[0].state_dict())
            if witness:
                for b in blocks:
                    witness(b)
            out.append(size(m(inputs(seed + 1))))
    return out


def inequality(name, cls, truth, depths, notes):
    """|out| against |in| and the largest branch output, in the largest entry, for random and for equal layers; branch outputs are themselves level."""
    tops = []
    for n in depths:
        for alike in (False, True):
            m = build(cls, truth, n)
            fs = [k for k in m.modules() if isinstance(k, nn.Sequential) and isinstance(k[0], nn.LayerNorm)]
            if alike:
                for f in fs[1:]:
                    f.load_state_dict(fs[0].state_dict())
            top = [0.0]
            for f in fs:
                f.register_forward_hook(lambda mod, a, o: top.__setitem__(0, max(top[0], o.abs().max().item())))
            x = inputs()
            with torch.no_grad():
                y = m(x)
            if not y.abs().max().item() <= INEQUALITY[name](x.abs().max().item(), top[0]) * (1 + 1e-9):
                return False
            tops.append(top[0])
    notes.append("inequality holds; largest branch entries " + " ".join(f"{v:.3g}" for v in tops))
    return max(tops) < 30        # 64 GELUs of a normed input through a map of std 1/8: about 4 sigma


def step_bound(name, cls, truth):
    m, x = build(cls, truth, 96), inputs()
    for b in m.blocks:
        b.load_state_dict(m.blocks[0].state_dict())
        with torch.no_grad():
            y = b(x)
        if not (y - x).abs().max().item() <= STEP_BOUND[name](b):
            return False
        x = y
    return True


def law(depths, r):
    """Classify by the last doublings."""
    l = [math.log(v) if v > 0 and math.isfinite(v) else (math.inf if v > 0 or v != v else -math.inf) for v in r]
    if math.isinf(l[-1]):
        return "exponential"
    e1, e2 = l[-2] - l[-3], l[-1] - l[-2]
    if e2 > 1.6 * e1 and e2 > math.log(3):
        return "exponential"
    slope = (e1 + e2) / math.log(depths[-1] / depths[-3])
    if slope > 1.2:
        return "polynomial"
    if slope > 0.08:
        return "linear"
    return "bounded"


def gradient_ratio(cls, truth, n, seeds=3):
    total, drawn = 0.0, range(seeds)
    for seed in drawn:
        m = build(cls, truth, n, seed)
        y = m(inputs(seed + 1))
        g = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed + 7))
        (y * g).sum().backward()
        blocks = layers(m)
        size = [math.sqrt(sum(p.grad.square().sum().item() for p in b.parameters() if p.grad is not None)) for b in (blocks[0], blocks[-1])]
        total += math.log(size[0] / size[1])
    return total / len(drawn)


def gradient_law(depths, l):
    if all(abs(v) < math.log(3) for v in l):
        return "flat"
    e = abs(l[-1] - l[-2])
    if e > math.log(4) and e > 1.5 * abs(l[-2] - l[-3]):
        return "exponential"
    return "power"


FAR = {}
"""Blocks whose gain is too small for a stream of 1e10 beside branches of size 1 -> the size that shows it."""


def identity_gain(name, cls, truth):
    m = build(cls, truth, 24)
    size = FAR.get(name, 1e10)
    if name in ZEROED:
        with torch.no_grad():
            for p in m.parameters():
                p.mul_(1e-30)
    u = torch.randn(1, 16, 32)
    u /= u.norm()
    for _ in range(60):
        x = (u * size).requires_grad_()
        y = m(x) / size
        gain = y.norm().item()
        with torch.no_grad():                    # the same by a finite difference
            step = ((m(u * size * 1.001) - m(u * size)) / (1e-3 * size)).norm().item()
        (w,) = torch.autograd.grad(y, x, y.detach())
        if not w.norm() > 0:
            break
        u = (w / w.norm()).detach()
    return gain if abs(step - gain) <= 0.02 * max(gain, 1e-3) else math.nan


def check(module, name):
    cls, truth = getattr(module, name), module.TRUTH[name]
    bad, notes = [], []
    n_keys = 0
    # runs as it is, float32 and meta
    torch.set_default_dtype(torch.float32)
    try:
        (x,) = module.example_inputs()
        y = cls()(x)
        assert y.shape == x.shape and y.dtype == x.dtype and torch.isfinite(y).all(), "eager"
        with torch.device("meta"):
            m = cls()
        assert m(torch.empty(2, 16, 32, device="meta")).shape == x.shape, "meta"
        torch.manual_seed(0)
        two = build(cls, truth, 2)
        x.requires_grad_()
        two(x).square().sum().backward()          # the backward pass runs
        assert torch.isfinite(x.grad).all(), "backward"
    finally:
        torch.set_default_dtype(torch.float64)
    if truth.get("identity_gain") is not None:
        n_keys += 1
        g = identity_gain(name, cls, truth)
        notes.append(f"gain {g:.5g}")
        if g > 1e-6 if truth["identity_gain"] == 0 else not abs(math.log(max(g, 1e-300) / truth["identity_gain"])) < 0.01:
            bad.append(f"identity_gain {g} for {truth['identity_gain']}")
    elif "identity_gain" in truth:               # a norm on the stream: the output does not know the input's size
        n_keys += 1
        m = build(cls, truth, 24)
        with torch.no_grad():
            a, b = m(inputs() * 1e6), m(inputs() * 1e9)
        if not (a - b).abs().max() < 1e-3 * a.abs().max():
            bad.append("identity_gain None: the input's size is seen")
    depths = DEPTHS.get(name, (12, 24, 48, 96))
    if truth.get("growth_fixed"):
        n_keys += 1
        rs = [sizes(cls, truth, depths, seed=s) for s in range(3)]
        mean = [math.exp(sum(math.log(v) for v in col) / len(col)) for col in zip(*rs)]      # geometric, over seeds
        notes.append(f"growth {law(depths, mean)} " + " ".join(f"{v:.3g}" for v in mean))
        worst = law(depths, mean)
        if name not in DRAWN:
            alike = sizes(cls, truth, depths, alike=True, witness=GROWTH_WITNESS.get(name))       # all layers with the same weights
            notes.append(f"alike {law(depths, alike)} " + " ".join(f"{v:.3g}" for v in alike))
            worst = max((worst, law(depths, alike)), key=RANK.get)
        if name in INEQUALITY:
            worst = "bounded" if inequality(name, cls, truth, depths, notes) else "inequality broken"
        if name in STEP_BOUND:
            worst = "linear" if step_bound(name, cls, truth) and law(depths, mean) == "linear" else "step bound broken"
            notes.append("every step below its bound")
        if worst != truth["growth_fixed"]:
            bad.append(f"growth_fixed {worst} for {truth['growth_fixed']}")
    if truth.get("growth_all"):
        n_keys += 1
        worst = []
        for c in (0.0, 1e-2, 1.0, 30.0, 1e4):
            r = sizes(cls, truth, depths, c=c, size=rms)
            if truth["growth_all"] == "exponential":
                if law(depths, r) != "exponential" and not math.isnan(r[-1]):
                    bad.append(f"growth_all at weights x {c}: {r}")
            else:
                worst.append(r)
        if worst:
            top = [max(col) for col in zip(*worst)]
            r0 = rms(inputs())
            notes.append("all " + " ".join(f"{v:.3g}" for v in top))
            if truth["growth_all"] == "linear" and not all(v <= r0 + CAP * n for v, n in zip(top, depths)):
                bad.append(f"growth_all {top}")
            if truth["growth_all"] == "linear" and law(depths, top) in ("polynomial", "exponential"):
                bad.append(f"growth_all {top}")
            if truth["growth_all"] == "bounded" and not max(top) <= 10 * r0:
                bad.append(f"growth_all {top}")
    if truth.get("gradient_law"):
        n_keys += 1
        gd = depths
        l = [gradient_ratio(cls, truth, n) for n in gd]
        notes.append("gradient " + " ".join(f"{math.exp(max(-600, min(v, 600))):.3g}" for v in l))
        if gradient_law(gd, l) != truth["gradient_law"]:
            bad.append(f"gradient_law {gradient_law(gd, l)} {l} for {truth['gradient_law']}")
    for what in ("output", "logits"):
        claim = truth.get(f"{what}_bounded")
        if claim:
            top, base = largest(name, cls, truth, what)
            notes.append(what + " " + " ".join(f"{base[i]:.3g}->{top[i]:.3g}" for i in sorted(base)))
            index = sorted(claim)
            if len(base) != len(claim) :
                bad.append(f"{what}: {len(base)} seen for {len(claim)} claimed")
                continue
            for j, key in enumerate(index):
                n_keys += 1
                if claim[key] and not top[j] <= CAP:
                    bad.append(f"{what} {key} not bounded: {top[j]}")
                if not claim[key] and not top[j] >= 1000 * max(base[j], 1e-3):
                    bad.append(f"{what} {key} seems bounded: {top[j]}")
    if truth.get("softmax") is not None:
        n_keys += 1
        SEEN.clear()
        build(cls, truth, 2)(inputs())
        seen = bool(SEEN) or name in BY_HAND
        if seen != truth["softmax"]:
            bad.append(f"softmax {seen}")
    return n_keys, bad, notes


def main(folder, branch, witness, zeroed, depths, names=FILES, **more):
    """`names`: the files of the round; `more`: the other tables, by their names in small letters."""
    sys.path.insert(0, folder)
    own = dict(branch=BRANCH, witness=WITNESS, zeroed=ZEROED, depths=DEPTHS, logits=LOGITS, by_hand=BY_HAND, drawn=DRAWN,
               growth_witness=GROWTH_WITNESS, inequality=INEQUALITY, step_bound=STEP_BOUND)
    for key, table in dict(more, branch=branch, witness=witness, zeroed=zeroed, depths=depths).items():
        own[key].update(table)
    args = sys.argv[1:]
    files = [a for a in args if a in names] or names
    only = [a for a in args if a not in names]
    failures, table, t0 = 0, [], time.time()
    for f in files:
        module = importlib.import_module(f)
        cases = keys = 0
        for name in module.TRUTH:
            if only and name not in only:
                continue
            torch.manual_seed(0)
            try:
                n, bad, notes = check(module, name)
            except Exception as e:  # noqa: BLE001
                if only:
                    raise
                n, bad, notes = 0, [f"{type(e).__name__}: {e}"], []
            cases, keys, failures = cases + 1, keys + n, failures + bool(bad)
            print(f"{'ok ' if not bad else 'BAD'} {f}.{name} [{n}] " + "; ".join(notes + bad), flush=True)
        table.append((f, cases, keys))
    print(f"\n{'file':12} blocks truths")
    for row in table:
        print(f"{row[0]:12} {row[1]:6} {row[2]:6}")
    print(f"{'sum':12} {sum(r[1] for r in table):6} {sum(r[2] for r in table):6}   ({time.time() - t0:.0f} s)")
    print("all truths hold" if not failures else f"{failures} cases do not hold")
    sys.exit(bool(failures))

