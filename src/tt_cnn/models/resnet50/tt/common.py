# SPDX-License-Identifier: Apache-2.0
"""Parameters of the reference as the card takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import pad

from tt_cnn import ttnn
from tt_cnn.models.resnet50.reference.model import ResNet50
from tt_cnn.models.tt_model import weights_mapper
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d, preprocess_model_parameters

FOLD = 2
"""The stem works on patches of FOLD x FOLD pixels: the stride of the first convolution goes into them."""
BORDER = 3
"""Pixels of zeros around the image: the padding of the first convolution."""
FOLDED_KERNEL = 4
"""7 pixels are 3.5 patches: the kernel gets a row and a column of zeros."""
PLANES = 4
"""Channels of a pixel on the card, the image's three and one of zeros."""
PATCH_CHANNELS = FOLD * FOLD * PLANES


def convert_parameters(reference: ResNet50, device: Any) -> Any:
    """Weights and biases on the host, nested as the reference is, batch norms folded in; `conv1` is for patches."""
    mapper = weights_mapper(device)
    parameters: Any = preprocess_model_parameters(
        initialize_model=lambda: reference, dtype=ttnn.float32, mesh_mapper=mapper
    )
    weight, _ = fold_batch_norm2d_into_conv2d(reference.conv1, reference.bn1)
    parameters["conv1"]["weight"] = ttnn.from_torch(folded_weight(weight), dtype=ttnn.float32, mesh_mapper=mapper)
    return parameters


def folded_weight(weight: torch.Tensor) -> torch.Tensor:
    """The convolution of patches, stride 1, that equals one of pixels, stride FOLD.

    (out, 3, 7, 7) becomes (out, 16, 4, 4). Channels of a patch are in the order of `ttnn.fold`: pixel by pixel, row by
    row.
    """
    outputs, inputs, height, width = weight.shape
    size = FOLD * FOLDED_KERNEL
    pixels = pad(weight, (0, size - width, 0, size - height, 0, PLANES - inputs))
    patches = pixels.reshape(outputs, PLANES, FOLDED_KERNEL, FOLD, FOLDED_KERNEL, FOLD).permute(0, 3, 5, 1, 2, 4)
    return patches.reshape(outputs, PATCH_CHANNELS, FOLDED_KERNEL, FOLDED_KERNEL).contiguous()
