"""The same stack with smaller weights: what it comes to tells whether smaller initial weights help."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.meanfield.propagate import Add, Block, Inlet, Stack
from screen.calculi.meanfield.transfer import Linear


def smaller(stack: Stack, times: float) -> Stack:
    """All weights of all branches times a number; biases stay as they are."""
    made = {id(block): tuple(_add(add, times**2) for add in block) for block in stack.blocks}  # equal blocks stay one object
    blocks: tuple[Block, ...] = tuple(made[id(block)] for block in stack.blocks)
    return replace(stack, blocks=blocks)


def _add(add: Add, square: float) -> Add:
    return replace(add, inlets=tuple(_inlet(inlet, square) for inlet in add.inlets))


def _inlet(inlet: Inlet, square: float) -> Inlet:
    steps = tuple(
        replace(s, forward_gain=s.forward_gain * square, backward_gain=s.backward_gain * square) if isinstance(s, Linear) else s
        for s in inlet.program.steps
    )
    return replace(inlet, program=replace(inlet.program, steps=steps))


__all__ = ["smaller"]
