# SPDX-License-Identifier: Apache-2.0
"""The references of our own models as factories without arguments, as `tt-cnn bringup` takes a model."""

from torch import nn

from tt_cnn.models.registry import create_reference


def vanilla_unet() -> nn.Module:
    return create_reference("vanilla_unet")


def yolov4() -> nn.Module:
    return create_reference("yolov4")


def resnet50() -> nn.Module:
    return create_reference("resnet50")


def mobilenetv2() -> nn.Module:
    return create_reference("mobilenetv2")


def yolov8s() -> nn.Module:
    return create_reference("yolov8s")
