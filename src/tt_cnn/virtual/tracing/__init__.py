"""Traces: commands recorded once and replayed, and the memory they stand on."""
