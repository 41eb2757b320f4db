# SPDX-License-Identifier: Apache-2.0
"""The card's memory: banks, what they hold, and shard grids that a card has."""
