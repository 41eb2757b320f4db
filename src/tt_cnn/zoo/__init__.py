# SPDX-License-Identifier: Apache-2.0
"""Architectures in plain PyTorch, one file per family: `list_architectures()`, then `create_architecture(name)`."""

from tt_cnn.zoo.registry import (
    Architecture,
    architecture,
    create_architecture,
    list_architectures,
    register_architecture,
)

__all__ = [
    "Architecture",
    "architecture",
    "create_architecture",
    "list_architectures",
    "register_architecture",
]
