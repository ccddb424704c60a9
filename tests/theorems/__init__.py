"""Tests of the calculators of `screen.theorems`: each number of a theorem against a brute-force or adversarial measurement."""
