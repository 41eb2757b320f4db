# SPDX-License-Identifier: Apache-2.0
"""The calls of one pass of a model as a graph, and the search for layouts and cores over the whole of it."""
