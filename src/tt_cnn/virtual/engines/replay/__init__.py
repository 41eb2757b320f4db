"""Compiled replays of traces: commands to a graph, the graph to a host engine."""
