# SPDX-License-Identifier: Apache-2.0
"""What an image's drawing gives beside the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Picture: TypeAlias = NDArray[np.uint8]
"""(height, width, 3), RGB."""

Mask: TypeAlias = NDArray[np.uint8]
"""(height, width): 1 where the object is, 0 elsewhere."""


@dataclass(frozen=True)
class Boxes:
    """The objects of an image, as COCO has them."""

    xywh: NDArray[np.float32]
    """(objects, 4): left, top, width, height in pixels, inside the image."""
    labels: NDArray[np.int64]
    """(objects,): indices into the data set's `class_names`."""

    def __len__(self) -> int:
        return len(self.labels)
