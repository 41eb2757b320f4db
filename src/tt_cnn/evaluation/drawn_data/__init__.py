# SPDX-License-Identifier: Apache-2.0
"""Data sets that the project draws itself: the same images on every machine, from a seed and an index."""

from tt_cnn.evaluation.drawn_data.detection import DetectionShapes
from tt_cnn.evaluation.drawn_data.drawn import DrawnPictures, Split
from tt_cnn.evaluation.drawn_data.segmentation import SegmentationShapes
from tt_cnn.evaluation.drawn_data.targets import Boxes, Mask

__all__ = ["Boxes", "DetectionShapes", "DrawnPictures", "Mask", "SegmentationShapes", "Split"]
