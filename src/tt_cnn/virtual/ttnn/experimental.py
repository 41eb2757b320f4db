# SPDX-License-Identifier: Apache-2.0
"""`ttnn.experimental`: ops registered as `experimental.NAME`."""

from tt_cnn.virtual.ttnn.missing import resolver

__getattr__ = resolver("experimental.")
