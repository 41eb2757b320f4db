# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 on the builder."""

from __future__ import annotations

from typing import Any

from tt_cnn.models.inverted_residuals import InvertedResidualNetwork
from tt_cnn.models.mobilenetv2.reference.model import MobileNetV2
from tt_cnn.models.mobilenetv2.tt.common import names_of
from tt_cnn.models.mobilenetv2.tt.config import create_configuration
from tt_cnn.models.tt_model import Precision


class TtMobileNetV2(InvertedResidualNetwork):
    """Layers are named as the reference names its convolutions: `features.3.conv.0.0`."""


def create_tt_mobilenetv2(
    reference: MobileNetV2, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: Precision
) -> TtMobileNetV2:
    configuration = create_configuration(
        reference, device, resolution=resolution, batch_size=batch_size, precision=precision
    )
    return TtMobileNetV2(configuration, names_of(reference), device)
