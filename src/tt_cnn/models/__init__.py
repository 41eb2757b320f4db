# SPDX-License-Identifier: Apache-2.0
"""The models of the project: `list_models()`, then `create_reference(name)` and `create_tt(name, device)`."""

from tt_cnn.models.pipelines import EXECUTORS, create_pipeline
from tt_cnn.models.registry import (
    ModelEntry,
    ShippedWeights,
    create_reference,
    create_tt,
    list_models,
    model_entry,
    register,
)
from tt_cnn.models.tt_model import TtModel

__all__ = [
    "EXECUTORS",
    "ModelEntry",
    "ShippedWeights",
    "TtModel",
    "create_pipeline",
    "create_reference",
    "create_tt",
    "list_models",
    "model_entry",
    "register",
]
