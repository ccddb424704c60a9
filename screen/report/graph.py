"""`screen graph`: the residual streams as text, Mermaid, DOT, JSON or GraphML, from a report.

The text is a tree: stream, kinds with their layers, and for every sublayer its formula and what stands at each position.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Literal

from screen.report import groups, words
from screen.report.picture import Picture, draw
from screen.report.schema import KindPart, Report, Reports, Source, StreamPart, SublayerPart
from screen.visible import clean, quoted

Format = Literal["text", "mermaid", "dot", "json", "graphml"]


def render(report: Report | Reports, format: Format = "text") -> str:
    """The streams of the report, with a line feed at the end. Raises `KeyError` for a format that does not exist."""
    reports = report.reports if isinstance(report, Reports) else [report]
    return WRITERS[format](reports)


def each_kind(reports: Iterable[Report]) -> Iterator[tuple[Report, StreamPart, KindPart]]:
    """Every kind of every stream of every report, in order."""
    for report in reports:
        for stream in report.streams:
            for kind in stream.kinds:
                yield report, stream, kind


def _text(reports: list[Report]) -> str:
    return "\n".join("\n".join(_report_lines(r)) + "\n" for r in reports)


def _report_lines(report: Report) -> Iterator[str]:
    yield clean(report.summary)
    if not report.streams:
        yield "└─ no residual stream"
    for i, stream in enumerate(report.streams):
        last = i == len(report.streams) - 1
        head = f"stream {stream.name}, width {words.number(stream.width)}, {words.blocks(stream)}, {stream.dtype}"
        yield ("└─ " if last else "├─ ") + clean(head)
        pad = "   " if last else "│  "
        for line in _stream_lines(stream):
            yield pad + line


def _stream_lines(stream: StreamPart) -> Iterator[str]:
    embed = [text for text, there in (("embedding norm (E)", stream.embed_norm), ("embedding scale", stream.embed_scale)) if there]
    yield "├─ " + ("start: " + ", ".join(embed) if embed else "start")
    for kind in stream.kinds:
        yield clean(f"├─ {kind.count}× {kind.id}, {words.layers(kind)}, {kind.module or '(root)'}")
        for i, sublayer in enumerate(kind.sublayers):
            last = i == len(kind.sublayers) - 1
            yield "│  " + ("└─ " if last else "├─ ") + clean(f"{sublayer.name}: {words.placement(sublayer)}   {words.formula(sublayer)}")
            for detail in _sublayer_lines(sublayer, stream):
                yield "│  " + ("   " if last else "│  ") + "   " + clean(detail)
    for place, times in groups.counted(stream.long_skips):
        yield clean(f"├─ long skip at {_where(place)}{times}")
    final = {True: "end: final norm (F)", False: "end: no final norm", None: "end: final norm unknown"}[stream.final_norm]
    final = "end: mean over places, then a norm" if stream.pooled_norm else final
    yield f"└─ {final}; identity path: {clean(words.identity(stream.identity_path))}"


def _sublayer_lines(sublayer: SublayerPart, stream: StreamPart) -> Iterator[str]:
    group = "" if sublayer.parallel_group is None else f", parallel group {sublayer.parallel_group}"
    role = words.role_beside(sublayer)
    yield f"{role + ', ' if role else ''}{_where(sublayer.source)}, {sublayer.source.module or '(root)'}{group}"
    yield from words.norms(sublayer)
    if (qk := words.qk_norm(sublayer)) not in ("–", "none"):
        yield f"QK-norm: {qk}"
    if (residual := words.residual(sublayer.residual)) != "none":
        yield f"residual: {residual}"
    if sublayer.m.path:
        yield f"{words.number(sublayer.m.maps)} weight maps; {words.path_of(sublayer.m)}: {words.names(sublayer.m.path)}"
    yield from words.remarks(sublayer, stream)


def _where(source: Source) -> str:
    return f"{source.file or '?'}:{source.line}" if source.line else source.file or "?"


def mermaid(picture: Picture) -> str:
    """A Mermaid flowchart; every label is quoted and its special characters are written as entities."""
    return "\n".join(["flowchart LR", *_boxes_and_arrows(picture, ""), *_marked([(picture, "")])]) + "\n"


def _boxes_and_arrows(picture: Picture, prefix: str) -> list[str]:
    shapes = {"state": '(["{}"])', "norm": '["{}"]', "branch": '[["{}"]]', "scale": '{{{{"{}"}}}}', "add": '(("{}"))'}
    lines = []
    for box in picture.boxes:
        text = "<br/>".join(_entities(line) for line in box.lines)
        lines.append(f"  {prefix}{box.id}{shapes[box.shape].format(text)}")
    for arrow in picture.arrows:
        line = "==>" if arrow.stream else "-->"
        label = f'|"{_entities(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {prefix}{arrow.tail} {line}{label} {prefix}{arrow.head}")
    return lines


def _marked(pictures: list[tuple[Picture, str]]) -> list[str]:
    normed = ",".join(prefix + b.id for picture, prefix in pictures for b in picture.boxes if b.shape == "norm")
    return ["  classDef norm fill:#d9ead3,stroke:#38761d,color:#000", f"  class {normed} norm"] if normed else []


def _entities(text: str) -> str:
    """Letters, digits, spaces and a few harmless signs stay; all else is a numeric entity, which Mermaid writes as `#35;`."""
    return "".join(c if c.isalnum() or c in " .,:²·×′αγ+=-_()?" else f"#{ord(c)};" for c in clean(text))


def _mermaid(reports: list[Report]) -> str:
    lines, pictures = ["flowchart TB"], []
    for index, (report, stream, kind) in enumerate(each_kind(reports)):
        picture, prefix = draw(stream, kind), f"k{index}"
        pictures.append((picture, prefix))
        name = f"{report.target.model_class or report.target.spec}, " if len(reports) > 1 else ""
        lines += [f'  subgraph {prefix}["{_entities(f"{name}{kind.count}× {picture.title}")}"]', "  direction LR"]
        lines += [*_boxes_and_arrows(picture, prefix), "  end"]
    return "\n".join([*lines, *_marked(pictures)]) + "\n"


def _dot(reports: list[Report]) -> str:
    shapes = {"state": "oval", "norm": "box", "branch": "box3d", "scale": "hexagon", "add": "circle"}
    lines = ["digraph screen {", "  rankdir=LR;"]
    for index, (_, stream, kind) in enumerate(each_kind(reports)):
        picture = draw(stream, kind)
        lines += [f"  subgraph cluster_{index} {{", f"    label={_quoted(f'{kind.count}× {picture.title}')};"]
        for box in picture.boxes:
            style = ', style=filled, fillcolor="#d9ead3"' if box.shape == "norm" else ""
            lines.append(f"    c{index}{box.id} [shape={shapes[box.shape]}, label={_quoted(chr(10).join(box.lines))}{style}];")
        for arrow in picture.arrows:
            style = ", penwidth=2" if arrow.stream else ""
            lines.append(f"    c{index}{arrow.tail} -> c{index}{arrow.head} [label={_quoted(arrow.label)}{style}];")
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """A DOT string; only our own line feeds become line breaks."""
    lines = [clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'


def _json(reports: list[Report]) -> str:
    pictures = []
    for report, stream, kind in each_kind(reports):
        picture = draw(stream, kind)
        pictures.append({
            "target": report.target.spec,
            "stream": stream.name,
            "kind": kind.id,
            "count": kind.count,
            "layers": kind.layers,
            "nodes": [{"id": b.id, "shape": b.shape, "label": list(b.lines), "position": b.position or None} for b in picture.boxes],
            "edges": [{"from": a.tail, "to": a.head, "label": a.label, "stream": a.stream} for a in picture.arrows],
        })  # fmt: skip
    return quoted(json.dumps({"schema_version": "1", "kinds": pictures}, indent=2, sort_keys=True)) + "\n"


def _graphml(reports: list[Report]) -> str:
    text: str = import_module("screen.report.network").graphml(reports)  # networkx is loaded for nothing else
    return text


WRITERS: dict[str, Callable[[list[Report]], str]] = {"text": _text, "mermaid": _mermaid, "dot": _dot, "json": _json, "graphml": _graphml}


__all__ = ["Format", "WRITERS", "each_kind", "mermaid", "render"]
