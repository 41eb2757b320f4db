# SPDX-License-Identifier: Apache-2.0
"""Command queues: commands, events, races between queues, and how long commands take."""
