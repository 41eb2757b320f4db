"""Normalizations: softmax, layer, RMS, batch and group norm."""
