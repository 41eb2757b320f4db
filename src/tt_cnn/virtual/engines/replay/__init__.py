# SPDX-License-Identifier: Apache-2.0
"""Compiled replays of traces: commands to a graph, the graph to a host engine."""
