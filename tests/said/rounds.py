"""Every sixth block of the adversarial rounds, three of it on each other: what is derived and said of what others wrote in styles of their own."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph.target import parse
from tests.adversary.score import files, truths
from tests.said.models import derived, judged
from tests.said.plain import plain

EVERY, DEPTH, LAST = 6, 3, 27
LEFT_OUT = frozenset({
    "round1/streams: BoostedStreams", "round11/mixed_a: DeltaRuleRawKeys", "round12/engineers: T5Like", "round12/stacks: DenseWeighted",
    "round13/blocks: LibraryPostNorm", "round13/blocks: LucidLayer", "round13/blocks: SoftmaxOverHeads", "round13/models: RunningMeanOfLayers",
    "round14/models_a: Translator", "round16/blocks_b: OrthogonalizedMaps", "round17/models: CrossNetwork", "round18/stacks: Hourglass",
    "round19/near: DeltaKeysFree", "round19/rare: TiedPairs", "round20/attend: LatentFromStream", "round20/scans: StateDualityRaw",
    "round20/scans: SurpriseMemory", "round22/recurrent: GruReadsSum", "round22/whole: TranslationStack", "round23/latents: DoubleStreamBlock",
    "round23/whole: LoopedSandwich", "round23/whole: UnrolledShrinkage", "round24/odd: TokenSweep", "round24/published: CrossScan",
    "round24/published: PolicyUnitFilmOnSum", "round25/fields: CrossStage", "round25/variants: LipschitzScores",
    "round27/waves: ScalePyramidLayer", "round3/ordinary: AlbertModel", "round7/mixed_c: BidirectionalGru", "round8/mixed_a: LadderResidual",
    "round8/mixed_a: ValueLambda", "round8/mixed_c: StackedParameters", "round9/mixed_c: TorchDecoder",
})  # fmt: skip
"""Models of many layers, which take seconds, and some that have no truth of their own, or a depth."""
Pieces = Mapping[str, str]


@cache
def names(path: Path) -> tuple[str, ...]:
    """The blocks of a file, which is read and not run: a file takes a while."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="TRUTH")], value=ast.Dict(keys=keys)):
                return tuple(str(k.value) for k in keys if isinstance(k, ast.Constant))
    return ()


def chosen() -> Iterator[tuple[str, Path, str]]:
    """(subject, file, class)."""
    every = [(path, name) for number in range(1, LAST + 1) for path in files(f"round{number}") for name in names(path)]
    for path, name in every[::EVERY]:
        subject = f"{path.parent.name}/{path.stem}: {name}"
        if subject not in LEFT_OUT:
            yield subject, path, name


kept = cache(truths)


def read(path: Path, name: str) -> Facts:
    """The facts of one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        depth = DEPTH if kept(path)[name]["kind"] == "block" else None
        built = build(parse(f"{path}::{name}"), set={}, inputs=(), depth=depth)[0]
        return derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))


def block(facts: Facts) -> Pieces:
    """What is said of one."""
    return {**derived(facts), "said": plain(judged(facts))}


BLOCKS: dict[str, Callable[[], Facts]] = {
    subject: lambda path=path, name=name: read(path, name) for subject, path, name in chosen()  # type: ignore[misc]
}  # fmt: skip
SUBJECTS: dict[str, Callable[[], Pieces]] = {subject: lambda of=of: block(of()) for subject, of in BLOCKS.items()}  # type: ignore[misc]

__all__ = ["BLOCKS", "SUBJECTS"]
