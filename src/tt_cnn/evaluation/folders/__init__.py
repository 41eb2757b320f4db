# SPDX-License-Identifier: Apache-2.0
"""Data sets in folders: images with COCO's annotations, with masks, or in a folder for each class."""

from tt_cnn.evaluation.folders.class_folder import ClassFolder
from tt_cnn.evaluation.folders.coco_folder import CocoBoxes, CocoFolder
from tt_cnn.evaluation.folders.mask_folder import MaskFolder
from tt_cnn.evaluation.folders.pictures_alone import PicturesAlone, photographs

__all__ = ["ClassFolder", "CocoBoxes", "CocoFolder", "MaskFolder", "PicturesAlone", "photographs"]
