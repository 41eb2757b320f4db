# SPDX-License-Identifier: Apache-2.0
"""`ttnn.transformer`: ops registered as `transformer.NAME`."""

from tt_cnn.virtual.ttnn.missing import resolver

__getattr__ = resolver("transformer.")
