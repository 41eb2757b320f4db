# SPDX-License-Identifier: Apache-2.0
"""The `tt-cnn` command."""

from tt_cnn.cli.application import app, main

__all__ = ["app", "main"]
