"""Attacks on bounds: inputs and weights against every bound of a branch."""
