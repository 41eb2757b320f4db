"""Convolutions of e4m3 numbers, on GPUs that multiply those."""
