"""Parts of a report in words, for every format that people read. Nothing here knows a format, and nothing escapes for one."""

from __future__ import annotations

from collections.abc import Iterable

from screen.report import derived
from screen.report.numbers import number as number
from screen.report.schema import (
    ClaimPart, Condition, FindingPart, IdentityPathPart, KindPart, MapsPart, NormPart, Report, Residual, StreamPart, SublayerPart,
)  # fmt: skip
from screen.verdict.summary import NORMS, ROLES

PLACEMENTS = {"output_only": "output-only", "pre_post": "pre + post"}
POSITIONS = {"A": "A", "A2": "A²", "S": "S", "B": "B", "C": "C"}
MEANING = {
    "A": "norm on the branch's input",
    "A2": "norm on queries and keys",
    "S": "norm inside the branch",
    "B": "norm on the branch's output",
    "C": "norm on the sum, carried on by the stream",
}
QK = {"none": "none", "per_head": "per head", "full": "full width", "cosine": "cosine", "l2": "L2"}
STATES = {"out_of_scope": "out of scope"}
OUTCOMES = {"cannot_tell": "cannot tell", "not_applicable": "not applicable"}
MET = {"met": "met", "not_met": "not met", "not_stated": "not stated"}
DERIVED = {
    "warmup": "steps of warm-up", "tokens": "tokens in all", "decay_per_step": "share of a weight that a step takes off at most",
    "first_lr": "learning rate of the first step",
}  # fmt: skip
UNUSED = 6
"""Keys that are not used and are named; the JSON names all."""
RISKS = {
    "D": "gradients over depth",
    "R": "size of activations",
    "L": "attention logits",
    "O": "output logits",
    "I": "scales at the start",
    "N": "number formats",
    "S": "first updates",
}
"""Channel -> what it is about, in plain words."""
FAILURES = {
    "D": "gradients vanish or explode over depth",
    "R": "activations grow without limit",
    "L": "attention logits grow until each token attends to one other alone",
    "O": "the logits of the head start or grow too large",
    "I": "weights start at a scale that does not fit the model",
    "N": "numbers leave the range of their type",
    "S": "the first updates are too large",
}
"""Channel -> what happens when it fails, as a clause."""
LOGITS = {
    "bounded-logits": ("attention logits", "attention logits grow until each token attends to one other alone"),
    "bounded-router": ("router logits", "router logits grow until one expert alone has each token"),
    "bounded-pooling": ("pooling logits", "the logits of a pooling grow until one value alone is read"),
    "bounded-memory": ("logits over stored values", "logits over stored values grow until one of these alone is read"),
    "small-stream-of-memory": ("logits over stored values", "logits over stored values grow until one of these alone is read"),
    "small-stream": ("attention logits", "attention logits grow until each token attends to one other alone"),
    "small-stream-of-router": ("router logits", "router logits grow until one expert alone has each token"),
    "small-stream-of-pooling": ("pooling logits", "the logits of a pooling grow until one value alone is read"),
    "bounded-weights": ("trained shares", "trained shares grow until one of them is all"),
}
"""Condition of channel L -> the logits that it is about, and what happens when they grow."""
RISK_STATES = {
    "closed": "kept in check by the code",
    "guarded": "kept in check by the recipe",
    "out_of_scope": "not judged",
    "conditional": "depends on training",
    "unknown": "could not be told",
    "open": "expected to fail",
}
"""State of a channel -> the same in plain words."""
CONDITIONS = {
    "bounded-weights": "the weights stay bounded",
    "bounded-logits": "the attention logits stay bounded",
    "bounded-router": "the router's logits stay bounded",
    "bounded-pooling": "the logits of the pooling stay bounded",
    "bounded-memory": "the logits over stored values stay bounded",
    "small-stream-of-memory": "the stream that logits over stored values are made of stays small",
    "small-stream": "the stream that attention logits are made of stays small",
    "small-stream-of-router": "the stream that the router's logits are made of stays small",
    "small-stream-of-pooling": "the stream that the pooling's logits are made of stays small",
    "warm-up": "the learning rate warms up to a low value",
    "initialisation": "it starts from the recorded initialisation",
    "other-start": "the weights that start at zero and get no gradient start at other values",
    "run-time-scale": "the scale that is set at run time fits the depth",
    "stream-gain": "what the factors on the residual stream come to over its depth does no harm",
    "learned-scale": "the learned scales that start at zero stay small",
    "small-gain": "the branches stay small beside the stream",
    "converged-iteration": "the estimated norms of weights follow the weights",
    "float16-range": "activations stay inside the range of float16",
    "final-norm": "the head reads a stream of bounded size",
    "rules-left-out": "the rules that were left out would find nothing",
    "declared-structure": "what the rules found is meant",
    "bounded-head": "the head's logits stay bounded",
    "not-stated": "what the recipe does not state is on the right side",
}
"""Condition of a verdict (`screen.verdict.conditions`) -> the same as a clause behind "if"."""
STEPS = {
    "structure": "Structure",
    "well_posedness": "Step 1, well-posedness",
    "forward": "Step 2, forward",
    "backward": "Step 3, backward",
    "uncertainty": "Step 4, uncertainty",
}


def risk(report: Report, channel: str) -> str:
    """What a channel of a report is about: L of those logits that nothing bounds, where it says of which."""
    return " and ".join(dict.fromkeys(name for name, _ in _logits(report, channel))) or RISKS.get(channel, "")


def risk_of(report: Report, finding: FindingPart) -> str:
    """What a finding is about: the risk of its channel, or that of its own logits."""
    own = LOGITS.get(finding.condition) if finding.channel == "L" else None
    return own[0] if own is not None else risk(report, finding.channel or "")


def failure(report: Report, channel: str) -> str:
    """What happens when a channel of a report fails."""
    return ", or ".join(dict.fromkeys(what for _, what in _logits(report, channel))) or FAILURES[channel]


def _logits(report: Report, channel: str) -> list[tuple[str, str]]:
    named = next((c.conditions for c in report.channels if c.id == channel == "L"), [])
    return [LOGITS[name] for name in named if name in LOGITS]


def count(value: int | None) -> str:
    """`124.4 M`."""
    if value is None:
        return "unknown number of"
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return str(value)


def yes_no(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


def spot_check(report: Report) -> list[str]:
    """What the spot check came to, then each claim that it refuted."""
    spot = report.spot_check
    if not spot.ran:
        return [f"not run, {spot.reason}"] if spot.reason else []
    claims = "claim" if spot.compared == 1 else "claims"
    head = f"{spot.compared} {claims} compared with the program on real tensors, {len(spot.refuted) or 'none'} refuted"
    return [head + (f"; {spot.reason}" if spot.reason else ""), *(refuted(c) for c in report.claims if c.id in spot.refuted)]


def refuted(claim: ClaimPart) -> str:
    """A claim that was measured otherwise."""
    site = " ".join(f"`{name}`" for name in (claim.stream, claim.sublayer or claim.group) if name)
    found = claim.measured.value if claim.measured is not None else None
    return f"{claim.claim.replace('_', ' ')}{' of ' if site else ''}{site}: said {value_of(claim.value)}, measured {value_of(found)} ({claim.id})"


def value_of(value: bool | float | str | None) -> str:
    """A value of a claim."""
    return yes_no(value) if value is None or isinstance(value, bool) else value if isinstance(value, str) else number(value)


def listed(parts: list[str], last: str = " and ", between: str = ", ") -> str:
    """`a, b and c`, each once."""
    *before, end = dict.fromkeys(parts)
    return f"{between.join(before)}{last}{end}" if before else end


def place(finding: FindingPart) -> str:
    """`file:line` of a finding, else its module; empty where neither is known."""
    return f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file or finding.module or ""


def subject(finding: FindingPart, report: Report) -> str:
    """What a finding is about: `ffn` of layers 0–5, or a stream."""
    kinds = [k for s in report.streams if s.name == finding.stream for k in s.kinds if k.id == finding.kind]
    site = [f"`{finding.sublayer}`"] if finding.sublayer else []
    site += [layers(k) for k in kinds[:1]]
    site += [f"`{finding.stream}`"] if finding.stream and (finding.stream != "stream" or not site) else []
    return " of ".join(site) or (f"`{finding.module}`" if finding.module else "another place")


def headline(report: Report) -> str:
    """The verdict in words."""
    return f"{report.verdict}{' (provisional)' if report.provisional else ''}"


def target_facts(report: Report) -> list[str]:
    """What the target is, in a few words each."""
    target = report.target
    parts = [f"{target.name}: {target.spec}" if target.name else target.spec]
    if target.parameters is not None:
        parts.append(f"{count(target.parameters)} parameters")
    if target.dtype:
        parts.append(target.dtype)
    if target.depth is not None:
        origin = {"model": "", "option": " (from --depth)", "recipe": " (from the recipe)", "assumed": " (assumed)"}[target.depth_from]
        parts.append(f"depth {target.depth}{origin}")
    parts.append("weights on meta" if target.weights == "meta" else "weights on meta, values of real ones beside them")
    parts += [f"{key} = {new}" if old is None or old == new else f"{key} {old} → {new}" for key, (old, new) in target.changed.items()]
    return parts


def condition(condition: Condition) -> str:
    """A condition, and what the recipe states of it."""
    return f"{condition.text} ({MET[condition.recipe]}: {condition.stated})" if condition.stated else condition.text


def settings(report: Report) -> str:
    """Whose settings these are, in a sentence; empty where no file says any."""
    part = report.settings
    if part is None:
        return ""
    at = part.of_tree
    files = [f"{', '.join(f'`{key}`' for key in at if at[key] == file)} from `{file}`" for file in dict.fromkeys(at.values())]
    of_tree = f"{' and '.join(files)}, which the change that is judged may have written (`--trusted-config`)" if files else ""
    if part.trusted is None:
        return of_tree
    return f"those of `{part.trusted}` count" + (f"; {of_tree}" if files else ", and none of the tree that is judged")


def recipe(report: Report) -> list[str]:
    """What is stated of the training: a line for each place that states it, one for what follows, one for what nobody reads."""
    if report.recipe is None:
        return []
    lines = []
    for origin in dict.fromkeys(report.recipe.origins.values()):
        said = [f"{name} {_setting(value)}" for name, value in report.recipe.values.items() if report.recipe.origins[name] == origin]
        lines.append(f"{', '.join(said)} ({origin})")
    if report.recipe.derived:
        lines.append("so " + ", ".join(f"{DERIVED[name]} {number(value)}" for name, value in report.recipe.derived.items()))
    if report.recipe.unused:
        more = len(report.recipe.unused) - UNUSED
        lines.append(f"not used: {', '.join(report.recipe.unused[:UNUSED])}" + (f" and {more} more" if more > 0 else ""))
    return lines or ["nothing is stated"]


def _setting(value: object) -> str:
    """A value of a recipe."""
    if isinstance(value, list):
        return f"({', '.join(_setting(v) for v in value)})"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def placement(sublayer: SublayerPart) -> str:
    return PLACEMENTS.get(sublayer.placement, sublayer.placement)


def role(sublayer: SublayerPart) -> str:
    return ROLES[sublayer.role]


def title(sublayer: SublayerPart) -> str:
    """Its name, with the role where the name does not say it: `ffn (gated FFN)`."""
    return f"{sublayer.name} ({role(sublayer)})" if role_beside(sublayer) else sublayer.name


def role_beside(sublayer: SublayerPart) -> str:
    """The role, where the name does not say it already."""
    plain = sublayer.name.rstrip("0123456789").replace("_", " ").lower()
    return "" if plain == role(sublayer).replace("-", " ").lower() else role(sublayer)


def positions(sublayer: SublayerPart) -> str:
    return " ".join(POSITIONS[p] for p in sublayer.positions) or "–"


def legend(report: Report) -> list[str]:
    """What the letters of the report mean, those that occur: `A norm on the branch's input`."""
    subs = [s for stream in report.streams for k in stream.kinds for s in k.sublayers]
    used = {p for s in subs for p in s.positions}
    found = [f"{POSITIONS[p]} {meaning}" for p, meaning in MEANING.items() if p in used]
    if any(s.residual.alpha_kind == "learned" for s in subs):
        found.append("α learned multiplier of the stream")
    if any(s.residual.branch_kind == "learned" for s in subs):
        found.append("γ learned multiplier of the branch")
    return found


def norm(part: NormPart) -> str:
    """`RMSNorm over 768, ε 1e-06`; the axes where it is not the features alone."""
    axes = "" if part.axes == [-1] else f" (axes {', '.join(map(str, part.axes))})"
    eps = "" if part.eps is None else f", ε {number(part.eps)}"
    return f"{NORMS[part.type]} over {part.size}{axes}{eps}"


def norms(sublayer: SublayerPart) -> list[str]:
    """One entry per position and norm, equal ones once: `A RMSNorm over 768, ε 1e-06`."""
    return list(dict.fromkeys(f"{POSITIONS[n.position]} {norm(n)}" for n in sublayer.norms))


def qk_norm(sublayer: SublayerPart) -> str:
    """`per head`, or both sides where they differ, and V's; `–` where there are no logits."""
    sides = [QK.get(side or "", "unknown") for side in (sublayer.qk_norm, sublayer.q_norm, sublayer.k_norm)]
    logits = sublayer.logits.bounded != "not_applicable"
    text = f"Q {sides[1]}, K {sides[2]}" if sides[1] != sides[2] else sides[0]
    if not logits and sides == ["none"] * 3:
        text = "–"
    value = " + V" if sublayer.v_norm else " + V unknown" if sublayer.v_norm is None else ""
    return text + value


def multiplier(kind: str, value: object, letter: str) -> str:
    """The factor before x or F: empty, `2.5·`, `1·`, `γ·`, `g(x)·`."""
    if kind == "constant":
        return f"{number(value)}·" if isinstance(value, float | int | str) else f"{letter}·"
    return {"none": "", "learned": f"{letter}·", "data": "g(x)·"}[kind]


def residual(part: Residual) -> str:
    """What the multipliers are, in words."""
    said = []
    for side, kind, value in (("stream", part.alpha_kind, part.alpha), ("branch", part.branch_kind, part.branch)):
        if kind == "constant":
            said.append(f"{side} × {number(value)} (constant{', no-op' if value == 1 else ''})")
        elif kind == "learned":
            said.append(f"{side} × learned" + (f", starts at {number(value)}" if value is not None else ""))
        elif kind == "data":
            said.append(f"{side} gated by the data")
    if part.gated and part.branch_kind != "data":
        said.append("output gated by the data")
    return "; ".join(said) or "none"


def formula(sublayer: SublayerPart) -> str:
    """`x ← C(2.5·x + γ·B(attention(A(x))))`: the sublayer in the notation of the theory."""
    return f"x ← {_sum([sublayer])}"


def formulas(kind: KindPart) -> list[str]:
    """One formula per residual add, in data-flow order: branches of one parallel group share one."""
    return [f"x ← {_sum(group)}" for group in groups(kind)]


def groups(kind: KindPart) -> list[list[SublayerPart]]:
    """The sublayers by residual add: those of one parallel group together."""
    found: list[list[SublayerPart]] = []
    for sublayer in kind.sublayers:
        last = found[-1][-1].parallel_group if found else None
        if sublayer.parallel_group is not None and sublayer.parallel_group == last:
            found[-1].append(sublayer)
        else:
            found.append([sublayer])
    return found


def _sum(group: list[SublayerPart]) -> str:
    carried = "C(x)" if group[0].norm_on_skip else "x"
    parts = [f"{before}{part}" for part, before in zip([carried, *map(_branch, group)], carried_by(group), strict=True)]
    text = " + ".join(parts)
    if group[0].norm_on_skip:
        return text
    return f"C({text})" if "C" in group[-1].positions else text


def beside_norm(sublayer: SublayerPart) -> str:
    """The factor of the A(x) that is added beside what the branch makes of it: empty, `-1·`, `β·`."""
    return "" if sublayer.adds_norm == 1 else multiplier("constant", sublayer.adds_norm, "β")


def carried_by(group: list[SublayerPart]) -> list[str]:
    """`0.5·` or nothing: what the state, and what each of some branches adds, is multiplied by until all are added."""
    found = [""] * (len(group) + 1)
    for n, sublayer in enumerate(group):
        own = multiplier(sublayer.residual.alpha_kind, sublayer.residual.alpha, "α")
        found = [own + before if own not in ("", "1·") or place == n == 0 else before for place, before in enumerate(found[: n + 1])] + found[n + 1 :]
    return found


def _branch(sublayer: SublayerPart) -> str:
    if sublayer.placement == "unknown":
        return f"{sublayer.name}(?)"
    inner = "A(x)" if "A" in sublayer.positions else "x"
    inside = "".join(f"[{POSITIONS[p]}]" for p in ("A2", "S") if p in sublayer.positions)
    text = f"{sublayer.name}{inside}({inner})"
    if "B" in sublayer.positions:
        text = f"B({text})"
    if sublayer.adds_norm != 0 and "A" in sublayer.positions:
        text = f"({beside_norm(sublayer)}A(x) + {text})"
    gate = "g(x)·" if sublayer.residual.gated and sublayer.residual.branch_kind != "data" else ""
    return f"{multiplier(sublayer.residual.branch_kind, sublayer.residual.branch, 'γ')}{gate}{text}"


def path_of(part: MapsPart) -> str:
    """What its path lists: factors of the largest product, one of which may be a filter of each channel or stand there more than once, or weights."""
    return "weights" if part.degree is None else "largest product"


def names(path: list[str]) -> str:
    """Dotted names with what they share said once: `h.0.attn.{c_attn, c_proj}.weight`."""
    parts = [p.split(".") for p in path]
    short = min(len(p) for p in parts) - 1 if parts else 0
    head = next((i for i in range(short) if len({p[i] for p in parts}) > 1), short)
    tail = next((i for i in range(short - head) if len({p[-1 - i] for p in parts}) > 1), short - head)
    if len(parts) < 2 or not head + tail:
        return ", ".join(path)
    middle = ", ".join(".".join(p[head : len(p) - tail]) for p in parts)
    return "".join(f"{w}." for w in parts[0][:head]) + "{" + middle + "}" + "".join(f".{w}" for w in parts[0][len(parts[0]) - tail :])


def layers(kind: KindPart) -> str:
    """`layer 3`, `layers 0–11`, `layers 0–2, 5`."""
    numbers = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in kind.layers)
    return f"layer {numbers}" if kind.count == 1 else f"layers {numbers}"


def blocks(stream: StreamPart) -> str:
    each = stream.depth // stream.copies
    return f"{each} block{'' if each == 1 else 's'}" + (f" in each of {stream.copies} branches" if stream.copies > 1 else "")


def identity(path: IdentityPathPart) -> str:
    if path.exists is None:
        return "unknown"
    if path.exists:
        return f"yes, gain {path.gain or '?'}"
    if path.norms_crossed:
        return f"no, every path crosses {path.norms_crossed} norm{'' if path.norms_crossed == 1 else 's'}"
    return "no, it is broken by something else than a norm" if path.breaks else "no"


def whole_gain(report: Report) -> str:
    """The gain of the model along all identity paths together, where that of no stream is it; empty where there is nothing to say."""
    told = next((c for c in report.claims if c.claim == "identity_gain" and c.stream is None), None)
    if told is None:
        return ""
    refuted = told.measured is not None and told.measured.agrees is False
    if told.status == "unknown" or refuted or not isinstance(told.value, int | float) or isinstance(told.value, bool):
        return f"not known{f': {told.reason}' if told.reason else ''}"
    beside = next((c for c in report.claims if c.claim == "growth" and c.stream is None and c.status == "unknown"), None)
    return f"{told.value:.4g}, where each stream has its own{f'; how all that is handed on grows is not known: {beside.reason}' if beside else ''}"


def stream_facts(stream: StreamPart, claims: Iterable[ClaimPart] = ()) -> list[tuple[str, str]]:
    """The facts of a whole stream as (label, value); `claims`: of the report, which hold what was measured where nothing is derived."""
    begun = stream.initialisation
    facts = [
        ("identity path", identity(stream.identity_path)),
        ("embedding norm (E)", yes_no(stream.embed_norm)),
        ("embedding scale", yes_no(stream.embed_scale) + (f", × {stream.embed_factor:.4g}" if stream.embed_factor is not None else "")),
        ("final norm (F)", "on the mean over places" if stream.pooled_norm else yes_no(stream.final_norm)),
        ("long skips", str(len(stream.long_skips)) if stream.long_skips else "none"),
        ("at initialisation", derived.start(begun) if begun is not None else derived.measured_start(stream.name, claims)),
    ]
    return facts


def ports(sublayer: SublayerPart, stream: StreamPart) -> str:
    """What feeds the branch besides its main input; empty when there is nothing to say. A port named like its stream has no better name; what the
    stream holds already may be an earlier branch's, or a condition that all blocks read."""
    fed = [p for p in sublayer.ports if p.name != "x" or p.normed == "partly"]
    normed = {"yes": "normed", "no": "no norm before its first map", "partly": "normed in part", "unknown": "not known whether normed"}
    named = {"earlier": "what earlier branches made or read"}
    fed_by = [named.get(p.name, p.name) if p.stream in (p.name, stream.name, "stream") else f"{p.name} from {p.stream}" for p in fed]
    return "; ".join(f"{name} ({normed[p.normed]})" for name, p in zip(fed_by, fed, strict=True))


def remarks(sublayer: SublayerPart, stream: StreamPart) -> list[str]:
    """What a table has no column for."""
    found = [f"cannot tell: {reason}" for reason in sublayer.unknown]
    if sublayer.normed_skip:
        found.append("normed skip: y = N(x); x ← y + F(y)")
    if sublayer.depends_on_stream != "yes":
        found.append({"no": "does not depend on the stream", "unknown": "may not depend on the stream"}[sublayer.depends_on_stream])
    if fed := ports(sublayer, stream):
        found.append(f"fed by {fed}")
    return found


def reproduce(report: Report) -> str:
    """The command that makes this report again."""
    if report.target.kind == "object":
        return f'screen.check(model)  # a live {report.target.model_class or "module"}'
    return " ".join(["screen check", _quote(report.target.spec), *(_quote(o) for o in report.target.options)])


def _quote(word: str) -> str:
    safe = all(c.isalnum() or c in "@%+=:,./_-" for c in word) and word
    return word if safe else "'" + word.replace("'", "'\"'\"'") + "'"
