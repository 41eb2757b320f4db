"""Pools: max, average, global and adaptive."""
