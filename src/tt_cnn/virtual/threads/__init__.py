# SPDX-License-Identifier: Apache-2.0
"""Threads that wait, and what is left of them in the child of a fork."""
