"""Measures every truth of streams.py, depth.py and starts.py in float64 and compares. No analyser is imported.

python check_truth_a.py [file ...]
"""

import importlib
import math
import os
import sys

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

DEPTHS = (12, 24, 48, 96)
KEYS = {"kind", "why", "identity_gain", "growth_fixed", "growth_all", "gradient_law", "output_bounded", "logits_bounded", "softmax", "tempts"}


class Chain(nn.Module):
    def __init__(self, cls, depth):
        super().__init__()
        self.blocks = nn.ModuleList(cls() for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def build(cls, truth, depth, seed=0):
    torch.manual_seed(seed)
    return Chain(cls, depth) if truth["kind"] == "block" else cls(depth=depth)


def data(file, seed=0, scale=1.0):
    torch.manual_seed(1000 + seed)
    return file.example_inputs()[0].double() * scale


def rms(x):
    return x.square().mean(-1).sqrt().mean().item()


def is_weight(owner, p):
    """Matrices, tables and biases, but not the affine of a norm nor a vector or scalar on the stream."""
    if isinstance(owner, (nn.LayerNorm, nn.RMSNorm)):
        return False
    return isinstance(owner, nn.Linear) or p.ndim >= 2


def weights(model):
    for owner in model.modules():
        for name, p in owner.named_parameters(recurse=False):
            if is_weight(owner, p) and name != "raw":
                yield p


# ---- identity gain


def measured_gain(cls, truth, file):
    depth = 24
    model = build(cls, truth, depth)
    lanes = [p for l in model.modules() if isinstance(l, nn.ParameterList) for p in l]
    with torch.no_grad():
        for p in weights(model):
            if not any(p is q for q in lanes):
                p.zero_()
        n, t, d = 1, *file.example_inputs()[0].shape[1:]
        basis = torch.eye(t * d).reshape(t * d, t, d)
        seen = []
        for m in (STREAM[cls.__name__](model) if cls.__name__ in STREAM else ()):
            m.register_forward_hook(lambda m, i, o: seen.append(i[0]))

        def run(x):
            y = model(x)
            return seen[-1] if seen else y

        out = torch.cat([run(chunk) for chunk in basis.split(256)])
        probe = data(file)
        lin = torch.einsum("btd,btdk->bk", probe, out.reshape(t, d, t * d).expand(2, -1, -1, -1)).reshape(probe.shape)
        scale = lin.abs().max().clamp(min=1e-300)
        deviation = ((run(probe) - lin).abs().max() / scale).item()
        return torch.linalg.matrix_norm(out.reshape(t * d, t * d), 2).item(), deviation


# ---- laws


def sizes(cls, truth, file, seeds=2, weight_scale=None, input_scale=1.0, depths=DEPTHS, stream=None):
    total = {n: 0.0 for n in depths}
    for seed in range(seeds):
        x = data(file, seed, input_scale)
        if truth["kind"] == "block":
            model = build(cls, truth, max(depths), seed)
            if weight_scale:
                rescale(model, weight_scale, seed)
            with torch.no_grad():
                for i, block in enumerate(model.blocks, 1):
                    x = block(x)
                    if i in total:
                        total[i] += math.log(rms(x)) / seeds
        else:
            for n in depths:
                model = build(cls, truth, n, seed)
                if weight_scale:
                    rescale(model, weight_scale, seed)
                seen = []
                if stream:
                    handles = [m.register_forward_hook(lambda m, i, o: seen.append(i[0])) for m in stream(model)]
                with torch.no_grad():
                    out = model(x)
                total[n] += math.log(rms(seen[-1] if stream else out)) / seeds
    return [math.exp(total[n]) for n in depths]


def rescale(model, scale, seed=0):
    torch.manual_seed(77 + seed)
    with torch.no_grad():
        for p in weights(model):
            p.add_(torch.randn_like(p) * 0.1).mul_(scale)


def law_of_growth(s):
    a, b = math.log(s[2] / s[1]), math.log(s[3] / s[2])
    if b > 1.0 and b > 1.6 * a:
        return "exponential"
    if b < 0.12:
        return "bounded"
    slope = b / math.log(2)
    return "linear" if slope < 1.3 else "polynomial"


def groups(model, depth):
    lists = [m for m in model.children() if isinstance(m, (nn.ModuleList, nn.ParameterList)) and len(m) == depth]
    out = []
    for i in range(depth):
        ps = []
        for l in lists:
            ps += [l[i]] if isinstance(l[i], nn.Parameter) else list(l[i].parameters())
        out.append(ps)
    return out


def ratio(cls, truth, file, depth, seed):
    model = build(cls, truth, depth, seed)
    x = data(file, seed)
    y = model(x)
    torch.manual_seed(5)
    (y * torch.randn_like(y)).sum().backward()
    norm = [math.sqrt(sum(p.grad.square().sum().item() for p in g if p.grad is not None)) for g in (groups(model, depth)[i] for i in (0, -1))]
    return math.log(norm[0] / norm[1]) if norm[0] > 0 and norm[1] > 0 else float("nan")


def ratios(cls, truth, file, seeds=5):
    return [sum(ratio(cls, truth, file, n, s) for s in range(seeds)) / seeds for n in DEPTHS]


def law_of_gradient(r):
    if max(map(abs, r)) <= math.log(3):
        return "flat"
    a, b = r[2] - r[1], r[3] - r[2]
    if abs(r[3]) > math.log(30) and abs(b) > 1.6 * abs(a):
        return "exponential"
    return "power" if abs(b) < 1.5 * abs(a) + 0.2 else "?"


# ---- outputs of branches and logits: modules (or functions of x) by name, in data-flow order

BRANCHES = {
    "BackAndForth": ("attn", "ffn"), "BothSums": ("attn", "ffn"), "BothSumsMinusOne": ("attn", "ffn"), "InPlaceQuarters": ("a", "b"),
    "ExtrapolatingLerp": ("out_norm",), "ChannelDecay": ("out_norm",), "SawtoothOut": (lambda m, x: m(x) - x,),
    "ConvexPotential": (lambda m, x: m(x) - x,), "SkewEuler": (lambda m, x: m(x) - x,), "CayleyStream": ("norm",), "HalfPostNorm": ("out",),
    "BiasBehindNorm": (lambda m, x: m(x) - x,), "NormedValues": (lambda m, x: m(x) - x,), "RunningMean": ("ffns.0",), "InitialBlend": ("layers.0.post",),
    "RisingSteps": ("post.0",), "CompoundSteps": ("post.0",), "NormEverySix": ("bodies.0",), "ZeroGainOut": ("out",), "SigmoidSkip": ("out",),
    "OrthogonalSkip": ("out",), "SharedOut": ("out",), "DepthScaledOut": ("blocks.0.mlp",),
    "LoudEmbedding": ("blocks.0",), "OverwrittenStart": ("blocks.0.mlp",), "DeepNormed": ("mlps.0",),
    "RampScale": (lambda m, x: m(x) - x,), "FullRampScale": (lambda m, x: m(x) - x,),
    "LayerScaled": (lambda m, x: m(x) - x,), "UnusedNorm": (lambda m, x: m(x) - x,), "GhostBranch": (lambda m, x: m(x) - x,),
}
DEFAULT = ("ffn", "body", "mix", "mlp", "bodies.0", "mlps.0", "layers.0")


def branch_sizes(cls, truth, file, name, index):
    names = BRANCHES.get(name)
    worst = []
    for weight_scale, input_scale in ((1, 1), (1, 1e4), (1e2, 1), (1e2, 1e4), (1e4, 1), (1e4, 1e4)):
        torch.manual_seed(0)
        model = cls() if truth["kind"] == "block" else cls(depth=2)
        rescale(model, weight_scale)
        with torch.no_grad():
            for n, p in model.named_parameters():  # free vectors that are no affine of a norm and no LayerScale
                if n.endswith("offset"):
                    p.add_(weight_scale)
                if name == "RampScale":
                    p.add_(1.0) if n == "alpha" else None
        x = data(file, 0, input_scale)
        got = []
        if names is None:
            mods = dict(model.named_modules())
            target = next(mods[n] for n in DEFAULT if n in mods)
        elif callable(names[index]):
            with torch.no_grad():
                worst.append((names[index](model, x)).square().mean(-1).sqrt().max().item())
            continue
        else:
            target = dict(model.named_modules())[names[index]]
        handle = target.register_forward_hook(lambda m, i, o: got.append(o))
        with torch.no_grad():
            model(x)
        handle.remove()
        worst.append(got[0].square().mean(-1).sqrt().max().item())
    return worst


def logits_unbounded(cls, truth, file):
    """Largest logit at weights x 1 and x 1e2."""
    out = []
    for scale in (1, 1e2):
        torch.manual_seed(0)
        model = cls()
        rescale(model, scale)
        got, real = [], torch.Tensor.softmax
        torch.Tensor.softmax = lambda t, *a, **k: (got.append(t.abs().max().item()), real(t, *a, **k))[1]
        try:
            with torch.no_grad():
                model(data(file))
        finally:
            torch.Tensor.softmax = real
        out.append(got[0])
    return out


def sees_softmax(cls, truth, file):
    from torch.overrides import TorchFunctionMode

    names = []

    class Spy(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    with Spy(), torch.no_grad():
        (cls() if truth["kind"] == "block" else cls(depth=4))(data(file))
    return any("softmax" in n or "attention" in n for n in names)


def bound_over_weights(cls, truth, file, claim):
    """Sizes at weights x 1e4, drawn anew: the claimed form has to hold with constants that are free of the weights."""
    if claim == "exponential":
        grown = [sizes(cls, truth, file, 1, w, 10.0) for w in (1, 1e4)]
        return all(law_of_growth(s) == "exponential" for s in grown), grown[-1]
    bad, last = False, None
    for w in (1e-2, 1, 1e2, 1e4):
        last = sizes(cls, truth, file, 1, w)
        start = rms(data(file))
        for n, s in zip(DEPTHS, last):
            limit = {"bounded": 35.0, "linear": 3 * start + 1.5 * n, "polynomial": 3 * start + n ** 2}[claim]
            bad = bad or not s <= limit
    return not bad, last


STREAM = {"CollectedNorms": lambda m: m.taps}


def check(file, name):
    cls, truth = getattr(file, name), file.TRUTH[name]
    faults, notes = [], []
    if set(truth) - KEYS:
        faults.append(f"odd keys {set(truth) - KEYS}")
    x = data(file)
    for device_first in (True, False):
        torch.set_default_dtype(torch.float32)
        if device_first:
            with torch.device("meta"):
                cls()(torch.randn(x.shape))
        else:
            cls().to("meta")(torch.empty(x.shape, device="meta"))
        torch.set_default_dtype(torch.float64)
    want = truth.get("identity_gain")
    if want is not None:
        gain, deviation = measured_gain(cls, truth, file)
        notes.append(f"gain {gain:.6g}")
        if abs(gain / want - 1) > 1e-6 or deviation > 1e-6:
            faults.append(f"identity_gain {gain!r} (not linear by {deviation:.1e}), said {want!r}")
    s = sizes(cls, truth, file, stream=STREAM.get(name))
    law = law_of_growth(s)
    notes.append("rms " + " ".join(f"{v:.3g}" for v in s))
    notes.append(law)
    if truth.get("growth_fixed") and law != truth["growth_fixed"]:
        faults.append(f"growth_fixed {law}, said {truth['growth_fixed']}")
    if truth.get("growth_all"):
        ok, seen = bound_over_weights(cls, truth, file, truth["growth_all"])
        notes.append("all " + " ".join(f"{v:.3g}" for v in seen))
        if not ok:
            faults.append(f"growth_all is not {truth['growth_all']}")
    r = ratios(cls, truth, file)
    law = law_of_gradient(r)
    notes.append("grad " + " ".join(f"{math.exp(v) if abs(v) < 700 else v:.3g}" for v in r))
    notes.append(law)
    if truth.get("gradient_law") and law != truth["gradient_law"]:
        faults.append(f"gradient_law {law}, said {truth['gradient_law']}")
    for key, said in (truth.get("output_bounded") or {}).items():
        sizes_of = branch_sizes(cls, truth, file, name, int(key))
        notes.append(f"F{key} {max(sizes_of):.2g}")
        if (max(sizes_of) < 50) != said:
            faults.append(f"output_bounded[{key}] sizes {sizes_of}, said {said}")
    for key, said in (truth.get("logits_bounded") or {}).items():
        u = logits_unbounded(cls, truth, file)
        if (u[1] < 50 * max(u[0], 1)) != said:
            faults.append(f"logits_bounded[{key}] {u}, said {said}")
    if truth.get("softmax") is not None and sees_softmax(cls, truth, file) != truth["softmax"]:
        faults.append("softmax")
    return faults, notes


def main():
    bad = 0
    total = 0
    for file_name in sys.argv[1:] or ("streams", "depth", "starts"):
        file = importlib.import_module(file_name.removesuffix(".py"))
        for name in file.TRUTH:
            try:
                faults, notes = check(file, name)
            except Exception as error:
                faults, notes = [f"{type(error).__name__}: {error}"], []
            total += 1
            bad += bool(faults)
            print(f"{file_name}.{name:20s} {'ok ' if not faults else 'BAD'} {' | '.join(notes)}", flush=True)
            for fault in faults:
                print("      ", fault)
    print(f"{total} cases; " + ("all truths hold" if not bad else f"{bad} CONTRADICTED"))
    return bad


if __name__ == "__main__":
    sys.exit(bool(main()))
