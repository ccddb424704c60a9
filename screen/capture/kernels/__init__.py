"""Kernels that are not installed: functions of the same mathematics in their place, where the import is all that is missing."""
