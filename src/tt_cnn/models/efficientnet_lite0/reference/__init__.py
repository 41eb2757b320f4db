# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0 in plain PyTorch."""

from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0, InvertedResidual

__all__ = ["EfficientNetLite0", "InvertedResidual"]
