# SPDX-License-Identifier: Apache-2.0
"""`ttnn._ttnn`, the bindings of the real library: what TT-NN's own fixtures take from there."""

from __future__ import annotations

from tt_cnn.virtual.ttnn._ttnn import multi_device as multi_device
