"""Experiment `precision`: a block in float16 and bfloat16 as its own program runs there, beside the reference.

`run` goes over the blocks of a plan, `experiments` has what is measured of one, `program` the trace in 16 bits.
"""
