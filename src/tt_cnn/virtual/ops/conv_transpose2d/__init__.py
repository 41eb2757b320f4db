"""Transposed convolutions: convolutions over an input with zeros put between its pixels."""
