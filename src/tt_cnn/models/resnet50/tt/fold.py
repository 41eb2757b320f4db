# SPDX-License-Identifier: Apache-2.0
"""Images as patches, for the stem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import Configuration, Layer
from tt_cnn.builder.rules import instance, wholes
from tt_cnn.models.resnet50.tt.common import BORDER, FOLD, PLANES

CHANNELS = 3


@dataclass(frozen=True, eq=False)
class FoldConfiguration(Configuration):
    batch_size: int
    grid: Any
    """Cores that fold, each with whole planes of the padded images; a CoreRangeSet."""
    memory_config: Any
    """Where the patches are put."""

    rules = (
        *wholes("batch_size"),
        instance("grid", ttnn.CoreRangeSet),
        instance("memory_config", ttnn.MemoryConfig),
    )


class TtFold(Layer):
    """The channels of FOLD x FOLD pixels side by side, a border of zeros counted in: (1, 1, patches, channels)."""

    configuration: FoldConfiguration
    configured_by = FoldConfiguration

    def run(self, x: Any) -> Any:
        patches = ttnn.fold(
            x,
            FOLD,
            FOLD,
            use_transpose_as_fold=True,
            padding=[BORDER, BORDER, BORDER, BORDER, 0, PLANES - CHANNELS],
            grid_size=self.configuration.grid,
            override_memory_config=self.configuration.memory_config,
        )
        batch, height, width, channels = patches.shape
        return ttnn.reshape(patches, (1, 1, batch * height * width, channels))
