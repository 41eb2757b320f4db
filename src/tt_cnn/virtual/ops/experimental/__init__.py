# SPDX-License-Identifier: Apache-2.0
"""Ops that TT-NN keeps in `ttnn.experimental` and `ttnn.transformer`: layouts of images, attention heads."""
