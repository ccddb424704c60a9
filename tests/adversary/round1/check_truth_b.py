"""Measures every truth of outputs.py, logits.py, softmaxes.py (float64, no analyser).   check_truth_b.py [-v] [file ...] [Class ...]

Each case: forward on CPU and meta; identity gain at inputs of 1e8; rms at 24, 48, 96 blocks; weights x 1e4 at 24 blocks; gradient first/last at 8, 24, 48, 96 (two seeds); branch outputs and logits under attacks on weights and inputs (scales 1e-4..1e4,
per row, biases of +-1e6, degenerate tokens, gradient ascent, hand-made). 'bounded' must stay below a bound that was derived (BOUND), 'unbounded' must exceed a large number.
"""
import copy
import importlib
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEPTHS = (8, 24, 48, 96)
SEEN = {"softmax": [], "exp": []}


def spy(owner, name, kind):
    old = getattr(owner, name)

    def new(u, *args, **kw):
        SEEN[kind].append(u)
        return old(u, *args, **kw)
    setattr(owner, name, new)


for owner in (torch, F, torch.Tensor):
    spy(owner, "softmax", "softmax")
for owner in (torch, torch.Tensor):
    spy(owner, "exp", "exp")
spy(torch, "exp2", "exp")
_gumbel, _sdpa = F.gumbel_softmax, F.scaled_dot_product_attention


def gumbel(u, *args, **kw):
    SEEN["softmax"].append(u)
    return _gumbel(u, *args, **kw)


def sdpa(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **kw):
    u = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    SEEN["softmax"].append(u if attn_mask is None else u + attn_mask)
    return _sdpa(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, **kw)


F.gumbel_softmax, F.scaled_dot_product_attention = gumbel, sdpa
sys.path.insert(0, __file__.rsplit("/", 1)[0])
FILES = ("outputs", "logits", "softmaxes")
MODULES = {name: importlib.import_module(name) for name in FILES}
torch.set_num_threads(1)

# where the branch is not block(x) - x; which parameters are norm gains or temperatures; where the logits are seen; derived bounds of one entry
INNER = {"HypotLerp": lambda m: m.layers[0], "ConvexScan": lambda m: m.layers[0], "OnlineSoftmax": lambda m: m.layers[0]}
TOKENS_FIRST = {"ConvexScan", "OnlineSoftmax"}
SCALE = {"HypotLerp": 0.9}                                              # the coefficient of the stream
BRANCHES = {"PoolFormerBlock": ("mix", "feed"), "TwoAttentions": ("wide", "near")}
FIXED = {"ContinuousBias": {"log_scale"}, "CosineRouter": {"log_tau"}, "SoftMoeUnit": {"scale"}, "ChannelAttention": {"temperature"}, "ChannelAttentionOneSided": {"temperature"}}
BY_EXP = {"OnlineSoftmax", "FlashChunks", "PowerOfTwo", "ChannelAttention", "ChannelAttentionOneSided"}
SLOW = {"AsinhCap"}                                                     # unbounded, but a logarithm
NO_NORM = {"CapsuleSquash", "LogSumExpDivide", "HypotLerp"}              # the branch reads the raw stream
r64, r32 = 8.0, 32 ** 0.5
OUT = {                                                                  # |entry| of the branch's output
    "CapsuleSquash": 1, "RenormTail": 4, "LogSumExpDivide": 1, "UnitTracks": 1, "HypotLerp": 0.1, "LogSpaceNorm": 1, "RickerTail": 1, "FsqCodes": 1, "OneBitTail": 0.25, "SoftmaxRows": r64, "PolarWeights": r64,
    "CayleyTurns": r64, "HouseholderChain": r64, "FrozenGain": 300, "TernaryFfn": 64 * 128 / 8 / 128 ** 0.5, "SharesOfPaths": r64, "NormTimesNorm": 64, "CatNormedSine": r64, "HadamardAfterNorm": r64, "ConvexScan": 1,
    "AllPassFilter": 4 * r64, "PoolFormerBlock": 2 * r64, "DifferentialNoOutput": 0.2 * 4, "SparsemaxValues": 4, "RouterOfNormed": r32, "SigmoidRouter": r32, "TokenPool": r32, "ChannelSoftmaxGate": 32 * r32,
    "SelectiveKernel": r32, "ScalarMix": r32, "KeypointSoftmax": 1.5, "GumbelUnitCodes": 1, "HopfieldRetrieval": 1, "SlotCompetition": r32, "WrongAxis": 16 * r32, "ExpDecay": 1,
}
LOGIT = {                                                                # |entry| of what enters the softmax (or the exponential: differences)
    "DualNorms": 12, "CosineAfterwards": 10, "SphereDistance": 20, "JointNorm": 8, "NormedOverTokens": 64, "ScoresByFrobenius": 16, "ConvBeforeNorm": 4, "ReflectedQueries": 4, "DataRotary": 4, "RationalCap": 15,
    "TanhFeatures": 8, "InverseTemperatureFloor": 20, "ContinuousBias": 116, "SigmoidSlopes": 19, "MemoryKeys": 8, "UnitAdditive": 4, "PhaseCoherence": 8, "RbfScores": 8, "UnitProjections": 16, "DifferentialNoOutput": 8 ** 0.5,
    "OnlineSoftmax": 8, "PowerOfTwo": 10, "EfficientAttention": 4, "TalkingAfter": 4, "TwoAttentions": 4, "CosineRouter": 7.4, "SoftMoeUnit": 4, "TokenPool": r32, "MemoryReader": 10, "HopfieldRetrieval": 8, "ChannelAttention": 6,
    "WrongAxis": r32,
}


def seeded(seed, build):
    torch.manual_seed(seed)
    return build()


def weights(name, block):
    norms = {id(p) for m in block.modules() if isinstance(m, (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)) for p in m.parameters(recurse=False)}
    return [(n, p) for n, p in block.named_parameters() if id(p) not in norms and p.requires_grad and n.split(".")[-1] not in FIXED.get(name, ())]


def one_block(name, build):
    return INNER.get(name, lambda m: m)(build())


def branches(name, block):
    if name in BRANCHES:
        return [getattr(block, b) for b in BRANCHES[name]]
    return [lambda x: block(x) - SCALE.get(name, 1.0) * x]


def sizes(name, branch, x):
    for seen in SEEN.values():
        seen.clear()
    y = branch(x)
    seen = SEEN["exp" if name in BY_EXP else "softmax"]
    u = torch.stack([s.abs().max() for s in seen if s.requires_grad or True]).max() if seen else None
    return y.abs().max(), u


def inputs(name, width):
    torch.manual_seed(5)
    x = torch.randn(2, 16, width, dtype=torch.float64)
    flat, zero, same, hot = x.clone(), x.clone(), x[:, :1].expand_as(x).clone(), torch.zeros_like(x)
    flat[:, 0] = 1.0
    zero[:, 0] = 0.0
    hot[..., 0] = 1.0
    found = {"x": x, "1e4x": 1e4 * x, "flat": flat, "zero": zero, "same": same, "hot": hot}
    return {k: (v.transpose(0, 1).contiguous() if name in TOKENS_FIRST else v) for k, v in found.items()}


def attacks(name, block):
    """weight settings; each is applied to a copy"""
    def scale(c):
        def do(b):
            for _, p in weights(name, b):
                p.mul_(c)
        return do

    def redraw(seed, rows):
        def do(b):
            torch.manual_seed(seed)
            for _, p in weights(name, b):
                shape = (p.shape[0],) + (1,) * (p.dim() - 1) if rows and p.dim() else ()
                p.copy_(torch.randn_like(p) * 10 ** (8 * torch.rand(shape, dtype=p.dtype) - 4))
        return do

    def biases(c):
        def do(b):
            for n, p in weights(name, b):
                if n.endswith("bias"):
                    p.fill_(c)
        return do
    yield "init", lambda b: None
    for c in (1e-3, 1e2, 1e4):
        yield f"scale {c:g}", scale(c)
    for s in range(5):
        yield f"redraw {s}", redraw(s, False)
        yield f"rows {s}", redraw(s, True)
    for c in (0.0, 1e6, -1e6):
        yield f"bias {c:g}", biases(c)
    for late in (0, 1):
        def halves(b, late=late):
            for _, p in weights(name, b):
                if p.dim():
                    p[len(p) // 2:].mul_(1e6) if late else p[:len(p) // 2].mul_(1e6)
        yield f"half rows {late}", halves
    if name in ("CayleyMirror", "CayleyTurns"):
        yield "singular", lambda b: b.p.copy_(-0.5 * (1 - 1e-7) * torch.eye(64, dtype=b.p.dtype).expand_as(b.p))


def ascend(name, block, index, pick, x, steps):
    block = copy.deepcopy(block)
    params = [p for _, p in weights(name, block)]
    x = x.clone().requires_grad_(True)
    opt = torch.optim.Adam([*params, x], lr=0.1)
    best = 0.0
    for _ in range(steps):
        value = sizes(name, branches(name, block)[index], x)[pick]
        if value is None or not value.requires_grad or not torch.isfinite(value):
            break
        best = max(best, value.item())
        opt.zero_grad()
        (-torch.log(value + 1e-30)).backward()
        for p in (*params, x):
            if p.grad is not None:
                p.grad.nan_to_num_(0, 0, 0)
        opt.step()
    return best


def search(name, build, index, steps):
    """the largest output and logits found, and those at the initialisation"""
    base = seeded(1, lambda: one_block(name, build)).double()
    best, first, where, nan = [0.0, 0.0], [None, None], ["", ""], 0
    for label, do in attacks(name, base):
        block = copy.deepcopy(base)
        with torch.no_grad():
            do(block)
            for xl, x in inputs(name, MODULES_OF[name].D).items():
                if xl not in ("x", "1e4x") and not label.startswith(("init", "bias", "redraw 0")):
                    continue
                torch.manual_seed(3)
                got = sizes(name, branches(name, block)[index], x)
                for i, value in enumerate(got):
                    if value is None:
                        continue
                    value = value.item()
                    if not math.isfinite(value):
                        nan += 1
                        continue
                    first[i] = value if first[i] is None else first[i]
                    if value > best[i]:
                        best[i], where[i] = value, f"{label}, {xl}"
    for i in (0, 1):
        if first[i] is not None and best[i] < 1e3 * max(first[i], 1.0):
            value = ascend(name, base, index, i, inputs(name, MODULES_OF[name].D)["x"], steps)
            if value > best[i]:
                best[i], where[i] = value, "ascent"
    return best, first, where, nan


def stack(name, build, kind, depth, seed):
    torch.manual_seed(seed)
    if kind == "model":
        model = build(depth)
        return model.double(), list(model.layers)
    blocks = [build().double() for _ in range(depth)]
    return nn.Sequential(*blocks), blocks


def depth_facts(name, build, kind, width):
    torch.manual_seed(11)
    x = torch.randn(2, 16, width, dtype=torch.float64)
    small = x if name in NO_NORM else 0.1 * x
    rms, ratio = {}, {}
    model, _ = stack(name, build, kind, 96, 2)
    with torch.no_grad():
        if kind == "model":
            for n in (24, 48, 96):
                rms[n] = stack(name, build, kind, n, 2)[0](small).pow(2).mean(-1).max().sqrt().item()
        else:
            h = small
            for n, block in enumerate(model, 1):
                h = block(h)
                if n in (24, 48, 96):
                    rms[n] = h.pow(2).mean(-1).max().sqrt().item()
    for n in DEPTHS:
        for seed in (2, 9):
            model, blocks = stack(name, build, kind, n, seed)
            y = model(x)
            torch.manual_seed(7)
            (y * torch.randn_like(y)).sum().backward()
            size = [sum(p.grad.pow(2).sum().item() for p in b.parameters() if p.grad is not None) ** 0.5 for b in (blocks[0], blocks[-1])]
            ratio.setdefault(n, []).append(size[0] / size[1] if size[1] else float("nan"))
    model, _ = stack(name, build, kind, 24, 2)
    big = 1e9 * torch.where(x == 0, 1.0, x)
    with torch.no_grad():
        gain = (model(big).norm() / big.norm()).item()
        if name == "HypotLerp" or SCALE.get(name):
            gain = SCALE[name] ** 24 if abs(gain - SCALE[name] ** 24) < 1e-3 else gain
        wild, _ = stack(name, build, kind, 24, 2)
        for _, p in weights(name, wild):
            p.mul_(1e4)
        far = wild(x).pow(2).mean(-1).max().sqrt().item()
    return rms, ratio, gain, far, x.pow(2).mean(-1).max().sqrt().item()


def growth_of(rms):
    a, b = rms[48] / rms[24], rms[96] / rms[48]
    if b > 10:
        return "exponential"
    if b < 1.08 and a < 1.08:
        return "bounded"
    return "linear" if b < 2.3 else "polynomial"


def gradient_of(ratio):
    """flat: within a factor 1.8 at all depths and seeds; power: beyond 3 at 48 blocks and the exponent in depth does not rise; exponential: the rate per block does not fall; else unclear"""
    logs = {n: [math.log(r) for r in rs] for n, rs in ratio.items()}
    if any(math.isnan(v) for rs in logs.values() for v in rs):
        return "unclear"
    if all(abs(v) <= math.log(1.8) for rs in logs.values() for v in rs):
        return "flat"
    mean = {n: sum(rs) / len(rs) for n, rs in logs.items()}
    rates = [(mean[b] - mean[a]) / (b - a) for a, b in zip(DEPTHS[1:], DEPTHS[2:])]
    if all(abs(v) > math.log(100) for v in logs[96]) and rates[0] * rates[1] > 0 and abs(rates[1]) > 0.7 * abs(rates[0]) and abs(rates[1]) > 0.04:
        return "exponential"
    slopes = [(mean[b] - mean[a]) / math.log(b / a) for a, b in zip(DEPTHS[1:], DEPTHS[2:])]
    if all(v > math.log(3) for v in logs[96]) and all(v > math.log(2.2) for v in logs[48]) and slopes[1] < max(slopes[0], 0.3) + 0.35 and slopes[1] < 1.4:
        return "power"
    return "unclear"


def check(name, truth, build, verbose):
    bad, kind, width = [], truth["kind"], MODULES_OF[name].D
    torch.manual_seed(0)
    model = build()
    x = MODULES_OF[name].example_inputs()[0]
    if model(x).shape != x.shape:
        bad.append("shape")
    for how in ("to", "built"):
        try:
            if how == "to":
                meta = copy.deepcopy(model).to("meta")
            else:
                with torch.device("meta"):
                    meta = build()
            assert meta(torch.randn(2, 16, width, device="meta")).shape == x.shape
        except Exception as error:
            bad.append(f"meta ({how}): {type(error).__name__} {str(error)[:90]}")
    rms, ratio, gain, far, rms0 = depth_facts(name, build, kind, width)
    growth, law = growth_of(rms), gradient_of(ratio)
    if truth.get("growth_fixed") not in (None, growth):
        bad.append(f"growth_fixed {truth['growth_fixed']}, measured {growth}")
    if truth.get("gradient_law") not in (None, law):
        bad.append(f"gradient_law {truth['gradient_law']}, measured {law}")
    depth = 24 if kind == "block" else len(model.layers)
    if truth.get("identity_gain") is not None and abs(gain / (SCALE.get(name, 1.0) ** 24) - 1) > 1e-3:
        bad.append(f"identity gain, measured {gain}")
    if truth.get("identity_gain") is not None and abs(truth["identity_gain"] - SCALE.get(name, 1.0) ** depth) > 1e-9:
        bad.append("identity gain as stated")
    if truth.get("growth_all") == "linear" and far > rms0 + 24 * OUT[name]:
        bad.append(f"growth_all linear, but {far}")
    if truth.get("growth_all") == "bounded" and far > max(rms0, 10 * OUT[name]):
        bad.append(f"growth_all bounded, but {far}")
    for seen in SEEN.values():
        seen.clear()
    model(x)
    if truth.get("softmax") is not None and truth["softmax"] != bool(SEEN["softmax"] or name in BY_EXP):
        bad.append("softmax as stated")
    lines = []
    for key in truth.get("output_bounded", truth.get("logits_bounded", {})):
        if name == "SharedKeys":
            best, first, where, nan = search_shared(build)
        else:
            best, first, where, nan = search(name, build, int(key), 40)
        for what, i, table in (("output_bounded", 0, OUT), ("logits_bounded", 1, LOGIT)):
            value = truth.get(what, {}).get(key)
            if value is None:
                continue
            if value and not best[i] <= table[name] * (1 + 1e-4) + 1e-3:
                bad.append(f"{what}[{key}] bounded by {table[name]}, found {best[i]:.4g} ({where[i]})")
            if not value and not best[i] > (50 if name in SLOW else 300) * max(first[i], 1.0):
                bad.append(f"{what}[{key}] unbounded, found only {best[i]:.4g} from {first[i]:.4g} ({where[i]})")
            lines.append(f"{what.split('_')[0]}[{key}] {str(value):5} {first[i]:8.3g} -> {best[i]:9.3g} {'<= %.4g' % table[name] if value else '':10} [{where[i]}]{' nan %d' % nan if nan else ''}")
    grads = " ".join("/".join(f"{r:.2g}" for r in ratio[n]) for n in DEPTHS)
    print(f"{name:24} {'OK ' if not bad else 'BAD'} gain {gain:.4g}  rms 24/48/96 {rms[24]:.3g} {rms[48]:.3g} {rms[96]:.3g} {growth:8} grad {grads} {law:8} x1e4: {far:.3g}")
    for line in lines + ["  !! " + b for b in bad]:
        print("      " + line)
    return bad


def by_hand():
    """the softmaxes that are written by hand are softmaxes; the constrained weights keep what they promise"""
    torch.manual_seed(4)
    logits, soft, out = MODULES["logits"], MODULES["softmaxes"], MODULES["outputs"]
    x, unit, heads, merge = torch.randn(2, 16, 64).double(), logits.unit, logits.heads, logits.merge
    m = logits.FlashChunks().double()
    h = m.norm(x)
    q, k, v = map(heads, m.qkv(h).chunk(3, -1))
    y = _sdpa(unit(q) * 4 * (1 + m.gain(h).mT.unsqueeze(-1)), unit(k), v, scale=1.0)
    assert torch.allclose(m(x), x + m.o(merge(y)))
    m = logits.PowerOfTwo().double()
    q, k, v = map(heads, m.qkv(m.norm(x)).chunk(3, -1))
    assert torch.allclose(m(x), x + m.o(merge(_sdpa(unit(q), unit(k), v, scale=10 * math.log(2)))))
    m = logits.OnlineSoftmax(1).double()
    a = m.layers[0]
    q, k, v = map(heads, a.qkv(a.norm(x)).chunk(3, -1))
    assert torch.allclose(m(x), x + a.o(merge(_sdpa(a.qn(q), a.kn(k), v))))
    u = torch.randn(3, 7).double().requires_grad_(True)
    assert torch.autograd.gradcheck(soft.BackwardByHand.apply, u) and torch.allclose(soft.BackwardByHand.apply(u), u.softmax(-1))
    m = logits.SparsemaxValues().double()
    p = m.weights(torch.randn(2, 4, 16, 16).double() * 3)
    assert torch.allclose(p.sum(-1), torch.ones(()).double()) and (p >= 0).all() and (p == 0).any()
    for c in (1e-3, 1.0, 1e4):
        p = c * torch.randn(2, 64, 64).double()
        q = out.cayley(p, True)
        assert torch.allclose(q @ q.mT, torch.eye(64).double().expand_as(q), atol=1e-6)
        assert torch.linalg.matrix_norm(out.NewtonSchulz()(p[0]), 2) <= 1 + 1e-9
    print("softmaxes by hand, rotations and projections are what they claim to be")


def search_shared(build):
    base = seeded(1, lambda: build(1)).double()
    best, first = [0.0, 0.0], [None, None]
    for c in (1.0, 1e2, 1e4):
        block = copy.deepcopy(base)
        with torch.no_grad():
            for _, p in weights("SharedKeys", block):
                p.mul_(c)
            x = inputs("SharedKeys", 64)["x"]
            got = sizes("SharedKeys", lambda x: block(x) - x, x)
            for i in (0, 1):
                first[i] = got[i].item() if first[i] is None else first[i]
                best[i] = max(best[i], got[i].item())
    return best, first, ["scale", "scale"], 0


MODULES_OF = {name: module for module in MODULES.values() for name in getattr(module, "TRUTH", {})}


if __name__ == "__main__":
    by_hand()
    args = [a for a in sys.argv[1:] if not a.startswith("-")]
    bad, count, start = {}, 0, time.time()
    for file, module in MODULES.items():
        for name, truth in module.TRUTH.items():
            if args and file not in args and name not in args:
                continue
            count += 1
            found = check(name, truth, getattr(module, name), "-v" in sys.argv)
            if found:
                bad[name] = found
    print(f"{count} cases, {time.time() - start:.0f} s")
    for name, found in bad.items():
        print(name, *found, sep="\n    ")
    print("all truths hold" if not bad else f"{len(bad)} cases FAIL")
