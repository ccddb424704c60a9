"""Ops of the house's own kernels that compute what an op of torch does, with the same arguments in the same order."""

SAME = {"house::rms_norm": "rms_norm"}
