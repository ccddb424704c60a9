"""Attacks on the bounds of `screen.calculi.bounds`: random blocks, hostile weights, ascent on inputs; nothing measured may exceed a bound."""
