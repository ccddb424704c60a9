"""The probe: measures on real weights, one block at a time, what the analysis predicts (theory, section 10).

`plan` holds plain data and imports no torch; everything else runs in the process that may run the user's code.
"""
