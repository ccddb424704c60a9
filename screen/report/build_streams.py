"""Streams, kinds and sublayers of the facts as parts of the report. Nothing is decided here: `Unknown` becomes null or `unknown`."""

from __future__ import annotations

from typing import Literal

from screen.facts.queries import has_identity_path, measured_gain
from screen.facts.record import Facts
from screen.report import schema
from screen.report.build_calculi import (
    degree_parts,
    growth_part,
    initialisation_part,
    lipschitz_part,
    logits_part,
    maps_part,
    output_set_part,
    symbol_parts,
)  # fmt: skip
from screen.report.paths import relative
from screen.structure.types import Kind, Norm, Place, Scale, Stream, Sublayer, Tri, Unknown


def _tri(value: Tri) -> bool | None:
    return None if isinstance(value, Unknown) else value


def _word(value: object) -> Literal["yes", "no", "partly", "unknown"]:
    if isinstance(value, Unknown):
        return "unknown"
    return "partly" if value == "partly" else "yes" if value else "no"


def _yes_no(value: Tri) -> Literal["yes", "no", "unknown"]:
    return "unknown" if isinstance(value, Unknown) else "yes" if value else "no"


def source_part(place: Place, root: str) -> schema.Source:
    return schema.Source(file=relative(place.file, root), line=place.line or None, module=place.module)


def stream_part(facts: Facts, stream: Stream, root: str) -> schema.StreamPart:
    """One stream with all that was derived of its sublayers."""
    identity, gain = stream.identity, measured_gain(facts, stream)
    refuted = {c.claim for c in facts.claims if c.stream == stream.name and c.is_refuted}
    return schema.StreamPart(
        name=stream.name,
        role=stream.role,
        width=stream.width,
        depth=stream.depth,
        copies=stream.copies,
        branches=sum(k.count * len(k.sublayers) for k in stream.kinds),
        dtype=stream.dtype,
        embed_norm=_tri(stream.embed_norm),
        embed_scale=_tri(stream.embed_scale),
        embed_factor=stream.embed_factor,
        final_norm=_tri(stream.final_norm),
        pooled_norm=stream.pooled_norm,
        identity_path=schema.IdentityPathPart(
            exists=_tri(has_identity_path(facts, stream)),
            gain=identity.gain if gain is None or identity.gain is not None else f"{gain:.3g} (measured)",
            norms_crossed=identity.norms_crossed,
            breaks=[source_part(p, root) for p in {(p.file, p.line, p.module): p for p in identity.breaks}.values()],
        ),
        long_skips=[source_part(skip.place, root) for skip in stream.long_skips],
        kinds=[_kind(facts, k, root) for k in stream.kinds],
        initialisation=initialisation_part(facts.recursion(stream), refuted),
    )


def _kind(facts: Facts, kind: Kind, root: str) -> schema.KindPart:
    subs = [_sublayer(facts, s, root) for s in kind.sublayers]
    return schema.KindPart(id=kind.id, count=kind.count, layers=list(kind.layers), module=kind.module, sublayers=subs)


def _sublayer(facts: Facts, s: Sublayer, root: str) -> schema.SublayerPart:
    return schema.SublayerPart(
        name=s.name,
        role=s.role,
        placement=s.placement,
        positions=list(s.positions),  # type: ignore[arg-type]  # letters are checked by pydantic
        norm_type=s.norm_type,
        norms=[_norm(position, norm, root) for position, norm in s.norms],
        qk_norm=None if isinstance(s.qk_norm, Unknown) else s.qk_norm,
        q_norm=None if isinstance(s.q_norm, Unknown) else s.q_norm,
        k_norm=None if isinstance(s.k_norm, Unknown) else s.k_norm,
        v_norm=_tri(s.v_norm),
        parallel_group=s.parallel_group,
        ports=[schema.Port(name=p.name, normed=_word(p.normed), stream=p.stream) for p in s.ports],
        residual=_residual(s),
        depends_on_stream=_yes_no(s.depends_on_stream),
        normed_skip=s.normed_skip,
        norm_on_skip=s.norm_on_skip,
        adds_norm=s.adds_norm,
        unknown=[u.reason for u in s.unknown],
        m=maps_part(facts, s),
        degrees=degree_parts(facts, s),
        output_set=output_set_part(facts, s),
        growth=growth_part(facts, s),
        lipschitz=lipschitz_part(facts, s),
        logits=logits_part(facts, s),
        symbols=symbol_parts(facts, s),
        source=source_part(s.place, root),
    )


def _norm(position: str, norm: Norm, root: str) -> schema.NormPart:
    return schema.NormPart(
        position=position,  # type: ignore[arg-type]  # checked by pydantic
        type=norm.name,
        centred=norm.centred,
        axes=list(norm.axes),
        size=norm.size,
        eps=norm.eps,
        source=source_part(norm.place, root),
    )


def _residual(s: Sublayer) -> schema.Residual:
    kinds = {s.alpha.kind, s.branch.kind}
    kind = next(k for k in ("learned", "constant", "data", "none") if k in kinds)
    constants = [x.value for x in (s.alpha, s.branch) if x.kind == "constant"]
    return schema.Residual(
        kind=kind,
        alpha=_multiplier(s.alpha),
        branch=_multiplier(s.branch),
        alpha_kind=s.alpha.kind,
        branch_kind=s.branch.kind,
        no_op=kind == "constant" and all(v == 1.0 for v in constants),
        parameters=list(dict.fromkeys([*s.alpha.parameters, *s.branch.parameters])),
        gated=s.gated_output,
    )


def _multiplier(scale: Scale) -> float | None:
    if scale.kind == "none":
        return 1.0
    return scale.value if scale.kind == "constant" else scale.init


__all__ = ["source_part", "stream_part"]
