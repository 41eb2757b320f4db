# SPDX-License-Identifier: Apache-2.0
"""Errors: refusals by the card, commands that failed on their queue, faults of tt-cnn itself."""
