# SPDX-License-Identifier: Apache-2.0
"""Masks from the card as PyTorch has them, and the parameters of the reference."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.models.vanilla_unet.reference.model import UNet
from tt_cnn.preprocessing import preprocess_model_parameters


def preprocess(reference: UNet, mesh_mapper: Any = None) -> Any:
    """The parameters by the reference's names, batch norms folded into the convolutions before them."""
    return preprocess_model_parameters(
        initialize_model=lambda: reference, fold_batch_norm=True, dtype=ttnn.float32, mesh_mapper=mesh_mapper
    )


def to_mask(output: Any, resolution: tuple[int, int], mesh_composer: Any = None) -> torch.Tensor:
    """(N, 1, C, H * W) as (N, C, H, W) in float32."""
    planes = ttnn.to_torch(output, mesh_composer=mesh_composer).float()
    return planes.reshape(planes.shape[0], planes.shape[2], *resolution)
