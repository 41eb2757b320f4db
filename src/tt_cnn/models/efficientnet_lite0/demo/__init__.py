# SPDX-License-Identifier: Apache-2.0
"""The demo of EfficientNet-Lite0."""
