# SPDX-License-Identifier: Apache-2.0
"""Measure the weights that the package ships, from their files: `python -m training.check --help`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from training import detection, segmentation
from tt_cnn.evaluation.drawn_data import DetectionShapes, SegmentationShapes
from tt_cnn.models.vanilla_unet.reference.model import UNet
from tt_cnn.models.yolov4.reference.model import YOLOv4


def loaded(model: nn.Module, path: Path) -> nn.Module:
    from safetensors.torch import load_file

    model.load_state_dict({name: value.float() for name, value in load_file(path).items()})
    return model.eval()


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """(IoU, mAP50) on the first images that no training saw."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--pictures", type=int, default=50, help="how many of each data set")
    options.add_argument("--batch", type=int, default=4, help="images at a time")
    arguments = options.parse_args(argv)
    count, device = arguments.pictures, torch.device("cpu")

    unet = loaded(UNet(features=16), segmentation.OUTPUT)
    masks = segmentation.Batches(SegmentationShapes("val", count=count), 1, device)
    iou = segmentation.intersection_over_union(unet, masks, arguments.batch)
    print(f"{segmentation.OUTPUT}: val IoU {iou:.4f} on {count} images")

    yolo = loaded(YOLOv4(classes=4, width=0.25), detection.OUTPUT)
    boxes = detection.Batches(DetectionShapes("val", count=count), 1, device)
    precision = detection.mean_average_precision(yolo, boxes, arguments.batch, classes=4)
    print(f"{detection.OUTPUT}: val mAP50 {precision:.4f} on {count} images")
    return iou, precision


if __name__ == "__main__":
    main()
