# SPDX-License-Identifier: Apache-2.0
"""The demo of MobileNetV2."""
