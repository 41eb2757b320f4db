# SPDX-License-Identifier: Apache-2.0
"""YOLOv8 in PyTorch."""
