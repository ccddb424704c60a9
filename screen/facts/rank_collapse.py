"""The slowest bound on token collapse: what remains of 1 − cos when every attention is as even as can be.

On a stream that is normalised after each sum, attention with value gain v (E‖O·V·x‖² = v·‖x‖²) turns the covariance of unit tokens of cosine c
into c + v·a and its diagonal into 1 + v·a, where a is the mean covariance that the attention rows see: 1 − cos becomes (1 − c)/(1 + v·a), and a ≤ 1.
So one block multiplies 1 − cos by no less than 1/(1 + v), whatever the logits, masks and positions are (review, T4); a feed-forward layer
is neutral near collapse. In mean square over independent random weights, at the recorded initialisation.
"""

from __future__ import annotations

import math

from screen.facts.record import Facts
from screen.facts.weight_gains import path_gains
from screen.structure.types import Stream, Sublayer, Unknown

MIXERS = ("attention", "cross_attention")
NEUTRAL = ("ffn", "gated_ffn", "moe")
FEW = 2
"""Other branches over the whole depth that are left out: a convolution for positions before the first block is no law of depth."""


def least_one_minus_cos(facts: Facts, stream: Stream) -> float | Unknown:
    """A lower bound of 1 − cos between tokens after the last block, for tokens that start apart; from the gains of V and O alone."""
    total = 0.0
    for kind in stream.kinds:
        for sublayer in kind.sublayers:
            times = facts.passes(stream, kind)
            if sublayer.role in NEUTRAL or (sublayer.role not in MIXERS and times <= FEW):
                continue
            gain = value_gain(facts, sublayer) if sublayer.role in MIXERS else Unknown(f"`{sublayer.name}` is no attention", (sublayer.output,))
            if isinstance(gain, Unknown):
                return gain
            total += times * math.log1p(gain)
    return math.exp(-total)


def value_gain(facts: Facts, sublayer: Sublayer) -> float | Unknown:
    """v: the mean-square gain along the shortest product of weights of the branch, V and O of attention."""
    gains = path_gains(facts, sublayer)
    if isinstance(gains, Unknown):
        return gains
    return math.prod(gains) if len(gains) == 2 else Unknown(f"the value path of `{sublayer.name}` is not two maps", (sublayer.output,))


__all__ = ["least_one_minus_cos", "value_gain"]
