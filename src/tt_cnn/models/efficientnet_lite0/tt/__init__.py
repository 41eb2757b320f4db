# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0 on the card."""
