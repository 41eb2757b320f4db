# SPDX-License-Identifier: Apache-2.0
"""Readings of commands for people to look at."""
