# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0 on the builder."""

from __future__ import annotations

from typing import Any

from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0
from tt_cnn.models.efficientnet_lite0.tt.common import names_of
from tt_cnn.models.efficientnet_lite0.tt.config import create_configuration
from tt_cnn.models.inverted_residuals import InvertedResidualNetwork
from tt_cnn.models.tt_model import Precision


class TtEfficientNetLite0(InvertedResidualNetwork):
    """Layers are named as the reference names its convolutions: `blocks.3.expand.conv`."""


def create_tt_efficientnet_lite0(
    reference: EfficientNetLite0, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: Precision
) -> TtEfficientNetLite0:
    configuration = create_configuration(
        reference, device, resolution=resolution, batch_size=batch_size, precision=precision
    )
    return TtEfficientNetLite0(configuration, names_of(reference), device)
