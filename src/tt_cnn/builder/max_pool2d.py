# SPDX-License-Identifier: Apache-2.0
"""The max pool layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.max_pool2d_configuration import MaxPool2dConfiguration
from tt_cnn.builder.pool import PoolLayer


class TtMaxPool2d(PoolLayer):
    configuration: MaxPool2dConfiguration
    configured_by = MaxPool2dConfiguration

    def pool(self, x: Any) -> Any:
        return ttnn.max_pool2d(input_tensor=x, channels=self.channels_per_slice, **self.get_maxpool2d_kwargs())

    def get_maxpool2d_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.max_pool2d` that the configuration decides, but for the channels."""
        return self.keywords("dilation")
