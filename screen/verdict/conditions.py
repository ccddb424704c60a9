"""What has to hold in training for a conditional finding to do no harm: ids that rules name, and their texts in the report.

A recipe states such things; without one each is listed as not stated.
"""

from __future__ import annotations

CONDITIONS = {
    "bounded-weights": "the weights stay bounded in training: decoupled weight decay on the maps of the branches, or small and few updates",
    "bounded-logits": "the attention logits stay bounded: a learning rate below the onset of logit growth, weight decay on Q and K, or σReparam",
    "warm-up": "learning-rate warm-up and a lower learning rate than an identity path allows",
    "initialisation": "training starts from the initialisation that was recorded",
    "run-time-scale": "the scale that is set when the model runs compensates for depth (2N(v² + w²)/α² at most about 1)",
    "stream-gain": "the product over depth of the scales on the stream is near 1 and stays so: a low learning rate on learned ones",
    "learned-scale": "the learned scales that start at zero stay small: a low learning rate or weight decay on them",
    "small-gain": "the gain of the branches without norms stays small for this depth",
    "converged-iteration": "the vectors that a weight's norm is estimated with follow the weight: a power iteration in every step, and small steps",
    "float16-range": "activations stay inside the range of float16 (largest value 65504): loss scaling does not help the forward pass",
    "final-norm": "the head is fed a stream of bounded size by other means than a final norm",
    "rules-left-out": "what the rules that were left out by `--select` or `--ignore` would have found does no harm",
    "declared-structure": "what the rule found is meant: see its finding",
}
"""id -> text."""

__all__ = ["CONDITIONS"]
