# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 on the card."""
