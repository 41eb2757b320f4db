# SPDX-License-Identifier: Apache-2.0
"""What a card would take: durations of steps, gaps between them, transfers, and both queues' timelines."""
