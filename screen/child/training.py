"""Which program a model is judged by where it does something else in training than in evaluation: the one that is trained.

Of the lines that ask for the mode those are answered with yes that choose another program; those that only draw (a branch that is left out at random)
stay as in evaluation, where each stands for its mean.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy

from screen.capture.build.built import Built
from screen.capture.build.random_state import seeded
from screen.capture.trace.convert import shape_of
from screen.capture.trace.random_draws import same
from screen.capture.trace.tracer import trace
from screen.capture.trace.training import Line, watched
from screen.graph import Graph

FIRST, SECOND = 0, 1
"""Seeds of random numbers in Python while it is traced as in training: what depends on them is no program of its own."""
USUAL, LARGE = 0.5, 0.99
"""What `random.random()` gives in the two."""
NAMED = 3
"""Lines that a note names."""
LARGEST = 20_000
"""Nodes that are traced to look at lines one by one; where it would be more all lines are answered alike."""
EVALUATION = "judged as in evaluation"


def in_training(built: Built, evaluated: Graph) -> tuple[Built, Graph]:
    """The model and its graph as in training, with a note, where that is another program; else both as they were given, with the note why it is not
    known."""
    note, runs = "", Runs(built)
    graph = runs.of(None)
    if graph.failure is not None:
        note = f"as in training its forward raised {graph.failure.message} (line {graph.failure.line}): {EVALUATION}"
    elif not same(evaluated, graph) and not same(runs.of(()), graph):  # the first run may leave things behind
        lines = _deciding(runs, len(evaluated.nodes))
        graph = runs.of(lines)
        if (runs.drawn and shape_of(graph) != shape_of(Runs(built, SECOND).of(lines))) or _guesses(graph) > _guesses(evaluated):
            note = f"as in training random numbers decide what it does ({_words(lines)}): {EVALUATION}"
        else:
            note = f"it does something else in training than in evaluation ({_words(lines)}): judged as in training"
            evaluated = graph
    return replace(built, info=replace(built.info, notes=(*built.info.notes, *filter(None, (note,))))), evaluated


@dataclass
class Runs:
    """The model traced with some lines told that it is in training, once for each choice of lines."""

    built: Built
    seed: int = FIRST
    lines: tuple[Line, ...] = ()
    """Of all runs so far, those whose answer may decide something."""
    drawn: bool = False
    """Whether a run took random numbers of Python or numpy, which it may have decided by."""
    _known: dict[tuple[Line, ...] | None, Graph] = field(default_factory=dict)

    def of(self, yes: tuple[Line, ...] | None) -> Graph:
        """The graph with these lines told so (None: all)."""
        if yes not in self._known:
            with seeded(self.seed), mock.patch.object(random, "random", self._random), watched(yes) as reads:
                before = _state()
                self._known[yes] = trace(self.built.model, self.built.args, self.built.kwargs, initialisers=self.built.initialisers)
                self.drawn |= _state() != before
            self.lines = tuple(dict.fromkeys((*self.lines, *reads.lines)))
        return self._known[yes]

    def _random(self) -> float:
        """Of what is left out at random in few runs nothing is."""
        self.drawn = True
        return USUAL if self.seed == FIRST else LARGE


def _state() -> tuple[object, ...]:
    return random.getstate(), str(numpy.random.get_state())


def _deciding(runs: Runs, nodes: int) -> tuple[Line, ...]:
    """The lines that choose another program by themselves, if the program that they give together is the one in training; else all."""
    lines = runs.lines
    if len(lines) > 1 and nodes * len(lines) <= LARGEST:
        alone = tuple(line for line in lines if not same(runs.of(()), runs.of((line,))))
        if alone and same(runs.of(alone), runs.of(None)):
            return alone
    return lines


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
