"""Which program a model is judged by where it does something else in training than in evaluation: the one that is trained.

Of the lines that ask for the mode those are answered with yes that choose another program; those that only draw (a branch that is left out at random)
stay as in evaluation, where each stands for its mean.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from unittest import mock

from screen.capture.build.built import Built
from screen.capture.build.random_state import seeded
from screen.capture.trace.convert import shape_of
from screen.capture.trace.random_draws import same
from screen.capture.trace.tracer import trace
from screen.capture.trace.training import Line, Reads, watched
from screen.graph import Graph

FIRST, SECOND = 0, 1
"""Seeds of random numbers in Python while it is traced as in training: what depends on them is no program of its own."""
NAMED = 3
"""Lines that a note names."""
SINGLY = 8
"""Lines that are looked at one by one; where there are more of them all are answered alike."""
EVALUATION = "judged as in evaluation"


def in_training(built: Built, evaluated: Graph) -> tuple[Built, Graph]:
    """The model and its graph as in training, with a note, where that is another program; else both as they were given, with the note why it is not
    known."""
    note = ""
    graph, reads = _traced(built, None)
    if graph.failure is not None:
        note = f"as in training its forward raised {graph.failure.message} (line {graph.failure.line}): {EVALUATION}"
    elif not same(evaluated, graph):
        lines = _deciding(built, evaluated, graph, reads)
        graph, _ = _traced(built, lines)
        again, _ = _traced(built, lines, SECOND)
        if shape_of(graph) != shape_of(again) or _guesses(graph) > _guesses(evaluated):
            note = f"as in training random numbers decide what it does ({_words(lines)}): {EVALUATION}"
        else:
            note = f"it does something else in training than in evaluation ({_words(lines)}): judged as in training"
            evaluated = graph
    return replace(built, info=replace(built.info, notes=(*built.info.notes, *filter(None, (note,))))), evaluated


def _deciding(built: Built, evaluated: Graph, trained: Graph, reads: Reads) -> tuple[Line, ...]:
    """The lines that choose another program by themselves, if the program that they give together is the one in training; else all."""
    lines = tuple(reads.lines)
    if 1 < len(lines) <= SINGLY:
        alone = tuple(line for line in lines if not same(evaluated, _traced(built, (line,))[0]))
        if alone and same(_traced(built, alone)[0], trained):
            return alone
    return lines


def _traced(built: Built, yes: Iterable[Line] | None, seed: int = FIRST) -> tuple[Graph, Reads]:
    with seeded(seed), mock.patch.object(random, "random", lambda: 0.5), watched(yes) as reads:
        return trace(built.model, built.args, built.kwargs, initialisers=built.initialisers), reads


def _guesses(graph: Graph) -> int:
    """Values that were guessed and decide what runs: with draws in them nobody knows them."""
    return sum(g.decides for g in graph.guesses)


def _words(lines: tuple[Line, ...]) -> str:
    named = [f"{os.path.basename(file)}:{line}" for file, line in lines[:NAMED]]
    return ", ".join(named) + (f" and {len(lines) - NAMED} more" if len(lines) > NAMED else "")


def as_traced(trained: Mapping[str, Sequence[Line]], name: str) -> AbstractContextManager[object]:
    """While this runs, the model of this name does what its graph does. `trained`: `Graph.training` of models that are judged as in training."""
    return watched(tuple((file, line) for file, line in trained[name])) if name in trained else nullcontext()


__all__ = ["as_traced", "in_training"]
